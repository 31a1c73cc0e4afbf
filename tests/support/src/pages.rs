//! Command lines of README.md, of the pages in docs/ and of the help, and the outputs that the pages show.
//!
//! In a block of a page, a line that begins with `$ ` is a command, and its output follows. In a block without such a line,
//! every line that begins with `kubectl` is a command whose output is not shown. `PAGES=write cargo test` writes the outputs
//! into the pages again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Command as Help;
use regex::Regex;
use xtask::{controlplane, demo, workspace_root};

use crate::folder::Folder;
use crate::gitops::binary;

/// Commands that do not run, by a part of their text, and why.
const NOT_RUN: [(&str, &str); 23] = [
    ("kubectl krew", "installs into the home of the user"),
    ("kubectl gitops man -- ~", "the man pages have a test of their own"),
    ("kubectl apply -f config/rbac", "the roles have a test of their own"),
    ("kubectl create serviceaccount", "the roles have a test of their own"),
    ("kubectl create clusterrolebinding", "the roles have a test of their own"),
    ("kubectl create -f DIR", "DIR is a placeholder; backups have a test of their own"),
    ("kubectl gitops plan --show plan.json", "tests/offline/leaks.rs shows plans again, without a cluster"),
    ("kubectl gitops prune --apply plan.json", "plan files have tests of their own, which delete"),
    ("--write steps/ --apply", "waits until branches are merged; tests/live/plan/applying.rs merges them"),
    ("retire --apply", "waits until its patch is merged; tests/live/plan/retire.rs does that"),
    ("kubectl gitops guard", "would guard the cluster of all pages; tests/live/plan/guard.rs installs it"),
    ("kubectl gitops prune qbec", "needs an app of qbec; tests/systems has them"),
    ("kubectl gitops prune flux-v1", "needs fluxd; tests/systems has it"),
    ("kubectl gitops prune applyset", "needs an ApplySet; tests/systems has them"),
    ("--allow-network", "fetches from a repository of charts"),
    ("--charts charts", "needs charts; tests/live/plan/upgrades.rs has them"),
    ("--with-charts", "needs source-controller's Service; tests/live/plan/stored_charts.rs has it"),
    ("--spoke ", "needs a second cluster; tests/live/plan/spokes.rs has it"),
    ("--owner-context hub", "needs a second cluster; tests/live/inventory/hub.rs has it"),
    ("--contexts ", "needs several clusters; tests/live/clusters.rs has them"),
    ("--all-contexts", "needs several clusters; tests/live/clusters.rs has them"),
    ("--snapshots ", "needs recordings of several clusters; tests/offline/fleet.rs has them"),
    (" -w", "watches until it is interrupted"),
];

/// A command line of a page or of a help text.
#[derive(Debug)]
pub struct Example {
    /// File of the page, or the name of the help.
    pub page: String,
    /// The command line. A line that continues is joined.
    pub command: String,
    /// The output that the page shows.
    pub output: Option<String>,
    /// Lines of the file that have the output.
    place: Range<usize>,
}

impl Example {
    /// Returns why the command does not run, if it does not.
    pub fn not_run(&self) -> Option<&'static str> {
        NOT_RUN.iter().find(|(part, _)| self.command.contains(part)).map(|(_, reason)| *reason)
    }

    /// Returns true if the command changes nothing, writes no file, and no page shows its output.
    fn is_question(&self) -> bool {
        let reads = ["get", "inventory", "plan"].iter().any(|verb| self.command.contains(&format!("gitops {verb}")));
        reads && self.output.is_none() && !self.command.contains('>') && !self.command.contains("--report")
    }

    /// Returns true for a code that is an answer: 3 to 6 are deletions, a question without an answer, a gap and an alarm. An
    /// error is one if the page shows it.
    fn may_end_with(&self, code: i32) -> bool {
        let shows_error = self.output.as_ref().is_some_and(|output| output.contains("error: "));
        matches!(code, 0 | 3..=6) || (shows_error && matches!(code, 1 | 2))
    }

    /// Returns true if the command needs neither a cluster nor kustomize.
    pub fn is_offline(&self) -> bool {
        let builds = ["gitops plan", "--repo", "--source"].iter().any(|word| self.command.contains(word));
        let reads_cluster = !self.command.contains("--snapshot");
        let needs_none = ["gitops version", "gitops completion", "gitops options", "-h", "--help"];
        needs_none.iter().any(|word| self.command.contains(word)) || !(builds || reads_cluster)
    }
}

/// Returns the examples of every page and help text, in order.
pub fn examples() -> Vec<Example> {
    let mut files: Vec<PathBuf> =
        fs::read_dir("docs").expect("docs").map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    files.push(PathBuf::from("README.md"));
    files.sort();
    let mut found = vec![];
    for file in files {
        let text = fs::read_to_string(&file).expect("a page");
        found.extend(of_page(&file.display().to_string(), &text));
    }
    let mut root = kubectl_gitops::cli::command();
    root.build();
    of_help(&root, "help", &mut found);
    found
}

/// Returns the examples of the fenced blocks of a page.
fn of_page(page: &str, text: &str) -> Vec<Example> {
    let lines: Vec<&str> = text.lines().collect();
    let (mut found, mut number) = (vec![], 0);
    while number < lines.len() {
        let Some(language) = lines[number].trim_start().strip_prefix("```") else {
            number += 1;
            continue;
        };
        let begin = number + 1;
        let length = lines[begin..].iter().take_while(|line| !line.trim_start().starts_with("```")).count();
        if ["", "console", "sh"].contains(&language) {
            found.extend(of_block(page, &lines, begin..begin + length));
        }
        number = begin + length + 1;
    }
    found
}

fn of_block(page: &str, lines: &[&str], block: Range<usize>) -> Vec<Example> {
    let is_session = lines[block.clone()].iter().any(|line| line.starts_with("$ "));
    let mut found: Vec<Example> = vec![];
    let mut number = block.start;
    while number < block.end {
        let line = lines[number].trim_start();
        let begins = if is_session { line.strip_prefix("$ ") } else { line.starts_with("kubectl ").then_some(line) };
        number += 1;
        let Some(begin) = begins else {
            if let Some(Example { output: Some(output), place, .. }) = found.last_mut() {
                let _ = writeln!(output, "{}", lines[number - 1]);
                place.end = number;
            }
            continue;
        };
        let mut command = begin.to_owned();
        while command.ends_with('\\') && number < block.end {
            command.truncate(command.len() - 1);
            command += lines[number].trim_start();
            number += 1;
        }
        let output = is_session.then(String::new);
        found.push(Example { page: page.to_owned(), command, output, place: number..number });
    }
    found
}

/// Adds the examples in the help of a command and of those below it.
fn of_help(command: &Help, name: &str, found: &mut Vec<Example>) {
    let texts = [command.get_after_help(), command.get_after_long_help()];
    let mut lines: Vec<String> = vec![];
    for text in texts.into_iter().flatten() {
        // A command that continues is joined.
        let text = text.to_string().replace("\\\n    ", "");
        lines.extend(text.lines().filter_map(|line| line.strip_prefix("  ")).map(str::to_owned));
    }
    lines.retain(|line| line.starts_with("kubectl gitops "));
    lines.dedup();
    for command in lines {
        found.push(Example { page: name.to_owned(), command, output: None, place: 0..0 });
    }
    for verb in command.get_subcommands() {
        of_help(verb, &format!("{name} of {}", verb.get_name()), found);
    }
}

/// A checkout on a feature branch, and the programs that its commands need.
pub struct Scene {
    folder: Folder,
    kubeconfig: PathBuf,
}

impl Scene {
    /// Makes the checkout of the demo. Its commands read the cluster of `kubeconfig`, if there is one.
    pub fn new(kubeconfig: Option<&Path>) -> Self {
        let folder = Folder::outside_checkouts("pages");
        let scene = Self { kubeconfig: kubeconfig.map_or_else(|| folder.path().join("none"), Path::to_owned), folder };
        let tree = scene.tree();
        demo::checkout(&tree).expect("the checkout of the demo");
        for name in ["examples", "config"] {
            std::os::unix::fs::symlink(workspace_root().join(name), tree.join(name)).expect("a link");
        }
        fs::copy(workspace_root().join(demo::RECORDING), tree.join("prod.json.gz")).expect("a recording");
        fs::write(tree.join("accepted.yaml"), ACCEPTED).expect("a file of accepted findings");
        // A page may write files; the checkout is clean for each command.
        fs::write(tree.join(".git/info/exclude"), "/*\n!/apps\n!/clusters\n!/infrastructure\n").expect("ignored files");
        let programs = scene.folder.path().join("bin");
        fs::create_dir_all(&programs).expect("a folder of programs");
        std::os::unix::fs::symlink(binary(), programs.join("kubectl-gitops")).expect("a link");
        fs::create_dir_all(scene.folder.path().join("home/.local/bin")).expect("a home");
        scene
    }

    fn tree(&self) -> PathBuf {
        self.folder.path().join("shop")
    }

    /// Runs a command as a user types it, on a terminal of 120 columns, and answers a question with no. Returns its exit code
    /// and what the terminal shows.
    pub fn run(&self, example: &Example) -> (i32, String) {
        let path = [self.folder.path().join("bin"), controlplane::bin("")];
        let path: Vec<String> = path.iter().map(|folder| folder.display().to_string()).collect();
        let path = format!("{}:{}", path.join(":"), std::env::var("PATH").unwrap_or_default());
        // A terminal would echo the answer into an output that is compared.
        let answer = if example.output.is_none() { "printf 'n\\n' | " } else { "" };
        let line = format!("{answer}timeout 120 script -qec \"stty cols 120 rows 50; $COMMAND\" /dev/null");
        let mut script = Command::new("bash");
        script.args(["-c", &line]).env("COMMAND", &example.command).current_dir(self.tree()).stdin(Stdio::null());
        script.env("PATH", path).env("KUBECONFIG", &self.kubeconfig).env("HOME", self.folder.path().join("home"));
        script.env("NO_COLOR", "1").env("TERM", "dumb").env("SHELL", "/bin/bash").env_remove("XDG_CACHE_HOME");
        let output = script.output().expect("script of util-linux");
        let shown = String::from_utf8_lossy(&output.stdout).replace('\r', "").replace("^D\u{8}\u{8}", "");
        let shown = shown.replace(&*self.folder.path().to_string_lossy(), "~");
        (output.status.code().unwrap_or(-1), demo::without_age(&shown))
    }
}

const ACCEPTED: &str = "\
ignore:
- kind: ConfigMap
  namespace: web
  name: vouchers
  reason: kept until the sale ends
";

/// Runs the examples, page by page, and compares what they print with what the page shows. `scene` makes the checkout of a
/// page. Returns a report; the error is what differs.
pub fn check(examples: &[Example], scene: impl Fn() -> Scene) -> Result<String, String> {
    let (mut report, mut wrong) = (String::new(), String::new());
    let mut pages: BTreeMap<&str, Vec<&Example>> = BTreeMap::new();
    for example in examples {
        pages.entry(&example.page).or_default().push(example);
    }
    let mut ran = 0;
    let mut questions = BTreeSet::new();
    for (page, examples) in &pages {
        let scene = scene();
        let mut outputs = vec![];
        for example in examples {
            // A question whose answer no page shows is asked once.
            if !questions.insert(&example.command) && example.is_question() {
                let _ = writeln!(report, "{page}: ran before: {}", example.command);
                continue;
            }
            let (code, shown) = scene.run(example);
            ran += 1;
            let _ = writeln!(report, "{page}: exit code {code}: {}", example.command);
            if !example.may_end_with(code) {
                let _ = writeln!(wrong, "{page}: exit code {code}: {}\n{shown}", example.command);
            }
            outputs.push((*example, shown));
        }
        if std::env::var("PAGES").as_deref() == Ok("write") {
            write(page, &outputs);
            continue;
        }
        for (example, shown) in outputs {
            let differs = example.output.as_ref().is_some_and(|output| neutral(output) != neutral(&shown));
            if differs {
                let _ =
                    writeln!(wrong, "{page}: the page does not show what this prints: {}\n{shown}", example.command);
            }
        }
    }
    let report = format!("{ran} commands of {} pages and help texts ran\n{report}", pages.len());
    if wrong.is_empty() { Ok(report) } else { Err(format!("{report}\n{wrong}")) }
}

/// Writes the outputs into a page.
fn write(page: &str, outputs: &[(&Example, String)]) {
    let Ok(text) = fs::read_to_string(page) else { return };
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (example, shown) in outputs.iter().rev().filter(|(example, _)| example.output.is_some()) {
        lines.splice(example.place.clone(), shown.trim_end().lines().map(|line| line.trim_end().to_owned()));
    }
    fs::write(page, lines.join("\n") + "\n").expect("a page");
}

/// Replaces what differs from run to run by names: uids, times, ages, revisions, addresses, names of Pods, widths, and cells
/// that are cut to the width of the others.
fn neutral(text: &str) -> String {
    const RULES: [(&str, &str); 10] = [
        (r"\S+( \S+)* ?… ?\S*( \S+)*", "<cut>"),
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>"),
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?( ?UTC|Z)?", "<time>"),
        (r"https://127\.0\.0\.1:\d+", "<server>"),
        (r"sha256:[0-9a-f]+", "<digest>"),
        (r"\b[0-9a-f]{64}\b", "<digest>"),
        (r"-[0-9a-z]{8,10}-[0-9a-z]{5}\b", "-<pod>"),
        (r"\b\d+(ms|[smhd])(\d+[smh])?\b", "<age>"),
        (r"\b\d{4}-\d\d-\d\d\b", "<day>"),
        (r"[ ─-]{2,}", " "),
    ];
    let mut text = text.trim_end().to_owned();
    for (rule, name) in RULES {
        text = Regex::new(rule).expect("a rule").replace_all(&text, name).into_owned();
    }
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Panics if an entry of the list of commands that do not run belongs to no command.
pub fn check_exceptions(examples: &[Example]) {
    for (part, reason) in NOT_RUN {
        assert!(examples.iter().any(|example| example.command.contains(part)), "no command has {part:?}: {reason}");
    }
}

#[cfg(test)]
mod tests {
    use super::{neutral, of_page};

    #[test]
    fn sessions_have_outputs_and_plain_blocks_have_none() {
        let page = "text\n```\n$ kubectl a\nout\n\n$ kubectl b \\\n  -c\n```\n```yaml\nkubectl no\n```\n  ```\n  kubectl c\n  other\n  ```\n";
        let found = of_page("p", page);
        let seen: Vec<_> = found.iter().map(|example| (example.command.as_str(), example.output.as_deref())).collect();
        assert_eq!(seen, [("kubectl a", Some("out\n\n")), ("kubectl b -c", Some("")), ("kubectl c", None)]);
        assert_eq!(found[0].place, 3..5);
    }

    #[test]
    fn what_differs_from_run_to_run_has_a_name() {
        let text = "a  b 598de668-bd9f-40e3-aef6-d891c813c761 2026-11-23T08:36:43Z 25h web-dbd849dbb-9ds66\n";
        assert_eq!(neutral(text), "a b <uid> <time> <age> web-<pod>");
        for cut in ["True    9m    Applied revisi…2c0182", "True   2m5s   Applied … 0182'"] {
            assert_eq!(neutral(cut), "True <age> <cut>");
        }
    }
}
