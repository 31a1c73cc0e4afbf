//! Snapshots as files: JSON, gzip-compressed when the name ends in `.gz`.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

use serde::Deserialize;

use crate::error::{Error, Result};
use gitops_core::kubernetes::snapshot::{SCHEMA, Snapshot};

/// Reads a recorded cluster.
///
/// # Errors
/// When the file is missing, truncated, not JSON, or of another schema.
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
    read.map_err(|error| broken(path, &format!("it is damaged or truncated ({error})")))?;
    match serde_json::from_slice(&bytes) {
        Ok(Snapshot { schema, .. }) if schema != SCHEMA => Err(other_schema(path, &schema)),
        Ok(snapshot) => Ok(snapshot),
        Err(error) => Err(unreadable(path, &bytes, &error)),
    }
}

/// Why it could not be read, best reason first. The file is read a second time for it, but only then.
fn unreadable(path: &Path, bytes: &[u8], error: &serde_json::Error) -> Error {
    match serde_json::from_slice::<Schema>(bytes) {
        Ok(found) if found.schema != SCHEMA => other_schema(path, &found.schema),
        Ok(_) => broken(path, &error.to_string()),
        Err(error) => {
            let what = if error.is_eof() { "it is truncated" } else { "it is not JSON of a snapshot" };
            broken(path, &format!("{what} ({error})"))
        }
    }
}

fn other_schema(path: &Path, found: &str) -> Error {
    let found = crate::output::sanitize::one_line(found);
    broken(path, &format!("its schema is {found:?}, this version reads {SCHEMA:?}"))
}

/// Writes a snapshot, first beside the target and then over it, so that a failure leaves no half file.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, snapshot: &Snapshot) -> Result<u64> {
    let failed = |error: std::io::Error| Error::failed(format!("cannot write snapshot {}: {error}", path.display()));
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(name);
    let file = BufWriter::new(File::create(&part).map_err(failed)?);
    let mut writer: Box<dyn Write> = if is_gzip(path) {
        Box::new(flate2::write::GzEncoder::new(file, flate2::Compression::default()))
    } else {
        Box::new(file)
    };
    let written =
        serde_json::to_writer(&mut writer, snapshot).map_err(std::io::Error::from).and_then(|()| writer.flush());
    drop(writer);
    let placed = written.and_then(|()| std::fs::rename(&part, path)).and_then(|()| std::fs::metadata(path));
    placed.map(|metadata| metadata.len()).map_err(|error| {
        let _ = std::fs::remove_file(&part);
        failed(error)
    })
}

fn is_gzip(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "gz")
}

fn broken(path: &Path, why: &str) -> Error {
    Error::failed(format!("snapshot {} cannot be read: {why}", path.display()))
        .hint("record it again with `kubectl gitops snapshot FILE`")
}

#[derive(Deserialize)]
struct Schema {
    #[serde(default)]
    schema: String,
}
