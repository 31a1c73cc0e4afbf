//! Verbs that propose steps: `handover` and `retire`, and how `--apply` carries steps out.

pub(crate) mod acts;
pub(crate) mod apply;
pub mod handover;
pub mod retire;
