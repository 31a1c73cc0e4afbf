//! Evidence that a controller reconciled an object although the annotation suspends it.
//!
//! Source: docs/reference/flux.md 5. Fields that a controller writes without a reconciliation (`lastHandledReconcileAt`,
//! `observedGeneration`) are no evidence, nor is a run that began before the suspension. No reconciliation is requested
//! for a test: it would cause the very apply that the user wants to prevent.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Serialize;

use super::{Mechanism, REQUESTED_AT, Suspension};
use crate::flux::kinds::{FluxKind, Trace};
use crate::kubernetes::duration::parse as parse_duration;
use crate::kubernetes::object::{ManagedFieldsEntry, Resource, parse_time};

/// Allowed difference between the clocks of a controller and of the API server, which writes whole seconds.
const CLOCK_TOLERANCE: TimeDelta = TimeDelta::seconds(5);

/// Result of the check that controllers honour a suspension.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum HonourVerdict {
    /// Every controller honours it: `spec.suspend` or the switch of the kind.
    Honoured,
    /// A run began after the suspension.
    NotHonoured(RunEvidence),
    /// Only the annotation suspends, and no run is known since. No released Flux controller honours it.
    NoEvidence,
    /// Only the annotation suspends, and the object never shows a run.
    Unverifiable { reason: &'static str },
}

/// Evidence of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunEvidence {
    /// Time by the clock of the component that wrote it.
    pub at: DateTime<Utc>,
    /// Description and source. Parts were written by others: escape it for a terminal.
    pub what: String,
}

/// Event about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectEvent {
    /// Uid of the object.
    pub uid: Box<str>,
    /// Time of the last occurrence.
    pub at: DateTime<Utc>,
    pub reason: String,
    /// Name of the controller that sent it.
    pub reporter: String,
}

impl HonourVerdict {
    /// Checks a suspended object and the Events about it.
    pub fn of(full: &Resource, events: &[ObjectEvent]) -> Self {
        let Some(suspension) = Suspension::of(full).filter(|found| found.by == Mechanism::Annotation) else {
            return Self::Honoured;
        };
        let Some(kind) = FluxKind::of(full).filter(|kind| !kind.is_static(full)) else {
            return Self::Unverifiable { reason: "objects of this kind never show a run" };
        };
        let Some(since) = suspension.since else {
            return Self::Unverifiable { reason: "the time of the suspension is not recorded" };
        };
        let status_entry = controller_status_entry(full, kind);
        let search = EvidenceSearch { full, kind, since, events, status_entry };
        kind.traces.iter().find_map(|trace| search.evidence(*trace)).map_or(Self::NoEvidence, Self::NotHonoured)
    }
}

/// Returns the managedFields entry of the controller's last write of the status.
pub(super) fn controller_status_entry<'a>(full: &'a Resource, kind: &FluxKind) -> Option<&'a ManagedFieldsEntry> {
    let entries = full.object.managed_fields.iter();
    entries
        .filter(|entry| &*entry.subresource == "status" && entry.manager.ends_with(kind.controller))
        .max_by_key(|entry| entry.time)
}

/// Object suspended by the annotation alone, and the evidence about it.
struct EvidenceSearch<'a> {
    full: &'a Resource,
    kind: &'static FluxKind,
    since: DateTime<Utc>,
    events: &'a [ObjectEvent],
    status_entry: Option<&'a ManagedFieldsEntry>,
}

impl EvidenceSearch<'_> {
    fn evidence(&self, trace: Trace) -> Option<RunEvidence> {
        match trace {
            Trace::Runs(pointer) => {
                let what = format!("a run started, by {}", field_path(pointer));
                self.if_after(self.last_run_start(pointer)?, Duration::ZERO, what)
            }
            Trace::Started(pointer) => {
                let what = format!("a run started, by {}", field_path(pointer));
                self.if_after(self.time(pointer)?, Duration::ZERO, what)
            }
            Trace::During(pointer) => {
                let what = format!("{} was written", field_path(pointer));
                self.if_after(self.time(pointer)?, self.longest_run(), what)
            }
            Trace::Starting(condition) => {
                let changed = self.full.condition(condition)?.changed?;
                self.if_after(changed, Duration::ZERO, format!("condition {condition} was set"))
            }
            Trace::Ending(condition) => {
                let changed = self.full.condition(condition)?.changed?;
                self.if_after(changed, self.longest_run(), format!("condition {condition} changed"))
            }
            Trace::StatusWrite => {
                let entry = self.status_entry.filter(|_| !self.was_requested())?;
                self.if_after(entry.time?, self.longest_run(), format!("{} wrote the status", entry.manager))
            }
            Trace::Event => {
                let events = self.events.iter().filter(|event| event.uid == self.full.object.uid);
                let of_controller = events.filter(|event| event.reporter.ends_with(self.kind.controller));
                let last = of_controller.max_by_key(|event| event.at).filter(|_| !self.was_requested())?;
                let what = format!("{} sent the event {}", last.reporter, last.reason);
                self.if_after(last.at, self.longest_run(), what)
            }
        }
    }

    /// Returns the evidence if it is too late for a run that began before the suspension.
    ///
    /// The clock of a controller may be minutes ahead: a status that the API server stored before the suspension is no
    /// evidence, whatever times it has.
    fn if_after(&self, at: DateTime<Utc>, longest_run: Duration, what: String) -> Option<RunEvidence> {
        let longest_run = TimeDelta::from_std(longest_run).ok()?;
        let status_written = self.status_entry.and_then(|entry| entry.time);
        let is_event = self.events.iter().any(|event| event.at == at);
        let is_possible = is_event || status_written.is_none_or(|written| written > self.since);
        (is_possible && at > self.since + CLOCK_TOLERANCE + longest_run).then_some(RunEvidence { at, what })
    }

    /// Returns true if a reconciliation was requested after the suspension: a controller may answer a request without a
    /// reconciliation, in the status alone.
    fn was_requested(&self) -> bool {
        let requested = self.full.object.annotations.get(REQUESTED_AT);
        requested.is_some_and(|time| parse_time(time).is_none_or(|time| time > self.since - CLOCK_TOLERANCE))
    }

    /// Returns the latest start in an array of runs.
    fn last_run_start(&self, pointer: &str) -> Option<DateTime<Utc>> {
        let mut last = None;
        for run in self.full.at(pointer)?.as_array()? {
            let end = run.get("lastReconciled").and_then(|end| parse_time(end.as_str()?));
            let duration = run
                .get("lastReconciledDuration")
                .and_then(|duration| TimeDelta::from_std(parse_duration(duration.as_str()?)?).ok());
            last = last.max(end.zip(duration).map(|(end, duration)| end - duration));
        }
        last
    }

    fn time(&self, pointer: &str) -> Option<DateTime<Utc>> {
        self.full.text(pointer).and_then(parse_time)
    }

    /// Returns the longest time that a run may take that began before the suspension.
    fn longest_run(&self) -> Duration {
        self.full.text("/spec/timeout").and_then(parse_duration).unwrap_or(self.kind.timeout)
    }
}

/// Returns a JSON pointer for people: `status.history.0`.
fn field_path(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::flux::suspension::{ANNOTATION, FIELD_MANAGER};
    use crate::testing::{flux_object, noon, owner_of};

    fn at(seconds: i64) -> String {
        (noon() + TimeDelta::seconds(seconds)).to_rfc3339()
    }

    fn status_write(manager: &str, seconds: i64) -> ManagedFieldsEntry {
        ManagedFieldsEntry { subresource: "status".into(), ..owner_of(manager, false, seconds, &[]) }
    }

    /// Returns an object suspended by annotation at noon, with a status written `written` seconds after noon.
    fn suspended(kind: &str, content: Value, written: i64) -> Resource {
        let mut full = flux_object(kind, content, &[(ANNOTATION, "drill")]);
        let controller = FluxKind::of(&full).unwrap().controller;
        full.object.managed_fields = vec![
            owner_of(FIELD_MANAGER, false, 0, &[ANNOTATION]),
            status_write(&format!("gotk-{controller}"), written),
        ];
        full
    }

    fn run(end: i64, took: &str) -> Value {
        json!({"status": {"history": [{"lastReconciled": at(end), "lastReconciledDuration": took}]}})
    }

    fn ready(changed: i64) -> Value {
        json!({"spec": {"timeout": "1m"},
               "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at(changed)}]}})
    }

    #[test]
    fn only_a_run_that_began_after_the_suspension_is_evidence() {
        let artifact =
            |seconds: i64| json!({"spec": {"timeout": "20s"}, "status": {"artifact": {"lastUpdateTime": at(seconds)}}});
        for (name, full, expected) in [
            ("a run long before", suspended("Kustomization", run(-60, "2s"), -60), None),
            ("a run after", suspended("Kustomization", run(60, "2s"), 60), Some(58)),
            ("a run that was under way", suspended("Kustomization", run(60, "1m30s"), 60), None),
            ("a start within the tolerance of clocks", suspended("Kustomization", run(6, "2s"), 6), None),
            ("a clock that is minutes ahead", suspended("Kustomization", run(120, "2s"), -30), None),
            ("Ready within the time a run may take", suspended("Kustomization", ready(50), 50), None),
            ("Ready after that", suspended("Kustomization", ready(70), 70), Some(70)),
            ("a healthy release shows only a write", suspended("HelmRelease", ready(-999), 70), Some(70)),
            ("a write in time to be a run under way", suspended("HelmRelease", ready(-999), 50), None),
            ("a new artifact", suspended("GitRepository", artifact(40), 40), Some(40)),
            ("an artifact of a run under way", suspended("GitRepository", artifact(20), 20), None),
        ] {
            let expected = expected.map(|seconds| noon() + TimeDelta::seconds(seconds));
            let found = match HonourVerdict::of(&full, &[]) {
                HonourVerdict::NotHonoured(evidence) => Some(evidence.at),
                HonourVerdict::NoEvidence => None,
                other => panic!("{name}: {other:?}"),
            };
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn a_write_without_a_reconciliation_is_no_evidence() {
        let handled = json!({"status": {"lastHandledReconcileAt": at(90), "observedGeneration": 9}});
        assert_eq!(HonourVerdict::of(&suspended("Kustomization", handled, 90), &[]), HonourVerdict::NoEvidence);
        let mut asked = suspended("HelmRelease", ready(-999), 90);
        asked.object.annotations =
            [(ANNOTATION.to_owned(), "drill".to_owned()), (REQUESTED_AT.to_owned(), at(80))].into_iter().collect();
        assert_eq!(HonourVerdict::of(&asked, &[]), HonourVerdict::NoEvidence, "the write answers the request");
        let mut other_manager = suspended("HelmRelease", ready(-999), -30);
        other_manager.object.managed_fields.push(status_write("somebody", 90));
        assert_eq!(
            HonourVerdict::of(&other_manager, &[]),
            HonourVerdict::NoEvidence,
            "only the controller's writes count"
        );
    }

    #[test]
    fn an_event_is_evidence_of_a_poll_without_changes() {
        let full = suspended("GitRepository", ready(-999), -999);
        let event = |uid: &str, seconds: i64, reporter: &str| ObjectEvent {
            uid: uid.into(),
            at: noon() + TimeDelta::seconds(seconds),
            reason: "GitOperationSucceeded".to_owned(),
            reporter: reporter.to_owned(),
        };
        for (name, event, expected) in [
            ("after the suspension", event("u", 70, "source-controller"), true),
            ("in time to be a run under way", event("u", 30, "source-controller"), false),
            ("of another object", event("v", 70, "source-controller"), false),
            ("of another controller", event("u", 70, "kustomize-controller"), false),
        ] {
            assert_eq!(matches!(HonourVerdict::of(&full, &[event]), HonourVerdict::NotHonoured(_)), expected, "{name}");
        }
    }

    #[test]
    fn an_object_that_never_shows_a_run_is_unverifiable() {
        let oci = suspended("HelmRepository", json!({"spec": {"type": "oci"}}), 90);
        let mut undated = suspended("Kustomization", run(60, "2s"), 60);
        undated.object.managed_fields.remove(0);
        for full in [suspended("Alert", json!({}), 90), suspended("Provider", json!({}), 90), oci, undated] {
            assert!(matches!(HonourVerdict::of(&full, &[]), HonourVerdict::Unverifiable { .. }), "{}", full.object.id);
        }
    }

    #[test]
    fn spec_and_switch_are_honoured() {
        let both = suspended("Kustomization", json!({"spec": {"suspend": true}}), 90);
        let switch = flux_object("ResourceSet", json!({}), &[("fluxcd.controlplane.io/reconcile", "disabled")]);
        assert_eq!(
            (HonourVerdict::of(&both, &[]), HonourVerdict::of(&switch, &[])),
            (HonourVerdict::Honoured, HonourVerdict::Honoured)
        );
    }
}
