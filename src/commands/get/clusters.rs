//! `get --contexts`: the objects of several clusters in one answer.

use std::collections::BTreeMap;

use super::args::GetArgs;
use super::print::{self, Answer, ReadContext};
use super::read::GetData;
use crate::cluster::Cluster;
use crate::cluster::read::hub::cluster_uid;
use crate::commands::Session;
use crate::commands::contexts::{self, ContextAnswers};
use crate::error::Result;
use crate::exit::ExitCode;
use gitops_core::kubernetes::gap::{AnswerGap, Gap};
use gitops_core::ownership::report::contexts::same_clusters;

/// Prints the objects of the clusters, in the order of their contexts unless `--sort-by` has another.
pub(super) async fn run(args: &GetArgs, session: &mut Session, names: Vec<String>) -> Result<ExitCode> {
    let answers = contexts::read_each(names, session, async |part| read(args, &part.cluster().await?).await).await?;
    let read = answers.iter().filter_map(|(context, answer)| {
        let (scope, data) = answer.as_ref().ok()?;
        Some((&**scope, data.selected.gaps.len(), &**context))
    });
    let same = same_clusters(read);
    let mut whole = Answer { contexts: read_contexts(&answers, &same), ..Answer::default() };
    for (context, answer) in answers.iter().filter(|(context, _)| !same.contains_key(context)) {
        match answer {
            Ok((_, data)) => {
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

/// Reads the objects of one cluster, and what contexts have in common that give the same answer: the uid of the cluster and
/// the namespace. Empty if the uid cannot be read.
async fn read(args: &GetArgs, cluster: &Cluster) -> Result<(String, GetData)> {
    let (data, uid) = futures::join!(GetData::read(cluster, args.selection()), cluster_uid(cluster));
    let namespace = if args.all_namespaces { "" } else { &*cluster.namespace };
    Ok((uid.map(|uid| format!("{uid} {namespace}")).unwrap_or_default(), data?))
}

fn read_contexts<T>(answers: &ContextAnswers<T>, same: &BTreeMap<String, String>) -> Vec<ReadContext> {
    let contexts = answers.iter().map(|(context, _)| context.clone());
    contexts.map(|context| ReadContext { same_cluster_as: same.get(&context).cloned(), context }).collect()
}

fn in_context(context: &str, gap: Gap) -> AnswerGap {
    AnswerGap { context: Some(context.to_owned()), ..gap.into() }
}
