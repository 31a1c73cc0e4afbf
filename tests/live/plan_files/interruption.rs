//! Runs that end early: signals, and `kill -9` at random moments.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use test_support::folder::folder;
use test_support::gitops::{Run, binary, gitops};
use test_support::random::Random;
use xtask::cluster::Cluster;

use super::{plan, reconcile, remaining, state, with_leaks};

fn spawn(cluster: &Cluster, words: &[&str]) -> Child {
    let mut command = Command::new(binary());
    command.args(words).env("KUBECONFIG", cluster.kubeconfig());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn kill(child: &Child, signal: &str) {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn a_signal_ends_the_run_between_two_objects_with_the_result_and_code_130() {
    for (namespace, signal) in [("signal-int", "-INT"), ("signal-term", "-TERM")] {
        let cluster = &with_leaks(namespace, 4);
        let patch = r#"{"metadata":{"finalizers":["example.com/held"]}}"#;
        cluster.kubectl(&["patch", "configmap", "cm-2", "-n", namespace, "--type=merge", "-p", patch]).unwrap();
        reconcile(cluster, namespace, &["stays"]);
        let journal = folder(namespace).join("journal.jsonl");
        let words = ["prune", "-n", namespace, "--yes", "--journal", journal.to_str().unwrap(), "--timeout=60s"];
        let child = spawn(cluster, &words);
        let deleting = || {
            let name = ["get", "configmap", "cm-2", "-n", namespace, "-o", "jsonpath={.metadata.deletionTimestamp}"];
            Ok(!cluster.kubectl(&name)?.is_empty())
        };
        cluster.wait_for("cm-2 to be terminating", Duration::from_secs(60), deleting).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        kill(&child, signal);
        let run = Run::from(child.wait_with_output().unwrap());
        assert_eq!(run.code, 130, "{run}");
        for line in [
            "cm-3 -n NS deleted",
            "cm-2 -n NS is still terminating, held by example.com/held",
            "cm-1 -n NS not tried",
            "cm-0 -n NS not tried",
        ] {
            assert!(run.stdout.contains(&line.replace("NS", namespace)), "{line}: {run}");
        }
        let waiting = format!("waiting for configmap/cm-2 -n {namespace}, held by example.com/held");
        assert!(run.stderr.contains(&waiting), "{run}");
        assert!(run.stderr.contains("interrupted: 1 of 4 objects deleted"), "{run}");
        let text = fs::read_to_string(&journal).unwrap();
        assert!(text.contains("\"terminating\"") && !text.contains("cm-1"), "{text}");
        let patch = r#"{"metadata":{"finalizers":null}}"#;
        cluster.kubectl(&["patch", "configmap", "cm-2", "-n", namespace, "--type=merge", "-p", patch]).unwrap();
    }
}

/// Number of kills. `KILLS=50 cargo test --test live killed_at_a_random_moment` runs more than the usual number.
fn kills() -> usize {
    std::env::var("KILLS").map_or(10, |number| number.parse().expect("a number"))
}

#[test]
fn a_run_that_is_killed_at_a_random_moment_is_finished_by_the_next_one() {
    let mut random = Random::new(20_261_122);
    let mut killed = 0;
    for round in 0.. {
        let namespace = &format!("killed-{round}");
        let cluster = &with_leaks(namespace, 200);
        let file = plan(cluster, namespace, &["--max-delete=200"]);
        let journal = folder(namespace).join("journal.jsonl");
        let path = journal.to_str().unwrap();
        let others = |all: std::collections::BTreeMap<String, String>| -> Vec<_> {
            all.into_iter().filter(|(name, _)| !name.contains("/cm-")).collect()
        };
        let before = state(cluster, namespace);
        let limits = ["--yes", "--max-delete=200", "--max-percent=100", "--parallel=4"];
        let words = [&["prune", "--apply", &file, "--journal", path], &limits[..]].concat();
        while killed < kills() && remaining(cluster, namespace).len() > 20 {
            let mut child = spawn(cluster, &words);
            let moment = random.below(2500) as u64;
            std::thread::sleep(Duration::from_millis(moment));
            if child.try_wait().unwrap().is_none() {
                kill(&child, "-KILL");
                killed += 1;
                let left = remaining(cluster, namespace).len();
                xtask::say(format!(
                    "kill {killed} after {moment} ms of run in {namespace}: {left} of 200 objects left"
                ));
            }
            child.wait_with_output().unwrap();
            check_journal(cluster, namespace, &journal);
        }
        let run = gitops(cluster, &words);
        assert_eq!((run.code, remaining(cluster, namespace)), (0, vec![]), "{run}");
        check_journal(cluster, namespace, &journal);
        assert_eq!(others(state(cluster, namespace)), others(before), "nothing else was touched");
        xtask::say(format!("{namespace}: the last run ends with code 0, nothing is left, nothing else was touched"));
        if killed >= kills() {
            return;
        }
    }
}

/// Compares a journal with the cluster: what it calls deleted is gone, and what is gone it has called `deleting` before.
fn check_journal(cluster: &Cluster, namespace: &str, journal: &std::path::Path) {
    let text = fs::read_to_string(journal).unwrap_or_default();
    let mut begun = BTreeSet::new();
    let mut deleted = BTreeSet::new();
    // The last line may be cut.
    for line in text.lines().skip(1) {
        let Ok(entry) = serde_json::from_str::<Value>(line) else { continue };
        let name = entry["object"]["name"].as_str().unwrap().to_owned();
        if entry["result"] == json!("deleted") {
            deleted.insert(name.clone());
        }
        begun.insert(name);
    }
    let left: BTreeSet<String> = remaining(cluster, namespace).into_iter().collect();
    assert!(deleted.is_disjoint(&left), "called deleted and still there: {:?}", deleted.intersection(&left));
    assert!(begun.len() + left.len() >= 200, "gone without a record: {} begun, {} left", begun.len(), left.len());
}
