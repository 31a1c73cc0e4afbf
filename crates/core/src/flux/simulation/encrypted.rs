//! Objects whose name has a hash of what only the keys of SOPS can read: what a plan says of them.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{Node, Pass};
use super::passes::Round;
use super::rows::owner_id;
use super::{Preview, spec_of};
use crate::flux::build;
use crate::flux::build::Replaced;
use crate::flux::build::encrypted;
use crate::flux::build::encrypted::{Renaming, Undecrypted};
use crate::flux::build::objects::Built;
use crate::flux::spec::NamespacedName;
use crate::kubernetes::object::ObjectId;
use crate::ownership::Members;
use crate::ownership::schemes::flux::inventory_members;
use crate::plan::document::{Action, Actor, Certainty, Change, PinnedObject};
use crate::text::count;

/// Of an object that may have another name.
const RENAMED: &str = "renamed (hash unknown): its encrypted content changed, and its name has a hash of what is \
                       decrypted; race: it stays if only the encryption is new";
/// Of an object that may be what is generated.
const UNCOMPARED: &str = "hash-unknown: its name has a hash of what is decrypted, and what was applied last is not at \
                          hand to compare; it stays if its content is the same";
/// Of an object that may be one whose identity is encrypted.
const MAYBE: &str = "identity-unknown: it may be an object whose kind, namespace or name is encrypted, which stays, or \
                     one that is not in the build any more";
/// Of one of more such objects than there are encrypted ones.
const MAYBE_GONE: &str = "not-in-build; race: it stays if it is an object whose kind, namespace or name is encrypted";
/// Of an object whose identity is encrypted.
const ENCRYPTED: &str =
    "identity-unknown: its kind, namespace or name is encrypted, and its text is not what was applied last";
/// Of an object that is new.
const NEW: &str = "in-build: the hash in its name is unknown, as it is one of what is decrypted";

impl Preview<'_> {
    /// A build with the names that are known; `None` when something was added to `needs` first.
    pub(crate) fn unveiled(
        &self,
        key: &NamespacedName,
        built: Vec<Built>,
        round: &mut Round<'_, '_>,
    ) -> Option<Vec<Built>> {
        if !built.iter().any(Built::is_nameless) {
            return Some(built);
        }
        let live = self.live.get(key);
        let before = match live.zip(self.world.applied.get(key)) {
            Some((live, artifact)) => {
                let answers = (round.answers, &Replaced::new());
                build::build(artifact, key, &spec_of(live), self.world.features, answers, &mut round.needs)?.ok()
            }
            None => None,
        };
        let inventory: BTreeSet<ObjectId> = match live.map(|live| inventory_members(&live.content)) {
            Some(Members::Listed(ids)) => ids.into_iter().collect(),
            _ => BTreeSet::new(),
        };
        Some(encrypted::settle(built, before.as_deref(), &inventory))
    }

    /// Says of every row of such an object what is not known of it, and names what may be one.
    pub(crate) fn tell_veiled(&self, changes: &mut Vec<Change>) {
        let (mut names, mut identities): (BTreeMap<_, &Renaming>, BTreeMap<_, &NamespacedName>) = Default::default();
        for node in self.nodes.iter().filter(|node| node.removal.is_none()) {
            for (id, object) in node.last().and_then(Pass::desired).into_iter().flatten() {
                match &object.veil {
                    Some(Undecrypted::Name(renaming)) => drop(names.insert(id, renaming)),
                    Some(Undecrypted::Identity) => drop(identities.insert(id, &node.id.key)),
                    _ => {}
                }
            }
        }
        // What is there may be what is generated: its own row says so.
        let told = |change: &Change| {
            let renaming = names.get(&change.object.id).filter(|_| change.action == Action::Create);
            renaming.is_some_and(|renaming| !renaming.changed && !renaming.live.is_empty())
        };
        changes.retain(|change| !told(change));
        let uncompared = identities.values().filter(|key| !self.world.applied.contains_key(key));
        let hiding: Vec<_> = uncompared.map(|key| Some(owner_id(key))).collect();
        for change in changes.iter_mut() {
            let id = &change.object.id;
            let candidate = || names.values().find(|renaming| renaming.live.contains(id));
            match change.action {
                Action::Create if identities.contains_key(id) => say(change, Action::Unknown, ENCRYPTED),
                Action::Create => match names.get(id) {
                    Some(renaming) if renaming.live.is_empty() => say(change, Action::Create, NEW),
                    Some(_) => say(change, Action::Create, RENAMED),
                    None => {}
                },
                Action::Delete if change.cause.is_none() && change.reason.starts_with("not-in-build") => {
                    match candidate() {
                        Some(renaming) if renaming.changed => say(change, Action::Delete, RENAMED),
                        Some(_) => say(change, Action::Unknown, UNCOMPARED),
                        None if hiding.contains(&change.owner) => say(change, Action::Delete, MAYBE_GONE),
                        None => {}
                    }
                }
                _ => {}
            }
        }
        for (id, key) in identities {
            let live = self.object(id).filter(|_| !changes.iter().any(|change| change.object.id == *id));
            let row = |live| Change {
                action: Action::Unknown,
                certainty: Certainty::Certain,
                object: PinnedObject::from(live),
                owner: Some(owner_id(key)),
                by: Actor::KustomizeController,
                reason: MAYBE.to_owned(),
                cause: None,
            };
            changes.extend(live.map(row));
        }
    }
}

/// Why what a Kustomization builds is not compared with anything; empty where it is.
pub(crate) fn reason(node: &Node) -> String {
    let encrypted = |object: &&Built| object.veil.as_ref().is_some_and(|veil| *veil != Undecrypted::Reference);
    let objects = node.last().and_then(Pass::desired).into_iter().flat_map(|desired| desired.values());
    match objects.filter(encrypted).count() {
        0 => String::new(),
        number => format!(
            "{} encrypted: without the keys their content, and so the build as a whole, is compared with nothing",
            count(number, "object")
        ),
    }
}

fn say(change: &mut Change, action: Action, reason: &str) {
    (change.action, change.reason) = (action, reason.to_owned());
    if [RENAMED, MAYBE_GONE].contains(&reason) {
        change.certainty = Certainty::Race;
    }
}
