//! Labels and annotations by which an object controls how kustomize-controller treats it.
//!
//! Source: docs/reference/kustomize-controller.md 4 and 5.1. The controller reads each of them from labels too.

/// `disabled`: the object is not pruned.
pub const PRUNE: &str = "kustomize.toolkit.fluxcd.io/prune";
/// `disabled`: the object is neither applied nor pruned.
pub const RECONCILE: &str = "kustomize.toolkit.fluxcd.io/reconcile";
/// How the object is applied: `Override`, `Merge`, `IfNotPresent` or `Ignore`.
pub const SSA: &str = "kustomize.toolkit.fluxcd.io/ssa";
/// `enabled`: the object is deleted and created again where an immutable field changes.
pub const FORCE: &str = "kustomize.toolkit.fluxcd.io/force";
/// `disabled`: no variables are substituted in the object. The value is compared exactly.
pub const SUBSTITUTE: &str = "kustomize.toolkit.fluxcd.io/substitute";
/// `disabled`: the object is not decrypted. Only an annotation counts.
pub const DECRYPT: &str = "kustomize.toolkit.fluxcd.io/decrypt";
