//! The program `kustomize-judge`, which reads and builds with the libraries of the controller.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::thread;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gitops_core::flux::source::artifact::Artifact;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use xtask::controlplane;

/// An answer of the judge. What it refuses is None.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Verdict {
    /// The kustomization file that the controller writes.
    pub(crate) generated: Option<Value>,
    /// Build of the controller.
    pub(crate) output: Option<String>,
    pub(crate) error: String,
    /// Requests and calls of git.
    pub(crate) contacts: u32,
    /// A text as JSON.
    #[serde(deserialize_with = "present")]
    pub(crate) value: Option<Value>,
    /// A text as the root kustomization file.
    pub(crate) root: Option<Value>,
    /// A text as another kustomization file.
    pub(crate) nested: Option<Value>,
    /// Fields of a kustomization file.
    pub(crate) fields: Option<Value>,
}

/// Reads a value that may be null.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Asks for the build of an artifact with a spec.
pub(crate) fn build_question(artifact: &Artifact, spec: &Value) -> Value {
    let files: BTreeMap<&str, String> = artifact.files().map(|(at, content)| (at, STANDARD.encode(content))).collect();
    json!({"files": files, "spec": spec})
}

/// Asks how a text is read.
pub(crate) fn text_question(text: &[u8]) -> Value {
    json!({"text": STANDARD.encode(text)})
}

/// Returns one answer for each question, from one process.
pub(crate) fn ask(questions: &[Value]) -> Vec<Verdict> {
    controlplane::ensure(&["kustomize-judge"]).expect("the judge is built");
    let mut judge = Command::new(controlplane::bin("kustomize-judge"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the judge starts");
    let mut stdin = judge.stdin.take().expect("its stdin is a pipe");
    let lines: String = questions.iter().map(|question| format!("{question}\n")).collect();
    let writer = thread::spawn(move || stdin.write_all(lines.as_bytes()));
    let stdout = BufReader::new(judge.stdout.take().expect("its stdout is a pipe"));
    let verdicts: Vec<Verdict> = stdout
        .lines()
        .map(|line| serde_json::from_str(&line.expect("the judge writes UTF-8")).expect("the judge writes verdicts"))
        .collect();
    writer.join().expect("the writer ends").expect("the judge reads all questions");
    assert!(judge.wait().expect("the judge ends").success());
    assert_eq!(verdicts.len(), questions.len());
    verdicts
}
