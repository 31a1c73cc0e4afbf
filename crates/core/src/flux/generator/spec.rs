//! The spec of an ArtifactGenerator, and what source-watcher refuses in it.
//!
//! Source: source-watcher v2.2.2 `internal/controller/artifactgenerator_validation.go`.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::flux::spec::SourceId;
use crate::kubernetes::object::{list_at, text_at};
use crate::kubernetes::selector::is_subdomain;

/// The fields of a spec that decide on the content of its artifacts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GeneratorSpec {
    pub(crate) sources: Vec<AliasedSource>,
    pub(crate) artifacts: Vec<OutputArtifact>,
    /// `spec.pathPattern`: one set of artifacts for each directory that matches. Empty without it.
    pub(crate) path_pattern: String,
}

/// A source with the name that copy operations have for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AliasedSource {
    pub(crate) alias: String,
    pub(crate) source: SourceId,
}

/// An artifact of a generator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutputArtifact {
    pub(crate) name: String,
    /// Alias of the source whose revision it gets; without it, the revision is its digest.
    pub(crate) revision: Option<String>,
    pub(crate) copy: Vec<CopyOperation>,
}

/// A copy from a source to an artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopyOperation {
    pub(crate) alias: String,
    /// Path or pattern in the source.
    pub(crate) pattern: String,
    /// Path in the artifact as it is written.
    pub(crate) to: String,
    pub(crate) exclude: Vec<String>,
    pub(crate) strategy: Strategy,
}

/// Effect of a copy on what is there already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Strategy {
    #[default]
    Overwrite,
    Merge,
    Extract,
}

impl GeneratorSpec {
    /// Reads a spec that the API server accepted. `namespace` is that of the generator.
    pub(crate) fn read(spec: &Value, namespace: &str) -> Self {
        let sources = list_at(spec, "/sources").iter().map(|entry| AliasedSource {
            alias: text_at(entry, "/alias").to_owned(),
            source: SourceId::read(entry, "", namespace),
        });
        let artifacts = list_at(spec, "/artifacts").iter().map(|entry| OutputArtifact {
            name: text_at(entry, "/name").to_owned(),
            revision: Some(text_at(entry, "/revision").trim_start_matches('@').to_owned())
                .filter(|alias| !alias.is_empty()),
            copy: list_at(entry, "/copy").iter().map(CopyOperation::read).collect(),
        });
        Self {
            sources: sources.collect(),
            artifacts: artifacts.collect(),
            path_pattern: text_at(spec, "/pathPattern").to_owned(),
        }
    }

    /// Returns the reason why source-watcher refuses the spec of a generator in this namespace.
    pub(crate) fn refusal(&self, namespace: &str, denies_other_namespaces: bool) -> Option<String> {
        let mut aliases = BTreeSet::new();
        for AliasedSource { alias, source } in &self.sources {
            if !aliases.insert(alias) {
                return Some(format!("it has the alias {alias:?} twice"));
            }
            if denies_other_namespaces && source.namespace != namespace {
                return Some(format!(
                    "it may not use {source}, because source-watcher runs with --no-cross-namespace-refs"
                ));
            }
        }
        let mut names = BTreeSet::new();
        for artifact in &self.artifacts {
            if !names.insert(&artifact.name) {
                return Some(format!("it has the artifact {:?} twice", artifact.name));
            }
            if self.path_pattern.is_empty() && !is_subdomain(&artifact.name) {
                return Some(format!("its artifact {:?} has no valid name", artifact.name));
            }
            if let Some(alias) = artifact.revision.as_ref().filter(|alias| !aliases.contains(alias)) {
                return Some(format!("it takes a revision from the alias {alias:?}, which it does not have"));
            }
        }
        None
    }
}

impl CopyOperation {
    fn read(entry: &Value) -> Self {
        let (from, to) = (text_at(entry, "/from"), text_at(entry, "/to"));
        let (alias, pattern) = from.strip_prefix('@').and_then(|from| from.split_once('/')).unwrap_or_default();
        Self {
            alias: alias.to_owned(),
            pattern: pattern.to_owned(),
            to: to.strip_prefix("@artifact/").unwrap_or_default().to_owned(),
            exclude: list_at(entry, "/exclude").iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            strategy: match text_at(entry, "/strategy") {
                "Merge" => Strategy::Merge,
                "Extract" => Strategy::Extract,
                _ => Strategy::Overwrite,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refusal(spec: Value, denies: bool) -> String {
        GeneratorSpec::read(&spec, "shop").refusal("shop", denies).unwrap_or_default()
    }

    #[test]
    fn what_source_watcher_refuses() {
        let source =
            |alias: &str| json!({"alias": alias, "kind": "GitRepository", "name": "repo", "namespace": "flux"});
        let artifact = |name: &str| json!({"name": name, "revision": "@a", "copy": []});
        let spec = |sources: Value, artifacts: Value| json!({"sources": sources, "artifacts": artifacts});
        let valid = spec(json!([source("a")]), json!([artifact("x")]));
        assert_eq!(refusal(valid.clone(), false), "");
        assert!(refusal(valid, true).contains("--no-cross-namespace-refs"));
        assert!(refusal(spec(json!([source("a"), source("a")]), json!([])), false).contains("twice"));
        assert!(refusal(spec(json!([source("a")]), json!([artifact("x"), artifact("x")])), false).contains("twice"));
        assert!(refusal(spec(json!([source("a")]), json!([artifact("X")])), false).contains("name"));
        assert!(refusal(spec(json!([source("b")]), json!([artifact("x")])), false).contains("revision"));
    }

    #[test]
    fn names_of_objects_are_dns_subdomains() {
        assert!(["a", "a-b.c1", "1"].into_iter().all(is_subdomain));
        assert!(!["", "A", "-a", "a-", "a..b", "a_b"].into_iter().any(is_subdomain));
    }
}
