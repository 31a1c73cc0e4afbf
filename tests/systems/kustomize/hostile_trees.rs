//! Hostile and odd trees beside the build of the controller: what it refuses does not succeed here, what it builds is built
//! in the same way or reported as a gap, and nothing outside of the tree is read or contacted.

use std::fmt::Write;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use gitops_core::flux::build::generator::{self, GenerateError};
use gitops_core::flux::build::references::{self, ReferenceError};
use gitops_core::flux::build::{self, Answers, BuildContext, BuildFailure, Interrupt, Needs, Run};
use gitops_core::flux::kustomize_controller::{Features, KustomizeVersions};
use gitops_core::flux::spec::{KustomizationSpec, NamespacedName};
use insta::assert_snapshot;
use kubectl_gitops::tools::programs::kustomize::Kustomize;
use kubectl_gitops::tools::sandbox::Sandbox;
use test_support::folder::Folder;
use test_support::gitops::binary;
use xtask::controlplane::{bin, ensure};

use super::corpus::{self, Case};
use super::judge::{self, Verdict};

/// Content of the file that no tree may read.
const MARKER: &str = "content from outside";

/// Verdict on a tree before kustomize runs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Check {
    /// kustomize runs.
    Runs,
    /// The controller refuses the tree too.
    Refused,
    Fetches,
    Unsafe,
    Unreadable,
}

fn check(case: &Case) -> Check {
    let generated = match generator::generate(&case.artifact, &case.spec, false) {
        Ok(generated) => generated,
        Err(GenerateError::Unreadable(..)) => return Check::Unreadable,
        Err(_) => return Check::Refused,
    };
    match references::check(&case.artifact, &generated) {
        Ok(inputs) if inputs.remote.is_empty() => Check::Runs,
        Ok(_) => Check::Fetches,
        Err(ReferenceError::Refused(_)) => Check::Refused,
        Err(ReferenceError::Unsafe(_)) => Check::Unsafe,
        Err(ReferenceError::Unreadable(_)) => Check::Unreadable,
    }
}

/// A build that waits for answers, or its result.
enum Step {
    Run(Box<Run>),
    Done(Result<String, BuildFailure>),
}

fn step(case: &Case, answers: &Answers) -> Step {
    let owner = NamespacedName { namespace: "n".to_owned(), name: "k".to_owned() };
    let mut needs = Needs::default();
    let mut context = BuildContext::new(Features::default(), answers, &mut needs);
    let artifact = Arc::new(case.artifact.clone());
    match build::build_text(&artifact, &owner, &KustomizationSpec::new(&case.spec), &mut context) {
        Ok(built) => Step::Done(Ok(built)),
        Err(Interrupt::Failed(failure)) => Step::Done(Err(failure)),
        Err(Interrupt::Missing) => Step::Run(Box::new(needs.runs.into_values().next().expect("a build needs a run"))),
    }
}

/// Builds all trees with the real kustomize.
async fn build_all(cases: &[Case], sandbox: Sandbox) -> Vec<Result<String, BuildFailure>> {
    let mut kustomize = Kustomize::new(Some(&bin("kustomize"))).without_cache();
    (kustomize.program.sandbox, kustomize.program.limit) = (sandbox, Duration::from_secs(60));
    let program = kustomize.version().await.unwrap();
    let versions = KustomizeVersions { program, linked: Some("5.8") };
    let mut answers = Answers::default();
    let first = cases.iter().map(|case| step(case, &answers));
    let runs: Vec<Run> = first.filter_map(|step| if let Step::Run(run) = step { Some(*run) } else { None }).collect();
    for (key, output) in kustomize.run_all(&versions, runs, 2, |_, _| {}).await.unwrap() {
        answers.record_run(key, output);
    }
    let results = cases.iter().map(|case| match step(case, &answers) {
        Step::Done(result) => result,
        Step::Run(_) => panic!("{}: the build needs a second run", case.name),
    });
    results.collect()
}

fn in_words(result: &Result<String, BuildFailure>) -> &'static str {
    match result {
        Ok(_) => "builds",
        Err(BuildFailure::Proven(_)) => "blocked",
        Err(BuildFailure::Unknown(_)) => "gap",
    }
}

fn verdict_in_words(verdict: &Verdict) -> &'static str {
    match (&verdict.output, verdict.contacts) {
        (_, 1..) => "contacts",
        (Some(_), 0) => "builds",
        (None, 0) => "refuses",
    }
}

#[tokio::test]
async fn no_tree_succeeds_reads_or_connects_where_the_controller_refuses_it() {
    ensure(&["kustomize"]).unwrap();
    let outside = Folder::new("outside");
    let file = outside.write("outside.txt", MARKER);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let cases = corpus::cases(listener.local_addr().unwrap().port(), &file.to_string_lossy());
    let questions: Vec<_> = cases.iter().map(|case| judge::build_question(&case.artifact, &case.spec)).collect();
    let verdicts = judge::ask(&questions);
    let checks: Vec<Check> = cases.iter().map(check).collect();
    let mut tables = Vec::new();
    for sandbox in [Sandbox::launched_by(binary()), Sandbox::off()] {
        let results = build_all(&cases, sandbox).await;
        let mut table = String::new();
        let mut wrong = Vec::new();
        for (((case, verdict), check), result) in cases.iter().zip(&verdicts).zip(&checks).zip(&results) {
            let name = &case.name;
            let judged = verdict_in_words(verdict);
            writeln!(table, "{name:<78} {judged:<9} {:<10} {}", format!("{check:?}"), in_words(result)).unwrap();
            let mut claim = |holds: bool, what: &str| {
                if !holds {
                    wrong.push(format!("{name}: {what}\nthe controller: {verdict:?}\nhere: {check:?}, {result:?}"));
                }
            };
            claim(verdict.output.is_some() || result.is_err(), "it succeeds where the controller refuses it");
            let is_same = result.as_ref().is_ok_and(|ours| Some(ours) == verdict.output.as_ref());
            let is_gap = matches!(result, Err(BuildFailure::Unknown(_)));
            claim(verdict.output.is_none() || is_same || is_gap, "it differs from the controller's build");
            claim(
                verdict.contacts == 0 || *check != Check::Runs,
                "kustomize runs where the controller contacts another machine",
            );
            claim(!matches!(result, Ok(ours) if ours.contains(MARKER)), "it reads a file outside of the tree");
        }
        assert!(listener.accept().is_err(), "nothing connects");
        assert!(wrong.is_empty(), "{} of {} trees:\n{}", wrong.len(), cases.len(), wrong.join("\n\n"));
        tables.push(table);
    }
    assert_eq!(tables[0], tables[1], "the sandbox changes no result");
    let judged = |word: &str| verdicts.iter().filter(|verdict| verdict_in_words(verdict) == word).count();
    let ours = |word: &str| tables[0].lines().filter(|line| line.ends_with(word)).count();
    let checked = [Check::Runs, Check::Refused, Check::Fetches, Check::Unsafe, Check::Unreadable]
        .map(|check| format!("{check:?} {}", checks.iter().filter(|other| **other == check).count()));
    let counts = [
        format!("{} trees", cases.len()),
        format!(
            "the controller: builds {}, refuses {}, contacts {}",
            judged("builds"),
            judged("refuses"),
            judged("contacts")
        ),
        format!("before kustomize: {}", checked.join(", ")),
        format!("here: builds {}, blocked {}, gap {}", ours("builds"), ours("blocked"), ours("gap")),
    ];
    assert_snapshot!(format!("{}\n{}", counts.join("\n"), tables[0]));
}

#[test]
fn the_corpus_has_all_its_trees() {
    let cases = corpus::cases(1, "/outside");
    assert!(cases.len() >= 150, "{}", cases.len());
    let mut names: Vec<_> = cases.iter().map(|case| &case.name).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), cases.len(), "every name is there once");
}
