//! qbec's garbage collection: what `qbec apply --gc` deletes, and what this tool deletes in its place.
//!
//! Source: reference qbec-and-flux-v1 A2.4 to A2.6 and A3.2; `Q` numbers are its edge cases.

pub mod filter;
pub mod notes;
pub mod order;
pub mod scope;

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::manifest::LocalManifest;
use super::safety;
use super::safety::Allow;
use super::type_aliases;
use super::type_aliases::Kinds;
use super::{Collected, Collector, CollectorReason, Decision, NativeAction, PlannedAction};
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::index::Index;
use crate::ownership::schemes::qbec::{SCHEME, component};
use filter::Filters;
use order::{deletion_order, place};
use scope::{QbecApp, QbecScope};

/// Annotation that keeps an object; `never` does, read on the live object (Q17).
pub const DELETE_POLICY: &str = "directives.qbec.io/delete-policy";
/// Namespaces that qbec itself never deletes.
const NEVER_BY_QBEC: [&str; 2] = ["default", "kube-system"];

/// What the user said of the application.
#[derive(Clone, Debug)]
pub struct QbecInput<'a> {
    /// Application, environment and tag.
    pub app: QbecApp,
    /// Namespace of manifests that name none.
    pub default_namespace: Arc<str>,
    /// `spec.clusterScopedLists` of qbec.yaml.
    pub cluster_scoped_lists: bool,
    /// Filters.
    pub filters: Filters,
    /// Every manifest of the environment, unfiltered.
    pub locals: &'a [LocalManifest],
}

/// The collector of one application in one snapshot.
pub struct QbecCollector<'a> {
    pub(crate) input: QbecInput<'a>,
    allow: Allow,
    pub(crate) snapshot: &'a Snapshot,
    index: &'a Index<'a>,
    pub(crate) kinds: Kinds<'a>,
    pub(crate) scope: QbecScope,
    /// Canonical identities of the manifests; `false` where qbec itself would not recognise them.
    desired: HashMap<ObjectId, bool>,
    /// Uids of the newest object of each generated name.
    newest: HashSet<&'a str>,
}

impl<'a> QbecCollector<'a> {
    /// Compares manifests and cluster.
    pub fn new(input: QbecInput<'a>, snapshot: &'a Snapshot, index: &'a Index<'a>, allow: Allow) -> Self {
        let kinds = Kinds::of(snapshot);
        let scope = QbecScope::of(input.locals, &input.default_namespace, input.cluster_scoped_lists, &kinds);
        let mut desired = HashMap::new();
        for local in input.locals.iter().filter(|local| local.generate_name.is_none()) {
            let recognised = kinds.serves(local).is_some();
            *desired.entry(kinds.applied(&local.id, &input.default_namespace)).or_insert(false) |= recognised;
        }
        let mut collector = Self { input, allow, snapshot, index, kinds, scope, desired, newest: HashSet::new() };
        collector.newest = collector.newest_generations();
        collector
    }

    fn judge_mark(&self, object: &ObjectMetadata, missed: Option<String>) -> PlannedAction {
        match (safety::unproven((SCHEME.claim)(object)), missed) {
            (Some(reason), _) => PlannedAction::Keep(reason),
            (None, Some(why)) if self.allow.missed => PlannedAction::Delete(CollectorReason::LeftBehind(why)),
            (None, Some(why)) => PlannedAction::Keep(CollectorReason::LeftBehind(why)),
            (None, None) if self.newest.contains(&*object.uid) => {
                PlannedAction::Keep(CollectorReason::NewestGeneration)
            }
            (None, None) if self.generation_of(object).is_some() => PlannedAction::Delete(CollectorReason::Superseded),
            (None, None) => PlannedAction::Delete(CollectorReason::NotInManifests),
        }
    }

    /// qbec keeps the Namespace of a protected object only when it meets the object first (Q16).
    fn replay_namespaces(&self, verdicts: &mut [Decision<'_>]) {
        let mut kept: HashSet<Arc<str>> = HashSet::new();
        for verdict in verdicts {
            let object = verdict.object;
            let policy = object.annotations.get(DELETE_POLICY) == Some("never") && object.controller().is_none();
            if policy && verdict.theirs == NativeAction::Keeps {
                kept.insert(object.id.namespace.clone());
            }
            if object.id.is("", "Namespace")
                && verdict.theirs == NativeAction::Deletes
                && kept.contains(&*object.id.name)
            {
                verdict.theirs = NativeAction::Keeps;
            }
        }
    }

    /// The newest live object of each manifest with a generated name: this tool creates nothing, so it must leave one.
    fn newest_generations(&self) -> HashSet<&'a str> {
        let mut generations: HashMap<ObjectId, Vec<&'a ObjectMetadata>> = HashMap::new();
        for object in self.snapshot.objects.iter().filter(|object| object.deleting.is_none()) {
            if let Some(generation) = self.generation_of(object) {
                generations.entry(generation).or_default().push(object);
            }
        }
        let mut newest = HashSet::new();
        for (generation, mut objects) in generations {
            objects.sort_by_key(|object| Reverse((object.created, &object.id.name)));
            let same = |local: &&LocalManifest| {
                let id = ObjectId { name: generation.name.clone(), ..local.id.clone() };
                local.generate_name.as_deref() == Some(&*generation.name)
                    && self.kinds.applied(&id, &self.input.default_namespace) == generation
            };
            let manifests = self.input.locals.iter().filter(same).count();
            newest.extend(objects.into_iter().take(manifests).map(|object| &*object.uid));
        }
        newest
    }

    /// The manifest with a generated name that an object comes from, as an identity whose name is the prefix.
    fn generation_of(&self, object: &ObjectMetadata) -> Option<ObjectId> {
        if !self.input.app.marks(object) {
            return None;
        }
        let key = type_aliases::key(&object.id);
        self.input.locals.iter().find_map(|local| {
            let prefix = local.generate_name.as_deref()?;
            let suffix = key.name.strip_prefix(prefix)?;
            let named = ObjectId { name: key.name.clone(), ..local.id.clone() };
            let same = self.kinds.applied(&named, &self.input.default_namespace) == key;
            (same && suffix.len() == GENERATED).then(|| ObjectId { name: prefix.into(), ..key.clone() })
        })
    }
}

impl<'a> Collector<'a> for QbecCollector<'a> {
    fn is_member(&self, object: &ObjectMetadata) -> bool {
        self.input.app.marks(object) && object.controller().is_none()
    }

    fn judge<'o>(&self, object: &'o ObjectMetadata) -> Option<Decision<'o>> {
        if !self.input.app.marks(object) || !self.input.filters.object(&object.id, component(object)) {
            return None;
        }
        let desired = self.desired.get(&type_aliases::key(&object.id)).copied();
        if desired == Some(true) {
            return None;
        }
        let missed = self.scope.misses(object);
        let theirs = match &missed {
            _ if object.controller().is_some() || object.id.is("", "Endpoints") => NativeAction::Keeps,
            Some(_) => NativeAction::Misses,
            None if object.annotations.get(DELETE_POLICY) == Some("never") => NativeAction::Keeps,
            None if is_namespace(object, &NEVER_BY_QBEC) => NativeAction::Keeps,
            None => NativeAction::Deletes,
        };
        let ours = match safety::keeps(object, self.index, self.allow) {
            Some(reason) => PlannedAction::Keep(reason),
            None if object.id.is("", "Endpoints") => PlannedAction::Keep(CollectorReason::Endpoints),
            None if desired.is_some() => PlannedAction::Keep(CollectorReason::Desired(
                "a manifest holds it under an API that is not served here",
            )),
            None => self.judge_mark(object, missed),
        };
        Some(Decision { object, theirs, ours })
    }

    fn collect(&self) -> Collected<'a> {
        let snapshot = self.snapshot;
        let mut verdicts: Vec<_> = snapshot.objects.iter().filter_map(|object| self.judge(object)).collect();
        verdicts.sort_by(|a, b| deletion_order(a.object, b.object, &self.kinds));
        self.replay_namespaces(&mut verdicts);
        Collected { staying: super::staying(self, self.snapshot), warnings: notes::warnings(self, &verdicts), verdicts }
    }

    fn same_wave(&self, left: &ObjectMetadata, right: &ObjectMetadata) -> bool {
        left.id.kind == right.id.kind && place(left, &self.kinds) == place(right, &self.kinds)
    }
}

/// Length of the suffix that the API server generates.
const GENERATED: usize = 5;

fn is_namespace(object: &ObjectMetadata, names: &[&str]) -> bool {
    object.id.is("", "Namespace") && names.contains(&&*object.id.name)
}
