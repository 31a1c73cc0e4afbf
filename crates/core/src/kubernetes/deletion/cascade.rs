//! Computes cascading deletion: namespace content, custom resources, dependents and volumes.
//!
//! No inventory lists these objects; the cluster deletes them by itself. The garbage collector looks for an owner in the
//! namespace of the dependent, so an owner in another namespace counts as absent. It does not delete a cluster-scoped
//! object whose owner reference names a namespaced owner, and no object with a reference to a kind that is not served. See docs/reference/garbage-collection.md.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::finalizers::ORPHAN;
use super::tokens;
use super::volumes::{PolicyChanges, ReclaimOutcome, Volumes};
use crate::kubernetes::object::{GroupKind, ObjectId, ObjectMetadata, OwnerReference, ResourceType};
use crate::kubernetes::snapshot::Snapshot;

/// An object that is deleted because another one is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CascadedObject<'a> {
    pub object: &'a ObjectMetadata,
    /// The deleted object that causes this deletion.
    pub cause: ObjectId,
    /// Mechanism of the deletion.
    pub kind: CascadeKind,
    /// Live owners of a dependent, which must all be gone first; none for another mechanism.
    pub owners: Vec<&'a ObjectMetadata>,
}

/// Everything that follows from some deletions, sorted by identity.
#[derive(Clone, Debug, Default)]
pub(crate) struct Closure<'a> {
    /// Objects that are deleted, without the roots.
    pub(crate) deleted: Vec<CascadedObject<'a>>,
    /// Objects that stay because each deletion of them is refused.
    pub(crate) kept: Vec<CascadedObject<'a>>,
}

/// Mechanism by which one deletion causes another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CascadeKind {
    /// The namespace controller empties a namespace.
    NamespaceContent,
    /// The API server deletes the custom resources of a definition.
    CustomResource,
    /// The garbage collector deletes a dependent whose owners are all gone.
    Dependent {
        /// The owner reference names an object in another namespace, which counts as absent.
        owner_in_other_namespace: bool,
    },
    /// The token controller deletes the token of a service account.
    Token {
        /// The Secret has the type of a token for certain.
        is_known: bool,
    },
    /// The endpoints controller deletes the Endpoints of a Service.
    Endpoints,
    /// The volume controller follows the reclaim policy of a claim's volume.
    Volume(ReclaimOutcome),
    /// helm-controller uninstalls the release of a HelmRelease that is deleted.
    HelmRelease,
    /// helm-controller uninstalls the release of a HelmRelease whose target changes, and installs another one.
    ReplacedRelease,
    /// helm-controller upgrades the release of a HelmRelease.
    Upgrade,
    /// flux-operator deletes the inventory of a ResourceSet that is deleted.
    ResourceSet,
    /// flux-operator deletes an object that a ResourceSet no longer generates.
    NotInResourceSet,
    /// source-watcher deletes the artifacts of an ArtifactGenerator that is deleted.
    ArtifactGenerator,
    /// source-watcher deletes an artifact that an ArtifactGenerator no longer makes.
    RemovedArtifact,
}

impl CascadeKind {
    /// Returns true if the deletion is certain once its cause is deleted.
    pub fn is_certain(self) -> bool {
        match self {
            Self::Volume(outcome) => outcome.is_certain(),
            Self::Token { is_known } => is_known,
            _ => true,
        }
    }
}

/// Lookup tables for following cascades through one snapshot, in each of its clusters.
pub struct Cascade<'a> {
    snapshot: &'a Snapshot,
    by_namespace: HashMap<&'a str, Vec<&'a ObjectMetadata>>,
    by_group_kind: HashMap<(&'a str, &'a str), Vec<&'a ObjectMetadata>>,
    dependents: HashMap<&'a str, Vec<&'a ObjectMetadata>>,
    by_uid: HashMap<&'a str, &'a ObjectMetadata>,
    /// True for a group and kind whose objects are namespaced.
    namespaced: HashMap<(&'a str, &'a str), bool>,
    /// Group and kind by the name of their definition, `<plural>.<group>`.
    definitions: HashMap<String, (&'a str, &'a str)>,
    volumes: Volumes<'a>,
    /// Secrets with tokens, by the namespace and name of their account.
    tokens: HashMap<(&'a str, &'a str), Vec<&'a ObjectMetadata>>,
    /// The tables of the other clusters.
    spokes: BTreeMap<&'a str, Cascade<'a>>,
}

impl<'a> Cascade<'a> {
    /// Builds the lookup tables from a snapshot.
    pub fn new(snapshot: &'a Snapshot) -> Self {
        let mut cascade = Self {
            snapshot,
            by_namespace: HashMap::new(),
            by_group_kind: HashMap::new(),
            dependents: HashMap::new(),
            by_uid: HashMap::with_capacity(snapshot.objects.len()),
            namespaced: HashMap::new(),
            definitions: HashMap::new(),
            volumes: Volumes::new(snapshot),
            tokens: HashMap::new(),
            spokes: snapshot.spokes.iter().map(|(name, spoke)| (&**name, Self::new(spoke))).collect(),
        };
        for object in &snapshot.objects {
            cascade.by_uid.insert(&object.uid, object);
            if !object.id.namespace.is_empty() {
                cascade.by_namespace.entry(&object.id.namespace).or_default().push(object);
            }
            if let Some(account) = tokens::account(object) {
                cascade.tokens.entry((&object.id.namespace, account)).or_default().push(object);
            }
            cascade.by_group_kind.entry((&object.id.group, &object.id.kind)).or_default().push(object);
            for reference in &object.owner_references {
                cascade.dependents.entry(&reference.uid).or_default().push(object);
            }
        }
        for kind in &snapshot.types {
            cascade.namespaced.insert((&kind.group, &kind.kind), kind.namespaced);
            cascade.definitions.insert(format!("{}.{}", kind.plural, kind.group), (&kind.group, &kind.kind));
        }
        cascade
    }

    /// Returns every object that is deleted as a consequence of deleting `roots`, each once with its nearest cause and
    /// sorted by identity. The roots themselves are left out.
    ///
    /// A dependent is deleted only if every owner that it references is absent, is being deleted already or is deleted.
    pub(crate) fn closure(&self, roots: impl IntoIterator<Item = &'a ObjectMetadata>) -> Vec<CascadedObject<'a>> {
        self.closure_with(roots, &HashSet::new(), &PolicyChanges::new(), |_| false).deleted
    }

    /// Returns what [`Cascade::closure`] returns, for roots of which some, by uid, are deleted with the propagation policy
    /// `Orphan`: their dependents stay. Reclaim policies of volumes change meanwhile, and some deletions are refused.
    pub(crate) fn closure_with(
        &self,
        roots: impl IntoIterator<Item = &'a ObjectMetadata>,
        orphaning: &HashSet<&str>,
        policies: &PolicyChanges,
        is_refused: impl Fn(&CascadedObject<'a>) -> bool,
    ) -> Closure<'a> {
        let mut queue: Vec<&ObjectMetadata> = roots.into_iter().collect();
        let mut deleted: HashSet<&str> = queue.iter().map(|object| &*object.uid).collect();
        let root_uids = deleted.clone();
        let mut cascaded: BTreeMap<&ObjectId, CascadedObject<'a>> = BTreeMap::new();
        let mut kept: BTreeMap<&ObjectId, CascadedObject<'a>> = BTreeMap::new();
        while let Some(object) = queue.pop() {
            let kind = cascaded.get(&object.id).map(|cascaded| cascaded.kind);
            let orphans = orphaning.contains(&*object.uid) || keeps_dependents(object, kind);
            for next in self.consequences(object, &deleted, policies) {
                if orphans && matches!(next.kind, CascadeKind::Dependent { .. }) {
                    continue;
                }
                if is_refused(&next) {
                    kept.entry(&next.object.id).or_insert(next);
                } else if deleted.insert(&next.object.uid) {
                    queue.push(next.object);
                    cascaded.insert(&next.object.id, next);
                }
            }
        }
        let deletions = cascaded.into_values().filter(|row| !root_uids.contains(&*row.object.uid)).collect();
        let kept = kept.into_values().filter(|row| !deleted.contains(&*row.object.uid)).collect();
        Closure { deleted: deletions, kept }
    }

    /// Returns a description of the content of a Namespace or a definition that could not be listed, so that its deletion
    /// could delete objects that no reading shows. `None` if everything could be listed, and for other kinds.
    pub(crate) fn unlisted_content(&self, object: &ObjectMetadata) -> Option<String> {
        if object.id.is("", "Namespace") {
            let gap = self.snapshot.gaps.iter().find(|gap| {
                let is_elsewhere = gap.namespace.as_deref().is_some_and(|namespace| *namespace != *object.id.name);
                let mut cluster_scoped = self.snapshot.types.iter().filter(|kind| !kind.namespaced);
                !is_elsewhere && !cluster_scoped.any(|kind| kind.resource() == gap.subject)
            })?;
            return Some(format!("it can contain {}, which could not be listed: {}", gap.subject, gap.message));
        }
        if !object.id.is_definition() {
            return None;
        }
        let (group, kind) = self.definitions.get(&*object.id.name)?;
        let gap = self.snapshot.gaps_hiding(&GroupKind::new(group, kind)).next()?;
        Some(format!("its resources could not be listed: {}", gap.message))
    }

    /// Returns true if no version of the resources of a definition is served, so that they cannot be listed.
    pub(crate) fn is_unserved_definition(&self, object: &ObjectMetadata) -> bool {
        object.id.is_definition() && !self.definitions.contains_key(&*object.id.name)
    }

    /// Returns the types to list again right before `object` is deleted, in one namespace or, for `None`, everywhere: all
    /// namespaced types for a Namespace, the type of a definition, and the types of known dependents.
    pub fn types_to_list(&self, object: &ObjectMetadata) -> (Vec<ResourceType>, Option<Arc<str>>) {
        let types = self.snapshot.types.iter();
        if object.id.is("", "Namespace") {
            return (types.filter(|kind| kind.namespaced).cloned().collect(), Some(Arc::from(&*object.id.name)));
        }
        if object.id.is_definition() {
            let defined = self.definitions.get(&*object.id.name);
            return (types.filter(|kind| defined.is_some_and(|(g, k)| kind.is(g, k))).cloned().collect(), None);
        }
        let dependents = self.dependents.get(&*object.uid).into_iter().flatten().copied().chain(self.tokens_of(object));
        let kinds: HashSet<(&str, &str)> = dependents.map(|next| (&*next.id.group, &*next.id.kind)).collect();
        let of_dependents = types.filter(|kind| kinds.contains(&(&*kind.group, &*kind.kind))).cloned().collect();
        (of_dependents, Some(object.id.namespace.clone()).filter(|namespace| !namespace.is_empty()))
    }

    /// Returns the objects whose deletion the deletion of `object` causes directly.
    fn consequences(
        &self,
        object: &ObjectMetadata,
        deleted: &HashSet<&str>,
        policies: &PolicyChanges,
    ) -> Vec<CascadedObject<'a>> {
        if let Some(cluster) = &object.id.cluster {
            let spoke = self.spokes.get(&**cluster);
            return spoke.map_or_else(Vec::new, |spoke| spoke.consequences_here(object, deleted, policies));
        }
        self.consequences_here(object, deleted, policies)
    }

    /// Returns what [`Cascade::consequences`] returns, for an object of the cluster itself.
    fn consequences_here(
        &self,
        object: &ObjectMetadata,
        deleted: &HashSet<&str>,
        policies: &PolicyChanges,
    ) -> Vec<CascadedObject<'a>> {
        let mut found: Vec<(&'a ObjectMetadata, CascadeKind)> = vec![];
        if object.id.is("", "Namespace") {
            let content = self.by_namespace.get(&*object.id.name).into_iter().flatten();
            found.extend(content.map(|next| (*next, CascadeKind::NamespaceContent)));
        }
        if object.id.is_definition()
            && let Some(kind) = self.definitions.get(&*object.id.name)
        {
            let resources = self.by_group_kind.get(kind).into_iter().flatten();
            found.extend(resources.map(|next| (*next, CascadeKind::CustomResource)));
        }
        for dependent in self.dependents.get(&*object.uid).into_iter().flatten().copied() {
            if self.has_no_owner_left(dependent, deleted) {
                let same = object.id.namespace.is_empty() || object.id.namespace == dependent.id.namespace;
                found.push((dependent, CascadeKind::Dependent { owner_in_other_namespace: !same }));
            }
        }
        for secret in self.tokens_of(object) {
            found.push((secret, CascadeKind::Token { is_known: tokens::is_token(secret) }));
        }
        found.extend(self.endpoints_of(object).into_iter().map(|endpoints| (endpoints, CascadeKind::Endpoints)));
        for (volume, outcome) in self.volumes.of(object, policies) {
            if outcome.may_delete() {
                found.push((volume, CascadeKind::Volume(outcome)));
            }
        }
        let cascaded = found.into_iter().map(|(next, kind)| {
            let is_dependent = matches!(kind, CascadeKind::Dependent { .. });
            let owners = if is_dependent { self.owners_of(next).collect() } else { vec![] };
            CascadedObject { object: next, cause: object.id.clone(), kind, owners }
        });
        cascaded.collect()
    }

    /// Returns the Endpoints of a Service, which have its name (Kubernetes v1.36.3 `syncService` in
    /// pkg/controller/endpoint/endpoints_controller.go). Those that the endpoints controller alone writes are left out: nobody misses
    /// them.
    fn endpoints_of(&self, service: &ObjectMetadata) -> Option<&'a ObjectMetadata> {
        let ObjectId { namespace, name, .. } = &service.id;
        let id = ObjectId::new("", "Endpoints", namespace, name).in_cluster(service.id.cluster.as_ref());
        let mut found = self.by_group_kind.get(&("", "Endpoints")).filter(|_| service.id.is("", "Service"))?.iter();
        let endpoints = found.find(|endpoints| endpoints.id == id)?;
        let mut writers = endpoints.managed_fields.iter();
        writers.any(|entry| &*entry.manager != CONTROLLER_MANAGER).then_some(*endpoints)
    }

    /// Returns the Secrets with tokens of a service account.
    fn tokens_of(&self, account: &ObjectMetadata) -> Vec<&'a ObjectMetadata> {
        let key = (&*account.id.namespace, &*account.id.name);
        let secrets = self.tokens.get(&key).filter(|_| account.id.is("", "ServiceAccount"));
        secrets.into_iter().flatten().copied().filter(|secret| tokens::belongs(secret, account)).collect()
    }

    /// Returns true if the garbage collector deletes a dependent: every owner is absent for it, is being deleted or is deleted.
    fn has_no_owner_left(&self, dependent: &ObjectMetadata, deleted: &HashSet<&str>) -> bool {
        let mut owners = self.owners_of(dependent);
        let is_looked_up = dependent.owner_references.iter().all(|reference| self.can_look_up(dependent, reference));
        is_looked_up && owners.all(|owner| owner.deletion_timestamp.is_some() || deleted.contains(&*owner.uid))
    }

    /// Returns the live owners of a dependent, as far as they are where the garbage collector looks for them.
    fn owners_of(&self, dependent: &ObjectMetadata) -> impl Iterator<Item = &'a ObjectMetadata> {
        let owners =
            dependent.owner_references.iter().filter_map(|reference| self.by_uid.get(&*reference.uid).copied());
        owners.filter(|owner| owner.id.namespace.is_empty() || owner.id.namespace == dependent.id.namespace)
    }

    /// Returns false if the garbage collector cannot look up an owner, and so leaves the dependent alone: it is namespaced and
    /// the dependent is not, or the API server does not serve its kind (Kubernetes v1.36.3 `isDangling` in
    /// pkg/controller/garbagecollector/garbagecollector.go).
    fn can_look_up(&self, dependent: &ObjectMetadata, reference: &OwnerReference) -> bool {
        let is_namespaced = match self.by_uid.get(&*reference.uid) {
            Some(owner) => !owner.id.namespace.is_empty(),
            None => match self.namespaced.get(&(&*reference.group, &*reference.kind)) {
                Some(is_namespaced) => *is_namespaced,
                None => return !self.snapshot.lacks_type(&GroupKind::new(&reference.group, &reference.kind)),
            },
        };
        !is_namespaced || !dependent.id.namespace.is_empty()
    }
}

/// Returns true if an object keeps its dependents when it is deleted in this way: whoever names no propagation policy, or the one that
/// the object asks for, follows its finalizer (Kubernetes v1.36.3 `shouldOrphanDependents` in
/// apiserver/pkg/registry/generic/registry/store.go). All others name `Background`.
fn keeps_dependents(object: &ObjectMetadata, kind: Option<CascadeKind>) -> bool {
    let follows = matches!(kind, Some(CascadeKind::Dependent { .. } | CascadeKind::CustomResource));
    follows && object.has_finalizer(ORPHAN)
}

/// Field manager of the controllers of Kubernetes.
const CONTROLLER_MANAGER: &str = "kube-controller-manager";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::object::ManagedFieldsEntry;
    use crate::kubernetes::snapshot::ClusterIdentity;
    use crate::testing;

    fn owner_reference(uid: &str) -> OwnerReference {
        OwnerReference {
            group: "".into(),
            kind: "X".into(),
            name: "x".into(),
            uid: uid.into(),
            controller: false,
            block_owner_deletion: false,
        }
    }

    fn object(id: ObjectId, references: &[&str]) -> ObjectMetadata {
        let uid = format!("{}/{}", id.namespace, id.name).into();
        let references = references.iter().map(|uid| owner_reference(uid)).collect();
        ObjectMetadata {
            uid,
            owner_references: references,
            ..testing::object(&id.group, &id.kind, &id.namespace, &id.name)
        }
    }

    fn cascaded(objects: Vec<ObjectMetadata>, root: &str) -> Vec<String> {
        let mut snapshot = Snapshot::new(chrono::DateTime::UNIX_EPOCH, ClusterIdentity::default());
        snapshot.objects = objects;
        snapshot.types = vec![
            testing::resource_type("", "X", "xs", false),
            testing::resource_type("example.com", "Widget", "widgets", true),
        ];
        let cascade = Cascade::new(&snapshot);
        let roots = snapshot.objects.iter().filter(|object| &*object.id.name == root);
        cascade.closure(roots).iter().map(|row| format!("{} by {}", row.object.id.name, row.cause.name)).collect()
    }

    #[test]
    fn deleting_a_namespace_deletes_its_content_and_the_dependents_of_it() {
        let objects = vec![
            object(ObjectId::new("", "Namespace", "", "shop"), &[]),
            object(ObjectId::new("", "ConfigMap", "shop", "in"), &[]),
            object(ObjectId::new("", "ConfigMap", "other", "out"), &[]),
            object(ObjectId::new("", "ConfigMap", "other", "dependent"), &["shop/in"]),
        ];
        assert_eq!(cascaded(objects, "shop"), ["dependent by in", "in by shop"]);
    }

    #[test]
    fn a_token_goes_with_its_account_and_is_certain_if_the_token_controller_made_it() {
        let secret = |name: &str, uid: &str, manager: &str| {
            let marks = [(tokens::ACCOUNT, "bot"), (tokens::ACCOUNT_UID, uid)];
            let entry = ManagedFieldsEntry {
                manager: manager.into(),
                annotations: vec![tokens::ACCOUNT_UID.into()],
                ..Default::default()
            };
            ObjectMetadata {
                annotations: marks.into_iter().collect(),
                managed_fields: vec![entry],
                ..object(ObjectId::new("", "Secret", "shop", name), &[])
            }
        };
        let mut snapshot = Snapshot::new(chrono::DateTime::UNIX_EPOCH, ClusterIdentity::default());
        snapshot.objects = vec![
            object(ObjectId::new("", "ServiceAccount", "shop", "bot"), &[]),
            secret("made", "shop/bot", "kube-controller-manager"),
            secret("copied", "shop/bot", "kubectl"),
            secret("of-an-earlier-account", "shop/old", "kube-controller-manager"),
            ObjectMetadata {
                annotations: [(tokens::ACCOUNT, "bot")].into_iter().collect(),
                ..object(ObjectId::new("", "Secret", "other", "elsewhere"), &[])
            },
        ];
        let cascade = Cascade::new(&snapshot);
        let rows: Vec<(&str, bool)> = cascade
            .closure(snapshot.objects.iter().take(1))
            .iter()
            .map(|row| (&*row.object.id.name, row.kind.is_certain()))
            .collect();
        assert_eq!(rows, [("copied", false), ("made", true)]);
    }

    #[test]
    fn a_service_takes_along_the_endpoints_of_its_name_that_somebody_else_writes() {
        let endpoints = |namespace: &str, name: &str, managers: &[&str]| ObjectMetadata {
            uid: format!("endpoints/{namespace}/{name}").into(),
            managed_fields: managers
                .iter()
                .map(|manager| ManagedFieldsEntry { manager: (*manager).into(), ..Default::default() })
                .collect(),
            ..object(ObjectId::new("", "Endpoints", namespace, name), &[])
        };
        let service = |name: &str| object(ObjectId::new("", "Service", "shop", name), &[]);
        let objects = vec![
            endpoints("shop", "db", &["kubectl", "kube-controller-manager"]),
            endpoints("other", "db", &["kubectl"]),
            endpoints("shop", "web", &["kube-controller-manager"]),
            service("db"),
            service("web"),
        ];
        let rows = |root: &str| {
            let mut snapshot = Snapshot::new(chrono::DateTime::UNIX_EPOCH, ClusterIdentity::default());
            snapshot.objects.clone_from(&objects);
            let roots =
                snapshot.objects.iter().filter(|object| object.id.is("", "Service") && &*object.id.name == root);
            Cascade::new(&snapshot).closure(roots).iter().map(|row| row.object.id.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(rows("db"), ["endpoints/db -n shop"]);
        assert_eq!(rows("web"), [""; 0]);
    }

    #[test]
    fn dependents_of_a_root_that_orphans_them_stay() {
        let objects = [
            object(ObjectId::new("apps", "Deployment", "shop", "web"), &[]),
            object(ObjectId::new("apps", "ReplicaSet", "shop", "web-1"), &["shop/web"]),
        ];
        let mut snapshot = Snapshot::new(chrono::DateTime::UNIX_EPOCH, ClusterIdentity::default());
        snapshot.objects = objects.to_vec();
        let cascade = Cascade::new(&snapshot);
        let root = || snapshot.objects.iter().take(1);
        assert_eq!(cascade.closure(root()).len(), 1);
        let orphaned = cascade.closure_with(root(), &HashSet::from(["shop/web"]), &PolicyChanges::new(), |_| false);
        assert_eq!(orphaned.deleted, []);
    }

    #[test]
    fn a_dependent_with_the_finalizer_orphan_keeps_its_own_dependents_unless_its_namespace_goes() {
        let mut middle = object(ObjectId::new("", "B", "n", "middle"), &["n/root"]);
        middle.finalizers = vec![ORPHAN.into()];
        let objects = vec![
            object(ObjectId::new("", "Namespace", "", "n"), &[]),
            object(ObjectId::new("", "A", "n", "root"), &[]),
            middle,
            object(ObjectId::new("", "B", "n", "leaf"), &["n/middle"]),
        ];
        assert_eq!(cascaded(objects.clone(), "root"), ["middle by root"]);
        assert_eq!(cascaded(objects.clone(), "middle"), ["leaf by middle"], "whoever deletes it names a policy");
        assert_eq!(cascaded(objects, "n"), ["root by n", "leaf by n", "middle by n"]);
    }

    #[test]
    fn deleting_a_definition_deletes_its_resources_in_every_namespace() {
        let objects = vec![
            object(ObjectId::new("apiextensions.k8s.io", "CustomResourceDefinition", "", "widgets.example.com"), &[]),
            object(ObjectId::new("example.com", "Widget", "a", "one"), &[]),
            object(ObjectId::new("other.com", "Widget", "a", "two"), &[]),
        ];
        assert_eq!(cascaded(objects, "widgets.example.com"), ["one by widgets.example.com"]);
    }

    #[test]
    fn owners_in_another_namespace_count_as_absent_and_keep_cluster_scoped_dependents() {
        let objects = vec![
            object(ObjectId::new("", "ConfigMap", "shop", "owner"), &[]),
            object(ObjectId::new("", "ConfigMap", "other", "alive"), &[]),
            object(ObjectId::new("", "ConfigMap", "shop", "dependent"), &["shop/owner", "other/alive"]),
            object(ObjectId::new("", "ClusterRole", "", "role"), &["shop/owner"]),
            object(ObjectId::new("", "Namespace", "", "space"), &[]),
            object(ObjectId::new("", "ClusterRole", "", "of-space"), &["/space"]),
        ];
        assert_eq!(cascaded(objects.clone(), "owner"), ["dependent by owner"]);
        assert_eq!(cascaded(objects, "space"), ["of-space by space"]);
    }

    #[test]
    fn a_dependent_with_another_live_owner_stays_and_circles_end() {
        let objects = vec![
            object(ObjectId::new("", "A", "n", "root"), &["n/loop"]),
            object(ObjectId::new("", "B", "n", "loop"), &["n/root"]),
            object(ObjectId::new("", "B", "n", "alive"), &[]),
            object(ObjectId::new("", "B", "n", "shared"), &["n/root", "n/alive"]),
            object(ObjectId::new("", "B", "n", "dangling"), &["n/root", "n/long-gone"]),
        ];
        assert_eq!(cascaded(objects, "root"), ["dangling by root", "loop by root"]);
    }

    #[test]
    fn an_owner_that_is_being_deleted_keeps_nothing_and_an_owner_of_an_unserved_kind_everything() {
        let mut terminating = object(ObjectId::new("", "B", "n", "terminating"), &[]);
        terminating.deletion_timestamp = Some(chrono::DateTime::UNIX_EPOCH);
        let mut unserved = object(ObjectId::new("", "B", "n", "left-alone"), &["n/root"]);
        unserved.owner_references.push(OwnerReference { group: "gone.example.com".into(), ..owner_reference("n/w") });
        let objects = vec![
            object(ObjectId::new("", "A", "n", "root"), &[]),
            object(ObjectId::new("", "B", "n", "shared"), &["n/root", "n/terminating"]),
            terminating,
            unserved,
        ];
        assert_eq!(cascaded(objects, "root"), ["shared by root"]);
    }
}
