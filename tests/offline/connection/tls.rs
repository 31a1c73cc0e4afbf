//! The TLS flags and kubeconfig fields, each against a server with a certificate of its own that asks for a client's.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use kubectl_gitops::cluster::{Cluster, Environment, FailureKind};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use serde_json::{Value, json};
use test_support::connection::args;
use test_support::folder::Folder;

/// One connection, as the server sees it.
#[derive(Clone, Debug, Default, PartialEq)]
struct Seen {
    server_name: Option<String>,
    client_certificate: bool,
    authorization: Option<String>,
}

/// A certificate authority with a server that answers every request with `{}`.
struct Server {
    folder: Folder,
    port: u16,
    authority: String,
    client: (String, String),
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    /// Starts a server whose certificate is for these names.
    fn start(names: &[&str]) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let authority = params.self_signed(&key).expect("an authority").pem();
        let issuer = Issuer::new(params, key);
        let issue = |names: &[&str]| {
            let key = KeyPair::generate().expect("a key");
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let params = CertificateParams::new(names).expect("names");
            (params.signed_by(&key, &issuer).expect("a certificate").pem(), key.serialize_pem())
        };
        let (certificate, key) = issue(names);
        let client = issue(&["client"]);

        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM");
        let mut roots = rustls::RootCertStore::empty();
        roots.add(der(&authority)).expect("an authority");
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone());
        let verifier = verifier.allow_unauthenticated().build().expect("a verifier");
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![der(&certificate)], PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM"))
            .expect("a certificate and its key");

        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let seen = Arc::<Mutex<Vec<Seen>>>::default();
        let (log, config) = (seen.clone(), Arc::new(config));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                // A client that rejects the certificate ends the connection; the next one is served all the same.
                let _ = serve(stream, config.clone(), &log);
            }
        });
        let folder = Folder::new("tls");
        folder.write("ca.pem", &authority);
        folder.write("client.pem", &client.0);
        folder.write("client.key", &client.1);
        Self { folder, port, authority, client, seen }
    }

    fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Connects, sends one request, and gives what the server saw of it.
    async fn request(&self, cluster: Value, user: Value, flags: &[&str]) -> Result<Seen, (FailureKind, String)> {
        let config = json!({
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "c", "user": user}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        });
        let config = self.folder.write("kubeconfig", config.to_string()).display().to_string();
        let variables = [("KUBECONFIG".to_owned(), config.into())].into();
        self.request_in(&Environment { variables, ..Environment::default() }, flags).await
    }

    async fn request_in(&self, environment: &Environment, flags: &[&str]) -> Result<Seen, (FailureKind, String)> {
        let cluster = Cluster::connect_in(&args(flags), environment).await.expect("a connection");
        cluster.get("/x", "application/json").await.map_err(|failure| (failure.kind, failure.to_string()))?;
        Ok(self.seen.lock().expect("a lock").pop().expect("a request was seen"))
    }
}

fn serve(
    stream: std::net::TcpStream,
    config: Arc<rustls::ServerConfig>,
    log: &Mutex<Vec<Seen>>,
) -> std::io::Result<()> {
    let connection = rustls::ServerConnection::new(config).map_err(std::io::Error::other)?;
    let mut reader = BufReader::new(rustls::StreamOwned::new(connection, stream));
    let mut seen = Seen::default();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        match line.trim().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("authorization") => {
                seen.authorization = Some(value.to_owned())
            }
            _ if line.trim().is_empty() => break,
            _ => {}
        }
    }
    let stream = reader.get_mut();
    seen.server_name = stream.conn.server_name().map(str::to_owned);
    seen.client_certificate = stream.conn.peer_certificates().is_some();
    log.lock().expect("a lock").push(seen);
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")?;
    stream.conn.send_close_notify();
    stream.flush()
}

/// Encodes a text as in the data fields of a kubeconfig.
fn base64(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(text)
}

#[tokio::test]
async fn the_certificate_of_the_server_is_verified() {
    let (own, inner) = (Server::start(&["127.0.0.1"]), Server::start(&["inner.example"]));
    let untrusted = "invalid peer certificate: ";
    let not_for = "invalid peer certificate: certificate not valid for name \"127.0.0.1\"";
    let wrapped = {
        let data = base64(&own.authority);
        format!("{}\n{}\n", &data[..64], &data[64..])
    };
    let data =
        |server: &Server| json!({"server": server.url(), "certificate-authority-data": base64(&server.authority)});
    let with = |mut cluster: Value, key: &str, value: Value| {
        cluster[key] = value;
        cluster
    };
    let bare = |server: &Server| json!({"server": server.url()});
    let (ca, inner_ca) = (format!("--certificate-authority={}", own.file("ca.pem")), inner.file("ca.pem"));
    let url = inner.url();
    type Row<'a> = (&'a str, &'a Server, Value, Vec<&'a str>, Result<Option<&'a str>, &'a str>);
    let rows: Vec<Row> = vec![
        ("authority in the kubeconfig", &own, data(&own), vec![], Ok(None)),
        ("on several lines", &own, with(bare(&own), "certificate-authority-data", wrapped.into()), vec![], Ok(None)),
        ("as a relative file", &own, with(bare(&own), "certificate-authority", "ca.pem".into()), vec![], Ok(None)),
        ("--certificate-authority", &own, bare(&own), vec![&ca], Ok(None)),
        (
            "--certificate-authority wins",
            &own,
            with(bare(&own), "insecure-skip-tls-verify", true.into()),
            vec![&ca],
            Ok(None),
        ),
        ("another authority", &own, with(bare(&own), "certificate-authority", inner_ca.into()), vec![], Err(untrusted)),
        (
            "insecure in the kubeconfig",
            &own,
            with(bare(&own), "insecure-skip-tls-verify", true.into()),
            vec![],
            Ok(None),
        ),
        ("--insecure-skip-tls-verify", &own, bare(&own), vec!["--insecure-skip-tls-verify"], Ok(None)),
        ("it drops the authority", &inner, data(&own), vec!["-s", &url, "--insecure-skip-tls-verify"], Ok(None)),
        ("not insecure", &own, bare(&own), vec!["--insecure-skip-tls-verify=false"], Err(untrusted)),
        ("another name", &inner, data(&inner), vec![], Err(not_for)),
        ("--tls-server-name", &inner, data(&inner), vec!["--tls-server-name=inner.example"], Ok(Some("inner.example"))),
        (
            "the kubeconfig's tls-server-name",
            &inner,
            with(data(&inner), "tls-server-name", "inner.example".into()),
            vec![],
            Ok(Some("inner.example")),
        ),
        (
            "--server drops it",
            &inner,
            with(data(&inner), "tls-server-name", "inner.example".into()),
            vec!["-s", &url],
            Err(not_for),
        ),
    ];
    for (name, server, cluster, flags, expected) in rows {
        let found = server.request(cluster, json!({}), &flags).await;
        match (found, expected) {
            (Ok(seen), Ok(server_name)) => assert_eq!(seen.server_name.as_deref(), server_name, "{name}"),
            (Err((kind, message)), Err(expected)) => {
                assert_eq!(kind, FailureKind::Unreachable, "{name}");
                let prefix = format!("Unable to connect to the server: 127.0.0.1:{}: ", server.port);
                assert!(message.starts_with(&prefix) && message.contains(expected), "{name}: {message}");
            }
            (found, _) => panic!("{name}: {found:?}"),
        }
    }
}

#[tokio::test]
async fn a_client_certificate_is_presented() {
    let server = Server::start(&["127.0.0.1"]);
    let cluster = || json!({"server": server.url(), "certificate-authority-data": base64(&server.authority)});
    let (certificate, key) = &server.client;
    let lines = |text: &str| format!("{}\n{}\n", &base64(text)[..64], &base64(text)[64..]);
    let data = json!({"client-certificate-data": base64(certificate), "client-key-data": base64(key)});
    let wrapped = json!({"client-certificate-data": lines(certificate), "client-key-data": lines(key)});
    let files = json!({"client-certificate": "client.pem", "client-key": "client.key"});
    let flags = [
        format!("--client-certificate={}", server.file("client.pem")),
        format!("--client-key={}", server.file("client.key")),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let junk = json!({"client-certificate-data": "eA==", "client-key-data": "eA=="});
    for (name, user, flags, expected) in [
        ("none", json!({}), &[][..], false),
        ("data", data, &[], true),
        ("data on several lines", wrapped, &[], true),
        ("relative files", files, &[], true),
        ("flags", json!({}), &flags, true),
        ("flags win", junk, &flags, true),
    ] {
        let seen = server.request(cluster(), user, flags).await.unwrap_or_else(|failure| panic!("{name}: {failure:?}"));
        assert_eq!(seen.client_certificate, expected, "{name}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_certificate_from_a_plugin_is_presented() {
    let server = Server::start(&["127.0.0.1"]);
    let (certificate, key) = &server.client;
    let answer = json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
        "status": {"clientCertificateData": certificate, "clientKeyData": key, "token": "t"}});
    let (output, runs) = (server.folder.write("output", answer.to_string()), server.file("runs"));
    server.folder.script("plugin", &format!("echo run >> {runs}; cat {}", output.display()));
    let user = json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never", "command": "./plugin"}});
    let cluster = json!({"server": server.url(), "certificate-authority-data": base64(&server.authority)});
    let seen = server.request(cluster, user, &[]).await.expect("an answer");
    assert!(seen.client_certificate);
    assert_eq!(seen.authorization.as_deref(), Some("Bearer t"), "a plugin may give both");
    assert_eq!(std::fs::read_to_string(runs).expect("it ran").lines().count(), 1);
}

#[tokio::test]
async fn the_authority_of_a_service_account_is_trusted() {
    let server = Server::start(&["127.0.0.1"]);
    server.folder.write("serviceaccount/ca.crt", &server.authority);
    server.folder.write("serviceaccount/token", "pod");
    let variables =
        [("KUBERNETES_SERVICE_HOST", "127.0.0.1".to_owned()), ("KUBERNETES_SERVICE_PORT", server.port.to_string())];
    let environment = Environment {
        variables: variables.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect(),
        service_account: server.folder.path().join("serviceaccount"),
        ..Environment::default()
    };
    let seen = server.request_in(&environment, &[]).await.expect("an answer");
    assert_eq!(seen.authorization.as_deref(), Some("Bearer pod"));
}
