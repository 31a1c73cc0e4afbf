//! `-o junit`: findings as a test report. An alarm is a failure, a gap is an error, and other findings are passed tests
//! with their message as output.

use std::collections::BTreeMap;

use super::{Part, Render};
use crate::error::Result;
use crate::output::report::{ReportedFinding, Severity};

pub(super) const PART: Part = Part::Findings;

pub(super) fn render(answer: &impl Render, _header: bool) -> Result<String> {
    let findings = answer.findings();
    let mut suites: BTreeMap<&str, Vec<&ReportedFinding>> = BTreeMap::new();
    findings.iter().for_each(|finding| suites.entry(&finding.place).or_default().push(finding));
    let all: Vec<&ReportedFinding> = findings.iter().collect();
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"kubectl gitops prune --plan\" {}>\n",
        counts(&all)
    );
    for (place, findings) in &suites {
        let place = text(place);
        xml += &format!("  <testsuite name=\"{place}\" {}>\n", counts(findings));
        for finding in findings {
            let (subject, rule, message) = (text(&finding.subject), text(&finding.rule), text(&finding.message));
            let result = match finding.severity {
                Severity::Alarm => format!("<failure type=\"{rule}\" message=\"{message}\"/>"),
                Severity::Gap => format!("<error type=\"{rule}\" message=\"{message}\"/>"),
                Severity::Warning => format!("<system-out>{message}</system-out>"),
            };
            xml += &format!("    <testcase classname=\"{place}\" name=\"{subject}: {rule}\">{result}</testcase>\n");
        }
        xml += "  </testsuite>\n";
    }
    Ok(xml + "</testsuites>\n")
}

fn counts(findings: &[&ReportedFinding]) -> String {
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let (failures, errors) = (count(Severity::Alarm), count(Severity::Gap));
    format!("tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\"", findings.len())
}

/// Escapes text for an element or an attribute. XML permits no U+FFFE and U+FFFF; control characters are escaped already.
fn text(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            other => safe.push(other),
        }
    }
    safe
}
