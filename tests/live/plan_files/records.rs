//! `--backup` and `--journal`: what they write, what kubectl restores, and a disk that is full.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use test_support::folder::folder;
use test_support::gitops::{Run, command_on_full_disk};

use super::{applied, apply, execute, plan, reconcile, remaining, with_leaks};

#[test]
fn kubectl_restores_a_backup_and_secrets_are_in_it_on_request_only() {
    let cluster = &with_leaks("backup", 1);
    apply(cluster, vec![applied("backup", "v1", "Namespace", "", "backup-old")]);
    let _ = cluster.kubectl(&["delete", "configmap", "kube-root-ca.crt", "-n", "backup-old"]);
    let inside = |kind: &str, name: &str, key: &str, value: Value| {
        let mut manifest = applied("backup", "v1", kind, "backup-old", name);
        manifest[key] = value;
        manifest
    };
    apply(
        cluster,
        vec![
            inside("ConfigMap", "settings", "data", json!({"a": "b\n"})),
            inside("Secret", "token", "stringData", json!({"key": "precious"})),
        ],
    );
    reconcile(cluster, "backup", &["stays"]);
    for (name, more, secrets) in [("without", &[][..], 0), ("with", &["--backup-secrets"], 1)] {
        let file = plan(cluster, "backup", &["--allow=namespaces"]);
        let directory = folder(&format!("backup-{name}")).join("objects");
        let path = directory.to_str().unwrap();
        let run = execute(cluster, &file, &[&["--allow=namespaces", "--backup", path], more].concat());
        assert_eq!(run.code, 0, "{run}");
        let warning = "1 Secret will be deleted without a backup; --backup-secrets writes them";
        assert_eq!(run.stderr.contains(warning), secrets == 0, "{run}");
        assert_eq!(remaining(cluster, "backup"), [""; 0]);
        let files: Vec<_> = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        let text: String =
            files.iter().filter(|path| path.is_file()).map(|path| fs::read_to_string(path).unwrap()).collect();
        assert_eq!(text.matches("\"kind\": \"Secret\"").count(), secrets, "{text}");
        assert_eq!(text.contains("cHJlY2lvdXM="), secrets == 1, "the data of Secrets");
        for path in files.iter().filter(|path| path.is_file()) {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600, "{}", path.display());
        }
        assert_eq!(fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o700);

        let create = || cluster.kubectl(&["create", "-f", path]).unwrap();
        let created = create();
        assert_eq!(created.lines().count(), 3 + secrets, "{created}");
        let data = ["get", "configmap", "settings", "-n", "backup-old", "-o", "jsonpath={.data.a}"];
        assert_eq!(cluster.kubectl(&data).unwrap(), "b\n");
        if secrets == 1 {
            let data = ["get", "secret", "token", "-n", "backup-old", "-o", "jsonpath={.data.key}"];
            assert_eq!(cluster.kubectl(&data).unwrap(), "cHJlY2lvdXM=");
        }
        // For the next round: what kubectl created is nobody's until the controller applies it.
        let _ = cluster.kubectl(&["delete", "configmap", "kube-root-ca.crt", "-n", "backup-old"]);
        apply(
            cluster,
            vec![
                applied("backup", "v1", "Namespace", "", "backup-old"),
                applied("backup", "v1", "ConfigMap", "backup", "cm-0"),
                inside("ConfigMap", "settings", "data", json!({"a": "b\n"})),
                inside("Secret", "token", "stringData", json!({"key": "precious"})),
            ],
        );
        reconcile(cluster, "backup", &["stays"]);
    }
}

/// Executes a plan where no file can grow beyond a few kilobytes, as on a full disk.
fn execute_on_full_disk(cluster: &xtask::cluster::Cluster, file: &str, kibibytes: u32, more: &[&str]) -> Run {
    let words = [&["prune", "--apply", file, "--yes", "--max-percent=100"], more].concat();
    command_on_full_disk(kibibytes, &words).env("KUBECONFIG", cluster.kubeconfig()).output().unwrap().into()
}

#[test]
fn a_full_disk_stops_the_run_before_the_deletion_that_is_not_recorded() {
    let cluster = &with_leaks("full", 8);
    let file = plan(cluster, "full", &[]);
    let directory = folder("full-disk");
    let journal = directory.join("journal.jsonl");
    let run = execute_on_full_disk(cluster, &file, 1, &["--journal", journal.to_str().unwrap()]);
    assert!(run.code == 5 && run.stderr.contains("error: stopped: cannot write journal "), "{run}");
    let left = remaining(cluster, "full");
    assert!(!left.is_empty() && left.len() < 8, "{left:?}: {run}");
    let text = fs::read_to_string(&journal).unwrap();
    let begun = text.matches("\"deleting\"").count();
    assert!(begun >= 8 - left.len(), "every deletion was recorded before: {text}");
    let run = execute(cluster, &file, &["--journal", journal.to_str().unwrap()]);
    assert_eq!((run.code, remaining(cluster, "full")), (0, vec![]), "{run}");

    let mut large = applied("full", "v1", "ConfigMap", "full", "cm-9");
    large["data"] = json!({"large": "x".repeat(8000)});
    apply(cluster, vec![large]);
    reconcile(cluster, "full", &["stays"]);
    let file = plan(cluster, "full", &[]);
    let backup = directory.join("backup");
    let run = execute_on_full_disk(cluster, &file, 4, &["--backup", backup.to_str().unwrap()]);
    assert!(run.code == 5 && run.stderr.contains("error: stopped: cannot write backup "), "{run}");
    assert!(run.stdout.contains("configmap/cm-9 -n full not tried"), "{run}");
    assert_eq!(remaining(cluster, "full"), ["cm-9"], "nothing is deleted without its backup");
}

#[test]
fn a_journal_belongs_to_one_plan_and_one_run_at_a_time() {
    let cluster = &with_leaks("journal", 1);
    let file = plan(cluster, "journal", &[]);
    let journal = folder("journals").join("journal.jsonl");
    let path = journal.to_str().unwrap();
    fs::write(
        &journal,
        "{\"schema\": \"kubectl-gitops/result/v1\", \"cluster\": {\"uid\": \"0\", \"server\": \"\"}, \"plan\": null}\n",
    )
    .unwrap();
    let run = execute(cluster, &file, &["--journal", path]);
    assert!(run.code == 6 && run.stderr.contains("belongs to another plan or cluster"), "{run}");
    fs::write(&journal, "").unwrap();
    let lock = fs::File::open(&journal).unwrap();
    lock.lock().unwrap();
    let run = execute(cluster, &file, &["--journal", path]);
    assert!(run.code == 1 && run.stderr.contains("another run uses it"), "{run}");
    drop(lock);
    assert_eq!(remaining(cluster, "journal"), ["cm-0"]);
    assert_eq!(execute(cluster, &file, &["--journal", path]).code, 0);
    let lines = fs::read_to_string(&journal).unwrap();
    let results: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(results[0]["schema"], "kubectl-gitops/result/v1");
    assert_eq!((&results[1]["result"], &results[2]["result"]), (&json!("deleting"), &json!("deleted")), "{lines}");
    assert_eq!(fs::metadata(&journal).unwrap().permissions().mode() & 0o077, 0o044, "an existing file keeps its mode");
}
