//! Hooks that an action of helm-controller runs one after the other, and how far it gets if the API server refuses one.
//!
//! Source: Helm v4.2.2 `pkg/action/hooks.go`, `execHookWithDelayedShutdown`: a hook that cannot be created ends the
//! action, and what `hook-succeeded` deletes of the hooks before it stays.

use std::collections::BTreeMap;

use serde_json::Value;

use super::action_kind::ActionKind;
use super::drift_rules::is_created_again;
use crate::flux::simulation::model::state::State;
use crate::helm::hooks::{Hook, HookEvent, HookFate, in_order};
use crate::helm::rendered::Rendered;
use crate::kubernetes::object::{ObjectId, ObjectMetadata, flag_at, list_at, text_at};

/// Remark on an object that a hook replaces, of which the API server refuses the creation.
pub(crate) const REPLACEMENT_REFUSED: &str = "it is deleted, and the API server refuses the hook that replaces it";

/// Step of an action, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Definitions in `crds/`, and the namespace of a new release.
    Prerequisites,
    /// The Secret in which Helm records the action.
    Record,
    HooksBefore,
    Objects,
    HooksAfter,
    Tests,
}

/// Place of a step in an action: its stage, and the number of a hook there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StepPlace {
    pub(crate) stage: Stage,
    pub(crate) number: usize,
}

impl StepPlace {
    pub(crate) fn first(stage: Stage) -> Self {
        Self { stage, number: 0 }
    }
}

/// Runs of a hook by an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HookRun {
    /// Fate of a live object of its identity if the action succeeds.
    pub(crate) fate: HookFate,
    /// The action then deletes the object, because its manifest no longer has it.
    pub(crate) is_removed: bool,
    /// Fate by the policy of the hook alone.
    own: HookFate,
    /// The object is gone before the hook is created.
    replaces: bool,
    /// Places at which it runs; never empty.
    places: Vec<StepPlace>,
    /// It can fail although the API server accepts it, and the object is then still there.
    pub(crate) can_fail: bool,
    /// The first hook before it in its stage that can fail although the API server accepts it.
    pub(crate) behind: Option<ObjectId>,
}

/// A step that the API server refuses: to apply an object or a hook, or to delete what a hook replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RefusedStep {
    pub(crate) id: ObjectId,
    pub(crate) place: StepPlace,
    pub(crate) message: String,
    /// Nothing in the change mends that.
    pub(crate) is_final: bool,
    /// The action succeeds all the same: its failed tests are ignored.
    pub(crate) is_ignored: bool,
}

/// Fate of a live object with the identity of a hook if the action ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    /// The hook runs, with this effect in the end.
    Runs(HookFate),
    /// The object is deleted, and the API server refuses the hook that replaces it.
    Refused,
    /// The hook does not run, or leaves the object as it is.
    Stays,
}

impl HookRun {
    fn new(hook: &Hook, fate: HookFate) -> Self {
        Self {
            fate,
            is_removed: false,
            own: hook.fate(),
            replaces: hook.is_deleted_first(),
            places: vec![],
            can_fail: hook.can_fail() && !hook.is_deleted_first(),
            behind: None,
        }
    }

    /// Returns the place of the first run.
    pub(crate) fn first_place(&self) -> StepPlace {
        self.places[0]
    }

    /// Returns true if it runs before the action changes anything.
    pub(crate) fn is_first(&self) -> bool {
        self.first_place().stage == Stage::HooksBefore
    }

    /// Returns true if the hook exists afterwards and did not before. `end` is the refused step; `None` if no step is
    /// refused.
    pub(crate) fn is_left(&self, end: Option<StepPlace>) -> bool {
        let Some(end) = end else { return !self.is_removed && self.fate.is_left() };
        let reached = self.places.iter().rev().find(|place| **place < end);
        reached.is_some_and(|last| last.stage == end.stage || self.own.is_left())
    }

    /// Returns true if it runs at a place.
    pub(crate) fn is_at(&self, place: StepPlace) -> bool {
        self.places.contains(&place)
    }

    /// Returns true if it first runs after a place.
    pub(crate) fn is_after(&self, place: StepPlace) -> bool {
        self.first_place() > place
    }

    /// Returns what becomes of a live object of its identity if the action ends at a place.
    pub(crate) fn until(&self, end: StepPlace) -> Reached {
        let Some(last) = self.places.iter().rev().find(|place| **place <= end) else { return Reached::Stays };
        let is_refused = *last == end;
        if is_refused && self.replaces {
            Reached::Refused
        } else if is_refused && self.first_place() == *last {
            Reached::Stays
        } else if last.stage < end.stage || is_refused {
            Reached::Runs(self.own)
        } else if self.replaces {
            Reached::Runs(HookFate::Recreated)
        } else {
            Reached::Stays
        }
    }
}

/// Returns true if an object may exist for a while after its deletion.
pub(crate) fn is_gone_later(object: &ObjectMetadata) -> bool {
    !object.finalizers.is_empty() || object.id.is("", "Namespace")
}

/// Returns the condition under which no hook replaces an object that may exist for a while after its deletion. `field`
/// is the field of the spec with the options of the action.
pub(crate) fn not_replaced(does_not_wait: bool, field: &str) -> String {
    if does_not_wait {
        format!("nothing replaces it if it is still terminating when Helm creates it ({field}.disableWait)")
    } else {
        format!("nothing replaces it while it is still terminating at the timeout of the {field}")
    }
}

/// Hooks that can fail although the API server accepts them.
pub(crate) struct FailingHooks<'s, 'a> {
    state: &'s State<'a>,
    /// Helm waits until what a hook deletes is gone.
    waits: bool,
}

impl<'s, 'a> FailingHooks<'s, 'a> {
    /// Returns those of an action, which a field of the spec is about.
    pub(crate) fn of(state: &'s State<'a>, spec: &Value, field: &str) -> Self {
        Self { state, waits: !flag_at(spec, &format!("/{field}/disableWait")) }
    }

    /// Returns true for a Job or a Pod, and for a hook that deletes an object which may not go in time.
    pub(crate) fn has(&self, id: &ObjectId, hook: &Hook) -> bool {
        hook.can_fail() || (self.waits && hook.deletes() && self.state.live_object(id).is_some_and(is_gone_later))
    }
}

/// Returns the runs of the hooks of an uninstall: those before and after its deletions.
pub(crate) fn uninstall_runs(hooks: &BTreeMap<ObjectId, Hook>) -> BTreeMap<ObjectId, HookRun> {
    let mut runs: BTreeMap<ObjectId, HookRun> = BTreeMap::new();
    for (stage, event) in [(Stage::HooksBefore, HookEvent::PreDelete), (Stage::HooksAfter, HookEvent::PostDelete)] {
        for (place, id, hook) in placed(stage, in_order(hooks, event)) {
            let run = runs.entry(id.clone()).or_insert_with(|| HookRun::new(hook, hook.fate()));
            run.places.push(place);
        }
    }
    runs
}

/// Returns the hooks that an action runs, in the order of their runs. One that runs at two events is there twice.
pub(crate) fn hooks_in_order<'r>(
    spec: &Value,
    kind: ActionKind,
    new: &'r Rendered,
) -> Vec<(StepPlace, &'r ObjectId, &'r Hook)> {
    let [before, after] = kind.events();
    let runs_hooks = !flag_at(spec, &format!("/{}/disableHooks", kind.field()));
    let stages = [(Stage::HooksBefore, before), (Stage::HooksAfter, after), (Stage::Tests, HookEvent::Test)];
    let mut found = vec![];
    for (stage, event) in stages {
        let hooks = in_order(&new.hooks, event).into_iter();
        let runs = hooks.filter(|(id, _)| if stage == Stage::Tests { is_tested(spec, id) } else { runs_hooks });
        found.extend(placed(stage, runs));
    }
    found
}

/// Adds the places of the hooks of a stage, which are in their order.
fn placed<'h>(
    stage: Stage,
    hooks: impl IntoIterator<Item = (&'h ObjectId, &'h Hook)>,
) -> impl Iterator<Item = (StepPlace, &'h ObjectId, &'h Hook)> {
    hooks.into_iter().enumerate().map(move |(number, (id, hook))| (StepPlace { stage, number }, id, hook))
}

/// Returns the runs of hooks in an action, and of its tests. `old` is the manifest that it replaces.
pub(crate) fn hook_runs(
    state: &State<'_>,
    spec: &Value,
    kind: ActionKind,
    new: &Rendered,
    old: Option<&Rendered>,
) -> BTreeMap<ObjectId, HookRun> {
    let failing = FailingHooks::of(state, spec, kind.field());
    runs(spec, kind, new, old, |id, hook| failing.has(id, hook))
}

fn runs(
    spec: &Value,
    kind: ActionKind,
    new: &Rendered,
    old: Option<&Rendered>,
    may_fail: impl Fn(&ObjectId, &Hook) -> bool,
) -> BTreeMap<ObjectId, HookRun> {
    let fates = new.hook_fates(old, kind.events());
    let (mut runs, mut failing): (BTreeMap<ObjectId, HookRun>, Option<(Stage, &ObjectId)>) = (BTreeMap::new(), None);
    for (place, id, hook) in hooks_in_order(spec, kind, new) {
        let behind = failing.filter(|(stage, _)| *stage == place.stage).map(|(_, id)| id.clone());
        if behind.is_none() && may_fail(id, hook) {
            failing = Some((place.stage, id));
        }
        let (own, is_test) = (hook.fate(), place.stage == Stage::Tests);
        let known = fates.get(id).filter(|_| !is_test);
        let fate = match known.copied().unwrap_or(own) {
            HookFate::Deleted if is_created_again(spec, new, id) => HookFate::Recreated,
            fate => fate,
        };
        let run = runs.entry(id.clone()).or_insert_with(|| HookRun {
            is_removed: known.is_none() && !is_test,
            behind,
            ..HookRun::new(hook, fate)
        });
        run.places.push(place);
    }
    runs
}

/// Returns true if a refusal at a place is no failure of the action.
pub(crate) fn is_ignored(spec: &Value, kind: ActionKind, place: StepPlace) -> bool {
    place.stage == Stage::Tests && ignores_tests(spec, kind)
}

/// Returns true if a failed test is no failure of an action.
pub(crate) fn ignores_tests(spec: &Value, kind: ActionKind) -> bool {
    let ignored = spec.pointer(&format!("/{}/remediation/ignoreTestFailures", kind.field())).and_then(Value::as_bool);
    ignored.unwrap_or_else(|| flag_at(spec, "/test/ignoreFailures"))
}

/// Returns true if a test runs after an action.
fn is_tested(spec: &Value, test: &ObjectId) -> bool {
    let filters = list_at(spec, "/test/filters");
    let [included, excluded] = [false, true].map(|is_excluded| {
        let found = filters.iter().filter(|filter| flag_at(filter, "/exclude") == is_excluded);
        found.map(|filter| text_at(filter, "/name")).collect::<Vec<_>>()
    });
    let is_selected = included.is_empty() || included.contains(&&*test.name);
    flag_at(spec, "/test/enable") && is_selected && !excluded.contains(&&*test.name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn runs_of(hooks: &[(&str, &str, &str)]) -> BTreeMap<ObjectId, HookRun> {
        let text = hooks.iter().map(|(name, events, policy)| {
            let policy = if policy.is_empty() { "before-hook-creation" } else { policy };
            format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, annotations: {{helm.sh/hook: '{events}', \
                 helm.sh/hook-delete-policy: '{policy}'}}}}\n---\n"
            )
        });
        let rendered = Rendered::read(&text.collect::<String>(), "shop", &[], None, false).unwrap();
        runs(&json!({"test": {"enable": true}}), ActionKind::Upgrade, &rendered, None, |_, hook| hook.can_fail())
    }

    #[test]
    fn an_action_ends_at_the_hook_that_is_refused() {
        let found = runs_of(&[
            ("a", "pre-upgrade", ""),
            ("b", "pre-upgrade", "hook-succeeded"),
            ("c", "pre-upgrade", "before-hook-creation,hook-succeeded"),
            ("d", "pre-upgrade", ""),
            ("e", "pre-upgrade", "hook-succeeded"),
            ("f", "post-upgrade", ""),
            ("g", "pre-upgrade,post-upgrade", "hook-succeeded"),
            ("h", "test", ""),
        ]);
        let until = |name: &str, stage: Stage, number: usize| {
            let id = ObjectId::new("", "ConfigMap", "shop", name);
            found[&id].until(StepPlace { stage, number })
        };
        use Reached::{Refused, Runs, Stays};
        let fourth = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|name| until(name, Stage::HooksBefore, 3));
        let recreated = Runs(HookFate::Recreated);
        assert_eq!(fourth, [recreated, Stays, recreated, Refused, Stays, Stays, Stays, Stays]);
        assert_eq!(until("e", Stage::HooksBefore, 4), Stays, "nothing is deleted before it");
        let objects = ["a", "b", "f", "g", "h"].map(|name| until(name, Stage::Objects, 0));
        assert_eq!(objects, [recreated, Runs(HookFate::Deleted), Stays, Runs(HookFate::Deleted), Stays]);
        let second_after = ["b", "f", "g", "h"].map(|name| until(name, Stage::HooksAfter, 1));
        assert_eq!(second_after, [Runs(HookFate::Deleted), recreated, Runs(HookFate::Deleted), Stays]);
        assert_eq!(until("h", Stage::Tests, 0), Refused);
        let left = |end: Option<StepPlace>| -> String {
            found.iter().filter(|(_, run)| run.is_left(end)).map(|(id, _)| &*id.name).collect()
        };
        assert_eq!(left(None), "adfh");
        assert_eq!(left(Some(StepPlace { stage: Stage::HooksBefore, number: 3 })), "abc");
        assert_eq!(left(Some(StepPlace { stage: Stage::Objects, number: 0 })), "ad");
        assert_eq!(left(Some(StepPlace { stage: Stage::HooksAfter, number: 1 })), "adf");
    }

    #[test]
    fn filters_select_tests_by_name() {
        let text = |name: &str| {
            format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, annotations: {{helm.sh/hook: test}}}}\n---\n")
        };
        let rendered = Rendered::read(&(text("a") + &text("b")), "shop", &[], None, false).unwrap();
        let names = |filters: Value| -> Vec<String> {
            let spec = json!({"test": {"enable": true, "filters": filters}});
            let tests = rendered.hooks.keys().filter(|id| is_tested(&spec, id));
            tests.map(|id| id.name.to_string()).collect()
        };
        assert_eq!(names(json!([])), ["a", "b"]);
        assert_eq!(names(json!([{"name": "a"}])), ["a"]);
        assert_eq!(names(json!([{"name": "a", "exclude": true}])), ["b"]);
        assert!(!rendered.hooks.keys().any(|id| is_tested(&json!({}), id)));
    }
}
