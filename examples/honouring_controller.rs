//! A small controller that honours the suspension annotation, for any kind with `status.conditions`.
//!
//! Run it where no other controller reconciles the kind: it counts its runs in the message of Ready, once in each interval
//! and on request.
//!
//!     honouring_controller notification.toolkit.fluxcd.io/v1 Receiver 2

use std::collections::HashMap;
use std::error::Error;
use std::pin::pin;
use std::time::Duration;

use futures::TryStreamExt;
use gitops_core::flux::suspension::REQUESTED_AT;
use kube::api::{Api, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt, discovery};
use kubectl_gitops::controller;
use serde_json::json;
use tokio::time::{Instant, sleep_until};

/// An object in the queue: namespace and name.
type Key = (String, String);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [api_version, kind, seconds] = &words[..] else {
        return Err("usage: honouring_controller GROUP/VERSION KIND SECONDS".into());
    };
    let (group, version) = api_version.split_once('/').ok_or("the first argument is GROUP/VERSION")?;
    let interval = Duration::from_secs(seconds.parse()?);

    let client = Client::try_default().await?;
    let (resource, _) = discovery::pinned_kind(&client, &GroupVersionKind::gvk(group, version, kind)).await?;
    let all: Api<DynamicObject> = Api::all_with(client.clone(), &resource);

    // The predicate drops changes of suspended objects, but passes the start and the end of a suspension.
    let changes = watcher(all, watcher::Config::default()).default_backoff().touched_objects();
    let mut changes = pin!(changes.predicate_filter(controller::changes, Default::default()));

    let mut due: HashMap<Key, Instant> = HashMap::new();
    loop {
        let next = due.iter().min_by_key(|(_, at)| **at).map(|(key, at)| (key.clone(), *at));
        let wake = next.as_ref().map_or_else(|| Instant::now() + interval, |(_, at)| *at);
        let key = tokio::select! {
            change = changes.try_next() => match change? {
                Some(object) => (object.namespace().unwrap_or_default(), object.name_any()),
                None => return Ok(()),
            },
            () = sleep_until(wake) => match next {
                Some((key, _)) => key,
                None => continue,
            },
        };
        let api = Api::namespaced_with(client.clone(), &key.0, &resource);
        match reconcile(&api, &key.1).await? {
            true => due.insert(key, Instant::now() + interval),
            false => due.remove(&key),
        };
    }
}

/// Reconciles one object. Returns true if it should be reconciled again after the interval.
async fn reconcile(api: &Api<DynamicObject>, name: &str) -> Result<bool, kube::Error> {
    let Some(object) = api.get_opt(name).await? else { return Ok(false) };
    // Timers bypass the predicate, so check here too. The end of the suspension is an event.
    if controller::effective(&object).is_some() {
        return Ok(false);
    }
    let message = object.data.pointer("/status/conditions/0/message").and_then(|text| text.as_str());
    let runs: u64 = message.and_then(|text| text.strip_prefix("run ")?.parse().ok()).unwrap_or(0) + 1;
    let requested = object.annotations().get(REQUESTED_AT);
    let ready = json!({
        "type": "Ready", "status": "True", "reason": "Reconciled", "message": format!("run {runs}"),
        "observedGeneration": object.metadata.generation,
        "lastTransitionTime": chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Secs, true),
    });
    let status = json!({"status": {"conditions": [ready], "lastHandledReconcileAt": requested}});
    let writer = PatchParams { field_manager: Some("honouring-controller".to_owned()), ..PatchParams::default() };
    match api.patch_status(name, &writer, &Patch::Merge(&status)).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(error),
    }
}
