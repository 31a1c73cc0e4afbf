//! Patterns of `--k8s-unsafe-exclude-resource`: anchored, case counts, `*` is the only wildcard.
//!
//! Source: reference qbec-and-flux-v1 B3.1.

/// Whether a text matches a pattern in which `*` is the only wildcard.
pub fn matches(pattern: &str, text: &str) -> bool {
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
    fn exclusions_are_globs_over_group_version_and_kind() {
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
