//! References between objects: what an object that stays needs of an object that is deleted.
//!
//! `kinds` has the fields that name other objects, as data, and `table` looks them up. `reader` reads them from manifests and from
//! live objects, and `staying` finds the deleted objects that something still refers to.

mod kinds;
mod reader;
mod staying;
mod table;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use staying::User;
pub(crate) use staying::{Departures, Staying, StillReferenced};
pub(crate) use table::is_unknown;
pub use table::{is_referrer, names_other_namespaces};
