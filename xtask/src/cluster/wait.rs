//! Waits for a condition with a time limit.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::Cluster;

/// Shortest and longest time between two probes.
const PAUSE: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];

/// Calls `probe` until it returns true. An error counts as false; at the limit, the last error is returned. The pause is
/// twice as long as a probe takes, so that those who wait leave the processors to those who work.
pub fn until(what: &str, limit: Duration, mut probe: impl FnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    loop {
        let begun = Instant::now();
        let failure = match probe() {
            Ok(true) => return Ok(()),
            Ok(false) => None,
            Err(error) => Some(error),
        };
        if start.elapsed() >= limit {
            let limit = limit.as_secs_f32();
            match failure {
                Some(error) => return Err(error.context(format!("waited {limit} s for {what}"))),
                None => bail!("waited {limit} s for {what}"),
            }
        }
        thread::sleep((begun.elapsed() * 2).clamp(PAUSE[0], PAUSE[1]));
    }
}

impl Cluster {
    /// Waits until a Kustomization has applied a revision and is settled.
    pub fn wait_until_applied(&self, namespace: &str, name: &str, revision: &str, limit: Duration) -> Result<()> {
        let path = "jsonpath={.status.lastAppliedRevision}";
        until(&format!("kustomization/{name} at {revision}"), limit, || {
            Ok(self.kubectl(&["get", "kustomization", name, "-n", namespace, "-o", path])?.contains(revision.trim()))
        })?;
        self.wait_until_settled(namespace, name, limit)
    }

    /// Waits until a Kustomization is Ready for its generation and nothing is under way.
    pub fn wait_until_settled(&self, namespace: &str, name: &str, limit: Duration) -> Result<()> {
        let path = "jsonpath={.metadata.generation} {.status.observedGeneration} \
                    {.status.conditions[?(@.type==\"Ready\")].status} \
                    {.status.conditions[?(@.type==\"Reconciling\")].status}";
        until(&format!("kustomization/{name} in {namespace} ready"), limit, || {
            let found = self.kubectl(&["get", "kustomization", name, "-n", namespace, "-o", path])?;
            let words: Vec<&str> = found.split_whitespace().collect();
            Ok(words.len() == 3 && words[0] == words[1] && words[2] == "True")
        })
    }
}
