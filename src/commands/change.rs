//! What `suspend` and `resume` share: which objects, the question before many of them, and the result lines.

use clap::{Args, ValueEnum};
use futures::future::join_all;
use gitops_core::text::{and_more, pluralize};
use serde_json::{Value, json};

use super::Session;
use super::outcome;
use super::outcome::ChangeResult;
use super::pick;
use super::pick::{Picked, Selection};
use crate::cluster::{Cluster, Mode};
use crate::error::{Error, Result};
use crate::exit::ExitCode;
use crate::output::document;
use crate::output::document::OutputFormat;
use crate::output::sanitize;
use gitops_core::flux::suspension::patch::PatchStep;
use gitops_core::kubernetes::object::{Resource, ResourceType};

/// Schema name of the result document.
pub const SCHEMA: &str = "kubectl-gitops/result/v1";

/// How many objects are named before a question.
const NAMED: usize = 10;

/// Flags of both verbs.
#[derive(Args, Clone, Debug)]
pub struct ChangeArgs {
    /// TYPE NAME…, TYPE/NAME…, or TYPE1,TYPE2 with -l or --all; every kind of Flux without a TYPE
    #[arg(value_name = "TYPE NAME")]
    pub words: Vec<String>,
    /// Objects that this label selector matches
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
    /// All objects of the types, in the namespace; asks first
    #[arg(long, conflicts_with = "selector")]
    pub all: bool,
    /// In all namespaces; asks first
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// Show what would happen: client sends nothing, server lets the server check it
    #[arg(long, value_name = "HOW", value_enum, default_value_t, hide_possible_values = true, num_args = 1)]
    pub dry_run: DryRun,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
    /// name, json or yaml instead of result lines
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        value_enum,
        default_value_t,
        hide_possible_values = true,
        hide_default_value = true
    )]
    pub output: OutputFormat,
}

/// What `--dry-run` takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum DryRun {
    /// Change the objects.
    #[default]
    None,
    /// Send nothing.
    Client,
    /// Let the server check and change nothing.
    Server,
}

impl ChangeArgs {
    /// Checks what clap cannot.
    ///
    /// # Errors
    /// Usage errors: nothing says which objects, or two things do.
    pub fn check(&self) -> Result<()> {
        let named = self.words.iter().any(|word| word.contains('/')) || self.words.len() > 1;
        if named && (self.all || self.selector.is_some()) {
            return Err(Error::usage("name cannot be provided when --all or a selector is specified"));
        }
        if !named && !self.all && self.selector.is_none() {
            return Err(Error::usage("nothing says which objects")
                .hint("name them as TYPE NAME or TYPE/NAME, or select them with -l or --all"));
        }
        Ok(())
    }

    /// Reads the objects; without a TYPE, those that can be suspended at all.
    ///
    /// # Errors
    /// When a TYPE is not known, or the cluster does not answer.
    pub async fn read(&self, cluster: &Cluster) -> Result<Picked> {
        let selector = self.selector.as_deref();
        let wish = Selection { words: &self.words, selector, all_namespaces: self.all_namespaces };
        let mut picked = pick::read(cluster, wish).await?;
        if self.words.is_empty() || self.words == ["all"] {
            picked.objects.retain(|(kind, _)| pick::suspendable(kind));
        }
        Ok(picked)
    }

    /// The namespace that is meant, unless all are.
    pub fn namespace<'a>(&self, cluster: &'a Cluster) -> Option<&'a str> {
        (!self.all_namespaces).then_some(&*cluster.namespace)
    }

    fn mode(&self) -> Mode {
        match self.dry_run {
            DryRun::None => Mode::Real,
            DryRun::Client => Mode::ClientDryRun,
            DryRun::Server => Mode::ServerDryRun,
        }
    }

    /// Asks, where that is due: before many objects at once, or when `risk` says what could go wrong.
    ///
    /// # Errors
    /// Refused without a terminal, cancelled when the answer is no.
    pub fn ask(
        &self,
        session: &mut Session,
        cluster: &Cluster,
        verb: &str,
        due: &[&Resource],
        risk: Option<&str>,
    ) -> Result<()> {
        let many = self.all || self.all_namespaces;
        if due.is_empty() || self.yes || self.dry_run != DryRun::None || !(many || risk.is_some()) {
            return Ok(());
        }
        for full in due.iter().take(NAMED) {
            session.terminal.status(&format!("  {}", sanitize::one_line(&full.object.id.to_string())));
        }
        if let Some(more) = and_more(due.len(), NAMED) {
            session.terminal.status(&format!("  {more}"));
        }
        if let Some(risk) = risk {
            session.terminal.warning(risk);
        }
        let objects = pluralize(due.len(), "object");
        if !session.terminal.can_ask() {
            let error = Error::refused(format!("refusing to {verb} {objects}: no terminal to ask on"));
            return Err(error.hint("review with --dry-run=client, then pass --yes"));
        }
        match session.terminal.confirm(&format!("{verb} {objects} of {}?", cluster.server))? {
            true => Ok(()),
            false => Err(Error::cancelled(format!(
                "cancelled: nothing was {verb}{}",
                if verb.ends_with('e') { "d" } else { "ed" }
            ))),
        }
    }

    /// Changes the objects at once, each on its own.
    pub async fn apply(
        &self,
        cluster: &Cluster,
        objects: Vec<(ResourceType, Resource)>,
        decide: &(impl Fn(&Resource) -> PatchStep + Sync),
    ) -> Vec<ChangeResult> {
        let changes = objects.into_iter().map(|(kind, full)| async move {
            let id = full.object.id.clone();
            let changed = cluster.change(&kind, full, self.mode(), decide).await;
            ChangeResult { kind, id, changed }
        });
        join_all(changes).await
    }

    /// Prints the results, one line each, and what went wrong; gives the exit code.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub fn report(
        &self,
        session: &mut Session,
        done: &str,
        outcomes: &[ChangeResult],
        picked: &Picked,
    ) -> Result<ExitCode> {
        let dry = match self.dry_run {
            DryRun::None => "",
            DryRun::Client => " (dry run)",
            DryRun::Server => " (server dry run)",
        };
        let text = match self.output {
            OutputFormat::Json => document::json(&self.document(done, outcomes, picked))?,
            OutputFormat::Yaml => document::yaml(&self.document(done, outcomes, picked))?,
            OutputFormat::Name => {
                outcomes.iter().filter(|one| one.is_good()).map(|one| document::name(&one.id) + "\n").collect()
            }
            OutputFormat::Table | OutputFormat::Wide => {
                let line = |one: &ChangeResult| Some(format!("{} {}{dry}\n", document::name(&one.id), one.word(done)?));
                outcomes.iter().filter_map(line).collect()
            }
        };
        session.terminal.data(&text)?;
        for outcome in outcomes {
            outcome.complain(session);
        }
        for error in &picked.errors {
            session.terminal.status(&sanitize::one_line(error));
        }
        session.report_gaps(&picked.gaps);
        Ok(outcome::exit(outcomes, picked))
    }

    fn document(&self, done: &str, outcomes: &[ChangeResult], picked: &Picked) -> Value {
        let items: Vec<_> = outcomes.iter().map(|outcome| outcome.document(done)).collect();
        let dry_run = match self.dry_run {
            DryRun::None => "none",
            DryRun::Client => "client",
            DryRun::Server => "server",
        };
        let complete = outcomes.iter().all(ChangeResult::is_good) && picked.errors.is_empty() && picked.gaps.is_empty();
        json!({
            "schema": SCHEMA, "complete": complete, "dryRun": dry_run,
            "gaps": picked.gaps, "errors": picked.errors, "items": items,
        })
    }
}
