//! Charts in repositories of charts, which `helm pull` fetches.

use std::fmt;

use serde_json::Value;

use crate::kubernetes::object::{flag_at, text_at};
use crate::kubernetes::redact::redact_urls;

/// A version of a chart in a repository.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RemoteChart {
    /// URL of a repository over HTTP, or of a chart in a registry (`oci://…`).
    pub url: String,
    /// Name of the chart; empty for a chart in a registry.
    pub name: String,
    /// Version, or a range of versions.
    pub range: String,
    /// The registry is reached without TLS.
    pub is_plain_http: bool,
}

impl RemoteChart {
    /// Returns a chart of a HelmRepository with this spec.
    pub(crate) fn of_repository(spec: &Value, name: &str, range: &str) -> Self {
        let url = text_at(spec, "/url").trim_end_matches('/');
        let is_registry = text_at(spec, "/type") == "oci" || url.starts_with("oci://");
        Self {
            url: if is_registry { format!("{url}/{name}") } else { url.to_owned() },
            name: if is_registry { String::new() } else { name.to_owned() },
            range: range.to_owned(),
            is_plain_http: flag_at(spec, "/insecure"),
        }
    }

    /// Returns the digest of the manifest by which a registry is asked, in hexadecimal; `None` if it is asked for a version. A
    /// repository over HTTP answers what it likes, whatever its address ends with.
    pub fn digest(&self) -> Option<&str> {
        let digest = self.url.strip_prefix("oci://").filter(|_| self.name.is_empty())?.rsplit_once("@sha256:")?.1;
        (digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(digest)
    }

    /// Returns the chart of an OCIRepository with this spec. A digest comes before a range and a tag.
    pub(crate) fn of_registry(spec: &Value, range: &str) -> Self {
        let (url, digest) = (text_at(spec, "/url"), text_at(spec, "/ref/digest"));
        Self {
            url: if digest.is_empty() { url.to_owned() } else { format!("{url}@{digest}") },
            name: String::new(),
            range: if digest.is_empty() { range.to_owned() } else { String::new() },
            is_plain_http: flag_at(spec, "/insecure"),
        }
    }
}

impl fmt::Display for RemoteChart {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = redact_urls(&self.url);
        match &*self.name {
            "" => write!(formatter, "{url} {}", self.range),
            name => write!(formatter, "{name} {} of {url}", self.range),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn repositories_and_registries_are_addressed_differently() {
        let http = RemoteChart::of_repository(&json!({"url": "https://u:p@example.com/charts/"}), "app", "1.x");
        assert_eq!((http.url.as_str(), http.name.as_str()), ("https://u:p@example.com/charts", "app"));
        assert!(!http.to_string().contains("u:p"), "{http}");
        let registry = json!({"url": "oci://example.com/charts", "type": "oci", "insecure": true});
        let registry = RemoteChart::of_repository(&registry, "app", "1.0.0");
        assert_eq!((registry.url.as_str(), registry.is_plain_http), ("oci://example.com/charts/app", true));
        let digest = json!({"url": "oci://example.com/app", "ref": {"digest": "sha256:aa", "tag": "1"}});
        let digest = RemoteChart::of_registry(&digest, "1");
        assert_eq!((digest.url.as_str(), digest.range.as_str()), ("oci://example.com/app@sha256:aa", ""));
        assert_eq!(digest.digest(), None, "too short");
        let url = format!("oci://example.com/app@sha256:{}", "a".repeat(64));
        assert_eq!(RemoteChart { url, ..digest }.digest(), Some(&*"a".repeat(64)));
        let foreign = json!({"url": format!("https://example.com/@sha256:{}", "a".repeat(64))});
        assert_eq!(
            RemoteChart::of_repository(&foreign, "app", "1").digest(),
            None,
            "the chart of another one would be kept for it"
        );
    }
}
