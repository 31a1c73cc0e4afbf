//! Events about objects: evidence of reconciliations that change nothing else, and of deletions. The API server keeps Events
//! for an hour.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use futures::future::join_all;
use serde::Deserialize;

use crate::cluster::connection::Cluster;
use crate::cluster::http::failure::Failure;
use gitops_core::flux::guard::DELETING_CONTROLLERS;
use gitops_core::flux::history::evidence::ControllerEvent;
use gitops_core::flux::suspension::evidence::ObjectEvent;
use gitops_core::kubernetes::gap::Gap;
use gitops_core::kubernetes::object::{ObjectId, Resource, parse_time};

/// End of the key of the annotation with the revision of the owner.
const REVISION: &str = "/revision";

/// Reads the Events about these objects, with one request for each kind and namespace.
pub(crate) async fn object_events(cluster: &Cluster, objects: &[&Resource]) -> (Vec<ObjectEvent>, Vec<Gap>) {
    let places: BTreeSet<_> = objects.iter().map(|full| (&full.object.id.namespace, &full.object.id.kind)).collect();
    let requests = places.into_iter().map(|(namespace, kind)| events(cluster, namespace, kind));
    let mut all = vec![];
    let mut gaps = vec![];
    for answer in join_all(requests).await {
        match answer {
            Ok(found) => all.extend(found.into_iter().filter_map(Event::into_object_event)),
            Err(gap) => gaps.push(gap),
        }
    }
    (all, gaps)
}

/// Reads the Events of the controllers of Flux about owners in these namespaces.
pub(crate) async fn controller_events(
    cluster: &Cluster,
    namespaces: impl IntoIterator<Item = &str>,
) -> (Vec<ControllerEvent>, Vec<Gap>) {
    let kinds: Vec<_> = DELETING_CONTROLLERS.iter().flat_map(|(_, kinds)| kinds.iter()).collect();
    let places = namespaces.into_iter().flat_map(|place| kinds.iter().map(move |(group, kind)| (place, *group, *kind)));
    let requests = places.map(async |(place, group, kind)| {
        let found = events(cluster, place, kind).await?;
        Ok(found.into_iter().filter_map(move |event| event.into_controller_event(group)))
    });
    let (mut all, mut gaps) = (vec![], BTreeSet::new());
    for answer in join_all(requests).await {
        match answer {
            Ok(found) => all.extend(found),
            Err(gap) => drop(gaps.insert(gap)),
        }
    }
    (all, gaps.into_iter().collect())
}

async fn events(cluster: &Cluster, namespace: &str, kind: &str) -> Result<Vec<Event>, Gap> {
    let path = format!("/api/v1/namespaces/{namespace}/events?fieldSelector=involvedObject.kind%3D{kind}");
    let response = cluster.get(&path, "application/json").await;
    let answer = response.map_err(|failure| failure.gap("events", Some(namespace)))?;
    let list: EventList = serde_json::from_slice(&answer.body)
        .map_err(|error| Failure::unreadable(error).gap("events", Some(namespace)))?;
    if list.kind != "EventList" {
        return Err(Failure::unreadable(format!("a {:?} is no EventList", list.kind)).gap("events", Some(namespace)));
    }
    Ok(list.items)
}

#[derive(Deserialize)]
struct EventList {
    kind: String,
    items: Vec<Event>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Event {
    metadata: EventMetadata,
    involved_object: InvolvedObject,
    reason: Option<String>,
    message: Option<String>,
    last_timestamp: Option<String>,
    event_time: Option<String>,
    series: Option<Series>,
    reporting_component: Option<String>,
    source: EventSource,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct EventMetadata {
    annotations: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct InvolvedObject {
    uid: String,
    kind: String,
    namespace: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Series {
    last_observed_time: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct EventSource {
    component: Option<String>,
}

impl Event {
    fn last_time(&self) -> Option<DateTime<Utc>> {
        let last = self.series.as_ref().and_then(|series| series.last_observed_time.as_ref());
        let times = [last, self.last_timestamp.as_ref(), self.event_time.as_ref()];
        times.into_iter().flatten().find_map(|time| parse_time(time))
    }

    fn reporter(&self) -> String {
        let reporter = self.reporting_component.clone().filter(|name| !name.is_empty());
        reporter.or_else(|| self.source.component.clone()).unwrap_or_default()
    }

    fn into_object_event(self) -> Option<ObjectEvent> {
        let (at, reporter) = (self.last_time()?, self.reporter());
        Some(ObjectEvent {
            uid: self.involved_object.uid.into(),
            at,
            reason: self.reason.unwrap_or_default(),
            reporter,
        })
    }

    fn into_controller_event(self, group: &str) -> Option<ControllerEvent> {
        let (at, by) = (self.last_time()?, self.reporter());
        let InvolvedObject { kind, namespace, name, .. } = self.involved_object;
        let mut annotations = self.metadata.annotations.into_iter();
        Some(ControllerEvent {
            at,
            by,
            owner: ObjectId::new(group, &kind, &namespace, &name),
            revision: annotations.find(|(key, _)| key.strip_suffix(REVISION) == Some(group)).map(|(_, value)| value),
            reason: self.reason.unwrap_or_default(),
            message: self.message.unwrap_or_default(),
        })
    }
}
