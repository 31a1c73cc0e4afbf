//! Files in the user's cache: outputs of builds and archives of charts, by the hash of what they come from.

use std::io::Write;
use std::path::{Path, PathBuf};

use gitops_core::text::sha256;

/// A directory for files that can be made again; `None` if nothing is kept.
#[derive(Clone, Debug, Default)]
pub struct Cache(Option<PathBuf>);

impl Cache {
    /// Returns `$XDG_CACHE_HOME/kubectl-gitops`, or `~/.cache/kubectl-gitops`. Nothing is kept without a home directory. A
    /// relative `XDG_CACHE_HOME` is ignored: the tree in the current directory could contain outputs.
    pub fn of_user() -> Self {
        let named = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|directory| directory.is_absolute());
        let directory = named.or_else(|| Some(super::home_directory()?.join(".cache")));
        Self(directory.map(|directory| directory.join("kubectl-gitops")))
    }

    /// Returns the content of a file; `None` if it is absent or damaged.
    pub(crate) fn read(&self, folder: &str, key: &str) -> Option<Vec<u8>> {
        let mut entry = std::fs::read(self.file(folder, key)?).ok()?;
        let end = entry.iter().position(|byte| *byte == b'\n')?;
        let content = entry.split_off(end + 1);
        (&entry[..end] == sha256(&content).as_bytes()).then_some(content)
    }

    /// Writes a file, after the digest of its content: a crash of the machine can cut it. A cache that cannot be written only
    /// makes the next run slower.
    pub(crate) fn store(&self, folder: &str, key: &str, content: &[u8]) {
        if let Some(file) = self.file(folder, key) {
            let _ = write_private(&file, &[sha256(content).as_bytes(), b"\n", content].concat());
        }
    }

    fn file(&self, folder: &str, key: &str) -> Option<PathBuf> {
        Some(self.0.as_ref()?.join(folder).join(key))
    }
}

/// Writes a file, and the directory for it, that only this user may read: what is kept may contain secrets.
fn write_private(file: &Path, content: &[u8]) -> std::io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("."));
    super::create_private_directory(directory)?;
    let mut temporary = tempfile::NamedTempFile::new_in(directory)?;
    temporary.write_all(content)?;
    temporary.persist(file)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_cut_or_changed_is_not_read() {
        let directory = crate::tools::temporary_directory().unwrap();
        let cache = Cache(Some(directory.path().to_owned()));
        assert_eq!(cache.read("charts", "a"), None);
        cache.store("charts", "a", b"one\ntwo");
        assert_eq!(cache.read("charts", "a").as_deref(), Some(&b"one\ntwo"[..]));
        let file = directory.path().join("charts/a");
        let whole = std::fs::read(&file).unwrap();
        for damaged in [&whole[..whole.len() - 1], b"", b"\n", &whole[1..]] {
            std::fs::write(&file, damaged).unwrap();
            assert_eq!(cache.read("charts", "a"), None);
        }
        Cache::default().store("charts", "b", b"x");
        assert_eq!(Cache::default().read("charts", "b"), None);
    }
}
