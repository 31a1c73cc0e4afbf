//! A small cluster in which Flux applied some files.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::flux::apply::AppliedObject;
use crate::flux::apply::dry_run::DryRunResult;
use crate::flux::build;
use crate::flux::build::objects;
use crate::flux::build::{BuildContext, Interrupt};
use crate::flux::controller_flags::ControllerFlags;
use crate::flux::controllers::FluxControllers;
use crate::flux::helm_controller::HelmController;
use crate::flux::kustomize_controller::Features;
use crate::flux::simulation::model::refusals::{DeletionRefusal, Refusal};
use crate::flux::simulation::*;
use crate::flux::source::artifact::Artifact;
use crate::flux::source::options::SourceOptions;
use crate::flux::source::tree::Tree;
use crate::flux::spec::KustomizationSpec;
use crate::flux::spec::SourceId;
use crate::kubernetes::snapshot::ClusterIdentity;
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::index::Index;
use crate::ownership::schemes::flux_kustomization::{NAME, NAMESPACE};
use crate::ownership::schemes::inventory_id;
use crate::plan::Action;
use crate::plan::contradictions::contradictions;
use crate::plan::finished::{Executor, Finish, FinishedPlan};
use crate::plan::limits::Limits;
use crate::plan::mask::SecretMask;
use crate::testing;

pub(crate) const NS: &str = "flux-system";

pub(crate) fn cm(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": NS}})
}

pub(crate) fn annotated(mut manifest: Value, key: &str, value: &str) -> Value {
    manifest["metadata"]["annotations"][format!("kustomize.toolkit.fluxcd.io/{key}")] = value.into();
    manifest
}

pub(crate) fn in_namespace(mut manifest: Value, namespace: &str) -> Value {
    manifest["metadata"]["namespace"] = namespace.into();
    manifest
}

pub(crate) fn cluster_scoped(kind: &str, name: &str) -> Value {
    let version = if kind == "ClusterRole" { "rbac.authorization.k8s.io/v1" } else { "v1" };
    json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}})
}

pub(crate) fn ks(name: &str, path: &str, more: Value) -> Value {
    let mut spec = json!({"path": path, "prune": true, "sourceRef": {"kind": "GitRepository", "name": "repo"}});
    let fields = more.as_object().cloned().unwrap_or_default();
    fields.into_iter().for_each(|(key, value)| spec[key] = value);
    let metadata = json!({"name": name, "namespace": NS});
    json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "metadata": metadata, "spec": spec})
}

/// Paths of files with their objects.
pub(crate) type Files = Vec<(&'static str, Vec<Value>)>;

pub(crate) fn artifact(files: &Files) -> Arc<Artifact> {
    Arc::new(Artifact::pack(&tree(files), &SourceOptions::default()))
}

fn tree(files: &Files) -> Tree {
    let text = |objects: &Vec<Value>| objects.iter().map(Value::to_string).collect::<Vec<_>>().join("\n---\n");
    files.iter().map(|(path, objects)| (*path, text(objects))).collect()
}

/// Decides which applies a result is of.
pub(crate) type AppliesTo = fn(&AppliedObject) -> bool;

/// Revision of the first step of a plan.
pub(crate) const FIRST_STEP: &str = "main@sha1:2";

/// A cluster in the state after Flux applied some files. Tests change it further.
pub(crate) struct TestCluster {
    pub(crate) snapshot: Snapshot,
    pub(crate) features: Features,
    pub(crate) flags: ControllerFlags,
    pub(crate) helm_controller: HelmController,
    /// Account of ResourceSets that name none.
    pub(crate) set_account: Option<String>,
    pub(crate) workers: usize,
    pub(crate) pinned: bool,
    /// Further GitRepositories with the same files.
    pub(crate) sources: Vec<&'static str>,
    /// Live manifests by name.
    pub(crate) data: BTreeMap<String, Value>,
    /// Objects that queries read, by name.
    pub(crate) content: BTreeMap<String, Value>,
    pub(crate) refusals: Vec<Refusal>,
    pub(crate) deletion_refusals: Vec<DeletionRefusal>,
    /// Refusals to create an object whose live one is deleted before, by name.
    pub(crate) creation_refusals: BTreeMap<&'static str, &'static str>,
    /// Results of the applies that a function accepts.
    pub(crate) results: Vec<(AppliesTo, DryRunResult)>,
    /// Refusals of the API server in upgrades and of ResourceSets, by name; `None` if it does not answer.
    pub(crate) upgrades: Option<BTreeMap<&'static str, &'static str>>,
    /// Answers about the applies of live objects by other owners than Kustomizations, by name.
    pub(crate) live_changes: BTreeMap<&'static str, DryRunResult>,
    /// Files that were applied last, if the checkout has that revision.
    pub(crate) history: Option<Files>,
    /// In the second step of a plan: the files that those applied last that did not apply [`FIRST_STEP`].
    pub(crate) older: Option<Files>,
    /// Packed charts of `--charts`, by `NAME-VERSION`.
    pub(crate) charts: Option<BTreeMap<String, Vec<u8>>>,
    /// Charts that can be fetched, by their description; `None` without `--allow-network`.
    pub(crate) remote: Option<BTreeMap<String, Vec<u8>>>,
    /// ExternalArtifacts and their files, as far as they are known.
    pub(crate) artifacts: BTreeMap<&'static str, Files>,
    /// ExternalArtifacts that are stored with other files.
    pub(crate) differing: Vec<SourceId>,
    /// The program flux-operator is there.
    pub(crate) has_operator: bool,
    /// The API server refuses changes with a message that quotes the manifest, or fails with one.
    pub(crate) quotes_manifests: bool,
    /// The API server refuses each manifest that holds one of these, and quotes it.
    pub(crate) quoted_values: Vec<String>,
    /// The API server answers with the object that an apply makes of the live one, so that the plan has its differences.
    pub(crate) compares: bool,
    /// The API server refuses the change of each live object, and quotes it as it is.
    pub(crate) quotes_live: bool,
    /// Helm's records of releases, by the name of the release.
    pub(crate) release_records: BTreeMap<String, Vec<Resource>>,
    /// Archives in the storage of source-controller, by their path in the API server.
    pub(crate) stored: BTreeMap<String, Vec<u8>>,
}

impl TestCluster {
    pub(crate) fn new(files: &Files) -> Self {
        let mut cluster = Self {
            snapshot: Snapshot::new(chrono::DateTime::UNIX_EPOCH, ClusterIdentity::default()),
            features: Features::default(),
            flags: ControllerFlags::default(),
            helm_controller: HelmController::default(),
            set_account: None,
            workers: 4,
            pinned: false,
            sources: vec![],
            data: BTreeMap::new(),
            content: BTreeMap::new(),
            refusals: vec![],
            deletion_refusals: vec![],
            creation_refusals: BTreeMap::new(),
            results: vec![],
            upgrades: None,
            live_changes: BTreeMap::new(),
            history: None,
            older: None,
            has_operator: false,
            quotes_manifests: false,
            quoted_values: vec![],
            compares: false,
            quotes_live: false,
            release_records: BTreeMap::new(),
            stored: BTreeMap::new(),
            artifacts: BTreeMap::new(),
            differing: vec![],
            charts: None,
            remote: None,
        };
        let types = [
            ("", "Namespace", "namespaces", false),
            ("", "ConfigMap", "configmaps", true),
            ("", "ServiceAccount", "serviceaccounts", true),
            ("rbac.authorization.k8s.io", "ClusterRole", "clusterroles", false),
            (GROUP, KIND, "kustomizations", true),
            ("", "Secret", "secrets", true),
            ("helm.toolkit.fluxcd.io", "HelmRelease", "helmreleases", true),
            ("fluxcd.controlplane.io", "ResourceSet", "resourcesets", true),
            ("fluxcd.controlplane.io", "FluxInstance", "fluxinstances", true),
            ("fluxcd.controlplane.io", "ResourceSetInputProvider", "resourcesetinputproviders", true),
            ("source.extensions.fluxcd.io", "ArtifactGenerator", "artifactgenerators", true),
            ("source.toolkit.fluxcd.io", "GitRepository", "gitrepositories", true),
            ("source.toolkit.fluxcd.io", "OCIRepository", "ocirepositories", true),
            ("source.toolkit.fluxcd.io", "HelmRepository", "helmrepositories", true),
            ("source.toolkit.fluxcd.io", "HelmChart", "helmcharts", true),
            ("source.toolkit.fluxcd.io", "ExternalArtifact", "externalartifacts", true),
        ];
        for (group, kind, plural, namespaced) in types {
            cluster.snapshot.types.push(testing::resource_type(group, kind, plural, namespaced));
        }
        cluster.add(&cluster_scoped("Namespace", NS), None);
        cluster.apply(&ks("root", "./root", json!({})), None, &artifact(files));
        cluster.snapshot.normalise();
        cluster
    }

    pub(crate) fn add(&mut self, manifest: &Value, owner: Option<&str>) -> ObjectId {
        let id = objects::objects(manifest.clone().into(), None)[0].id.clone();
        let pairs = |part: &str| {
            let marks = manifest["metadata"][part].as_object().cloned().unwrap_or_default();
            marks
                .into_iter()
                .map(|(key, value)| (key, value.as_str().unwrap_or_default().to_owned()))
                .collect::<Vec<_>>()
        };
        let mut labels = pairs("labels");
        if let Some(owner) = owner {
            labels.extend([(NAME.to_owned(), owner.to_owned()), (NAMESPACE.to_owned(), NS.to_owned())]);
        }
        self.data.insert(id.name.to_string(), manifest.clone());
        self.snapshot.objects.push(ObjectMetadata {
            uid: id.to_string().into(),
            id: id.clone(),
            labels: labels.into_iter().collect(),
            annotations: pairs("annotations").into_iter().collect(),
            ..testing::object("", "", "", "")
        });
        id
    }

    /// Adds an object, with its content if it is of a kind whose content is read.
    pub(crate) fn add_with_content(&mut self, manifest: &Value, owner: Option<&str>, status: Value) {
        let id = self.add(manifest, owner);
        let is_read = !id.is(GROUP, KIND) && self.snapshot.resources.iter().all(|full| full.object.id != id);
        if is_read && (id.group.ends_with("fluxcd.io") || id.group.ends_with("controlplane.io")) {
            let object = self.snapshot.objects.iter().find(|object| object.id == id).cloned().unwrap();
            let content = json!({"spec": manifest["spec"], "status": status});
            self.snapshot.resources.push(Resource { object, content });
        }
    }

    /// Applies a Kustomization and its children.
    pub(crate) fn apply(&mut self, manifest: &Value, owner: Option<&str>, artifact: &Arc<Artifact>) {
        let id = self.add(manifest, owner);
        let (key, spec) = (NamespacedName::of(&id), KustomizationSpec::new(&manifest["spec"]));
        let built = self.finish(|answers| {
            let mut needs = build::Needs::default();
            let mut context = BuildContext::new(self.features, &answers.builds, &mut needs);
            match build::build(artifact, &key, &spec, &mut context) {
                Err(Interrupt::Missing) => Progress::of_builds(needs),
                built => Progress::Done(built),
            }
        });
        let mut entries = vec![];
        for object in built.unwrap_or_default().iter() {
            entries.push(json!({"id": inventory_id::format(&object.id), "v": "v1"}));
            if object.id.is(GROUP, KIND) && object.id.name != id.name {
                self.apply(&object.manifest, Some(&key.name), artifact);
            } else {
                self.add_with_content(&object.manifest, Some(&key.name), json!({}));
            }
        }
        let content = json!({"spec": manifest["spec"], "status": {"inventory": {"entries": entries},
            "conditions": [{"type": "Ready", "status": "True"}]}});
        let object = self.snapshot.objects.iter_mut().find(|object| object.id == id).unwrap();
        object.finalizers = vec!["finalizers.fluxcd.io".into()];
        let object = object.clone();
        self.snapshot.resources.push(Resource { object, content });
    }

    pub(crate) fn object(&mut self, name: &str) -> &mut ObjectMetadata {
        self.snapshot.objects.iter_mut().find(|object| &*object.id.name == name).unwrap()
    }

    pub(crate) fn kustomization(&mut self, name: &str) -> &mut Resource {
        self.snapshot.resources.iter_mut().find(|full| &*full.object.id.name == name).unwrap()
    }

    /// Moves the objects of a Kustomization to another cluster, `edge`, which the Secret `spoke` reaches.
    pub(crate) fn move_to_spoke(&mut self, owner: &str) {
        self.move_to_spoke_if(|object| object.labels.get(NAME) == Some(owner));
    }

    /// Moves objects to another cluster, `edge`, which the Secret `spoke` reaches.
    pub(crate) fn move_to_spoke_if(&mut self, moves: impl Fn(&ObjectMetadata) -> bool) {
        let mut spoke = Snapshot::new(chrono::DateTime::UNIX_EPOCH, ClusterIdentity::default());
        spoke.types.clone_from(&self.snapshot.types);
        spoke.objects = self.snapshot.objects.extract_if(.., |object| moves(object)).collect();
        spoke.resources = self.snapshot.resources.extract_if(.., |full| moves(&full.object)).collect();
        let namespace = cluster_scoped("Namespace", NS);
        spoke.objects.push(testing::object("", "Namespace", "", namespace["metadata"]["name"].as_str().unwrap()));
        spoke.normalise();
        self.snapshot.add_spoke("edge", spoke);
        let secret = ObjectId::new("", "Secret", NS, "spoke");
        self.snapshot.kube_configs.insert((secret, None), "edge".into());
    }

    pub(crate) fn plan(&self, files: &Files) -> Plan {
        self.finish_preview(self.input(files)).plan
    }

    /// Plays a preview to its end.
    pub(crate) fn finish_preview(&self, input: PreviewInput<'_>) -> FinishedPreview {
        let mut preview = Preview::new(input);
        let finished = *self.finish(|answers| preview.step(answers));
        assert_eq!(contradictions(&finished.plan), [""; 0]);
        finished
    }

    pub(crate) fn input(&self, files: &Files) -> PreviewInput<'_> {
        let id = SourceId { kind: "GitRepository".into(), namespace: NS.into(), name: "repo".into() };
        let mut pinned = BTreeMap::new();
        let mut trees = BTreeMap::new();
        if self.pinned {
            pinned.insert(id, "tag v1".to_owned());
        } else {
            let others = self.sources.iter().map(|name| SourceId { name: (*name).into(), ..id.clone() });
            trees.extend(others.map(|other| (other, artifact(files))));
            trees.insert(id, artifact(files));
        }
        let history = self.history.as_ref().map(artifact);
        let older = self.older.as_ref().map(artifact);
        let kustomizations = self.snapshot.resources.iter().filter(|full| full.object.id.is(GROUP, KIND));
        let last_applied = kustomizations.filter_map(|full| {
            let has_applied = full.text("/status/lastAppliedRevision") == Some(FIRST_STEP);
            let applied = older.as_ref().filter(|_| !has_applied).or(history.as_ref());
            Some((NamespacedName::of(&full.object.id), applied?.clone()))
        });
        let last_applied = last_applied.collect();
        let mut deployed: BTreeMap<SourceId, Arc<Artifact>> =
            trees.keys().filter_map(|source| Some((source.clone(), history.clone()?))).collect();
        deployed.extend(self.artifacts.iter().map(|(name, files)| {
            let id = SourceId { kind: "ExternalArtifact".into(), namespace: NS.into(), name: (*name).into() };
            (id, artifact(files))
        }));
        PreviewInput {
            deadline: None,
            snapshot: &self.snapshot,
            repositories: trees.keys().map(|source| (source.clone(), Arc::new(tree(files)))).collect(),
            trees,
            pinned,
            controller_version: None,
            by_hand: BTreeSet::new(),
            features: self.features,
            flags: self.flags.clone(),
            workers: self.workers,
            fidelity: BTreeMap::new(),
            last_applied,
            differing_artifacts: self.differing.iter().cloned().collect(),
            generators_deny_other_namespaces: false,
            helm_controller: self.helm_controller.clone(),
            set_account: self.set_account.clone(),
            deployed,
            fetches_charts: self.remote.is_some(),
            generates_sets: self.has_operator,
            charts: self.charts.as_ref().map(|charts| charts.keys().cloned().collect()),
            dry_runs: self
                .sends_dry_runs()
                .then(|| DryRunScope { compares_all: self.compares, ..DryRunScope::default() }),
        }
    }

    /// Returns the rows of a plan as `ACTION NAME`, with `?` for a race; without creates and updates.
    pub(crate) fn rows(&self, files: &Files) -> BTreeSet<String> {
        self.rows_if(files, |action| !matches!(action, Action::Create | Action::Update))
    }

    /// Returns all rows of a plan as `ACTION NAME`, with `?` for a race.
    pub(crate) fn all_rows(&self, files: &Files) -> BTreeSet<String> {
        self.rows_if(files, |_| true)
    }

    fn rows_if(&self, files: &Files, is_shown: impl Fn(Action) -> bool) -> BTreeSet<String> {
        let plan = self.plan(files);
        let shown = plan.changes().iter().filter(|change| is_shown(change.action));
        let row = |change: &crate::plan::Change| {
            let race = if change.certainty == crate::plan::Certainty::Race { "?" } else { "" };
            format!("{}{race} {}", change.action, change.object.id.name)
        };
        shown.map(row).collect()
    }

    pub(crate) fn outcome(&self, files: &Files, owner: &str) -> String {
        let plan = self.plan(files);
        let row = plan.owners().iter().find(|row| row.owner.name == owner).unwrap();
        format!("{:?}: {}", row.outcome, row.reason)
    }
}

pub(crate) fn set(rows: &[&str]) -> BTreeSet<String> {
    rows.iter().map(|row| (*row).to_owned()).collect()
}

pub(crate) fn rows(before: &Files, after: &Files) -> BTreeSet<String> {
    TestCluster::new(before).rows(after)
}

/// Finishes a plan for controllers as the command line does, without a policy.
pub(crate) fn finished(plan: Plan, snapshot: &Snapshot, secrets: &SecretMask) -> FinishedPlan {
    let index = Index::build(snapshot);
    let finish = Finish {
        snapshot,
        is_recorded: false,
        executor: Executor::Controllers(&index),
        limits: Limits::default(),
        secrets,
        policy: None,
    };
    finish.finish(plan, FluxControllers::new).0
}
