//! Hooks of a chart: the events that run them, and what a run does to an object of the same identity.
//!
//! Source: Helm v4.2.2 `pkg/action/hooks.go`, `execHookWithDelayedShutdown`; `pkg/kube/statuswait.go`, `WatchUntilReady`;
//! `pkg/release/v1/util/manifest_sorter.go`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::kubernetes::object::{ObjectId, ObjectMetadata, text_at};
use crate::ownership::schemes::helm::release_record::RecordedHook;
use crate::ownership::schemes::helm::{HOOK, HOOK_POLICY, HOOK_WEIGHT};

/// Kinds in the order in which Helm creates their objects. Other kinds come after them, by name.
///
/// Source: Helm v4.2.2 `pkg/release/v1/util/kind_sorter.go`, `InstallOrder`.
const INSTALL_ORDER: [&str; 38] = [
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodSecurityPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "SecretList",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleList",
    "ClusterRoleBinding",
    "ClusterRoleBindingList",
    "Role",
    "RoleList",
    "RoleBinding",
    "RoleBindingList",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];

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

impl HookFate {
    /// Returns true if an object of the identity is there afterwards, unless the hook fails.
    pub(crate) fn is_left(self) -> bool {
        matches!(self, Self::Recreated | Self::Applied)
    }
}

/// A hook of a chart, or a live object that was one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hook {
    events: BTreeSet<HookEvent>,
    /// Words of the policy; empty without a policy.
    policies: BTreeSet<String>,
    weight: i64,
    kind: String,
    /// An expression for the health of its kind decides when it has succeeded.
    has_expression: bool,
    /// Manifest; null for a live object.
    pub(crate) manifest: Value,
}

impl Hook {
    /// Reads the annotations of a hook. `None` if Helm does not know one of its events, and then ignores the manifest.
    pub(crate) fn new<'a>(kind: &str, annotation: impl Fn(&str) -> Option<&'a str>, manifest: Value) -> Option<Self> {
        let events: BTreeSet<HookEvent> = words(annotation(HOOK)?).map(|word| event(&word)).collect::<Option<_>>()?;
        // An empty annotation is a policy that deletes nothing, not the default.
        let policies = annotation(HOOK_POLICY).into_iter().flat_map(words).collect();
        let weight = annotation(HOOK_WEIGHT).and_then(|weight| weight.parse().ok()).unwrap_or_default();
        Some(Self { events, policies, weight, kind: kind.to_owned(), has_expression: false, manifest })
    }

    /// Returns everything but its manifest, to be compared.
    pub(crate) fn settings(&self) -> impl PartialEq {
        (&self.events, &self.policies, self.weight, &self.kind, self.has_expression)
    }

    /// Reads a hook of a record, of whose manifest nothing but the name is known.
    pub(crate) fn of_record(RecordedHook { id, weight, events, policies }: &RecordedHook) -> Option<Self> {
        let [events, policies] = [events, policies].map(|words| words.join(","));
        let weight = weight.to_string();
        let annotation = |key: &str| match key {
            HOOK => Some(&*events),
            HOOK_POLICY => Some(&*policies).filter(|policies| !policies.is_empty()),
            HOOK_WEIGHT => Some(&*weight),
            _ => None,
        };
        Self::new(&id.kind, annotation, json!({"metadata": {"name": id.name}}))
    }

    /// Reads the annotations of a live object; `None` if it is no hook.
    pub(crate) fn of_live(object: &ObjectMetadata) -> Option<Self> {
        Self::new(&object.id.kind, |key| object.annotations.get(key), Value::Null)
    }

    /// Returns the place of the hook among those that an event runs one after the other.
    fn order(&self) -> impl Ord + '_ {
        let kind = INSTALL_ORDER.iter().position(|kind| *kind == self.kind).unwrap_or(INSTALL_ORDER.len());
        (self.weight, text_at(&self.manifest, "/metadata/name"), kind, &self.kind)
    }

    pub(crate) fn runs_at(&self, events: &[HookEvent]) -> bool {
        events.iter().any(|event| self.events.contains(event))
    }

    /// Sets whether an expression for the health of its kind decides when it has succeeded.
    pub(crate) fn set_expression(&mut self, has_expression: bool) {
        self.has_expression = has_expression;
    }

    /// Returns true if the hook can fail although the API server accepts it. Helm waits for nothing else to complete.
    pub(crate) fn can_fail(&self) -> bool {
        self.has_expression || ["Job", "Pod"].contains(&&*self.kind)
    }

    /// Returns the effect of a run on a live object of its identity.
    pub(crate) fn fate(&self) -> HookFate {
        if self.kind == "CustomResourceDefinition" {
            // Helm never deletes a definition that is a hook.
            HookFate::Applied
        } else if self.policies.contains("hook-succeeded") {
            HookFate::Deleted
        } else if self.is_deleted_before() {
            HookFate::Recreated
        } else if self.policies.contains("hook-failed") && self.can_fail() {
            HookFate::DeletedOnFailure
        } else {
            HookFate::Applied
        }
    }

    /// Returns true if a run deletes a live object of its identity, unless the hook fails.
    pub(crate) fn deletes(&self) -> bool {
        matches!(self.fate(), HookFate::Recreated | HookFate::Deleted)
    }

    /// Returns true if the object is gone before the hook can fail.
    pub(crate) fn is_deleted_first(&self) -> bool {
        let is_definition = self.kind == "CustomResourceDefinition";
        !is_definition && self.is_deleted_before()
    }

    /// Returns true if Helm deletes the object before it creates it again, unless it is a definition.
    fn is_deleted_before(&self) -> bool {
        self.policies.is_empty() || self.policies.contains("before-hook-creation")
    }
}

/// Returns the hooks that an event runs, one after the other.
pub(crate) fn in_order(hooks: &BTreeMap<ObjectId, Hook>, event: HookEvent) -> Vec<(&ObjectId, &Hook)> {
    let mut run: Vec<_> = hooks.iter().filter(|(_, hook)| hook.runs_at(&[event])).collect();
    run.sort_by(|(_, one), (_, other)| one.order().cmp(&other.order()));
    run
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
        hook(kind, "pre-upgrade", policy, "").unwrap().fate()
    }

    fn hook(kind: &str, events: &str, policy: &str, weight: &str) -> Option<Hook> {
        let policy = Some((HOOK_POLICY, policy)).filter(|(_, policy)| *policy != "none");
        let annotations: BTreeMap<_, _> = [(HOOK, events), (HOOK_WEIGHT, weight)].into_iter().chain(policy).collect();
        Hook::new(kind, |key| annotations.get(key).copied(), Value::Null)
    }

    #[test]
    fn the_policy_decides_what_becomes_of_an_object() {
        assert_eq!(fate("ConfigMap", "none"), HookFate::Recreated);
        assert_eq!(fate("ConfigMap", ""), HookFate::Applied, "an empty policy is one");
        assert_eq!(fate("ConfigMap", "before-hook-creation"), HookFate::Recreated);
        assert_eq!(fate("ConfigMap", "hook-succeeded"), HookFate::Deleted);
        assert_eq!(fate("ConfigMap", "Before-Hook-Creation, hook-succeeded"), HookFate::Deleted);
        assert_eq!(fate("ConfigMap", "hook-failed"), HookFate::Applied, "nothing but a Job or a Pod fails");
        assert_eq!(fate("Job", "hook-failed"), HookFate::DeletedOnFailure);
        assert_eq!(fate("CustomResourceDefinition", "hook-succeeded"), HookFate::Applied);
    }

    #[test]
    fn a_manifest_with_an_unknown_event_is_no_hook() {
        assert!(hook("Job", "crd-install, Post-Delete", "", "").is_none());
        let hook = hook("Job", "test-success, Post-Delete", "", "").unwrap();
        assert!(hook.runs_at(&[HookEvent::PostDelete]) && !hook.runs_at(&[HookEvent::PreInstall]));
    }

    #[test]
    fn weight_name_and_kind_order_hooks() {
        let before = |first: (&str, &str, &str), second: (&str, &str, &str)| {
            let [first, second] = [first, second].map(|(kind, weight, name)| Hook {
                manifest: json!({"metadata": {"name": name}}),
                ..hook(kind, "pre-upgrade", "", weight).unwrap()
            });
            first.order() < second.order()
        };
        assert!(before(("Job", "-5", "z"), ("Job", "", "a")));
        assert!(before(("Job", "1", "a"), ("Job", "+1", "b")));
        assert!(before(("ServiceAccount", "x", "a"), ("Job", "0", "a")));
        assert!(before(("Job", "0", "a"), ("Cog", "0", "a")));
        assert!(before(("Cog", "0", "a"), ("Widget", "0", "a")));
    }
}
