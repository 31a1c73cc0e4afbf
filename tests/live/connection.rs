//! The connection against a real kube-apiserver: what the server makes of our credentials and impersonation, and that a
//! failure reads as kubectl's own.

use std::path::Path;
use std::process::Command;

use kubectl_gitops::cluster::{Cluster, Environment, FailureKind};
use kubectl_gitops::error::Error;
use serde_json::{Value, json};
use test_support::connection::args;
use xtask::cluster::Options;

async fn connect(kubeconfig: &Path, flags: &[&str]) -> Result<Cluster, Error> {
    let variables = [("KUBECONFIG".to_owned(), kubeconfig.into())].into();
    Cluster::connect_in(&args(flags), &Environment { variables, ..Environment::default() }).await
}

/// The last line that kubectl writes to stderr.
fn kubectl_says(kubeconfig: &Path, flags: &[&str]) -> String {
    let program = xtask::controlplane::bin("kubectl");
    let output = Command::new(program).args(["get", "configmaps"]).args(flags).env("KUBECONFIG", kubeconfig).output();
    let text = String::from_utf8(output.expect("kubectl runs").stderr).expect("text");
    text.lines().last().unwrap_or_default().to_owned()
}

/// Whom the API server takes us for.
async fn who_am_i(cluster: &Cluster) -> Value {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let request = http::Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header("Content-Type", "application/json")
        .header("Accept", "application/json")
        .body(review.to_string().into_bytes())
        .expect("a request");
    let answer = cluster.send(request).await.unwrap_or_else(|failure| panic!("{failure}"));
    let review: Value = serde_json::from_slice(&answer.body).expect("JSON");
    review["status"]["userInfo"].clone()
}

#[tokio::test]
async fn connection_to_a_real_api_server() {
    let real = xtask::cluster::Cluster::up(Options::default()).expect("a control plane");
    let (admin, alice) = (real.kubeconfig(), real.kubeconfig_for("alice"));

    let cluster = connect(&admin, &[]).await.expect("a connection");
    assert_eq!((&*cluster.server, &*cluster.namespace), (&*real.server_url(), "default"));
    assert_eq!(who_am_i(&cluster).await["username"], "admin");

    let flags = ["--as=eve", "--as-uid=7", "--as-group=dev", "--as-group=ops", "--as-user-extra=acme.com/team=x"];
    let user = who_am_i(&connect(&admin, &flags).await.expect("a connection")).await;
    assert_eq!((&user["username"], &user["uid"]), (&json!("eve"), &json!("7")), "{user}");
    assert_eq!(user["extra"], json!({"acme.com/team": ["x"]}), "{user}");
    for group in ["dev", "ops"] {
        assert!(user["groups"].as_array().expect("groups").contains(&json!(group)), "{user}");
    }

    cluster.get("/api/v1/componentstatuses", "application/json").await.expect("an answer");
    assert_eq!(cluster.take_warnings(), ["v1 ComponentStatus is deprecated in v1.19+"]);

    // A failure reads as kubectl's own, and says what to do.
    let path = "/api/v1/namespaces/default/configmaps";
    for (name, file, flags, kind, hint) in [
        ("unknown token", &admin, vec!["--token=nonsense"], FailureKind::Unauthorized, "kubectl auth whoami"),
        ("no right", &alice, vec![], FailureKind::Forbidden, "kubectl auth can-i list configmaps -n default"),
        ("may not impersonate", &alice, vec!["--as=eve"], FailureKind::Forbidden, "kubectl auth can-i"),
        ("refused", &admin, vec!["-s", "https://127.0.0.1:1"], FailureKind::Unreachable, "kubectl config view"),
    ] {
        let cluster = connect(file, &flags).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        let failure = cluster.get(path, "application/json").await.expect_err(name);
        assert_eq!(failure.kind, kind, "{name}: {failure}");
        let theirs = kubectl_says(file, &flags);
        let theirs = theirs.strip_prefix("error: ").unwrap_or(&theirs);
        // kubectl fails in discovery, where it replaces the server's own word for 401.
        let theirs = theirs.replace("the server has asked for the client to provide credentials", "Unauthorized");
        assert_eq!(failure.to_string(), theirs, "{name}");
        assert!(Error::from(failure).hint.expect(name).contains(hint), "{name}");
    }

    // So do the errors of the kubeconfig; kubectl's prefix is the terminal's business.
    for flags in [
        ["--context=nope"],
        ["--cluster=nope"],
        ["--user=nope"],
        ["--as-group=g"],
        ["--kubeconfig=/nonexistent/k"],
        ["--certificate-authority=/nonexistent/ca"],
    ] {
        let error = connect(&admin, &flags).await.err().expect(flags[0]);
        let theirs = kubectl_says(&admin, &flags);
        let theirs =
            theirs.strip_prefix("error: ").or(theirs.strip_prefix("Error in configuration: ")).unwrap_or(&theirs);
        assert_eq!(error.message, theirs, "{flags:?}");
    }
}
