//! Secrets with tokens of service accounts: the token controller deletes them with their account.
//!
//! Source: Kubernetes v1.36 `pkg/controller/serviceaccount/tokens_controller.go` and `pkg/serviceaccount/util.go`: a Secret of type
//! `kubernetes.io/service-account-token` whose annotation names the account, and whose uid is that of the account or absent.

use serde_json::Value;

use crate::kubernetes::object::{ObjectMetadata, text_at};

/// Annotation with the name of the account.
pub const ACCOUNT: &str = "kubernetes.io/service-account.name";
/// Annotation with the uid of the account, which the token controller sets.
pub const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// Type of the Secrets with tokens.
const TYPE: &str = "kubernetes.io/service-account-token";

/// Field manager of the token controller in kube-controller-manager.
const CONTROLLER: &str = "kube-controller-manager";

/// Returns the name of the account of a Secret whose annotation names one.
pub(crate) fn account(object: &ObjectMetadata) -> Option<&str> {
    object.annotations.get(ACCOUNT).filter(|_| object.id.is("", "Secret"))
}

/// Returns the name of the account of a token by its manifest.
pub(crate) fn named_account(manifest: &Value) -> Option<&str> {
    let is_token = text_at(manifest, "/kind") == "Secret" && text_at(manifest, "/type") == TYPE;
    manifest.pointer("/metadata/annotations")?.get(ACCOUNT)?.as_str().filter(|name| is_token && !name.is_empty())
}

/// Returns true if the token controller deletes the Secret of an account of that name with this one.
pub(crate) fn belongs(secret: &ObjectMetadata, account: &ObjectMetadata) -> bool {
    let uid = secret.annotations.get(ACCOUNT_UID).unwrap_or_default();
    uid.is_empty() || *uid == *account.uid
}

/// Returns true if the token controller has set the uid, so that the Secret has its type: metadata does not have the type.
pub(crate) fn is_token(secret: &ObjectMetadata) -> bool {
    let own = secret.managed_fields.iter().filter(|entry| &*entry.manager == CONTROLLER);
    own.flat_map(|entry| &entry.annotations).any(|key| &**key == ACCOUNT_UID)
}
