//! Flux v1's garbage collection: what fluxd deletes after a sync, and what this tool deletes in its place.
//!
//! Source: reference qbec-and-flux-v1 B3; `F` and `C` numbers are its edge cases.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::alias::Kinds;
use super::local::Local;
use super::safety::{self, Allow};
use super::{Collect, Collection, Ours, Reason, Theirs, Verdict};
use crate::object::{Object, ObjectId};
use crate::ownership::flux_v1::{LEGACY_MARK, MARK, mark, resource_id};
use crate::ownership::index::Index;
use crate::snapshot::Snapshot;

/// Keys of the `ignore` policy.
const IGNORE: [&str; 2] = ["fluxcd.io/ignore", "flux.weave.works/ignore"];
/// What fluxd does not look at unless told otherwise (`--k8s-unsafe-exclude-resource`).
pub const EXCLUDED: [&str; 3] = ["*metrics.k8s.io/*", "webhook.certmanager.k8s.io/*", "v1/Event"];
/// Place of kinds in the order of application; all others come last.
const RANKS: [(&str, u8); 22] = [
    ("namespace", 0),
    ("customresourcedefinition", 1),
    ("serviceaccount", 1),
    ("clusterrole", 1),
    ("role", 1),
    ("persistentvolume", 1),
    ("service", 1),
    ("resourcequota", 2),
    ("limitrange", 2),
    ("secret", 2),
    ("configmap", 2),
    ("rolebinding", 2),
    ("clusterrolebinding", 2),
    ("persistentvolumeclaim", 2),
    ("ingress", 2),
    ("daemonset", 3),
    ("deployment", 3),
    ("replicationcontroller", 3),
    ("replicaset", 3),
    ("job", 3),
    ("cronjob", 3),
    ("statefulset", 3),
];

/// What a fluxd was told.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    /// The sync set name: the hash of its source.
    pub sync_set: String,
    /// Namespace of manifests that name none.
    pub default_namespace: Arc<str>,
    /// `--k8s-allow-namespace`; empty for all.
    pub allow_namespaces: Vec<String>,
    /// `--k8s-unsafe-exclude-resource`.
    pub excluded: Vec<String>,
    /// The manifests of the source.
    pub locals: &'a [Local],
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
pub struct Collector<'a> {
    input: Input<'a>,
    allow: Allow,
    snapshot: &'a Snapshot,
    index: &'a Index<'a>,
    known: HashMap<String, Knowledge>,
}

impl<'a> Collector<'a> {
    /// Compares manifests and cluster.
    pub fn new(input: Input<'a>, snapshot: &'a Snapshot, index: &'a Index<'a>, allow: Allow) -> Self {
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
    pub fn created(&self, local: &Local) -> Option<(String, ObjectId)> {
        let kinds = Kinds::of(self.snapshot);
        let namespaced = kinds.namespaced(&local.id.group_kind())?;
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
    pub fn applies(&self, object: &Object) -> bool {
        self.known.get(&resource_id(&object.id)) == Some(&Knowledge::Known)
    }

    /// Why fluxd never sees an object.
    fn misses(&self, object: &Object) -> Option<String> {
        let namespace = &*object.id.namespace;
        if !namespace.is_empty() && !self.input.allows(namespace) {
            return Some(format!("namespace {namespace} is not in --k8s-allow-namespace: missed by fluxd"));
        }
        let group = if object.id.group.is_empty() { String::new() } else { format!("{}/", object.id.group) };
        let group_version = format!("{group}{}/", object.version);
        let name = format!("{group_version}{}", object.id.kind);
        let excluded = |pattern: &&String| glob(pattern, &group_version) || glob(pattern, &name);
        let pattern = self.input.excluded.iter().find(excluded)?;
        Some(format!("--k8s-unsafe-exclude-resource {pattern} leaves {name} out: missed by fluxd"))
    }

    fn warnings(&self, verdicts: &[Verdict<'_>]) -> Vec<String> {
        let mut warnings = vec![];
        for local in self.input.locals.iter().filter(|local| local.exported_mark.is_some()) {
            let Local { id, origin, .. } = local;
            warnings.push(format!(
                "{id} ({origin}) carries a mark that was exported from a cluster: fluxd keeps it, and never collects the object"
            ));
        }
        let mut twins: BTreeMap<String, usize> = BTreeMap::new();
        for object in verdicts.iter().map(|verdict| verdict.object) {
            *twins.entry(resource_id(&object.id)).or_default() += 1;
            let values: HashSet<_> = IGNORE.iter().filter_map(|key| object.annotations.get(key)).collect();
            if values.len() > 1 {
                warnings
                    .push(format!("{}: its two ignore annotations differ, and fluxd picks one at random", object.id));
            }
        }
        for (id, _) in twins.into_iter().filter(|(_, count)| *count > 1) {
            warnings.push(format!("{id} is the id of several objects: fluxd deletes one of them in each sync"));
        }
        let objects = || self.snapshot.objects.iter().filter(|object| object.references.is_empty());
        let legacy = |object: &&Object| {
            let value = object.labels.get(LEGACY_MARK);
            object.labels.get(MARK).is_none()
                && value.is_some_and(|value| value == mark(&self.input.sync_set, &resource_id(&object.id)))
        };
        let left = objects().filter(legacy).count();
        if left > 0 {
            warnings.push(format!(
                "{left} object(s) of this source carry only the mark of Flux 1.13 and earlier ({LEGACY_MARK}): no later fluxd collects them"
            ));
        }
        let copies = self.copies();
        if copies > 0 {
            warnings.push(format!("{copies} object(s) carry a mark that was copied from an object of this source"));
        }
        warnings
    }

    /// Objects whose mark is another object's (F2).
    fn copies(&self) -> usize {
        let marked = || {
            let objects = self.snapshot.objects.iter();
            objects.filter_map(|object| Some((object, object.labels.get(MARK)?)))
        };
        let own = |object: &Object| mark(&self.input.sync_set, &resource_id(&object.id));
        let genuine: HashSet<&str> =
            marked().filter(|(object, value)| own(object) == *value).map(|row| row.1).collect();
        marked().filter(|(object, value)| genuine.contains(value) && own(object) != *value).count()
    }
}

impl<'a> Collect<'a> for Collector<'a> {
    fn is_member(&self, object: &Object) -> bool {
        object.labels.get(MARK) == Some(&mark(&self.input.sync_set, &resource_id(&object.id)))
    }

    fn judge<'o>(&self, object: &'o Object) -> Option<Verdict<'o>> {
        let id = resource_id(&object.id);
        if object.labels.get(MARK)? != mark(&self.input.sync_set, &id) {
            return None;
        }
        let knowledge = self.known.get(&id).copied();
        let missed = self.misses(object);
        let theirs = match knowledge {
            Some(Knowledge::Known) => return None,
            Some(_) if missed.is_some() => return None,
            _ if !object.references.is_empty() || object.id.is("", "Endpoints") => Theirs::Keeps,
            _ if missed.is_some() => Theirs::Misses,
            _ if IGNORE.iter().any(|key| matches!(object.annotations.get(key), Some("true" | "sync_only"))) => {
                Theirs::Keeps
            }
            _ => Theirs::Deletes,
        };
        let referenced = (!object.references.is_empty()).then_some(Reason::Controlled);
        let keep = referenced.or_else(|| safety::keeps(object, self.index, self.allow));
        let ours = match (keep, knowledge, missed) {
            (Some(reason), ..) => Ours::Keep(reason),
            (None, Some(knowledge), _) => Ours::Keep(Reason::Desired(knowledge.words())),
            (None, None, _) if object.id.is("", "Endpoints") => Ours::Keep(Reason::Endpoints),
            (None, None, Some(why)) if self.allow.missed => Ours::Delete(Reason::LeftBehind(why)),
            (None, None, Some(why)) => Ours::Keep(Reason::LeftBehind(why)),
            (None, None, None) => Ours::Delete(Reason::NotInManifests),
        };
        Some(Verdict { object, theirs, ours })
    }

    fn collect(&self) -> Collection<'a> {
        let snapshot = self.snapshot;
        let mut verdicts: Vec<_> = snapshot.objects.iter().filter_map(|object| self.judge(object)).collect();
        verdicts.sort_by(|a, b| deletion_order(a.object, b.object));
        Collection { staying: super::staying(self, self.snapshot), warnings: self.warnings(&verdicts), verdicts }
    }
}

impl Input<'_> {
    fn allows(&self, namespace: &str) -> bool {
        self.allow_namespaces.is_empty() || self.allow_namespaces.iter().any(|allowed| allowed == namespace)
    }

    /// The resource ids under which a manifest is known. Without a served kind its scope is not known either, so it
    /// stands for both.
    fn ids(&self, local: &Local, kinds: &Kinds<'_>) -> Vec<(String, Knowledge)> {
        let place = |namespace: &Arc<str>| resource_id(&ObjectId { namespace: namespace.clone(), ..local.id.clone() });
        let written = if local.id.namespace.is_empty() { &self.default_namespace } else { &local.id.namespace };
        let cluster: Arc<str> = "".into();
        let constrained = |free: bool| if free { Knowledge::Known } else { Knowledge::Constrained };
        match kinds.namespaced(&local.id.group_kind()) {
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

/// Orders objects as fluxd deletes them; kind, namespace and group only make two runs agree.
pub fn deletion_order(left: &Object, right: &Object) -> Ordering {
    let key = |object: &Object| {
        let id = &object.id;
        Reverse((rank(&id.kind), id.name.clone(), id.kind.clone(), id.namespace.clone(), id.group.clone()))
    };
    key(left).cmp(&key(right))
}

fn rank(kind: &str) -> u8 {
    let kind = kind.to_lowercase();
    RANKS.iter().find(|(name, _)| *name == kind).map_or(4, |(_, rank)| *rank)
}

/// Whether a text matches a pattern in which `*` is the only wildcard.
fn glob(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(start) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = text.find(part) else { return false };
        text = &text[at + part.len()..];
    }
    text.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exclusions_are_globs_over_group_version_and_kind() {
        let rows = [
            ("*metrics.k8s.io/*", "metrics.k8s.io/v1beta1/PodMetrics", true),
            ("*metrics.k8s.io/*", "custom.metrics.k8s.io/v1beta1/", true),
            ("v1/Event", "v1/Event", true),
            ("v1/Event", "events.k8s.io/v1/Event", false),
            ("v1/Event", "v1/", false),
            ("*", "anything", true),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "a-c", false),
            ("*Event", "v1/event", false),
        ];
        for (pattern, text, matches) in rows {
            assert_eq!(glob(pattern, text), matches, "{pattern} {text}");
        }
    }
}
