//! Connections to an API server, as kubectl makes them.

#[cfg(unix)]
mod credential_plugin;
mod kubeconfig;
mod requests;
mod tls;
