//! Sentences about what could not be read: one for each group of like gaps.

use super::text::prose::Prose;
use gitops_core::kubernetes::gap::{AnswerGap, DRY_RUNS, GapGroup};
use gitops_core::text::pluralize;

/// Number of types that a line names.
pub(crate) const NAMED: usize = 3;

/// Returns what could not be read: the message of a gap that is alone, and else the cause of all with some of their names.
pub(crate) fn sentence(group: &GapGroup<'_>, named: usize) -> Prose {
    if !group.others.is_empty() {
        return unread(group, named);
    }
    let gap = &group.first.gap;
    Prose::default().foreign(format!("{}{}", gap.subject, place(group.first))).own(": ").foreign(&gap.message)
}

/// Returns the number or the name of the types of a group, and the cause.
pub(crate) fn unread(group: &GapGroup<'_>, named: usize) -> Prose {
    let first = group.first;
    let subjects: Vec<&str> = group.subjects().collect();
    let begun = Prose::from(if first.is_of_dry_runs() { DRY_RUNS } else { "" });
    let place = place(first);
    let what = match &subjects[..] {
        [one] => begun.foreign(format!("{one}{place}")),
        several => begun.own(pluralize(several.len(), "type")).foreign_after(" ", place.trim_start()),
    };
    let cause = format!(" could not be read ({}", first.gap.kind.cause());
    let part_read = first.gap.part_read().unwrap_or_default();
    let mut text = what.own(cause).foreign_after("; read in ", part_read).own(")");
    if subjects.len() > 1 {
        for (number, subject) in subjects.iter().take(named).enumerate() {
            text = text.own(if number == 0 { ": " } else { ", " }).foreign(subject);
        }
    }
    if subjects.len() > named { text.own(", …") } else { text }
}

/// Returns the namespace and the context or the recording of a gap, where it has any.
pub(crate) fn place(AnswerGap { context, is_recorded, gap, .. }: &AnswerGap) -> String {
    let mut place = String::new();
    let cluster = if *is_recorded { "recording" } else { "context" };
    for (what, name) in [("namespace", gap.namespace.as_deref()), (cluster, context.as_deref())] {
        place.extend(name.map(|name| format!(" in {what} {name}")));
    }
    place
}
