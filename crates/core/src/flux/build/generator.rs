//! Finds or makes the kustomization file of a Kustomization's path, and merges the Flux spec into it.
//!
//! Source: reference kustomize-controller 3.3.

use serde_json::{Map, Value, json};

use super::kustomization_file;
use crate::flux::source::artifact::Artifact;
use crate::flux::source::path;

/// Names of kustomization files, in the order in which they are looked for.
pub const NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// Why there is nothing to build; the controller applies and prunes nothing then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GenerateError {
    /// `spec.path` is not in the artifact.
    #[error("path {0:?} is not in the artifact")]
    PathMissing(String),
    /// The kustomization file cannot be read, and why.
    #[error("{0}: {1}")]
    File(String, String),
    /// A component that is a URL or an absolute path.
    #[error("component {0:?} must be local and relative")]
    Component(String),
}

/// A kustomization file to be written over the artifact before kustomize runs in its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    /// Directory of the build, below the artifact's root.
    pub directory: String,
    /// Path of the file, below the artifact's root.
    pub file: String,
    /// Its content.
    pub content: Value,
    /// Whether nothing but a placeholder or nothing at all is listed: the build has no objects and everything is pruned.
    pub empty: bool,
}

/// The file for a Kustomization's spec; `whole_images` is true for controllers before 1.9.4, which replace an image
/// entry as a whole.
///
/// # Errors
/// [`GenerateError`].
pub fn generate(artifact: &Artifact, spec: &Value, whole_images: bool) -> Result<Generated, GenerateError> {
    let text = |key: &str| spec.get(key).and_then(Value::as_str);
    let directory = path::secure_join(text("path").unwrap_or_default());
    if !artifact.has_directory(&directory) {
        return Err(GenerateError::PathMissing(directory));
    }
    let at = |name: &str| path::join(&directory, name);
    let found = NAMES.into_iter().map(at).find(|file| artifact.file(file).is_some());
    let (file, mut content) = match found {
        Some(file) => {
            let read = kustomization_file::read(artifact.file(&file).unwrap_or_default());
            let mut content = read.map_err(|why| GenerateError::File(file.clone(), why))?;
            if list(&content, "resources").is_empty() {
                content.insert("buildMetadata".to_owned(), json!(["originAnnotations"]));
            }
            (file, content)
        }
        None => (at(NAMES[0]), scan(artifact, &directory)),
    };
    for (field, key) in [("namespace", "targetNamespace"), ("namePrefix", "namePrefix"), ("nameSuffix", "nameSuffix")] {
        if let Some(value) = text(key) {
            content.insert(field.to_owned(), value.into());
        }
    }
    append(&mut content, "patches", items(spec, "patches").iter().map(patch));
    let ignore_missing = spec.get("ignoreMissingComponents").and_then(Value::as_bool).unwrap_or_default();
    for component in items(spec, "components").iter().filter_map(Value::as_str) {
        if component.contains("://") || component.starts_with('/') || component.is_empty() {
            return Err(GenerateError::Component(component.to_owned()));
        }
        let exists = path::resolve(&directory, component)
            .is_some_and(|at| artifact.has_directory(&at) || artifact.file(&at).is_some());
        if exists || !ignore_missing {
            append(&mut content, "components", std::iter::once(component.into()));
        }
    }
    let legacy = |item: &Value| item.as_str().map_or_else(|| item.to_string().into(), Value::from);
    append(&mut content, "patchesStrategicMerge", items(spec, "patchesStrategicMerge").iter().map(legacy));
    append(&mut content, "patchesJson6902", items(spec, "patchesJson6902").iter().map(json_patch));
    merge_images(&mut content, items(spec, "images"), whole_images);
    if !items(spec, "buildMetadata").is_empty() {
        content.insert("buildMetadata".to_owned(), spec["buildMetadata"].clone());
    }
    // kubectl sorts by kind unless the file says otherwise; the controller keeps the order of the files.
    content.entry("sortOptions").or_insert_with(|| json!({"order": "fifo"}));
    let sources =
        ["resources", "bases", "components", "configMapGenerator", "secretGenerator", "generators", "helmCharts"];
    let empty = sources.iter().all(|key| list(&content, key).is_empty());
    Ok(Generated { directory, file, content: Value::Object(content), empty })
}

/// The file that is made where there is none: every manifest below, and every directory that has its own file.
fn scan(artifact: &Artifact, directory: &str) -> Map<String, Value> {
    let mut resources: Vec<String> = Vec::new();
    let mut taken: Vec<String> = Vec::new();
    let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
    let below = |at: &str| at.strip_prefix(&prefix).map(str::to_owned);
    let has_own = |at: &str| NAMES.iter().any(|name| artifact.file(&path::join(at, name)).is_some());
    for sub in artifact.directories().filter(|sub| has_own(sub)) {
        let Some(relative) = below(sub) else { continue };
        if !taken.iter().any(|outer| relative.starts_with(&format!("{outer}/"))) {
            taken.push(relative);
        }
    }
    for (at, _) in artifact.files() {
        let Some(relative) = below(at) else { continue };
        let manifest = relative.ends_with(".yaml") || relative.ends_with(".yml");
        if manifest && !taken.iter().any(|outer| relative.starts_with(&format!("{outer}/"))) {
            resources.push(relative);
        }
    }
    resources.extend(taken);
    // A walk goes segment by segment: `a/x` comes before `a-b`.
    resources.sort_by(|a, b| a.split('/').cmp(b.split('/')));
    let mut content = Map::new();
    content.insert("apiVersion".to_owned(), "kustomize.config.k8s.io/v1beta1".into());
    content.insert("kind".to_owned(), "Kustomization".into());
    if resources.is_empty() {
        content.insert("namespace".to_owned(), "_placeholder".into());
    } else {
        let relative = resources.iter().map(|resource| format!("./{resource}")).collect::<Vec<_>>();
        content.insert("resources".to_owned(), json!(relative));
    }
    content
}

fn items<'a>(spec: &'a Value, key: &str) -> &'a [Value] {
    spec.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn list<'a>(content: &'a Map<String, Value>, key: &str) -> &'a [Value] {
    content.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn append(content: &mut Map<String, Value>, key: &str, values: impl Iterator<Item = Value>) {
    let mut values = values.peekable();
    if values.peek().is_none() {
        return;
    }
    if let Value::Array(list) = content.entry(key).or_insert_with(|| json!([])) {
        list.extend(values);
    }
}

fn patch(item: &Value) -> Value {
    let mut patch = json!({"patch": item.get("patch").cloned().unwrap_or_default()});
    if let Some(target) = item.get("target").filter(|target| target.is_object()) {
        patch["target"] = target.clone();
    }
    patch
}

fn json_patch(item: &Value) -> Value {
    let operations = item.get("patch").map(Value::to_string).unwrap_or_default();
    json!({"patch": operations, "target": item.get("target").cloned().unwrap_or_default()})
}

/// New name, and new tag with digest as a pair, replace what the file says of the same image.
fn merge_images(content: &mut Map<String, Value>, images: &[Value], whole: bool) {
    let text = |image: &Value, key: &str| image.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    for image in images {
        let name = text(image, "name");
        let entry = json!({"name": name, "newName": text(image, "newName"), "newTag": text(image, "newTag"),
            "digest": text(image, "digest")});
        let entry = Value::Object(without_empty(entry));
        let Some(index) = list(content, "images").iter().position(|other| text(other, "name") == name) else {
            append(content, "images", std::iter::once(entry));
            continue;
        };
        let other = &mut content["images"][index];
        if whole {
            *other = entry;
            continue;
        }
        if entry.get("newName").is_some() {
            other["newName"] = entry["newName"].clone();
        }
        if entry.get("newTag").is_some() || entry.get("digest").is_some() {
            for key in ["newTag", "digest"] {
                other[key] = entry.get(key).cloned().unwrap_or_else(|| "".into());
            }
        }
    }
}

fn without_empty(value: Value) -> Map<String, Value> {
    let Value::Object(fields) = value else {
        return Map::new();
    };
    fields.into_iter().filter(|(_, value)| value.as_str() != Some("")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flux::source::artifact::SourceOptions;

    fn artifact(files: &[(&str, &str)]) -> Artifact {
        Artifact::pack(&files.iter().copied().collect(), &SourceOptions::default())
    }

    fn content(files: &[(&str, &str)], spec: Value) -> Value {
        generate(&artifact(files), &spec, false).unwrap().content
    }

    #[test]
    fn without_a_file_every_manifest_below_is_listed() {
        let files = [
            ("p/b.yaml", ""),
            ("p/a/x.yml", ""),
            ("p/a-b.yaml", ""),
            ("p/.hidden/h.yaml", ""),
            ("p/values.json", ""),
            ("p/own/kustomization.yml", ""),
            ("p/own/inner.yaml", ""),
            ("p/own/deep/Kustomization", ""),
            ("other/c.yaml", ""),
        ];
        let expected = json!(["./.hidden/h.yaml", "./a/x.yml", "./a-b.yaml", "./b.yaml", "./own"]);
        assert_eq!(content(&files, json!({"path": "./p"}))["resources"], expected);
    }

    #[test]
    fn a_path_without_manifests_is_empty_and_a_missing_path_fails() {
        let made = generate(&artifact(&[("p/README.md", "")]), &json!({"path": "p"}), false).unwrap();
        assert!(made.empty);
        assert_eq!(made.content["namespace"], "_placeholder");
        let missing = generate(&artifact(&[("p/README.md", "")]), &json!({"path": "q"}), false);
        assert_eq!(missing, Err(GenerateError::PathMissing("q".to_owned())));
    }

    #[test]
    fn a_file_without_resources_builds_to_nothing() {
        for text in ["", "# nothing\n", "resources: []\n"] {
            let files = [("p/kustomization.yaml", text), ("p/a.yaml", "")];
            let made = generate(&artifact(&files), &json!({"path": "p"}), false).unwrap();
            assert!(made.empty, "{text:?}");
            assert_eq!(made.content["buildMetadata"], json!(["originAnnotations"]), "{text:?}");
        }
    }

    #[test]
    fn the_spec_is_merged_over_the_file() {
        let file = "namespace: a\nresources: [x.yaml]\npatches: [{path: p.yaml}]\ncomponents: [./c]\n";
        let spec = json!({"targetNamespace": "b", "namePrefix": "pre-", "patches": [{"patch": "x", "target": {"kind": "Y"}}],
            "components": ["../gone", "../have"], "ignoreMissingComponents": true});
        let content = content(&[("p/kustomization.yaml", file), ("have/kustomization.yaml", "")], {
            let mut spec = spec;
            spec["path"] = "p".into();
            spec
        });
        assert_eq!(content["namespace"], "b");
        assert_eq!(content["namePrefix"], "pre-");
        assert_eq!(content["patches"], json!([{"path": "p.yaml"}, {"patch": "x", "target": {"kind": "Y"}}]));
        assert_eq!(content["components"], json!(["./c", "../have"]));
        assert_eq!(content["sortOptions"], json!({"order": "fifo"}));
    }

    #[test]
    fn a_component_must_be_local() {
        for component in ["https://example.com/x", "/abs"] {
            let made = generate(&artifact(&[("a.yaml", "")]), &json!({"components": [component]}), false);
            assert_eq!(made, Err(GenerateError::Component(component.to_owned())));
        }
    }

    #[test]
    fn images_of_one_name_merge_by_field() {
        let file = "resources: [x]\nimages: [{name: a, newName: b, newTag: v1}]\n";
        let spec = json!({"images": [{"name": "a", "digest": "sha256:1"}, {"name": "z", "newTag": "v2"}]});
        let made = generate(&artifact(&[("kustomization.yaml", file)]), &spec, false).unwrap().content;
        let merged = json!({"name": "a", "newName": "b", "newTag": "", "digest": "sha256:1"});
        assert_eq!(made["images"], json!([merged, {"name": "z", "newTag": "v2"}]));
        let whole = generate(&artifact(&[("kustomization.yaml", file)]), &spec, true).unwrap().content;
        assert_eq!(whole["images"][0], json!({"name": "a", "digest": "sha256:1"}));
    }
}
