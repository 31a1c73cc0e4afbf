//! URLs of repositories.

use gitops_core::flux::source::matching::normalise_url;
use gitops_core::ownership::schemes::flux_v1::url::safe_url;

/// The spelling of a repository is one line, and is its own spelling. A password does not get into the URL that Flux v1
/// hashes.
pub(crate) fn check(data: &[u8]) {
    let Ok(url) = std::str::from_utf8(data) else { return };
    let normal = normalise_url(url);
    assert!(normal.len() <= url.len() * 3 + 1, "{normal}");
    assert_eq!(normalise_url(&format!("ssh://{normal}")), normalise_url(&format!("https://{normal}.git/")));
    let safe = safe_url(url);
    assert!(safe.len() <= 3 * url.len() + 16);
    let host = url.split(['/', '@', ':', '?', '#', '%']).next().unwrap_or_default();
    if !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        let with_password = safe_url(&format!("https://user:hunter2@{host}/x"));
        assert!(!with_password.contains("hunter2"), "{with_password}");
    }
}
