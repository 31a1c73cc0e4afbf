//! Hooks of a chart: the events that run them, and what a run does to an object of the same identity.
//!
//! Source: Helm v4.2.2 `pkg/action/hooks.go`, `execHookWithDelayedShutdown`; `pkg/kube/statuswait.go`, `WatchUntilReady`;
//! `pkg/release/v1/util/manifest_sorter.go`.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::kubernetes::object::ObjectMetadata;
use crate::ownership::schemes::helm::{HOOK, HOOK_POLICY};

/// An event that runs hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HookEvent {
    PreInstall,
    PostInstall,
    PreUpgrade,
    PostUpgrade,
    PreRollback,
    PostRollback,
    PreDelete,
    PostDelete,
    Test,
}

/// Effect of the run of a hook on a live object of its identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HookFate {
    /// It is deleted, and the hook is created in its place.
    Recreated,
    /// It is deleted once the hook has succeeded.
    Deleted,
    /// It is deleted if the hook fails.
    DeletedOnFailure,
    /// The hook is applied to it, and it stays.
    Applied,
}

/// A hook of a chart, or a live object that was one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hook {
    events: BTreeSet<HookEvent>,
    /// Words of the policy; empty without a policy.
    policies: BTreeSet<String>,
    kind: String,
    /// Manifest; null for a live object.
    pub(crate) manifest: Value,
}

impl Hook {
    /// Reads the annotations of a hook. `None` if it has no event that Helm knows: Helm then ignores the manifest.
    pub(crate) fn new(kind: &str, events: &str, policy: &str, manifest: Value) -> Option<Self> {
        let events: BTreeSet<HookEvent> = words(events).filter_map(|word| event(&word)).collect();
        let policies = words(policy).filter(|word| !word.is_empty()).collect();
        (!events.is_empty()).then(|| Self { events, policies, kind: kind.to_owned(), manifest })
    }

    /// Reads the annotations of a live object; `None` if it is no hook.
    pub(crate) fn of_live(object: &ObjectMetadata) -> Option<Self> {
        let events = object.annotations.get(HOOK)?;
        let policy = object.annotations.get(HOOK_POLICY).unwrap_or_default();
        Self::new(&object.id.kind, events, policy, Value::Null)
    }

    /// Returns true if one of these events runs the hook.
    pub(crate) fn runs_at(&self, events: &[HookEvent]) -> bool {
        events.iter().any(|event| self.events.contains(event))
    }

    /// Returns true if the hook can fail although the API server accepts it. Helm waits for nothing else to complete.
    pub(crate) fn can_fail(&self) -> bool {
        ["Job", "Pod"].contains(&&*self.kind)
    }

    /// Returns the effect of a run on a live object of its identity.
    pub(crate) fn fate(&self) -> HookFate {
        let has = |policy: &str| self.policies.contains(policy);
        if self.kind == "CustomResourceDefinition" {
            // Helm never deletes a definition that is a hook.
            HookFate::Applied
        } else if has("hook-succeeded") {
            HookFate::Deleted
        } else if self.policies.is_empty() || has("before-hook-creation") {
            HookFate::Recreated
        } else if has("hook-failed") && self.can_fail() {
            HookFate::DeletedOnFailure
        } else {
            HookFate::Applied
        }
    }

    /// Returns true if the object is gone before the hook can fail.
    pub(crate) fn is_deleted_first(&self) -> bool {
        let is_definition = self.kind == "CustomResourceDefinition";
        !is_definition && (self.policies.is_empty() || self.policies.contains("before-hook-creation"))
    }
}

/// Returns the words of a list that commas separate, in lower case.
fn words(list: &str) -> impl Iterator<Item = String> {
    list.split(',').map(|word| word.trim().to_lowercase())
}

fn event(word: &str) -> Option<HookEvent> {
    Some(match word {
        "pre-install" => HookEvent::PreInstall,
        "post-install" => HookEvent::PostInstall,
        "pre-upgrade" => HookEvent::PreUpgrade,
        "post-upgrade" => HookEvent::PostUpgrade,
        "pre-rollback" => HookEvent::PreRollback,
        "post-rollback" => HookEvent::PostRollback,
        "pre-delete" => HookEvent::PreDelete,
        "post-delete" => HookEvent::PostDelete,
        "test" | "test-success" => HookEvent::Test,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fate(kind: &str, policy: &str) -> HookFate {
        Hook::new(kind, "pre-upgrade", policy, Value::Null).unwrap().fate()
    }

    #[test]
    fn the_policy_decides_what_becomes_of_an_object() {
        assert_eq!(fate("ConfigMap", ""), HookFate::Recreated);
        assert_eq!(fate("ConfigMap", "before-hook-creation"), HookFate::Recreated);
        assert_eq!(fate("ConfigMap", "hook-succeeded"), HookFate::Deleted);
        assert_eq!(fate("ConfigMap", "Before-Hook-Creation, hook-succeeded"), HookFate::Deleted);
        assert_eq!(fate("ConfigMap", "hook-failed"), HookFate::Applied, "nothing but a Job or a Pod fails");
        assert_eq!(fate("Job", "hook-failed"), HookFate::DeletedOnFailure);
        assert_eq!(fate("CustomResourceDefinition", "hook-succeeded"), HookFate::Applied);
    }

    #[test]
    fn a_manifest_with_unknown_events_only_is_no_hook() {
        assert!(Hook::new("Job", "crd-install", "", Value::Null).is_none());
        let hook = Hook::new("Job", "crd-install, Post-Delete", "", Value::Null).unwrap();
        assert!(hook.runs_at(&[HookEvent::PostDelete]) && !hook.runs_at(&[HookEvent::PreInstall, HookEvent::Test]));
    }
}
