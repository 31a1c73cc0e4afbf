//! The plans of a change, in a cluster with a secret value and a public one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde_json::{Value, json};

use super::super::cluster::{FIRST_STEP, Files, NS, TestCluster, artifact, cm, finished, ks};
use super::change::Change;
use crate::flux::build;
use crate::flux::handover::{left_over, losses};
use crate::flux::simulation::questions::{Answers, FinishedPreview, Progress};
use crate::flux::simulation::{Declared, Preview, StateAfter};
use crate::kubernetes::object::ObjectId;
use crate::kubernetes::snapshot::Snapshot;
use crate::plan::contradictions::contradictions;
use crate::plan::finished::FinishedPlan;

/// Plan of a change, with the cluster.
pub struct Planned {
    pub plan: FinishedPlan,
    pub snapshot: Snapshot,
    /// Plan of a second step, which takes the change back.
    pub back: FinishedPlan,
    /// Text with everything that the searches of `handover` and `--why-gone` read of both steps.
    pub searches: String,
}

/// Answers of the API server of a case to dry-runs.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Server {
    Accepts,
    /// It quotes some manifests in refusals.
    QuotesSome,
    /// It quotes each manifest that holds the value in a refusal.
    QuotesValues,
    /// It accepts everything, and the plan has the differences to the live objects.
    Compares,
    /// It refuses the change of each live object, and quotes it.
    QuotesLive,
}

/// Returns a path for the file of a template.
fn template_path(number: usize) -> &'static str {
    const PATHS: [&str; 6] = [
        "charts/app/templates/web.yaml",
        "charts/app/templates/extra.yaml",
        "charts/app/templates/c.yaml",
        "charts/app/templates/d.yaml",
        "charts/app/templates/e.yaml",
        "charts/app/templates/f.yaml",
    ];
    PATHS[number]
}

/// Returns the path of a template: the one named `looked-up` looks up an object of a kind that its values name.
fn path_of(number: usize, template: &Value) -> &'static str {
    let looks_up = template["metadata"]["name"] == "looked-up";
    if looks_up { "charts/app/templates/lookup-kind.yaml" } else { template_path(number) }
}

fn files(apps: &[Value], child: &[Value], templates: &[Value]) -> Files {
    let mut files: Files = vec![
        ("root/x.yaml", vec![cm("x")]),
        ("apps/a.yaml", apps.to_vec()),
        ("child/a.yaml", child.to_vec()),
        ("charts/app/Chart.yaml", vec![json!({"apiVersion": "v2", "name": "app", "version": "1"})]),
    ];
    files.extend(
        templates.iter().enumerate().map(|(number, template)| (path_of(number, template), vec![template.clone()])),
    );
    files
}

/// Plans a change in a cluster with both variables.
pub(super) fn planned(change: &Change, secret: &str, public_value: &str, server: Server) -> Planned {
    let before = files(&change.before, &[cm("of-child")], &change.templates[0]);
    let after = files(&change.after, &change.child, &change.templates[1]);
    let mut cluster = TestCluster::new(&before);
    cluster.has_operator = true;
    let types = [
        ("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", false),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", false),
        ("apps", "Deployment", "deployments", true),
        ("external-secrets.io", "ExternalSecret", "externalsecrets", true),
        ("source.toolkit.fluxcd.io", "Bucket", "buckets", true),
        ("apps", "StatefulSet", "statefulsets", true),
        ("", "PersistentVolumeClaim", "persistentvolumeclaims", true),
        ("", "PersistentVolume", "persistentvolumes", false),
        ("", "ResourceQuota", "resourcequotas", true),
        ("", "LimitRange", "limitranges", true),
        ("", "Pod", "pods", true),
        ("", "Service", "services", true),
        ("scheduling.k8s.io", "PriorityClass", "priorityclasses", false),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", false),
        (
            "admissionregistration.k8s.io",
            "ValidatingAdmissionPolicyBinding",
            "validatingadmissionpolicybindings",
            false,
        ),
        ("rbac.authorization.k8s.io", "Role", "roles", true),
        ("rbac.authorization.k8s.io", "RoleBinding", "rolebindings", true),
        ("batch", "Job", "jobs", true),
        ("networking.k8s.io", "Ingress", "ingresses", true),
        ("apiregistration.k8s.io", "APIService", "apiservices", false),
        ("image.toolkit.fluxcd.io", "ImageUpdateAutomation", "imageupdateautomations", true),
    ];
    let types =
        types.map(|(group, kind, plural, namespaced)| crate::testing::resource_type(group, kind, plural, namespaced));
    cluster.snapshot.types.extend(types);
    cluster.quotes_manifests = server == Server::QuotesSome;
    (cluster.compares, cluster.quotes_live) = (server == Server::Compares, server == Server::QuotesLive);
    if server == Server::QuotesValues {
        cluster.quoted_values = vec![secret.to_owned(), public_value.to_owned()];
    }
    let data = |kind: &str, name: &str, field: &str, data: Value| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": NS}, field: data});
    let values = |value: &str| json!({"values.yaml": format!("n: {value}")});
    cluster.add(&data("Secret", "vars", "stringData", json!({"PASSWORD": secret})), None);
    cluster.add(&data("Secret", "values", "stringData", values(secret)), None);
    cluster.add(&data("ConfigMap", "open-values", "data", values(public_value)), None);
    cluster.add(&data("ConfigMap", "open", "data", json!({"OPEN": public_value})), None);
    let from = json!([{"kind": "Secret", "name": "vars"}, {"kind": "ConfigMap", "name": "open"}]);
    cluster.apply(&ks("apps", "./apps", json!({"postBuild": {"substituteFrom": from}})), None, &artifact(&before));
    cluster.history = Some(before);
    deploy(&mut cluster, &change.templates[0]);
    // The uid of a live object says nothing of its name.
    let ids: Vec<ObjectId> = cluster.snapshot.objects.iter().map(|object| object.id.clone()).collect();
    let resources = cluster.snapshot.resources.iter_mut().map(|full| &mut full.object);
    for object in cluster.snapshot.objects.iter_mut().chain(resources) {
        let number = ids.iter().position(|id| *id == object.id).unwrap_or_default();
        object.uid = format!("uid-{number}").into();
    }
    cluster.snapshot.normalise();
    let (preview, declared, next) = played(&cluster, &after, build::Answers::default());
    let first = cluster.snapshot.clone();
    let plan = finished(preview.plan.clone(), &first, &preview.secrets);
    // The second step takes the change back, as the way back of a list of steps does. No API server has this state.
    let StateAfter { snapshot, open, data } = next;
    cluster.snapshot = snapshot;
    (cluster.quotes_manifests, cluster.quoted_values) = (false, vec![]);
    (cluster.compares, cluster.quotes_live) = (false, false);
    let mut answers = build::Answers::default();
    answers.swap_data(data.into_iter().map(|(reference, found)| (reference, Some(found))).collect());
    let before = cluster.history.replace(after).unwrap_or_default();
    cluster.older = Some(before.clone());
    let (mut second, declared_then, last) = played(&cluster, &before, answers);
    second.plan.add_gaps(open);
    let steps = [(&preview.plan, &preview.secrets), (&second.plan, &second.secrets)];
    let mut searches = format!("{declared}{declared_then}");
    for loss in losses(steps, &last.snapshot, &BTreeSet::new()) {
        writeln!(searches, "{} {:?} {}", loss.object, loss.owner, loss.reason).expect("a text takes everything");
    }
    for id in left_over(&first, &last.snapshot, steps.map(|(_, secrets)| secrets)) {
        writeln!(searches, "{id}").expect("a text takes everything");
    }
    let back = finished(second.plan, &cluster.snapshot, &second.secrets);
    Planned { plan, snapshot: first, back, searches }
}

/// Plans files in a cluster. Also returns what owners declare then, and the state after it.
fn played(cluster: &TestCluster, files: &Files, builds: build::Answers) -> (FinishedPreview, String, StateAfter) {
    let mut preview = Preview::new(cluster.input(files));
    let answers = Answers { builds, ..Answers::default() };
    let (finished, next) = cluster.finish_from(answers, |answers| match preview.step(answers) {
        Progress::Done(finished) => {
            let next = preview.after(&finished, answers, 1, FIRST_STEP);
            Progress::Done((*finished, next))
        }
        Progress::Needs(needs) => Progress::Needs(needs),
    });
    assert_eq!(contradictions(&finished.plan), [""; 0]);
    let Declared { objects, unknown, blocked } = preview.declared(&finished.plan, &BTreeMap::new(), |_| true);
    let objects = objects.iter().map(|(id, owners)| format!("{id} of {owners:?}\n"));
    let unknown = unknown.iter().map(|(owner, reason)| format!("{owner}: {reason}\n"));
    let blocked = blocked.iter().map(|owner| format!("{owner}\n"));
    (finished, objects.chain(unknown).chain(blocked).collect(), next)
}

/// Gives the release and the ResourceSet the state after they were applied.
fn deploy(cluster: &mut TestCluster, templates: &[Value]) {
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let names: Vec<String> = templates
        .iter()
        .filter_map(|template| template["metadata"]["name"].as_str().map(str::to_owned))
        .filter(|name| !name.contains("{{"))
        .collect();
    for name in &names {
        cluster.add(&cm(name), None);
    }
    cluster.add(&cm("set-one"), None);
    let entry = |name: &str| json!({"id": format!("{NS}_{name}__ConfigMap"), "v": "v1"});
    for full in &mut cluster.snapshot.resources {
        let release = json!({"name": "app", "namespace": NS, "version": 1, "chartName": "app", "chartVersion": "1",
            "status": "deployed"});
        match &*full.object.id.kind {
            "HelmRelease" => {
                let entries: Vec<Value> = names.iter().map(|name| entry(name)).collect();
                full.content["status"] = json!({"inventory": {"entries": entries}, "history": [release],
                    "conditions": ready, "observedGeneration": 1, "storageNamespace": NS});
            }
            "ResourceSet" => {
                full.content["status"] = json!({"inventory": {"entries": [entry("set-one")]}, "conditions": ready});
            }
            "FluxInstance" | "GitRepository" | "HelmRepository" => {
                full.content["status"] = json!({"conditions": ready})
            }
            "ArtifactGenerator" => {
                full.content["status"] = json!({"conditions": ready, "inventory": [{"name": "made", "namespace": NS}]});
            }
            _ => {}
        }
    }
    let labels = ["name", "namespace"].map(|part| format!("resourceset.fluxcd.controlplane.io/{part}"));
    let object = cluster.object("set-one");
    object.labels = labels.iter().map(String::as_str).zip(["set", NS]).collect();
}
