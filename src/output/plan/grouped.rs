//! The table of a plan for people: alarms, then each owner with its reason and its objects, then what is not known. On a
//! terminal, long texts continue on the next line; nothing is cut.

use std::collections::BTreeMap;

use dialoguer::console::{Style, measure_text_width};

use super::alike::{Alike, Block, blocks, remarks};
use super::common::Common;
use super::groups::{Group, NestedRow, groups};
use super::{
    action, contested, controller_upgrade, has_own_reason, is_updated, not_compared, note, outcome_words,
    owner_explanation, shown_alarms, without_remarks,
};
use crate::output::gaps;
use crate::output::text::prose::Prose;
use crate::output::text::sanitize::one_line;
use crate::output::text::table::Look;
use crate::output::text::thousands;
use crate::output::text::wrap::wrap;
use gitops_core::kubernetes::gap::GapGroup;
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::plan::{Action, Certainty, Change, Outcome, Plan};
use gitops_core::text::{join_limited, pluralize};

/// Number of like objects below one object or owner that are listed, and of messages of one sort.
const LISTED: usize = 10;
/// Number of like objects that are not worth a line that counts them.
const FEW: usize = 2;
/// Deepest indentation. Owner references that others wrote could nest without end.
const DEEPEST: usize = 10;
/// Width of the column of actions.
const ACTION: usize = 10;
/// Widest column of objects before reasons.
const OBJECT: usize = 60;

/// Returns the table; empty if the plan says nothing.
pub(super) fn render(plan: &Plan, look: Look) -> String {
    let mut page = Lines::new(look);
    if let Some(subject) = plan.subject().filter(|_| look.subject) {
        page.wrapped(0, 2, &format!("plan of {}", one_line(&subject.to_string())));
    }
    for alarm in shown_alarms(plan) {
        page.alarm(&alarm.detail);
    }
    let (suspended, groups): (Vec<_>, Vec<_>) = groups(plan).into_iter().partition(Group::is_only_suspended);
    for block in blocks(plan, groups) {
        match block {
            Block::One(group) => page.group(plan, &group),
            Block::Alike(alike) => page.alike(plan, &alike),
        }
    }
    page.notes(plan, &suspended);
    page.text
}

/// Importance of a word; a colour on a terminal.
#[derive(Clone, Copy)]
enum Tone {
    Bad,
    Warn,
    Good,
    Dim,
    Heading,
    Plain,
}

/// Text that grows by lines.
pub(super) struct Lines {
    pub(super) text: String,
    look: Look,
}

/// A line of a group: a row, or a number of rows like those before it.
enum Line {
    /// The row at this position.
    Row(usize),
    More {
        like: usize,
        number: usize,
        below: usize,
    },
}

impl Lines {
    pub(super) fn new(look: Look) -> Self {
        Self { text: String::new(), look }
    }

    /// Adds the sentence of an alarm.
    pub(super) fn alarm(&mut self, detail: &str) {
        self.labelled("alarm", Tone::Bad, detail);
    }

    /// Adds what could not be read or computed.
    pub(super) fn gap(&mut self, sentence: &str) {
        self.labelled("gap", Tone::Warn, sentence);
    }

    /// Adds a text about an owner with its label.
    fn explanation(&mut self, margin: usize, label: &str, text: &str) {
        self.wrapped(margin + 2, margin + 4, &format!("{label}: {}", one_line(text)));
    }

    /// Adds an owner and its rows.
    fn group(&mut self, plan: &Plan, group: &Group<'_>) {
        let margin = 2 * group.depth.min(DEEPEST);
        let shown: Vec<NestedRow<'_>> = group.rows.iter().filter(|row| !is_updated(row.change)).copied().collect();
        let namespace = common_namespace(&shown);
        if group.depth == 0 {
            self.blank();
        }
        self.heading(group, margin, namespace);
        // Rows that are only counted need no reason beside those that are listed.
        let common = Common::of(if shown.is_empty() { &group.rows } else { &shown });
        let explained = group.outcome.filter(|row| has_own_reason(row));
        if let Some(row) = explained {
            self.explanation(margin, "reason", &owner_explanation(plan, &without_remarks(row)).to_string());
            for remark in &row.reason.remarks {
                self.wrapped(margin + 4, margin + 6, &one_line(remark));
            }
        }
        if let Some(reason) = &common.reason {
            self.explanation(margin, if explained.is_some() { "its objects" } else { "reason" }, &reason.to_string());
        }
        for (label, text) in common.lines() {
            self.explanation(margin, &label, text);
        }
        let notes: Vec<String> = shown.iter().map(|row| group_note(plan, group, *row, &common)).collect();
        let names: Vec<String> = shown.iter().map(|row| object(&row.change.object.id, namespace)).collect();
        let widths = shown.iter().zip(&names).map(|(row, name)| indent(row) + measure_text_width(name));
        let column = widths.max().unwrap_or_default().min(OBJECT);
        for line in collapsed(&shown, &notes) {
            match line {
                Line::Row(at) => {
                    let row = &shown[at];
                    let to_note = column.saturating_sub(indent(row));
                    self.row(margin + 2 + indent(row), row, &names[at], to_note, &notes[at]);
                }
                Line::More { like, number, below } => {
                    let row = &shown[like];
                    self.row(margin + 2 + indent(row), row, &more(row, number, below), 0, "");
                }
            }
        }
        let updated = group.rows.len() - shown.len();
        if updated > 0 && !shown.is_empty() {
            let them = if updated == 1 { "it" } else { "them" };
            let text = format!("update    {} (-o wide lists {them})", pluralize(updated, "object"));
            self.wrapped(margin + 2, margin + 4, &text);
        }
        if let Some(records) = group.old_records() {
            self.wrapped(margin + 2, margin + 4, &records);
        }
    }

    /// Adds several owners with the same outcome for the same reason.
    fn alike(&mut self, plan: &Plan, alike: &Alike<'_>) {
        let margin = 2 * alike.depth.min(DEEPEST);
        if alike.depth == 0 {
            self.blank();
        }
        let row = alike.first();
        let outcome = self.paint(Tone::Warn, outcome_words(row.outcome));
        let heading = format!("{}   {outcome}", self.paint(Tone::Heading, &alike.number()));
        self.wrapped(margin, margin + 4, &heading);
        self.explanation(margin, "reason", &owner_explanation(plan, &without_remarks(row)).to_string());
        let parts = alike.by_remark();
        for owners in parts.iter().take(LISTED) {
            let more = if owners.len() > LISTED { " (-o wide lists them)" } else { "" };
            let names = join_limited(owners.iter().map(|row| &row.owner), LISTED);
            self.wrapped(margin + 2, margin + 4, &one_line(&format!("{names}{more}")));
            for remark in remarks(owners) {
                self.wrapped(margin + 4, margin + 6, &one_line(&remark));
            }
        }
        let rest: usize = parts.iter().skip(LISTED).map(Vec::len).sum();
        if rest > 0 {
            let text = format!("… and {} (-o wide lists them)", pluralize(rest, "more owner"));
            self.wrapped(margin + 2, margin + 4, &text);
        }
    }

    /// Adds the line of an owner: its outcome, the numbers of its objects, and their namespace.
    fn heading(&mut self, group: &Group<'_>, margin: usize, namespace: Option<&str>) {
        let owner =
            group.owner.map_or_else(|| "in no inventory".to_owned(), |owner| one_line(&owner.to_string()).into());
        let (word, tone) = match group.outcome {
            Some(row) if row.outcome != Outcome::Unchanged => (outcome_words(row.outcome), outcome_tone(group)),
            _ => ("", Tone::Plain),
        };
        let place = namespace.map(|name| format!("in namespace {}", one_line(name))).unwrap_or_default();
        let parts: Vec<String> = [self.paint(Tone::Heading, &owner), self.paint(tone, word), group.numbers(), place]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect();
        let whole = format!("{}{}", " ".repeat(margin), parts.join("   "));
        if self.fits(&whole) {
            return self.line(&whole);
        }
        let Some((owner, others)) = parts.split_first() else { return };
        self.wrapped(margin, margin + 6, owner);
        let others_line = format!("{}{}", " ".repeat(margin + 4), others.join("   "));
        if self.fits(&others_line) {
            return self.line(&others_line);
        }
        others.iter().for_each(|part| self.wrapped(margin + 4, margin + 6, part));
    }

    /// Adds a row. A note that does not fit beside the object follows below it.
    fn row(&mut self, margin: usize, row: &NestedRow<'_>, name: &str, column: usize, note: &str) {
        let word = action(row.change);
        let padding = " ".repeat(ACTION.saturating_sub(word.len()).max(1));
        let start = format!("{}{}{padding}{name}", " ".repeat(margin), self.paint(tone(row.change.action), &word));
        if note.is_empty() {
            return self.line(&start);
        }
        let space = " ".repeat(column.saturating_sub(measure_text_width(name)) + 3);
        let whole = format!("{start}{space}{note}");
        if self.fits(&whole) {
            return self.line(&whole);
        }
        self.line(&start);
        self.wrapped(margin + ACTION + 2, margin + ACTION + 2, note);
    }

    /// Adds what the plan says beside its rows.
    fn notes(&mut self, plan: &Plan, suspended: &[Group<'_>]) {
        // Updates and old records are counted, and have no rows here.
        let mut rows = plan.changes().iter().filter(|change| !is_updated(change) && !change.is_old_record());
        let has_races = rows.any(|change| change.certainty == Certainty::Race);
        let gaps = gap_messages(plan);
        let contested: Vec<String> = contested(plan).iter().map(Prose::to_string).collect();
        let encrypted: Vec<String> = not_compared(plan).iter().map(ToString::to_string).collect();
        let upgrade: Vec<String> =
            plan.controller_upgrade().map(controller_upgrade).iter().map(Prose::to_string).collect();
        let has_notes = [&gaps, &contested, &encrypted, &upgrade].iter().any(|messages| !messages.is_empty());
        if has_races || has_notes || !suspended.is_empty() {
            self.blank();
        }
        if has_races {
            let words =
                "a question mark (delete?): it depends on what happens first, as the reason or the row above says";
            self.wrapped(0, 4, words);
        }
        if !suspended.is_empty() {
            let names = join_limited(suspended.iter().filter_map(|group| group.owner), LISTED);
            let text = format!("their controllers apply and prune nothing of them: {names}");
            self.labelled("suspended", Tone::Warn, &text);
        }
        let notes = [("gap", gaps), ("contested", contested), ("encrypted", encrypted), ("warning", upgrade)];
        for (label, messages) in notes {
            for message in messages.iter().take(LISTED) {
                self.labelled(label, Tone::Warn, message);
            }
            if messages.len() > LISTED {
                let text = format!("… and {} more (-o wide lists them)", thousands(messages.len() - LISTED));
                self.labelled(label, Tone::Warn, &text);
            }
        }
    }

    fn labelled(&mut self, label: &str, tone: Tone, message: &str) {
        let text = format!("{} {}", self.paint(tone, &format!("{label}:")), one_line(message));
        self.wrapped(0, label.len() + 2, &text);
    }

    /// Adds a text, which continues with the other margin if it is wider than the terminal.
    pub(super) fn wrapped(&mut self, margin: usize, continued: usize, text: &str) {
        self.line(&wrap(text, margin, continued, self.look.width));
    }

    fn fits(&self, line: &str) -> bool {
        self.look.width.is_none_or(|width| width == 0 || measure_text_width(line) <= width)
    }

    fn line(&mut self, line: &str) {
        self.text += line.trim_end();
        self.text.push('\n');
    }

    /// Adds an empty line, unless the table begins here.
    fn blank(&mut self) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
    }

    fn paint(&self, tone: Tone, text: &str) -> String {
        let style = match tone {
            _ if !self.look.colour || text.is_empty() => return text.to_owned(),
            Tone::Bad => Style::new().red(),
            Tone::Warn => Style::new().yellow(),
            Tone::Good => Style::new().green(),
            Tone::Dim => Style::new().dim(),
            Tone::Heading => Style::new().bold(),
            Tone::Plain => return text.to_owned(),
        };
        style.force_styling(true).apply_to(text).to_string()
    }
}

fn tone(action: Action) -> Tone {
    match action {
        Action::Delete => Tone::Bad,
        Action::Recreate | Action::Unknown => Tone::Warn,
        Action::Keep => Tone::Dim,
        Action::Create => Tone::Good,
        Action::Update => Tone::Plain,
    }
}

fn outcome_tone(group: &Group<'_>) -> Tone {
    match group.outcome.map(|row| row.outcome) {
        Some(Outcome::Blocked | Outcome::Unknown) => Tone::Warn,
        Some(Outcome::Deleted) => Tone::Bad,
        _ => Tone::Plain,
    }
}

/// Returns the namespace of all namespaced objects, if it is one.
fn common_namespace<'p>(rows: &[NestedRow<'p>]) -> Option<&'p str> {
    let mut names = rows.iter().map(|row| &*row.change.object.id.namespace).filter(|name| !name.is_empty());
    let first = names.next()?;
    names.all(|name| name == first).then_some(first)
}

/// Returns the name of an object: `ConfigMap/web`, with its namespace if the owner's line does not say it.
fn object(id: &ObjectId, namespace: Option<&str>) -> String {
    let mut text = format!("{}/{}", id.kind, id.name);
    if !id.namespace.is_empty() && Some(&*id.namespace) != namespace {
        text += &format!(" -n {}", id.namespace);
    }
    if let Some(cluster) = &id.cluster {
        text += &format!(" in cluster {cluster}");
    }
    one_line(&text).into_owned()
}

fn indent(row: &NestedRow<'_>) -> usize {
    2 * row.depth.min(DEEPEST)
}

/// Returns the lines of rows. Where many objects of a kind have the same fate for the same reason, the first ones are
/// listed and the others counted.
fn collapsed(rows: &[NestedRow<'_>], notes: &[String]) -> Vec<Line> {
    let (ends, parents) = subtrees(rows);
    let keys: Vec<Option<Likeness<'_>>> = (0..rows.len())
        .map(|at| {
            let Change { action, object, .. } = rows[at].change;
            let (group, kind, note) = (&*object.id.group, &*object.id.kind, &*notes[at]);
            is_plain(&rows[at..ends[at]]).then_some((parents[at], *action, group, kind, note))
        })
        .collect();
    let mut numbers: BTreeMap<Likeness<'_>, usize> = BTreeMap::new();
    keys.iter().flatten().for_each(|key| *numbers.entry(*key).or_default() += 1);
    let mut listed: BTreeMap<Likeness<'_>, (usize, usize)> = BTreeMap::new();
    let (mut lines, mut at) = (vec![], 0);
    while at < rows.len() {
        let Some(key) = keys[at].filter(|key| numbers[key] > LISTED + FEW) else {
            lines.push(Line::Row(at));
            at += 1;
            continue;
        };
        let (seen, place) = listed.entry(key).or_default();
        *seen += 1;
        if *seen <= LISTED {
            lines.push(Line::Row(at));
            at += 1;
            continue;
        }
        if *seen == LISTED + 1 {
            *place = lines.len();
            lines.push(Line::More { like: at, number: 0, below: 0 });
        }
        if let Line::More { number, below, .. } = &mut lines[*place] {
            *number += 1;
            *below += ends[at] - at - 1;
        }
        at = ends[at];
    }
    lines
}

/// Common properties of the rows that are counted together: the row above, action, group, kind and note.
type Likeness<'t> = (Option<usize>, Action, &'t str, &'t str, &'t str);

/// Returns true if a row and those below it are certain, and all below it are deletions.
fn is_plain(rows: &[NestedRow<'_>]) -> bool {
    let is_certain = rows.iter().all(|row| row.change.certainty == Certainty::Certain);
    is_certain && rows.iter().skip(1).all(|row| row.change.is_deletion())
}

/// Returns the end of each row's subtree, and the position of the row above each.
fn subtrees(rows: &[NestedRow<'_>]) -> (Vec<usize>, Vec<Option<usize>>) {
    let (mut ends, mut parents) = (vec![rows.len(); rows.len()], vec![None; rows.len()]);
    let mut open: Vec<usize> = vec![];
    for (at, row) in rows.iter().enumerate() {
        while let Some(above) = open.pop_if(|above| rows[*above].depth >= row.depth) {
            ends[above] = at;
        }
        parents[at] = open.last().copied();
        open.push(at);
    }
    (ends, parents)
}

/// Returns the text that counts rows.
fn more(like: &NestedRow<'_>, number: usize, below: usize) -> String {
    let kind = &like.change.object.id.kind;
    let plural = if kind.ends_with('s') { "" } else { "s" };
    let place = if like.depth == 0 { " of this owner" } else { "" };
    let with = match below {
        0 => String::new(),
        below => format!(", with {} below them", pluralize(below, "object")),
    };
    let text = format!("… and {} more {kind}{plural}{place}{with} (-o wide lists them)", thousands(number));
    one_line(&text).into_owned()
}

fn text_of(note: &Prose) -> String {
    one_line(note.to_string().trim()).into_owned()
}

/// Returns what a row says beside its object. The object of the owner itself says nothing that the owner has said.
fn group_note(plan: &Plan, group: &Group<'_>, row: NestedRow<'_>, common: &Common<'_>) -> String {
    let is_told = group
        .outcome
        .is_some_and(|outcome| outcome.owner.is_object(&row.change.object.id) && outcome.reason == row.change.reason);
    if is_told { String::new() } else { text_of(&note(plan, row, common)) }
}

/// Returns a message for each group of gaps that can change the plan, unless it is the reason of an owner above.
fn gap_messages(plan: &Plan) -> Vec<String> {
    let reasons: Vec<&str> = plan.unknown_owners().map(|row| &*row.reason.detail).collect();
    let mut groups = GapGroup::of(plan.gaps());
    // A reason can go on with what may be deleted.
    groups.retain(|group| {
        let message = &*group.first.gap.message;
        group.first.affects_answer && !reasons.iter().any(|reason| reason.starts_with(message))
    });
    let messages = groups.iter().map(|group| {
        let more = if group.others.is_empty() { "" } else { "; -v 1 lists them" };
        format!("{}{more}", gaps::sentence(group, gaps::NAMED))
    });
    messages.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gitops_core::kubernetes::snapshot::ClusterIdentity;
    use gitops_core::ownership::OwnerId;
    use gitops_core::plan::alarm::AlarmCode;
    use gitops_core::plan::{Actor, Alarm, FinishedPlan, OwnerOutcome, PinnedObject, Reason, ReasonCode, if_deleted};

    fn owner(name: &str) -> OwnerId {
        OwnerId::new("flux", "Kustomization", "flux-system", name)
    }

    fn deletion(id: ObjectId, owner: Option<OwnerId>, cause: Option<&ObjectId>) -> Change {
        let code = if cause.is_some() { ReasonCode::InNamespace } else { ReasonCode::NotInBuild };
        let detail = if cause.is_some() { "" } else { "its path ./aps/shop contains no manifests" };
        let object = PinnedObject::absent(id);
        let by = Actor::KustomizeController;
        Change { cause: cause.cloned(), ..Change::new(Action::Delete, object, owner, by, Reason::new(code, detail)) }
    }

    /// A plan with an alarm, a namespace and its content, many ConfigMaps, and an owner that another one blocks.
    fn plan() -> FinishedPlan {
        let namespace = ObjectId::new("", "Namespace", "", "shop");
        let map = |name: String| deletion(ObjectId::new("", "ConfigMap", "shop", &name), Some(owner("apps")), None);
        let account = ObjectId::new("", "ServiceAccount", "shop", "default");
        let mut plan = Plan::new(ClusterIdentity::default());
        plan.add_changes((0..1300).map(|number| map(format!("m{number:04}"))));
        plan.add_changes([deletion(account, None, Some(&namespace)), deletion(namespace, Some(owner("apps")), None)]);
        let waiting = OwnerOutcome::new(owner("child"), Outcome::Blocked, ReasonCode::DependencyNotReady);
        plan.add_owners([
            OwnerOutcome::new(owner("apps"), Outcome::Applies, ReasonCode::NewRevision),
            OwnerOutcome { dependencies: [owner("lost")].into(), ..waiting },
            OwnerOutcome::new(owner("lost"), Outcome::Blocked, Reason::new(ReasonCode::PathNotFound, "no path")),
            OwnerOutcome::new(owner("paused"), Outcome::Blocked, ReasonCode::Suspended),
        ]);
        let detail = "this deletes 100 % of kustomization/apps -n flux-system".to_owned();
        plan.set_alarms(vec![Alarm { code: AlarmCode::OwnerEmptied, owner: None, detail, remedy: None }]);
        plan.into()
    }

    #[test]
    fn owners_in_doubt_for_one_reason_are_one_group() {
        let row = |name: &str, stakes: &str| {
            let mut reason = Reason::new(ReasonCode::NotFollowed, "its chart is not rendered here");
            reason.remarks = vec![format!("would be at stake: {stakes}"), format!("to find out: helm get {name}")];
            OwnerOutcome::new(owner(name), Outcome::Unknown, reason)
        };
        let many = ["a", "b", "c"].map(|name| row(name, "1 object"));
        let mut plan = Plan::new(ClusterIdentity::default());
        plan.add_owners(many.into_iter().chain([row("d", "1 PersistentVolumeClaim")]));
        plan.add_owners([OwnerOutcome::new(owner("e"), Outcome::Blocked, ReasonCode::NotReady)]);
        let expected = "4 owners   unknown
  reason: not-followed: its chart is not rendered here
  kustomization/a -n flux-system, kustomization/b -n flux-system, kustomization/c -n flux-system
    each: would be at stake: 1 object
    the first: to find out: helm get a
  kustomization/d -n flux-system
    would be at stake: 1 PersistentVolumeClaim
    to find out: helm get d

kustomization/e -n flux-system   blocked
  reason: not-ready
";
        let text = render(&plan, Look::whole(true));
        assert_eq!(text, expected);
    }

    #[test]
    fn a_new_version_of_the_controller_is_named_in_the_table() {
        let (from, to, rules) = ("1.6.0".to_owned(), "1.9.5".to_owned(), vec!["spec.ignore is honoured".to_owned()]);
        let document = serde_json::to_value(Plan::new(ClusterIdentity::default())).unwrap();
        let upgrade = serde_json::json!({ "from": from, "to": to, "rules": rules });
        let mut document = document.as_object().unwrap().clone();
        document.insert("controllerUpgrade".to_owned(), upgrade);
        let plan: Plan = serde_json::from_value(document.into()).unwrap();
        let text = render(&plan, Look::whole(true));
        let expected = "warning: this changes kustomize-controller from 1.6.0 to 1.9.5, and the plan has the rules of 1.6.0. \
                        In 1.9.5: spec.ignore is honoured\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn rows_that_are_refused_for_one_reason_are_counted() {
        let refused = |number: usize| {
            let name = format!("m{number:02}");
            let message =
                format!("configmaps \"{name}\" is forbidden: User \"x\" cannot patch resource \"configmaps\"");
            let object = PinnedObject::absent(ObjectId::new("", "ConfigMap", "shop", &name));
            let reason = Reason::new(ReasonCode::Refused, message);
            Change::new(Action::Keep, object, Some(owner("apps")), Actor::KustomizeController, reason)
        };
        let mut plan = Plan::new(ClusterIdentity::default());
        plan.add_changes((0..30).map(refused));
        let text = render(&plan, Look::whole(true));
        let first = "  keep      ConfigMap/m00   refused: User \"x\" cannot patch resource \"configmaps\"";
        assert!(text.contains(first), "{text}");
        assert!(text.contains("… and 20 more ConfigMaps of this owner"), "{text}");
    }

    #[test]
    fn each_owner_is_told_once_with_its_reason_and_long_lists_are_counted() {
        let text = render(&plan(), Look::whole(true));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "alarm: this deletes 100 % of kustomization/apps -n flux-system");
        assert_eq!(lines[2], "kustomization/apps -n flux-system   applies   1,302 to delete   in namespace shop");
        assert_eq!(lines[3], "  reason: not-in-build: its path ./aps/shop contains no manifests");
        assert_eq!(lines[4], "  delete    ConfigMap/m0000");
        assert_eq!(lines[14], "  delete    … and 1,290 more ConfigMaps of this owner (-o wide lists them)");
        assert_eq!(lines[15..17], ["  delete    Namespace/shop", "    delete    ServiceAccount/default"]);
        let rest = "\nkustomization/lost -n flux-system   blocked\n  reason: path-not-found: no path\n  \
                    kustomization/child -n flux-system   blocked\n    \
                    reason: dependency-not-ready (kustomization/lost -n flux-system)\n\n\
                    suspended: their controllers apply and prune nothing of them: kustomization/paused -n flux-system\n";
        assert!(text.ends_with(rest), "{text}");
    }

    fn row(action: Action, kind: &str, reason: Reason, cause: Option<&ObjectId>) -> Change {
        let id = ObjectId::new("", kind, if kind == "Namespace" { "" } else { "shop" }, "a");
        let object = PinnedObject::absent(id);
        let change = Change::new(action, object, Some(owner("apps")), Actor::KustomizeController, reason);
        let certainty = if change.reason.conditions.is_empty() { Certainty::Certain } else { Certainty::Race };
        Change { certainty, cause: cause.cloned(), ..change }
    }

    /// Renders these rows of one owner.
    fn rendered(rows: impl IntoIterator<Item = Change>) -> String {
        let mut plan = Plan::new(ClusterIdentity::default());
        plan.add_changes(rows);
        plan.add_owners([OwnerOutcome::new(owner("apps"), Outcome::Applies, ReasonCode::NewRevision)]);
        render(&plan, Look::whole(true))
    }

    #[test]
    fn a_race_is_told_on_the_row_of_the_event_that_it_depends_on() {
        let namespace = ObjectId::new("", "Namespace", "", "a");
        let secret = ObjectId::new("", "Secret", "shop", "a");
        let told = if_deleted(&namespace);
        let on = |code, detail: &str, condition: &str| {
            let conditions = vec![condition.to_owned()];
            Reason { conditions, ..Reason::new(code, detail) }
        };
        let text = rendered([
            row(Action::Delete, "Namespace", on(ReasonCode::NotInBuild, "", "it depends on x"), None),
            row(Action::Delete, "Secret", on(ReasonCode::InNamespace, "", &told), Some(&namespace)),
            row(Action::Recreate, "Service", on(ReasonCode::InNamespace, "", &told), Some(&namespace)),
            row(Action::Delete, "Pod", on(ReasonCode::Dependent, "one; two", &told), Some(&secret)),
            row(Action::Delete, "Job", on(ReasonCode::Dependent, "", "it depends on y"), Some(&secret)),
        ]);
        let expected = "  delete?   Namespace/a   not-in-build: race: it depends on x\n    delete?   Secret/a\n      \
                        delete?   Job/a     race: it depends on y\n      delete?   Pod/a     one; two\n    \
                        recreate? Service/a   in-namespace\n";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn the_reason_of_rows_that_are_only_counted_is_not_that_of_the_others() {
        let update = |name: &str| {
            let reason = Reason::new(ReasonCode::TakenOver, "spec.suspend is removed");
            let id = ObjectId::new("", "ConfigMap", "shop", name);
            Change::new(
                Action::Update,
                PinnedObject::absent(id),
                Some(owner("apps")),
                Actor::KustomizeController,
                reason,
            )
        };
        let delete = row(Action::Delete, "Secret", Reason::from(ReasonCode::NotInBuild), None);
        let text = rendered([update("a"), update("b"), delete]);
        assert!(!text.contains("taken-over") && text.contains("  delete    Secret/a   not-in-build\n"), "{text}");
        assert!(rendered([update("a"), update("b")]).contains("  reason: taken-over: spec.suspend is removed\n"));
    }

    #[test]
    fn lines_fit_on_the_terminal_and_nothing_is_cut() {
        let plan = plan();
        let whole: Vec<String> = render(&plan, Look::whole(true)).split_whitespace().map(str::to_owned).collect();
        for width in [80, 120, 200] {
            let text = render(&plan, Look { width: Some(width), ..Look::whole(true) });
            assert!(text.lines().all(|line| measure_text_width(line) <= width), "{width}: {text}");
            assert_eq!(text.split_whitespace().collect::<Vec<_>>(), whole, "{width}");
        }
        let coloured = render(&plan, Look { colour: true, ..Look::whole(true) });
        assert!(coloured.contains("\u{1b}[31mdelete\u{1b}[0m    Namespace/shop"), "{coloured}");
    }
}
