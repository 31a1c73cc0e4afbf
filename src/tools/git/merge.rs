//! The result of merging two commits, computed without touching the checkout, its index or its objects.
//!
//! A merge driver is a program that `.gitattributes` and the configuration name together. None is run: a file that both
//! commits changed, and that has one, conflicts.

use std::path::{Path, PathBuf};

use gitops_core::flux::source::tree::Tree;
use gitops_core::plan::subject::short;
use gitops_core::text::join_limited;

use super::Checkout;
use super::entries::{Name, records};
use super::location::can_be_overridden;
use super::program::Git;
use crate::error::{Error, Result};
use crate::tools::limits;

/// First version of git with `merge-tree --write-tree`.
const MERGE_TREE: (u32, u32) = (2, 38);

/// Number of files that a message names.
const NAMED_FILES: usize = 5;

/// Returns the files of merging the commit `theirs` into the commit `ours`.
///
/// Fails when they conflict, or git is too old.
pub(super) fn merged(checkout: &Checkout, ours: &str, theirs: &str) -> Result<Tree> {
    check_version(checkout)?;
    let temporary = crate::tools::temporary_directory()?;
    let objects = checkout.directory.join(checkout.text(&["rev-parse", "--git-path", "objects"])?);
    let objects = list_entry(&objects);
    let variables =
        [("GIT_OBJECT_DIRECTORY", temporary.path()), ("GIT_ALTERNATE_OBJECT_DIRECTORIES", objects.as_path())];
    let options = [&checkout.options[..], &merge_options(checkout)?].concat();
    let git = Git { directory: &checkout.directory, options: &options, variables: &variables, time: limits::GIT_TIME };
    let arguments = ["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, theirs];
    let (output, is_clean) = git.answer(&arguments)?;
    let mut fields = records(&output);
    let tree = String::from_utf8_lossy(fields.next().unwrap_or_default()).into_owned();
    if !is_clean {
        let files = fields.map(|path| Name::of(path).text);
        let files = join_limited(files, NAMED_FILES);
        return Err(Error::failed(format!("{} conflicts with {} in {files}", short(theirs), short(ours)))
            .hint("merge the deployed branch and resolve the conflicts; without --merge the tree is planned alone"));
    }
    checkout.tree_object(&tree, &variables)
}

/// Returns options that let no merge driver run and that fix what a configuration can change.
fn merge_options(checkout: &Checkout) -> Result<Vec<String>> {
    let mut options = vec!["-c".to_owned(), "merge.default=text".to_owned()];
    options.extend(["-c".to_owned(), "merge.renormalize=false".to_owned()]);
    for (key, _) in checkout.configuration(r"^merge\..*\.driver$")? {
        if !can_be_overridden(&key) {
            return Err(Error::failed(format!("{key:?} of git's configuration cannot be turned off"))
                .hint("rename the merge driver"));
        }
        options.extend(["-c".to_owned(), format!("{key}=exit 1")]);
    }
    Ok(options)
}

fn check_version(checkout: &Checkout) -> Result<()> {
    let text = checkout.text(&["version"])?;
    let mut numbers = text.trim_start_matches("git version ").split('.').map(|part| part.parse::<u32>().ok());
    let version = numbers.next().flatten().zip(numbers.next().flatten());
    if version.is_none_or(|version| version >= MERGE_TREE) {
        return Ok(());
    }
    Err(Error::failed(format!("--merge needs git 2.38 or newer, and this is {text}"))
        .hint("update git, or merge by hand and plan the result"))
}

/// Returns a directory as an entry of a list of directories in a variable of git.
fn list_entry(path: &Path) -> PathBuf {
    match path.to_str() {
        Some(text) if text.contains(':') || text.starts_with('"') => {
            format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")).into()
        }
        _ => path.to_owned(),
    }
}
