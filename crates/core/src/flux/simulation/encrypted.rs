//! Objects whose name has a hash of what only the keys of SOPS can read: what a plan says of them.

use std::collections::{BTreeMap, BTreeSet};

use super::Preview;
use super::model::{Node, Pass};
use super::passes::Round;
use super::rows::owner_id;
use crate::flux::build;
use crate::flux::build::BuildContext;
use crate::flux::build::objects::BuiltObject;
use crate::flux::build::resolve_names::resolve_names;
use crate::flux::build::undecrypted::{Undecrypted, UnknownName};
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::object::ObjectId;
use crate::ownership::Members;
use crate::ownership::schemes::flux::inventory_members;
use crate::plan::{Action, Actor, Certainty, Change, Reason, ReasonCode};
use crate::text::pluralize;

/// A statement about an object whose name or identity depends on encrypted content.
#[derive(Clone, Copy)]
enum Statement {
    /// The object may get another name.
    Renamed,
    /// The object may be the one that is generated.
    Uncompared,
    /// The object may be one whose identity is encrypted.
    MaybeEncrypted,
    /// There are more candidates than encrypted objects, so some of them are deleted.
    MaybeDeleted,
    /// The identity of the object is encrypted.
    Encrypted,
    /// The object is new.
    New,
}

impl Statement {
    fn reason(self) -> Reason {
        let (code, detail) = match self {
            Self::Renamed => (
                ReasonCode::Renamed,
                "its encrypted content changed, and its name contains a hash of the decrypted content; race: it stays \
                 if only the encryption is new",
            ),
            Self::Uncompared => (
                ReasonCode::HashUnknown,
                "its name contains a hash of decrypted content, and the revision that was applied last is not available \
                 to compare with; it stays if its content is the same",
            ),
            Self::MaybeEncrypted => (
                ReasonCode::IdentityUnknown,
                "it may be an object whose kind, namespace or name is encrypted, which stays, or one that the build no \
                 longer contains",
            ),
            Self::MaybeDeleted => {
                (ReasonCode::NotInBuild, "race: it stays if it is an object whose kind, namespace or name is encrypted")
            }
            Self::Encrypted => (
                ReasonCode::IdentityUnknown,
                "its kind, namespace or name is encrypted, and its text differs from the revision that was applied last",
            ),
            Self::New => {
                (ReasonCode::InBuild, "the hash in its name is unknown, because it is a hash of decrypted content")
            }
        };
        Reason::new(code, detail)
    }

    fn apply(self, change: &mut Change, action: Action) {
        (change.action, change.reason) = (action, self.reason());
        if matches!(self, Self::Renamed | Self::MaybeDeleted) {
            change.certainty = Certainty::Race;
        }
    }
}

impl Preview<'_> {
    /// A build with the names that are known; `None` when something was added to `needs` first.
    pub(crate) fn unveiled(
        &self,
        key: &NamespacedName,
        built: Vec<BuiltObject>,
        round: &mut Round<'_, '_>,
    ) -> Option<Vec<BuiltObject>> {
        if !built.iter().any(BuiltObject::has_unknown_identity) {
            return Some(built);
        }
        let live = self.live.get(key);
        let before = match live.zip(self.world.applied.get(key)) {
            Some((live, artifact)) => {
                let mut context = BuildContext::new(self.world.features, round.answers, &mut round.needs);
                build::build(artifact, key, &KustomizationSpec::of(live), &mut context)?.ok()
            }
            None => None,
        };
        let inventory: BTreeSet<ObjectId> = match live.map(|live| inventory_members(&live.content)) {
            Some(Members::Listed(ids)) => ids.into_iter().collect(),
            _ => BTreeSet::new(),
        };
        Some(resolve_names(built, before.as_deref(), &inventory))
    }

    /// Says of every row of such an object what is not known of it, and names what may be one.
    pub(crate) fn tell_veiled(&self, changes: &mut Vec<Change>) {
        let (mut names, mut identities): (BTreeMap<_, &UnknownName>, BTreeMap<_, &NamespacedName>) = Default::default();
        for node in self.nodes.iter().filter(|node| node.removal.is_none()) {
            for (id, object) in node.last().and_then(Pass::desired).into_iter().flatten() {
                match &object.undecrypted {
                    Some(Undecrypted::Name(renaming)) => drop(names.insert(id, renaming)),
                    Some(Undecrypted::Identity) => drop(identities.insert(id, &node.id.key)),
                    _ => {}
                }
            }
        }
        // What is there may be what is generated: its own row says so.
        let told = |change: &Change| {
            let renaming = names.get(&change.object.id).filter(|_| change.action == Action::Create);
            renaming.is_some_and(|renaming| !renaming.content_changed && !renaming.candidates.is_empty())
        };
        changes.retain(|change| !told(change));
        let uncompared = identities.values().filter(|key| !self.world.applied.contains_key(key));
        let hiding: Vec<_> = uncompared.map(|key| Some(owner_id(key))).collect();
        for change in changes.iter_mut() {
            let id = &change.object.id;
            let candidate = || names.values().find(|renaming| renaming.candidates.contains(id));
            match change.action {
                Action::Create if identities.contains_key(id) => Statement::Encrypted.apply(change, Action::Unknown),
                Action::Create => match names.get(id) {
                    Some(renaming) if renaming.candidates.is_empty() => Statement::New.apply(change, Action::Create),
                    Some(_) => Statement::Renamed.apply(change, Action::Create),
                    None => {}
                },
                Action::Delete if change.cause.is_none() && change.reason.code == ReasonCode::NotInBuild => {
                    match candidate() {
                        Some(renaming) if renaming.content_changed => Statement::Renamed.apply(change, Action::Delete),
                        Some(_) => Statement::Uncompared.apply(change, Action::Unknown),
                        None if hiding.contains(&change.owner) => Statement::MaybeDeleted.apply(change, Action::Delete),
                        None => {}
                    }
                }
                _ => {}
            }
        }
        for (id, key) in identities {
            let live = self.object(id).filter(|_| !changes.iter().any(|change| change.object.id == *id));
            changes.extend(live.map(|live| {
                let reason = Statement::MaybeEncrypted.reason();
                Change::new(Action::Unknown, live, Some(owner_id(key)), Actor::KustomizeController, reason)
            }));
        }
    }
}

/// Explains that the build of a Kustomization holds encrypted objects; `None` if it holds none.
pub(crate) fn reason(node: &Node) -> Option<Reason> {
    let encrypted =
        |object: &&BuiltObject| object.undecrypted.as_ref().is_some_and(|veil| *veil != Undecrypted::Reference);
    let objects = node.last().and_then(Pass::desired).into_iter().flat_map(|desired| desired.values());
    let number = objects.filter(encrypted).count();
    let detail =
        format!("{} encrypted; without the keys their content cannot be compared", pluralize(number, "object"));
    (number > 0).then(|| Reason::new(ReasonCode::Encrypted, detail))
}
