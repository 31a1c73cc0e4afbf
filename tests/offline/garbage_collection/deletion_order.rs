//! In which waves each system's garbage goes: the next begins when all of the one before is gone.

use gitops_core::kubernetes::object::ObjectMetadata;
use gitops_core::ownership::index::Index;
use gitops_core::ownership::schemes::flux_v1::GitSource;
use gitops_core::plan::grave::AllowedKinds;
use gitops_core::prune::collectors::collector::safety::Allow;
use gitops_core::prune::collectors::qbec::filter::{NameFilter, QbecFilters};
use gitops_core::prune::collectors::qbec::scope::QbecApp;
use gitops_core::prune::collectors::request::{CollectorRequest, FluxV1Request, Manifests, QbecRequest};
use test_support::objects::Build;

use super::flux_v1::marked;
use super::qbec::ours;
use super::samples::snapshot;

fn manifests() -> Manifests {
    let allow = Allow { missed: true, kinds: AllowedKinds::all() };
    Manifests { locals: vec![], default_namespace: "demo".into(), allow }
}

fn waves(request: &dyn CollectorRequest, objects: Vec<ObjectMetadata>) -> Vec<String> {
    let answer = request.plan(&Index::build(&snapshot(objects))).unwrap();
    let names = |wave: Vec<gitops_core::kubernetes::object::ObjectId>| {
        wave.iter().map(|id| format!("{}/{}", id.kind, id.name)).collect::<Vec<_>>().join(" ")
    };
    answer.waves.into_iter().map(names).collect()
}

#[test]
fn qbec_deletes_by_apply_order_and_kind() {
    let all = || NameFilter::new("x", &[], &[]).unwrap();
    let filters = QbecFilters::new(all(), all(), all(), None);
    let app = QbecApp::new("shop", "dev", None).unwrap();
    let first = ours("v1", "ConfigMap", "demo/first").annotation("directives.qbec.io/apply-order", "200");
    let objects = vec![
        ours("v1", "Namespace", "gone"),
        ours("v1", "ConfigMap", "demo/a"),
        ours("v1", "ConfigMap", "demo/b"),
        ours("v1", "Secret", "demo/s"),
        ours("apps/v1", "Deployment", "demo/d"),
        first,
    ];
    let expected = ["ConfigMap/first", "Deployment/d", "Secret/s", "ConfigMap/b ConfigMap/a", "Namespace/gone"];
    assert_eq!(
        waves(&QbecRequest { app, filters, cluster_scoped_lists: false, manifests: manifests() }, objects),
        expected
    );
}

#[test]
fn fluxd_deletes_by_rank_of_kind() {
    let source = GitSource { url: "git@host:org/repo".to_owned(), branch: "master".to_owned(), paths: vec![] };
    let objects = vec![
        marked("v1", "Namespace", "gone"),
        marked("v1", "Service", "demo/a"),
        marked("v1", "ServiceAccount", "demo/b"),
        marked("v1", "ConfigMap", "demo/c"),
        marked("apps/v1", "Deployment", "demo/d"),
        marked("mixed.example.com/v1beta1", "B", "demo/e"),
    ];
    let expected = ["B/e", "Deployment/d", "ConfigMap/c", "ServiceAccount/b Service/a", "Namespace/gone"];
    let request = FluxV1Request { source: Some(source), allow_namespaces: vec![], new: None, manifests: manifests() };
    assert_eq!(waves(&request, objects), expected);
}
