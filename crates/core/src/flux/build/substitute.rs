//! `spec.postBuild`: which variables there are, and on which objects they are replaced.
//!
//! Source: reference kustomize-controller 3.5.

use std::collections::BTreeMap;

use serde_json::Value;

use super::envsubst;
use super::variables::Data;

/// Label or annotation that keeps an object from being substituted; its value is compared exactly.
pub const SWITCH: &str = "kustomize.toolkit.fluxcd.io/substitute";

/// What a ConfigMap or Secret of `substituteFrom` holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Its data.
    Found(Data),
    /// It does not exist.
    Missing,
    /// It could not be read, and why.
    Unreadable(String),
}

/// Variables and how to use them; `None` from [`variables`] means that nothing is substituted at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variables {
    values: BTreeMap<String, String>,
    strict: bool,
}

/// Why variables could not be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubstituteError {
    /// A ConfigMap or Secret that is not optional is not there.
    #[error("substituteFrom {0} is not there")]
    Missing(String),
    /// We cannot read it; the controller may.
    #[error("substituteFrom {0} cannot be read: {1}")]
    Unreadable(String, String),
    /// A key that is no variable name fails everything.
    #[error("variable name {0:?} is not valid, so every substitution of this Kustomization fails")]
    Name(String),
}

/// The variables of a Kustomization's spec. `lookup` reads a (kind, name) in its namespace; `strict` is the controller's
/// default (on since version 1.9).
///
/// # Errors
/// [`SubstituteError`]; each of them fails the whole build.
pub fn variables(
    spec: &Value,
    lookup: impl Fn(&str, &str) -> Lookup,
    strict: bool,
) -> Result<Option<Variables>, SubstituteError> {
    let Some(post_build) = spec.get("postBuild").filter(|value| value.is_object()) else {
        return Ok(None);
    };
    let mut values = BTreeMap::new();
    for VariableSource { kind, name, optional } in sources(spec) {
        match lookup(kind, name) {
            Lookup::Found(Data { values: found, .. }) => {
                values.extend(found.into_iter().map(|(key, value)| (key, value.replace('\n', ""))));
            }
            Lookup::Missing if optional => {}
            Lookup::Missing => return Err(SubstituteError::Missing(format!("{kind}/{name}"))),
            Lookup::Unreadable(why) => return Err(SubstituteError::Unreadable(format!("{kind}/{name}"), why)),
        }
    }
    for (key, value) in post_build.get("substitute").and_then(Value::as_object).into_iter().flatten() {
        values.insert(key.clone(), value.as_str().unwrap_or_default().replace('\n', ""));
    }
    let always = post_build.get("substituteStrategy").and_then(Value::as_str) == Some("Always");
    if values.is_empty() && !always {
        return Ok(None);
    }
    match values.keys().find(|key| !valid_name(key)) {
        Some(key) => Err(SubstituteError::Name(key.clone())),
        None => Ok(Some(Variables { values, strict })),
    }
}

/// An entry of `spec.postBuild.substituteFrom`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VariableSource<'a> {
    /// `ConfigMap` or `Secret`.
    pub kind: &'a str,
    /// Name, in the Kustomization's namespace.
    pub name: &'a str,
    /// Whether it may be missing.
    pub optional: bool,
}

/// Where a Kustomization's spec takes variables from, in order.
pub fn sources(spec: &Value) -> impl Iterator<Item = VariableSource<'_>> {
    let entries = spec.pointer("/postBuild/substituteFrom").and_then(Value::as_array).into_iter().flatten();
    entries.map(|entry| {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
        let optional = entry.get("optional").and_then(Value::as_bool).unwrap_or_default();
        VariableSource { kind: text("kind"), name: text("name"), optional }
    })
}

fn valid_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().all(plain) && name.starts_with(|c: char| !c.is_ascii_digit())
}

impl Variables {
    /// Replaces the variables in the YAML text of one object.
    ///
    /// # Errors
    /// When a substitution is malformed or, in strict mode, a variable is not set.
    pub fn apply(&self, text: &str) -> Result<String, envsubst::EnvsubstError> {
        envsubst::substitute(text, |name| self.values.get(name).cloned(), self.strict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(pairs: &[(&str, &str)]) -> Lookup {
        let values = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Lookup::Found(Data { values, ..Data::default() })
    }

    fn lookup(kind: &str, name: &str) -> Lookup {
        match (kind, name) {
            ("ConfigMap", "one") => found(&[("x", "one"), ("y", "a\nb\n")]),
            ("Secret", "two") => found(&[("x", "two")]),
            ("ConfigMap", "empty") => found(&[]),
            ("ConfigMap", "odd") => found(&[("my-key", "1")]),
            ("Secret", "closed") => Lookup::Unreadable("forbidden".to_owned()),
            _ => Lookup::Missing,
        }
    }

    fn applied(post_build: Value, text: &str) -> Result<Option<String>, SubstituteError> {
        let variables = variables(&json!({ "postBuild": post_build }), lookup, true)?;
        Ok(variables.and_then(|variables| variables.apply(text).ok()))
    }

    #[test]
    fn later_sources_win_and_inline_wins_over_all() {
        let from = json!([{"kind": "ConfigMap", "name": "one"}, {"kind": "Secret", "name": "two"}]);
        let both = json!({"substituteFrom": from, "substitute": {"z": "3"}});
        assert_eq!(applied(both, "${x} ${y} ${z}"), Ok(Some("two ab 3".to_owned())));
        let inline = json!({"substituteFrom": from, "substitute": {"x": "inline"}});
        assert_eq!(applied(inline, "${x}"), Ok(Some("inline".to_owned())));
    }

    #[test]
    fn without_a_variable_nothing_is_substituted() {
        let empty = json!([{"kind": "ConfigMap", "name": "empty"}]);
        assert_eq!(applied(json!({"substituteFrom": empty}), "${x:=d}"), Ok(None));
        let always = json!({"substituteFrom": empty, "substituteStrategy": "Always"});
        assert_eq!(applied(always, "${x:=d}"), Ok(Some("d".to_owned())));
        assert_eq!(variables(&json!({}), lookup, true), Ok(None));
    }

    #[test]
    fn what_fails_the_whole_build() {
        let from = |kind: &str, name: &str| json!({"substituteFrom": [{"kind": kind, "name": name}]});
        assert_eq!(applied(from("ConfigMap", "none"), ""), Err(SubstituteError::Missing("ConfigMap/none".to_owned())));
        assert_eq!(applied(from("ConfigMap", "odd"), ""), Err(SubstituteError::Name("my-key".to_owned())));
        assert!(matches!(applied(from("Secret", "closed"), ""), Err(SubstituteError::Unreadable(..))));
        let optional = json!({"substituteFrom": [{"kind": "Secret", "name": "none", "optional": true}]});
        assert_eq!(applied(optional, "${x}"), Ok(None));
    }
}
