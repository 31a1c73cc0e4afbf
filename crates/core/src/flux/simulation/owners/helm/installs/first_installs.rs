//! Installations of new releases with specs or values that do not last.
//!
//! A new HelmRelease and its values can change more than once, and helm-controller may install the release between two changes. Its
//! upgrade then deletes what only the first manifest has. If the HelmRelease is deleted again, the uninstall deletes everything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::installation::{Installed, may_have_release, prepared, rendered_with};
use crate::flux::apply::question::HELM_CONTROLLER;
use crate::flux::simulation::model::affected_owner::{Effect, OwnerApply, OwnerDeletion};
use crate::flux::simulation::model::node::BuiltObjects;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::behaviour::changed_owners::Followed;
use crate::flux::simulation::owners::behaviour::comparison::{Asked, Comparison};
use crate::flux::simulation::owners::helm::actions::action::ReleaseAction;
use crate::flux::simulation::owners::helm::actions::action_kind::ActionKind;
use crate::flux::simulation::owners::helm::actions::hook_runs::hook_runs;
use crate::flux::simulation::owners::helm::actions::remedies::hook_deletions;
use crate::flux::simulation::owners::helm::render::release_values::{
    ReleaseValues, values, values_before, values_between,
};
use crate::helm::hooks::HookEvent;
use crate::helm::rendered::Rendered;
use crate::kubernetes::object::{ObjectId, flag_at};
use crate::plan::ReasonCode;

/// Condition of everything that such an installation deletes, and of what its upgrade or uninstall deletes.
const INSTALLED_FIRST: &str = "it stays unless its release is installed between two changes of its spec or its values";

/// Installations that do not last: what they delete and apply.
#[derive(Default)]
pub(crate) struct FirstInstalls {
    pub(crate) deletes: BTreeMap<ObjectId, OwnerDeletion>,
    /// Objects that each of them applies.
    pub(crate) applied: Vec<Arc<BuiltObjects>>,
}

impl FirstInstalls {
    /// Adds them to the effect of the installation that lasts.
    pub(crate) fn add_to(self, effect: &mut Effect) {
        effect.keeps.retain(|id, _| !self.deletes.contains_key(id));
        for (id, deletion) in self.deletes {
            effect.deletes.entry(id).or_insert(deletion);
        }
        if let Some(applies) = &mut effect.applies {
            applies.earlier = self.applied;
        }
    }
}

/// The action after an installation that does not last.
#[derive(Clone, Copy)]
pub(crate) enum Next<'n> {
    /// An upgrade with this spec to this manifest.
    Upgrade {
        spec: &'n Value,
        manifest: &'n Rendered,
    },
    Uninstall,
    /// The chart fails with the last spec, so that the release stays as it is.
    Failure {
        spec: &'n Value,
    },
}

/// Returns what installations of a new release do that come before the end. Answers that are missing are added to the needs.
///
/// Fails with the reason why the effect is not known.
pub(crate) fn first_installs(
    comparison: &mut Comparison<'_, '_, '_>,
    id: &ObjectId,
    specs: &[Value],
    next: Next<'_>,
) -> Asked<FirstInstalls> {
    let mut found = FirstInstalls::default();
    let mut first = vec![];
    for spec in specs {
        first.push((spec, values(comparison, id, spec, true)?));
    }
    if let Next::Upgrade { spec, .. } | Next::Failure { spec } = next {
        first.extend(earlier_values(comparison, id, spec)?.into_iter().map(|values| (spec, values)));
    }
    for (spec, values) in first {
        // One that fails to render installs nothing.
        let Ok(installed) = rendered_with(comparison, id, spec, None, values)? else { continue };
        if matches!(next, Next::Upgrade { manifest, .. } if installed.new == *manifest) {
            continue;
        }
        let Ok(action) = prepared(comparison, id, spec, None, &installed)? else { continue };
        add_install(comparison, id, spec, &installed, action, next, &mut found);
    }
    Ok(found)
}

/// Returns the values that a new release may have before the last ones.
fn earlier_values(comparison: &mut Comparison<'_, '_, '_>, id: &ObjectId, spec: &Value) -> Asked<Vec<ReleaseValues>> {
    let between = values_between(comparison, id, spec)?.into_iter().map(ReleaseValues::Known);
    Ok(values_before(comparison, id, spec)?.into_iter().chain(between).collect())
}

/// Adds an installation, and the upgrade or the uninstall that follows it.
fn add_install(
    comparison: &mut Comparison<'_, '_, '_>,
    id: &ObjectId,
    spec: &Value,
    installed: &Installed<'_>,
    mut action: ReleaseAction,
    next: Next<'_>,
    found: &mut FirstInstalls,
) {
    let (state, manifest) = (comparison.state(), &installed.new);
    let none = BTreeSet::new();
    let attempt = installed.attempt(id, spec, &none);
    found.applied.push(Arc::new(attempt.applied_objects(comparison, [manifest], &action.left_hooks())));
    action.waits = Some(INSTALLED_FIRST.to_owned());
    action.removed = match next {
        Next::Upgrade { manifest: new, .. } => manifest.passing(&[new]),
        Next::Uninstall => manifest.passing(&[]),
        Next::Failure { .. } => BTreeSet::new(),
    };
    let mut deletes = action.effect(state, id).deletes;
    match next {
        Next::Upgrade { spec, manifest: new } => {
            let mut upgrade = ReleaseAction::new(ActionKind::Upgrade);
            upgrade.waits.clone_from(&action.waits);
            upgrade.hooks = hook_runs(state, spec, ActionKind::Upgrade, new, Some(manifest));
            deletes.extend(upgrade.effect(state, id).deletes);
        }
        Next::Uninstall if !flag_at(spec, "/uninstall/disableHooks") => {
            let mut uninstall = ReleaseAction::new(ActionKind::Install);
            uninstall.waits.clone_from(&action.waits);
            let hooks = hook_deletions(state, manifest, [HookEvent::PreDelete, HookEvent::PostDelete]);
            uninstall.removed = hooks.into_iter().map(|(id, _)| id).collect();
            deletes.extend(uninstall.effect(state, id).deletes);
        }
        Next::Uninstall | Next::Failure { .. } => {}
    }
    for (id, deletion) in deletes {
        found.deletes.entry(id).or_insert(deletion);
    }
}

/// Returns the effect of a release that is installed and uninstalled again, because its HelmRelease goes at once.
pub(crate) fn installed_for_a_while(comparison: &mut Comparison<'_, '_, '_>, id: &ObjectId) -> Asked<Followed> {
    let specs = comparison.state().specs_after(id);
    if specs.iter().any(|spec| may_have_release(comparison.state(), id, spec)) {
        return Err("its release may exist already".to_owned().into());
    }
    let found = first_installs(comparison, id, &specs, Next::Uninstall)?;
    Ok(match passing_effect(comparison.state(), id, found) {
        Some(effect) => Followed::Acts { effect: Box::new(effect), code: ActionKind::Install.code(), remarks: vec![] },
        None => Followed::No,
    })
}

/// Returns the effect of a new release whose chart fails with its last spec. It may be installed before with one of `earlier`.
pub(crate) fn installed_before_failure(
    comparison: &mut Comparison<'_, '_, '_>,
    id: &ObjectId,
    spec: &Value,
    earlier: &[Value],
    failed: Followed,
) -> Asked<Followed> {
    let found = first_installs(comparison, id, earlier, Next::Failure { spec })?;
    let effect = passing_effect(comparison.state(), id, found);
    Ok(match (failed, effect) {
        (Followed::Blocked { reason, .. }, Some(effect)) => Followed::Blocked { reason, effect: Box::new(effect) },
        (failed, _) => failed,
    })
}

/// Returns the effect of installations of which none is certain; `None` if nothing applies the HelmRelease.
fn passing_effect(state: &State<'_>, id: &ObjectId, found: FirstInstalls) -> Option<Effect> {
    let FirstInstalls { deletes, applied } = found;
    let (_, trigger) = state.applied_specs(id).last()?;
    Some(Effect {
        triggers: state.applying_events(id),
        deletes,
        applies: Some(OwnerApply {
            trigger,
            objects: Arc::default(),
            live_changes: BTreeMap::new(),
            earlier: applied,
            manager: HELM_CONTROLLER,
            code: ReasonCode::InChart,
            is_doubtful: true,
            chart: None,
        }),
        condition: Some(INSTALLED_FIRST.to_owned()),
        ..Effect::default()
    })
}
