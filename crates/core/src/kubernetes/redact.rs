//! URLs without the parts that can be secret.

/// Replacement of a part that is not shown.
const HIDDEN: &str = "REDACTED";
/// Query parameters of a remote base that are no secrets.
const SHOWN_PARAMETERS: [&str; 4] = ["ref", "version", "timeout", "submodules"];

/// Replaces the user information and the query values of every URL in a text. The user `git` and the parameters that
/// kustomize reads are shown.
pub fn redact_urls(text: &str) -> String {
    let mut redacted = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, url) = rest.split_at(at + 3);
        redacted += before;
        // A password can have quotes. What stands before an @ is hidden with them.
        let authority = url.find(|c: char| c.is_whitespace() || c == '/').unwrap_or(url.len());
        let host = url[..authority].rfind('@').unwrap_or_default();
        let length = url[host..].find(|c: char| c.is_whitespace() || "\"'`<>".contains(c));
        let end = length.map_or(url.len(), |length| host + length);
        redact(&url[..end], &mut redacted);
        rest = &url[end..];
    }
    redacted + rest
}

/// Appends the part of a URL behind its scheme.
fn redact(url: &str, redacted: &mut String) {
    let (address, query) = url.split_once('?').map_or((url, None), |(address, query)| (address, Some(query)));
    let authority_end = address.find('/').unwrap_or(address.len());
    let (authority, path) = address.split_at(authority_end);
    match authority.rsplit_once('@') {
        Some((user, host)) if user != "git" => *redacted += &format!("{HIDDEN}@{host}"),
        _ => *redacted += authority,
    }
    *redacted += path;
    let Some(query) = query else { return };
    for (number, parameter) in query.split('&').enumerate() {
        redacted.push(if number == 0 { '?' } else { '&' });
        match parameter.split_once('=') {
            Some((key, _)) if !SHOWN_PARAMETERS.contains(&key) => *redacted += &format!("{key}={HIDDEN}"),
            Some(_) => *redacted += parameter,
            None => *redacted += HIDDEN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::redact_urls;

    #[test]
    fn passwords_and_query_values_are_hidden() {
        for (text, expected) in [
            ("no URL", "no URL"),
            ("https://example.com/a?ref=v1", "https://example.com/a?ref=v1"),
            ("get 'https://u:p@example.com/a': refused", "get 'https://REDACTED@example.com/a': refused"),
            ("get 'https://u:p'q\"r@example.com/a': refused", "get 'https://REDACTED@example.com/a': refused"),
            ("'https://example.com' <a@b.c>", "'https://example.com' <a@b.c>"),
            ("https://token@example.com", "https://REDACTED@example.com"),
            ("https://u:p@x@example.com/a@b", "https://REDACTED@example.com/a@b"),
            ("ssh://git@example.com/a", "ssh://git@example.com/a"),
            ("https://e.com/a?token=x&ref=v1&bare", "https://e.com/a?token=REDACTED&ref=v1&REDACTED"),
            ("https://u:p@e.com/a, https://v:q@e.com", "https://REDACTED@e.com/a, https://REDACTED@e.com"),
            ("://", "://"),
        ] {
            assert_eq!(redact_urls(text), expected, "{text}");
        }
    }
}
