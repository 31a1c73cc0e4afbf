//! Entries of `spec.healthCheckExprs` of Kustomizations and HelmReleases: expressions for the health of the objects of a kind.
//!
//! An entry without a kind is for all kinds of its group that have no own one. Two entries for the same kinds, and one with an
//! empty `current`, stop the controller before it does anything else. The API server itself refuses an entry without `current`.
//! Source: pkg/runtime v0.110.3 cel/status_reader.go and cel/status_evaluator.go.

use std::collections::BTreeSet;

use serde_json::Value;

use super::ready_expr;
use crate::kubernetes::object::{GroupKind, group_of, list_at, text_at};

/// Reason why a controller refuses, or may refuse, the entries of a spec.
pub(crate) struct InvalidExprs {
    pub(crate) detail: String,
    /// False if the controller may be able to parse the expression.
    pub(crate) is_certain: bool,
}

/// Returns the reason why a controller refuses the entries of a spec, a certain one first.
pub(crate) fn invalid_exprs(spec: &Value) -> Option<InvalidExprs> {
    let entries = list_at(spec, "/healthCheckExprs");
    let mut seen = BTreeSet::new();
    let refused = entries
        .iter()
        .find_map(|entry| {
            let kind = kind_of(entry);
            if entry["current"] == "" {
                return Some(format!(
                    "the entry of healthCheckExprs for {} has an empty \"current\"",
                    described(&kind)
                ));
            }
            (!seen.insert(kind.clone()))
                .then(|| format!("two entries of healthCheckExprs are for {}", described(&kind)))
        })
        .map(|why| InvalidExprs { detail: format!("the controller stops: {why}"), is_certain: true });
    let mut texts =
        entries.iter().flat_map(|entry| ["/current", "/failed", "/inProgress"].map(|key| text_at(entry, key)));
    refused.or_else(|| {
        let text = texts.find(|text| !text.is_empty() && !ready_expr::parses(text))?;
        let detail = format!("the controller stops unless it can parse the expression {text:?} of healthCheckExprs");
        Some(InvalidExprs { detail, is_certain: false })
    })
}

/// Returns the entry that decides the health of the objects of a kind: its own, or else that of its group.
pub(crate) fn expr_of<'s>(spec: &'s Value, kind: &GroupKind) -> Option<&'s Value> {
    let of_group = GroupKind::new(&kind.group, "");
    let entries = list_at(spec, "/healthCheckExprs");
    [kind, &of_group].into_iter().find_map(|wanted| entries.iter().find(|entry| kind_of(entry) == *wanted))
}

fn kind_of(entry: &Value) -> GroupKind {
    GroupKind::new(group_of(text_at(entry, "/apiVersion")), text_at(entry, "/kind"))
}

/// Returns the kinds of an entry for people.
fn described(kind: &GroupKind) -> String {
    if kind.kind.is_empty() { format!("the group {:?}", kind.group) } else { kind.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spec(entries: &[(&str, &str, &str)]) -> Value {
        let entry = |(version, kind, current): &(&str, &str, &str)| json!({"apiVersion": version, "kind": kind, "current": current});
        json!({"healthCheckExprs": entries.iter().map(entry).collect::<Vec<_>>()})
    }

    #[test]
    fn entries_of_the_same_kinds_or_without_an_expression_are_refused() {
        let rows = [
            (vec![("a.io/v1", "A", "true"), ("a.io/v1", "B", "true"), ("b.io/v1", "A", "true")], None),
            (vec![("a.io/v1", "A", "true"), ("a.io/v1alpha2", "A", "true")], Some(("are for a.a.io", true))),
            (vec![("v1", "A", "true"), ("v1", "A", "true")], Some(("are for a", true))),
            (vec![("a.io/v1", "", "true"), ("a.io/v1", "A", "true")], None),
            (vec![("a.io/v1", "", "true"), ("a.io/v2", "", "true")], Some(("are for the group \"a.io\"", true))),
            (vec![("v1", "", "")], Some(("for the group \"\" has an empty \"current\"", true))),
            (vec![("a.io/v1", "A", "a =="), ("a.io/v1", "B", "")], Some(("for b.a.io has an empty", true))),
            (vec![("a.io/v1", "A", "a ==")], Some(("can parse the expression", false))),
        ];
        for (entries, expected) in rows {
            match (invalid_exprs(&spec(&entries)), expected) {
                (None, None) => {}
                (Some(found), Some((part, is_certain))) => {
                    assert!(found.detail.contains(part), "{}", found.detail);
                    assert_eq!(found.is_certain, is_certain, "{entries:?}");
                }
                (found, _) => panic!("{entries:?}: {:?}", found.map(|found| found.detail)),
            }
        }
    }

    #[test]
    fn an_entry_of_a_kind_comes_before_that_of_its_group() {
        let spec = spec(&[("a.io/v1", "", "group"), ("a.io/v1", "A", "own")]);
        let current =
            |group, kind| expr_of(&spec, &GroupKind::new(group, kind)).map(|entry| text_at(entry, "/current"));
        assert_eq!(
            (current("a.io", "A"), current("a.io", "B"), current("b.io", "A")),
            (Some("own"), Some("group"), None)
        );
    }
}
