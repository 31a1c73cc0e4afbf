//! Contradictions between the parts of one plan: outcomes of owners, rows and causes.
//!
//! Each part is computed on its own way, and a reader takes them together. So tests refuse a plan whose parts do not agree.

use std::collections::{BTreeMap, BTreeSet};

use super::{Action, Actor, Certainty, Change, Outcome, Plan, ReasonCode};
use crate::kubernetes::object::ObjectId;
use crate::text::pluralize;

/// Returns what contradicts itself in a plan, one sentence for each.
pub fn contradictions(plan: &Plan) -> Vec<String> {
    let mut rows: BTreeMap<&ObjectId, Vec<&Change>> = BTreeMap::new();
    for row in plan.changes() {
        rows.entry(&row.object.id).or_default().push(row);
    }
    let mut found = vec![];
    for (id, same) in &rows {
        if same.len() > 1 {
            found.push(format!("{id} has {} rows", same.len()));
        }
    }
    found.extend(plan.changes().iter().filter_map(|row| kept_in_deleted_namespace(row, &rows)));
    found.extend(plan.changes().iter().filter_map(|row| missing_cause(row, plan, &rows)));
    found.extend(plan.changes().iter().filter_map(untold_race));
    found.extend(plan.changes().iter().filter_map(|row| created_in_deleted_namespace(row, &rows)));
    found.extend(untrue_outcomes(plan));
    found.extend(deletions_without_row(plan, &rows));
    found
}

/// Returns a contradiction if a race does not say what it depends on, or a certain row depends on something.
fn untold_race(row: &Change) -> Option<String> {
    let (id, conditions) = (&row.object.id, &row.reason.conditions);
    if row.certainty == Certainty::Certain {
        return conditions.first().map(|condition| format!("{id} is certain, and has a condition: {condition}"));
    }
    let is_told = !conditions.is_empty()
        && conditions.iter().all(|condition| !condition.trim().is_empty() && condition.trim_end() == condition);
    let is_unread = row.action == Action::Unknown;
    (!is_unread && !is_told).then(|| format!("{id} is a race that does not say what it depends on: {}", row.reason))
}

/// Returns a contradiction if an object is certainly created in a namespace that is certainly deleted for good.
fn created_in_deleted_namespace(row: &Change, rows: &BTreeMap<&ObjectId, Vec<&Change>>) -> Option<String> {
    let id = &row.object.id;
    let is_created = matches!(row.action, Action::Create | Action::Recreate) && row.certainty == Certainty::Certain;
    if !is_created || id.namespace.is_empty() {
        return None;
    }
    let namespace = id.namespace_object();
    let same = rows.get(&namespace)?;
    let is_deleted = same.iter().any(|row| row.action == Action::Delete && row.certainty == Certainty::Certain);
    is_deleted.then(|| format!("{id} is created, and {namespace} is deleted"))
}

/// Returns the owners that are deleted by their outcome and have no row.
fn deletions_without_row(plan: &Plan, rows: &BTreeMap<&ObjectId, Vec<&Change>>) -> Vec<String> {
    let deleted = plan.owners().iter().filter(|row| row.outcome == Outcome::Deleted);
    let missing = deleted.filter(|row| !rows.keys().any(|id| row.owner.is_object(id)));
    missing.map(|row| format!("{} is deleted, and has no row", row.owner)).collect()
}

/// Returns a contradiction if an object stays and its namespace does not. What the namespace controller may not delete keeps it
/// terminating, as finalizers do.
fn kept_in_deleted_namespace(row: &Change, rows: &BTreeMap<&ObjectId, Vec<&Change>>) -> Option<String> {
    let id = &row.object.id;
    let is_held = row.by == Actor::NamespaceController && row.reason.code == ReasonCode::DeletionRefused;
    if row.action != Action::Keep || id.namespace.is_empty() || is_held {
        return None;
    }
    let namespace = id.namespace_object();
    let deleted = rows.get(&namespace)?.iter().any(|row| row.is_deletion() && row.certainty == Certainty::Certain);
    deleted.then(|| format!("{id} is kept, and {namespace} is deleted"))
}

/// Returns a contradiction if the cause of a row is neither a row nor an owner.
fn missing_cause(row: &Change, plan: &Plan, rows: &BTreeMap<&ObjectId, Vec<&Change>>) -> Option<String> {
    let cause = row.cause.as_ref()?;
    let is_owner = plan.owners().iter().map(|row| &row.owner).any(|owner| {
        (&*owner.kind, &*owner.namespace, &*owner.name) == (&*cause.kind, &*cause.namespace, &*cause.name)
    });
    (!is_owner && !rows.contains_key(cause))
        .then(|| format!("{} is deleted because of {cause}, which has no row", row.object.id))
}

/// Returns the owners that delete nothing by their outcome and have certain deletions of their own.
fn untrue_outcomes(plan: &Plan) -> Vec<String> {
    let deleting: BTreeSet<_> = certain_deletions(plan).filter_map(|row| row.owner.as_ref()).collect();
    let silent = plan.owners().iter().filter(|row| row.outcome == Outcome::Blocked && deleting.contains(&row.owner));
    let untrue =
        silent.filter(|row| !row.reason.detail.contains(DELETED_BEFORE) && row.reason.code != ReasonCode::PruneRefused);
    untrue.map(|row| format!("{} is blocked, and deletes objects: {}", row.owner, row.reason)).collect()
}

/// Words of the outcome of a blocked owner that deletes objects all the same.
const DELETED_BEFORE: &str = "deleted all the same";

/// Adds to the outcome of each blocked owner what its runs certainly delete before the one that fails.
pub(crate) fn say_what_blocked_owners_delete(plan: &mut Plan) {
    let mut deletions: BTreeMap<_, usize> = BTreeMap::new();
    for owner in certain_deletions(plan).filter_map(|row| row.owner.clone()) {
        *deletions.entry(owner).or_default() += 1;
    }
    if deletions.is_empty() {
        return;
    }
    plan.update_owners(|row| {
        let Some(count) = deletions.get(&row.owner).filter(|_| row.outcome == Outcome::Blocked) else { return };
        let verb = if *count == 1 { "is" } else { "are" };
        row.reason.add_detail(&format!("{} {verb} {DELETED_BEFORE}", pluralize(*count, "object")));
    });
}

/// Returns the deletions in their own right that happen in every order of events.
fn certain_deletions(plan: &Plan) -> impl Iterator<Item = &Change> {
    plan.deletions().filter(|row| row.certainty == Certainty::Certain && row.cause.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::snapshot::ClusterIdentity;
    use crate::ownership::OwnerId;
    use crate::plan::{Actor, OwnerOutcome, PinnedObject};

    fn row(action: Action, kind: &str, namespace: &str, name: &str) -> Change {
        let object = PinnedObject::absent(ObjectId::new("", kind, namespace, name));
        Change::new(action, object, Some(owner()), Actor::KustomizeController, ReasonCode::NotInBuild)
    }

    fn owner() -> OwnerId {
        OwnerId::new("flux", "Kustomization", "flux-system", "apps")
    }

    fn plan(rows: Vec<Change>, outcome: Outcome) -> Plan {
        let mut plan = Plan::new(ClusterIdentity::default());
        plan.add_owners([OwnerOutcome::new(owner(), outcome, ReasonCode::ApplyRefused)]);
        plan.add_changes(rows);
        plan
    }

    #[test]
    fn rows_that_do_not_agree_are_found() {
        let kept = || row(Action::Keep, "ConfigMap", "shop", "a");
        assert_eq!(contradictions(&plan(vec![kept()], Outcome::Applies)), [""; 0]);
        let namespace = row(Action::Delete, "Namespace", "", "shop");
        let found = contradictions(&plan(vec![kept(), namespace], Outcome::Applies));
        assert_eq!(found, ["configmap/a -n shop is kept, and namespace/shop is deleted"]);
        assert_eq!(contradictions(&plan(vec![kept(), kept()], Outcome::Applies)), ["configmap/a -n shop has 2 rows"]);
        let cause = Some(ObjectId::new("", "Namespace", "", "shop"));
        let caused = Change { cause, ..row(Action::Delete, "ConfigMap", "shop", "a") };
        let found = contradictions(&plan(vec![caused], Outcome::Applies));
        assert_eq!(found, ["configmap/a -n shop is deleted because of namespace/shop, which has no row"]);
    }

    #[test]
    fn a_race_says_what_it_depends_on_and_nothing_else_does() {
        let mut race = row(Action::Delete, "ConfigMap", "shop", "a");
        race.reason.conditions = vec!["it may be refused after x".to_owned()];
        let found = contradictions(&plan(vec![race.clone()], Outcome::Applies));
        assert_eq!(found, ["configmap/a -n shop is certain, and has a condition: it may be refused after x"]);
        race.certainty = Certainty::Race;
        assert_eq!(contradictions(&plan(vec![race.clone()], Outcome::Applies)), [""; 0]);
        for conditions in [vec![], vec![String::new()], vec!["it may be refused after ".to_owned()]] {
            race.reason.conditions = conditions;
            let found = contradictions(&plan(vec![race.clone()], Outcome::Applies));
            assert!(found[0].contains("does not say what it depends on"), "{found:?}");
        }
    }

    #[test]
    fn an_object_of_a_deleted_namespace_and_a_deleted_owner_without_a_row_are_found() {
        let namespace = row(Action::Delete, "Namespace", "", "shop");
        let created = row(Action::Create, "ConfigMap", "shop", "a");
        let found = contradictions(&plan(vec![namespace, created], Outcome::Applies));
        assert_eq!(found, ["configmap/a -n shop is created, and namespace/shop is deleted"]);
        let found = contradictions(&plan(vec![], Outcome::Deleted));
        assert_eq!(found, ["kustomization/apps -n flux-system is deleted, and has no row"]);
    }

    #[test]
    fn a_blocked_owner_says_what_it_deletes_all_the_same() {
        let mut blocked = plan(vec![row(Action::Delete, "ConfigMap", "shop", "a")], Outcome::Blocked);
        assert_eq!(contradictions(&blocked).len(), 1);
        say_what_blocked_owners_delete(&mut blocked);
        assert_eq!(contradictions(&blocked), [""; 0]);
        assert_eq!(blocked.owners()[0].reason.detail, "1 object is deleted all the same");
    }
}
