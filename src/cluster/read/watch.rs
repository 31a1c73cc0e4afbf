//! Watches objects, one watch for each type. A closed watch is resumed, or replaced by a new list if its revision expired.

use std::collections::HashMap;

use futures::stream::{BoxStream, StreamExt, select_all};
use kube::api::{Api, ApiResource, DynamicObject};
use kube::runtime::{WatchStreamExt, watcher};

use super::list::{Query, watched_object};
use crate::cluster::connection::Cluster;
use crate::cluster::http::failure::Failure;
use gitops_core::kubernetes::object::{Resource, ResourceType};

/// Change of an object during a watch.
#[derive(Debug)]
pub struct WatchedChange {
    pub kind: ResourceType,
    /// Object after the change, or its last known state.
    pub full: Resource,
    pub deleted: bool,
}

/// Changes of objects, and failures of watches, which are tried again.
pub(crate) type Changes = BoxStream<'static, Result<WatchedChange, Failure>>;

/// Watches types without end. An object in `known` is reported when it changes. An object that disappears while no
/// watch is open is reported as deleted after the next list. A failed watch is an error in the stream and is tried
/// again with increasing pauses.
pub(crate) fn watch(cluster: &Cluster, types: &[ResourceType], query: Query<'_>, known: &[&Resource]) -> Changes {
    let streams = types.iter().map(|kind| {
        let of_kind = known.iter().filter(|full| kind.is(&full.object.id.group, &full.object.id.kind));
        let known = of_kind.map(|full| (full.object.uid.clone(), (*full).clone())).collect();
        watch_type(cluster, kind.clone(), query, Tracker { kind: kind.clone(), known, relisted: None })
    });
    select_all(streams).boxed()
}

fn watch_type(cluster: &Cluster, kind: ResourceType, query: Query<'_>, mut tracker: Tracker) -> Changes {
    let resource = ApiResource {
        group: kind.group.to_string(),
        version: kind.version.to_string(),
        api_version: kind.api_version(),
        kind: kind.kind.to_string(),
        plural: kind.plural.to_string(),
    };
    let api: Api<DynamicObject> = match query.namespace.filter(|_| kind.namespaced) {
        Some(namespace) => Api::namespaced_with(cluster.client.clone(), namespace, &resource),
        None => Api::all_with(cluster.client.clone(), &resource),
    };
    let config = watcher::Config { label_selector: query.selector.map(str::to_owned), ..watcher::Config::default() };
    let host = cluster.host.clone();
    let events = watcher(api, config).default_backoff();
    let changes = events.map(move |event| match event {
        Ok(event) => tracker.changes(event),
        Err(error) => vec![Err(failure(&error, &kind, &host))],
    });
    changes.flat_map(futures::stream::iter).boxed()
}

/// Converts a failed watch. What the server refuses is in its own words, such as a missing right.
fn failure(error: &watcher::Error, kind: &ResourceType, host: &str) -> Failure {
    use watcher::Error;
    match error {
        Error::InitialListFailed(kube::Error::Api(status))
        | Error::WatchStartFailed(kube::Error::Api(status))
        | Error::WatchFailed(kube::Error::Api(status))
        | Error::WatchError(status) => Failure::of_status(status),
        error => Failure::unreadable(format!("watching {} on {host}: {error}", kind.resource())),
    }
}

/// Known objects of one type by uid, so that a new list reports only changes.
struct Tracker {
    kind: ResourceType,
    known: HashMap<Box<str>, Resource>,
    /// Objects of the list that is being received.
    relisted: Option<HashMap<Box<str>, Resource>>,
}

impl Tracker {
    fn changes(&mut self, event: watcher::Event<DynamicObject>) -> Vec<Result<WatchedChange, Failure>> {
        use watcher::Event;
        let (object, is_listed, deleted) = match event {
            Event::Init => {
                self.relisted = Some(HashMap::new());
                return vec![];
            }
            Event::InitDone => return self.unlisted().into_iter().map(Ok).collect(),
            Event::InitApply(object) => (object, true, false),
            Event::Apply(object) => (object, false, false),
            Event::Delete(object) => (object, false, true),
        };
        let full = match self.read(&object) {
            Ok(full) => full,
            Err(failure) => return vec![Err(failure)],
        };
        if let Some(relisted) = self.relisted.as_mut().filter(|_| is_listed) {
            relisted.insert(full.object.uid.clone(), full.clone());
        }
        if deleted {
            self.known.remove(&full.object.uid);
        } else {
            let before = self.known.insert(full.object.uid.clone(), full.clone());
            if before.is_some_and(|before| before.object.resource_version == full.object.resource_version) {
                return vec![];
            }
        }
        vec![Ok(self.change(full, deleted))]
    }

    /// Returns the objects that the completed list does not have any more.
    fn unlisted(&mut self) -> Vec<WatchedChange> {
        let Some(relisted) = self.relisted.take() else { return vec![] };
        let mut before = std::mem::replace(&mut self.known, relisted);
        before.retain(|uid, _| !self.known.contains_key(uid));
        before.into_values().map(|full| self.change(full, true)).collect()
    }

    fn change(&self, full: Resource, deleted: bool) -> WatchedChange {
        WatchedChange { kind: self.kind.clone(), full, deleted }
    }

    fn read(&self, object: &DynamicObject) -> Result<Resource, Failure> {
        let json = serde_json::to_string(object).map_err(Failure::unreadable)?;
        watched_object(&json, &self.kind).map_err(Failure::unreadable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(uid: &str, version: &str) -> DynamicObject {
        serde_json::from_value(serde_json::json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "Bucket",
            "metadata": {"name": uid, "namespace": "shop", "uid": uid, "resourceVersion": version},
        }))
        .unwrap()
    }

    fn reported(tracker: &mut Tracker, event: watcher::Event<DynamicObject>) -> Vec<String> {
        let changes = tracker.changes(event).into_iter().map(Result::unwrap);
        changes
            .map(|change| format!("{}{}", change.full.object.uid, if change.deleted { " deleted" } else { "" }))
            .collect()
    }

    #[test]
    fn a_new_list_reports_only_changes() {
        use watcher::Event::{Apply, Delete, Init, InitApply, InitDone};
        let kind = ResourceType {
            group: "source.toolkit.fluxcd.io".into(),
            version: "v1".into(),
            kind: "Bucket".into(),
            plural: "buckets".into(),
            singular: "bucket".into(),
            short_names: vec![],
            namespaced: true,
        };
        let tracker = &mut Tracker { kind, known: HashMap::new(), relisted: None };
        assert_eq!(reported(tracker, Apply(object("a", "1"))), ["a"]);
        assert_eq!(reported(tracker, Apply(object("b", "1"))), ["b"]);
        assert_eq!(reported(tracker, Apply(object("c", "1"))), ["c"]);
        assert_eq!(reported(tracker, Delete(object("c", "2"))), ["c deleted"]);
        assert!(reported(tracker, Init).is_empty());
        assert!(reported(tracker, InitApply(object("a", "1"))).is_empty(), "nothing new");
        assert_eq!(reported(tracker, InitApply(object("d", "5"))), ["d"]);
        assert_eq!(reported(tracker, InitDone), ["b deleted"]);
        assert_eq!(reported(tracker, Apply(object("a", "6"))), ["a"]);
    }
}
