//! Charts of releases, as source-controller packs them and helm-controller renders them.
//!
//! Source: source-controller v1.9.3 `internal/helm/chart`; helm-controller v1.6.3 `internal/action`.

pub mod archive;
pub(crate) mod lookups;
mod numbers;
mod order;
pub mod random;
pub mod remote;
mod root;
mod schema;
pub mod stored_artifact;
pub mod templates;
mod tokens;
pub(crate) mod values;
pub(crate) mod versions;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::bounds::{Budget, CHART_FILES, CHART_SIZE};
use crate::flux::build::go_yaml;
use crate::flux::build::objects::query::ObjectQuery;
use crate::flux::source::artifact::Artifact;
use crate::flux::source::path::{self, secure_join};
use crate::kubernetes::object::{flag_at, list_at, text_at};
use crate::private::Private;
use crate::text::hash_of_parts;
use archive::{CHART_FILE, ChartFiles, unpack};
use numbers::set_by_template;
use random::{Randomness, Seed};
use templates::ClusterValues;
use values::{Values, overlay};
use versions::select;

/// One run of `helm template`.
#[derive(Clone, Debug, Default)]
pub struct ChartRun {
    /// Files of the chart, by their path in it.
    pub files: Arc<ChartFiles>,
    /// Of the random values in the files. A function that has none there differs between renders with other seeds.
    pub seed: Seed,
    pub release: String,
    /// Namespace of the release.
    pub namespace: String,
    /// Texts of values in YAML; each overrides those before it.
    pub values: Vec<Private<String>>,
    /// Whole numbers to set, as `PATH=NUMBER`. They override the values, and none is a value of a Secret: every user of
    /// the machine can read the arguments of a process.
    pub numbers: Vec<String>,
    /// The release exists already.
    pub is_upgrade: bool,
    /// The values need not match the schema of the chart.
    pub skips_schema: bool,
    /// Version of the API server; `None` if it is not known and no template reads it.
    pub kube_version: Option<String>,
    /// The values hold those of Secrets, or the templates look something up, so that no message may show a part of the output.
    pub is_private: bool,
}

/// Result of a run of `helm template`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChartOutput {
    /// Helm rendered these manifests, as one YAML stream.
    Manifests(String),
    /// The chart cannot be rendered with these values in any cluster of this version, for this reason.
    Fails(String),
    /// A template looks this up in the cluster.
    Asks(ObjectQuery),
}

/// Beginnings of messages with which Helm refuses a chart or its values, in the cluster as well as here.
const PROVEN: [&str; 9] = [
    "Chart.yaml file is missing",
    "YAML parse error on ",
    "cannot load ",
    "chart requires kubeVersion: ",
    "execution error at (",
    "failed to parse /values/",
    "parse error at (",
    "validation: ",
    "values don't meet the specifications of the schema",
];
/// Parts of the messages of templates that fail while they are executed.
const EXECUTING: [&str; 2] = ["executing \"", "template: "];
/// Beginning of the line in which Helm says why it fails.
const ERROR: &str = "Error: ";
/// Hint of the program about its own flags, which no user of this program can set.
const PROGRAM_HINT: &str = "Use --debug flag";

impl ChartOutput {
    /// Reads the message of a `helm template` that failed, without `Error: `. `shown` is what is shown of it.
    /// `is_private` is that of the run. Templates may then compare numbers that they look up: these are floating-point numbers
    /// here, and may be integers in the cluster.
    ///
    /// Fails with the reason why the chart may be rendered in the cluster.
    pub fn of_message(message: &str, shown: String, is_private: bool) -> Result<Self, String> {
        if let Some(query) = lookups::question(message) {
            return Ok(Self::Asks(query));
        }
        if let Some((_, unknown)) = message.split_once(templates::NOT_KNOWN) {
            return Err(unknown.lines().next().unwrap_or_default().to_owned());
        }
        let is_executing = EXECUTING.iter().any(|part| message.contains(part));
        // A schema can name an address, which is not asked here.
        let has_schema_elsewhere = message.contains("://") && !is_executing;
        let is_of_numbers = is_private && message.contains("incompatible types for comparison");
        let is_proven = is_executing || PROVEN.iter().any(|start| message.starts_with(start));
        if is_proven && !has_schema_elsewhere && !is_of_numbers { Ok(Self::Fails(shown)) } else { Err(shown) }
    }
}

/// Returns the part of the standard error of a `helm template` that speaks of the chart, from the exit code on which
/// Helm writes one. The lines before it are warnings, which quote the chart, and so does a crash.
pub fn message_of_chart(code: Option<i32>, stderr: &str) -> &str {
    if code != Some(1) {
        return "it crashed";
    }
    let message = stderr.strip_prefix(ERROR).or_else(|| Some(stderr.split_once(&format!("\n{ERROR}"))?.1));
    message.map_or("it gave no message", |message| message.split(PROGRAM_HINT).next().unwrap_or_default().trim())
}

/// Options of a render that come from the HelmRelease.
pub(crate) struct RenderOptions<'a> {
    /// Name of the release.
    pub(crate) release: &'a str,
    /// Namespace of the release.
    pub(crate) namespace: &'a str,
    /// The release exists already.
    pub(crate) is_upgrade: bool,
    /// The values need not match the schema of the chart.
    pub(crate) skips_schema: bool,
}

/// File with the values of a chart.
const VALUES: &str = "values.yaml";
/// Number of archives in archives that are read.
const NESTED_ARCHIVES: usize = 4;

/// Files of a chart, with the name and the version in its metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chart {
    pub(crate) files: Arc<ChartFiles>,
    pub(crate) name: String,
    pub(crate) version: String,
}

impl Chart {
    /// Returns true if a chart has the name and the version of another one.
    pub(crate) fn has_same_version(&self, other: &Self) -> bool {
        (&self.name, &self.version) == (&other.name, &other.version)
    }
}

impl ChartRun {
    /// Creates a run of a chart for a release in a namespace.
    ///
    /// Fails if a template reads what is not known of the cluster.
    pub(crate) fn new(
        chart: &Chart,
        values: &Values,
        cluster: &ClusterValues,
        options: &RenderOptions<'_>,
    ) -> Result<Self, String> {
        schema::check(&chart.files)?;
        let mut files = cluster.applied_to(&chart.files)?;
        remove_library_type(&mut files);
        let mut known_values = Vec::new();
        for text in &values.texts {
            let applied = cluster.applied_to_text(text.reveal()).map(Private::new);
            known_values.push(
                applied
                    .map_err(|what| format!("its values use {what}, whose value in the cluster is not known here"))?,
            );
        }
        let kube_version = cluster.kube_version.clone();
        let mut numbers = vec![];
        if values.is_private {
            known_values.extend(set_by_template(&mut files, &values.numbers));
        } else {
            numbers.extend(values.numbers.iter().map(|(path, number)| format!("{}={number}", path.join("."))));
        }
        let RenderOptions { release, namespace, is_upgrade, skips_schema } = *options;
        Ok(Self {
            files: Arc::new(files),
            seed: cluster.seed,
            release: release.to_owned(),
            namespace: namespace.to_owned(),
            values: known_values,
            numbers,
            is_upgrade,
            skips_schema,
            kube_version,
            // A message can quote what was looked up.
            is_private: values.is_private || !cluster.lookups.is_empty(),
        })
    }

    /// Returns a hash of everything that the run reads: runs with equal keys have equal output.
    pub fn key(&self) -> String {
        let Self {
            files,
            seed,
            release,
            namespace,
            values,
            numbers,
            is_upgrade,
            skips_schema,
            kube_version,
            is_private,
        } = self;
        let flags =
            [*is_upgrade, *skips_schema, *is_private, *seed == Seed::Second, kube_version.is_some()].map(u8::from);
        // The counts say where each list ends.
        let counts = [values.len(), numbers.len()].map(usize::to_le_bytes);
        let texts = [release, namespace, kube_version.as_deref().unwrap_or_default()].map(str::as_bytes);
        let given = values.iter().map(Private::reveal).chain(numbers).map(String::as_bytes);
        let contents = files.iter().flat_map(|(at, content)| [at.as_bytes(), content]);
        let parts = texts.into_iter().chain(counts.iter().map(<[u8; 8]>::as_slice)).chain([&flags[..]]);
        hash_of_parts(parts.chain(given).chain(contents))
    }
}

/// Makes a library an application. helm-controller renders it too: of its templates only those whose names begin with
/// `_`, and its dependencies.
fn remove_library_type(files: &mut ChartFiles) {
    let about = files.get(CHART_FILE).and_then(|content| document(content));
    let Some(mut about) = about.filter(|about| text_at(about, "/type") == "library") else { return };
    about["type"] = "application".into();
    files.insert(CHART_FILE.to_owned(), about.to_string().into_bytes().into());
    files.retain(|at, _| {
        let name = at.rsplit('/').next().unwrap_or_default();
        !at.starts_with("templates/") || name.starts_with('_')
    });
}

impl Chart {
    /// Reads the chart that `spec`, of a HelmChart or of the chart of a HelmRelease, names in an artifact. The files in
    /// `valuesFiles` replace its `values.yaml`.
    ///
    /// Fails with the reason why it cannot be rendered here as in the cluster.
    pub(crate) fn read(artifact: &Artifact, spec: &Value) -> Result<Self, String> {
        if let Some(unread) = unread(artifact, spec) {
            return Err(unread);
        }
        if let Some(archive) = packed_chart(artifact, spec) {
            let chart = Self::packed(Arc::new(unpack(archive)?))?;
            let merged = merged_values(spec, |at| artifact.file(at).map(Arc::from))?;
            return Ok(merged.map_or_else(|| chart.clone(), |merged| chart.with_values(merged)));
        }
        let (directory, about) = metadata(artifact, spec)?;
        let below = files_below(artifact, &directory);
        let mut files: ChartFiles = below.map(|(at, content)| (at.to_owned(), Arc::from(content))).collect();
        add_local_dependencies(&mut files, artifact, &directory, &about)?;
        let mut files = checked(files, &about)?;
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
        let checked = checked((*files).clone(), &about)?;
        Ok(Self::of(Arc::new(checked), &about))
    }

    /// Returns the files of the chart that are text.
    fn texts(&self) -> impl Iterator<Item = &str> {
        self.files.values().filter_map(|content| std::str::from_utf8(content).ok())
    }

    /// Returns true if the chart may have hooks of an uninstall, or objects that an uninstall keeps.
    pub(crate) fn decides_uninstall(&self) -> bool {
        let words = ["pre-delete", "post-delete", "resource-policy"];
        self.texts().map(str::to_lowercase).any(|text| words.iter().any(|word| text.contains(word)))
    }

    /// Returns true if a template asks which API versions the cluster has.
    pub(crate) fn reads_api_versions(&self) -> bool {
        self.texts().filter(|text| text.contains("{{")).any(|text| text.contains("APIVersions"))
    }

    /// Returns true if the chart or its values may look up objects.
    pub(crate) fn looks_up(&self, values: &Values) -> bool {
        self.texts().chain(values.texts.iter().map(|text| text.reveal().as_str())).any(|text| text.contains("lookup"))
    }

    /// Returns the use that the chart and its values make of functions whose results differ from render to render.
    pub(crate) fn randomness(&self, values: &Values) -> Randomness {
        random::randomness(self.texts().chain(values.texts.iter().map(|text| text.reveal().as_str())))
    }

    fn of(files: Arc<ChartFiles>, about: &Value) -> Self {
        let [name, version] = ["/name", "/version"].map(|pointer| text_at(about, pointer).to_owned());
        Self { files, name, version }
    }

    /// Returns the chart with the `valuesFiles` of a spec in place of its values.
    ///
    /// Fails if one of them is missing.
    pub(crate) fn with_values_files(&self, spec: &Value) -> Result<Self, String> {
        let merged = merged_values(spec, |at| self.files.get(at).cloned())?;
        Ok(merged.map_or_else(|| self.clone(), |merged| self.with_values(merged)))
    }

    /// Returns the values of a chart without subcharts; `None` if it has some, or if its values cannot be read. Those
    /// with a word such as `on` cannot: Go reads it as true.
    pub(crate) fn own_defaults(&self) -> Option<Value> {
        let has_subcharts = self.files.keys().any(|at| at.starts_with("charts/"));
        let content = self.files.get(VALUES).map(|content| &**content).unwrap_or_default();
        match document(content).filter(|_| !has_subcharts)? {
            Value::Null => Some(Value::Object(Map::new())),
            values => (values.is_object() && is_unambiguous(&values)).then_some(values),
        }
    }

    /// Returns the chart with these values in place of its own.
    pub(crate) fn with_defaults(&self, values: &Value) -> Self {
        self.with_values(values.to_string().into_bytes().into())
    }

    fn with_values(&self, values: Arc<[u8]>) -> Self {
        let mut files = (*self.files).clone();
        files.insert(VALUES.to_owned(), values);
        Self { files: Arc::new(files), ..self.clone() }
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

/// Words that YAML 1.1 reads as true or false, and YAML 1.2 as texts.
const BOOLEANS: [&str; 6] = ["on", "off", "yes", "no", "y", "n"];

/// Returns true if all versions of YAML read the keys and texts of these values alike.
fn is_unambiguous(values: &Value) -> bool {
    match values {
        Value::Object(fields) => fields.iter().all(|(key, value)| is_text(key) && is_unambiguous(value)),
        Value::Array(items) => items.iter().all(is_unambiguous),
        Value::String(text) => is_text(text),
        _ => true,
    }
}

/// Returns true if no version of YAML reads a word as true or false.
fn is_text(word: &str) -> bool {
    !BOOLEANS.contains(&word.to_lowercase().as_str())
}

/// Returns the `valuesFiles` of the spec of a chart.
pub(crate) fn values_files(spec: &Value) -> impl Iterator<Item = &str> {
    list_at(spec, "/valuesFiles").iter().filter_map(Value::as_str)
}

/// Returns true if source-controller packs a chart again at each revision of its source.
pub(crate) fn follows_revision(spec: &Value) -> bool {
    text_at(spec, "/reconcileStrategy") == "Revision"
}

fn files_below<'a>(artifact: &'a Artifact, directory: &'a str) -> impl Iterator<Item = (&'a str, &'a [u8])> {
    let start = path::join(directory, "").len();
    artifact.files_below(directory).filter_map(move |at| Some((&at[start..], artifact.file(at)?)))
}

/// Returns what could not be read of a chart, of its values files, or, if it has dependencies in the artifact, of any
/// file.
fn unread(artifact: &Artifact, spec: &Value) -> Option<String> {
    artifact.unread_at("")?;
    let about = metadata(artifact, spec).ok().map(|(_, about)| about).unwrap_or_default();
    let repositories = list_at(&about, "/dependencies").iter().map(|dependency| text_at(dependency, "/repository"));
    let whole = repositories.filter(|repository| repository.starts_with("file://")).map(|_| String::new());
    let paths = std::iter::once(text_at(spec, "/chart")).chain(values_files(spec)).map(secure_join);
    paths.chain(whole).find_map(|at| artifact.unread_at(&at))
}

/// Returns the archive in an artifact that the spec of a chart names.
fn packed_chart<'a>(artifact: &'a Artifact, spec: &Value) -> Option<&'a [u8]> {
    artifact.file(&secure_join(text_at(spec, "/chart")))
}

/// Returns the directory in an artifact that the spec of a chart names, and the content of its Chart.yaml.
///
/// Fails with the reason why there is none.
fn metadata(artifact: &Artifact, spec: &Value) -> Result<(String, Value), String> {
    let written = text_at(spec, "/chart");
    let directory = secure_join(written);
    let about = artifact
        .file(&path::join(&directory, CHART_FILE))
        .ok_or_else(|| format!("{written} of its source has no Chart.yaml"))?;
    let about = document(about).ok_or_else(|| format!("the Chart.yaml of {written} cannot be read"))?;
    if text_at(&about, "/name").is_empty() {
        return Err(format!("the Chart.yaml of {written} has no name"));
    }
    // source-controller packs no chart whose version is no semantic one (observed). A number is read as text.
    let number = about.get("version").and_then(Value::as_str).map(|version| version.trim_start_matches('v'));
    if number.is_some_and(|number| !number.starts_with(|c: char| c.is_ascii_digit())) {
        return Err(format!("the version in the Chart.yaml of {written} is not valid"));
    }
    Ok((directory, about))
}

/// Returns the name of the chart that a spec names in an artifact; `None` if it is not known.
pub(crate) fn name_in(artifact: &Artifact, spec: &Value) -> Option<String> {
    match packed_chart(artifact, spec) {
        Some(_) => Chart::read(artifact, spec).ok().map(|chart| chart.name),
        None => metadata(artifact, spec).ok().map(|(_, about)| text_at(&about, "/name").to_owned()),
    }
}

/// Returns the reason why source-controller cannot pack the chart that a spec names in an artifact; `None` if it can,
/// or if that is not known.
///
/// Source: source-controller v1.9.3 `internal/helm/chart/builder_local.go`, `dependency_manager.go`.
pub(crate) fn packing_failure(artifact: &Artifact, spec: &Value) -> Option<String> {
    if unread(artifact, spec).is_some() {
        return None;
    }
    let missing = values_files(spec).find(|file| artifact.file(&secure_join(file)).is_none());
    if let Some(file) = missing.filter(|_| !flag_at(spec, "/ignoreMissingValuesFiles")) {
        return Some(missing_values(file));
    }
    if packed_chart(artifact, spec).is_some() {
        return None;
    }
    let (directory, about) = match metadata(artifact, spec) {
        Ok(found) => found,
        Err(why) => return Some(why),
    };
    let own = Subcharts::of(files_below(artifact, &directory));
    let mut read: BTreeMap<String, Option<(String, String)>> = BTreeMap::new();
    list_at(&about, "/dependencies").iter().find_map(|dependency| {
        let [name, range] = ["/name", "/version"].map(|pointer| text_at(dependency, pointer));
        let found = local_dependency(&own, &directory, dependency)?;
        let Some(other) = artifact.file(&path::join(&found, CHART_FILE)) else {
            return Some(format!("its chart depends on {name} at {found}, where its source has no chart"));
        };
        // Many dependencies can be the same chart.
        let (_, version) = read.entry(found.clone()).or_insert_with(|| metadata_of(other)).as_ref()?;
        let is_wrong = !range.is_empty() && select(range, [version.as_str()].into_iter()).is_err();
        is_wrong.then(|| format!("its chart depends on {name} {range}, and {found} has {version}"))
    })
}

/// Returns the path of a dependency in the same artifact, if the `charts/` of the chart does not have it.
fn local_dependency(own: &Subcharts<'_>, directory: &str, dependency: &Value) -> Option<String> {
    let relative = text_at(dependency, "/repository").strip_prefix("file://")?;
    (!own.have(text_at(dependency, "/name"))).then(|| secure_join(&path::join(directory, relative)))
}

fn missing_values(file: &str) -> String {
    format!("the values file {file} is not in its source")
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

/// Adds the charts in the same source that a chart depends on and that are not in its `charts/`, as source-controller
/// does.
///
/// Fails if there are more files or bytes than are read: thousands of dependencies can be one large directory.
fn add_local_dependencies(
    files: &mut ChartFiles,
    artifact: &Artifact,
    directory: &str,
    about: &Value,
) -> Result<(), String> {
    let own = Subcharts::of(files_below(artifact, directory));
    let mut size = files.values().map(|content| content.len()).sum();
    for dependency in list_at(about, "/dependencies") {
        let Some(found) = local_dependency(&own, directory, dependency) else { continue };
        let name = text_at(dependency, "/name");
        for (at, content) in files_below(artifact, &found) {
            size += content.len();
            files.insert(format!("charts/{name}/{at}"), Arc::from(content));
            check_size(size, files)?;
        }
    }
    Ok(())
}

/// Charts in the `charts/` of another one.
#[derive(Default)]
struct Subcharts<'a> {
    /// Names of the directories and of the charts in them.
    names: BTreeSet<Cow<'a, str>>,
    /// Names of the archives.
    archives: BTreeSet<&'a str>,
}

impl<'a> Subcharts<'a> {
    /// Finds them in the files of a chart.
    fn of(files: impl Iterator<Item = (&'a str, &'a [u8])>) -> Self {
        let mut found = Self::default();
        for (at, content) in files {
            let Some(below) = at.strip_prefix("charts/") else { continue };
            match below.split_once('/') {
                None if below.ends_with(".tgz") => _ = found.archives.insert(below),
                Some((directory, CHART_FILE)) => {
                    found.names.insert(directory.into());
                    found.names.extend(metadata_of(content).map(|(name, _)| name.into()));
                }
                _ => {}
            }
        }
        found
    }

    /// Returns true if one has this name, packed or not.
    fn have(&self, name: &str) -> bool {
        let beginning = format!("{name}-");
        let mut archives = self.archives.range::<str, _>((Bound::Included(&*beginning), Bound::Unbounded));
        self.names.contains(name) || archives.next().is_some_and(|archive| archive.starts_with(&beginning))
    }
}

/// Returns the files of a chart with those of its packed dependencies.
///
/// Fails if a dependency is not in `charts/`: source-controller would fetch it.
fn checked(mut files: ChartFiles, about: &Value) -> Result<ChartFiles, String> {
    for _ in 0..NESTED_ARCHIVES {
        unpack_dependencies(&mut files)?;
    }
    if let Some(packed) = files.keys().find(|at| is_packed_dependency(at)) {
        return Err(format!("its chart has the packed dependency {packed}, which is nested too deep"));
    }
    let own = Subcharts::of(files.iter().map(|(at, content)| (&**at, &**content)));
    for dependency in list_at(about, "/dependencies") {
        let name = text_at(dependency, "/name");
        if !own.have(name) {
            return Err(format!(
                "its chart depends on {name}, which is not in its charts/ and not fetched here: run helm dependency update"
            ));
        }
    }
    if files.contains_key("requirements.yaml") {
        return Err("its chart has a requirements.yaml, which is not read here".to_owned());
    }
    Ok(files)
}

fn is_packed_dependency(at: &str) -> bool {
    at.rsplit_once('/').is_some_and(|(directory, file)| {
        file.ends_with(".tgz") && (directory == "charts" || directory.ends_with("/charts"))
    })
}

/// Replaces the archives in `charts/` by their files.
fn unpack_dependencies(files: &mut ChartFiles) -> Result<(), String> {
    let packed: Vec<String> = files.keys().filter(|at| is_packed_dependency(at)).cloned().collect();
    let mut size: usize = files.values().map(|content| content.len()).sum();
    for at in packed {
        let Some(archive) = files.remove(&at) else { continue };
        let inner = unpack(&archive).map_err(|why| format!("the packed dependency {at} of its chart: {why}"))?;
        let directory = at.trim_end_matches(".tgz").to_owned();
        // What many small archives unpack to is counted before the next one is unpacked.
        size += inner.values().map(|content| content.len()).sum::<usize>();
        files.extend(inner.into_iter().map(|(below, content)| (format!("{directory}/{below}"), content)));
        check_size(size, files)?;
    }
    check_size(size, files)
}

/// Fails if a chart has more files or bytes than are read.
fn check_size(size: usize, files: &ChartFiles) -> Result<(), String> {
    let checked = CHART_SIZE.check(size).and_then(|()| CHART_FILES.check(files.len()));
    checked.map_err(|exceeded| format!("its chart has {exceeded}"))
}

/// Returns the values of the `valuesFiles` of a spec as source-controller writes them, each of which overrides those
/// before it; `None` if it has none.
fn merged_values(spec: &Value, file_at: impl Fn(&str) -> Option<Arc<[u8]>>) -> Result<Option<Arc<[u8]>>, String> {
    if values_files(spec).next().is_none() {
        return Ok(None);
    }
    let (mut merged, mut size) = (Map::new(), Budget::new(CHART_SIZE));
    for file in values_files(spec) {
        let content = file_at(&secure_join(file));
        let length = content.as_ref().map_or(0, |content| content.len());
        size.spend(length).map_err(|exceeded| format!("its valuesFiles have {exceeded}"))?;
        match content {
            Some(content) => match go_yaml::read(&content).and_then(|values| values.to_json()) {
                Ok(Value::Object(values)) => overlay(&mut merged, values),
                Ok(Value::Null) => {}
                _ => return Err(format!("the values file {file} cannot be read")),
            },
            None if flag_at(spec, "/ignoreMissingValuesFiles") => {}
            None => return Err(missing_values(file)),
        }
    }
    Ok(Some(Value::Object(merged).to_string().into_bytes().into()))
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
    fn small_archives_and_lists_that_stand_for_gigabytes_are_refused() {
        let packed = |entries: &[(&str, &[u8])]| {
            let gzip = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
            let mut builder = tar::Builder::new(gzip);
            for (name, content) in entries {
                let mut header = tar::Header::new_gnu();
                header.set_size(content.len() as u64);
                builder.append_data(&mut header, name, *content).unwrap();
            }
            builder.into_inner().unwrap().finish().unwrap()
        };
        let about: &[u8] = b"{apiVersion: v2, name: sub, version: 1.0.0}";
        let zeros = vec![0; 4 << 20];
        let mut large = vec![("sub/Chart.yaml", about)];
        let names: Vec<String> = (0..20).map(|number| format!("sub/{number}")).collect();
        large.extend(names.iter().map(|name| (&**name, &*zeros)));
        let (large, small) = (packed(&large), packed(&[("sub/Chart.yaml", about)]));
        // The second one would be too much, and the third one, which is damaged, is not unpacked any more.
        let mut files = ChartFiles::from([(CHART_FILE.to_owned(), Arc::from(&b"{}"[..]))]);
        for (name, content) in [("a", &*large), ("b", &large), ("c", &b"damaged"[..])] {
            files.insert(format!("charts/{name}.tgz"), content.into());
        }
        assert_eq!(
            unpack_dependencies(&mut files),
            Err("its chart has more than 100 MiB (limit chart-size)".to_owned())
        );
        let mut files: ChartFiles =
            (0..CHART_FILES.limit).map(|number| (number.to_string(), Arc::from(&b""[..]))).collect();
        assert_eq!(unpack_dependencies(&mut files), Ok(()));
        files.insert("charts/a.tgz".to_owned(), small.into());
        let refused = unpack_dependencies(&mut files).unwrap_err();
        assert_eq!(refused, "its chart has more than 10000 files (limit chart-files)");
        let spec = json!({"valuesFiles": vec!["a.yaml"; 100]});
        let content: Arc<[u8]> = Arc::from(format!("a: {}", "b".repeat(2 << 20)).into_bytes());
        let refused = merged_values(&spec, |_| Some(content.clone())).unwrap_err();
        assert_eq!(refused, "its valuesFiles have more than 100 MiB (limit chart-size)");
    }

    #[test]
    fn values_files_replace_the_values_of_the_chart() {
        let files = [
            ABOUT,
            ("charts/app/values.yaml", "{old: 1}"),
            ("a.yaml", "{m: {a: 1, b: 1}, l: [1], o: {c: 1}}"),
            ("b.yaml", "{m: {a: 2}, l: [2], o: null}"),
        ];
        let chart = read(&files, json!({"chart": "charts/app", "valuesFiles": ["a.yaml", "./b.yaml"]})).unwrap();
        let values = document(&chart.files["values.yaml"]).unwrap();
        assert_eq!(values, json!({"m": {"a": 2, "b": 1}, "l": [2], "o": null}));
        let words = [ABOUT, ("a.yaml", "on: true\nmode: 0644\n")];
        let chart = read(&words, json!({"chart": "charts/app", "valuesFiles": ["a.yaml"]})).unwrap();
        assert_eq!(document(&chart.files["values.yaml"]), Some(json!({"true": true, "mode": 420})), "as Go reads them");
        let missing = json!({"chart": "charts/app", "valuesFiles": ["none.yaml"]});
        assert!(read(&files, missing.clone()).is_err());
        let mut ignored = missing;
        ignored["ignoreMissingValuesFiles"] = true.into();
        assert!(read(&files, ignored).is_ok());
    }

    #[test]
    fn a_failure_of_the_chart_is_one_of_the_controller_too() {
        let proven = [
            "execution error at (app/templates/a.yaml:1:3): no good",
            "parse error at (app/templates/a.yaml:1): function \"nosuch\" not defined",
            "app/templates/a.yaml:1:10\n  executing \"app/templates/a.yaml\" at <.Values.a.b>:\n    nil pointer",
            "template: app/templates/a.yaml:1:29: error calling eq: incompatible types for comparison",
            "YAML parse error on app/templates/a.yaml: error converting YAML to JSON",
            "values don't meet the specifications of the schema(s) in the following chart(s):\napp:",
            "chart requires kubeVersion: >=1.99.0 which is incompatible with Kubernetes v1.36.3",
        ];
        for message in proven {
            let failure = ChartOutput::of_message(message, "shown".to_owned(), false);
            assert_eq!(failure, Ok(ChartOutput::Fails("shown".to_owned())), "{message}");
        }
        let metrics = format!("execution error at (app/templates/a.yaml:1:3): {}why", templates::NOT_KNOWN);
        assert_eq!(ChartOutput::of_message(&metrics, "shown".to_owned(), false), Err("why".to_owned()));
        let elsewhere = "values don't meet the specifications of the schema(s): https://example.com/a.json";
        for message in [elsewhere, "failed to parse v.yaml", "open chart: no such file"] {
            assert_eq!(
                ChartOutput::of_message(message, "shown".to_owned(), false),
                Err("shown".to_owned()),
                "{message}"
            );
        }
        assert_eq!(ChartOutput::of_message(proven[3], "shown".to_owned(), true), Err("shown".to_owned()));
        let hint = "execution error at (a:1:3): no\n\nUse --debug flag to render out invalid YAML";
        assert_eq!(message_of_chart(Some(1), &format!("{ERROR}{hint}")), "execution error at (a:1:3): no");
    }

    #[test]
    fn what_cannot_be_known_here_is_named() {
        let refused = |at: &str, text: &str| read(&[ABOUT, (at, text)], json!({"chart": "charts/app"})).unwrap_err();
        assert!(refused("charts/app/charts/sub-1.tgz", "").contains("packed dependency"), "it is damaged");
        let depends = "{apiVersion: v2, name: app, version: 1, dependencies: [{name: db, repository: 'https://x'}]}";
        let missing = [("charts/app/Chart.yaml", depends)];
        assert!(read(&missing, json!({"chart": "charts/app"})).unwrap_err().contains("depends on db"));
        let vendored = [missing[0], ("charts/app/charts/db/Chart.yaml", "{}")];
        assert!(read(&vendored, json!({"chart": "charts/app"})).is_ok());
    }

    #[test]
    fn runs_that_read_something_else_have_other_keys() {
        let private = |text: &str| vec![Private::new(text.to_owned())];
        let files = |at: &str, content: &str| Arc::new(ChartFiles::from([(at.to_owned(), content.as_bytes().into())]));
        let run = ChartRun { files: files("a", "b"), ..ChartRun::default() };
        let others = [
            run.clone(),
            ChartRun { files: files("a", "c"), ..run.clone() },
            ChartRun { files: files("c", "b"), ..run.clone() },
            ChartRun { seed: Seed::Second, ..run.clone() },
            ChartRun { release: "web".to_owned(), ..run.clone() },
            ChartRun { namespace: "web".to_owned(), ..run.clone() },
            ChartRun { values: private("a"), ..run.clone() },
            ChartRun { numbers: vec!["a".to_owned()], ..run.clone() },
            ChartRun { is_upgrade: true, ..run.clone() },
            ChartRun { skips_schema: true, ..run.clone() },
            ChartRun { kube_version: Some(String::new()), ..run.clone() },
            ChartRun { is_private: true, ..run.clone() },
        ];
        let keys: BTreeSet<String> = others.iter().map(ChartRun::key).collect();
        assert_eq!(keys.len(), others.len());
        // A file of the chart is no number that is set.
        let numbers = ["a=1", "b"].map(str::to_owned).into();
        let set = ChartRun { files: files("c", "d"), numbers, ..run.clone() };
        let both = Arc::new(
            files("a=1", "b").iter().chain(&*files("c", "d")).map(|(at, text)| (at.clone(), text.clone())).collect(),
        );
        assert_ne!(set.key(), ChartRun { files: both, ..run }.key());
    }

    #[test]
    fn dependencies_in_archives_and_in_the_same_source_are_read() {
        let depends =
            "{apiVersion: v2, name: app, version: 1, dependencies: [{name: lib, repository: 'file://../lib'}]}";
        let files = [
            ("charts/app/Chart.yaml", depends),
            ("charts/lib/Chart.yaml", "{apiVersion: v2, name: lib, version: 1}"),
            ("charts/lib/templates/a.yaml", "a: b"),
        ];
        let chart = read(&files, json!({"chart": "charts/app"})).unwrap();
        assert!(chart.files.contains_key("charts/lib/templates/a.yaml"), "{:?}", chart.files.keys());
        let inner =
            crate::testing::packed_chart(&[("Chart.yaml", "{name: db, version: '1'}"), ("templates/b.yaml", "")]);
        let about = "{apiVersion: v2, name: app, version: '1', dependencies: [{name: db, repository: 'https://x'}]}";
        let packed: ChartFiles =
            [("Chart.yaml".to_owned(), Arc::from(about.as_bytes())), ("charts/db-1.tgz".to_owned(), Arc::from(inner))]
                .into();
        let chart = Chart::packed(Arc::new(packed)).unwrap();
        assert!(chart.files.contains_key("charts/db-1/templates/b.yaml"), "{:?}", chart.files.keys());
    }

    #[test]
    fn a_library_is_rendered_without_its_own_templates() {
        let about = "{apiVersion: v2, name: app, version: '1', type: library}";
        let mut files: ChartFiles = [("Chart.yaml", about), ("templates/a.yaml", "a"), ("templates/_b.tpl", "b")]
            .map(|(at, content)| (at.to_owned(), Arc::from(content.as_bytes())))
            .into();
        remove_library_type(&mut files);
        assert_eq!(files.keys().collect::<Vec<_>>(), ["Chart.yaml", "templates/_b.tpl"]);
        assert_eq!(document(&files["Chart.yaml"]).unwrap()["type"], "application");
    }

    #[test]
    fn thousands_of_dependencies_on_one_directory_end() {
        let dependencies = |count: usize| {
            let one = |number| json!({"name": format!("d{number}"), "version": "1", "repository": "file://../big"});
            json!({"apiVersion": "v2", "name": "app", "version": "1", "dependencies": (0..count).map(one).collect::<Vec<_>>()})
        };
        let big = "x".repeat(1 << 20);
        let read = |count: usize| {
            let about = dependencies(count).to_string();
            let files = [
                ("charts/app/Chart.yaml", about.as_str()),
                ("charts/big/Chart.yaml", "{name: big, version: '1'}"),
                ("charts/big/a.txt", &big),
            ];
            read(&files, json!({"chart": "charts/app"}))
        };
        assert!(read(20).is_ok());
        let exceeded = read(20_000).unwrap_err();
        assert!(exceeded.contains("limit chart-size"), "{exceeded}");
    }

    #[test]
    fn a_crash_and_a_warning_that_quote_the_chart_are_no_message_of_helm() {
        let warning = "level=INFO msg=\"warning: cannot overwrite table with non table for app.Error: template: x\"\n";
        let crash = format!("{warning}fatal error: out of memory\n");
        let failure = format!("{warning}Error: YAML parse error on app/a.yaml: no\n");
        for (code, stderr, expected) in [
            (Some(2), &crash, "it crashed"),
            (None, &crash, "it crashed"),
            (Some(1), &crash, "it gave no message"),
            (Some(1), &failure, "YAML parse error on app/a.yaml: no"),
        ] {
            let message = message_of_chart(code, stderr);
            assert_eq!(message, expected);
            let is_proven = matches!(ChartOutput::of_message(message, String::new(), false), Ok(ChartOutput::Fails(_)));
            assert_eq!(is_proven, stderr == &failure);
        }
    }

    #[test]
    fn what_source_controller_cannot_pack_is_known() {
        let with = |about: &str, more: &[(&str, &str)]| {
            let mut files = vec![("charts/a/Chart.yaml", about)];
            files.extend(more);
            packing_failure(&artifact(&files), &json!({"chart": "../charts/a", "valuesFiles": ["v.yaml"]}))
        };
        let values = ("v.yaml", "");
        assert_eq!(with("{name: a, version: 1.0.0}", &[values]), None, "a path ends at the root");
        assert_eq!(with("{name: a, version: 1.0.0}", &[]).unwrap(), "the values file v.yaml is not in its source");
        assert_eq!(with("{version: 1.0.0}", &[values]).unwrap(), "the Chart.yaml of ../charts/a has no name");
        let about = |range: &str| {
            format!(
                "{{name: a, version: 1.0.0, dependencies: [{{name: b, version: '{range}', repository: 'file://../b'}}]}}"
            )
        };
        let other = ("charts/b/Chart.yaml", "{name: b, version: 1.2.0}");
        assert_eq!(with(&about("1.x.x"), &[values, other]), None);
        let wrong = "its chart depends on b 2.0.0, and charts/b has 1.2.0";
        assert_eq!(with(&about("2.0.0"), &[values, other]).unwrap(), wrong);
        let gone = "its chart depends on b at charts/b, where its source has no chart";
        assert_eq!(with(&about("1.x.x"), &[values]).unwrap(), gone);
        let vendored = ("charts/a/charts/x/Chart.yaml", "{name: b, version: 9.0.0}");
        assert_eq!(with(&about("1.x.x"), &[values, vendored]), None, "the version of a vendored chart is not compared");
    }
}
