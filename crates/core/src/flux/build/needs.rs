//! The I/O that builds depend on, as values: what is needed, and what was answered.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::data::{DataRef, Lookup};
use super::failure::BuildFailure;
use super::generator::GeneratedFile;
use super::references::Inputs;
use super::yaml;
use super::yaml::YamlDocument;
use crate::flux::build::charts::ChartRun;
use crate::flux::kustomize_controller::Features;
use crate::flux::source::artifact::Artifact;
use crate::plan::ReasonCode;

/// One run of kustomize over an artifact with a generated kustomization file.
#[derive(Clone, Debug)]
pub struct Run {
    /// Hash of everything that the run reads; runs with equal keys have equal output.
    pub key: String,
    /// Files that the build may read.
    pub artifact: Arc<Artifact>,
    /// The kustomization file of the directory to run in.
    pub generated: GeneratedFile,
    /// Files that the run reads, and files to write before it.
    pub inputs: Inputs,
    /// The artifact holds values of Secrets, so that the output must not be kept.
    pub is_private: bool,
}

/// I/O that must be done before the builds can continue.
#[derive(Clone, Debug, Default)]
pub struct Needs {
    pub runs: BTreeMap<String, Run>,
    /// ConfigMaps and Secrets to read.
    pub data: BTreeSet<DataRef>,
    /// Charts to render, by the key of the run.
    pub charts: BTreeMap<String, ChartRun>,
}

impl Needs {
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.data.is_empty() && self.charts.is_empty()
    }
}

/// Documents of a run's output, or the reason why there are none.
type RunResult = Result<Arc<Vec<YamlDocument>>, BuildFailure>;

/// Results of the I/O so far.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    runs: HashMap<String, RunResult>,
    data: HashMap<DataRef, Lookup>,
    charts: HashMap<String, Result<String, String>>,
}

impl Answers {
    /// Records the output of a run, or the reason why it has none.
    pub fn record_run(&mut self, key: String, output: Result<String, BuildFailure>) {
        let documents = output.and_then(|text| {
            yaml::documents(&text).map_err(|error| {
                let detail = format!("the output of kustomize cannot be read: {error}");
                BuildFailure::unknown(ReasonCode::ManifestUnreadable, detail)
            })
        });
        self.runs.insert(key, documents.map(Arc::new));
    }

    /// Records what a ConfigMap or Secret holds.
    pub fn record_data(&mut self, reference: DataRef, found: Lookup) {
        self.data.insert(reference, found);
    }

    /// Records the output of `helm template`, or the reason why it has none.
    pub fn record_chart(&mut self, key: String, output: Result<String, String>) {
        self.charts.insert(key, output);
    }

    /// Returns the output of `helm template`, or the reason why it has none; `None` if it was not recorded.
    pub fn chart(&self, key: &str) -> Option<&Result<String, String>> {
        self.charts.get(key)
    }

    /// Returns the result of a run; `None` if it was not recorded.
    pub(super) fn run(&self, key: &str) -> Option<&RunResult> {
        self.runs.get(key)
    }

    /// Returns what a ConfigMap or Secret holds; `None` if it was not recorded.
    pub fn data(&self, reference: &DataRef) -> Option<&Lookup> {
        self.data.get(reference)
    }
}

/// Data of ConfigMaps and Secrets after a change, in place of the recorded data.
pub type DataOverrides = BTreeMap<DataRef, Lookup>;

static NO_OVERRIDES: DataOverrides = DataOverrides::new();

/// Everything that builds share: the controller's rules, the answers, and the needs that they add to.
pub struct BuildContext<'a> {
    /// Rules of the controller's version.
    pub features: Features,
    /// Results of the I/O so far.
    pub answers: &'a Answers,
    /// Data that differs from the answers.
    pub overrides: &'a DataOverrides,
    /// Needs that a build adds to when an answer is missing.
    pub needs: &'a mut Needs,
}

impl<'a> BuildContext<'a> {
    /// Creates a context without overrides.
    pub fn new(features: Features, answers: &'a Answers, needs: &'a mut Needs) -> Self {
        Self { features, answers, overrides: &NO_OVERRIDES, needs }
    }

    /// Returns what a ConfigMap or Secret holds or will hold; `None` if it was not recorded.
    pub(super) fn data(&self, reference: &DataRef) -> Option<&'a Lookup> {
        self.overrides.get(reference).or_else(|| self.answers.data(reference))
    }
}
