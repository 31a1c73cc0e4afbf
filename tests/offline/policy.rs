//! `prune --policy` on a recorded cluster: rules that deny, rules that pass, and files that are wrong.

use insta::assert_snapshot;
use serde_json::json;
use test_support::folder::Folder;
use test_support::gitops::{Run, command};

/// A kustomize that builds nothing, as the tree is empty.
const KUSTOMIZE: &str = "echo '{\"kustomizeVersion\": \"v5.8.1\"}'";
const SHOP: [&str; 4] = ["prune", "--plan", "--snapshot", "examples/shop.json.gz"];

/// Plans the recorded cluster with a policy of this text.
fn plan_with(text: &str, more: &[&str]) -> Run {
    let folder = Folder::new("policy");
    let file = folder.write("policy.yaml", text);
    Run::of(command(&SHOP).args(["-o", "name", "--policy"]).arg(&file).args(more))
        .with("FILE", file.display())
        .without_age()
}

fn rule(deny: &str) -> String {
    json!({"rules": [{"name": "test", "deny": deny, "message": "not now"}]}).to_string()
}

#[test]
fn a_rule_that_denies_the_plan_is_exit_code_6() {
    let text = "rules:\n- {name: config, each: changes, message: \"ConfigMaps\\nstay\", deny: \"change.action == 'delete' && change.object.kind == 'ConfigMap'\"}\n\
        - {name: passes, message: never, deny: 'plan.summary.delete > 1000'}\n\
        - {name: complete, message: no plan passes, deny: 'plan.complete'}\n";
    assert_snapshot!(plan_with(text, &[]), @r#"
    exit code 6
    --- stdout
    configmap/banner-easter
    --- stderr
    1 to delete, 3 kept
    error: denied by rule "config": ConfigMaps stay: configmap/banner-easter -n web
           denied by rule "complete": no plan passes
    hint: the rules are in FILE
    "#);
    let passed = plan_with(&rule("plan.summary.delete > 1000"), &[]);
    assert_eq!(passed.code, 0, "{passed}");
    assert_eq!(plan_with(&rule("plan.summary.delete > 1000"), &["--detailed-exitcode"]).code, 3);
}

#[test]
fn a_denial_is_an_alarm_in_every_format() {
    let folder = Folder::new("policy-formats");
    let file = folder.write("policy.yaml", rule("plan.summary.delete > 0"));
    for format in ["table", "json", "yaml", "markdown", "html", "sarif", "junit", "gitlab"] {
        let run = Run::of(command(&SHOP).args(["-o", format, "--policy"]).arg(&file));
        assert!(run.code == 6 && run.stdout.contains("denied by rule"), "{format}: {run}");
    }
}

/// The tree is empty, so that the plan has an alarm too.
#[test]
fn a_denied_preview_is_not_written_and_its_alarm_is_named_too() {
    let tree = Folder::outside_checkouts("policy-tree");
    let folder = Folder::new("policy-out");
    let out = folder.path().join("plan.json");
    let arguments = [
        format!("--source=GitRepository/flux-system/shop={}", tree.path().display()),
        format!("--out={}", out.display()),
        format!("--kustomize={}", folder.script("kustomize", KUSTOMIZE).display()),
    ];
    for (deny, expected) in [
        ("plan.summary.delete == 0", "\n       denied by rule \"test\": not now\n"),
        ("plan.nothing", "error: policy FILE: rule \"test\" cannot be evaluated for the plan: "),
    ] {
        let run = plan_with(&rule(deny), &arguments.each_ref().map(String::as_str));
        assert!(run.code == 6 && run.stderr.contains(expected) && !out.exists(), "{run}");
        assert!(run.stderr.contains("error: this blocks 4 owners that can be applied today: "), "{run}");
    }
    let passed = plan_with(&rule("plan.summary.delete > 0"), &arguments.each_ref().map(String::as_str));
    assert!(passed.code == 6 && !passed.stderr.contains("denied by rule") && out.exists(), "{passed}");
}

#[test]
fn the_present_time_is_a_variable() {
    let today = chrono::Utc::now();
    let denied = plan_with(&rule(&format!("now.unix >= {} && now.date != ''", today.timestamp())), &[]);
    assert_eq!(denied.code, 6, "the time is not that of the recording: {denied}");
    let days = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
    let matching = days.iter().filter(|day| plan_with(&rule(&format!("now.weekday == '{day}'")), &[]).code == 6);
    assert!((1..=2).contains(&matching.count()), "two only around midnight");
}

#[test]
fn a_policy_that_is_wrong_never_passes_a_plan() {
    for (text, code, expected) in [
        (rule("plan.summary.delete >"), 2, "error: cannot use --policy FILE: rule \"test\": "),
        (rule("change.action == 'delete'"), 2, "`change` exists only with `each: changes`"),
        ("rules: []".to_owned(), 2, "it has no rules, so it would deny nothing"),
        ("{".to_owned(), 2, "error: cannot use --policy FILE: "),
        (rule("plan.nothing"), 1, "error: policy FILE: rule \"test\" cannot be evaluated for the plan: "),
        (rule("\"\u{1b}[31m"), 2, "error: cannot use --policy FILE: rule \"test\": "),
        (rule("plan['\u{1b}[31m']"), 1, "rule \"test\" cannot be evaluated for the plan: "),
        (rule("'text'"), 1, "its result is string, not true or false"),
    ] {
        let run = plan_with(&text, &[]);
        assert!(run.code == code && run.stderr.contains(expected) && run.stderr.contains("hint: "), "{text}: {run}");
        assert!(!run.stderr.contains('\u{1b}'), "{run:?}");
        assert_eq!(run.stdout.is_empty(), code == 2, "nothing is planned before the file is read: {run}");
    }
    let missing = Run::of(command(&SHOP).args(["--policy", "/nonexistent/policy.yaml"]));
    assert!(
        missing.code == 2 && missing.stderr.contains("cannot use --policy /nonexistent/policy.yaml: "),
        "{missing}"
    );
}

#[test]
fn the_example_policy_parses_and_passes() {
    let run = Run::of(command(&SHOP).args(["--policy", "examples/policy.yaml"]));
    assert_eq!(run.code, 0, "{run}");
}
