//! What the marks of a whole cluster say, for the systems that keep no record of what they manage: qbec by application,
//! environment, tag and component, Flux v1 by what each mark can be worth.
//!
//! Source: reference qbec-and-flux-v1 D1 and D2.

pub mod flux_v1;
pub mod qbec;
pub mod variants;

use serde::Serialize;

use crate::kubernetes::object::Object;
use crate::ownership::index::Index;

/// The marks of one system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Census {
    /// qbec.
    Qbec(Vec<qbec::Group>),
    /// Flux v1.
    FluxV1(flux_v1::Marks),
}

/// The census of a system, over the objects that are wanted; `None` for systems that record what they manage.
pub fn of(system: &str, index: &Index<'_>, wanted: &dyn Fn(&Object) -> bool) -> Option<Census> {
    match system {
        "qbec" => Some(Census::Qbec(qbec::groups(index, wanted))),
        "flux-v1" => Some(Census::FluxV1(flux_v1::marks(index, wanted))),
        _ => None,
    }
}
