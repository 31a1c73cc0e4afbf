//! Every kind of Flux on the real API server.

use serde_json::{Value, json};
use test_support::gitops::gitops;
use test_support::suspension::{annotation, generation, item, ok, read, receiver};
use xtask::cluster::{Cluster, Flux, Options};

#[test]
fn every_kind_is_suspended_shown_and_resumed_on_the_real_api_server() {
    let cluster = &Cluster::up(Options { flux: Flux::Crds, ..Options::default() }).unwrap();
    let git = json!({"kind": "GitRepository", "name": "x"});
    let copy = json!([{"from": "@x/a", "to": "@artifact/"}]);
    let generator = json!({"sources": [{"alias": "x", "kind": "GitRepository", "name": "x"}],
        "artifacts": [{"name": "x", "copy": copy}]});
    let source = |extra: Value| {
        let mut spec = json!({"interval": "1h", "url": "https://example.invalid/x"});
        spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        spec
    };
    let (on, switch, none) = ("spec", "switch", "nothing");
    let kinds = [
        (
            "fluxcd.controlplane.io/v1",
            "FluxInstance",
            switch,
            json!({"distribution": {"version": "2.x", "registry": "example.invalid/x"}}),
        ),
        (
            "fluxcd.controlplane.io/v1",
            "FluxReport",
            switch,
            json!({"distribution": {"entitlement": "x", "status": "x"}}),
        ),
        ("fluxcd.controlplane.io/v1", "ResourceSetInputProvider", switch, json!({"type": "Static"})),
        ("fluxcd.controlplane.io/v1", "ResourceSet", switch, json!({"resources": []})),
        ("source.toolkit.fluxcd.io/v1", "GitRepository", on, source(json!({}))),
        ("source.toolkit.fluxcd.io/v1", "OCIRepository", on, source(json!({"url": "oci://example.invalid/x"}))),
        (
            "source.toolkit.fluxcd.io/v1",
            "Bucket",
            on,
            json!({"interval": "1h", "bucketName": "b", "endpoint": "example.invalid"}),
        ),
        ("source.toolkit.fluxcd.io/v1", "HelmRepository", on, source(json!({}))),
        (
            "source.toolkit.fluxcd.io/v1",
            "HelmChart",
            on,
            json!({"interval": "1h", "chart": "x", "sourceRef": {"kind": "HelmRepository", "name": "x"}}),
        ),
        ("source.extensions.fluxcd.io/v1beta1", "ArtifactGenerator", switch, generator),
        ("source.toolkit.fluxcd.io/v1", "ExternalArtifact", none, json!({"sourceRef": git})),
        (
            "kustomize.toolkit.fluxcd.io/v1",
            "Kustomization",
            on,
            json!({"interval": "1h", "prune": true, "sourceRef": git}),
        ),
        (
            "helm.toolkit.fluxcd.io/v2",
            "HelmRelease",
            on,
            json!({"interval": "1h", "chartRef": {"kind": "OCIRepository", "name": "x"}}),
        ),
        ("image.toolkit.fluxcd.io/v1", "ImageRepository", on, json!({"interval": "1h", "image": "example.invalid/x"})),
        (
            "image.toolkit.fluxcd.io/v1",
            "ImagePolicy",
            on,
            json!({"imageRepositoryRef": {"name": "x"}, "policy": {"semver": {"range": "*"}}}),
        ),
        (
            "image.toolkit.fluxcd.io/v1",
            "ImageUpdateAutomation",
            on,
            json!({"interval": "1h", "sourceRef": git, "git": {"commit": {"author": {"email": "x@example.invalid"}}}}),
        ),
        ("notification.toolkit.fluxcd.io/v1", "Receiver", on, receiver("default")["spec"].clone()),
        (
            "notification.toolkit.fluxcd.io/v1beta3",
            "Provider",
            on,
            json!({"type": "generic", "address": "https://example.invalid"}),
        ),
        (
            "notification.toolkit.fluxcd.io/v1beta3",
            "Alert",
            on,
            json!({"providerRef": {"name": "x"}, "eventSources": [{"kind": "Bucket", "name": "*"}]}),
        ),
    ];
    let known: Vec<_> = gitops_core::flux::kinds::KINDS.iter().map(|kind| kind.kind).collect();
    assert_eq!(kinds.iter().map(|(_, kind, ..)| *kind).collect::<Vec<_>>(), known, "every kind is tested");

    for (api_version, kind, how, spec) in kinds {
        let name = if kind.starts_with("Flux") { "flux" } else { "x" };
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec});
        cluster
            .kubectl_stdin(&["apply", "-f", "-"], &object.to_string())
            .unwrap_or_else(|error| panic!("{kind}: {error:#}"));
        let target = format!("{kind}/{name}");
        let full = format!("{}.{}/{name}", kind.to_lowercase(), api_version.split_once('/').unwrap().0);
        let state = |by: Value| {
            let item = item(cluster, "default", &target);
            assert_eq!(item["suspension"]["by"], by, "{kind}: {item}");
            item
        };
        let before = generation(&read(cluster, kind, "default", name));
        state(json!(null));
        let run = gitops(cluster, &["suspend", &target, "-m", "drill", "--yes"]);
        if how == none {
            assert_eq!(run.code, 6, "{run:?}");
            assert!(run.stderr.contains("has nothing to suspend"), "{run:?}");
            continue;
        }
        assert_eq!(ok(&run), format!("{full} {}\n", if how == on { "annotated" } else { "suspended" }));
        let now = read(cluster, kind, "default", name);
        assert_eq!(
            (annotation(&now), generation(&now)),
            (Some("drill"), before),
            "{kind}: the generation stands still"
        );
        let item = state(json!(if how == on { "annotation" } else { "switch" }));
        let verdict = &item["honoured"]["verdict"];
        let expected = match kind {
            "Alert" | "Provider" => "unverifiable",
            _ if how == on => "no-evidence",
            _ => "honoured",
        };
        assert_eq!((verdict, &item["suspension"]["manager"]), (&json!(expected), &json!("gitops-suspend")), "{kind}");

        let run = gitops(cluster, &["suspend", &target, "--spec"]);
        let moved = i64::from(how == on);
        assert_eq!(ok(&run), format!("{full} {}\n", if how == on { "suspended" } else { "unchanged" }));
        assert_eq!(generation(&read(cluster, kind, "default", name)), before + moved, "{kind}");
        state(json!(if how == on { "both" } else { "switch" }));

        let run = gitops(cluster, &["resume", &target, "--spec"]);
        assert_eq!(ok(&run), format!("{full} resumed\n"), "{run:?}");
        let now = read(cluster, kind, "default", name);
        let asked = &now["metadata"]["annotations"]["reconcile.fluxcd.io/requestedAt"];
        assert_eq!((annotation(&now), asked.is_string()), (None, true), "{kind}");
        assert_eq!(generation(&now), before + 2 * moved, "{kind}");
        state(json!(null));
    }
    let all = gitops(cluster, &["suspend", "--all", "-m", "everything", "--yes"]);
    assert_eq!(ok(&all).lines().count(), 18, "all but the external artifact: {all:?}");
    let table = gitops(cluster, &["get", "--suspended", "--no-headers"]);
    assert_eq!(ok(&table).lines().count(), 18, "{table:?}");
    let resumed = gitops(cluster, &["resume", "--all", "--yes"]);
    let place = |name: &str| ok(&resumed).find(name).unwrap_or_else(|| panic!("{name} in {resumed:?}"));
    assert!(place("gitrepository.") < place("kustomization."), "sources come first: {resumed:?}");
    assert!(place("imagerepository.") < place("imagepolicy."), "sources come first: {resumed:?}");
    ok(&gitops(cluster, &["suspend", "alert/x", "provider/x"]));
    let waited = gitops(cluster, &["resume", "alert/x", "provider/x", "--wait"]);
    assert_eq!(waited.stderr.matches("has no status to wait for").count(), 2, "{waited:?}");
}
