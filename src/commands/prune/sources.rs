//! Selects the sources of a cluster that a working tree becomes the content of, and packs their artifacts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::tools::git::Checkout;
use gitops_core::flux::source::artifact::Artifact;
use gitops_core::flux::source::matching;
use gitops_core::flux::source::matching::CheckoutSources;
use gitops_core::flux::source::options;
use gitops_core::flux::source::options::SourceOptions;
use gitops_core::flux::source::tree::Tree;
use gitops_core::flux::spec::SourceId;
use gitops_core::kubernetes::gap::{Gap, GapKind};
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::text::{join_limited, pluralize};

/// Number of sources or addresses that one message names.
const NAMED: usize = 5;

/// Sources of a cluster that get a tree as their content.
#[derive(Debug, Default)]
pub(crate) struct TreeSources {
    /// Directory of each source.
    pub(crate) folders: BTreeMap<SourceId, PathBuf>,
    /// Sources of the same repository that follow another ref, with that ref.
    pub(crate) pinned: BTreeMap<SourceId, String>,
    /// Checkout that is merged into a branch.
    pub(crate) merged: Option<MergedCheckout>,
}

/// A checkout that is merged into the branch that sources follow.
#[derive(Debug)]
pub(crate) struct MergedCheckout {
    pub(crate) checkout: Checkout,
    pub(crate) into: String,
    pub(crate) sources: BTreeSet<SourceId>,
}

/// Finds the sources of a tree. `repo` is a checkout that is merged into `branch`, or into the one branch that sources with
/// its address follow, whatever is checked out. `named` holds sources as KIND/NAMESPACE/NAME=DIR.
///
/// Fails if no source has the address of the checkout, if these follow no branch, or several and none is chosen.
pub(crate) fn find(
    repo: Option<&Path>,
    branch: Option<&str>,
    named: &[String],
    snapshot: &Snapshot,
) -> Result<TreeSources> {
    let mut tree = TreeSources::default();
    if let Some(repo) = repo {
        let checkout = Checkout::find(repo)?;
        let remotes = checkout.remotes()?;
        let mut found = CheckoutSources::find(snapshot, &remotes);
        match into_branch(&found, branch, checkout.branch().as_deref()) {
            Some(into) => {
                let sources = found.branches.remove(&into).unwrap_or_default();
                tree.pinned = found.other_refs(Some(&into));
                tree.folders.extend(sources.iter().map(|id| (id.clone(), checkout.top().to_path_buf())));
                tree.merged = Some(MergedCheckout { checkout, into, sources });
            }
            None if named.is_empty() => return Err(no_source(repo, branch, &remotes, &found, snapshot)),
            None => tree.pinned = found.other_refs(None),
        }
    }
    for text in named {
        let parsed = text.split_once('=').and_then(|(id, folder)| Some((SourceId::parse(id)?, folder)));
        let (id, folder) = parsed.ok_or_else(|| Error::usage(format!("{text:?} is not KIND/NAMESPACE/NAME=DIR")))?;
        if matching::source(snapshot, &id).is_none() {
            return Err(Error::failed(format!("no source {id} in this cluster"))
                .hint("write the kind as in sourceRef, for example GitRepository"));
        }
        tree.pinned.remove(&id);
        tree.folders.insert(id, PathBuf::from(folder));
    }
    Ok(tree)
}

/// Returns the branch that a checkout is merged into: the one that was named, the only one that its sources follow, or,
/// of several, the one that is checked out.
fn into_branch(found: &CheckoutSources, named: Option<&str>, checked_out: Option<&str>) -> Option<String> {
    let branches = &found.branches;
    match (named, branches.len()) {
        (Some(named), _) => branches.contains_key(named).then(|| named.to_owned()),
        (None, 1) => branches.keys().next().cloned(),
        (None, _) => checked_out.filter(|branch| branches.contains_key(*branch)).map(str::to_owned),
    }
}

/// Says why no source of the cluster gets a checkout as its content.
fn no_source(
    repo: &Path,
    branch: Option<&str>,
    remotes: &[String],
    found: &CheckoutSources,
    snapshot: &Snapshot,
) -> Error {
    let directory = repo.display();
    let name_it = format!("name the source: --source GitRepository/NAMESPACE/NAME={directory}");
    if remotes.is_empty() {
        return Error::failed(format!("{directory} has no remote, so its source in the cluster is not known"))
            .hint(name_it);
    }
    let sources = found.other_refs(None);
    let followed = join_limited(sources.iter().map(|(id, what)| format!("{id} ({what})")), NAMED);
    let flags: Vec<String> = found.branches.keys().map(|branch| format!("--branch {branch}")).collect();
    if sources.is_empty() {
        return no_address(repo, remotes, snapshot).hint(name_it);
    }
    if flags.is_empty() {
        let id = sources.keys().next().map(ToString::to_string).unwrap_or_default();
        return Error::failed(format!("a merge of {directory} changes no source of this cluster: {followed}"))
            .hint(format!("to plan the tree as the content of a source: --source {id}={directory}"));
    }
    let message = match branch {
        Some(branch) => format!("no source of {directory} in this cluster follows branch {branch}: {followed}"),
        None => format!("the sources of {directory} follow several branches: {followed}"),
    };
    Error::failed(message).hint(format!("choose the branch that it is merged into: {}", flags.join(" or ")))
}

/// Says that no source has the address of a checkout, with the addresses of both.
fn no_address(repo: &Path, remotes: &[String], snapshot: &Snapshot) -> Error {
    let own: BTreeSet<String> = remotes.iter().map(|remote| matching::without_credentials(remote)).collect();
    let own = format!("its remotes are {}", join_limited(own, NAMED));
    let unread = snapshot.gaps.iter().find(|gap| gap.subject.starts_with("gitrepositories"));
    if let Some(gap) = unread {
        return Error::failed(format!(
            "the source of {} is not known: {own}; GitRepositories could not be read: {}",
            repo.display(),
            gap.message
        ));
    }
    let addresses = matching::addresses(snapshot);
    let cluster = if addresses.is_empty() {
        "the cluster has no GitRepository".to_owned()
    } else {
        format!("the GitRepositories of the cluster have {}", join_limited(addresses, NAMED))
    };
    Error::failed(format!("no source of this cluster has the address of {}: {own}; {cluster}", repo.display()))
}

/// Returns the sources that nothing in the cluster uses.
/// Fails if nothing uses any of them: the plan would be empty and look safe.
pub(crate) fn unused(folders: &BTreeMap<SourceId, PathBuf>, snapshot: &Snapshot) -> Result<Vec<SourceId>> {
    let used = matching::sources_in_use(snapshot);
    let unused: Vec<SourceId> = folders.keys().filter(|id| !used.contains(id)).cloned().collect();
    if unused.len() < folders.len() {
        return Ok(unused);
    }
    let names: Vec<String> = unused.iter().map(ToString::to_string).collect();
    Err(Error::failed(format!("nothing in this cluster uses {}", names.join(" or ")))
        .hint("`kubectl gitops get kustomizations -A -o wide` shows the sources in use"))
}

/// Returns a warning for each checkout that does not have a last applied commit, so that its build is not verified.
pub(crate) fn missing_history(sources: &BTreeSet<SourceId>, folders: &BTreeMap<SourceId, PathBuf>) -> Vec<String> {
    let directories: BTreeSet<&PathBuf> = sources.iter().filter_map(|id| folders.get(id)).collect();
    let mut warnings = Vec::new();
    for directory in directories {
        let Some(checkout) =
            Checkout::containing(directory).ok().flatten().filter(|checkout| !checkout.ignores(directory))
        else {
            continue;
        };
        let (why, how) = if checkout.is_shallow() {
            ("is a shallow clone", "; `git fetch --unshallow` fetches the history")
        } else {
            ("does not have the commit that Flux applied last", "")
        };
        let compared = "builds could not be compared with the controller's own";
        warnings.push(format!("{} {why}: {compared}{how}", directory.display()));
    }
    warnings
}

/// Packs a tree as source-controller does for a source.
pub(crate) fn pack(snapshot: &Snapshot, id: &SourceId, tree: &Tree) -> Arc<Artifact> {
    let options = matching::source(snapshot, id).map(SourceOptions::of).unwrap_or_default();
    Arc::new(Artifact::pack(tree, &options))
}

/// Returns a gap if the artifact of a source has content that is not in its tree, and one for its files that could not be
/// read.
pub(crate) fn missing_content(snapshot: &Snapshot, id: &SourceId, tree: &Tree, artifact: &Artifact) -> Vec<Gap> {
    let elsewhere = matching::source(snapshot, id).and_then(|source| options::missing_content(source, tree));
    let unread = match artifact.unread() {
        [] => None,
        [one] => Some(one.clone()),
        [first, rest @ ..] => Some(format!("{first}; {} could not be read either", pluralize(rest.len(), "more file"))),
    };
    let messages = elsewhere.map(str::to_owned).into_iter().chain(unread);
    messages.map(|message| Gap { kind: GapKind::Failed, subject: id.to_string(), namespace: None, message }).collect()
}
