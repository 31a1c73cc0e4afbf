//! Version, feature gates and parallelism of a cluster's kustomize-controller, and the rules that follow from them.
//!
//! Source: docs/reference/kustomize-controller.md 9.2.

use serde_json::Value;

use crate::kubernetes::object::ObjectMetadata;
use crate::kubernetes::snapshot::Snapshot;

/// Name of the controller, of its Deployment and of its field manager.
pub const NAME: &str = "kustomize-controller";
/// Minor version of the kustomize that Flux 2.9 links; the verification of builds shows if another one differs.
pub const KUSTOMIZE_VERSION: &str = "5.8";
/// Number of Kustomizations reconciled at once unless `--concurrent` is set.
const DEFAULT_WORKERS: usize = 4;

/// Major, minor and patch number.
pub type Version = (u32, u32, u32);

/// Rules that depend on the controller's version or its feature gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// A substituted variable must be set or have a default.
    pub strict_substitution: bool,
    /// `ssa: Ignore` on the live object protects it from being pruned.
    pub ignore_protects: bool,
    /// An object whose application is skipped leaves the inventory without being pruned.
    pub forgets_skipped: bool,
    /// `spec.deletionPolicy` is honoured when a Kustomization is deleted.
    pub deletion_policy: bool,
    /// An image entry of the spec replaces the file's entry as a whole.
    pub whole_images: bool,
}

impl Default for Features {
    /// The rules of the newest version that this tool knows.
    fn default() -> Self {
        Self::of((1, 9, 5))
    }
}

impl Features {
    /// Returns the rules of a version with its default feature gates.
    pub fn of(version: Version) -> Self {
        Self {
            strict_substitution: version >= (1, 9, 0),
            ignore_protects: version >= (1, 8, 5),
            forgets_skipped: ((1, 7, 0)..(1, 8, 5)).contains(&version),
            deletion_policy: version >= (1, 5, 0),
            whole_images: version < (1, 9, 4),
        }
    }
}

/// The kustomize-controller of a cluster, as far as it changes a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KustomizeController {
    /// Rules of its version and feature gates.
    pub features: Features,
    /// Number of Kustomizations reconciled at once.
    pub workers: usize,
}

impl Default for KustomizeController {
    /// The newest version with its default flags.
    fn default() -> Self {
        Self { features: Features::default(), workers: DEFAULT_WORKERS }
    }
}

impl KustomizeController {
    /// Returns a controller of a version with its default flags.
    pub fn of(version: Version) -> Self {
        Self { features: Features::of(version), workers: DEFAULT_WORKERS }
    }

    /// Reads the tag of the image and the flags from the controller's Deployment.
    pub fn from_deployment(deployment: &Value) -> Self {
        let containers = deployment.pointer("/spec/template/spec/containers").and_then(Value::as_array);
        let Some(container) = containers.into_iter().flatten().find(|container| is_controller(container)) else {
            return Self::default();
        };
        let mut controller = image_version(text(container, "image")).map_or_else(Self::default, Self::of);
        let flags = container.get("args").and_then(Value::as_array).into_iter().flatten();
        flags.filter_map(Value::as_str).for_each(|flag| controller.set_flag(flag));
        controller
    }

    fn set_flag(&mut self, flag: &str) {
        if let Some(number) = flag.strip_prefix("--concurrent=").and_then(|number| number.parse().ok()) {
            self.workers = number;
        }
        for gate in flag.strip_prefix("--feature-gates=").unwrap_or_default().split(',') {
            if let Some(value) = gate.trim().strip_prefix("StrictPostBuildSubstitutions=") {
                self.features.strict_substitution = value == "true";
            }
        }
    }
}

/// Returns the controller's Deployment.
pub fn deployment(snapshot: &Snapshot) -> Option<&ObjectMetadata> {
    snapshot.objects.iter().find(|object| object.id.is("apps", "Deployment") && &*object.id.name == NAME)
}

fn is_controller(container: &Value) -> bool {
    text(container, "image").contains(NAME) || text(container, "name") == "manager"
}

fn text<'a>(container: &'a Value, key: &str) -> &'a str {
    container.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn image_version(image: &str) -> Option<Version> {
    let (_, tag) = image.split('@').next()?.rsplit_once(':')?;
    parse_version(tag)
}

/// Parses `v1.9.5`, `1.9` or the tag of an image; text after the third number is ignored.
pub fn parse_version(text: &str) -> Option<Version> {
    let mut numbers = text.trim_start_matches('v').split(['.', '-', '+', '@']).map(str::parse::<u32>);
    let major = numbers.next()?.ok()?;
    let minor = numbers.next()?.ok()?;
    Some((major, minor, numbers.next().and_then(Result::ok).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn versions_are_parsed_from_tags() {
        let rows = [
            ("v1.9.5", Some((1, 9, 5))),
            ("1.8", Some((1, 8, 0))),
            ("v1.7.0-rc.1", Some((1, 7, 0))),
            ("v1.9.2@sha256:00", Some((1, 9, 2))),
            ("latest", None),
        ];
        for (text, expected) in rows {
            assert_eq!(parse_version(text), expected, "{text}");
        }
    }

    #[test]
    fn skipped_objects_leave_the_inventory_only_from_1_7_0_to_1_8_4() {
        let forgets = |version| Features::of(version).forgets_skipped;
        assert!(!forgets((1, 6, 9)) && forgets((1, 7, 0)) && forgets((1, 8, 4)) && !forgets((1, 8, 5)));
    }

    #[test]
    fn version_workers_and_gates_are_read_from_the_deployment() {
        let image = "registry.example:5000/fluxcd/kustomize-controller:v1.8.2@sha256:00";
        assert_eq!(image_version(image), Some((1, 8, 2)));
        let deployment = json!({"spec": {"template": {"spec": {"containers": [{
            "name": "manager", "image": image,
            "args": ["--concurrent=20", "--feature-gates=A=true,StrictPostBuildSubstitutions=true"],
        }]}}}});
        let controller = KustomizeController::from_deployment(&deployment);
        let features = Features { strict_substitution: true, ..Features::of((1, 8, 2)) };
        assert_eq!(controller, KustomizeController { features, workers: 20 });
        assert!(controller.features.forgets_skipped);
        assert_eq!(KustomizeController::from_deployment(&json!({})), KustomizeController::default());
    }
}
