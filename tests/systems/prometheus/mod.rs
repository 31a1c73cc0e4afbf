//! The alert rules, tested by the promtool of Prometheus.

use std::process::Command;

use test_support::folder::Folder;
use xtask::controlplane;

const RULES: &str = include_str!("../../../config/prometheus-rule.yaml");
const TESTS: &str = include_str!("alerts.yaml");

/// Returns the rules as Prometheus reads them: the spec of the PrometheusRule.
fn rules() -> String {
    let rule: serde_json::Value = serde_yaml::from_str(RULES).unwrap();
    rule["spec"].to_string()
}

/// Runs promtool on the rules and returns whether it succeeded, and what it printed.
fn promtool(args: &[&str], rules: &str) -> (bool, String) {
    controlplane::ensure(&["promtool"]).unwrap();
    let folder = Folder::new("prometheus");
    folder.write("rules.yaml", rules);
    folder.write("alerts.yaml", TESTS);
    let output = Command::new(controlplane::bin("promtool")).args(args).current_dir(folder.path()).output().unwrap();
    let printed = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&printed).into_owned())
}

#[test]
#[ignore = "cargo xtask examples"]
fn prometheus_reads_the_alert_rules() {
    let (accepted, printed) = promtool(&["check", "rules", "--lint=all", "--lint-fatal", "rules.yaml"], &rules());
    assert!(accepted && printed.contains("SUCCESS: 2 rules found"), "{printed}");
}

#[test]
#[ignore = "cargo xtask examples"]
fn alerts_fire_for_suspensions_that_last_a_day_or_past_their_end() {
    let (passed, printed) = promtool(&["test", "rules", "alerts.yaml"], &rules());
    assert!(passed && printed.contains("SUCCESS"), "{printed}");
}

#[test]
#[ignore = "cargo xtask examples"]
fn the_tests_of_the_alerts_notice_a_wrong_rule() {
    for (right, wrong) in [("\"1d\"", "\"1h\""), ("< time()", "> time()"), ("or gitops_suspended_info", "")] {
        let rules = rules().replacen(right, wrong, 1);
        let (passed, printed) = promtool(&["test", "rules", "alerts.yaml"], &rules);
        assert!(!passed && printed.contains("FAILED"), "without {right}: {printed}");
    }
}
