//! The deleted objects that an object which stays still refers to.
//!
//! An object that stays counts as it is after the change: the manifests of the builds, and live objects where no build has them. A
//! Pod counts for its controller, whose template makes the next one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::kinds::kind::GATEWAY;
use super::reader::is_fixed;
use super::table;
use crate::kubernetes::deletion::finalizers::CLAIM_PROTECTION;
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::kubernetes::referrer::{Reference, Referrer, Usage};
use crate::kubernetes::selector::Selector;
use crate::kubernetes::snapshot::Snapshot;
use crate::text::join_limited;

/// An object that stays, with the use that it makes of a deleted one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct User {
    pub object: ObjectId,
    pub usage: Usage,
}

/// A deleted object that something still refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StillReferenced {
    pub object: ObjectId,
    /// Sorted; for a claim that is created again, only what keeps it.
    pub users: Vec<User>,
    /// Pod on a node that keeps the claim terminating.
    pub kept_by: Option<ObjectId>,
}

/// Number of users that one text names.
const NAMED_USERS: usize = 3;

impl StillReferenced {
    /// Returns what keeps the object or still needs it, for its row: a sentence without its subject, or users with predicates.
    pub(crate) fn remark(&self) -> String {
        match &self.kept_by {
            Some(pod) => format!("kept terminating while Pod {} mounts it", pod.shown().name),
            None => {
                let users: Vec<_> = self.users.iter().map(|user| format!("{} {}", user.object, user.usage)).collect();
                format!("still needed: {}", join_limited(&users, NAMED_USERS))
            }
        }
    }
}

impl fmt::Display for StillReferenced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, which is {}", self.object, self.remark())
    }
}

/// Objects that a plan deletes.
#[derive(Debug, Default)]
pub(crate) struct Departures<'p> {
    /// Deleted for good.
    pub(crate) gone: BTreeSet<&'p ObjectId>,
    /// Deleted, and created again under the same name.
    pub(crate) recreated: BTreeSet<&'p ObjectId>,
}

impl Departures<'_> {
    /// Returns true if an object is deleted for good.
    fn is_gone(&self, id: &ObjectId) -> bool {
        self.gone.contains(id)
    }
}

/// Objects that stay, with their references.
pub(crate) struct Staying<'a> {
    snapshot: &'a Snapshot,
    departures: &'a Departures<'a>,
    /// Objects of the builds, and live objects that no build has and that are not made of a template of a build.
    referrers: Vec<&'a Referrer>,
    /// Controllers of live objects, as a build has them.
    made_by: BTreeMap<&'a ObjectId, &'a Referrer>,
    /// Live Pods on nodes that stay, with those of their claims that are still mounted.
    pods: Vec<(&'a ObjectId, BTreeSet<&'a ObjectId>)>,
    /// Deleted grants of Gateway API.
    grants: Vec<&'a Referrer>,
    /// Live Pods by namespace, where some of them are deleted.
    of_namespaces: BTreeMap<Place<'a>, Vec<&'a ObjectMetadata>>,
}

/// A namespace of a cluster.
type Place<'a> = (Option<&'a Arc<str>>, &'a str);

impl<'a> Staying<'a> {
    /// Joins the objects of the builds with live objects.
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        departures: &'a Departures<'a>,
        built: &'a [Referrer],
        live: impl Iterator<Item = &'a Referrer>,
    ) -> Self {
        let by_id: BTreeMap<&ObjectId, &Referrer> = built.iter().map(|built| (&built.object, built)).collect();
        let live: Vec<&Referrer> = live.collect();
        // A Job that is over needs nothing, nor does a claim that has its volume, unless it is created again.
        let fixed: BTreeMap<&ObjectId, &Referrer> = live
            .iter()
            .filter(|live| is_fixed(&live.object) && !departures.recreated.contains(&live.object))
            .map(|live| (&live.object, *live))
            .collect();
        let grants = live.iter().filter(|it| is_grant(it) && departures.is_gone(&it.object)).copied().collect();
        let built_staying = built.iter().filter(|built| !departures.is_gone(&built.object));
        let mut referrers: Vec<&Referrer> =
            built_staying.map(|built| fixed.get(&built.object).copied().unwrap_or(built)).collect();
        let (mut pods, mut made_by) = (vec![], BTreeMap::new());
        let unbuilt =
            live.into_iter().filter(|live| !departures.is_gone(&live.object) && !by_id.contains_key(&live.object));
        // Of a state that a plan predicts, what was read can be gone already.
        for referrer in unbuilt.filter(|live| snapshot.object(&live.object).is_some()) {
            let controllers = controllers(snapshot, &referrer.object);
            if controllers.iter().any(|controller| departures.is_gone(&controller.id)) {
                continue;
            }
            let mut templates = controllers.iter().filter(|by| table::makes_pods(&by.id.group, &by.id.kind)).peekable();
            if templates.peek().is_none() {
                referrers.push(referrer);
                let of_builds = controllers.iter().find_map(|controller| by_id.get(&controller.id));
                made_by.extend(of_builds.map(|built| (&referrer.object, *built)));
            }
            let of_build = templates.find_map(|controller| by_id.get(&controller.id));
            if referrer.is_scheduled {
                let claims = referrer.references.iter().map(|reference| &reference.to);
                let mounted = claims.filter(|claim| {
                    of_build.is_none_or(|built| {
                        built.references.iter().any(|reference| reference.to == **claim)
                            || built.kept_claims.iter().any(|beginning| claim.name.starts_with(&**beginning))
                    })
                });
                pods.push((&referrer.object, mounted.collect()));
            }
        }
        let mut of_namespaces: BTreeMap<Place<'_>, Vec<&ObjectMetadata>> = BTreeMap::new();
        for id in departures.gone.iter().filter(|id| id.is("", "Pod")) {
            of_namespaces.entry((id.cluster.as_ref(), &*id.namespace)).or_default();
        }
        for (cluster, snapshot) in snapshot.clusters() {
            for pod in snapshot.objects.iter().filter(|object| object.id.is("", "Pod")) {
                if let Some(all) = of_namespaces.get_mut(&(cluster, &*pod.id.namespace)) {
                    all.push(pod);
                }
            }
        }
        Self { snapshot, departures, referrers, made_by, pods, grants, of_namespaces }
    }

    /// Returns the deleted objects that something still refers to, sorted.
    pub(crate) fn still_referenced(&self) -> Vec<StillReferenced> {
        let made: BTreeSet<&ObjectId> = self.referrers.iter().flat_map(|referrer| &referrer.makes).collect();
        let mut users: BTreeMap<&ObjectId, Vec<User>> = BTreeMap::new();
        for referrer in &self.referrers {
            for reference in &referrer.references {
                let to = self.parameters(referrer, reference);
                let gone = self
                    .gone(to.as_ref().unwrap_or(&reference.to))
                    .filter(|id| !made.contains(id) && !self.is_turned(referrer, id));
                if let Some(id) = gone {
                    users.entry(id).or_default().push(User { object: referrer.object.clone(), usage: reference.usage });
                }
            }
            for id in self.selected(referrer) {
                let user = User { object: referrer.object.clone(), usage: Usage::Selects };
                users.entry(id).or_default().push(user);
            }
        }
        for grant in &self.grants {
            let Some(id) = self.departures.gone.get(&grant.object) else { continue };
            let needing = self.referrers.iter().filter(|referrer| self.needs_grant(referrer, grant));
            let granted: Vec<User> =
                needing.map(|referrer| User { object: referrer.object.clone(), usage: Usage::Uses }).collect();
            if !granted.is_empty() {
                users.entry(id).or_default().extend(granted);
            }
        }
        let mut kept: BTreeMap<&ObjectId, &ObjectId> = BTreeMap::new();
        for (pod, claims) in &self.pods {
            for claim in claims.iter().filter(|claim| self.is_protected(claim)) {
                kept.entry(claim).or_insert(pod);
            }
        }
        let all: BTreeSet<&ObjectId> = users.keys().chain(kept.keys()).copied().collect();
        let found = all.into_iter().map(|id| {
            let mut users = users.remove(id).unwrap_or_default();
            users.sort();
            users.dedup();
            StillReferenced { object: id.clone(), users, kept_by: kept.get(id).map(|pod| (*pod).clone()) }
        });
        found.collect()
    }

    /// Returns a deleted object that a reference names. The kind says whether it has a namespace, and the table has not all kinds.
    fn gone(&self, to: &ObjectId) -> Option<&'a ObjectId> {
        let found = self.departures.gone.get(to).or_else(|| {
            let has_namespace = !to.namespace.is_empty();
            let without = has_namespace.then(|| ObjectId::new(&to.group, &to.kind, "", &to.name))?;
            self.departures.gone.get(&without.in_cluster(to.cluster.as_ref()))
        });
        found.copied()
    }

    /// Returns true if the controller of a live object names another object of this group in a build: it turns what it made to
    /// that one. An autoscaler that KEDA makes for a ScaledObject is an example.
    fn is_turned(&self, live: &Referrer, to: &ObjectId) -> bool {
        self.made_by.get(&live.object).is_some_and(|controller| {
            let mut named = controller.references.iter().map(|reference| &reference.to);
            // What it names of the core group is too various.
            !to.group.is_empty() && named.clone().any(|named| named.group == to.group) && named.all(|named| named != to)
        })
    }

    /// Returns the parameters that a binding of an admission policy names without their kind, which the policy says.
    fn parameters(&self, binding: &Referrer, reference: &Reference) -> Option<ObjectId> {
        if !reference.to.kind.is_empty() {
            return None;
        }
        let policy = self.referrers.iter().find(|it| binding.references.iter().any(|to| to.to == it.object))?;
        let kind = &policy.references.iter().find(|kind| kind.to.name.is_empty())?.to;
        let ObjectId { namespace, name, cluster, .. } = &reference.to;
        Some(ObjectId::new(&kind.group, &kind.kind, namespace, name).in_cluster(cluster.as_ref()))
    }

    /// Returns true if an object refers to one of another namespace that a deleted grant allows, and no grant that stays.
    fn needs_grant(&self, referrer: &Referrer, grant: &Referrer) -> bool {
        referrer.references.iter().any(|reference| {
            let mut all = self.referrers.iter().filter(|it| is_grant(it));
            grants(grant, referrer, reference) && !all.any(|other| grants(other, referrer, reference))
        })
    }

    /// Returns true if a claim is deleted and has the finalizer by which Kubernetes keeps it for its Pods.
    fn is_protected(&self, claim: &ObjectId) -> bool {
        let is_deleted = self.departures.is_gone(claim) || self.departures.recreated.contains(claim);
        let live = self.snapshot.object(claim).filter(|_| is_deleted);
        live.is_some_and(|live| live.finalizers.iter().any(|finalizer| &**finalizer == CLAIM_PROTECTION))
    }

    /// Returns the deleted objects whose Pods a selector selects, if it selects no Pod that stays or comes.
    fn selected(&self, referrer: &Referrer) -> BTreeSet<&'a ObjectId> {
        let id = &referrer.object;
        let all = self.of_namespaces.get(&(id.cluster.as_ref(), &*id.namespace));
        let selector = referrer.selector.as_deref().and_then(|text| Selector::parse(text).ok());
        let (Some(all), Some(selector)) = (all, selector) else { return BTreeSet::new() };
        let pods: Vec<_> = all.iter().filter(|pod| selector.matches(&pod.labels)).collect();
        let makes_more = self.referrers.iter().any(|other| {
            other.object.namespace == id.namespace
                && other.object.cluster == id.cluster
                && !other.pod_labels.is_empty()
                && selector.matches(&other.pod_labels)
        });
        if makes_more || !pods.iter().all(|pod| self.departures.is_gone(&pod.id)) {
            return BTreeSet::new();
        }
        pods.into_iter().filter_map(|pod| self.outermost_gone(pod)).collect()
    }

    /// Returns the outermost controller of a deleted Pod that is deleted too, or the Pod.
    fn outermost_gone(&self, pod: &ObjectMetadata) -> Option<&'a ObjectId> {
        let all = controllers(self.snapshot, &pod.id);
        let ids = all.iter().rev().map(|controller| &controller.id).chain([&pod.id]);
        ids.into_iter().find_map(|id| self.departures.gone.get(id).copied())
    }
}

fn is_grant(referrer: &Referrer) -> bool {
    referrer.object.is(GATEWAY, "ReferenceGrant")
}

/// Returns true if a grant allows a reference. A route needs none for its Gateway, which says itself which routes it has.
fn grants(grant: &Referrer, referrer: &Referrer, reference: &Reference) -> bool {
    let own = &grant.object;
    &*referrer.object.group == GATEWAY
        && referrer.object.cluster == own.cluster
        && referrer.object.namespace != own.namespace
        && reference.to.namespace == own.namespace
        && has_side(grant, &referrer.object)
        && has_side(grant, &reference.to)
}

/// Returns true if a grant names an object, or all of its kind in its namespace.
fn has_side(grant: &Referrer, id: &ObjectId) -> bool {
    let mut sides = grant.references.iter().map(|side| &side.to);
    sides.any(|side| {
        (&side.group, &side.kind, &side.namespace) == (&id.group, &id.kind, &id.namespace)
            && (side.name.is_empty() || side.name == id.name)
    })
}

/// Returns the controllers of a live object, the nearest first.
fn controllers<'a>(snapshot: &'a Snapshot, id: &ObjectId) -> Vec<&'a ObjectMetadata> {
    let (mut found, mut next) = (vec![], snapshot.object(id));
    while let Some(object) = next {
        let by = object.owner_references.iter().find(|reference| reference.controller);
        next = by.and_then(|reference| snapshot.referenced(object, reference));
        next = next.filter(|object| found.iter().all(|known: &&ObjectMetadata| known.id != object.id));
        found.extend(next);
    }
    found
}
