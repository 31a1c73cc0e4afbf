//! Views of one cluster: a root Kustomization that applies another and a HelmRelease, whose objects make Pods.

use serde_json::json;

use super::*;
use crate::kubernetes::gap::GapKind;
use crate::kubernetes::object::parse_time;
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::report::explain::Explanation;
use crate::testing::{Build, gap, kustomization, object, resource_type, snapshot};

fn owner(group: &str, kind: &str, namespace: &str, name: &str, ids: &[&str]) -> Resource {
    let mut content = kustomization(name, ids).content;
    content["spec"] = json!({"path": "./apps", "sourceRef": {"kind": "GitRepository", "name": "fleet"}});
    content["status"]["lastAppliedRevision"] = json!("main@sha1:abc");
    object(group, kind, namespace, name).with_content(content)
}

const KS: &str = "kustomize.toolkit.fluxcd.io";
const HR: &str = "helm.toolkit.fluxcd.io";

fn cluster() -> Snapshot {
    let root = owner(
        KS,
        "Kustomization",
        "flux-system",
        "root",
        &[
            "flux-system_root_kustomize.toolkit.fluxcd.io_Kustomization",
            "flux-system_apps_kustomize.toolkit.fluxcd.io_Kustomization",
            "shop_podinfo_helm.toolkit.fluxcd.io_HelmRelease",
        ],
    );
    let apps = owner(
        KS,
        "Kustomization",
        "flux-system",
        "apps",
        &["shop_web_apps_Deployment", "shop_gone__Secret", "shop_cm__ConfigMap"],
    );
    let podinfo = owner(HR, "HelmRelease", "shop", "podinfo", &["shop_podinfo__Service"]);
    let source = object("source.toolkit.fluxcd.io", "GitRepository", "flux-system", "fleet");
    let source = source.with_content(
        json!({"spec": {"url": "https://h/fleet"}, "status": {"artifact": {"revision": "main@sha1:def"}}}),
    );

    let deployment = object("apps", "Deployment", "shop", "web").of_kustomization("apps");
    let set = object("apps", "ReplicaSet", "shop", "x").controlled_by(&deployment.uid);
    let mut set = set;
    set.owner_references[0].kind = "Deployment".into();
    set.owner_references[0].name = "web".into();
    let pod = object("", "Pod", "shop", "web-1").controlled_by(&set.uid);
    let mut cm =
        object("", "ConfigMap", "shop", "cm").of_kustomization("apps").annotation("helm.sh/resource-policy", "keep");
    cm.deletion_timestamp = parse_time("2026-12-30T00:00:00Z");
    cm.finalizers = vec!["example.com/hold".into()];
    let release_labels = ["helm.toolkit.fluxcd.io/name", "helm.toolkit.fluxcd.io/namespace"];
    let service =
        object("", "Service", "shop", "podinfo").label(release_labels[0], "podinfo").label(release_labels[1], "shop");
    let leaked = object("", "ConfigMap", "shop", "old").of_kustomization("apps");
    let orphan = object("", "ConfigMap", "shop", "orphan").of_kustomization("removed");
    let stray = object("", "ConfigMap", "shop", "stray");
    let owners = [&root, &apps, &podinfo].map(|full| full.object.clone().of_kustomization("root"));
    let mut objects = vec![deployment, set, pod, cm, service, leaked, orphan, stray];
    objects.extend(owners);
    snapshot(objects, vec![root, apps, podinfo, source])
}

fn ks(name: &str) -> OwnerId {
    OwnerId::new("flux", "Kustomization", "flux-system", name)
}

#[test]
fn owners_are_counted() {
    let cluster = cluster();
    let index = Index::build(&cluster);
    let contents = [cluster
        .objects
        .iter()
        .find(|object| &*object.id.kind == "Deployment")
        .unwrap()
        .clone()
        .with_content(json!({"spec": {"replicas": 0}}))];
    let views = InventoryReport::new(&index, &contents);
    let apps = views.summary(index.owner(&ks("apps")).unwrap());
    let counts = (apps.objects, apps.ready, apps.unread, apps.missing, apps.terminating, apps.leaked, apps.unknown);
    assert_eq!(counts, (3, 1, 0, 1, 1, 1, 0));
    assert_eq!(apps.revision.as_deref(), Some("main@sha1:abc"));
    let totals =
        Totals { objects: 11, managed: 6, leaked: 1, orphaned: 1, controlled: 2, unmanaged: 1, ..Totals::default() };
    assert_eq!(views.totals(), totals);
}

#[test]
fn members_show_their_live_state() {
    let cluster = cluster();
    let index = Index::build(&cluster);
    let views = InventoryReport::new(&index, &[]);
    let members = views.objects(index.owner(&ks("apps")).unwrap());
    let text = serde_json::to_value(&members).unwrap();
    assert_eq!(text[0]["name"], "cm");
    assert_eq!(text[0]["terminating"]["finalizers"], json!(["example.com/hold"]));
    assert_eq!(text[0]["protections"], json!([{"key": "helm.sh/resource-policy", "value": "keep"}]));
    assert_eq!((&text[1]["name"], &text[1]["exists"]), (&json!("gone"), &json!(false)));
    assert_eq!(
        (&text[2]["name"], &text[2]["exists"], &text[2]["recorded"]),
        (&json!("web"), &json!(true), &json!(true))
    );
}

fn missing_members(cluster: &Snapshot) -> usize {
    let index = Index::build(cluster);
    InventoryReport::new(&index, &[]).summary(index.owner(&ks("apps")).unwrap()).missing
}

#[test]
fn what_was_not_read_is_not_called_missing() {
    let mut cluster = cluster();
    cluster.types = vec![
        resource_type("", "Secret", "secrets", true),
        resource_type("", "ConfigMap", "configmaps", true),
        resource_type("apps", "Deployment", "deployments", true),
    ];
    assert_eq!(missing_members(&cluster), 1);
    cluster.gaps = vec![gap(GapKind::Forbidden, "secrets")];
    assert_eq!(missing_members(&cluster), 0);
    cluster.gaps = vec![gap(GapKind::StaleGroup, "v1")];
    assert_eq!(missing_members(&cluster), 0);
    cluster.gaps = vec![gap(GapKind::Forbidden, "pods")];
    assert_eq!(missing_members(&cluster), 1);
    cluster.types.remove(0);
    assert_eq!(missing_members(&cluster), 0, "a kind that was not looked for");
}

#[test]
fn findings_answer_one_question_each() {
    let cluster = cluster();
    let index = Index::build(&cluster);
    let views = InventoryReport::new(&index, &[]);
    let names = |question| -> Vec<String> {
        views.findings(question, |_, _| true).into_iter().map(|finding| finding.object.name.to_string()).collect()
    };
    assert_eq!(names(Question::Leaked), ["old"]);
    assert_eq!(names(Question::Orphaned), ["orphan"]);
    assert_eq!(names(Question::Unmanaged), ["stray"]);
    assert!(names(Question::Conflicts).is_empty() && names(Question::Copied).is_empty());
    assert!(views.findings(Question::Leaked, |_, owner| owner.iter().any(|owner| owner.name == "root")).is_empty());
}

#[test]
fn a_leak_that_cannot_be_trusted_is_unknown() {
    let mut cluster = cluster();
    let apps = cluster.resources.iter_mut().find(|full| &*full.object.id.name == "apps").unwrap();
    apps.content["spec"]["suspend"] = json!(true);
    let index = Index::build(&cluster);
    let views = InventoryReport::new(&index, &[]);
    assert!(views.findings(Question::Leaked, |_, _| true).is_empty());
    let unknown = views.findings(Question::Unknown, |_, _| true);
    assert_eq!(unknown[0].reason.as_deref(), Some("its owner is suspended"));
    let summary = views.summary(index.owner(&ks("apps")).unwrap());
    assert_eq!((summary.leaked, summary.unknown), (0, 1));
}

fn outline(nodes: &[super::tree::TreeNode], depth: usize, out: &mut Vec<String>) {
    for node in nodes {
        let name = node.object.as_ref().map(|view| format!("{}/{}", view.object.kind, view.object.name));
        let name = name.unwrap_or_else(|| node.owner.as_ref().unwrap().owner.to_string());
        out.push(format!("{}{name}{}", "  ".repeat(depth), if node.cut { " …" } else { "" }));
        outline(&node.children, depth + 1, out);
    }
}

#[test]
fn the_tree_nests_owners_and_controllers() {
    let cluster = cluster();
    let index = Index::build(&cluster);
    let mut lines = vec![];
    outline(&InventoryReport::new(&index, &[]).forest(), 0, &mut lines);
    assert_eq!(
        lines,
        [
            "kustomization/root -n flux-system",
            "  HelmRelease/podinfo",
            "    Service/podinfo",
            "  Kustomization/apps",
            "    ConfigMap/cm",
            "    Secret/gone",
            "    Deployment/web",
            "      ReplicaSet/x",
            "        Pod/web-1",
            "  Kustomization/root",
        ]
    );
}

#[test]
fn circles_of_owners_and_controllers_end() {
    let a =
        owner(KS, "Kustomization", "flux-system", "a", &["flux-system_b_kustomize.toolkit.fluxcd.io_Kustomization"]);
    let b = owner(
        KS,
        "Kustomization",
        "flux-system",
        "b",
        &["flux-system_a_kustomize.toolkit.fluxcd.io_Kustomization", "shop_x__Pod"],
    );
    let pod = object("", "Pod", "shop", "x");
    let own_child = pod.clone().controlled_by(&pod.uid);
    let cluster = snapshot(vec![a.object.clone(), b.object.clone(), own_child.clone()], vec![a, b]);
    let index = Index::build(&cluster);
    let views = InventoryReport::new(&index, &[]);
    let mut lines = vec![];
    outline(&views.forest(), 0, &mut lines);
    assert_eq!(
        lines,
        ["kustomization/a -n flux-system", "  Kustomization/b", "    Pod/x", "      Pod/x", "    Kustomization/a …",]
    );
    assert!(Explanation::of(&index, &own_child).chain.len() <= 2);
    assert!(Explanation::of(&index, &cluster.objects[1]).chain.len() <= 3);
}

#[test]
fn deep_references_are_cut() {
    let mut objects = vec![object("", "Pod", "shop", "p0")];
    for n in 1..100_000 {
        let above = format!("uid:/Pod/shop/p{}", n - 1);
        objects.push(object("", "Pod", "shop", &format!("p{n}")).controlled_by(&above));
    }
    let cluster = snapshot(objects, vec![owner(KS, "Kustomization", "flux-system", "a", &["shop_p0__Pod"])]);
    let index = Index::build(&cluster);
    let mut lines = vec![];
    outline(&InventoryReport::new(&index, &[]).forest(), 0, &mut lines);
    assert!(lines.len() < 60, "{}", lines.len());
}

#[test]
fn why_leads_from_a_pod_to_the_source() {
    let cluster = cluster();
    let index = Index::build(&cluster);
    let mut pod = cluster.objects.iter().find(|object| &*object.id.kind == "Pod").unwrap().clone();
    pod.owner_references[0].name = "x".into();
    let why = Explanation::of(&index, &pod);
    assert_eq!(why.status, "controlled");
    let controllers: Vec<String> = why.controllers.iter().map(ToString::to_string).collect();
    assert_eq!(controllers, ["replicaset.apps/x -n shop", "deployment.apps/web -n shop"]);
    let chain: Vec<String> = why.chain.iter().map(|link| link.owner.to_string()).collect();
    assert_eq!(chain, ["kustomization/apps -n flux-system", "kustomization/root -n flux-system"]);
    let source = why.chain[0].source.as_ref().unwrap();
    assert_eq!((source.url.as_deref(), source.revision.as_deref()), (Some("https://h/fleet"), Some("main@sha1:def")));
    assert_eq!(why.chain[0].revision.as_deref(), Some("main@sha1:abc"));
}

#[test]
fn why_tells_every_claim_and_what_became_of_it() {
    let cluster = cluster();
    let index = Index::build(&cluster);
    let of =
        |name: &str| Explanation::of(&index, cluster.objects.iter().find(|object| &*object.id.name == name).unwrap());
    let orphan = of("orphan");
    assert_eq!((orphan.status, orphan.claims.len(), orphan.claims[0].live), ("orphaned", 1, false));
    assert!(orphan.claims[0].claim.evidence.metadata.contains("kustomize.toolkit.fluxcd.io/name=removed"));
    let managed = of("cm");
    assert_eq!((managed.claims[0].live, managed.claims[0].counts, managed.recorded_by.len()), (true, true, 1));
    assert_eq!(of("stray").status, "unmanaged");
}

#[test]
fn the_document_has_its_schema_and_names_its_answer() {
    let cluster = cluster();
    let index = Index::build(&cluster);
    let views = InventoryReport::new(&index, &[]);
    let text = serde_json::to_value(views.document(Body::Owners(views.owners()), &InventoryFilter::default())).unwrap();
    assert_eq!((&text["schema"], &text["complete"]), (&json!(SCHEMA), &json!(true)));
    let apps = &text["owners"][0];
    assert_eq!((&apps["system"], &apps["name"], &apps["state"]), (&json!("flux"), &json!("podinfo"), &json!("ready")));
    let findings = serde_json::to_value(
        views.document(Body::Findings(views.findings(Question::Leaked, |_, _| true)), &InventoryFilter::default()),
    )
    .unwrap();
    assert_eq!(findings["findings"][0]["status"], "leaked");
    let why = serde_json::to_value(views.document(
        Body::Explanation(Box::new(Explanation::of(&index, &cluster.objects[0]))),
        &InventoryFilter::default(),
    ))
    .unwrap();
    assert!(why["explanation"]["claims"].is_array());
}

#[test]
fn a_cluster_under_two_contexts_counts_once_with_the_fewest_gaps() {
    let answer = |uid: &str, gaps: usize| {
        let mut cluster = cluster();
        cluster.cluster.uid = uid.to_owned();
        cluster.gaps = (0..gaps).map(|n| gap(GapKind::Forbidden, &format!("type-{n}"))).collect();
        let index = Index::build(&cluster);
        let report = InventoryReport::new(&index, &[]);
        Ok(report.document(Body::Owners(report.owners()), &InventoryFilter::default()))
    };
    let rows = [("view", answer("a", 2)), ("admin", answer("a", 0)), ("other", answer("b", 0)), ("old", answer("", 0))];
    let rows = rows.map(|(context, answer)| (context.to_owned(), answer)).into_iter().collect();
    let merged = contexts::merge(rows, crate::testing::noon()).unwrap();
    let same: Vec<(&str, Option<&str>)> =
        merged.contexts.iter().map(|row| (&*row.context, row.same_cluster_as.as_deref())).collect();
    assert_eq!(same, [("view", Some("admin")), ("admin", None), ("other", None), ("old", None)]);
    assert_eq!((merged.totals.objects, merged.complete), (cluster().objects.len() * 3, true));
    let Body::Owners(owners) = merged.body else { panic!("owners") };
    assert!(owners.iter().all(|row| row.context.as_deref() != Some("view")));
}
