//! Services to which the change gives the same port or address: only the first one gets it.

use super::changed_rules::refused;
use super::*;
use crate::flux::apply::dry_run::DryRunResult;
use crate::testing::resource_type;

fn service(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": NS}, "spec": spec})
}

fn on_port(name: &str, port: u16) -> Value {
    service(name, json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]}))
}

fn at(name: &str, address: &str) -> Value {
    service(name, json!({"clusterIP": address, "ports": [{"port": 80}]}))
}

/// The Kustomizations `a` and `b` with these specs and objects. Both lose a ConfigMap.
fn pair([a, b]: [Value; 2], own: [Vec<Value>; 2]) -> Files {
    let [first, second] = own;
    vec![
        ("root/k.yaml", vec![ks("a", "./a", a), ks("b", "./b", b)]),
        ("a/a.yaml", [vec![cm("of-a")], first].concat()),
        ("b/b.yaml", [vec![cm("of-b")], second].concat()),
    ]
}

/// Returns `ACTION NAME` for each row, with a `?` for a race.
fn all_rows(cluster: &TestCluster, files: &Files) -> BTreeSet<String> {
    let plan = cluster.plan(files);
    let row = |change: &crate::plan::Change| {
        let race = if change.certainty == Certainty::Race { "?" } else { "" };
        format!("{}{race} {}", change.action, change.object.id.name)
    };
    plan.changes().iter().map(row).collect()
}

fn cluster_of(files: &Files) -> TestCluster {
    let mut cluster = TestCluster::new(files);
    cluster.snapshot.types.push(resource_type("", "Service", "services", true));
    // A refusal elsewhere lets the tests tell changes from objects that stay as they are.
    cluster.refusals = vec![refused("other", &cm("z"), &Value::Null, "no")];
    cluster.snapshot.normalise();
    cluster
}

#[test]
fn who_is_applied_first_gets_a_port_or_an_address() {
    let none = || json!({});
    let before = |[a, b]: [Value; 2]| pair([a, b], [vec![cm("x"), on_port("old", 31000)], vec![cm("y")]]);
    let [after_a, after_b] = ["a", "b"].map(|name| json!({"dependsOn": [{"name": name}]}));
    let changed = || [vec![on_port("old", 31001)], vec![on_port("new", 31001)]];
    let rows =
        |specs: [Value; 2], own: [Vec<Value>; 2]| all_rows(&cluster_of(&before(specs.clone())), &pair(specs, own));
    let races = set(&["create? new", "delete? x", "delete? y", "update? old"]);
    assert_eq!(rows([none(), none()], changed()), races);
    let found = rows([none(), after_a.clone()], changed());
    assert_eq!(found, set(&["delete x", "keep y", "unknown new", "update old"]));
    let found = rows([after_b, none()], changed());
    assert_eq!(found, set(&["create new", "delete y", "keep old", "keep x"]));

    let two = |own: fn(&str) -> Value| [vec![on_port("old", 31000), own("one")], vec![own("two")]];
    let ports = two(|name| on_port(name, 31001));
    assert_eq!(rows([none(), none()], ports), set(&["create? one", "create? two", "delete? x", "delete? y"]));
    let addresses = || two(|name| at(name, "10.0.0.9"));
    assert_eq!(rows([none(), none()], addresses()), set(&["create? one", "create? two", "delete? x", "delete? y"]));
    let [first, second] = addresses();
    let beside = [first, [second, vec![cm("beside")]].concat()];
    let found = rows([none(), after_a], beside);
    let late = set(&["create beside", "create one", "delete x", "keep y", "unknown two"]);
    assert_eq!(found, late, "no dry-run looks for an address");
    let others = [vec![on_port("old", 31000), on_port("one", 31001)], vec![on_port("two", 31002)]];
    assert_eq!(rows([none(), none()], others), set(&["create one", "create two", "delete x", "delete y"]));
}

#[test]
fn a_build_gives_a_port_or_an_address_once() {
    let files = |own: Vec<Value>| pair([json!({}), json!({})], [own, vec![]]);
    let rows = |old: Value, own: Vec<Value>| all_rows(&cluster_of(&files(vec![cm("x"), old])), &files(own));
    let [m, m_changed] = [31000, 31001].map(|port| on_port("m", port));
    let second = rows(m.clone(), vec![m_changed.clone(), on_port("z", 31001)]);
    assert_eq!(second, set(&["keep x", "unknown z", "update m"]));
    assert_eq!(rows(m.clone(), vec![m_changed, on_port("b", 31001)]), set(&["create b", "keep m", "keep x"]));
    let two = rows(m.clone(), vec![m.clone(), at("y", "10.0.0.9"), at("z", "10.0.0.9")]);
    assert!(two.is_superset(&set(&["create y", "keep x"])) && !two.contains("create z"), "{two:?}");
    let checked = |name: &str| {
        let ports = json!([{"port": 80, "nodePort": 0}]);
        let spec = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 31005, "ports": ports});
        service(name, spec)
    };
    let two = rows(m.clone(), vec![m.clone(), checked("y"), on_port("z", 31005)]);
    assert!(two.is_superset(&set(&["create y", "keep x"])) && !two.contains("create z"), "{two:?}");
    assert_eq!(rows(m.clone(), vec![m, on_port("z", 20000)]), set(&["create? z", "delete? x"]));
}

#[test]
fn a_forced_service_goes_if_another_one_gets_its_port() {
    let force = || json!({"force": true});
    let none = || json!({});
    let rows = |specs: [Value; 2], before: [Vec<Value>; 2], own: [Vec<Value>; 2]| {
        all_rows(&cluster_of(&pair(specs.clone(), before)), &pair(specs, own))
    };
    let old = || on_port("two", 31000);
    let own = || [vec![on_port("one", 31001), on_port("two", 31001)], vec![]];
    let before = || [vec![cm("x"), old()], vec![]];
    assert_eq!(rows([force(), none()], before(), own()), set(&["create one", "delete two", "keep x"]));
    assert_eq!(rows([none(), none()], before(), own()), set(&["create one", "keep two", "keep x"]));
    let later = json!({"force": true, "dependsOn": [{"name": "a"}]});
    let found = rows(
        [none(), later],
        [vec![cm("y")], vec![cm("x"), old()]],
        [vec![on_port("one", 31001)], vec![on_port("two", 31001)]],
    );
    assert_eq!(found, set(&["create one", "delete two", "delete y", "keep x"]));
}

#[test]
fn an_address_that_a_live_service_has_is_refused_to_one_that_had_none() {
    let name = service("s", json!({"type": "ExternalName", "externalName": "example.com"}));
    let files = |own: Vec<Value>| pair([json!({}), json!({})], [own, vec![]]);
    let mut cluster = cluster_of(&files(vec![cm("x"), name]));
    let after = files(vec![at("s", "10.0.0.9")]);
    assert_eq!(all_rows(&cluster, &after), set(&["delete x", "update s"]));
    cluster.add(&at("lone", "10.0.0.9"), None);
    cluster.snapshot.normalise();
    assert_eq!(all_rows(&cluster, &after), set(&["keep s", "keep x"]));
}

#[test]
fn a_port_for_health_checks_is_refused_as_a_node_port_is() {
    let message = "Internal error occurred: failed to allocate requested HealthCheck NodePort 31005: provided port is already allocated";
    let error = crate::flux::apply::dry_run::ApplyError { code: Some(500), message, has_controllers_rights: true };
    assert_eq!(error.result(), Some(DryRunResult::Refused(message.to_owned())));
}

#[test]
fn a_set_and_a_kustomization_race_for_a_port() {
    let files = |of_set: Vec<Value>, own: Vec<Value>| {
        let resources = json!([vec![cm("a")], of_set].concat());
        let set = super::resource_sets::tenants(&["t"], resources);
        vec![("root/a.yaml", vec![set, ks("b", "./b", json!({}))]), ("b/b.yaml", [vec![cm("of-b")], own].concat())]
    };
    let mut cluster = super::resource_sets::cluster(&files(vec![], vec![cm("y")]));
    cluster.snapshot.types.push(resource_type("", "Service", "services", true));
    cluster.snapshot.normalise();
    let rows = |port: u16| {
        let found = all_rows(&cluster, &files(vec![on_port("one", 31001)], vec![on_port("two", port)]));
        found.into_iter().filter(|row| !row.ends_with(" tenants")).collect::<BTreeSet<_>>()
    };
    assert_eq!(rows(31001), set(&["create? one", "create? two", "delete? y"]));
    assert_eq!(rows(31002), set(&["create one", "create two", "delete y"]));
}
