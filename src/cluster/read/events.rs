//! Events as evidence: what controllers say of what they do where it leaves no other trace. Events live an hour or so.

use std::collections::BTreeSet;

use futures::future::join_all;
use serde::Deserialize;

use crate::cluster::Cluster;
use gitops_core::flux::suspension::evidence::Sighting;
use gitops_core::kubernetes::gap::Gap;
use gitops_core::kubernetes::object::{Resource, parse_time};

impl Cluster {
    /// The Events about these objects: one request for each kind and namespace.
    pub async fn sightings(&self, objects: &[&Resource]) -> (Vec<Sighting>, Vec<Gap>) {
        let places: BTreeSet<_> =
            objects.iter().map(|full| (&full.object.id.namespace, &full.object.id.kind)).collect();
        let read = places.into_iter().map(|(namespace, kind)| self.events(namespace, kind));
        let mut all = vec![];
        let mut gaps = vec![];
        for answer in join_all(read).await {
            match answer {
                Ok(events) => all.extend(events),
                Err(gap) => gaps.push(gap),
            }
        }
        (all, gaps)
    }

    async fn events(&self, namespace: &str, kind: &str) -> Result<Vec<Sighting>, Gap> {
        let path = format!("/api/v1/namespaces/{namespace}/events?fieldSelector=involvedObject.kind%3D{kind}");
        let answer =
            self.get(&path, "application/json").await.map_err(|failure| failure.gap("events", Some(namespace)))?;
        let list: EventList = serde_json::from_slice(&answer.body).map_err(|error| Gap {
            kind: gitops_core::kubernetes::gap::GapKind::Failed,
            subject: "events".to_owned(),
            namespace: Some(namespace.to_owned()),
            message: error.to_string(),
        })?;
        Ok(list.items.into_iter().filter_map(Event::sighting).collect())
    }
}

#[derive(Deserialize)]
struct EventList {
    #[serde(default)]
    items: Vec<Event>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Event {
    involved_object: Involved,
    reason: Option<String>,
    last_timestamp: Option<String>,
    event_time: Option<String>,
    series: Option<Series>,
    reporting_component: Option<String>,
    source: EventSource,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Involved {
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
    fn sighting(self) -> Option<Sighting> {
        let last = self.series.and_then(|series| series.last_observed_time);
        let times = [last, self.last_timestamp, self.event_time];
        let reporter = self.reporting_component.filter(|name| !name.is_empty()).or(self.source.component);
        Some(Sighting {
            uid: self.involved_object.uid.into(),
            at: times.iter().flatten().find_map(|time| parse_time(time))?,
            reason: self.reason.unwrap_or_default(),
            reporter: reporter.unwrap_or_default(),
        })
    }
}
