//! URLs: references that kustomize fetches, and those that are safe to pass to git and HTTP.
//!
//! Source: docs/reference/kustomize-controller.md 3.8.

/// Schemes by which kustomize recognises a repository.
const SCHEMES: [&str; 4] = ["ssh://", "https://", "http://", "file://"];

/// Returns true if kustomize requests a file by HTTP. A malformed URL is a path for it.
pub(super) fn is_http(reference: &str) -> bool {
    strip_prefix(reference, "http:").or_else(|| strip_prefix(reference, "https:")).is_some()
}

/// Returns true if kustomize clones a repository instead of entering a directory.
pub(super) fn is_repository(reference: &str) -> bool {
    if reference.starts_with('/') {
        return false;
    }
    let without_query = reference.split_once('?').map_or(reference, |(before, _)| before);
    let Some(url) = Location::parse(without_query) else { return false };
    let found = explicit_root(url.path)
        .or_else(|| if url.is_file { Some((url.path, "")) } else { organisation_and_name(url.path) });
    found.is_some_and(|(repository, directory)| !repository.is_empty() && !leaves_repository(directory))
}

/// Returns why a URL must not be fetched; `None` if it is safe.
///
/// A safe URL has no character that HTTP, git or kustomize could read differently. No part of it is an option of git, and
/// it names another machine.
pub(super) fn refusal(reference: &str) -> Option<&'static str> {
    if !consists_of(reference, "-._~:/?#@!$&'()*+,;=%[]") || !has_whole_escapes(reference) {
        return Some("has characters that a URL must not have");
    }
    let (address, query) = reference.split_once('?').unwrap_or((reference, ""));
    let Some(url) = Location::parse(address) else { return Some("has no host") };
    if url.is_file {
        return Some("is a repository on this machine");
    }
    let authority = url.host.trim_end_matches(['/', ':']);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, port)) => (name, port.strip_prefix(':').unwrap_or(port)),
        None => host.rsplit_once(':').unwrap_or((host, "")),
    };
    if name.is_empty()
        || name.starts_with('-')
        || !consists_of(name, ".-:")
        || !port.bytes().all(|c| c.is_ascii_digit())
    {
        return Some("has no plain host name");
    }
    if url.is_scp && url.path.starts_with('-') {
        return Some("has a path that begins with -");
    }
    has_option_as_revision(query).then_some("names a revision that begins with -")
}

/// Returns true if a text has letters and digits of ASCII, and these signs.
fn consists_of(text: &str, signs: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || signs.contains(c))
}

/// A URL without its query, as kustomize takes it apart.
struct Location<'a> {
    host: &'a str,
    path: &'a str,
    is_file: bool,
    /// The form `user@host:path`.
    is_scp: bool,
}

impl<'a> Location<'a> {
    /// Returns None for what kustomize does not take for a URL of a repository.
    fn parse(reference: &'a str) -> Option<Self> {
        let rest = strip_prefix(reference, "git::").unwrap_or(reference);
        let scheme = SCHEMES.iter().find(|scheme| strip_prefix(rest, scheme).is_some());
        let rest = scheme.and_then(|scheme| strip_prefix(rest, scheme)).unwrap_or(rest);
        if scheme == Some(&"file://") {
            return Some(Self { host: "file://", path: rest, is_file: true, is_scp: false });
        }
        let user = user_length(rest);
        let rest = &rest[user..];
        let is_github = ["github.com/", "github.com:"].iter().any(|host| strip_prefix(rest, host).is_some());
        let is_scp = scheme.is_none() && (user > 0 || is_github);
        if scheme.is_none() && !is_scp {
            return None;
        }
        let slash = rest.find('/');
        let colon = rest.find(':').filter(|colon| is_scp && *colon > 0 && slash.is_none_or(|slash| *colon < slash));
        let (host, path) = match colon.or(slash) {
            Some(end) => rest.split_at(end + 1),
            None => (rest, ""),
        };
        (!host.is_empty()).then_some(Self { host, path, is_file: false, is_scp })
    }
}

/// Returns the length of `user@` at the beginning of a URL without its scheme.
fn user_length(rest: &str) -> usize {
    let Some((user, _)) = rest.split_once('@') else { return 0 };
    let is_user = user.starts_with(|c: char| c.is_ascii_alphabetic())
        && user.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-');
    if is_user { user.len() + 1 } else { 0 }
}

/// Splits the path of a URL at a sign of the repository's root: `_git/NAME`, `//` or `.git`.
fn explicit_root(path: &str) -> Option<(&str, &str)> {
    if let Some(at) = path.find("_git/") {
        let name = &path[at + "_git/".len()..];
        let end = at + "_git/".len() + name.find('/').unwrap_or(name.len());
        return Some((&path[..end], path[end..].trim_start_matches('/')));
    }
    path.split_once("//").or_else(|| {
        let end = path.find(".git")? + ".git".len();
        Some(path.split_at(end))
    })
}

fn organisation_and_name(path: &str) -> Option<(&str, &str)> {
    let (organisation, rest) = path.split_once('/')?;
    let end = organisation.len() + 1 + rest.find('/').unwrap_or(rest.len());
    Some((&path[..end], path[end..].trim_start_matches('/')))
}

/// Returns true if a directory of a repository is above its root.
fn leaves_repository(directory: &str) -> bool {
    let mut depth = 0_usize;
    for segment in directory.split('/') {
        match segment {
            "" | "." => {}
            ".." => match depth.checked_sub(1) {
                Some(above) => depth = above,
                None => return true,
            },
            _ => depth += 1,
        }
    }
    false
}

/// Returns true if a query names a git revision that begins with `-`: git would take it for an option.
fn has_option_as_revision(query: &str) -> bool {
    let fields = query.split(['&', ';', '?']).filter_map(|field| field.split_once('='));
    fields
        .map(|(key, value)| (unescape(key), unescape(value)))
        .any(|(key, value)| ["ref", "version"].contains(&key.as_str()) && value.trim_start().starts_with('-'))
}

/// Decodes the escapes of a query as kustomize does before it calls git.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let escaped = (*first == b'%').then(|| after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok())).flatten();
        match escaped.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(if *first == b'+' { b' ' } else { *first });
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn has_whole_escapes(text: &str) -> bool {
    text.match_indices('%')
        .all(|(at, _)| text.get(at + 1..at + 3).is_some_and(|hex| hex.bytes().all(|c| c.is_ascii_hexdigit())))
}

fn strip_prefix<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let (start, rest) = text.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_are_those_that_kustomize_clones() {
        let repositories = [
            "https://github.com/org/repo",
            "HTTPS://github.com/org/repo//base?ref=v1",
            "git::https://example.com/org/repo",
            "ssh://git@example.com/org/repo",
            "git@example.com:org/repo.git//base",
            "github.com/org/repo",
            "GitHub.com:org/repo",
            "user-1@host:org/repo/deep",
            "https://example.com/project/_git/repo/deep",
            "file:///srv/repo",
            "https://example.com/repo.git",
            "git@host:org/repo/a/../../x/../../../y",
        ];
        for reference in repositories {
            assert_eq!(is_repository(reference), !reference.ends_with("/y"), "{reference}");
        }
        let paths = [
            "base",
            "../base",
            "a://org/repo",
            "https://example.com/x",
            "ssh://",
            "gitlab.com/org/repo",
            "1user@host:org/repo",
            "/https://example.com/org/repo",
            "git@host:repo",
            "https://example.com/org/repo//../x",
        ];
        for reference in paths {
            assert!(!is_repository(reference), "{reference}");
        }
    }

    #[test]
    fn only_plain_urls_of_other_machines_are_safe() {
        let safe = [
            "https://github.com/org/repo//base?ref=v1.2.0&timeout=5s",
            "https://example.com:8443/a.yaml",
            "http://[::1]:80/a.yaml",
            "https://user:secret@example.com/org/repo",
            "ssh://git@example.com:22/org/repo",
            "git@example.com:org/repo.git",
            "github.com/org/repo?ref=feature-x",
        ];
        for reference in safe {
            assert_eq!(refusal(reference), None, "{reference}");
        }
        let refused = [
            "https://example.com/org/repo?ref=-x",
            "https://example.com/org/repo?ref=%2dx",
            "https://example.com/org/repo?%72ef=-x",
            "https://example.com/org/repo?timeout=5s&version=%20-x",
            "https://example.com/%zz/../../x",
            "https://example.com:x/../../x",
            "https:example.com",
            "https:///x/y",
            "file:///srv/repo",
            "ssh://-x/org/repo",
            "ssh://git@-x/org/repo",
            "git@host:-x/repo",
            "https://exa mple.com/x",
            "https://example.com/x\ny",
        ];
        for reference in refused {
            assert!(refusal(reference).is_some(), "{reference}");
        }
    }
}
