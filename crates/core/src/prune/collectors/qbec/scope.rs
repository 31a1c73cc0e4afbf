//! Objects that qbec looks at: those with the labels of an application, in the namespaces of its manifests, and
//! cluster-scoped objects if any manifest is cluster-scoped.
//!
//! Rules: docs/reference/qbec-and-flux-v1.md 2.1 and 2.4.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::kubernetes::object::ObjectMetadata;
use crate::ownership::schemes::qbec::{APPLICATION, ENVIRONMENT, TAG};
use crate::prune::collectors::collector::manifest::LocalManifest;
use crate::prune::collectors::collector::served_kinds::ServedKinds;

/// Application, environment and tag: the label selector of qbec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QbecApp {
    application: String,
    environment: String,
    tag: Option<String>,
}

impl QbecApp {
    /// Checks the names as the API server does. qbec itself accepts a tag that is too long, and then every list call
    /// fails (Q24). Fails if a name is not a label value, or if the environment is qbec's baseline `_`.
    pub fn new(application: &str, environment: &str, tag: Option<&str>) -> Result<Self> {
        if environment == "_" {
            return Err(Error::invalid("environment _ is qbec's baseline and holds no objects"));
        }
        check_label_value("application", application)?;
        check_label_value("environment", environment)?;
        if let Some(tag) = tag {
            check_label_value("tag", tag)?;
        }
        Ok(Self {
            application: application.to_owned(),
            environment: environment.to_owned(),
            tag: tag.map(str::to_owned),
        })
    }

    /// Returns true if the labels of an object are those of this application. Without a tag, the label must be absent.
    pub fn selects(&self, object: &ObjectMetadata) -> bool {
        object.labels.get(APPLICATION) == Some(&self.application)
            && object.labels.get(ENVIRONMENT) == Some(&self.environment)
            && object.labels.get(TAG) == self.tag.as_deref()
    }

    /// Returns true for this application and environment, whatever the tag.
    pub(super) fn is_environment(&self, application: &str, environment: &str) -> bool {
        self.application == application && self.environment == environment
    }

    pub(super) fn application(&self) -> &str {
        &self.application
    }

    /// Returns the name of the owner: `shop/dev` or `shop/dev/pr-1`.
    pub fn name(&self) -> String {
        let tag = self.tag.as_ref().map(|tag| format!("/{tag}")).unwrap_or_default();
        format!("{}/{}{tag}", self.application, self.environment)
    }

    /// Returns `app shop, environment dev, tag pr-1`.
    pub(super) fn description(&self) -> String {
        let tag = self.tag.as_ref().map(|tag| format!(", tag {tag}")).unwrap_or_default();
        format!("app {}, environment {}{tag}", self.application, self.environment)
    }
}

fn check_label_value(part: &str, value: &str) -> Result<()> {
    if value.len() > 63 {
        let message = format!("{part} has {} characters, and a label value at most 63", value.len());
        return Err(Error::invalid(message).hint("the API server would refuse every list call; shorten it"));
    }
    let is_valid = value.starts_with(|c: char| c.is_ascii_alphanumeric())
        && value.ends_with(|c: char| c.is_ascii_alphanumeric())
        && value.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if is_valid {
        return Ok(());
    }
    let message = format!("{part} {value:?} cannot be a label value");
    Err(Error::invalid(message).hint("use letters, digits, '-', '_' and '.', and begin and end with a letter or digit"))
}

/// Namespaces and cluster scope in which qbec lists objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QbecScope {
    /// Namespaces of the manifests, and the default namespace.
    pub(super) namespaces: BTreeSet<Arc<str>>,
    lists_cluster_scoped: bool,
    lists_all_namespaces: bool,
}

impl QbecScope {
    /// Returns the scope of all manifests, filtered or not. A kind that the cluster does not serve adds nothing.
    pub(super) fn of(
        locals: &[LocalManifest],
        default_namespace: &Arc<str>,
        cluster_scoped_lists: bool,
        kinds: &ServedKinds<'_>,
    ) -> Self {
        let mut namespaces = BTreeSet::from([default_namespace.clone()]);
        let mut lists_cluster_scoped = false;
        for local in locals {
            match kinds.is_namespaced_manifest(local) {
                Some(true) if local.id.namespace.is_empty() => {}
                Some(true) => drop(namespaces.insert(local.id.namespace.clone())),
                Some(false) => lists_cluster_scoped = true,
                None => {}
            }
        }
        let lists_all_namespaces = cluster_scoped_lists && namespaces.len() > 1;
        Self { namespaces, lists_cluster_scoped, lists_all_namespaces }
    }

    /// Returns the reason why qbec never lists an object.
    pub(super) fn reason_missed(&self, object: &ObjectMetadata) -> Option<String> {
        let namespace = &object.id.namespace;
        if namespace.is_empty() {
            let reason = "no manifest is cluster-scoped any more: missed by qbec";
            return (!self.lists_cluster_scoped).then(|| reason.to_owned());
        }
        let is_listed = self.lists_all_namespaces || self.namespaces.contains(namespace);
        (!is_listed).then(|| format!("namespace {namespace} is in no manifest any more: missed by qbec"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn names_must_be_label_values() {
        let long = "x".repeat(64);
        let rows = [
            ("a slash", "a/b", "dev", None, "application \"a/b\" cannot be a label value"),
            ("empty", "", "dev", None, "application \"\" cannot be a label value"),
            ("a dash at the end", "shop", "dev-", None, "environment \"dev-\" cannot be a label value"),
            ("baseline", "shop", "_", None, "environment _ is qbec's baseline and holds no objects"),
            ("an empty tag", "shop", "dev", Some(""), "tag \"\" cannot be a label value"),
            ("64", "shop", "dev", Some(&*long), "tag has 64 characters, and a label value at most 63"),
        ];
        for (name, application, environment, tag, message) in rows {
            let error = QbecApp::new(application, environment, tag).unwrap_err();
            assert_eq!((error.kind, &*error.message), (ErrorKind::Invalid, message), "{name}");
        }
        assert!(QbecApp::new("shop", "dev", Some(&"x".repeat(63))).is_ok());
    }
}
