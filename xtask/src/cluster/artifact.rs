//! Packs a folder as source-controller does: equal content gives equal bytes.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

use super::helmignore::HelmIgnore;

/// Returns a tar.gz of a folder, or the content of a file.
///
/// Symlinks and `.git` are left out, as in source-controller. `.sourceignore` has no effect; tests of it
/// use the real source-controller. Git has no empty directories, so the artifact of a repository has none either.
pub(crate) fn pack(path: &Path, is_git: bool) -> Result<Vec<u8>> {
    if path.is_file() {
        return fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    }
    let mut entries = Vec::new();
    list(path, is_git, &mut entries)?;
    archive(path, Path::new(""), entries, None)
}

/// Returns a tar.gz of a folder with a chart, with this text in its Chart.yaml. What its `.helmignore` names is left
/// out.
pub(crate) fn pack_chart(path: &Path, about: &str) -> Result<Vec<u8>> {
    let mut entries = Vec::new();
    list(path, false, &mut entries)?;
    let text = fs::read_to_string(path.join(".helmignore")).unwrap_or_default();
    let rules = HelmIgnore::parse(&text);
    entries.retain(|entry| entry.strip_prefix(path).is_ok_and(|name| !rules.leaves_out(name, entry.is_dir())));
    archive(path, Path::new("chart"), entries, Some(about))
}

/// Returns a tar.gz with entries of a folder below another path.
fn archive(path: &Path, below: &Path, mut entries: Vec<PathBuf>, about: Option<&str>) -> Result<Vec<u8>> {
    entries.sort();
    let encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::fast());
    let mut archive = Builder::new(encoder);
    for entry in entries {
        let name = entry.strip_prefix(path)?;
        let text = about.filter(|_| name == Path::new("Chart.yaml"));
        append(&mut archive, &entry, &below.join(name), text)
            .with_context(|| format!("cannot pack {}", entry.display()))?;
    }
    Ok(archive.into_inner()?.finish()?)
}

fn list(folder: &Path, is_git: bool, entries: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if entry.file_name() == ".git" || !(kind.is_dir() || kind.is_file()) {
            continue;
        }
        entries.push(entry.path());
        if kind.is_dir() {
            let before = entries.len();
            list(&entry.path(), is_git, entries)?;
            if is_git && entries.len() == before {
                entries.pop();
            }
        }
    }
    Ok(())
}

/// Appends a file or a folder, or this text in place of the content of a file.
fn append(archive: &mut Builder<impl std::io::Write>, path: &Path, name: &Path, text: Option<&str>) -> Result<()> {
    let mut header = Header::new_gnu();
    header.set_mtime(0);
    if path.is_dir() {
        header.set_entry_type(EntryType::Directory);
        header.set_mode(0o755);
        header.set_size(0);
        return Ok(archive.append_data(&mut header, name, std::io::empty())?);
    }
    let content = text.map_or_else(|| fs::read(path), |text| Ok(text.as_bytes().to_vec()))?;
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o644);
    header.set_size(content.len() as u64);
    Ok(archive.append_data(&mut header, name, content.as_slice())?)
}
