//! The API server: the only place that knows `kube::Client`.
//!
//! A [`Cluster`] sends single requests and gives back bytes or a [`Failure`]; what the bytes mean is the business of the
//! modules beside this one.

pub mod config;
pub mod http;
pub mod read;
pub mod write;

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::http::{HeaderValue, Method, Request, header};
use bytes::Bytes;
use http_body_util::BodyExt;
use tokio::sync::Semaphore;

use crate::error::Result;
use config::args::ConnectionArgs;

pub use config::environment::Environment;
pub use http::failure::{Failure, FailureKind};
pub use read::list::{Listing, Query};
pub use read::resources::Discovered;
pub use read::watch::WatchedChange;
pub use write::execute::{Execution, Reevaluate};
pub use write::patch::{DryRun, PatchResult};

/// How many requests may be in flight at once. Each is a connection of its own (HTTP/1.1): enough of them to fill the
/// wait for a server that is far away, and no more than its limits on one user's requests bear.
const IN_FLIGHT: usize = 32;

/// The same on loopback, where there is no wait to fill and every TLS handshake takes from what both ends share: 13,000
/// objects took 0.74 s with 6, 0.77 s with 8, 1.2 s with 12, 16 or 32 (medians of 8 runs in turn,
/// on the cluster of `cargo xtask bench`).
const IN_FLIGHT_ON_LOOPBACK: usize = 8;

/// A connection to one API server as one user. Clones share everything.
#[derive(Clone)]
pub struct Cluster {
    client: kube::Client,
    /// URL of the API server.
    pub server: String,
    /// The namespace to act in: `-n`, or the context's, or `default`.
    pub namespace: String,
    /// Whether `-n` was given.
    pub namespace_given: bool,
    /// The limit of one request, its retries included.
    request_timeout: Option<Duration>,
    /// The server as messages name it: host and port, and the proxy where there is one.
    host: String,
    in_flight: Arc<Semaphore>,
    warnings: Arc<http::warnings::Warnings>,
}

/// A successful answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// HTTP status code, 200 to 299.
    pub code: u16,
    /// The `Content-Type` header; empty when there was none.
    pub content_type: String,
    /// The decompressed body.
    pub body: Bytes,
}

impl Cluster {
    /// Finds the API server and the credentials as kubectl would, and prepares a client. Sends nothing to the API server.
    ///
    /// # Errors
    /// Everything that kubectl rejects: no kubeconfig, an unknown context, cluster or user, unreadable certificates, a
    /// credential plugin that fails.
    pub async fn connect(args: &ConnectionArgs) -> Result<Self> {
        Self::connect_in(args, &Environment::process()).await
    }

    /// [`Cluster::connect`] in the surroundings given.
    ///
    /// # Errors
    /// As [`Cluster::connect`].
    pub async fn connect_in(args: &ConnectionArgs, environment: &Environment) -> Result<Self> {
        let prepared = config::connect::prepare(args, environment).await?;
        Ok(Self {
            client: prepared.client,
            server: prepared.server,
            namespace: prepared.namespace,
            namespace_given: prepared.namespace_given,
            request_timeout: args.request_timeout(),
            host: prepared.host,
            in_flight: Arc::new(Semaphore::new(if prepared.on_loopback { IN_FLIGHT_ON_LOOPBACK } else { IN_FLIGHT })),
            warnings: Arc::default(),
        })
    }

    /// Sends a GET. `accept` is taken as it is: nothing is added to it.
    ///
    /// # Errors
    /// Any answer other than 2xx, and no answer in time.
    pub async fn get(&self, path_and_query: &str, accept: &str) -> Result<Response, Failure> {
        let request = Request::get(path_and_query).header(header::ACCEPT, accept).body(vec![]);
        self.send(request.map_err(Failure::of_request)?).await
    }

    /// Sends a request whose URI is a path and query. The request timeout bounds the whole call, retries included, but
    /// not the wait for a free place among the requests in flight.
    ///
    /// # Errors
    /// Any answer other than 2xx, and no answer in time. Then a change may have taken effect all the same: see
    /// [`FailureKind::Timeout`] and [`FailureKind::Unreachable`].
    pub async fn send(&self, request: Request<Vec<u8>>) -> Result<Response, Failure> {
        let _place = self.in_flight.acquire().await.map_err(Failure::of_request)?;
        let deadline = self.request_timeout.map(|limit| (limit, Instant::now() + limit));
        let mut retries = http::retry::Retries::new(request.method(), deadline.map(|(_, end)| end));
        loop {
            let failure = match self.send_once(request.clone(), deadline).await {
                Ok(response) => return Ok(response),
                Err(failure) => failure,
            };
            match retries.wait_before_next(&failure, Instant::now()) {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return Err(failure),
            }
        }
    }

    async fn send_once(
        &self,
        request: Request<Vec<u8>>,
        deadline: Option<(Duration, Instant)>,
    ) -> Result<Response, Failure> {
        let exchange = self.exchange(request);
        let Some((limit, end)) = deadline else {
            return exchange.await;
        };
        let in_time = tokio::time::timeout_at(end.into(), exchange).await;
        in_time.unwrap_or_else(|_| Err(Failure::of_timeout(&self.host, limit)))
    }

    async fn exchange(&self, request: Request<Vec<u8>>) -> Result<Response, Failure> {
        let broken = |error: kube::Error| Failure::of_transport(&self.host, &error);
        let (started, line) = (Instant::now(), format!("{} {}{}", request.method(), self.server, request.uri()));
        let answer = self.client.send(request.map(kube::client::Body::from)).await.map_err(broken)?;
        let (parts, body) = answer.into_parts();
        self.warnings.note(&parts.headers);
        let body = body.collect().await.map_err(broken)?.to_bytes();
        tracing::debug!("{line}: {} in {} ms, {} bytes", parts.status, started.elapsed().as_millis(), body.len());
        if !parts.status.is_success() {
            return Err(Failure::of_answer(parts.status, &parts.headers, &body));
        }
        let content_type = parts.headers.get(header::CONTENT_TYPE).map(HeaderValue::to_str);
        let content_type = content_type.and_then(std::result::Result::ok).unwrap_or_default().to_owned();
        Ok(Response { code: parts.status.as_u16(), content_type, body })
    }

    /// The server's warnings since the last call, each once per connection, in the order they came. Text written by
    /// others: escape it before it reaches a terminal.
    pub fn take_warnings(&self) -> Vec<String> {
        self.warnings.take()
    }
}

/// Whether sending a request twice is the same as sending it once (RFC 9110 9.2.2). Our deletes are pinned to a uid.
fn is_idempotent(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::PUT | Method::DELETE)
}
