//! Sources of a recorded cluster that a checkout matches, and the subject that the plan shows.

use insta::assert_snapshot;
use serde_json::{Value, json};
use test_support::folder::Folder;
use test_support::gitops::{Run, Transcript, command};

use super::merge::{behind, commit};

/// A source: its name, URL and `spec.ref`, and the commit that is deployed.
type Source<'a> = (&'a str, &'a str, Value, &'a str);

const FLEET: &str = "https://example.invalid/fleet.git";

/// Beginning of the name of a source that no Kustomization uses.
const UNUSED: &str = "unused";

/// Beginning of the name of a source that is suspended.
const SUSPENDED: &str = "suspended";

/// Runs `plan` in a directory beside a recorded cluster with these sources, and with programs that build nothing.
fn plan(directory: &std::path::Path, sources: &[Source<'_>], more: &[&str]) -> Run {
    run("plan", directory, sources, more)
}

/// Runs a verb as [`plan`] does.
fn run(verb: &str, directory: &std::path::Path, sources: &[Source<'_>], more: &[&str]) -> Run {
    let programs = Folder::new("subject");
    let object = |group: &str, kind: &str, name: &str| {
        json!({"group": group, "kind": kind, "namespace": "flux-system", "name": name, "version": "v1", "uid": name,
               "resource_version": "1", "generation": 1})
    };
    let source = |(name, url, reference, commit): &Source<'_>| {
        let content = json!({"spec": {"url": url, "ref": reference, "suspend": name.starts_with(SUSPENDED)},
            "status": {"artifact": {"revision": format!("main@sha1:{commit}")}}});
        json!({"object": object("source.toolkit.fluxcd.io", "GitRepository", name), "content": content})
    };
    let user = |(name, ..): &Source<'_>| {
        let spec = json!({"path": "./apps", "prune": true, "sourceRef": {"kind": "GitRepository", "name": name}});
        json!({"object": object("kustomize.toolkit.fluxcd.io", "Kustomization", name), "content": {"spec": spec}})
    };
    let full: Vec<Value> = sources
        .iter()
        .filter(|source| !source.0.starts_with(UNUSED))
        .map(user)
        .chain(sources.iter().map(source))
        .collect();
    let kind = |group: &str, kind: &str, plural: &str| json!({"group": group, "version": "v1", "kind": kind, "plural": plural, "namespaced": true});
    let snapshot = json!({"schema": "kubectl-gitops/snapshot/v1", "taken": chrono::Utc::now(), "gaps": [],
        "cluster": {"uid": "c", "server": "https://recorded.example.invalid"},
        "types": [kind("kustomize.toolkit.fluxcd.io", "Kustomization", "kustomizations"),
                  kind("source.toolkit.fluxcd.io", "GitRepository", "gitrepositories")],
        "objects": full.iter().map(|full| full["object"].clone()).collect::<Vec<_>>(), "full": full});
    let snapshot = programs.write("cluster.json", snapshot.to_string());
    let kustomize = programs.script("kustomize", "echo v5.8.1");
    let mut command = command(&[verb]);
    command.current_dir(directory).args(more).arg("--snapshot").arg(snapshot).arg("--kustomize").arg(kustomize);
    Run::of(&mut command)
}

/// The line that says what is planned.
fn planned(run: &Run) -> &str {
    run.stderr.lines().find_map(|line| line.strip_prefix("planning ")).unwrap_or_else(|| panic!("{run}"))
}

fn main_of(commit: &str) -> Source<'_> {
    ("apps", FLEET, json!({"branch": "main"}), commit)
}

/// A checkout on branch `feature`, and the commit of its `main`.
fn checkout() -> (Folder, String) {
    let folder = behind(&[("apps/a.yaml", "")], &[("apps/b.yaml", "")]);
    folder.git(&["remote", "add", "upstream", "git@example.invalid:fleet.git"]);
    folder.git(&["remote", "add", "origin", "https://example.invalid/fork"]);
    let main = folder.git(&["rev-parse", "main"]);
    (folder, main)
}

#[test]
fn whatever_is_checked_out_is_planned_as_merged_into_the_branch_of_the_source() {
    let (folder, main) = checkout();
    let into = "as if merged into main: GitRepository/flux-system/apps; cluster https://recorded.example.invalid";
    let says = |run: &Run, tree: &str, behind: bool| {
        let line = planned(run);
        assert!(line.starts_with(tree) && line.contains(into), "{tree}: {run}");
        assert_eq!(run.stderr.contains("the tree is 1 commit behind main@sha1:"), behind, "{run}");
    };
    let short = |revision: &str| folder.git(&["rev-parse", "--short=7", revision]);
    let run = |more: &[&str]| plan(folder.path(), &[main_of(&main)], more);
    says(&run(&[]), &format!(". at {} (feature), ", short("HEAD")), true);
    let linked = folder.path().join("linked");
    folder.git(&["worktree", "add", "-q", "-b", "other", linked.to_str().unwrap(), "main"]);
    says(&plan(&linked, &[main_of(&main)], &[]), &format!(". at {} (other), ", short("main")), false);
    folder.git(&["worktree", "remove", "--force", linked.to_str().unwrap()]);
    says(&plan(&folder.path().join("apps"), &[main_of(&main)], &[]), &format!(".. at {}", short("HEAD")), true);
    says(&run(&["--rev", "main"]), &format!(". at {} (main), ", short("main")), false);
    folder.write("apps/new.yaml", "");
    says(&run(&[]), &format!(". at {} (feature, with uncommitted changes), ", short("HEAD")), true);
    folder.git(&["add", "-A"]);
    says(&run(&["--staged"]), &format!(". at {} (feature, with staged changes), ", short("HEAD")), true);
    folder.git(&["commit", "-q", "-m", "new"]);
    folder.git(&["checkout", "-q", "--detach"]);
    says(&run(&[]), &format!(". at {} (detached), ", short("HEAD")), true);
    folder.git(&["merge", "-q", "--no-edit", "main"]);
    says(&run(&[]), &format!(". at {} (detached), ", short("HEAD")), false);
}

#[test]
fn a_document_has_the_subject() {
    let (folder, main) = checkout();
    let document = |more: &[&str]| -> Value {
        let run = plan(folder.path(), &[main_of(&main)], &[&["-o", "json"], more].concat());
        serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run}"))
    };
    let subject = document(&[])["subject"].clone();
    assert_eq!(subject["revision"], folder.git(&["rev-parse", "HEAD"]));
    assert_eq!(subject["mergeBase"], folder.git(&["merge-base", "HEAD", "main"]));
    assert_eq!((&subject["behind"], &subject["dirty"], &subject["into"]), (&json!(1), &json!(false), &json!("main")));
    let merged = document(&["--merge"])["subject"].clone();
    assert_eq!((&merged["content"], &merged["behind"]), (&json!("merge"), &Value::Null));
}

#[test]
fn each_checkout_that_no_source_follows_has_one_error_and_one_hint() {
    let (folder, main) = checkout();
    let other = |name: &'static str, url: &'static str, reference: Value| (name, url, reference, main.as_str());
    let mut transcript = Transcript::default();
    let mut fails = |case: &str, folder: &Folder, sources: &[Source<'_>], more: &[&str]| {
        let run = plan(folder.path(), sources, more);
        let counts =
            ["error: ", "hint: "].map(|start| run.stderr.lines().filter(|line| line.starts_with(start)).count());
        assert_eq!((counts, run.code), ([1, 1], 1), "{case}: {run}");
        transcript.add(case, &run);
    };
    let (stage, fork) = (json!({"branch": "stage"}), "https://user:secret@example.invalid/fork");
    fails("two branches", &folder, &[main_of(&main), other("stage", FLEET, stage.clone())], &[]);
    fails("two remotes", &folder, &[main_of(&main), other("fork", fork, stage)], &[]);
    fails("another branch", &folder, &[main_of(&main)], &["--branch", "next"]);
    fails("a tag", &folder, &[other("apps", FLEET, json!({"tag": "v1"}))], &[]);
    fails("a semver", &folder, &[other("apps", FLEET, json!({"semver": ">=1"}))], &[]);
    fails("a commit", &folder, &[other("apps", FLEET, json!({"branch": "main", "commit": "abc"}))], &[]);
    let elsewhere = "https://user:secret@example.invalid/elsewhere";
    fails("another address", &folder, &[other("apps", elsewhere, json!({}))], &[]);
    fails("a cluster without sources", &folder, &[], &[]);
    let conflict = behind(&[("a.yaml", "two\n")], &[("a.yaml", "three\n")]);
    conflict.git(&["remote", "add", "origin", FLEET]);
    let deployed = conflict.git(&["rev-parse", "main"]);
    let run = plan(conflict.path(), &[main_of(&deployed)], &["--merge"]);
    assert!(run.code == 1 && run.stderr.contains(" in a.yaml\nhint: merge the deployed branch"), "{run}");
    folder.git(&["remote", "remove", "origin"]);
    folder.git(&["remote", "remove", "upstream"]);
    fails("no remote", &folder, &[main_of(&main)], &[]);
    let bare = Folder::outside_checkouts("subject");
    bare.git(&["init", "-q", "--bare"]);
    fails("a bare clone", &bare, &[main_of(&main)], &[]);
    let empty = Folder::outside_checkouts("subject");
    empty.git(&["init", "-q"]);
    empty.git(&["remote", "add", "origin", FLEET]);
    fails("no commit", &empty, &[main_of(&main)], &[]);
    fails("no checkout", &Folder::outside_checkouts("subject"), &[main_of(&main)], &[]);
    assert_snapshot!(transcript);
}

#[test]
fn a_shallow_clone_says_what_it_lacks() {
    let (folder, _) = checkout();
    let place = Folder::outside_checkouts("subject");
    let url = format!("file://{}", folder.path().display());
    place.git(&["clone", "-q", "--depth=1", "--branch=feature", &url, "shallow"]);
    let shallow = place.path().join("shallow");
    let main = folder.git(&["rev-parse", "main"]);
    let sources = [("apps", url.as_str(), json!({"branch": "main"}), main.as_str())];
    let run = plan(&shallow, &sources, &[]);
    assert!(planned(&run).contains("(feature), as if merged into main"), "{run}");
    assert!(run.stderr.contains("warning: the checkout lacks the history of main@sha1:"), "{run}");
    assert!(run.stderr.contains("`git fetch --unshallow origin main` fetches it"), "{run}");
    assert_eq!(run.stderr.matches("warning: ").count(), 1, "{run}");
    let run = plan(&shallow, &sources, &["--merge"]);
    assert!(run.code == 1 && run.stderr.contains("this shallow clone does not have main@sha1:"), "{run}");
    let from_elsewhere = plan(place.path(), &sources, &["shallow"]);
    let command =
        format!("`git -C {} fetch --unshallow origin main` fetches it", shallow.canonicalize().unwrap().display());
    assert!(from_elsewhere.stderr.contains(&command), "{from_elsewhere}");
    assert!(run.stderr.contains("hint: run `git fetch --unshallow origin main`, or leave --merge out"), "{run}");

    // The clone has one branch, so that a fetch without a name does not get main.
    place.git(&["-C", "shallow", "fetch", "-q", "--unshallow"]);
    let run = plan(&shallow, &sources, &[]);
    assert!(run.stderr.contains("; `git fetch origin main` fetches it"), "{run}");
    place.git(&["-C", "shallow", "fetch", "-q", "origin", "main"]);
    let run = plan(&shallow, &sources, &[]);
    assert!(run.stderr.contains("warning: the tree is 1 commit behind main@sha1:"), "{run}");
}

#[test]
fn a_plan_without_git_says_what_to_install() {
    let (folder, _) = checkout();
    let nothing = Folder::new("no-programs");
    let snapshot = std::path::absolute("examples/shop.json.gz").unwrap();
    let mut plan = command(&["plan", "--snapshot"]);
    let run = Run::of(plan.arg(snapshot).current_dir(folder.path()).env("PATH", nothing.path()));
    let expected = "hint: install git, or add its directory to PATH\n";
    assert!(run.code == 1 && run.stderr.ends_with(expected), "{run}");
}

/// A reader of the output alone must know why objects of other commits are deleted.
#[test]
fn each_output_says_how_far_the_tree_is_behind() {
    let (folder, main) = checkout();
    let sources = [main_of(&main)];
    for format in ["table", "markdown", "html"] {
        let run = plan(folder.path(), &sources, &["-o", format]);
        assert!(run.stdout.contains("1 commit behind main@sha1:"), "{format}: {run}");
        let merged = plan(folder.path(), &sources, &["-o", format, "--merge"]);
        assert!(!merged.stdout.contains(" behind "), "{format}: {merged}");
    }
    let named = ["--source", "GitRepository/flux-system/apps=."];
    let run = plan(folder.path(), &sources, &named);
    assert!(run.stdout.contains("; 1 commit behind main@sha1:"), "a source that is named: {run}");
    assert!(run.stderr.contains("\nhint: merge the deployed branch into it first\n"), "{run}");
    folder.git(&["merge", "-q", "--no-edit", "main"]);
    assert!(!plan(folder.path(), &sources, &named).stdout.contains(" behind "));
    let part = ["--source", "GitRepository/flux-system/apps=apps"];
    assert!(!plan(folder.path(), &sources, &part).stderr.contains(" behind "), "no commit has the files of a part");
}

#[test]
fn a_source_that_nothing_uses_is_no_choice() {
    let (folder, main) = checkout();
    let unused = ("unused-fork", "https://example.invalid/fork", json!({"branch": "stage"}), main.as_str());
    let run = plan(folder.path(), &[main_of(&main), unused.clone()], &[]);
    assert!(planned(&run).contains("as if merged into main: GitRepository/flux-system/apps;"), "{run}");
    let run = plan(folder.path(), &[main_of(&main), unused], &["--branch", "stage"]);
    assert!(
        run.code == 1 && run.stderr.contains("nothing in this cluster uses GitRepository/flux-system/unused"),
        "{run}"
    );
}

#[test]
fn a_name_that_is_mistyped_has_a_hint() {
    let (folder, main) = checkout();
    for (words, error) in [
        (["--rev", "nowhere"], "has no revision \"nowhere\"\nhint: name a commit, a branch or a tag"),
        (
            ["--source", "apps=."],
            "is not KIND/NAMESPACE/NAME=DIR\nhint: name a source: --source GitRepository/flux-system/apps=.",
        ),
    ] {
        let run = plan(folder.path(), &[main_of(&main)], &words);
        assert!(run.code == 2 && run.stderr.contains(error), "{run}");
    }
}

#[test]
fn a_word_that_is_no_directory_names_an_owner() {
    let (folder, main) = checkout();
    let run = plan(folder.path(), &[main_of(&main)], &["kustomization/none"]);
    assert!(run.code == 1 && run.stderr.contains("no owner \"kustomization/none\" in this cluster"), "{run}");
    commit(&folder, &[("apps/c.yaml", "")]);
    let run = plan(folder.path(), &[main_of(&main)], &["kustomization/apps"]);
    assert!(planned(&run).starts_with(". at "), "{run}");
}

#[test]
fn a_plan_of_several_steps_refuses_what_it_cannot_do() {
    let (folder, main) = checkout();
    let run = |more: &[&str]| plan(folder.path(), &[main_of(&main)], more);
    let missing = run(&["--then", "nowhere"]);
    assert!(
        missing.code == 2 && missing.stderr.contains("has no revision \"nowhere\"\nhint: name a commit"),
        "{missing}"
    );
    let page = run(&["--then", "main", "-o", "html"]);
    let formats = "error: a plan of several steps has these formats: table, wide, json, yaml, name, markdown\nhint: ";
    assert!(page.code == 2 && page.stderr.contains(formats), "{page}");
    let file = run(&["--then", "main", "--out", "plan.json"]);
    assert!(file.code == 2 && file.stderr.contains("error: --out writes the plan of one step\nhint: "), "{file}");
}

#[test]
fn each_step_has_its_own_subject_and_no_step_is_rehearsed() {
    let (folder, main) = checkout();
    let run = plan(folder.path(), &[main_of(&main)], &["--then", "main", "-o", "json"]);
    let document: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run}"));
    assert_eq!(document["schema"], "kubectl-gitops/steps/v1");
    let steps = document["steps"].as_array().unwrap();
    let subjects: Vec<&Value> = steps.iter().map(|step| &step["plan"]["subject"]["branch"]).collect();
    assert_eq!(subjects, ["feature", "main"], "{run}");
    assert!(steps.iter().all(|step| step["plan"]["rehearsed"] == false), "{run}");
    let shown = plan(folder.path(), &[main_of(&main)], &["--then", "main"]);
    let [first, second] = ["Step 1: . at ", "Step 2: . at "].map(|head| shown.stdout.find(head));
    assert!(first.is_some() && first < second, "{shown}");
}

#[test]
fn a_suspended_source_gets_no_steps() {
    let (folder, main) = checkout();
    let source = |name: &'static str| (name, FLEET, json!({"branch": "main"}), main.as_str());
    for words in [&["handover"][..], &["retire", "kustomization/suspended-fleet"]] {
        let refused = run(words[0], folder.path(), &[source("suspended-fleet")], &words[1..]);
        let why = "error: no steps: gitrepository.source.toolkit.fluxcd.io/suspended-fleet -n flux-system is suspended, and fetches no \
                   commit of a step\nhint: resume it first: `kubectl gitops resume --spec gitrepository suspended-fleet -n flux-system`";
        assert!(refused.code == 6 && refused.stderr.contains(why), "{refused}");
    }
    assert_eq!(run("handover", folder.path(), &[source("apps")], &[]).code, 0);
    let warning = "suspended-fleet -n flux-system is suspended: nothing of this happens before it is resumed";
    let planned = plan(folder.path(), &[source("suspended-fleet")], &[]);
    assert_eq!(planned.code, 0, "a plan is about the time after the fetch");
    assert!(planned.stderr.contains(warning), "{planned}");
    assert!(!plan(folder.path(), &[source("apps")], &[]).stderr.contains("is suspended"));
}

#[test]
fn a_file_of_steps_is_planned_in_its_order_and_bad_ones_are_refused() {
    let (folder, main) = checkout();
    let run = |text: &str, more: &[&str]| {
        folder.write("steps.yaml", text);
        let file = folder.path().join("steps.yaml");
        plan(folder.path(), &[main_of(&main)], &[&["--steps", file.to_str().unwrap()], more].concat())
    };
    let good = "schema: kubectl-gitops/steps-file/v1\nsteps:\n- suspend: kustomization/apps\n  namespace: flux-system\n- commit: .\n- resume: ks/apps\n  namespace: \
                flux-system\n- wait: kustomization/apps\n  namespace: flux-system\n";
    let planned = run(good, &["-o", "json"]);
    let document: Value = serde_json::from_str(&planned.stdout).unwrap_or_else(|error| panic!("{error}: {planned}"));
    let titles: Vec<&str> =
        document["steps"].as_array().unwrap().iter().map(|step| step["title"].as_str().unwrap()).collect();
    let kustomization = "kustomization.kustomize.toolkit.fluxcd.io/apps -n flux-system";
    assert_eq!(titles[0], format!("suspend {kustomization}"));
    assert!(titles[1].starts_with(". at "), "{titles:?}");
    assert_eq!(titles[2..], [format!("resume {kustomization}"), format!("wait until ready: {kustomization}")]);
    for (text, why) in [
        ("steps: []", "it has no steps"),
        (
            "schema: other/v2\nsteps: [{commit: .}]",
            "its schema is \"other/v2\", and this program reads kubectl-gitops/steps-file/v1",
        ),
        ("- commit: main", "it has no `steps:`"),
        ("steps:\n- {}", "step 1: it does nothing"),
        ("steps:\n- commit: main\n- {commit: main, delete: a/b}", "step 2: it does several things"),
        ("steps:\n- apply: main", "unknown field `apply`"),
        ("steps:\n- delete: web", "step 1: \"web\" is not KIND/NAME"),
        ("steps:\n- annotate: a/b", "step 1: `annotate` and `annotations` belong together"),
        ("", "it is empty"),
        (
            "steps:\n- suspend: gitrepository/apps\n  namespace: flux-system\n- commit: .",
            "step 2: gitrepository.source.toolkit.fluxcd.io/apps -n flux-system is suspended then, and fetches no commit",
        ),
    ] {
        let refused = run(text, &[]);
        assert!(refused.code == 2 && refused.stderr.contains(why), "{text}: {refused}");
    }
    let missing = run("steps:\n- delete: kustomization/none\n  namespace: shop", &[]);
    assert!(
        missing.code == 1
            && missing
                .stderr
                .contains("step 1: kustomization.kustomize.toolkit.fluxcd.io/none -n shop does not exist then"),
        "{missing}"
    );
    let absent = plan(folder.path(), &[main_of(&main)], &["--steps", "none.yaml"]);
    assert!(absent.code == 2 && absent.stderr.contains("cannot use --steps none.yaml"), "{absent}");
}
