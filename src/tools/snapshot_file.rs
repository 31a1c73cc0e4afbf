//! Snapshot files: JSON, gzip-compressed if the name ends in `.gz`.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::write::GzEncoder;
use serde::Deserialize;
use tempfile::NamedTempFile;

use super::{files, limits};
use crate::error::{Error, Result};
use gitops_core::kubernetes::snapshot::{SCHEMA, Snapshot};

/// Expanded size up to which the expansion does not count, in bytes.
const SMALL: u64 = 16 << 20;

/// Reads a snapshot file. Fails if it is missing, truncated, not JSON, or has another schema.
pub fn read(path: &Path) -> Result<Snapshot> {
    let shown = path.display();
    let stored = files::read_named(path, limits::MAX_SNAPSHOT).map_err(|error| {
        Error::failed(format!("cannot open snapshot {shown}: {error}"))
            .hint("record one with `kubectl gitops snapshot FILE`")
    })?;
    let bytes = if is_gzip(path) { expand(path, &stored)? } else { stored };
    match serde_json::from_slice(&bytes) {
        Ok(Snapshot { schema, .. }) if schema != SCHEMA => Err(other_schema(path, &schema)),
        Ok(snapshot) if names_clusters(&snapshot) => Err(invalid(path, "its objects are of several clusters")),
        Ok(mut snapshot) => {
            // Other programs may have written or edited the file.
            snapshot.sort();
            Ok(snapshot)
        }
        Err(error) => Err(unreadable(path, &bytes, &error)),
    }
}

/// Returns true if an object is said to be in another cluster than the one that was recorded.
fn names_clusters(snapshot: &Snapshot) -> bool {
    let metadata = snapshot.objects.iter().chain(snapshot.resources.iter().map(|full| &full.object));
    metadata.into_iter().any(|object| object.id.cluster.is_some())
}

/// Decompresses a snapshot. Fails if it is damaged, or expands to more than a snapshot would.
fn expand(path: &Path, stored: &[u8]) -> Result<Vec<u8>> {
    let expansion = limits::MAX_EXPANSION.saturating_mul(stored.len() as u64).max(SMALL);
    let limit = expansion.min(limits::MAX_SNAPSHOT);
    files::read_to_limit(flate2::read::MultiGzDecoder::new(stored), limit).map_err(|error| match error.kind() {
        io::ErrorKind::Other if limit < limits::MAX_SNAPSHOT => {
            let times = limits::MAX_EXPANSION;
            invalid(path, &format!("it expands to more than {times} times its size, the limit for snapshots"))
        }
        io::ErrorKind::Other => invalid(path, &format!("after decompression {error}")),
        _ => invalid(path, &format!("it is damaged or truncated ({error})")),
    })
}

/// Returns the best reason that the content is not a snapshot. Looks for the schema first: an old one explains the rest.
fn unreadable(path: &Path, bytes: &[u8], error: &serde_json::Error) -> Error {
    match serde_json::from_slice::<SnapshotHeader>(bytes) {
        Ok(found) if found.schema != SCHEMA => other_schema(path, &found.schema),
        Ok(_) => invalid(path, &error.to_string()),
        Err(error) => {
            let what = if error.is_eof() { "it is truncated" } else { "it is not a JSON document" };
            invalid(path, &format!("{what} ({error})"))
        }
    }
}

fn other_schema(path: &Path, found: &str) -> Error {
    match &*crate::output::text::sanitize::one_line(found) {
        "" => invalid(path, &format!("it has no schema, but this version reads {SCHEMA:?}")),
        found => invalid(path, &format!("its schema is {found:?}, but this version reads {SCHEMA:?}")),
    }
}

/// Writes a snapshot atomically, with permissions for this user only. Returns the size in bytes.
///
/// Fails when the file cannot be written.
pub fn write(path: &Path, snapshot: &Snapshot) -> Result<u64> {
    super::write_private(path, |file| write_json(file, is_gzip(path), snapshot))
        .map_err(|error| super::cannot_write("snapshot", path, &error))
}

fn write_json(file: &mut NamedTempFile, gzip: bool, snapshot: &Snapshot) -> io::Result<()> {
    let mut file = BufWriter::new(file);
    if gzip {
        let mut compressed = GzEncoder::new(file, flate2::Compression::default());
        serde_json::to_writer(&mut compressed, snapshot)?;
        file = compressed.finish()?;
    } else {
        serde_json::to_writer(&mut file, snapshot)?;
    }
    file.flush()
}

fn is_gzip(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "gz")
}

fn invalid(path: &Path, why: &str) -> Error {
    Error::failed(format!("snapshot {} cannot be read: {why}", path.display()))
        .hint("record it again with `kubectl gitops snapshot FILE`")
}

#[derive(Deserialize)]
struct SnapshotHeader {
    #[serde(default)]
    schema: String,
}
