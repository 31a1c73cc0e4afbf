//! Charts of an untrusted branch, rendered by the real helm: nothing outside of the chart is read, contacted or run, and
//! values of Secrets are not shown.

use std::collections::BTreeMap;
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gitops_core::flux::build::charts::{ChartOutput, ChartRun};
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
        key: "key".to_owned(),
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
    let numbers = vec![Private::new("a.b=3".to_owned())];
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
