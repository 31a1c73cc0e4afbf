//! The I/O that builds depend on, as values: what is needed, and what was answered.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use super::charts::archive::{ChartResult, check_digest, unpack};
use super::charts::remote::RemoteChart;
use super::charts::stored_artifact::StoredArtifact;
use super::charts::{ChartOutput, ChartRun};
use super::failure::BuildFailure;
use super::finished::{BuildResult, FinishedBuilds, SharedBuilds};
use super::generator::GeneratedFile;
use super::objects::data::{DataOverrides, DataRef, Lookup};
use super::objects::query::{ClusterQuery, QueryAnswer};
use super::objects::yaml;
use super::objects::yaml::YamlDocument;
use super::references::Inputs;
use super::resource_sets::SetRun;
use crate::flux::kustomize_controller::Features;
use crate::flux::source::artifact::Artifact;
use crate::helm::records::{RecordsAnswer, RecordsQuery};
use crate::plan::ReasonCode;
use crate::private::Private;

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
    /// Packed charts to read from the storage of source-controller, by their digest.
    pub artifacts: BTreeMap<String, StoredArtifact>,
    /// Charts to read from the folder of `--charts`, as `NAME-VERSION`.
    pub folder_charts: BTreeSet<String>,
    /// Charts to fetch from repositories.
    pub remote_charts: BTreeSet<RemoteChart>,
    /// Clusters whose API server must be asked for its version; no name for the cluster itself.
    pub kube_versions: BTreeSet<Option<Arc<str>>>,
    /// Objects to read with their content.
    pub queries: BTreeSet<ClusterQuery>,
    /// Releases whose records are to be read.
    pub records: BTreeSet<RecordsQuery>,
    /// ResourceSets to generate, by the key of the run.
    pub resource_sets: BTreeMap<String, SetRun>,
}

impl Needs {
    pub fn is_empty(&self) -> bool {
        let Self {
            runs,
            data,
            charts,
            artifacts,
            folder_charts,
            remote_charts,
            kube_versions,
            queries,
            records,
            resource_sets,
        } = self;
        let has_charts = !(charts.is_empty() && artifacts.is_empty() && folder_charts.is_empty());
        let has_builds = !(runs.is_empty() && resource_sets.is_empty()) || has_charts || !remote_charts.is_empty();
        let has_reads = !(data.is_empty() && kube_versions.is_empty() && queries.is_empty() && records.is_empty());
        !has_builds && !has_reads
    }
}

/// Keys of the programs that needs are about: equal keys have equal results, in any cluster.
pub struct RunKeys {
    runs: Vec<String>,
    charts: Vec<String>,
    resource_sets: Vec<String>,
}

impl Needs {
    pub fn run_keys(&self) -> RunKeys {
        RunKeys {
            runs: self.runs.keys().cloned().collect(),
            charts: self.charts.keys().cloned().collect(),
            resource_sets: self.resource_sets.keys().cloned().collect(),
        }
    }
}

impl RunKeys {
    /// Number of runs.
    pub fn len(&self) -> usize {
        self.runs.len() + self.charts.len() + self.resource_sets.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Output of a run, or the reason why there is none.
type RunResult = Result<Arc<RunOutput>, BuildFailure>;

/// Output of a run, and what follows from it alone. Plans of several clusters share it.
#[derive(Debug)]
pub(super) struct RunOutput {
    pub(super) documents: Vec<YamlDocument>,
    /// Objects of the documents, if nothing is substituted or decrypted in them.
    pub(super) objects: OnceLock<BuildResult>,
    /// Digest of the text, if nothing is substituted in it.
    pub(super) digest: OnceLock<String>,
}

/// Results of the I/O so far, each with the reason where there is none.
#[derive(Debug, Default)]
pub struct Answers {
    pub(super) runs: HashMap<String, RunResult>,
    /// Data of ConfigMaps and Secrets.
    pub data: HashMap<DataRef, Lookup>,
    /// Results of `helm template` by the keys of the runs.
    pub charts: HashMap<String, Result<ChartOutput, String>>,
    /// Files of packed charts by the digests of their archives.
    pub(crate) artifacts: HashMap<String, ChartResult>,
    /// Files of the charts in the folder of `--charts`, by `NAME-VERSION`.
    pub folder_charts: HashMap<String, ChartResult>,
    /// Files of fetched charts.
    pub(crate) remote_charts: HashMap<RemoteChart, ChartResult>,
    /// Versions of the API servers, such as `v1.33.1`, by cluster; `None` for one that cannot be read.
    pub kube_versions: HashMap<Option<Arc<str>>, Option<String>>,
    pub queries: HashMap<ClusterQuery, QueryAnswer>,
    /// Helm's records of releases.
    pub records: HashMap<RecordsQuery, RecordsAnswer>,
    /// Resources of ResourceSets by the keys of the runs.
    pub resource_sets: HashMap<String, Result<String, String>>,
    /// Builds that lacked no answer.
    pub(super) finished: FinishedBuilds,
    pub(super) shared: Arc<SharedBuilds>,
}

impl Answers {
    /// Returns no answers, for another cluster: what was found out about the tree is shared.
    pub fn of_same_trees(&self) -> Self {
        Self { shared: self.shared.clone(), ..Self::default() }
    }

    /// Takes the results of programs from the answers for another cluster, and removes them from the needs. All outputs of
    /// kustomize are taken: they are shared, and a later step needs no answer for them.
    pub fn take_runs(&mut self, needs: &mut Needs, known: &Self) {
        let keys = needs.run_keys();
        for (key, output) in &known.runs {
            self.runs.entry(key.clone()).or_insert_with(|| output.clone());
        }
        copy(&mut self.charts, &known.charts, &keys.charts);
        copy(&mut self.resource_sets, &known.resource_sets, &keys.resource_sets);
        needs.runs.retain(|key, _| !self.runs.contains_key(key));
        needs.charts.retain(|key, _| !self.charts.contains_key(key));
        needs.resource_sets.retain(|key, _| !self.resource_sets.contains_key(key));
    }

    /// Adds the results of these programs to the answers that other clusters take.
    pub fn share_runs(&self, keys: &RunKeys, known: &mut Self) {
        copy(&mut known.runs, &self.runs, &keys.runs);
        copy(&mut known.charts, &self.charts, &keys.charts);
        copy(&mut known.resource_sets, &self.resource_sets, &keys.resource_sets);
    }

    /// Records this reason in place of every answer that is still missing.
    pub fn give_up(&mut self, needs: Needs, why: &str) {
        for key in needs.runs.into_keys() {
            self.runs.entry(key).or_insert_with(|| Err(BuildFailure::unknown(ReasonCode::BuildTimeout, why)));
        }
        for reference in needs.data {
            self.data.entry(reference).or_insert_with(|| Lookup::Unreadable(why.to_owned()));
        }
        for key in needs.charts.into_keys() {
            self.charts.entry(key).or_insert_with(|| Err(why.to_owned()));
        }
        for key in needs.resource_sets.into_keys() {
            self.resource_sets.entry(key).or_insert_with(|| Err(why.to_owned()));
        }
        for digest in needs.artifacts.into_keys() {
            self.artifacts.entry(digest).or_insert_with(|| Err(why.to_owned()));
        }
        for stem in needs.folder_charts {
            self.folder_charts.entry(stem).or_insert_with(|| Err(why.to_owned()));
        }
        for chart in needs.remote_charts {
            self.remote_charts.entry(chart).or_insert_with(|| Err(why.to_owned()));
        }
        for name in needs.kube_versions {
            self.kube_versions.entry(name).or_insert(None);
        }
        for query in needs.records {
            self.records.entry(query).or_insert_with(|| RecordsAnswer::Unreadable(why.to_owned()));
        }
    }

    /// Records the output of a run, or the reason why it has none.
    pub fn record_run(&mut self, key: String, output: Result<String, BuildFailure>) {
        let documents = output.and_then(|text| {
            yaml::documents(&text).map_err(|error| {
                let detail = format!("the output of kustomize cannot be read: {error}");
                BuildFailure::unknown(ReasonCode::ManifestUnreadable, detail)
            })
        });
        let output = documents
            .map(|documents| Arc::new(RunOutput { documents, objects: OnceLock::new(), digest: OnceLock::new() }));
        self.runs.insert(key, output);
    }

    /// Replaces what is known of ConfigMaps and Secrets, with nothing where there is no answer, and returns what was known of
    /// them. Another step of a plan sees other content.
    pub fn swap_data(&mut self, data: BTreeMap<DataRef, Option<Lookup>>) -> BTreeMap<DataRef, Option<Lookup>> {
        if !data.is_empty() {
            self.finished = FinishedBuilds::default();
        }
        let swapped = data.into_iter().map(|(reference, found)| {
            let known = match found {
                Some(found) => self.data.insert(reference.clone(), found),
                None => self.data.remove(&reference),
            };
            (reference, known)
        });
        swapped.collect()
    }

    /// Forgets builds that are finished, and with them their artifacts.
    pub fn forget_finished(&mut self) {
        self.finished = FinishedBuilds::default();
        self.shared = Arc::default();
    }

    /// Returns the values of the Secrets that were read.
    pub(crate) fn secret_values(&self) -> impl Iterator<Item = &Private<String>> {
        let secrets = self.data.values().filter_map(|found| match found {
            Lookup::Found(data) if data.is_secret => Some(data),
            _ => None,
        });
        secrets.flat_map(|data| data.values.values())
    }

    /// Records a packed chart, or the reason why it cannot be read. An archive with another digest is refused.
    pub fn record_artifact(&mut self, artifact: &StoredArtifact, archive: Result<&[u8], String>) {
        let checked = archive.and_then(|archive| check_digest(archive, &artifact.digest).map(|()| archive));
        let files = checked.and_then(|archive| unpack(archive).map(Arc::new));
        self.artifacts.insert(artifact.digest.clone(), files);
    }

    /// Records the files of a fetched chart, or the reason why it cannot be fetched.
    pub fn record_remote_chart(&mut self, chart: RemoteChart, archive: Result<Vec<u8>, String>) {
        self.remote_charts.insert(chart, archive.and_then(|archive| unpack(&archive).map(Arc::new)));
    }
}

/// Copies the results with these keys, where there are any.
fn copy<R: Clone>(to: &mut HashMap<String, R>, from: &HashMap<String, R>, keys: &[String]) {
    to.extend(keys.iter().filter_map(|key| Some((key.clone(), from.get(key)?.clone()))));
}

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
        self.overrides.get(reference).or_else(|| self.answers.data.get(reference))
    }
}
