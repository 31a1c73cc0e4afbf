//! Flux v2: Kustomizations and HelmReleases at work by the real controllers.

use std::fs;
use std::path::Path;

use test_support::chart::chart;
use test_support::flux;
use test_support::folder::folder;

use super::copies::parents;
use super::{apply, cluster, config_map, deployment, kubectl};

/// Kustomization `apps` with a leaked object and a HelmRelease, and one that was deleted and left its object behind.
pub(crate) fn kustomizations() {
    kubectl("create namespace flux");
    cluster().publish("OCIRepository/flux/nested", chart("nested", "0.1.0", &config_map("", "nested", ""))).unwrap();
    let tree = folder("systems-apps");
    flux::config_maps(&tree, 3);
    let marks = ", kustomize.toolkit.fluxcd.io/name: apps, kustomize.toolkit.fluxcd.io/namespace: flux";
    fs::write(tree.join("web.yaml"), deployment("flux", "web", marks, "") + &parents("flux", "")).unwrap();
    fs::write(tree.join("nested.yaml"), helm_release("flux", "nested")).unwrap();
    flux::deploy(&cluster(), "flux", &tree);
    flux::leak(&cluster(), "flux", &tree, 2);
    kubectl("wait hr nested -n flux --for=condition=Ready --timeout=60s");

    let tree = folder("systems-gone");
    fs::write(tree.join("cm.yaml"), config_map("flux", "left-behind", "")).unwrap();
    kustomization("flux", "gone", &tree, "deletionPolicy: Orphan");
    kubectl("delete kustomization gone -n flux");
}

/// A Kustomization of objects that kapp and an ApplySet apply too.
pub(crate) fn shared() {
    for namespace in ["shared", "kapp", "applyset"] {
        kubectl(&format!("create namespace {namespace}"));
    }
    let tree = folder("systems-shared");
    let both = ["kapp", "applyset"].map(|namespace| config_map(namespace, "both", ""));
    fs::write(tree.join("cm.yaml"), both.concat()).unwrap();
    kustomization("shared", "shared", &tree, "");
}

fn kustomization(namespace: &str, name: &str, tree: &Path, more: &str) {
    cluster().publish(&format!("GitRepository/{namespace}/{name}"), tree).unwrap();
    let manifest = format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\n\
         metadata: {{name: {name}, namespace: {namespace}}}\nspec:\n  interval: 1h\n  path: ./\n  prune: true\n  \
         sourceRef: {{kind: GitRepository, name: {name}}}\n  {more}\n"
    );
    apply(&[], &manifest);
    flux::settled(&cluster(), namespace, name);
}

/// HelmRelease `web` whose chart dropped an object that has the annotation of Helm to keep it; `freed` and `gone`, which were deleted
/// while suspended, so that helm-controller uninstalled nothing; and of `gone` the record is lost too.
pub(crate) fn helm_releases() {
    kubectl("create namespace release");
    let keep = ", annotations: {helm.sh/resource-policy: keep}";
    let hook = ", annotations: {helm.sh/hook: pre-install}";
    let listed = config_map("", "listed", "") + &parents("", "");
    let first = [&*listed, &config_map("", "kept", keep), &config_map("", "hook", hook)].concat();
    let install = |name: &str, manifests: &str| {
        let source = format!("OCIRepository/release/{name}");
        cluster().publish(&source, chart(name, "0.1.0", manifests)).unwrap();
        apply(&[], &helm_release("release", name));
    };
    install("web", &first);
    install("freed", &config_map("", "freed", ""));
    install("gone", &config_map("", "gone", ""));
    kubectl("wait hr --all -n release --for=condition=Ready --timeout=60s");
    cluster().publish("OCIRepository/release/web", chart("web", "0.2.0", &listed)).unwrap();
    for name in ["freed", "gone"] {
        let suspend = r#"{"spec":{"suspend":true}}"#;
        cluster().kubectl(&["patch", "hr", name, "-n", "release", "--type=merge", "-p", suspend]).unwrap();
        kubectl(&format!("delete hr {name} -n release --timeout=60s"));
    }
    kubectl("delete secret sh.helm.release.v1.gone.v1 -n release");
    kubectl("wait hr web -n release --for=jsonpath={.status.history[0].version}=2 --timeout=60s");
    kubectl("wait hr web -n release --for=condition=Ready --timeout=60s");
}

fn helm_release(namespace: &str, name: &str) -> String {
    format!(
        "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\n\
         metadata: {{name: {name}, namespace: {namespace}}}\n\
         spec: {{interval: 1h, chartRef: {{kind: OCIRepository, name: {name}}}}}\n"
    )
}
