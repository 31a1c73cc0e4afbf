//! The fluxd of a cluster: its source is read from its Deployment, and it distinguishes the marks.

use gitops_core::ownership::schemes::flux_v1::{LEGACY_MARK, MARK};
use test_support::comparison::{compare, snapshot};
use test_support::gitops::Run;

use super::cases::{cm, kubectl, namespace, plant};
use super::repository::{Collection, Config, Repository, paths};
use super::{cluster, repository};

/// A Deployment of fluxd with these arguments, which never runs: there is no node.
fn deploy(name: &str, args: &[&str], env: &str) {
    let args: Vec<String> = args.iter().map(|arg| format!("'{arg}'")).collect();
    let manifest = format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}, namespace: deployed}}\n\
         spec:\n  selector: {{matchLabels: {{name: {name}}}}}\n  template:\n    metadata: {{labels: {{name: {name}}}}}\n    \
         spec:\n      containers:\n      - name: flux\n        image: docker.io/fluxcd/flux:1.25.4\n        \
         args: [{}]\n        env: [{env}]\n",
        args.join(", ")
    );
    cluster().kubectl_stdin(&["create", "-f", "-"], &manifest).unwrap();
}

#[test]
fn the_source_is_read_from_the_clusters_fluxd() {
    let _cluster = cluster();
    let repository = repository("deployed");
    repository.write("a/ns.yaml", &namespace("deployed")).write("a/cm.yaml", &cm("deployed", "acm")).push();
    let config = paths(&["a"]);
    repository.sync(&config, Collection::Off);
    repository.remove("a/cm.yaml").push();
    let url = format!("--git-url={}", repository.url());
    let folder = repository.work().join("a").display().to_string();
    let plan = || {
        let words = ["prune", "flux-v1", "--plan", "-o", "json", "-f", &folder];
        test_support::gitops::gitops(&cluster(), &words)
    };
    deploy("fluxd", &[&url, "--git-branch=master", "--git-path=a"], "");
    let theirs = repository.sync(&config, Collection::Dry);
    let recorded = snapshot(&cluster(), "deployed");
    let difference = compare(&recorded, &theirs.deleted_uids(&recorded), &plan());
    assert_eq!((difference.both, difference.only_theirs.len()), (1, 0), "{difference:?}");

    deploy("another", &[&url], "");
    let several = plan();
    assert_eq!(several.code, 2, "{several:?}");
    assert!(several.stderr.contains("the cluster runs several fluxds: "), "{}", several.stderr);

    kubectl("delete deployment fluxd another -n deployed");
    let hidden = "{name: GIT_USER, valueFrom: {secretKeyRef: {name: git, key: user}}}";
    deploy("secretive", &["--git-url=https://$(GIT_USER)@example.com/o/r"], hidden);
    let unknown = plan();
    assert_eq!(unknown.code, 1, "{unknown:?}");
    assert!(unknown.stderr.contains("need the variable GIT_USER, which is not a plain value"), "{}", unknown.stderr);
    kubectl("delete deployment secretive -n deployed");
    marks_are_told_apart(&repository, &config, &url);
}

/// In the same test, since a fluxd that another test runs would be seen here.
fn marks_are_told_apart(repository: &Repository, config: &Config, url: &str) {
    repository.write("a/cm.yaml", &cm("deployed", "acm")).write("b/cm.yaml", &cm("deployed", "bcm")).push();
    repository.sync(&paths(&["a", "b"]), Collection::Off);
    repository.sync(config, Collection::Off);
    let stranger = Config { url: Some("git@example.com:some/other"), ..config.clone() };
    plant(&cm("deployed", "stranger"), repository, &stranger, "deployed:configmap/stranger", "");
    plant(&cm("deployed", "copy"), repository, config, "deployed:configmap/acm", "");
    for (name, label) in [("broken", format!("{MARK}=sha256.x")), ("old", format!("{LEGACY_MARK}={}", mark_of("acm")))]
    {
        kubectl(&format!("create configmap {name} -n deployed"));
        kubectl(&format!("label configmap {name} -n deployed {label}"));
    }
    let say = |output: &str| {
        let run = test_support::gitops::gitops(
            &cluster(),
            &["inventory", "--by", "flux-v1", "-n", "deployed", "--no-headers", "-o", output],
        );
        assert_eq!(run.code, 0, "{run:?}");
        run
    };
    let without = say("table");
    assert!(
        without.stderr.contains("no fluxd runs in this cluster: nothing will collect 6 marked objects"),
        "{without:?}"
    );
    let rows = |run: &Run| -> Vec<String> {
        let words =
            |line: &str| line.split("   ").map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join("|");
        run.stdout.lines().map(words).collect()
    };
    let orphan = |words: &str| words.replace("<none>|", "<none>|orphan: ");
    let expected = [
        "copied|1|<none>|the mark of another object: no fluxd collects the object",
        "malformed|1|<none>|not a mark of Flux v1",
        "unknown source|3|<none>|from a source that is not known here",
        "legacy key|1|<none>|written by Flux 1.13 or earlier: no later fluxd collects the object",
    ];
    assert_eq!(rows(&without), expected.map(orphan));

    deploy("fluxd", &[url, "--git-branch=master", "--git-path=a,b"], "");
    kubectl("scale deployment fluxd -n deployed --replicas=0");
    let with = say("wide");
    assert!(!with.stderr.contains("orphans"), "{}", with.stderr);
    let source = |paths: &str| format!("file://{} master {paths}", repository.url().strip_prefix("file://").unwrap());
    let both = source("a b");
    let classes: Vec<(String, String)> = with
        .stdout
        .lines()
        .skip_while(|line| !line.is_empty())
        .skip(1)
        .map(|line| line.split("   ").map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>())
        .map(|cells| (cells[..cells.len().min(4)].join(" "), cells.iter().any(|cell| *cell == both).to_string()))
        .collect();
    let class = |name: &str| {
        let found = classes.iter().find(|(row, _)| row.ends_with(name)).unwrap_or_else(|| panic!("{name}: {with:?}"));
        (found.0.split(' ').next().unwrap().to_owned(), found.1 == "true")
    };
    let expected = [
        ("ConfigMap bcm", "synced", true),
        ("ConfigMap acm", "drifted", false),
        ("ConfigMap copy", "copied", false),
        ("ConfigMap broken", "malformed", false),
        ("ConfigMap stranger", "unknown", false),
        ("ConfigMap old", "legacy", false),
    ];
    for (name, word, of_both) in expected {
        assert_eq!(class(name), (word.to_owned(), of_both), "{name}: {}", with.stdout);
    }
    assert!(with.stdout.contains(&source("a ")), "the earlier configuration is named: {}", with.stdout);
    kubectl("delete deployment fluxd -n deployed");
}

fn mark_of(name: &str) -> String {
    kubectl(&format!("get configmap {name} -n deployed -o jsonpath={{.metadata.labels}}"))
        .split('"')
        .find(|text| text.starts_with("sha256."))
        .unwrap()
        .to_owned()
}
