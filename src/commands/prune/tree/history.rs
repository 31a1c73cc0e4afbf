//! The search for the commit that took an object out of the builds: newest commit first, because an object can come and go.

use std::collections::BTreeSet;

use super::TreeArgs;
use super::planner::{Planner, SearchStart, SearchWork, StepState, StepTrees};
use crate::commands::Session;
use crate::error::{Error, Result};
use crate::tools::git::{Checkout, WorktreeState};
use gitops_core::flux::history::{Commit, DeletedOwner, Removal, Search, Searched};
use gitops_core::flux::simulation::{Declared, Recorded};
use gitops_core::kubernetes::gap::{AnswerGap, Gap, GapKind, RESULTS};
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::ownership::OwnerId;
use gitops_core::plan::mask::SecretMask;
use gitops_core::plan::subject::short;
use gitops_core::plan::{Action, Actor, Change, Plan, ReasonCode};
use gitops_core::text::{join_limited, pluralize};

/// Number of commits of a merged branch that are looked at.
const MERGED_COMMITS: usize = 200;

/// Number of objects that an error names.
const NAMED: usize = 5;

/// Number of owners above one another that are named.
const NAMED_PARENTS: usize = 8;

/// Reason why a search ends before the first commit.
const SHALLOW: &str = "this is a shallow clone: `git fetch --unshallow` fetches the rest";

/// The object that is searched for, and how far.
pub(crate) struct HistoryQuery<'q> {
    /// The object, as its name says.
    pub(crate) is_wanted: &'q dyn Fn(&ObjectId) -> bool,
    /// Objects whose deletion would take it along: its namespace, its definition.
    pub(crate) is_container: &'q dyn Fn(&ObjectId) -> bool,
    /// Inventories of the owners whose objects the trees show only where they change these.
    pub(crate) recorded: &'q Recorded,
    pub(crate) limit: usize,
    /// Date that git reads.
    pub(crate) since: Option<&'q str>,
}

/// Searches the history of the branch that the sources of a checkout follow. `snapshot` is a cluster in which nothing keeps
/// its owners from applying a revision.
///
/// Fails as a plan of the checkout, and if the name is that of several objects.
pub(crate) async fn search_history(
    args: &TreeArgs,
    session: &mut Session,
    snapshot: &Snapshot,
    offline: bool,
    query: &HistoryQuery<'_>,
) -> Result<(Search, Checkout)> {
    let work = SearchWork::default();
    let SearchStart { planner, state, deployed, .. } = work.start(args, session, snapshot, offline).await?;
    let checkout = Checkout::find(&deployed.folder)?;
    let mut history = History { planner, start: &state, checkout, query, looks: vec![], gaps: vec![] };
    let found = history.search(&deployed.commit).await?;
    Ok((found, history.checkout))
}

/// The state of a search.
struct History<'q, 's> {
    planner: Planner<'s>,
    start: &'q StepState<'s>,
    checkout: Checkout,
    query: &'q HistoryQuery<'q>,
    /// Commits that were looked at, newest first.
    looks: Vec<Look>,
    /// Reasons why the answer is not certain.
    gaps: Vec<AnswerGap>,
}

/// A commit, and what its trees declare.
struct Look {
    commit: Commit,
    trees: StepTrees,
    declared: Declared,
}

impl Look {
    fn has(&self, wanted: impl Fn(&ObjectId) -> bool) -> bool {
        self.declared.objects.keys().any(wanted)
    }
}

impl History<'_, '_> {
    async fn search(&mut self, deployed: &str) -> Result<Search> {
        let mut search = Search::default();
        let tip = self.tip(deployed)?;
        let limit = self.query.limit;
        let mut line = self.checkout.line(&tip, limit.saturating_add(1), self.query.since, None)?;
        let mut whole = line.len() <= limit && self.query.since.is_none() && !self.checkout.is_shallow();
        line.truncate(limit);
        let oldest = line.last().cloned();
        for commit in line {
            if self.planner.is_over() {
                whole = false;
                break;
            }
            let look = self.look(commit).await?;
            let is_found = look.has(self.query.is_wanted);
            self.looks.push(look);
            if is_found {
                break;
            }
        }
        let looked_to = self.looks.last().map(|look| look.commit.clone());
        whole &= looked_to == oldest;
        search.searched = Searched {
            from: self.looks.first().map(|look| look.commit.clone()),
            to: looked_to,
            commits: self.looks.len(),
            whole,
        };
        let object = self.found()?;
        match object {
            Some(object) => self.explain(object, &mut search).await?,
            None => self.explain_by_container(&mut search).await?,
        }
        if search.last.is_none() {
            self.add_gaps(&search.searched);
        }
        search.gaps = std::mem::take(&mut self.gaps);
        Ok(search)
    }

    /// Returns the commit to begin with: the deployed one, or that of the checkout if its history lacks the deployed one.
    fn tip(&mut self, deployed: &str) -> Result<String> {
        if let Some(commit) = self.checkout.commit(deployed) {
            return Ok(commit);
        }
        let head = self.checkout.head().ok_or_else(|| {
            Error::failed("the checkout has no commit")
                .hint("clone the repository, or name a checkout of it with --repo")
        })?;
        let message = format!(
            "the checkout lacks the deployed commit {}: its history was rewritten, or it is not fetched; searched from {}",
            short(deployed),
            short(&head)
        );
        self.gaps.push(gap("the deployed commit", message));
        Ok(head)
    }

    /// Builds a commit, or takes over what its successor declares if their content is the same.
    async fn look(&mut self, commit: Commit) -> Result<Look> {
        let trees = self.trees(&commit.sha)?;
        let query = self.query;
        if let Some(newer) = self.looks.last().filter(|newer| newer.trees.equal(&trees)) {
            return Ok(Look { commit, trees, declared: newer.declared.clone() });
        }
        let declared = self
            .planner
            .declared(self.start, &trees, query.recorded, &|id| (query.is_wanted)(id) || (query.is_container)(id))
            .await?;
        Ok(Look { commit, trees, declared })
    }

    fn trees(&self, commit: &str) -> Result<StepTrees> {
        Ok(self.planner.files(&self.checkout.tree(&WorktreeState::Revision(commit.to_owned()))?))
    }

    /// Returns the object in the oldest commit that was looked at.
    fn found(&self) -> Result<Option<ObjectId>> {
        let Some(look) = self.looks.last() else { return Ok(None) };
        let found: Vec<&ObjectId> = look.declared.objects.keys().filter(|id| (self.query.is_wanted)(id)).collect();
        match found[..] {
            [] => Ok(None),
            [one] => Ok(Some(one.clone())),
            _ => {
                Err(Error::usage(format!("the name is that of several objects in commit {}", short(&look.commit.sha)))
                    .hint(format!("name one with -n: {}", join_limited(found, NAMED))))
            }
        }
    }

    /// Explains the removal of an object that the oldest commit has, and none after it.
    async fn explain(&mut self, object: ObjectId, search: &mut Search) -> Result<()> {
        let last = self.looks.len() - 1;
        let owners = self.looks[last].declared.objects.get(&object).cloned().unwrap_or_default();
        search.last = Some(self.looks[last].commit.clone());
        search.object = Some(object.clone());
        let open = self.looks[..last].iter().rev().take_while(|look| look.declared.leaves_open(&owners)).count();
        if open > 0 {
            let next: Vec<&Declared> = self.looks[last - open..last].iter().map(|look| &look.declared).collect();
            search.notes.push(open_note(&owners, &next));
        }
        match last.checked_sub(open + 1) {
            Some(at) => search.removal = Some(self.removal(&object, last, at).await?),
            None => self.gaps.extend(open_builds(&self.looks[..last], |owner, declared| {
                owners.contains(owner) && !declared.blocked.contains(owner)
            })),
        }
        search.owners = owners;
        Ok(())
    }

    /// Explains the removal of the namespace or the definition of an object that no commit has.
    async fn explain_by_container(&mut self, search: &mut Search) -> Result<()> {
        let is_container = self.query.is_container;
        let Some(at) = self.looks.iter().position(|look| look.has(is_container)) else { return Ok(()) };
        let container = self.looks[at].declared.objects.keys().find(|id| is_container(id)).cloned();
        let (Some(container), Some(newer)) = (container, at.checked_sub(1)) else { return Ok(()) };
        search.owners = self.looks[at].declared.objects.get(&container).cloned().unwrap_or_default();
        search.last = Some(self.looks[at].commit.clone());
        let removal = self.removal(&container, at, newer).await?;
        if removal.action == Some(Action::Keep) {
            // Why it is kept is not why its content would go.
            search.removal = Some(Removal { cause: Some(container), created: vec![], ..removal });
            return Ok(());
        }
        search.removal = Some(Removal {
            by: Some(if &*container.kind == "Namespace" { Actor::NamespaceController } else { Actor::CrdFinalizer }),
            reason: Some(if &*container.kind == "Namespace" {
                ReasonCode::InNamespace.into()
            } else {
                ReasonCode::CustomResource.into()
            }),
            cause: Some(container),
            created: vec![],
            ..removal
        });
        Ok(())
    }

    /// Returns the removal of an object that the commit at `last` has, and the one at `at` does not.
    async fn removal(&mut self, object: &ObjectId, last: usize, at: usize) -> Result<Removal> {
        let merge = self.looks[at].commit.clone();
        let owners = self.looks[last].declared.objects.get(object).cloned().unwrap_or_default();
        // If they do not follow each other, those between them cannot be built.
        let commit = if at + 1 == last { self.culprit(object, &owners, &merge).await? } else { merge.clone() };
        let (_, after) = self.planner.step(self.start, &self.looks[last].trees).await?;
        let finished = self.planner.preview(&after, &self.looks[at].trees).await?;
        let merged_by = Some(merge).filter(|merge| merge.sha != commit.sha);
        Ok(Removal { commit, merged_by, ..rule(object, &owners, &finished.plan, &finished.secrets) })
    }

    /// Returns the commit that takes an object out: `merge`, whose first parent has the object, or one of the branches that it
    /// merges, and of those that were merged into them.
    async fn culprit(&mut self, object: &ObjectId, owners: &BTreeSet<ObjectId>, merge: &Commit) -> Result<Commit> {
        let mut culprit = merge.clone();
        loop {
            let parents = culprit.parents.clone();
            let Some((first, tips)) = parents.split_first() else { return Ok(culprit) };
            let mut found = None;
            for tip in tips {
                found = self.removal_in_branch(object, owners, tip, first).await?;
                if found.is_some() {
                    break;
                }
            }
            match found {
                Some(inner) => culprit = inner,
                None => return Ok(culprit),
            }
        }
    }

    /// Returns the commit of a merged branch that takes an object out; `None` if the branch has the object, or never had it.
    /// `onto` is the commit before the merge. Commits that cannot be built are left out.
    async fn removal_in_branch(
        &mut self,
        object: &ObjectId,
        owners: &BTreeSet<ObjectId>,
        tip: &str,
        onto: &str,
    ) -> Result<Option<Commit>> {
        let merged = self.checkout.line(tip, MERGED_COMMITS, None, Some(onto))?;
        let (number, oldest) = (merged.len(), merged.last().cloned());
        let mut newer = None;
        for commit in merged {
            match self.declares(object, owners, &commit.sha).await? {
                Some(true) => return Ok(newer),
                Some(false) => newer = Some(commit),
                None => {}
            }
        }
        let base = oldest.as_ref().and_then(|oldest| oldest.parents.first());
        if let Some(base) = base
            && self.declares(object, owners, base).await? == Some(true)
        {
            return Ok(newer);
        }
        let is_cut = oldest.is_some() && base.is_none() && self.checkout.is_shallow();
        if is_cut || number == MERGED_COMMITS {
            let why = if is_cut { SHALLOW.to_owned() } else { format!("only the last {number} are looked at") };
            self.gaps.push(gap(&format!("older commits of the merged branch {}", short(tip)), why));
        }
        Ok(None)
    }

    /// Returns true if a commit declares an object; `None` if one of these owners cannot be built, so that it may.
    async fn declares(&mut self, object: &ObjectId, owners: &BTreeSet<ObjectId>, commit: &str) -> Result<Option<bool>> {
        let trees = self.trees(commit)?;
        let declared = self.planner.declared(self.start, &trees, self.query.recorded, &|id| id == object).await?;
        let is_declared = !declared.objects.is_empty();
        Ok((is_declared || !declared.leaves_open(owners)).then_some(is_declared))
    }

    /// Adds what keeps the absence from being certain: builds that are not known, and older commits.
    fn add_gaps(&mut self, searched: &Searched) {
        self.gaps.extend(open_builds(&self.looks, |_, _| true));
        if !searched.whole {
            let message = if self.checkout.is_shallow() {
                SHALLOW
            } else {
                "the search ended before them; --max-commits, --since or --search-timeout allows more"
            };
            self.gaps.push(gap("older commits", message.to_owned()));
        }
    }
}

/// Returns gaps for the owners of which it is not known what they declare in these commits, each once.
fn open_builds(looks: &[Look], counts: impl Fn(&ObjectId, &Declared) -> bool) -> Vec<AnswerGap> {
    let mut named: BTreeSet<&ObjectId> = BTreeSet::new();
    let mut gaps = vec![];
    for Look { commit, declared, .. } in looks {
        for (owner, reason) in declared.unknown.iter().filter(|(owner, _)| counts(owner, declared)) {
            if named.insert(owner) {
                let subject = format!("{RESULTS}{owner} in commit {}", short(&commit.sha));
                gaps.push(gap(&subject, reason.to_string()));
            }
        }
    }
    gaps
}

/// Returns a note about commits that do not say what these owners declare: what is applied stays if all that are open certainly
/// apply nothing, such as suspended ones, and is not known otherwise.
fn open_note(owners: &BTreeSet<ObjectId>, commits: &[&Declared]) -> String {
    let mut is_kept = true;
    let mut reasons: BTreeSet<String> = BTreeSet::new();
    for declared in commits {
        for (owner, reason) in declared.unknown.iter().filter(|(owner, _)| owners.contains(owner)) {
            is_kept &= declared.blocked.contains(owner);
            reasons.insert(reason.to_string());
        }
    }
    let outcome = if is_kept { "stay as they are" } else { "are not known" };
    format!(
        "the objects of {} {outcome} for the next {}: {}",
        join_limited(owners, NAMED),
        pluralize(commits.len(), "commit"),
        join_limited(&reasons, NAMED)
    )
}

fn gap(subject: &str, message: String) -> AnswerGap {
    Gap { kind: GapKind::Failed, subject: subject.to_owned(), namespace: None, message }.into()
}

/// Returns the rule by which a plan deletes or keeps an object, and what it creates of the same kind. The commits are left
/// open.
fn rule(object: &ObjectId, owners: &BTreeSet<ObjectId>, plan: &Plan, secrets: &SecretMask) -> Removal {
    let row = row_of(object, plan);
    let created = plan.changes().iter().filter(|change| {
        let id = &change.object.id;
        change.action == Action::Create && id.group_kind() == object.group_kind() && !secrets.hides(id)
    });
    let of_row = row.and_then(|row| row.owner.as_ref());
    let owner = owners.iter().find(|id| of_row.is_some_and(|owner| is_owner(id, owner))).or_else(|| owners.first());
    // The cause of an upgrade is its release, which stays.
    let cause =
        row.and_then(|row| row.cause.as_ref()).filter(|cause| row_of(cause, plan).is_some_and(Change::is_deletion));
    let mut removal = Removal {
        cause: cause.map(|cause| secrets.written(cause)),
        action: row.map(|row| row.action),
        by: row.map(|row| row.by),
        owner: owner.cloned(),
        reason: row.map(|row| row.reason.with_texts(|text| secrets.mask_values(text))),
        created: created.map(|change| change.object.id.clone()).collect(),
        ..Removal::default()
    };
    // What a release holds is not predicted: only what becomes of the release is.
    if let (None, Some(release)) = (row, owner.filter(|owner| &*owner.kind == "HelmRelease")) {
        let is_deleted = row_of(release, plan).is_some_and(Change::is_deletion);
        (removal.action, removal.by) = (Some(Action::Delete), Some(Actor::HelmController));
        removal.reason = Some(if is_deleted { ReasonCode::Uninstalled.into() } else { ReasonCode::NotInChart.into() });
    }
    let mut next = owner.and_then(|owner| row_of(owner, plan)).filter(|row| row.is_deletion());
    while let Some(row) = next.filter(|_| removal.owners_deleted.len() < NAMED_PARENTS) {
        let by = row.owner.as_ref().map(|owner| secrets.mask(&owner.to_string()));
        removal.owners_deleted.push(DeletedOwner {
            owner: secrets.written(&row.object.id),
            deleted_for: by,
            reason: row.reason.with_texts(|text| secrets.mask_values(text)),
        });
        next = plan.changes().iter().find(|change| {
            change.is_deletion() && row.owner.as_ref().is_some_and(|owner| is_owner(&change.object.id, owner))
        });
    }
    removal
}

fn row_of<'p>(object: &ObjectId, plan: &'p Plan) -> Option<&'p Change> {
    plan.changes().iter().find(|change| change.object.id == *object)
}

fn is_owner(id: &ObjectId, owner: &OwnerId) -> bool {
    (&*id.kind, &*id.namespace, &*id.name) == (&*owner.kind, &*owner.namespace, &*owner.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn note_about_open_commits_says_why_and_whether_objects_stay() {
        let owner = ObjectId::new("kustomize.toolkit.fluxcd.io", "Kustomization", "flux-system", "web");
        let owners = BTreeSet::from([owner.clone()]);
        let mut declared = Declared::default();
        declared.unknown.insert(owner.clone(), ReasonCode::Suspended.into());
        declared.blocked.insert(owner.clone());
        let note = open_note(&owners, &[&declared, &declared]);
        assert_eq!(note, format!("the objects of {owner} stay as they are for the next 2 commits: suspended"));
        declared.blocked.clear();
        assert!(open_note(&owners, &[&declared]).contains("are not known for the next 1 commit: "));
    }
}
