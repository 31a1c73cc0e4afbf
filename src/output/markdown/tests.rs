use super::*;
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::kubernetes::snapshot::ClusterIdentity;
use gitops_core::ownership::OwnerId;
use gitops_core::plan::alarm::{AlarmCode, Remedy};
use gitops_core::plan::{Action, Actor, Alarm, Contested, PinnedObject, Reason, ReasonCode};

fn owner(name: &str) -> OwnerId {
    OwnerId {
        system: "flux".to_owned(),
        kind: "Kustomization".to_owned(),
        namespace: "flux-system".to_owned(),
        name: name.to_owned(),
    }
}

fn change(action: Action, id: ObjectId, of: Option<&str>, cause: Option<ObjectId>) -> Change {
    let object = PinnedObject { id, uid: "u".to_owned(), resource_version: "1".to_owned() };
    let change = Change::new(action, object, of.map(owner), Actor::KustomizeController, ReasonCode::NotInBuild);
    Change { cause, ..change }
}

fn cm(name: &str) -> ObjectId {
    ObjectId::new("", "ConfigMap", "shop", name)
}

fn plan(changes: Vec<Change>) -> Plan {
    let mut plan = Plan::new(ClusterIdentity::default());
    plan.add_changes(changes);
    plan
}

fn alarm(detail: &str) -> Alarm {
    let code = AlarmCode::OwnerEmptied;
    Alarm { code, owner: None, detail: detail.to_owned(), remedy: Some(Remedy::CheckPaths) }
}

/// A plan with these changes that exceeds two limits.
fn alarming(changes: Vec<Change>) -> Plan {
    let mut plan = plan(changes);
    let emptied = alarm("this deletes 100 % of kustomization/apps -n flux-system");
    plan.set_alarms(vec![emptied, alarm("this deletes 9 objects")]);
    plan
}

/// Every `<details>` is closed, every row is a whole one, and every fence is closed.
fn is_whole(comment: &str) -> bool {
    let tags = comment.matches("<details>").count() == comment.matches("</details>").count();
    let mut rows = comment.lines().filter(|line| line.starts_with('|'));
    tags && rows.all(|row| row.matches('|').count() == 4) && comment.matches("\n```").count().is_multiple_of(2)
}

#[test]
fn the_alarm_is_the_first_line_and_everything_else_follows() {
    let namespace = ObjectId::new("", "Namespace", "", "shop");
    let changes = vec![
        change(Action::Delete, namespace.clone(), Some("apps"), None),
        change(Action::Delete, cm("inside"), Some("apps"), Some(namespace)),
        change(Action::Keep, cm("kept"), Some("other"), None),
    ];
    let comment = render(&alarming(changes.clone()));
    let lines: Vec<&str> = comment.lines().collect();
    assert_eq!(lines[0], "🛑 **Alarm:** `this deletes 100 % of kustomization/apps -n flux-system`");
    let counts = "**2 to delete, 1 kept**. Deletes: 1 `ConfigMap`, 1 `Namespace`";
    let summary = lines.iter().position(|line| *line == counts).unwrap();
    let details = lines.iter().position(|line| line.starts_with("<details>")).unwrap();
    assert!(summary < details, "{comment}");
    assert!(
        comment.contains("n0[\"kustomization/apps -n flux-system\"]\n  n0 --> n1[\"namespace/shop\"]\n"),
        "{comment}"
    );
    assert!(comment.contains("n1 --> n2[\"configmap/inside -n shop\"]"), "{comment}");
    assert!(comment.contains("| delete | `namespace/shop` | not-in-build |\n"), "{comment}");
    assert!(is_whole(&comment), "{comment}");
    let quiet = render(&plan(changes));
    assert!(quiet.starts_with("**2 to delete, 1 kept**"), "{quiet}");
    assert_eq!(render(&plan(vec![])).trim(), "**nothing to prune**");
}

#[test]
fn five_thousand_rows_stay_below_the_limit_and_what_is_left_out_is_counted() {
    let rows = |number: usize, owners: usize| -> Vec<Change> {
        let row = |at: usize| {
            let name = format!("object-with-a-name-of-some-length-{at}");
            let action = if at.is_multiple_of(5) { Action::Delete } else { Action::Create };
            change(action, cm(&name), Some(&format!("owner-{}", at % owners)), None)
        };
        (0..number).map(row).collect()
    };
    for owners in [1, 7, 5000] {
        let comment = render(&alarming(rows(5000, owners)));
        assert!(comment.len() < LIMIT && comment.len() > LIMIT / 3, "{owners} owners: {} bytes", comment.len());
        assert!(is_whole(&comment), "{owners} owners");
        let shown = comment.lines().filter(|line| line.starts_with("| delete") || line.starts_with("| create")).count();
        let left = format!("**{} rows of 5000 left out here**", 5000 - shown);
        assert!(comment.contains(&left), "{owners} owners: {shown} rows shown, no {left}");
        let creations = comment.lines().filter(|line| line.starts_with("| create")).count();
        let deletions = shown - creations;
        assert!(creations == 0 || deletions == 1000, "deletions are shown before creations");
    }
    assert!(!render(&plan(rows(50, 3))).contains("left out"));
}

#[test]
fn a_row_that_is_longer_than_everything_is_left_out_whole() {
    let long = "`".repeat(50_000);
    let mut row = change(Action::Delete, cm(&long), Some("apps"), None);
    row.reason = Reason::new(ReasonCode::NotInBuild, long);
    let comment = render(&alarming(vec![row, change(Action::Delete, cm("short"), Some("apps"), None)]));
    assert!(comment.len() < LIMIT && is_whole(&comment), "{}", comment.len());
}

#[test]
fn alarms_that_are_not_listed_are_counted() {
    let mut plan = plan(vec![]);
    plan.set_alarms((0..8).map(|number| alarm(&format!("alarm {number}"))).collect());
    let comment = render(&plan);
    assert!(comment.contains("- alarm: `alarm 4`\n- and 3 more\n"), "{comment}");
}

#[test]
fn a_comment_tells_of_when_the_cluster_is_and_what_two_owners_apply() {
    let object = ObjectId::new("", "ConfigMap", "shop", "web");
    let contested = Contested { object, owners: vec![owner("one"), owner("two")] };
    let mut plan = plan(vec![]).recorded_at(Some(chrono::DateTime::UNIX_EPOCH));
    plan.add_contested([contested]);
    let comment = render(&plan);
    assert!(comment.contains("Planned on the cluster as it was at 1970-01-01 00:00 UTC."), "{comment}");
    assert!(
        comment.contains("web -n shop` is applied by") && comment.contains("each undoes what the other does"),
        "{comment}"
    );
    assert!(!render(&Plan::new(ClusterIdentity::default())).contains("Planned on"));
}
