//! Target of a Helm release: the namespaces, the name and the chart that identify it. If one of them changes,
//! helm-controller uninstalls the release and installs another one.
//!
//! Source: helm-controller v1.6.3 `internal/action/verify.go`, `ReleaseTargetChanged`.

use std::fmt;

use serde_json::Value;

use crate::kubernetes::object::{ObjectId, text_at};
use crate::ownership::schemes::flux_helmrelease::release_record;

/// Fields by which helm-controller identifies a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReleaseTarget {
    /// Namespace of Helm's records of the release.
    pub storage_namespace: String,
    /// Namespace of the release.
    pub namespace: String,
    /// Name of the release, shortened as in Helm's records.
    pub name: String,
    /// Name in the metadata of the chart; `None` if it is not known or must not be compared.
    pub chart: Option<String>,
}

/// The part of a target that changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TargetPart {
    StorageNamespace,
    Namespace,
    Name,
    Chart,
}

impl ReleaseTarget {
    /// Returns the target of a HelmRelease with this spec.
    pub(crate) fn of_spec(id: &ObjectId, spec: &Value, chart: Option<String>) -> Self {
        let (name, storage_namespace) = release_record(id, spec);
        let namespace = match text_at(spec, "/targetNamespace") {
            "" => id.namespace.to_string(),
            target => target.to_owned(),
        };
        Self { storage_namespace, namespace, name, chart }
    }

    /// Returns the target of the release that the status of a HelmRelease records; `None` without a release.
    pub(crate) fn recorded(content: &Value) -> Option<Self> {
        let storage_namespace = text_at(content, "/status/storageNamespace").to_owned();
        let latest = content.pointer("/status/history/0").filter(|_| !storage_namespace.is_empty())?;
        let [namespace, name, chart] =
            ["/namespace", "/name", "/chartName"].map(|pointer| text_at(latest, pointer).to_owned());
        Some(Self { storage_namespace, namespace, name, chart: Some(chart) })
    }

    /// Returns the Secret in which Helm records a revision.
    pub(crate) fn record(&self, revision: i64) -> ObjectId {
        let name = format!("sh.helm.release.v1.{}.v{revision}", self.name);
        ObjectId::new("", "Secret", &self.storage_namespace, &name)
    }

    /// Returns the first part that differs in a new target, in the order in which helm-controller compares.
    pub(crate) fn change_to(&self, new: &Self) -> Option<TargetPart> {
        let chart_differs = new.chart.as_ref().is_some_and(|chart| self.chart.as_ref() != Some(chart));
        let parts = [
            (self.storage_namespace != new.storage_namespace, TargetPart::StorageNamespace),
            (self.namespace != new.namespace, TargetPart::Namespace),
            (self.name != new.name, TargetPart::Name),
            (chart_differs, TargetPart::Chart),
        ];
        parts.into_iter().find(|(differs, _)| *differs).map(|(_, part)| part)
    }
}

impl fmt::Display for TargetPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::StorageNamespace => "storage namespace",
            Self::Namespace => "target namespace",
            Self::Name => "release name",
            Self::Chart => "chart",
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_part_of_a_target_is_compared_with_the_record() {
        let id = ObjectId::new("helm.toolkit.fluxcd.io", "HelmRelease", "apps", "web");
        let latest = json!({"name": "web", "namespace": "apps", "chartName": "nginx"});
        let status = json!({"status": {"storageNamespace": "apps", "history": [latest]}});
        let recorded = ReleaseTarget::recorded(&status).unwrap();
        let rows = [
            (json!({}), None, None),
            (json!({"releaseName": "web", "targetNamespace": "apps", "storageNamespace": "apps"}), None, None),
            (json!({"releaseName": "other"}), None, Some(TargetPart::Name)),
            (json!({"targetNamespace": "shop"}), None, Some(TargetPart::Namespace)),
            (json!({"targetNamespace": "shop", "releaseName": "web"}), None, Some(TargetPart::Namespace)),
            (json!({"storageNamespace": "flux-system"}), None, Some(TargetPart::StorageNamespace)),
            (json!({}), Some("nginx"), None),
            (json!({}), Some("apache"), Some(TargetPart::Chart)),
        ];
        for (spec, chart, expected) in rows {
            let new = ReleaseTarget::of_spec(&id, &spec, chart.map(str::to_owned));
            assert_eq!(recorded.change_to(&new), expected, "{spec} {chart:?}");
        }
    }

    #[test]
    fn without_a_release_there_is_no_target() {
        assert_eq!(ReleaseTarget::recorded(&json!({"status": {"storageNamespace": "apps"}})), None);
        assert_eq!(ReleaseTarget::recorded(&json!({"status": {"history": [{"name": "web"}]}})), None);
    }
}
