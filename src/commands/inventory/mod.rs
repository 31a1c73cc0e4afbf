//! `inventory`: the owners of the cluster, their objects, and the objects that are leaked, orphaned, unmanaged or claimed by
//! several owners.

mod clusters;
mod ignore;
mod reading;

use std::path::PathBuf;

use clap::Args;

use super::Session;
use super::contexts::ContextsArgs;
use super::{owners, resource_args};
use crate::error::{Error, Result};
use crate::exit::ExitCode;
use crate::output::format::{self, Format, Render};
use crate::output::inventory as show;
use crate::output::sanitize;
use gitops_core::kubernetes::object::{ObjectId, ObjectMetadata, Resource};
use gitops_core::kubernetes::selector::Selector;
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::ownership::index::Index;
use gitops_core::ownership::read_scope::ReadScope;
use gitops_core::ownership::report::explain::Explanation;
use gitops_core::ownership::report::label_reports::label_report;
use gitops_core::ownership::report::{
    Body, InventoryDocument, InventoryFilter, InventoryReport, OwnerObjects, Question,
};
use gitops_core::ownership::scheme::label_report::LabelReport;
use gitops_core::ownership::{Members, OwnerId, SYSTEMS};
use reading::Reading;

/// Show what manages the cluster's objects, and what is leaked or orphaned
///
/// Without arguments, inventory lists every owner with the number of its objects. With an owner, it lists the objects of
/// that owner and their state. The flags list objects that are leaked (labelled by a live owner that does not list them),
/// orphaned (their owner does not exist), claimed by several owners, or managed by nothing.
///
/// qbec and Flux v1 keep no inventory, only labels. --by qbec groups objects by application, environment, tag and
/// component, and separates copied labels from genuine ones. --by flux-v1 shows the status of each mark: synced (from the
/// source of a fluxd in this cluster), drifted (from an earlier configuration, with another form of the URL, branch master
/// or main, or other paths), copied, malformed, from an unknown source, or under the key of old versions. To find synced
/// objects that are in no manifest any more, give the manifests to `kubectl gitops prune`.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  # Every owner in the cluster
  kubectl gitops inventory

  # One owner's objects, as a tree down to Pods
  kubectl gitops inventory -o tree kustomization/apps

  # Objects with labels of qbec, and of Flux v1 with one line per object
  kubectl gitops inventory --by qbec
  kubectl gitops inventory --by flux-v1 -o wide

  # Objects that their owner will never prune
  kubectl gitops inventory --leaked

  # Some kinds, or some labels
  kubectl gitops inventory --kind deployments,statefulsets -l team=shop

  # Objects of Helm releases; objects that owners in a hub cluster apply to this one
  kubectl gitops inventory --by helm --read-secrets
  kubectl gitops inventory --owner-context hub --read-secrets

  # A check for CI: fails with code 3 if an object is leaked that the file does not accept
  kubectl gitops inventory --leaked --ignore accepted.yaml --detailed-exitcode

  # Leaked objects in all clusters of the kubeconfig
  kubectl gitops inventory --leaked --all-contexts

  # The owner of one object, and the evidence
  kubectl gitops inventory -n shop --why deployment/web")]
pub struct InventoryArgs {
    /// Owners to show, as KIND/NAME or NAMESPACE/KIND/NAME
    #[arg(value_name = "OWNER")]
    pub owners: Vec<String>,
    #[arg(long, value_name = "SYSTEM", help = format!("Limit to owners of SYSTEM: {}", SYSTEMS.join(", ")))]
    pub by: Option<String>,
    /// List objects with the labels of a live owner that does not list them: their system will never prune them
    #[arg(long, group = "question")]
    pub leaked: bool,
    /// List objects whose owner does not exist
    #[arg(long, group = "question")]
    pub orphaned: bool,
    /// List objects that several owners claim
    #[arg(long, group = "question")]
    pub conflicts: bool,
    /// List objects that nothing manages, except those that Kubernetes itself creates
    #[arg(long, group = "question")]
    pub unmanaged: bool,
    /// Explain one object: TYPE/NAME in the namespace of -n
    #[arg(long, group = "question", value_name = "TYPE/NAME", conflicts_with = "owners")]
    pub why: Option<String>,
    /// Show only objects of these kinds (TYPE[,TYPE…]), and count the hidden ones
    #[arg(long = "kind", value_name = "TYPE", value_delimiter = ',', conflicts_with = "why")]
    pub kinds: Vec<String>,
    /// Show only existing objects that match this label selector, and count the hidden ones
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "why")]
    pub selector: Option<String>,
    /// Read the records of Helm releases, which are Secrets, to list the objects of each release
    ///
    /// Only the identities of these objects are kept. Nothing else in a Secret is kept or shown.
    #[arg(long, conflicts_with = "snapshot")]
    pub read_secrets: bool,
    /// Read owners from the cluster of CONTEXT too: a hub whose owners apply to this cluster
    ///
    /// Kustomizations, HelmReleases and Applications with the address of this cluster count as its owners. The others are
    /// remote and not checked. Add --read-secrets to read the addresses in kubeConfig Secrets.
    #[arg(long, value_name = "CONTEXT", conflicts_with = "snapshot")]
    pub owner_context: Option<String>,
    /// Leave out the findings that the YAML file FILE accepts, each entry with its reason
    #[arg(long, value_name = "FILE", requires = "question", conflicts_with = "why")]
    pub ignore: Option<PathBuf>,
    /// Exit with code 3 if there are findings
    #[arg(long, requires = "question", conflicts_with = "why")]
    pub detailed_exitcode: bool,
    #[command(flatten)]
    pub clusters: ContextsArgs,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = format::parser(InventoryDocument::PARTS))]
    pub output: Format,
    /// Print tables without a header line
    #[arg(long)]
    pub no_headers: bool,
    /// Read the recorded cluster in FILE instead of a live one
    #[arg(long, value_name = "FILE")]
    pub snapshot: Option<PathBuf>,
}

/// Reads the cluster, or several, and prints the answer.
///
/// # Errors
/// If no cluster can be read at all, or an owner or object that was named does not exist.
pub async fn run(args: &InventoryArgs, session: &mut Session) -> Result<ExitCode> {
    let accepted = args.ignore.as_deref().map(ignore::read).transpose()?;
    let mut document = match clusters::names(args, session)? {
        None => document(args, session).await?,
        Some(contexts) => clusters::document(args, session, contexts).await?,
    };
    if let (Some(list), Some(question)) = (accepted, question(args)) {
        document.remove_ignored(&list, question.status());
    }
    let exit = print(args, session, &document)?;
    let has_findings = matches!(&document.body, Body::Findings(findings) if !findings.is_empty());
    let is_reported = args.detailed_exitcode && has_findings && exit == ExitCode::Done;
    Ok(if is_reported { ExitCode::Found } else { exit })
}

/// Returns the answer of one cluster.
async fn document(args: &InventoryArgs, session: &mut Session) -> Result<InventoryDocument> {
    let selector = args.selector.as_deref().map(resource_args::parse_selector).transpose()?;
    let reading = reading::read(args, session).await?;
    let index = Index::build_with(&reading.snapshot, &reading.extra);
    if reading.is_sufficient(&index) {
        return answer(args, selector, session, &reading, &index).await;
    }
    let reading = reading::read_everything(session).await?;
    answer(args, selector, session, &reading, &Index::build(&reading.snapshot)).await
}

async fn answer(
    args: &InventoryArgs,
    selector: Option<Selector>,
    session: &Session,
    reading: &Reading,
    index: &Index<'_>,
) -> Result<InventoryDocument> {
    let filter = InventoryFilter { kinds: resource_args::parse_kinds(&args.kinds, index)?, selector };
    let owners = selected_owners(args, session, index)?;
    let contents = if args.owners.is_empty() || args.snapshot.is_some() {
        vec![]
    } else {
        contents(session, &reading.snapshot, index, &owners).await?
    };
    let report = InventoryReport::new(index, &contents);
    let rows = rows(args, session, &report, index, &owners)?;
    Ok(InventoryDocument {
        scope: reading.scope.as_ref().map(ReadScope::describe),
        label_report: label_report_of(args, session, index),
        ..report.document(rows, &filter)
    })
}

fn print(args: &InventoryArgs, session: &mut Session, document: &InventoryDocument) -> Result<ExitCode> {
    session.terminal.data(&args.output.render(document, session.terminal.look(!args.no_headers))?)?;
    session.terminal.status(&show::summary(document));
    show::hidden(document).into_iter().for_each(|line| session.terminal.status(&line));
    if let (Some(file), Some(ignored)) = (&args.ignore, &document.ignored) {
        ignore::report(file, ignored, is_limited(args, session), &mut session.terminal);
    }
    for (context, report) in show::label_reports(document) {
        let place = context.map(|context| format!("context {context}: ")).unwrap_or_default();
        for warning in &report.warnings {
            session.terminal.warning(&sanitize::one_line(&format!("{place}{warning}")));
        }
    }
    Ok(session.report_answer_gaps(&document.gaps))
}

/// Returns the owners that the arguments select: by name, else by system and namespace.
fn selected_owners(args: &InventoryArgs, session: &Session, index: &Index<'_>) -> Result<Vec<OwnerId>> {
    if !args.owners.is_empty() {
        let namespace = session.connection.namespace.as_deref();
        return args.owners.iter().map(|text| owners::find(text, namespace, index)).collect();
    }
    args.by.as_deref().map(owners::system).transpose()?;
    let namespace = session.connection.namespace.as_deref().filter(|_| args.why.is_none());
    let owners = index.owners().map(|owner| &owner.id);
    Ok(owners.filter(|owner| matches_scope(owner, args.by.as_deref(), namespace)).cloned().collect())
}

fn matches_scope(owner: &OwnerId, system: Option<&str>, namespace: Option<&str>) -> bool {
    system.is_none_or(|system| system == owner.system) && namespace.is_none_or(|namespace| namespace == owner.namespace)
}

fn rows(
    args: &InventoryArgs,
    session: &Session,
    report: &InventoryReport<'_, '_>,
    index: &Index<'_>,
    selected: &[OwnerId],
) -> Result<Body> {
    if let Some(text) = &args.why {
        let object = find_object(text, session, index.snapshot())?;
        return Ok(Body::Explanation(Box::new(Explanation::of(index, object))));
    }
    let namespace = session.connection.namespace.as_deref();
    let is_limited = !args.owners.is_empty() || args.by.is_some() || namespace.is_some();
    if let Some(question) = question(args) {
        // An owner that does not exist is in no list of owners: its system and namespace decide.
        let is_selected = |owner: &OwnerId| {
            let matches = args.owners.is_empty() && matches_scope(owner, args.by.as_deref(), namespace);
            !is_limited || selected.contains(owner) || matches
        };
        return Ok(Body::Findings(report.findings(question, |object, owners| match owners {
            [] => is_in_namespace(object, namespace),
            owners => owners.iter().any(is_selected),
        })));
    }
    if args.output.is_nested() {
        return Ok(Body::Tree(if is_limited { report.tree(selected) } else { report.forest() }));
    }
    let owners = selected.iter().filter_map(|id| index.owner(id));
    if args.owners.is_empty() {
        return Ok(Body::Owners(owners.map(|owner| report.summary(owner)).collect()));
    }
    let objects = owners.map(|owner| OwnerObjects { owner: report.summary(owner), objects: report.objects(owner) });
    Ok(Body::Objects(objects.collect()))
}

/// Returns true if the arguments select a part of the findings.
fn is_limited(args: &InventoryArgs, session: &Session) -> bool {
    let selects_owners = !args.owners.is_empty() || args.by.is_some() || session.connection.namespace.is_some();
    selects_owners || !args.kinds.is_empty() || args.selector.is_some()
}

fn is_in_namespace(object: &ObjectMetadata, namespace: Option<&str>) -> bool {
    namespace.is_none_or(|namespace| *namespace == *object.id.namespace)
}

fn question(args: &InventoryArgs) -> Option<Question> {
    let questions = [
        (args.leaked, Question::Leaked),
        (args.orphaned, Question::Orphaned),
        (args.conflicts, Question::Conflicts),
        (args.unmanaged, Question::Unmanaged),
    ];
    questions.into_iter().find(|(is_asked, _)| *is_asked).map(|(_, question)| question)
}

/// Returns the report on the labels of a system that keeps no inventory, if the answer is about the whole system.
fn label_report_of(args: &InventoryArgs, session: &Session, index: &Index<'_>) -> Option<LabelReport> {
    let is_about_system = args.owners.is_empty() && args.why.is_none() && question(args).is_none();
    let system = args.by.as_deref().filter(|_| is_about_system)?;
    let namespace = session.connection.namespace.as_deref();
    label_report(system, index, &|object| is_in_namespace(object, namespace))
}

/// Finds the object `TYPE/NAME` in the namespace of `-n`, or among cluster-scoped objects.
fn find_object<'a>(text: &str, session: &Session, snapshot: &'a Snapshot) -> Result<&'a ObjectMetadata> {
    let (word, name) = text.split_once('/').ok_or_else(|| Error::usage(format!("{text:?} is not TYPE/NAME")))?;
    let namespace = session.connection.namespace.as_deref();
    let objects = snapshot.objects.iter().filter(|object| {
        let kind = snapshot.resource_type(&object.id.group_kind());
        let has_type = kind.is_some_and(|kind| resource_args::is_named(kind, word));
        has_type && *object.id.name == *name && is_in_namespace(object, namespace)
    });
    let found: Vec<&ObjectMetadata> = objects.collect();
    match found[..] {
        [object] => Ok(object),
        [] => Err(Error::failed(format!("no object {text:?} was found")).hint("give its namespace with -n")),
        _ => {
            let ids: Vec<String> = found.iter().map(|object| object.id.to_string()).collect();
            Err(Error::usage(format!("{text:?} is not unique")).hint(format!("name one of {}", ids.join(", "))))
        }
    }
}

/// Reads the content of the owners' objects, for their readiness. Secrets and ConfigMaps have no status and stay unread.
async fn contents(
    session: &Session,
    snapshot: &Snapshot,
    index: &Index<'_>,
    owners: &[OwnerId],
) -> Result<Vec<Resource>> {
    let members = owners.iter().filter_map(|id| match &index.owner(id)?.members {
        Members::Listed(ids) => Some(ids),
        _ => None,
    });
    let has_status = |id: &&ObjectId| !["Secret", "ConfigMap"].contains(&&*id.kind) && snapshot.object(id).is_some();
    let ids: Vec<ObjectId> = members.flatten().filter(has_status).cloned().collect();
    Ok(session.cluster().await?.fetch_all(snapshot, ids).await)
}
