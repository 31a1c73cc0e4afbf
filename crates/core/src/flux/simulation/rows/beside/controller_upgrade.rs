//! The version of kustomize-controller that the change installs: the plan has the rules of the one that runs now.

use crate::flux::kustomize_controller::{KustomizeController, is_known, version_text};
use crate::flux::simulation::model::state::State;
use crate::plan::ControllerUpgrade;

/// Returns the change of the version of kustomize-controller, if rules differ or are not known.
pub(super) fn controller_upgrade(state: &State<'_>) -> Option<ControllerUpgrade> {
    let (from, features) = (state.input.controller_version?, state.input.features);
    let staying = state.nodes.iter().filter(|node| node.may_stay());
    let mut applied = staying.flat_map(|node| node.last_applied_objects());
    let (to, new) = applied.find_map(|(id, (_, built))| {
        let is_readable = id.cluster.is_none() && built.masked.is_none() && built.undecrypted.is_none();
        KustomizeController::installed_by(id, &built.manifest, (from, features)).filter(|_| is_readable)
    })?;
    let mut rules: Vec<String> = features.differences(&new).into_iter().map(str::to_owned).collect();
    if !is_known(to) && to != from {
        rules.push("it is newer than this tool, which does not know its rules".to_owned());
    }
    (!rules.is_empty()).then(|| ControllerUpgrade { from: version_text(from), to: version_text(to), rules })
}
