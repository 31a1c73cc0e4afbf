//! The one table of label and annotation keys that mean something, and which schemes each belongs to.
//!
//! Every label and annotation of every object in the cluster is looked up here once, so the table is made for speed:
//! keys are bucketed by length, and a bucket holds two or three.

use std::sync::LazyLock;

use super::{SCHEMES, protection, system_objects};
use crate::flux::suspension;
use crate::kubernetes::object::ObjectMetadata;

/// Keys at most this long are known.
const LONGEST: usize = 64;

/// What a key means: bit n of `member` for a member key of scheme n, of `owner` for an owner label of scheme n.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct Meaning {
    pub(crate) member: u32,
    pub(crate) owner: u32,
    /// Whether the key is kept when metadata is trimmed.
    kept: bool,
}

/// Labels that half the cluster carries and nothing but `helm` or a release record reads: not worth decoding
/// managedFields for. Labels are never trimmed, so nothing is lost.
const COMMON: [&str; 2] = ["owner", "app.kubernetes.io/managed-by"];

static TABLE: LazyLock<Vec<Vec<(&'static str, Meaning)>>> = LazyLock::new(|| {
    let mut table: Vec<Vec<(&'static str, Meaning)>> = vec![vec![]; LONGEST + 1];
    let mut enter = |key: &'static str, member: u32, owner: u32| {
        assert!(key.len() <= LONGEST, "{key} is longer than the table");
        let bucket = &mut table[key.len()];
        let at = bucket.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
            bucket.push((key, Meaning::default()));
            bucket.len() - 1
        });
        let meaning = &mut bucket[at].1;
        meaning.member |= member;
        meaning.owner |= owner;
        meaning.kept = !COMMON.contains(&key);
    };
    for (n, scheme) in SCHEMES.iter().enumerate() {
        scheme.member_keys.iter().for_each(|key| enter(key.name(), 1 << n, 0));
        scheme.owner_labels.iter().for_each(|key| enter(key, 0, 1 << n));
        scheme.other_marks.iter().for_each(|key| enter(key, 0, 0));
    }
    protection::keys().chain(system_objects::ANNOTATIONS).chain(suspension::KEYS).for_each(|key| enter(key, 0, 0));
    table
});

fn meaning(key: &str) -> Option<Meaning> {
    let bucket = TABLE.get(key.len())?;
    bucket.iter().find(|(known, _)| *known == key).map(|(_, meaning)| *meaning)
}

/// Whether a scheme, a keep mark or a suspension speaks of a label or annotation key. When metadata is trimmed, only
/// such annotations are kept, and managedFields are reduced to such keys.
///
/// The keys under which [`super::derive_identity`] stores its results are none: on a live object they would be forged.
pub fn is_mark(key: &str) -> bool {
    meaning(key).is_some_and(|meaning| meaning.kept)
}

/// The schemes of which an object carries a member key or an owner label.
pub(crate) fn schemes_of(object: &ObjectMetadata) -> Meaning {
    let mut all = Meaning::default();
    for (key, _) in object.labels.iter() {
        if let Some(found) = meaning(key) {
            all.member |= found.member;
            all.owner |= found.owner;
        }
    }
    for (key, _) in object.annotations.iter() {
        if let Some(found) = meaning(key) {
            all.member |= found.member;
        }
    }
    all
}

/// The numbers of the bits that are set.
pub(crate) fn bits(mut set: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let next = (set != 0).then_some(set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(next)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_every_scheme_and_keep_mark_is_kept() {
        for scheme in &SCHEMES {
            for key in scheme.member_keys {
                assert!(is_mark(key.name()), "{}", key.name());
            }
        }
        for key in ["kor/used", "reconcile.fluxcd.io/suspended", "helm.sh/hook", "applyset.kubernetes.io/tooling"] {
            assert!(is_mark(key), "{key}");
        }
        assert!(SCHEMES.len() <= 32);
    }

    #[test]
    fn content_and_common_labels_are_not_kept() {
        let secretive = ["qbec.io/last-applied", "kubectl.kubernetes.io/last-applied-configuration"];
        let common = ["app", "owner", "app.kubernetes.io/managed-by", "app.kubernetes.io/instance", ""];
        let forged = [crate::ownership::identity::QBEC, crate::ownership::identity::KUBECTL];
        for key in secretive.into_iter().chain(common).chain(forged) {
            assert!(!is_mark(key), "{key}");
        }
        assert!(!is_mark(&"x".repeat(500)));
    }

    #[test]
    fn bits_are_numbered_from_the_lowest() {
        assert_eq!(bits(0b1011).collect::<Vec<_>>(), [0, 1, 3]);
        assert_eq!(bits(0).count(), 0);
    }
}
