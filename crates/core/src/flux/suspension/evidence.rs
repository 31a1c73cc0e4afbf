//! Evidence that an object was reconciled although an annotation suspends it.
//!
//! Source: reference flux 4.2. What a controller writes without reconciling (`lastHandledReconcileAt`,
//! `observedGeneration`) never counts, and a run that was under way when the object was suspended may end. Nothing is
//! provoked: asking for a reconcile to see whether it happens would cause the very apply that the user wants to avoid.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Serialize;
use serde_json::Value;

use super::{By, REQUESTED_AT};
use crate::flux::kinds::{FluxKind, Trace};
use crate::kubernetes::duration::parse as parse_duration;
use crate::kubernetes::object::{ManagedFieldsEntry, Resource, parse_time};

/// How far the clocks of a controller and the API server may differ, the API server's whole seconds included.
const TOLERANCE: TimeDelta = TimeDelta::seconds(5);

/// Whether a suspension is honoured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum HonourVerdict {
    /// Every controller honours it: `spec.suspend` or the kind's own switch.
    Honoured,
    /// A run began after the suspension.
    NotHonoured(Evidence),
    /// Only the annotation suspends, and no run has been seen since. No released Flux controller honours it.
    NoEvidence,
    /// Only the annotation suspends, and nothing could ever tell of a run.
    Unverifiable {
        /// Why not.
        reason: &'static str,
    },
}

/// What proves a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// When it happened, by the clock of whoever wrote it.
    pub at: DateTime<Utc>,
    /// What it is and where it stands. Parts were written by others: escape before it reaches a terminal.
    pub what: String,
}

/// An Event about an object, as far as it is evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Uid of the object.
    pub uid: Box<str>,
    /// When it happened last.
    pub at: DateTime<Utc>,
    /// Machine-readable reason.
    pub reason: String,
    /// Name of the controller.
    pub reporter: String,
}

/// Judges a suspension from what the object and the Events about it tell.
pub fn verdict(full: &Resource, events: &[Sighting]) -> HonourVerdict {
    let Some(suspension) = super::read(full).filter(|suspension| suspension.by == By::Annotation) else {
        return HonourVerdict::Honoured;
    };
    let Some(kind) = FluxKind::of(full).filter(|kind| !kind.is_static(full)) else {
        return HonourVerdict::Unverifiable { reason: "objects of this kind never tell of a run" };
    };
    let Some(since) = suspension.since else {
        return HonourVerdict::Unverifiable { reason: "nobody recorded when it was suspended" };
    };
    let case = Case { full, kind, since, events };
    let found = kind.traces.iter().find_map(|trace| case.evidence(*trace));
    found.map_or(HonourVerdict::NoEvidence, HonourVerdict::NotHonoured)
}

struct Case<'a> {
    full: &'a Resource,
    kind: &'static FluxKind,
    since: DateTime<Utc>,
    events: &'a [Sighting],
}

impl Case<'_> {
    fn evidence(&self, trace: Trace) -> Option<Evidence> {
        match trace {
            Trace::Runs(pointer) => {
                let start = self.last_start(pointer)?;
                self.after(start, Duration::ZERO, || format!("a run started, by {}", dotted(pointer)))
            }
            Trace::Started(pointer) => {
                self.after(self.time(pointer)?, Duration::ZERO, || format!("a run started, by {}", dotted(pointer)))
            }
            Trace::During(pointer) => {
                self.after(self.time(pointer)?, self.in_flight(), || format!("{} was written", dotted(pointer)))
            }
            Trace::Starting(condition) => {
                let changed = self.full.condition(condition)?.changed?;
                self.after(changed, Duration::ZERO, || format!("condition {condition} was set"))
            }
            Trace::Ending(condition) => {
                let changed = self.full.condition(condition)?.changed?;
                self.after(changed, self.in_flight(), || format!("condition {condition} changed"))
            }
            Trace::StatusWrite => {
                let writer = self.status_writer().filter(|_| !self.was_asked())?;
                self.after(writer.time?, self.in_flight(), || format!("{} wrote the status", writer.manager))
            }
            Trace::Event => {
                let events = self.events.iter().filter(|event| event.uid == self.full.object.uid);
                let of_controller = events.filter(|event| event.reporter.ends_with(self.kind.controller));
                let last = of_controller.max_by_key(|event| event.at).filter(|_| !self.was_asked())?;
                self.after(last.at, self.in_flight(), || format!("{} sent the event {}", last.reporter, last.reason))
            }
        }
    }

    /// The evidence, when its time is later than a run could be that was under way at the suspension.
    ///
    /// A controller's clock may be minutes ahead; a status that the API server saw written before the suspension tells
    /// of no run after it, whatever times it holds.
    fn after(&self, at: DateTime<Utc>, grace: Duration, what: impl FnOnce() -> String) -> Option<Evidence> {
        let grace = TimeDelta::from_std(grace).ok()?;
        let written = self.status_writer().and_then(|writer| writer.time);
        let by_event = self.events.iter().any(|event| event.at == at);
        let possible = by_event || written.is_none_or(|written| written > self.since);
        (possible && at > self.since + TOLERANCE + grace).then(|| Evidence { at, what: what() })
    }

    /// The controller's own entry among those who wrote the status.
    fn status_writer(&self) -> Option<&ManagedFieldsEntry> {
        let writes_status = |writer: &&ManagedFieldsEntry| &*writer.subresource == "status";
        let by_controller = |writer: &&ManagedFieldsEntry| writer.manager.ends_with(self.kind.controller);
        self.full.object.writers.iter().filter(writes_status).filter(by_controller).max_by_key(|writer| writer.time)
    }

    /// Whether somebody asked for a reconcile after the suspension: a controller may answer that in the status without
    /// reconciling.
    fn was_asked(&self) -> bool {
        let Some(asked) = self.full.object.annotations.get(REQUESTED_AT) else {
            return false;
        };
        parse_time(asked).is_none_or(|asked| asked > self.since - TOLERANCE)
    }

    /// The start of the run that started last.
    fn last_start(&self, pointer: &str) -> Option<DateTime<Utc>> {
        let runs = self.full.at(pointer)?.as_array()?;
        let text = |run: &Value, key: &str| run.get(key).and_then(Value::as_str).map(str::to_owned);
        let starts = runs.iter().filter_map(|run| {
            let end = text(run, "lastReconciled").as_deref().and_then(parse_time)?;
            let took = text(run, "lastReconciledDuration").as_deref().and_then(parse_duration)?;
            Some(end - TimeDelta::from_std(took).ok()?)
        });
        starts.max()
    }

    fn time(&self, pointer: &str) -> Option<DateTime<Utc>> {
        self.full.text(pointer).and_then(parse_time)
    }

    /// How long a run may still take that was under way at the suspension.
    fn in_flight(&self) -> Duration {
        self.full.text("/spec/timeout").and_then(parse_duration).unwrap_or(self.kind.timeout)
    }
}

/// `/status/history/0` as people write it: `status.history.0`.
fn dotted(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::flux::suspension::{ANNOTATION, FIELD_MANAGER};
    use crate::testing::{flux_object, noon, owner_of};

    fn at(seconds: i64) -> String {
        (noon() + TimeDelta::seconds(seconds)).to_rfc3339()
    }

    fn status_write(manager: &str, seconds: i64) -> ManagedFieldsEntry {
        ManagedFieldsEntry { subresource: "status".into(), ..owner_of(manager, false, seconds, &[]) }
    }

    /// An object suspended by annotation at noon, whose status was written last at so many seconds after noon.
    fn suspended(kind: &str, content: Value, written: i64) -> Resource {
        let mut full = flux_object(kind, content, &[(ANNOTATION, "drill")]);
        let controller = FluxKind::of(&full).unwrap().controller;
        full.object.writers = vec![
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
            let found = match verdict(&full, &[]) {
                HonourVerdict::NotHonoured(evidence) => Some(evidence.at),
                HonourVerdict::NoEvidence => None,
                other => panic!("{name}: {other:?}"),
            };
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn what_a_controller_writes_without_reconciling_is_no_evidence() {
        let handled = json!({"status": {"lastHandledReconcileAt": at(90), "observedGeneration": 9}});
        assert_eq!(verdict(&suspended("Kustomization", handled, 90), &[]), HonourVerdict::NoEvidence);
        let mut asked = suspended("HelmRelease", ready(-999), 90);
        asked.object.annotations =
            [(ANNOTATION.to_owned(), "drill".to_owned()), (REQUESTED_AT.to_owned(), at(80))].into_iter().collect();
        assert_eq!(verdict(&asked, &[]), HonourVerdict::NoEvidence, "the write answers the request");
        let mut stranger = suspended("HelmRelease", ready(-999), -30);
        stranger.object.writers.push(status_write("somebody", 90));
        assert_eq!(verdict(&stranger, &[]), HonourVerdict::NoEvidence, "only the controller's writes count");
    }

    #[test]
    fn an_event_is_evidence_where_a_poll_writes_nothing() {
        let full = suspended("GitRepository", ready(-999), -999);
        let event = |uid: &str, seconds: i64, reporter: &str| Sighting {
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
            assert_eq!(matches!(verdict(&full, &[event]), HonourVerdict::NotHonoured(_)), expected, "{name}");
        }
    }

    #[test]
    fn where_nothing_can_tell_it_says_so() {
        let oci = suspended("HelmRepository", json!({"spec": {"type": "oci"}}), 90);
        let mut undated = suspended("Kustomization", run(60, "2s"), 60);
        undated.object.writers.remove(0);
        for full in [suspended("Alert", json!({}), 90), suspended("Provider", json!({}), 90), oci, undated] {
            assert!(matches!(verdict(&full, &[]), HonourVerdict::Unverifiable { .. }), "{}", full.object.id);
        }
    }

    #[test]
    fn spec_and_switch_are_honoured() {
        let both = suspended("Kustomization", json!({"spec": {"suspend": true}}), 90);
        let switch = flux_object("ResourceSet", json!({}), &[("fluxcd.controlplane.io/reconcile", "disabled")]);
        assert_eq!((verdict(&both, &[]), verdict(&switch, &[])), (HonourVerdict::Honoured, HonourVerdict::Honoured));
    }
}
