//! Random applications and edits of them: qbec's dry run against our plan and against our replay of qbec.

use std::collections::BTreeMap;
use std::fmt::Write;

use test_support::comparison::{self, Table, compare};
use test_support::random::Random;

use super::{app::App, app::filters, cluster, new_app};

/// An object of a component.
#[derive(Clone, Debug)]
struct Thing {
    kind: &'static str,
    name: String,
    namespace: Option<String>,
    annotations: String,
}

const KINDS: [&str; 8] =
    ["ConfigMap", "Secret", "Service", "ServiceAccount", "Role", "ClusterRole", "Deployment", "Namespace"];

impl Thing {
    fn random(random: &mut Random, app: &str, number: usize) -> Self {
        let kind = random.pick(&KINDS);
        let cluster_scoped = matches!(kind, "ClusterRole" | "Namespace");
        let namespace = match random.below(4) {
            _ if cluster_scoped => None,
            0 | 1 => None,
            2 => Some(format!("{app}-b")),
            _ => Some(format!("{app}-c")),
        };
        let mut annotations = String::new();
        if random.one_in(6) {
            let policy = random.pick(&["never", "default"]);
            let _ = write!(annotations, "directives.qbec.io/delete-policy: {policy}, ");
        }
        if random.one_in(6) {
            let _ = write!(
                annotations,
                "directives.qbec.io/apply-order: '{}', ",
                random.pick(&["5", "45", "200", "0", "-1"])
            );
        }
        let name = if cluster_scoped { format!("{app}-x{number}") } else { format!("x{number}") };
        Self { kind, name, namespace, annotations }
    }

    fn yaml(&self) -> String {
        let Self { kind, name, annotations, .. } = self;
        let namespace =
            self.namespace.as_ref().map(|namespace| format!(", namespace: {namespace}")).unwrap_or_default();
        let (api, rest) = match *kind {
            "Role" | "ClusterRole" => ("rbac.authorization.k8s.io/v1", "rules: []"),
            "Service" => ("v1", "spec: {ports: [{port: 80}]}"),
            "Deployment" => (
                "apps/v1",
                "spec: {replicas: 0, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, \
                 spec: {containers: [{name: a, image: b}]}}}",
            ),
            _ => ("v1", ""),
        };
        format!(
            "---\napiVersion: {api}\nkind: {kind}\nmetadata: {{name: {name}{namespace}, annotations: {{{annotations}}}}}\n{rest}\n"
        )
    }
}

type Components = BTreeMap<String, Vec<Thing>>;

fn write(app: &App, components: &Components, old: Option<&Components>) {
    for name in old.into_iter().flat_map(BTreeMap::keys).filter(|name| !components.contains_key(*name)) {
        app.remove(name);
    }
    for (name, things) in components {
        app.component(name, &things.iter().map(Thing::yaml).collect::<String>());
    }
}

fn generate(random: &mut Random, app: &str) -> Components {
    let mut number = 0;
    let mut components = Components::new();
    for component in 0..2 + random.below(4) {
        let things = (0..1 + random.below(4)).map(|_| {
            number += 1;
            Thing::random(random, app, number)
        });
        components.insert(format!("c{component}"), things.collect());
    }
    components
}

/// Components go, objects go, move to another namespace or get another name.
fn edit(random: &mut Random, components: &Components, app: &str) -> Components {
    let mut edited = components.clone();
    edited.retain(|_, _| !random.one_in(4));
    for things in edited.values_mut() {
        things.retain(|_| !random.one_in(3));
        for thing in things.iter_mut() {
            if thing.namespace.is_some() && random.one_in(4) {
                thing.namespace = random.one_in(2).then(|| format!("{app}-b"));
            } else if random.one_in(6) {
                thing.name.push_str("-new");
            }
        }
    }
    edited.retain(|_, things| !things.is_empty());
    edited
}

/// Runs one seed; gives the number of objects that both delete.
fn case(seed: u64, table: &mut Table) -> usize {
    let mut random = Random::new(seed);
    let name = format!("r{seed}");
    let app = new_app(&name);
    let spaces =
        ["b", "c"].map(|space| format!("---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}-{space}}}\n"));
    cluster().kubectl_stdin(&["create", "-f", "-"], &spaces.concat()).unwrap();
    app.apply(&["-c", "ns"]);
    let components = generate(&mut random, &name);
    write(&app, &components, None);
    app.apply(&[]);
    let edited = edit(&mut random, &components, &name);
    write(&app, &edited, Some(&components));
    if random.one_in(3) {
        app.remove("ns");
    }
    let everywhere = random.one_in(4);
    if everywhere {
        app.configure("  clusterScopedLists: true\n");
    }
    // A filter that matches nothing is an error of ours, so only what is there is filtered.
    let component = edited.keys().next().cloned().filter(|_| random.one_in(4));
    let kind = (component.is_none() && random.one_in(4))
        .then(|| random.pick(&["configmaps", "ClusterRole", "Secrets"]).to_owned());
    let exclude = random.one_in(2);
    let mut theirs: Vec<&str> = vec![];
    let mut ours: Vec<&str> = if everywhere { vec!["--cluster-scoped-lists"] } else { vec![] };
    if let Some(component) = &component {
        theirs.extend([if exclude { "-C" } else { "-c" }, component]);
        ours.extend([if exclude { "--exclude-component" } else { "--component" }, component]);
    }
    if let Some(kind) = &kind {
        theirs.extend([if exclude { "-K" } else { "-k" }, kind]);
        ours.extend([if exclude { "--exclude-kind" } else { "--kind" }, kind]);
    }
    ours.push("--allow-empty");
    let snapshot = comparison::snapshot(&cluster(), &name);
    let real = app.dry_run(&snapshot, &theirs);
    let split = |item: &Option<String>| {
        let list: Vec<String> = item.iter().cloned().collect();
        if exclude { (vec![], list) } else { (list, vec![]) }
    };
    let (components, kinds) = (split(&component), split(&kind));
    let chosen = filters((&components.0, &components.1), (&kinds.0, &kinds.1), &[]);
    assert_eq!(app.replay(&snapshot, chosen, everywhere), real, "seed {seed}: our replay of qbec differs from qbec");
    let difference = compare(&snapshot, &real, &app.plan(&ours));
    let explained = difference.only_theirs.values().all(|why| why.starts_with("cascade"));
    assert!(explained, "seed {seed}: {difference:?}");
    // qbec spares a namespace only when it meets the protected object first; its content is deleted with it by both.
    assert!(difference.only_ours.is_empty() && difference.unexplained.is_empty(), "seed {seed}: {difference:?}");
    table.add(&format!("seed {seed}"), &difference);
    difference.both
}

#[test]
fn random_applications() {
    let _cluster = cluster();
    Table::play(1..6, case, "qbec-random.txt");
}

#[test]
#[ignore = "takes minutes: 100 random applications"]
fn a_hundred_random_applications() {
    let _cluster = cluster();
    Table::play(100..200, case, "qbec-random-100.txt");
}
