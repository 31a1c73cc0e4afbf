//! Objects that an uninstall of a Helm release deletes, from the inventory of its HelmRelease and live metadata.
//!
//! Source: docs/reference/flux.md 6.2; Helm v4.2.2 `pkg/action/uninstall.go` and `pkg/action/resource_policy.go`.

use std::collections::{BTreeMap, BTreeSet};

use super::hooks::{Hook, HookEvent};
use super::records::ReleaseRecords;
use super::rendered::POLICY;
use crate::kubernetes::object::{GroupKind, ObjectId, ObjectMetadata, Resource, ResourceType, text_at};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::schemes::flux_helmrelease::{NAME, NAMESPACE, is_record};
use crate::ownership::schemes::helm::RELEASE_NAME;

/// Reason why there is nothing to uninstall, and why the next action is an install.
pub(crate) const NO_RECORD: &str = "Helm has no record of its release";
/// Conditions under which an object stays whose policy an upgrade to a new chart changes.
const KEPT_FIRST: &str = "it stays if an upgrade to the new chart, which keeps it, comes before the uninstall";
const LOOSENED_FIRST: &str =
    "it stays unless an upgrade to the new chart, which does not keep it, comes before the uninstall";
/// Field managers that write the manifests of a release.
const MANAGERS: [&str; 2] = ["helm-controller", "helm"];

/// Effect of an uninstall on an object in the inventory of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Deleted,
    /// It stays, for this reason.
    Kept(String),
    /// It is deleted unless the stored manifest keeps it, of which this is the reason or the condition.
    Uncertain(String),
}

/// Stored state of a release that decides its uninstall, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoredRelease {
    /// Hooks and kept objects of its chart; `None` if the chart is not known or has neither.
    pub(crate) chart: Option<StoredChart>,
    /// Its records, or the reason why they could not be read.
    pub(crate) records: Option<Result<ReleaseRecords, String>>,
}

/// Hooks and kept objects of the chart of the last release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredChart {
    pub(crate) hooks: BTreeMap<ObjectId, Hook>,
    /// Hooks of the uninstall that the API server refuses for as long as their kind has its schema, with its messages.
    pub(crate) refused_hooks: BTreeMap<ObjectId, String>,
    /// Those that it refuses now, which may change.
    pub(crate) doubtful_hooks: BTreeSet<ObjectId>,
    /// Objects whose manifest keeps them.
    pub(crate) kept: BTreeSet<ObjectId>,
    /// Those that an upgrade to a new chart keeps, and would not be kept without it, or the other way round.
    pub(crate) changing: BTreeSet<ObjectId>,
    /// The metadata that all objects of the release have in common add no policy.
    pub(crate) has_all_policies: bool,
    /// The names of its objects can hold values of a Secret.
    pub(crate) is_private: bool,
}

impl StoredChart {
    /// Returns what Helm's records say of the last release, whose chart cannot be read. The names in it can hold values of Secrets.
    pub(crate) fn of_records(records: &ReleaseRecords, types: &[ResourceType]) -> Option<Self> {
        let hooks = records.last()?.hooks(types).into_iter().map(|(id, hook)| {
            let is_served = types.iter().any(|kind| kind.is(&id.group, &id.kind));
            (id.hidden(is_served), hook)
        });
        Some(Self {
            hooks: hooks.collect(),
            refused_hooks: BTreeMap::new(),
            doubtful_hooks: BTreeSet::new(),
            kept: BTreeSet::new(),
            changing: BTreeSet::new(),
            has_all_policies: false,
            is_private: true,
        })
    }

    /// Returns the effect of an uninstall on an object of the release, which its live metadata do not prove.
    pub(crate) fn fate(&self, object: &ObjectMetadata) -> Fate {
        let is_kept = self.kept.contains(&object.id);
        if self.changing.contains(&object.id) {
            return Fate::Uncertain(if is_kept { LOOSENED_FIRST } else { KEPT_FIRST }.to_owned());
        }
        if is_kept {
            return Fate::Kept(format!("protected by {POLICY} in the manifest that Helm stored"));
        }
        match fate(object) {
            Fate::Uncertain(_) if self.has_all_policies => Fate::Deleted,
            fate => fate,
        }
    }
}

/// Returns the live objects among the members of a release with the effect of an uninstall on them.
pub(crate) fn uninstalled_objects<'a>(
    snapshot: &'a Snapshot,
    members: &BTreeSet<ObjectId>,
) -> Vec<(&'a ObjectMetadata, Fate)> {
    let live = members.iter().filter_map(|id| snapshot.object(id));
    live.map(|object| (object, fate(object))).collect()
}

/// Returns Helm's records of the release in its cluster.
pub fn records<'a>(snapshot: &'a Snapshot, release: &Resource) -> impl Iterator<Item = &'a ObjectMetadata> {
    snapshot.objects.iter().filter(|object| is_record(&release.content, object))
}

/// Returns the live hooks of a HelmRelease that these events run, if neither its chart nor Helm's records can be read: those of
/// helm-controller carry its labels.
pub(crate) fn live_hooks<'a>(
    snapshot: &'a Snapshot,
    release: &Resource,
    events: &'static [HookEvent],
) -> impl Iterator<Item = (&'a ObjectMetadata, Hook)> {
    let owner = [release.object.id.name.to_string(), release.object.id.namespace.to_string()];
    let own = snapshot.objects.iter().filter(move |object| {
        [NAME, NAMESPACE].iter().zip(&owner).all(|(key, value)| object.labels.get(key) == Some(value))
    });
    let found = own.filter_map(|object| Some((object, Hook::of_live(object)?)));
    found.filter(move |(_, hook)| hook.runs_at(events))
}

/// Returns how it is known that a HelmRelease has no release to uninstall; `None` if it has one. `cluster` is the cluster of
/// the release, if it was read.
pub(crate) fn without_release(cluster: Option<&Snapshot>, release: &Resource) -> Option<&'static str> {
    if release.at("/status/history/0").is_none() || text_at(&release.content, "/status/storageNamespace").is_empty() {
        return Some("it has no release");
    }
    let snapshot = cluster?;
    let can_list = snapshot.gaps_hiding(&GroupKind::new("", "Secret")).next().is_none();
    let knows_secrets = snapshot.types.iter().any(|kind| kind.is("", "Secret"));
    if can_list && knows_secrets && records(snapshot, release).next().is_none() {
        return Some(NO_RECORD);
    }
    None
}

/// Returns true if Helm has written a live object.
pub(crate) fn is_of_helm(object: &ObjectMetadata) -> bool {
    let mut managers = object.managed_fields.iter().map(|entry| &*entry.manager);
    let is_annotated = object.annotations.get(RELEASE_NAME).is_some();
    is_annotated || object.managed_fields.is_empty() || managers.any(|manager| MANAGERS.contains(&manager))
}

fn fate(object: &ObjectMetadata) -> Fate {
    // Helm annotates the objects of templates. helm-controller applies the definitions in crds/ without annotations.
    if object.id.is_definition() && object.annotations.get(RELEASE_NAME).is_none() {
        return Fate::Kept("Helm never deletes the definitions in the crds/ of a chart".to_owned());
    }
    let Some(value) = object.annotations.get(POLICY) else { return Fate::Deleted };
    let writers = object.managed_fields.iter().filter(|entry| entry.annotations.iter().any(|key| **key == *POLICY));
    let managers: Vec<&str> = writers.map(|entry| &*entry.manager).collect();
    // An uninstall reads the annotation from the manifest that Helm stored, not from the live object.
    if !managers.is_empty() && !managers.iter().any(|manager| MANAGERS.contains(manager)) {
        let detail = format!("{POLICY}: {value} was not set by Helm, and an uninstall reads only its stored manifest");
        return Fate::Uncertain(detail);
    }
    Fate::Kept(format!("protected by {POLICY}: {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Build, object};

    fn config_map() -> ObjectMetadata {
        object("", "ConfigMap", "apps", "web").annotation(RELEASE_NAME, "web")
    }

    #[test]
    fn a_policy_that_helm_wrote_keeps_an_object_whatever_its_value() {
        assert_eq!(fate(&config_map()), Fate::Deleted);
        for value in ["keep", "Keep", "delete"] {
            let kept = config_map().annotation(POLICY, value).writer("helm-controller", POLICY);
            assert_eq!(fate(&kept), Fate::Kept(format!("protected by helm.sh/resource-policy: {value}")));
        }
        let by_hand = config_map().annotation(POLICY, "keep").writer("kubectl-annotate", POLICY);
        assert!(matches!(fate(&by_hand), Fate::Uncertain(_)));
    }

    #[test]
    fn the_stored_manifest_decides_where_it_is_known() {
        let [by_hand, bare] =
            [config_map().annotation(POLICY, "keep").writer("kubectl-annotate", POLICY), config_map()];
        let stored = |kept: &[&ObjectMetadata], has_all_policies| StoredChart {
            hooks: BTreeMap::new(),
            refused_hooks: BTreeMap::new(),
            doubtful_hooks: BTreeSet::new(),
            kept: kept.iter().map(|object| object.id.clone()).collect(),
            changing: BTreeSet::new(),
            has_all_policies,
            is_private: false,
        };
        assert!(matches!(stored(&[&bare], true).fate(&bare), Fate::Kept(_)), "its annotation was removed by hand");
        assert_eq!(stored(&[], true).fate(&by_hand), Fate::Deleted);
        assert!(matches!(stored(&[], false).fate(&by_hand), Fate::Uncertain(_)));
        for kept in [&[][..], &[&bare]] {
            let changing = StoredChart { changing: [bare.id.clone()].into(), ..stored(kept, true) };
            assert!(matches!(changing.fate(&bare), Fate::Uncertain(_)), "an upgrade to a new chart may come first");
        }
    }

    #[test]
    fn definitions_of_templates_are_deleted_and_those_of_crds_stay() {
        let definition = object("apiextensions.k8s.io", "CustomResourceDefinition", "", "cogs.example.com");
        assert!(matches!(fate(&definition), Fate::Kept(_)));
        assert_eq!(fate(&definition.annotation(RELEASE_NAME, "web")), Fate::Deleted);
    }
}
