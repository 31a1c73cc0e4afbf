//! `spec.pathPattern`: the directories of a source that match a pattern, and the artifacts for each of them.
//!
//! `{name}` in the pattern captures text in one directory name. Names of artifacts have the text in lower case, paths have
//! it as it is. Source: source-watcher v2.2.2 `internal/controller/artifactgenerator_pathpattern.go`.

use std::collections::{BTreeMap, BTreeSet};

use super::spec::{CopyOperation, GeneratorSpec, OutputArtifact};
use super::{SourceContent, Stop};
use crate::kubernetes::selector::{is_name, is_subdomain};

/// A part of a text with captures.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PatternPart {
    Literal(String),
    Capture(String),
}

/// Returns the artifacts of a generator: those of its spec, or those for each directory that its pattern matches.
pub(super) fn expand(
    spec: &GeneratorSpec,
    contents: &BTreeMap<String, SourceContent>,
) -> Result<Vec<OutputArtifact>, Stop> {
    if spec.path_pattern.is_empty() {
        return Ok(spec.artifacts.clone());
    }
    let found = spec.path_pattern.strip_prefix('@').and_then(|pattern| pattern.split_once('/'));
    let (alias, pattern) = found.ok_or_else(|| fails(spec, "has no alias"))?;
    let source = match contents.get(alias) {
        Some(SourceContent::Known(artifact)) => artifact,
        Some(SourceContent::Unchanged(why) | SourceContent::Unknown(why)) => return Err(Stop::Unknown(why.clone())),
        None => return Err(fails(spec, "has an alias that it does not have")),
    };
    let parts = parse(pattern).map_err(|why| fails(spec, &why))?;
    let mut seen = BTreeSet::new();
    for name in parts.iter().filter_map(|part| if let PatternPart::Capture(name) = part { Some(name) } else { None }) {
        if !seen.insert(name) {
            return Err(fails(spec, &format!("has the capture {name:?} twice")));
        }
        if !is_name(name) {
            return Err(fails(spec, &format!("has the capture {name:?}, which is no name of a label")));
        }
    }
    let (mut artifacts, mut names) = (vec![], BTreeSet::new());
    for directory in directories_in_order(source.directories()) {
        let Some(raw) = captures(&parts, directory) else { continue };
        let lower: BTreeMap<&str, String> = raw.iter().map(|(name, text)| (*name, text.to_lowercase())).collect();
        if let Some((name, text)) = lower.iter().find(|(_, text)| !is_name(text)) {
            return Err(fails(spec, &format!("captures {text:?} for {name:?}, which is no value of a label")));
        }
        for artifact in &spec.artifacts {
            let rendered = render(artifact, &lower, &raw).map_err(|why| fails(spec, &why))?;
            if !is_subdomain(&rendered.name) {
                return Err(fails(spec, &format!("gives the name {:?}, which is not valid", rendered.name)));
            }
            if !names.insert(rendered.name.clone()) {
                return Err(fails(spec, &format!("gives the name {:?} twice", rendered.name)));
            }
            artifacts.push(rendered);
        }
    }
    Ok(artifacts)
}

fn fails(spec: &GeneratorSpec, why: &str) -> Stop {
    Stop::Fails(format!("its pathPattern {:?} {why}", spec.path_pattern))
}

/// Returns directories in the order of a walk: names are compared one by one.
fn directories_in_order<'d>(directories: impl Iterator<Item = &'d str>) -> Vec<&'d str> {
    let mut found: Vec<&str> = directories.collect();
    found.sort_by(|a, b| a.split('/').cmp(b.split('/')));
    found
}

/// Returns the parts of a text with captures.
///
/// Fails with the reason why it is malformed.
fn parse(text: &str) -> Result<Vec<PatternPart>, String> {
    let mut parts = vec![];
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let (literal, braced) = rest.split_at(at);
        let Some(inner) = braced.strip_prefix('{') else { return Err("has a } without a {".to_owned()) };
        let (name, after) = inner.split_once('}').ok_or_else(|| "has a { without a }".to_owned())?;
        let is_word = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_word || !name.starts_with(|c: char| !c.is_ascii_digit()) {
            return Err(format!("has the capture {name:?}, which is not valid"));
        }
        parts.extend((!literal.is_empty()).then(|| PatternPart::Literal(literal.to_owned())));
        parts.push(PatternPart::Capture(name.to_owned()));
        rest = after;
    }
    parts.extend((!rest.is_empty()).then(|| PatternPart::Literal(rest.to_owned())));
    Ok(parts)
}

/// Returns the texts that a directory gives to the captures; `None` if it does not match. The first capture takes as much
/// as it can.
fn captures<'p>(parts: &'p [PatternPart], directory: &str) -> Option<BTreeMap<&'p str, String>> {
    let mut failed = BTreeSet::new();
    let mut found = vec![];
    matches(parts, directory, 0, 0, &mut failed, &mut found).then(|| found.into_iter().collect())
}

fn matches<'p>(
    parts: &'p [PatternPart],
    directory: &str,
    number: usize,
    from: usize,
    failed: &mut BTreeSet<(usize, usize)>,
    found: &mut Vec<(&'p str, String)>,
) -> bool {
    let rest = &directory[from..];
    let Some(part) = parts.get(number) else { return rest.is_empty() };
    if failed.contains(&(number, from)) {
        return false;
    }
    let is_match = match part {
        PatternPart::Literal(literal) => {
            rest.starts_with(&**literal) && matches(parts, directory, number + 1, from + literal.len(), failed, found)
        }
        PatternPart::Capture(name) => {
            let end = rest.find('/').unwrap_or(rest.len());
            let ends: Vec<usize> = rest[..end].char_indices().map(|(at, c)| at + c.len_utf8()).collect();
            ends.into_iter().rev().any(|length| {
                found.push((name, rest[..length].to_owned()));
                let is_match = matches(parts, directory, number + 1, from + length, failed, found);
                if !is_match {
                    found.pop();
                }
                is_match
            })
        }
    };
    if !is_match {
        failed.insert((number, from));
    }
    is_match
}

/// Returns an artifact with captured texts in its name and its paths.
fn render(
    artifact: &OutputArtifact,
    lower: &BTreeMap<&str, String>,
    raw: &BTreeMap<&str, String>,
) -> Result<OutputArtifact, String> {
    let copy = artifact.copy.iter().map(|operation| {
        let alias = rendered(&operation.alias, raw)?;
        let (pattern, to) = (rendered(&operation.pattern, raw)?, rendered(&operation.to, raw)?);
        Ok(CopyOperation { alias, pattern, to, ..operation.clone() })
    });
    Ok(OutputArtifact {
        name: rendered(&artifact.name, lower)?,
        copy: copy.collect::<Result<_, String>>()?,
        ..artifact.clone()
    })
}

fn rendered(text: &str, captured: &BTreeMap<&str, String>) -> Result<String, String> {
    let parts = parse(text).map_err(|why| format!("has an artifact with {text:?}, which {why}"))?;
    let texts = parts.into_iter().map(|part| match part {
        PatternPart::Literal(literal) => Ok(literal),
        PatternPart::Capture(name) => {
            let found = captured.get(&*name).cloned();
            found.ok_or_else(|| format!("has an artifact with {text:?}, whose capture {name:?} it does not have"))
        }
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(pattern: &str, directory: &str) -> Option<Vec<(String, String)>> {
        let parts = parse(pattern).unwrap();
        let found = captures(&parts, directory)?;
        Some(found.into_iter().map(|(name, text)| (name.to_owned(), text)).collect())
    }

    #[test]
    fn a_capture_is_in_one_name_and_takes_as_much_as_it_can() {
        let pair = |a: &str, b: &str| Some(vec![("a".to_owned(), a.to_owned()), ("b".to_owned(), b.to_owned())]);
        assert_eq!(captured("apps/{a}/{b}", "apps/x/y"), pair("x", "y"));
        assert_eq!(captured("{a}-{b}", "x-y-z"), pair("x-y", "z"));
        for other in ["apps/x", "apps/x/y/z", "apps//y"] {
            assert_eq!(captured("apps/{a}/{b}", other), None, "{other}");
        }
        assert_eq!(captured("", "apps"), None);
        assert_eq!(captured("apps.d", "appsxd"), None);
    }

    #[test]
    fn malformed_captures_are_refused() {
        for pattern in ["{a", "a}", "{}", "{1a}", "{a-b}"] {
            assert!(parse(pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn a_walk_compares_names_and_not_paths() {
        assert_eq!(directories_in_order(["a", "a-b", "a/x"].into_iter()), ["a", "a/x", "a-b"]);
    }
}
