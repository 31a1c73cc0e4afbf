//! Charts of HelmReleases before and after the change: from a planned tree, or from the storage of source-controller.
//!
//! Source: helm-controller v1.6.3 `internal/controller/helmrelease_controller.go`, `getSource`; source-controller
//! v1.9.3 `internal/helm/chart`.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::flux::build::Interrupt;
use crate::flux::build::charts::remote::RemoteChart;
use crate::flux::build::charts::stored_artifact::{StoredArtifact, chart_source};
use crate::flux::build::charts::versions::{differ, is_exact, select};
use crate::flux::build::charts::{self, Chart, follows_revision, values_files};
use crate::flux::simulation::kustomization::source_states::planned_artifact;
use crate::flux::simulation::model::generated_artifacts::ArtifactContent;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::behaviour::comparison::{Asked, Comparison, Part};
use crate::flux::simulation::owners::behaviour::effective_fields::differing_fields;
use crate::flux::source::artifact::Artifact;
use crate::flux::spec::SourceId;
use crate::kubernetes::object::{ObjectId, Resource, flag_at, text_at};
use crate::ownership::schemes::flux_helmrelease::helm_chart;

/// Revision of a source in the version of a chart, in place of the one that nobody knows yet.
pub(crate) const UNKNOWN_REVISION: &str = "000000000000";

/// Value of `upgrade.chartNameChangeStrategy` that upgrades a release to a chart of another name.
pub(crate) const IN_PLACE: &str = "InPlaceUpdate";

pub(crate) struct ReleaseCharts {
    /// The chart of the last release.
    pub(crate) old: Chart,
    /// The chart after the change.
    pub(crate) new: Chart,
    /// Assumption about the new chart, for people; `None` if the chart is known.
    pub(crate) assumption: Option<String>,
}

/// Returns the chart that is deployed, and the one after the change.
pub(crate) fn charts(
    comparison: &mut Comparison<'_, '_, '_>,
    live: &Resource,
    old_spec: &Value,
    new_spec: &Value,
) -> Asked<ReleaseCharts> {
    match charts_in_tree(comparison, live, old_spec, new_spec) {
        Ok(Some(charts)) => Ok(charts),
        // The artifact also has the dependencies that a tree lacks.
        Err(in_tree) => match stored_charts(comparison, live, old_spec, new_spec) {
            Err(Interrupt::Failed(_)) => Err(Interrupt::Failed(in_tree)),
            charts => charts,
        },
        Ok(None) => stored_charts(comparison, live, old_spec, new_spec),
    }
}

/// Returns the chart of a live release and the one that it has before its spec changes; `None` if they have the same
/// name and version.
///
/// Fails with the reason why they are not known.
pub(crate) fn chart_before_spec(comparison: &mut Comparison<'_, '_, '_>, live: &Resource) -> Asked<Option<[Chart; 2]>> {
    let spec = live.spec();
    if live.flag("/spec/suspend") || comes_with_spec(comparison, &live.object.id, spec)? {
        return Ok(None);
    }
    let ReleaseCharts { old, new, .. } = charts(comparison, live, spec, spec)?;
    let is_other = (&old.name, &old.version) != (&new.name, &new.version);
    Ok(is_other.then_some([old, new]))
}

/// Returns true if the Kustomization that applies a HelmRelease changes the source of its chart at the same time: the
/// controller reads the new spec before source-controller has fetched anything.
fn comes_with_spec(comparison: &mut Comparison<'_, '_, '_>, id: &ObjectId, spec: &Value) -> Asked<bool> {
    let Some(source) = SourceId::of_release(spec, &id.namespace) else { return Ok(false) };
    // A planned source has the new revision before anything else changes.
    if comparison.state().input.trees.contains_key(&source) {
        return Ok(false);
    }
    let (state, source) = (comparison.state(), source.object());
    let appliers = state.appliers(&source);
    if appliers.is_empty() || appliers != state.appliers(id) {
        return Ok(false);
    }
    Ok(comparison.change(&source, Part::Spec { is_ready: true })?.is_some())
}

/// Returns the chart of the last release.
pub(crate) fn last_chart(comparison: &mut Comparison<'_, '_, '_>, live: &Resource) -> Asked<Chart> {
    let spec = live.spec();
    let packed = PackedChart::find(comparison.state(), &live.object.id, spec, false);
    let deployed = packed.as_ref().and_then(|packed| comparison.state().input.deployed.get(&packed.source));
    if let Some((deployed, packed)) = deployed.zip(packed.as_ref()) {
        return Ok(recorded_chart(live, Chart::read(deployed, &packed.spec)?));
    }
    let source = chart_source(live, spec)?;
    let requested = requested(spec, comparison.state().input.snapshot.resource(&source).map(Resource::spec))?;
    deployed_chart(comparison, live, &source, &requested)
}

/// Returns a chart with the version that a release records.
fn recorded_chart(live: &Resource, read: Chart) -> Chart {
    let recorded = live.text("/status/history/0/chartVersion").unwrap_or_default();
    let is_recorded = without_metadata(recorded) == without_metadata(&read.version);
    if is_recorded { read.with_version(recorded) } else { read }
}

/// A chart that source-controller packs for a release: that of its own HelmChart, or that of the one in its `chartRef`.
struct PackedChart {
    /// Fields that a HelmChart and the chart in a HelmRelease have in common.
    spec: Value,
    source: SourceId,
    /// HelmChart in `chartRef`.
    reference: Option<ObjectId>,
    /// Fields whose change packs it again.
    compared: Value,
}

impl PackedChart {
    /// Returns the chart for a release with this spec, before or after the change; `None` if there is none or it is not
    /// known.
    fn find(state: &State<'_>, id: &ObjectId, spec: &Value, is_after: bool) -> Option<Self> {
        if let Some(chart) = spec.pointer("/chart/spec") {
            return Some(Self::new(chart.clone(), &id.namespace, &spec["interval"], None));
        }
        let reference = spec.get("chartRef").filter(|reference| text_at(reference, "/kind") == "HelmChart")?;
        let object = SourceId::read(reference, "", &id.namespace).object();
        let specs = if !is_after {
            state.input.snapshot.resource(&object).map(|live| live.spec().clone()).into_iter().collect()
        } else if state.is_suspended_after(&object) || state.check_decrypted(&object).is_err() {
            vec![]
        } else {
            state.specs_after(&object)
        };
        let [chart] = <[Value; 1]>::try_from(specs).ok()?;
        let namespace = object.namespace.clone();
        Some(Self::new(chart, &namespace, &Value::Null, Some(object)))
    }

    /// Returns the generation of the live HelmChart of a release.
    fn generation(&self, state: &State<'_>, live: &Resource) -> i64 {
        let chart = self.reference.clone().or_else(|| helm_chart(&live.content));
        chart.and_then(|chart| state.live_object(&chart)).map_or(0, |chart| chart.generation)
    }

    /// Returns true if the spec of the HelmChart does not change.
    fn has_same_spec(&self, after: &Self) -> bool {
        self.reference == after.reference && self.compared == after.compared
    }

    fn new(chart: Value, namespace: &str, interval: &Value, reference: Option<ObjectId>) -> Self {
        let source = SourceId::of_chart(&chart, namespace);
        Self { compared: compared(&chart, namespace, interval), source, spec: chart, reference }
    }
}

/// Returns true if the chart of a release with this spec is in a planned tree.
pub(crate) fn is_in_tree(state: &State<'_>, id: &ObjectId, spec: &Value) -> bool {
    PackedChart::find(state, id, spec, true).is_some_and(|packed| tree_of(state, &packed.source).is_some())
}

/// Returns the files of a source that are those of a planned tree, as source-controller packs charts of them first;
/// `None` if the source changes so that its later files are not known.
fn tree_of<'s>(state: &'s State<'_>, source: &SourceId) -> Option<&'s Arc<Artifact>> {
    match state.generated.last(source) {
        Some(ArtifactContent::Unknown(_)) => None,
        _ => state.input.trees.get(source).or_else(|| planned_artifact(state, source)),
    }
}

/// Returns the charts of a release whose source is a planned tree; `None` if it is not.
fn charts_in_tree(
    comparison: &Comparison<'_, '_, '_>,
    live: &Resource,
    old_spec: &Value,
    new_spec: &Value,
) -> Result<Option<ReleaseCharts>, String> {
    let (state, id) = (comparison.state(), &live.object.id);
    let found =
        [(old_spec, false), (new_spec, true)].map(|(spec, is_after)| PackedChart::find(state, id, spec, is_after));
    let [Some(before), Some(after)] = found else { return Ok(None) };
    let Some(tree) = tree_of(state, &after.source) else { return Ok(None) };
    if after.reference.as_ref().is_some_and(|chart| comparison.derivation.consequences.may_be_deleted(chart)) {
        return Ok(None);
    }
    let Some(deployed) = state.input.deployed.get(&before.source) else {
        return Err("the deployed revision of its chart is not in the checkout".to_owned());
    };
    let (was, again) = packed([deployed, tree], &before, &after)?;
    let old = recorded_chart(live, was);
    let Some(new) = again else { return Ok(Some(ReleaseCharts { new: old.clone(), old, assumption: None })) };
    let generation = after.generation(state, live) + i64::from(!before.has_same_spec(&after));
    let version = packed_version(&new.version, &after.spec, generation);
    Ok(Some(ReleaseCharts { old, new: new.with_version(&version), assumption: None }))
}

/// Returns true unless it is known that source-controller does not pack the chart of a release again that is in a
/// planned tree.
pub(crate) fn is_packed_again(state: &State<'_>, live: &Resource, spec: &Value) -> Result<bool, String> {
    Ok(!matches!(packed_charts(state, live, spec)?, Some((_, None))))
}

/// The chart of a release that is packed already, and the one that is packed after it; `None` if it is not packed
/// again.
type Packed = (Chart, Option<Chart>);

/// Returns the charts of a live release with this spec; `None` if its source is not a planned tree before and after the
/// change.
fn packed_charts(state: &State<'_>, live: &Resource, spec: &Value) -> Result<Option<Packed>, String> {
    let id = &live.object.id;
    let found =
        [(live.spec(), false), (spec, true)].map(|(spec, is_after)| PackedChart::find(state, id, spec, is_after));
    let [Some(before), Some(after)] = found else { return Ok(None) };
    let trees = state.input.deployed.get(&before.source).zip(tree_of(state, &after.source));
    trees.map(|(deployed, tree)| packed([deployed, tree], &before, &after)).transpose()
}

/// Returns the charts that source-controller packs of a deployed and of a planned tree.
fn packed([deployed, tree]: [&Artifact; 2], before: &PackedChart, after: &PackedChart) -> Result<Packed, String> {
    let [old, new] = [Chart::read(deployed, &before.spec)?, Chart::read(tree, &after.spec)?];
    let is_same = has_same_package(before, after, [&old, &new], deployed.digest() == tree.digest());
    Ok((old, (!is_same).then_some(new)))
}

/// Returns the chart that source-controller may pack of the new revision while the HelmChart of a release still has its
/// old spec; `None` if it packs none then.
pub(crate) fn packed_before_spec(state: &State<'_>, live: &Resource, spec: &Value) -> Option<Chart> {
    let id = &live.object.id;
    let before = PackedChart::find(state, id, live.spec(), false)?;
    if PackedChart::find(state, id, spec, true).is_some_and(|after| before.has_same_spec(&after)) {
        return None;
    }
    let (deployed, tree) = state.input.deployed.get(&before.source).zip(state.input.trees.get(&before.source))?;
    let (_, again) = packed([deployed, tree], &before, &before).ok()?;
    let new = again?;
    Some(new.with_version(&packed_version(&new.version, &before.spec, before.generation(state, live))))
}

/// Returns why source-controller fails for the chart of a release after the change, as [`charts::packing_failure`];
/// `None` also if its source is not a planned tree.
pub(crate) fn packing_failure(state: &State<'_>, id: &ObjectId, spec: &Value) -> Option<String> {
    let packed = PackedChart::find(state, id, spec, true)?;
    charts::packing_failure(tree_of(state, &packed.source)?, &packed.spec)
}

/// Returns true if source-controller does not pack a chart again: one of the same name and version only if the spec of
/// the HelmChart or the revision that it follows changes. The versions are those in the source.
fn has_same_package(before: &PackedChart, after: &PackedChart, [old, new]: [&Chart; 2], is_same_tree: bool) -> bool {
    let replaces_metadata = !version_metadata(&after.spec, 0).is_empty();
    let [old_version, new_version] =
        [old, new].map(|chart| if replaces_metadata { without_metadata(&chart.version) } else { &*chart.version });
    before.has_same_spec(after)
        && (is_same_tree || !follows_revision(&after.spec))
        && old.name == new.name
        && old_version == new_version
}

/// Returns the version that source-controller gives a chart of a source with files.
fn packed_version(version: &str, chart: &Value, generation: i64) -> String {
    let metadata = version_metadata(chart, generation);
    if metadata.is_empty() {
        return version.to_owned();
    }
    format!("{}+{}", without_metadata(version), metadata.join("."))
}

/// Returns the metadata that source-controller gives the version of a chart of a source with files, in place of its
/// own; none if the version stays as it is.
fn version_metadata(chart: &Value, generation: i64) -> Vec<String> {
    let mut metadata = vec![];
    if follows_revision(chart) {
        metadata.push(UNKNOWN_REVISION.to_owned());
    }
    let mut files = values_files(chart);
    let replaces_values = match (files.next(), files.next()) {
        (None, _) => false,
        (Some(only), None) => !is_values_file(only),
        _ => true,
    };
    if replaces_values {
        metadata.push(generation.to_string());
    }
    metadata
}

/// Returns the fields of a chart whose change packs it again. `interval` is the default of its interval.
fn compared(chart: &Value, namespace: &str, interval: &Value) -> Value {
    let source = SourceId::of_chart(chart, namespace);
    let or =
        |field: &str, default: Value| chart.get(field).filter(|value| !value.is_null()).cloned().unwrap_or(default);
    json!({
        "source": [source.kind, source.namespace, source.name],
        "chart": chart["chart"],
        "version": or("version", json!("*")),
        "interval": or("interval", interval.clone()),
        "reconcileStrategy": or("reconcileStrategy", json!("ChartVersion")),
        "valuesFiles": values_files(chart).collect::<Vec<_>>(),
        "ignoreMissingValuesFiles": flag_at(chart, "/ignoreMissingValuesFiles"),
        "verify": [chart["verify"]["provider"], chart["verify"]["secretRef"], chart["verify"]["matchOIDCIdentity"]],
    })
}

/// Returns true for the file with the default values of a chart.
fn is_values_file(path: &str) -> bool {
    path.trim_start_matches("./") == "values.yaml"
}

/// Returns the chart that a release will have whose deployed chart is not compared, and what is assumed of it.
pub(crate) fn first_chart(
    comparison: &mut Comparison<'_, '_, '_>,
    id: &ObjectId,
    spec: &Value,
    live: Option<&Resource>,
) -> Asked<(Chart, Option<String>)> {
    let state = comparison.state();
    let packed = PackedChart::find(state, id, spec, true);
    if let Some(packed) = &packed
        && let Some(tree) = tree_of(state, &packed.source)
    {
        let known = live.filter(|live| state.is_live(&live.object.id));
        let found = match known.map(|live| packed_charts(state, live, spec)).transpose()?.flatten() {
            Some((before, again)) => again.unwrap_or(before),
            None => Chart::read(tree, &packed.spec)?,
        };
        let live = packed.reference.as_ref().and_then(|chart| state.live_object(chart));
        let version = packed_version(&found.version, &packed.spec, live.map_or(1, |chart| chart.generation));
        return Ok((found.with_version(&version), None));
    }
    if let Some(chart) = spec.pointer("/chart/spec") {
        let source = SourceId::of_chart(chart, &id.namespace);
        let compared = packed.map(|packed| packed.compared);
        let same = live
            .filter(|live| PackedChart::find(state, id, live.spec(), false).map(|packed| packed.compared) == compared);
        if let Some(live) = same {
            let stored = helm_chart(&live.content).and_then(|chart| comparison.state().input.snapshot.resource(&chart));
            let chart = stored.ok_or_else(|| "its HelmChart could not be read".to_owned())?;
            check_unchanged(comparison, &id.namespace, spec)?;
            let version = chart.text("/status/artifact/revision").unwrap_or_default();
            let wanted = requested(spec, None)?;
            // In a repository of charts a chart has the name that the spec asks for.
            let name = text_at(&wanted.spec, "/chart");
            let found = chart_of(comparison, id, chart, &wanted, (name, without_metadata(version)))?;
            return Ok((found.with_version(version), None));
        }
        return other_chart(comparison, id, &source.object(), &requested(spec, None)?);
    }
    let Some(reference) = spec.get("chartRef").filter(|reference| reference.is_object()) else {
        return Err("it names no chart".to_owned().into());
    };
    let source = SourceId::read(reference, "", &id.namespace).object();
    let [chart] = &comparison.state().specs_after(&source)[..] else {
        return Err(format!("the spec of {source} is not known").into());
    };
    let wanted = requested(spec, Some(chart))?;
    let live = comparison.state().input.snapshot.resource(&source);
    match live.filter(|live| live.spec() == chart) {
        Some(live) => {
            check_unchanged(comparison, &id.namespace, spec)?;
            let revision = live.text("/status/artifact/revision").unwrap_or_default();
            let digest = revision.rsplit('@').next().unwrap_or_default();
            let stored = stored_chart(comparison, live)?;
            Ok((of_image(comparison.state(), &source, &wanted.spec, digest, stored)?, None))
        }
        None => {
            let (found, assumption) = other_chart(comparison, id, &source, &wanted)?;
            let digest = text_at(&wanted.spec, "/ref/digest");
            Ok((of_image(comparison.state(), &source, &wanted.spec, digest, found)?, assumption))
        }
    }
}

/// Fails if a source of the chart of a release with this spec changes, so that source-controller may store another one.
fn check_unchanged(comparison: &mut Comparison<'_, '_, '_>, namespace: &str, spec: &Value) -> Asked<()> {
    let change = comparison.chart_references(namespace, spec)?.into_iter().next();
    change.map_or(Ok(()), |change| Err(may_change(&change).into()))
}

fn may_change(change: &str) -> String {
    format!("its chart may change: {change}")
}

/// Returns the charts of a release that takes its chart from elsewhere: the deployed one from the storage of
/// source-controller, the new one from the deployed one or from the folder of `--charts`.
fn stored_charts(
    comparison: &mut Comparison<'_, '_, '_>,
    live: &Resource,
    old_spec: &Value,
    new_spec: &Value,
) -> Asked<ReleaseCharts> {
    let (old_source, new_source) = (chart_source(live, old_spec)?, chart_source(live, new_spec)?);
    let live_source = comparison.state().input.snapshot.resource(&old_source).map(Resource::spec);
    let old_chart = requested(old_spec, live_source);
    let new_chart = match &comparison.state().specs_after(&new_source)[..] {
        _ if new_spec.get("chartRef").is_none_or(Value::is_null) => requested(new_spec, None),
        [spec] => requested(new_spec, Some(spec)),
        _ => return Err(format!("the spec of {new_source} is not known").into()),
    };
    if comparison.state().is_suspended_after(&new_source) {
        return Err(format!("{new_source} is suspended").into());
    }
    let (is_same_source, old_chart, new_chart) = (old_source == new_source, old_chart?, new_chart?);
    let old = deployed_chart(comparison, live, &old_source, &old_chart)?;
    if is_same_source && is_of_renamed_repository(comparison.state(), &live.object.id, &old_chart, &new_chart)? {
        // The spec of its HelmChart changes.
        let generation = comparison.state().live_object(&new_source).map_or(0, |chart| chart.generation) + 1;
        let version = packed_version(&old.version, &new_chart.spec, generation);
        return Ok(ReleaseCharts { new: old.clone().with_version(&version), old, assumption: None });
    }
    if is_deployed_image(live, &new_source, &old_chart, &new_chart) {
        return Ok(ReleaseCharts { new: old.clone(), old, assumption: None });
    }
    if !is_same_source || old_chart.origin != new_chart.origin {
        let (found, assumption) = other_chart(comparison, &live.object.id, &new_source, &new_chart)?;
        let digest = text_at(&new_chart.spec, "/ref/digest");
        let new = of_image(comparison.state(), &new_source, &new_chart.spec, digest, found)?;
        return Ok(ReleaseCharts { old, new, assumption });
    }
    let references = comparison.chart_references(&live.object.id.namespace, new_spec)?;
    let is_same_values = old_chart.values == new_chart.values;
    // A HelmChart with other values files is packed again.
    let own = format!("{new_source} changes");
    let is_repacked = !is_same_values && &*new_source.kind == "HelmChart";
    if let Some(change) = references.into_iter().find(|change| !is_repacked || *change != own) {
        return Err(may_change(&change).into());
    }
    if is_same_values {
        return Ok(ReleaseCharts { new: old.clone(), old, assumption: None });
    }
    let mut after = values_files(&new_chart.spec).peekable();
    if values_files(&old_chart.spec).next().is_some() && (after.peek().is_none() || after.any(is_values_file)) {
        let why = "the values.yaml of its chart is not stored, because valuesFiles replace it";
        return Err(why.to_owned().into());
    }
    let generation = comparison.state().live_object(&new_source).map_or(0, |chart| chart.generation);
    let version = format!("{}+{}", without_metadata(&old.version), generation + 1);
    let new = old.with_values_files(&new_chart.spec)?.with_version(&version);
    Ok(ReleaseCharts { old, new, assumption: None })
}

/// Returns true if a release asks for the image that is deployed, by its digest: from wherever it comes, its chart then
/// has the same version.
fn is_deployed_image(live: &Resource, source: &ObjectId, old: &Requested, new: &Requested) -> bool {
    let digest = text_at(&new.spec, "/ref/digest");
    let is_recorded = !digest.is_empty() && live.text("/status/history/0/ociDigest") == Some(digest);
    is_recorded && &*source.kind == "OCIRepository" && old.spec.get("layerSelector") == new.spec.get("layerSelector")
}

/// Returns the chart of an image with the version that helm-controller gives it: with the digest of the image, unless
/// its flags say otherwise. The digest is empty if it is not known.
///
/// Fails if the tag of the image is another version: helm-controller then does nothing.
///
/// Source: helm-controller v1.6.3 `internal/controller/helmrelease_controller.go`, `mutateChartWithSourceRevision`.
fn of_image(state: &State<'_>, source: &ObjectId, spec: &Value, digest: &str, chart: Chart) -> Result<Chart, String> {
    if &*source.kind != "OCIRepository" {
        return Ok(chart);
    }
    let [by_digest, by_range, tag] = ["/ref/digest", "/ref/semver", "/ref/tag"].map(|field| text_at(spec, field));
    if by_digest.is_empty() && by_range.is_empty() && differ(&tag.replace('_', "+"), &chart.version) {
        return Err(format!(
            "helm-controller refuses its chart {}, which is not the version of the tag {tag}",
            chart.version
        ));
    }
    if state.input.helm_controller.ignores_digests {
        return Ok(chart);
    }
    let shown = digest.split_once(':').and_then(|(_, digest)| digest.get(..12)).unwrap_or(UNKNOWN_REVISION);
    let version = format!("{}+{shown}", without_metadata(&chart.version));
    Ok(chart.with_version(&version))
}

/// Returns true if a release asks for the same version of a chart in a HelmRepository of another name, which is the
/// same repository.
fn is_of_renamed_repository(
    state: &State<'_>,
    id: &ObjectId,
    old: &Requested,
    new: &Requested,
) -> Result<bool, String> {
    let is_same_chart = (&old.origin.name, &old.origin.range, &old.values)
        == (&new.origin.name, &new.origin.range, &new.values)
        && old.is_in_repository
        && new.is_in_repository;
    let [before, after] = [old, new].map(|chart| SourceId::of_chart(&chart.spec, &id.namespace).object());
    if !is_same_chart || before == after || before.namespace != after.namespace || !is_exact(&new.origin.range)? {
        return Ok(false);
    }
    let [repository] = &state.specs_after(&after)[..] else { return Ok(false) };
    let live = state.input.snapshot.resource(&before);
    let is_same = live.is_some_and(|live| differing_fields(&after.kind, live.spec(), repository).is_empty());
    Ok(is_same && !state.is_suspended_after(&after))
}

/// Returns the chart that a release will have, and what is assumed of it.
fn other_chart(
    comparison: &mut Comparison<'_, '_, '_>,
    release: &ObjectId,
    source: &ObjectId,
    wanted: &Requested,
) -> Asked<(Chart, Option<String>)> {
    if !wanted.is_in_repository {
        return Err("its chart is neither in the tree nor in a repository of charts".to_owned().into());
    }
    match (folder_chart(comparison, wanted), comparison.state().input.fetches_charts) {
        (Err(Interrupt::Failed(_)), true) => fetched_chart(comparison, release, source, wanted),
        (found, _) => found,
    }
}

/// Returns the chart from the folder of `--charts`.
fn folder_chart(comparison: &mut Comparison<'_, '_, '_>, wanted: &Requested) -> Asked<(Chart, Option<String>)> {
    let Origin { name, range, .. } = &wanted.origin;
    let Some(charts) = &comparison.state().input.charts else {
        let why = format!(
            "the version of its chart that it asks for is not in the tree; --charts can name a folder that has {name}, \
             and --allow-network fetches it"
        );
        return Err(why.into());
    };
    let versions = charts.iter().filter_map(|stem| stem.strip_prefix(&**name)?.strip_prefix('-'));
    let selected = select(range, versions).map_err(|why| format!("in the folder of --charts, {why} of {name}"))?;
    let chart = chart_of_folder(comparison, &format!("{name}-{}", selected.version))?;
    let assumption = (!selected.is_exact).then(|| {
        let version = &selected.version;
        format!("it is assumed that no version of {name} after {version} matches {range:?}: --charts has no other")
    });
    Ok((chart.with_values_files(&wanted.spec)?, assumption))
}

/// Returns the chart from its repository. Only the repositories of the cluster are asked: the tree must not choose
/// where requests go, nor send values of Secrets there.
fn fetched_chart(
    comparison: &mut Comparison<'_, '_, '_>,
    release: &ObjectId,
    source: &ObjectId,
    wanted: &Requested,
) -> Asked<(Chart, Option<String>)> {
    let Origin { name, range, .. } = &wanted.origin;
    let is_registry = &*source.kind == "OCIRepository";
    let repository =
        if is_registry { source.clone() } else { SourceId::of_chart(&wanted.spec, &release.namespace).object() };
    if [release, source, &repository].into_iter().any(|id| comparison.state().is_private(id)) {
        return Err("its chart is not fetched: a value of a Secret would be a part of the request".to_owned().into());
    }
    let Some(known) = known_repository(comparison.state(), &repository) else {
        return Err(format!("{repository} of its chart is not in the cluster, and none there has its address").into());
    };
    if comparison.state().specs_after(&repository).iter().any(|spec| address(spec) != address(known)) {
        return Err(format!("the address of {repository} changes, so that nothing is fetched from it").into());
    }
    let chart = if is_registry {
        RemoteChart::of_registry(&wanted.spec, range)
    } else {
        RemoteChart::of_repository(known, name, range)
    };
    let is_exact = chart.range.is_empty() || is_exact(range)?;
    let Some(files) = comparison.derivation.answers.remote_charts.get(&chart).cloned() else {
        comparison.derivation.needs.remote_charts.insert(chart);
        return Err(Interrupt::Missing);
    };
    let found = files.and_then(Chart::packed).map_err(|why| format!("{chart} cannot be fetched: {why}"))?;
    let assumption = (!is_exact).then(|| {
        let version = &found.version;
        format!("it is assumed that {version} is the version of {name} that source-controller selects for {range:?}")
    });
    Ok((found.with_values_files(&wanted.spec)?, assumption))
}

/// Returns the spec of a live repository: of this one or, if it does not exist yet, of one with the same address.
fn known_repository<'s>(state: &'s State<'_>, id: &ObjectId) -> Option<&'s Value> {
    let snapshot = state.input.snapshot;
    if let Some(live) = snapshot.resource(id) {
        return Some(live.spec());
    }
    let [new] = <[Value; 1]>::try_from(state.specs_after(id)).ok()?;
    let alike = snapshot.resources.iter().filter(|full| {
        let other = &full.object.id;
        (&other.group, &other.kind, &other.namespace) == (&id.group, &id.kind, &id.namespace)
    });
    alike.map(Resource::spec).find(|spec| address(spec) == address(&new))
}

/// Reads a chart in the folder of `--charts`.
fn chart_of_folder(comparison: &mut Comparison<'_, '_, '_>, stem: &str) -> Asked<Chart> {
    let Some(files) = comparison.derivation.answers.folder_charts.get(stem).cloned() else {
        comparison.derivation.needs.folder_charts.insert(stem.to_owned());
        return Err(Interrupt::Missing);
    };
    let chart = files.and_then(Chart::packed).map_err(|why| format!("{stem} in the folder of --charts: {why}"))?;
    if format!("{}-{}", chart.name, chart.version) != stem {
        return Err(format!("{stem} in the folder of --charts is {} {}", chart.name, chart.version).into());
    }
    Ok(chart)
}

/// Returns the chart of the deployed release: from the artifact of its source, from the folder of `--charts`, or, where
/// that is allowed, this version from its repository of charts.
fn deployed_chart(
    comparison: &mut Comparison<'_, '_, '_>,
    live: &Resource,
    source: &ObjectId,
    wanted: &Requested,
) -> Asked<Chart> {
    let [name, version, digest] = ["chartName", "chartVersion", "ociDigest"]
        .map(|field| live.text(&format!("/status/history/0/{field}")).unwrap_or_default());
    let Some(full) = comparison.state().input.snapshot.resource(source) else {
        return Err(format!("{source} could not be read").into());
    };
    let revision = full.text("/status/artifact/revision").unwrap_or_default();
    // helm-controller adds the digest of an image to the version of the chart in it.
    let is_deployed = if digest.is_empty() { revision == version } else { revision.ends_with(digest) };
    if !is_deployed {
        return Err(format!("{source} has revision {revision}, and {version} of its chart is deployed").into());
    }
    let chart = chart_of(comparison, &live.object.id, full, wanted, (name, without_metadata(version)))?;
    if chart.name != name || without_metadata(&chart.version) != without_metadata(version) {
        let Chart { name: found, version: other, .. } = &chart;
        return Err(format!("{source} has {found} {other}, and {name} {version} is deployed").into());
    }
    Ok(chart.with_version(version))
}

/// Returns a version of a chart that the cluster has: from the artifact of its source, from the folder of `--charts`,
/// or, where that is allowed, from its repository of charts.
fn chart_of(
    comparison: &mut Comparison<'_, '_, '_>,
    owner: &ObjectId,
    source: &Resource,
    wanted: &Requested,
    (name, version): (&str, &str),
) -> Asked<Chart> {
    let why = match stored_chart(comparison, source) {
        Err(Interrupt::Failed(why)) => why,
        stored => return stored,
    };
    let stem = format!("{name}-{version}");
    let is_in_repository = wanted.is_in_repository && &*source.object.id.kind == "HelmChart";
    let input = &comparison.state().input;
    match &input.charts {
        Some(charts) if charts.contains(&stem) => {
            Ok(chart_of_folder(comparison, &stem)?.with_values_files(&wanted.spec)?)
        }
        _ if is_in_repository && input.fetches_charts => {
            let exact = wanted.with_version(name, version);
            Ok(fetched_chart(comparison, owner, &source.object.id, &exact)?.0)
        }
        _ => {
            let fetch = if is_in_repository { ", and --allow-network fetches it" } else { "" };
            Err(format!("{why}; --charts can name a folder that has {stem}{fetch}").into())
        }
    }
}

/// Returns the chart in the artifact of a source.
fn stored_chart(comparison: &mut Comparison<'_, '_, '_>, source: &Resource) -> Asked<Chart> {
    let artifact = StoredArtifact::of(source)?;
    let Some(files) = comparison.derivation.answers.artifacts.get(&artifact.digest).cloned() else {
        comparison.derivation.needs.artifacts.insert(artifact.digest.clone(), artifact);
        return Err(Interrupt::Missing);
    };
    match files {
        Ok(files) => Ok(Chart::packed(files)?),
        Err(why) => Err(format!("its chart cannot be read from source-controller: {why}").into()),
    }
}

/// The chart that a spec asks for.
struct Requested {
    origin: Origin,
    /// The chart has a name and a version in a repository of charts.
    is_in_repository: bool,
    /// `valuesFiles` and `ignoreMissingValuesFiles`.
    values: Value,
    /// Spec that has `valuesFiles`.
    spec: Value,
}

impl Requested {
    /// Returns the same chart in this version.
    fn with_version(&self, name: &str, version: &str) -> Self {
        let origin = Origin { name: name.to_owned(), range: version.to_owned(), ..self.origin.clone() };
        Self { origin, values: self.values.clone(), spec: self.spec.clone(), ..*self }
    }
}

/// Name and version of a chart, and the repository that has it.
#[derive(Clone, PartialEq)]
struct Origin {
    name: String,
    /// Version, or a range of versions.
    range: String,
    repository: Value,
}

/// Returns the chart that the spec of a HelmRelease asks for. `source` is the spec of the object in its `chartRef`.
fn requested(spec: &Value, source: Option<&Value>) -> Result<Requested, String> {
    let chart_ref = spec.get("chartRef").filter(|reference| reference.is_object());
    let inline = spec.pointer("/chart/spec").filter(|_| chart_ref.is_none());
    let chart = inline.or(source).ok_or_else(|| "the source of its chart could not be read".to_owned())?;
    let (origin, is_in_repository) = match chart_ref.map(|reference| text_at(reference, "/kind")) {
        Some("OCIRepository") => {
            let reference = &chart["ref"];
            let range = match ["/digest", "/semver"].map(|field| text_at(reference, field)) {
                ["", ""] => text_at(reference, "/tag").replace('_', "+"),
                ["", range] | [range, _] => range.to_owned(),
            };
            (
                Origin {
                    name: last_segment(text_at(chart, "/url")),
                    range,
                    repository: json!([chart["url"], reference]),
                },
                true,
            )
        }
        Some("ExternalArtifact") => {
            (Origin { name: String::new(), range: String::new(), repository: chart.clone() }, false)
        }
        _ => {
            let range = Some(text_at(chart, "/version")).filter(|range| !range.is_empty()).unwrap_or("*").to_owned();
            let repository = json!([chart["sourceRef"], text_at(chart, "/chart"), follows_revision(chart)]);
            let origin = Origin { name: last_segment(text_at(chart, "/chart")), range, repository };
            (origin, text_at(chart, "/sourceRef/kind") == "HelmRepository")
        }
    };
    let values = json!([values_files(chart).collect::<Vec<_>>(), flag_at(chart, "/ignoreMissingValuesFiles")]);
    Ok(Requested { origin, is_in_repository, values, spec: chart.clone() })
}

/// Returns the name of a chart at a path.
pub(crate) fn last_segment(path: &str) -> String {
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

/// Returns the fields of a source that decide where its requests go.
fn address(spec: &Value) -> [Option<&Value>; 3] {
    ["url", "type", "insecure"].map(|field| spec.get(field))
}

/// Returns a version without its build metadata.
pub(crate) fn without_metadata(version: &str) -> &str {
    version.split_once('+').map_or(version, |(version, _)| version)
}
