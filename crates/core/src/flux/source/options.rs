//! Fields of a source's spec that decide what source-controller packs.
//!
//! Source: docs/reference/kustomize-controller.md 3.1.

use serde_json::Value;

use super::path;
use super::tree::{File, Tree};
use crate::kubernetes::object::{Resource, list_at, text_at};

/// Ignore rules that a kind of source applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IgnoreFilter {
    /// Ignore files of every directory, and the defaults if there is no pattern: GitRepository, OCIRepository.
    #[default]
    Full,
    /// The ignore file of the root, no defaults: Bucket.
    RootOnly,
    /// No rules: an OCIRepository that copies its layer, an ExternalArtifact.
    Nothing,
}

/// Options of packing a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceOptions {
    /// Ignore rules of the kind.
    pub filter: IgnoreFilter,
    /// `spec.ignore`: lines with the highest priority.
    pub ignore: Option<String>,
    /// `spec.sparseCheckout`: string prefixes of paths; empty means every path.
    pub sparse: Vec<String>,
    /// An ignore file may be a symbolic link: GitRepository, whose checkout has links.
    pub follows_links: bool,
}

impl SourceOptions {
    /// Reads the options of a source of any kind.
    pub fn of(source: &Resource) -> Self {
        Self::of_spec(&source.object.id.kind, source.spec())
    }

    /// Reads the options of a source with this spec.
    pub(crate) fn of_spec(kind: &str, spec: &Value) -> Self {
        let copies_layer = text_at(spec, "/layerSelector/operation") == "copy";
        let filter = match kind {
            "Bucket" => IgnoreFilter::RootOnly,
            "ExternalArtifact" => IgnoreFilter::Nothing,
            _ if copies_layer => IgnoreFilter::Nothing,
            _ => IgnoreFilter::Full,
        };
        let sparse = list_at(spec, "/sparseCheckout").iter();
        Self {
            filter,
            ignore: spec.get("ignore").and_then(Value::as_str).map(str::to_owned),
            sparse: sparse.filter_map(Value::as_str).map(str::to_owned).collect(),
            follows_links: kind == "GitRepository",
        }
    }
}

/// Returns an entry of `spec.sparseCheckout` that is no path of the repository: source-controller then keeps the artifact that it
/// has. An entry selects by its text, but must be the whole path of a file or of a directory.
///
/// Source: `validateSparseCheckoutPaths` in gitrepository_controller.go of source-controller v1.9.3.
pub(crate) fn missing_sparse_path<'s>(spec: &'s Value, tree: &Tree) -> Option<&'s str> {
    let mut entries = list_at(spec, "/sparseCheckout").iter().filter_map(Value::as_str);
    entries.find(|entry| !tree.has(&path::secure_join(entry)))
}

/// Returns the directories of the artifact of a source with this spec whose content its tree does not hold.
///
/// Source: `GetToPath` in api/v1/gitrepository_types.go of source-controller v1.9.3.
pub(crate) fn missing_directories(spec: &Value, tree: &Tree) -> Vec<String> {
    let included = list_at(spec, "/include").iter().map(|include| {
        let to = text_at(include, "/toPath");
        path::secure_join(if to.is_empty() { text_at(include, "/repository/name") } else { to })
    });
    let recurses = spec["recurseSubmodules"] == Value::Bool(true);
    let submodules = tree.iter().filter(|(_, file)| recurses && **file == File::Submodule);
    included.chain(submodules.map(|(at, _)| at.to_owned())).collect()
}

/// Returns the content of the artifact of a source with this spec that its tree does not hold, as a sentence; `None` if the tree
/// is complete.
pub fn missing_content(spec: &Value, tree: &Tree) -> Option<&'static str> {
    if !list_at(spec, "/include").is_empty() {
        return Some("it includes artifacts of other sources, whose content is not in this tree");
    }
    (!missing_directories(spec, tree).is_empty()).then_some("it has submodules, whose content is not in this tree")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::flux_object;
    use serde_json::json;

    fn source(kind: &str, spec: Value) -> Resource {
        flux_object(kind, json!({ "spec": spec }), &[])
    }

    #[test]
    fn the_kind_and_the_layer_operation_select_the_ignore_rules() {
        let rows = [
            ("GitRepository", json!({}), IgnoreFilter::Full),
            ("Bucket", json!({}), IgnoreFilter::RootOnly),
            ("ExternalArtifact", json!({}), IgnoreFilter::Nothing),
            ("OCIRepository", json!({}), IgnoreFilter::Full),
            ("OCIRepository", json!({"layerSelector": {"operation": "extract"}}), IgnoreFilter::Full),
            ("OCIRepository", json!({"layerSelector": {"operation": "copy"}}), IgnoreFilter::Nothing),
        ];
        for (kind, spec, expected) in rows {
            assert_eq!(SourceOptions::of(&source(kind, spec.clone())).filter, expected, "{kind} {spec}");
        }
    }

    #[test]
    fn ignore_lines_and_sparse_checkout_are_read_from_the_spec() {
        let spec = json!({"ignore": "/*\n!/apps\n", "sparseCheckout": ["apps", "./infra"]});
        let options = SourceOptions::of(&source("GitRepository", spec));
        assert_eq!(options.ignore.as_deref(), Some("/*\n!/apps\n"));
        assert_eq!(options.sparse, ["apps", "./infra"]);
        let plain = SourceOptions { follows_links: true, ..Default::default() };
        assert_eq!(SourceOptions::of(&source("GitRepository", json!({}))), plain);
    }

    #[test]
    fn an_entry_of_a_sparse_checkout_is_the_path_of_a_file_or_a_directory() {
        let tree: Tree = [("app/a.yaml", ""), ("apple.yaml", "")].into_iter().collect();
        let missing = |entries: &[&str]| {
            let spec = json!({ "sparseCheckout": entries });
            missing_sparse_path(&spec, &tree).map(str::to_owned)
        };
        assert_eq!(missing(&[]), None);
        assert_eq!(missing(&["app", "./app/", "/apple.yaml", "."]), None);
        assert_eq!(missing(&["app", "appl"]).as_deref(), Some("appl"));
        assert_eq!(missing(&["./typo"]).as_deref(), Some("./typo"));
    }

    #[test]
    fn includes_and_recursed_submodules_are_not_in_the_tree() {
        let plain: Tree = [("a.yaml", "")].into_iter().collect();
        let mut nested = plain.clone();
        nested.insert("lib", File::Submodule).unwrap();
        let rows = [
            (json!({}), &nested, None),
            (json!({"recurseSubmodules": true}), &plain, None),
            (json!({"recurseSubmodules": true}), &nested, Some("submodules")),
            (json!({"include": []}), &plain, None),
            (json!({"include": [{"repository": {"name": "b"}}]}), &plain, Some("other sources")),
        ];
        for (spec, tree, expected) in rows {
            let missing = missing_content(&spec, tree);
            assert_eq!(missing.is_some(), expected.is_some(), "{spec}");
            assert!(missing.unwrap_or_default().contains(expected.unwrap_or_default()), "{spec}");
        }
    }
}
