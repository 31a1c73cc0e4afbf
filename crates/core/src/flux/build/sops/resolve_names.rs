//! Identities of objects whose name or identity depends on encrypted text.
//!
//! The name of an object that is generated from a decrypted file ends in a hash of plain text. If the encrypted text equals
//! the last applied one, the name is the one in the inventory; otherwise it is unknown and gets a placeholder.
//! Source: docs/reference/kustomize-controller.md 3.4 and 8 (32).

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::flux::build::objects::BuiltObject;
use crate::flux::build::objects::undecrypted::{UNKNOWN, Undecrypted, UnknownName};
use crate::flux::build::sops;
use crate::kubernetes::object::ObjectId;

/// Gives the objects of a build the identities that they have in the cluster where these are certain, and placeholders
/// elsewhere. `last_applied` is the build of the last applied revision, `inventory` the objects that it created.
pub(crate) fn resolve_names(
    built: Vec<BuiltObject>,
    last_applied: Option<&[BuiltObject]>,
    inventory: &BTreeSet<ObjectId>,
) -> Vec<BuiltObject> {
    let (mut encrypted, mut resolved): (Vec<_>, Vec<_>) = built.into_iter().partition(has_encrypted_identity);
    let names = resolve_hashes(&mut resolved, last_applied, inventory);
    resolved.iter_mut().chain(&mut encrypted).for_each(|object| rename_references(object, &names));
    if !encrypted.is_empty() {
        let candidates = unclaimed(inventory, &resolved, last_applied.unwrap_or_default());
        resolved.extend(resolve_identities(encrypted, last_applied, candidates));
    }
    resolved
}

fn has_encrypted_identity(object: &BuiltObject) -> bool {
    object.undecrypted == Some(Undecrypted::Identity)
}

/// An old name in the build, and the name or placeholder that replaces it.
type NewName = (String, String);

/// Resolves names with a hash of encrypted content.
fn resolve_hashes(
    built: &mut [BuiltObject],
    last_applied: Option<&[BuiltObject]>,
    inventory: &BTreeSet<ObjectId>,
) -> Vec<NewName> {
    let known = known_ids(built);
    let mut names = Vec::new();
    for object in built.iter_mut().filter(|object| matches!(object.undecrypted, Some(Undecrypted::Name(_)))) {
        let Some(base) = sops::name_without_hash(&object.id.name) else { continue };
        let placeholder = format!("{base}-{UNKNOWN}");
        let listed = inventory.iter().filter(|id| differ_in_hash(id, &object.id) && !known.contains(*id));
        let candidates: Vec<ObjectId> = listed.cloned().collect();
        let is_unchanged = last_applied.map(|objects| objects.iter().any(|other| has_same_content(other, object)));
        let (name, undecrypted) = match candidates.as_slice() {
            [only] if is_unchanged == Some(true) => (only.name.to_string(), Undecrypted::Content),
            _ => {
                let content_changed = is_unchanged == Some(false);
                (placeholder, Undecrypted::Name(UnknownName { candidates, content_changed }))
            }
        };
        names.push((object.id.name.to_string(), name.clone()));
        object.id.name = name.into();
        object.undecrypted = Some(undecrypted);
    }
    names
}

/// Returns true if two identities are equal except for the hash in the name.
fn differ_in_hash(one: &ObjectId, other: &ObjectId) -> bool {
    let base = sops::name_without_hash(&one.name);
    (&one.group, &one.kind, &one.namespace) == (&other.group, &other.kind, &other.namespace)
        && base.is_some()
        && base == sops::name_without_hash(&other.name)
}

fn has_same_content(one: &BuiltObject, other: &BuiltObject) -> bool {
    differ_in_hash(&one.id, &other.id)
        && sops::content_without_recipients(&one.manifest) == sops::content_without_recipients(&other.manifest)
}

/// Replaces generated names in a manifest, and marks the object if it refers to an unknown name.
fn rename_references(object: &mut BuiltObject, names: &[NewName]) {
    for (old, new) in names {
        replace_text(Arc::make_mut(&mut object.manifest), old, new);
    }
    let mut texts = sops::strings(&object.manifest).into_iter();
    if object.undecrypted.is_none() && !names.is_empty() && texts.any(|text| text.contains(UNKNOWN)) {
        object.undecrypted = Some(Undecrypted::Reference);
    }
}

fn replace_text(value: &mut Value, old: &str, new: &str) {
    match value {
        Value::String(text) if text.contains(old) => *text = text.replace(old, new),
        Value::Array(items) => items.iter_mut().for_each(|item| replace_text(item, old, new)),
        Value::Object(fields) => fields.values_mut().for_each(|value| replace_text(value, old, new)),
        _ => {}
    }
}

/// Returns the objects of the inventory that neither this build nor the last applied one identifies.
fn unclaimed(inventory: &BTreeSet<ObjectId>, built: &[BuiltObject], last_applied: &[BuiltObject]) -> Vec<ObjectId> {
    let mut known = known_ids(last_applied);
    known.extend(built.iter().map(|object| object.id.clone()));
    let mut unclaimed: Vec<ObjectId> = inventory.difference(&known).cloned().collect();
    for object in last_applied.iter().filter(|object| matches!(object.undecrypted, Some(Undecrypted::Name(_)))) {
        unclaimed.retain(|id| !differ_in_hash(id, &object.id));
    }
    unclaimed
}

/// Resolves objects whose identity is encrypted: `candidates` are the objects of the inventory that they may be.
fn resolve_identities(
    encrypted: Vec<BuiltObject>,
    last_applied: Option<&[BuiltObject]>,
    candidates: Vec<ObjectId>,
) -> Vec<BuiltObject> {
    let is_unchanged = candidates.len() == encrypted.len()
        && last_applied.is_some_and(|objects| encrypted_texts(objects) == encrypted_texts(&encrypted));
    if is_unchanged {
        return candidates.into_iter().map(|id| candidate(id, Undecrypted::Content)).collect();
    }
    let mut resolved = Vec::new();
    // With more candidates than encrypted objects, some are deleted; it is unknown which, so all are reported as deleted.
    if candidates.len() <= encrypted.len() {
        resolved.extend(candidates.into_iter().map(|id| candidate(id, Undecrypted::Identity)));
    }
    resolved.extend(encrypted.into_iter().map(with_placeholders));
    resolved
}

fn known_ids(objects: &[BuiltObject]) -> BTreeSet<ObjectId> {
    objects.iter().filter(|object| !object.has_unknown_identity()).map(|object| object.id.clone()).collect()
}

fn encrypted_texts(objects: &[BuiltObject]) -> Vec<String> {
    let encrypted = objects.iter().filter(|object| has_encrypted_identity(object));
    let mut texts: Vec<String> = encrypted.map(|object| sops::manifest_without_recipients(&object.manifest)).collect();
    texts.sort();
    texts
}

fn candidate(id: ObjectId, undecrypted: Undecrypted) -> BuiltObject {
    BuiltObject {
        id,
        version: String::new(),
        manifest: Value::Null.into(),
        undecrypted: Some(undecrypted),
        masked: None,
    }
}

fn with_placeholders(object: BuiltObject) -> BuiltObject {
    let ObjectId { cluster, group, kind, namespace, name, .. } = &object.id;
    let [group, kind, namespace, name] = [&**group, kind, namespace, name].map(sops::plain_or_unknown);
    BuiltObject { id: ObjectId::new(group, kind, namespace, name).in_cluster(cluster.as_ref()), ..object }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const OLD: &str = "a-bcdfghkmt2";

    fn id(kind: &str, name: &str) -> ObjectId {
        ObjectId::new("", kind, "n", name)
    }

    fn built(kind: &str, name: &str, data: Value, undecrypted: Option<Undecrypted>) -> BuiltObject {
        let manifest = json!({"data": data});
        BuiltObject {
            id: id(kind, name),
            version: "v1".to_owned(),
            manifest: manifest.into(),
            undecrypted,
            masked: None,
        }
    }

    /// A generated Secret `a` with this content, and a ConfigMap that refers to it.
    fn build(content: &str) -> Vec<BuiltObject> {
        let name = format!("a-{}bcdfghkmt", content.len() % 4 + 4);
        let unknown = Some(Undecrypted::Name(UnknownName::default()));
        let user = built("ConfigMap", "user", json!({"secret": format!("see {name}")}), None);
        vec![built("Secret", &name, json!({"k": content}), unknown), user]
    }

    fn resolved(content: &str, before: Option<&str>, live: &[&str]) -> Vec<BuiltObject> {
        let before = before.map(build);
        let inventory = live.iter().map(|name| id("Secret", name)).collect();
        resolve_names(build(content), before.as_deref(), &inventory)
    }

    #[test]
    fn the_same_encrypted_text_keeps_the_listed_name_and_its_references() {
        let found = resolved("x", Some("x"), &[OLD, "other-bcdfghkmt2", "a-b", "a-x-bcdfghkmt2"]);
        assert_eq!((&*found[0].id.name, &found[0].undecrypted), (OLD, &Some(Undecrypted::Content)));
        assert_eq!(found[1].manifest["data"]["secret"], format!("see {OLD}"));
        assert_eq!(found[1].undecrypted, None);
    }

    #[test]
    fn a_name_that_is_not_certain_is_a_placeholder() {
        let live = vec![id("Secret", OLD)];
        let both = vec![id("Secret", OLD), id("Secret", "a-ccdfghkmt2")];
        let rows = [
            ("another text", Some("xy"), &[OLD][..], UnknownName { candidates: live.clone(), content_changed: true }),
            ("unknown last applied text", None, &[OLD], UnknownName { candidates: live, content_changed: false }),
            (
                "two candidates",
                Some("x"),
                &[OLD, "a-ccdfghkmt2"],
                UnknownName { candidates: both, content_changed: false },
            ),
            ("no candidate", None, &[], UnknownName::default()),
        ];
        for (what, before, live, expected) in rows {
            let found = resolved("x", before, live);
            assert_eq!(&*found[0].id.name, "a-??????????", "{what}");
            assert_eq!(found[0].undecrypted, Some(Undecrypted::Name(expected)), "{what}");
            assert_eq!(found[1].undecrypted, Some(Undecrypted::Reference), "{what}");
        }
    }

    fn with_encrypted_name(content: &str) -> BuiltObject {
        built("Secret", "ENC[AES256_GCM,data:x]", json!({"k": content}), Some(Undecrypted::Identity))
    }

    fn names(objects: Vec<BuiltObject>) -> Vec<(String, Option<Undecrypted>)> {
        objects.into_iter().map(|object| (object.id.name.to_string(), object.undecrypted)).collect()
    }

    #[test]
    fn encrypted_identities_are_the_unclaimed_objects_while_their_text_is_the_same() {
        let plain = built("ConfigMap", "plain", json!({}), None);
        let inventory = BTreeSet::from([id("ConfigMap", "plain"), id("Secret", "it")]);
        let before = [with_encrypted_name("x"), plain.clone()];
        let same = resolve_names(vec![with_encrypted_name("x")], Some(&before), &inventory);
        assert_eq!(names(same), [("it".to_owned(), Some(Undecrypted::Content))]);
        let other = resolve_names(vec![with_encrypted_name("y")], Some(&before), &inventory);
        let hidden = Some(Undecrypted::Identity);
        assert_eq!(names(other), [("it".to_owned(), hidden.clone()), (UNKNOWN.to_owned(), hidden.clone())]);
        let alone = resolve_names(vec![with_encrypted_name("y"), plain], None, &inventory);
        assert_eq!(names(alone)[1..], [("it".to_owned(), hidden.clone()), (UNKNOWN.to_owned(), hidden.clone())]);
        let more_candidates = resolve_names(vec![with_encrypted_name("y")], None, &inventory);
        assert_eq!(names(more_candidates), [(UNKNOWN.to_owned(), hidden)], "at most one of two is in the build");
    }
}
