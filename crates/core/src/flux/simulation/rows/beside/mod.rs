//! Statements of a plan beside its rows: files that the change empties, owners that it does not reach, kinds that were read, and
//! the upgrade of kustomize-controller.

mod controller_upgrade;
mod emptied_files;
mod read_kinds;
mod untouched_owners;

use crate::flux::simulation::model::state::State;
use crate::plan::Plan;
use controller_upgrade::controller_upgrade;
use emptied_files::emptied_files;
use read_kinds::read_kinds;
use untouched_owners::untouched_owners;

/// Adds it to a plan that has its rows.
pub(super) fn add(state: &State<'_>, plan: &mut Plan) {
    plan.set_emptied_files(emptied_files(state, plan));
    plan.set_untouched_owners(untouched_owners(state));
    plan.set_controller_upgrade(controller_upgrade(state));
    if let Some(kinds) = read_kinds(state) {
        plan.set_read_kinds(kinds);
    }
}
