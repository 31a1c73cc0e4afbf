//! Builds with remote bases, which may also use the network and a temporary directory.

use std::net::TcpListener;

use super::{Child, Folder, on};

#[tokio::test]
async fn a_build_with_remote_bases_still_reads_and_writes_nothing_else() {
    let folder = Folder::outside_checkouts("sandbox-fetching");
    let marker = folder.write("marker", "text");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (at, marker) = (folder.path().display(), marker.display());
    let attempts = [
        format!("cat {marker}"),
        format!("echo x > {at}/new"),
        format!("echo x > {marker}"),
        "cat /proc/$PPID/environ".to_owned(),
        "cat /etc/shadow".to_owned(),
        "ls $HOME/.ssh $HOME".to_owned(),
        "setsid true".to_owned(),
        "echo x > $TMPDIR/file && cat $TMPDIR/file".to_owned(),
        format!("bash -c 'echo x > /dev/tcp/127.0.0.1/{port}'"),
        "head -c 1 /dev/urandom".to_owned(),
    ];
    let script: String =
        attempts.iter().map(|attempt| format!("({attempt}) >/dev/null 2>&1 && echo yes || echo no\n")).collect();
    let child = Child::script(&script).fetching();
    let text = child.text(&on()).await;
    assert_eq!(text.lines().collect::<Vec<_>>().join(" "), "no no no no no no no yes yes yes");
    listener.accept().unwrap();
}

#[tokio::test]
async fn git_gets_proxies_and_certificates_and_asks_for_nothing() {
    let child = Child::script("env | grep -E '^(GIT|SSH)_' | sort").fetching();
    let text = child.text(&on()).await;
    for line in ["GIT_ALLOW_PROTOCOL=https:ssh", "GIT_TERMINAL_PROMPT=0", "GIT_SSH_COMMAND=ssh -oBatchMode=yes"] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
}
