//! Charts that are not in the tree: those that source-controller stores.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::cluster::{Files, NS, TestCluster, cm, set};
use super::releases::record;
use super::unfollowed::{cluster, release, source};
use crate::kubernetes::object::{ObjectMetadata, Resource};
use crate::plan::{Outcome, Plan};
use crate::testing::{self, packed_chart};
use crate::text::hex;

const ABOUT: (&str, &str) = ("Chart.yaml", "apiVersion: v2\nname: app\nversion: '1'\n");
const WEB: (&str, &str) = ("templates/web.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n");
const EXTRA: (&str, &str) = ("templates/extra.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra}\n");

fn spec(values: Value) -> Value {
    let reference = json!({"kind": "HelmRepository", "name": "charts"});
    json!({"chart": {"spec": {"chart": "app", "version": "1", "sourceRef": reference}}, "values": values})
}

fn tree(spec: Value) -> Files {
    let repository = source("HelmRepository", "charts", json!({"url": "https://charts.example.com"}));
    vec![("root/x.yaml", vec![cm("x")]), ("root/a.yaml", vec![release(spec), repository])]
}

/// Returns the object whose artifact is a chart, and records the chart.
fn store(cluster: &mut TestCluster, kind: &str, name: &str, archive: Vec<u8>, revision: &str) {
    let (directory, file) = (format!("{}/{NS}/{name}", kind.to_lowercase()), "app-1.tgz");
    let url = format!("http://source-controller.flux-system.svc.cluster.local./{directory}/{file}");
    let digest = format!("sha256:{}", hex(&Sha256::digest(&archive)));
    let artifact = json!({"url": url, "digest": digest, "revision": revision, "size": archive.len()});
    let object = ObjectMetadata { generation: 4, ..testing::object("source.toolkit.fluxcd.io", kind, NS, name) };
    cluster.snapshot.objects.push(object.clone());
    cluster.snapshot.resources.retain(|full| full.object.id != object.id);
    cluster
        .snapshot
        .resources
        .push(Resource { object, content: json!({"spec": {}, "status": {"artifact": artifact}}) });
    let service = "/api/v1/namespaces/flux-system/services/http:source-controller:80/proxy";
    cluster.stored.insert(format!("{service}/{directory}/{file}"), archive);
}

/// Returns a cluster in which a release has the objects `web` and `extra` of a chart in the storage.
fn deployed(before: &Files, files: &[(&str, &str)]) -> TestCluster {
    let mut cluster = cluster(before, true);
    cluster.add(&cm("web"), None);
    cluster.add(&cm("extra"), None);
    cluster.add(&record(), None);
    store(&mut cluster, "HelmChart", "flux-system-app", packed_chart(files), "1");
    let entries = ["web", "extra"].map(|name| json!({"id": format!("{NS}_{name}__ConfigMap"), "v": "v1"}));
    let status = &mut cluster.kustomization("app").content["status"];
    status["inventory"]["entries"] = json!(entries);
    status["history"][0]["status"] = "deployed".into();
    status["helmChart"] = format!("{NS}/flux-system-app").into();
    cluster.snapshot.normalise();
    cluster
}

fn reason(plan: &Plan) -> (Outcome, String) {
    let row = plan.owners().iter().find(|row| row.owner.kind == "HelmRelease").unwrap();
    (row.outcome, row.reason.to_string())
}

/// Returns the reason why the effect of a change is not known.
fn why(cluster: &TestCluster, after: Value) -> String {
    let plan = cluster.plan(&tree(after));
    assert_eq!((plan.is_complete(), plan.summary().unknown), (false, 1), "{:?}", plan.changes());
    reason(&plan).1
}

#[test]
fn values_of_a_stored_chart_decide_what_is_rendered() {
    let cluster = deployed(&tree(spec(json!({}))), &[ABOUT, WEB, EXTRA]);
    let after = tree(spec(json!({"off": ["extra.yaml"]})));
    assert_eq!(cluster.rows(&after), set(&["delete extra"]));
    let plan = cluster.plan(&after);
    assert!(plan.is_complete(), "{:?}", plan.gaps());
    assert_eq!(reason(&plan).0, Outcome::Applies);
}

#[test]
fn a_release_of_a_renamed_repository_keeps_its_chart() {
    let mut deployed_spec = spec(json!({}));
    deployed_spec["chart"]["spec"]["version"] = "1.0.0".into();
    let about = ("Chart.yaml", "apiVersion: v2\nname: app\nversion: 1.0.0\n");
    let mut cluster = deployed(&tree(deployed_spec), &[about, WEB, EXTRA]);
    cluster.kustomization("flux-system-app").content["status"]["artifact"]["revision"] = "1.0.0".into();
    cluster.kustomization("app").content["status"]["history"][0]["chartVersion"] = "1.0.0".into();
    let after = |name: &str, version: &str, repository: Value| {
        let mut spec = spec(json!({}));
        spec["chart"]["spec"]["sourceRef"]["name"] = name.into();
        spec["chart"]["spec"]["version"] = version.into();
        let repository = source("HelmRepository", name, repository);
        vec![("root/x.yaml", vec![cm("x")]), ("root/a.yaml", vec![release(spec), repository])]
    };
    let same = after("mirror", "1.0.0", json!({"url": "https://charts.example.com", "interval": "9m"}));
    assert_eq!(cluster.rows(&same), set(&["delete charts"]), "{}", reason(&cluster.plan(&same)).1);
    assert!(cluster.plan(&same).is_complete(), "{:?}", cluster.plan(&same).gaps());
    let others = [
        ("1.0.0", json!({"url": "https://mirror.example.com"})),
        ("1.0.0", json!({"url": "https://charts.example.com", "secretRef": {"name": "s"}})),
        ("1.0.0", json!({"url": "https://charts.example.com", "suspend": true})),
        ("2.0.0", json!({"url": "https://charts.example.com"})),
        ("*", json!({"url": "https://charts.example.com"})),
    ];
    for (version, repository) in others {
        let plan = cluster.plan(&after("mirror", version, repository.clone()));
        assert_eq!(reason(&plan).0, Outcome::Unknown, "{version} {repository}: {}", reason(&plan).1);
    }
}

#[test]
fn a_stored_chart_that_cannot_be_used_is_named() {
    let (before, off) = (tree(spec(json!({}))), || spec(json!({"off": ["extra.yaml"]})));
    let mut cluster = deployed(&before, &[ABOUT, WEB, EXTRA]);
    let archives = std::mem::take(&mut cluster.stored);
    assert!(
        why(&cluster, off()).contains("cannot be read from source-controller: forbidden"),
        "{}",
        why(&cluster, off())
    );
    cluster.stored = archives.into_keys().map(|path| (path, b"<html>".to_vec())).collect();
    assert!(why(&cluster, off()).contains("has the digest sha256:"), "{}", why(&cluster, off()));
    let cases: [(&[(&str, &str)], &str); 4] = [
        (&[ABOUT, WEB], "renders here to other objects than its inventory lists"),
        (&[("Chart.yaml", "{name: app, version: '2'}"), WEB, EXTRA], "has app 2, and app 1 is deployed"),
        (&[("Chart.yaml", "{name: b, version: '1'}"), WEB, EXTRA], "has b 1, and app 1 is deployed"),
        (&[ABOUT, WEB, EXTRA, ("templates/fail.yaml", "")], "helm fails to render it"),
    ];
    for (files, expected) in cases {
        let found = why(&deployed(&before, files), off());
        assert!(found.contains(expected), "{found}");
    }
    let mut newer = deployed(&before, &[ABOUT, WEB, EXTRA]);
    newer.charts = Some([("app-1".to_owned(), packed_chart(&[ABOUT, WEB, EXTRA]))].into());
    newer.kustomization("flux-system-app").content["status"]["artifact"]["revision"] = "2".into();
    assert!(why(&newer, off()).contains("has revision 2, and 1 of its chart is deployed"));
    let mut elsewhere = deployed(&before, &[ABOUT, WEB, EXTRA]);
    elsewhere.kustomization("flux-system-app").content["status"]["artifact"]["url"] = "http://10.0.0.1/x".into();
    assert!(why(&elsewhere, off()).contains("is not that of a Service in the cluster"));
}

#[test]
fn another_version_or_source_is_not_the_stored_chart() {
    let cluster = deployed(&tree(spec(json!({}))), &[ABOUT, WEB, EXTRA]);
    assert!(why(&cluster, version("2")).contains("--charts can name a folder that has app"));
    let mut elsewhere = spec(json!({"off": ["extra.yaml"]}));
    elsewhere["chart"]["spec"]["sourceRef"]["name"] = "other".into();
    assert!(why(&cluster, elsewhere).contains("the version of its chart that it asks for"));
    let mut moved = tree(spec(json!({"off": ["extra.yaml"]})));
    moved[1].1[1]["spec"]["url"] = "https://elsewhere.example.com".into();
    let plan = cluster.plan(&moved);
    assert!(reason(&plan).1.contains("its chart may change: helmrepository"), "{}", reason(&plan).1);
}

#[test]
fn values_files_of_a_stored_chart_are_merged() {
    let small = ("values-small.yaml", "off: [extra.yaml]\n");
    let with = |files: Value| {
        let mut spec = spec(json!({}));
        spec["chart"]["spec"]["valuesFiles"] = files;
        spec
    };
    let cluster = deployed(&tree(spec(json!({}))), &[ABOUT, WEB, EXTRA, small]);
    let plan = cluster.plan(&tree(with(json!(["values-small.yaml"]))));
    assert!(plan.is_complete(), "{:?}", plan.gaps());
    assert!(why(&cluster, with(json!(["none.yaml"]))).contains("the values file none.yaml is not in its source"));
    let merged = deployed(&tree(with(json!(["values-small.yaml"]))), &[ABOUT, WEB, EXTRA, small]);
    for replaced in [json!([]), json!(["./values.yaml"])] {
        assert!(why(&merged, with(replaced)).contains("the values.yaml of its chart is not stored"));
    }
}

#[test]
fn charts_of_other_sources_are_read_too() {
    for kind in ["OCIRepository", "HelmChart", "ExternalArtifact"] {
        let with = |values: Value| tree(json!({"chartRef": {"kind": kind, "name": "c"}, "values": values}));
        let mut cluster = deployed(&with(json!({})), &[ABOUT, WEB, EXTRA]);
        let digest = format!("sha256:{}", "a".repeat(64));
        if kind != "HelmChart" {
            let latest = &mut cluster.kustomization("app").content["status"]["history"][0];
            (latest["chartVersion"], latest["ociDigest"]) = ("1+aaaaaaaaaaaa".into(), digest.clone().into());
        }
        let revision = if kind == "HelmChart" { "1".to_owned() } else { format!("1@{digest}") };
        store(&mut cluster, kind, "c", packed_chart(&[ABOUT, WEB, EXTRA]), &revision);
        cluster.snapshot.normalise();
        let plan = cluster.plan(&with(json!({"off": ["extra.yaml"]})));
        assert!(plan.is_complete(), "{kind}: {:?}", plan.gaps());
        assert_eq!(plan.summary().delete, 1, "{kind}");
    }
}

#[test]
fn the_revision_and_a_lookup_are_those_of_the_cluster() {
    let numbered =
        ("templates/web.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Revision }}\"}\n");
    let mut cluster = deployed(&tree(spec(json!({}))), &[ABOUT, numbered, EXTRA]);
    cluster.add(&cm("{{ 1 }}"), None);
    let id = format!("{NS}_{{{{ 1 }}}}__ConfigMap");
    cluster.kustomization("app").content["status"]["inventory"]["entries"][0]["id"] = id.into();
    cluster.snapshot.normalise();
    let plan = cluster.plan(&tree(spec(json!({"a": 1}))));
    let gone: Vec<_> = plan.changes().iter().filter(|row| row.is_deletion()).map(|row| &*row.object.id.name).collect();
    assert_eq!(gone, ["{{ 1 }}"], "{:?}", plan.gaps());
}

/// Returns the spec of a release with a version of the chart.
fn version(version: &str) -> Value {
    let mut spec = spec(json!({}));
    spec["chart"]["spec"]["version"] = version.into();
    spec
}

#[test]
fn a_version_is_found_in_the_folder_of_charts() {
    let mut cluster = deployed(&tree(spec(json!({}))), &[ABOUT, WEB, EXTRA]);
    let packed = |version: &str, files: &[(&str, &str)]| {
        let about = format!("apiVersion: v2\nname: app\nversion: {version}\n");
        packed_chart(&[&[("Chart.yaml", &*about)], files].concat())
    };
    let charts = [("app-2.0.0", packed("2.0.0", &[WEB])), ("app-2.1.0", packed("2.0.0", &[WEB]))];
    cluster.charts = Some(charts.into_iter().map(|(stem, archive)| (stem.to_owned(), archive)).collect());
    let exact = cluster.plan(&tree(version("2.0.0")));
    assert!(exact.is_complete(), "{:?}", exact.gaps());
    assert_eq!(cluster.rows(&tree(version("2.0.0"))), set(&["delete extra"]));
    let range = cluster.plan(&tree(version("~2.0.0")));
    assert_eq!(cluster.rows(&tree(version("~2.0.0"))), set(&["delete? extra"]));
    let gap = "it is assumed that no version of app after 2.0.0 matches \"~2.0.0\": --charts has no other";
    assert_eq!(range.gaps().iter().map(|gap| &*gap.message).collect::<Vec<_>>(), [gap]);
    assert!(why(&cluster, version("2.1.0")).contains("app-2.1.0 in the folder of --charts is app 2.0.0"));
    assert!(why(&cluster, version("3.x")).contains("in the folder of --charts, no version matches 3.x of app"));
    assert!(why(&cluster, version("new")).contains("cannot be read"));
}

#[test]
fn the_deployed_chart_is_read_from_the_folder_if_it_is_not_stored() {
    let mut cluster = deployed(&tree(spec(json!({}))), &[ABOUT, WEB, EXTRA]);
    cluster.stored.clear();
    let off = || spec(json!({"off": ["extra.yaml"]}));
    assert!(
        why(&cluster, off()).contains("; --charts can name a folder that has app-1, and --allow-network fetches it")
    );
    cluster.remote =
        Some([("app 1 of https://charts.example.com".to_owned(), packed_chart(&[ABOUT, WEB, EXTRA]))].into());
    assert_eq!(cluster.rows(&tree(off())), set(&["delete extra"]));
    cluster.remote = None;
    cluster.charts = Some([("app-1".to_owned(), packed_chart(&[ABOUT, WEB, EXTRA]))].into());
    assert_eq!(cluster.rows(&tree(off())), set(&["delete extra"]));
    // A release that is installed again has the chart of its HelmChart, wherever that is read from.
    let mut failed = deployed(&tree(spec(json!({}))), &[ABOUT, WEB, EXTRA]);
    failed.stored.clear();
    failed.kustomization("app").content["status"]["history"][0]["status"] = "failed".into();
    assert!(why(&failed, off()).contains("; --charts can name a folder that has app-1"), "{}", why(&failed, off()));
    failed.charts = Some([("app-1".to_owned(), packed_chart(&[ABOUT, WEB, EXTRA]))].into());
    assert!(failed.plan(&tree(off())).is_complete());
}

#[test]
fn a_tag_of_an_image_selects_a_version() {
    let with = |tag: &str| {
        let image = source("OCIRepository", "c", json!({"url": "oci://r.example.com/charts/app", "ref": {"tag": tag}}));
        let owner = release(json!({"chartRef": {"kind": "OCIRepository", "name": "c"}}));
        vec![("root/x.yaml", vec![cm("x")]), ("root/a.yaml", vec![owner, image])]
    };
    let mut cluster = deployed(&with("1"), &[ABOUT, WEB, EXTRA]);
    let digest = format!("sha256:{}", "a".repeat(64));
    let latest = &mut cluster.kustomization("app").content["status"]["history"][0];
    (latest["chartVersion"], latest["ociDigest"]) = ("1+aaaaaaaaaaaa".into(), digest.clone().into());
    let spec = cluster.kustomization("c").content["spec"].clone();
    store(&mut cluster, "OCIRepository", "c", packed_chart(&[ABOUT, WEB, EXTRA]), &format!("1@{digest}"));
    cluster.kustomization("c").content["spec"] = spec;
    cluster.snapshot.objects.dedup_by(|a, b| a.id == b.id);
    cluster.snapshot.normalise();
    let about = ("Chart.yaml", "apiVersion: v2\nname: app\nversion: 2.0.0\n");
    cluster.charts = Some([("app-2.0.0".to_owned(), packed_chart(&[about, WEB]))].into());
    assert_eq!(cluster.rows(&with("2.0.0")), set(&["delete extra"]));
    assert!(reason(&cluster.plan(&with("latest"))).1.contains("cannot be read"));
    let about_patch = ("Chart.yaml", "apiVersion: v2\nname: app\nversion: 2.0.1\n");
    cluster.charts = Some([("app-2.0.1".to_owned(), packed_chart(&[about_patch, WEB]))].into());
    let refused = reason(&cluster.plan(&with("2.0"))).1;
    assert!(refused.contains("refuses its chart 2.0.1, which is not the version of the tag 2.0"), "{refused}");
    // The digest of the deployed image names the same chart.
    let pinned = |digest: &str| {
        let mut files = with("1");
        files[1].1[1]["spec"]["ref"]["digest"] = digest.into();
        files
    };
    let same = cluster.plan(&pinned(&digest));
    assert!(same.is_complete() && same.owners().iter().all(|row| row.owner.kind != "HelmRelease"), "{:?}", same.gaps());
    let other = format!("sha256:{}", "b".repeat(64));
    cluster.remote =
        Some([(format!("{}@{other} ", "oci://r.example.com/charts/app"), packed_chart(&[about, WEB]))].into());
    assert_eq!(cluster.rows(&pinned(&other)), set(&["delete extra"]));
    cluster.remote =
        Some([(format!("{}@{other} ", "oci://r.example.com/charts/app"), packed_chart(&[ABOUT, WEB]))].into());
    assert_eq!(cluster.rows(&pinned(&other)), set(&["delete extra"]), "the digest is another version");
    cluster.helm_controller.ignores_digests = true;
    cluster.kustomization("app").content["status"]["history"][0]["chartVersion"] = "1".into();
    assert_eq!(cluster.rows(&pinned(&other)), set(&[]), "the version stays");
}

#[test]
fn a_version_is_fetched_from_a_repository_of_the_cluster_only() {
    let mut cluster = deployed(&tree(spec(json!({}))), &[ABOUT, WEB, EXTRA]);
    let about = ("Chart.yaml", "apiVersion: v2\nname: app\nversion: 2.0.0\n");
    let fetched = |range: &str| {
        let chart = format!("app {range} of https://charts.example.com");
        Some([(chart, packed_chart(&[about, WEB]))].into())
    };
    cluster.remote = fetched("2.0.0");
    let exact = cluster.plan(&tree(version("2.0.0")));
    assert!(exact.is_complete(), "{:?}", exact.gaps());
    assert_eq!(cluster.rows(&tree(version("2.0.0"))), set(&["delete extra"]));
    assert!(why(&cluster, version("3.0.0")).contains("app 3.0.0 of https://charts.example.com cannot be fetched"));
    cluster.remote = fetched("2.x");
    assert_eq!(cluster.rows(&tree(version("2.x"))), set(&["delete? extra"]));
    assert_eq!(cluster.plan(&tree(version("2.x"))).gaps().len(), 1, "the range is an assumption");
    cluster.remote = fetched("2.0.0");
    let mut moved = tree(version("2.0.0"));
    moved[1].1[1]["spec"]["url"] = "https://elsewhere.example.com".into();
    let found = reason(&cluster.plan(&moved)).1;
    assert!(found.contains("the address of helmrepository.source.toolkit.fluxcd.io/charts"), "{found}");
    let mut elsewhere = version("2.0.0");
    elsewhere["chart"]["spec"]["sourceRef"]["name"] = "other".into();
    let found = why(&cluster, elsewhere);
    assert!(found.contains("/other -n flux-system of its chart is not in the cluster"), "{found}");
}
