//! Finds the checkout that contains a directory, and checks that it is one: that its repository is its own, and belongs to
//! this user.

use std::collections::BTreeSet;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};

use super::Checkout;
use super::program::Git;
use crate::error::{Error, Result};
use crate::tools::limits;

/// Hint for a directory that cannot be read.
const UNREADABLE: &str = "name a directory that exists and that this user may read";

impl Checkout {
    /// Finds the checkout that contains a directory.
    ///
    /// Fails when no checkout contains it, `git` cannot be run, or git refuses the repository.
    pub fn find(directory: &Path) -> Result<Self> {
        let hint = "name a checkout, or change to one; --source KIND/NAMESPACE/NAME=DIR takes any directory";
        Self::find_or_hint(directory, hint)
    }

    /// Finds the checkout that contains a directory and whose commits are needed: no other directory does.
    ///
    /// Fails as [`Self::find`].
    pub fn with_commits(directory: &Path) -> Result<Self> {
        Self::find_or_hint(directory, "name a checkout, or change to one: its commits are needed")
    }

    fn find_or_hint(directory: &Path, hint: &str) -> Result<Self> {
        Self::containing(directory)?.ok_or_else(|| {
            if is_bare(directory) {
                let bare = directory.display();
                return Error::failed(format!("{bare} is a bare clone, which has no files to plan"))
                    .hint(format!("`git -C {bare} worktree add DIR BRANCH` makes a checkout of it"));
            }
            Error::failed(format!("{} is not in a git checkout", directory.display())).hint(hint)
        })
    }

    /// Returns the checkout that contains a directory, or `None` if there is none.
    ///
    /// Fails when the directory does not exist, `git` cannot be run, or git refuses the repository.
    pub fn containing(directory: &Path) -> Result<Option<Self>> {
        let path = directory
            .canonicalize()
            .map_err(|error| Error::failed(format!("cannot read {}: {error}", directory.display())).hint(UNREADABLE))?;
        // Git runs only in a directory with `.git`: below it could find a bare repository that is part of the tree.
        for top in path.ancestors().filter(|above| above.join(".git").symlink_metadata().is_ok()) {
            if let Some(checkout) = Self::at(top)? {
                return Ok(Some(checkout));
            }
        }
        Ok(None)
    }

    /// Returns the checkout with this top directory, or `None` if its `.git` is not a repository.
    fn at(top: &Path) -> Result<Option<Self>> {
        let git = Git { directory: top, options: &[], variables: &[], time: limits::GIT_TIME };
        let located = match git.output(&["rev-parse", "--show-toplevel", "--absolute-git-dir"], None) {
            Ok(located) => String::from_utf8_lossy(&located).into_owned(),
            Err(error) if error.message.contains("not a git repository") => return Ok(None),
            Err(error) => return Err(refused(top, error)),
        };
        let mut lines = located.lines().map(|line| Path::new(line).canonicalize());
        let (Some(Ok(found)), Some(Ok(repository)), None) = (lines.next(), lines.next(), lines.next()) else {
            return Err(Error::failed(format!("git does not name the repository of {}", top.display())));
        };
        if found != top {
            let (top, found) = (top.display(), found.display());
            return Err(Error::failed(format!("the repository of {top} has its files in {found}"))
                .hint("core.worktree of its configuration names another directory; name that one"));
        }
        if !is_own(&git, top, &repository) {
            let (top, repository) = (top.display(), repository.display());
            return Err(Error::failed(format!(
                "{top}/.git points to the repository {repository}, which does not point back to it"
            ))
            .hint(format!("if both are yours, run `git -C {top} config core.worktree {top}`")));
        }
        check_objects(&git, top, &repository)?;
        let (filters, options) = filters(&git)?;
        let promisor = r"^(extensions\.partialclone|remote\..*\.promisor)$";
        let is_partial = !configuration(&git, promisor)?.is_empty();
        Ok(Some(Self { directory: top.to_path_buf(), filters, options, is_partial }))
    }
}

/// Returns true if a directory looks like a repository without a work tree.
fn is_bare(directory: &Path) -> bool {
    directory.join("HEAD").is_file() && ["objects", "refs"].iter().all(|name| directory.join(name).is_dir())
}

/// Returns true if a repository is in its checkout, or names it: a `.git` file or link can point to any repository of this
/// user, whose content would then be that of the tree.
fn is_own(git: &Git<'_>, top: &Path, repository: &Path) -> bool {
    let here = top.join(".git");
    if here.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return repository == here;
    }
    // `git worktree add` writes the path of the `.git` file, and submodules have `core.worktree`.
    let back = std::fs::read_to_string(repository.join("gitdir")).unwrap_or_default();
    let back: PathBuf = repository.join(back.trim_end_matches('\n'));
    if back.parent().and_then(|back| back.canonicalize().ok()).as_deref() == Some(top) {
        return true;
    }
    git.output(&["config", "--get", "core.worktree"], None).is_ok_and(|found| !found.is_empty())
}

/// Fails if a repository takes objects from elsewhere: its common directory must be itself, or that of a linked worktree, and
/// its objects must be in it. A foreign checkout could lend itself another repository of this user so.
fn check_objects(git: &Git<'_>, top: &Path, repository: &Path) -> Result<()> {
    let located = git.output(&["rev-parse", "--git-common-dir"], None)?;
    let located = String::from_utf8_lossy(&located).into_owned();
    let common = top.join(located.trim_end_matches('\n')).canonicalize().unwrap_or_default();
    let is_worktree = repository.parent() == Some(&*common.join("worktrees"));
    if common != repository && !is_worktree {
        let what = format!("its common directory is {}", common.display());
        return Err(lent(top, &what, "remove the file commondir in its git directory, or clone it anew"));
    }
    let objects = common.join("objects");
    for alternates in ["alternates", "http-alternates"] {
        if objects.join("info").join(alternates).symlink_metadata().is_ok_and(|found| found.len() > 0) {
            let what = format!("it has objects/info/{alternates}");
            let hint = format!("run `git -C {} repack -a -d`, and remove that file", top.display());
            return Err(lent(top, &what, &hint));
        }
    }
    match link_below(&common, &objects) {
        Some(link) => Err(lent(top, &format!("{} is a link", link.display()), "clone it anew")),
        None => Ok(()),
    }
}

/// Refuses a repository that takes objects from elsewhere.
fn lent(top: &Path, what: &str, hint: &str) -> Error {
    Error::failed(format!("the repository of {} takes objects from elsewhere: {what}", top.display())).hint(hint)
}

/// Returns a link among the objects of a repository, or among the directories that have them.
fn link_below(common: &Path, objects: &Path) -> Option<PathBuf> {
    let own = [objects.to_owned(), common.join("refs"), common.join("packed-refs"), common.join("HEAD")];
    let below = entries(objects).chain(entries(objects).flat_map(|folder| entries(&folder.path())));
    // The folder says what is a link, without a look at each of its thousands of files.
    let mut links = below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
    own.into_iter().find(|path| path.is_symlink()).or_else(|| links.next().map(|link| link.path()))
}

/// Returns what is in a folder; nothing if it cannot be read.
fn entries(folder: &Path) -> impl Iterator<Item = DirEntry> + use<> {
    std::fs::read_dir(folder).into_iter().flatten().flatten()
}

/// Adds the reason and the way out to git's refusal of a repository of another user.
fn refused(top: &Path, error: Error) -> Error {
    let foreign = ["dubious ownership", "is owned by someone else"].iter().any(|text| error.message.contains(text));
    if !foreign {
        return error;
    }
    let checkout = top.display();
    Error::failed(format!("git refuses the checkout {checkout}: it belongs to another user"))
        .hint(format!("if you trust it, run `git config --global --add safe.directory {checkout}`"))
}

/// Returns the filters that the configuration defines, and the options that turn them off.
fn filters(git: &Git<'_>) -> Result<(BTreeSet<String>, Vec<String>)> {
    let (mut names, mut defined) = (BTreeSet::new(), BTreeSet::new());
    for (key, value) in configuration(git, r"^filter\..*\.(clean|smudge|process|required)$")? {
        let Some((name, field)) = key.strip_prefix("filter.").and_then(|rest| rest.rsplit_once('.')) else { continue };
        if !can_be_overridden(name) {
            return Err(Error::failed(format!("the filter {name:?} of git's configuration cannot be turned off"))
                .hint("rename the filter"));
        }
        names.insert(name.to_owned());
        if field != "smudge" && !value.is_empty() {
            defined.insert(name.to_owned());
        }
    }
    let off = [("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")];
    let options = names.iter().flat_map(|name| {
        off.iter().flat_map(move |(field, value)| ["-c".to_owned(), format!("filter.{name}.{field}={value}")])
    });
    Ok((defined, options.collect()))
}

/// Returns true if an option of git can set a key of the configuration: git takes the key of an option up to the first `=`, and a name
/// that is no UTF-8 is not known here.
pub(super) fn can_be_overridden(key: &str) -> bool {
    !key.contains(['=', char::REPLACEMENT_CHARACTER])
}

/// Returns the keys and values of the configuration whose key matches.
pub(super) fn configuration(git: &Git<'_>, pattern: &str) -> Result<Vec<(String, String)>> {
    let listing = match git.output(&["config", "-z", "--get-regexp", pattern], None) {
        Ok(listing) => listing,
        // Git fails without a message when no key matches.
        Err(error) if error.message.ends_with(": ") => return Ok(vec![]),
        Err(error) => return Err(error),
    };
    let text = String::from_utf8_lossy(&listing);
    let records = text.split('\0').filter(|record| !record.is_empty());
    let pairs = records.map(|record| record.split_once('\n').unwrap_or((record, "true")));
    Ok(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
}
