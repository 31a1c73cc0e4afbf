//! Kinds and label selectors as people type them.

use std::collections::BTreeSet;

use super::targets;
use crate::error::{Error, Result};
use crate::suggest::nearest;
use gitops_core::kubernetes::object::{GroupKind, ResourceType};
use gitops_core::kubernetes::selector::Selector;
use gitops_core::ownership::Members;
use gitops_core::ownership::index::Index;

/// A label selector.
///
/// # Errors
/// When it cannot be parsed; kubectl leaves that to the API server.
pub fn selector(text: &str) -> Result<Selector> {
    Selector::parse(text).map_err(|why| {
        Error::usage(format!("the label selector {text:?} cannot be parsed: {why}"))
            .hint("for example -l 'app=web,tier!=db' or -l 'env in (dev, prod),!canary'")
    })
}

/// The kinds that words name, in kubectl's words for types. A word that names several types means all of them. Kinds that
/// only records speak of, because nothing serves them any more, can be named too.
///
/// # Errors
/// When nothing is named by a word; the nearest match is the hint.
pub fn kinds(words: &[String], index: &Index<'_>) -> Result<Vec<GroupKind>> {
    if words.is_empty() {
        return Ok(vec![]);
    }
    let known = known(index);
    let mut kinds = BTreeSet::new();
    for word in words.iter().map(|word| word.trim()).filter(|word| !word.is_empty()) {
        let named: Vec<_> =
            known.iter().filter(|kind| targets::means(kind, word)).map(ResourceType::group_kind).collect();
        if named.is_empty() {
            let error = Error::usage(format!("no resource type {word:?} in this cluster or in an owner's record"));
            let plurals = known.iter().flat_map(|kind| [kind.plural.to_string(), kind.kind.to_lowercase()]);
            let plurals: Vec<String> = plurals.chain(known.iter().map(ResourceType::resource)).collect();
            return Err(match nearest(word, plurals.iter().map(String::as_str)) {
                Some(near) => error.hint(format!("did you mean {near}?")),
                None => error.hint("`kubectl api-resources` lists the types"),
            });
        }
        kinds.extend(named);
    }
    if kinds.is_empty() {
        return Err(Error::usage("--kind names no resource type").hint("for example --kind deployments,configmaps"));
    }
    Ok(kinds.into_iter().collect())
}

/// Types that are served, and kinds in records and among objects that are not.
fn known(index: &Index<'_>) -> Vec<ResourceType> {
    let snapshot = index.snapshot();
    let mut known = snapshot.types.clone();
    let recorded = index.owners().flat_map(|owner| match &owner.members {
        Members::Listed(ids) | Members::Remote(ids) => ids.as_slice(),
        _ => &[],
    });
    let ids = recorded.chain(snapshot.objects.iter().map(|object| &object.id));
    let kinds: BTreeSet<GroupKind> = ids.map(gitops_core::kubernetes::object::ObjectId::group_kind).collect();
    for GroupKind { group, kind } in kinds {
        if snapshot.types.iter().any(|served| served.is(&group, &kind)) {
            continue;
        }
        let singular = kind.to_lowercase();
        let plural = format!("{singular}s").into();
        let version = "".into();
        known.push(ResourceType {
            group,
            version,
            kind,
            plural,
            singular: singular.into(),
            short_names: vec![],
            namespaced: true,
        });
    }
    known
}
