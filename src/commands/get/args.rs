//! Arguments of `get`, and the rows that they select.

use std::cmp::Reverse;
use std::path::PathBuf;

use chrono::{DateTime, Utc};
use clap::{Args, ValueEnum};

use super::print::GetDocument;
use super::read::GetData;
use crate::commands::contexts::ContextsArgs;
use crate::commands::select::Selection;
use crate::output::format::{self, Format, Render};
use crate::output::suspensions::View;
use gitops_core::flux::suspension::view::FluxObject;
use gitops_core::kubernetes::object::Resource;

/// Show the objects that Flux reconciles, and which of them are suspended
///
/// One table of every kind of Flux and flux-operator in the cluster. SUSPENDED shows what suspends an object: spec
/// (spec.suspend), annotation (reconcile.fluxcd.io/suspended), both, switch (the annotation reconcile: disabled of the
/// kind), or parent if only an owner or a source of the object is suspended. READY is the condition Ready of the
/// object, also while it is suspended.
///
/// No released Flux controller honours the annotation. If an object was reconciled after only the annotation suspended
/// it, SUSPENDED shows NOT HONOURED and the evidence is printed on standard error. If its status never shows a
/// reconciliation, SUSPENDED shows unverifiable.
///
/// With --suspended or --expired, the table shows the person or program that suspended an object (BY), the time since
/// then (SINCE), the end (UNTIL) and the message (REASON). -o wide has all columns. -o csv has them too, with times as in
/// RFC 3339, quoted as in RFC 4180; a cell that a spreadsheet would read as a formula, because it begins with =, +, - or
/// @, is preceded by an apostrophe.
#[derive(Args, Debug)]
#[command(
    override_usage = "kubectl gitops get [TYPE[,TYPE…]] [NAME…] [OPTIONS]",
    after_help = "Examples:
  kubectl gitops get -A                  # every object of Flux
  kubectl gitops get -A --suspended      # what is suspended, by whom and why
  kubectl gitops get kustomization cart  # one object",
    after_long_help = "Examples:
  # All objects in the namespace of the context
  kubectl gitops get

  # All suspended objects of the cluster: by whom, since when, until when, why
  kubectl gitops get -A --suspended

  # Suspensions whose time is over (suspend --for)
  kubectl gitops get -A --expired

  # All clusters of the kubeconfig, or some of them
  kubectl gitops get -A --suspended --all-contexts
  kubectl gitops get -A --contexts prod-eu,prod-us

  # Some kinds, some objects
  kubectl gitops get ks,hr -l team=web
  kubectl gitops get kustomization cart -n flux-system

  # Objects that are not ready, with changes as they happen
  kubectl gitops get -A --not-ready -w"
)]
pub struct GetArgs {
    /// TYPE NAME…, TYPE/NAME…, or TYPE1,TYPE2; every kind without a TYPE
    #[arg(value_name = "TYPE NAME")]
    pub words: Vec<String>,
    /// Show objects in all namespaces
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// Show objects that match this label selector
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
    /// Show only objects that are suspended themselves
    #[arg(long)]
    pub suspended: bool,
    /// Show only objects whose suspension has ended (suspend --for), and that are still suspended
    #[arg(long)]
    pub expired: bool,
    /// Show only objects whose Ready condition is not True
    #[arg(long)]
    pub not_ready: bool,
    /// Show only objects with this condition: TYPE=STATUS or TYPE!=STATUS
    #[arg(long, value_name = "TYPE=STATUS", value_parser = StatusSelector::parse)]
    pub status_selector: Option<StatusSelector>,
    /// Sort by name, kind, age, since, ready or last-reconciled
    #[arg(long, value_name = "COLUMN", value_enum, hide_possible_values = true)]
    pub sort_by: Option<SortBy>,
    /// After the table, show objects as they change, until interrupted
    #[arg(short, long, conflicts_with_all = ["snapshot", "contexts", "all_contexts"])]
    pub watch: bool,
    /// Read this recorded cluster instead of a live one
    #[arg(long, value_name = "FILE")]
    pub snapshot: Option<PathBuf>,
    #[command(flatten)]
    pub clusters: ContextsArgs,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = format::parser(GetDocument::PARTS))]
    pub output: Format,
    /// Print tables without the header line
    #[arg(long)]
    pub no_headers: bool,
}

/// Column that `--sort-by` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SortBy {
    Name,
    Kind,
    /// Sorts the youngest object first.
    Age,
    /// Time since the suspension, shortest first. Objects that are not suspended are last.
    Since,
    /// Sorts False before True and Unknown.
    Ready,
    /// Sorts the latest known run first.
    LastReconciled,
}

/// Condition that `--status-selector` requires or excludes.
#[derive(Clone, Debug)]
pub struct StatusSelector {
    kind: String,
    status: String,
    equal: bool,
}

impl StatusSelector {
    fn parse(text: &str) -> Result<Self, String> {
        let (left, status) = text.split_once('=').ok_or("must be TYPE=STATUS or TYPE!=STATUS")?;
        let kind = left.trim_end_matches('!').to_owned();
        if kind.is_empty() || status.is_empty() {
            return Err("must be TYPE=STATUS or TYPE!=STATUS".to_owned());
        }
        Ok(Self { kind, status: status.to_owned(), equal: !left.ends_with('!') })
    }

    fn matches(&self, full: &Resource) -> bool {
        let mut conditions = full.conditions().filter(|condition| condition.kind.eq_ignore_ascii_case(&self.kind));
        conditions.any(|condition| condition.status.eq_ignore_ascii_case(&self.status)) == self.equal
    }
}

impl GetArgs {
    pub(super) fn selection(&self) -> Selection<'_> {
        let selector = self.selector.as_deref();
        Selection { verb: "get", flags: "", words: &self.words, selector, all_namespaces: self.all_namespaces }
    }

    /// Returns true if the output is a table, so that messages about it are printed too.
    pub(super) fn is_table(&self) -> bool {
        self.output.is_table()
    }

    /// Returns the columns of the table: without `-o wide`, only what is of interest about suspensions.
    pub(super) fn view(&self) -> View {
        if self.suspended || self.expired { View::Suspensions } else { View::State }
    }

    /// Returns true if flags leave out objects because of their content.
    pub(super) fn is_filtered(&self) -> bool {
        self.suspended || self.expired || self.not_ready || self.status_selector.is_some()
    }

    /// Returns the objects that the flags select, sorted by identity.
    pub(super) fn rows<'a>(&self, data: &'a GetData, now: DateTime<Utc>) -> Vec<FluxObject<'a>> {
        let by_id = data.by_id();
        let selector = self.status_selector.as_ref();
        let selected = data.objects().filter(|full| selector.is_none_or(|selector| selector.matches(full)));
        let mut items: Vec<_> = selected.map(|full| FluxObject::new(full, &by_id, &data.events)).collect();
        items.retain(|item| !self.suspended || item.suspension.is_some());
        items.retain(|item| !self.expired || item.until().is_some_and(|until| until <= now));
        items.retain(|item| !self.not_ready || item.ready.is_some_and(|ready| ready != "True"));
        items.sort_by(|a, b| a.object.namespace.cmp(&b.object.namespace).then_with(|| a.object.cmp(b.object)));
        items
    }

    /// Sorts objects by the column of `--sort-by`; objects with the same value keep their order.
    pub(super) fn sort(&self, items: &mut [FluxObject<'_>]) {
        match self.sort_by {
            None => {}
            Some(SortBy::Name) => items.sort_by(|a, b| a.object.name.cmp(&b.object.name)),
            Some(SortBy::Kind) => items.sort_by(|a, b| a.object.kind.cmp(&b.object.kind)),
            Some(SortBy::Age) => items.sort_by_key(|item| Reverse(item.created)),
            Some(SortBy::Since) => {
                items.sort_by_key(|item| {
                    let since = item.suspension.as_ref().map(|suspension| suspension.since);
                    (since.is_none(), Reverse(since))
                });
            }
            Some(SortBy::Ready) => items.sort_by(|a, b| a.ready.cmp(&b.ready)),
            Some(SortBy::LastReconciled) => items.sort_by_key(|item| Reverse(item.last_reconciled)),
        }
    }
}
