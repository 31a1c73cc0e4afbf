//! Deletions by installs and upgrades of releases beside the objects that leave a chart: hooks, and remedies of failures.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::cluster::{Files, NS, TestCluster, cm, ks, set};
use super::releases::record;
use super::unfollowed::{cluster, flux, release, source};
use super::upgrades::{Template, deployed, deployed_from, reason, spec, templates, tree, without};
use crate::kubernetes::object::{GroupKind, ManagedFieldsEntry};
use crate::kubernetes::snapshot::OtherVersion;
use crate::plan::{Action, Certainty, Outcome, Plan, ReasonCode};
use crate::testing::resource_type;

const HOOK: &str = "charts/app/templates/hook.yaml";

/// Returns a spec with further fields.
fn with(more: Value) -> Value {
    let mut spec = spec(json!({}));
    more.as_object().unwrap().iter().for_each(|(key, value)| spec[key] = value.clone());
    spec
}

/// Returns a cluster without the release, in which some ConfigMaps exist.
fn before(live: &[&str]) -> TestCluster {
    let mut files = tree("1", &templates(), spec(json!({})));
    files.retain(|(at, _)| *at != "root/a.yaml");
    let mut cluster = cluster(&files, true);
    for name in live {
        cluster.add(&cm(name), None);
    }
    cluster.snapshot.normalise();
    cluster
}

fn hooked(annotations: Value) -> Vec<Template> {
    let mut all = templates();
    all.push((HOOK, "hook", annotations));
    all
}

#[test]
fn an_installation_creates_its_namespace_only_if_that_is_its_target_namespace() {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "spoke", "namespace": NS}});
    let files = |own: Option<Value>| {
        let mut files = tree("1", &templates(), json!({}));
        files[0].1.push(secret.clone());
        files[1].1 = own.map(release).into_iter().chain([cm("y")]).collect();
        files
    };
    let created = |target: Value| {
        let mut cluster = cluster(&files(None), true);
        cluster.move_to_spoke_if(|_| false);
        cluster.snapshot.spokes.values_mut().for_each(|spoke| spoke.objects.clear());
        let mut spec =
            with(json!({"kubeConfig": {"secretRef": {"name": "spoke"}}, "install": {"createNamespace": true}}));
        spec["targetNamespace"] = target;
        let plan = cluster.plan(&files(Some(spec)));
        let there = plan.changes().iter().filter(|row| row.object.id.cluster.is_some());
        let namespaces =
            there.filter(|row| &*row.object.id.kind == "Namespace").map(|row| row.object.id.name.to_string());
        (namespaces.collect::<Vec<_>>(), reason(&plan))
    };
    assert_eq!(created("shop".into()).0, ["shop"]);
    let (namespaces, (outcome, why)) = created(Value::Null);
    assert_eq!((namespaces, outcome), (vec![], Outcome::Blocked));
    assert!(why.contains("namespaces \"flux-system\" not found"), "{why}");
}

#[test]
fn a_hook_of_a_new_release_deletes_the_object_that_has_its_name() {
    let rows = |annotations: Value, spec: Value| before(&["hook"]).rows(&tree("1", &hooked(annotations), spec));
    let pre = |policy: &str| json!({"helm.sh/hook": "pre-install", "helm.sh/hook-delete-policy": policy});
    assert_eq!(rows(json!({"helm.sh/hook": "pre-install"}), spec(json!({}))), set(&["recreate hook"]));
    assert_eq!(rows(pre("hook-succeeded"), spec(json!({}))), set(&["delete hook"]));
    assert_eq!(rows(pre("hook-failed"), spec(json!({}))), set(&[]), "a ConfigMap never fails");
    assert_eq!(rows(json!({"helm.sh/hook": "pre-upgrade"}), spec(json!({}))), set(&[]));
    let disabled = with(json!({"install": {"disableHooks": true}}));
    assert_eq!(rows(json!({"helm.sh/hook": "pre-install"}), disabled), set(&[]));
    let plan = before(&["hook"]).plan(&tree("1", &hooked(json!({"helm.sh/hook": "pre-install"})), spec(json!({}))));
    let row = plan.changes().iter().find(|row| &*row.object.id.name == "hook").unwrap();
    assert_eq!(row.reason.code.to_string(), "hook");
    assert!(plan.is_complete(), "{:?}", plan.gaps());
    assert!(reason(&plan).1.starts_with("release-installed: it is created; chart app 1"), "{}", reason(&plan).1);
}

#[test]
fn a_hook_is_in_no_inventory_afterwards() {
    let files = tree("1", &hooked(json!({"helm.sh/hook": "pre-install"})), spec(json!({})));
    let snapshot = super::after::after(&before(&["hook"]), &files).snapshot;
    let release = snapshot.resources.iter().find(|full| &*full.object.id.kind == "HelmRelease").unwrap();
    let inventory = release.at("/status/inventory/entries").unwrap().to_string();
    assert!(inventory.contains("_web__ConfigMap") && !inventory.contains("_hook__"), "{inventory}");
}

#[test]
fn a_failed_installation_deletes_what_it_took_over_if_the_remedy_says_so() {
    let mut all = templates();
    all[0].2 = json!({});
    let rows = |remediation: Value, refused: &[(&'static str, &'static str)]| {
        let mut cluster = before(&["web", "kept"]);
        cluster.upgrades = Some(refused.iter().copied().collect());
        cluster.rows(&tree("1", &all, with(json!({"install": {"remediation": remediation}}))))
    };
    assert_eq!(rows(json!({}), &[("extra", "denied")]), set(&[]), "the failed release stays");
    assert_eq!(rows(json!({"retries": 3}), &[]), set(&[]), "nothing fails");
    assert_eq!(rows(json!({"retries": 3}), &[("extra", "denied")]), set(&["recreate web"]));
    assert_eq!(rows(json!({"remediateLastFailure": true}), &[("extra", "denied")]), set(&["delete web"]));
    // Something that is waited for may never get ready.
    let mut cluster = before(&["web"]);
    cluster.snapshot.types.push(resource_type("", "Pod", "pods", true));
    cluster.upgrades = Some(BTreeMap::new());
    let mut files = tree("1", &all, with(json!({"install": {"remediation": {"retries": 1}}})));
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod", "namespace": NS}});
    files.push(("charts/app/templates/pod.yaml", vec![pod]));
    assert_eq!(cluster.rows(&files), set(&["recreate? web"]));
}

#[test]
fn a_release_whose_record_is_gone_is_installed_and_deletes_nothing() {
    let mut found = deployed(spec(json!({})));
    found.snapshot.objects.retain(|object| !object.id.is("", "Secret"));
    let after = tree("2", &without("extra"), spec(json!({})));
    assert_eq!(found.rows(&after), set(&["keep extra"]));
    assert!(reason(&found.plan(&after)).1.starts_with("release-installed: "));
}

#[test]
fn each_revision_upgrades_a_chart_that_follows_it() {
    let mut follows = spec(json!({}));
    follows["chart"]["spec"]["reconcileStrategy"] = "Revision".into();
    let hook = json!({"helm.sh/hook": "post-upgrade"});
    let mut cluster = deployed(follows.clone());
    let mut history = tree("1", &hooked(hook.clone()), follows.clone());
    cluster.add(&cm("hook"), None);
    cluster.snapshot.normalise();
    cluster.history = Some(history.clone());
    assert_eq!(cluster.rows(&history), set(&[]), "nothing is committed");
    history.push(("elsewhere/readme.yaml", vec![cm("unrelated")]));
    assert_eq!(cluster.rows(&history), set(&["recreate hook"]));
    assert!(reason(&cluster.plan(&history)).1.contains("chart app 1 of another revision"));
}

#[test]
fn a_chart_of_the_same_name_and_version_is_not_installed() {
    let cluster = deployed(spec(json!({})));
    // The spec of the HelmChart changes, so it is packed again.
    let mut renewed = spec(json!({}));
    renewed["chart"]["spec"]["interval"] = "7m".into();
    renewed["chart"]["spec"]["ignoreMissingValuesFiles"] = true.into();
    assert_eq!(cluster.rows(&tree("1", &without("extra"), renewed.clone())), set(&[]));
    renewed["values"] = json!({"image": "2"});
    assert_eq!(cluster.rows(&tree("1", &without("extra"), renewed)), set(&["delete extra"]), "the new values bring it");
    // The API server has added the defaults.
    let mut defaulted = deployed(spec(json!({})));
    defaulted.history = None;
    let live = &mut defaulted.kustomization("app").content["spec"]["chart"]["spec"];
    (live["version"], live["reconcileStrategy"]) = ("*".into(), "ChartVersion".into());
    defaulted.history = Some(tree("1", &templates(), spec(json!({}))));
    assert_eq!(defaulted.rows(&tree("1", &without("extra"), spec(json!({})))), set(&[]));
}

#[test]
fn a_failed_upgrade_deletes_everything_if_its_remedy_is_an_uninstall() {
    let remedy = json!({"upgrade": {"remediation": {"retries": 1, "strategy": "uninstall"}}});
    let rows = |refused: &[(&'static str, &'static str)], more: Option<Value>| {
        let mut cluster = deployed(with(remedy.clone()));
        cluster.snapshot.types.push(resource_type("", "Pod", "pods", true));
        for name in ["web", "kept", "extra"] {
            let entry = ManagedFieldsEntry { manager: "helm-controller".into(), applies: true, ..Default::default() };
            cluster.object(name).managed_fields = vec![entry];
        }
        cluster.upgrades = Some(refused.iter().copied().collect());
        let mut files = tree("2", &templates(), with(remedy.clone()));
        files.extend(more.map(|object| ("charts/app/templates/more.yaml", vec![object])));
        cluster.rows(&files)
    };
    assert_eq!(rows(&[], None), set(&[]), "nothing can fail");
    let record = "recreate sh.helm.release.v1.app.v1";
    assert_eq!(rows(&[("web", "denied")], None), set(&["recreate web", "recreate extra", record]), "kept is protected");
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod", "namespace": NS}});
    let raced = ["recreate? web", "recreate? extra", "recreate? sh.helm.release.v1.app.v1"];
    assert_eq!(rows(&[], Some(pod)), set(&raced));
    // A namespace of the release is deleted by the remedy itself, which mends nothing.
    let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "made"}});
    let refused = rows(&[("web", "denied")], Some(space));
    assert!(refused.contains("recreate web"), "{refused:?}");
}

#[test]
fn hooks_of_an_uninstall_are_deleted() {
    let gone: Files = vec![("root/x.yaml", vec![cm("x")])];
    let rows = |events: &str, policy: &str, spec: Value| {
        let mut cluster = cluster(&vec![("root/x.yaml", vec![cm("x")]), ("root/a.yaml", vec![release(spec)])], true);
        let mut hook = cm("hook");
        let policy = if policy.is_empty() { "before-hook-creation" } else { policy };
        hook["metadata"]["annotations"] = json!({"helm.sh/hook": events, "helm.sh/hook-delete-policy": policy});
        hook["metadata"]["labels"] =
            json!({"helm.toolkit.fluxcd.io/name": "app", "helm.toolkit.fluxcd.io/namespace": NS});
        cluster.add(&hook, None);
        cluster.add(&record(), None);
        cluster.snapshot.normalise();
        cluster.rows(&gone)
    };
    let both = |row: &str| {
        let rows = ["delete app", "delete sh.helm.release.v1.app.v1", row];
        set(&rows.into_iter().filter(|row| !row.is_empty()).collect::<Vec<_>>())
    };
    assert_eq!(rows("pre-install,post-delete", "", json!({})), both("recreate hook"));
    assert_eq!(rows("pre-install,pre-delete", "hook-succeeded", json!({})), both("delete hook"));
    assert_eq!(rows("post-install", "", json!({})), both(""));
    assert_eq!(rows("post-delete", "", json!({"uninstall": {"disableHooks": true}})), both(""));
}

#[test]
fn hooks_that_an_uninstall_leaves_are_created() {
    let rows = |kind: &str, annotations: Value| {
        let mut before = tree("1", &templates(), spec(json!({})));
        let mut hook = cm("hook");
        (hook["kind"], hook["metadata"]["annotations"]) = (kind.into(), annotations);
        before.push(("charts/app/templates/hook.yaml", vec![hook]));
        let cluster = deployed_from(&before);
        let after: Files = before.into_iter().filter(|(path, _)| *path != "root/a.yaml").collect();
        let plan = cluster.plan(&after);
        let own = plan.changes().iter().filter(|change| &*change.object.id.name == "hook");
        own.map(|change| (change.action, change.certainty)).collect::<Vec<_>>()
    };
    let certain = (Action::Create, Certainty::Certain);
    let hook = |event: &str, policy: &str| json!({"helm.sh/hook": event, "helm.sh/hook-delete-policy": policy});
    for event in ["pre-delete", "post-delete"] {
        assert_eq!(rows("ConfigMap", hook(event, "")), [certain], "{event}");
        assert!(rows("ConfigMap", hook(event, "hook-succeeded")).is_empty(), "{event}");
    }
    assert!(rows("ConfigMap", hook("post-upgrade", "")).is_empty());
    assert_eq!(rows("Pod", hook("pre-delete", "")), [certain]);
    assert_eq!(rows("Pod", hook("pre-delete", "hook-failed")), [(Action::Create, Certainty::Race)]);
}

#[test]
fn a_hook_is_not_created_and_its_release_stays_terminating_while_another_hook_fails() {
    let mut before = tree("1", &templates(), spec(json!({})));
    let mut hook = |kind: &str, path: &'static str, name: &str, event: &str| {
        let mut hook = cm(name);
        (hook["kind"], hook["metadata"]["annotations"]) = (kind.into(), json!({"helm.sh/hook": event}));
        before.push((path, vec![hook]));
    };
    hook("Pod", "charts/app/templates/first.yaml", "first", "pre-delete");
    hook("ConfigMap", "charts/app/templates/last.yaml", "last", "post-delete");
    let cluster = deployed_from(&before);
    let after: Files = before.into_iter().filter(|(path, _)| *path != "root/a.yaml").collect();
    let plan = cluster.plan(&after);
    let text = |name: &str| plan.changes().iter().find(|row| &*row.object.id.name == name).unwrap().reason.text();
    let why = "while the hook pod/first -n flux-system fails";
    assert!(text("last").contains(&format!("it is not created {why}")), "{}", text("last"));
    assert!(text("web").contains(&format!("it stays {why}")), "{}", text("web"));
    assert!(text("app").contains(&format!("it stays Terminating {why}")), "{}", text("app"));
}

#[test]
fn a_hook_with_an_expression_for_its_health_can_fail_unless_helm_waits_as_before() {
    let row = |expressions: Value, more: Value| {
        let mut spec = spec(json!({}));
        spec["healthCheckExprs"] = expressions;
        more.as_object().unwrap().iter().for_each(|(key, value)| spec[key] = value.clone());
        let mut hooked = templates();
        hooked.push(("charts/app/templates/hook.yaml", "hook", json!({"helm.sh/hook": "pre-upgrade"})));
        let mut cluster = deployed_from(&tree("1", &hooked, spec.clone()));
        cluster.upgrades = Some([].into());
        for name in ["web", "kept", "extra"] {
            let entry = ManagedFieldsEntry { manager: "helm-controller".into(), applies: true, ..Default::default() };
            cluster.object(name).managed_fields = vec![entry];
        }
        let mut smaller = hooked.clone();
        smaller.retain(|(_, name, _)| *name != "extra");
        let plan = cluster.plan(&tree("2", &smaller, spec));
        plan.deletions().find(|row| &*row.object.id.name == "extra").unwrap().reason.text()
    };
    let expression = json!([{"apiVersion": "v1", "kind": "ConfigMap", "current": "data.a == 'b'"}]);
    let legacy = json!({"waitStrategy": {"name": "legacy"}});
    assert!(!row(json!([]), json!({})).contains("hook"));
    let text = row(expression.clone(), json!({}));
    assert!(text.contains("it stays if the upgrade fails"), "{text}");
    assert!(!row(expression, legacy).contains("fails"));
}

#[test]
fn a_release_that_a_deleted_parent_may_create_first_may_lose_what_it_took_over() {
    let files = |parent: &str, own: Vec<Value>, annotations: Value| -> Files {
        let mut web = cm("web");
        web["metadata"]["annotations"] = annotations;
        vec![
            ("root/k.yaml", vec![ks(parent, "./team", json!({}))]),
            ("team/a.yaml", [&[cm("y")], &own[..]].concat()),
            ("charts/app/Chart.yaml", vec![json!({"apiVersion": "v2", "name": "app", "version": "1"})]),
            ("charts/app/templates/web.yaml", vec![web]),
        ]
    };
    let row = |parent: &str, own: Value, annotations: Value| {
        let mut cluster = cluster(&files("team", vec![], json!({})), true);
        cluster.add(&cm("web"), None);
        cluster.snapshot.normalise();
        let plan = cluster.plan(&files(parent, vec![own], annotations));
        let web = plan.changes().iter().find(|row| &*row.object.id.name == "web" && row.is_deletion());
        web.map(|row| (row.action, row.reason.text()))
    };
    let (action, text) = row("team2", release(spec(json!({}))), json!({})).unwrap();
    let first = "it stays unless kustomization/team -n flux-system creates helmrelease.helm.toolkit.fluxcd.io/app";
    assert!(action == Action::Recreate && text.contains(first), "{action:?} {text}");
    assert_eq!(row("team", release(spec(json!({}))), json!({})), None, "its parent stays");
    assert_eq!(row("team2", release(spec(json!({}))), json!({"helm.sh/resource-policy": "keep"})), None);
    let mut kept = release(spec(json!({})));
    kept["metadata"]["annotations"] = json!({"kustomize.toolkit.fluxcd.io/prune": "disabled"});
    assert_eq!(row("team2", kept, json!({})), None);
}

#[test]
fn a_dependency_that_is_never_ready_blocks_an_upgrade() {
    let cluster = deployed(spec(json!({})));
    let upgraded = |dependency: Option<Value>| {
        let mut own = spec(json!({}));
        own["dependsOn"] = json!([{"name": "other"}]);
        let mut after = tree("2", &without("extra"), own);
        let dependency = dependency.map(|spec| flux("helm.toolkit.fluxcd.io/v2", "HelmRelease", "other", spec));
        after.extend(dependency.map(|dependency| ("root/d.yaml", vec![dependency])));
        let plan = cluster.plan(&after);
        let code = plan.owners().iter().find(|row| row.owner.name == "app").unwrap().reason.code;
        let deleted: Vec<Certainty> = plan.deletions().map(|change| change.certainty).collect();
        (deleted, code)
    };
    // The new chart may come before the dependency.
    let race = || vec![Certainty::Race];
    assert_eq!(upgraded(None), (race(), ReasonCode::DependencyMissing));
    let with = |field: &str, value: Value| {
        let mut other = spec(json!({}));
        other[field] = value;
        upgraded(Some(other))
    };
    assert_eq!(with("suspend", true.into()), (race(), ReasonCode::DependencyNotReady));
    assert_eq!(with("dependsOn", json!([{"name": "app"}])), (race(), ReasonCode::DependencyCycle));
    assert_eq!(with("interval", "1h".into()), (race(), ReasonCode::ReleaseUpgraded), "it may become ready");
}

#[test]
fn a_release_with_a_kind_that_is_not_served_cannot_be_uninstalled() {
    let before: Files = vec![("root/x.yaml", vec![cm("x")]), ("root/a.yaml", vec![release(json!({}))])];
    let mut cluster = cluster(&before, true);
    cluster.add(&cm("web"), None);
    cluster.add(&record(), None);
    let entries = ["flux-system_web__ConfigMap", "flux-system_c_e.com_Cog"].map(|id| json!({"id": id, "v": "v1"}));
    cluster.kustomization("app").content["status"]["inventory"]["entries"] = json!(entries);
    cluster.snapshot.normalise();
    let gone: Files = vec![("root/x.yaml", vec![cm("x")])];
    assert_eq!(cluster.rows(&gone), set(&["delete app", "keep web", "keep sh.helm.release.v1.app.v1"]));
}

#[test]
fn a_chart_that_always_fails_blocks_the_release() {
    let blocked = |plan: &Plan, part: &str| {
        let (outcome, why) = reason(plan);
        assert_eq!((outcome, plan.is_complete(), plan.summary().delete), (Outcome::Blocked, true, 0), "{why}");
        assert!(why.contains(part), "{why}");
    };
    let mut cluster = deployed(spec(json!({})));
    let mut broken = without("extra");
    broken.push(("charts/app/templates/fail.yaml", "fail", json!({})));
    blocked(&cluster.plan(&tree("2", &broken, spec(json!({})))), "render-fails: ");
    let mut twice = without("extra");
    twice.push(("charts/app/templates/again.yaml", "web", json!({})));
    blocked(&cluster.plan(&tree("2", &twice, spec(json!({})))), "configmap/web -n flux-system twice");
    let nameless = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"labels": {"a": "b"}}});
    let mut files = tree("2", &without("extra"), spec(json!({})));
    files.push(("charts/app/templates/nameless.yaml", vec![nameless]));
    blocked(&cluster.plan(&files), "renders a manifest without a name");
    for (hook, what) in [(json!({}), "manifest"), (json!({"helm.sh/hook": "pre-upgrade"}), "hook")] {
        let generated =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "g-", "annotations": hook}});
        let mut files = tree("2", &without("extra"), spec(json!({})));
        files.push(("charts/app/templates/generated.yaml", vec![generated]));
        blocked(&cluster.plan(&files), &format!("renders a {what} without a name"));
    }
    let unserved = json!({"apiVersion": "e.com/v1", "kind": "Cog", "metadata": {"name": "c"}});
    let mut files = tree("2", &without("extra"), spec(json!({})));
    files.push(("charts/app/templates/cog.yaml", vec![unserved]));
    blocked(&cluster.plan(&files), "does not serve cog.e.com");
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "cogs.e.com"}, "spec": {"group": "e.com", "names": {"kind": "Cog"}}});
    let beside = |document: Value| {
        let mut files = tree("2", &without("extra"), spec(json!({})));
        files.push(("charts/app/crds/other.yaml", vec![document]));
        cluster.plan(&files)
    };
    blocked(&beside(json!("text")), "a file in the crds/ of the chart is no manifest");
    blocked(
        &beside(json!({"apiVersion": "e.com/v1", "kind": "Cog"})),
        "does not serve cog.e.com, which is in the crds/",
    );
    files.push(("charts/app/crds/cogs.yaml", vec![definition]));
    assert_eq!(cluster.rows(&files), set(&["delete? extra"]), "the definition comes first, and may be refused");
    cluster.upgrades = Some(BTreeMap::new());
    assert_eq!(cluster.rows(&files), set(&["delete extra"]));
    cluster.upgrades = Some([("cogs.e.com", "is invalid: no")].into());
    assert_eq!(cluster.rows(&files), set(&["keep extra"]));
    cluster.upgrades = None;
    let from = with(json!({"valuesFrom": [{"kind": "ConfigMap", "name": "gone"}]}));
    let plan = cluster.plan(&tree("2", &without("extra"), from.clone()));
    assert!(reason(&plan).1.starts_with("values-missing: "), "{}", reason(&plan).1);
    assert_eq!(
        cluster.rows(&tree("2", &without("extra"), from.clone())),
        set(&["delete? extra"]),
        "the new chart may come first"
    );
    blocked(&cluster.plan(&tree("1", &templates(), from)), "values-missing: ");
}

#[test]
fn a_new_chart_may_come_before_the_spec_of_its_release_changes() {
    let rows = |old: Value, new: Value, after: &[Template]| {
        let cluster = deployed(with(old));
        (cluster.rows(&tree("2", after, with(new.clone()))), reason(&cluster.plan(&tree("2", after, with(new)))).1)
    };
    let gone = without("extra");
    let (found, why) = rows(json!({}), json!({"suspend": true}), &gone);
    assert_eq!(found, set(&["delete? extra"]), "{why}");
    assert!(why.ends_with("an upgrade to the new chart may come before its spec changes"), "{why}");
    assert_eq!(rows(json!({"suspend": true}), json!({"suspend": true, "interval": "1h"}), &gone).0, set(&[]));
    assert_eq!(rows(json!({}), json!({"interval": "1h"}), &gone).0, set(&["delete extra"]), "in both orders");
    assert_eq!(rows(json!({}), json!({"suspend": true}), &templates()).0, set(&[]), "nothing leaves the chart");
    // Hooks of the new chart run in the upgrade that comes first, and not again.
    let mut hooked = templates();
    hooked.push(("charts/app/templates/hook.yaml", "hook", json!({"helm.sh/hook": "pre-upgrade"})));
    let upgraded = |old: Value, new: Value| {
        let mut cluster = deployed(with(json!({"upgrade": old})));
        cluster.add(&cm("hook"), None);
        cluster.snapshot.normalise();
        cluster.rows(&tree("2", &hooked, with(json!({"upgrade": new}))))
    };
    let off = || json!({"disableHooks": true});
    assert_eq!(upgraded(json!({}), off()), set(&["recreate? hook"]));
    assert_eq!(upgraded(off(), json!({})), set(&["recreate? hook"]));
    assert_eq!(upgraded(json!({"maxHistory": 3}), json!({})), set(&["recreate hook"]));
    // The chart changes with the new spec alone.
    let moved = json!({"suspend": true, "chart": {"spec": {"chart": "./charts/other",
        "sourceRef": {"kind": "GitRepository", "name": "repo"}}}});
    let cluster = deployed(with(json!({})));
    assert_eq!(cluster.rows(&tree("1", &templates(), with(moved))), set(&[]));
}

#[test]
fn an_unchanged_object_that_the_server_refuses_keeps_what_left_the_chart() {
    let mut cluster = deployed(spec(json!({})));
    for name in ["web", "kept", "extra"] {
        let entry = ManagedFieldsEntry { manager: "helm-controller".into(), applies: true, ..Default::default() };
        cluster.object(name).managed_fields = vec![entry];
    }
    let after = tree("2", &without("extra"), spec(json!({})));
    cluster.upgrades = Some(BTreeMap::new());
    assert_eq!(cluster.rows(&after), set(&["delete extra"]));
    cluster.upgrades = Some([("web", "frozen by another manager")].into());
    assert_eq!(cluster.rows(&after), set(&["keep extra"]));
}

#[test]
fn what_a_chart_changes_has_the_consequences_of_any_change() {
    // The chart moves the path of a Kustomization, whose objects then change.
    let child = |path: &str| ks("child", path, json!({}));
    let chart = |version: &str, path: &str| {
        let mut files = tree(version, &templates(), spec(json!({})));
        files.push(("charts/app/templates/child.yaml", vec![child(path)]));
        files.push(("one/a.yaml", vec![cm("of-one")]));
        files.push(("two/a.yaml", vec![cm("of-two")]));
        files
    };
    let mut cluster = deployed(spec(json!({})));
    let files: Files = vec![("one/a.yaml", vec![cm("of-one")])];
    cluster.apply(&child("./one"), None, &super::cluster::artifact(&files));
    let id = "flux-system_child_kustomize.toolkit.fluxcd.io_Kustomization";
    let status = &mut cluster.kustomization("app").content["status"];
    status["inventory"]["entries"].as_array_mut().unwrap().push(json!({"id": id, "v": "v1"}));
    cluster.snapshot.normalise();
    cluster.history = Some(chart("1", "./one"));
    let rows = cluster.rows(&chart("2", "./two"));
    assert!(rows.contains("delete of-one"), "{rows:?}");
    assert_eq!(cluster.rows(&chart("1", "./one")), set(&[]));
}

#[test]
fn values_that_a_chart_writes_change_another_release() {
    let data = |text: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "values", "namespace": NS},
            "data": {"values.yaml": text}})
    };
    let other = |values: &str| {
        let chart = json!({"chart": "./charts/other", "sourceRef": {"kind": "GitRepository", "name": "repo"}});
        let from = json!([{"kind": "ConfigMap", "name": values}]);
        flux("helm.toolkit.fluxcd.io/v2", "HelmRelease", "other", json!({"chart": {"spec": chart}, "valuesFrom": from}))
    };
    let files = |version: &str, text: &str| {
        let mut files = tree(version, &templates(), spec(json!({})));
        files.push(("charts/app/templates/values.yaml", vec![data(text)]));
        files.push(("root/other.yaml", vec![other("values")]));
        files.push(("charts/other/Chart.yaml", vec![json!({"apiVersion": "v2", "name": "other", "version": "1"})]));
        files.push(("charts/other/templates/gone.yaml", vec![cm("gone")]));
        files
    };
    let mut cluster = cluster(&files("1", "{}"), true);
    for manifest in [cm("web"), cm("kept"), cm("extra"), cm("gone"), data("{}"), record()] {
        cluster.add(&manifest, None);
    }
    let mut stored = record();
    (stored["metadata"]["name"], stored["metadata"]["labels"]["name"]) =
        ("sh.helm.release.v1.other.v1".into(), "other".into());
    cluster.add(&stored, None);
    for (name, objects) in [("app", &["web", "kept", "extra", "values"][..]), ("other", &["gone"])] {
        let entries: Vec<Value> =
            objects.iter().map(|name| json!({"id": format!("{NS}_{name}__ConfigMap"), "v": "v1"})).collect();
        let status = &mut cluster.kustomization(name).content["status"];
        status["inventory"]["entries"] = json!(entries);
        let latest = &mut status["history"][0];
        (latest["status"], latest["name"], latest["chartName"]) = ("deployed".into(), name.into(), name.into());
    }
    cluster.snapshot.normalise();
    assert_eq!(cluster.rows(&files("1", "{}")), set(&[]));
    assert_eq!(cluster.rows(&files("2", "off: [gone.yaml]")), set(&["delete gone"]));
}

#[test]
fn a_dependency_that_the_same_commit_suspends_stays_ready() {
    let spec = with(json!({"dependsOn": [{"name": "other"}]}));
    let other = |suspend: bool, image: &str| {
        let spec = json!({"suspend": suspend, "values": {"image": image}});
        ("root/other.yaml", vec![flux("helm.toolkit.fluxcd.io/v2", "HelmRelease", "other", spec)])
    };
    let files = |version: &str, templates: &[Template], other| {
        let mut files = tree(version, templates, spec.clone());
        files.push(other);
        files
    };
    let cluster = deployed_from(&files("1", &templates(), other(false, "1")));
    assert_eq!(cluster.rows(&files("2", &without("extra"), other(false, "1"))), set(&["delete extra"]));
    assert_eq!(cluster.rows(&files("2", &without("extra"), other(true, "2"))), set(&["delete extra"]));
}

#[test]
fn definitions_of_the_same_commit_may_come_before_the_render() {
    let mut all = without("extra");
    all.push(("charts/app/templates/if-cog.yaml", "extra", json!({})));
    let reads = vec![json!({"text": "{{ .Capabilities.APIVersions.Has .x }}"})];
    let mut after = tree("2", &all, spec(json!({})));
    after.push(("charts/app/templates/_helpers.tpl", reads));
    let mut cluster = deployed(spec(json!({})));
    let crds = resource_type("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", false);
    cluster.snapshot.types.push(crds);
    cluster.snapshot.other_versions =
        vec![OtherVersion { what: GroupKind::new("apps", "Deployment"), version: "v1".into() }];
    assert_eq!(cluster.rows(&after), set(&["delete extra"]));
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "cogs.e.com"}, "spec": {"group": "e.com", "scope": "Namespaced", "names": {"kind": "Cog"},
        "versions": [{"name": "v1", "served": true}]}});
    after.push(("root/cogs.yaml", vec![definition]));
    assert_eq!(cluster.rows(&after), set(&["delete? extra"]));
}

#[test]
fn claims_of_a_set_that_shrinks_are_deleted() {
    let sets = |replicas: i64| {
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": NS}, "spec": {
            "replicas": replicas, "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
            "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"}}})
    };
    let files = |version: &str, replicas: i64| {
        let mut files = tree(version, &templates(), spec(json!({})));
        files.push(("charts/app/templates/db.yaml", vec![sets(replicas)]));
        files
    };
    let mut cluster = deployed_from(&files("1", 2));
    cluster.snapshot.types.push(resource_type("apps", "StatefulSet", "statefulsets", true));
    cluster.snapshot.types.push(resource_type("", "PersistentVolumeClaim", "persistentvolumeclaims", true));
    cluster.add(&sets(2), None);
    for name in ["data-db-0", "data-db-1"] {
        cluster.add(
            &json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": NS}}),
            None,
        );
    }
    let status = &mut cluster.kustomization("app").content["status"];
    let entries = status["inventory"]["entries"].as_array_mut().unwrap();
    entries.push(json!({"id": format!("{NS}_db_apps_StatefulSet"), "v": "v1"}));
    for name in ["web", "kept", "extra", "db"] {
        let entry = ManagedFieldsEntry { manager: "helm-controller".into(), applies: true, ..Default::default() };
        cluster.object(name).managed_fields = vec![entry];
    }
    cluster.snapshot.normalise();
    cluster.upgrades = Some(BTreeMap::new());
    assert_eq!(cluster.rows(&files("2", 1)), set(&["delete? data-db-1"]), "the live set is not read");
    cluster.content.insert("db".to_owned(), sets(2));
    assert_eq!(cluster.rows(&files("2", 1)), set(&["delete data-db-1"]));
    let plan = cluster.plan(&files("2", 1));
    let row = plan.changes().iter().find(|row| &*row.object.id.name == "data-db-1").unwrap();
    assert_eq!((row.reason.code.to_string(), row.by.to_string()), ("scaled-down".into(), "garbage-collector".into()));
}

#[test]
fn the_chart_of_a_helm_chart_is_read_from_the_tree_that_it_is_packed_from() {
    let files = |version: &str, name: &str, templates: &[Template]| {
        let source_ref = json!({"kind": "GitRepository", "name": "repo"});
        let chart = json!({"chart": "./charts/app", "interval": "1h", "sourceRef": source_ref});
        let mut files = tree(version, templates, json!({"chartRef": {"kind": "HelmChart", "name": name}}));
        files.push(("root/c.yaml", vec![source("HelmChart", name, chart)]));
        files
    };
    let cluster = deployed_from(&files("1", "own", &templates()));
    assert_eq!(cluster.rows(&files("2", "own", &without("extra"))), set(&["delete extra"]));
    assert_eq!(cluster.rows(&files("1", "own", &without("extra"))), set(&[]), "it is not packed again");
    let renamed = cluster.rows(&files("2", "other", &without("extra")));
    assert_eq!(renamed, set(&["delete own", "delete extra"]), "another HelmChart is packed");
    let inline = cluster.rows(&tree("2", &without("extra"), spec(json!({}))));
    assert_eq!(inline, set(&["delete own", "delete extra"]), "helm-controller makes a HelmChart");
}

#[test]
fn an_upgrade_deletes_the_oldest_records() {
    let rows = |limit: Value, revisions: u64, deployed: u64| {
        let mut own = spec(json!({}));
        own["maxHistory"] = limit;
        let mut cluster = deployed_from(&tree("1", &templates(), own.clone()));
        for revision in 2..=revisions {
            let mut stored = record();
            stored["metadata"]["name"] = format!("sh.helm.release.v1.app.v{revision}").into();
            cluster.add(&stored, None);
        }
        let last = cluster.object(&format!("sh.helm.release.v1.app.v{deployed}"));
        last.labels = [("owner", "helm"), ("name", "app"), ("status", "deployed")].into_iter().collect();
        cluster.snapshot.normalise();
        let plan = cluster.plan(&tree("2", &templates(), own.clone()));
        let records = plan.changes().iter().filter(|change| change.is_old_record()).count();
        assert_eq!((plan.summary().delete, plan.summary().old_records), (0, records));
        cluster.rows(&tree("2", &templates(), own))
    };
    assert_eq!(rows(Value::Null, 4, 4), set(&[]));
    assert_eq!(rows(Value::Null, 5, 5), set(&["delete sh.helm.release.v1.app.v1"]));
    assert_eq!(rows(json!(1), 1, 1), set(&[]), "the deployed revision stays");
    assert_eq!(rows(json!(2), 3, 1), set(&["delete sh.helm.release.v1.app.v2", "delete sh.helm.release.v1.app.v3"]));
    assert_eq!(rows(json!(0), 9, 9), set(&[]), "there is no limit");
}

/// Returns a release of the chart `other` with these values.
fn inner(values: Value) -> Value {
    let chart = json!({"chart": "./charts/other", "sourceRef": {"kind": "GitRepository", "name": "repo"}});
    flux("helm.toolkit.fluxcd.io/v2", "HelmRelease", "inner", json!({"chart": {"spec": chart}, "values": values}))
}

#[test]
fn a_release_that_only_an_intermediate_upgrade_makes_takes_over_what_exists() {
    // The old chart with the new values makes the inner release.
    let files = |version: &str, inner: Option<Value>, values: Value| {
        let mut files = tree(version, &templates(), spec(values));
        files.extend(inner.map(|inner| ("charts/app/templates/inner.yaml", vec![inner])));
        files.push(("charts/other/Chart.yaml", vec![json!({"apiVersion": "v2", "name": "other", "version": "1"})]));
        files.push(("charts/other/templates/one.yaml", vec![cm("one")]));
        files.push(("charts/other/templates/two.yaml", vec![cm("two")]));
        files
    };
    let before = files("1", Some(inner(json!({}))), json!({"off": ["inner.yaml"]}));
    let mut cluster = deployed_from(&before);
    for name in ["one", "two"] {
        cluster.add(&cm(name), None);
    }
    cluster.snapshot.normalise();
    assert_eq!(cluster.rows(&files("2", None, json!({}))), set(&["delete? one", "delete? two"]));
    let smaller = files("2", Some(inner(json!({"off": ["two.yaml"]}))), json!({}));
    assert_eq!(cluster.rows(&smaller), set(&["delete? two"]));
    let same = files("2", Some(inner(json!({}))), json!({}));
    assert_eq!(cluster.rows(&same), set(&[]));
}

#[test]
fn a_new_release_may_be_installed_with_values_that_another_owner_then_changes() {
    let values = |text: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "values", "namespace": NS},
            "data": {"values.yaml": text}})
    };
    let rows = |at: &'static str| {
        let files = |text: &str| -> Files {
            let child = ks("child", "./child", json!({}));
            vec![
                ("root/x.yaml", vec![cm("x"), child]),
                ("child/y.yaml", vec![cm("y")]),
                (at, vec![values(text)]),
                ("charts/app/Chart.yaml", vec![json!({"apiVersion": "v2", "name": "app", "version": "1"})]),
                ("charts/app/templates/web.yaml", vec![cm("web")]),
                ("charts/app/templates/more.yaml", vec![cm("more")]),
            ]
        };
        let mut cluster = cluster(&files("{}"), true);
        cluster.add(&cm("more"), None);
        cluster.snapshot.normalise();
        let mut after = files("off: [more.yaml]");
        let from = with(json!({"valuesFrom": [{"kind": "ConfigMap", "name": "values"}]}));
        after.push(("root/a.yaml", vec![release(from)]));
        cluster.rows(&after)
    };
    assert_eq!(rows("child/values.yaml"), set(&["delete? more"]));
    assert_eq!(rows("root/values.yaml"), set(&[]), "its Kustomization applies the values first");
}
