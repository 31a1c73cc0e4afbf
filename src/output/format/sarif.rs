//! `-o sarif`: findings in the Static Analysis Results Interchange Format 2.1.0.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::output::report::{ReportedFinding, Severity};

pub(super) fn log(findings: &[ReportedFinding]) -> Value {
    let rules: BTreeSet<&str> = findings.iter().map(|finding| &*finding.rule).collect();
    let rules: Vec<Value> = rules.into_iter().map(|rule| json!({ "id": rule })).collect();
    let driver = json!({ "name": "kubectl-gitops", "semanticVersion": env!("CARGO_PKG_VERSION"), "rules": rules });
    let results: Vec<Value> = findings.iter().map(result).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{ "tool": { "driver": driver }, "results": results }],
    })
}

fn result(finding: &ReportedFinding) -> Value {
    let level = match finding.severity {
        Severity::Alarm | Severity::Gap => "error",
        Severity::Warning => "warning",
    };
    json!({
        "ruleId": finding.rule,
        "level": level,
        "message": { "text": plain(&finding.message) },
        "locations": [{
            "physicalLocation": { "artifactLocation": { "uri": uri(&finding.place) }, "region": { "startLine": 1 } },
            "logicalLocations": [{ "fullyQualifiedName": finding.subject }],
        }],
        "partialFingerprints": { "finding/v1": finding.fingerprint() },
    })
}

/// Returns a message in which nothing is a link: `[text](address)` is one in the text of a message (SARIF 3.11.6).
fn plain(message: &str) -> String {
    message.replace('\\', "\\\\").replace('[', "\\[").replace(']', "\\]")
}

/// Returns a place as a relative reference of a URI: bytes that have a meaning there, or none, are percent-encoded.
fn uri(place: &str) -> String {
    let encoded = place.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    });
    encoded.collect()
}

#[cfg(test)]
mod tests {
    use super::{plain, uri};

    #[test]
    fn messages_hold_no_links() {
        assert_eq!(plain("a\\[b](https://c)"), "a\\\\\\[b\\](https://c)");
    }

    #[test]
    fn places_are_references() {
        assert_eq!(uri("Kustomization/flux-system/apps"), "Kustomization/flux-system/apps");
        assert_eq!(uri("http://a b?c#ä"), "http%3A//a%20b%3Fc%23%C3%A4");
    }
}
