//! References of the objects that are applied in the end.

use std::collections::BTreeSet;

use crate::flux::build::objects::BuiltObject;
use crate::flux::simulation::model::node::Node;
use crate::flux::simulation::model::protection::{is_marked, is_never_applied, is_never_changed};
use crate::flux::simulation::model::state::State;
use crate::kubernetes::object::ObjectId;
use crate::kubernetes::references::is_unknown;
use crate::kubernetes::referrer::Referrer;
use crate::ownership::schemes::flux_kustomization::SSA;
use crate::plan::Plan;

/// Adds the references of everything that Kustomizations and other owners apply last to a plan that deletes something.
pub(crate) fn add_built_referrers(state: &State<'_>, plan: &mut Plan) {
    if plan.deletions().next().is_none() {
        return;
    }
    let staying = state.nodes.iter().filter(|node| node.may_stay());
    let by_kustomizations = staying.flat_map(|node| sent_objects(state, node));
    let by_owners = state.owner_applies().filter(|(_, applies)| !applies.is_doubtful);
    let objects = by_kustomizations.chain(by_owners.flat_map(|(_, applies)| applies.objects.iter()));
    let (mut built, mut unknown) = (vec![], BTreeSet::new());
    for (id, object) in objects {
        built.extend(Referrer::of(id, &object.manifest));
        if is_unknown(&id.group, &id.kind) && !id.is_private() {
            unknown.insert(id.group_kind());
        }
    }
    plan.set_built_referrers(built, unknown);
}

/// Returns the objects that a Kustomization applies last. One that it never sends, or not to one that exists, stays as it is live.
fn sent_objects<'s>(state: &'s State<'_>, node: &'s Node) -> impl Iterator<Item = (&'s ObjectId, &'s BuiltObject)> {
    let applied = node.last_applied_objects().into_iter();
    applied.filter_map(|(id, (number, built))| {
        let spec = &node.passes[number].spec;
        let is_left = state
            .live_object(id)
            .is_some_and(|live| is_never_changed(live) || is_marked(built, spec, SSA, "ifnotpresent"));
        (!is_left && !is_never_applied(built, spec)).then_some((id, built))
    })
}
