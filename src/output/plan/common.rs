//! The reason and the conditions of races that several rows of one owner have, so that a plan for people says them once.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::groups::NestedRow;
use gitops_core::plan::{Action, Certainty, Change, Reason, ReasonCode};

/// Action and code of rows that are races.
type Sort = (Action, ReasonCode);

/// The reason and the conditions that several rows of one owner have.
#[derive(Default)]
pub(crate) struct Common<'p> {
    /// Reason of most deletions, or else of most rows, without the conditions.
    pub(crate) reason: Option<Reason>,
    conditions: Vec<Condition<'p>>,
}

/// A condition of several rows.
struct Condition<'p> {
    text: &'p str,
    /// Sorts of races of which each row has it.
    sorts: BTreeSet<Sort>,
    /// All races have it.
    is_of_all: bool,
}

impl<'p> Common<'p> {
    /// Returns what the rows that stand below no other one have in common.
    pub(crate) fn of(rows: &[NestedRow<'p>]) -> Self {
        let own = rows.iter().filter(|row| row.depth == 0).map(|row| row.change);
        let mut common = Self { reason: None, conditions: conditions(own.clone()) };
        let (deletions, others): (Vec<_>, Vec<_>) = own.partition(|change| change.is_deletion());
        common.reason = common.most_common(&deletions).or_else(|| common.most_common(&others));
        common
    }

    /// Returns the conditions with the races that have them: `condition of delete? (not-in-chart)`, `it stays if …`.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (String, &'p str)> {
        self.conditions.iter().map(|Condition { text, sorts, is_of_all }| {
            let label = if *is_of_all {
                "condition".to_owned()
            } else {
                let races: Vec<_> = sorts.iter().map(|(action, code)| format!("{action}? ({code})")).collect();
                format!("condition of {}", races.join(", "))
            };
            (label, *text)
        })
    }

    /// Returns the reason of a row without the conditions that it has in common with others.
    pub(crate) fn own_reason(&self, row: &NestedRow<'_>) -> Reason {
        if row.depth == 0 { self.without_conditions(row.change) } else { row.change.reason.clone() }
    }

    fn without_conditions(&self, change: &Change) -> Reason {
        let sort = sort(change);
        let of_sort = self.conditions.iter().filter(|said| said.sorts.contains(&sort));
        let said: Vec<&str> = of_sort.map(|said| said.text).collect();
        let mut own = change.reason.clone();
        own.conditions.retain(|condition| !said.contains(&condition.as_str()));
        own
    }

    fn most_common(&self, changes: &[&Change]) -> Option<Reason> {
        let mut numbers: BTreeMap<Reason, usize> = BTreeMap::new();
        changes.iter().filter(|change| change.cause.is_none()).for_each(|change| {
            *numbers.entry(self.without_conditions(change)).or_default() += 1;
        });
        let (reason, number) = numbers.into_iter().max_by_key(|(reason, number)| (*number, Reverse(reason.clone())))?;
        (number > 1).then_some(reason)
    }
}

fn sort(change: &Change) -> Sort {
    (change.action, change.reason.code)
}

/// Returns the conditions that several races have, each with the sorts of races of which every one has it.
fn conditions<'p>(rows: impl Iterator<Item = &'p Change> + Clone) -> Vec<Condition<'p>> {
    let races = rows.filter(|change| change.certainty == Certainty::Race);
    let mut sorts: BTreeMap<Sort, usize> = BTreeMap::new();
    let mut found: BTreeMap<&str, BTreeMap<Sort, usize>> = BTreeMap::new();
    for change in races {
        *sorts.entry(sort(change)).or_default() += 1;
        let own: BTreeSet<&str> = change.reason.conditions.iter().map(String::as_str).collect();
        for text in own {
            *found.entry(text).or_default().entry(sort(change)).or_default() += 1;
        }
    }
    let common = found.into_iter().filter_map(|(text, numbers)| {
        let whole: BTreeMap<Sort, usize> =
            numbers.into_iter().filter(|(sort, number)| sorts[sort] == *number).collect();
        let is_of_several = whole.values().sum::<usize>() > 1;
        let is_of_all = whole.len() == sorts.len();
        is_of_several.then(|| Condition { text, sorts: whole.into_keys().collect(), is_of_all })
    });
    common.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gitops_core::kubernetes::object::ObjectId;
    use gitops_core::plan::{Actor, PinnedObject};

    fn race(action: Action, code: ReasonCode, detail: &str, conditions: &[&str]) -> Change {
        let object = PinnedObject::absent(ObjectId::new("", "ConfigMap", "shop", "a"));
        let mut row = Change::new(action, object, None, Actor::HelmController, Reason::new(code, detail));
        row.reason.conditions = conditions.iter().map(|&condition| condition.to_owned()).collect();
        Change { certainty: Certainty::Race, ..row }
    }

    /// Returns the lines of the conditions, the common reason, and what is left of each detail.
    fn common(changes: &[Change]) -> (Vec<String>, Option<String>, Vec<String>) {
        let rows: Vec<NestedRow<'_>> =
            changes.iter().map(|change| NestedRow { change, depth: 0, condition: None }).collect();
        let common = Common::of(&rows);
        let lines = common.lines().map(|(label, text)| format!("{label}: {text}")).collect();
        let left = rows.iter().map(|row| common.own_reason(row).text()).collect();
        (lines, common.reason.map(|reason| reason.to_string()), left)
    }

    #[test]
    fn a_condition_of_all_races_is_said_once() {
        let stays = "it stays if the upgrade fails";
        let (lines, reason, left) = common(&[
            race(Action::Delete, ReasonCode::NotInChart, "", &[stays]),
            race(Action::Delete, ReasonCode::NotInChart, "", &[stays, "x; race: y"]),
            race(Action::Delete, ReasonCode::NotInChart, "", &[stays]),
            race(Action::Recreate, ReasonCode::Hook, "each upgrade; does", &[stays]),
        ]);
        assert_eq!(lines, ["condition: it stays if the upgrade fails"]);
        assert_eq!(reason.as_deref(), Some("not-in-chart"));
        assert_eq!(left, ["", "race: x; race: y", "", "each upgrade; does"]);
    }

    #[test]
    fn a_condition_of_some_races_names_them_and_others_keep_their_own() {
        let (lines, _, left) = common(&[
            race(Action::Delete, ReasonCode::NotInChart, "", &["a"]),
            race(Action::Recreate, ReasonCode::Hook, "", &["a"]),
            race(Action::Delete, ReasonCode::Remedied, "", &["b"]),
            race(Action::Create, ReasonCode::InChart, "", &["c"]),
            race(Action::Create, ReasonCode::InChart, "", &[]),
        ]);
        assert_eq!(lines, ["condition of delete? (not-in-chart), recreate? (hook): a"]);
        assert_eq!(left, ["", "", "race: b", "race: c", ""]);
    }
}
