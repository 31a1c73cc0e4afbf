//! What kustomization files refer to, and whether that is still inside the artifact.
//!
//! The controller builds in a file system that ends at the artifact's root (reference kustomize-controller 3.4); the
//! kustomize program would read any file, so references are checked before it runs.

use std::collections::BTreeSet;

use serde_json::Value;

use super::generator;
use super::generator::Generated;
use super::kustomization_file;
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

/// Fields that run programs or read files which are named elsewhere than in a kustomization file.
const OPAQUE: [&str; 6] =
    ["generators", "transformers", "validators", "helmCharts", "helmChartInflationGenerator", "helmGlobals"];

/// The first reference, in any kustomization file that the build can reach, that leaves the artifact.
pub fn leaving(artifact: &Artifact, generated: &Generated) -> Option<String> {
    ReferencedPaths::of(artifact, generated).leaving
}

/// What the build fetches from the network.
pub fn remote(artifact: &Artifact, generated: &Generated) -> Vec<String> {
    ReferencedPaths::of(artifact, generated).remote
}

/// Files, and directories with all that is below them, that hold everything the build can read of the artifact; `None`
/// when that may be anything.
pub fn inputs(artifact: &Artifact, generated: &Generated) -> Option<BTreeSet<String>> {
    let reach = ReferencedPaths::of(artifact, generated);
    let known = !reach.opaque && reach.leaving.is_none() && !reach.inputs.contains("");
    known.then_some(reach.inputs)
}

/// Everything that the kustomization files of a build refer to, theirs and those of the directories they name.
#[derive(Default)]
struct ReferencedPaths {
    /// What comes from the network, up to the first reference that leaves the artifact.
    remote: Vec<String>,
    /// The first reference that leaves the artifact.
    leaving: Option<String>,
    /// The build's directory and every file and directory that is referred to.
    inputs: BTreeSet<String>,
    /// Whether files may be read that no kustomization file names.
    opaque: bool,
}

impl ReferencedPaths {
    fn of(artifact: &Artifact, generated: &Generated) -> Self {
        let mut reach = Self { inputs: [generated.directory.clone()].into(), ..Self::default() };
        let mut seen = BTreeSet::new();
        let mut queue = vec![(generated.directory.clone(), generated.content.clone())];
        while let Some((directory, content)) = queue.pop() {
            let named = references(&content);
            reach.opaque |= OPAQUE.iter().any(|field| content.get(field).is_some()) || climbs(&content, &named);
            for reference in named {
                if is_remote(&reference) {
                    reach.remote.push(reference);
                    continue;
                }
                let Some(at) = path::resolve(&directory, &reference) else {
                    reach.leaving = Some(reference);
                    return reach;
                };
                reach.opaque |= reference.contains(['*', '?', '[']);
                reach.inputs.insert(at.clone());
                if !artifact.has_directory(&at) || !seen.insert(at.clone()) {
                    continue;
                }
                let file = generator::NAMES.iter().find_map(|name| artifact.file(&path::join(&at, name)));
                if let Some(Ok(content)) = file.map(kustomization_file::read) {
                    queue.push((at, Value::Object(content)));
                }
            }
        }
        reach
    }
}

/// Whether a text that is no known reference could lead out of its directory.
fn climbs(content: &Value, named: &[String]) -> bool {
    match content {
        Value::String(text) => {
            let plain = text.split_once('=').map_or(text.as_str(), |(_, path)| path);
            text.contains("..") && !named.iter().any(|name| name == text || name == plain)
        }
        Value::Array(items) => items.iter().any(|item| climbs(item, named)),
        Value::Object(fields) => fields.values().any(|value| climbs(value, named)),
        _ => false,
    }
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
    use crate::flux::source::artifact::SourceOptions;

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

    #[test]
    fn inputs_are_the_directory_and_what_is_referred_to_or_anything() {
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
            let found = inputs(&artifact, &generated);
            assert_eq!(
                found.as_ref().map(|found| found.iter().map(String::as_str).collect()),
                expected.map(<[_]>::to_vec)
            );
        }
    }
}
