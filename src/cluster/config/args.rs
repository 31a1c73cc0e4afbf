//! kubectl's connection flags, which a plugin must define itself: kubectl does not pass its own on
//! (docs/reference/kubectl-plugin.md 2.1). This module reads no file and no environment variable.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args};

pub use gitops_core::kubernetes::duration::parse as parse_duration;
use gitops_core::text::shell_word;

/// Heading of these flags in the help.
const HEADING: &str = "Connection options";

/// Time limit of one request without `--request-timeout`.
///
/// kubectl has no limit; a tool that reads hundreds of lists would wait forever for one aggregated API without an answer.
pub const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Connection flags with kubectl's names and meaning. As in kubectl, an empty value counts as absent.
///
/// Of kubectl's flags these are missing: `--cache-dir` (nothing is cached on disk), `--username` and `--password` (deprecated).
#[derive(Args, Clone, Debug, Default)]
pub struct ConnectionArgs {
    /// Path to the kubeconfig file to use; KUBECONFIG is then ignored
    #[arg(long, global = true, value_name = "FILE", help_heading = HEADING)]
    pub kubeconfig: Option<PathBuf>,
    /// Name of the kubeconfig context to use
    #[arg(long, global = true, value_name = "NAME", help_heading = HEADING)]
    pub context: Option<String>,
    /// Name of the kubeconfig cluster to use
    #[arg(long, global = true, value_name = "NAME", help_heading = HEADING)]
    pub cluster: Option<String>,
    /// Name of the kubeconfig user to use
    #[arg(long, global = true, value_name = "NAME", help_heading = HEADING)]
    pub user: Option<String>,
    /// Namespace; get, suspend and resume default to the context's
    #[arg(short, long, global = true, value_name = "NAMESPACE", help_heading = HEADING)]
    pub namespace: Option<String>,
    /// Address and port of the Kubernetes API server
    #[arg(short, long, global = true, value_name = "URL", help_heading = HEADING)]
    pub server: Option<String>,
    /// Bearer token for authentication to the API server
    #[arg(long, global = true, value_name = "TOKEN", help_heading = HEADING)]
    pub token: Option<Secret>,
    /// Path to a client certificate file for TLS
    #[arg(long, global = true, value_name = "FILE", help_heading = HEADING)]
    pub client_certificate: Option<PathBuf>,
    /// Path to a client key file for TLS
    #[arg(long, global = true, value_name = "FILE", help_heading = HEADING)]
    pub client_key: Option<PathBuf>,
    /// Path to a file with the certificate authority's certificates
    #[arg(long, global = true, value_name = "FILE", help_heading = HEADING)]
    pub certificate_authority: Option<PathBuf>,
    /// Name to verify the server's certificate against; the server's host name when absent
    #[arg(long, global = true, value_name = "NAME", help_heading = HEADING)]
    pub tls_server_name: Option<String>,
    /// Do not check the server's certificate; this makes the connection insecure
    #[arg(
        long, global = true, help_heading = HEADING, value_name = "BOOL", action = ArgAction::Set,
        value_parser = BoolishValueParser::new(), num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value = "false", hide_default_value = true, hide_possible_values = true
    )]
    pub insecure_skip_tls_verify: bool,
    /// User or service account to impersonate
    #[arg(long = "as", global = true, value_name = "USER", help_heading = HEADING)]
    pub impersonate: Option<String>,
    /// UID of the user to impersonate
    #[arg(long = "as-uid", global = true, value_name = "UID", help_heading = HEADING)]
    pub impersonate_uid: Option<String>,
    /// Group to impersonate; may be repeated
    #[arg(long = "as-group", global = true, value_name = "GROUP", help_heading = HEADING)]
    pub impersonate_groups: Vec<String>,
    /// Extra field to impersonate; may be repeated
    #[arg(long = "as-user-extra", global = true, value_name = "KEY=VALUE", value_parser = key_value, help_heading = HEADING)]
    pub impersonate_extra: Vec<(String, String)>,
    /// Time limit of one request: 5s, 2m, or seconds; 0 is no limit; 30s when absent
    #[arg(long, global = true, value_name = "DURATION", value_parser = duration, help_heading = HEADING)]
    pub request_timeout: Option<Duration>,
    /// Ask the server not to compress its answers
    #[arg(
        long, global = true, help_heading = HEADING, value_name = "BOOL", action = ArgAction::Set,
        value_parser = BoolishValueParser::new(), num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value = "false", hide_default_value = true, hide_possible_values = true
    )]
    pub disable_compression: bool,
    /// Verb that the User-Agent names, so that audit logs tell a deletion from a suspension.
    #[arg(skip)]
    pub verb: &'static str,
}

impl ConnectionArgs {
    /// Returns the flags for another context of the same kubeconfig, without those that name this cluster and its user.
    pub(crate) fn of_context(&self, context: &str) -> Self {
        Self {
            kubeconfig: self.kubeconfig.clone(),
            context: Some(context.to_owned()),
            request_timeout: self.request_timeout,
            disable_compression: self.disable_compression,
            verb: self.verb,
            ..Self::default()
        }
    }

    /// Returns true if requests are sent as somebody else.
    pub(crate) fn impersonates(&self) -> bool {
        self.impersonate.is_some() || self.impersonate_uid.is_some() || !self.impersonate_groups.is_empty()
    }

    /// Returns the name of a flag that is about one cluster or the credentials for it, if one is given.
    pub fn flag_of_one_cluster(&self) -> Option<&'static str> {
        let flags = [
            ("--context", is_given(self.context.as_deref())),
            ("--cluster", is_given(self.cluster.as_deref())),
            ("--user", is_given(self.user.as_deref())),
            ("--server", is_given(self.server.as_deref())),
            ("--token", self.token.is_some()),
            ("--client-certificate", self.client_certificate.is_some()),
            ("--client-key", self.client_key.is_some()),
            ("--certificate-authority", self.certificate_authority.is_some()),
            ("--tls-server-name", is_given(self.tls_server_name.as_deref())),
            ("--insecure-skip-tls-verify", self.insecure_skip_tls_verify),
        ];
        flags.into_iter().find_map(|(flag, given)| given.then_some(flag))
    }

    /// Returns the flags that select the same cluster and user again, each after a space, for a command to copy. The token is
    /// left out, because it is secret.
    pub(crate) fn of_same_cluster(&self) -> String {
        let mut flags = vec![
            ("--kubeconfig", shown(self.kubeconfig.as_deref())),
            ("--context", self.context.clone()),
            ("--cluster", self.cluster.clone()),
            ("--user", self.user.clone()),
            ("--server", self.server.clone()),
            ("--client-certificate", shown(self.client_certificate.as_deref())),
            ("--client-key", shown(self.client_key.as_deref())),
            ("--certificate-authority", shown(self.certificate_authority.as_deref())),
            ("--tls-server-name", self.tls_server_name.clone()),
            ("--as", self.impersonate.clone()),
            ("--as-uid", self.impersonate_uid.clone()),
        ];
        flags.extend(self.impersonate_groups.iter().map(|group| ("--as-group", Some(group.clone()))));
        let extra =
            self.impersonate_extra.iter().map(|(key, value)| ("--as-user-extra", Some(format!("{key}={value}"))));
        flags.extend(extra);
        let given =
            flags.into_iter().filter_map(|(flag, value)| Some((flag, value.filter(|value| !value.is_empty())?)));
        let mut text: String = given.map(|(flag, value)| format!(" {flag} {}", shell_word(&value))).collect();
        if self.insecure_skip_tls_verify {
            text += " --insecure-skip-tls-verify";
        }
        text
    }

    /// Returns the time limit of one request including its retries; `None` is no limit.
    pub fn request_timeout(&self) -> Option<Duration> {
        Some(self.request_timeout.unwrap_or(DEFAULT_REQUEST_TIMEOUT)).filter(|limit| !limit.is_zero())
    }
}

fn shown(path: Option<&Path>) -> Option<String> {
    path.map(|path| path.display().to_string())
}

/// A secret from the command line. `Debug` hides it.
#[derive(Clone, Default)]
pub struct Secret(String);

impl Secret {
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[hidden]")
    }
}

fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or("must be KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Parses the value of a flag as kubectl parses --request-timeout: whole seconds, or a duration.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().map(Duration::from_secs);
    let duration = seconds.or_else(|| parse_duration(text));
    duration.ok_or_else(|| "it must be a duration such as 30s, 5m or 1h30m, or a number of seconds".to_owned())
}

fn is_given(text: Option<&str>) -> bool {
    text.is_some_and(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use super::{ConnectionArgs, DEFAULT_REQUEST_TIMEOUT, parse_duration};

    #[derive(Debug, Parser)]
    struct TestCommandLine {
        #[command(flatten)]
        connection: ConnectionArgs,
        #[command(subcommand)]
        verb: TestVerb,
    }

    #[derive(Debug, clap::Subcommand)]
    enum TestVerb {
        Get { names: Vec<String> },
    }

    fn parse(line: &[&str]) -> Result<TestCommandLine, clap::Error> {
        TestCommandLine::try_parse_from([&["kubectl-gitops"], line].concat())
    }

    #[test]
    fn flag_syntax() {
        type Check = fn(&ConnectionArgs) -> bool;
        let rows: &[(&str, &[&str], Check)] = &[
            ("nothing", &["get"], |c| !c.insecure_skip_tls_verify && !c.disable_compression && c.namespace.is_none()),
            ("before the verb", &["--context", "a", "get"], |c| c.context.as_deref() == Some("a")),
            ("after the arguments", &["get", "x", "--context", "a"], |c| c.context.as_deref() == Some("a")),
            ("with =", &["get", "--context=a"], |c| c.context.as_deref() == Some("a")),
            ("-n x", &["get", "-n", "x"], |c| c.namespace.as_deref() == Some("x")),
            ("-n=x", &["get", "-n=x"], |c| c.namespace.as_deref() == Some("x")),
            ("-nx", &["get", "-nx"], |c| c.namespace.as_deref() == Some("x")),
            ("-s URL", &["get", "-s", "http://h"], |c| c.server.as_deref() == Some("http://h")),
            ("bool alone", &["get", "--insecure-skip-tls-verify"], |c| c.insecure_skip_tls_verify),
            ("bool before an argument", &["get", "--insecure-skip-tls-verify", "x"], |c| c.insecure_skip_tls_verify),
            ("bool=true", &["get", "--insecure-skip-tls-verify=true"], |c| c.insecure_skip_tls_verify),
            ("bool=false", &["get", "--insecure-skip-tls-verify=false"], |c| !c.insecure_skip_tls_verify),
            ("bool=0", &["get", "--disable-compression=0"], |c| !c.disable_compression),
            ("groups", &["get", "--as=u", "--as-group=a", "--as-group", "b"], |c| c.impersonate_groups == ["a", "b"]),
            ("extra", &["get", "--as-user-extra=a=b=c"], |c| {
                c.impersonate_extra == [("a".to_owned(), "b=c".to_owned())]
            }),
            ("no timeout", &["get"], |c| c.request_timeout() == Some(DEFAULT_REQUEST_TIMEOUT)),
            ("timeout 0", &["get", "--request-timeout=0"], |c| c.request_timeout().is_none()),
            ("timeout 0s", &["get", "--request-timeout=0s"], |c| c.request_timeout().is_none()),
            ("timeout 1", &["get", "--request-timeout=1"], |c| c.request_timeout() == Some(Duration::from_secs(1))),
            ("timeout 2m", &["get", "--request-timeout", "2m"], |c| {
                c.request_timeout() == Some(Duration::from_secs(120))
            }),
        ];
        for (name, line, check) in rows {
            let cli = parse(line).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(check(&cli.connection), "{name}: {:?}", cli.connection);
        }
    }

    #[test]
    fn flags_of_the_same_cluster_are_words_of_a_shell_without_the_token() {
        let line =
            ["get", "--context", "prod", "--as=system:serviceaccount:a:b", "--as-group=x y", "--token=t", "-n", "shop"];
        let flags = parse(&line).unwrap().connection.of_same_cluster();
        assert_eq!(flags, " --context prod --as system:serviceaccount:a:b --as-group 'x y'");
        let line =
            ["get", "--kubeconfig=/a b/it's", "-s", "https://h:6443", "--insecure-skip-tls-verify", "--context="];
        let flags = parse(&line).unwrap().connection.of_same_cluster();
        assert_eq!(flags, " --kubeconfig '/a b/it'\\''s' --server https://h:6443 --insecure-skip-tls-verify");
    }

    #[test]
    fn invalid_flags() {
        let timeout = "it must be a duration such as 30s, 5m or 1h30m, or a number of seconds";
        for (name, flag, expected) in [
            ("timeout word", "--request-timeout=soon", timeout),
            ("timeout negative", "--request-timeout=-1", timeout),
            ("timeout negative unit", "--request-timeout=-1s", timeout),
            ("timeout empty", "--request-timeout=", timeout),
            ("timeout without unit", "--request-timeout=1.5", timeout),
            ("extra without =", "--as-user-extra=a", "must be KEY=VALUE"),
            ("extra without key", "--as-user-extra==a", "must be KEY=VALUE"),
        ] {
            let error = parse(&["get", flag]).expect_err(name).to_string();
            assert!(error.contains(expected), "{name}: {error}");
        }
    }

    #[test]
    fn durations() {
        for (text, expected) in [
            ("0", Some(0)),
            ("0s", Some(0)),
            ("5s", Some(5_000)),
            ("1h30m", Some(5_400_000)),
            ("1.5s", Some(1_500)),
            ("300ms", Some(300)),
            ("2m", Some(120_000)),
            ("", None),
            ("5", None),
            ("s", None),
            ("5 s", None),
            ("5d", None),
            ("1s2", None),
            ("1..5s", None),
            ("-1s", None),
            ("99999999999999999999999h", None),
        ] {
            assert_eq!(parse_duration(text), expected.map(Duration::from_millis), "{text:?}");
        }
    }

    #[test]
    fn debug_hides_the_token() {
        let cli = parse(&["get", "--token=hunter2"]).expect("a token");
        assert!(!format!("{cli:?}").contains("hunter2"));
        assert_eq!(cli.connection.token.expect("a token").expose(), "hunter2");
    }
}
