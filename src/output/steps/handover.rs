//! Text of the steps of a handover.

use std::collections::BTreeSet;

use crate::output::document;
use crate::output::format::{Look, Part, Render};
use crate::output::markdown::escape::{fenced, sentence};
use crate::output::plan::{counts, summary};
use crate::output::text::sanitize::{escape, one_line};
use crate::output::text::wrap::wrap;
use gitops_core::flux::handover::{ClaimCopy, Handover, HandoverStep};
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::text::{join_limited, pluralize};

/// Number of objects that a line names.
const NAMED: usize = 5;
/// Spaces before the lines that continue one.
pub(crate) const CONTINUED: usize = 2;
/// Last line of steps with an incomplete plan.
pub(super) const UNKNOWN_REST: &str = "Whether something is left over is not known, because a plan is incomplete.";

impl Render for Handover {
    const PARTS: &'static [Part] = &[Part::Text, Part::Document, Part::Names, Part::Comment];

    fn text(&self, wide: bool, look: Look) -> String {
        format!("{}{}\n{}", line(&heading(self), look), text_of_steps(&self.steps, wide, look), line(&end(self), look))
    }

    /// Returns the names of the objects that are lost without the steps.
    fn names(&self) -> String {
        self.lost_at_once.iter().map(|id| document::name(id) + "\n").collect()
    }

    fn comment(&self) -> String {
        format!("**{}**\n{}\n{}\n", sentence(&heading(self)), comment_of_steps(&self.steps), sentence(&end(self)))
    }
}

/// Returns a text as a line of its own, broken where it is too wide.
pub(super) fn line(text: &str, look: Look) -> String {
    wrap(&one_line(text), 0, CONTINUED, look.width) + "\n"
}

/// Returns the steps as text: each with its patches, its plan, and how to see that it is done.
pub(crate) fn text_of_steps(steps: &[HandoverStep], wide: bool, look: Look) -> String {
    let mut text = String::new();
    for step in steps {
        text += &format!("\n{}", line(&format!("Step {}: {}", step.number, step.title), look));
        for patch in &step.patches {
            text += &escape(&patch.diff);
        }
        for command in &step.commands {
            text += &format!("$ {}\n", one_line(command));
        }
        text += &step.plan.text(wide, look);
        text += &line(&format!("Plan: {}", summary(&step.plan, true)), look);
        for command in &step.done_when {
            text += &format!("Done when: {}\n", one_line(command));
        }
        for remark in remarks(step) {
            text += &line(&remark, look);
        }
    }
    text
}

/// Returns the steps as a part of a comment.
pub(crate) fn comment_of_steps(steps: &[HandoverStep]) -> String {
    let mut comment = String::new();
    for step in steps {
        comment += &format!("\n### Step {}: {}\n\n", step.number, sentence(&step.title));
        let patches = step.patches.iter().map(|patch| ("diff", patch.diff.clone()));
        let commands = (!step.commands.is_empty()).then(|| ("sh", step.commands.join("\n") + "\n"));
        for (language, text) in patches.chain(commands) {
            comment += &fenced(language, &text);
            comment.push('\n');
        }
        comment += &format!("Plan: {}.\n\n", counts(&step.plan));
        if !step.done_when.is_empty() {
            comment += &format!("Done when:\n\n{}\n", fenced("sh", &step.done_when.join("\n")));
        }
        for remark in remarks(step) {
            comment += &format!("- {}\n", sentence(&remark));
        }
    }
    comment
}

/// Returns what the steps are for, in one line.
fn heading(handover: &Handover) -> String {
    let steps = pluralize(handover.steps.len(), "step");
    if !handover.is_complete() {
        return "It is not known whether the change moves objects with loss, because a plan is incomplete:".to_owned();
    }
    match handover.lost_at_once.len() {
        0 if handover.blocked().is_some() => {
            "The change moves no object with loss, but it blocks owners, which apply nothing of it:".to_owned()
        }
        0 if !handover.claims_to_copy.is_empty() => format!(
            "In another namespace or under another name the change makes {} anew, without the data, and no step can change that:",
            pluralize(handover.claims_to_copy.len(), "claim")
        ),
        0 if handover.alarms().next().is_some() => {
            "The change moves no object with loss, but its plan has an alarm. What it deletes does not come back:"
                .to_owned()
        }
        0 if handover.steps.iter().any(|step| step.plan.deletions().next().is_some()) => {
            "The change moves no object with loss. What it deletes does not come back:".to_owned()
        }
        0 => "The change moves no object with loss: it can be merged at once.".to_owned(),
        lost => format!(
            "Merged at once, the change deletes {} that it should keep: {}. In {steps} {} deleted:",
            pluralize(lost, "object"),
            join_limited(&handover.lost_at_once, NAMED),
            if lost == 1 { "it is not" } else { "none of them is" }
        ),
    }
}

fn remarks(step: &HandoverStep) -> impl Iterator<Item = String> {
    let notes = step.notes.iter().map(|note| format!("Note: {note}"));
    notes.chain([format!("Way back: {}", step.way_back)])
}

/// Returns the last lines: what must be copied, and what is left over, or that nothing is.
fn end(handover: &Handover) -> String {
    let copies = handover.claims_to_copy.iter().map(|ClaimCopy { from, to }| {
        format!("{to} is another claim than {from}, and empty: copy the data before {from} is deleted. ")
    });
    copies.collect::<String>() + &left_over(handover)
}

fn left_over(handover: &Handover) -> String {
    let objects = &handover.left_over;
    if objects.is_empty() && !handover.is_complete() {
        return UNKNOWN_REST.to_owned();
    }
    if objects.is_empty() {
        return "Nothing is left over.".to_owned();
    }
    let plans = handover.steps.iter().map(|step| &step.plan);
    let blocked: BTreeSet<&ObjectId> =
        plans.clone().flat_map(|plan| plan.blocked_by_finalizers()).map(|blocked| &blocked.object).collect();
    let deleted: BTreeSet<&ObjectId> = plans.flat_map(|plan| plan.deletions()).map(|row| &row.object.id).collect();
    let (stuck, others): (Vec<&ObjectId>, Vec<&ObjectId>) = objects.iter().partition(|id| blocked.contains(id));
    // What stays in one order of events is deleted in another one.
    let (racing, dropped): (Vec<&ObjectId>, Vec<&ObjectId>) = others.into_iter().partition(|id| deleted.contains(id));
    let mut text = String::from("Left over:");
    if !dropped.is_empty() {
        let pronoun = if dropped.len() == 1 { "it" } else { "them" };
        text += &format!(
            " the change drops {}, and nothing deletes {pronoun}: {}. `kubectl gitops prune --plan --include orphaned` shows what can be \
             deleted then.",
            pluralize(dropped.len(), "object"),
            join_limited(&dropped, NAMED)
        );
    }
    if !racing.is_empty() {
        text += &format!(" perhaps {}: a plan above says on what it depends.", join_limited(&racing, NAMED));
    }
    if !stuck.is_empty() {
        let stays = if stuck.len() == 1 { "stays" } else { "stay" };
        text +=
            &format!(" {} {stays} terminating until something removes the finalizers.", join_limited(&stuck, NAMED));
    }
    text
}
