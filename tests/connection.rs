//! Connecting as kubectl does, and what happens when it goes wrong: each trap of kube's own client, and each flag, is a
//! named row here.

mod support;

use std::time::{Duration, Instant};

use clap::Parser;
use kubectl_gitops::cluster::config::args::ConnectionArgs;
use kubectl_gitops::cluster::{Cluster, Environment, Failure, FailureKind};
use kubectl_gitops::error::Error;
use serde_json::json;
use support::fake_api::{Answer, FakeApi, Recorded};
use support::folder::Folder;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    connection: ConnectionArgs,
}

fn args(flags: &[&str]) -> ConnectionArgs {
    Cli::try_parse_from([&["gitops"], flags].concat()).expect("flags").connection
}

/// An environment with nothing in it but these variables.
fn environment(folder: &Folder, variables: &[(&str, &str)]) -> Environment {
    Environment {
        variables: variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect(),
        home: Some(folder.path().join("home")),
        service_account: folder.path().join("serviceaccount"),
        interactive: false,
    }
}

/// Connects to a fake server with its kubeconfig.
async fn connect(api: &FakeApi, folder: &Folder, flags: &[&str]) -> Cluster {
    let config = api.kubeconfig(folder);
    let environment = environment(folder, &[("KUBECONFIG", config.to_str().expect("a path"))]);
    Cluster::connect_in(&args(flags), &environment).await.expect("a connection")
}

fn refused(result: Result<Cluster, Error>, name: &str) -> Error {
    match result {
        Ok(_) => panic!("{name}: connected"),
        Err(error) => error,
    }
}

const TWO: &str = "apiVersion: v1
kind: Config
current-context: production
clusters:
- {name: p, cluster: {server: \"https://p.example:6443\"}}
- {name: s, cluster: {server: \"https://s.example/k8s/clusters/c-1\", tls-server-name: inner}}
- {name: both, cluster: {server: \"https://x\", insecure-skip-tls-verify: true, certificate-authority-data: eA==}}
- {name: empty, cluster: {}}
- {name: junk, cluster: {server: \"https://x\", certificate-authority-data: \"!!\"}}
- {name: pemless, cluster: {server: \"https://x\", certificate-authority-data: eA==}}
users:
- {name: p, user: {token: t}}
- {name: gcp, user: {auth-provider: {name: gcp}}}
- {name: broken, user: {token: \"a\\nb\"}}
- {name: half, user: {client-certificate-data: eA==}}
contexts:
- {name: production, context: {cluster: p, user: p, namespace: shop}}
- {name: staging, context: {cluster: s, user: nobody}}
- {name: gone, context: {cluster: nowhere, user: p}}
- {name: empty, context: {cluster: empty, user: p}}
";

#[tokio::test]
async fn what_is_chosen() {
    let folder = Folder::new("chosen");
    let file = folder.write("two", TWO);
    let rows: &[(&str, &[&str], &str, &str, bool)] = &[
        ("current context", &[], "https://p.example:6443", "shop", false),
        ("-n", &["-n", "x"], "https://p.example:6443", "x", true),
        ("an empty -n is none", &["-n", ""], "https://p.example:6443", "shop", false),
        ("--context", &["--context=staging"], "https://s.example/k8s/clusters/c-1", "default", false),
        ("an empty --context is none", &["--context="], "https://p.example:6443", "shop", false),
        ("--cluster", &["--cluster=s"], "https://s.example/k8s/clusters/c-1", "shop", false),
        ("--server", &["-s", "https://other:1/"], "https://other:1", "shop", false),
        ("--server without scheme", &["-s", "other:1"], "http://other:1", "shop", false),
        (
            "--server without scheme, TLS",
            &["-s", "other:1", "--insecure-skip-tls-verify"],
            "https://other:1",
            "shop",
            false,
        ),
    ];
    for (name, flags, server, namespace, given) in rows {
        let environment = environment(&folder, &[("KUBECONFIG", file.to_str().expect("a path"))]);
        let cluster = Cluster::connect_in(&args(flags), &environment).await.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(
            (&*cluster.server, &*cluster.namespace, cluster.namespace_given),
            (*server, *namespace, *given),
            "{name}"
        );
    }
}

#[tokio::test]
async fn what_is_refused() {
    let folder = Folder::new("refused");
    let file = folder.write("two", TWO);
    let rows: &[(&str, &[&str], &str, &str)] = &[
        (
            "unknown context",
            &["--context=nope"],
            "context was not found for specified context: nope",
            "the kubeconfig has the contexts: empty, gone, production, staging",
        ),
        (
            "mistyped context",
            &["--context=stagin"],
            "context was not found for specified context: stagin",
            "did you mean context \"staging\"?",
        ),
        ("unknown cluster", &["--cluster=nope"], "no server found for cluster \"nope\"", "the clusters: both, empty"),
        ("unknown user", &["--user=nope"], "auth info \"nope\" does not exist", "the users: broken, gcp, half, p"),
        ("context of no cluster", &["--context=gone"], "no server found for cluster \"nowhere\"", "the clusters: both"),
        ("cluster without server", &["--context=empty"], "cluster \"empty\" has no server", "--server"),
        (
            "groups alone",
            &["--as-group=g"],
            "requesting uid, groups or user-extra for p without impersonating a user",
            "add --as USER",
        ),
        ("uid alone", &["--as-uid=1"], "requesting uid, groups or user-extra for p", "add --as USER"),
        ("extra alone", &["--as-user-extra=a=b"], "requesting uid, groups or user-extra for p", "add --as USER"),
        (
            "CA and insecure",
            &["--cluster=both"],
            "specifying a root certificates file with the insecure flag is not allowed",
            "",
        ),
        (
            "CA flag and insecure flag",
            &["--certificate-authority=/x", "--insecure-skip-tls-verify"],
            "specifying a root certificates file with the insecure flag is not allowed",
            "",
        ),
        (
            "missing CA",
            &["--certificate-authority=/nonexistent/ca"],
            "unable to read certificate-authority /nonexistent/ca for p due to open /nonexistent/ca: no such file",
            "",
        ),
        ("CA not base64", &["--cluster=junk"], "certificate-authority-data of cluster \"junk\" is not base64", ""),
        (
            "CA not PEM",
            &["--cluster=pemless"],
            "the certificate-authority of cluster \"pemless\" holds no PEM certificate",
            "",
        ),
        (
            "missing client certificate",
            &["--client-certificate=/nonexistent/c", "--client-key=/nonexistent/k"],
            "unable to read client-cert /nonexistent/c for p due to open /nonexistent/c: no such file or directory",
            "",
        ),
        (
            "certificate without key",
            &["--user=half"],
            "client-key-data or client-key must be specified for half to use the clientCert authentication method",
            "",
        ),
        ("auth provider", &["--user=gcp"], "no Auth Provider found for name \"gcp\"", "credential plugin"),
        ("token with a line break", &["--user=broken"], "the token of user \"broken\" holds a line break", "one line"),
        (
            "a password in the address",
            &["-s", "https://u:hunter2@x"],
            "the server's address must not hold a user and password",
            "--token",
        ),
        ("server is no URL", &["-s", "ftp://x"], "the server's address \"ftp://x\" is not a URL", "https://"),
        ("namespace with a slash", &["-n", "a/b"], "invalid namespace \"a/b\": [may not contain '/']", ""),
        ("namespace with a question mark", &["-n", "a?b"], "invalid namespace \"a?b\": [may not contain '?']", ""),
        ("namespace up", &["-n", ".."], "invalid namespace \"..\": [may not be '..']", ""),
        (
            "missing file",
            &["--kubeconfig=/nonexistent/k"],
            "stat /nonexistent/k: no such file or directory",
            "KUBECONFIG",
        ),
    ];
    for (name, flags, message, hint) in rows {
        let environment = environment(&folder, &[("KUBECONFIG", file.to_str().expect("a path"))]);
        let error = refused(Cluster::connect_in(&args(flags), &environment).await, name);
        assert!(error.message.starts_with(message), "{name}: {}", error.message);
        assert!(error.hint.as_deref().unwrap_or_default().contains(hint), "{name}: {:?}", error.hint);
    }
}

#[tokio::test]
async fn kubeconfig_files() {
    let folder = Folder::new("files");
    let file = |name: &str, text: &str| folder.write(name, text).to_str().expect("a path").to_owned();
    let first = file(
        "first",
        "current-context: \"\"\nclusters: [{name: c, cluster: {server: \"http://first\"}}]\n\
         contexts: [{name: a, context: {cluster: c, namespace: \"\"}}]\n",
    );
    let second = file(
        "second",
        "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{name: c, cluster: {server: \"http://second\"}}]\n\
         contexts: [{name: a, context: {cluster: c, namespace: two}}, {name: b, context: {cluster: c, namespace: bee}}]\n",
    );
    let no_current = file("no-current", "contexts: [{name: a, context: {cluster: c}}]\n");
    let empty = file("empty", "");
    let secret = file("secret", "users: [{name: u, user: {token: [hunter2]}}]\nclusters: hunter2\n");
    file(
        "home/.kube/config",
        "current-context: h\nclusters: [{name: c, cluster: {server: \"http://home\"}}]\n\
         contexts: [{name: h, context: {cluster: c}}]\n",
    );
    let nowhere = folder.path().join("nowhere").to_str().expect("a path").to_owned();

    type Row<'a> = (&'a str, Option<String>, &'a [&'a str], Result<(&'a str, &'a str), &'a str>);
    let rows: &[Row] = &[
        ("home", None, &[], Ok(("http://home", "default"))),
        ("an empty variable is none", Some(String::new()), &[], Ok(("http://home", "default"))),
        ("the first wins", Some(format!("{first}:{second}")), &[], Ok(("http://first", "default"))),
        ("the order counts", Some(format!("{second}:{first}")), &[], Ok(("http://second", "two"))),
        ("files add up", Some(format!("{first}:{second}")), &["--context=b"], Ok(("http://first", "bee"))),
        (
            "missing ones are left out",
            Some(format!("{nowhere}::{second}:{nowhere}")),
            &[],
            Ok(("http://second", "two")),
        ),
        ("empty files are left out", Some(format!("{empty}:{second}")), &[], Ok(("http://second", "two"))),
        (
            "all missing",
            Some(format!("{nowhere}:{nowhere}")),
            &[],
            Err("no kubeconfig was found, and this is not a pod"),
        ),
        ("only an empty one", Some(empty.clone()), &[], Err("no kubeconfig was found, and this is not a pod")),
        ("none, but --server", Some(nowhere.clone()), &["-s", "http://x:1"], Ok(("http://x:1", "default"))),
        (
            "none, but --context",
            Some(nowhere.clone()),
            &["--context=a"],
            Err("context was not found for specified context: a"),
        ),
        ("no current context", Some(no_current), &[], Err("the kubeconfig has no current context")),
    ];
    for (name, variable, flags, expected) in rows {
        let variables: Vec<(&str, &str)> = variable.iter().map(|list| ("KUBECONFIG", list.as_str())).collect();
        let found = Cluster::connect_in(&args(flags), &environment(&folder, &variables)).await;
        match (found, expected) {
            (Ok(cluster), Ok(expected)) => assert_eq!((&*cluster.server, &*cluster.namespace), *expected, "{name}"),
            (Err(error), Err(expected)) => {
                assert_eq!(error.message, *expected, "{name}");
                assert!(error.hint.is_some(), "{name}: a hint");
            }
            (Ok(cluster), Err(_)) => panic!("{name}: connected to {}", cluster.server),
            (Err(error), Ok(_)) => panic!("{name}: {error}"),
        }
    }

    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        let mut odd = environment(&folder, &[]);
        let path = folder.path().join(std::ffi::OsStr::from_bytes(b"odd-\xff"));
        std::fs::copy(&second, &path).expect("a file whose name is no text");
        odd.variables.insert("KUBECONFIG".to_owned(), path.into());
        let cluster = Cluster::connect_in(&args(&[]), &odd).await.expect("a connection");
        assert_eq!(cluster.server, "http://second", "a name that is no text must not lead to ~/.kube/config");
    }

    let explicit = args(&["--kubeconfig", &second]);
    let cluster =
        Cluster::connect_in(&explicit, &environment(&folder, &[("KUBECONFIG", &first)])).await.expect("second");
    assert_eq!(cluster.server, "http://second", "--kubeconfig wins over KUBECONFIG");

    let error =
        refused(Cluster::connect_in(&args(&[]), &environment(&folder, &[("KUBECONFIG", &secret)])).await, "junk");
    assert!(error.message.starts_with(&format!("error loading config file \"{secret}\": not a kubeconfig")), "{error}");
    assert!(!format!("{error:?}").contains("hunter2"), "a parser's message must not quote the file: {error:?}");
}

#[tokio::test]
async fn inside_a_pod() {
    let folder = Folder::new("pod");
    let pod = [("KUBERNETES_SERVICE_HOST", "fd00::1"), ("KUBERNETES_SERVICE_PORT", "6443")];
    let outside = "no kubeconfig was found, and this is not a pod";
    let error = refused(Cluster::connect_in(&args(&[]), &environment(&folder, &pod)).await, "no token file");
    assert_eq!(error.message, outside);

    folder.write("serviceaccount/token", "t");
    folder.write("serviceaccount/namespace", "flux-system\n");
    type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [&'a str], Result<(&'a str, &'a str), &'a str>);
    let rows: &[Row] = &[
        ("IPv6", &pod, &[], Ok(("https://[fd00::1]:6443", "flux-system"))),
        (
            "IPv4 and POD_NAMESPACE",
            &[("KUBERNETES_SERVICE_HOST", "10.0.0.1"), ("KUBERNETES_SERVICE_PORT", "443"), ("POD_NAMESPACE", "mine")],
            &[],
            Ok(("https://10.0.0.1:443", "mine")),
        ),
        ("-n", &pod, &["-n", "x"], Ok(("https://[fd00::1]:6443", "x"))),
        ("--server is no pod's", &pod, &["-s", "http://x:1"], Ok(("http://x:1", "default"))),
        ("no port", &[("KUBERNETES_SERVICE_HOST", "10.0.0.1")], &[], Err(outside)),
    ];
    for (name, variables, flags, expected) in rows {
        let found = Cluster::connect_in(&args(flags), &environment(&folder, variables)).await;
        let found = found.as_ref().map(|c| (&*c.server, &*c.namespace)).map_err(|e| &*e.message);
        assert_eq!(found, *expected, "{name}");
    }
}

#[tokio::test]
async fn what_is_sent() {
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
            agent.starts_with(concat!("gitops-suspend/", env!("CARGO_PKG_VERSION"), " ("))
                && !agent.starts_with("kubectl")
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
async fn a_server_below_a_path() {
    let (api, folder) = (FakeApi::start(), Folder::new("path"));
    api.on("/k8s/clusters/c-1/api?x=1", [Answer::json(json!({"kind": "APIVersions"}))]);
    let server = format!("{}/k8s/clusters/c-1/", api.url());
    let cluster = connect(&api, &folder, &["-s", &server]).await;
    let response = cluster.get("/api?x=1", "application/json").await.expect("an answer");
    assert_eq!(&response.body[..], br#"{"kind":"APIVersions"}"#);
    assert_eq!((response.code, &*response.content_type), (200, "application/json"));
}

#[tokio::test]
async fn compression_away_from_loopback() {
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
async fn a_proxy_of_the_environment() {
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

/// Fails when the condition does not hold, with the time it took.
fn assert_took(name: &str, took: Duration, at_least: Duration, at_most: Duration) {
    assert!(took >= at_least && took <= at_most, "{name}: took {took:?}, expected {at_least:?} to {at_most:?}");
}

#[tokio::test]
async fn retries() {
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
        let expected = format!("Unable to connect to the server: {} gave no answer within 500ms", api.host());
        assert_eq!(failure.to_string(), expected, "{name}");
        let error = Error::from(failure);
        assert!(error.hint.expect("a hint").contains("--request-timeout"), "{name}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there() {
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

#[tokio::test]
async fn answers_that_are_failures() {
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
    };
    use FailureKind::*;
    let rows = [
        (
            "401",
            Answer::status(401, "Unauthorized", "Unauthorized"),
            failure(Unauthorized, 401, "Unauthorized", "Unauthorized"),
            "You must be logged in to the server (Unauthorized)".to_owned(),
            "kubectl auth whoami",
        ),
        (
            "403",
            Answer::status(403, "Forbidden", forbidden),
            failure(Denied, 403, "Forbidden", forbidden),
            format!("Error from server (Forbidden): {forbidden}"),
            "check with: kubectl auth can-i list configmaps -n shop",
        ),
        (
            "404 without a Status",
            Answer::raw(404, "text/plain", "404 page not found\n"),
            failure(Missing, 404, "NotFound", "404 page not found"),
            "Error from server (NotFound): 404 page not found".to_owned(),
            "",
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
            "Error from server (NotAcceptable): the server was unable to respond".to_owned(),
            "",
        ),
        (
            "409 conflict",
            Answer::status(409, "Conflict", "changed"),
            failure(Conflict, 409, "Conflict", "changed"),
            "Error from server (Conflict): changed".to_owned(),
            "",
        ),
        (
            "409 exists",
            Answer::status(409, "AlreadyExists", "there"),
            failure(AlreadyExists, 409, "AlreadyExists", "there"),
            "Error from server (AlreadyExists): there".to_owned(),
            "",
        ),
        (
            "410 with a fresh token",
            Answer::failure(410, ends),
            Failure { continue_token: Some("fresh".to_owned()), ..failure(Expired, 410, "Expired", "too old") },
            "Error from server (Expired): too old".to_owned(),
            "",
        ),
        (
            "422",
            Answer::status(422, "Invalid", "bad"),
            failure(Invalid, 422, "Invalid", "bad"),
            "Error from server (Invalid): bad".to_owned(),
            "",
        ),
        (
            "429 that asks for too much",
            Answer::failure(429, wait),
            Failure {
                retry_after: Some(Duration::from_secs(40)),
                ..failure(Throttled, 429, "TooManyRequests", "slow")
            },
            "Error from server (TooManyRequests): slow".to_owned(),
            "asks to wait 40 s",
        ),
        (
            "500 of a web page",
            Answer::raw(500, "text/html", "<html><body>oops</body></html>"),
            failure(Other, 500, "InternalError", "the server answered with status 500"),
            "Error from server (InternalError): the server answered with status 500".to_owned(),
            "",
        ),
        (
            "a redirect is not followed",
            Answer::raw(302, "", "").header("Location", "/y"),
            failure(Other, 302, "", "the server answered with status 302"),
            "Error from server: the server answered with status 302".to_owned(),
            "",
        ),
    ];
    for (name, answer, expected, text, hint) in rows {
        let (api, folder) = (FakeApi::start(), Folder::new("failures"));
        api.on("/x", [answer]);
        let failure = connect(&api, &folder, &[]).await.get("/x", "application/json").await.expect_err(name);
        assert_eq!(failure, expected, "{name}");
        assert!(failure.to_string().starts_with(&text), "{name}: {failure}");
        let error = Error::from(failure);
        assert_eq!(error.exit, kubectl_gitops::exit::ExitCode::Error, "{name}");
        assert!(error.hint.unwrap_or_default().contains(hint), "{name}");
        assert_eq!(api.requests().len(), 1, "{name}: sent once");
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off() {
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
