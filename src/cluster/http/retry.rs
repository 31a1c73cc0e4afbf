//! When a request is sent again: kube's own policy tries 15 times, with pauses of up to a quarter of an hour, whatever
//! the method (reference rust-and-kube 2.2 trap 3). A person is waiting here.

use std::time::{Duration, Instant};

use http::Method;

use super::failure::Failure;

/// How often a request is sent at most.
const TRIES: u32 = 4;
/// The pause before the second try; each further pause is four times as long: 0.1, 0.4 and 1.6 s.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause a server may ask for; a server that asks for more gets no further request from us.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The retries that one request has left.
#[derive(Debug)]
pub(crate) struct Retries {
    left: u32,
    pause: Duration,
    deadline: Option<Instant>,
}

impl Retries {
    /// The retries of a fresh request; none when repeating it could do its work twice.
    pub(crate) fn new(method: &Method, deadline: Option<Instant>) -> Self {
        let left = if is_idempotent(method) { TRIES - 1 } else { 0 };
        Self { left, pause: FIRST_PAUSE, deadline }
    }

    /// How long to wait before sending again; `None` when the failure is final. `Retry-After` is never undercut, and no
    /// wait goes past the deadline: better to say now what the server said than to time out later.
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

/// Returns true if sending a request twice has the effect of sending it once (RFC 9110 9.2.2). A DELETE here is pinned to
/// a uid.
fn is_idempotent(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::PUT | Method::DELETE)
}
