//! Paths of tree objects and of the index that no checkout can have: git itself refuses to make them, so they are written
//! byte by byte.

use std::io::Write;
use std::process::{Command, Stdio};

use gitops_core::flux::source::tree::Tree;
use kubectl_gitops::error::Result;
use kubectl_gitops::tools::git::WorktreeState;
use kubectl_gitops::tools::worktree;
use test_support::folder::Folder;

use super::shown;

fn repository() -> Folder {
    let folder = Folder::outside_checkouts("tree-paths");
    folder.git(&["init", "-q", "-b", "main"]);
    folder.write("a.yaml", "content");
    folder.git(&["add", "-A"]);
    folder.git(&["commit", "-q", "-m", "one"]);
    folder
}

/// Writes an object without git's checks and returns its name.
fn object(folder: &Folder, kind: &str, content: &[u8]) -> String {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder.path()).args(["hash-object", "-w", "--literally", "-t", kind, "--stdin"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(content).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap().trim().to_owned()
}

fn entry(mode: &str, name: &[u8], hash: &str) -> Vec<u8> {
    let hash = (0..hash.len()).step_by(2).map(|at| u8::from_str_radix(&hash[at..at + 2], 16).unwrap());
    [mode.as_bytes(), b" ", name, b"\0"].concat().into_iter().chain(hash).collect()
}

/// Reads a tree with a blob at each of these paths; `/` separates tree objects.
fn tree(folder: &Folder, paths: &[&[u8]]) -> Result<Tree> {
    let blob = folder.git(&["rev-parse", "HEAD:a.yaml"]);
    let mut content = Vec::new();
    for path in paths {
        let mut names = path.rsplit(|byte| *byte == b'/');
        let mut inner = entry("100644", names.next().unwrap(), &blob);
        for name in names {
            let hash = object(folder, "tree", &inner);
            inner = entry("40000", name, &hash);
        }
        content.extend(inner);
    }
    let tree = object(folder, "tree", &content);
    worktree::read(folder.path(), &WorktreeState::Revision(tree))
}

#[test]
fn a_tree_with_a_path_that_leaves_it_is_refused_by_its_name() {
    let folder = repository();
    let mut refusals = String::new();
    let long = vec![b'n'; 256];
    let paths: [&[u8]; 17] = [
        b"../out.yaml",
        b"..",
        b"a/../../out.yaml",
        b".",
        b"./a",
        b".git/config",
        b"sub/.git/config",
        b".GIT/config",
        b"git~1/config",
        b".git ./config",
        b".git::$INDEX_ALLOCATION/config",
        ".g\u{200c}it/config".as_bytes(),
        b"a\\..\\..\\out.yaml",
        b"two\nlines.yaml",
        b"escape\x1b[31m.yaml",
        b"del\x7f.yaml",
        &long,
    ];
    for path in paths {
        let error = tree(&folder, &[path]).unwrap_err();
        let message = error.message.replace(folder.path().to_str().unwrap(), "FOLDER");
        assert_eq!(error.exit, kubectl_gitops::exit::ExitCode::Error);
        refusals += &format!("{message}\n");
    }
    let refusals = refusals.replace(&"n".repeat(256), "nnn…");
    insta::assert_snapshot!(refusals);
    assert!(!folder.path().parent().unwrap().join("out.yaml").exists());
}

#[test]
fn two_entries_at_one_place_are_refused() {
    let folder = repository();
    let rows: [[&[u8]; 2]; 3] = [[b"a.yaml", b"a.yaml"], [b"a", b"a/b.yaml"], [b"a/b.yaml", b"a"]];
    for paths in rows {
        let error = tree(&folder, &paths).unwrap_err();
        assert!(error.message.contains("the tree has another file at the same place"), "{error}");
    }
}

#[test]
fn names_that_are_not_utf8_stay_different_and_are_not_read() {
    let folder = repository();
    let read = tree(&folder, &[b"b\xff.yaml", b"b\xfe.yaml", b"ok.yaml"]).unwrap();
    let rows = shown(&read);
    let why = "unread: its name is not UTF-8";
    assert_eq!(rows, super::map(&[(r"b\xfe.yaml", why), (r"b\xff.yaml", why), ("ok.yaml", "content")]));
    // The same in the working tree.
    let name: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"w\xff.yaml");
    std::fs::write(folder.path().join(name), "x").unwrap();
    let read = worktree::read(folder.path(), &WorktreeState::Worktree).unwrap();
    assert_eq!(shown(&read)[r"w\xff.yaml"], why);
}

#[test]
fn an_index_with_a_path_that_leaves_the_tree_is_refused() {
    let folder = repository();
    let file = folder.path().join(".git/index");
    let index = std::fs::read(&file).unwrap();
    let at = index.windows(6).position(|name| name == b"a.yaml").unwrap();
    for path in [*b"../out", *b".git/x", *b"a/../b", *b"//etc/"] {
        let mut edited = index.clone();
        edited[at..at + 6].copy_from_slice(&path);
        // The last 20 bytes are a checksum.
        edited.truncate(edited.len() - 20);
        std::fs::write(&file, &edited).unwrap();
        let sum = Command::new("sha1sum").arg(&file).output().unwrap().stdout;
        edited.extend(
            (0..40)
                .step_by(2)
                .map(|at| u8::from_str_radix(std::str::from_utf8(&sum[at..at + 2]).unwrap(), 16).unwrap()),
        );
        std::fs::write(&file, edited).unwrap();
        for state in [WorktreeState::Index, WorktreeState::Worktree] {
            worktree::read(folder.path(), &state).unwrap_err();
        }
    }
}

#[test]
fn a_tree_of_trees_that_expands_without_end_is_stopped() {
    let folder = repository();
    let blob = folder.git(&["rev-parse", "HEAD:a.yaml"]);
    let names: Vec<String> = (0..10).map(|number| format!("f{number}")).collect();
    let mut content: Vec<u8> = names.iter().flat_map(|name| entry("100644", name.as_bytes(), &blob)).collect();
    for _ in 0..9 {
        let inner = object(&folder, "tree", &content);
        content = names.iter().flat_map(|name| entry("40000", name.as_bytes(), &inner)).collect();
    }
    let bomb = object(&folder, "tree", &content);
    let error = worktree::read(folder.path(), &WorktreeState::Revision(bomb)).unwrap_err();
    assert!(error.message.contains("it has more than 256 MiB, the limit"), "{error}");
}
