//! Objects that helm-controller deletes when it uninstalls the release of a HelmRelease, and their rows.
//!
//! Source: docs/reference/flux.md 6.

use std::collections::BTreeSet;

use serde_json::Value;

use super::replaced_releases::Replacement;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::schedule::consequences::Consequences;
use crate::helm::uninstall::{Fate, install_hooks, records, uninstalled_objects, without_release};
use crate::kubernetes::object::{ObjectId, ObjectMetadata, Resource, flag_at, text_at};
use crate::ownership::OwnerId;
use crate::ownership::schemes::flux_helmrelease::{KIND, helm_chart};
use crate::ownership::schemes::helm::HOOK;
use crate::plan::{Action, Actor, Change, Reason, ReasonCode};

impl<'a> State<'a> {
    /// Returns the objects that the finalizer of a deleted HelmRelease deletes: those of its release, Helm's records of it
    /// unless `uninstall.keepHistory` is set, and its HelmChart.
    pub(crate) fn release_objects(&self, release: &Resource) -> Vec<&'a ObjectMetadata> {
        let mut objects = match self.uninstall_prevented(release) {
            Some(_) => vec![],
            None => self.uninstalled(release, release.spec()),
        };
        if self.suspensions(release).contains(&false) {
            objects.extend(self.chart_of(release));
        }
        objects
    }

    /// Returns the objects that the replacement of a release deletes.
    pub(crate) fn replaced_objects(&self, release: &Resource, replacement: &Replacement) -> Vec<&'a ObjectMetadata> {
        if !self.uninstalls(release) {
            return vec![];
        }
        let mut objects = self.uninstalled(release, &replacement.spec);
        objects.extend(self.namesakes(release, replacement));
        if !flag_at(&replacement.spec, "/install/disableHooks") {
            objects.extend(self.cluster_of(release).into_iter().flat_map(|cluster| install_hooks(cluster, release)));
        }
        objects
    }

    /// Returns the objects in the new namespace of a release with the names of objects in the old one. helm-controller
    /// uninstalls in the new namespace, and Helm does not look at the owner of what it deletes.
    fn namesakes(&self, release: &Resource, Replacement { old, new, .. }: &Replacement) -> Vec<&'a ObjectMetadata> {
        if old.namespace == new.namespace {
            return vec![];
        }
        let members = self.release_members(release).into_iter();
        let deleted =
            members.filter(|(object, fate)| *object.id.namespace == *old.namespace && !matches!(fate, Fate::Kept(_)));
        let namesake = |id: &ObjectId| ObjectId { namespace: new.namespace.as_str().into(), ..id.clone() };
        deleted.filter_map(|(object, _)| self.live_object(&namesake(&object.id))).collect()
    }

    /// Returns the reason why the finalizer of a deleted HelmRelease uninstalls nothing.
    pub(crate) fn uninstall_prevented(&self, release: &Resource) -> Option<&'static str> {
        let account = self.service_account(release);
        if account.is_some_and(|account| self.live_object(&account).is_none()) {
            return Some("its service account does not exist");
        }
        match self.suspensions(release).contains(&false) {
            true => without_release(self.cluster_of(release), release),
            false => Some("it is suspended"),
        }
    }

    /// Returns whether a HelmRelease is suspended: now, and after each application of its manifest, any of which may come
    /// before its deletion.
    fn suspensions(&self, release: &Resource) -> BTreeSet<bool> {
        let applied = self.applied_specs(&release.object.id).map(|(spec, _)| flag_at(&spec, "/suspend"));
        applied.chain([release.flag("/spec/suspend")]).collect()
    }

    /// Returns the live objects in the inventory of a release with the effect of an uninstall on them.
    fn release_members(&self, release: &Resource) -> Vec<(&'a ObjectMetadata, Fate)> {
        uninstalled_objects(self.input.snapshot, &self.members(release))
    }

    fn service_account(&self, release: &Resource) -> Option<ObjectId> {
        let account = release.text("/spec/serviceAccountName").filter(|account| !account.is_empty())?;
        let is_remote = release.at("/spec/kubeConfig").is_some_and(|config| !config.is_null());
        let namespace = &release.object.id.namespace;
        (!is_remote).then(|| ObjectId::new("", "ServiceAccount", namespace, account))
    }

    fn uninstalled(&self, release: &Resource, spec: &Value) -> Vec<&'a ObjectMetadata> {
        let members = self.release_members(release).into_iter();
        let mut objects: Vec<&ObjectMetadata> =
            members.filter(|(_, fate)| !matches!(fate, Fate::Kept(_))).map(|(object, _)| object).collect();
        if !flag_at(spec, "/uninstall/keepHistory") {
            objects.extend(self.cluster_of(release).into_iter().flat_map(|cluster| records(cluster, release)));
        }
        objects
    }

    fn chart_of(&self, release: &Resource) -> Option<&'a ObjectMetadata> {
        self.live_object(&helm_chart(&release.content)?)
    }

    /// Returns the rows of objects that an uninstall keeps.
    pub(crate) fn kept_release_objects(&self, consequences: &Consequences<'_>) -> Vec<Change> {
        let mut rows = vec![];
        for release in self.input.snapshot.resources.iter().filter(|full| &*full.object.id.kind == KIND) {
            let is_deleted = consequences.may_be_deleted(&release.object.id);
            let code = match self.replacement(release, consequences).is_some() {
                true if self.uninstalls(release) => ReasonCode::Protected,
                false if is_deleted && self.uninstall_prevented(release).is_none() => ReasonCode::LeftBehind,
                _ => continue,
            };
            for (object, fate) in self.release_members(release) {
                let Fate::Kept(why) = fate else { continue };
                rows.extend(kept_row(object, &release.object.id, Reason::new(code, why), consequences));
            }
        }
        rows
    }

    /// Adds to the row of an object that an uninstall deletes what is not certain about it.
    pub(crate) fn qualify_uninstall(&self, row: &mut Change, cause: &ObjectId, consequences: &Consequences<'_>) {
        let Some(release) = self.input.snapshot.resource(cause) else { return };
        let mut conditions = vec![];
        let members = self.release_members(release).into_iter();
        let own = members.filter(|(object, _)| object.id == row.object.id).map(|(_, fate)| fate).next();
        let is_member = own.is_some();
        if let Some(Fate::Uncertain(why)) = own {
            conditions.push(why);
        }
        match self.replacement(release, consequences) {
            Some(replacement) => {
                self.qualify_replacement(row, release, &replacement, is_member, &mut conditions);
            }
            None => {
                let account = self.service_account(release).filter(|account| consequences.may_be_deleted(account));
                let config = self.kube_config(&cause.namespace, release.spec());
                let config = config.filter(|config| self.is_absent(config) || consequences.may_be_deleted(config));
                if self.suspensions(release).len() > 1 {
                    conditions.push(format!("it stays if {cause} is suspended when it is deleted"));
                }
                let needed = account.into_iter().chain(config);
                conditions.extend(needed.map(|needed| format!("it stays if {needed} does not exist by then")));
            }
        }
        conditions.iter().for_each(|condition| row.make_race(condition));
    }

    fn qualify_replacement(
        &self,
        row: &mut Change,
        release: &Resource,
        replacement: &Replacement,
        is_member: bool,
        conditions: &mut Vec<String>,
    ) {
        let Replacement { part, old, new, .. } = replacement;
        row.owner = row.cause.as_ref().map(release_owner);
        row.reason.add_detail(&format!("its {part} changes"));
        conditions.extend(replacement.condition.clone());
        let id = &row.object.id;
        if self.namesakes(release, replacement).iter().any(|object| object.id == *id) {
            row.action = Action::Unknown;
            row.reason.add_detail(&format!(
                "it has the name of an object of the release in the namespace {}, and is deleted instead of that if the \
                 template of the object does not set metadata.namespace",
                old.namespace
            ));
        } else if self.live_object(id).is_some_and(|object| object.annotations.get(HOOK).is_some()) && !is_member {
            row.action = Action::Recreate;
            conditions.push("it stays if the new release does not have this hook".to_owned());
        } else if !is_member {
            // The installation records revision 1 of the new release.
            let has_same_records = (&old.name, &old.storage_namespace) == (&new.name, &new.storage_namespace);
            if has_same_records && id.name.ends_with(".v1") {
                row.action = Action::Recreate;
            }
        } else if old.namespace != new.namespace && *id.namespace == *old.namespace {
            row.action = Action::Unknown;
            row.reason.add_detail(IMPLIED_NAMESPACE);
        } else {
            row.reason.add_detail("the installation creates it again if the new release has it too");
        }
    }

    /// Returns true if it is not known which objects a replacement deletes.
    pub(crate) fn is_replacement_unknown(&self, release: &Resource, replacement: &Replacement) -> bool {
        let Replacement { old, new, .. } = replacement;
        old.namespace != new.namespace
            && self
                .release_members(release)
                .iter()
                .any(|(object, fate)| *object.id.namespace == *old.namespace && !matches!(fate, Fate::Kept(_)))
    }
}

/// Reason why the effect on an object in the old namespace is not known: helm-controller uninstalls in the new namespace, so
/// Helm looks there for objects whose manifest has no namespace.
pub(crate) const IMPLIED_NAMESPACE: &str =
    "it is deleted if its template sets metadata.namespace, and is left behind otherwise";

/// Returns true if the dependents of the objects of a release stay when it is uninstalled.
pub(crate) fn orphans_dependents(spec: &Value) -> bool {
    text_at(spec, "/uninstall/deletionPropagation") == "orphan"
}

/// Returns a HelmRelease as an owner.
pub(crate) fn release_owner(id: &ObjectId) -> OwnerId {
    OwnerId::new("flux", KIND, &id.namespace, &id.name)
}

/// Returns the row of an object that helm-controller keeps; `None` if something else deletes it or manages it.
pub(crate) fn kept_row(
    object: &ObjectMetadata,
    release: &ObjectId,
    reason: Reason,
    consequences: &Consequences<'_>,
) -> Option<Change> {
    if consequences.may_be_deleted(&object.id) || consequences.outcomes.contains_key(&object.id) {
        return None;
    }
    Some(Change::new(Action::Keep, object, Some(release_owner(release)), Actor::HelmController, reason))
}
