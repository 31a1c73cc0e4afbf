//! A user's request to a collector, and its plan for one snapshot.

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
use crate::plan::{Outcome, OwnerOutcome, Plan, Reason, ReasonCode};
use crate::prune::candidates::{Candidate, apply_cascade_rules, keep_row};

/// A system with its options.
#[derive(Clone, Debug)]
pub enum SystemOptions {
    Qbec {
        app: QbecApp,
        filters: QbecFilters,
        /// Value of `spec.clusterScopedLists` in qbec.yaml.
        cluster_scoped_lists: bool,
    },
    FluxV1 {
        /// The source, or `None` for that of the cluster's fluxd.
        source: Option<GitSource>,
        /// Value of fluxd's `--k8s-allow-namespace`.
        allow_namespaces: Vec<String>,
        /// The source after a change, to plan what fluxd itself will do.
        new: Option<NewSource>,
    },
    ApplySet {
        /// Resource of the parent, such as `secret` or `sets.example.com`.
        kind: String,
        name: String,
        /// Namespace of the parent, or empty.
        namespace: String,
    },
}

/// Changed parts of a fluxd's source; the others stay.
#[derive(Clone, Debug, Default)]
pub struct NewSource {
    pub url: Option<String>,
    pub branch: Option<String>,
    pub paths: Option<Vec<String>>,
}

/// A request to plan garbage collection from manifests.
#[derive(Clone, Debug)]
pub struct CollectorRequest {
    pub system: SystemOptions,
    pub locals: Vec<LocalManifest>,
    /// Namespace of manifests that name none.
    pub default_namespace: Arc<str>,
    pub allow: Allow,
}

impl CollectorRequest {
    /// Plans the deletions. Fails if the manifests contain an object twice, if a filter matches nothing, or if the system
    /// itself would refuse.
    pub fn plan(&self, index: &Index<'_>) -> Result<CollectorPlan> {
        let snapshot = index.snapshot();
        self.check(snapshot)?;
        if let SystemOptions::FluxV1 { source, allow_namespaces, new: Some(new) } = &self.system {
            let (old, own_namespaces) = source_change::current_source(source.as_ref(), snapshot)?;
            let new = new.apply_to(&old);
            let namespaces = [own_namespaces, allow_namespaces.clone()].concat();
            let collector = self.flux_v1_collector(&new, namespaces, snapshot, index);
            return Ok(source_change::plan(index, &old, &new, &collector, &self.locals));
        }
        let owner = self.owner(snapshot)?;
        let collector = self.collector(snapshot, index)?;
        let collected = collector.collect();
        let deletions: Vec<&ObjectMetadata> = collected.deletions().collect();
        let waves = deletions.chunk_by(|left, right| collector.same_wave(left, right));
        Ok(CollectorPlan {
            plan: plan_of(index, &collected, &owner),
            waves: waves.map(|wave| wave.iter().map(|object| object.id.clone()).collect()).collect(),
            retained: collected.retained,
            source_change: None,
            warnings: collected.warnings,
        })
    }

    /// Re-evaluates objects after a fresh read. Returns the reason to keep each of them, or `None` to delete it.
    pub fn reasons_to_keep(&self, index: &Index<'_>, ids: &[&ObjectId]) -> Vec<Option<String>> {
        let snapshot = index.snapshot();
        let collector = match self.collector(snapshot, index) {
            Ok(collector) => collector,
            Err(error) => return vec![Some(error.message); ids.len()],
        };
        let reason = |id: &&ObjectId| {
            let Some(object) = snapshot.object(id) else { return Some("it no longer exists".to_owned()) };
            match collector.decide(object) {
                Some(decision) if decision.is_deletion() => None,
                Some(decision) => Some(Reason::from(decision.reason()).to_string()),
                None => Some("its labels changed".to_owned()),
            }
        };
        ids.iter().map(reason).collect()
    }

    /// Returns the owner of the deleted objects.
    fn owner(&self, snapshot: &Snapshot) -> Result<OwnerId> {
        Ok(match &self.system {
            SystemOptions::Qbec { app, .. } => OwnerId::new(qbec::SCHEME.system, qbec::KIND, "", &app.name()),
            SystemOptions::FluxV1 { source, .. } => {
                source_change::current_source(source.as_ref(), snapshot)?.0.record().id
            }
            SystemOptions::ApplySet { .. } => {
                let parent = self.applyset_parent(snapshot)?;
                OwnerId::new(applyset::SCHEME.system, &parent.kind, &parent.namespace, &parent.name)
            }
        })
    }

    fn collector<'a>(&'a self, snapshot: &'a Snapshot, index: &'a Index<'a>) -> Result<Box<dyn Collector<'a> + 'a>> {
        Ok(match &self.system {
            SystemOptions::Qbec { app, filters, cluster_scoped_lists } => {
                let input = QbecInput {
                    app: app.clone(),
                    default_namespace: self.default_namespace.clone(),
                    cluster_scoped_lists: *cluster_scoped_lists,
                    filters: filters.clone(),
                    locals: &self.locals,
                };
                Box::new(QbecCollector::new(input, snapshot, index, self.allow))
            }
            SystemOptions::FluxV1 { source, allow_namespaces, .. } => {
                let (source, own_namespaces) = source_change::current_source(source.as_ref(), snapshot)?;
                let namespaces = [own_namespaces, allow_namespaces.clone()].concat();
                Box::new(self.flux_v1_collector(&source, namespaces, snapshot, index))
            }
            SystemOptions::ApplySet { .. } => {
                let parent = self.applyset_parent(snapshot)?;
                let (namespace, locals) = (&self.default_namespace, &self.locals);
                Box::new(ApplySetCollector::new(&parent, namespace, locals, snapshot, index, self.allow)?)
            }
        })
    }

    fn flux_v1_collector<'a>(
        &'a self,
        source: &GitSource,
        allow_namespaces: Vec<String>,
        snapshot: &'a Snapshot,
        index: &'a Index<'a>,
    ) -> FluxV1Collector<'a> {
        let input = FluxV1Input {
            sync_set: source.sync_set(),
            default_namespace: self.default_namespace.clone(),
            allow_namespaces,
            excluded: EXCLUDED.map(str::to_owned).to_vec(),
            locals: &self.locals,
        };
        FluxV1Collector::new(input, snapshot, index, self.allow)
    }

    /// Returns the identity of an ApplySet's parent, which the user named by its resource.
    fn applyset_parent(&self, snapshot: &Snapshot) -> Result<ObjectId> {
        let SystemOptions::ApplySet { kind, name, namespace } = &self.system else {
            return Err(Error::invalid("only an ApplySet has a parent"));
        };
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

    /// Fails if the system itself would refuse the manifests, or if a filter matches nothing.
    fn check(&self, snapshot: &Snapshot) -> Result<()> {
        let kinds = ServedKinds::of(snapshot);
        let applied_id = |local: &LocalManifest| {
            local.generate_name.is_none().then(|| kinds.applied_id(&local.id, &self.default_namespace))
        };
        match &self.system {
            SystemOptions::FluxV1 { .. } => {
                refuse_duplicates(&self.locals, |local| applied_id(local).map(|id| resource_id(&id)))
            }
            _ => refuse_duplicates(&self.locals, applied_id),
        }
        .map_err(|message| Error::failed(message).hint("the system itself refuses duplicates; remove one"))?;
        match &self.system {
            SystemOptions::Qbec { app, filters, .. } => filters.check(app, &self.locals, snapshot),
            _ => Ok(()),
        }
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
fn plan_of<'a>(index: &Index<'a>, collected: &Collected<'a>, owner: &OwnerId) -> Plan {
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
    plan.add_changes(apply_cascade_rules(index, candidates, kept));
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
