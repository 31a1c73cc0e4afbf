//! A remote base on a git server, with certificates of its own: fetched with `--allow-remote-bases` and not without.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustls::pki_types::PrivateKeyDer;
use test_support::folder::Folder;
use test_support::gitops::{Run, command};
use xtask::controlplane::bin;

/// Serves the repositories of a folder over https on loopback. Returns the port.
fn serve(folder: &Path) -> u16 {
    let signed = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(folder.join("ca.pem"), signed.cert.pem()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let key = PrivateKeyDer::try_from(signed.signing_key.serialize_der()).unwrap();
    let config = Arc::new(builder.with_no_client_auth().with_single_cert(vec![signed.cert.into()], key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let folder = folder.to_path_buf();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client may end a connection at any time.
            let _ = answer(stream, config.clone(), &folder);
        }
    });
    port
}

/// Answers one request with `git http-backend`.
fn answer(stream: TcpStream, config: Arc<rustls::ServerConfig>, folder: &Path) -> std::io::Result<()> {
    let connection = rustls::ServerConnection::new(config).map_err(std::io::Error::other)?;
    let mut reader = BufReader::new(rustls::StreamOwned::new(connection, stream));
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split(' ').map(str::to_owned);
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let mut backend = Command::new("git");
    backend.arg("http-backend").env("GIT_PROJECT_ROOT", folder).env("GIT_HTTP_EXPORT_ALL", "1");
    backend.env("REQUEST_METHOD", method).env("PATH_INFO", path).env("QUERY_STRING", query);
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let Some((name, value)) = header.trim().split_once(": ") else { break };
        match name.to_lowercase().as_str() {
            "content-length" => length = value.parse().map_err(std::io::Error::other)?,
            "content-type" => drop(backend.env("CONTENT_TYPE", value)),
            "content-encoding" => drop(backend.env("HTTP_CONTENT_ENCODING", value)),
            "git-protocol" => drop(backend.env("GIT_PROTOCOL", value)),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    backend.env("CONTENT_LENGTH", length.to_string()).stderr(Stdio::null());
    let mut child = backend.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    child.stdin.take().unwrap().write_all(&body)?;
    let output = child.wait_with_output()?.stdout;
    let end = output.windows(4).position(|end| end == b"\r\n\r\n").unwrap_or(0);
    let headers = String::from_utf8_lossy(&output[..end]).into_owned();
    let status = headers.lines().find_map(|line| line.strip_prefix("Status: ")).unwrap_or("200 OK");
    let stream = reader.get_mut();
    write!(stream, "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n", output.len() - end - 4)?;
    stream.write_all(&output[..end])?;
    stream.write_all(b"\r\n\r\n")?;
    stream.write_all(&output[end + 4..])?;
    stream.conn.send_close_notify();
    stream.flush()
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
