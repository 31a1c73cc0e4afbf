//! Version, feature gates and parallelism of a cluster's kustomize-controller, and the rules that follow from them.
//!
//! Source: docs/reference/kustomize-controller.md 9.2.

use serde_json::Value;

use super::controller_deployment::{container, flag, flags, gates, is_stopped, is_true, text, watch_selector};
use super::controller_flags::ControllerFlags;
use super::kinds::KUSTOMIZE_CONTROLLER;
use crate::kubernetes::object::{ObjectId, text_at};
use crate::ownership::schemes::flux_operator;

/// Name of the controller, of its Deployment and of its field manager.
pub const NAME: &str = KUSTOMIZE_CONTROLLER;
/// Finalizer with which the controller deletes the objects of a Kustomization.
pub(crate) const FINALIZER: &str = "finalizers.fluxcd.io";
/// Number of Kustomizations reconciled at once unless `--concurrent` is set.
const DEFAULT_WORKERS: usize = 4;

/// Major, minor and patch number.
pub type Version = (u32, u32, u32);

/// Newest version that this tool knows. Its rules are those of 1.9.5, with which the oracle compares plans, except as
/// docs/reference/kustomize-controller.md 9.2 says (source of both).
const NEWEST: Version = (1, 10, 1);

/// Rules that depend on the controller's version or its feature gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// A substituted variable must be set or have a default.
    pub strict_substitution: bool,
    /// `ssa: Ignore` on the live object protects it from being pruned.
    pub ignore_protects: bool,
    /// An object whose application is skipped leaves the inventory without being pruned.
    pub forgets_skipped: bool,
    /// An object whose deletion was refused stays in the inventory, and its Kustomization is not ready.
    pub retries_deletions: bool,
    /// `spec.deletionPolicy` is honoured when a Kustomization is deleted.
    pub deletion_policy: bool,
    /// An image entry of the spec replaces the file's entry as a whole.
    pub whole_images: bool,
    /// The flag `--no-remote-bases`: a build with a remote base fails.
    pub no_remote_bases: bool,
    /// The flag `--no-cross-namespace-refs`: a source must be in the namespace of its Kustomization.
    pub no_cross_namespace_refs: bool,
    /// An inventory with a name that has an underscore cannot be read.
    pub refuses_underscores: bool,
    /// `spec.ignore` is honoured.
    pub ignores_fields: bool,
    /// An apply fails if `spec.ignore` names a field that its manifest drops.
    pub replaces_ignored: bool,
    /// A dependency with a `readyExpr` must also be ready by itself.
    pub additive_ready_expr: bool,
    /// A Kustomization may not use an ExternalArtifact.
    pub denies_external_artifacts: bool,
    /// A Kustomization may not decrypt with a service account of its own.
    pub denies_decryption_accounts: bool,
    /// The feature gates were read. Without that, those that are off by default are not known to be off.
    pub gates_are_known: bool,
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
            retries_deletions: version >= (1, 9, 0),
            deletion_policy: version >= (1, 5, 0),
            whole_images: version < (1, 9, 4),
            refuses_underscores: version < (1, 8, 0),
            ignores_fields: version >= (1, 9, 0),
            replaces_ignored: ((1, 9, 0)..(1, 10, 0)).contains(&version),
            no_remote_bases: false,
            no_cross_namespace_refs: false,
            additive_ready_expr: false,
            denies_external_artifacts: false,
            denies_decryption_accounts: false,
            gates_are_known: false,
        }
    }

    /// Returns the rules that differ in another version, as sentences about the other one. What only feature gates decide
    /// differs if those of both are known.
    pub(crate) fn differences(&self, other: &Self) -> Vec<&'static str> {
        let other = if self.gates_are_known && other.gates_are_known { *other } else { other.with_gates_of(self) };
        let changed = RULES.iter().filter_map(|(applies, begins, ends)| match (applies(self), applies(&other)) {
            (false, true) => Some(*begins),
            (true, false) => Some(*ends),
            _ => None,
        });
        changed.collect()
    }

    /// Returns the rules with those of another controller where the version does not matter.
    fn with_gates_of(self, other: &Self) -> Self {
        let Self { additive_ready_expr, denies_external_artifacts, denies_decryption_accounts, .. } = *other;
        Self { additive_ready_expr, denies_external_artifacts, denies_decryption_accounts, ..self }
    }

    fn set_gate(&mut self, gate: &str, is_on: bool) {
        match gate {
            "StrictPostBuildSubstitutions" => self.strict_substitution = is_on,
            "AdditiveCELDependencyCheck" => self.additive_ready_expr = is_on,
            "ExternalArtifact" => self.denies_external_artifacts = !is_on,
            "ObjectLevelWorkloadIdentity" => self.denies_decryption_accounts = !is_on,
            _ => {}
        }
    }
}

/// A rule, what is so in a version that has it, and what is so in one that does not.
type Rule = (fn(&Features) -> bool, &'static str, &'static str);

/// Rules that depend on the version, and on its feature gates.
const RULES: [Rule; 12] = [
    (
        |rules| rules.strict_substitution,
        "a substituted variable must be set or have a default",
        "a substituted variable without a value is empty",
    ),
    (
        |rules| rules.ignore_protects,
        "ssa: Ignore on a live object protects it from being pruned",
        "ssa: Ignore on a live object does not protect it from being pruned",
    ),
    (
        |rules| rules.forgets_skipped,
        "an object whose apply is skipped leaves the inventory, and is never pruned",
        "an object whose apply is skipped stays in the inventory",
    ),
    (
        |rules| rules.retries_deletions,
        "an object that may not be deleted stays in the inventory, and its Kustomization is not ready",
        "an object that may not be deleted leaves the inventory, and is leaked",
    ),
    (|rules| rules.deletion_policy, "spec.deletionPolicy is honoured", "spec.deletionPolicy is not honoured"),
    (
        |rules| rules.whole_images,
        "an entry of spec.images replaces the one of the file as a whole",
        "an entry of spec.images keeps what it does not name of the one in the file",
    ),
    (
        |rules| rules.refuses_underscores,
        "an inventory with a name that has an underscore cannot be read",
        "an inventory with a name that has an underscore can be read",
    ),
    (|rules| rules.ignores_fields, "spec.ignore is honoured", "spec.ignore is not honoured"),
    (
        |rules| rules.replaces_ignored,
        "an apply fails if spec.ignore names a field that its manifest drops",
        "an apply succeeds if spec.ignore names a field that its manifest drops",
    ),
    (
        |rules| rules.additive_ready_expr,
        "a dependency with a readyExpr must be ready by itself too",
        "a dependency with a readyExpr need not be ready by itself",
    ),
    (
        |rules| rules.denies_external_artifacts,
        "no Kustomization may use an ExternalArtifact",
        "a Kustomization may use an ExternalArtifact",
    ),
    (
        |rules| rules.denies_decryption_accounts,
        "no Kustomization may decrypt with a service account of its own",
        "a Kustomization may decrypt with a service account of its own",
    ),
];

/// Returns the newest version of the controller in a distribution of Flux, such as `2.8.x`; `None` for a range of minor
/// versions. Source: docs/reference/kustomize-controller.md 9.3: Flux 2.8 has 1.8, and so on.
fn of_flux(distribution: &str) -> Option<Version> {
    let (major, minor, _) = parse_version(distribution.trim_start_matches(['=', '~', '^', 'v', ' ']))?;
    (major == 2).then_some((1, minor, u32::MAX))
}

/// Returns a version as text; without the patch number if that is the newest one, whichever it is.
pub fn version_text((major, minor, patch): Version) -> String {
    if patch == u32::MAX { format!("{major}.{minor}") } else { format!("{major}.{minor}.{patch}") }
}

/// Minor version of kustomize that each minor version of the controller links, by its first release.
///
/// Source: docs/reference/kustomize-controller.md 9.3.
const LINKED_KUSTOMIZE: [(u32, u32, &str); 11] = [
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
    (1, 10, "5.8"),
];

/// Returns the minor version of kustomize that a version of the controller links; `None` if it is not known.
pub(crate) fn linked_kustomize((major, minor, _): Version) -> Option<&'static str> {
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
        let is_same = own.is_some_and(|patch| patch.is_empty() || patch.starts_with('.'));
        (!is_same).then(|| format!("kustomize {program} builds here, and the controller links {linked}.x"))
    }
}

/// The kustomize-controller of a cluster, as far as it changes a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KustomizeController {
    /// Version of its image; `None` if it is not known.
    pub version: Option<Version>,
    /// Rules of its version and feature gates.
    pub features: Features,
    /// Number of Kustomizations reconciled at once.
    pub workers: usize,
    /// Minor version of kustomize that it links; `None` if it is not known.
    pub kustomize: Option<&'static str>,
    /// Flags with values that are texts.
    pub flags: ControllerFlags,
    /// Its Deployment has no pod that is available, so nothing is reconciled now.
    pub is_stopped: bool,
}

impl Default for KustomizeController {
    /// The rules of the newest known version with its default flags.
    fn default() -> Self {
        Self { version: None, ..Self::of(NEWEST) }
    }
}

impl KustomizeController {
    /// Returns a controller of a version with its default flags.
    pub fn of(version: Version) -> Self {
        Self {
            version: Some(version),
            features: Features::of(version),
            workers: DEFAULT_WORKERS,
            kustomize: linked_kustomize(version),
            flags: ControllerFlags::default(),
            is_stopped: false,
        }
    }

    /// Returns a sentence on a version whose rules are not known; `None` for a known one.
    pub fn unknown_version(&self) -> Option<String> {
        let known = version_text(NEWEST);
        match self.version {
            None => {
                Some(format!("the version of kustomize-controller is not known; the plan has the rules of {known}"))
            }
            Some(version) if version > NEWEST => {
                let found = version_text(version);
                Some(format!("kustomize-controller {found} is newer than this tool; the plan has the rules of {known}"))
            }
            Some(_) => None,
        }
    }

    /// Reads the tag of the image and the flags from the controller's Deployment. A given version replaces the tag.
    pub fn from_deployment(deployment: &Value, version: Option<Version>) -> Self {
        let Some(container) = container(deployment) else { return version.map_or_else(Self::default, Self::of) };
        let known = version.or_else(|| image_version(text(container, "image")));
        let mut controller = known.map_or_else(Self::default, Self::of);
        // Without their gates the controller denies them; without its flags that is not known.
        controller.features.denies_external_artifacts = true;
        controller.features.denies_decryption_accounts = true;
        controller.features.gates_are_known = true;
        for (name, value) in flags(container) {
            controller.set_flag(&name, &value);
        }
        controller.flags.watched = watch_selector(deployment).into_iter().collect();
        controller.is_stopped = is_stopped(deployment);
        controller
    }

    /// Returns the version and the rules of the controller that a manifest of its Deployment or of a FluxInstance installs, if
    /// it names a version. `present` is what runs now: another patch of its minor version in a range is taken for the same.
    pub(crate) fn installed_by(
        id: &ObjectId,
        manifest: &Value,
        present: (Version, Features),
    ) -> Option<(Version, Features)> {
        if id.is("apps", "Deployment") && &*id.name == NAME {
            let found = Self::from_deployment(manifest, None);
            return Some((found.version?, found.features));
        }
        if !id.is(flux_operator::GROUP, "FluxInstance") {
            return None;
        }
        let version = of_flux(text_at(manifest, "/spec/distribution/version"))?;
        let (running, features) = present;
        let is_same = (running.0, running.1) == (version.0, version.1);
        Some(if is_same { (running, features) } else { (version, Features::of(version)) })
    }

    fn set_flag(&mut self, name: &str, value: &str) {
        match name {
            "concurrent" => self.workers = value.parse().unwrap_or(self.workers),
            "no-remote-bases" => self.features.no_remote_bases = is_true(value),
            "no-cross-namespace-refs" => self.features.no_cross_namespace_refs = is_true(value),
            "feature-gates" => {
                for (gate, is_on) in gates(value) {
                    self.features.set_gate(gate, is_on);
                    self.flags.migrates_versions |= gate == "MigrateAPIVersion" && is_on;
                }
            }
            _ => self.flags.set(name, value),
        }
    }
}

/// Returns true if a Deployment of the controller reconciles the Kustomizations of its own namespace only.
pub fn watches_own_namespace(deployment: &Value) -> bool {
    flag(deployment, "watch-all-namespaces").is_some_and(|value| !is_true(&value))
}

/// Returns true if the rules of a version are known. The newest patch of a minor version is taken to have those of the others.
pub(crate) fn is_known((major, minor, patch): Version) -> bool {
    if patch == u32::MAX { (major, minor) <= (NEWEST.0, NEWEST.1) } else { (major, minor, patch) <= NEWEST }
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
        assert_eq!(linked_kustomize((1, 10, 1)), Some("5.8"));
        assert_eq!(linked_kustomize((1, 11, 0)), None);
        assert_eq!(linked_kustomize((0, 35, 1)), None);
    }

    #[test]
    fn an_upgrade_names_the_rules_that_change() {
        let rules = |from, to| Features::of(from).differences(&Features::of(to));
        assert_eq!(rules((1, 9, 4), (1, 9, 6)), [""; 0]);
        assert_eq!(rules((1, 8, 3), (1, 8, 5)).len(), 2);
        let up = rules((1, 8, 5), (1, 9, 5));
        assert!(
            up.contains(
                &"an object that may not be deleted stays in the inventory, and its Kustomization is not ready"
            )
        );
        assert!(rules((1, 9, 5), (1, 8, 5)).iter().any(|rule| rule.ends_with("and is leaked")), "a downgrade");
        for (text, expected) in [
            ("2.8.x", Some((1, 8, u32::MAX))),
            ("=2.9.1", Some((1, 9, u32::MAX))),
            ("2.x", None),
            ("3.0.0", None),
            ("", None),
        ] {
            assert_eq!(of_flux(text), expected, "{text}");
        }
        assert_eq!((version_text((1, 8, u32::MAX)), version_text((1, 8, 3))), ("1.8".to_owned(), "1.8.3".to_owned()));
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
        let controller = KustomizeController::from_deployment(&deployment, None);
        let features = Features {
            strict_substitution: true,
            no_remote_bases: true,
            no_cross_namespace_refs: true,
            additive_ready_expr: true,
            denies_external_artifacts: true,
            denies_decryption_accounts: true,
            gates_are_known: true,
            ..Features::of((1, 8, 2))
        };
        let expected = KustomizeController { features, workers: 20, ..KustomizeController::of((1, 8, 2)) };
        assert_eq!(controller, expected);
        assert_eq!(KustomizeController::from_deployment(&deployment, Some((1, 7, 3))).version, Some((1, 7, 3)));
        assert!(controller.features.forgets_skipped);
        assert_eq!(KustomizeController::from_deployment(&json!({}), None), KustomizeController::default());
    }

    #[test]
    fn a_controller_can_watch_its_own_namespace_only_and_rewrite_versions() {
        let deployment = |arguments: Value| json!({"spec": {"template": {"spec": {"containers": [{"name": "manager", "args": arguments}]}}}});
        for (arguments, own) in [
            (json!([]), false),
            (json!(["--watch-all-namespaces=true"]), false),
            (json!(["--watch-all-namespaces"]), false),
            (json!(["--watch-all-namespaces=false"]), true),
        ] {
            assert_eq!(watches_own_namespace(&deployment(arguments.clone())), own, "{arguments}");
        }
        let migrates = |gate: &str| {
            let arguments = json!([format!("--feature-gates=ExternalArtifact=true,MigrateAPIVersion={gate}")]);
            KustomizeController::from_deployment(&deployment(arguments), None).flags.migrates_versions
        };
        assert!(migrates("true") && !migrates("false"));
    }

    #[test]
    fn a_plan_names_a_version_that_it_does_not_know() {
        let sentence = |version: Option<&str>| {
            let controller =
                version.and_then(parse_version).map_or_else(KustomizeController::default, KustomizeController::of);
            controller.unknown_version()
        };
        assert_eq!((sentence(Some("1.10.1")), sentence(Some("1.7.3"))), (None, None));
        assert!(sentence(Some("v1.10.2")).unwrap().starts_with("kustomize-controller 1.10.2 is newer"));
        assert!(sentence(None).unwrap().contains("is not known"));
    }

    #[test]
    fn what_needs_a_gate_is_denied_if_the_gate_is_known_to_be_off() {
        let features = |arguments: Value| {
            let container = json!({"name": "manager", "image": "kustomize-controller:v1.9.5", "args": arguments});
            let deployment = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
            KustomizeController::from_deployment(&deployment, None).features
        };
        let of_artifacts: fn(&Features) -> bool = |features| features.denies_external_artifacts;
        let of_accounts: fn(&Features) -> bool = |features| features.denies_decryption_accounts;
        for (gate, denies) in [("ExternalArtifact", of_artifacts), ("ObjectLevelWorkloadIdentity", of_accounts)] {
            let with = |value: &str| denies(&features(json!([format!("--feature-gates={gate}={value}")])));
            assert!(denies(&features(json!([]))) && with("false") && !with("true"), "{gate}");
            assert!(!denies(&KustomizeController::default().features), "the flags are not known");
        }
    }
}
