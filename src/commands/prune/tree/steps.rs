//! `--steps FILE`: steps in a YAML file, each a commit or something that is done by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::planner::{Planner, StepState, StepTrees};
use crate::commands::resource_args::served_types;
use crate::error::{Error, Result};
use crate::output::text::sanitize::one_line;
use crate::tools::{files, limits};
use gitops_core::flux::kinds::{FluxKind, Suspends};
use gitops_core::kubernetes::gap::{Gap, GapKind};
use gitops_core::kubernetes::object::{ManagedFieldsEntry, ObjectId, Resource};
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::yaml;

/// Name of the JSON schema; a contract with programs.
pub const SCHEMA: &str = "kubectl-gitops/steps-file/v1";

/// Value of `commit` that means the files that are checked out.
const CHECKED_OUT: &str = ".";

/// Steps in their order.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StepsFile {
    /// Version of the format: `kubectl-gitops/steps-file/v1`, which is assumed if it is absent.
    schema: Option<String>,
    /// Steps, each planned on the predicted state after the one before it.
    #[serde(rename = "steps")]
    pub(super) entries: Vec<StepEntry>,
}

/// One step: exactly one of `commit`, `suspend`, `resume`, `annotate`, `delete` and `wait`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct StepEntry {
    /// Revision that the sources get; `.` means what is checked out.
    commit: Option<String>,
    /// Object whose `spec.suspend` is set, as KIND/NAME.
    suspend: Option<String>,
    /// Object whose suspension ends, as KIND/NAME.
    resume: Option<String>,
    /// Object that gets `annotations`, as KIND/NAME.
    annotate: Option<String>,
    /// Object that is deleted by hand, as KIND/NAME.
    delete: Option<String>,
    /// Object that must be ready before the next step, as KIND/NAME.
    wait: Option<String>,
    /// Namespace of the object.
    namespace: Option<String>,
    /// Annotations that `annotate` sets; null removes one.
    annotations: Option<BTreeMap<String, Option<String>>>,
}

/// A commit, or something that is done by hand.
enum Act<'e> {
    Commit(&'e str),
    /// The act, and the text of its object.
    ByHand(ByHand<'e>, &'e str),
}

/// Something that is done by hand to an object.
enum ByHand<'e> {
    Suspend,
    Resume,
    Annotate(&'e BTreeMap<String, Option<String>>),
    Delete,
    Wait,
}

impl StepsFile {
    /// Reads a file.
    ///
    /// Fails if it cannot be read, has another form, or a step is not exactly one thing.
    pub(super) fn read(path: &Path) -> Result<Self> {
        Self::read_steps(path).map_err(|why| {
            Error::usage(format!("cannot use --steps {}: {}", path.display(), one_line(&why)))
                .hint("such a file has `steps:`, a list, and each item is one of commit, suspend, resume, annotate, delete or wait")
        })
    }

    fn read_steps(path: &Path) -> Result<Self, String> {
        let text = files::read_named_text(path, limits::MAX_FILE).map_err(|error| error.to_string())?;
        let value = yaml::document(&text).map_err(|error| error.to_string())?;
        if value.is_null() {
            return Err("it is empty".to_owned());
        }
        if !value.is_object() {
            return Err("it has no `steps:`".to_owned());
        }
        let steps = value.get("steps").and_then(Value::as_array).map_or(&[][..], |steps| steps);
        for (number, step) in (1..).zip(steps) {
            let entry = serde_json::from_value::<StepEntry>(step.clone()).map_err(|error| error.to_string());
            entry.and_then(|entry| entry.act().map(drop)).map_err(|why| format!("step {number}: {why}"))?;
        }
        let file: Self = serde_json::from_value(value).map_err(|error| error.to_string())?;
        if let Some(other) = file.schema.as_ref().filter(|schema| *schema != SCHEMA) {
            return Err(format!("its schema is {other:?}, and this program reads {SCHEMA}"));
        }
        if file.entries.is_empty() { Err("it has no steps".to_owned()) } else { Ok(file) }
    }

    /// Returns the steps of `--then`: what is checked out, and then these revisions.
    pub(super) fn of_commits(revisions: &[String]) -> Self {
        let revisions = [CHECKED_OUT].into_iter().chain(revisions.iter().map(String::as_str));
        let entries = revisions.map(|it| StepEntry { commit: Some(it.to_owned()), ..StepEntry::default() });
        Self { schema: None, entries: entries.collect() }
    }
}

impl StepEntry {
    pub(super) fn is_commit(&self) -> bool {
        self.commit.is_some()
    }

    fn act<'e>(&'e self) -> Result<Act<'e>, String> {
        if self.annotate.is_some() != self.annotations.is_some() {
            return Err("`annotate` and `annotations` belong together".to_owned());
        }
        let annotation = self.annotations.as_ref().zip(self.annotate.as_deref());
        let acts = [
            self.commit.as_deref().map(Act::Commit),
            self.suspend.as_deref().map(|object| Act::ByHand(ByHand::Suspend, object)),
            self.resume.as_deref().map(|object| Act::ByHand(ByHand::Resume, object)),
            annotation.map(|(with, object)| Act::ByHand(ByHand::Annotate(with), object)),
            self.delete.as_deref().map(|object| Act::ByHand(ByHand::Delete, object)),
            self.wait.as_deref().map(|object| Act::ByHand(ByHand::Wait, object)),
        ];
        let mut given = acts.into_iter().flatten();
        match (given.next(), given.next()) {
            (Some(Act::Commit(_)), None) if self.namespace.is_some() => Err("a commit has no namespace".to_owned()),
            (Some(Act::ByHand(_, object)), None)
                if !object.split_once('/').is_some_and(|(kind, name)| !kind.is_empty() && !name.is_empty()) =>
            {
                Err(format!("{object:?} is not KIND/NAME"))
            }
            (Some(act), None) => Ok(act),
            (None, _) => Err("it does nothing".to_owned()),
            (Some(_), Some(_)) => Err("it does several things; make a step of each".to_owned()),
        }
    }

    /// Prepares a step: returns its title and the trees with which it is planned. What is done by hand changes the state.
    /// `current` are the trees of the step before, and `checked_out` are those that are checked out.
    ///
    /// Fails if there is no such revision or object then.
    pub(super) fn prepare(
        &self,
        number: usize,
        planner: &Planner<'_>,
        state: &mut StepState<'_>,
        current: &StepTrees,
        checked_out: &StepTrees,
    ) -> Result<(String, StepTrees)> {
        let mut trees = current.clone();
        trees.by_hand.clear();
        if let Some(source) = planner.source_suspended_by_steps(&state.snapshot).filter(|_| self.is_commit()) {
            let error = Error::usage(format!("{source} is suspended then, and fetches no commit"));
            return Err(in_step(number, error.hint("resume it in a step before")));
        }
        let (act, object) = match self.act().map_err(Error::usage)? {
            Act::ByHand(act, object) => (act, object),
            Act::Commit(CHECKED_OUT) => return Ok((checked_out.subject.tree_text(), checked_out.clone())),
            Act::Commit(revision) => {
                let trees = planner.revision(revision).map_err(|error| in_step(number, error))?;
                return Ok((trees.subject.tree_text(), trees));
            }
        };
        let id = self.find(object, &state.snapshot).map_err(|error| in_step(number, error))?;
        match act {
            ByHand::Delete => trees.by_hand = BTreeSet::from([id.clone()]),
            ByHand::Annotate(annotations) => state.edit(|snapshot| annotate(snapshot, &id, annotations)),
            ByHand::Suspend | ByHand::Resume => {
                let suspends = matches!(act, ByHand::Suspend);
                let kind = state.snapshot.resource(&id).and_then(FluxKind::of).map(|kind| kind.suspends);
                match kind {
                    Some(Suspends::Spec) => state.edit(|snapshot| set_suspend(snapshot, &id, suspends)),
                    Some(Suspends::Switch(key)) => {
                        let value = suspends.then(|| "disabled".to_owned());
                        state.edit(|snapshot| annotate(snapshot, &id, &BTreeMap::from([(key.to_owned(), value)])));
                    }
                    Some(Suspends::Nothing) | None => {
                        let error = Error::usage(format!("{id} cannot be suspended"));
                        return Err(in_step(number, error.hint("name an object of Flux, such as a Kustomization")));
                    }
                }
            }
            ByHand::Wait => {
                if !state.snapshot.resource(&id).is_some_and(|full| full.is_true("Ready")) {
                    let message = "in the predicted state it is not ready, so the step may wait in vain".to_owned();
                    state.open.push(Gap { kind: GapKind::Failed, subject: id.to_string(), namespace: None, message });
                }
            }
        }
        Ok((format!("{} {id}", act.verb()), trees))
    }

    fn find(&self, object: &str, snapshot: &Snapshot) -> Result<ObjectId> {
        let (kind, name) = object.split_once('/').unwrap_or((object, ""));
        let types = served_types(kind, snapshot)?;
        let namespace = self.namespace.as_deref().unwrap_or_default();
        let ids: Vec<ObjectId> = types
            .into_iter()
            .map(|kind| ObjectId::new(&kind.group, &kind.kind, if kind.namespaced { namespace } else { "" }, name))
            .collect();
        ids.iter().find(|id| snapshot.object(id).is_some()).cloned().ok_or_else(|| {
            let shown = ids.first().map(ToString::to_string).unwrap_or_default();
            let hint = if namespace.is_empty() { "name its `namespace:`" } else { "look at the steps before it" };
            Error::failed(format!("{shown} does not exist then")).hint(hint)
        })
    }
}

impl ByHand<'_> {
    fn verb(&self) -> &'static str {
        match self {
            Self::Suspend => "suspend",
            Self::Resume => "resume",
            Self::Annotate(_) => "annotate",
            Self::Delete => "delete by hand",
            Self::Wait => "wait until ready:",
        }
    }
}

/// Sets annotations of an object, or removes them.
pub(super) fn annotate(snapshot: &mut Snapshot, id: &ObjectId, annotations: &BTreeMap<String, Option<String>>) {
    let Some(mut object) = snapshot.object(id).cloned() else { return };
    let kept = object.annotations.iter().filter(|(key, _)| !annotations.contains_key(*key));
    let set = annotations.iter().filter_map(|(key, value)| Some((key.as_str(), value.as_deref()?)));
    object.annotations = kept.chain(set).collect();
    match snapshot.resource(id).map(|full| full.content.clone()) {
        Some(content) => snapshot.replace_resource(id, Some(Resource { object, content })),
        None => snapshot.replace_object(id, Some(object)),
    }
}

fn in_step(number: usize, error: Error) -> Error {
    Error { message: format!("step {number}: {}", error.message), ..error }
}

/// Sets or removes `spec.suspend`, as `suspend --spec` and `resume --spec` do.
fn set_suspend(snapshot: &mut Snapshot, id: &ObjectId, suspends: bool) {
    let Some(mut full) = snapshot.resource(id).cloned() else { return };
    full.object.managed_fields.retain(|entry| !entry.suspend || entry.applies);
    if suspends {
        full.content["spec"]["suspend"] = true.into();
        let manager = gitops_core::flux::suspension::FIELD_MANAGER.into();
        full.object.managed_fields.push(ManagedFieldsEntry { manager, suspend: true, ..Default::default() });
    } else if let Some(spec) = full.content["spec"].as_object_mut() {
        spec.remove("suspend");
    }
    snapshot.replace_resource(id, Some(full));
}
