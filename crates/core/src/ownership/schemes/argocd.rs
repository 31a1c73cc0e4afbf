//! Argo CD: an annotation that names application and object, or a label in clusters that track by label; the inventory is
//! the `status.resources` of the Application.
//!
//! Source: docs/reference/ownership.md 2.5.

use serde_json::Value;

use super::helm;
use crate::kubernetes::object::{ObjectId, ObjectMetadata, Resource, text_at};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::scheme::claim::{Claim, ClaimEvidence, OwnerId, Strength, label_strength};
use crate::ownership::scheme::hub::{HubRules, HubTarget};
use crate::ownership::scheme::members::Members;
use crate::ownership::scheme::owner_status::OwnerStatus;
use crate::ownership::scheme::protection::{ProtectedValues, ProtectionKey};
use crate::ownership::scheme::{AliasProof, GcEligibility, MetadataKey, Record, Scheme, SourceReference};

const TRACKING_ID: &str = "argocd.argoproj.io/tracking-id";
const INSTANCE: &str = "argocd.argoproj.io/instance";
const HOOK: &str = "argocd.argoproj.io/hook";
const OPTIONS: &str = "argocd.argoproj.io/sync-options";
const KIND: &str = "Application";
/// Namespace of Argo CD itself.
const HOME: &str = "argocd";
/// Server and name of the cluster in which Argo CD itself runs.
const IN_CLUSTER: (&str, &str) = ("https://kubernetes.default.svc", "in-cluster");

/// Scheme of Application. `app.kubernetes.io/instance` is no claim: every Helm chart sets it.
pub(crate) const SCHEME: Scheme = Scheme {
    member_keys: &[MetadataKey::Annotation(TRACKING_ID), MetadataKey::Label(INSTANCE)],
    other_keys: &[HOOK, helm::HOOK, "argocd.argoproj.io/installation-id"],
    managers: &["argocd-controller", "argocd-application-controller"],
    protections: &[ProtectionKey {
        key: OPTIONS,
        values: ProtectedValues::ItemPrefix(&["prune=false", "prune=confirm", "delete=false", "delete=confirm"]),
    }],
    claim,
    gc_eligibility,
    owner_kinds: &[("argoproj.io", KIND)],
    owner,
    home: Some(HOME),
    alias_proof: Some(AliasProof {
        is_proven: |_, owner| owner.namespace == HOME,
        needed: "an Application in namespace argocd, or the namespace in the tracking-id",
    }),
    hub: Some(HubRules { target: hub_target, keeps_aliases: true }),
    revision: |application| application.text("/status/sync/revision").map(str::to_owned),
    source,
    ..Scheme::new("argocd", "argocd")
};

/// Parses `<app>:<group>/<Kind>:<namespace>/<name>`; names may contain `:`.
fn parse(tracking_id: &str) -> Option<(&str, ObjectId)> {
    let mut parts = tracking_id.splitn(3, ':');
    let app = parts.next()?;
    let (group, kind) = parts.next()?.split_once('/')?;
    let (namespace, name) = parts.next()?.split_once('/')?;
    let whole = [app, kind, name].iter().all(|part| !part.is_empty() && !part.contains('/'));
    whole.then(|| (app, ObjectId::new(group, kind, namespace, name)))
}

/// Parses `<namespace>_<name>`. Applications in Argo CD's own namespace are named without it.
fn application(app: &str) -> OwnerId {
    let (namespace, name) = app.split_once('_').unwrap_or(("", app));
    OwnerId::new(SCHEME.system, KIND, namespace, name)
}

/// Returns true if a destination's server and name mean the cluster in which Argo CD runs.
fn is_in_cluster(server: &str, name: &str) -> bool {
    (server.is_empty() || server == IN_CLUSTER.0) && (name.is_empty() || name == IN_CLUSTER.1)
}

fn claim(object: &ObjectMetadata) -> Option<Claim> {
    if let Some(tracking_id) = object.annotations.get(TRACKING_ID) {
        let (app, named) = parse(tracking_id)?;
        // For cluster-scoped objects the namespace is the application's destination.
        let same_place = object.id.namespace.is_empty() || named.namespace == object.id.namespace;
        let own = same_place
            && (&named.group, &named.kind, &named.name) == (&object.id.group, &object.id.kind, &object.id.name);
        let strength = if own && object.owner_references.is_empty() { Strength::Bound } else { Strength::Contradicted };
        return Some(Claim {
            owner: application(app),
            strength,
            evidence: ClaimEvidence::annotation(TRACKING_ID, tracking_id),
        });
    }
    let app = object.labels.get(INSTANCE)?;
    let strength = if object.owner_references.is_empty() {
        label_strength(object, INSTANCE, SCHEME.managers)
    } else {
        Strength::Contradicted
    };
    Some(Claim { owner: application(app), strength, evidence: ClaimEvidence::label(INSTANCE, app) })
}

fn owner(object: &ObjectMetadata, content: &Value) -> Option<Record> {
    let id = OwnerId::new(SCHEME.system, KIND, &object.id.namespace, &object.id.name);
    let resources = content.pointer("/status/resources").and_then(Value::as_array);
    let listed: Result<Vec<(ObjectId, bool)>, String> = resources.into_iter().flatten().map(resource).collect();
    let (server, name) = (text_at(content, "/spec/destination/server"), text_at(content, "/spec/destination/name"));
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
    let health = text_at(content, "/status/health/status");
    let status = match text_at(content, "/status/operationState/phase") {
        "Running" | "Terminating" => OwnerStatus::Reconciling,
        phase @ ("Failed" | "Error") => OwnerStatus::NotReady(format!("its last operation: {phase}")),
        _ if text_at(content, "/status/sync/status") == "Unknown" => {
            OwnerStatus::NotReady("its sync status is Unknown".to_owned())
        }
        _ if ["Degraded", "Missing", "Unknown"].contains(&health) => {
            OwnerStatus::NotReady(format!("its health is {health}"))
        }
        _ => OwnerStatus::Ready,
    };
    // Objects name an application in Argo CD's own namespace without the namespace.
    let aliases = vec![OwnerId { namespace: String::new(), ..id.clone() }];
    Some(Record { aliases, prunable, status, ..Record::new(id, members) })
}

fn resource(entry: &Value) -> Result<(ObjectId, bool), String> {
    let (kind, name) = (text_at(entry, "/kind"), text_at(entry, "/name"));
    if kind.is_empty() || name.is_empty() {
        return Err("an entry of status.resources has no kind or name".to_owned());
    }
    let prune = entry.get("requiresPruning").and_then(Value::as_bool).unwrap_or_default();
    Ok((ObjectId::new(text_at(entry, "/group"), kind, text_at(entry, "/namespace"), name), prune))
}

fn gc_eligibility(object: &ObjectMetadata) -> GcEligibility {
    match object.annotations.get(HOOK) {
        Some(_) => GcEligibility::NeverRecorded("it is an Argo CD hook"),
        None => helm::hook_eligibility(object),
    }
}

fn hub_target(application: &Resource) -> HubTarget {
    let server = application.text("/spec/destination/server").unwrap_or_default();
    let name = application.text("/spec/destination/name").unwrap_or_default();
    match server {
        _ if is_in_cluster(server, name) => HubTarget::Hub,
        // Only Argo CD's own Secrets contain the address behind a name.
        "" => HubTarget::Unknown,
        server => HubTarget::Address(server.to_owned()),
    }
}

fn source(_: &Snapshot, application: &Resource) -> Option<SourceReference> {
    let source = application.at("/spec/source").or_else(|| application.at("/spec/sources/0"))?;
    let [path, chart, url, revision] = ["path", "chart", "repoURL", "targetRevision"]
        .map(|key| source.get(key).and_then(Value::as_str).map(str::to_owned));
    Some(SourceReference {
        kind: "Git".to_owned(),
        namespace: String::new(),
        name: String::new(),
        path: path.or(chart),
        url: Some(url?),
        revision,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Build, object};

    fn web() -> ObjectMetadata {
        object("apps", "Deployment", "prod", "web")
    }

    fn application_id(namespace: &str, name: &str) -> OwnerId {
        OwnerId::new("argocd", "Application", namespace, name)
    }

    #[test]
    fn every_tracking_id_of_the_reference() {
        let role = object("rbac.authorization.k8s.io", "ClusterRole", "", "system:web");
        let rows = [
            (web(), "web:apps/Deployment:prod/web", Some((application_id("", "web"), Strength::Bound))),
            (
                object("", "Service", "prod", "web"),
                "web:/Service:prod/web",
                Some((application_id("", "web"), Strength::Bound)),
            ),
            (
                web(),
                "argocd-apps_web:apps/Deployment:prod/web",
                Some((application_id("argocd-apps", "web"), Strength::Bound)),
            ),
            (
                role,
                "web:rbac.authorization.k8s.io/ClusterRole:prod/system:web",
                Some((application_id("", "web"), Strength::Bound)),
            ),
            (
                object("apps", "Deployment", "staging", "web"),
                "web:apps/Deployment:prod/web",
                Some((application_id("", "web"), Strength::Contradicted)),
            ),
            (web(), "web:apps/Deployment:prod", None),
            (web(), "web", None),
            (web(), "", None),
            (web(), "web:apps/x/Deployment:prod/web", None),
            (web(), "web:apps/Deployment:prod/web/x", None),
            (
                web().referring_to("x"),
                "web:apps/Deployment:prod/web",
                Some((application_id("", "web"), Strength::Contradicted)),
            ),
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
        let rows = [(" Prune=false , Delete=confirm ", true), ("prune=false", true), ("PruneLast=true", false)];
        for (value, kept) in rows {
            let object = object("", "Service", "prod", "web").annotation(OPTIONS, value);
            assert_eq!(SCHEME.protections[0].find(&object).is_some(), kept, "{value}");
        }
    }
}
