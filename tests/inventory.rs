//! What `inventory` shows of a recorded cluster, and what it says to bad questions.

mod support;

use std::process::Command;

use serde_json::Value;
use support::live::Run;

/// Asks the cluster that ships with the project.
fn ask(args: &[&str]) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_kubectl-gitops"))
        .args(["inventory", "--snapshot", "examples/shop.json.gz"])
        .args(args)
        .output()
        .expect("the binary runs");
    Run {
        code: output.status.code().expect("an exit code"),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn json(args: &[&str]) -> Value {
    let run = ask(&[args, &["-o", "json"]].concat());
    serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{run:?}"))
}

#[test]
fn a_filter_hides_rows_and_says_how_many_and_changes_no_count() {
    let whole = json(&[]);
    let answer = json(&["--kind", "deploy"]);
    assert_eq!(answer["totals"], whole["totals"], "everything was judged");
    assert_eq!(answer["filter"], serde_json::json!({"kinds": ["deployment.apps"], "shown": 2, "hidden": 3}));
    for owner in answer["owners"].as_array().unwrap() {
        let same = whole["owners"].as_array().unwrap().iter().find(|other| other["name"] == owner["name"]).unwrap();
        assert_eq!((owner["matching"].as_u64(), &owner["objects"]), (Some(1), &same["objects"]));
    }
    assert_eq!(whole.get("filter"), None);
    let run = ask(&["--kind", "deploy"]);
    assert!(run.stderr.contains("--kind deployment.apps hides 3 of 5 owners"), "{}", run.stderr);
    assert!(
        run.stdout.starts_with("SYSTEM   NAMESPACE     KIND            NAME   MATCHING   OBJECTS"),
        "{}",
        run.stdout
    );
}

#[test]
fn every_view_takes_a_filter() {
    let label = "kustomize.toolkit.fluxcd.io/name=web";
    let rows = [
        (&["kustomization/web", "--kind", "cm"][..], "--kind configmap hides 4 of 7 objects"),
        (&["kustomization/web", "--kind", "cm,svc", "-l", label], "hides 3 of 7 objects"),
        (&["--leaked", "--kind", "ConfigMap"], "--kind configmap hides 1 of 4 objects"),
        (&["--leaked", "--kind", "cm,ns"], "hides nothing of 4 objects"),
        (&["--leaked", "-l", label], "hides 2 of 4 objects"),
        (&["--leaked", "-l", "!kustomize.toolkit.fluxcd.io/name"], "hides 4 of 4 objects"),
        (&["--unmanaged", "--kind", "serviceaccounts"], "hides 10 of 10 objects"),
        (&["-o", "tree", "-l", "app=web"], "-l app=web hides 20 of 25 objects"),
        // Services of the core, not of anything else; a full name is understood as kubectl understands it.
        (&["kustomization/web", "--kind", "deployments.v1.apps"], "--kind deployment.apps hides 6 of 7 objects"),
    ];
    for (args, words) in rows {
        let run = ask(args);
        assert!(run.code == 0 && run.stderr.contains(words), "{args:?}: {words:?} is missing in {run:?}");
    }
    let tree = ask(&["-o", "tree", "-l", "app=web"]).stdout;
    assert!(tree.contains("deployment.apps/web -n web") && tree.contains("pod/web-"), "what leads there stays: {tree}");
    assert!(!tree.contains("configmap"), "{tree}");
    let owner = &json(&["kustomization/web", "--kind", "cm"])["objects"][0];
    assert_eq!((owner["owner"]["objects"].as_u64(), owner["owner"]["matching"].as_u64()), (Some(7), Some(3)));
}

#[test]
fn bad_questions_are_answered_with_what_may_be_meant() {
    let rows = [
        (
            &["kustomization/chekout"][..],
            1,
            "no owner \"kustomization/chekout\"",
            "did you mean kustomization/checkout?",
        ),
        (&["kustomization/nothing-like-it"], 1, "no owner", "`kubectl gitops inventory` lists the owners"),
        (&["web"], 2, "\"web\" is not KIND/NAME", "--kind shows objects of one kind"),
        (
            &["--by", "fluxx"],
            2,
            "unknown system \"fluxx\"",
            "one of flux, flux-v1, qbec, applyset, argocd, helm, kapp, cli-utils",
        ),
        (&["--kind", "deploymnts"], 2, "no resource type \"deploymnts\"", "did you mean deployments?"),
        (&["--kind", ","], 2, "--kind names no resource type", "for example"),
        (&["-l", "app in (web"], 2, "\"app in (web\" cannot be parsed", "for example"),
        (&["-l", "app=web,"], 2, "it ends after ','", "for example"),
        (&["--why", "cm/x", "-l", "a=b"], 2, "cannot be used with", ""),
        (&["--why", "cm"], 2, "\"cm\" is not TYPE/NAME", ""),
        (&["--why", "cm/nothing"], 1, "no object \"cm/nothing\"", "give its namespace with -n"),
    ];
    for (args, code, message, hint) in rows {
        let run = ask(args);
        assert_eq!((run.code, run.stdout.as_str()), (code, ""), "{args:?}: {run:?}");
        assert!(run.stderr.contains(message) && run.stderr.contains(hint), "{args:?}: {}", run.stderr);
    }
}

#[test]
fn a_recorded_cluster_is_selected_from_by_label() {
    let get = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_kubectl-gitops"))
            .args(["get", "-A", "--snapshot", "examples/shop.json.gz", "-o", "name"])
            .args(args)
            .output()
            .unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap().lines().count())
    };
    assert!(get(&["ks"]).1 > get(&["ks", "-l", "kustomize.toolkit.fluxcd.io/name=prod"]).1);
    assert_eq!(get(&["ks", "-l", "kustomize.toolkit.fluxcd.io/name=prod"]), (0, 4));
    assert_eq!(get(&["-l", "a b"]).0, 2);
}
