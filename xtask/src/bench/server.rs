//! Counters of the API server: requests and bytes of every client.

use anyhow::Result;

use crate::cluster::Cluster;

/// List requests since the server started, or between two reads.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    /// Number of list requests.
    pub lists: u64,
    /// Size of the response bodies after compression.
    pub bytes: u64,
}

impl Traffic {
    /// Reads the current counters.
    pub(crate) fn read(cluster: &Cluster) -> Result<Self> {
        let metrics = cluster.kubectl(&["get", "--raw=/metrics"])?;
        let (lists, bytes) = ("apiserver_request_total{", "apiserver_response_sizes_sum{");
        Ok(Self { lists: sum_of_lists(&metrics, lists), bytes: sum_of_lists(&metrics, bytes) })
    }

    /// Returns the difference to `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self { lists: self.lists - earlier.lists, bytes: self.bytes - earlier.bytes }
    }
}

/// Adds up a metric over all list requests.
fn sum_of_lists(metrics: &str, name: &str) -> u64 {
    let lists = metrics.lines().filter(|line| line.starts_with(name) && line.contains("verb=\"LIST\""));
    let values = lists.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
    values.sum::<f64>() as u64
}
