//! URLs of repositories.

use gitops_core::flux::source::matching::normalise_url;
use gitops_core::ownership::schemes::flux_v1::url::safe_url;

/// Spellings of one repository are equal, and bounded. No password gets into the URL that Flux v1 hashes.
pub(crate) fn check(data: &[u8]) {
    let Ok(url) = std::str::from_utf8(data) else { return };
    assert!(normalise_url(url).len() <= 3 * url.len() + 1);
    if url.starts_with(|c: char| c.is_alphanumeric()) {
        let spellings = ["ssh://", "https://user@", "http://"].map(|begin| normalise_url(&format!("{begin}{url}")));
        assert!(url.contains('@') || spellings.iter().all(|spelling| *spelling == spellings[0]), "{spellings:?}");
    }
    let safe = safe_url(url);
    assert!(safe.len() <= 3 * url.len() + 16);
    let host = url.split(['/', '@', ':', '?', '#', '%']).next().unwrap_or_default();
    if !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        let with_password = safe_url(&format!("https://user:hunter2@{host}/x"));
        assert!(!with_password.contains("hunter2"), "{with_password}");
    }
}
