//! Commands of Helm that show what a plan does not know of a release. They work as they are printed, in the folder of the tree.

use serde_json::Value;

use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::behaviour::commands::{Files, manifest_in_cluster, name_in_command};
use crate::flux::spec::SourceId;
use crate::helm::target::ReleaseTarget;
use crate::kubernetes::object::{ObjectId, text_at};
use crate::text::plain_word;

/// Returns the commands that show the release as it is, and after an upgrade to the chart of the last spec with its present values.
pub(super) fn find_out(state: &State<'_>, id: &ObjectId) -> String {
    let spec = state.specs_after(id).pop().unwrap_or_default();
    let recorded = state.input.snapshot.resource(id).and_then(|live| ReleaseTarget::recorded(&live.content));
    // A chart of a spec that holds values of Secrets is not written.
    let chart = if state.is_private(id) { None } else { chart(state, id, &spec) };
    let is_recorded = recorded.is_some();
    let target = recorded.unwrap_or_else(|| ReleaseTarget::of_spec(id, &spec, None));
    let [name, namespace, storage_namespace] =
        [&*target.name, &*target.namespace, &*target.storage_namespace].map(name_in_command);
    let manifest = format!("helm get manifest {name} -n {storage_namespace}");
    match (is_recorded, chart) {
        (true, Some((files, chart))) => files.before(format!(
            "{manifest}; helm upgrade {name} {chart} -n {storage_namespace} --dry-run=server --hide-secret \
             --reset-then-reuse-values"
        )),
        (true, None) => manifest,
        (false, Some((files, chart))) => files.before(format!("helm template {name} {chart} -n {namespace}")),
        (false, None) => manifest_in_cluster("helmrelease", id),
    }
}

/// Returns the arguments of Helm that name the chart of a spec, and the files that it is in: its folder there, or its name in a
/// repository. `None` if it is in an artifact, or one of them cannot be written as it is.
fn chart(state: &State<'_>, id: &ObjectId, spec: &Value) -> Option<(Files, String)> {
    if let Some(reference) = spec.get("chartRef").filter(|reference| text_at(reference, "/kind") == "OCIRepository") {
        let source = open_spec(state, &SourceId::read(reference, "", &id.namespace))?;
        let url = plain_word(text_at(&source, "/url"))?.to_owned();
        return Some((Files::of_tree(), with_version(url, text_at(&source, "/ref/tag"))?));
    }
    let chart = spec.pointer("/chart/spec")?;
    let (name, source) = (plain_word(text_at(chart, "/chart"))?, SourceId::of_chart(chart, &id.namespace));
    if &*source.kind == "HelmRepository" {
        let repository = open_spec(state, &source)?;
        let url = plain_word(text_at(&repository, "/url"))?;
        let is_image = url.starts_with("oci://");
        let image = format!("{}/{name}", url.trim_end_matches('/'));
        let argument = if is_image { image } else { format!("{name} --repo {url}") };
        return Some((Files::of_tree(), with_version(argument, text_at(chart, "/version"))?));
    }
    let files = Files::of(state, &source)?;
    let argument = format!("{}/{}", files.folder, name.trim_start_matches("./"));
    Some((files, argument))
}

/// Returns the last spec of a source; `None` if it is private.
fn open_spec(state: &State<'_>, source: &SourceId) -> Option<Value> {
    let id = source.object();
    if state.is_private(&id) { None } else { state.specs_after(&id).pop() }
}

/// Adds the version of a chart, which can be a range.
fn with_version(chart: String, version: &str) -> Option<String> {
    match version {
        "" | "*" => Some(chart),
        version if plain_word(version).is_some() => Some(format!("{chart} --version {version}")),
        version if version.chars().all(|c| c.is_ascii_graphic() || c == ' ') && !version.contains('\'') => {
            Some(format!("{chart} --version '{version}'"))
        }
        _ => None,
    }
}
