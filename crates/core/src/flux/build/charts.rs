//! Charts in the artifact of a source, as source-controller packs them and helm-controller renders them.
//!
//! Source: source-controller v1.9.3 `internal/helm/chart`; helm-controller v1.6.3 `internal/action`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::flux::source::artifact::Artifact;
use crate::flux::source::path;
use crate::kubernetes::object::{ResourceType, text_at};
use crate::text::hex;

/// One run of `helm template`.
#[derive(Clone, Debug)]
pub struct ChartRun {
    /// Hash of everything that the run reads; runs with equal keys have equal output.
    pub key: String,
    /// Files of the chart, by their path in it.
    pub files: Arc<ChartFiles>,
    /// Name of the release.
    pub release: String,
    /// Namespace of the release.
    pub namespace: String,
    /// Texts of values in YAML; each overrides those before it.
    pub values: Vec<String>,
    /// API versions that the cluster serves: `GROUP/VERSION` and `GROUP/VERSION/KIND`.
    pub api_versions: Vec<String>,
    /// The values hold those of Secrets, so that no message may show a part of the output.
    pub is_private: bool,
}

/// Files of a chart, by their path in it.
pub type ChartFiles = BTreeMap<String, Arc<[u8]>>;

/// A chart in an artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chart {
    pub(crate) files: Arc<ChartFiles>,
    pub(crate) version: String,
}

impl ChartRun {
    /// Creates a run of a chart.
    pub(crate) fn new(
        chart: &Chart,
        release: &str,
        namespace: &str,
        values: Vec<String>,
        types: &[ResourceType],
        is_private: bool,
    ) -> Self {
        let mut api_versions: Vec<String> = Vec::new();
        for kind in types {
            api_versions.push(kind.api_version());
            api_versions.push(format!("{}/{}", kind.api_version(), kind.kind));
        }
        api_versions.sort();
        api_versions.dedup();
        let mut hash = Sha256::new();
        let mut add = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        [release, namespace].iter().for_each(|text| add(text.as_bytes()));
        for list in [&values, &api_versions] {
            add(&list.len().to_le_bytes());
            list.iter().for_each(|text| add(text.as_bytes()));
        }
        chart.files.iter().for_each(|(at, content)| [at.as_bytes(), content].into_iter().for_each(&mut add));
        let (release, namespace) = (release.to_owned(), namespace.to_owned());
        Self {
            key: hex(&hash.finalize()),
            files: chart.files.clone(),
            release,
            namespace,
            values,
            api_versions,
            is_private,
        }
    }
}

impl Chart {
    /// Reads the chart that `spec`, of a HelmChart or of the chart of a HelmRelease, names in an artifact. Its values are
    /// those of `valuesFiles`.
    ///
    /// Fails with the reason why it cannot be rendered here as in the cluster.
    pub(crate) fn read(artifact: &Artifact, spec: &Value) -> Result<Self, String> {
        let written = text_at(spec, "/chart");
        let directory = path::resolve("", written.trim_start_matches('/'))
            .ok_or_else(|| format!("the path {written:?} of its chart leaves the source"))?;
        let mut files = ChartFiles::new();
        for (at, content) in artifact.files() {
            let below = if directory.is_empty() { Some(at) } else { at.strip_prefix(&*directory) };
            let below = below.and_then(|at| if directory.is_empty() { Some(at) } else { at.strip_prefix('/') });
            files.extend(below.map(|at| (at.to_owned(), Arc::from(content))));
        }
        let about = files.get("Chart.yaml").ok_or_else(|| format!("{written} of its source has no Chart.yaml"))?;
        let about = document(about).ok_or_else(|| format!("the Chart.yaml of {written} cannot be read"))?;
        check_dependencies(&files, &about)?;
        check_functions(&files)?;
        let values_files: Vec<&str> =
            spec.get("valuesFiles").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        if !values_files.is_empty() {
            let ignores_missing = spec.get("ignoreMissingValuesFiles") == Some(&Value::Bool(true));
            let merged = merged_values(artifact, &values_files, ignores_missing)?;
            files.insert("values.yaml".to_owned(), merged.to_string().into_bytes().into());
        }
        Ok(Self { files: Arc::new(files), version: text_at(&about, "/version").to_owned() })
    }
}

fn document(content: &[u8]) -> Option<Value> {
    crate::yaml::document(&String::from_utf8_lossy(content)).ok()
}

/// Fails if a dependency is not a directory in `charts/`: source-controller would fetch it.
fn check_dependencies(files: &ChartFiles, about: &Value) -> Result<(), String> {
    if let Some(packed) = files.keys().find(|at| at.starts_with("charts/") && at.ends_with(".tgz")) {
        return Err(format!("its chart has the packed dependency {packed}, which is not read here"));
    }
    for dependency in about.get("dependencies").and_then(Value::as_array).into_iter().flatten() {
        let name = text_at(dependency, "/name");
        if !files.contains_key(&format!("charts/{name}/Chart.yaml")) {
            return Err(format!("its chart depends on {name}, which is not in its charts/ and not fetched here"));
        }
    }
    if files.contains_key("requirements.yaml") {
        return Err("its chart has a requirements.yaml, which is not read here".to_owned());
    }
    Ok(())
}

/// Fails if a template calls a function whose result in the cluster is not known here.
fn check_functions(files: &ChartFiles) -> Result<(), String> {
    let templates = files.iter().filter(|(at, _)| at.starts_with("templates/") || at.contains("/templates/"));
    for (at, content) in templates {
        let text = String::from_utf8_lossy(content);
        let mut words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        if let Some(word) = words.find(|word| matches!(*word, "lookup" | "KubeVersion" | "HelmVersion")) {
            return Err(format!("{at} of its chart uses {word}, whose value in the cluster is not known here"));
        }
    }
    Ok(())
}

/// Returns the values of files in an artifact; each overrides those before it.
fn merged_values(artifact: &Artifact, files: &[&str], ignores_missing: bool) -> Result<Value, String> {
    let mut merged = Value::Object(Map::new());
    for file in files {
        let at = path::resolve("", file.trim_start_matches('/')).unwrap_or_default();
        match artifact.file(&at) {
            Some(content) => {
                let values = document(content).ok_or_else(|| format!("the values file {file} cannot be read"))?;
                overlay(&mut merged, values);
            }
            None if ignores_missing => {}
            None => return Err(format!("the values file {file} is not in its source")),
        }
    }
    Ok(merged)
}

fn overlay(lower: &mut Value, upper: Value) {
    match (lower, upper) {
        (Value::Object(lower), Value::Object(upper)) => {
            for (key, value) in upper {
                overlay(lower.entry(key).or_insert(Value::Null), value);
            }
        }
        (Value::Object(_), Value::Null) => {}
        (lower, upper) => *lower = upper,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::flux::source::options::SourceOptions;
    use crate::flux::source::tree::{File, Tree};

    fn artifact(files: &[(&str, &str)]) -> Artifact {
        let mut tree = Tree::default();
        for (at, content) in files {
            tree.insert(*at, File::Regular(content.as_bytes().into())).unwrap();
        }
        Artifact::pack(&tree, &SourceOptions::default())
    }

    fn read(files: &[(&str, &str)], spec: Value) -> Result<Chart, String> {
        Chart::read(&artifact(files), &spec)
    }

    const ABOUT: (&str, &str) = ("charts/app/Chart.yaml", "{apiVersion: v2, name: app, version: 1.0.0}");

    #[test]
    fn a_chart_has_the_files_below_its_directory() {
        let files =
            [ABOUT, ("charts/app/templates/a.yaml", "a: b"), ("charts/apple/Chart.yaml", "{}"), ("x.yaml", "{}")];
        let chart = read(&files, json!({"chart": "./charts/app"})).unwrap();
        assert_eq!(chart.version, "1.0.0");
        assert_eq!(chart.files.keys().collect::<Vec<_>>(), ["Chart.yaml", "templates/a.yaml"]);
        assert!(read(&files, json!({"chart": "./charts/none"})).unwrap_err().contains("no Chart.yaml"));
        assert!(read(&files, json!({"chart": "../app"})).is_err());
    }

    #[test]
    fn values_files_replace_the_values_of_the_chart() {
        let files = [
            ABOUT,
            ("charts/app/values.yaml", "{old: 1}"),
            ("a.yaml", "{m: {x: 1, y: 1}, l: [1]}"),
            ("b.yaml", "{m: {x: 2}, l: [2]}"),
        ];
        let chart = read(&files, json!({"chart": "charts/app", "valuesFiles": ["a.yaml", "./b.yaml"]})).unwrap();
        let values = document(&chart.files["values.yaml"]).unwrap();
        assert_eq!(values, json!({"m": {"x": 2, "y": 1}, "l": [2]}));
        let missing = json!({"chart": "charts/app", "valuesFiles": ["none.yaml"]});
        assert!(read(&files, missing.clone()).is_err());
        let mut ignored = missing;
        ignored["ignoreMissingValuesFiles"] = true.into();
        assert!(read(&files, ignored).is_ok());
    }

    #[test]
    fn what_cannot_be_known_here_is_named() {
        let refused = |at: &str, text: &str| read(&[ABOUT, (at, text)], json!({"chart": "charts/app"})).unwrap_err();
        let looks_up = refused("charts/app/templates/a.yaml", "{{ (lookup \"v1\" \"Secret\" \"\" \"a\").data }}");
        assert!(looks_up.contains("templates/a.yaml of its chart uses lookup"), "{looks_up}");
        assert!(
            refused("charts/app/charts/sub/templates/a.yaml", "{{ .Capabilities.KubeVersion }}")
                .contains("KubeVersion")
        );
        assert!(refused("charts/app/charts/sub-1.tgz", "").contains("packed dependency"));
        let depends = "{apiVersion: v2, name: app, version: 1, dependencies: [{name: db, repository: 'https://x'}]}";
        let missing = [("charts/app/Chart.yaml", depends)];
        assert!(read(&missing, json!({"chart": "charts/app"})).unwrap_err().contains("depends on db"));
        let vendored = [missing[0], ("charts/app/charts/db/Chart.yaml", "{}")];
        assert!(read(&vendored, json!({"chart": "charts/app"})).is_ok());
    }
}
