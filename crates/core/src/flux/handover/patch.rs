//! Patches of manifests in a tree: one field of `spec`, or whole manifests that leave it, with everything else as it was written.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};
use similar::TextDiff;

use super::edit;
use crate::flux::build::is_kustomization_file;
use crate::flux::kinds::OPERATOR_SWITCH;
use crate::flux::source::path;
use crate::flux::source::tree::{File, Tree};
use crate::helm::rendered::POLICY;
use crate::kubernetes::object::{ObjectId, group_of};
use crate::ownership::schemes::flux_kustomization::PRUNE;
use crate::yaml;

/// A kustomization file that keeps a path in the artifact although it has no manifests.
const EMPTY: &str = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: []\n";

/// A setting that decides what becomes of the objects of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hold {
    /// `deletionPolicy: Orphan`: the deletion of a Kustomization leaves its objects behind.
    Orphan,
    /// `prune: false`: a Kustomization forgets what leaves its build.
    KeepInventory,
    /// `suspend: true`: the deletion of a HelmRelease uninstalls nothing.
    Suspend,
    /// `fluxcd.controlplane.io/reconcile: disabled`: flux-operator deletes nothing for a ResourceSet, also if it is deleted.
    Disable,
    /// `helm.sh/resource-policy: keep` on an object: Helm leaves it behind.
    Keep,
    /// `kustomize.toolkit.fluxcd.io/prune: disabled` on an object in Git: a Kustomization leaves it behind.
    Protect,
    /// `deletionPolicy: Delete`: the deletion of a Kustomization deletes its objects, whatever `prune` is.
    Delete,
}

/// Settings that are made in Git.
const IN_GIT: [Hold; 6] =
    [Hold::Orphan, Hold::KeepInventory, Hold::Suspend, Hold::Disable, Hold::Protect, Hold::Delete];

/// A field of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Mapping that has it: `spec`, or `annotations` of `metadata`.
    in_spec: bool,
    pub name: &'static str,
    pub value: &'static str,
}

impl Hold {
    /// Returns the field that it sets.
    pub fn field(self) -> Field {
        let (in_spec, name, value) = match self {
            Self::Orphan => (true, "deletionPolicy", "Orphan"),
            Self::KeepInventory => (true, "prune", "false"),
            Self::Suspend => (true, "suspend", "true"),
            Self::Disable => (false, OPERATOR_SWITCH, "disabled"),
            Self::Keep => (false, POLICY, "keep"),
            Self::Protect => (false, PRUNE, "disabled"),
            Self::Delete => (true, "deletionPolicy", "Delete"),
        };
        Field { in_spec, name, value }
    }

    /// Returns true for a setting that is made in the cluster, because no manifest in Git has the object.
    pub fn is_by_hand(self) -> bool {
        self == Self::Keep
    }
}

impl Field {
    /// The end of a suspension.
    pub const AWAKE: Self = Self { in_spec: true, name: "suspend", value: "false" };

    /// Returns the keys that lead to it.
    fn path(&self) -> Vec<&'static str> {
        let above: &[&str] = if self.in_spec { &["spec"] } else { &["metadata", "annotations"] };
        above.iter().copied().chain([self.name]).collect()
    }

    /// Returns the field as a path in the JSONPath of kubectl.
    pub fn json_path(&self) -> String {
        let parent = if self.in_spec { ".spec" } else { ".metadata.annotations" };
        format!("{parent}.{}", self.name.replace('.', "\\."))
    }

    /// Returns the JSON merge patch that sets the field, or removes it.
    pub fn merge_patch(&self, sets: bool) -> String {
        let value = if sets { self.written() } else { Value::Null };
        let field = json!({ self.name: value });
        let patch = if self.in_spec { json!({"spec": field}) } else { json!({"metadata": {"annotations": field}}) };
        patch.to_string()
    }

    /// Returns true if an object has the field with its value.
    pub fn is_set(&self, object: &Value) -> bool {
        let parent = if self.in_spec { object.get("spec") } else { object.pointer("/metadata/annotations") };
        parent.and_then(|parent| parent.get(self.name)) == Some(&self.written())
    }

    pub(super) fn is_in_spec(&self) -> bool {
        self.in_spec
    }

    /// Returns the value as an object has it.
    pub(super) fn written(&self) -> Value {
        match self.value {
            "true" => true.into(),
            "false" => false.into(),
            text => text.into(),
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.value)
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
    /// Returns the difference between two versions of a file; `None` for one that does not exist.
    pub fn of(file: &str, before: Option<&str>, after: Option<&str>) -> Self {
        let diff = TextDiff::from_lines(before.unwrap_or_default(), after.unwrap_or_default());
        let [old, new] = [("a", before), ("b", after)]
            .map(|(side, text)| text.map_or("/dev/null".to_owned(), |_| quoted(side, file)));
        let text = diff.unified_diff().context_radius(3).header(&old, &new).to_string();
        let mode = match (before, after) {
            (None, _) => "new file mode 100644\n",
            (_, None) => "deleted file mode 100644\n",
            _ => return Self { file: file.to_owned(), diff: text },
        };
        let header = format!("diff --git {} {}\n{mode}", quoted("a", file), quoted("b", file));
        Self { file: file.to_owned(), diff: header + &text }
    }

    /// Returns the differences between two trees.
    pub fn between(before: &Tree, after: &Tree) -> Vec<Self> {
        let patches = changed(before, after).into_iter().map(|path| {
            let [old, new] = [before, after].map(|tree| tree.get(path).and_then(text_of));
            Self::of(path, old, new)
        });
        patches.collect()
    }
}

/// Returns a file name of a header as git writes it: one with a line break would otherwise begin the patch of another file.
fn quoted(side: &str, file: &str) -> String {
    if !file.bytes().any(is_special) {
        return format!("{side}/{file}");
    }
    let mut name = format!("\"{side}/");
    for character in file.chars() {
        match u8::try_from(character) {
            Ok(byte) if is_special(byte) => name += &format!("\\{byte:03o}"),
            _ => name.push(character),
        }
    }
    name + "\""
}

/// Returns true for a byte that git writes with a backslash in the name of a file.
fn is_special(byte: u8) -> bool {
    byte < b' ' || matches!(byte, b'"' | b'\\' | 0x7f)
}

/// Returns true if two trees differ in nothing but settings of steps.
pub fn differ_in_holds(before: &Tree, after: &Tree) -> bool {
    changed_settings(before, after)
        .all(|sides| sides.is_some_and(|(before, after)| before.manifests == after.manifests))
}

/// Returns true if the second of two trees only lacks settings of steps.
pub fn ends_holds(before: &Tree, after: &Tree) -> bool {
    differ_in_holds(before, after)
        && changed_settings(before, after)
            .all(|sides| sides.is_some_and(|(before, after)| after.set.is_subset(&before.set)))
}

/// Returns what each file that is not the same in two trees has in them; `None` for one that is not YAML in both.
fn changed_settings<'t>(before: &'t Tree, after: &'t Tree) -> impl Iterator<Item = Option<(Settings, Settings)>> {
    let paths = changed(before, after).into_iter();
    paths.map(|path| Settings::of_file(before, path).zip(Settings::of_file(after, path)))
}

/// Returns the paths of the files that are not the same in two trees.
fn changed<'t>(before: &'t Tree, after: &'t Tree) -> BTreeSet<&'t str> {
    let paths = before.iter().chain(after.iter()).map(|(path, _)| path);
    paths.filter(|path| before.get(path) != after.get(path)).collect()
}

/// The manifests of a file without settings of steps.
struct Settings {
    manifests: Vec<Value>,
    /// Those settings, each with the place of its manifest.
    set: BTreeSet<(usize, String)>,
}

impl Settings {
    /// Reads a file; `None` if it is no YAML.
    fn of_file(tree: &Tree, path: &str) -> Option<Self> {
        let documents = documents(text_of(tree.get(path)?)?);
        let mut manifests: Vec<Value> = documents.into_iter().map(yaml::document).collect::<Result<_, _>>().ok()?;
        let mut set = BTreeSet::new();
        for (at, manifest) in manifests.iter_mut().enumerate() {
            let fields = IN_GIT.map(Hold::field);
            set.extend(fields.iter().filter(|field| field.is_set(manifest)).map(|field| (at, field.to_string())));
            remove_fields(manifest, &fields);
        }
        Some(Self { manifests, set })
    }
}

/// Removes fields from a manifest, whatever their values are, and annotations if none is left.
fn remove_fields(manifest: &mut Value, fields: &[Field]) {
    if let Some(spec) = manifest.get_mut("spec").and_then(Value::as_object_mut) {
        spec.retain(|key, _| !fields.iter().any(|field| field.in_spec && field.name == key));
    }
    let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else { return };
    annotations.retain(|key, _| !fields.iter().any(|field| !field.in_spec && field.name == key));
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}

/// Sets the field of a hold in the manifest of an owner. `root` is the path of the Kustomization that applies the owner, if one does: it
/// decides between files of several clusters.
///
/// Fails if no file has the manifest, or several do, or the field cannot be set in its text.
pub fn hold_in_tree(tree: &mut Tree, owner: &ObjectId, hold: Hold, root: Option<&str>) -> Result<(), String> {
    set_in_tree(tree, owner, hold.field(), root)
}

/// Sets a field in the manifest of an owner, as [`hold_in_tree`] does.
///
/// Fails as that does.
pub fn set_in_tree(tree: &mut Tree, owner: &ObjectId, field: Field, root: Option<&str>) -> Result<(), String> {
    let all: Vec<(String, Result<String, String>)> = yaml_files(tree)
        .filter(|(_, text)| text.contains(&*owner.kind))
        .filter_map(|(path, text)| Some((path.to_owned(), set_field(text, owner, field)?)))
        .collect();
    let is_only = all.len() == 1;
    let chosen: Vec<_> =
        all.iter().filter(|(path, _)| is_only || root.is_none_or(|root| is_below(path, root))).collect();
    let place = match (&chosen[..], &all[..]) {
        ([(path, Ok(after))], _) => {
            tree.replace(path, Some(File::Regular(Arc::from(after.as_bytes()))));
            return Ok(());
        }
        ([(path, Err(why))], _) => format!("{path} has its manifest, and {why}"),
        ([], []) => "no file has its manifest".to_owned(),
        ([(first, _), (second, _), ..], _) | ([], [(first, _), (second, _), ..]) => {
            format!("several files have a manifest of that name: {first}, {second}")
        }
        ([], [(path, _)]) => format!("only {path} has a manifest of that name"),
    };
    Err(format!("{place}; `{field}` must be set by hand"))
}

/// Returns a tree in which an object still has its manifest of the tree before, in the place where the tree has the
/// manifest of its new name. `root` is the path of the Kustomization that applies both: it decides between files of
/// several clusters. `None` if one of them is not in exactly one file.
#[must_use]
pub fn with_earlier_manifest(
    tree: &Tree,
    before: &Tree,
    (old, new): (&ObjectId, &ObjectId),
    root: Option<&str>,
) -> Option<Tree> {
    let (_, earlier) = only_manifest(before, old, root)?;
    let (path, document) = only_manifest(tree, new, root)?;
    let text = tree.get(path).and_then(text_of)?;
    let start = document.as_ptr().addr() - text.as_ptr().addr();
    let end = if earlier.ends_with('\n') { "" } else { "\n" };
    let after = format!("{}{earlier}{end}{}", &text[..start], &text[start + document.len()..]);
    let mut held = tree.clone();
    held.replace(path, Some(File::Regular(Arc::from(after.as_bytes()))));
    depend_on_old_name(&mut held, (old, new), root);
    Some(held)
}

/// Lets the Kustomizations below a path that depend on a new name depend on the old one.
fn depend_on_old_name(tree: &mut Tree, (old, new): (&ObjectId, &ObjectId), root: Option<&str>) {
    if old.namespace != new.namespace {
        return;
    }
    let files: Vec<(String, String)> = yaml_files(tree)
        .filter(|(path, text)| text.contains(&*new.name) && root.is_none_or(|root| is_below(path, root)))
        .map(|(path, text)| (path.to_owned(), text.to_owned()))
        .collect();
    for (path, text) in files {
        let mut after = text.clone();
        for document in documents(&text).into_iter().rev() {
            let start = document.as_ptr().addr() - text.as_ptr().addr();
            if let Some(edited) = depending_on_old_name(document, old, new) {
                after.replace_range(start..start + document.len(), &edited);
            }
        }
        tree.replace(&path, Some(File::Regular(Arc::from(after.as_bytes()))));
    }
}

/// Returns a manifest that depends on the old name in place of the new one; `None` if it is not of a Kustomization that
/// has dependencies.
fn depending_on_old_name(document: &str, old: &ObjectId, new: &ObjectId) -> Option<String> {
    let manifest = manifest_in(document)?;
    let text = |value: &Value, pointer: &str| value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    if text(&manifest, "/kind")? != *new.kind || group_of(&text(&manifest, "/apiVersion")?) != &*new.group {
        return None;
    }
    let own = text(&manifest, "/metadata/namespace");
    let is_new = |item: &Value| {
        let namespace = text(item, "/namespace").or_else(|| own.clone());
        text(item, "/name").is_some_and(|name| *name == *new.name)
            && namespace.is_none_or(|namespace| *namespace == *new.namespace)
    };
    edit::rename_items(document, &["spec", "dependsOn"], is_new, &old.name)
}

/// Returns the only manifest of an object in a tree, or the only one below a path, and its file.
fn only_manifest<'t>(tree: &'t Tree, id: &ObjectId, root: Option<&str>) -> Option<(&'t str, &'t str)> {
    let manifests = yaml_files(tree).filter(|(_, text)| text.contains(&*id.kind)).flat_map(|(path, text)| {
        let own = documents(text)
            .into_iter()
            .filter(|document| yaml::document(document).is_ok_and(|manifest| is_manifest_of(&manifest, id)));
        own.map(move |document| (path, document))
    });
    let all: Vec<(&str, &str)> = manifests.collect();
    let is_only = all.len() == 1;
    let mut chosen = all.into_iter().filter(|(path, _)| is_only || root.is_none_or(|root| is_below(path, root)));
    chosen.next().filter(|_| chosen.next().is_none())
}

/// Removes manifests from a tree, each with the path of the Kustomization that builds it. A file without manifests goes, and so do
/// the entries of kustomization files that name it. `roots` are paths that stay in the tree although they become empty.
///
/// Fails with an object whose manifest is not in exactly one file, and says why.
pub fn remove_from_tree(
    tree: &mut Tree,
    manifests: &BTreeMap<ObjectId, String>,
    roots: &BTreeSet<String>,
) -> Result<(), (ObjectId, String)> {
    let mut places: BTreeMap<&ObjectId, Vec<(String, usize)>> = BTreeMap::new();
    for (path, text) in yaml_files(tree) {
        for (at, document) in documents(text).into_iter().enumerate() {
            let Some(manifest) = manifest_in(document) else { continue };
            let own = manifests.keys().filter(|id| is_manifest_of(&manifest, id));
            own.for_each(|id| places.entry(id).or_default().push((path.to_owned(), at)));
        }
    }
    let mut dropped: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for (id, root) in manifests {
        let all = places.remove(id).unwrap_or_default();
        let root = directory(root);
        let below: Vec<_> = all.iter().filter(|(path, _)| path.starts_with(&root)).collect();
        let chosen = if all.len() == 1 { all.iter().collect() } else { below };
        let [(path, at)] = chosen[..] else {
            let why = match (&all[..], &chosen[..]) {
                ([], _) => "no file has its manifest under this name".to_owned(),
                (_, []) => format!("several files outside of {root} have a manifest of that name"),
                (_, [first, second, ..]) => format!("several files have its manifest: {}, {}", first.0, second.0),
                (_, [_]) => unreachable!("one place was found"),
            };
            return Err((id.clone(), why));
        };
        dropped.entry(path.clone()).or_default().insert(*at);
    }
    let mut gone = vec![];
    for (path, at) in dropped {
        let Some(text) = tree.get(&path).and_then(text_of) else { continue };
        let rest = without_documents(text, &at);
        let is_empty = documents(&rest).iter().all(|document| yaml::document(document).is_ok_and(|it| it.is_null()));
        tree.replace(&path, (!is_empty).then(|| File::Regular(Arc::from(rest.as_bytes()))));
        gone.extend(is_empty.then_some(path));
    }
    remove_entries(tree, &gone);
    for root in roots {
        let below = directory(root);
        let is_changed = gone.iter().any(|path| path.starts_with(&below));
        if is_changed && !yaml_files(tree).any(|(path, _)| path.starts_with(&below)) {
            tree.replace(&format!("{below}kustomization.yaml"), Some(File::Regular(Arc::from(EMPTY.as_bytes()))));
        }
    }
    Ok(())
}

/// Returns true if a file is below the path of a Kustomization.
pub fn is_below(file: &str, path: &str) -> bool {
    file.starts_with(&directory(path))
}

/// Returns the beginning of the paths below the path of a Kustomization.
fn directory(path: &str) -> String {
    let path = path::secure_join(path);
    if path.is_empty() { path } else { path + "/" }
}

/// Removes the entries of files from the kustomization files that name them.
fn remove_entries(tree: &mut Tree, gone: &[String]) {
    let files: Vec<(String, String)> = yaml_files(tree)
        .filter(|(path, _)| is_kustomization_file(path))
        .map(|(path, text)| (path.to_owned(), text.to_owned()))
        .collect();
    for (path, text) in files {
        let after = edit::without_items(&text, |entry| {
            path::resolve(path::parent(&path), entry).is_some_and(|entry| gone.contains(&entry))
        });
        // A list that cannot be changed names a file that is gone: the plan says that the build fails.
        if let Some(after) = after.filter(|after| *after != text) {
            tree.replace(&path, Some(File::Regular(Arc::from(after.as_bytes()))));
        }
    }
}

fn text_of(file: &File) -> Option<&str> {
    match file {
        File::Regular(content) => std::str::from_utf8(content).ok(),
        _ => None,
    }
}

fn yaml_files(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    let files = tree
        .iter()
        .filter(|(path, _)| path.ends_with(".yaml") || path.ends_with(".yml") || is_kustomization_file(path));
    files.filter_map(|(path, file)| Some((path, text_of(file)?)))
}

/// Returns true for a line that separates documents and has nothing else but a comment.
fn is_separator(line: &str) -> bool {
    let rest = line.strip_prefix("---").filter(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
    rest.map(str::trim_start).is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
}

/// Returns the documents of a file, without the lines between them.
fn documents(text: &str) -> Vec<&str> {
    let (mut found, mut start, mut at) = (vec![], 0, 0);
    for line in text.split_inclusive('\n') {
        if is_separator(line) {
            found.push(&text[start..at]);
            start = at + line.len();
        }
        at += line.len();
    }
    found.push(&text[start..]);
    found
}

/// Returns a file without some of its documents, each with the line before it.
fn without_documents(text: &str, dropped: &BTreeSet<usize>) -> String {
    let (mut rest, mut number) = (String::new(), 0);
    let begins = text.lines().next().is_some_and(is_separator);
    for line in text.split_inclusive('\n') {
        number += usize::from(is_separator(line));
        // Nothing is before the first document that is left.
        let is_first = rest.is_empty() && !begins && line.trim_end() == "---";
        if !dropped.contains(&number) && !is_first {
            rest += line;
        }
    }
    rest
}

/// Returns a file with the field in the manifest of an owner, or why its text cannot have it; `None` if it has no such manifest.
fn set_field(text: &str, owner: &ObjectId, field: Field) -> Option<Result<String, String>> {
    let mut documents = documents(text).into_iter();
    let document =
        documents.find(|document| yaml::document(document).is_ok_and(|manifest| is_manifest_of(&manifest, owner)))?;
    let start = document.as_ptr().addr() - text.as_ptr().addr();
    let after = edit::set(document, &field.path(), &field.written());
    Some(after.map(|after| text[..start].to_owned() + &after + &text[start + document.len()..]))
}

/// Reads a document that can be a manifest.
fn manifest_in(document: &str) -> Option<Value> {
    if document.contains("kind") { yaml::document(document).ok() } else { None }
}

fn is_manifest_of(manifest: &Value, id: &ObjectId) -> bool {
    let [version, kind, name, namespace] = ["/apiVersion", "/kind", "/metadata/name", "/metadata/namespace"]
        .map(|pointer| manifest.pointer(pointer).and_then(Value::as_str));
    version.map(group_of) == Some(&id.group)
        && kind == Some(&id.kind)
        && name == Some(&id.name)
        && namespace.is_none_or(|namespace| *namespace == *id.namespace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ownership::schemes::flux_kustomization::{GROUP, KIND};

    const ROOT: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\n# Ours\napiVersion: \
                        kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata:\n  name: web\n  namespace: \
                        flux-system\nspec:\n    # Slow\n    interval: 1h\n    prune: true\n    path: ./web\n";

    fn owner(name: &str) -> ObjectId {
        ObjectId::new(GROUP, KIND, "flux-system", name)
    }

    #[test]
    fn a_field_is_added_or_replaced_and_comments_stay() {
        let orphan = set_field(ROOT, &owner("web"), Hold::Orphan.field()).unwrap().unwrap();
        assert_eq!(orphan, ROOT.replace("spec:\n", "spec:\n    deletionPolicy: Orphan\n"));
        let kept = set_field(ROOT, &owner("web"), Hold::KeepInventory.field()).unwrap().unwrap();
        assert_eq!(kept, ROOT.replace("prune: true", "prune: false"));
        assert_eq!(set_field(ROOT, &owner("other"), Hold::Orphan.field()), None);
        let diff = FilePatch::of("root.yaml", Some(ROOT), Some(&orphan)).diff;
        assert!(
            diff.starts_with("--- a/root.yaml\n+++ b/root.yaml\n@@ ")
                && diff.contains("\n+    deletionPolicy: Orphan\n")
        );
    }

    #[test]
    fn a_patch_of_settings_alone_is_known() {
        let tree = |text: &str| -> Tree { [("root.yaml", text)].into_iter().collect() };
        let differ = |after: &str| differ_in_holds(&tree(ROOT), &tree(after));
        let orphan = set_field(ROOT, &owner("web"), Hold::Orphan.field()).unwrap().unwrap();
        let kept = set_field(&orphan, &owner("web"), Hold::KeepInventory.field()).unwrap().unwrap();
        assert!(differ(&orphan) && differ(&kept));
        assert!(!ends_holds(&tree(ROOT), &tree(&orphan)) && ends_holds(&tree(&kept), &tree(ROOT)));
        assert!(ends_holds(&tree(&kept), &tree(&orphan)) && !ends_holds(&tree(&orphan), &tree(&kept)));
        assert!(!differ(&kept.replace("./web", "./other")) && !differ("a: b") && !differ("{"));
        assert!(!differ_in_holds(&tree(ROOT), &Tree::default()));
        let flow = "kind: ResourceSet\nmetadata: {name: a}\nspec: {suspend: false, a: 1}\n";
        let set = "kind: ResourceSet\nmetadata: {name: a, annotations: {fluxcd.controlplane.io/reconcile: disabled}}\nspec: {a: 1}\n";
        assert!(ends_holds(&tree(set), &tree(flow)) && !ends_holds(&tree(flow), &tree(set)));
    }

    #[test]
    fn an_annotation_is_added_or_replaced() {
        let set = "apiVersion: fluxcd.controlplane.io/v1\nkind: ResourceSet\nmetadata:\n  name: apps\n  namespace: flux-system\nspec: \
                   {}\n";
        let id = ObjectId::new("fluxcd.controlplane.io", "ResourceSet", "flux-system", "apps");
        let line = "    fluxcd.controlplane.io/reconcile: disabled\n";
        let without = set.replace("metadata:\n", &format!("metadata:\n  annotations:\n{line}"));
        assert_eq!(set_field(set, &id, Hold::Disable.field()).unwrap().unwrap(), without);
        let other =
            set.replace("spec:", "  annotations:\n    a: b\n    fluxcd.controlplane.io/reconcile: enabled\nspec:");
        let replaced = other.replace("reconcile: enabled", "reconcile: disabled");
        assert_eq!(set_field(&other, &id, Hold::Disable.field()).unwrap().unwrap(), replaced);
        let field = Hold::Disable.field();
        assert_eq!(field.json_path(), ".metadata.annotations.fluxcd\\.controlplane\\.io/reconcile");
        let patch = json!({"metadata": {"annotations": {"fluxcd.controlplane.io/reconcile": "disabled"}}});
        assert_eq!(field.merge_patch(true), patch.to_string());
        assert!(field.is_set(&patch) && !field.is_set(&json!({})));
        assert_eq!(Hold::KeepInventory.field().merge_patch(true), r#"{"spec":{"prune":false}}"#);
        assert_eq!(Hold::Suspend.field().merge_patch(false), r#"{"spec":{"suspend":null}}"#);
    }

    #[test]
    fn a_manifest_that_is_not_found_once_is_refused() {
        let mut tree: Tree = [("a.yaml", ROOT), ("b.yaml", ROOT)].into_iter().collect();
        let mut hold = |name: &str, root| hold_in_tree(&mut tree, &owner(name), Hold::Orphan, root);
        assert!(hold("web", None).unwrap_err().contains("several files have a manifest of that name: a.yaml, b.yaml"));
        assert!(hold("web", Some("./clusters")).unwrap_err().contains("several files"));
        assert!(hold("none", None).unwrap_err().contains("no file"));
        let alias = ROOT.replace("spec:\n", "x: &s {prune: true}\nspec: *s\nother:\n");
        let mut tree: Tree = [("a.yaml", alias)].into_iter().collect();
        let refused = hold_in_tree(&mut tree, &owner("web"), Hold::Orphan, None).unwrap_err();
        let why = "a.yaml has its manifest, and its `spec` is an alias of something else; `deletionPolicy: Orphan` must be set by hand";
        assert_eq!(refused, why);
    }

    #[test]
    fn the_path_that_builds_a_manifest_decides_between_clusters() {
        let files = [("clusters/prod/web.yaml", ROOT), ("clusters/test/web.yaml", ROOT)];
        let mut tree: Tree = files.into_iter().collect();
        hold_in_tree(&mut tree, &owner("web"), Hold::Orphan, Some("./clusters/test")).unwrap();
        let text = |path: &str| tree.get(path).and_then(text_of).unwrap().to_owned();
        assert_eq!(text("clusters/prod/web.yaml"), ROOT);
        assert!(text("clusters/test/web.yaml").contains("deletionPolicy: Orphan"));
        let mut tree: Tree = [("base/web.yaml", ROOT)].into_iter().collect();
        hold_in_tree(&mut tree, &owner("web"), Hold::Orphan, Some("./clusters/test")).unwrap();
    }

    #[test]
    fn a_rename_that_waits_keeps_the_old_manifest_where_the_new_one_is() {
        let manifest = |name: &str| {
            format!(
                "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: {name}, namespace: flux-system}}\n"
            )
        };
        let tree = |files: &[(&str, &str)]| -> Tree { files.iter().copied().collect() };
        let [old, new, inner, changed] = ["old", "new", "inner", "inner-two"].map(manifest);
        let list = |file: &str| format!("resources: [b.yaml, {file}]\n");
        let files = |file: &str, name: &str, inner: &str| {
            let (path, list) = (format!("prod/{file}"), list(file));
            let both = format!("{inner}---\n{name}");
            tree(&[("prod/kustomization.yaml", &*list), (&*path, &*both), ("test/a.yaml", name)])
        };
        let (before, after) = (files("a.yaml", old.trim_end(), &inner), files("c.yaml", &new, &changed));
        let held = |root| with_earlier_manifest(&after, &before, (&owner("old"), &owner("new")), root);
        let mut expected = files("c.yaml", &old, &changed);
        expected.replace("test/a.yaml", after.get("test/a.yaml").cloned());
        let held_in = |root| FilePatch::between(&expected, &held(Some(root)).unwrap());
        assert_eq!(held_in("./prod"), [], "what else the change has stays, and so does the file that a list names");
        assert!(held(None).is_none() && held(Some("./stage")).is_none(), "two files have it");
        let depending = |name: &str| format!("{inner}spec:\n  dependsOn:\n    - name: \"{name}\"\n");
        let (before, after) = (files("c.yaml", &old, &depending("old")), files("c.yaml", &new, &depending("new")));
        let waiting = with_earlier_manifest(&after, &before, (&owner("old"), &owner("new")), Some("./prod")).unwrap();
        assert_eq!(waiting.get("prod/c.yaml"), before.get("prod/c.yaml"), "what depends on it waits with it");
    }

    fn removed(files: &[(&str, &str)], ids: &[ObjectId]) -> Result<BTreeMap<String, String>, String> {
        let mut tree: Tree = files.iter().copied().collect();
        let manifests = ids.iter().map(|id| (id.clone(), "./apps".to_owned())).collect();
        let roots = BTreeSet::from(["./apps".to_owned()]);
        remove_from_tree(&mut tree, &manifests, &roots).map_err(|(id, why)| format!("{id}: {why}"))?;
        Ok(tree.iter().map(|(path, file)| (path.to_owned(), text_of(file).unwrap_or_default().to_owned())).collect())
    }

    fn map(name: &str) -> (String, ObjectId) {
        let text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: shop\n");
        (text, ObjectId::new("", "ConfigMap", "shop", name))
    }

    #[test]
    fn a_manifest_leaves_its_file_and_an_empty_file_leaves_what_names_it() {
        let ((a, id), (b, other)) = (map("a"), map("b"));
        let both = format!("{a}---\n# Ours\n{b}");
        let tree = removed(&[("apps/both.yaml", &both)], std::slice::from_ref(&id)).unwrap();
        assert_eq!(tree["apps/both.yaml"], format!("# Ours\n{b}"));
        let commented = format!("--- # One\n{a}--- # Two\r\n{b}---\n");
        let tree = removed(&[("apps/both.yaml", &commented)], std::slice::from_ref(&id)).unwrap();
        assert_eq!(tree["apps/both.yaml"], format!("--- # Two\r\n{b}---\n"), "the rest is as it was written");
        let inline = format!("{a}--- {{kind: ConfigMap}}\n");
        assert!(removed(&[("apps/both.yaml", &inline)], std::slice::from_ref(&id)).unwrap_err().contains("no file"));
        let list = "resources:\n  - a.yaml # first\n  - \"./b.yaml\"\n";
        let files = [("apps/kustomization.yaml", list), ("apps/a.yaml", &*a), ("apps/b.yaml", &*b)];
        let tree = removed(&files, std::slice::from_ref(&id)).unwrap();
        assert_eq!(tree["apps/kustomization.yaml"], "resources:\n  - \"./b.yaml\"\n");
        assert_eq!(tree.len(), 2);
        let tree = removed(&files, &[id.clone(), other.clone()]).unwrap();
        assert_eq!(tree["apps/kustomization.yaml"], "resources: []\n");
        let flow = [("apps/kustomization.yaml", "resources: [a.yaml, b.yaml]\n"), files[1], files[2]];
        let tree = removed(&flow, std::slice::from_ref(&id)).unwrap();
        assert_eq!(tree["apps/kustomization.yaml"], "resources: [b.yaml]\n");
        let tree = removed(&[("apps/both.yaml", &both)], &[id, other]).unwrap();
        assert_eq!(tree, BTreeMap::from([("apps/kustomization.yaml".to_owned(), EMPTY.to_owned())]), "the path stays");
    }

    #[test]
    fn the_tree_below_the_path_decides_about_a_manifest_that_is_there_twice() {
        let (a, id) = map("a");
        let ids = std::slice::from_ref(&id);
        let tree = removed(&[("apps/a.yaml", &*a), ("other/a.yaml", &*a)], ids).unwrap();
        assert_eq!(tree.keys().collect::<Vec<_>>(), ["apps/kustomization.yaml", "other/a.yaml"]);
        assert!(removed(&[("apps/a.yaml", &*a), ("apps/b.yaml", &*a)], ids).unwrap_err().contains("several files"));
        assert!(removed(&[("apps/b.yaml", &*map("b").0)], ids).unwrap_err().contains("no file"));
    }

    #[test]
    fn a_file_that_goes_or_comes_is_a_patch_for_git() {
        let patches = FilePatch::between(&[("a", "x\n")].into_iter().collect(), &[("b", "y\n")].into_iter().collect());
        let [gone, new] = &patches[..] else { panic!("{patches:?}") };
        assert_eq!(
            gone.diff,
            "diff --git a/a b/a\ndeleted file mode 100644\n--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
        );
        assert_eq!(new.diff, "diff --git a/b b/b\nnew file mode 100644\n--- /dev/null\n+++ b/b\n@@ -0,0 +1 @@\n+y\n");
    }

    #[test]
    fn the_name_of_a_file_begins_no_other_patch() {
        let hostile = "a\n--- a/.github/ci.yml\n+++ b/.github/ci.yml\n@@ -1 +1 @@\n-a\n+\"b\\.yaml";
        for (before, after) in [(Some("a\n"), Some("b\n")), (None, Some("b\n")), (Some("a\n"), None)] {
            let diff = FilePatch::of(hostile, before, after).diff;
            assert!(!diff.contains("\n+++ b/.github") && diff.contains("a/a\\012--- a/.github/ci.yml\\012"), "{diff}");
            assert!(diff.contains("+\\042b\\134.yaml\"\n"), "{diff}");
        }
        let usual = FilePatch::of("äpps/a b.yaml", Some("a\n"), Some("b\n")).diff;
        assert!(usual.starts_with("--- a/äpps/a b.yaml\n+++ b/äpps/a b.yaml\n"), "{usual}");
    }
}
