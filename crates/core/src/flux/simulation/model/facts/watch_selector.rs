//! Kustomizations and HelmReleases that their controller does not reconcile, because its `--watch-label-selector` does not select them,
//! or because they are not in its namespace and it has `--watch-all-namespaces=false`.

use std::collections::BTreeMap;

use crate::flux::controller_flags::is_selected;
use crate::flux::simulation::model::node::Blocker;
use crate::flux::simulation::model::state::State;
use crate::flux::spec::NamespacedName;
use crate::kubernetes::object::{KeyValues, ObjectId, Resource, texts_at};
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND, NAME, NAMESPACE};
use crate::plan::ReasonCode;

/// Returns true if the controller reconciles a live Kustomization with its present labels.
pub(crate) fn is_watched_now(state: &State<'_>, live: &Resource) -> bool {
    let flags = &state.input.flags;
    flags.watches_namespace(&live.object.id.namespace) && is_selected(&flags.watched, &live.object.labels)
}

/// Returns a blocker if the controller does not reconcile a Kustomization, before or after its labels change.
pub(crate) fn unwatched(state: &State<'_>, key: &NamespacedName) -> Option<Blocker> {
    let flags = &state.input.flags;
    if let Some(watched) = flags.watched_namespace.as_ref().filter(|watched| **watched != key.namespace) {
        let detail = format!("the controller reconciles only the namespace {watched} (--watch-all-namespaces=false)");
        return Some(Blocker::certain(ReasonCode::NotWatched, detail));
    }
    unselected(state, &ObjectId::new(GROUP, KIND, &key.namespace, &key.name), &flags.watched)
}

/// Returns a blocker if helm-controller does not reconcile a HelmRelease, before or after its labels change. The labels of one that
/// another owner generates are not compared.
pub(crate) fn unwatched_release(state: &State<'_>, id: &ObjectId) -> Option<Blocker> {
    unselected(state, id, &state.input.helm_controller.watched).filter(|_| !state.is_generated(id))
}

/// Returns a blocker if none of these selectors selects an object, before or after its labels change.
fn unselected(state: &State<'_>, id: &ObjectId, watched: &[String]) -> Option<Blocker> {
    let after: KeyValues = labels_after(state, id).into_iter().collect();
    let live = state.input.snapshot.resource(id);
    let before = live.map(|live| is_selected(watched, &live.object.labels));
    let (after, selectors) = (is_selected(watched, &after), watched.join(" or "));
    match (before, after) {
        (Some(false), false) | (None, false) => {
            let detail = format!("the controller reconciles only what {selectors:?} selects (--watch-label-selector)");
            Some(Blocker::certain(ReasonCode::NotWatched, detail))
        }
        (Some(before), after) if before != after => {
            let detail = format!("it applies only while the controller's selector {selectors:?} selects its labels");
            Some(Blocker::possible(ReasonCode::NotWatched, detail))
        }
        _ => None,
    }
}

/// Returns the labels of an object after the change: those of its manifest, or else the live ones.
pub(crate) fn labels_after(state: &State<'_>, id: &ObjectId) -> BTreeMap<String, String> {
    let mut labels: BTreeMap<String, String> = BTreeMap::new();
    let built = state.nodes.applying(id).filter_map(|node| Some((node, node.last_applied(id)?))).next_back();
    match built {
        Some((node, (number, built))) => {
            labels.extend(owned(texts_at(&built.manifest, "/metadata/labels")));
            labels.insert(NAME.to_owned(), node.id.key.name.clone());
            labels.insert(NAMESPACE.to_owned(), node.id.key.namespace.clone());
            labels.extend(owned(texts_at(node.passes[number].spec.value(), "/commonMetadata/labels")));
        }
        None => {
            let live = state.input.snapshot.resource(id).into_iter().flat_map(|live| live.object.labels.iter());
            labels.extend(owned(live));
        }
    }
    labels
}

fn owned<'p>(pairs: impl Iterator<Item = (&'p str, &'p str)>) -> impl Iterator<Item = (String, String)> {
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned()))
}
