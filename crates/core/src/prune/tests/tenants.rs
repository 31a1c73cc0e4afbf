//! Tenants who write labels, annotations and owners, scheme by scheme: an owner that he makes never decides that the object of somebody else is
//! deleted (the table in docs/safety.md).

use std::slice::from_ref;

use serde_json::{Value, json};

use crate::kubernetes::object::{ObjectMetadata, Resource};
use crate::ownership::index::Index;
use crate::ownership::schemes::applyset;
use crate::ownership::schemes::flux_v1::{GitSource, mark, resource_id};
use crate::prune::leaked::{LeakDecision, PruneOptions, evaluate};
use crate::testing::{Build, object, snapshot};

/// Second at which owners are made that existed before the object, and after it.
const BEFORE: i64 = -1000;
const AFTER: i64 = 1000;

/// Returns what `prune` decides about the first object, with and without `--include orphaned`.
fn decisions(objects: &[ObjectMetadata], owners: &[Resource]) -> [String; 2] {
    let mut all = objects.to_vec();
    all.extend(owners.iter().map(|owner| owner.object.clone()));
    let snapshot = snapshot(all, owners.to_vec());
    let index = Index::build(&snapshot);
    let object = &snapshot.objects[0];
    let status = index.status(object);
    [false, true].map(|include_orphaned| {
        let options = PruneOptions { include_orphaned, ..PruneOptions::default() };
        match evaluate(&index, object, &status, &options) {
            Some((_, LeakDecision::Delete(reason))) => format!("delete {}", reason.code),
            Some((_, LeakDecision::Keep(reason))) => format!("keep {}", reason.code),
            None => status.as_str().to_owned(),
        }
    })
}

/// Asserts that nothing deletes the first object.
fn assert_kept(name: &str, objects: &[ObjectMetadata], owners: &[Resource]) {
    let decisions = decisions(objects, owners);
    assert!(decisions.iter().all(|decision| !decision.starts_with("delete")), "{name}: {decisions:?}");
}

fn config_map(namespace: &str) -> ObjectMetadata {
    object("", "ConfigMap", namespace, "data").created(0)
}

fn application(namespace: &str, created: i64) -> Resource {
    let content = json!({
        "spec": {"destination": {"server": "https://kubernetes.default.svc"}},
        "status": {"resources": [], "sync": {"status": "Synced"}, "health": {"status": "Healthy"}},
    });
    object("argoproj.io", "Application", namespace, "web").created(created).with_content(content)
}

fn tracked(application: &str) -> ObjectMetadata {
    let id = format!("{application}:/ConfigMap:shop/data");
    config_map("shop").annotation("argocd.argoproj.io/tracking-id", &id)
}

#[test]
fn an_application_of_a_tenant_is_not_the_one_that_a_tracking_id_names() {
    for created in [BEFORE, AFTER] {
        let mine = application("tenant-a", created);
        assert_eq!(decisions(&[tracked("web")], from_ref(&mine)), ["keep owner-untrusted", "keep owner-untrusted"]);
        assert_eq!(decisions(&[tracked("gone")], &[mine]), ["keep orphaned", "keep owner-elsewhere"]);
    }
    let real = application("argocd", BEFORE);
    assert_eq!(decisions(&[tracked("web")], &[application("tenant-a", BEFORE), real])[0], "delete leaked");
    assert_eq!(decisions(&[tracked("tenant-a_web")], &[application("tenant-a", BEFORE)])[0], "delete leaked");
}

#[test]
fn a_bound_claim_is_no_proof_for_an_owner_that_is_younger() {
    for (name, namespace) in [("web", "argocd"), ("tenant-a_web", "tenant-a")] {
        assert_kept(name, &[tracked(name)], &[application(namespace, AFTER)]);
        let written = tracked(name).writer("argocd-controller", "argocd.argoproj.io/tracking-id");
        assert_eq!(decisions(&[written], &[application(namespace, 30)])[0], "delete leaked", "within 60 seconds");
    }
}

/// A Kustomization of a tenant is gone, and what it applied to another namespace is left. Another Kustomization that he
/// makes then is no evidence that it was not moved to a hub.
#[test]
fn an_owner_that_a_tenant_makes_later_is_no_evidence_against_a_hub() {
    let flux = "kustomize.toolkit.fluxcd.io";
    let (name, namespace) = (format!("{flux}/name"), format!("{flux}/namespace"));
    let of_tenant = |place: &str| {
        let labelled = config_map(place).label(&name, "gone").label(&namespace, "tenant-a");
        labelled.writer("kustomize-controller", &name)
    };
    let ready = json!({"spec": {"prune": true}, "status": {"observedGeneration": 1, "inventory": {"entries": []},
        "conditions": [{"type": "Ready", "status": "True"}]}});
    let other =
        |created: i64| object(flux, "Kustomization", "tenant-a", "other").created(created).with_content(ready.clone());
    assert_eq!(decisions(&[of_tenant("shop")], &[]), ["keep orphaned", "keep owner-elsewhere"]);
    assert_eq!(decisions(&[of_tenant("shop")], &[other(AFTER)]), ["keep orphaned", "keep owner-elsewhere"]);
    assert_eq!(decisions(&[of_tenant("shop")], &[other(BEFORE)])[1], "delete orphaned", "it was there all the time");
    assert_eq!(decisions(&[of_tenant("tenant-a")], &[other(AFTER)])[1], "delete orphaned", "he may delete it himself");
}

fn inventory(namespace: &str, created: i64, data: Value) -> Resource {
    let id = "cli-utils.sigs.k8s.io/inventory-id";
    object("", "ConfigMap", namespace, "inventory")
        .created(created)
        .label(id, "x-1")
        .with_content(json!({"data": data}))
}

#[test]
fn an_inventory_with_a_copied_id_decides_nothing() {
    let owned = config_map("shop")
        .annotation("config.k8s.io/owning-inventory", "x-1")
        .writer("kpt", "config.k8s.io/owning-inventory");
    for (namespace, created) in [("tenant-a", BEFORE), ("tenant-a", AFTER), ("shop", BEFORE)] {
        let copied = inventory(namespace, created, json!({}));
        assert_eq!(decisions(from_ref(&owned), &[copied]), ["keep owner-untrusted", "keep owner-untrusted"]);
    }
    let real = inventory("shop", BEFORE, json!({"shop_data__ConfigMap": ""}));
    assert_eq!(decisions(&[owned], &[inventory("tenant-a", BEFORE, json!({})), real])[0], "managed");
}

#[test]
fn a_helm_release_of_flux_does_not_take_a_release_of_another_namespace() {
    let name = "meta.helm.sh/release-name";
    let installed = config_map("shop")
        .annotation(name, "web")
        .annotation("meta.helm.sh/release-namespace", "shop")
        .label("app.kubernetes.io/managed-by", "Helm")
        .writer("helm", name);
    let content = json!({
        "spec": {"releaseName": "web", "storageNamespace": "shop", "targetNamespace": "shop"},
        "status": {"inventory": {"entries": []}, "conditions": [{"type": "Ready", "status": "True"}]},
    });
    let mine =
        object("helm.toolkit.fluxcd.io", "HelmRelease", "tenant-a", "mine").created(BEFORE).with_content(content);
    let record = object("", "Secret", "shop", "sh.helm.release.v1.web.v1").label("owner", "helm").created(BEFORE);
    assert_eq!(decisions(&[installed.clone(), record], &[]), ["managed", "managed"]);
    assert_kept("with the release", from_ref(&installed), from_ref(&mine));
    let record = object("", "Secret", "shop", "sh.helm.release.v1.web.v1").label("owner", "helm").created(BEFORE);
    assert_kept("merged", &[installed, record], &[mine]);
}

#[test]
fn a_record_that_a_tenant_can_write_proves_nothing_elsewhere() {
    let parent = object("", "Secret", "tenant-a", "set").created(BEFORE);
    let id = applyset::id_of(&parent.id);
    let parent = parent.label("applyset.kubernetes.io/id", &id).annotation(applyset::KINDS[0], "Service");
    let part_of = applyset::PART_OF[0];
    let member = config_map("shop").label(part_of, &id).writer("kubectl-applyset", part_of);
    assert_kept("ApplySet", &[member, parent], &[]);
    let content = json!({"listed": []});
    let record = object("", "Secret", "tenant-a", "sh.helm.release.v1.web.v1").label("owner", "helm").created(BEFORE);
    let name = "meta.helm.sh/release-name";
    for (namespace, expected) in
        [("", "keep owner-untrusted"), ("shop", "keep owner-untrusted"), ("tenant-a", "delete leaked")]
    {
        let installed = config_map(namespace)
            .annotation(name, "web")
            .annotation("meta.helm.sh/release-namespace", "tenant-a")
            .label("app.kubernetes.io/managed-by", "Helm")
            .writer("helm", name);
        assert_eq!(
            decisions(&[installed], &[record.clone().with_content(content.clone())])[0],
            expected,
            "{namespace}"
        );
    }
}

#[test]
fn a_fluxd_of_a_tenant_does_not_take_the_objects_of_the_real_one() {
    let fluxd = |namespace: &str, more: &[&str]| {
        let args =
            [&["--git-url=git@example.com:x/y", "--git-branch=main", "--sync-garbage-collection"][..], more].concat();
        let container = json!({"name": "flux", "image": "fluxcd/flux:1.25.4", "args": args});
        let content = json!({
            "spec": {"replicas": 1, "template": {"spec": {"containers": [container]}}},
            "status": {"availableReplicas": 1},
        });
        object("apps", "Deployment", namespace, "flux").created(BEFORE).with_content(content)
    };
    let source = GitSource { url: "git@example.com:x/y".to_owned(), branch: "main".to_owned(), paths: vec![] };
    let id = config_map("shop").id;
    let synced = config_map("shop").label("fluxcd.io/sync-gc-mark", &mark(&source.sync_set(), &resource_id(&id)));
    let narrow = fluxd("a-tenant", &["--k8s-allow-namespace=a-tenant"]);
    assert_eq!(decisions(from_ref(&synced), from_ref(&narrow)), ["keep owner-untrusted", "keep owner-untrusted"]);
    assert_eq!(decisions(&[synced], &[narrow, fluxd("fluxd", &[])])[0], "managed");
}

#[test]
fn owners_that_a_tenant_makes_do_not_show_that_the_system_is_here() {
    let label = |kind: &str| [format!("{kind}.toolkit.fluxcd.io/name"), format!("{kind}.toolkit.fluxcd.io/namespace")];
    let [name, namespace] = label("kustomize");
    let labels = [(&*name, "gone"), (&*namespace, "flux-system")];
    let applied = config_map("shop").applied_by("kustomize-controller", &labels);
    let kustomization = |namespace: &str| {
        object("kustomize.toolkit.fluxcd.io", "Kustomization", namespace, "other").with_content(json!({}))
    };
    assert_eq!(decisions(from_ref(&applied), &[kustomization("tenant-a")]), ["keep orphaned", "keep owner-elsewhere"]);
    assert_eq!(decisions(&[applied], &[kustomization("flux-system")]), ["keep orphaned", "delete orphaned"]);
}
