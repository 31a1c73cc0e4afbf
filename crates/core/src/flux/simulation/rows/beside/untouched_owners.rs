//! Suspended Kustomizations that the change does not touch: a plan leaves them out unless it is asked for all.

use std::collections::BTreeSet;

use crate::flux::build::comparison::reads_same_files;
use crate::flux::simulation::kustomization::source_states::planned_artifact;
use crate::flux::simulation::model::node::{Node, PassOutcome};
use crate::flux::simulation::model::owner_names::owner_id;
use crate::flux::simulation::model::state::State;
use crate::flux::spec::KustomizationSpec;
use crate::ownership::OwnerId;
use crate::plan::{Reason, ReasonCode};

/// Returns the suspended Kustomizations whose spec does not change, and whose build reads no file that differs from the
/// deployed revision.
pub(crate) fn untouched_owners(state: &State<'_>) -> BTreeSet<OwnerId> {
    let suspended = state.nodes.iter().filter(|node| !node.id.is_new && is_only_suspended(node));
    suspended.filter(|node| is_untouched(state, node)).map(|node| owner_id(&node.id.key)).collect()
}

fn is_only_suspended(node: &Node) -> bool {
    let mut outcomes = node.passes.iter().map(|pass| &pass.outcome);
    let suspended = Reason::from(ReasonCode::Suspended);
    node.deletion.is_none() && outcomes.all(|outcome| *outcome == PassOutcome::Blocked(suspended.clone()))
}

fn is_untouched(state: &State<'_>, node: &Node) -> bool {
    let (key, Some(live)) = (&node.id.key, state.live.get(&node.id.key)) else { return false };
    let spec = KustomizationSpec::of(live);
    let source = spec.source(&key.namespace);
    let (Some(old), Some(new)) = (state.input.deployed.get(&source), planned_artifact(state, &source)) else {
        return false;
    };
    node.passes.iter().all(|pass| pass.spec == spec) && reads_same_files(old, new, &spec, state.input.features)
}
