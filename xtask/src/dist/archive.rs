//! Archives that depend on their content alone: sorted entries, one time, no user, and no name of the compressor's host.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};
use zip::write::SimpleFileOptions;
use zip::{DateTime, ZipWriter};

/// Time of all entries: 1980-01-01, the first one that every format of archives can express.
const TIME: u64 = 315_532_800;

/// A file of an archive.
#[derive(Clone, Debug)]
pub struct Entry {
    pub content: Vec<u8>,
    pub is_executable: bool,
}

/// Files of an archive by path. Folders are implied.
pub type Entries = BTreeMap<String, Entry>;

/// Returns a file that cannot be executed.
pub fn plain(content: impl Into<Vec<u8>>) -> Entry {
    Entry { content: content.into(), is_executable: false }
}

/// Returns a file that can be executed.
pub fn executable(content: impl Into<Vec<u8>>) -> Entry {
    Entry { content: content.into(), is_executable: true }
}

/// Adds the files directly in a folder, below `prefix` in the archive.
pub fn add_folder(entries: &mut Entries, folder: &Path, prefix: &str) -> Result<()> {
    for file in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = file?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let content = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        entries.insert(format!("{prefix}{name}"), plain(content));
    }
    Ok(())
}

/// Writes a zip archive to a path that ends with `.zip`, and else a tar archive that is compressed with gzip.
pub fn write(path: &Path, entries: &Entries, compression: Compression) -> Result<()> {
    let failed = || format!("cannot write {}", path.display());
    let file = fs::File::create(path).with_context(failed)?;
    if path.extension().is_some_and(|extension| extension == "zip") {
        return write_zip(file, entries, compression).with_context(failed);
    }
    let packed = GzBuilder::new().mtime(0).write(file, compression);
    let mut archive = Builder::new(packed);
    let mut folders = Vec::new();
    for (name, entry) in entries {
        if let Some((folder, _)) = name.rsplit_once('/').filter(|(folder, _)| !folders.contains(folder)) {
            folders.push(folder);
            archive.append_data(&mut header(EntryType::Directory, 0, true), format!("{folder}/"), &[][..])?;
        }
        let mut header = header(EntryType::Regular, entry.content.len() as u64, entry.is_executable);
        archive.append_data(&mut header, name, entry.content.as_slice()).with_context(failed)?;
    }
    let mut file = archive.into_inner().and_then(|packed| packed.finish()).with_context(failed)?;
    file.flush().with_context(failed)
}

/// Writes a zip archive, whose entries have the first time that zip can express, as `TIME`.
fn write_zip(file: fs::File, entries: &Entries, compression: Compression) -> Result<()> {
    let mut archive = ZipWriter::new(file);
    let options = SimpleFileOptions::default()
        .last_modified_time(DateTime::default())
        .compression_level(Some(compression.level().into()));
    for (name, entry) in entries {
        let mode = if entry.is_executable { 0o755 } else { 0o644 };
        archive.start_file(name, options.unix_permissions(mode))?;
        archive.write_all(&entry.content)?;
    }
    archive.finish()?.flush()?;
    Ok(())
}

fn header(kind: EntryType, size: u64, is_executable: bool) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(if is_executable { 0o755 } else { 0o644 });
    header.set_mtime(TIME);
    header
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use zip::ZipArchive;

    use super::*;

    /// The catalog of Flux has zip files for Windows.
    #[test]
    fn a_zip_file_depends_on_its_content_alone() {
        let folder = crate::target_dir().join("dist-zip-test");
        fs::create_dir_all(&folder).unwrap();
        let entries = Entries::from([
            ("LICENSE".to_owned(), plain("a licence")),
            ("flux-gitops.exe".to_owned(), executable("a program")),
        ]);
        let [first, second] = ["first.zip", "second.zip"].map(|name| {
            write(&folder.join(name), &entries, Compression::best()).unwrap();
            fs::read(folder.join(name)).unwrap()
        });
        assert_eq!(first, second);
        let mut archive = ZipArchive::new(std::io::Cursor::new(first)).unwrap();
        let names: Vec<_> = archive.file_names().map(|name| name.unwrap().into_owned()).collect();
        assert_eq!(names, ["LICENSE", "flux-gitops.exe"]);
        let mut program = archive.by_name("flux-gitops.exe").unwrap();
        assert_eq!(program.unix_mode().map(|mode| mode & 0o777), Some(0o755));
        let mut content = String::new();
        program.read_to_string(&mut content).unwrap();
        assert_eq!(content, "a program");
    }
}
