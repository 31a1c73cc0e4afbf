//! Ids of inventory entries.

use gitops_core::ownership::schemes::inventory_id::{format, parse};

/// An id that parses has a name and a kind, and is written so that it parses to the same object. A name with `_` is an
/// exception, because the controllers write `:` as `__`.
pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(id) = parse(text) else { return };
    assert!(!id.name.is_empty() && !id.kind.is_empty());
    if !id.name.contains('_') {
        assert_eq!(parse(&format(&id)).as_ref(), Ok(&id), "{text}");
    }
}
