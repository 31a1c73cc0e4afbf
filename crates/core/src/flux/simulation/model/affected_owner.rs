//! Owners that a change affects, and what their controllers do with their objects.
//!
//! Every kind of owner has the same type of effect, whether it is changed, is created or is deleted. If the effect is not
//! computed, any object of the owner may be deleted, and the plan says so. Only a change that is known to have no effect is
//! left out. A new owner can delete what exists: hooks of its chart, and what the remedy of a failed installation uninstalls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::node::{BuiltObjects, PassId, SimulationEvent};
use crate::flux::apply::update::Update;
use crate::flux::spec::NamespacedName;
use crate::kubernetes::deletion::cascade::CascadeKind;
use crate::kubernetes::object::ObjectId;
use crate::ownership::schemes::flux_operator;
use crate::plan::{Action, Reason, ReasonCode};

/// An owner that a change affects.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AffectedOwner {
    pub(crate) id: ObjectId,
    /// Reaction of its controller.
    pub(crate) reaction: Reaction,
    /// Effect on its objects, if that follows from more than the state of the Kustomizations.
    pub(crate) effect: Option<Arc<Effect>>,
}

/// Reaction of a controller to the change of an owner.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reaction {
    /// It acts, and the plan follows it.
    Acts(Reason),
    /// It does nothing for now, because the owner is suspended or its build fails.
    Waits(Reason),
    /// It creates objects that are not in the plan; the remark for the row of the new owner.
    Installs(&'static str),
    /// It is not known what it deletes.
    Unknown(Reason),
    /// It is in another cluster, and what it does is not followed.
    Elsewhere {
        /// Kustomization that changes the owner.
        applied_by: NamespacedName,
        /// The change, for people.
        change: String,
    },
}

/// Effect of the controller of an owner on the objects of the owner.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Effect {
    /// Events that cause it. Those that delete an owner are not among them.
    pub(crate) triggers: BTreeSet<SimulationEvent>,
    pub(crate) deletes: BTreeMap<ObjectId, OwnerDeletion>,
    /// Objects that it applies.
    pub(crate) applies: Option<OwnerApply>,
    /// Hooks that it creates when the owner is deleted, with the conditions under which they are not created.
    pub(crate) creates: BTreeMap<ObjectId, Vec<String>>,
    /// Objects that look deletable and stay.
    pub(crate) keeps: BTreeMap<ObjectId, Reason>,
    /// Condition under which the controller gets as far as deleting, for people; `None` if it is certain.
    pub(crate) condition: Option<String>,
    /// Reason why the owner stays terminating once it is deleted, for people; `None` if its finalizer succeeds.
    pub(crate) stuck: Option<String>,
    /// Conditions under which that can happen, as those under which its objects stay.
    pub(crate) sticks: Vec<String>,
    /// Health of the owner after it, as far as it is known.
    pub(crate) readiness: Readiness,
    /// Assumption on which the effect rests, for people; `None` if everything is known.
    pub(crate) assumption: Option<String>,
    /// Reason why it is not known what else is deleted.
    pub(crate) unknown: Option<Reason>,
}

/// Health of an owner once its controller has seen its last spec, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Readiness {
    /// Nothing makes its controller fail.
    Ready,
    /// Its controller fails, for this reason.
    Fails(String),
    #[default]
    Open,
}

/// Objects that the controller of an owner applies.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OwnerApply {
    /// Pass that applies the owner, or what it reads.
    pub(crate) trigger: PassId,
    pub(crate) objects: Arc<BuiltObjects>,
    /// Changes of live objects, as far as they are known.
    pub(crate) live_changes: BTreeMap<ObjectId, LiveChange>,
    /// Objects that it may apply before `objects`, in this order: if its spec and what it reads both change, its controller can see
    /// one of these changes first. It may apply any of them, or none.
    pub(crate) earlier: Vec<Arc<BuiltObjects>>,
    /// Field manager of the controller.
    pub(crate) manager: &'static str,
    /// Reason of the rows of those that it creates.
    pub(crate) code: ReasonCode,
    /// It may not get as far as applying all of them.
    pub(crate) is_doubtful: bool,
    /// Name and version of the chart, if they are those of a release.
    pub(crate) chart: Option<(String, String)>,
}

/// Change of a live object by an owner that applies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LiveChange {
    None,
    Update(Reason, Difference),
}

impl LiveChange {
    /// Returns the change from one manifest to another, as far as they tell.
    pub(crate) fn of_manifests(old: &Value, new: &Value, is_private: bool) -> Self {
        if old == new {
            return Self::None;
        }
        let difference = if is_private { Difference::Hidden } else { Difference::OfManifests(old.clone()) };
        Self::Update(ReasonCode::Changed.into(), difference)
    }

    /// Returns a change that the API server tells. `replaced` is the last manifest, if it is another one: that of a Secret tells
    /// more than the answer.
    pub(crate) fn of_answer(update: Update, id: &ObjectId, replaced: Option<&Value>, is_private: bool) -> Self {
        let difference = match replaced.filter(|_| id.is("", "Secret")) {
            _ if is_private => Difference::Hidden,
            Some(old) => Difference::OfManifests(old.clone()),
            None if id.is("", "Secret") || update.diff.is_empty() => Difference::Hidden,
            None => Difference::OfServer(update.diff),
        };
        Self::Update(update.reason, difference)
    }
}

/// The difference that an update makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Difference {
    /// It can hold values of Secrets.
    Hidden,
    /// Unified diff of the live object, as the API server says.
    OfServer(String),
    /// It is that to this last manifest.
    OfManifests(Value),
}

impl OwnerApply {
    /// Returns the application of what flux-operator generates.
    pub(crate) fn generated(trigger: PassId, objects: Arc<BuiltObjects>) -> Self {
        let (manager, code) = (flux_operator::NAME, ReasonCode::Generated);
        let live_changes = BTreeMap::new();
        Self { trigger, objects, live_changes, earlier: vec![], manager, code, is_doubtful: false, chart: None }
    }

    /// Returns true if it may create or change an object.
    pub(crate) fn changes(&self, id: &ObjectId) -> bool {
        self.objects.contains_key(id) && !matches!(self.live_changes.get(id), Some(LiveChange::None))
    }

    /// Returns the live objects that it changes, with the reasons and the differences.
    pub(crate) fn updates(&self) -> impl Iterator<Item = (&ObjectId, &Reason, &Difference)> {
        self.live_changes.iter().filter_map(|(id, change)| match change {
            LiveChange::None => None,
            LiveChange::Update(reason, difference) => Some((id, reason, difference)),
        })
    }

    /// Returns everything that it may apply, in order.
    pub(crate) fn steps(&self) -> impl Iterator<Item = &BuiltObjects> {
        self.earlier.iter().chain([&self.objects]).map(|objects| &**objects)
    }
}

/// The part of a deletion that only the render of a chart decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Open {
    /// The new release can have the object too.
    MayComeBack,
    /// Something else, for people.
    Remark(String),
}

impl Open {
    /// Returns the remark for the row.
    pub(crate) fn remark(&self) -> &str {
        match self {
            Self::MayComeBack => "the installation creates it again if the new release has it too",
            Self::Remark(remark) => remark,
        }
    }
}

/// Deletion of an object by the controller of its owner.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OwnerDeletion {
    /// Mechanism of the deletion.
    pub(crate) kind: CascadeKind,
    /// Action of its row: the object is deleted, is created again, or it is not known.
    pub(crate) action: Action,
    /// Code of its row; `None` for that of the mechanism.
    pub(crate) code: Option<ReasonCode>,
    /// Remarks for its row.
    pub(crate) remarks: Vec<String>,
    /// The part that only the render of the owner's new chart decides.
    pub(crate) open: Option<Open>,
    /// Conditions under which it stays.
    pub(crate) conditions: Vec<String>,
    /// It may stay although its controller gets as far as deleting: what follows from its deletion is not certain either.
    pub(crate) is_doubtful: bool,
    /// It is deleted with the propagation policy `Orphan`: the garbage collector leaves what it owns.
    pub(crate) orphans_dependents: bool,
    /// It does not depend on the condition of the effect.
    pub(crate) comes_first: bool,
}

impl AffectedOwner {
    /// Creates an owner whose effect the state of the Kustomizations decides alone.
    pub(crate) fn new(id: &ObjectId, reaction: Reaction) -> Self {
        Self { id: id.clone(), reaction, effect: None }
    }
}

impl Effect {
    /// Returns true if it is certain that the controller applies all of its objects.
    pub(crate) fn certainly_applies(&self) -> bool {
        self.is_certain() && self.applies.as_ref().is_some_and(|applies| !applies.is_doubtful)
    }

    /// Returns true if every order of events has it.
    pub(crate) fn is_certain(&self) -> bool {
        self.condition.is_none() && self.assumption.is_none()
    }
}

impl OwnerDeletion {
    /// Creates a deletion that is certain.
    pub(crate) fn new(kind: CascadeKind) -> Self {
        Self {
            kind,
            action: Action::Delete,
            code: None,
            remarks: vec![],
            open: None,
            conditions: vec![],
            is_doubtful: false,
            orphans_dependents: false,
            comes_first: false,
        }
    }

    /// Adds a remark to the row.
    pub(crate) fn remark(&mut self, remark: impl Into<String>) {
        self.remarks.push(remark.into());
    }

    /// Adds a condition under which the object stays.
    pub(crate) fn stays_if(&mut self, condition: impl Into<String>) {
        self.conditions.push(condition.into());
    }
}
