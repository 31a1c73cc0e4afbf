//! Patches of the manifests of Kustomizations in a tree: one field of `spec`, with everything else as it was written.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use similar::TextDiff;

use crate::flux::source::tree::{File, Tree};
use crate::flux::spec::NamespacedName;
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND};
use crate::yaml;

/// A setting of a Kustomization that keeps its objects while they are handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Hold {
    /// `deletionPolicy: Orphan`: its deletion leaves its objects behind.
    Orphan,
    /// `prune: false`: it forgets what leaves its build.
    KeepInventory,
}

impl Hold {
    /// Returns the field of `spec` and its value.
    pub fn field(self) -> (&'static str, &'static str) {
        match self {
            Self::Orphan => ("deletionPolicy", "Orphan"),
            Self::KeepInventory => ("prune", "false"),
        }
    }
}

/// The change of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FilePatch {
    /// Path in the checkout.
    pub file: String,
    /// Unified diff, as `git apply` reads it.
    pub diff: String,
}

impl FilePatch {
    /// Returns the difference between two versions of a file.
    pub fn of(file: &str, before: &str, after: &str) -> Self {
        let diff = TextDiff::from_lines(before, after);
        let diff = diff.unified_diff().context_radius(3).header(&format!("a/{file}"), &format!("b/{file}")).to_string();
        Self { file: file.to_owned(), diff }
    }
}

/// Sets the field of a hold in the manifest of a Kustomization. Returns the path of the file and its texts before and after.
///
/// Fails if no file has the manifest, or several do, or the field cannot be set in its text.
pub fn hold_in_tree(tree: &mut Tree, owner: &NamespacedName, hold: Hold) -> Result<(String, String, String), String> {
    let mut found = vec![];
    for (path, file) in tree.iter().filter(|(path, _)| path.ends_with(".yaml") || path.ends_with(".yml")) {
        let File::Regular(content) = file else { continue };
        let Ok(text) = std::str::from_utf8(content) else { continue };
        if text.contains(KIND)
            && let Some(patched) = set_field(text, owner, hold)
        {
            found.push((path.to_owned(), text.to_owned(), patched));
        }
    }
    let [(path, before, after)] = &found[..] else {
        let (field, value) = hold.field();
        let place = match found.len() {
            0 => "no file has its manifest in a form that can be patched".to_owned(),
            _ => format!("several files have a manifest of that name: {}", found[0].0.clone() + ", " + &found[1].0),
        };
        return Err(format!("{place}; `{field}: {value}` must be set by hand"));
    };
    tree.replace(path, File::Regular(Arc::from(after.as_bytes())));
    Ok((path.clone(), before.clone(), after.clone()))
}

/// Returns a file with the field in the manifest of a Kustomization; `None` if it has no such manifest.
fn set_field(text: &str, owner: &NamespacedName, hold: Hold) -> Option<String> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut start = 0;
    while start <= lines.len() {
        let end = lines[start..].iter().position(|line| line.starts_with("---")).map_or(lines.len(), |at| start + at);
        let document = lines[start..end].concat();
        if is_manifest_of(&document, owner) {
            let patched = set_in_document(&lines[start..end], hold)?;
            return Some(lines[..start].concat() + &patched + &lines[end..].concat());
        }
        start = end + 1;
    }
    None
}

fn is_manifest_of(document: &str, owner: &NamespacedName) -> bool {
    let Ok(manifest) = yaml::document(document) else { return false };
    let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str);
    let is_kind = text("/kind") == Some(KIND) && text("/apiVersion").is_some_and(|version| version.starts_with(GROUP));
    is_kind
        && text("/metadata/name") == Some(&owner.name)
        && text("/metadata/namespace").is_none_or(|namespace| namespace == owner.namespace)
}

/// Sets the field below `spec`: in place of its line, or as the first one.
fn set_in_document(lines: &[&str], hold: Hold) -> Option<String> {
    let (field, value) = hold.field();
    let spec = lines.iter().position(|line| line.starts_with("spec:"))?;
    let rest = lines[spec].trim_start_matches("spec:").trim();
    if !rest.is_empty() && !rest.starts_with('#') {
        return None;
    }
    let below = || lines[spec + 1..].iter().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let (_, first) = below().find(|(_, line)| !line.trim_start().starts_with('#'))?;
    let indent = &first[..first.len() - first.trim_start().len()];
    if indent.is_empty() {
        return None;
    }
    let end = below().find(|(_, line)| !line.starts_with([' ', '#'])).map_or(lines.len(), |(at, _)| spec + 1 + at);
    let key = format!("{indent}{field}:");
    let own = (spec + 1..end).find(|at| lines[*at].starts_with(&key));
    let line = format!("{key} {value}\n");
    let (before, after) = own.map_or((spec + 1, spec + 1), |at| (at, at + 1));
    Some(lines[..before].concat() + &line + &lines[after..].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\n# Ours\napiVersion: \
                        kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata:\n  name: web\n  namespace: \
                        flux-system\nspec:\n    # Slow\n    interval: 1h\n    prune: true\n    path: ./web\n";

    fn owner(name: &str) -> NamespacedName {
        NamespacedName { namespace: "flux-system".to_owned(), name: name.to_owned() }
    }

    #[test]
    fn a_field_is_added_or_replaced_and_comments_stay() {
        let orphan = set_field(ROOT, &owner("web"), Hold::Orphan).unwrap();
        assert_eq!(orphan, ROOT.replace("spec:\n", "spec:\n    deletionPolicy: Orphan\n"));
        let kept = set_field(ROOT, &owner("web"), Hold::KeepInventory).unwrap();
        assert_eq!(kept, ROOT.replace("prune: true", "prune: false"));
        assert_eq!(set_field(ROOT, &owner("other"), Hold::Orphan), None);
        let diff = FilePatch::of("root.yaml", ROOT, &orphan).diff;
        assert!(
            diff.starts_with("--- a/root.yaml\n+++ b/root.yaml\n@@ ")
                && diff.contains("\n+    deletionPolicy: Orphan\n")
        );
    }

    #[test]
    fn a_manifest_that_is_not_found_once_is_refused() {
        let mut tree: Tree = [("a.yaml", ROOT), ("b.yaml", ROOT)].into_iter().collect();
        assert!(hold_in_tree(&mut tree, &owner("web"), Hold::Orphan).unwrap_err().contains("several files"));
        assert!(hold_in_tree(&mut tree, &owner("none"), Hold::Orphan).unwrap_err().contains("no file"));
        let flow = ROOT.replace(
            "spec:\n    # Slow\n    interval: 1h\n    prune: true\n    path: ./web\n",
            "spec: {prune: true}\n",
        );
        let mut tree: Tree = [("a.yaml", flow)].into_iter().collect();
        assert!(hold_in_tree(&mut tree, &owner("web"), Hold::Orphan).unwrap_err().contains("no file"));
    }
}
