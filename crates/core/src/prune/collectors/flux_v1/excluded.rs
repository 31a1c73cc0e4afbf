//! Resources that fluxd excludes from listing (`--k8s-unsafe-exclude-resource`).
//!
//! Rules: docs/reference/qbec-and-flux-v1.md 8.1. The patterns are those of the Go library ryanuber/glob, not of Go's
//! path.Match: anchored, case-sensitive, and `*` is the only wildcard.

use crate::kubernetes::object::ObjectMetadata;

/// Default patterns of fluxd.
pub const EXCLUDED: [&str; 3] = ["*metrics.k8s.io/*", "webhook.certmanager.k8s.io/*", "v1/Event"];

/// Returns the reason why fluxd excludes an object: a pattern matches its group version, or its group version and kind.
pub(super) fn reason_excluded(patterns: &[String], object: &ObjectMetadata) -> Option<String> {
    let id = &object.id;
    let group = if id.group.is_empty() { String::new() } else { format!("{}/", id.group) };
    let group_version = format!("{group}{}/", object.version);
    let resource = format!("{group_version}{}", id.kind);
    let pattern = patterns.iter().find(|pattern| matches(pattern, &group_version) || matches(pattern, &resource))?;
    Some(format!("--k8s-unsafe-exclude-resource {pattern} excludes {resource}: missed by fluxd"))
}

fn matches(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(start) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = text.find(part) else { return false };
        text = &text[at + part.len()..];
    }
    text.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_group_version_and_kind() {
        let rows = [
            ("*metrics.k8s.io/*", "metrics.k8s.io/v1beta1/PodMetrics", true),
            ("*metrics.k8s.io/*", "custom.metrics.k8s.io/v1beta1/", true),
            ("v1/Event", "v1/Event", true),
            ("v1/Event", "events.k8s.io/v1/Event", false),
            ("v1/Event", "v1/", false),
            ("*", "anything", true),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "a-c", false),
            ("*Event", "v1/event", false),
        ];
        for (pattern, text, expected) in rows {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
