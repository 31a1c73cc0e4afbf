//! Text of the steps of a removal.

use super::handover::{UNKNOWN_REST, comment_of_steps, line, text_of_steps};
use crate::output::document;
use crate::output::format::{Look, Part, Render};
use crate::output::markdown::escape::sentence;
use gitops_core::flux::retire::{ClaimFate, Retirement};
use gitops_core::text::{join_limited, pluralize};

/// Number of objects that a line names.
const NAMED: usize = 5;

impl Render for Retirement {
    const PARTS: &'static [Part] = &[Part::Text, Part::Document, Part::Names, Part::Comment];

    fn text(&self, wide: bool, look: Look) -> String {
        let data: String = self.data.iter().map(|lost| line(&fate(lost), look)).collect();
        let steps = text_of_steps(&self.steps, wide, look);
        format!("{}{data}{steps}\n{}", line(&heading(self), look), line(&end(self), look))
    }

    /// Returns the names of the objects that the steps delete.
    fn names(&self) -> String {
        let deletions = self.steps.iter().flat_map(|step| step.plan.deletions());
        deletions.map(|change| document::name(&change.object.id) + "\n").collect()
    }

    fn comment(&self) -> String {
        let data: String = self.data.iter().map(|data| format!("- {}\n", sentence(&fate(data)))).collect();
        let steps = comment_of_steps(&self.steps);
        format!("**{}**\n\n{data}{steps}\n{}\n", sentence(&heading(self)), sentence(&end(self)))
    }
}

fn heading(retirement: &Retirement) -> String {
    let deleted: usize = retirement.steps.iter().map(|step| step.plan.deletions().count()).sum();
    let owners = &retirement.owners;
    let named = if owners.is_empty() { String::new() } else { format!(" with {}", join_limited(owners, NAMED)) };
    let steps = pluralize(retirement.steps.len(), "step");
    let verb = if retirement.steps.len() == 1 { "deletes" } else { "delete" };
    format!("{steps} {verb} {}{named}, in an order in which nothing is stuck:", pluralize(deleted, "object"))
}

/// Returns what becomes of the data of a claim, in one line.
fn fate(fate: &ClaimFate) -> String {
    let volume = fate.volume.as_ref().map(|volume| format!(" in {volume}")).unwrap_or_default();
    let verb = if fate.loses_data { "may be lost" } else { "remains" };
    let deleted = join_limited(&fate.deleted_snapshots, NAMED);
    let snapshots = match (&fate.snapshots[..], &fate.deleted_snapshots[..]) {
        ([], []) => "no VolumeSnapshot is in its namespace".to_owned(),
        ([], _) => format!("no VolumeSnapshot in its namespace stays; deleted too: {deleted}"),
        (found, []) => format!("in its namespace: {}", join_limited(found, NAMED)),
        (found, _) => format!("in its namespace: {}; deleted too: {deleted}", join_limited(found, NAMED)),
    };
    format!("Data of {}{volume} {verb} in step {} ({}); {snapshots}.", fate.claim, fate.step, fate.reason)
}

/// Returns the last lines: what nothing uses any more, what stays without objects, and what is left over, or that
/// nothing is.
fn end(retirement: &Retirement) -> String {
    let (sources, emptied) = (&retirement.unused_sources, &retirement.emptied_owners);
    let unused = join_limited(sources, NAMED);
    let unused = if sources.is_empty() { String::new() } else { format!("Nothing uses {unused} any more. ") };
    let (verb, pronoun) = if emptied.len() == 1 { ("stays", "it") } else { ("stay", "them") };
    let names = join_limited(emptied, NAMED);
    let without_objects = format!("{names} {verb}, without objects: to remove {pronoun}, name {pronoun} too. ");
    unused + if emptied.is_empty() { "" } else { &without_objects } + &left_over(retirement)
}

fn left_over(retirement: &Retirement) -> String {
    let objects = &retirement.left_over;
    if objects.is_empty() && !retirement.is_complete() {
        return UNKNOWN_REST.to_owned();
    }
    if objects.is_empty() {
        return "Nothing is left over, as `kubectl gitops inventory --leaked` and `kubectl gitops inventory --orphaned` show then.".to_owned();
    }
    let named = join_limited(objects, NAMED);
    format!("Left over: {} that no step deletes: {named}.", pluralize(objects.len(), "object"))
}
