//! How the change of a Flux v1 source looks: what fluxd will do to each object, in the words of its documentation.

use super::plan::PlanFormat;
use super::table::Table;
use crate::error::Result;
use gitops_core::plan::{Change, Plan, ReasonCode};

/// The word for what no sync ever finds again.
const MISSED: &str = "never found again";

/// Codes of reasons with their words, gravest first.
const EFFECTS: [(ReasonCode, &str); 6] = [
    (ReasonCode::NotInManifests, "deleted"),
    (ReasonCode::LeftBehind, MISSED),
    (ReasonCode::NotApplied, "not relabelled"),
    (ReasonCode::Spared, "spared"),
    (ReasonCode::Created, "created"),
    (ReasonCode::Relabelled, "relabelled"),
];

/// The preview in the form asked for; documents and names are those of any plan.
///
/// # Errors
/// As for any plan.
pub fn render(plan: &Plan, format: PlanFormat, header: bool) -> Result<String> {
    match format {
        PlanFormat::Table | PlanFormat::Wide => Ok(table(plan, format == PlanFormat::Wide, header)),
        _ => super::plan::render(plan, format, header),
    }
}

fn table(plan: &Plan, wide: bool, header: bool) -> String {
    if plan.changes().is_empty() {
        return String::new();
    }
    let columns = ["effect", "namespace", "kind", "name", "reason"];
    let mut table = Table::new(columns.into_iter().chain(wide.then_some("uid")));
    let mut rows: Vec<&Change> = plan.changes().iter().collect();
    rows.sort_by_key(|change| place(change));
    for change in rows {
        let id = &change.object.id;
        let why = match &change.cause {
            Some(cause) => format!("goes with {cause}"),
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
    table.render(header)
}

/// Where a change stands in [`EFFECTS`]; what goes in a cascade is deleted.
fn place(change: &Change) -> usize {
    EFFECTS.iter().position(|(code, _)| *code == change.reason.code).unwrap_or_default()
}

/// One line that says what a preview comes to.
pub fn summary(plan: &Plan) -> String {
    let count = |at: usize| plan.changes().iter().filter(|change| place(change) == at).count();
    let counts = EFFECTS.iter().enumerate().map(|(at, (_, word))| (count(at), word)).filter(|(number, _)| *number > 0);
    let parts: Vec<String> = counts.map(|(number, word)| format!("{number} {word}")).collect();
    let text = if parts.is_empty() { "nothing changes".to_owned() } else { parts.join(", ") };
    if plan.is_complete() { text } else { format!("{text}; the preview is incomplete") }
}

/// What a person can do for objects that fluxd never finds again.
pub fn advice(plan: &Plan) -> Option<&'static str> {
    let missed = plan.changes().iter().any(|change| EFFECTS[place(change)].1 == MISSED);
    missed.then_some("hint: once fluxd has the new source, `prune --by flux-v1` with the old source and these manifests deletes what is missed")
}
