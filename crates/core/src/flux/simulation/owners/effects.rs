//! Effects of the controllers of owners on the objects of the owners, whatever deletes or changes the owners.
//!
//! Source: docs/reference/flux.md 3.2, 6.2 and 7.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::behaviour::privacy::quotes_secrets;
use super::kinds::kind_of;
use crate::flux::simulation::model::affected_owner::Effect;
use crate::flux::simulation::model::disclosure::Disclosed;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::schedule::consequences::Consequences;
use crate::kubernetes::deletion::cascade::CascadedObject;
use crate::kubernetes::object::{ObjectId, Resource};

/// Objects that the controllers of owners delete.
#[derive(Default)]
pub(crate) struct OwnerDeletions<'a> {
    pub(crate) objects: BTreeMap<ObjectId, CascadedObject<'a>>,
    /// Uids of those whose dependents stay.
    pub(crate) orphaning: HashSet<&'a str>,
}

/// Returns what the controller of each live owner does that is deleted, or that stays and changes its objects.
pub(crate) fn owner_effects(
    state: &State<'_>,
    consequences: &Consequences<'_>,
) -> BTreeMap<ObjectId, Disclosed<Arc<Effect>>> {
    let found: BTreeMap<&ObjectId, &Arc<Effect>> = state.owner_effects().collect();
    let mut effects = BTreeMap::new();
    for owner in &state.input.snapshot.resources {
        let effect = effect_of(state, owner, consequences, &found);
        effects.extend(effect.map(|effect| (owner.object.id.clone(), effect)));
    }
    // Those that do not exist yet can delete what does.
    let new = found.into_iter().filter(|(id, _)| !state.is_live(id));
    effects.extend(new.map(|(id, effect)| (id.clone(), Disclosed::known(effect))));
    effects
}

fn effect_of(
    state: &State<'_>,
    owner: &Resource,
    consequences: &Consequences<'_>,
    found: &BTreeMap<&ObjectId, &Arc<Effect>>,
) -> Option<Disclosed<Arc<Effect>>> {
    let id = &owner.object.id;
    let kind = kind_of(id)?;
    if consequences.may_be_deleted(id) {
        return Some(Disclosed::of_effect((kind.deleted)(state, owner, consequences), state.is_private(id)));
    }
    let known = found.get(id).map(|effect| Disclosed::known(effect));
    known.or_else(|| Some(Disclosed::of_effect((kind.acting)(state, owner, consequences)?, quotes_secrets(state, id))))
}

/// Returns the objects that owners delete and that are not deleted otherwise.
pub(crate) fn owner_deletions<'a>(state: &State<'a>, consequences: &Consequences<'a>) -> OwnerDeletions<'a> {
    let mut deletions = OwnerDeletions::default();
    for (cause, effect) in &consequences.effects {
        for (id, deletion) in effect.deletes.iter().filter(|(id, _)| !consequences.may_be_deleted(id)) {
            let Some(object) = state.live_object(id) else { continue };
            let cascaded = CascadedObject { object, cause: cause.clone(), kind: deletion.kind, owners: vec![] };
            deletions.objects.insert(id.clone(), cascaded);
            deletions.orphaning.extend(deletion.orphans_dependents.then_some(&*object.uid));
        }
    }
    deletions
}
