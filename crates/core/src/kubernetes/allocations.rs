//! Ports and addresses of Services, each of which only one Service can have.
//!
//! Source: Kubernetes v1.36.3 `pkg/registry/core/service/storage/alloc.go`: one allocator has the node ports of all
//! protocols and the ports for health checks.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use serde_json::Value;

use super::object::{list_at, text_at};

/// Node ports of an API server without the flag `--service-node-port-range`.
const USUAL_PORTS: RangeInclusive<i64> = 30_000..=32_767;

/// A port or an address that only one Service can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Allocation {
    /// Node port, or port for health checks.
    Port(i64),
    Address(IpAddr),
}

impl Allocation {
    /// Returns true if a dry-run shows that another Service has it. Kubernetes v1.36.3
    /// `pkg/registry/core/service/ipallocator` does not look for an address in a dry-run.
    pub(crate) fn is_found_by_dry_runs(self) -> bool {
        matches!(self, Self::Port(_))
    }

    /// Returns true if a Service asks for it as a node port, and not only for its health checks.
    pub(crate) fn is_node_port_of(self, service: &Value) -> bool {
        let Self::Port(own) = self else { return false };
        list_at(service, "/spec/ports").iter().any(|port| port["nodePort"] == own)
    }

    /// Returns true for a port that an API server has only if a flag says so, which a dry-run does not look at.
    pub(crate) fn is_unusual(self) -> bool {
        matches!(self, Self::Port(port) if !USUAL_PORTS.contains(&port))
    }
}

impl fmt::Display for Allocation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(port) => write!(formatter, "the node port {port}"),
            Self::Address(address) => write!(formatter, "the address {address}"),
        }
    }
}

/// Returns what a Service has, or what its manifest asks for.
pub(crate) fn allocations(service: &Value) -> BTreeSet<Allocation> {
    let node_ports = list_at(service, "/spec/ports").iter().filter_map(|port| port.get("nodePort"));
    let ports = node_ports.chain(service.pointer("/spec/healthCheckNodePort")).filter_map(Value::as_i64);
    let addresses = list_at(service, "/spec/clusterIPs").iter().chain(service.pointer("/spec/clusterIP"));
    let parsed = addresses.filter_map(|address| address.as_str()?.parse().ok());
    ports.filter(|port| *port > 0).map(Allocation::Port).chain(parsed.map(Allocation::Address)).collect()
}

/// Returns true if a live Service keeps a port that its manifest does not name.
pub(crate) fn keeps_ports(manifest: &Value) -> bool {
    let kind = text_at(manifest, "/spec/type");
    let has_node_ports = matches!(kind, "NodePort" | "LoadBalancer");
    let is_checked = kind == "LoadBalancer" && text_at(manifest, "/spec/externalTrafficPolicy") == "Local";
    (has_node_ports && list_at(manifest, "/spec/ports").iter().any(|port| port.get("nodePort").is_none()))
        || (is_checked && manifest.pointer("/spec/healthCheckNodePort").is_none())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_service_has_ports_of_two_kinds_and_addresses() {
        let service = json!({"spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "clusterIP": "10.0.0.1",
            "clusterIPs": ["10.0.0.1", "fd00::1"], "healthCheckNodePort": 31000,
            "ports": [{"port": 80, "nodePort": 30000}, {"port": 81, "nodePort": 0}, {"port": 82}]}});
        let shown: Vec<String> = allocations(&service).iter().map(ToString::to_string).collect();
        let address = |text: &str| format!("the address {text}");
        let ports = ["the node port 30000", "the node port 31000"].map(str::to_owned);
        assert_eq!(shown, [&ports[..], &[address("10.0.0.1"), address("fd00::1")]].concat());
        assert!(allocations(&json!({"spec": {"clusterIP": "None"}})).is_empty());
        assert!(keeps_ports(&service), "its port 82 has a node port that it does not name");
        assert!(!keeps_ports(&json!({"spec": {"ports": [{"port": 82}]}})));
    }
}
