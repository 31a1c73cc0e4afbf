//! The user of this connection and its rights, by SelfSubjectReviews and SelfSubjectAccessReviews, and the rights of service
//! accounts, by SubjectAccessReviews.

use http::{Request, header};
use serde_json::{Value, json};

use crate::cluster::connection::Cluster;
use crate::cluster::http::failure::Failure;
use gitops_core::flux::spec::NamespacedName;
use gitops_core::kubernetes::object::ResourceType;

/// Returns true if the user may use this verb on the objects of a type in a namespace; empty for a cluster-scoped type.
/// Without a name, the right must hold for every object.
///
/// Fails when the server has no such API, or does not say whether it is allowed.
pub(crate) async fn is_allowed(
    cluster: &Cluster,
    verb: &str,
    kind: &ResourceType,
    namespace: &str,
    name: Option<&str>,
) -> Result<bool, Failure> {
    let spec = json!({ "resourceAttributes": attributes(verb, kind, namespace, name) });
    review(cluster, "SelfSubjectAccessReview", &spec).await
}

/// Returns true if a service account may use this verb, as [`is_allowed`] does for the user.
///
/// Fails also if the user may not create SubjectAccessReviews.
pub(crate) async fn is_account_allowed(
    cluster: &Cluster,
    account: &NamespacedName,
    verb: &str,
    kind: &ResourceType,
    namespace: &str,
    name: Option<&str>,
) -> Result<bool, Failure> {
    let spec = json!({
        "user": account.user(),
        "groups": account.groups(),
        "resourceAttributes": attributes(verb, kind, namespace, name),
    });
    review(cluster, "SubjectAccessReview", &spec).await
}

async fn review(cluster: &Cluster, kind: &str, spec: &Value) -> Result<bool, Failure> {
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec});
    let answer = post(cluster, &format!("/apis/authorization.k8s.io/v1/{}s", kind.to_lowercase()), &review).await?;
    let allowed = answer.pointer("/status/allowed").and_then(Value::as_bool);
    allowed.ok_or_else(|| Failure::unreadable("it does not say whether it is allowed"))
}

/// Returns the authenticated user name, by a SelfSubjectReview (Kubernetes 1.28 and later).
///
/// Fails when the server has no such API or gives no name.
pub(crate) async fn user_name(cluster: &Cluster) -> Result<String, Failure> {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let answer = post(cluster, "/apis/authentication.k8s.io/v1/selfsubjectreviews", &review).await?;
    if answer["kind"] != "SelfSubjectReview" {
        return Err(Failure::unreadable("it is no SelfSubjectReview"));
    }
    let name = answer.pointer("/status/userInfo/username").and_then(Value::as_str);
    name.map(str::to_owned).ok_or_else(|| Failure::unreadable("it has no user name"))
}

async fn post(cluster: &Cluster, path: &str, review: &Value) -> Result<Value, Failure> {
    let request = Request::post(path)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json")
        .body(review.to_string().into_bytes())
        .map_err(Failure::of_request)?;
    serde_json::from_slice(&cluster.send(request).await?.body).map_err(Failure::unreadable)
}

fn attributes(verb: &str, kind: &ResourceType, namespace: &str, name: Option<&str>) -> Value {
    json!({
        "verb": verb, "group": kind.group, "version": kind.version, "resource": kind.plural,
        "namespace": namespace, "name": name.unwrap_or_default(),
    })
}
