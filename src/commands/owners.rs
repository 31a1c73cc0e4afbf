//! Owners and systems as people type them.

use crate::error::{Error, Result};
use crate::suggest::nearest;
use gitops_core::ownership::index::Index;
use gitops_core::ownership::{OwnerId, SCHEMES};

/// Finds the live owner that `KIND/NAME` or `NAMESPACE/KIND/NAME` names.
///
/// # Errors
/// When none or several match; the nearest match or the candidates are the hint.
pub fn find(text: &str, index: &Index<'_>) -> Result<OwnerId> {
    let Some((first, rest)) = text.split_once('/') else {
        return Err(Error::usage(format!("{text:?} is not KIND/NAME or NAMESPACE/KIND/NAME"))
            .hint("`kubectl gitops inventory` lists the owners; its --kind shows objects of one kind"));
    };
    // The names of some owners hold slashes: qbec's APPLICATION/ENVIRONMENT, the URL of a source of Flux v1.
    let wanted = |owner: &OwnerId| {
        let placed = rest.split_once('/').filter(|_| first == owner.namespace);
        let mut spelt = placed.into_iter().chain([(first, rest)]);
        spelt.any(|(kind, name)| is_kind(kind, &owner.kind) && name == owner.name)
    };
    let found: Vec<OwnerId> = index.owners().map(|owner| owner.id.clone()).filter(wanted).collect();
    match &found[..] {
        [one] => Ok(one.clone()),
        [] => {
            let names: Vec<String> = index.owners().map(|owner| spell(&owner.id)).collect();
            let error = Error::failed(format!("no owner {text:?} in this cluster"));
            Err(match nearest(text, names.iter().map(String::as_str)) {
                Some(near) => error.hint(format!("did you mean {near}?")),
                None => error.hint("`kubectl gitops inventory` lists the owners"),
            })
        }
        several => {
            let names: Vec<_> = several.iter().map(|owner| format!("{}/{}", owner.namespace, spell(owner))).collect();
            Err(Error::usage(format!("{text:?} is not unique")).hint(format!("name one of {}", names.join(", "))))
        }
    }
}

/// The kind in any case, singular or plural, or its short name.
fn is_kind(typed: &str, kind: &str) -> bool {
    let (typed, own) = (typed.to_lowercase(), kind.to_lowercase());
    typed == own
        || typed == format!("{own}s")
        || (own == "kustomization" && typed == "ks")
        || (own == "helmrelease" && typed == "hr")
}

/// Checks the name of a system.
///
/// # Errors
/// When there is no such system.
pub fn system(name: &str) -> Result<String> {
    let mut known: Vec<&str> = SCHEMES.iter().map(|scheme| scheme.system).collect();
    known.dedup();
    if known.contains(&name) {
        return Ok(name.to_owned());
    }
    Err(Error::usage(format!("unknown system {name:?}")).hint(format!("one of {}", known.join(", "))))
}

fn spell(owner: &OwnerId) -> String {
    format!("{}/{}", owner.kind.to_lowercase(), owner.name)
}
