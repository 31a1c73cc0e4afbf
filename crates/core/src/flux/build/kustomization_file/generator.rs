//! Generates the kustomization file of a build: finds or creates the file of the path and merges the Flux spec into it.
//!
//! Source: docs/reference/kustomize-controller.md 3.3.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{items, texts};
use crate::flux::build::go_yaml::ReadError;
use crate::flux::source::artifact::Artifact;
use crate::flux::source::path;

/// Reason why there is nothing to build. The controller then neither applies nor prunes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GenerateError {
    /// `spec.path` is not a directory of the artifact.
    #[error("path {0:?} is not in the artifact")]
    PathMissing(String),
    /// Path of a kustomization file that the controller cannot read, and the error.
    #[error("{0}: {1}")]
    File(String, String),
    /// Path of a kustomization file that only this tool cannot read, and the error.
    #[error("{0} cannot be read here: {1}")]
    Unreadable(String, String),
    /// A component that is a URL or an absolute path.
    #[error("component {0:?} must be local and relative")]
    Component(String),
}

/// A kustomization file to write over the artifact before kustomize runs in its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratedFile {
    /// Directory of the build, below the artifact's root.
    pub directory: String,
    /// Path of the file, below the artifact's root.
    pub file: String,
    pub content: Value,
}

/// Generates the file for a Kustomization's spec. `whole_images` is true for controllers before 1.9.4, which replace an
/// image entry as a whole.
pub fn generate(artifact: &Artifact, spec: &Value, whole_images: bool) -> Result<GeneratedFile, GenerateError> {
    let directory = path::secure_join(spec.get("path").and_then(Value::as_str).unwrap_or_default());
    if !artifact.has_directory(&directory) {
        return Err(GenerateError::PathMissing(directory));
    }
    let (file, mut content) = match super::find(artifact, &directory) {
        Some((file, text)) => match super::read_root(text) {
            Ok(content) => (file, content),
            Err(ReadError::Invalid(error)) => return Err(GenerateError::File(file, error)),
            Err(ReadError::Unsupported(error)) => return Err(GenerateError::Unreadable(file, error)),
        },
        None => {
            let file = path::join(&directory, super::FILE_NAMES[0]);
            if artifact.has_directory(&file) {
                return Err(GenerateError::File(file, "is a directory".to_owned()));
            }
            (file, list_manifests(artifact, &directory))
        }
    };
    if list(&content, "resources").is_empty() && artifact.file(&file).is_some() {
        content.insert("buildMetadata".to_owned(), json!(["originAnnotations"]));
    }
    for (field, key) in [("namespace", "targetNamespace"), ("namePrefix", "namePrefix"), ("nameSuffix", "nameSuffix")] {
        if let Some(value) = spec.get(key).and_then(Value::as_str) {
            content.insert(field.to_owned(), value.into());
        }
    }
    append(&mut content, "patches", items(spec, "patches").iter().map(patch));
    merge_components(&mut content, artifact, &directory, spec)?;
    append(&mut content, "patchesStrategicMerge", items(spec, "patchesStrategicMerge").iter().map(text_or_json));
    append(&mut content, "patchesJson6902", items(spec, "patchesJson6902").iter().map(json_patch));
    merge_images(&mut content, items(spec, "images"), whole_images);
    if !items(spec, "buildMetadata").is_empty() {
        content.insert("buildMetadata".to_owned(), spec["buildMetadata"].clone());
    }
    // kubectl sorts by kind unless the file has sortOptions; the controller keeps the order of the files.
    content.entry("sortOptions").or_insert_with(|| json!({"order": "fifo"}));
    Ok(GeneratedFile { directory, file, content: Value::Object(content) })
}

/// Returns the content of a new file: every manifest below a directory, and every directory that has its own file.
fn list_manifests(artifact: &Artifact, directory: &str) -> Map<String, Value> {
    let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
    let below = artifact.directories_below(directory).filter(|at| super::find(artifact, at).is_some());
    let directories: BTreeSet<&str> = below.filter_map(|at| at.strip_prefix(&prefix)).collect();
    let files = artifact.files_below(directory).filter_map(|at| at.strip_prefix(&prefix));
    let manifests = files.filter(|at| at.ends_with(".yaml") || at.ends_with(".yml"));
    let all = directories.iter().copied().chain(manifests);
    let listed = all.filter(|at| !path::ancestors(at).any(|above| directories.contains(above)));
    let mut resources: Vec<&str> = listed.collect();
    // In the order of a walk by segments: `a/x` comes before `a-b`.
    resources.sort_by(|a, b| a.split('/').cmp(b.split('/')));
    let mut content = Map::new();
    content.insert("apiVersion".to_owned(), "kustomize.config.k8s.io/v1beta1".into());
    content.insert("kind".to_owned(), "Kustomization".into());
    if resources.is_empty() {
        content.insert("namespace".to_owned(), "_placeholder".into());
    } else {
        let relative: Vec<String> = resources.iter().map(|resource| format!("./{resource}")).collect();
        content.insert("resources".to_owned(), json!(relative));
    }
    content
}

/// Appends the components of the spec; with `ignoreMissingComponents` only those that exist.
fn merge_components(
    content: &mut Map<String, Value>,
    artifact: &Artifact,
    directory: &str,
    spec: &Value,
) -> Result<(), GenerateError> {
    let ignore_missing = spec.get("ignoreMissingComponents").and_then(Value::as_bool).unwrap_or_default();
    for component in texts(spec, "components") {
        if !is_local_relative_path(component) {
            return Err(GenerateError::Component(component.to_owned()));
        }
        let exists = path::resolve(directory, component)
            .is_some_and(|at| artifact.has_directory(&at) || artifact.file(&at).is_some());
        if exists || !ignore_missing {
            append(content, "components", std::iter::once(component.into()));
        }
    }
    Ok(())
}

/// Returns true for a component that the controller accepts. It knows these forms of a URL only; kustomize knows more.
fn is_local_relative_path(component: &str) -> bool {
    const REMOTE: [&str; 8] = ["git::", "gh:", "ssh://", "https://", "http://", "git@", "github.com:", "github.com/"];
    let lower = component.to_ascii_lowercase();
    let is_remote = REMOTE.iter().any(|prefix| lower.len() > prefix.len() && lower.starts_with(prefix));
    !is_remote && !lower.strip_prefix("file://").unwrap_or(&lower).starts_with('/')
}

fn text_or_json(item: &Value) -> Value {
    item.as_str().map_or_else(|| item.to_string().into(), Value::from)
}

fn list<'a>(content: &'a Map<String, Value>, key: &str) -> &'a [Value] {
    content.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn append(content: &mut Map<String, Value>, key: &str, values: impl Iterator<Item = Value>) {
    let mut added = values.peekable();
    if added.peek().is_none() {
        return;
    }
    if let Value::Array(list) = content.entry(key).or_insert_with(|| json!([])) {
        list.extend(added);
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

/// Merges the images of the spec into those of the file: a new name, and the pair of tag and digest, replace the values of
/// the file's entry for the same image.
fn merge_images(content: &mut Map<String, Value>, images: &[Value], whole: bool) {
    for image in images {
        let name = image_field(image, "name");
        let fields = ["name", "newName", "newTag", "digest"].map(|key| (key.to_owned(), image_field(image, key)));
        let entry: Map<String, Value> =
            fields.into_iter().filter(|(_, value)| !value.is_empty()).map(|(key, value)| (key, value.into())).collect();
        let same_name = list(content, "images").iter().position(|other| image_field(other, "name") == name);
        let Some(index) = same_name else {
            append(content, "images", std::iter::once(Value::Object(entry)));
            continue;
        };
        let merged = &mut content["images"][index];
        if whole {
            *merged = Value::Object(entry);
            continue;
        }
        if let Some(new_name) = entry.get("newName") {
            merged["newName"] = new_name.clone();
        }
        if entry.contains_key("newTag") || entry.contains_key("digest") {
            for key in ["newTag", "digest"] {
                merged[key] = image_field(image, key).into();
            }
        }
    }
}

fn image_field(image: &Value, key: &str) -> String {
    image.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flux::source::options::SourceOptions;

    fn artifact(files: &[(&str, &str)]) -> Artifact {
        Artifact::pack(&files.iter().copied().collect(), &SourceOptions::default())
    }

    fn content(files: &[(&str, &str)], spec: Value) -> Value {
        generate(&artifact(files), &spec, false).unwrap().content
    }

    #[test]
    fn without_a_file_every_manifest_below_the_path_is_a_resource() {
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

    /// The build is empty, and everything is pruned.
    fn adds_no_objects(generated: &GeneratedFile) -> bool {
        let fields =
            ["resources", "bases", "components", "configMapGenerator", "secretGenerator", "generators", "helmCharts"];
        fields.iter().all(|field| items(&generated.content, field).is_empty())
    }

    #[test]
    fn a_path_without_manifests_is_empty_and_a_missing_path_is_an_error() {
        let made = generate(&artifact(&[("p/README.md", "")]), &json!({"path": "p"}), false).unwrap();
        assert!(adds_no_objects(&made));
        assert_eq!(made.content["namespace"], "_placeholder");
        let missing = generate(&artifact(&[("p/README.md", "")]), &json!({"path": "q"}), false);
        assert_eq!(missing, Err(GenerateError::PathMissing("q".to_owned())));
    }

    #[test]
    fn a_file_without_resources_builds_to_nothing() {
        for text in ["", "# nothing\n", "resources: []\n"] {
            let files = [("p/kustomization.yaml", text), ("p/a.yaml", "")];
            let made = generate(&artifact(&files), &json!({"path": "p"}), false).unwrap();
            assert!(adds_no_objects(&made), "{text:?}");
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
        for component in ["https://example.com/x", "/abs", "GIT@host:x", "file:///x", "github.com/org/repo"] {
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
