//! Manifests from `-f FILE|DIR|-`: YAML and JSON, several documents to a file, Lists unpacked.
//!
//! What a collector deletes is what these files do *not* hold, so nothing is skipped silently: a document that cannot
//! be read is an error with its file and number, a directory is read to its bottom.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use crate::error::{Error, Result};
use gitops_core::prune::collectors::manifest;
use gitops_core::prune::collectors::manifest::{LocalManifest, Origin};

/// Name under which standard input is spoken of.
const STDIN: &str = "standard input";

/// How a collector's own loader treats what is no manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loader {
    /// Every document must be a manifest.
    Strict,
    /// As fluxd: only `*.yaml` and `*.yml` in directories, charts and documents without a kind left out
    /// (reference qbec-and-flux-v1 B5, last paragraph).
    Fluxd,
}

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifests {
    /// Every manifest, in the order of files and documents.
    pub locals: Vec<LocalManifest>,
    /// What was left out, and why.
    pub warnings: Vec<String>,
}

/// Reads files, directories and, for `-`, standard input.
///
/// # Errors
/// When something cannot be read, is not YAML or JSON, or is no manifest.
pub fn read(paths: &[String], loader: Loader, stdin: &mut dyn Read) -> Result<Manifests> {
    let mut manifests = Manifests::default();
    if paths.iter().filter(|path| *path == "-").count() > 1 {
        return Err(Error::usage("-f - is given twice").hint("standard input can be read once"));
    }
    for path in paths {
        if path == "-" {
            let mut text = String::new();
            stdin.read_to_string(&mut text).map_err(|error| cannot_read(STDIN, &error))?;
            manifests.add(STDIN, &text, loader)?;
            continue;
        }
        let mut files = vec![];
        manifests.find(Path::new(path), loader, &mut files)?;
        for file in files {
            let name = file.display().to_string();
            let text = fs::read_to_string(&file).map_err(|error| cannot_read(&name, &error))?;
            manifests.add(&name, &text, loader)?;
        }
    }
    Ok(manifests)
}

impl Manifests {
    /// The files of one `-f`, in order of their names.
    fn find(&mut self, path: &Path, loader: Loader, files: &mut Vec<PathBuf>) -> Result<()> {
        let name = path.display().to_string();
        let metadata = fs::metadata(path).map_err(|error| cannot_read(&name, &error))?;
        if !metadata.is_dir() {
            files.push(path.to_owned());
            return Ok(());
        }
        let entries = fs::read_dir(path).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
        let mut entries = entries.map_err(|error| cannot_read(&name, &error))?;
        entries.sort_by_key(fs::DirEntry::file_name);
        let holds = |wanted: &str| entries.iter().any(|entry| entry.file_name() == wanted);
        if loader == Loader::Fluxd && holds("Chart.yaml") && holds("values.yaml") {
            self.warnings.push(format!("{name} is a Helm chart: left out, as fluxd does"));
            return Ok(());
        }
        for entry in entries {
            let path = entry.path();
            let name = path.display().to_string();
            let linked = entry.file_type().map_err(|error| cannot_read(&name, &error))?.is_symlink();
            if path.is_dir() && linked {
                self.warnings.push(format!("{name} is a link to a directory: not followed"));
            } else if path.is_dir() && entry.file_name() != ".git" {
                self.find(&path, loader, files)?;
            } else if is_manifest(&path, loader) {
                files.push(path);
            }
        }
        Ok(())
    }

    fn add(&mut self, file: &str, text: &str, loader: Loader) -> Result<()> {
        for (index, document) in documents(file, text)?.into_iter().enumerate() {
            let origin = Origin { file: file.to_owned(), document: index + 1 };
            let kindless = document.get("kind").and_then(Value::as_str).is_none_or(str::is_empty);
            if document.is_null() {
                continue;
            }
            if loader == Loader::Fluxd && kindless {
                self.warnings.push(format!("{origin} has no kind: left out, as fluxd does"));
                continue;
            }
            let read = manifest::read(&document, &origin).map_err(|problem| {
                let hint = "whatever is not read here counts as garbage, so every document must be a manifest";
                Error::failed(format!("{origin}: {problem}")).hint(hint)
            })?;
            self.locals.extend(read);
        }
        Ok(())
    }
}

fn is_manifest(path: &Path, loader: Loader) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    matches!(extension, "yaml" | "yml") || (loader == Loader::Strict && extension == "json")
}

/// The documents of a file: a stream of JSON values when it is one, else YAML.
fn documents(file: &str, text: &str) -> Result<Vec<Value>> {
    let text = text.trim_start_matches('\u{feff}');
    if text.trim_start().starts_with(['{', '[']) {
        let stream: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
        if let Ok(stream) = stream {
            let flat = stream.into_iter().flat_map(|value| match value {
                Value::Array(items) => items,
                single => vec![single],
            });
            return Ok(flat.collect());
        }
    }
    let parse = |(index, document)| {
        let broken =
            |error: &dyn std::fmt::Display| Error::failed(format!("{file}, document {}: not YAML: {error}", index + 1));
        let mut value = serde_yaml::Value::deserialize(document).map_err(|error| broken(&error))?;
        value.apply_merge().map_err(|error| broken(&error))?;
        serde_json::to_value(value).map_err(|error| broken(&error))
    };
    serde_yaml::Deserializer::from_str(text).enumerate().map(parse).collect()
}

fn cannot_read(name: &str, error: &std::io::Error) -> Error {
    Error::failed(format!("cannot read {name}: {error}"))
}
