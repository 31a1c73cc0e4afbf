//! A page in HTML: one file that loads nothing, for a browser, an artifact of a CI job, or a printer.
//!
//! Text of others is escaped, and the policy of the page permits no script, style or request but its own, so that a name
//! or message of a cluster cannot do anything.

mod inventory;
mod page;
mod plan;
#[cfg(test)]
mod tests;

use gitops_core::ownership::report::InventoryDocument;
use gitops_core::plan::Plan;
use gitops_core::plan::fleet::Fleet;

/// Returns the page of a plan.
pub(super) fn of_plan(plan: &Plan) -> String {
    plan::page(plan).render()
}

/// Returns the page of the plans of several clusters.
pub(super) fn of_fleet(fleet: &Fleet) -> String {
    let plans = fleet.common_plans();
    plan::fleet_page(fleet, &plans).render()
}

/// Returns the page of an inventory.
pub(super) fn of_inventory(answer: &InventoryDocument) -> String {
    inventory::page(answer).render()
}
