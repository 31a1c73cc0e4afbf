//! The answer of one cluster: reads what the question needs, selects owners, and reports on them or on their objects.

use super::args::InventoryArgs;
use super::object;
use super::reading::{self, Reading};
use crate::commands::{Session, owners, resource_args};
use crate::error::Result;
use crate::output::format::Format;
use gitops_core::kubernetes::object::{ObjectId, ObjectMetadata, Resource};
use gitops_core::kubernetes::selector::Selector;
use gitops_core::ownership::index::Index;
use gitops_core::ownership::read_scope::ReadScope;
use gitops_core::ownership::report::explain::Explanation;
use gitops_core::ownership::report::label_reports::label_report;
use gitops_core::ownership::report::{Body, Finding, InventoryDocument, InventoryFilter, InventoryReport};
use gitops_core::ownership::scheme::label_report::LabelReport;
use gitops_core::ownership::{Members, OwnerId};

/// Returns the answer of the cluster of a session. A part of the cluster that leaves a doubt is followed by the whole.
pub(super) async fn document(args: &InventoryArgs, session: &mut Session) -> Result<InventoryDocument> {
    let selector = args.selector.as_deref().map(resource_args::parse_selector).transpose()?;
    let part = reading::read(args, session).await?;
    let index = Index::build_with(&part.snapshot, &part.extra);
    if part.is_sufficient(&index) {
        return report(args, selector, session, &part, &index).await;
    }
    let whole = reading::read_everything(session).await?;
    report(args, selector, session, &whole, &Index::build(&whole.snapshot)).await
}

async fn report(
    args: &InventoryArgs,
    selector: Option<Selector>,
    session: &Session,
    reading: &Reading,
    index: &Index<'_>,
) -> Result<InventoryDocument> {
    let filter = InventoryFilter { kinds: resource_args::parse_kinds(&args.kinds, index)?, selector };
    let owners = selected_owners(args, session, index)?;
    let resources = contents(args, session, index, &owners).await?;
    let report = InventoryReport::new(index, &resources);
    let rows = body(args, session, &report, index, &owners)?;
    Ok(InventoryDocument {
        scope: reading.scope.as_ref().map(ReadScope::describe),
        label_report: label_report_of(args, session, index),
        beside: beside(args, session, &report, &filter, &owners),
        ..report.document(rows, &filter)
    })
}

/// Returns the owners that the arguments select: by name, else by system and namespace.
fn selected_owners(args: &InventoryArgs, session: &Session, index: &Index<'_>) -> Result<Vec<OwnerId>> {
    let namespace = session.connection.namespace.as_deref();
    if !args.owners.is_empty() {
        return owners::named(&args.owners)?.iter().map(|text| owners::find(text, namespace, index)).collect();
    }
    args.by.as_deref().map(owners::system).transpose()?;
    let (system, place) = (args.by.as_deref(), namespace.filter(|_| args.why.is_empty()));
    let owners = index.owners().map(|owner| &owner.id);
    Ok(owners.filter(|id| matches_scope(id, system, place)).cloned().collect())
}

fn matches_scope(owner: &OwnerId, system: Option<&str>, namespace: Option<&str>) -> bool {
    system.is_none_or(|system| system == owner.system) && namespace.is_none_or(|namespace| namespace == owner.namespace)
}

/// Reads the content of the objects of named owners, for their readiness.
async fn contents(
    args: &InventoryArgs,
    session: &Session,
    index: &Index<'_>,
    owners: &[OwnerId],
) -> Result<Vec<Resource>> {
    if args.owners.is_empty() || args.snapshot.is_some() {
        return Ok(vec![]);
    }
    let snapshot = index.snapshot();
    let mut ids = vec![];
    for owner in owners.iter().filter_map(|id| index.owner(id)) {
        if let Members::Listed(members) = &owner.members {
            ids.extend(members.iter().filter(|id| has_status(id) && snapshot.object(id).is_some()).cloned());
        }
    }
    Ok(session.cluster().await?.fetch_all(snapshot, ids).await)
}

/// Secrets and ConfigMaps have no status and stay unread.
fn has_status(id: &ObjectId) -> bool {
    !["Secret", "ConfigMap"].contains(&&*id.kind)
}

fn body(
    args: &InventoryArgs,
    session: &Session,
    report: &InventoryReport<'_, '_>,
    index: &Index<'_>,
    selected: &[OwnerId],
) -> Result<Body> {
    let namespace = session.connection.namespace.as_deref();
    if !args.why.is_empty() {
        let object = object::find(&args.why, namespace, index.snapshot())?;
        return Ok(Body::Explanation(Box::new(Explanation::of(index, object))));
    }
    let is_limited = args.selects_owners(session);
    if let Some(question) = args.question() {
        return Ok(Body::Findings(report.findings(question, |object, owners| {
            if owners.is_empty() {
                return is_in_namespace(object, namespace);
            }
            !is_limited || owners.iter().any(|owner| selected.contains(owner) || is_wanted(args, owner, namespace))
        })));
    }
    if args.output.is_nested() {
        return Ok(Body::Tree(if is_limited { report.tree(selected) } else { report.forest() }));
    }
    let owners = selected.iter().filter_map(|id| index.owner(id));
    if args.owners.is_empty() {
        return Ok(Body::Owners(owners.map(|owner| report.summary(owner)).collect()));
    }
    Ok(Body::Objects(owners.map(|owner| report.owner_objects(owner)).collect()))
}

/// Returns the objects that a page shows beside the owners: leaked, orphaned and contested ones.
fn beside(
    args: &InventoryArgs,
    session: &Session,
    report: &InventoryReport<'_, '_>,
    filter: &InventoryFilter,
    selected: &[OwnerId],
) -> Vec<Finding> {
    if args.output != Format::Html || args.question().is_some() || !args.why.is_empty() {
        return vec![];
    }
    let namespace = session.connection.namespace.as_deref();
    report.beside(filter, |owners| {
        owners.iter().any(|owner| selected.contains(owner) || is_wanted(args, owner, namespace))
    })
}

/// Returns true if an owner that does not exist is selected. It is in no list of owners: its system and namespace decide.
fn is_wanted(args: &InventoryArgs, owner: &OwnerId, namespace: Option<&str>) -> bool {
    args.owners.is_empty() && matches_scope(owner, args.by.as_deref(), namespace)
}

fn is_in_namespace(object: &ObjectMetadata, namespace: Option<&str>) -> bool {
    namespace.is_none_or(|namespace| *namespace == *object.id.namespace)
}

/// Returns the report on the labels of a system that keeps no inventory, if the answer is about the whole system.
fn label_report_of(args: &InventoryArgs, session: &Session, index: &Index<'_>) -> Option<LabelReport> {
    let is_about_system = args.owners.is_empty() && args.why.is_empty() && args.question().is_none();
    let system = args.by.as_deref().filter(|_| is_about_system)?;
    let namespace = session.connection.namespace.as_deref();
    label_report(system, index, &|object| is_in_namespace(object, namespace))
}
