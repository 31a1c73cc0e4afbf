//! A part of the cluster that could not be read or computed. A gap is a value that every answer carries, so that an
//! incomplete answer never looks complete.

use std::ops::Deref;

use serde::{Deserialize, Serialize};

use super::object::{GroupKind, ResourceType, plural};

/// Reason for a [`Gap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum GapKind {
    /// The server answered 401 or 403.
    Forbidden,
    /// Discovery lists the API group, but its server does not answer.
    StaleGroup,
    /// 406: the server cannot return metadata only.
    NotAcceptable,
    /// 410 twice: the list did not finish before its revision was compacted.
    Expired,
    /// 429 after all retries.
    Throttled,
    /// No answer in time.
    Timeout,
    Failed,
}

impl GapKind {
    /// Returns the cause in a few words.
    pub fn cause(self) -> &'static str {
        match self {
            Self::Forbidden => "forbidden",
            Self::StaleGroup => "their server does not answer",
            Self::NotAcceptable => "their server does not return metadata only",
            Self::Expired => "the lists expired before they were complete",
            Self::Throttled => "the server is busy",
            Self::Timeout => "no answer in time",
            Self::Failed => "failed",
        }
    }
}

/// Something that could not be read or computed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Gap {
    /// Reason for the gap.
    pub kind: GapKind,
    /// Resource such as `deployments.apps`, API group version such as `metrics.k8s.io/v1beta1`, or another name.
    pub subject: String,
    /// Namespace, where the rest of the cluster could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Message of the server, or of this tool.
    pub message: String,
}

/// A gap in an answer, which may be about several clusters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AnswerGap {
    /// Context of the cluster, or name of its recording, if the answer is about several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// True if the cluster is a recording.
    #[serde(skip)]
    pub is_recorded: bool,
    #[serde(flatten)]
    pub gap: Gap,
    /// False if nothing that the gap hides can change this answer. A file without this field has only gaps that can.
    #[serde(rename = "affectsAnswer", default = "can_change_answer")]
    pub affects_answer: bool,
}

fn can_change_answer() -> bool {
    true
}

impl Deref for AnswerGap {
    type Target = Gap;

    fn deref(&self) -> &Gap {
        &self.gap
    }
}

impl AnswerGap {
    /// Returns the gap as one of a cluster of several, by its context or the name of its recording.
    #[must_use]
    pub(crate) fn of_cluster(self, context: &str, is_recorded: bool) -> Self {
        Self { context: Some(context.to_owned()), is_recorded, ..self }
    }
}

impl From<Gap> for AnswerGap {
    fn from(gap: Gap) -> Self {
        Self { context: None, is_recorded: false, gap, affects_answer: true }
    }
}

/// Like gaps: types that could not be read for one cause, in one place, or whatever one message is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GapGroup<'a> {
    /// The first gap; alone in its group unless there are further ones.
    pub first: &'a AnswerGap,
    /// Further gaps of the same cause and place, or of the same message.
    pub others: Vec<&'a AnswerGap>,
}

impl<'a> GapGroup<'a> {
    /// Groups gaps of the same effect, in their order: types by cause and place, all others by their message.
    pub fn of(gaps: &'a [AnswerGap]) -> Vec<Self> {
        let mut groups: Vec<Self> = vec![];
        for gap in gaps {
            match groups.iter_mut().find(|group| group.takes(gap)) {
                Some(group) => group.others.push(gap),
                None => groups.push(Self { first: gap, others: vec![] }),
            }
        }
        groups
    }

    fn takes(&self, other: &AnswerGap) -> bool {
        let first = self.first;
        let are_alike = (first.gap.kind, first.affects_answer) == (other.gap.kind, other.affects_answer);
        are_alike
            && match (first.gap.is_list(), other.gap.is_list()) {
                (true, true) => {
                    (&first.context, &first.gap.namespace) == (&other.context, &other.gap.namespace)
                        && first.gap.is_of_dry_runs() == other.gap.is_of_dry_runs()
                        && first.gap.part_read() == other.gap.part_read()
                }
                (false, false) => {
                    (first.gap.predicate(1), &first.gap.message) == (other.gap.predicate(1), &other.gap.message)
                }
                (true, false) | (false, true) => false,
            }
    }

    /// Returns true if the gaps have a message in common, which says more than their cause.
    pub fn has_one_message(&self) -> bool {
        !self.first.gap.is_list()
    }

    /// All gaps, in order.
    pub fn gaps(&self) -> impl Iterator<Item = &'a AnswerGap> {
        std::iter::once(self.first).chain(self.others.iter().copied())
    }

    /// Returns what could not be read, in order. Of dry-runs these are the types.
    pub fn subjects(&self) -> impl Iterator<Item = &'a str> {
        self.gaps().map(|gap| gap.gap.unread_type())
    }
}

/// Beginning of the subject of a build that is not known. Its owner follows.
pub(crate) const BUILDS: &str = "build of ";
/// Beginning of the subject of an effect that is not known. Its owner follows.
pub(crate) const EFFECTS: &str = "effect of the change on ";
/// Beginning of the subject of what an owner applied in an older commit. The owner follows.
pub const RESULTS: &str = "result of ";
/// Subject of a plan whose end is not known.
pub(crate) const PREVIEW: &str = "preview";
/// Beginning of the subject of dry-runs without an answer. Their type follows.
pub const DRY_RUNS: &str = "answers to dry-runs of ";
/// Beginning of what a message says about the part that was read.
const PART_READ: &str = "; read in ";

impl Gap {
    /// Adds to the message which part was read nevertheless, such as `shop only`.
    pub fn add_part_read(&mut self, part: &str) {
        self.message.push_str(PART_READ);
        self.message.push_str(part);
    }

    /// Returns the part that was read nevertheless.
    pub fn part_read(&self) -> Option<&str> {
        self.message.rsplit_once(PART_READ).map(|(_, part)| part)
    }

    /// Returns true if the gap is about the dry-runs of a type.
    pub fn is_of_dry_runs(&self) -> bool {
        self.subject.starts_with(DRY_RUNS)
    }

    /// Returns what is wrong with this number of such subjects: they could not be read, or they could not be computed.
    pub fn predicate(&self, number: usize) -> &'static str {
        let is_computed =
            [BUILDS, EFFECTS, RESULTS, PREVIEW].iter().any(|beginning| self.subject.starts_with(beginning));
        match (is_computed, number) {
            (false, _) => "could not be read",
            (true, 1) => "is not known",
            (true, _) => "are not known",
        }
    }

    fn unread_type(&self) -> &str {
        self.subject.strip_prefix(DRY_RUNS).unwrap_or(&self.subject)
    }

    /// Returns true if the gap is a list or the dry-runs of a type, or a whole API group version, and its cause says all
    /// about it.
    fn is_list(&self) -> bool {
        let is_name = !self.unread_type().contains([' ', '/']) || self.group_version().is_some();
        self.kind != GapKind::Failed && is_name
    }

    /// Returns true if [`Gap::hides`] says which kinds the gap hides: it is about a known type or an API group version.
    pub(crate) fn is_about_types(&self, types: &[ResourceType]) -> bool {
        self.group_version().is_some() || types.iter().any(|known| self.subject == known.resource())
    }

    /// Returns true if the gap is about a namespace that a user chose, or about any without one.
    pub fn leaves_unread(&self, chosen: Option<&str>) -> bool {
        match (chosen, self.namespace.as_deref()) {
            (None, _) => true,
            (Some(chosen), Some(unread)) => chosen == unread,
            (Some(chosen), None) => self.part_read() != Some(&format!("{chosen} only")),
        }
    }

    /// Says that an object cannot be read because of the gap, and which right is missing.
    pub fn refusal(&self) -> String {
        if self.kind != GapKind::Forbidden {
            return format!("could not be read: {}", self.message);
        }
        let place = match &self.namespace {
            Some(namespace) => format!("namespace {namespace}"),
            None => "the whole cluster".to_owned(),
        };
        format!("cannot be read (forbidden): you may not list {} in {place}", self.subject)
    }

    /// Returns the gap of another cluster as one of an answer about several.
    #[must_use]
    pub fn in_cluster(&self, name: &str) -> Self {
        Self { subject: format!("{} in cluster {name}", self.subject), ..self.clone() }
    }

    /// Returns true if objects of this group and kind may exist that the gap hides, in [`Gap::namespace`] or anywhere.
    ///
    /// A group version hides the kinds that are read in that version, and every kind of its group that no known type
    /// serves. `types` are the types that were looked for.
    pub fn hides(&self, what: &GroupKind, types: &[ResourceType]) -> bool {
        let known = types.iter().find(|known| known.is(&what.group, &what.kind));
        match (self.group_version(), known) {
            (Some((group, version)), Some(known)) => group == &*known.group && version == &*known.version,
            (Some((group, _)), None) => group == &*what.group,
            (None, Some(known)) => self.subject == known.resource(),
            (None, None) => self.subject == usual_resource(what),
        }
    }

    /// Group and version, if the subject is an API group version; the core group has the versions `v1` and `/v1`.
    fn group_version(&self) -> Option<(&str, &str)> {
        let (group, version) = self.subject.split_once('/').unwrap_or(("", &self.subject));
        let number = version.strip_prefix('v')?;
        (number.starts_with(|c: char| c.is_ascii_digit()) && !number.contains('/')).then_some((group, version))
    }
}

/// Resource name that a kind has by convention, for kinds that discovery did not list.
fn usual_resource(what: &GroupKind) -> String {
    let name = plural(&what.kind);
    if what.group.is_empty() { name } else { format!("{name}.{}", what.group) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_computed_is_not_said_to_be_read() {
        for (subject, expected) in [
            ("pods", "could not be read"),
            ("build of kustomization/a -n x", "is not known"),
            ("effect of the change on helmrelease/a -n x", "is not known"),
            ("preview", "is not known"),
        ] {
            let gap =
                Gap { kind: GapKind::Failed, subject: subject.to_owned(), namespace: None, message: String::new() };
            assert_eq!(gap.predicate(1), expected, "{subject}");
        }
    }

    #[test]
    fn gaps_of_one_cause_and_place_are_one_group() {
        let gap = |kind, subject: &str, message: &str| Gap {
            kind,
            subject: subject.to_owned(),
            namespace: None,
            message: message.to_owned(),
        };
        let mut secrets = gap(GapKind::Forbidden, "secrets", "secrets is forbidden");
        secrets.add_part_read("shop only");
        let rows = [
            gap(GapKind::Forbidden, "roles.rbac.authorization.k8s.io", "a"),
            gap(GapKind::StaleGroup, "metrics.k8s.io/v1beta1", "b"),
            gap(GapKind::Forbidden, "nodes", "c"),
            secrets,
            Gap { namespace: Some("shop".to_owned()), ..gap(GapKind::Forbidden, "pods", "d") },
            gap(GapKind::Failed, "build of kustomization/a", "e"),
            gap(GapKind::Failed, "build of kustomization/b", "f"),
            gap(GapKind::Failed, "build of kustomization/c", "e"),
            gap(GapKind::Forbidden, "answers to dry-runs of pods", "g"),
            gap(GapKind::Forbidden, "answers to dry-runs of services", "i"),
        ];
        let mut gaps = rows.map(AnswerGap::from).to_vec();
        gaps.push(AnswerGap { affects_answer: false, ..gap(GapKind::Forbidden, "events", "h").into() });
        let groups = GapGroup::of(&gaps);
        let subjects: Vec<Vec<&str>> = groups.iter().map(|group| group.subjects().collect()).collect();
        assert_eq!(subjects[0], ["roles.rbac.authorization.k8s.io", "nodes"]);
        assert!(subjects.contains(&vec!["build of kustomization/a", "build of kustomization/c"]), "{subjects:?}");
        let of_dry_runs = groups.iter().find(|group| group.first.is_of_dry_runs()).unwrap();
        assert_eq!(of_dry_runs.subjects().collect::<Vec<_>>(), ["pods", "services"]);
        assert_eq!((subjects.len(), subjects.iter().filter(|group| group.len() == 1).count()), (8, 5), "{subjects:?}");
        assert_eq!(gaps[3].gap.part_read(), Some("shop only"));
        assert_eq!(gaps[3].gap.message, "secrets is forbidden; read in shop only");
        let unread = [None, Some("shop"), Some("flux-system")].map(|chosen| gaps[3].gap.leaves_unread(chosen));
        assert_eq!(unread, [true, false, true]);
    }

    #[test]
    fn a_refusal_names_the_missing_right() {
        let gap = |kind| Gap { kind, subject: "pods".to_owned(), namespace: None, message: "late".to_owned() };
        let right = "cannot be read (forbidden): you may not list pods in";
        assert_eq!(gap(GapKind::Forbidden).refusal(), format!("{right} the whole cluster"));
        let in_shop = Gap { namespace: Some("shop".to_owned()), ..gap(GapKind::Forbidden) };
        assert_eq!(in_shop.refusal(), format!("{right} namespace shop"));
        assert_eq!(gap(GapKind::Timeout).refusal(), "could not be read: late");
    }

    fn served_type(group: &str, version: &str, kind: &str, plural: &str) -> ResourceType {
        ResourceType {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            plural: plural.into(),
            singular: "".into(),
            short_names: vec![],
            namespaced: true,
        }
    }

    #[test]
    fn a_gap_hides_the_types_that_its_subject_covers() {
        let types = [
            served_type("apps", "v1", "Deployment", "deployments"),
            served_type("", "v1", "Pod", "pods"),
            served_type("example.com", "v2", "Datum", "data"),
        ];
        let rows = [
            ("a resource", GapKind::Forbidden, "deployments.apps", ("apps", "Deployment"), true),
            ("another resource", GapKind::Forbidden, "pods", ("apps", "Deployment"), false),
            (
                "the same resource of another group",
                GapKind::Forbidden,
                "deployments.apps",
                ("x.io", "Deployment"),
                false,
            ),
            ("a resource of the core group", GapKind::Timeout, "pods", ("", "Pod"), true),
            ("an irregular plural that is known", GapKind::Failed, "data.example.com", ("example.com", "Datum"), true),
            ("the version that is read", GapKind::StaleGroup, "apps/v1", ("apps", "Deployment"), true),
            ("a version that is not read", GapKind::StaleGroup, "apps/v1beta1", ("apps", "Deployment"), false),
            ("discovery of a version that failed", GapKind::Failed, "apps/v1", ("apps", "Deployment"), true),
            ("the core version", GapKind::StaleGroup, "v1", ("", "Pod"), true),
            ("the core version with a slash", GapKind::Failed, "/v1", ("", "Pod"), true),
            ("the core version and another group", GapKind::StaleGroup, "v1", ("apps", "Deployment"), false),
            ("a group of an unknown kind", GapKind::StaleGroup, "apps/v1", ("apps", "StatefulSet"), true),
            ("another version of an unknown kind", GapKind::StaleGroup, "apps/v9", ("apps", "StatefulSet"), true),
            ("another group", GapKind::StaleGroup, "metrics.k8s.io/v1beta1", ("apps", "StatefulSet"), false),
            ("an unknown kind", GapKind::Forbidden, "statefulsets.apps", ("apps", "StatefulSet"), true),
            ("an unknown kind in y", GapKind::Forbidden, "helmrepositories.x.io", ("x.io", "HelmRepository"), true),
            ("an unknown kind in s", GapKind::Forbidden, "ingresses.x.io", ("x.io", "Ingress"), true),
            ("an object", GapKind::Failed, "GitRepository/flux-system/apps", ("apps", "Deployment"), false),
            ("a computation", GapKind::Failed, "preview", ("", "Pod"), false),
        ];
        for (name, kind, subject, (group, of), expected) in rows {
            let gap = Gap { kind, subject: subject.to_owned(), namespace: None, message: String::new() };
            assert_eq!(gap.hides(&GroupKind::new(group, of), &types), expected, "{name}");
        }
    }
}
