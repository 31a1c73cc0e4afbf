//! Which system manages an object: one file per scheme, each exporting one [`Scheme`] record.
//!
//! A mark on an object is a *claim*, not ownership: labels are copied by operators to what they create. What an owner
//! itself recorded is its *inventory*. [`index`] joins the two.

pub mod claim;
pub mod classify;
pub mod hub;
pub mod identity;
pub mod index;
pub mod keys;
pub mod members;
pub mod owner_status;
pub mod protection;
pub mod read_scope;
pub mod readiness;
pub mod report;
pub mod resolve;
pub mod schemes;
pub mod system_objects;

use std::fmt;

use serde_json::Value;

use crate::kubernetes::object::{ObjectId, ObjectMetadata};

pub use claim::{Claim, OwnerId, Protection, Strength, annotation_strength, first_mark, label_strength};
pub use classify::OwnershipStatus;
pub use identity::derive_identity;
pub use keys::is_mark;
pub use members::{Area, Members, Scope};
pub use owner_status::OwnerStatus;

/// Every scheme this tool knows, in the order in which their claims are read. At most 32: [`marks`] keeps a bit for each.
pub static SCHEMES: [&Scheme; 12] = [
    &schemes::flux_kustomization::SCHEME,
    &schemes::flux_helmrelease::SCHEME,
    &schemes::flux_operator::RESOURCE_SET,
    &schemes::flux_operator::FLUX_INSTANCE,
    &schemes::flux_v1::SCHEME,
    &schemes::qbec::SCHEME,
    &schemes::config_sync::SCHEME,
    &schemes::applyset::SCHEME,
    &schemes::argocd::SCHEME,
    &schemes::helm::SCHEME,
    &schemes::kapp::SCHEME,
    &schemes::cli_utils::SCHEME,
];

/// The systems of [`SCHEMES`], as `--by` accepts them.
pub const SYSTEMS: [&str; 8] = ["flux", "flux-v1", "qbec", "applyset", "argocd", "helm", "kapp", "cli-utils"];

/// What one system writes on objects and on owners. Data where systems agree, a function where they differ.
pub struct Scheme {
    /// Name of the scheme; a system can have several.
    pub name: &'static str,
    /// System name, shown as SYSTEM and accepted by `--by`.
    pub system: &'static str,
    /// Labels and annotations by which a member can be recognised; one of them present calls `claim`.
    pub member_keys: &'static [MetadataKey],
    /// Label selectors that together find every object that `claim` can speak of; none where annotations are the mark.
    pub selectors: &'static [&'static str],
    /// Labels by which an object of any kind is an owner of this scheme, readable from metadata alone.
    pub owner_labels: &'static [&'static str],
    /// Further labels and annotations that `claim`, `owner` and `reach` read.
    pub other_marks: &'static [&'static str],
    /// Group and kind of the objects that own; they are read in full.
    pub owner_kinds: &'static [(&'static str, &'static str)],
    /// Owners that are objects of a general kind: which of them are read.
    pub owner_sources: &'static [OwnerSource],
    /// Field managers of this system, the second witness of its marks; empty where the manager proves nothing.
    pub managers: &'static [&'static str],
    /// Whom an object claims as its owner; `None` when it does not carry this scheme's marks.
    pub claim: fn(&ObjectMetadata) -> Option<Claim>,
    /// The owner that an object is, from its metadata and, where it was read in full, its content (else null).
    pub owner: fn(&ObjectMetadata, &Value) -> Option<Record>,
    /// Proves that an object belongs to the owner that knows this secret, where marks can only be checked, not read.
    pub proof: Option<fn(&ObjectMetadata, &str) -> bool>,
    /// Objects that the system treats apart although they carry its marks.
    pub reach: fn(&ObjectMetadata) -> GcEligibility,
    /// The mark by which a person protected an object under this scheme's rules.
    pub keep_mark: fn(&ObjectMetadata) -> Option<Protection>,
}

impl fmt::Debug for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Scheme {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// Owners among objects of a general kind. Secrets are never read in full for this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerSource {
    /// API group.
    pub group: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Label selector; empty for all.
    pub selector: &'static str,
    /// Whether the content is needed, or metadata suffices.
    pub full: bool,
    /// Whether these need reading only when some object carries a mark of the scheme.
    pub only_if_marked: bool,
}

/// Whether a marked object is one that its owner records and collects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GcEligibility {
    /// Like any other.
    Normal,
    /// The system marks it but never records it, on purpose (a Helm hook); its absence from the record means nothing.
    NeverRecorded(&'static str),
    /// The system can never collect it, whatever the owner's record says.
    NeverCollected(&'static str),
    /// Something that is not the system wrote the marks. The system may go by them all the same, but what it does not
    /// reach it never had.
    WrittenByOthers(&'static str),
    /// Who wrote the marks cannot be told: the system and people leave the same traces.
    Doubtful(&'static str),
}

/// Where a mark is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataKey {
    /// A label; can be selected by the server.
    Label(&'static str),
    /// An annotation.
    Annotation(&'static str),
}

impl MetadataKey {
    /// The key as text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Label(name) | Self::Annotation(name) => name,
        }
    }
}

/// What one object says of itself as an owner.
#[derive(Clone, Debug)]
pub struct Record {
    /// Identity.
    pub id: OwnerId,
    /// Other identities under which claims name this owner: an ApplySet ID, a kapp label value, a Helm release.
    pub aliases: Vec<OwnerId>,
    /// Whether claims cannot be resolved to this owner because its name in them could not be read.
    pub opaque: bool,
    /// What [`Scheme::proof`] checks claims against.
    pub secret: Option<String>,
    /// What it recorded.
    pub members: Members,
    /// Members that the owner itself says it will prune.
    pub prunable: Vec<ObjectId>,
    /// Whether the record can be trusted now.
    pub state: OwnerStatus,
    /// When the owner last finished writing its objects, where it says so.
    pub finished: Option<chrono::DateTime<chrono::Utc>>,
    /// Where several objects are one owner (Helm revisions), the highest speaks.
    pub rank: u64,
}

impl Record {
    /// A settled owner with this record and nothing else to say.
    pub fn new(id: OwnerId, members: Members) -> Self {
        Self {
            id,
            aliases: vec![],
            opaque: false,
            secret: None,
            members,
            prunable: vec![],
            state: OwnerStatus::Ready,
            finished: None,
            rank: 0,
        }
    }
}

/// The usual case of [`Scheme::reach`].
pub(crate) fn always_reached(_: &ObjectMetadata) -> GcEligibility {
    GcEligibility::Normal
}

/// [`Scheme::keep_mark`] of systems without one.
pub(crate) fn never_kept(_: &ObjectMetadata) -> Option<Protection> {
    None
}
