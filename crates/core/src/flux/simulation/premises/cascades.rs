//! Deletions by the controllers of Kubernetes: the garbage collector, the namespace controller and the endpoints
//! controller. The API server asks its admission rules about them as about any other request, and the controllers retry
//! without end.
//!
//! Source: Kubernetes v1.36.3 `pkg/controller/garbagecollector/garbagecollector.go` (`attemptToDeleteItem`),
//! `pkg/controller/namespace/deletion/namespaced_resources_deleter.go` (`deleteCollection`) and
//! `apiserver/pkg/endpoints/handlers/delete.go` (`DeleteCollection`). The deletion of the resources of a definition
//! asks no rule (`apiextensions-apiserver/pkg/controller/finalizer/crd_finalizer.go`).

use serde_json::{Value, json};

use super::admission::{coming_rules, live_rules, may_deny_deletion};
use super::applied_builds::AppliedBuilds;
use super::world::World;
use crate::flux::apply::admission::{ADMISSION, AdmissionRequest, AdmissionRule};
use crate::flux::apply::dry_run::DryRunResult;
use crate::flux::apply::question::{DryRunAnswer, Question};
use crate::flux::simulation::model::questions::{Answers, Needs};
use crate::flux::simulation::model::refusals::{CascadeRefusal, CascadeRefusals};
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::schedule::consequences::Consequences;
use crate::flux::spec::NamespacedName;
use crate::kubernetes::deletion::cascade::{CascadeKind, CascadedObject};
use crate::kubernetes::object::{KeyValues, ObjectId, ResourceType};
use crate::plan::Actor;

/// Namespace of the accounts of kube-controller-manager.
const SYSTEM: &str = "kube-system";

/// Returns the deletions of a cascade that admission rules refuse, or may refuse, and what must be read or asked to
/// know them.
pub(in crate::flux::simulation) fn cascade_refusals(
    state: &State<'_>,
    consequences: &Consequences<'_>,
    answers: &Answers,
) -> (CascadeRefusals, Needs) {
    let mut refusals = CascadeRefusals::new();
    let followed = consequences.cascaded.values().chain(consequences.kept.values());
    let asked: Vec<(&CascadedObject<'_>, &str)> =
        followed.filter_map(|cascaded| Some((cascaded, account(cascaded)?))).collect();
    if state.input.dry_runs.is_none() || asked.is_empty() {
        return (refusals, Needs::default());
    }
    let builds = AppliedBuilds::default();
    let world = World::new(state, &builds, answers, vec![]);
    let (rules, coming) = (live_rules(&world), coming_rules(&world));
    let mut needs = world.needs.take();
    let no_labels = KeyValues::default();
    for (cascaded, account) in asked.into_iter().filter(|_| rules.is_some()) {
        let id = &cascaded.object.id;
        let Some(kind) = state.input.snapshot.type_of(id) else { continue };
        let namespace = state.live_object(&id.namespace_object()).map_or(&no_labels, |live| &live.labels);
        let request = AdmissionRequest { kind, version: &kind.version, id, operation: "DELETE", namespace };
        let user = user(state, account);
        let sent = sent(request, &user);
        let matches = |rule: &AdmissionRule| rule.matches(request) && rule.may_ask_about(&sent);
        let key = (Actor::from(cascaded.kind), id.clone());
        let mut new = coming.iter().flatten();
        let denying = new.find(|(_, rule)| matches(rule) && may_deny_deletion(rule, id, &cascaded.object.labels));
        let denied = denying.map(|(rule, _)| {
            CascadeRefusal::Open(format!("it stays if {rule}, which the change applies, comes first and refuses it"))
        });
        let matching: Vec<_> = rules.iter().flatten().filter(|(_, rule)| matches(rule)).collect();
        if matching.is_empty() {
            refusals.extend(denied.map(|denied| (key, denied)));
            continue;
        }
        let asks_who = matching.iter().any(|(_, rule)| rule.asks_for_user());
        let question = state.with_privacy(Question::of_kubernetes(&user, id, asks_who));
        let refusal = match answers.dry_runs.get(question.key()) {
            Some(DryRunAnswer::Result(DryRunResult::Refused(message))) => refusal(consequences, cascaded, message),
            Some(DryRunAnswer::Result(DryRunResult::ServerFailed(message))) => {
                Some(CascadeRefusal::Open(format!("it stays while the server fails to answer: {message}")))
            }
            Some(DryRunAnswer::Missing(gap)) => Some(CascadeRefusal::Open(format!(
                "an admission rule decides whether {account} may delete it, and could not be asked as that account: {}",
                gap.message
            ))),
            _ => matching.iter().find_map(|(configuration, rule)| lost_service(consequences, configuration, rule)),
        };
        needs.dry_runs.push(question);
        refusals.extend(refusal.or(denied).map(|refusal| (key, refusal)));
    }
    (refusals, needs)
}

/// Returns what follows from a refusal. It can end with a rule that the change deletes, and what the namespace
/// controller may not delete, the garbage collector may be allowed to.
fn refusal(consequences: &Consequences<'_>, cascaded: &CascadedObject<'_>, message: &str) -> Option<CascadeRefusal> {
    let mut rules = consequences.outcomes.keys().filter(|id| &*id.group == ADMISSION);
    let ending = rules.find(|id| consequences.may_be_deleted(id));
    let is_collected = cascaded.kind == CascadeKind::NamespaceContent && !cascaded.object.owner_references.is_empty();
    Some(match ending {
        Some(rule) => CascadeRefusal::Open(format!("the server refuses it unless {rule} is deleted before: {message}")),
        None if is_collected => {
            CascadeRefusal::Open(format!("it stays unless the garbage collector may delete it: {message}"))
        }
        None => CascadeRefusal::Refused(message.to_owned()),
    })
}

/// Returns the condition on which a webhook lets an object be deleted, if it stays and the Service that it calls is
/// deleted.
fn lost_service(
    consequences: &Consequences<'_>,
    configuration: &ObjectId,
    webhook: &AdmissionRule,
) -> Option<CascadeRefusal> {
    let service = webhook.awaited_service().filter(|service| consequences.may_be_deleted(service))?;
    let stays = !consequences.may_be_deleted(configuration);
    let condition = format!("{configuration} must allow it, and may no longer reach {service}, which is deleted");
    stays.then_some(CascadeRefusal::Open(condition))
}

/// Returns the account of kube-controller-manager that deletes an object of a cascade; `None` if no rule is asked or
/// another component deletes it.
fn account(cascaded: &CascadedObject<'_>) -> Option<&'static str> {
    let is_left = cascaded.object.deletion_timestamp.is_some() || cascaded.object.id.cluster.is_some();
    match cascaded.kind {
        _ if is_left => None,
        CascadeKind::NamespaceContent => Some("namespace-controller"),
        CascadeKind::Dependent { .. } => Some("generic-garbage-collector"),
        CascadeKind::Endpoints => Some("endpoint-controller"),
        _ => None,
    }
}

/// Returns the account as which a controller sends its requests: one of its own exists only if kube-controller-manager
/// gives each controller one (`--use-service-account-credentials`).
fn user(state: &State<'_>, account: &str) -> ObjectId {
    let own = ObjectId::new("", "ServiceAccount", SYSTEM, account);
    if state.input.snapshot.lacks(&own) { ObjectId::new("", "User", "", "system:kube-controller-manager") } else { own }
}

/// Returns a request as expressions of rules see it.
fn sent(AdmissionRequest { kind, id, operation, .. }: AdmissionRequest<'_>, user: &ObjectId) -> Value {
    let ResourceType { group, version, kind: name, plural, .. } = kind;
    let (user_name, groups) = match &*user.namespace {
        "" => (user.name.to_string(), json!(["system:authenticated"])),
        _ => {
            let account = NamespacedName::of(user);
            (account.user(), json!(account.groups()))
        }
    };
    json!({
        "operation": operation, "name": &*id.name, "namespace": &*id.namespace,
        "kind": {"group": &**group, "version": &**version, "kind": &**name},
        "resource": {"group": &**group, "version": &**version, "resource": &**plural},
        "userInfo": {"username": user_name, "groups": groups},
    })
}
