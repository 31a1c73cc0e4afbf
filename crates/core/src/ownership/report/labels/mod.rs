//! What the marks of a whole cluster say, for the systems that keep no record of what they manage: qbec by application,
//! environment, tag and component, Flux v1 by what each mark can be worth.
//!
//! Source: reference qbec-and-flux-v1 D1 and D2.

pub mod flux_v1;
pub mod qbec;
pub mod variants;

use serde::Serialize;

use crate::kubernetes::object::ObjectMetadata;
use crate::ownership::index::Index;

/// The marks of one system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LabelReport {
    /// qbec.
    Qbec(Vec<qbec::QbecGroup>),
    /// Flux v1.
    FluxV1(flux_v1::Marks),
}

/// The census of a system, over the objects that are wanted; `None` for systems that record what they manage.
pub fn of(system: &str, index: &Index<'_>, wanted: &dyn Fn(&ObjectMetadata) -> bool) -> Option<LabelReport> {
    match system {
        "qbec" => Some(LabelReport::Qbec(qbec::groups(index, wanted))),
        "flux-v1" => Some(LabelReport::FluxV1(flux_v1::marks(index, wanted))),
        _ => None,
    }
}
