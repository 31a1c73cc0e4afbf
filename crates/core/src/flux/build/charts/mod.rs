//! Charts of releases, as source-controller packs them and helm-controller renders them.
//!
//! Source: source-controller v1.9.3 `internal/helm/chart`; helm-controller v1.6.3 `internal/action`.

pub mod archive;
pub mod remote;
mod schema;
pub mod stored_artifact;
pub mod templates;
pub(crate) mod values;
pub(crate) mod versions;

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::flux::source::artifact::Artifact;
use crate::flux::source::path;
use crate::kubernetes::object::{flag_at, list_at, text_at};
use crate::private::Private;
use crate::text::hash_of_parts;
use archive::{CHART_FILE, ChartFiles};
use templates::ClusterValues;

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
    pub values: Vec<Private<String>>,
    /// Version of the API server; `None` if it is not known and no template reads it.
    pub kube_version: Option<String>,
    /// The values hold those of Secrets, so that no message may show a part of the output.
    pub is_private: bool,
}

/// File with the values of a chart.
const VALUES: &str = "values.yaml";

/// Files of a chart, with the name and the version in its metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chart {
    pub(crate) files: Arc<ChartFiles>,
    pub(crate) name: String,
    pub(crate) version: String,
}

impl ChartRun {
    /// Creates a run of a chart for a release in a namespace.
    ///
    /// Fails if a template reads what is not known of the cluster.
    pub(crate) fn new(
        chart: &Chart,
        release: &str,
        namespace: &str,
        values: &[Private<String>],
        cluster: &ClusterValues,
        is_private: bool,
    ) -> Result<Self, String> {
        schema::check(&chart.files)?;
        let files = cluster.applied_to(&chart.files)?;
        let mut known_values = Vec::new();
        for text in values {
            let applied = cluster.applied_to_text(text.reveal()).map(Private::new);
            known_values.push(
                applied
                    .map_err(|what| format!("its values use {what}, whose value in the cluster is not known here"))?,
            );
        }
        let kube_version = cluster.kube_version.clone();
        let count = known_values.len().to_le_bytes();
        let texts = [release, namespace, kube_version.as_deref().unwrap_or_default()].map(str::as_bytes);
        let parts = texts.into_iter().chain([&count[..]]).chain(known_values.iter().map(|text| text.reveal().as_bytes()));
        let contents = files.iter().flat_map(|(at, content)| [at.as_bytes(), content]);
        Ok(Self {
            key: hash_of_parts(parts.chain(contents)),
            files: Arc::new(files),
            release: release.to_owned(),
            namespace: namespace.to_owned(),
            values: known_values,
            kube_version,
            is_private,
        })
    }
}

impl Chart {
    /// Reads the chart that `spec`, of a HelmChart or of the chart of a HelmRelease, names in an artifact. The files in
    /// `valuesFiles` replace its `values.yaml`.
    ///
    /// Fails with the reason why it cannot be rendered here as in the cluster.
    pub(crate) fn read(artifact: &Artifact, spec: &Value) -> Result<Self, String> {
        let (directory, about) = metadata(artifact, spec)?;
        let prefix = path::join(&directory, "");
        let files = artifact.files();
        let below = files.filter_map(|(at, content)| Some((at.strip_prefix(&*prefix)?.to_owned(), Arc::from(content))));
        let mut files: ChartFiles = below.collect();
        check_dependencies(&files, &about)?;
        if let Some(merged) = merged_values(spec, |at| artifact.file(at).map(Arc::from))? {
            files.insert(VALUES.to_owned(), merged);
        }
        Ok(Self::of(Arc::new(files), &about))
    }

    /// Reads a packed chart.
    ///
    /// Fails with the reason why it cannot be rendered here as in the cluster.
    pub(crate) fn packed(files: Arc<ChartFiles>) -> Result<Self, String> {
        let about = files
            .get(CHART_FILE)
            .and_then(|content| document(content))
            .ok_or_else(|| "the Chart.yaml of its chart cannot be read".to_owned())?;
        check_dependencies(&files, &about)?;
        Ok(Self::of(files, &about))
    }

    fn of(files: Arc<ChartFiles>, about: &Value) -> Self {
        let [name, version] = ["/name", "/version"].map(|pointer| text_at(about, pointer).to_owned());
        Self { files, name, version }
    }

    /// Returns the chart with the `valuesFiles` of a spec in place of its values.
    ///
    /// Fails if one of them is missing.
    pub(crate) fn with_values_files(&self, spec: &Value) -> Result<Self, String> {
        let Some(merged) = merged_values(spec, |at| self.files.get(at).cloned())? else { return Ok(self.clone()) };
        let mut files = (*self.files).clone();
        files.insert(VALUES.to_owned(), merged);
        Ok(Self { files: Arc::new(files), ..self.clone() })
    }

    /// Returns the chart with this version in its metadata.
    pub(crate) fn with_version(&self, version: &str) -> Self {
        if self.version == version {
            return self.clone();
        }
        let mut files = (*self.files).clone();
        if let Some(mut about) = files.get(CHART_FILE).and_then(|content| document(content)) {
            about["version"] = version.into();
            files.insert(CHART_FILE.to_owned(), about.to_string().into_bytes().into());
        }
        Self { files: Arc::new(files), version: version.to_owned(), ..self.clone() }
    }
}

/// Returns the `valuesFiles` of the spec of a chart.
pub(crate) fn values_files(spec: &Value) -> impl Iterator<Item = &str> {
    list_at(spec, "/valuesFiles").iter().filter_map(Value::as_str)
}

/// Returns true if source-controller packs a chart again at each revision of its source.
pub(crate) fn follows_revision(spec: &Value) -> bool {
    text_at(spec, "/reconcileStrategy") == "Revision"
}

/// Returns the directory in an artifact that the spec of a chart names, and the content of its Chart.yaml.
///
/// Fails with the reason why there is none.
pub(crate) fn metadata(artifact: &Artifact, spec: &Value) -> Result<(String, Value), String> {
    let written = text_at(spec, "/chart");
    let directory = path::resolve("", written.trim_start_matches('/'))
        .ok_or_else(|| format!("the path {written:?} of its chart leaves the source"))?;
    let about = artifact
        .file(&path::join(&directory, CHART_FILE))
        .ok_or_else(|| format!("{written} of its source has no Chart.yaml"))?;
    let about = document(about).ok_or_else(|| format!("the Chart.yaml of {written} cannot be read"))?;
    Ok((directory, about))
}

/// Returns the name and the version in a Chart.yaml; `None` if it has none.
pub fn metadata_of(about: &[u8]) -> Option<(String, String)> {
    let about = document(about)?;
    let [name, version] = ["/name", "/version"].map(|pointer| text_at(&about, pointer).to_owned());
    (!name.is_empty() && !version.is_empty()).then_some((name, version))
}

fn document(content: &[u8]) -> Option<Value> {
    crate::yaml::document(&String::from_utf8_lossy(content)).ok()
}

/// Fails if a dependency is not a directory in `charts/`: source-controller would fetch it.
fn check_dependencies(files: &ChartFiles, about: &Value) -> Result<(), String> {
    if let Some(packed) = files.keys().find(|at| at.starts_with("charts/") && at.ends_with(".tgz")) {
        return Err(format!("its chart has the packed dependency {packed}, which is not read here"));
    }
    for dependency in list_at(about, "/dependencies") {
        let name = text_at(dependency, "/name");
        if !files.contains_key(&format!("charts/{name}/{CHART_FILE}")) {
            return Err(format!("its chart depends on {name}, which is not in its charts/ and not fetched here"));
        }
    }
    if files.contains_key("requirements.yaml") {
        return Err("its chart has a requirements.yaml, which is not read here".to_owned());
    }
    Ok(())
}

/// Returns the values of the `valuesFiles` of a spec, each of which overrides those before it; `None` if it has none.
fn merged_values(spec: &Value, file_at: impl Fn(&str) -> Option<Arc<[u8]>>) -> Result<Option<Arc<[u8]>>, String> {
    if values_files(spec).next().is_none() {
        return Ok(None);
    }
    let mut merged = Map::new();
    for file in values_files(spec) {
        let at = path::resolve("", file.trim_start_matches('/')).unwrap_or_default();
        match file_at(&at) {
            Some(content) => match document(&content) {
                Some(Value::Object(values)) => overlay(&mut merged, values),
                Some(Value::Null) => {}
                _ => return Err(format!("the values file {file} cannot be read")),
            },
            None if flag_at(spec, "/ignoreMissingValuesFiles") => {}
            None => return Err(format!("the values file {file} is not in its source")),
        }
    }
    Ok(Some(Value::Object(merged).to_string().into_bytes().into()))
}

/// Merges maps as Flux does: a null replaces a map.
fn overlay(lower: &mut Map<String, Value>, upper: Map<String, Value>) {
    for (key, value) in upper {
        match (lower.get_mut(&key), value) {
            (Some(Value::Object(lower)), Value::Object(upper)) => overlay(lower, upper),
            (_, value) => {
                lower.insert(key, value);
            }
        }
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
            ("a.yaml", "{m: {x: 1, y: 1}, l: [1], n: {z: 1}}"),
            ("b.yaml", "{m: {x: 2}, l: [2], n: null}"),
        ];
        let chart = read(&files, json!({"chart": "charts/app", "valuesFiles": ["a.yaml", "./b.yaml"]})).unwrap();
        let values = document(&chart.files["values.yaml"]).unwrap();
        assert_eq!(values, json!({"m": {"x": 2, "y": 1}, "l": [2], "n": null}));
        let missing = json!({"chart": "charts/app", "valuesFiles": ["none.yaml"]});
        assert!(read(&files, missing.clone()).is_err());
        let mut ignored = missing;
        ignored["ignoreMissingValuesFiles"] = true.into();
        assert!(read(&files, ignored).is_ok());
    }

    #[test]
    fn what_cannot_be_known_here_is_named() {
        let refused = |at: &str, text: &str| read(&[ABOUT, (at, text)], json!({"chart": "charts/app"})).unwrap_err();
        assert!(refused("charts/app/charts/sub-1.tgz", "").contains("packed dependency"));
        let depends = "{apiVersion: v2, name: app, version: 1, dependencies: [{name: db, repository: 'https://x'}]}";
        let missing = [("charts/app/Chart.yaml", depends)];
        assert!(read(&missing, json!({"chart": "charts/app"})).unwrap_err().contains("depends on db"));
        let vendored = [missing[0], ("charts/app/charts/db/Chart.yaml", "{}")];
        assert!(read(&vendored, json!({"chart": "charts/app"})).is_ok());
    }
}
