//! HTTP of the world: discovery, lists, GET and DELETE.

use http::request::Parts;
use http::{Method, Response};
use serde_json::{Value, json};

use super::objects::{TYPES, type_of, uid};
use super::{Key, State, Type};

const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// A status code, a content type and a body.
struct Answer(u16, &'static str, Value);

impl State {
    /// Answers a request, after the actor had its turn.
    pub(crate) fn answer(&mut self, request: &Parts, body: &[u8]) -> Response<Vec<u8>> {
        self.clock += 1;
        self.maybe_act();
        let Answer(code, content_type, value) = match self.expired {
            true => status(401, "Unauthorized", "Unauthorized", ""),
            false => self.route(request, body),
        };
        let response = Response::builder().status(code).header("Content-Type", content_type);
        response.body(value.to_string().into_bytes()).expect("a response")
    }

    fn route(&mut self, request: &Parts, body: &[u8]) -> Answer {
        let path = request.uri.path();
        if path == "/api" || path == "/apis" {
            self.history.discovery = self.clock;
            return Answer(200, DISCOVERY, self.discovery(path == "/api"));
        }
        let is_metadata = request
            .headers
            .get("accept")
            .is_some_and(|accept| accept.to_str().unwrap_or_default().contains("PartialObjectMetadata"));
        let mut segments = path.trim_matches('/').split('/');
        let group = if segments.next() == Some("apis") { segments.next().unwrap_or_default() } else { "" };
        let mut rest: Vec<&str> = segments.skip(1).collect();
        let namespace = match rest[..] {
            ["namespaces", namespace, _, ..] => {
                rest.drain(..2);
                namespace.to_owned()
            }
            _ => String::new(),
        };
        let kind = TYPES.iter().find(|kind| kind.group == group && rest.first() == Some(&kind.plural));
        let Some(kind) = kind.filter(|kind| self.served.contains_key(kind.plural)) else {
            return Answer(404, "text/plain", json!("404 page not found"));
        };
        match (&request.method, rest.get(1)) {
            (&Method::GET, None) => self.list(kind, &namespace, is_metadata, request.uri.query().unwrap_or_default()),
            (&Method::GET, Some(name)) => self.get((kind.plural, namespace, (*name).to_owned()), is_metadata),
            (&Method::DELETE, Some(name)) => self.delete(&(kind.plural, namespace, (*name).to_owned()), body),
            _ => status(405, "MethodNotAllowed", "not allowed", ""),
        }
    }

    fn discovery(&self, is_core: bool) -> Value {
        let mut groups: Vec<&str> = TYPES.iter().map(|kind| kind.group).collect();
        groups.dedup();
        let served = |group: &str| -> Vec<Value> {
            let own = TYPES.iter().filter(|kind| kind.group == group && self.served.contains_key(kind.plural));
            own.map(|kind| {
                let scope = if kind.namespaced { "Namespaced" } else { "Cluster" };
                json!({"resource": kind.plural, "responseKind": {"kind": kind.kind}, "scope": scope,
                    "verbs": ["get", "list", "delete"]})
            })
            .collect()
        };
        let items = groups.into_iter().filter(|group| group.is_empty() == is_core).map(|group| {
            let version = json!({"version": "v1", "freshness": "Current", "resources": served(group)});
            json!({"metadata": {"name": group}, "versions": [version]})
        });
        let items: Vec<Value> = items.collect();
        json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": items})
    }

    fn list(&mut self, kind: &Type, namespace: &str, is_metadata: bool, query: &str) -> Answer {
        // Nothing here carries the labels of the systems that are asked for by a selector.
        let is_selected = query.contains("labelSelector=");
        if !is_selected {
            self.history.lists.insert((type_of(kind.plural).plural, namespace.to_owned()), self.clock);
        }
        let own = self.objects.iter().filter(|((plural, at, _), _)| {
            *plural == kind.plural && !is_selected && (namespace.is_empty() || at == namespace)
        });
        let items: Vec<Value> =
            own.map(|(_, object)| if is_metadata { partial(object) } else { object.clone() }).collect();
        let (name, version) = match is_metadata {
            true => ("PartialObjectMetadataList".to_owned(), "meta.k8s.io/v1".to_owned()),
            false if kind.group.is_empty() => (format!("{}List", kind.kind), "v1".to_owned()),
            false => (format!("{}List", kind.kind), format!("{}/v1", kind.group)),
        };
        let metadata = json!({"resourceVersion": self.revision.to_string()});
        Answer(
            200,
            "application/json",
            json!({"kind": name, "apiVersion": version, "metadata": metadata, "items": items}),
        )
    }

    fn get(&mut self, key: Key, is_metadata: bool) -> Answer {
        self.history.gets.insert(key.clone(), self.clock);
        match self.objects.get(&key) {
            Some(object) => Answer(200, "application/json", if is_metadata { partial(object) } else { object.clone() }),
            None => status(404, "NotFound", "not found", &key.2),
        }
    }

    fn delete(&mut self, key: &Key, body: &[u8]) -> Answer {
        let options: Value = serde_json::from_slice(body).unwrap_or_default();
        let Some(object) = self.objects.get(key).cloned() else { return status(404, "NotFound", "not found", &key.2) };
        let conditions = &options["preconditions"];
        let metadata = &object["metadata"];
        if conditions["uid"] != metadata["uid"] || conditions["resourceVersion"] != metadata["resourceVersion"] {
            return status(409, "Conflict", "the precondition does not hold", &key.2);
        }
        if !options["dryRun"].is_null() {
            return success(uid(&object));
        }
        if self.denied.contains(uid(&object)) {
            self.refused.insert(uid(&object).to_owned());
            return status(403, "Forbidden", "a webhook denied the request", &key.2);
        }
        self.judge_deletion(key);
        self.history.last_delete = self.clock;
        self.deletions += 1;
        let gone = self.cascade(key).into_iter().filter_map(|key| Some(uid(self.objects.get(&key)?).to_owned()));
        let gone: Vec<String> = gone.collect();
        self.deleted.extend(gone);
        if metadata["finalizers"].is_array() {
            self.change(key, |object| object["metadata"]["deletionTimestamp"] = json!("2026-01-03T00:00:00Z"));
            return Answer(200, "application/json", self.objects[key].clone());
        }
        self.remove_with_cascade(key);
        success(uid(&object))
    }
}

fn partial(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

fn success(uid: &str) -> Answer {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Success", "details": {"uid": uid}});
    Answer(200, "application/json", status)
}

fn status(code: u16, reason: &str, message: &str, name: &str) -> Answer {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message,
        "code": code, "details": {"name": name}});
    Answer(code, "application/json", status)
}
