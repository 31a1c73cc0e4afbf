//! One answer about several clusters: the rows of each with the context that they come from.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::document::{Body, ContextSummary, Filtered, InventoryDocument, SCHEMA};
use super::rows::Totals;
use crate::kubernetes::gap::{AnswerGap, Gap};

/// The answer of one cluster, or the reason why there is none.
pub(crate) type ContextAnswer = (String, Result<InventoryDocument, Gap>);

/// Joins the answers of several clusters to the same question, in their order. A cluster without an answer is a gap. A
/// cluster that several contexts name counts once, with the answer that has the fewest gaps.
///
/// Returns `None` if no cluster has an answer, or if the question is about one object.
pub fn merge(answers: Vec<ContextAnswer>, taken: DateTime<Utc>) -> Option<InventoryDocument> {
    let mut merged: Option<InventoryDocument> = None;
    let (mut contexts, mut gaps) = (vec![], vec![]);
    let read = answers.iter().filter_map(|(context, answer)| {
        let found = answer.as_ref().ok()?;
        Some((&*found.cluster.as_ref()?.uid, found.gaps.len(), &**context))
    });
    let same = same_clusters(read);
    for (context, answer) in answers {
        if let Some(other) = same.get(&context) {
            contexts.push(ContextSummary {
                context,
                same_cluster_as: Some(other.clone()),
                ..ContextSummary::default()
            });
            continue;
        }
        let mut answer = match answer {
            Ok(answer) => answer,
            Err(gap) => {
                gaps.push(AnswerGap { context: Some(context.clone()), ..gap.into() });
                contexts.push(ContextSummary { context, ..ContextSummary::default() });
                continue;
            }
        };
        gaps.extend(answer.gaps.drain(..).map(|gap| AnswerGap { context: Some(context.clone()), ..gap }));
        answer.body.set_context(&context);
        answer.beside.iter_mut().for_each(|row| row.context = Some(context.clone()));
        contexts.push(ContextSummary {
            context,
            same_cluster_as: None,
            cluster: answer.cluster.take(),
            totals: Some(answer.totals),
            scope: answer.scope.take(),
            label_report: answer.label_report.take(),
        });
        match &mut merged {
            Some(merged) => merged.add(answer)?,
            None => merged = Some(answer),
        }
    }
    let complete = !gaps.iter().any(|gap| gap.affects_answer);
    merged.map(|merged| InventoryDocument { schema: SCHEMA, contexts, taken, complete, gaps, ..merged })
}

/// Returns the contexts of a cluster that another context names too, with that context. `read` has the uid of each cluster,
/// the rank of its answer, such as the number of gaps, and its context. The answer with the lowest rank counts. A cluster without
/// a uid is one of its own.
pub fn same_clusters<'a, R: Ord>(read: impl IntoIterator<Item = (&'a str, R, &'a str)>) -> BTreeMap<String, String> {
    let mut by_uid: BTreeMap<&str, Vec<(R, &str)>> = BTreeMap::new();
    for (uid, rank, context) in read.into_iter().filter(|(uid, ..)| !uid.is_empty()) {
        by_uid.entry(uid).or_default().push((rank, context));
    }
    let mut same = BTreeMap::new();
    for contexts in by_uid.values() {
        // Of several with the same rank, `min_by` returns the first.
        let Some((_, best)) = contexts.iter().min_by(|(rank, _), (other, _)| rank.cmp(other)) else { continue };
        let others = contexts.iter().filter(|(_, context)| context != best);
        same.extend(others.map(|(_, context)| ((*context).to_owned(), (*best).to_owned())));
    }
    same
}

impl InventoryDocument {
    /// Adds the rows and numbers of another answer to the same question.
    fn add(&mut self, other: Self) -> Option<()> {
        self.totals.add(&other.totals);
        self.beside.extend(other.beside);
        self.filter = match (self.filter.take(), other.filter) {
            (Some(own), Some(other)) => {
                Some(Filtered { shown: own.shown + other.shown, hidden: own.hidden + other.hidden, ..own })
            }
            (own, other) => own.or(other),
        };
        match (&mut self.body, other.body) {
            (Body::Owners(rows), Body::Owners(more)) => rows.extend(more),
            (Body::Objects(rows), Body::Objects(more)) => rows.extend(more),
            (Body::Findings(rows), Body::Findings(more)) => rows.extend(more),
            (Body::Tree(rows), Body::Tree(more)) => rows.extend(more),
            _ => return None,
        }
        Some(())
    }
}

impl Body {
    fn set_context(&mut self, name: &str) {
        let context = Some(name.to_owned());
        match self {
            Self::Owners(rows) => rows.iter_mut().for_each(|row| row.context.clone_from(&context)),
            Self::Objects(rows) => rows.iter_mut().for_each(|row| row.owner.context.clone_from(&context)),
            Self::Findings(rows) => rows.iter_mut().for_each(|row| row.context.clone_from(&context)),
            Self::Tree(rows) => rows.iter_mut().for_each(|row| row.context.clone_from(&context)),
            Self::Explanation(_) => {}
        }
    }
}

impl Totals {
    fn add(&mut self, other: &Self) {
        let Self { objects, managed, leaked, orphaned, conflicts, copied, unknown, controlled, system, unmanaged } =
            other;
        for (own, other) in [
            (&mut self.objects, objects),
            (&mut self.managed, managed),
            (&mut self.leaked, leaked),
            (&mut self.orphaned, orphaned),
            (&mut self.conflicts, conflicts),
            (&mut self.copied, copied),
            (&mut self.unknown, unknown),
            (&mut self.controlled, controlled),
            (&mut self.system, system),
            (&mut self.unmanaged, unmanaged),
        ] {
            *own += other;
        }
    }
}
