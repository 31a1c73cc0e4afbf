//! A small cluster, with a function that joins files in place of kustomize.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::flux::build;
use crate::flux::build::chart_archive;
use crate::flux::build::charts::ChartRun;
use crate::flux::build::data::{Data, Lookup};
use crate::flux::build::objects;
use crate::flux::build::resource_sets::SetRun;
use crate::flux::build::{BuildContext, BuildFailure, Run};
use crate::flux::controller_flags::ControllerFlags;
use crate::flux::kustomize_controller::Features;
use crate::flux::simulation::owner_dry_runs::OwnerDryRuns;
use crate::flux::simulation::*;
use crate::flux::source::artifact::Artifact;
use crate::flux::source::options::SourceOptions;
use crate::flux::spec::KustomizationSpec;
use crate::flux::spec::SourceId;
use crate::kubernetes::question::OwnerQuestion;
use crate::kubernetes::snapshot::ClusterIdentity;
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::schemes::flux_kustomization::{NAME, NAMESPACE};
use crate::ownership::schemes::flux_operator::SET;
use crate::ownership::schemes::inventory_id;
use crate::plan::{Action, ReasonCode};
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
    let text = |objects: &Vec<Value>| objects.iter().map(Value::to_string).collect::<Vec<_>>().join("\n---\n");
    let tree = files.iter().map(|(path, objects)| (*path, text(objects))).collect();
    Arc::new(Artifact::pack(&tree, &SourceOptions::default()))
}

/// Joins the files that a kustomization file lists, in place of kustomize.
pub(crate) fn joined(run: &Run) -> Result<String, BuildFailure> {
    let listed = run.generated.content["resources"].as_array().cloned().unwrap_or_default();
    let path = |name: &Value| {
        crate::flux::source::path::resolve(&run.generated.directory, name.as_str().unwrap_or_default())
            .unwrap_or_default()
    };
    let text = |name: &Value| String::from_utf8_lossy(run.artifact.file(&path(name)).unwrap_or_default()).into_owned();
    let text = listed.iter().map(text).collect::<Vec<_>>().join("\n---\n");
    if text.contains("broken") {
        return Err(BuildFailure::proven("broken manifest"));
    }
    if text.contains("crashes") {
        return Err(BuildFailure::unknown(ReasonCode::BuildCrashed, "a signal ended kustomize"));
    }
    Ok(text)
}

/// Joins the templates of a chart, in place of helm: without those that the value `off` lists. Fails at a template
/// `fail.yaml`.
fn rendered(run: &ChartRun) -> Result<String, String> {
    let off = run.values.iter().rev().find_map(|text| crate::yaml::document(text).ok()?.get("off").cloned());
    let is_off = |at: &str| off.iter().flat_map(|off| off.as_array()).flatten().any(|name| *name == json!(at));
    let templates = run
        .files
        .iter()
        .filter_map(|(at, content)| Some((at.strip_prefix("templates/")?, content)))
        .filter(|(at, _)| !at.starts_with('_'));
    let mut text = String::new();
    for (at, content) in templates.filter(|(at, _)| !is_off(at)) {
        if at == "fail.yaml" {
            return Err("helm fails to render it: a template fails".to_owned());
        }
        text += &format!("---\n{}\n", String::from_utf8_lossy(content));
    }
    Ok(text)
}

/// Generates the resources of a ResourceSet for each input, in place of flux-operator. Only `<< inputs.KEY >>` is replaced.
pub(super) fn expanded(run: &SetRun) -> Result<String, String> {
    let manifest: Value = serde_json::from_str(&run.manifest).unwrap();
    let (resources, inputs) = (&manifest["spec"]["resources"], &manifest["spec"]["inputs"]);
    let mut text = String::new();
    for template in resources.as_array().into_iter().flatten() {
        for input in inputs.as_array().into_iter().flatten().filter_map(Value::as_object) {
            let template = template.to_string();
            let replaced = input.iter().fold(template, |text, (key, value)| {
                text.replace(&format!("<< inputs.{key} >>"), value.as_str().unwrap())
            });
            if replaced.contains("<<") {
                return Err("flux-operator fails to generate it: map has no entry for key".to_owned());
            }
            let mut object: Value = serde_json::from_str(&replaced).unwrap();
            for (key, value) in SET.into_iter().zip([&manifest["metadata"]["name"], &manifest["metadata"]["namespace"]])
            {
                object["metadata"]["labels"][key] = value.clone();
            }
            text += &format!("---\n{object}\n");
        }
    }
    Ok(text)
}

/// A cluster in the state after Flux applied some files. Tests change it further.
pub(crate) struct TestCluster {
    pub(crate) snapshot: Snapshot,
    pub(crate) features: Features,
    pub(crate) flags: ControllerFlags,
    pub(crate) workers: usize,
    pub(crate) pinned: bool,
    /// Further GitRepositories with the same files.
    pub(crate) sources: Vec<&'static str>,
    /// Live manifests by name.
    pub(crate) data: BTreeMap<String, Value>,
    pub(crate) refusals: Vec<Refusal>,
    pub(crate) deletion_refusals: Vec<DeletionRefusal>,
    /// What the API server refuses in upgrades, by name, with its message; `None` if it is not asked.
    pub(crate) upgrades: Option<BTreeMap<&'static str, &'static str>>,
    /// Files that were applied last, if the checkout has that revision.
    pub(crate) history: Option<Files>,
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
    /// Archives in the storage of source-controller, by their path in the API server.
    pub(crate) stored: BTreeMap<String, Vec<u8>>,
}

impl TestCluster {
    pub(crate) fn new(files: &Files) -> Self {
        let mut cluster = Self {
            snapshot: Snapshot::new(chrono::DateTime::UNIX_EPOCH, ClusterIdentity::default()),
            features: Features::default(),
            flags: ControllerFlags::default(),
            workers: 4,
            pinned: false,
            sources: vec![],
            data: BTreeMap::new(),
            refusals: vec![],
            deletion_refusals: vec![],
            upgrades: None,
            history: None,
            has_operator: false,
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

    pub(crate) fn answer_data(&self, needs: &Needs, answers: &mut Answers) {
        for reference in &needs.data {
            let live = self.data.get(&reference.name).map(Data::read);
            answers.record_data(reference.clone(), live.map_or(Lookup::Missing, Lookup::Found));
        }
    }

    /// Applies a Kustomization and its children.
    pub(crate) fn apply(&mut self, manifest: &Value, owner: Option<&str>, artifact: &Arc<Artifact>) {
        let id = self.add(manifest, owner);
        let (key, spec) = (NamespacedName::of(&id), KustomizationSpec::new(&manifest["spec"]));
        let (mut answers, mut needs) = (Answers::default(), Needs::default());
        build::build(artifact, &key, &spec, &mut BuildContext::new(self.features, &answers, &mut needs));
        needs.runs.into_values().for_each(|run| answers.record_run(run.key.clone(), joined(&run)));
        let mut needs = Needs::default();
        build::build(artifact, &key, &spec, &mut BuildContext::new(self.features, &answers, &mut needs));
        self.answer_data(&needs, &mut answers);
        let built =
            build::build(artifact, &key, &spec, &mut BuildContext::new(self.features, &answers, &mut Needs::default()));
        let mut entries = vec![];
        for object in built.and_then(Result::ok).unwrap_or_default().iter() {
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
        let keys = self.snapshot.resources.iter().filter(|full| full.object.id.is(GROUP, KIND));
        let keys = keys.map(|full| NamespacedName::of(&full.object.id));
        let last_applied = keys.filter_map(|key| Some((key, history.clone()?))).collect();
        let mut deployed: BTreeMap<SourceId, Arc<Artifact>> =
            trees.keys().filter_map(|source| Some((source.clone(), history.clone()?))).collect();
        deployed.extend(self.artifacts.iter().map(|(name, files)| {
            let id = SourceId { kind: "ExternalArtifact".into(), namespace: NS.into(), name: (*name).into() };
            (id, artifact(files))
        }));
        let input = PreviewInput {
            snapshot: &self.snapshot,
            trees,
            pinned,
            features: self.features,
            flags: self.flags.clone(),
            workers: self.workers,
            fidelity: BTreeMap::new(),
            last_applied,
            differing_artifacts: self.differing.iter().cloned().collect(),
            generators_deny_other_namespaces: false,
            deployed,
            fetches_charts: self.remote.is_some(),
            charts: self.charts.as_ref().map(|charts| charts.keys().cloned().collect()),
        };
        let (mut preview, mut answers) = (Preview::new(input), Answers::default());
        let mut asked = OwnerDryRuns::default();
        preview.set_refusals(self.refusals.clone(), self.deletion_refusals.clone());
        for _ in 0..50 {
            match preview.step(&answers) {
                Progress::Done(plan) => match self.owner_dry_runs(&preview.owner_questions()) {
                    answered if answered == asked => return *plan,
                    answered => {
                        asked = answered.clone();
                        preview.set_owner_dry_runs(answered);
                    }
                },
                Progress::Needs(needs) => {
                    self.answer_data(&needs, &mut answers);
                    needs.charts.values().for_each(|run| answers.record_chart(run.key.clone(), rendered(run)));
                    needs.runs.into_values().for_each(|run| answers.record_run(run.key.clone(), joined(&run)));
                    for run in needs.resource_sets.into_values() {
                        let output = if self.has_operator { expanded(&run) } else { Err("it is not here".to_owned()) };
                        answers.record_resource_set(run.key, output);
                    }
                    for name in needs.kube_versions {
                        answers.record_kube_version(name, Some("v1.33.1".to_owned()));
                    }
                    for stem in needs.folder_charts {
                        let archive = &self.charts.as_ref().unwrap()[&stem];
                        answers.record_folder_chart(stem, chart_archive::unpack(archive).map(Arc::new));
                    }
                    for chart in needs.remote_charts {
                        let archive = self.remote.as_ref().unwrap().get(&chart.to_string()).cloned();
                        answers.record_remote_chart(chart, archive.ok_or("not found".to_owned()));
                    }
                    for artifact in needs.artifacts.values() {
                        let stored = self.stored.get(&artifact.proxy_path);
                        answers.record_artifact(artifact, stored.map(Vec::as_slice).ok_or("forbidden".to_owned()));
                    }
                }
            }
        }
        panic!("the preview does not end");
    }

    /// Answers the questions about upgrades, unless [`Self::upgrades`] is `None`.
    fn owner_dry_runs(&self, questions: &[OwnerQuestion]) -> OwnerDryRuns {
        let mut answers = OwnerDryRuns::default();
        for question in self.upgrades.iter().flat_map(|_| questions) {
            let refusal = self.upgrades.as_ref().and_then(|refused| refused.get(&*question.id.name));
            answers.add(question.clone(), refusal.map_or(Ok(()), |message| Err((*message).to_owned())));
        }
        answers
    }

    /// Returns the rows of a plan as `ACTION NAME`, with `?` for a race; without creates and updates.
    pub(crate) fn rows(&self, files: &Files) -> BTreeSet<String> {
        let plan = self.plan(files);
        let shown = |change: &&crate::plan::Change| !matches!(change.action, Action::Create | Action::Update);
        let row = |change: &crate::plan::Change| {
            let race = if change.certainty == crate::plan::Certainty::Race { "?" } else { "" };
            format!("{}{race} {}", change.action, change.object.id.name)
        };
        plan.changes().iter().filter(shown).map(row).collect()
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
