//! Answers of the API server, without requests: metadata from protobuf and JSON, and checks that an answer is what was
//! asked for.

pub(super) mod answer;
pub(super) mod metadata;
pub(super) mod protobuf;
mod wire;

use gitops_core::kubernetes::object::{ObjectMetadata, ResourceType};
use metadata::{Interner, RawMetadata, trim};
use protobuf::PartialList;

/// Reads a list of metadata in protobuf.
pub fn metadata_from_protobuf(body: &[u8], kind: &ResourceType) -> Result<Vec<ObjectMetadata>, String> {
    let mut interner = Interner::default();
    PartialList::read(body)?.items().map(|metadata| Ok(trim(&metadata?, kind, &mut interner))).collect()
}

pub fn metadata_from_json(metadata: &str, kind: &ResourceType) -> Result<ObjectMetadata, String> {
    let metadata: RawMetadata<'_> = serde_json::from_str(metadata).map_err(|error| error.to_string())?;
    Ok(trim(&metadata, kind, &mut Interner::default()))
}
