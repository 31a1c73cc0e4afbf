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
use gitops_core::text::pluralize;

/// Returns the directory of each source, and the sources of the same repository that follow another ref.
/// `repo` is a checkout that is merged into `branch`, or into the branch that is checked out.
/// `named` holds sources as KIND/NAMESPACE/NAME=DIR.
pub(crate) fn find(
    repo: Option<&Path>,
    branch: Option<&str>,
    named: &[String],
    snapshot: &Snapshot,
) -> Result<(BTreeMap<SourceId, PathBuf>, BTreeMap<SourceId, String>)> {
    let (mut folders, mut other_ref) = (BTreeMap::new(), BTreeMap::new());
    if let Some(repo) = repo {
        let checkout = Checkout::find(repo)?;
        let branch = branch.map_or_else(|| checkout.branch(), |branch| Ok(branch.to_owned()))?;
        let found = CheckoutSources::find(snapshot, &checkout.remotes()?, &branch);
        if found.same.is_empty() && named.is_empty() {
            let why = if found.other_ref.is_empty() {
                "no GitRepository of the cluster has the URL of one of its remotes".to_owned()
            } else {
                let others: Vec<String> = found.other_ref.iter().map(|(id, what)| format!("{id} ({what})")).collect();
                format!("not deployed from branch {branch}: {}", others.join(", "))
            };
            return Err(Error::failed(format!("{} is not a source of this cluster: {why}", repo.display()))
                .hint("name the branch with --branch, or the source with --source GitRepository/NAMESPACE/NAME=DIR"));
        }
        folders.extend(found.same.into_iter().map(|id| (id, checkout.top().to_path_buf())));
        other_ref = found.other_ref;
    }
    for text in named {
        let parsed = text.split_once('=').and_then(|(id, folder)| Some((SourceId::parse(id)?, folder)));
        let (id, folder) = parsed.ok_or_else(|| Error::usage(format!("{text:?} is not KIND/NAMESPACE/NAME=DIR")))?;
        if matching::source(snapshot, &id).is_none() {
            return Err(Error::failed(format!("no source {id} in this cluster"))
                .hint("write the kind as in sourceRef, for example GitRepository"));
        }
        other_ref.remove(&id);
        folders.insert(id, PathBuf::from(folder));
    }
    Ok((folders, other_ref))
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
