//! Exclusions and merged files of ArtifactGenerators, beside the modules of source-watcher.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gitops_core::flux::generator::Stop;
use gitops_core::flux::generator::exclusion::Exclusion;
use gitops_core::flux::generator::merge::merge;
use serde_json::{Value, json};
use test_support::random::Random;

use super::{TEXTS, assert_none, judge, text_of};

/// Parts of patterns.
const PARTS: [&str; 28] = [
    "a", "b", "ab", "é", "/", "/", "*", "*", "**", "**/", "/**", "/**/", "?", "[ab]", "[^a]", "[!a-b]", "[a-]", "[]a]",
    "[\\]a]", "{a,b}", "{a/b,*}", "{,a}", "{**/a,b}", "{", "}", ",", "\\*", ".md",
];
/// Parts of paths.
const NAMES: [&str; 8] = ["a", "b", "ab", "é", "a.md", "b-a", "]", "*"];

fn pattern(random: &mut Random) -> String {
    (0..1 + random.below(5)).map(|_| random.pick(&PARTS)).collect()
}

fn path(random: &mut Random) -> String {
    (0..1 + random.below(4)).map(|_| random.pick(&NAMES)).collect::<Vec<_>>().join("/")
}

#[test]
fn exclusions_match_what_doublestar_matches() {
    let mut random = Random::new(4);
    let cases: Vec<(String, String)> = (0..TEXTS).map(|_| (pattern(&mut random), path(&mut random))).collect();
    let question = |(pattern, path): &(String, String)| json!({"exclusion": {"pattern": STANDARD.encode(pattern), "text": STANDARD.encode(path)}});
    let questions: Vec<Value> = cases.iter().map(question).collect();
    let (mut differences, mut matching, mut refused, mut unknown) = (vec![], 0, 0, 0);
    for ((pattern, path), answer) in cases.iter().zip(judge(&questions)) {
        let Ok(parsed) = Exclusion::parse(pattern) else {
            unknown += 1;
            continue;
        };
        let ours = parsed.ok().map(|parsed| parsed.matches(path));
        let theirs = (answer["error"] == "").then(|| answer["matches"] == true);
        matching += usize::from(theirs == Some(true));
        refused += usize::from(theirs.is_none());
        if ours != theirs {
            differences.push(format!("{pattern:?} {path:?}: ours {ours:?}, doublestar {theirs:?}"));
        }
    }
    assert_none("exclusions", &differences);
    let counts = format!("{matching} matched, {refused} were refused, {unknown} are unknown");
    assert!(matching > TEXTS / 50 && refused > TEXTS / 20 && unknown < TEXTS / 5, "{counts}");
}

const SCALARS: [&str; 40] = [
    "1",
    "-7",
    "0.5",
    "1e3",
    "1.25e-7",
    "1234567.5",
    "0x1F",
    "017",
    "true",
    "no",
    "~",
    "null",
    "text",
    "'1'",
    "\"true\"",
    "a b",
    "'a: b'",
    "'- a'",
    "\"it's\"",
    "'#x'",
    "x#y",
    "1:30",
    "''",
    "'{{ .Values.a }}'",
    "100m",
    "1.2.3",
    "v1.0",
    "'*'",
    "'%x'",
    "\"a\\nb\"",
    "\"a\\n\\nb\\n\"",
    "\"x\\n\\n\"",
    "é",
    "'yes'",
    "-x",
    "'-'",
    "https://example.com:80/a?b=c#d",
    "'a long text that goes on and on, with many words, until it is behind the width of a line, and further on'",
    "nginx:1.27",
    "'2024-01-02'",
];
const KEYS: [&str; 14] =
    ["a", "b", "c", "a10", "a9", "B", "image", "x-y", "x_y", "1", "'true'", "app.kubernetes.io/name", "'a b'", "é"];

fn value(random: &mut Random, depth: usize) -> String {
    match random.below(if depth > 2 { 1 } else { 4 }) {
        1 => map(random, depth + 1),
        2 => {
            let items: Vec<String> = (0..random.below(3)).map(|_| value(random, depth + 1)).collect();
            format!("[{}]", items.join(", "))
        }
        _ => random.pick(&SCALARS).to_owned(),
    }
}

fn map(random: &mut Random, depth: usize) -> String {
    let mut keys: Vec<&str> = (0..random.below(5)).map(|_| random.pick(&KEYS)).collect();
    keys.sort_unstable();
    keys.dedup();
    let entries: Vec<String> = keys.into_iter().map(|key| format!("{key}: {}", value(random, depth))).collect();
    format!("{{{}}}", entries.join(", "))
}

fn file(random: &mut Random) -> String {
    let separators = ["---\n", "\n---\n", "\n--- # next\n", "\n# text\n---\n"];
    let mut text = String::new();
    for number in 0..1 + random.below(2) {
        if number > 0 || random.one_in(4) {
            text += random.pick(&separators);
        }
        text += &if random.one_in(40) { "[1]".to_owned() } else { map(random, 0) };
    }
    text + "\n"
}

#[test]
fn merged_files_have_the_bytes_that_source_watcher_writes() {
    let mut random = Random::new(5);
    let cases: Vec<(String, String)> = (0..TEXTS).map(|_| (file(&mut random), file(&mut random))).collect();
    let question =
        |(base, overlay): &(String, String)| json!({"merge": [STANDARD.encode(base), STANDARD.encode(overlay)]});
    let questions: Vec<Value> = cases.iter().map(question).collect();
    let (mut differences, mut merged) = (vec![], 0);
    for ((base, overlay), answer) in cases.iter().zip(judge(&questions)) {
        let theirs = text_of(&answer);
        let is_equal = match merge(base.as_bytes(), overlay.as_bytes()) {
            Ok(ours) => {
                merged += 1;
                theirs == Ok(String::from_utf8_lossy(&ours).into_owned())
            }
            Err(Stop::Fails(_)) => theirs.is_err(),
            Err(Stop::Unknown(_)) => true,
        };
        if !is_equal {
            let ours =
                merge(base.as_bytes(), overlay.as_bytes()).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            differences.push(format!("{base:?} {overlay:?}\n  ours {ours:?}\n  Go   {theirs:?}"));
        }
    }
    assert_none("merged files", &differences);
    assert!(merged > TEXTS / 2, "only {merged} files were merged");
}
