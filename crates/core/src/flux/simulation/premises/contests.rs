//! Services to which the change gives the same port or address. The one that is applied first gets it, and the server
//! refuses the others. While none of them has it, a dry-run of each alone says nothing about that.
//!
//! Source: docs/reference/kustomize-controller.md 4.2: a run asks about all objects of a stage before it applies one of
//! them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::event::Event;
use super::holders::begun;
use super::recreations::Forced;
use super::world::{Precedence, World};
use super::{NAMED_EVENTS, Premises};
use crate::flux::apply::AppliedObject;
use crate::flux::apply::cause::already_allocated;
use crate::flux::apply::dry_run::DryRunResult;
use crate::flux::simulation::model::refusals::Standing;
use crate::kubernetes::allocations::{Allocation, allocations};
use crate::kubernetes::deletion::order::apply_order;
use crate::kubernetes::object::ObjectId;
use crate::text::join_limited;

/// Another Service that gets what a Service asks for, unless that one is applied first.
struct Rival<'w> {
    id: &'w ObjectId,
    /// The port or address that both Services ask for.
    shared: Allocation,
    applied_by: Applier<'w>,
}

/// The run or owner that applies a rival.
enum Applier<'w> {
    /// The same run, which applies one after the other.
    SameRun,
    /// A run of another Kustomization.
    Kustomization(&'w Event),
    /// Another owner, after the Service for certain if the flag is set.
    Owner(&'w ObjectId, bool),
}

impl Rival<'_> {
    fn clause(&self) -> String {
        match self.applied_by {
            Applier::SameRun => format!("it applies {}", self.id),
            Applier::Kustomization(event) => event.clause(),
            Applier::Owner(owner, _) => format!("{owner} applies {}", self.id),
        }
    }
}

impl Premises<'_, '_> {
    /// Returns how far it holds that the server accepts a Service, which may ask for what another one gets.
    /// `is_forced` is true if it is deleted and created anew.
    pub(super) fn of_contest(&self, object: &AppliedObject, is_forced: bool) -> Standing {
        let begun = begun(&self.world, &object.id, allocations(&object.built.manifest), is_forced);
        let Some(begun) = begun.filter(|_| object.id.is_here("", "Service")) else { return Standing::Holds };
        // The next run asks about the Service again. The server calls a node port that another one has invalid.
        let refused = |shared: Allocation, message: String| {
            let replaced = |result| Standing::Replaced(Box::new(result), vec![]);
            if is_forced {
                return replaced(DryRunResult::DeletedOnly(message));
            }
            if !shared.is_node_port_of(&object.built.manifest) {
                return replaced(DryRunResult::Refused(message));
            }
            match self.forced(object, &message) {
                Forced::Deleted => replaced(DryRunResult::DeletedOnly(message)),
                Forced::Stays(message) => replaced(DryRunResult::Refused(message)),
                Forced::Open(condition) => Standing::Open(condition),
            }
        };
        let mut open = vec![];
        for rival in rivals(&self.world, object, &begun) {
            match &rival.applied_by {
                Applier::SameRun if apply_order(rival.id, &object.id).is_lt() => {
                    return refused(rival.shared, already_allocated(rival.shared, rival.id));
                }
                Applier::SameRun | Applier::Owner(_, true) => {}
                Applier::Owner(_, false) => open.push(rival),
                Applier::Kustomization(event) => match (self.order(event, object), event.is_certain) {
                    (Precedence::After, _) => {}
                    (Precedence::Before, true) if rival.shared.is_found_by_dry_runs() => {
                        let message = format!("{} is taken after {}", rival.shared, rival.clause());
                        return refused(rival.shared, message);
                    }
                    (Precedence::Before, true) => {
                        return refused(rival.shared, already_allocated(rival.shared, rival.id));
                    }
                    (Precedence::Before | Precedence::Unknown, _) => open.push(rival),
                },
            }
        }
        let shown = object.built.shown_id();
        if let Some(first) = open.first() {
            let shared = first.shared;
            let clauses = join_limited(open.iter().map(Rival::clause), NAMED_EVENTS);
            return Standing::Open(format!("the server refuses {shown} after {clauses}: both ask for {shared}"));
        }
        let unusual = begun.into_iter().find(|allocation| allocation.is_unusual());
        unusual.map_or(Standing::Holds, |port| {
            Standing::Open(format!(
                "the server refuses {shown} unless its flag --service-node-port-range has {port}, which no dry-run shows"
            ))
        })
    }
}

/// Returns the other Services that begin to hold one of these.
fn rivals<'w>(world: &'w World<'_, '_>, object: &AppliedObject, wanted: &BTreeSet<Allocation>) -> Vec<Rival<'w>> {
    let shared = |id: &ObjectId, manifest: &Value| {
        let both: BTreeSet<Allocation> = allocations(manifest).intersection(wanted).copied().collect();
        let is_rival = *id != object.id && id.is_here("", "Service") && !both.is_empty();
        is_rival.then(|| begun(world, id, both, false))??.into_iter().next()
    };
    let by_kustomizations = world.events.iter().filter_map(|event| {
        let shared = shared(&event.id, event.manifest()?)?;
        let is_own = event.is_of(&object.owner);
        let applied_by = if is_own { Applier::SameRun } else { Applier::Kustomization(event) };
        Some(Rival { id: &event.id, shared, applied_by })
    });
    let by_owners = world.state.owner_applies().flat_map(|(owner, applies)| {
        let is_later = !world.state.is_live(owner) && world.is_applied_before(&object.owner, &applies.trigger);
        applies.objects.iter().filter_map(move |(id, built)| {
            let shared = shared(id, &built.manifest)?;
            Some(Rival { id, shared, applied_by: Applier::Owner(owner, is_later) })
        })
    });
    by_kustomizations.chain(by_owners).collect()
}
