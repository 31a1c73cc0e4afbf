//! Artifacts that source-controller stores, and the path by which the API server gives them to a user.

use serde_json::Value;

use super::archive::check_digest;
use crate::bounds::CHART_ARCHIVE_SIZE;
use crate::flux::spec::SourceId;
use crate::kubernetes::object::{ObjectId, Resource, text_at};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::schemes::flux_helmrelease::{GROUP, KIND, helm_chart};

/// An archive in the storage of a source's controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredArtifact {
    /// Digest of the archive, in the form `sha256:…`.
    pub digest: String,
    /// Path of the API server that answers with the archive, by its proxy to the Service of the controller.
    pub proxy_path: String,
}

impl StoredArtifact {
    /// Reads the artifact in the status of a source.
    ///
    /// Fails if there is none, if it is too large, or if its address is not that of a Service in the cluster with the
    /// path of this very source.
    pub(crate) fn of(source: &Resource) -> Result<Self, String> {
        let id = &source.object.id;
        let artifact = source
            .at("/status/artifact")
            .filter(|artifact| artifact.is_object())
            .ok_or_else(|| format!("{id} has no artifact"))?;
        let size = artifact.get("size").and_then(serde_json::Value::as_u64).unwrap_or_default();
        CHART_ARCHIVE_SIZE
            .check(usize::try_from(size).unwrap_or(usize::MAX))
            .map_err(|error| format!("the artifact of {id} has {error}"))?;
        let digest = text_at(artifact, "/digest").to_owned();
        if !digest.starts_with("sha256:") {
            return Err(format!("the artifact of {id} has no sha256 digest"));
        }
        let directory = format!("{}/{}/{}", id.kind.to_lowercase(), id.namespace, id.name);
        let path = proxy_path(text_at(artifact, "/url"), &directory)
            .ok_or_else(|| format!("the address of the artifact of {id} is not that of a Service in the cluster"))?;
        Ok(Self { digest, proxy_path: path })
    }

    /// Fails if an archive has another digest.
    pub fn check(&self, archive: &[u8]) -> Result<(), String> {
        check_digest(archive, &self.digest)
    }
}

/// Returns the chart of each HelmRelease as source-controller stores it, or the reason why it is not there.
pub fn charts_of_releases(snapshot: &Snapshot) -> impl Iterator<Item = (&ObjectId, Result<StoredArtifact, String>)> {
    let releases = snapshot.resources.iter().filter(|full| full.object.id.is(GROUP, KIND));
    releases.map(|release| {
        let artifact = chart_source(release, release.spec()).and_then(|source| {
            let found = snapshot.resource(&source).ok_or_else(|| format!("{source} could not be read"))?;
            StoredArtifact::of(found)
        });
        (&release.object.id, artifact)
    })
}

/// Returns the object whose artifact is the chart of a release with this spec.
///
/// Fails if source-controller has made none.
pub(crate) fn chart_source(live: &Resource, spec: &Value) -> Result<ObjectId, String> {
    match spec.get("chartRef").filter(|reference| reference.is_object()) {
        Some(reference) => Ok(SourceId::read(reference, "", &live.object.id.namespace).object()),
        None => helm_chart(&live.content).ok_or_else(|| "it has no HelmChart".to_owned()),
    }
}

/// Returns the path of the API server's proxy for a URL of the form `http://SERVICE.NAMESPACE.svc…/DIRECTORY/FILE`.
fn proxy_path(url: &str, directory: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let default_port = match scheme {
        "http" => "80",
        "https" => "443",
        _ => return None,
    };
    let (authority, path) = rest.split_once('/')?;
    let (host, port) = authority.split_once(':').unwrap_or((authority, default_port));
    let mut labels = host.trim_end_matches('.').split('.');
    let (service, namespace) = (labels.next()?, labels.next()?);
    let is_cluster = labels.next().is_none_or(|label| label == "svc");
    let file = path.strip_prefix(directory)?.strip_prefix('/')?;
    let is_number = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    (is_cluster && is_name(service) && is_name(namespace) && is_number && is_file(file))
        .then(|| format!("/api/v1/namespaces/{namespace}/services/{scheme}:{service}:{port}/proxy/{directory}/{file}"))
}

/// Returns true for the name of a Service or namespace. An address of IPv4 has numbers only.
fn is_name(label: &str) -> bool {
    label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && label.bytes().any(|b| !b.is_ascii_digit())
}

/// Returns true for the name of a file of source-controller, such as `app-1.0.0.tgz` or, of an OCIRepository,
/// `sha256:1f2e….tar.gz`.
fn is_file(name: &str) -> bool {
    let mut bytes = name.bytes();
    !["", ".", ".."].contains(&name) && bytes.all(|b| b.is_ascii_alphanumeric() || b"._+~-:".contains(&b))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Build, object};

    #[test]
    fn an_address_in_the_cluster_becomes_a_path_of_the_proxy() {
        let path = |url: &str| proxy_path(url, "helmchart/shop/shop-web");
        let proxied = |service: &str| {
            Some(format!(
                "/api/v1/namespaces/flux-system/services/{service}/proxy/helmchart/shop/shop-web/web-1.0.0.tgz"
            ))
        };
        let file = "helmchart/shop/shop-web/web-1.0.0.tgz";
        let host = "source-controller.flux-system";
        for domain in ["", ".", ".svc", ".svc.cluster.local", ".svc.cluster.local."] {
            assert_eq!(path(&format!("http://{host}{domain}/{file}")), proxied("http:source-controller:80"));
        }
        assert_eq!(path(&format!("http://{host}:8080/{file}")), proxied("http:source-controller:8080"));
        assert_eq!(path(&format!("https://{host}.svc/{file}")), proxied("https:source-controller:443"));
        let of_registry = path(&format!("http://{host}/helmchart/shop/shop-web/sha256:1f2e.tar.gz"));
        assert!(of_registry.unwrap().ends_with("/sha256:1f2e.tar.gz"));
    }

    #[test]
    fn an_artifact_that_is_too_large_is_not_read() {
        let source = |size: u64| {
            let artifact =
                json!({"size": size, "digest": "sha256:1", "url": "http://s.n.svc/helmchart/shop/web/a.tgz"});
            object("source.toolkit.fluxcd.io", "HelmChart", "shop", "web")
                .with_content(json!({"status": {"artifact": artifact}}))
        };
        assert!(StoredArtifact::of(&source(32 << 20)).is_ok());
        for size in [(32 << 20) + 1, u64::MAX] {
            assert!(StoredArtifact::of(&source(size)).unwrap_err().contains("chart-archive-size"));
        }
    }

    #[test]
    fn no_other_address_is_read() {
        let path = |url: &str| proxy_path(url, "helmchart/shop/shop-web");
        for url in [
            "http://127.0.0.1:80/helmchart/shop/shop-web/a.tgz",
            "http://example.com/helmchart/shop/shop-web/a.tgz".replace("example.com", "a.b.example.com").as_str(),
            "http://s.n.svc/helmchart/shop/other/a.tgz",
            "http://s.n.svc/helmchart/shop/shop-web/../../x",
            "http://s.n.svc/helmchart/shop/shop-web/a/b.tgz",
            "http://s.n.svc/helmchart/shop/shop-web/a.tgz?x=1",
            "http://s.n.svc/helmchart/shop/shop-web/%2e%2e",
            "http://s.n.svc/helmchart/shop/shop-web/..",
            "http://user@s.n.svc/helmchart/shop/shop-web/a.tgz",
            "http://s.n.svc:x/helmchart/shop/shop-web/a.tgz",
            "ftp://s.n.svc/helmchart/shop/shop-web/a.tgz",
            "s.n.svc/helmchart/shop/shop-web/a.tgz",
        ] {
            assert_eq!(path(url), None, "{url}");
        }
    }
}
