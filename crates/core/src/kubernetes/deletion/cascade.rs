//! What goes along when an object goes: a namespace's content, a definition's custom resources, dependents, the volumes
//! of claims.
//!
//! Nothing of this is in any inventory (reference kustomize-controller 1.5); it is the cluster that does it. The garbage
//! collector looks for an owner in the dependent's own namespace: one in another namespace is gone for it from the start,
//! and what is in no namespace it does not collect while it names an owner that is in one (observed).

use std::collections::{BTreeMap, HashMap, HashSet};

use super::volumes::Volumes;
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::kubernetes::snapshot::Snapshot;
use crate::plan::document::Actor;

/// An object that a cascade takes along.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CascadedObject<'a> {
    /// The object.
    pub object: &'a ObjectMetadata,
    /// What takes it along.
    pub cause: ObjectId,
    /// Who does it.
    pub by: Actor,
    /// Why, as in a plan.
    pub reason: &'static str,
    /// Whether it is sure to go once its cause does.
    pub is_sure: bool,
}

/// Maps for following cascades through one snapshot.
pub struct Cascade<'a> {
    by_namespace: HashMap<&'a str, Vec<&'a ObjectMetadata>>,
    by_group_kind: HashMap<(&'a str, &'a str), Vec<&'a ObjectMetadata>>,
    dependents: HashMap<&'a str, Vec<&'a ObjectMetadata>>,
    by_uid: HashMap<&'a str, &'a ObjectMetadata>,
    /// Whether objects of a group and kind are in namespaces.
    namespaced: HashMap<(&'a str, &'a str), bool>,
    /// `<plural>.<group>`, the name of a definition, to group and kind.
    definitions: HashMap<String, (&'a str, &'a str)>,
    volumes: Volumes<'a>,
}

impl<'a> Cascade<'a> {
    /// Reads a snapshot once.
    pub fn new(snapshot: &'a Snapshot) -> Self {
        let mut cascade = Self {
            by_namespace: HashMap::new(),
            by_group_kind: HashMap::new(),
            dependents: HashMap::new(),
            by_uid: HashMap::with_capacity(snapshot.objects.len()),
            namespaced: HashMap::new(),
            definitions: HashMap::new(),
            volumes: Volumes::new(snapshot),
        };
        for object in &snapshot.objects {
            cascade.by_uid.insert(&object.uid, object);
            if !object.id.namespace.is_empty() {
                cascade.by_namespace.entry(&object.id.namespace).or_default().push(object);
            }
            cascade.by_group_kind.entry((&object.id.group, &object.id.kind)).or_default().push(object);
            for reference in &object.references {
                cascade.dependents.entry(&reference.uid).or_default().push(object);
            }
        }
        for kind in &snapshot.types {
            cascade.namespaced.insert((&kind.group, &kind.kind), kind.namespaced);
            cascade.definitions.insert(format!("{}.{}", kind.plural, kind.group), (&kind.group, &kind.kind));
        }
        cascade
    }

    /// Everything that goes along when these objects go, each once, with its nearest cause. Roots are left out.
    ///
    /// A dependent goes only when every object that it references is gone or goes (garbage collector semantics).
    pub fn closure(&self, roots: impl IntoIterator<Item = &'a ObjectMetadata>) -> Vec<CascadedObject<'a>> {
        let mut queue: Vec<&ObjectMetadata> = roots.into_iter().collect();
        let mut going: HashSet<&str> = queue.iter().map(|object| &*object.uid).collect();
        let root_uids = going.clone();
        let mut taken: BTreeMap<&ObjectId, CascadedObject<'a>> = BTreeMap::new();
        while let Some(object) = queue.pop() {
            for follower in self.followers(object, &going) {
                let next = follower.object;
                if going.insert(&next.uid) {
                    taken.insert(&next.id, follower);
                    queue.push(next);
                }
            }
        }
        taken.into_values().filter(|row| !root_uids.contains(&*row.object.uid)).collect()
    }

    fn followers(&self, object: &ObjectMetadata, going: &HashSet<&str>) -> Vec<CascadedObject<'a>> {
        let follows = |by: Actor, reason: &'static str, is_sure: bool| {
            let cause = object.id.clone();
            move |next: &'a ObjectMetadata| CascadedObject { object: next, cause: cause.clone(), by, reason, is_sure }
        };
        let mut followers: Vec<CascadedObject<'a>> = vec![];
        if object.id.is("", "Namespace") {
            let content = self.by_namespace.get(&*object.id.name).into_iter().flatten().copied();
            followers.extend(content.map(follows(Actor::NamespaceController, "in-namespace", true)));
        }
        if object.id.is("apiextensions.k8s.io", "CustomResourceDefinition")
            && let Some(kind) = self.definitions.get(&*object.id.name)
        {
            let resources = self.by_group_kind.get(kind).into_iter().flatten().copied();
            followers.extend(resources.map(follows(Actor::CrdFinalizer, "custom-resource", true)));
        }
        let dependents = self.dependents.get(&*object.uid).into_iter().flatten().copied();
        for dependent in dependents.filter(|dependent| self.is_alone(dependent, going)) {
            let near = object.id.namespace.is_empty() || object.id.namespace == dependent.id.namespace;
            let reason = if near { "dependent" } else { "dependent: of an object in another namespace" };
            followers.push(follows(Actor::GarbageCollector, reason, true)(dependent));
        }
        for (volume, fate) in self.volumes.of(object).into_iter().filter(|(_, fate)| fate.may_go()) {
            followers.push(follows(Actor::PersistentVolumeController, fate.reason(), fate.is_sure())(volume));
        }
        followers
    }

    /// Whether the garbage collector deletes a dependent: when every owner is gone for it.
    fn is_alone(&self, dependent: &ObjectMetadata, going: &HashSet<&str>) -> bool {
        let home = &dependent.id.namespace;
        dependent.references.iter().all(|reference| {
            let owner = self.by_uid.get(&*reference.uid);
            let inside = match owner {
                Some(owner) => !owner.id.namespace.is_empty(),
                None => self.namespaced.get(&(&*reference.group, &*reference.kind)).copied().unwrap_or_default(),
            };
            if inside && home.is_empty() {
                return false;
            }
            owner.is_none_or(|owner| going.contains(&*owner.uid) || (inside && owner.id.namespace != *home))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::object::OwnerReference;
    use crate::kubernetes::snapshot::ClusterIdentity;
    use crate::testing;

    fn object(id: ObjectId, references: &[&str]) -> ObjectMetadata {
        let reference = |uid: &&str| OwnerReference {
            group: "".into(),
            kind: "X".into(),
            name: "x".into(),
            uid: (**uid).into(),
            controller: false,
            block_owner_deletion: false,
        };
        let uid = format!("{}/{}", id.namespace, id.name).into();
        let references = references.iter().map(reference).collect();
        ObjectMetadata { uid, references, ..testing::object(&id.group, &id.kind, &id.namespace, &id.name) }
    }

    fn taken(objects: Vec<ObjectMetadata>, root: &str) -> Vec<String> {
        let mut snapshot = Snapshot::new(chrono::DateTime::UNIX_EPOCH, ClusterIdentity::default());
        snapshot.objects = objects;
        snapshot.types = vec![crate::kubernetes::object::ResourceType {
            group: "example.com".into(),
            version: "v1".into(),
            kind: "Widget".into(),
            plural: "widgets".into(),
            singular: "widget".into(),
            short_names: vec![],
            namespaced: true,
        }];
        let cascade = Cascade::new(&snapshot);
        let roots = snapshot.objects.iter().filter(|object| &*object.id.name == root);
        cascade.closure(roots).iter().map(|row| format!("{} by {}", row.object.id.name, row.cause.name)).collect()
    }

    #[test]
    fn a_namespace_takes_its_content_and_what_depends_on_it() {
        let objects = vec![
            object(ObjectId::new("", "Namespace", "", "shop"), &[]),
            object(ObjectId::new("", "ConfigMap", "shop", "in"), &[]),
            object(ObjectId::new("", "ConfigMap", "other", "out"), &[]),
            object(ObjectId::new("", "ConfigMap", "other", "dependent"), &["shop/in"]),
        ];
        assert_eq!(taken(objects, "shop"), ["dependent by in", "in by shop"]);
    }

    #[test]
    fn a_definition_takes_its_resources_everywhere() {
        let objects = vec![
            object(ObjectId::new("apiextensions.k8s.io", "CustomResourceDefinition", "", "widgets.example.com"), &[]),
            object(ObjectId::new("example.com", "Widget", "a", "one"), &[]),
            object(ObjectId::new("other.com", "Widget", "a", "two"), &[]),
        ];
        assert_eq!(taken(objects, "widgets.example.com"), ["one by widgets.example.com"]);
    }

    #[test]
    fn owners_in_another_namespace_are_gone_and_keep_what_is_in_none() {
        let objects = vec![
            object(ObjectId::new("", "ConfigMap", "shop", "owner"), &[]),
            object(ObjectId::new("", "ConfigMap", "other", "alive"), &[]),
            object(ObjectId::new("", "ConfigMap", "shop", "dependent"), &["shop/owner", "other/alive"]),
            object(ObjectId::new("", "ClusterRole", "", "role"), &["shop/owner"]),
            object(ObjectId::new("", "Namespace", "", "space"), &[]),
            object(ObjectId::new("", "ClusterRole", "", "of-space"), &["/space"]),
        ];
        assert_eq!(taken(objects.clone(), "owner"), ["dependent by owner"]);
        assert_eq!(taken(objects, "space"), ["of-space by space"]);
    }

    #[test]
    fn a_dependent_with_another_living_reference_stays_and_loops_end() {
        let objects = vec![
            object(ObjectId::new("", "A", "n", "root"), &["n/loop"]),
            object(ObjectId::new("", "B", "n", "loop"), &["n/root"]),
            object(ObjectId::new("", "B", "n", "alive"), &[]),
            object(ObjectId::new("", "B", "n", "shared"), &["n/root", "n/alive"]),
            object(ObjectId::new("", "B", "n", "dangling"), &["n/root", "n/long-gone"]),
        ];
        assert_eq!(taken(objects, "root"), ["dangling by root", "loop by root"]);
    }
}
