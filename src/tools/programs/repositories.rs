//! Entries of helm's `repositories.yaml`: repositories over HTTP with passwords and certificates.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::tools::files;
use gitops_core::kubernetes::object::text_at;

/// Name of the repository in the file of a run.
pub(super) const NAME: &str = "repository";
/// Largest file that is read, in bytes.
const SIZE: u64 = 1 << 20;
/// Fields of an entry that name files.
const FILES: [&str; 3] = ["caFile", "certFile", "keyFile"];

/// A repository that the user has added to helm.
pub(super) struct UserRepository(Value);

impl UserRepository {
    /// Returns the entry of a file for the repository at a URL; `None` if it has none, or cannot be read.
    pub(super) fn find(file: &Path, url: &str) -> Option<Self> {
        let text = String::from_utf8(files::read_regular(file, SIZE).ok()?).ok()?;
        let mut document: Value =
            gitops_core::yaml::check_depth(&text).ok().and_then(|()| serde_yaml::from_str(&text).ok())?;
        let entries = document.get_mut("repositories")?.as_array_mut()?;
        let named = url.trim_end_matches('/');
        let mut entry = entries.iter().find(|entry| text_at(entry, "/url").trim_end_matches('/') == named)?.clone();
        entry["name"] = json!(NAME);
        Some(Self(entry))
    }

    /// Returns the files with its certificates and keys.
    pub(super) fn files(&self) -> impl Iterator<Item = PathBuf> {
        let named = FILES.iter().filter_map(|field| self.0.get(field)?.as_str());
        named.map(PathBuf::from).filter(|file| file.is_absolute())
    }

    /// Returns the text of a file that has this repository alone.
    pub(super) fn document(&self) -> String {
        json!({"apiVersion": "", "repositories": [self.0]}).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_entry_of_the_address_is_used() {
        let directory = crate::tools::temporary_directory().unwrap();
        let file = directory.path().join("repositories.yaml");
        let text = "repositories:\n- {name: a, url: https://a.example.com, password: one}\n- {name: b, url: 'https://b.example.com/', \
                    password: two, caFile: /etc/ca.pem, keyFile: key.pem}\n";
        std::fs::write(&file, text).unwrap();
        let found = UserRepository::find(&file, "https://b.example.com").unwrap();
        assert_eq!(found.files().collect::<Vec<_>>(), [PathBuf::from("/etc/ca.pem")]);
        let document = found.document();
        assert!(document.contains("\"two\"") && document.contains("\"name\":\"repository\""), "{document}");
        assert!(!document.contains("one"), "{document}");
        assert!(UserRepository::find(&file, "https://b.example.com/other").is_none());
        assert!(UserRepository::find(&directory.path().join("none"), "https://a.example.com").is_none());
        std::fs::write(&file, "repositories: 1\n").unwrap();
        assert!(UserRepository::find(&file, "https://a.example.com").is_none());
    }
}
