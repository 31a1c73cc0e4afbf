//! Rules of a child: the files, the network and the processes that it may use.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::program_files;
use crate::tools::program::Program;

/// Files and network that a child may use. Everything else is refused by the kernel, as far as the platform has the means.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// Files and directories to read.
    pub read: BTreeSet<PathBuf>,
    /// Files and directories to read and to execute.
    pub execute: BTreeSet<PathBuf>,
    /// Directories in which files are created, changed and removed.
    pub write: BTreeSet<PathBuf>,
    pub network: Network,
    /// The child may start other processes.
    pub processes: bool,
}

/// Servers to which a child may connect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Network {
    /// It may open no socket.
    #[default]
    None,
    /// It may connect to these ports, and use no other TCP.
    Ports(BTreeSet<u16>),
    All,
}

impl Rules {
    /// Returns the rules with which a program can start: it reads and executes itself and what it is linked with. A script
    /// may also run the programs of the system, without a network.
    ///
    /// Fails if the program cannot be read.
    pub fn for_program(program: &Program) -> std::io::Result<Self> {
        let mut rules = Self::default();
        rules.execute.insert(program.file.clone());
        match program_files::format(&program.file)? {
            program_files::ExecutableFormat::Static => {}
            program_files::ExecutableFormat::Dynamic => rules.execute.extend(program_files::libraries()),
            program_files::ExecutableFormat::Script => rules = rules.starting_programs(),
        }
        Ok(rules)
    }

    /// Allows to read a file or directory.
    #[must_use]
    pub fn reading(mut self, path: &Path) -> Self {
        self.read.insert(path.to_owned());
        self
    }

    /// Allows to write in a directory.
    #[must_use]
    pub fn writing(mut self, directory: &Path) -> Self {
        self.write.insert(directory.to_owned());
        self
    }

    /// Allows to fetch over the network with git: the programs of the system, name resolution, certificates, and the user's
    /// configuration of git and ssh without keys and passwords.
    #[must_use]
    pub fn fetching(mut self) -> Self {
        self.network = Network::All;
        self.read.extend(program_files::network());
        self.starting_programs()
    }

    /// Allows to start the programs of the system, with the same rules.
    #[must_use]
    pub fn starting_programs(mut self) -> Self {
        self.processes = true;
        self.execute.extend(program_files::libraries());
        self.execute.extend(program_files::programs());
        self
    }
}
