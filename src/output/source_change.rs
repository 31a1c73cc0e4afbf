//! Text of a change of a Flux v1 source: what fluxd will do to each object.

use serde::Serialize;

use super::format::{Look, Part, Render};
use super::report::ReportedFinding;
use super::table::Table;
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
    let columns = ["effect", "namespace", "kind", "name", "reason"];
    let mut table = Table::new(columns.into_iter().chain(wide.then_some("uid")));
    let mut rows: Vec<&Change> = plan.changes().iter().collect();
    rows.sort_by_key(|change| place(change));
    for change in rows {
        let id = &change.object.id;
        let why = match &change.cause {
            Some(cause) => format!("deleted with {cause}"),
            None => change.reason.detail.clone(),
        };
        let mut cells = vec![
            EFFECTS[place(change)].1.to_owned(),
            id.namespace.to_string(),
            id.kind.to_string(),
            id.name.to_string(),
        ];
        cells.push(why);
        cells.extend(wide.then(|| change.object.uid.clone()));
        table.row(cells);
    }
    table
}

/// Returns the position of a change in [`EFFECTS`]. A cascaded change is a deletion.
fn place(change: &Change) -> usize {
    EFFECTS.iter().position(|(code, _)| *code == change.reason.code).unwrap_or_default()
}

/// Returns one line with the number of objects by effect.
pub fn summary(plan: &Plan) -> String {
    let count = |at: usize| plan.changes().iter().filter(|change| place(change) == at).count();
    let counts = EFFECTS.iter().enumerate().map(|(at, (_, word))| (count(at), word)).filter(|(number, _)| *number > 0);
    let parts: Vec<String> = counts.map(|(number, word)| format!("{number} {word}")).collect();
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
