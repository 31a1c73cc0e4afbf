//! Substitution, ignore files and globs beside the modules of Flux, on random texts that are mostly valid.

mod generate;
mod generators;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::thread;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gitops_core::flux::build::envsubst::{EnvsubstError, substitute};
use gitops_core::flux::source::ignore::Patterns;
use gitops_core::glob::Glob;
use serde_json::{Value, json};
use test_support::random::Random;
use xtask::controlplane;

/// Number of texts of each kind.
const TEXTS: usize = 10_000;
/// Number of differences that a failure shows.
const SHOWN: usize = 20;

/// Returns the answer of the judge to each question, in order.
fn judge(questions: &[Value]) -> Vec<Value> {
    controlplane::ensure(&["text-judge"]).unwrap();
    let mut child = Command::new(controlplane::bin("text-judge"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("text-judge: {error}"));
    let mut input = child.stdin.take().unwrap();
    let lines: String = questions.iter().map(|question| format!("{question}\n")).collect();
    let writer = thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = BufReader::new(child.stdout.take().unwrap());
    let answers: Vec<Value> = output.lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    writer.join().unwrap().unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(answers.len(), questions.len());
    answers
}

/// Fails with the first differences.
fn assert_none(kind: &str, differences: &[String]) {
    let shown = differences.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(differences.is_empty(), "{} of {TEXTS} {kind} differ:\n{shown}", differences.len());
}

fn text_of(answer: &Value) -> Result<String, String> {
    match answer["error"].as_str() {
        Some("") => String::from_utf8(STANDARD.decode(answer["text"].as_str().unwrap_or_default()).unwrap())
            .map_err(|_| "not UTF-8".to_owned()),
        error => Err(error.unwrap_or_default().to_owned()),
    }
}

/// Returns true if both have the same text, or fail for the same reason.
fn is_equal(ours: &Result<String, EnvsubstError>, theirs: &Result<String, String>) -> bool {
    match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => ours == theirs,
        (Err(EnvsubstError::NotUtf8), Err(theirs)) => theirs == "not UTF-8",
        (Err(EnvsubstError::Unset(_)), Err(theirs)) => theirs.starts_with("variable not set"),
        (Err(EnvsubstError::Overflow(_)), Err(theirs)) => theirs.starts_with("panic"),
        (Err(EnvsubstError::Malformed(_)), Err(theirs)) => {
            !["not UTF-8", "variable", "panic"].iter().any(|other| theirs.starts_with(other))
        }
        _ => false,
    }
}

#[test]
fn substitution_gives_the_text_that_flux_gives() {
    let mut random = Random::new(1);
    let cases: Vec<_> = (0..TEXTS).map(|_| generate::substitution(&mut random)).collect();
    let encoded = |variables: &BTreeMap<&str, String>| -> serde_json::Map<String, Value> {
        variables.iter().map(|(name, value)| ((*name).to_owned(), STANDARD.encode(value).into())).collect()
    };
    let questions: Vec<Value> = cases
        .iter()
        .map(|case| {
            let (text, variables) = (STANDARD.encode(&case.text), encoded(&case.variables));
            json!({"envsubst": {"text": text, "variables": variables, "strict": case.strict}})
        })
        .collect();
    let mut differences = vec![];
    let mut substituted = 0;
    for (case, answer) in cases.iter().zip(judge(&questions)) {
        let ours = substitute(&case.text, |name| case.variables.get(name).map(String::as_str), case.strict);
        let theirs = text_of(&answer);
        substituted += usize::from(theirs.is_ok());
        if !is_equal(&ours, &theirs) {
            let (text, variables, strict) = (&case.text, &case.variables, case.strict);
            differences.push(format!("{text:?} {variables:?} strict={strict}\n  ours {ours:?}\n  Flux {theirs:?}"));
        }
    }
    assert_none("substitutions", &differences);
    assert!(substituted > TEXTS / 2, "only {substituted} texts were valid");
}

#[test]
fn ignore_files_exclude_the_paths_that_source_controller_excludes() {
    let mut random = Random::new(2);
    let cases: Vec<_> = (0..TEXTS).map(|_| generate::ignored_path(&mut random)).collect();
    let questions: Vec<Value> = cases
        .iter()
        .map(|case| {
            let segments = |path: &str| -> Vec<String> {
                path.split('/').filter(|segment| !segment.is_empty()).map(str::to_owned).collect()
            };
            let files: Vec<Value> = case
                .files
                .iter()
                .map(|(directory, text)| json!({"directory": segments(directory), "text": STANDARD.encode(text)}))
                .collect();
            json!({"ignore": {"files": files, "path": segments(&case.path), "isDirectory": case.is_directory}})
        })
        .collect();
    let mut differences = vec![];
    let mut excluded = 0;
    for (case, answer) in cases.iter().zip(judge(&questions)) {
        let mut patterns = Patterns::default();
        for (directory, text) in &case.files {
            patterns.add(directory, text).unwrap();
        }
        let ours = patterns.with_defaults().excludes(&case.path, case.is_directory);
        let theirs = answer["matches"] == true;
        excluded += usize::from(theirs);
        if ours != theirs {
            differences.push(format!("{case:?}\n  ours {ours}, source-controller {theirs}"));
        }
    }
    assert_none("paths", &differences);
    assert!((TEXTS / 5..TEXTS * 4 / 5).contains(&excluded), "{excluded} paths were excluded");
}

#[test]
fn globs_match_the_names_that_go_matches() {
    let mut random = Random::new(3);
    let cases: Vec<_> = (0..TEXTS).map(|_| generate::glob(&mut random)).collect();
    let questions: Vec<Value> = cases
        .iter()
        .map(|(pattern, text)| json!({"glob": {"pattern": STANDARD.encode(pattern), "text": STANDARD.encode(text)}}))
        .collect();
    let mut differences = vec![];
    let mut matching = 0;
    for ((pattern, text), answer) in cases.iter().zip(judge(&questions)) {
        let ours = Glob::parse(pattern.as_bytes()).map(|glob| glob.matches(text.as_bytes())).ok();
        let theirs = (answer["error"] == "").then(|| answer["matches"] == true);
        matching += usize::from(theirs == Some(true));
        if ours.unwrap_or_default() != theirs.unwrap_or_default() {
            differences.push(format!("{pattern:?} {text:?}: ours {ours:?}, Go {theirs:?}"));
        }
    }
    assert_none("globs", &differences);
    assert!(matching > TEXTS / 10, "only {matching} patterns matched");
}
