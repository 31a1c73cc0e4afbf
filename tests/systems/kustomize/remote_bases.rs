//! A remote base on a git server, with certificates of its own: fetched with `--allow-remote-bases` and not without.

use std::io::Write;
use std::path::Path;

use crate::tls;
use test_support::folder::Folder;
use test_support::gitops::{Run, command};
use test_support::servers;
use xtask::controlplane::bin;

/// Serves the repositories of a folder over https on loopback. Returns the port.
fn serve(folder: &Path) -> u16 {
    let (open, certificate) = tls::server();
    std::fs::write(folder.join("ca.pem"), certificate).unwrap();
    servers::git_over(folder, open, |stream| {
        stream.conn.send_close_notify();
        stream.flush()
    })
}

/// The plan of a recorded cluster whose Kustomization `infrastructure` has a base in the repository.
fn plan(tree: &Folder, certificates: &Path, flags: &[&str]) -> Run {
    let mut command = command(&["prune", "--plan", "--snapshot", "examples/shop.json.gz", "-o", "json", "--kustomize"]);
    command.arg(bin("kustomize")).arg(format!("--source=GitRepository/flux-system/shop={}", tree.path().display()));
    command.env("SSL_CERT_FILE", certificates).env("GIT_SSL_CAINFO", certificates).args(flags);
    Run::of(command.env("XDG_CACHE_HOME", tree.path().join("cache")))
}

#[test]
fn a_remote_base_is_fetched_only_with_its_flag() {
    let server = Folder::outside_checkouts("remote-base");
    let base = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: from-the-base, namespace: default}\n";
    server.write("repo/base/kustomization.yaml", "resources: [a.yaml]\n");
    server.write("repo/base/a.yaml", base);
    let in_repo = |words: &[&str]| xtask::git::run(server.path().join("repo"), words).unwrap();
    in_repo(&["init", "-q", "-b", "main"]);
    in_repo(&["add", "-A"]);
    in_repo(&["commit", "-q", "-m", "one"]);
    let port = serve(server.path());
    let tree = Folder::outside_checkouts("remote-base-tree");
    let url = format!("https://127.0.0.1:{port}/repo/.git//base?ref=main");
    tree.write("infrastructure/kustomization.yaml", format!("resources: ['{url}']\n"));
    let certificates = server.path().join("ca.pem");
    let (without, with) = (plan(&tree, &certificates, &[]), plan(&tree, &certificates, &["--allow-remote-bases"]));
    assert!(without.stdout.contains("\"remote-base\""), "{without:?}");
    assert!(!without.stdout.contains("from-the-base"), "{without:?}");
    assert!(with.stdout.contains("from-the-base"), "{with:?}");
}
