//! `inventory --why-gone`: the commit, the owner and the rule that deleted an object.

use std::collections::BTreeSet;

use super::args::{HistoryArgs, InventoryArgs};
use crate::cluster::read::events::controller_events;
use crate::commands::prune::tree::{CheckoutOptions, HistoryQuery, TreeArgs, TreeOptions, search_history};
use crate::commands::select::RIGHTS;
use crate::commands::{Session, resource_args};
use crate::error::{Error, Result};
use crate::exit::ExitCode;
use crate::output::format::{self, Render};
use gitops_core::flux::guard;
use gitops_core::flux::history::evidence::{Applied, ControllerEvent, unobstructed};
use gitops_core::flux::history::{Presence, Search, Verdict, WhyGone};
use gitops_core::flux::kinds;
use gitops_core::flux::simulation::Recorded;
use gitops_core::flux::source::matching::commit_of;
use gitops_core::kubernetes::gap::{AnswerGap, Gap, GapKind};
use gitops_core::kubernetes::object::{ObjectId, ResourceType};
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::ownership::index::Index;
use gitops_core::ownership::scheme::members::Members;
use gitops_core::ownership::schemes::flux_kustomization::{GROUP, KIND};
use gitops_core::plan::ReasonCode;
use gitops_core::text::join_limited;

/// Group and kind of definitions.
const CRD: (&str, &str) = ("apiextensions.k8s.io", "CustomResourceDefinition");
/// Number of owners that a gap names.
const NAMED: usize = 3;

/// An object as the command line names it. It need not exist, nor its type.
struct Asked<'a> {
    word: &'a str,
    name: &'a str,
    namespace: Option<&'a str>,
    /// Served types that the word names.
    types: Vec<&'a ResourceType>,
}

impl Asked<'_> {
    fn is_wanted(&self, id: &ObjectId) -> bool {
        let is_here = id.namespace.is_empty() || self.namespace.is_none_or(|place| *place == *id.namespace);
        id.cluster.is_none() && *id.name == *self.name && is_here && self.is_kind(id)
    }

    fn is_kind(&self, id: &ObjectId) -> bool {
        if self.types.is_empty() {
            return is_unserved_name(self.word, &id.kind, &id.group);
        }
        self.types.iter().any(|kind| kind.is(&id.group, &id.kind))
    }

    /// Returns true for the namespace or the definition of the object, if the cluster does not have it.
    fn is_container(&self, id: &ObjectId, snapshot: &Snapshot) -> bool {
        if id.is("", "Namespace") {
            return self.namespace == Some(&*id.name) && snapshot.object(id).is_none();
        }
        let defined = id.name.split_once('.').filter(|_| self.types.is_empty() && id.is(CRD.0, CRD.1));
        defined.is_some_and(|(plural, group)| is_unserved_name(self.word, plural, group))
    }
}

/// Returns true if a word can be the name of a type that the cluster does not serve: its kind or its plural, with or without
/// its group.
fn is_unserved_name(word: &str, kind: &str, group: &str) -> bool {
    let (word, kind) = (word.to_lowercase(), kind.to_lowercase());
    let (name, of) = word.split_once('.').unwrap_or((&word, ""));
    let stem = kind.strip_suffix('y').map(|stem| format!("{stem}ies"));
    let plurals = [format!("{kind}s"), format!("{kind}es"), stem.unwrap_or_default()];
    let is_singular = [format!("{name}s"), format!("{name}es")].contains(&kind);
    (of.is_empty() || of == group) && (name == kind || plurals.iter().any(|plural| plural == name) || is_singular)
}

/// Searches the history of a checkout, joins it with what the cluster knows, and prints the answer.
pub(super) async fn run(args: &InventoryArgs, session: &mut Session) -> Result<ExitCode> {
    if !format::of(WhyGone::PARTS).any(|(_, format)| format == args.output) {
        let names: Vec<&str> = format::of(WhyGone::PARTS).map(|(name, _)| name).collect();
        return Err(
            Error::usage("--why-gone has no answer in this format").hint(format!("use one of {}", names.join(", ")))
        );
    }
    let (word, name) = resource_args::type_and_name(&args.why_gone)?;
    let snapshot = session.snapshot(args.snapshot.as_deref()).await?;
    let namespace = session.connection.namespace.clone();
    let types = snapshot.types.iter().filter(|known| resource_args::is_named(known, word)).collect();
    let asked = Asked { word, name, namespace: namespace.as_deref(), types };
    let gap = snapshot
        .gaps
        .iter()
        .filter(|gap| gap.leaves_unread(asked.namespace))
        .find(|gap| asked.types.iter().any(|kind| gap.hides(&kind.group_kind(), &snapshot.types)));
    if let Some(gap) = gap {
        return Err(Error::failed(format!("\"{word}/{name}\" {}", gap.refusal())).hint(RIGHTS));
    }
    session.terminal.status("searching the history for the commit");
    let free = unobstructed(&snapshot, |id| asked.is_wanted(id));
    let recorded = recorded(&snapshot);
    let query = HistoryQuery {
        recorded: &recorded,
        is_wanted: &|id| asked.is_wanted(id),
        is_container: &|id| asked.is_container(id, &snapshot),
        limit: args.history.max_commits as usize,
        since: args.history.since.as_deref(),
    };
    let tree = tree_args(&args.history);
    let (mut search, checkout) = search_history(&tree, session, &free, args.snapshot.is_some(), &query).await?;
    if search.last.is_none() {
        search.gaps.extend(unknown_before(&recorded));
    }
    // What a commit has is asked about: an object of the same name in another namespace has nothing to do with it.
    let known = search.object.clone().or(live(&asked, &snapshot)?).or_else(|| id(&asked));
    let Some(object) = known.or_else(|| of_definition(&asked, &search)) else {
        // Neither the cluster nor a commit knows the type.
        return resource_args::served_types(word, &snapshot).map(|_| ExitCode::Done);
    };
    let commit = search.removal.as_ref().map(|removal| &removal.commit).or(search.last.as_ref());
    let merge = search.removal.as_ref().and_then(|removal| removal.merged_by.as_ref());
    let landed = merge.or(commit).and_then(|commit| commit.date);
    let applied: Vec<Applied> = search
        .owners
        .iter()
        .filter_map(|owner| {
            Applied::read(owner, &snapshot, landed, |revision| {
                checkout.has_in_history(commit_of(revision)?, &commit?.sha)
            })
        })
        .collect();
    let events = events(&object, &mut search, &snapshot, args, session).await?;
    let undeclared = undeclared(&search, &events);
    search.gaps.extend(undeclared);
    let state = presence(&object, &snapshot);
    let answer = WhyGone::new(search, object, state, applied, events, session.now);
    session.terminal.raw(&args.output.render(&answer, session.terminal.look(true))?)?;
    let exit = session.report_answer_gaps(&answer.gaps, false);
    if answer.verdict == Verdict::Declared && matches!(answer.state, Presence::Gone) {
        session.terminal.hint("the audit log of the API server says who deleted it");
    }
    Ok(exit)
}

/// Returns what the inventories of releases and ResourceSets list: commits show what these apply only where they change them.
fn recorded(snapshot: &Snapshot) -> Recorded {
    let index = Index::build(snapshot);
    let owners = index.owners().filter_map(|owner| {
        let id = &owner.object?.id;
        let listed = match &owner.members {
            Members::Listed(ids) => ids.iter().cloned().collect(),
            _ => BTreeSet::new(),
        };
        (guard::is_owner_kind(&id.group_kind()) && !id.is(GROUP, KIND)).then(|| (id.clone(), listed))
    });
    owners.collect()
}

/// Returns the gap of releases and ResourceSets that may have applied an object before.
fn unknown_before(recorded: &Recorded) -> Option<AnswerGap> {
    let message = format!(
        "commits show what releases and ResourceSets apply only where they change them: what {} applied before is not known",
        join_limited(recorded.keys(), NAMED)
    );
    let subject = "objects of releases and ResourceSets".to_owned();
    (!recorded.is_empty()).then(|| Gap { kind: GapKind::Failed, subject, namespace: None, message }.into())
}

/// Returns the gap of an owner that deleted an object which no commit of the whole branch has. Where only a part of the branch
/// was searched, an older commit can have it.
fn undeclared(search: &Search, events: &[ControllerEvent]) -> Option<AnswerGap> {
    let event = events.first().filter(|_| search.last.is_none() && search.searched.whole)?;
    let message =
        "it deleted the object, which no commit has: --repo names another checkout, or the history was rewritten";
    let subject = format!("the history of {}", event.owner);
    Some(Gap { kind: GapKind::Failed, subject, namespace: None, message: message.to_owned() }.into())
}

/// Returns the object that exists.
///
/// # Errors
/// If there are several of that name.
fn live(asked: &Asked<'_>, snapshot: &Snapshot) -> Result<Option<ObjectId>> {
    let found: Vec<&ObjectId> = snapshot.ids().filter(|id| asked.is_wanted(id)).collect();
    match found[..] {
        [] => Ok(None),
        [one] => Ok(Some(one.clone())),
        _ => Err(Error::usage(format!("\"{}/{}\" is not unique", asked.word, asked.name))
            .hint(format!("name one with -n: {}", join_limited(found, NAMED)))),
    }
}

fn tree_args(args: &HistoryArgs) -> TreeArgs {
    let options = TreeOptions {
        checkout: CheckoutOptions {
            source: args.source.clone(),
            branch: args.branch.clone(),
            kustomize: args.kustomize.clone(),
            plan_timeout: args.search_timeout,
            ..CheckoutOptions::default()
        },
        rev: Some("HEAD".to_owned()),
        offline: true,
        is_search: true,
        ..TreeOptions::default()
    };
    TreeArgs::of_checkout(args.repo.clone(), options)
}

/// Returns the identity of an object that neither the cluster nor a commit has, if its type is served.
fn id(asked: &Asked<'_>) -> Option<ObjectId> {
    let kind = asked.types.first()?;
    let namespace = asked.namespace.filter(|_| kind.namespaced).unwrap_or_default();
    Some(ObjectId::new(&kind.group, &kind.kind, namespace, asked.name))
}

/// Returns the identity of a custom resource whose definition a commit takes out. Its kind is as the word has it.
fn of_definition(asked: &Asked<'_>, search: &Search) -> Option<ObjectId> {
    let cause = search.removal.as_ref()?.cause.as_ref().filter(|cause| cause.is(CRD.0, CRD.1))?;
    let (_, group) = cause.name.split_once('.')?;
    let kind = asked.word.split_once('.').map_or(asked.word, |(kind, _)| kind);
    Some(ObjectId::new(group, kind, asked.namespace.unwrap_or_default(), asked.name))
}

fn presence(object: &ObjectId, snapshot: &Snapshot) -> Presence {
    let Some(live) = snapshot.object(object) else { return Presence::Gone };
    match live.deletion_timestamp {
        Some(since) => {
            Presence::Terminating { since, finalizers: live.finalizers.iter().map(ToString::to_string).collect() }
        }
        None => {
            let status = Index::build(snapshot).status(live);
            Presence::Exists { since: live.creation_timestamp, status: status.as_str() }
        }
    }
}

/// Reads the Events about the deletion.
async fn events(
    object: &ObjectId,
    search: &mut Search,
    snapshot: &Snapshot,
    args: &InventoryArgs,
    session: &Session,
) -> Result<Vec<ControllerEvent>> {
    if args.snapshot.is_some() {
        search.notes.push("a recording has no Events".to_owned());
        return Ok(vec![]);
    }
    let read = snapshot.resources.iter().map(|full| &full.object.id);
    let owners = read.filter(|id| kinds::find(&id.group, &id.kind).is_some()).chain(&search.owners);
    let namespaces: BTreeSet<&str> = owners.map(|id| &*id.namespace).collect();
    let (events, gaps) = controller_events(&session.cluster().await?, namespaces).await;
    search.gaps.extend(gaps.into_iter().map(|gap| AnswerGap { affects_answer: false, ..gap.into() }));
    let reason = search.removal.as_ref().and_then(|removal| removal.reason.as_ref());
    let is_upgrade = reason.is_some_and(|reason| reason.code == ReasonCode::NotInChart);
    let uninstalled = search.owners.iter().filter(|_| !is_upgrade);
    let about: Vec<ControllerEvent> =
        events.into_iter().filter_map(|event| event.about(object, uninstalled.clone().cloned())).collect();
    if about.is_empty() && snapshot.object(object).is_none() {
        search.notes.push(
            "no Event tells of it: they are kept for an hour, and a controller sends few about one owner".to_owned(),
        );
    }
    Ok(about)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gitops_core::flux::history::Searched;

    #[test]
    fn a_part_of_the_history_says_nothing_about_the_checkout() {
        let event = ControllerEvent {
            at: chrono::DateTime::UNIX_EPOCH,
            by: "kustomize-controller".to_owned(),
            owner: ObjectId::new(GROUP, KIND, "flux-system", "apps"),
            revision: None,
            reason: "Progressing".to_owned(),
            message: "ConfigMap/shop/b deleted".to_owned(),
        };
        let search = |whole| Search { searched: Searched { whole, ..Searched::default() }, ..Search::default() };
        let found = undeclared(&search(true), std::slice::from_ref(&event)).unwrap();
        assert!(found.gap.message.contains("--repo names another checkout"), "{}", found.gap.message);
        assert_eq!(undeclared(&search(false), std::slice::from_ref(&event)), None);
        assert_eq!(undeclared(&search(true), &[]), None);
    }
}
