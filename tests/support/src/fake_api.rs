//! An API server with prepared answers, for the faults that a real one does not produce on demand: refusals, silence,
//! broken connections, slow answers. Everything else is tested on the real kube-apiserver.
//!
//! ```ignore
//! let api = FakeApi::start();
//! api.on("GET /api", [Answer::status(503, "ServiceUnavailable", "wait"), Answer::json(json!({"kind": "APIVersions"}))]);
//! api.on("/apis/*", [Answer::hang()]);                 // any method, every path that begins with /apis/
//! let path = api.kubeconfig(&folder);                  // context `fake`, namespace `shop`
//! …
//! assert_eq!(api.requests_to("GET /api").len(), 2);
//! assert_eq!(api.requests()[0].header("authorization"), Some("Bearer t"));
//! ```
//!
//! A route is `[METHOD ]PATH`, where PATH may end in `*` and may hold a query (`/api/v1/pods?limit=500*`); without a query
//! it matches any. The route added last is asked first. Its answers are given in turn, the last one again and again. What
//! no route matches is 404, as a real server says it. A CONNECT is answered with 200 and the requests inside the tunnel
//! are served here too, so that the server can stand in for a proxy.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::folder::Folder;

/// A running server; dropped, it closes its connections.
pub struct FakeApi {
    address: SocketAddr,
    state: Arc<State>,
}

/// Text of a warning about a request.
type WarningText = fn(&Recorded) -> String;

#[derive(Default)]
struct State {
    routes: Mutex<Vec<Route>>,
    /// Makes the text of the Warning header of an answer.
    warning: Mutex<Option<WarningText>>,
    requests: Mutex<Vec<Recorded>>,
    connections: Mutex<Vec<TcpStream>>,
    spans: Mutex<Vec<(Recorded, Instant, Instant)>>,
    in_flight: AtomicUsize,
    peak: AtomicUsize,
    stopped: AtomicBool,
}

struct Route {
    pattern: String,
    answers: VecDeque<Answer>,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// `GET`.
    pub method: String,
    /// `/api/v1/pods?limit=500`.
    pub target: String,
    /// Names in lower case, in the order they came.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Recorded {
    /// The first value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Every value of a header.
    pub fn header_values(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str()).collect()
    }

    /// `GET /api`, without the query.
    pub fn line(&self) -> String {
        format!("{} {}", self.method, self.target.split('?').next().unwrap_or_default())
    }
}

/// Answer to one request.
#[derive(Clone, Debug)]
pub struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    delay: Duration,
    then: Then,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    /// The whole answer.
    Answer,
    /// No byte, ever.
    Hang,
    /// The connection is closed without a byte.
    Drop,
    /// The announced length is sent only half, then the connection is closed.
    Cut,
}

impl Answer {
    /// 200 with a JSON body.
    pub fn json(body: Value) -> Self {
        Self::raw(200, "application/json", body.to_string())
    }

    /// A failure as a `Status` object.
    pub fn status(code: u16, reason: &str, message: &str) -> Self {
        Self::failure(code, json!({ "reason": reason, "message": message }))
    }

    /// A failure as a `Status` object with fields of the caller's, such as `details` or `metadata`.
    pub fn failure(code: u16, mut fields: Value) -> Self {
        for (key, value) in [("kind", "Status"), ("apiVersion", "v1"), ("status", "Failure")] {
            fields[key] = value.into();
        }
        fields["code"] = code.into();
        Self::raw(code, "application/json", fields.to_string())
    }

    /// A whole list of a kind, such as `ConfigMap` of `v1`.
    pub fn list(api_version: &str, kind: &str, items: Vec<Value>) -> Self {
        let metadata = json!({"resourceVersion": "1"});
        let kind = format!("{kind}List");
        Self::json(json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "items": items}))
    }

    /// The answer that an object does not exist.
    pub fn missing(name: &str) -> Self {
        Self::failure(404, json!({"reason": "NotFound", "message": "not found", "details": {"name": name}}))
    }

    /// The aggregated discovery of these groups.
    pub fn discovery(groups: Vec<Value>) -> Self {
        let list = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": groups});
        Self::raw(200, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", list.to_string())
    }

    /// Any status, type and body.
    pub fn raw(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("Content-Type".to_owned(), content_type.to_owned())];
        Self { status, headers, body: body.into(), delay: Duration::ZERO, then: Then::Answer }
    }

    /// Takes the request and never answers.
    pub fn hang() -> Self {
        Self { then: Then::Hang, ..Self::raw(200, "", "") }
    }

    /// Takes the request and closes the connection.
    pub fn drop_connection() -> Self {
        Self { then: Then::Drop, ..Self::raw(200, "", "") }
    }

    /// Breaks off in the middle of this answer's body.
    pub fn cut(self) -> Self {
        Self { then: Then::Cut, ..self }
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Returns the JSON of the body.
    pub fn content(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a JSON body")
    }

    /// Waits before answering.
    pub fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// Compresses the body, whatever the client accepts.
    pub fn gzipped(mut self) -> Self {
        let mut encoder = flate2::write::GzEncoder::new(vec![], flate2::Compression::default());
        encoder.write_all(&self.body).expect("compress into memory");
        self.body = encoder.finish().expect("compress into memory");
        self.header("Content-Encoding", "gzip")
    }
}

impl FakeApi {
    /// Starts a server on a free loopback port.
    pub fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("listen on a free loopback port");
        let address = listener.local_addr().expect("the listener's address");
        let state = Arc::<State>::default();
        let shared = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if shared.stopped.load(Ordering::SeqCst) {
                    return;
                }
                let state = shared.clone();
                lock(&state.connections).extend(stream.try_clone());
                // A client that goes away ends its connection; that is no failure of the server.
                thread::spawn(move || _ = serve(stream, &state));
            }
        });
        Self { address, state }
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// `127.0.0.1:PORT`.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// Adds a route; see the module for its form.
    pub fn on(&self, pattern: &str, answers: impl IntoIterator<Item = Answer>) {
        let answers: VecDeque<Answer> = answers.into_iter().collect();
        assert!(!answers.is_empty(), "a route needs an answer");
        lock(&self.state.routes).push(Route { pattern: pattern.to_owned(), answers });
    }

    /// Serves the discovery of these types: apiVersion, kind, plural, and whether an object has a namespace.
    pub fn serve_types(&self, types: &[(&str, &str, &str, bool)]) {
        // Without any group, a client asks as it asks an old server.
        let mut groups = BTreeMap::from([(("", "v1"), vec![]), (("apps", "v1"), vec![])]);
        for (api_version, kind, plural, is_namespaced) in types {
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            groups.entry((group, version)).or_default().push(json!({
                "resource": plural, "singularResource": kind.to_lowercase(), "verbs": ["list", "get", "patch", "delete"],
                "responseKind": {"group": group, "version": version, "kind": kind},
                "scope": if *is_namespaced { "Namespaced" } else { "Cluster" },
            }));
        }
        let [core, others] = [true, false].map(|is_core| {
            let own = groups.iter().filter(|((group, _), _)| group.is_empty() == is_core);
            let items = own.map(|((group, version), resources)| {
                let version = json!({"version": version, "freshness": "Current", "resources": resources});
                json!({"metadata": {"name": group}, "versions": [version]})
            });
            Answer::discovery(items.collect())
        });
        self.on("GET /api", [core]);
        self.on("GET /apis", [others]);
    }

    /// Adds a Warning header to every answer, with the text that `warning` makes of the request.
    pub fn warn(&self, warning: WarningText) {
        *lock(&self.state.warning) = Some(warning);
    }

    /// Returns the next answer of the route with this pattern.
    pub fn answer_to(&self, pattern: &str) -> Answer {
        let routes = lock(&self.state.routes);
        let route = routes.iter().rev().find(|route| route.pattern == pattern).expect("a route");
        route.answers[0].clone()
    }

    /// Every request so far, in the order they came.
    pub fn requests(&self) -> Vec<Recorded> {
        lock(&self.state.requests).clone()
    }

    /// The requests that a pattern matches.
    pub fn requests_to(&self, pattern: &str) -> Vec<Recorded> {
        let mut requests = self.requests();
        requests.retain(|request| matches(pattern, request));
        requests
    }

    /// The largest number of requests that waited for an answer at once.
    pub fn peak(&self) -> usize {
        self.state.peak.load(Ordering::SeqCst)
    }

    /// The same of the requests that a pattern matches and that were answered.
    pub fn peak_of(&self, pattern: &str) -> usize {
        let spans = lock(&self.state.spans);
        let own: Vec<_> = spans.iter().filter(|(request, ..)| matches(pattern, request)).collect();
        let open = |at: Instant| own.iter().filter(|(_, start, end)| *start <= at && at < *end).count();
        own.iter().map(|(_, start, _)| open(*start)).max().unwrap_or_default()
    }

    /// Writes a kubeconfig whose only context `fake`, in namespace `shop`, leads here with the token `t`.
    pub fn kubeconfig(&self, folder: &Folder) -> PathBuf {
        self.kubeconfig_for(folder, "token: t")
    }

    /// The same for another user; `user` is YAML in flow or one-line form, such as `token: t`.
    pub fn kubeconfig_for(&self, folder: &Folder, user: &str) -> PathBuf {
        let config = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: fake\n\
             clusters: [{{name: fake, cluster: {{server: \"{}\"}}}}]\n\
             users: [{{name: fake, user: {{{user}}}}}]\n\
             contexts: [{{name: fake, context: {{cluster: fake, user: fake, namespace: shop}}}}]\n",
            self.url()
        );
        folder.write("kubeconfig", &config)
    }
}

impl Drop for FakeApi {
    fn drop(&mut self) {
        self.state.stopped.store(true, Ordering::SeqCst);
        for connection in lock(&self.state.connections).iter() {
            let _ = connection.shutdown(Shutdown::Both);
        }
        // Wakes the listener so that it sees the end.
        let _ = TcpStream::connect(self.address);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Serves one connection until the client closes it.
fn serve(stream: TcpStream, state: &State) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    while let Some(request) = read_request(&mut reader)? {
        let tunnel = request.method == "CONNECT";
        lock(&state.requests).push(request.clone());
        let answer = if tunnel && !lock(&state.routes).iter().any(|route| matches(&route.pattern, &request)) {
            writer.write_all(b"HTTP/1.1 200 Connected\r\n\r\n")?;
            continue;
        } else {
            choose(state, &request)
        };
        let now = state.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        state.peak.fetch_max(now, Ordering::SeqCst);
        let start = Instant::now();
        thread::sleep(answer.delay);
        // The client may ask anew before this thread goes on: the span ends with the wait, not with the answer.
        lock(&state.spans).push((request, start, Instant::now()));
        let done = respond(&answer, &mut writer, &mut reader);
        state.in_flight.fetch_sub(1, Ordering::SeqCst);
        done?;
        if answer.then != Then::Answer {
            return writer.shutdown(Shutdown::Both);
        }
    }
    Ok(())
}

fn respond(answer: &Answer, writer: &mut TcpStream, reader: &mut impl Read) -> io::Result<()> {
    match answer.then {
        // Until the client gives up, or the server is dropped.
        Then::Hang => return reader.read(&mut [0]).map(drop),
        Then::Drop => return Ok(()),
        Then::Answer | Then::Cut => {}
    }
    let mut head = format!("HTTP/1.1 {} Scripted\r\nContent-Length: {}\r\n", answer.status, answer.body.len());
    for (name, value) in &answer.headers {
        head += &format!("{name}: {value}\r\n");
    }
    writer.write_all(format!("{head}\r\n").as_bytes())?;
    let sent = if answer.then == Then::Cut { answer.body.len() / 2 } else { answer.body.len() };
    writer.write_all(&answer.body[..sent])?;
    writer.flush()
}

/// Reads a request with its body; `None` when the client has closed the connection.
fn read_request(reader: &mut impl BufRead) -> io::Result<Option<Recorded>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = vec![];
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        headers.push((name.trim().to_lowercase(), value.trim().to_owned()));
    }
    let mut request = Recorded { method, target, headers, body: vec![] };
    let length = request.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    request.body = vec![0; length];
    reader.read_exact(&mut request.body)?;
    Ok(Some(request))
}

/// Returns the answer to a request, with the warning of the server.
fn choose(state: &State, request: &Recorded) -> Answer {
    let answer = next_answer(state, request);
    match *lock(&state.warning) {
        Some(warning) => answer.header("Warning", &format!("299 - \"{}\"", warning(request))),
        None => answer,
    }
}

fn next_answer(state: &State, request: &Recorded) -> Answer {
    let mut routes = lock(&state.routes);
    match routes.iter_mut().rev().find(|route| matches(&route.pattern, request)) {
        Some(route) if route.answers.len() > 1 => route.answers.pop_front().expect("more than one answer"),
        Some(route) => route.answers[0].clone(),
        None => Answer::raw(404, "text/plain", "404 page not found\n"),
    }
}

/// Returns true if a pattern of [`FakeApi::on`] matches a request.
fn matches(pattern: &str, request: &Recorded) -> bool {
    let (method, path) = pattern.split_once(' ').unwrap_or(("", pattern));
    let target = match path.contains('?') {
        true => request.target.as_str(),
        false => request.target.split('?').next().unwrap_or_default(),
    };
    let covers = match path.strip_suffix('*') {
        Some(prefix) => target.starts_with(prefix),
        None => target == path,
    };
    covers && (method.is_empty() || method == request.method)
}
