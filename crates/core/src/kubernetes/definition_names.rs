//! Names of definitions. In one group, no two definitions can have the same plural, singular or short name, nor the same kind or
//! kind of lists. A new one that asks for a name of another one is never established.
//!
//! Source: apiextensions-apiserver v0.36.3 `pkg/controller/status/naming_controller.go`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::object::{ResourceType, list_at, text_at};

/// Names of a definition in its group.
pub(crate) struct DefinitionNames {
    group: String,
    plural: String,
    resources: BTreeSet<String>,
    kinds: BTreeSet<String>,
}

impl DefinitionNames {
    /// Returns the names that the manifest of a definition asks for.
    pub(crate) fn of_manifest(manifest: &Value) -> Self {
        let (kind, plural) = (text_at(manifest, "/spec/names/kind"), text_at(manifest, "/spec/names/plural"));
        let singular = name_or(text_at(manifest, "/spec/names/singular"), kind.to_lowercase());
        let list = name_or(text_at(manifest, "/spec/names/listKind"), list_kind(kind));
        let short_names =
            list_at(manifest, "/spec/names/shortNames").iter().filter_map(Value::as_str).map(str::to_owned);
        Self {
            group: text_at(manifest, "/spec/group").to_owned(),
            plural: plural.to_owned(),
            resources: short_names.chain([plural.to_owned(), singular]).collect(),
            kinds: [kind.to_owned(), list].into(),
        }
    }

    /// Returns the names of a type that is served. That of its lists is the default.
    pub(crate) fn of_type(served: &ResourceType) -> Self {
        let short_names = served.short_names.iter().map(ToString::to_string);
        Self {
            group: served.group.to_string(),
            plural: served.plural.to_string(),
            resources: short_names.chain([served.plural.to_string(), served.singular.to_string()]).collect(),
            kinds: [served.kind.to_string(), list_kind(&served.kind)].into(),
        }
    }

    /// Returns the group of the definition.
    pub(crate) fn group(&self) -> &str {
        &self.group
    }

    /// Returns the name of the definition.
    pub(crate) fn full_name(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    /// Returns a name that another definition of the group has too.
    pub(crate) fn shared_with<'n>(&'n self, other: &'n Self) -> Option<&'n str> {
        if self.group != other.group || self.plural == other.plural {
            return None;
        }
        let mut kinds = self.kinds.iter().filter(|name| other.kinds.contains(*name));
        let mut resources = self.resources.iter().filter(|name| !name.is_empty() && other.resources.contains(*name));
        kinds.next().or_else(|| resources.next()).map(String::as_str)
    }
}

/// Returns a name, or its default if it is empty.
fn name_or(name: &str, default: String) -> String {
    if name.is_empty() { default } else { name.to_owned() }
}

fn list_kind(kind: &str) -> String {
    format!("{kind}List")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::resource_type;

    #[test]
    fn definitions_of_one_group_share_no_names() {
        let definition = |group: &str, names: Value| {
            DefinitionNames::of_manifest(&json!({"spec": {"group": group, "names": names}}))
        };
        let gadget = |more: Value| {
            let mut names = json!({"kind": "Gadget", "plural": "gadgets"});
            names.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            definition("example.com", names)
        };
        let mut live = resource_type("example.com", "Widget", "widgets", true);
        live.singular = "widget".into();
        live.short_names = vec!["wd".into()];
        let live = DefinitionNames::of_type(&live);
        for (more, shared) in [
            (json!({}), None),
            (json!({"shortNames": ["gd", "wd"]}), Some("wd")),
            (json!({"singular": "widget"}), Some("widget")),
            (json!({"shortNames": ["widgets"]}), Some("widgets")),
            (json!({"listKind": "WidgetList"}), Some("WidgetList")),
            (json!({"kind": "Widget"}), Some("Widget")),
        ] {
            assert_eq!(gadget(more.clone()).shared_with(&live), shared, "{more}");
        }
        let names = json!({"kind": "Widget", "plural": "widgets"});
        assert_eq!(definition("example.com", names.clone()).shared_with(&live), None, "it is the same definition");
        let elsewhere = definition("other.com", json!({"kind": "Widget", "plural": "gadgets"}));
        assert_eq!(elsewhere.shared_with(&live), None);
    }
}
