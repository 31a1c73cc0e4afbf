//! Many Kustomizations that apply one object and depend on each other: the time of a plan must not grow with their cube.

use std::time::{Duration, Instant};

use super::*;

/// Returns files with a number of Kustomizations of one object, each of which depends on five others.
fn files(number: usize) -> Files {
    let mut children = vec![];
    for at in 0..number {
        let depends: Vec<Value> = (1..=5).filter(|back| *back <= at).map(|back| json!({"name": format!("k{}", at - back)})).collect();
        children.push(ks(&format!("k{at}"), "./p", json!({ "dependsOn": depends })));
    }
    vec![("root/k.yaml", children), ("p/a.yaml", vec![cm("a"), cm("b")])]
}

fn time_of_plan(number: usize) -> Duration {
    let cluster = TestCluster::new(&files(number));
    let mut after = files(number);
    after[1].1 = vec![cm("b")];
    let started = Instant::now();
    let plan = cluster.plan(&after);
    assert!(plan.changes().iter().any(|change| &*change.object.id.name == "a"), "{:?}", plan.changes());
    started.elapsed()
}

#[test]
fn the_time_of_a_plan_does_not_grow_with_the_cube_of_the_owners() {
    let [few, many] = [50, 150].map(time_of_plan);
    eprintln!("{few:?} {many:?}");
    assert!(many < few * 27, "{few:?} {many:?}");
}
