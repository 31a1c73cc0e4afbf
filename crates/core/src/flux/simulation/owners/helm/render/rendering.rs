//! Renders of charts for a release in its cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::flux::build::charts::lookups::{LOOKUPS, Lookups, too_many};
use crate::flux::build::charts::random::{Randomness, Seed};
use crate::flux::build::charts::templates::{ClusterValues, api_versions};
use crate::flux::build::charts::values::Values;
use crate::flux::build::charts::{Chart, ChartOutput, ChartRun, RenderOptions};
use crate::flux::build::objects::query::ObjectQuery;
use crate::flux::build::objects::served_versions as defined_versions;
use crate::flux::build::post_renderers::{passes_hooks, post_rendered};
use crate::flux::build::{BuildContext, BuildFailure, Interrupt};
use crate::flux::health_exprs::expr_of;
use crate::flux::simulation::model::node::Pass;
use crate::flux::simulation::model::owner_names::NOT_READ;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::behaviour::comparison::{Asked, Comparison};
use crate::helm::hooks::HookEvent;
use crate::helm::rendered::{ChartManifests, Rendered};
use crate::helm::target::ReleaseTarget;
use crate::kubernetes::object::{ObjectId, flag_at};
use crate::kubernetes::snapshot::Snapshot;

/// The place of a release.
pub(crate) struct Place<'s> {
    /// HelmRelease of the release, and its spec.
    pub(crate) id: ObjectId,
    pub(crate) spec: Value,
    pub(crate) target: ReleaseTarget,
    /// Name of the cluster; `None` for the one that has the HelmRelease.
    pub(crate) cluster: Option<Arc<str>>,
    pub(crate) snapshot: &'s Snapshot,
    /// API versions that the change defines: templates see them if their definitions come first.
    pub(crate) coming: BTreeSet<String>,
    /// The definitions have come.
    pub(crate) has_come: bool,
}

/// Chart and values of a release at one moment.
pub(crate) struct Version {
    pub(crate) chart: Chart,
    pub(crate) values: Values,
}

impl Version {
    pub(crate) fn is_random(&self) -> bool {
        self.chart.randomness(&self.values) != Randomness::None
    }

    pub(crate) fn draft<'d>(&'d self, spec: &'d Value, revision: i64, skips_schema: bool) -> Draft<'d> {
        Draft { chart: &self.chart, values: &self.values, revision, skips_schema, spec }
    }
}

/// A chart to render.
#[derive(Clone, Copy)]
pub(crate) struct Draft<'c> {
    pub(crate) chart: &'c Chart,
    pub(crate) values: &'c Values,
    /// Revision of the release.
    pub(crate) revision: i64,
    pub(crate) skips_schema: bool,
    /// Spec of the HelmRelease, which has post-renderers.
    pub(crate) spec: &'c Value,
}

/// Result of a render.
pub(crate) enum Rendering {
    Done(Box<Rendered>),
    /// helm-controller cannot render it either, for this reason.
    Fails(String),
    /// The account of the release may not look something up, so helm-controller cannot render it either.
    Refused(String),
}

/// Lookups of a chart that tell nothing of values of Secrets.
#[derive(Default)]
struct OpenLookups {
    answers: Lookups,
    /// An answer holds values of Secrets.
    holds_secrets: bool,
    /// A lookup without an answer, and what a render is that needs it.
    unanswered: Option<(ObjectQuery, Asked<Rendering>)>,
}

impl OpenLookups {
    fn without(self, query: ObjectQuery, why: Asked<Rendering>) -> Self {
        Self { unanswered: Some((query, why)), ..self }
    }
}

/// Reason why a lookup is not answered: the answer takes a request, which is written down.
const BY_SECRET: &str =
    "what its chart looks up depends on values of a Secret, so that asking the cluster would show them";

/// What two renders of a chart differ by.
const UNSURE: &str = "by chance, by the clock, or by what is not known of the cluster";

/// Returns the result of a run of helm.
///
/// Fails with the reason why it is not known.
fn output(comparison: &mut Comparison<'_, '_, '_>, run: ChartRun) -> Asked<ChartOutput> {
    let key = run.key();
    match comparison.derivation.answers.charts.get(&key) {
        Some(output) => output.clone().map_err(Interrupt::Failed),
        None => {
            comparison.derivation.needs.charts.insert(key, run);
            Err(Interrupt::Missing)
        }
    }
}

impl<'s> Place<'s> {
    /// Returns the place of a release with this target.
    ///
    /// Fails if its cluster was not read.
    pub(crate) fn find(
        comparison: &Comparison<'_, '_, 's>,
        id: &ObjectId,
        spec: &Value,
        target: ReleaseTarget,
    ) -> Asked<Self> {
        let state = comparison.state();
        let cluster = state.target(&id.namespace, spec).map_err(|reason| reason.detail)?;
        let snapshot = state.input.snapshot.of_cluster(cluster.as_ref()).ok_or_else(|| NOT_READ.to_owned())?;
        let passes = state.nodes.iter().flat_map(|node| &node.passes).filter_map(Pass::applied_objects);
        let defined = passes.flat_map(BTreeMap::values).filter(|built| built.id.cluster == cluster);
        let served = served_versions(snapshot);
        let versions = defined.filter_map(defined_versions).flat_map(|(kind, versions)| {
            let qualified = versions.into_iter().map(|version| format!("{}/{version}", kind.group));
            qualified.flat_map(|version| [format!("{version}/{}", kind.kind), version]).collect::<Vec<_>>()
        });
        let coming = versions.filter(|version| !served.contains(version)).collect();
        Ok(Self { id: id.clone(), spec: spec.clone(), target, cluster, snapshot, coming, has_come: false })
    }

    /// Renders a chart as if the definitions of the change existed already; `None` if that makes no difference.
    pub(crate) fn render_later(
        &mut self,
        comparison: &mut Comparison<'_, '_, '_>,
        draft: Draft<'_>,
    ) -> Asked<Option<Rendered>> {
        if self.coming.is_empty() || !draft.chart.reads_api_versions() {
            return Ok(None);
        }
        self.has_come = true;
        let rendering = self.run(comparison, draft, Seed::First);
        self.has_come = false;
        match rendering? {
            Rendering::Done(rendered) => Ok(Some(*rendered)),
            Rendering::Fails(_) | Rendering::Refused(_) => Ok(None),
        }
    }

    /// Renders a chart of which some objects may be named by chance, or by what is not known of the cluster.
    ///
    /// Fails if two renders have different objects.
    pub(crate) fn render_twice(&self, comparison: &mut Comparison<'_, '_, '_>, draft: Draft<'_>) -> Asked<Rendering> {
        let randomness = draft.chart.randomness(draft.values);
        if randomness == Randomness::InDecisions {
            let why = "its chart compares random values or the time, so that chance decides what it renders";
            return Err(why.to_owned().into());
        }
        let first = self.run(comparison, draft, Seed::First);
        if randomness == Randomness::None {
            return first;
        }
        // Both are asked for at once, so that they are rendered side by side.
        let second = self.run(comparison, draft, Seed::Second);
        let (first, second) = match (first?, second?) {
            (Rendering::Done(first), Rendering::Done(second)) => (first, second),
            (first @ Rendering::Fails(_), Rendering::Fails(_)) => return Ok(first),
            (refused @ Rendering::Refused(_), _) => return Ok(refused),
            _ => return Err(format!("its chart fails to render {UNSURE}").into()),
        };
        if let Some(differing) = first.used_otherwise(&second) {
            let what =
                if first.is_private || second.is_private { "an object".to_owned() } else { differing.to_string() };
            return Err(format!("its chart renders {what} {UNSURE}").into());
        }
        // Its texts differ from those of the deployed release, so that they count as changed.
        Ok(Rendering::Done(second))
    }

    /// Renders a chart once, with the first seed.
    ///
    /// Fails with the reason why the result is not known.
    pub(crate) fn render(&self, comparison: &mut Comparison<'_, '_, '_>, draft: Draft<'_>) -> Asked<Rendering> {
        self.run(comparison, draft, Seed::First)
    }

    /// Renders a chart with the answers to its lookups.
    fn run(
        &self,
        comparison: &mut Comparison<'_, '_, '_>,
        Draft { chart, values, revision, skips_schema, spec }: Draft<'_>,
        seed: Seed,
    ) -> Asked<Rendering> {
        let Some(kube_version) = comparison.derivation.answers.kube_versions.get(&self.cluster).cloned() else {
            comparison.derivation.needs.kube_versions.insert(self.cluster.clone());
            return Err(Interrupt::Missing);
        };
        let mut api_versions = match seed {
            Seed::First => served_versions(self.snapshot),
            Seed::Second => listed_versions(self.snapshot),
        };
        if self.has_come {
            api_versions.extend(self.coming.iter().cloned());
        }
        let mut cluster = ClusterValues { revision, api_versions, kube_version, lookups: Lookups::new(), seed };
        let ReleaseTarget { name: release, namespace, .. } = &self.target;
        let options = RenderOptions { release, namespace, is_upgrade: revision > 1, skips_schema };
        let found = self.find_open(comparison, chart, values, &cluster, &options)?;
        let is_private = values.is_private || found.holds_secrets;
        cluster.lookups = found.answers;
        match output(comparison, ChartRun::new(chart, values, &cluster, &options)?)? {
            ChartOutput::Manifests(text) => {
                let mut rendering = self.read(comparison, &text, spec, is_private)?;
                if let Rendering::Done(rendered) = &mut rendering {
                    rendered.depends_on_cluster = !cluster.lookups.is_empty();
                }
                Ok(rendering)
            }
            ChartOutput::Fails(why) => Ok(Rendering::Fails(why)),
            ChartOutput::Asks(query) => match found.unanswered {
                Some((unanswered, why)) if unanswered == query => why,
                _ if cluster.lookups.len() > LOOKUPS => Err(too_many().into()),
                _ => Err(BY_SECRET.to_owned().into()),
            },
        }
    }

    /// Returns the answers to the lookups of a chart, as it is rendered without values of Secrets. It asks for the same
    /// ones whatever these are.
    fn find_open(
        &self,
        comparison: &mut Comparison<'_, '_, '_>,
        chart: &Chart,
        values: &Values,
        cluster: &ClusterValues,
        options: &RenderOptions<'_>,
    ) -> Asked<OpenLookups> {
        let (mut found, mut cluster) = (OpenLookups::default(), cluster.clone());
        let Some(open) = values.without_secrets() else { return Ok(found) };
        if values.is_private && !chart.looks_up(open) {
            return Ok(found);
        }
        while found.answers.len() <= LOOKUPS {
            let query = match output(comparison, ChartRun::new(chart, open, &cluster, options)?) {
                Ok(ChartOutput::Asks(query)) => query,
                Err(Interrupt::Missing) => return Err(Interrupt::Missing),
                _ => break,
            };
            let answer = match self.looked_up(comparison, &query) {
                Ok(Ok(answer)) => answer,
                Err(Interrupt::Missing) => return Err(Interrupt::Missing),
                Ok(Err(refusal)) => return Ok(found.without(query, Ok(Rendering::Refused(refusal)))),
                Err(failed) => return Ok(found.without(query, Err(failed))),
            };
            let holds_secrets = self.finds_secrets(comparison.state(), &query, &answer);
            found.holds_secrets |= holds_secrets;
            let shown = if holds_secrets { Self::without_values(&query, &answer) } else { answer.clone() };
            cluster.lookups.insert(query.clone(), shown);
            found.answers.insert(query, answer);
        }
        Ok(found)
    }

    /// Reads what a chart renders, as post-renderers change it.
    fn read(
        &self,
        comparison: &mut Comparison<'_, '_, '_>,
        text: &str,
        spec: &Value,
        is_private: bool,
    ) -> Asked<Rendering> {
        let ChartManifests { definitions, beside_definitions, manifests, repeated_key } =
            ChartManifests::read(text).map_err(|_| "the output of helm for its chart cannot be read".to_owned())?;
        let (features, derivation) = (comparison.state().input.features, &mut *comparison.derivation);
        let mut context = BuildContext::new(features, derivation.answers, &mut derivation.needs);
        match post_rendered(manifests, spec, is_private, &mut context) {
            Err(Interrupt::Missing) => Err(Interrupt::Missing),
            Err(Interrupt::Failed(failure @ BuildFailure::Proven(_))) => {
                Ok(Rendering::Fails(format!("a post-renderer fails: {}", message(&failure, is_private))))
            }
            Err(Interrupt::Failed(failure)) => {
                Err(format!("its post-renderers cannot be run here: {}", message(&failure, is_private)).into())
            }
            Ok(manifests) => {
                let (namespace, types) = (&*self.target.namespace, &self.snapshot.types);
                let mut rendered = Rendered::new(&manifests, namespace, types, self.cluster.as_ref(), is_private);
                (rendered.definitions, rendered.beside_definitions) = (definitions, beside_definitions);
                watch_hooks(comparison.state(), spec, &mut rendered);
                // helm-controller fails in its post-renderer, before anything is applied.
                rendered.failure = repeated_key.map(|key| twice(&key, is_private)).or(rendered.failure);
                if rendered.has_unnamed_hook && rendered.failure.is_none() {
                    if !passes_hooks(spec) {
                        return Err("a hook of its chart has a generateName, and no name".to_owned().into());
                    }
                    rendered.failure = Some(NO_NAME.to_owned());
                }
                Ok(Rendering::Done(Box::new(rendered)))
            }
        }
    }
}

/// Returns the message of a post-renderer that fails, unless it may hold values of a Secret.
fn message(failure: &BuildFailure, is_private: bool) -> String {
    let hidden = "its message may hold values of a Secret";
    if is_private { hidden.to_owned() } else { failure.reason().detail.clone() }
}

/// Sets which hooks wait for an expression for the health of their kind. The wait strategy of Helm 3 has none, and is
/// that of no test, and of no action that waits for hooks only.
///
/// Source: helm-controller v1.6.3 `internal/action/wait.go` and `client.go`; Helm v4.2.2
/// `pkg/action/release_testing.go`.
fn watch_hooks(state: &State<'_>, spec: &Value, rendered: &mut Rendered) {
    let mut actions = ["install", "upgrade", "rollback"].into_iter();
    let is_legacy = state.input.helm_controller.waits_as_helm3(spec)
        && actions.all(|field| !flag_at(spec, &format!("/{field}/disableWait")));
    for (id, hook) in &mut rendered.hooks {
        let has_expression = expr_of(spec, &id.group_kind()).is_some();
        hook.set_expression(has_expression && (!is_legacy || hook.runs_at(&[HookEvent::Test])));
    }
}

/// Reason why Helm cannot use a hook that passes a post-renderer.
const NO_NAME: &str = "the chart renders a hook without a name";

/// Returns why Helm cannot use a manifest with a key that is there twice.
fn twice(key: &str, is_private: bool) -> String {
    let key = if is_private { String::new() } else { format!(" {key:?}") };
    format!("the chart renders a manifest that has the key{key} twice in one mapping")
}

/// Returns the API versions that templates see in a cluster; empty if only the preferred ones were read.
fn served_versions(snapshot: &Snapshot) -> BTreeSet<String> {
    if snapshot.other_versions.is_empty() { BTreeSet::new() } else { listed_versions(snapshot) }
}

/// Returns the API versions of a cluster that were read.
fn listed_versions(snapshot: &Snapshot) -> BTreeSet<String> {
    let listed = snapshot.types.iter().map(|kind| (&*kind.group, &*kind.version, &*kind.kind));
    let others = snapshot.other_versions.iter();
    api_versions(listed.chain(others.map(|other| (&*other.what.group, &*other.version, &*other.what.kind))))
}
