//! Events about objects: evidence of reconciliations that change nothing else. The API server keeps Events for an hour.

use std::collections::BTreeSet;

use futures::future::join_all;
use serde::Deserialize;

use crate::cluster::connection::Cluster;
use crate::cluster::http::failure::Failure;
use gitops_core::flux::suspension::evidence::ObjectEvent;
use gitops_core::kubernetes::gap::Gap;
use gitops_core::kubernetes::object::{Resource, parse_time};

/// Reads the Events about these objects, with one request for each kind and namespace.
pub(crate) async fn object_events(cluster: &Cluster, objects: &[&Resource]) -> (Vec<ObjectEvent>, Vec<Gap>) {
    let places: BTreeSet<_> = objects.iter().map(|full| (&full.object.id.namespace, &full.object.id.kind)).collect();
    let requests = places.into_iter().map(|(namespace, kind)| events(cluster, namespace, kind));
    let mut all = vec![];
    let mut gaps = vec![];
    for answer in join_all(requests).await {
        match answer {
            Ok(found) => all.extend(found),
            Err(gap) => gaps.push(gap),
        }
    }
    (all, gaps)
}

async fn events(cluster: &Cluster, namespace: &str, kind: &str) -> Result<Vec<ObjectEvent>, Gap> {
    let path = format!("/api/v1/namespaces/{namespace}/events?fieldSelector=involvedObject.kind%3D{kind}");
    let response = cluster.get(&path, "application/json").await;
    let answer = response.map_err(|failure| failure.gap("events", Some(namespace)))?;
    let list: EventList = serde_json::from_slice(&answer.body)
        .map_err(|error| Failure::unreadable(error).gap("events", Some(namespace)))?;
    if list.kind != "EventList" {
        return Err(Failure::unreadable(format!("a {:?} is no EventList", list.kind)).gap("events", Some(namespace)));
    }
    Ok(list.items.into_iter().filter_map(Event::into_object_event).collect())
}

#[derive(Deserialize)]
struct EventList {
    kind: String,
    items: Vec<Event>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Event {
    involved_object: InvolvedObject,
    reason: Option<String>,
    last_timestamp: Option<String>,
    event_time: Option<String>,
    series: Option<Series>,
    reporting_component: Option<String>,
    source: EventSource,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct InvolvedObject {
    uid: String,
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
    fn into_object_event(self) -> Option<ObjectEvent> {
        let last = self.series.and_then(|series| series.last_observed_time);
        let times = [last, self.last_timestamp, self.event_time];
        let reporter = self.reporting_component.filter(|name| !name.is_empty()).or(self.source.component);
        Some(ObjectEvent {
            uid: self.involved_object.uid.into(),
            at: times.iter().flatten().find_map(|time| parse_time(time))?,
            reason: self.reason.unwrap_or_default(),
            reporter: reporter.unwrap_or_default(),
        })
    }
}
