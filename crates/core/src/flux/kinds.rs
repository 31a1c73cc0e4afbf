//! Every kind of Flux and flux-operator, as data: how it is suspended, and where its status tells of revisions and runs.
//!
//! Versions are not here: discovery knows which one a cluster serves. Source: reference flux 3 and 4.

use std::time::Duration;

use crate::kubernetes::object::{GroupKind, Resource};

/// How an object of a kind is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspends {
    /// `spec.suspend`.
    Spec,
    /// An annotation of the kind's own, with the value `disabled`.
    Switch(&'static str),
    /// There is nothing to suspend.
    Nothing,
}

/// The switch of flux-operator's kinds.
pub const OPERATOR_SWITCH: &str = crate::ownership::schemes::flux_operator::SWITCH;

/// The switch of ArtifactGenerator.
pub const ARTIFACT_SWITCH: &str = "source.extensions.fluxcd.io/reconcile";

/// What a status says of a run, when it can say anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trace {
    /// An array of runs with `lastReconciled` and `lastReconciledDuration`: tells when a run started.
    Runs(&'static str),
    /// A time that is written when a run starts.
    Started(&'static str),
    /// A time that is written in the course of a run.
    During(&'static str),
    /// The last transition of a condition that is set when a run starts.
    Starting(&'static str),
    /// The last transition of a condition that is set when a run ends.
    Ending(&'static str),
    /// The last write of the status, which every run makes.
    StatusWrite,
    /// An Event that the controller sent about the object.
    Event,
}

/// One kind.
#[derive(Debug)]
pub struct FluxKind {
    /// API group.
    pub group: &'static str,
    /// Kind in CamelCase.
    pub kind: &'static str,
    /// Short names that Flux users type, whether or not the cluster's CRD declares them.
    pub aliases: &'static [&'static str],
    /// How it is suspended.
    pub suspends: Suspends,
    /// What its deletion does unless `spec.suspend` holds, also when the annotation suspends it.
    pub deletion: Option<&'static str>,
    /// Whether a status tells when a reconcile that was asked for is done.
    pub waitable: bool,
    /// Name of its controller; field managers of its status end in it.
    pub controller: &'static str,
    /// JSON pointers to the revision, best first.
    pub revision: &'static [&'static str],
    /// JSON pointers to references to sources, and the kind meant where the reference names none.
    pub sources: &'static [(&'static str, &'static str)],
    /// What proves a run, best first.
    pub traces: &'static [Trace],
    /// How long a run may take when `spec.timeout` does not say.
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
    group: "source.toolkit.fluxcd.io",
    controller: "source-controller",
    revision: &["/status/artifact/revision"],
    // A poll that finds nothing new writes nothing to the object: only the Event tells of it.
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

/// Every kind, in the order in which they depend on one another: what comes later uses what came before.
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
        group: "source.extensions.fluxcd.io",
        kind: "ArtifactGenerator",
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
        controller: "kustomize-controller",
        revision: &["/status/lastAppliedRevision", "/status/lastAttemptedRevision"],
        sources: &[("/spec/sourceRef", "")],
        // Every run flips Ready, also one that was under way when it was suspended; the history knows when runs start.
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
        // Ready stands still while a healthy release is reconciled; each run writes Reconciling and takes it away.
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

/// The kind of this group and name, if it is one of Flux's.
pub fn find(group: &str, kind: &str) -> Option<&'static FluxKind> {
    KINDS.iter().find(|known| known.group == group && known.kind == kind)
}

impl FluxKind {
    /// The kind of an object, if it is one of Flux's.
    pub fn of(full: &Resource) -> Option<&'static Self> {
        find(&full.object.id.group, &full.object.id.kind)
    }

    /// Group and kind.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind::new(self.group, self.kind)
    }

    /// Whether an object of this kind has no status that ever tells of a run: Alert and Provider, and a HelmRepository
    /// that only names an OCI registry.
    pub fn is_static(&self, full: &Resource) -> bool {
        self.traces.is_empty() || (self.kind == "HelmRepository" && full.text("/spec/type") == Some("oci"))
    }

    /// Whether the end of a reconcile that was asked for can be seen on this object.
    pub fn can_wait(&self, full: &Resource) -> bool {
        self.waitable && !self.is_static(full)
    }

    /// What deleting an object does although the annotation suspends it: a Kustomization that does not prune leaves all.
    pub fn deletion_of(&self, full: &Resource) -> Option<&'static str> {
        let prunes = match full.text("/spec/deletionPolicy") {
            Some("Delete" | "WaitForTermination") => true,
            Some("Orphan") => false,
            _ => self.kind != "Kustomization" || full.flag("/spec/prune"),
        };
        self.deletion.filter(|_| prunes)
    }

    /// The revision that an object is at.
    pub fn revision_of<'a>(&self, full: &'a Resource) -> Option<&'a str> {
        self.revision.iter().find_map(|pointer| full.text(pointer)).filter(|revision| !revision.is_empty())
    }

    /// The annotation that switches this kind off, if it has one of its own.
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
    fn each_kind_can_be_suspended_and_proven_as_the_reference_says() {
        for kind in &KINDS {
            let operator = kind.group == "fluxcd.controlplane.io" || kind.kind == "ArtifactGenerator";
            assert_eq!(kind.switch().is_some(), operator, "{}", kind.kind);
            assert_eq!(kind.suspends == Suspends::Nothing, kind.kind == "ExternalArtifact", "{}", kind.kind);
            let mute = ["Alert", "Provider", "ExternalArtifact"].contains(&kind.kind);
            assert_eq!((kind.waitable, kind.traces.is_empty()), (!mute, mute), "{}", kind.kind);
            assert!(!kind.controller.is_empty(), "{}", kind.kind);
        }
    }
}
