//! Objects that are being deleted when the change arrives, and that finalizers hold.
//!
//! kustomize-controller applies and prunes such an object like any other: the apply changes it, and another DELETE changes
//! nothing. Once it is gone, the next reconciliation creates it again (observed).

use crate::kubernetes::deletion::finalizers::is_removed_by_kubernetes;
use crate::kubernetes::object::ObjectMetadata;
use crate::text::join_limited;

/// Returns what holds an object that is being deleted, as a clause; `None` if it is not being deleted or nothing holds it.
pub(crate) fn held_deletion(object: &ObjectMetadata) -> Option<String> {
    object.deletion_timestamp?;
    let holding: Vec<&str> =
        object.finalizers.iter().map(|finalizer| &**finalizer).filter(|name| !is_removed_by_kubernetes(name)).collect();
    let (what, verb) = if holding.len() == 1 { ("finalizer", "is") } else { ("finalizers", "are") };
    let names = join_limited(&holding, 3);
    (!holding.is_empty())
        .then(|| format!("it is being deleted already, and is gone once its {what} {names} {verb} removed"))
}
