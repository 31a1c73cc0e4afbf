//! A controller that honours the annotation: `examples/honouring_controller.rs` on the real API server.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use test_support::cluster::LIMIT;
use test_support::gitops::binary;
use test_support::suspension::{generation, read, receiver};
use xtask::cluster::{Cluster, Flux, Options};

/// The example controller; it ends with the test.
struct Honouring(Child);

impl Honouring {
    fn start(cluster: &Cluster) -> Self {
        let program = binary().with_file_name("examples").join("honouring_controller");
        let mut command = Command::new(program);
        command.args(["notification.toolkit.fluxcd.io/v1", "Receiver", "1"]).env("KUBECONFIG", cluster.kubeconfig());
        Self(command.spawn().expect("`cargo build --examples` has built it"))
    }
}

impl Drop for Honouring {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_controller_that_honours_the_annotation_stops_sleeps_and_wakes() {
    let _alone = crate::alone();
    let options = Options { flux: Flux::Crds, ..Options::default() };
    let cluster = &Cluster::up(options).unwrap();
    let receiver = receiver("default");
    cluster.kubectl_stdin(&["apply", "-f", "-"], &receiver.to_string()).unwrap();
    let controller = Honouring::start(cluster);
    let count = || {
        let object = read(cluster, "receiver", "default", "receiver");
        let message = object["status"]["conditions"][0]["message"].as_str().unwrap_or("run 0").to_owned();
        (message.trim_start_matches("run ").parse::<u64>().unwrap(), generation(&object))
    };
    cluster.wait_for("three runs", LIMIT, || Ok(count().0 >= 3)).unwrap();
    let gitops = |args: &[&str]| {
        let mut command = Command::new(binary());
        command.args(args).env("KUBECONFIG", cluster.kubeconfig()).env("KUBECTL_GITOPS_ANNOTATION_HONOURED", "true");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let before = count();
    assert_eq!(gitops(&["suspend", "receiver/receiver", "-m", "drill"]), "", "nothing to warn of");
    std::thread::sleep(Duration::from_secs(1));
    let asleep = count();
    assert_eq!(asleep.1, before.1, "the generation stands still");
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(count().0, asleep.0, "no run while suspended, although timers were set");
    gitops(&["suspend", "receiver/receiver", "-m", "longer drill", "--overwrite"]);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(count().0, asleep.0, "another message wakes nobody");
    assert!(!gitops(&["get", "receivers"]).contains("NOT HONOURED"));
    let start = Instant::now();
    gitops(&["resume", "receiver/receiver", "--wait"]);
    assert!(start.elapsed() < Duration::from_secs(5), "woken at once: {:?}", start.elapsed());
    assert!(count().0 > asleep.0);
    assert_eq!(count().1, before.1);
    drop(controller);
}
