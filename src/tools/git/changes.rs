//! Content of changed files as `git add` would store it, computed without running a filter.
//!
//! A filter is a program that `.gitattributes` and the configuration name together. Even a filter of the user's own
//! configuration reads that of the checkout (git-lfs does), so none is run: pointers of Git LFS are computed, and files
//! with any other configured filter have unknown content. Git itself converts line ends and encodings.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::Checkout;
use super::blobs::{check_total, file_of};
use crate::error::{Error, Result};
use crate::tools::{files, limits};
use gitops_core::flux::source::tree::File;

/// Attributes that make git store other content than a file has.
const ATTRIBUTES: [&str; 6] = ["filter", "text", "crlf", "eol", "ident", "working-tree-encoding"];

/// First line of a Git LFS pointer (git-lfs/docs/spec.md).
const LFS_VERSION: &str = "version https://git-lfs.github.com/spec/v1";

/// Maximum size of a Git LFS pointer: git-lfs reads no more of a file to see if it is one.
const MAX_POINTER: usize = 1024;

/// Treatment of a file's content by git.
enum Conversion {
    None,
    /// Line ends, encoding or `$Id$`.
    BuiltIn,
    LfsPointer,
    Filter(String),
}

/// Returns the regular files at these paths as git would store them.
pub(super) fn changed_files(checkout: &Checkout, paths: Vec<String>) -> Result<BTreeMap<String, File>> {
    let mut conversion_of = conversions(checkout, &paths)?;
    let (mut found, mut converted, mut total) = (BTreeMap::new(), Vec::new(), 0);
    for path in paths {
        let conversion = conversion_of.remove(&path).unwrap_or(Conversion::None);
        let file = match (read(checkout, &path), conversion) {
            (Err(why), _) => File::Unread(why),
            (_, Conversion::Filter(name)) => {
                File::Unread(format!("git stores the output of the filter {name:?}, and filters are not run"))
            }
            (Ok(content), Conversion::None) => File::Regular(content.into()),
            (Ok(content), Conversion::LfsPointer) => File::Regular(lfs_pointer(content).into()),
            (Ok(_), Conversion::BuiltIn) => {
                converted.push(path);
                continue;
            }
        };
        if let File::Regular(content) = &file {
            total += content.len() as u64;
            check_total(total, &checkout.directory)?;
        }
        found.insert(path, file);
    }
    let contents = convert(checkout, &converted)?;
    found.extend(converted.into_iter().zip(contents));
    Ok(found)
}

fn read(checkout: &Checkout, path: &str) -> Result<Vec<u8>, String> {
    let at = checkout.directory.join(path);
    files::read_regular(&at, limits::MAX_FILE).map_err(|error| error.to_string())
}

/// Returns the contents after git's own conversion. Git writes objects to a temporary directory, not to the
/// repository of the checkout.
fn convert(checkout: &Checkout, paths: &[String]) -> Result<Vec<File>> {
    if paths.is_empty() {
        return Ok(vec![]);
    }
    let temporary = crate::tools::temporary_directory()?;
    let variables = [("GIT_OBJECT_DIRECTORY", temporary.path())];
    let input: String = paths.iter().map(|path| format!("{}\n", quote(path))).collect();
    let output = checkout.run(&variables, &["hash-object", "-w", "--stdin-paths"], Some(input.into_bytes()))?;
    let text = String::from_utf8_lossy(&output);
    let hashes: Vec<&str> = text.lines().collect();
    if hashes.len() != paths.len() {
        return Err(Error::failed(format!("git hash-object in {} left out files", checkout.directory.display())));
    }
    let blobs = checkout.blobs(hashes.iter().copied().collect(), &variables)?;
    Ok(hashes.iter().map(|hash| file_of(blobs.get(*hash))).collect())
}

/// Returns how git converts these files; files without conversion may be missing.
fn conversions(checkout: &Checkout, paths: &[String]) -> Result<BTreeMap<String, Conversion>> {
    if paths.is_empty() {
        return Ok(BTreeMap::new());
    }
    // The conversion of line ends may be on for all files.
    let all = checkout.text(&["config", "--get", "core.autocrlf"]).is_ok_and(|value| value != "false");
    let input: Vec<u8> = paths.iter().flat_map(|path| [path.as_bytes(), b"\0"]).flatten().copied().collect();
    let arguments = [&["check-attr", "--stdin", "-z"][..], &ATTRIBUTES].concat();
    let listing = checkout.run(&[], &arguments, Some(input))?;
    let mut found: BTreeMap<String, Conversion> = BTreeMap::new();
    if all {
        found.extend(paths.iter().map(|path| (path.clone(), Conversion::BuiltIn)));
    }
    // A value may be empty, so that empty fields count.
    let fields: Vec<&[u8]> = listing.split(|byte| *byte == 0).collect();
    for field in fields.chunks_exact(3) {
        let [path, attribute, value] = [field[0], field[1], field[2]].map(String::from_utf8_lossy);
        let conversion = match (&*attribute, &*value) {
            (_, "unspecified") | ("filter" | "ident" | "working-tree-encoding", "unset") => continue,
            ("filter", name) if !checkout.filters.contains(name) => continue,
            ("filter", "lfs") => Conversion::LfsPointer,
            ("filter", name) => Conversion::Filter(name.to_owned()),
            _ => Conversion::BuiltIn,
        };
        // Git filters before it converts, and what it stores of a filtered file is the filter's output.
        let is_filtered = matches!(found.get(&*path), Some(Conversion::LfsPointer | Conversion::Filter(_)));
        if !is_filtered {
            found.insert(path.into_owned(), conversion);
        }
    }
    Ok(found)
}

/// Returns a path as a line of `git hash-object --stdin-paths`. A path has no control character.
fn quote(path: &str) -> String {
    if path.starts_with('"') {
        format!("\"{}\"", path.replace('\\', "\\\\").replace('"', "\\\""))
    } else {
        path.to_owned()
    }
}

/// Returns what `git lfs clean` stores for a file: a pointer, or the file itself if it is one already or is empty.
fn lfs_pointer(content: Vec<u8>) -> Vec<u8> {
    if content.is_empty() || (content.len() < MAX_POINTER && content.starts_with(LFS_VERSION.as_bytes())) {
        return content;
    }
    let digest = Sha256::digest(&content);
    let hex = gitops_core::text::hex(&digest);
    format!("{LFS_VERSION}\noid sha256:{hex}\nsize {}\n", content.len()).into_bytes()
}
