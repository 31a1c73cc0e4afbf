//! The order in which owners are removed: what must be gone before something else is deleted.
//!
//! Each owner is removed as a whole, by the patch that takes its manifest out of Git or by hand, after everything that needs what it
//! has. Objects that wait for a controller which their own owner runs go a step earlier. Nothing of this is believed: the
//! plans of the steps judge the order.

use std::collections::{BTreeMap, BTreeSet};

use super::callers::{Caller, callers};
use super::finalizers;
use crate::flux::apply::cause::is_right;
use crate::flux::apply::rights::RBAC;
use crate::flux::controllers::foreign_finalizers;
use crate::flux::guard::is_owner_kind;
use crate::flux::handover::claims_of_set;
use crate::flux::spec::{KustomizationSpec, NamespacedName, named_account};
use crate::kubernetes::deletion::volumes::CLAIM;
use crate::kubernetes::object::{ObjectId, ObjectMetadata, Resource, ResourceType};
use crate::kubernetes::referrer::{Referrer, Usage};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::index::{Index, Owner};
use crate::ownership::scheme::hub::{Access, HubTarget};
use crate::ownership::schemes::flux;
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND};
use crate::ownership::{Members, OwnerId, OwnershipStatus};
use crate::plan::grave::is_protected_namespace;
use crate::plan::mask::SecretMask;

/// An object and the rule by which there is no order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoOrder {
    pub object: Box<ObjectId>,
    /// A sentence about the object.
    pub rule: String,
    pub hint: Option<String>,
}

impl NoOrder {
    pub(super) fn new(object: &ObjectId, rule: impl Into<String>) -> Self {
        Self { object: Box::new(object.clone()), rule: rule.into(), hint: None }
    }

    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Returns the same with placeholders in place of values of Secrets.
    #[must_use]
    pub fn masked(self, secrets: &SecretMask) -> Self {
        let object = Box::new(secrets.written(&self.object));
        Self { object, rule: secrets.mask(&self.rule), hint: self.hint.map(|hint| secrets.mask(&hint)) }
    }
}

/// The way in which something is removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// The manifest leaves the tree of this Kustomization, which prunes the object.
    Git(NamespacedName),
    #[default]
    ByHand,
}

/// Objects that are removed at once, and those that are deleted with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unit {
    pub way: Way,
    /// Objects that are removed.
    pub removes: BTreeSet<ObjectId>,
    /// Live objects that are deleted with them, themselves included.
    pub takes: BTreeSet<ObjectId>,
}

/// Units in the order of their removal.
#[derive(Debug, Default)]
pub struct Order {
    /// Owners that are removed, sorted.
    pub owners: BTreeSet<OwnerId>,
    /// Steps, each with the units that are removed at once.
    pub steps: Vec<Vec<Unit>>,
    /// Kustomizations whose deletion would leave their objects behind.
    pub keeping: BTreeSet<ObjectId>,
    /// Claims that are not deleted with the Pods that mount them, or with their StatefulSet, which need not have Pods.
    pub(super) claims: BTreeSet<ObjectId>,
    /// Live objects without which an owner may leave its objects behind when it is deleted: its account, what may give that its
    /// rights, and what says how to reach its cluster.
    pub(super) needs: BTreeMap<ObjectId, BTreeSet<ObjectId>>,
    /// Live objects because of which the API server calls workloads.
    pub(super) callers: Vec<Caller>,
}

/// Names of the accounts of owners that name none, by the kind of the owners: `--default-service-account` of their controllers.
pub type DefaultAccounts = BTreeMap<String, String>;

impl Order {
    /// Returns true if an object is deleted with a unit.
    pub(super) fn takes(&self, id: &ObjectId) -> bool {
        self.steps.iter().flatten().any(|unit| unit.takes.contains(id))
    }
}

/// Orders the removal of owners and namespaces. `referrers` are live objects with what they need, `served` are finalizers that
/// something outside of the cluster serves, and `accounts` those of owners that name none.
///
/// Fails with an object and the rule that prevents every order.
pub fn order(
    targets: &BTreeSet<ObjectId>,
    snapshot: &Snapshot,
    referrers: &[Referrer],
    served: &BTreeSet<String>,
    accounts: &DefaultAccounts,
) -> Result<Order, NoOrder> {
    let index = Index::build(snapshot);
    let mut units = Units {
        snapshot,
        index: &index,
        units: vec![],
        owners: BTreeSet::new(),
        edges: BTreeMap::new(),
        claims: BTreeSet::new(),
        accounts,
        needs: BTreeMap::new(),
    };
    units.add_owners(targets)?;
    units.add_namespaces(targets)?;
    units.split_waiting_objects(served)?;
    units.add_edges(referrers)?;
    let keeping = units.keeping()?;
    let owners = units.owners.iter().filter_map(|id| index.owner_of_object(id)).map(|owner| owner.id.clone()).collect();
    let (claims, needs) = (std::mem::take(&mut units.claims), std::mem::take(&mut units.needs));
    Ok(Order { owners, keeping, claims, needs, callers: callers(referrers), steps: units.layers()? })
}

/// Units so far, and which of them must be gone before another one.
struct Units<'a> {
    snapshot: &'a Snapshot,
    index: &'a Index<'a>,
    units: Vec<Unit>,
    /// Objects of the owners that are removed.
    owners: BTreeSet<ObjectId>,
    /// The unit that must be gone, the one that goes later, and why, for people.
    edges: BTreeMap<(usize, usize), String>,
    claims: BTreeSet<ObjectId>,
    accounts: &'a DefaultAccounts,
    needs: BTreeMap<ObjectId, BTreeSet<ObjectId>>,
}

fn listed<'o>(owner: &'o Owner<'_>) -> impl Iterator<Item = &'o ObjectId> {
    let members = match &owner.members {
        Members::Listed(members) => &members[..],
        _ => &[],
    };
    members.iter()
}

impl<'a> Units<'a> {
    /// Adds the owners among the targets, those in the namespaces among them, and the owners that they manage.
    fn add_owners(&mut self, targets: &BTreeSet<ObjectId>) -> Result<(), NoOrder> {
        let mut queue: Vec<(Option<&Owner<'_>>, &ObjectId)> =
            self.snapshot.ids().filter(|id| is_meant(id, targets)).map(|id| (None, id)).collect();
        while let Some((listing, id)) = queue.pop() {
            let Some(owner) = self.index.owner_of_object(id) else { continue };
            if self.snapshot.object(id).is_none() {
                continue;
            }
            if let Some(listing) = listing.filter(|_| !is_meant(id, targets)) {
                ensure_own(self.index, &listing.id, id)?;
            }
            if self.owners.insert(id.clone()) {
                queue.extend(listed(owner).map(|id| (Some(owner), id)));
            }
        }
        let mut below: BTreeMap<ObjectId, ObjectId> = BTreeMap::new();
        for id in self.owners.clone() {
            let manager = self.manager(&id);
            match manager {
                Some(parent) if parent.is_here(GROUP, KIND) => {
                    let way = Way::Git(NamespacedName::of(&parent));
                    self.add_owner(&id, way);
                }
                None => self.add_owner(&id, Way::ByHand),
                Some(parent) if self.owners.contains(&parent) => drop(below.insert(id, parent)),
                Some(parent) => {
                    let rule = format!("{parent} makes it, and makes it again once it is deleted");
                    return Err(NoOrder::new(&id, rule).hint(format!("remove it from what {parent} generates")));
                }
            }
        }
        // What another owner than a Kustomization makes goes with it.
        for (id, parent) in &below {
            let (mut top, mut seen) = (parent, BTreeSet::new());
            while let Some(next) = below.get(top) {
                // Whoever writes their lists can let them list each other.
                if !seen.insert(top) {
                    return Err(NoOrder::new(
                        id,
                        format!("it is in a circle of owners that list each other, with {top}"),
                    ));
                }
                top = next;
            }
            let takes = self.taken_by(id);
            let unit = self.units.iter_mut().find(|unit| unit.removes.contains(top));
            unit.into_iter().for_each(|unit| unit.takes.extend(takes.clone()));
        }
        Ok(())
    }

    /// Returns the owner that applies an object, other than itself.
    fn manager(&self, id: &ObjectId) -> Option<ObjectId> {
        let owners = self.index.recorded_by(id).iter().filter(|owner| !owner.is_object(id));
        owners.filter_map(|owner| self.index.owner(owner)?.object).map(|object| object.id.clone()).next()
    }

    fn add_owner(&mut self, id: &ObjectId, way: Way) {
        let takes = self.taken_by(id);
        self.units.push(Unit { way, removes: BTreeSet::from([id.clone()]), takes });
    }

    /// Returns an owner with its live objects, without the owners among them: they have units of their own.
    fn taken_by(&self, id: &ObjectId) -> BTreeSet<ObjectId> {
        let members = self.index.owner_of_object(id).into_iter().flat_map(listed);
        let own = members.filter(|id| self.snapshot.object(id).is_some() && !self.owners.contains(*id));
        own.chain([id]).cloned().collect()
    }

    /// Adds the namespaces among the targets, after what other owners have in them.
    fn add_namespaces(&mut self, targets: &BTreeSet<ObjectId>) -> Result<(), NoOrder> {
        for namespace in targets.iter().filter(|id| id.is_here("", "Namespace")) {
            if is_protected_namespace(namespace) {
                let hint = "name the owners in it that are to go";
                return Err(NoOrder::new(namespace, "this namespace is never deleted").hint(hint));
            }
            let mut loose: BTreeMap<Way, BTreeSet<ObjectId>> = BTreeMap::new();
            let content = self.snapshot.ids().filter(|id| id.namespace_object() == *namespace);
            for id in content.filter(|id| self.unit_of(id).is_none()) {
                match self.manager(id) {
                    Some(parent) if parent.is_here(GROUP, KIND) => {
                        loose.entry(Way::Git(NamespacedName::of(&parent))).or_default().insert(id.clone());
                    }
                    Some(parent) => {
                        let rule = format!("{parent}, which stays, manages it in {namespace}");
                        return Err(NoOrder::new(id, rule).hint(hint_to_retire(&parent)));
                    }
                    None => {}
                }
            }
            let units = loose.into_iter().map(|(way, removes)| Unit { way, takes: removes.clone(), removes });
            self.units.extend(units.collect::<Vec<_>>());
            if self.unit_of(namespace).is_none() {
                let way = match self.manager(namespace) {
                    Some(parent) if parent.is_here(GROUP, KIND) => Way::Git(NamespacedName::of(&parent)),
                    Some(parent) => return Err(made_by(namespace, &parent)),
                    None => Way::ByHand,
                };
                let removes = BTreeSet::from([namespace.clone()]);
                self.units.push(Unit { way, takes: removes.clone(), removes });
            }
        }
        Ok(())
    }

    /// Returns the unit that takes an object along: its own, or that of the objects that control it.
    fn unit_of(&self, id: &ObjectId) -> Option<usize> {
        let mut seen = BTreeSet::new();
        let mut next = Some(id.clone());
        while let Some(id) = next.filter(|id| seen.insert(id.clone())) {
            if let Some(at) = self.units.iter().position(|unit| unit.takes.contains(&id)) {
                return Some(at);
            }
            let object = self.snapshot.object(&id);
            next = object
                .and_then(|object| Some(self.snapshot.referenced(object, object.controller_reference()?)?.id.clone()));
        }
        None
    }

    /// Moves the objects whose finalizers a workload of the same unit serves to a unit that goes before. What nobody manages and
    /// would wait in vain is deleted by hand before.
    fn split_waiting_objects(&mut self, served: &BTreeSet<String>) -> Result<(), NoOrder> {
        let mut early: BTreeMap<(usize, Way), BTreeSet<ObjectId>> = BTreeMap::new();
        let waiting = self.snapshot.objects.iter().filter(|object| foreign_finalizers(object).next().is_some());
        for object in waiting {
            let own = self.unit_of(&object.id);
            // What an owner manages that stays is refused with its namespace or its definition.
            let of_container = self.container_unit(object).filter(|_| self.manager(&object.id).is_none());
            let Some(at) = own.or(of_container) else { continue };
            let Some(serving) = self.serving_unit(object, served)? else { continue };
            if own.is_some_and(|own| own != serving) {
                self.add_edge(Some(at), serving, || waits_for_finalizer(&object.id));
                continue;
            }
            if own.is_none() {
                self.ensure_container_goes(object)?;
            }
            let root = self.controlling_root(object);
            let way = match self.manager(&root) {
                Some(parent) if parent.is_here(GROUP, KIND) => Way::Git(NamespacedName::of(&parent)),
                Some(parent) => {
                    if let Some(owner) = self.index.owner_of_object(&parent) {
                        ensure_own(self.index, &owner.id, &root)?;
                    }
                    Way::ByHand
                }
                None => Way::ByHand,
            };
            if self.owners.contains(&root) {
                return Err(NoOrder::new(&root, "its controller goes with what it manages"));
            }
            early.entry((serving, way)).or_default().insert(root);
        }
        for ((serving, way), removes) in early {
            for unit in &mut self.units {
                unit.takes.retain(|id| !removes.contains(id));
            }
            self.add_edge(Some(self.units.len()), serving, || {
                removes.first().map(waits_for_finalizer).unwrap_or_default()
            });
            self.units.push(Unit { way, takes: removes.clone(), removes });
        }
        Ok(())
    }

    /// Returns the outermost object that controls an object.
    fn controlling_root(&self, object: &ObjectMetadata) -> ObjectId {
        let mut root = object;
        for _ in 0..8 {
            let above = root.controller_reference().and_then(|reference| self.snapshot.referenced(root, reference));
            match above {
                Some(above) => root = above,
                None => break,
            }
        }
        root.id.clone()
    }

    /// Returns the unit that deletes the namespace or the definition of an object that nobody manages.
    fn container_unit(&self, object: &ObjectMetadata) -> Option<usize> {
        self.containers(object).find_map(|id| self.units.iter().position(|unit| unit.takes.contains(&id)))
    }

    /// Returns the namespace and the definition of an object.
    fn containers(&self, object: &ObjectMetadata) -> impl Iterator<Item = ObjectId> + use<> {
        let definition = self.snapshot.type_of(&object.id).map(ResourceType::definition);
        [Some(object.id.namespace_object()), definition].into_iter().flatten()
    }

    /// Checks that the owners which list the namespace or the definition of an object have it, because the object is deleted by hand
    /// for this.
    ///
    /// Fails if only their lists say so.
    fn ensure_container_goes(&self, object: &ObjectMetadata) -> Result<(), NoOrder> {
        let left = self.containers(object).filter(|id| !self.units.iter().any(|unit| unit.removes.contains(id)));
        for container in left {
            let listing = self.index.recorded_by(&container).iter();
            let removed = listing.filter(|owner| self.owners.iter().any(|id| owner.is_object(id)));
            let checks: Vec<_> = removed.map(|owner| ensure_own(self.index, owner, &container)).collect();
            if checks.iter().all(Result::is_err) {
                checks.into_iter().collect::<Result<Vec<()>, _>>()?;
            }
        }
        Ok(())
    }

    /// Returns the unit with all workloads that serve the finalizers of an object; `None` if one of them stays.
    ///
    /// Fails if nothing is known to serve a finalizer.
    fn serving_unit(&self, object: &ObjectMetadata, served: &BTreeSet<String>) -> Result<Option<usize>, NoOrder> {
        let Some(finalizer) = foreign_finalizers(object).find(|finalizer| !served.contains(*finalizer)) else {
            return Ok(None);
        };
        let servers = finalizers::servers(object, self.index);
        if servers.is_empty() {
            let rule = format!("it has the finalizer {finalizer}, and no workload is known that removes it");
            let hint = format!(
                "it would stay Terminating: if something outside of the cluster removes it, pass --served {finalizer}"
            );
            return Err(NoOrder::new(&object.id, rule).hint(hint));
        }
        let units: Vec<Option<usize>> = servers.iter().map(|server| self.unit_of(server)).collect();
        Ok(if units.contains(&None) { None } else { units[0] })
    }

    /// Orders a unit before another one. The first reason is kept.
    fn add_edge(&mut self, first: Option<usize>, then: usize, why: impl FnOnce() -> String) {
        if let Some(first) = first.filter(|first| *first != then) {
            self.edges.entry((first, then)).or_insert_with(why);
        }
    }

    /// Adds what must be gone before what.
    fn add_edges(&mut self, referrers: &[Referrer]) -> Result<(), NoOrder> {
        for at in 0..self.units.len() {
            for id in self.units[at].takes.clone() {
                if id.is_here("apiextensions.k8s.io", "CustomResourceDefinition") {
                    self.add_content(&id, at, |snapshot, other| {
                        snapshot.type_of(other).is_some_and(|kind| *kind.resource() == *id.name)
                    })?;
                } else if id.is_here("apps", "StatefulSet") {
                    let own: Vec<&ObjectId> = claims_of_set(&id, self.snapshot).map(|(_, _, claim)| claim).collect();
                    let loose: Vec<ObjectId> =
                        own.into_iter().filter(|claim| self.unit_of(claim).is_none()).cloned().collect();
                    self.claims.extend(loose);
                } else if id.is_here("", "Namespace") {
                    self.add_content(&id, at, |_, other| other.namespace_object() == id)?;
                }
            }
            // Owners go after what they own, and after what an earlier unit takes out of them.
            if let Way::Git(parent) = self.units[at].way.clone() {
                let parent = ObjectId::new(GROUP, KIND, &parent.namespace, &parent.name);
                if let Some(then) = self.unit_of(&parent) {
                    self.add_edge(Some(at), then, || "the other must remove it".to_owned());
                }
            }
        }
        for owner in self.owners.clone() {
            self.add_needs_of(&owner);
        }
        for referrer in referrers {
            let needs = referrer.references.iter().filter(|it| matches!(it.usage, Usage::Calls | Usage::Mounts));
            for needed in needs {
                match self.unit_of(&needed.to) {
                    Some(then) => {
                        let first = self.unit_of(&referrer.object);
                        self.add_edge(first, then, || format!("{} uses {}", referrer.object, needed.to));
                    }
                    None if needed.to.is_here("", CLAIM) && self.unit_of(&referrer.object).is_some() => {
                        self.claims.insert(needed.to.clone());
                    }
                    None => {}
                }
            }
        }
        for Caller { object, service, workloads } in callers(referrers) {
            for then in workloads.iter().filter_map(|workload| self.unit_of(workload)).collect::<Vec<_>>() {
                self.add_edge(self.unit_of(&object), then, || {
                    format!("{object} calls {service}, which sends requests to its Pods")
                });
            }
        }
        // Last, because these are left out where they contradict what is certain.
        for owner in self.owners.clone() {
            self.add_rights_of(&owner);
        }
        Ok(())
    }

    /// Orders the content of a namespace or a definition before it.
    ///
    /// Fails if an owner that stays manages some of it.
    fn add_content(
        &mut self,
        container: &ObjectId,
        then: usize,
        is_in: impl Fn(&Snapshot, &ObjectId) -> bool,
    ) -> Result<(), NoOrder> {
        let snapshot = self.snapshot;
        for object in snapshot.objects.iter().filter(|object| is_in(snapshot, &object.id)) {
            if let Some(first) = self.unit_of(&object.id) {
                self.add_edge(Some(first), then, || "the other would take it along".to_owned());
            } else if let OwnershipStatus::Managed(owner) = self.index.status(object) {
                let rule = format!("{owner}, which stays, manages it, and {container} takes it along");
                let manager = self.index.owner(&owner).and_then(|owner| owner.object);
                let no_order = NoOrder::new(&object.id, rule);
                return Err(match manager {
                    Some(manager) => no_order.hint(hint_to_retire(&manager.id)),
                    None => no_order,
                });
            }
        }
        Ok(())
    }

    /// Orders an owner before what it depends on and what its finalizer needs.
    fn add_needs_of(&mut self, owner: &ObjectId) {
        let Some(live) = self.snapshot.resource(owner) else { return };
        let mut needs: BTreeSet<ObjectId> = self.account_of(live).into_iter().chain(access_of(live)).collect();
        self.needs.insert(owner.clone(), needs.clone());
        if owner.is_here(GROUP, KIND) {
            let depends_on = KustomizationSpec::of(live).depends_on(&owner.namespace).into_iter();
            needs.extend(depends_on.map(|key| ObjectId::new(GROUP, KIND, &key.namespace, &key.name)));
        }
        for needed in needs {
            if let Some(then) = self.unit_of(&needed) {
                self.add_edge(self.unit_of(owner), then, || "it needs the other".to_owned());
            }
        }
    }

    /// Returns the service account as which a controller deletes the objects of an owner; `None` for its own, and for one of another
    /// cluster. kustomize-controller looks for the account in its own cluster even then (fluxcd/pkg runtime/client
    /// `CanImpersonate` in impersonator.go); helm-controller does not (v1.6.3 `reconcileDelete` in helmrelease_controller.go).
    fn account_of(&self, owner: &Resource) -> Option<ObjectId> {
        let id = &owner.object.id;
        let is_remote = owner.at("/spec/kubeConfig").is_some_and(|config| !config.is_null());
        if !is_owner_kind(&id.group_kind()) || (is_remote && !id.is_here(GROUP, KIND)) {
            return None;
        }
        let named = named_account(owner.spec());
        let name = named.or(self.accounts.get(&*id.kind).map(String::as_str))?;
        Some(ObjectId::new("", "ServiceAccount", &id.namespace, name))
    }

    /// Orders an owner that acts as a service account before the roles and bindings that may give the account its rights: without them
    /// the server refuses each of its deletions. Whom a binding names is not in the snapshot, so that two owners may seem to need
    /// something of each other; then the second does not wait for the first.
    fn add_rights_of(&mut self, owner: &ObjectId) {
        let Some(live) = self.snapshot.resource(owner).filter(|live| self.account_of(live).is_some()) else { return };
        let own: BTreeSet<&ObjectId> =
            self.index.owner_of_object(&live.object.id).into_iter().flat_map(listed).collect();
        let rights = self
            .snapshot
            .ids()
            .filter(|id| &*id.group == RBAC && !own.contains(id))
            .filter(|id| own.iter().any(|member| is_right(id, member)));
        for right in rights.cloned().collect::<Vec<_>>() {
            let (Some(first), Some(then)) = (self.unit_of(owner), self.unit_of(&right)) else { continue };
            if !self.goes_before(then, first) {
                self.add_edge(Some(first), then, || {
                    format!("{right} may give its service account the rights that it needs")
                });
            }
            self.needs.entry(owner.clone()).or_default().insert(right);
        }
    }

    /// Returns true if a unit must be gone before another one, directly or because of units between them.
    fn goes_before(&self, first: usize, then: usize) -> bool {
        let (mut reached, mut queue) = (BTreeSet::new(), vec![first]);
        while let Some(at) = queue.pop() {
            let next = self.edges.keys().filter(|(before, _)| *before == at).map(|(_, after)| *after);
            queue.extend(next.filter(|after| reached.insert(*after)));
        }
        reached.contains(&then)
    }

    /// Returns the Kustomizations whose deletion would leave their objects behind.
    ///
    /// Fails for one that is suspended, of which nothing would be deleted, and for one that would remove what leaves Git.
    fn keeping(&self) -> Result<BTreeSet<ObjectId>, NoOrder> {
        let mut keeping = BTreeSet::new();
        for unit in &self.units {
            let Way::Git(parent) = &unit.way else { continue };
            let parent = ObjectId::new(GROUP, KIND, &parent.namespace, &parent.name);
            let is_suspended = self.snapshot.resource(&parent).is_some_and(|live| live.flag("/spec/suspend"));
            if let Some(object) = unit.removes.first().filter(|_| is_suspended && !self.owners.contains(&parent)) {
                let rule = format!("{parent} is suspended, and removes nothing that leaves Git");
                return Err(NoOrder::new(object, rule).hint(hint_to_resume(&parent)));
            }
        }
        for id in &self.owners {
            let Some(live) = self.snapshot.resource(id) else { continue };
            let is_kustomization = id.is_here(GROUP, KIND);
            if live.flag("/spec/suspend") {
                let rule = "it is suspended, and its deletion would leave its objects behind";
                return Err(NoOrder::new(id, rule).hint(hint_to_resume(id)));
            }
            if is_kustomization && KustomizationSpec::of(live).finalizer_deletes(true).is_err() {
                keeping.insert(id.clone());
            }
        }
        Ok(keeping)
    }

    /// Returns the units in steps: each as early as what must be gone before allows.
    ///
    /// Fails if some need each other.
    fn layers(mut self) -> Result<Vec<Vec<Unit>>, NoOrder> {
        let (mut steps, mut left): (Vec<Vec<Unit>>, BTreeSet<usize>) = (vec![], (0..self.units.len()).collect());
        while !left.is_empty() {
            let open = self.edges.keys().filter(|(first, _)| left.contains(first));
            let waiting: BTreeSet<usize> = open.map(|(_, then)| *then).collect();
            let ready: Vec<usize> = left.difference(&waiting).copied().collect();
            if ready.is_empty() {
                return Err(self.circle(&left));
            }
            left.retain(|at| !ready.contains(at));
            steps.push(ready.into_iter().map(|at| std::mem::take(&mut self.units[at])).collect());
        }
        Ok(steps)
    }

    /// Returns one of these units that must be gone before another one.
    fn awaited(&self, then: usize, left: &BTreeSet<usize>) -> Option<usize> {
        let mut edges = self.edges.keys().filter(|(first, other)| *other == then && left.contains(first));
        edges.next().map(|(first, _)| *first)
    }

    /// Says which of these units must be gone before each other, and why. Each of them waits for another one.
    fn circle(&self, left: &BTreeSet<usize>) -> NoOrder {
        let mut path: Vec<usize> = left.first().copied().into_iter().collect();
        while let Some(first) = path.last().and_then(|at| self.awaited(*at, left)).filter(|first| !path.contains(first))
        {
            path.push(first);
        }
        let closing = path.last().and_then(|at| self.awaited(*at, left));
        let mut circle = path.split_off(path.iter().position(|at| Some(*at) == closing).unwrap_or_default());
        circle.reverse();
        let named =
            |at: usize| self.units[at].removes.first().cloned().unwrap_or_else(|| ObjectId::new("", "", "", ""));
        let rules: Vec<String> = circle
            .iter()
            .zip(circle.iter().cycle().skip(1))
            .map(|(first, then)| {
                let why = &self.edges[&(*first, *then)];
                format!("{} must be gone before {}, because {why}", named(*first), named(*then))
            })
            .collect();
        NoOrder::new(&named(circle[0]), format!("no order is possible: {}", rules.join("; ")))
    }
}

/// Checks that a list which tenants can write decides alone about nothing that is deleted by hand: an object in another namespace
/// than its owner must name the owner too.
///
/// Fails with the object that does not.
pub fn ensure_own(index: &Index<'_>, owner: &OwnerId, id: &ObjectId) -> Result<(), NoOrder> {
    let Some(object) = index.snapshot().object(id).filter(|_| *id.namespace != *owner.namespace) else { return Ok(()) };
    let claims = index.all_resolved_claims(object, index.recorded_by(id));
    if claims.iter().any(|found| found.claim.owner == *owner) {
        return Ok(());
    }
    let rule = format!(
        "{owner} lists it, but its labels do not name that owner: whoever may write in namespace {} can list anything",
        owner.namespace
    );
    Err(NoOrder::new(id, rule).hint("if it is to go too, name it, or delete it by hand first"))
}

/// Returns true for a target, and for an object in a namespace that is one.
fn is_meant(id: &ObjectId, targets: &BTreeSet<ObjectId>) -> bool {
    targets.contains(id) || targets.contains(&id.namespace_object())
}

/// Returns the Secret or ConfigMap that says how to reach the cluster of an owner's objects.
fn access_of(owner: &Resource) -> Option<ObjectId> {
    match flux::target(owner.spec(), &owner.object.id.namespace) {
        HubTarget::Access(Access { id, .. }) => Some(id),
        _ => None,
    }
}

fn waits_for_finalizer(object: &ObjectId) -> String {
    format!("{object} has a finalizer that is served there")
}

fn hint_to_resume(owner: &ObjectId) -> String {
    let name = format!("{} {}", owner.kind.to_lowercase(), owner.name);
    format!("resume it first: `kubectl gitops resume --spec {name} -n {}`", owner.namespace)
}

pub(super) fn hint_to_retire(owner: &ObjectId) -> String {
    format!(
        "retire {}/{}/{} too, or remove the object from it first",
        owner.namespace,
        owner.kind.to_lowercase(),
        owner.name
    )
}

fn made_by(id: &ObjectId, parent: &ObjectId) -> NoOrder {
    let rule = format!("{parent} makes it, and makes it again once it is deleted");
    NoOrder::new(id, rule).hint(format!("remove it from what {parent} generates"))
}
