//! What the API server counted itself: requests and bytes, whoever the client was and whatever it says of itself.

use anyhow::Result;

use crate::cluster::Cluster;

/// Lists and what they answered, since the server started or between two readings.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    /// List requests.
    pub lists: u64,
    /// Bytes of their bodies as they were sent, after compression.
    pub bytes: u64,
}

impl Traffic {
    /// The counters now.
    pub(crate) fn read(cluster: &Cluster) -> Result<Self> {
        let metrics = cluster.kubectl(&["get", "--raw=/metrics"])?;
        let sum = |name: &str| {
            let of_lists = metrics.lines().filter(|line| line.starts_with(name) && line.contains("verb=\"LIST\""));
            let values = of_lists.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
            values.sum::<f64>() as u64
        };
        Ok(Self { lists: sum("apiserver_request_total{"), bytes: sum("apiserver_response_sizes_sum{") })
    }

    /// What was added since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self { lists: self.lists - earlier.lists, bytes: self.bytes - earlier.bytes }
    }
}
