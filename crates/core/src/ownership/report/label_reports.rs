//! Report on the labels of a whole system, for the systems that keep no record of what they manage.
//!
//! Source: docs/reference/qbec-and-flux-v1.md 11.

use crate::kubernetes::object::ObjectMetadata;
use crate::ownership::classify::OwnershipStatus;
use crate::ownership::index::Index;
use crate::ownership::scheme::label_report::{LabelReport, LabelledObject};
use crate::ownership::schemes::registry::SCHEMES;

/// Returns the report on a system's labels, over the selected objects. `None` for systems that keep an inventory.
pub fn label_report(
    system: &str,
    index: &Index<'_>,
    is_selected: &dyn Fn(&ObjectMetadata) -> bool,
) -> Option<LabelReport> {
    let scheme = SCHEMES.iter().find(|scheme| scheme.system == system && scheme.label_report.is_some())?;
    let mut labelled = vec![];
    for object in &index.snapshot().objects {
        let claims = index.all_resolved_claims(object, index.recorded_by(&object.id));
        let Some(found) = claims.into_iter().find(|found| found.scheme == *scheme) else { continue };
        let managed_by = match index.status(object) {
            OwnershipStatus::Managed(owner) => Some(owner),
            _ => None,
        };
        labelled.push(LabelledObject { object, claim: found.claim, managed_by, is_selected: is_selected(object) });
    }
    Some(scheme.label_report?(index.snapshot(), &labelled))
}
