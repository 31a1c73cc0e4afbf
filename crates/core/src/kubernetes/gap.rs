//! A part of the cluster that could not be read or computed. A gap is a value that every answer carries, so that an
//! incomplete answer never looks complete.

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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AnswerGap {
    /// Context of the cluster, if the answer is about several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    #[serde(flatten)]
    pub gap: Gap,
}

impl From<Gap> for AnswerGap {
    fn from(gap: Gap) -> Self {
        Self { context: None, gap }
    }
}

impl Gap {
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
