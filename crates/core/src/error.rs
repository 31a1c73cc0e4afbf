//! The error of the core: a kind, a message, and a hint. The command line adds exit codes and the names of its flags.

/// Reason why the core gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The user's input is wrong.
    Invalid,
    /// A safety rule refused.
    Refused,
    Failed,
}

/// Advice on what to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// A complete sentence in the imperative.
    Text(String),
    /// Give a message, or none.
    Message,
    /// Name the source of fluxd: URL, branch and paths.
    FluxV1Source,
    /// Name the parent of the ApplySet, and its namespace.
    ApplySetParent,
    Namespace,
}

impl From<&str> for Hint {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Hint {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// A failure: its kind, a message and an optional hint. Messages are lower-case fragments without a final period.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    pub kind: ErrorKind,
    pub message: String,
    pub hint: Option<Hint>,
}

/// Result with the [`Error`] of the core.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None }
    }

    /// Returns an error for wrong input.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// Returns an error for what a safety rule refuses.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Refused, message)
    }

    /// Returns an error for a failure.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Failed, message)
    }

    /// Adds advice on what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<Hint>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
