//! Why the API server did not do what was asked: one value for every cause, classified by status code first (kube's own
//! helpers go by reason and miss answers without one, reference rust-and-kube 2.9), in kubectl's words.

use std::fmt;
use std::io;
use std::time::Duration;

use http::{HeaderMap, StatusCode, header::RETRY_AFTER};
use serde::Deserialize;

use gitops_core::kubernetes::gap::{Gap, GapKind};

/// Classes of failure that callers act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// 401: the credentials were not accepted.
    Unauthorized,
    /// 403: the user may not do this.
    Denied,
    /// 404: the object or the type does not exist.
    Missing,
    /// 409: a precondition (uid, resourceVersion) did not hold.
    Conflict,
    /// 409 with reason `AlreadyExists`.
    AlreadyExists,
    /// 410: a list or watch ran out of its revision; a list may go on with [`Failure::continue_token`].
    Expired,
    /// 429, after all retries.
    Throttled,
    /// 400 or 422: the request itself is wrong.
    Invalid,
    /// 406: the server cannot answer in the form asked for, such as metadata only.
    NotAcceptable,
    /// 502 or 503, after all retries: a server behind the API server is away.
    Unavailable,
    /// 408, 504, or no answer within the request timeout. A change may still have taken effect.
    Timeout,
    /// No connection, or it broke off before the answer was complete. A change may still have taken effect.
    Unreachable,
    /// Anything else.
    Other,
}

/// Why a request failed. `Display` is what kubectl would print.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Class of the failure.
    pub kind: FailureKind,
    /// HTTP status code; `None` when no answer came.
    pub code: Option<u16>,
    /// The server's machine-readable reason such as `Forbidden`; empty when it gave none.
    pub reason: String,
    /// What the server, or the network, said. Text written by others: escape it before it reaches a terminal.
    pub message: String,
    /// Of a 410: a fresh token with which the list can go on in a newer revision.
    pub continue_token: Option<String>,
    /// How long the server asked to wait.
    pub retry_after: Option<Duration>,
}

/// The parts of a `Status` that matter here.
#[derive(Deserialize)]
struct Status {
    kind: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    metadata: StatusMeta,
    #[serde(default)]
    details: Option<StatusDetails>,
}

#[derive(Default, Deserialize)]
struct StatusMeta {
    #[serde(default, rename = "continue")]
    continue_token: String,
}

#[derive(Deserialize)]
struct StatusDetails {
    #[serde(default, rename = "retryAfterSeconds")]
    retry_after: u64,
}

impl Failure {
    /// The failure that an answer other than 2xx means.
    pub(crate) fn of_answer(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        let said = serde_json::from_slice::<Status>(body).ok().filter(|said| said.kind == "Status");
        let header = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
        let detail = said.as_ref().and_then(|said| said.details.as_ref()).map(|details| details.retry_after);
        let (reason, message, token) = match said {
            Some(said) => (said.reason, said.message, said.metadata.continue_token),
            None => Default::default(),
        };
        Self {
            kind: classify(status.as_u16(), &reason),
            code: Some(status.as_u16()),
            message: if message.is_empty() { generic_message(status.as_u16(), body) } else { message },
            reason: if reason.is_empty() { generic_reason(status.as_u16()).to_owned() } else { reason },
            continue_token: Some(token).filter(|token| !token.is_empty()),
            retry_after: header.or(detail.filter(|seconds| *seconds > 0)).map(Duration::from_secs),
        }
    }

    /// The failure that no answer, or a broken one, means. `host` is the server, with its proxy if there is one.
    pub(crate) fn of_transport(host: &str, error: &kube::Error) -> Self {
        let mut cause: &(dyn std::error::Error + 'static) = error;
        let (mut refused, mut timed_out) = (false, false);
        loop {
            let io = cause.downcast_ref::<io::Error>();
            refused |= io.is_some_and(|io| io.kind() == io::ErrorKind::ConnectionRefused);
            timed_out |= io.is_some_and(|io| io.kind() == io::ErrorKind::TimedOut);
            // An io::Error made of another error shows that error but does not name it as its source.
            let inner = io.and_then(|io| io.get_ref()).map(|inner| inner as &(dyn std::error::Error + 'static));
            match inner.or_else(|| cause.source()) {
                Some(deeper) => cause = deeper,
                None => break,
            }
        }
        let message = if refused {
            format!("The connection to the server {host} was refused - did you specify the right host or port?")
        } else if timed_out {
            format!("Unable to connect to the server: {host}: i/o timeout")
        } else {
            format!("Unable to connect to the server: {host}: {cause}")
        };
        Self::silent(FailureKind::Unreachable, message)
    }

    /// No answer within the request timeout.
    pub(crate) fn of_timeout(host: &str, limit: Duration) -> Self {
        let message = format!("Unable to connect to the server: {host} gave no answer within {limit:?}");
        Self::silent(FailureKind::Timeout, message)
    }

    /// A request that could not be built.
    pub(crate) fn of_request(problem: impl fmt::Display) -> Self {
        Self::silent(FailureKind::Other, format!("the request cannot be sent: {problem}"))
    }

    /// An answer that cannot be understood.
    pub(crate) fn unreadable(problem: impl fmt::Display) -> Self {
        Self::silent(FailureKind::Other, format!("the answer cannot be read: {problem}"))
    }

    fn silent(kind: FailureKind, message: String) -> Self {
        Self { kind, code: None, reason: String::new(), message, continue_token: None, retry_after: None }
    }

    /// This failure as something that could not be read.
    pub fn gap(&self, subject: impl Into<String>, namespace: Option<&str>) -> Gap {
        let kind = match self.kind {
            FailureKind::Unauthorized | FailureKind::Denied => GapKind::Forbidden,
            FailureKind::NotAcceptable => GapKind::NotAcceptable,
            FailureKind::Expired => GapKind::Expired,
            FailureKind::Throttled => GapKind::Throttled,
            FailureKind::Timeout => GapKind::Timeout,
            _ => GapKind::Failed,
        };
        Gap { kind, subject: subject.into(), namespace: namespace.map(str::to_owned), message: self.message.clone() }
    }
}

/// The class of a status code; only 409 needs the reason too.
fn classify(code: u16, reason: &str) -> FailureKind {
    match code {
        400 | 422 => FailureKind::Invalid,
        401 => FailureKind::Unauthorized,
        403 => FailureKind::Denied,
        404 => FailureKind::Missing,
        406 => FailureKind::NotAcceptable,
        408 | 504 => FailureKind::Timeout,
        409 if reason == "AlreadyExists" => FailureKind::AlreadyExists,
        409 => FailureKind::Conflict,
        410 => FailureKind::Expired,
        429 => FailureKind::Throttled,
        502 | 503 => FailureKind::Unavailable,
        _ => FailureKind::Other,
    }
}

/// The reason kubectl shows for a code whose answer carried none.
fn generic_reason(code: u16) -> &'static str {
    match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        406 => "NotAcceptable",
        409 => "Conflict",
        410 => "Gone",
        413 => "RequestEntityTooLarge",
        415 => "UnsupportedMediaType",
        422 => "Invalid",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        500.. => "InternalError",
        _ => "",
    }
}

/// What to say of an answer that is no `Status`: its first line when it is short text, else what the code means.
fn generic_message(code: u16, body: &[u8]) -> String {
    let line = std::str::from_utf8(body).unwrap_or_default().lines().next().unwrap_or_default().trim();
    if !line.is_empty() && line.len() <= 200 && !line.starts_with(['{', '<']) {
        return line.to_owned();
    }
    match code {
        401 => "the server has asked for the client to provide credentials",
        403 => "the server does not allow access to the requested resource",
        404 => "the server could not find the requested resource",
        406 => "the server was unable to respond with a content type that the client supports",
        410 => "the requested revision is no longer available",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => "the server was unable to return a response in the time allotted",
        _ => return format!("the server answered with status {code}"),
    }
    .to_owned()
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.kind) {
            (None, _) => f.write_str(&self.message),
            (_, FailureKind::Unauthorized) => write!(f, "You must be logged in to the server ({})", self.message),
            _ if self.reason.is_empty() => write!(f, "Error from server: {}", self.message),
            _ => write!(f, "Error from server ({}): {}", self.reason, self.message),
        }
    }
}

impl std::error::Error for Failure {}
