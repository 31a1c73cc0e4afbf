//! Installed by the real flux from a catalog on loopback, as RFC-0013 of Flux describes, and run and completed by it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};

use test_support::folder::Folder;
use xtask::controlplane;
use xtask::dist::manifests;

use crate::krew::{ARCHIVE, platform, sum};

const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));

/// Serves the files of a folder on loopback until the tests end, and returns the address.
pub(crate) fn serve(folder: &Path) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let folder = folder.to_owned();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let request = lines.next().and_then(Result::ok).unwrap_or_default();
            let name = request.split(' ').nth(1).unwrap_or_default().trim_start_matches('/').to_owned();
            // The rest of the request must be read, or closing the connection would reset it.
            lines.map_while(Result::ok).take_while(|line| !line.is_empty()).for_each(drop);
            let (status, body) = match fs::read(folder.join(&name)) {
                Ok(body) if !name.is_empty() => ("200 OK", body),
                _ => ("404 Not Found", vec![]),
            };
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
        }
    });
    address
}

/// A home folder whose catalog has the plugin.
struct Flux {
    home: Folder,
    catalog: String,
}

impl Flux {
    fn new(name: &str, sum: String) -> Self {
        controlplane::ensure(&["flux"]).unwrap();
        let home = Folder::outside_checkouts(name);
        let archives = serve(ARCHIVE.parent().unwrap());
        let address = format!("{archives}/{}", ARCHIVE.file_name().unwrap().display());
        let manifest = manifests::flux(VERSION, &[(platform(), sum)]).replace(&platform().url(VERSION), &address);
        home.write("catalog/gitops.yaml", manifest);
        home.write("catalog/catalog.yaml", manifests::flux_catalog());
        let catalog = format!("{}/", serve(&home.path().join("catalog")));
        Self { home, catalog }
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(controlplane::bin("flux"));
        command.args(args).env_clear().env("HOME", self.home.path()).env("TMPDIR", self.home.path());
        command.env("FLUXCD_PLUGIN_CATALOG", &self.catalog).env("PATH", "/usr/bin:/bin").output().unwrap()
    }

    fn succeed(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

#[test]
fn flux_installs_runs_and_completes_the_plugin() {
    let flux = Flux::new("flux-plugin", sum(&ARCHIVE));
    assert!(flux.succeed(&["plugin", "search"]).contains("gitops"));
    flux.succeed(&["plugin", "install", "gitops"]);
    assert!(flux.succeed(&["plugin", "list"]).contains(env!("CARGO_PKG_VERSION")));
    assert_eq!(flux.succeed(&["gitops", "version"]), concat!("kubectl-gitops ", env!("CARGO_PKG_VERSION"), "\n"));

    // Help and messages name the program as the user does.
    let help = flux.succeed(&["gitops", "prune", "--help"]);
    assert!(help.contains("Usage: flux gitops prune") && !help.contains("kubectl gitops"), "{help}");
    let mistyped = flux.run(&["gitops", "prun"]);
    let message = String::from_utf8_lossy(&mistyped.stderr).into_owned();
    assert_eq!(mistyped.status.code(), Some(2));
    assert!(message.contains("`flux gitops`") && !message.contains("kubectl gitops"), "{message}");

    let candidates = flux.succeed(&["__complete", "gitops", ""]);
    assert!(candidates.lines().any(|line| line.starts_with("inventory")), "{candidates}");
    let candidates = flux.succeed(&["__complete", "gitops", "suspend", "kustom"]);
    assert!(candidates.lines().any(|line| line == "kustomizations"), "{candidates}");

    flux.succeed(&["plugin", "uninstall", "gitops"]);
    assert!(!flux.run(&["gitops", "version"]).status.success());
}

#[test]
fn flux_refuses_another_archive_than_that_of_the_catalog() {
    let flux = Flux::new("flux-plugin-sum", "0".repeat(64));
    let refused = flux.run(&["plugin", "install", "gitops"]);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && message.contains("checksum verification failed"), "{message}");
}
