//! The object that `--why` names, or the reason why it was not found: it cannot be read, is elsewhere, or is mistyped.

use crate::commands::resource_args;
use crate::commands::select::RIGHTS;
use crate::error::{Error, Result};
use crate::suggest::nearest;
use gitops_core::kubernetes::object::{ObjectMetadata, ResourceType};
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::text::join_limited;

/// Number of objects that a hint names.
const NAMED: usize = 5;

/// An object as the command line names it.
struct Asked<'a> {
    word: &'a str,
    name: &'a str,
    namespace: Option<&'a str>,
    /// Types that the word names.
    types: Vec<&'a ResourceType>,
}

/// Finds the object `TYPE/NAME` or `TYPE NAME` in the namespace of `-n`, or among cluster-scoped objects.
pub(super) fn find<'a>(
    words: &[String],
    namespace: Option<&str>,
    snapshot: &'a Snapshot,
) -> Result<&'a ObjectMetadata> {
    let (word, name) = resource_args::type_and_name(words)?;
    let asked = Asked { word, name, namespace, types: resource_args::served_types(word, snapshot)? };
    let named = asked.of_type(snapshot).filter(|object| *object.id.name == *name);
    let (here, elsewhere): (Vec<_>, Vec<_>) = named.partition(|object| asked.is_here(object));
    match here[..] {
        [object] => Ok(object),
        [] => Err(asked.not_found(&elsewhere, snapshot)),
        _ => {
            let ids: Vec<String> = here.iter().map(|object| object.id.to_string()).collect();
            let error = Error::usage(format!("\"{word}/{name}\" is not unique"));
            Err(error.hint(format!("name one of {}", ids.join(", "))))
        }
    }
}

impl Asked<'_> {
    fn of_type<'s>(&self, snapshot: &'s Snapshot) -> impl Iterator<Item = &'s ObjectMetadata> {
        snapshot
            .objects
            .iter()
            .filter(|object| self.types.iter().any(|kind| kind.is(&object.id.group, &object.id.kind)))
    }

    fn is_here(&self, object: &ObjectMetadata) -> bool {
        let place = &*object.id.namespace;
        place.is_empty() || self.namespace.is_none_or(|namespace| namespace == place)
    }

    fn not_found(&self, elsewhere: &[&ObjectMetadata], snapshot: &Snapshot) -> Error {
        let Self { word, name, namespace, types } = self;
        let mut gaps = snapshot.gaps.iter().filter(|gap| gap.leaves_unread(*namespace));
        let unread = gaps.find(|gap| types.iter().any(|kind| gap.hides(&kind.group_kind(), &snapshot.types)));
        if let Some(gap) = unread {
            return Error::failed(format!("\"{word}/{name}\" {}", gap.refusal())).hint(RIGHTS);
        }
        let error = Error::failed(format!("no object \"{word}/{name}\" was found"));
        if let Some(object) = elsewhere.first() {
            let places: Vec<&str> = elsewhere.iter().map(|object| &*object.id.namespace).collect();
            return error.hint(format!("there is one in {}; pass -n {}", places.join(", "), object.id.namespace));
        }
        let mut here: Vec<&str> =
            self.of_type(snapshot).filter(|object| self.is_here(object)).map(|object| &*object.id.name).collect();
        here.sort_unstable();
        here.dedup();
        match nearest(name, here.iter().copied()) {
            Some(near) => error.hint(format!("did you mean {word}/{near}?")),
            None => {
                let others = match &here[..] {
                    [] => "there is none of this type".to_owned(),
                    names => format!("there is {}", join_limited(names, NAMED)),
                };
                error.hint(format!(
                    "{others}; `--why-gone {word}/{name} --repo DIR` in place of `--why` finds the commit that deleted one"
                ))
            }
        }
    }
}
