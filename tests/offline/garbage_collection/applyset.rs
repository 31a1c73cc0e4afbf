//! ApplySets as kubectl prunes them, row by row (reference ownership-and-prune 1.3).

use kubectl_gitops::exit::ExitCode;
use kubectl_gitops::object::{Object, ObjectId};
use kubectl_gitops::ownership::applyset::id_of;
use kubectl_gitops::ownership::identity;
use kubectl_gitops::ownership::index::Index;
use kubectl_gitops::prune::gc::Collect;
use kubectl_gitops::prune::gc::applyset::{Collector, PART_OF};
use kubectl_gitops::prune::gc::local::Local;
use kubectl_gitops::prune::gc::safety::Allow;
use test_support::objects::{Build, object};

use super::samples::{local, snapshot, table};

fn parent_id() -> ObjectId {
    ObjectId::new("", "Secret", "shop", "my-set")
}

fn parent() -> Object {
    object("v1", "Secret", "shop/my-set")
        .label("applyset.kubernetes.io/id", &id_of(&parent_id()))
        .annotation("applyset.kubernetes.io/tooling", "kubectl/v1.36.3")
        .annotation("applyset.kubernetes.io/contains-group-kinds", "ConfigMap,Deployment.apps,Namespace")
        .annotation("applyset.kubernetes.io/additional-namespaces", "second")
}

fn member(api_version: &str, kind: &str, place: &str) -> Object {
    object(api_version, kind, place).label(PART_OF, &id_of(&parent_id()))
}

fn collect(parent: Object, locals: &[Local], objects: Vec<Object>) -> kubectl_gitops::error::Result<Vec<String>> {
    let snapshot = snapshot(objects.into_iter().chain([parent]).collect());
    let index = Index::build(&snapshot);
    let allow = Allow { missed: false, namespaces: true, crds: true };
    let collector = Collector::new(&parent_id(), &"shop".into(), locals, &snapshot, &index, allow)?;
    Ok(table(&collector.collect()))
}

type Row = (&'static str, Vec<Local>, Vec<Object>, &'static [&'static str]);

#[test]
fn objects_of_an_applyset() {
    let cm = |place: &str| member("v1", "ConfigMap", place);
    let rows: [Row; 9] = [
        (
            "garbage in the parent's and in an additional namespace",
            vec![local("v1", "ConfigMap", "kept")],
            vec![cm("shop/kept"), cm("shop/a"), cm("second/b")],
            &["ConfigMap/shop/a deletes +not-in-manifests", "ConfigMap/second/b deletes +not-in-manifests"],
        ),
        (
            "a namespace that the parent does not list",
            vec![],
            vec![cm("third/a")],
            &["ConfigMap/third/a misses left-behind"],
        ),
        (
            "a kind that the parent does not list",
            vec![local("v1", "Service", "x")],
            vec![member("v1", "Service", "shop/a")],
            &["Service/shop/a misses left-behind"],
        ),
        (
            "cluster-scoped members",
            vec![],
            vec![member("v1", "Namespace", "extra")],
            &["Namespace/extra deletes +not-in-manifests"],
        ),
        (
            "another set's member",
            vec![],
            vec![object("v1", "ConfigMap", "shop/a").label(PART_OF, "applyset-x-v1")],
            &[],
        ),
        (
            "an owner reference",
            vec![],
            vec![cm("shop/a").referring_to("somebody", false)],
            &["ConfigMap/shop/a deletes referenced"],
        ),
        (
            "a keep mark",
            vec![],
            vec![cm("shop/a").annotation("helm.sh/resource-policy", "keep")],
            &["ConfigMap/shop/a deletes protected"],
        ),
        (
            "a copied label",
            vec![],
            vec![cm("shop/a").annotation(identity::KUBECTL, "/ConfigMap/shop/b")],
            &["ConfigMap/shop/a deletes copied-claim"],
        ),
        ("terminating", vec![], vec![cm("shop/a").terminating()], &["ConfigMap/shop/a deletes terminating"]),
    ];
    for (name, locals, objects, expected) in rows {
        assert_eq!(collect(parent(), &locals, objects).unwrap(), expected, "{name}");
    }
}

#[test]
fn a_parent_that_kubectl_refuses_is_refused() {
    let bare = || object("v1", "Secret", "shop/my-set");
    let other = || object("v1", "Secret", "shop/other");
    let rows = [
        ("no parent", other(), ExitCode::Error, "there is no ApplySet parent secret/my-set -n shop"),
        (
            "no parent's marks",
            bare(),
            ExitCode::Error,
            "secret/my-set -n shop is no ApplySet parent: it does not say which tool made it",
        ),
        (
            "another tool",
            bare().annotation("applyset.kubernetes.io/tooling", "example.com/tool/why"),
            ExitCode::Refused,
            "refused: the ApplySet secret/my-set -n shop belongs to \"example.com/tool\", not to kubectl",
        ),
        (
            "another ID",
            parent().label("applyset.kubernetes.io/id", "somethingelse"),
            ExitCode::Refused,
            "refused: secret/my-set -n shop does not carry its own ApplySet ID",
        ),
    ];
    for (name, parent, exit, message) in rows {
        let error = collect(parent, &[], vec![]).unwrap_err();
        assert_eq!(error.exit, exit, "{name}");
        assert!(error.message.starts_with(message), "{name}: {}", error.message);
    }
}
