//! Matches the sources of a cluster with a checkout.
//!
//! A source that is pinned to a tag or a commit, or that follows another branch, does not change when the tree is merged.
//! Source: docs/reference/kustomize-controller.md 8 (38) and 10.

use std::collections::{BTreeMap, BTreeSet};

use crate::flux::kinds::{FluxKind, SOURCE_GROUP};
use crate::flux::spec::SourceId;
use crate::kubernetes::object::Resource;
use crate::kubernetes::snapshot::Snapshot;

/// Ref that a GitRepository follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FollowedRef {
    /// A merge into this branch changes the content of the source.
    Branch(String),
    /// No merge changes the content of the source. The text is such as `tag v1`.
    Fixed(String),
}

/// GitRepositories of a cluster that have the URL of a checkout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckoutSources {
    /// Sources by the branch that they follow.
    pub branches: BTreeMap<String, BTreeSet<SourceId>>,
    /// Sources that follow no branch, with what they follow, such as `tag v1`.
    pub fixed: BTreeMap<SourceId, String>,
}

impl CheckoutSources {
    /// Finds the sources of a checkout with these remotes.
    pub fn find(snapshot: &Snapshot, remotes: &[String]) -> Self {
        let own = normalised(remotes);
        let mut found = Self::default();
        for repository in git_repositories(snapshot).filter(|source| own.contains(&normalise_url(url(source)))) {
            let id = SourceId::of(&repository.object.id);
            match followed_ref(repository) {
                FollowedRef::Branch(branch) => drop(found.branches.entry(branch).or_default().insert(id)),
                FollowedRef::Fixed(reference) => drop(found.fixed.insert(id, reference)),
            }
        }
        found
    }

    /// Returns the sources that a merge into a branch does not change, with what they follow.
    pub fn other_refs(&self, branch: Option<&str>) -> BTreeMap<SourceId, String> {
        let mut found = self.fixed.clone();
        for (other, sources) in self.branches.iter().filter(|(other, _)| Some(other.as_str()) != branch) {
            found.extend(sources.iter().map(|id| (id.clone(), format!("branch {other}"))));
        }
        found
    }
}

/// Returns the URLs of the GitRepositories of a cluster, sorted, each once and without credentials.
pub fn addresses(snapshot: &Snapshot) -> BTreeSet<String> {
    git_repositories(snapshot).map(|source| without_credentials(url(source))).collect()
}

/// Returns the GitRepositories of a cluster.
pub fn git_repositories(snapshot: &Snapshot) -> impl Iterator<Item = &Resource> {
    snapshot.resources.iter().filter(|full| full.object.id.is(SOURCE_GROUP, "GitRepository"))
}

fn normalised(remotes: &[String]) -> BTreeSet<String> {
    remotes.iter().map(|remote| normalise_url(remote)).collect()
}

fn url(source: &Resource) -> &str {
    source.text("/spec/url").unwrap_or_default()
}

/// Returns the OCIRepositories whose artifacts say that they were made of a repository with one of these URLs.
///
/// Source: Flux v2.9 `cmd/flux/push_artifact.go`: `--source` becomes this annotation, and source-controller keeps it.
pub fn pushed_from(snapshot: &Snapshot, remotes: &[String]) -> Vec<SourceId> {
    let own = normalised(remotes);
    let registries = snapshot.resources.iter().filter(|full| full.object.id.is(SOURCE_GROUP, "OCIRepository"));
    let pushed = registries.filter(|full| {
        let source = full.text("/status/artifact/metadata/org.opencontainers.image.source");
        source.is_some_and(|source| own.contains(&normalise_url(source)))
    });
    pushed.map(|full| SourceId::of(&full.object.id)).collect()
}

/// Returns true if a source has the repository of this URL.
pub fn has_address(snapshot: &Snapshot, id: &SourceId, address: &str) -> bool {
    source(snapshot, id).is_some_and(|source| normalise_url(url(source)) == normalise_url(address))
}

/// Returns a source of the cluster.
pub fn source<'a>(snapshot: &'a Snapshot, id: &SourceId) -> Option<&'a Resource> {
    snapshot.resources.iter().find(|full| SourceId::of(&full.object.id) == *id)
}

/// Returns the Git commit of a revision such as `main@sha1:COMMIT`, if it names one.
pub fn commit_of(revision: &str) -> Option<&str> {
    revision.rsplit_once("sha1:").map(|(_, commit)| commit)
}

/// Returns the commit of the artifact that a source has now.
pub fn deployed_commit<'a>(snapshot: &'a Snapshot, id: &SourceId) -> Option<&'a str> {
    deployed_revision(snapshot, id).and_then(commit_of)
}

/// Returns the sources that the Kustomizations, HelmReleases, HelmCharts and ArtifactGenerators of a cluster use.
pub fn sources_in_use(snapshot: &Snapshot) -> BTreeSet<SourceId> {
    let mut found = BTreeSet::new();
    for full in &snapshot.resources {
        let references = FluxKind::source_references(full).into_iter();
        found.extend(references.map(|(entry, kind)| SourceId::read(entry, kind, &full.object.id.namespace)));
    }
    found
}

/// Returns the revision of the artifact that a source has now, such as `main@sha1:…`.
pub fn deployed_revision<'a>(snapshot: &'a Snapshot, id: &SourceId) -> Option<&'a str> {
    source(snapshot, id)?.text("/status/artifact/revision")
}

/// Returns the ref that a GitRepository follows. Of the fields of `spec.ref`, source-controller uses the first that is set
/// of commit, name, semver, tag and branch; without any it uses the branch `master`.
pub(crate) fn followed_ref(source: &Resource) -> FollowedRef {
    for (field, noun) in [("commit", "commit"), ("name", "ref"), ("semver", "semver"), ("tag", "tag")] {
        let Some(reference) = source.text(&format!("/spec/ref/{field}")).filter(|text| !text.is_empty()) else {
            continue;
        };
        return match reference.strip_prefix("refs/heads/").filter(|_| field == "name") {
            Some(branch) => FollowedRef::Branch(branch.to_owned()),
            None => FollowedRef::Fixed(format!("{noun} {reference}")),
        };
    }
    let branch = source.text("/spec/ref/branch").filter(|text| !text.is_empty());
    FollowedRef::Branch(branch.unwrap_or("master").to_owned())
}

/// Returns a URL without the user, the password and the query, which can have a token.
pub fn without_credentials(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let without_query = rest.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = without_query.find('/').map_or((without_query, ""), |at| without_query.split_at(at));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}

/// Returns one spelling for a repository: `host/path` without scheme, user, default port, `.git` or trailing slash.
pub fn normalise_url(url: &str) -> String {
    let trimmed = url.trim().trim_end_matches('/');
    let without_suffix = trimmed.strip_suffix(".git").unwrap_or(trimmed);
    let (is_scp, address) = match without_suffix.split_once("://") {
        Some((_, address)) => (false, address),
        None => (true, without_suffix),
    };
    let without_user = match address.split_once('@') {
        Some((user, rest)) if !user.contains('/') => rest,
        _ => address,
    };
    let (host, path) = match (is_scp, without_user.split_once(':'), without_user.split_once('/')) {
        (true, Some((host, path)), _) if !host.contains('/') => (host, path),
        (_, _, Some((host, path))) => (host, path),
        _ => (without_user, ""),
    };
    let host_name = [":22", ":443", ":80"].iter().find_map(|port| host.strip_suffix(port)).unwrap_or(host);
    format!("{}/{}", host_name.to_lowercase(), path.trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{flux_object, snapshot};
    use serde_json::json;

    #[test]
    fn spellings_of_one_repository_are_equal() {
        let same = [
            "https://github.com/org/repo",
            "https://github.com/org/repo.git",
            "https://user@GitHub.com/org/repo/",
            "ssh://git@github.com/org/repo",
            "ssh://git@github.com:22/org/repo.git",
            "git@github.com:org/repo.git",
            "git@github.com:/org/repo",
        ];
        for url in same {
            assert_eq!(normalise_url(url), "github.com/org/repo", "{url}");
        }
        assert_ne!(normalise_url("https://github.com/org/other"), "github.com/org/repo");
        assert_ne!(normalise_url("http://127.0.0.1:8080/repo"), normalise_url("http://127.0.0.1:9090/repo"));
    }

    #[test]
    fn no_address_shows_a_credential() {
        let rows = [
            ("https://user:secret@example.com/org/repo?token=secret", "https://example.com/org/repo"),
            ("https://secret@example.com", "https://example.com"),
            ("https://user:se@cret@example.com/a@b", "https://example.com/a@b"),
            ("git@example.com:org/repo", "git@example.com:org/repo"),
            ("/srv/repo", "/srv/repo"),
        ];
        for (url, expected) in rows {
            assert_eq!(without_credentials(url), expected);
        }
    }

    #[test]
    fn an_artifact_says_of_which_repository_it_was_made() {
        let mut registry = flux_object("OCIRepository", json!({"spec": {"url": "oci://example.com/app"}}), &[]);
        registry.content["status"]["artifact"]["metadata"] =
            json!({"org.opencontainers.image.source": "https://github.com/org/repo.git"});
        let cluster = snapshot(vec![], vec![registry]);
        let found = |remote: &str| pushed_from(&cluster, &[remote.to_owned()]).len();
        assert_eq!((found("git@github.com:org/repo"), found("git@github.com:org/other")), (1, 0));
    }

    #[test]
    fn the_ref_with_the_highest_precedence_decides() {
        let branch = |name: &str| FollowedRef::Branch(name.to_owned());
        let fixed = |text: &str| FollowedRef::Fixed(text.to_owned());
        let rows = [
            (json!({"branch": "main"}), branch("main")),
            (json!({}), branch("master")),
            (json!({"branch": "main", "tag": "v1"}), fixed("tag v1")),
            (json!({"tag": "v1", "semver": ">=1"}), fixed("semver >=1")),
            (json!({"semver": ">=1", "name": "refs/heads/main"}), branch("main")),
            (json!({"name": "refs/tags/v1"}), fixed("ref refs/tags/v1")),
            (json!({"name": "refs/heads/main", "commit": "abc"}), fixed("commit abc")),
        ];
        for (reference, expected) in rows {
            let spec = json!({"spec": {"url": "https://example.com/org/repo", "ref": reference}});
            assert_eq!(followed_ref(&flux_object("GitRepository", spec, &[])), expected, "{reference}");
        }
    }

    #[test]
    fn the_sources_of_a_checkout_and_those_in_use_are_found() {
        let mut full = Vec::new();
        for (name, branch) in [("same", "main"), ("other", "dev")] {
            let spec = json!({"spec": {"url": "https://example.com/org/repo", "ref": {"branch": branch}}});
            let mut source = flux_object("GitRepository", spec, &[]);
            source.object.id.name = name.into();
            full.push(source);
        }
        let used = json!({"spec": {"sourceRef": {"kind": "GitRepository", "name": "same"}}});
        full.push(flux_object("Kustomization", used, &[]));
        let snapshot = snapshot(vec![], full);
        let [same, other] =
            ["same", "other"].map(|name| SourceId::parse(&format!("GitRepository/shop/{name}")).unwrap());
        let found = CheckoutSources::find(&snapshot, &["git@example.com:org/repo".to_owned()]);
        assert_eq!(found.branches["main"], BTreeSet::from([same.clone()]));
        assert_eq!(found.other_refs(Some("main")), BTreeMap::from([(other.clone(), "branch dev".to_owned())]));
        assert_eq!(CheckoutSources::find(&snapshot, &[]), CheckoutSources::default());
        assert_eq!(addresses(&snapshot), BTreeSet::from(["https://example.com/org/repo".to_owned()]));
        assert_eq!(sources_in_use(&snapshot), BTreeSet::from([same]));
        assert!(source(&snapshot, &other).is_some());
    }
}
