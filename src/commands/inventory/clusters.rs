//! `inventory --contexts`: the answers of several clusters to one question.

use super::answer;
use super::args::InventoryArgs;
use crate::commands::{Session, contexts};
use crate::error::{Error, Result};
use gitops_core::ownership::report::InventoryDocument;
use gitops_core::ownership::report::contexts::merge;

/// Returns the contexts to read; `None` for the one cluster of the connection flags.
///
/// # Errors
/// If the contexts cannot be read together, or another argument is about one cluster.
pub(super) fn names(args: &InventoryArgs, session: &Session) -> Result<Option<Vec<String>>> {
    let Some(names) = args.clusters.names(&session.connection, args.output)? else { return Ok(None) };
    let explained = [(&args.why, "--why"), (&args.why_gone, "--why-gone")];
    if let Some((_, flag)) = explained.into_iter().find(|(words, _)| !words.is_empty()) {
        return Err(Error::usage(format!("{flag} explains one object, which is in one cluster"))
            .hint("name its cluster with --context instead"));
    }
    if let Some(hub) = args.owner_context.as_ref().filter(|hub| names.contains(hub)) {
        return Err(Error::usage(format!("--owner-context {hub} is one of the clusters to read"))
            .hint("list only the clusters that the hub applies to with --contexts"));
    }
    Ok(Some(names))
}

/// Returns the joined answer of several clusters.
pub(super) async fn document(
    args: &InventoryArgs,
    session: &mut Session,
    names: Vec<String>,
) -> Result<InventoryDocument> {
    let answers = contexts::read_each(names, session, async |part| answer::document(args, part).await).await?;
    merge(answers, session.now).ok_or_else(|| Error::failed("the answers of the clusters cannot be joined"))
}
