//! What is known of a running cluster, in `pids.json` of its folder: enough to use it and to stop it from another process.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::process::{Running, Spec};

/// Everything that has to survive the process that started the cluster.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct State {
    /// In the order in which they were started.
    pub processes: Vec<Entry>,
    pub server_url: String,
    /// Where the files below `artifacts/` are served.
    pub artifacts_url: String,
    /// The token of each user.
    pub tokens: BTreeMap<String, String>,
}

/// One process: how to start it, and which one it is while it runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    #[serde(flatten)]
    pub spec: Spec,
    pub running: Option<Running>,
}

impl Entry {
    pub(crate) fn alive(&self) -> Option<Running> {
        self.running.filter(|running| running.is_alive())
    }
}

impl State {
    /// Reads the state of the cluster in `dir`; `None` when there never was one.
    pub(crate) fn read(dir: &Path) -> Result<Option<State>> {
        let path = file(dir);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        serde_json::from_str(&text).map(Some).with_context(|| format!("cannot understand {}", path.display()))
    }

    /// Writes it at once or not at all: a crash at any moment leaves a list that `down` can work with.
    pub(crate) fn write(&self, dir: &Path) -> Result<()> {
        let temporary = dir.join("pids.json.new");
        fs::write(&temporary, serde_json::to_string_pretty(self)?)
            .and_then(|()| fs::rename(&temporary, file(dir)))
            .with_context(|| format!("cannot write {}", file(dir).display()))?;
        // The same for a shell, which the watchdog is.
        let groups: String = self.alive().map(|running| format!("{}\n", running.pid)).collect();
        fs::write(dir.join("groups"), groups).context("cannot write the list of process groups")
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Entry> {
        self.processes.iter().find(|entry| entry.spec.name == name)
    }

    pub(crate) fn alive(&self) -> impl Iterator<Item = Running> {
        self.processes.iter().filter_map(Entry::alive)
    }

    /// Notes what became of a process, at its old place in the order if it was known.
    pub(crate) fn set(&mut self, spec: Spec, running: Option<Running>) {
        match self.processes.iter_mut().find(|entry| entry.spec.name == spec.name) {
            Some(entry) => *entry = Entry { spec, running },
            None => self.processes.push(Entry { spec, running }),
        }
    }
}

fn file(dir: &Path) -> PathBuf {
    dir.join("pids.json")
}
