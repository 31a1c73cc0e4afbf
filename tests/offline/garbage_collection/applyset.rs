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

use super::samples::{Row, local, row, snapshot, table};

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

#[test]
fn objects_of_an_applyset() {
    let cm = |place: &str| member("v1", "ConfigMap", place);
    let rows: [Row<()>; 9] = [
        row("garbage in the parent's and in an additional namespace")
            .and(local("v1", "ConfigMap", "kept"))
            .live([cm("shop/kept"), cm("shop/a"), cm("second/b")])
            .gives(["ConfigMap/shop/a deletes +not-in-manifests", "ConfigMap/second/b deletes +not-in-manifests"]),
        row("a namespace that the parent does not list")
            .live([cm("third/a")])
            .gives(["ConfigMap/third/a misses left-behind"]),
        row("a kind that the parent does not list")
            .and(local("v1", "Service", "x"))
            .live([member("v1", "Service", "shop/a")])
            .gives(["Service/shop/a misses left-behind"]),
        row("cluster-scoped members")
            .live([member("v1", "Namespace", "extra")])
            .gives(["Namespace/extra deletes +not-in-manifests"]),
        row("another set's member").live([object("v1", "ConfigMap", "shop/a").label(PART_OF, "applyset-x-v1")]),
        row("an owner reference")
            .live([cm("shop/a").referring_to("somebody")])
            .gives(["ConfigMap/shop/a deletes referenced"]),
        row("a keep mark")
            .live([cm("shop/a").annotation("helm.sh/resource-policy", "keep")])
            .gives(["ConfigMap/shop/a deletes protected"]),
        row("a copied label")
            .live([cm("shop/a").annotation(last_applied::KUBECTL, "/ConfigMap/shop/b")])
            .gives(["ConfigMap/shop/a deletes copied-claim"]),
        row("terminating").live([cm("shop/a").terminating()]).gives(["ConfigMap/shop/a deletes terminating"]),
    ];
    for Row { name, git, live, expected, .. } in rows {
        assert_eq!(collect(parent(), &git, live).unwrap(), expected, "{name}");
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
