//! Objects that many Kustomizations build.

use std::time::{Duration, Instant};

use super::*;

/// Kustomizations of which each builds the Namespace `shared`, if the function says so, and a ConfigMap.
fn fleet(count: usize, builds: impl Fn(usize) -> bool) -> Files {
    let mut files: Files = vec![];
    for number in 0..count {
        let name = format!("k{number}");
        let own = [cm(&format!("own{number}")), cluster_scoped("Namespace", "shared")];
        let own = own[..if builds(number) { 2 } else { 1 }].to_vec();
        files.push((format!("root/{name}.yaml").leak(), vec![ks(&name, &format!("./{name}"), json!({}))]));
        files.push((format!("{name}/a.yaml").leak(), own));
    }
    files
}

/// The cluster after all of them applied it; the labels name the Kustomization with this number.
fn cluster(count: usize, owner: usize) -> TestCluster {
    let mut cluster = TestCluster::new(&fleet(count, |_| true));
    let mut is_first = true;
    cluster.snapshot.objects.retain(|object| &*object.id.name != "shared" || std::mem::take(&mut is_first));
    let name = format!("k{owner}");
    cluster.object("shared").labels = [(NAME, name.as_str()), (NAMESPACE, NS)].into_iter().collect();
    cluster.snapshot.normalise();
    cluster
}

#[test]
fn one_of_many_that_drops_a_shared_object_is_answered_at_once() {
    // All apply it at each interval. The one that drops it prunes it if it was the last one that applied it.
    for count in [2, 3, 4, 60] {
        let begin = Instant::now();
        for owner in [0, 1] {
            let rows = cluster(count, owner).rows(&fleet(count, |number| number > 0));
            assert_eq!(rows, set(&["recreate? shared"]), "{count} {owner}");
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "{count}: {:?}", begin.elapsed());
    }
}

#[test]
fn an_object_that_all_of_many_drop_is_deleted_and_one_that_nobody_drops_stays() {
    for count in [2, 40] {
        assert_eq!(cluster(count, 1).rows(&fleet(count, |_| false)), set(&["delete shared"]), "{count}");
        assert_eq!(cluster(count, 1).rows(&fleet(count, |_| true)), set(&[]), "{count}");
    }
}

#[test]
fn half_of_many_drop_a_shared_object() {
    let rows = |owner: usize| cluster(40, owner).rows(&fleet(40, |number| number % 2 == 0));
    assert_eq!(rows(0), set(&["recreate? shared"]));
    assert_eq!(rows(1), set(&["recreate? shared"]));
}

#[test]
fn more_orders_than_the_limits_allow_are_a_gap() {
    // Each of twelve may or may not reconcile with its old spec first, and prunes the object after that.
    let files = |moved: bool| {
        let mut files: Files = vec![];
        for number in 0..12 {
            let name = format!("k{number}");
            let path = format!("./{}{number}", if moved { "new" } else { "old" });
            files.push((format!("root/{name}.yaml").leak(), vec![ks(&name, &path, json!({}))]));
            files.push((format!("old{number}/a.yaml").leak(), vec![cluster_scoped("Namespace", "shared")]));
            files.push((format!("new{number}/a.yaml").leak(), vec![cm(&format!("own{number}"))]));
        }
        files
    };
    let mut cluster = TestCluster::new(&files(false));
    let mut is_first = true;
    cluster.snapshot.objects.retain(|object| &*object.id.name != "shared" || std::mem::take(&mut is_first));
    cluster.snapshot.normalise();
    cluster.workers = 1;
    let plan = cluster.plan(&files(true));
    let gaps: Vec<String> = plan.gaps().iter().map(|gap| format!("{}: {}", gap.subject, gap.message)).collect();
    let message = "namespace/shared: it is changed by 12 Kustomizations, in more possible orders than can be explored";
    assert_eq!(gaps, [message]);
    let row = plan.changes().iter().find(|change| &*change.object.id.name == "shared").unwrap();
    assert_eq!(row.certainty, crate::plan::Certainty::Race);
}

#[test]
fn a_suspended_owner_does_not_take_a_shared_object_back() {
    let fleet = |shared: bool| -> Files {
        let mut files = fleet(2, |number| shared || number == 1);
        let suspended = files.iter_mut().find(|(path, _)| *path == "root/k1.yaml").unwrap();
        suspended.1 = vec![ks("k1", "./k1", json!({"suspend": true}))];
        files
    };
    let rows = |owner: &str| {
        let mut cluster = TestCluster::new(&fleet(true));
        let mut is_first = true;
        cluster.snapshot.objects.retain(|object| &*object.id.name != "shared" || std::mem::take(&mut is_first));
        cluster.object("shared").labels = [(NAME, owner), (NAMESPACE, NS)].into_iter().collect();
        cluster.snapshot.normalise();
        cluster.rows(&fleet(false))
    };
    assert_eq!(rows("k0"), set(&["delete shared"]));
    assert_eq!(rows("k1"), set(&["delete? shared"]), "k0 may apply it once more before the change");
}
