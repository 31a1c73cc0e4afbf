//! `get --contexts`: the objects of several clusters in one answer.

use super::args::GetArgs;
use super::print::{self, Answer};
use super::read::GetData;
use crate::commands::{Session, contexts};
use crate::error::Result;
use crate::exit::ExitCode;
use crate::output::sanitize;
use gitops_core::kubernetes::gap::AnswerGap;

/// Prints the objects of the clusters, in the order of their contexts unless `--sort-by` has another.
pub(super) async fn run(args: &GetArgs, session: &mut Session, names: Vec<String>) -> Result<ExitCode> {
    let read = async |session: Session| {
        let cluster = session.cluster().await?;
        let data = GetData::read(&cluster, args.selection()).await?;
        Ok((data, cluster.take_warnings()))
    };
    let answers = contexts::read_each(names, session, read).await?;
    let mut whole = Answer::default();
    let mut warnings = vec![];
    for (context, answer) in &answers {
        let in_context = |gap| AnswerGap { context: Some(context.clone()), gap };
        match answer {
            Ok((data, given)) => {
                let mut answer = Answer::new(args, data, session.now);
                answer.items.iter_mut().for_each(|item| item.context = Some(context));
                whole.items.extend(answer.items);
                whole.errors.extend(answer.errors.iter().map(|error| format!("context {context}: {error}")));
                whole.gaps.extend(answer.gaps.into_iter().map(|gap| in_context(gap.gap)));
                warnings.extend(given.iter().map(|warning| format!("context {context}: {warning}")));
            }
            Err(gap) => whole.gaps.push(in_context(gap.clone())),
        }
    }
    let namespace = session.connection.namespace.clone().filter(|_| !args.all_namespaces);
    let exit = print::print(args, session, whole, namespace.as_deref())?;
    warnings.iter().for_each(|warning| session.terminal.warning(&sanitize::one_line(warning)));
    Ok(exit)
}
