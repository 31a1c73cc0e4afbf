//! References of kustomization files: paths inside and outside of the artifact, and URLs.
//!
//! The controller builds in a file system that ends at the artifact's root (docs/reference/kustomize-controller.md 3.4).
//! The kustomize program can read any file, so references are checked before it runs.

use std::collections::BTreeSet;

use serde_json::Value;

use super::generator::GeneratedFile;
use super::kustomization_file;
use super::kustomization_file::{items, texts};
use crate::flux::source::artifact::Artifact;
use crate::flux::source::path;

/// Fields of a kustomization file that name files or directories.
const REFERENCES: [&str; 9] = [
    "resources",
    "bases",
    "components",
    "crds",
    "configurations",
    "generators",
    "transformers",
    "validators",
    "patchesStrategicMerge",
];

/// Fields that run programs or read files that no kustomization file names.
const OPAQUE: [&str; 6] =
    ["generators", "transformers", "validators", "helmCharts", "helmChartInflationGenerator", "helmGlobals"];

/// A reference with which kustomize must not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefusedReference {
    /// A path outside of the artifact.
    #[error("{0} is outside of the artifact")]
    Outside(String),
    /// A URL whose git revision begins with `-`: git would take it for an option.
    #[error("{0} names a revision that begins with -")]
    OptionAsRevision(String),
}

/// Returns the references that the build fetches from the network, in any kustomization file of the build. Fails with the
/// first reference with which kustomize must not run.
pub fn remote_references(artifact: &Artifact, generated: &GeneratedFile) -> Result<Vec<String>, RefusedReference> {
    let references = References::collect(artifact, generated);
    references.refused.map_or(Ok(references.remote), Err)
}

/// Returns the files and directories that the build can read; `None` if it may read any file.
pub(super) fn input_paths(artifact: &Artifact, generated: &GeneratedFile) -> Option<BTreeSet<String>> {
    let references = References::collect(artifact, generated);
    let is_known = !references.is_opaque && references.refused.is_none() && !references.paths.contains("");
    is_known.then_some(references.paths)
}

/// References of the kustomization files of a build, including those of the directories that they name.
#[derive(Default)]
struct References {
    /// URLs, up to the first refused reference.
    remote: Vec<String>,
    /// The first reference with which kustomize must not run.
    refused: Option<RefusedReference>,
    /// Directory of the build, and every referenced file and directory.
    paths: BTreeSet<String>,
    /// The build may read files that no kustomization file names.
    is_opaque: bool,
}

impl References {
    fn collect(artifact: &Artifact, generated: &GeneratedFile) -> Self {
        let mut found = Self { paths: [generated.directory.clone()].into(), ..Self::default() };
        let mut seen = BTreeSet::new();
        let mut queue = vec![(generated.directory.clone(), generated.content.clone())];
        while let Some((directory, content)) = queue.pop() {
            let named = named_paths(&content);
            found.is_opaque |= OPAQUE.iter().any(|field| content.get(field).is_some());
            found.is_opaque |= has_other_parent_path(&content, &named);
            for reference in named {
                if is_remote(&reference) {
                    if has_option_as_revision(&reference) {
                        found.refused = Some(RefusedReference::OptionAsRevision(reference));
                        return found;
                    }
                    found.remote.push(reference);
                    continue;
                }
                let Some(at) = path::resolve(&directory, &reference) else {
                    found.refused = Some(RefusedReference::Outside(reference));
                    return found;
                };
                found.is_opaque |= reference.contains(['*', '?', '[']);
                found.paths.insert(at.clone());
                if artifact.has_directory(&at)
                    && seen.insert(at.clone())
                    && let Some(content) = kustomization_file::read_in(artifact, &at)
                {
                    queue.push((at, Value::Object(content)));
                }
            }
        }
        found
    }
}

/// Returns true if a text that is not a known reference may be a path above its directory.
fn has_other_parent_path(content: &Value, named: &[String]) -> bool {
    match content {
        Value::String(text) => {
            let path = text.split_once('=').map_or(text.as_str(), |(_, path)| path);
            text.contains("..") && !named.iter().any(|name| name == text || name == path)
        }
        Value::Array(items) => items.iter().any(|item| has_other_parent_path(item, named)),
        Value::Object(fields) => fields.values().any(|value| has_other_parent_path(value, named)),
        _ => false,
    }
}

/// Returns every file, directory and URL that a kustomization file names.
fn named_paths(content: &Value) -> Vec<String> {
    let mut found: Vec<&str> = REFERENCES.iter().flat_map(|field| texts(content, field)).collect();
    // Inline YAML is not a path.
    found.retain(|reference| !reference.contains('\n') && !reference.trim_start().starts_with('{'));
    for field in ["patches", "patchesJson6902", "replacements"] {
        found.extend(items(content, field).iter().filter_map(|entry| entry.get("path")?.as_str()));
    }
    for field in ["configMapGenerator", "secretGenerator"] {
        for entry in items(content, field) {
            found.extend(texts(entry, "files").map(|file| file.split_once('=').map_or(file, |(_, path)| path)));
            found.extend(texts(entry, "envs"));
            found.extend(entry.get("env").and_then(Value::as_str));
        }
    }
    found.extend(content.pointer("/openapi/path").and_then(Value::as_str));
    found.into_iter().map(str::to_owned).collect()
}

/// Returns true if the query of a URL names a git revision, as `ref` or `version`, that begins with `-`. kustomize decodes
/// no escape before it calls git, but refusing the encoded form as well costs nothing.
fn has_option_as_revision(reference: &str) -> bool {
    let Some((_, query)) = reference.split_once('?') else { return false };
    query.split(['&', ';', '?']).filter_map(|field| field.split_once('=')).any(|(key, value)| {
        ["ref", "version"].contains(&key) && ["-", "%2d", "%2D"].iter().any(|dash| value.starts_with(dash))
    })
}

fn is_remote(reference: &str) -> bool {
    reference.contains("://") || reference.starts_with("git@") || reference.starts_with("github.com/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flux::build::generator;
    use crate::flux::source::options::SourceOptions;

    fn generated(files: &[(&str, &str)]) -> (Artifact, GeneratedFile) {
        let artifact = Artifact::pack(&files.iter().copied().collect(), &SourceOptions::default());
        let generated = generator::generate(&artifact, &serde_json::json!({"path": "app"}), false).unwrap();
        (artifact, generated)
    }

    #[test]
    fn references_may_not_leave_the_artifact() {
        let rows = [
            ("resources: [../../etc]", Some("../../etc")),
            ("resources: [/etc/x.yaml]", Some("/etc/x.yaml")),
            ("resources: [../base]", None),
            ("resources: ['https://example.com/x.yaml']", None),
            ("configMapGenerator: [{name: a, files: [k=../../secret]}]", Some("../../secret")),
            ("patches: [{path: ../../p.yaml}]", Some("../../p.yaml")),
            ("patchesStrategicMerge: [\"a: ../../../x\\n\"]", None),
        ];
        for (file, expected) in rows {
            let files = [("app/kustomization.yaml", file), ("base/kustomization.yaml", "resources: []")];
            let (artifact, generated) = generated(&files);
            let expected = expected.map(|path| RefusedReference::Outside(path.to_owned()));
            assert_eq!(remote_references(&artifact, &generated).err(), expected, "{file}");
        }
    }

    #[test]
    fn references_of_nested_files_are_checked() {
        let files =
            [("app/kustomization.yaml", "resources: [../base]"), ("base/kustomization.yaml", "resources: [../../x]")];
        let (artifact, generated) = generated(&files);
        let expected = RefusedReference::Outside("../../x".to_owned());
        assert_eq!(remote_references(&artifact, &generated), Err(expected));
    }

    #[test]
    fn a_revision_that_git_would_take_for_an_option_is_refused() {
        let base = "https://example.com/org/repo//base";
        for (query, is_refused) in [
            ("?ref=v1.2.0", false),
            ("?ref=feature-x", false),
            ("", false),
            ("?ref=--output=x", true),
            ("?timeout=5s&version=-x", true),
            ("?ref=%2d-x", true),
        ] {
            let file = format!("resources: ['{base}{query}']");
            let (artifact, generated) = generated(&[("app/kustomization.yaml", &file)]);
            assert_eq!(remote_references(&artifact, &generated).is_err(), is_refused, "{query}");
        }
    }

    #[test]
    fn remote_references_of_nested_files_are_found() {
        let files = [
            ("app/kustomization.yaml", "resources: [../base, 'https://example.com/a.yaml']"),
            ("base/kustomization.yaml", "resources: ['git@example.com:x.git']"),
        ];
        let (artifact, generated) = generated(&files);
        let found = remote_references(&artifact, &generated).unwrap();
        assert_eq!(found, ["https://example.com/a.yaml", "git@example.com:x.git"]);
    }

    #[test]
    fn inputs_are_the_directory_and_its_references_unless_a_field_is_opaque() {
        let base = ("base/kustomization.yaml", "resources: [x.yaml, ../deep/y.yaml]");
        let rows: [(&str, Option<&[&str]>); 8] = [
            ("resources: [a.yaml]", Some(&["app", "app/a.yaml"])),
            ("resources: [../base]", Some(&["app", "base", "base/x.yaml", "deep/y.yaml"])),
            ("configMapGenerator: [{name: a, files: [k=../v/values.txt]}]", Some(&["app", "v/values.txt"])),
            ("patches: [{path: ../p.yaml}]", Some(&["app", "p.yaml"])),
            ("resources: ['../*.yaml']", None),
            ("transformers: [t.yaml]", None),
            ("helmCharts: [{name: c, valuesFile: ../v.yaml}]", None),
            ("vars: [{name: ../v.yaml}]", None),
        ];
        for (file, expected) in rows {
            let (artifact, generated) = generated(&[("app/kustomization.yaml", file), base]);
            let found = input_paths(&artifact, &generated);
            assert_eq!(
                found.as_ref().map(|found| found.iter().map(String::as_str).collect()),
                expected.map(<[_]>::to_vec)
            );
        }
    }
}
