//! Merge results, computed without a change of the checkout and without a program that it names.

use std::collections::BTreeMap;

use kubectl_gitops::error::Result;
use kubectl_gitops::tools::git::{Checkout, WorktreeState};
use kubectl_gitops::tools::worktree;
use test_support::folder::Folder;

use super::{map, shown};

/// A checkout on branch `feature`, which is one commit behind `main`.
pub(super) fn behind(own: &[(&str, &str)], deployed: &[(&str, &str)]) -> Folder {
    let folder = Folder::outside_checkouts("merge");
    folder.git(&["init", "-q", "-b", "main"]);
    commit(&folder, &[("a.yaml", "one\n"), ("b.yaml", "one\n")]);
    folder.git(&["checkout", "-q", "-b", "feature"]);
    commit(&folder, own);
    folder.git(&["checkout", "-q", "main"]);
    commit(&folder, deployed);
    folder.git(&["checkout", "-q", "feature"]);
    folder
}

pub(super) fn commit(folder: &Folder, files: &[(&str, &str)]) {
    for (name, content) in files {
        folder.write(name, content);
    }
    folder.git(&["add", "-A"]);
    folder.git(&["commit", "-q", "-m", "change"]);
}

fn merged(folder: &Folder) -> Result<BTreeMap<String, String>> {
    let checkout = Checkout::find(folder.path())?;
    let (ours, theirs) = (checkout.commit("main").unwrap(), checkout.head().unwrap());
    worktree::read(folder.path(), &WorktreeState::Merge { ours, theirs }).map(|tree| shown(&tree))
}

#[test]
fn a_merge_result_has_both_changes_and_leaves_no_trace() {
    let folder = behind(&[("a.yaml", "two\n")], &[("b.yaml", "two\n"), ("c.yaml", "new\n")]);
    folder.write("a.yaml", "uncommitted\n");
    let state = || (folder.git(&["status", "--porcelain"]), folder.git(&["count-objects"]));
    let before = state();
    let expected = map(&[("a.yaml", "two\n"), ("b.yaml", "two\n"), ("c.yaml", "new\n")]);
    assert_eq!(merged(&folder).unwrap(), expected);
    assert_eq!(state(), before);
    let checkout = Checkout::find(folder.path()).unwrap();
    let [main, head] = ["main", "HEAD"].map(|name| checkout.commit(name).unwrap());
    let divergence = checkout.divergence(&head, &main).unwrap();
    assert_eq!((divergence.behind, divergence.merge_base), (1, checkout.commit("main~1")));
}

#[test]
fn a_conflict_names_the_files() {
    let folder = behind(&[("a.yaml", "two\n")], &[("a.yaml", "three\n")]);
    let message = merged(&folder).unwrap_err().message;
    assert!(message.contains(" conflicts with ") && message.ends_with(" in a.yaml"), "{message}");
}

#[test]
fn no_merge_driver_runs() {
    let lines = |first: &str, last: &str| format!("{first}\n2\n3\n4\n5\n6\n7\n8\n{last}\n");
    let folder = Folder::outside_checkouts("merge");
    folder.git(&["init", "-q", "-b", "main"]);
    commit(&folder, &[(".gitattributes", "*.yaml merge=evil\n"), ("a.yaml", &lines("1", "9"))]);
    folder.git(&["checkout", "-q", "-b", "feature"]);
    commit(&folder, &[("a.yaml", &lines("one", "9"))]);
    folder.git(&["checkout", "-q", "main"]);
    commit(&folder, &[("a.yaml", &lines("1", "nine"))]);
    folder.git(&["checkout", "-q", "feature"]);
    let witness = folder.path().join("ran");
    folder.git(&["config", "merge.evil.driver", &format!("touch {} && cat %B > %A", witness.display())]);
    folder.git(&["config", "merge.default", "evil"]);
    let message = merged(&folder).unwrap_err().message;
    assert!(message.ends_with(" in a.yaml") && !witness.exists(), "{message}");
    // No option can name this driver.
    let file = folder.path().join(".git/config");
    let section = [b"[merge \"\xff\"]\ndriver = touch ", witness.to_str().unwrap().as_bytes(), b"\n"].concat();
    std::fs::write(&file, [std::fs::read(&file).unwrap(), section].concat()).unwrap();
    std::fs::write(folder.path().join(".gitattributes"), b"*.yaml merge=\xff\n").unwrap();
    let message = merged(&folder).unwrap_err().message;
    assert!(message.contains("cannot be turned off") && !witness.exists(), "{message}");
}
