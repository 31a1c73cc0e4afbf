//! Command lines that need no cluster: usage errors, snapshot files, closed pipes.

use std::fs;
use std::io::Write;
use std::process::Command;

use serde_json::json;
use test_support::folder::Folder;
use test_support::gitops::{Run, binary, gitops_without_kubeconfig};

fn alone(args: &[&str]) -> Run {
    gitops_without_kubeconfig(Folder::new("command-line").path(), args)
}

#[track_caller]
fn expect(run: &Run, code: i32, words: &[&str]) {
    assert_eq!(run.code, code, "{run:?}");
    assert_eq!(run.stdout, "", "data goes to stdout, messages to stderr");
    for word in words {
        assert!(run.stderr.contains(word), "{word:?} is missing in:\n{}", run.stderr);
    }
}

#[test]
fn a_missing_kubeconfig_is_reported() {
    expect(&alone(&["prune", "--plan"]), 1, &["error: ", "kubeconfig", "hint: "]);
}

#[test]
fn damaged_snapshot_files_are_refused() {
    let folder = Folder::new("command-line");
    let good = json!({"schema": "kubectl-gitops/snapshot/v1", "taken": "2026-01-01T00:00:00Z", "cluster": {"uid": "", "server": ""},
                      "types": [], "objects": [], "full": [], "gaps": []}).to_string();
    let mut packed = flate2::write::GzEncoder::new(vec![], flate2::Compression::default());
    packed.write_all(good.as_bytes()).unwrap();
    let packed = packed.finish().unwrap();
    let cases: [(&str, &[u8], i32, &str); 6] = [
        ("good.json", good.as_bytes(), 0, "nothing to prune"),
        ("good.json.gz", &packed, 0, "nothing to prune"),
        ("cut.json", &good.as_bytes()[..40], 1, "it is truncated"),
        ("cut.json.gz", &packed[..20], 1, "it is damaged or truncated"),
        ("other.json", br#"{"schema": "someone/else/v2"}"#, 1, "its schema is \"someone/else/v2\""),
        ("text.json", b"hello", 1, "it is not JSON of a snapshot"),
    ];
    for (name, content, code, words) in cases {
        let file = folder.path().join(name);
        fs::write(&file, content).unwrap();
        let run = alone(&["prune", "--plan", "--snapshot", file.to_str().unwrap()]);
        expect(&run, code, &[words]);
    }
    let run = alone(&["prune", "--plan", "--snapshot", "no-such-file.json"]);
    expect(
        &run,
        1,
        &["cannot open snapshot no-such-file.json", "hint: record one with `kubectl gitops snapshot FILE`"],
    );
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
    for args in
        [&["prune", "--plan", "--max-percent=101"][..], &["prune", "--out", "x"], &["prun"], &["get", "-o", "bogus"]]
    {
        assert_eq!(alone(args).code, 2, "{args:?}");
    }
    assert_eq!(alone(&["prune", "--plan", "--by", "nobody", "--snapshot", "examples/none.json"]).code, 1);
}
