//! Subject of a plan of a working tree, and how far the tree is behind what is deployed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use chrono::SecondsFormat;

use super::{SharedWork, TreeArgs};
use crate::cluster::Cluster;
use crate::commands::Session;
use crate::commands::prune::sources::{MergedCheckout, TreeSources};
use crate::error::{Error, Result};
use crate::tools::git::{Checkout, WorktreeState, git_in};
use gitops_core::flux::kustomize_controller::Version;
use gitops_core::flux::source::matching;
use gitops_core::flux::source::obstacles::obstacles;
use gitops_core::flux::spec::SourceId;
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::plan::Subject;
use gitops_core::plan::subject::{SubjectContent, SubjectSource, short_revision};
use gitops_core::text::shell_word;

/// A tree that is planned.
pub(super) struct PlannedTree {
    pub(super) subject: Subject,
    /// Files that are read for each source.
    pub(super) states: BTreeMap<SourceId, WorktreeState>,
    /// Deployed revisions that the checkout does not have.
    missing: BTreeSet<String>,
    /// True if the checkout is a shallow clone.
    is_shallow: bool,
    /// Words that run git in the checkout.
    git: String,
    /// Remote and branch that are deployed, for `git fetch`: a clone of one branch fetches no other without them.
    upstream: Option<String>,
}

impl PlannedTree {
    /// Describes the tree of these sources.
    ///
    /// Fails if git fails, or a merge result is asked for and the checkout does not have a commit.
    pub(super) fn of(args: &TreeArgs, found: &TreeSources, snapshot: &Snapshot, shared: &SharedWork) -> Result<Self> {
        let state = args.options.state();
        let mut planned = Self {
            subject: Subject {
                tree: shown_tree(args, found),
                content: content(args),
                into: found.merged.as_ref().map(|merged| merged.into.clone()),
                sources: found.folders.keys().map(|id| subject_source(id, snapshot)).collect(),
                ..Subject::default()
            },
            states: found.folders.keys().map(|id| (id.clone(), state.clone())).collect(),
            missing: BTreeSet::new(),
            is_shallow: false,
            git: "git".to_owned(),
            upstream: found
                .merged
                .as_ref()
                .map(|merged| format!(" {} {}", shell_word(&merged.remote), shell_word(&merged.into))),
        };
        let checkout = match &found.merged {
            Some(merged) => Some(merged.checkout.clone()),
            None => checkout_of(&found.folders)?,
        };
        if let Some(checkout) = &checkout {
            planned.git = git_in(checkout.top());
            planned.add_revision(args, checkout, &state, shared)?;
        }
        if let Some(merged) = &found.merged {
            planned.check_commit(args, merged)?;
            planned.compare(args, &merged.checkout, &merged.sources, snapshot, shared)?;
        } else if let Some(checkout) = checkout.filter(|checkout| is_whole(checkout, &found.folders)) {
            planned.compare(args, &checkout, &found.folders.keys().cloned().collect(), snapshot, shared)?;
            // A source that was named need not have the history of the directory.
            planned.missing.clear();
        }
        Ok(planned)
    }

    /// Refuses a checkout without a commit, which nobody can merge.
    fn check_commit(&self, args: &TreeArgs, merged: &MergedCheckout) -> Result<()> {
        if self.subject.revision.is_some() || args.options.rev.is_some() {
            return Ok(());
        }
        let Subject { tree, .. } = &self.subject;
        let id = merged.sources.first().map(ToString::to_string).unwrap_or_default();
        Err(Error::failed(format!("{tree} has no commit, so it cannot be merged into {}", merged.into))
            .hint(format!("commit its files, or plan them as the content of a source: --source {id}={tree}")))
    }

    /// Adds the commit, its branch, and whether files differ from it.
    fn add_revision(
        &mut self,
        args: &TreeArgs,
        checkout: &Checkout,
        state: &WorktreeState,
        shared: &SharedWork,
    ) -> Result<()> {
        let facts = shared.revision(checkout, args.options.rev.as_deref(), state)?;
        (self.subject.revision, self.subject.branch) = (facts.commit, facts.branch);
        self.subject.dirty = facts.is_dirty && !args.options.merge;
        self.is_shallow = facts.is_shallow;
        Ok(())
    }

    /// Compares the revision with the deployed commits, and adds the one that has most commits of its own.
    fn compare(
        &mut self,
        args: &TreeArgs,
        checkout: &Checkout,
        sources: &BTreeSet<SourceId>,
        snapshot: &Snapshot,
        shared: &SharedWork,
    ) -> Result<()> {
        let revision = self.subject.revision.clone();
        for id in sources {
            let commit = matching::deployed_commit(snapshot, id);
            let deployed = match commit {
                Some(commit) => shared.commit(checkout, commit)?,
                None => None,
            };
            if args.options.merge {
                let (ours, theirs) = self.merge_sides(deployed, id, snapshot)?;
                self.states.insert(id.clone(), WorktreeState::Merge { ours, theirs });
                continue;
            }
            let (Some(revision), Some(deployed)) = (&revision, &deployed) else {
                if commit.is_some() {
                    self.missing.extend(matching::deployed_revision(snapshot, id).map(short_revision));
                }
                continue;
            };
            let divergence = shared.divergence(checkout, revision, deployed)?;
            if self.is_shallow && divergence.merge_base.is_none() {
                self.missing.extend(matching::deployed_revision(snapshot, id).map(short_revision));
            } else if self.subject.behind.is_none_or(|behind| behind < divergence.behind) {
                self.subject.behind = Some(divergence.behind);
                self.subject.merge_base = divergence.merge_base;
            }
        }
        if !self.missing.is_empty() {
            // The most of some sources says nothing about the others.
            (self.subject.behind, self.subject.merge_base) = (None, None);
        }
        Ok(())
    }

    /// Returns the deployed commit and the one that is merged into it.
    fn merge_sides(&self, deployed: Option<String>, id: &SourceId, snapshot: &Snapshot) -> Result<(String, String)> {
        let Some(deployed) = deployed else {
            let Some(revision) = matching::deployed_revision(snapshot, id) else {
                return Err(Error::failed(format!("{id} has no revision yet, so nothing can be merged with it"))
                    .hint("leave --merge out"));
            };
            let clone = if self.is_shallow { "this shallow clone" } else { "the checkout" };
            return Err(Error::failed(format!(
                "{clone} does not have {}, with which --merge merges",
                short_revision(revision)
            ))
            .hint(format!("run `{}`, or leave --merge out", self.fetch())));
        };
        match &self.subject.revision {
            Some(revision) => Ok((deployed, revision.clone())),
            None => Err(Error::failed("the checkout has no such commit, so --merge has nothing to merge")
                .hint("commit the change, or leave --merge out")),
        }
    }

    /// Adds the cluster. A live plan has no time, so that two plans of the same cluster are equal to the byte.
    pub(super) fn add_cluster(&mut self, snapshot: &Snapshot, cluster: Option<&Cluster>, version: Option<Version>) {
        self.subject.server = snapshot.cluster.server.clone();
        self.subject.context = cluster.map(|cluster| cluster.context.clone()).filter(|context| !context.is_empty());
        self.subject.at = cluster.is_none().then_some(snapshot.taken);
        self.subject.controller_version = version.map(|(major, minor, patch)| format!("v{major}.{minor}.{patch}"));
    }

    /// Prints what is planned, and how far it is behind, of which verbs that propose steps say it themselves.
    pub(super) fn announce(&self, is_of_steps: bool, session: &mut Session) {
        // How far the tree is behind is a warning of its own.
        let mut text = format!("planning {}; cluster {}", self.subject.tree_text(), self.subject.cluster_text());
        if self.subject.at.is_none() {
            text += &format!("; {}", session.now.to_rfc3339_opts(SecondsFormat::Secs, true));
        }
        // The answer about several clusters says it of each.
        if !session.is_part() {
            session.terminal.status(&text);
        }
        if let Some(text) = self.subject.behind_text().filter(|_| !is_of_steps) {
            session.terminal.warning(&text);
            session.terminal.hint(if self.subject.into.is_some() {
                "--merge plans the merge result"
            } else {
                "merge the deployed branch into it first"
            });
        }
        let fetch = self.fetch();
        for revision in &self.missing {
            let unknown =
                "how far the tree is behind is not known, and builds are not compared with the controller's own";
            session
                .terminal
                .warning(&format!("the checkout lacks the history of {revision}: {unknown}; `{fetch}` fetches it"));
        }
    }

    /// Returns the command that fetches the history of what is deployed.
    pub(super) fn fetch(&self) -> String {
        let depth = if self.is_shallow { " --unshallow" } else { "" };
        format!("{} fetch{depth}{}", self.git, self.upstream.as_deref().unwrap_or_default())
    }

    /// Returns true if the checkout does not have a deployed commit, which [`Self::announce`] says.
    pub(super) fn lacks_history(&self) -> bool {
        !self.missing.is_empty()
    }
}

fn content(args: &TreeArgs) -> SubjectContent {
    if args.options.merge {
        return SubjectContent::Merge;
    }
    match args.options.state() {
        WorktreeState::Index => SubjectContent::Staged,
        WorktreeState::Revision(_) => SubjectContent::Revision,
        _ => SubjectContent::Directory,
    }
}

fn subject_source(id: &SourceId, snapshot: &Snapshot) -> SubjectSource {
    let found = matching::source(snapshot, id).into_iter().flat_map(obstacles);
    SubjectSource {
        obstacles: found.map(|obstacle| obstacle.sentence).collect(),
        kind: id.kind.as_str().into(),
        namespace: id.namespace.as_str().into(),
        name: id.name.as_str().into(),
        revision: matching::deployed_revision(snapshot, id).map(str::to_owned),
    }
}

/// Returns the checkout of the directories, if all are in one.
fn checkout_of(folders: &BTreeMap<SourceId, PathBuf>) -> Result<Option<Checkout>> {
    let folders: BTreeSet<&PathBuf> = folders.values().collect();
    match folders.into_iter().collect::<Vec<_>>()[..] {
        [one] => {
            let checkout = Checkout::containing(one)?;
            let path = one.canonicalize().unwrap_or_else(|_| one.clone());
            Ok(checkout.filter(|checkout| !checkout.ignores(&path)))
        }
        _ => Ok(None),
    }
}

/// Returns true if the directories are the top of a checkout, so that a commit has the files of a source as they are.
fn is_whole(checkout: &Checkout, folders: &BTreeMap<SourceId, PathBuf>) -> bool {
    folders.values().all(|folder| folder.canonicalize().is_ok_and(|path| path == checkout.top()))
}

/// Returns the directory as it was named, or its top if a part of a checkout was named: the whole is planned.
fn shown_tree(args: &TreeArgs, found: &TreeSources) -> String {
    match (&args.repo, &found.merged) {
        (Some(repo), Some(merged)) => shown_top(repo, &merged.checkout),
        (Some(repo), None) => repo.display().to_string(),
        (None, _) => {
            let folders: BTreeSet<String> = found.folders.values().map(|path| path.display().to_string()).collect();
            folders.into_iter().collect::<Vec<_>>().join(", ")
        }
    }
}

fn shown_top(named: &Path, checkout: &Checkout) -> String {
    let below = named.canonicalize().map(|path| checkout.prefix(&path)).unwrap_or_default();
    if below.is_empty() {
        return named.display().to_string();
    }
    if named == Path::new(".") {
        return vec![".."; Path::new(&below).components().count()].join("/");
    }
    checkout.top().display().to_string()
}
