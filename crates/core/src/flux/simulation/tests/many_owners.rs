//! Many Kustomizations that apply one object and depend on each other: the time of a plan must not grow with their cube.

use std::time::{Duration, Instant};

use super::*;

/// Returns files with a number of Kustomizations of one object, each of which depends on five others.
fn files(number: usize, objects: &[&str]) -> Files {
    let mut children = vec![];
    for at in 0..number {
        let others = (1..=5).filter(|back| *back <= at);
        let depends: Vec<Value> = others.map(|back| json!({"name": format!("k{}", at - back)})).collect();
        children.push(ks(&format!("k{at}"), "./p", json!({ "dependsOn": depends })));
    }
    vec![("root/k.yaml", children), ("p/a.yaml", objects.iter().map(|name| cm(name)).collect())]
}

/// Returns files with a number of Kustomizations of an object each, of which each waits for the one before it.
fn chain(number: usize, objects: &[&str]) -> Files {
    let mut files: Files = vec![("p/a.yaml", objects.iter().map(|name| cm(name)).collect())];
    let mut children = vec![ks("k0", "./p", json!({}))];
    for at in 1..number {
        let path = format!("apps/k{at}/a.yaml").leak();
        files.push((path, vec![cm(&format!("c{at}"))]));
        let depends = json!([{"name": format!("k{}", at - 1)}]);
        children.push(ks(&format!("k{at}"), &format!("./apps/k{at}"), json!({ "dependsOn": depends })));
    }
    files.push(("root/k.yaml", children));
    files
}

fn time_of_plan(number: usize, files: impl Fn(usize, &[&str]) -> Files) -> Duration {
    let cluster = TestCluster::new(&files(number, &["a"]));
    let after = files(number, &["a", "new"]);
    let times = (0..2).map(|_| {
        let started = Instant::now();
        let plan = cluster.plan(&after);
        assert!(plan.changes().iter().any(|change| &*change.object.id.name == "new"), "{:?}", plan.changes());
        started.elapsed()
    });
    times.min().unwrap_or_default()
}

#[test]
fn the_time_of_a_plan_does_not_grow_with_the_cube_of_the_owners() {
    let [few, many] = [15, 60].map(|number| time_of_plan(number, files));
    assert!(many < few * 64, "15 take {few:?}, and 60 take {many:?}");
}

#[test]
fn the_time_of_a_plan_does_not_grow_with_the_square_of_the_kustomizations() {
    let number = std::env::var("GROW").ok().and_then(|n| n.parse().ok()).unwrap_or(800);
    let [few, many] = [number / 4, number].map(|number| time_of_plan(number, chain));
    assert!(many < few * 9, "{few:?} {many:?}");
    eprintln!("{few:?} {many:?}");
}
