//! Uses of all that a template is given, as a whole.
//!
//! The value that Helm gives to a template contains the capabilities of the cluster; here they are those of `helm
//! template`. The fields that are known are written into the templates. A template that prints the whole value, or
//! computes the name of a field, can read the others. A chart that may do so is rendered once more with other
//! capabilities.

use std::collections::BTreeSet;

use super::tokens::{Token, first_word};
use crate::bounds::TEMPLATE_STEPS;

/// Functions that give what they get to templates, which are looked at too.
const PASSING: [&str; 4] = ["include", "tpl", "template", "block"];
/// Functions that put what they get under the key before it.
const KEYED: [&str; 2] = ["dict", "set"];
/// Functions that put what they get into their first operand.
const CHANGING: [&str; 5] = ["set", "merge", "mergeOverwrite", "mustMerge", "mustMergeOverwrite"];
/// Functions whose result has what they get.
const BUILDING: [&str; 10] = [
    "dict",
    "list",
    "tuple",
    "set",
    "merge",
    "mergeOverwrite",
    "mustMerge",
    "mustMergeOverwrite",
    "deepCopy",
    "default",
];

/// Returns the action that gives a template other capabilities than those of helm: these API versions, and no version
/// of helm.
pub(super) fn other_capabilities(api_versions: &BTreeSet<String>) -> String {
    let versions: String = api_versions.iter().map(|version| format!(" {version:?}")).collect();
    let kube_version = ["Version", "GitVersion", "Major", "Minor", "String"].map(|field| {
        let source = if field == "GitVersion" { "Version" } else { field };
        format!(" \"{field}\" $.Capabilities.KubeVersion.{source}")
    });
    format!(
        "{{{{ $_ := set $ \"Capabilities\" (dict \"KubeVersion\" (dict{}) \"APIVersions\" (list{versions} \
         \"metrics.k8s.io/v1beta1\") \"HelmVersion\" (dict \"version\" \"v0.0.0\")) }}}}",
        kube_version.concat()
    )
}

/// Returns true if templates with these actions may use all that they are given as a whole. What is too long to be
/// followed may.
pub(super) fn is_used_as_a_whole(texts: &[Vec<Vec<Token<'_>>>]) -> bool {
    let (mut names, mut steps) = (Names::default(), 0);
    loop {
        let known = names.0.len();
        for (number, actions) in texts.iter().enumerate() {
            let mut scopes = vec![];
            for action in actions {
                steps += 1 + action.len();
                let dot = scopes.last().is_none_or(|scope: &Scope| scope.dot);
                let has_root = names.read(number, action, dot);
                if has_root == Use::Whole || TEMPLATE_STEPS.check(steps).is_err() {
                    return true;
                }
                enter(&mut scopes, action, dot, has_root == Use::Result);
            }
        }
        if names.0.len() == known {
            return false;
        }
    }
}

/// Use that an action makes of the whole.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    None,
    /// Its result has it.
    Result,
    Whole,
}

/// A block of a template.
struct Scope {
    /// The dot may be the whole in it.
    dot: bool,
    /// The dot may be the whole around it.
    outer: bool,
}

/// Enters or leaves the blocks that an action begins or ends.
fn enter(scopes: &mut Vec<Scope>, action: &[Token<'_>], outer: bool, has_root: bool) {
    match first_word(action) {
        Some("if") => scopes.push(Scope { dot: outer, outer }),
        Some("with" | "range") => scopes.push(Scope { dot: has_root, outer }),
        Some("define" | "block") => scopes.push(Scope { dot: true, outer }),
        Some("else") => {
            if let Some(scope) = scopes.last_mut() {
                scope.dot = scope.outer || has_root;
            }
        }
        Some("end") => drop(scopes.pop()),
        _ => {}
    }
}

/// Variables and keys that may be the whole.
#[derive(Default)]
struct Names(BTreeSet<String>);

/// A command of an action.
#[derive(Default)]
struct Command<'t> {
    function: Option<&'t str>,
    has_begun: bool,
    /// First operand that is a word.
    first: Option<&'t str>,
    /// Last operand, if it is a text in quotes.
    key: Option<&'t str>,
    has_root: bool,
    /// The whole value is piped to it.
    is_given: bool,
}

impl Names {
    /// Returns true if a word of a text with this number may be the whole.
    fn may_be(&self, text: usize, word: &str, dot: bool) -> bool {
        match word.rsplit_once('.') {
            None => word == "$" || (word.starts_with('$') && self.0.contains(&format!("{text}{word}"))),
            Some(("", "")) => dot,
            Some((_, key)) => self.0.contains(&format!(".{key}")),
        }
    }

    /// Reads an action, and adds the names that it gives to the whole.
    fn read<'t>(&mut self, text: usize, action: &[Token<'t>], dot: bool) -> Use {
        let mut commands = vec![Command::default()];
        for (at, token) in action.iter().enumerate() {
            let is_inner = commands.len() > 1;
            let command = commands.last_mut().expect("there is one for each depth");
            let is_whole = match token {
                Token::Word(word) if is_control(at, word) => false,
                Token::Word(word) if !command.has_begun && is_function(word) => command.begin(word),
                Token::Word(word) => {
                    let is_whole = self.may_be(text, word, dot) && self.give(text, command);
                    (command.first, command.key) = (command.first.or(Some(word)), None);
                    command.has_begun = true;
                    is_whole
                }
                Token::Quoted(key) => {
                    (command.key, command.has_begun) = (Some(*key), true);
                    false
                }
                Token::Pipe => {
                    let done = std::mem::take(command);
                    command.has_root = done.has_root;
                    self.end(text, &done)
                }
                Token::Assign => {
                    *command = Command::default();
                    false
                }
                Token::Open => {
                    command.has_begun = true;
                    commands.push(Command::default());
                    false
                }
                Token::Close => {
                    let inner = commands.pop_if(|_| is_inner).unwrap_or_default();
                    let outer = commands.last_mut().expect("there is one for each depth");
                    let is_whole = self.end(text, &inner) || (inner.has_root && self.give(text, outer));
                    outer.key = None;
                    is_whole
                }
                Token::Other => false,
            };
            if is_whole {
                return Use::Whole;
            }
        }
        if self.end(text, &commands[0]) { Use::Whole } else { self.result(text, action, commands[0].has_root) }
    }

    /// Ends a command, which may get what came before it. Returns true if it may look at that.
    fn end(&mut self, text: usize, command: &Command<'_>) -> bool {
        command.is_given && self.put(text, command)
    }

    /// Adds the names of what a command puts the whole into. Returns true if one of them is not known.
    fn put(&mut self, text: usize, command: &Command<'_>) -> bool {
        let Some(function) = command.function else { return false };
        if CHANGING.contains(&function)
            && let Some(first) = command.first
        {
            let (variable, field) = first.split_once('.').unwrap_or((first, ""));
            if variable.len() > 1 {
                self.0.insert(format!("{text}{variable}"));
            }
            let key = field.rsplit('.').next().unwrap_or_default();
            if !key.is_empty() {
                self.0.insert(format!(".{key}"));
            }
        }
        match command.key {
            Some(key) => _ = self.0.insert(format!(".{key}")),
            None => return KEYED.contains(&function),
        }
        false
    }

    /// Gives the whole to a command as an operand. Returns true if the command may look at it.
    fn give(&mut self, text: usize, command: &mut Command<'_>) -> bool {
        // `set` gets the map first.
        let is_map = command.first.is_none() && command.key.is_none() && command.function == Some("set");
        command.has_begun = true;
        match command.function {
            Some(function) if PASSING.contains(&function) => return false,
            Some(function) if !BUILDING.contains(&function) => return true,
            Some(_) if !is_map && self.put(text, command) => return true,
            Some(_) | None => {}
        }
        command.has_root = true;
        false
    }

    /// Returns what an action does with a result, which has the whole or not.
    fn result(&mut self, text: usize, action: &[Token<'_>], has_root: bool) -> Use {
        if !has_root {
            return Use::None;
        }
        let assigned = action.iter().position(|token| matches!(token, Token::Assign));
        for token in &action[..assigned.unwrap_or(0)] {
            if let Token::Word(word) = token
                && word.starts_with('$')
            {
                self.0.insert(format!("{text}{word}"));
            }
        }
        match first_word(action) {
            Some("range") => Use::Whole,
            Some("if" | "else" | "with" | "template" | "block" | "define") => Use::Result,
            _ if assigned.is_some() => Use::Result,
            _ => Use::Whole,
        }
    }
}

impl<'t> Command<'t> {
    /// Begins with a function, which gets what came before it. Returns true if it may look at the whole.
    fn begin(&mut self, function: &'t str) -> bool {
        (self.function, self.has_begun, self.is_given) = (Some(function), true, self.has_root);
        if !std::mem::take(&mut self.has_root) || PASSING.contains(&function) {
            return false;
        }
        self.has_root = BUILDING.contains(&function);
        !self.has_root
    }
}

/// Returns true for a word that begins an action, and is no function.
fn is_control(at: usize, word: &str) -> bool {
    let is_first = matches!(word, "if" | "else" | "with" | "range" | "define" | "end" | "break" | "continue");
    is_first && (at == 0 || (at == 1 && word != "else"))
}

fn is_function(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || c == '_') && !word.contains('.')
}

#[cfg(test)]
mod tests {
    use super::super::tokens::actions;
    use super::*;

    #[test]
    fn the_whole_is_used_where_something_looks_at_it() {
        let whole: [&[&str]; 22] = [
            &["{{ $d := dict }}{{ $_ := set $d \"a\" $ }}{{ toJson $d }}"],
            &["{{ $d := dict }}{{ $_ := set $d (print \"a\") $ }}{{ toJson (index $d \"a\") }}"],
            &["{{ $d := dict }}{{ $_ := . | set $d \"a\" }}{{ toJson $d.a }}"],
            &["{{ $d := dict }}{{ $_ := merge $d (dict \"a\" $) }}{{ range $d }}{{ end }}"],
            &["{{ $d := dict (print \"a\") $ }}{{ toJson (first (values $d)) }}"],
            &["{{ toJson . }}"],
            &["{{ . | toJson }}"],
            &["{{ if contains \"a\" (toJson $) }}"],
            &["{{ range $k, $v := . }}{{ end }}"],
            &["{{ with index . \"Capabilities\" }}{{ end }}"],
            &["{{ $x := . }}{{ toYaml $x }}"],
            &["{{ $x := dict \"a\" $ }}{{ toYaml $x.a }}"],
            &["{{ include \"x\" (dict \"ctx\" $) }}", "{{ define \"x\" }}{{ toYaml .ctx }}{{ end }}"],
            &["{{ $_ := set .Values \"ctx\" $ }}{{ toYaml .Values.ctx }}"],
            &["{{ with .Values.a }}{{ toJson $ }}{{ end }}"],
            &["{{ with .Values.a }}{{ else }}{{ toJson . }}{{ end }}"],
            &["{{ with .Values.a }}{{ end }}{{ toJson . }}"],
            &["{{ with . }}{{ toJson . }}{{ end }}"],
            &["{{ with .Values.a }}{{ with $ }}{{ toJson . }}{{ end }}{{ end }}"],
            &["{{ include \"x\" . }}{{ define \"x\" }}{{ get . \"a\" }}{{ end }}"],
            &["{{ . }}"],
            &["{{ (merge (dict) .) | toJson }}"],
        ];
        for texts in whole {
            assert!(used(texts), "{texts:?}");
        }
    }

    #[test]
    fn what_templates_pass_on_is_no_use() {
        let passed: [&[&str]; 11] = [
            &["{{ $_ := set . \"a\" .Values.b }}{{ include \"x\" (dict \"v\" .Values.a \"ctx\" $) }}{{ toYaml .v }}"],
            &["{{ include \"x\" . }}{{ include \"x\" $ | nindent 4 }}{{ template \"x\" . }}"],
            &["{{ . | include \"x\" }}{{ tpl .Values.a $ }}{{ tpl (toYaml .Values.a) . }}"],
            &["{{ with .Values.a }}{{ toYaml . | nindent 2 }}{{ end }}"],
            &["{{ range .Values.a }}{{ . | quote }}{{ if eq . \"b\" }}{{ . }}{{ end }}{{ end }}"],
            &["{{ with include \"x\" . }}{{ . }}{{ end }}"],
            &["{{ $x := . }}{{ $x.Values.a }}{{ include \"x\" $x }}"],
            &["{{ include \"x\" (dict \"value\" .Values.a \"context\" $) }}{{ toYaml .Values.b }}"],
            &["{{ define \"x\" }}{{ tpl (toYaml .value) .context }}{{ end }}{{ tpl .a (dict \"context\" .) }}"],
            &[
                "{{ tpl .value (merge (dict \"RelativeScope\" .scope) .context) }}{{ include \"x\" (dict \"context\" .) }}",
            ],
            &["{{ if .Values.a }}{{ include (print $.Template.BasePath \"/a.yaml\") . | sha256sum }}{{ end }}"],
        ];
        for texts in passed {
            assert!(!used(texts), "{texts:?}");
        }
    }

    fn used(texts: &[&str]) -> bool {
        is_used_as_a_whole(&texts.iter().map(|text| actions(text)).collect::<Vec<_>>())
    }
}
