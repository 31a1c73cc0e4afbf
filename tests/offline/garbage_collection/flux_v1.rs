//! Edge cases of Flux v1's garbage collection and changes of its configuration
//! that can be judged from a snapshot; the real fluxd stands beside them in `tests/systems/fluxd`.

use gitops_core::kubernetes::object::ObjectMetadata;
use gitops_core::ownership::index::Index;
use gitops_core::ownership::schemes::flux_v1::{GitSource, LEGACY_MARK, MARK, mark, resource_id};
use gitops_core::plan::grave::AllowedKinds;
use gitops_core::prune::collectors::collector::Collector;
use gitops_core::prune::collectors::collector::manifest::LocalManifest;
use gitops_core::prune::collectors::collector::safety::Allow;
use gitops_core::prune::collectors::flux_v1::source_change::{SyncEffect, sync_effects};
use gitops_core::prune::collectors::flux_v1::{EXCLUDED, FluxV1Collector, FluxV1Input};
use test_support::objects::{Build, object};

use super::samples::{Row, local, row, snapshot, table};

fn set(branch: &str, paths: &[&str]) -> String {
    let paths = paths.iter().map(|path| (*path).to_owned()).collect();
    GitSource { url: "git@host:org/repo".to_owned(), branch: branch.to_owned(), paths }.sync_set()
}

/// An object marked for a set.
fn marked_for(set: &str, api_version: &str, kind: &str, place: &str) -> ObjectMetadata {
    let live = object(api_version, kind, place);
    let mark = mark(set, &resource_id(&live.id));
    live.label(MARK, &mark)
}

/// An object marked for the source of these tests.
pub(crate) fn marked(api_version: &str, kind: &str, place: &str) -> ObjectMetadata {
    marked_for(&set("master", &[]), api_version, kind, place)
}

fn cm(place: &str) -> ObjectMetadata {
    marked("v1", "ConfigMap", place)
}

fn input<'a>(set: String, allow: &[&str], locals: &'a [LocalManifest]) -> FluxV1Input<'a> {
    FluxV1Input {
        sync_set: set,
        default_namespace: "default".into(),
        allow_namespaces: allow.iter().map(|namespace| (*namespace).to_owned()).collect(),
        excluded: EXCLUDED.map(str::to_owned).to_vec(),
        locals,
    }
}

fn collect(allow: &[&str], locals: &[LocalManifest], objects: Vec<ObjectMetadata>) -> (Vec<String>, Vec<String>) {
    let snapshot = snapshot(objects);
    let index = Index::build(&snapshot);
    let everything = Allow { missed: false, kinds: AllowedKinds::all() };
    let collector = FluxV1Collector::new(input(set("master", &[]), allow, locals), &snapshot, &index, everything);
    let collection = collector.collect();
    (table(&collection), collection.warnings)
}

fn rows() -> Vec<Row<Vec<&'static str>>> {
    let ignore = |key: &'static str, value: &'static str| cm("demo/x").annotation(key, value);
    let copied = || cm("demo/plain").labels.get(MARK).unwrap().to_owned();
    vec![
        row("F1 marked").live([cm("demo/plain")]).gives(["ConfigMap/demo/plain deletes +not-in-manifests"]),
        row("F2 copied mark").live([object("v1", "ConfigMap", "demo/copied").label(MARK, &copied())]),
        row("F3 ignore true").live([ignore("fluxcd.io/ignore", "true")]).gives(["ConfigMap/demo/x keeps protected"]),
        row("F4 ignore True: nothing to fluxd; a typo must not delete")
            .live([ignore("fluxcd.io/ignore", "True")])
            .gives(["ConfigMap/demo/x deletes protected"]),
        row("F4 ignore false")
            .live([ignore("fluxcd.io/ignore", "false")])
            .gives(["ConfigMap/demo/x deletes +not-in-manifests"]),
        row("F5 sync_only under the old key")
            .live([ignore("flux.weave.works/ignore", "sync_only")])
            .gives(["ConfigMap/demo/x keeps protected"]),
        row("F6 locked")
            .live([ignore("fluxcd.io/locked", "true")])
            .gives(["ConfigMap/demo/x deletes +not-in-manifests"]),
        row("F7 any reference")
            .live([cm("demo/x").referring_to("somebody")])
            .gives(["ConfigMap/demo/x keeps referenced"]),
        row("F8 Endpoints").live([marked("v1", "Endpoints", "demo/e")]).gives(["Endpoints/demo/e keeps endpoints"]),
        row("F9 only the legacy key").live([
            object("v1", "ConfigMap", "demo/x").label(LEGACY_MARK, &mark(&set("master", &[]), "demo:configmap/x"))
        ]),
        row("F10 in git, whatever its checksum").and(local("v1", "ConfigMap", "demo/x")).live([cm("demo/x")]),
        row("F11 and C10: a Namespace outside of the allowed ones, in git")
            .with(vec!["demo"])
            .and(local("v1", "Namespace", "other"))
            .live([marked("v1", "Namespace", "other")])
            .gives(["Namespace/other deletes desired"]),
        row("allowed namespaces: fluxd does not look elsewhere")
            .with(vec!["demo"])
            .and(local("v1", "ConfigMap", "other/kept"))
            .live([cm("demo/x"), cm("other/x"), cm("other/kept")])
            .gives(["ConfigMap/other/x misses left-behind", "ConfigMap/demo/x deletes +not-in-manifests"]),
        row("F12 the id of a Service of another group is in git")
            .and(local("serving.knative.dev/v1", "Service", "demo/svc"))
            .live([marked("v1", "Service", "demo/svc")]),
        row("F13 two objects of one id: fluxd takes one per sync")
            .live([marked("v1", "Service", "demo/svc"), marked("serving.knative.dev/v1", "Service", "demo/svc")])
            .gives(["Service/demo/svc deletes +not-in-manifests", "Service/demo/svc deletes +not-in-manifests"]),
        row("F14 the manifest's API is gone: fluxd forgets it, we do not")
            .and(local("extensions/v1beta1", "Ingress", "demo/web"))
            .live([marked("networking.k8s.io/v1", "Ingress", "demo/web")])
            .gives(["Ingress/demo/web deletes desired"]),
        row("F15 a namespace on a cluster-scoped manifest is dropped")
            .and(local("rbac.authorization.k8s.io/v1", "ClusterRole", "x/reader"))
            .live([marked("rbac.authorization.k8s.io/v1", "ClusterRole", "reader")]),
        row("a manifest without namespace is in the default one")
            .and(local("v1", "ConfigMap", "x"))
            .live([cm("default/x"), cm("demo/x")])
            .gives(["ConfigMap/demo/x deletes +not-in-manifests"]),
        row("F16 a stale mark").live([marked_for(&set("old", &[]), "v1", "ConfigMap", "demo/x")]),
        row("F17 the two ignore annotations differ")
            .live([ignore("fluxcd.io/ignore", "false").annotation("flux.weave.works/ignore", "true")])
            .gives(["ConfigMap/demo/x keeps protected"]),
        row("F18 a kind that ends in List: fluxd forgets it, we do not")
            .and(local("x.example.com/v1", "AllowList", "demo/x"))
            .live([marked("x.example.com/v1", "AllowList", "demo/x")])
            .gives(["AllowList/demo/x deletes desired"]),
        row("F21 names differ by case")
            .and(local("v1", "ConfigMap", "demo/ignt"))
            .live([cm("demo/ignT"), cm("demo/ignt")])
            .gives(["ConfigMap/demo/ignT deletes +not-in-manifests"]),
        row("F23 Flux v2 stripped the mark").live([object("v1", "ConfigMap", "demo/x")]),
        row("events are excluded by name")
            .live([marked("v1", "Event", "demo/e")])
            .gives(["Event/demo/e misses left-behind"]),
        row("already terminating").live([cm("demo/x").terminating()]).gives(["ConfigMap/demo/x deletes terminating"]),
        row("namespaces of the cluster: fluxd would, we do not")
            .live([marked("v1", "Namespace", "kube-system")])
            .gives(["Namespace/kube-system deletes protected-namespace"]),
        row("C15 nothing in git")
            .live([
                marked("v1", "Namespace", "demo"),
                cm("demo/a"),
                cm("demo/b"),
                marked("apps/v1", "Deployment", "demo/a"),
            ])
            .gives([
                "Deployment/demo/a deletes +not-in-manifests",
                "ConfigMap/demo/b deletes +not-in-manifests",
                "ConfigMap/demo/a deletes +not-in-manifests",
                "Namespace/demo deletes +not-in-manifests",
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
fn odd_marks_give_notes() {
    let twins = || vec![marked("v1", "Service", "demo/s"), marked("serving.knative.dev/v1", "Service", "demo/s")];
    let both = cm("demo/x").annotation("fluxcd.io/ignore", "false").annotation("flux.weave.works/ignore", "true");
    let copy = object("v1", "ConfigMap", "demo/copy").label(MARK, cm("demo/x").labels.get(MARK).unwrap());
    let legacy = object("v1", "ConfigMap", "demo/x").label(LEGACY_MARK, cm("demo/x").labels.get(MARK).unwrap());
    let exported = LocalManifest { exported_mark: Some("sha256.x".to_owned()), ..local("v1", "ConfigMap", "demo/x") };
    let rows: [Row<Vec<&str>>; 5] = [
        row("F2")
            .live([cm("demo/x"), copy])
            .gives(["the label fluxcd.io/sync-gc-mark of 1 object was copied from an object of this source"]),
        row("F9").live([legacy]).gives(["only Flux 1.13 and earlier labelled 1 object of this source \
                    (flux.weave.works/sync-gc-mark): no later fluxd deletes them"]),
        row("F13")
            .live(twins())
            .gives(["demo:service/s is the id of several objects: fluxd deletes one of them in each sync"]),
        row("F16")
            .and(exported)
            .gives(["configmap/x -n demo (x.yaml, document 1) contains a label fluxcd.io/sync-gc-mark that \
                    was exported from a cluster: fluxd does not change it, and never deletes the object"]),
        row("F17")
            .live([both])
            .gives(["configmap/x -n demo: its two ignore annotations differ, and fluxd picks one at random"]),
    ];
    for Row { name, setting, git, live, expected } in rows {
        assert_eq!(collect(&setting, &git, live).1, expected, "{name}");
    }
}

/// Set that a live object is marked for, and manifests of the new source.
fn effects(old: &str, new: &str, manifests: &[&str], objects: &[(&str, &str)]) -> Vec<(String, SyncEffect)> {
    let cms = objects.iter().map(|(set, name)| marked_for(set, "v1", "ConfigMap", &format!("demo/{name}")));
    let snapshot = snapshot(cms.collect());
    let locals: Vec<_> = manifests.iter().map(|name| local("v1", "ConfigMap", &format!("demo/{name}"))).collect();
    let index = Index::build(&snapshot);
    let everything = Allow { missed: false, kinds: AllowedKinds::all() };
    let collector = FluxV1Collector::new(input(new.to_owned(), &[], &locals), &snapshot, &index, everything);
    let effects = sync_effects(&snapshot, old, new, &collector);
    effects.into_iter().map(|(object, effect)| (object.id.name.to_string(), effect)).collect()
}

#[test]
fn every_configuration_change() {
    use SyncEffect::{Deleted, LeftBehind, Relabelled, Unchanged};
    let ab = set("master", &["a", "b"]);
    let a = set("master", &["a"]);
    let ba = set("master", &["b", "a"]);
    let bax = set("master", &["b", "a", "ab"]);
    let joined = set("master", &["ba"]);
    let main = set("main", &["a"]);
    type Change<'a> = (&'a str, &'a str, &'a str, &'a [&'a str], &'a [(&'a str, &'a str)], &'a [(&'a str, SyncEffect)]);
    let rows: [Change<'_>; 11] = [
        (
            "C1 path removed",
            &ab,
            &a,
            &["acm"],
            &[(&ab, "acm"), (&ab, "bcm")],
            &[("acm", Relabelled), ("bcm", LeftBehind)],
        ),
        (
            "C2 back again, where it is in git again",
            &a,
            &ab,
            &["acm", "bcm"],
            &[(&a, "acm"), (&ab, "bcm")],
            &[("acm", Relabelled), ("bcm", Unchanged)],
        ),
        (
            "C3 reordered",
            &ab,
            &ba,
            &["acm", "bcm"],
            &[(&ab, "acm"), (&ab, "bcm")],
            &[("acm", Relabelled), ("bcm", Relabelled)],
        ),
        (
            "C4 path added while something was removed",
            &ba,
            &bax,
            &["acm", "newcm", "abcm"],
            &[(&ba, "acm"), (&ba, "bcm")],
            &[("acm", Relabelled), ("bcm", LeftBehind)],
        ),
        (
            "C5 and C6 back to an old configuration: its orphan is collectable again",
            &bax,
            &ba,
            &["acm", "newcm"],
            &[(&bax, "acm"), (&ba, "bcm"), (&bax, "abcm")],
            &[("abcm", LeftBehind), ("acm", Relabelled), ("bcm", Deleted)],
        ),
        (
            "C7 the concatenation collision",
            &ba,
            &joined,
            &[],
            &[(&ba, "acm"), (&ba, "newcm")],
            &[("acm", Deleted), ("newcm", Deleted)],
        ),
        ("C9 marks exist with collection off", &a, &a, &[], &[(&a, "acm")], &[("acm", Deleted)]),
        ("C11 the same source", &a, &a, &["acm"], &[(&a, "acm")], &[("acm", Unchanged)]),
        (
            "C12 another branch",
            &a,
            &main,
            &["acm"],
            &[(&a, "acm"), (&a, "gone")],
            &[("acm", Relabelled), ("gone", LeftBehind)],
        ),
        (
            "C14 another spelling of the same hash",
            &a,
            &set("master", &["a", ""]),
            &["acm"],
            &[(&a, "acm")],
            &[("acm", Unchanged)],
        ),
        ("a third source is nobody's business here", &a, &main, &[], &[(&ba, "acm")], &[]),
    ];
    for (name, old, new, manifests, objects, expected) in rows {
        let expected: Vec<_> = expected.iter().map(|(name, fate)| ((*name).to_owned(), *fate)).collect();
        assert_eq!(effects(old, new, manifests, objects), expected, "{name}");
    }
    assert_eq!(ba, joined, "C7");
    assert_eq!(set("master", &["x"]), set("masterx", &[]), "C13");
    assert_ne!(ab, ba, "C3");
}

#[test]
fn spellings_of_one_url_are_one_source_and_others_are_not() {
    let url = |url: &str| GitSource { url: url.to_owned(), branch: "master".to_owned(), paths: vec![] }.sync_set();
    assert_eq!(url("git@h:o/r"), url("ssh://git@h/o/r"), "C11");
    assert_eq!(url("https://u:one@h/o/r"), url("https://u:two@h/o/r"), "C11");
    for other in ["git@h:o/r.git", "https://h/o/r", "deploy@h:o/r"] {
        assert_ne!(url("git@h:o/r"), url(other), "C12 {other}");
    }
    assert_ne!(url("https://ghp_a@h/o/r"), url("https://ghp_b@h/o/r"), "C12");
}
