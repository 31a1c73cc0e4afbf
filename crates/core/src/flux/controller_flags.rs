//! Flags of kustomize-controller that decide what it reconciles, and as whom.
//!
//! Source: main.go of kustomize-controller at v1.9.5, and docs/reference/kustomize-controller.md 9.2.

use std::collections::BTreeSet;

use super::kinds::KUSTOMIZE_CONTROLLER;
use super::spec::KustomizationSpec;
use crate::kubernetes::object::{GroupKind, KeyValues, ObjectMetadata};
use crate::kubernetes::selector::Selector;

/// Flags with values that are texts. Without a readable Deployment they are the defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControllerFlags {
    /// `--default-service-account`: account of Kustomizations that name none.
    pub default_service_account: Option<String>,
    /// `--override-manager`: prefixes of field managers whose fields are taken over.
    pub override_managers: Vec<String>,
    /// `--override-manager-before-dry-run`: names of field managers whose fields are taken over before the dry-run. Since 1.10.
    pub managers_before_dry_run: BTreeSet<String>,
    /// `--custom-apply-stage-kinds`: kinds that are applied after definitions and classes, and before all others.
    pub custom_stage_kinds: BTreeSet<GroupKind>,
    /// The feature gate `MigrateAPIVersion`: the fields of all managers get the version of the manifest before the dry-run.
    pub migrates_versions: bool,
    /// Namespace of the controller with `--watch-all-namespaces=false`: a Kustomization elsewhere is not reconciled.
    pub watched_namespace: Option<String>,
    /// `--watch-label-selector` of each Deployment of the controller: a Kustomization that none selects is not reconciled.
    /// Empty if all are.
    pub watched: Vec<String>,
}

impl ControllerFlags {
    /// Sets a flag by its name without dashes. Other flags are left out.
    pub(super) fn set(&mut self, name: &str, value: &str) {
        match name {
            "default-service-account" => {
                self.default_service_account = (!value.is_empty()).then(|| value.to_owned());
            }
            "override-manager" => self.override_managers.push(value.to_owned()),
            "override-manager-before-dry-run" => drop(self.managers_before_dry_run.insert(value.to_owned())),
            "custom-apply-stage-kinds" => {
                // Without a slash it is a kind of the core group (`ParseGroupKindSet` in utils/meta.go of pkg/ssa v0.76.2).
                let entries = value.split(',').map(str::trim);
                let kinds = entries.map(|entry| entry.split_once('/').unwrap_or(("", entry)));
                self.custom_stage_kinds.extend(kinds.map(|(group, kind)| GroupKind::new(group, kind)));
            }
            _ => {}
        }
    }

    /// Returns the service account that a Kustomization with this spec is applied as, by its name in the namespace of the
    /// Kustomization; `None` for the account of the controller.
    pub fn service_account<'a>(&'a self, spec: &'a KustomizationSpec) -> Option<&'a str> {
        spec.service_account().or(self.default_service_account.as_deref())
    }

    /// Returns true if the controller takes over the fields of a manager before it applies. The names are prefixes, except
    /// those that are taken over before the dry-run.
    /// `applies` is true for the operation Apply. Source: docs/reference/kustomize-controller.md 4.4.
    pub(crate) fn takes_over(&self, manager: &str, applies: bool) -> bool {
        manager.starts_with("kubectl")
            || (!applies
                && ["before-first-apply", KUSTOMIZE_CONTROLLER].iter().any(|prefix| manager.starts_with(prefix)))
            || self.override_managers.iter().any(|prefix| manager.starts_with(prefix.as_str()))
            || self.managers_before_dry_run.contains(manager)
    }

    /// Returns what the controller changes in a live object before its dry-run, for people, if a dry-run without that can have
    /// another answer. `is_of_live_fields` is true if that is about fields of the live object.
    ///
    /// Source: `migrateAPIVersion` in manager_apply.go of fluxcd/pkg/ssa v0.76.2.
    pub fn change_before_dry_run(&self, live: &ObjectMetadata, is_of_live_fields: bool) -> Option<String> {
        let mut managers = live.managed_fields.iter().map(|entry| &*entry.manager);
        if let Some(manager) = managers.find(|manager| self.managers_before_dry_run.contains(*manager)) {
            return Some(format!("takes over the fields of {manager}"));
        }
        (self.migrates_versions && is_of_live_fields)
            .then(|| "rewrites the API version of the fields of all managers".to_owned())
    }

    /// Returns true if the controller reconciles Kustomizations of a namespace.
    pub(crate) fn watches_namespace(&self, namespace: &str) -> bool {
        self.watched_namespace.as_ref().is_none_or(|watched| watched == namespace)
    }
}

/// Returns true if one of the label selectors of a controller's Deployments selects an object with these labels. Without selectors, and
/// with one that cannot be parsed, everything is selected.
pub(crate) fn is_selected(selectors: &[String], labels: &KeyValues) -> bool {
    let mut parsed = selectors.iter().map(|text| Selector::parse(text));
    selectors.is_empty() || parsed.any(|parsed| parsed.map_or(true, |selector| selector.matches(labels)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::object::ManagedFieldsEntry;
    use crate::testing::object;

    #[test]
    fn a_manager_with_an_overridden_prefix_is_taken_over() {
        let mut flags = ControllerFlags::default();
        let managers =
            [("kubectl-edit", true), ("before-first-apply", false), ("before-first-apply", true), ("Lens", true)];
        let taken = |flags: &ControllerFlags| managers.map(|(manager, applies)| flags.takes_over(manager, applies));
        assert_eq!(taken(&flags), [true, true, false, false]);
        flags.set("override-manager", "Len");
        assert_eq!(taken(&flags), [true, true, false, true]);
        let mut flags = ControllerFlags::default();
        flags.set("override-manager-before-dry-run", "Len");
        assert_eq!(taken(&flags), [true, true, false, false], "these names are no prefixes");
        flags.set("override-manager-before-dry-run", "Lens");
        assert_eq!(taken(&flags), [true, true, false, true]);
    }

    #[test]
    fn what_the_controller_changes_before_its_dry_run_can_change_the_answer() {
        let mut live = object("", "ConfigMap", "shop", "a");
        live.managed_fields = vec![ManagedFieldsEntry { manager: "Lens".into(), ..ManagedFieldsEntry::default() }];
        let mut flags = ControllerFlags::default();
        let changes =
            |flags: &ControllerFlags| [false, true].map(|it| flags.change_before_dry_run(&live, it).is_some());
        assert_eq!(changes(&flags), [false, false]);
        flags.migrates_versions = true;
        assert_eq!(changes(&flags), [false, true]);
        flags.set("override-manager-before-dry-run", "Lens");
        assert_eq!(changes(&flags), [true, true]);
    }

    #[test]
    fn a_kustomization_is_watched_if_any_deployment_selects_it() {
        let labels: KeyValues = [("shard".to_owned(), "b".to_owned())].into_iter().collect();
        let watches = |selectors: &[&str]| {
            let selectors: Vec<String> = selectors.iter().map(|text| (*text).to_owned()).collect();
            is_selected(&selectors, &labels)
        };
        assert!(watches(&[]) && watches(&["!shard", "shard=b"]) && !watches(&["!shard", "shard=a"]));
    }

    #[test]
    fn kinds_of_the_custom_stage_are_of_the_core_group_unless_they_name_another() {
        let mut flags = ControllerFlags::default();
        flags.set("custom-apply-stage-kinds", "rbac.authorization.k8s.io/Role, ConfigMap, example.com/Widget");
        for (group, kind) in [("example.com", "Widget"), ("", "ConfigMap"), ("rbac.authorization.k8s.io", "Role")] {
            assert!(flags.custom_stage_kinds.contains(&GroupKind::new(group, kind)), "{kind}");
        }
        assert_eq!(flags.custom_stage_kinds.len(), 3);
    }
}
