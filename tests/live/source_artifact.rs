//! Artifacts, compared file by file with those of the real source-controller for the same git repository.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gitops_core::flux::source::artifact::Artifact;
use gitops_core::flux::source::options::SourceOptions;
use kubectl_gitops::tools::git::WorktreeState;
use kubectl_gitops::tools::worktree;
use serde_json::{Value, json};
use test_support::folder::Folder;
use test_support::servers;
use xtask::cluster::{Cluster, Flux, Options};

/// Files that every tree has.
const BASE: [&str; 24] = [
    "a.yaml",
    "values.json",
    "logo.png",
    "docs/readme.md",
    "docs/img/x.jpeg",
    "deploy/a.yaml",
    "deploy/b.txt",
    "deploy/sub/x.yaml",
    "deploy/sub/deeper/y.yaml",
    "clusters/prod/apps.yaml",
    "clusters/dev/apps.yaml",
    "clusters/dev/.hidden/h.yaml",
    ".github/workflows/ci.yaml",
    ".circleci/config.yml",
    ".travis.yml",
    ".sops.yaml",
    "nested/.sops.yaml",
    "nested/.gitignore",
    "nested/archive.tar.gz",
    "nested/app.zip",
    "only/ignored.txt",
    "apps/web/kustomization.yaml",
    "apps/web/web.yaml",
    "apps-old/web.yaml",
];

/// Ignore files (path and lines) of one tree, `spec.ignore`, `spec.sparseCheckout`.
type Case = (&'static [(&'static str, &'static str)], Option<&'static str>, &'static [&'static str]);

const CASES: [Case; 31] = [
    (&[], None, &[]),
    (&[(".sourceignore", "")], None, &[]),
    (&[(".sourceignore", "# only a comment\n\n")], None, &[]),
    (&[(".sourceignore", "nothing-matches\n")], None, &[]),
    (&[("deploy/.sourceignore", "nothing-matches\n")], None, &[]),
    (&[(".sourceignore", "deploy/\n!deploy/sub/x.yaml\n")], None, &[]),
    (&[(".sourceignore", "deploy\n!deploy/sub\n")], None, &[]),
    (&[(".sourceignore", "/deploy\n!/deploy/sub/\n")], None, &[]),
    (&[(".sourceignore", "/*\n!/clusters\n")], None, &[]),
    (&[(".sourceignore", "/*\n!/clusters/prod\n")], None, &[]),
    (&[(".sourceignore", "*\n!*.yaml\n")], None, &[]),
    (&[(".sourceignore", "**/*.yaml\n!apps/web/*.yaml\n")], None, &[]),
    (&[(".sourceignore", "clusters/**/apps.yaml\n")], None, &[]),
    (&[(".sourceignore", "clusters/**\n")], None, &[]),
    (&[(".sourceignore", "**/sub/\n")], None, &[]),
    (&[(".sourceignore", "apps*/\n")], None, &[]),
    (&[(".sourceignore", "apps?old\n")], None, &[]),
    (&[(".sourceignore", "[a-c]*.yaml\n")], None, &[]),
    (&[(".sourceignore", "[^a]*.yaml\n")], None, &[]),
    (&[(".sourceignore", "[broken\n")], None, &[]),
    (&[(".sourceignore", "a.yaml   \n")], None, &[]),
    (&[(".sourceignore", "only/*.txt\n")], None, &[]),
    (&[(".sourceignore", "*.yaml\n"), ("clusters/.sourceignore", "!apps.yaml\n")], None, &[]),
    (&[("clusters/.sourceignore", "/dev\n"), ("clusters/dev/.sourceignore", "!apps.yaml\n")], None, &[]),
    (&[("clusters/dev/.sourceignore", "*.yaml\n")], None, &[]),
    (&[(".sourceignore", "*.yaml\n")], Some("!a.yaml\n"), &[]),
    (&[], Some("# nothing\n/*\n!/apps/\n"), &[]),
    (&[], Some("*.png\n"), &[]),
    (&[], None, &["apps"]),
    (&[], None, &["./clusters/prod", "a.yaml"]),
    (&[(".sourceignore", "a**b\ndeploy/**/deeper\n.git*\n!.github/\n")], None, &[]),
];

#[test]
fn our_artifact_is_that_of_the_source_controller() {
    let repository = Folder::new("source-artifact");
    let root: PathBuf = repository.path().join("repo");
    std::fs::create_dir_all(&root).unwrap();
    git(&root, &["init", "-q", "-b", "main"]);
    for (number, (ignores, ..)) in CASES.iter().enumerate() {
        git(&root, &["checkout", "-q", "--orphan", &format!("case-{number}")]);
        for file in BASE {
            write(&root, file, &format!("{file} of every case\n"));
        }
        for (file, lines) in *ignores {
            write(&root, file, lines);
        }
        let _ = std::os::unix::fs::symlink("a.yaml", root.join("link.yaml"));
        git(&root, &["add", "-A", "-f"]);
        git(&root, &["commit", "-q", "-m", "tree"]);
        git(&root, &["rm", "-rfq", "."]);
    }
    let port = servers::git(root.parent().unwrap());
    let cluster = Cluster::up(Options { flux: Flux::All, ..Options::default() }).unwrap();
    for (number, (_, ignore, sparse)) in CASES.iter().enumerate() {
        let branch = format!("case-{number}");
        let mut spec =
            json!({"interval": "1h", "url": format!("http://127.0.0.1:{port}/repo/.git"), "ref": {"branch": branch}});
        if let Some(ignore) = ignore {
            spec["ignore"] = (*ignore).into();
        }
        if !sparse.is_empty() {
            spec["sparseCheckout"] = json!(sparse);
        }
        let source = json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
            "metadata": {"name": branch, "namespace": "default"}, "spec": spec});
        cluster.kubectl_stdin(&["create", "-f", "-"], &source.to_string()).unwrap();
    }
    let mut wrong = Vec::new();
    for (number, (_, ignore, sparse)) in CASES.iter().enumerate() {
        let branch = format!("case-{number}");
        let options = SourceOptions {
            ignore: ignore.map(str::to_owned),
            sparse: sparse.iter().map(|entry| (*entry).to_owned()).collect(),
            ..Default::default()
        };
        let tree = worktree::read(&root, &WorktreeState::Revision(branch.clone())).unwrap();
        let artifact = Artifact::pack(&tree, &options);
        let ours: BTreeMap<String, Vec<u8>> =
            artifact.files().map(|(path, content)| (path.to_owned(), content.to_vec())).collect();
        let ours_directories: Vec<String> = artifact.directories().map(str::to_owned).collect();
        let (theirs, directories) = packed(&cluster, &branch);
        if ours != theirs {
            let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
            wrong.push(format!("{branch}: ours {:?}, theirs {:?}", names(&ours), names(&theirs)));
        }
        // A directory decides whether a path exists. Unpacking makes those above every file.
        if ours_directories != directories {
            wrong.push(format!("{branch}: our directories {ours_directories:?}, theirs {directories:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn write(root: &Path, file: &str, content: &str) {
    let path = root.join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

fn git(root: &Path, arguments: &[&str]) {
    xtask::git::run(root, arguments).unwrap();
}

/// Files and directories of the artifact that source-controller made.
fn packed(cluster: &Cluster, name: &str) -> (BTreeMap<String, Vec<u8>>, Vec<String>) {
    let mut url = String::new();
    let ready = || {
        let source = cluster.kubectl(&["get", "gitrepository", name, "-n", "default", "-o", "json"])?;
        let source: Value = serde_json::from_str(&source)?;
        url = source.pointer("/status/artifact/url").and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(!url.is_empty())
    };
    cluster.wait_for(&format!("the artifact of {name}"), Duration::from_secs(120), ready).unwrap();
    let (host, path) = url.trim_start_matches("http://").split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{path} HTTP/1.0\r\nHost: {host}\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let body = answer.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&answer[body..]));
    let (mut files, mut directories) = (BTreeMap::new(), std::collections::BTreeSet::new());
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().to_string_lossy().trim_matches('/').to_owned();
        let mut above = path.as_str();
        while let Some((directory, _)) = above.rsplit_once('/') {
            directories.insert(directory.to_owned());
            above = directory;
        }
        if entry.header().entry_type().is_dir() {
            directories.insert(path);
        } else {
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            files.insert(path, content);
        }
    }
    directories.remove("");
    directories.remove(".");
    (files, directories.into_iter().collect())
}
