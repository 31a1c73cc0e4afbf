//! Subject of a plan: the tree that was planned, and the sources and the cluster that it was planned for.

use std::fmt::{Display, Formatter, Result};
use std::sync::Arc;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};

use crate::text::{join_limited, pluralize};

/// Number of digits of a commit that a text shows, as git does.
const SHORT_COMMIT: usize = 7;

/// Number of sources that a text names.
const NAMED_SOURCES: usize = 3;

/// What a plan is a plan of.
///
/// Two runs over the same cluster and the same tree give the same subject: the time is that of a recording, and a live
/// plan has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Subject {
    /// Directory of the tree, as it was named.
    pub tree: String,
    /// Files of the tree that were read.
    pub content: SubjectContent,
    /// Commit that is checked out, or that was named; absent for a directory that is no checkout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Branch that is checked out, or revision as it was named; for a patched commit its branch. Absent for a detached HEAD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// True if files that were read differ from the revision.
    pub dirty: bool,
    /// Branch that the tree is merged into; absent for sources that were named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub into: Option<String>,
    /// Sources that get the tree as their content.
    pub sources: Vec<SubjectSource>,
    /// URL of the API server.
    pub server: String,
    /// Context of the kubeconfig; absent for a recorded cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Time at which the cluster was recorded; absent for a live cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<DateTime<Utc>>,
    /// Version of kustomize-controller; absent if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_version: Option<String>,
    /// Last commit that the revision and the deployed commit have in common; absent if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge_base: Option<String>,
    /// Number of commits that are deployed and that the revision does not have; absent if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<u64>,
}

/// Files of a tree that a plan is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum SubjectContent {
    /// The files in the directory.
    #[default]
    Directory,
    /// The staged files.
    Staged,
    /// The files of the revision.
    Revision,
    /// The result of merging the revision with the deployed commit.
    Merge,
    /// The files of a revision with the patches of the steps so far.
    Patched,
}

/// A source that gets the tree as its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SubjectSource {
    pub kind: Arc<str>,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    /// Revision of its present artifact; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Reasons why the source does not fetch the tree, or may not, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub obstacles: Vec<String>,
}

impl Subject {
    /// Returns the tree, its revision, and the branch and the sources that it is for.
    pub fn tree_text(&self) -> String {
        let mut text = self.tree.clone();
        if let Some(revision) = &self.revision {
            let place = self.branch.as_deref().unwrap_or("detached");
            let changes = match (self.content, self.dirty) {
                (_, false) => "",
                (SubjectContent::Staged, true) => ", with staged changes",
                (_, true) => ", with uncommitted changes",
            };
            text = format!("{text} at {} ({place}{changes})", short(revision));
        }
        match (&self.into, self.content) {
            (Some(into), SubjectContent::Merge) => text += &format!(", merged with {into}"),
            (Some(into), SubjectContent::Patched) => {
                text += &format!(" with the patches of the steps, merged into {into}")
            }
            (Some(into), _) => text += &format!(", as if merged into {into}"),
            (None, _) => {}
        }
        let sources: Vec<String> = self.sources.iter().map(ToString::to_string).collect();
        format!("{text}: {}", join_limited(&sources, NAMED_SOURCES))
    }

    /// Returns the cluster, the time of its recording, and the version of its controller.
    pub fn cluster_text(&self) -> String {
        let mut text = self.server.clone();
        if let Some(context) = &self.context {
            text += &format!(" (context {context})");
        }
        if let Some(at) = self.at {
            text += &format!(", recorded {}", at.to_rfc3339_opts(SecondsFormat::Secs, true));
        }
        match &self.controller_version {
            Some(version) => text + &format!(", kustomize-controller {version}"),
            None => text + ", kustomize-controller of unknown version",
        }
    }

    /// Returns how many deployed commits the revision lacks, if the plan therefore undoes them.
    fn lag(&self) -> Option<String> {
        let behind = self.behind.filter(|behind| *behind > 0 && self.content != SubjectContent::Merge)?;
        let behind = pluralize(usize::try_from(behind).unwrap_or(usize::MAX), "commit");
        let revision = self.sources.iter().find_map(|source| source.revision.as_deref());
        let deployed = revision.map(short_revision).unwrap_or_default();
        Some(format!("{behind} behind {deployed}"))
    }

    /// Returns a sentence if the revision lacks deployed commits, whose changes the plan therefore undoes.
    pub fn behind_text(&self) -> Option<String> {
        Some(format!("the tree is {}: the plan also undoes what those commits changed", self.lag()?))
    }

    /// Returns what keeps sources from fetching the tree, or can keep them.
    pub fn obstacles_text(&self) -> Option<String> {
        let obstacles: Vec<&str> =
            self.sources.iter().flat_map(|source| &source.obstacles).map(String::as_str).collect();
        (!obstacles.is_empty()).then(|| obstacles.join("; "))
    }

    /// Returns [`Self::behind_text`] in a few words.
    pub fn lag_text(&self) -> Option<String> {
        Some(format!("{}, which the plan undoes", self.lag()?))
    }
}

/// One line: the tree, how far it is behind what is deployed, the cluster, and what keeps sources from fetching the tree.
impl Display for Subject {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> Result {
        let lag = self.lag_text().map(|lag| format!("; {lag}")).unwrap_or_default();
        write!(formatter, "{}{lag}; cluster {}", self.tree_text(), self.cluster_text())?;
        let obstacles = self.obstacles_text().map(|obstacles| format!("; {obstacles}")).unwrap_or_default();
        write!(formatter, "{obstacles}")
    }
}

impl Display for SubjectSource {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> Result {
        write!(formatter, "{}/{}/{}", self.kind, self.namespace, self.name)
    }
}

/// Returns the first digits of a commit.
pub fn short(commit: &str) -> &str {
    commit.get(..SHORT_COMMIT).unwrap_or(commit)
}

/// Returns a revision of Flux with the first digits of its commit: `main@sha1:1234567`.
pub fn short_revision(revision: &str) -> String {
    match revision.rsplit_once(':') {
        Some((before, commit)) => format!("{before}:{}", short(commit)),
        None => revision.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject() -> Subject {
        let [kind, namespace, name] = ["GitRepository", "flux-system", "apps"].map(Arc::from);
        Subject {
            tree: ".".to_owned(),
            revision: Some("0123456789abcdef".to_owned()),
            branch: Some("feature".to_owned()),
            into: Some("main".to_owned()),
            sources: vec![SubjectSource {
                obstacles: vec![],
                kind,
                namespace,
                name,
                revision: Some("main@sha1:fedcba9876".to_owned()),
            }],
            server: "https://example.com".to_owned(),
            context: Some("prod".to_owned()),
            controller_version: Some("v1.7.0".to_owned()),
            behind: Some(0),
            ..Subject::default()
        }
    }

    #[test]
    fn one_line_names_the_tree_and_the_cluster() {
        let line = ". at 0123456 (feature), as if merged into main: GitRepository/flux-system/apps; \
                    cluster https://example.com (context prod), kustomize-controller v1.7.0";
        assert_eq!(subject().to_string(), line);
        let detached = Subject { branch: None, dirty: true, ..subject() };
        assert!(detached.tree_text().starts_with(". at 0123456 (detached, with uncommitted changes), as if merged"));
        let staged = Subject { content: SubjectContent::Staged, dirty: true, ..subject() };
        assert!(staged.tree_text().starts_with(". at 0123456 (feature, with staged changes), as if merged"));
        let merged = Subject { content: SubjectContent::Merge, ..subject() };
        assert!(merged.tree_text().starts_with(". at 0123456 (feature), merged with main: "));
        let patched = Subject { content: SubjectContent::Patched, revision: None, ..subject() };
        assert!(patched.tree_text().starts_with(". with the patches of the steps, merged into main: "));
        let folder = Subject { revision: None, into: None, context: None, at: Some(DateTime::UNIX_EPOCH), ..subject() };
        let folder = Subject { controller_version: None, ..folder };
        let line = ".: GitRepository/flux-system/apps; cluster https://example.com, recorded 1970-01-01T00:00:00Z, \
                    kustomize-controller of unknown version";
        assert_eq!(folder.to_string(), line);
    }

    #[test]
    fn a_tree_that_lacks_deployed_commits_undoes_them_unless_they_are_merged() {
        assert_eq!(subject().behind_text(), None);
        let behind = Subject { behind: Some(3), ..subject() };
        let text = "the tree is 3 commits behind main@sha1:fedcba9: the plan also undoes what those commits changed";
        assert_eq!(behind.behind_text().as_deref(), Some(text));
        let line = behind.to_string();
        assert!(line.contains("; 3 commits behind main@sha1:fedcba9, which the plan undoes; cluster "), "{line}");
        assert_eq!(Subject { content: SubjectContent::Merge, ..behind }.behind_text(), None);
    }

    #[test]
    fn a_source_that_does_not_fetch_the_tree_is_named() {
        assert_eq!(subject().obstacles_text(), None);
        let mut suspended = subject();
        suspended.sources[0].obstacles = vec!["it is suspended".to_owned()];
        assert!(suspended.to_string().ends_with("v1.7.0; it is suspended"), "{suspended}");
    }

    #[test]
    fn a_document_without_a_time_is_read_back() {
        let text = serde_json::to_string(&subject()).unwrap();
        assert!(text.contains(r#""controllerVersion":"v1.7.0""#) && !text.contains(r#""at""#), "{text}");
        assert_eq!(serde_json::from_str::<Subject>(&text).unwrap(), subject());
    }
}
