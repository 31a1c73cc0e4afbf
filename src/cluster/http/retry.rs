//! Retry policy for a user who waits. kube's own tries 15 times, with pauses of up to 15 minutes, for all methods
//! (docs/reference/kubectl-plugin.md 6.3).

use std::time::Duration;

use http::Method;
use tokio::time::Instant;

use super::failure::Failure;

/// Maximum number of attempts, including the first.
const TRIES: u32 = 4;
/// Pause before the second attempt. Each pause is four times the previous one: 0.1, 0.4 and 1.6 s.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Maximum pause. If the server requests a longer one, the request is not retried.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The remaining retries of one request.
#[derive(Debug)]
pub(crate) struct Retries {
    left: u32,
    pause: Duration,
    deadline: Option<Instant>,
}

impl Retries {
    /// Returns the retries of a new request; none if repeating it could change the cluster twice.
    pub(crate) fn new(method: &Method, deadline: Option<Instant>) -> Self {
        let left = if is_idempotent(method) { TRIES - 1 } else { 0 };
        Self { left, pause: FIRST_PAUSE, deadline }
    }

    /// Returns the pause before the next attempt, at least `Retry-After`. Returns `None` if the failure is final, or the
    /// pause would exceed the deadline: the server's message is better than a timeout.
    pub(crate) fn wait_before_next(&mut self, failure: &Failure, now: Instant) -> Option<Duration> {
        if self.left == 0 || !matches!(failure.code, Some(429 | 503 | 504)) {
            return None;
        }
        let wait = self.pause.max(failure.retry_after.unwrap_or_default());
        if wait > LONGEST_PAUSE || self.deadline.is_some_and(|deadline| now + wait >= deadline) {
            return None;
        }
        self.left -= 1;
        self.pause *= 4;
        Some(wait)
    }
}

/// Returns true if repeating a request has no further effect (RFC 9110 9.2.2). Every DELETE has a uid precondition.
fn is_idempotent(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::PUT | Method::DELETE)
}
