//! `get`: what Flux reconciles, and what of it is suspended.

pub mod watch;

use gitops_core::text::{and_more, join_limited};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::Session;
use super::pick;
use super::pick::{Picked, Selection};
use super::reading;
use super::reading::ReadRequest;
use crate::error::Result;
use crate::exit::ExitCode;
use crate::output::document;
use crate::output::document::OutputFormat;
use crate::output::{sanitize, suspensions};
use gitops_core::flux::suspension::view;
use gitops_core::flux::suspension::view::FluxObject;
use gitops_core::kubernetes::gap::Gap;
use gitops_core::kubernetes::object::Resource;

/// Schema name of the document.
pub const SCHEMA: &str = "kubectl-gitops/get/v1";

/// How many objects whose suspension is not honoured are explained below a table.
const EXPLAINED: usize = 10;

/// Show what Flux reconciles, and what of it is suspended
///
/// One table of every kind of Flux and flux-operator that the cluster has. SUSPENDED says what suspends an object:
/// spec (spec.suspend), annotation (reconcile.fluxcd.io/suspended), both, switch (the kind's own reconcile: disabled), or
/// parent, when only an owner or a source above it is suspended. READY is the object's own condition, suspended or not.
///
/// No released Flux controller honours the annotation. Where an object was reconciled after it was suspended by annotation
/// only, SUSPENDED says NOT HONOURED, and the evidence follows on standard error; where nothing could ever tell,
/// unverifiable. -o wide adds who suspended it (BY), how long ago (SINCE), why (REASON), and more.
#[derive(Args, Debug)]
#[command(
    override_usage = "kubectl gitops get [TYPE[,TYPE…]] [NAME…] [OPTIONS]",
    after_long_help = "Examples:
  # Everything in the context's namespace
  kubectl gitops get

  # What is suspended in the cluster, by whom, since when, and why
  kubectl gitops get -A --suspended -o wide

  # Some kinds, some objects
  kubectl gitops get ks,hr -l team=web
  kubectl gitops get kustomization apps

  # What is not ready, the longest suspended last, as it changes
  kubectl gitops get -A --not-ready --sort-by since -w"
)]
pub struct GetArgs {
    /// TYPE NAME…, TYPE/NAME…, or TYPE1,TYPE2; every kind without
    #[arg(value_name = "TYPE NAME")]
    pub words: Vec<String>,
    /// Objects in all namespaces
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// Objects that this label selector matches
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
    /// Only objects that are suspended themselves
    #[arg(long)]
    pub suspended: bool,
    /// Only objects whose Ready condition is not True
    #[arg(long)]
    pub not_ready: bool,
    /// Only objects with this condition: TYPE=STATUS or TYPE!=STATUS
    #[arg(long, value_name = "TYPE=STATUS", value_parser = StatusSelector::parse)]
    pub status_selector: Option<StatusSelector>,
    /// Order of the rows: name, kind, age, since, ready or last-reconciled
    #[arg(long, value_name = "COLUMN", value_enum, hide_possible_values = true)]
    pub sort_by: Option<SortBy>,
    /// After the table, show objects as they change, until interrupted
    #[arg(short, long, conflicts_with = "snapshot")]
    pub watch: bool,
    /// Read this recorded cluster instead of a live one
    #[arg(long, value_name = "FILE")]
    pub snapshot: Option<PathBuf>,
    /// table, wide, json, yaml or name
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    pub output: OutputFormat,
    /// No header line in tables
    #[arg(long)]
    pub no_headers: bool,
}

/// What `--sort-by` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SortBy {
    /// Name.
    Name,
    /// Kind.
    Kind,
    /// Age, youngest first.
    Age,
    /// How long it has been suspended, shortest first; what is not suspended comes last.
    Since,
    /// False, True, Unknown.
    Ready,
    /// The last known run, latest first.
    LastReconciled,
}

/// A condition to look for.
#[derive(Clone, Debug)]
pub struct StatusSelector {
    kind: String,
    status: String,
    equal: bool,
}

impl StatusSelector {
    fn parse(text: &str) -> Result<Self, String> {
        let (kind, status) = text.split_once('=').ok_or("must be TYPE=STATUS or TYPE!=STATUS")?;
        let equal = !kind.ends_with('!');
        let kind = kind.trim_end_matches('!').to_owned();
        if kind.is_empty() || status.is_empty() {
            return Err("must be TYPE=STATUS or TYPE!=STATUS".to_owned());
        }
        Ok(Self { kind, status: status.to_owned(), equal })
    }

    fn matches(&self, full: &Resource) -> bool {
        let mut conditions = full.conditions().filter(|condition| condition.kind.eq_ignore_ascii_case(&self.kind));
        conditions.any(|condition| condition.status.eq_ignore_ascii_case(&self.status)) == self.equal
    }
}

/// The document.
#[derive(Serialize)]
struct GetDocument<'a> {
    schema: &'static str,
    complete: bool,
    gaps: &'a [Gap],
    errors: &'a [String],
    items: &'a [FluxObject<'a>],
}

/// Shows objects.
///
/// # Errors
/// When the cluster cannot be read at all, or a TYPE is not known.
pub async fn run(args: &GetArgs, session: &mut Session) -> Result<ExitCode> {
    if let Some(file) = &args.snapshot {
        let reading = reading::of_file(file, args.wish(), session)?;
        return args.show(session, &reading, None);
    }
    let cluster = session.cluster().await?;
    let reading = reading::of_cluster(&cluster, args.wish()).await?;
    let namespace = (!args.all_namespaces).then_some(&*cluster.namespace);
    let exit = args.show(session, &reading, namespace)?;
    if namespace.is_some() && reading.objects().next().is_none() && exit == ExitCode::Done && args.for_people() {
        elsewhere(&cluster, &reading.picked, args.selector.as_deref(), session).await;
    }
    session.print_warnings(&cluster);
    if args.watch {
        return watch::run(args, session, &cluster, reading).await;
    }
    Ok(exit)
}

/// Says in which other namespaces there is something, so that an empty answer is not taken for an empty cluster.
async fn elsewhere(cluster: &crate::cluster::Cluster, picked: &Picked, selector: Option<&str>, session: &mut Session) {
    let mut found = std::collections::BTreeMap::new();
    for kind in &picked.types {
        let query = crate::cluster::Query { namespace: None, selector };
        for object in cluster.list_metadata(kind, query).await.items {
            *found.entry(object.id.namespace.to_string()).or_insert(0usize) += 1;
        }
    }
    if found.is_empty() {
        return;
    }
    let places = found.iter().map(|(namespace, count)| format!("{namespace} ({count})"));
    session.terminal.hint(&format!("there are some in {}: use -n or -A", join_limited(places, 5)));
}

impl GetArgs {
    fn wish(&self) -> Selection<'_> {
        Selection { words: &self.words, selector: self.selector.as_deref(), all_namespaces: self.all_namespaces }
    }

    /// Whether the output is a table, which messages go with.
    fn for_people(&self) -> bool {
        matches!(self.output, OutputFormat::Table | OutputFormat::Wide)
    }

    /// The rows that the flags let through, in their order.
    pub fn rows<'a>(&self, reading: &'a ReadRequest) -> Vec<FluxObject<'a>> {
        let known = reading.known();
        let chosen =
            reading.objects().filter(|full| self.status_selector.as_ref().is_none_or(|wanted| wanted.matches(full)));
        let mut items: Vec<_> = chosen.map(|full| view::item(full, &known, &reading.events)).collect();
        items.retain(|item| !self.suspended || item.suspension.is_some());
        items.retain(|item| !self.not_ready || item.ready.is_some_and(|ready| ready != "True"));
        items.sort_by(|a, b| a.object.namespace.cmp(&b.object.namespace).then_with(|| a.object.cmp(b.object)));
        let since = |item: &FluxObject<'_>| item.suspension.as_ref().map(|suspension| suspension.since);
        match self.sort_by {
            None => {}
            Some(SortBy::Name) => items.sort_by(|a, b| a.object.name.cmp(&b.object.name)),
            Some(SortBy::Kind) => items.sort_by(|a, b| a.object.kind.cmp(&b.object.kind)),
            Some(SortBy::Age) => items.sort_by_key(|item| std::cmp::Reverse(item.created)),
            Some(SortBy::Since) => {
                items.sort_by_key(|item| (item.suspension.is_none(), std::cmp::Reverse(since(item))))
            }
            Some(SortBy::Ready) => items.sort_by(|a, b| a.ready.cmp(&b.ready)),
            Some(SortBy::LastReconciled) => items.sort_by_key(|item| std::cmp::Reverse(item.last_reconciled)),
        }
        items
    }

    /// Prints the rows, and on stderr what they do not hold.
    fn show(&self, session: &mut Session, reading: &ReadRequest, namespace: Option<&str>) -> Result<ExitCode> {
        let items = self.rows(reading);
        let (gaps, errors) = (&reading.picked.gaps[..], &reading.picked.errors[..]);
        let complete = gaps.is_empty() && errors.is_empty();
        let document = GetDocument { schema: SCHEMA, complete, gaps, errors, items: &items };
        let text = match self.output {
            OutputFormat::Json => document::json(&document)?,
            OutputFormat::Yaml => document::yaml(&document)?,
            OutputFormat::Name => items.iter().map(|item| document::name(item.object) + "\n").collect(),
            _ if items.is_empty() => String::new(),
            _ => suspensions::table(&items, session.now, self.output == OutputFormat::Wide).render(!self.no_headers),
        };
        session.terminal.data(&text)?;
        if self.for_people() && items.is_empty() && complete {
            pick::nothing_found(session, namespace);
        }
        if self.for_people() && !self.watch {
            explain(session, &items);
        }
        errors.iter().for_each(|error| session.terminal.status(&sanitize::one_line(error)));
        let exit = session.report_gaps(gaps);
        Ok(match (errors.is_empty(), items.is_empty()) {
            (true, _) => exit,
            (false, true) => ExitCode::Error,
            (false, false) => ExitCode::Partial,
        })
    }
}

/// The evidence for each object whose suspension is not honoured.
fn explain(session: &mut Session, items: &[FluxObject<'_>]) {
    let ignored: Vec<_> = items.iter().filter_map(|item| Some((item, item.evidence()?))).collect();
    for (item, evidence) in ignored.iter().take(EXPLAINED) {
        let (name, at) = (document::name(item.object), evidence.at.to_rfc3339_opts(chrono::SecondsFormat::Secs, true));
        let since = item.suspension.as_ref().and_then(|suspension| suspension.since);
        let since = since.map(|since| since.to_rfc3339_opts(chrono::SecondsFormat::Secs, true)).unwrap_or_default();
        let what = sanitize::one_line(&evidence.what);
        session.terminal.warning(&format!("{name}: suspended {since}, but at {at} {what}"));
    }
    if let Some(more) = and_more(ignored.len(), EXPLAINED) {
        session.terminal.warning(&format!("{more}; -o json has the evidence of all"));
    }
    if !ignored.is_empty() {
        session.terminal.hint("`kubectl gitops suspend … --spec` makes today's controllers stop");
    }
}
