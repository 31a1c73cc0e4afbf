//! Deletions on the real API server, with answers that get lost, cut, delayed or replaced on the way: what must stay
//! stays, what the results say is true, and every command ends (docs/safety.md).
//!
//! `BROKEN_ANSWERS=500 cargo test --test live broken_answers` runs more than the usual number of seeds, and
//! `BROKEN_ANSWERS_SEED=7` only one.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream;
use gitops_core::ownership::OwnerId;
use gitops_core::ownership::index::Index;
use gitops_core::plan::Change;
use gitops_core::plan::grave::AllowedKinds;
use gitops_core::plan::outcome::{DeletionResult, PruneResult};
use gitops_core::prune::leaked::{self, PruneOptions};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use kube::client::Body;
use kubectl_gitops::cluster::{Cluster, Execution, OWNERS_AGE, execute};
use serde_json::{Value, json};
use test_support::cluster::up;
use test_support::connection::client;
use test_support::random::Random;
use xtask::cluster::Options;

/// Number of runs in the usual tests, and how many run at the same time.
const RUNS: u64 = 40;
const AT_ONCE: usize = 8;
/// `--timeout` of the runs.
const TIMEOUT: Duration = Duration::from_secs(2);
const FLUX: &str = "kustomize.toolkit.fluxcd.io";
const MANAGER: &str = "fieldManager=kustomize-controller&force=true";

/// Type of owners as kustomize-controller has it, without a controller and without a schema.
const DEFINITION: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: kustomizations.kustomize.toolkit.fluxcd.io}
spec:
  group: kustomize.toolkit.fluxcd.io
  scope: Namespaced
  names: {plural: kustomizations, singular: kustomization, kind: Kustomization}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

/// A client that changes answers on their way.
struct Mutator {
    client: kube::Client,
    random: Mutex<Random>,
    /// One of so many lists is changed.
    list_rate: usize,
    /// Set while answers are changed.
    is_on: AtomicBool,
    /// Set while answers may be withheld for longer than any timeout.
    may_hang: AtomicBool,
    mutations: AtomicUsize,
}

type Answer = Result<Response<Full<bytes::Bytes>>, std::io::Error>;

impl Mutator {
    fn roll(&self, below: usize) -> usize {
        self.random.lock().unwrap().below(below)
    }

    async fn forward(&self, request: Request<Body>) -> Answer {
        let answer = self.client.send(request).await.map_err(std::io::Error::other)?;
        let (parts, body) = answer.into_parts();
        let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
        Ok(Response::from_parts(parts, Full::new(body)))
    }

    async fn answer(&self, mut request: Request<Body>) -> Answer {
        // Small pages, so that there are some to lose.
        let is_page = request.uri().query().is_some_and(|query| query.contains("continue="));
        let target = request.uri().to_string().replace("limit=1000", "limit=20");
        *request.uri_mut() = target.parse().expect("a target");
        // A reading has many lists and a deletion few requests: both are to be hit, and not every reading.
        let is_list = target.contains("limit=") || ["/api", "/apis"].contains(&target.as_str());
        let rate = if is_list { self.list_rate } else { 6 };
        if !self.is_on.load(Ordering::SeqCst) || self.roll(rate) != 0 {
            return self.forward(request).await;
        }
        self.mutations.fetch_add(1, Ordering::SeqCst);
        let lost = || std::io::Error::new(std::io::ErrorKind::ConnectionReset, "reset");
        let hang = if self.may_hang.load(Ordering::SeqCst) { TIMEOUT + Duration::from_secs(1) } else { Duration::ZERO };
        let is_delete = request.method() == Method::DELETE;
        match self.roll(13) {
            0 => Err(lost()),
            1 => self.forward(request).await.and(Err(lost())),
            2 => {
                let answer = self.forward(request).await;
                tokio::time::sleep(hang).await;
                answer
            }
            3 => {
                tokio::time::sleep(hang).await;
                Err(lost())
            }
            4 => {
                let answer = self.forward(request).await?;
                let (parts, body) = answer.into_parts();
                let body = body.collect().await.expect("a body in memory").to_bytes();
                Ok(Response::from_parts(parts, Full::new(body.slice(..body.len() / 2))))
            }
            5 => self.forward(request).await.map(|answer| replaced(answer, 200, json!({}))),
            6 => {
                let status =
                    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 500});
                self.forward(request).await.map(|answer| replaced(answer, 200, status))
            }
            7 if is_page || is_delete => {
                let list = json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                    "metadata": {"resourceVersion": "1"}, "items": []});
                self.forward(request).await.map(|answer| replaced(answer, 200, list))
            }
            number => {
                let code = [403, 409, 410, 429, 500, 503][number % 6];
                let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                    "reason": "", "message": "made up on the way"});
                // Refused before the request arrives, or replaced after it took effect.
                let answer = match self.roll(2) {
                    0 => Response::new(Full::default()),
                    _ => self.forward(request).await?,
                };
                Ok(replaced(answer, code, status))
            }
        }
    }
}

fn replaced(mut answer: Response<Full<bytes::Bytes>>, code: u16, body: Value) -> Response<Full<bytes::Bytes>> {
    *answer.status_mut() = StatusCode::from_u16(code).expect("a status");
    answer.headers_mut().clear();
    answer.headers_mut().insert("content-type", "application/json".parse().expect("a header"));
    if code == 429 {
        answer.headers_mut().insert("retry-after", "1".parse().expect("a header"));
    }
    *answer.body_mut() = Full::from(body.to_string());
    answer
}

async fn send(client: &kube::Client, method: Method, path: &str, content_type: &str, body: &Value) -> Value {
    let request = Request::builder().method(method).uri(path).header("content-type", content_type);
    let request = request.body(Body::from(body.to_string().into_bytes())).expect("a request");
    let answer = client.send(request).await.expect("the server answers");
    let body = answer.into_body().collect().await.expect("a body").to_bytes();
    serde_json::from_slice(&body).unwrap_or_default()
}

async fn apply(client: &kube::Client, path: &str, object: Value) -> Value {
    let path = format!("{path}/{}?{MANAGER}", object["metadata"]["name"].as_str().expect("a name"));
    let applied = send(client, Method::PATCH, &path, "application/apply-patch+yaml", &object).await;
    assert!(applied["metadata"]["uid"].is_string(), "{path}: {applied}");
    applied
}

/// An object of a run: its path, its uid, and if it has to stay.
struct Seeded {
    path: String,
    uid: String,
    must_stay: bool,
}

/// Creates the objects of a run: leaked ones, a protected one, and a leaked Namespace with content.
async fn seed_objects(client: &kube::Client, seed: u64, random: &mut Random) -> Vec<Seeded> {
    let owner = format!("apps-{seed}");
    let labels = json!({format!("{FLUX}/name"): &owner, format!("{FLUX}/namespace"): "flux-system"});
    let entries: Vec<Value> =
        (0..20).map(|at| json!({"id": format!("shop_{owner}-{at}__ConfigMap"), "v": "v1"})).collect();
    let kustomizations = format!("/apis/{FLUX}/v1/namespaces/flux-system/kustomizations");
    apply(
        client,
        &kustomizations,
        json!({"apiVersion": format!("{FLUX}/v1"), "kind": "Kustomization",
        "metadata": {"name": &owner, "namespace": "flux-system"}, "spec": {"prune": true},
        "status": {"observedGeneration": 1, "conditions": [{"type": "Ready", "status": "True"}],
            "inventory": {"entries": entries}}}),
    )
    .await;
    let mut seeded = vec![];
    let old = format!("old-{seed}");
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": &old, "labels": &labels}});
    let applied = apply(client, "/api/v1/namespaces", namespace).await;
    let has_foreign = random.one_in(3);
    let uid = |object: &Value| object["metadata"]["uid"].as_str().expect("a uid").to_owned();
    seeded.push(Seeded { path: format!("/api/v1/namespaces/{old}"), uid: uid(&applied), must_stay: has_foreign });
    let mut config_maps = vec![(old.clone(), "inside".to_owned(), labels.clone(), json!({}), false)];
    if has_foreign {
        config_maps.push((old, "foreign".to_owned(), json!({}), json!({}), true));
    }
    for at in 0..4 {
        config_maps.push(("shop".to_owned(), format!("leaked-{seed}-{at}"), labels.clone(), json!({}), false));
    }
    let protection = json!({format!("{FLUX}/prune"): "disabled"});
    config_maps.push(("shop".to_owned(), format!("protected-{seed}"), labels, protection, true));
    for (namespace, name, labels, annotations, must_stay) in config_maps {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        let applied = apply(
            client,
            &path,
            json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": &name, "namespace": &namespace, "labels": labels, "annotations": annotations}}),
        )
        .await;
        seeded.push(Seeded { path: format!("{path}/{name}"), uid: uid(&applied), must_stay });
    }
    seeded
}

/// State of an object on the server, by its uid.
#[derive(Debug, PartialEq)]
enum Live {
    Alive,
    Terminating,
    Gone,
}

async fn live(client: &kube::Client, object: &Seeded) -> Live {
    let read = send(client, Method::GET, &object.path, "application/json", &Value::Null).await;
    match &read["metadata"] {
        metadata if metadata["uid"] != *object.uid => Live::Gone,
        metadata if metadata["deletionTimestamp"].is_null() => Live::Alive,
        _ => Live::Terminating,
    }
}

/// Plans and deletes through a mutator. Returns nothing if the plan is not complete, which a run without
/// `--allow-incomplete` refuses.
async fn prune(mutator: &Arc<Mutator>, seed: u64) -> Option<PruneResult> {
    let own = mutator.clone();
    let service = tower::service_fn(move |request| {
        let own = own.clone();
        async move { own.answer(request).await }
    });
    let cluster = Cluster::with_client(kube::Client::new(service, "default"), "https://test.invalid");
    let options = PruneOptions {
        owners: vec![OwnerId::new("flux", "Kustomization", "flux-system", &format!("apps-{seed}"))],
        allowed: AllowedKinds::all(),
        ..PruneOptions::default()
    };
    mutator.is_on.store(seed.is_multiple_of(4), Ordering::SeqCst);
    let snapshot = cluster.snapshot(chrono::Utc::now()).await.ok()?;
    let plan = leaked::plan(&Index::build(&snapshot), &options);
    if !plan.is_complete() {
        return None;
    }
    mutator.is_on.store(true, Ordering::SeqCst);
    mutator.may_hang.store(true, Ordering::SeqCst);
    let reevaluate = |index: &Index<'_>, changes: &[&Change]| {
        changes.iter().map(|change| leaked::reevaluate(index, change, &options)).collect()
    };
    let execution =
        Execution { timeout: TIMEOUT, waves: vec![], parallel: 1 + seed as usize % 3, owners_age: OWNERS_AGE };
    Some(execute(&cluster, &plan, &reevaluate, &execution, &mut ()).await)
}

/// Result of a seed.
struct Outcome {
    problems: Vec<String>,
    /// Number of changed answers.
    mutations: usize,
    codes: Vec<&'static str>,
    took: Duration,
}

async fn run(client: kube::Client, seed: u64) -> Outcome {
    let mut random = Random::new(seed);
    let seeded = seed_objects(&client, seed, &mut random).await;
    let mutator = Arc::new(Mutator {
        client: client.clone(),
        random: Mutex::new(random),
        list_rate: [60, 300, 2000][seed as usize % 3],
        is_on: AtomicBool::new(false),
        may_hang: AtomicBool::new(false),
        mutations: AtomicUsize::new(0),
    });
    let start = Instant::now();
    let result = prune(&mutator, seed).await;
    let took = start.elapsed();
    let mut problems = vec![];
    // Seven deletions, each with at most three attempts of some requests.
    if took > Duration::from_secs(120) {
        problems.push(format!("seed {seed} took {took:?}"));
    }
    let steps = result.map(|result| result.steps).unwrap_or_default();
    let namespace_is_gone = steps.iter().any(|row| &*row.object.id.kind == "Namespace" && row.step.is_deletion());
    for object in &seeded {
        let now = live(&client, object).await;
        let row = steps.iter().find(|row| row.object.uid == object.uid);
        let may_go = |row: &DeletionResult| row.is_deletion() || matches!(row, DeletionResult::Unknown(_));
        let in_cascade = namespace_is_gone && object.path.contains("/old-");
        let is_true = match (&now, row.map(|row| &row.step)) {
            (Live::Gone | Live::Terminating, _) if object.must_stay => false,
            (Live::Gone | Live::Terminating, Some(step)) => may_go(step) || in_cascade,
            (Live::Gone | Live::Terminating, None) => in_cascade,
            (Live::Alive, Some(step)) => !step.is_deletion(),
            (Live::Alive, None) => true,
        };
        if !is_true {
            problems.push(format!("seed {seed}: {} is {now:?}, its result is {row:?}", object.path));
        }
        send(&client, Method::DELETE, &object.path, "application/json", &json!({})).await;
    }
    let codes = steps.iter().map(|row| row.step.code()).collect();
    Outcome { problems, mutations: mutator.mutations.load(Ordering::SeqCst), codes, took }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn broken_answers_delete_nothing_else_and_are_reported_truthfully() {
    let server = up(Options::default());
    server.kubectl_stdin(&["apply", "-f", "-"], DEFINITION).unwrap();
    server.kubectl(&["wait", "--for=condition=Established", "crd/kustomizations.kustomize.toolkit.fluxcd.io"]).unwrap();
    for namespace in ["flux-system", "shop"] {
        server.kubectl(&["create", "namespace", namespace]).unwrap();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let _entered = runtime.enter();
    let client = runtime.block_on(client(&server));
    let only = number("BROKEN_ANSWERS_SEED");
    let seeds = only.map_or(0..number("BROKEN_ANSWERS").unwrap_or(RUNS), |seed| seed..seed + 1);
    let runs = stream::iter(seeds).map(|seed| run(client.clone(), seed)).buffer_unordered(AT_ONCE);
    let all: Vec<_> = runtime.block_on(runs.collect());
    let mutations: usize = all.iter().map(|outcome| outcome.mutations).sum();
    let codes: Vec<&str> = all.iter().flat_map(|outcome| outcome.codes.clone()).collect();
    let count = |code: &str| codes.iter().filter(|known| **known == code).count();
    let counts = ["deleted", "gone", "terminating", "skipped", "failed", "unknown"].map(|code| (code, count(code)));
    let slowest = all.iter().map(|outcome| outcome.took).max().unwrap_or_default();
    let number = all.len();
    xtask::say(format!("{number} runs of at most {slowest:.0?}, {mutations} changed answers, results {counts:?}"));
    let problems: Vec<String> = all.into_iter().flat_map(|outcome| outcome.problems).collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    let is_reached = count("deleted") > 0 && count("skipped") > 0 && mutations > 0;
    assert!(only.is_some() || is_reached, "{counts:?}");
}
