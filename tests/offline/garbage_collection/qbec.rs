//! Edge cases of qbec's garbage collection as a table: what qbec does, what this
//! tool does, and why.

use gitops_core::kubernetes::object::{ObjectMetadata, Resource};
use gitops_core::ownership::index::Index;
use gitops_core::ownership::schemes::qbec::LAST_APPLIED;
use gitops_core::plan::grave::AllowedKinds;
use gitops_core::prune::collectors::collector::Collector;
use gitops_core::prune::collectors::collector::manifest::LocalManifest;
use gitops_core::prune::collectors::collector::safety::Allow;
use gitops_core::prune::collectors::qbec::filter::{NameFilter, QbecFilters};
use gitops_core::prune::collectors::qbec::scope::QbecApp;
use gitops_core::prune::collectors::qbec::{QbecCollector, QbecInput};
use test_support::objects::{Build, object};

use super::samples::{self, Row, local, snapshot, table};

/// An object that qbec applied for app shop, environment dev.
pub(crate) fn ours(api_version: &str, kind: &str, place: &str) -> ObjectMetadata {
    let bare = labelled(api_version, kind, place);
    let id = &bare.id;
    let applied = format!("{}/{}/{}/{}", id.group, id.kind, id.namespace, id.name);
    bare.annotation(LAST_APPLIED, &applied).annotation("qbec.io/component", "old")
}

/// An object with the labels of app shop, environment dev, and nothing else.
fn labelled(api_version: &str, kind: &str, place: &str) -> ObjectMetadata {
    object(api_version, kind, place).label("qbec.io/application", "shop").label("qbec.io/environment", "dev")
}

fn cm(place: &str) -> ObjectMetadata {
    ours("v1", "ConfigMap", place)
}

fn policy(live: ObjectMetadata, value: &str) -> ObjectMetadata {
    live.annotation("directives.qbec.io/delete-policy", value)
}

/// The common manifests of the reference.
fn common() -> Vec<LocalManifest> {
    let mut locals = web();
    locals.push(local("v1", "Namespace", "shop-dev"));
    locals
}

/// The same without the only cluster-scoped manifest.
fn web() -> Vec<LocalManifest> {
    vec![
        local("v1", "ConfigMap", "shop-dev/web"),
        local("v1", "Service", "web"),
        local("apps/v1", "Deployment", "shop-dev/web"),
    ]
}

/// One run: everything but the manifests and the live objects.
#[derive(Default)]
struct Run {
    tag: Option<&'static str>,
    components: (&'static [&'static str], &'static [&'static str]),
    kinds: &'static [&'static str],
    namespaces: &'static [&'static str],
    cluster_objects: Option<bool>,
    cluster_scoped_lists: bool,
}

fn collect(run: &Run, locals: &[LocalManifest], objects: Vec<ObjectMetadata>) -> (Vec<String>, Vec<String>) {
    let owned = |list: &[&str]| list.iter().map(|item| (*item).to_owned()).collect::<Vec<_>>();
    let choice = |include: &[&str], exclude: &[&str]| NameFilter::new("x", &owned(include), &owned(exclude)).unwrap();
    let snapshot = snapshot(objects);
    let index = Index::build(&snapshot);
    let input = QbecInput {
        app: QbecApp::new("shop", "dev", run.tag).unwrap(),
        default_namespace: "shop-dev".into(),
        cluster_scoped_lists: run.cluster_scoped_lists,
        filters: QbecFilters::new(
            choice(run.components.0, run.components.1),
            choice(run.kinds, &[]),
            choice(run.namespaces, &[]),
            run.cluster_objects,
        ),
        locals,
    };
    let allow = Allow { missed: false, kinds: AllowedKinds::all() };
    let collector = QbecCollector::new(input, &snapshot, &index, allow);
    let collection = collector.collect();
    (table(&collection), collection.warnings)
}

/// A row with the common manifests.
fn row(name: &'static str) -> Row<Run> {
    samples::row(name).git(common())
}

fn rows() -> Vec<Row<Run>> {
    let role = || ours("rbac.authorization.k8s.io/v1", "ClusterRole", "planted");
    let web_objects =
        || vec![cm("shop-dev/web"), ours("v1", "Service", "shop-dev/web"), ours("v1", "Namespace", "shop-dev")];
    let tags = || {
        vec![
            cm("shop-dev/none"),
            cm("shop-dev/tagged").label("qbec.io/tag", "pr-1"),
            cm("shop-dev/empty").label("qbec.io/tag", ""),
        ]
    };
    let no_component = || labelled("v1", "ConfigMap", "shop-dev/x").annotation(LAST_APPLIED, "/ConfigMap//x");
    let hpa = || ours("autoscaling/v2", "HorizontalPodAutoscaler", "shop-dev/web");
    let job = |name: &str, created| {
        let place = format!("shop-dev/{name}");
        labelled("batch/v1", "Job", &place).annotation(LAST_APPLIED, "batch/Job//job-*").created(created)
    };
    vec![
        row("what the manifests hold is no garbage").live(web_objects()),
        row("Q1 component removed, one object protected")
            .live([
                cm("shop-dev/old"),
                policy(ours("v1", "Secret", "shop-dev/old-locked"), "never"),
                ours("batch/v1", "Job", "shop-dev/job-6nmml"),
                ours("v1", "Namespace", "shop-dev"),
            ])
            .gives([
                "Job/shop-dev/job-6nmml deletes +not-in-manifests",
                "Secret/shop-dev/old-locked keeps protected",
                "ConfigMap/shop-dev/old deletes +not-in-manifests",
            ]),
        row("Q2 controller reference and plain reference")
            .live([cm("shop-dev/child").controlled_by("somebody"), cm("shop-dev/loose").referring_to("somebody")])
            .gives(["ConfigMap/shop-dev/loose deletes +not-in-manifests", "ConfigMap/shop-dev/child keeps referenced"]),
        row("Q3 Endpoints are never listed, EndpointSlices and Events are; their labels alone prove nothing to us")
            .live([
                labelled("v1", "Endpoints", "shop-dev/e"),
                labelled("discovery.k8s.io/v1", "EndpointSlice", "shop-dev/s"),
                labelled("v1", "Event", "shop-dev/v"),
            ])
            .gives([
                "Event/shop-dev/v deletes bare-claim",
                "Endpoints/shop-dev/e keeps endpoints",
                "EndpointSlice/shop-dev/s deletes bare-claim",
            ]),
        row("Q4 without a tag").live(tags()).gives(["ConfigMap/shop-dev/none deletes +not-in-manifests"]),
        row("Q4 with a tag")
            .with(Run { tag: Some("pr-1"), ..Run::default() })
            .live(tags())
            .gives(["ConfigMap/shop-dev/tagged deletes +not-in-manifests"]),
        row("Q5 another environment").live([cm("shop-dev/p").label("qbec.io/environment", "prod")]),
        row("Q6 a namespace that no manifest is in")
            .live([cm("default/x")])
            .gives(["ConfigMap/default/x misses left-behind"]),
        row("Q6 a namespace that one manifest is in")
            .and(local("v1", "Secret", "default/other"))
            .live([cm("default/x")])
            .gives(["ConfigMap/default/x deletes +not-in-manifests"]),
        row("Q7 cluster-scoped garbage with a cluster-scoped manifest")
            .live([role(), ours("v1", "Namespace", "planted-ns")])
            .gives(["Namespace/planted-ns deletes +not-in-manifests", "ClusterRole/planted deletes +not-in-manifests"]),
        row("Q7 and without one")
            .git(web())
            .live([role(), ours("v1", "Namespace", "planted-ns")])
            .gives(["Namespace/planted-ns misses left-behind", "ClusterRole/planted misses left-behind"]),
        row("Q8 -c web, no component")
            .with(Run { components: (&["web"], &[]), ..Run::default() })
            .live([no_component()]),
        row("Q8 -C web, no component")
            .with(Run { components: (&[], &["web"]), ..Run::default() })
            .live([no_component()])
            .gives(["ConfigMap/shop-dev/x deletes +not-in-manifests"]),
        row("Q8 no filter, no component")
            .live([no_component()])
            .gives(["ConfigMap/shop-dev/x deletes +not-in-manifests"]),
        row("Q9 -c of a component that is gone, as qbec delete")
            .with(Run { components: (&["old"], &[]), ..Run::default() })
            .live([cm("shop-dev/x"), no_component()])
            .gives(["ConfigMap/shop-dev/x deletes +not-in-manifests"]),
        row("Q10 -k cm").with(Run { kinds: &["cm"], ..Run::default() }).live([cm("shop-dev/x")]),
        row("Q10 -k ConfigMaps")
            .with(Run { kinds: &["ConfigMaps"], ..Run::default() })
            .live([cm("shop-dev/x"), ours("v1", "Secret", "shop-dev/s")])
            .gives(["ConfigMap/shop-dev/x deletes +not-in-manifests"]),
        row("Q11 -p shop-dev")
            .with(Run { namespaces: &["shop-dev"], ..Run::default() })
            .and(local("v1", "Secret", "other/s"))
            .live([cm("shop-dev/x"), cm("other/x"), role()])
            .gives(["ConfigMap/shop-dev/x deletes +not-in-manifests"]),
        row("Q11 -p shop-dev --include-cluster-objects")
            .with(Run { namespaces: &["shop-dev"], cluster_objects: Some(true), ..Run::default() })
            .live([cm("shop-dev/x"), role()])
            .gives(["ConfigMap/shop-dev/x deletes +not-in-manifests", "ClusterRole/planted deletes +not-in-manifests"]),
        row("Q12 two served versions, none preferred").and(local("mixed.example.com/v1alpha1", "B", "b")).live([ours(
            "mixed.example.com/v1beta1",
            "B",
            "shop-dev/b",
        )]),
        row("Q13 an older version that is served")
            .and(local("autoscaling/v1", "HorizontalPodAutoscaler", "web"))
            .live([hpa()]),
        row("Q14 a version that is served no more: qbec would delete and create, we know it by group and kind")
            .and(local("autoscaling/v2beta2", "HorizontalPodAutoscaler", "web"))
            .live([hpa()]),
        row("Q14 a group that is served no more")
            .and(local("extensions/v1beta1", "Ingress", "web"))
            .live([ours("networking.k8s.io/v1", "Ingress", "shop-dev/web")])
            .gives(["Ingress/shop-dev/web deletes desired"]),
        row("Q16 the protected object comes after its namespace")
            .git(web())
            .and(local("v1", "Namespace", "other"))
            .live([
                policy(cm("shop-dev/keep"), "never").annotation("directives.qbec.io/apply-order", "10"),
                ours("v1", "Namespace", "shop-dev"),
            ])
            .gives(["Namespace/shop-dev deletes +not-in-manifests", "ConfigMap/shop-dev/keep keeps protected"]),
        row("Q1 the protected object comes before its namespace")
            .git(web())
            .and(local("v1", "Namespace", "other"))
            .live([policy(cm("shop-dev/keep"), "never"), ours("v1", "Namespace", "shop-dev")])
            .gives(["ConfigMap/shop-dev/keep keeps protected", "Namespace/shop-dev keeps +not-in-manifests"]),
        row("Q17 the policy is read on the live object")
            .live([policy(cm("shop-dev/x"), "never")])
            .gives(["ConfigMap/shop-dev/x keeps protected"]),
        row("Q18 Never means nothing to qbec; a typo must not delete")
            .live([policy(cm("shop-dev/x"), "Never"), policy(cm("shop-dev/y"), "default")])
            .gives(["ConfigMap/shop-dev/y deletes +not-in-manifests", "ConfigMap/shop-dev/x deletes protected"]),
        row("Q19 generated names: the newest stays, as we create nothing")
            .and(local("batch/v1", "Job", "job-*"))
            .live([job("job-6nmml", 1), job("job-zzzzz", 2), job("job-g56mp", 3)])
            .gives([
                "Job/shop-dev/job-zzzzz deletes +superseded",
                "Job/shop-dev/job-g56mp deletes newest-generation",
                "Job/shop-dev/job-6nmml deletes +superseded",
            ]),
        row("Q20 no manifest is left").git(vec![]).live(web_objects()).gives([
            "Service/shop-dev/web deletes +not-in-manifests",
            "ConfigMap/shop-dev/web deletes +not-in-manifests",
            "Namespace/shop-dev misses left-behind",
        ]),
        row("Q22 relabelled by another application").live([cm("shop-dev/x").label("qbec.io/application", "other")]),
        row("Q23 already terminating")
            .live([cm("shop-dev/x").terminating()])
            .gives(["ConfigMap/shop-dev/x deletes terminating"]),
        row("Q25 labels and annotations copied from another object")
            .live([labelled("v1", "ConfigMap", "shop-dev/copy").annotation(LAST_APPLIED, "/ConfigMap/shop-dev/web")])
            .gives(["ConfigMap/shop-dev/copy deletes copied-claim"]),
        row("Q25 without last-applied, the field manager is the witness")
            .live([
                labelled("v1", "ConfigMap", "shop-dev/a").written_by("kubectl-edit", &["qbec.io/application"]),
                labelled("v1", "ConfigMap", "shop-dev/b").written_by("qbec", &["qbec.io/application"]),
            ])
            .gives(["ConfigMap/shop-dev/b deletes +not-in-manifests", "ConfigMap/shop-dev/a deletes bare-claim"]),
        row("seed: clusterScopedLists sees every namespace once there are two")
            .with(Run { cluster_scoped_lists: true, ..Run::default() })
            .and(local("v1", "Secret", "second/s"))
            .live([cm("vanished/x")])
            .gives(["ConfigMap/vanished/x deletes +not-in-manifests"]),
        row("seed: clusterScopedLists with one namespace")
            .with(Run { cluster_scoped_lists: true, ..Run::default() })
            .live([cm("vanished/x")])
            .gives(["ConfigMap/vanished/x misses left-behind"]),
        row("namespaces of the cluster")
            .live([ours("v1", "Namespace", "default"), ours("v1", "Namespace", "kube-public")])
            .gives([
                "Namespace/kube-public deletes protected-namespace",
                "Namespace/default keeps protected-namespace",
            ]),
    ]
}

#[test]
fn every_edge_case() {
    for Row { name, setting, git, live, expected } in rows() {
        assert_eq!(collect(&setting, &git, live).0, expected, "{name}");
    }
}

#[test]
fn deletions_come_in_reverse_apply_order() {
    let place =
        |order: &str| ours("v1", "ConfigMap", "shop-dev/placed").annotation("directives.qbec.io/apply-order", order);
    let objects = vec![
        ours("apiextensions.k8s.io/v1", "CustomResourceDefinition", "xs.example.com"),
        ours("rbac.authorization.k8s.io/v1", "ClusterRole", "r"),
        ours("v1", "Namespace", "gone"),
        ours("v1", "ServiceAccount", "shop-dev/sa"),
        cm("shop-dev/a"),
        cm("shop-dev/b"),
        labelled("v1", "ConfigMap", "shop-dev/c").annotation(LAST_APPLIED, "/ConfigMap//c"),
        ours("v1", "Secret", "shop-dev/a"),
        ours("networking.k8s.io/v1", "Ingress", "shop-dev/i"),
        ours("batch/v1", "Job", "shop-dev/j"),
        ours("apps/v1", "Deployment", "shop-dev/d"),
        ours("v1", "Service", "shop-dev/s"),
        place("115"),
    ];
    let (rows, warnings) = collect(&Run::default(), &common(), objects);
    let names: Vec<_> = rows.iter().map(|row| row.split(' ').next().unwrap()).collect();
    let expected = [
        "ConfigMap/shop-dev/placed",
        "Service/shop-dev/s",
        "Job/shop-dev/j",
        "Deployment/shop-dev/d",
        "Ingress/shop-dev/i",
        "Secret/shop-dev/a",
        "ConfigMap/shop-dev/b",
        "ConfigMap/shop-dev/a",
        "ConfigMap/shop-dev/c",
        "ServiceAccount/shop-dev/sa",
        "Namespace/gone",
        "ClusterRole/r",
        "CustomResourceDefinition/xs.example.com",
    ];
    assert_eq!(names, expected);
    assert_eq!(warnings, Vec::<String>::new());
    for ignored in ["0", "-5", "first"] {
        let (rows, _) = collect(&Run::default(), &common(), vec![place(ignored), ours("v1", "Service", "shop-dev/s")]);
        assert!(rows[0].starts_with("Service"), "{ignored}");
    }
}

#[test]
fn differences_from_qbec_give_notes() {
    let rows = [
        row("a vanished namespace")
            .live([cm("gone/x")])
            .gives(["qbec misses the objects of app shop, environment dev in namespace gone, which no \
                    manifest names any more"]),
        row("Q21 a renamed application")
            .live([cm("shop-dev/x").label("qbec.io/application", "shop1")])
            .gives(["the same namespaces contain 1 object of app shop1, environment dev: if that is an old \
                    name of this app, qbec never deletes them; plan that app and environment too"]),
        row("an empty tag")
            .live([cm("shop-dev/x").label("qbec.io/tag", "")])
            .gives(["qbec never selects 1 object of app shop without an environment or with an empty tag"]),
        row("a kind that is not served")
            .and(local("new.example.com/v1", "Widget", "w"))
            .gives(["the cluster does not serve widget.new.example.com: objects of such manifests are kept"]),
        row("Q18 a policy that qbec ignores")
            .live([policy(cm("shop-dev/x"), "Never")])
            .gives(["configmap/x -n shop-dev: qbec ignores directives.qbec.io/delete-policy=\"Never\", which \
                    is no valid value"]),
        row("an order that qbec ignores")
            .live([cm("shop-dev/x").annotation("directives.qbec.io/apply-order", "first")])
            .gives(["configmap/x -n shop-dev: qbec ignores directives.qbec.io/apply-order=\"first\", which \
                    is no valid value"]),
    ];
    for Row { name, setting, git, live, expected } in rows {
        assert_eq!(collect(&setting, &git, live).1, expected, "{name}");
    }
}

fn judged(objects: Vec<ObjectMetadata>, full: Option<Resource>, allow: Allow) -> Vec<String> {
    let mut snapshot = snapshot(objects);
    snapshot.resources.extend(full);
    let index = Index::build(&snapshot);
    let locals = common();
    let input = QbecInput {
        app: QbecApp::new("shop", "dev", None).unwrap(),
        default_namespace: "shop-dev".into(),
        cluster_scoped_lists: false,
        filters: QbecFilters::default(),
        locals: &locals,
    };
    table(&QbecCollector::new(input, &snapshot, &index, allow).collect())
}

#[test]
fn objects_that_a_live_owner_lists_stay() {
    let owner = object("kustomize.toolkit.fluxcd.io/v1", "Kustomization", "flux-system/apps");
    let content =
        serde_json::json!({"status": {"inventory": {"entries": [{"id": "shop-dev_x__ConfigMap", "v": "v1"}]}}});
    let listed = |content| Some(Resource { object: owner.clone(), content });
    let with = judged(vec![cm("shop-dev/x")], listed(content), Allow::default());
    assert_eq!(with, ["ConfigMap/shop-dev/x deletes recorded"]);
    let without = judged(vec![cm("shop-dev/x")], listed(serde_json::json!({})), Allow::default());
    assert_eq!(without, ["ConfigMap/shop-dev/x deletes +not-in-manifests"]);
}

#[test]
fn namespaces_definitions_and_what_is_missed_need_a_flag() {
    let objects = || {
        vec![
            ours("v1", "Namespace", "gone"),
            ours("apiextensions.k8s.io/v1", "CustomResourceDefinition", "xs.example.com"),
            cm("elsewhere/x"),
        ]
    };
    let none = [
        "ConfigMap/elsewhere/x misses left-behind",
        "Namespace/gone deletes not-allowed",
        "CustomResourceDefinition/xs.example.com deletes not-allowed",
    ];
    assert_eq!(judged(objects(), None, Allow::default()), none);
    let all = [
        "ConfigMap/elsewhere/x misses +left-behind",
        "Namespace/gone deletes +not-in-manifests",
        "CustomResourceDefinition/xs.example.com deletes +not-in-manifests",
    ];
    assert_eq!(judged(objects(), None, Allow { missed: true, kinds: AllowedKinds::all() }), all);
}
