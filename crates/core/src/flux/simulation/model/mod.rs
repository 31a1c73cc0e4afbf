//! Ground of the simulation: the Kustomizations, what is known of every owner, and the words for them.
//!
//! Nothing here decides; every other floor reads it.

pub(crate) mod affected_owner;
pub(crate) mod applications;
pub(crate) mod clusters;
pub(crate) mod disclosure;
pub(crate) mod facts;
pub(crate) mod generated_artifacts;
pub(crate) mod held_deletions;
pub(crate) mod input;
pub(crate) mod node;
pub(crate) mod owner_names;
pub(crate) mod protection;
pub mod questions;
pub(crate) mod refusals;
pub(crate) mod secret_values;
pub(crate) mod state;
pub(crate) mod wait_graph;
