//! What of a build cannot be known without the keys of SOPS, and what can be told all the same.
//!
//! The name of an object that is generated from a decrypted file ends in a hash of plain text. As long as the encrypted
//! text is what was applied last the name is the one that the inventory lists; otherwise it is not known, and no name is
//! invented. Source: reference kustomize-controller 3.4 and 8 (32).

use std::collections::BTreeSet;

use serde_json::Value;

use super::objects::Built;
use super::sops;
use crate::kubernetes::object::ObjectId;

/// Stands in a name for a hash that is not known; no object can have it in its name.
pub const UNKNOWN: &str = "??????????";

/// What of an object is not known.
#[derive(Clone, Debug, PartialEq)]
pub enum Undecrypted {
    /// Its content, or a part of it.
    Content,
    /// The name of an object that it refers to.
    Reference,
    /// The hash in its name, too.
    Name(Renaming),
    /// What it is at all: its kind, namespace or name are encrypted. Once settled, also what may be such an object.
    Identity,
}

/// What becomes of the object that has the name now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Renaming {
    /// What the inventory lists that the name may be.
    pub live: Vec<ObjectId>,
    /// Whether the encrypted text is another one than that which was applied last; without that one it is not known.
    pub changed: bool,
}

impl Undecrypted {
    /// Why the object cannot be compared with the live one.
    pub fn why(&self) -> &'static str {
        match self {
            Self::Content | Self::Name(_) | Self::Identity => "its content is encrypted: not compared",
            Self::Reference => "it refers to a name with a hash of encrypted content: not compared",
        }
    }
}

impl Built {
    /// Whether its identity is not the one that the cluster will know.
    pub fn is_nameless(&self) -> bool {
        matches!(self.veil, Some(Undecrypted::Name(_) | Undecrypted::Identity))
    }
}

/// Gives the objects of a build the identities that they have in the cluster where that is sure, and takes the made-up
/// ones out of the others. `before` is the build of what was applied last, `inventory` what came of it.
pub fn settle(mut built: Vec<Built>, before: Option<&[Built]>, inventory: &BTreeSet<ObjectId>) -> Vec<Built> {
    let sure = |objects: &[Built]| -> BTreeSet<ObjectId> {
        objects.iter().filter(|object| !object.is_nameless()).map(|object| object.id.clone()).collect()
    };
    let mut known = sure(&built);
    settle_names(&mut built, before, inventory, &known);
    let hidden: Vec<Built> = built.extract_if(.., |object| object.veil == Some(Undecrypted::Identity)).collect();
    if hidden.is_empty() {
        return built;
    }
    known.extend(before.map(sure).unwrap_or_default());
    let hashed =
        before.into_iter().flatten().chain(&built).filter(|object| matches!(object.veil, Some(Undecrypted::Name(_))));
    let hashed: Vec<&Built> = hashed.collect();
    let is_hashed = |id: &ObjectId| hashed.iter().any(|object| alike(id, &object.id));
    known.extend(built.iter().map(|object| object.id.clone()));
    let rest: Vec<ObjectId> = inventory.iter().filter(|id| !known.contains(id) && !is_hashed(id)).cloned().collect();
    let texts = |objects: &[Built]| -> Vec<String> {
        let hidden = objects.iter().filter(|object| object.veil == Some(Undecrypted::Identity));
        let mut texts: Vec<String> = hidden.map(|object| sops::encrypted(&object.manifest).to_string()).collect();
        texts.sort();
        texts
    };
    let same = before.is_some_and(|before| texts(before) == texts(&hidden) && rest.len() == hidden.len());
    let veil = if same { Undecrypted::Content } else { Undecrypted::Identity };
    let listed = |id| Built { id, version: String::new(), manifest: Value::Null, veil: Some(veil.clone()) };
    // More than are hidden go for sure, if it is not known which: then all of them count as what goes.
    if rest.len() <= hidden.len() {
        built.extend(rest.into_iter().map(listed));
    }
    if !same {
        let unknown = |object: Built| {
            let ObjectId { group, kind, namespace, name } = &object.id;
            let [group, kind, namespace, name] = [&**group, kind, namespace, name].map(sops::in_clear);
            Built { id: ObjectId::new(group, kind, namespace, name), ..object }
        };
        built.extend(hidden.into_iter().map(unknown));
    }
    built
}

/// Whether two names differ, if at all, in their hash.
fn alike(one: &ObjectId, other: &ObjectId) -> bool {
    let base = sops::base_of(&one.name);
    (&one.group, &one.kind, &one.namespace) == (&other.group, &other.kind, &other.namespace)
        && base.is_some()
        && base == sops::base_of(&other.name)
}

fn settle_names(
    built: &mut [Built],
    before: Option<&[Built]>,
    inventory: &BTreeSet<ObjectId>,
    known: &BTreeSet<ObjectId>,
) {
    let mut names: Vec<(String, String)> = Vec::new();
    for object in built.iter_mut().filter(|object| matches!(object.veil, Some(Undecrypted::Name(_)))) {
        let old = object.id.clone();
        let Some(base) = sops::base_of(&old.name) else { continue };
        let live: Vec<ObjectId> =
            inventory.iter().filter(|id| alike(id, &old) && !known.contains(id)).cloned().collect();
        let content = sops::content(&object.manifest);
        let is_it = |other: &Built| alike(&other.id, &old) && sops::content(&other.manifest) == content;
        let same = before.map(|before| before.iter().any(is_it));
        let new = match (same, live.as_slice()) {
            (Some(true), [one]) => {
                object.veil = Some(Undecrypted::Content);
                one.name.to_string()
            }
            (same, _) => {
                object.veil = Some(Undecrypted::Name(Renaming { live, changed: same == Some(false) }));
                format!("{base}-{UNKNOWN}")
            }
        };
        object.id.name = new.as_str().into();
        names.push((old.name.to_string(), new));
    }
    for object in built {
        names.iter().for_each(|(old, new)| replace(&mut object.manifest, old, new));
        let unknown = || sops::any_text(&object.manifest, &|text| text.contains(UNKNOWN));
        if object.veil.is_none() && !names.is_empty() && unknown() {
            object.veil = Some(Undecrypted::Reference);
        }
    }
}

fn replace(value: &mut Value, old: &str, new: &str) {
    match value {
        Value::String(text) if text.contains(old) => *text = text.replace(old, new),
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, old, new)),
        Value::Object(fields) => fields.values_mut().for_each(|value| replace(value, old, new)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const OLD: &str = "a-bcdfghkmt2";

    fn id(kind: &str, name: &str) -> ObjectId {
        ObjectId::new("", kind, "n", name)
    }

    fn built(kind: &str, name: &str, data: Value, veil: Option<Undecrypted>) -> Built {
        Built { id: id(kind, name), version: "v1".to_owned(), manifest: json!({"data": data}), veil }
    }

    /// A generated Secret `a` with this content, and a ConfigMap that names it.
    fn build(content: &str) -> Vec<Built> {
        let name = format!("a-{}bcdfghkmt", content.len() % 4 + 4);
        let hidden = Some(Undecrypted::Name(Renaming::default()));
        let user = built("ConfigMap", "user", json!({"secret": format!("see {name}")}), None);
        vec![built("Secret", &name, json!({"k": content}), hidden), user]
    }

    fn settled(content: &str, before: Option<&str>, live: &[&str]) -> Vec<Built> {
        let before = before.map(build);
        let inventory = live.iter().map(|name| id("Secret", name)).collect();
        settle(build(content), before.as_deref(), &inventory)
    }

    #[test]
    fn the_same_text_keeps_the_name_that_is_listed_and_all_that_refer_to_it() {
        let found = settled("x", Some("x"), &[OLD, "other-bcdfghkmt2", "a-b", "a-x-bcdfghkmt2"]);
        assert_eq!((&*found[0].id.name, &found[0].veil), (OLD, &Some(Undecrypted::Content)));
        assert_eq!(found[1].manifest["data"]["secret"], format!("see {OLD}"));
        assert_eq!(found[1].veil, None);
    }

    #[test]
    fn no_name_is_invented() {
        let live = vec![id("Secret", OLD)];
        let both = vec![id("Secret", OLD), id("Secret", "a-ccdfghkmt2")];
        let rows = [
            ("another text", Some("xy"), &[OLD][..], Renaming { live: live.clone(), changed: true }),
            ("nothing to compare", None, &[OLD], Renaming { live, changed: false }),
            ("two that it may be", Some("x"), &[OLD, "a-ccdfghkmt2"], Renaming { live: both, changed: false }),
            ("a new one", None, &[], Renaming::default()),
        ];
        for (what, before, live, expected) in rows {
            let found = settled("x", before, live);
            assert_eq!(&*found[0].id.name, "a-??????????", "{what}");
            assert_eq!(found[0].veil, Some(Undecrypted::Name(expected)), "{what}");
            assert_eq!(found[1].veil, Some(Undecrypted::Reference), "{what}");
        }
    }

    #[test]
    fn encrypted_identities_are_what_else_is_listed_while_their_text_is_the_same() {
        let cipher = "ENC[AES256_GCM,data:x]";
        let whole = |text: &str| built("Secret", cipher, json!({"k": text}), Some(Undecrypted::Identity));
        let plain = || built("ConfigMap", "plain", json!({}), None);
        let inventory = BTreeSet::from([id("ConfigMap", "plain"), id("Secret", "it")]);
        let names = |objects: Vec<Built>| -> Vec<(String, Option<Undecrypted>)> {
            objects.into_iter().map(|object| (object.id.name.to_string(), object.veil)).collect()
        };
        let same = settle(vec![whole("x")], Some(&[whole("x"), plain()]), &inventory);
        assert_eq!(names(same), [("it".to_owned(), Some(Undecrypted::Content))]);
        let other = settle(vec![whole("y")], Some(&[whole("x"), plain()]), &inventory);
        let hidden = Some(Undecrypted::Identity);
        assert_eq!(names(other), [("it".to_owned(), hidden.clone()), (UNKNOWN.to_owned(), hidden.clone())]);
        let alone = settle(vec![whole("y"), plain()], None, &inventory);
        assert_eq!(names(alone)[1..], [("it".to_owned(), hidden.clone()), (UNKNOWN.to_owned(), hidden.clone())]);
        let most_go = settle(vec![whole("y")], None, &inventory);
        assert_eq!(names(most_go), [(UNKNOWN.to_owned(), hidden)], "one of two stays at most");
    }
}
