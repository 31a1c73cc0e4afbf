//! Scope of kinds, and the failures of an apply that can be predicted without the API server.
//!
//! Source: docs/reference/kustomize-controller.md 2.1 (scope comes from discovery, never from the manifest) and 4.2.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::flux::build::objects::undecrypted::Undecrypted;
use crate::flux::build::objects::{BuiltObject, defined_kind, served_versions};
use crate::flux::controller_flags::ControllerFlags;
use crate::flux::simulation::model::node::{BuiltObjects, PassOutcome};
use crate::flux::simulation::model::protection::{is_marked, is_never_applied, is_never_changed};
use crate::flux::simulation::model::state::State;
use crate::flux::spec::KustomizationSpec;
use crate::flux::stages::{Stage, stage};
use crate::kubernetes::allocations::allocations;
use crate::kubernetes::definition_names::DefinitionNames;
use crate::kubernetes::deletion::order::apply_order;
use crate::kubernetes::object::{GroupKind, ObjectId, list_at};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND, SSA};
use crate::plan::{Reason, ReasonCode};

/// Kinds of custom resource definitions.
#[derive(Default)]
struct DefinedKinds(HashMap<GroupKind, DefinedKind>);

struct DefinedKind {
    is_namespaced: bool,
    /// Versions that a definition of the kind serves; `None` if one does not show them.
    served: Option<BTreeSet<String>>,
}

impl DefinedKinds {
    /// Adds the kind of a definition. The scope is that of the last one.
    fn add(&mut self, built: &BuiltObject) {
        let Some((kind, is_namespaced)) = defined_kind(built) else { return };
        let served = served_versions(built).map(|(_, served)| served.into_iter().map(str::to_owned));
        let known = self.0.entry(kind).or_insert_with(|| DefinedKind { is_namespaced, served: Some(BTreeSet::new()) });
        known.is_namespaced = is_namespaced;
        known.served = known.served.take().zip(served).map(|(known, more)| known.into_iter().chain(more).collect());
    }

    fn is_namespaced(&self, kind: &GroupKind) -> Option<bool> {
        Some(self.0.get(kind)?.is_namespaced)
    }

    /// Returns true if a definition may serve a version of a kind; `None` if there is no definition of it.
    fn may_serve(&self, kind: &GroupKind, version: &str) -> Option<bool> {
        Some(self.0.get(kind)?.served.as_ref().is_none_or(|served| served.contains(version)))
    }
}

/// Kinds and namespaces that exist, or that some Kustomization or another owner applies.
pub(crate) struct Scopes<'a> {
    /// Reading of the cluster.
    snapshot: &'a Snapshot,
    defined: DefinedKinds,
    namespaces: BTreeSet<String>,
    /// The snapshot holds Namespaces, so that a missing one does not exist.
    has_namespaces: bool,
    /// Live definitions that a Kustomization deletes, so that others can have their names.
    leaving: BTreeSet<ObjectId>,
    /// Flags of the controller, with the kinds that have a stage of their own.
    flags: &'a ControllerFlags,
}

impl<'a> Scopes<'a> {
    /// Collects the kinds and namespaces of a cluster and of the builds for it so far. The cluster itself has no name.
    pub(crate) fn new(name: Option<&Arc<str>>, snapshot: &'a Snapshot, state: &'a State<'_>) -> Self {
        let live = snapshot.objects.iter().filter(|object| object.id.is("", "Namespace"));
        let mut namespaces: BTreeSet<String> = live.map(|object| object.id.name.to_string()).collect();
        let has_namespaces = !namespaces.is_empty();
        let mut defined = DefinedKinds::default();
        let passes = state.nodes.iter().flat_map(|node| &node.passes);
        let generated = state.owner_applies().flat_map(|(_, applies)| applies.objects.values());
        let applied = passes.flat_map(|pass| {
            let objects = pass.applied_objects().into_iter().flat_map(BuiltObjects::values);
            objects.filter(|built| !is_never_applied(built, &pass.spec))
        });
        for built in applied.chain(generated).filter(|built| built.id.cluster.as_ref() == name) {
            defined.add(built);
            if built.id.is("", "Namespace") {
                namespaces.insert(built.id.name.to_string());
            }
        }
        let leaving = leaving_definitions(state);
        Self { snapshot, defined, namespaces, has_namespaces, leaving, flags: &state.input.flags }
    }

    /// Returns the outcome of applying a build of a Kustomization with a spec, or of another owner.
    pub(crate) fn apply(&self, built: Vec<BuiltObject>, spec: Option<&KustomizationSpec>) -> PassOutcome {
        let built: Vec<_> =
            built.into_iter().map(|object| (spec.filter(|spec| self.is_skipped(&object, spec)), object)).collect();
        let sent = built.iter().filter(|(skipping, _)| skipping.is_none()).map(|(_, object)| object);
        let own = OwnScopes::new(sent);
        let mut failures = self.taken_names(&own);
        let mut desired = BuiltObjects::new();
        for (skipping, object) in built {
            let stage = stage(&object.id, &self.flags.custom_stage_kinds);
            if let Some(spec) = skipping {
                let id = self.identity(&object, &own);
                if stage < Stage::Custom && is_never_applied(&object, spec) && self.snapshot.object(&id).is_none() {
                    let detail = format!("it waits for {}, which it does not create", object.shown_id());
                    failures.push(Failure { stage, part: FailedPart::Wait, detail });
                }
                desired.insert(id.clone(), BuiltObject { id, ..object });
                continue;
            }
            let (id, failure) = self.place(&object, &own, spec);
            failures.extend(failure.map(|detail| Failure { stage, part: FailedPart::Check, detail }));
            let Some(id) = id else { continue };
            desired.insert(id.clone(), BuiltObject { id, ..object });
        }
        failures.extend(self.taken_allocation(&desired));
        let desired = Arc::new(desired);
        failures.sort_by_key(|failure| (failure.stage, failure.part.clone()));
        match failures.into_iter().next() {
            None => PassOutcome::Applied(desired),
            Some(first) => partial(desired, &first, &self.flags.custom_stage_kinds),
        }
    }

    /// Returns true if the controller does not send an object, whatever it is.
    fn is_skipped(&self, object: &BuiltObject, spec: &KustomizationSpec) -> bool {
        let is_clustered = self.is_namespaced(&object.id.group_kind()) == Some(false);
        let namespace = if is_clustered { "".into() } else { object.id.namespace.clone() };
        let live = self.snapshot.object(&ObjectId { namespace, ..object.id.clone() });
        is_never_applied(object, spec)
            || live.is_some_and(|live| is_never_changed(live) || is_marked(object, spec, SSA, "ifnotpresent"))
    }

    /// Returns the identity of an object that is not sent.
    fn identity(&self, object: &BuiltObject, own: &OwnScopes) -> ObjectId {
        let kind = object.id.group_kind();
        match self.scope_after(&kind, own) {
            Some(false) => ObjectId { namespace: "".into(), ..object.id.clone() },
            None | Some(true) => object.id.clone(),
        }
    }

    /// Returns true if objects of a kind have a namespace once the definitions of a build are applied. A definition keeps its
    /// scope unless it is created anew, and the build fails if it is not.
    fn scope_after(&self, kind: &GroupKind, own: &OwnScopes) -> Option<bool> {
        own.defined.is_namespaced(kind).or_else(|| self.is_namespaced(kind))
    }

    /// Returns a failure if the controller asks for an object at an address that a definition of its build takes away. It keeps
    /// the scope of each kind that it has seen, unless it acts as a service account (observed).
    fn address_failure(&self, object: &BuiltObject, own: &OwnScopes, spec: &KustomizationSpec) -> Option<String> {
        let kind = object.id.group_kind();
        let served = self.snapshot.resource_type(&kind)?.namespaced;
        let has_account = self.flags.service_account(spec).is_some() || spec.value().get("kubeConfig").is_some();
        let is_changed = own.defined.is_namespaced(&kind).is_some_and(|own| own != served);
        let shown = object.shown_id();
        (is_changed && !has_account && !object.id.namespace.is_empty()).then(|| {
            format!("{shown} is not found, because the controller asks for it with the former scope of its kind")
        })
    }

    /// Returns a failure for each new definition that never gets its names, because another one has one of them: a live one that
    /// stays, or a new one of the same build.
    fn taken_names(&self, own: &OwnScopes) -> Vec<Failure> {
        let new: Vec<_> = own.definitions.iter().filter(|(id, _)| self.snapshot.object(id).is_none()).collect();
        let taken = self.names_of_others(&new, true).into_iter();
        let failures = taken.map(|(id, other, name)| {
            let detail = format!("{id} is not established, because {other} has its name {name}");
            Failure { stage: Stage::Definitions, part: FailedPart::Wait, detail }
        });
        failures.collect()
    }

    /// Returns the condition of an apply of a live definition that asks for a name of another one: its stage fails,
    /// unless it is looked at before the API server has looked at the name.
    pub(crate) fn contested_name(&self, objects: &BuiltObjects, spec: &KustomizationSpec) -> Option<String> {
        let sent = objects.values().filter(|object| !is_never_applied(object, spec));
        let own = OwnScopes::new(sent);
        let live: Vec<_> = own.definitions.iter().filter(|(id, _)| self.snapshot.object(id).is_some()).collect();
        let (id, other, name) = self.names_of_others(&live, false).into_iter().next()?;
        Some(format!("nothing more is applied once the API server refuses {id} the name {name}, which {other} has"))
    }

    /// Returns the definitions that ask for a name of another one, with that one and the name. The others are those
    /// that stay, and `with_own` the definitions themselves.
    fn names_of_others<'o>(
        &self,
        definitions: &[&'o (ObjectId, DefinitionNames)],
        with_own: bool,
    ) -> Vec<(&'o ObjectId, String, String)> {
        let groups: BTreeSet<&str> = definitions.iter().map(|(_, names)| names.group()).collect();
        let of_groups = self.snapshot.types.iter().filter(|kind| groups.contains(&*kind.group));
        let staying = of_groups.filter(|kind| !self.leaving.contains(&kind.definition()));
        let served: Vec<DefinitionNames> = staying.map(DefinitionNames::of_type).collect();
        let own = definitions.iter().filter(|_| with_own).map(|(_, names)| names);
        let taken = definitions.iter().filter_map(|(id, names)| {
            let all = served.iter().chain(own.clone());
            let mut others = all.filter(|other| other.full_name() != *id.name);
            let (other, name) = others.find_map(|other| Some((other, names.shared_with(other)?)))?;
            Some((id, other.full_name(), name.to_owned()))
        });
        taken.collect()
    }

    /// Returns a failure if two new Services ask for one port or address. The server accepts each of them alone.
    fn taken_allocation(&self, desired: &BuiltObjects) -> Option<Failure> {
        let mut services: Vec<&BuiltObject> = desired
            .values()
            .filter(|built| built.id.is("", "Service") && self.snapshot.object(&built.id).is_none())
            .collect();
        services.sort_by(|a, b| apply_order(&a.id, &b.id));
        let mut taken = BTreeSet::new();
        for service in services {
            if let Some(what) = allocations(&service.manifest).into_iter().find(|it| !taken.insert(*it)) {
                let detail = format!("{} asks for {what}, as another one does", service.shown_id());
                let part = FailedPart::From(service.id.clone());
                return Some(Failure { stage: stage(&service.id, &self.flags.custom_stage_kinds), part, detail });
            }
        }
        None
    }

    /// Returns the identity of an object in the cluster, `None` for an unknown kind, and its first failure.
    fn place(
        &self,
        object: &BuiltObject,
        own: &OwnScopes,
        spec: Option<&KustomizationSpec>,
    ) -> (Option<ObjectId>, Option<String>) {
        let (id, shown) = (object.id.clone(), object.shown_id());
        if object.undecrypted == Some(Undecrypted::Identity) {
            return (Some(id), None);
        }
        let kind = id.group_kind();
        let has_text = has_text_values(object);
        let refused = (!object.has_unknown_identity() && !is_valid_name(&id))
            .then(|| format!("the API server refuses the name {:?}", &*shown.name))
            .or_else(|| self.version_failure(object, own))
            .or_else(|| self.stored_version_failure(object))
            .or_else(|| has_invalid_variable(object).then(|| format!("{shown} has a variable that is no text")))
            .or_else(|| (!has_text).then(|| format!("{shown} has a value that is no text where only text is allowed")))
            .or_else(|| self.address_failure(object, own, spec?));
        match self.scope_after(&kind, own) {
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

    /// Returns a failure if the API server has the kind of an object, but not in its version, and no definition adds it. The version of
    /// a manifest that is encrypted as a whole is not known.
    fn version_failure(&self, object: &BuiltObject, own: &OwnScopes) -> Option<String> {
        let kind = object.id.group_kind();
        let defined = [&self.defined, &own.defined].map(|defined| defined.may_serve(&kind, &object.version));
        let is_refused = match self.snapshot.serves(&kind, &object.version) {
            Some(is_served) => !is_served,
            None => self.snapshot.resource_type(&kind).is_none() && defined.iter().any(Option::is_some),
        };
        (is_refused && !object.version.is_empty() && !defined.contains(&Some(true))).then(|| {
            let shown = object.shown_id();
            format!("no matches for kind {} in version {}/{}", shown.kind, shown.group, object.version)
        })
    }

    /// Returns a failure if a definition drops a version in which objects may be stored (observed; apiextensions-apiserver
    /// v0.36.3 `pkg/apis/apiextensions/validation/validation.go`).
    fn stored_version_failure(&self, object: &BuiltObject) -> Option<String> {
        defined_kind(object)?;
        let stored = self.snapshot.stored_versions.get(&*object.id.name)?.iter();
        let versions = list_at(&object.manifest, "/spec/versions");
        let mut missing = stored.filter(|stored| versions.iter().all(|version| version["name"] != ***stored));
        let dropped = missing.next()?;
        let shown = object.shown_id();
        Some(format!("the API server refuses {shown}: it drops version {dropped}, in which objects may be stored"))
    }

    fn is_namespaced(&self, kind: &GroupKind) -> Option<bool> {
        let served = self.snapshot.resource_type(kind).map(|kind| kind.namespaced);
        served.or_else(|| self.defined.is_namespaced(kind))
    }
}

/// Returns the definitions that Kustomizations delete.
fn leaving_definitions(state: &State<'_>) -> BTreeSet<ObjectId> {
    let deleting = state.nodes.iter().flat_map(|node| {
        let listed = node.inventory.iter().filter(|id| id.is_definition());
        listed.filter(move |id| node.deletion.is_some() || node.last_pass().is_some_and(|last| last.prunes(id)))
    });
    deleting.cloned().collect()
}

/// Kinds and namespaces of one build.
struct OwnScopes {
    defined: DefinedKinds,
    /// Names of its definitions.
    definitions: Vec<(ObjectId, DefinitionNames)>,
    namespaces: BTreeSet<String>,
}

impl OwnScopes {
    fn new<'b>(sent: impl Iterator<Item = &'b BuiltObject> + Clone) -> Self {
        let namespaces = sent
            .clone()
            .filter(|object| object.id.is("", "Namespace"))
            .map(|object| object.id.name.to_string())
            .collect();
        let own = sent.clone().filter(|object| object.id.is_definition() && object.masked.is_none());
        let definitions =
            own.map(|object| (object.id.clone(), DefinitionNames::of_manifest(&object.manifest))).collect();
        let mut defined = DefinedKinds::default();
        sent.for_each(|object| defined.add(object));
        Self { defined, definitions, namespaces }
    }
}

/// Returns true if the values of a ConfigMap or Secret and all annotations are text, as the server demands. Other values are
/// not checked.
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
    match (&*id.group, &*id.kind) {
        ("certificates.k8s.io", "CertificateSigningRequest") => return !id.name.contains(['/', '%']),
        ("networking.k8s.io", "IPAddress") => return id.name.parse::<IpAddr>().is_ok(),
        _ => {}
    }
    let is_label = id.is("", "Namespace") || id.is("", "Service");
    id.name.len() <= if is_label { 63 } else { 253 }
        && id.name.chars().all(|c| is_alphanumeric(c) || c == '-' || (c == '.' && !is_label))
        && id.name.starts_with(is_alphanumeric)
        && id.name.ends_with(is_alphanumeric)
}

/// Returns the outcome of an apply that fails at one object.
pub(crate) fn stop_at(
    desired: Arc<BuiltObjects>,
    id: &ObjectId,
    failure: String,
    custom: &BTreeSet<GroupKind>,
) -> PassOutcome {
    let failure = Failure { stage: stage(id, custom), part: FailedPart::Check, detail: failure };
    partial(desired, &failure, custom)
}

/// Returns the outcome of an apply that fails at one object whose stage has passed its check.
pub(crate) fn stop_from(
    desired: Arc<BuiltObjects>,
    id: &ObjectId,
    failure: String,
    custom: &BTreeSet<GroupKind>,
) -> PassOutcome {
    let failure = Failure { stage: stage(id, custom), part: FailedPart::From(id.clone()), detail: failure };
    partial(desired, &failure, custom)
}

/// Returns the outcome of an apply that fails at the wait for a stage.
pub(crate) fn stop_after(
    desired: Arc<BuiltObjects>,
    stage: Stage,
    failure: String,
    custom: &BTreeSet<GroupKind>,
) -> PassOutcome {
    partial(desired, &Failure { stage, part: FailedPart::Wait, detail: failure }, custom)
}

/// A failure of an apply.
struct Failure {
    stage: Stage,
    part: FailedPart,
    detail: String,
}

/// Part of a stage that fails, in the order of the parts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum FailedPart {
    /// The check of all objects, before any of them is applied.
    Check,
    /// The apply of this object: those before it are applied.
    From(ObjectId),
    /// The wait for all objects, after they are applied.
    Wait,
}

impl Failure {
    /// Returns true if an object of a stage is applied all the same.
    fn applies(&self, id: &ObjectId, stage: Stage) -> bool {
        match &self.part {
            _ if stage != self.stage => stage < self.stage,
            FailedPart::Check => false,
            FailedPart::From(first) => apply_order(id, first).is_lt(),
            FailedPart::Wait => true,
        }
    }
}

fn partial(desired: Arc<BuiltObjects>, failure: &Failure, custom: &BTreeSet<GroupKind>) -> PassOutcome {
    let earlier = desired.iter().filter(|(id, _)| failure.applies(id, stage(id, custom)));
    let applied = Arc::new(earlier.map(|(id, built)| (id.clone(), built.clone())).collect());
    PassOutcome::Partial { applied, desired, reason: Reason::new(ReasonCode::ApplyRefused, failure.detail.as_str()) }
}

fn is_alphanumeric(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}
