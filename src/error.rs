//! The error that the user sees: a message, a hint that names flags, and the exit code.

use gitops_core::error::{ErrorKind, Hint};

use crate::exit::ExitCode;

/// A message, an optional hint, and the exit code.
///
/// Messages are lower-case fragments without a final period; `main` prints them as `error: …` and `hint: …`.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    pub exit: ExitCode,
    /// Message of the failure; empty if there is nothing to print (a closed pipe).
    pub message: String,
    /// Advice on what to do next.
    pub hint: Option<String>,
}

/// Result with the [`Error`] that the user sees.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    fn new(exit: ExitCode, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hint: None }
    }

    /// Returns an error for a failure (exit 1).
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Error, message)
    }

    /// Returns an error for wrong usage (exit 2).
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Usage, message)
    }

    /// Returns an error for what a guard refuses (exit 6).
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Refused, message)
    }

    /// Returns an error for a cancelled prompt (exit 4).
    pub fn cancelled(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Cancelled, message)
    }

    /// Returns the error of a run that Ctrl-C ended (exit 130).
    pub fn interrupted(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Interrupted, message)
    }

    /// Returns the silent end of a run whose reader closed the pipe (exit 0).
    pub fn closed_pipe() -> Self {
        Self::new(ExitCode::Done, "")
    }

    /// Adds advice on what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<gitops_core::error::Error> for Error {
    fn from(error: gitops_core::error::Error) -> Self {
        let exit = match error.kind {
            ErrorKind::Invalid => ExitCode::Usage,
            ErrorKind::Refused => ExitCode::Refused,
            ErrorKind::Failed => ExitCode::Error,
        };
        Self { exit, message: error.message, hint: error.hint.map(hint_text) }
    }
}

/// Words a hint of the core with the flags of this command line.
fn hint_text(hint: Hint) -> String {
    match hint {
        Hint::Text(text) => return text,
        Hint::Message => "say why with -m, or leave -m out",
        Hint::FluxV1Source => "name the source with --git-url, --git-branch and --git-path",
        Hint::ApplySetParent => "name the parent that `kubectl apply --applyset` was given, and its namespace with -n",
        Hint::Namespace => "pass -n",
    }
    .to_owned()
}
