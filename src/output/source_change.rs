//! Text of a change of a Flux v1 source: what fluxd will do to each object.

use serde::Serialize;

use super::format::{Look, Part, Render};
use super::report::ReportedFinding;
use super::text::table::{Columns, Table};
use gitops_core::plan::{Change, FinishedPlan, Plan, ReasonCode};

/// Effect on an object that no later sync finds.
const MISSED: &str = "never found again";

/// Codes of reasons with their effects, most severe first.
const EFFECTS: [(ReasonCode, &str); 6] = [
    (ReasonCode::NotInManifests, "deleted"),
    (ReasonCode::LeftBehind, MISSED),
    (ReasonCode::NotApplied, "not relabelled"),
    (ReasonCode::Spared, "spared"),
    (ReasonCode::Created, "created"),
    (ReasonCode::Relabelled, "relabelled"),
];

/// A plan of what fluxd will do, with a table of its effects.
#[derive(Serialize)]
#[serde(transparent)]
pub struct SourceChange<'a>(pub &'a FinishedPlan);

impl Render for SourceChange<'_> {
    const PARTS: &'static [Part] = FinishedPlan::PARTS;

    fn text(&self, wide: bool, look: Look) -> String {
        if self.0.changes().is_empty() { String::new() } else { table(self.0, wide).render(look) }
    }

    fn names(&self) -> String {
        self.0.names()
    }

    fn comment(&self) -> String {
        self.0.comment()
    }

    fn page(&self) -> String {
        self.0.page()
    }

    fn findings(&self) -> Vec<ReportedFinding> {
        self.0.findings()
    }
}

fn table(plan: &Plan, wide: bool) -> Table {
    let mut rows: Vec<&Change> = plan.changes().iter().collect();
    rows.sort_by_key(|change| place(change));
    Columns::new()
        .with("effect", |change: &&Change| EFFECTS[place(change)].1.to_owned())
        .with("namespace", |change| change.object.id.namespace.to_string())
        .with("kind", |change| change.object.id.kind.to_string())
        .with("name", |change| change.object.id.name.to_string())
        .with("reason", |change| match &change.cause {
            Some(cause) => format!("deleted with {cause}"),
            None => change.reason.text(),
        })
        .with_if(wide, "uid", |change| change.object.uid.clone())
        .table(&rows)
}

/// Returns the position of a change in [`EFFECTS`]. A cascaded change is a deletion.
fn place(change: &Change) -> usize {
    EFFECTS.iter().position(|(code, _)| *code == change.reason.code).unwrap_or_default()
}

/// Returns one line with the number of objects by effect.
pub fn summary(plan: &Plan) -> String {
    let mut counts = EFFECTS.map(|(_, word)| (0, word));
    plan.changes().iter().for_each(|change| counts[place(change)].0 += 1);
    let positive = counts.iter().filter(|(number, _)| *number > 0);
    let parts: Vec<String> = positive.map(|(number, word)| format!("{number} {word}")).collect();
    let text = if parts.is_empty() { "nothing changes".to_owned() } else { parts.join(", ") };
    if plan.is_complete() { text } else { format!("{text}; the preview is incomplete") }
}

/// Returns advice about objects that fluxd never finds again.
pub fn advice(plan: &Plan) -> Option<&'static str> {
    let missed = plan.changes().iter().any(|change| EFFECTS[place(change)].1 == MISSED);
    missed.then_some(
        "once fluxd has the new source, `prune flux-v1` with the old source and these manifests deletes what is missed",
    )
}
