//! Installations of releases: what they delete of that which exists.
//!
//! Hooks of the chart delete live objects of their names, and the remedy of a failed installation uninstalls what it took
//! over. Source: helm-controller v1.6.3 `internal/reconcile/install.go` and `uninstall_remediation.go`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::action::ReleaseAction;
use super::action_kind::ActionKind;
use super::applied::{hook_runs, of_chart};
use super::conditions::{condition, unmet_dependency};
use super::failure::{Attempt, Failure};
use super::first_installs::{Next, first_installs};
use super::remedies::{Remedy, can_fail_later, test_fates};
use super::render::release_charts::{first_chart, without_metadata};
use super::render::release_values::{ReleaseValues, values};
use super::render::rendering::{Draft, Place, Rendering};
use crate::flux::build::charts::Chart;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::behaviour::changed_owners::Followed;
use crate::flux::simulation::owners::behaviour::comparison::{Asked, Comparison};
use crate::helm::rendered::Rendered;
use crate::helm::target::ReleaseTarget;
use crate::kubernetes::object::{GroupKind, ObjectId, Resource, flag_at};
use crate::kubernetes::recording::check_recorded;
use crate::ownership::schemes::flux_helmrelease::{is_record_of, release_record};
use crate::plan::{Reason, ReasonCode};

/// Returns true unless it is known that Helm has no record of the release with this spec.
pub(super) fn may_have_release(state: &State<'_>, id: &ObjectId, spec: &Value) -> bool {
    let Some(cluster) = state.cluster_of_spec(&id.namespace, spec) else { return true };
    let (name, namespace) = release_record(id, spec);
    let mut objects = cluster.objects.iter();
    cluster.gaps_hiding(&GroupKind::new("", "Secret")).next().is_some()
        || objects.any(|object| is_record_of(object, &namespace, &name))
}

/// A release that is installed, with its rendered chart.
pub(super) struct Installed<'s> {
    pub(super) chart: Chart,
    /// Assumption about the chart, for people; `None` if the chart is known.
    pub(super) assumption: Option<String>,
    /// Values that the change removes, for people.
    removed_values: Option<String>,
    place: Place<'s>,
    new: Rendered,
}

impl Installed<'_> {
    /// Returns the version of the chart.
    pub(super) fn version(&self) -> &str {
        &self.chart.version
    }

    /// Returns its manifest.
    pub(super) fn manifest(&self) -> &Rendered {
        &self.new
    }

    /// Returns the attempt to install it once these live objects are gone.
    pub(super) fn attempt<'t>(
        &'t self,
        id: &'t ObjectId,
        spec: &'t Value,
        gone: &'t BTreeSet<ObjectId>,
    ) -> Attempt<'t> {
        Attempt {
            kind: ActionKind::Install,
            id,
            spec,
            place: &self.place,
            new: &self.new,
            old: None,
            gone,
            has_consequences: true,
            changes_all: false,
            is_private: self.new.is_private,
        }
    }
}

/// Renders the chart of a release that is installed with this spec. Returns what helm-controller does if it cannot.
///
/// Fails with the reason why the chart or its objects are not known.
pub(super) fn rendered<'s>(
    comparison: &mut Comparison<'_, '_, 's>,
    id: &ObjectId,
    spec: &Value,
    live: Option<&Resource>,
) -> Asked<Result<Installed<'s>, Followed>> {
    let found = values(comparison, id, spec, true)?;
    rendered_with(comparison, id, spec, live, found)
}

/// Renders the chart of a release that is installed with this spec and these values.
pub(super) fn rendered_with<'s>(
    comparison: &mut Comparison<'_, '_, 's>,
    id: &ObjectId,
    spec: &Value,
    live: Option<&Resource>,
    found: ReleaseValues,
) -> Asked<Result<Installed<'s>, Followed>> {
    check_recorded(spec)?;
    let (chart, assumption) = first_chart(comparison, id, spec, live)?;
    let (found, removed_values) = match found {
        ReleaseValues::Known(found) => (found, None),
        ReleaseValues::Removed(found, what) => (found, Some(what)),
        ReleaseValues::Missing(what) => return Ok(Err(Followed::blocked(ReasonCode::ValuesMissing, what))),
    };
    let place = Place::find(comparison, id, spec, ReleaseTarget::of_spec(id, spec, None))?;
    let skips_schema = flag_at(spec, "/install/disableSchemaValidation");
    let draft = Draft { chart: &chart, values: &found, revision: 1, skips_schema, spec };
    match place.render_twice(comparison, draft)? {
        Rendering::Done(new) => Ok(Ok(Installed { chart, assumption, removed_values, place, new: *new })),
        Rendering::Fails(why) | Rendering::Refused(why) => Ok(Err(Followed::blocked(ReasonCode::RenderFails, why))),
    }
}

/// Computes the effect of the installation of a release on what exists. Nothing will delete the objects that are left.
/// Answers that are missing are added to the needs.
///
/// Fails with the reason why the effect is not known.
pub(super) fn install(
    comparison: &mut Comparison<'_, '_, '_>,
    id: &ObjectId,
    live: Option<&Resource>,
    left: BTreeMap<ObjectId, Reason>,
) -> Asked<Followed> {
    let specs = comparison.state().specs_after(id);
    let Some((spec, earlier)) = specs.split_last() else { return Err("it has no spec".to_owned().into()) };
    if let Some(reason) = unmet_dependency(comparison.state(), id, spec) {
        return Ok(Followed::Blocked { reason, effect: Box::default() });
    }
    let installed = match rendered(comparison, id, spec, live)? {
        Ok(installed) => installed,
        Err(_) if !earlier.is_empty() => {
            return Err("its chart fails with its last spec, and may be installed with another one first"
                .to_owned()
                .into());
        }
        Err(followed) => return Ok(followed),
    };
    let Installed { chart, new, .. } = &installed;
    let kind = ActionKind::Install;
    let action = match prepared(comparison, id, spec, live, &installed)? {
        Ok(action) => action,
        Err(followed) => return Ok(followed),
    };
    let has_consequences = action.can_delete(comparison.state()) || action.failure != Failure::Unexpected;
    let mut effect = action.effect(comparison.state(), id);
    // A remedy without a retry leaves nothing of the release.
    let may_leave = action.can_fail_later && action.remedy == (Remedy::Uninstall { is_retried: false });
    let is_doubtful = action.failure != Failure::Unexpected || may_leave;
    let none = BTreeSet::new();
    let attempt = installed.attempt(id, spec, &none);
    effect.applies =
        attempt.applies(comparison, [new], &action.hooks, is_doubtful).map(|applies| of_chart(applies, chart));
    effect.keeps.extend(left.into_iter().filter(|(id, _)| !new.objects.contains(id)));
    // An installed release is upgraded from what is recorded.
    if live.is_none() {
        let first = first_installs(comparison, id, earlier, Some(&Next { spec, manifest: new }))?;
        first.add_to(&mut effect);
    }
    let mut remarks = vec![format!("chart {} {}", chart.name, without_metadata(&chart.version))];
    remarks.extend(has_consequences.then(|| action.failure.describe(kind)).flatten());
    remarks.extend(action.remedy.describe(kind).filter(|_| !action.remedied.is_empty()));
    let is_refused = matches!(action.failure, Failure::Always(_)) && effect.deletes.is_empty();
    if is_refused {
        let detail = action.failure.describe(kind).unwrap_or_default();
        return Ok(Followed::Blocked {
            reason: Reason::new(ReasonCode::ApplyRefused, detail),
            effect: Box::new(effect),
        });
    }
    Ok(Followed::Acts { effect: Box::new(effect), code: kind.code(), remarks })
}

/// Returns the installation of a rendered release. Returns what helm-controller does if Helm cannot begin it.
pub(super) fn prepared(
    comparison: &mut Comparison<'_, '_, '_>,
    id: &ObjectId,
    spec: &Value,
    live: Option<&Resource>,
    installed: &Installed<'_>,
) -> Asked<Result<ReleaseAction, Followed>> {
    let (new, kind) = (&installed.new, ActionKind::Install);
    let mut action = ReleaseAction::new(kind);
    action.assumption.clone_from(&installed.assumption);
    let gone = installed
        .removed_values
        .as_ref()
        .map(|what| format!("it stays if the values are gone before the install: {what}"));
    action.waits =
        gone.or_else(|| condition(comparison.state(), comparison.derivation.consequences, id, live, spec, false));
    action.does_not_wait = flag_at(spec, "/install/disableWait");
    action.hooks = hook_runs(spec, kind, new, None, &test_fates(spec, new));
    action.can_fail_later = can_fail_later(spec, kind, new);
    action.remedy = Remedy::of(spec, kind);
    action.remedied = action.remedy.deletions(comparison.state(), spec, new, None);
    let has_consequences = action.can_delete(comparison.state());
    let none = BTreeSet::new();
    let attempt = Attempt { has_consequences, ..installed.attempt(id, spec, &none) };
    if let Some(why) = attempt.obstacle(comparison) {
        return Ok(Err(Followed::blocked(ReasonCode::ApplyRefused, why)));
    }
    // Without a namespace nothing is created either.
    let has_consequences = has_consequences || attempt.unplaced(comparison).is_some();
    if has_consequences {
        (action.failure, action.refused_deletions) = attempt.failure(comparison, &BTreeSet::new());
        action.waits = action.waits.or_else(|| attempt.unrecorded(comparison));
    }
    Ok(Ok(action))
}
