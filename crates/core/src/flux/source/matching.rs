//! Matches the sources of a cluster with a checkout.
//!
//! A source that is pinned to a tag or a commit, or that follows another branch, does not change when the tree is merged.
//! Source: docs/reference/kustomize-controller.md 8 (38) and 10.

use std::collections::{BTreeMap, BTreeSet};

use crate::flux::kinds::{FluxKind, SOURCE_GROUP};
use crate::flux::spec::SourceId;
use crate::kubernetes::object::Resource;
use crate::kubernetes::snapshot::Snapshot;

/// Result of comparing a GitRepository with a checkout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CheckoutMatch {
    /// The checkout becomes the content of the source when it is merged.
    Same,
    /// The URL is none of the checkout's remotes.
    OtherUrl,
    /// The URL is a remote of the checkout, but the source follows another ref, such as `tag v1`.
    OtherRef(String),
}

/// GitRepositories of a cluster that have the URL of a checkout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckoutSources {
    /// Sources that follow the branch.
    pub same: BTreeSet<SourceId>,
    /// Sources that follow another ref, with that ref.
    pub other_ref: BTreeMap<SourceId, String>,
}

impl CheckoutSources {
    /// Finds the sources of a checkout with these remotes that is merged into `branch`.
    pub fn find(snapshot: &Snapshot, remotes: &[String], branch: &str) -> Self {
        let mut found = Self::default();
        for repository in snapshot.resources.iter().filter(|full| full.object.id.is(SOURCE_GROUP, "GitRepository")) {
            let id = SourceId::of(&repository.object.id);
            match match_checkout(repository, remotes, branch) {
                CheckoutMatch::Same => drop(found.same.insert(id)),
                CheckoutMatch::OtherRef(reference) => drop(found.other_ref.insert(id, reference)),
                CheckoutMatch::OtherUrl => {}
            }
        }
        found
    }
}

/// Returns a source of the cluster.
pub fn source<'a>(snapshot: &'a Snapshot, id: &SourceId) -> Option<&'a Resource> {
    snapshot.resources.iter().find(|full| SourceId::of(&full.object.id) == *id)
}

/// Returns the commit of the artifact that a source has now.
pub fn deployed_commit<'a>(snapshot: &'a Snapshot, id: &SourceId) -> Option<&'a str> {
    source(snapshot, id)?.text("/status/artifact/revision")?.rsplit_once("sha1:").map(|(_, commit)| commit)
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

/// Compares a GitRepository with a checkout. Of the fields of `spec.ref`, source-controller uses the first that is set
/// of commit, name, semver, tag and branch; without any it uses the branch `master`.
pub(crate) fn match_checkout(source: &Resource, remotes: &[String], branch: &str) -> CheckoutMatch {
    let url = normalise_url(source.text("/spec/url").unwrap_or_default());
    if !remotes.iter().any(|remote| normalise_url(remote) == url) {
        return CheckoutMatch::OtherUrl;
    }
    for (field, noun) in [("commit", "commit"), ("name", "ref"), ("semver", "semver"), ("tag", "tag")] {
        match source.text(&format!("/spec/ref/{field}")).filter(|text| !text.is_empty()) {
            Some(reference) if field == "name" && reference == format!("refs/heads/{branch}") => {
                return CheckoutMatch::Same;
            }
            Some(reference) => return CheckoutMatch::OtherRef(format!("{noun} {reference}")),
            None => {}
        }
    }
    match source.text("/spec/ref/branch").filter(|text| !text.is_empty()).unwrap_or("master") {
        followed if followed == branch => CheckoutMatch::Same,
        followed => CheckoutMatch::OtherRef(format!("branch {followed}")),
    }
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

    fn other_ref(text: &str) -> CheckoutMatch {
        CheckoutMatch::OtherRef(text.to_owned())
    }

    #[test]
    fn the_ref_with_the_highest_precedence_decides() {
        let rows = [
            (json!({"branch": "main"}), CheckoutMatch::Same),
            (json!({"branch": "dev"}), other_ref("branch dev")),
            (json!({}), other_ref("branch master")),
            (json!({"branch": "main", "tag": "v1"}), other_ref("tag v1")),
            (json!({"tag": "v1", "semver": ">=1"}), other_ref("semver >=1")),
            (json!({"semver": ">=1", "name": "refs/heads/main"}), CheckoutMatch::Same),
            (json!({"name": "refs/tags/v1"}), other_ref("ref refs/tags/v1")),
            (json!({"name": "refs/heads/main", "commit": "abc"}), other_ref("commit abc")),
        ];
        let remotes = ["git@example.com:org/repo.git".to_owned()];
        for (reference, expected) in rows {
            let spec = json!({"spec": {"url": "https://example.com/org/repo", "ref": reference}});
            let source = flux_object("GitRepository", spec, &[]);
            assert_eq!(match_checkout(&source, &remotes, "main"), expected, "{reference}");
            assert_eq!(match_checkout(&source, &[], "main"), CheckoutMatch::OtherUrl);
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
        let found = CheckoutSources::find(&snapshot, &["git@example.com:org/repo".to_owned()], "main");
        assert_eq!(found.same, BTreeSet::from([same.clone()]));
        assert_eq!(found.other_ref, BTreeMap::from([(other.clone(), "branch dev".to_owned())]));
        assert_eq!(sources_in_use(&snapshot), BTreeSet::from([same]));
        assert!(source(&snapshot, &other).is_some());
    }
}
