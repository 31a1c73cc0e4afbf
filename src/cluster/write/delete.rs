//! Deletion of one object, pinned to its uid and resourceVersion, and the wait until it is gone.

use std::time::Duration;

use http::{Request, header};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::cluster::connection::Cluster;
use crate::cluster::http::failure::Failure;
use crate::cluster::read::fetch::object_path;
use gitops_core::flux::apply::without_denial;
use gitops_core::kubernetes::object::{ObjectId, ObjectMetadata, ResourceType};

/// Progress of a deletion that the server accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DeletionProgress {
    /// The object no longer exists, or another one of the same name replaced it.
    Gone,
    /// The object exists and is not terminating.
    Unchanged,
    /// The object is terminating; these finalizers remain.
    Terminating(Vec<String>),
}

/// Pause between two reads of an object from which its conditions are read too.
const SLOW: Duration = Duration::from_secs(1);

/// Returns the conditions of an object that have a message, such as the content that a Namespace still has.
async fn conditions(cluster: &Cluster, kind: &ResourceType, id: &ObjectId) -> Vec<String> {
    if id.is("", "Secret") {
        return vec![];
    }
    let object = cluster.fetch_json(kind, id).await.ok().flatten().unwrap_or_default();
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().filter_map(condition_text).collect()
}

/// Returns the text of a condition that is true and has a message.
fn condition_text(condition: &Value) -> Option<String> {
    let [name, message] = ["type", "message"].map(|key| condition[key].as_str().filter(|text| !text.is_empty()));
    Some(format!("{}: {}", name?, message?)).filter(|_| condition["status"] == "True")
}

/// Sends a DELETE with uid and resourceVersion preconditions and background propagation. Never removes finalizers.
///
/// Fails with 409 if the object changed since it was read, and if the answer is neither `Success` nor this object. A
/// DELETE that is no dry-run is sent once: after a lost answer, the caller reads the object before it tries again.
/// Messages of policies and webhooks about a Secret are left out, because they can quote its data.
pub(crate) async fn delete(
    cluster: &Cluster,
    kind: &ResourceType,
    read: &ObjectMetadata,
    dry_run: bool,
) -> Result<(), Failure> {
    let mut options = json!({
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
        "preconditions": {"uid": read.uid, "resourceVersion": read.resource_version},
    });
    if dry_run {
        options["dryRun"] = json!(["All"]);
    }
    let mut path = object_path(kind, &read.id);
    if dry_run {
        // A proxy may drop the body of a DELETE, and the API server then reads this.
        path += "?dryRun=All";
    }
    let request = Request::delete(path)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json")
        .body(options.to_string().into_bytes())
        .map_err(Failure::of_request)?;
    let is_secret = read.id.is("", "Secret");
    let cluster = if is_secret { cluster.without_warnings() } else { cluster.clone() };
    let answer = if dry_run { cluster.send(request).await } else { cluster.send_without_retry(request).await };
    let response = match answer {
        Err(failure) if is_secret => {
            return Err(Failure { message: without_denial(&failure.message).into_owned(), ..failure });
        }
        answer => answer?,
    };
    check_answer(&response.body, kind, read, dry_run).map_err(Failure::unreadable)
}

/// Polls until the object of this uid is gone or `end` has passed: after 50 ms, then slower, up to once a second. Calls
/// `waiting` with the finalizers whenever they change. Reads that fail are repeated.
pub(super) async fn wait_until_gone(
    cluster: &Cluster,
    kind: &ResourceType,
    deleted: &ObjectMetadata,
    end: Instant,
    waiting: &mut dyn FnMut(&[String]),
) -> Result<DeletionProgress, Failure> {
    let mut pause = Duration::from_millis(50);
    let mut known: Option<Vec<String>> = None;
    loop {
        let progress = match cluster.fetch_metadata(kind, &deleted.id).await {
            Ok(Some(current)) if current.uid == deleted.uid && current.deletion_timestamp.is_some() => {
                let mut finalizers: Vec<String> = current.finalizers.iter().map(ToString::to_string).collect();
                if pause >= SLOW {
                    finalizers.extend(conditions(cluster, kind, &deleted.id).await);
                }
                if known.as_ref() != Some(&finalizers) {
                    waiting(&finalizers);
                    known = Some(finalizers.clone());
                }
                Ok(DeletionProgress::Terminating(finalizers))
            }
            Ok(Some(current)) if current.uid == deleted.uid => Ok(DeletionProgress::Unchanged),
            Ok(_) => return Ok(DeletionProgress::Gone),
            Err(failure) => Err(failure),
        };
        if Instant::now() + pause > end {
            return progress;
        }
        sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(1));
    }
}

/// Checks that the answer to a DELETE is about this deletion: a `Status` of success, or the object as it is terminating. The answer
/// to a dry-run that only removes the finalizers `orphan` and `foregroundDeletion` is an empty object of the kind.
///
/// Source: k8s.io/apiserver `pkg/registry/generic/registry/store.go`, `updateForGracefulDeletionAndFinalizers`.
fn check_answer(body: &[u8], kind: &ResourceType, read: &ObjectMetadata, dry_run: bool) -> Result<(), String> {
    let answer: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let [name, status, of_status, of_object] = ["/kind", "/status", "/details/uid", "/metadata/uid"]
        .map(|pointer| answer.pointer(pointer).and_then(Value::as_str));
    match name {
        Some("Status") if status == Some("Success") && of_status.is_none_or(|uid| *uid == *read.uid) => Ok(()),
        Some(name) if *name == *kind.kind && of_object == Some(&*read.uid) => Ok(()),
        Some(name) if *name == *kind.kind && of_object.is_none() && dry_run => Ok(()),
        name => Err(format!("a {} is no confirmation of a deletion", name.unwrap_or("value without kind"))),
    }
}

#[cfg(test)]
mod tests {
    use gitops_core::testing::{object, resource_type};

    use super::*;

    #[test]
    fn only_the_status_of_success_or_the_object_itself_confirms_a_deletion() {
        let kind = resource_type("", "ConfigMap", "configmaps", true);
        let read = ObjectMetadata { uid: "u".into(), ..object("", "ConfigMap", "n", "a") };
        for (name, body, confirms) in [
            ("success", r#"{"kind":"Status","status":"Success"}"#, true),
            ("success of this uid", r#"{"kind":"Status","status":"Success","details":{"uid":"u"}}"#, true),
            ("success of another uid", r#"{"kind":"Status","status":"Success","details":{"uid":"v"}}"#, false),
            ("failure", r#"{"kind":"Status","status":"Failure"}"#, false),
            ("the object", r#"{"kind":"ConfigMap","metadata":{"uid":"u"}}"#, true),
            ("another object", r#"{"kind":"ConfigMap","metadata":{"uid":"v"}}"#, false),
            ("an object of another kind", r#"{"kind":"Secret","metadata":{"uid":"u"}}"#, false),
            ("nothing", "{}", false),
            ("a page", "<html>", false),
            ("no byte", "", false),
        ] {
            for dry_run in [false, true] {
                assert_eq!(check_answer(body.as_bytes(), &kind, &read, dry_run).is_ok(), confirms, "{name}");
            }
        }
        let empty = br#"{"kind":"ConfigMap","metadata":{}}"#;
        assert_eq!([false, true].map(|dry_run| check_answer(empty, &kind, &read, dry_run).is_ok()), [false, true]);
    }
}
