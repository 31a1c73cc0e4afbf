//! Requests of a user to the collectors, and their plans for one snapshot. Each system has its own input.

use std::sync::Arc;

use super::applyset::ApplySetCollector;
use super::collector::manifest::{LocalManifest, refuse_duplicates};
use super::collector::safety::Allow;
use super::collector::served_kinds::ServedKinds;
use super::collector::{Collected, Collector, CollectorPlan, PlannedAction};
use super::flux_v1::{EXCLUDED, FluxV1Collector, FluxV1Input, source_change};
use super::qbec::filter::QbecFilters;
use super::qbec::scope::QbecApp;
use super::qbec::{QbecCollector, QbecInput};
use crate::error::{Error, Hint, Result};
use crate::kubernetes::object::{ObjectId, ObjectMetadata, ResourceType};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::OwnerId;
use crate::ownership::index::Index;
use crate::ownership::schemes::flux_v1::{GitSource, resource_id};
use crate::ownership::schemes::{applyset, qbec};
use crate::plan::grave::AllowedKinds;
use crate::plan::{Change, Outcome, OwnerOutcome, Plan, Reason, ReasonCode};
use crate::prune::candidates::{Candidate, apply_cascade_rules, keep_row};
use crate::prune::reevaluation::{no_longer_claimed, not_read};

/// Manifests to compare with a cluster, and what may be deleted.
#[derive(Clone, Debug)]
pub struct Manifests {
    pub locals: Vec<LocalManifest>,
    /// Namespace of manifests that name none.
    pub default_namespace: Arc<str>,
    pub allow: Allow,
}

/// A request to plan garbage collection from manifests.
pub trait CollectorRequest {
    fn manifests(&self) -> &Manifests;

    /// Returns the owner of the deleted objects.
    fn owner(&self, snapshot: &Snapshot) -> Result<OwnerId>;

    fn collector<'a>(&'a self, snapshot: &'a Snapshot, index: &'a Index<'a>) -> Result<Box<dyn Collector<'a> + 'a>>;

    /// Returns the text by which the system identifies an object.
    fn key(&self, id: &ObjectId) -> String {
        id.to_string()
    }

    /// Fails if a filter matches nothing.
    fn check_filters(&self, _snapshot: &Snapshot) -> Result<()> {
        Ok(())
    }

    /// Returns the plan of a change of the source, if the request is about one.
    fn source_change(&self, _index: &Index<'_>) -> Result<Option<CollectorPlan>> {
        Ok(None)
    }

    /// Plans the deletions. Fails if the manifests contain an object twice, if a filter matches nothing, or if the
    /// system itself would refuse.
    fn plan(&self, index: &Index<'_>) -> Result<CollectorPlan> {
        let snapshot = index.snapshot();
        let Manifests { locals, default_namespace, .. } = self.manifests();
        let kinds = ServedKinds::of(snapshot);
        let named = locals.iter().filter(|local| local.generate_name.is_none());
        refuse_duplicates(named.map(|local| (local, self.key(&kinds.applied_id(&local.id, default_namespace)))))
            .map_err(|message| Error::failed(message).hint("the system itself refuses duplicates; remove one"))?;
        self.check_filters(snapshot)?;
        if let Some(plan) = self.source_change(index)? {
            return Ok(plan);
        }
        let owner = self.owner(snapshot)?;
        let collector = self.collector(snapshot, index)?;
        let collected = collector.collect();
        let deletions: Vec<&ObjectMetadata> = collected.deletions().collect();
        let waves = deletions.chunk_by(|left, right| collector.same_wave(left, right));
        Ok(CollectorPlan {
            plan: plan_of(index, &collected, &owner, self.manifests().allow.kinds),
            waves: waves.map(|wave| wave.iter().map(|object| object.id.clone()).collect()).collect(),
            retained: collected.retained,
            source_change: None,
            warnings: collected.warnings,
        })
    }

    /// Re-evaluates planned objects on a newer index, without their cascades. Returns the reason to keep each of them, or
    /// `None` to delete it.
    fn reasons_to_keep(&self, index: &Index<'_>, changes: &[&Change]) -> Vec<Option<Reason>> {
        let snapshot = index.snapshot();
        let collector = match self.collector(snapshot, index) {
            Ok(collector) => collector,
            Err(error) => return vec![Some(not_read(error.message)); changes.len()],
        };
        let ids = changes.iter().map(|change| &change.object.id);
        let reasons = ids.map(|id| match snapshot.object(id).and_then(|object| collector.decide(object)) {
            Some(decision) if decision.is_deletion() => None,
            Some(decision) => Some(Reason::from(decision.reason())),
            None => Some(no_longer_claimed(index, id)),
        });
        reasons.collect()
    }
}

/// A request about a qbec environment.
#[derive(Clone, Debug)]
pub struct QbecRequest {
    pub app: QbecApp,
    pub filters: QbecFilters,
    /// Value of `spec.clusterScopedLists` in qbec.yaml.
    pub cluster_scoped_lists: bool,
    pub manifests: Manifests,
}

impl CollectorRequest for QbecRequest {
    fn manifests(&self) -> &Manifests {
        &self.manifests
    }

    fn owner(&self, _snapshot: &Snapshot) -> Result<OwnerId> {
        Ok(OwnerId::new(qbec::SCHEME.system, qbec::KIND, "", &self.app.name()))
    }

    fn collector<'a>(&'a self, snapshot: &'a Snapshot, index: &'a Index<'a>) -> Result<Box<dyn Collector<'a> + 'a>> {
        let input = QbecInput {
            app: self.app.clone(),
            default_namespace: self.manifests.default_namespace.clone(),
            cluster_scoped_lists: self.cluster_scoped_lists,
            filters: self.filters.clone(),
            locals: &self.manifests.locals,
        };
        Ok(Box::new(QbecCollector::new(input, snapshot, index, self.manifests.allow)))
    }

    fn check_filters(&self, snapshot: &Snapshot) -> Result<()> {
        self.filters.check(&self.app, &self.manifests.locals, snapshot)
    }
}

/// A request about a source of Flux v1.
#[derive(Clone, Debug)]
pub struct FluxV1Request {
    /// The source, or `None` for that of the cluster's fluxd.
    pub source: Option<GitSource>,
    /// Value of fluxd's `--k8s-allow-namespace`.
    pub allow_namespaces: Vec<String>,
    /// The source after a change, to plan what fluxd itself will do.
    pub new: Option<NewSource>,
    pub manifests: Manifests,
}

impl FluxV1Request {
    /// Returns the source, and the namespaces that its fluxd is limited to.
    fn source(&self, snapshot: &Snapshot) -> Result<(GitSource, Vec<String>)> {
        let (source, own_namespaces) = source_change::current_source(self.source.as_ref(), snapshot)?;
        Ok((source, [own_namespaces, self.allow_namespaces.clone()].concat()))
    }

    fn collector_of<'a>(
        &'a self,
        source: &GitSource,
        allow_namespaces: Vec<String>,
        snapshot: &'a Snapshot,
        index: &'a Index<'a>,
    ) -> FluxV1Collector<'a> {
        let input = FluxV1Input {
            sync_set: source.sync_set(),
            default_namespace: self.manifests.default_namespace.clone(),
            allow_namespaces,
            excluded: EXCLUDED.map(str::to_owned).to_vec(),
            locals: &self.manifests.locals,
        };
        FluxV1Collector::new(input, snapshot, index, self.manifests.allow)
    }
}

impl CollectorRequest for FluxV1Request {
    fn manifests(&self) -> &Manifests {
        &self.manifests
    }

    fn owner(&self, snapshot: &Snapshot) -> Result<OwnerId> {
        Ok(self.source(snapshot)?.0.record().id)
    }

    fn collector<'a>(&'a self, snapshot: &'a Snapshot, index: &'a Index<'a>) -> Result<Box<dyn Collector<'a> + 'a>> {
        let (source, namespaces) = self.source(snapshot)?;
        Ok(Box::new(self.collector_of(&source, namespaces, snapshot, index)))
    }

    fn key(&self, id: &ObjectId) -> String {
        resource_id(id)
    }

    fn source_change(&self, index: &Index<'_>) -> Result<Option<CollectorPlan>> {
        let Some(new) = &self.new else { return Ok(None) };
        let (old, namespaces) = self.source(index.snapshot())?;
        let changed = new.apply_to(&old);
        let collector = self.collector_of(&changed, namespaces, index.snapshot(), index);
        Ok(Some(source_change::plan(index, &old, &changed, &collector, &self.manifests.locals)))
    }
}

/// Changed parts of a fluxd's source; the others stay.
#[derive(Clone, Debug, Default)]
pub struct NewSource {
    pub url: Option<String>,
    pub branch: Option<String>,
    pub paths: Option<Vec<String>>,
}

/// A request about an ApplySet.
#[derive(Clone, Debug)]
pub struct ApplySetRequest {
    /// Resource of the parent, such as `secret` or `sets.example.com`.
    pub kind: String,
    pub name: String,
    /// Namespace of the parent, or empty.
    pub namespace: String,
    pub manifests: Manifests,
}

impl ApplySetRequest {
    /// Returns the identity of the parent, which the user named by its resource.
    fn parent(&self, snapshot: &Snapshot) -> Result<ObjectId> {
        let Self { kind, name, namespace, .. } = self;
        let resource = kind.to_lowercase();
        let Some(served) = snapshot.types.iter().find(|served| is_resource(served, &resource)) else {
            return Err(Error::invalid(format!("the cluster serves no kind {kind:?} of an ApplySet parent"))
                .hint("write NAME, configmap/NAME or RESOURCE.GROUP/NAME"));
        };
        if served.namespaced && namespace.is_empty() {
            let message = "the parent of the ApplySet is in a namespace, and none is given";
            return Err(Error::invalid(message).hint(Hint::Namespace));
        }
        let namespace = if served.namespaced { namespace } else { "" };
        Ok(ObjectId::new(&served.group, &served.kind, namespace, name))
    }
}

impl CollectorRequest for ApplySetRequest {
    fn manifests(&self) -> &Manifests {
        &self.manifests
    }

    fn owner(&self, snapshot: &Snapshot) -> Result<OwnerId> {
        let parent = self.parent(snapshot)?;
        Ok(OwnerId::new(applyset::SCHEME.system, &parent.kind, &parent.namespace, &parent.name))
    }

    fn collector<'a>(&'a self, snapshot: &'a Snapshot, index: &'a Index<'a>) -> Result<Box<dyn Collector<'a> + 'a>> {
        let Manifests { locals, default_namespace, allow } = &self.manifests;
        let parent = self.parent(snapshot)?;
        Ok(Box::new(ApplySetCollector::new(&parent, default_namespace, locals, snapshot, index, *allow)?))
    }
}

/// Returns true if a lower-case text names a type: `secret`, `secrets`, `deployment.apps` or `deployments.apps`.
fn is_resource(served: &ResourceType, text: &str) -> bool {
    text == served.kind.to_lowercase()
        || text == served.group_kind().to_string()
        || text == &*served.plural
        || text == served.resource()
}

/// Returns the plan of a collection on behalf of one owner, cascades included.
fn plan_of<'a>(index: &Index<'a>, collected: &Collected<'a>, owner: &OwnerId, allowed: AllowedKinds) -> Plan {
    let mut candidates = vec![];
    let mut kept = vec![];
    for decision in &collected.decisions {
        let (object, owner) = (decision.object, Some(owner.clone()));
        match &decision.planned {
            PlannedAction::Delete(reason) => candidates.push(Candidate { object, owner, reason: reason.into() }),
            PlannedAction::Keep(reason) if reason.is_listed() => kept.push(keep_row(object, owner, reason)),
            PlannedAction::Keep(_) => {}
        }
    }
    let snapshot = index.snapshot();
    let mut plan = Plan::new(snapshot.cluster.clone());
    plan.add_gaps(snapshot.gaps.iter().cloned());
    plan.add_owners([OwnerOutcome::new(owner.clone(), Outcome::Unchanged, ReasonCode::Ready)]);
    plan.add_changes(apply_cascade_rules(index, candidates, kept, allowed));
    plan
}

impl NewSource {
    fn apply_to(&self, old: &GitSource) -> GitSource {
        let Self { url, branch, paths } = self.clone();
        GitSource {
            url: url.unwrap_or_else(|| old.url.clone()),
            branch: branch.unwrap_or_else(|| old.branch.clone()),
            paths: paths.unwrap_or_else(|| old.paths.clone()),
        }
    }
}
