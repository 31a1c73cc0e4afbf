//! Ids of inventory entries.

use gitops_core::ownership::schemes::inventory_id::{format, parse};

/// An id that parses has a name and a kind, and is written so that it parses to the same object.
pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(id) = parse(text) else { return };
    assert!(!id.name.is_empty() && !id.kind.is_empty());
    let written = format(&id);
    // Other kinds than those of RBAC are written with their colons, which are legal in no other name.
    if written.contains("__") == text.contains("__") {
        assert_eq!(parse(&written).as_ref(), Ok(&id), "{written}");
    }
}
