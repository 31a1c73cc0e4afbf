//! The safety rules for what this tool deletes (rules 1 to 6 of the design), each with the smallest cluster that shows
//! it. A rule that is taken out turns its test red.

use chrono::DateTime;
use gitops_core::kubernetes::gap::{Gap, GapKind};
use gitops_core::kubernetes::object::{ObjectId, ObjectMetadata, OwnerReference, Resource};
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::ownership::index::Index;
use gitops_core::plan::grave::{AllowedKinds, GraveKind};
use gitops_core::plan::limits;
use gitops_core::plan::limits::{Base, Limits};
use gitops_core::plan::{Action, Plan};
use gitops_core::prune::leaked;
use gitops_core::prune::leaked::PruneOptions;
use gitops_core::testing::resource_type;
use serde_json::{Value, json};
use test_support::objects::{Build, identified, snapshot};

const NAME: &str = "kustomize.toolkit.fluxcd.io/name";
const NAMESPACE: &str = "kustomize.toolkit.fluxcd.io/namespace";

/// A cluster with one Kustomization `flux-system/apps`, Ready, that lists `listed` ConfigMaps in namespace shop.
fn cluster(listed: usize) -> Snapshot {
    let types = [
        ("v1", "Namespace", "namespaces", false),
        ("v1", "ConfigMap", "configmaps", true),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", false),
        ("example.com/v1", "Widget", "widgets", true),
    ];
    let mut snapshot = snapshot(&types, vec![]);
    let ids: Vec<String> = (0..listed).map(|number| format!("shop_listed-{number}__ConfigMap")).collect();
    for number in 0..listed {
        snapshot.objects.push(labelled(ObjectId::new("", "ConfigMap", "shop", &format!("listed-{number}"))));
    }
    add_owner(&mut snapshot, "apps", &ids);
    snapshot.normalise();
    snapshot
}

fn add_owner(snapshot: &mut Snapshot, name: &str, ids: &[String]) {
    let object = identified(ObjectId::new("kustomize.toolkit.fluxcd.io", "Kustomization", "flux-system", name));
    snapshot.objects.push(object.clone());
    let entries: Vec<Value> = ids.iter().map(|id| json!({"id": id, "v": "v1"})).collect();
    let content = json!({
        "spec": {"prune": true},
        "status": {
            "observedGeneration": 1,
            "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 1}],
            "inventory": {"entries": entries},
        },
    });
    snapshot.resources.push(Resource { object, content });
    snapshot.normalise();
}

/// An object that kustomize-controller applied for flux-system/apps.
fn labelled(id: ObjectId) -> ObjectMetadata {
    identified(id).applied_by("kustomize-controller", &[(NAME, "apps"), (NAMESPACE, "flux-system")])
}

fn leaked_object() -> ObjectMetadata {
    labelled(ObjectId::new("", "ConfigMap", "shop", "leaked"))
}

/// A cluster in which one object is leaked, changed by `change`.
fn with_leaked(change: impl FnOnce(&mut ObjectMetadata)) -> Snapshot {
    let mut snapshot = cluster(20);
    let mut object = leaked_object();
    change(&mut object);
    snapshot.objects.push(object);
    snapshot.normalise();
    snapshot
}

/// Row of the object `leaked` in a plan.
fn row(snapshot: &Snapshot, wishes: &PruneOptions) -> Option<(Action, String)> {
    row_of(&leaked::plan(&Index::build(snapshot), wishes), "leaked")
}

fn row_of(plan: &Plan, name: &str) -> Option<(Action, String)> {
    let change = plan.changes().iter().find(|change| &*change.object.id.name == name)?;
    Some((change.action, change.reason.code.to_string()))
}

fn keep(reason: &str) -> Option<(Action, String)> {
    Some((Action::Keep, reason.to_owned()))
}

fn delete(reason: &str) -> Option<(Action, String)> {
    Some((Action::Delete, reason.to_owned()))
}

#[test]
fn only_leaked_objects_are_planned() {
    let plan = leaked::plan(&Index::build(&with_leaked(|_| ())), &PruneOptions::default());
    let rows: Vec<_> = plan.changes().iter().map(|change| (change.action, &*change.object.id.name)).collect();
    assert_eq!(rows, [(Action::Delete, "leaked")]);
    assert!(plan.is_complete());
}

#[test]
fn rule_1_a_label_that_its_controller_did_not_write_plans_nothing() {
    for manager in [None, Some("some-operator")] {
        let snapshot = with_leaked(|object| match manager {
            None => object.managed_fields.clear(),
            Some(name) => object.managed_fields[0].manager = name.into(),
        });
        assert_ne!(row(&snapshot, &PruneOptions::default()).map(|row| row.0), Some(Action::Delete), "{manager:?}");
    }
}

#[test]
fn rule_1_an_orphan_whose_label_its_controller_did_not_write_plans_nothing() {
    let asked = PruneOptions { include_orphaned: true, ..PruneOptions::default() };
    let snapshot = with_leaked(|object| {
        object.labels = [(NAME, "gone"), (NAMESPACE, "flux-system")].into_iter().collect();
        object.managed_fields.clear();
    });
    assert_ne!(row(&snapshot, &asked).map(|row| row.0), Some(Action::Delete));
}

#[test]
fn rule_1_an_object_with_a_reference_is_not_planned_in_its_own_right() {
    for controller in [true, false] {
        let snapshot = with_leaked(|object| {
            object.owner_references.push(OwnerReference {
                group: "apps".into(),
                kind: "ReplicaSet".into(),
                name: "r".into(),
                uid: "elsewhere".into(),
                controller,
                block_owner_deletion: false,
            });
        });
        assert_ne!(
            row(&snapshot, &PruneOptions::default()).map(|row| row.0),
            Some(Action::Delete),
            "controller {controller}"
        );
    }
}

#[test]
fn rule_2_what_another_owner_lists_is_not_planned() {
    let mut snapshot = with_leaked(|_| ());
    add_owner(&mut snapshot, "other", &["shop_leaked__ConfigMap".to_owned()]);
    assert_eq!(row(&snapshot, &PruneOptions::default()), None);
}

#[test]
fn rule_2_a_keep_mark_of_any_system_keeps() {
    for (key, value) in [
        ("kustomize.toolkit.fluxcd.io/prune", "Disabled"),
        ("kustomize.toolkit.fluxcd.io/prune", "disable"),
        ("helm.sh/resource-policy", "keep"),
        ("argocd.argoproj.io/sync-options", "Replace=true, Prune=false"),
        ("cli-utils.sigs.k8s.io/on-remove", "keep"),
        ("directives.qbec.io/delete-policy", "never"),
        ("kapp.k14s.io/delete-strategy", "orphan"),
        ("fluxcd.io/ignore", "true"),
    ] {
        let annotated = with_leaked(|object| object.annotations = [(key, value)].into_iter().collect());
        assert_eq!(row(&annotated, &PruneOptions::default()), keep("protected"), "{key}={value} as annotation");
        let labelled = with_leaked(|object| {
            let labels = [(NAME, "apps"), (NAMESPACE, "flux-system"), (key, value)];
            object.labels = labels.into_iter().collect();
        });
        assert_eq!(row(&labelled, &PruneOptions::default()), keep("protected"), "{key}={value} as label");
    }
}

/// A cluster whose leaked object is the namespace `old`, which holds `inside`.
fn leaked_namespace(inside: ObjectMetadata) -> Snapshot {
    let mut snapshot = cluster(20);
    snapshot.objects.push(labelled(ObjectId::new("", "Namespace", "", "old")));
    snapshot.objects.push(inside);
    snapshot.normalise();
    snapshot
}

#[test]
fn rule_2_a_cascade_that_takes_something_protected_or_foreign_along_keeps_its_root() {
    let wishes = PruneOptions { allowed: AllowedKinds::all(), ..PruneOptions::default() };
    let id = ObjectId::new("", "ConfigMap", "old", "inside");
    let mut protected = labelled(id.clone());
    protected.annotations = [("helm.sh/resource-policy", "keep")].into_iter().collect();
    for (what, inside) in [("protected", protected), ("nobody's", identified(id.clone()))] {
        let plan = leaked::plan(&Index::build(&leaked_namespace(inside)), &wishes);
        assert_eq!(row_of(&plan, "old"), keep("cascade"), "{what}");
        assert_eq!(plan.summary().delete, 0, "{what}");
    }
    let mut recorded = leaked_namespace(identified(id.clone()));
    add_owner(&mut recorded, "other", &["old_inside__ConfigMap".to_owned()]);
    assert_eq!(
        row_of(&leaked::plan(&Index::build(&recorded), &wishes), "old"),
        keep("cascade"),
        "listed by another owner"
    );
    let planned = leaked::plan(&Index::build(&leaked_namespace(labelled(id))), &wishes);
    assert_eq!(planned.summary().delete, 2, "what is leaked too may go along");
}

#[test]
fn rule_2_a_definition_is_kept_for_its_resources() {
    let mut snapshot = cluster(20);
    let crd = ObjectId::new("apiextensions.k8s.io", "CustomResourceDefinition", "", "widgets.example.com");
    snapshot.objects.push(labelled(crd));
    snapshot.objects.push(identified(ObjectId::new("example.com", "Widget", "shop", "precious")));
    snapshot.normalise();
    let wishes = PruneOptions { allowed: AllowedKinds::all(), ..PruneOptions::default() };
    assert_eq!(row_of(&leaked::plan(&Index::build(&snapshot), &wishes), "widgets.example.com"), keep("cascade"));
}

#[test]
fn rule_2_a_claim_is_kept_for_a_volume_that_its_policy_deletes() {
    let found = |policy: &str, mark: Option<(&str, &str)>| {
        let mut snapshot = cluster(20);
        let claim = labelled(ObjectId::new("", "PersistentVolumeClaim", "shop", "ledger"));
        let mut volume = identified(ObjectId::new("", "PersistentVolume", "", "disk"));
        let provisioned = ("pv.kubernetes.io/provisioned-by", "csi.example.com");
        volume.annotations = std::iter::once(provisioned).chain(mark).collect();
        let reference = json!({"namespace": "shop", "name": "ledger", "uid": claim.uid});
        let spec = json!({"persistentVolumeReclaimPolicy": policy, "claimRef": reference});
        snapshot.resources.push(Resource { object: volume.clone(), content: json!({"spec": spec}) });
        snapshot.objects.extend([claim, volume]);
        snapshot.normalise();
        let wishes = PruneOptions { allowed: AllowedKinds::all(), ..PruneOptions::default() };
        let plan = leaked::plan(&Index::build(&snapshot), &wishes);
        (row_of(&plan, "ledger"), plan.summary().delete)
    };
    assert_eq!(found("Delete", Some(("kubectl-gitops/keep", "true"))), (keep("cascade"), 0));
    assert_eq!(found("Delete", None).1, 2, "what a provisioner made goes along");
    assert_eq!(found("Retain", Some(("kubectl-gitops/keep", "true"))).1, 1, "what stays protects nothing else");
}

#[test]
fn rule_3_a_gap_makes_the_plan_incomplete_and_an_incomplete_plan_is_refused() {
    let mut snapshot = with_leaked(|_| ());
    snapshot.gaps.push(Gap {
        kind: GapKind::Forbidden,
        subject: "secrets".to_owned(),
        namespace: None,
        message: "no".to_owned(),
    });
    let plan = leaked::plan(&Index::build(&snapshot), &PruneOptions::default());
    assert!(!plan.is_complete());
    let index = Index::build(&snapshot);
    assert_eq!(limits::check_plan(&plan, Base::Inventories(&index), &Limits::default()).len(), 1);
    let allowed = Limits { allow_incomplete: true, ..Limits::default() };
    assert_eq!(limits::check_plan(&plan, Base::Inventories(&index), &allowed), []);
}

#[test]
fn rule_4_orphaned_objects_need_a_wish_and_an_owner_of_their_system() {
    let orphan = |object: &mut ObjectMetadata| {
        object.labels = [(NAME, "gone"), (NAMESPACE, "flux-system")].into_iter().collect();
    };
    let asked = PruneOptions { include_orphaned: true, ..PruneOptions::default() };
    let snapshot = with_leaked(orphan);
    assert_eq!(row(&snapshot, &PruneOptions::default()), keep("orphaned"));
    assert_eq!(row(&snapshot, &asked), delete("orphaned"));
    let mut hub = with_leaked(orphan);
    hub.resources.clear();
    assert_eq!(row(&hub, &asked), keep("owner-elsewhere"), "owners may live in another cluster");
    let sure = PruneOptions { assume_no_hub: true, ..asked };
    assert_eq!(row(&hub, &sure), delete("orphaned"));
}

#[test]
fn rule_5_an_owner_that_is_not_settled_keeps_its_leaked_objects() {
    type Change = fn(&mut Snapshot);
    let cases: [(&str, Change); 7] = [
        ("not ready", |s| {
            s.resources[0].content["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}])
        }),
        ("mid-reconcile", |s| {
            s.resources[0].content["status"]["conditions"] = json!([{"type": "Ready", "status": "Unknown"}])
        }),
        ("reconciling", |s| {
            s.resources[0].content["status"]["conditions"]
                .as_array_mut()
                .unwrap()
                .push(json!({"type": "Reconciling", "status": "True"}));
        }),
        ("no status yet", |s| s.resources[0].content["status"]["conditions"] = json!([])),
        ("not observed", |s| s.resources[0].object.generation = 2),
        ("suspended", |s| s.resources[0].content["spec"]["suspend"] = json!(true)),
        ("changed during the scan", |s| s.changed_during_read.push(s.resources[0].object.uid.clone())),
    ];
    for (what, change) in cases {
        let mut snapshot = with_leaked(|_| ());
        change(&mut snapshot);
        assert_eq!(row(&snapshot, &PruneOptions::default()), keep("owner-untrusted"), "{what}");
    }
}

#[test]
fn rule_5_what_is_terminating_is_not_planned() {
    let snapshot = with_leaked(|object| object.deletion_timestamp = Some(DateTime::UNIX_EPOCH));
    assert_eq!(row(&snapshot, &PruneOptions::default()), keep("terminating"));
}

#[test]
fn rule_6_limits_on_number_and_share_and_everything() {
    let broken = |listed: usize, leaked: usize, limits: Limits| {
        let mut snapshot = cluster(listed);
        for number in 0..leaked {
            let id = ObjectId::new("", "ConfigMap", "shop", &format!("leaked-{number}"));
            snapshot.objects.push(labelled(id));
        }
        snapshot.normalise();
        let plan = leaked::plan(&Index::build(&snapshot), &PruneOptions::default());
        assert_eq!(plan.summary().delete, leaked);
        limits::check_plan(&plan, Base::Inventories(&Index::build(&snapshot)), &limits).len()
    };
    let limits = Limits::default();
    assert_eq!(broken(1000, 50, limits), 0);
    assert_eq!(broken(1000, 51, limits), 1, "more than 50 objects");
    assert_eq!(broken(1000, 51, Limits { max_delete: 51, ..limits }), 0);
    assert_eq!(broken(10, 10, limits), 0, "exactly 50 %");
    assert_eq!(broken(9, 10, limits), 1, "more than 50 %");
    assert_eq!(broken(9, 10, Limits { max_percent: 53, ..limits }), 0, "the hint's own number is enough");
    assert_eq!(broken(1, 9, limits), 0, "a percentage of fewer than 10 objects says little");
    assert_eq!(broken(0, 1, Limits { max_percent: 100, ..limits }), 1, "everything, whatever the percentage");
}

#[test]
fn rule_6_grave_kinds_need_their_permission_and_some_namespaces_never_go() {
    let plan_of = |id: ObjectId, wishes: PruneOptions| {
        let mut snapshot = cluster(20);
        let name = id.name.to_string();
        snapshot.objects.push(labelled(id));
        snapshot.normalise();
        row_of(&leaked::plan(&Index::build(&snapshot), &wishes), &name)
    };
    let allowed = || PruneOptions { allowed: AllowedKinds::all(), ..PruneOptions::default() };
    for (group, kind, needed) in [
        ("", "Namespace", GraveKind::Namespaces),
        ("apiextensions.k8s.io", "CustomResourceDefinition", GraveKind::Crds),
        ("", "PersistentVolumeClaim", GraveKind::Volumes),
        ("", "PersistentVolume", GraveKind::Volumes),
        ("apps", "StatefulSet", GraveKind::StatefulSets),
    ] {
        let id = || ObjectId::new(group, kind, "", "old.example.com");
        let with = |kinds: Vec<GraveKind>| PruneOptions { allowed: kinds.into(), ..PruneOptions::default() };
        let others = GraveKind::ALL.into_iter().filter(|kind| *kind != needed).collect();
        assert_eq!(plan_of(id(), with(others)), keep("not-allowed"), "{kind}");
        assert_eq!(plan_of(id(), with(vec![needed])), delete("leaked"), "{kind}");
    }
    for name in ["kube-system", "kube-public", "kube-node-lease", "default"] {
        let id = ObjectId::new("", "Namespace", "", name);
        assert_eq!(plan_of(id, allowed()), keep("protected-namespace"), "{name}");
    }
}

#[test]
fn rule_6_a_cascade_needs_the_permissions_of_all_that_it_deletes() {
    let claim = labelled(ObjectId::new("", "PersistentVolumeClaim", "old", "ledger"));
    let snapshot = leaked_namespace(claim);
    let planned = |kinds: Vec<GraveKind>| {
        let wishes = PruneOptions { allowed: kinds.into(), ..PruneOptions::default() };
        let plan = leaked::plan(&Index::build(&snapshot), &wishes);
        (row_of(&plan, "old"), plan.summary().delete)
    };
    assert_eq!(planned(vec![GraveKind::Namespaces]), (keep("cascade"), 0));
    assert_eq!(planned(vec![GraveKind::Namespaces, GraveKind::Volumes]), (delete("leaked"), 2));
}

/// A controlled object belongs to no owner, and only its kind can keep the object that controls it.
#[test]
fn rule_6_a_cascade_needs_the_permission_for_a_controlled_object_of_a_grave_kind() {
    let snapshot = with_leaked(|_| ());
    let leaked = snapshot.objects.iter().find(|object| &*object.id.name == "leaked").unwrap();
    let mut claim = identified(ObjectId::new("", "PersistentVolumeClaim", "shop", "ledger"));
    claim.owner_references.push(OwnerReference {
        group: leaked.id.group.clone(),
        kind: leaked.id.kind.clone(),
        name: leaked.id.name.clone(),
        uid: leaked.uid.clone(),
        controller: true,
        block_owner_deletion: false,
    });
    let mut controlling = snapshot.clone();
    controlling.objects.push(claim);
    controlling.normalise();
    assert_eq!(row(&controlling, &PruneOptions::default()), keep("cascade"));
    let wishes = PruneOptions { allowed: AllowedKinds::all(), ..PruneOptions::default() };
    let plan = leaked::plan(&Index::build(&controlling), &wishes);
    assert_eq!((row_of(&plan, "leaked"), plan.summary().delete), (delete("leaked"), 2));
}

#[test]
fn plans_of_the_same_cluster_are_equal_to_the_byte() {
    let snapshot = with_leaked(|_| ());
    let mut shuffled = snapshot.clone();
    shuffled.objects.reverse();
    shuffled.resources.reverse();
    shuffled.normalise();
    let text = |snapshot: &Snapshot| {
        serde_json::to_string(&leaked::plan(&Index::build(snapshot), &PruneOptions::default())).unwrap()
    };
    assert_eq!(text(&snapshot), text(&shuffled));
}

#[test]
fn rule_2_a_namespace_whose_content_cannot_all_be_listed_is_kept() {
    let gap = |subject: &str, namespace: Option<&str>| Gap {
        kind: GapKind::Forbidden,
        subject: subject.to_owned(),
        namespace: namespace.map(str::to_owned),
        message: "forbidden".to_owned(),
    };
    let wishes = PruneOptions { allowed: AllowedKinds::all(), ..PruneOptions::default() };
    for (name, gap, expected) in [
        ("a type", gap("secrets", None), keep("cascade")),
        ("a type in the namespace", gap("secrets", Some("old")), keep("cascade")),
        ("a type in another namespace", gap("secrets", Some("shop")), delete("leaked")),
        ("an API group", gap("metrics.k8s.io/v1beta1", None), keep("cascade")),
        ("a cluster-scoped type", gap("nodes", None), delete("leaked")),
    ] {
        let mut snapshot = cluster(20);
        snapshot.types.push(resource_type("", "Node", "nodes", false));
        snapshot.objects.push(labelled(ObjectId::new("", "Namespace", "", "old")));
        snapshot.gaps.push(gap);
        snapshot.normalise();
        assert_eq!(row_of(&leaked::plan(&Index::build(&snapshot), &wishes), "old"), expected, "{name}");
    }
}
