//! The border of the core: its crate must not know the network, the runtime, the clock or the terminal. That it names no
//! module of the outer crate is what the compiler checks.

use std::fs;
use std::path::{Path, PathBuf};

/// What the core must not name.
const FORBIDDEN: [&str; 13] = [
    "kube::",
    "k8s_openapi",
    "tokio",
    "hyper",
    "http::",
    "dialoguer",
    "comfy_table",
    "std::fs",
    "std::process",
    // Reading memory through `std::io::Read` is no I/O; the process' streams are.
    "stdin()",
    "stdout()",
    "stderr()",
    "Utc::now",
];
#[test]
fn the_core_names_no_adapter_and_does_no_io() {
    let mut found = vec![];
    for file in core_files() {
        let text = fs::read_to_string(&file).unwrap();
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let names = FORBIDDEN.iter().find(|name| code.contains(**name));
            found.extend(names.map(|name| format!("{}:{}: {name}", file.display(), number + 1)));
        }
    }
    assert!(found.is_empty(), "the core reaches outwards:\n{}", found.join("\n"));
}

#[test]
fn only_the_cluster_adapter_names_the_kube_client() {
    let mut found = vec![];
    for file in files(Path::new("src")) {
        let text = fs::read_to_string(&file).unwrap();
        if !file.starts_with("src/cluster") && text.lines().any(|line| line.contains("kube::Client")) {
            found.push(file);
        }
    }
    assert!(found.is_empty(), "{found:?}");
}

fn core_files() -> Vec<PathBuf> {
    let files = files(Path::new("crates/core/src"));
    assert!(files.len() > 10, "the core was not found: {files:?}");
    files
}

fn files(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let Ok(entries) = fs::read_dir(path) else {
        let file = path.with_extension("rs");
        return if file.is_file() { vec![file] } else { vec![] };
    };
    entries
        .flat_map(|entry| files(&entry.unwrap().path()))
        .filter(|file| file.extension().is_some_and(|e| e == "rs"))
        .collect()
}
