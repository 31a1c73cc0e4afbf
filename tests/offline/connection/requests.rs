//! Requests, and messages about failures. Each trap of kube's own client is a named row.

use std::time::Duration;

use insta::assert_snapshot;
use kubectl_gitops::cluster::{Cluster, Failure, FailureKind};
use kubectl_gitops::error::Error;
use serde_json::json;
use test_support::connection::{args, connect, environment};
use test_support::fake_api::{Answer, FakeApi, Recorded};
use test_support::folder::Folder;

#[tokio::test]
async fn headers_that_are_sent() {
    let folder = Folder::new("sent");
    let token = folder.write("token", "from-file\n");
    let token_file = format!("tokenFile: \"{}\"", token.display());
    type Check = fn(&Recorded) -> bool;
    let rows: &[(&str, &str, &[&str], Check)] = &[
        ("token", "token: t", &[], |r| r.header("authorization") == Some("Bearer t")),
        ("--token wins", "username: u, password: p", &["--token=f"], |r| r.header("authorization") == Some("Bearer f")),
        ("token file, line break cut", &token_file, &[], |r| r.header("authorization") == Some("Bearer from-file")),
        ("an empty token is none", "token: \"\"", &[], |r| r.header("authorization").is_none()),
        ("basic", "username: u, password: p", &[], |r| r.header("authorization") == Some("Basic dTpw")),
        ("accept as given", "", &[], |r| r.header_values("accept") == ["application/json;as=x"]),
        ("user agent", "", &[], |r| {
            let agent = r.header("user-agent").unwrap_or_default();
            agent.starts_with(concat!("gitops/", env!("CARGO_PKG_VERSION"), " (")) && !agent.starts_with("kubectl")
        }),
        ("no compression on loopback", "", &[], |r| r.header("accept-encoding").is_none()),
        ("--as", "as: other", &["--as=u"], |r| r.header_values("impersonate-user") == ["u"]),
        ("as in the kubeconfig", "as: other, as-groups: [g]", &[], |r| {
            r.header("impersonate-user") == Some("other") && r.header("impersonate-group") == Some("g")
        }),
        ("--as-uid", "", &["--as=u", "--as-uid=7"], |r| r.header("impersonate-uid") == Some("7")),
        ("--as-group twice", "", &["--as=u", "--as-group=a", "--as-group=b"], |r| {
            r.header_values("impersonate-group") == ["a", "b"]
        }),
        ("--as-user-extra", "", &["--as=u", "--as-user-extra=acme.com/team=x", "--as-user-extra=b=y"], |r| {
            r.header("impersonate-extra-acme.com%2fteam") == Some("x") && r.header("impersonate-extra-b") == Some("y")
        }),
        ("no impersonation by default", "", &[], |r| {
            r.headers.iter().all(|(name, _)| !name.starts_with("impersonate"))
        }),
    ];
    for (name, user, flags, check) in rows {
        let api = FakeApi::start();
        api.on("/api", [Answer::json(json!({}))]);
        let config = api.kubeconfig_for(&folder, user);
        let environment = environment(&folder, &[("KUBECONFIG", config.to_str().expect("a path"))]);
        let cluster = Cluster::connect_in(&args(flags), &environment).await.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(api.requests().is_empty(), "{name}: connecting sends nothing");
        cluster.get("/api", "application/json;as=x").await.unwrap_or_else(|e| panic!("{name}: {e}"));
        let requests = api.requests();
        assert!(requests.len() == 1 && check(&requests[0]), "{name}: {requests:?}");
    }
}

#[tokio::test]
async fn a_server_url_with_a_path() {
    let (api, folder) = (FakeApi::start(), Folder::new("path"));
    api.on("/k8s/clusters/c-1/api?x=1", [Answer::json(json!({"kind": "APIVersions"}))]);
    let server = format!("{}/k8s/clusters/c-1/", api.url());
    let cluster = connect(&api, &folder, &["-s", &server]).await;
    let response = cluster.get("/api?x=1", "application/json").await.expect("an answer");
    assert_eq!(&response.body[..], br#"{"kind":"APIVersions"}"#);
    assert_eq!((response.code, &*response.content_type), (200, "application/json"));
}

#[tokio::test]
async fn answers_are_compressed_except_on_loopback() {
    let rows: [(&str, &[&str], Option<&str>); 2] =
        [("compressed", &[], Some("gzip")), ("--disable-compression", &["--disable-compression"], None)];
    for (name, flags, accepted) in rows {
        // A proxy, because only through one does a server elsewhere answer in a test.
        let (proxy, folder) = (FakeApi::start(), Folder::new("compressed"));
        let answer = Answer::json(json!({"kind": "APIVersions"}));
        proxy.on("/api", [if accepted.is_some() { answer.gzipped() } else { answer }]);
        let through = environment(&folder, &[("HTTP_PROXY", &proxy.url())]);
        let flags = [&["-s", "http://api.example:81"], flags].concat();
        let cluster = Cluster::connect_in(&args(&flags), &through).await.expect("a connection");
        let response = cluster.get("/api", "application/json").await.expect("an answer through the proxy");
        assert_eq!(&response.body[..], br#"{"kind":"APIVersions"}"#, "{name}");
        let requests = proxy.requests();
        assert_eq!(requests.last().and_then(|request| request.header("accept-encoding")), accepted, "{name}");
    }
}

#[tokio::test]
async fn a_proxy_from_the_environment_is_used() {
    let (proxy, folder) = (FakeApi::start(), Folder::new("proxy"));
    proxy.on("/api", [Answer::json(json!({}))]);
    let url = proxy.url().replace("http://", "http://me:pa%40ss@");
    let through = environment(&folder, &[("HTTP_PROXY", &url)]);
    let cluster = Cluster::connect_in(&args(&["-s", "http://api.example:81"]), &through).await.expect("a connection");
    cluster.get("/api", "application/json").await.expect("an answer through the proxy");
    let requests = proxy.requests();
    assert_eq!(requests[0].line(), "CONNECT api.example:81");
    assert_eq!(requests[0].header("proxy-authorization"), Some("Basic bWU6cGFAc3M="));

    proxy.on("CONNECT *", [Answer::raw(407, "text/plain", "no")]);
    let cluster = Cluster::connect_in(&args(&["-s", "http://api.example:81"]), &through).await.expect("a connection");
    let failure = cluster.get("/api", "application/json").await.expect_err("a proxy that refuses");
    assert_eq!(failure.kind, FailureKind::Unreachable);
    let place = format!("api.example:81 (through the proxy {})", proxy.host());
    assert!(failure.message.contains(&place), "{failure}");
    assert!(!format!("{failure:?}").contains("pa%40ss"), "a proxy's password is not shown: {failure:?}");
}

#[tokio::test]
async fn failures_of_the_server_read_as_kubectls() {
    let forbidden = "configmaps is forbidden: User \"u\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"shop\"";
    let ends = json!({"reason": "Expired", "message": "too old", "metadata": {"continue": "fresh"}});
    let wait = json!({"reason": "TooManyRequests", "message": "slow", "details": {"retryAfterSeconds": 40}});
    let failure = |kind, code, reason: &str, message: &str| Failure {
        kind,
        code: Some(code),
        reason: reason.to_owned(),
        message: message.to_owned(),
        continue_token: None,
        retry_after: None,
        object: None,
    };
    use FailureKind::*;
    let rows = [
        (
            "401",
            Answer::status(401, "Unauthorized", "Unauthorized"),
            failure(Unauthorized, 401, "Unauthorized", "Unauthorized"),
        ),
        ("403", Answer::status(403, "Forbidden", forbidden), failure(Forbidden, 403, "Forbidden", forbidden)),
        (
            "404 without a Status",
            Answer::raw(404, "text/plain", "404 page not found\n"),
            failure(NotFound, 404, "NotFound", "404 page not found"),
        ),
        (
            "406 without a body",
            Answer::raw(406, "", ""),
            failure(
                NotAcceptable,
                406,
                "NotAcceptable",
                "the server was unable to respond with a content type that the client supports",
            ),
        ),
        ("409 conflict", Answer::status(409, "Conflict", "changed"), failure(Conflict, 409, "Conflict", "changed")),
        (
            "409 exists",
            Answer::status(409, "AlreadyExists", "there"),
            failure(AlreadyExists, 409, "AlreadyExists", "there"),
        ),
        (
            "410 with a fresh token",
            Answer::failure(410, ends),
            Failure { continue_token: Some("fresh".to_owned()), ..failure(Expired, 410, "Expired", "too old") },
        ),
        ("422", Answer::status(422, "Invalid", "bad"), failure(Invalid, 422, "Invalid", "bad")),
        (
            "429 that asks for too much",
            Answer::failure(429, wait),
            Failure {
                retry_after: Some(Duration::from_secs(40)),
                ..failure(Throttled, 429, "TooManyRequests", "slow")
            },
        ),
        (
            "500 of a web page",
            Answer::raw(500, "text/html", "<html><body>oops</body></html>"),
            failure(Other, 500, "InternalError", "the server answered with status 500"),
        ),
        (
            "a redirect is not followed",
            Answer::raw(302, "", "").header("Location", "/y"),
            failure(Other, 302, "", "the server answered with status 302"),
        ),
    ];
    let mut errors = String::new();
    for (name, answer, expected) in rows {
        let (api, folder) = (FakeApi::start(), Folder::new("failures"));
        api.on("/x", [answer]);
        let failure = connect(&api, &folder, &[]).await.get("/x", "application/json").await.expect_err(name);
        assert_eq!(failure, expected, "{name}");
        let text = failure.to_string();
        let error = Error::from(failure);
        assert_eq!(error.exit, kubectl_gitops::exit::ExitCode::Error, "{name}");
        errors += &format!("{name}: {text}\n  hint: {}\n", error.hint.as_deref().unwrap_or("none"));
        assert_eq!(api.requests().len(), 1, "{name}: sent once");
    }
    assert_snapshot!(errors);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_a_failure() {
    let (api, folder) = (FakeApi::start(), Folder::new("cut"));
    api.on("/x", [Answer::json(json!({"items": []})).cut()]);
    let failure = connect(&api, &folder, &[]).await.get("/x", "application/json").await.expect_err("half an answer");
    assert_eq!(failure.kind, FailureKind::Unreachable, "{failure}");
    assert!(
        failure.to_string().starts_with(&format!("Unable to connect to the server: {}: ", api.host())),
        "{failure}"
    );
}

#[tokio::test]
async fn warnings_are_given_once() {
    let (api, folder) = (FakeApi::start(), Folder::new("warnings"));
    api.on("/x", [Answer::json(json!({})).header("Warning", "299 - \"old\"").header("Warning", "299 - \"older\"")]);
    api.on("/y", [Answer::status(404, "NotFound", "no").header("Warning", "299 - \"old\", 299 - \"oldest\"")]);
    let cluster = connect(&api, &folder, &[]).await;
    cluster.get("/x", "application/json").await.expect("an answer");
    assert_eq!(cluster.take_warnings(), ["old", "older"]);
    cluster.get("/x", "application/json").await.expect("an answer");
    cluster.clone().get("/y", "application/json").await.expect_err("no such path");
    assert_eq!(cluster.take_warnings(), ["oldest"], "a failure's warnings count, and no text comes twice");
    assert!(cluster.take_warnings().is_empty());
}

#[tokio::test]
async fn requests_in_flight_are_limited() {
    for (name, through_proxy, limit) in [("on loopback", false, 8), ("elsewhere", true, 32)] {
        let (api, folder) = (FakeApi::start(), Folder::new("flight"));
        api.on("/x", [Answer::json(json!({})).after(Duration::from_millis(150))]);
        let proxy = if through_proxy { api.url() } else { String::new() };
        let server = if through_proxy { "http://api.example:81".to_owned() } else { api.url() };
        let environment = environment(&folder, &[("HTTP_PROXY", &proxy)]);
        // Longer than one request and shorter than all: the wait for a place must not count.
        let flags = args(&["-s", &server, "--request-timeout=1s"]);
        let cluster = Cluster::connect_in(&flags, &environment).await.expect("a connection");
        let requests = (0..100).map(|_| cluster.get("/x", "application/json"));
        let answers = futures::future::join_all(requests).await;
        let failed: Vec<Failure> = answers.into_iter().filter_map(Result::err).collect();
        assert_eq!(failed, [], "{name}: all answered");
        assert_eq!(api.peak(), limit, "{name}");
    }
}
