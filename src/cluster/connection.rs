//! [`Cluster`], a connection to one API server as one user: sends requests, and returns bytes or a [`Failure`].

use std::sync::Arc;
use std::time::Duration;

use ::http::{HeaderValue, Request, header};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::config::args::ConnectionArgs;
use super::config::connect;
use super::config::environment::Environment;
use super::http::failure::Failure;
use super::http::limits;
use super::http::retry::Retries;
use super::http::warnings::{WarningFilter, Warnings};
use crate::error::Result;

/// Maximum number of concurrent requests, each on its own HTTP/1.1 connection: enough to hide the latency of a remote
/// server, within its limits for one user.
const IN_FLIGHT: usize = 32;

/// Maximum on loopback, where there is no latency and TLS handshakes compete for the CPU: 13,000 objects took 0.74 s with
/// 6, 0.77 s with 8, and 1.2 s with 12, 16 or 32 (medians of 8 runs on the cluster of `cargo xtask bench`).
const IN_FLIGHT_ON_LOOPBACK: usize = 8;

/// A connection to one API server as one user. Clones share the connection.
#[derive(Clone)]
pub struct Cluster {
    pub(super) client: kube::Client,
    /// URL of the API server.
    pub server: String,
    /// Namespace to act in: `-n`, or the context's, or `default`.
    pub namespace: String,
    pub namespace_given: bool,
    /// Name of the kubeconfig's context; empty without one.
    pub context: String,
    /// SHA-256 of the certificate authority; empty if those of the system are used.
    pub certificate_authority: String,
    /// Time limit of one request including its retries.
    request_timeout: Option<Duration>,
    /// Maximum size of one answer, in bytes.
    answer_limit: usize,
    /// Host and port, and the proxy if there is one, for messages.
    pub(super) host: String,
    in_flight: Arc<Semaphore>,
    warnings: Arc<Warnings>,
    /// Warnings that are kept of the answers.
    warning_filter: WarningFilter,
    /// Names of objects in addresses are not written to the log and to messages.
    hides_names: bool,
    /// The credentials impersonate another user, by --as or the kubeconfig.
    pub(crate) impersonates: bool,
    /// User to impersonate in every request.
    acting_as: Option<String>,
}

/// A response with status 200 to 299.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub code: u16,
    /// The `Content-Type` header; empty if absent.
    pub content_type: String,
    pub body: Bytes,
}

impl Cluster {
    /// Finds the API server and the credentials as kubectl does. Sends nothing to the API server.
    ///
    /// Fails as kubectl does: if there is no kubeconfig, if the context, cluster or user is unknown, if certificates cannot
    /// be read, or if a credential plugin fails.
    pub async fn connect(args: &ConnectionArgs) -> Result<Self> {
        Self::connect_in(args, &Environment::process()).await
    }

    /// Connects as [`Cluster::connect`], in the given environment.
    pub async fn connect_in(args: &ConnectionArgs, environment: &Environment) -> Result<Self> {
        let prepared = connect::prepare(args, environment).await?;
        Ok(Self {
            client: prepared.client,
            server: prepared.server,
            namespace: prepared.namespace,
            namespace_given: prepared.namespace_given,
            context: prepared.context,
            certificate_authority: prepared.certificate_authority,
            request_timeout: args.request_timeout(),
            answer_limit: limits::MAX_ANSWER,
            host: prepared.host,
            in_flight: Arc::new(Semaphore::new(if prepared.on_loopback { IN_FLIGHT_ON_LOOPBACK } else { IN_FLIGHT })),
            warnings: Arc::default(),
            warning_filter: WarningFilter::All,
            hides_names: false,
            impersonates: prepared.impersonates,
            acting_as: None,
        })
    }

    /// Returns the cluster that an existing client is connected to. `server` names it in messages and plans.
    pub fn with_client(client: kube::Client, server: &str) -> Self {
        Self {
            namespace: client.default_namespace().to_owned(),
            client,
            server: server.to_owned(),
            namespace_given: false,
            context: String::new(),
            certificate_authority: String::new(),
            request_timeout: None,
            answer_limit: limits::MAX_ANSWER,
            host: server.to_owned(),
            in_flight: Arc::new(Semaphore::new(IN_FLIGHT)),
            warnings: Arc::default(),
            warning_filter: WarningFilter::All,
            hides_names: false,
            impersonates: false,
            acting_as: None,
        }
    }

    /// Sends a GET with `accept` as the Accept header. Fails as [`Cluster::send`].
    pub async fn get(&self, path_and_query: &str, accept: &str) -> Result<Response, Failure> {
        let request = Request::get(path_and_query).header(header::ACCEPT, accept).body(vec![]);
        self.send(request.map_err(Failure::of_request)?).await
    }

    /// Sends a request whose URI is a path and query. The request timeout includes retries, but not the wait for one of the
    /// concurrent requests to end.
    ///
    /// Fails on statuses other than 2xx, and without an answer in time. After [`super::FailureKind::Timeout`] or
    /// [`super::FailureKind::Unreachable`] a change may still have taken effect.
    pub async fn send(&self, request: Request<Vec<u8>>) -> Result<Response, Failure> {
        let _permit = self.in_flight.acquire().await.map_err(Failure::of_request)?;
        let deadline = self.request_timeout.map(|limit| (limit, Instant::now() + limit));
        let mut retries = Retries::new(request.method(), deadline.map(|(_, end)| end));
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

    /// Sends a request once. Fails as [`Cluster::send`].
    pub(crate) async fn send_without_retry(&self, request: Request<Vec<u8>>) -> Result<Response, Failure> {
        let _permit = self.in_flight.acquire().await.map_err(Failure::of_request)?;
        self.send_once(request, self.request_timeout.map(|limit| (limit, Instant::now() + limit))).await
    }

    /// Returns the same connection with a time limit of each request that is at most `limit`.
    pub(crate) fn with_request_timeout(&self, limit: Duration) -> Self {
        let request_timeout = Some(self.request_timeout.map_or(limit, |own| own.min(limit)));
        Self { request_timeout, ..self.clone() }
    }

    /// Returns the same connection with a limit on the size of each answer.
    pub(super) fn with_answer_limit(&self, answer_limit: usize) -> Self {
        Self { answer_limit, ..self.clone() }
    }

    /// Returns the same connection for requests about types that the user did not choose: it leaves out the warnings that a
    /// type is deprecated.
    pub(crate) fn without_deprecations(&self) -> Self {
        Self { warning_filter: WarningFilter::NoDeprecations, ..self.clone() }
    }

    /// Returns the same connection for requests about objects with values of Secrets, which warnings can quote.
    pub(crate) fn without_warnings(&self) -> Self {
        Self { warning_filter: WarningFilter::Nothing, ..self.clone() }
    }

    /// Returns the same connection for requests about objects whose names can derive from a Secret.
    pub(crate) fn without_names(&self) -> Self {
        Self { hides_names: true, ..self.clone() }
    }

    /// Returns the same connection as another user. The API server refuses every request if the user may not impersonate.
    pub(crate) fn impersonating(&self, user: &str) -> Self {
        Self { acting_as: Some(user.to_owned()), ..self.clone() }
    }

    async fn send_once(
        &self,
        request: Request<Vec<u8>>,
        deadline: Option<(Duration, Instant)>,
    ) -> Result<Response, Failure> {
        let exchange = self.exchange(request);
        match deadline {
            None => exchange.await,
            Some((limit, end)) => tokio::time::timeout_at(end, exchange)
                .await
                .unwrap_or_else(|_| Err(Failure::of_timeout(&self.host, limit))),
        }
    }

    async fn exchange(&self, mut request: Request<Vec<u8>>) -> Result<Response, Failure> {
        if let Some(user) = &self.acting_as {
            let user = HeaderValue::from_str(user).map_err(Failure::of_request)?;
            request.headers_mut().insert("impersonate-user", user);
        }
        let takes_any_content = request.headers().get(header::ACCEPT).is_some_and(|accept| accept == "*/*");
        let (method, uri) = (request.method(), request.uri());
        let path = if self.hides_names { unnamed(uri.path()) } else { uri.path().to_owned() };
        let place = if self.hides_names { path.clone() } else { uri.to_string() };
        let asked = format!("{method} {path}");
        let (started, line) = (Instant::now(), format!("{method} {}{place}", self.server));
        let send = self.client.send(request.map(kube::client::Body::from));
        let answer = self.in_time(send).await?.map_err(|error| Failure::of_transport(&self.host, &error))?;
        let (parts, body) = answer.into_parts();
        self.warnings.add(&parts.headers, self.warning_filter);
        let body = self.read_body(body).await?;
        tracing::debug!("{line}: {} in {} ms, {} bytes", parts.status, started.elapsed().as_millis(), body.len());
        if !parts.status.is_success() {
            return Err(Failure::of_answer(parts.status, &parts.headers, &body));
        }
        if let Some(failure) = Failure::of_foreign_content(&self.host, &asked, &body).filter(|_| !takes_any_content) {
            return Err(failure);
        }
        let content_type = parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        Ok(Response { code: parts.status.as_u16(), content_type: content_type.unwrap_or_default().to_owned(), body })
    }

    /// Reads the body of an answer. Fails if it is too large, or the server stops sending it.
    async fn read_body(&self, mut body: kube::client::Body) -> Result<Bytes, Failure> {
        let mut content = BytesMut::new();
        while let Some(frame) = self.in_time(body.frame()).await? {
            let received = frame.map_err(|error| Failure::of_transport(&self.host, &error))?;
            let Ok(data) = received.into_data() else { continue };
            if content.len() + data.len() > self.answer_limit {
                let limit = self.answer_limit >> 20;
                return Err(Failure::unreadable(format!("it has more than {limit} MiB, the limit for one answer")));
            }
            content.extend_from_slice(&data);
        }
        Ok(content.freeze())
    }

    /// Waits for the next part of an answer.
    async fn in_time<T>(&self, part: impl Future<Output = T>) -> Result<T, Failure> {
        let limit = limits::MAX_SILENCE;
        tokio::time::timeout(limit, part).await.map_err(|_| Failure::of_timeout(&self.host, limit))
    }

    /// Returns the server's warnings since the last call, without duplicates. Untrusted: escape them before printing.
    pub fn take_warnings(&self) -> Vec<String> {
        self.warnings.take()
    }
}

/// Returns the path of a request with `*` in place of each name, such as `/api/v1/namespaces/*/secrets/*`.
fn unnamed(path: &str) -> String {
    // A group has a version behind it.
    let before = if path.starts_with("/apis/") { 4 } else { 3 };
    let segments = path.split('/').enumerate();
    let shown = segments.map(|(at, segment)| if at > before && (at - before) % 2 == 1 { "*" } else { segment });
    shown.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_without_names_tell_what_was_asked_for() {
        let rows = [
            ("/api/v1/namespaces/shop/secrets/db", "/api/v1/namespaces/*/secrets/*"),
            ("/api/v1/namespaces/shop/secrets", "/api/v1/namespaces/*/secrets"),
            ("/apis/apps/v1/namespaces/shop/statefulsets/db", "/apis/apps/v1/namespaces/*/statefulsets/*"),
            ("/apis/a.io/v1/widgets/db", "/apis/a.io/v1/widgets/*"),
            ("/version", "/version"),
        ];
        for (path, expected) in rows {
            assert_eq!(unnamed(path), expected);
        }
    }
}
