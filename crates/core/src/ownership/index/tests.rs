//! Bad input and speed: whatever stands in labels, annotations and records, nothing panics and nothing is invented.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::*;
use crate::kubernetes::object::ObjectMetadata;
use crate::ownership::report::explain::Explanation;
use crate::ownership::report::{Body, InventoryFilter, InventoryReport, Question};
use crate::ownership::rules::protection::protection_keys;
use crate::ownership::{MetadataKey, OwnershipStatus, Strength};
use crate::testing::{Build, Dice, kustomization, object, snapshot};

impl Dice {
    fn pick<'t>(&mut self, from: &[&'t str]) -> &'t str {
        from[self.roll(from.len())]
    }

    fn odd(&mut self) -> String {
        let pieces = [
            "a",
            "_",
            "__",
            ":",
            "/",
            ";",
            ".",
            ",",
            "é",
            "\u{0}",
            "\u{1b}[31m",
            "$(X)",
            "%",
            "sha256.",
            "v1;",
            "[",
            "ns",
            "{",
            "-",
        ];
        (0..self.roll(9)).map(|_| self.pick(&pieces)).collect()
    }

    fn value(&mut self) -> String {
        match self.roll(6) {
            0 => String::new(),
            1 => "x".repeat(63),
            2 => "é".repeat(200),
            3 => self.pick(&["shop", "apps", "web", "Helm", "enabled", "true", "disabled"]).to_owned(),
            4 => format!("{}:{}/{}:{}/{}", self.odd(), self.odd(), self.odd(), self.odd(), self.odd()),
            _ => self.odd(),
        }
    }

    fn json(&mut self, depth: usize) -> Value {
        match self.roll(if depth == 0 { 4 } else { 7 }) {
            0 => Value::Null,
            1 => json!(self.value()),
            2 => json!(self.roll(3)),
            3 => json!(i64::MIN),
            4 => (0..self.roll(4)).map(|_| self.json(depth - 1)).collect(),
            _ => (0..self.roll(6)).map(|_| (self.field(), self.json(depth - 1))).collect(),
        }
    }

    fn field(&mut self) -> String {
        let known = [
            "spec",
            "status",
            "data",
            "conditions",
            "type",
            "inventory",
            "entries",
            "id",
            "resources",
            "kind",
            "name",
            "history",
            "release",
            "snapshot",
            "kinds",
            "template",
            "containers",
            "args",
            "destination",
            "suspend",
            "observedGeneration",
        ];
        if self.roll(8) == 0 { self.odd() } else { self.pick(&known).to_owned() }
    }
}

fn absurd(dice: &mut Dice, keys: &[MetadataKey], kinds: &[(&str, &str)], n: usize) -> ObjectMetadata {
    let (group, kind) = kinds[dice.roll(kinds.len())];
    let name = if dice.roll(3) == 0 { dice.odd() } else { format!("n{n}") };
    let mut made = object(group, kind, if dice.roll(4) == 0 { "" } else { "shop" }, &name);
    for _ in 0..dice.roll(6) {
        let (key, value) = (keys[dice.roll(keys.len())], dice.value());
        made = match key {
            MetadataKey::Label(key) => made.label(key, &value),
            MetadataKey::Annotation(key) => made.annotation(key, &value),
        };
        if dice.roll(3) == 0 {
            made = made.writer(dice.pick(&["kustomize-controller", "helm", "qbec", "x"]), key.name());
        }
    }
    match dice.roll(6) {
        0 => made.controlled_by("uid:apps/Deployment/shop/n1"),
        1 => made.referring_to("x"),
        _ => made,
    }
}

#[test]
fn absurd_clusters_never_panic_and_never_invent_a_leak() {
    let labels = SCHEMES.iter().flat_map(|scheme| scheme.owner_labels).map(|key| MetadataKey::Label(key));
    let others = SCHEMES.iter().flat_map(|scheme| scheme.other_keys).map(|key| MetadataKey::Annotation(key));
    let members = SCHEMES.iter().flat_map(|scheme| scheme.member_keys).copied();
    let protections = protection_keys().map(|known| MetadataKey::Annotation(known.key));
    let keys: Vec<MetadataKey> = labels.chain(others).chain(members).chain(protections).collect();
    let mut kinds = vec![("", "ConfigMap"), ("", "Secret"), ("apps", "Deployment"), ("", "Pod"), ("", "Endpoints")];
    kinds.extend(SCHEMES.iter().flat_map(|scheme| scheme.owner_kinds));
    for seed in 0..300 {
        let mut dice = Dice(seed);
        let objects: Vec<ObjectMetadata> = (0..40).map(|n| absurd(&mut dice, &keys, &kinds, n)).collect();
        let mut full = vec![];
        for n in 0..15 {
            let object = absurd(&mut dice, &keys, &kinds, n + 20);
            full.push(object.with_content(dice.json(6)));
        }
        let snapshot = snapshot(objects, full);
        let index = Index::build(&snapshot);
        let report = InventoryReport::new(&index, &[]);
        for (object, status) in index.statuses() {
            if let OwnershipStatus::Leaked(claim) = &status {
                assert!(index.owner(&claim.owner).is_some(), "seed {seed}: leaked from nobody");
                assert!(object.controller_reference().is_none(), "seed {seed}: a controlled object is leaked");
                assert!(index.recorded_by(&object.id).is_empty(), "seed {seed}: a recorded object is leaked");
                assert!(claim.strength < Strength::Contradicted, "seed {seed}: a contradicted claim leaks");
            }
            serde_json::to_string(&Explanation::of(&index, object)).expect("an explanation serialises");
        }
        serde_json::to_string(&report.document(Body::Tree(report.forest()), &InventoryFilter::default()))
            .expect("trees serialise");
        serde_json::to_string(&report.document(Body::Owners(report.owners()), &InventoryFilter::default()))
            .expect("owners serialise");
        for question in [Question::Leaked, Question::Orphaned, Question::Conflicts, Question::Unknown, Question::Copied]
        {
            report.findings(question, |_, _| true);
        }
    }
}

#[test]
fn values_of_63_characters_and_odd_names_are_kept_whole() {
    let long = "x".repeat(63);
    let labels = ["kustomize.toolkit.fluxcd.io/name", "kustomize.toolkit.fluxcd.io/namespace"];
    let marked = object("rbac.authorization.k8s.io", "ClusterRole", "", "system:a__b")
        .label(labels[0], &long)
        .label(labels[1], "x");
    let snapshot = snapshot(vec![marked], vec![]);
    let index = Index::build(&snapshot);
    let OwnershipStatus::Orphaned(claim) = index.status(&snapshot.objects[0]) else { panic!("not orphaned") };
    assert_eq!(claim.owner.name, long);
}

/// 100,000 objects, two thirds of them marked; run with `--release -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
#[expect(clippy::print_stderr, reason = "the figures are the result")]
fn a_hundred_thousand_objects_index_quickly() {
    let mut objects = vec![];
    let mut owners = vec![];
    for k in 0..1000 {
        let ids: Vec<String> = (0..100).map(|n| format!("ns{k}_cm-{n}__ConfigMap")).collect();
        owners.push(kustomization(&format!("k{k}"), &ids.iter().map(String::as_str).collect::<Vec<_>>()));
        for n in 0..100 {
            let plain = object("", "ConfigMap", &format!("ns{k}"), &format!("cm-{n}"))
                .label("app.kubernetes.io/name", "web")
                .label("app.kubernetes.io/instance", "web")
                .label("pod-template-hash", "abc");
            objects.push(match n % 3 {
                0 => plain,
                1 => plain.of_kustomization(&format!("k{k}")),
                _ => plain
                    .label("qbec.io/application", "shop")
                    .label("qbec.io/environment", "dev")
                    .writer("qbec", "qbec.io/application"),
            });
        }
    }
    let snapshot = snapshot(objects, owners);
    let mut best = [Duration::MAX; 3];
    for _ in 0..5 {
        let start = Instant::now();
        let index = Index::build(&snapshot);
        let built = start.elapsed();
        let leaked = index.statuses().filter(|(_, status)| matches!(status, OwnershipStatus::Leaked(_))).count();
        let classified = start.elapsed();
        InventoryReport::new(&index, &[]).owners();
        let reported = start.elapsed();
        assert_eq!(leaked, 0);
        for (best, now) in best.iter_mut().zip([built, classified, reported]) {
            *best = now.min(*best);
        }
    }
    let [built, classified, reported] = best;
    eprintln!("built {built:?}, with statuses {classified:?}, with a second pass and owners {reported:?}");
    assert!(classified < Duration::from_millis(200));
}
