//! The real `kubectl apply --prune --applyset` beside the plans of this tool, on the real API server, by uid.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Output};

use gitops_core::kubernetes::object::ObjectId;
use gitops_core::ownership::schemes::applyset::id_of;
use test_support::cluster::up;
use test_support::comparison::{Difference, Table, compare, snapshot};
use test_support::folder::folder;
use test_support::gitops::{Run, gitops};
use test_support::shared_cluster;
use xtask::cluster::Options;
use xtask::controlplane::bin;

// The cluster of these tests.
shared_cluster!(|| up(Options::default()));

fn cm(namespace: &str, name: &str) -> String {
    format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {namespace}}}\n")
}

fn kubectl(args: &str) -> String {
    cluster().kubectl(&args.split(' ').collect::<Vec<_>>()).unwrap()
}

/// An ApplySet in a namespace of its own.
struct Set {
    namespace: &'static str,
    /// The parent and, where it lives in a namespace, that.
    parent: Vec<String>,
    folder: PathBuf,
}

impl Set {
    fn new(namespace: &'static str) -> Self {
        kubectl(&format!("create namespace {namespace}"));
        let parent = ["--applyset=my-set", "-n", namespace].map(str::to_owned).to_vec();
        Self { namespace, parent, folder: folder(namespace) }
    }

    /// A set whose parent is cluster-scoped, so that its members may be in any namespace.
    fn of_cluster(namespace: &'static str) -> Self {
        let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
                   metadata: {name: appsets.example.com, labels: {applyset.kubernetes.io/is-parent-type: 'true'}}\n\
                   spec:\n  group: example.com\n  scope: Cluster\n  names: {kind: AppSet, plural: appsets}\n  \
                   versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]\n";
        cluster().kubectl_stdin(&["create", "-f", "-"], crd).unwrap();
        kubectl("wait --for=condition=Established crd --all --timeout=30s");
        let mark = |key: &str, value: &str| format!("applyset.kubernetes.io/{key}: {value}");
        let id = id_of(&ObjectId::new("example.com", "AppSet", "", "all"));
        let (id, tool, kinds) =
            (mark("id", &id), mark("tooling", "kubectl/v1.36.3"), mark("contains-group-kinds", "''"));
        let parent = format!(
            "apiVersion: example.com/v1\nkind: AppSet\n\
             metadata: {{name: all, labels: {{{id}}}, annotations: {{{tool}, {kinds}}}}}\n"
        );
        cluster().kubectl_stdin(&["create", "-f", "-"], &parent).unwrap();
        Self { parent: vec!["--applyset=appsets.example.com/all".to_owned()], ..Self::new(namespace) }
    }

    fn write(&self, text: &str) -> &Self {
        std::fs::write(self.folder.join("all.yaml"), text).unwrap();
        self
    }

    fn file(&self) -> String {
        self.folder.join("all.yaml").display().to_string()
    }

    /// `kubectl apply --prune --applyset=my-set`, with more arguments.
    fn apply(&self, args: &[&str]) -> Output {
        Command::new(bin("kubectl"))
            .args(["apply", "--prune", "-f", &self.file()])
            .args(&self.parent)
            .args(args)
            .env("KUBECTL_APPLYSET", "true")
            .env("KUBERC", "off")
            .env("KUBECONFIG", cluster().kubeconfig())
            .output()
            .expect("kubectl runs")
    }

    fn plan(&self, args: &[&str]) -> Run {
        let file = self.file();
        let fixed =
            ["prune", "applyset", "--plan", "-o", "json", "-f", &file, "--allow=namespaces,crds,volumes,statefulsets"];
        let parent: Vec<&str> = self.parent.iter().map(String::as_str).collect();
        gitops(&cluster(), &[&fixed, &parent[..], args].concat())
    }

    /// Plans, lets kubectl prune, and compares what is gone.
    fn compare(&self) -> Difference {
        let run = self.plan(&[]);
        let before = snapshot(&cluster(), self.namespace);
        let output = self.apply(&[]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let after = snapshot(&cluster(), self.namespace);
        let alive: BTreeSet<&str> = after.objects.iter().map(|object| &*object.uid).collect();
        // What a controller made goes with its owner; that is the cluster's garbage collection, not kubectl's.
        let members = before.objects.iter().filter(|object| object.controller_reference().is_none());
        let gone = members.filter(|object| !alive.contains(&*object.uid));
        let theirs: BTreeSet<String> = gone.map(|object| object.uid.to_string()).collect();
        compare(&before, &theirs, &run)
    }
}

#[test]
fn the_plan_equals_what_kubectl_prunes() {
    let _cluster = cluster();
    let mut table = Table::default();
    let mut case = |case: &str, difference: Difference, both: usize, only_theirs: &[(&str, &str)]| {
        table.add(case, &difference);
        assert_eq!(difference.both, both, "{case}: {difference:?}");
        assert!(difference.only_ours.is_empty() && difference.unexplained.is_empty(), "{case}: {difference:?}");
        assert_eq!(difference.only_theirs.len(), only_theirs.len(), "{case}: {difference:?}");
        for ((name, why), (expected, start)) in difference.only_theirs.iter().zip(only_theirs) {
            assert!(name == expected && why.starts_with(start), "{case}: {name}: {why}");
        }
    };
    kubectl("create namespace second");
    let set = Set::of_cluster("set");
    let deployment = "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, namespace: set}\n\
                      spec: {replicas: 0, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, \
                      spec: {containers: [{name: a, image: b}]}}}\n";
    let role =
        "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: set-role}\nrules: []\n";
    let all = [cm("set", "a"), cm("set", "b"), cm("second", "c"), deployment.to_owned(), role.to_owned()].concat();
    set.write(&all);
    assert!(set.apply(&[]).status.success());
    case("nothing changed", set.compare(), 0, &[]);

    set.write(&[cm("set", "a"), cm("second", "c"), deployment.to_owned(), role.to_owned()].concat());
    case("one object went", set.compare(), 1, &[]);

    set.write(&[cm("set", "a"), deployment.to_owned()].concat());
    case("a namespace and a cluster-scoped object went", set.compare(), 2, &[]);

    set.write(&all);
    assert!(set.apply(&[]).status.success());
    kubectl("annotate configmap b -n set helm.sh/resource-policy=keep");
    let uid = kubectl("get configmap a -n set -o jsonpath={.metadata.uid}");
    let owner = format!(
        r#"{{"metadata":{{"ownerReferences":[{{"apiVersion":"v1","kind":"ConfigMap","name":"a","uid":"{uid}"}}]}}}}"#
    );
    cluster().kubectl(&["patch", "deployment", "d", "-n", "set", "--type=merge", "-p", &owner]).unwrap();
    set.write(&[cm("set", "a"), role.to_owned()].concat());
    let spared = [("ConfigMap/b", "protected"), ("Deployment/d", "referenced")];
    case("a protected and an owned object went", set.compare(), 1, &spared);

    // A member where the parent does not say that members are: kubectl never finds it.
    let id = id_of(&ObjectId::new("example.com", "AppSet", "", "all"));
    kubectl("create namespace third");
    kubectl("create configmap lost -n third");
    cluster()
        .kubectl(&["label", "configmap", "lost", "-n", "third", &format!("applyset.kubernetes.io/part-of={id}")])
        .unwrap();
    let missed = set.plan(&[]);
    for part in ["\"code\": \"left-behind\"", "\"detail\": \"the parent does not list the namespace third"] {
        assert!(missed.stdout.contains(part), "{}", missed.stdout);
    }
    case("a member that kubectl never finds", set.compare(), 0, &[]);
    let included = set.plan(&["--include", "missed"]);
    assert!(included.stdout.contains("\"delete\": 1"), "{}", included.stdout);
    table.tell("applyset.txt");
}

#[test]
fn this_tool_prunes_in_kubectls_place_and_kubectl_finds_nothing_left() {
    let _cluster = cluster();
    let set = Set::new("done");
    set.write(&[cm("done", "a"), cm("done", "b"), cm("done", "c")].concat());
    assert!(set.apply(&[]).status.success());
    set.write(&cm("done", "a"));
    let verb = ["prune", "applyset", "--applyset", "my-set", "-n", "done", "-f", &set.file(), "--yes"];
    let refused = gitops(&cluster(), &[&verb[..], &["--max-delete=1"]].concat());
    assert_eq!(refused.code, 6, "{}", refused.stderr);
    assert!(refused.stderr.contains("this deletes 2 objects, more than 1"), "{}", refused.stderr);
    let run = gitops(&cluster(), &verb);
    assert_eq!((run.code, run.stderr.contains("2 of 2 objects deleted")), (0, true), "{run:?}");
    let theirs = set.apply(&[]);
    assert!(!String::from_utf8_lossy(&theirs.stdout).contains("pruned"), "{theirs:?}");
}

#[test]
fn a_parent_that_kubectl_refuses_is_refused() {
    let _cluster = cluster();
    let set = Set::new("refused");
    set.write(&cm("refused", "a"));
    let none = set.plan(&[]);
    assert_eq!(none.code, 1, "{none:?}");
    assert!(none.stderr.contains("there is no ApplySet parent secret/my-set -n refused"), "{}", none.stderr);
    assert!(set.apply(&[]).status.success());
    kubectl("annotate secret my-set -n refused applyset.kubernetes.io/tooling=helm/v3 --overwrite");
    let theirs = set.apply(&[]);
    assert!(String::from_utf8_lossy(&theirs.stderr).contains("is managed by tooling"), "{theirs:?}");
    let ours = set.plan(&[]);
    assert_eq!(ours.code, 6, "{}", ours.stderr);
    assert!(ours.stderr.contains("belongs to \"helm\", not to kubectl"), "{}", ours.stderr);
    kubectl("annotate secret my-set -n refused applyset.kubernetes.io/tooling=kubectl/v1.36.3 --overwrite");
    kubectl("label secret my-set -n refused applyset.kubernetes.io/id=somethingelse --overwrite");
    let theirs = set.apply(&[]);
    assert!(String::from_utf8_lossy(&theirs.stderr).contains("incorrect value for label"), "{theirs:?}");
    assert_eq!(set.plan(&[]).code, 6);
}
