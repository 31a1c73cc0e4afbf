//! Journal of an execution: one JSON document per line (`kubectl-gitops/result/v1`), appended and synced before and after
//! each deletion, so that a run that was killed leaves a true record and a second run continues it.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};

use super::{files, limits};
use crate::error::{Error, Result};
use gitops_core::kubernetes::snapshot::ClusterIdentity;
use gitops_core::plan::PinnedObject;

/// Name of the JSON schema; a contract with programs.
pub const SCHEMA: &str = "kubectl-gitops/result/v1";

/// First line: what the journal belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Header {
    pub schema: String,
    pub cluster: ClusterIdentity,
    /// Digest of the plan file; `null` for a plan that was made and executed at once.
    pub plan: Option<String>,
}

/// Every other line: the state of one deletion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JournalEntry {
    pub time: String,
    pub object: PinnedObject,
    /// `deleting` before the DELETE is sent, then a code of docs/plan-files.md.
    pub result: String,
    pub detail: String,
}

/// A journal that is open for appending.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    /// Last result of each uid in earlier runs.
    earlier: HashMap<String, String>,
}

impl Journal {
    /// Creates a journal, or continues one of the same plan and cluster.
    ///
    /// Fails when the file cannot be written, is in use, or belongs to something else. A last line that was cut is removed.
    pub fn open(path: &Path, header: &Header) -> Result<Self> {
        if std::fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(cannot_use(path, "it exists and is not a regular file"));
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path).map_err(|error| super::cannot_write("journal", path, &error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(cannot_use(path, "another run uses it")),
            Err(TryLockError::Error(error)) => return Err(cannot_use(path, error)),
        }
        let content = files::read_to_limit(&mut file, limits::MAX_JOURNAL).map_err(|error| cannot_use(path, error))?;
        let text = String::from_utf8(content).map_err(|_| cannot_use(path, "it is not UTF-8"))?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let mut lines = text[..whole].lines();
        let mut journal = Self { file, path: path.to_owned(), earlier: HashMap::new() };
        match lines.next().map(serde_json::from_str::<Header>) {
            None => {
                journal.seek(0)?;
                journal.append(header)?;
                return Ok(journal);
            }
            Some(Ok(found)) if found == *header => {}
            Some(_) => {
                return Err(Error::refused(format!(
                    "refused, nothing was deleted: journal {} belongs to another plan or cluster, or is no journal",
                    path.display()
                ))
                .hint("name a new file with --journal"));
            }
        }
        for line in lines {
            let entry: JournalEntry =
                serde_json::from_str(line).map_err(|error| cannot_use(path, format!("it was edited: {error}")))?;
            journal.earlier.insert(entry.object.uid, entry.result);
        }
        journal.seek(whole as u64)?;
        Ok(journal)
    }

    /// Cuts the file at this length and continues there.
    fn seek(&mut self, length: u64) -> Result<()> {
        let moved = self.file.set_len(length).and_then(|()| self.file.seek(SeekFrom::Start(length)));
        moved.map(|_| ()).map_err(|error| self.failed(&error))
    }

    /// Appends a line and waits until it is on the disk.
    fn append<T: Serialize>(&mut self, line: &T) -> Result<()> {
        let mut text = serde_json::to_vec(line).map_err(|error| self.failed(&error.into()))?;
        text.push(b'\n');
        let written = self.file.write_all(&text).and_then(|()| self.file.sync_data());
        written.map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &std::io::Error) -> Error {
        super::cannot_write("journal", &self.path, error)
    }

    /// Records the state of a deletion.
    ///
    /// Fails when it is not on the disk.
    pub fn record(&mut self, object: &PinnedObject, result: &str, detail: &str, now: DateTime<Utc>) -> Result<()> {
        let time = now.to_rfc3339_opts(SecondsFormat::Millis, true);
        self.append(&JournalEntry {
            time,
            object: object.clone(),
            result: result.to_owned(),
            detail: detail.to_owned(),
        })
    }

    /// Returns true if an earlier run recorded a deletion.
    pub fn continues(&self) -> bool {
        !self.earlier.is_empty()
    }

    /// Returns true if an earlier run has begun to delete this object.
    pub fn has_begun(&self, object: &PinnedObject) -> bool {
        self.earlier
            .get(&object.uid)
            .is_some_and(|result| ["deleting", "deleted", "terminating", "unknown"].contains(&result.as_str()))
    }
}

fn cannot_use(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::failed(format!("cannot use journal {}: {why}", path.display()))
}
