//! Gives a source an artifact without a repository, in place of source-controller.
//!
//! This is faster than serving a repository, and the test decides when the controllers see a change.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use chrono::{SecondsFormat, Utc};
use serde_json::{Value, json};

use super::specs::{PUBLISHED_LABEL, SOURCE_HOST};
use super::{Cluster, artifact};
use crate::sha256_hex;

/// Kinds of source that can be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Git,
    Oci,
}

impl Kind {
    fn parse(kind: &str) -> Result<Self> {
        match kind {
            "GitRepository" => Ok(Self::Git),
            "OCIRepository" => Ok(Self::Oci),
            _ => bail!("cannot publish to a {kind}, only to a GitRepository or an OCIRepository"),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Git => "GitRepository",
            Self::Oci => "OCIRepository",
        }
    }

    /// Returns the revision in the format of the kind. It depends only on the content.
    fn revision(self, digest: &str) -> String {
        match self {
            Self::Git => format!("main@sha1:{}", &digest[..40]),
            Self::Oci => format!("latest@sha256:{digest}"),
        }
    }

    fn spec(self, name: &str, is_file: bool) -> Value {
        match self {
            Self::Git => {
                let url = format!("https://example.invalid/{name}.git");
                json!({ "interval": "1h", "url": url, "ref": { "branch": "main" } })
            }
            Self::Oci => {
                let url = format!("oci://example.invalid/{name}");
                let mut spec = json!({ "interval": "1h", "url": url, "ref": { "tag": "latest" } });
                if is_file {
                    // helm-controller expects these fields for a chart.
                    let media = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
                    spec["layerSelector"] = json!({ "mediaType": media, "operation": "copy" });
                }
                spec
            }
        }
    }
}

/// Serves the content of `path` and writes the artifact to the status of `source`. Creates the source if it is missing.
pub(crate) fn publish(cluster: &Cluster, source: &str, path: &Path) -> Result<String> {
    let parts: Vec<&str> = source.split('/').collect();
    let &[kind, namespace, name] = parts.as_slice() else {
        bail!("{source} is not a source; use KIND/NAMESPACE/NAME");
    };
    let kind = Kind::parse(kind)?;
    let content = artifact::pack(path, kind == Kind::Git)?;
    let digest = sha256_hex(&content);
    let revision = match head_commit(path) {
        Some(commit) => format!("main@sha1:{commit}"),
        None => kind.revision(&digest),
    };

    let object = get_or_create(cluster, kind, namespace, name, path.is_file())?;
    let file = format!("{}/{namespace}/{name}/{digest}.tar.gz", kind.name().to_lowercase());
    let stored = Stored { kind: &resource(kind), namespace, name, file: &file, revision: &revision };
    stored.write(cluster, &object, &content, json!({}))?;
    Ok(revision)
}

/// Gives a HelmChart (`NAMESPACE/NAME`) the chart in a folder, as source-controller does, with this version in place of that of
/// its Chart.yaml.
pub(crate) fn publish_chart(cluster: &Cluster, chart: &str, folder: &Path, version: &str) -> Result<()> {
    let (namespace, name) = chart.split_once('/').with_context(|| format!("{chart} is not NAMESPACE/NAME"))?;
    let kind = "helmchart.source.toolkit.fluxcd.io";
    let object = cluster.kubectl(&["get", kind, name, "-n", namespace, "-o", "json"])?;
    let about = fs::read_to_string(folder.join("Chart.yaml"))?;
    let line = |line: &str| {
        if line.starts_with("version: ") { format!("version: {version}\n") } else { format!("{line}\n") }
    };
    let content = artifact::pack_chart(folder, &about.lines().map(line).collect::<String>())?;
    let file = format!("helmchart/{namespace}/{name}/{}.tgz", sha256_hex(&content));
    let observed = json!({ "observedChartName": chart_field(&about, "name") });
    let stored = Stored { kind, namespace, name, file: &file, revision: version };
    stored.write(cluster, &serde_json::from_str(&object)?, &content, observed)
}

/// Returns a field in the first column of a Chart.yaml.
pub fn chart_field<'t>(about: &'t str, field: &str) -> Option<&'t str> {
    about.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(": "))
}

/// An artifact and the object that has it.
struct Stored<'a> {
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    /// Path of the artifact in the storage.
    file: &'a str,
    revision: &'a str,
}

impl Stored<'_> {
    /// Stores the artifact, and writes it and the other fields to the status.
    fn write(&self, cluster: &Cluster, object: &Value, content: &[u8], mut status: Value) -> Result<()> {
        let Self { kind, namespace, name, file, revision } = self;
        let is_service = cluster.lock().storage_address.is_some();
        // source-controller serves whatever is in its storage.
        let folder = if is_service { "tmp/source-controller/storage" } else { "artifacts" };
        let target = cluster.dir().join(folder).join(file);
        fs::create_dir_all(target.parent().unwrap_or(&target))?;
        fs::write(&target, content).with_context(|| format!("cannot write {}", target.display()))?;
        let url = if is_service {
            format!("http://{SOURCE_HOST}/{file}")
        } else {
            format!("{}{file}", cluster.lock().artifacts_url)
        };
        let generation = &object["metadata"]["generation"];
        if object["status"]["artifact"]["url"] == url.as_str()
            && object["status"]["artifact"]["revision"] == *revision
            && object["status"]["observedGeneration"] == *generation
        {
            return Ok(());
        }
        let now = Utc::now().to_rfc3339_opts(SecondsFormat::Secs, true);
        status["observedGeneration"] = generation.clone();
        status["artifact"] = json!({
            "path": file,
            "url": url,
            "revision": revision,
            "digest": format!("sha256:{}", sha256_hex(content)),
            "lastUpdateTime": now,
            "size": content.len(),
        });
        status["conditions"] = json!([{
            "type": "Ready",
            "status": "True",
            "reason": "Succeeded",
            "message": format!("stored artifact for revision '{revision}'"),
            "lastTransitionTime": now,
            "observedGeneration": generation,
        }]);
        let patch = json!({ "status": status }).to_string();
        let patch = ["patch", kind, name, "-n", namespace, "--subresource=status", "--type=merge", "-p", &patch];
        cluster.kubectl(&patch).map(drop)
    }
}

/// Returns the commit of a folder that is the root of a checkout. The revision then names it, as in source-controller.
fn head_commit(path: &Path) -> Option<String> {
    if !path.join(".git").exists() {
        return None;
    }
    let output = Command::new("git").arg("-C").arg(path).args(["rev-parse", "HEAD"]).output().ok()?;
    let commit = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| commit.trim().to_owned())
}

/// Reads the source from the API server. Creates it if it is missing.
fn get_or_create(cluster: &Cluster, kind: Kind, namespace: &str, name: &str, is_file: bool) -> Result<Value> {
    let get = ["get", &resource(kind), name, "-n", namespace, "-o", "json", "--ignore-not-found"];
    let found = cluster.kubectl(&get)?;
    let has_source_controller = cluster.is_running("source-controller");
    if !found.trim().is_empty() {
        let object: Value = serde_json::from_str(&found)?;
        if has_source_controller && object["metadata"]["labels"].get(PUBLISHED_LABEL).is_none() {
            bail!("{} {namespace}/{name} belongs to source-controller, which runs here", kind.name());
        }
        return Ok(object);
    }
    let mut object = json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1",
        "kind": kind.name(),
        "metadata": { "namespace": namespace, "name": name },
        "spec": kind.spec(name, is_file),
    });
    if has_source_controller {
        object["metadata"]["labels"] = json!({ PUBLISHED_LABEL: "true" });
    }
    let created = cluster.kubectl_stdin(&["create", "-f", "-", "-o", "json"], &object.to_string())?;
    Ok(serde_json::from_str(&created)?)
}

fn resource(kind: Kind) -> String {
    format!("{}.source.toolkit.fluxcd.io", kind.name().to_lowercase())
}
