//! The user that the API server authenticates this connection as.

use http::{Request, header};
use serde_json::{Value, json};

use crate::cluster::{Cluster, Failure};

impl Cluster {
    /// Returns the authenticated user name, by a SelfSubjectReview (Kubernetes 1.28 and later).
    ///
    /// Fails when the server has no such API or gives no name.
    pub async fn user_name(&self) -> Result<String, Failure> {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let request = Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json")
            .body(review.to_string().into_bytes())
            .map_err(Failure::of_request)?;
        let answer: Value = serde_json::from_slice(&self.send(request).await?.body).map_err(Failure::unreadable)?;
        if answer["kind"] != "SelfSubjectReview" {
            return Err(Failure::unreadable("it is no SelfSubjectReview"));
        }
        let name = answer.pointer("/status/userInfo/username").and_then(Value::as_str);
        name.map(str::to_owned).ok_or_else(|| Failure::unreadable("it has no user name"))
    }
}
