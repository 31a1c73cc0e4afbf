//! Values of Secrets in plans: which Secrets are read, and that no output shows a value. The real controller decides which
//! objects the values name.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use test_support::cluster::with_kustomize_controller;
use test_support::flux::{publish, settled};
use test_support::folder::{commit, folder, init};
use test_support::gitops::{Run, command, gitops};
use test_support::shared_cluster;
use test_support::tree_plan::{arguments, document, plan, rows};

// The cluster of these tests, with kustomize-controller and an audit log.
shared_cluster!(with_kustomize_controller);

/// Value of the variable `password` of the Secret `vars`.
const VALUE: &str = "hunter2";
/// Value of the variable `password` of the Secret `other`, which no live Kustomization names.
const OTHER: &str = "unread9";

/// A namespace with both Secrets, and the live Kustomization `apps` that uses one of them.
struct Site {
    namespace: &'static str,
    tree: PathBuf,
}

impl Site {
    fn new(namespace: &'static str, files: &[(&str, &str)]) -> Self {
        let site = Self { namespace, tree: folder(namespace) };
        files.iter().for_each(|(name, content)| site.write(name, content));
        init(&site.tree);
        let cluster = cluster();
        cluster.kubectl(&["create", "namespace", namespace]).unwrap();
        for (name, value) in [("vars", VALUE), ("other", OTHER)] {
            let literal = format!("--from-literal=password={value}");
            let odd = format!("--from-literal=odd={value}: [");
            cluster.kubectl(&["create", "secret", "generic", name, "-n", namespace, &literal, &odd]).unwrap();
        }
        cluster.publish(&format!("GitRepository/{namespace}/src"), &site.tree).unwrap();
        let manifest = kustomization(namespace, "apps", "./apps", "vars");
        cluster.kubectl_stdin(&["apply", "-f", "-"], &manifest).unwrap();
        settled(&cluster, namespace, "apps");
        site
    }

    fn write(&self, name: &str, content: &str) {
        let file = self.tree.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, content.replace("NAMESPACE", self.namespace)).unwrap();
    }

    fn plan(&self, more: &[&str]) -> Run {
        let run = plan(&cluster(), self.namespace, &self.tree, more);
        assert_shows_no_value(&run);
        run
    }

    fn config_maps(&self) -> BTreeSet<String> {
        let names = ["get", "configmaps", "-n", self.namespace, "-o", "jsonpath={.items[*].metadata.name}"];
        let names = cluster().kubectl(&names).unwrap();
        names.split_whitespace().filter(|name| *name != "kube-root-ca.crt").map(str::to_owned).collect()
    }
}

fn kustomization(namespace: &str, name: &str, path: &str, secret: &str) -> String {
    format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: {name}, namespace: {namespace}}}\n\
         spec:\n  interval: 1h\n  retryInterval: 2s\n  prune: true\n  path: {path}\n  \
         sourceRef: {{kind: GitRepository, name: src}}\n  \
         postBuild: {{substituteFrom: [{{kind: Secret, name: {secret}}}]}}\n"
    )
}

fn config_map(name: &str, value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: NAMESPACE\ndata:\n  a: {value}\n")
}

fn assert_shows_no_value(run: &Run) {
    for value in [VALUE, OTHER, "HUNTER2", "aHVudGVyMg"] {
        assert!(!run.stdout.contains(value) && !run.stderr.contains(value), "{value}: {run}");
    }
}

/// Returns the outcome of an owner and the code of its reason.
fn outcome(run: &Run, name: &str) -> (String, String) {
    let plan = document(run);
    let owner = plan["owners"].as_array().unwrap().iter().find(|owner| owner["name"] == name);
    let owner = owner.unwrap_or_else(|| panic!("{name}: {run}"));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&owner["outcome"]), text(&owner["reason"]["code"]))
}

#[test]
fn names_with_values_are_matched_with_the_cluster_and_masked() {
    let site = Site::new("masked", &[("apps/db.yaml", &config_map("db-${password}", "http://u:${password}@db"))]);
    assert_eq!(site.config_maps(), ["db-hunter2".to_owned()].into());
    assert_eq!(rows(&site.plan(&[])).len(), 0, "the object exists");

    site.write("apps/db.yaml", &config_map("new-${password}", "${password^^}"));
    site.write("apps/slice.yaml", &config_map("part-${password:0:3}", "b"));
    site.write("apps/whole.yaml", &config_map("${password}", "b"));
    let run = site.plan(&["--max-percent=100"]);
    let planned: Vec<String> = rows(&run).into_keys().collect();
    let expected = [
        "create ConfigMap/??????????",
        "create ConfigMap/new-??????????",
        "create ConfigMap/part-??????????",
        "delete ConfigMap/db-??????????",
    ];
    assert_eq!(planned, expected, "{run}");
    for format in ["table", "wide", "json", "yaml", "markdown", "name"] {
        let words = arguments(site.namespace, &site.tree, &["--max-percent=100", "--diff", "-v", "9"]);
        let words = words.iter().map(|word| if word == "json" { format } else { word });
        let run = gitops(&cluster(), &words.collect::<Vec<_>>());
        assert_shows_no_value(&run);
        assert!(run.stdout.contains("db-??????????"), "{format}: {run}");
    }
    let alarm = site.plan(&["--max-delete=0"]);
    assert_eq!(alarm.code, 6, "{alarm}");
    commit(&site.tree);
    publish(&cluster(), site.namespace, &site.tree);
    let expected = ["hunter2", "new-hunter2", "part-hun"].map(str::to_owned);
    assert_eq!(site.config_maps(), expected.into(), "the controller does what the masked rows say");
}

#[test]
fn a_diff_and_a_refusal_show_no_value() {
    let site = Site::new("masked-diff", &[("apps/db.yaml", &config_map("db", "http://u:${password}@db"))]);
    site.write("apps/db.yaml", &(config_map("db", "http://v:${password}@db") + "  b: visible\n"));
    let run = site.plan(&["--diff"]);
    let plan = document(&run);
    let diff = plan["diffs"][0]["text"].as_str().unwrap_or_else(|| panic!("{run}"));
    assert!(diff.contains("+  b: visible") && diff.contains("*** (after)"), "{diff}");

    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: db, namespace: NAMESPACE}\nspec: {type: '${password}', ports: [{port: 80}]}\n";
    site.write("apps/service.yaml", service);
    let refused = site.plan(&["--diff"]);
    assert_eq!(outcome(&refused, "apps"), ("blocked".to_owned(), "apply-refused".to_owned()), "{refused}");
    assert!(refused.stdout.contains("the message of the server is not shown"), "{refused}");
}

/// A policy that quotes a piece of a Secret, or what holds its value, when it denies or warns.
fn policy(namespace: &str, name: &str, operation: &str, action: &str, quoted: &str) -> String {
    format!(
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {{name: {name}}}\nspec:\n  \
         matchConstraints: {{resourceRules: [{{apiGroups: [''], apiVersions: [v1], operations: [{operation}], \
         resources: [configmaps, secrets]}}]}}\n  matchConditions: [{{name: quoted, expression: \"has({quoted})\"}}]\n  \
         validations: [{{expression: 'false', messageExpression: \"'it is ' + string({quoted}).substring(1)\"}}]\n---\n\
         apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {{name: {name}}}\n\
         spec:\n  policyName: {name}\n  validationActions: [{action}]\n  \
         matchResources: {{namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: {namespace}}}}}}}\n---\n"
    )
}

#[test]
fn neither_policies_nor_warnings_can_quote_a_value() {
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: held, namespace: NAMESPACE}\n";
    let site = Site::new("masked-policies", &[("apps/secret.yaml", secret)]);
    let policies = [
        policy(site.namespace, "deletions", "DELETE", "Deny", "oldObject.data.key"),
        policy(site.namespace, "updates", "UPDATE", "Deny", "object.data.key"),
        policy(site.namespace, "creations", "CREATE", "Deny", "object.data.refused"),
        policy(site.namespace, "warnings", "CREATE", "Warn", "object.data.warned"),
    ];
    // The data of the live Secret are not in the tree.
    let data = format!("{{\"stringData\": {{\"key\": \"{VALUE}\"}}}}");
    cluster().kubectl(&["patch", "secret", "held", "-n", site.namespace, "--type=merge", "-p", &data]).unwrap();
    cluster().kubectl_stdin(&["apply", "-f", "-"], &policies.concat()).unwrap();
    let is_refused = || {
        let trial = ["delete", "secret", "held", "-n", site.namespace, "--dry-run=server"];
        Ok(cluster().kubectl(&trial).is_err())
    };
    cluster().wait_for("the policies to be enforced", Duration::from_secs(30), is_refused).unwrap();
    let shown = |run: &Run| {
        let pieces = ["unter2", "HVudGVyMg"];
        assert!(pieces.iter().all(|piece| !run.stdout.contains(piece) && !run.stderr.contains(piece)), "{run}");
        run.stdout.contains("denied request: the object holds values of Secrets")
    };

    std::fs::remove_file(site.tree.join("apps/secret.yaml")).unwrap();
    site.write("apps/map.yaml", &config_map("warned", "b").replace("a: b", "warned: '${password}'"));
    let run = site.plan(&["--max-percent=100"]);
    assert!(shown(&run) && rows(&run).contains_key("keep Secret/held"), "{run}");
    site.write("apps/map.yaml", &config_map("refused", "b").replace("a: b", "refused: '${password}'"));
    site.write("apps/secret.yaml", &secret.replace("name: held", "labels: {a: b}, name: held"));
    let run = site.plan(&[]);
    assert!(shown(&run) && outcome(&run, "apps").1 == "apply-refused", "{run}");
}

#[test]
fn failures_of_a_build_show_no_value() {
    let site = Site::new("masked-errors", &[("apps/db.yaml", &config_map("db", "a"))]);
    let rows = [
        ("no YAML", config_map("db", "${odd}"), "unknown", "manifest-unreadable"),
        (
            "built twice",
            config_map("db-${password}", "a") + "---\n" + &config_map("db-${password/x/y}", "b"),
            "blocked",
            "build-failed",
        ),
        ("unknown kind", config_map("db", "a").replace("ConfigMap", "Kind${password}"), "blocked", "apply-refused"),
        ("no namespace", config_map("db", "a").replace("NAMESPACE", "ns-${password}"), "blocked", "apply-refused"),
        ("refused name", config_map("db_${password}", "a"), "blocked", "apply-refused"),
    ];
    for (name, manifest, expected, code) in rows {
        site.write("apps/db.yaml", &manifest);
        let run = site.plan(&[]);
        assert_eq!(outcome(&run, "apps"), (expected.to_owned(), code.to_owned()), "{name}: {run}");
    }
    let child = kustomization(site.namespace, "child", "./${password}", "vars");
    site.write("apps/db.yaml", &child);
    let run = site.plan(&["--max-percent=100"]);
    assert_eq!((run.code, outcome(&run, "child").1), (5, "secret-in-spec".to_owned()), "{run}");
}

#[test]
fn values_do_not_pass_through_a_config_map_of_the_tree() {
    let variables = config_map("laundry", "a").replace("  a: a", "  name: ${password}");
    let site = Site::new("masked-laundry", &[("apps/vars.yaml", &variables)]);
    let child = kustomization(site.namespace, "child", "./child", "laundry").replace("Secret", "ConfigMap");
    site.write("apps/vars.yaml", &variables.replace("name: ${password}", "name: x-${password}"));
    site.write("apps/child.yaml", &child);
    site.write("child/map.yaml", &config_map("of-$${name}", "a").replace("$$", "$"));
    let run = site.plan(&[]);
    assert!(rows(&run).contains_key("create ConfigMap/of-??????????"), "{run}");
}

#[test]
fn a_secret_that_only_the_tree_names_is_never_read() {
    let site = Site::new("unread", &[("apps/db.yaml", &config_map("db", "a"))]);
    let requests = || cluster().requests_of("admin", "gitops").unwrap();
    let before = requests().len();
    site.write("apps/child.yaml", &kustomization(site.namespace, "child", "./child", "other"));
    site.write("child/map.yaml", &config_map("of-${password}", "a"));
    let run = site.plan(&[]);
    assert_eq!((run.code, outcome(&run, "child")), (5, ("unknown".to_owned(), "secret-not-read".to_owned())), "{run}");
    let message = "the tree names a Secret that no live Kustomization uses";
    assert!(run.stdout.contains(message) && run.stderr.contains(message), "{run}");
    // A decryption key and the kubeconfig of another cluster are never read.
    let keys = "  decryption: {provider: sops, secretRef: {name: other}}\n  kubeConfig: {secretRef: {name: other}}\n";
    site.write("apps/child.yaml", &(kustomization(site.namespace, "child", "./child", "vars") + keys));
    site.plan(&[]);
    let requests = requests().split_off(before);
    assert!(requests.iter().any(|request| request.uri.contains("/secrets/vars")), "{requests:?}");
    assert!(!requests.iter().any(|request| request.uri.contains("/secrets/other")), "{requests:?}");
}

#[test]
fn a_verified_build_writes_no_value_to_the_cache() {
    let site = Site::new("uncached", &[("apps/db.yaml", &config_map("db-${password}", "a"))]);
    let home = folder("uncached-home");
    let run = Run::of(
        command(&arguments(site.namespace, &site.tree, &[]).iter().map(String::as_str).collect::<Vec<_>>())
            .env("KUBECONFIG", cluster().kubeconfig())
            .env("XDG_CACHE_HOME", &home),
    );
    assert_eq!(document(&run)["owners"][0]["fidelity"], "verified", "{run}");
    assert!(std::fs::read_dir(&home).unwrap().next().is_some(), "the build without values is cached");
    assert_no_value_below(&home);
}

fn assert_no_value_below(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => assert_no_value_below(&path),
            false => assert!(!String::from_utf8_lossy(&std::fs::read(&path).unwrap()).contains(VALUE), "{path:?}"),
        }
    }
}
