//! Templates of charts with the values that they have in the cluster, for a render without the cluster.
//!
//! `helm template` renders with revision 1, with the API versions that it was built with, and with an empty answer to
//! every `lookup`. The templates are therefore changed before they are rendered, so that the output is that of the
//! cluster, or there is none. Source: Helm v4.2.2 `pkg/action/install.go` and `pkg/engine`.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::archive::ChartFiles;
use super::lookups::{self, LOOKUP, Lookups};
use super::order;
use super::random::{Seed, alternatives};
use super::root::other_capabilities;
use super::tokens::{action_length, is_word, quoted_length, token_length};
use crate::bounds::TEMPLATE_DEPTH;

/// Values of a cluster and of a release in it that templates can read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClusterValues {
    /// Revision of the release.
    pub(crate) revision: i64,
    /// API versions that the cluster serves: `GROUP/VERSION` and `GROUP/VERSION/KIND`; empty if they are not known.
    pub(crate) api_versions: BTreeSet<String>,
    /// Version of the API server, such as `v1.33.1`; `None` if it is not known.
    pub(crate) kube_version: Option<String>,
    /// Answers to the lookups of templates so far.
    pub(crate) lookups: Lookups,
    /// Seed of the random values and the clock that templates see.
    pub(crate) seed: Seed,
}

/// File of the named template that answers for `.Capabilities.APIVersions.Has`.
const FILE: &str = "templates/_kubectl-gitops.tpl";
/// Beginning of the names of all named templates that are added.
const OWN: &str = "kubectl-gitops.";
/// Name of this template.
const HAS: &str = "kubectl-gitops.serves";
/// Name of the named template in place of `tpl`.
const TPL: &str = "kubectl-gitops.tpl";
/// Beginning of the message of a template that needs what is not known here.
pub const NOT_KNOWN: &str = "kubectl-gitops: ";
/// API versions of the cluster that have no objects to list.
const WITHOUT_OBJECTS: [&str; 2] = ["authentication.k8s.io/v1", "authorization.k8s.io/v1"];

impl ClusterValues {
    /// Returns the files of a chart to render.
    ///
    /// Fails if a template reads what is not known of the cluster.
    pub(crate) fn applied_to(&self, files: &ChartFiles) -> Result<ChartFiles, String> {
        let mut applied = ChartFiles::new();
        let mut texts = files.values().filter_map(|content| std::str::from_utf8(content).ok());
        let mut first = if texts.any(computes_fields) { self.sets_revision() } else { String::new() };
        if self.is_second() {
            first.push_str(&other_capabilities(&self.api_versions));
        }
        for (at, content) in files {
            let changed = match std::str::from_utf8(content) {
                Ok(text) if text.contains("{{") => {
                    let text = self.applied_to_text(text).map_err(|what| {
                        format!("{at} of its chart uses {what}, whose value in the cluster is not known here")
                    })?;
                    let first = if is_template(at) { &*first } else { "" };
                    Arc::from(format!("{first}{text}").into_bytes())
                }
                _ => content.clone(),
            };
            applied.insert(at.clone(), changed);
        }
        let versions: String = self.api_versions.iter().map(|version| format!(" {version:?}")).collect();
        let has = format!(
            "{{{{- define \"{HAS}\" -}}}}{{{{- if contains \"metrics.k8s.io\" . -}}}}{{{{- fail \"{NOT_KNOWN}it is not known if \
             the cluster serves metrics.k8s.io\" -}}}}{{{{- end -}}}}\
             {{{{- if has . (list{versions}) -}}}}true{{{{- end -}}}}{{{{- end -}}}}\n"
        );
        let own = [has, lookups::template(&self.lookups), tpl_template(), Seed::templates()].concat()
            + &order::templates(self.is_second());
        applied.insert(FILE.to_owned(), own.into_bytes().into());
        Ok(applied)
    }

    fn is_second(&self) -> bool {
        self.seed == Seed::Second
    }

    /// Returns an action without output that gives the release its revision. The templates of a chart share it, so a
    /// field whose name is computed has it too.
    fn sets_revision(&self) -> String {
        format!("{{{{ $_ := set $.Release \"Revision\" {} }}}}", self.revision)
    }

    /// Returns a text in which all actions, the parts between `{{` and `}}`, have the values of the cluster.
    ///
    /// Fails with the name of a value that is not known.
    pub(crate) fn applied_to_text(&self, text: &str) -> Result<String, String> {
        let (mut changed, mut rest) = (String::with_capacity(text.len()), text);
        while let Some(start) = rest.find("{{") {
            changed.push_str(&rest[..start]);
            let length = action_length(&rest[start..]);
            let (before, action) = (changed.len(), &rest[start..start + length]);
            self.add_action(action, 0, &mut changed)?;
            if changed[before..].contains(order::VARIABLE) {
                if action.trim_start_matches(['{', '-']).trim_start().starts_with("else") {
                    return Err("values in an else".to_owned());
                }
                changed.insert_str(before, &order::declaration(action));
            }
            rest = &rest[start + length..];
        }
        changed.push_str(rest);
        Ok(changed)
    }

    /// Adds an action, or an operand in `depth` calls.
    fn add_action(&self, action: &str, depth: usize, changed: &mut String) -> Result<(), String> {
        TEMPLATE_DEPTH.check(depth).map_err(|exceeded| exceeded.to_string())?;
        let mut rest = action;
        while let Some(first) = rest.chars().next() {
            let length = match first {
                _ if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
                _ => token_length(rest),
            };
            let (token, after) = rest.split_at(length);
            if let Some(count) = operands_of(token) {
                let (operands, length) = operands(after, count).ok_or_else(|| format!("{token} in a pipeline"))?;
                self.add_call(token, &operands, depth, changed)?;
                rest = &after[length..];
                continue;
            }
            if order::is_listing(token) {
                let (function, end) = order::replaced(token, self.is_second());
                rest = self.add_with_operands([function, &end], after, depth, changed)?;
                continue;
            }
            if token.ends_with(".APIVersions.Has") && !self.api_versions.is_empty() {
                if changed.trim_end().ends_with(')') {
                    return Err(token.to_owned());
                }
                // A function can ask for a boolean, and the result of `include` is a text.
                let around = [&format!("include \"{HAS}\""), " | eq \"true\""];
                rest = self.add_with_operands(around, after, depth, changed)?;
                continue;
            }
            if token.starts_with(['"', '`']) && may_name_own(changed, token) {
                return Err(token.to_owned());
            }
            match token.trim_matches(['"', '`']) {
                "Revision" | "APIVersions" | "HelmVersion" if token != "Revision" => return Err(token.to_owned()),
                _ if is_word(first) => self.add_word(token, changed)?,
                _ => changed.push_str(token),
            }
            rest = after;
        }
        Ok(())
    }

    /// Adds a function in place of another one, the operands of which begin `after`, and what follows them. Returns the rest.
    fn add_with_operands<'t>(
        &self,
        [function, end]: [&str; 2],
        after: &'t str,
        depth: usize,
        changed: &mut String,
    ) -> Result<&'t str, String> {
        let (operands, rest) = after.split_at(order::operands_length(after));
        changed.push_str(function);
        self.add_action(operands, depth + 1, changed)?;
        changed.push_str(end);
        Ok(rest)
    }

    /// Adds the named template in place of a function with these operands, in `depth` other calls.
    fn add_call(&self, function: &str, operands: &[&str], depth: usize, changed: &mut String) -> Result<(), String> {
        let is_lookup = function == "lookup";
        let (name, start, end) = if is_lookup { (LOOKUP, "(", ") | fromJson)") } else { (TPL, "", ")") };
        changed.push_str(&format!("{start}include \"{name}\" (list"));
        for operand in operands {
            changed.push(' ');
            self.add_action(operand, depth + 1, changed)?;
        }
        changed.push_str(end);
        Ok(())
    }

    fn add_word(&self, word: &str, changed: &mut String) -> Result<(), String> {
        let segments: Vec<&str> = word.split('.').collect();
        if let Some(replacement) = self.seed.replacement(word) {
            changed.push_str(replacement);
            return Ok(());
        }
        match &segments[..] {
            [.., "Release", "Revision"] => changed.push_str(&self.revision.to_string()),
            _ if segments.contains(&"Values") => changed.push_str(word),
            [_, .., "Revision" | "APIVersions" | "HelmVersion"] | [.., "APIVersions" | "HelmVersion", _] => {
                return Err(word.to_owned());
            }
            // All of them: the name of a field could be computed.
            [_, .., "Capabilities"] => return Err(word.to_owned()),
            [.., "KubeVersion"] | [.., "KubeVersion", _] if !self.knows_version(&segments) => {
                return Err(word.to_owned());
            }
            _ => changed.push_str(word),
        }
        Ok(())
    }

    /// Returns true if `--kube-version` gives a field of the version the value that it has in the cluster: others than
    /// the text of the version can have suffixes.
    fn knows_version(&self, segments: &[&str]) -> bool {
        let is_text = matches!(segments.last(), Some(&("Version" | "GitVersion")));
        self.kube_version
            .as_ref()
            .is_some_and(|version| is_text || version.chars().all(|c| c.is_ascii_digit() || c == '.' || c == 'v'))
    }
}

/// Returns the API versions of types that are served, as templates write them.
pub(crate) fn api_versions<'a>(served: impl Iterator<Item = (&'a str, &'a str, &'a str)>) -> BTreeSet<String> {
    let mut versions: BTreeSet<String> = WITHOUT_OBJECTS.map(str::to_owned).into();
    for (group, version, kind) in served {
        let version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        versions.insert(format!("{version}/{kind}"));
        versions.insert(version);
    }
    versions
}

/// Returns true if a template uses the release as a whole, so that it can compute the name of a field, or a text that
/// can do so.
fn computes_fields(template: &str) -> bool {
    let mut uses = template.match_indices(".Release").map(|(at, word)| &template[at + word.len()..]);
    uses.any(|after| !after.starts_with(|c: char| c == '.' || c == '_' || c.is_alphanumeric()))
        || template.contains("tpl")
}

/// Returns true if a quoted text after an action so far can be the name of a named template that is added here: the
/// chart would define it in another way, or see that it is not rendered in the cluster.
fn may_name_own(before: &str, quoted: &str) -> bool {
    let names = ["define", "block", "template", "include"].iter().any(|word| before.trim_end().ends_with(word));
    quoted.contains(OWN) || (names && quoted.starts_with('"') && quoted.contains('\\'))
}

/// Returns true for a file that helm executes, in a chart or in one that it contains.
fn is_template(at: &str) -> bool {
    at.starts_with("templates/") || at.contains("/templates/")
}

/// Returns the number of operands of a function that a named template replaces.
fn operands_of(function: &str) -> Option<usize> {
    match function {
        "lookup" => Some(4),
        "tpl" => Some(2),
        _ => None,
    }
}

/// Returns the named template in place of `tpl`. It fails if the text has a function that is replaced in every text
/// which is not composed while rendering, as its result here would not be that of the cluster.
fn tpl_template() -> String {
    // The parts of an action: text in quotes, and everything else that does not end it.
    let parts = r#"(?:"(?:\\.|[^"\\])*"|\x60[^\x60]*\x60|'(?:\\.|[^'\\])*'|[^"'\x60}]|\}[^}])*?"#;
    let functions = format!(r#"(?:lookup|tpl|values|{})[^\w"\x60]"#, alternatives());
    let unsorted = r"keys(?:\s+(?:\([^()]*\)|[^\s()|}]+))*\s*(?:\)|-?\}|\|\s*(?:[^\ss]|s[^o]))";
    let fields = r"\.(?:Release\.Revision|APIVersions|HelmVersion)\b";
    let defined = r#"\{\{-?\s*(?:define|block)\s*["\x60][^"\x60]*(?:kubectl-gitops|\\)"#;
    // The word can be at the very start of the action.
    let called = format!(r#"(?:{parts}[^\w.$"\x60])?(?:{functions}|{unsorted})"#);
    let pattern = format!(r"\{{\{{(?:{called}|{parts}{fields})|{defined}");
    format!(
        "{{{{- define \"{TPL}\" -}}}}{{{{- if regexMatch `{pattern}` (toString (index . 0)) -}}}}\
         {{{{- fail \"{NOT_KNOWN}it composes a template while it is rendered, which calls what only the cluster knows\" -}}}}\
         {{{{- end -}}}}{{{{- tpl (index . 0) (index . 1) -}}}}{{{{- end -}}}}\n"
    )
}

/// Returns a number of operands at the start of a text, and the length up to the end of the last one.
fn operands(text: &str, count: usize) -> Option<(Vec<&str>, usize)> {
    let (mut found, mut at) = (vec![], 0);
    for _ in 0..count {
        let (operand, length) = operand(&text[at..])?;
        found.push(operand);
        at += length;
    }
    Some((found, at))
}

/// Returns the operand at the start of a text, and the length up to its end.
fn operand(text: &str) -> Option<(&str, usize)> {
    let start = text.len() - text.trim_start().len();
    let rest = &text[start..];
    let length = match rest.chars().next()? {
        '(' => parenthesised_length(rest)?,
        '"' | '`' => quoted_length(rest),
        first if is_word(first) => 0,
        _ => return None,
    };
    let fields = rest[length..].find(|c| !is_word(c)).unwrap_or(rest.len() - length);
    Some((&rest[..length + fields], start + length + fields))
}

/// Returns the length of the expression in parentheses at the start of a text.
fn parenthesised_length(text: &str) -> Option<usize> {
    let (mut at, mut depth) = (0, 0usize);
    while at < text.len() {
        match text.as_bytes()[at] {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        at += token_length(&text[at..]);
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(kube_version: Option<&str>) -> ClusterValues {
        ClusterValues {
            revision: 7,
            api_versions: api_versions([("apps", "v1", "Deployment"), ("", "v1", "Pod")].into_iter()),
            kube_version: kube_version.map(str::to_owned),
            lookups: Lookups::new(),
            seed: Seed::Second,
        }
    }

    #[test]
    fn values_of_the_cluster_are_written_into_actions_only() {
        let rows = [
            ("lookup .Release.Revision", "lookup .Release.Revision"),
            ("a-{{ .Release.Revision }}-lookup", "a-{{ 7 }}-lookup"),
            ("{{- $.Release.Revision | quote -}}", "{{- 7 | quote -}}"),
            (
                "{{ (lookup \"v1\" \"Secret\" \"\" \"lookup\").data }}",
                "{{ ((include \"kubectl-gitops.lookup\" (list \"v1\" \"Secret\" \"\" \"lookup\") | fromJson)).data }}",
            ),
            (
                "{{ include \"x.lookup\" . }}{{ .lookup }}{{ $lookup }}",
                "{{ include \"x.lookup\" . }}{{ .lookup }}{{ $lookup }}",
            ),
            ("{{/* lookup }} */}}{{ `}} lookup` }}", "{{/* lookup }} */}}{{ `}} lookup` }}"),
            (
                "{{ if .Capabilities.APIVersions.Has \"apps/v1\" }}",
                "{{ if include \"kubectl-gitops.serves\" \"apps/v1\" | eq \"true\" }}",
            ),
            (
                "{{ ternary 1 2 (.Capabilities.APIVersions.Has (print \"v\" 1)) }}",
                "{{ ternary 1 2 (include \"kubectl-gitops.serves\" (print \"v\" 1) | eq \"true\") }}",
            ),
            ("{{ tpl .Values.a . }}", "{{ include \"kubectl-gitops.tpl\" (list .Values.a .) }}"),
            (
                "{{- (tpl (print \")\" (toYaml .x)).y $ | nindent 2) -}}",
                "{{- (include \"kubectl-gitops.tpl\" (list (print \")\" (toYaml .x)).y $) | nindent 2) -}}",
            ),
            (
                "{{ tpl (tpl `a` .) $ctx }}",
                "{{ include \"kubectl-gitops.tpl\" (list (include \"kubectl-gitops.tpl\" (list `a` .)) $ctx) }}",
            ),
            ("{{ .Values.tpl }}{{ .now }}{{ randInt 0 5 }}", "{{ .Values.tpl }}{{ .now }}{{ max 0 5 }}"),
            (
                "{{- first (keys .a) | quote -}}{{ .b | keys }}",
                "{{- first (keys .a | sortAlpha | include \"kubectl-gitops.turned\" | fromJsonArray) | quote -}}\
                 {{ .b | keys | sortAlpha | include \"kubectl-gitops.turned\" | fromJsonArray }}",
            ),
            (
                "a {{- range values (index .a 1) }}",
                "a {{- $kubectlGitops := dict }}{{- range list (index .a 1) | set $kubectlGitops \"in\" | \
                 include \"kubectl-gitops.values\" | default $kubectlGitops.out }}",
            ),
            ("{{ .Values.Revision }}{{ unended", "{{ .Values.Revision }}{{ unended"),
            ("{{ .Capabilities.KubeVersion.Minor }}", "{{ .Capabilities.KubeVersion.Minor }}"),
        ];
        for (text, expected) in rows {
            assert_eq!(values(Some("v1.33.1")).applied_to_text(text).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn calls_in_calls_are_limited() {
        let nested = |depth: usize| format!("{{{{ {}`a`{} }}}}", "(tpl ".repeat(depth), " .)".repeat(depth));
        assert!(values(None).applied_to_text(&nested(100)).is_ok());
        assert_eq!(
            values(None).applied_to_text(&nested(1_000)),
            Err("more than 100 nested calls (limit template-depth)".to_owned())
        );
    }

    #[test]
    fn what_is_not_known_is_named() {
        let refused = |version: Option<&str>, text: &str| values(version).applied_to_text(text).unwrap_err();
        assert_eq!(refused(None, "{{ .Capabilities.KubeVersion.GitVersion }}"), ".Capabilities.KubeVersion.GitVersion");
        assert_eq!(
            refused(Some("v1.33.1-gke.1"), "{{ .Capabilities.KubeVersion.Minor }}"),
            ".Capabilities.KubeVersion.Minor"
        );
        assert!(values(Some("v1.33.1-gke.1")).applied_to_text("{{ .Capabilities.KubeVersion.Version }}").is_ok());
        let computed = "index .Capabilities (print \"Helm\" \"Version\")";
        for text in ["$release.Revision", "index .Release \"Revision\"", "range .Capabilities.APIVersions", computed] {
            refused(Some("v1"), &format!("{{{{ {text} }}}}"));
        }
        refused(Some("v1"), "{{ .Capabilities.HelmVersion.Version }}");
        refused(Some("v1"), "{{ if (first .a).Capabilities.APIVersions.Has \"v1\" }}");
        for text in ["define \"kubectl-gitops.lookup\"", "define `kubectl-gitops.a`", "define \"kubectl\\x2dgitops.a\""]
        {
            refused(Some("v1"), &format!("{{{{- {text} -}}}}{{{{ end }}}}"));
        }
        assert_eq!(refused(Some("v1"), "{{ . | tpl .Values.a }}"), "tpl in a pipeline");
        assert_eq!(refused(Some("v1"), "{{- else if values .a }}"), "values in an else");
        assert_eq!(refused(Some("v1"), "{{ .x | lookup \"v1\" \"Pod\" . }}"), "lookup in a pipeline");
        let unread = ClusterValues { api_versions: BTreeSet::new(), ..values(None) };
        assert!(unread.applied_to_text("{{ .Capabilities.APIVersions.Has \"v1\" }}").is_err());
    }
}
