//! `-o junit`: findings as a test report. An alarm is a failure, a gap is an error, and other findings are passed tests
//! with their message as output.

use std::collections::BTreeMap;

use crate::output::report::{ReportedFinding, Severity};
use crate::output::text::sanitize::markup;

pub(super) fn report(findings: &[ReportedFinding]) -> String {
    let mut suites: BTreeMap<&str, Vec<&ReportedFinding>> = BTreeMap::new();
    findings.iter().for_each(|finding| suites.entry(&finding.place).or_default().push(finding));
    let all: Vec<&ReportedFinding> = findings.iter().collect();
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"kubectl gitops prune --plan\" {}>\n",
        counts(&all)
    );
    for (place, findings) in &suites {
        let place = markup(place);
        xml += &format!("  <testsuite name=\"{place}\" {}>\n", counts(findings));
        for finding in findings {
            let [name, rule, message] = [&finding.name(), &finding.rule, &finding.message].map(|text| markup(text));
            let result = match finding.severity {
                Severity::Alarm => format!("<failure type=\"{rule}\" message=\"{message}\"/>"),
                Severity::Gap => format!("<error type=\"{rule}\" message=\"{message}\"/>"),
                Severity::Warning => format!("<system-out>{message}</system-out>"),
            };
            xml += &format!("    <testcase classname=\"{place}\" name=\"{name}\">{result}</testcase>\n");
        }
        xml += "  </testsuite>\n";
    }
    xml + "</testsuites>\n"
}

fn counts(findings: &[&ReportedFinding]) -> String {
    let [failures, errors] = [Severity::Alarm, Severity::Gap]
        .map(|severity| findings.iter().filter(|finding| finding.severity == severity).count());
    format!("tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\"", findings.len())
}
