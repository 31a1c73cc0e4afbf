//! LimitRanges that the change creates or changes. A run asks about a Pod or a claim before it applies a LimitRange that comes
//! before it in the same stage, so that the dry-run is accepted and the apply may be refused.
//!
//! Source: Kubernetes v1.36.3 `plugin/pkg/admission/limitranger/admission.go`: changes of Pods are not checked.

use super::event::Event;
use super::world::{Precedence, World};
use crate::flux::apply::AppliedObject;
use crate::kubernetes::deletion::order::apply_order;
use crate::kubernetes::object::{list_at, text_at};

/// Fields of a limit by which the server refuses an object.
const BOUNDS: [&str; 3] = ["max", "min", "maxLimitRequestRatio"];

/// Returns the LimitRanges after which the server may refuse an object that it accepts now.
pub(super) fn limiting<'w>(world: &'w World<'_, '_>, object: &AppliedObject) -> Vec<&'w Event> {
    let id = &object.id;
    let types: &[&str] = match (&*id.group, &*id.kind) {
        ("", "Pod") if !world.state.is_live(id) => &["Pod", "Container"],
        ("", "PersistentVolumeClaim") => &["PersistentVolumeClaim"],
        _ => return vec![],
    };
    let near = world.events.iter().filter(|event| event.id.is("", "LimitRange") && event.id.cluster == id.cluster);
    let bounding = near.filter(|event| event.id.namespace == id.namespace && bounds(event, types));
    let earlier = bounding.filter(|event| {
        (event.is_of(&object.owner) && apply_order(&event.id, id).is_lt())
            || world.precedence(event, &object.owner, id) != Precedence::After
    });
    earlier.collect()
}

/// Returns true if a LimitRange that an event applies has bounds for one of these types.
fn bounds(event: &Event, types: &[&str]) -> bool {
    let limits = event.manifest().filter(|_| !event.is_deleted).map(|manifest| list_at(manifest, "/spec/limits"));
    let mut own = limits.into_iter().flatten().filter(|limit| types.contains(&text_at(limit, "/type")));
    own.any(|limit| BOUNDS.iter().any(|bound| limit.get(bound).is_some()))
}
