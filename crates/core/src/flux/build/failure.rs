//! Failures of builds, and the proof that the controller fails in the same way.
//!
//! A failure that is not proven says nothing about the controller: it may build, apply and prune. It is a gap, never an
//! outcome.

use super::envsubst::EnvsubstError;
use super::generator::GenerateError;
use super::references::ReferenceError;
use super::substitute::SubstituteError;
use crate::flux::kustomize_controller::KustomizeVersions;
use crate::kubernetes::redact::redact_urls;
use crate::plan::{Reason, ReasonCode};

/// Reason why a build has no objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildFailure {
    /// The controller fails in the same way, so the owner is blocked.
    Proven(Reason),
    /// The build fails here. The result in the controller is not known.
    Unknown(Reason),
}

impl BuildFailure {
    /// Creates a failure that the controller has too, with the code `build-failed`.
    pub(crate) fn proven(message: impl Into<String>) -> Self {
        Self::Proven(Reason::new(ReasonCode::BuildFailed, message))
    }

    /// Creates a failure of this tool.
    pub fn unknown(code: ReasonCode, detail: impl Into<String>) -> Self {
        Self::Unknown(Reason::new(code, detail))
    }

    /// Creates the failure for a field of the spec that the snapshot lacks.
    pub(super) fn not_recorded(field: &str) -> Self {
        let detail = format!(
            "the snapshot has no value of spec.{field}: plan with the cluster, or record it with --with-values"
        );
        Self::unknown(ReasonCode::SpecNotRecorded, detail)
    }

    /// Returns the reason of the failure.
    pub fn reason(&self) -> &Reason {
        match self {
            Self::Proven(reason) | Self::Unknown(reason) => reason,
        }
    }
}

/// Reason why a build, or another computation that asks questions, has no result now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interrupt<F = BuildFailure> {
    /// An answer is missing. It is among the needs, and the computation is repeated with it.
    Missing,
    /// There is no result, for this reason.
    Failed(F),
}

impl<F> From<F> for Interrupt<F> {
    fn from(failure: F) -> Self {
        Self::Failed(failure)
    }
}

impl From<ReferenceError> for BuildFailure {
    fn from(error: ReferenceError) -> Self {
        let message = redact_urls(&error.to_string());
        match error {
            ReferenceError::Refused(_) => Self::proven(message),
            ReferenceError::Unsafe(_) => Self::unknown(ReasonCode::ReferenceRefused, message),
            ReferenceError::Unreadable(_) => Self::unknown(ReasonCode::ManifestUnreadable, message),
        }
    }
}

impl From<GenerateError> for BuildFailure {
    fn from(error: GenerateError) -> Self {
        let message = error.to_string();
        match error {
            GenerateError::PathMissing(_) => Self::Proven(Reason::new(ReasonCode::PathNotFound, message)),
            GenerateError::Component(_) | GenerateError::File(..) => Self::proven(message),
            GenerateError::Unreadable(..) => Self::unknown(ReasonCode::ManifestUnreadable, message),
        }
    }
}

impl From<EnvsubstError> for BuildFailure {
    fn from(error: EnvsubstError) -> Self {
        let message = error.to_string();
        match error {
            EnvsubstError::Exceeded(_) => Self::unknown(ReasonCode::LimitExceeded, message),
            EnvsubstError::Malformed(_)
            | EnvsubstError::Unset(_)
            | EnvsubstError::Overflow(_)
            | EnvsubstError::NotUtf8 => Self::proven(message),
        }
    }
}

impl From<SubstituteError> for BuildFailure {
    fn from(error: SubstituteError) -> Self {
        match error {
            SubstituteError::Missing(_) | SubstituteError::Name(_) | SubstituteError::NameInSecret => {
                Self::proven(error.to_string())
            }
            SubstituteError::NotRead(_) => Self::unknown(ReasonCode::SecretNotRead, error.to_string()),
            SubstituteError::Unreadable(..) => Self::unknown(ReasonCode::VariablesUnreadable, error.to_string()),
        }
    }
}

/// Message in place of one that can hold values of Secrets.
const HIDDEN_MESSAGE: &str = "its message can hold values of Secrets";

/// End of a kustomize process that failed.
#[derive(Clone, Copy, Debug)]
pub struct KustomizeExit<'a> {
    /// Exit code; `None` if a signal ended the process.
    pub code: Option<i32>,
    /// Text on stderr, without paths of this machine.
    pub message: &'a str,
    /// The build fetches from the network.
    pub fetches: bool,
    /// The message can hold values of Secrets.
    pub is_private: bool,
}

impl KustomizeExit<'_> {
    /// Returns the failure of the build.
    ///
    /// The controller fails in the same way if it links the same minor version of kustomize, and if kustomize rejected
    /// the files and nothing else: it ended by itself with exit code 1, fetched nothing, and names no fault of the machine.
    pub fn failure(&self, versions: &KustomizeVersions) -> BuildFailure {
        let written = redact_urls(self.message.trim());
        let message = if self.is_private { HIDDEN_MESSAGE.to_owned() } else { written.clone() };
        let Some(code) = self.code else {
            return BuildFailure::unknown(ReasonCode::BuildCrashed, with("a signal ended kustomize", &message));
        };
        if code != 1 || is_panic(&written) {
            let first_line = message.lines().next().unwrap_or_default();
            let detail = with(&format!("kustomize ended with exit code {code}"), first_line);
            return BuildFailure::unknown(ReasonCode::BuildCrashed, detail);
        }
        if self.fetches {
            return BuildFailure::unknown(ReasonCode::FetchFailed, with("a remote base was not fetched", &message));
        }
        if written.is_empty() || names_machine_fault(&written) {
            return BuildFailure::unknown(ReasonCode::BuildInterrupted, with("kustomize failed here", &message));
        }
        match versions.difference() {
            Some(difference) => {
                BuildFailure::unknown(ReasonCode::OtherKustomize, format!("{difference}; it failed: {message}"))
            }
            None => BuildFailure::proven(message),
        }
    }
}

fn with(what: &str, message: &str) -> String {
    if message.is_empty() { what.to_owned() } else { format!("{what}: {message}") }
}

/// Returns true for the text of a program written in Go that crashed.
fn is_panic(message: &str) -> bool {
    ["panic: ", "fatal error: ", "runtime: ", "SIGSEGV", "goroutine "].iter().any(|sign| message.contains(sign))
}

/// Returns true if a message names a fault that another machine need not have: the network, a time limit, a resource, a
/// right, or another program such as git.
fn names_machine_fault(message: &str) -> bool {
    const FAULTS: [&str; 30] = [
        "context deadline exceeded",
        "context canceled",
        "timeout",
        "timed out",
        "no such host",
        "could not resolve",
        "dial tcp",
        "dial unix",
        "lookup ",
        "connection refused",
        "connection reset",
        "network is unreachable",
        "no route to host",
        "tls: ",
        "x509: ",
        "git fetch",
        "git init",
        "executable file not found",
        "exit status",
        "signal: ",
        "permission denied",
        "operation not permitted",
        "no space left",
        "quota exceeded",
        "read-only file system",
        "too many open files",
        "cannot allocate memory",
        "out of memory",
        "input/output error",
        "resource temporarily unavailable",
    ];
    let lowercase = message.to_lowercase();
    FAULTS.iter().any(|fault| lowercase.contains(fault))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::{Exceeded, SUBSTITUTION_SIZE};

    fn versions(program: &str, linked: Option<&'static str>) -> KustomizeVersions {
        KustomizeVersions { program: program.to_owned(), linked }
    }

    fn failure(code: Option<i32>, message: &str, fetches: bool, program: &str) -> BuildFailure {
        KustomizeExit { code, message, fetches, is_private: false }.failure(&versions(program, Some("5.8")))
    }

    #[test]
    fn a_limit_of_this_tool_is_no_failure_of_the_controller() {
        let limit = BuildFailure::from(EnvsubstError::from(Exceeded(SUBSTITUTION_SIZE)));
        assert!(
            matches!(&limit, BuildFailure::Unknown(reason) if reason.code == ReasonCode::LimitExceeded),
            "{limit:?}"
        );
        let malformed = BuildFailure::from(EnvsubstError::Malformed("${".to_owned()));
        assert!(matches!(&malformed, BuildFailure::Proven(_)), "{malformed:?}");
    }

    #[test]
    fn a_message_that_is_hidden_is_judged_all_the_same() {
        let failure = |message: &str| {
            let exit = KustomizeExit { code: Some(1), message, fetches: false, is_private: true };
            exit.failure(&versions("v5.8.1", Some("5.8")))
        };
        let full = failure("write hunter2: no space left on device");
        assert_eq!(full.reason().code, ReasonCode::BuildInterrupted);
        let rejected = failure("no such file: hunter2");
        assert_eq!(rejected, BuildFailure::proven(HIDDEN_MESSAGE));
        assert!(!full.reason().to_string().contains("hunter2"));
    }

    #[test]
    fn only_a_clean_rejection_by_the_same_kustomize_is_proven() {
        let rejected = "accumulating resources: open /apps/none.yaml: no such file or directory";
        assert_eq!(failure(Some(1), rejected, false, "v5.8.1"), BuildFailure::proven(rejected));
        let rows = [
            ("another minor version", Some(1), rejected, false, "v5.5.0", ReasonCode::OtherKustomize),
            ("a longer number", Some(1), rejected, false, "v5.80.0", ReasonCode::OtherKustomize),
            ("a version that is no number", Some(1), rejected, false, "(devel)", ReasonCode::OtherKustomize),
            ("a signal", None, rejected, false, "v5.8.1", ReasonCode::BuildCrashed),
            ("a panic", Some(2), "panic: runtime error", false, "v5.8.1", ReasonCode::BuildCrashed),
            ("a panic with exit code 1", Some(1), "panic: x\ngoroutine 1", false, "v5.8.1", ReasonCode::BuildCrashed),
            ("memory", Some(2), "fatal error: runtime: out of memory", false, "v5.8.1", ReasonCode::BuildCrashed),
            ("exit code 137", Some(137), "", false, "v5.8.1", ReasonCode::BuildCrashed),
            ("a remote base", Some(1), rejected, true, "v5.8.1", ReasonCode::FetchFailed),
            ("no message", Some(1), " ", false, "v5.8.1", ReasonCode::BuildInterrupted),
            ("a name", Some(1), "dial tcp: lookup x: no such host", false, "v5.8.1", ReasonCode::BuildInterrupted),
            ("a full disk", Some(1), "write x: no space left on device", false, "v5.8.1", ReasonCode::BuildInterrupted),
            ("git", Some(1), "failed to run '/usr/bin/git fetch x'", false, "v5.8.1", ReasonCode::BuildInterrupted),
        ];
        for (name, code, message, fetches, program, expected) in rows {
            match failure(code, message, fetches, program) {
                BuildFailure::Unknown(reason) => assert_eq!(reason.code, expected, "{name}: {reason}"),
                proven => panic!("{name}: {proven:?}"),
            }
        }
        let exit = KustomizeExit { code: Some(1), message: rejected, fetches: false, is_private: false };
        let unknown = exit.failure(&versions("v5.8.1", None));
        assert_eq!(unknown.reason().code, ReasonCode::OtherKustomize, "it is not known what the controller links");
    }
}
