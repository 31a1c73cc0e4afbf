//! One object explained: every claim with its evidence, who recorded it, and the chain of owners up to a source and its
//! revision.

use std::collections::{BTreeSet, HashSet};

use serde::Serialize;
use serde_json::Value;

use super::Views;
use crate::kubernetes::object::{ManagedFieldsEntry, ObjectId, ObjectMetadata, OwnerReference, Resource};
use crate::ownership::index::{Index, Owner};
use crate::ownership::{
    Claim, GcEligibility, OwnerId, OwnerStatus, OwnershipStatus, Protection, SCHEMES, Strength, identity, protection,
};

/// Longer chains are cut; they would be circles through names.
const LONGEST: usize = 64;

/// One object explained.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Why {
    /// Identity.
    pub object: ObjectId,
    /// What it is.
    pub standing: &'static str,
    /// Why it is that, where more than the claims is needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// Every claim that its marks make, also those that do not count.
    pub claims: Vec<ClaimView>,
    /// Owners that recorded it.
    pub recorded_by: Vec<OwnerId>,
    /// Controller references up to the object at the top, nearest first.
    pub controllers: Vec<ObjectId>,
    /// Owners from the nearest up to the one that nothing manages.
    pub chain: Vec<Link>,
    /// Marks that protect it.
    pub keep: Vec<Protection>,
    /// What else is known, for people.
    pub notes: Vec<String>,
}

/// A claim and what became of it.
#[derive(Clone, Debug, Serialize)]
pub struct ClaimView {
    /// The claim.
    #[serde(flatten)]
    pub claim: Claim,
    /// Whether its owner exists.
    pub live: bool,
    /// Whether it counts: a claim that one system makes on behalf of another does not.
    pub counts: bool,
}

/// One owner of a chain.
#[derive(Clone, Debug, Serialize)]
pub struct Link {
    /// Identity.
    #[serde(flatten)]
    pub owner: OwnerId,
    /// Whether its record can be trusted now.
    #[serde(flatten)]
    pub state: OwnerStatus,
    /// What it applied last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Where that came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceLink>,
}

/// The source of an owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SourceLink {
    /// Kind, `Git` for sources that are not objects.
    pub kind: String,
    /// Namespace.
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
    /// Revision that the source has now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
}

impl Views<'_, '_> {
    /// Explains an object.
    pub fn why(&self, object: &ObjectMetadata) -> Why {
        let index = self.index;
        let standing = index.standing(object);
        let counting = index.claims(object);
        let claims = index.all_claims(object).into_iter().map(|claim| ClaimView {
            live: index.owner(&claim.owner).is_some(),
            counts: counting.contains(&claim),
            claim,
        });
        let controllers = self.controllers(object);
        let top = controllers.last().and_then(|id| index.snapshot().object(id)).unwrap_or(object);
        Why {
            object: object.id.clone(),
            standing: standing.label(),
            because: because(index, object, &standing),
            claims: claims.collect(),
            recorded_by: index.recorded_by(&object.id).to_vec(),
            chain: self.chain(top),
            controllers,
            keep: protection::keep_marks(object),
            notes: notes(object),
        }
    }

    /// Controllers of an object up to the top; a uid is followed only to an object that has it.
    fn controllers(&self, object: &ObjectMetadata) -> Vec<ObjectId> {
        let mut chain: Vec<ObjectId> = vec![];
        let mut at = object;
        while let Some(reference) = at.controller() {
            match self.referenced(at, reference).filter(|found| !chain.contains(&found.id) && chain.len() < LONGEST) {
                Some(next) => {
                    chain.push(next.id.clone());
                    at = next;
                }
                None => break,
            }
        }
        chain
    }

    fn referenced(&self, from: &ObjectMetadata, reference: &OwnerReference) -> Option<&ObjectMetadata> {
        let OwnerReference { group, kind, name, uid, .. } = reference;
        let at = |namespace: &str| self.index.snapshot().object(&ObjectId::new(group, kind, namespace, name));
        at(&from.id.namespace).or_else(|| at("")).filter(|found| found.uid == *uid)
    }

    fn chain(&self, object: &ObjectMetadata) -> Vec<Link> {
        let index = self.index;
        let first = match index.standing(object) {
            OwnershipStatus::Managed(owner) => Some(owner),
            OwnershipStatus::Leaked(claim) | OwnershipStatus::Unjudged(claim, _) => Some(claim.owner),
            OwnershipStatus::Conflict(owners) => owners.into_iter().next(),
            _ => index.owner_of_object(&object.id).map(|owner| owner.id.clone()),
        };
        let mut links = vec![];
        let mut seen = HashSet::new();
        let mut next = first;
        while let Some(id) = next.filter(|id| links.len() < LONGEST && seen.insert(id.clone())) {
            let Some(owner) = index.owner(&id) else { break };
            links.push(Link {
                owner: owner.id.clone(),
                state: owner.state.clone(),
                revision: revision(owner),
                source: source(index, owner),
            });
            next = self.parent(&id);
        }
        links
    }
}

fn because(index: &Index<'_>, object: &ObjectMetadata, standing: &OwnershipStatus) -> Option<String> {
    match standing {
        OwnershipStatus::Leaked(claim) => index.distrust(object, claim).map(|why| format!("not trusted: {why}")),
        OwnershipStatus::Unjudged(_, why) => Some(why.clone()),
        OwnershipStatus::SystemManaged(rule) => Some((*rule).to_owned()),
        OwnershipStatus::Copied(claim) => Some(copied(object, claim)),
        OwnershipStatus::Orphaned(claim) if index.may_live_elsewhere(claim) => {
            Some(format!("no {} owner of this kind is in this cluster; it may live in another", claim.owner.system))
        }
        _ => None,
    }
}

/// Why marks are taken for copies: what they name, or who wrote them.
fn copied(object: &ObjectMetadata, claim: &Claim) -> String {
    let system = &claim.owner.system;
    if claim.strength == Strength::Contradicted {
        return "its mark belongs to another object".to_owned();
    }
    let keys = SCHEMES.iter().filter(|scheme| scheme.system == *system).flat_map(|scheme| scheme.member_keys);
    let keys: HashSet<&str> = keys.map(|key| key.name()).collect();
    let wrote =
        |writer: &&ManagedFieldsEntry| writer.labels.iter().chain(&writer.annotations).any(|key| keys.contains(&**key));
    let writers: BTreeSet<&str> = object.writers.iter().filter(wrote).map(|writer| &*writer.manager).collect();
    if writers.is_empty() {
        return format!("its owner does not list it, and nothing shows that {system} wrote its mark");
    }
    let writers: Vec<&str> = writers.into_iter().collect();
    format!("its mark was written by {}, not by {system}", writers.join(", "))
}

fn notes(object: &ObjectMetadata) -> Vec<String> {
    let claimed = |scheme: &&&crate::ownership::Scheme| (scheme.claim)(object).is_some();
    let apart = SCHEMES.iter().filter(claimed).filter_map(|scheme| match (scheme.reach)(object) {
        GcEligibility::Normal => None,
        GcEligibility::NeverRecorded(why)
        | GcEligibility::NeverCollected(why)
        | GcEligibility::WrittenByOthers(why)
        | GcEligibility::Doubtful(why) => Some(format!("{}: {why}", scheme.system)),
    });
    let applied = object.annotations.get(identity::KUBECTL).map(|applied| format!("kubectl applied it as {applied}"));
    apart.chain(applied).collect()
}

/// What an owner applied last.
pub(crate) fn revision(owner: &Owner<'_>) -> Option<String> {
    let pointers = ["/status/lastAppliedRevision", "/status/history/0/chartVersion", "/status/sync/revision"];
    let full = owner.full?;
    pointers.into_iter().find_map(|pointer| full.text(pointer)).map(ToOwned::to_owned)
}

/// Where an owner's objects come from.
fn source(index: &Index<'_>, owner: &Owner<'_>) -> Option<SourceLink> {
    let full = owner.full?;
    let references = ["/spec/sourceRef", "/spec/chartRef", "/spec/chart/spec/sourceRef"];
    match references.into_iter().find_map(|pointer| full.at(pointer)) {
        Some(reference) => object_source(index, full, reference),
        None => argo_source(full),
    }
}

fn object_source(index: &Index<'_>, full: &Resource, reference: &Value) -> Option<SourceLink> {
    let text = |key: &str| reference.get(key).and_then(Value::as_str);
    let (kind, name) = (text("kind")?, text("name")?);
    let namespace = text("namespace").unwrap_or(&full.object.id.namespace);
    let found = index.snapshot().full.iter().find(|candidate| {
        let id = &candidate.object.id;
        let group = id.group.starts_with("source.") && id.group.contains("fluxcd.io");
        group && &*id.kind == kind && &*id.namespace == namespace && &*id.name == name
    });
    let own = |pointer: &str| found.and_then(|found| found.text(pointer)).map(ToOwned::to_owned);
    Some(SourceLink {
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        path: full.text("/spec/path").or_else(|| full.text("/spec/chart/spec/chart")).map(ToOwned::to_owned),
        url: own("/spec/url").or_else(|| own("/spec/endpoint")),
        revision: own("/status/artifact/revision"),
    })
}

fn argo_source(full: &Resource) -> Option<SourceLink> {
    let source = full.at("/spec/source").or_else(|| full.at("/spec/sources/0"))?;
    let text = |key: &str| source.get(key).and_then(Value::as_str).map(ToOwned::to_owned);
    Some(SourceLink {
        kind: "Git".to_owned(),
        namespace: String::new(),
        name: String::new(),
        path: text("path").or_else(|| text("chart")),
        url: Some(text("repoURL")?),
        revision: text("targetRevision"),
    })
}
