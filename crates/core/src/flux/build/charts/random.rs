//! Functions of templates whose results differ from render to render.
//!
//! A chart is rendered with two seeds and two clocks: what differs then is named or chosen by chance. That does not
//! show a decision that few values take, such as a comparison with one digit. So a text that may be random must not be
//! compared, nor decide anything in another way than by being there.

use std::collections::BTreeMap;

use super::order::is_unsorted;
use super::root::is_used_as_a_whole;
use super::tokens::{Token, actions, first_word, is_word, words};
use crate::bounds::TEMPLATE_STEPS;

/// Functions whose results differ, with the function of each seed in their place; none for those whose results differ
/// anyway.
const FUNCTIONS: [(&str, Option<[&str; 2]>); 20] = [
    ("randAlpha", Some([r#"include "kubectl-gitops.a""#, r#"include "kubectl-gitops.z""#])),
    ("randAlphaNum", Some([r#"include "kubectl-gitops.a""#, r#"include "kubectl-gitops.9""#])),
    ("randNumeric", Some([r#"include "kubectl-gitops.0""#, r#"include "kubectl-gitops.9""#])),
    ("randAscii", Some([r#"include "kubectl-gitops.a""#, r#"include "kubectl-gitops.9""#])),
    ("randBytes", Some([r#"include "kubectl-gitops.a""#, r#"include "kubectl-gitops.9""#])),
    ("randInt", Some(["min", "max"])),
    ("now", Some([r#"(toDate "2006-01-02" "2025-01-02")"#, r#"(toDate "2006-01-02" "2047-11-29")"#])),
    ("ago", None),
    ("bcrypt", None),
    ("encryptAES", None),
    ("genCA", None),
    ("genCAWithKey", None),
    ("genPrivateKey", None),
    ("genSelfSignedCert", None),
    ("genSelfSignedCertWithKey", None),
    ("genSignedCert", None),
    ("genSignedCertWithKey", None),
    ("htpasswd", None),
    ("shuffle", None),
    ("uuidv4", None),
];
/// Functions that give the time for an argument that is none.
const CLOCK: [&str; 6] = ["date", "dateInZone", "date_in_zone", "htmlDate", "htmlDateInZone", "durationRound"];
/// Characters that named templates repeat.
const REPEATED: [&str; 4] = ["a", "z", "0", "9"];

/// Words of an action that change a random text without making it empty, and do not look at what is in it.
const NEUTRAL: [&str; 37] = [
    "if",
    "else",
    "with",
    "not",
    "and",
    "or",
    "end",
    "define",
    "block",
    "include",
    "template",
    "default",
    "coalesce",
    "required",
    "quote",
    "squote",
    "b64enc",
    "printf",
    "print",
    "upper",
    "lower",
    "nindent",
    "indent",
    "toString",
    "toYaml",
    "toJson",
    "sha256sum",
    "list",
    "dict",
    "set",
    "tpl",
    "fromYaml",
    "fromJson",
    "merge",
    "true",
    "false",
    "nil",
];
/// Functions that make another text, number, list or map of random ones, and choose nothing by them.
const FORMATTING: &str = "\
    abbrev add add1 adler32sum append atoi b32dec b32enc b64dec buildCustomCert camelcase cat ceil compact \
    concat dateModify date_modify decryptAES deepCopy derivePassword duration fail first float64 floor \
    fromJsonArray fromToml fromYamlArray html initial initials int int64 join js kebabcase keys last max \
    mergeOverwrite min mul mustDateModify mustDeepCopy mustFromJson mustMerge mustRegexReplaceAll \
    mustRegexReplaceAllLiteral mustToDate mustToJson nospace omit pick prepend println regexReplaceAll \
    regexReplaceAllLiteral repeat replace rest reverse round sha1sum sha512sum slice snakecase sortAlpha \
    split splitList splitn sub substr swapcase title toDate toDecimal toPrettyJson toRawJson toStrings toToml \
    trim trimAll trimPrefix trimSuffix trunc tuple uniq unixEpoch unset untitle urlJoin urlParse urlquery \
    values wrap wrapWith";
/// Functions whose result can have a brace that no text of the chart has.
const BRACES_FROM: [&str; 3] = ["b64dec", "b32dec", "lookup"];
/// Parts of quoted texts that are a brace, or become one.
const BRACES_IN: [&str; 6] = ["{", "%c", "\\x7", "\\u007", "\\U0000007", "\\173"];
/// First words of an action that decides what is rendered.
const CONTROL: [&str; 4] = ["if", "else", "with", "range"];

/// One of two renders of the same chart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Seed {
    #[default]
    First,
    Second,
}

/// The use that a chart makes of functions whose results differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Randomness {
    None,
    /// They give names or content.
    InTexts,
    /// Something may be decided by their results.
    InDecisions,
}

impl Seed {
    /// Returns what replaces a function with this seed; `None` if it stays.
    pub(super) fn replacement(self, word: &str) -> Option<&'static str> {
        let (_, replacements) = FUNCTIONS.iter().find(|(name, _)| *name == word)?;
        replacements.map(|[first, second]| if self == Self::First { first } else { second })
    }

    /// Returns the named templates that replacements include.
    pub(super) fn templates() -> String {
        let templates = REPEATED.map(|text| {
            format!(
                "{{{{- define \"kubectl-gitops.{text}\" -}}}}{{{{- repeat (int .) \"{text}\" -}}}}{{{{- end -}}}}\n"
            )
        });
        templates.concat()
    }
}

/// Returns true for a function whose result differs from render to render.
pub(super) fn is_random(word: &str) -> bool {
    CLOCK.contains(&word) || FUNCTIONS.iter().any(|(name, _)| *name == word)
}

/// Returns the functions whose results differ whatever their arguments are, as alternatives of a regular expression.
pub(super) fn alternatives() -> String {
    FUNCTIONS.map(|(name, _)| name).join("|")
}

/// Possible effect of a text that may be random, the lesser one first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Taint {
    /// It is never empty.
    Text,
    /// It can be empty, or depend on what is random in another way.
    Changed,
}

/// Variables, named templates and keys that may be random.
#[derive(Default)]
struct Tainted(BTreeMap<String, Taint>);

impl Tainted {
    /// Adds a name. Returns true if that is new.
    fn add(&mut self, name: String, taint: Taint) -> bool {
        let known = self.0.get(&name).copied();
        if known >= Some(taint) {
            return false;
        }
        self.0.insert(name, taint);
        true
    }

    /// Returns what is known of a token in a text with this number.
    fn of(&self, text: usize, token: Token<'_>) -> Option<Taint> {
        match token {
            Token::Word(word) if is_random(word) => Some(Taint::Text),
            Token::Word(word) => {
                let mut segments = word.split('.');
                let variable = segments.next().filter(|first| first.starts_with('$') && first.len() > 1);
                let own = variable.and_then(|variable| self.0.get(&format!("{text}{variable}")).copied());
                own.max(segments.filter_map(|key| self.0.get(&format!(".{key}")).copied()).max())
            }
            Token::Quoted(name) => self.0.get(&format!("\"{name}")).copied(),
            _ => None,
        }
    }
}

/// Returns the use that templates and values make of functions whose results differ. What is too long to be followed
/// may decide.
pub(crate) fn randomness<'t>(texts: impl Iterator<Item = &'t str>) -> Randomness {
    let texts: Vec<Vec<Vec<Token<'t>>>> = texts.map(actions).collect();
    let mut tokens = texts.iter().flatten().flatten();
    if !tokens.any(|token| matches!(token, Token::Word(word) if is_random(word))) {
        let differs = texts.iter().flatten().any(|action| is_unsorted(action))
            || is_used_as_a_whole(&texts)
            || may_compose(&texts);
        return if differs { Randomness::InTexts } else { Randomness::None };
    }
    let (mut tainted, mut steps) = (Tainted::default(), 0);
    loop {
        let mut has_grown = false;
        for (number, actions) in texts.iter().enumerate() {
            let mut open: Vec<Option<&str>> = vec![];
            for action in actions {
                match (first_word(action), action.get(1)) {
                    (Some("define" | "block"), Some(Token::Quoted(name))) => open.push(Some(name)),
                    (Some("if" | "with" | "range"), _) => open.push(None),
                    (Some("end"), _) => drop(open.pop()),
                    _ => {}
                }
                steps += 1 + action.len();
                let Some(taint) = taint_of(&tainted, number, action) else { continue };
                steps += open.len();
                if TEMPLATE_STEPS.check(steps).is_err() {
                    return Randomness::InDecisions;
                }
                has_grown |= spread(&mut tainted, number, action, taint);
                for name in open.iter().flatten() {
                    has_grown |= tainted.add(format!("\"{name}"), taint);
                }
            }
        }
        if !has_grown {
            break;
        }
    }
    let mut all =
        texts.iter().enumerate().flat_map(|(number, actions)| actions.iter().map(move |action| (number, action)));
    let decides = all.any(|(number, action)| {
        let taint = taint_of(&tainted, number, action);
        let is_control = first_word(action).is_some_and(|word| CONTROL.contains(&word));
        taint.is_some() && ((is_control && taint == Some(Taint::Changed)) || chooses(&tainted, number, action))
    });
    if decides { Randomness::InDecisions } else { Randomness::InTexts }
}

/// Returns true if a chart may compose the text of a template while it is rendered. That can use all that it is given.
fn may_compose(texts: &[Vec<Vec<Token<'_>>>]) -> bool {
    let tokens = || texts.iter().flatten().flatten();
    tokens().any(|token| matches!(token, Token::Word("tpl")))
        && tokens().any(|token| match token {
            Token::Word(word) => BRACES_FROM.contains(word),
            Token::Quoted(text) => BRACES_IN.iter().any(|part| text.contains(part)),
            _ => false,
        })
}

/// Returns what is known of the result of an action; `None` if it is not random.
fn taint_of(tainted: &Tainted, text: usize, action: &[Token<'_>]) -> Option<Taint> {
    let taint = action.iter().filter_map(|token| tainted.of(text, *token)).max()?;
    Some(if words(action).all(is_neutral) { taint } else { Taint::Changed })
}

/// Part of an action between parentheses and `|`.
#[derive(Default)]
struct Call<'t> {
    function: Option<&'t str>,
    operands: usize,
    is_random: bool,
}

impl Call<'_> {
    /// Adds an operand. Returns true if the function may choose something by it.
    fn add(&mut self, is_random: bool) -> bool {
        let position = self.operands;
        self.operands += 1;
        self.is_random |= is_random;
        is_random && self.function.is_some_and(|function| chooses_by(function, position))
    }
}

/// Returns true if an action may choose something by a random value: a function has it as an operand, and does more than
/// to format it or to pass it on.
fn chooses(tainted: &Tainted, text: usize, action: &[Token<'_>]) -> bool {
    let start = action.iter().position(|token| matches!(token, Token::Assign)).map_or(0, |at| at + 1);
    let (mut calls, mut chooses) = (vec![Call::default()], false);
    for token in &action[start..] {
        let is_random = tainted.of(text, *token).is_some();
        let depth = calls.len();
        let call = calls.last_mut().expect("the outermost one stays");
        let is_first = call.function.is_none() && call.operands == 0;
        match token {
            Token::Open => calls.push(Call::default()),
            Token::Close if depth > 1 => {
                let closed = call.is_random;
                calls.pop();
                chooses |= calls.last_mut().expect("the outermost one stays").add(closed);
            }
            Token::Pipe => {
                *call = Call { is_random: call.is_random, ..Call::default() };
            }
            Token::Word(word) if is_first && !CONTROL.contains(word) => {
                call.function = Some(word);
                // Only what is piped can be random before the function, and it becomes the last operand.
                chooses |= call.is_random && chooses_by(word, usize::MAX);
                call.is_random |= is_random;
            }
            Token::Word(_) if !is_first => chooses |= call.add(is_random),
            // A template with random texts does not have a random name.
            Token::Quoted(_) => {
                call.is_random |= is_random;
                call.add(false);
            }
            _ => {}
        }
    }
    chooses
}

/// Returns true if a function may choose something by the operand at a position.
fn chooses_by(function: &str, position: usize) -> bool {
    match function {
        "include" | "template" => position == 0,
        "get" | "index" => position > 0,
        _ if passes_on(function) => false,
        _ => !FORMATTING.split(' ').any(|word| word == function),
    }
}

/// Returns true if an action with a word can pass a random text on as it is.
fn is_neutral(word: &str) -> bool {
    let is_value = word.starts_with(['$', '.']) || word.starts_with(|c: char| c.is_ascii_digit());
    is_value || passes_on(word)
}

/// Returns true for a function that makes a random text, or passes one on as it is.
fn passes_on(function: &str) -> bool {
    is_random(function) || NEUTRAL.contains(&function)
}

/// Adds what an action assigns, and the keys before each random part of it.
fn spread(tainted: &mut Tainted, text: usize, action: &[Token<'_>], taint: Taint) -> bool {
    let mut has_grown = false;
    if let Some(assignment) = action.iter().position(|token| matches!(token, Token::Assign)) {
        let variables = words(&action[..assignment]).filter(|word| word.starts_with('$'));
        let names: Vec<String> = variables.map(|variable| format!("{text}{variable}")).collect();
        for name in names {
            has_grown |= tainted.add(name, taint);
        }
    }
    let mut keys: Vec<Option<&str>> = vec![None];
    for token in action {
        match token {
            Token::Open => keys.push(None),
            Token::Close if keys.len() > 1 => drop(keys.pop()),
            Token::Quoted(key) => *keys.last_mut().expect("there is one for each depth") = Some(*key),
            _ => {}
        }
        if tainted.of(text, *token).is_some() {
            for key in keys.iter().flatten().filter(|key| !key.is_empty() && key.chars().all(is_word)) {
                has_grown |= tainted.add(format!(".{key}"), taint);
            }
        }
    }
    has_grown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(texts: &[&str]) -> Randomness {
        randomness(texts.iter().copied())
    }

    #[test]
    fn random_texts_are_content_until_something_looks_at_them() {
        let rows: [(&[&str], Randomness); 38] = [
            (&["{{ get (dict \"2025\" \"b\") (now | date \"2006\") | default \"d\" }}"], Randomness::InDecisions),
            (&["{{ now | date \"2006\" | get .Values.a }}"], Randomness::InDecisions),
            (&["{{ .Files.Get (printf \"f/%s\" (now | date \"2006\")) }}"], Randomness::InDecisions),
            (&["{{ (.Files.Glob (randNumeric 1)).AsConfig }}"], Randomness::InDecisions),
            (&["{{ randNumeric 1 | $.Files.Get }}"], Randomness::InDecisions),
            (&["{{ include (printf \"a-%s\" (randNumeric 1)) . }}"], Randomness::InDecisions),
            (&["{{ define \"p\" }}{{ randNumeric 1 }}{{ end }}{{ include \"p\" . | b64enc }}"], Randomness::InTexts),
            (
                &["{{ $d := dict \"p\" (randAlpha 5) }}{{ index $d \"p\" | trunc 3 }}{{ get $d \"p\" }}"],
                Randomness::InTexts,
            ),
            (&["{{ pluck (randNumeric 1) .Values.a | first }}"], Randomness::InDecisions),
            (&["{{ $a := regexMatch \"5\" .Values.a | ternary \"x\" \"y\" }}{{ randAlpha 5 }}"], Randomness::InTexts),
            (&["{{ randAlphaNum (len .Values.a) | lower | trimSuffix \"-\" }}"], Randomness::InTexts),
            (
                &["{{ $x := index .Values.a \"b\" }}{{ $x = randAlpha 5 }}{{ $x = index .Values.a \"b\" }}"],
                Randomness::InTexts,
            ),
            (&["{{ tpl (printf \"%c%c toJson . }}\" 123 123) . }}"], Randomness::InTexts),
            (&["{{ tpl \"{{ toJson . }}\" . }}"], Randomness::InTexts),
            (&["{{ tpl .Values.a . }}{{ printf \"%s\" .Values.b }}"], Randomness::None),
            (&["{{ .Values.a | b64dec }}"], Randomness::None),
            (&["{{ keys .Values.a | first }}"], Randomness::InTexts),
            (&["{{ keys .Values.a | sortAlpha | first }}"], Randomness::None),
            (&["{{ if contains \"a\" (toJson .) }}x{{ end }}"], Randomness::InTexts),
            (&["{{ if lt (date \"2006\" \"x\") \"2027\" }}x{{ end }}"], Randomness::InDecisions),
            (&["{{ if lt (htmlDate \"x\") \"2027\" }}x{{ end }}"], Randomness::InDecisions),
            (&["{{ .Values.now }}{{/* randAlpha */}}{{ \"uuidv4\" }}"], Randomness::None),
            (&["{{ randAlphaNum 10 | b64enc | quote }}"], Randomness::InTexts),
            (&["{{ $p := randAlphaNum 10 }}{{ if $p }}{{ $p | b64enc }}{{ end }}"], Randomness::InTexts),
            (&["{{ .Values.p | default (randAlphaNum 10) | b64enc }}"], Randomness::InTexts),
            (&["{{ $ca := genCA \"x\" 365 }}{{ $ca.Cert | b64enc }}"], Randomness::InTexts),
            (&["{{ if eq .Values.a \"b\" }}{{ uuidv4 }}{{ end }}"], Randomness::InTexts),
            (&["{{ if eq (randNumeric 1) \"5\" }}x{{ end }}"], Randomness::InDecisions),
            (&["{{ $n := randNumeric 1 }}{{ if eq $n \"5\" }}x{{ end }}"], Randomness::InDecisions),
            (&["{{ $n := randNumeric 1 }}", "{{ if eq $n \"5\" }}x{{ end }}"], Randomness::InTexts),
            (&["{{ $n := trimAll \"5\" (randNumeric 1) }}{{ if $n }}x{{ end }}"], Randomness::InDecisions),
            (&["{{ $n := trimAll \"5\" (randNumeric 1) }}{{ $n }}"], Randomness::InTexts),
            (
                &["{{ define \"p\" }}{{ randNumeric 1 }}{{ end }}", "{{ if eq (include \"p\" .) \"5\" }}"],
                Randomness::InDecisions,
            ),
            (
                &["{{ define \"p\" }}{{ randNumeric 1 }}{{ end }}{{ if eq (include \"q\" .) \"5\" }}"],
                Randomness::InTexts,
            ),
            (
                &[
                    "{{ $d := dict \"n\" (printf \"%s\" (randNumeric 1)) }}{{ include \"x\" $d }}",
                    "{{ if eq .n \"5\" }}",
                ],
                Randomness::InDecisions,
            ),
            (
                &["{{ $_ := set .Values \"n\" (randNumeric 1) }}", "{{ if eq .Values.n \"5\" }}"],
                Randomness::InDecisions,
            ),
            (&["{{ range until (randInt 0 3) }}x{{ end }}"], Randomness::InDecisions),
            (&["{{ ternary \"a\" \"b\" (gt (now | unixEpoch) 5) }}"], Randomness::InDecisions),
        ];
        for (texts, expected) in rows {
            assert_eq!(found(texts), expected, "{texts:?}");
        }
    }

    #[test]
    fn what_is_too_long_to_be_followed_may_decide() {
        // Each variable is known only in the round after that of the next one.
        let chain = |length: usize| -> String {
            let assigned = (0..length).map(|number| format!("{{{{ $a{number} := $a{} }}}}", number + 1));
            assigned.chain([format!("{{{{ $a{length} := randAlphaNum 5 }}}}")]).collect()
        };
        assert_eq!(found(&[&chain(100)]), Randomness::InTexts);
        assert_eq!(found(&[&chain(10_000)]), Randomness::InDecisions);
        let nested = "{{ block \"x\" . }}".repeat(10_000) + &"{{ $a := randAlphaNum 5 }}".repeat(10_000);
        assert_eq!(found(&[&nested]), Randomness::InDecisions);
    }

    #[test]
    fn each_seed_gives_another_text() {
        for (name, replacements) in FUNCTIONS {
            assert!(is_random(name));
            let [first, second] = [Seed::First, Seed::Second].map(|seed| seed.replacement(name));
            assert_eq!((first.is_some(), first == second), (replacements.is_some(), replacements.is_none()), "{name}");
        }
        assert_eq!(Seed::First.replacement("lookup"), None);
        assert_eq!(Seed::templates().matches("define").count(), REPEATED.len());
    }
}
