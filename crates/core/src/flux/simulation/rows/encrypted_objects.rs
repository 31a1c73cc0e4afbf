//! Rows of objects whose names or identities depend on content that is encrypted with SOPS.

use std::collections::BTreeMap;

use super::object_rows::kustomization_row;
use crate::flux::build::objects::undecrypted::{Undecrypted, UnknownName};
use crate::flux::simulation::model::node::Node;
use crate::flux::simulation::model::owner_names::owner_id;
use crate::flux::simulation::model::state::State;
use crate::flux::spec::NamespacedName;
use crate::kubernetes::object::ObjectId;
use crate::ownership::OwnerId;
use crate::plan::{Action, Change, Reason, ReasonCode};
use crate::text::pluralize;

/// A statement about an object whose name or identity depends on encrypted content.
#[derive(Clone, Copy)]
enum Statement {
    /// The object may get another name.
    Renamed,
    /// The object may be the generated one.
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
                "its encrypted content changed, and its name contains a hash of the decrypted content",
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
            Self::MaybeDeleted => (ReasonCode::NotInBuild, ""),
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
        match self {
            Self::Renamed => change.make_race("it stays if only the encryption is new"),
            Self::MaybeDeleted => {
                change.make_race("it stays if it is an object whose kind, namespace or name is encrypted");
            }
            Self::Uncompared | Self::MaybeEncrypted | Self::Encrypted | Self::New => {}
        }
    }
}

/// Objects of the last passes with an unknown name or identity.
#[derive(Default)]
struct UnknownObjects<'a> {
    names: BTreeMap<&'a ObjectId, &'a UnknownName>,
    /// Objects whose identity is encrypted, or that may be one of those, with their Kustomizations.
    identities: BTreeMap<&'a ObjectId, &'a NamespacedName>,
}

impl<'a> UnknownObjects<'a> {
    fn collect(nodes: &'a [Node]) -> Self {
        let mut unknown = Self::default();
        for node in nodes.iter().filter(|node| node.deletion.is_none()) {
            for (id, (_, object)) in node.last_applied_objects() {
                match &object.undecrypted {
                    Some(Undecrypted::Name(name)) => drop(unknown.names.insert(id, name)),
                    Some(Undecrypted::Identity) => drop(unknown.identities.insert(id, &node.id.key)),
                    _ => {}
                }
            }
        }
        unknown
    }

    /// Returns true for the creation of an object that may exist under another name, whose own row says so.
    fn may_exist(&self, change: &Change) -> bool {
        change.action == Action::Create
            && self
                .names
                .get(&change.object.id)
                .is_some_and(|name| !name.content_changed && !name.candidates.is_empty())
    }

    /// Returns the statement about the object of a row, and the action that follows from it.
    fn statement(&self, change: &Change, encrypted_owners: &[Option<OwnerId>]) -> Option<(Statement, Action)> {
        let id = &change.object.id;
        match change.action {
            Action::Create if self.identities.contains_key(id) => Some((Statement::Encrypted, Action::Unknown)),
            Action::Create if self.names.get(id)?.candidates.is_empty() => Some((Statement::New, Action::Create)),
            Action::Create => Some((Statement::Renamed, Action::Create)),
            Action::Delete if change.cause.is_none() && change.reason.code == ReasonCode::NotInBuild => {
                match self.names.values().find(|name| name.candidates.contains(id)) {
                    Some(name) if name.content_changed => Some((Statement::Renamed, Action::Delete)),
                    Some(_) => Some((Statement::Uncompared, Action::Unknown)),
                    None if encrypted_owners.contains(&change.owner) => Some((Statement::MaybeDeleted, Action::Delete)),
                    None => None,
                }
            }
            _ => None,
        }
    }
}

/// Changes the rows of objects whose names or identities are unknown, and adds rows for live objects that may be
/// objects with an encrypted identity.
pub(crate) fn annotate_encrypted(state: &State<'_>, changes: &mut Vec<Change>) {
    let unknown = UnknownObjects::collect(&state.nodes);
    changes.retain(|change| !unknown.may_exist(change));
    let uncompared = unknown.identities.values().filter(|key| !state.input.last_applied.contains_key(key));
    let encrypted_owners: Vec<_> = uncompared.map(|key| Some(owner_id(key))).collect();
    for change in changes.iter_mut() {
        if let Some((statement, action)) = unknown.statement(change, &encrypted_owners) {
            statement.apply(change, action);
        }
    }
    for (id, key) in unknown.identities {
        if changes.iter().any(|change| change.object.id == *id) {
            continue;
        }
        let reason = Statement::MaybeEncrypted.reason();
        changes.extend(state.live_object(id).map(|live| kustomization_row(Action::Unknown, live, key, reason)));
    }
}

/// Returns the reason that says how many encrypted objects the last build holds; `None` if it holds none.
pub(crate) fn encrypted_reason(node: &Node) -> Option<Reason> {
    let encrypted = node.last_applied_objects().into_values().filter(|(_, object)| object.is_encrypted());
    let number = encrypted.count();
    let detail =
        format!("{} encrypted; without the keys their content cannot be compared", pluralize(number, "object"));
    (number > 0).then(|| Reason::new(ReasonCode::Encrypted, detail))
}
