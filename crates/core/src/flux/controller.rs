//! What the kustomize-controller of a cluster is told by its Deployment: version, parallelism, feature gates.

use serde_json::Value;

use super::features::{Features, parse_version};

/// How many Kustomizations a controller reconciles at once unless `--concurrent` says otherwise.
const WORKERS: usize = 4;

/// A controller as far as a preview cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controller {
    /// Version; `None` where it cannot be told.
    pub version: Option<(u32, u32, u32)>,
    /// Rules of that version and of the feature gates.
    pub features: Features,
    /// How many Kustomizations it reconciles at once.
    pub workers: usize,
}

impl Default for Controller {
    /// The newest controller with its defaults.
    fn default() -> Self {
        Self { version: None, features: Features::default(), workers: WORKERS }
    }
}

impl Controller {
    /// A controller of a version with its defaults.
    pub fn of(version: (u32, u32, u32)) -> Self {
        Self { version: Some(version), features: Features::of(version), workers: WORKERS }
    }

    /// Reads the controller's Deployment: the image's tag and the arguments.
    pub fn from_deployment(deployment: &Value) -> Self {
        let containers = deployment.pointer("/spec/template/spec/containers").and_then(Value::as_array);
        let text = |container: &Value, key: &str| container.get(key).and_then(Value::as_str).map(str::to_owned);
        let of_controller = |container: &&Value| {
            text(container, "image").is_some_and(|image| image.contains("kustomize-controller"))
                || text(container, "name").is_some_and(|name| name == "manager")
        };
        let Some(container) = containers.into_iter().flatten().find(of_controller) else { return Self::default() };
        let image = text(container, "image").unwrap_or_default();
        let tag = image.split('@').next().and_then(|image| image.rsplit_once(':')).map(|(_, tag)| tag);
        let mut controller = tag.and_then(parse_version).map_or_else(Self::default, Self::of);
        for argument in container.get("args").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
        {
            if let Some(number) = argument.strip_prefix("--concurrent=").and_then(|number| number.parse().ok()) {
                controller.workers = number;
            }
            let gates = argument.strip_prefix("--feature-gates=").unwrap_or_default();
            for gate in gates.split(',') {
                if let Some(value) = gate.trim().strip_prefix("StrictPostBuildSubstitutions=") {
                    controller.features.strict_substitution = value == "true";
                }
            }
        }
        controller
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_deployment_tells_version_workers_and_gates() {
        let deployment = json!({"spec": {"template": {"spec": {"containers": [{
            "name": "manager", "image": "registry.example:5000/fluxcd/kustomize-controller:v1.8.2@sha256:00",
            "args": ["--concurrent=20", "--feature-gates=A=true,StrictPostBuildSubstitutions=true"],
        }]}}}});
        let controller = Controller::from_deployment(&deployment);
        assert_eq!((controller.version, controller.workers), (Some((1, 8, 2)), 20));
        assert!(controller.features.strict_substitution && controller.features.forgets_skipped);
        assert_eq!(Controller::from_deployment(&json!({})), Controller::default());
    }
}
