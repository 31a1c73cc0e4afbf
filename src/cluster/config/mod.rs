//! cluster::config.

pub mod args;
pub mod client;
pub mod connect;
pub mod environment;
pub mod exec_plugin;
pub mod in_cluster;
pub mod kubeconfig;
pub mod overrides;
pub mod plugin_policy;
pub mod proxy;
