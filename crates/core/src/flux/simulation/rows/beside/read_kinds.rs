//! Kinds of objects that a plan depends on beside those of its rows.

use std::collections::BTreeSet;

use crate::flux::kinds::KINDS;
use crate::flux::simulation::model::node::Node;
use crate::flux::simulation::model::state::State;
use crate::flux::spec::KustomizationSpec;
use crate::kubernetes::object::{GroupKind, ObjectId};

/// Returns the kinds that the preview looked for: those of Flux, Namespaces, the Deployments of controllers, and what the
/// specs of Kustomizations name. `None` if it depends on all: the controllers of other owners, such as HelmReleases, go by
/// objects of any kind.
pub(crate) fn read_kinds(state: &State<'_>) -> Option<BTreeSet<GroupKind>> {
    if !state.affected.is_empty() {
        return None;
    }
    let mut kinds: BTreeSet<GroupKind> = KINDS.iter().map(|kind| GroupKind::new(kind.group, kind.kind)).collect();
    kinds.extend([GroupKind::new("", "Namespace"), GroupKind::new("apps", "Deployment")]);
    kinds.extend(state.nodes.iter().flat_map(|node| named_objects(state, node)).map(|id| id.group_kind()));
    Some(kinds)
}

/// Returns the objects that the specs of a Kustomization name. What a ready Kustomization has needed before is there.
fn named_objects(state: &State<'_>, node: &Node) -> Vec<ObjectId> {
    let key = &node.id.key;
    let mut named: Vec<ObjectId> =
        node.passes.iter().flat_map(|pass| needed_objects(state, node, &pass.spec)).collect();
    if let Some(live) = state.live.get(key).filter(|_| state.is_ready(key)) {
        let before = needed_objects(state, node, &KustomizationSpec::of(live));
        named.retain(|id| !before.contains(id));
    }
    if node.deletion.is_some() {
        let accounts = node.passes.iter().filter_map(|pass| state.input.flags.service_account(&pass.spec));
        named.extend(accounts.map(|account| ObjectId::new("", "ServiceAccount", &key.namespace, account)));
    }
    named
}

/// Returns the objects without which a Kustomization applies nothing.
fn needed_objects(state: &State<'_>, node: &Node, spec: &KustomizationSpec) -> Vec<ObjectId> {
    let key = &node.id.key;
    let keys = spec.keys_secret().map(|name| ObjectId::new("", "Secret", &key.namespace, name));
    let named = keys.into_iter().chain(state.kube_config(&key.namespace, spec.value()));
    named.chain(state.health_checks(key, spec)).collect()
}
