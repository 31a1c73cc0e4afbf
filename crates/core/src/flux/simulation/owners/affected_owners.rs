//! HelmReleases, ResourceSets, FluxInstances and ArtifactGenerators that a change affects.

use std::collections::BTreeSet;

use super::comparison::{Comparison, Difference, Part};
use super::helm::replaced_releases::Replacement;
use super::helm::uninstall::IMPLIED_NAMESPACE;
use super::resource_set;
use super::resource_set::FORCE;
use crate::flux::kinds::{GENERATOR, GENERATOR_GROUP, OPERATOR_SWITCH};
use crate::flux::simulation::model::affected_owner::{Effect, Expansion, Unfollowed};
use crate::flux::simulation::model::generated_artifacts::GeneratorEffect;
use crate::kubernetes::object::{ObjectId, Resource};
use crate::ownership::schemes::flux::{inventory_members, is_switched_off, status};
use crate::ownership::schemes::{flux_helmrelease, flux_operator};
use crate::ownership::{Members, OwnerStatus};
use crate::plan::{Reason, ReasonCode};
use crate::text::pluralize;

/// Kinds of owners whose effect is not computed.
const KINDS: [(&str, &str); 4] = [
    (flux_helmrelease::GROUP, flux_helmrelease::KIND),
    (flux_operator::GROUP, resource_set::KIND),
    (flux_operator::GROUP, "FluxInstance"),
    (GENERATOR_GROUP, GENERATOR),
];

impl Comparison<'_, '_, '_> {
    /// Returns the owners of these kinds that the change affects.
    pub(crate) fn affected_owners(&mut self) -> Vec<Unfollowed> {
        let mut affected = vec![];
        for (group, kind) in KINDS {
            for id in self.ids_of(group, kind) {
                affected.extend(self.effect(&id).map(|effect| Unfollowed { id, effect }));
            }
        }
        affected
    }

    fn effect(&mut self, id: &ObjectId) -> Option<Effect> {
        if &*id.kind == GENERATOR {
            return self.generator_effect(id);
        }
        let state = self.state();
        let Some(object) = state.live_object(id) else { return self.creation(id) };
        if object.deletion_timestamp.is_some() {
            return None;
        }
        let live = state.input.snapshot.resource(id);
        if self.derivation.consequences.may_be_deleted(id) {
            return self.deletion(id, live);
        }
        if let Some(live) = live
            && let Some(replacement) = state.replacement(live, self.derivation.consequences)
            && state.uninstalls(live)
        {
            return Some(self.replaced(live, &replacement));
        }
        let changes = self.changes(id, live);
        if changes.is_empty() {
            return None;
        }
        let is_masked = state.is_private(id);
        let what =
            if is_masked { "its spec or an object that it refers to changes".into() } else { changes.join(", ") };
        if self.is_inactive_after(id) {
            let detail = format!("{what}; this takes effect once it is resumed");
            return Some(Effect::Suspended(Reason::new(ReasonCode::Suspended, detail)));
        }
        if live.is_some_and(|live| self.is_not_installed(id, live)) {
            return Some(Effect::Creates(creation_remark(&id.kind)));
        }
        let mut why = not_computed(&id.kind).to_owned();
        if let Some(live) = live.filter(|_| &*id.kind == flux_helmrelease::KIND) {
            match self.upgrade(live) {
                Ok(None) => return None,
                Ok(Some(upgrade)) => {
                    let detail = format!("{what}; objects that the upgrade creates are not in this plan");
                    let mut reason = Reason::new(ReasonCode::ReleaseUpgraded, detail);
                    upgrade.remediation.into_iter().for_each(|remediation| reason.add_detail(remediation));
                    return Some(Effect::Upgrades(Box::new(upgrade), reason));
                }
                Err(unknown) => why = format!("{why}, because {unknown}"),
            }
        }
        if let Some(live) = live.filter(|_| &*id.kind == resource_set::KIND) {
            match self.expansion(id, Some(live)) {
                Ok(None) => return None,
                Ok(Some(expansion)) => return Some(expands(expansion, &what)),
                Err(unknown) => why = format!("{why}, because {unknown}"),
            }
        }
        let detail = format!("{what}; {why}, so {}", may_be_deleted(live));
        Some(Effect::Unknown(Reason::new(ReasonCode::NotFollowed, detail)))
    }

    /// Returns the effect of the change on a generator.
    fn generator_effect(&self, id: &ObjectId) -> Option<Effect> {
        if self.derivation.consequences.may_be_deleted(id) {
            return None;
        }
        Some(match self.state().generated.effect(id)? {
            GeneratorEffect::Unchanged => return None,
            GeneratorEffect::Generates => Effect::Generates(ReasonCode::ArtifactsGenerated.into()),
            GeneratorEffect::Fails(why) => Effect::Fails(Reason::new(ReasonCode::BuildFailed, why)),
            GeneratorEffect::Unknown(why) => {
                let detail = format!("{why}, so it is not known what is deleted of its artifacts");
                Effect::Unknown(Reason::new(ReasonCode::NotFollowed, detail))
            }
        })
    }

    /// Returns the effect of a change of the target of a release.
    fn replaced(&self, live: &Resource, replacement: &Replacement) -> Effect {
        let part = replacement.part;
        let unknown = |why: &str| {
            let detail = format!("its {part} changes, so its release is uninstalled and another one installed; {why}");
            Effect::Unknown(Reason::new(ReasonCode::NotFollowed, detail))
        };
        match self.state().members(live) {
            Members::Listed(_) if self.state().is_replacement_unknown(live, replacement) => unknown(&format!(
                "of each of its objects in the namespace {}: {IMPLIED_NAMESPACE}",
                replacement.old.namespace
            )),
            Members::Listed(_) => {
                let detail = format!("its {part} changes; the objects of the new release are not in this plan");
                Effect::Replaces(Reason::new(ReasonCode::ReleaseReplaced, detail))
            }
            Members::Remote(ids) => {
                unknown(&format!("{} in another cluster are not in this plan", pluralize(ids.len(), "object")))
            }
            Members::Unreadable(error) => unknown(&error),
            _ => unknown("it records no inventory"),
        }
    }

    /// Returns what changes in a live owner and in everything that it refers to, in words.
    fn changes(&mut self, id: &ObjectId, live: Option<&Resource>) -> Vec<String> {
        let is_ready = live.is_some_and(|live| status(&live.object, &live.content, None) == OwnerStatus::Ready);
        let mut changes = match self.difference(id, Part::Spec { is_ready }) {
            Some(Difference::Changed(parts)) => parts.into_iter().map(|part| format!("{part} changes")).collect(),
            Some(Difference::NotCompared(why)) => vec![format!("its spec cannot be compared: {why}")],
            _ => vec![],
        };
        let was_inactive = live.is_some_and(|live| live.flag("/spec/suspend"))
            || live.is_some_and(|live| live.object.annotations.get(OPERATOR_SWITCH).is_some_and(is_switched_off));
        if was_inactive && !self.is_inactive_after(id) {
            changes.push("it is resumed".to_owned());
        }
        for spec in self.specs_after(id) {
            changes.extend(match &*id.kind {
                flux_helmrelease::KIND => self.release_references(&id.namespace, &spec),
                resource_set::KIND => self.set_references(&id.namespace, &spec),
                _ => vec![],
            });
        }
        let mut seen = BTreeSet::new();
        changes.retain(|change| seen.insert(change.clone()));
        changes
    }

    /// Returns true if the controller does nothing for the owner after the change.
    fn is_inactive_after(&self, id: &ObjectId) -> bool {
        match &*id.kind {
            flux_helmrelease::KIND => self.is_suspended_after(id),
            _ => self.state().is_switched_off_after(id, OPERATOR_SWITCH),
        }
    }

    /// Returns true if a live HelmRelease has no release that an upgrade or an uninstall could change.
    fn is_not_installed(&self, id: &ObjectId, live: &Resource) -> bool {
        let has_history = live.at("/status/history/0").is_some();
        &*id.kind == flux_helmrelease::KIND
            && !has_history
            && inventory_members(&live.content) == Members::Unrecorded
            && self.specs_after(id).iter().all(|spec| !self.may_have_release(id, spec))
    }

    /// Returns true unless it is known that Helm has no record of the release with this spec.
    fn may_have_release(&self, id: &ObjectId, spec: &serde_json::Value) -> bool {
        let Some(cluster) = self.state().cluster_of_spec(&id.namespace, spec) else { return true };
        let (name, namespace) = flux_helmrelease::release_record(id, spec);
        let secret = crate::kubernetes::object::GroupKind::new("", "Secret");
        let mut objects = cluster.objects.iter();
        cluster.gaps_hiding(&secret).next().is_some()
            || objects.any(|object| flux_helmrelease::is_record_of(object, &namespace, &name))
    }

    /// Returns the effect of an owner that is created.
    fn creation(&mut self, id: &ObjectId) -> Option<Effect> {
        let applied = self.applied(id);
        if applied.is_empty() {
            return None;
        }
        let forces = applied.iter().any(|applied| applied.built.has_label_or_annotation(FORCE, "enabled"));
        let specs = self.specs_after(id);
        let takes_over = &*id.kind == flux_helmrelease::KIND && {
            let is_read = |spec: &&serde_json::Value| self.state().cluster_of_spec(&id.namespace, spec).is_some();
            specs.iter().filter(is_read).any(|spec| self.may_have_release(id, spec))
        };
        let why = if takes_over {
            "it is created and its release may exist already, which is then upgraded"
        } else if forces {
            "it is created and may delete and create again objects that exist (fluxcd.controlplane.io/force)"
        } else {
            if self.is_inactive_after(id) {
                return None;
            }
            if &*id.kind == resource_set::KIND
                && let Ok(Some(expansion)) = self.expansion(id, None)
            {
                return Some(expands(expansion, "it is created"));
            }
            return Some(Effect::Creates(creation_remark(&id.kind)));
        };
        let detail = format!("{why}; {}", not_computed(&id.kind));
        Some(Effect::Unknown(Reason::new(ReasonCode::NotFollowed, detail)))
    }

    /// Returns the effect of an owner that is deleted, unless the plan follows its inventory.
    fn deletion(&self, id: &ObjectId, live: Option<&Resource>) -> Option<Effect> {
        let Some(live) = live else { return Some(unrecorded("its content could not be read")) };
        let content = &live.content;
        let is_off = |key: &str| live.object.annotations.get(key).is_some_and(is_switched_off);
        match &*id.kind {
            flux_helmrelease::KIND if self.state().uninstall_prevented(live).is_some() => None,
            flux_helmrelease::KIND => match self.state().members(live) {
                Members::Listed(_) => None,
                Members::Remote(ids) => Some(unrecorded(&format!(
                    "its release of {} in another cluster is uninstalled",
                    pluralize(ids.len(), "object")
                ))),
                Members::Unreadable(error) => Some(unrecorded(&error)),
                _ => Some(unrecorded("its release is uninstalled, and it records no inventory")),
            },
            _ if is_off(OPERATOR_SWITCH) => None,
            "FluxInstance" => match inventory_members(content) {
                Members::Unrecorded => None,
                Members::Listed(ids) if ids.is_empty() => None,
                _ => Some(unrecorded(
                    "flux-operator uninstalls Flux: it deletes the controllers and every object of Flux in the cluster",
                )),
            },
            _ => match inventory_members(content) {
                Members::Unreadable(error) => Some(unrecorded(&error)),
                _ => None,
            },
        }
    }
}

fn expands(expansion: Expansion, what: &str) -> Effect {
    Effect::Expands(Box::new(expansion), Reason::new(ReasonCode::ResourcesGenerated, what))
}

fn unrecorded(why: &str) -> Effect {
    let detail = format!("it is deleted, and what its controller deletes is not known: {why}");
    Effect::Unknown(Reason::new(ReasonCode::NotRecorded, detail))
}

/// Returns what is not computed of an owner of this kind, as a clause.
fn not_computed(kind: &str) -> &'static str {
    match kind {
        flux_helmrelease::KIND => "its chart is not rendered here",
        resource_set::KIND => "its resources are not generated here",
        _ => "what flux-operator installs is not computed here",
    }
}

/// Returns what is not known of the objects of an owner, as a clause.
pub(crate) fn may_be_deleted(live: Option<&Resource>) -> String {
    let number = match live.map(|live| inventory_members(&live.content)) {
        Some(Members::Listed(ids) | Members::Remote(ids)) => ids.len(),
        _ => 0,
    };
    match number {
        0 => "it is not known what is deleted".to_owned(),
        1 => "its object may be deleted".to_owned(),
        _ => format!("any of its {} may be deleted", pluralize(number, "object")),
    }
}

fn creation_remark(kind: &str) -> &'static str {
    match kind {
        flux_helmrelease::KIND => {
            "its release is installed; the objects of the chart are not in this plan, and those that exist are taken over"
        }
        "FluxInstance" => {
            "flux-operator installs Flux; its objects are not in this plan, and those that exist are taken over"
        }
        _ => "the objects that it generates are not in this plan, and those that exist are taken over",
    }
}
