//! Examples of each operator, seen with the controller.

use super::*;
use crate::bounds::{SUBSTITUTION_DEPTH, SUBSTITUTION_SIZE, SUBSTITUTION_STEPS};

fn lookup(name: &str) -> Option<&'static str> {
    match name {
        "A" => Some("hello"),
        "E" => Some(""),
        "P" => Some("a/b/c.tar.gz"),
        "N" => Some("123"),
        "U8" => Some("\u{e9}t\u{e9}"),
        _ => None,
    }
}

fn run(text: &str, strict: bool) -> Option<String> {
    substitute(text, lookup, strict).ok()
}

#[test]
fn every_substitution_that_reads_a_secret_variable_is_masked() {
    let masked = |text: &str| substitute_masked(text, lookup, |name| name == "A", "?");
    for (text, expected) in [
        ("a-${A}-${N}", Some("a-?-123")),
        ("${A:0:1}${A^^}${#A}", Some("???")),
        ("${X:-${A}}", Some("?")),
        ("${X:-${Y:-${A}}}", Some("?")),
        ("${N/1/${A}}", Some("?")),
        ("${A:-unused}", Some("?")),
        ("${A}${N:0:9223372036854775807}${N:1:9223372036854775807}", Some("?")),
        ("$${A} ${N}", None),
        ("no variable", None),
    ] {
        assert_eq!(masked(text).as_deref(), expected, "{text}");
    }
}

/// Results that do not depend on the strict mode; `None` is an error.
const INDEPENDENT: [(&str, Option<&str>); 59] = [
    ("${A}", Some("hello")),
    ("$A", Some("$A")),
    ("$${A}", Some("${A}")),
    ("$$${A}", Some("$hello")),
    ("$$A", Some("$A")),
    ("a $$ b", Some("a $ b")),
    ("$(A)", Some("$(A)")),
    ("{{ .A }}", Some("{{ .A }}")),
    ("${E}", Some("")),
    ("${U:-d}", Some("d")),
    ("${U:=d}", Some("d")),
    ("${U=d}", Some("d")),
    ("${E:-d}", Some("d")),
    ("${E:=d}", Some("d")),
    ("${E=d}", Some("d")),
    ("${U-d}", None),
    ("${A-}", None),
    ("${U:?err}", Some("err")),
    ("${U:+x}", Some("x")),
    ("${A:+x}", Some("hello")),
    ("${A:1}", Some("ello")),
    ("${A:1:2}", Some("el")),
    ("${A:0:-1}", Some("hell")),
    ("${A:-1}", Some("hello")),
    ("${A:9}", Some("")),
    ("${A:x}", Some("hello")),
    ("${#A}", Some("5")),
    ("${A^}", Some("Hello")),
    ("${A^^}", Some("HELLO")),
    ("${A,,}", Some("hello")),
    ("${P##*/}", Some("c.tar.gz")),
    ("${P#*/}", Some("b/c.tar.gz")),
    ("${P%.*}", Some("a/b/c.tar")),
    ("${P%%.*}", Some("a/b/c")),
    ("${A/l/L}", Some("heLlo")),
    ("${A//l/L}", Some("heLLo")),
    ("${A/#he/XX}", Some("XXllo")),
    ("${A/%lo/YY}", Some("helYY")),
    ("${A/l/}", Some("helo")),
    ("${U:-${A}}", Some("hello")),
    ("${U:-${V:-z}}", Some("z")),
    ("${U:-x${A}y}", Some("xhelloy")),
    ("${U:-$A}", Some("$A")),
    ("${U:-a:b}", Some("a:b")),
    ("${U:-\"q\"}", Some("\"q\"")),
    ("\\${A}", Some("\\hello")),
    ("${U:-}", Some("")),
    ("${N}", Some("123")),
    ("${}", None),
    ("${", None),
    ("${A", None),
    ("${a.b}", None),
    ("${A[@]}", None),
    ("${A }", None),
    ("${ A}", None),
    ("${!A}", None),
    ("${A!}", None),
    ("${A#}", None),
    ("${U:-d", None),
];

#[test]
fn substitutions_give_the_observed_results() {
    for (text, expected) in INDEPENDENT {
        for strict in [false, true] {
            assert_eq!(run(text, strict).as_deref(), expected, "{text} strict={strict}");
        }
    }
}

#[test]
fn unset_variables_fail_in_strict_mode_and_are_empty_otherwise() {
    for text in ["${U}", "${1}", "${U^^}", "${A:+${U}}"] {
        assert!(run(text, true).is_none(), "{text}");
        assert!(run(text, false).is_some(), "{text}");
    }
    assert_eq!(run("a${U}b", false).as_deref(), Some("ab"));
}

#[test]
fn the_error_contains_the_malformed_line() {
    let failure = substitute("a: 1\nb: ${x.y}\n", |_| None, false).unwrap_err();
    assert!(failure.to_string().contains("b: ${x.y}"), "{failure}");
}

#[test]
fn characters_can_be_cut() {
    for (text, expected) in [
        ("${#U8}", Ok("5")),
        ("${U8:0:2}", Ok("\u{e9}")),
        ("${U8#\u{e9}}", Ok("t\u{e9}")),
        // The controller cuts half of the character, and writes a replacement character for the rest.
        ("${U8%?}", Ok("\u{e9}t\u{fffd}")),
        ("${U8:0:1}", Err(EnvsubstError::NotUtf8)),
        ("${U8#?}", Err(EnvsubstError::NotUtf8)),
        ("${U8//${E}/-}", Ok("-\u{e9}-t-\u{e9}-")),
        ("${A:9223372036854775807:1}", Err(EnvsubstError::Overflow("A".to_owned()))),
    ] {
        assert_eq!(substitute(text, lookup, true), expected.map(str::to_owned), "{text}");
    }
}

/// Text and the bound that it exceeds, with variables of 1 MiB.
#[test]
fn work_is_bounded() {
    let large = "ab".repeat(1 << 19);
    let deep = format!("{}x{}", "${U:-".repeat(101), "}".repeat(101));
    let rows = [
        ("${L}".repeat(17), SUBSTITUTION_SIZE),
        ("${L//a/${L}}".to_owned(), SUBSTITUTION_SIZE),
        ("${A:+${L^^}}".repeat(17), SUBSTITUTION_SIZE),
        ("${L##*b*a*b*a*b*a*b*a*b*a*b*a*b*a*c}".to_owned(), SUBSTITUTION_STEPS),
        (deep.clone(), SUBSTITUTION_DEPTH),
        ("${A:-".repeat(1_000_000), SUBSTITUTION_DEPTH),
    ];
    for (text, bound) in rows {
        let found = substitute(&text, |name| if name == "L" { Some(&large) } else { lookup(name) }, false);
        assert_eq!(found, Err(EnvsubstError::Exceeded(Exceeded(bound))), "{text:.40}");
    }
    let allowed = deep.replacen("${U:-", "", 1).replacen('}', "", 1);
    assert_eq!(run(&allowed, false).as_deref(), Some("x"));
    // A long value takes linear time.
    assert_eq!(substitute("${L##*c}", |_| Some(&large), true), Ok(large.clone()));
}
