//! Connection settings: flags, kubeconfig, service account, proxy and credential plugin, resolved as kubectl does.

pub mod args;
mod client;
pub(crate) mod connect;
pub(crate) mod environment;
mod exec_plugin;
mod in_cluster;
pub(crate) mod kubeconfig;
mod overrides;
mod plugin_policy;
pub(crate) mod proxy;
