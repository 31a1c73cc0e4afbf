//! Table of all label and annotation keys that matter to ownership, with the schemes of each.
//!
//! Every label and annotation of every object in the cluster is looked up here once, so the table is built for speed:
//! keys are in buckets by length, and a bucket has two or three.

use std::sync::LazyLock;

use super::protection::protection_keys;
use super::system_objects;
use crate::kubernetes::object::ObjectMetadata;
use crate::ownership::scheme::last_applied;
use crate::ownership::schemes::registry::SCHEMES;

/// Annotation that approves the deletion of an object by a controller, until a time.
pub const DELETION_APPROVED_UNTIL: &str = "kubectl-gitops/deletion-approved-until";

/// Length of the longest key.
const LONGEST: usize = 64;

/// Schemes of a key, or of all keys of an object: bit n stands for scheme n of [`SCHEMES`].
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct KeySchemes {
    /// Schemes of which it is a member key.
    pub(crate) member: u32,
    /// Schemes of which it is an owner label.
    pub(crate) owner: u32,
    /// True if annotations with this key are kept, and managedFields for it, when metadata is trimmed.
    is_kept: bool,
}

type Bucket = Vec<(&'static str, KeySchemes)>;

static TABLE: LazyLock<Vec<Bucket>> = LazyLock::new(|| {
    let mut table = vec![vec![]; LONGEST + 1];
    for (n, scheme) in SCHEMES.iter().enumerate() {
        scheme.member_keys.iter().for_each(|key| entry(&mut table, key.name()).member |= 1 << n);
        scheme.owner_labels.iter().for_each(|key| entry(&mut table, key).owner |= 1 << n);
        scheme.other_keys.iter().for_each(|key| _ = entry(&mut table, key));
    }
    protection_keys()
        .map(|known| known.key)
        .chain(system_objects::ANNOTATIONS)
        .chain([DELETION_APPROVED_UNTIL])
        .for_each(|key| _ = entry(&mut table, key));
    for key in SCHEMES.iter().flat_map(|scheme| scheme.common_labels) {
        entry(&mut table, key).is_kept = false;
    }
    table
});

/// Returns the entry of a key, which is added if it is new.
fn entry<'t>(table: &'t mut [Bucket], key: &'static str) -> &'t mut KeySchemes {
    assert!(key.len() <= LONGEST, "{key} is longer than the table");
    let bucket = &mut table[key.len()];
    let at = bucket.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
        bucket.push((key, KeySchemes { is_kept: true, ..KeySchemes::default() }));
        bucket.len() - 1
    });
    &mut bucket[at].1
}

fn find(key: &str) -> Option<KeySchemes> {
    let bucket = TABLE.get(key.len())?;
    bucket.iter().find(|(known, _)| *known == key).map(|(_, schemes)| *schemes)
}

/// Returns true if a label or annotation key matters to a scheme or a protection. Of annotations and managedFields, only
/// such keys are kept when metadata is trimmed.
///
/// False for the keys under which [`derive_annotation`] stores its results: on a live object they would be forged.
pub fn is_ownership_key(key: &str) -> bool {
    find(key).is_some_and(|schemes| schemes.is_kept)
}

/// Returns the key and value to store in place of an annotation that is too large or too sensitive to keep: the identity
/// in a last-applied annotation. `None` for other annotations and for values that cannot be read.
///
/// Call it only for objects with an ownership key: it parses manifests.
pub fn derive_annotation(key: &str, value: &str) -> Option<(&'static str, String)> {
    let derived = last_applied::derive_kubectl(key, value);
    derived.or_else(|| SCHEMES.iter().find_map(|scheme| (scheme.derive_annotation)(key, value)))
}

/// Returns the schemes of which an object carries a member key or an owner label.
pub(crate) fn schemes_of(object: &ObjectMetadata) -> KeySchemes {
    let mut all = KeySchemes::default();
    for schemes in object.labels.iter().filter_map(|(key, _)| find(key)) {
        all.member |= schemes.member;
        all.owner |= schemes.owner;
    }
    for schemes in object.annotations.iter().filter_map(|(key, _)| find(key)) {
        all.member |= schemes.member;
    }
    all
}

/// Returns the numbers of the bits that are set.
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
    use crate::ownership::schemes::qbec;

    #[test]
    fn every_key_of_every_scheme_and_protection_is_kept() {
        for key in SCHEMES.iter().flat_map(|scheme| scheme.member_keys) {
            assert!(is_ownership_key(key.name()), "{}", key.name());
        }
        for key in ["kor/used", "helm.sh/hook", "applyset.kubernetes.io/tooling"] {
            assert!(is_ownership_key(key), "{key}");
        }
    }

    #[test]
    fn content_and_common_labels_are_not_kept() {
        let secretive = ["qbec.io/last-applied", "kubectl.kubernetes.io/last-applied-configuration"];
        let common = ["app", "owner", "app.kubernetes.io/managed-by", "app.kubernetes.io/instance", ""];
        let forged = [qbec::LAST_APPLIED, last_applied::KUBECTL];
        for key in secretive.into_iter().chain(common).chain(forged) {
            assert!(!is_ownership_key(key), "{key}");
        }
        assert!(!is_ownership_key(&"x".repeat(500)));
    }

    #[test]
    fn only_last_applied_annotations_are_derived() {
        let manifest = r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","namespace":"shop"}}"#;
        let derived = derive_annotation("kubectl.kubernetes.io/last-applied-configuration", manifest);
        assert_eq!(derived, Some((last_applied::KUBECTL, "/Secret/shop/s".to_owned())));
        assert_eq!(derive_annotation("other", manifest), None);
    }

    #[test]
    fn bits_are_numbered_from_the_lowest() {
        assert_eq!(bits(0b1011).collect::<Vec<_>>(), [0, 1, 3]);
        assert_eq!(bits(0).count(), 0);
    }
}
