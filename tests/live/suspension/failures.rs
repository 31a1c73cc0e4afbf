//! Failures while objects are suspended, on the real API server.

use serde_json::json;
use test_support::cluster::up;
use test_support::gitops::{gitops, gitops_as, gitops_typing};
use test_support::shared_cluster;
use test_support::suspension::{annotation, item, ok, read, receiver};
use xtask::cluster::{Flux, Options};

// The cluster of these tests, with the definitions of Flux and none of its controllers.
shared_cluster!(|| up(Options { flux: Flux::Crds, ..Options::default() }));

#[test]
fn failures_are_reported_and_the_rest_is_suspended() {
    let cluster = &cluster();
    let _ = cluster.kubectl(&["create", "namespace", "wrong"]);
    for name in ["one", "two"] {
        let mut object = receiver("wrong");
        object["metadata"]["name"] = json!(name);
        cluster.kubectl_stdin(&["apply", "-f", "-"], &object.to_string()).unwrap();
    }
    let run = gitops(cluster, &["suspend", "receiver", "one", "nope", "two", "-n", "wrong", "-m", "a\n\u{1b}[31mb"]);
    assert_eq!((run.code, run.stdout.lines().count()), (5, 2), "{run:?}");
    assert!(run.stderr.contains("receivers.notification.toolkit.fluxcd.io \"nope\" not found"), "{run:?}");
    assert_eq!(annotation(&read(cluster, "receiver", "wrong", "one")), Some("a\n\u{1b}[31mb"), "stored as it is");
    let table = gitops(cluster, &["get", "-n", "wrong", "-o", "wide"]);
    assert!(table.stdout.contains("a…") && !table.stdout.contains('\u{1b}'), "{table:?}");

    let other = gitops(cluster, &["suspend", "receiver/one", "-n", "wrong", "-m", "mine"]);
    assert_eq!((other.code, other.stdout.as_str()), (6, ""), "{other:?}");
    assert!(other.stderr.contains("already suspended with another message: a…"), "{other:?}");
    ok(&gitops(cluster, &["suspend", "receiver/one", "-n", "wrong", "-m", "mine", "--overwrite"]));
    assert_eq!(item(cluster, "wrong", "receiver/one")["suspension"]["user"], "admin");
    ok(&gitops(cluster, &["resume", "receiver/one", "-n", "wrong"]));
    assert!(
        read(cluster, "receiver", "wrong", "one")["metadata"]["annotations"]["fluxcd.controlplane.io/suspendedBy"]
            .is_null()
    );

    let many = gitops(cluster, &["suspend", "--all", "-n", "wrong", "-m", "x", "--overwrite"]);
    assert_eq!(many.code, 6, "{many:?}");
    assert!(many.stderr.contains("no terminal to ask on"), "{many:?}");
    let dry = gitops(
        cluster,
        &["suspend", "receivers", "--all", "-n", "wrong", "-m", "x", "--overwrite", "--dry-run=server"],
    );
    assert_eq!(ok(&dry).matches("(server dry run)").count(), 2, "{dry:?}");
    assert_eq!(annotation(&read(cluster, "receiver", "wrong", "one")), None);
    let no = gitops_typing(cluster, &["suspend", "--all", "-n", "wrong", "-m", "x", "--overwrite"], "nn");
    assert_eq!(no.code, 4, "{no:?}");
    assert_eq!(annotation(&read(cluster, "receiver", "wrong", "one")), None);
    let yes = gitops_typing(cluster, &["suspend", "--all", "-n", "wrong", "-m", "x", "--overwrite"], "ny");
    assert_eq!(yes.code, 0, "{yes:?}");
    assert_eq!(annotation(&read(cluster, "receiver", "wrong", "one")), Some("x"));

    let nothing = gitops(cluster, &["get", "-n", "nowhere"]);
    assert_eq!((nothing.code, nothing.stdout.as_str()), (0, ""), "{nothing:?}");
    assert!(
        nothing.stderr.starts_with("No resources found in nowhere namespace.\nhint: there are some in "),
        "{nothing:?}"
    );
    let missing = gitops(cluster, &["get", "receiver/nope", "-n", "wrong"]);
    assert_eq!(missing.code, 1, "{missing:?}");
}

#[test]
fn rights_that_are_missing_are_named() {
    let cluster = &cluster();
    let _ = cluster.kubectl(&["create", "namespace", "rights"]);
    cluster.kubectl_stdin(&["apply", "-f", "-"], &receiver("rights").to_string()).unwrap();
    let allow = |user: &str, verbs: &str| {
        let role = format!("receivers-{user}");
        let verbs = format!("--verb={verbs}");
        cluster
            .kubectl(&[
                "create",
                "role",
                &role,
                "-n",
                "rights",
                &verbs,
                "--resource=receivers.notification.toolkit.fluxcd.io",
            ])
            .unwrap();
        cluster
            .kubectl(&[
                "create",
                "rolebinding",
                &role,
                "-n",
                "rights",
                &format!("--role={role}"),
                &format!("--user={user}"),
            ])
            .unwrap();
    };
    allow("alice", "get,list");
    allow("bob", "patch");
    let as_user = |user: &str| {
        gitops_as(&cluster.kubeconfig_for(user), &["suspend", "receiver/receiver", "-n", "rights", "-m", "x"])
    };
    let may_read = as_user("alice");
    assert_eq!((may_read.code, may_read.stdout.as_str()), (1, ""), "{may_read:?}");
    assert!(may_read.stderr.contains("(Forbidden)") && may_read.stderr.contains("cannot patch"), "{may_read:?}");
    let may_write = as_user("bob");
    assert_eq!((may_write.code, may_write.stdout.as_str()), (1, ""), "{may_write:?}");
    assert!(may_write.stderr.contains("(Forbidden)") && may_write.stderr.contains("cannot get"), "{may_write:?}");
    assert_eq!(annotation(&read(cluster, "receiver", "rights", "receiver")), None);

    let some = gitops_as(&cluster.kubeconfig_for("alice"), &["get", "receivers,buckets", "-n", "rights"]);
    assert_eq!((some.code, some.stdout.lines().count()), (5, 2), "{some:?}");
    assert!(some.stderr.contains("buckets.source.toolkit.fluxcd.io in namespace rights could not be read"), "{some:?}");
}

#[test]
fn odd_objects_are_handled() {
    let cluster = &cluster();
    let _ = cluster.kubectl(&["create", "namespace", "odd"]);
    let mut held = receiver("odd");
    held["metadata"]["finalizers"] = json!(["example.invalid/held"]);
    held["metadata"]["annotations"] = json!({"big": "x".repeat(200 * 1024)});
    cluster.kubectl_stdin(&["create", "-f", "-"], &held.to_string()).unwrap();
    let big = gitops(cluster, &["suspend", "receiver/receiver", "-n", "odd", "-m", &"y".repeat(100 * 1024)]);
    assert_eq!(big.code, 1, "{}", big.stderr);
    assert!(big.stderr.contains("(Invalid)") && big.stderr.contains("annotations"), "{}", big.stderr);
    ok(&gitops(cluster, &["suspend", "receiver/receiver", "-n", "odd", "-m", "fits"]));

    for value in ["", "false"] {
        let set = format!("reconcile.fluxcd.io/suspended={value}");
        cluster.kubectl(&["annotate", "receiver", "receiver", "-n", "odd", "--overwrite", &set]).unwrap();
        let item = item(cluster, "odd", "receiver/receiver");
        assert_eq!((&item["suspension"]["by"], &item["suspension"]["value"]), (&json!("annotation"), &json!(value)));
    }
    cluster.kubectl(&["delete", "receiver", "receiver", "-n", "odd", "--wait=false"]).unwrap();
    let deleting = gitops(cluster, &["suspend", "receiver/receiver", "-n", "odd", "--overwrite", "-m", "late"]);
    assert!(deleting.stderr.contains("is being deleted: its finalizers run now"), "{deleting:?}");
    let table = gitops(cluster, &["get", "receivers", "-n", "odd"]);
    assert!(table.stdout.contains("being deleted"), "{table:?}");
    cluster
        .kubectl(&[
            "patch",
            "receiver",
            "receiver",
            "-n",
            "odd",
            "--type=merge",
            "-p",
            r#"{"metadata":{"finalizers":null}}"#,
        ])
        .unwrap();
}
