//! Waiting with a limit, in one way everywhere: whoever waits says for what, and hears what stood in the way.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Asks `probe` until it says yes. An error counts as "not yet" and is told if the limit is reached.
pub fn until(what: &str, limit: Duration, mut probe: impl FnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    loop {
        let obstacle = match probe() {
            Ok(true) => return Ok(()),
            Ok(false) => None,
            Err(error) => Some(error),
        };
        if start.elapsed() >= limit {
            let limit = limit.as_secs_f32();
            match obstacle {
                Some(error) => return Err(error.context(format!("waited {limit} s for {what}"))),
                None => bail!("waited {limit} s for {what}"),
            }
        }
        thread::sleep(Duration::from_millis(50));
    }
}
