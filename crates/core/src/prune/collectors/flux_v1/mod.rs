//! Flux v1's garbage collection: what fluxd deletes after a sync, and what this tool deletes in its place.
//!
//! Source: reference qbec-and-flux-v1 B3; `F` and `C` numbers are its edge cases.

pub mod config;
pub mod notes;
pub mod order;
pub mod source_change;

use std::collections::HashMap;
use std::sync::Arc;

use super::glob;
use super::manifest::LocalManifest;
use super::safety;
use super::safety::Allow;
use super::type_aliases::Kinds;
use super::{Collected, Collector, CollectorReason, Decision, NativeAction, PlannedAction};
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::index::Index;
use crate::ownership::schemes::flux_v1::{MARK, mark, resource_id};
use order::{deletion_order, rank};

/// Keys of the `ignore` policy.
pub const IGNORE: [&str; 2] = ["fluxcd.io/ignore", "flux.weave.works/ignore"];
/// What fluxd does not look at unless told otherwise (`--k8s-unsafe-exclude-resource`).
pub const EXCLUDED: [&str; 3] = ["*metrics.k8s.io/*", "webhook.certmanager.k8s.io/*", "v1/Event"];

/// What a fluxd was told.
#[derive(Clone, Debug)]
pub struct FluxV1Input<'a> {
    /// The sync set name: the hash of its source.
    pub sync_set: String,
    /// Namespace of manifests that name none.
    pub default_namespace: Arc<str>,
    /// `--k8s-allow-namespace`; empty for all.
    pub allow_namespaces: Vec<String>,
    /// `--k8s-unsafe-exclude-resource`.
    pub excluded: Vec<String>,
    /// The manifests of the source.
    pub locals: &'a [LocalManifest],
}

/// How the manifests know a resource id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Knowledge {
    /// Under an API that the cluster does not serve: fluxd drops such manifests (F14).
    Unserved,
    /// Of a kind that ends in `List`: fluxd takes such manifests for empty lists (F18).
    Listlike,
    /// Outside of the allowed namespaces: fluxd forgets such manifests (F11, C10).
    Constrained,
    /// Like any other.
    Known,
}

impl Knowledge {
    /// Why fluxd overlooks the manifest.
    fn words(self) -> &'static str {
        match self {
            Self::Unserved => "a manifest holds it under an API that is not served here",
            Self::Listlike => "a manifest holds it, which fluxd takes for an empty list",
            Self::Constrained => "a manifest holds it, outside of --k8s-allow-namespace",
            Self::Known => "a manifest holds it",
        }
    }
}

/// The collector of one source in one snapshot.
pub struct FluxV1Collector<'a> {
    input: FluxV1Input<'a>,
    allow: Allow,
    snapshot: &'a Snapshot,
    index: &'a Index<'a>,
    known: HashMap<String, Knowledge>,
}

impl<'a> FluxV1Collector<'a> {
    /// Compares manifests and cluster.
    pub fn new(input: FluxV1Input<'a>, snapshot: &'a Snapshot, index: &'a Index<'a>, allow: Allow) -> Self {
        let kinds = Kinds::of(snapshot);
        let mut known = HashMap::new();
        for local in input.locals {
            for (id, knowledge) in input.ids(local, &kinds) {
                let best = known.entry(id).or_insert(knowledge);
                *best = (*best).max(knowledge);
            }
        }
        Self { input, allow, snapshot, index, known }
    }

    /// The id and identity of a manifest that fluxd applies.
    pub fn created(&self, local: &LocalManifest) -> Option<(String, ObjectId)> {
        let kinds = Kinds::of(self.snapshot);
        let namespaced = kinds.serves(local)?;
        let namespace = match (namespaced, local.id.namespace.is_empty()) {
            (false, _) => Arc::from(""),
            (true, true) => self.input.default_namespace.clone(),
            (true, false) => local.id.namespace.clone(),
        };
        let id = ObjectId { namespace, ..local.id.clone() };
        let name = resource_id(&id);
        (self.known.get(&name) == Some(&Knowledge::Known)).then_some((name, id))
    }

    /// Whether fluxd knows an object from the manifests, and so applies it.
    pub fn applies(&self, object: &ObjectMetadata) -> bool {
        self.known.get(&resource_id(&object.id)) == Some(&Knowledge::Known)
    }

    /// Why fluxd never sees an object.
    fn misses(&self, object: &ObjectMetadata) -> Option<String> {
        let namespace = &*object.id.namespace;
        if !namespace.is_empty() && !self.input.allows(namespace) {
            return Some(format!("namespace {namespace} is not in --k8s-allow-namespace: missed by fluxd"));
        }
        let group = if object.id.group.is_empty() { String::new() } else { format!("{}/", object.id.group) };
        let group_version = format!("{group}{}/", object.version);
        let name = format!("{group_version}{}", object.id.kind);
        let excluded = |pattern: &&String| glob::matches(pattern, &group_version) || glob::matches(pattern, &name);
        let pattern = self.input.excluded.iter().find(excluded)?;
        Some(format!("--k8s-unsafe-exclude-resource {pattern} leaves {name} out: missed by fluxd"))
    }
}

impl<'a> Collector<'a> for FluxV1Collector<'a> {
    fn is_member(&self, object: &ObjectMetadata) -> bool {
        object.labels.get(MARK) == Some(&mark(&self.input.sync_set, &resource_id(&object.id)))
    }

    fn judge<'o>(&self, object: &'o ObjectMetadata) -> Option<Decision<'o>> {
        let id = resource_id(&object.id);
        if object.labels.get(MARK)? != mark(&self.input.sync_set, &id) {
            return None;
        }
        let knowledge = self.known.get(&id).copied();
        let missed = self.misses(object);
        let theirs = match knowledge {
            Some(Knowledge::Known) => return None,
            Some(_) if missed.is_some() => return None,
            _ if !object.references.is_empty() || object.id.is("", "Endpoints") => NativeAction::Keeps,
            _ if missed.is_some() => NativeAction::Misses,
            _ if IGNORE.iter().any(|key| matches!(object.annotations.get(key), Some("true" | "sync_only"))) => {
                NativeAction::Keeps
            }
            _ => NativeAction::Deletes,
        };
        let referenced = (!object.references.is_empty()).then_some(CollectorReason::Controlled);
        let keep = referenced.or_else(|| safety::keeps(object, self.index, self.allow));
        let ours = match (keep, knowledge, missed) {
            (Some(reason), ..) => PlannedAction::Keep(reason),
            (None, Some(knowledge), _) => PlannedAction::Keep(CollectorReason::Desired(knowledge.words())),
            (None, None, _) if object.id.is("", "Endpoints") => PlannedAction::Keep(CollectorReason::Endpoints),
            (None, None, Some(why)) if self.allow.missed => PlannedAction::Delete(CollectorReason::LeftBehind(why)),
            (None, None, Some(why)) => PlannedAction::Keep(CollectorReason::LeftBehind(why)),
            (None, None, None) => PlannedAction::Delete(CollectorReason::NotInManifests),
        };
        Some(Decision { object, theirs, ours })
    }

    fn collect(&self) -> Collected<'a> {
        let snapshot = self.snapshot;
        let mut verdicts: Vec<_> = snapshot.objects.iter().filter_map(|object| self.judge(object)).collect();
        verdicts.sort_by(|a, b| deletion_order(a.object, b.object));
        Collected {
            staying: super::staying(self, self.snapshot),
            warnings: notes::warnings(&self.input, snapshot, &verdicts),
            verdicts,
        }
    }

    fn same_wave(&self, left: &ObjectMetadata, right: &ObjectMetadata) -> bool {
        rank(&left.id.kind) == rank(&right.id.kind)
    }
}

impl FluxV1Input<'_> {
    fn allows(&self, namespace: &str) -> bool {
        self.allow_namespaces.is_empty() || self.allow_namespaces.iter().any(|allowed| allowed == namespace)
    }

    /// The resource ids under which a manifest is known. Without a served kind its scope is not known either, so it
    /// stands for both.
    fn ids(&self, local: &LocalManifest, kinds: &Kinds<'_>) -> Vec<(String, Knowledge)> {
        let place = |namespace: &Arc<str>| resource_id(&ObjectId { namespace: namespace.clone(), ..local.id.clone() });
        let written = if local.id.namespace.is_empty() { &self.default_namespace } else { &local.id.namespace };
        let cluster: Arc<str> = "".into();
        let constrained = |free: bool| if free { Knowledge::Known } else { Knowledge::Constrained };
        match kinds.serves(local) {
            Some(namespaced) if local.id.kind.ends_with("List") => {
                vec![(place(if namespaced { written } else { &cluster }), Knowledge::Listlike)]
            }
            Some(true) => vec![(place(written), constrained(self.allows(written)))],
            // Of cluster-scoped objects only Namespaces are constrained, by their names.
            Some(false) => {
                let free = !local.id.is("", "Namespace") || self.allows(&local.id.name);
                vec![(place(&cluster), constrained(free))]
            }
            None => vec![(place(written), Knowledge::Unserved), (place(&cluster), Knowledge::Unserved)],
        }
    }
}
