use super::*;
use crate::output::format::{Look, Render};
use gitops_core::kubernetes::gap::{Gap, GapKind};
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::kubernetes::snapshot::ClusterIdentity;
use gitops_core::ownership::OwnerId;
use gitops_core::plan::{
    Action, Actor, Change, Diff, FinishedPlan, Outcome, OwnerOutcome, PinnedObject, Reason, ReasonCode,
};
use html5gum::{Token, Tokenizer};

const HOSTILE: &str = "</script></style><script>alert(1)</script><img src=x onerror=alert(1)>\"' onload='x' & \u{202e}";

fn owner(name: &str) -> OwnerId {
    let [system, kind, namespace] = ["flux", "Kustomization", "flux-system"].map(str::to_owned);
    OwnerId { system, kind, namespace, name: name.to_owned() }
}

fn change(action: Action, id: &ObjectId, of: Option<&str>, cause: Option<&ObjectId>) -> Change {
    let object = PinnedObject { id: id.clone(), uid: "u".to_owned(), resource_version: "1".to_owned() };
    let change = Change::new(action, object, of.map(owner), Actor::KustomizeController, ReasonCode::NotInBuild);
    Change { cause: cause.cloned(), ..change }
}

fn plan(changes: Vec<Change>) -> Plan {
    let mut plan = Plan::new(ClusterIdentity::default());
    plan.add_changes(changes);
    plan
}

fn config_map(name: &str) -> ObjectId {
    ObjectId::new("", "ConfigMap", "shop", name)
}

/// Returns the names of all start tags, with the names of their attributes.
fn elements(html: &str) -> Vec<(String, Vec<String>)> {
    let tokens = Tokenizer::new(html).map(|token| token.expect("HTML in memory can be read"));
    let starts = tokens.filter_map(|token| match token {
        Token::StartTag(tag) => {
            let names = tag.attributes.keys().map(|name| String::from_utf8_lossy(name).into_owned());
            Some((String::from_utf8_lossy(&tag.name).into_owned(), names.collect()))
        }
        _ => None,
    });
    starts.collect()
}

#[test]
fn text_of_others_adds_no_element_and_no_attribute() {
    let make = |text: &str| {
        let id = ObjectId::new("", text, text, text);
        let mut row = change(Action::Delete, &id, Some(text), None);
        row.reason = Reason::new(ReasonCode::NotInBuild, text);
        let mut plan = plan(vec![row]);
        let reason = Reason::new(ReasonCode::NotInBuild, text);
        plan.add_owners([OwnerOutcome::new(owner(text), Outcome::Applies, reason)]);
        let (subject, message) = (text.to_owned(), text.to_owned());
        plan.add_gaps([Gap { kind: GapKind::Failed, subject, namespace: Some(text.to_owned()), message }]);
        plan.add_diffs([Diff { object: id, text: format!("+{text}\n-{text}\n {text}\n") }]);
        of_plan(&plan)
    };
    let hostile = make(HOSTILE);
    assert_eq!(elements(&hostile), elements(&make("plain")));
    assert!(!hostile.contains('\u{202e}'), "invisible characters are escaped");
}

#[test]
fn the_policy_permits_the_style_and_the_script_of_the_page_only() {
    let html = of_plan(&plan(vec![]));
    let policy = html.split("Content-Security-Policy\" content=\"").nth(1).and_then(|rest| rest.split('"').next());
    let policy = policy.expect("the page has a policy");
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
    let names = elements(&html).into_iter().map(|(name, _)| name);
    let loading = ["img", "iframe", "object", "embed", "base"];
    assert!(names.clone().all(|name| !loading.contains(&&*name)));
    assert_eq!(names.filter(|name| name == "script" || name == "style").count(), 2);
}

#[test]
fn objects_stand_once_below_the_deletion_that_causes_theirs() {
    let namespace = ObjectId::new("", "Namespace", "", "shop");
    let (inside, other) = (config_map("inside"), config_map("other"));
    let page = plan::page;
    let made = plan(vec![
        change(Action::Delete, &namespace, Some("apps"), None),
        change(Action::Delete, &inside, None, Some(&namespace)),
        change(Action::Create, &other, Some("apps"), None),
    ]);
    let made = page(&made);
    let [section] = &made.sections[..] else { panic!("one owner has one section") };
    assert_eq!(section.summary, "2 to delete, 1 to create");
    let names: Vec<(&str, usize)> = section.rows.iter().map(|row| (&*row.name, row.children.len())).collect();
    assert_eq!(names, [("shop", 1), ("other", 0)]);
    // Objects that cause each other's deletion are shown all the same.
    let circle = plan(vec![
        change(Action::Delete, &inside, None, Some(&other)),
        change(Action::Delete, &other, None, Some(&inside)),
    ]);
    let html = of_plan(&circle);
    assert_eq!(html.matches("<li data-tag").count(), 2);
}

#[test]
fn long_chains_of_causes_are_all_shown() {
    let ids: Vec<ObjectId> = (0..5_000).map(|number| config_map(&format!("c{number}"))).collect();
    let cause = |at: usize| at.checked_sub(1).map(|above| &ids[above]);
    let changes = ids.iter().enumerate().map(|(at, id)| change(Action::Delete, id, None, cause(at)));
    let plan = FinishedPlan::from(plan(changes.collect()));
    assert_eq!(of_plan(&plan).matches("<li data-tag").count(), 5_000);
    let table = plan.text(false, Look::whole(false));
    let rows = table.lines().filter_map(|line| line.trim_start().strip_prefix("delete    ConfigMap/"));
    let shown: Vec<&str> = rows.filter_map(|row| row.split(' ').next()).collect();
    assert_eq!(shown, ids.iter().map(|id| &*id.name).collect::<Vec<_>>(), "each below its cause");
}

#[test]
fn a_plan_without_changes_is_a_page() {
    let html = FinishedPlan::from(plan(vec![])).page();
    assert!(html.contains("<h1>Plan: nothing to prune</h1>"), "{html}");
    assert!(html.ends_with("</html>\n"));
}

#[test]
fn owners_that_are_in_doubt_for_the_same_reason_are_one_section() {
    let mut plan = plan(vec![]);
    let unknown = |(number, remark): (usize, &str)| {
        let remarks = vec![remark.to_owned()];
        let reason = Reason { remarks, ..Reason::new(ReasonCode::NotFollowed, "helm is missing") };
        OwnerOutcome::new(owner(&format!("o{number}")), Outcome::Unknown, reason)
    };
    plan.add_owners(["3 objects", "3 objects", "4 objects", "4 objects"].into_iter().enumerate().map(unknown));
    let html = of_plan(&plan);
    assert_eq!(html.matches("helm is missing").count(), 1, "{html}");
    assert_eq!(html.matches("4 objects").count(), 2, "{html}");
    assert!(html.contains("4 owners") && html.contains("o3"), "{html}");
}
