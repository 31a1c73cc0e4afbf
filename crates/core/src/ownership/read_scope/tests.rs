//! The answer of a narrow reading is the answer of the whole cluster: over thousands of clusters made at random from the
//! marks of every system, mixed on the same objects.

use serde_json::{Value, json};

use super::*;
use crate::kubernetes::object::Resource;
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::index::sources_to_read;
use crate::ownership::report::{InventoryReport, Question};
use crate::ownership::schemes::registry::SYSTEMS;
use crate::ownership::schemes::{applyset, flux_v1, qbec};
use crate::testing::{Build, Dice, object, resource_type, snapshot};

const KINDS: [(&str, &str); 4] = [("", "ConfigMap"), ("", "Secret"), ("apps", "Deployment"), ("example.com", "Widget")];
const KS: &str = "kustomize.toolkit.fluxcd.io";
const HR: &str = "helm.toolkit.fluxcd.io";
const WHERE: &str = "https://h/deploy";

fn ready(mut content: Value) -> Value {
    content["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    content
}

fn inventory(dice: &mut Dice, objects: &[ObjectMetadata]) -> Value {
    let kept: Vec<&ObjectMetadata> = objects.iter().filter(|_| dice.one_in(3)).collect();
    let ids = kept.iter().map(|object| crate::ownership::schemes::inventory_id::format(&object.id));
    ready(json!({"status": {"inventory": {"entries": ids.map(|id| json!({"id": id, "v": "v1"})).collect::<Vec<_>>()}}}))
}

fn source() -> flux_v1::GitSource {
    flux_v1::GitSource { url: WHERE.to_owned(), branch: "master".to_owned(), paths: vec![] }
}

/// An object with the marks of some systems, right and wrong ones.
fn marked(dice: &mut Dice, n: usize) -> ObjectMetadata {
    let (group, kind) = KINDS[dice.roll(4)];
    let mut made = object(group, kind, "shop", &format!("o{n}"));
    let id = made.id.clone();
    if dice.one_in(3) {
        let name = if dice.one_in(3) { "gone" } else { "apps" };
        made = made.label(&format!("{KS}/name"), name).label(&format!("{KS}/namespace"), "flux-system");
        made = made.writer(if dice.one_in(4) { "other" } else { "kustomize-controller" }, &format!("{KS}/name"));
    }
    if dice.one_in(5) {
        made = made.label(&format!("{HR}/name"), "podinfo").label(&format!("{HR}/namespace"), "shop");
        made = made.writer("helm-controller", &format!("{HR}/name"));
    }
    if dice.one_in(4) {
        let release = ["podinfo", "plain", "gone"][dice.roll(3)];
        made = made.label("app.kubernetes.io/managed-by", "Helm").annotation("meta.helm.sh/release-name", release);
        made = made.annotation("meta.helm.sh/release-namespace", "shop").writer("helm", "meta.helm.sh/release-name");
    }
    if dice.one_in(4) {
        let named = if dice.one_in(3) { "another".into() } else { id.name.clone() };
        made = made.label("kapp.k14s.io/app", if dice.one_in(3) { "9" } else { "1600" });
        made = made.annotation("kapp.k14s.io/identity", &format!("v1;shop/{group}/{kind}/{named};v1"));
    }
    if dice.one_in(4) {
        made = made.label("qbec.io/environment", "dev");
        made = if dice.one_in(4) { made } else { made.label("qbec.io/application", "shop") };
        let named = if dice.one_in(3) { "another".into() } else { id.name.clone() };
        made = made.annotation(qbec::LAST_APPLIED, &format!("{group}/{kind}/shop/{named}"));
    }
    if dice.one_in(12) {
        let parent = if dice.one_in(2) { parent().id } else { ObjectId::new("", "Secret", "shop", "gone") };
        made = made.label("applyset.kubernetes.io/part-of", &applyset::id_of(&parent));
    }
    if dice.one_in(12) {
        let of = if dice.one_in(2) { id.clone() } else { ObjectId::new("", "ConfigMap", "shop", "copied") };
        let set = if dice.one_in(2) { source().sync_set() } else { "another".to_owned() };
        let key = if dice.one_in(3) { flux_v1::LEGACY_MARK } else { flux_v1::MARK };
        made = made.label(key, &flux_v1::mark(&set, &flux_v1::resource_id(&of)));
    }
    if dice.one_in(6) {
        let tracking = format!("web:{group}/{kind}:shop/o{n}");
        made = made.annotation("argocd.argoproj.io/tracking-id", &tracking);
    }
    if dice.one_in(6) {
        made = made.annotation("config.k8s.io/owning-inventory", "inv").writer("kpt", "config.k8s.io/owning-inventory");
    }
    if dice.one_in(8) { made.controlled_by("uid:apps/ReplicaSet/shop/x") } else { made }
}

/// An ApplySet parent of a kind that no one expects.
fn parent() -> ObjectMetadata {
    let plain = object("example.com", "Widget", "shop", "set");
    let id = applyset::id_of(&plain.id);
    plain.label("applyset.kubernetes.io/id", &id)
}

fn cluster(dice: &mut Dice) -> Snapshot {
    let mut objects: Vec<ObjectMetadata> = (0..12).map(|n| marked(dice, n)).collect();
    let apps = object(KS, "Kustomization", "flux-system", "apps").with_content(inventory(dice, &objects));
    let podinfo = object(HR, "HelmRelease", "shop", "podinfo").with_content(inventory(dice, &objects));
    let record = json!({"labelKey": "kapp.k14s.io/app", "labelValue": "1600"}).to_string();
    let kapp = object("", "ConfigMap", "shop", "kapp").label("kapp.k14s.io/is-app", "");
    let kapp = kapp.with_content(json!({"data": {"spec": record}}));
    let kpt = object("", "ConfigMap", "shop", "kpt").label("cli-utils.sigs.k8s.io/inventory-id", "inv");
    let kpt = kpt.with_content(json!({"data": {"shop_o1__ConfigMap": ""}}));
    let application = object("argoproj.io", "Application", "argocd", "web");
    let application = application
        .with_content(json!({"status": {"resources": [{"kind": "Secret", "namespace": "shop", "name": "o2"}]}}));
    let fluxd = object("apps", "Deployment", "flux", "fluxd")
        .with_content(json!({"spec": {"template": {"spec": {"containers": [
        {"args": [format!("--git-url={WHERE}")]}]}}}}));
    let full: Vec<Resource> = vec![apps, podinfo, kapp, kpt, application, fluxd];
    objects.extend(full.iter().filter(|_| !dice.one_in(6)).map(|full| full.object.clone()));
    let release = object("", "Secret", "shop", "sh.helm.release.v1.plain.v1");
    objects.push(release.label("owner", "helm").label("status", "deployed"));
    objects.push(parent());
    objects.push(object("", "Namespace", "", "shop"));
    let mut made = snapshot(objects, full);
    read_sources(&mut made);
    made.types = KINDS.iter().map(|(group, kind)| resource_type(group, kind, &kind.to_lowercase(), true)).collect();
    made
}

/// Returns the part of a cluster that a scope reads.
fn read(whole: &Snapshot, reading: &ReadScope) -> Snapshot {
    let mut narrow = whole.clone();
    narrow.objects.retain(|object| {
        let listed = |selector: &str| Selector::parse(selector).unwrap().matches(&object.labels);
        owns(&object.id) || reading.selectors(&object.id.group, &object.id.kind).into_iter().any(listed)
    });
    read_sources(&mut narrow);
    narrow
}

fn owns(id: &ObjectId) -> bool {
    SCHEMES.iter().any(|scheme| scheme.owner_kinds.iter().any(|(group, kind)| id.is(group, kind)))
}

/// Leaves the content of those objects that are read in full.
fn read_sources(made: &mut Snapshot) {
    let sources = sources_to_read(made);
    let source = |id: &ObjectId| sources.iter().any(|source| id.is(source.group, source.kind));
    let there: BTreeSet<ObjectId> = made.objects.iter().map(|object| object.id.clone()).collect();
    made.resources.retain(|full| there.contains(&full.object.id) && (owns(&full.object.id) || source(&full.object.id)));
}

/// Every row of the answers about the owners in question.
fn answer(snapshot: &Snapshot, wanted: &dyn Fn(&OwnerId) -> bool) -> BTreeSet<String> {
    let index = Index::build(snapshot);
    let views = InventoryReport::new(&index, &[]);
    let mut rows = BTreeSet::new();
    for owner in index.owners().filter(|owner| wanted(&owner.id)) {
        rows.insert(json!(views.summary(owner)).to_string());
        rows.extend(views.objects(owner).iter().map(|row| format!("{} {}", owner.id, json!(row))));
    }
    for question in [Question::Leaked, Question::Orphaned, Question::Conflicts, Question::Copied, Question::Unknown] {
        let findings = views.findings(question, |_, owners| owners.iter().any(wanted));
        rows.extend(findings.iter().map(|row| json!(row).to_string()));
    }
    rows
}

#[test]
fn the_answer_is_that_of_the_whole_cluster() {
    let mut dice = Dice(7);
    let (mut sure, mut doubted, mut doubted_rightly) = (0, 0, 0);
    let mut spared = 0;
    for round in 0..300 {
        let whole = cluster(&mut dice);
        let index = Index::build(&whole);
        let systems = SYSTEMS.iter().filter_map(|system| Some((Some(*system), ReadScope::of_system(system)?)));
        let owners = index.owners().filter_map(|owner| Some((None, ReadScope::of_owner(owner)?)));
        for (system, reading) in systems.chain(owners) {
            let wanted = |id: &OwnerId| match &reading.owner {
                Some(owner) => owner == id,
                None => system == Some(id.system.as_str()),
            };
            let narrow = read(&whole, &reading);
            let (few, all) = (answer(&narrow, &wanted), answer(&whole, &wanted));
            let same = few == all;
            if reading.is_in_doubt(&Index::build(&narrow)) {
                doubted += 1;
                doubted_rightly += usize::from(!same);
                continue;
            }
            sure += 1;
            spared += whole.objects.len() - narrow.objects.len();
            let only: Vec<_> = few.symmetric_difference(&all).collect();
            assert!(same, "round {round}, {}: {only:#?}", reading.describe());
        }
    }
    assert!(sure > 500 && spared > sure && doubted > 100, "{sure} sure, {doubted} in doubt, {spared} objects spared");
    assert!(doubted_rightly > 0, "the doubt is needed");
}

#[test]
fn systems_of_which_less_can_be_read() {
    let narrow: Vec<&str> = SYSTEMS.iter().copied().filter(|system| ReadScope::of_system(system).is_some()).collect();
    assert_eq!(narrow, ["flux-v1", "qbec", "helm", "kapp", "kluctl"]);
    let kapp = ReadScope::of_system("kapp").unwrap();
    assert_eq!(kapp.selectors("apps", "StatefulSet"), ["kapp.k14s.io/app"]);
    assert_eq!(kapp.selectors("", "ConfigMap"), [""], "records of four systems: one list is cheaper");
    assert_eq!(kapp.selectors("apps", "Deployment"), ["kapp.k14s.io/app"], "fluxd matters to marks of Flux v1 only");
    let v1 = ReadScope::of_system("flux-v1").unwrap();
    assert_eq!(v1.selectors("apps", "Deployment"), [""]);
    let marks = ["!fluxcd.io/sync-gc-mark,flux.weave.works/sync-gc-mark", "fluxcd.io/sync-gc-mark"];
    assert_eq!(v1.selectors("", "Service"), marks);
}

#[test]
fn an_owner_whose_name_no_label_can_hold_needs_everything() {
    for (name, narrow) in [("a".repeat(63), true), ("a".repeat(64), false)] {
        let full = object(KS, "Kustomization", "flux-system", &name);
        let made = snapshot(
            vec![full.clone()],
            vec![full.with_content(ready(json!({"status": {"inventory": {"entries": []}}})))],
        );
        let index = Index::build(&made);
        let reading = ReadScope::of_owner(index.owners().next().unwrap());
        assert_eq!(reading.is_some(), narrow, "{}", name.len());
    }
}
