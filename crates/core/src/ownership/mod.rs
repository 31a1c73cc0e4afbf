//! Ownership: which system manages an object, and how certain that is.
//!
//! [`scheme`] is the interface of a system, [`schemes`] has one file per system and the registry, and the modules here
//! work on whatever the registry contains. Labels and annotations are a *claim*: operators copy them to what they create.
//! The list that an owner itself records is its *inventory*. [`index`] joins the two, [`classify`] draws the conclusion.

pub mod classify;
pub mod index;
pub mod read_scope;
pub mod readiness;
pub(crate) mod relevance;
pub mod report;
pub mod resolve;
pub mod rules;
pub mod scheme;
pub mod schemes;

pub use classify::OwnershipStatus;
pub use rules::keys::{DELETION_APPROVED_UNTIL, derive_annotation, is_ownership_key};
pub use scheme::claim::{Claim, ClaimEvidence, OwnerId, Strength};
pub use scheme::last_applied;
pub use scheme::members::{Area, Members, Scope};
pub use scheme::owner_status::OwnerStatus;
pub use scheme::protection::Protection;
pub use scheme::{GcEligibility, MetadataKey, OwnerSource, Record, Scheme};
pub use schemes::registry::{SCHEMES, SYSTEMS};
