//! Which sources of a cluster a working tree becomes, and what their specs say of packing it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::Value;

use super::tree::TreeArgs;
use crate::error::{Error, Result};
use crate::tools::git::Checkout;
use gitops_core::flux::source::artifact::{IgnoreFilter, SourceOptions};
use gitops_core::flux::source::matching;
use gitops_core::flux::source::matching::{GROUP, Match, SourceId};
use gitops_core::flux::source::tree::{File, Tree};
use gitops_core::flux::spec::KustomizationSpec;
use gitops_core::kubernetes::gap::{Gap, GapKind};
use gitops_core::kubernetes::object::{ObjectId, Resource};
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::ownership::schemes::flux_kustomization::{GROUP as GROUP_OF_OWNERS, KIND};

/// The sources that the tree becomes, and those of the same repository that are deployed from another ref.
pub(crate) fn find(
    args: &TreeArgs,
    snapshot: &Snapshot,
) -> Result<(BTreeMap<SourceId, PathBuf>, BTreeMap<SourceId, String>)> {
    let (mut folders, mut pinned) = (BTreeMap::new(), BTreeMap::new());
    if let Some(repo) = &args.repo {
        let checkout = Checkout::find(repo)?;
        let remotes = checkout.remotes()?;
        let branch = args.branch.clone().map_or_else(|| checkout.branch(), Ok)?;
        let repositories = snapshot.full.iter().filter(|full| full.object.id.is(GROUP, "GitRepository"));
        for repository in repositories {
            let id = source_id(&repository.object.id);
            match matching::compare(repository, &remotes, &branch) {
                Match::Same => drop(folders.insert(id, checkout.top().to_path_buf())),
                Match::NotThisRef(what) => drop(pinned.insert(id, what)),
                Match::OtherUrl => {}
            }
        }
        if folders.is_empty() && args.source.is_empty() {
            let others: BTreeSet<String> = pinned.iter().map(|(id, what)| format!("{id} ({what})")).collect();
            let why = if others.is_empty() {
                "no GitRepository of the cluster has the URL of one of its remotes".to_owned()
            } else {
                format!("not deployed from branch {branch}: {}", others.into_iter().collect::<Vec<_>>().join(", "))
            };
            return Err(Error::failed(format!("{} is no source of this cluster: {why}", repo.display()))
                .hint("name the branch with --branch, or say --source GitRepository/NAMESPACE/NAME=DIR"));
        }
    }
    for text in &args.source {
        let wrong = || Error::usage(format!("{text:?} is not KIND/NAMESPACE/NAME=DIR"));
        let (id, folder) = text.split_once('=').ok_or_else(wrong)?;
        let [kind, namespace, name] = id.split('/').collect::<Vec<_>>()[..] else { return Err(wrong()) };
        let id = SourceId { kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() };
        if !snapshot.full.iter().any(|full| source_id(&full.object.id) == id) {
            return Err(Error::failed(format!("no source {id} in this cluster"))
                .hint("kinds are written as in sourceRef, such as GitRepository"));
        }
        pinned.remove(&id);
        folders.insert(id, PathBuf::from(folder));
    }
    Ok((folders, pinned))
}

/// The sources that no Kustomization uses, when another of them is used.
///
/// # Errors
/// When none is: a plan of nothing would say that nothing goes.
pub(crate) fn unused(folders: &BTreeMap<SourceId, PathBuf>, snapshot: &Snapshot) -> Result<Vec<SourceId>> {
    let kustomizations = snapshot.full.iter().filter(|full| full.object.id.is(GROUP_OF_OWNERS, KIND));
    let spec = |full: &Resource| KustomizationSpec::new(full.spec());
    let used: BTreeSet<SourceId> = kustomizations.map(|full| spec(full).source(&full.object.id.namespace)).collect();
    let unused: Vec<SourceId> = folders.keys().filter(|id| !used.contains(id)).cloned().collect();
    if unused.len() < folders.len() {
        return Ok(unused);
    }
    let names: Vec<String> = unused.iter().map(ToString::to_string).collect();
    Err(Error::failed(format!("no Kustomization of this cluster uses {}", names.join(" or ")))
        .hint("`kubectl gitops get kustomizations -A -o wide` shows the sources that are used"))
}

/// Why last applied commits could not be built anew, for directories that are checkouts.
pub(crate) fn without_history(unchecked: &BTreeSet<SourceId>, folders: &BTreeMap<SourceId, PathBuf>) -> Vec<String> {
    let directories: BTreeSet<&PathBuf> = unchecked.iter().filter_map(|id| folders.get(id)).collect();
    let warning = |directory: &PathBuf| {
        let checkout = Checkout::find(directory).ok().filter(|checkout| !checkout.ignores(directory))?;
        let (why, how) = match checkout.is_shallow() {
            true => ("is a shallow clone", "; `git fetch --unshallow` brings the history"),
            false => ("does not have the commit that Flux applied last", ""),
        };
        let directory = directory.display();
        Some(format!("{directory} {why}: builds could not be compared with the controller's own{how}"))
    };
    directories.into_iter().filter_map(warning).collect()
}

fn source_id(id: &ObjectId) -> SourceId {
    SourceId { kind: id.kind.to_string(), namespace: id.namespace.to_string(), name: id.name.to_string() }
}

fn source<'a>(snapshot: &'a Snapshot, id: &SourceId) -> Option<&'a Resource> {
    snapshot.full.iter().find(|full| source_id(&full.object.id) == *id)
}

/// What the source says of packing.
pub(crate) fn options(snapshot: &Snapshot, id: &SourceId) -> SourceOptions {
    let source = source(snapshot, id);
    let sparse = source.and_then(|source| source.at("/spec/sparseCheckout")).and_then(Value::as_array);
    let copies = source.and_then(|source| source.text("/spec/layerSelector/operation")) == Some("copy");
    SourceOptions {
        filter: match id.kind.as_str() {
            "Bucket" => IgnoreFilter::RootOnly,
            "ExternalArtifact" => IgnoreFilter::Nothing,
            _ if copies => IgnoreFilter::Nothing,
            _ => IgnoreFilter::Full,
        },
        ignore: source.and_then(|source| source.text("/spec/ignore")).map(str::to_owned),
        sparse: sparse.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect(),
    }
}

/// What a source takes from elsewhere, which is not in the tree.
pub(crate) fn unread(snapshot: &Snapshot, id: &SourceId, tree: &Tree) -> Option<Gap> {
    let source = source(snapshot, id)?;
    let includes = source.at("/spec/include").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    let submodules = source.flag("/spec/recurseSubmodules") && tree.iter().any(|(_, file)| *file == File::Submodule);
    let what = match (includes, submodules) {
        (true, _) => "it includes artifacts of other sources",
        (_, true) => "it has submodules",
        _ => return None,
    };
    let message = format!("{what}, whose content is not in this tree");
    Some(Gap { kind: GapKind::Failed, subject: id.to_string(), namespace: None, message })
}
