//! References of the objects that are applied in the end.

use std::collections::BTreeSet;

use crate::flux::simulation::model::node::Node;
use crate::flux::simulation::model::state::State;
use crate::kubernetes::references::is_unknown;
use crate::kubernetes::referrer::Referrer;
use crate::plan::Plan;

/// Adds the references of everything that Kustomizations and other owners apply last to a plan that deletes something.
pub(crate) fn add_built_referrers(state: &State<'_>, plan: &mut Plan) {
    if plan.deletions().next().is_none() {
        return;
    }
    let by_kustomizations = state.nodes.iter().filter(|node| node.may_stay()).flat_map(Node::last_applied_objects);
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
