//! The HTTP client of `kube::Client`.
//!
//! kube's own client leaves Nagle's algorithm on: the first request of a connection then waits for the acknowledgement of
//! the TLS handshake, which the server delays by 40 ms. A snapshot opens connections in three steps, so it would wait
//! three times.

use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt};
use kube::{Config, Result};
use tower::{BoxError, ServiceBuilder};
use tower_http::decompression::DecompressionLayer;

/// Returns a client for the server of `config`, with a connect timeout as the only timeout and without retries. Behind a
/// proxy it is kube's own client.
pub(crate) fn build(config: Config) -> Result<kube::Client> {
    if config.proxy_url.is_some() {
        return Ok(ClientBuilder::try_from(config)?.build());
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(tcp)?);
    connector.set_connect_timeout(config.connect_timeout);
    let decompression = DecompressionLayer::new().no_br().no_deflate().no_zstd().gzip(!config.disable_compression);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .layer(decompression)
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(Client::builder(TokioExecutor::new()).build::<_, Body>(connector));
    Ok(ClientBuilder::new(service, config.default_namespace).build())
}
