//! The example policy and its translation to Rego: Open Policy Agent denies what `--policy` denies.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use gitops_core::kubernetes::object::{ObjectId, ObjectMetadata};
use serde_json::{Value, json};
use test_support::folder::Folder;
use test_support::gitops::{Run, command};
use test_support::objects::{Build, identified, snapshot};
use xtask::controlplane;

const LABEL: &str = "example.com/may-be-deleted";

/// Denied rows by the message of their rule.
type Denials = BTreeMap<String, BTreeSet<String>>;

/// The example policy in both languages, for a job that runs on this day.
struct Policies {
    folder: Folder,
}

impl Policies {
    /// The rule for Fridays holds today.
    fn for_today(name: &str) -> Self {
        let folder = Folder::new(name);
        let today = chrono::Utc::now().format("%A").to_string();
        folder.write(
            "policy.yaml",
            include_str!("../../examples/policy.yaml").replace("'Friday'", &format!("'{today}'")),
        );
        let rego = include_str!("../../examples/policy.rego").replace("\"Friday\"", &format!("\"{today}\""));
        folder.write("policy.rego", rego);
        Self { folder }
    }

    /// Returns what `--policy` denies, and what OPA denies in the same plan.
    fn denials(&self, arguments: &[String], namespaces: &Value) -> (Denials, Denials) {
        let policy = self.folder.path().join("policy.yaml");
        let plan = Run::of(command(&["prune", "--plan", "-o", "json", "--policy"]).arg(policy).args(arguments));
        let document: Value = serde_json::from_str(&plan.stdout).unwrap_or_else(|_| panic!("no document: {plan}"));
        let alarms = document["alarms"].as_array().unwrap().iter().filter(|alarm| alarm["code"] == "denied");
        let denied = alarms.map(|alarm| by_rule(alarm["detail"].as_str().unwrap())).collect();
        (denied, self.opa(&plan.stdout, namespaces))
    }

    fn opa(&self, plan: &str, namespaces: &Value) -> Denials {
        controlplane::ensure(&["opa"]).unwrap();
        self.folder.write("plan.json", plan);
        self.folder.write("namespaces.json", namespaces.to_string());
        let output = Command::new(controlplane::bin("opa"))
            .args(["eval", "--fail-defined", "--strict", "-i", "plan.json", "-d", "policy.rego"])
            .args(["-d", "namespaces:namespaces.json", "-f", "raw", "data.main.deny[_]"])
            .current_dir(self.folder.path())
            .output()
            .unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let messages: Vec<&str> = printed.lines().filter(|line| !line.is_empty()).collect();
        let expected = i32::from(!messages.is_empty());
        assert_eq!(output.status.code(), Some(expected), "{}", String::from_utf8_lossy(&output.stderr));
        let mut denials = Denials::new();
        for message in messages {
            let (rule, row) = message.rsplit_once(": ").unwrap_or((message, ""));
            denials.entry(rule.to_owned()).or_default().insert(row.to_owned());
        }
        denials
    }
}

/// Splits the text of an alarm into the message of the rule and its rows.
fn by_rule(detail: &str) -> (String, BTreeSet<String>) {
    let message = detail.strip_prefix("denied by rule ").and_then(|rest| rest.split_once(": ")).unwrap().1;
    let (message, rows) = message.rsplit_once(": ").unwrap_or((message, ""));
    (message.to_owned(), rows.split(", ").map(str::to_owned).collect())
}

/// An object that kustomize-controller applied for flux-system/apps.
fn applied(id: ObjectId) -> ObjectMetadata {
    let owner =
        [("kustomize.toolkit.fluxcd.io/name", "apps"), ("kustomize.toolkit.fluxcd.io/namespace", "flux-system")];
    identified(id).applied_by("kustomize-controller", &owner)
}

#[test]
#[ignore = "cargo xtask examples"]
fn opa_denies_the_claims_and_namespaces_that_the_policy_denies() {
    let policies = Policies::for_today("policy-rego");
    let types =
        [("v1", "Namespace", "namespaces", false), ("v1", "PersistentVolumeClaim", "persistentvolumeclaims", true)];
    let mut cluster = snapshot(
        &types,
        vec![
            applied(ObjectId::new("", "PersistentVolumeClaim", "shop", "ledger")),
            applied(ObjectId::new("", "Namespace", "", "old")),
            applied(ObjectId::new("", "Namespace", "", "scratch")).label(LABEL, "true"),
        ],
    );
    let object = identified(ObjectId::new("kustomize.toolkit.fluxcd.io", "Kustomization", "flux-system", "apps"));
    cluster.objects.push(object.clone());
    let content = json!({"spec": {"prune": true}, "status": {"observedGeneration": 1, "inventory": {"entries": []},
        "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 1}]}});
    cluster.resources.push(object.with_content(content));
    cluster.normalise();
    let file = policies.folder.write("cluster.json", serde_json::to_vec(&cluster).unwrap());
    let namespaces = json!({"items": [{"metadata": {"name": "old", "labels": {}}}, {"metadata": {"name": "shop"}},
        {"metadata": {"name": "scratch", "labels": {LABEL: "true"}}}]});
    let arguments =
        [format!("--snapshot={}", file.display()), "--allow=namespaces,volumes".into(), "--max-percent=100".into()];
    let (policy, opa) = policies.denials(&arguments, &namespaces);
    assert_eq!(policy, opa);
    let denied: Vec<&str> = policy.values().flatten().map(String::as_str).collect();
    assert_eq!(denied, ["namespace/old", "persistentvolumeclaim/ledger -n shop"]);
}

#[test]
#[ignore = "cargo xtask examples"]
fn opa_denies_the_blocked_owners_that_the_policy_denies() {
    let policies = Policies::for_today("policy-rego-blocked");
    let tree = Folder::outside_checkouts("policy-rego-tree");
    let source = format!("--source=GitRepository/flux-system/shop={}", tree.path().display());
    let (policy, opa) = policies.denials(&["--snapshot=examples/shop.json.gz".into(), source], &json!({"items": []}));
    assert_eq!(policy, opa);
    assert_eq!(policy.values().map(BTreeSet::len).collect::<Vec<_>>(), [5]);
}

#[test]
#[ignore = "cargo xtask examples"]
fn opa_denies_nothing_where_the_policy_denies_nothing() {
    let policies = Policies::for_today("policy-rego-passes");
    let (policy, opa) = policies.denials(&["--snapshot=examples/shop.json.gz".into()], &json!({"items": []}));
    assert_eq!((policy, opa), (Denials::new(), Denials::new()));
}
