//! Objects as they change: a watch for each type, taken up again when the server closes it, and listed anew when it is
//! too late for that.

use std::collections::HashMap;

use futures::stream::{BoxStream, StreamExt, select_all};
use kube::api::{Api, ApiResource, DynamicObject};
use kube::runtime::{WatchStreamExt, watcher};

use super::list::{Query, full_object};
use super::metadata::Interner;
use crate::cluster::{Cluster, Failure};
use gitops_core::kubernetes::object::{Resource, ResourceType};

/// An object that changed.
#[derive(Debug)]
pub struct Sight {
    /// Its type.
    pub kind: ResourceType,
    /// As it is now, or was last.
    pub full: Resource,
    /// Whether it is gone.
    pub deleted: bool,
}

impl Cluster {
    /// Watches types without end. Objects in `known` are only told of when they change; what disappears while no watch
    /// is open is told of as deleted after the next list. A failed watch is an error in between, and tried again, slower
    /// each time.
    pub fn watch(
        &self,
        types: &[ResourceType],
        query: Query<'_>,
        known: &[&Resource],
    ) -> BoxStream<'static, Result<Sight, Failure>> {
        let streams = types.iter().map(|kind| {
            let of_kind = known.iter().filter(|full| kind.is(&full.object.id.group, &full.object.id.kind));
            let seen = of_kind.map(|full| (full.object.uid.clone(), (*full).clone())).collect();
            self.watch_type(kind.clone(), query, Tracker { kind: kind.clone(), seen, relisted: None })
        });
        select_all(streams).boxed()
    }

    fn watch_type(
        &self,
        kind: ResourceType,
        query: Query<'_>,
        mut tracker: Tracker,
    ) -> BoxStream<'static, Result<Sight, Failure>> {
        let resource = ApiResource {
            group: kind.group.to_string(),
            version: kind.version.to_string(),
            api_version: kind.api_version(),
            kind: kind.kind.to_string(),
            plural: kind.plural.to_string(),
        };
        let api: Api<DynamicObject> = match query.namespace.filter(|_| kind.namespaced) {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        let config =
            watcher::Config { label_selector: query.selector.map(str::to_owned), ..watcher::Config::default() };
        let host = self.host.clone();
        let events = watcher(api, config).default_backoff();
        let sights = events.map(move |event| match event {
            Ok(event) => tracker.take(event),
            Err(error) => vec![Err(Failure::unreadable(format!("watching {} on {host}: {error}", kind.resource())))],
        });
        sights.flat_map(futures::stream::iter).boxed()
    }
}

/// What is known of one type, so that a new list tells only of what is new.
struct Tracker {
    kind: ResourceType,
    seen: HashMap<Box<str>, Resource>,
    /// While a list arrives: what it held so far.
    relisted: Option<HashMap<Box<str>, Resource>>,
}

impl Tracker {
    fn take(&mut self, event: watcher::Event<DynamicObject>) -> Vec<Result<Sight, Failure>> {
        use watcher::Event;
        match event {
            Event::Init => {
                self.relisted = Some(HashMap::new());
                vec![]
            }
            Event::InitApply(object) => {
                self.read(&object).map_or_else(|failure| vec![Err(failure)], |full| self.listed(full))
            }
            Event::InitDone => self.gone(),
            Event::Apply(object) => {
                self.read(&object).map_or_else(|failure| vec![Err(failure)], |full| self.changed(full))
            }
            Event::Delete(object) => match self.read(&object) {
                Ok(full) => {
                    self.seen.remove(&full.object.uid);
                    vec![Ok(self.sight(full, true))]
                }
                Err(failure) => vec![Err(failure)],
            },
        }
    }

    fn listed(&mut self, full: Resource) -> Vec<Result<Sight, Failure>> {
        if let Some(relisted) = &mut self.relisted {
            relisted.insert(full.object.uid.clone(), full.clone());
        }
        self.changed(full)
    }

    /// What the list that just ended did not hold any more.
    fn gone(&mut self) -> Vec<Result<Sight, Failure>> {
        let Some(relisted) = self.relisted.take() else { return vec![] };
        let before = std::mem::replace(&mut self.seen, relisted);
        let gone = before.into_iter().filter(|(uid, _)| !self.seen.contains_key(uid)).map(|(_, full)| full);
        let gone: Vec<_> = gone.collect();
        gone.into_iter().map(|full| Ok(self.sight(full, true))).collect()
    }

    fn changed(&mut self, full: Resource) -> Vec<Result<Sight, Failure>> {
        let before = self.seen.insert(full.object.uid.clone(), full.clone());
        if before.is_some_and(|before| before.object.resource_version == full.object.resource_version) {
            return vec![];
        }
        vec![Ok(self.sight(full, false))]
    }

    fn sight(&self, full: Resource, deleted: bool) -> Sight {
        Sight { kind: self.kind.clone(), full, deleted }
    }

    fn read(&self, object: &DynamicObject) -> Result<Resource, Failure> {
        let json = serde_json::to_string(object).map_err(Failure::unreadable)?;
        full_object(&json, &self.kind, &mut Interner::default()).map_err(Failure::unreadable)
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

    #[test]
    fn a_new_list_tells_only_of_what_changed_meanwhile() {
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
        let mut tracker = Tracker { kind, seen: HashMap::new(), relisted: None };
        let mut told = |event| {
            let sights = tracker.take(event).into_iter().map(Result::unwrap);
            sights
                .map(|sight| format!("{}{}", sight.full.object.uid, if sight.deleted { " gone" } else { "" }))
                .collect::<Vec<_>>()
        };
        assert_eq!(told(Apply(object("a", "1"))), ["a"]);
        assert_eq!(told(Apply(object("b", "1"))), ["b"]);
        assert_eq!(told(Apply(object("c", "1"))), ["c"]);
        assert_eq!(told(Delete(object("c", "2"))), ["c gone"]);
        assert!(told(Init).is_empty());
        assert!(told(InitApply(object("a", "1"))).is_empty(), "nothing new");
        assert_eq!(told(InitApply(object("d", "5"))), ["d"]);
        assert_eq!(told(InitDone), ["b gone"]);
        assert_eq!(told(Apply(object("a", "6"))), ["a"]);
    }
}
