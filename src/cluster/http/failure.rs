//! Failed requests, with kubectl's messages. Classified by status code, because answers of proxies and webhooks have no
//! reason (docs/reference/kubectl-plugin.md 6.5).

use std::fmt;
use std::io;
use std::time::Duration;

use http::{HeaderMap, StatusCode, header::RETRY_AFTER};
use serde::Deserialize;

use gitops_core::kubernetes::gap::{Gap, GapKind};

/// First bytes of every answer of the API server in protobuf.
pub(crate) const PROTOBUF: &[u8] = b"k8s\0";

/// Classes of failure that callers act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// 401: the credentials were not accepted.
    Unauthorized,
    /// 403: the user may not do this.
    Forbidden,
    /// 404: the object or the type does not exist.
    NotFound,
    /// 409: a precondition (uid, resourceVersion) did not hold.
    Conflict,
    /// 409 with reason `AlreadyExists`.
    AlreadyExists,
    /// 410: the revision of a list or watch expired; a list may continue with [`Failure::continue_token`].
    Expired,
    /// 429, after all retries.
    Throttled,
    /// 400 or 422: the request is invalid.
    Invalid,
    /// 406: the server does not support the requested form, such as metadata only.
    NotAcceptable,
    /// 502 or 503, after all retries: a server behind the API server is unavailable.
    Unavailable,
    /// 408, 504, or no answer within the request timeout. A change may still have taken effect.
    Timeout,
    /// No connection, or it ended before the answer was complete. A change may still have taken effect.
    Unreachable,
    /// 2xx with content that no API server sends, such as the login page of a proxy.
    Foreign,
    Other,
}

/// A failed request. `Display` is kubectl's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Class of the failure.
    pub kind: FailureKind,
    /// HTTP status code; `None` when no answer came.
    pub code: Option<u16>,
    /// The server's machine-readable reason such as `Forbidden`; empty if there is none.
    pub reason: String,
    /// Message of the server or of the network layer. Untrusted: escape it before printing.
    pub message: String,
    /// Of a 410: the token to continue the list in a newer revision.
    pub continue_token: Option<String>,
    /// Wait requested by the server.
    pub retry_after: Option<Duration>,
    /// Name of the object that a `Status` of the API server is about.
    pub object: Option<String>,
}

/// The parts of a `Status` object that are read.
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
    #[serde(default)]
    name: String,
}

impl Failure {
    /// Converts an answer other than 2xx.
    pub(crate) fn of_answer(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        let parsed = serde_json::from_slice::<Status>(body).ok().filter(|status| status.kind == "Status");
        let header = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
        let detail = parsed.as_ref().and_then(|status| status.details.as_ref()).map(|details| details.retry_after);
        let object = parsed.as_ref().and_then(|status| status.details.as_ref()).map(|details| details.name.clone());
        let (reason, message, token) = match parsed {
            Some(status) => (status.reason, status.message, status.metadata.continue_token),
            None => Default::default(),
        };
        Self {
            kind: classify(status.as_u16(), &reason),
            code: Some(status.as_u16()),
            message: if message.is_empty() { generic_message(status.as_u16(), body) } else { message },
            reason: if reason.is_empty() { generic_reason(status.as_u16()).to_owned() } else { reason },
            continue_token: Some(token).filter(|token| !token.is_empty()),
            retry_after: header.or(detail.filter(|seconds| *seconds > 0)).map(Duration::from_secs),
            object: object.filter(|name| !name.is_empty()),
        }
    }

    /// Converts a network error. `host` names the server, and its proxy if there is one.
    pub(crate) fn of_transport(host: &str, error: &kube::Error) -> Self {
        let mut cause: &(dyn std::error::Error + 'static) = error;
        let (mut refused, mut timed_out) = (false, false);
        loop {
            let io = cause.downcast_ref::<io::Error>();
            refused |= io.is_some_and(|io| io.kind() == io::ErrorKind::ConnectionRefused);
            timed_out |= io.is_some_and(|io| io.kind() == io::ErrorKind::TimedOut);
            // An io::Error that wraps another error does not return it as its source.
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
        Self::without_answer(FailureKind::Unreachable, message)
    }

    /// Returns the failure of a request that exceeded the request timeout.
    pub(crate) fn of_timeout(host: &str, limit: Duration) -> Self {
        let message = format!("Unable to connect to the server: {host} did not answer within {limit:?}");
        Self::without_answer(FailureKind::Timeout, message)
    }

    /// Converts a `Status` that kube has parsed.
    pub(crate) fn of_status(status: &kube::core::Status) -> Self {
        Self {
            kind: classify(status.code, &status.reason),
            code: Some(status.code),
            message: status.message.clone(),
            reason: status.reason.clone(),
            continue_token: None,
            retry_after: None,
            object: None,
        }
    }

    /// Returns the failure of a request that cannot be built.
    pub(crate) fn of_request(problem: impl fmt::Display) -> Self {
        Self::without_answer(FailureKind::Other, format!("the request cannot be sent: {problem}"))
    }

    /// Returns the failure of an answer that cannot be decoded.
    pub(crate) fn unreadable(problem: impl fmt::Display) -> Self {
        Self::without_answer(FailureKind::Other, format!("the answer cannot be read: {problem}"))
    }

    /// Returns the failure of an answer to `request`, a method and a path, whose content is neither JSON nor protobuf;
    /// `None` for any other answer.
    pub(crate) fn of_foreign_content(host: &str, request: &str, body: &[u8]) -> Option<Self> {
        let content = match body.trim_ascii_start() {
            [] => "an empty body",
            [b'{', ..] => return None,
            _ if body.starts_with(PROTOBUF) => return None,
            [b'<', ..] => "a web page",
            _ => "text",
        };
        let message = format!("the server {host} answered {request} with {content}, as no Kubernetes API server does");
        Some(Self::without_answer(FailureKind::Foreign, message))
    }

    fn without_answer(kind: FailureKind, message: String) -> Self {
        Self { kind, code: None, reason: String::new(), message, continue_token: None, retry_after: None, object: None }
    }

    /// Converts a failed read into a gap.
    pub fn gap(&self, subject: impl Into<String>, namespace: Option<&str>) -> Gap {
        let kind = match self.kind {
            FailureKind::Unauthorized | FailureKind::Forbidden => GapKind::Forbidden,
            FailureKind::NotAcceptable => GapKind::NotAcceptable,
            FailureKind::Expired => GapKind::Expired,
            FailureKind::Throttled => GapKind::Throttled,
            FailureKind::Timeout => GapKind::Timeout,
            _ => GapKind::Failed,
        };
        Gap { kind, subject: subject.into(), namespace: namespace.map(str::to_owned), message: self.message.clone() }
    }
}

/// Returns the class of a status code; 409 has two, by reason.
fn classify(code: u16, reason: &str) -> FailureKind {
    match code {
        400 | 422 => FailureKind::Invalid,
        401 => FailureKind::Unauthorized,
        403 => FailureKind::Forbidden,
        404 => FailureKind::NotFound,
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

/// Returns the reason that kubectl shows for an answer without one.
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

/// Returns the message for an answer that is not a `Status`: its first line if that is short text, else client-go's
/// message for the code.
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
