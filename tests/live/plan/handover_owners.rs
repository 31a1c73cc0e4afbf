//! Handovers between Kustomizations, HelmReleases and ResourceSets, each played beside the real controllers: no uid changes that is not
//! meant to, and what is left over is what the last line says.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use test_support::cluster::LIMIT;
use test_support::folder::{Folder, folder};
use test_support::gitops::{Run, gitops};
use test_support::shared_cluster;
use xtask::cluster::{Cluster, Flux, Options};
use xtask::controlplane::{bin, ensure};

use super::helm_release::packed;

// The cluster of these tests, with all controllers of Flux and flux-operator.
shared_cluster!(start);

fn start() -> Cluster {
    start_with(Options::default())
}

/// Starts a cluster with all controllers of Flux and flux-operator.
pub(super) fn start_with(options: Options) -> Cluster {
    ensure(&["flux-operator", "flux-operator-controller", "kustomize", "helm"]).unwrap();
    let flags = ["--requeue-dependency=1s"].map(str::to_owned);
    let options = Options { flux: Flux::All, kustomize_controller_flags: flags.into(), ..options };
    let cluster = Cluster::up(options).expect("the test cluster comes up");
    cluster.start("flux-operator-controller").unwrap();
    // The test gives HelmCharts their artifacts.
    cluster.stop("source-controller").unwrap();
    cluster
}

/// A chart that makes a ConfigMap of each of the values `maps`.
/// With `keep: true` Helm leaves them behind.
const TEMPLATE: &str = "{{- range .Values.maps }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ . }}\n  \
                        {{- if $.Values.keep }}\n  annotations: {helm.sh/resource-policy: keep}\n  {{- end }}\ndata: {a: b}\n{{- end }}\n";

const CHART: &str = "apiVersion: v2\nname: maps\nversion: 0.1.0\n";

/// Files of a tree, by path. `NS` stands for the namespace of the story.
pub(super) type Files = Vec<(String, String)>;

pub(super) fn map(path: &str, name: &str) -> (String, String) {
    let text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: NS\ndata: {{a: b}}\n");
    (format!("{path}/{name}.yaml"), text)
}

fn maps(path: &str, names: &[&str]) -> Files {
    names.iter().map(|name| map(path, name)).collect()
}

pub(super) fn kustomization(name: &str) -> (String, String) {
    let text = format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata:\n  name: {name}\n  namespace: NS\nspec:\n  \
         interval: 1h\n  retryInterval: 2s\n  path: ./{name}\n  prune: true\n  sourceRef:\n    kind: GitRepository\n    name: NS\n"
    );
    (format!("root/{name}.yaml"), text)
}

/// A HelmRelease of these maps. `more` are further fields of its spec.
pub(super) fn release(name: &str, names: &[&str], more: &str) -> (String, String) {
    let text = format!(
        "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata:\n  name: {name}\n  namespace: NS\nspec:\n  interval: 1h\n  \
         chart:\n    spec:\n      chart: ./chart\n      sourceRef:\n        kind: GitRepository\n        name: NS\n  values:\n    maps: [{}]\n{more}",
        names.join(", ")
    );
    (format!("root/release-{name}.yaml"), text)
}

pub(super) fn set(name: &str, names: &[&str]) -> (String, String) {
    let inputs: Vec<String> = names.iter().map(|name| format!("{{app: {name}}}")).collect();
    let text = format!(
        "apiVersion: fluxcd.controlplane.io/v1\nkind: ResourceSet\nmetadata:\n  name: {name}\n  namespace: NS\nspec:\n  \
         inputs: [{}]\n  resources:\n    - apiVersion: v1\n      kind: ConfigMap\n      metadata:\n        name: << inputs.app >>\n        \
         namespace: NS\n      data: {{a: b}}\n",
        inputs.join(", ")
    );
    (format!("root/set-{name}.yaml"), text)
}

/// A change of a tree, with what is deployed on branch `main` and the change on `feature`.
pub(super) struct Story<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) namespace: String,
    pub(super) tree: Folder,
}

impl<'a> Story<'a> {
    pub(super) fn new(cluster: &'a Cluster, namespace: &str, before: Files, after: Files) -> Self {
        let this = Self { cluster, namespace: namespace.to_owned(), tree: Folder::outside_checkouts(namespace) };
        let git = |words: &[&str]| this.tree.git(words);
        cluster.kubectl(&["create", "namespace", namespace]).unwrap();
        let chart = [("Chart.yaml", CHART), ("templates/maps.yaml", TEMPLATE)];
        cluster.publish(&format!("OCIRepository/{namespace}/maps"), packed("maps", &chart)).unwrap();
        git(&["init", "-q", "-b", "main"]);
        git(&["remote", "add", "origin", &format!("https://example.invalid/{namespace}.git")]);
        this.write(before);
        this.commit();
        git(&["checkout", "-q", "-b", "feature"]);
        git(&["rm", "-rqf", "."]);
        this.write(after);
        this.commit();
        git(&["checkout", "-q", "main"]);
        let revision = this.publish();
        let root = kustomization("root").1.replace("NS", namespace);
        cluster.kubectl_stdin(&["apply", "-f", "-"], &root).unwrap();
        this.wait(&revision);
        this
    }

    fn write(&self, files: Files) {
        let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        let always =
            [map("root", "always"), file("chart/Chart.yaml", CHART), file("chart/templates/maps.yaml", TEMPLATE)];
        for (path, text) in files.into_iter().chain(always) {
            let path = self.tree.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text.replace("NS", &self.namespace)).unwrap();
        }
    }

    pub(super) fn commit(&self) {
        self.tree.git(&["add", "-A"]);
        self.tree.git(&["commit", "-q", "--allow-empty", "-m", "change"]);
    }

    pub(super) fn publish(&self) -> String {
        self.cluster.publish(&format!("GitRepository/{0}/{0}", self.namespace), self.tree.path()).unwrap()
    }

    /// Waits until every owner is ready for its generation, or does nothing.
    pub(super) fn wait(&self, revision: &str) {
        self.cluster.wait_until_applied(&self.namespace, "root", revision, LIMIT).unwrap();
        let settled = || {
            self.serve_charts();
            let kinds = "kustomizations,helmreleases,resourcesets";
            let list = self.cluster.kubectl(&["get", kinds, "-n", &self.namespace, "-o", "json"])?;
            let list: Value = serde_json::from_str(&list).unwrap();
            Ok(list["items"].as_array().unwrap().iter().all(is_settled))
        };
        self.cluster.wait_for("the owners to be ready", LIMIT, settled).unwrap();
        std::thread::sleep(std::time::Duration::from_secs(3));
        self.cluster.wait_for("the owners to stay ready", LIMIT, settled).unwrap();
    }

    /// Gives every HelmChart the packed chart, as source-controller does.
    pub(super) fn serve_charts(&self) {
        let get = |what: &str| {
            let text = self.cluster.kubectl(&["get", what, "-n", &self.namespace, "-o", "json"]).unwrap();
            serde_json::from_str::<Value>(&text).unwrap()
        };
        let mut artifact = get("ocirepository/maps")["status"]["artifact"].clone();
        artifact["revision"] = "0.1.0".into();
        for chart in get("helmcharts")["items"].as_array().unwrap() {
            if !chart["status"]["artifact"].is_null() {
                continue;
            }
            let generation = &chart["metadata"]["generation"];
            let ready = json!({"type": "Ready", "status": "True", "reason": "Succeeded", "message": "packed",
                "lastTransitionTime": artifact["lastUpdateTime"], "observedGeneration": generation});
            let status =
                json!({"status": {"observedGeneration": generation, "artifact": artifact, "conditions": [ready]}});
            let name = format!("helmchart/{}", chart["metadata"]["name"].as_str().unwrap());
            let status = status.to_string();
            let words = ["patch", &name, "-n", &self.namespace, "--subresource=status", "--type=merge", "-p", &status];
            let _ = self.cluster.kubectl(&words);
        }
    }

    /// Returns the uids of the ConfigMaps and of the owners, by kind and name.
    fn uids(&self) -> BTreeMap<String, String> {
        let kinds = "configmaps,kustomizations,helmreleases,resourcesets";
        let list = self.cluster.kubectl(&["get", kinds, "-n", &self.namespace, "-o", "json"]).unwrap();
        let list: Value = serde_json::from_str(&list).unwrap();
        let text = |item: &Value, pointer: &str| item.pointer(pointer).unwrap().as_str().unwrap().to_owned();
        let items = list["items"].as_array().unwrap().iter();
        let uids = items
            .map(|it| (format!("{}/{}", text(it, "/kind"), text(it, "/metadata/name")), text(it, "/metadata/uid")));
        uids.filter(|(name, _)| name != "ConfigMap/kube-root-ca.crt").collect()
    }

    pub(super) fn handover(&self, more: &[&str]) -> Run {
        let program = |name: &str| format!("--{name}={}", bin(name).display());
        let programs = ["kustomize", "helm", "flux-operator"].map(program);
        let words = ["handover", "--repo", self.tree.path().to_str().unwrap(), "--to", "feature"];
        let programs = programs.each_ref().map(String::as_str);
        gitops(self.cluster, &[&words[..], &programs, more].concat())
    }

    /// Plays the steps, and checks that each deletes what its plan says, and that `moved` keep their uids. Returns the document.
    fn play(&self, moved: &[&str]) -> Value {
        let patches = folder(&format!("{}-patches", self.namespace));
        let run = self.handover(&["-o", "json", "--write", patches.to_str().unwrap()]);
        assert_eq!(run.code, 0, "{run:?}");
        let document: Value = serde_json::from_str(&run.stdout).unwrap();
        let steps = document["steps"].as_array().unwrap();
        let first = self.uids();
        for (at, step) in steps.iter().enumerate() {
            let known = self.uids();
            // A third step takes back what the second one has set.
            if at == usize::from(steps.len() > 1) {
                self.tree.git(&["rm", "-rqf", "."]);
                self.tree.git(&["checkout", "feature", "--", "."]);
            }
            let patch = patches.join(format!("step-{}.patch", at + 1));
            if patch.exists() {
                self.tree.git(&["apply", patch.to_str().unwrap()]);
            }
            self.commit();
            self.wait(&self.publish());
            for command in step["commands"].as_array().unwrap() {
                let words = command.as_str().unwrap().split_whitespace().skip(1);
                let words: Vec<&str> = words.map(|word| word.trim_matches('\'')).collect();
                self.cluster.kubectl(&words).unwrap();
            }
            let now = self.uids();
            let gone = known.iter().filter(|(_, uid)| !now.values().any(|other| other == *uid));
            let gone: BTreeSet<String> = gone.map(|(name, _)| name.clone()).collect();
            let rows = step["plan"]["changes"].as_array().unwrap().iter();
            let planned = rows.filter(|row| ["delete", "recreate"].contains(&row["action"].as_str().unwrap()));
            let planned = planned.map(|row| {
                format!("{}/{}", row["object"]["kind"].as_str().unwrap(), row["object"]["name"].as_str().unwrap())
            });
            let planned: BTreeSet<String> = planned.filter(|name| known.contains_key(name)).collect();
            assert_eq!(gone, planned, "{} step {}\n{}", self.namespace, at + 1, run.stdout);
        }
        let last = self.uids();
        for name in moved.iter().map(|name| format!("ConfigMap/{name}")) {
            assert_eq!(first[&name], last[&name], "{name} has another uid\n{}", run.stdout);
        }
        document
    }
}

fn is_settled(owner: &Value) -> bool {
    let is_off = owner["metadata"]["annotations"]["fluxcd.controlplane.io/reconcile"] == "disabled";
    let conditions = owner["status"]["conditions"].as_array().into_iter().flatten();
    let is_ready = |condition: &Value| {
        condition["type"] == "Ready"
            && condition["status"] == "True"
            && condition["observedGeneration"] == owner["metadata"]["generation"]
    };
    owner["metadata"]["deletionTimestamp"].is_null()
        && (is_off || owner["spec"]["suspend"] == true || conditions.into_iter().any(is_ready))
}

/// Plays a story, and returns the number of its steps, and the objects that are left over.
fn play(namespace: &str, before: Files, after: Files, moved: &[&str]) -> (usize, Vec<String>) {
    let cluster = cluster();
    let document = Story::new(&cluster, namespace, before, after).play(moved);
    let text = |id: &Value, key: &str| id[key].as_str().unwrap_or_default().to_owned();
    let left = document["leftOver"].as_array().unwrap().iter();
    let left = left.map(|id| {
        let name = text(id, "name");
        let kind = format!("{}.{}", text(id, "kind"), text(id, "group"));
        cluster.kubectl(&["get", kind.trim_end_matches('.'), &name, "-n", namespace]).expect("it is left over");
        name
    });
    (document["steps"].as_array().unwrap().len(), left.collect())
}

fn files(parts: impl IntoIterator<Item = Files>) -> Files {
    parts.into_iter().flatten().collect()
}

#[test]
fn a_kustomization_that_becomes_a_release() {
    let before = files([vec![kustomization("apps")], maps("apps", &["a", "b"])]);
    let after = vec![release("apps", &["a", "b"], "")];
    assert_eq!(play("ks-to-helm", before, after, &["a", "b"]), (2, vec![]));
}

#[test]
fn a_kustomization_that_stays_and_gives_objects_to_a_release() {
    let before = files([vec![kustomization("apps")], maps("apps", &["a", "b"])]);
    let after = files([vec![kustomization("apps"), release("web", &["a"], "")], maps("apps", &["b"])]);
    assert_eq!(play("ks-gives-helm", before, after, &["a", "b"]), (3, vec![]));
}

#[test]
fn a_release_that_must_not_take_over_is_refused() {
    let before = files([vec![kustomization("apps")], maps("apps", &["a"])]);
    let after = vec![release("apps", &["a"], "  install:\n    disableTakeOwnership: true\n")];
    let run = Story::new(&cluster(), "ks-helm-marks", before, after).handover(&[]);
    assert_eq!(run.code, 6, "{run:?}");
    assert!(run.stderr.contains("configmap/a -n ks-helm-marks: helmrelease/apps"), "{run:?}");
}

#[test]
fn a_helm_release_that_is_renamed_and_keeps_its_release() {
    let release_name = "  releaseName: shop\n";
    let before = vec![release("old", &["a", "b"], release_name)];
    let after = vec![release("new", &["a", "b"], release_name)];
    // helm-controller deletes no HelmChart of a suspended HelmRelease.
    assert_eq!(play("hr-renamed", before, after, &["a", "b"]), (2, vec!["hr-renamed-old".to_owned()]));
}

#[test]
fn a_helm_release_that_is_renamed_with_its_release() {
    let (before, after) = (vec![release("old", &["a"], "")], vec![release("new", &["a"], "")]);
    assert_eq!(play("hr-renamed-all", before, after, &["a"]), (2, vec!["hr-renamed-all-old".to_owned()]));
}

#[test]
fn a_release_that_gets_another_name_is_refused() {
    let before = vec![release("web", &["a", "b"], "")];
    let after = vec![release("web", &["a", "b"], "  releaseName: other\n")];
    let run = Story::new(&cluster(), "release-name", before, after).handover(&[]);
    assert_eq!(run.code, 6, "{run:?}");
    assert!(run.stderr.contains("no steps without loss: configmap/a -n release-name is deleted"), "{run:?}");
}

#[test]
fn an_object_that_moves_from_one_release_to_another() {
    let before = vec![release("one", &["a", "b"], ""), release("two", &["c"], "")];
    let after = vec![release("one", &["a"], ""), release("two", &["b", "c"], "")];
    assert_eq!(play("between-releases", before, after, &["a", "b", "c"]), (2, vec![]));
}

#[test]
fn a_resource_set_that_is_renamed() {
    let (before, after) = (vec![set("old", &["a", "b"])], vec![set("new", &["a", "b"])]);
    assert_eq!(play("set-renamed", before, after, &["a", "b"]), (2, vec![]));
}

#[test]
fn an_object_that_moves_between_resource_sets() {
    let before = vec![set("one", &["a", "b"]), set("two", &["c"])];
    let after = vec![set("one", &["a"]), set("two", &["b", "c"])];
    assert_eq!(play("between-sets", before, after, &["a", "b", "c"]), (3, vec![]));
}

/// flux-operator deletes what a set no longer generates by the labels of the set, which kustomize-controller leaves on it.
#[test]
fn a_resource_set_that_stays_and_gives_an_object_to_a_kustomization_is_refused() {
    let before = files([vec![set("one", &["a", "b"]), kustomization("apps")], maps("apps", &["c"])]);
    let after = files([vec![set("one", &["a"]), kustomization("apps")], maps("apps", &["b", "c"])]);
    let run = Story::new(&cluster(), "set-gives-ks", before, after).handover(&[]);
    assert_eq!(run.code, 6, "{run:?}");
    assert!(run.stderr.contains("configmap/b -n set-gives-ks is deleted by resourceset/one"), "{run:?}");
}

#[test]
fn a_release_that_becomes_a_kustomization() {
    let before = vec![release("apps", &["a", "b"], "")];
    let after = files([vec![kustomization("apps")], maps("apps", &["a", "b"])]);
    assert_eq!(play("helm-to-ks", before, after, &["a", "b"]), (2, vec!["helm-to-ks-apps".to_owned()]));
}

#[test]
fn a_release_whose_objects_helm_keeps_becomes_a_kustomization() {
    let before = vec![release("apps", &["a", "b"], "    keep: true\n")];
    let after = files([vec![kustomization("apps")], maps("apps", &["a", "b"])]);
    let (steps, left) = play("helm-keep-to-ks", before, after, &["a", "b"]);
    assert_eq!((steps, left), (1, vec![]), "the uninstall deletes none of them");
}

/// A manifest as people write it in one line, beside one of the same name for another cluster.
#[test]
fn a_manifest_in_flow_style_beside_one_of_another_cluster_is_patched() {
    let flow = |directory: &str, name: &str| {
        let text = format!(
            "# Ours\r\napiVersion: kustomize.toolkit.fluxcd.io/v1\r\nkind: Kustomization\r\nmetadata: {{name: {name}, namespace: NS}}\r\n\
             spec: {{interval: 1h, retryInterval: 2s, path: ./apps, prune: true, # Why\r\n  sourceRef: {{kind: GitRepository, name: NS}}}}"
        );
        (format!("{directory}/my apps.yaml"), text)
    };
    let with = |name: &str| files([vec![flow("root", name), flow("other", name)], maps("apps", &["a"])]);
    assert_eq!(play("flow-renamed", with("apps"), with("apps-v2"), &["a"]), (2, vec![]));
}

/// A list names the file of the outermost one, and another Kustomization depends on it.
#[test]
fn three_levels_that_are_renamed_at_once() {
    let levels = |ending: &str| {
        let owner = |directory: &str, name: &str| {
            let renamed = format!("{name}{ending}");
            let text = kustomization(&renamed).1.replace(&format!("./{renamed}"), &format!("./{name}"));
            (format!("{directory}/{renamed}.yaml"), text)
        };
        let depends_on = format!("spec:\n  dependsOn: [{{name: outer{ending}}}]\n");
        let (file, beside) = kustomization("beside");
        let list = format!("resources: [always.yaml, beside.yaml, outer{ending}.yaml]\n");
        files([
            vec![("root/kustomization.yaml".to_owned(), list), (file, beside.replace("spec:\n", &depends_on))],
            vec![owner("root", "outer"), owner("outer", "middle"), owner("middle", "inner")],
            [("outer", "o"), ("middle", "m"), ("inner", "i"), ("beside", "b")]
                .map(|(path, name)| map(path, name))
                .into(),
        ])
    };
    assert_eq!(play("three-levels", levels(""), levels("-v2"), &["o", "m", "i", "b"]), (4, vec![]));
}

/// Returns what a handover says that is refused.
fn refused(namespace: &str, before: Files, after: Files) -> String {
    let run = Story::new(&cluster(), namespace, before, after).handover(&[]);
    assert_eq!(run.code, 6, "{run:?}");
    run.stderr
}

#[test]
fn an_object_that_would_get_a_second_owner_is_refused() {
    let both = |other: &[&str]| {
        files([vec![kustomization("one"), kustomization("two")], maps("one", &["a"]), maps("two", other)])
    };
    let said = refused("two-owners", both(&["b"]), both(&["a", "b"]));
    let rule =
        "with the change configmap/a -n two-owners is applied by kustomization/one -n two-owners and kustomization/two";
    assert!(said.contains(rule), "{said}");
}

#[test]
fn a_move_that_the_api_server_refuses_is_refused() {
    let frozen = |owner: &str, value: &str| {
        let text = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: frozen, namespace: NS}}\nimmutable: true\ndata: {{a: {value}}}\n"
        );
        (format!("{owner}/frozen.yaml"), text)
    };
    let owners = |moved: (String, String)| {
        files([vec![kustomization("one"), kustomization("two"), moved], maps("one", &["a"]), maps("two", &["b"])])
    };
    let said = refused("frozen", owners(frozen("one", "b")), owners(frozen("two", "c")));
    assert!(
        said.contains("kustomization/two -n frozen cannot apply the change: the server refuses configmap/frozen"),
        "{said}"
    );
}

#[test]
fn a_patch_that_decides_about_the_setting_is_named() {
    let patched = |name: &str| {
        let patch =
            "- target: {kind: Kustomization}\n  patch: '- {op: add, path: /spec/deletionPolicy, value: Delete}'\n";
        let list = format!("resources: [apps.yaml, always.yaml]\npatches:\n{patch}");
        let (_, text) = kustomization(name);
        files([
            vec![
                ("root/kustomization.yaml".to_owned(), list),
                ("root/apps.yaml".to_owned(), text.replace(&format!("./{name}"), "./apps")),
            ],
            maps("apps", &["a"]),
        ])
    };
    let said = refused("patched", patched("old"), patched("new"));
    let rule = "configmap/a -n patched needs `deletionPolicy: Orphan` on kustomization.kustomize.toolkit.fluxcd.io/old -n patched, which \
                its manifest alone does not set";
    assert!(said.contains(rule), "{said}");
}

#[test]
fn a_change_below_a_suspended_root_is_refused() {
    let before = files([vec![kustomization("old")], maps("old", &["a"])]);
    let after = files([vec![kustomization("new")], maps("new", &["a"])]);
    let cluster = cluster();
    let story = Story::new(&cluster, "parked", before, after);
    let suspend = r#"{"spec": {"suspend": true}}"#;
    cluster.kubectl(&["patch", "kustomization/root", "-n", "parked", "--type=merge", "-p", suspend]).unwrap();
    let run = story.handover(&[]);
    assert_eq!(run.code, 6, "{run:?}");
    assert!(run.stderr.contains("configmap/a -n parked is deleted once what is suspended is resumed"), "{run:?}");
}
