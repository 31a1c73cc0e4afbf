//! Checkouts that somebody else prepared: no program that their configuration names runs, no address in it is contacted.
//!
//! Each program writes a marker file. A control shows that git without our options runs it where it can.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use kubectl_gitops::tools::git::{Checkout, WorktreeState};
use kubectl_gitops::tools::worktree;
use test_support::folder::Folder;

use super::read;

/// Everything that is asked of a checkout.
fn use_everything(folder: &Folder) {
    let revisions = ["HEAD", "main", "0123456789012345678901234567890123456789"];
    let revisions = revisions.map(|name| WorktreeState::Revision(name.to_owned()));
    for state in [&[WorktreeState::Worktree, WorktreeState::Index][..], &revisions].concat() {
        let _ = worktree::read(folder.path(), &state);
    }
    let checkout = Checkout::find(folder.path()).unwrap();
    let _ = (checkout.remotes(), checkout.branch(), checkout.is_shallow(), checkout.ignores(folder.path()));
    let _ = (checkout.line("HEAD", 10, None, None), checkout.has_in_history("HEAD", "main"));
}

/// A checkout with a changed, a staged and an untracked file, whose size is that of the committed one, and the program
/// that writes the marker.
fn checkout() -> (Folder, PathBuf, String) {
    let folder = Folder::outside_checkouts("foreign-checkout");
    folder.git(&["init", "-q", "-b", "main"]);
    folder.write(".gitattributes", "*.yaml filter=evil diff=evil merge=evil\n");
    folder.write("a.yaml", "committed");
    folder.git(&["add", "-A"]);
    folder.git(&["commit", "-q", "-m", "one"]);
    let marker = folder.path().with_extension("marker");
    let program = folder.script("program", &format!("touch {}\ncat", marker.display()));
    let program = program.to_str().unwrap().to_owned();
    // The same size: git has to compare the content.
    folder.write("a.yaml", "different");
    folder.write("untracked.yaml", "new");
    (folder, marker, program)
}

fn config(folder: &Folder, key: &str, value: &str) {
    folder.git(&["config", key, value]);
}

#[track_caller]
fn assert_silent(marker: &Path, what: &str) {
    assert!(!marker.exists(), "{what} ran a program");
}

#[test]
fn no_program_of_the_configuration_runs() {
    let keys = [
        "core.fsmonitor",
        "core.editor",
        "core.pager",
        "core.askPass",
        "core.sshCommand",
        "core.gitProxy",
        "core.alternateRefsCommand",
        "credential.helper",
        "diff.external",
        "diff.evil.command",
        "diff.evil.textconv",
        "merge.evil.driver",
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "gpg.program",
        "gpg.ssh.program",
        "uploadpack.packObjectsHook",
        "sequence.editor",
        "pager.ls-files",
        "pager.config",
        "alias.ls-files",
        "alias.rev-parse",
        "trace2.eventTarget",
        "interactive.diffFilter",
        "remote.origin.vcs",
    ];
    for key in keys {
        let (folder, marker, program) = checkout();
        config(&folder, "remote.origin.url", "https://example.invalid/repository");
        config(&folder, key, &program);
        use_everything(&folder);
        assert_silent(&marker, key);
        // The same in a file that the configuration includes.
        folder.git(&["config", "--unset", key]);
        folder.git(&["config", "--file", "included", key, &program]);
        config(&folder, "include.path", "../included");
        use_everything(&folder);
        assert_silent(&marker, &format!("{key} in an included file"));
        if ["core.fsmonitor", "filter.evil.clean", "filter.evil.process"].contains(&key) {
            let _ = xtask::git::run(folder.path(), &["ls-files", "-m"]);
            assert!(marker.exists(), "git itself runs {key}");
            std::fs::remove_file(&marker).unwrap();
        }
    }
}

#[test]
fn a_checkout_with_a_filter_whose_name_no_option_can_have_is_refused() {
    for name in [&b"a=b"[..], b"\xff"] {
        let (folder, marker, program) = checkout();
        let attributes = [b"*.yaml filter=", name, b"\n"].concat();
        std::fs::write(folder.path().join(".gitattributes"), attributes).unwrap();
        let file = folder.path().join(".git/config");
        let section = [b"[filter \"", name, b"\"]\nclean = ", program.as_bytes(), b"\n"].concat();
        std::fs::write(&file, [std::fs::read(&file).unwrap(), section].concat()).unwrap();
        let refused = Checkout::find(folder.path()).err().unwrap().message;
        assert!(refused.contains("cannot be turned off"), "{refused}");
        assert!(worktree::read(folder.path(), &WorktreeState::Worktree).is_err());
        assert_silent(&marker, "a filter");
        let _ = xtask::git::run(folder.path(), &["ls-files", "-m"]);
        assert!(marker.exists(), "git itself runs it");
    }
}

#[test]
fn no_signature_is_verified_by_a_program_of_the_configuration() {
    let (folder, marker, program) = checkout();
    let [tree, parent] = ["HEAD^{tree}", "HEAD"].map(|name| folder.git(&["rev-parse", name]));
    let person = "a <a@example.com> 1764300000 +0000";
    let signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----";
    let commit = format!("tree {tree}\nparent {parent}\nauthor {person}\ncommitter {person}\n{signature}\n\nsigned\n");
    folder.write(".git/signed", &commit);
    let commit = folder.git(&["hash-object", "-t", "commit", "-w", ".git/signed"]);
    folder.git(&["update-ref", "refs/heads/main", &commit]);
    config(&folder, "gpg.program", &program);
    config(&folder, "log.showSignature", "true");
    use_everything(&folder);
    assert_silent(&marker, "log.showSignature");
    let line = Checkout::find(folder.path()).unwrap().line("HEAD", 10, None, None).unwrap();
    assert_eq!(line.iter().map(|commit| &*commit.subject).collect::<Vec<_>>(), ["signed", "one"]);
    let _ = xtask::git::run(folder.path(), &["log", "--format=%H", "--max-count=1"]);
    assert!(marker.exists(), "git itself runs gpg.program");
}

#[test]
fn no_hook_runs() {
    let (folder, marker, program) = checkout();
    for hook in ["post-index-change", "fsmonitor-watchman", "pre-commit", "post-checkout", "reference-transaction"] {
        std::fs::copy(&program, folder.path().join(".git/hooks").join(hook)).unwrap();
    }
    use_everything(&folder);
    assert_silent(&marker, "a hook");
    config(&folder, "core.hooksPath", folder.path().join(".git/hooks").to_str().unwrap());
    use_everything(&folder);
    assert_silent(&marker, "core.hooksPath");
}

#[test]
fn missing_objects_are_not_fetched() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    silent.set_nonblocking(true).unwrap();
    let port = silent.local_addr().unwrap().port();
    let (folder, marker, program) = checkout();
    let blob = folder.git(&["rev-parse", "HEAD:a.yaml"]);
    std::fs::remove_file(folder.path().join(".git/objects").join(&blob[..2]).join(&blob[2..])).unwrap();
    config(&folder, "core.repositoryFormatVersion", "1");
    config(&folder, "extensions.partialClone", "origin");
    config(&folder, "remote.origin.promisor", "true");
    config(&folder, "core.sshCommand", &program);
    config(&folder, "core.gitProxy", &program);
    config(&folder, "remote.origin.uploadpack", &program);
    for protocol in ["ext", "file", "ssh", "git", "http", "https"] {
        config(&folder, &format!("protocol.{protocol}.allow"), "always");
    }
    let other = folder.path().display();
    let urls = [
        "ssh://example.invalid/repository".to_owned(),
        format!("ext::{program}"),
        format!("git://127.0.0.1:{port}/repository"),
        format!("http://127.0.0.1:{port}/repository"),
        format!("https://127.0.0.1:{port}/repository"),
        format!("file://{other}"),
        other.to_string(),
    ];
    for url in urls {
        config(&folder, "remote.origin.url", &url);
        use_everything(&folder);
        assert_silent(&marker, &url);
        let read = read(&folder, &WorktreeState::Index);
        assert!(read["a.yaml"].starts_with("unread: it is not in this partial clone"), "{read:?}");
        let connection = silent.accept().map(|(_, address)| address);
        assert_eq!(connection.unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "{url} was contacted");
        if url.starts_with("ssh:") || url.starts_with("ext:") {
            // Git would wait for an answer of the program.
            let mut control = Command::new("timeout");
            control.args(["5", "git", "-C"]).arg(folder.path()).args(["cat-file", "blob", &blob]);
            let _ = control.output().unwrap();
            assert!(marker.exists(), "git itself runs the program for {url}");
            std::fs::remove_file(&marker).unwrap();
        }
    }
}

#[test]
fn the_output_of_a_filter_is_unknown_except_for_the_pointers_of_git_lfs() {
    let (folder, marker, program) = checkout();
    for name in ["evil", "lfs"] {
        config(&folder, &format!("filter.{name}.clean"), &program);
        config(&folder, &format!("filter.{name}.required"), "true");
    }
    config(&folder, "filter.none.smudge", &program);
    folder.write(
        ".gitattributes",
        "a.yaml filter=evil\n*.bin filter=lfs -text\nc.yaml filter=unknown\nd.yaml filter=none\n",
    );
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:\
                   9c4d8e1e1b9e2a1a7f8b2b2d9a0a6c5b0a4c1f2d3e4f5a6b7c8d9e0f1a2b3c4d\nsize 14\n";
    for (name, content) in [("large.bin", "large content\n"), ("empty.bin", ""), ("pointer.bin", pointer)] {
        folder.write(name, content);
    }
    folder.write("c.yaml", "c");
    folder.write("d.yaml", "d");
    let read = read(&folder, &WorktreeState::Worktree);
    assert_silent(&marker, "a filter");
    assert_eq!(read["a.yaml"], "unread: git stores the output of the filter \"evil\", and filters are not run");
    // As `git lfs clean` of git-lfs prints it.
    let expected = "version https://git-lfs.github.com/spec/v1\n\
                    oid sha256:ca27f3a1fa46b52b9b770c0f09ec44d48b0f6a1e6b0c8955b8ac1976b6d6c3cb\nsize 14\n";
    assert_eq!(read["large.bin"], expected);
    assert_eq!((&*read["empty.bin"], &*read["pointer.bin"]), ("", pointer));
    assert_eq!((&*read["c.yaml"], &*read["d.yaml"]), ("c", "d"));
}

#[test]
fn an_embedded_bare_repository_is_plain_files() {
    let (folder, marker, program) = checkout();
    let inner = folder.path().join("inner");
    folder.git(&["init", "-q", "--bare", "inner"]);
    xtask::git::run(&inner, &["config", "core.fsmonitor", &program]).unwrap();
    xtask::git::run(&inner, &["config", "core.bare", "false"]).unwrap();
    xtask::git::run(&inner, &["config", "core.worktree", folder.path().to_str().unwrap()]).unwrap();
    let read = super::shown(&worktree::read(&inner, &WorktreeState::Worktree).unwrap());
    assert!(read.contains_key("HEAD") && read.contains_key("config"), "{read:?}");
    assert_silent(&marker, "a bare repository in the tree");
}

#[test]
fn replacements_of_objects_are_not_what_flux_fetches() {
    let (folder, ..) = checkout();
    let blob = folder.git(&["rev-parse", "HEAD:a.yaml"]);
    folder.write("other", "replaced");
    let other = folder.git(&["hash-object", "-w", "other"]);
    folder.git(&["replace", &blob, &other]);
    assert_eq!(folder.git(&["cat-file", "blob", &blob]), "replaced");
    assert_eq!(read(&folder, &WorktreeState::Index)["a.yaml"], "committed");
}

#[test]
fn grafts_cut_no_history() {
    let (folder, ..) = checkout();
    folder.git(&["commit", "-q", "--allow-empty", "-m", "two"]);
    let head = folder.git(&["rev-parse", "HEAD"]);
    folder.write(".git/info/grafts", format!("{head}\n"));
    assert_eq!(folder.git(&["rev-list", "--count", "HEAD"]), "1");
    let checkout = Checkout::find(folder.path()).unwrap();
    assert_eq!(checkout.line("HEAD", 9, None, None).unwrap().len(), 2);
}
