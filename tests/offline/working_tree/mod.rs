//! A working tree as Flux would see it: what git would commit.

mod foreign_checkout;
mod merge;
mod odd_files;
mod paths;
mod repository;
mod staging;
mod subject;

use std::collections::BTreeMap;
use std::path::Path;

use gitops_core::flux::source::tree::{File, Tree};
use insta::assert_snapshot;
use kubectl_gitops::tools::git::WorktreeState;
use kubectl_gitops::tools::programs::kustomize::Kustomize;
use kubectl_gitops::tools::worktree;
use test_support::folder::Folder;

fn read(folder: &Folder, state: &WorktreeState) -> BTreeMap<String, String> {
    shown(&worktree::read(folder.path(), state).unwrap())
}

/// Shows the content of each file by its path.
fn shown(tree: &Tree) -> BTreeMap<String, String> {
    let file = |file: &File| match file {
        File::Regular(content) => String::from_utf8_lossy(content).into_owned(),
        File::Symlink(target) => format!("-> {target}"),
        File::Submodule => "submodule".to_owned(),
        File::Unread(why) => format!("unread: {why}"),
    };
    tree.iter().map(|(path, content)| (path.to_owned(), file(content))).collect()
}

fn map(rows: &[(&str, &str)]) -> BTreeMap<String, String> {
    rows.iter().map(|(path, content)| ((*path).to_owned(), (*content).to_owned())).collect()
}

#[test]
fn each_state_of_a_checkout_is_what_git_would_commit() {
    let folder = Folder::outside_checkouts("working-tree");
    folder.git(&["init", "-q", "-b", "main"]);
    folder.write("a.yaml", "committed");
    folder.write("gone.yaml", "committed");
    folder.write("dir/staged.yaml", "committed");
    std::os::unix::fs::symlink("a.yaml", folder.path().join("link.yaml")).unwrap();
    folder.write(".gitignore", "ignored.yaml\n");
    folder.git(&["add", "-A"]);
    folder.git(&["commit", "-q", "-m", "one"]);
    folder.write("dir/staged.yaml", "staged");
    folder.git(&["add", "-A"]);
    folder.write("a.yaml", "edited");
    folder.write("new.yaml", "new");
    folder.write("ignored.yaml", "never");
    std::fs::remove_file(folder.path().join("gone.yaml")).unwrap();
    let base = [(".gitignore", "ignored.yaml\n"), ("link.yaml", "-> a.yaml")];
    let with = |rows: &[(&str, &str)]| map(&[&base[..], rows].concat());
    let revision = [("a.yaml", "committed"), ("gone.yaml", "committed"), ("dir/staged.yaml", "committed")];
    assert_eq!(read(&folder, &WorktreeState::Revision("HEAD".to_owned())), with(&revision));
    let index = [("a.yaml", "committed"), ("gone.yaml", "committed"), ("dir/staged.yaml", "staged")];
    assert_eq!(read(&folder, &WorktreeState::Index), with(&index));
    let worktree = [("a.yaml", "edited"), ("new.yaml", "new"), ("dir/staged.yaml", "staged")];
    assert_eq!(read(&folder, &WorktreeState::Worktree), with(&worktree));
    // A part of a checkout is a source of its own.
    assert_eq!(
        shown(&worktree::read(&folder.path().join("dir"), &WorktreeState::Index).unwrap()),
        map(&[("staged.yaml", "staged")])
    );
}

#[test]
fn line_ends_are_those_of_the_blob() {
    let folder = Folder::outside_checkouts("working-tree");
    folder.git(&["init", "-q", "-b", "main"]);
    folder.write(".gitattributes", "*.yaml text eol=crlf\n");
    folder.write("a.yaml", "one\r\ntwo\r\n");
    assert_eq!(read(&folder, &WorktreeState::Worktree)["a.yaml"], "one\ntwo\n");
    let objects = std::fs::read_dir(folder.path().join(".git/objects")).unwrap().count();
    assert_eq!(objects, 2, "reading must not write objects: only `info` and `pack` may be there");
}

#[test]
fn a_plain_folder_is_read_as_it_is_and_has_no_revisions() {
    let folder = Folder::outside_checkouts("working-tree");
    folder.write("p/a.yaml", "a");
    assert_eq!(read(&folder, &WorktreeState::Worktree), map(&[("p/a.yaml", "a")]));
    let failure = worktree::read(folder.path(), &WorktreeState::Index).unwrap_err();
    let message = failure.message.replace(&folder.path().display().to_string(), "FOLDER");
    assert_snapshot!(message, @"FOLDER is not in a git checkout");
    assert!(worktree::read(&folder.path().join("none"), &WorktreeState::Worktree).is_err());
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let failure = Kustomize::new(Some(Path::new("/nowhere/kustomize"))).version().await.unwrap_err();
    assert_snapshot!(failure.message, @"cannot run /nowhere/kustomize: No such file or directory (os error 2)");
    assert_snapshot!(failure.hint.unwrap(), @"install kubectl, or name a kustomize program with --kustomize");
}
