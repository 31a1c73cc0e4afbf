//! Waits for a condition with a time limit.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Calls `probe` until it returns true. An error counts as false; at the limit, the last error is returned.
pub fn until(what: &str, limit: Duration, mut probe: impl FnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    loop {
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
        thread::sleep(Duration::from_millis(50));
    }
}
