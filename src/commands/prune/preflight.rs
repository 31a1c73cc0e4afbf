//! Checks between a plan and its first deletion: the rights of the user, dry-runs of every deletion, and the question
//! (docs/reference/ownership.md 8, rules 7 and 8).

use std::collections::BTreeMap;

use futures::{StreamExt, future, stream};

use super::review::ReviewedPlan;
use crate::cluster::read::access::{is_allowed, user_name};
use crate::cluster::{Cluster, Interrupts, dry_run_deletions};
use crate::commands::Session;
use crate::error::{Error, Result};
use crate::output::deletion;
use crate::output::text::sanitize::one_line;
use gitops_core::kubernetes::object::{ObjectId, ResourceType};
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::plan::Plan;
use gitops_core::plan::grave::GraveKind;
use gitops_core::text::pluralize;

/// Consequence of a cancelled question, for people.
const UNDONE: &str = "nothing was deleted";

/// Number of objects above which the number is typed instead of `y`.
const MANY: usize = 20;

/// Refuses the plan if the user lacks a right, or if the server would refuse a deletion.
pub(super) async fn rehearse(cluster: &Cluster, plan: &Plan, snapshot: &Snapshot, parallel: usize) -> Result<()> {
    let missing = missing_rights(cluster, plan, snapshot, parallel).await;
    if !missing.is_empty() {
        return Err(Error::refused(format!("refused, nothing was deleted: you may not {}", missing.join("; ")))
            .hint("ask for these rights; `kubectl auth can-i --list` shows those that you have"));
    }
    let refused = dry_run_deletions(cluster, plan, snapshot, parallel).await;
    if refused.is_empty() {
        return Ok(());
    }
    let lines: Vec<_> = refused.iter().map(|(id, why)| one_line(&format!("{id}: {why}")).into_owned()).collect();
    let number = pluralize(refused.len(), "deletion");
    Err(Error::refused(format!("refused, nothing was deleted: the server would refuse {number}: {}", lines.join("; ")))
        .hint("plan again; if it stays, look at your rights and at admission policies"))
}

/// Describes the rights that the user lacks, by verb, type and namespace. A right that the server does not tell about is
/// left to the dry-runs.
async fn missing_rights(cluster: &Cluster, plan: &Plan, snapshot: &Snapshot, parallel: usize) -> Vec<String> {
    let mut objects: BTreeMap<(ResourceType, &str), Vec<&ObjectId>> = BTreeMap::new();
    for change in plan.roots() {
        let id = &change.object.id;
        if let Some(kind) = snapshot.resource_type(&id.group_kind()) {
            objects.entry((kind.clone(), &id.namespace)).or_default().push(id);
        }
    }
    let rights = objects.iter().flat_map(|(place, ids)| ["delete", "get"].map(|verb| (verb, place, ids)));
    let checks = rights.map(|(verb, (kind, namespace), ids)| async move {
        if !matches!(is_allowed(cluster, verb, kind, namespace, None).await, Ok(false)) {
            return None;
        }
        // A role can name the objects.
        let mut missing = 0;
        for id in ids {
            missing +=
                usize::from(matches!(is_allowed(cluster, verb, kind, namespace, Some(&id.name)).await, Ok(false)));
        }
        let place = if namespace.is_empty() { String::new() } else { format!(" in namespace {namespace}") };
        let what = format!("{verb} {}{place} ({})", kind.resource(), pluralize(missing, "object"));
        (missing > 0).then(|| one_line(&what).into_owned())
    });
    stream::iter(checks).buffered(parallel).filter_map(future::ready).collect().await
}

/// Asks for confirmation after a table of what is deleted and where. Without a terminal, nothing is deleted unless --yes is
/// given.
pub(in crate::commands) async fn confirm(
    cluster: &Cluster,
    plan: &Plan,
    reviewed: Option<&ReviewedPlan>,
    yes: bool,
    session: &mut Session,
) -> Result<()> {
    if yes {
        return Ok(());
    }
    let total = plan.deletions().count();
    let objects = pluralize(total, "object");
    if !session.terminal.can_ask() {
        return Err(Error::refused(format!("refused, nothing was deleted: no terminal to confirm {objects} on")).hint(
            if reviewed.is_some() {
                "pass --yes to delete what the plan lists"
            } else {
                "review with --plan, then pass --yes"
            },
        ));
    }
    let user = user_name(cluster).await.unwrap_or_else(|_| "unknown".to_owned());
    let mut facts = vec![("cluster", cluster.server.clone()), ("context", cluster.context.clone()), ("user", user)];
    if let Some(ReviewedPlan { file, digest }) = reviewed {
        let by = file.execution.as_ref().map(|pins| format!(" by {} at {}", pins.connection.caller, pins.created));
        facts.push(("plan", format!("{digest}{}", by.unwrap_or_default())));
    }
    session.terminal.block(deletion::overview(plan, &facts).trim_end());
    let is_grave = plan.deletions().any(|change| GraveKind::of(&change.object.id).is_some());
    // Without a context, the server is what the user has named.
    let name = if cluster.context.is_empty() { &cluster.server } else { &cluster.context };
    let signals = Interrupts::new();
    let answer = if is_grave {
        let question = format!("Git cannot restore some of these objects. Type {name} to delete {objects}");
        session.terminal.confirm_by_typing(&question, name, UNDONE)
    } else if total > MANY {
        let question = format!("Type {total} to delete {objects} from {name}");
        session.terminal.confirm_by_typing(&question, &total.to_string(), UNDONE)
    } else {
        session.terminal.confirm(&format!("Delete {objects} from {name}?"), UNDONE)
    };
    drop(signals);
    if answer? { Ok(()) } else { Err(Error::cancelled(format!("cancelled: {UNDONE}"))) }
}
