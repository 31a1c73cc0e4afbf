//! Names of a plan that hold values of Secrets.

use crate::flux::build::Answers;
use crate::flux::build::objects::data::Lookup;
use crate::flux::build::objects::undecrypted::UNKNOWN;
use crate::flux::build::substitute::variable_sources;
use crate::flux::simulation::model::node::Pass;
use crate::flux::simulation::model::state::State;
use crate::kubernetes::object::ObjectId;
use crate::plan::mask::SecretMask;

/// Number of bytes from which a value is searched for in texts. A shorter one occurs by chance.
const MIN_SEARCHED: usize = 4;

/// Returns the names that hold values of Secrets: those of built objects, and those of live objects that an earlier
/// build may have named so.
pub(crate) fn secret_mask(state: &State<'_>, answers: &Answers) -> SecretMask {
    let mut mask = SecretMask::default();
    for node in &state.nodes {
        let built = node.passes.iter().filter_map(Pass::desired_objects).flat_map(|objects| objects.values());
        for object in built.filter(|object| object.masked.is_some()) {
            // The server gives a cluster-scoped object no namespace.
            add_identity(&mut mask, &object.id, object.shown_id());
        }
        let specs = node.passes.iter().map(|pass| pass.spec.value());
        for value in specs.flat_map(|spec| secret_values(spec, &node.id.key.namespace, answers)) {
            mask.add_value(&value);
            for id in node.inventory.iter().filter(|id| id.name.contains(&value)) {
                mask.add_word(&id.name, &id.name.replace(&value, UNKNOWN));
            }
        }
    }
    mask
}

/// Returns the values of the Secrets that a spec names, as far as they were read and are long enough to search for.
fn secret_values(spec: &serde_json::Value, namespace: &str, answers: &Answers) -> Vec<String> {
    let mut values = vec![];
    for source in variable_sources(spec) {
        if let Some(Lookup::Found(data)) = answers.data(&source.reference(namespace))
            && data.is_secret
        {
            values.extend(data.values.values().map(|value| value.replace('\n', "")));
        }
    }
    values.retain(|value| value.len() >= MIN_SEARCHED);
    values
}

fn add_identity(mask: &mut SecretMask, id: &ObjectId, shown: &ObjectId) {
    mask.add_word(&id.group, &shown.group);
    mask.add_word(&id.kind, &shown.kind);
    mask.add_word(&id.name, &shown.name);
    if !id.namespace.is_empty() {
        mask.add_word(&id.namespace, &shown.namespace);
    }
}
