//! The ClusterRoles of config/rbac on the real API server: with exactly its role a verb works, and without one of the
//! rules it says which right is missing.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread::{sleep, spawn};
use std::time::Duration;

use chrono::Utc;
use serde_json::{Value, json};
use test_support::cluster::{LIMIT, up};
use test_support::folder::Folder;
use test_support::gitops::{Run, binary, gitops};
use test_support::shared_cluster;
use xtask::cluster::{Cluster, Flux, Options};
use xtask::controlplane;

/// User with the role of `get`, but without the verb `watch`.
const WITHOUT_WATCH: &str = "rbac-get-without-watch";
const NAMES: [&str; 7] = ["get", "suspend", "inventory", "snapshot", "preview", "preview-dry-run", "prune"];

/// A Kustomization that lists `web`, reads the ConfigMap `vars`, and leaked `leaked`; and a Bucket in another namespace.
const OBJECTS: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Namespace
metadata: {name: watched}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: Bucket
metadata: {name: watched, namespace: watched}
spec: {bucketName: files, endpoint: example.invalid, interval: 1h}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: repo, namespace: shop}
spec: {url: 'https://example.invalid/fleet.git', interval: 1m, ref: {branch: main}}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: apps, namespace: shop}
spec:
  path: ./apps
  prune: true
  interval: 1m
  sourceRef: {kind: GitRepository, name: repo}
  postBuild: {substituteFrom: [{kind: ConfigMap, name: vars}]}
  serviceAccountName: team
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: team, namespace: shop}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: team, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: team, namespace: shop}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: vars, namespace: shop}
data: {a: b}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: leaked
  namespace: shop
  labels: {kustomize.toolkit.fluxcd.io/name: apps, kustomize.toolkit.fluxcd.io/namespace: shop}
---
apiVersion: v1
kind: Namespace
metadata: {name: payments}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: pay
  namespace: payments
  labels: {kustomize.toolkit.fluxcd.io/name: payments, kustomize.toolkit.fluxcd.io/namespace: flux-system}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: web
  namespace: shop
  labels: {kustomize.toolkit.fluxcd.io/name: apps, kustomize.toolkit.fluxcd.io/namespace: shop}
";

fn start() -> Cluster {
    let cluster = up(Options { flux: Flux::Crds, ..Options::default() });
    let apply = ["apply", "--server-side", "--field-manager=kustomize-controller", "-f", "-"];
    cluster.kubectl_stdin(&apply, OBJECTS).unwrap();
    // The status is written after the second of the objects, as by a run that did not list `leaked`.
    sleep(Duration::from_millis(1100));
    let ready = json!({"type": "Ready", "status": "True", "reason": "ReconciliationSucceeded", "message": "ok",
        "lastTransitionTime": Utc::now().format("%FT%TZ").to_string()});
    let status = json!({"status": {"observedGeneration": 1, "conditions": [ready],
        "inventory": {"entries": [{"id": "shop_web__ConfigMap", "v": "v1"}]}}});
    let patch = ["patch", "kustomization/apps", "-n", "shop", "--subresource=status", "--type=merge", "-p"];
    cluster.kubectl(&[&patch[..], &[&status.to_string()]].concat()).unwrap();
    let mut items = vec![];
    for name in NAMES {
        let rules = rules(name);
        items.extend(bound(&user(name, None), &rules));
        for missing in 0..rules.len() {
            let mut rest = rules.clone();
            rest.remove(missing);
            items.extend(bound(&user(name, Some(missing)), &rest));
        }
    }
    items.extend(viewers());
    let mut without_watch = rules("get");
    for rule in &mut without_watch {
        rule["verbs"].as_array_mut().unwrap().retain(|verb| verb != "watch");
    }
    items.extend(bound(WITHOUT_WATCH, &without_watch));
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    cluster.kubectl_stdin(&["create", "-f", "-"], &list.to_string()).unwrap();
    // The authorizer learns of the roles in their order, a moment later.
    let knows = || Ok(cluster.kubectl(&["auth", "can-i", "list", "kustomizations", "--as", WITHOUT_WATCH]).is_ok());
    cluster.wait_for("the roles", LIMIT, knows).unwrap();
    cluster
}

shared_cluster!(start);

fn rules(name: &str) -> Vec<Value> {
    let text = fs::read_to_string(format!("config/rbac/{name}.yaml")).unwrap();
    let role: Value = serde_yaml::from_str(&text).unwrap();
    assert_eq!(role["metadata"]["name"], format!("kubectl-gitops-{name}"));
    role["rules"].as_array().unwrap().clone()
}

/// Name of the user that has the rules of a role, or all but one.
fn user(name: &str, missing: Option<usize>) -> String {
    missing.map_or(format!("rbac-{name}"), |number| format!("rbac-{name}-without-{number}"))
}

fn bound(user: &str, rules: &[Value]) -> [Value; 2] {
    const API: &str = "rbac.authorization.k8s.io";
    let version = format!("{API}/v1");
    let metadata = json!({"name": user});
    [
        json!({"apiVersion": version, "kind": "ClusterRole", "metadata": metadata, "rules": rules}),
        json!({"apiVersion": version, "kind": "ClusterRoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": API, "kind": "ClusterRole", "name": user},
            "subjects": [{"apiGroup": API, "kind": "User", "name": user}]}),
    ]
}

/// User with the rules of the ClusterRole `view` and those of Flux in the whole cluster, as an ordinary member of a team.
const VIEWER: &str = "rbac-viewer";
/// User with the same roles in the namespace `payments` only.
const PAYMENTS_VIEWER: &str = "rbac-payments-viewer";

fn viewers() -> Vec<Value> {
    const API: &str = "rbac.authorization.k8s.io";
    let toolkit = ["kustomize", "source", "helm", "notification", "image"];
    let mut groups = toolkit.map(|name| format!("{name}.toolkit.fluxcd.io")).to_vec();
    groups.extend(["source.extensions.fluxcd.io", "fluxcd.controlplane.io"].map(str::to_owned));
    let rules = json!([{"apiGroups": groups, "resources": ["*"], "verbs": ["get", "list", "watch"]}]);
    let version = format!("{API}/v1");
    let mut items = vec![json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": "flux-viewer"},
        "rules": rules})];
    // The controller that copies these rules to the ClusterRole `view` does not run here.
    for role in ["system:aggregate-to-view", "flux-viewer"] {
        let reference = json!({"apiGroup": API, "kind": "ClusterRole", "name": role});
        for (kind, user, namespace) in
            [("ClusterRoleBinding", VIEWER, None), ("RoleBinding", PAYMENTS_VIEWER, Some("payments"))]
        {
            items.push(json!({"apiVersion": version, "kind": kind,
                "metadata": {"name": format!("{user}:{role}"), "namespace": namespace},
                "roleRef": reference, "subjects": [{"apiGroup": API, "kind": "User", "name": user}]}));
        }
    }
    items
}

fn run(cluster: &Cluster, user: &str, words: &[&str]) -> Run {
    gitops(cluster, &[&["--as", user], words].concat())
}

/// Runs a verb with its role, which must work, and without each rule, where it must print what `refusals` say.
fn check(name: &str, words: &[&str], refusals: &[(i32, &str)]) {
    let cluster = &cluster();
    assert_eq!(rules(name).len(), refusals.len(), "{name}: one refusal per rule");
    for (number, (code, refusal)) in refusals.iter().enumerate() {
        let user = user(name, Some(number));
        let refused = run(cluster, &user, words);
        let expected = refusal.replace("USER", &format!("User \"{user}\""));
        let printed = format!("{}{}", refused.stdout, refused.stderr);
        assert!(refused.code == *code && printed.contains(&expected), "{user}: {expected}\n{refused}");
    }
    let done = run(cluster, &user(name, None), words);
    assert!(done.code == 0 && !done.stderr.contains("cannot"), "{name}\n{done}");
}

const NOTHING: &str = "nothing can be read, in the whole cluster or in namespace default: alerts.notification.toolkit.fluxcd.io is forbidden: USER \
                       cannot list resource \"alerts\" in API group \"notification.toolkit.fluxcd.io\" at the cluster scope";

/// Checks a role with a rule per API group of Flux: without a rule, its types are gaps.
fn check_flux(name: &str, words: &[&str]) {
    let cluster = &cluster();
    let done = run(cluster, &user(name, None), words);
    assert!(done.code == 0 && !done.stderr.contains("cannot"), "{name}\n{done}");
    for (number, rule) in rules(name).iter().enumerate() {
        let (group, user) = (rule["apiGroups"][0].as_str().unwrap(), user(name, Some(number)));
        let refused = run(cluster, &user, words);
        assert_eq!(refused.code, 5, "{user}\n{refused}");
        // One line for the lists, and one for a source that `get` reads by its name.
        assert!(refused.stderr.matches("could not be read").count() <= 2, "{refused}");
        let each = run(cluster, &user, &[words, &["-v", "1"]].concat());
        for resource in rule["resources"].as_array().unwrap() {
            let expected = format!(
                "warning: {}.{group} could not be read: {0}.{group} is forbidden: User \"{user}\" cannot list resource \
                 {resource} in API group \"{group}\" at the cluster scope",
                resource.as_str().unwrap()
            );
            assert!(each.stderr.contains(&expected), "{expected}\n{each}");
        }
    }
}

#[test]
fn get() {
    check_flux("get", &["get", "-A"]);
    let cluster = &cluster();
    let named = run(cluster, &user("get", Some(0)), &["get", "kustomization", "apps", "-n", "shop"]);
    let refusal =
        "cannot get resource \"kustomizations\" in API group \"kustomize.toolkit.fluxcd.io\" in the namespace \"shop\"";
    assert!(named.code == 1 && named.stderr.contains(refusal), "{named}");
}

/// Starts `get --watch` of the Buckets as a user. Returns it with the lines of both its outputs, as they come.
fn watch(cluster: &Cluster, user: &str) -> (Child, Receiver<String>) {
    let mut command = Command::new(binary());
    command.args(["--as", user, "get", "buckets", "-n", "watched", "--watch"]);
    command.env("KUBECONFIG", cluster.kubeconfig()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (sender, lines) = mpsc::channel();
    let outputs: [Box<dyn Read + Send>; 2] =
        [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
    for output in outputs {
        let sender = sender.clone();
        spawn(move || BufReader::new(output).lines().map_while(Result::ok).for_each(|line| _ = sender.send(line)));
    }
    (child, lines)
}

#[test]
fn get_with_watch() {
    let cluster = &cluster();
    let refusal =
        "cannot watch resource \"buckets\" in API group \"source.toolkit.fluxcd.io\" in the namespace \"watched\"";
    for (user, message, expected) in
        [(user("get", None), "seen", "seen"), (WITHOUT_WATCH.to_owned(), "missed", refusal)]
    {
        let (mut child, lines) = watch(cluster, &user);
        let next = || lines.recv_timeout(LIMIT).expect("the watch goes on");
        let shown = [next(), next()];
        assert!(shown[0].starts_with("NAMESPACE") && shown[1].contains("watched"), "{user}: {shown:?}");
        let ready = json!({"type": "Ready", "status": "False", "reason": "Failed", "message": message,
            "lastTransitionTime": Utc::now().format("%FT%TZ").to_string()});
        let status = json!({"status": {"conditions": [ready]}}).to_string();
        let patch = ["patch", "bucket/watched", "-n", "watched", "--subresource=status", "--type=merge", "-p", &status];
        cluster.kubectl(&patch).unwrap();
        let line = next();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(line.contains(expected), "{user}: {line}");
    }
}

#[test]
fn suspend_and_resume() {
    check_flux("suspend", &["suspend", "--all", "-A", "-m", "drill", "--yes", "--dry-run=server"]);
    let cluster = &cluster();
    let objects = ["gitrepository/repo", "-n", "shop", "--spec"];
    for (verb, result) in [("suspend", "suspended"), ("resume", "resumed")] {
        let words = [&[verb], &objects[..]].concat();
        let refused = run(cluster, &user("suspend", Some(2)), &words);
        let refusal = "cannot get resource \"gitrepositories\" in API group \"source.toolkit.fluxcd.io\" in the namespace \"shop\"";
        assert!(refused.code == 1 && refused.stderr.contains(refusal), "{refused}");
        // Who may read and not patch learns the verb too.
        let reader = run(cluster, &user("get", None), &words);
        let refusal = "cannot patch resource \"gitrepositories\" in API group \"source.toolkit.fluxcd.io\" in the namespace \"shop\"";
        assert!(reader.code == 1 && reader.stderr.contains(refusal), "{reader}");
        let done = run(cluster, &user("suspend", None), &words);
        assert!(done.code == 0 && done.stdout.contains(result), "{done}");
    }
}

#[test]
fn inventory() {
    check("inventory", &["inventory"], &[(1, NOTHING)]);
}

#[test]
fn a_user_who_may_view_gets_the_answer_and_one_line() {
    let cluster = &cluster();
    let list = run(cluster, VIEWER, &["inventory"]);
    assert!(list.code == 5 && list.stdout.contains("apps"), "{list}");
    let line = list.stderr.lines().find(|line| line.contains("could not be read")).unwrap_or_default();
    assert!(line.starts_with("warning: ") && line.contains(" types could not be read (forbidden): "), "{list}");
    assert!(line.ends_with(", …; -v 1 lists them") && list.stderr.matches("could not be read").count() == 1, "{list}");
    let each = run(cluster, VIEWER, &["inventory", "-v", "1"]);
    assert!(each.stderr.contains("warning: secrets could not be read: secrets is forbidden"), "{each}");

    // No type that this user may not read can hold an owner of the object.
    for words in [&["configmap/web"][..], &["configmap", "web"]] {
        let why = run(cluster, VIEWER, &[&["inventory", "-n", "shop", "--why"], words].concat());
        assert!(why.code == 0 && why.stdout.contains("is managed"), "{why}");
        assert!(why.stderr.contains("; this cannot change the answer"), "{why}");
        assert!(
            why.stderr
                .contains("hint: all that its owner manages: `kubectl gitops inventory -n shop kustomization/apps"),
            "{why}"
        );
    }
    let json = run(cluster, VIEWER, &["inventory", "-n", "shop", "--why", "configmap/web", "-o", "json"]);
    let answer: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(answer["complete"], true, "{json}");
    let gaps = answer["gaps"].as_array().unwrap();
    assert!(gaps.len() > 10 && gaps.iter().all(|gap| gap["affectsAnswer"] == false), "every gap is told: {json}");

    let secret = run(cluster, VIEWER, &["inventory", "-n", "shop", "--why", "secret/x"]);
    let right = "cannot be read (forbidden): you may not list secrets in the whole cluster";
    assert!(secret.code == 1 && secret.stderr.contains(right), "{secret}");
    let unknown = run(cluster, VIEWER, &["inventory", "--why", "deploymnt/x"]);
    let message = "the server doesn't have a resource type \"deploymnt\"\nhint: did you mean deployment?";
    assert!(unknown.code == 2 && unknown.stderr.contains(message), "{unknown}");
    let get = run(cluster, VIEWER, &["get", "-A"]);
    assert!(get.code == 0 && get.stdout.contains("apps"), "{get}");

    // An update depends on no type that this user may not read; a deletion may have consequences of any type.
    let folder = Folder::outside_checkouts("rbac-view");
    let words = tree(&folder);
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    words.extend(["--offline", "-o", "json"]);
    let plan = run(cluster, VIEWER, &words);
    let document: Value = serde_json::from_str(&plan.stdout).unwrap();
    let gaps = document["gaps"].as_array().unwrap();
    assert!(plan.code == 0 && document["complete"] == true, "{plan}");
    assert!(gaps.len() > 10 && gaps.iter().all(|gap| gap["affectsAnswer"] == false), "the plan has every gap: {plan}");
    assert!(plan.stderr.contains("; this cannot change the answer; -v 1 lists them"), "{plan}");

    folder.write("tree/apps/web.yaml", manifest("other"));
    words.truncate(words.len() - 2);
    words.push("--max-percent=100");
    let plan = run(cluster, VIEWER, &words);
    assert!(plan.code == 5 && plan.stdout.contains("  delete    ConfigMap/web "), "{plan}");
    assert_eq!(plan.stdout.matches("gap: ").count(), 1, "{plan}");
    let lines: Vec<&str> = plan.stderr.lines().filter(|line| line.contains(" could not be read ")).collect();
    assert_eq!(lines.len(), 2, "one for each effect: {plan}");
    assert!(lines[0].starts_with("warning: ") && lines[0].contains(" types could not be read (forbidden): "), "{plan}");
    assert!(lines[1].ends_with("; this cannot change the answer; -v 1 lists them"), "{plan}");
    words.extend(["-v", "1"]);
    let each = run(cluster, VIEWER, &words);
    assert!(each.stderr.contains("warning: secrets could not be read: secrets is forbidden"), "{each}");
}

#[test]
fn an_owner_in_another_namespace_is_not_called_missing() {
    let cluster = &cluster();
    let words = ["inventory", "-n", "payments", "--why", "configmap/pay"];
    let why = run(cluster, PAYMENTS_VIEWER, &words);
    assert!(why.code == 5 && !why.stdout.contains("does not exist"), "{why}");
    let expected = "claimed by kustomization/payments -n flux-system, which cannot be read (forbidden): you may not list \
                    kustomizations.kustomize.toolkit.fluxcd.io in the whole cluster";
    assert!(why.stdout.contains("is perhaps managed") && why.stdout.contains(expected), "{why}");
    let orphaned = run(cluster, PAYMENTS_VIEWER, &["inventory", "-n", "payments", "--orphaned"]);
    assert!(orphaned.code == 5 && orphaned.stdout.is_empty(), "{orphaned}");
    assert!(orphaned.stderr.contains("none found in what could be read"), "{orphaned}");
    assert!(orphaned.stderr.contains("could not be read (forbidden; read in payments only): "), "{orphaned}");
    let owner = run(cluster, PAYMENTS_VIEWER, &["inventory", "-n", "shop", "kustomization/apps"]);
    assert!(owner.code == 1 && !owner.stderr.contains("no owner"), "{owner}");
    for (name, expected) in [
        ("flux-system/kustomization/payments", "was not found: its type cannot be read (forbidden): you may not list "),
        ("kustomization/payments", "in namespace payments: others cannot be read"),
    ] {
        let owner = run(cluster, PAYMENTS_VIEWER, &["inventory", "-n", "payments", name]);
        assert!(owner.code == 1 && owner.stderr.contains(expected), "{owner}");
        assert!(owner.stderr.contains("hint: `kubectl auth can-i --list "), "{owner}");
        assert!(!owner.stderr.contains("in this cluster"), "{owner}");
    }
    let get = run(cluster, PAYMENTS_VIEWER, &["get", "-n", "payments"]);
    assert_eq!(get.code, 0, "{get}");
}

#[test]
fn a_user_who_may_read_nothing_gets_one_error_and_one_hint() {
    let cluster = &cluster();
    let folder = Folder::outside_checkouts("rbac-nothing");
    let tree = tree(&folder);
    let file = folder.path().join("cluster.json.gz").display().to_string();
    let plan: Vec<&str> = tree.iter().map(String::as_str).collect();
    for words in [
        &["get"][..],
        &["get", "-A"],
        &["get", "kustomizations", "-A"],
        &["get", "kustomization", "apps", "-n", "shop"],
        &["suspend", "kustomization", "apps", "-n", "shop", "--yes"],
        &["suspend", "--all", "-n", "shop", "--yes"],
        &["resume", "--all", "-A", "--yes"],
        &["inventory"],
        &["inventory", "-n", "shop", "--why", "configmap/web"],
        &["prune", "--plan"],
        &plan,
        &["snapshot", &file],
    ] {
        let refused = run(cluster, "rbac-nobody", words);
        let is_error = |line: &&str| line.starts_with("error: ") || line.starts_with("Error from server (Forbidden): ");
        let counts = (
            refused.stderr.lines().filter(is_error).count(),
            refused.stderr.lines().filter(|line| line.starts_with("hint: ")).count(),
            refused.stderr.lines().count(),
        );
        assert_eq!((refused.code, counts), (1, (1, 1, 2)), "{words:?}: {refused}");
        assert!(refused.stdout.is_empty(), "{words:?}: {refused}");
        let rights = "`kubectl auth can-i --list --as rbac-nobody` shows your rights";
        assert!(refused.stderr.contains(rights), "{words:?}: {refused}");
    }
}

#[test]
fn snapshot() {
    let folder = Folder::new("rbac-snapshot");
    let file = folder.path().join("cluster.json.gz");
    check("snapshot", &["snapshot", file.to_str().unwrap()], &[(1, NOTHING)]);
}

/// Returns a ConfigMap with a variable.
fn manifest(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: shop}}\ndata: {{a: \"${{a}}\"}}\n")
}

/// Writes a tree that changes `web`.
fn tree(folder: &Folder) -> [String; 4] {
    controlplane::ensure(&["kustomize"]).unwrap();
    folder.write("tree/apps/web.yaml", manifest("web"));
    let source = format!("--source=GitRepository/shop/repo={}", folder.path().join("tree").display());
    let kustomize = format!("--kustomize={}", controlplane::bin("kustomize").display());
    ["prune".to_owned(), "--plan".to_owned(), source, kustomize]
}

#[test]
fn preview_of_a_tree() {
    let folder = Folder::outside_checkouts("rbac-preview");
    let words = tree(&folder);
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    words.push("--offline");
    let variables = "configmaps \"vars\" is forbidden: USER cannot get resource \"configmaps\" in API group \"\" in the namespace \"shop\"";
    check("preview", &words, &[(1, NOTHING), (5, variables)]);
}

#[test]
fn preview_of_a_tree_with_dry_runs() {
    let folder = Folder::outside_checkouts("rbac-preview-dry-run");
    let words = tree(&folder);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let variables = "configmaps \"vars\" is forbidden: USER cannot get resource \"configmaps\" in API group \"\" in the namespace \"shop\"";
    let patch = "configmaps \"web\" is forbidden: USER cannot patch resource \"configmaps\" in API group \"\" in the namespace \"shop\"";
    check("preview-dry-run", &words, &[(1, NOTHING), (5, variables), (5, patch)]);
}

#[test]
fn prune() {
    let get = "refused, nothing was deleted: you may not get configmaps in namespace shop";
    let delete = "refused, nothing was deleted: you may not delete configmaps in namespace shop";
    let nothing = NOTHING.replace("in namespace default", "in namespace shop");
    check("prune", &["prune", "--yes", "-n", "shop"], &[(1, &nothing), (6, get), (6, delete)]);
    let left = cluster().kubectl(&["get", "configmaps", "-n", "shop", "-o", "name"]).unwrap();
    assert!(!left.contains("/leaked") && left.contains("/web"), "{left}");
}
