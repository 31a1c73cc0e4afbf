//! ImageUpdateAutomations: where their commits go is said, and they are not planned.

use serde_json::{Value, json};

use super::cluster::{Files, TestCluster, cm};
use crate::plan::Action;
use crate::testing;

fn files(spec: &Value) -> Files {
    let automation = json!({"apiVersion": "image.toolkit.fluxcd.io/v1", "kind": "ImageUpdateAutomation",
        "metadata": {"name": "bot", "namespace": "flux-system"}, "spec": spec});
    vec![("root/a.yaml", vec![cm("a")]), ("root/bot.yaml", vec![automation])]
}

#[test]
fn the_commits_of_a_new_automation_are_said_and_those_of_a_suspended_one_are_not() {
    let mut cluster = TestCluster::new(&vec![("root/a.yaml", vec![cm("a")])]);
    let kind =
        testing::resource_type("image.toolkit.fluxcd.io", "ImageUpdateAutomation", "imageupdateautomations", true);
    cluster.snapshot.types.push(kind);
    let spec = json!({"interval": "1m", "sourceRef": {"kind": "GitRepository", "name": "repo"},
        "git": {"checkout": {"ref": {"branch": "main"}}, "push": {"branch": "images"}}, "update": {"path": "./root"}});
    let detail = |spec: &Value| {
        let plan = cluster.plan(&files(spec));
        assert!(plan.is_complete(), "{:?}", plan.gaps());
        let row = plan.changes().iter().find(|row| &*row.object.id.name == "bot").unwrap();
        assert_eq!(row.action, Action::Create);
        row.reason.text()
    };
    let said = detail(&spec);
    assert!(
        said.starts_with("its commits to the branch images of GitRepository/flux-system/repo below root are not"),
        "{said}"
    );
    assert!(said.ends_with("in this plan: 0 files with markers of image policies"), "{said}");
    let mut suspended = spec;
    suspended["suspend"] = true.into();
    assert_eq!(detail(&suspended), "");
}
