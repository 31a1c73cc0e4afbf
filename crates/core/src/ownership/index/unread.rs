//! What the owners that could not be read may hide: an owner that seems to be missing may exist, and what no known owner
//! lists may be listed by one that is not known.

use super::Index;
use crate::kubernetes::object::GroupKind;
use crate::ownership::SCHEMES;
use crate::ownership::resolve::ResolvedClaim;

impl Index<'_> {
    /// Why some owner that lists its objects may be unknown: the first type of such owners that could not be read whole.
    /// Then nothing is leaked or orphaned for certain, because that owner may list it.
    pub(crate) fn unread_lister(&self) -> Option<String> {
        // One namespace that stays unread hides the owners there; those write their own marks on what they list.
        let mut gaps = self.snapshot.gaps.iter().filter(|gap| gap.namespace.is_none());
        let gap = gaps.find(|gap| {
            let listers = SCHEMES.iter().flat_map(|scheme| {
                let records = scheme.owner_sources.iter().filter(|source| source.full && !source.only_if_marked);
                scheme.owner_kinds.iter().copied().chain(records.map(|source| (source.group, source.kind)))
            });
            let mut listers = listers;
            listers.any(|(group, kind)| gap.hides(&GroupKind::new(group, kind), &self.snapshot.types))
        })?;
        Some(format!("{} could not be read whole, and one of them may list it", gap.subject))
    }

    /// Why an owner that was not found may exist all the same: something that could have shown it was not read.
    pub(crate) fn unread(&self, found: &ResolvedClaim) -> Option<String> {
        let bit = |n: usize| self.opaque & (1 << n) != 0;
        let opaque = SCHEMES.iter().enumerate().any(|(n, known)| *known == found.scheme && bit(n));
        if opaque {
            return Some(format!("an owner of {} could not be read", found.scheme.system));
        }
        let kinds = found.scheme.owner_kinds.iter().copied();
        let sources = found.scheme.owner_sources.iter().map(|source| (source.group, source.kind));
        let kinds: Vec<(&str, &str)> = kinds.chain(sources).collect();
        let namespace = &found.claim.owner.namespace;
        let gap = self.snapshot.gaps.iter().find(|gap| {
            let elsewhere = gap.namespace.as_ref().is_some_and(|at| !namespace.is_empty() && at != namespace);
            !elsewhere
                && kinds.iter().any(|(group, kind)| gap.hides(&GroupKind::new(group, kind), &self.snapshot.types))
        })?;
        Some(format!("{} could not be read: {}", gap.subject, gap.message))
    }
}
