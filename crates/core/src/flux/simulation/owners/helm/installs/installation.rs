//! One installation of a release: its rendered chart, and what it does.
//!
//! Source: helm-controller v1.6.3 `internal/reconcile/install.go` and `uninstall_remediation.go`.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::flux::build::charts::Chart;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::behaviour::changed_owners::Followed;
use crate::flux::simulation::owners::behaviour::comparison::{Asked, Comparison};
use crate::flux::simulation::owners::helm::actions::action::ReleaseAction;
use crate::flux::simulation::owners::helm::actions::action_kind::ActionKind;
use crate::flux::simulation::owners::helm::actions::conditions::condition;
use crate::flux::simulation::owners::helm::actions::failure::Attempt;
use crate::flux::simulation::owners::helm::actions::hook_runs::hook_runs;
use crate::flux::simulation::owners::helm::actions::records::check_record;
use crate::flux::simulation::owners::helm::actions::remedies::{can_fail_later, waits_for_objects};
use crate::flux::simulation::owners::helm::render::release_charts::{first_chart, packing_failure};
use crate::flux::simulation::owners::helm::render::release_values::{ReleaseValues, values};
use crate::flux::simulation::owners::helm::render::rendering::{Draft, Place, Rendering};
use crate::helm::rendered::Rendered;
use crate::helm::target::ReleaseTarget;
use crate::helm::uninstall::{NO_RECORD, without_release};
use crate::kubernetes::object::{GroupKind, ObjectId, Resource, flag_at};
use crate::kubernetes::recording::check_recorded;
use crate::ownership::Members;
use crate::ownership::schemes::flux::inventory_members;
use crate::ownership::schemes::flux_helmrelease::{is_record_of, release_record};
use crate::plan::ReasonCode;

/// Returns true unless it is known that Helm has no record of the release with this spec.
pub(crate) fn may_have_release(state: &State<'_>, id: &ObjectId, spec: &Value) -> bool {
    let Some(cluster) = state.cluster_of_spec(&id.namespace, spec) else { return true };
    let (name, namespace) = release_record(id, spec);
    let mut objects = cluster.objects.iter();
    cluster.gaps_hiding(&GroupKind::new("", "Secret")).next().is_some()
        || objects.any(|object| is_record_of(object, &namespace, &name))
}

/// A release that is installed, with its rendered chart.
pub(crate) struct Installed<'s> {
    pub(crate) chart: Chart,
    /// Assumption about the chart, for people; `None` if the chart is known.
    pub(crate) assumption: Option<String>,
    /// Values that the change removes, for people.
    removed_values: Option<String>,
    place: Place<'s>,
    pub(crate) new: Rendered,
}

impl Installed<'_> {
    /// Returns the version of the chart.
    pub(crate) fn version(&self) -> &str {
        &self.chart.version
    }

    /// Returns the attempt to install it once these live objects are gone.
    pub(crate) fn attempt<'t>(
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
            changes_all: false,
            revision: 1,
            steps: 1,
            is_private: self.new.is_private,
        }
    }
}

/// Renders the chart of a release that is installed with this spec. Returns what helm-controller does if it cannot.
///
/// Fails with the reason why the chart or its objects are not known.
pub(crate) fn rendered<'s>(
    comparison: &mut Comparison<'_, '_, 's>,
    id: &ObjectId,
    spec: &Value,
    live: Option<&Resource>,
) -> Asked<Result<Installed<'s>, Followed>> {
    let found = values(comparison, id, spec, true)?;
    rendered_with(comparison, id, spec, live, found)
}

/// Renders the chart of a release that is installed with this spec and these values.
pub(crate) fn rendered_with<'s>(
    comparison: &mut Comparison<'_, '_, 's>,
    id: &ObjectId,
    spec: &Value,
    live: Option<&Resource>,
    found: ReleaseValues,
) -> Asked<Result<Installed<'s>, Followed>> {
    check_recorded(spec)?;
    if let Some(why) = packing_failure(comparison.state(), id, spec) {
        return Ok(Err(Followed::failing(ReasonCode::RenderFails, why)));
    }
    let (chart, assumption) = first_chart(comparison, id, spec, live)?;
    let (found, removed_values) = match found {
        ReleaseValues::Known(found) => (found, None),
        ReleaseValues::Removed(found, what) => (found, Some(what)),
        ReleaseValues::Missing(what) => {
            return Ok(Err(Followed::failing(ReasonCode::ValuesMissing, what)));
        }
    };
    let place = Place::find(comparison, id, spec, ReleaseTarget::of_spec(id, spec, None))?;
    let skips_schema = flag_at(spec, "/install/disableSchemaValidation");
    let draft = Draft { chart: &chart, values: &found, revision: 1, skips_schema, spec };
    match place.render_twice(comparison, draft)? {
        Rendering::Done(new) => Ok(Ok(Installed { chart, assumption, removed_values, place, new: *new })),
        Rendering::Fails(why) | Rendering::Refused(why) => Ok(Err(Followed::failing(ReasonCode::RenderFails, why))),
    }
}

/// Returns the installation of a rendered release. Returns what helm-controller does if Helm cannot begin it.
pub(crate) fn prepared(
    comparison: &mut Comparison<'_, '_, '_>,
    id: &ObjectId,
    spec: &Value,
    live: Option<&Resource>,
    installed: &Installed<'_>,
) -> Asked<Result<ReleaseAction, Followed>> {
    let (new, kind) = (&installed.new, ActionKind::Install);
    if let Err(why) = check_record(comparison, &id.namespace, spec, &installed.place.target, 1) {
        return Ok(Err(Followed::failing(ReasonCode::RecordUnusable, why)));
    }
    let mut action = ReleaseAction::new(kind);
    action.assumption.clone_from(&installed.assumption);
    let gone = installed
        .removed_values
        .as_ref()
        .map(|what| format!("it stays if the values are gone before the install: {what}"));
    action.waits =
        gone.or_else(|| condition(comparison.state(), comparison.derivation.consequences, id, live, spec, false));
    action.does_not_wait = flag_at(spec, "/install/disableWait");
    action.hooks = hook_runs(comparison.state(), spec, kind, new, None);
    action.can_fail_later = can_fail_later(comparison.state(), spec, kind, new);
    action.waits_for_objects = waits_for_objects(&comparison.state().input.helm_controller, spec, kind, new);
    action.set_remedy(comparison.state(), spec, new, None);
    let has_consequences = action.can_delete(comparison.state());
    let none = BTreeSet::new();
    let attempt = installed.attempt(id, spec, &none);
    if let Some(why) = attempt.obstacle(comparison) {
        return Ok(Err(Followed::failing(ReasonCode::ApplyRefused, why)));
    }
    // Without a namespace nothing is created either. What is only created is not rehearsed without dry-runs.
    let is_rehearsed = comparison.state().input.dry_runs.is_some();
    if has_consequences || is_rehearsed || attempt.unplaced(comparison).is_some() {
        action.expect(attempt.expected(comparison, &BTreeSet::new()));
        if attempt.refused_remedy(comparison, action.remedy).is_some() {
            action.forgo_remedy();
        }
    }
    Ok(Ok(action))
}

/// Returns true if a live HelmRelease has no release that an upgrade or an uninstall could change.
pub(crate) fn is_not_installed(state: &State<'_>, live: &Resource) -> bool {
    let id = &live.object.id;
    if without_release(state.cluster_of(live), live) == Some(NO_RECORD) {
        return true;
    }
    live.at("/status/history/0").is_none()
        && inventory_members(&live.content) == Members::Unrecorded
        && state.specs_after(id).iter().all(|spec| !may_have_release(state, id, spec))
}
