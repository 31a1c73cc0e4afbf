//! One answer about several clusters: the rows of each with the context that they come from.

use chrono::{DateTime, Utc};

use super::document::{Body, ContextSummary, Filtered, InventoryDocument, SCHEMA, Totals};
use crate::kubernetes::gap::{AnswerGap, Gap};

/// The answer of one cluster, or the reason why there is none.
pub(crate) type ContextAnswer = (String, Result<InventoryDocument, Gap>);

/// Joins the answers of several clusters to the same question, in their order. A cluster without an answer is a gap.
///
/// Returns `None` if no cluster has an answer, or if the question is about one object.
pub fn merge(answers: Vec<ContextAnswer>, taken: DateTime<Utc>) -> Option<InventoryDocument> {
    let mut merged: Option<InventoryDocument> = None;
    let (mut contexts, mut gaps) = (vec![], vec![]);
    for (context, answer) in answers {
        let mut answer = match answer {
            Ok(answer) => answer,
            Err(gap) => {
                gaps.push(AnswerGap { context: Some(context.clone()), gap });
                contexts.push(ContextSummary { context, ..ContextSummary::default() });
                continue;
            }
        };
        gaps.extend(answer.gaps.drain(..).map(|gap| AnswerGap { context: Some(context.clone()), ..gap }));
        answer.body.set_context(&context);
        contexts.push(ContextSummary {
            context,
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
    let complete = gaps.is_empty();
    merged.map(|merged| InventoryDocument { schema: SCHEMA, contexts, taken, complete, gaps, ..merged })
}

impl InventoryDocument {
    /// Adds the rows and numbers of another answer to the same question.
    fn add(&mut self, other: Self) -> Option<()> {
        self.totals.add(&other.totals);
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
