//! Copy operations of an artifact: paths and globs, directories with everything below them, exclusions.
//!
//! A pattern is one of Go's `fs.Glob`, in which `**` is the same as `*`; a directory that matches is copied as a whole.
//! Source: source-watcher v2.2.2 `internal/builder/builder.go`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::exclusion::Exclusion;
use super::merge::merge;
use super::spec::{CopyOperation, Strategy};
use super::workspace::{Directory, EntryKind, clean, join, leaves_root};
use super::{SourceContent, Stop};
use crate::bounds::{Budget, COPY_STEPS, Exceeded, MERGE_SIZE};
use crate::flux::source::path;
use crate::glob::Glob;

/// Directories of the sources that are known and of the artifacts, and what is left of the limits.
pub(super) struct Workspace<'a> {
    pub(super) contents: &'a BTreeMap<String, SourceContent>,
    pub(super) directories: BTreeMap<String, Directory>,
    steps: Budget,
    merged: Budget,
}

/// An operation whose source is known.
struct Copy<'o> {
    alias: &'o str,
    artifact: &'o str,
    merges: bool,
    exclude: Vec<Exclusion>,
    /// Literal part of the pattern, which exclusions are relative to as well.
    base: String,
}

impl<'a> Workspace<'a> {
    pub(super) fn new(contents: &'a BTreeMap<String, SourceContent>) -> Self {
        let known = contents.iter().filter_map(|(alias, content)| match content {
            SourceContent::Known(artifact) => Some((alias.clone(), Directory::of(artifact))),
            SourceContent::Unchanged(_) | SourceContent::Unknown(_) => None,
        });
        let directories = known.collect();
        Self { contents, directories, steps: Budget::new(COPY_STEPS), merged: Budget::new(MERGE_SIZE) }
    }

    /// Applies an operation to the directory of an artifact.
    pub(super) fn copy(&mut self, operation: &CopyOperation, artifact: &str) -> Result<(), Stop> {
        let CopyOperation { alias, pattern, to, exclude, strategy } = operation;
        let Some(content) = self.contents.get(alias) else {
            return Err(Stop::Fails(format!("it copies from the alias {alias:?}, which it does not have")));
        };
        if let SourceContent::Unchanged(why) | SourceContent::Unknown(why) = content {
            return Err(Stop::Unknown(why.clone()));
        }
        let mut parsed = vec![];
        for pattern in exclude {
            match Exclusion::parse(pattern).map_err(|why| Stop::Unknown(format!("it has {why}")))? {
                Ok(exclusion) => parsed.push(exclusion),
                Err(_) => return Err(Stop::Fails(format!("its exclusion {pattern:?} is not a pattern"))),
            }
        }
        if *strategy == Strategy::Extract {
            return Err(Stop::Unknown(format!("archives of {pattern:?} are not unpacked here")));
        }
        let merges = *strategy == Strategy::Merge;
        let mut copy = Copy { alias, artifact, merges, exclude: parsed, base: ".".to_owned() };
        if !pattern.contains(['*', '?', '[', ']']) {
            return self.copy_path(&mut copy, &clean(pattern), to);
        }
        let found = self.glob(alias, pattern)?;
        let Some(found) = found.filter(|found| !found.is_empty()) else {
            return Err(Stop::Fails(format!("no file of @{alias} matches {pattern:?}")));
        };
        copy.base = literal_part(pattern);
        let mut kept = vec![];
        for path in found {
            if !self.excludes(&copy, &path)? {
                kept.push(path);
            }
        }
        if kept.is_empty() {
            return Err(Stop::Fails(format!("every file of @{alias} that matches {pattern:?} is excluded")));
        }
        let stripped = pattern.strip_suffix("/**").map(|directory| format!("{directory}/"));
        for path in kept {
            let below = stripped.as_ref().and_then(|prefix| path.strip_prefix(&**prefix)).unwrap_or(&path);
            self.copy_entry(&copy, &path, &join(to, below))?;
        }
        Ok(())
    }

    /// Copies one file or directory that an operation names without a pattern.
    fn copy_path(&mut self, copy: &mut Copy<'_>, from: &str, to: &str) -> Result<(), Stop> {
        let entry = if leaves_root(from) { None } else { self.directories[copy.alias].entry(from) };
        let name = from.rsplit('/').next().unwrap_or(from);
        match entry {
            None => Err(Stop::Fails(format!("{from:?} does not exist in @{}", copy.alias))),
            Some(EntryKind::Directory) => {
                from.clone_into(&mut copy.base);
                self.copy_entry(copy, from, &join(to, name))
            }
            Some(EntryKind::File) if self.excludes(copy, from)? => Ok(()),
            Some(EntryKind::File) if to.is_empty() || to.ends_with('/') => self.copy_entry(copy, from, &join(to, name)),
            Some(EntryKind::File) => {
                let target = to.strip_prefix("./").unwrap_or(to);
                if target != clean(target) && !leaves_root(&clean(target)) {
                    return Err(Stop::Unknown(format!("it is not known which file {to:?} is")));
                }
                let is_directory = self.directories[copy.artifact].entry(target) == Some(EntryKind::Directory);
                let target = if is_directory { join(target, name) } else { clean(target) };
                self.copy_entry(copy, from, &target)
            }
        }
    }

    /// Copies a file, or a directory with everything below it that is not excluded.
    fn copy_entry(&mut self, copy: &Copy<'_>, from: &str, to: &str) -> Result<(), Stop> {
        if leaves_root(to) {
            return Err(Stop::Fails(format!("{to:?} leads out of the artifact")));
        }
        if self.directories[copy.alias].entry(from) == Some(EntryKind::File) {
            return self.copy_file(copy, from, to, copy.merges);
        }
        let is_below = from == "." || to.strip_prefix(from).is_some_and(|rest| rest.starts_with('/'));
        if copy.alias == copy.artifact && is_below && from != to {
            return Err(Stop::Unknown(format!(
                "{from:?} is copied into itself, because the artifact is built in @{}",
                copy.alias
            )));
        }
        let entries = self.directories[copy.alias].below(from);
        self.spend(entries.len())?;
        self.target(copy)?.create(to).map_err(Stop::Fails)?;
        let mut excluded: Option<String> = None;
        for (path, entry) in entries {
            if excluded.as_ref().is_some_and(|above| path.starts_with(&**above)) {
                continue;
            }
            if self.excludes(copy, &path)? {
                excluded = (entry == EntryKind::Directory).then(|| format!("{path}/")).or(excluded);
                continue;
            }
            let below = if from == "." { &path } else { &path[from.len() + 1..] };
            let target = join(to, below);
            match entry {
                EntryKind::File => self.copy_file(copy, &path, &target, false)?,
                EntryKind::Directory => self.target(copy)?.create(&target).map_err(Stop::Fails)?,
            }
        }
        Ok(())
    }

    fn copy_file(&mut self, copy: &Copy<'_>, from: &str, to: &str, merges: bool) -> Result<(), Stop> {
        self.spend(1)?;
        let source = &self.directories[copy.alias].files[from];
        let content = match self.directories[copy.artifact].files.get(to).filter(|_| merges) {
            Some(base) => {
                self.merged.spend(base.len() + source.len()).map_err(exceeded)?;
                Arc::from(merge(base, source)?)
            }
            // The file is emptied before it is read.
            None if copy.alias == copy.artifact && from == to => Arc::from([]),
            None => source.clone(),
        };
        self.target(copy)?.write(to, content).map_err(Stop::Fails)
    }

    fn target(&mut self, copy: &Copy<'_>) -> Result<&mut Directory, Stop> {
        let found = self.directories.get_mut(copy.artifact);
        found.ok_or_else(|| Stop::Unknown(format!("the directory of {} is not known", copy.artifact)))
    }

    /// Returns true if an operation excludes a path.
    fn excludes(&mut self, copy: &Copy<'_>, path: &str) -> Result<bool, Stop> {
        let relative = path.strip_prefix(&*copy.base).and_then(|rest| rest.strip_prefix('/'));
        for exclusion in &copy.exclude {
            self.spend(exclusion.cost(path))?;
            if exclusion.excludes(path) || relative.is_some_and(|relative| exclusion.excludes(relative)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the paths that a pattern matches, as `fs.Glob` does; `None` if it is malformed.
    fn glob(&mut self, alias: &str, pattern: &str) -> Result<Option<Vec<String>>, Stop> {
        if Glob::parse(pattern.as_bytes()).is_err() {
            return Ok(None);
        }
        if !has_meta(pattern) {
            let exists = is_valid(pattern) && self.directories[alias].entry(pattern).is_some();
            return Ok(Some(exists.then(|| pattern.to_owned()).into_iter().collect()));
        }
        let (directory, name) = pattern.rsplit_once('/').unwrap_or((".", pattern));
        let directories =
            if has_meta(directory) { self.glob(alias, directory)? } else { Some(vec![directory.to_owned()]) };
        let (Some(directories), Ok(name)) = (directories, Glob::parse(name.as_bytes())) else { return Ok(None) };
        let mut found = vec![];
        for directory in directories.iter().filter(|directory| is_valid(directory)) {
            let names: Vec<String> = self.directories[alias].names(directory).into_iter().map(str::to_owned).collect();
            self.spend(1 + self.directories[alias].files.len().min(names.len() * 16))?;
            let matching = names.into_iter().filter(|found| name.matches(found.as_bytes()));
            found.extend(matching.map(|found| path::join(if directory == "." { "" } else { directory }, &found)));
        }
        Ok(Some(found))
    }

    fn spend(&mut self, steps: usize) -> Result<(), Stop> {
        self.steps.spend(steps).map_err(exceeded)
    }
}

pub(super) fn exceeded(exceeded: Exceeded) -> Stop {
    Stop::Unknown(format!("it has {exceeded}"))
}

/// Returns true if `fs.Glob` takes a text for a pattern.
fn has_meta(text: &str) -> bool {
    text.contains(['*', '?', '[', '\\'])
}

/// Returns true if Go accepts a path in a file system.
fn is_valid(path: &str) -> bool {
    path == "." || path.split('/').all(|segment| !matches!(segment, "" | "." | ".."))
}

/// Returns the directories of a pattern before the first one with a wildcard.
fn literal_part(pattern: &str) -> String {
    let cleaned = clean(pattern);
    let literal: Vec<&str> = cleaned.split('/').take_while(|part| !part.contains(['*', '?', '[', ']'])).collect();
    if literal.is_empty() { ".".to_owned() } else { clean(&literal.join("/")) }
}
