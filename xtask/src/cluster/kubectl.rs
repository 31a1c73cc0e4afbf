//! The commands of kubectl for one cluster, in one process that starts with the first of them.
//!
//! Tests ask a cluster many times a second, and the start of kubectl was a third of all work of the live tests.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::access;
use crate::controlplane::bin;
use crate::{child, text};

/// Time limit of one command, longer than every `--timeout` that a test gives kubectl.
const LIMIT: Duration = Duration::from_secs(600);

/// Returns a command that runs `program`, kubectl or resident-kubectl, for the cluster in `dir`.
fn program(program: &str, dir: &Path) -> Command {
    let mut command = Command::new(bin(program));
    // kubectl caches discovery by port, and another cluster may have used the port before.
    command.env("KUBECACHEDIR", dir.join("cache")).env("KUBERC", "off");
    command
}

/// Returns the command that runs kubectl as admin of the cluster in `dir`, in a process of its own.
pub(crate) fn kubectl(dir: &Path) -> Command {
    let mut command = program("kubectl", dir);
    command.arg("--kubeconfig").arg(access::kubeconfig(dir, access::ADMIN));
    command
}

/// The process of a cluster that runs commands of kubectl. A process that ended is started again.
#[derive(Debug, Default)]
pub(super) struct Kubectl(Mutex<Option<Server>>);

/// Commands without a result, by number. `None` after the end of the process.
type Waiting = Arc<Mutex<Option<HashMap<u64, Sender<Value>>>>>;

#[derive(Debug)]
struct Server {
    process: Child,
    commands: ChildStdin,
    sent: u64,
    waiting: Waiting,
}

impl Kubectl {
    /// Runs one command as admin of the cluster in `dir`, with `input` in place of the argument `-`. Returns its output.
    pub(super) fn run(&self, dir: &Path, args: &[&str], input: &str) -> Result<String> {
        // `auth can-i` ends its process if the answer is no.
        if args.first() == Some(&"auth") {
            return String::from_utf8(child::output(kubectl(dir).args(args))?).context("kubectl printed no UTF-8");
        }
        let kubeconfig = access::kubeconfig(dir, access::ADMIN);
        let kubeconfig = kubeconfig.to_str().context("the folder of the cluster is not UTF-8")?;
        let all: Vec<&str> = ["--kubeconfig", kubeconfig].into_iter().chain(args.iter().copied()).collect();
        let command = json!({ "args": all, "stdin": input });
        let result = {
            let mut server = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if server.as_ref().is_none_or(Server::has_ended) {
                *server = Some(Server::start(dir)?);
            }
            server.as_mut().context("no process of kubectl")?.send(command)?
        };
        let result = result.recv_timeout(LIMIT).with_context(|| {
            format!("kubectl {}: no result within {} s, or its process ended", args.join(" "), LIMIT.as_secs())
        })?;
        if result["code"] != 0 {
            bail!("kubectl {}: {}", args.join(" "), String::from_utf8_lossy(&bytes(&result, "/stderr")?).trim());
        }
        String::from_utf8(bytes(&result, "/stdout")?).context("kubectl printed output that is not UTF-8")
    }
}

impl Server {
    fn start(dir: &Path) -> Result<Self> {
        let log = OpenOptions::new().create(true).append(true).open(dir.join("logs/resident-kubectl.log"))?;
        let mut process = program("resident-kubectl", dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .context("cannot run the cluster's kubectl")?;
        let commands = process.stdin.take().context("kubectl has no input")?;
        let results = process.stdout.take().context("kubectl has no output")?;
        let waiting = Waiting::new(Mutex::new(Some(HashMap::new())));
        let own = Arc::clone(&waiting);
        thread::spawn(move || deliver(results, &own));
        Ok(Self { process, commands, sent: 0, waiting })
    }

    fn has_ended(&self) -> bool {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Sends a command. Its result comes over the returned channel, which closes if the process ends before.
    fn send(&mut self, mut command: Value) -> Result<mpsc::Receiver<Value>> {
        let (sender, receiver) = mpsc::channel();
        self.sent += 1;
        command["id"] = self.sent.into();
        if let Some(waiting) = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            waiting.insert(self.sent, sender);
        }
        writeln!(self.commands, "{command}").context("cannot write to the cluster's kubectl")?;
        Ok(receiver)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Gives each result to the command that waits for it, until the process ends.
fn deliver(results: ChildStdout, waiting: &Waiting) {
    for line in BufReader::new(results).lines() {
        let Some(result) = line.ok().and_then(|line| serde_json::from_str::<Value>(&line).ok()) else { break };
        let Some(id) = result["id"].as_u64() else { break };
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = waiting.as_mut().and_then(|waiting| waiting.remove(&id)) {
            // The command may have reached its time limit.
            let _ = sender.send(result);
        }
    }
    *waiting.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// Returns one of the outputs of a command, which is base64.
fn bytes(result: &Value, pointer: &str) -> Result<Vec<u8>> {
    Ok(BASE64_STANDARD.decode(text(result, pointer))?)
}
