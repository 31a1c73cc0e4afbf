use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::flux::spec::NamespacedName;
use crate::kubernetes::object::{ObjectId, ObjectMetadata, parse_time};
use crate::kubernetes::snapshot::ClusterIdentity;
use crate::plan::{Change, PinnedObject, ReasonCode};
use crate::testing::{self, Build, resource_type};

const NOW: &str = "2026-03-01T12:00:00Z";

fn snapshot(objects: Vec<ObjectMetadata>) -> Snapshot {
    let mut snapshot = Snapshot::new(parse_time(NOW).unwrap(), ClusterIdentity::default());
    snapshot.types.push(resource_type("helm.toolkit.fluxcd.io", "HelmRelease", "helmreleases", true));
    snapshot.objects = objects;
    snapshot
}

fn guard(users: &[&str]) -> Guard {
    let kinds: Vec<String> = KINDS.iter().filter(|kinds| kinds.is_default).map(|kinds| kinds.name.to_owned()).collect();
    Guard::new(&kinds, users.iter().map(|user| (*user).to_owned()).collect(), NAMESPACE, &snapshot(vec![]))
}

#[test]
fn accounts_of_controllers_and_of_their_owners_need_approvals() {
    let mut cluster = snapshot(vec![]);
    let owner = |group: &str, kind: &str, name: &str, spec: Value| {
        testing::object(group, kind, "shop", name).with_content(json!({ "spec": spec }))
    };
    let (ks, hr) = ("kustomize.toolkit.fluxcd.io", "helm.toolkit.fluxcd.io");
    cluster.resources = vec![
        owner(ks, "Kustomization", "a", json!({"serviceAccountName": "team"})),
        owner(ks, "Kustomization", "b", json!({})),
        owner(ks, "Kustomization", "far", json!({"serviceAccountName": "far", "kubeConfig": {}})),
        owner(hr, "HelmRelease", "c", json!({})),
        owner("example.com", "Kustomization", "d", json!({"serviceAccountName": "other"})),
    ];
    let controller = |name, default: Option<&str>| DeletingController {
        name,
        account: NamespacedName { namespace: "flux-system".to_owned(), name: name.to_owned() },
        default_account: default.map(str::to_owned),
    };
    let found =
        users(&[controller("kustomize-controller", None), controller("helm-controller", Some("low"))], &cluster);
    let expected = ["flux-system:helm-controller", "flux-system:kustomize-controller", "shop:low", "shop:team"];
    let expected: BTreeSet<String> = expected.map(|name| format!("system:serviceaccount:{name}")).into();
    assert_eq!(found, expected);
}

#[test]
fn a_policy_names_users_kinds_and_versions() {
    let manifests = guard(&["a", "b\"c"]).manifests();
    let names: Vec<&str> = manifests.iter().map(|manifest| manifest["metadata"]["name"].as_str().unwrap()).collect();
    let policies = ["-kinds", "-kinds-expiry", "-marked", "-marked-expiry"].map(|scope| format!("{NAME}{scope}"));
    assert_eq!(names[0], NAME);
    assert_eq!((&names[1..5], &names[5..]), (&policies.each_ref().map(String::as_str)[..], &names[1..5]));
    let spec = &manifests[1]["spec"];
    assert_eq!(spec["matchConditions"][0]["expression"], "request.userInfo.username in [\n  \"a\",\n  \"b\\\"c\"\n]");
    let rules = spec["matchConstraints"]["resourceRules"].as_array().unwrap();
    let rule = |plural: &str| rules.iter().find(|rule| rule["resources"][0] == plural).unwrap();
    assert_eq!(rule("helmreleases")["apiVersions"], json!(["v1"]), "as the cluster serves it");
    assert_eq!(rule("kustomizations")["apiVersions"], json!(["v1"]));
    assert!(rules.iter().all(|rule| rule["resources"][0] != "statefulsets"));
    let kept = |manifest: &Value| manifest["metadata"]["annotations"][PRUNE] == "disabled";
    assert!(manifests.iter().all(kept));
    let only_marked = Guard::new(&[], BTreeSet::new(), "flux-system", &snapshot(vec![])).manifests();
    assert_eq!((only_marked.len(), &only_marked[0]["metadata"]["namespace"]), (5, &json!("flux-system")));
}

#[test]
fn only_what_controllers_delete_here_is_approved() {
    let row = |name: &str, action, by| {
        let id = ObjectId::new("", "PersistentVolumeClaim", "shop", name);
        let object = PinnedObject { id, uid: format!("uid-{name}"), resource_version: "1".to_owned() };
        Change::new(action, object, None, by, ReasonCode::NotInBuild)
    };
    let mut plan = Plan::new(ClusterIdentity::default());
    let mut far = row("far", Action::Delete, Actor::KustomizeController);
    far.object.id.cluster = Some("spoke".into());
    plan.add_changes([
        row("a", Action::Delete, Actor::KustomizeController),
        row("b", Action::Recreate, Actor::HelmController),
        row("c", Action::Keep, Actor::KustomizeController),
        row("d", Action::Delete, Actor::NamespaceController),
        far,
    ]);
    let approved: Vec<String> = approvals(&plan).into_iter().map(|(uid, what)| format!("{uid} {what}")).collect();
    let claim = "persistentvolumeclaim";
    assert_eq!(approved, [format!("uid-a {claim}/a -n shop"), format!("uid-b {claim}/b -n shop")]);
}

#[test]
fn an_installed_guard_may_refuse_guarded_kinds_and_marked_objects() {
    let policy = testing::object(ADMISSION, POLICY, "", &format!("{NAME}-kinds"));
    let (plain, claim) =
        (testing::object("", "ConfigMap", "n", "a"), testing::object("", "PersistentVolumeClaim", "n", "a"));
    let guarded = snapshot(vec![policy]);
    assert!(may_refuse(&guarded, &claim) && may_refuse(&guarded, &plain.clone().label(MARK, "x")));
    assert!(!may_refuse(&guarded, &plain) && !may_refuse(&snapshot(vec![]), &claim));
    assert!(is_refusal(&format!("ValidatingAdmissionPolicy '{NAME}-kinds' with binding 'b' denied request: no")));
    let named = format!("roles \"ValidatingAdmissionPolicy '{NAME}-kinds' denied request\" is forbidden: no");
    assert!(!is_refusal(&named), "a name that holds these words");
}

#[test]
fn an_expression_says_what_an_approval_is() {
    let allows = |annotations: Value, data: Option<Value>, times: Option<&str>| {
        let old = json!({"metadata": {"uid": "u", "annotations": annotations}});
        let mut context = crate::expression::context();
        context.add_variable("oldObject", &old).unwrap();
        let parameters = match (&data, times) {
            (_, Some(time)) => json!({"spec": {"renewTime": time}}),
            (Some(data), None) => json!({"data": data}),
            (None, None) => json!({}),
        };
        context.add_variable("params", &parameters).unwrap();
        let check = if times.is_some() { expiry() } else { approval() };
        let parsed = crate::expression::parse(&check.expression).unwrap();
        let mut left = crate::expression::MAX_STEPS;
        let result = crate::expression::with_stack(|| parsed.evaluate(&context, &mut left));
        matches!(result, Ok(cel::Value::Bool(true)))
    };
    let until = |time: &str| json!({DELETION_APPROVED_UNTIL: time});
    assert!(!allows(json!({}), None, None) && !allows(json!({}), Some(json!({"other": ""})), None));
    assert!(allows(json!({}), Some(json!({"u": ""})), None));
    assert!(allows(until("2026-03-01T12:00:00Z"), None, None));
    assert!(!allows(until("true"), None, None) && !allows(until("2026-03-01T12:00:00+02:00"), None, None));
    for no_time in ["2026-13-01T12:00:00Z", "2026-03-32T12:00:00Z", "2026-03-01T24:00:00Z", "2026-03-01T12:60:00Z"] {
        assert!(
            !allows(until(no_time), None, None) && allows(until(no_time), Some(json!({"u": ""})), None),
            "{no_time}"
        );
    }
    let clock = Some("2026-03-01T12:00:00.123456Z");
    assert!(allows(json!({}), None, clock) && allows(until("true"), None, clock));
}

#[test]
fn findings_name_what_is_missing_different_or_over() {
    let wanted = guard(&["a", "b"]).manifests();
    let mut live = guard(&["a"]).manifests();
    live[1]["spec"]["matchConstraints"]["matchPolicy"] = json!("Equivalent");
    live[2]["status"]["typeChecking"]["expressionWarnings"] = json!([{"fieldRef": "spec.x", "warning": "undefined"}]);
    let pairs = |live: &[Value]| -> Vec<(Value, Option<Value>)> {
        wanted.iter().cloned().zip(live.iter().cloned().map(Some)).collect()
    };
    let found = installation_findings(&pairs(&live));
    assert_eq!(found.len(), 5, "four policies lack a user, and one has a warning: {found:?}");
    let lacks = format!(
        "ValidatingAdmissionPolicy {NAME}-kinds differs from what this cluster needs now (missing: \"b\"): apply it again"
    );
    assert_eq!(found[0], lacks);
    let extended = guard(&["a", "b", "c"]).manifests();
    assert!(installation_findings(&pairs(&extended))[0].contains(" (not needed: \"c\"): apply it again"));
    assert!(found[2].ends_with("the API server finds a mistake in spec.x: undefined"), "{found:?}");
    assert_eq!(installation_findings(&pairs(&wanted)), [""; 0]);
    let added = |at: usize, pointer: &str, field: &str, value: Value| {
        let mut live = wanted.clone();
        live[at].pointer_mut(pointer).unwrap()[field] = value;
        installation_findings(&pairs(&live)).len()
    };
    let elsewhere = json!({"matchLabels": {"guarded": "true"}});
    for (at, pointer, field, by_server, by_hand) in [
        (1, "/spec/matchConstraints", "namespaceSelector", json!({}), elsewhere.clone()),
        (1, "/spec/matchConstraints", "excludeResourceRules", json!({}), json!([{"resources": ["*"]}])),
        (1, "/spec/matchConstraints/resourceRules/0", "resourceNames", json!(null), json!(["one"])),
        (1, "/spec/matchConstraints/resourceRules/0", "scope", json!("*"), json!("Namespaced")),
        (5, "/spec", "matchResources", json!({}), json!({"namespaceSelector": elsewhere})),
    ] {
        let found = [by_server, by_hand].map(|value| added(at, pointer, field, value));
        assert_eq!(found, [0, 1], "{pointer}/{field}");
    }
    let missing = installation_findings(&[(wanted[1].clone(), None)]);
    assert_eq!(missing, [format!("ValidatingAdmissionPolicy {NAME}-kinds is not in the cluster")]);

    let claim = |name: &str| testing::object("", "PersistentVolumeClaim", "n", name);
    let cluster = snapshot(vec![
        claim("a").annotation(DELETION_APPROVED_UNTIL, "2026-03-01T11:00:00Z"),
        claim("b").annotation(DELETION_APPROVED_UNTIL, "2026-03-01T13:00:00Z"),
        claim("c").annotation(DELETION_APPROVED_UNTIL, "soon"),
        claim("d").annotation(DELETION_APPROVED_UNTIL, "2026-03-01T15:00:00+02:00"),
    ]);
    let map = json!({"data": {"gone": "", "uid:/PersistentVolumeClaim/n/b": ""}});
    let found = approval_findings(Some(&map), &cluster, parse_time(NOW).unwrap());
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found[0].ends_with("/a -n n ended at 2026-03-01T11:00:00Z") && found[1].contains("\"soon\""), "{found:?}");
    assert!(found[2].contains("is no time in UTC: \"2026-03-01T15:00:00+02:00\""), "{found:?}");
    assert!(found[3].ends_with("/b -n n, which still exists"), "{found:?}");
    let approvals = cluster.objects.iter().map(|claim| (claim.uid.to_string(), claim.id.to_string())).collect();
    let ended = approved_with_ended_annotations(&approvals, &cluster, parse_time(NOW).unwrap());
    assert_eq!(ended.iter().map(|id| &*id.name).collect::<Vec<_>>(), ["a"], "the policies read no other annotation");
}
