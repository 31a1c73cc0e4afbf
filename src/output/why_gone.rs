//! Text of `inventory --why-gone`.

use chrono::{DateTime, SecondsFormat, Utc};

use super::format::{Look, Part, Render};
use super::text::duration;
use super::text::sanitize::one_line;
use super::text::wrap::wrap;
use super::{document, inventory};
use gitops_core::flux::history::evidence::Applied;
use gitops_core::flux::history::{Commit, Presence, Removal, Verdict, WhyGone};
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::plan::Action;
use gitops_core::plan::subject::{short, short_revision};
use gitops_core::text::{join_limited, pluralize};

/// Number of objects or events that a line names.
const NAMED: usize = 5;

impl Render for WhyGone {
    const PARTS: &'static [Part] = &[Part::Text, Part::Document, Part::Names];

    fn text(&self, _: bool, look: Look) -> String {
        let mut lines = vec![(0, format!("{} {}", self.object, presence(self)))];
        lines.extend(verdict(self).into_iter().map(|line| (2, line)));
        lines.extend(self.removal.iter().flat_map(|removal| removal_lines(removal, self.taken)).map(|line| (2, line)));
        lines.extend(last(self).map(|line| (2, line)));
        lines.extend(self.applied.iter().map(|owner| (2, applied(owner, self))));
        lines.extend(events(self).into_iter().map(|line| (2, line)));
        lines.extend(self.notes.iter().map(|note| (2, note.clone())));
        lines.push((2, searched(self)));
        lines.iter().map(|(indent, line)| wrap(&one_line(line), *indent, indent + 4, look.width) + "\n").collect()
    }

    fn names(&self) -> String {
        document::name(&self.object) + "\n"
    }
}

/// Returns the name of an owner, as plans and inventories write it.
fn name(owner: &ObjectId) -> String {
    format!("{}/{} -n {}", owner.kind.to_lowercase(), owner.name, owner.namespace)
}

fn presence(answer: &WhyGone) -> String {
    match &answer.state {
        Presence::Gone if !answer.declared => "does not exist".to_owned(),
        Presence::Gone => "is gone".to_owned(),
        Presence::Terminating { since, finalizers } => {
            let held = join_limited(finalizers, NAMED);
            let held = if held.is_empty() { String::new() } else { format!(", kept by its finalizers {held}") };
            format!("is not gone: it is being deleted since {}{held}", duration::human(answer.taken - *since))
        }
        Presence::Exists { since, status } => {
            let age = since.map(|since| format!(", {} old", duration::human(answer.taken - since))).unwrap_or_default();
            format!("is not gone: it is {}{age}", inventory::status_words(status))
        }
    }
}

/// Returns what is known about the deletion.
fn verdict(answer: &WhyGone) -> Vec<String> {
    let exists = matches!(answer.state, Presence::Exists { .. });
    let owners = join_limited(answer.owners.iter().map(name), NAMED);
    let rule = answer.removal.as_ref().map(rule).unwrap_or_default();
    let line = match answer.verdict {
        Verdict::DeletedByCommit if exists => format!("a commit took it out of {owners}, which does not delete it now"),
        Verdict::DeletedByCommit if !answer.declared => format!("if it existed, it was {rule}"),
        Verdict::DeletedByCommit => rule,
        Verdict::NotApplied => {
            format!("a commit takes it out, but {owners} has not applied that: somebody else deleted it")
        }
        Verdict::LeftBehind if exists => {
            format!("a commit took it out of {owners}, and its controller leaves it: {rule}")
        }
        Verdict::LeftBehind => {
            format!("a commit took it out, but its controller leaves it ({rule}): somebody else deleted it")
        }
        Verdict::Declared if exists => format!("{owners} declares it"),
        Verdict::Declared if !answer.complete => {
            format!("{owners} declared it last; whether the deployed commit does is not known")
        }
        Verdict::Declared => format!("{owners} still declares it: a person or another program deleted it"),
        Verdict::NotFound => "no commit that was searched declares it".to_owned(),
    };
    vec![line]
}

/// Returns the rule of a removal: who deletes the object, for whom, and why.
fn rule(removal: &Removal) -> String {
    let by = removal.by.map_or_else(|| "a controller".to_owned(), |by| by.to_string());
    let owner = removal.owner.as_ref().map(|owner| format!(" for {}", name(owner))).unwrap_or_default();
    let cause = removal.cause.as_ref().map(|cause| format!(", with {cause}")).unwrap_or_default();
    let reason = removal.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    match removal.action {
        Some(Action::Keep) => format!("kept{owner}{reason}"),
        _ => format!("deleted by {by}{owner}{cause}{reason}"),
    }
}

fn removal_lines(removal: &Removal, now: DateTime<Utc>) -> Vec<String> {
    let mut lines = vec![format!("commit {}", commit(&removal.commit, now))];
    lines.extend(removal.merged_by.as_ref().map(|merge| format!("merged by {}", commit(merge, now))));
    for deleted in &removal.owners_deleted {
        let owner = deleted.deleted_for.as_ref().map(|owner| format!(" for {owner}")).unwrap_or_default();
        lines.push(format!("the commit deletes {}{owner}: {}", name(&deleted.owner), deleted.reason));
    }
    if !removal.created.is_empty() {
        lines.push(format!("the commit creates {}", join_limited(&removal.created, NAMED)));
    }
    lines
}

/// Returns how long a time is before the cluster was read, or after it: a checkout can be newer than a recording.
fn ago(time: DateTime<Utc>, now: DateTime<Utc>) -> String {
    if time > now {
        return format!("{} after the cluster was read", duration::human(time - now));
    }
    format!("{} ago", duration::human(now - time))
}

fn commit(commit: &Commit, now: DateTime<Utc>) -> String {
    let date =
        commit.date.map(|date| format!(", {} ({})", ago(date, now), date.to_rfc3339_opts(SecondsFormat::Secs, true)));
    format!("{} by {}{}: {}", short(&commit.sha), commit.author, date.unwrap_or_default(), commit.subject)
}

fn last(answer: &WhyGone) -> Option<String> {
    let last = answer.last.as_ref()?;
    let owners = join_limited(answer.owners.iter().map(name), NAMED);
    let cause = answer.removal.as_ref().and_then(|removal| removal.cause.as_ref()).filter(|_| !answer.declared);
    let what = cause.map(|cause| format!("{cause} ")).unwrap_or_default();
    Some(match answer.removal {
        Some(_) => format!("until then {what}in {owners}; last in commit {}", short(&last.sha)),
        None => format!("in {owners}, in commit {}", commit(last, answer.taken)),
    })
}

fn applied(owner: &Applied, answer: &WhyGone) -> String {
    let state = if owner.suspended {
        ", is suspended"
    } else if owner.ready {
        ""
    } else {
        ", is not ready"
    };
    let revision = short_revision(&owner.revision);
    let has = match owner.has_commit {
        Some(true) => {
            let first = owner.first.map(|first| ago(first, answer.taken));
            first.map(|first| format!("; it applied the commit at least {first}")).unwrap_or_default()
        }
        Some(false) => "; that revision does not have the commit".to_owned(),
        None => "; the checkout lacks that revision".to_owned(),
    };
    format!("owner {}{state} at {revision}{has}", name(&owner.owner))
}

fn events(answer: &WhyGone) -> Vec<String> {
    let shown = answer.events.iter().take(NAMED).map(|event| {
        let revision = event.revision.as_ref().map(|text| format!(" at {}", short_revision(text))).unwrap_or_default();
        let age = ago(event.at, answer.taken);
        format!("Event by {} on {}{revision}, {age}: {}", event.by, name(&event.owner), event.message)
    });
    shown.collect()
}

fn searched(answer: &WhyGone) -> String {
    let searched = &answer.searched;
    let (Some(from), Some(to)) = (&searched.from, &searched.to) else {
        return "searched no commit".to_owned();
    };
    let [from, to] = [from, to].map(|commit| short(&commit.sha));
    let rest = if searched.whole { "the whole branch" } else { "the branch has older ones" };
    format!("searched {} from {from} back to {to}; {rest}", pluralize(searched.commits, "commit"))
}
