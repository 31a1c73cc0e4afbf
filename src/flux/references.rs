//! What kustomization files refer to, and whether that is still inside the artifact.
//!
//! The controller builds in a file system that ends at the artifact's root (reference kustomize-controller 3.4); the
//! kustomize program would read any file, so references are checked before it runs.

use std::collections::BTreeSet;

use serde_json::Value;

use super::artifact::Artifact;
use super::generator::{self, Generated};
use super::{kustomization_file, path};

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

/// The first reference, in any kustomization file that the build can reach, that leaves the artifact.
pub fn leaving(artifact: &Artifact, generated: &Generated) -> Option<String> {
    reachable(artifact, generated).1
}

/// What the build fetches from the network.
pub fn remote(artifact: &Artifact, generated: &Generated) -> Vec<String> {
    reachable(artifact, generated).0
}

/// The remote references up to the first that leaves the artifact, and that one.
fn reachable(artifact: &Artifact, generated: &Generated) -> (Vec<String>, Option<String>) {
    let (mut seen, mut remote) = (BTreeSet::new(), vec![]);
    let mut queue = vec![(generated.directory.clone(), generated.content.clone())];
    while let Some((directory, content)) = queue.pop() {
        for reference in references(&content) {
            if is_remote(&reference) {
                remote.push(reference);
                continue;
            }
            let Some(at) = path::resolve(&directory, &reference) else { return (remote, Some(reference)) };
            if !artifact.has_directory(&at) || !seen.insert(at.clone()) {
                continue;
            }
            let file = generator::NAMES.iter().find_map(|name| artifact.file(&path::join(&at, name)));
            if let Some(Ok(content)) = file.map(kustomization_file::read) {
                queue.push((at, Value::Object(content)));
            }
        }
    }
    (remote, None)
}

/// Every file or directory that a kustomization file names.
fn references(content: &Value) -> Vec<String> {
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let texts =
        |value: Option<&Value>| list(value).iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>();
    let mut found: Vec<String> = REFERENCES.iter().flat_map(|field| texts(content.get(field))).collect();
    // Inline YAML is no path.
    found.retain(|reference| !reference.contains('\n') && !reference.trim_start().starts_with('{'));
    for field in ["patches", "patchesJson6902", "replacements"] {
        let paths = list(content.get(field));
        found.extend(paths.iter().filter_map(|entry| entry.get("path")?.as_str()).map(str::to_owned));
    }
    for field in ["configMapGenerator", "secretGenerator"] {
        for entry in list(content.get(field)) {
            let files = texts(entry.get("files")).into_iter();
            found.extend(files.map(|file| file.split_once('=').map_or(file.clone(), |(_, path)| path.to_owned())));
            found.extend(texts(entry.get("envs")));
            found.extend(entry.get("env").and_then(Value::as_str).map(str::to_owned));
        }
    }
    found.extend(content.pointer("/openapi/path").and_then(Value::as_str).map(str::to_owned));
    found
}

fn is_remote(reference: &str) -> bool {
    reference.contains("://") || reference.starts_with("git@") || reference.starts_with("github.com/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flux::artifact::SourceOptions;

    fn generated(files: &[(&str, &str)]) -> (Artifact, Generated) {
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
            assert_eq!(leaving(&artifact, &generated).as_deref(), expected, "{file}");
        }
    }

    #[test]
    fn references_of_nested_files_are_checked_too() {
        let files =
            [("app/kustomization.yaml", "resources: [../base]"), ("base/kustomization.yaml", "resources: [../../x]")];
        let (artifact, generated) = generated(&files);
        assert_eq!(leaving(&artifact, &generated).as_deref(), Some("../../x"));
    }

    #[test]
    fn remote_references_are_named_wherever_they_stand() {
        let files = [
            ("app/kustomization.yaml", "resources: [../base, 'https://example.com/a.yaml']"),
            ("base/kustomization.yaml", "resources: ['git@example.com:x.git']"),
        ];
        let (artifact, generated) = generated(&files);
        assert_eq!(remote(&artifact, &generated), ["https://example.com/a.yaml", "git@example.com:x.git"]);
    }
}
