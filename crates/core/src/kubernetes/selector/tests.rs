//! Valid and invalid selectors.

use super::*;

fn labels() -> KeyValues {
    [("app", "web"), ("example.com/tier", "front"), ("weight", "7"), ("empty", "")].into_iter().collect()
}

#[test]
fn selectors_match_as_in_the_api_server() {
    for (text, matches) in [
        ("", true),
        ("  ", true),
        ("app", true),
        ("app=web", true),
        ("app==web", true),
        ("app=web,example.com/tier=front", true),
        (" app = web , weight ", true),
        ("app!=web", false),
        ("gone!=web", true),
        ("!app", false),
        ("!gone", true),
        ("! gone", true),
        ("app in (web, api)", true),
        ("app notin (web)", false),
        ("gone notin (web)", true),
        ("gone in (web)", false),
        ("empty=", true),
        ("empty in ()", true),
        ("empty in (a,)", true),
        ("app=", false),
        ("weight>6", true),
        ("weight > 7", false),
        ("weight<8", true),
        ("app>1", false),
        ("in=x", false),
        ("notin", false),
        ("app in (in,notin,web)", true),
    ] {
        assert_eq!(Selector::parse(text).map(|selector| selector.matches(&labels())), Ok(matches), "{text:?}");
    }
}

#[test]
fn invalid_selectors_are_refused() {
    let long = format!("app={}", "v".repeat(64));
    for (text, words) in [
        ("app=web,", "it ends after ','"),
        (",app", "expected a key"),
        ("app,,b", "found ',', expected a key after ','"),
        ("app=web api", "found \"api\", expected ',' or the end"),
        ("!app=web", "found '=', expected ',' or the end"),
        ("app in web", "expected '('"),
        ("app in (web", "')' is missing"),
        ("app in (web api)", "expected ',' or ')'"),
        ("app is web", "expected one of =, ==, !=, in, notin, >, <"),
        ("weight>x", "\"x\" is not a whole number"),
        ("weight>", "it ends where a number is expected"),
        ("app=a/b", "cannot be the value of a label"),
        (&long, "at most 63"),
        ("-app", "cannot be the key of a label"),
        ("a/b/c", "cannot be the key of a label"),
        ("A.b/c", "cannot be the key of a label"),
        ("deploy/web=x:y", "cannot be the value of a label"),
        ("=web", "found '=', expected a key"),
        ("!", "it ends where a key is expected"),
    ] {
        let error = Selector::parse(text).expect_err(text);
        assert!(error.contains(words), "{text:?}: {error}");
    }
    assert!(Selector::parse(&format!("app={}", "v".repeat(63))).is_ok());
}
