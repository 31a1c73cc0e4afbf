//! Kustomization files that a change empties and that their Kustomization still builds.

use std::collections::BTreeSet;

use crate::flux::build::emptied;
use crate::flux::simulation::kustomization::source_states::planned_artifact;
use crate::flux::simulation::model::node::PassOutcome;
use crate::flux::simulation::model::owner_names::owner_id;
use crate::flux::simulation::model::state::State;
use crate::flux::spec::KustomizationSpec;
use crate::ownership::OwnerId;
use crate::plan::{Action, EmptiedFile, Plan};

/// Returns the emptied files of the Kustomizations that stay and lose objects, where git has their last revision.
pub(crate) fn emptied_files(state: &State<'_>, plan: &Plan) -> Vec<EmptiedFile> {
    let lost = plan.deletions().filter(|change| change.action == Action::Delete);
    let losing: BTreeSet<&OwnerId> = lost.filter_map(|change| change.owner.as_ref()).collect();
    let mut emptied = vec![];
    for node in state.nodes.iter().filter(|node| !node.id.is_new && node.deletion.is_none()) {
        let (key, owner) = (&node.id.key, owner_id(&node.id.key));
        let last = node.last_pass().filter(|pass| matches!(pass.outcome, PassOutcome::Applied(_)));
        let (Some(live), Some(last), Some(old)) =
            (state.live.get(key), last, state.input.last_applied.get(key).filter(|_| losing.contains(&owner)))
        else {
            continue;
        };
        let Some(new) = planned_artifact(state, &last.spec.source(&key.namespace)) else { continue };
        let before = (&**old, &KustomizationSpec::of(live));
        let files = emptied::emptied_files(before, (new, &last.spec), state.input.features);
        emptied.extend(files.into_iter().map(|(path, entries)| EmptiedFile { owner: owner.clone(), path, entries }));
    }
    emptied
}
