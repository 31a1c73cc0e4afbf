//! `get -w`: one more row for each change, until interrupted.

use std::collections::HashMap;

use futures::stream::StreamExt;

use super::GetArgs;
use crate::cluster::{Cluster, Query, Sight};
use crate::commands::Session;
use crate::commands::reading::ReadRequest;
use crate::error::Result;
use crate::exit::ExitCode;
use crate::output::document;
use crate::output::document::OutputFormat;
use crate::output::{sanitize, suspensions};

/// Prints what changes.
///
/// # Errors
/// When standard output cannot be written.
pub async fn run(
    args: &GetArgs,
    session: &mut Session,
    cluster: &Cluster,
    mut reading: ReadRequest,
) -> Result<ExitCode> {
    let namespace = (!args.all_namespaces).then_some(&*cluster.namespace);
    let query = Query { namespace, selector: args.selector.as_deref() };
    let known: Vec<_> = reading.objects().collect();
    let mut sights = cluster.watch(&reading.picked.types, query, &known);
    let mut last_failure = String::new();
    let mut shown = HashMap::new();
    while let Some(sight) = sights.next().await {
        session.now = chrono::Utc::now();
        match sight {
            Ok(sight) if reading.picked.is_wanted(&sight.kind, &sight.full.object.id.name) => {
                last_failure.clear();
                reading.picked.replace(&sight.kind, sight.full.clone());
                show(args, session, &reading, &sight, &mut shown)?;
                if sight.deleted {
                    reading.picked.forget(&sight.full.object.uid);
                }
            }
            Ok(_) => {}
            Err(failure) => {
                let failure = failure.to_string();
                if failure != last_failure {
                    session.terminal.warning(&sanitize::one_line(&failure));
                    last_failure = failure;
                }
            }
        }
    }
    Ok(ExitCode::Done)
}

/// What was last shown of each object, by uid, without the cells that change with time alone.
type Shown = HashMap<String, String>;

/// Prints an object unless the row would say what the one before it said.
fn show(args: &GetArgs, session: &mut Session, reading: &ReadRequest, sight: &Sight, shown: &mut Shown) -> Result<()> {
    let mut items = args.rows(reading);
    let Some(at) = items.iter().position(|item| item.uid == &*sight.full.object.uid) else { return Ok(()) };
    let mut item = items.remove(at);
    item.deleted = sight.deleted;
    let says =
        [item.revision.unwrap_or_default(), &item.suspended(), item.ready.unwrap_or_default(), item.message].join("\n");
    let says = format!("{says}\n{:?}\n{}", item.deleting, item.deleted);
    if shown.insert(item.uid.to_owned(), says.clone()) == Some(says) {
        return Ok(());
    }
    let text = match args.output {
        OutputFormat::Json => document::json(&item)?,
        OutputFormat::Yaml => format!("---\n{}", document::yaml(&item)?),
        OutputFormat::Name => document::name(item.object) + "\n",
        OutputFormat::Table | OutputFormat::Wide => {
            // The row stands below all others, so that its columns stay where they were.
            items.push(item);
            let table =
                suspensions::table(&items, session.now, args.output == OutputFormat::Wide).render(!args.no_headers);
            table.lines().last().map(|line| format!("{line}\n")).unwrap_or_default()
        }
    };
    session.terminal.data(&text)
}
