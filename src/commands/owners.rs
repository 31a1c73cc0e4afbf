//! Names of owners and systems on the command line.

use crate::commands::select::RIGHTS;
use crate::error::{Error, Result};
use crate::output::kind_and_name;
use crate::suggest::nearest;
use gitops_core::kubernetes::gap::Gap;
use gitops_core::kubernetes::object::GroupKind;
use gitops_core::ownership::index::Index;
use gitops_core::ownership::{OwnerId, SCHEMES, SYSTEMS};

/// Finds the live owner that `KIND/NAME` or `NAMESPACE/KIND/NAME` names; `namespace` decides which one `KIND/NAME` means.
///
/// Fails if no owner or several owners match; the hint has the nearest match or the candidates.
pub fn find(text: &str, namespace: Option<&str>, index: &Index<'_>) -> Result<OwnerId> {
    let (first, rest) = parse(text)?;
    let mut found: Vec<&OwnerId> = vec![];
    let mut elsewhere: Vec<&OwnerId> = vec![];
    // Some names of owners contain slashes: APPLICATION/ENVIRONMENT of qbec, the URL of a source of Flux v1.
    let qualified = rest.split_once('/').map(|(kind, name)| (first, kind, name));
    for owner in index.owners().map(|owner| &owner.id) {
        if qualified.is_some_and(|(place, kind, name)| place == owner.namespace && is_named(owner, kind, name)) {
            found.push(owner);
        } else if is_named(owner, first, rest) {
            let is_here = namespace.is_none_or(|place| owner.namespace.is_empty() || owner.namespace == place);
            if is_here { &mut found } else { &mut elsewhere }.push(owner);
        }
    }
    match (&found[..], &elsewhere[..]) {
        ([one], _) => Ok((*one).clone()),
        ([], []) => {
            // `NAMESPACE/KIND/NAME`, unless the first word is a kind.
            let is_qualified = !index.owners().any(|owner| is_kind(first, &owner.id.kind));
            let (place, kind, name) = qualified.filter(|_| is_qualified).map_or((namespace, first, rest), |found| {
                let (place, kind, name) = found;
                (Some(place), kind, name)
            });
            Err(not_found(text, kind, name, place, index))
        }
        ([], elsewhere) => {
            let error = format!("no owner {text:?} in namespace {:?}", namespace.unwrap_or_default());
            Err(Error::failed(error).hint(format!("there is {}", candidates(elsewhere))))
        }
        (several, _) => Err(Error::usage(format!("{text:?} is not unique"))
            .hint(format!("select a namespace with -n, or name one of {}", candidates(several)))),
    }
}

/// Returns the error for an owner that was not found: it cannot be read, or the hint has the nearest owners.
fn not_found(text: &str, kind: &str, name: &str, namespace: Option<&str>, index: &Index<'_>) -> Error {
    if let Some(gap) = gap_hiding(kind, namespace, index) {
        return Error::failed(format!("owner {text:?} was not found: its type {}", gap.refusal())).hint(RIGHTS);
    }
    if let (Some(namespace), Some(_)) = (namespace, gap_hiding(kind, None, index)) {
        return Error::failed(format!("no owner {text:?} in namespace {namespace}: others cannot be read"))
            .hint(RIGHTS);
    }
    let error = Error::failed(format!("no owner {text:?} in this cluster"));
    let of_kind: Vec<&OwnerId> = index.owners().map(|owner| &owner.id).filter(|id| is_kind(kind, &id.kind)).collect();
    let near = nearest(name, of_kind.iter().map(|id| &*id.name));
    let near: Vec<&OwnerId> = of_kind.iter().copied().filter(|id| Some(&*id.name) == near).collect();
    if !near.is_empty() {
        return error.hint(format!("did you mean {}?", candidates(&near).replace(", ", " or ")));
    }
    if !of_kind.is_empty() {
        let more = of_kind.len().saturating_sub(LISTED);
        let rest = if more == 0 { String::new() } else { format!(" and {more} more") };
        return error.hint(format!("there is {}{rest}", candidates(&of_kind[..of_kind.len() - more])));
    }
    let kinds: Vec<String> = index.owners().map(|owner| owner.id.kind.to_lowercase()).collect();
    match nearest(kind, kinds.iter().map(String::as_str)) {
        Some(near) => error.hint(format!("no owner is a {kind:?}; did you mean {near}/{name}?")),
        None => error.hint("`kubectl gitops inventory` lists the owners"),
    }
}

/// Number of owners that a hint lists.
const LISTED: usize = 5;

/// Returns the gap that may hide owners of a kind in a namespace.
fn gap_hiding<'a>(kind: &str, namespace: Option<&str>, index: &Index<'a>) -> Option<&'a Gap> {
    let kinds: Vec<GroupKind> = SCHEMES
        .iter()
        .flat_map(|scheme| scheme.owner_kinds)
        .filter(|(_, known)| is_kind(kind, known))
        .map(|(group, kind)| GroupKind::new(group, kind))
        .collect();
    let snapshot = index.snapshot();
    snapshot
        .gaps
        .iter()
        .find(|gap| gap.leaves_unread(namespace) && kinds.iter().any(|kind| gap.hides(kind, &snapshot.types)))
}

pub fn is_namespace(word: &str) -> bool {
    ["namespace", "namespaces", "ns"].contains(&&*word.to_lowercase())
}

/// Returns owners as `KIND/NAME` or `NAMESPACE/KIND/NAME`. Words without a slash are `KIND NAME...`, as kubectl reads `TYPE NAME...`;
/// several kinds can be separated by commas.
///
/// Fails if some words have a slash and others have none, or if a word alone has none.
pub fn named(words: &[String]) -> Result<Vec<String>> {
    let slashes = words.iter().filter(|word| word.contains('/')).count();
    match words {
        [kinds, names @ ..]
            if !names.is_empty() && kinds.split(',').all(|kind| is_owner_kind(kind) || is_namespace(kind)) =>
        {
            if slashes > 0 {
                let error = Error::usage("a separate KIND cannot be used together with KIND/NAME");
                return Err(error.hint("write KIND NAME... or KIND/NAME..."));
            }
            let named = kinds.split(',').flat_map(|kind| names.iter().map(move |name| format!("{kind}/{name}")));
            Ok(named.collect())
        }
        _ => {
            words.iter().try_for_each(|word| parse(word).map(drop))?;
            Ok(words.to_vec())
        }
    }
}

fn is_owner_kind(word: &str) -> bool {
    SCHEMES.iter().flat_map(|scheme| scheme.owner_kinds).any(|(_, kind)| is_kind(word, kind))
}

/// Splits the name of an owner at its first slash.
pub fn parse(text: &str) -> Result<(&str, &str)> {
    text.split_once('/').ok_or_else(|| {
        let error = Error::usage(format!("{text:?} is not KIND/NAME or NAMESPACE/KIND/NAME"));
        if is_owner_kind(text) {
            return error.hint(format!("name one, such as {text}/NAME"));
        }
        error.hint("`kubectl gitops inventory` lists the owners; its --kind shows objects of one kind")
    })
}

fn candidates(owners: &[&OwnerId]) -> String {
    let names: Vec<String> =
        owners.iter().map(|owner| format!("{}/{}", owner.namespace, kind_and_name(owner))).collect();
    names.join(", ")
}

fn is_named(owner: &OwnerId, kind: &str, name: &str) -> bool {
    is_kind(kind, &owner.kind) && name == owner.name
}

/// Returns true if a word means a kind: in any case, singular or plural, or its short name.
fn is_kind(typed: &str, kind: &str) -> bool {
    let (typed, own) = (typed.to_lowercase(), kind.to_lowercase());
    typed == own
        || typed == format!("{own}s")
        || (own == "kustomization" && typed == "ks")
        || (own == "helmrelease" && typed == "hr")
}

/// Returns the name of a system. Fails if there is no such system.
pub fn system(name: &str) -> Result<String> {
    if SYSTEMS.contains(&name) {
        return Ok(name.to_owned());
    }
    Err(Error::usage(format!("unknown system {name:?}")).hint(format!("name one of {}", SYSTEMS.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_named_as_kubectl_names_objects() {
        let of = |words: &str| {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            named(&words).map_err(|error| error.message)
        };
        let are = |words: &str, owners: &[&str]| assert_eq!(of(words).unwrap(), owners, "{words}");
        are("kustomization web", &["kustomization/web"]);
        are("ks web cart", &["ks/web", "ks/cart"]);
        are("ks,hr web", &["ks/web", "hr/web"]);
        are("namespace shop", &["namespace/shop"]);
        are("ks/web shop/hr/cart", &["ks/web", "shop/hr/cart"]);
        for words in ["kustomization ks/web", "ks web hr/cart"] {
            assert_eq!(of(words).unwrap_err(), "a separate KIND cannot be used together with KIND/NAME", "{words}");
        }
        assert_eq!(of("kustomization").unwrap_err(), "\"kustomization\" is not KIND/NAME or NAMESPACE/KIND/NAME");
        assert_eq!(of("web cart").unwrap_err(), "\"web\" is not KIND/NAME or NAMESPACE/KIND/NAME");
    }
}
