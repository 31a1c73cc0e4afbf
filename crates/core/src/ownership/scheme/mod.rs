//! Interface of an ownership system: the labels and annotations that it writes, its owners and its rules, in one
//! [`Scheme`] record. Systems and generic code depend on it, and not on each other.

pub mod claim;
pub mod hub;
pub mod label_report;
pub mod last_applied;
pub mod members;
pub(crate) mod owner_status;
pub mod protection;

use std::fmt;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;

use crate::kubernetes::object::{ObjectId, ObjectMetadata, Resource};
use crate::kubernetes::snapshot::Snapshot;
pub use claim::MetadataKey;
use claim::{Claim, OwnerId, Strength};
use hub::HubRules;
use label_report::{LabelReport, LabelledObject};
use members::Members;
use owner_status::OwnerStatus;
use protection::ProtectionKey;

/// Everything that the tool knows about one kind of owner: data where systems agree, functions where they differ.
///
/// [`Scheme::new`] has the usual values, so a scheme states only what is special about it.
pub struct Scheme {
    /// Name of the scheme; a system can have several.
    pub name: &'static str,
    /// System name, shown as SYSTEM and accepted by `--by`.
    pub system: &'static str,

    /// Labels and annotations that members carry; `claim` is called for objects with at least one of them.
    pub member_keys: &'static [MetadataKey],
    /// Label selectors that together match every object for which `claim` returns a claim. Empty if
    /// annotations identify the members.
    pub selectors: &'static [&'static str],
    /// Further labels and annotations that the functions of the scheme read.
    pub other_keys: &'static [&'static str],
    /// Those of the keys that objects outside this system often carry too. Their managedFields are not decoded.
    pub common_labels: &'static [&'static str],
    /// Label whose value differs for every object: of two objects with the same value, one carries a copied label.
    pub unique_label: Option<&'static str>,
    /// Field managers of the system, which corroborate its labels. Empty where the manager proves nothing.
    pub managers: &'static [&'static str],
    /// Labels and annotations by which people keep objects from being deleted by this system.
    pub protections: &'static [ProtectionKey],
    /// Returns the claim that the labels and annotations of an object make under this scheme.
    pub claim: fn(&ObjectMetadata) -> Option<Claim>,
    /// Returns how the system treats an object that carries its labels.
    pub gc_eligibility: fn(&ObjectMetadata) -> GcEligibility,
    /// Verifies that an object belongs to the owner with a verification key ([`Record::verification_key`]). For systems
    /// whose labels are a hash of owner and object, and do not name the owner.
    pub verify: Option<fn(&ObjectMetadata, &str) -> bool>,
    /// Returns the annotation to store in place of one that is too large or too sensitive to keep.
    pub derive_annotation: fn(&str, &str) -> Option<(&'static str, String)>,

    /// Group and kind of the owners. They are read in full.
    pub owner_kinds: &'static [(&'static str, &'static str)],
    /// Owners that are objects of a general kind, and which of them to read.
    pub owner_sources: &'static [OwnerSource],
    /// Labels by which an object of any kind is an owner, recognisable from metadata alone.
    pub owner_labels: &'static [&'static str],
    /// True if an object of any kind can be an owner, also of kinds that `owner_sources` does not list.
    pub owners_of_any_kind: bool,
    /// Returns the record of an owner from its metadata and its content, which is null where only metadata was read.
    pub owner: fn(&ObjectMetadata, &Value) -> Option<Record>,
    /// Returns the owner that exists because an object carries its labels. For systems whose owners are not objects.
    pub derive_owner: fn(&ObjectMetadata) -> Option<OwnerId>,
    /// True if each kind of owner of the system has a controller of its own: then owners of another kind in the cluster
    /// do not show that owners of this kind would be here too.
    pub has_own_controller: bool,
    /// Namespace of the system itself, in which no tenant may write.
    pub home: Option<&'static str>,
    /// Rule for the aliases of owners; none where an alias names no owner but one, such as a hash of its identity.
    pub alias_proof: Option<AliasProof>,
    /// True if whoever may write Secrets, ConfigMaps or Deployments in the namespace of an owner may change its record.
    /// Then it proves nothing about objects elsewhere.
    pub has_open_record: bool,
    /// Returns a description of an object that the system keeps for its own records.
    pub bookkeeping: fn(&ObjectMetadata) -> Option<&'static str>,
    /// Returns true if a claim of this scheme (first) makes the claim of another scheme (second) irrelevant.
    pub supersedes: fn(&Claimant<'_>, &Claimant<'_>) -> bool,
    /// Schemes whose claims can name an owner of this scheme by an alias.
    pub drives: &'static [&'static Scheme],
    /// Rules for owners in one cluster that apply to another; none where owners always apply to their own.
    pub hub: Option<HubRules>,

    /// Returns true if an owner will prune a member according to its own status.
    pub will_prune: fn(&Resource, &ObjectMetadata) -> bool,
    /// Returns the revision that an owner applied last.
    pub revision: fn(&Resource) -> Option<String>,
    /// Returns the time at which an owner last finished a reconciliation, where it records that.
    pub last_reconciled: fn(&Resource) -> Option<DateTime<Utc>>,
    /// Returns the source of an owner's manifests.
    pub source: fn(&Snapshot, &Resource) -> Option<SourceReference>,
    /// Summarises the labels of a whole cluster. For systems that keep no inventory.
    pub label_report: Option<fn(&Snapshot, &[LabelledObject<'_>]) -> LabelReport>,
}

impl Scheme {
    /// Returns a scheme without keys, owners and special rules.
    pub const fn new(name: &'static str, system: &'static str) -> Self {
        Self {
            name,
            system,
            member_keys: &[],
            selectors: &[],
            other_keys: &[],
            common_labels: &[],
            unique_label: None,
            managers: &[],
            protections: &[],
            claim: |_| None,
            gc_eligibility: |_| GcEligibility::Normal,
            verify: None,
            derive_annotation: |_, _| None,
            owner_kinds: &[],
            owner_sources: &[],
            owner_labels: &[],
            owners_of_any_kind: false,
            owner: |_, _| None,
            derive_owner: |_| None,
            has_own_controller: false,
            home: None,
            alias_proof: None,
            has_open_record: false,
            bookkeeping: |_| None,
            supersedes: |_, _| false,
            drives: &[],
            hub: None,
            will_prune: |_, _| false,
            revision: |_| None,
            last_reconciled: |_| None,
            source: |_, _| None,
            label_report: None,
        }
    }

    pub(crate) fn has_owner_kind(&self, id: &ObjectId) -> bool {
        self.owner_kinds.iter().any(|(group, kind)| id.is(group, kind))
    }

    /// Returns every kind of object that can be an owner of this scheme.
    pub(crate) fn all_owner_kinds(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let sources = self.owner_sources.iter().map(|source| (source.group, source.kind));
        self.owner_kinds.iter().copied().chain(sources)
    }

    /// Returns true if the scheme reads an object in full, as an owner.
    pub(crate) fn reads_as_owner(&self, object: &ObjectMetadata) -> bool {
        self.has_owner_kind(&object.id) || self.owner_sources.iter().any(|source| source.includes(object))
    }
}

/// Rule for an alias that anybody who may create an owner can take. An owner that listed an object is proven without it.
#[derive(Clone, Copy, Debug)]
pub struct AliasProof {
    /// Returns true if an alias (first) is certainly that of an owner (second).
    pub is_proven: fn(&OwnerId, &OwnerId) -> bool,
    /// Proof that is needed, for people.
    pub needed: &'static str,
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

/// Owners among the objects of a general kind. The content of Secrets is never read for this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerSource {
    pub group: &'static str,
    pub kind: &'static str,
    /// Label selector; empty for all objects of the kind.
    pub selector: &'static str,
    /// True if the content is needed, false if metadata suffices.
    pub full: bool,
    /// True if these objects matter only when some object carries a member key of the scheme.
    pub only_if_claimed: bool,
}

impl OwnerSource {
    /// Returns true if an object is of this kind and the selector matches its labels.
    pub fn includes(&self, object: &ObjectMetadata) -> bool {
        object.id.is(self.group, self.kind)
            && match self.selector.split_once('=') {
                None if self.selector.is_empty() => true,
                None => object.labels.get(self.selector).is_some(),
                Some((key, value)) => object.labels.get(key) == Some(value),
            }
    }
}

/// Treatment of an object with a system's labels by the garbage collection of that system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GcEligibility {
    /// The system records it and collects it.
    Normal,
    /// The system labels it but never records it, on purpose (a Helm hook). Its absence from the record means nothing.
    NeverRecorded(&'static str),
    /// The system can never collect it, whatever the owner's record says.
    NeverCollected(&'static str),
    /// Another program wrote the labels. The system may act on them all the same; but an object that it does not reach
    /// never belonged to it.
    WrittenByOthers(&'static str),
    /// The system and people leave the same labels and managed fields, so the author is unknown.
    Doubtful(&'static str),
}

/// An owner that claims an object or recorded it; see [`Scheme::supersedes`].
#[derive(Clone, Copy, Debug)]
pub struct Claimant<'a> {
    pub owner: &'a OwnerId,
    /// Strength of the claim; [`Strength::Bound`] for an owner that recorded the object.
    pub strength: Strength,
    /// True if the owner exists.
    pub is_live: bool,
}

/// Source of the manifests of an owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SourceReference {
    /// Kind, `Git` for sources that are not objects.
    pub kind: String,
    /// Namespace of the source object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name, empty for sources that are not objects.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Path inside the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// URL, where the source was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Current revision of the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
}

/// Facts about one owner, as its own object states them.
#[derive(Clone, Debug)]
pub struct Record {
    pub id: OwnerId,
    /// Other identities under which claims name this owner: an ApplySet ID, a kapp label value, a Helm release.
    pub aliases: Vec<OwnerId>,
    /// True if claims cannot be resolved to this owner, because its name in them could not be read.
    pub is_unresolvable: bool,
    /// Argument of [`Scheme::verify`] for objects of this owner.
    pub verification_key: Option<String>,
    pub members: Members,
    /// Members that the owner itself announces to prune.
    pub prunable: Vec<ObjectId>,
    /// Current status; only the record of a ready owner can be trusted.
    pub status: OwnerStatus,
    /// Time at which the owner last finished writing its objects, where it says so.
    pub finished: Option<DateTime<Utc>>,
    /// Revision number where several objects are one owner (Helm revisions): the highest is authoritative.
    pub rank: u64,
}

impl Record {
    /// Returns the record of a ready owner with these members.
    pub fn new(id: OwnerId, members: Members) -> Self {
        Self {
            id,
            aliases: vec![],
            is_unresolvable: false,
            verification_key: None,
            members,
            prunable: vec![],
            status: OwnerStatus::Ready,
            finished: None,
            rank: 0,
        }
    }
}
