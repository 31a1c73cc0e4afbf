//! Conversion of a [`Failure`] to the error shown to the user, with the next step as its hint.

use super::failure::{Failure, FailureKind};
use crate::error::Error;

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        let error = Self::failed(failure.to_string());
        match hint(&failure) {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }
}

/// Returns the next step for the user, if there is one.
fn hint(failure: &Failure) -> Option<String> {
    match failure.kind {
        FailureKind::Unauthorized => {
            Some("log in again, or check the credentials with `kubectl auth whoami`".to_owned())
        }
        FailureKind::Forbidden => Some(match can_i(&failure.message) {
            Some(question) => format!("check with `{question}`"),
            None => "check with `kubectl auth can-i --list`".to_owned(),
        }),
        FailureKind::Throttled => Some(match failure.retry_after {
            Some(wait) => format!("the server is overloaded; try again in {} s", wait.as_secs()),
            None => "the server is overloaded; try again later".to_owned(),
        }),
        FailureKind::Timeout => Some("give the server more time with --request-timeout".to_owned()),
        FailureKind::Unreachable => {
            Some("check the address with `kubectl config view`, and the network connection to it".to_owned())
        }
        FailureKind::Foreign => Some(
            "check the address with `kubectl config view`, and whether a proxy or a login page answers in place of the \
             API server"
                .to_owned(),
        ),
        _ => None,
    }
}

/// Returns the `kubectl auth can-i` command for the API server's message
/// `User "u" cannot VERB resource "R" in API group "G" [in the namespace "N"]`.
///
/// The user may paste it into a shell, so it contains plain words only; `None` if the message has others.
fn can_i(message: &str) -> Option<String> {
    let (verb, rest) = message.split_once(" cannot ")?.1.split_once(" resource \"")?;
    let (resource, rest) = rest.split_once('"')?;
    let (group, rest) = rest.split_once("in API group \"")?.1.split_once('"')?;
    let namespace = rest.split_once("in the namespace \"").and_then(|(_, rest)| Some(rest.split_once('"')?.0));
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    if ![verb, resource, subresource, group, namespace.unwrap_or_default()].into_iter().all(is_plain_word) {
        return None;
    }
    let mut line = format!("kubectl auth can-i {verb} {resource}");
    if !group.is_empty() {
        line += &format!(".{group}");
    }
    if !subresource.is_empty() {
        line += &format!(" --subresource={subresource}");
    }
    match namespace {
        Some(namespace) => line += &format!(" -n {namespace}"),
        None => line += " -A",
    }
    Some(line)
}

fn is_plain_word(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.')
}

#[cfg(test)]
mod tests {
    use super::can_i;

    #[test]
    fn can_i_lines() {
        for (name, message, expected) in [
            (
                "core, namespaced",
                r#"configmaps is forbidden: User "x" cannot list resource "configmaps" in API group "" in the namespace "shop""#,
                Some("kubectl auth can-i list configmaps -n shop"),
            ),
            (
                "group, all namespaces",
                r#"d is forbidden: User "x" cannot list resource "deployments" in API group "apps" at the cluster scope"#,
                Some("kubectl auth can-i list deployments.apps -A"),
            ),
            (
                "subresource",
                r#"User "x" cannot patch resource "deployments/scale" in API group "apps" in the namespace "shop""#,
                Some("kubectl auth can-i patch deployments.apps --subresource=scale -n shop"),
            ),
            (
                "a shell metacharacter",
                r#"User "x" cannot list resource "a;reboot" in API group "" at the cluster scope"#,
                None,
            ),
            ("another sentence", "denied by a webhook", None),
        ] {
            assert_eq!(can_i(message).as_deref(), expected, "{name}");
        }
    }
}
