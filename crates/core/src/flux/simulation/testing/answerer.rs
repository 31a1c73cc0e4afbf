//! Scripted answers to everything that a preview asks: functions in place of the programs, and an API server that
//! refuses what a test says.

use std::sync::Arc;

use base64::Engine;
use serde_json::{Map, Value, json};

use super::cluster::{NS, TestCluster};
use crate::flux::apply::dry_run::DryRunResult;
use crate::flux::apply::manifest::manifest_to_apply;
use crate::flux::apply::question::{DryRunAnswer, Question, Request};
use crate::flux::apply::update::{Update, compare_applied};
use crate::flux::build::charts::archive;
use crate::flux::build::charts::{ChartOutput, ChartRun};
use crate::flux::build::objects::data::{Data, Lookup};
use crate::flux::build::objects::query::{ObjectQuery, QueryAnswer};
use crate::flux::build::resource_sets::SetRun;
use crate::flux::build::{self, BuildFailure, Run};
use crate::flux::kustomize_controller::KustomizeController;
use crate::flux::simulation::questions::{Answers, Needs, Progress};
use crate::flux::spec::NamespacedName;
use crate::helm::records::{RecordsAnswer, ReleaseRecords};
use crate::kubernetes::gap::{Gap, GapKind};
use crate::kubernetes::object::ObjectId;
use crate::ownership::schemes::flux_operator::SET;
use crate::plan::ReasonCode;

/// Maximum number of times that a computation asks.
const ROUNDS: usize = 50;

impl TestCluster {
    /// Answers a computation until it is done.
    pub(crate) fn finish<T>(&self, step: impl FnMut(&Answers) -> Progress<T>) -> T {
        self.finish_from(Answers::default(), step)
    }

    /// Answers a computation that knows some answers already, until it is done.
    pub(crate) fn finish_from<T>(&self, mut answers: Answers, mut step: impl FnMut(&Answers) -> Progress<T>) -> T {
        for _ in 0..ROUNDS {
            match step(&answers) {
                Progress::Done(done) => return done,
                Progress::Needs(needs) => self.answer(*needs, &mut answers),
            }
        }
        panic!("it asks without an end");
    }

    fn answer(&self, needs: Needs, answers: &mut Answers) {
        self.answer_builds(needs.builds, &mut answers.builds);
        for question in needs.dry_runs {
            answers.dry_runs.record(&question, self.dry_run(&question));
        }
    }

    fn answer_builds(&self, needs: build::Needs, answers: &mut build::Answers) {
        for reference in needs.data {
            let live = self.data.get(&reference.name).map(Data::read);
            answers.data.insert(reference, live.map_or(Lookup::Missing, Lookup::Found));
        }
        answers.charts.extend(needs.charts.into_iter().map(|(key, run)| (key, rendered(&run))));
        needs.runs.into_values().for_each(|run| answers.record_run(run.key.clone(), joined(&run)));
        for run in needs.resource_sets.into_values() {
            let output = if self.has_operator { expanded(&run) } else { Err("it is not here".to_owned()) };
            answers.resource_sets.insert(run.key, output);
        }
        for name in needs.kube_versions {
            answers.kube_versions.insert(name, Some("v1.33.1".to_owned()));
        }
        for query in needs.queries {
            let ObjectQuery { kind, name, .. } = &query.query;
            let live = self.data.values().filter(|manifest| name.is_empty() && manifest["kind"] == **kind);
            let live: Vec<&Value> = live.filter(|manifest| self.is_live(manifest)).collect();
            let list = (!live.is_empty()).then(|| json!({"items": live}));
            let found = self.content.get(name).cloned().or(list);
            let answer = found.map_or(QueryAnswer::Missing, QueryAnswer::Found);
            answers.queries.insert(query, answer);
        }
        for query in needs.records {
            let records = self.release_records.get(&query.name);
            let answer = records.map_or(RecordsAnswer::NotRecorded, |secrets| {
                RecordsAnswer::Found(ReleaseRecords::read(secrets, &query).unwrap())
            });
            answers.records.insert(query, answer);
        }
        for stem in needs.folder_charts {
            let archive = &self.charts.as_ref().unwrap()[&stem];
            answers.folder_charts.insert(stem, archive::unpack(archive).map(Arc::new));
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

    fn is_live(&self, manifest: &Value) -> bool {
        let mut objects = self.snapshot.objects.iter();
        objects.any(|object| manifest["kind"] == *object.id.kind && manifest["metadata"]["name"] == *object.id.name)
    }

    /// Returns true if the test says anything about dry-runs.
    pub(crate) fn sends_dry_runs(&self) -> bool {
        self.quotes_manifests
            || self.compares
            || self.quotes_live
            || !self.quoted_values.is_empty()
            || self.upgrades.is_some()
            || !self.results.is_empty()
            || !self.refusals.is_empty()
            || !self.creation_refusals.is_empty()
            || !self.deletion_refusals.is_empty()
    }

    fn dry_run(&self, question: &Question) -> DryRunAnswer {
        if self.quotes_manifests {
            return quoting(question);
        }
        if self.compares || self.quotes_live {
            return DryRunAnswer::Result(self.about_live(question));
        }
        if !self.quoted_values.is_empty() {
            let message = quoted(question);
            let holds_value = self.quoted_values.iter().any(|value| message.to_lowercase().contains(value.as_str()));
            let result = if holds_value { DryRunResult::Refused(message) } else { DryRunResult::Accepted };
            return DryRunAnswer::Result(result);
        }
        let owner = NamespacedName::of(&question.owner);
        let refusal = match &question.request {
            _ if !question.is_of_kustomization() => {
                let Some(upgrades) = &self.upgrades else { return unanswered() };
                let change = self.live_changes.get(&*question.id.name);
                if let Some(result) = change.filter(|_| matches!(question.request, Request::Apply { .. })) {
                    return DryRunAnswer::Result(result.clone());
                }
                upgrades.get(&*question.id.name).map(|message| (*message).to_owned())
            }
            Request::ApplyBuilt(applied) => {
                let mut results = self.results.iter();
                if let Some((_, result)) = results.find(|(accepts, _)| accepts(applied)) {
                    return DryRunAnswer::Result(result.clone());
                }
                let mut refusals = self.refusals.iter();
                let refusal = refusals.find(|refusal| {
                    (&refusal.owner, &refusal.id, &refusal.manifest) == (&owner, &question.id, &applied.built.manifest)
                });
                match refusal {
                    Some(refusal) => Some(refusal.message.clone()),
                    None => return DryRunAnswer::Result(self.accepted(&question.id, &applied.built.manifest)),
                }
            }
            Request::Create(_) => {
                let refusal = self.creation_refusals.get(&*question.id.name).map(|message| (*message).to_owned());
                return DryRunAnswer::Result(refusal.map_or(DryRunResult::Created, DryRunResult::Refused));
            }
            Request::Apply { .. } | Request::Record(_) | Request::Delete | Request::Read => {
                let mut refusals = self.deletion_refusals.iter();
                let refusal = refusals.find(|refusal| {
                    (&refusal.owner, &refusal.id, &refusal.account) == (&owner, &question.id, &question.service_account)
                });
                refusal.map(|refusal| refusal.message.clone())
            }
        };
        DryRunAnswer::Result(refusal.map_or(DryRunResult::Accepted, DryRunResult::Refused))
    }

    /// Returns a refusal that quotes the live object, or the difference that an apply makes. Another manager than the
    /// controller owns all fields of the live object.
    fn about_live(&self, question: &Question) -> DryRunResult {
        let is_same = |live: &&Value| live["kind"] == *question.id.kind && self.snapshot.object(&question.id).is_some();
        let live = self.data.get(&*question.id.name).filter(is_same);
        let (applied, manifest) = match (&question.request, live) {
            (Request::ApplyBuilt(_) | Request::Create(_), None) => return DryRunResult::Created,
            (Request::Read | Request::Record(_), _) | (_, None) => return DryRunResult::Accepted,
            (_, Some(live)) if self.quotes_live => return DryRunResult::Refused(format!("denied: it was {live}")),
            (Request::Create(_), _) => return DryRunResult::Created,
            (Request::Delete, _) => return DryRunResult::Accepted,
            (Request::ApplyBuilt(applied), _) => (Some(applied), manifest_to_apply(applied)),
            (Request::Apply { manifest, .. }, _) => (None, manifest.clone()),
        };
        let live = live.map(|live| managed_by("operator", "Update", live));
        let merged = managed_by(question.controller, "Apply", &manifest);
        match (applied, live.as_ref()) {
            (Some(applied), live) => {
                let controller = KustomizeController::of((1, 9, 5));
                DryRunResult::of_accepted(applied, &self.snapshot, &controller, live, &merged)
            }
            (None, Some(live)) => {
                let update = compare_applied(&question.id, question.controller, question.is_private, live, &merged);
                update.map_or(DryRunResult::Unchanged, DryRunResult::Updated)
            }
            (None, None) => DryRunResult::Accepted,
        }
    }

    /// Returns the result of an apply that the API server accepts.
    fn accepted(&self, id: &ObjectId, manifest: &Value) -> DryRunResult {
        match self.data.get(&*id.name).filter(|_| self.snapshot.object(id).is_some()) {
            None => DryRunResult::Created,
            Some(live) if live == manifest => DryRunResult::Unchanged,
            // Tests of upgrades have no rows of updates.
            Some(_) if self.refusals.is_empty() && self.deletion_refusals.is_empty() => DryRunResult::Accepted,
            Some(_) => DryRunResult::Updated(Update {
                reason: ReasonCode::Changed.into(),
                diff: String::new(),
                changes_content: true,
            }),
        }
    }
}

/// Returns an object all of whose fields a manager owns.
fn managed_by(manager: &str, operation: &str, object: &Value) -> Value {
    let mut managed = object.clone();
    let entry = json!({"manager": manager, "operation": operation, "fieldsV1": fields_of(object)});
    managed["metadata"]["managedFields"] = json!([entry]);
    managed
}

/// Returns the fields of a value in the form of `fieldsV1`, with items of lists by their names.
fn fields_of(value: &Value) -> Value {
    let named = |item: &Value| Some((format!("k:{}", json!({"name": item.get("name")?})), fields_of(item)));
    match value {
        Value::Object(fields) => {
            fields.iter().map(|(key, inner)| (format!("f:{key}"), fields_of(inner))).collect::<Map<_, _>>().into()
        }
        Value::Array(items) => items.iter().filter_map(named).collect::<Map<_, _>>().into(),
        _ => json!({}),
    }
}

/// Returns an answer that quotes what was sent, as admission webhooks do.
fn quoting(question: &Question) -> DryRunAnswer {
    let message = quoted(question);
    match message.len() % 9 {
        0 => DryRunAnswer::Result(DryRunResult::Refused(message)),
        1..=6 => DryRunAnswer::Result(DryRunResult::Accepted),
        _ => {
            let subject = format!("answers to dry-runs of {}", question.id.group_kind());
            DryRunAnswer::Missing(Gap { kind: GapKind::Failed, subject, namespace: None, message })
        }
    }
}

/// Returns a refusal that quotes what was sent.
fn quoted(question: &Question) -> String {
    match &question.request {
        Request::ApplyBuilt(applied) | Request::Create(applied) => format!("denied: {}", applied.built.manifest),
        Request::Apply { manifest, .. } | Request::Record(manifest) => format!("denied: {manifest}"),
        Request::Delete | Request::Read => format!("denied: {}", question.id.name),
    }
}

fn unanswered() -> DryRunAnswer {
    let (subject, message) = ("answers to dry-runs".to_owned(), "no answer".to_owned());
    DryRunAnswer::Missing(Gap { kind: GapKind::Failed, subject, namespace: None, message })
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

/// Joins the templates of a chart, in place of helm: without those that the value `off` lists, and without
/// `if-cog.yaml` if no Cog is defined. Fails at a template `fail.yaml`, does not end at `endless.yaml`, and fails at an
/// object whose name begins with `fail `. A template `lookup.yaml` looks up the ConfigMap `found`, and is not rendered
/// if that exists; `lookup-kind.yaml` looks up an object of the kind that the value `n` names.
fn rendered(run: &ChartRun) -> Result<ChartOutput, String> {
    let values: Vec<Value> = run.values.iter().filter_map(|text| crate::yaml::document(text.reveal()).ok()).collect();
    let off = values.iter().rev().find_map(|values| values.get("off").cloned());
    let texts = values.iter().filter_map(Value::as_object).flatten();
    let texts: Vec<(&String, &str)> = texts.filter_map(|(key, value)| Some((key, value.as_str()?))).collect();
    let is_off = |at: &str| off.iter().flat_map(|off| off.as_array()).flatten().any(|name| *name == json!(at));
    let templates = run
        .files
        .iter()
        .filter_map(|(at, content)| Some((at.strip_prefix("templates/")?, content)))
        .filter(|(at, _)| !at.starts_with('_'));
    let crds = run.files.iter().filter(|(at, _)| at.starts_with("crds/"));
    let crds = crds.map(|(at, content)| format!("---\n# Source: app/{at}\n{}\n", String::from_utf8_lossy(content)));
    let mut text: String = crds.collect();
    let helpers = run.files.get("templates/_kubectl-gitops.tpl").map(|text| String::from_utf8_lossy(text).into_owned());
    let helpers = helpers.unwrap_or_default();
    let has_cogs = helpers.contains("\"e.com/v1/Cog\"");
    for (at, content) in templates.filter(|(at, _)| !is_off(at) && (*at != "if-cog.yaml" || has_cogs)) {
        if at == "lookup.yaml" {
            if !helpers.contains(r#"\\nfound\":"#) {
                let [api_version, kind, namespace, name] = ["v1", "ConfigMap", NS, "found"].map(str::to_owned);
                return Ok(ChartOutput::Asks(ObjectQuery { api_version, kind, namespace, name }));
            }
            if !helpers.contains(r#"\\nfound\":{}"#) {
                continue;
            }
        }
        if at == "lookup-kind.yaml" {
            let [api_version, namespace, name] = ["v1", NS, "found"].map(str::to_owned);
            let kind =
                texts.iter().find(|(key, _)| *key == "n").map(|(_, value)| (*value).to_owned()).unwrap_or_default();
            return Ok(ChartOutput::Asks(ObjectQuery { api_version, kind, namespace, name }));
        }
        if at == "endless.yaml" {
            return Err("helm did not finish within 60 s".to_owned());
        }
        if at == "fail.yaml" {
            return Ok(ChartOutput::Fails("helm fails to render it: a template fails".to_owned()));
        }
        let content = String::from_utf8_lossy(content);
        let is_own = |action: &str| action.starts_with("{{ $_ := set $");
        let mut content = &*content;
        while let Some((_, rest)) = content.split_once("}}").filter(|(action, _)| is_own(action)) {
            content = rest;
        }
        let replaced = texts.iter().rev().fold(content.to_owned(), |text, (key, value)| {
            with_value(&text, &format!(".Values.{key}"), ["{{", "}}"], value)
        });
        // As src/tools/programs/sandboxed.rs words the message of helm.
        if replaced.contains("\"fail ") {
            let message = if run.is_private { String::new() } else { format!(": {replaced}") };
            return Ok(ChartOutput::Fails(format!("helm fails to render it{message}")));
        }
        text += &format!("---\n# Source: app/templates/{at}\n{replaced}\n");
    }
    Ok(ChartOutput::Manifests(text))
}

/// A function of templates that computes a text of a text.
type TextFunction = fn(&str) -> String;

/// Replaces a variable in a template, also with a function behind it.
fn with_value(text: &str, variable: &str, [begin, end]: [&str; 2], value: &str) -> String {
    let functions: [(&str, TextFunction); 5] = [
        ("", str::to_owned),
        (" | b64enc", |value| base64::engine::general_purpose::STANDARD.encode(value)),
        (" | upper", str::to_uppercase),
        (" | reverse", |value| value.chars().rev().collect()),
        (" | hex", |value| crate::text::hex(value.as_bytes())),
    ];
    functions.iter().fold(text.to_owned(), |text, (name, function)| {
        text.replace(&format!("{begin} {variable}{name} {end}"), &function(value))
    })
}

/// Generates the resources of a ResourceSet for each input, in place of flux-operator. Only `<< inputs.KEY >>` is
/// replaced.
pub(crate) fn expanded(run: &SetRun) -> Result<String, String> {
    let manifest: Value = serde_json::from_str(run.manifest.reveal()).unwrap();
    let (spec, inputs) = (&manifest["spec"], &manifest["spec"]["inputs"]);
    let steps = spec["steps"].as_array().into_iter().flatten();
    let resources = [&spec["resources"]].into_iter().chain(steps.map(|step| &step["resources"]));
    let mut text = String::new();
    for template in resources.filter_map(Value::as_array).flatten() {
        for input in inputs.as_array().into_iter().flatten().filter_map(Value::as_object) {
            let template = template.to_string();
            let replaced = input.iter().fold(template, |text, (key, value)| {
                with_value(&text, &format!("inputs.{key}"), ["<<", ">>"], value.as_str().unwrap_or_default())
            });
            if replaced.contains("<<") {
                let message = if run.is_private { String::new() } else { format!(": no entry for key in {replaced}") };
                return Err(format!("flux-operator fails to generate it{message}"));
            }
            let Ok(mut object) = serde_json::from_str::<Value>(&replaced) else { return Ok(replaced) };
            for (key, value) in SET.into_iter().zip([&manifest["metadata"]["name"], &manifest["metadata"]["namespace"]])
            {
                object["metadata"]["labels"][key] = value.clone();
            }
            text += &format!("---\n{object}\n");
        }
    }
    Ok(text)
}
