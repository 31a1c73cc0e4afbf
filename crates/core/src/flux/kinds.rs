//! Table of the kinds of Flux and flux-operator: how each is suspended, and the fields of its status that show revisions
//! and runs.
//!
//! The API version of a kind comes from discovery. Source: docs/reference/flux.md 1 and 3.

use std::time::Duration;

use serde_json::Value;

use crate::kubernetes::object::{GroupKind, Resource};

/// The way to suspend an object of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspends {
    /// The field `spec.suspend`, set to true.
    Spec,
    /// An annotation that only this kind has, with the value `disabled`.
    Switch(&'static str),
    /// The kind cannot be suspended.
    Nothing,
}

/// Name of the controller of Kustomizations.
pub(crate) const KUSTOMIZE_CONTROLLER: &str = "kustomize-controller";

/// API group of the sources.
pub const SOURCE_GROUP: &str = "source.toolkit.fluxcd.io";

/// API group of ArtifactGenerators.
pub(crate) const GENERATOR_GROUP: &str = "source.extensions.fluxcd.io";

/// Kind of the objects that generate ExternalArtifacts.
pub(crate) const GENERATOR: &str = "ArtifactGenerator";

/// Kind of the sources that other controllers provide.
pub const EXTERNAL_ARTIFACT: &str = "ExternalArtifact";

/// Kinds that generate sources or inputs of owners.
pub const INPUTS: [(&str, &str); 2] =
    [(GENERATOR_GROUP, GENERATOR), (crate::ownership::schemes::flux_operator::GROUP, "ResourceSetInputProvider")];

/// Annotation that suspends the kinds of flux-operator.
pub(crate) const OPERATOR_SWITCH: &str = crate::ownership::schemes::flux_operator::SWITCH;

/// Annotation that suspends an ArtifactGenerator.
pub(crate) const ARTIFACT_SWITCH: &str = "source.extensions.fluxcd.io/reconcile";

/// Evidence of a reconciliation in a status or an Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trace {
    /// An array of runs with `lastReconciled` and `lastReconciledDuration`, which give the start of each.
    Runs(&'static str),
    /// Time of the start of a run.
    Started(&'static str),
    /// Time written in the course of a run.
    During(&'static str),
    /// Condition that is set when a run starts; its last transition is the time.
    Starting(&'static str),
    /// Condition that is set when a run ends; its last transition is the time.
    Ending(&'static str),
    /// Time of the last write of the status; every run writes it.
    StatusWrite,
    /// Event of the controller about the object.
    Event,
}

/// An entry of the table.
#[derive(Debug)]
pub struct FluxKind {
    pub group: &'static str,
    pub kind: &'static str,
    /// Short names that Flux users type; the CRD of the cluster may not declare them.
    pub aliases: &'static [&'static str],
    /// The way to suspend an object of this kind.
    pub suspends: Suspends,
    /// Effect of deleting an object, unless `spec.suspend` is set; the annotation does not prevent it.
    pub deletion: Option<&'static str>,
    /// The status shows when a requested reconciliation is done.
    pub waitable: bool,
    /// Name of the controller; the field managers of its status end in it.
    pub controller: &'static str,
    /// JSON pointers to the revision, the best first.
    pub revision: &'static [&'static str],
    /// JSON pointers to references to sources, with the kind of a reference that names none.
    pub sources: &'static [(&'static str, &'static str)],
    /// Evidence of a run, the best first.
    pub traces: &'static [Trace],
    /// Longest duration of a run if `spec.timeout` is not set.
    pub timeout: Duration,
}

const TOOLKIT: FluxKind = FluxKind {
    group: "",
    kind: "",
    aliases: &[],
    suspends: Suspends::Spec,
    deletion: None,
    waitable: true,
    controller: "",
    revision: &[],
    sources: &[],
    traces: &[],
    timeout: Duration::from_secs(60),
};
const SOURCE: FluxKind = FluxKind {
    group: SOURCE_GROUP,
    controller: "source-controller",
    revision: &["/status/artifact/revision"],
    // A poll without a new revision does not write to the object: it only sends an Event.
    traces: &[
        Trace::During("/status/artifact/lastUpdateTime"),
        Trace::Starting("Reconciling"),
        Trace::Ending("Ready"),
        Trace::StatusWrite,
        Trace::Event,
    ],
    ..TOOLKIT
};
const IMAGE: FluxKind = FluxKind {
    group: "image.toolkit.fluxcd.io",
    controller: "image-reflector-controller",
    traces: &[Trace::Starting("Reconciling"), Trace::Ending("Ready"), Trace::StatusWrite, Trace::Event],
    ..TOOLKIT
};
const NOTIFICATION: FluxKind = FluxKind {
    group: "notification.toolkit.fluxcd.io",
    controller: "notification-controller",
    waitable: false,
    ..TOOLKIT
};
const OPERATOR: FluxKind = FluxKind {
    group: "fluxcd.controlplane.io",
    suspends: Suspends::Switch(OPERATOR_SWITCH),
    controller: "flux-operator",
    revision: &["/status/lastAppliedRevision"],
    traces: &[Trace::Runs("/status/history"), Trace::Starting("Reconciling"), Trace::Ending("Ready"), Trace::Event],
    timeout: Duration::from_secs(300),
    ..TOOLKIT
};

/// Every kind, in the order of dependencies: a kind uses only kinds before it.
pub static KINDS: [FluxKind; 19] = [
    FluxKind { kind: "FluxInstance", ..OPERATOR },
    FluxKind { kind: "FluxReport", ..OPERATOR },
    FluxKind { kind: "ResourceSetInputProvider", aliases: &["rsip"], ..OPERATOR },
    FluxKind { kind: "ResourceSet", aliases: &["rset"], ..OPERATOR },
    FluxKind { kind: "GitRepository", aliases: &["gitrepo"], ..SOURCE },
    FluxKind { kind: "OCIRepository", aliases: &["ocirepo"], ..SOURCE },
    FluxKind { kind: "Bucket", ..SOURCE },
    FluxKind { kind: "HelmRepository", aliases: &["helmrepo"], ..SOURCE },
    FluxKind { kind: "HelmChart", aliases: &["hc"], sources: &[("/spec/sourceRef", "HelmRepository")], ..SOURCE },
    FluxKind {
        group: GENERATOR_GROUP,
        kind: GENERATOR,
        aliases: &["ag"],
        suspends: Suspends::Switch(ARTIFACT_SWITCH),
        controller: "source-watcher",
        sources: &[("/spec/sources", "")],
        traces: &[Trace::Starting("Reconciling"), Trace::Ending("Ready"), Trace::StatusWrite, Trace::Event],
        ..TOOLKIT
    },
    FluxKind {
        kind: "ExternalArtifact",
        aliases: &["ea"],
        suspends: Suspends::Nothing,
        waitable: false,
        sources: &[("/spec/sourceRef", "")],
        traces: &[],
        ..SOURCE
    },
    FluxKind {
        group: "kustomize.toolkit.fluxcd.io",
        kind: "Kustomization",
        aliases: &["ks"],
        deletion: Some("prunes what it applied"),
        controller: KUSTOMIZE_CONTROLLER,
        revision: &["/status/lastAppliedRevision", "/status/lastAttemptedRevision"],
        sources: &[("/spec/sourceRef", "")],
        // Every run changes Ready, also a run that started before the suspension; the history has the start of each run.
        traces: &[Trace::Runs("/status/history"), Trace::Ending("Ready"), Trace::Event],
        timeout: Duration::from_secs(300),
        ..TOOLKIT
    },
    FluxKind {
        group: "helm.toolkit.fluxcd.io",
        kind: "HelmRelease",
        aliases: &["hr"],
        deletion: Some("uninstalls its release"),
        controller: "helm-controller",
        revision: &["/status/history/0/chartVersion", "/status/lastAttemptedRevision"],
        sources: &[("/spec/chartRef", ""), ("/spec/chart/spec/sourceRef", "HelmRepository")],
        // Ready does not change while a healthy release is reconciled; each run adds and removes Reconciling.
        traces: &[
            Trace::During("/status/history/0/lastDeployed"),
            Trace::Starting("Reconciling"),
            Trace::StatusWrite,
            Trace::Event,
        ],
        timeout: Duration::from_secs(300),
        ..TOOLKIT
    },
    FluxKind {
        kind: "ImageRepository",
        aliases: &["imgrepo", "imagerepo"],
        traces: &[Trace::During("/status/lastScanResult/scanTime"), Trace::Ending("Ready"), Trace::Event],
        ..IMAGE
    },
    FluxKind {
        kind: "ImagePolicy",
        aliases: &["imgpol", "imagepol"],
        revision: &["/status/latestRef/tag", "/status/latestImage"],
        sources: &[("/spec/imageRepositoryRef", "ImageRepository")],
        ..IMAGE
    },
    FluxKind {
        kind: "ImageUpdateAutomation",
        aliases: &["iua", "imgupd", "imgauto"],
        controller: "image-automation-controller",
        revision: &["/status/lastPushCommit"],
        sources: &[("/spec/sourceRef", "GitRepository")],
        traces: &[Trace::Started("/status/lastAutomationRunTime"), Trace::Ending("Ready"), Trace::Event],
        ..IMAGE
    },
    FluxKind {
        kind: "Receiver",
        waitable: true,
        traces: &[Trace::Starting("Reconciling"), Trace::Ending("Ready"), Trace::StatusWrite, Trace::Event],
        ..NOTIFICATION
    },
    FluxKind { kind: "Provider", aliases: &["alert-provider"], ..NOTIFICATION },
    FluxKind { kind: "Alert", sources: &[("/spec/providerRef", "Provider")], ..NOTIFICATION },
];

/// Returns the entry of a group and kind; `None` if it is not a kind of Flux.
pub fn find(group: &str, kind: &str) -> Option<&'static FluxKind> {
    KINDS.iter().find(|known| known.group == group && known.kind == kind)
}

impl FluxKind {
    /// Returns the entry of an object's kind; `None` if it is not a kind of Flux.
    pub fn of(full: &Resource) -> Option<&'static Self> {
        find(&full.object.id.group, &full.object.id.kind)
    }

    /// Returns the references to sources in an object, with the kind of a reference that names none.
    pub(crate) fn source_references(full: &Resource) -> Vec<(&Value, &'static str)> {
        let mut found = vec![];
        for (pointer, kind) in Self::of(full).map_or(&[][..], |known| known.sources) {
            let Some(value) = full.at(pointer) else { continue };
            let entries = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
            found.extend(entries.iter().map(|entry| (entry, *kind)));
        }
        found
    }

    pub fn group_kind(&self) -> GroupKind {
        GroupKind::new(self.group, self.kind)
    }

    /// Returns true if no status of the object shows a run: Alert, Provider, and a HelmRepository of an OCI registry.
    pub(crate) fn is_static(&self, full: &Resource) -> bool {
        self.traces.is_empty() || (self.kind == "HelmRepository" && full.text("/spec/type") == Some("oci"))
    }

    /// Returns true if the object shows when a requested reconciliation is done.
    pub fn can_wait(&self, full: &Resource) -> bool {
        self.waitable && !self.is_static(full)
    }

    /// Returns the effect of deleting an object that the annotation suspends; `None` if its objects are left behind.
    pub(crate) fn deletion_of(&self, full: &Resource) -> Option<&'static str> {
        let prunes = match full.text("/spec/deletionPolicy") {
            Some("Delete" | "WaitForTermination") => true,
            Some("Orphan") => false,
            _ => self.kind != "Kustomization" || full.flag("/spec/prune"),
        };
        self.deletion.filter(|_| prunes)
    }

    /// Returns the revision of an object's status.
    pub(crate) fn revision_of<'a>(&self, full: &'a Resource) -> Option<&'a str> {
        self.revision.iter().find_map(|pointer| full.text(pointer)).filter(|revision| !revision.is_empty())
    }

    /// Returns the annotation that suspends only this kind.
    pub fn switch(&self) -> Option<&'static str> {
        match self.suspends {
            Suspends::Switch(key) => Some(key),
            Suspends::Spec | Suspends::Nothing => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_aliases_are_named_once() {
        let mut names: Vec<_> = KINDS.iter().map(|kind| kind.kind).collect();
        names.extend(KINDS.iter().flat_map(|kind| kind.aliases));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn each_kind_has_its_way_to_suspend_and_its_evidence_of_runs() {
        for kind in &KINDS {
            let operator = kind.group == "fluxcd.controlplane.io" || kind.kind == "ArtifactGenerator";
            assert_eq!(kind.switch().is_some(), operator, "{}", kind.kind);
            assert_eq!(kind.suspends == Suspends::Nothing, kind.kind == "ExternalArtifact", "{}", kind.kind);
            let has_no_runs = ["Alert", "Provider", "ExternalArtifact"].contains(&kind.kind);
            assert_eq!((kind.waitable, kind.traces.is_empty()), (!has_no_runs, has_no_runs), "{}", kind.kind);
            assert!(!kind.controller.is_empty(), "{}", kind.kind);
        }
    }
}
