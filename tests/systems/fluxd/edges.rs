//! The edge cases that need a cluster of their own making: twins, stale marks, spellings of one source, rights.

use std::collections::BTreeSet;

use gitops_core::ownership::schemes::flux_v1::{LEGACY_MARK, MARK, mark};
use test_support::comparison::{Table, compare, rows, snapshot};

use super::cases::{Change, by_id, cm, kubectl, manifest, namespace, plant, set};
use super::repository::{Collection, Config, paths};
use super::{cluster, repository};

fn ids<const N: usize>(list: [&str; N]) -> BTreeSet<String> {
    list.iter().map(|id| (*id).to_owned()).collect()
}

#[test]
fn f9_only_the_legacy_key() {
    let _cluster = cluster();
    let repository = repository("nine");
    repository.write("ns.yaml", &namespace("nine")).push();
    let config = paths(&[]);
    repository.sync(&config, Collection::Off);
    kubectl("create configmap old -n nine");
    let value = mark(&set(&repository, &config), "nine:configmap/old");
    kubectl(&format!("label configmap old -n nine {LEGACY_MARK}={value}"));
    assert!(repository.sync(&config, Collection::Dry).deleted().is_empty());
    let run = repository.plan(&config, &[]);
    assert!(rows(&run).is_empty(), "{run:?}");
    assert!(run.stderr.contains("only Flux 1.13 and earlier labelled 1 object of this source"), "{run:?}");
}

#[test]
fn f10_in_git_but_not_updated() {
    let _cluster = cluster();
    let repository = repository("ten");
    repository.write("ns.yaml", &namespace("ten")).write("cm.yaml", &cm("ten", "ten")).push();
    let config = paths(&[]);
    repository.sync(&config, Collection::Off);
    kubectl("annotate configmap ten -n ten fluxcd.io/ignore=true");
    repository.write("cm.yaml", &(cm("ten", "ten") + "data: {a: b}\n")).push();
    let log = repository.sync(&config, Collection::Dry);
    assert!(log.0.contains("resource to be synced has not been updated; skipping"), "{}", log.0);
    assert!(log.deleted().is_empty());
    let run = repository.plan(&config, &[]);
    assert!(rows(&run).is_empty(), "{run:?}");
}

#[test]
fn f13_two_objects_of_one_id_go_one_in_each_sync() {
    let _cluster = cluster();
    let repository = repository("thirteen");
    repository.write("ns.yaml", &namespace("thirteen")).push();
    let config = paths(&[]);
    repository.sync(&config, Collection::Off);
    let id = "thirteen:service/twin";
    let core = manifest("v1", "Service", "thirteen", "twin") + "spec: {ports: [{port: 80}]}\n";
    plant(&core, &repository, &config, id, "");
    plant(&manifest("serving.knative.dev/v1", "Service", "thirteen", "twin"), &repository, &config, id, "");
    let plan = || repository.plan(&config, &[]);
    let both = plan();
    assert_eq!(rows(&both).values().filter(|judged| judged.is_ok()).count(), 2, "{both:?}");
    assert!(both.stderr.contains("thirteen:service/twin is the id of several objects"), "{}", both.stderr);
    let left = || kubectl("get services,services.serving.knative.dev -n thirteen -o name");
    assert_eq!(repository.sync(&config, Collection::On).deleted(), ids([id]));
    assert_eq!(left(), "service/twin\n", "the group that is listed last goes first");
    assert_eq!(rows(&plan()).len(), 1);
    assert_eq!(repository.sync(&config, Collection::On).deleted(), ids([id]));
    assert_eq!((left().as_str(), rows(&plan()).len()), ("", 0));
}

#[test]
fn f16_an_exported_mark_in_a_manifest() {
    let _cluster = cluster();
    let repository = repository("sixteen");
    let config = paths(&[]);
    let stale = format!("sha256.{}A", "x".repeat(42));
    let exported = cm("sixteen", "stale").replacen('{', &format!("{{labels: {{{MARK}: {stale}}}, "), 1);
    repository.write("ns.yaml", &namespace("sixteen")).write("cm.yaml", &exported).push();
    repository.sync(&config, Collection::Off);
    let live = kubectl("get configmap stale -n sixteen -o jsonpath={.metadata.labels}");
    assert!(live.contains(&stale), "fluxd keeps it: {live}");
    let run = repository.plan(&config, &[]);
    assert!(run.stderr.contains("that was exported from a cluster: fluxd does not change it"), "{}", run.stderr);
    repository.remove("cm.yaml").push();
    assert!(repository.sync(&config, Collection::Dry).deleted().is_empty());
    assert!(rows(&repository.plan(&config, &[])).is_empty());
}

#[test]
fn f17_two_ignore_annotations_that_differ() {
    let _cluster = cluster();
    let repository = repository("seventeen");
    repository.write("ns.yaml", &namespace("seventeen")).push();
    let config = paths(&[]);
    repository.sync(&config, Collection::Off);
    let annotations = "fluxcd.io/ignore: 'false', flux.weave.works/ignore: 'true'";
    for number in 0..12 {
        let name = format!("x{number}");
        plant(&cm("seventeen", &name), &repository, &config, &format!("seventeen:configmap/{name}"), annotations);
    }
    let theirs: Vec<usize> = (0..2).map(|_| repository.sync(&config, Collection::Dry).deleted().len()).collect();
    let run = repository.plan(&config, &[]);
    let kept = rows(&run).into_values().filter_map(Result::err).filter(|why| why.starts_with("protected")).count();
    assert_eq!(kept, 12, "{run:?}");
    assert_eq!(run.stderr.matches("its two ignore annotations differ, and fluxd picks one at random").count(), 12);
    let mut table = Table::default();
    table.note("F17 two ignore annotations that differ", &format!("of 12 fluxd deletes {theirs:?}; ours keeps all"));
    table.tell("fluxd-f17.txt");
}

#[test]
fn f19_one_id_twice_in_git() {
    let _cluster = cluster();
    let repository = repository("nineteen");
    repository.write("ns.yaml", &namespace("nineteen")).write("cm.yaml", &cm("nineteen", "gone")).push();
    let config = paths(&[]);
    repository.sync(&config, Collection::Off);
    let twins =
        manifest("apps/v1", "Deployment", "nineteen", "web") + &manifest("x.io/v1", "Deployment", "nineteen", "web");
    repository.remove("cm.yaml").write("twins.yaml", &twins).push();
    let log = repository.sync(&config, Collection::On);
    assert!(log.0.contains("duplicate definition of 'nineteen:deployment/web'"), "{}", log.0);
    assert!(log.deleted().is_empty());
    let run = repository.plan(&config, &[]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.stderr.contains("nineteen:deployment/web is in the manifests twice"), "{}", run.stderr);
}

#[test]
fn f20_a_kind_that_may_not_be_listed_in_one_of_two_namespaces() {
    let _cluster = cluster();
    let repository = repository("twenty");
    let config = Config { allow_namespaces: vec!["twenty", "twenty-b"], ..paths(&["a"]) };
    kubectl("create namespace twenty");
    kubectl("create namespace twenty-b");
    let secret = manifest("v1", "Secret", "twenty", "s");
    repository.write("a/cms.yaml", &[cm("twenty", "a"), cm("twenty-b", "b"), secret].concat());
    repository.write("a/kept.yaml", &cm("twenty", "kept")).push();
    repository.sync(&config, Collection::Off);
    repository.remove("a/cms.yaml").push();
    let rights = "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: all, namespace: twenty}
rules: [{apiGroups: ['*'], resources: ['*'], verbs: ['*']}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: some, namespace: twenty-b}
rules: [{apiGroups: [''], resources: [secrets, services], verbs: ['*']}, {apiGroups: [''], resources: [configmaps], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: twenty}
rules: [{apiGroups: [''], resources: [namespaces], verbs: [get, list]}]
";
    cluster().kubectl_stdin(&["create", "-f", "-"], rights).unwrap();
    kubectl("create rolebinding bob -n twenty --role=all --user=bob");
    kubectl("create rolebinding bob -n twenty-b --role=some --user=bob");
    kubectl("create clusterrolebinding twenty --clusterrole=twenty --user=bob");
    let recorded = snapshot(&cluster(), "twenty");
    let all = repository.sync(&config, Collection::Dry);
    let difference = compare(&recorded, &all.deleted_uids(&recorded), &repository.plan(&config, &[]));
    assert_eq!(
        (difference.both, difference.only_theirs.len(), difference.only_ours.len()),
        (3, 0, 0),
        "{difference:?}"
    );

    let limited = repository.of_user("bob");
    let theirs = limited.sync(&config, Collection::Dry);
    assert_eq!(theirs.deleted(), ids(["twenty:secret/s"]), "no ConfigMap of either namespace: {}", theirs.0);
    let ours = limited.plan(&config, &[]);
    assert_eq!(ours.code, 5, "{ours:?}");
    assert!(ours.stdout.contains("\"complete\": false"), "{}", ours.stdout);
    assert!(ours.stdout.contains("\"subject\": \"configmaps\""), "the gap is named: {}", ours.stdout);
    let own = by_id(&recorded, &ours);
    assert!(own.contains_key("twenty:configmap/a") && !own.contains_key("twenty-b:configmap/b"), "{own:?}");
    let refused = limited.gitops(&config, &["prune", "flux-v1", "--yes", "--max-percent=100"], &[]);
    assert_eq!(refused.code, 6, "{refused:?}");
    assert!(refused.stderr.contains("the plan is incomplete"), "{}", refused.stderr);
}

/// The failure that `applyMetadata` of fluxd expects, a manifest that it has read and cannot write again, does not come about: every
/// manifest that is broken stops it while it reads. Here all manifests count, or none.
#[test]
fn f24_a_manifest_that_cannot_be_used() {
    let _cluster = cluster();
    let repository = repository("twentyfour");
    let config = paths(&[]);
    repository.write("a.yaml", &namespace("twentyfour")).write("z.yaml", &cm("twentyfour", "later")).push();
    repository.sync(&config, Collection::Off);
    let head = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: broken\n  namespace: twentyfour\n";
    let loading = "component=sync-loop err=\"loading";
    let cases = [
        ("no label can be added", format!("{head}  labels: [a]\n"), "cannot unmarshal array", true),
        ("no YAML", format!("{head}data: {{a: b\n"), loading, false),
        ("a key that is a list", format!("{head}data:\n  ? [a]\n  : b\n"), loading, false),
    ];
    for (name, text, error, planned) in cases {
        repository.write("b.yaml", &text).push();
        let log = repository.sync(&config, Collection::On);
        assert!(log.0.contains(error), "{name}: {}", log.0);
        assert!(log.deleted().is_empty(), "{name}: {}", log.0);
        let run = repository.plan(&config, &[]);
        assert_eq!(run.code, i32::from(!planned), "{name}: {run:?}");
        assert!(!planned || rows(&run).is_empty(), "{name}: {run:?}");
    }
    assert_eq!(kubectl("get configmap later -n twentyfour -o name"), "configmap/later\n");
}

#[test]
fn c11_c12_spellings_of_a_url() {
    let _cluster = cluster();
    let repository = repository("spelled");
    let scp = "git@git.example.com:o/r";
    let ssh = "ssh://git@git.example.com/o/r";
    let suffix = "ssh://git@git.example.com/o/r.git";
    let (one, two) = ("https://me:one@git.example.com/o/r", "https://me:two@git.example.com/o/r");
    let other = "https://you@git.example.com/o/r";
    repository.known_as(&[scp, ssh, suffix, one, two, other]);
    repository.write("ns.yaml", &namespace("spelled"));
    for name in ["a", "b", "c", "d", "e"] {
        repository.write(&format!("{name}.yaml"), &cm("spelled", name));
    }
    repository.push();
    let at = |url: &'static str| Config { url: Some(url), ..paths(&[]) };
    repository.sync(&at(scp), Collection::On);
    let mut change = Change { repository: &repository, table: Table::default(), namespace: "spelled" };
    let mut case = |case: &str, gone: &str, old: &'static str, new: &'static str, left_behind: &[&str]| {
        repository.remove(gone).push();
        change.case(case, &at(old), &at(new), left_behind);
    };
    case("C11 scp form, then ssh://", "a.yaml", scp, ssh, &[]);
    case("C12 .git added", "b.yaml", ssh, suffix, &["spelled:configmap/b"]);
    case("C12 https", "c.yaml", suffix, one, &["spelled:configmap/c"]);
    case("C11 another password", "d.yaml", one, two, &[]);
    case("C12 another user name", "e.yaml", two, other, &["spelled:configmap/e"]);
    change.table.tell("fluxd-spellings.txt");
}

/// The reference expects the whole repository to be loaded. It is, a second time, and Git knows no empty path: fluxd
/// never syncs.
#[test]
fn c14_an_empty_path_among_others() {
    let _cluster = cluster();
    let repository = repository("fourteen");
    repository.write("a/ns.yaml", &namespace("fourteen")).write("a/cm.yaml", &cm("fourteen", "acm"));
    repository.write("b/cm.yaml", &cm("fourteen", "bcm")).push();
    let (a, whole) = (paths(&["a"]), paths(&["a", ""]));
    repository.sync(&a, Collection::On);
    repository.remove("a/cm.yaml").push();
    assert_eq!(set(&repository, &a), set(&repository, &whole), "one set");
    let log = repository.sync(&whole, Collection::On);
    assert!(log.0.contains("empty string is not a valid pathspec"), "{}", log.0);
    assert_eq!(kubectl("get configmaps -n fourteen -o name"), "configmap/acm\n", "nothing applied, nothing deleted");
    let refused = repository.gitops(&a, &["prune", "flux-v1", "--plan"], &["--new-git-path=a,", "-f", "."]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("an empty path among others"), "{}", refused.stderr);
    let recorded = snapshot(&cluster(), "fourteen");
    let back = repository.sync(&a, Collection::Dry);
    let difference = compare(&recorded, &back.deleted_uids(&recorded), &repository.plan(&a, &[]));
    assert_eq!(
        (difference.both, difference.only_theirs.len(), difference.only_ours.len()),
        (1, 0, 0),
        "{difference:?}"
    );
    let mut table = Table::default();
    table.note("C14 an empty path among others", "fluxd syncs nothing; ours refuses it");
    table.add("C14 and back", &difference);
    table.tell("fluxd-c14.txt");
}
