//! Reads of a whole cluster that scenarios share: most of the load of many scenarios would be reads of the same objects.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::Result;
use serde_json::Value;

use crate::cluster::Cluster;

/// Types of the objects of scenarios, except custom resources.
const TYPES: &str = "namespaces,configmaps,secrets,serviceaccounts,services,pods,deployments.apps,replicasets.apps,\
    clusterroles,roles.rbac.authorization.k8s.io,runtimeclasses,customresourcedefinitions,kustomizations.kustomize.toolkit.fluxcd.io,\
    gitrepositories.source.toolkit.fluxcd.io";

/// Reads one cluster, for one scenario at a time.
#[derive(Debug, Default)]
pub(super) struct Reader(Mutex<Option<(Instant, Arc<Value>)>>);

impl Reader {
    /// Returns all objects, read after this call. Callers that waited for the same read share it.
    pub(super) fn read(&self, cluster: &Cluster) -> Result<Arc<Value>> {
        let called = Instant::now();
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, list)) = last.as_ref().filter(|(started, _)| *started >= called) {
            return Ok(Arc::clone(list));
        }
        let started = Instant::now();
        let list = Arc::new(serde_json::from_str(&cluster.kubectl(&["get", TYPES, "-A", "-o", "json"])?)?);
        *last = Some((started, Arc::clone(&list)));
        Ok(list)
    }
}
