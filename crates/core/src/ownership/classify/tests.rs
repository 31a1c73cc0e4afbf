//! One small cluster for each rule.

use serde_json::{Value, json};

use super::*;
use crate::kubernetes::gap::Gap;
use crate::kubernetes::gap::GapKind;
use crate::kubernetes::object::{ObjectId, ObjectMetadata, Resource, parse_time};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::index::ExtraOwners;
use crate::ownership::last_applied;
use crate::ownership::scheme::owner_status::OwnerStatus;
use crate::ownership::schemes::{self, flux_v1, qbec};
use crate::testing::{Build, gap, kustomization, object, resource_type, snapshot};

const KS: [&str; 2] = ["kustomize.toolkit.fluxcd.io/name", "kustomize.toolkit.fluxcd.io/namespace"];
const OWNING: &str = "config.k8s.io/owning-inventory";
const HR: [&str; 2] = ["helm.toolkit.fluxcd.io/name", "helm.toolkit.fluxcd.io/namespace"];

fn cm(name: &str) -> ObjectMetadata {
    object("", "ConfigMap", "shop", name)
}

/// A ready HelmRelease that lists these ids.
fn release(name: &str, ids: &[&str]) -> Resource {
    object("helm.toolkit.fluxcd.io", "HelmRelease", "apps", name).with_content(kustomization(name, ids).content)
}

fn flux(object: ObjectMetadata, name: &str) -> ObjectMetadata {
    object.label(KS[0], name).label(KS[1], "flux-system")
}

fn helm(object: ObjectMetadata, release: &str) -> ObjectMetadata {
    let named = object.label("app.kubernetes.io/managed-by", "Helm").annotation("meta.helm.sh/release-name", release);
    named.annotation("meta.helm.sh/release-namespace", "apps")
}

fn of_release(object: ObjectMetadata, name: &str) -> ObjectMetadata {
    helm(object.label(HR[0], name).label(HR[1], "apps").writer("helm-controller", HR[0]), name)
}

fn ks(name: &str) -> OwnerId {
    OwnerId::new("flux", "Kustomization", "flux-system", name)
}

/// Returns `name status owner…` of each object, in order.
fn statuses(index: &Index<'_>) -> Vec<String> {
    index.statuses().map(|(object, status)| status_line(object, &status)).collect()
}

fn status_line(object: &ObjectMetadata, status: &OwnershipStatus) -> String {
    let owners = match status {
        OwnershipStatus::Managed(owner) => owner.to_string(),
        OwnershipStatus::Leaked(claim) | OwnershipStatus::Orphaned(claim) | OwnershipStatus::Copied(claim) => {
            claim.owner.to_string()
        }
        OwnershipStatus::Unknown(_, reason) => reason.clone(),
        OwnershipStatus::Conflict(owners) => owners.iter().map(ToString::to_string).collect::<Vec<_>>().join(" + "),
        _ => String::new(),
    };
    format!("{} {} {owners}", object.id.name, status.as_str()).trim_end().to_owned()
}

#[track_caller]
fn check(objects: Vec<ObjectMetadata>, full: Vec<Resource>, expected: &[&str]) {
    let snapshot = snapshot(objects, full);
    assert_eq!(statuses(&Index::build(&snapshot)), expected);
}

#[test]
fn flux_objects_are_managed_leaked_copied_controlled_or_orphaned() {
    check(
        vec![
            cm("a-listed").of_kustomization("apps"),
            cm("b-listed-without-labels"),
            cm("c-not-listed").of_kustomization("apps"),
            flux(cm("d-bare"), "apps"),
            flux(cm("e-written-by-another"), "apps").writer("some-operator", KS[0]),
            cm("f-child").of_kustomization("apps").controlled_by("x"),
            cm("g-gone").of_kustomization("removed"),
            cm("h-nothing"),
        ],
        vec![kustomization("apps", &["shop_a-listed__ConfigMap", "shop_b-listed-without-labels__ConfigMap"])],
        &[
            "a-listed managed kustomization/apps -n flux-system",
            "b-listed-without-labels managed kustomization/apps -n flux-system",
            "c-not-listed leaked kustomization/apps -n flux-system",
            "d-bare copied kustomization/apps -n flux-system",
            "e-written-by-another copied kustomization/apps -n flux-system",
            "f-child controlled",
            "g-gone orphaned kustomization/removed -n flux-system",
            "h-nothing unmanaged",
        ],
    );
}

#[test]
fn two_owners_that_can_claim_an_object_are_a_conflict() {
    check(
        vec![
            cm("a-listed-twice").of_kustomization("apps"),
            cm("b-listed-by-one-applied-by-other").of_kustomization("other"),
            flux(cm("c-listed-by-one-bare-of-other"), "other"),
            cm("d-listed-by-one-claim-of-the-dead").of_kustomization("dead"),
        ],
        vec![
            kustomization(
                "apps",
                &[
                    "shop_a-listed-twice__ConfigMap",
                    "shop_b-listed-by-one-applied-by-other__ConfigMap",
                    "shop_c-listed-by-one-bare-of-other__ConfigMap",
                    "shop_d-listed-by-one-claim-of-the-dead__ConfigMap",
                ],
            ),
            kustomization("other", &["shop_a-listed-twice__ConfigMap"]),
        ],
        &[
            "a-listed-twice conflict kustomization/apps -n flux-system + kustomization/other -n flux-system",
            "b-listed-by-one-applied-by-other conflict kustomization/apps -n flux-system + kustomization/other -n flux-system",
            "c-listed-by-one-bare-of-other managed kustomization/apps -n flux-system",
            "d-listed-by-one-claim-of-the-dead managed kustomization/apps -n flux-system",
        ],
    );
}

#[test]
fn remote_owners_are_not_checked_and_broken_ones_hide_only_themselves() {
    let mut remote = kustomization("remote", &["shop_a__ConfigMap"]);
    remote.content["spec"]["kubeConfig"] = json!({"secretRef": {"name": "x"}});
    let mut owners = vec![remote, kustomization("broken", &["shop_b__ConfigMap", "no-separators"])];
    owners.extend((0..1000).map(|n| kustomization(&format!("k{n}"), &[])));
    check(
        vec![cm("a").of_kustomization("remote"), cm("b").of_kustomization("broken"), cm("c").of_kustomization("k7")],
        owners,
        &[
            "a unknown remote, not checked",
            "b unknown inventory entry \"no-separators\" is not <namespace>_<name>_<group>_<Kind>",
            "c leaked kustomization/k7 -n flux-system",
        ],
    );
}

fn helm_record(name: &str) -> ObjectMetadata {
    object("", "Secret", "apps", name).label("owner", "helm").label("status", "deployed")
}

#[test]
fn a_helm_release_is_part_of_the_helm_release_object_that_drives_it() {
    let hook = of_release(cm("b-hook"), "podinfo").annotation("helm.sh/hook", "pre-install");
    let mut drives = release("podinfo", &["shop_a-listed__ConfigMap"]);
    drives.content["status"]["helmChart"] = json!("apps/apps-podinfo");
    let chart = object("source.toolkit.fluxcd.io", "HelmChart", "apps", "apps-podinfo");
    check(
        vec![
            of_release(cm("a-listed"), "podinfo"),
            hook,
            of_release(cm("c-leaked"), "podinfo"),
            of_release(cm("d-release-object-gone"), "gone"),
            helm(cm("e-plain-helm"), "plain"),
            helm(cm("f-no-release"), "uninstalled"),
            helm(cm("g-listed-and-of-another-release"), "plain")
                .label(HR[0], "podinfo")
                .label(HR[1], "apps")
                .writer("helm-controller", HR[0]),
            helm_record("sh.helm.release.v1.podinfo.v1"),
            helm_record("sh.helm.release.v1.plain.v3"),
            of_release(chart, "podinfo"),
            of_release(cm("h-release-object-gone-and-release-there"), "outlived"),
            helm_record("sh.helm.release.v1.outlived.v1"),
        ],
        vec![drives],
        &[
            "a-listed managed helmrelease/podinfo -n apps",
            "b-hook managed helmrelease/podinfo -n apps",
            "c-leaked leaked helmrelease/podinfo -n apps",
            "d-release-object-gone orphaned helmrelease/gone -n apps",
            "e-plain-helm managed release/plain -n apps",
            "f-no-release orphaned release/uninstalled -n apps",
            "g-listed-and-of-another-release conflict helmrelease/podinfo -n apps + release/plain -n apps",
            "h-release-object-gone-and-release-there managed release/outlived -n apps",
            "sh.helm.release.v1.outlived.v1 system",
            "sh.helm.release.v1.plain.v3 system",
            "sh.helm.release.v1.podinfo.v1 system",
            "apps-podinfo managed helmrelease/podinfo -n apps",
        ],
    );
    let snapshot = snapshot(vec![helm_record("sh.helm.release.v1.podinfo.v1")], vec![release("podinfo", &[])]);
    let index = Index::build(&snapshot);
    assert_eq!(index.owners().count(), 1, "the release is no owner beside the HelmRelease");
}

fn config_sync_object(name: &str, sync: &str) -> ObjectMetadata {
    let id = ObjectId::new("configsync.gke.io", "RepoSync", "bookstore", sync);
    object("", "ConfigMap", "bookstore", name)
        .annotation("configmanagement.gke.io/managed", "enabled")
        .annotation("configsync.gke.io/resource-id", &format!("_configmap_bookstore_{name}"))
        .annotation("configsync.gke.io/manager", &format!("bookstore_{sync}"))
        .annotation("config.k8s.io/owning-inventory", &format!("bookstore_{sync}"))
        .label("applyset.kubernetes.io/part-of", &schemes::applyset::id_of(&id))
}

#[test]
fn config_sync_supersedes_its_apply_set_and_its_inventory() {
    let sync = object("configsync.gke.io", "RepoSync", "bookstore", "x").with_content(json!({}));
    let resources = json!({"spec": {"resources": [{"kind": "ConfigMap", "namespace": "bookstore", "name": "a"}]}});
    let group =
        object("kpt.dev", "ResourceGroup", "bookstore", "x").label("cli-utils.sigs.k8s.io/inventory-id", "bookstore_x");
    let mut forged = config_sync_object("c", "x");
    forged = forged.annotation("configsync.gke.io/resource-id", "_configmap_bookstore_other");
    check(
        vec![config_sync_object("a", "x"), config_sync_object("b", "x"), forged, config_sync_object("d", "gone")],
        vec![sync, group.with_content(resources)],
        &[
            "a managed reposync/x -n bookstore",
            "b leaked reposync/x -n bookstore",
            "c copied reposync/x -n bookstore",
            "d orphaned reposync/gone -n bookstore",
        ],
    );
}

fn tracked_by_argo(name: &str, app: &str) -> ObjectMetadata {
    cm(name).annotation("argocd.argoproj.io/tracking-id", &format!("{app}:/ConfigMap:shop/{name}"))
}

fn application(namespace: &str, name: &str, resources: Value) -> Resource {
    object("argoproj.io", "Application", namespace, name).with_content(json!({"status": {"resources": resources}}))
}

fn argo_resources(name: &str) -> Value {
    json!([{"kind": "ConfigMap", "namespace": "shop", "name": name}])
}

#[test]
fn argo_applications_are_found_with_and_without_namespace() {
    let mut remote = application("argocd", "edge", argo_resources("d"));
    remote.content["spec"] = json!({"destination": {"server": "https://edge"}});
    check(
        vec![
            tracked_by_argo("a", "web"),
            tracked_by_argo("b", "web"),
            tracked_by_argo("c", "teams_web"),
            tracked_by_argo("d", "edge"),
            tracked_by_argo("e", "gone"),
            cm("f").annotation("argocd.argoproj.io/tracking-id", "web:/ConfigMap:shop/a"),
            tracked_by_argo("g", "web").annotation("argocd.argoproj.io/hook", "PreSync"),
            tracked_by_argo("h", "web").label("argocd.argoproj.io/instance", "other"),
        ],
        vec![
            application("argocd", "web", argo_resources("a")),
            application("teams", "web", argo_resources("c")),
            remote,
            application("argocd", "other", json!([])),
        ],
        &[
            "a managed application/web -n argocd",
            "b leaked application/web -n argocd",
            "c managed application/web -n teams",
            "d unknown remote, not checked",
            "e orphaned application/gone",
            "f copied application/web -n argocd",
            "g managed application/web -n argocd",
            "h leaked application/web -n argocd",
        ],
    );
}

fn kapp(name: &str, value: &str) -> ObjectMetadata {
    cm(name)
        .label("kapp.k14s.io/app", value)
        .annotation("kapp.k14s.io/identity", &format!("v1;shop//ConfigMap/{name};v1"))
}

fn kapp_app(name: &str, spec: &str) -> Resource {
    object("", "ConfigMap", "kapp", name).label("kapp.k14s.io/is-app", "").with_content(json!({"data": {"spec": spec}}))
}

fn readable_kapp_app() -> Resource {
    kapp_app("web", r#"{"labelKey": "kapp.k14s.io/app", "labelValue": "1"}"#)
}

fn kapp_objects() -> Vec<ObjectMetadata> {
    vec![kapp("a", "1"), kapp("b", "2"), cm("c").label("kapp.k14s.io/app", "1")]
}

#[test]
fn kapp_apps_are_found_by_value_and_an_unreadable_one_leaves_orphans_open() {
    check(
        kapp_objects(),
        vec![readable_kapp_app()],
        &["a managed app/web -n kapp", "b orphaned app/2", "c copied app/web -n kapp"],
    );
    check(
        kapp_objects(),
        vec![readable_kapp_app(), kapp_app("broken", "{")],
        &["a managed app/web -n kapp", "b unknown an owner of kapp could not be read", "c copied app/web -n kapp"],
    );
}

fn apply_set_id(name: &str) -> String {
    schemes::applyset::id_of(&ObjectId::new("", "Secret", "shop", name))
}

fn apply_set_parent(name: &str, of: &str) -> ObjectMetadata {
    object("", "Secret", "shop", name)
        .label("applyset.kubernetes.io/id", &apply_set_id(of))
        .annotation("applyset.kubernetes.io/contains-group-kinds", "ConfigMap")
}

fn apply_set_member(object: ObjectMetadata, of: &str) -> ObjectMetadata {
    object.label("applyset.kubernetes.io/part-of", &apply_set_id(of))
}

#[test]
fn apply_set_parents_are_read_from_metadata_and_must_be_genuine() {
    let snapshot = snapshot(
        vec![
            apply_set_member(cm("a"), "set"),
            apply_set_member(object("", "ConfigMap", "elsewhere", "b"), "set"),
            apply_set_member(object("", "Service", "shop", "c"), "set"),
            apply_set_member(cm("d"), "forged"),
            apply_set_member(cm("e"), "gone"),
            apply_set_member(cm("f-copied-where-kubectl-looks"), "set")
                .writer("operator", "applyset.kubernetes.io/part-of"),
            apply_set_member(object("", "Endpoints", "shop", "g-copied-where-it-does-not"), "set")
                .writer("operator", "applyset.kubernetes.io/part-of"),
            apply_set_parent("set", "set"),
            apply_set_parent("copy-of-a-parent", "forged"),
        ],
        vec![],
    );
    let said = statuses(&Index::build(&snapshot));
    let of = |name: &str| said.iter().find(|line| line.starts_with(&format!("{name} "))).unwrap().clone();
    assert_eq!(of("a"), "a managed secret/set -n shop");
    assert_eq!(of("b"), "b leaked secret/set -n shop", "no namespace that the parent names");
    assert_eq!(of("c"), "c leaked secret/set -n shop", "no kind that the parent names");
    assert!(of("d").starts_with("d unknown its label applyset.kubernetes.io/id is not"), "{}", of("d"));
    assert!(of("e").starts_with("e orphaned applyset/applyset-"), "{}", of("e"));
    assert_eq!(of("f-copied-where-kubectl-looks"), "f-copied-where-kubectl-looks managed secret/set -n shop");
    assert_eq!(of("g-copied-where-it-does-not"), "g-copied-where-it-does-not copied secret/set -n shop");
    assert_eq!(of("set"), "set system");
}

fn cli_utils_object(name: &str) -> ObjectMetadata {
    cm(name).annotation(OWNING, "x").writer("kubectl", OWNING)
}

#[test]
fn what_kubectl_applied_on_the_server_may_be_a_persons_and_not_cli_utils() {
    let mut on_the_server = cli_utils_object("c-server-side");
    on_the_server.managed_fields[0].applies = true;
    let inventory = object("", "ConfigMap", "shop", "inventory").label("cli-utils.sigs.k8s.io/inventory-id", "x");
    check(
        vec![
            cli_utils_object("a-listed"),
            cli_utils_object("b-not-listed").annotation(last_applied::KUBECTL, "/ConfigMap/shop/b-not-listed"),
            on_the_server,
            cm("d-applied-by-a-person").annotation(OWNING, "x").writer("kubectl-client-side-apply", OWNING),
        ],
        vec![inventory.with_content(json!({"data": {"shop_a-listed__ConfigMap": ""}}))],
        &[
            "a-listed managed configmap/inventory -n shop",
            "b-not-listed orphaned inventory/x",
            "c-server-side unknown `kubectl apply --server-side` leaves the same managed fields as cli-utils",
            "d-applied-by-a-person copied configmap/inventory -n shop",
        ],
    );
}

fn git_source(url: &str) -> flux_v1::GitSource {
    flux_v1::GitSource { url: url.to_owned(), branch: "master".to_owned(), paths: vec![] }
}

fn flux_v1_mark(name: &str, url: &str) -> String {
    flux_v1::mark(&git_source(url).sync_set(), &format!("shop:configmap/{name}"))
}

fn synced(name: &str) -> ObjectMetadata {
    cm(name).label(flux_v1::MARK, &flux_v1_mark(name, "git@h:o/r"))
}

fn flux_v1_objects() -> Vec<ObjectMetadata> {
    vec![
        synced("a-synced"),
        cm("b-copied").label(flux_v1::MARK, &flux_v1_mark("a-synced", "git@h:o/r")),
        cm("c-foreign").label(flux_v1::MARK, &flux_v1_mark("c-foreign", "git@other:o/r")),
        cm("d-malformed").label(flux_v1::MARK, "true"),
        cm("e-legacy").label(flux_v1::LEGACY_MARK, &flux_v1_mark("e-legacy", "git@h:o/r")),
        synced("f-referring").referring_to("x"),
        synced("g-taken-over").of_kustomization("gone"),
        synced("h-child").controlled_by("x"),
    ]
}

#[test]
fn flux_v1_members_are_verified_and_other_marks_classified() {
    let fluxd = object("apps", "Deployment", "flux", "fluxd").with_content(json!({
        "spec": {"template": {"spec": {"containers": [{"args": ["--git-url=git@h:o/r"]}]}}},
        "status": {"availableReplicas": 1},
    }));
    let rest = [
        "d-malformed copied source/unknown",
        "e-legacy leaked deployment/fluxd -n flux",
        "f-referring leaked deployment/fluxd -n flux",
        "g-taken-over orphaned kustomization/gone -n flux-system",
        "h-child controlled",
    ];
    let first = [
        "a-synced managed deployment/fluxd -n flux",
        "b-copied copied source/unknown",
        "c-foreign orphaned source/unknown",
    ];
    check(flux_v1_objects(), vec![fluxd.clone()], &[&first[..], &rest[..]].concat());

    let snapshot_of_both = snapshot(flux_v1_objects(), vec![fluxd]);
    let given = ExtraOwners {
        described: vec![(&flux_v1::SCHEME, git_source("git@other:o/r").record())],
        ..ExtraOwners::default()
    };
    let said = statuses(&Index::build_with(&snapshot_of_both, &given));
    assert_eq!(said[2], "c-foreign managed source/ssh://git@other/o/r master");

    let alone = snapshot(flux_v1_objects(), vec![]);
    assert!(
        statuses(&Index::build(&alone))[0].starts_with("a-synced copied"),
        "one mark on two objects, and no source to tell them apart"
    );
    let own = snapshot(vec![synced("a").annotation(last_applied::KUBECTL, "/ConfigMap/shop/a")], vec![]);
    assert_eq!(statuses(&Index::build(&own)), ["a orphaned source/unknown"]);
}

#[test]
fn a_fluxd_that_cannot_be_read_leaves_its_marks_open() {
    let env = json!([{"name": "U", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]);
    let container = json!({"args": ["--git-url=https://$(U)@h/r"], "env": env});
    let fluxd = object("apps", "Deployment", "flux", "fluxd")
        .with_content(json!({"spec": {"template": {"spec": {"containers": [container]}}}}));
    let marked = cm("a").label(flux_v1::MARK, &flux_v1::mark("x", "shop:configmap/a"));
    check(vec![marked], vec![fluxd], &["a unknown an owner of flux-v1 could not be read"]);
}

fn qbec_object(name: &str) -> ObjectMetadata {
    cm(name).label("qbec.io/application", "shop").label("qbec.io/environment", "dev")
}

fn with_own_last_applied(object: ObjectMetadata) -> ObjectMetadata {
    let identity = format!("/ConfigMap/shop/{}", object.id.name);
    object.annotation(qbec::LAST_APPLIED, &identity)
}

#[test]
fn qbec_scopes_are_owners_as_long_as_an_object_names_them() {
    check(
        vec![
            with_own_last_applied(qbec_object("a")),
            with_own_last_applied(qbec_object("b").label("qbec.io/tag", "pr-1")),
            with_own_last_applied(qbec_object("c").label("qbec.io/tag", "")),
            qbec_object("d").annotation(qbec::LAST_APPLIED, "/ConfigMap/shop/a"),
            qbec_object("e").writer("some-operator", "qbec.io/application"),
            with_own_last_applied(cm("f").label("qbec.io/environment", "dev")),
        ],
        vec![],
        &[
            "a managed app/shop/dev",
            "b managed app/shop/dev/pr-1",
            "c orphaned app/shop/dev/",
            "d copied app/shop/dev",
            "e copied app/shop/dev",
            "f orphaned app//dev",
        ],
    );
}

#[test]
fn owners_of_different_systems_conflict_and_copied_labels_do_not() {
    let both = kapp("a", "1").of_kustomization("apps");
    let copied = flux(kapp("b", "1"), "apps");
    check(
        vec![both, copied],
        vec![readable_kapp_app(), kustomization("apps", &[])],
        &["a conflict kustomization/apps -n flux-system + app/web -n kapp", "b managed app/web -n kapp"],
    );
}

fn with_gap(objects: Vec<ObjectMetadata>, kind: GapKind, subject: &str, namespace: Option<&str>) -> Snapshot {
    let mut snapshot = snapshot(objects, vec![]);
    snapshot.types = vec![resource_type("kustomize.toolkit.fluxcd.io", "Kustomization", "kustomizations", true)];
    snapshot.gaps = vec![Gap { namespace: namespace.map(ToOwned::to_owned), ..gap(kind, subject) }];
    snapshot
}

#[test]
fn an_owner_kind_that_could_not_be_read_leaves_orphans_open() {
    let resource = "kustomizations.kustomize.toolkit.fluxcd.io";
    let rows = [
        (GapKind::Forbidden, resource, None, "unknown"),
        (GapKind::StaleGroup, "kustomize.toolkit.fluxcd.io/v1", None, "unknown"),
        (GapKind::Forbidden, resource, Some("flux-system"), "unknown"),
        (GapKind::Forbidden, resource, Some("other"), "orphaned"),
        (GapKind::Forbidden, "pods", None, "orphaned"),
        (GapKind::StaleGroup, "metrics.k8s.io/v1beta1", None, "orphaned"),
    ];
    for (kind, subject, namespace, expected) in rows {
        let snapshot = with_gap(vec![cm("a").of_kustomization("apps")], kind, subject, namespace);
        let index = Index::build(&snapshot);
        assert_eq!(index.status(&snapshot.objects[0]).as_str(), expected, "{kind:?} {subject} {namespace:?}");
    }
}

fn leaked_object() -> ObjectMetadata {
    let mut object = cm("a").of_kustomization("apps");
    object.managed_fields[0].time = parse_time("2026-05-31T23:59:00Z");
    object
}

#[test]
fn what_a_restless_owner_says_of_leaks_is_not_trusted() {
    type OwnerChange = fn(&mut Resource, &mut ObjectMetadata);
    let rows: [(&str, OwnerChange, bool); 7] = [
        ("ready", |_, _| (), true),
        ("suspended", |owner, _| owner.content["spec"]["suspend"] = json!(true), false),
        ("not ready", |owner, _| owner.content["status"]["conditions"][0]["status"] = json!("False"), false),
        ("running", |owner, _| owner.content["status"]["conditions"][0]["status"] = json!("Unknown"), false),
        ("not observed", |owner, _| owner.content["status"]["observedGeneration"] = json!(0), false),
        ("deleted", |owner, _| owner.object.deletion_timestamp = parse_time("2026-06-01T00:00:00Z"), false),
        ("object written since", |_, object| object.managed_fields[0].time = parse_time("2026-06-01T00:00:01Z"), false),
    ];
    for (name, change, trusted) in rows {
        let (mut owner, mut object) = (kustomization("apps", &[]), leaked_object());
        change(&mut owner, &mut object);
        let snapshot = snapshot(vec![object], vec![owner]);
        let index = Index::build(&snapshot);
        let OwnershipStatus::Leaked(claim) = index.status(&snapshot.objects[0]) else { panic!("{name}") };
        assert_eq!(index.untrusted_reason(&snapshot.objects[0], &claim).is_none(), trusted, "{name}");
    }
}

#[test]
fn an_owner_with_another_version_in_its_second_reading_changed() {
    let owner = kustomization("apps", &[]);
    let mut before = owner.object.clone();
    before.resource_version = "0".into();
    let mut snapshot = snapshot(vec![before], vec![]);
    snapshot.add_resources(vec![owner], |_| true);
    snapshot.normalise();
    assert_eq!(
        snapshot.objects[0].resource_version, snapshot.resources[0].object.resource_version,
        "the second reading counts"
    );
    assert_eq!(Index::build(&snapshot).owner(&ks("apps")).unwrap().status, OwnerStatus::Changed);
}

fn may_live_elsewhere(full: Vec<Resource>) -> bool {
    let snapshot = snapshot(vec![cm("a").of_kustomization("gone")], full);
    let index = Index::build(&snapshot);
    let OwnershipStatus::Orphaned(claim) = index.status(&snapshot.objects[0]) else { panic!("not orphaned") };
    index.may_live_elsewhere(&snapshot.objects[0], &claim)
}

#[test]
fn without_an_owner_of_the_kind_owners_may_live_elsewhere() {
    assert!(may_live_elsewhere(vec![]));
    assert!(may_live_elsewhere(vec![release("x", &[])]), "a HelmRelease is no evidence of Kustomizations here");
    assert!(!may_live_elsewhere(vec![kustomization("x", &[])]));
}

#[test]
fn a_v1beta1_kustomization_selects_by_label_in_the_kinds_of_its_snapshot() {
    let mut owner = kustomization("apps", &[]);
    let status = owner.content["status"].as_object_mut().unwrap();
    status.remove("inventory");
    let kinds = json!({"/v1, Kind=ConfigMap": "ConfigMap"});
    let entries = json!([{"namespace": "shop", "kinds": kinds}]);
    status.insert("snapshot".to_owned(), json!({"checksum": "new", "entries": entries}));
    check(
        vec![
            cm("a").of_kustomization("apps"),
            object("", "Secret", "shop", "b").of_kustomization("apps"),
            object("", "ConfigMap", "x", "c").of_kustomization("apps"),
        ],
        vec![owner],
        &[
            "a managed kustomization/apps -n flux-system",
            "c leaked kustomization/apps -n flux-system",
            "b leaked kustomization/apps -n flux-system",
        ],
    );
}

#[test]
fn entries_of_cluster_scoped_kinds_match_without_namespace() {
    let mut snapshot = snapshot(
        vec![object("rbac.authorization.k8s.io", "ClusterRole", "", "sys:x")],
        vec![kustomization("apps", &["bogus_sys__x_rbac.authorization.k8s.io_ClusterRole"])],
    );
    snapshot.types = vec![resource_type("rbac.authorization.k8s.io", "ClusterRole", "clusterroles", false)];
    let index = Index::build(&snapshot);
    assert_eq!(index.status(&snapshot.objects[0]), OwnershipStatus::Managed(ks("apps")));
}

#[test]
fn nothing_is_leaked_or_orphaned_where_an_unread_owner_of_any_system_may_list_it() {
    let rows = [
        ("applications.argoproj.io", "unknown", false),
        ("helmreleases.helm.toolkit.fluxcd.io", "unknown", false),
        ("configmaps", "unknown", false),
        ("pods", "orphaned", true),
        ("secrets", "orphaned", true),
    ];
    for (subject, orphan, trusted) in rows {
        let mut snapshot =
            snapshot(vec![leaked_object(), cm("b").of_kustomization("gone")], vec![kustomization("apps", &[])]);
        snapshot.gaps = vec![gap(GapKind::Forbidden, subject)];
        let index = Index::build(&snapshot);
        let [a, b] = &snapshot.objects[..] else { panic!("two objects") };
        let OwnershipStatus::Leaked(claim) = index.status(a) else { panic!("{:?}", index.status(a)) };
        assert_eq!(index.untrusted_reason(a, &claim).is_none(), trusted, "{subject}");
        assert_eq!(index.status(b).as_str(), orphan, "{subject}");
    }
}

#[test]
fn an_entry_older_than_the_owner_proves_nothing() {
    let mut owner = kustomization("apps", &[]);
    owner.object.creation_timestamp = parse_time("2026-01-01T00:00:00Z");
    for (time, expected) in
        [("2025-12-31T23:58:00Z", "copied"), ("2025-12-31T23:59:30Z", "leaked"), ("2026-01-02T00:00:00Z", "leaked")]
    {
        let mut object = cm("a").of_kustomization("apps");
        object.managed_fields[0].time = parse_time(time);
        let read = snapshot(vec![object, owner.object.clone()], vec![owner.clone()]);
        assert_eq!(Index::build(&read).status(&read.objects[0]).as_str(), expected, "{time}");
    }
}
