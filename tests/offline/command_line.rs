//! Command lines that need no cluster: usage errors, snapshot files, closed pipes.

use std::io::Write;
use std::process::Command;

use insta::assert_snapshot;
use serde_json::json;
use test_support::folder::Folder;
use test_support::gitops::{Run, Transcript, binary, command, gitops_as, gitops_without_kubeconfig};

fn alone(args: &[&str]) -> Run {
    gitops_without_kubeconfig(Folder::new("command-line").path(), args)
}

#[test]
fn a_missing_kubeconfig_is_reported() {
    let home = Folder::new("command-line");
    let run = gitops_without_kubeconfig(home.path(), &["prune", "--plan"]);
    assert_snapshot!(run.with("HOME", home.path().display()), @"
    exit code 1
    --- stderr
    error: no kubeconfig was found, and this is not a pod
    hint: name a file with --kubeconfig or KUBECONFIG, or put one at ~/.kube/config
    ");
}

#[test]
fn damaged_snapshot_files_are_refused() {
    let folder = Folder::new("command-line");
    let good = json!({"schema": "kubectl-gitops/snapshot/v1", "taken": "2026-01-01T00:00:00Z", "cluster": {"uid": "", "server": ""},
                      "types": [], "objects": [], "full": [], "gaps": []}).to_string();
    let mut packed = flate2::write::GzEncoder::new(vec![], flate2::Compression::default());
    packed.write_all(good.as_bytes()).unwrap();
    let packed = packed.finish().unwrap();
    let cases: [(&str, &[u8]); 6] = [
        ("good.json", good.as_bytes()),
        ("good.json.gz", &packed),
        ("cut.json", &good.as_bytes()[..40]),
        ("cut.json.gz", &packed[..20]),
        ("other.json", br#"{"schema": "someone/else/v2"}"#),
        ("text.json", b"hello"),
    ];
    let mut transcript = Transcript::default();
    for (name, content) in cases {
        let file = folder.write(name, content);
        let run = alone(&["prune", "--plan", "--snapshot", file.to_str().unwrap()]).without_age();
        transcript.add(name, &run.with("FOLDER", folder.path().display()));
    }
    transcript.add("no file", &alone(&["prune", "--plan", "--snapshot", "no-such-file.json"]));
    assert_snapshot!(transcript);
}

/// A plan that was made before is shown as it is: each flag that would be ignored is refused by its name.
#[test]
fn show_refuses_what_it_would_ignore() {
    for words in [
        &["--rev", "main"][..],
        &["--merge"],
        &["--diff"],
        &["--offline"],
        &["--then", "HEAD"],
        &["--branch", "main"],
        &["--allow", "namespaces"],
        &["--max-delete", "100"],
        &["--max-percent=100"],
        &["-n", "shop"],
        &["--context", "prod"],
        &["--snapshot", "x.json"],
        &["--contexts", "a,b"],
    ] {
        let run = alone(&[&["plan", "--show", "plan.json"], words].concat());
        let error = run.stderr.lines().next().unwrap().to_owned();
        let flag = words[0].split('=').next().unwrap();
        let named = if flag == "-n" { "--namespace" } else { flag };
        assert!(run.code == 2 && error.starts_with(&format!("error: {named}")), "{words:?}: {run}");
        assert!(error.ends_with(" cannot be used with --show"), "{words:?}: {run}");
    }
    let missing = alone(&["plan", "-o", "json", "--show", "no-such-plan.json", "--detailed-exitcode", "-v", "1"]);
    assert_eq!(missing.code, 1, "{missing}");
}

#[test]
fn a_hint_names_the_command_after_flags_with_values() {
    for flags in
        [&["-s", "https://a.invalid", "-n", "get"][..], &["--context=a", "-nx"], &["--insecure-skip-tls-verify"]]
    {
        let run = alone(&[flags, &["suspend", "ks", "web", "--for", "0"]].concat());
        assert!(run.code == 2 && run.stderr.contains("hint: `kubectl gitops suspend -h` shows its usage\n"), "{run}");
    }
}

#[test]
fn a_closed_pipe_is_no_error() {
    let binary = binary().display().to_string();
    let output = Command::new("bash")
        .args(["-c", &format!("'{binary}' completion bash | head -c 1 > /dev/null; echo ${{PIPESTATUS[0]}}")])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "0");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn usage_errors_exit_with_code_2() {
    let mut transcript = Transcript::default();
    let lines = [
        "prune --plan --max-percent=101",
        "prune --parallel 0",
        "prune --max-delete -1",
        "prune --max-percent=-1",
        "prune --allow pods",
        "prune --allow-namespaces",
        "prune --out x",
        "prune --snapshot x",
        "prune --repo .",
        "prune qbec --repo .",
        "prune --repo . --plan qbec --env dev --qbec-root .",
        "prune --plan -f deploy",
        "prune --apply x --plan",
        "prune qbce",
        "prune web",
        "prun",
        "diff",
        "status",
        "plan no-such-directory",
        "plan --branch main --source GitRepository/a/b=.",
        "plan --merge --staged",
        "get -o bogus",
        "get -o",
        "get --selecto x",
        "get --watch=false",
        "get -A=false",
        "-A get",
        "get --context a --context b",
        "get --contexts a,b --context a",
        "get --contexts a,b -o name",
        "get --contexts a,b --watch",
        "get --contexts a,b --snapshot x",
        "get --contexts a --all-contexts",
        "inventory --all-contexts --server https://h",
        "inventory --all-contexts --token t",
        "inventory --ignore x",
        "inventory --ignore x --why pod/a",
        "inventory --detailed-exitcode",
        "suspend --contexts a ks b",
        "Plan",
        "Diff",
        "plan --repo .",
        "plan --dry-run",
        "prune --dry-run",
        "prune --orphaned",
        "prune --leaked",
        "inventory kustomization --snapshot examples/shop.json.gz",
        "inventory --snapshots recordings",
        "prune --yes --namespace=",
        "prune applyset --applyset shop -n=",
        "guard --for-user=",
        "-s URL -n x suspend ks web --for 0",
        "resume ks web --timeout 5m",
        "resume ks web --wait --timeout abc",
        "snapshot -",
    ];
    for line in lines {
        let run = alone(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(run.code, 2, "{line}: {run}");
        transcript.add(line, &run);
    }
    assert_snapshot!(transcript);
    assert_snapshot!(alone(&["prune", "--plan", "--by", "nobody", "--snapshot", "examples/none.json"]), @"
    exit code 1
    --- stderr
    error: cannot open snapshot examples/none.json: No such file or directory (os error 2)
    hint: record one with `kubectl gitops snapshot FILE`
    ");
}

#[test]
fn csv_is_a_format_of_get_alone() {
    let get = |more: &[&str]| {
        Run::of(&mut command(&[&["get", "--snapshot", "examples/shop.json.gz", "-o", "csv"], more].concat()))
    };
    let run = get(&[]);
    let columns = "NAMESPACE,KIND,NAME,REVISION,SUSPENDED,READY,CREATED,BY,SINCE,REASON,LAST-RECONCILED,SOURCE,UNTIL,LINK,MESSAGE\n";
    assert!(run.code == 0 && run.stdout.starts_with(columns), "{run}");
    assert_eq!(get(&["--no-headers"]).stdout, run.stdout.strip_prefix(columns).unwrap());
    for verb in ["inventory", "prune", "suspend"] {
        let refused = alone(&[verb, "-o", "csv"]);
        assert_eq!(refused.code, 2, "{refused}");
        assert!(refused.stderr.starts_with("error: invalid value \"csv\" for --output <FORMAT>\nhint: use one of: "));
    }
}

#[test]
fn a_plan_file_decides_alone_what_is_deleted() {
    for (flags, name) in [(&["--by", "flux"], "--by"), (&["--repo", "."], "a working tree")] {
        let run = alone(&[&["prune", "--apply", "plan.json"][..], flags].concat());
        let message = format!("error: {name} cannot be used with --apply: the plan decides what is deleted\n");
        assert!(run.code == 2 && run.stderr.starts_with(&message), "{run}");
    }
}

#[test]
fn plan_files_of_another_version_are_refused() {
    let folder = Folder::new("command-line");
    let mut transcript = Transcript::default();
    for (name, content) in [
        ("old.json", r#"{"schema": "kubectl-gitops/plan/v0", "changes": []}"#),
        ("edited.json", r#"{"schema": "kubectl-gitops/plan/v1", "changes": []}"#),
        ("snapshot.json", r#"{"schema": "kubectl-gitops/snapshot/v1"}"#),
        ("text.json", "hello"),
    ] {
        let file = folder.write(name, content);
        let api = crate::prune::deletion::cluster();
        let args = ["prune", "--yes", "--apply", file.to_str().unwrap()];
        let run = gitops_as(&api.kubeconfig(&folder), &args);
        assert!(run.code == 6 && api.requests().is_empty(), "nothing is read for such a file: {run}");
        transcript.add(name, &run.with("FOLDER", folder.path().display()));
    }
    assert_snapshot!(transcript);
}
