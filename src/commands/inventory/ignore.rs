//! `inventory --ignore FILE`: findings that a team accepts, with the reason of each.

use std::path::Path;

use crate::error::{Error, Result};
use crate::output::terminal::Terminal;
use crate::tools::{files, limits};
use gitops_core::ownership::report::ignored::{IgnoreList, Ignored};
use gitops_core::text::pluralize;

/// Entry that a hint shows.
const EXAMPLE: &str = "ignore: [{kind: ConfigMap, namespace: shop, name: legacy-*, reason: made by the installer}]";

/// Reads the list of accepted findings.
///
/// # Errors
/// If the file cannot be read, is too large, or is no such list.
pub(super) fn read(path: &Path) -> Result<IgnoreList> {
    let text = files::read_named_text(path, limits::MAX_FILE).map_err(|error| unreadable(path, &error.to_string()))?;
    IgnoreList::parse(&text).map_err(|why| unreadable(path, &why).hint(format!("an example: {EXAMPLE}")))
}

fn unreadable(path: &Path, why: &str) -> Error {
    Error::usage(format!("cannot read --ignore {}: {why}", path.display()))
}

/// Prints how many findings were left out, and names the entries that match none, unless the arguments select a part of
/// the findings.
pub(super) fn report(path: &Path, ignored: &Ignored, is_limited: bool, terminal: &mut Terminal) {
    let file = path.display();
    terminal.status(&format!("{file} ignores {}", pluralize(ignored.findings, "finding")));
    for used in ignored.entries.iter().filter(|used| used.matched == 0 && !is_limited) {
        let entry = used.entry.describe();
        terminal.warning(&format!("{file}: no finding matches the entry with {entry}: remove it"));
    }
}
