//! What the user asked of a collector, without a cluster yet; and the answer for one snapshot.

use std::sync::Arc;

use super::Collector;
use super::applyset;
use super::flux_v1;
use super::flux_v1::EXCLUDED;
use super::flux_v1::source_change;
use super::manifest::{LocalManifest, refuse_duplicates};
use super::qbec;
use super::qbec::filter::Filters;
use super::qbec::scope::QbecApp;
use super::rows;
use super::safety::Allow;
use super::type_aliases::Kinds;
use crate::error::{Error, Hint, Result};
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::OwnerId;
use crate::ownership::index::Index;
use crate::ownership::schemes::flux_v1::{GitSource, resource_id};
use crate::ownership::schemes::qbec::{KIND, SCHEME};
use crate::plan::{Plan, Reason};

/// Which collector, and what it needs to know.
#[derive(Clone, Debug)]
pub enum System {
    /// qbec.
    Qbec {
        /// Application, environment and tag.
        app: QbecApp,
        /// Filters.
        filters: Filters,
        /// `spec.clusterScopedLists`.
        cluster_scoped_lists: bool,
    },
    /// Flux v1.
    FluxV1 {
        /// The source; that of the cluster's fluxd when absent.
        source: Option<GitSource>,
        /// `--k8s-allow-namespace`.
        allow_namespaces: Vec<String>,
        /// The source after a change; then the answer is what fluxd will do.
        new: Option<NewSource>,
    },
    /// An ApplySet.
    ApplySet {
        /// Resource of the parent, such as `secret` or `sets.example.com`.
        kind: String,
        /// Name of the parent.
        name: String,
        /// Namespace of the parent, where its kind has one.
        namespace: String,
    },
}

/// What changes in a fluxd's source; what is absent stays.
#[derive(Clone, Debug, Default)]
pub struct NewSource {
    /// `--new-git-url`.
    pub url: Option<String>,
    /// `--new-git-branch`.
    pub branch: Option<String>,
    /// `--new-git-path`.
    pub paths: Option<Vec<String>>,
}

/// One request.
#[derive(Clone, Debug)]
pub struct Request {
    /// Which collector.
    pub system: System,
    /// The manifests.
    pub locals: Vec<LocalManifest>,
    /// Namespace of manifests that name none.
    pub default_namespace: Arc<str>,
    /// What may go.
    pub allow: Allow,
}

/// The answer for one snapshot.
#[derive(Clone, Debug)]
pub struct CollectorPlan {
    /// The plan.
    pub plan: Plan,
    /// What goes, in the system's own order; what is in one wave may go side by side.
    pub waves: Vec<Vec<ObjectId>>,
    /// How many objects of the set stay because the manifests hold them.
    pub staying: usize,
    /// Where the plan says what fluxd will do once its source changes, and there is nothing for this tool to execute:
    /// the change in words.
    pub preview: Option<String>,
    /// Warnings; they may hold text written by others.
    pub warnings: Vec<String>,
}

impl CollectorPlan {
    /// A plan that needs no more said.
    pub fn of(plan: Plan) -> Self {
        Self { plan, waves: vec![], staying: 0, preview: None, warnings: vec![] }
    }
}

impl Request {
    /// Plans.
    ///
    /// # Errors
    /// When the manifests hold something twice, a filter matches nothing, or the system itself would refuse.
    pub fn answer(&self, index: &Index<'_>) -> Result<CollectorPlan> {
        let snapshot = index.snapshot();
        self.check(snapshot)?;
        if let System::FluxV1 { source, allow_namespaces, new: Some(new) } = &self.system {
            let (old, own_namespaces) = source_change::of(source.as_ref(), snapshot)?;
            let new = new.applied_to(&old);
            let collector = self.flux_v1(&new, [own_namespaces, allow_namespaces.clone()].concat(), snapshot, index);
            return Ok(source_change::preview(index, &old, &new, &collector, &self.locals));
        }
        let owner = self.owner(snapshot)?;
        let collector = self.collector(snapshot, index)?;
        let collection = collector.collect();
        let going: Vec<&ObjectMetadata> = collection.deletions().collect();
        let waves = going.chunk_by(|left, right| collector.same_wave(left, right));
        Ok(CollectorPlan {
            plan: rows::plan(index, &collection, &owner),
            waves: waves.map(|wave| wave.iter().map(|object| object.id.clone()).collect()).collect(),
            staying: collection.staying,
            preview: None,
            warnings: collection.warnings,
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
            match collector.judge(object) {
                Some(verdict) if verdict.deletes() => None,
                Some(verdict) => Some(Reason::from(verdict.reason()).to_string()),
                None => Some("its labels changed".to_owned()),
            }
        };
        ids.iter().map(reason).collect()
    }

    /// The owner in whose name objects go.
    fn owner(&self, snapshot: &Snapshot) -> Result<OwnerId> {
        Ok(match &self.system {
            System::Qbec { app, .. } => OwnerId::new(SCHEME.system, KIND, "", &app.name()),
            System::FluxV1 { source, .. } => source_change::of(source.as_ref(), snapshot)?.0.record().id,
            System::ApplySet { .. } => {
                let parent = self.parent(snapshot)?;
                OwnerId::new(
                    crate::ownership::schemes::applyset::SCHEME.system,
                    &parent.kind,
                    &parent.namespace,
                    &parent.name,
                )
            }
        })
    }

    fn collector<'a>(&'a self, snapshot: &'a Snapshot, index: &'a Index<'a>) -> Result<Box<dyn Collector<'a> + 'a>> {
        Ok(match &self.system {
            System::Qbec { app, filters, cluster_scoped_lists } => {
                let input = qbec::QbecInput {
                    app: app.clone(),
                    default_namespace: self.default_namespace.clone(),
                    cluster_scoped_lists: *cluster_scoped_lists,
                    filters: filters.clone(),
                    locals: &self.locals,
                };
                Box::new(qbec::QbecCollector::new(input, snapshot, index, self.allow))
            }
            System::FluxV1 { source, allow_namespaces, .. } => {
                let (source, own_namespaces) = source_change::of(source.as_ref(), snapshot)?;
                let namespaces = [own_namespaces, allow_namespaces.clone()].concat();
                Box::new(self.flux_v1(&source, namespaces, snapshot, index))
            }
            System::ApplySet { .. } => {
                let parent = self.parent(snapshot)?;
                let default = &self.default_namespace;
                Box::new(applyset::ApplySetCollector::new(&parent, default, &self.locals, snapshot, index, self.allow)?)
            }
        })
    }

    fn flux_v1<'a>(
        &'a self,
        source: &GitSource,
        allow_namespaces: Vec<String>,
        snapshot: &'a Snapshot,
        index: &'a Index<'a>,
    ) -> flux_v1::FluxV1Collector<'a> {
        let input = flux_v1::FluxV1Input {
            sync_set: source.sync_set(),
            default_namespace: self.default_namespace.clone(),
            allow_namespaces,
            excluded: EXCLUDED.map(str::to_owned).to_vec(),
            locals: &self.locals,
        };
        flux_v1::FluxV1Collector::new(input, snapshot, index, self.allow)
    }

    /// The parent of an ApplySet, by the resource that the user named.
    fn parent(&self, snapshot: &Snapshot) -> Result<ObjectId> {
        let System::ApplySet { kind, name, namespace } = &self.system else {
            return Err(Error::invalid("only an ApplySet has a parent"));
        };
        let lower = kind.to_lowercase();
        let named = |served: &&crate::kubernetes::object::ResourceType| {
            let singular = served.kind.to_lowercase();
            let full = if served.group.is_empty() { singular.clone() } else { format!("{singular}.{}", served.group) };
            lower == singular || lower == full || lower == *served.plural || lower == served.resource()
        };
        let Some(served) = snapshot.types.iter().find(named) else {
            return Err(Error::invalid(format!("the cluster serves no kind {kind:?} (--applyset)"))
                .hint("write NAME, configmap/NAME or RESOURCE.GROUP/NAME"));
        };
        if served.namespaced && namespace.is_empty() {
            return Err(
                Error::invalid("a namespace is needed: the ApplySet's parent lives in one").hint(Hint::Namespace)
            );
        }
        let namespace = if served.namespaced { namespace } else { "" };
        Ok(ObjectId::new(&served.group, &served.kind, namespace, name))
    }

    /// Refuses manifests that the system itself would refuse, and filters that match nothing.
    fn check(&self, snapshot: &Snapshot) -> Result<()> {
        let kinds = Kinds::of(snapshot);
        let named = |local: &LocalManifest| {
            local.generate_name.is_none().then(|| kinds.applied(&local.id, &self.default_namespace))
        };
        let doubles = match &self.system {
            System::FluxV1 { .. } => refuse_duplicates(&self.locals, |local| named(local).map(|id| resource_id(&id))),
            _ => refuse_duplicates(&self.locals, named),
        };
        doubles.map_err(|message| Error::failed(message).hint("the system itself refuses duplicates; remove one"))?;
        match &self.system {
            System::Qbec { app, filters, .. } => filters.check(app, &self.locals, snapshot),
            _ => Ok(()),
        }
    }
}

impl NewSource {
    /// The source after the change.
    fn applied_to(&self, old: &GitSource) -> GitSource {
        let Self { url, branch, paths } = self.clone();
        GitSource {
            url: url.unwrap_or_else(|| old.url.clone()),
            branch: branch.unwrap_or_else(|| old.branch.clone()),
            paths: paths.unwrap_or_else(|| old.paths.clone()),
        }
    }
}
