//! Where objects of a kind live, and what stops a build from being applied that can be told without the API server.
//!
//! Source: reference kustomize-controller 1.1 (scope comes from discovery, never from the manifest) and 3.6.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::model::{Desired, Node, PassOutcome};
use crate::flux::build::objects;
use crate::flux::build::objects::BuiltObject;
use crate::flux::build::undecrypted::Undecrypted;
use crate::kubernetes::object::{GroupKind, ObjectId};
use crate::kubernetes::snapshot::Snapshot;
use crate::plan::{Reason, ReasonCode};

/// Kinds and namespaces that exist, or will exist because some Kustomization applies them.
pub(crate) struct Scopes<'a> {
    snapshot: &'a Snapshot,
    defined: HashMap<GroupKind, bool>,
    namespaces: BTreeSet<String>,
    has_namespaces: bool,
}

impl<'a> Scopes<'a> {
    /// What the cluster serves, and what the builds so far add.
    pub(crate) fn new(snapshot: &'a Snapshot, nodes: &[Node]) -> Self {
        let live = snapshot.objects.iter().filter(|object| object.id.is("", "Namespace"));
        let mut namespaces: BTreeSet<String> = live.map(|object| object.id.name.to_string()).collect();
        let has_namespaces = !namespaces.is_empty();
        let mut defined = HashMap::new();
        for built in
            nodes.iter().flat_map(|node| &node.passes).filter_map(|pass| pass.desired()).flat_map(|d| d.values())
        {
            defined.extend(objects::defined_kind(built));
            if built.id.is("", "Namespace") {
                namespaces.insert(built.id.name.to_string());
            }
        }
        Self { snapshot, defined, namespaces, has_namespaces }
    }

    /// The outcome of applying a build.
    pub(crate) fn place(&self, built: Vec<BuiltObject>) -> PassOutcome {
        let own: HashMap<GroupKind, bool> = built.iter().filter_map(objects::defined_kind).collect();
        let made: BTreeSet<&str> =
            built.iter().filter(|object| object.id.is("", "Namespace")).map(|object| &*object.id.name).collect();
        let mut failures = Vec::new();
        let mut desired = Desired::new();
        for object in &built {
            let kind = object.id.group_kind();
            let mut fails = |why: String| failures.push((stage(&object.id), why));
            if object.undecrypted == Some(Undecrypted::Identity) {
                desired.insert(object.id.clone(), object.clone());
                continue;
            }
            if !object.has_unknown_identity() && !valid_name(&object.id) {
                fails(format!("the API server refuses the name {:?}", &*object.id.name));
            }
            match self.namespaced(&kind).or_else(|| own.get(&kind).copied()) {
                None if self.may_be_unread(&kind) => {}
                None => {
                    fails(format!("no matches for kind {} in group {:?}", kind.kind, &*kind.group));
                    continue;
                }
                Some(false) => {
                    let id = ObjectId::new(&kind.group, &kind.kind, "", &object.id.name);
                    desired.insert(id.clone(), BuiltObject { id, ..object.clone() });
                    continue;
                }
                Some(true) => {}
            }
            let namespace = &*object.id.namespace;
            if namespace.is_empty() {
                fails(format!("{} has no namespace", object.id));
            } else if self.has_namespaces && !self.namespaces.contains(namespace) && !made.contains(namespace) {
                fails(format!("namespace {namespace} does not exist"));
            }
            desired.insert(object.id.clone(), object.clone());
        }
        let desired = Arc::new(desired);
        // Of several in one stage the first speaks for all.
        match failures.into_iter().min_by_key(|(stage, _)| *stage) {
            None => PassOutcome::Applied(desired),
            Some((stage, why)) => partial(desired, stage, why),
        }
    }

    fn namespaced(&self, kind: &GroupKind) -> Option<bool> {
        let served = self.snapshot.resource_type(kind).map(|kind| kind.namespaced);
        served.or_else(|| self.defined.get(kind).copied())
    }

    /// Whether discovery has a gap where this kind may be.
    fn may_be_unread(&self, kind: &GroupKind) -> bool {
        self.snapshot.gaps_hiding(kind).next().is_some()
    }
}

/// Whether the API server takes a name: lower-case letters, digits, `-` and `.`; of RBAC kinds almost anything.
fn valid_name(id: &ObjectId) -> bool {
    if &*id.group == "rbac.authorization.k8s.io" {
        return !id.name.contains(['/', '%']);
    }
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    id.name.len() <= 253 && id.name.chars().all(inner) && edge(id.name.chars().next()) && edge(id.name.chars().last())
}

/// The stages of an application, in order (reference 3.6). One failure stops its stage and those after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Definitions,
    Classes,
    Rest,
}

fn stage(id: &ObjectId) -> Stage {
    match &*id.kind {
        "CustomResourceDefinition" | "Namespace" | "ClusterRole" => Stage::Definitions,
        kind if kind.ends_with("Class") => Stage::Classes,
        _ => Stage::Rest,
    }
}

/// What comes of an application of which one object fails.
pub(crate) fn stopped(wanted: Arc<Desired>, at: &ObjectId, why: String) -> PassOutcome {
    partial(wanted, stage(at), why)
}

fn partial(wanted: Arc<Desired>, failing: Stage, why: String) -> PassOutcome {
    let early = wanted.iter().filter(|(id, _)| stage(id) < failing);
    let applied = Arc::new(early.map(|(id, built)| (id.clone(), built.clone())).collect());
    PassOutcome::Partial { applied, wanted, why: Reason::new(ReasonCode::ApplyRefused, why) }
}
