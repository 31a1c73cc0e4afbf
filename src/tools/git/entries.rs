//! Listings of the index and of tree objects.

/// Modes of entries that are not regular files.
pub const SUBMODULE: &str = "160000";
pub const SYMLINK: &str = "120000";

/// A file in the index or in a tree object.
pub struct GitEntry {
    pub mode: String,
    pub object: String,
    /// Path below the top, escaped if it is not UTF-8.
    pub path: Name,
    /// Stage of a merge conflict; `0` outside of one.
    pub stage: String,
    /// True if git does not look at the file in the directory (`assume-unchanged`, `skip-worktree`).
    pub pinned: bool,
}

/// A path as git prints it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    pub text: String,
    /// False if the path is not UTF-8. `text` then has `\xff` for a byte that is none, so that two paths stay different.
    pub is_utf8: bool,
}

impl Name {
    pub fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self { text: text.to_owned(), is_utf8: true },
            Err(_) => Self { text: bytes.escape_ascii().to_string(), is_utf8: false },
        }
    }
}

/// Returns the parts of a listing with `-z`.
pub fn records(listing: &[u8]) -> impl Iterator<Item = &[u8]> {
    listing.split(|byte| *byte == 0).filter(|record| !record.is_empty())
}

/// Parses `<tag> <mode> <object> <stage>\t<path>` of `git ls-files --stage -v`.
pub fn index_entry(record: &[u8]) -> Option<GitEntry> {
    let (fields, path) = split(record)?;
    let [tag, mode, object, stage] = fields[..] else { return None };
    let pinned = tag == "S" || tag.starts_with(|c: char| c.is_ascii_lowercase());
    Some(GitEntry { mode: mode.to_owned(), object: object.to_owned(), path, stage: stage.to_owned(), pinned })
}

/// Parses `<mode> <type> <object>\t<path>` of `git ls-tree`.
pub fn tree_entry(record: &[u8]) -> Option<GitEntry> {
    let (fields, path) = split(record)?;
    let [mode, _, object] = fields[..] else { return None };
    Some(GitEntry { mode: mode.to_owned(), object: object.to_owned(), path, stage: "0".to_owned(), pinned: false })
}

fn split(record: &[u8]) -> Option<(Vec<&str>, Name)> {
    let tab = record.iter().position(|byte| *byte == b'\t')?;
    let fields = std::str::from_utf8(&record[..tab]).ok()?;
    Some((fields.split(' ').collect(), Name::of(&record[tab + 1..])))
}
