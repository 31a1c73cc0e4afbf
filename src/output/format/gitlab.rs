//! `-o gitlab`: findings as a code quality report of GitLab, for `artifacts:reports:codequality`.

use serde_json::{Value, json};

use crate::output::report::{ReportedFinding, Severity};

pub(super) fn report(findings: &[ReportedFinding]) -> Vec<Value> {
    findings.iter().map(entry).collect()
}

fn entry(finding: &ReportedFinding) -> Value {
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
}
