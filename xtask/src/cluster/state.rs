//! State of a running cluster in `pids.json`: another process can use it and stop it.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::process::{Running, Spec};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct State {
    /// Processes in start order.
    pub processes: Vec<Entry>,
    pub server_url: String,
    /// URL of the folder `artifacts/`.
    pub artifacts_url: String,
    /// Address of source-controller's storage, if it is reachable as a Service.
    #[serde(default)]
    pub storage_address: Option<SocketAddr>,
    /// Bearer tokens by user name.
    pub tokens: BTreeMap<String, String>,
}

/// A process: its command line, and its id while it runs.
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
    /// Reads the state of the cluster in `dir`. Returns `None` if there is none.
    pub(crate) fn read(dir: &Path) -> Result<Option<State>> {
        let path = file(dir);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        serde_json::from_str(&text).map(Some).with_context(|| format!("cannot parse {}", path.display()))
    }

    /// Writes the state atomically, so that `down` can read it after a crash.
    pub(crate) fn write(&self, dir: &Path) -> Result<()> {
        let temporary = dir.join("pids.json.new");
        fs::write(&temporary, serde_json::to_string_pretty(self)?)
            .and_then(|()| fs::rename(&temporary, file(dir)))
            .with_context(|| format!("cannot write {}", file(dir).display()))?;
        // The watchdog is a shell script and reads this list.
        let groups: String = self.alive().map(|running| format!("{}\n", running.pid)).collect();
        fs::write(dir.join("groups"), groups).context("cannot write the list of process groups")
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Entry> {
        self.processes.iter().find(|entry| entry.spec.name == name)
    }

    pub(crate) fn alive(&self) -> impl Iterator<Item = Running> {
        self.processes.iter().filter_map(Entry::alive)
    }

    /// Sets the state of a process. A known process keeps its place in the order.
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
