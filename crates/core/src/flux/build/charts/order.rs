//! The order of maps in templates, which differs from render to render.
//!
//! `keys` and `values` list a map in the order in which Go goes through it. One render sorts the lists, and the other
//! one turns them, so that no place of a list has the same element in both.

use super::tokens::{Token, token_length};

/// Name of the named template that turns a sorted list of texts.
const TURNED: &str = "kubectl-gitops.turned";
/// Name of the named template that lists the values of a map by its sorted keys.
const VALUES: &str = "kubectl-gitops.values";
/// Variable with the operand and the result of that template: the result of `include` is a text.
pub(super) const VARIABLE: &str = "$kubectlGitops";

/// Returns true for a function whose result has the order of a map.
pub(super) fn is_listing(function: &str) -> bool {
    matches!(function, "keys" | "values")
}

/// Returns the function in place of one whose result has the order of a map, and what follows its operands.
pub(super) fn replaced(function: &str, is_turned: bool) -> (&'static str, String) {
    match function {
        "keys" => ("keys", format!(" | {}", sorted(is_turned))),
        _ => ("list", format!(" | set {VARIABLE} \"in\" | include \"{VALUES}\" | default {VARIABLE}.out")),
    }
}

/// Returns the action that declares the variable, with the beginning of the action before which it is.
pub(super) fn declaration(action: &str) -> String {
    let begin = if action.starts_with("{{-") { "{{-" } else { "{{" };
    format!("{begin} {VARIABLE} := dict }}}}")
}

/// Returns the named templates that replacements include.
pub(super) fn templates(is_turned: bool) -> String {
    let turned = "{{- $r := reverse . -}}{{- $m := div (len $r) 2 | int -}}{{- if mod (len $r) 2 -}}\
                  {{- $r = concat (slice $r 0 $m) (slice $r (add $m 1)) (list (index $r $m)) -}}{{- end -}}\
                  {{- toJson $r -}}";
    let values = format!(
        "{{{{- $map := first .in -}}}}{{{{- $_ := values $map -}}}}{{{{- $out := list -}}}}\
         {{{{- range keys $map | {} -}}}}{{{{- $out = append $out (index $map .) -}}}}{{{{- end -}}}}\
         {{{{- $_ := set . \"out\" $out -}}}}",
        sorted(is_turned)
    );
    [(TURNED, turned), (VALUES, &values)]
        .map(|(name, body)| format!("{{{{- define \"{name}\" -}}}}{body}{{{{- end -}}}}\n"))
        .concat()
}

/// Returns the length of the operands at the start of a text, up to the end of their command.
pub(super) fn operands_length(text: &str) -> usize {
    let (mut at, mut depth) = (0, 0usize);
    while at < text.len() {
        let rest = &text[at..];
        match rest.as_bytes()[0] {
            b'|' if depth == 0 => break,
            b')' if depth == 0 => break,
            _ if rest.starts_with("}}") || rest.starts_with("-}}") => break,
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        at += token_length(rest);
    }
    text[..at].trim_end().len()
}

/// Returns true if an action lists a map and does not sort the list at once.
pub(super) fn is_unsorted(action: &[Token<'_>]) -> bool {
    action.iter().enumerate().any(|(at, token)| match token {
        Token::Word("values") => true,
        Token::Word("keys") => !is_sorted_at(&action[at + 1..]),
        _ => false,
    })
}

/// Returns true if the command with these operands is followed by one that sorts.
fn is_sorted_at(operands: &[Token<'_>]) -> bool {
    let mut depth = 0usize;
    for (at, token) in operands.iter().enumerate() {
        match token {
            Token::Open => depth += 1,
            Token::Close if depth == 0 => return false,
            Token::Close => depth -= 1,
            Token::Pipe if depth == 0 => return matches!(operands.get(at + 1), Some(Token::Word("sortAlpha"))),
            _ => {}
        }
    }
    false
}

fn sorted(is_turned: bool) -> String {
    let turned = if is_turned { format!(" | include \"{TURNED}\" | fromJsonArray") } else { String::new() };
    format!("sortAlpha{turned}")
}

#[cfg(test)]
mod tests {
    use super::super::tokens::actions;
    use super::*;

    #[test]
    fn lists_of_maps_count_unless_they_are_sorted_at_once() {
        let rows = [
            ("{{ keys .a | first }}", true),
            ("{{ first (keys .a) }}", true),
            ("{{ .a | keys | join \",\" }}", true),
            ("{{ values .a | first }}", true),
            ("{{ range keys .a .b }}", true),
            ("{{ range $k := keys (index .a 1) | sortAlpha }}", false),
            ("{{ (keys .a | sortAlpha) | first }}", false),
            ("{{ .keys }}{{ .Values.values }}{{ \"keys\" }}", false),
        ];
        for (text, expected) in rows {
            assert_eq!(actions(text).iter().any(|action| is_unsorted(action)), expected, "{text}");
        }
    }
}
