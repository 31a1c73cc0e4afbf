//! Resources of ResourceSets, as flux-operator generates them.
//!
//! Source: flux-operator v0.58.1 `cmd/cli/build_resourceset.go`, `internal/inputs`.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::objects::{BuiltObject, objects, yaml};
use crate::kubernetes::object::ObjectId;
use crate::ownership::schemes::flux_operator::GROUP;
use crate::private::Private;
use crate::text::hex;

/// One run of `flux-operator build resourceset`.
#[derive(Clone, Debug)]
pub struct SetRun {
    /// Hash of the manifest; runs with equal keys have equal output.
    pub key: String,
    /// Manifest of the ResourceSet with all its inputs, as JSON.
    pub manifest: Private<String>,
    /// The manifest holds values of Secrets, so that no message may show a part of it.
    pub is_private: bool,
}

impl SetRun {
    /// Creates a run for a ResourceSet with this spec.
    pub(crate) fn new(id: &ObjectId, spec: &Value, is_private: bool) -> Self {
        let set = json!({
            "apiVersion": format!("{GROUP}/v1"),
            "kind": id.kind,
            "metadata": {"name": id.name, "namespace": id.namespace},
            "spec": spec,
        });
        let manifest = set.to_string();
        Self { key: hex(&Sha256::digest(&manifest)), manifest: Private::new(manifest), is_private }
    }
}

/// Reads the output of a run.
///
/// Fails with the parser's message if a document is no YAML.
pub(crate) fn generated_objects(text: &str) -> Result<Vec<BuiltObject>, String> {
    let documents = yaml::documents(text)?;
    Ok(documents.into_iter().flat_map(|document| objects(document.value, None)).collect())
}
