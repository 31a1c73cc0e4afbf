//! BuildVariables of `spec.postBuild`.
//!
//! Source: docs/reference/kustomize-controller.md 3.5.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::charts::values::values_sources;
use super::envsubst;
use super::objects::data::{DataRef, Lookup};
use super::objects::undecrypted::UNKNOWN;
use crate::kubernetes::object::{Resource, list_at};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::schemes::flux_helmrelease;
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND};
use crate::private::Private;

/// Label or annotation that opts an object out of substitution with the exact value `disabled`.
pub(super) const SUBSTITUTE: &str = "kustomize.toolkit.fluxcd.io/substitute";

/// BuildVariables of a Kustomization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BuildVariables {
    values: BTreeMap<String, Private<String>>,
    /// Names of the variables whose values come from Secrets.
    secret: BTreeSet<String>,
    strict: bool,
}

/// Reason why variables cannot be resolved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SubstituteError {
    /// A ConfigMap or Secret that is not optional does not exist.
    #[error("substituteFrom {0} does not exist")]
    Missing(String),
    /// A ConfigMap or Secret could not be read here, and the reason. The controller may be able to read it.
    #[error("substituteFrom {0} cannot be read: {1}")]
    Unreadable(String, String),
    /// A Secret that is not read, because only the tree names it.
    #[error("the tree names a Secret that no live Kustomization uses, so it is not read: {0}")]
    NotRead(String),
    /// A key that is not a variable name.
    #[error("variable name {0:?} is not valid, so every substitution of this Kustomization fails")]
    Name(String),
    /// A key of a Secret that is not a variable name. It is not shown, as nothing of a Secret is.
    #[error(
        "a key of a Secret in substituteFrom is no valid variable name, so every substitution of this Kustomization fails"
    )]
    NameInSecret,
}

/// An entry of `spec.postBuild.substituteFrom`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VariableSource<'a> {
    /// Kind: `ConfigMap` or `Secret`.
    pub(crate) kind: &'a str,
    /// Name, in the Kustomization's namespace.
    pub(crate) name: &'a str,
    /// The ConfigMap or Secret may be missing.
    pub(crate) optional: bool,
}

impl VariableSource<'_> {
    /// Returns a reference to the ConfigMap or Secret in the Kustomization's namespace.
    pub(crate) fn reference(&self, namespace: &str) -> DataRef {
        DataRef { kind: self.kind.to_owned(), namespace: namespace.to_owned(), name: self.name.to_owned() }
    }
}

/// Returns the entries of `spec.postBuild.substituteFrom` in order.
pub(crate) fn variable_sources(spec: &Value) -> impl Iterator<Item = VariableSource<'_>> {
    let entries = list_at(spec, "/postBuild/substituteFrom").iter();
    entries.map(|entry| VariableSource {
        kind: entry.get("kind").and_then(Value::as_str).unwrap_or_default(),
        name: entry.get("name").and_then(Value::as_str).unwrap_or_default(),
        optional: entry.get("optional").and_then(Value::as_bool).unwrap_or_default(),
    })
}

/// Returns the ConfigMaps and Secrets with variables or values of a live owner.
pub(crate) fn data_references(live: &Resource) -> Vec<DataRef> {
    let (id, namespace) = (&live.object.id, &live.object.id.namespace);
    if id.is(GROUP, KIND) {
        variable_sources(live.spec()).map(|source| source.reference(namespace)).collect()
    } else if id.is(flux_helmrelease::GROUP, flux_helmrelease::KIND) {
        values_sources(namespace, live.spec()).map(|source| source.reference).collect()
    } else {
        vec![]
    }
}

/// Returns the Secrets that live Kustomizations read variables from and live HelmReleases read values from. No other Secret
/// is read: a tree that nobody has reviewed must not choose which Secrets of the cluster are read.
pub fn secrets_in_use(snapshot: &Snapshot) -> BTreeSet<DataRef> {
    snapshot.resources.iter().flat_map(data_references).filter(DataRef::is_secret).collect()
}

/// Returns the ConfigMaps that live Kustomizations read variables from and live HelmReleases read values from.
pub fn config_maps_in_use(snapshot: &Snapshot) -> BTreeSet<DataRef> {
    snapshot.resources.iter().flat_map(data_references).filter(|reference| reference.kind == "ConfigMap").collect()
}

/// Resolves the variables of a Kustomization's spec; `None` if nothing is substituted. `found` holds the data of every
/// [`variable_sources`] entry; `strict` is the controller's rule for variables that are not set.
/// Every error fails the whole build.
pub(crate) fn resolve_variables(
    spec: &Value,
    found: &[(VariableSource<'_>, &Lookup)],
    strict: bool,
) -> Result<Option<BuildVariables>, SubstituteError> {
    let Some(post_build) = spec.get("postBuild").filter(|value| value.is_object()) else {
        return Ok(None);
    };
    let (mut values, mut secret) = (BTreeMap::new(), BTreeSet::new());
    for (VariableSource { kind, name, optional }, lookup) in found {
        match lookup {
            Lookup::Found(data) => {
                for (key, value) in &data.values {
                    values.insert(key.clone(), Private::new(value.reveal().replace('\n', "")));
                    if data.is_secret {
                        secret.insert(key.clone());
                    } else {
                        secret.remove(key);
                    }
                }
            }
            Lookup::Missing if *optional => {}
            Lookup::Missing => return Err(SubstituteError::Missing(format!("{kind}/{name}"))),
            Lookup::NotRead => return Err(SubstituteError::NotRead(format!("{kind}/{name}"))),
            Lookup::Unreadable(why) => return Err(SubstituteError::Unreadable(format!("{kind}/{name}"), why.clone())),
        }
    }
    for (key, value) in post_build.get("substitute").and_then(Value::as_object).into_iter().flatten() {
        values.insert(key.clone(), Private::new(value.as_str().unwrap_or_default().replace('\n', "")));
        secret.remove(key);
    }
    let always = post_build.get("substituteStrategy").and_then(Value::as_str) == Some("Always");
    if values.is_empty() && !always {
        return Ok(None);
    }
    match values.keys().find(|key| !is_variable_name(key)) {
        Some(key) if secret.contains(key) => Err(SubstituteError::NameInSecret),
        Some(key) => Err(SubstituteError::Name(key.clone())),
        None => Ok(Some(BuildVariables { values, secret, strict })),
    }
}

fn is_variable_name(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && name.starts_with(|c: char| !c.is_ascii_digit())
}

impl BuildVariables {
    /// Substitutes the variables in the YAML text of one object.
    /// Fails if a substitution is malformed or, in strict mode, a variable is not set.
    pub(super) fn substitute(&self, text: &str) -> Result<String, envsubst::EnvsubstError> {
        envsubst::substitute(text, |name| self.value(name), self.strict)
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|value| value.reveal().as_str())
    }

    /// Returns the text of one object with placeholders for the values of Secrets; `None` if it uses none.
    pub(super) fn substitute_masked(&self, text: &str) -> Option<String> {
        if self.secret.is_empty() {
            return None;
        }
        envsubst::substitute_masked(text, |name| self.value(name), |name| self.secret.contains(name), UNKNOWN)
    }

    /// Returns true if a variable has a value of a Secret.
    pub(super) fn hold_secrets(&self) -> bool {
        !self.secret.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flux::build::objects::data::Data;
    use serde_json::json;

    fn data(pairs: &[(&str, &str)]) -> Lookup {
        let values = pairs.iter().map(|(key, value)| ((*key).to_owned(), Private::new((*value).to_owned()))).collect();
        Lookup::Found(Data { values, ..Data::default() })
    }

    fn lookup(kind: &str, name: &str) -> Lookup {
        match (kind, name) {
            ("ConfigMap", "one") => data(&[("x", "one"), ("y", "a\nb\n")]),
            ("Secret", "two") => data(&[("x", "two")]),
            ("ConfigMap", "empty") => data(&[]),
            ("ConfigMap", "odd") => data(&[("my-key", "1")]),
            ("Secret", "closed") => Lookup::Unreadable("forbidden".to_owned()),
            _ => Lookup::Missing,
        }
    }

    fn resolve(spec: &Value) -> Result<Option<BuildVariables>, SubstituteError> {
        let found: Vec<_> = variable_sources(spec).map(|source| (source, lookup(source.kind, source.name))).collect();
        let found: Vec<_> = found.iter().map(|(source, data)| (*source, data)).collect();
        resolve_variables(spec, &found, true)
    }

    fn substituted(post_build: Value, text: &str) -> Result<Option<String>, SubstituteError> {
        let variables = resolve(&json!({ "postBuild": post_build }))?;
        Ok(variables.and_then(|variables| variables.substitute(text).ok()))
    }

    #[test]
    fn later_sources_override_earlier_ones_and_inline_values_override_all() {
        let from = json!([{"kind": "ConfigMap", "name": "one"}, {"kind": "Secret", "name": "two"}]);
        let both = json!({"substituteFrom": from, "substitute": {"z": "3"}});
        assert_eq!(substituted(both, "${x} ${y} ${z}"), Ok(Some("two ab 3".to_owned())));
        let inline = json!({"substituteFrom": from, "substitute": {"x": "inline"}});
        assert_eq!(substituted(inline, "${x}"), Ok(Some("inline".to_owned())));
    }

    #[test]
    fn a_variable_is_secret_if_its_last_source_is_a_secret() {
        let secret = Lookup::Found(Data {
            values: ["x", "z"].map(|key| (key.to_owned(), Private::new("s".to_owned()))).into(),
            is_secret: true,
            ..Data::default()
        });
        let spec = json!({"postBuild": {"substituteFrom": [
            {"kind": "ConfigMap", "name": "one"}, {"kind": "Secret", "name": "s"}, {"kind": "ConfigMap", "name": "z"},
        ]}});
        let (first, last) = (data(&[("x", "one"), ("y", "two")]), data(&[("z", "open")]));
        let found: Vec<_> = variable_sources(&spec).zip([&first, &secret, &last]).collect();
        let variables = resolve_variables(&spec, &found, true).unwrap().unwrap();
        assert_eq!(variables.substitute_masked("${x} ${y} ${z}").as_deref(), Some("?????????? two open"));
        assert_eq!(variables.substitute_masked("${y}"), None);
    }

    #[test]
    fn without_a_variable_nothing_is_substituted() {
        let empty = json!([{"kind": "ConfigMap", "name": "empty"}]);
        assert_eq!(substituted(json!({"substituteFrom": empty}), "${x:=d}"), Ok(None));
        let always = json!({"substituteFrom": empty, "substituteStrategy": "Always"});
        assert_eq!(substituted(always, "${x:=d}"), Ok(Some("d".to_owned())));
        assert_eq!(resolve(&json!({})), Ok(None));
    }

    fn substitute_from(kind: &str, name: &str) -> Value {
        json!({"substituteFrom": [{"kind": kind, "name": name}]})
    }

    #[test]
    fn a_missing_source_or_an_invalid_name_fails_the_build() {
        assert_eq!(
            substituted(substitute_from("ConfigMap", "none"), ""),
            Err(SubstituteError::Missing("ConfigMap/none".to_owned()))
        );
        assert_eq!(
            substituted(substitute_from("ConfigMap", "odd"), ""),
            Err(SubstituteError::Name("my-key".to_owned()))
        );
        assert!(matches!(substituted(substitute_from("Secret", "closed"), ""), Err(SubstituteError::Unreadable(..))));
        let optional = json!({"substituteFrom": [{"kind": "Secret", "name": "none", "optional": true}]});
        assert_eq!(substituted(optional, "${x}"), Ok(None));
    }
}
