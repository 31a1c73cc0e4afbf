//! Credential plugins (`users[].user.exec`), run by real scripts: once, with client-go's protocol, and without a secret
//! in any message.

use insta::assert_snapshot;
use kubectl_gitops::cluster::{Cluster, Environment};
use serde_json::{Value, json};
use test_support::connection::args;
use test_support::fake_api::{Answer, FakeApi};
use test_support::folder::Folder;

const V1: &str = "client.authentication.k8s.io/v1";
const V1BETA1: &str = "client.authentication.k8s.io/v1beta1";
const CREDENTIALS: &str = r#"{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "from-plugin", "expirationTimestamp": "2020-01-01T00:00:00Z"}}"#;

/// A script that counts its runs, records its input, and prints `output`.
struct Plugin {
    folder: Folder,
    path: String,
}

impl Plugin {
    fn new(output: &str) -> Self {
        let folder = Folder::new("plugin");
        folder.write("output", output);
        let dir = folder.path().display().to_string();
        let script = format!(
            "echo run >> {dir}/runs\nprintf %s \"$KUBERNETES_EXEC_INFO\" > {dir}/info\necho \"$EXTRA $*\" > {dir}/called\ncat {dir}/output"
        );
        let path = folder.script("plugin", &script).display().to_string();
        Self { folder, path }
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
    }

    fn runs(&self) -> usize {
        self.read("runs").lines().count()
    }

    /// Connects with this exec configuration, `command` filled in unless it is there.
    async fn connect(
        &self,
        api: &FakeApi,
        exec: Value,
        change: impl FnOnce(&mut Environment),
    ) -> Result<Cluster, String> {
        let mut exec = exec;
        if exec.get("command").is_none() {
            exec["command"] = self.path.clone().into();
        }
        let config = api.kubeconfig_for(&self.folder, &format!("exec: {exec}"));
        self.connect_to(&config, &[], change).await
    }

    async fn connect_to(
        &self,
        config: &std::path::Path,
        flags: &[&str],
        change: impl FnOnce(&mut Environment),
    ) -> Result<Cluster, String> {
        let mut environment = Environment { home: Some(self.folder.path().to_owned()), ..Environment::default() };
        environment.variables.insert("KUBECONFIG".to_owned(), config.into());
        change(&mut environment);
        let found = Cluster::connect_in(&args(flags), &environment).await;
        found.map_err(|error| format!("{} | {}", error.message, error.hint.unwrap_or_default()))
    }
}

fn api() -> FakeApi {
    let api = FakeApi::start();
    api.on("/x", [Answer::json(json!({}))]);
    api
}

fn unchanged(_: &mut Environment) {}

#[tokio::test]
async fn a_plugin_runs_once() {
    let (api, plugin) = (api(), Plugin::new(CREDENTIALS));
    let exec = json!({"apiVersion": V1, "interactiveMode": "Never", "args": ["get", "token"], "env": [{"name": "EXTRA", "value": "e"}]});
    let cluster = plugin.connect(&api, exec, unchanged).await.expect("a connection");
    for _ in 0..3 {
        cluster.get("/x", "application/json").await.expect("an answer");
    }
    assert_eq!(plugin.runs(), 1, "kube alone would run it three times before the first request");
    assert!(api.requests().iter().all(|request| request.header("authorization") == Some("Bearer from-plugin")));
    assert_eq!(plugin.read("called"), "e get token\n");
    let info: Value = serde_json::from_str(&plugin.read("info")).expect("KUBERNETES_EXEC_INFO");
    assert_eq!(info, json!({"apiVersion": V1, "kind": "ExecCredential", "spec": {"interactive": false}}));
}

#[tokio::test]
async fn cluster_information_is_given_to_plugins_that_ask() {
    let plugin = Plugin::new(CREDENTIALS);
    plugin.folder.write("ca", "PEM");
    let config = plugin.folder.write(
        "kubeconfig",
        json!({
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {
                "server": "https://api.example", "tls-server-name": "inner", "certificate-authority": "ca",
                "proxy-url": "http://proxy.example:3128",
                "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}]}}],
            "users": [{"name": "u", "user": {"exec": {
                "apiVersion": V1, "interactiveMode": "IfAvailable", "provideClusterInfo": true, "command": "./plugin"}}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        })
        .to_string(),
    );
    // The authority is no certificate, so that connecting ends after the plugin, which ran beside the kubeconfig.
    let error =
        plugin.connect_to(&config, &["-s", "https://other.example"], unchanged).await.err().expect("no certificate");
    assert!(error.contains("contains no PEM certificate"), "{error}");
    let info: Value = serde_json::from_str(&plugin.read("info")).expect("KUBERNETES_EXEC_INFO");
    let expected = json!({"server": "https://other.example", "certificate-authority-data": "UEVNCg==",
        "proxy-url": "http://proxy.example:3128", "config": {"audience": "a"}});
    assert_eq!(info["spec"]["cluster"], expected, "the cluster as it is used, flags and all");
}

#[tokio::test]
async fn plugins_are_not_run_beside_other_credentials() {
    let exec =
        |plugin: &Plugin| format!("exec: {{apiVersion: {V1}, interactiveMode: Never, command: {}}}", plugin.path);
    for (name, user, flags, expected) in [
        ("--token", "", &["--token=f"][..], "Bearer f"),
        ("a token in the kubeconfig", "token: k, ", &[], "Bearer k"),
        ("basic", "username: u, password: p, ", &[], "Basic dTpw"),
    ] {
        let (api, plugin) = (api(), Plugin::new(CREDENTIALS));
        let config = api.kubeconfig_for(&plugin.folder, &format!("{user}{}", exec(&plugin)));
        let cluster =
            plugin.connect_to(&config, flags, unchanged).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        cluster.get("/x", "application/json").await.expect("an answer");
        assert_eq!((plugin.runs(), api.requests()[0].header("authorization")), (0, Some(expected)), "{name}");
    }
}

#[tokio::test]
async fn failing_plugins_are_reported() {
    let v1 = || json!({"apiVersion": V1, "interactiveMode": "Never"});
    let with = |key: &str, value: Value| {
        let mut exec = v1();
        exec[key] = value;
        exec
    };
    let credential = |status: Value| json!({"apiVersion": V1, "kind": "ExecCredential", "status": status}).to_string();
    let rows = [
        (
            "missing, with a hint",
            String::new(),
            json!({"apiVersion": V1, "interactiveMode": "Never", "command": "no-such-plugin", "installHint": "\nbrew install it\n"}),
        ),
        ("missing, without a hint", String::new(), with("command", "no-such-plugin".into())),
        ("empty command", String::new(), with("command", "".into())),
        ("v1alpha1", String::new(), with("apiVersion", "client.authentication.k8s.io/v1alpha1".into())),
        ("no version", String::new(), json!({"interactiveMode": "Never"})),
        ("v1 without interactiveMode", String::new(), json!({"apiVersion": V1})),
        ("always interactive, no terminal", CREDENTIALS.to_owned(), with("interactiveMode", "Always".into())),
        ("not JSON", "token: hunter2".to_owned(), v1()),
        ("a field of another type", r#"{"status": "hunter2"}"#.to_owned(), v1()),
        ("no output", String::new(), v1()),
        ("another kind", r#"{"apiVersion": "client.authentication.k8s.io/v1", "kind": "hunter2"}"#.to_owned(), v1()),
        ("another version", CREDENTIALS.replace("/v1", "/v1beta1").replace("from-plugin", "hunter2"), v1()),
        ("no status", credential(Value::Null), v1()),
        ("an empty status", credential(json!({})), v1()),
        ("a certificate alone", credential(json!({"token": "hunter2", "clientCertificateData": "hunter2"})), v1()),
        (
            "a certificate that is none",
            credential(json!({"clientCertificateData": "hunter2", "clientKeyData": "hunter2"})),
            v1(),
        ),
        ("a token that is no header", credential(json!({"token": "hunter2\nX: y"})), v1()),
    ];
    let mut errors = String::new();
    for (name, output, exec) in rows {
        let (api, plugin) = (api(), Plugin::new(&output));
        let error = plugin.connect(&api, exec, unchanged).await.err().unwrap_or_else(|| panic!("{name}: connected"));
        assert!(!error.contains("hunter2"), "{name}: a secret in {error}");
        assert!(plugin.runs() <= 1, "{name}: ran {} times", plugin.runs());
        errors += &format!("{name}: {}\n", error.replace(&plugin.path, "PLUGIN"));
    }
    assert_snapshot!(errors);

    let (api, plugin) = (api(), Plugin::new(""));
    plugin.folder.script("plugin", "echo hunter2; exit 3");
    let error = plugin.connect(&api, v1(), unchanged).await.err().expect("exit code 3");
    assert!(!error.contains("hunter2"), "{error}");
    assert_snapshot!(error.replace(&plugin.path, "PLUGIN"), @"getting credentials: exec: executable PLUGIN failed with exit code 3 | see its output above; run it by itself, or log in again");
}

#[tokio::test]
async fn interactive_plugins_need_a_terminal() {
    for (name, version, mode, terminal, expected) in [
        ("never", V1, Some("Never"), true, false),
        ("if available, it is", V1, Some("IfAvailable"), true, true),
        ("if available, it is not", V1, Some("IfAvailable"), false, false),
        ("always", V1, Some("Always"), true, true),
        ("v1beta1 says nothing, terminal", V1BETA1, None, true, true),
        ("v1beta1 says nothing, no terminal", V1BETA1, None, false, false),
    ] {
        let (api, plugin) = (api(), Plugin::new(&CREDENTIALS.replace(V1, version)));
        let mut exec = json!({"apiVersion": version});
        if let Some(mode) = mode {
            exec["interactiveMode"] = mode.into();
        }
        plugin
            .connect(&api, exec, |e| e.interactive = terminal)
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let info: Value = serde_json::from_str(&plugin.read("info")).expect("KUBERNETES_EXEC_INFO");
        assert_eq!((&info["apiVersion"], &info["spec"]["interactive"]), (&json!(version), &json!(expected)), "{name}");
    }
}

#[tokio::test]
async fn the_plugin_policy_of_the_user_is_obeyed() {
    let allow = |entry: &str| format!("credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: [{entry}]\n");
    // HERE stands for the plugin's folder; the last field says whether the plugin may run.
    let rows = [
        ("nothing said", "kind: Preference\naliases: []\n".to_owned(), true),
        ("an empty file", String::new(), true),
        ("all allowed", "credentialPluginPolicy: AllowAll\n".to_owned(), true),
        ("none allowed", "credentialPluginPolicy: DenyAll\n".to_owned(), false),
        ("allowed by path", allow("{command: HERE/plugin}"), true),
        ("allowed by name on PATH", allow("{command: plugin}"), true),
        ("allowed by the older field", allow("{command: other}, {name: HERE/plugin}"), true),
        ("another is allowed", allow("{command: HERE/other}"), false),
        ("the same name elsewhere", allow("{command: /elsewhere/plugin}"), false),
        ("an empty list", "credentialPluginPolicy: Allowlist\n".to_owned(), false),
        ("a list without the policy", "credentialPluginAllowlist: [{command: x}]\n".to_owned(), false),
        ("an unknown policy", "credentialPluginPolicy: Ask\n".to_owned(), false),
        ("not YAML", "credentialPluginPolicy: [\n".to_owned(), false),
    ];
    let mut errors = String::new();
    for (name, kuberc, permitted) in rows {
        let (api, plugin) = (api(), Plugin::new(CREDENTIALS));
        let here = plugin.folder.path().display().to_string();
        plugin.folder.write(".kube/kuberc", kuberc.replace("HERE", &here));
        let exec = || json!({"apiVersion": V1, "interactiveMode": "Never"});
        let path = |e: &mut Environment| _ = e.variables.insert("PATH".to_owned(), format!("/nowhere:{here}").into());
        let result = plugin.connect(&api, exec(), path).await;
        if permitted {
            assert!(result.is_ok() && plugin.runs() == 1, "{name}: {:?}", result.err());
            continue;
        }
        let error = result.err().unwrap_or_else(|| panic!("{name}: connected"));
        assert_eq!(plugin.runs(), 0, "{name}: {error}");
        errors += &format!("{name}: {}\n", error.replace(&here, "HERE"));
        let off = |e: &mut Environment| _ = e.variables.insert("KUBERC".to_owned(), "off".into());
        plugin.connect(&api, exec(), off).await.unwrap_or_else(|error| panic!("{name}, off: {error}"));
    }
    // As in kubectl, a relative folder of PATH supplies no plugin, whatever comes behind it.
    let (api, plugin) = (api(), Plugin::new(CREDENTIALS));
    let here = plugin.folder.path().display().to_string();
    let relative = pathdiff(&plugin.folder);
    for path in [format!("{relative}:{here}"), relative] {
        let set = |e: &mut Environment| _ = e.variables.insert("PATH".to_owned(), path.clone().into());
        let exec = json!({"apiVersion": V1, "interactiveMode": "Never", "command": "plugin"});
        let error = plugin.connect(&api, exec, set).await.err().expect("an error");
        assert!(error.contains("cannot run executable found relative to current directory"), "{path}: {error}");
        assert_eq!(plugin.runs(), 0, "{path}");
    }
    assert_snapshot!(errors, @r#"
    none allowed: getting credentials: plugin "HERE/plugin" not allowed: policy set to "DenyAll" | the policy is in HERE/.kube/kuberc
    another is allowed: getting credentials: plugin path "HERE/plugin" is not permitted by the credential plugin allowlist | the policy is in HERE/.kube/kuberc
    the same name elsewhere: getting credentials: plugin path "HERE/plugin" is not permitted by the credential plugin allowlist | the policy is in HERE/.kube/kuberc
    an empty list: getting credentials: plugin path "HERE/plugin" is not permitted by the credential plugin allowlist | the policy is in HERE/.kube/kuberc
    a list without the policy: getting credentials: an allowlist of credential plugins needs the policy "Allowlist" | the policy is in HERE/.kube/kuberc
    an unknown policy: getting credentials: unknown plugin policy "Ask" | the policy is in HERE/.kube/kuberc
    not YAML: cannot read the preferences in HERE/.kube/kuberc: not preferences in line 1 |
    "#);
}

/// Returns the path of a folder relative to the current directory.
fn pathdiff(folder: &Folder) -> String {
    let current = std::env::current_dir().unwrap();
    let up = "../".repeat(current.components().count() - 1);
    format!("{up}{}", folder.path().canonicalize().unwrap().display().to_string().trim_start_matches('/'))
}
