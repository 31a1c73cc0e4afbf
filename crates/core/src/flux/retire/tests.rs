//! The order of a removal, and what prevents one.

use std::collections::BTreeSet;

use serde_json::json;

use super::{DefaultAccounts, NoOrder, Retirement, Way, order};
use crate::flux::handover::HandoverStep;
use crate::kubernetes::object::{ObjectId, ObjectMetadata, Resource, ResourceType};
use crate::kubernetes::references::{StillReferenced, User};
use crate::kubernetes::referrer::{Reference, Referrer, Usage};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND};
use crate::ownership::schemes::{flux_helmrelease as releases, flux_operator as operator};
use crate::plan::{Action, Actor, Certainty, Change, Plan, ReasonCode};
use crate::testing::{self, Build, kustomization, object, resource_type};

const DEFINITIONS: &str = "apiextensions.k8s.io";

fn ks(name: &str) -> ObjectId {
    ObjectId::new(GROUP, KIND, "flux-system", name)
}

/// A cluster with these objects and owners.
fn snapshot(objects: Vec<ObjectMetadata>, owners: Vec<Resource>) -> Snapshot {
    let all = objects.into_iter().chain(owners.iter().map(|owner| owner.object.clone()));
    testing::snapshot(all.collect(), owners)
}

fn widget() -> ObjectMetadata {
    let mut widget = object("example.com", "Widget", "shop", "w");
    widget.finalizers = vec!["example.com/cleanup".into()];
    widget
}

const WIDGET: &str = "shop_w_example.com_Widget";
const DEFINITION: &str = "_widgets.example.com_apiextensions.k8s.io_CustomResourceDefinition";
const DEPLOYMENT: &str = "shop_operator_apps_Deployment";

/// A cluster with a widget, its definition and its controller, and these Kustomizations.
fn cluster(owners: Vec<Resource>) -> Snapshot {
    let definition = object(DEFINITIONS, "CustomResourceDefinition", "", "widgets.example.com")
        .label("kustomize.toolkit.fluxcd.io/name", "operator")
        .label("kustomize.toolkit.fluxcd.io/namespace", "flux-system");
    let objects = vec![widget(), definition, object("apps", "Deployment", "shop", "operator")];
    let mut snapshot = snapshot(objects, owners);
    snapshot.types.push(resource_type("example.com", "Widget", "widgets", true));
    snapshot
}

fn steps(targets: &[ObjectId], snapshot: &Snapshot) -> Result<Vec<Vec<String>>, String> {
    steps_with(targets, snapshot, &[], &[])
}

fn steps_with(
    targets: &[ObjectId],
    snapshot: &Snapshot,
    referrers: &[Referrer],
    served: &[&str],
) -> Result<Vec<Vec<String>>, String> {
    let served: BTreeSet<String> = served.iter().map(|finalizer| (*finalizer).to_owned()).collect();
    let found = order(&targets.iter().cloned().collect(), snapshot, referrers, &served, &DefaultAccounts::new());
    let found = found.map_err(|NoOrder { object, rule, .. }| format!("{object}: {rule}"))?;
    let names = found.steps.iter().map(|step| {
        let names = step.iter().flat_map(|unit| {
            let by_hand = if unit.way == Way::ByHand { " by hand" } else { "" };
            unit.removes.iter().map(move |id| format!("{}{by_hand}", id.name))
        });
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    });
    Ok(names.collect())
}

#[test]
fn resources_go_before_the_controller_that_serves_their_finalizers() {
    let apart = cluster(vec![kustomization("apps", &[WIDGET]), kustomization("operator", &[DEFINITION, DEPLOYMENT])]);
    let both = [ks("apps"), ks("operator")];
    assert_eq!(steps(&both, &apart).unwrap(), [["apps by hand"], ["operator by hand"]]);
    let refused = steps(&both[1..], &apart).unwrap_err();
    assert!(
        refused.contains("widget.example.com/w -n shop: kustomization/apps -n flux-system, which stays"),
        "{refused}"
    );
    let together = cluster(vec![kustomization("all", &[WIDGET, DEFINITION, DEPLOYMENT])]);
    assert_eq!(steps(&[ks("all")], &together).unwrap(), [["w"], ["all by hand"]], "the widget leaves Git first");
    let by_hand = cluster(vec![kustomization("operator", &[DEFINITION, DEPLOYMENT])]);
    assert_eq!(steps(&[ks("operator")], &by_hand).unwrap(), [["w by hand"], ["operator by hand"]], "nobody manages it");
}

#[test]
fn what_nobody_manages_is_a_stranger_also_where_it_is_deleted_by_hand() {
    let by_hand = cluster(vec![kustomization("operator", &[DEFINITION, DEPLOYMENT])]);
    let strangers = |targets: &[ObjectId], snapshot: &Snapshot, deleted: &ObjectMetadata| -> Vec<String> {
        let found = order(&targets.iter().cloned().collect(), snapshot, &[], &BTreeSet::new(), &DefaultAccounts::new())
            .unwrap();
        let mut plan = Plan::default();
        plan.add_changes([Change::new(Action::Delete, deleted, None, Actor::User, ReasonCode::DeletedByHand)]);
        let found = found.strangers(&plan.into(), snapshot);
        found.iter().map(|(object, cause)| format!("{object}, {cause}")).collect()
    };
    let definition = "customresourcedefinition.apiextensions.k8s.io/widgets.example.com";
    let expected = [format!("widget.example.com/w -n shop, {definition}")];
    assert_eq!(strangers(&[ks("operator")], &by_hand, &widget()), expected);
    let owner = by_hand.object(&ks("operator")).unwrap();
    assert_eq!(strangers(&[ks("operator")], &by_hand, owner), [""; 0], "it was named");
}

#[test]
fn a_list_that_a_tenant_writes_deletes_no_resources_of_a_definition_by_hand() {
    let forged = |own: bool| {
        let mut tenant = kustomization("mine", &[DEFINITION, DEPLOYMENT]);
        tenant.object.id.namespace = "tenant".into();
        let owners =
            if own { vec![tenant, kustomization("operator", &[DEFINITION, DEPLOYMENT])] } else { vec![tenant] };
        cluster(owners)
    };
    let mine = ObjectId::new(GROUP, KIND, "tenant", "mine");
    let refused = steps(std::slice::from_ref(&mine), &forged(false)).unwrap_err();
    assert!(
        refused.contains("widgets.example.com: kustomization/mine -n tenant lists it, but its labels"),
        "{refused}"
    );
    let both = [mine, ks("operator")];
    assert_eq!(steps(&both, &forged(true)).unwrap()[0], ["w by hand"], "its own owner is removed too");
}

#[test]
fn what_a_mark_is_to_keep_goes_with_its_namespace_only_if_that_is_confirmed() {
    let namespace = object("", "Namespace", "", "shop");
    let marked = |mark: Option<(&str, &str)>| ObjectMetadata {
        annotations: mark.into_iter().collect(),
        ..object("", "ConfigMap", "shop", "a")
    };
    let strangers = |map: ObjectMetadata| -> Vec<String> {
        let owner = kustomization("web", &["_shop__Namespace", "shop_a__ConfigMap"]);
        let state = snapshot(vec![namespace.clone(), map.clone()], vec![owner]);
        let found =
            order(&BTreeSet::from([ks("web")]), &state, &[], &BTreeSet::new(), &DefaultAccounts::new()).unwrap();
        let row = Change::new(Action::Delete, &map, None, Actor::NamespaceController, ReasonCode::InNamespace);
        let mut plan = Plan::default();
        plan.add_changes([Change { cause: Some(namespace.id.clone()), ..row }]);
        found.strangers(&plan.into(), &state).iter().map(|(object, cause)| format!("{object}, {cause}")).collect()
    };
    let mark = Some(("kustomize.toolkit.fluxcd.io/prune", "disabled"));
    assert_eq!(strangers(marked(mark)), ["configmap/a -n shop, namespace/shop"]);
    assert_eq!(strangers(marked(None)), [""; 0], "it was named with its owner");
}

#[test]
fn a_finalizer_that_nobody_serves_prevents_every_order() {
    let unserved = cluster(vec![kustomization("apps", &[WIDGET]), kustomization("crds", &[DEFINITION])]);
    let refused = steps(&[ks("apps")], &unserved).unwrap_err();
    assert!(refused.contains("w -n shop: it has the finalizer example.com/cleanup, and no workload"), "{refused}");
    assert_eq!(steps_with(&[ks("apps")], &unserved, &[], &["example.com/cleanup"]).unwrap(), [["apps by hand"]]);
}

#[test]
fn owners_go_after_what_they_own_and_what_depends_on_them() {
    let child = "flux-system_web_kustomize.toolkit.fluxcd.io_Kustomization";
    let other = "flux-system_db_kustomize.toolkit.fluxcd.io_Kustomization";
    let mut web = kustomization("web", &[]);
    web.content["spec"]["dependsOn"] = json!([{"name": "db"}]);
    let tree = snapshot(vec![], vec![kustomization("root", &[child, other]), web, kustomization("db", &[])]);
    assert_eq!(steps(&[ks("root")], &tree).unwrap(), [vec!["web"], vec!["db"], vec!["root by hand"]]);
    assert_eq!(steps(&[ks("web")], &tree).unwrap(), [["web"]]);
}

#[test]
fn a_list_that_a_tenant_writes_removes_no_owner_elsewhere() {
    let listed = "shop_victim_kustomize.toolkit.fluxcd.io_Kustomization";
    let tenant = Resource {
        object: object(GROUP, KIND, "tenant", "mine"),
        content: json!({"spec": {"prune": false}, "status": {"inventory": {"entries": [{"id": listed, "v": "v1"}]}}}),
    };
    let victim = |named: &ObjectMetadata| Resource { object: named.clone(), content: json!({"spec": {}}) };
    let id = ObjectId::new(GROUP, KIND, "shop", "victim");
    let plain = object(GROUP, KIND, "shop", "victim");
    let namespace = object("", "Namespace", "", "tenant");
    for targets in [vec![tenant.object.id.clone()], vec![namespace.id.clone()]] {
        let forged = snapshot(vec![namespace.clone()], vec![tenant.clone(), victim(&plain)]);
        let refused = steps(&targets, &forged).unwrap_err();
        assert!(refused.contains("/victim -n shop: kustomization/mine -n tenant lists it"), "{refused}");
        let named = [&targets[..], std::slice::from_ref(&id)].concat();
        assert!(steps(&named, &forged).unwrap().concat().contains(&"victim".to_owned()), "it is named");
        let own = plain
            .clone()
            .label("kustomize.toolkit.fluxcd.io/name", "mine")
            .label("kustomize.toolkit.fluxcd.io/namespace", "tenant");
        let applied = snapshot(vec![namespace.clone()], vec![tenant.clone(), victim(&own)]);
        assert!(steps(&targets, &applied).unwrap().concat().contains(&"victim".to_owned()), "it is its own");
    }
}

#[test]
fn owners_that_list_each_other_have_no_order() {
    let group = "fluxcd.controlplane.io";
    let set = |name: &str, other: &str| {
        let entry = json!({"id": format!("tenant_{other}_{group}_ResourceSet"), "v": "v1"});
        object(group, "ResourceSet", "tenant", name)
            .with_content(json!({"spec": {}, "status": {"inventory": {"entries": [entry]}}}))
    };
    let namespace = object("", "Namespace", "", "tenant");
    let circle = snapshot(vec![namespace.clone()], vec![set("a", "b"), set("b", "a"), set("c", "a")]);
    let refused = steps(&[namespace.id], &circle).unwrap_err();
    assert!(refused.contains("it is in a circle of owners that list each other"), "{refused}");
}

#[test]
fn a_namespace_goes_last_and_a_webhook_before_the_service_that_it_calls() {
    let namespace = ObjectId::new("", "Namespace", "", "shop");
    let objects = || {
        vec![
            object("", "Namespace", "", "shop"),
            object("", "ConfigMap", "shop", "a"),
            object("", "Service", "shop", "s"),
        ]
    };
    let apart = snapshot(
        objects(),
        vec![
            kustomization("base", &["_shop__Namespace", "shop_s__Service"]),
            kustomization("web", &["shop_a__ConfigMap"]),
        ],
    );
    assert_eq!(steps(&[ks("base"), ks("web")], &apart).unwrap(), [["web by hand"], ["base by hand"]]);
    let refused = steps(&[ks("base")], &apart).unwrap_err();
    assert!(refused.starts_with("configmap/a -n shop: kustomization/web -n flux-system, which stays"), "{refused}");
    let found = steps(std::slice::from_ref(&namespace), &apart).unwrap();
    assert_eq!(found, [vec!["a", "s"], vec!["shop"]], "objects leave the Kustomizations that stay");
    let hooks = object("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", "", "hooks");
    let reference = Reference { to: ObjectId::new("", "Service", "shop", "s"), usage: Usage::Calls };
    let calling = Referrer { references: vec![reference], ..referrer(&hooks.id) };
    let id = "_hooks_admissionregistration.k8s.io_ValidatingWebhookConfiguration";
    let owners = vec![kustomization("hooks", &[id]), kustomization("service", &["shop_s__Service"])];
    let called = snapshot([objects(), vec![hooks]].concat(), owners);
    let both = [ks("hooks"), ks("service")];
    assert_eq!(steps_with(&both, &called, &[calling], &[]).unwrap(), [["hooks by hand"], ["service by hand"]]);
}

/// A referrer without references.
fn referrer(object: &ObjectId) -> Referrer {
    let (references, makes, kept_claims) = (vec![], vec![], vec![]);
    let (selector, pod_labels, is_scheduled, expires) = (None, Default::default(), false, false);
    Referrer { object: object.clone(), references, makes, selector, pod_labels, is_scheduled, expires, kept_claims }
}

#[test]
fn a_webhook_is_answered_until_it_goes() {
    let hooks = object("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", "", "hooks");
    let [service, run, beside] =
        [("", "Service", "s"), ("apps", "Deployment", "run"), ("apps", "Deployment", "beside")]
            .map(|(group, kind, name)| object(group, kind, "shop", name));
    let calls = vec![Reference { to: service.id.clone(), usage: Usage::Calls }];
    let labels = |name: &str| [("app", name)].into_iter().collect();
    let referrers = [
        Referrer { references: calls, ..referrer(&hooks.id) },
        Referrer { selector: Some("app=hooks".into()), ..referrer(&service.id) },
        Referrer { pod_labels: labels("hooks"), ..referrer(&run.id) },
        Referrer { pod_labels: labels("web"), ..referrer(&beside.id) },
    ];
    let owners = vec![
        kustomization("hooks", &["_hooks_admissionregistration.k8s.io_ValidatingWebhookConfiguration"]),
        kustomization("run", &["shop_run_apps_Deployment"]),
        kustomization("beside", &["shop_beside_apps_Deployment"]),
    ];
    let state = snapshot(vec![hooks.clone(), service.clone(), run.clone(), beside], owners);
    let all = ["hooks", "run", "beside"].map(ks);
    let found = steps_with(&all, &state, &referrers, &[]).unwrap();
    assert_eq!(found, [vec!["beside by hand", "hooks by hand"], vec!["run by hand"]]);

    let judged = |after: &Snapshot| {
        let found = order(&[ks("run")].into(), &state, &referrers, &BTreeSet::new(), &DefaultAccounts::new()).unwrap();
        found
            .judge(&[], &Plan::default().into(), &state, after)
            .map_err(|NoOrder { object, rule, .. }| format!("{object}: {rule}"))
    };
    let refused = judged(&snapshot(vec![hooks, service], vec![])).unwrap_err();
    assert!(refused.starts_with("deployment.apps/run -n shop: validatingwebhookconfiguration"), "{refused}");
    assert!(refused.ends_with("which stays, calls service/s -n shop, and no other workload answers"), "{refused}");
    assert_eq!(judged(&snapshot(vec![], vec![])), Ok(()), "it goes too");
    assert_eq!(judged(&state), Ok(()));
}

#[test]
fn a_suspended_owner_is_refused_and_one_that_orphans_is_known() {
    let mut held = kustomization("held", &[]);
    held.content["spec"] = json!({"prune": true, "deletionPolicy": "Orphan"});
    let targets = BTreeSet::from([ks("held")]);
    let found =
        order(&targets, &snapshot(vec![], vec![held.clone()]), &[], &BTreeSet::new(), &DefaultAccounts::new()).unwrap();
    assert_eq!(found.keeping, targets);
    held.content["spec"]["suspend"] = true.into();
    let refused = steps(&[ks("held")], &snapshot(vec![], vec![held])).unwrap_err();
    assert!(refused.contains("it is suspended"), "{refused}");
    let (mut root, child) = (
        kustomization("root", &["flux-system_web_kustomize.toolkit.fluxcd.io_Kustomization"]),
        kustomization("web", &[]),
    );
    root.content["spec"] = json!({"prune": true, "suspend": true});
    let refused = steps(&[ks("web")], &snapshot(vec![], vec![root, child])).unwrap_err();
    assert!(refused.contains("/root -n flux-system is suspended, and removes nothing that leaves Git"), "{refused}");
}

#[test]
fn a_source_that_only_a_removed_owner_uses_is_named() {
    let source = |name: &str| object("source.toolkit.fluxcd.io", "GitRepository", "flux-system", name);
    let of = |name: &str, source: &str| {
        let mut owner = kustomization(name, &[]);
        owner.content["spec"]["sourceRef"] = json!({"kind": "GitRepository", "name": source});
        owner
    };
    let owners = || vec![of("web", "own"), of("base", "shared"), of("cart", "shared")];
    let first = snapshot(vec![source("own"), source("shared")], owners());
    let last = snapshot(vec![source("own"), source("shared")], vec![of("base", "shared")]);
    assert_eq!(super::unused_sources(&first, &last), [source("own").id]);
}

#[test]
fn an_owner_that_stays_without_objects_is_named() {
    let map = |name: &str| object("", "ConfigMap", "shop", name);
    let (a, b) = ("shop_a__ConfigMap", "shop_b__ConfigMap");
    let own = "flux-system_self_kustomize.toolkit.fluxcd.io_Kustomization";
    let owners = |web: &[&str]| vec![kustomization("web", web), kustomization("none", &["shop_c__ConfigMap"])];
    let first = || snapshot(vec![map("a"), map("b")], [owners(&[a]), vec![kustomization("self", &[own, b])]].concat());
    let emptied = |last: &Snapshot| -> Vec<String> {
        super::emptied_owners(&first(), last).iter().map(|owner| owner.name.to_string()).collect()
    };
    let alone = || kustomization("self", &[own]);
    assert_eq!(emptied(&snapshot(vec![], [owners(&[]), vec![alone()]].concat())), ["self", "web"]);
    assert_eq!(
        emptied(&snapshot(vec![map("a")], [owners(&[a]), vec![alone()]].concat())),
        ["self"],
        "one has an object"
    );
    assert!(emptied(&snapshot(vec![], vec![])).is_empty(), "they do not stay");
}

#[test]
fn the_reclaim_policy_decides_about_the_data_of_a_claim() {
    let claim = object("", "PersistentVolumeClaim", "shop", "data");
    let volume = |policy: &str| {
        let uid = &claim.uid;
        let spec = json!({"persistentVolumeReclaimPolicy": policy, "csi": {},
            "claimRef": {"namespace": "shop", "name": "data", "uid": uid}});
        object("", "PersistentVolume", "", "pv").with_content(json!({ "spec": spec }))
    };
    let fate = |volumes: Vec<Resource>, types: Vec<ResourceType>| {
        let copy = object("snapshot.storage.k8s.io", "VolumeSnapshot", "shop", "daily");
        let mut state = snapshot(vec![claim.clone(), copy], volumes);
        state.types = types;
        let mut plan = Plan::default();
        plan.add_changes([Change::new(Action::Delete, &claim, None, Actor::User, ReasonCode::DeletedByHand)]);
        let fates = super::fates(&plan.into(), &state, 2);
        assert!(fates.iter().all(|fate| (fate.step, fate.snapshots.len()) == (2, 1)));
        fates.iter().map(|fate| (fate.loses_data, fate.volume.is_some())).collect::<Vec<_>>()
    };
    let read = || vec![resource_type("", "PersistentVolume", "persistentvolumes", false)];
    assert_eq!(fate(vec![volume("Delete")], read()), [(true, true)]);
    assert_eq!(fate(vec![volume("Retain")], read()), [(false, true)]);
    assert_eq!(fate(vec![], read()), [], "it is not bound");
    assert_eq!(fate(vec![], vec![]), [(true, false)], "volumes were not read");
}

#[test]
fn a_snapshot_that_goes_with_its_claim_is_no_copy() {
    let copy = |name: &str| object("snapshot.storage.k8s.io", "VolumeSnapshot", "shop", name);
    let claim = object("", "PersistentVolumeClaim", "shop", "data");
    let state = snapshot(vec![claim.clone(), copy("daily"), copy("other")], vec![]);
    let mut plan = Plan::default();
    let row =
        |object: &ObjectMetadata| Change::new(Action::Delete, object, None, Actor::User, ReasonCode::DeletedByHand);
    plan.add_changes([row(&claim), row(&copy("daily"))]);
    let (title, way_back) = (String::new(), String::new());
    let (patches, commands, notes, done_when) = (vec![], vec![], vec![], vec![]);
    let plan = plan.into();
    let step = HandoverStep { number: 1, title, patches, plan, commands, notes, done_when, way_back };
    let data = super::fates(&step.plan, &state, 1);
    let retirement = Retirement::new(&Default::default(), data, vec![step], (&state, &state), &[]);
    let [fate] = &retirement.data[..] else { panic!("one claim") };
    assert_eq!((&fate.snapshots, &fate.deleted_snapshots), (&vec![copy("other").id], &vec![copy("daily").id]));
}

const RBAC: &str = "rbac.authorization.k8s.io";

/// An owner of this kind in namespace shop, which acts as the service account `bot` there.
fn acting(group: &str, kind: &str) -> Resource {
    let entries = [json!({"id": "shop_a__ConfigMap", "v": "v1"})];
    object(group, kind, "shop", "web")
        .with_content(json!({"spec": {"serviceAccountName": "bot"}, "status": {"inventory": {"entries": entries}}}))
}

/// The namespace shop with this owner, its account and a binding, all of which one Kustomization applies.
fn tenant(owner: Resource) -> Snapshot {
    let objects = vec![
        object("", "Namespace", "", "shop"),
        object("", "ConfigMap", "shop", "a"),
        object("", "ServiceAccount", "shop", "bot"),
        object(RBAC, "RoleBinding", "shop", "bot"),
    ];
    let id = format!("shop_web_{}_{}", owner.object.id.group, owner.object.id.kind);
    let ids = ["_shop__Namespace", "shop_bot__ServiceAccount", "shop_bot_rbac.authorization.k8s.io_RoleBinding", &id];
    snapshot(objects, vec![kustomization("team", &ids), owner])
}

#[test]
fn an_owner_goes_before_the_account_as_which_it_deletes() {
    let namespace = ObjectId::new("", "Namespace", "", "shop");
    for (group, kind) in [(releases::GROUP, releases::KIND), (operator::GROUP, "ResourceSet"), (GROUP, KIND)] {
        let found = steps(std::slice::from_ref(&namespace), &tenant(acting(group, kind))).unwrap();
        assert_eq!(found, [vec!["web"], vec!["bot", "bot"], vec!["shop"]], "{kind}");
    }
    let account = "flux-system_bot__ServiceAccount";
    let owners = vec![kustomization("rbac", &[account]), kustomization("web", &[])];
    let unnamed = snapshot(vec![object("", "ServiceAccount", "flux-system", "bot")], owners);
    let both = BTreeSet::from([ks("rbac"), ks("web")]);
    for (accounts, expected) in [(vec![], 1), (vec![(KIND.to_owned(), "bot".to_owned())], 2)] {
        let found = order(&both, &unnamed, &[], &BTreeSet::new(), &accounts.into_iter().collect()).unwrap();
        assert_eq!(found.steps.len(), expected);
    }
    let mut remote = acting(releases::GROUP, releases::KIND);
    remote.content["spec"]["kubeConfig"] = json!({"secretRef": {"name": "edge"}});
    let mut other = tenant(remote);
    let edge = kustomization("edge", &["shop_edge__Secret"]);
    other.objects.extend([object("", "Secret", "shop", "edge"), edge.object.clone()]);
    other.resources.push(edge);
    other.normalise();
    let both = [ObjectId::new(releases::GROUP, releases::KIND, "shop", "web"), ks("edge")];
    assert_eq!(steps(&both, &other).unwrap(), [["web"], ["edge by hand"]], "its kubeconfig is needed");
}

#[test]
fn an_owner_goes_before_the_bindings_that_may_give_its_account_rights() {
    let of_account = |name: &str, ids: &[&str]| {
        let mut owner = kustomization(name, ids);
        owner.content["spec"]["serviceAccountName"] = json!("bot");
        owner
    };
    let map = "shop_a__ConfigMap";
    let binding = |name: &str| format!("shop_{name}_{RBAC}_RoleBinding");
    let bound = |name: &str| object(RBAC, "RoleBinding", "shop", name);
    let objects = vec![object("", "ConfigMap", "shop", "a"), bound("a"), bound("b")];
    let state = |owners: Vec<Resource>| snapshot(objects.clone(), owners);
    let apart = state(vec![of_account("apps", &[map]), kustomization("rbac", &[&binding("a")])]);
    assert_eq!(steps(&[ks("apps"), ks("rbac")], &apart).unwrap(), [["apps by hand"], ["rbac by hand"]]);
    let elsewhere = state(vec![of_account("apps", &["other_a__ConfigMap"]), kustomization("rbac", &[&binding("a")])]);
    assert_eq!(steps(&[ks("apps"), ks("rbac")], &elsewhere).unwrap().len(), 1, "its objects are in another namespace");
    let both = state(vec![of_account("a", &[map, &binding("a")]), of_account("b", &[map, &binding("b")])]);
    assert_eq!(steps(&[ks("a"), ks("b")], &both).unwrap().len(), 2, "each may need the other");
}

/// Returns why these rows refuse the removal of the owners, with the hint.
fn refusal(targets: &[ObjectId], state: &Snapshot, rows: Vec<Change>) -> Option<(String, Option<String>)> {
    let found = order(&targets.iter().cloned().collect(), state, &[], &BTreeSet::new(), &DefaultAccounts::new());
    let mut plan = Plan::default();
    plan.add_changes(rows);
    let judged = found.unwrap().judge(&[], &plan.into(), state, &snapshot(vec![], vec![]));
    judged.err().map(|NoOrder { object, rule, hint }| (format!("{object}: {rule}"), hint))
}

#[test]
fn an_owner_that_stays_and_needs_what_goes_is_refused() {
    let account = object("", "ServiceAccount", "flux-system", "deployer");
    let mut web = kustomization("web", &[]);
    web.content["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    let state = snapshot(vec![account.clone()], vec![kustomization("rbac", &[]), web]);
    let judged = |targets: &[ObjectId], user: ObjectId| {
        let targets = targets.iter().cloned().collect();
        let found = order(&targets, &state, &[], &BTreeSet::new(), &DefaultAccounts::new()).unwrap();
        let mut plan = Plan::default();
        let users = vec![User { object: user, usage: Usage::RunsAs }];
        plan.set_still_referenced(vec![StillReferenced { object: account.id.clone(), users, kept_by: None }]);
        let judged = found.judge(&[], &plan.into(), &state, &state);
        judged.map_err(|NoOrder { object, rule, .. }| format!("{object}: {rule}"))
    };
    let refused = judged(&[ks("rbac")], ks("web")).unwrap_err();
    let rule =
        "/web -n flux-system: it stays, and needs serviceaccount/deployer -n flux-system, which the step deletes";
    assert!(refused.ends_with(rule), "{refused}");
    assert_eq!(judged(&[ks("rbac"), ks("web")], ks("web")), Ok(()), "it goes too");
    assert_eq!(judged(&[ks("rbac")], ks("rbac")), Ok(()));
    let pod = ObjectId::new("", "Pod", "flux-system", "web");
    assert_eq!(judged(&[ks("rbac")], pod), Ok(()), "that is an alarm");
}

#[test]
fn an_object_that_may_stay_is_refused_unless_no_order_changes_that() {
    let release = acting(releases::GROUP, releases::KIND);
    let id = release.object.id.clone();
    let state = tenant(release);
    let row = |cause: Option<&ObjectId>, code, group: &str, kind: &str, name: &str| {
        let live = state.object(&ObjectId::new(group, kind, "shop", name)).unwrap();
        Change { cause: cause.cloned(), ..Change::new(Action::Delete, live, None, Actor::HelmController, code) }
    };
    let racing = |code| Change { certainty: Certainty::Race, ..row(Some(&id), code, "", "ConfigMap", "a") };
    let account = || row(None, ReasonCode::NotInBuild, "", "ServiceAccount", "bot");
    let refused = |rows| refusal(&[id.namespace_object()], &state, rows).map(|(rule, _)| rule);
    let with_account = refused(vec![racing(ReasonCode::Uninstalled), account()]).unwrap();
    assert!(with_account.starts_with("configmap/a -n shop: it may stay: uninstalled"), "{with_account}");
    assert_eq!(refused(vec![racing(ReasonCode::Uninstalled)]), None, "a hook can fail in every order");
    assert!(refused(vec![racing(ReasonCode::NotInBuild)]).is_some());
}

#[test]
fn an_object_that_an_owner_applies_that_stays_is_refused_with_that_owner() {
    let id = "shop_a__ConfigMap";
    let map = object("", "ConfigMap", "shop", "a");
    let state = snapshot(vec![map.clone()], vec![kustomization("web", &[id]), kustomization("other", &[id])]);
    let row = Change::new(Action::Recreate, &map, None, Actor::KustomizeController, ReasonCode::OwnerDeleted);
    let (rule, hint) = refusal(&[ks("web")], &state, vec![row]).unwrap();
    assert_eq!(rule, "configmap/a -n shop: kustomization/other -n flux-system, which stays, applies it too");
    assert!(hint.unwrap().starts_with("retire flux-system/kustomization/other too"));
}

#[test]
fn claims_of_a_set_without_pods_are_left_over() {
    let set = |name: &str| object("apps", "StatefulSet", "shop", name);
    let claim = |name: &str| object("", "PersistentVolumeClaim", "shop", name);
    let claims = || vec![claim("data-db-0"), claim("data-my-db-0"), claim("data-web-0")];
    let owner = kustomization("web", &["shop_db_apps_StatefulSet"]);
    let first = snapshot([vec![set("db"), set("my-db")], claims()].concat(), vec![owner]);
    let last = snapshot([vec![set("my-db")], claims()].concat(), vec![]);
    let found = order(&BTreeSet::from([ks("web")]), &first, &[], &BTreeSet::new(), &DefaultAccounts::new()).unwrap();
    assert_eq!(found.left_over(&first, &last), [claim("data-db-0").id]);
}

#[test]
fn what_a_removed_owner_never_recorded_is_left_over() {
    let leaked = |name: &str| {
        let labels =
            [("kustomize.toolkit.fluxcd.io/name", name), ("kustomize.toolkit.fluxcd.io/namespace", "flux-system")];
        let manager = testing::owner_of("kustomize-controller", true, 0, &[]);
        ObjectMetadata {
            labels: labels.into_iter().collect(),
            managed_fields: vec![manager],
            ..object("", "ConfigMap", "shop", name)
        }
    };
    let objects = || vec![leaked("web"), leaked("other")];
    let first = snapshot(objects(), vec![kustomization("web", &[]), kustomization("other", &[])]);
    let last = snapshot(objects(), vec![kustomization("other", &[])]);
    let found = order(&BTreeSet::from([ks("web")]), &first, &[], &BTreeSet::new(), &DefaultAccounts::new()).unwrap();
    assert_eq!(found.left_over(&first, &last), [leaked("web").id]);
}

#[test]
fn a_circle_is_told_with_its_objects_and_rules() {
    let mut operator = kustomization("operator", &[DEFINITION, DEPLOYMENT]);
    operator.content["spec"]["dependsOn"] = json!([{"name": "apps"}]);
    let refused = steps(&[ks("apps"), ks("operator")], &cluster(vec![kustomization("apps", &[WIDGET]), operator]));
    let [apps, operator] = ["apps", "operator"].map(ks);
    assert_eq!(
        refused.unwrap_err(),
        format!(
            "{operator}: no order is possible: {operator} must be gone before {apps}, because it needs the other; {apps} must be \
             gone before {operator}, because {} has a finalizer that is served there",
            widget().id
        )
    );
}
