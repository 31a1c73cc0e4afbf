//! Quotas. The server counts one object after the other, so a dry-run of each alone says nothing about several, and
//! nothing about a quota that the change brings.
//!
//! Source: Kubernetes v1.36.3 `apiserver/pkg/admission/plugin/resourcequota` and `pkg/quota/v1/evaluator/core`.

use serde_json::Value;

use super::event::Event;
use super::world::{Fact, World};
use crate::flux::apply::AppliedObject;
use crate::flux::simulation::model::protection::is_never_applied;
use crate::kubernetes::deletion::order::apply_order;
use crate::kubernetes::object::{ObjectId, ResourceType};
use crate::kubernetes::quota::{Scope, amount, counts, is_count, names, number, scopes};

/// Room that quotas leave for an object.
pub(super) enum Room<'w> {
    /// The object can be created after these events.
    Enough(Vec<&'w Event>),
    /// The objects that the same run creates before it use the quota up: the message of the server.
    Full(String),
    /// Name of a quota whose remaining room, or the order of the objects that use it, is not known.
    Unknown(String),
}

/// Objects that are created in a namespace with an object, and those that are deleted there.
struct Crowd<'w> {
    kind: &'w ResourceType,
    id: &'w ObjectId,
    /// New objects that the same run creates, in the order in which it applies them.
    own: Vec<(&'w ObjectId, &'w Value)>,
    /// Manifests of new objects of other owners, as far as they are known.
    others: Vec<Option<&'w Value>>,
    /// Live objects that certainly go.
    freed: Vec<&'w Event>,
    /// Number of live objects.
    live: usize,
}

/// Limits of one resource before and after the change.
struct Limit<'w> {
    name: String,
    /// What the objects that count must be like.
    scopes: Vec<Scope<'w>>,
    used: Option<f64>,
    before: Option<f64>,
    after: Option<f64>,
}

/// Returns what the quotas of its namespace leave for an object that the change creates; `None` if they are not known.
pub(super) fn room<'w>(world: &'w World<'_, '_>, object: &'w AppliedObject) -> Option<Room<'w>> {
    let id = &object.id;
    if id.cluster.is_some() || id.namespace.is_empty() || world.state.is_live(id) {
        return None;
    }
    let crowd = Crowd::of(world, object)?;
    let mut room = Room::Enough(vec![]);
    for fact in world.facts("v1", &["ResourceQuota"])?.iter().filter(|fact| fact.id.namespace == id.namespace) {
        let name = fact.id.name.to_string();
        for limit in limits(fact, &crowd) {
            match crowd.room(&limit) {
                Some(Room::Enough(freed)) => match &mut room {
                    Room::Enough(all) => all.extend(fact.events.iter().copied().chain(freed)),
                    Room::Full(_) | Room::Unknown(_) => {}
                },
                Some(Room::Full(_)) => {
                    let (kind, object) = (&crowd.kind.plural, object.built.shown_id());
                    return Some(Room::Full(format!(
                        "{kind} {:?} is forbidden: exceeded quota: {name}",
                        &*object.name
                    )));
                }
                Some(Room::Unknown(_)) => room = Room::Unknown(name.clone()),
                None => {}
            }
        }
    }
    Some(room)
}

impl<'w> Crowd<'w> {
    fn of(world: &'w World<'_, '_>, object: &'w AppliedObject) -> Option<Self> {
        let id = &object.id;
        let kind = world.state.input.snapshot.type_of(id)?;
        let is_counted = |other: &ObjectId| other.namespace == id.namespace && other.group_kind() == id.group_kind();
        let is_new = |other: &ObjectId| is_counted(other) && !world.state.is_live(other);
        let events = world.events.iter().filter(|event| is_counted(&event.id) && !event.is_of(&object.owner));
        let (deletions, applies): (Vec<&Event>, Vec<&Event>) = events.partition(|event| event.is_deleted);
        let others =
            applies.into_iter().filter(|event| is_new(&event.id)).map(|event| event.manifest().map(|it| &**it));
        // While one of them is refused, a run applies none.
        let last = world.state.last_pass(&object.owner)?;
        let desired = last.desired_objects().into_iter().flatten();
        let new = desired.filter(|(own, built)| is_new(own) && !is_never_applied(built, &last.spec));
        let mut own: Vec<(&ObjectId, &Value)> = new.map(|(own, built)| (own, &*built.manifest)).collect();
        own.sort_by(|(a, _), (b, _)| apply_order(a, b));
        let freed = deletions.into_iter().filter(|event| event.is_certain).collect();
        let live =
            world.state.input.snapshot.objects.iter().filter(|live| live.id.cluster.is_none() && is_counted(&live.id));
        Some(Self { kind, id, own, others: others.collect(), freed, live: live.count() })
    }

    /// Returns what a limit leaves for the object; `None` if the answer of the server counts, or all objects have room
    /// before and after the change.
    fn room(&self, limit: &Limit<'_>) -> Option<Room<'w>> {
        let is_same = limit.before == limit.after && self.freed.is_empty() && self.others.is_empty();
        let amount = |manifest: &Value| {
            if counts(&limit.scopes, self.kind, manifest)? { amount(&limit.name, manifest) } else { Some(0.0) }
        };
        let own: Option<Vec<f64>> = self.own.iter().map(|(_, manifest)| amount(manifest)).collect();
        let others: Option<f64> = self.others.iter().map(|manifest| manifest.and_then(&amount)).sum();
        let Some(((own, others), used)) = own.zip(others).zip(limit.used) else {
            let is_alone = is_same && self.own.len() < 2;
            return (!is_alone).then(|| Room::Unknown(String::new()));
        };
        let [left, left_after] =
            [limit.before, limit.after].map(|limit| limit.map_or(f64::INFINITY, |limit| limit - used));
        let wanted = own.iter().sum::<f64>() + others;
        if wanted <= left.min(left_after) {
            return None;
        }
        if is_same {
            let at = self.own.iter().position(|(own, _)| *own == self.id)?;
            let is_full = own[..=at].iter().sum::<f64>() > left;
            return is_full.then(|| Room::Full(String::new()));
        }
        let freed =
            if is_count(&limit.name, self.kind) && limit.scopes.is_empty() { self.freed.len() as f64 } else { 0.0 };
        Some(if wanted <= left_after + freed { Room::Enough(self.freed.clone()) } else { Room::Unknown(String::new()) })
    }
}

/// Returns the limits of a quota that an object of a crowd uses.
fn limits<'w>(quota: &Fact<'w>, crowd: &Crowd<'_>) -> Vec<Limit<'w>> {
    let scopes = scopes(quota.after.or(quota.before));
    let hard = |content: Option<&Value>, list: &str, name: &str| number(content?, list, name);
    let own = crowd.own.iter().find(|(id, _)| *id == crowd.id).map_or(&Value::Null, |(_, manifest)| *manifest);
    let mut found = vec![];
    for name in names(crowd.kind, own) {
        let is_counted = is_count(&name, crowd.kind) && scopes.is_empty();
        let before = hard(quota.before, "/status/hard", &name);
        let after = if quota.events.is_empty() { before } else { hard(quota.after, "/spec/hard", &name) };
        let used = hard(quota.before, "/status/used", &name).or(is_counted.then_some(crowd.live as f64));
        if before.is_some() || after.is_some() {
            found.push(Limit { name, scopes: scopes.clone(), used, before, after });
        }
    }
    found
}
