//! Selects the sources of a cluster that a working tree becomes the content of, and packs their artifacts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::tree::{CheckoutFacts, NotPlanned, SharedWork};
use crate::error::Error;
use crate::tools::git::{Checkout, git_in};
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
    /// Name of the remote with the address of the sources.
    pub(crate) remote: String,
}

/// Finds the sources of a tree. `repo` is a checkout that is merged into `branch`, or into the one branch that sources with
/// its address follow, whatever is checked out. `named` holds sources as KIND/NAMESPACE/NAME=DIR.
///
/// Fails if no source has the address of the checkout, if these follow no branch, or several and none is chosen.
pub(super) fn find(
    repo: Option<&Path>,
    branch: Option<&str>,
    named: &[String],
    snapshot: &Snapshot,
    shared: &SharedWork,
) -> Result<TreeSources, NotPlanned> {
    let mut tree = TreeSources::default();
    if let Some(repo) = repo {
        let CheckoutFacts { checkout, remotes, branch: checked_out } = shared.checkout(repo)?;
        let urls: Vec<String> = remotes.iter().map(|(_, url)| url.clone()).collect();
        let mut found = CheckoutSources::find(snapshot, &urls);
        match into_branch(&found, branch, checked_out.as_deref(), snapshot) {
            Some(into) => {
                let sources = found.branches.remove(&into).unwrap_or_default();
                let theirs = remotes
                    .into_iter()
                    .find(|(_, url)| sources.iter().any(|id| matching::has_address(snapshot, id, url)));
                let remote = theirs.map(|(name, _)| name).unwrap_or_default();
                tree.pinned = found.other_refs(Some(&into));
                tree.folders.extend(sources.iter().map(|id| (id.clone(), checkout.top().to_path_buf())));
                tree.merged = Some(MergedCheckout { checkout, into, sources, remote });
            }
            None if named.is_empty() => return Err(no_source(repo, branch, &urls, &found, snapshot)),
            None => tree.pinned = found.other_refs(None),
        }
    }
    for text in named {
        let parsed = text.split_once('=').and_then(|(id, folder)| Some((SourceId::parse(id)?, folder)));
        let (id, folder) = parsed.ok_or_else(|| not_a_source(text, snapshot))?;
        if matching::source(snapshot, &id).is_none() {
            let error = Error::failed(format!("no source {id} in this cluster"));
            return Err(error.hint(format!("name a source: {}", source_flags(folder, snapshot))).into());
        }
        tree.pinned.remove(&id);
        tree.folders.insert(id, PathBuf::from(folder));
    }
    Ok(tree)
}

fn not_a_source(text: &str, snapshot: &Snapshot) -> Error {
    let directory = text.rsplit_once('=').map_or(".", |(_, directory)| directory);
    Error::usage(format!("{text:?} is not KIND/NAMESPACE/NAME=DIR"))
        .hint(format!("name a source: {}", source_flags(directory, snapshot)))
}

/// Returns the branch that a checkout is merged into: the one that was named, the only one that its sources follow, the only one
/// of sources that something uses, or, of several, the one that is checked out.
fn into_branch(
    found: &CheckoutSources,
    named: Option<&str>,
    checked_out: Option<&str>,
    snapshot: &Snapshot,
) -> Option<String> {
    let branches = &found.branches;
    if let Some(named) = named {
        return branches.contains_key(named).then(|| named.to_owned());
    }
    let used = matching::sources_in_use(snapshot);
    let in_use: Vec<&String> =
        branches.iter().filter(|(_, sources)| !sources.is_disjoint(&used)).map(|(branch, _)| branch).collect();
    match (&in_use[..], branches.len()) {
        ([one], _) => Some((*one).clone()),
        (_, 1) => branches.keys().next().cloned(),
        _ => checked_out.filter(|branch| branches.contains_key(*branch)).map(str::to_owned),
    }
}

/// Says why no source of the cluster gets a checkout as its content.
fn no_source(
    repo: &Path,
    branch: Option<&str>,
    remotes: &[String],
    found: &CheckoutSources,
    snapshot: &Snapshot,
) -> NotPlanned {
    let directory = repo.display();
    let name_it = format!("name the source: {}", source_flags(&directory.to_string(), snapshot));
    if remotes.is_empty() {
        let error = Error::failed(format!("{directory} has no remote, so its source in the cluster is not known"));
        return error.hint(name_it).into();
    }
    let sources = found.other_refs(None);
    let followed = join_limited(sources.iter().map(|(id, what)| format!("{id} ({what})")), NAMED);
    let flags: Vec<String> = found.branches.keys().map(|branch| format!("--branch {branch}")).collect();
    if sources.is_empty() {
        return no_address(repo, remotes, snapshot);
    }
    if flags.is_empty() {
        let id = sources.keys().next().map(ToString::to_string).unwrap_or_default();
        let error = Error::failed(format!("a merge of {directory} changes no source of this cluster: {followed}"));
        let hint = format!("to plan the tree as the content of a source: --source {id}={directory}");
        return NotPlanned::Unaffected(error.hint(hint));
    }
    let hint = format!("choose the branch that it is merged into: {}", flags.join(" or "));
    let Some(branch) = branch else {
        let message = format!("the sources of {directory} follow several branches: {followed}");
        return Error::failed(message).hint(hint).into();
    };
    let message = format!("no source of {directory} in this cluster follows branch {branch}: {followed}");
    NotPlanned::Unaffected(Error::failed(message).hint(hint))
}

/// Returns the flags that make a directory the content of a source, for each source that something uses.
fn source_flags(directory: &str, snapshot: &Snapshot) -> String {
    let all = matching::sources_in_use(snapshot);
    let used = all.iter().filter(|id| id.kind == "GitRepository" && matching::source(snapshot, id).is_some());
    let flags: Vec<String> = used.map(|id| format!("--source {id}={directory}")).collect();
    match &flags[..] {
        [] => format!("--source GitRepository/NAMESPACE/NAME={directory}"),
        flags => flags.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(" or "),
    }
}

/// Says that no source has the address of a checkout, with the addresses of both. The checkout can be another repository, so the
/// hint names a source only for one that is the same.
fn no_address(repo: &Path, remotes: &[String], snapshot: &Snapshot) -> NotPlanned {
    let flags = source_flags(&repo.display().to_string(), snapshot);
    let hint = format!("change to a checkout of the source; for one with another address, name its source: {flags}");
    let own: BTreeSet<String> = remotes.iter().map(|remote| matching::without_credentials(remote)).collect();
    let own = format!("its remotes are {}", join_limited(own, NAMED));
    let pushed = matching::pushed_from(snapshot, remotes);
    if !pushed.is_empty() {
        let names = join_limited(pushed.iter().map(ToString::to_string), NAMED);
        let flags = join_limited(pushed.iter().map(|id| format!("--source {id}=DIR")), NAMED);
        let message = format!("no GitRepository of this cluster has the address of {}: {own}", repo.display());
        return Error::failed(format!("{message}; the content of {names} is pushed from it"))
            .hint(format!("name the directory that is pushed: {flags}"))
            .into();
    }
    let unread = snapshot.gaps.iter().find(|gap| gap.subject.starts_with("gitrepositories"));
    if let Some(gap) = unread {
        let message = format!(
            "the source of {} is not known: {own}; GitRepositories could not be read: {}",
            repo.display(),
            gap.message
        );
        return Error::failed(message).hint(hint).into();
    }
    let addresses = matching::addresses(snapshot);
    let message = format!("no source of this cluster has the address of {}: {own}", repo.display());
    if addresses.is_empty() {
        let other = format!("name a source of another kind: --source OCIRepository/NAMESPACE/NAME={}", repo.display());
        let error = Error::failed(format!("{message}; the cluster has no GitRepository"));
        return NotPlanned::Unaffected(error.hint(format!("choose another cluster with --context, or {other}")));
    }
    let addresses = join_limited(addresses, NAMED);
    let error = Error::failed(format!("{message}; the GitRepositories of the cluster have {addresses}"));
    NotPlanned::Unaffected(error.hint(hint))
}

/// Returns the sources that nothing in the cluster uses.
/// Fails if nothing uses any of them: the plan would be empty and look safe.
pub(super) fn unused(folders: &BTreeMap<SourceId, PathBuf>, snapshot: &Snapshot) -> Result<Vec<SourceId>, NotPlanned> {
    let used = matching::sources_in_use(snapshot);
    let unused: Vec<SourceId> = folders.keys().filter(|id| !used.contains(id)).cloned().collect();
    if unused.len() < folders.len() {
        return Ok(unused);
    }
    let names: Vec<String> = unused.iter().map(ToString::to_string).collect();
    let error = Error::failed(format!("nothing in this cluster uses {}", names.join(" or ")))
        .hint("`kubectl gitops get kustomizations -A -o wide` shows the sources in use");
    // What could not be read may use them.
    Err(if snapshot.gaps.is_empty() { NotPlanned::Unaffected(error) } else { error.into() })
}

/// Returns a warning for each checkout that does not have a last applied commit, so that its build is not verified.
pub(super) fn missing_history(
    sources: &BTreeSet<SourceId>,
    folders: &BTreeMap<SourceId, PathBuf>,
    shared: &SharedWork,
) -> Vec<String> {
    let directories: BTreeSet<&PathBuf> = sources.iter().filter_map(|id| folders.get(id)).collect();
    let checkouts = directories.into_iter().filter_map(|directory| {
        let is_shallow = shared.is_shallow(directory).ok().flatten()?;
        let (why, how) = if is_shallow {
            ("is a shallow clone", format!("; `{} fetch --unshallow` fetches the history", git_in(directory)))
        } else {
            ("does not have the commit that Flux applied last", String::new())
        };
        let compared = "builds could not be compared with the controller's own";
        Some(format!("{} {why}: {compared}{how}", directory.display()))
    });
    checkouts.collect()
}

/// Returns the options with which source-controller packs a source.
pub(crate) fn options(snapshot: &Snapshot, id: &SourceId) -> SourceOptions {
    matching::source(snapshot, id).map(SourceOptions::of).unwrap_or_default()
}

/// Returns a gap if the artifact of a source has content that is not in its tree, and one for its files that could not be
/// read.
pub(crate) fn missing_content(snapshot: &Snapshot, id: &SourceId, tree: &Tree, artifact: &Artifact) -> Vec<Gap> {
    let elsewhere = matching::source(snapshot, id).and_then(|source| options::missing_content(source.spec(), tree));
    let unread = match &artifact.unread()[..] {
        [] => None,
        [one] => Some(one.clone()),
        [first, rest @ ..] => Some(format!("{first}; {} could not be read either", pluralize(rest.len(), "more file"))),
    };
    let messages = elsewhere.map(str::to_owned).into_iter().chain(unread);
    messages.map(|message| Gap { kind: GapKind::Failed, subject: id.to_string(), namespace: None, message }).collect()
}
