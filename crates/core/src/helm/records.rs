//! Helm's records of a release: a Secret for each revision. Helm leaves out those that it cannot decode, and takes the revision
//! from the data and not from the name.
//!
//! Source: Helm v4.2.2 `pkg/storage/driver/secrets.go`, `Query`, and `pkg/storage/storage.go`; helm-controller v1.6.3
//! `internal/reconcile/state.go`, `DetermineReleaseState`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::hooks::Hook;
use super::rendered::{Rendered, in_scope};
use crate::kubernetes::object::{ObjectId, ObjectMetadata, Resource, ResourceType};
use crate::ownership::Members;
use crate::ownership::schemes::helm::release_record::revision;

/// Status of a revision whose manifest is in the cluster.
const DEPLOYED: &str = "deployed";
/// Beginning of the status of a revision whose action has not ended.
const PENDING: &str = "pending-";

/// Question for the records of a release.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordsQuery {
    /// Name of the cluster; `None` for the one that is planned on.
    pub cluster: Option<Arc<str>>,
    /// Namespace of the records.
    pub namespace: String,
    /// Name of the release.
    pub name: String,
    /// Namespace of its objects.
    pub release_namespace: String,
}

/// Answer to a question for records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordsAnswer {
    Found(ReleaseRecords),
    /// They could not be read; the reason.
    Unreadable(String),
    /// A snapshot has none.
    NotRecorded,
}

/// A record of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseRecord {
    /// Identity of the Secret.
    id: ObjectId,
    /// Its label `status` is `deployed`: Helm finds deployed revisions by it.
    is_labelled_deployed: bool,
    /// `None` if Helm cannot read it.
    revision: Option<Revision>,
}

/// A revision of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Revision {
    pub(crate) number: i64,
    pub(crate) status: String,
    /// Objects of its manifest.
    pub(crate) members: Vec<ObjectId>,
    /// Hooks of its chart, without their manifests.
    hooks: Vec<(ObjectId, Hook)>,
}

/// The records of a release, the oldest first; those that Helm cannot read come before all others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReleaseRecords(Vec<ReleaseRecord>);

/// Comparison of the records with the revision in the status of a HelmRelease.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Recorded<'r> {
    /// It is the last one, with the objects that the inventory lists.
    AsInStatus,
    /// Helm acts on this one instead.
    Other(&'r Revision),
    /// Helm can read none of them.
    Unreadable,
}

impl ReleaseRecords {
    /// Reads the Secrets with the labels of a release, which are in its cluster. Nothing of their data is kept but the identities of objects
    /// and what decides when a hook runs and what it deletes.
    ///
    /// Fails with the reason why a record is not known that Helm may read.
    pub fn read(secrets: &[Resource], query: &RecordsQuery) -> Result<Self, String> {
        let read = secrets.iter().map(|secret| ReleaseRecord::read(secret, query));
        let mut records: Vec<ReleaseRecord> = read.collect::<Result<_, _>>()?;
        records.sort_by_key(|record| record.revision.as_ref().map(|revision| revision.number));
        Ok(Self(records))
    }

    /// Returns the revisions that Helm can read, the oldest first.
    fn revisions(&self) -> impl DoubleEndedIterator<Item = (&ReleaseRecord, &Revision)> {
        self.0.iter().filter_map(|record| Some((record, record.revision.as_ref()?)))
    }

    /// Returns true for a Secret that Helm cannot read, and therefore never deletes.
    pub(crate) fn is_damaged(&self, id: &ObjectId) -> bool {
        self.damaged().any(|damaged| damaged == id)
    }

    /// Returns the Secrets that Helm cannot read.
    pub(crate) fn damaged(&self) -> impl Iterator<Item = &ObjectId> {
        self.0.iter().filter(|record| record.revision.is_none()).map(|record| &record.id)
    }

    /// Returns true if Helm cannot read one of them.
    pub(crate) fn has_damaged(&self) -> bool {
        self.damaged().next().is_some()
    }

    /// Returns the last revision that Helm can read.
    pub(crate) fn last(&self) -> Option<&Revision> {
        self.revisions().next_back().map(|(_, revision)| revision)
    }

    /// Returns the objects of the last revision that Helm can read; `None` if it is not deployed.
    pub(crate) fn deployed_objects(&self, types: &[ResourceType]) -> Option<BTreeSet<ObjectId>> {
        self.last().filter(|last| last.status == DEPLOYED).map(|last| last.placed(types))
    }

    /// Returns what the records say about the revision in the status, with this number and state, and with this inventory. There are some.
    pub(crate) fn compared(
        &self,
        number: i64,
        status: Option<&str>,
        inventory: &Members,
        types: &[ResourceType],
    ) -> Recorded<'_> {
        let Some(last) = self.last() else { return Recorded::Unreadable };
        let has_same_objects = match inventory {
            Members::Listed(inventory) if last.status == DEPLOYED => {
                Rendered::of_objects(last.placed(types)).difference_from(inventory, types).is_none()
            }
            _ => true,
        };
        let is_same = last.number == number && status.is_none_or(|status| status == last.status);
        if is_same && has_same_objects { Recorded::AsInStatus } else { Recorded::Other(last) }
    }

    /// Returns the revision that an upgrade begins with: the last one if it is deployed, or else the last deployed one. A revision
    /// that failed or was superseded serves if none is deployed, and so does one that is pending: helm-controller first records that it
    /// failed.
    ///
    /// Source: Helm v4.2.2 `pkg/action/upgrade.go`, `prepareUpgrade`; helm-controller v1.6.3 `internal/reconcile/unlock.go`.
    pub(crate) fn upgraded(&self) -> Option<&Revision> {
        let last = self.last()?;
        if last.status == DEPLOYED {
            return Some(last);
        }
        let deployed = self.revisions().rfind(|(record, _)| record.is_labelled_deployed);
        let serves = ["failed", "superseded"].contains(&&*last.status) || last.status.starts_with(PENDING);
        deployed.map(|(_, revision)| revision).or_else(|| serves.then_some(last))
    }

    /// Returns the Secrets that an uninstall deletes with the release. It deletes them by the names that their revisions should
    /// have, and ends at the first one that does not exist.
    ///
    /// Source: Helm v4.2.2 `pkg/action/uninstall.go`, `purgeReleases`.
    pub(crate) fn purged(&self) -> BTreeSet<&ObjectId> {
        let mut purged = BTreeSet::new();
        for (record, Revision { number, .. }) in self.revisions() {
            let suffix = format!(".v{number}");
            let stem = record.id.name.rsplit_once(".v").map_or(&*record.id.name, |(stem, _)| stem);
            let named = self.0.iter().map(|record| &record.id).find(|id| id.name.strip_suffix(&suffix) == Some(stem));
            match named {
                Some(id) if purged.insert(id) => {}
                _ => break,
            }
        }
        purged
    }
}

impl ReleaseRecord {
    fn read(secret: &Resource, query: &RecordsQuery) -> Result<Self, String> {
        let ObjectMetadata { id, labels, .. } = &secret.object;
        let read = revision(secret.text("/data/release").unwrap_or_default(), &query.release_namespace)
            .map_err(|exceeded| format!("{id} has {exceeded}"))?;
        let revision = read.map(|read| match read.members {
            Members::Listed(members) => {
                let cluster = query.cluster.as_ref();
                let members = members.into_iter().map(|id| id.in_cluster(cluster)).collect();
                let hooks = read
                    .hooks
                    .into_iter()
                    .filter_map(|hook| Some((Hook::of_record(&hook)?, hook.id)))
                    .map(|(hook, id)| (id.in_cluster(cluster), hook))
                    .collect();
                Ok(Revision { number: read.number, status: read.status, members, hooks })
            }
            _ => Err(format!("the manifest in {id} cannot be read")),
        });
        let is_labelled_deployed = labels.get("status") == Some(DEPLOYED);
        Ok(Self {
            id: id.clone().in_cluster(query.cluster.as_ref()),
            is_labelled_deployed,
            revision: revision.transpose()?,
        })
    }
}

impl Revision {
    /// Returns its objects, those of cluster-scoped kinds without a namespace.
    pub(crate) fn placed(&self, types: &[ResourceType]) -> BTreeSet<ObjectId> {
        self.members.iter().map(|id| in_scope(id.clone(), types)).collect()
    }

    /// Returns the hooks of its chart, those of cluster-scoped kinds without a namespace.
    pub(crate) fn hooks(&self, types: &[ResourceType]) -> BTreeMap<ObjectId, Hook> {
        self.hooks.iter().map(|(id, hook)| (in_scope(id.clone(), types), hook.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::json;

    use super::*;
    use crate::helm::hooks::HookEvent;
    use crate::testing::{Build, object, resource_type};

    fn secret(revision: i64, status: &str, data: &str) -> Resource {
        let name = format!("sh.helm.release.v1.web.v{revision}");
        let secret = object("", "Secret", "shop", &name).label("status", status);
        secret.with_content(json!({"data": {"release": STANDARD.encode(data)}}))
    }

    /// Returns the data of a record of a revision with these ConfigMaps.
    fn data(revision: i64, status: &str, names: &[&str]) -> String {
        let manifest = |name: &&str| format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n");
        let manifest: String = names.iter().map(manifest).collect();
        STANDARD.encode(json!({"version": revision, "info": {"status": status}, "manifest": manifest}).to_string())
    }

    fn record(revision: i64, status: &str, names: &[&str]) -> Resource {
        secret(revision, status, &data(revision, status, names))
    }

    fn read(secrets: &[Resource]) -> ReleaseRecords {
        let [namespace, name] = ["shop", "web"].map(str::to_owned);
        let query = RecordsQuery { cluster: None, release_namespace: namespace.clone(), namespace, name };
        ReleaseRecords::read(secrets, &query).unwrap()
    }

    fn compared(records: &ReleaseRecords, number: i64, inventory: &[&str]) -> String {
        compared_as(records, number, Some("deployed"), inventory)
    }

    fn compared_as(records: &ReleaseRecords, number: i64, status: Option<&str>, inventory: &[&str]) -> String {
        let inventory = inventory.iter().map(|name| ObjectId::new("", "ConfigMap", "shop", name)).collect();
        let types = [resource_type("", "ConfigMap", "configmaps", true)];
        match records.compared(number, status, &Members::Listed(inventory), &types) {
            Recorded::AsInStatus => "as in status".to_owned(),
            Recorded::Other(revision) => format!("revision {}", revision.number),
            Recorded::Unreadable => "unreadable".to_owned(),
        }
    }

    #[test]
    fn helm_acts_on_the_last_record_that_it_can_read() {
        let old = || record(1, "superseded", &["a", "b"]);
        let whole = read(&[old(), record(2, "deployed", &["a", "c"])]);
        assert_eq!(compared(&whole, 2, &["a", "c"]), "as in status");
        assert_eq!(compared(&whole, 2, &["a"]), "revision 2", "its manifest was changed by hand");
        assert_eq!(compared(&whole, 1, &["a", "b"]), "revision 2", "somebody upgraded it by hand");
        let interrupted = read(&[old(), record(2, "uninstalling", &["a", "c"])]);
        assert_eq!(compared(&interrupted, 2, &["a", "c"]), "revision 2", "somebody else changed its status");
        assert_eq!(compared_as(&interrupted, 2, Some("uninstalling"), &["a", "c"]), "as in status");
        assert_eq!(compared_as(&interrupted, 2, None, &["a", "c"]), "as in status");
        for damaged in ["", "no base64", &STANDARD.encode("{}"), &STANDARD.encode(r#"{"version": "2", "info": {}}"#)] {
            let records = read(&[secret(2, "deployed", damaged), old()]);
            assert_eq!(compared(&records, 2, &["a", "c"]), "revision 1", "{damaged}");
            let found: Vec<&str> = records.damaged().map(|id| &*id.name).collect();
            assert_eq!(found, ["sh.helm.release.v1.web.v2"]);
            assert_eq!(compared(&read(&[secret(2, "deployed", damaged)]), 2, &["a"]), "unreadable");
        }
    }

    #[test]
    fn an_upgrade_begins_with_the_deployed_revision() {
        let begins = |secrets: &[Resource]| read(secrets).upgraded().map(|revision| revision.number);
        assert_eq!(begins(&[record(1, "superseded", &[]), record(2, "deployed", &[])]), Some(2));
        assert_eq!(begins(&[record(1, "deployed", &[]), record(2, "failed", &[])]), Some(1));
        assert_eq!(begins(&[record(1, "superseded", &[]), record(2, "failed", &[])]), Some(2));
        assert_eq!(begins(&[record(1, "superseded", &[]), record(2, "pending-upgrade", &[])]), Some(2));
        assert_eq!(begins(&[record(1, "superseded", &[]), record(2, "uninstalled", &[])]), None);
        assert_eq!(begins(&[record(1, "superseded", &[]), record(2, "uninstalling", &[])]), None);
    }

    #[test]
    fn hooks_of_a_record_have_its_events_and_policies() {
        let manifest =
            "apiVersion: v1\nkind: Secret\nmetadata: {name: key, annotations: {helm.sh/hook: x}}\ndata: {a: b}\n";
        let hook =
            json!({"manifest": manifest, "weight": 3, "events": ["pre-delete"], "delete_policies": ["hook-succeeded"]});
        let unread = json!({"manifest": "{", "events": ["pre-delete"]});
        let release = json!({"version": 1, "info": {"status": "deployed"}, "hooks": [hook, unread]});
        let records = read(&[secret(1, "deployed", &STANDARD.encode(release.to_string()))]);
        let hooks = records.last().unwrap().hooks(&[]);
        let (id, hook) = hooks.first_key_value().unwrap();
        assert_eq!((hooks.len(), id), (1, &ObjectId::new("", "Secret", "shop", "key")));
        assert!(hook.runs_at(&[HookEvent::PreDelete]) && hook.deletes() && !hook.is_deleted_first());
        assert_eq!(hook.manifest, json!({"metadata": {"name": "key"}}));
    }

    #[test]
    fn an_uninstall_deletes_the_records_that_it_can_name() {
        let purged = |secrets: &[Resource]| -> Vec<String> {
            let records = read(secrets);
            let numbers = records.purged().into_iter().filter_map(|id| id.name.rsplit_once('.'));
            numbers.map(|(_, number)| number.to_owned()).collect()
        };
        let [old, new] = [record(1, "superseded", &[]), record(2, "deployed", &[])];
        assert_eq!(purged(&[old.clone(), new.clone()]), ["v1", "v2"]);
        assert_eq!(purged(&[secret(1, "superseded", ""), new.clone()]), ["v2"]);
        let of_second = data(2, "deployed", &[]);
        assert_eq!(purged(&[secret(1, "superseded", &of_second), new]), ["v2"], "it deletes v2 once");
        assert_eq!(purged(&[old, secret(2, "deployed", &data(7, "deployed", &[]))]), ["v1"], "there is no v7");
    }
}
