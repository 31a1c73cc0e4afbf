//! Quotas for numbers of objects. The server counts one object after the other, so a dry-run of each alone says nothing about
//! several.
//!
//! Source: Kubernetes v1.36.3 `apiserver/pkg/admission/plugin/resourcequota` and `pkg/quota/v1/evaluator/core`.

use serde_json::Value;

use super::event::Event;
use super::world::{Fact, World};
use crate::flux::apply::AppliedObject;
use crate::kubernetes::deletion::order::apply_order;
use crate::kubernetes::object::ResourceType;

/// What the quotas leave for an object.
pub(super) enum Room<'w> {
    /// The object can be created after these events.
    Enough(Vec<&'w Event>),
    /// The objects that the same run creates before it use the quota up: the message of the server.
    Full(String),
    /// Which objects come first, or how much is left, is not known; the name of the quota.
    Unknown(String),
}

/// Returns what the quotas of its namespace leave for an object that the change creates; `None` if they are not known.
pub(super) fn room<'w>(world: &'w World<'_, '_>, object: &AppliedObject) -> Option<Room<'w>> {
    let id = &object.id;
    if id.cluster.is_some() || id.namespace.is_empty() || world.state.live_object(id).is_some() {
        return None;
    }
    let kind = world.state.input.snapshot.type_of(id)?;
    let is_counted = |event: &&Event| event.id.namespace == id.namespace && event.id.group_kind() == id.group_kind();
    let touching: Vec<&Event> = world.events.iter().filter(is_counted).collect();
    let is_live = |event: &Event| world.state.live_object(&event.id).is_some();
    let created: Vec<&Event> = touching.iter().copied().filter(|event| !event.is_deleted && !is_live(event)).collect();
    let freed: Vec<&Event> = touching
        .iter()
        .copied()
        .filter(|event| event.is_deleted && event.is_certain && !event.is_of(&object.owner))
        .collect();
    let is_own = created.iter().all(|event| event.is_of(&object.owner));
    let before = created.iter().filter(|event| apply_order(&event.id, id).is_lt()).count() as i64;
    let mut room = Room::Enough(vec![]);
    for fact in world.facts("v1", &["ResourceQuota"])?.iter().filter(|fact| fact.id.namespace == id.namespace) {
        let Some((left, left_after)) = left(fact, kind) else { continue };
        let name = fact.id.name.to_string();
        let (count, freed_count) = (created.len() as i64, freed.len() as i64);
        if count <= left.min(left_after) {
            continue;
        }
        if left_after == left && freed.is_empty() && is_own {
            if before < left {
                continue;
            }
            let (kind, object) = (&kind.plural, object.built.shown_id());
            return Some(Room::Full(format!("{kind} {:?} is forbidden: exceeded quota: {name}", &*object.name)));
        }
        let events: Vec<&Event> = fact.events.iter().copied().chain(freed.iter().copied()).collect();
        match &mut room {
            Room::Enough(all) if count <= left_after.saturating_add(freed_count) => all.extend(events),
            _ => room = Room::Unknown(name),
        }
    }
    Some(room)
}

/// Returns how many objects of a kind a quota leaves before and after its change; `None` if it does not count them.
fn left(quota: &Fact<'_>, kind: &ResourceType) -> Option<(i64, i64)> {
    let dotted = if kind.group.is_empty() { String::new() } else { format!(".{}", kind.group) };
    let keys = [format!("count/{}{dotted}", kind.plural), kind.plural.to_string()];
    let number = |value: Option<&Value>, list: &str| {
        let mut found = keys.iter().filter_map(|key| value?.pointer(list)?.get(key)?.as_str()?.parse::<i64>().ok());
        found.next()
    };
    let used = number(quota.before, "/status/used").unwrap_or_default();
    let limits = [number(quota.before, "/status/hard"), hard(quota.after, &keys)];
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
