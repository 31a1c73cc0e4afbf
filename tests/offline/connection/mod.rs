//! Connections to an API server, as kubectl makes them.

#[cfg(unix)]
mod credential_plugin;
mod kubeconfig;
#[cfg(unix)]
pub(crate) mod one_connection;
mod requests;
mod tls;
