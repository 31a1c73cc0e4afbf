//! From the nodes of a document to a value, in the order of go-yaml v2, which decides on duplicate and merged keys.

use std::collections::{BTreeMap, BTreeSet};

use super::nodes::{NodeIndex, NodeTree, YamlNode};
use super::scalars;
use super::value::{GoValue, ReadError, float_text};
use crate::bounds::{KUSTOMIZATION_DEPTH, KUSTOMIZATION_VALUES};

/// Versions of go-yaml that read the text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    V2,
    /// Versions 2 and 3; what they read differently is not supported.
    Both,
}

pub(super) fn decode(document: &NodeTree, dialect: Dialect) -> Result<GoValue, ReadError> {
    // Go counts the document as a value.
    let mut decoder =
        Decoder { document, dialect, aliases: BTreeSet::new(), values: 1, aliased_values: 0, alias_depth: 0, depth: 0 };
    if document.nodes.is_empty() {
        return Ok(GoValue::Null);
    }
    decoder.value(0)
}

/// FoundEntries of a mapping by key and its type. A key that two types write in the same way has no certain value.
type FoundEntries = BTreeMap<(String, &'static str), GoValue>;

struct Decoder<'a> {
    document: &'a NodeTree,
    dialect: Dialect,
    /// Aliases that are being read.
    aliases: BTreeSet<NodeIndex>,
    values: usize,
    aliased_values: usize,
    alias_depth: usize,
    depth: usize,
}

impl Decoder<'_> {
    fn value(&mut self, id: NodeIndex) -> Result<GoValue, ReadError> {
        self.count()?;
        match &self.document.nodes[id] {
            YamlNode::Scalar { value, tag, is_plain } => self.scalar(value, tag.as_deref(), *is_plain),
            YamlNode::Alias(target) => self.alias(id, |decoder| decoder.value(*target)),
            YamlNode::Sequence(items) => {
                self.enter()?;
                let values = items.iter().map(|item| self.value(*item)).collect::<Result<_, _>>()?;
                self.depth -= 1;
                Ok(GoValue::List(values))
            }
            YamlNode::Mapping(entries) => {
                let mut found = FoundEntries::new();
                self.entries(entries, &mut found)?;
                let mut map = BTreeMap::new();
                for ((key, _), value) in found {
                    if map.contains_key(&key) {
                        return Err(ReadError::unsupported(format!("the key {key:?} is there with two types")));
                    }
                    map.insert(key, value);
                }
                Ok(GoValue::Map(map))
            }
        }
    }

    fn scalar(&self, value: &str, tag: Option<&str>, is_plain: bool) -> Result<GoValue, ReadError> {
        let resolved = scalars::resolve(value, tag, is_plain)?;
        let is_certain = tag.is_none() && (!is_plain || scalars::is_same_in_v3(value, &resolved));
        if self.dialect != Dialect::V2 && !is_certain {
            return Err(ReadError::unsupported(format!("{value:?} has not the same type in all versions of YAML")));
        }
        Ok(resolved)
    }

    /// Adds entries to a map. A merge replaces the keys before it.
    fn entries(&mut self, entries: &[(NodeIndex, NodeIndex)], found: &mut FoundEntries) -> Result<(), ReadError> {
        self.enter()?;
        for (key, value) in entries {
            if self.is_merge(*key) {
                self.merge(*value, found)?;
                continue;
            }
            let key = match self.value(*key)? {
                GoValue::Text(key) => (key, "string"),
                GoValue::Bool(key) => (key.to_string(), "bool"),
                GoValue::Int(key) => (key.to_string(), "int"),
                GoValue::Float(key) => (key_text(key), "float"),
                GoValue::Null | GoValue::Uint(_) | GoValue::List(_) | GoValue::Map(_) => {
                    return Err(ReadError::invalid("unsupported map key"));
                }
            };
            let value = self.value(*value)?;
            if found.insert(key, value).is_some() && self.dialect == Dialect::Both {
                return Err(ReadError::unsupported("a key is there twice"));
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn is_merge(&self, key: NodeIndex) -> bool {
        match &self.document.nodes[key] {
            YamlNode::Scalar { value, tag, is_plain } => {
                value == "<<" && (*is_plain || tag.as_deref() == Some("tag:yaml.org,2002:merge"))
            }
            _ => false,
        }
    }

    fn merge(&mut self, source: NodeIndex, found: &mut FoundEntries) -> Result<(), ReadError> {
        if self.dialect == Dialect::Both {
            return Err(ReadError::unsupported("the text has a merge key"));
        }
        match &self.document.nodes[source] {
            // The first of several maps takes precedence.
            YamlNode::Sequence(sources) => sources.iter().rev().try_for_each(|source| self.merge_map(*source, found)),
            _ => self.merge_map(source, found),
        }
    }

    fn merge_map(&mut self, source: NodeIndex, found: &mut FoundEntries) -> Result<(), ReadError> {
        let target = match self.document.nodes[source] {
            YamlNode::Alias(target) => target,
            _ => source,
        };
        let YamlNode::Mapping(entries) = &self.document.nodes[target] else {
            return Err(ReadError::invalid("map merge requires map or sequence of maps as the value"));
        };
        self.count()?;
        if target == source {
            return self.entries(entries, found);
        }
        self.alias(source, |decoder| {
            decoder.count()?;
            decoder.entries(entries, found)
        })
    }

    fn alias<T>(
        &mut self,
        id: NodeIndex,
        read: impl FnOnce(&mut Self) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        if self.dialect == Dialect::Both {
            return Err(ReadError::unsupported("the text has an alias"));
        }
        if !self.aliases.insert(id) {
            return Err(ReadError::invalid("an anchor contains itself"));
        }
        self.alias_depth += 1;
        let found = read(self)?;
        self.alias_depth -= 1;
        self.aliases.remove(&id);
        Ok(found)
    }

    fn enter(&mut self) -> Result<(), ReadError> {
        self.depth += 1;
        KUSTOMIZATION_DEPTH.check(self.depth).map_err(ReadError::exceeded)
    }

    /// Counts a value. Go refuses documents of which aliases make up too much.
    fn count(&mut self) -> Result<(), ReadError> {
        self.values += 1;
        self.aliased_values += usize::from(self.alias_depth > 0);
        let share = self.aliased_values as f64 / self.values as f64;
        if self.aliased_values > 100 && self.values > 1000 && share > allowed_share(self.values) {
            return Err(ReadError::invalid("document contains excessive aliasing"));
        }
        KUSTOMIZATION_VALUES.check(self.values).map_err(ReadError::exceeded)
    }
}

/// Returns the share of values that may come from aliases: 99 % up to 400,000 values, 10 % from 4,000,000 on.
fn allowed_share(values: usize) -> f64 {
    const LOW: f64 = 400_000.0;
    const HIGH: f64 = 4_000_000.0;
    let above = ((values as f64 - LOW) / (HIGH - LOW)).clamp(0.0, 1.0);
    0.99 - 0.89 * above
}

fn key_text(key: f64) -> String {
    match key {
        key if key.is_nan() => ".nan".to_owned(),
        f64::INFINITY => ".inf".to_owned(),
        f64::NEG_INFINITY => "-.inf".to_owned(),
        key => float_text(key),
    }
}
