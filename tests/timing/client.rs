//! Duration of requests that are tried again, or that get no answer.

use std::time::{Duration, Instant};

use kubectl_gitops::cluster::{Cluster, FailureKind};
use kubectl_gitops::error::Error;
use serde_json::json;
use test_support::connection::{args, connect, environment};
use test_support::fake_api::{Answer, FakeApi};
use test_support::folder::Folder;

/// Fails when something took less or more time than it may.
fn assert_took(name: &str, took: Duration, at_least: Duration, at_most: Duration) {
    assert!(took >= at_least && took <= at_most, "{name}: took {took:?}, expected {at_least:?} to {at_most:?}");
}

#[tokio::test]
async fn failed_requests_are_tried_again() {
    let _alone = crate::alone();
    let ok = || Answer::json(json!({}));
    let busy = |code| Answer::status(code, "", "busy");
    let ms = Duration::from_millis;
    type Row<'a> = (&'a str, &'a str, Vec<Answer>, &'a [&'a str], Result<(), FailureKind>, usize, (Duration, Duration));
    let rows: Vec<Row> = vec![
        ("503 once", "GET", vec![busy(503), ok()], &[], Ok(()), 2, (ms(100), ms(900))),
        ("504 once", "GET", vec![busy(504), ok()], &[], Ok(()), 2, (ms(100), ms(900))),
        (
            "429 with Retry-After",
            "GET",
            vec![busy(429).header("Retry-After", "1"), ok()],
            &[],
            Ok(()),
            2,
            (ms(1000), ms(2000)),
        ),
        ("always 503", "GET", vec![busy(503)], &[], Err(FailureKind::Unavailable), 4, (ms(2100), ms(4000))),
        (
            "Retry-After beyond the request timeout",
            "GET",
            vec![busy(429).header("Retry-After", "20")],
            &["--request-timeout=2s"],
            Err(FailureKind::Throttled),
            1,
            (ms(0), ms(900)),
        ),
        (
            "Retry-After beyond our patience, no timeout",
            "GET",
            vec![busy(503).header("Retry-After", "3600")],
            &["--request-timeout=0"],
            Err(FailureKind::Unavailable),
            1,
            (ms(0), ms(900)),
        ),
        (
            "retries within the request timeout",
            "GET",
            vec![busy(503)],
            &["--request-timeout=1s"],
            Err(FailureKind::Unavailable),
            3,
            (ms(500), ms(1000)),
        ),
        ("DELETE", "DELETE", vec![busy(429), ok()], &[], Ok(()), 2, (ms(100), ms(900))),
        ("PATCH never", "PATCH", vec![busy(503), ok()], &[], Err(FailureKind::Unavailable), 1, (ms(0), ms(900))),
        ("POST never", "POST", vec![busy(429), ok()], &[], Err(FailureKind::Throttled), 1, (ms(0), ms(900))),
        ("500 never", "GET", vec![busy(500), ok()], &[], Err(FailureKind::Other), 1, (ms(0), ms(900))),
        (
            "a lost connection never",
            "GET",
            vec![Answer::drop_connection(), ok()],
            &[],
            Err(FailureKind::Unreachable),
            1,
            (ms(0), ms(900)),
        ),
    ];
    for (name, method, answers, flags, expected, sent, (at_least, at_most)) in rows {
        let (api, folder) = (FakeApi::start(), Folder::new("retries"));
        api.on("/x", answers);
        let cluster = connect(&api, &folder, flags).await;
        let request = http::Request::builder().method(method).uri("/x").body(b"{}".to_vec()).expect("a request");
        let begin = Instant::now();
        let result = cluster.send(request).await;
        let took = begin.elapsed();
        assert_eq!(result.map(drop).map_err(|failure| failure.kind), expected, "{name}");
        assert_eq!(api.requests().len(), sent, "{name}: requests sent");
        assert!(api.requests().iter().all(|request| request.body == b"{}"), "{name}: the body is sent each time");
        assert_took(name, took, at_least, at_most);
    }
}

#[tokio::test]
async fn the_request_timeout_bounds_a_silent_server() {
    let _alone = crate::alone();
    for (name, answer) in [("silent", Answer::hang()), ("slow", Answer::json(json!({})).after(Duration::from_secs(20)))]
    {
        let (api, folder) = (FakeApi::start(), Folder::new("silent"));
        api.on("/x", [answer]);
        let cluster = connect(&api, &folder, &["--request-timeout=500ms"]).await;
        let begin = Instant::now();
        let get = cluster.get("/x", "application/json");
        let answer = tokio::time::timeout(Duration::from_secs(5), get).await;
        let failure = answer.unwrap_or_else(|_| panic!("{name}: still waiting after 5 s")).expect_err(name);
        assert_took(name, begin.elapsed(), Duration::from_millis(500), Duration::from_millis(1500));
        assert_eq!((failure.kind, failure.code), (FailureKind::Timeout, None), "{name}");
        let expected = format!("Unable to connect to the server: {} did not answer within 500ms", api.host());
        assert_eq!(failure.to_string(), expected, "{name}");
        let error = Error::from(failure);
        assert!(error.hint.expect("a hint").contains("--request-timeout"), "{name}");
    }
}

#[tokio::test]
async fn unreachable_servers_are_reported() {
    let _alone = crate::alone();
    let folder = Folder::new("down");
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    // Takes connections (the kernel does) and says nothing, so that no TLS session comes up.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
    let mute = silent.local_addr().expect("an address");
    for (name, server, expected) in [
        (
            "refused",
            format!("http://{free}"),
            format!("The connection to the server {free} was refused - did you specify the right host or port?"),
        ),
        ("refused, TLS", format!("https://{free}"), format!("The connection to the server {free} was refused")),
        (
            "no such host",
            "http://api.invalid:6443".to_owned(),
            "Unable to connect to the server: api.invalid:6443: ".to_owned(),
        ),
        ("no TLS", format!("https://{mute}"), format!("Unable to connect to the server: {mute}: i/o timeout")),
    ] {
        let insecure = ["-s", server.as_str(), "--insecure-skip-tls-verify"];
        let cluster = Cluster::connect_in(&args(&insecure), &environment(&folder, &[])).await.expect("a connection");
        let begin = Instant::now();
        let failure = cluster.get("/api", "application/json").await.expect_err(name);
        assert_took(name, begin.elapsed(), Duration::ZERO, Duration::from_secs(5));
        assert_eq!(failure.kind, FailureKind::Unreachable, "{name}");
        assert!(failure.to_string().starts_with(&expected), "{name}: {failure}");
    }
}
