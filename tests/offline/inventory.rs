//! Answers of `inventory` for a recorded cluster, and its errors.

use gitops_core::kubernetes::object::{ObjectId, ObjectMetadata, Resource};
use insta::assert_snapshot;
use kubectl_gitops::tools::snapshot_file;
use serde_json::{Value, json};
use test_support::fake_api::Answer;
use test_support::folder::{Folder, folder};
use test_support::gitops::{Run, Transcript, command};
use test_support::objects::{Build, identified, snapshot};

/// Asks the cluster that ships with the project.
fn ask(args: &[&str]) -> Run {
    ask_of("examples/shop.json.gz", args)
}

fn ask_of(file: &str, args: &[&str]) -> Run {
    Run::of(command(&["inventory", "--snapshot", file]).args(args)).without_age()
}

fn transcript(rows: &[&[&str]]) -> Transcript {
    let mut transcript = Transcript::default();
    for args in rows {
        transcript.add(&args.join(" "), &ask(args));
    }
    transcript
}

fn shop(args: &[&str]) -> Value {
    let run = ask(&[args, &["-o", "json"]].concat());
    serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{run:?}"))
}

#[test]
fn a_filter_hides_rows_and_says_how_many_and_changes_no_count() {
    let whole = shop(&[]);
    let answer = shop(&["--kind", "deploy"]);
    assert_eq!(answer["totals"], whole["totals"], "everything was judged");
    assert_eq!(answer["filter"], json!({"kinds": ["deployment.apps"], "shown": 2, "hidden": 3}));
    for owner in answer["owners"].as_array().unwrap() {
        let same = whole["owners"].as_array().unwrap().iter().find(|other| other["name"] == owner["name"]).unwrap();
        assert_eq!((owner["matching"].as_u64(), &owner["objects"]), (Some(1), &same["objects"]));
    }
    assert_eq!(whole.get("filter"), None);
    assert_snapshot!(ask(&["--kind", "deploy"]), @"
    exit code 0
    --- stdout
    SYSTEM   NAMESPACE     KIND            NAME   MATCHING   OBJECTS   MISSING   LEAKED   STATE
    flux     flux-system   Kustomization   cart   1          5         0         0        Suspended
    flux     flux-system   Kustomization   web    1          7         0         2        Ready
    --- stderr
    236 objects: 19 managed, 4 leaked, 6 controlled by other objects, 197 created by Kubernetes itself, 10 unmanaged
    --kind deployment.apps hides 3 of 5 owners
    ");
}

#[test]
fn every_view_takes_a_filter() {
    let label = "kustomize.toolkit.fluxcd.io/name=web";
    let rows = [
        &["kustomization/web", "--kind", "cm"][..],
        &["kustomization/web", "--kind", "cm,svc", "-l", label],
        &["--leaked", "--kind", "ConfigMap"],
        &["--leaked", "--kind", "cm,ns"],
        &["--leaked", "-l", label],
        &["--leaked", "-l", "!kustomize.toolkit.fluxcd.io/name"],
        &["--unmanaged", "--kind", "serviceaccounts"],
        // What leads to a selected object stays in the tree.
        &["-o", "tree", "-l", "app=web"],
        // Services of the core, not of anything else; a full name is understood as kubectl understands it.
        &["kustomization/web", "--kind", "deployments.v1.apps"],
    ];
    assert_snapshot!(transcript(&rows));
    let owner = &shop(&["kustomization/web", "--kind", "cm"])["objects"][0];
    assert_eq!((owner["owner"]["objects"].as_u64(), owner["owner"]["matching"].as_u64()), (Some(7), Some(3)));
}

#[test]
fn mistyped_arguments_get_suggestions() {
    let rows = [
        &["kustomization/chekout"][..],
        &["kustomization/nothing-like-it"],
        &["web"],
        &["--by", "fluxx"],
        &["--kind", "deploymnts"],
        &["--kind", ","],
        &["-l", "app in (web"],
        &["-l", "app=web,"],
        &["--why", "cm/x", "-l", "a=b"],
        &["--why", "cm"],
        &["--why", "cm/nothing"],
        &["kustomization/nope"],
        &["kustomizaton/web"],
        &["--why", "deploymnt/web"],
        &["--why", "nonsense/web"],
        &["--why", "deployment/web", "-n", "shop"],
        &["--why", "deployment", "wep"],
        &["--why", "deployment/web", "web"],
    ];
    assert_snapshot!(transcript(&rows));
}

#[test]
fn why_says_the_state_of_the_owner_and_what_to_do_next() {
    let rows = [
        &["--why", "deployment", "web"][..],
        &["--why", "configmap/banner-easter", "-n", "web"],
        &["--why", "gitrepository/shop"],
        &["--why", "clusterrole/view"],
        &["kustomization/web"],
        &["--conflicts"],
    ];
    assert_snapshot!(transcript(&rows));
    assert_eq!(ask(&["--why", "deployment", "web"]).stdout, ask(&["--why", "deployment/web"]).stdout);
    let owner = &shop(&["kustomization/web"])["objects"][0];
    let leaked = owner["unlisted"].as_array().unwrap();
    assert_eq!((owner["objects"].as_array().unwrap().len(), leaked.len()), (7, 2), "{leaked:?}");
    let page = ask(&["-o", "html"]).stdout;
    assert!(page.contains("Leaked objects: their owner does not list them"));
}

#[test]
fn a_recorded_cluster_is_selected_from_by_label() {
    let get = |args: &[&str]| {
        let run = Run::of(command(&["get", "-A", "--snapshot", "examples/shop.json.gz", "-o", "name"]).args(args));
        (run.code, run.stdout.lines().count())
    };
    assert!(get(&["ks"]).1 > get(&["ks", "-l", "kustomize.toolkit.fluxcd.io/name=prod"]).1);
    assert_eq!(get(&["ks", "-l", "kustomize.toolkit.fluxcd.io/name=prod"]), (0, 4));
    assert_eq!(get(&["-l", "a b"]).0, 2);
}

#[test]
fn an_empty_answer_of_a_recording_says_where_there_is_something() {
    let get =
        |args: &[&str]| Run::of(command(&["get", "--snapshot", "examples/shop.json.gz"]).args(args)).without_age();
    let empty = get(&["-n", "default"]);
    let (found, hint) = empty.stderr.split_once('\n').unwrap();
    assert_eq!((empty.code, found), (0, "No resources found in default namespace."), "{empty}");
    assert!(hint.starts_with("hint: there are some in flux-system ("), "{empty}");
    assert_eq!(get(&["-n", "default", "-A"]).stdout, get(&[]).stdout);
    for (args, place, flag) in
        [(&["cart"][..], "", ""), (&["cart", "-n", "web"], " in namespace flux-system", " -n flux-system")]
    {
        let run = get(args);
        let expected = format!(
            "error: \"cart\" is no resource type; a TYPE comes before the name\nhint: there is a kustomization cart{place}: \
             `kubectl gitops get{flag} kustomization cart --snapshot examples/shop.json.gz`\n"
        );
        assert_eq!((run.code, run.stderr), (2, expected));
    }
}

#[test]
fn every_verb_says_that_a_recording_is_old() {
    let folder = Folder::new("old-recording");
    let mut recorded = serde_json::to_value(snapshot_file::read("examples/shop.json.gz".as_ref()).unwrap()).unwrap();
    recorded["taken"] = json!(chrono::Utc::now() - chrono::TimeDelta::hours(50));
    let file = folder.write("old.json", recorded.to_string()).display().to_string();
    for words in
        [&["get", "-A"][..], &["inventory"], &["inventory", "-n", "web", "--why", "deploy/web"], &["prune", "--plan"]]
    {
        let run = Run::of(command(words).args(["--snapshot", &file]));
        assert!(run.stderr.contains("warning: the snapshot is 2d2h old; the answer ignores later changes\n"), "{run}");
    }
}

/// Also where the arguments are refused before the recording is read.
#[test]
fn hints_about_a_recording_name_no_other_cluster() {
    let of = |words: &[&str]| Run::of(command(words).args(["--snapshot", "examples/shop.json.gz"])).without_age();
    for words in [&["retire", "foo"][..], &["plan", ".", "apps"], &["prune", "--plan", "foo"], &["inventory", "foo"]] {
        let run = of(words);
        let hint = "`kubectl gitops inventory --snapshot examples/shop.json.gz` lists the owners";
        assert!(run.code == 2 && run.stderr.contains(hint), "{words:?}: {run}");
    }
    for why in ["foo/bar", "deploy/nope"] {
        let run = of(&["inventory", "-n", "web", "--why", why]);
        assert!(run.stderr.contains("hint: there ") && !run.stderr.contains("`kubectl "), "{run}");
    }
}

const GROUP: &str = "kustomize.toolkit.fluxcd.io";

/// A Ready Kustomization in namespace fleet with these entries in its inventory.
fn kustomization(name: &str, entries: &[&str]) -> Resource {
    let entries: Vec<Value> = entries.iter().map(|id| json!({"id": id, "v": "v1"})).collect();
    let object = identified(ObjectId::new(GROUP, "Kustomization", "fleet", name));
    let content =
        json!({"status": {"inventory": {"entries": entries}, "conditions": [{"type": "Ready", "status": "True"}]}});
    Resource { object, content }
}

/// An object that kustomize-controller applied for a Kustomization in namespace fleet.
fn applied(group: &str, kind: &str, namespace: &str, name: &str, owner: &str) -> ObjectMetadata {
    let labels = [(&*format!("{GROUP}/name"), owner), (&*format!("{GROUP}/namespace"), "fleet")];
    identified(ObjectId::new(group, kind, namespace, name)).applied_by("kustomize-controller", &labels)
}

/// Records a cluster of these owners and objects.
fn record(name: &str, owners: Vec<Resource>, objects: Vec<ObjectMetadata>) -> String {
    let types = [
        ("v1", "ConfigMap", "configmaps", true),
        ("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", false),
        ("kustomize.toolkit.fluxcd.io/v1", "Kustomization", "kustomizations", true),
    ];
    let owned = owners.iter().map(|full| full.object.clone());
    let mut snapshot = snapshot(&types, objects.into_iter().chain(owned).collect());
    snapshot.resources = owners;
    snapshot.normalise();
    let file = folder(name).join("cluster.json");
    snapshot_file::write(&file, &snapshot).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn of_a_thousand_owners_only_the_one_with_a_broken_record_is_unreadable() {
    let name = |n: usize| format!("app-{n:03}");
    let owner = |n: usize| {
        let entries = [format!("shop_cm-{n}__ConfigMap"), "not_an_entry".to_owned()];
        let entries: Vec<&str> = entries.iter().map(String::as_str).take(if n == 500 { 2 } else { 1 }).collect();
        kustomization(&name(n), &entries)
    };
    // Each owner has one object that it lists and one that it lost.
    let objects = (0..1000)
        .flat_map(|n| ["cm", "lost"].map(|word| applied("", "ConfigMap", "shop", &format!("{word}-{n}"), &name(n))));
    let file = record("thousand", (0..1000).map(owner).collect(), objects.collect());
    let run = ask_of(&file, &["-o", "json"]);
    let answer: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{run:?}"));
    let owners = answer["owners"].as_array().unwrap();
    let (broken, whole): (Vec<&Value>, Vec<&Value>) = owners.iter().partition(|owner| owner["record"] == "unreadable");
    assert_eq!((run.code, broken.len(), whole.len()), (0, 1, 999));
    assert_eq!(broken[0]["name"], "app-500");
    assert!(broken[0]["unreadable"].as_str().unwrap().contains("not_an_entry"), "{}", broken[0]);
    assert_eq!((&broken[0]["leaked"], &broken[0]["unknown"]), (&0.into(), &2.into()), "{}", broken[0]);
    assert!(whole.iter().all(|owner| owner["leaked"] == 1 && owner["objects"] == 1 && owner["missing"] == 0));
    let table = ask_of(&file, &[]).stdout;
    assert_eq!(table.lines().filter(|line| line.contains("Unreadable: ")).count(), 1);
}

#[test]
fn long_names_colons_and_double_underscores_are_names_like_any_other() {
    let long = "a".repeat(63);
    let roles = ["system:shop:read", "odd__name", ":edge:"];
    let group = "rbac.authorization.k8s.io";
    // An inventory writes a colon of RBAC names as two underscores, and so cannot tell the two apart.
    let entries = [
        "_system__shop__read_rbac.authorization.k8s.io_ClusterRole",
        "___edge___rbac.authorization.k8s.io_ClusterRole",
    ];
    let mut objects: Vec<ObjectMetadata> =
        roles.iter().map(|name| applied(group, "ClusterRole", "", name, &long)).collect();
    objects.push(applied("", "ConfigMap", "shop", "lost", &long));
    let file = record("odd-names", vec![kustomization(&long, &entries)], objects);
    let run = ask_of(&file, &["-o", "json", &format!("kustomization/{long}")]);
    let answer: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{run:?}"));
    let owner = &answer["objects"][0]["owner"];
    assert_eq!(
        (&owner["objects"], &owner["missing"], &owner["leaked"]),
        (&2.into(), &0.into(), &2.into()),
        "{answer:#}"
    );
    let mut why_transcript = Transcript::default();
    for (name, standing) in [("system:shop:read", "managed"), (":edge:", "managed"), ("odd__name", "leaked")] {
        let mut why = ask_of(&file, &["--why", &format!("clusterrole/{name}")]);
        why.stderr = why.stderr.replace(&file, "FILE");
        assert!(why.stdout.contains(&format!("/{name} is {standing}")), "{why}");
        why_transcript.add(name, &why);
    }
    assert_snapshot!(why_transcript);
    let selected = ask_of(&file, &["--leaked", "-o", "name", "-l", &format!("{GROUP}/name={long}")]);
    assert_eq!(selected.stdout.lines().count(), 2, "{selected:?}");
    let longer = ask_of(&file, &["-l", &format!("{GROUP}/name={long}a")]);
    assert_snapshot!(longer, @r#"
    exit code 2
    --- stderr
    error: the label selector "kustomize.toolkit.fluxcd.io/name=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" cannot be parsed: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" cannot be the value of a label: it must be at most 63 letters, digits, '-', '_' or '.'
    hint: for example -l 'app=web,tier!=db' or -l 'env in (dev, prod),!canary'
    "#);
}

#[test]
fn a_namespace_settles_which_owner_is_meant() {
    let mut other = kustomization("web", &["other_a__ConfigMap"]);
    other.object.id.namespace = "other".into();
    other.object.uid = "other-web".into();
    let file = record("settled", vec![kustomization("web", &["fleet_a__ConfigMap"]), other], vec![]);
    let mut transcript = Transcript::default();
    for args in [
        &["kustomization/web"][..],
        &["kustomization/web", "-n", "fleet"],
        &["kustomization/web", "-n", "third"],
        &["other/kustomization/web"],
    ] {
        transcript.add(&args.join(" "), &ask_of(&file, &[args, &["-o", "name"]].concat()));
    }
    assert_snapshot!(transcript);
    let plan = |namespace: &str| {
        let args = ["prune", "--plan", "kustomization/web", "-n", namespace, "-o", "json", "--snapshot", &file];
        let plan: Value = serde_json::from_str(&Run::of(&mut command(&args)).stdout).unwrap();
        plan["owners"][0]["namespace"].clone()
    };
    assert_eq!((plan("fleet"), plan("other")), (json!("fleet"), json!("other")));
}

fn keys(document: &Value) -> Vec<&str> {
    document.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn the_document_has_exactly_these_keys() {
    const ALWAYS: [&str; 6] = ["cluster", "complete", "gaps", "schema", "taken", "totals"];
    let rows: [(&[&str], &[&str]); 6] = [
        (&[], &["owners"]),
        (&["kustomization/web"], &["objects"]),
        (&["--leaked"], &["findings"]),
        (&["-n", "web", "--why", "deployment/web"], &["explanation"]),
        (&["--kind", "deploy"], &["filter", "owners"]),
        (&["--by", "qbec"], &["labelReport", "owners"]),
    ];
    for (args, own) in rows {
        let run = ask(&[args, &["-o", "json"]].concat());
        let document: Value =
            serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{args:?}: {error}: {run}"));
        let mut expected = [&ALWAYS[..], own].concat();
        expected.sort_unstable();
        let mut found = keys(&document);
        found.sort_unstable();
        assert_eq!(found, expected, "{args:?}");
        assert_eq!((&document["schema"], &document["complete"]), (&json!("kubectl-gitops/inventory/v1"), &json!(true)));
        assert_eq!((&document["gaps"], &document["totals"]["objects"]), (&json!([]), &json!(236)), "{args:?}");
        assert!(document["cluster"]["server"].as_str().unwrap().starts_with("https://"), "{args:?}");
    }
}

#[test]
fn a_narrow_reading_names_its_scope_and_a_gap_makes_it_incomplete() {
    let (api, folder) = (crate::plan_document::server(), Folder::new("inventory-scope"));
    let kubeconfig = api.kubeconfig(&folder);
    let ask = || {
        let mut command = command(&["inventory", "--by", "qbec", "-o", "json"]);
        let run = Run::of(command.env("KUBECONFIG", &kubeconfig).env("HOME", folder.path()));
        let document: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run}"));
        (run.code, document)
    };
    let (code, document) = ask();
    assert_eq!((code, &document["complete"]), (0, &json!(true)), "{document}");
    assert!(document["scope"].as_str().unwrap().starts_with("objects labelled qbec.io/application"), "{document}");
    api.on("GET /api/v1/configmaps", [Answer::status(403, "Forbidden", "configmaps is forbidden")]);
    let (code, document) = ask();
    assert_eq!((code, &document["complete"]), (5, &json!(false)), "{document}");
    assert_eq!(
        (&document["gaps"][0]["kind"], &document["gaps"][0]["subject"]),
        (&json!("forbidden"), &json!("configmaps"))
    );
}

#[test]
fn a_tree_says_how_many_objects_an_owner_has_lost() {
    let run = ask(&["-o", "tree", "kustomization/checkout"]);
    assert_eq!(run.stdout, "kustomization/checkout -n flux-system (0 objects, 2 leaked)\n", "{run}");
}
