//! Random repositories and edits of them: fluxd's dry run against our plan.

use test_support::comparison::{Table, compare, snapshot};
use test_support::random::Random;

use super::repository::{Collection, Config, paths};
use super::{cluster, repository};

const KINDS: [(&str, &str, &str); 6] = [
    ("v1", "ConfigMap", ""),
    ("v1", "Secret", ""),
    ("v1", "Service", "spec: {ports: [{port: 80}]}"),
    ("rbac.authorization.k8s.io/v1", "Role", "rules: []"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", "rules: []"),
    ("v1", "ServiceAccount", ""),
];

fn manifest(random: &mut Random, name: &str, space: &str) -> String {
    let (api, kind, rest) = KINDS[random.below(KINDS.len())];
    let namespace = match random.below(3) {
        0 if kind != "ClusterRole" => String::new(),
        _ => format!(", namespace: {space}"),
    };
    let ignore = match random.below(8) {
        0 => ", annotations: {fluxcd.io/ignore: sync_only}",
        1 => ", annotations: {flux.weave.works/ignore: 'false'}",
        2 => ", annotations: {fluxcd.io/locked: 'true'}",
        _ => "",
    };
    format!("---\napiVersion: {api}\nkind: {kind}\nmetadata: {{name: {name}{namespace}{ignore}}}\n{rest}\n")
}

/// Runs one seed; gives the number of objects that both delete.
fn case(seed: u64, table: &mut Table) -> usize {
    let mut random = Random::new(seed);
    let name = format!("f{seed}");
    let repository = repository(&name);
    cluster().kubectl(&["create", "namespace", &name]).unwrap();
    let mut files = vec![];
    for number in 0..4 + random.below(8) {
        let path = format!("{}/x{number}.yaml", random.pick(&["a", "b", "a/deep"]));
        let text: String = (0..1 + random.below(2))
            .map(|part| manifest(&mut random, &format!("{name}-x{number}-{part}"), &name))
            .collect();
        repository.write(&path, &text);
        files.push(path);
    }
    repository.write("a/keep/readme.md", "x").write("b/readme.md", "x").push();
    let configs = [&["a", "b"][..], &["b", "a"], &["a"], &[]];
    let old = Config { branch: random.pick(&["master", "main"]), ..paths(configs[random.below(4)]) };
    repository.sync(&old, Collection::Off);
    for (number, path) in files.iter().enumerate() {
        match random.below(4) {
            0 => {
                repository.remove(path);
            }
            1 => {
                repository.write(path, &manifest(&mut random, &format!("{name}-new-{number}"), &name));
            }
            _ => {}
        }
    }
    repository.push();
    let new = if random.one_in(3) { paths(configs[random.below(4)]) } else { old };
    let log = repository.sync(&new, Collection::Dry);
    let recorded = snapshot(&cluster(), &name);
    let run = repository.plan(&new, &["--allow-empty"]);
    let difference = compare(&recorded, &log.deleted_uids(&recorded), &run);
    let equal =
        difference.only_theirs.is_empty() && difference.only_ours.is_empty() && difference.unexplained.is_empty();
    assert!(equal, "seed {seed}: {difference:?}\n{}\n{run:?}", log.0);
    table.add(&format!("seed {seed}"), &difference);
    difference.both
}

#[test]
fn random_repositories() {
    let _cluster = cluster();
    Table::play(1..4, case, "fluxd-random.txt");
}

#[test]
#[ignore = "takes minutes: 30 random repositories"]
fn thirty_random_repositories() {
    let _cluster = cluster();
    Table::play(100..130, case, "fluxd-random-30.txt");
}
