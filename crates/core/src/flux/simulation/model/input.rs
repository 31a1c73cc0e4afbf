//! Input of a preview.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use crate::flux::controller_flags::ControllerFlags;
use crate::flux::helm_controller::HelmController;
use crate::flux::kustomize_controller::{Features, Version};
use crate::flux::source::artifact::Artifact;
use crate::flux::source::tree::Tree;
use crate::flux::spec::{NamespacedName, SourceId};
use crate::kubernetes::object::ObjectId;
use crate::kubernetes::snapshot::Snapshot;
use crate::plan::Fidelity;

/// Everything that a preview reads.
pub struct PreviewInput<'a> {
    pub snapshot: &'a Snapshot,
    /// Artifacts of the sources that the working tree becomes.
    pub trees: BTreeMap<SourceId, Arc<Artifact>>,
    /// Files of the same sources as they are in the repository, before source-controller packs them.
    pub repositories: BTreeMap<SourceId, Arc<Tree>>,
    /// Sources of this repository that are deployed from another ref, with that ref.
    pub pinned: BTreeMap<SourceId, String>,
    /// Version of the controller, if it is known.
    pub controller_version: Option<Version>,
    /// Live objects that somebody deletes by hand before anything else happens.
    pub by_hand: BTreeSet<ObjectId>,
    /// Rules of the controller's version.
    pub features: Features,
    pub flags: ControllerFlags,
    /// Number of Kustomizations that the controller reconciles at once.
    pub workers: usize,
    /// Result of the self-check of each Kustomization.
    pub fidelity: BTreeMap<NamespacedName, Fidelity>,
    /// Artifacts that the Kustomizations applied last, where git has them.
    pub last_applied: BTreeMap<NamespacedName, Arc<Artifact>>,
    /// Artifacts that the sources of the trees, and the artifacts that are generated of them, have now, where git has them.
    pub deployed: BTreeMap<SourceId, Arc<Artifact>>,
    /// Generated artifacts that source-watcher stores with another content than is generated here.
    pub differing_artifacts: BTreeSet<SourceId>,
    /// The flag `--no-cross-namespace-refs` of source-watcher.
    pub generators_deny_other_namespaces: bool,
    /// Flags and feature gates of helm-controller that change what it deletes.
    pub helm_controller: HelmController,
    /// The flag `--default-service-account` of flux-operator: account of ResourceSets that name none.
    pub set_account: Option<String>,
    /// Charts in the folder of `--charts`, as `NAME-VERSION`; `None` without the flag.
    pub charts: Option<BTreeSet<String>>,
    /// Charts may be fetched from their repositories.
    pub fetches_charts: bool,
    /// The program that generates ResourceSets is on this machine.
    pub generates_sets: bool,
    /// Extent of the dry-runs; `None` if the API server is not asked.
    pub dry_runs: Option<DryRunScope>,
    /// Time at which the computation ends with a gap; `None` if it has no limit.
    pub deadline: Option<Instant>,
}

/// Extent of the dry-runs.
#[derive(Clone, Debug, Default)]
pub struct DryRunScope {
    /// Every applied object is compared and the plan has the differences. Otherwise only changed manifests are sent.
    pub compares_all: bool,
    /// Other clusters that cannot be asked, because they were read from files.
    pub unread: BTreeSet<Arc<str>>,
}
