//! Completion as kubectl and flux ask for it: candidates, then directives. It is quick, and silent whatever fails.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use test_support::fake_api::{Answer, FakeApi};
use test_support::folder::Folder;
use test_support::gitops::{Run, command, gitops_as, gitops_without_kubeconfig};

const KUSTOMIZATIONS: &str = "/apis/kustomize.toolkit.fluxcd.io/v1";

/// Far above the 250 ms that completion waits, for a busy machine, and far below the 30 s of other requests.
const PATIENCE: Duration = Duration::from_secs(10);

fn list(items: &[(&str, &str)]) -> Answer {
    let item = |(namespace, name): &(&str, &str)| json!({"metadata": {"namespace": namespace, "name": name}});
    let items: Vec<Value> = items.iter().map(item).collect();
    Answer::json(json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "items": items}))
}

fn cluster() -> FakeApi {
    let api = FakeApi::start();
    let group =
        |version: &str| Answer::json(json!({"kind": "APIGroup", "preferredVersion": {"groupVersion": version}}));
    api.on("GET /apis/kustomize.toolkit.fluxcd.io", [group("kustomize.toolkit.fluxcd.io/v1")]);
    api.on("GET /apis/helm.toolkit.fluxcd.io", [group("helm.toolkit.fluxcd.io/v2")]);
    api.on(&format!("GET {KUSTOMIZATIONS}/namespaces/other/kustomizations"), [list(&[("other", "there")])]);
    let shop = [("shop", "web"), ("shop", "web-db"), ("shop", "cart"), ("shop", "bad\u{1b}[31m")];
    api.on(&format!("GET {KUSTOMIZATIONS}/namespaces/shop/kustomizations"), [list(&shop)]);
    api.on(&format!("GET {KUSTOMIZATIONS}/kustomizations"), [list(&[("a", "web"), ("b", "web"), ("a", "cart")])]);
    api.on("GET /apis/helm.toolkit.fluxcd.io/v2/namespaces/shop/helmreleases", [list(&[("shop", "podinfo")])]);
    api.on("GET /apis/helm.toolkit.fluxcd.io/v2/helmreleases", [list(&[("a", "podinfo")])]);
    api.on("GET /api/v1/namespaces", [list(&[("", "shop"), ("", "stage"), ("", "web")])]);
    api
}

/// Returns the candidates and the directives.
fn parse(run: &Run) -> (Vec<String>, String) {
    assert!(run.code == 0 && run.stderr.is_empty(), "{run}");
    let mut lines: Vec<String> = run.stdout.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect();
    let directives = lines.pop().unwrap_or_else(|| panic!("no directives: {run}"));
    (lines, directives)
}

#[test]
fn candidates_come_from_the_command_line_the_kubeconfig_and_the_cluster() {
    let (api, folder) = (cluster(), Folder::new("completion"));
    let kubeconfig = api.kubeconfig(&folder);
    let cases: &[(&[&str], &[&str])] = &[
        (&["sus"], &["suspend"]),
        (&["suspend", "--reco"], &["--record-user"]),
        (&["prune", "--plan", "-o", "ya"], &["yaml"]),
        (&["get", "kustom"], &["kustomizations"]),
        (&["get", "ks,kustom"], &["ks,kustomizations"]),
        (&["get", "ks", ""], &["cart", "web", "web-db"]),
        (&["get", "-n", "other", "ks", ""], &["there"]),
        (&["get", "-n", "shop", "ks", ""], &["cart", "web", "web-db"]),
        (&["get", "--namespace=shop", "kustomizations", "web"], &["web", "web-db"]),
        (&["resume", "ks", "cart", "-n", "shop", "we"], &["web", "web-db"]),
        (&["suspend", "ks", "web", "-n", "shop", "web"], &["web-db"]),
        (&["suspend", "-n", "shop", "ks/c"], &["ks/cart"]),
        (&["get", "-n", "shop", "ks,hr", ""], &["cart", "podinfo", "web", "web-db"]),
        (&["get", "-n", "s"], &["shop", "stage"]),
        (&["get", "--namespace=st"], &["--namespace=stage"]),
        (&["get", "-nst"], &["-nstage"]),
        (&["plan", "--allow", "namespaces,c"], &["namespaces,crds"]),
        (&["inventory", "kust"], &["kustomization/cart", "kustomization/web"]),
        (&["inventory", "kustomization/c"], &["kustomization/cart"]),
        (&["inventory", "b/"], &["b/kustomization/web"]),
        (&["inventory", "--by", "fl"], &["flux", "flux-v1"]),
        (&["get", "pods", ""], &[]),
        (&["get", "ks/x/", ""], &[]),
    ];
    for (words, expected) in cases {
        let args = [&["__complete"], *words].concat();
        let patient = ("KUBECTL_GITOPS_COMPLETION_WAIT", "60s");
        let run = Run::of(command(&args).env("KUBECONFIG", &kubeconfig).env(patient.0, patient.1));
        let (found, directives) = parse(&run);
        assert_eq!(found, *expected, "{words:?}: {run}");
        assert!([":4", ":6"].contains(&directives.as_str()), "{words:?}: {directives}");
    }
    let (contexts, _) = parse(&gitops_as(&kubeconfig, &["__complete", "get", "--context", ""]));
    assert_eq!(contexts.len(), 1, "{contexts:?}");
}

/// A slow or broken cluster, or none: no candidates, no message, and the shell does not wait.
#[test]
fn failures_are_silent_and_quick() {
    let folder = Folder::new("completion-failures");
    let hanging = FakeApi::start();
    hanging.on("GET *", [Answer::hang()]);
    let failing = FakeApi::start();
    failing.on("GET *", [Answer::status(403, "Forbidden", "no")]);
    let html = FakeApi::start();
    html.on("GET *", [Answer::raw(200, "text/html", "<html>login</html>")]);
    let broken = folder.write("broken", "apiVersion: [");
    let plugin = folder.script("plugin", "echo help >&2; exec sleep 60");
    let slow_plugin = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:1'}}}}]\nusers:\n- name: u\n  user:\n    exec: \
         {{apiVersion: client.authentication.k8s.io/v1, command: {}, interactiveMode: IfAvailable}}\n",
        plugin.display()
    );
    let slow_plugin = folder.write("slow-plugin", slow_plugin);
    let lines: [&[&str]; 4] =
        [&["get", "ks", ""], &["get", "-n", ""], &["inventory", ""], &["inventory", "--why", "deployment/"]];
    for kubeconfig in [hanging.kubeconfig(&folder), failing.kubeconfig(&folder), html.kubeconfig(&folder), broken] {
        for words in lines {
            let start = Instant::now();
            let run = gitops_as(&kubeconfig, &[&["__complete"], words].concat());
            assert_eq!(parse(&run).0, [""; 0], "{words:?}");
            assert!(start.elapsed() < PATIENCE, "{words:?}: {:?}", start.elapsed());
        }
    }
    let start = Instant::now();
    let run = gitops_as(&slow_plugin, &["__complete", "get", "ks", ""]);
    assert_eq!((run.code, run.stdout.as_str()), (0, ":4\n"), "{run}");
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    let run = gitops_without_kubeconfig(folder.path(), &["__complete", "get", "ks", ""]);
    assert_eq!(parse(&run).0, [""; 0]);
}

#[test]
fn the_wrapper_runs_the_plugin_and_not_kubectl_which_takes_a_word_with_a_slash_for_a_path() {
    let run = Run::of(&mut command(&["completion", "kubectl"]));
    assert_eq!(run.stdout, "#!/bin/sh\nexec kubectl-gitops __complete \"$@\"\n");
}
