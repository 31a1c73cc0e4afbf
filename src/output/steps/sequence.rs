//! Plans of several steps as text and as a comment: each plan, then what all of them lose.

use crate::output::document;
use crate::output::format::{Look, Part, Render};
use crate::output::markdown;
use crate::output::markdown::escape::span;
use crate::output::plan::{counts, summary as summary_of_plan};
use crate::output::text::sanitize::one_line;
use crate::output::text::table::Columns;
use gitops_core::plan::sequence::{LostObject, Sequence};
use gitops_core::text::pluralize;

impl Render for Sequence {
    const PARTS: &'static [Part] = &[Part::Text, Part::Document, Part::Names, Part::Comment];

    fn text(&self, wide: bool, look: Look) -> String {
        let mut text = String::new();
        for step in &self.steps {
            text += &format!("Step {}: {}\n", step.number, one_line(&step.title));
            text += &step.plan.text(wide, look);
            text += &format!("{}\n\n", summary_of_plan(&step.plan, true));
        }
        text + &summary(self) + "\n" + &lost_table(self, look)
    }

    /// Returns the names of the objects that a step deletes.
    fn names(&self) -> String {
        self.lost.iter().map(|lost| document::name(&lost.object) + "\n").collect()
    }

    fn comment(&self) -> String {
        let mut comment = format!("**{}**\n\n", summary(self));
        if !self.lost.is_empty() {
            comment += "| object | deleted in | created again in | not restored |\n|---|---|---|---|\n";
        }
        for lost in self.lost.iter().take(LISTED) {
            let (object, [deleted, created, not_restored]) = (span(&lost.object.to_string()), cells(lost));
            comment += &format!("| {object} | {deleted} | {created} | {not_restored} |\n");
        }
        if let Some(more) = gitops_core::text::and_more(self.lost.len(), LISTED) {
            comment += &format!("\n{more}\n");
        }
        let room = (markdown::LIMIT.saturating_sub(comment.len())) / self.steps.len().max(1);
        for step in &self.steps {
            let head = format!("\n<details><summary>Step {}: {}</summary>\n\n", step.number, counts(&step.plan));
            let plan = markdown::render(&step.plan);
            let whole = format!("{head}{plan}\n</details>\n");
            comment += &if whole.len() <= room {
                whole
            } else {
                format!("{head}Left out here: `-o json` has it.\n\n</details>\n")
            };
        }
        comment
    }
}

/// Number of lost objects that a comment lists.
const LISTED: usize = 50;

/// Returns what all steps together lose, in one line.
pub(crate) fn summary(sequence: &Sequence) -> String {
    let lost = sequence.lost.len();
    let back = sequence.lost.iter().filter(|lost| lost.created_again_in.is_some()).count();
    let steps = pluralize(sequence.steps.len(), "step");
    if lost == 0 && !sequence.is_complete() {
        return format!("{steps}: a plan is incomplete, so it is not known what is deleted");
    }
    if lost == 0 {
        return format!("{steps}: no object that exists now is deleted");
    }
    let deleted = format!("{steps}: {} deleted", pluralize(lost, "object"));
    match back {
        0 => deleted,
        _ => format!("{deleted}, {back} of them created again, without what the old ones had"),
    }
}

fn cells(lost: &LostObject) -> [String; 3] {
    let deleted = format!("step {}{}", lost.deleted_in, certainty(lost));
    let created = match lost.created_again_in {
        Some(number) => format!("step {number}"),
        None if lost.may_come_back => format!("perhaps step {}", lost.deleted_in),
        None => "never".to_owned(),
    };
    [deleted, created, lost.not_restored.join(", ")]
}

fn certainty(lost: &LostObject) -> &'static str {
    match lost.certainty {
        gitops_core::plan::Certainty::Certain => "",
        gitops_core::plan::Certainty::Race => " (race)",
    }
}

fn lost_table(sequence: &Sequence, look: Look) -> String {
    if sequence.lost.is_empty() {
        return String::new();
    }
    let table = Columns::new()
        .with("object", |lost: &LostObject| lost.object.to_string())
        .with("deleted in", |lost| cells(lost)[0].clone())
        .with("created again in", |lost| cells(lost)[1].clone())
        .with("not restored", |lost| cells(lost)[2].clone())
        .table(&sequence.lost);
    table.render(look)
}
