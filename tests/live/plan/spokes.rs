//! Kustomizations and HelmReleases with `spec.kubeConfig`, planned with `--spoke` and compared by uid in both clusters with what the real
//! controllers do.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use test_support::cluster::LIMIT;
use test_support::flux::{applied, settled};
use test_support::folder::{commit, folder, init};
use test_support::gitops::{Run, gitops_as};
use test_support::tree_plan::{arguments, document, reason};
use xtask::cluster::{Cluster, Flux, Options};
use xtask::controlplane::{bin, ensure};

use super::generators::{assert_effect, deploy};
use super::releases::objects;
use super::upgrades::{publish_chart, ready};

/// The cluster with Flux, the other cluster, and a kubeconfig with the contexts `hub` and `edge`.
struct Clusters {
    hub: Cluster,
    edge: Cluster,
    kubeconfig: PathBuf,
}

/// A change of Kustomizations in a namespace of its own. `NS` stands for that namespace.
#[derive(Clone, Default)]
struct Case {
    name: &'static str,
    /// Manifests in the hub, besides the Kustomization `k` of `./k`.
    here: [&'static str; 2],
    /// Fields of the spec of `k`; the empty text for no Kustomization.
    k: [&'static str; 2],
    /// Manifests that `k` applies.
    there: [&'static str; 2],
    /// Manifests that are in the other cluster before, with other owners.
    beside: &'static str,
    /// Certain rows that are no creation and no update; `@edge` marks the other cluster.
    rows: &'static [&'static str],
    /// Outcome and reason of `k`.
    owner: &'static str,
    /// The plan is incomplete, and its effect is not compared.
    is_unknown: bool,
}

const A: &str = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: NS}\ndata: {k: a}\n";
const B: &str = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: NS}\ndata: {k: b}\n";
const AB: &str = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: NS}\ndata: {k: a}\n\
     ---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: NS}\ndata: {k: b}\n";
const KEPT: &str = "---\napiVersion: v1\nkind: ConfigMap\n\
     metadata: {name: b, namespace: NS, annotations: {kustomize.toolkit.fluxcd.io/prune: disabled}}\n";
const SPACE: &str = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: NS-space}\n";
const IN_SPACE: &str = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: inside, namespace: NS-space}\n";
const FROZEN: [&str; 2] = [
    "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: frozen, namespace: NS}\nimmutable: true\ndata: {k: a}\n",
    "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: frozen, namespace: NS}\nimmutable: true\ndata: {k: b}\n",
];
const DEFINITION: &str = "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
     metadata: {name: cogs.spokes.example.com}\nspec:\n  group: spokes.example.com\n  scope: Namespaced\n  \
     names: {kind: Cog, plural: cogs, singular: cog, listKind: CogList}\n  \
     versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]\n";
const WEB: &str = "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: NS}\nspec:\n  replicas: 0\n  \
     selector: {matchLabels: {a: web}}\n  template:\n    metadata: {labels: {a: web}}\n    \
     spec: {containers: [{name: c, image: i}]}\n";
const ACCOUNT: &str = "---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: limited, namespace: NS}\n";
const LIMITED: &str = "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: limited, namespace: NS}\n\
     rules: [{apiGroups: [''], resources: [configmaps], verbs: [get, list, watch, create, patch, update]}]\n\
     ---\napiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: limited, namespace: NS}\n\
     roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: limited}\n\
     subjects: [{kind: ServiceAccount, name: limited, namespace: NS}]\n";
const OTHER: &str = "---\napiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\n\
     metadata: {name: other, namespace: NS}\nspec: {interval: 1h, retryInterval: 2s, path: ./other, prune: true, \
     kubeConfig: {secretRef: {name: edge}}, sourceRef: {kind: GitRepository, name: src}}\n";

/// The key of a Kustomization that the second entry removes.
const PRUNES: &str = "prune: true";

fn case(name: &'static str, there: [&'static str; 2], rows: &'static [&'static str]) -> Case {
    let k = [PRUNES, PRUNES];
    Case { name, k, there, rows, owner: "applies new-revision", ..Case::default() }
}

fn cases() -> Vec<Case> {
    vec![
        case("sp-pruned", [AB, A], &["delete ConfigMap/b@edge"]),
        Case { here: [B, B], ..case("sp-namesake", [AB, A], &["delete ConfigMap/b@edge"]) },
        Case { here: [AB, A], ..case("sp-namesake-there", [AB, AB], &["delete ConfigMap/b"]) },
        case("sp-protected", [KEPT, A], &["keep ConfigMap/b@edge"]),
        Case { k: ["prune: false", "prune: false"], ..case("sp-no-prune", [AB, A], &["keep ConfigMap/b@edge"]) },
        Case {
            k: [PRUNES, ""],
            owner: "deleted owner-deleted-with-objects",
            ..case(
                "sp-deleted",
                [AB, AB],
                &["delete ConfigMap/a@edge", "delete ConfigMap/b@edge", "delete Kustomization/k"],
            )
        },
        Case {
            k: ["prune: true, deletionPolicy: Orphan", ""],
            owner: "deleted owner-deleted-alone",
            ..case("sp-orphaned", [A, A], &["delete Kustomization/k", "keep ConfigMap/a@edge"])
        },
        Case {
            here: [SPACE, SPACE],
            beside: IN_SPACE,
            ..case(
                "sp-namespace",
                [SPACE, A],
                &[
                    "delete ConfigMap/inside@edge",
                    "delete Namespace/sp-namespace-space@edge",
                    "delete ServiceAccount/default@edge",
                ],
            )
        },
        Case {
            beside: "---\napiVersion: spokes.example.com/v1\nkind: Cog\nmetadata: {name: cog, namespace: NS}\n",
            ..case(
                "sp-definition",
                [DEFINITION, A],
                &["delete Cog/cog@edge", "delete CustomResourceDefinition/cogs.spokes.example.com@edge"],
            )
        },
        case("sp-dependents", [WEB, A], &["delete Deployment/web@edge", "delete ReplicaSet/@edge"]),
        Case {
            k: ["prune: true, force: true", "prune: true, force: true"],
            ..case("sp-forced", FROZEN, &["recreate ConfigMap/frozen@edge"])
        },
        Case {
            owner: "blocked apply-refused",
            ..case("sp-refused", [FROZEN[0], FROZEN[1]], &["keep ConfigMap/frozen@edge"])
        },
        // The namespace exists in the hub only.
        Case {
            here: [SPACE, SPACE],
            owner: "blocked apply-refused",
            ..case("sp-no-namespace", [AB, IN_SPACE], &["keep ConfigMap/a@edge", "keep ConfigMap/b@edge"])
        },
        Case {
            here: [ACCOUNT, ACCOUNT],
            k: ["prune: true, serviceAccountName: limited", "prune: true, serviceAccountName: limited"],
            beside: LIMITED,
            owner: "applies prune-refused",
            ..case("sp-account", [AB, A], &["keep ConfigMap/b@edge"])
        },
        Case {
            k: ["prune: true, targetNamespace: NS-to", "prune: true, targetNamespace: NS"],
            beside: "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: NS-to}\n",
            ..case("sp-target", [A, A], &["delete ConfigMap/a@edge"])
        },
        Case {
            k: ["prune: true, postBuild: {substitute: {name: a}}", "prune: true, postBuild: {substitute: {name: c}}"],
            ..case(
                "sp-variable",
                ["---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"v-${name}\", namespace: NS}\n"; 2],
                &["delete ConfigMap/v-a@edge"],
            )
        },
        Case {
            k: ["prune: true, path: ./k", "prune: true, path: ./nowhere"],
            owner: "blocked path-not-found",
            ..case("sp-path", [AB, AB], &[])
        },
        Case {
            k: [PRUNES, "prune: true, suspend: true"],
            owner: "blocked suspended",
            ..case("sp-suspended", [AB, AB], &[])
        },
        Case {
            here: [OTHER, OTHER],
            ..case("sp-handed-over", [AB, A], &["delete ConfigMap/c@edge", "recreate? ConfigMap/b@edge"])
        },
        Case {
            k: [PRUNES, "prune: true, kubeConfig: {secretRef: {name: elsewhere}}"],
            here: [
                "",
                "---\napiVersion: v1\nkind: Secret\nmetadata: {name: elsewhere, namespace: NS}\nstringData: {value: x}\n",
            ],
            is_unknown: true,
            owner: "unknown not-followed",
            ..case("sp-moved", [A, A], &["unknown Kustomization/k"])
        },
        Case {
            here: ["", ""],
            is_unknown: true,
            ..case("sp-flux-there", [OTHER, A], &["delete Kustomization/other@edge"])
        },
    ]
}

impl Case {
    fn write(&self, tree: &Path, time: usize) {
        let mut here = self.here[time].to_owned();
        if !self.k[time].is_empty() {
            let mut spec = String::new();
            for field in ["path: ./k", "kubeConfig: {secretRef: {name: edge}}"] {
                let key = field.split(':').next().unwrap();
                if !self.k[time].contains(&format!("{key}:")) {
                    spec += &format!("{field}, ");
                }
            }
            here += &format!(
                "---\napiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: k, namespace: NS}}\n\
                 spec: {{interval: 1h, retryInterval: 2s, {spec}{}, sourceRef: {{kind: GitRepository, name: src}}}}\n",
                self.k[time]
            );
        }
        here += "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: root, namespace: NS}\n";
        let other = if time == 0 { A.replace("name: a", "name: c") } else { B.to_owned() };
        for (path, text) in [("root", &here), ("k", &self.there[time].to_owned()), ("other", &other)] {
            fs::create_dir_all(tree.join(path)).unwrap();
            fs::write(tree.join(path).join("all.yaml"), text.replace("NS", self.name)).unwrap();
        }
        // A commit must change something.
        fs::write(tree.join("README.md"), time.to_string()).unwrap();
    }

    fn prepare(&self) -> PathBuf {
        let tree = folder(&format!("tree-{}", self.name));
        self.write(&tree, 0);
        init(&tree);
        tree
    }
}

impl Clusters {
    fn start(flux: Flux) -> Self {
        let flags = ["--requeue-dependency=1s"].map(str::to_owned);
        let options = Options { flux, kustomize_controller_flags: flags.into(), ..Options::default() };
        let hub = Cluster::up(options).expect("the cluster with Flux comes up");
        let edge = Cluster::up(Options { flux: Flux::Crds, ..Options::default() }).expect("the other cluster comes up");
        let (mut merged, kubeconfig) = (config(&hub, "hub"), folder("spokes").join("config"));
        for part in ["clusters", "contexts", "users"] {
            let more = config(&edge, "edge")[part].take();
            merged[part].as_array_mut().unwrap().extend(more.as_array().unwrap().iter().cloned());
        }
        merged["current-context"] = "hub".into();
        fs::write(&kubeconfig, merged.to_string()).unwrap();
        Self { hub, edge, kubeconfig }
    }

    /// Creates a namespace in both clusters, with the Secret `edge` in the hub, and deploys the tree.
    fn deploy(&self, namespace: &str, tree: &Path) {
        let config = config(&self.edge, "edge");
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "edge", "namespace": namespace},
            "stringData": {"value": config.to_string()},
        });
        self.edge.kubectl(&["create", "namespace", namespace]).unwrap();
        deploy(&self.hub, namespace, tree);
        self.hub.kubectl_stdin(&["apply", "-f", "-"], &secret.to_string()).unwrap();
    }

    fn add_beside(&self, case: &Case) {
        self.edge.kubectl_stdin(&["apply", "-f", "-"], &case.beside.replace("NS", case.name)).unwrap();
    }

    fn plan(&self, namespace: &str, tree: &Path, more: &[&str]) -> Run {
        let spoke = format!("--spoke={namespace}/edge=edge");
        let words = arguments(namespace, tree, &[&[&*spoke], more].concat());
        gitops_as(&self.kubeconfig, &words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Uids of the objects in both clusters.
    fn objects(&self) -> BTreeMap<String, String> {
        let edge = objects(&self.edge).into_iter().map(|(uid, what)| (uid, format!("{what} in edge")));
        objects(&self.hub).into_iter().chain(edge).collect()
    }
}

/// The kubeconfig of a cluster with a context of this name.
fn config(cluster: &Cluster, name: &str) -> Value {
    let text = cluster.kubectl(&["config", "view", "--raw", "--flatten", "-o", "json"]).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    for part in ["clusters", "contexts", "users"] {
        config[part][0]["name"] = name.into();
    }
    config["contexts"][0]["context"] = json!({"cluster": name, "user": name});
    config["current-context"] = name.into();
    config
}

/// `ACTION KIND/NAME` with `?` for a race and `@CLUSTER` for an object of another cluster, to the reason. Names of
/// ReplicaSets are left out.
fn rows(document: &Value) -> BTreeMap<String, String> {
    let rows = document["changes"].as_array().unwrap().iter().map(|row| {
        let text = |pointer: &str| row.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let race = if row["certainty"] == "race" { "?" } else { "" };
        let cluster = row["object"]["cluster"].as_str().map(|name| format!("@{name}")).unwrap_or_default();
        let name = if text("/object/kind") == "ReplicaSet" { "" } else { text("/object/name") };
        (format!("{}{race} {}/{name}{cluster}", text("/action"), text("/object/kind")), reason(row))
    });
    rows.collect()
}

fn is_shown(row: &str) -> bool {
    !row.starts_with("create") && !row.starts_with("update") && !row.contains("kube-root-ca.crt")
}

/// Returns the outcome of an owner with the code of its reason.
fn outcome(document: &Value, name: &str) -> String {
    let row = document["owners"].as_array().unwrap().iter().find(|row| row["name"] == name);
    let text = |row: &Value, pointer: &str| row.pointer(pointer).unwrap().as_str().unwrap().to_owned();
    row.map_or_else(|| "none".to_owned(), |row| format!("{} {}", text(row, "/outcome"), text(row, "/reason/code")))
}

#[test]
fn kustomizations_of_another_cluster_delete_what_was_planned() {
    let clusters = &Clusters::start(Flux::Kustomize);
    let cases = cases();
    let trees: Vec<PathBuf> = cases.iter().map(Case::prepare).collect();
    for (case, tree) in cases.iter().zip(&trees) {
        clusters.deploy(case.name, tree);
        // What needs an object of `k` comes after it.
        if !case.beside.is_empty() && case.beside != IN_SPACE && !case.beside.contains("kind: Cog") {
            clusters.add_beside(case);
        }
    }
    for case in &cases {
        settled(&clusters.hub, case.name, "root");
        settled(&clusters.hub, case.name, "k");
    }
    cases.iter().filter(|case| !case.beside.is_empty()).for_each(|case| clusters.add_beside(case));
    std::thread::sleep(std::time::Duration::from_secs(3));
    let before = clusters.objects();
    let (mut planned, mut open, mut wrong) = (BTreeMap::new(), BTreeSet::new(), vec![]);
    for (case, tree) in cases.iter().zip(&trees) {
        case.write(tree, 1);
        let run = clusters.plan(case.name, tree, &[]);
        let document = document(&run);
        let shown: BTreeSet<String> = rows(&document).into_keys().filter(|row| is_shown(row)).collect();
        let found = (&document["complete"], &document["rehearsed"], shown, outcome(&document, "k"));
        let rows = case.rows.iter().map(|row| (*row).to_owned()).collect();
        let expected = (&json!(!case.is_unknown), &json!(true), rows, case.owner.to_owned());
        if found != expected {
            wrong.push(format!("{}: {found:?}, and not {expected:?}\n{}{}", case.name, document["gaps"], run.stderr));
        }
        assert_eq!(document["spokes"]["edge"]["server"], clusters.edge.server_url(), "{}", case.name);
        for row in document["changes"].as_array().unwrap() {
            let uid = row["object"]["uid"].as_str().unwrap().to_owned();
            let is_deletion = ["delete", "recreate"].contains(&row["action"].as_str().unwrap());
            if is_deletion && row["certainty"] == "certain" && !case.is_unknown {
                planned.insert(uid, String::new());
            } else if is_deletion || case.is_unknown {
                open.insert(uid);
            }
        }
    }
    for (case, tree) in cases.iter().zip(&trees) {
        commit(tree);
        let revision = clusters.hub.publish(&format!("GitRepository/{}/src", case.name), tree).unwrap();
        applied(&clusters.hub, case.name, "root", &revision);
    }
    let gone = || Ok(planned.keys().all(|uid| !clusters.objects().contains_key(uid)));
    let _ = clusters.hub.wait_for("the planned deletions", LIMIT, gone);
    std::thread::sleep(std::time::Duration::from_secs(8));
    let is_certain = |(uid, _): &(&String, &String)| !open.contains(*uid);
    let certain = before.iter().filter(is_certain).map(|(uid, what)| (uid.clone(), what.clone())).collect();
    assert_effect(&certain, &clusters.objects(), &planned);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_spoke_can_be_a_file_and_wrong_spokes_are_refused() {
    let clusters = &Clusters::start(Flux::Kustomize);
    let case = case("sp-file", [AB, A], &[]);
    let tree = case.prepare();
    clusters.deploy(case.name, &tree);
    settled(&clusters.hub, case.name, "k");
    case.write(&tree, 1);
    let recordings = folder("spoke-recordings");
    let [hub, edge] = ["hub", "edge"].map(|name| recordings.join(format!("{name}.json.gz")).display().to_string());
    let record = |context: &str, file: &str| {
        let run = gitops_as(&clusters.kubeconfig, &["snapshot", file, "--context", context, "--with-values"]);
        assert_eq!(run.code, 0, "{run:?}");
    };
    record("hub", &hub);
    record("edge", &edge);
    let run = |more: &[&str]| {
        let words = arguments(case.name, &tree, more);
        gitops_as(&clusters.kubeconfig, &words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let spoke = |cluster: &str| format!("--spoke={}/edge={cluster}", case.name);
    for more in [vec![spoke(&edge)], vec![spoke(&edge), format!("--snapshot={hub}")]] {
        let found = document(&run(&more.iter().map(String::as_str).collect::<Vec<_>>()));
        let kept = rows(&found).into_keys().filter(|row| is_shown(row)).collect::<Vec<_>>();
        assert_eq!(kept, [format!("delete ConfigMap/b@{edge}")], "{found}");
        assert_eq!((&found["complete"], &found["rehearsed"]), (&true.into(), &false.into()), "{}", found["gaps"]);
        let unrehearsed = found["unrehearsed"].as_array().unwrap();
        assert!(unrehearsed.iter().any(|id| id["cluster"] == edge), "{unrehearsed:?}");
    }
    let table = |more: &[&str]| {
        let source = format!("--source=GitRepository/{}/src={}", case.name, tree.display());
        let kustomize = format!("--kustomize={}", bin("kustomize").display());
        let words = [&["prune", "--plan", "-n", case.name, &*source, &*kustomize][..], more].concat();
        gitops_as(&clusters.kubeconfig, &words)
    };
    let shown = table(&[&spoke("edge"), "-o=wide"]).stdout;
    let cells: Vec<&str> = shown.lines().find(|line| line.starts_with("delete")).unwrap().split_whitespace().collect();
    assert_eq!(cells[..5], ["delete", "edge", case.name, "ConfigMap", "b"], "{shown}");

    for (more, said) in [
        (vec![spoke("egde")], "egde is neither a context nor a file"),
        (vec![spoke("hub")], "hub is the cluster that is planned"),
        (vec![spoke("edge"), format!("--spoke=x/y={edge}")], "are the same cluster"),
        (vec![spoke("edge"), spoke("edge")], "twice"),
        (vec![spoke("edge"), format!("--snapshot={hub}")], "there is no snapshot edge"),
        (vec![spoke("edge"), "-o=name".to_owned()], "-o name does not say in which cluster"),
    ] {
        let run = table(&more.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(run.code, 2, "{more:?}: {run:?}");
        assert!(run.stderr.contains(said), "{more:?}: {}", run.stderr);
    }
    // Credentials on the command line are those of the cluster itself.
    let token = format!("--token={}", clusters.hub.user_token("admin").unwrap());
    let with_token = table(&[&spoke("edge"), &token]);
    assert_eq!(with_token.code, 0, "{with_token:?}");
    // Two Secrets may reach one cluster.
    let both = table(&[&spoke("edge"), "--spoke=x/y=edge", "-o", "json"]);
    assert_eq!(both.code, 0, "{both:?}");
    // Without the flag, the Kustomization is unknown.
    assert_eq!(run(&[]).code, 5);
    // A server that is down is named.
    clusters.edge.stop("kube-apiserver").unwrap();
    let down = table(&[&spoke("edge")]);
    assert!(down.code == 1 && down.stderr.contains("cannot read the cluster of --spoke …=edge"), "{down:?}");
}

/// A change of the release `app`, which is in the other cluster.
struct ReleaseCase {
    name: &'static str,
    /// Fields of its spec; the empty text for no HelmRelease.
    specs: [&'static str; 2],
    /// Files of the chart after the change, and their content; `None` for one that is removed.
    chart: &'static [(&'static str, Option<&'static str>)],
    /// Rows that are no creation and no update, without Helm's records.
    rows: &'static [&'static str],
}

const CHART: [(&str, &str); 5] = [
    ("Chart.yaml", "apiVersion: v2\nname: app\nversion: 1.0.0\n"),
    ("values.yaml", "b: true\n"),
    ("templates/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"),
    ("templates/b.yaml", "{{- if .Values.b }}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n{{- end }}\n"),
    (
        "templates/kept.yaml",
        "{{- if .Values.b }}\napiVersion: v1\nkind: ConfigMap\n\
         metadata: {name: kept, annotations: {helm.sh/resource-policy: keep}}\n{{- end }}\n",
    ),
];
const CHART_2: (&str, Option<&str>) = ("Chart.yaml", Some("apiVersion: v2\nname: app\nversion: 2.0.0\n"));

fn release_cases() -> Vec<ReleaseCase> {
    const PLAIN: &str = "interval: 1h";
    vec![
        ReleaseCase {
            name: "sr-values",
            specs: [PLAIN, "values: {b: false}"],
            chart: &[],
            rows: &["delete ConfigMap/b@edge", "keep ConfigMap/kept@edge"],
        },
        ReleaseCase {
            name: "sr-chart",
            specs: [PLAIN, PLAIN],
            chart: &[CHART_2, ("templates/a.yaml", None)],
            rows: &["delete ConfigMap/a@edge"],
        },
        ReleaseCase { name: "sr-same", specs: [PLAIN, "timeout: 30s"], chart: &[], rows: &[] },
        ReleaseCase {
            name: "sr-deleted",
            specs: [PLAIN, ""],
            chart: &[],
            rows: &[
                "delete ConfigMap/a@edge",
                "delete ConfigMap/b@edge",
                "delete HelmChart/sr-deleted-app",
                "delete HelmRelease/app",
                "keep ConfigMap/kept@edge",
            ],
        },
        ReleaseCase {
            name: "sr-replaced",
            specs: [PLAIN, "releaseName: other"],
            chart: &[],
            rows: &["recreate ConfigMap/a@edge", "recreate ConfigMap/b@edge", "keep ConfigMap/kept@edge"],
        },
        ReleaseCase {
            name: "sr-refused",
            specs: [PLAIN, PLAIN],
            chart: &[
                CHART_2,
                ("templates/a.yaml", None),
                (
                    "templates/wrong.yaml",
                    Some("apiVersion: v1\nkind: Service\nmetadata: {name: wrong}\nspec: {ports: [{port: 0}]}\n"),
                ),
            ],
            rows: &["keep ConfigMap/a@edge"],
        },
    ]
}

impl ReleaseCase {
    fn write(&self, tree: &Path, time: usize) {
        let release = match self.specs[time] {
            "" => "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: instead, namespace: NS}\n".to_owned(),
            spec => format!(
                "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: app, namespace: NS}}\n\
                 spec:\n  interval: 1h\n  kubeConfig: {{secretRef: {{name: edge}}}}\n  install: {{disableWait: true}}\n  \
                 upgrade: {{disableWait: true}}\n  chart: {{spec: {{chart: ./chart, interval: 1h, \
                 sourceRef: {{kind: GitRepository, name: src}}}}}}\n  {}\n",
                if spec.starts_with("interval") { "timeout: 20s" } else { spec }
            ),
        };
        fs::create_dir_all(tree.join("root")).unwrap();
        fs::write(tree.join("root/app.yaml"), release.replace("NS", self.name)).unwrap();
        for (at, text) in if time == 0 { &[] } else { self.chart } {
            let file = tree.join("chart").join(at);
            match text {
                Some(text) => fs::write(file, text).unwrap(),
                None => fs::remove_file(file).unwrap(),
            }
        }
        fs::write(tree.join("README.md"), time.to_string()).unwrap();
    }

    fn prepare(&self) -> PathBuf {
        let tree = folder(&format!("tree-{}", self.name));
        for (at, text) in CHART {
            let file = tree.join("chart").join(at);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        self.write(&tree, 0);
        init(&tree);
        tree
    }
}

#[test]
fn releases_in_another_cluster_delete_what_was_planned() {
    ensure(&["helm"]).unwrap();
    let clusters = &Clusters::start(Flux::All);
    // The test gives HelmCharts their artifacts.
    clusters.hub.stop("source-controller").unwrap();
    let cases = release_cases();
    let trees: Vec<PathBuf> = cases.iter().map(ReleaseCase::prepare).collect();
    cases.iter().zip(&trees).for_each(|(case, tree)| clusters.deploy(case.name, tree));
    for (case, tree) in cases.iter().zip(&trees) {
        settled(&clusters.hub, case.name, "root");
        publish_chart(&clusters.hub, case.name, tree);
    }
    cases.iter().for_each(|case| ready(&clusters.hub, case.name, "1"));
    std::thread::sleep(std::time::Duration::from_secs(3));
    let before = clusters.objects();
    let helm = format!("--helm={}", bin("helm").display());
    let (mut planned, mut open, mut wrong) = (BTreeMap::new(), BTreeSet::new(), vec![]);
    let mut recreated = BTreeSet::new();
    for (case, tree) in cases.iter().zip(&trees) {
        case.write(tree, 1);
        let run = clusters.plan(case.name, tree, &[&helm]);
        let document = document(&run);
        let is_record = |row: &str| row.contains("Secret/sh.helm.release.");
        let shown: BTreeSet<String> =
            rows(&document).into_keys().filter(|row| is_shown(row) && !is_record(row)).collect();
        let expected: BTreeSet<String> = case.rows.iter().map(|row| (*row).to_owned()).collect();
        if (&document["complete"], &shown) != (&json!(true), &expected) {
            wrong.push(format!("{}: {shown:?}\n{}{}", case.name, document["gaps"], run.stderr));
        }
        for row in document["changes"].as_array().unwrap() {
            let uid = row["object"]["uid"].as_str().unwrap().to_owned();
            let is_deletion = ["delete", "recreate"].contains(&row["action"].as_str().unwrap());
            if row["action"] == "recreate" && row["certainty"] == "certain" {
                recreated.extend(before.get(&uid).cloned());
            }
            if is_deletion && row["certainty"] == "certain" {
                planned.insert(uid, String::new());
            } else if is_deletion {
                open.insert(uid);
            }
        }
    }
    for (case, tree) in cases.iter().zip(&trees) {
        commit(tree);
        let revision = clusters.hub.publish(&format!("GitRepository/{}/src", case.name), tree).unwrap();
        applied(&clusters.hub, case.name, "root", &revision);
    }
    for (case, tree) in cases.iter().zip(&trees).filter(|(case, _)| case.chart.contains(&CHART_2)) {
        publish_chart(&clusters.hub, case.name, tree);
    }
    ready(&clusters.hub, "sr-chart", "2");
    ready(&clusters.hub, "sr-values", "2");
    let gone = || Ok(planned.keys().all(|uid| !clusters.objects().contains_key(uid)));
    let _ = clusters.hub.wait_for("the planned deletions", LIMIT, gone);
    std::thread::sleep(std::time::Duration::from_secs(8));
    let after = clusters.objects();
    let is_certain = |(uid, _): &(&String, &String)| !open.contains(*uid);
    let certain = before.iter().filter(is_certain).map(|(uid, what)| (uid.clone(), what.clone())).collect();
    assert_effect(&certain, &after, &planned);
    assert!(open.iter().all(|uid| after.contains_key(uid)), "the server refuses the upgrade");
    let there: BTreeSet<&String> = after.values().collect();
    assert!(recreated.len() >= 2 && recreated.iter().all(|object| there.contains(object)), "{recreated:?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
