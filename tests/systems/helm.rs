//! Charts of an untrusted branch, rendered by the real helm: nothing outside of the chart is read, contacted or run, and
//! values of Secrets are not shown.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::tls;
use gitops_core::flux::build::charts::remote::RemoteChart;
use gitops_core::flux::build::charts::{ChartOutput, ChartRun, archive};
use gitops_core::private::Private;
use kubectl_gitops::tools::programs::helm::Helm;
use kubectl_gitops::tools::programs::sandboxed::Answer;
use kubectl_gitops::tools::sandbox::Sandbox;
use test_support::folder::Folder;
use test_support::gitops::binary;
use xtask::controlplane::{bin, ensure};

const ABOUT: &str = "apiVersion: v2\nname: app\nversion: 1.0.0\n";

fn run_of(template: &str, values: &[&str]) -> ChartRun {
    let files: BTreeMap<String, Arc<[u8]>> = [("Chart.yaml", ABOUT), ("templates/a.yaml", template)]
        .map(|(at, content)| (at.to_owned(), Arc::from(content.as_bytes())))
        .into();
    ChartRun {
        files: Arc::new(files),
        release: "web".to_owned(),
        namespace: "shop".to_owned(),
        values: values.iter().map(|text| Private::new((*text).to_owned())).collect(),
        kube_version: Some("v1.29.7".to_owned()),
        is_upgrade: true,
        ..ChartRun::default()
    }
}

fn helm(program: &Path) -> Helm {
    let mut helm = Helm::new(Some(program), []);
    helm.program.sandbox = Sandbox::launched_by(binary());
    helm
}

async fn rendered(run: ChartRun) -> Answer<String> {
    match output(run).await? {
        ChartOutput::Manifests(text) => Ok(text),
        ChartOutput::Fails(why) => Err(why),
        ChartOutput::Asks(query) => Err(format!("it looks up {query:?}")),
    }
}

async fn output(run: ChartRun) -> Answer<ChartOutput> {
    ensure(&["helm"]).unwrap();
    helm(&bin("helm")).run_all([run], 1).await.unwrap().remove(0).1
}

/// Returns the rendered text after `said: `.
async fn said(expression: &str, values: &[&str]) -> String {
    let template = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata:\n  said: {{{{ {expression} | quote }}}}\n"
    );
    let text = rendered(run_of(&template, values)).await.unwrap_or_else(|why| panic!("{expression}: {why}"));
    text.split_once("said: ").unwrap().1.trim().to_owned()
}

#[tokio::test]
async fn a_chart_is_rendered_as_an_upgrade_of_the_release() {
    assert_eq!(said(".Release.Name", &[]).await, "\"web\"");
    assert_eq!(said(".Release.Namespace", &[]).await, "\"shop\"");
    assert_eq!(said(".Release.IsUpgrade", &[]).await, "\"true\"");
    assert_eq!(said(".Capabilities.KubeVersion.Version", &[]).await, "\"v1.29.7\"");
    assert_eq!(said(".Capabilities.KubeVersion.Minor", &[]).await, "\"29\"");
    assert_eq!(said(".Values.a.b", &["a: {b: 1, c: 1}", "{\"a\": {\"b\": 2}}"]).await, "\"2\"", "the last values win");
}

#[tokio::test]
async fn a_chart_reads_no_file_outside_of_itself_and_contacts_nobody() {
    let folder = Folder::outside_checkouts("helm-marker");
    let marker = folder.write("marker", "content from outside");
    let climbing = format!("../../../../../../../../..{}", marker.display());
    for path in [marker.display().to_string(), climbing, "/etc/passwd".to_owned(), "/proc/self/environ".to_owned()] {
        assert_eq!(said(&format!(".Files.Get {path:?}"), &[]).await, "\"\"", "{path}");
        assert_eq!(said(&format!("(.Files.Glob {path:?}).AsConfig"), &[]).await, "\"{}\"", "{path}");
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let names = UdpSocket::bind("127.0.0.1:0").unwrap();
    names.set_nonblocking(true).unwrap();
    assert_eq!(said("getHostByName \"localhost\"", &[]).await, "\"\"");
    assert_eq!(said("lookup \"v1\" \"Secret\" \"\" \"\"", &[]).await, "\"map[]\"");
    assert!(listener.accept().is_err() && names.recv(&mut [0; 8]).is_err());
    for function in ["env \"PATH\"", "expandenv \"$PATH\""] {
        let failure = rendered(run_of(&format!("a: {{{{ {function} }}}}\n"), &[])).await.unwrap_err();
        assert!(failure.contains("not defined"), "{failure}");
    }
}

#[tokio::test]
async fn a_chart_is_rendered_as_helm_controller_does_and_not_as_the_command_line() {
    let first = ChartRun { is_upgrade: false, ..run_of("a: {{ .Release.IsInstall }}\n", &[]) };
    assert!(rendered(first).await.unwrap().contains("a: true"));
    // In YAML the number is a floating-point number, which no template can compare with 3.
    let numbers = vec!["a.b=3".to_owned()];
    let compared =
        ChartRun { numbers, ..run_of("{{ if eq .Values.a.b 3 }}a: {{ .Values.a.c }}{{ end }}\n", &["a: {c: d}"]) };
    assert!(rendered(compared).await.unwrap().contains("a: d"));
    let schema = r#"{"properties": {"a": {"type": "string"}}}"#;
    let mut checked = run_of("a: b\n", &["a: 1"]);
    let mut files = (*checked.files).clone();
    files.insert("values.schema.json".to_owned(), Arc::from(schema.as_bytes()));
    checked.files = Arc::new(files);
    let skipped = ChartRun { skips_schema: true, ..checked.clone() };
    assert!(rendered(skipped).await.is_ok());
    let ChartOutput::Fails(why) = output(checked).await.unwrap() else { panic!("the values do not match") };
    assert!(why.contains("specifications of the schema"), "{why}");
}

#[tokio::test]
async fn only_failures_of_the_chart_itself_are_proven() {
    for template in ["{{ fail \"because\" }}", "{{ .Values.a.b.c }}", "{{ if }}", "a: b: c\n"] {
        let output = output(run_of(template, &[])).await.unwrap();
        assert!(matches!(output, ChartOutput::Fails(_)), "{template}: {output:?}");
    }
    let unknown = format!("{{{{ fail \"{}why\" }}}}", gitops_core::flux::build::charts::templates::NOT_KNOWN);
    let why = output(run_of(&unknown, &[])).await.unwrap_err();
    assert_eq!(why, "why");
    let why = rendered(run_of("a: [\n", &[])).await.unwrap_err();
    assert!(!why.contains("--debug"), "{why}");
}

#[tokio::test]
async fn a_chart_that_fails_or_never_ends_is_named() {
    let failed = rendered(run_of("{{ fail \"because\" }}", &[])).await.unwrap_err();
    assert!(failed.starts_with("helm fails to render it: ") && failed.contains("because"), "{failed}");
    let no_values = rendered(run_of("a: b\n", &["a: [b"])).await.unwrap_err();
    assert!(no_values.starts_with("helm fails to render it: "), "{no_values}");
    let question = "{{ fail (printf \"kubectl-gitops.lookup: %s\" (list \"v1\" \"Secret\" \"\" \"a\" | toJson)) }}";
    let ChartOutput::Asks(query) = output(run_of(question, &[])).await.unwrap() else { panic!("it looks up a Secret") };
    assert_eq!((&*query.api_version, &*query.kind, &*query.namespace, &*query.name), ("v1", "Secret", "", "a"));
    let secret = ChartRun { is_private: true, ..run_of("{{ fail .Values.password }}", &["password: hunter2"]) };
    let hidden = rendered(secret).await.unwrap_err();
    assert_eq!(hidden, "helm fails to render it, with values of Secrets");
    let large = rendered(run_of("a: {{ repeat 3000000000 \"x\" }}\n", &[])).await.unwrap_err();
    assert_eq!(large, "helm needs more than 2048 MiB of memory");
    // Every round is cheap, and there are many of them.
    let endless = "{{ define \"x\" }}{{ range until 4000 }}{{ range until 4000 }}{{ range until 4000 }}{{ end }}{{ end }}{{ end }}{{ end }}\
                   {{ include \"x\" . }}";
    let (start, mut limited) = (Instant::now(), helm(&bin("helm")));
    limited.program.limit = Duration::from_secs(5);
    let endless = limited.run_all([run_of(endless, &[])], 1).await.unwrap().remove(0).1.unwrap_err();
    assert!(endless.starts_with("helm did not finish") || endless.contains("memory"), "{endless}");
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[tokio::test]
async fn a_helm_that_is_absent_or_of_another_version_is_named() {
    let folder = Folder::outside_checkouts("helm-version");
    let old: PathBuf = folder.script("helm", "echo v3.18.0");
    let outputs = helm(&old).run_all([run_of("a: b\n", &[])], 1).await.unwrap();
    assert!(outputs[0].1.as_ref().unwrap_err().contains("is not helm 4"), "{outputs:?}");
    let absent = helm(&folder.path().join("none")).run_all([run_of("a: b\n", &[])], 1).await.unwrap();
    let why = absent[0].1.as_ref().unwrap_err();
    assert!(why.contains("cannot be run") && why.contains("--helm"), "{why}");
}

/// Code, headers and body of an answer over HTTP.
type Answered = (u16, &'static [(&'static str, &'static str)], Option<Vec<u8>>);

/// Serves answers of a repository or a registry on loopback, and returns its address. An answer without a body never ends.
fn repository(answer: fn(&str, bool) -> Answered) -> String {
    serve(answer, Ok)
}

/// Serves answers over what `open` makes of a connection.
fn serve<S: Read + Write>(
    answer: fn(&str, bool) -> Answered,
    open: impl Fn(TcpStream) -> std::io::Result<S> + Clone + Send + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let served = move |stream: TcpStream| {
        let Ok(mut stream) = open(stream) else { return };
        let mut request = String::new();
        let mut lines = BufReader::new(&mut stream).lines();
        while let Some(Ok(line)) = lines.next().filter(|line| line.as_ref().is_ok_and(|line| !line.is_empty())) {
            request += &(line + "\n");
        }
        drop(lines);
        let path = request.split(' ').nth(1).unwrap_or_default();
        // The name `user` and the password `secret`.
        let (code, headers, body) = answer(path, request.contains("Authorization: Basic dXNlcjpzZWNyZXQ="));
        let Some(body) = body else { return std::thread::sleep(Duration::from_secs(60)) };
        let mut head = format!("HTTP/1.1 {code} Answer\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
        let _ = stream.write_all(&[format!("{head}\r\n").as_bytes(), &body].concat()).and_then(|()| stream.flush());
    };
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let served = served.clone();
            std::thread::spawn(move || served(stream));
        }
    });
    address
}

/// Returns a chart with this number of bytes in a file, which cannot be compressed.
fn packed_chart(size: usize) -> Vec<u8> {
    let gzip = flate2::write::GzEncoder::new(vec![], flate2::Compression::none());
    let mut builder = tar::Builder::new(gzip);
    for (name, content) in [("app/Chart.yaml", ABOUT.as_bytes().to_vec()), ("app/data", vec![b'x'; size])] {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, content.as_slice()).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}

const INDEX: &str = "apiVersion: v1\nentries:\n  app:\n  - {name: app, version: 1.0.0, urls: [app-1.0.0.tgz]}\n";

async fn pulled(helm: &Helm, url: String, name: &str) -> Answer<Vec<u8>> {
    let is_plain_http = url.starts_with("oci://");
    let range = if url.contains('@') { String::new() } else { "1.0.0".to_owned() };
    let chart = RemoteChart { url, name: name.to_owned(), range, is_plain_http };
    helm.pull_all([chart], 1).await.unwrap().remove(0).1
}

#[tokio::test]
async fn a_repository_that_refuses_hangs_or_serves_too_much_is_a_reason() {
    ensure(&["helm"]).unwrap();
    let mut helm = helm(&bin("helm"));
    let unauthorized = repository(|_, _| (401, &[], Some(vec![])));
    let why = pulled(&helm, format!("http://{unauthorized}"), "app").await.unwrap_err();
    assert!(why.contains("401") && why.contains("--chart-credentials"), "{why}");
    let throttled = repository(|_, _| (429, &[("Retry-After", "3600")], Some(vec![])));
    let why = pulled(&helm, format!("http://{throttled}"), "app").await.unwrap_err();
    assert!(why.contains("429"), "{why}");
    let served = repository(|path, _| match path {
        "/index.yaml" => (200, &[], Some(INDEX.as_bytes().to_vec())),
        _ => (200, &[], Some(packed_chart(10))),
    });
    let archive = pulled(&helm, format!("http://{served}"), "app").await.unwrap();
    assert_eq!(archive::unpack(&archive).unwrap().len(), 2);
    let large = repository(|path, _| match path {
        "/index.yaml" => (200, &[], Some(INDEX.as_bytes().to_vec())),
        _ => (200, &[], Some(packed_chart(60 << 20))),
    });
    let why =
        pulled(&helm, format!("http://{large}"), "app").await.and_then(|archive| archive::unpack(&archive).map(drop));
    assert!(why.is_err(), "a chart of 60 MB");
    helm.program.limit = Duration::from_secs(3);
    let hanging = repository(|_, _| (200, &[], None));
    let start = Instant::now();
    let why = pulled(&helm, format!("http://{hanging}"), "app").await.unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(20) && why.contains("3"), "{why}");
}

/// Headers of an answer that sends a client on, to a server that is in no source.
static ELSEWHERE: OnceLock<[(&str, &str); 1]> = OnceLock::new();

#[tokio::test]
async fn a_repository_sends_helm_to_no_other_server_of_the_machine_or_its_network() {
    ensure(&["helm"]).unwrap();
    let helm = helm(&bin("helm"));
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/index.yaml", other.local_addr().unwrap());
    ELSEWHERE.set([("Location", url.leak())]).unwrap();
    let moved = repository(|path, _| match path {
        "/index.yaml" => (302, &[("Location", "/new/index.yaml")], Some(vec![])),
        "/new/index.yaml" => (200, &[], Some(INDEX.as_bytes().to_vec())),
        _ => (200, &[], Some(packed_chart(10))),
    });
    assert!(pulled(&helm, format!("http://{moved}"), "app").await.is_ok(), "a server may send a client to itself");
    let redirecting = repository(|_, _| (302, ELSEWHERE.get().unwrap(), Some(vec![])));
    let why = pulled(&helm, format!("http://{redirecting}"), "app").await.unwrap_err();
    assert!(why.contains("permission denied"), "{why}");
    other.set_nonblocking(true).unwrap();
    assert_eq!(other.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "nobody asked the other server");
    let to_metadata = repository(|_, _| (302, &[("Location", "http://169.254.169.254/latest")], Some(vec![])));
    let why = pulled(&helm, format!("http://{to_metadata}"), "app").await.unwrap_err();
    assert!(why.contains("sends helm to 169.254.169.254:80, which is no public address"), "{why}");
    let index = repository(|path, _| match path {
        "/index.yaml" => {
            (200, &[], Some(INDEX.replace("app-1.0.0.tgz", "https://10.0.0.1/app-1.0.0.tgz").into_bytes()))
        }
        _ => (404, &[], Some(vec![])),
    });
    let why = pulled(&helm, format!("http://{index}"), "app").await.unwrap_err();
    assert!(why.contains("sends helm to 10.0.0.1:443, which is no public address"), "{why}");
}

/// Digests of the parts of a chart in the registry of the test.
fn registry_parts() -> [(Vec<u8>, String); 3] {
    let config = br#"{"name":"app","version":"1.0.0","apiVersion":"v2"}"#.to_vec();
    let layer = packed_chart(10);
    let [config_digest, layer_digest] = [&config, &layer].map(|part| format!("sha256:{}", xtask::sha256_hex(part)));
    let part = |media: &str, digest: &str, size: usize| {
        format!("{{\"mediaType\":\"application/vnd.cncf.helm.{media}\",\"digest\":\"{digest}\",\"size\":{size}}}")
    };
    let manifest = format!(
        "{{\"schemaVersion\":2,\"mediaType\":\"application/vnd.oci.image.manifest.v1+json\",\"config\":{},\"layers\":[{}]}}",
        part("config.v1+json", &config_digest, config.len()),
        part("chart.content.v1.tar+gzip", &layer_digest, layer.len())
    );
    let digest = format!("sha256:{}", xtask::sha256_hex(manifest.as_bytes()));
    [(manifest.into_bytes(), digest), (config, config_digest), (layer, layer_digest)]
}

#[tokio::test]
async fn a_registry_with_a_password_serves_a_chart_only_with_credentials() {
    ensure(&["helm"]).unwrap();
    let registry = repository(|path, is_user| {
        if !is_user {
            return (401, &[("WWW-Authenticate", "Basic realm=\"charts\"")], Some(vec![]));
        }
        let parts = registry_parts();
        match path.rsplit('/').next().unwrap_or_default() {
            "v2" | "" => (200, &[], Some(vec![])),
            tag if tag == "1.0.0" || tag == parts[0].1 => {
                (200, &[("Content-Type", "application/vnd.oci.image.manifest.v1+json")], Some(parts[0].0.clone()))
            }
            asked => match parts.iter().find(|(_, digest)| digest == asked) {
                Some((content, _)) => (200, &[("Content-Type", "application/octet-stream")], Some(content.clone())),
                None => {
                    (200, &[("Content-Type", "application/vnd.oci.image.manifest.v1+json")], Some(parts[0].0.clone()))
                }
            },
        }
    });
    let url = format!("oci://{registry}/charts/app");
    let why = pulled(&helm(&bin("helm")), url.clone(), "").await.unwrap_err();
    assert!(why.contains("credential not found") && why.contains("--chart-credentials"), "{why}");
    let folder = Folder::outside_checkouts("helm-credentials");
    let text = format!("{{\"auths\": {{\"{registry}\": {{\"auth\": \"dXNlcjpzZWNyZXQ=\"}}}}}}");
    let mut allowed = helm(&bin("helm"));
    allowed.credentials = vec![("HELM_REGISTRY_CONFIG", folder.write("config.json", &text))];
    let archive = pulled(&allowed, url.clone(), "").await.unwrap();
    assert_eq!(archive::unpack(&archive).unwrap().len(), 2);
    let exact = format!("{url}@{}", registry_parts()[0].1);
    assert!(pulled(&allowed, exact, "").await == Ok(archive), "the same chart by its digest");
    // The registry serves the same manifest for every digest.
    let other = pulled(&allowed, format!("{url}@sha256:{}", "0".repeat(64)), "").await.map(|archive| archive.len());
    assert!(other.is_err(), "{other:?}");
}

/// Serves answers over TLS on loopback. Returns the address, and the certificate in PEM.
fn serve_over_tls(answer: fn(&str, bool) -> Answered) -> (String, String) {
    let (open, certificate) = tls::server();
    (serve(answer, open), certificate)
}

#[tokio::test]
async fn a_repository_over_tls_with_a_password_is_read_with_the_entry_of_the_user() {
    ensure(&["helm"]).unwrap();
    let (address, certificate) = serve_over_tls(|path, is_user| match path {
        _ if !is_user => (401, &[], Some(vec![])),
        "/charts/index.yaml" => (200, &[], Some(INDEX.as_bytes().to_vec())),
        "/charts/app-1.0.0.tgz" => (200, &[], Some(packed_chart(10))),
        _ => (404, &[], Some(vec![])),
    });
    let url = format!("https://{address}/charts");
    let folder = Folder::outside_checkouts("helm-repositories");
    let ca = folder.write("ca.pem", &certificate);
    let entry = |password: &str, more: &str| {
        let text =
            format!("repositories:\n- {{name: mine, url: '{url}/', username: user, password: {password}{more}}}\n");
        let mut helm = helm(&bin("helm"));
        helm.credentials = vec![("HELM_REPOSITORY_CONFIG", folder.write("repositories.yaml", text))];
        helm
    };
    let trusted = format!(", caFile: {}", ca.display());
    let why = pulled(&helm(&bin("helm")), url.clone(), "app").await.unwrap_err();
    assert!(why.contains("certificate"), "{why}");
    let why = pulled(&entry("secret", ""), url.clone(), "app").await.unwrap_err();
    assert!(why.contains("certificate") && !why.contains("secret"), "{why}");
    let why = pulled(&entry("wrong", &trusted), url.clone(), "app").await.unwrap_err();
    assert!(why.contains("401"), "{why}");
    let archive = pulled(&entry("secret", &trusted), url.clone(), "app").await.unwrap();
    assert_eq!(archive::unpack(&archive).unwrap().len(), 2);
    let why = pulled(&entry("secret", &trusted), url, "other").await.unwrap_err();
    assert!(why.contains("other"), "{why}");
}
