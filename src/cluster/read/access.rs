//! Rights of the user, by SelfSubjectAccessReviews, and of service accounts, by SubjectAccessReviews.

use http::{Request, header};
use serde_json::{Value, json};

use crate::cluster::{Cluster, Failure};
use gitops_core::flux::spec::NamespacedName;
use gitops_core::kubernetes::object::ResourceType;

/// Returns the user name of a service account.
pub(crate) fn user_of(account: &NamespacedName) -> String {
    format!("system:serviceaccount:{}:{}", account.namespace, account.name)
}

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
        let spec = json!({ "resourceAttributes": attributes(verb, kind, namespace, name) });
        self.review("SelfSubjectAccessReview", &spec).await
    }

    /// Returns true if a service account may use this verb, as [`Cluster::is_allowed`] does for the user.
    ///
    /// Fails also if the user may not create SubjectAccessReviews.
    pub async fn is_account_allowed(
        &self,
        account: &NamespacedName,
        verb: &str,
        kind: &ResourceType,
        namespace: &str,
        name: Option<&str>,
    ) -> Result<bool, Failure> {
        let own_group = format!("system:serviceaccounts:{}", account.namespace);
        let spec = json!({
            "user": user_of(account),
            "groups": ["system:serviceaccounts", own_group, "system:authenticated"],
            "resourceAttributes": attributes(verb, kind, namespace, name),
        });
        self.review("SubjectAccessReview", &spec).await
    }

    async fn review(&self, review: &str, spec: &Value) -> Result<bool, Failure> {
        let body = json!({"apiVersion": "authorization.k8s.io/v1", "kind": review, "spec": spec});
        let path = format!("/apis/authorization.k8s.io/v1/{}s", review.to_lowercase());
        let request = Request::post(path)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json")
            .body(body.to_string().into_bytes())
            .map_err(Failure::of_request)?;
        let answer: Value = serde_json::from_slice(&self.send(request).await?.body).map_err(Failure::unreadable)?;
        let allowed = answer.pointer("/status/allowed").and_then(Value::as_bool);
        allowed.ok_or_else(|| Failure::unreadable("it does not say whether it is allowed"))
    }
}

fn attributes(verb: &str, kind: &ResourceType, namespace: &str, name: Option<&str>) -> Value {
    json!({
        "verb": verb, "group": kind.group, "version": kind.version, "resource": kind.plural,
        "namespace": namespace, "name": name.unwrap_or_default(),
    })
}
