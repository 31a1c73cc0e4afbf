//! `-o gitlab`: findings as a code quality report of GitLab, for `artifacts:reports:codequality`.

use serde_json::{Value, json};

use super::{Look, Part, Render};
use crate::error::Result;
use crate::output::document;
use crate::output::report::Severity;

pub(super) const PART: Part = Part::Findings;

pub(super) fn render(answer: &impl Render, _look: Look) -> Result<String> {
    let findings: Vec<Value> = answer
        .findings()
        .iter()
        .map(|finding| {
            let severity = match finding.severity {
                Severity::Alarm => "blocker",
                Severity::Gap => "critical",
                Severity::Warning => "minor",
            };
            json!({
                "description": finding.message,
                "check_name": finding.rule,
                "fingerprint": finding.fingerprint(),
                "severity": severity,
                "location": { "path": finding.place, "lines": { "begin": 1 } },
            })
        })
        .collect();
    document::json(&findings)
}
