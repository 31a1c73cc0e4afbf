//! Scope of kinds, and the failures of an apply that can be predicted without the API server.
//!
//! Source: docs/reference/kustomize-controller.md 2.1 (scope comes from discovery, never from the manifest) and 4.2.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::flux::build::objects::undecrypted::Undecrypted;
use crate::flux::build::objects::{BuiltObject, defined_kind};
use crate::flux::simulation::model::node::{BuiltObjects, Node, Pass, PassOutcome};
use crate::kubernetes::object::{GroupKind, ObjectId};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND};
use crate::plan::{Reason, ReasonCode};

/// Kinds and namespaces that exist, or that some Kustomization applies.
pub(crate) struct Scopes<'a> {
    /// Reading of the cluster.
    snapshot: &'a Snapshot,
    /// True for a kind of a custom resource definition whose objects are namespaced.
    defined: HashMap<GroupKind, bool>,
    namespaces: BTreeSet<String>,
    /// The snapshot holds Namespaces, so that a missing one does not exist.
    has_namespaces: bool,
    /// Kinds with a stage of their own.
    custom: &'a BTreeSet<GroupKind>,
}

impl<'a> Scopes<'a> {
    /// Collects the kinds and namespaces of a cluster and of the builds for it so far. The cluster itself has no name.
    pub(crate) fn new(
        name: Option<&Arc<str>>,
        snapshot: &'a Snapshot,
        nodes: &[Node],
        custom: &'a BTreeSet<GroupKind>,
    ) -> Self {
        let live = snapshot.objects.iter().filter(|object| object.id.is("", "Namespace"));
        let mut namespaces: BTreeSet<String> = live.map(|object| object.id.name.to_string()).collect();
        let has_namespaces = !namespaces.is_empty();
        let mut defined = HashMap::new();
        let passes = nodes.iter().flat_map(|node| &node.passes);
        let applied = passes.filter_map(Pass::applied_objects).flat_map(BuiltObjects::values);
        for built in applied.filter(|built| built.id.cluster.as_ref() == name) {
            defined.extend(defined_kind(built));
            if built.id.is("", "Namespace") {
                namespaces.insert(built.id.name.to_string());
            }
        }
        Self { snapshot, defined, namespaces, has_namespaces, custom }
    }

    /// Returns the outcome of applying a build.
    pub(crate) fn apply(&self, built: Vec<BuiltObject>) -> PassOutcome {
        if let Some(object) = built.iter().find(|object| !has_text_values(object)) {
            let detail = format!("{} has a value that is no text where only text is allowed", object.shown_id());
            return PassOutcome::Blocked(Reason::new(ReasonCode::ApplyRefused, detail));
        }
        let own = OwnScopes::new(&built);
        let mut first_failure: Option<(Stage, String)> = None;
        let mut desired = BuiltObjects::new();
        for object in built {
            let (id, failure) = self.place(&object, &own);
            if let Some(failure) = failure {
                let failing = stage(&object.id, self.custom);
                if first_failure.as_ref().is_none_or(|(first, _)| failing < *first) {
                    first_failure = Some((failing, failure));
                }
            }
            if let Some(id) = id {
                desired.insert(id.clone(), BuiltObject { id, ..object });
            }
        }
        let desired = Arc::new(desired);
        match first_failure {
            None => PassOutcome::Applied(desired),
            Some((stage, failure)) => partial(desired, stage, failure, self.custom),
        }
    }

    /// Returns the identity of an object in the cluster, `None` for an unknown kind, and its first failure.
    fn place(&self, object: &BuiltObject, own: &OwnScopes) -> (Option<ObjectId>, Option<String>) {
        let (id, shown) = (object.id.clone(), object.shown_id());
        if object.undecrypted == Some(Undecrypted::Identity) {
            return (Some(id), None);
        }
        let kind = id.group_kind();
        let refused = (!object.has_unknown_identity() && !is_valid_name(&id))
            .then(|| format!("the API server refuses the name {:?}", &*shown.name))
            .or_else(|| self.version_failure(object, own))
            .or_else(|| has_invalid_variable(object).then(|| format!("{shown} has a variable that is no text")));
        match self.is_namespaced(&kind).or_else(|| own.defined.get(&kind).copied()) {
            Some(false) => (Some(ObjectId { namespace: "".into(), ..id }), refused),
            // A gap in discovery may hide the kind.
            None if self.snapshot.gaps_hiding(&kind).next().is_none() => {
                let unknown = format!("no matches for kind {} in group {:?}", shown.kind, &*shown.group);
                (None, refused.or(Some(unknown)))
            }
            None | Some(true) => {
                let failure = refused.or_else(|| self.namespace_failure(&id, shown, own));
                (Some(id), failure)
            }
        }
    }

    fn namespace_failure(&self, id: &ObjectId, shown: &ObjectId, own: &OwnScopes) -> Option<String> {
        let namespace = &*id.namespace;
        if namespace.is_empty() {
            return Some(format!("{shown} has no namespace"));
        }
        let exists = self.namespaces.contains(namespace) || own.namespaces.contains(namespace);
        (self.has_namespaces && !exists).then(|| format!("namespace {} does not exist", shown.namespace))
    }

    /// Returns a failure if the API server has the kind of an object, but not in its version. The version of a manifest that
    /// is encrypted as a whole is not known.
    fn version_failure(&self, object: &BuiltObject, own: &OwnScopes) -> Option<String> {
        let kind = object.id.group_kind();
        let is_defined = self.defined.contains_key(&kind) || own.defined.contains_key(&kind);
        let is_unknown = object.version.is_empty() || is_defined;
        (!is_unknown && self.snapshot.serves(&kind, &object.version) == Some(false)).then(|| {
            let shown = object.shown_id();
            format!("no matches for kind {} in version {}/{}", shown.kind, shown.group, object.version)
        })
    }

    fn is_namespaced(&self, kind: &GroupKind) -> Option<bool> {
        let served = self.snapshot.resource_type(kind).map(|kind| kind.namespaced);
        served.or_else(|| self.defined.get(kind).copied())
    }
}

/// Kinds and namespaces of one build.
struct OwnScopes {
    defined: HashMap<GroupKind, bool>,
    namespaces: BTreeSet<String>,
}

impl OwnScopes {
    fn new(built: &[BuiltObject]) -> Self {
        let namespaces = built.iter().filter(|object| object.id.is("", "Namespace"));
        Self {
            defined: built.iter().filter_map(defined_kind).collect(),
            namespaces: namespaces.map(|object| object.id.name.to_string()).collect(),
        }
    }
}

/// Returns true if the controller can read an object whose values were substituted: the values of a ConfigMap or Secret and
/// all annotations must be text. Other values of built-in types are not checked.
fn has_text_values(object: &BuiltObject) -> bool {
    let is_data = object.id.is("", "ConfigMap") || object.id.is("", "Secret");
    let parts =
        if is_data { &["/metadata/annotations", "/data", "/stringData"][..] } else { &["/metadata/annotations"] };
    parts.iter().filter_map(|part| object.manifest.pointer(part)?.as_object()).all(holds_text)
}

fn holds_text(values: &Map<String, Value>) -> bool {
    values.values().all(|value| value.is_string() || value.is_null())
}

/// Returns true if the API server refuses a Kustomization because a variable is no text.
fn has_invalid_variable(object: &BuiltObject) -> bool {
    let variables = object.manifest.pointer("/spec/postBuild/substitute").and_then(Value::as_object);
    object.id.is(GROUP, KIND) && !variables.is_none_or(holds_text)
}

/// Returns true if the API server accepts a name: lower-case letters, digits, `-` and `.`; no `.` for Namespaces and
/// Services; almost anything for RBAC kinds.
fn is_valid_name(id: &ObjectId) -> bool {
    if &*id.group == "rbac.authorization.k8s.io" {
        return !id.name.contains(['/', '%']);
    }
    let is_label = id.is("", "Namespace") || id.is("", "Service");
    id.name.len() <= if is_label { 63 } else { 253 }
        && id.name.chars().all(|c| is_alphanumeric(c) || c == '-' || (c == '.' && !is_label))
        && id.name.starts_with(is_alphanumeric)
        && id.name.ends_with(is_alphanumeric)
}

/// Stages of an apply, in order. A failure stops its stage and all later ones
/// (docs/reference/kustomize-controller.md 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Definitions,
    Classes,
    Custom,
    Rest,
}

/// Returns the stage of an object; `custom` are the kinds of `--custom-apply-stage-kinds`.
pub(crate) fn stage(id: &ObjectId, custom: &BTreeSet<GroupKind>) -> Stage {
    let is_definition = id.is("apiextensions.k8s.io", "CustomResourceDefinition")
        || id.is("", "Namespace")
        || id.is("rbac.authorization.k8s.io", "ClusterRole");
    match &*id.kind {
        _ if is_definition => Stage::Definitions,
        kind if kind.ends_with("Class") => Stage::Classes,
        _ if custom.contains(&id.group_kind()) => Stage::Custom,
        _ => Stage::Rest,
    }
}

/// Returns the outcome of an apply that fails at one object.
pub(crate) fn stop_at(
    desired: Arc<BuiltObjects>,
    id: &ObjectId,
    failure: String,
    custom: &BTreeSet<GroupKind>,
) -> PassOutcome {
    partial(desired, stage(id, custom), failure, custom)
}

fn partial(desired: Arc<BuiltObjects>, failing: Stage, failure: String, custom: &BTreeSet<GroupKind>) -> PassOutcome {
    let earlier = desired.iter().filter(|(id, _)| stage(id, custom) < failing);
    let applied = Arc::new(earlier.map(|(id, built)| (id.clone(), built.clone())).collect());
    PassOutcome::Partial { applied, desired, reason: Reason::new(ReasonCode::ApplyRefused, failure) }
}

fn is_alphanumeric(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}
