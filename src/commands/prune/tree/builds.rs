//! Builds that a preview asks for: the programs, charts and data that they need.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{StreamExt, stream};

use crate::cluster::Cluster;
use crate::cluster::read::content::{answer_query, look_up, read_records};
use crate::commands::prune::spokes::SpokeClusters;
use crate::error::{Error, Result};
use crate::output::progress::BuildProgress;
use crate::tools::chart_folder::ChartFolder;
use crate::tools::programs::flux_operator::FluxOperator;
use crate::tools::programs::helm::Helm;
use crate::tools::programs::kustomize::Kustomize;
use crate::tools::sandbox::children_at_once;
use gitops_core::flux::build::charts::stored_artifact::StoredArtifact;
use gitops_core::flux::build::objects::data::{Data, DataRef, Lookup};
use gitops_core::flux::build::objects::query::{ClusterQuery, QueryAnswer};
use gitops_core::flux::build::{Answers, Needs, config_maps_in_use};
use gitops_core::flux::kustomize_controller::KustomizeVersions;
use gitops_core::helm::records::{RecordsAnswer, RecordsQuery};
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::text::sha256;

/// Folder of the cache with archives of charts, by their digests.
const CACHED_CHARTS: &str = "charts";
/// Number of requests of one kind that are sent at once.
const REQUESTS_AT_ONCE: usize = 8;

/// Everything that builds read and run.
pub(super) struct Builds<'s> {
    pub(super) snapshot: &'s Snapshot,
    pub(super) kustomize: Kustomize,
    pub(super) helm: Arc<Helm>,
    pub(super) flux_operator: FluxOperator,
    /// The folder of `--charts`.
    pub(super) charts: Option<ChartFolder>,
    pub(super) versions: KustomizeVersions,
    pub(super) cluster: Option<Cluster>,
    pub(super) spokes: &'s SpokeClusters,
    /// Secrets that may be read.
    pub(super) secrets: BTreeSet<DataRef>,
    pub(super) progress: BuildProgress,
}

impl Builds<'_> {
    pub(super) async fn answer(&self, needs: Needs, answers: &mut Answers) -> Result<()> {
        let parallel = children_at_once();
        // A chart is rendered as soon as these are known.
        let renders_next =
            !(needs.kube_versions.is_empty() && needs.artifacts.is_empty() && needs.remote_charts.is_empty());
        // A fetch waits for the network, and would hold a slot that a render can use.
        let charts = async {
            let rendered = self.helm.run_all(needs.charts.into_values(), parallel).await?;
            Ok::<_, Error>((rendered, self.helm.pull_all(needs.remote_charts, parallel).await?))
        };
        let (built, charts, generated, (), versions, queried, records, fetched, found) = tokio::join!(
            self.kustomize.run_all(&self.versions, needs.runs.into_values(), parallel, |done, all| {
                self.progress.show(done, all);
            }),
            charts,
            self.flux_operator.build_all(needs.resource_sets.into_values(), parallel),
            self.helm.prepare(renders_next),
            at_once(needs.kube_versions, async |cluster| self.kube_version(cluster.as_ref()).await),
            at_once(needs.queries, async |query| self.query(query).await),
            at_once(needs.records, async |query| self.records(query).await),
            at_once(needs.artifacts.into_values(), async |artifact| self.fetch_chart(artifact).await),
            at_once(needs.data, async |reference| self.look_up(reference).await),
        );
        for (key, output) in built? {
            answers.record_run(key, output);
        }
        let (rendered, pulled) = charts?;
        answers.charts.extend(rendered);
        answers.resource_sets.extend(generated?);
        for (chart, archive) in pulled {
            answers.record_remote_chart(chart, archive);
        }
        answers.kube_versions.extend(versions);
        answers.queries.extend(queried);
        answers.records.extend(records);
        for (artifact, archive) in fetched {
            answers.record_artifact(&artifact, archive.as_deref().map_err(Clone::clone));
        }
        answers.data.extend(found);
        for stem in needs.folder_charts {
            let files = match &self.charts {
                Some(charts) => charts.read(&stem),
                None => Err("--charts is not given".to_owned()),
            };
            answers.folder_charts.insert(stem, files);
        }
        Ok(())
    }

    /// Adds the ConfigMaps and Secrets that owners read, if nobody has to be asked for them: a step that needs one is repeated.
    pub(super) async fn add_recorded_data(&self, answers: &mut Answers) {
        if self.cluster.is_some() {
            return;
        }
        for reference in config_maps_in_use(self.snapshot).into_iter().chain(self.secrets.iter().cloned()) {
            let found = self.look_up(&reference).await;
            answers.data.insert(reference, found);
        }
    }

    /// Returns the version of Kubernetes of a cluster, if it is known.
    async fn kube_version(&self, name: Option<&Arc<str>>) -> Option<String> {
        match name.map_or(self.cluster.as_ref(), |name| self.spokes.get(name)) {
            Some(cluster) => cluster.version().await.ok(),
            None => {
                let recorded = self.snapshot.of_cluster(name).map(|cluster| cluster.kube_version.clone());
                recorded.filter(|version| !version.is_empty())
            }
        }
    }

    /// Returns the data of a ConfigMap or a Secret.
    async fn look_up(&self, reference: &DataRef) -> Lookup {
        match &self.cluster {
            _ if reference.is_secret() && !self.secrets.contains(reference) => Lookup::NotRead,
            _ if self.snapshot.lacks(&reference.id()) => Lookup::Missing,
            Some(cluster) => look_up(&cluster.without_names(), reference).await,
            None => match self.snapshot.resource(&reference.id()) {
                Some(recorded) => Lookup::Found(Data::read(&recorded.content)),
                None if reference.is_secret() => {
                    Lookup::Unreadable("a snapshot holds no data of Secrets: plan with the cluster".to_owned())
                }
                None => Lookup::Unreadable(
                    "the snapshot does not hold it: plan with the cluster, or record with --with-values".to_owned(),
                ),
            },
        }
    }

    /// Returns an object of a cluster, or all objects of a kind.
    async fn query(&self, query: &ClusterQuery) -> QueryAnswer {
        let cluster = query.cluster.as_ref().map_or(self.cluster.as_ref(), |name| self.spokes.get(name));
        let types = self.snapshot.of_cluster(query.cluster.as_ref()).map_or(&[][..], |snapshot| &snapshot.types);
        match cluster {
            Some(cluster) => answer_query(&cluster.without_names(), types, &query.query).await,
            None => QueryAnswer::Unreadable("a snapshot does not hold it: plan with the cluster".to_owned()),
        }
    }

    /// Returns Helm's records of a release.
    async fn records(&self, query: &RecordsQuery) -> RecordsAnswer {
        let cluster = query.cluster.as_ref().map_or(self.cluster.as_ref(), |name| self.spokes.get(name));
        let types = self.snapshot.of_cluster(query.cluster.as_ref()).map_or(&[][..], |snapshot| &snapshot.types);
        match cluster {
            Some(cluster) => read_records(&cluster.without_names(), types, query).await,
            None => RecordsAnswer::NotRecorded,
        }
    }

    /// Returns a packed chart from the cache or from the storage of source-controller, or the reason why it cannot be read.
    async fn fetch_chart(&self, artifact: &StoredArtifact) -> std::result::Result<Vec<u8>, String> {
        let key =
            artifact.digest.strip_prefix("sha256:").filter(|digest| digest.bytes().all(|b| b.is_ascii_hexdigit()));
        let Some(key) = key.filter(|_| self.cluster.is_some()) else { return self.fetch_stored(artifact).await };
        let cached = self.helm.cache.read(CACHED_CHARTS, key).filter(|archive| sha256(archive) == artifact.digest);
        if let Some(archive) = cached {
            return Ok(archive);
        }
        let archive = self.fetch_stored(artifact).await?;
        if sha256(&archive) == artifact.digest {
            self.helm.cache.store(CACHED_CHARTS, key, &archive);
        }
        Ok(archive)
    }

    async fn fetch_stored(&self, artifact: &StoredArtifact) -> std::result::Result<Vec<u8>, String> {
        match &self.cluster {
            Some(cluster) => match cluster.fetch_artifact(artifact).await {
                Ok(answer) => Ok(answer.body.to_vec()),
                Err(failure) => Err(failure.to_string()),
            },
            None => self
                .snapshot
                .chart(&artifact.digest)
                .ok_or_else(|| "the snapshot lacks it: record one with --with-charts".to_owned()),
        }
    }
}

/// Answers questions at once. Returns each with its answer.
async fn at_once<Q, A>(questions: impl IntoIterator<Item = Q>, answer: impl AsyncFn(&Q) -> A) -> Vec<(Q, A)> {
    let answer = &answer;
    let answers = questions.into_iter().map(|question| async move {
        let answered = answer(&question).await;
        (question, answered)
    });
    stream::iter(answers).buffered(REQUESTS_AT_ONCE).collect().await
}
