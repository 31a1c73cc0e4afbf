//! Remedies of helm-controller after a failed install or upgrade, and what they delete.
//!
//! Source: helm-controller v1.6.3 `api/v2` (`InstallRemediation`, `UpgradeRemediation`) and
//! `internal/reconcile/atomic_release.go`, `actionForState`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::action_kind::ActionKind;
use super::hook_runs::{FailingHooks, ignores_tests};
use crate::flux::health_exprs::expr_of;
use crate::flux::helm_controller::HelmController;
use crate::flux::simulation::model::state::State;
use crate::helm::hooks::{HookEvent, HookFate};
use crate::helm::rendered::{Rendered, is_kept_live};
use crate::kubernetes::object::{ObjectId, flag_at, text_at};
use crate::plan::Action;

/// Action of helm-controller after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// The failed release stays.
    None,
    /// The release is uninstalled.
    Uninstall {
        /// It is installed again.
        is_retried: bool,
    },
    /// The release goes back to its last revision.
    Rollback,
}

/// Kinds for which helm-controller does not wait: they are ready once they exist.
const READY_AT_ONCE: [(&str, &str); 16] = [
    ("", "ConfigMap"),
    ("", "Secret"),
    ("", "ServiceAccount"),
    ("", "Namespace"),
    ("", "LimitRange"),
    ("", "ResourceQuota"),
    ("rbac.authorization.k8s.io", "Role"),
    ("rbac.authorization.k8s.io", "RoleBinding"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("networking.k8s.io", "NetworkPolicy"),
    ("networking.k8s.io", "IngressClass"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("storage.k8s.io", "StorageClass"),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
];

/// Kinds for which Helm waits with the wait strategy `legacy`. Jobs are one of them unless `disableWaitForJobs` is set.
///
/// Source: Helm v4.2.2 `pkg/kube/ready.go`, `IsReady`.
const WAITED_FOR_BY_LEGACY: [(&str, &str); 9] = [
    ("", "Pod"),
    ("", "PersistentVolumeClaim"),
    ("", "Service"),
    ("", "ReplicationController"),
    ("apps", "DaemonSet"),
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
];

/// Settings of `remediation` of an install or an upgrade, with their defaults.
pub(crate) struct Remediation {
    /// Negative without a limit.
    pub(crate) retries: i64,
    remediates_last: bool,
}

impl Remediation {
    /// Returns the settings of a spec; `None` if failures are only retried.
    pub(crate) fn of(controller: &HelmController, spec: &Value, kind: ActionKind) -> Option<Self> {
        let action = kind.field();
        if controller.retries(spec, action) {
            return None;
        }
        let remediation = spec.pointer(&format!("/{action}/remediation")).unwrap_or(&Value::Null);
        let retries = remediation["retries"].as_i64().unwrap_or_default();
        let default = kind == ActionKind::Upgrade && retries > 0;
        let remediates_last = remediation["remediateLastFailure"].as_bool().unwrap_or(default);
        Some(Self { retries, remediates_last })
    }
}

/// Returns true if the uninstall of a release with this spec leaves a record over which Helm refuses to install the next one.
///
/// Source: Helm v4.2.2 `pkg/action/install.go`, `availableName`.
pub(crate) fn keeps_name(spec: &Value) -> bool {
    flag_at(spec, "/uninstall/keepHistory") && !flag_at(spec, "/install/replace")
}

/// Returns true if the dependents of the objects of a release stay when it is uninstalled.
pub(crate) fn orphans_dependents(spec: &Value) -> bool {
    text_at(spec, "/uninstall/deletionPropagation") == "orphan"
}

impl Remedy {
    /// Returns the remedy of an action with this spec.
    pub(crate) fn of(controller: &HelmController, spec: &Value, kind: ActionKind) -> Self {
        let found = Remediation::of(controller, spec, kind);
        let Some(Remediation { retries, remediates_last }) = found else { return Self::None };
        let is_retried = !keeps_name(spec);
        match kind {
            _ if retries == 0 && !remediates_last => Self::None,
            ActionKind::Install => Self::Uninstall { is_retried: is_retried && !remediates_last },
            // The installation that follows has its own remedy.
            ActionKind::Upgrade if text_at(spec, "/upgrade/remediation/strategy") == "uninstall" => {
                Self::Uninstall { is_retried }
            }
            ActionKind::Upgrade => Self::Rollback,
        }
    }

    /// Returns the live objects that the remedy deletes, with what becomes of them. `old` is the manifest before the action.
    pub(crate) fn deletions(
        self,
        state: &State<'_>,
        spec: &Value,
        new: &Rendered,
        old: Option<&Rendered>,
    ) -> BTreeMap<ObjectId, Action> {
        let live = new.objects.iter().filter(|id| state.is_live(id));
        let mut deletions = BTreeMap::new();
        match self {
            Self::None => {}
            Self::Uninstall { is_retried } => {
                let action = if is_retried { Action::Recreate } else { Action::Delete };
                let objects = live.filter(|id| !new.is_kept(id));
                deletions.extend(objects.map(|id| (id.clone(), action)));
                if !flag_at(spec, "/uninstall/disableHooks") {
                    deletions.extend(hook_deletions(state, new, [HookEvent::PreDelete, HookEvent::PostDelete]));
                }
                if is_retried && !flag_at(spec, "/install/disableHooks") {
                    deletions.extend(hook_deletions(state, new, ActionKind::Install.events()));
                }
            }
            Self::Rollback => {
                let unlisted = live.filter(|id| old.is_some_and(|old| !old.objects.contains(*id)));
                let taken_over = unlisted.filter(|id| !state.live_object(id).is_some_and(is_kept_live));
                deletions.extend(taken_over.map(|id| (id.clone(), Action::Delete)));
                let has_hooks = !flag_at(spec, "/rollback/disableHooks");
                for old in old.into_iter().filter(|_| has_hooks) {
                    deletions.extend(hook_deletions(state, old, [HookEvent::PreRollback, HookEvent::PostRollback]));
                }
            }
        }
        deletions
    }

    /// Describes the remedy of an action.
    pub(crate) fn describe(self, kind: ActionKind) -> Option<String> {
        let (word, field) = (kind.word(), kind.field());
        match self {
            Self::None => None,
            Self::Uninstall { .. } => {
                Some(format!("if the {word} fails, all objects of the release are deleted ({field}.remediation)"))
            }
            Self::Rollback => {
                Some(format!("if the {word} fails later, deleted objects are created again ({field}.remediation)"))
            }
        }
    }
}

/// Returns the number of times that an upgrade which always fails is tried, and the number of remedies.
pub(crate) fn attempts(controller: &HelmController, spec: &Value, remedy: Remedy) -> (u64, u64) {
    let found = Remediation::of(controller, spec, ActionKind::Upgrade);
    let Some(Remediation { retries, remediates_last }) = found else { return (u64::MAX, 0) };
    let Ok(retries) = u64::try_from(retries) else { return (u64::MAX, u64::MAX) };
    let all = retries.saturating_add(1);
    let remedies = if remediates_last { all } else { retries };
    (all, if remedy == Remedy::None { 0 } else { remedies })
}

/// Returns the live objects of hooks that these events delete.
pub(crate) fn hook_deletions(
    state: &State<'_>,
    rendered: &Rendered,
    events: [HookEvent; 2],
) -> Vec<(ObjectId, Action)> {
    let fates = rendered.hook_fates(None, events).into_iter();
    let live = fates.filter(|(id, _)| state.is_live(id));
    let deletions = live.filter_map(|(id, fate)| match fate {
        HookFate::Recreated => Some((id, Action::Recreate)),
        HookFate::Deleted => Some((id, Action::Delete)),
        HookFate::DeletedOnFailure | HookFate::Applied => None,
    });
    deletions.collect()
}

/// Returns true if an action can fail although the API server accepts all objects: something does not become ready, a hook
/// fails, or a test.
pub(crate) fn can_fail_later(state: &State<'_>, spec: &Value, kind: ActionKind, new: &Rendered) -> bool {
    let action = kind.field();
    let runs_hooks = !flag_at(spec, &format!("/{action}/disableHooks"));
    let [_, after] = kind.events();
    let may_fail = FailingHooks::of(state, spec, action);
    let is_tested = flag_at(spec, "/test/enable") && !ignores_tests(spec, kind);
    let run_after = new.hooks_at([after]).filter(|_| runs_hooks);
    let tests = new.hooks_at([HookEvent::Test]).filter(|_| is_tested);
    waits_for_objects(&state.input.helm_controller, spec, kind, new)
        || run_after.chain(tests).any(|(id, hook)| may_fail.has(id, hook))
}

/// Returns true if an action waits until objects are ready, and fails if they are not.
pub(crate) fn waits_for_objects(controller: &HelmController, spec: &Value, kind: ActionKind, new: &Rendered) -> bool {
    let action = kind.field();
    let waits = !flag_at(spec, &format!("/{action}/disableWait"));
    let is_legacy = controller.waits_as_helm3(spec);
    let waits_for_jobs = !flag_at(spec, &format!("/{action}/disableWaitForJobs"));
    let has_awaited = new.kinds().iter().any(|kind| {
        let words = (&*kind.group, &*kind.kind);
        let is_awaited_job = words == ("batch", "Job") && waits_for_jobs;
        if is_legacy {
            WAITED_FOR_BY_LEGACY.contains(&words) || is_awaited_job
        } else {
            !READY_AT_ONCE.contains(&words) || expr_of(spec, kind).is_some()
        }
    });
    waits && has_awaited
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn retries_and_the_strategy_decide_the_remedy() {
        let of = |spec: Value, kind| Remedy::of(&HelmController::default(), &spec, kind);
        let install = |remediation: Value| of(json!({"install": {"remediation": remediation}}), ActionKind::Install);
        assert_eq!(install(json!({})), Remedy::None);
        assert_eq!(install(json!({"retries": 3})), Remedy::Uninstall { is_retried: true });
        assert_eq!(install(json!({"retries": -1})), Remedy::Uninstall { is_retried: true });
        assert_eq!(install(json!({"remediateLastFailure": true})), Remedy::Uninstall { is_retried: false });
        for (replace, is_retried) in [(false, false), (true, true)] {
            let spec = json!({"install": {"remediation": {"retries": 1}, "replace": replace}, "uninstall": {"keepHistory": true}});
            assert_eq!(of(spec, ActionKind::Install), Remedy::Uninstall { is_retried });
        }
        let upgrade = |remediation: Value| of(json!({"upgrade": {"remediation": remediation}}), ActionKind::Upgrade);
        assert_eq!(upgrade(json!({"strategy": "uninstall"})), Remedy::None);
        assert_eq!(upgrade(json!({"retries": 1})), Remedy::Rollback);
        assert_eq!(upgrade(json!({"retries": 1, "strategy": "uninstall"})), Remedy::Uninstall { is_retried: true });
        let retried = json!({"upgrade": {"strategy": {"name": "RetryOnFailure"}, "remediation": {"retries": 1}}});
        assert_eq!(of(retried, ActionKind::Upgrade), Remedy::None);
        let by_default = HelmController { retries_by_default: true, ..HelmController::default() };
        let spec = |name: Value| json!({"install": {"strategy": {"name": name}, "remediation": {"retries": 1}}});
        let by_default = [Value::Null, "RemediateOnFailure".into()]
            .map(|name| Remedy::of(&by_default, &spec(name), ActionKind::Install));
        assert_eq!(by_default, [Remedy::None, Remedy::Uninstall { is_retried: true }]);
    }

    #[test]
    fn an_upgrade_is_tried_once_more_than_its_retries() {
        let of = |upgrade: Value| {
            let (controller, spec) = (HelmController::default(), json!({"upgrade": upgrade}));
            attempts(&controller, &spec, Remedy::of(&controller, &spec, ActionKind::Upgrade))
        };
        assert_eq!(of(json!({})), (1, 0));
        assert_eq!(of(json!({"remediation": {"retries": 2}})), (3, 3));
        assert_eq!(of(json!({"remediation": {"retries": 2, "remediateLastFailure": false}})), (3, 2));
        assert_eq!(of(json!({"remediation": {"remediateLastFailure": true}})), (1, 1));
        assert_eq!(of(json!({"remediation": {"retries": -1}})), (u64::MAX, u64::MAX));
        assert_eq!(of(json!({"strategy": {"name": "RetryOnFailure"}})), (u64::MAX, 0));
    }

    #[test]
    fn only_what_can_be_waited_for_can_fail_later() {
        let rendered = |kind: &str| {
            let text = format!("apiVersion: v1\nkind: {kind}\nmetadata: {{name: a}}\n");
            Rendered::read(&text, "shop", &[], None, false).unwrap()
        };
        let can_fail = |kind: &str, spec: Value| {
            waits_for_objects(&HelmController::default(), &spec, ActionKind::Upgrade, &rendered(kind))
        };
        assert!(!can_fail("ConfigMap", json!({})));
        assert!(can_fail("Pod", json!({})));
        assert!(!can_fail("Pod", json!({"upgrade": {"disableWait": true}})));
        let legacy = json!({"waitStrategy": {"name": "legacy"}});
        assert!(can_fail("Endpoints", json!({})) && !can_fail("Endpoints", legacy.clone()) && can_fail("Pod", legacy));
    }
}
