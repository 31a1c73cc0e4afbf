//! Finds the workloads that answer calls of the API server: those behind the Services of webhooks, of conversions and of aggregated APIs.
//!
//! Each request that such an object is about fails while nothing answers for its Service, also the deletions of later steps.

use std::collections::BTreeSet;

use crate::kubernetes::object::ObjectId;
use crate::kubernetes::referrer::{Referrer, Usage};
use crate::kubernetes::selector::Selector;
use crate::kubernetes::snapshot::Snapshot;

/// An object because of which the API server calls a Service, with the workloads that answer.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) object: ObjectId,
    pub(super) service: ObjectId,
    /// Workloads whose Pods the Service selects.
    pub(super) workloads: BTreeSet<ObjectId>,
}

impl Caller {
    /// Returns a workload that the caller has in one state, if it is still there in a later one and none is left that answers.
    pub(super) fn loses(&self, before: &Snapshot, after: &Snapshot) -> Option<&ObjectId> {
        let is_left = self.workloads.iter().any(|id| after.object(id).is_some());
        let mut lost = self.workloads.iter().filter(|id| before.object(id).is_some());
        lost.next().filter(|_| !is_left && after.object(&self.object).is_some())
    }
}

/// Returns the live objects because of which the API server calls a Service with Pods.
pub(super) fn callers(referrers: &[Referrer]) -> Vec<Caller> {
    let calls = referrers.iter().flat_map(|referrer| {
        let called = referrer.references.iter().filter(|reference| reference.usage == Usage::Calls);
        called.map(move |reference| (&referrer.object, &reference.to))
    });
    let callers = calls.map(|(object, service)| Caller {
        object: object.clone(),
        service: service.clone(),
        workloads: workloads_of(service, referrers),
    });
    callers.filter(|caller| !caller.workloads.is_empty()).collect()
}

fn workloads_of(service: &ObjectId, referrers: &[Referrer]) -> BTreeSet<ObjectId> {
    let selecting = referrers.iter().find(|referrer| referrer.object == *service);
    let selector = selecting.and_then(|referrer| Selector::parse(referrer.selector.as_deref()?).ok());
    let Some(selector) = selector else { return BTreeSet::new() };
    let beside = referrers.iter().filter(|referrer| referrer.object.is_beside(service));
    let behind = beside.filter(|near| !near.pod_labels.is_empty() && selector.matches(&near.pod_labels));
    behind.map(|referrer| referrer.object.clone()).collect()
}
