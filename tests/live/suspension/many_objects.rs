//! Many objects, a watch, and what monitoring sees, on the real API server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use test_support::cluster::LIMIT;
use test_support::gitops::{binary, gitops};
use test_support::suspension::ok;
use xtask::cluster::{Cluster, Flux, Options, free_port};

fn up() -> Cluster {
    Cluster::up(Options { flux: Flux::Crds, audit: true, ..Options::default() }).expect("the test cluster comes up")
}

fn kustomization(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"interval": "1h", "path": "./", "prune": true, "sourceRef": {"kind": "GitRepository", "name": "src"}},
    })
}

/// A program that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn five_hundred_objects_take_one_list_for_each_kind_and_one_patch_each() {
    let cluster = &up();
    let items: Vec<_> = (0..500).map(|number| kustomization("default", &format!("ks-{number:03}"))).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    cluster.kubectl_stdin(&["create", "-f", "-"], &list.to_string()).unwrap();
    let run = |args: &[&str]| {
        let before = cluster.requests_of("admin", "gitops").unwrap().len();
        let start = Instant::now();
        let run = gitops(cluster, args);
        let took = start.elapsed();
        let requests = cluster.requests_of("admin", "gitops").unwrap().split_off(before);
        xtask::say(format!("{args:?}: {} requests, {took:?}", requests.len()));
        (run, requests)
    };
    let (get, requests) = run(&["get", "-A"]);
    assert_eq!(ok(&get).lines().count(), 501);
    let kinds = gitops_core::flux::kinds::KINDS.len();
    assert!(requests.len() <= 2 + kinds + 1, "discovery, a list for each kind, the one source: {requests:?}");
    assert!(requests.iter().all(|request| !request.writes()));

    let (one, requests) = run(&["get", "ks", "-A"]);
    assert_eq!(ok(&one).lines().count(), 501);
    let lists: Vec<_> = requests.iter().filter(|request| request.verb == "list").collect();
    assert_eq!(lists.len(), 1, "kinds that are not shown are not read: {requests:?}");

    let (suspend, requests) = run(&["suspend", "--all", "-n", "default", "-m", "drill", "--yes"]);
    assert_eq!(ok(&suspend).lines().count(), 500);
    assert_eq!(requests.iter().filter(|request| request.verb == "patch").count(), 500);
    assert!(requests.len() <= 2 + kinds + 1 + 500, "discovery, lists, the user, patches: {}", requests.len());

    let (again, requests) = run(&["suspend", "--all", "-n", "default", "-m", "drill", "--yes"]);
    assert_eq!(ok(&again).matches(" unchanged").count(), 500);
    let writes: Vec<_> = requests.iter().filter(|request| request.writes()).collect();
    assert!(
        writes.iter().all(|request| request.uri.contains("selfsubjectreviews")),
        "only the question who the user is: {writes:?}"
    );
}

#[test]
fn a_watch_shows_what_changes_and_marks_what_is_gone() {
    let cluster = &up();
    cluster.kubectl_stdin(&["create", "-f", "-"], &kustomization("default", "first").to_string()).unwrap();
    let mut command = Command::new(binary());
    command.args(["get", "-w"]).env("KUBECONFIG", cluster.kubeconfig());
    let mut watch = Running(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let lines = BufReader::new(watch.0.stdout.take().unwrap()).lines().map_while(Result::ok);
    let (sender, rows) = std::sync::mpsc::channel();
    std::thread::spawn(move || lines.for_each(|line| _ = sender.send(line)));
    let next = || rows.recv_timeout(LIMIT).expect("the watch goes on");
    assert!(next().starts_with("NAMESPACE"));
    assert!(next().contains("first"));
    cluster.kubectl_stdin(&["create", "-f", "-"], &kustomization("default", "second").to_string()).unwrap();
    assert!(next().contains("second"));
    ok(&gitops(cluster, &["suspend", "ks/second", "-m", "drill", "--yes"]));
    let row = next();
    assert!(row.contains("second") && row.contains("annotation"), "{row}");
    cluster.kubectl(&["delete", "ks", "second"]).unwrap();
    let row = next();
    assert!(row.contains("second") && row.ends_with("DELETED"), "{row}");
}

#[test]
fn kube_state_metrics_shows_suspensions_with_their_messages() {
    xtask::controlplane::ensure(&["kube-state-metrics"]).unwrap();
    let cluster = &up();
    cluster.kubectl_stdin(&["create", "-f", "-"], &kustomization("default", "apps").to_string()).unwrap();
    let [port, telemetry] = [(); 2].map(|()| free_port().unwrap().to_string());
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/config/kube-state-metrics.yaml");
    let mut command = Command::new(xtask::controlplane::bin("kube-state-metrics"));
    command.arg("--kubeconfig").arg(cluster.kubeconfig());
    command.args(["--custom-resource-state-only", "--custom-resource-state-config-file", config]);
    command.args(["--host=127.0.0.1", "--port", &port, "--telemetry-host=127.0.0.1", "--telemetry-port", &telemetry]);
    let _running = Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let series = |wanted: &[&str]| {
        let text = scrape(&port).unwrap_or_default();
        text.lines().any(|line| wanted.iter().all(|part| line.contains(part)))
    };
    let alert = json!({"apiVersion": "notification.toolkit.fluxcd.io/v1beta3", "kind": "Alert", "metadata": {"name": "alert"},
        "spec": {"providerRef": {"name": "x"}, "eventSources": [{"kind": "Bucket", "name": "*"}]}});
    cluster.kubectl_stdin(&["create", "-f", "-"], &alert.to_string()).unwrap();
    let no_status = || Ok(series(&["gitops_resource_info{", r#"customresource_kind="Alert""#]));
    cluster.wait_for("the series of an object without a status", LIMIT, no_status).unwrap();
    let info = [r#"gitops_resource_info{"#, r#"name="apps""#];
    cluster.wait_for("the series of the Kustomization", LIMIT, || Ok(series(&info))).unwrap();
    assert!(!series(&["gitops_suspended_info{"]));
    ok(&gitops(cluster, &["suspend", "ks/apps", "-m", "drill", "--spec"]));
    let flipped = || Ok(series(&[info[0], info[1], r#"suspended="true""#, r#"suspended_annotation="drill""#]));
    cluster.wait_for("the series flips", LIMIT, flipped).unwrap();
    let message = || Ok(series(&["gitops_suspended_info{", r#"message="drill""#, r#"name="apps""#]));
    cluster.wait_for("the series of the message", LIMIT, message).unwrap();
    assert!(!series(&["gitops_suspended_until{"]), "no end");
    let end = chrono::Utc::now().timestamp() + 7200;
    ok(&gitops(cluster, &["suspend", "ks/apps", "--for", "2h", "--overwrite"]));
    let ends = |text: &str| {
        let line =
            text.lines().find(|line| line.starts_with("gitops_suspended_until{") && line.contains("name=\"apps\""));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
    };
    let until =
        || Ok(scrape(&port).ok().and_then(|text| ends(&text)).is_some_and(|time| (time as i64 - end).abs() < 60));
    cluster.wait_for("the end of the suspension", LIMIT, until).unwrap();
    ok(&gitops(cluster, &["resume", "ks/apps", "--spec"]));
    cluster.wait_for("the message goes", LIMIT, || Ok(!series(&["gitops_suspended_info{"]))).unwrap();
}

/// The metrics that a port gives.
fn scrape(port: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}"))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}
