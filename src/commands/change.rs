//! Common parts of `suspend` and `resume`: selection, confirmation, patches and results.

use clap::Args;
use futures::future::join_all;
use serde::Serialize;

use super::Session;
use super::select::{SelectedObjects, Selection, is_suspendable, not_found};
use crate::cluster::{Cluster, DryRun, PatchResult};
use crate::error::{Error, Result};
use crate::exit::ExitCode;
use crate::output::document;
use crate::output::format::{self, Format, Look, Part, Render};
use gitops_core::flux::suspension::Suspension;
use gitops_core::flux::suspension::patch::{PatchDecision, PatchRefusal};
use gitops_core::kubernetes::gap::Gap;
use gitops_core::kubernetes::object::{ObjectId, Resource, ResourceType};
use gitops_core::text::{and_more, pluralize};

/// Number of objects that are listed before a question.
const LISTED_OBJECTS: usize = 10;

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
    Suspend,
    Resume,
}

impl Verb {
    fn infinitive(self) -> &'static str {
        match self {
            Self::Suspend => "suspend",
            Self::Resume => "resume",
        }
    }

    fn past(self) -> &'static str {
        match self {
            Self::Suspend => "suspended",
            Self::Resume => "resumed",
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
        if !named && !self.is_selection() {
            return Err(Error::usage("no objects are named or selected")
                .hint("name them as TYPE NAME or TYPE/NAME, or select them with -l or --all"));
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

    /// Reads the objects. Without a TYPE, kinds that cannot be suspended are left out.
    pub(crate) async fn read(&self, cluster: &Cluster) -> Result<SelectedObjects> {
        let selector = self.selector.as_deref();
        let selection = Selection { words: &self.words, selector, all_namespaces: self.all_namespaces };
        let (mut selected, _) = selection.read(cluster).await?;
        if self.words.is_empty() || self.words == ["all"] {
            selected.objects.retain(|(kind, _)| is_suspendable(kind));
        }
        Ok(selected)
    }

    /// Returns the namespace of the selection, or `None` for all namespaces.
    pub(crate) fn namespace<'a>(&self, cluster: &'a Cluster) -> Option<&'a str> {
        (!self.all_namespaces).then_some(&*cluster.namespace)
    }

    /// Asks for confirmation if the objects are selected and not named. Refuses without a terminal.
    pub(crate) fn confirm(
        &self,
        session: &mut Session,
        cluster: &Cluster,
        verb: Verb,
        objects: &[&Resource],
    ) -> Result<()> {
        if objects.is_empty() || self.yes || self.dry_run != DryRun::None || !self.is_selection() {
            return Ok(());
        }
        for full in objects.iter().take(LISTED_OBJECTS) {
            session.terminal.status(&format!("  {}", full.object.id));
        }
        if let Some(more) = and_more(objects.len(), LISTED_OBJECTS) {
            session.terminal.status(&format!("  {more}"));
        }
        let number = pluralize(objects.len(), "object");
        if !session.terminal.can_ask() {
            let error = Error::refused(format!("refusing to {} {number}: no terminal to ask on", verb.infinitive()));
            return Err(error.hint("review with --dry-run=client, then pass --yes"));
        }
        if session.terminal.confirm(&format!("{} {number} of {}?", verb.infinitive(), cluster.server))? {
            return Ok(());
        }
        Err(Error::cancelled(format!("cancelled: nothing was {}", verb.past())))
    }

    /// Patches the objects in parallel.
    pub(crate) async fn apply(
        &self,
        cluster: &Cluster,
        objects: Vec<(ResourceType, Resource)>,
        decide: &(impl Fn(&Resource) -> PatchDecision + Sync),
    ) -> Vec<ChangeResult> {
        let changes = objects.into_iter().map(|(kind, full)| async move {
            let id = full.object.id.clone();
            let result = cluster.change(&kind, full, self.dry_run, decide).await;
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
        selected: &SelectedObjects,
    ) -> Result<ExitCode> {
        let document = self.document(verb, results, selected);
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
        let done = self.items.iter().filter(|item| item.error.is_none());
        done.map(|item| format!("{} {}{suffix}\n", document::name(item.object), item.result)).collect()
    }

    fn names(&self) -> String {
        let done = self.items.iter().filter(|item| item.error.is_none());
        done.map(|item| document::name(item.object) + "\n").collect()
    }
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct ResultItem<'a> {
    object: &'a ObjectId,
    /// `suspended`, `resumed`, `unchanged`, `refused`, `not-found` or `failed`.
    result: &'static str,
    error: Option<String>,
    /// Suspension after the change.
    suspension: Option<Suspension<'a>>,
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
        match self.result {
            PatchResult::Done { .. } => verb.past(),
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
