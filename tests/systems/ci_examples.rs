//! The pipelines in docs/ci: checked by linters, and their scripts run against a scripted forge.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};
use test_support::fake_api::{Answer, FakeApi};
use test_support::folder::Folder;
use test_support::gitops;
use xtask::dist::platforms::PLATFORMS;
use xtask::{controlplane, python};

const GITHUB: &str = "docs/ci/github-actions.yaml";
const GITLAB: &str = "docs/ci/gitlab-ci.yaml";
const RELEASE: &str = ".github/workflows/release.yml";
const MARKER: &str = "<!-- kubectl gitops: plan -->\n";

fn pipeline(path: &str) -> Value {
    serde_yaml::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns the last script of a job of GitHub.
fn step(job: &str, name: &str) -> String {
    let pipeline = pipeline(GITHUB);
    let steps = pipeline["jobs"][job]["steps"].as_array().unwrap();
    let step = steps.iter().find(|step| step["name"] == name).unwrap_or_else(|| panic!("{job} has no step {name}"));
    step["run"].as_str().unwrap().to_owned()
}

/// Returns the script of a job of GitLab, which runs its lines in one shell.
fn script(job: &str) -> String {
    let pipeline = pipeline(GITLAB);
    let lines = pipeline[job]["script"].as_array().unwrap();
    lines.iter().map(|line| line.as_str().unwrap().to_owned() + "\n").collect()
}

/// Runs a script as the runners do: bash that ends at the first failure.
fn run(script: &str, folder: &Path, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new("bash");
    command.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", script]).current_dir(folder);
    command.env_clear().env("HOME", folder).env("TMPDIR", folder).envs(variables.iter().copied());
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).output().unwrap()
}

fn printed(output: &Output) -> String {
    format!("{output:?}")
}

fn lint(program: &Path, args: &[&str], file: &Path) -> Output {
    Command::new(program).args(args).arg(file).env("NO_COLOR", "1").output().unwrap()
}

#[test]
fn linters_find_nothing() {
    controlplane::ensure(&["actionlint"]).unwrap();
    python::LINTERS.ensure().unwrap();
    let (github, gitlab) = (Path::new(GITHUB), Path::new(GITLAB));
    let schema = ["--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci"];
    for output in [
        lint(&controlplane::bin("actionlint"), &["-no-color"], github),
        lint(&controlplane::bin("actionlint"), &["-no-color"], Path::new(RELEASE)),
        lint(&python::LINTERS.bin("zizmor"), &["--offline", "--no-progress"], Path::new(RELEASE)),
        lint(&python::LINTERS.bin("zizmor"), &["--offline", "--no-progress"], github),
        lint(&python::LINTERS.bin("check-jsonschema"), &schema, gitlab),
    ] {
        assert!(output.status.success(), "{}", printed(&output));
    }

    // The same programs find a fault in a copy.
    let folder = Folder::new("ci-faults");
    let text = fs::read_to_string(GITHUB).unwrap();
    let fault = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        folder.write("workflow.yaml", text.replacen(from, to, 1))
    };
    let injected = fault("echo \"there is no plan\"", "echo \"${{ github.head_ref }}\"");
    assert!(!lint(&controlplane::bin("actionlint"), &["-no-color"], &injected).status.success());
    assert!(!lint(&python::LINTERS.bin("zizmor"), &["--offline", "--no-progress"], &injected).status.success());
    let unpinned = fault("actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1", "actions/checkout@v7");
    assert!(!lint(&python::LINTERS.bin("zizmor"), &["--offline", "--no-progress"], &unpinned).status.success());
    let unknown = folder.write("gitlab.yaml", "plan: {script: [\"true\"], artefacts: {paths: [a]}, needs: 5}\n");
    assert!(!lint(&python::LINTERS.bin("check-jsonschema"), &schema, &unknown).status.success());
}

/// The release builds every platform of the table, and the job that can write builds nothing.
#[test]
fn the_release_has_the_platforms_of_the_table() {
    let release = pipeline(RELEASE);
    let expected: Vec<Value> = PLATFORMS
        .iter()
        .map(|platform| json!({"platform": platform.name(), "target": platform.target, "runner": platform.runner}))
        .collect();
    assert_eq!(release["jobs"]["build"]["strategy"]["matrix"]["include"], json!(expected));
    assert_eq!(release["permissions"], json!({}));
    for (name, job) in release["jobs"].as_object().unwrap() {
        assert_eq!(job["permissions"].to_string().contains("write"), name == "publish", "{name}");
        let is_pinned = |uses: &str| uses.split('@').nth(1).is_some_and(|commit| commit.len() == 40);
        for step in job["steps"].as_array().unwrap() {
            assert!(step["uses"].as_str().is_none_or(is_pinned), "{step}");
            assert!(!step["run"].as_str().unwrap_or_default().contains("${{"), "{name}: {step}");
        }
    }
    assert!(!release["jobs"]["publish"].to_string().contains("cargo build"));
}

/// The job that reads the pull request has nothing to steal, and the job with the token never sees the checkout.
#[test]
fn the_token_and_the_checkout_are_in_different_jobs() {
    let github = pipeline(GITHUB);
    assert_eq!(github["permissions"], json!({}));
    for (name, job) in github["jobs"].as_object().unwrap() {
        let (text, permissions) = (job.to_string(), job["permissions"].to_string());
        let writes = permissions.contains("write");
        let checks_out = text.contains("actions/checkout@");
        assert_eq!(writes, name == "comment", "{name}: {permissions}");
        assert!(!(writes && checks_out), "{name}");
        assert_eq!(text.contains("secrets."), name == "snapshot", "{name}");
        for step in job["steps"].as_array().unwrap() {
            let uses_checkout = step["uses"].as_str().is_some_and(|uses| uses.starts_with("actions/checkout@"));
            assert!(!uses_checkout || step["with"]["persist-credentials"] == false, "{name}");
            let is_pinned = |uses: &str| uses.split('@').nth(1).is_some_and(|commit| commit.len() == 40);
            assert!(step["uses"].as_str().is_none_or(is_pinned), "{step}");
            assert!(
                !step["run"].as_str().unwrap_or_default().contains("${{"),
                "{name}: a text becomes a part of a script"
            );
        }
    }
    assert_eq!(github["jobs"]["plan"]["permissions"], json!({"contents": "read"}));
    assert!(!github["jobs"]["plan"].to_string().contains("github.token"));

    let gitlab = pipeline(GITLAB);
    for job in ["recording", "note"] {
        assert_eq!(gitlab[job]["variables"]["GIT_STRATEGY"], "empty", "{job}");
    }
    assert!(!gitlab["plan"].to_string().contains("TOKEN"), "{}", gitlab["plan"]);
}

/// A kubectl that writes its environment as the plan, and ends as a plan that exceeds a limit.
fn folder_with_kubectl(name: &str) -> Folder {
    let folder = Folder::outside_checkouts(name);
    let report = "for word; do case $word in markdown=*) echo 'a report' > \"${word#*=}\" ;; esac; done\n";
    folder.script("bin/kubectl", &format!("{report}echo \"$@\"\nenv\nexit 6\n"));
    folder
}

#[test]
fn the_plan_is_written_outside_the_checkout_and_its_exit_code_kept() {
    let folder = folder_with_kubectl("ci-plan");
    let target = folder.write("outside", "untouched");
    let tree = folder.path().join("tree");
    fs::create_dir_all(&tree).unwrap();
    let link = |name: &str| std::os::unix::fs::symlink(&target, tree.join(name)).unwrap();
    link("plan.md");
    link("gitops-plan");
    let temporary = folder.path().to_str().unwrap();
    let summary = folder.path().join("summary");

    let github = step("plan", "Plan");
    let bin = [("RUNNER_TEMP", temporary), ("BASE", "main"), ("GITHUB_STEP_SUMMARY", summary.to_str().unwrap())];
    let script_in_tree = format!("PATH={temporary}/bin:$PATH\n{github}");
    let output = run(&script_in_tree, &tree, &bin);
    assert_eq!(output.status.code(), Some(6), "{}", printed(&output));
    let plan = fs::read_to_string(folder.path().join("plan.json")).unwrap();
    assert!(plan.starts_with("gitops prune --plan --repo . --branch main --snapshot "), "{plan}");
    assert_eq!(fs::read_to_string(&summary).unwrap(), "a report\n");

    fs::write(tree.join("cluster.json.gz"), "recording").unwrap();
    let variables = [("CI_JOB_TOKEN", "secret-of-the-job"), ("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "main")];
    let gitlab = format!("PATH={temporary}/bin:$PATH\n{}", script("plan"));
    let output = run(&gitlab, &tree, &variables);
    assert_eq!(output.status.code(), Some(6), "{}", printed(&output));
    let plan = fs::read_to_string(tree.join("gitops-plan/plan.json")).unwrap();
    assert!(plan.starts_with("gitops prune --plan") && !plan.contains("secret-of-the-job"), "{plan}");
    assert_eq!(fs::read_to_string(&target).unwrap(), "untouched");

    // A recording that the tree replaces by a link is refused.
    link("cluster.json.gz");
    assert_ne!(run(&gitlab, &tree, &variables).status.code(), Some(6));
}

/// A text that a shell, jq, curl or a forge could misread.
const TEXT: &str = "$(touch pwned) ${TOKEN} \"x\" '\\n' @/etc/passwd ![x](https://example.com/x.png) @everyone";

/// Returns a plan with that text, as another job wrote it.
fn document() -> String {
    let none = json!({"delete": 0, "recreate": 0, "keep": 0, "create": 0, "update": 0, "unknown": 0});
    let alarm = json!({"code": "denied", "owner": null, "detail": TEXT});
    let document = json!({"schema": "kubectl-gitops/plan/v1", "complete": true, "rehearsed": false, "gaps": [],
        "cluster": {"uid": "u", "server": "s"}, "owners": [], "changes": [], "diffs": [], "contested": [],
        "blockedByFinalizers": [], "alarms": [alarm], "summary": none});
    document.to_string()
}

/// Writes the plan and runs a script that posts it, with a kubectl that runs the real program.
fn post(script: &str, folder: &Folder, document: &str, variables: &[(&str, &str)]) -> Output {
    folder.write("plan/plan.json", document);
    folder.write("gitops-plan/plan.json", document);
    // What the job of the plan wrote for people is not read.
    folder.write("plan/plan.md", "![x](https://example.com/x.png) /approve");
    run(&with_kubectl(script, folder), folder.path(), variables)
}

fn with_kubectl(script: &str, folder: &Folder) -> String {
    format!("PATH={}/bin:$PATH\n{script}", folder.path().display())
}

/// Checks a script that posts a plan: `own` and `foreign` are comments of the forge, `list`, `create` and `update` are
/// its requests.
fn check_posting(
    script: &str,
    api: &FakeApi,
    folder: &Folder,
    variables: &[(&str, &str)],
    [create, update]: [&str; 2],
) {
    let body = |pattern: &str| -> Vec<String> {
        let bodies =
            api.requests_to(pattern).into_iter().map(|request| serde_json::from_slice::<Value>(&request.body).unwrap());
        bodies.map(|body| body["body"].as_str().unwrap().to_owned()).collect()
    };
    folder.script("bin/kubectl", &format!("shift; exec '{}' \"$@\"", gitops::binary().display()));
    let quoted = format!("{MARKER}🛑 **Alarm:** `{TEXT}`\n");
    let first = post(script, folder, &document(), variables);
    assert!(first.status.success(), "{}", printed(&first));
    let [expected] = &body(create)[..] else { panic!("no comment of this job exists: it creates one") };
    assert!(expected.starts_with(&quoted) && expected.ends_with("\nCommit: c0ffee\n"), "{expected}");
    let second = post(script, folder, &document(), variables);
    assert!(second.status.success(), "{}", printed(&second));
    assert_eq!((body(create).len(), body(update)), (1, vec![expected.clone()]), "it updates its own comment");
    assert!(!folder.path().join("pwned").exists());

    let long = "head -c 60001 /dev/zero | tr '\\0' x";
    for (plan, program, message) in [
        (String::new(), None, "there is no plan"),
        ("{}".to_owned(), None, "this is no plan"),
        (document(), Some(long), "the plan is too long"),
    ] {
        program.into_iter().for_each(|program| drop(folder.script("bin/kubectl", program)));
        let refused = post(script, folder, &plan, variables);
        assert_eq!(refused.status.code(), Some(1), "{message}");
        assert!(String::from_utf8_lossy(&refused.stdout).contains(message), "{}", printed(&refused));
    }
    for path in ["plan/plan.json", "gitops-plan/plan.json"] {
        fs::remove_file(folder.path().join(path)).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", folder.path().join(path)).unwrap();
    }
    assert_eq!(
        run(&with_kubectl(script, folder), folder.path(), variables).status.code(),
        Some(1),
        "a link is no plan"
    );
    assert_eq!(api.requests().iter().filter(|request| request.method != "GET").count(), 2);
}

#[test]
fn the_comment_on_github_is_created_once_and_then_updated() {
    let (api, folder) = (FakeApi::start(), Folder::outside_checkouts("ci-github"));
    let comment = |id: u32, login: &str, body: String| json!({"id": id, "user": {"login": login}, "body": body});
    let others = vec![
        comment(1, "mallory", format!("{MARKER}not ours")),
        comment(2, "github-actions[bot]", "of another workflow".to_owned()),
    ];
    let own = comment(3, "github-actions[bot]", format!("{MARKER}old"));
    let mut all = others.clone();
    all.push(own);
    api.on("GET /repos/o/r/issues/7/comments*", [Answer::json(json!(others)), Answer::json(json!(all))]);
    api.on("POST /repos/o/r/issues/7/comments", [Answer::json(json!({"id": 3}))]);
    api.on("PATCH /repos/o/r/issues/comments/3", [Answer::json(json!({"id": 3}))]);
    let url = api.url();
    let variables = [
        ("RUNNER_TEMP", folder.path().to_str().unwrap()),
        ("GITHUB_API_URL", &url),
        ("GITHUB_REPOSITORY", "o/r"),
        ("TOKEN", "t"),
        ("NUMBER", "7"),
        ("COMMIT", "c0ffee"),
    ];
    let requests = ["POST /repos/o/r/issues/7/comments", "PATCH /repos/o/r/issues/comments/3"];
    check_posting(&step("comment", "Comment"), &api, &folder, &variables, requests);
}

#[test]
fn the_note_on_gitlab_is_created_once_and_then_updated() {
    let (api, folder) = (FakeApi::start(), Folder::outside_checkouts("ci-gitlab"));
    let note = |id: u32, author: u32, body: String| json!({"id": id, "author": {"id": author}, "body": body});
    let others = vec![note(1, 66, format!("{MARKER}not ours")), note(2, 5, "of another job".to_owned())];
    let mut all = others.clone();
    all.push(note(3, 5, format!("{MARKER}old")));
    let notes = "/projects/9/merge_requests/7/notes";
    api.on("GET /user", [Answer::json(json!({"id": 5}))]);
    api.on(&format!("GET {notes}*"), [Answer::json(json!(others)), Answer::json(json!(all))]);
    api.on(&format!("POST {notes}"), [Answer::json(json!({"id": 3}))]);
    api.on(&format!("PUT {notes}/3"), [Answer::json(json!({"id": 3}))]);
    let url = api.url();
    let variables = [
        ("CI_API_V4_URL", url.as_str()),
        ("CI_PROJECT_ID", "9"),
        ("CI_MERGE_REQUEST_IID", "7"),
        ("CI_COMMIT_SHA", "c0ffee"),
        ("NOTE_TOKEN", "t"),
    ];
    check_posting(&script("note"), &api, &folder, &variables, [&format!("POST {notes}"), &format!("PUT {notes}/3")]);
}
