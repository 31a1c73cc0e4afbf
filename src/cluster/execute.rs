//! Carries out a plan: dry-run of everything first, then one object after another, each judged again right before.
//!
//! Source: design 3.4, rule 7. Nothing here decides what may go; `judge` does, on a fresh reading.

use std::collections::HashMap;
use std::time::Duration;

use tokio::signal::ctrl_c;

use super::delete::{Gone, is_path_segment};
use super::{Cluster, Failure, FailureKind};
use crate::object::{FullObject, Object, ObjectId, ResourceType};
use crate::ownership::OwnerId;
use crate::prune::order::delete_order;
use crate::prune::outcome::{PruneResult, Step, StepResult};
use crate::prune::plan::{Change, Plan};
use crate::snapshot::Snapshot;

/// How often a deletion is tried again when the object changed between its last reading and the DELETE.
const CONFLICTS: usize = 3;

/// Judges a fresh reading: `None` lets it go, text says why it stays.
pub type Judge<'a> = dyn Fn(&Snapshot, &ObjectId) -> Option<String> + 'a;

/// How to execute.
#[derive(Clone, Debug)]
pub struct Execution {
    /// How long to wait for each object to be gone.
    pub timeout: Duration,
    /// What goes first; what is not named comes after it, in Flux's order.
    pub order: Vec<ObjectId>,
}

impl Cluster {
    /// Sends every deletion as a server dry-run; what the server would refuse is returned, and then nothing was done.
    pub async fn rehearse(&self, plan: &Plan, snapshot: &Snapshot) -> Vec<(ObjectId, String)> {
        let mut refused = vec![];
        for change in plan.roots() {
            let id = &change.object.id;
            let answer = match (kind_of(snapshot, id), snapshot.object(id)) {
                (Some(kind), Some(object)) => {
                    self.delete(kind, object, true).await.map_err(|failure| failure.to_string())
                }
                _ => Err("its type is not served".to_owned()),
            };
            refused.extend(answer.err().map(|why| (id.clone(), why)));
        }
        refused
    }

    /// Deletes the plan's roots in delete order. `tell` hears of every step as it ends. Ctrl-C ends it between steps.
    pub async fn execute(
        &self,
        plan: &Plan,
        snapshot: &mut Snapshot,
        judge: &Judge<'_>,
        execution: &Execution,
        tell: &mut dyn FnMut(&StepResult),
    ) -> PruneResult {
        let mut roots: Vec<&Change> = plan.roots().collect();
        let place: HashMap<&ObjectId, usize> =
            execution.order.iter().enumerate().map(|(place, id)| (id, place)).collect();
        let place = |id: &ObjectId| place.get(id).copied().unwrap_or(usize::MAX);
        roots.sort_by(|a, b| {
            let (a, b) = (&a.object.id, &b.object.id);
            place(a).cmp(&place(b)).then_with(|| delete_order(a, b))
        });
        let mut result = PruneResult::new();
        let mut interrupted = std::pin::pin!(ctrl_c());
        let mut stop = false;
        for change in roots {
            let step = if stop {
                Step::NotTried
            } else {
                tokio::select! {
                    step = self.delete_one(change, snapshot, judge, execution.timeout) => step,
                    _ = &mut interrupted => {
                        stop = true;
                        Step::Failed("interrupted: the deletion may have been sent".to_owned())
                    }
                }
            };
            let row = StepResult { object: change.object.clone(), step };
            tell(&row);
            result.steps.push(row);
        }
        result
    }

    async fn delete_one(&self, change: &Change, snapshot: &mut Snapshot, judge: &Judge<'_>, timeout: Duration) -> Step {
        let id = &change.object.id;
        let Some(kind) = kind_of(snapshot, id).cloned().filter(|_| is_path_segment(&id.name)) else {
            return Step::Failed("its type is not served".to_owned());
        };
        for _ in 0..CONFLICTS {
            let fresh = match self.renew(&kind, change, snapshot).await {
                Ok(Some(fresh)) => fresh,
                Ok(None) => return Step::Gone,
                Err(failure) => return Step::Failed(failure.to_string()),
            };
            if *fresh.uid != *change.object.uid {
                return Step::Changed("another object has taken its name".to_owned());
            }
            if let Some(why) = judge(snapshot, id) {
                return Step::Changed(why);
            }
            match self.delete(&kind, &fresh, false).await {
                Ok(()) => return self.finish(&kind, &fresh, timeout).await,
                Err(failure) if failure.kind == FailureKind::Missing => return Step::Gone,
                Err(failure) if failure.kind == FailureKind::Conflict => {}
                Err(failure) => return Step::Failed(failure.to_string()),
            }
        }
        Step::Changed(format!("it changed {CONFLICTS} times while it was being deleted"))
    }

    async fn finish(&self, kind: &ResourceType, object: &Object, timeout: Duration) -> Step {
        match self.wait_until_gone(kind, object, timeout).await {
            Ok(Gone::Yes) => Step::Deleted,
            Ok(Gone::Terminating(finalizers)) => Step::Terminating(finalizers),
            Err(failure) => Step::Failed(format!("deleted, but it cannot be seen whether it is gone: {failure}")),
        }
    }

    /// Reads the object and its owner again, the object first, and puts both into the snapshot.
    async fn renew(
        &self,
        kind: &ResourceType,
        change: &Change,
        snapshot: &mut Snapshot,
    ) -> Result<Option<Object>, Failure> {
        let id = &change.object.id;
        let fresh = self.fetch_metadata(kind, id).await?;
        snapshot.renew(id, fresh.clone());
        if fresh.is_none() {
            return Ok(None);
        }
        let owner =
            change.owner.as_ref().and_then(|owner| owner_object(snapshot, owner)).map(|full| full.object.id.clone());
        if let Some(owner) = owner
            && let Some(kind) = kind_of(snapshot, &owner).cloned()
        {
            let newer: Option<FullObject> = self.fetch(&kind, &owner).await?;
            snapshot.renew_full(&owner, newer);
        }
        Ok(fresh)
    }
}

fn kind_of<'a>(snapshot: &'a Snapshot, id: &ObjectId) -> Option<&'a ResourceType> {
    snapshot.resource_type(&id.group_kind())
}

fn owner_object<'a>(snapshot: &'a Snapshot, owner: &OwnerId) -> Option<&'a FullObject> {
    let same = |full: &&FullObject| {
        let id = &full.object.id;
        *id.kind == *owner.kind && *id.namespace == *owner.namespace && *id.name == *owner.name
    };
    snapshot.full.iter().find(same)
}
