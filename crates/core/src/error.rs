//! The one error that reaches the user: what failed, what to do about it, and the exit code.

use crate::exit::ExitCode;

/// A message for the user, an optional hint that says what to do next, and how the process ends.
///
/// Messages are lower-case fragments without a final period; `main` prints them as `error: …` and `hint: …`.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// How the process ends.
    pub exit: ExitCode,
    /// What failed; empty when there is nothing to say (a closed pipe).
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
}

/// Result with the user-facing [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    fn new(exit: ExitCode, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hint: None }
    }

    /// Something failed (exit 1).
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Error, message)
    }

    /// The command line is wrong (exit 2).
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Usage, message)
    }

    /// A guard refused (exit 6).
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Refused, message)
    }

    /// Cancelled at the prompt (exit 4).
    pub fn cancelled(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Cancelled, message)
    }

    /// The reader of our output went away; that is no error and needs no words.
    pub fn closed_pipe() -> Self {
        Self::new(ExitCode::Done, "")
    }

    /// Adds what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
