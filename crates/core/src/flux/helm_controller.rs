//! Flags and feature gates of helm-controller that decide what it does with releases.
//!
//! Source: `main.go` and `internal/features/features.go` of helm-controller v1.6.3.

use serde_json::Value;

use super::controller_deployment::{
    container, default_service_account, denies_other_namespaces, flags, gates, watch_selector,
};
use crate::kubernetes::object::text_at;

/// Rules of helm-controller. Without a readable Deployment its defaults are assumed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HelmController {
    /// `--default-service-account`: account of HelmReleases that name none.
    pub default_service_account: Option<String>,
    /// `--watch-label-selector` of each Deployment of the controller: a HelmRelease that none selects is not reconciled. Empty if all are.
    pub watched: Vec<String>,
    /// `--no-cross-namespace-refs`: the source of a chart must be in the namespace of its HelmRelease.
    pub no_cross_namespace_refs: bool,
    /// A HelmRelease may not use an ExternalArtifact. False if the feature gates are not known.
    pub denies_external_artifacts: bool,
    /// An action without a strategy is tried again and again, and has no remedy (`DefaultToRetryOnFailure`).
    pub retries_by_default: bool,
    /// The version of a chart does not have the digest of its image (`DisableChartDigestTracking`).
    pub ignores_digests: bool,
    /// Installations apply on the client and wait as Helm 3 does, unless their spec says otherwise (`UseHelm3Defaults`).
    pub has_helm3_defaults: bool,
}

/// Name of the Deployment of helm-controller.
pub const NAME: &str = "helm-controller";

impl HelmController {
    /// Reads the Deployment of the controller.
    pub fn from_deployment(deployment: &Value) -> Self {
        let mut controller = Self {
            default_service_account: default_service_account(deployment),
            watched: watch_selector(deployment).into_iter().collect(),
            no_cross_namespace_refs: denies_other_namespaces(deployment),
            denies_external_artifacts: container(deployment).is_some(),
            ..Self::default()
        };
        let flags = container(deployment).map(flags).unwrap_or_default();
        for (_, value) in flags.iter().filter(|(name, _)| name == "feature-gates") {
            for (gate, is_on) in gates(value) {
                match gate {
                    "ExternalArtifact" => controller.denies_external_artifacts = !is_on,
                    "DefaultToRetryOnFailure" => controller.retries_by_default = is_on,
                    "DisableChartDigestTracking" => controller.ignores_digests = is_on,
                    "UseHelm3Defaults" => controller.has_helm3_defaults = is_on,
                    _ => {}
                }
            }
        }
        controller
    }

    /// Returns true if an action with this spec is tried again after a failure, and has no remedy. `field` is the field of the spec with
    /// the options of the action.
    pub(crate) fn retries(&self, spec: &Value, field: &str) -> bool {
        match text_at(spec, &format!("/{field}/strategy/name")) {
            "" => self.retries_by_default,
            name => name == "RetryOnFailure",
        }
    }

    /// Returns true if Helm waits for objects as Helm 3 does.
    pub(crate) fn waits_as_helm3(&self, spec: &Value) -> bool {
        match text_at(spec, "/waitStrategy/name") {
            "" => self.has_helm3_defaults,
            name => name == "legacy",
        }
    }

    /// Returns true if an installation applies the objects on the server.
    pub(crate) fn installs_on_server(&self, spec: &Value) -> bool {
        let asked = spec.pointer("/install/serverSideApply").and_then(Value::as_bool);
        asked.unwrap_or(!self.has_helm3_defaults)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn controller(args: Value) -> HelmController {
        let container = json!({"name": "manager", "image": "ghcr.io/fluxcd/helm-controller:v1.6.3", "args": args});
        HelmController::from_deployment(&json!({"spec": {"template": {"spec": {"containers": [container]}}}}))
    }

    #[test]
    fn flags_and_gates_are_those_of_the_deployment() {
        let plain = controller(json!(["--watch-all-namespaces=true"]));
        assert_eq!(plain, HelmController { denies_external_artifacts: true, ..HelmController::default() });
        let gates =
            "--feature-gates=DefaultToRetryOnFailure=true,DisableChartDigestTracking=true,UseHelm3Defaults=true";
        let all = controller(json!([
            "--no-cross-namespace-refs",
            "--watch-label-selector=!shard",
            gates,
            "--feature-gates=ExternalArtifact=true"
        ]));
        assert!(all.no_cross_namespace_refs && !all.denies_external_artifacts && all.watched == ["!shard"]);
        assert!(all.retries_by_default && all.ignores_digests && all.has_helm3_defaults);
        assert_eq!(HelmController::from_deployment(&json!({})), HelmController::default(), "nothing is known");
    }

    #[test]
    fn a_spec_overrides_what_the_gates_make_the_default() {
        let gates = "--feature-gates=DefaultToRetryOnFailure=true,UseHelm3Defaults=true";
        let rules = [controller(json!([])), controller(json!([gates]))].map(|controller| {
            let decides = |spec: Value| {
                let retries = controller.retries(&spec, "upgrade");
                (retries, controller.waits_as_helm3(&spec), controller.installs_on_server(&spec))
            };
            let all = json!({"upgrade": {"strategy": {"name": "RemediateOnFailure"}}, "waitStrategy": {"name": "poller"},
                "install": {"serverSideApply": true}});
            (decides(json!({})), decides(all))
        });
        let own = (false, false, true);
        assert_eq!(rules, [(own, own), ((true, true, false), own)]);
    }
}
