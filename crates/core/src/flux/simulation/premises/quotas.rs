//! Quotas for numbers of objects. The server counts one object after the other, so a dry-run of each alone says nothing about
//! several.
//!
//! Source: Kubernetes v1.36.3 `apiserver/pkg/admission/plugin/resourcequota` and `pkg/quota/v1/evaluator/core`.

use serde_json::Value;

use super::event::Event;
use super::world::{Fact, World};
use crate::flux::apply::AppliedObject;
use crate::flux::simulation::model::protection::is_never_applied;
use crate::kubernetes::deletion::order::apply_order;
use crate::kubernetes::object::{ObjectId, ResourceType};

/// Room that quotas leave for an object.
pub(super) enum Room<'w> {
    /// The object can be created after these events.
    Enough(Vec<&'w Event>),
    /// The objects that the same run creates before it use the quota up: the message of the server.
    Full(String),
    /// Name of a quota whose remaining room, or the order of the objects that use it, is not known.
    Unknown(String),
}

/// Returns what the quotas of its namespace leave for an object that the change creates; `None` if they are not known.
pub(super) fn room<'w>(world: &'w World<'_, '_>, object: &AppliedObject) -> Option<Room<'w>> {
    let id = &object.id;
    if id.cluster.is_some() || id.namespace.is_empty() || world.state.is_live(id) {
        return None;
    }
    let kind = world.state.input.snapshot.type_of(id)?;
    let is_counted = |other: &ObjectId| other.namespace == id.namespace && other.group_kind() == id.group_kind();
    let is_new = |other: &ObjectId| is_counted(other) && !world.state.is_live(other);
    let others: Vec<&Event> =
        world.events.iter().filter(|event| is_counted(&event.id) && !event.is_of(&object.owner)).collect();
    let freed: Vec<&Event> = others.iter().copied().filter(|event| event.is_deleted && event.is_certain).collect();
    let of_others = others.iter().filter(|event| !event.is_deleted && is_new(&event.id)).count() as i64;
    // While one of them is refused, a run applies none.
    let last = world.state.last_pass(&object.owner)?;
    let desired = last.desired_objects().into_iter().flatten();
    let own: Vec<&ObjectId> = desired
        .filter(|(own, built)| is_new(own) && !is_never_applied(built, &last.spec))
        .map(|(own, _)| own)
        .collect();
    let count = own.len() as i64 + of_others;
    let before = own.iter().filter(|own| apply_order(own, id).is_lt()).count() as i64;
    let mut room = Room::Enough(vec![]);
    for fact in world.facts("v1", &["ResourceQuota"])?.iter().filter(|fact| fact.id.namespace == id.namespace) {
        let Some((left, left_after)) = left(fact, kind) else { continue };
        let name = fact.id.name.to_string();
        if count <= left.min(left_after) {
            continue;
        }
        if left_after == left && freed.is_empty() && of_others == 0 {
            if before < left {
                continue;
            }
            let (kind, object) = (&kind.plural, object.built.shown_id());
            return Some(Room::Full(format!("{kind} {:?} is forbidden: exceeded quota: {name}", &*object.name)));
        }
        let events: Vec<&Event> = fact.events.iter().copied().chain(freed.iter().copied()).collect();
        match &mut room {
            Room::Enough(all) if count <= left_after.saturating_add(freed.len() as i64) => all.extend(events),
            _ => room = Room::Unknown(name),
        }
    }
    Some(room)
}

/// Returns how many objects of a kind a quota leaves before and after its change; `None` if it does not count them.
fn left(quota: &Fact<'_>, kind: &ResourceType) -> Option<(i64, i64)> {
    let dotted = if kind.group.is_empty() { String::new() } else { format!(".{}", kind.group) };
    let keys = [format!("count/{}{dotted}", kind.plural), kind.plural.to_string()];
    let [used, limit] = ["/status/used", "/status/hard"].map(|list| {
        let numbers = quota.before.and_then(|before| before.pointer(list))?;
        keys.iter().find_map(|key| numbers.get(key)?.as_str()?.parse::<i64>().ok())
    });
    let used = used.unwrap_or_default();
    let limits = [limit, hard(quota.after, &keys)];
    let is_touched = !quota.events.is_empty();
    match limits {
        [None, None] => None,
        [before, _] if !is_touched => before.map(|limit| (limit - used, limit - used)),
        limits => {
            let [before, after] = limits.map(|limit| limit.map_or(i64::MAX, |limit| limit - used));
            Some((before, after))
        }
    }
}

/// Returns the limit that a quota sets, as a number or as a text.
fn hard(quota: Option<&Value>, keys: &[String]) -> Option<i64> {
    let limits = quota?.pointer("/spec/hard")?;
    let found = keys.iter().find_map(|key| limits.get(key))?;
    found.as_i64().or_else(|| found.as_str()?.parse().ok())
}
