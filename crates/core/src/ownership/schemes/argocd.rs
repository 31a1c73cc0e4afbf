//! Argo CD: an annotation that names application and object, or a label in clusters that track by label; the
//! Application's `status.resources` is what it manages.
//!
//! Source: reference ownership-and-prune 1.4, 2.2.

use serde_json::Value;

use super::helm;
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::ownership::{
    Claim, GcEligibility, Members, MetadataKey, OwnerId, OwnerStatus, Protection, Record, Scheme, Strength,
    label_strength,
};

const TRACKING_ID: &str = "argocd.argoproj.io/tracking-id";
const INSTANCE: &str = "argocd.argoproj.io/instance";
const HOOK: &str = "argocd.argoproj.io/hook";
const OPTIONS: &str = "argocd.argoproj.io/sync-options";
/// Kind of the owner.
pub(crate) const KIND: &str = "Application";
/// The cluster that Argo CD itself runs in.
const IN_CLUSTER: (&str, &str) = ("https://kubernetes.default.svc", "in-cluster");

/// The scheme record. `app.kubernetes.io/instance` is no mark: every Helm chart sets it.
pub const SCHEME: Scheme = Scheme {
    name: "argocd",
    system: "argocd",
    member_keys: &[MetadataKey::Annotation(TRACKING_ID), MetadataKey::Label(INSTANCE)],
    selectors: &[],
    owner_labels: &[],
    other_marks: &[HOOK, helm::HOOK, OPTIONS, "argocd.argoproj.io/installation-id"],
    owner_kinds: &[("argoproj.io", KIND)],
    owner_sources: &[],
    managers: &["argocd-controller", "argocd-application-controller"],
    claim,
    owner,
    proof: None,
    reach,
    keep_mark,
};

/// `<app>:<group>/<Kind>:<namespace>/<name>`; names may contain `:`.
fn parse(tracking_id: &str) -> Option<(&str, ObjectId)> {
    let mut parts = tracking_id.splitn(3, ':');
    let app = parts.next()?;
    let (group, kind) = parts.next()?.split_once('/')?;
    let (namespace, name) = parts.next()?.split_once('/')?;
    let whole = [app, kind, name].iter().all(|part| !part.is_empty() && !part.contains('/'));
    whole.then(|| (app, ObjectId::new(group, kind, namespace, name)))
}

/// `<namespace>_<name>`, or only the name for applications in Argo CD's own namespace, which an object cannot tell.
fn application(app: &str) -> OwnerId {
    let (namespace, name) = app.split_once('_').unwrap_or(("", app));
    OwnerId::new(SCHEME.system, KIND, namespace, name)
}

/// Whether a destination's server and name mean the cluster that Argo CD runs in.
pub(crate) fn is_in_cluster(server: &str, name: &str) -> bool {
    (server.is_empty() || server == IN_CLUSTER.0) && (name.is_empty() || name == IN_CLUSTER.1)
}

fn claim(object: &ObjectMetadata) -> Option<Claim> {
    if let Some(tracking_id) = object.annotations.get(TRACKING_ID) {
        let (app, named) = parse(tracking_id)?;
        // For cluster-scoped objects the namespace is the application's destination.
        let same_place = object.id.namespace.is_empty() || named.namespace == object.id.namespace;
        let own = same_place
            && (&named.group, &named.kind, &named.name) == (&object.id.group, &object.id.kind, &object.id.name);
        let strength = if own && object.references.is_empty() { Strength::Bound } else { Strength::Contradicted };
        return Some(Claim {
            owner: application(app),
            strength,
            evidence: format!("annotation {TRACKING_ID}={tracking_id}"),
        });
    }
    let app = object.labels.get(INSTANCE)?;
    let strength = match object.references.is_empty() {
        true => label_strength(object, INSTANCE, SCHEME.managers),
        false => Strength::Contradicted,
    };
    Some(Claim { owner: application(app), strength, evidence: format!("label {INSTANCE}={app}") })
}

fn owner(object: &ObjectMetadata, content: &Value) -> Option<Record> {
    let id = OwnerId::new(SCHEME.system, KIND, &object.id.namespace, &object.id.name);
    let text = |pointer: &str| content.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let resources = content.pointer("/status/resources").and_then(Value::as_array);
    let listed: Result<Vec<(ObjectId, bool)>, String> = resources.into_iter().flatten().map(resource).collect();
    let (server, name) = (text("/spec/destination/server"), text("/spec/destination/name"));
    let here = is_in_cluster(server, name);
    let mut prunable = vec![];
    let members = match (listed, resources) {
        (Err(why), _) => Members::Unreadable(why),
        (Ok(_), None) => Members::Unrecorded,
        (Ok(all), Some(_)) => {
            prunable.extend(all.iter().filter(|(_, prune)| *prune).map(|(id, _)| id.clone()));
            let ids = all.into_iter().map(|(id, _)| id).collect();
            if here { Members::Listed(ids) } else { Members::Remote(ids) }
        }
    };
    let health = text("/status/health/status");
    let state = match text("/status/operationState/phase") {
        "Running" | "Terminating" => OwnerStatus::Reconciling,
        phase @ ("Failed" | "Error") => OwnerStatus::NotReady(format!("its last operation: {phase}")),
        _ if text("/status/sync/status") == "Unknown" => OwnerStatus::NotReady("its sync status is Unknown".to_owned()),
        _ if ["Degraded", "Missing", "Unknown"].contains(&health) => {
            OwnerStatus::NotReady(format!("its health is {health}"))
        }
        _ => OwnerStatus::Ready,
    };
    // Objects name an application of Argo CD's own namespace without the namespace.
    let aliases = vec![OwnerId { namespace: String::new(), ..id.clone() }];
    Some(Record { aliases, prunable, state, ..Record::new(id, members) })
}

fn resource(entry: &Value) -> Result<(ObjectId, bool), String> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
    let (kind, name) = (text("kind"), text("name"));
    if kind.is_empty() || name.is_empty() {
        return Err("an entry of status.resources has no kind or name".to_owned());
    }
    let prune = entry.get("requiresPruning").and_then(Value::as_bool).unwrap_or_default();
    Ok((ObjectId::new(text("group"), kind, text("namespace"), name), prune))
}

fn reach(object: &ObjectMetadata) -> GcEligibility {
    match object.annotations.get(HOOK) {
        Some(_) => GcEligibility::NeverRecorded("it is an Argo CD hook"),
        None => helm::hook_reach(object),
    }
}

/// Case matters to Argo CD; [`crate::ownership::protection`] is kinder.
fn keep_mark(object: &ObjectMetadata) -> Option<Protection> {
    let keeps = |item: &str| ["Prune=false", "Prune=confirm", "Delete=false", "Delete=confirm"].contains(&item.trim());
    let value = object.annotations.get(OPTIONS).filter(|value| value.split(',').any(keeps))?;
    Some(Protection { key: OPTIONS.to_owned(), value: value.to_owned() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Make, object};

    #[test]
    fn every_tracking_id_of_the_reference() {
        let web = || object("apps", "Deployment", "prod", "web");
        let role = object("rbac.authorization.k8s.io", "ClusterRole", "", "system:web");
        let app = |ns, name| OwnerId::new("argocd", "Application", ns, name);
        let rows = [
            (web(), "web:apps/Deployment:prod/web", Some((app("", "web"), Strength::Bound))),
            (object("", "Service", "prod", "web"), "web:/Service:prod/web", Some((app("", "web"), Strength::Bound))),
            (web(), "argocd-apps_web:apps/Deployment:prod/web", Some((app("argocd-apps", "web"), Strength::Bound))),
            (
                role,
                "web:rbac.authorization.k8s.io/ClusterRole:prod/system:web",
                Some((app("", "web"), Strength::Bound)),
            ),
            (
                object("apps", "Deployment", "staging", "web"),
                "web:apps/Deployment:prod/web",
                Some((app("", "web"), Strength::Contradicted)),
            ),
            (web(), "web:apps/Deployment:prod", None),
            (web(), "web", None),
            (web(), "", None),
            (web(), "web:apps/x/Deployment:prod/web", None),
            (web(), "web:apps/Deployment:prod/web/x", None),
            (web().referring_to("x"), "web:apps/Deployment:prod/web", Some((app("", "web"), Strength::Contradicted))),
        ];
        for (object, tracking_id, expected) in rows {
            let found = claim(&object.annotation(TRACKING_ID, tracking_id)).map(|claim| (claim.owner, claim.strength));
            assert_eq!(found, expected, "{tracking_id}");
        }
    }

    #[test]
    fn the_label_counts_only_without_a_tracking_id() {
        let labelled = object("apps", "Deployment", "prod", "web").label(INSTANCE, "other");
        assert_eq!(claim(&labelled).unwrap().owner.name, "other");
        let both = labelled.annotation(TRACKING_ID, "web:apps/Deployment:prod/web");
        assert_eq!(claim(&both).unwrap().owner.name, "web");
    }

    #[test]
    fn an_application_lists_its_resources_and_what_it_prunes() {
        let app = object("argoproj.io", "Application", "argocd", "web");
        let content = json!({"spec": {"destination": {"server": "https://kubernetes.default.svc"}}, "status": {"resources": [
            {"group": "apps", "version": "v1", "kind": "Deployment", "namespace": "prod", "name": "web"},
            {"version": "v1", "kind": "Service", "namespace": "prod", "name": "old", "requiresPruning": true},
        ]}});
        let record = owner(&app, &content).unwrap();
        assert!(matches!(&record.members, Members::Listed(ids) if ids.len() == 2));
        assert_eq!(record.prunable, [ObjectId::new("", "Service", "prod", "old")]);
        let remote = json!({"spec": {"destination": {"name": "edge"}}, "status": {"resources": []}});
        assert!(matches!(owner(&app, &remote).unwrap().members, Members::Remote(_)));
        let broken = json!({"status": {"resources": [{"kind": "X"}]}});
        assert!(matches!(owner(&app, &broken).unwrap().members, Members::Unreadable(_)));
    }

    #[test]
    fn sync_options_are_a_list_with_spaces() {
        let rows = [(" Prune=false , Delete=confirm ", true), ("prune=false", false), ("PruneLast=true", false)];
        for (value, kept) in rows {
            let object = object("", "Service", "prod", "web").annotation(OPTIONS, value);
            assert_eq!(keep_mark(&object).is_some(), kept, "{value}");
        }
    }
}
