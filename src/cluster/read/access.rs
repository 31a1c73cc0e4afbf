//! Rights of the user, by SelfSubjectAccessReviews.

use http::{Request, header};
use serde_json::{Value, json};

use crate::cluster::{Cluster, Failure};
use gitops_core::kubernetes::object::ResourceType;

impl Cluster {
    /// Returns true if the user may use this verb on the objects of a type in a namespace; empty for a cluster-scoped type.
    /// Without a name, the right must hold for every object.
    ///
    /// Fails when the server has no such API, or does not say whether it is allowed.
    pub async fn is_allowed(
        &self,
        verb: &str,
        kind: &ResourceType,
        namespace: &str,
        name: Option<&str>,
    ) -> Result<bool, Failure> {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {
                "verb": verb, "group": kind.group, "version": kind.version, "resource": kind.plural,
                "namespace": namespace, "name": name.unwrap_or_default(),
            }},
        });
        let request = Request::post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json")
            .body(review.to_string().into_bytes())
            .map_err(Failure::of_request)?;
        let answer: Value = serde_json::from_slice(&self.send(request).await?.body).map_err(Failure::unreadable)?;
        let allowed = answer.pointer("/status/allowed").and_then(Value::as_bool);
        allowed.ok_or_else(|| Failure::unreadable("it does not say whether it is allowed"))
    }
}
