//! Live objects that can hold private values which this plan does not know.
//!
//! An owner that names Secrets which are not read can have put their values into its objects. A Kustomization that decrypts can have
//! put decrypted values into them, unless its last build is known to have none. What the live object holds then stays private.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::flux::build::objects::data::{Data, DataRef};
use crate::flux::build::substitute::data_references;
use crate::flux::simulation::model::applications::applied_spec;
use crate::flux::simulation::model::secret_values::UnreadObjects;
use crate::flux::simulation::model::state::State;
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::object::{ObjectId, Resource};
use crate::ownership::Members;
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND, NAME, NAMESPACE};

/// Returns the live objects of owners whose private values are not known, and those of the owners among them.
pub(super) fn unread_objects(state: &State<'_>) -> UnreadObjects {
    let mut unread = UnreadObjects::default();
    let mut queue: Vec<&Resource> = vec![];
    for live in &state.input.snapshot.resources {
        let is_unread = !state.secrets.has_read(&live.object.id);
        if (is_unread && data_references(live).iter().any(DataRef::is_secret)) || decrypts_unknown(state, live) {
            unread.owners.insert(live.object.id.clone());
            queue.push(live);
        }
    }
    let mut seen = unread.owners.clone();
    while let Some(live) = queue.pop() {
        let owner = &live.object.id;
        for id in members(state, live) {
            queue.extend(state.input.snapshot.resource(&id).filter(|_| seen.insert(id.clone())));
            unread.listed_by.entry(id).or_default().insert(owner.clone());
        }
    }
    add_failed_attempts(state, &mut unread.listed_by);
    unread
}

/// Returns true if a Kustomization decrypts, and it is not known what it applied last.
fn decrypts_unknown(state: &State<'_>, live: &Resource) -> bool {
    let id = &live.object.id;
    id.is(GROUP, KIND)
        && KustomizationSpec::of(live).decrypts()
        && (!state.secrets.has_read(id) || !state.is_ready(&NamespacedName::of(id)))
}

fn members(state: &State<'_>, live: &Resource) -> Vec<ObjectId> {
    match state.members(live) {
        Members::Listed(ids) => ids,
        _ => vec![],
    }
}

/// Adds the objects that a failed attempt of a Kustomization that decrypts may have created: no inventory lists them yet.
fn add_failed_attempts(state: &State<'_>, listed_by: &mut BTreeMap<ObjectId, BTreeSet<ObjectId>>) {
    let decrypting = state.live.iter().filter(|(key, live)| decrypts_unknown(state, live) && !state.is_ready(key));
    let owners: BTreeMap<(&str, &str), &ObjectId> =
        decrypting.map(|(key, live)| ((&*key.namespace, &*key.name), &live.object.id)).collect();
    if owners.is_empty() {
        return;
    }
    for object in state.input.snapshot.clusters().flat_map(|(_, cluster)| &cluster.objects) {
        let claim = object.labels.get(NAMESPACE).zip(object.labels.get(NAME));
        if let Some(owner) = claim.and_then(|claim| owners.get(&claim)) {
            listed_by.entry(object.id.clone()).or_default().insert((*owner).clone());
        }
    }
}

impl State<'_> {
    /// Returns true if a live object can hold private values that this plan does not know: those of an owner of it, or of one above,
    /// unless the tree writes everything openly that is between them.
    pub(crate) fn is_unread(&self, id: &ObjectId) -> bool {
        let UnreadObjects { owners, listed_by } = self.secrets.unread();
        let (mut seen, mut queue) = (BTreeSet::from([id]), vec![id]);
        while let Some(id) = queue.pop() {
            for owner in listed_by.get(id).into_iter().flatten() {
                if owners.contains(owner) {
                    return true;
                }
                if !self.is_open(owner) && seen.insert(owner) {
                    queue.push(owner);
                }
            }
        }
        false
    }

    /// Returns true if the live spec of an owner can hold private values that this plan does not know.
    pub(crate) fn has_unread_spec(&self, id: &ObjectId) -> bool {
        self.is_live(id) && self.is_unread(id) && !self.is_open(id)
    }

    /// Returns true if the tree writes openly what kustomize-controller applied of the spec of a live object.
    fn is_open(&self, id: &ObjectId) -> bool {
        let Some(live) = self.input.snapshot.resource(id) else { return false };
        let spec = applied_spec(live);
        self.is_written(id, |manifest| manifest.get("spec").is_some_and(|written| has_all(written, &spec)))
    }

    /// Returns true if the tree writes all data of a live ConfigMap openly.
    pub(crate) fn is_open_data(&self, id: &ObjectId, data: &Data) -> bool {
        self.is_written(id, |manifest| {
            let written = Data::read(manifest).values;
            data.values.iter().all(|(key, value)| written.get(key) == Some(value))
        })
    }

    /// Returns true if the tree has a manifest of an object that the predicate accepts, and that everybody may read.
    fn is_written(&self, id: &ObjectId, accepts: impl Fn(&Value) -> bool) -> bool {
        let applied = self.applied(id);
        let mut built = applied.iter().map(|applied| applied.built);
        built.any(|built| built.masked.is_none() && !built.is_encrypted() && accepts(&built.manifest))
    }
}

/// Returns true if a live value has everything that a manifest writes. The API server adds defaults.
pub(super) fn has_all(live: &Value, written: &Value) -> bool {
    match (live, written) {
        (Value::Object(live), Value::Object(written)) => {
            written.iter().all(|(key, value)| value.is_null() || live.get(key).is_some_and(|live| has_all(live, value)))
        }
        (Value::Array(live), Value::Array(written)) => {
            live.len() == written.len() && live.iter().zip(written).all(|(live, written)| has_all(live, written))
        }
        _ => live == written,
    }
}
