//! Documents: the YAML is valid, the plugin accepts every command line, and printed outputs are real.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use clap::error::ErrorKind;
use gitops_core::plan::ReasonCode;
use gitops_core::plan::alarm::AlarmCode;
use kubectl_gitops::cli::Cli;
use serde_json::Value;
#[cfg(unix)]
use test_support::pages::{self, Scene};

use super::architecture::files;

const PIPELINES: [&str; 2] = ["docs/ci/github-actions.yaml", "docs/ci/gitlab-ci.yaml"];

/// Errors of a command line that names a verb without its objects.
const INCOMPLETE: [ErrorKind; 2] = [ErrorKind::MissingRequiredArgument, ErrorKind::DisplayHelp];

fn documents() -> Vec<PathBuf> {
    let mut found: Vec<_> = [
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "GOVERNANCE.md",
        "CODE_OF_CONDUCT.md",
        "ARCHITECTURE.md",
        "SECURITY.md",
    ]
    .map(PathBuf::from)
    .into();
    for folder in ["docs", "docs/ci"] {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        found.extend(entries.filter(|path| path.is_file()));
    }
    found
}

/// Returns the words of every command line that begins with `kubectl gitops`.
fn commands(text: &str) -> Vec<Vec<String>> {
    let text = text.replace("\\\n", " ");
    let starts = text.match_indices("kubectl gitops ").map(|(at, _)| &text[at..]);
    let line = |start: &str| start.lines().next().unwrap_or_default().split('`').next().unwrap_or_default().to_owned();
    // A table of figures names the program alone.
    starts.map(|start| words(&line(start))).filter(|words| words.len() > 2).collect()
}

/// Splits a line like a shell, up to a redirection, a pipe or the next command.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut started) = (vec![], String::new(), None, false);
    for character in line.chars().chain(" ".chars()) {
        match (character, quote) {
            (c, Some(open)) if c == open => quote = None,
            (c, Some(_)) => word.push(c),
            ('"' | '\'', None) => (quote, started) = (Some(character), true),
            (' ', None) if started => {
                words.push(std::mem::take(&mut word));
                started = false;
            }
            (' ', None) => {}
            ('>' | '|' | '&' | ';' | '#', None) if !started => break,
            (c, None) => {
                word.push(c);
                started = true;
            }
        }
    }
    words
}

#[test]
fn command_lines_are_split_as_a_shell_does() {
    let line = "kubectl gitops x \"a b\" 'c' -o=name > f || code=$?";
    assert_eq!(words(line), ["kubectl", "gitops", "x", "a b", "c", "-o=name"]);
}

#[test]
fn pipelines_are_yaml_with_a_recording_and_a_planning_job() {
    for path in PIPELINES {
        let pipeline: Value = serde_yaml::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        let jobs = pipeline.get("jobs").unwrap_or(&pipeline);
        let text = |job: &str| serde_json::to_string(&jobs[job]).unwrap();
        assert!(text("snapshot").contains("kubectl gitops snapshot"), "{path}");
        assert!(text("snapshot").contains("READ_ONLY_KUBECONFIG"), "{path}");
        assert!(text("plan").contains("/cluster.json.gz\\\" -o json"), "{path}");
        let posts = ["comment", "note"].map(text).concat();
        assert!(posts.contains("kubectl gitops plan --show"), "{path}: the job that posts renders the plan itself");
        assert!(!text("plan").to_lowercase().contains("kubeconfig"), "{path}: the plan has no credentials");
        assert!(
            !jobs["plan"]["permissions"].to_string().contains("write"),
            "{path}: the plan runs untrusted manifests"
        );
    }
}

#[test]
fn every_command_line_is_accepted() {
    let mut seen = 0;
    for path in documents() {
        for words in commands(&fs::read_to_string(&path).unwrap()) {
            let parsed = Cli::try_parse_from(words[1..].iter());
            assert!(parsed.is_ok(), "{}: {words:?}\n{}", path.display(), parsed.unwrap_err());
            seen += 1;
        }
    }
    assert!(seen > 25, "only {seen} command lines were found");
}

/// A hint with a command that fails is worse than none.
#[test]
fn every_command_of_a_message_is_accepted() {
    let mut seen = 0;
    for path in ["src", "crates/core/src"].into_iter().flat_map(|folder| files(Path::new(folder))) {
        let text = fs::read_to_string(&path).unwrap();
        let text: String = text.split("\\\n").map(str::trim_start).collect();
        let starts = text.match_indices("`kubectl gitops ").map(|(at, _)| &text[at + 1..]);
        let quoted = starts.filter_map(|rest| rest.split('`').next());
        // A placeholder stands for words of the run.
        for words in quoted.filter(|command| !command.contains(['{', '…'])).map(words) {
            let refused = Cli::try_parse_from(words[1..].iter()).err().map(|error| error.kind());
            let is_accepted = refused.is_none_or(|kind| INCOMPLETE.contains(&kind));
            assert!(is_accepted, "{}: {words:?}: {refused:?}", path.display());
            seen += 1;
        }
    }
    assert!(seen > 30, "only {seen} command lines were found");
}

/// kubectl takes a word with a slash for the path of a program, unless a flag comes before it
/// (docs/reference/kubectl-plugin.md 1).
#[test]
fn no_printed_command_lets_kubectl_run_a_file_of_the_current_directory() {
    // The heading that names the danger, and the page that explains it.
    let explained =
        ["kubectl gitops get ks/apps", "kubectl gitops retire kustomization/web", "kubectl gitops __complete"];
    let sources = ["src", "crates/core/src"].into_iter().flat_map(|folder| files(Path::new(folder)));
    let mut seen = 0;
    for path in documents()
        .into_iter()
        .chain(fs::read_dir("docs/reference").unwrap().map(|entry| entry.unwrap().path()))
        .chain(sources)
    {
        let text = fs::read_to_string(&path).unwrap().replace("\\\n", " ");
        for rest in text.match_indices("kubectl gitops ").map(|(at, _)| &text[at..]) {
            let end = rest.find(['`', '"', '\n', '|', ')', '>', ';', '#']).unwrap_or(rest.len());
            let named = rest[..end].split_whitespace().take_while(|word| !word.starts_with('-'));
            let is_explained = explained.iter().any(|command| rest.starts_with(command));
            assert!(
                is_explained || !named.clone().any(|word| word.contains('/')),
                "{}: {}",
                path.display(),
                &rest[..end]
            );
            seen += 1;
        }
    }
    assert!(seen > 100, "only {seen} command lines were found");
}

/// tests/live/pages.rs runs those that need a cluster or kustomize.
#[cfg(unix)]
#[test]
fn commands_on_recorded_clusters_print_what_their_page_shows() {
    let mut examples = pages::examples();
    examples.retain(|example| example.not_run().is_none() && example.is_offline());
    assert!(examples.len() > 5, "only {} commands were found", examples.len());
    let report = pages::check(&examples, || Scene::new(None));
    xtask::answer(report.unwrap_or_else(|wrong| panic!("{wrong}")));
}

/// The shell creates the file of a redirection before the plan reads its checkout, which then has an uncommitted change.
#[test]
fn no_example_of_a_plan_writes_into_its_own_checkout() {
    let plans = pages::examples().into_iter().filter(|example| example.command.contains("gitops plan"));
    let writing: Vec<String> = plans.map(|plan| plan.command).filter(|command| command.contains(" > ")).collect();
    assert_eq!(writing, [""; 0]);
}

/// The third column of the tables in docs/gc-cases.md names tests; a shortened name ends with an ellipsis.
#[test]
fn cases_of_garbage_collection_name_existing_tests() {
    let page = fs::read_to_string("docs/gc-cases.md").unwrap();
    let tests: String = ["qbec/cases.rs", "fluxd/cases.rs", "fluxd/edges.rs", "fluxd/configuration_changes.rs"]
        .map(|file| fs::read_to_string(format!("tests/systems/{file}")).unwrap())
        .concat();
    let mut seen = 0;
    for cell in page.lines().filter_map(|line| line.split('|').nth(3)) {
        for name in cell.split([',', ' ']).filter(|word| word.contains('_') && !word.contains('/')) {
            let function = name.strip_suffix('…').map_or(format!("fn {name}("), |start| format!("fn {start}"));
            assert!(tests.contains(&function), "{name}");
            seen += 1;
        }
    }
    assert!(seen > 15, "only {seen} tests were found");
}

#[test]
fn every_reason_code_is_documented_with_its_meaning() {
    let page = fs::read_to_string("docs/plan.md").unwrap();
    for (code, meaning) in ReasonCode::ALL {
        assert!(page.contains(&format!("| `{code}` | {meaning} |\n")), "docs/plan.md lacks {code}: {meaning}");
    }
}

#[test]
fn every_alarm_code_is_documented() {
    let page = fs::read_to_string("docs/alarm.md").unwrap();
    let codes = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | ")).map(|(code, _)| code);
    let expected: Vec<String> = AlarmCode::ALL.iter().map(ToString::to_string).collect();
    assert_eq!(codes.collect::<Vec<_>>(), expected);
    let page = fs::read_to_string("docs/plan.md").unwrap();
    let alarms = page.split_once("## Alarms\n").unwrap().1.split("\n## ").next().unwrap();
    let codes = alarms.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | ")).map(|(code, _)| code);
    assert_eq!(codes.collect::<Vec<_>>(), expected);
}

#[test]
fn every_content_of_a_subject_is_documented() {
    let page = fs::read_to_string("docs/plan.md").unwrap();
    let row = page.lines().find(|line| line.starts_with("| `content` |")).unwrap();
    let schema: Value = serde_json::from_str(&fs::read_to_string("docs/schemas/plan-v1.json").unwrap()).unwrap();
    let contents = schema["$defs"]["SubjectContent"]["oneOf"].as_array().unwrap();
    assert!(contents.len() > 4);
    for content in contents {
        assert!(row.contains(&format!("`{}`", content["const"].as_str().unwrap())), "docs/plan.md lacks {content}");
    }
}
