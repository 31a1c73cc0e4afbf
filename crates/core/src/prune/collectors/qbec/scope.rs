//! Where qbec looks for garbage: in the namespaces of the manifests, and cluster-wide only when a manifest is.
//!
//! Source: reference qbec-and-flux-v1 A2.1 and A2.4.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::kubernetes::object::ObjectMetadata;
use crate::ownership::schemes::qbec::{APPLICATION, ENVIRONMENT, TAG};
use crate::prune::collectors::manifest::LocalManifest;
use crate::prune::collectors::type_aliases::Kinds;

/// The identity of a set of objects: what qbec's label selector says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QbecApp {
    application: String,
    environment: String,
    tag: Option<String>,
}

impl QbecApp {
    /// An identity, checked as the API server will check it: qbec itself lets a long tag through, and then every list
    /// call fails (edge case Q24).
    ///
    /// # Errors
    /// When one of them cannot be a label value, or the environment is qbec's baseline `_`.
    pub fn new(application: &str, environment: &str, tag: Option<&str>) -> Result<Self> {
        if environment == "_" {
            return Err(Error::invalid("environment _ is qbec's baseline and holds no objects"));
        }
        for (part, value) in [("application", Some(application)), ("environment", Some(environment)), ("tag", tag)] {
            let Some(value) = value else { continue };
            check_label_value(part, value)?;
        }
        let tag = tag.map(str::to_owned);
        Ok(Self { application: application.to_owned(), environment: environment.to_owned(), tag })
    }

    /// Whether an object's labels are of this application, environment and tag; without a tag the key must be absent.
    pub fn marks(&self, object: &ObjectMetadata) -> bool {
        object.labels.get(APPLICATION) == Some(&self.application)
            && object.labels.get(ENVIRONMENT) == Some(&self.environment)
            && object.labels.get(TAG) == self.tag.as_deref()
    }

    /// Whether application and environment are these, whatever the tag.
    pub fn same_set(&self, application: &str, environment: &str) -> bool {
        self.application == application && self.environment == environment
    }

    /// The application.
    pub fn application(&self) -> &str {
        &self.application
    }

    /// `shop/dev` or `shop/dev/pr-1`: as an owner is named.
    pub fn name(&self) -> String {
        let tag = self.tag.as_ref().map(|tag| format!("/{tag}")).unwrap_or_default();
        format!("{}/{}{tag}", self.application, self.environment)
    }

    /// `app shop, environment dev, tag pr-1`.
    pub fn describe(&self) -> String {
        let tag = self.tag.as_ref().map(|tag| format!(", tag {tag}")).unwrap_or_default();
        format!("app {}, environment {}{tag}", self.application, self.environment)
    }
}

fn check_label_value(part: &str, value: &str) -> Result<()> {
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    let bytes = value.as_bytes();
    if bytes.len() > 63 {
        let message = format!("{part} has {} characters, and a label value at most 63", bytes.len());
        return Err(Error::invalid(message).hint("the API server would refuse every list call; shorten it"));
    }
    if edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(inner) {
        return Ok(());
    }
    let message = format!("{part} {value:?} cannot be a label value");
    Err(Error::invalid(message).hint("use letters, digits, '-', '_' and '.', and begin and end with a letter or digit"))
}

/// Where the collector looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QbecScope {
    /// Namespaces, in order; the default namespace is always one of them.
    pub namespaces: BTreeSet<Arc<str>>,
    /// Whether cluster-scoped kinds are listed.
    pub cluster: bool,
    /// Whether namespaced kinds are listed over all namespaces at once.
    pub everywhere: bool,
}

impl QbecScope {
    /// The scope of all manifests, whatever the filters. A kind the cluster does not serve adds nothing.
    pub fn of(
        locals: &[LocalManifest],
        default_namespace: &Arc<str>,
        cluster_scoped_lists: bool,
        kinds: &Kinds<'_>,
    ) -> Self {
        let mut namespaces = BTreeSet::from([default_namespace.clone()]);
        let mut cluster = false;
        for local in locals {
            match kinds.serves(local) {
                Some(true) if local.id.namespace.is_empty() => {}
                Some(true) => drop(namespaces.insert(local.id.namespace.clone())),
                Some(false) => cluster = true,
                None => {}
            }
        }
        let everywhere = cluster_scoped_lists && namespaces.len() > 1;
        Self { namespaces, cluster, everywhere }
    }

    /// Why the collector never sees an object, or `None` when it does.
    pub fn misses(&self, object: &ObjectMetadata) -> Option<String> {
        let namespace = &object.id.namespace;
        if namespace.is_empty() {
            return (!self.cluster).then(|| "no manifest is cluster-scoped any more: missed by qbec".to_owned());
        }
        let seen = self.everywhere || self.namespaces.contains(namespace);
        (!seen).then(|| format!("namespace {namespace} is in no manifest any more: missed by qbec"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn names_that_cannot_be_label_values_are_refused_before_anything_is_sent() {
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
