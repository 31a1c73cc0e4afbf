//! Objects of a cluster that a computation reads with their content.

use std::sync::Arc;

use serde_json::Value;

use crate::kubernetes::object::{GroupKind, ObjectId};

/// An object, or all objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectQuery {
    /// `VERSION` or `GROUP/VERSION`.
    pub api_version: String,
    pub kind: String,
    /// Namespace; empty for cluster-scoped objects, and for those of all namespaces.
    pub namespace: String,
    /// Name; empty for all objects.
    pub name: String,
}

/// A query in one of the clusters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterQuery {
    /// Name of the cluster; `None` for the one that is planned on.
    pub cluster: Option<Arc<str>>,
    pub query: ObjectQuery,
}

/// Answer to a query.
#[derive(Clone, Debug, PartialEq)]
pub enum QueryAnswer {
    /// The object, or the list.
    Found(Value),
    Missing,
    /// It could not be read; the reason.
    Unreadable(String),
}

impl ObjectQuery {
    /// Returns true if the answer is a Secret, or several.
    pub(crate) fn is_of_secrets(&self) -> bool {
        let (group, _) = self.group_and_version();
        group.is_empty() && self.kind == "Secret"
    }

    /// Returns the four parts, in the order of a lookup in a template.
    pub(crate) fn words(&self) -> [&str; 4] {
        [&self.api_version, &self.kind, &self.namespace, &self.name]
    }

    pub fn group_and_version(&self) -> (&str, &str) {
        self.api_version.split_once('/').unwrap_or(("", &self.api_version))
    }

    pub fn group_kind(&self) -> GroupKind {
        GroupKind::new(self.group_and_version().0, &self.kind)
    }

    /// Returns the identity of the object, or of a list the one without a name.
    pub(crate) fn id(&self, is_namespaced: bool) -> ObjectId {
        let namespace = if is_namespaced { &*self.namespace } else { "" };
        ObjectId::new(self.group_and_version().0, &self.kind, namespace, &self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_one_however_its_version_is_written() {
        for (api_version, kind, expected) in [
            ("v1", "Secret", true),
            ("/v1", "Secret", true),
            ("v2", "Secret", true),
            ("e.com/v1", "Secret", false),
            ("v1", "ConfigMap", false),
        ] {
            let [api_version, kind, namespace, name] = [api_version, kind, "shop", "a"].map(str::to_owned);
            let query = ObjectQuery { api_version, kind, namespace, name };
            assert_eq!(query.is_of_secrets(), expected, "{query:?}");
        }
    }
}
