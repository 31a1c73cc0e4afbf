//! Quotas and LimitRanges while the change is carried out, and the room that they leave for what another owner than a
//! Kustomization creates. The server counts one object after the other, so a dry-run of each alone says nothing about
//! several.
//!
//! Source: Kubernetes v1.36.3 `apiserver/pkg/admission/plugin/resourcequota/controller.go` (`CheckRequest`): a quota
//! counts once its status has the resource, and refuses what it does not count yet.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::comparison::Comparison;
use crate::flux::build::objects::BuiltObject;
use crate::flux::simulation::model::node::Pass;
use crate::kubernetes::limit_range::bounds;
use crate::kubernetes::object::{GroupKind, ObjectId, ResourceType};
use crate::kubernetes::quota::{Scope, amount, counts, is_count, names, number, scopes};

/// A limit of a quota while the change is carried out, as others than the asking owner make it.
pub(crate) struct QuotaLimit<'r> {
    /// Name of the quota.
    pub(crate) name: String,
    /// Resource that it limits.
    resource: String,
    scopes: Vec<Scope<'r>>,
    /// Amount that is used before the change; `None` if that is not known.
    pub(crate) used: Option<f64>,
    /// The least and the most that it allows at some time.
    pub(crate) least: f64,
    most: f64,
    /// Amount that it certainly allows in the end; `None` if that is not certain.
    pub(crate) last: Option<f64>,
}

/// The objects that an owner creates, and what happens before that.
pub(crate) struct Creation<'c> {
    pub(crate) owner: &'c ObjectId,
    /// Everything that it applies, live objects included.
    pub(crate) manifests: Vec<(&'c ObjectId, &'c Value)>,
    /// Objects that it creates before and deletes again, or may not create.
    pub(crate) passing: Vec<(&'c ObjectId, &'c Value)>,
    /// Live objects that it deletes before.
    pub(crate) gone: &'c BTreeSet<ObjectId>,
    /// It may delete objects of its own in between.
    pub(crate) has_steps: bool,
    /// Its controller tries again until the quotas that it applies count.
    pub(crate) is_retried: bool,
}

/// Room that quotas leave for what an owner creates.
pub(crate) enum Room {
    Enough,
    /// Reason why it may not be enough, as a clause for people.
    Doubtful(String),
    /// Reason why it is not enough, as a clause for people.
    Full(String),
}

/// New objects of one kind in a namespace.
struct Crowd<'c> {
    kind: &'c ResourceType,
    own: Vec<&'c Value>,
    passing: Vec<&'c Value>,
    /// Those of other owners.
    others: Vec<&'c Value>,
    /// Number of live objects.
    live: usize,
    /// Number of those that others delete, or that are deleted before.
    freed: usize,
    /// It is known which of the objects are new.
    is_known: bool,
}

/// Returns the limits of the quotas in the namespace of an object for these resources, as far as they are known.
pub(crate) fn quota_limits<'r>(
    comparison: &mut Comparison<'_, 'r, '_>,
    id: &ObjectId,
    resources: &[String],
) -> Vec<QuotaLimit<'r>> {
    let (state, consequences) = (comparison.state(), comparison.derivation.consequences);
    let all = comparison.ids_of("", "ResourceQuota").into_iter();
    let mut found = vec![];
    for quota in all.filter(|quota| (&quota.namespace, &quota.cluster) == (&id.namespace, &id.cluster)) {
        let live = if state.is_live(&quota) { comparison.content(&quota, "v1").ok().flatten() } else { None };
        let applied = state.applied(&quota);
        let content = applied.last().map(|applied| &*applied.built.manifest).or(live);
        for resource in resources {
            let before = live.map(|live| number(live, "/status/hard", resource));
            let after = applied.iter().map(|applied| number(&applied.built.manifest, "/spec/hard", resource));
            let limits: Vec<f64> =
                before.into_iter().chain(after).map(|limit| limit.unwrap_or(f64::INFINITY)).collect();
            let is_gone = consequences.is_gone(&quota);
            let is_certain =
                applied.iter().all(|applied| !applied.pass.is_optional && applied.pass.condition.is_none());
            let last = if is_gone { Some(f64::INFINITY) } else { limits.last().copied().filter(|_| is_certain) };
            let is_number = state.input.snapshot.type_of(id).is_none_or(|kind| is_count(resource, kind));
            let may_lack = live.is_none() || consequences.may_be_deleted(&quota);
            let most = if may_lack { f64::INFINITY } else { limits.iter().copied().fold(0.0, f64::max) };
            let counted = || state.input.snapshot.ids().filter(|other| is_counted_with(id, other)).count() as f64;
            let used = live.and_then(|live| number(live, "/status/used", resource));
            found.push(QuotaLimit {
                name: quota.name.to_string(),
                resource: resource.clone(),
                scopes: scopes(content),
                used: used.or_else(|| is_number.then(counted)),
                least: limits.into_iter().fold(f64::INFINITY, f64::min),
                most,
                last,
            });
        }
    }
    found
}

/// Returns the room that quotas leave for what an owner creates.
pub(crate) fn room(comparison: &mut Comparison<'_, '_, '_>, creation: &Creation<'_>) -> Room {
    let state = comparison.state();
    let is_limited = |id: &ObjectId, limiting: &BTreeSet<ObjectId>| {
        id.cluster.is_none() && limiting.iter().any(|limit| limit.namespace == id.namespace)
    };
    let mut limiting = comparison.ids_of("", "ResourceQuota");
    limiting.extend(comparison.ids_of("", "LimitRange"));
    limiting.extend(creation.own("ResourceQuota").chain(creation.own("LimitRange")).map(|(id, _)| id.clone()));
    let is_new = |id: &ObjectId| !state.is_live(id) || creation.gone.contains(id);
    let mut groups: BTreeMap<(&str, GroupKind), (&ObjectId, Vec<&Value>)> = BTreeMap::new();
    for (id, manifest) in creation.manifests.iter().filter(|(id, _)| is_new(id) && is_limited(id, &limiting)) {
        groups.entry((&*id.namespace, id.group_kind())).or_insert((id, vec![])).1.push(manifest);
    }
    let rooms = groups.into_values().filter_map(|(id, own)| {
        let kind = state.input.snapshot.type_of(id)?;
        let by_range = creation.limit_range(comparison, id).map_or(Room::Enough, |range| {
            Room::Doubtful(format!("the LimitRange {range} does not allow one of its new {}", kind.plural))
        });
        Some([by_range, creation.crowd(comparison, kind, id, own).room(comparison, creation, id)])
    });
    Room::least(rooms.flatten())
}

/// Returns true if another object counts with one: it has the same kind, and is in the same namespace.
fn is_counted_with(id: &ObjectId, other: &ObjectId) -> bool {
    (other.group_kind(), &other.namespace, &other.cluster) == (id.group_kind(), &id.namespace, &id.cluster)
}

impl Room {
    /// Returns the first room that is not enough, or else the last doubtful one.
    fn least(rooms: impl IntoIterator<Item = Self>) -> Self {
        let mut least = Self::Enough;
        for room in rooms {
            match room {
                Self::Enough => {}
                Self::Full(_) => return room,
                Self::Doubtful(_) => least = room,
            }
        }
        least
    }
}

impl<'c> Creation<'c> {
    /// Returns the objects of a kind of the core group among what it applies.
    fn own(&self, kind: &str) -> impl Iterator<Item = (&'c ObjectId, &'c Value)> {
        self.manifests.iter().copied().filter(move |(id, _)| id.is_here("", kind))
    }

    /// Returns the name of a LimitRange of the change that can refuse a new object.
    fn limit_range(&self, comparison: &mut Comparison<'_, '_, '_>, id: &ObjectId) -> Option<String> {
        let state = comparison.state();
        let is_near = |range: &ObjectId| range.namespace == id.namespace;
        let mut own = self.own("LimitRange").filter(|(range, _)| is_near(range) && !state.is_live(range));
        if let Some((range, _)) = own.find(|(_, manifest)| bounds(manifest, id, true)) {
            return Some(range.name.to_string());
        }
        let mut others = comparison.ids_of("", "LimitRange").into_iter().filter(is_near);
        let refusing = others.find(|range| {
            let applied = state.applied(range);
            applied.iter().any(|applied| bounds(&applied.built.manifest, id, true)) && comparison.is_changed(range)
        });
        refusing.map(|range| range.name.to_string())
    }

    /// Returns the new objects of the kind of an object in its namespace.
    fn crowd<'r: 'c>(
        &self,
        comparison: &Comparison<'_, 'r, '_>,
        kind: &'c ResourceType,
        id: &ObjectId,
        own: Vec<&'c Value>,
    ) -> Crowd<'c> {
        let (state, consequences) = (comparison.state(), comparison.derivation.consequences);
        let is_counted = |other: &ObjectId| is_counted_with(id, other);
        let is_own = |other: &ObjectId| self.manifests.iter().any(|(own, _)| *own == other);
        let passes = state.nodes.iter().flat_map(|node| &node.passes).filter_map(Pass::applied_objects);
        let owners = state.owner_applies().filter(|(owner, _)| *owner != self.owner);
        let all = passes.chain(owners.flat_map(|(_, applies)| applies.steps())).flatten();
        let new = all.filter(|(other, _)| is_counted(other) && !state.is_live(other) && !is_own(other));
        let others: BTreeMap<&ObjectId, &BuiltObject> = new.collect();
        let live: Vec<&ObjectId> = state.input.snapshot.ids().filter(|other| is_counted(other)).collect();
        let freed = live
            .iter()
            .filter(|other| self.gone.contains(**other) || consequences.may_be_deleted_beside(other, Some(self.owner)));
        let passing = self.passing.iter().filter(|(other, _)| is_counted(other) && !state.is_live(other));
        Crowd {
            kind,
            own,
            passing: passing.map(|(_, manifest)| *manifest).collect(),
            others: others.into_values().map(|built| &*built.manifest).collect(),
            live: live.len(),
            freed: freed.count(),
            is_known: state.input.snapshot.gaps_hiding(&id.group_kind()).next().is_none(),
        }
    }
}

impl Crowd<'_> {
    /// Returns the room for the crowd, of whose objects one is given.
    fn room(&self, comparison: &mut Comparison<'_, '_, '_>, creation: &Creation<'_>, id: &ObjectId) -> Room {
        let counted: BTreeSet<String> = self.own.iter().flat_map(|manifest| names(self.kind, manifest)).collect();
        let resources: Vec<String> = counted.into_iter().collect();
        let limits = quota_limits(comparison, id, &resources);
        if let Some(quota) = self.brought_quota(creation, id, &resources, &limits) {
            let plural = &self.kind.plural;
            return Room::Doubtful(format!(
                "the quota {quota}, which it applies too, has no room for its new {plural}"
            ));
        }
        let finite = limits.iter().filter(|limit| limit.least.is_finite());
        Room::least(finite.map(|limit| self.room_in(limit, creation.has_steps)))
    }

    /// Returns the name of a quota of the owner that can refuse the crowd: it does not count yet, or it is another one
    /// than before.
    fn brought_quota<'c>(
        &self,
        creation: &Creation<'c>,
        id: &ObjectId,
        resources: &[String],
        limits: &[QuotaLimit<'_>],
    ) -> Option<&'c str> {
        let can_refuse = |quota: &ObjectId, content: &Value| {
            resources.iter().any(|resource| {
                let Some(hard) = number(content, "/spec/hard", resource) else { return false };
                let wanted = self.used_by(&scopes(Some(content)), resource, &self.own);
                let known = limits.iter().find(|limit| *limit.name == *quota.name && limit.resource == *resource);
                let is_same = known.is_some_and(|limit| limit.least == hard && limit.most == hard);
                let used = known.and_then(|limit| limit.used).unwrap_or(self.live as f64);
                let has_room = creation.is_retried && wanted.is_some_and(|wanted| used + wanted <= hard);
                wanted != Some(0.0) && !is_same && !has_room
            })
        };
        let mut own = creation.own("ResourceQuota").filter(|(quota, _)| quota.namespace == id.namespace);
        own.find(|(quota, content)| can_refuse(quota, content)).map(|(quota, _)| &*quota.name)
    }

    /// Returns how much of a resource objects use in a quota with these scopes; `None` if that is not known.
    fn used_by(&self, scopes: &[Scope<'_>], resource: &str, manifests: &[&Value]) -> Option<f64> {
        let used = manifests
            .iter()
            .map(|manifest| if counts(scopes, self.kind, manifest)? { amount(resource, manifest) } else { Some(0.0) });
        used.sum()
    }

    /// Returns the room that a limit leaves.
    fn room_in(&self, limit: &QuotaLimit<'_>, has_steps: bool) -> Room {
        let QuotaLimit { name, resource, scopes, .. } = limit;
        let used_by = |manifests: &[&Value]| self.used_by(scopes, resource, manifests);
        let plural = &self.kind.plural;
        let doubtful = || Room::Doubtful(format!("the quota {name} has no room for all of its new {plural} by then"));
        let wanted = used_by(&self.own).zip(used_by(&self.passing)).zip(used_by(&self.others));
        let Some((((own, passing), others), used)) = wanted.zip(limit.used) else {
            let is_alone = self.own.len() == 1 && self.passing.is_empty() && self.others.is_empty();
            return if is_alone && limit.least == limit.most { Room::Enough } else { doubtful() };
        };
        // A dry-run tells about a quota that is exceeded already.
        if own == 0.0 || own + passing + others <= limit.least - used {
            return Room::Enough;
        }
        let is_counted = is_count(resource, self.kind) && scopes.is_empty();
        let freed = match self.freed {
            0 => 0.0,
            freed if is_counted => freed as f64,
            _ => f64::INFINITY,
        };
        let is_full = own > limit.most - used + freed && !has_steps && self.is_known;
        if is_full { Room::Full(format!("its new {plural} exceed the quota {name}")) } else { doubtful() }
    }
}
