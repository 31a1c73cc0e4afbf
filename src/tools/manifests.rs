//! Reads manifests from `-f FILE|DIR|-`: YAML and JSON, multiple documents per file, Lists unpacked.
//!
//! A collector deletes objects that are *not* in these files, so nothing is skipped silently: an unreadable document is an
//! error with file and number, and directories are read recursively.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{files, limits};
use crate::error::{Error, Result};
use gitops_core::prune::collectors::collector::manifest::{self, LocalManifest, ManifestOrigin};
use gitops_core::yaml;

/// Name of standard input in messages.
const STDIN: &str = "standard input";

/// Treatment of documents and files that are not manifests, as in the collector's own loader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loader {
    /// Every document must be a manifest.
    Strict,
    /// As fluxd (docs/reference/qbec-and-flux-v1.md 10): reads only `*.yaml` and `*.yml` in directories, and skips charts and
    /// documents without a kind.
    Fluxd,
}

/// Result of reading `-f`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifests {
    /// The manifests, in the order of files and documents.
    pub locals: Vec<LocalManifest>,
    /// Files and documents that were skipped, with the reason.
    pub warnings: Vec<String>,
}

/// Reads files, directories and, for `-`, standard input.
///
/// Fails when something cannot be read, is not YAML or JSON, or is not a manifest.
pub fn read(paths: &[String], loader: Loader, stdin: &mut dyn Read) -> Result<Manifests> {
    let mut manifests = Manifests::default();
    if paths.iter().filter(|path| *path == "-").count() > 1 {
        return Err(Error::usage("-f - is given twice").hint("standard input can be read once"));
    }
    let mut budget = ManifestBudget { bytes: limits::MAX_MANIFESTS, files: limits::MAX_MANIFEST_FILES };
    for path in paths {
        if path == "-" {
            let content =
                files::read_to_limit(&mut *stdin, limits::MAX_MANIFESTS).map_err(|error| cannot_read(STDIN, &error))?;
            manifests.add(STDIN, &budget.text(STDIN, content)?, loader)?;
            continue;
        }
        let path = Path::new(path);
        let name = path.display().to_string();
        if !fs::metadata(path).map_err(|error| cannot_read(&name, &error))?.is_dir() {
            let content = files::read_named(path, limits::MAX_FILE).map_err(|error| cannot_read(&name, &error))?;
            manifests.add(&name, &budget.text(&name, content)?, loader)?;
            continue;
        }
        let root = path.canonicalize().map_err(|error| cannot_read(&name, &error))?;
        let mut found = vec![];
        manifests.find_files(path, loader, 0, &mut found)?;
        for file in found {
            let name = file.display().to_string();
            let content = read_below(&file, &root).map_err(|error| cannot_read(&name, &error))?;
            manifests.add(&name, &budget.text(&name, content)?, loader)?;
        }
    }
    Ok(manifests)
}

/// Reads a file of a directory. A link must not lead out of the directory: whoever fills it does not choose other files of
/// this machine.
fn read_below(file: &Path, root: &Path) -> std::io::Result<Vec<u8>> {
    let target = file.canonicalize()?;
    if !target.starts_with(root) {
        return Err(std::io::Error::other(
            "it is a symbolic link to a file outside of the directory; name that file with -f",
        ));
    }
    files::read_regular(&target, limits::MAX_FILE)
}

fn exceeded(name: &str, limit: &str) -> Error {
    Error::failed(format!("cannot read {name}: the manifests of -f exceed the limit of {limit}"))
}

/// Number of bytes and files that all manifests together may still have.
struct ManifestBudget {
    bytes: u64,
    files: usize,
}

impl ManifestBudget {
    /// Returns the text of a file. Fails if it is not UTF-8, or a limit is exceeded.
    fn text(&mut self, name: &str, content: Vec<u8>) -> Result<String> {
        let files = self.files.checked_sub(1);
        self.files = files.ok_or_else(|| exceeded(name, &format!("{} files", limits::MAX_MANIFEST_FILES)))?;
        let rest = self.bytes.checked_sub(content.len() as u64);
        self.bytes = rest.ok_or_else(|| exceeded(name, &limits::bytes(limits::MAX_MANIFESTS)))?;
        String::from_utf8(content)
            .map_err(|_| Error::failed(format!("cannot read {name}: stream did not contain valid UTF-8")))
    }
}

impl Manifests {
    /// Adds the files of a directory, sorted by name.
    fn find_files(&mut self, path: &Path, loader: Loader, depth: usize, files: &mut Vec<PathBuf>) -> Result<()> {
        let name = path.display().to_string();
        if depth > limits::MAX_DEPTH {
            let limit = limits::MAX_DEPTH;
            return Err(Error::failed(format!("{name} has more than {limit} directories above it, the limit")));
        }
        let mut entries = fs::read_dir(path)
            .and_then(Iterator::collect::<std::io::Result<Vec<_>>>)
            .map_err(|error| cannot_read(&name, &error))?;
        entries.sort_by_key(fs::DirEntry::file_name);
        let is_chart = ["Chart.yaml", "values.yaml"].iter().all(|file| entries.iter().any(|e| e.file_name() == *file));
        if loader == Loader::Fluxd && is_chart {
            self.warnings.push(format!("{name} is a Helm chart: skipped, as fluxd does"));
            return Ok(());
        }
        for entry in entries {
            let path = entry.path();
            let name = path.display().to_string();
            let linked = entry.file_type().map_err(|error| cannot_read(&name, &error))?.is_symlink();
            if path.is_dir() && linked {
                self.warnings.push(format!("{name} is a symbolic link to a directory: not followed"));
            } else if path.is_dir() && entry.file_name() != ".git" {
                self.find_files(&path, loader, depth + 1, files)?;
            } else if is_manifest(&path, loader) {
                files.push(path);
            }
        }
        Ok(())
    }

    fn add(&mut self, file: &str, text: &str, loader: Loader) -> Result<()> {
        for (index, document) in documents(file, text.trim_start_matches('\u{feff}'))?.into_iter().enumerate() {
            let origin = ManifestOrigin { file: file.to_owned(), document: index + 1 };
            let kindless = document.get("kind").and_then(Value::as_str).is_none_or(str::is_empty);
            if document.is_null() {
                continue;
            }
            if loader == Loader::Fluxd && kindless {
                self.warnings.push(format!("{origin} has no kind: skipped, as fluxd does"));
                continue;
            }
            let read = manifest::read_manifests(&document, &origin).map_err(|problem| {
                let hint = "objects that are not in the files are deleted, so every document must be a manifest";
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

/// Returns the documents of a file: a stream of JSON values, or YAML.
fn documents(file: &str, text: &str) -> Result<Vec<Value>> {
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
    let documents = yaml::results(text).map_err(|exceeded| Error::failed(format!("{file}: {exceeded}")))?;
    let values = documents.zip(1..).map(|(document, number)| {
        document
            .and_then(merged)
            .map_err(|error| Error::failed(format!("{file}, document {number}: not YAML: {error}")))
    });
    values.collect()
}

/// Returns a document whose merge keys (`<<`) are replaced by what they name.
fn merged(mut document: serde_yaml::Value) -> Result<Value, serde_yaml::Error> {
    document.apply_merge()?;
    serde_yaml::from_value(document)
}

fn cannot_read(name: &str, error: &std::io::Error) -> Error {
    Error::failed(format!("cannot read {name}: {error}"))
}
