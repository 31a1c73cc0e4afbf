//! Normal form of a Git URL in the hashes of Flux v1: parsed as Go's `net/url` does, without password, and printed again.
//! A WHATWG URL library gives other bytes.
//!
//! Source: docs/reference/qbec-and-flux-v1.md 6.3.

use std::fmt::Write;

const TRANSPORTS: [&str; 9] = ["ssh", "git", "git+ssh", "http", "https", "ftp", "ftps", "rsync", "file"];

/// Part of a URL; each has its own unescaped characters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UrlPart {
    User,
    Host,
    Path,
    Fragment,
}

/// Returns the URL without its password, byte for byte as Flux v1 wrote it: as a transport URL, in scp form, or
/// as a local path.
pub fn safe_url(url: &str) -> String {
    transport(url).or_else(|| scp(url)).unwrap_or_else(|| {
        let slashes = if url.is_empty() { "" } else { "//" };
        format!("file:{slashes}{}", escape(url.as_bytes(), UrlPart::Path))
    })
}

fn transport(url: &str) -> Option<String> {
    if url.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return None;
    }
    let (url, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (scheme, rest) = url.split_once(':')?;
    let scheme_is_legal =
        scheme.starts_with(|first: char| first.is_ascii_alphabetic()) && scheme.bytes().all(is_legal_in_scheme);
    let transport = scheme.to_ascii_lowercase();
    if !scheme_is_legal || !TRANSPORTS.contains(&&*transport) {
        return None;
    }
    // A lone `?` at the end stays, although its query is empty.
    let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
    let mut out = format!("{transport}:");
    if let Some(rest) = rest.strip_prefix("//") {
        let (authority, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
        let authority = safe_authority(authority)?;
        if !(authority.is_empty() && path.is_empty()) {
            out += "//";
        }
        out += &authority;
        out += &printed(path, UrlPart::Path)?;
    } else if rest.starts_with('/') {
        out += &printed(rest, UrlPart::Path)?;
    } else {
        out += rest;
    }
    if let Some(query) = query {
        out.push('?');
        out += query;
    }
    if !fragment.is_empty() {
        out.push('#');
        out += &printed(fragment, UrlPart::Fragment)?;
    }
    Some(out)
}

fn is_legal_in_scheme(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)
}

fn is_legal_in_userinfo(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte)
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn is_legal_in_scp(byte: u8) -> bool {
    is_word(byte) || byte == b'.' || byte == b'-'
}

fn safe_authority(authority: &str) -> Option<String> {
    let Some((userinfo, host)) = authority.rsplit_once('@') else {
        return safe_host(authority);
    };
    if !userinfo.bytes().all(is_legal_in_userinfo) {
        return None;
    }
    let (user, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
    unescape(password, UrlPart::User)?;
    Some(format!("{}@{}", escape(&unescape(user, UrlPart::User)?, UrlPart::User), safe_host(host)?))
}

fn safe_host(host: &str) -> Option<String> {
    let port = match host.strip_prefix('[') {
        Some(rest) => &rest[rest.rfind(']')? + 1..],
        None => host.rfind(':').map_or("", |colon| &host[colon..]),
    };
    let digits = port.strip_prefix(':').unwrap_or(port);
    let port_is_legal = port.is_empty() || (port.starts_with(':') && digits.bytes().all(|byte| byte.is_ascii_digit()));
    port_is_legal.then(|| unescape(host, UrlPart::Host)).flatten().map(|host| escape(&host, UrlPart::Host))
}

/// Parses `[user@]host:path[?rest]`; a number after the colon is part of the path, and one `?` after the path is dropped.
fn scp(url: &str) -> Option<String> {
    let (user, after) = match url.split_once('@') {
        Some((user, after)) if !user.is_empty() && user.bytes().all(is_word) => (Some(user), after),
        _ => (None, url),
    };
    let (host, rest) = after.split_once(':')?;
    let end = rest.bytes().position(|byte| !is_legal_in_scp(byte) && byte != b'/').unwrap_or(rest.len());
    let (path, rest) = rest.split_at(end);
    if host.is_empty() || !host.bytes().all(is_legal_in_scp) || path.is_empty() || rest.contains('\n') {
        return None;
    }
    let login = user.map(|user| format!("{user}@")).unwrap_or_default();
    let slash = if path.starts_with('/') { "" } else { "/" };
    let query = match rest.strip_prefix('?').unwrap_or(rest) {
        "" => String::new(),
        query => format!("?{query}"),
    };
    Some(format!("ssh://{login}{host}{slash}{path}{query}"))
}

/// Returns a path or fragment as Go prints it: unchanged if it is a valid encoding, else decoded and encoded again.
fn printed(text: &str, part: UrlPart) -> Option<String> {
    let decoded = unescape(text, part)?;
    let is_valid = text.bytes().all(|byte| b"!$&'()*+,;=:@[]%".contains(&byte) || !must_escape(byte, part));
    Some(if is_valid { text.to_owned() } else { escape(&decoded, part) })
}

fn unescape(text: &str, part: UrlPart) -> Option<Vec<u8>> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        if byte == b'%' {
            let hex = bytes.get(at + 1..at + 3).filter(|hex| hex.iter().all(u8::is_ascii_hexdigit))?;
            let value = u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()?;
            if part == UrlPart::Host && value < 0x80 && hex != b"25" {
                return None;
            }
            out.push(value);
            at += 3;
            continue;
        }
        if part == UrlPart::Host && byte < 0x80 && must_escape(byte, part) {
            return None;
        }
        out.push(byte);
        at += 1;
    }
    Some(out)
}

fn escape(bytes: &[u8], part: UrlPart) -> String {
    let mut out = String::with_capacity(bytes.len());
    for &byte in bytes {
        if must_escape(byte, part) {
            let _ = write!(out, "%{byte:02X}");
        } else {
            out.push(char::from(byte));
        }
    }
    out
}

fn must_escape(byte: u8, part: UrlPart) -> bool {
    if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
        return false;
    }
    let plain: &[u8] = match part {
        UrlPart::User => b";&=+$,",
        UrlPart::Host => b"!$&'()*+,;=:[]<>\"",
        UrlPart::Path => b"$&+,/:;=@",
        UrlPart::Fragment => b"$&+,/:;=?@!()*",
    };
    !plain.contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of the reference's table: `--git-url`, safeURL.
    const ROWS: [(&str, &str); 37] = [
        ("git@github.com:fluxcd/flux-get-started", "ssh://git@github.com/fluxcd/flux-get-started"),
        ("ssh://git@github.com/fluxcd/flux-get-started", "ssh://git@github.com/fluxcd/flux-get-started"),
        ("git@github.com:/fluxcd/flux-get-started", "ssh://git@github.com/fluxcd/flux-get-started"),
        ("git@github.com:fluxcd/flux-get-started.git", "ssh://git@github.com/fluxcd/flux-get-started.git"),
        ("github.com:fluxcd/flux-get-started", "ssh://github.com/fluxcd/flux-get-started"),
        ("ssh://git@github.com:22/fluxcd/flux-get-started", "ssh://git@github.com:22/fluxcd/flux-get-started"),
        ("https://github.com/fluxcd/flux-get-started", "https://github.com/fluxcd/flux-get-started"),
        ("https://user:s3cret@github.com/fluxcd/flux-get-started", "https://user@github.com/fluxcd/flux-get-started"),
        ("https://user:other@github.com/fluxcd/flux-get-started", "https://user@github.com/fluxcd/flux-get-started"),
        ("https://user@github.com/fluxcd/flux-get-started", "https://user@github.com/fluxcd/flux-get-started"),
        ("https://ghp_abc@github.com/o/r", "https://ghp_abc@github.com/o/r"),
        ("https://:token@host/r", "https://@host/r"),
        ("https://oauth2:token@gitlab.com/g/r.git", "https://oauth2@gitlab.com/g/r.git"),
        ("git@ssh.dev.azure.com:v3/org/proj/repo", "ssh://git@ssh.dev.azure.com/v3/org/proj/repo"),
        ("git@host:2222/org/repo.git", "ssh://git@host/2222/org/repo.git"),
        ("org-123456@github.com:org/repo.git", "file://org-123456@github.com:org/repo.git"),
        ("git@github.com:~user/repo", "file://git@github.com:~user/repo"),
        ("git@host:org/repo~x", "ssh://git@host/org/repo?~x"),
        ("HTTPS://GitHub.com/a/b", "https://GitHub.com/a/b"),
        ("https://host", "https://host"),
        ("https://host/", "https://host/"),
        ("https://host:443/a", "https://host:443/a"),
        ("https://host/a%2Fb", "https://host/a%2Fb"),
        ("https://host/é", "https://host/%C3%A9"),
        ("https://u+s:p@host/r", "https://u+s@host/r"),
        ("https://u%2Bs:p@host/r", "https://u+s@host/r"),
        ("https://$(GIT_AUTHUSER):$(GIT_AUTHKEY)@github.com/a/b", "https://$%28GIT_AUTHUSER%29@github.com/a/b"),
        ("/abs/repo.git", "file:///abs/repo.git"),
        ("file:///abs/repo.git", "file:///abs/repo.git"),
        ("./rel/repo", "file://./rel/repo"),
        ("", "file:"),
        ("ssh://git@github.com:org/repo", "ssh://ssh//git?@github.com:org/repo"),
        // Components that the prose of the reference names.
        ("https://host/a b|c\"d", "https://host/a%20b%7Cc%22d"),
        ("https://host/'()[]~", "https://host/'()[]~"),
        ("https://u%40x@host/r?a=b&c#frag", "https://u%40x@host/r?a=b&c#frag"),
        ("https://u!*'()@host/r", "https://u%21%2A%27%28%29@host/r"),
        ("https://host/a%zz", "ssh://https//host/a?%zz"),
    ];

    #[test]
    fn every_row_of_the_table_is_byte_exact() {
        for (url, safe) in ROWS {
            assert_eq!(safe_url(url), safe, "{url}");
        }
    }

    #[test]
    fn no_password_survives() {
        for url in ["https://u:hunter2@h/r", "ssh://:hunter2@h:22/r", "https://a@b:hunter2@h/r"] {
            assert!(!safe_url(url).contains("hunter2"), "{url}");
        }
    }
}
