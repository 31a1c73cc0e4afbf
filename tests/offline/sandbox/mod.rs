//! Children that build foreign trees: what they may use, and what they do to the files and processes around them. Each
//! attempt fails in the sandbox and succeeds without it.
#![cfg(target_os = "linux")]

mod attempts;
mod command_line;
mod fetching;
mod limits;

use std::path::{Path, PathBuf};
use std::time::Duration;

use kubectl_gitops::tools::program::Program;
use kubectl_gitops::tools::sandbox::{Environment, Failure, Job, Limits, Output, PrivateDirectories, Rules, Sandbox};
use test_support::folder::Folder;

/// The sandbox as the binary has it.
fn on() -> Sandbox {
    Sandbox::launched_by(env!("CARGO_BIN_EXE_kubectl-gitops"))
}

fn limits() -> Limits {
    Limits::of_build(Duration::from_secs(60))
}

/// A program, and what it reads.
struct Child {
    program: Program,
    arguments: Vec<String>,
    directories: PrivateDirectories,
    fetches: bool,
    _folder: Folder,
}

impl Child {
    /// A shell script.
    fn script(text: &str) -> Self {
        let folder = Folder::outside_checkouts("sandbox");
        Self::new(folder.script("program", text), folder)
    }

    fn new(program: PathBuf, folder: Folder) -> Self {
        let program = Program::find(&program, &[]).unwrap();
        let directories = PrivateDirectories::new().unwrap();
        Self { program, arguments: vec![], directories, fetches: false, _folder: folder }
    }

    /// The same as a build with remote bases.
    fn fetching(self) -> Self {
        Self { fetches: true, ..self }
    }

    fn rules(&self) -> Rules {
        let rules = Rules::for_program(&self.program).unwrap().reading(&self.directories.home());
        if self.fetches { rules.fetching().writing(&self.directories.tmp()) } else { rules }
    }

    async fn run(&self, sandbox: &Sandbox, limits: &Limits) -> Result<Output, Failure> {
        let empty = Environment::empty(&self.directories);
        let environment = if self.fetches { empty.fetching(&[]) } else { empty };
        let arguments = self.arguments.iter().map(Into::into).collect();
        let (program, rules) = (&self.program, &self.rules());
        sandbox.run(Job { program, arguments, environment: &environment, rules, limits }).await
    }

    /// Runs to the end and returns what the child printed.
    async fn text(&self, sandbox: &Sandbox) -> String {
        let output = self.run(sandbox, &limits()).await.unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    }
}

/// Returns the processes whose command line contains a text.
fn processes(text: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(text)).collect()
}

/// Returns once `condition` is true. Fails after 20 s.
fn wait_for(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..200 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("{what}: not after 20 s");
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}
