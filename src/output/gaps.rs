//! Sentences about what could not be read: one for each group of like gaps.

use super::text::prose::Prose;
use gitops_core::kubernetes::gap::{AnswerGap, DRY_RUNS, GapGroup};
use gitops_core::text::{and_more, pluralize};

/// Number of types that a line names.
pub(crate) const NAMED: usize = 3;

/// Returns what could not be read: the message of a gap that is alone, and else the cause of all with some of their names.
pub(crate) fn sentence(group: &GapGroup<'_>, named: usize) -> Prose {
    if !group.others.is_empty() {
        return unread(group, named);
    }
    let gap = &group.first.gap;
    Prose::default().foreign(subject(group.first)).own(": ").foreign(&gap.message)
}

/// Returns the number or the name of the types of a group, and the cause; or what one message is about, and the message.
pub(crate) fn unread(group: &GapGroup<'_>, named: usize) -> Prose {
    let first = group.first;
    if group.has_one_message() && !group.others.is_empty() {
        let more = and_more(group.others.len() + 1, named).map(|more| format!(" {more}")).unwrap_or_default();
        let message = &first.gap.message;
        let predicate = format!(" {}: ", first.gap.predicate(group.others.len() + 1));
        return list(group.gaps().map(subject), named).own(more).own(predicate).foreign(message);
    }
    let subjects: Vec<&str> = group.subjects().collect();
    let begun = Prose::from(if first.is_of_dry_runs() { DRY_RUNS } else { "" });
    let place = place(first);
    let what = match &subjects[..] {
        [one] => begun.foreign(format!("{one}{place}")),
        several => begun.own(pluralize(several.len(), "type")).foreign_after(" ", place.trim_start()),
    };
    let cause = format!(" could not be read ({}", first.gap.kind.cause());
    let part_read = first.gap.part_read().unwrap_or_default();
    let text = what.own(cause).foreign_after("; read in ", part_read).own(")");
    if subjects.len() == 1 {
        return text;
    }
    let names = list(subjects.iter().map(|subject| (*subject).to_owned()), named);
    let text = names.parts().iter().fold(text.own(": "), |text, part| text.part(part.clone()));
    if subjects.len() > named { text.own(", …") } else { text }
}

/// Returns the first names of a list, with commas.
fn list(names: impl Iterator<Item = String>, named: usize) -> Prose {
    names
        .take(named)
        .enumerate()
        .fold(Prose::default(), |text, (number, name)| text.own(if number == 0 { "" } else { ", " }).foreign(name))
}

/// Returns what a gap is about, with its place.
fn subject(gap: &AnswerGap) -> String {
    format!("{}{}", gap.gap.subject, place(gap))
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
