//! Warnings about a suspension: before the patch about its limits, after the patch about the answer of the API server.

use std::fmt;

use super::patch::{PatchDecision, SuspendOptions, SuspensionPatch, suspend};
use super::{ANNOTATION, Mechanism, declaring_controller};
use crate::flux::kinds::FluxKind;
use crate::kubernetes::object::Resource;

/// Reason why a suspension of an object has less effect than expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning<'a> {
    /// The object is being deleted: its finalizers run although it is suspended.
    BeingDeleted,
    /// This controller applies the field or annotation from Git, and reverts the suspension.
    DeclaredInGit(&'a str),
}

/// Effect of deleting an object of a kind that only the annotation suspends (docs/reference/flux.md 3.2).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeletionEffect {
    pub kind: &'static str,
    pub effect: &'static str,
}

/// Difference between a patch and the answer of the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Discrepancy {
    /// The version of the kind has no `spec.suspend`.
    SpecDropped,
    /// Another change of the spec came with the patch.
    GenerationMoved {
        from: i64,
        to: i64,
    },
    AnnotationDropped,
}

impl Discrepancy {
    /// Returns true if the object is not suspended as requested.
    pub fn is_error(&self) -> bool {
        !matches!(self, Self::GenerationMoved { .. })
    }
}

impl fmt::Display for Discrepancy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SpecDropped => {
                write!(f, "the server dropped spec.suspend, which this version of the kind does not have")
            }
            Self::GenerationMoved { from, to } => {
                write!(f, "generation moved from {from} to {to}: something changed its spec with this request")
            }
            Self::AnnotationDropped => write!(f, "the server dropped the annotation {ANNOTATION}"),
        }
    }
}

impl SuspendOptions {
    /// Returns true if nothing that a released controller honours suspends the object after the patch.
    pub fn is_annotation_only(&self, full: &Resource) -> bool {
        let has_switch = FluxKind::of(full).is_some_and(|kind| kind.switch().is_some());
        !self.annotation_honoured && !self.spec && !has_switch && !full.flag("/spec/suspend")
    }

    /// Returns true if the suspension of an object with these options would leave it reconciled.
    pub fn leaves_running(&self, full: &Resource) -> bool {
        self.is_annotation_only(full) && !matches!(suspend(full, self), PatchDecision::Refused(_))
    }

    /// Returns the warnings about an object that is to be suspended.
    pub fn warnings<'a>(&self, full: &'a Resource) -> Vec<Warning<'a>> {
        let deleting = full.object.deletion_timestamp.map(|_| Warning::BeingDeleted);
        let patched = if self.spec { Mechanism::Both } else { Mechanism::Annotation };
        let declared = declaring_controller(full, patched).map(Warning::DeclaredInGit);
        deleting.into_iter().chain(declared).collect()
    }

    /// Returns the effects that deleting these objects has although they are suspended.
    pub fn deletion_effects(&self, objects: &[&Resource]) -> Vec<DeletionEffect> {
        let mut effects = vec![];
        for full in objects.iter().filter(|full| self.is_annotation_only(full)) {
            let Some(kind) = FluxKind::of(full) else { continue };
            effects.extend(kind.deletion_of(full).map(|effect| DeletionEffect { kind: kind.kind, effect }));
        }
        effects.sort_unstable();
        effects.dedup();
        effects
    }

    /// Compares the answer of the API server with the patch.
    pub fn discrepancies(&self, before: &Resource, after: &Resource, patch: &SuspensionPatch) -> Vec<Discrepancy> {
        let (from, to) = (before.object.generation, after.object.generation);
        let mut found = vec![];
        if self.spec && patch.generations == 1 && !after.flag("/spec/suspend") {
            found.push(Discrepancy::SpecDropped);
        } else if to - from != patch.generations {
            found.push(Discrepancy::GenerationMoved { from, to });
        }
        if after.object.annotations.get(ANNOTATION).is_none() {
            found.push(Discrepancy::AnnotationDropped);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{flux_object, noon, owner_of};

    fn pruning(kind: &str) -> Resource {
        flux_object(kind, json!({"spec": {"prune": true}}), &[])
    }

    #[test]
    fn only_the_annotation_alone_leaves_an_object_reconciled() {
        let plain = SuspendOptions::default();
        let spec = SuspendOptions { spec: true, ..SuspendOptions::default() };
        let honoured = SuspendOptions { annotation_honoured: true, ..SuspendOptions::default() };
        let suspended = flux_object("Kustomization", json!({"spec": {"suspend": true}}), &[]);
        for (name, options, full, expected) in [
            ("annotation", &plain, pruning("Kustomization"), true),
            ("spec.suspend in the patch", &spec, pruning("Kustomization"), false),
            ("spec.suspend before", &plain, suspended, false),
            ("a controller that honours the annotation", &honoured, pruning("Kustomization"), false),
            ("a switch", &plain, pruning("ResourceSet"), false),
        ] {
            assert_eq!(options.is_annotation_only(&full), expected, "{name}");
        }
    }

    #[test]
    fn deleting_an_object_that_only_the_annotation_suspends_has_an_effect() {
        let (first, second, source) = (pruning("Kustomization"), pruning("Kustomization"), pruning("GitRepository"));
        let keeps = flux_object("Kustomization", json!({"spec": {"prune": false}}), &[]);
        let options = SuspendOptions::default();
        let effects = options.deletion_effects(&[&first, &source, &second]);
        assert_eq!(effects.iter().map(|effect| effect.kind).collect::<Vec<_>>(), ["Kustomization"]);
        assert!(options.deletion_effects(&[&keeps, &source]).is_empty());
        assert!(SuspendOptions { spec: true, ..options }.deletion_effects(&[&first]).is_empty());
    }

    #[test]
    fn deletion_and_declaration_in_git_are_warnings() {
        let mut full = pruning("Kustomization");
        assert!(SuspendOptions::default().warnings(&full).is_empty());
        full.object.deletion_timestamp = Some(noon());
        full.object.managed_fields = vec![owner_of("kustomize-controller", true, 0, &[ANNOTATION])];
        let expected = [Warning::BeingDeleted, Warning::DeclaredInGit("kustomize-controller")];
        assert_eq!(SuspendOptions::default().warnings(&full), expected);
    }

    fn patched(generation: i64, content: Value, annotations: &[(&str, &str)]) -> Resource {
        let mut full = flux_object("Kustomization", content, annotations);
        full.object.generation = generation;
        full
    }

    #[test]
    fn the_answer_of_the_server_is_compared_with_the_patch() {
        let before = pruning("Kustomization");
        let annotation = SuspendOptions::default();
        let spec = SuspendOptions { spec: true, ..SuspendOptions::default() };
        let suspended = json!({"spec": {"suspend": true}});
        let note = &[(ANNOTATION, "true")][..];
        for (name, options, after, expected) in [
            ("as requested", &annotation, patched(3, json!({}), note), &[][..]),
            ("as requested, with spec", &spec, patched(4, suspended.clone(), note), &[]),
            ("another change", &spec, patched(5, suspended, note), &[Discrepancy::GenerationMoved { from: 3, to: 5 }]),
            ("no spec.suspend", &spec, patched(3, json!({}), note), &[Discrepancy::SpecDropped]),
            ("no annotation", &annotation, patched(3, json!({}), &[]), &[Discrepancy::AnnotationDropped]),
        ] {
            let PatchDecision::Patch(patch) = suspend(&before, options) else { panic!("{name}: no patch") };
            assert_eq!(options.discrepancies(&before, &after, &patch), expected, "{name}");
        }
        assert!(Discrepancy::SpecDropped.is_error() && !Discrepancy::GenerationMoved { from: 1, to: 2 }.is_error());
    }
}
