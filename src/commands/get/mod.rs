//! `get`: shows the objects that Flux reconciles, and which of them are suspended.

mod args;
mod clusters;
mod print;
mod read;
mod watch;

use std::collections::BTreeMap;

use super::Session;
use crate::cluster::{Cluster, Query};
use crate::error::Result;
use crate::exit::ExitCode;
use gitops_core::text::join_limited;
use print::Answer;
use read::GetData;

pub use args::GetArgs;
#[cfg(feature = "schema")]
pub(crate) use print::{SCHEMA, schema};

/// Number of other namespaces that a hint names.
const NAMED_NAMESPACES: usize = 5;

/// Prints the selected objects, and their changes with `-w`.
pub async fn run(args: &GetArgs, session: &mut Session) -> Result<ExitCode> {
    if let Some(contexts) = args.clusters.names(&session.connection, args.output)? {
        return clusters::run(args, session, contexts).await;
    }
    if let Some(file) = &args.snapshot {
        let snapshot = session.recorded(file)?;
        let data = GetData::read_snapshot(snapshot, args.selection(), session.connection.namespace.as_deref())?;
        return print::print(args, session, Answer::new(args, &data, session.now), None);
    }
    let cluster = session.cluster().await?;
    let data = GetData::read(&cluster, args.selection()).await?;
    let namespace = (!args.all_namespaces).then_some(&*cluster.namespace);
    let exit = print::print(args, session, Answer::new(args, &data, session.now), namespace)?;
    let is_empty = data.objects().next().is_none();
    if namespace.is_some() && is_empty && exit == ExitCode::Done && args.is_table() {
        hint_other_namespaces(args, session, &cluster, &data).await;
    }
    if args.watch {
        session.print_warnings();
        return watch::run(args, session, &cluster, data).await;
    }
    Ok(exit)
}

/// Names other namespaces with objects, so that an empty answer is not taken for an empty cluster.
async fn hint_other_namespaces(args: &GetArgs, session: &mut Session, cluster: &Cluster, data: &GetData) {
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for kind in &data.selected.types {
        let query = Query { namespace: None, selector: args.selector.as_deref() };
        for object in cluster.list_metadata(kind, query).await.items {
            *found.entry(object.id.namespace.to_string()).or_default() += 1;
        }
    }
    if found.is_empty() {
        return;
    }
    let namespaces = found.iter().map(|(namespace, count)| format!("{namespace} ({count})"));
    let namespaces = join_limited(namespaces, NAMED_NAMESPACES);
    session.terminal.hint(&format!("there are some in {namespaces}: use -n or -A"));
}
