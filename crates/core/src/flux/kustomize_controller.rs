//! Version, feature gates and parallelism of a cluster's kustomize-controller, and the rules that follow from them.
//!
//! Source: docs/reference/kustomize-controller.md 9.2.

use serde_json::Value;

use super::spec::NamespacedName;
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::kubernetes::snapshot::Snapshot;

/// Name of the controller, of its Deployment and of its field manager.
pub const NAME: &str = "kustomize-controller";
/// Number of Kustomizations reconciled at once unless `--concurrent` is set.
const DEFAULT_WORKERS: usize = 4;

/// Major, minor and patch number.
pub type Version = (u32, u32, u32);

/// Newest version that this tool knows.
const NEWEST: Version = (1, 9, 5);

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
    /// The flag `--no-remote-bases`: a build with a remote base fails.
    pub no_remote_bases: bool,
    /// The flag `--no-cross-namespace-refs`: a source must be in the namespace of its Kustomization.
    pub no_cross_namespace_refs: bool,
    /// A dependency with a `readyExpr` must also be ready by itself.
    pub additive_ready_expr: bool,
}

impl Default for Features {
    /// The rules of the newest version that this tool knows.
    fn default() -> Self {
        Self::of(NEWEST)
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
            no_remote_bases: false,
            no_cross_namespace_refs: false,
            additive_ready_expr: false,
        }
    }
}

/// Minor version of kustomize that each minor version of the controller links, by its first release.
///
/// Source: docs/reference/kustomize-controller.md 9.3.
const LINKED_KUSTOMIZE: [(u32, u32, &str); 10] = [
    (1, 0, "5.0"),
    (1, 1, "5.0"),
    (1, 2, "5.3"),
    (1, 3, "5.4"),
    (1, 4, "5.4"),
    (1, 5, "5.6"),
    (1, 6, "5.6"),
    (1, 7, "5.7"),
    (1, 8, "5.8"),
    (1, 9, "5.8"),
];

/// Returns the minor version of kustomize that a version of the controller links; `None` if it is not known.
pub fn linked_kustomize((major, minor, _): Version) -> Option<&'static str> {
    let found = LINKED_KUSTOMIZE.iter().find(|(of_major, of_minor, _)| (*of_major, *of_minor) == (major, minor));
    found.map(|(_, _, kustomize)| *kustomize)
}

/// Versions of the kustomize that builds here and of the one in the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KustomizeVersions {
    /// Version that the program prints, such as `v5.8.1`.
    pub program: String,
    /// Minor version that the controller links; `None` if it is not known.
    pub linked: Option<&'static str>,
}

impl KustomizeVersions {
    /// Returns a sentence on the difference of the minor versions; `None` if they are equal.
    pub fn difference(&self) -> Option<String> {
        let program = &self.program;
        let Some(linked) = self.linked else {
            return Some(format!(
                "kustomize {program} builds here, and it is not known which one the controller links"
            ));
        };
        let own = program.trim_start_matches('v').strip_prefix(linked);
        match own.is_some_and(|patch| patch.is_empty() || patch.starts_with('.')) {
            true => None,
            false => Some(format!("kustomize {program} builds here, and the controller links {linked}.x")),
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
    /// Minor version of kustomize that it links; `None` if it is not known.
    pub kustomize: Option<&'static str>,
}

impl Default for KustomizeController {
    /// The newest version with its default flags.
    fn default() -> Self {
        Self::of(NEWEST)
    }
}

impl KustomizeController {
    /// Returns a controller of a version with its default flags.
    pub fn of(version: Version) -> Self {
        Self { features: Features::of(version), workers: DEFAULT_WORKERS, kustomize: linked_kustomize(version) }
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
        if flag == "--no-remote-bases" || flag == "--no-remote-bases=true" {
            self.features.no_remote_bases = true;
        }
        if flag == "--no-cross-namespace-refs" || flag == "--no-cross-namespace-refs=true" {
            self.features.no_cross_namespace_refs = true;
        }
        for gate in flag.strip_prefix("--feature-gates=").unwrap_or_default().split(',') {
            match gate.trim().split_once('=') {
                Some(("StrictPostBuildSubstitutions", value)) => self.features.strict_substitution = value == "true",
                Some(("AdditiveCELDependencyCheck", value)) => self.features.additive_ready_expr = value == "true",
                _ => {}
            }
        }
    }
}

/// Returns true if the controller takes over the fields of a manager before it applies. The names are prefixes.
/// `applies` is true for the operation Apply. Source: docs/reference/kustomize-controller.md 4.4.
pub(crate) fn takes_over(manager: &str, applies: bool) -> bool {
    manager.starts_with("kubectl")
        || (!applies && ["before-first-apply", NAME].iter().any(|prefix| manager.starts_with(prefix)))
}

/// Returns the service account of the pods of a Deployment in this namespace; `None` if it names none, or one that does not
/// exist, so that it has no pods.
pub fn service_account(deployment: &Value, namespace: &str, snapshot: &Snapshot) -> Option<NamespacedName> {
    let name = deployment.pointer("/spec/template/spec/serviceAccountName").and_then(Value::as_str);
    let name = name.filter(|name| !name.is_empty())?;
    snapshot.object(&ObjectId::new("", "ServiceAccount", namespace, name))?;
    Some(NamespacedName { namespace: namespace.to_owned(), name: name.to_owned() })
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
    fn kustomize_is_the_same_up_to_the_patch_number() {
        let difference = |program: &str, linked| KustomizeVersions { program: program.to_owned(), linked }.difference();
        for same in ["v5.8.1", "5.8.0", "v5.8", "v5.8.1+k8s"] {
            assert_eq!(difference(same, Some("5.8")), None, "{same}");
        }
        for other in ["v5.5.0", "v5.80.1", "v4.5.8", "(devel)", ""] {
            assert!(difference(other, Some("5.8")).is_some(), "{other}");
        }
        assert!(difference("v5.8.1", None).unwrap().contains("not known"));
        assert_eq!(linked_kustomize((1, 6, 1)), Some("5.6"));
        assert_eq!(linked_kustomize((1, 10, 0)), None);
        assert_eq!(linked_kustomize((0, 35, 1)), None);
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
            "args": ["--concurrent=20", "--no-remote-bases=true", "--no-cross-namespace-refs", "--feature-gates=AdditiveCELDependencyCheck=true,StrictPostBuildSubstitutions=true"],
        }]}}}});
        let controller = KustomizeController::from_deployment(&deployment);
        let features = Features {
            strict_substitution: true,
            no_remote_bases: true,
            no_cross_namespace_refs: true,
            additive_ready_expr: true,
            ..Features::of((1, 8, 2))
        };
        assert_eq!(controller, KustomizeController { features, workers: 20, kustomize: Some("5.8") });
        assert!(controller.features.forgets_skipped);
        assert_eq!(KustomizeController::from_deployment(&json!({})), KustomizeController::default());
    }
}
