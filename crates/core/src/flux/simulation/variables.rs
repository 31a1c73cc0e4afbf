//! ConfigMaps and Secrets that variables come from and that the change itself makes, changes or deletes.
//!
//! The controller reads them whenever it builds. A Kustomization may therefore still be built with what they held before;
//! at its next interval at the latest it is built with what they hold then (reference kustomize-controller 3.7; observed
//! by the oracle).

use std::collections::BTreeMap;

use super::model::{Node, NodeId, Pass};
use super::outcomes::{FinalState, is_skipped};
use super::{Consequences, Preview};
use crate::flux::build::data::{Data, DataRef, Lookup};
use crate::flux::build::substitute::variable_sources;
use crate::flux::build::{Answers, DataOverrides};
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::object::ObjectId;
use crate::ownership::schemes::flux_kustomization::SSA;

/// What the variables of one Kustomization will be.
#[derive(Default)]
pub(crate) struct VariableUpdate {
    /// What ConfigMaps and Secrets will hold, where that is another thing than now.
    pub(crate) data: DataOverrides,
    /// A pass that brings the new data.
    pub(crate) by: Option<(NodeId, usize)>,
    /// Whether a build with the old data comes first: surely, perhaps (`None`), or surely not.
    pub(crate) old_first: Option<bool>,
}

impl Preview<'_> {
    /// What the change makes of the variables of a Kustomization with this spec; `None` when they stay as they are, and
    /// as long as it is not known what they are.
    pub(crate) fn renewed(
        &self,
        key: &NamespacedName,
        spec: &KustomizationSpec,
        consequences: &Consequences<'_>,
        answers: &Answers,
    ) -> Option<VariableUpdate> {
        let mut renewed = VariableUpdate::default();
        let mut old_builds = true;
        let mut waits = false;
        for source in variable_sources(spec.value()) {
            let reference = source.reference(&key.namespace);
            let now = answers.data(&reference)?;
            let Some((then, by)) = self.then(&reference, now, consequences) else { continue };
            if values(now) == values(&then) {
                continue;
            }
            old_builds &= match now {
                Lookup::Found(_) => true,
                Lookup::Missing => source.optional,
                Lookup::Unreadable(_) => false,
            };
            match by {
                Some((node, _)) if node.key == *key => renewed.old_first = Some(true),
                Some((node, pass)) => {
                    waits |= self.depends_on(key, spec, &node.key);
                    renewed.by = Some((node, pass));
                }
                None => {}
            }
            renewed.data.insert(reference, then);
        }
        if !old_builds || waits {
            renewed.old_first = Some(false);
        }
        (!renewed.data.is_empty()).then_some(renewed)
    }

    /// What a ConfigMap or Secret holds after the change and the pass that writes it; `None` when nothing touches it.
    fn then(
        &self,
        reference: &DataRef,
        now: &Lookup,
        consequences: &Consequences<'_>,
    ) -> Option<(Lookup, Option<(NodeId, usize)>)> {
        let id = ObjectId::new("", &reference.kind, &reference.namespace, &reference.name);
        let live = self.object(&id);
        let applied =
            |node: &'_ Node| node.last().and_then(Pass::applied).is_some_and(|desired| desired.contains_key(&id));
        if let Some(node) = self.nodes.iter().filter(|node| node.stays()).find(|node| applied(node)) {
            let built = node.last()?.applied()?.get(&id)?;
            let by = (node.id.clone(), node.passes.len() - 1);
            let skipped = is_skipped(built) || (live.is_some() && built.has_label_or_annotation(SSA, "ifnotpresent"));
            // What is encrypted cannot be compared, and is taken to stay.
            let before = match now {
                Lookup::Found(before) => before,
                Lookup::Missing | Lookup::Unreadable(_) => &Data::default(),
            };
            let after = before.after_apply(&built.manifest);
            return (!skipped && built.undecrypted.is_none()).then_some((Lookup::Found(after), Some(by)));
        }
        live?;
        let fate = consequences.fates.get(&id);
        let deleted = fate.is_some_and(|fate| fate.ends.iter().all(|end| *end == FinalState::Goes));
        (deleted || consequences.taken.contains_key(&id)).then_some((Lookup::Missing, None))
    }
}

fn values(lookup: &Lookup) -> Option<&BTreeMap<String, String>> {
    match lookup {
        Lookup::Found(data) => Some(&data.values),
        Lookup::Missing | Lookup::Unreadable(_) => None,
    }
}
