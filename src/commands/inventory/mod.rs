//! `inventory`: the owners of the cluster, their objects, and the objects that are leaked, orphaned, unmanaged or claimed by
//! several owners.

mod answer;
mod args;
mod clusters;
mod ignore;
mod next;
mod object;
mod reading;
mod why_gone;

use super::{Session, owners};
use crate::error::Result;
use crate::exit::ExitCode;
use crate::output::inventory as show;
use gitops_core::ownership::report::{Body, InventoryDocument};

pub use args::InventoryArgs;

/// Reads the cluster, or several, and prints the answer.
///
/// # Errors
/// If no cluster can be read at all, or an owner or object that was named does not exist.
pub async fn run(args: &InventoryArgs, session: &mut Session) -> Result<ExitCode> {
    owners::named(&args.owners)?;
    let accepted = args.ignore.as_deref().map(ignore::read).transpose()?;
    let contexts = clusters::names(args, session)?;
    if !args.why_gone.is_empty() {
        return why_gone::run(args, session).await;
    }
    let mut document = match contexts {
        None => answer::document(args, session).await?,
        Some(contexts) => clusters::document(args, session, contexts).await?,
    };
    if let (Some(list), Some(question)) = (accepted, args.question()) {
        document.remove_ignored(&list, question.status());
    }
    let exit = print(args, session, &document)?;
    let has_findings = matches!(&document.body, Body::Findings(findings) if !findings.is_empty());
    let is_reported = args.detailed_exitcode && has_findings && exit == ExitCode::Done;
    Ok(if is_reported { ExitCode::Found } else { exit })
}

fn print(args: &InventoryArgs, session: &mut Session, document: &InventoryDocument) -> Result<ExitCode> {
    session.terminal.raw(&args.output.render(document, session.terminal.look(!args.no_headers))?)?;
    report_no_owner(document, session);
    show::remarks(document).iter().for_each(|line| session.terminal.status(line));
    show::hidden(document).into_iter().for_each(|line| session.terminal.status(&line));
    if let (Some(file), Some(ignored)) = (&args.ignore, &document.ignored) {
        ignore::report(file, ignored, args.is_limited(session), &mut session.terminal);
    }
    for (context, report) in show::label_reports(document) {
        let place = context.map(|context| format!("context {context}: ")).unwrap_or_default();
        for warning in &report.warnings {
            session.terminal.warning(&format!("{place}{warning}"));
        }
    }
    let exit = session.report_answer_gaps(&document.gaps, false);
    if let Body::Explanation(explanation) = &document.body {
        next::commands(explanation, args).iter().for_each(|line| session.terminal.hint(line));
    }
    Ok(exit)
}

/// Says that no owner is in the namespace: the number of all objects alone reads as if it were that of the namespace.
fn report_no_owner(document: &InventoryDocument, session: &mut Session) {
    if !matches!(&document.body, Body::Owners(owners) if owners.is_empty()) || document.filter.is_some() {
        return;
    }
    let Some(namespace) = session.connection.namespace.clone() else {
        return session.terminal.status("no owner found");
    };
    session.terminal.status(&format!("no owner found in namespace {namespace}"));
    session
        .terminal
        .hint("owners in other namespaces can have its objects: `kubectl gitops inventory` without -n lists them");
}
