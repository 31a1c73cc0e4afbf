//! Exit codes of the process. Every man page has the same table.

/// Result of a run, as the shell sees it. The numbers are a contract (EXIT STATUS in the man pages).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitCode {
    /// Done, or nothing to do.
    Done = 0,
    Error = 1,
    /// Wrong usage; nothing was changed.
    Usage = 2,
    /// The plan deletes something, or an inventory has findings (only with `--detailed-exitcode`).
    Found = 3,
    /// Cancelled at the prompt; nothing was changed.
    Cancelled = 4,
    /// Partly done, or the answer is incomplete because something could not be read.
    Partial = 5,
    /// Refused by a limit or a rule, or a plan with an alarm; nothing was changed.
    Refused = 6,
    /// Interrupted by Ctrl-C: 128 plus the number of the signal.
    Interrupted = 130,
}

/// Rows of EXIT STATUS in the man pages.
pub const EXIT_STATUS: [(ExitCode, &str); 8] = [
    (ExitCode::Done, "done, or nothing to do"),
    (ExitCode::Error, "an error"),
    (ExitCode::Usage, "wrong usage; nothing was changed"),
    (ExitCode::Found, "the plan deletes something, or there are findings (only with --detailed-exitcode)"),
    (ExitCode::Cancelled, "cancelled at the prompt; nothing was changed"),
    (ExitCode::Partial, "partly done, or the answer is incomplete because something could not be read"),
    (ExitCode::Refused, "refused by a limit or a rule, or the plan has an alarm; nothing was changed"),
    (ExitCode::Interrupted, "interrupted"),
];

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code as u8)
    }
}
