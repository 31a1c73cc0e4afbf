//! `get`: shows the objects that Flux reconciles, and which of them are suspended.

mod args;
mod clusters;
mod print;
mod read;
mod watch;

use super::{Session, elsewhere};
use crate::cluster::Cluster;
use crate::commands::select::Selection;
use crate::error::Result;
use crate::exit::ExitCode;
use gitops_core::kubernetes::snapshot::Snapshot;
use print::Answer;
use read::GetData;

pub use args::GetArgs;
#[cfg(feature = "schema")]
pub(crate) use print::{SCHEMA, schema};

/// Prints the selected objects, and their changes with `-w`.
pub async fn run(args: &GetArgs, session: &mut Session) -> Result<ExitCode> {
    if let Some(contexts) = args.clusters.names(&session.connection, args.output)? {
        return clusters::run(args, session, contexts).await;
    }
    if let Some(file) = &args.snapshot {
        let snapshot = session.recorded(file)?;
        return print_recorded(args, session, snapshot);
    }
    let cluster = session.cluster().await?;
    let data = GetData::read(&cluster, args.selection()).await?;
    let namespace = (!args.all_namespaces).then_some(&*cluster.namespace);
    if args.is_table() {
        data.selected.ensure_readable(namespace)?;
    }
    let answer = Answer::new(args, &data, session.now);
    let is_empty = answer.items.is_empty();
    let exit = print::print(args, session, answer, namespace)?;
    if args.is_table() {
        elsewhere::hint_missing(session, &cluster, &data.selected).await;
        if namespace.is_some() && is_empty && exit == ExitCode::Done {
            hint_other_namespaces(args, session, &cluster, &data).await?;
        }
    }
    if args.watch {
        session.print_warnings();
        return watch::run(args, session, &cluster, data).await;
    }
    Ok(exit)
}

/// Prints the selected objects of a recorded cluster: those of all namespaces without `-n`.
fn print_recorded(args: &GetArgs, session: &mut Session, snapshot: Snapshot) -> Result<ExitCode> {
    let namespace = session.connection.namespace.clone().filter(|_| !args.all_namespaces);
    let selected = args.selection().read_snapshot(&snapshot, namespace.as_deref())?;
    let selected_everywhere =
        namespace.as_ref().map(|_| args.selection().read_snapshot(&snapshot, None)).transpose()?;
    let data = GetData::recorded(selected, snapshot);
    let answer = Answer::new(args, &data, session.now);
    let is_empty = answer.items.is_empty();
    let exit = print::print(args, session, answer, namespace.as_deref())?;
    if let Some(selected) = selected_everywhere.filter(|_| args.is_table() && is_empty) {
        let everywhere = GetData::unrelated(selected);
        let rows = args.rows(&everywhere, session.now);
        elsewhere::print_namespaces(session, rows.iter().map(|item| &*item.object.namespace));
    }
    Ok(exit)
}

/// Names other namespaces with objects that the flags select.
async fn hint_other_namespaces(args: &GetArgs, session: &mut Session, cluster: &Cluster, data: &GetData) -> Result<()> {
    if !args.is_filtered() {
        let selector = args.selector.as_deref();
        elsewhere::hint_other_namespaces(session, cluster, &data.selected.types, selector).await;
        return Ok(());
    }
    let selection = Selection { all_namespaces: true, ..args.selection() };
    let (selected, _) = selection.read(cluster).await?;
    let everywhere = GetData::unrelated(selected);
    let rows = args.rows(&everywhere, session.now);
    elsewhere::print_namespaces(session, rows.iter().map(|item| &*item.object.namespace));
    Ok(())
}
