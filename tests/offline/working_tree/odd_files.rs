//! Files that are no manifests: FIFOs, sockets, devices, huge and unreadable ones, links. Every command ends, and what Flux
//! would read is not left out silently.

use std::fs::File;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::time::{Duration, Instant};

use kubectl_gitops::tools::git::WorktreeState;
use kubectl_gitops::tools::worktree;
use test_support::folder::Folder;

use super::{map, read};

fn fifo(folder: &Folder, name: &str) {
    assert!(Command::new("mkfifo").arg(folder.path().join(name)).status().unwrap().success());
}

fn sparse(folder: &Folder, name: &str) {
    File::create(folder.path().join(name)).unwrap().set_len(5 << 30).unwrap();
}

/// Adds what is no regular file, each with the ending of a manifest.
fn add_special_files(folder: &Folder) {
    fifo(folder, "fifo.yaml");
    drop(UnixListener::bind(folder.path().join("socket.yaml")).unwrap());
    symlink("/dev/zero", folder.path().join("zero.yaml")).unwrap();
    symlink(".", folder.path().join("loop.yaml")).unwrap();
    // Only root can make a device.
    let _ = Command::new("mknod").arg(folder.path().join("device.yaml")).args(["c", "1", "5"]).status();
}

const TOO_LARGE: &str = "it has 5368709120 bytes, and the limit for one file is 64 MiB";

#[test]
fn a_plain_directory_with_special_files_is_read_as_an_artifact_is_packed() {
    let folder = Folder::outside_checkouts("odd-files");
    folder.write("a.yaml", "a");
    add_special_files(&folder);
    sparse(&folder, "big.yaml");
    let big = format!("unread: it cannot be read: {TOO_LARGE}");
    let expected = [("a.yaml", "a"), ("big.yaml", &big), ("loop.yaml", "-> ."), ("zero.yaml", "-> /dev/zero")];
    assert_eq!(read(&folder, &WorktreeState::Worktree), map(&expected));
}

#[test]
fn a_checkout_with_special_files_is_read_as_git_reads_it() {
    let folder = Folder::outside_checkouts("odd-files");
    folder.git(&["init", "-q", "-b", "main"]);
    for name in ["fifo.yaml", "socket.yaml", "zero.yaml", "big.yaml", "kept.yaml"] {
        folder.write(name, "committed");
    }
    folder.git(&["add", "-A"]);
    folder.git(&["commit", "-q", "-m", "one"]);
    for name in ["fifo.yaml", "socket.yaml", "zero.yaml"] {
        std::fs::remove_file(folder.path().join(name)).unwrap();
    }
    add_special_files(&folder);
    fifo(&folder, "untracked-fifo.yaml");
    sparse(&folder, "big.yaml");
    sparse(&folder, "untracked-big.yaml");
    let special = "unread: it is not a regular file, and git cannot add it";
    let big = format!("unread: {TOO_LARGE}");
    let expected = [
        ("big.yaml", &*big),
        ("fifo.yaml", special),
        ("kept.yaml", "committed"),
        ("loop.yaml", "-> ."),
        ("socket.yaml", special),
        ("untracked-big.yaml", &big),
        ("zero.yaml", "-> /dev/zero"),
    ];
    assert_eq!(read(&folder, &WorktreeState::Worktree), map(&expected));
}

#[test]
fn a_large_blob_is_not_read() {
    let folder = Folder::outside_checkouts("odd-files");
    folder.git(&["init", "-q", "-b", "main"]);
    File::create(folder.path().join("big.yaml")).unwrap().set_len((64 << 20) + 1).unwrap();
    File::create(folder.path().join("fits.yaml")).unwrap().set_len(64 << 20).unwrap();
    folder.git(&["add", "-A"]);
    let tree = worktree::read(folder.path(), &WorktreeState::Index).unwrap();
    let shown = super::shown(&tree);
    assert_eq!(shown["big.yaml"], "unread: it has 67108865 bytes, and the limit for one file is 64 MiB");
    assert_eq!(shown["fits.yaml"].len(), 64 << 20);
}

#[test]
fn files_that_may_not_be_read_are_named() {
    let folder = Folder::outside_checkouts("odd-files");
    folder.write("a.yaml", "a");
    folder.write("secret/b.yaml", "b");
    let locked = [folder.path().join("a.yaml"), folder.path().join("secret")];
    for path in &locked {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o000)).unwrap();
    }
    let read = read(&folder, &WorktreeState::Worktree);
    for path in &locked {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).unwrap();
    }
    // Root may read everything.
    if read["a.yaml"] != "a" {
        let why = "unread: it cannot be read: Permission denied (os error 13)";
        assert_eq!(read, map(&[("a.yaml", why), ("secret", why)]));
    }
}

#[test]
fn too_deep_directories_are_an_error() {
    let folder = Folder::outside_checkouts("odd-files");
    let deep = |levels: usize| vec!["d"; levels].join("/");
    folder.write(&format!("{}/a.yaml", deep(100)), "a");
    assert_eq!(worktree::read(folder.path(), &WorktreeState::Worktree).unwrap().len(), 1);
    folder.write(&format!("{}/a.yaml", deep(101)), "a");
    let error = worktree::read(folder.path(), &WorktreeState::Worktree).unwrap_err();
    assert!(error.message.ends_with("has more than 100 nested directories, the limit"), "{error}");
}

#[test]
fn twenty_thousand_files_take_seconds() {
    let folder = Folder::outside_checkouts("odd-files");
    for number in 0..20_000 {
        folder.write(&format!("d{}/{number}.yaml", number % 100), format!("number: {number}\r\n"));
    }
    let mut times = String::new();
    let mut measure = |what: &str, state: &WorktreeState| {
        let started = Instant::now();
        assert_eq!(worktree::read(folder.path(), state).unwrap().len(), 20_000, "{what}");
        times += &format!("{what}: {:?}\n", started.elapsed());
        assert!(started.elapsed() < Duration::from_secs(120), "{times}");
    };
    measure("a plain directory", &WorktreeState::Worktree);
    folder.git(&["init", "-q", "-b", "main"]);
    std::fs::write(folder.path().join(".git/info/attributes"), "*.yaml text\n").unwrap();
    measure("untracked, with conversion", &WorktreeState::Worktree);
    folder.git(&["add", "-A"]);
    folder.git(&["commit", "-q", "-m", "one"]);
    measure("unchanged", &WorktreeState::Worktree);
    measure("a revision", &WorktreeState::Revision("HEAD".to_owned()));
}
