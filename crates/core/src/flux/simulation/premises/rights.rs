//! Rights of service accounts that the change gives or takes.

use super::event::Event;
use super::world::{Fact, World};
use crate::flux::apply::AppliedObject;
use crate::flux::apply::rights::{RBAC, Rbac};
use crate::flux::spec::NamespacedName;
use crate::kubernetes::object::{GroupKind, ObjectId, ResourceType, text_at};

pub(super) const VERSION: &str = "rbac.authorization.k8s.io/v1";
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
    if id.cluster.is_some() {
        return None;
    }
    let wanted = Wanted { account: account?, verbs, kind: world.state.input.snapshot.type_of(id)?, id };
    if !world.events.iter().any(|event| &*event.id.group == RBAC) {
        return None;
    }
    let facts = world.facts(VERSION, &KINDS)?;
    let [before, after] = [false, true].map(|is_after| wanted.is_given(&facts, |_| is_after));
    let mut events: Vec<&Event> = facts.iter().flat_map(|fact| fact.events.iter().copied()).collect();
    if before != after {
        events.retain(|event| wanted.is_decided_by(event, &facts, after));
    }
    Some(Rights { before, after, events })
}

/// Returns the events after which a service account may grant the rights of a role or a binding, and nothing if it may
/// not even then; `None` if that is not known. Only events that precede the apply count.
///
/// It may grant the rights of a role that it has, or if it may escalate; and those that a binding gives also if it may
/// bind the role.
pub(super) fn granting_events<'w>(
    world: &'w World<'_, '_>,
    account: &NamespacedName,
    object: &AppliedObject,
    precedes: impl Fn(&Event) -> bool,
) -> Option<Option<Vec<&'w Event>>> {
    let (id, manifest) = (&object.id, &*object.built.manifest);
    let snapshot = world.state.input.snapshot;
    let is_binding = id.kind.ends_with("Binding");
    if !is_binding && manifest.get("aggregationRule").is_some_and(|rule| !rule.is_null()) {
        return None;
    }
    let role = is_binding.then(|| GroupKind::new(RBAC, text_at(manifest, "/roleRef/kind")));
    let kind = role.map_or_else(|| snapshot.type_of(id), |role| snapshot.resource_type(&role))?;
    let facts = world.facts(VERSION, &KINDS)?;
    let may_grant = |without: Option<&ObjectId>| {
        let values = facts.iter().map(|fact| {
            let comes_first = Some(&fact.id) != without && fact.events.iter().all(|event| precedes(event));
            (&fact.id, if comes_first { fact.after } else { fact.before })
        });
        let rbac = Rbac { objects: values.filter_map(|(id, value)| Some((id, value?))).collect() };
        if is_binding {
            rbac.may_bind(account, kind, id, manifest)
        } else {
            rbac.allows(account, "escalate", kind, id) || rbac.covers(account, &id.namespace, &[manifest])
        }
    };
    if !may_grant(None) {
        return Some(None);
    }
    let decisive = facts.iter().filter(|fact| !fact.events.is_empty() && !may_grant(Some(&fact.id)));
    Some(Some(decisive.flat_map(|fact| fact.events.iter().copied()).collect()))
}

/// Verbs that a service account may use on an object.
struct Wanted<'w> {
    account: &'w NamespacedName,
    verbs: &'w [&'w str],
    kind: &'w ResourceType,
    id: &'w ObjectId,
}

impl Wanted<'_> {
    /// Returns true if roles and bindings give the right, some as they are after the change and the others as before.
    fn is_given(&self, facts: &[Fact<'_>], is_after: impl Fn(&Fact<'_>) -> bool) -> bool {
        let values = facts.iter().map(|fact| (&fact.id, if is_after(fact) { fact.after } else { fact.before }));
        let rbac = Rbac { objects: values.filter_map(|(id, value)| Some((id, value?))).collect() };
        self.verbs.iter().all(|verb| rbac.allows(self.account, verb, self.kind, self.id))
    }

    /// Returns true if the right is another one than `after` without an event, or if the event alone changes it: a lost role and
    /// a lost binding each do.
    fn is_decided_by(&self, event: &Event, facts: &[Fact<'_>], after: bool) -> bool {
        self.is_given(facts, |fact| fact.id != event.id) != after
            || self.is_given(facts, |fact| fact.id == event.id) == after
    }
}
