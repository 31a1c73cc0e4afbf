//! ApplySets as kubectl prunes them, row by row.

use gitops_core::error::ErrorKind;
use gitops_core::kubernetes::object::{ObjectId, ObjectMetadata};
use gitops_core::ownership::index::Index;
use gitops_core::ownership::last_applied;
use gitops_core::ownership::schemes::applyset::id_of;
use gitops_core::plan::grave::AllowedKinds;
use gitops_core::prune::collectors::applyset::{ApplySetCollector, PART_OF};
use gitops_core::prune::collectors::collector::Collector;
use gitops_core::prune::collectors::collector::manifest::LocalManifest;
use gitops_core::prune::collectors::collector::safety::Allow;
use test_support::objects::{Build, object};

use super::samples::{local, snapshot, table};

fn parent_id() -> ObjectId {
    ObjectId::new("", "Secret", "shop", "my-set")
}

fn parent() -> ObjectMetadata {
    object("v1", "Secret", "shop/my-set")
        .label("applyset.kubernetes.io/id", &id_of(&parent_id()))
        .annotation("applyset.kubernetes.io/tooling", "kubectl/v1.36.3")
        .annotation("applyset.kubernetes.io/contains-group-kinds", "ConfigMap,Deployment.apps,Namespace")
        .annotation("applyset.kubernetes.io/additional-namespaces", "second")
}

fn member(api_version: &str, kind: &str, place: &str) -> ObjectMetadata {
    object(api_version, kind, place).label(PART_OF, &id_of(&parent_id()))
}

fn collect(
    parent: ObjectMetadata,
    locals: &[LocalManifest],
    objects: Vec<ObjectMetadata>,
) -> gitops_core::error::Result<Vec<String>> {
    let snapshot = snapshot(objects.into_iter().chain([parent]).collect());
    let index = Index::build(&snapshot);
    let allow = Allow { missed: false, kinds: AllowedKinds::all() };
    let collector = ApplySetCollector::new(&parent_id(), &"shop".into(), locals, &snapshot, &index, allow)?;
    Ok(table(&collector.collect()))
}

type Row = (&'static str, Vec<LocalManifest>, Vec<ObjectMetadata>, &'static [&'static str]);

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
            vec![cm("shop/a").referring_to("somebody")],
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
            vec![cm("shop/a").annotation(last_applied::KUBECTL, "/ConfigMap/shop/b")],
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
        ("no parent", other(), ErrorKind::Failed, "there is no ApplySet parent secret/my-set -n shop"),
        (
            "no parent's marks",
            bare(),
            ErrorKind::Failed,
            "secret/my-set -n shop is no ApplySet parent: it does not name its tool",
        ),
        (
            "another tool",
            bare().annotation("applyset.kubernetes.io/tooling", "example.com/tool/why"),
            ErrorKind::Refused,
            "refused: the ApplySet secret/my-set -n shop belongs to \"example.com/tool\", not to kubectl",
        ),
        (
            "another ID",
            parent().label("applyset.kubernetes.io/id", "somethingelse"),
            ErrorKind::Refused,
            "refused: secret/my-set -n shop does not carry its own ApplySet ID",
        ),
    ];
    for (name, parent, kind, message) in rows {
        let error = collect(parent, &[], vec![]).unwrap_err();
        assert_eq!(error.kind, kind, "{name}");
        assert!(error.message.starts_with(message), "{name}: {}", error.message);
    }
}
