//! Unusual checkouts, compared with what `git add -A` stages in a copy of them.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::process::Command;

use kubectl_gitops::tools::git::WorktreeState;
use test_support::folder::Folder;

use super::{map, read};

fn checkout() -> Folder {
    let folder = Folder::outside_checkouts("staging");
    folder.git(&["init", "-q", "-b", "main"]);
    for name in ["a.yaml", "dir/b.yaml", "dir/deep/c.yaml", "gone.yaml", "link-to-be.yaml"] {
        folder.write(name, format!("{name}\n"));
    }
    symlink("a.yaml", folder.path().join("link.yaml")).unwrap();
    commit(&folder);
    folder
}

fn commit(folder: &Folder) {
    folder.git(&["add", "-A"]);
    folder.git(&["commit", "-q", "-m", "one"]);
}

/// Files that git stages in a copy of the folder.
fn staged_by_git(folder: &Folder) -> BTreeMap<String, String> {
    let copy = Folder::outside_checkouts("staging-copy");
    let at = copy.path().join("copy");
    assert!(Command::new("cp").arg("-a").args([folder.path(), &at]).status().unwrap().success());
    let git = |arguments: &[&str]| xtask::git::run(&at, arguments).unwrap();
    git(&["add", "-A"]);
    let tree = git(&["write-tree"]);
    let mut staged = BTreeMap::new();
    for line in git(&["ls-tree", "-r", "-z", &tree]).split_terminator('\0') {
        let (meta, path) = line.split_once('\t').unwrap();
        let fields: Vec<&str> = meta.split(' ').collect();
        let content = || {
            let output = Command::new("git").arg("-C").arg(&at).args(["cat-file", "blob", fields[2]]).output().unwrap();
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let shown = match fields[0] {
            "160000" => "submodule".to_owned(),
            "120000" => format!("-> {}", content()),
            _ => content(),
        };
        staged.insert(path.to_owned(), shown);
    }
    staged
}

#[track_caller]
fn assert_same(folder: &Folder, what: &str) {
    assert_eq!(read(folder, &WorktreeState::Worktree), staged_by_git(folder), "{what}");
}

#[test]
fn files_that_change_their_kind() {
    let folder = checkout();
    let at = |name: &str| folder.path().join(name);
    std::fs::remove_file(at("gone.yaml")).unwrap();
    folder.write("gone.yaml/inside.yaml", "a directory took the place of a file");
    std::fs::remove_file(at("link-to-be.yaml")).unwrap();
    symlink("/etc/hostname", at("link-to-be.yaml")).unwrap();
    std::fs::remove_file(at("link.yaml")).unwrap();
    folder.write("link.yaml", "a file took the place of a link");
    assert_same(&folder, "file, directory and link change places");
    std::fs::remove_dir_all(at("dir")).unwrap();
    symlink("/etc", at("dir")).unwrap();
    assert_same(&folder, "a link took the place of a directory");
    std::fs::remove_file(at("dir")).unwrap();
    folder.write("dir", "a file took the place of a directory");
    assert_same(&folder, "a file took the place of a directory");
}

#[test]
fn flags_of_the_index_hide_changes() {
    let folder = checkout();
    folder.git(&["update-index", "--assume-unchanged", "a.yaml", "gone.yaml"]);
    folder.git(&["update-index", "--skip-worktree", "dir/b.yaml", "dir/deep/c.yaml"]);
    for name in ["a.yaml", "dir/b.yaml"] {
        folder.write(name, "a change that git does not see");
    }
    for name in ["gone.yaml", "dir/deep/c.yaml"] {
        std::fs::remove_file(folder.path().join(name)).unwrap();
    }
    assert_same(&folder, "assume-unchanged and skip-worktree");
    assert_eq!(read(&folder, &WorktreeState::Worktree)["a.yaml"], "a.yaml\n");
}

#[test]
fn files_outside_of_a_sparse_checkout_are_still_committed() {
    for mode in ["--cone", "--sparse-index", "--no-cone"] {
        let folder = checkout();
        folder.git(&["sparse-checkout", "set", mode, "other"]);
        assert!(!folder.path().join("dir/b.yaml").exists());
        // Without cones, the files of the root are outside too.
        if mode != "--no-cone" {
            folder.write("a.yaml", "changed");
        }
        assert_same(&folder, mode);
        assert!(read(&folder, &WorktreeState::Worktree).contains_key("dir/deep/c.yaml"));
    }
}

#[test]
fn names_with_odd_characters_are_read() {
    let folder = checkout();
    for name in ["\"quoted\".yaml", "-dash.yaml", "space and ü.yaml", "back\\slash.yaml", ":colon.yaml", "[a]*.yaml"] {
        folder.write(name, format!("{name}\r\n"));
    }
    assert_same(&folder, "untracked");
    folder.write(".gitattributes", "*.yaml text\n");
    assert_same(&folder, "untracked, with conversion");
    commit(&folder);
    assert_same(&folder, "tracked");
}

#[test]
fn conversions_of_git_are_those_of_git() {
    let folder = checkout();
    let attributes =
        "*.crlf text eol=crlf\n*.ident ident\n*.utf16 working-tree-encoding=UTF-16LE\n*.bin -text\n*.auto text=auto\n";
    let utf16: Vec<u8> = "ü: 1\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    for directory in ["", "dir/deep/"] {
        for name in ["a.crlf", "a.bin", "a.auto", "a.none", "a.txt"] {
            folder.write(&format!("{directory}{name}"), "one\r\ntwo\r\n");
        }
        folder.write(&format!("{directory}a.ident"), "$Id: something$\r\n");
        folder.write(&format!("{directory}a.utf16"), &utf16);
    }
    for (file, key) in [
        ("dir/.gitattributes", ""),
        (".git/info/attributes", ""),
        (".gitattributes", "input"),
        (".gitattributes", "true"),
    ] {
        folder.write(file, attributes);
        if !key.is_empty() {
            folder.git(&["config", "core.autocrlf", key]);
            folder.git(&["config", "core.safecrlf", "false"]);
        }
        assert_same(&folder, &format!("{file} {key}"));
    }
    // It would make git refuse the file.
    folder.git(&["config", "core.safecrlf", "true"]);
    assert_eq!(read(&folder, &WorktreeState::Worktree)["a.crlf"], "one\ntwo\n");
}

#[test]
fn a_merge_conflict_is_an_error_of_the_index_and_a_file_of_the_worktree() {
    let folder = checkout();
    for (branch, text) in [("other", "theirs\n"), ("main", "ours\n")] {
        folder.git(&["checkout", "-q", "-B", branch, if branch == "main" { "main" } else { "HEAD" }]);
        folder.write("a.yaml", text);
        if branch == "other" {
            folder.write("gone.yaml", "changed");
        } else {
            std::fs::remove_file(folder.path().join("gone.yaml")).unwrap();
        }
        commit(&folder);
    }
    assert!(xtask::git::run(folder.path(), &["merge", "-q", "other"]).is_err());
    assert_same(&folder, "conflicts");
    assert!(read(&folder, &WorktreeState::Worktree)["a.yaml"].contains("<<<<<<<"));
    let failure = kubectl_gitops::tools::worktree::read(folder.path(), &WorktreeState::Index).unwrap_err();
    insta::assert_snapshot!(failure.message, @"a.yaml has a merge conflict in the index");
    insta::assert_snapshot!(failure.hint.unwrap(), @"resolve it and run `git add` on the file");
}

#[test]
fn submodules_and_embedded_checkouts_are_not_entered() {
    let (folder, library) = (checkout(), checkout());
    let url = library.path().to_str().unwrap();
    folder.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", url, "lib"]);
    commit(&folder);
    folder.write("lib/a.yaml", "changed in the submodule");
    let nested = folder.path().join("nested");
    xtask::git::run(folder.path(), &["clone", "-q", url, "nested"]).unwrap();
    assert!(nested.join("a.yaml").exists());
    assert_same(&folder, "a submodule and a clone");
    assert_eq!(read(&folder, &WorktreeState::Worktree)["lib"], "submodule");
    std::fs::remove_dir_all(folder.path().join("lib")).unwrap();
    assert_same(&folder, "a submodule that is not there");
    for state in [WorktreeState::Index, WorktreeState::Revision("HEAD".to_owned())] {
        assert_eq!(read(&folder, &state)["lib"], "submodule");
    }
}

#[test]
fn attributes_of_archives_do_not_count() {
    let folder = checkout();
    folder.write(".gitattributes", "a.yaml export-ignore export-subst\n");
    folder.write("a.yaml", "$Format:%H$");
    commit(&folder);
    let revision = read(&folder, &WorktreeState::Revision("HEAD".to_owned()));
    assert_eq!(revision["a.yaml"], "$Format:%H$");
    assert_eq!(map(&[("a.yaml", "$Format:%H$")])["a.yaml"], revision["a.yaml"]);
    assert_same(&folder, "export-ignore");
}
