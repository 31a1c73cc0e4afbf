//! Rights of service accounts that the change gives or takes.

use super::event::Event;
use super::world::{Fact, World};
use crate::flux::apply::rights::{RBAC, Rbac};
use crate::flux::spec::NamespacedName;
use crate::kubernetes::object::{ObjectId, ResourceType};

const VERSION: &str = "rbac.authorization.k8s.io/v1";
const KINDS: [&str; 4] = ["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"];

/// Rights to a change before and after the change.
pub(super) struct Rights<'w> {
    pub(super) before: bool,
    pub(super) after: bool,
    /// Changes of roles and bindings.
    pub(super) events: Vec<&'w Event>,
}

/// Returns whether a service account may use verbs on an object, before and after the change; `None` if that is not known,
/// or if the change touches no role.
pub(super) fn rights<'w>(
    world: &'w World<'_, '_>,
    account: Option<&NamespacedName>,
    verbs: &[&str],
    id: &ObjectId,
) -> Option<Rights<'w>> {
    let account = account.filter(|_| id.cluster.is_none())?;
    let kind = world.state.input.snapshot.type_of(id)?;
    if !world.events.iter().any(|event| &*event.id.group == RBAC) {
        return None;
    }
    let facts = world.facts(VERSION, &KINDS)?;
    let [before, after] = [true, false].map(|is_before| {
        let values = facts.iter().map(|fact| (&fact.id, if is_before { fact.before } else { fact.after }));
        Rbac { objects: values.filter_map(|(id, value)| Some((id, value?))).collect() }
    });
    let has = |rbac: &Rbac<'_>| verbs.iter().all(|verb| rbac.allows(account, verb, kind, id));
    let (before, after) = (has(&before), has(&after));
    let mut events: Vec<&Event> = facts.iter().flat_map(|fact| fact.events.iter().copied()).collect();
    if before != after {
        // Only what decides about this right.
        let decides = |event: &&Event| is_decisive(event, &facts, account, verbs, kind, id, after);
        events.retain(decides);
    }
    Some(Rights { before, after, events })
}

/// Returns true if the right is another one without an event, or if the event alone changes it: a lost role and a lost binding
/// each do.
fn is_decisive(
    event: &Event,
    facts: &[Fact<'_>],
    account: &NamespacedName,
    verbs: &[&str],
    kind: &ResourceType,
    id: &ObjectId,
    after: bool,
) -> bool {
    let has_right = |is_alone: bool| {
        let values = facts.iter().map(|fact| {
            let is_after = (fact.id == event.id) == is_alone;
            (&fact.id, if is_after { fact.after } else { fact.before })
        });
        let rbac = Rbac { objects: values.filter_map(|(id, value)| Some((id, value?))).collect() };
        verbs.iter().all(|verb| rbac.allows(account, verb, kind, id))
    };
    has_right(false) != after || has_right(true) == after
}
