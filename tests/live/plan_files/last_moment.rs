//! Changes between the plan and the DELETE, while the question waits and after the last reading of the whole cluster: an
//! owner that comes back or lists the object by then, and content that appears (docs/safety.md, "Before each deletion").

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gitops_core::ownership::index::Index;
use gitops_core::plan::Change;
use gitops_core::plan::grave::AllowedKinds;
use gitops_core::plan::outcome::DeletionResult;
use gitops_core::prune::leaked::{self, PruneOptions};
use http::{Method, Request};
use kube::client::Body;
use kubectl_gitops::cluster::{Cluster as Connection, Execution, OWNERS_AGE, execute};
use serde_json::{Value, json};
use test_support::connection::client;
use xtask::cluster::Cluster;

use super::{applied, apply, create_owner, reconcile, reconcile_owner, with_leaks};

/// Moment of a change.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// Before the first request of the execution.
    WhileAsked,
    /// Before the object itself is read. Its wave has been read before.
    AfterReading,
}

const MOMENTS: [Moment; 2] = [Moment::WhileAsked, Moment::AfterReading];

/// Change of the cluster in a namespace.
type Act = fn(&Cluster, &str);

/// A change that has not been made yet.
type Pending = Mutex<Option<Box<dyn FnOnce() + Send>>>;

/// Plans everything that claims the owner of `root` in a namespace, changes the cluster at a moment, and executes the plan.
/// Returns the result of `root`, whose API path is given, in one line.
fn prune_while(cluster: &Arc<Cluster>, namespace: &str, path: &str, moment: Moment, act: Act) -> String {
    let (own, named) = (cluster.clone(), namespace.to_owned());
    let pending: Pending = Mutex::new(Some(Box::new(move || act(&own, &named))));
    let pending = Arc::new(pending);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let client = client(cluster).await;
        let (before, held) = (path.to_owned(), pending.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (client, before, held) = (client.clone(), before.clone(), held.clone());
            async move {
                if request.method() == Method::GET && request.uri().path() == before {
                    change(&held);
                }
                client.send(request).await
            }
        });
        let connection = Connection::with_client(kube::Client::new(service, "default"), "https://test.invalid");
        let options = PruneOptions {
            namespace: Some(namespace.to_owned()),
            include_orphaned: true,
            allowed: AllowedKinds::all(),
            ..PruneOptions::default()
        };
        let snapshot = connection.snapshot(chrono::Utc::now()).await.expect("a snapshot");
        let plan = leaked::plan(&Index::build(&snapshot), &options);
        if matches!(moment, Moment::WhileAsked) {
            change(&pending);
        }
        let reevaluate = |index: &Index<'_>, changes: &[&Change]| {
            changes.iter().map(|change| leaked::reevaluate(index, change, &options)).collect()
        };
        let execution =
            Execution { timeout: Duration::from_secs(20), waves: vec![], parallel: 1, owners_age: OWNERS_AGE };
        let result = execute(&connection, &plan, &reevaluate, &execution, &mut ()).await;
        assert!(held_is_done(&pending), "the change was made: {result:?}");
        let name = path.rsplit('/').next().unwrap_or_default();
        let row = result.steps.iter().find(|row| &*row.object.id.name == name).expect("a row of the plan");
        match &row.step {
            DeletionResult::Skipped(reason) => format!("skipped: {reason}"),
            step => step.code().to_owned(),
        }
    })
}

fn change(pending: &Pending) {
    let act = pending.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(act) = act {
        act();
    }
}

fn held_is_done(pending: &Pending) -> bool {
    pending.lock().unwrap_or_else(PoisonError::into_inner).is_none()
}

/// Returns a ConfigMap that kustomize-controller seems to have applied for a Kustomization `gone`.
fn orphan(namespace: &str) -> Value {
    let mut manifest = applied(namespace, "v1", "ConfigMap", namespace, "orphan");
    manifest["metadata"]["labels"]["kustomize.toolkit.fluxcd.io/name"] = "gone".into();
    manifest
}

#[test]
fn an_orphan_is_kept_if_its_owner_comes_back_or_another_owner_lists_it() {
    let cases: [(&str, Act, &str); 4] = [
        ("undisturbed", |_, _| {}, "deleted"),
        (
            "owner-back",
            |cluster, namespace| create_owner(cluster, namespace, "gone"),
            "skipped: owner-changed: kustomization/gone -n ",
        ),
        (
            "owner-ready",
            |cluster, namespace| {
                create_owner(cluster, namespace, "gone");
                reconcile_owner(cluster, namespace, "gone", &["other"]);
            },
            "skipped: owner-changed: it was orphaned when the plan was made; now it is leaked",
        ),
        (
            "adopted",
            |cluster, namespace| reconcile(cluster, namespace, &["stays", "orphan"]),
            "skipped: recorded: kustomization/apps -n ",
        ),
    ];
    for (name, act, expected) in cases {
        for moment in MOMENTS {
            let namespace = format!("{name}-{moment:?}").to_lowercase();
            let cluster = &with_leaks(&namespace, 0);
            apply(cluster, vec![orphan(&namespace)]);
            let path = format!("/api/v1/namespaces/{namespace}/configmaps/orphan");
            let result = prune_while(cluster, &namespace, &path, moment, act);
            xtask::say(format!("{name:12} {moment:?}: {result}"));
            assert!(result.starts_with(expected), "{name}, {moment:?}: {result}");
            let left = ["get", "configmap", "orphan", "-n", &namespace, "--ignore-not-found", "-o", "name"];
            assert_eq!(cluster.kubectl(&left).unwrap().is_empty(), expected == "deleted", "{name}, {moment:?}");
        }
    }
}

#[test]
fn a_namespace_is_kept_if_a_claim_or_a_protected_object_appears_in_it() {
    let cases: [(&str, Act, &str); 3] = [
        ("empty", |_, _| {}, "deleted"),
        (
            "claim",
            |cluster, namespace| {
                let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}});
                let metadata = json!({"name": "ledger", "namespace": format!("{namespace}-old")});
                let claim =
                    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec});
                cluster.kubectl_stdin(&["create", "-f", "-"], &claim.to_string()).unwrap();
            },
            "skipped: cascade: it would also delete persistentvolumeclaim/ledger",
        ),
        (
            "protected",
            |cluster, namespace| {
                let annotations = json!({"kustomize.toolkit.fluxcd.io/prune": "disabled"});
                let metadata =
                    json!({"name": "token", "namespace": format!("{namespace}-old"), "annotations": annotations});
                let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata});
                cluster.kubectl_stdin(&["create", "-f", "-"], &secret.to_string()).unwrap();
            },
            "skipped: cascade: it would also delete secret/token",
        ),
    ];
    for (name, act, expected) in cases {
        let namespace = format!("holds-{name}");
        let cluster = &with_leaks(&namespace, 0);
        let old = format!("{namespace}-old");
        apply(cluster, vec![applied(&namespace, "v1", "Namespace", "", &old)]);
        let _ = cluster.kubectl(&["delete", "configmap", "kube-root-ca.crt", "-n", &old]);
        reconcile(cluster, &namespace, &["stays"]);
        // The content is listed before the object is read, so a later change cannot be seen.
        let path = format!("/api/v1/namespaces/{old}");
        let result = prune_while(cluster, &namespace, &path, Moment::WhileAsked, act);
        xtask::say(format!("{name:12} {result}"));
        assert!(result.starts_with(expected), "{name}: {result}");
    }
}
