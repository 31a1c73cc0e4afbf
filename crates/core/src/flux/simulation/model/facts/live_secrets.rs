//! Live objects that hold values of Secrets: what an owner makes of such values, and what was encrypted in the tree.
//!
//! The last applied build of a Kustomization says which of its objects hold some, and where, in whatever form. So do objects of
//! any kind that SOPS encrypts: the cluster has them decrypted. What other owners make of them is not known in parts, and counts as private unless the tree writes the same openly.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::Value;

use crate::flux::apply::question::Question;
use crate::flux::build::objects::BuiltObject;
use crate::flux::build::objects::data::{Data, DataOverrides, DataRef, Lookup};
use crate::flux::build::objects::undecrypted::Undecrypted;
use crate::flux::build::substitute::{data_references, variable_sources};
use crate::flux::build::{self, Answers, BuildContext, Interrupt, Needs};
use crate::flux::simulation::model::clusters::in_cluster;
use crate::flux::simulation::model::facts::unread_secrets::{has_all, unread_objects};
use crate::flux::simulation::model::secret_values::Held;
use crate::flux::simulation::model::state::State;
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::object::{ObjectId, Resource};
use crate::ownership::Members;
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND};

/// Finds the values of Secrets among the answers, and the live objects that hold some. Returns the answers that are missing for
/// the builds of the last applied revisions.
pub(crate) fn find_live_secrets(state: &mut State<'_>, answers: &Answers) -> Needs {
    state.secrets.set_values(answers);
    let mut needs = Needs::default();
    loop {
        let mut found = vec![];
        for live in state.input.snapshot.resources.iter().filter(|live| !state.secrets.has_read(&live.object.id)) {
            found.extend(objects_with_secrets(state, answers, live, &mut needs).map(|objects| (live, objects)));
        }
        if found.is_empty() {
            state.secrets.set_unread(unread_objects(state));
            return needs;
        }
        // An owner among them is one whose objects hold values too.
        found.into_iter().for_each(|(live, objects)| state.secrets.add(live.object.id.clone(), objects));
    }
}

/// Returns the objects of a live owner that hold values of Secrets, or can; `None` if it is none that reads some, or if it is
/// not known yet.
fn objects_with_secrets(
    state: &State<'_>,
    answers: &Answers,
    live: &Resource,
    needs: &mut Needs,
) -> Option<Vec<(ObjectId, Held)>> {
    let id = &live.object.id;
    let (key, references) = (NamespacedName::of(id), data_references(live));
    let holds_some = match state.secrets.held(id) {
        Some(held) if id.is(GROUP, KIND) => held.in_spec || held.is_assumed,
        held => held.is_some_and(|held| held.in_manifest || held.is_assumed),
    };
    let reads_some = references.iter().any(|reference| match answers.data.get(reference) {
        Some(Lookup::Found(data)) => data.is_secret || state.holds_secrets_in_data(&reference.id(), data),
        _ => false,
    });
    let names_some = id.is(GROUP, KIND) && references.iter().any(DataRef::is_secret);
    let decrypts = id.is(GROUP, KIND) && KustomizationSpec::of(live).decrypts();
    let artifact = state.input.last_applied.get(&key).filter(|_| id.is(GROUP, KIND) && !holds_some);
    let mut built = None;
    if let Some(artifact) = artifact.filter(|_| reads_some || names_some || decrypts) {
        let spec = KustomizationSpec::of(live);
        let overrides = Cow::Owned(DataOverrides::new());
        let overrides = state.with_private_data(answers, &key, &spec, overrides);
        let mut context = BuildContext::new(state.input.features, answers, needs);
        context.overrides = &overrides;
        built = match build::build(artifact, &key, &spec, &mut context) {
            Err(Interrupt::Missing) => return None,
            Err(Interrupt::Failed(_)) => None,
            Ok(built) => Some(built),
        };
    }
    if !(holds_some || reads_some || built.is_some()) {
        return None;
    }
    let cluster = state.target_of_live(live).unwrap_or_default();
    let placed: Vec<BuiltObject> = built.iter().flat_map(|built| in_cluster(built, cluster.as_ref())).collect();
    let mut objects: Vec<(ObjectId, Held)> = placed.iter().map(|built| held_by(state, built)).collect();
    let known: BTreeSet<ObjectId> = objects.iter().map(|(id, _)| id.clone()).collect();
    let only_decrypts = !(holds_some || reads_some || names_some);
    if only_decrypts {
        objects.retain(|(_, held)| held.in_manifest);
    }
    let are_named = placed.iter().all(|built| built.undecrypted != Some(Undecrypted::Identity));
    if let Members::Listed(members) = state.members(live)
        && !(only_decrypts && are_named)
    {
        let others = members.into_iter().filter(|id| !known.contains(id));
        objects.extend(others.map(|id| (id, Held { is_assumed: true, ..Held::default() })));
    }
    Some(objects)
}

/// Returns the identity of an object of a build, and the parts of it that hold values of Secrets.
fn held_by(state: &State<'_>, built: &BuiltObject) -> (ObjectId, Held) {
    let mut id = built.id.clone();
    let types = state.input.snapshot.of_cluster(id.cluster.as_ref());
    if types.and_then(|types| types.resource_type(&id.group_kind())).is_some_and(|found| !found.namespaced) {
        // The server gives a cluster-scoped object no namespace.
        id.namespace = "".into();
    }
    let in_spec = built.is_masked_at("/spec") || built.has_encrypted_spec();
    let held = Held {
        in_manifest: built.masked.is_some() || built.is_encrypted(),
        in_spec,
        is_assumed: false,
        shown: built.hides_identity().then(|| built.shown_id().clone()),
        open: (!in_spec).then(|| built.manifest.clone()),
    };
    (id, held)
}

impl State<'_> {
    /// Returns true if a live object holds values of Secrets, or can. Where no owner of it reads Secrets, they and their
    /// transformations are searched for in its content.
    pub(crate) fn live_holds_secrets(&self, id: &ObjectId) -> bool {
        if self.is_encrypted(id) {
            return true;
        }
        match (self.secrets.held(id), self.input.snapshot.resource(id)) {
            (Some(held), Some(live)) => held.in_manifest || self.may_hold_secrets(id, held, live.spec()),
            (Some(held), None) => held.in_manifest || held.is_assumed,
            (None, live) => live.is_some_and(|live| self.secrets.are_in(&live.content)),
        }
    }

    /// Returns true if a manifest of an object is encrypted.
    fn is_encrypted(&self, id: &ObjectId) -> bool {
        self.applied(id).iter().any(|applied| applied.built.is_encrypted())
    }

    /// Returns true if the content of a live object can hold values of Secrets, whether this plan reads them or not.
    pub(crate) fn live_may_hold_secrets(&self, id: &ObjectId) -> bool {
        self.live_object(id).is_some() && (self.live_holds_secrets(id) || self.is_unread(id))
    }

    /// Returns a question that hides what it must hide of the live object.
    pub(crate) fn with_privacy(&self, question: Question) -> Question {
        let hides = !question.hides_live_content() && self.live_may_hold_secrets(&question.id);
        if hides { question.about_private() } else { question }
    }

    /// Returns true if the live spec of a Kustomization is known to hold values of Secrets.
    pub(crate) fn live_spec_holds_secrets(&self, live: &Resource) -> bool {
        let id = &live.object.id;
        self.secrets.held(id).is_some_and(|held| {
            held.in_spec || (self.may_hold_secrets(id, held, live.spec()) && self.secrets.are_in(live.spec()))
        })
    }

    /// Returns true if a spec of a Kustomization is the live one and can hold values of Secrets in forms that are not searched
    /// for.
    pub(crate) fn spec_may_hold_secrets(&self, key: &NamespacedName, spec: &KustomizationSpec) -> bool {
        let id = ObjectId::new(GROUP, KIND, &key.namespace, &key.name);
        let Some((held, live)) = self.secrets.held(&id).zip(self.live.get(key)) else { return false };
        KustomizationSpec::of(live) == *spec && self.may_hold_secrets(&id, held, live.spec())
    }

    /// Returns true if the data of a live ConfigMap holds values of Secrets, or can.
    pub(crate) fn holds_secrets_in_data(&self, id: &ObjectId, data: &Data) -> bool {
        if self.is_encrypted(id) {
            return true;
        }
        let Some(held) = self.secrets.held(id) else {
            return data.values.values().any(|value| self.secrets.are_in_text(value.reveal()));
        };
        let was_open = held
            .open
            .as_ref()
            .is_some_and(|open| Data::read(open).values.iter().all(|(key, value)| data.values.get(key) == Some(value)));
        held.in_manifest || !(was_open || self.is_open_data(id, data))
    }

    /// Returns true if the data of a live ConfigMap holds private values, or can, whether this plan reads them or not.
    pub(crate) fn may_hold_secrets_in_data(&self, id: &ObjectId, data: &Data) -> bool {
        self.holds_secrets_in_data(id, data) || (self.is_unread(id) && !self.is_open_data(id, data))
    }

    /// Returns true if a live spec, in which no value of a Secret was applied last, can hold some all the same: it is not what
    /// was applied last, or that is not known, and the tree does not have it for everybody to read.
    fn may_hold_secrets(&self, id: &ObjectId, held: &Held, spec: &Value) -> bool {
        let was_open = held.open.as_ref().is_some_and(|open| {
            let written = open.get("spec").unwrap_or(&Value::Null);
            // What it has beside that can be more than defaults.
            has_all(spec, written) && !self.adds_secrets(spec, written)
        });
        !was_open && !self.is_open_spec(id, spec)
    }

    /// Returns true if a live value has a value of a Secret, or a transformation of one, in a field that a manifest does not write.
    fn adds_secrets(&self, live: &Value, written: &Value) -> bool {
        match (live, written) {
            (Value::Object(live), Value::Object(written)) => live.iter().any(|(key, value)| match written.get(key) {
                Some(written) if !written.is_null() => self.adds_secrets(value, written),
                _ => self.secrets.are_in_text(key) || self.secrets.are_in(value),
            }),
            (Value::Array(live), Value::Array(written)) => {
                live.iter().zip(written).any(|(live, written)| self.adds_secrets(live, written))
            }
            _ => false,
        }
    }

    /// Returns true if an owner applies an object with this spec and without values of Secrets: the tree has it for everybody
    /// to read.
    fn is_open_spec(&self, id: &ObjectId, spec: &Value) -> bool {
        let spec = KustomizationSpec::new(spec);
        self.applied(id).iter().any(|applied| {
            let manifest = &applied.built.manifest;
            applied.built.masked.is_none()
                && manifest.get("spec").is_some_and(|open| KustomizationSpec::new(open) == spec)
        })
    }

    /// Adds the variables of a Kustomization in live ConfigMaps that hold values of Secrets.
    pub(crate) fn with_private_data<'o>(
        &self,
        answers: &Answers,
        key: &NamespacedName,
        spec: &KustomizationSpec,
        mut overrides: Cow<'o, DataOverrides>,
    ) -> Cow<'o, DataOverrides> {
        for source in variable_sources(spec.value()) {
            let reference = source.reference(&key.namespace);
            let live = answers.data.get(&reference).filter(|_| !overrides.contains_key(&reference));
            let Some(Lookup::Found(data)) = live else { continue };
            if !data.is_secret && self.may_hold_secrets_in_data(&reference.id(), data) {
                let data = Data { is_secret: true, ..data.clone() };
                overrides.to_mut().insert(reference, Lookup::Found(data));
            }
        }
        overrides
    }
}
