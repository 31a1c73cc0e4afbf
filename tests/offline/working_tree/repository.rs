//! The repository of a checkout: linked worktrees, `.git` files, other owners, partial and shallow clones.

use std::path::Path;

use insta::assert_snapshot;
use kubectl_gitops::error::Error;
use kubectl_gitops::tools::git::{Checkout, WorktreeState};
use kubectl_gitops::tools::worktree;
use test_support::folder::Folder;

use super::{map, read, shown};

fn committed(name: &str) -> Folder {
    let folder = Folder::outside_checkouts("repository");
    folder.git(&["init", "-q", "-b", "main"]);
    folder.write(name, name);
    folder.git(&["add", "-A"]);
    folder.git(&["commit", "-q", "-m", "one"]);
    folder
}

fn message(error: &Error, names: &[(&str, &Path)]) -> String {
    let mut text = format!("{}\nhint: {}", error.message, error.hint.as_deref().unwrap_or_default());
    for (name, path) in names {
        text = text.replace(path.canonicalize().unwrap().to_str().unwrap(), name);
    }
    text
}

#[test]
fn a_linked_worktree_of_the_user_is_a_checkout() {
    let folder = committed("a.yaml");
    let place = Folder::outside_checkouts("repository");
    let linked = place.path().join("linked");
    folder.git(&["worktree", "add", "-q", "-b", "feature", linked.to_str().unwrap()]);
    std::fs::write(linked.join("b.yaml"), "b").unwrap();
    let tree = worktree::read(&linked, &WorktreeState::Worktree).unwrap();
    assert_eq!(shown(&tree), map(&[("a.yaml", "a.yaml"), ("b.yaml", "b")]));
    assert_eq!(Checkout::find(&linked).unwrap().branch().unwrap(), "feature");
}

#[test]
fn a_git_file_that_points_to_another_repository_is_refused() {
    let (private, foreign) = (committed("secret.yaml"), Folder::outside_checkouts("repository"));
    foreign.write("a.yaml", "a");
    foreign.write(".git", format!("gitdir: {}/.git\n", private.path().display()));
    for state in [WorktreeState::Worktree, WorktreeState::Index, WorktreeState::Revision("HEAD".to_owned())] {
        let error = worktree::read(foreign.path(), &state).unwrap_err();
        insta::allow_duplicates!(
            assert_snapshot!(message(&error, &[("PRIVATE", private.path()), ("FOREIGN", foreign.path())]), @"
        FOREIGN/.git points to the repository PRIVATE/.git, which does not point back to it
        hint: if both are yours, run `git -C FOREIGN config core.worktree FOREIGN`
        ")
        );
    }
    std::fs::remove_file(foreign.path().join(".git")).unwrap();
    std::os::unix::fs::symlink(private.path().join(".git"), foreign.path().join(".git")).unwrap();
    worktree::read(foreign.path(), &WorktreeState::Index).unwrap_err();
    // What the hint says helps.
    let top = foreign.path().to_str().unwrap();
    foreign.git(&["config", "core.worktree", top]);
    worktree::read(foreign.path(), &WorktreeState::Index).unwrap();
}

#[test]
fn a_repository_that_takes_objects_from_another_one_is_refused() {
    let private = committed("secret.yaml");
    let objects = private.path().canonicalize().unwrap().join(".git/objects");
    let foreign = || committed("a.yaml");
    let refused = |folder: &Folder, what: &str| {
        for state in [WorktreeState::Worktree, WorktreeState::Revision("HEAD".to_owned())] {
            let error = worktree::read(folder.path(), &state).unwrap_err();
            assert!(
                error.message.contains("takes objects from elsewhere: ") && error.message.contains(what),
                "{error:?}"
            );
        }
    };
    let folder = foreign();
    folder.write(".git/commondir", format!("{}\n", private.path().join(".git").display()));
    refused(&folder, "its common directory is ");
    let folder = foreign();
    folder.write(".git/objects/info/alternates", format!("{}\n", objects.display()));
    refused(&folder, "it has objects/info/alternates");
    let folder = foreign();
    std::os::unix::fs::symlink(&objects, folder.path().join(".git/objects/pack/lent")).unwrap();
    refused(&folder, "is a link");
    let folder = foreign();
    std::fs::rename(folder.path().join(".git/objects"), folder.path().join("moved")).unwrap();
    std::os::unix::fs::symlink(folder.path().join("moved"), folder.path().join(".git/objects")).unwrap();
    refused(&folder, "objects is a link");
    // A checkout and a linked worktree of the user are read.
    worktree::read(foreign().path(), &WorktreeState::Worktree).unwrap();
}

#[test]
fn a_repository_whose_files_are_elsewhere_is_refused() {
    let (folder, other) = (committed("a.yaml"), Folder::outside_checkouts("repository"));
    other.write("private.yaml", "private");
    folder.git(&["config", "core.worktree", other.path().to_str().unwrap()]);
    let error = worktree::read(folder.path(), &WorktreeState::Worktree).unwrap_err();
    assert_snapshot!(message(&error, &[("FOLDER", folder.path()), ("OTHER", other.path())]), @"
    the repository of FOLDER has its files in OTHER
    hint: core.worktree of its configuration names another directory; name that one
    ");
}

#[test]
fn a_repository_of_another_user_is_refused_and_not_read_as_a_plain_directory() {
    let folder = committed("a.yaml");
    folder.write(".gitignore", "ignored.yaml\n");
    folder.write("ignored.yaml", "ignored");
    let owner = |id: u32| {
        let all = std::process::Command::new("find").arg(folder.path()).output().unwrap().stdout;
        let all = String::from_utf8(all).unwrap();
        all.lines().try_for_each(|path| std::os::unix::fs::lchown(path, Some(id), Some(id)))
    };
    if owner(65534).is_err() {
        // Only root can give files away.
        return;
    }
    for error in [
        worktree::read(folder.path(), &WorktreeState::Worktree),
        Checkout::find(folder.path()).map(|_| Default::default()),
    ] {
        insta::allow_duplicates!(assert_snapshot!(message(&error.unwrap_err(), &[("FOLDER", folder.path())]), @"
        git refuses the checkout FOLDER: it belongs to another user
        hint: if you trust it, run `git config --global --add safe.directory FOLDER`
        "));
    }
    owner(0).unwrap();
}

#[test]
fn what_a_partial_clone_lacks_is_named() {
    let origin = committed("a.yaml");
    origin.git(&["config", "uploadpack.allowFilter", "true"]);
    let place = Folder::outside_checkouts("repository");
    let url = format!("file://{}", origin.path().display());
    place.git(&["clone", "-q", "--no-checkout", "--filter=blob:none", &url, "partial"]);
    let partial = place.path().join("partial");
    let revision = WorktreeState::Revision("main".to_owned());
    let tree = worktree::read(&partial, &revision).unwrap();
    let why = "unread: it is not in this partial clone; `git fetch --refetch --no-filter` fetches all content";
    assert_eq!(shown(&tree), map(&[("a.yaml", why)]));
    // What the message says helps.
    xtask::git::run(&partial, &["fetch", "-q", "--refetch", "--no-filter"]).unwrap();
    assert_eq!(shown(&worktree::read(&partial, &revision).unwrap()), map(&[("a.yaml", "a.yaml")]));
}

#[test]
fn shallow_clones_and_sha256_are_read_and_shared_clones_once_they_have_their_objects() {
    let origin = committed("a.yaml");
    let place = Folder::outside_checkouts("repository");
    let url = format!("file://{}", origin.path().display());
    place.git(&["clone", "-q", "--depth=1", &url, "shallow"]);
    place.git(&["clone", "-q", "--shared", origin.path().to_str().unwrap(), "shared"]);
    let state = |name: &str| worktree::read(&place.path().join(name), &WorktreeState::Worktree);
    assert_eq!(shown(&state("shallow").unwrap()), map(&[("a.yaml", "a.yaml")]));
    // A shared clone has objects of another repository, as a foreign checkout could too. What the hint says helps.
    let hint = state("shared").unwrap_err().hint.unwrap();
    assert!(hint.contains("repack -a -d"), "{hint}");
    let shared = place.path().join("shared");
    xtask::git::run(&shared, &["repack", "-q", "-a", "-d"]).unwrap();
    std::fs::remove_file(shared.join(".git/objects/info/alternates")).unwrap();
    assert_eq!(shown(&state("shared").unwrap()), map(&[("a.yaml", "a.yaml")]));
    assert!(Checkout::find(&place.path().join("shallow")).unwrap().is_shallow());
    let sha256 = Folder::outside_checkouts("repository");
    sha256.git(&["init", "-q", "-b", "main", "--object-format=sha256"]);
    sha256.write("a.yaml", "a\r\n");
    sha256.write(".gitattributes", "* text\n");
    assert_eq!(read(&sha256, &WorktreeState::Worktree)["a.yaml"], "a\n");
}

#[test]
fn a_directory_below_the_top_and_an_ignored_one_are_found() {
    let folder = committed("sub/a.yaml");
    folder.write(".gitignore", "out/\n");
    folder.write("out/built.yaml", "built");
    let tree = |name: &str| shown(&worktree::read(&folder.path().join(name), &WorktreeState::Worktree).unwrap());
    assert_eq!(tree("sub"), map(&[("a.yaml", "sub/a.yaml")]));
    assert_eq!(tree("out"), map(&[("built.yaml", "built")]));
}
