//! The alarm over what Flux will delete: limits as for our own deletions, in words understood in two seconds.
//!
//! Source: design 3.4, rule 6, read for a preview: nothing is refused by Flux, so this is what makes a merge stop.

use crate::text::join_limited;
use std::collections::BTreeMap;

use super::document::{Action, Plan};
use super::limits::{ExceededLimit, Limits};
use crate::ownership::index::Index;
use crate::ownership::{Members, OwnerId};

/// What to do about an owner that loses everything.
const MEANT: &str = "look at the paths that this change touches; if it is meant, pass --max-percent=100";

/// How many owners one message names.
const NAMED: usize = 10;

/// Every limit that a preview breaks, the worst first. Owners that go themselves are one message, after the owner whose
/// loss takes them along: a hundred applications must not hide the one mistyped path.
pub fn check(plan: &Plan, index: &Index<'_>, limits: &Limits) -> Vec<ExceededLimit> {
    let mut broken = vec![];
    let mut gone = vec![];
    let mut lost: BTreeMap<&OwnerId, usize> = BTreeMap::new();
    for change in plan.deletions().filter(|change| change.action == Action::Delete) {
        change.owner.iter().for_each(|owner| *lost.entry(owner).or_default() += 1);
    }
    for (owner, lost) in &lost {
        let Some(Members::Listed(recorded)) = index.owner(owner).map(|owner| &owner.members) else { continue };
        let (all, why) = (recorded.len().max(*lost), why(plan, owner));
        if *lost == all && limits.max_percent < 100 {
            if goes(plan, owner) {
                gone.push(owner.to_string());
                continue;
            }
            let message = format!("this deletes 100 % of {owner}{why}");
            broken.push((3, ExceededLimit { message, hint: MEANT.to_owned() }));
        } else if lost * 100 > all * usize::from(limits.max_percent) {
            let percent = lost * 100 / all;
            let message = format!("this deletes {percent} % of {owner}{why}: {lost} of {all} objects");
            let hint = format!("review the plan, then pass --max-percent={}", (lost * 100).div_ceil(all));
            broken.push((0, ExceededLimit { message, hint }));
        }
    }
    if !gone.is_empty() {
        let what = if gone.len() == 1 { "owner and everything it has" } else { "owners and everything they have" };
        let message = format!("this deletes {} {what}: {}", gone.len(), join_limited(&gone, NAMED));
        broken.push((2, ExceededLimit { message, hint: MEANT.to_owned() }));
    }
    let total = plan.deletions().count();
    if total > limits.max_delete {
        let message = format!("this deletes {total} objects, more than {}", limits.max_delete);
        broken.push((1, ExceededLimit { message, hint: format!("review the plan, then pass --max-delete={total}") }));
    }
    broken.sort_by_key(|(rank, _)| std::cmp::Reverse(*rank));
    broken.into_iter().map(|(_, violation)| violation).collect()
}

/// Whether the owner's own object is among what goes.
fn goes(plan: &Plan, owner: &OwnerId) -> bool {
    plan.deletions().any(|change| {
        let id = &change.object.id;
        *id.kind == *owner.kind && *id.namespace == *owner.namespace && *id.name == *owner.name
    })
}

/// Why an owner loses objects, as its rows tell it: what they go with, or the words after the reason's code.
fn why(plan: &Plan, owner: &OwnerId) -> String {
    let mut rows = plan.deletions().filter(|change| change.owner.as_ref() == Some(owner));
    let why = rows.find_map(|change| match &change.cause {
        Some(cause) => Some(format!("{cause} goes")),
        None => change.reason.split_once(": ").map(|(_, why)| why.to_owned()),
    });
    why.map(|why| format!(": {why}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::object::{ObjectId, Resource};
    use crate::kubernetes::snapshot::{ClusterIdentity, Snapshot};
    use crate::plan::document::{Actor, Certainty, Change, PinnedObject};
    use crate::testing;

    fn owner() -> OwnerId {
        OwnerId {
            system: "flux".to_owned(),
            kind: "Kustomization".to_owned(),
            namespace: "n".to_owned(),
            name: "apps".to_owned(),
        }
    }

    /// An owner that lists ten objects and a plan that deletes `lost` of them.
    fn messages(lost: usize, limits: Limits) -> Vec<String> {
        messages_of(lost, false, limits)
    }

    /// The same; the owner itself may go too.
    fn messages_of(lost: usize, owner_goes: bool, limits: Limits) -> Vec<String> {
        let mut snapshot = Snapshot::new(chrono::DateTime::UNIX_EPOCH, ClusterIdentity::default());
        let entries: Vec<_> =
            (0..10).map(|n| serde_json::json!({"id": format!("n_o{n}__ConfigMap"), "v": "v1"})).collect();
        let object = testing::object("kustomize.toolkit.fluxcd.io", "Kustomization", "n", "apps");
        let content = serde_json::json!({"spec": {}, "status": {"inventory": {"entries": entries}}});
        snapshot.full.push(Resource { object, content });
        let change = |n: usize| Change {
            action: Action::Delete,
            certainty: Certainty::Certain,
            object: PinnedObject {
                id: ObjectId::new("", "ConfigMap", "n", &format!("o{n}")),
                uid: n.to_string(),
                resource_version: "1".to_owned(),
            },
            owner: Some(owner()),
            by: Actor::KustomizeController,
            reason: "not-in-build: its path ./aps holds no manifests".to_owned(),
            cause: None,
        };
        let mut changes: Vec<Change> = (0..lost).map(change).collect();
        if owner_goes {
            let own = PinnedObject { id: snapshot.full[0].object.id.clone(), ..changes[0].object.clone() };
            changes.push(Change { object: own, owner: None, ..changes[0].clone() });
        }
        let plan = Plan::new(ClusterIdentity::default(), vec![], vec![], changes);
        check(&plan, &Index::build(&snapshot), &limits).into_iter().map(|violation| violation.message).collect()
    }

    #[test]
    fn losing_everything_is_said_first() {
        let expected = "this deletes 100 % of kustomization/apps -n n: its path ./aps holds no manifests";
        assert_eq!(messages(10, Limits::default()), [expected]);
        assert!(messages(10, Limits { max_percent: 100, ..Limits::default() }).is_empty());
        let both = messages(10, Limits { max_delete: 5, ..Limits::default() });
        assert_eq!(both, [expected, "this deletes 10 objects, more than 5"]);
    }

    #[test]
    fn an_owner_that_goes_itself_is_told_with_all_that_do() {
        let messages = messages_of(10, true, Limits::default());
        assert_eq!(messages, ["this deletes 1 owner and everything it has: kustomization/apps -n n"]);
    }

    #[test]
    fn a_share_above_the_limit_is_said_and_one_below_is_not() {
        assert!(messages(1, Limits::default()).is_empty());
        assert!(messages(2, Limits::default())[0].starts_with("this deletes 20 % of kustomization/apps -n n"));
        assert!(messages(2, Limits { max_percent: 20, ..Limits::default() }).is_empty());
    }
}
