//! Snapshot files: JSON, gzip-compressed if the name ends in `.gz`.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

use flate2::write::GzEncoder;
use serde::Deserialize;
use tempfile::NamedTempFile;

use crate::error::{Error, Result};
use gitops_core::kubernetes::snapshot::{SCHEMA, Snapshot};

/// Reads a snapshot file. Fails if it is missing, truncated, not JSON, or has another schema.
pub fn read(path: &Path) -> Result<Snapshot> {
    let shown = path.display();
    let file = File::open(path).map_err(|error| {
        Error::failed(format!("cannot open snapshot {shown}: {error}"))
            .hint("record one with `kubectl gitops snapshot FILE`")
    })?;
    let mut bytes = vec![];
    let read = if is_gzip(path) {
        flate2::read::MultiGzDecoder::new(BufReader::new(file)).read_to_end(&mut bytes)
    } else {
        BufReader::new(file).read_to_end(&mut bytes)
    };
    read.map_err(|error| invalid(path, &format!("it is damaged or truncated ({error})")))?;
    match serde_json::from_slice(&bytes) {
        Ok(Snapshot { schema, .. }) if schema != SCHEMA => Err(other_schema(path, &schema)),
        Ok(snapshot) => Ok(snapshot),
        Err(error) => Err(unreadable(path, &bytes, &error)),
    }
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
    match &*crate::output::sanitize::one_line(found) {
        "" => invalid(path, &format!("it has no schema, but this version reads {SCHEMA:?}")),
        found => invalid(path, &format!("its schema is {found:?}, but this version reads {SCHEMA:?}")),
    }
}

/// Writes a snapshot atomically, with permissions for this user only. Returns the size in bytes.
///
/// Fails when the file cannot be written.
pub fn write(path: &Path, snapshot: &Snapshot) -> Result<u64> {
    super::write_private(path, |file| write_json(file, is_gzip(path), snapshot))
        .map_err(|error| Error::failed(format!("cannot write snapshot {}: {error}", path.display())))
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
