//! Steps of a plan: each deletion in an object's own right with the facts that it rests on.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::canonical;
use crate::kubernetes::deletion::cascade::Cascade;
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::ownership::index::Index;
use crate::ownership::{Claim, OwnershipStatus};
use crate::plan::execution::{roots_of_objects, waves};
use crate::plan::{Change, PinnedObject, Plan};

/// One deletion in an object's own right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Step {
    /// Number of its wave, from 1. A wave starts when the one before has ended.
    pub wave: usize,
    pub object: PinnedObject,
    /// Evidence that the owner of the plan made the object.
    pub evidence: String,
    pub cascade: CascadePin,
}

/// The objects that Kubernetes deletes with an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CascadePin {
    pub objects: usize,
    /// SHA-256 of their identities and uids.
    pub digest: String,
}

/// Returns the steps of a plan in the order of execution. `given` are the waves of the planner.
pub fn steps(plan: &Plan, given: &[Vec<ObjectId>], index: &Index<'_>) -> Vec<Step> {
    let cascade = Cascade::new(index.snapshot());
    let others = OtherCascades::new(plan);
    let mut steps = vec![];
    for (wave, changes) in waves(plan, given).into_iter().enumerate() {
        for change in changes {
            let object = index.snapshot().object(&change.object.id);
            steps.push(Step {
                wave: wave + 1,
                object: change.object.clone(),
                evidence: object.map(|object| evidence(index, object, change)).unwrap_or_default(),
                cascade: CascadePin::new(&cascade, object, &others),
            });
        }
    }
    steps
}

/// Describes the evidence for the owner of an object.
pub(super) fn evidence(index: &Index<'_>, object: &ObjectMetadata, change: &Change) -> String {
    match index.status(object) {
        OwnershipStatus::Leaked(Claim { strength, evidence, .. })
        | OwnershipStatus::Orphaned(Claim { strength, evidence, .. }) => {
            format!("{strength:?}: {evidence}").to_lowercase()
        }
        status => format!("{}: {}", status.as_str(), change.reason),
    }
}

/// Deleted objects of a plan by uid, with the root that deletes them.
pub(super) struct OtherCascades<'p>(HashMap<&'p str, &'p ObjectId>);

impl<'p> OtherCascades<'p> {
    pub(super) fn new(plan: &'p Plan) -> Self {
        let roots = roots_of_objects(plan);
        Self(plan.deletions().map(|change| (change.object.uid.as_str(), roots[&change.object.id])).collect())
    }

    /// Returns true if the plan deletes this object by another root.
    fn contain(&self, object: &ObjectMetadata, root: &ObjectId) -> bool {
        self.0.get(&*object.uid).is_some_and(|other| *other != root)
    }
}

impl CascadePin {
    /// Pins the cascade of an object, without objects that another step deletes: that step may have been executed.
    pub(super) fn new(cascade: &Cascade<'_>, root: Option<&ObjectMetadata>, others: &OtherCascades<'_>) -> Self {
        let Some(root) = root else { return Self { objects: 0, digest: canonical::digest(&serde_json::json!([])) } };
        let closure = cascade.closure([root]);
        let own = closure.iter().filter(|cascaded| !others.contain(cascaded.object, &root.id));
        let mut objects: Vec<_> =
            own.map(|cascaded| serde_json::json!([cascaded.object.id, cascaded.object.uid])).collect();
        objects.sort_by_key(canonical::text);
        Self { objects: objects.len(), digest: canonical::digest(&objects.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ownership::schemes::flux_kustomization::{NAME, NAMESPACE};
    use crate::plan::{Action, Actor, ReasonCode};
    use crate::testing::{Build, object, snapshot};

    #[test]
    fn the_evidence_is_the_claim_or_else_the_reason() {
        let plain = object("", "ConfigMap", "n", "plain");
        let claimed = object("", "ConfigMap", "n", "claimed").label(NAME, "gone").label(NAMESPACE, "n");
        let snapshot = snapshot(vec![claimed, plain], vec![]);
        let index = Index::build(&snapshot);
        let found = |at: usize| {
            let object = &snapshot.objects[at];
            let row = Change::new(Action::Delete, object, None, Actor::KubectlGitops, ReasonCode::Leaked);
            evidence(&index, object, &row)
        };
        assert!(found(0).starts_with("bare: ") && found(0).contains("gone"), "{}", found(0));
        assert_eq!(found(1), "unmanaged: leaked");
    }
}
