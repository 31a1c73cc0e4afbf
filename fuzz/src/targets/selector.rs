//! Label selectors.

use gitops_core::kubernetes::object::KeyValues;
use gitops_core::kubernetes::selector::Selector;

/// The input is labels as `key=value` lines, and a selector. A selector is parsed again to itself, whatever spaces surround
/// it; with itself after a comma it selects the same.
pub(crate) fn check(data: &[u8]) {
    let Some((labels, text)) = super::split(data) else { return };
    let Ok(selector) = Selector::parse(text) else { return };
    let labels: KeyValues = labels.lines().filter_map(|line| line.split_once('=')).collect();
    let selects = selector.matches(&labels);
    assert!(!selector.text().contains(|c: char| c.is_control() && !c.is_whitespace()));
    assert_eq!(Selector::parse(selector.text()).as_ref(), Ok(&selector));
    if selector.text().is_empty() {
        assert!(selects);
    } else {
        let twice = Selector::parse(&format!(" {text} , {text}\t")).expect("two valid selectors");
        assert_eq!(twice.matches(&labels), selects);
    }
}
