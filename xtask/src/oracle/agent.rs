//! Compares the answer of the tool `plan` of `kubectl gitops mcp` with the plan of the command line: both must be equal.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::run::PLAN_LIMIT;
use crate::child;
use crate::controlplane::bin;

/// Number of times that both are asked: an owner that fails and tries again can change between the two answers, and a real
/// difference is there each time.
const ATTEMPTS: usize = 3;

/// Asks both about a checkout, and returns how their answers differ. `prefix` begins the namespaces of the scenario: the owners of
/// others change meanwhile.
pub(super) fn differing(program: &Path, checkout: &Path, kubeconfig: &Path, prefix: &str) -> Result<Vec<String>> {
    let mut found = vec![];
    for _ in 0..ATTEMPTS {
        found = differing_now(program, checkout, kubeconfig, prefix)?;
        if found.is_empty() {
            break;
        }
    }
    Ok(found)
}

fn differing_now(program: &Path, checkout: &Path, kubeconfig: &Path, prefix: &str) -> Result<Vec<String>> {
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "plan", "arguments": {"directory": checkout}}});
    let input = checkout.with_extension("mcp");
    fs::write(&input, format!("{call}\n"))?;
    let mut command = Command::new(program);
    let own = run(command.arg("plan").arg(checkout).args(["-o", "json"]), kubeconfig);
    let mut server = Command::new("sh");
    let agent = run(server.args(["-c", r#"exec "$0" mcp < "$1""#]).args([program, &input]), kubeconfig);
    fs::remove_file(&input)?;
    let (code, plan) = own?;
    let (_, answer) = agent?;
    let result = &answer["result"]["structuredContent"];
    let mut found = vec![];
    if result["exitCode"] != code {
        found.push(format!("mcp: exit code {}, and {code} of the command line", result["exitCode"]));
    }
    let [of_agent, own] = [&result["document"], &plan].map(|document| comparable(document, prefix));
    if let Some(difference) = difference(&of_agent, &own, "") {
        found.push(format!("mcp: the plan is not that of the command line: {difference}"));
    }
    Ok(found)
}

/// Returns the first place in which two values differ, with both.
fn difference(one: &Value, other: &Value, place: &str) -> Option<String> {
    if one == other {
        return None;
    }
    let within: Vec<(String, &Value, &Value)> = match (one, other) {
        (Value::Object(fields), Value::Object(others)) => {
            let keys: BTreeSet<&String> = fields.keys().chain(others.keys()).collect();
            keys.into_iter().map(|key| (format!("{place}/{key}"), &one[key.as_str()], &other[key.as_str()])).collect()
        }
        (Value::Array(items), Value::Array(others)) if items.len() == others.len() => {
            let pairs = items.iter().zip(others).enumerate();
            pairs.map(|(at, (one, other))| (format!("{place}/{at}"), one, other)).collect()
        }
        _ => vec![],
    };
    let inner = within.iter().find_map(|(place, one, other)| difference(one, other, place));
    Some(inner.unwrap_or_else(|| format!("{place} is {one}, and {other}")))
}

/// Runs the program with the kubectl of the control plane, and returns its exit code and the document that it prints.
fn run(command: &mut Command, kubeconfig: &Path) -> Result<(i32, Value)> {
    let kubectl = bin("kubectl");
    let own = std::env::var_os("PATH").unwrap_or_default();
    let folders = kubectl.parent().into_iter().map(Path::to_path_buf).chain(std::env::split_paths(&own));
    command.env("KUBECONFIG", kubeconfig).env("PATH", std::env::join_paths(folders)?);
    let output = child::output_within(command, PLAN_LIMIT)?;
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    let document = serde_json::from_slice(&output.stdout).with_context(|| format!("no document: {message}"))?;
    Ok((output.status.code().unwrap_or(-1), document))
}

/// Returns true for a name with the prefix of another scenario, such as `s012x`.
fn names_another(name: &str, prefix: &str) -> bool {
    let is_prefix = |part: &&[u8]| part[0] == b's' && part[1..4].iter().all(u8::is_ascii_digit) && part[4] == b'x';
    name.as_bytes().windows(5).filter(is_prefix).any(|part| part != prefix.as_bytes())
}

/// Returns a plan without resource versions, because a controller may write a status between two plans, and without the owners,
/// objects and gaps of other scenarios.
fn comparable(value: &Value, prefix: &str) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(key, _)| *key != "resourceVersion");
            kept.map(|(key, value)| (key.clone(), comparable(value, prefix))).collect()
        }
        Value::Array(items) => {
            let own = items.iter().filter(|item| {
                let mut names = ["namespace", "name", "subject"].into_iter().filter_map(|field| item[field].as_str());
                !names.any(|name| names_another(name, prefix))
            });
            own.map(|item| comparable(item, prefix)).collect()
        }
        other => other.clone(),
    }
}
