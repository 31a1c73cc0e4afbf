//! Changes of sources: their specs, and the files of the planned trees that are used from them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::comparison::{Asked, Comparison, Part};
use crate::flux::build::charts::{follows_revision, values_files};
use crate::flux::kinds::EXTERNAL_ARTIFACT;
use crate::flux::simulation::model::generated_artifacts::ArtifactContent;
use crate::flux::simulation::model::state::State;
use crate::flux::source::artifact::Artifact;
use crate::flux::source::path;
use crate::flux::spec::SourceId;
use crate::kubernetes::object::{ObjectId, text_at};

/// Files that are used from a source.
pub(crate) enum UsedFiles {
    /// Every file.
    All,
    /// A chart, and values files beside it.
    Chart {
        path: String,
        values_files: Vec<String>,
        /// Each revision of the source gives the chart a new version.
        follows_revision: bool,
    },
    /// No file: they are compared otherwise.
    None,
}

impl UsedFiles {
    /// Reads the fields that a HelmChart and the chart of a HelmRelease have in common.
    pub(crate) fn of_chart(spec: &Value) -> Self {
        Self::Chart {
            path: text_at(spec, "/chart").to_owned(),
            values_files: values_files(spec).map(str::to_owned).collect(),
            follows_revision: follows_revision(spec),
        }
    }
}

impl Comparison<'_, '_, '_> {
    /// Returns what changes in a source and in the files that are used from it, in words. `seen` stops cycles.
    pub(crate) fn source_changes(
        &mut self,
        source: &SourceId,
        files: &UsedFiles,
        seen: &mut BTreeSet<ObjectId>,
    ) -> Asked<Vec<String>> {
        let id = source.object();
        if !seen.insert(id.clone()) {
            return Ok(vec![]);
        }
        let difference = self.difference(&id, Part::Spec { is_ready: false })?;
        let mut changes: Vec<String> = difference.iter().map(|difference| difference.describe(&id)).collect();
        if is_resumed(self.state(), &id) {
            changes.push(format!("{id} is resumed"));
        }
        self.state().check_decrypted(&id).map_err(|why| format!("{id}: {why}"))?;
        for spec in self.state().specs_after(&id) {
            match source.kind.as_str() {
                "HelmChart" => {
                    let chart_source = SourceId::of_chart(&spec, &source.namespace);
                    changes.extend(self.source_changes(&chart_source, &UsedFiles::of_chart(&spec), seen)?);
                }
                "GitRepository" => {
                    for included in spec.get("include").and_then(Value::as_array).into_iter().flatten() {
                        let included = SourceId::read(&included["repository"], "GitRepository", &source.namespace);
                        changes.extend(self.source_changes(&included, &UsedFiles::All, seen)?);
                    }
                }
                _ => {}
            }
        }
        // A suspended source stays at the revision that it has.
        if !self.state().is_suspended_after(&id) {
            changes.extend(self.file_changes(source, files));
        }
        if let Some(states) = self.state().generated.states(source).filter(|_| source.kind == EXTERNAL_ARTIFACT) {
            changes.extend(states.iter().filter_map(|state| match &state.content {
                ArtifactContent::Made(_) => Some(format!("{source} is generated anew")),
                ArtifactContent::Same | ArtifactContent::Missing(_) => None,
                ArtifactContent::Unknown(why) => Some(why.clone()),
            }));
        }
        Ok(changes)
    }

    /// Returns the first used file of a source that differs from its deployed revision, in words. A chart that follows every
    /// revision changes with any file.
    fn file_changes(&self, source: &SourceId, files: &UsedFiles) -> Option<String> {
        let input = &self.state().input;
        let new = input.trees.get(source).filter(|_| !matches!(files, UsedFiles::None))?;
        let Some(old) = input.deployed.get(source) else {
            return Some(format!("the files of {source} cannot be compared: its revision is not in the checkout"));
        };
        let changed = match files {
            UsedFiles::All => first_change(old, new, |_| true),
            UsedFiles::None => None,
            UsedFiles::Chart { path, values_files, follows_revision } => {
                let mut directories = BTreeSet::new();
                let is_known = [old, new].iter().all(|artifact| add_chart(artifact, path, &mut directories));
                let values: BTreeSet<String> = values_files.iter().map(|file| path::secure_join(file)).collect();
                let of_chart = first_change(old, new, |at| {
                    !is_known || values.contains(at) || directories.iter().any(|directory| path::is_in(at, directory))
                });
                if of_chart.is_none() && *follows_revision && first_change(old, new, |_| true).is_some() {
                    return Some(format!("{source} changes (reconcileStrategy: Revision)"));
                }
                of_chart
            }
        };
        changed.map(|at| format!("{at} of {source} changes"))
    }
}

/// Returns true if `spec.suspend` is true before the change and not after it.
fn is_resumed(state: &State<'_>, id: &ObjectId) -> bool {
    let live = state.input.snapshot.resource(id);
    live.is_some_and(|live| live.flag("/spec/suspend")) && !state.is_suspended_after(id)
}

/// Returns the first file that two artifacts do not have in common, of those that are used.
fn first_change<'a>(old: &'a Artifact, new: &'a Artifact, is_used: impl Fn(&str) -> bool) -> Option<&'a str> {
    let changed = new.files().find(|(at, content)| is_used(at) && old.file(at) != Some(content));
    changed.or_else(|| old.files().find(|(at, _)| is_used(at) && new.file(at).is_none())).map(|(at, _)| at)
}

/// Adds the directory of a chart, and those of the charts in the same source that it depends on. Returns false if its
/// dependencies cannot be read.
fn add_chart(artifact: &Artifact, chart: &str, directories: &mut BTreeSet<String>) -> bool {
    let mut queue = vec![path::secure_join(chart)];
    let mut seen = BTreeSet::new();
    while let Some(directory) = queue.pop() {
        if !seen.insert(directory.clone()) {
            continue;
        }
        for file in ["Chart.yaml", "requirements.yaml"] {
            let Some(content) = artifact.file(&path::join(&directory, file)) else { continue };
            let Ok(parsed) = crate::yaml::document(&String::from_utf8_lossy(content)) else { return false };
            let dependencies = parsed.get("dependencies").and_then(Value::as_array).into_iter().flatten();
            let local = dependencies.filter_map(|entry| text_at(entry, "/repository").strip_prefix("file://"));
            queue.extend(local.map(|relative| path::secure_join(&path::join(&directory, relative))));
        }
        directories.insert(directory);
    }
    true
}
