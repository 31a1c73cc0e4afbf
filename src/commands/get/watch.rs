//! `get -w`: prints a row for each change, until interrupted.

use std::collections::{HashMap, HashSet};

use futures::stream::StreamExt;

use super::args::GetArgs;
use super::print::print_change;
use super::read::GetData;
use crate::cluster::read::watch::watch;
use crate::cluster::{Cluster, Query, WatchedChange};
use crate::commands::Session;
use crate::error::Result;
use crate::exit::ExitCode;
use gitops_core::flux::suspension::view::FluxObject;

/// Texts of the last printed rows by uid, without the cells that change with time alone.
type PrintedRows = HashMap<String, String>;

pub(super) async fn run(
    args: &GetArgs,
    session: &mut Session,
    cluster: &Cluster,
    mut data: GetData,
) -> Result<ExitCode> {
    let namespace = (!args.all_namespaces).then_some(&*cluster.namespace);
    let query = Query { namespace, selector: args.selector.as_deref() };
    let known: Vec<_> = data.objects().collect();
    let mut changes = watch(cluster, &data.selected.types, query, &known);
    // Failures since the last change: a watch is tried again and again.
    let mut failures = HashSet::new();
    let mut printed = PrintedRows::new();
    while let Some(change) = changes.next().await {
        session.now = chrono::Utc::now();
        session.print_warnings();
        match change {
            Ok(change) if data.selected.includes(&change.kind, &change.full.object.id.name) => {
                failures.clear();
                data.selected.replace(&change.kind, change.full.clone());
                print_if_new(args, session, &data, &change, &mut printed)?;
                if change.deleted {
                    data.selected.remove(&change.full.object.uid);
                }
            }
            Ok(_) => {}
            Err(failure) => {
                let text = failure.to_string();
                if failures.insert(text.clone()) {
                    session.terminal.warning(&text);
                }
            }
        }
    }
    Ok(ExitCode::Done)
}

/// Prints an object unless its row would be the same as before.
fn print_if_new(
    args: &GetArgs,
    session: &mut Session,
    data: &GetData,
    change: &WatchedChange,
    printed: &mut PrintedRows,
) -> Result<()> {
    let mut items = args.rows(data, chrono::Utc::now());
    args.sort(&mut items);
    let Some(at) = items.iter().position(|item| item.uid == &*change.full.object.uid) else { return Ok(()) };
    let mut item = items.remove(at);
    item.deleted = change.deleted;
    let text = row_text(&item);
    if printed.insert(item.uid.to_owned(), text.clone()) == Some(text) {
        return Ok(());
    }
    print_change(args, session, item, items)
}

fn row_text(item: &FluxObject<'_>) -> String {
    let cells =
        [item.revision.unwrap_or_default(), &item.suspended(), item.ready.unwrap_or_default(), item.message].join("\n");
    format!("{cells}\n{:?}\n{}", item.deleting, item.deleted)
}
