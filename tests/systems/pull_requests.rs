//! action/, ci/ and the script that both run: checked by linters, run on the recorded cluster with a scripted forge,
//! and run by act and gitlab-ci-local.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use flate2::Compression;
use serde_json::{Value, json};
use test_support::fake_api::{Answer, FakeApi};
use test_support::folder::Folder;
use test_support::gitops;
use xtask::dist::archive::{self, Entries};
use xtask::dist::{self, platforms::Platform, provenance};
use xtask::{actions, controlplane, python, workspace_root};

const VERSION: &str = "v0.1.0";
const MARKER: &str = "<!-- kubectl gitops: plan -->";
const TOKEN: &str = "token-of-the-forge";

/// Start of a program that prints its arguments and its environment, and ends with the code in the file `code`.
const PRINTING: &str = r#"
print() { echo "$@"; env; }
for argument; do
  case $argument in --report=*) print "$@" > "${argument#--report=*=}" ;; esac
done
print "$@"
echo run >> "${0%/*}/../../runs"
exit "$(cat "${0%/*}/../../code")""#;

fn read_yaml(path: &str) -> Value {
    serde_yaml::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns both documents of the component: its inputs and its jobs.
fn component() -> [Value; 2] {
    let text = fs::read_to_string(actions::COMPONENT).unwrap();
    let (inputs, jobs) = text.split_once("\n---\n").unwrap();
    [inputs, jobs].map(|document| serde_yaml::from_str(document).unwrap())
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
}

/// A job with its own folder, and a checkout in `tree`.
struct Job {
    folder: Folder,
    /// Folder with kubectl, which builds.
    kubectl: PathBuf,
}

impl Job {
    fn new(name: &str) -> Self {
        controlplane::ensure(&["kubectl"]).unwrap();
        let folder = Folder::outside_checkouts(name);
        copy(&workspace_root().join("examples/shop"), &folder.path().join("tree"));
        fs::copy(workspace_root().join("examples/shop.json.gz"), folder.path().join("shop.json.gz")).unwrap();
        fs::create_dir_all(folder.path().join("work")).unwrap();
        xtask::git::run(folder.path().join("tree"), &["init", "--quiet"]).unwrap();
        Self { folder, kubectl: controlplane::bin("kubectl").parent().unwrap().to_path_buf() }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// Runs one step of the script in the checkout, as a job with tokens in its environment.
    fn run(&self, step: &str, variables: &[(&str, &str)]) -> Output {
        let path = format!("{}:{}", self.kubectl.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("sh");
        command.arg(workspace_root().join("ci/plan.sh")).arg(step).current_dir(self.path("tree")).env_clear();
        command.env("PATH", path).env("HOME", self.path("")).env("GITOPS_DIR", self.path("work"));
        for name in ["GITOPS_TOKEN", "GITHUB_TOKEN", "CI_JOB_TOKEN", "NOTE_TOKEN", "ACTIONS_RUNTIME_TOKEN"] {
            command.env(name, TOKEN);
        }
        command.envs(variables.iter().copied()).output().unwrap()
    }

    /// Packs a program as a release does, and returns the archive and its sum.
    fn pack(&self, program: &Path) -> (String, String) {
        let entries = if program == gitops::binary() {
            dist::entries(Platform::host().unwrap(), program, &|| Ok(Command::new(program))).unwrap()
        } else {
            Entries::from([("kubectl-gitops".to_owned(), archive::executable(fs::read(program).unwrap()))])
        };
        let path = self.path("archive.tar.gz");
        archive::write(Path::new(&path), &entries, Compression::fast()).unwrap();
        let sum = Command::new("sha256sum").arg(&path).output().unwrap();
        (path, text(&sum)[..64].to_owned())
    }

    /// Installs the program, the real one or a script.
    fn install(&self, script: Option<&str>) {
        let program = script.map_or_else(gitops::binary, |script| self.folder.script("program", script));
        self.install_program(&program, &[]);
    }

    fn install_program(&self, program: &Path, more: &[(&str, &str)]) {
        let (archive, sum) = self.pack(program);
        let variables =
            [("GITOPS_VERSION", VERSION), ("GITOPS_SHA256", sum.as_str()), ("GITOPS_ARCHIVE", archive.as_str())];
        let output = self.run("install", &[&variables[..], more].concat());
        assert!(output.status.success(), "{}", text(&output));
    }

    /// Installs the real program for a job that has another folder.
    fn install_into(&self, folder: &str) {
        self.install_program(&gitops::binary(), &[("GITOPS_DIR", folder)]);
    }

    /// Plans the checkout on the recorded cluster.
    fn plan(&self, variables: &[(&str, &str)]) -> Output {
        let snapshot = self.path("shop.json.gz");
        let fixed = [("GITOPS_SNAPSHOT", snapshot.as_str()), ("GITOPS_SOURCE", "GitRepository/flux-system/shop")];
        self.run("plan", &[&fixed, variables].concat())
    }

    fn mistype_the_path_of_web(&self) {
        let web = self.folder.path().join("tree/clusters/prod/web.yaml");
        let manifest = fs::read_to_string(&web).unwrap();
        fs::write(web, manifest.replace("path: ./apps/web", "path: ./aps/checkout")).unwrap();
    }

    fn planned(&self, file: &str) -> String {
        fs::read_to_string(self.folder.path().join("work/plan").join(file)).unwrap()
    }
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-R").args([from, to]).status().unwrap();
    assert!(status.success());
}

/// A forge with a comment of somebody else that has the marker.
struct Forge {
    api: FakeApi,
    name: &'static str,
    comments: &'static str,
    one: &'static str,
    update: &'static str,
}

impl Forge {
    fn github() -> Self {
        let comments = "/repos/o/r/issues/7/comments";
        Self::start("github", comments, "/repos/o/r/issues/comments", "PATCH")
    }

    fn gitlab() -> Self {
        let notes = "/projects/9/merge_requests/7/notes";
        let forge = Self::start("gitlab", notes, notes, "PUT");
        forge.api.on("GET /user", [Answer::json(json!({"id": 5}))]);
        forge
    }

    fn start(name: &'static str, comments: &'static str, one: &'static str, update: &'static str) -> Self {
        let forge = Self { api: FakeApi::start(), name, comments, one, update };
        forge.api.on(&format!("POST {comments}"), [Answer::raw(201, "application/json", "{\"id\": 300}")]);
        forge.api.on(&format!("{update} {one}/300"), [Answer::json(json!({"id": 300}))]);
        forge.list(1, &[forge.foreign()]);
        forge
    }

    fn comment(&self, id: u32, is_own: bool, body: &str) -> Value {
        let (login, author) = if is_own { ("github-actions[bot]", 5) } else { ("mallory", 66) };
        json!({"id": id, "user": {"login": login}, "author": {"id": author}, "body": body})
    }

    fn foreign(&self) -> Value {
        self.comment(1, false, &format!("{MARKER}\nnot ours"))
    }

    /// Sets the comments of a page.
    fn list(&self, page: u32, comments: &[Value]) {
        let order = if self.name == "gitlab" { "&sort=asc&order_by=created_at" } else { "" };
        let pattern = format!("GET {}?per_page=100{order}&page={page}", self.comments);
        self.api.on(&pattern, [Answer::json(json!(comments))]);
    }

    fn post(&self, job: &Job, variables: &[(&str, &str)]) -> Output {
        let url = self.api.url();
        let project = if self.name == "gitlab" { "9" } else { "o/r" };
        let fixed = [
            ("GITOPS_FORGE", self.name),
            ("GITOPS_API", &url),
            ("GITOPS_PROJECT", project),
            ("GITOPS_NUMBER", "7"),
            ("GITOPS_COMMIT", "c0ffee"),
            ("GITOPS_AUTHOR", "github-actions[bot]"),
        ];
        job.run("comment", &[&fixed, variables].concat())
    }

    /// Returns the bodies of the comments that were posted, and of the updates.
    fn written(&self) -> [Vec<String>; 2] {
        [format!("POST {}", self.comments), format!("{} {}/300", self.update, self.one)].map(|pattern| {
            let bodies = self.api.requests_to(&pattern).into_iter();
            bodies
                .map(|request| {
                    serde_json::from_slice::<Value>(&request.body).unwrap()["body"].as_str().unwrap().to_owned()
                })
                .collect()
        })
    }

    fn writes(&self) -> usize {
        self.api.requests().iter().filter(|request| request.method != "GET").count()
    }
}

#[test]
fn linters_find_nothing_in_the_action_and_the_script() {
    controlplane::ensure(&["actionlint"]).unwrap();
    python::LINTERS.ensure().unwrap();
    let lint = |program: &Path, args: &[&str], folder: &Path| {
        Command::new(program).args(args).current_dir(folder).env("NO_COLOR", "1").output().unwrap()
    };
    let shellcheck = python::LINTERS.bin("shellcheck");
    let (root, actionlint) = (workspace_root(), controlplane::bin("actionlint"));
    let zizmor = python::LINTERS.bin("zizmor");
    for output in [
        lint(&shellcheck, &["--shell=sh", "--enable=quote-safe-variables", "ci/plan.sh"], &root),
        lint(&zizmor, &["--offline", "--no-progress", "action/action.yml"], &root),
    ] {
        assert!(output.status.success(), "{}", text(&output));
    }

    // The lines of the page, with the action in the same repository, whose inputs actionlint knows then.
    let folder = Folder::outside_checkouts("ci-lint");
    folder.git(&["init", "--quiet"]);
    copy(&root.join("action"), &folder.path().join("action"));
    let workflow = snippet("jobs:").replace("kubectl-gitops/kubectl-gitops/action@v0.1.0", "./action");
    assert!(workflow.contains("uses: ./action"), "{workflow}");
    let check = |workflow: &str| {
        folder.write(".github/workflows/plan.yaml", workflow);
        lint(&actionlint, &["-no-color"], folder.path())
    };
    let output = check(&workflow);
    assert!(output.status.success(), "{}", text(&output));
    assert!(!check(&workflow.replace("sha256:", "sha265:")).status.success());

    // The same programs find a fault.
    let script = fs::read_to_string(root.join("ci/plan.sh")).unwrap();
    folder.write("plan.sh", script.replace("cat \"$work/plan.md\"", "cat $work/plan.md"));
    assert!(
        !lint(&shellcheck, &["--shell=sh", "--enable=quote-safe-variables", "plan.sh"], folder.path()).status.success()
    );
    let action = fs::read_to_string(root.join("action/action.yml")).unwrap();
    folder.write(
        "action.yml",
        action.replace("run: sh \"$GITHUB_ACTION_PATH", "run: echo ${{ github.head_ref }}; sh \"$GITHUB_ACTION_PATH"),
    );
    assert!(!lint(&zizmor, &["--offline", "--no-progress", "action.yml"], folder.path()).status.success());
}

/// Returns the first block of YAML in docs/pull-requests.md that contains a text.
fn snippet(part: &str) -> String {
    let page = fs::read_to_string("docs/pull-requests.md").unwrap();
    let mut blocks = page.split("```yaml\n").skip(1).map(|block| block.split("```").next().unwrap());
    blocks.find(|block| block.contains(part)).unwrap_or_else(|| panic!("no block has {part}")).to_owned()
}

#[test]
fn the_component_has_a_copy_of_the_script_and_fits_the_schema() {
    python::LINTERS.ensure().unwrap();
    let [inputs, jobs] = component();
    let script = fs::read_to_string("ci/plan.sh").unwrap();
    let copied = jobs[".kubectl-gitops"]["before_script"][0].as_str().unwrap();
    assert!(
        copied.contains(&format!("<< 'END_OF_PLAN_SH'\n{script}END_OF_PLAN_SH\n")),
        "run cargo xtask actions template"
    );
    assert!(!copied.contains("$[["), "an input becomes a part of a script");

    // With its defaults in place of the inputs, the component is a pipeline.
    let mut pipeline = fs::read_to_string(actions::COMPONENT).unwrap().split_once("\n---\n").unwrap().1.to_owned();
    for (name, input) in inputs["spec"]["inputs"].as_object().unwrap() {
        let default = &input["default"];
        let value = default.as_str().map_or_else(|| default.to_string(), str::to_owned).replace("null", "required");
        let whole = if value.is_empty() { "''" } else { &value };
        pipeline = pipeline.replace(&format!(": $[[ inputs.{name} ]]\n"), &format!(": {whole}\n"));
        pipeline = pipeline.replace(&format!("$[[ inputs.{name} ]]"), &value);
    }
    assert!(!pipeline.contains("$[["), "an input is not declared");
    let folder = Folder::new("ci-component");
    let check = |pipeline: &str| {
        let file = folder.write("pipeline.yaml", pipeline);
        let schema = ["--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci"];
        Command::new(python::LINTERS.bin("check-jsonschema")).args(schema).arg(file).output().unwrap()
    };
    let output = check(&pipeline);
    assert!(output.status.success(), "{}", text(&output));
    assert!(!check(&pipeline.replace("expire_in: 7 days", "expire_in: 7")).status.success());
}

#[test]
fn the_token_is_in_the_step_that_posts_and_no_input_is_part_of_a_script() {
    let action = read_yaml("action/action.yml");
    let steps = action["runs"]["steps"].as_array().unwrap();
    for step in steps {
        let name = step["name"].as_str().unwrap();
        assert_eq!(step.to_string().contains("inputs.token"), name == "Comment", "{step}");
        assert!(!step.to_string().contains("github.token"), "{step}");
        assert!(!step["run"].as_str().unwrap_or_default().contains("${{"), "{step}");
        let is_pinned = |uses: &str| uses.split('@').nth(1).is_some_and(|commit| commit.len() == 40);
        assert!(step["uses"].as_str().is_none_or(is_pinned), "{step}");
    }
    assert_eq!(steps.iter().filter(|step| step["name"] == "Comment").count(), 1);

    let [_, jobs] = component();
    for (name, job) in jobs.as_object().unwrap() {
        let is_posting = name.contains("comment");
        assert_eq!(job["variables"].to_string().contains("TOKEN\":"), is_posting, "{name}");
        assert_eq!(job["variables"]["GIT_STRATEGY"] == "empty", is_posting, "{name}");
        assert!(!job["script"].to_string().contains("$[["), "{name}");
        // The script looks for programs outside of the checkout only.
        let is_script = |line: &Value| line.as_str().unwrap().contains("sh \"$GITOPS_DIR/plan.sh\" ");
        assert!(job["script"].as_array().into_iter().flatten().all(is_script), "{name}");
    }
    assert_eq!(jobs["kubectl-gitops-plan$[[ inputs.name ]]"]["variables"]["FF_GIT_URLS_WITHOUT_TOKENS"], "true");
}

/// Forges differ in a few inputs: a job of GitHub fetches its files in steps before, and has a token.
#[test]
fn both_forges_have_the_same_inputs_and_the_page_describes_them() {
    let action = read_yaml("action/action.yml");
    let [component, _] = component();
    let names = |inputs: &Value| inputs.as_object().unwrap().keys().cloned().collect::<BTreeSet<String>>();
    let (github, gitlab) = (names(&action["inputs"]), names(&component["spec"]["inputs"]));
    let only = |left: &BTreeSet<String>, right: &BTreeSet<String>| left.difference(right).cloned().collect::<Vec<_>>();
    assert_eq!(only(&github, &gitlab), ["author", "plan", "token"]);
    assert_eq!(only(&gitlab, &github), ["image", "needs", "stage"]);
    let page = fs::read_to_string("docs/pull-requests.md").unwrap();
    for name in github.union(&gitlab) {
        assert!(page.contains(&format!("| `{name}`")), "docs/pull-requests.md lacks the input {name}");
    }
}

#[test]
fn an_archive_with_another_sum_is_not_run() {
    let job = Job::new("ci-install");
    let program = job.folder.script("program", "touch \"${0%/*}/../../ran\"; exit 0");
    let (archive, sum) = job.pack(&program);
    let install = |sum: &str, more: &[(&str, &str)]| {
        job.run("install", &[&[("GITOPS_VERSION", VERSION), ("GITOPS_SHA256", sum)], more].concat())
    };
    let local = [("GITOPS_ARCHIVE", archive.as_str())];
    let wrong = format!("{}{}", &sum[..63], if sum.ends_with('0') { '1' } else { '0' });
    let name = Platform::host().unwrap().archive(VERSION);
    for (sums, message) in [
        (wrong.clone(), "nothing of it was run"),
        (format!("{wrong}  {name}\n{sum}  other.tar.gz\n"), "nothing of it was run"),
        (format!("{sum}  other.tar.gz\n"), "has no sum for"),
        (format!("{sum}\n{sum}\n"), "has no sum for"),
        (String::new(), "has no sum for"),
        (sum.to_uppercase().replace(|character: char| character.is_ascii_digit(), "A"), "is no SHA-256 digest"),
        (sum[..32].to_owned(), "is no SHA-256 digest"),
    ] {
        let output = install(&sums, &local);
        assert_eq!(output.status.code(), Some(1), "{sums}");
        assert!(text(&output).contains(message), "{sums}: {}", text(&output));
        let plan = job.plan(&[]);
        assert!(!plan.status.success() || job.planned("exit-code") == "127\n", "{}", text(&plan));
        assert!(!job.folder.path().join("ran").exists(), "{sums}");
    }
    for version in ["0.1.0", "v0.1.0/../..", "v1 2", ""] {
        assert_eq!(job.run("install", &[("GITOPS_VERSION", version), ("GITOPS_SHA256", &sum)]).status.code(), Some(1));
    }

    // The right sum, also among those of other files and from a server.
    let sums = format!("{wrong}  kubectl-gitops-{VERSION}-plan9-amd64.tar.gz\n{sum} *{name}\n");
    let mirror = FakeApi::start();
    mirror.on(&format!("GET /{VERSION}/{name}"), [Answer::raw(200, "application/gzip", fs::read(&archive).unwrap())]);
    let url = mirror.url();
    for (sums, from) in [(&sum, local), (&sums, local), (&sums, [("GITOPS_RELEASES", url.as_str())])] {
        let output = install(sums, &from);
        assert!(output.status.success(), "{}", text(&output));
    }
    assert!(!job.folder.path().join("ran").exists(), "installing runs nothing");
    check_signatures(&job, &archive, |more| install(&sum, &[&local[..], more].concat()));
    let page = install(&sums, &[("GITOPS_RELEASES", &format!("{url}/none"))]);
    assert!(text(&page).contains("cannot download"), "{}", text(&page));
    let url = Platform::host().unwrap().url("$version");
    let releases = url.split_once("/$version/").unwrap().0;
    assert!(fs::read_to_string("ci/plan.sh").unwrap().contains(&format!(":-{releases}}}")), "{releases}");
}

#[test]
fn the_plan_has_no_variable_of_the_job_and_keeps_its_exit_code() {
    let job = Job::new("ci-environment");
    job.install(Some(PRINTING));
    // Texts that a shell would evaluate stay single arguments.
    let hostile = "$(touch pwned)`touch pwned`;touch pwned";
    for (code, text_of_comment) in [
        (0, None),
        (3, None),
        (5, Some("**This plan is incomplete** (exit code 5)")),
        (6, None),
        (1, Some("**There is no plan**: kubectl gitops ended with exit code 1")),
        (2, Some("**There is no plan**: kubectl gitops ended with exit code 2")),
    ] {
        job.folder.write("code", code.to_string());
        let args = format!("--charts={hostile}\n\n--max-age=1 h\n");
        let output_file = job.path("output");
        let variables = [
            ("GITOPS_SOURCE", ""),
            ("GITOPS_BASE", hostile),
            ("GITOPS_ARGS", &args),
            ("GITOPS_MAX_DELETE", "7"),
            ("GITOPS_MAX_PERCENT", "20"),
            ("GITOPS_ALLOW", "crds,volumes"),
            ("GITOPS_FAIL_ON", "deletion,incomplete,limit"),
            ("GITHUB_OUTPUT", &output_file),
        ];
        let output = job.plan(&variables);
        assert!(output.status.success(), "{}", text(&output));
        assert_eq!(job.planned("exit-code"), format!("{code}\n"));
        assert!(fs::read_to_string(&output_file).unwrap().ends_with(&format!("exit-code={code}\n")));
        let verdict = job.run("verdict", &[("GITOPS_FAIL_ON", "deletion,incomplete,limit")]);
        assert_eq!(verdict.status.code(), Some(code), "{}", text(&verdict));
        let lenient = job.run("verdict", &[("GITOPS_FAIL_ON", "never")]);
        assert_eq!(lenient.status.code(), Some(if matches!(code, 3 | 5 | 6) { 0 } else { code }), "{}", text(&lenient));
        if matches!(code, 0 | 3 | 5 | 6) {
            for file in ["plan.json", "plan.md", "plan.html"] {
                let printed = job.planned(file);
                assert!(!printed.contains(TOKEN), "{file}: {printed}");
                let mut names: Vec<&str> =
                    printed.lines().skip(1).filter_map(|line| Some(line.split_once('=')?.0)).collect();
                names.retain(|name| !["PWD", "SHLVL", "_", "OLDPWD"].contains(name));
                names.sort_unstable();
                assert_eq!(names, ["HOME", "PATH", "TMPDIR"], "{file}");
                for argument in [
                    &format!("--branch={hostile}"),
                    &format!("--charts={hostile} --max-age=1 h"),
                    "--max-delete=7 --max-percent=20 --allow=crds,volumes --require-sandbox --detailed-exitcode",
                ] {
                    assert!(printed.lines().next().unwrap().contains(argument), "{file}: {printed}");
                }
            }
        }
        let forge = Forge::github();
        let comment = forge.post(&job, &[]);
        assert!(comment.status.success(), "{}", text(&comment));
        let [posted, _] = forge.written();
        if let Some(part) = text_of_comment {
            assert!(posted[0].contains(part), "{code}: {}", posted[0]);
        }
        assert_eq!(posted[0].contains("**This plan is incomplete**"), code == 5);
    }
    for folder in ["tree/pwned", "pwned", "work/pwned"] {
        assert!(!job.folder.path().join(folder).exists());
    }
    let unknown = job.run("verdict", &[("GITOPS_FAIL_ON", "deletions")]);
    assert!(!unknown.status.success() && text(&unknown).contains("fail-on has an unknown word"), "{}", text(&unknown));
}

#[test]
fn all_formats_are_of_one_plan_and_a_failed_one_leaves_no_part() {
    let job = Job::new("ci-formats");
    job.install(Some(PRINTING));
    job.folder.write("code", "6");
    assert!(job.plan(&[]).status.success());
    assert_eq!(fs::read_to_string(job.folder.path().join("runs")).unwrap(), "run\n");
    job.folder.write("code", "1");
    let output = job.plan(&[("GITHUB_ACTIONS", "true")]);
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(job.planned("exit-code"), "1\n");
    for file in ["plan.json", "plan.md", "plan.html"] {
        assert!(!job.folder.path().join("work/plan").join(file).exists(), "{file}");
    }

    // GitHub reads no command between these lines.
    let stdout = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = stdout.lines().collect();
    let pause = lines[0].strip_prefix("::stop-commands::").unwrap();
    assert_eq!(pause.len(), 32);
    assert_eq!(*lines.last().unwrap(), format!("::{pause}::"));
}

#[test]
fn a_checkout_with_credentials_is_not_planned() {
    let job = Job::new("ci-credentials");
    job.install(None);
    job.folder.write("included", "[http]\n\textraHeader = AUTHORIZATION: basic eA==\n");
    let git = |args: &[&str]| xtask::git::run(job.folder.path().join("tree"), args).unwrap();
    for (key, value) in [
        ("http.https://github.com/.extraheader", "AUTHORIZATION: basic eA=="),
        ("remote.other.url", "https://glpat-token@gitlab.example.com/a.git"),
        ("url.https://x:token@github.com/.insteadOf", "https://github.com/"),
        ("url.https://token@github.com/.pushInsteadOf", "https://github.com/"),
        ("remote.origin.url", "https://gitlab-ci-token:x@git.example.com/o/r.git"),
        ("includeIf.gitdir:/w/.git.path", "/tmp/git-credentials-1.config"),
        ("submodule.x.url", "https://token@github.com/o/x.git"),
        ("branch.main.remote", "https://u:token@github.com/o/r.git"),
        ("http.proxy", "http://u:token@proxy.example.com:3128"),
        ("lfs.url", "https://u:token@lfs.example.com/o/r"),
        ("credential.https://u:token@github.com.username", "u"),
        ("credential.helper", "!f() { echo password=token; }; f"),
        ("include.path", &job.path("included")),
    ] {
        git(&["config", key, value]);
        let output = job.plan(&[]);
        assert_eq!(output.status.code(), Some(1), "{key}");
        assert!(text(&output).contains("the checkout has credentials"), "{}", text(&output));
        git(&["config", "--unset", key]);
    }
    for (key, value) in [
        ("remote.origin.url", "https://github.com/o/r.git"),
        ("remote.other.url", "ssh://git@github.com/o/r.git"),
        ("url.https://github.com/.insteadOf", "git@github.com:"),
        ("credential.helper", "!f() { echo \"password=${CI_JOB_TOKEN}\"; }; f"),
    ] {
        git(&["config", key, value]);
    }
    let events =
        ["pull_request_target", "workflow_run", "issue_comment", "issues", "discussion_comment", "pull_request_review"];
    for event in events {
        let output = job.plan(&[("GITHUB_EVENT_NAME", event)]);
        assert!(!output.status.success() && text(&output).contains("can give secrets to a job"), "{}", text(&output));
    }
    let output = job.plan(&[("GITHUB_EVENT_NAME", "pull_request")]);
    assert!(output.status.success(), "{}", text(&output));
}

#[test]
fn a_folder_that_looks_like_a_repository_hides_no_credentials() {
    let job = Job::new("ci-bare");
    job.install(None);
    job.folder.git(&["-C", "tree", "config", "remote.origin.url", "https://x:token@github.com/o/r.git"]);
    job.folder.git(&["init", "--quiet", "--bare", "tree/deploy"]);
    for (path, message) in [(".", "the checkout has credentials"), ("deploy", "is no checkout of git")] {
        let output = job.plan(&[("GITOPS_PATH", path)]);
        assert!(!output.status.success() && text(&output).contains(message), "{path}: {}", text(&output));
    }
}

#[test]
fn a_link_of_the_checkout_leads_to_no_other_checkout() {
    let job = Job::new("ci-links");
    job.install(None);
    job.folder.git(&["init", "--quiet", "private"]);
    std::os::unix::fs::symlink("../private", job.path("tree/sub")).unwrap();
    let absolute = job.path("tree/sub");
    for variable in [
        ("GITOPS_PATH", "sub"),
        ("GITOPS_PATH", absolute.as_str()),
        ("GITOPS_SOURCE", "GitRepository/flux-system/flux-system=sub"),
    ] {
        let output = job.plan(&[variable]);
        assert_eq!(output.status.code(), Some(1), "{variable:?}");
        assert!(text(&output).contains("leads through a link"), "{variable:?}: {}", text(&output));
    }
}

#[test]
fn no_program_of_the_checkout_runs() {
    let job = Job::new("ci-programs");
    job.install(Some(PRINTING));
    job.folder.write("code", "0");
    for name in ["chmod", "curl", "git", "head", "jq", "mkdir", "mv", "od", "rm", "tr", "uname", "wc"] {
        job.folder.script(&format!("tree/bin/{name}"), &format!("touch '{}'; exit 1", job.path("ran")));
    }
    let path = format!("bin:{}:{}", job.path("tree/bin"), std::env::var("PATH").unwrap());
    let (here, elsewhere) = (job.path("tree"), job.path("work"));
    for variables in
        [[("PATH", path.as_str()), ("GITHUB_WORKSPACE", &here)], [("PATH", &path), ("CI_PROJECT_DIR", &elsewhere)]]
    {
        let origin = ("GITOPS_ORIGIN", "https://gitlab.example.com/o/r.git");
        let output = job.plan(&[&variables[..], &[("GITHUB_ACTIONS", "true"), origin]].concat());
        assert!(output.status.success(), "{}", text(&output));
        let output = job.run("artifact", &variables);
        assert!(output.status.success(), "{}", text(&output));
        assert!(job.folder.path().join("tree/gitops-plan/plan.json").exists());
        let config = fs::read_to_string(job.path("tree/.git/config")).unwrap();
        assert!(config.contains(origin.1), "{config}");
        fs::rename(job.path("tree/gitops-plan"), job.path("work/plan")).unwrap();
        let output = Forge::github().post(&job, &variables);
        assert!(output.status.success(), "{}", text(&output));
    }
    assert!(!job.folder.path().join("ran").exists());
}

#[test]
fn a_snapshot_that_the_pull_request_can_change_is_refused() {
    let job = Job::new("ci-snapshot");
    job.install(None);
    let copied = job.folder.path().join("tree/cluster.json.gz");
    fs::copy(job.path("shop.json.gz"), &copied).unwrap();
    let relative = [("GITOPS_SNAPSHOT", "cluster.json.gz")];
    // An artifact of another job is in the checkout, but no file of the repository.
    let output = job.plan(&relative);
    assert!(output.status.success(), "{}", text(&output));
    job.folder.git(&["-C", "tree", "add", "cluster.json.gz"]);
    for variables in [relative, [("GITOPS_SNAPSHOT", copied.to_str().unwrap())]] {
        let output = job.plan(&variables);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output).contains("which a pull request can change"), "{}", text(&output));
    }
    // So it is behind a link, and so is a kubeconfig: it can name a program.
    std::os::unix::fs::symlink(".", job.path("tree/linked")).unwrap();
    for variables in [
        [("GITOPS_SNAPSHOT", "linked/cluster.json.gz"), ("GITOPS_KUBECONFIG", "")],
        [("GITOPS_SNAPSHOT", ""), ("GITOPS_KUBECONFIG", "cluster.json.gz")],
    ] {
        let output = job.plan(&variables);
        assert!(text(&output).contains("which a pull request can change"), "{}", text(&output));
    }
    // Whose files a submodule has, the pull request says.
    job.folder.git(&["init", "--quiet", "other"]);
    fs::copy(job.path("shop.json.gz"), job.path("other/cluster.json.gz")).unwrap();
    commit(&job.folder.path().join("other"));
    job.folder.git(&[
        "-C",
        "tree",
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        &job.path("other"),
        "sub",
    ]);
    let output = job.plan(&[("GITOPS_SNAPSHOT", "sub/cluster.json.gz")]);
    assert!(text(&output).contains("which a pull request can change"), "{}", text(&output));
    std::os::unix::fs::symlink("/etc/hostname", job.path("link")).unwrap();
    let link = job.path("link");
    for (variables, message) in [
        ([("GITOPS_SNAPSHOT", link.as_str()), ("GITOPS_KUBECONFIG", "")], "is no file"),
        ([("GITOPS_SNAPSHOT", ""), ("GITOPS_KUBECONFIG", "")], "there is no cluster to plan for"),
        ([("GITOPS_SNAPSHOT", &link), ("GITOPS_KUBECONFIG", &link)], "not both"),
    ] {
        let output = job.plan(&variables);
        assert!(!output.status.success() && text(&output).contains(message), "{}", text(&output));
    }
}

#[test]
fn the_plan_of_a_mistyped_path_is_posted_once_and_then_updated() {
    for forge in [Forge::github(), Forge::gitlab()] {
        let job = Job::new("ci-forge");
        job.install(None);
        job.mistype_the_path_of_web();
        let output = job.plan(&[]);
        assert!(output.status.success(), "{}", text(&output));
        assert_eq!(job.planned("exit-code"), "6\n");
        let plan: Value = serde_json::from_str(&job.planned("plan.json")).unwrap();
        assert_eq!(plan["alarms"][0]["code"], "owner-emptied", "{plan}");
        assert!(job.planned("plan.html").starts_with("<!DOCTYPE html>"));

        let first = forge.post(&job, &[("GITOPS_LINK", "https://ci.example.com/1")]);
        assert!(first.status.success(), "{}", text(&first));
        let [posted, updated] = forge.written();
        assert_eq!((posted.len(), updated.len()), (1, 0), "the comment of somebody else is not taken over");
        let start = format!("{MARKER}\n🛑 **Alarm:** `this deletes 100 % of kustomization/web -n flux-system");
        assert!(posted[0].starts_with(&start), "{}", posted[0]);
        assert!(posted[0].ends_with("\nCommit: c0ffee · [all files of the plan](https://ci.example.com/1)\n"));

        // The own comment is on the second page; the first one is full of others.
        let others = vec![forge.foreign(); 100];
        let quoting = forge.comment(2, true, &format!("> {MARKER}\nquoted"));
        forge.list(1, &others);
        forge.list(2, &[quoting.clone(), forge.comment(300, true, &format!("{MARKER}\nold"))]);
        let second = forge.post(&job, &[]);
        assert!(second.status.success(), "{}", text(&second));
        let [posted, updated] = forge.written();
        assert_eq!((posted.len(), updated.len()), (1, 1));
        assert!(updated[0].starts_with(&start));

        // A plan of another name has a comment of its own, and may be posted by a job that has only its files.
        let (other, planned) = (job.path("other/job"), job.path("work/plan"));
        let variables = [("GITOPS_NAME", "eu"), ("GITOPS_DIR", other.as_str()), ("GITOPS_PLAN", planned.as_str())];
        let refused = forge.post(&job, &variables);
        assert!(text(&refused).contains("there is no program"), "{}", text(&refused));
        job.install_into(&other);
        // What the job of the plan wrote for people is not read.
        for file in ["plan.md", "plan.html"] {
            job.folder.write(&format!("work/plan/{file}"), "![x](https://example.com/x.png) @everyone /approve");
        }
        let named = forge.post(&job, &variables);
        assert!(named.status.success(), "{}", text(&named));
        let posted = &forge.written()[0][1];
        assert!(posted.starts_with("<!-- kubectl gitops: plan eu -->\n**eu**\n"));
        assert_eq!(
            posted.split_once("**eu**\n\n").unwrap().1.split("\nCommit:").next(),
            updated[0].split_once("-->\n").unwrap().1.split("\nCommit:").next()
        );

        for request in forge.api.requests() {
            let header = if forge.name == "gitlab" { "private-token" } else { "authorization" };
            assert!(request.header(header).unwrap().ends_with(TOKEN), "{request:?}");
        }
    }
}

#[test]
fn errors_of_the_forge_are_failures_with_a_message() {
    let job = Job::new("ci-errors");
    job.install(Some(PRINTING));
    job.folder.write("code", "0");
    assert!(job.plan(&[]).status.success());
    let message = "{\"message\": \"Resource not accessible\\n::set-env name=a::b\"}";
    for (make, hint) in [(Forge::github as fn() -> Forge, "pull-requests: write"), (Forge::gitlab, "the scope api")] {
        let forge = make();
        forge.api.on(&format!("POST {}", forge.comments), [Answer::raw(403, "application/json", message)]);
        let output = forge.post(&job, &[]);
        assert_eq!(output.status.code(), Some(1));
        let said = text(&output);
        assert!(said.contains("status 403: \"Resource not accessible\\n::set-env name=a::b\""), "{said}");
        assert!(said.contains(hint) && !said.contains(TOKEN) && !said.contains("\n::"), "{said}");

        for answer in [
            Answer::raw(500, "text/html", "<html>"),
            Answer::json(json!({"message": "no list"})),
            Answer::raw(200, "text/html", "<html>"),
            Answer::drop_connection(),
        ] {
            let forge = make();
            forge.api.on(&format!("GET {}*", forge.comments), [answer]);
            let output = forge.post(&job, &[]);
            assert_eq!(output.status.code(), Some(1), "{}", text(&output));
            assert!(text(&output).contains("error: GET http"), "{}", text(&output));
            assert_eq!(forge.writes(), 0, "nothing is posted if the comments cannot be read");
        }
    }

    let forge = Forge::github();
    for (variables, message) in [
        ([("GITOPS_NUMBER", "")], "belongs to no pull request"),
        ([("GITOPS_NUMBER", "7/../8")], "belongs to no pull request"),
        ([("GITOPS_COMMIT", "x](y)")], "the commit is no digest"),
        ([("GITOPS_NAME", "--> x")], "name may have letters"),
        ([("GITOPS_TOKEN", "a\"\nurl = \"b")], "the token has characters"),
        ([("GITOPS_TOKEN", "")], "there is no token"),
    ] {
        let output = forge.post(&job, &variables);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output).contains(message), "{}", text(&output));
    }
    // The plan may come from another job: a link, a long text and a code that is none are refused.
    let file = |name: &str| job.folder.path().join("work/plan").join(name);
    job.install(Some("head -c 60001 /dev/zero | tr '\\0' x"));
    assert!(text(&forge.post(&job, &[])).contains("too long"));
    job.install(None);
    let document =
        |content: &str| json!({"schema": "kubectl-gitops/plan/v1", "complete": true, "extra": content}).to_string();
    for hostile in ["{", "[]", "$(id)", &document("x"), &"[".repeat(100_000), &fs::read_to_string("README.md").unwrap()]
    {
        fs::write(file("plan.json"), hostile).unwrap();
        let output = forge.post(&job, &[]);
        assert!(text(&output).contains("is no plan that this version"), "{}", text(&output));
    }
    fs::remove_file(file("plan.json")).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", file("plan.json")).unwrap();
    assert!(text(&forge.post(&job, &[])).contains("missing or empty"));
    fs::write(file("exit-code"), "$(id)").unwrap();
    assert!(text(&forge.post(&job, &[])).contains("is no exit code"));
    assert_eq!(forge.writes(), 0);
}

/// With a public key, an archive without a signature of this key is refused, whatever its sum.
fn check_signatures(job: &Job, archive: &str, install: impl Fn(&[(&str, &str)]) -> Output) {
    let keys = ["own", "other"].map(|name| {
        let path = job.path(&format!("{name}.pem"));
        let public = provenance::make_key(Path::new(&path)).unwrap();
        (path, public)
    });
    let signature = format!("{archive}.sig");
    let sign = |key: &str| {
        let signed = provenance::signature(Path::new(key), &fs::read(archive).unwrap()).unwrap();
        fs::write(&signature, signed).unwrap();
    };
    let refused = |why: &str| {
        let output = install(&[("GITOPS_PUBLIC_KEY", &keys[0].1)]);
        assert_eq!(output.status.code(), Some(1), "{why}");
        assert!(text(&output).contains(".sig") || text(&output).contains("nothing of it was run"), "{}", text(&output));
        assert!(!job.folder.path().join("work/bin/kubectl-gitops").exists(), "{why}");
    };
    refused("there is no signature");
    sign(&keys[1].0);
    refused("another key signed it");
    fs::write(&signature, "no signature").unwrap();
    refused("it is no signature");
    sign(&keys[0].0);
    let output = install(&[("GITOPS_PUBLIC_KEY", &keys[0].1)]);
    assert!(output.status.success(), "{}", text(&output));
    fs::remove_file(signature).unwrap();
}

/// Returns the pipeline of the page with the files of a job in place of a release and a recording.
fn pipeline(job: &Job, part: &str) -> String {
    let (archive, sum) = job.pack(&gitops::binary());
    let (snapshot, source) = (job.path("shop.json.gz"), "GitRepository/flux-system/shop");
    let more = format!("snapshot: {snapshot}, archive: {archive}, source: {source}}}");
    let text = snippet(part).replace("c0ffee…", &sum).replace("snapshot: cluster.json.gz}", &more);
    assert!(text.contains(&more), "{text}");
    text
}

fn commit(tree: &Path) {
    for args in [
        &["config", "user.name", "a"][..],
        &["config", "user.email", "a@example.com"],
        &["add", "--all"],
        &["commit", "--quiet", "--message", "x"],
    ] {
        xtask::git::run(tree, args).unwrap();
    }
}

/// Runs a program of a forge twice: it posts a comment, and updates it.
fn check_runner(forge: &Forge, run: impl Fn() -> Output) {
    for count in [0, 1] {
        let output = run();
        assert!(!output.status.success(), "the plan exceeds a limit: {}", text(&output));
        assert!(text(&output).contains("error: the plan exceeds a limit"), "{}", text(&output));
        let [posted, updated] = forge.written();
        assert_eq!((posted.len(), updated.len()), (1, count), "{}", text(&output));
        forge.list(1, &[forge.foreign(), forge.comment(300, true, &posted[0])]);
        assert!(posted[0].contains("this deletes 100 % of kustomization/web"), "{}", posted[0]);
    }
}

/// The action `upload-artifact` needs GitHub, so one that copies the files is in its place.
#[test]
#[ignore = "cargo xtask actions"]
fn act_runs_the_action() {
    let (forge, job) = (Forge::github(), Job::new("ci-act"));
    job.mistype_the_path_of_web();
    let tree = job.folder.path().join("tree");
    job.folder.write("tree/.github/workflows/plan.yaml", pipeline(&job, "jobs:"));
    xtask::git::run(&tree, &["remote", "add", "origin", "https://github.com/o/r"]).unwrap();
    commit(&tree);
    fs::create_dir_all(job.path("self")).unwrap();
    for folder in ["action", "ci"] {
        copy(&workspace_root().join(folder), &job.folder.path().join("self").join(folder));
    }
    let uploaded = job.path("uploaded");
    job.folder.write(
        "upload/action.yml",
        format!("name: upload\ndescription: copy\ninputs: {{name: {{required: true}}, path: {{required: true}}}}\nruns:\n  using: composite\n  steps: [{{shell: bash, env: {{FROM: '${{{{ inputs.path }}}}'}}, run: 'rm -rf {uploaded}; cp -R \"$FROM\" {uploaded}'}}]\n"),
    );
    let event = json!({
        "pull_request": {"number": 7, "head": {"ref": "x", "sha": "c0ffee", "repo": {"full_name": "o/r"}}, "base": {"ref": "main"}},
        "repository": {"full_name": "o/r", "name": "r", "owner": {"login": "o"}},
    });
    let event = job.folder.write("event.json", event.to_string());
    let action = fs::read_to_string("action/action.yml").unwrap();
    let upload = action.split_once("uses: actions/upload-artifact@").unwrap().1[..40].to_owned();
    check_runner(&forge, || {
        let mut act = actions::act();
        act.args(["pull_request", "-P", "ubuntu-24.04=-self-hosted", "-e"]).arg(&event).current_dir(&tree);
        act.arg(format!("--local-repository=kubectl-gitops/kubectl-gitops@v0.1.0={}", job.path("self")));
        act.arg(format!("--local-repository=actions/upload-artifact@{upload}={}", job.path("upload")));
        act.arg(format!("--env=GITHUB_API_URL={}", forge.api.url())).args(["-s", &format!("GITHUB_TOKEN={TOKEN}")]);
        let path = format!("{}:{}", job.kubectl.display(), std::env::var("PATH").unwrap());
        act.env("PATH", path).env("HOME", job.path("home")).output().unwrap()
    });
    let page = fs::read_to_string(job.folder.path().join("uploaded/plan.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>"));
}

#[test]
#[ignore = "cargo xtask actions"]
fn gitlab_ci_local_runs_the_component() {
    let (forge, job) = (Forge::gitlab(), Job::new("ci-gitlab-local"));
    job.mistype_the_path_of_web();
    let tree = job.folder.path().join("tree");
    fs::copy(actions::COMPONENT, tree.join("component.yml")).unwrap();
    let address =
        "remote: https://raw.githubusercontent.com/kubectl-gitops/kubectl-gitops/v0.1.0/ci/templates/plan.yml";
    let text = pipeline(&job, "include:");
    assert!(text.contains(address), "{text}");
    job.folder.write("tree/.gitlab-ci.yml", text.replace(address, "local: component.yml"));
    xtask::git::run(&tree, &["remote", "add", "origin", "git@gitlab.com:o/r.git"]).unwrap();
    commit(&tree);
    check_runner(&forge, || {
        let mut runner = actions::gitlab_ci_local(&job.kubectl);
        runner.args(["--force-shell-executor", "--shell-isolation"]).current_dir(&tree).env("HOME", job.path(""));
        for variable in [
            "CI_PIPELINE_SOURCE=merge_request_event",
            "CI_MERGE_REQUEST_IID=7",
            "CI_PROJECT_ID=9",
            &format!("CI_API_V4_URL={}", forge.api.url()),
            &format!("NOTE_TOKEN={TOKEN}"),
        ] {
            runner.args(["--variable", variable]);
        }
        runner.output().unwrap()
    });
    let page = fs::read_to_string(tree.join("gitops-plan/plan.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>"));
}
