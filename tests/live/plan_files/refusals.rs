//! Plan files that are refused, before anything is read from the cluster where the file alone shows why.

use std::fs;
use std::time::Duration;

use gitops_core::plan::file::PlanFile;
use serde_json::{Value, json};
use test_support::folder::folder;
use test_support::gitops::{gitops, gitops_as};

use super::{execute, plan, remaining, with_leaks};

/// Writes a plan file again after a change, with a digest that is right.
fn forged(file: &str, name: &str, change: impl FnOnce(&mut PlanFile)) -> String {
    let (mut plan, _) = PlanFile::read(&fs::read(file).unwrap()).unwrap();
    change(&mut plan);
    written(name, &plan.to_text().unwrap().0)
}

fn written(name: &str, text: &str) -> String {
    let path = folder("refused-plans").join(format!("{name}.json"));
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_plan_file_that_is_no_contract_is_refused_and_nothing_is_read() {
    let cluster = &with_leaks("refused", 2);
    let file = plan(cluster, "refused", &[]);
    let text = fs::read_to_string(&file).unwrap();
    let edited = |name: &str, change: &dyn Fn(&mut Value)| {
        let mut document: Value = serde_json::from_str(&text).unwrap();
        change(&mut document);
        written(name, &document.to_string())
    };
    let large = folder("refused-plans").join("large.json");
    fs::File::create(&large).unwrap().set_len(500 << 20).unwrap();
    let hour = chrono::TimeDelta::hours(1);
    let pins = |change: fn(&mut gitops_core::plan::file::ExecutionPins)| {
        move |file: &mut PlanFile| change(file.execution.as_mut().unwrap())
    };
    let cases = [
        (written("empty", ""), "it is empty"),
        (written("text", "hello"), "it is no JSON document: "),
        (large.to_str().unwrap().to_owned(), "it is larger than 64 MiB"),
        (written("byte", &text.replacen("cm-0", "cm-9", 1)), "it was edited or damaged: its content has the digest "),
        (edited("newer", &|document| document["schema"] = json!("kubectl-gitops/plan/v2")), "its schema is "),
        (edited("unknown", &|document| document["force"] = json!(true)), "it was edited or damaged"),
        (
            edited("undigested", &|document| drop(document.as_object_mut().unwrap().remove("digest"))),
            "it has no digest",
        ),
        (
            written("twice", &text.replacen("\"complete\"", "\"complete\": true, \"complete\"", 1)),
            "it is no JSON document: the key",
        ),
        (
            forged(&file, "expired", |file| {
                let pins = file.execution.as_mut().unwrap();
                (pins.created, pins.expires) = (pins.created - hour * 2, pins.created - hour);
            }),
            "it expired at ",
        ),
        (
            forged(&file, "future", |file| {
                let pins = file.execution.as_mut().unwrap();
                (pins.created, pins.expires) = (pins.created + hour, pins.created + hour * 2);
            }),
            "it was made in the future, at ",
        ),
        (forged(&file, "backwards", pins(|pins| pins.expires = pins.created)), "it expired at "),
        (
            forged(&file, "qbec", pins(|pins| pins.command = "prune qbec".to_owned())),
            "it was made by `prune qbec`, not by `prune`",
        ),
        (forged(&file, "steps", pins(|pins| drop(pins.steps.pop()))), "its steps do not agree with its changes"),
        (forged(&file, "tree", |file| file.execution = None), "it is the plan of a working tree"),
        (
            forged(&file, "gap", |file| {
                let gap = json!({"kind": "forbidden", "subject": "secrets", "message": "no"});
                file.plan.add_gaps([serde_json::from_value(gap).unwrap()]);
            }),
            "it is incomplete: 1 thing could not be read",
        ),
        (
            forged(&file, "rows", |file| {
                let row = file.plan.changes()[0].clone();
                file.plan.add_changes([row]);
            }),
            "it lists configmap/cm-0 -n refused twice",
        ),
        (
            forged(&file, "unpinned", |file| file.plan.update_changes(|row| row.object.uid.clear())),
            "it deletes configmap/cm-0 -n refused without its uid",
        ),
        (
            forged(&file, "protected", |file| {
                let mut row = file.plan.changes()[0].clone();
                row.object.id = gitops_core::kubernetes::object::ObjectId::new("", "Namespace", "", "kube-system");
                row.object.uid = "0".to_owned();
                let steps = &mut file.execution.as_mut().unwrap().steps;
                let step = steps.iter_mut().find(|step| &*step.object.id.name == "cm-0").unwrap();
                step.object = row.object.clone();
                file.plan.retain_changes(|change| change.object.id.name.as_ref() != "cm-0");
                file.plan.add_changes([row]);
            }),
            "it deletes namespace/kube-system, which no plan of this program does",
        ),
    ];
    // Other tests run beside this one, so this one uses an identity of its own.
    let bob = cluster.kubeconfig_for("bob");
    for (path, expected) in &cases {
        let run = gitops_as(&bob, &["prune", "--apply", path, "--yes"]);
        assert_eq!(run.code, 6, "{expected}: {run}");
        assert!(run.stderr.contains(&format!(": {expected}")), "{expected}: {run}");
        assert!(run.stderr.starts_with("error: refused, nothing was deleted: plan "), "{run}");
    }
    assert_eq!(cluster.requests_of("bob", "gitops").unwrap().len(), 0, "nothing is read for these");

    let digest = "0".repeat(64);
    let run = execute(cluster, &file, &["--expect-sha256", &digest]);
    assert!(run.code == 6 && run.stderr.contains("but --expect-sha256 is sha256:0000"), "{run}");
    for words in [&["kustomization/apps"][..], &["--by=flux"], &["--repo=."], &["-n", "other"], &["--plan"]] {
        let run = execute(cluster, &file, words);
        assert_eq!(run.code, 2, "{words:?}: {run}");
    }
    for change in [
        |file: &mut PlanFile| {
            let mut text = serde_json::to_value(&file.plan).unwrap();
            text["cluster"]["uid"] = "other".into();
            file.plan = serde_json::from_value(text).unwrap();
        },
        |file: &mut PlanFile| file.execution.as_mut().unwrap().connection.certificate_authority = "sha256:0".to_owned(),
    ] {
        let run = execute(cluster, &forged(&file, "cluster", change), &[]);
        assert!(run.code == 6 && run.stderr.contains("hint: check --context"), "{run}");
    }
    assert_eq!(remaining(cluster, "refused"), ["cm-0", "cm-1"]);

    let (_, digest) = PlanFile::read(text.as_bytes()).unwrap();
    let relaid = written("relaid", &serde_json::from_str::<Value>(&text).unwrap().to_string());
    let run = execute(cluster, &relaid, &["--expect-sha256", &digest, "-n", "refused"]);
    assert_eq!((run.code, remaining(cluster, "refused")), (0, vec![]), "the layout is no content: {run}");
}

#[test]
fn a_plan_file_expires() {
    let cluster = &with_leaks("expiring", 1);
    let file = plan(cluster, "expiring", &["--max-age=2s"]);
    let long = plan(cluster, "expiring", &[]);
    std::thread::sleep(Duration::from_secs(3));
    for (file, more) in [(&file, &[][..]), (&file, &["--max-age=1h"]), (&long, &["--max-age=1s"])] {
        let run = execute(cluster, file, more);
        assert!(run.code == 6 && run.stderr.contains("it expired at "), "{more:?}: {run}");
    }
    assert_eq!(remaining(cluster, "expiring"), ["cm-0"]);
}

/// The commands of docs/plan-files.md.
#[test]
fn a_signature_of_ssh_keygen_proves_who_approved_a_file() {
    let cluster = &with_leaks("signed", 1);
    let file = plan(cluster, "signed", &[]);
    let page = fs::read_to_string("docs/plan-files.md").unwrap();
    let block = page.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block of commands");
    let directory = std::path::Path::new(&file).parent().unwrap();
    let shell = |commands: &str| {
        let script = format!("set -e\n{commands}");
        std::process::Command::new("sh").args(["-c", &script]).current_dir(directory).output().unwrap()
    };
    let signed = shell(&format!("ssh-keygen -q -t ed25519 -N '' -f key -C alice@example.com\n{block}"));
    assert!(signed.status.success(), "{signed:?}");
    fs::write(&file, fs::read_to_string(&file).unwrap().replacen("cm-0", "cm-1", 1)).unwrap();
    let verify = block.lines().find(|line| line.starts_with("ssh-keygen -Y verify")).unwrap();
    assert!(!shell(verify).status.success(), "a changed file has no signature");
    // jq computes the same digest.
    let fresh = plan(cluster, "signed", &[]);
    let (_, digest) = PlanFile::read(&fs::read(&fresh).unwrap()).unwrap();
    let line = page.lines().find(|line| line.starts_with("jq ")).expect("the command with jq");
    let fresh_directory = std::path::Path::new(&fresh).parent().unwrap();
    let sum = std::process::Command::new("sh").args(["-c", line]).current_dir(fresh_directory).output().unwrap();
    let found = String::from_utf8(sum.stdout).unwrap();
    assert_eq!(found.split(' ').next(), digest.strip_prefix("sha256:"), "{}", String::from_utf8_lossy(&sum.stderr));
    assert_eq!(gitops(cluster, &["prune", "--plan", "-n", "signed"]).code, 0);
}
