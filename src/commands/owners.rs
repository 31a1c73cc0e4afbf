//! Names of owners and systems on the command line.

use crate::error::{Error, Result};
use crate::suggest::nearest;
use gitops_core::ownership::index::Index;
use gitops_core::ownership::{OwnerId, SYSTEMS};

/// Finds the live owner that `KIND/NAME` or `NAMESPACE/KIND/NAME` names.
///
/// # Errors
/// If none or several match. The hint names the nearest match or the candidates.
pub fn find(text: &str, index: &Index<'_>) -> Result<OwnerId> {
    let Some((first, rest)) = text.split_once('/') else {
        return Err(Error::usage(format!("{text:?} is not KIND/NAME or NAMESPACE/KIND/NAME"))
            .hint("`kubectl gitops inventory` lists the owners; its --kind shows objects of one kind"));
    };
    // Names can contain slashes, such as APPLICATION/ENVIRONMENT or a URL.
    let is_named = |owner: &OwnerId| {
        let with_namespace = rest.split_once('/').filter(|_| first == owner.namespace);
        let mut readings = with_namespace.into_iter().chain([(first, rest)]);
        readings.any(|(kind, name)| is_kind(kind, &owner.kind) && name == owner.name)
    };
    let found: Vec<OwnerId> = index.owners().map(|owner| owner.id.clone()).filter(is_named).collect();
    match &found[..] {
        [one] => Ok(one.clone()),
        [] => {
            let names: Vec<String> = index.owners().map(|owner| kind_and_name(&owner.id)).collect();
            let error = Error::failed(format!("no owner {text:?} in this cluster"));
            Err(match nearest(text, names.iter().map(String::as_str)) {
                Some(near) => error.hint(format!("did you mean {near}?")),
                None => error.hint("`kubectl gitops inventory` lists the owners"),
            })
        }
        several => {
            let names: Vec<_> =
                several.iter().map(|owner| format!("{}/{}", owner.namespace, kind_and_name(owner))).collect();
            Err(Error::usage(format!("{text:?} is not unique")).hint(format!("name one of {}", names.join(", "))))
        }
    }
}

/// Returns true if a word means a kind: in any case, singular or plural, or its short name.
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
/// If there is no such system.
pub fn system(name: &str) -> Result<String> {
    if SYSTEMS.contains(&name) {
        return Ok(name.to_owned());
    }
    Err(Error::usage(format!("unknown system {name:?}")).hint(format!("name one of {}", SYSTEMS.join(", "))))
}

fn kind_and_name(owner: &OwnerId) -> String {
    format!("{}/{}", owner.kind.to_lowercase(), owner.name)
}
