//! Common parts of `suspend` and `resume`: selection, confirmation, patches and results.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use clap::Args;
use futures::future::join_all;
use serde::Serialize;

use super::select::{SelectedObjects, Selection, is_suspendable, not_found, print_no_resources};
use super::{Session, elsewhere};
use crate::cluster::read::access::user_name;
use crate::cluster::write::patch;
use crate::cluster::{Cluster, DryRun, PatchResult};
use crate::error::{Error, Result};
use crate::exit::ExitCode;
use crate::output::document;
use crate::output::format::{self, Format, Look, Part, Render};
use crate::output::text::duration;
use gitops_core::flux::kinds::KINDS;
use gitops_core::flux::suspension::origin::{is_own, is_spec_of_others};
use gitops_core::flux::suspension::patch::{PatchDecision, PatchRefusal};
use gitops_core::flux::suspension::{Mechanism, Suspension, effective};
use gitops_core::kubernetes::gap::Gap;
use gitops_core::kubernetes::object::{ObjectId, Resource, ResourceType, plural};
use gitops_core::text::{join_limited, pluralize, shell_word};

/// Number of objects up to which a list names each of them.
pub(crate) const LISTED_OBJECTS: usize = 20;

/// Flags of both commands.
#[derive(Args, Clone, Debug)]
pub struct ChangeArgs {
    /// TYPE NAME…, TYPE/NAME…, or TYPE1,TYPE2 with -l or --all; every kind of Flux without a TYPE
    #[arg(value_name = "TYPE NAME")]
    pub words: Vec<String>,
    /// Select objects that match this label selector; asks for confirmation
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
    /// Select all objects of the types in the namespace; asks for confirmation
    #[arg(long, conflicts_with = "selector")]
    pub all: bool,
    /// With -l or --all: select objects in all namespaces
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// Show the result without a change: client sends nothing, server lets the server check it
    #[arg(long, value_name = "HOW", value_enum, default_value_t, hide_possible_values = true, num_args = 1)]
    pub dry_run: DryRun,
    /// Change the objects without confirmation
    #[arg(short, long)]
    pub yes: bool,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = format::parser(ResultDocument::PARTS))]
    pub output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Suspend {
        /// True if the controllers of the cluster honour the annotation.
        annotation_honoured: bool,
    },
    Resume {
        /// True if `spec.suspend` is cleared whoever set it.
        clears_spec: bool,
    },
}

impl Verb {
    fn infinitive(self) -> &'static str {
        match self {
            Self::Suspend { .. } => "suspend",
            Self::Resume { .. } => "resume",
        }
    }

    fn past(self) -> &'static str {
        match self {
            Self::Suspend { .. } => "suspended",
            Self::Resume { .. } => "resumed",
        }
    }

    /// Returns what has not happened when a question is not answered with yes.
    pub(crate) fn undone(self) -> String {
        format!("nothing was {}", self.past())
    }

    /// Returns what a question says of an object that somebody else suspended: `resume` may leave it suspended.
    fn note(self, full: &Resource, now: DateTime<Utc>) -> Option<String> {
        match self {
            Self::Resume { clears_spec: false } if is_spec_of_others(full) => {
                Some("stays suspended: somebody else set spec.suspend".to_owned())
            }
            _ => is_suspended_by_others(full).then(|| format!("already {}", describe(full, now))),
        }
    }

    /// Returns the word for a change that left an object like this. An object is `suspended` only if a controller stops,
    /// and `resumed` only if nothing suspends it any longer; else it is `annotated`, as kubectl calls it.
    fn outcome(self, after: &Resource) -> &'static str {
        match (self, effective(after)) {
            (Self::Suspend { .. }, None) => "unchanged",
            (Self::Suspend { annotation_honoured: false }, Some(Mechanism::Annotation)) => "annotated",
            (Self::Suspend { .. }, Some(_)) | (Self::Resume { .. }, None) => self.past(),
            (Self::Resume { .. }, Some(_)) => "annotated",
        }
    }
}

impl ChangeArgs {
    /// Returns a usage error unless the arguments either name objects or select them.
    pub(crate) fn check(&self) -> Result<()> {
        let named = self.is_named();
        if named && self.is_selection() {
            return Err(Error::usage("name cannot be provided when --all or a selector is specified"));
        }
        if !named && !self.is_selection() && self.words.first().is_none_or(|word| is_type(word)) {
            return Err(nothing_selected());
        }
        Ok(())
    }

    /// Returns true if the words name objects, not only types.
    pub(crate) fn is_named(&self) -> bool {
        self.words.iter().any(|word| word.contains('/')) || self.words.len() > 1
    }

    /// Returns true if flags select objects.
    pub(crate) fn is_selection(&self) -> bool {
        self.all || self.selector.is_some()
    }

    /// Reads the objects. Without a TYPE, kinds that cannot be suspended are left out. `flags` are those of the verb itself, for hints.
    pub(crate) async fn read(
        &self,
        cluster: &Cluster,
        verb: Verb,
        flags: &[(&str, Option<&str>)],
    ) -> Result<SelectedObjects> {
        let (verb, selector) = (verb.infinitive(), self.selector.as_deref());
        let flags: String =
            flags.iter().filter_map(|(flag, value)| Some(format!(" {flag} {}", shell_word((*value)?)))).collect();
        let words = &self.words;
        let selection = Selection { verb, flags: &flags, words, selector, all_namespaces: self.all_namespaces };
        let (mut selected, _) = selection.read(cluster).await?;
        if !self.is_named() && !self.is_selection() {
            return Err(nothing_selected());
        }
        if self.output.is_table() {
            selected.ensure_readable(self.namespace(cluster))?;
        }
        if self.words.is_empty() || self.words == ["all"] {
            selected.objects.retain(|(kind, _)| is_suspendable(kind));
        }
        Ok(selected)
    }

    /// Returns the namespace of the selection, or `None` for all namespaces.
    pub(crate) fn namespace<'a>(&self, cluster: &'a Cluster) -> Option<&'a str> {
        (!self.all_namespaces).then_some(&*cluster.namespace)
    }

    /// Prints that there is nothing to change, and where else there is something.
    pub(crate) async fn print_nothing(&self, session: &mut Session, cluster: &Cluster, selected: &SelectedObjects) {
        let namespace = self.namespace(cluster);
        print_no_resources(session, namespace, selected.gaps.is_empty());
        if namespace.is_some() {
            let selector = self.selector.as_deref();
            elsewhere::hint_other_namespaces(session, cluster, &selected.types, selector).await;
        }
    }

    /// Asks for confirmation if the objects are selected and not named. Refuses without a terminal.
    pub(crate) async fn confirm(
        &self,
        session: &mut Session,
        cluster: &Cluster,
        verb: Verb,
        objects: &[&Resource],
    ) -> Result<()> {
        if objects.is_empty() || self.yes || self.dry_run != DryRun::None || !self.is_selection() {
            return Ok(());
        }
        let user = if session.terminal.can_ask() { user_name(cluster).await.ok() } else { None };
        print_place(session, cluster, user.as_deref());
        print_objects(session, objects, verb);
        let number = pluralize(objects.len(), "object");
        if !session.terminal.can_ask() {
            let error = Error::refused(format!("refusing to {} {number}: no terminal to ask on", verb.infinitive()));
            return Err(error.hint("review with --dry-run=client, then pass --yes"));
        }
        if session.terminal.confirm(&format!("{} {number}?", verb.infinitive()), &verb.undone())? {
            return Ok(());
        }
        Err(Error::cancelled(format!("cancelled: {}", verb.undone())))
    }

    pub(crate) async fn apply(
        &self,
        cluster: &Cluster,
        objects: Vec<(ResourceType, Resource)>,
        decide: &(impl Fn(&Resource) -> PatchDecision + Sync),
    ) -> Vec<ChangeResult> {
        let changes = objects.into_iter().map(|(kind, full)| async move {
            let id = full.object.id.clone();
            let result = patch::change(cluster, &kind, full, self.dry_run, decide).await;
            ChangeResult { kind, id, result }
        });
        join_all(changes).await
    }

    /// Prints the results, and on stderr the errors and gaps.
    pub(crate) fn report(
        &self,
        session: &mut Session,
        verb: Verb,
        results: &[ChangeResult],
        left: &[(ResourceType, Resource)],
        selected: &SelectedObjects,
    ) -> Result<ExitCode> {
        let mut document = self.document(verb, results, selected);
        document.items.extend(left.iter().map(|(_, full)| ResultItem::left_alone(full)));
        session.terminal.raw(&self.output.render(&document, session.terminal.look(true))?)?;
        for result in results {
            result.print_error(session);
        }
        for error in &selected.errors {
            session.terminal.status(error);
        }
        session.report_gaps(&selected.gaps);
        Ok(exit_code(results, selected))
    }

    fn document<'a>(
        &self,
        verb: Verb,
        results: &'a [ChangeResult],
        selected: &'a SelectedObjects,
    ) -> ResultDocument<'a> {
        let (gaps, errors) = (&selected.gaps[..], &selected.errors[..]);
        ResultDocument {
            schema: crate::tools::journal::SCHEMA,
            complete: results.iter().all(ChangeResult::is_success) && errors.is_empty() && gaps.is_empty(),
            dry_run: match self.dry_run {
                DryRun::None => "none",
                DryRun::Client => "client",
                DryRun::Server => "server",
            },
            gaps,
            errors,
            items: results.iter().map(|result| result.item(verb)).collect(),
        }
    }
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
struct ResultDocument<'a> {
    schema: &'static str,
    /// True if every selected object could be read.
    complete: bool,
    /// `none`, `client` or `server`.
    dry_run: &'static str,
    gaps: &'a [Gap],
    /// Messages about named objects that could not be read.
    errors: &'a [String],
    items: Vec<ResultItem<'a>>,
}

/// Returns the schema of the document, or of the first line of a journal.
#[cfg(feature = "schema")]
pub(crate) fn schema(generator: schemars::SchemaGenerator) -> schemars::Schema {
    #[derive(schemars::JsonSchema)]
    #[serde(untagged)]
    #[expect(dead_code, reason = "only its schema is used")]
    enum Results<'a> {
        /// Answer of `suspend` and `resume`.
        Document(ResultDocument<'a>),
        /// First line of a journal of `prune`.
        Journal(crate::tools::journal::Header),
    }
    generator.into_root_schema_for::<Results<'static>>()
}

impl Render for ResultDocument<'_> {
    const PARTS: &'static [Part] = &[Part::Text, Part::Document, Part::Names];

    /// Returns one line per object, as kubectl writes it.
    fn text(&self, _wide: bool, _look: Look) -> String {
        let suffix = match self.dry_run {
            "client" => " (dry run)",
            "server" => " (server dry run)",
            _ => "",
        };
        let done = self.items.iter().filter(|item| item.is_done());
        done.map(|item| format!("{} {}{suffix}\n", document::name(item.object), item.result)).collect()
    }

    fn names(&self) -> String {
        let done = self.items.iter().filter(|item| item.is_done());
        done.map(|item| document::name(item.object) + "\n").collect()
    }
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct ResultItem<'a> {
    object: &'a ObjectId,
    /// `suspended`, `annotated` (only annotations changed, and controllers go on, or something else still suspends),
    /// `resumed`, `unchanged`, `left-alone` (somebody else suspended it), `refused`, `not-found` or `failed`.
    result: &'static str,
    error: Option<String>,
    /// Suspension after the change.
    suspension: Option<Suspension<'a>>,
}

/// Result of an object that a selection does not include.
const LEFT_ALONE: &str = "left-alone";

impl<'a> ResultItem<'a> {
    /// Returns the result of an object that is not changed, because somebody else suspended it.
    fn left_alone(full: &'a Resource) -> Self {
        Self { object: &full.object.id, result: LEFT_ALONE, error: None, suspension: Suspension::of(full) }
    }

    /// Returns true if the object is as requested.
    fn is_done(&self) -> bool {
        self.error.is_none() && self.result != LEFT_ALONE
    }
}

/// Result of the change of one object.
#[derive(Debug)]
pub(crate) struct ChangeResult {
    pub(crate) kind: ResourceType,
    pub(crate) id: ObjectId,
    pub(crate) result: PatchResult,
}

impl ChangeResult {
    /// Returns true if the object is as requested.
    fn is_success(&self) -> bool {
        matches!(self.result, PatchResult::Done { .. } | PatchResult::Unchanged(_))
    }

    /// Returns the object after the change, if it is as requested.
    pub(crate) fn after(&self) -> Option<&Resource> {
        match &self.result {
            PatchResult::Done { after, .. } | PatchResult::Unchanged(after) => Some(after),
            _ => None,
        }
    }

    fn outcome(&self, verb: Verb) -> &'static str {
        match &self.result {
            PatchResult::Done { after, .. } => verb.outcome(after),
            PatchResult::Unchanged(_) => "unchanged",
            PatchResult::Refused(_) => "refused",
            PatchResult::Missing => "not-found",
            PatchResult::Failed(_) => "failed",
        }
    }

    fn error(&self) -> Option<String> {
        match &self.result {
            PatchResult::Done { .. } | PatchResult::Unchanged(_) => None,
            PatchResult::Refused(refusal) => Some(refusal.to_string()),
            PatchResult::Missing => Some(not_found(&self.kind, &self.id.name)),
            PatchResult::Failed(failure) => Some(failure.to_string()),
        }
    }

    fn print_error(&self, session: &mut Session) {
        let Some(error) = self.error() else { return };
        session.terminal.error(&format!("{}: {error}", document::name(&self.id)));
        if let PatchResult::Refused(refusal) = &self.result {
            session.terminal.hint(match refusal {
                PatchRefusal::NothingToSuspend { .. } => "suspend the object that creates it",
                PatchRefusal::OtherMessage(_) => "replace the message with --overwrite",
                PatchRefusal::OtherEnd(_) => "replace the end with --overwrite",
                PatchRefusal::OtherLink(_) => "replace the link with --overwrite",
            });
        }
    }

    fn item(&self, verb: Verb) -> ResultItem<'_> {
        ResultItem {
            object: &self.id,
            result: self.outcome(verb),
            error: self.error(),
            suspension: self.after().and_then(Suspension::of),
        }
    }
}

/// Returns true if a word is the kind, the plural or a short name of a kind of Flux.
fn is_type(word: &str) -> bool {
    let name = word.split_once('.').map_or(word, |(name, _)| name).to_lowercase();
    let is_known = KINDS
        .iter()
        .any(|kind| kind.kind.to_lowercase() == name || plural(kind.kind) == name || kind.aliases.contains(&&*name));
    is_known || name.contains(',') || name == "all"
}

fn nothing_selected() -> Error {
    Error::usage("no objects are named or selected").hint("name them as TYPE NAME, or select them with -l or --all")
}

/// Prints context, cluster and user of a change.
fn print_place(session: &mut Session, cluster: &Cluster, user: Option<&str>) {
    let mut facts = vec![];
    for (what, name) in [("context", Some(&*cluster.context)), ("cluster", Some(&*cluster.server)), ("user", user)] {
        facts.extend(name.filter(|name| !name.is_empty()).map(|name| format!("{what} {name}")));
    }
    session.terminal.status(&facts.join(", "));
}

/// Prints the kinds of objects and each object, or those alone that others suspended if there are many.
fn print_objects(session: &mut Session, objects: &[&Resource], verb: Verb) {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for full in objects {
        *kinds.entry(&full.object.id.kind).or_default() += 1;
    }
    let counts = kinds.iter().map(|(kind, count)| format!("{kind} ({count})"));
    session.terminal.status(&format!("  {}", join_limited(counts, KINDS.len())));
    let is_short = objects.len() <= LISTED_OBJECTS;
    let notes: Vec<Option<String>> = objects.iter().map(|full| verb.note(full, session.now)).collect();
    let foreign = notes.iter().flatten().count();
    let mut listed = 0;
    for (full, note) in objects.iter().zip(&notes) {
        if listed == LISTED_OBJECTS || !(is_short || note.is_some()) {
            continue;
        }
        listed += 1;
        let suffix = note.as_ref().map(|note| format!("   {note}")).unwrap_or_default();
        session.terminal.status(&format!("  {}{suffix}", full.object.id));
    }
    if !is_short && foreign > listed {
        session.terminal.status(&format!("  and {} more that others suspended", foreign - listed));
    }
}

/// Returns true for an object that is suspended, and not by this plugin.
fn is_suspended_by_others(full: &Resource) -> bool {
    effective(full).is_some() && !is_own(full)
}

/// Describes the suspension of an object: `suspended by flux 3h ago: bank is down`.
pub(crate) fn describe(full: &Resource, now: DateTime<Utc>) -> String {
    let Some(suspension) = Suspension::of(full) else { return "not suspended".to_owned() };
    let by = suspension.user.or(suspension.manager).map(|by| format!(" by {by}")).unwrap_or_default();
    let since = suspension.since.map(|since| format!(" {} ago", duration::human(now - since))).unwrap_or_default();
    let message = suspension.message.map(|message| format!(": {message}")).unwrap_or_default();
    format!("suspended{by}{since}{message}")
}

/// Returns 0 if all objects are as requested, 5 if some are, 6 if none is and all were refused, else 1.
fn exit_code(results: &[ChangeResult], selected: &SelectedObjects) -> ExitCode {
    let succeeded = results.iter().filter(|result| result.is_success()).count();
    let refused = results.iter().filter(|result| matches!(result.result, PatchResult::Refused(_))).count();
    let failed = results.len() - succeeded + selected.errors.len() + selected.gaps.len();
    match (failed, succeeded) {
        (0, _) => ExitCode::Done,
        (_, 1..) => ExitCode::Partial,
        (failed, 0) if failed == refused => ExitCode::Refused,
        _ => ExitCode::Error,
    }
}
