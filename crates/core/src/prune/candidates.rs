//! From deletion candidates to rows of a plan: adds the cascade of each candidate, and keeps a candidate whose cascade
//! would delete something that must stay. Every plan that this tool executes ends here (docs/reference/ownership.md 8,
//! rule 2).

use std::collections::HashSet;

use crate::kubernetes::deletion::cascade::{Cascade, CascadedObject};
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::ownership::index::Index;
use crate::ownership::rules::protection::find_protection;
use crate::ownership::{OwnerId, OwnershipStatus};
use crate::plan::grave::AllowedKinds;
use crate::plan::{Action, Actor, Change, Reason, ReasonCode};

/// An object that may be deleted in its own right.
#[derive(Clone, Debug)]
pub(crate) struct Candidate<'a> {
    pub object: &'a ObjectMetadata,
    /// Owner on whose behalf it is deleted.
    pub owner: Option<OwnerId>,
    /// Reason of the deletion.
    pub reason: Reason,
}

/// Returns the rows of all candidates and of `kept`. A candidate whose cascade would delete something that must stay is
/// kept, and so is one whose cascade needs a permission that is not in `allowed`. An object that a cascade deletes has only
/// the row of the cascade.
pub(crate) fn apply_cascade_rules<'a>(
    index: &Index<'a>,
    mut candidates: Vec<Candidate<'a>>,
    kept: Vec<Change>,
    allowed: AllowedKinds,
) -> Vec<Change> {
    let mut changes = kept;
    if candidates.is_empty() {
        return changes;
    }
    let cascade = Cascade::new(index.snapshot());
    // A candidate that is kept may be part of another candidate's cascade: repeat until nothing changes.
    loop {
        let planned: HashSet<&ObjectId> = candidates.iter().map(|candidate| &candidate.object.id).collect();
        let mut remaining = vec![];
        let mut is_stable = true;
        for candidate in &candidates {
            match blocking_object(&cascade, index, candidate.object, &planned, allowed) {
                None => remaining.push(candidate.clone()),
                Some(detail) => {
                    is_stable = false;
                    let reason = Reason::new(ReasonCode::Cascade, detail);
                    changes.push(keep_row(candidate.object, candidate.owner.clone(), reason));
                }
            }
        }
        candidates = remaining;
        if is_stable {
            break;
        }
    }
    let cascaded = cascade.closure(candidates.iter().map(|candidate| candidate.object));
    let ids: HashSet<&ObjectId> = cascaded.iter().map(|cascaded| &cascaded.object.id).collect();
    changes.retain(|change| !ids.contains(&change.object.id));
    changes.extend(cascaded.iter().map(|cascaded| cascaded_row(index, cascaded)));
    changes.extend(candidates.into_iter().map(|Candidate { object, owner, reason }| {
        Change::new(Action::Delete, object, owner, Actor::KubectlGitops, reason)
    }));
    changes
}

/// Returns the row of an object that looks prunable and stays.
pub(crate) fn keep_row(object: &ObjectMetadata, owner: Option<OwnerId>, reason: impl Into<Reason>) -> Change {
    Change::new(Action::Keep, object, owner, Actor::KubectlGitops, reason)
}

pub(crate) fn cascaded_row(index: &Index<'_>, cascaded: &CascadedObject<'_>) -> Change {
    let owner = match index.status(cascaded.object) {
        OwnershipStatus::Managed(owner) => Some(owner),
        OwnershipStatus::Leaked(claim) | OwnershipStatus::Orphaned(claim) => Some(claim.owner),
        _ => None,
    };
    Change::cascaded(cascaded, owner)
}

/// Describes the first object of a candidate's cascade that must stay.
fn blocking_object<'a>(
    cascade: &Cascade<'a>,
    index: &Index<'a>,
    candidate: &'a ObjectMetadata,
    planned: &HashSet<&ObjectId>,
    allowed: AllowedKinds,
) -> Option<String> {
    if let Some(detail) = cascade.unlisted_content(candidate) {
        return Some(detail);
    }
    cascade.closure([candidate]).iter().find_map(|cascaded| {
        let why = reason_to_stay(index, cascaded.object, &|id| planned.contains(id)).or_else(|| {
            let missing = allowed.missing_for(&cascaded.object.id)?;
            Some(format!("and deleting {} is not allowed", missing.name()))
        })?;
        Some(format!("it would also delete {}, {why}", cascaded.object.id))
    })
}

/// Returns the reason why a cascade must not delete an object. `is_planned` is true for objects that are deleted in their
/// own right too.
pub(super) fn reason_to_stay(
    index: &Index<'_>,
    object: &ObjectMetadata,
    is_planned: &dyn Fn(&ObjectId) -> bool,
) -> Option<String> {
    if let Some(mark) = find_protection(object) {
        return Some(format!("which {}={} protects", mark.key, mark.value));
    }
    if let Some(owner) = index.recorded_by(&object.id).first() {
        return Some(format!("which {owner} lists"));
    }
    if is_planned(&object.id) {
        return None;
    }
    match index.status(object) {
        OwnershipStatus::Leaked(claim) | OwnershipStatus::Orphaned(claim) => {
            Some(format!("which claims {}", claim.owner))
        }
        OwnershipStatus::Managed(owner) => Some(format!("which {owner} manages")),
        OwnershipStatus::Conflict(owners) => Some(format!("which {} owners claim", owners.len())),
        OwnershipStatus::Unknown(claim, why) => Some(format!("which claims {}: {why}", claim.owner)),
        OwnershipStatus::Unmanaged | OwnershipStatus::Copied(_) => {
            Some("which no owner in this plan manages".to_owned())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Build, kustomization, object, snapshot};

    #[test]
    fn a_cascade_stops_at_objects_of_one_owner_of_two_and_of_a_missing_one() {
        let root = object("", "ConfigMap", "shop", "root");
        let below = |name: &str| object("", "ConfigMap", "shop", name).referring_to(&root.uid);
        let both = below("both")
            .of_kustomization("apps")
            .label("kapp.k14s.io/app", "1")
            .annotation("kapp.k14s.io/identity", "v1;shop//ConfigMap/both;v1");
        let managed = below("managed")
            .label("kapp.k14s.io/app", "1")
            .annotation("kapp.k14s.io/identity", "v1;shop//ConfigMap/managed;v1");
        let objects = vec![both, managed, below("orphan").of_kustomization("gone"), below("plain"), root.clone()];
        let app = json!({"data": {"spec": r#"{"labelKey": "kapp.k14s.io/app", "labelValue": "1"}"#}});
        let app = object("", "ConfigMap", "kapp", "web").label("kapp.k14s.io/is-app", "").with_content(app);
        let snapshot = snapshot(objects, vec![kustomization("apps", &[]), app]);
        let index = Index::build(&snapshot);
        let found = |name: &str| snapshot.objects.iter().find(|object| &*object.id.name == name).unwrap();
        let stays = |name: &str| reason_to_stay(&index, found(name), &|_| false).unwrap();
        assert_eq!(stays("both"), "which 2 owners claim");
        assert_eq!(stays("orphan"), "which claims kustomization/gone -n flux-system");
        assert_eq!(stays("managed"), "which app/web -n kapp manages");
        assert_eq!(stays("plain"), "which no owner in this plan manages");
        let cascade = Cascade::new(&snapshot);
        let rows = cascade.closure([found("root")]);
        for (name, owner) in [("orphan", "gone"), ("managed", "web")] {
            let row = rows.iter().find(|row| &*row.object.id.name == name).unwrap();
            assert_eq!(cascaded_row(&index, row).owner.unwrap().name, owner);
        }
    }
}
