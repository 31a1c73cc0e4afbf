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

fn time_of_plan(number: usize) -> Duration {
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
    let [few, many] = [15, 60].map(time_of_plan);
    assert!(many < few * 64, "15 take {few:?}, and 60 take {many:?}");
}

/// Returns files with a chain of Kustomizations, each of which depends on the one before.
fn chain(number: usize, object: &str) -> Files {
    let children = (0..number).map(|at| {
        let depends: Vec<Value> =
            at.checked_sub(1).map(|last| json!({"name": format!("k{last}")})).into_iter().collect();
        ks(&format!("k{at}"), &format!("./p{at}"), json!({ "dependsOn": depends }))
    });
    let paths = (0..number).map(|at| (&*format!("p{at}/a.yaml").leak(), vec![cm(&format!("{object}{at}"))]));
    [("root/k.yaml", children.collect())].into_iter().chain(paths).collect()
}

#[test]
fn a_long_chain_of_dependencies_is_planned_to_its_end() {
    let [few, many] = [15, 60].map(|number| {
        let cluster = TestCluster::new(&chain(number, "a"));
        // Other tests run beside this one.
        let times = (0..2).map(|_| {
            let started = Instant::now();
            let plan = cluster.plan(&chain(number, "new"));
            assert!(plan.is_complete(), "{:?}", plan.gaps());
            assert_eq!(plan.changes().iter().filter(|change| change.action == Action::Delete).count(), number);
            started.elapsed()
        });
        times.min().unwrap_or_default()
    });
    assert!(many < few * 64, "15 take {few:?}, and 60 take {many:?}");
}
