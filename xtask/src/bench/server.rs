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
        let sum = |name: &str| {
            let of_lists = metrics.lines().filter(|line| line.starts_with(name) && line.contains("verb=\"LIST\""));
            let values = of_lists.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
            values.sum::<f64>() as u64
        };
        Ok(Self { lists: sum("apiserver_request_total{"), bytes: sum("apiserver_response_sizes_sum{") })
    }

    /// Returns the difference to `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self { lists: self.lists - earlier.lists, bytes: self.bytes - earlier.bytes }
    }
}
