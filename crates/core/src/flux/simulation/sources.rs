//! Changes of sources: their specs, and the files of the planned trees that are used from them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::comparison::{Comparison, Part};
use super::references::text;
use super::unfollowed::copied::CopyRule;
use crate::flux::build::charts::{follows_revision, values_files};
use crate::flux::kinds::ARTIFACT_SWITCH;
use crate::flux::source::artifact::Artifact;
use crate::flux::source::path;
use crate::flux::spec::SourceId;
use crate::kubernetes::object::{ObjectId, text_at};
use crate::ownership::schemes::flux::is_switched_off;

/// API group of ArtifactGenerators.
pub(super) const GENERATOR_GROUP: &str = "source.extensions.fluxcd.io";
/// Kind of ArtifactGenerators.
pub(super) const GENERATOR: &str = "ArtifactGenerator";

/// Files that are used from a source.
pub(super) enum UsedFiles {
    /// Every file.
    All,
    /// A chart, and values files beside it.
    Chart {
        path: String,
        values_files: Vec<String>,
        /// Each revision of the source gives the chart a new version.
        follows_revision: bool,
    },
    /// Files that an ArtifactGenerator copies.
    Copied(Vec<CopyRule>),
}

impl UsedFiles {
    /// Reads the fields that a HelmChart and the chart of a HelmRelease have in common.
    pub(super) fn of_chart(spec: &Value) -> Self {
        Self::Chart {
            path: text(spec, "chart").to_owned(),
            values_files: values_files(spec).map(str::to_owned).collect(),
            follows_revision: follows_revision(spec),
        }
    }
}

impl Comparison<'_, '_, '_> {
    /// Returns what changes in a source and in the files that are used from it, in words. `seen` stops cycles.
    pub(super) fn source_changes(
        &mut self,
        source: &SourceId,
        files: &UsedFiles,
        seen: &mut BTreeSet<ObjectId>,
    ) -> Vec<String> {
        let id = source.object();
        if !seen.insert(id.clone()) {
            return vec![];
        }
        let difference = self.difference(&id, Part::Spec { is_ready: false });
        let mut changes: Vec<String> = difference.iter().map(|difference| difference.describe(&id)).collect();
        if self.is_resumed(&id) {
            changes.push(format!("{id} is resumed"));
        }
        for spec in self.specs_after(&id) {
            match source.kind.as_str() {
                "HelmChart" => {
                    let chart_source = SourceId::of_chart(&spec, &source.namespace);
                    changes.extend(self.source_changes(&chart_source, &UsedFiles::of_chart(&spec), seen));
                }
                "GitRepository" => {
                    for included in spec.get("include").and_then(Value::as_array).into_iter().flatten() {
                        let included = SourceId::read(&included["repository"], "GitRepository", &source.namespace);
                        changes.extend(self.source_changes(&included, &UsedFiles::All, seen));
                    }
                }
                _ => {}
            }
        }
        // A suspended source stays at the revision that it has.
        if !self.is_suspended_after(&id) {
            changes.extend(self.file_changes(source, files));
        }
        if source.kind == "ExternalArtifact" {
            for generator in self.generators_of(&id) {
                changes.extend(self.generator_changes(&generator, Some(&source.name), seen));
            }
        }
        changes
    }

    /// Returns what changes in the artifacts of a generator, or in the one with this name.
    pub(super) fn generator_changes(
        &mut self,
        id: &ObjectId,
        artifact: Option<&str>,
        seen: &mut BTreeSet<ObjectId>,
    ) -> Vec<String> {
        if !seen.insert(id.clone()) || self.is_switched_off_after(id, ARTIFACT_SWITCH) {
            return vec![];
        }
        let difference = self.difference(id, Part::Spec { is_ready: false });
        let mut changes: Vec<String> = difference.iter().map(|difference| difference.describe(id)).collect();
        for spec in self.specs_after(id) {
            let has_pattern = !text(&spec, "pathPattern").is_empty();
            let artifacts: Vec<&Value> =
                spec.get("artifacts").and_then(Value::as_array).into_iter().flatten().collect();
            let wanted = artifacts
                .into_iter()
                .filter(|output| has_pattern || artifact.is_none_or(|name| text(output, "name") == name));
            let copies: Vec<&Value> = wanted.filter_map(|output| output.get("copy")?.as_array()).flatten().collect();
            for entry in spec.get("sources").and_then(Value::as_array).into_iter().flatten() {
                let source = SourceId::read(entry, "", &id.namespace);
                let alias = text(entry, "alias");
                let rules: Vec<CopyRule> =
                    copies.iter().filter_map(|operation| CopyRule::read(operation, alias)).collect();
                let files = if has_pattern { UsedFiles::All } else { UsedFiles::Copied(rules) };
                changes.extend(self.source_changes(&source, &files, seen));
            }
        }
        changes
    }

    /// Returns the generators of an ExternalArtifact, from its spec or from the specs of generators.
    fn generators_of(&self, artifact: &ObjectId) -> Vec<ObjectId> {
        let mut found = BTreeSet::new();
        if let Some(live) = self.preview().input.snapshot.resource(artifact)
            && live.text("/spec/sourceRef/kind") == Some(GENERATOR)
        {
            let name = text_at(&live.content, "/spec/sourceRef/name");
            found.insert(ObjectId::new(GENERATOR_GROUP, GENERATOR, &artifact.namespace, name));
        }
        for id in self.ids_of(GENERATOR_GROUP, GENERATOR) {
            let makes = |spec: &Value| {
                let outputs = spec.get("artifacts").and_then(Value::as_array).into_iter().flatten();
                !text(spec, "pathPattern").is_empty()
                    || outputs.into_iter().any(|output| text(output, "name") == &*artifact.name)
            };
            if id.namespace == artifact.namespace && self.specs_after(&id).iter().any(makes) {
                found.insert(id);
            }
        }
        found.into_iter().collect()
    }

    /// Returns the first used file of a source that differs from its deployed revision, in words.
    fn file_changes(&self, source: &SourceId, files: &UsedFiles) -> Option<String> {
        let input = &self.preview().input;
        let new = input.trees.get(source)?;
        if matches!(files, UsedFiles::Copied(rules) if rules.is_empty()) {
            return None;
        }
        let Some(old) = input.deployed.get(source) else {
            return Some(format!("the files of {source} cannot be compared: its revision is not in the checkout"));
        };
        let changed = match files {
            UsedFiles::All => first_change(old, new, |_| true),
            UsedFiles::Copied(rules) => first_change(old, new, |at| rules.iter().any(|rule| rule.copies(at))),
            UsedFiles::Chart { follows_revision: true, .. } => first_change(old, new, |_| true),
            UsedFiles::Chart { path, values_files, .. } => {
                let mut directories = BTreeSet::new();
                let is_known = [old, new].iter().all(|artifact| add_chart(artifact, path, &mut directories));
                let values: BTreeSet<String> =
                    values_files.iter().filter_map(|file| path::resolve("", file.trim_start_matches('/'))).collect();
                first_change(old, new, |at| {
                    !is_known || values.contains(at) || directories.iter().any(|directory| is_below(at, directory))
                })
            }
        };
        changed.map(|at| format!("{at} of {source} changes"))
    }

    /// Returns true if an annotation switches a generator off after the change.
    pub(super) fn is_switched_off_after(&self, id: &ObjectId, switch: &str) -> bool {
        let applied = self.applied(id);
        let live = self.preview().live_object(id).and_then(|live| live.annotations.get(switch));
        let in_manifest = |built: &crate::flux::build::objects::BuiltObject| {
            let found = built.manifest.pointer("/metadata/annotations")?.get(switch)?.as_str()?;
            Some(is_switched_off(found))
        };
        match live.map(is_switched_off) {
            // A manifest that does not have the annotation keeps it, if somebody else set it.
            Some(true) => applied.iter().all(|(_, built)| in_manifest(built) == Some(true)),
            _ => !applied.is_empty() && applied.iter().all(|(_, built)| in_manifest(built) == Some(true)),
        }
    }
}

fn is_below(path: &str, directory: &str) -> bool {
    directory.is_empty() || path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
}

/// Returns the first file that two artifacts do not have in common, of those that are used.
fn first_change<'a>(old: &'a Artifact, new: &'a Artifact, is_used: impl Fn(&str) -> bool) -> Option<&'a str> {
    let changed = new.files().find(|(at, content)| is_used(at) && old.file(at) != Some(content));
    let removed = || old.files().find(|(at, _)| is_used(at) && new.file(at).is_none());
    changed.or_else(removed).map(|(at, _)| at)
}

/// Adds the directory of a chart, and those of the charts in the same source that it depends on. Returns false if its
/// dependencies cannot be read.
fn add_chart(artifact: &Artifact, chart: &str, directories: &mut BTreeSet<String>) -> bool {
    let mut queue = vec![path::resolve("", chart.trim_start_matches('/'))];
    let mut seen = BTreeSet::new();
    while let Some(next) = queue.pop() {
        let Some(directory) = next else { return false };
        if !seen.insert(directory.clone()) {
            continue;
        }
        for file in ["Chart.yaml", "requirements.yaml"] {
            let Some(content) = artifact.file(&path::join(&directory, file)) else { continue };
            let Ok(parsed) = crate::yaml::document(&String::from_utf8_lossy(content)) else { return false };
            let dependencies = parsed.get("dependencies").and_then(Value::as_array).into_iter().flatten();
            let local = dependencies.filter_map(|entry| text(entry, "repository").strip_prefix("file://"));
            queue.extend(local.map(|relative| path::resolve(&directory, relative)));
        }
        directories.insert(directory);
    }
    true
}
