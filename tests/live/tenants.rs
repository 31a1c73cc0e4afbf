//! Attacks of a tenant on an administrator's `prune`, on the real API server with its RBAC: he makes an owner in his own
//! namespace whose name an object of somebody else carries (docs/safety.md, what others can write).

use std::collections::BTreeMap;

use gitops_core::kubernetes::object::ObjectId;
use gitops_core::ownership::schemes::{applyset, flux_v1};
use serde_json::{Value, json};
use test_support::cluster::{LIMIT, up};
use test_support::gitops::gitops;
use test_support::shared_cluster;
use xtask::cluster::{Cluster, Options};

/// A tenant, who may write everything in his own namespace `tenant-a`, and nothing elsewhere.
const TENANT: &str = "--as=tenant-a";

/// Kinds of owners: group, version, kind and plural.
const KINDS: [(&str, &str, &str, &str); 9] = [
    ("argoproj.io", "v1alpha1", "Application", "applications"),
    ("kustomize.toolkit.fluxcd.io", "v1", "Kustomization", "kustomizations"),
    ("helm.toolkit.fluxcd.io", "v2", "HelmRelease", "helmreleases"),
    ("fluxcd.controlplane.io", "v1", "ResourceSet", "resourcesets"),
    ("fluxcd.controlplane.io", "v1", "FluxInstance", "fluxinstances"),
    ("configsync.gke.io", "v1beta1", "RootSync", "rootsyncs"),
    ("configsync.gke.io", "v1beta1", "RepoSync", "reposyncs"),
    ("kpt.dev", "v1alpha1", "ResourceGroup", "resourcegroups"),
    ("example.com", "v1", "Parent", "parents"),
];

/// Returns the definition of a kind whose objects may have any field.
fn definition((group, version, kind, plural): (&str, &str, &str, &str)) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let label = if kind == "Parent" { json!({"applyset.kubernetes.io/is-parent-type": "true"}) } else { json!({}) };
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}"), "labels": label},
        "spec": {"group": group, "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
            "versions": [{"name": version, "served": true, "storage": true, "schema": schema}]}})
}

const OBJECTS: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: flux-system}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Namespace
metadata: {name: tenant-a}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: everything, namespace: tenant-a}
rules:
- {apiGroups: ['*'], resources: ['*'], verbs: ['*']}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: everything, namespace: tenant-a}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: everything}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: tenant-a}
";

fn start() -> Cluster {
    let cluster = up(Options::default());
    cluster.kubectl_stdin(&["apply", "-f", "-"], OBJECTS).unwrap();
    for kind in KINDS {
        cluster.kubectl_stdin(&["apply", "-f", "-"], &definition(kind).to_string()).unwrap();
    }
    cluster.kubectl(&["wait", "crd", "--all", "--for=condition=Established", "--timeout=60s"]).unwrap();
    let may_write =
        || Ok(cluster.kubectl(&["auth", "can-i", "create", "configmaps", "-n", "tenant-a", TENANT]).is_ok());
    cluster.wait_for("the role", LIMIT, may_write).unwrap();
    cluster
}

shared_cluster!(start);

/// Creates an object of the tenant.
fn create_as_tenant(cluster: &Cluster, object: &Value) {
    cluster.kubectl_stdin(&["create", TENANT, "-f", "-"], &object.to_string()).unwrap();
}

/// Creates a ConfigMap of the shop with an annotation, as a system writes it.
fn create_in_shop(cluster: &Cluster, name: &str, manager: &str, annotation: (&str, &str)) {
    let (key, value) = annotation;
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "shop", "annotations": {key: value}}});
    let apply = ["apply", "--server-side", &format!("--field-manager={manager}"), "-f", "-"];
    cluster.kubectl_stdin(&apply, &object.to_string()).unwrap();
    let may_delete = cluster.kubectl(&["auth", "can-i", "delete", &format!("configmap/{name}"), "-n", "shop", TENANT]);
    assert!(may_delete.is_err(), "the tenant cannot delete {name} himself");
}

/// Returns action and code of the rows of the ConfigMaps of the shop, by their names.
fn rows(cluster: &Cluster, more: &[&str]) -> BTreeMap<String, String> {
    let run = gitops(cluster, &[&["prune", "--plan", "-o", "json", "--max-percent=100"][..], more].concat());
    let plan: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run}"));
    let of_shop = plan["changes"].as_array().unwrap().iter().filter(|row| row["object"]["namespace"] == "shop");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    of_shop
        .map(|row| (text(&row["object"]["name"]), format!("{} {}", text(&row["action"]), text(&row["reason"]["code"]))))
        .collect()
}

/// Returns action and code of the row of a ConfigMap of the shop.
fn row(cluster: &Cluster, name: &str, more: &[&str]) -> String {
    rows(cluster, more).remove(name).unwrap_or_default()
}

#[test]
fn an_application_of_a_tenant_deletes_nothing_of_the_shop() {
    let cluster = &cluster();
    create_in_shop(
        cluster,
        "tracked",
        "argocd-controller",
        ("argocd.argoproj.io/tracking-id", "web:/ConfigMap:shop/tracked"),
    );
    assert_eq!(row(cluster, "tracked", &[]), "keep orphaned");
    let application = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": "web", "namespace": "tenant-a"},
        "spec": {"destination": {"server": "https://kubernetes.default.svc"}},
        "status": {"resources": [], "sync": {"status": "Synced"}, "health": {"status": "Healthy"}}});
    create_as_tenant(cluster, &application);
    for more in [&[][..], &["--include", "orphaned"]] {
        assert_eq!(row(cluster, "tracked", more), "keep owner-untrusted", "{more:?}");
    }
}

#[test]
fn an_inventory_with_a_copied_id_deletes_nothing_of_the_shop() {
    let cluster = &cluster();
    let inventory = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "inventory", "namespace": "tenant-a",
            "labels": {"cli-utils.sigs.k8s.io/inventory-id": "shop-1"}}});
    create_as_tenant(cluster, &inventory);
    create_in_shop(cluster, "owned", "kpt", ("config.k8s.io/owning-inventory", "shop-1"));
    for more in [&[][..], &["--include", "orphaned"]] {
        assert_eq!(row(cluster, "owned", more), "keep owner-untrusted", "{more:?}");
    }
}

/// Flags of `prune` with which more is deleted each time.
const FLAGS: [&[&str]; 3] = [&[], &["--include", "orphaned"], &["--include", "orphaned", "--assume-no-hub"]];

/// An object of the shop, as a system writes it.
struct Victim {
    name: &'static str,
    manager: &'static str,
    labels: Value,
    annotations: Value,
    /// Owners that the tenant makes.
    owners: Vec<Value>,
    /// Rows with each of the flags, without those owners. Empty for an object that counts as managed.
    before: [&'static str; 3],
}

/// Returns an object of the tenant, ready as far as its system knows.
fn owner(api_version: &str, kind: &str, name: &str, more: &Value) -> Value {
    let ready = json!({"observedGeneration": 1, "conditions": [{"type": "Ready", "status": "True"}],
        "inventory": {"entries": []}, "resourceStatuses": []});
    let mut object =
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "tenant-a"}});
    // The kinds of Kubernetes have no such status, and the server refuses it.
    if api_version.contains('.') {
        object["status"] = ready;
    }
    for (key, value) in more.as_object().into_iter().flatten() {
        if key == "metadata" {
            value.as_object().into_iter().flatten().for_each(|(key, value)| object["metadata"][key] = value.clone());
        } else {
            object[key] = value.clone();
        }
    }
    object
}

/// Labels that name an owner in `flux-system`.
fn labels_of(key: &str, name: &str) -> Value {
    json!({format!("{key}/name"): name, format!("{key}/namespace"): "flux-system"})
}

fn victims() -> Vec<Victim> {
    let shop = |name: &str| ObjectId::new("", "ConfigMap", "shop", name);
    let orphaned = ["keep orphaned", "keep owner-elsewhere", "delete orphaned"];
    let bare = ["keep bare-claim"; 3];
    let victim = |name, manager, labels, annotations, owners, before| Victim {
        name,
        manager,
        labels,
        annotations,
        owners,
        before,
    };
    let parent = ObjectId::new("example.com", "Parent", "tenant-a", "set");
    let set_id = applyset::id_of(&parent);
    let fluxd = json!({"spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": {
        "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "flux", "image": "fluxcd/flux:1.25.4",
            "args": ["--git-url=git@example.com:x/y", "--git-branch=main", "--sync-garbage-collection"]}]}}}});
    let source = flux_v1::GitSource { url: "git@example.com:x/y".to_owned(), branch: "main".to_owned(), paths: vec![] };
    let mark = flux_v1::mark(&source.sync_set(), &flux_v1::resource_id(&shop("fluxd")));
    let app = json!({"labelKey": "kapp.k14s.io/app", "labelValue": "1700000000000000000",
        "lastChange": {"startedAt": "2024-01-01T00:00:00Z", "finishedAt": "2024-01-01T00:00:01Z", "successful": true}});
    let sync = |name: &str, manager: &str| {
        json!({"configsync.gke.io/manager": manager, "configmanagement.gke.io/managed": "enabled",
            "configsync.gke.io/resource-id": format!("_configmap_shop_{name}")})
    };
    let release = json!({"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "shop"});
    let stolen = json!({"spec": {"releaseName": "web", "storageNamespace": "shop", "targetNamespace": "shop"}});
    let of_tenant = json!({"meta.helm.sh/release-name": "theirs", "meta.helm.sh/release-namespace": "tenant-a"});
    let helm = json!({"app.kubernetes.io/managed-by": "Helm"});
    let record = json!({"type": "helm.sh/release.v1",
        "metadata": {"labels": {"owner": "helm", "name": "theirs", "status": "deployed", "version": "1"}}});
    let none = json!({});
    vec![
        victim(
            "kustomization",
            "kustomize-controller",
            labels_of("kustomize.toolkit.fluxcd.io", "apps"),
            none.clone(),
            vec![owner("kustomize.toolkit.fluxcd.io/v1", "Kustomization", "apps", &none)],
            orphaned,
        ),
        victim(
            "helmrelease",
            "helm-controller",
            labels_of("helm.toolkit.fluxcd.io", "app"),
            none.clone(),
            vec![owner("helm.toolkit.fluxcd.io/v2", "HelmRelease", "app", &none)],
            orphaned,
        ),
        victim(
            "resourceset",
            "flux-operator",
            labels_of("resourceset.fluxcd.controlplane.io", "set"),
            none.clone(),
            vec![owner("fluxcd.controlplane.io/v1", "ResourceSet", "set", &none)],
            orphaned,
        ),
        victim(
            "fluxinstance",
            "flux-operator",
            labels_of("fluxcd.controlplane.io", "flux"),
            none.clone(),
            vec![owner("fluxcd.controlplane.io/v1", "FluxInstance", "flux", &none)],
            orphaned,
        ),
        victim(
            "release",
            "helm",
            helm.clone(),
            release,
            vec![owner("helm.toolkit.fluxcd.io/v2", "HelmRelease", "mine", &stolen)],
            orphaned,
        ),
        victim(
            "record",
            "helm",
            helm,
            of_tenant,
            vec![owner("v1", "Secret", "sh.helm.release.v1.theirs.v1", &record)],
            orphaned,
        ),
        victim(
            "applyset",
            "kubectl-applyset",
            json!({"applyset.kubernetes.io/part-of": set_id}),
            none.clone(),
            vec![owner(
                "example.com/v1",
                "Parent",
                "set",
                &json!({"metadata": {
                "labels": {"applyset.kubernetes.io/id": set_id},
                "annotations": {"applyset.kubernetes.io/tooling": "kubectl/v1.36",
                    "applyset.kubernetes.io/contains-group-kinds": "ConfigMap", "applyset.kubernetes.io/additional-namespaces": "shop"}}}),
            )],
            bare,
        ),
        victim(
            "rootsync",
            "configsync",
            none.clone(),
            sync("rootsync", ":root"),
            vec![
                owner("configsync.gke.io/v1beta1", "RootSync", "root-sync", &none),
                owner("kpt.dev/v1alpha1", "ResourceGroup", "root-sync", &none),
            ],
            orphaned,
        ),
        victim(
            "reposync",
            "configsync",
            none.clone(),
            sync("reposync", "tenant-a"),
            vec![
                owner("configsync.gke.io/v1beta1", "RepoSync", "repo-sync", &none),
                owner("kpt.dev/v1alpha1", "ResourceGroup", "repo-sync", &none),
            ],
            orphaned,
        ),
        victim(
            "fluxd",
            "fluxd",
            json!({"fluxcd.io/sync-gc-mark": mark}),
            none.clone(),
            vec![owner("apps/v1", "Deployment", "flux", &fluxd)],
            bare,
        ),
        victim(
            "kapp",
            "kapp",
            json!({"kapp.k14s.io/app": "1700000000000000000"}),
            json!({"kapp.k14s.io/identity": "v1;shop//ConfigMap/kapp;v1"}),
            vec![owner(
                "v1",
                "ConfigMap",
                "app",
                &json!({"metadata": {"labels": {"kapp.k14s.io/is-app": ""}}, "data": {"spec": app.to_string()}}),
            )],
            orphaned,
        ),
        victim(
            "kluctl",
            "kluctl",
            json!({"kluctl.io/discriminator": "shop-prod"}),
            none.clone(),
            vec![owner(
                "v1",
                "ConfigMap",
                "kluctl",
                &json!({"metadata": {"labels": {"kluctl.io/discriminator": "shop-prod"}}}),
            )],
            ["", "", ""],
        ),
        victim(
            "qbec",
            "qbec",
            json!({"qbec.io/application": "shop", "qbec.io/environment": "prod"}),
            none,
            vec![owner(
                "v1",
                "ConfigMap",
                "qbec",
                &json!({"metadata": {"labels": {"qbec.io/application": "shop", "qbec.io/environment": "prod"}}}),
            )],
            ["", "", ""],
        ),
    ]
}

/// Whatever the tenant makes, no object of the shop is deleted that was not deleted without it; `orphaned` with a flag that
/// says so is the only deletion, and it shows that the object is known.
#[test]
fn no_owner_of_a_tenant_deletes_an_object_of_the_shop_in_any_system() {
    let cluster = &start();
    let victims = victims();
    for victim in &victims {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": victim.name, "namespace": "shop",
            "labels": victim.labels, "annotations": victim.annotations}});
        let apply = ["apply", "--server-side", &format!("--field-manager={}", victim.manager), "-f", "-"];
        cluster.kubectl_stdin(&apply, &object.to_string()).unwrap();
    }
    let before = FLAGS.map(|flags| rows(cluster, flags));
    let row = |rows: &[BTreeMap<String, String>; 3], name: &str| {
        rows.each_ref().map(|rows| rows.get(name).cloned().unwrap_or_default())
    };
    let found: Vec<_> = victims.iter().map(|victim| (victim.name, row(&before, victim.name))).collect();
    let expected: Vec<_> = victims.iter().map(|victim| (victim.name, victim.before.map(str::to_owned))).collect();
    assert_eq!(found, expected);
    for owner in victims.iter().flat_map(|victim| &victim.owners) {
        create_as_tenant(cluster, owner);
    }
    let after = FLAGS.map(|flags| rows(cluster, flags));
    for victim in &victims {
        let [before, after] = [&before, &after].map(|rows| row(rows, victim.name));
        for (before, after) in before.iter().zip(&after) {
            assert!(!after.starts_with("delete") || before == after, "{}: {before} becomes {after}", victim.name);
        }
    }
}

/// Objects of the shop that owners of the tenant applied, which are gone: only what was there before says that they were not
/// moved to a hub. An inventory that he forges keeps an object, and deletes none.
#[test]
fn what_a_tenant_makes_later_is_no_evidence_and_a_forged_inventory_deletes_nothing() {
    let cluster = &start();
    let of_tenant = |key: &str| json!({format!("{key}/name"): "gone", format!("{key}/namespace"): "tenant-a"});
    let (flux, helm, set) =
        ("kustomize.toolkit.fluxcd.io", "helm.toolkit.fluxcd.io", "resourceset.fluxcd.controlplane.io");
    let systems = [
        ("applied", "kustomize-controller", flux, "kustomize.toolkit.fluxcd.io/v1", "Kustomization"),
        ("installed", "helm-controller", helm, "helm.toolkit.fluxcd.io/v2", "HelmRelease"),
        ("generated", "flux-operator", set, "fluxcd.controlplane.io/v1", "ResourceSet"),
    ];
    for (name, manager, key, ..) in systems {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "shop", "labels": of_tenant(key)}});
        let apply = ["apply", "--server-side", &format!("--field-manager={manager}"), "-f", "-"];
        cluster.kubectl_stdin(&apply, &object.to_string()).unwrap();
    }
    let flags = FLAGS[1];
    let all = |row: &str| systems.map(|(name, ..)| (name.to_owned(), row.to_owned())).into();
    assert_eq!(rows(cluster, flags), all("keep owner-elsewhere"));
    // The times of the API server are whole seconds, and clocks may differ by a minute.
    std::thread::sleep(std::time::Duration::from_secs(63));
    for (.., api_version, kind) in systems {
        create_as_tenant(cluster, &owner(api_version, kind, "other", &json!({})));
    }
    assert_eq!(rows(cluster, flags), all("keep owner-elsewhere"), "they were made after the objects");
    for (name, .., api_version, kind) in systems {
        let listed = json!({"status": {"inventory": {"entries": [{"id": format!("shop_{name}__ConfigMap"), "v": "v1"}]},
            "observedGeneration": 1, "conditions": [{"type": "Ready", "status": "True"}]}});
        create_as_tenant(cluster, &owner(api_version, kind, "forged", &listed));
    }
    for flags in FLAGS {
        let rows = rows(cluster, flags);
        assert!(rows.values().all(|row| !row.starts_with("delete")), "{flags:?}: {rows:?}");
    }
}
