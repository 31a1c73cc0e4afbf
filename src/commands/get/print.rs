//! Output of `get`: a table, a document or names, and messages about them.

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;

use super::args::GetArgs;
use super::read::GetData;
use crate::commands::{Session, select};
use crate::error::Result;
use crate::exit::ExitCode;
use crate::output::format::{Format, Look, Part, Render};
use crate::output::inventory::same_cluster;
use crate::output::suspensions::View;
use crate::output::text::table::Table;
use crate::output::{document, suspensions};
use gitops_core::flux::suspension::view::FluxObject;
use gitops_core::kubernetes::gap::AnswerGap;
use gitops_core::text::and_more;

/// Name of the JSON schema; a contract with programs.
pub(crate) const SCHEMA: &str = "kubectl-gitops/get/v1";

/// Number of objects with a suspension that is not honoured whose evidence is printed below a table.
const EXPLAINED_OBJECTS: usize = 10;

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct GetDocument<'a> {
    schema: &'static str,
    /// True if everything could be read.
    complete: bool,
    gaps: &'a [AnswerGap],
    /// The contexts that were read, if the answer is about several.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    contexts: &'a [ReadContext],
    /// Messages about named objects that could not be read.
    errors: &'a [String],
    items: &'a [FluxObject<'a>],
    /// Time for the ages in the table.
    #[serde(skip)]
    now: DateTime<Utc>,
    /// Columns of the table without `-o wide`.
    #[serde(skip)]
    view: View,
}

/// One of several contexts.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(super) struct ReadContext {
    /// Name of the context in the kubeconfig.
    pub(super) context: String,
    /// Another context of the same cluster and namespace. Its answer is the one that counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) same_cluster_as: Option<String>,
}

/// Returns the schema of the document.
#[cfg(feature = "schema")]
pub(crate) fn schema(generator: schemars::SchemaGenerator) -> schemars::Schema {
    generator.into_root_schema_for::<GetDocument<'static>>()
}

impl Render for GetDocument<'_> {
    const PARTS: &'static [Part] = &[Part::Text, Part::Rows, Part::Document, Part::Names];

    fn text(&self, wide: bool, look: Look) -> String {
        match self.items {
            [] => String::new(),
            items => {
                let view = if wide { View::Wide } else { self.view };
                suspensions::table(items, self.now, view).render(look)
            }
        }
    }

    fn names(&self) -> String {
        self.items.iter().map(|item| document::name(item.object) + "\n").collect()
    }

    fn rows(&self) -> Option<Table> {
        Some(suspensions::table(self.items, self.now, View::Records))
    }
}

/// One object of a watch.
#[derive(Serialize)]
#[serde(transparent)]
struct ObjectChange<'a> {
    item: &'a FluxObject<'a>,
    #[serde(skip)]
    table: GetDocument<'a>,
}

impl Render for ObjectChange<'_> {
    const PARTS: &'static [Part] = GetDocument::PARTS;

    /// Returns the last row of the table of all objects, so that the columns keep their width.
    fn text(&self, wide: bool, look: Look) -> String {
        let text = self.table.text(wide, look);
        text.lines().last().map(|line| format!("{line}\n")).unwrap_or_default()
    }

    fn names(&self) -> String {
        document::name(self.item.object) + "\n"
    }

    fn rows(&self) -> Option<Table> {
        Some(suspensions::table(std::slice::from_ref(self.item), self.table.now, View::Records))
    }
}

/// Objects to print, with what could not be read.
#[derive(Default)]
pub(super) struct Answer<'a> {
    pub(super) items: Vec<FluxObject<'a>>,
    pub(super) errors: Vec<String>,
    pub(super) gaps: Vec<AnswerGap>,
    pub(super) contexts: Vec<ReadContext>,
}

impl<'a> Answer<'a> {
    /// Returns the answer of one cluster.
    pub(super) fn new(args: &GetArgs, data: &'a GetData, now: DateTime<Utc>) -> Self {
        let gaps = data.selected.gaps.iter().cloned().map(AnswerGap::from).collect();
        Self { items: args.rows(data, now), errors: data.selected.errors.clone(), gaps, contexts: vec![] }
    }
}

/// Prints the objects, and on stderr the errors and gaps.
pub(super) fn print(
    args: &GetArgs,
    session: &mut Session,
    answer: Answer<'_>,
    namespace: Option<&str>,
) -> Result<ExitCode> {
    let Answer { mut items, errors, gaps, contexts } = answer;
    args.sort(&mut items);
    let (gaps, errors) = (&gaps[..], &errors[..]);
    let complete = gaps.is_empty() && errors.is_empty();
    let (items_shown, now, view) = (&items[..], session.now, args.view());
    let contexts = &contexts[..];
    let document = GetDocument { schema: SCHEMA, complete, gaps, contexts, errors, items: items_shown, now, view };
    session.terminal.raw(&args.output.render(&document, session.terminal.look(!args.no_headers))?)?;
    if args.is_table() && items.is_empty() && errors.is_empty() {
        select::print_no_resources(session, namespace, complete);
    }
    if args.is_table() && !args.watch {
        print_evidence(session, &items);
    }
    for ReadContext { context, same_cluster_as } in contexts {
        same_cluster_as.iter().for_each(|other| session.terminal.status(&same_cluster(context, other)));
    }
    errors.iter().for_each(|error| session.terminal.status(error));
    let exit = session.report_answer_gaps(gaps, false);
    Ok(match (errors.is_empty(), items.is_empty()) {
        (true, _) => exit,
        (false, true) => ExitCode::Error,
        (false, false) => ExitCode::Partial,
    })
}

/// Prints one object of a watch. Its columns are as wide as in a table of all objects.
pub(super) fn print_change<'a>(
    args: &GetArgs,
    session: &mut Session,
    item: FluxObject<'a>,
    mut others: Vec<FluxObject<'a>>,
) -> Result<()> {
    others.push(item);
    let Some(item) = others.last() else { return Ok(()) };
    let (gaps, errors) = (&[], &[]);
    let (now, view) = (session.now, args.view());
    let table = GetDocument { schema: SCHEMA, complete: true, gaps, contexts: &[], errors, items: &others, now, view };
    let look = session.terminal.look(args.is_table() && !args.no_headers);
    let text = args.output.render(&ObjectChange { item, table }, look)?;
    let separator = if args.output == Format::Yaml { "---\n" } else { "" };
    session.terminal.raw(&format!("{separator}{text}"))
}

/// Prints the evidence for suspensions that are not honoured.
fn print_evidence(session: &mut Session, items: &[FluxObject<'_>]) {
    let ignored: Vec<_> = items.iter().filter_map(|item| Some((item, item.evidence()?))).collect();
    for (item, evidence) in ignored.iter().take(EXPLAINED_OBJECTS) {
        let since = item.suspension.as_ref().and_then(|suspension| suspension.since);
        let warning = format!(
            "{}{}: suspended {}, but at {} {}",
            document::name(item.object),
            item.context.map(|context| format!(" in context {context}")).unwrap_or_default(),
            since.map(rfc3339).unwrap_or_default(),
            rfc3339(evidence.at),
            evidence.what
        );
        session.terminal.warning(&warning);
    }
    if let Some(more) = and_more(ignored.len(), EXPLAINED_OBJECTS) {
        session.terminal.warning(&format!("{more}; -o json has the evidence of all"));
    }
    if !ignored.is_empty() {
        session.terminal.hint("`kubectl gitops suspend … --spec` stops the controllers of today");
    }
}

fn rfc3339(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}
