//! `get --contexts`: the objects of several clusters in one answer.

use super::args::GetArgs;
use super::print::{self, Answer};
use super::read::GetData;
use crate::commands::{Session, contexts};
use crate::error::Result;
use crate::exit::ExitCode;
use gitops_core::kubernetes::gap::{AnswerGap, Gap};

/// Prints the objects of the clusters, in the order of their contexts unless `--sort-by` has another.
pub(super) async fn run(args: &GetArgs, session: &mut Session, names: Vec<String>) -> Result<ExitCode> {
    let answers =
        contexts::read_each(names, session, async |part| GetData::read(&part.cluster().await?, args.selection()).await)
            .await?;
    let mut whole = Answer::default();
    for (context, answer) in &answers {
        match answer {
            Ok(data) => {
                let mut answer = Answer::new(args, data, session.now);
                answer.items.iter_mut().for_each(|item| item.context = Some(context));
                whole.items.extend(answer.items);
                whole.errors.extend(answer.errors.iter().map(|error| format!("context {context}: {error}")));
                whole.gaps.extend(answer.gaps.into_iter().map(|gap| in_context(context, gap.gap)));
            }
            Err(gap) => whole.gaps.push(in_context(context, gap.clone())),
        }
    }
    let namespace = session.connection.namespace.clone().filter(|_| !args.all_namespaces);
    print::print(args, session, whole, namespace.as_deref())
}

fn in_context(context: &str, gap: Gap) -> AnswerGap {
    AnswerGap { context: Some(context.to_owned()), ..gap.into() }
}
