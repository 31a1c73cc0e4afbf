//! Fills a cluster with CRDs, namespaces, owners and objects.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::curl::{Curl, Transfer};
use super::objects::{self, NAMESPACES, post};
use crate::cluster::Cluster;
use crate::say;

/// Number of CRDs in the cluster, including those of Flux.
const CRDS: usize = 100;

/// A cluster, and the number of objects in it.
pub(crate) struct SeededCluster {
    pub cluster: Cluster,
    pub curl: Curl,
    custom_types: usize,
    objects: usize,
    inventories: Vec<Vec<Value>>,
}

impl SeededCluster {
    /// Creates the CRDs, the namespaces and the owners with empty inventories.
    pub(crate) fn prepare(cluster: Cluster) -> Result<Self> {
        // It would disturb the measurements, and the objects that it creates differ from run to run.
        cluster.stop("kube-controller-manager")?;
        let curl = Curl::new(&cluster)?;
        let present = cluster.kubectl(&["get", "crd", "--output=name"])?.lines().count();
        let custom_types = CRDS.checked_sub(present).context("the cluster has too many CRDs")?;
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned();
        let crds = (0..custom_types).map(|number| post(crds.clone(), objects::crd(number).to_string()));
        let namespaces = (0..NAMESPACES).map(|number| {
            let object = json!({"metadata": {"name": format!("team-{number:02}"), "labels": {"team": "shop"}}});
            post("/api/v1/namespaces".to_owned(), object.to_string())
        });
        let owners = (0..NAMESPACES).map(objects::kustomization_transfer);
        curl.send(&crds.chain(namespaces).chain(owners).collect::<Vec<_>>())?;
        cluster.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"])?;
        cluster.wait_for("the custom types to be served", Duration::from_secs(60), || {
            let served = cluster.kubectl(&["get", "--raw=/apis"])?;
            let last = objects::crd(custom_types - 1)["spec"]["group"].as_str().unwrap_or_default().to_owned();
            Ok(served.contains(&last))
        })?;
        Ok(Self { cluster, curl, custom_types, objects: 0, inventories: vec![vec![]; NAMESPACES] })
    }

    /// Adds objects until there are `objects`, and writes the inventories of the owners.
    pub(crate) fn fill(&mut self, objects: usize) -> Result<()> {
        let start = Instant::now();
        let seeds: Vec<_> = (self.objects..objects).map(|number| objects::seed(number, self.custom_types)).collect();
        for part in seeds.chunks(10_000) {
            self.curl.send(&part.iter().map(objects::Seed::transfer).collect::<Vec<Transfer>>())?;
        }
        for (owner, entry) in seeds.iter().filter_map(objects::Seed::inventory_entry) {
            self.inventories[owner].push(entry);
        }
        let inventories = self.inventories.iter().enumerate();
        let records: Vec<_> = inventories.map(|(owner, entries)| objects::inventory_transfer(owner, entries)).collect();
        self.curl.send(&records)?;
        say(format!("{} objects created in {:.1?}", seeds.len(), start.elapsed()));
        self.objects = objects;
        Ok(())
    }
}
