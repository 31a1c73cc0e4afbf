//! `inventory`: who manages what, and what is leaked, orphaned, contested or unmanaged.

pub mod reading;

use std::path::PathBuf;

use clap::Args;

use super::Session;
use super::{filters, owners, targets};
use crate::error::{Error, Result};
use crate::exit::ExitCode;
use crate::output::inventory as show;
use crate::output::inventory::Format;
use crate::output::labels;
use crate::output::sanitize;
use gitops_core::kubernetes::object::{ObjectMetadata, Resource};
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::ownership;
use gitops_core::ownership::index::Index;
use gitops_core::ownership::report::labels::LabelReport;
use gitops_core::ownership::report::{Body, InventoryDocument, InventoryFilter, OwnerObjects, Question, Views};
use gitops_core::ownership::{Members, OwnerId};
use reading::Read;

/// Show what manages the cluster's objects, and what is leaked or orphaned
///
/// Without arguments every owner is listed with its counts. With an owner, its objects and their state. The flags list
/// the objects that are leaked (labelled by a live owner that does not list them), orphaned (their owner does not
/// exist), contested by several owners, or managed by nothing.
///
/// qbec and Flux v1 record nothing, so marks are all there is. --by qbec groups them by application, environment, tag
/// and component, and tells copied metadata from genuine. --by flux-v1 says what each mark is worth: of a fluxd in this
/// cluster (synced), of an earlier configuration of it as far as URL forms, branch master or main and its own paths go
/// (drifted), copied, malformed, of an unknown source, or under the key of old versions. Which synced objects are in no
/// manifest any more says prune --plan --by flux-v1 alone, since only manifests can tell.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  # Every owner in the cluster
  kubectl gitops inventory

  # One owner's objects, as a tree down to Pods
  kubectl gitops inventory -o tree kustomization/apps

  # What qbec and a Flux v1 marked, each object in a line of its own
  kubectl gitops inventory --by qbec
  kubectl gitops inventory --by flux-v1 -o wide

  # What its owner will never prune
  kubectl gitops inventory --leaked

  # Only some kinds, or some labels; what is hidden is counted
  kubectl gitops inventory --kind deployments,statefulsets -l team=shop

  # What Helm's releases list; what a hub cluster's owners apply here
  kubectl gitops inventory --by helm --read-secrets
  kubectl gitops inventory --owner-context hub --read-secrets

  # Who manages one object, and how that is known
  kubectl gitops inventory -n shop --why deployment/web")]
pub struct InventoryArgs {
    /// Only these owners, as KIND/NAME or NAMESPACE/KIND/NAME
    #[arg(value_name = "OWNER")]
    pub owners: Vec<String>,
    /// Only this system: flux, flux-v1, qbec, applyset, argocd, helm, kapp or cli-utils
    #[arg(long, value_name = "SYSTEM")]
    pub by: Option<String>,
    /// Objects that a live owner claims and does not list: their system will never prune them
    #[arg(long, group = "question")]
    pub leaked: bool,
    /// Objects whose owner does not exist
    #[arg(long, group = "question")]
    pub orphaned: bool,
    /// Objects that several owners claim
    #[arg(long, group = "question")]
    pub conflicts: bool,
    /// Objects that nothing manages, without the cluster's own
    #[arg(long, group = "question")]
    pub unmanaged: bool,
    /// Explain one object: TYPE/NAME in the namespace of -n
    #[arg(long, group = "question", value_name = "TYPE/NAME", conflicts_with = "owners")]
    pub why: Option<String>,
    /// Show only objects of these kinds: TYPE[,TYPE…] as kubectl knows them; what is hidden is counted
    #[arg(long = "kind", value_name = "TYPE", value_delimiter = ',', conflicts_with = "why")]
    pub kinds: Vec<String>,
    /// Show only objects that live and that this label selector matches; what is hidden is counted
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "why")]
    pub selector: Option<String>,
    /// Read the records of Helm's releases, which are Secrets: then it is known what a release lists. Only the identities
    /// of its objects are kept, and nothing of a Secret is shown
    #[arg(long, conflicts_with = "snapshot")]
    pub read_secrets: bool,
    /// Read owners from this context's cluster too: a hub whose Kustomizations, HelmReleases and Applications apply to
    /// others. Those whose address is this cluster's count as its owners; the rest is remote and not checked. To learn
    /// the address in a kubeConfig Secret, add --read-secrets
    #[arg(long, value_name = "CONTEXT", conflicts_with = "snapshot")]
    pub owner_context: Option<String>,
    /// tree, table, wide, json, yaml or name
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    pub output: Format,
    /// No header line in tables
    #[arg(long)]
    pub no_headers: bool,
    /// Read this recorded cluster instead of a live one
    #[arg(long, value_name = "FILE")]
    pub snapshot: Option<PathBuf>,
}

/// Reads the cluster and answers.
///
/// # Errors
/// When the cluster cannot be read at all, or an owner or object that was named does not exist.
pub async fn run(args: &InventoryArgs, session: &mut Session) -> Result<ExitCode> {
    let selector = args.selector.as_deref().map(filters::selector).transpose()?;
    let Read { snapshot, narrowed, given } = reading::read(args, session).await?;
    let index = Index::build_with(&snapshot, &given);
    let filter = InventoryFilter { kinds: filters::kinds(&args.kinds, &index)?, selector };
    let chosen = chosen(args, session, &index)?;
    let contents = if args.owners.is_empty() || args.snapshot.is_some() {
        vec![]
    } else {
        contents(session, &snapshot, &index, &chosen).await?
    };
    let views = Views::new(&index, &contents);
    let body = answer(args, session, &snapshot, &views, &index, &chosen)?;
    let document =
        InventoryDocument { narrowed, census: census_of(args, session, &index), ..views.document(body, &filter) };
    session.terminal.data(&show::render(&document, args.output, !args.no_headers)?)?;
    session.terminal.status(&show::summary(&document));
    show::hidden(&document).into_iter().for_each(|line| session.terminal.status(&line));
    let notes = document.census.iter().flat_map(labels::notes);
    notes.for_each(|note| session.terminal.warning(&sanitize::one_line(&note)));
    Ok(session.report_gaps(&snapshot.gaps))
}

/// The owners in question: those named, else all of the system and namespace asked for.
fn chosen(args: &InventoryArgs, session: &Session, index: &Index<'_>) -> Result<Vec<OwnerId>> {
    if !args.owners.is_empty() {
        let namespace = session.connection.namespace.as_deref();
        return args.owners.iter().map(|text| owners::find(text, namespace, index)).collect();
    }
    let system = args.by.as_deref().map(owners::system).transpose()?;
    let namespace = session.connection.namespace.as_ref().filter(|_| args.why.is_none());
    let wanted = |owner: &OwnerId| {
        system.as_ref().is_none_or(|system| *system == owner.system)
            && namespace.is_none_or(|namespace| *namespace == owner.namespace)
    };
    Ok(index.owners().map(|owner| owner.id.clone()).filter(wanted).collect())
}

fn answer(
    args: &InventoryArgs,
    session: &Session,
    snapshot: &Snapshot,
    views: &Views<'_, '_>,
    index: &Index<'_>,
    chosen: &[OwnerId],
) -> Result<Body> {
    if let Some(text) = &args.why {
        return Ok(Body::Why(Box::new(views.why(object(text, session, snapshot)?))));
    }
    if let Some(question) = question(args) {
        let narrowed = !args.owners.is_empty() || args.by.is_some() || session.connection.namespace.is_some();
        let here = |object: &ObjectMetadata| {
            session.connection.namespace.as_ref().is_none_or(|namespace| **namespace == *object.id.namespace)
        };
        let asked = |owner: &OwnerId| !narrowed || chosen.contains(owner) || in_namespace(owner, args, session);
        let wanted = |object: &ObjectMetadata, owners: &[OwnerId]| match owners {
            [] => here(object),
            owners => owners.iter().any(asked),
        };
        return Ok(Body::Findings(views.findings(question, wanted)));
    }
    if args.output == Format::Tree {
        let whole = args.owners.is_empty() && args.by.is_none() && session.connection.namespace.is_none();
        return Ok(Body::Tree(if whole { views.forest() } else { views.tree(chosen) }));
    }
    let owners = chosen.iter().filter_map(|id| index.owner(id));
    if args.owners.is_empty() {
        return Ok(Body::Owners(owners.map(|owner| views.summary(owner)).collect()));
    }
    let objects = owners.map(|owner| OwnerObjects { owner: views.summary(owner), objects: views.objects(owner) });
    Ok(Body::Objects(objects.collect()))
}

/// An owner that does not exist is in no list of owners; the system and namespace that its claim names decide.
fn in_namespace(owner: &OwnerId, args: &InventoryArgs, session: &Session) -> bool {
    args.owners.is_empty()
        && args.by.as_ref().is_none_or(|system| *system == owner.system)
        && session.connection.namespace.as_ref().is_none_or(|namespace| *namespace == owner.namespace)
}

fn question(args: &InventoryArgs) -> Option<Question> {
    [
        (args.leaked, Question::Leaked),
        (args.orphaned, Question::Orphaned),
        (args.conflicts, Question::Conflicts),
        (args.unmanaged, Question::Unmanaged),
    ]
    .into_iter()
    .find_map(|(asked, question)| asked.then_some(question))
}

/// What marks say of a whole system that keeps no record.
fn census_of(args: &InventoryArgs, session: &Session, index: &Index<'_>) -> Option<LabelReport> {
    let whole = args.owners.is_empty() && args.why.is_none() && question(args).is_none();
    let namespace = session.connection.namespace.as_deref();
    let here = |object: &ObjectMetadata| namespace.is_none_or(|namespace| *object.id.namespace == *namespace);
    ownership::report::labels::of(args.by.as_deref().filter(|_| whole)?, index, &here)
}

/// The object that `TYPE/NAME` names, in the namespace of `-n` or cluster-scoped.
fn object<'a>(text: &str, session: &Session, snapshot: &'a Snapshot) -> Result<&'a ObjectMetadata> {
    let (word, name) = text.split_once('/').ok_or_else(|| Error::usage(format!("{text:?} is not TYPE/NAME")))?;
    let named = |object: &&ObjectMetadata| {
        let kind = snapshot.resource_type(&object.id.group_kind());
        *object.id.name == *name && kind.is_some_and(|kind| targets::means(kind, word))
    };
    let namespace = session.connection.namespace.as_deref();
    let here = |object: &&ObjectMetadata| namespace.is_none_or(|namespace| *object.id.namespace == *namespace);
    let found: Vec<&ObjectMetadata> = snapshot.objects.iter().filter(named).filter(here).collect();
    match found[..] {
        [one] => Ok(one),
        [] => Err(Error::failed(format!("no object {text:?} was found")).hint("give its namespace with -n")),
        _ => {
            let places: Vec<String> = found.iter().map(|object| object.id.to_string()).collect();
            Err(Error::usage(format!("{text:?} is not unique")).hint(format!("one of {}", places.join(", "))))
        }
    }
}

/// The content of the owners' objects, for their readiness. Secrets and ConfigMaps have none to tell and stay unread.
async fn contents(
    session: &Session,
    snapshot: &Snapshot,
    index: &Index<'_>,
    chosen: &[OwnerId],
) -> Result<Vec<Resource>> {
    let members = chosen.iter().filter_map(|id| match &index.owner(id)?.members {
        Members::Listed(ids) => Some(ids),
        _ => None,
    });
    let silent = ["Secret", "ConfigMap"];
    let telling = members.flatten().filter(|id| !silent.contains(&&*id.kind) && snapshot.object(id).is_some());
    let wanted: Vec<_> = telling.cloned().collect();
    Ok(session.cluster().await?.fetch_all(snapshot, wanted).await)
}
