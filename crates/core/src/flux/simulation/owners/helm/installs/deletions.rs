//! Installations of releases: what they delete of that which exists.
//!
//! Hooks of the chart delete live objects of their names, and the remedy of a failed installation uninstalls what it took
//! over. Source: helm-controller v1.6.3 `internal/reconcile/install.go` and `uninstall_remediation.go`.

use std::collections::{BTreeMap, BTreeSet};

use super::first_installs::{Next, first_installs, installed_before_failure};
use super::installation::{Installed, prepared, rendered};
use crate::flux::simulation::model::affected_owner::Readiness;
use crate::flux::simulation::owners::behaviour::changed_owners::Followed;
use crate::flux::simulation::owners::behaviour::comparison::{Asked, Comparison};
use crate::flux::simulation::owners::helm::actions::action_kind::ActionKind;
use crate::flux::simulation::owners::helm::actions::applied::of_chart;
use crate::flux::simulation::owners::helm::actions::conditions::unmet_dependency;
use crate::flux::simulation::owners::helm::actions::failure::Failure;
use crate::flux::simulation::owners::helm::actions::remedies::Remedy;
use crate::flux::simulation::owners::helm::render::release_charts::without_metadata;
use crate::kubernetes::object::{ObjectId, Resource};
use crate::plan::{Reason, ReasonCode};

/// Computes the effect of the installation of a release on what exists. Nothing will delete the objects that are left.
/// Answers that are missing are added to the needs.
///
/// Fails with the reason why the effect is not known.
pub(crate) fn install(
    comparison: &mut Comparison<'_, '_, '_>,
    id: &ObjectId,
    live: Option<&Resource>,
    left: BTreeMap<ObjectId, Reason>,
) -> Asked<Followed> {
    let specs = comparison.state().specs_after(id);
    let Some((spec, earlier)) = specs.split_last() else { return Err("it has no spec".to_owned().into()) };
    if let Some(reason) = unmet_dependency(comparison.state(), id, spec) {
        return Ok(Followed::failing(reason.code, reason.detail));
    }
    let installed = match rendered(comparison, id, spec, live)? {
        Ok(installed) => installed,
        Err(failed) if live.is_none() => return installed_before_failure(comparison, id, spec, earlier, failed),
        Err(followed) => return Ok(followed),
    };
    let Installed { chart, new, .. } = &installed;
    let kind = ActionKind::Install;
    let action = match prepared(comparison, id, spec, live, &installed)? {
        Ok(action) => action,
        Err(followed) => return Ok(followed),
    };
    let mut effect = action.effect(comparison.state(), id);
    // A remedy without a retry leaves nothing of the release.
    let may_leave = action.may_fail_later() && action.remedy == (Remedy::Uninstall { is_retried: false });
    let is_doubtful = action.failure != Failure::Unexpected || may_leave;
    let none = BTreeSet::new();
    let attempt = installed.attempt(id, spec, &none);
    effect.applies = attempt.applies(comparison, [new], &action, is_doubtful).map(|applies| of_chart(applies, chart));
    effect.keeps.extend(left.into_iter().filter(|(id, _)| !new.objects.contains(id)));
    // An installed release is upgraded from what is recorded.
    if live.is_none() {
        let first = first_installs(comparison, id, earlier, Next::Upgrade { spec, manifest: new })?;
        first.add_to(&mut effect);
    }
    if !earlier.is_empty() || comparison.state().input.dry_runs.is_none() {
        effect.readiness = Readiness::Open;
    }
    let mut remarks = vec![format!("chart {} {}", chart.name, without_metadata(&chart.version))];
    remarks.extend(action.failures());
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
