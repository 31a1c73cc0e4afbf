//! Behaviour of `suspend` and `resume` where the command line leaves a choice: which field, whose suspension, which namespace.

use insta::assert_snapshot;
use serde_json::{Value, json};
use test_support::fake_api::{Answer, FakeApi};
use test_support::folder::Folder;
use test_support::gitops::{Run, command};

use crate::suspension::{PATH, api, gitops, json_of, object, owner};

const SUSPENDED: &str = "reconcile.fluxcd.io/suspended";
const API: &str = "kustomize.toolkit.fluxcd.io/v1";

/// A Kustomization that `manager` suspended with a message, or with `spec.suspend` alone.
fn suspended_by(name: &str, manager: &str, message: Option<&str>, spec: bool) -> Value {
    let annotations = message.map_or(json!({}), |message| json!({SUSPENDED: message}));
    let keys: &[&str] = if message.is_some() { &[SUSPENDED] } else { &[] };
    let mut item = object(7, annotations);
    item["metadata"]["name"] = json!(name);
    item["metadata"]["uid"] = json!(format!("uid-{name}"));
    item["metadata"]["managedFields"] = json!([owner(manager, keys, spec)]);
    item["spec"]["suspend"] = json!(spec);
    item
}

/// Serves objects in the namespace `shop`. A patch of one gives it without a suspension.
fn serve(api: &FakeApi, items: &[Value]) {
    for item in items {
        let path = format!("{PATH}/{}", item["metadata"]["name"].as_str().unwrap());
        let mut resumed = item.clone();
        resumed["metadata"]["annotations"] = json!({});
        resumed["spec"]["suspend"] = Value::Null;
        api.on(&format!("GET {path}"), [Answer::json(item.clone())]);
        api.on(&format!("PATCH {path}"), [Answer::json(resumed)]);
    }
    api.on(&format!("GET {PATH}"), [Answer::list(API, "Kustomization", items.to_vec())]);
}

fn patched(api: &FakeApi) -> Vec<String> {
    let patches = api.requests_to("PATCH *").into_iter();
    let mut names: Vec<String> = patches.map(|patch| patch.line().rsplit('/').next().unwrap().to_owned()).collect();
    names.sort_unstable();
    names
}

/// An incident, an earlier suspension with another message, and those of other programs.
fn incident() -> FakeApi {
    let api = api();
    let items = [
        suspended_by("apps", "gitops-suspend", Some("INC-1"), true),
        suspended_by("infra", "flux", None, true),
        suspended_by("pinned", "kubectl-annotate", Some("do not touch"), false),
        suspended_by("web", "gitops-suspend", Some("INC-1"), true),
    ];
    serve(&api, &items);
    api
}

#[test]
fn resume_of_all_ends_what_suspend_set_and_names_the_rest() {
    let api = incident();
    assert_snapshot!(age_less(gitops(&api, &["resume", "ks", "--all", "--yes"])), @"
    exit code 0
    --- stdout
    kustomization.kustomize.toolkit.fluxcd.io/apps resumed
    kustomization.kustomize.toolkit.fluxcd.io/web resumed
    --- stderr
    left alone: kustomization.kustomize.toolkit.fluxcd.io/infra -n shop, suspended by flux AGE ago
    left alone: kustomization.kustomize.toolkit.fluxcd.io/pinned -n shop, suspended by kubectl-annotate AGE ago: do not touch
    hint: to resume one too, name it (with --spec for spec.suspend), or choose with --message, --link or --any --spec
    ");
    assert_eq!(patched(&api), ["apps", "web"]);
    let patch: Value = serde_json::from_slice(&api.requests_to("PATCH *")[0].body).unwrap();
    assert_eq!(patch["spec"], json!({"suspend": null}), "suspend set it, so no --spec is needed");

    let any = gitops(&api, &["resume", "ks", "--all", "--any", "--spec", "--yes", "--dry-run=client"]);
    assert_eq!((any.code, any.stdout.matches(" resumed (dry run)").count()), (0, 4), "{any}");
}

/// Removes the ages of suspensions, which change with time.
fn age_less(run: Run) -> Run {
    let ages: Vec<String> =
        run.stderr.split(" ago").filter_map(|part| Some(part.rsplit_once(' ')?.1.to_owned())).collect();
    ages.into_iter().fold(run, |run, age| run.with(" AGE ago", format!(" {age} ago")))
}

/// A shell runs nothing of what the hint says.
#[test]
fn messages_of_others_are_words_of_a_shell() {
    let api = api();
    let one = |name: &str, message: &str| suspended_by(name, "gitops-suspend", Some(message), true);
    serve(&api, &[one("apps", "INC-1 $(touch pwn)"), one("cart", "A\nB\u{1b}[31m")]);
    assert_snapshot!(gitops(&api, &["resume", "ks", "--all", "--yes"]), @r"
    exit code 6
    --- stderr
      'A…': 1 object by gitops-suspend
      'INC-1 $(touch pwn)': 1 object by gitops-suspend
    error: these suspensions have 2 messages: nothing was resumed
    hint: choose one, such as --message 'INC-1 $(touch pwn)', or end all of them with --any
    ");
}

#[test]
fn one_of_two_incidents_is_ended_only_when_it_is_chosen() {
    let api = api();
    let one = |name: &str, message: &str| suspended_by(name, "gitops-suspend", Some(message), true);
    serve(&api, &[one("apps", "INC-1"), one("cart", "INC-2"), one("web", "INC-1")]);
    for more in [&["--yes"][..], &["--dry-run=client"], &[]] {
        let refused = gitops(&api, &[&["resume", "ks", "--all"], more].concat());
        assert!(refused.code == 6 && refused.stdout.is_empty(), "{more:?}: {refused}");
    }
    assert_snapshot!(gitops(&api, &["resume", "ks", "--all", "--yes"]), @"
    exit code 6
    --- stderr
      INC-1: 2 objects by gitops-suspend
      INC-2: 1 object by gitops-suspend
    error: these suspensions have 2 messages: nothing was resumed
    hint: choose one, such as --message INC-1, or end all of them with --any
    ");
    assert_eq!(patched(&api), [""; 0]);
    assert_snapshot!(age_less(gitops(&api, &["resume", "ks", "-m", "INC-1", "--yes"])), @"
    exit code 0
    --- stdout
    kustomization.kustomize.toolkit.fluxcd.io/apps resumed
    kustomization.kustomize.toolkit.fluxcd.io/web resumed
    --- stderr
    left alone: kustomization.kustomize.toolkit.fluxcd.io/cart -n shop, suspended by gitops-suspend AGE ago: INC-2
    hint: name an object to resume it too, or choose with --message, --link or --any
    ");
    assert_eq!(patched(&api), ["apps", "web"]);
    let none = gitops(&api, &["resume", "ks", "-m", "INC-3", "--yes"]);
    assert!(none.code == 0 && none.stdout.is_empty(), "{none}");
    assert!(none.stderr.contains("no suspension with this message or link is here"), "{none}");
}

#[test]
fn a_field_that_somebody_else_set_is_cleared_with_its_name_and_spec() {
    let api = incident();
    let kept = json_of(&gitops(&api, &["resume", "ks/infra", "--dry-run=client", "-o", "json"]));
    assert_eq!((&kept["items"][0]["result"], patched(&api).len()), (&json!("unchanged"), 0));
    let run = gitops(&api, &["resume", "ks/infra"]);
    let warning = "is still suspended: spec.suspend is true, set by flux; clear it with --spec\n";
    assert!(run.code == 5 && run.stderr.contains(warning), "{run}");
    let cleared = gitops(&api, &["resume", "ks/infra", "--spec"]);
    assert_eq!((cleared.code, cleared.stdout.contains("infra resumed")), (0, true), "{cleared}");
}

/// A message beside the `spec.suspend` of another program is removed, and the object stays suspended.
#[test]
fn an_object_that_is_still_suspended_is_not_called_resumed() {
    let api = api();
    let mut mixed = suspended_by("apps", "gitops-suspend", Some("INC-1"), false);
    mixed["spec"]["suspend"] = json!(true);
    mixed["metadata"]["managedFields"] =
        json!([owner("gitops-suspend", &[SUSPENDED], false), owner("flux", &[], true)]);
    let mut after = mixed.clone();
    after["metadata"]["annotations"] = json!({});
    serve(&api, &[mixed]);
    api.on(&format!("PATCH {PATH}/apps"), [Answer::json(after)]);
    for dry_run in [&[][..], &["--dry-run=client"]] {
        let run = gitops(&api, &[&["resume", "ks", "--all", "--yes", "-o", "json"], dry_run].concat());
        let result = json_of(&run)["items"][0]["result"].clone();
        assert_eq!((run.code, result), (5, json!("annotated")), "{run}");
        assert!(
            run.stderr.contains("spec.suspend is true, set by flux; name it with --spec to resume it too"),
            "{run}"
        );
    }
    let asked = gitops(&api, &["resume", "ks", "--all"]);
    let row = "/apps -n shop   stays suspended: somebody else set spec.suspend\n";
    assert!(asked.code == 6 && asked.stderr.contains(row), "{asked}");
    let named = gitops(&api, &["resume", "ks/apps", "--spec", "--dry-run=client"]);
    assert_eq!((named.code, named.stdout.contains("apps resumed")), (0, true), "the remedy works: {named}");
}

fn suspend_with(variables: &[(&str, &str)], more: &[&str]) -> (Run, Option<Value>) {
    let (api, folder) = (api(), Folder::new("choice"));
    api.on(&format!("GET {PATH}/apps"), [Answer::json(object(7, json!({})))]);
    let mut after = object(8, json!({SUSPENDED: "drill"}));
    let wants_spec =
        more.contains(&"--spec") || (variables.iter().any(|(_, value)| *value == "spec") && more.is_empty());
    after["spec"]["suspend"] = json!(wants_spec);
    after["metadata"]["generation"] = json!(if wants_spec { 2 } else { 1 });
    api.on(&format!("PATCH {PATH}/apps"), [Answer::json(after)]);
    let review = json!({"kind": "SelfSubjectReview", "status": {"userInfo": {"username": "ada"}}});
    api.on("POST /apis/authentication.k8s.io/v1/selfsubjectreviews", [Answer::json(review)]);
    let words = [&["suspend", "ks/apps", "-m", "drill"], more].concat();
    let run = Run::of(command(&words).env("KUBECONFIG", api.kubeconfig(&folder)).envs(variables.iter().copied()));
    let patch = api.requests_to("PATCH *").first().map(|patch| serde_json::from_slice(&patch.body).unwrap());
    (run, patch)
}

#[test]
fn the_environment_has_a_default_and_flags_win() {
    const DEFAULT: &str = "KUBECTL_GITOPS_SUSPEND";
    let (warning, hint) = ("reconciliation goes on\n", "hint: --spec sets spec.suspend too");
    for (variables, flags, word, spec, is_hinted) in [
        (&[][..], &[][..], "annotated", false, true),
        (&[], &["--spec"], "suspended", true, false),
        (&[], &["--spec=false"], "annotated", false, false),
        (&[(DEFAULT, "spec")], &[], "suspended", true, false),
        (&[(DEFAULT, "spec")], &["--spec=false"], "annotated", false, false),
        (&[(DEFAULT, "annotation")], &[], "annotated", false, false),
        (&[(DEFAULT, "annotation")], &["--spec"], "suspended", true, false),
        (&[(DEFAULT, "")], &[], "annotated", false, true),
    ] {
        let (run, patch) = suspend_with(variables, flags);
        let line = format!("kustomization.kustomize.toolkit.fluxcd.io/apps {word}\n");
        assert_eq!((run.code, &run.stdout), (0, &line), "{variables:?} {flags:?}: {run}");
        assert_eq!(patch.unwrap().get("spec").is_some(), spec, "{variables:?} {flags:?}");
        assert_eq!(run.stderr.contains(warning), !spec, "{variables:?} {flags:?}: {run}");
        assert_eq!(run.stderr.contains(hint), is_hinted, "{variables:?} {flags:?}: {run}");
    }
    let (honoured, _) = suspend_with(&[("KUBECTL_GITOPS_ANNOTATION_HONOURED", "true")], &[]);
    assert_eq!(honoured.stdout, "kustomization.kustomize.toolkit.fluxcd.io/apps suspended\n", "{honoured}");
    let (wrong, patch) = suspend_with(&[(DEFAULT, "both")], &[]);
    assert_eq!((wrong.code, patch), (2, None), "{wrong}");
    assert_eq!(wrong.stderr, "error: invalid value \"both\" in KUBECTL_GITOPS_SUSPEND\nhint: use spec or annotation\n");
}

#[test]
fn the_user_is_recorded_where_the_server_tells_it() {
    const BY: &str = "fluxcd.controlplane.io/suspendedBy";
    for (flags, expected) in
        [(&[][..], json!("ada")), (&["--record-user"], json!("ada")), (&["--record-user=false"], Value::Null)]
    {
        let (_, patch) = suspend_with(&[], flags);
        assert_eq!(patch.unwrap()["metadata"]["annotations"][BY], expected, "{flags:?}");
    }
}

/// A server with the Kustomization `cart` in another namespace, or in the namespace `shop` of the command.
fn cart_in(namespace: &str) -> FakeApi {
    let api = api();
    let mut item = suspended_by("cart", "gitops-suspend", Some("INC-1"), true);
    item["metadata"]["namespace"] = json!(namespace);
    api.on(
        "GET /apis/kustomize.toolkit.fluxcd.io/v1/kustomizations",
        [Answer::list(API, "Kustomization", vec![item.clone()])],
    );
    let here = if namespace == "shop" { vec![item] } else { vec![] };
    api.on(&format!("GET {PATH}"), [Answer::list(API, "Kustomization", here)]);
    api.on(&format!("GET {PATH}/cart"), [Answer::missing("cart")]);
    api
}

#[test]
fn a_name_without_a_type_is_answered_with_the_type() {
    for (namespace, hint) in [
        ("shop", "there is a kustomization cart: `kubectl gitops suspend kustomization cart`"),
        ("far", "there is a kustomization cart in namespace far: `kubectl gitops suspend -n far kustomization cart`"),
    ] {
        let run = gitops(&cart_in(namespace), &["suspend", "cart"]);
        let expected = format!("error: \"cart\" is no resource type; a TYPE comes before the name\nhint: {hint}\n");
        assert_eq!((run.code, run.stderr), (2, expected));
    }
    let two = gitops(&cart_in("shop"), &["resume", "cart", "web"]);
    assert!(two.code == 2 && two.stderr.ends_with("`kubectl gitops resume kustomization cart web`\n"), "{two}");
    let none = gitops(&cart_in("shop"), &["suspend", "nothing"]);
    assert!(none.code == 2 && none.stderr.starts_with("error: the server doesn't have a resource type"), "{none}");
}

#[test]
fn a_hint_says_in_which_namespace_an_object_is() {
    let api = cart_in("far");
    for verb in ["get", "suspend", "resume"] {
        let run = gitops(&api, &[verb, "ks", "cart"]);
        let hint = "hint: there is a kustomization cart in namespace far: use -n far\n";
        assert!(run.code == 1 && run.stderr.contains(hint), "{run}");
    }
    for words in [&["get", "--suspended"][..], &["get"], &["suspend", "--all", "--yes"], &["resume", "--all", "--yes"]]
    {
        let run = gitops(&api, words);
        let expected = "No resources found in shop namespace.\nhint: there are some in far (1): use -n or -A\n";
        assert_eq!((run.code, run.stderr.as_str()), (0, expected), "{words:?}");
    }
    let filtered = gitops(&api, &["get", "--expired"]);
    assert_eq!(filtered.stderr, "No resources found in shop namespace.\n", "none is expired elsewhere");
}
