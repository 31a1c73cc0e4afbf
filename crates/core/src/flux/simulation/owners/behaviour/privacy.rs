//! Owners whose texts can quote values of Secrets.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::flux::simulation::model::state::State;
use crate::flux::spec::SourceId;
use crate::kubernetes::object::{ObjectId, Resource};
use crate::ownership::schemes::flux_helmrelease::{GROUP, KIND};

/// Kinds that give a chart its name, its version or its address.
const CHART_SOURCES: [&str; 3] = ["HelmChart", "HelmRepository", "OCIRepository"];

/// Returns true if texts about an owner can quote values of Secrets: those in its manifest, or in the source of its chart.
pub(crate) fn quotes_secrets(state: &State<'_>, id: &ObjectId) -> bool {
    state.is_private(id)
        || (id.is_here(GROUP, KIND) && chart_sources(state, id).iter().any(|source| state.is_private(source)))
}

/// Returns the objects from which a release has its chart before or after the change, and those from which a HelmChart has it.
fn chart_sources(state: &State<'_>, release: &ObjectId) -> BTreeSet<ObjectId> {
    let (mut found, mut queue) = (BTreeSet::new(), vec![release.clone()]);
    while let Some(id) = queue.pop() {
        let live = state.input.snapshot.resource(&id).map(Resource::spec);
        let after = state.specs_after(&id);
        let sources = live.into_iter().chain(&after).flat_map(|spec| sources_of(&id, spec));
        queue.extend(sources.filter(|source| found.insert(source.clone())));
    }
    found
}

/// Returns the objects that the spec of a HelmRelease or a HelmChart names as the source of a chart.
fn sources_of(id: &ObjectId, spec: &Value) -> Vec<ObjectId> {
    let inline = if id.is_here(GROUP, KIND) { spec.pointer("/chart/spec") } else { Some(spec) };
    let inline = inline.map(|chart| SourceId::of_chart(chart, &id.namespace));
    let reference = spec.get("chartRef").filter(|reference| reference.is_object());
    let named = inline.into_iter().chain(reference.map(|reference| SourceId::read(reference, "", &id.namespace)));
    named.filter(|source| CHART_SOURCES.contains(&&*source.kind)).map(|source| source.object()).collect()
}
