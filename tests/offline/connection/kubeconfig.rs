//! Selection of server, user and namespace, as in kubectl: each flag, and each trap of kube's own client.

use insta::assert_snapshot;
use kubectl_gitops::cluster::Cluster;
use kubectl_gitops::error::Error;
use test_support::connection::{args, environment};
use test_support::folder::Folder;

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
async fn server_user_and_namespace_are_chosen_as_kubectl_does() {
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
async fn unusable_kubeconfigs_and_flags_are_refused() {
    let folder = Folder::new("refused");
    let file = folder.write("two", TWO);
    let rows: &[(&str, &[&str])] = &[
        ("unknown context", &["--context=nope"]),
        ("mistyped context", &["--context=stagin"]),
        ("unknown cluster", &["--cluster=nope"]),
        ("unknown user", &["--user=nope"]),
        ("context of no cluster", &["--context=gone"]),
        ("cluster without server", &["--context=empty"]),
        ("groups alone", &["--as-group=g"]),
        ("uid alone", &["--as-uid=1"]),
        ("extra alone", &["--as-user-extra=a=b"]),
        ("CA and insecure", &["--cluster=both"]),
        ("CA flag and insecure flag", &["--certificate-authority=/x", "--insecure-skip-tls-verify"]),
        ("missing CA", &["--certificate-authority=/nonexistent/ca"]),
        ("CA not base64", &["--cluster=junk"]),
        ("CA not PEM", &["--cluster=pemless"]),
        ("missing client certificate", &["--client-certificate=/nonexistent/c", "--client-key=/nonexistent/k"]),
        ("certificate without key", &["--user=half"]),
        ("auth provider", &["--user=gcp"]),
        ("token with a line break", &["--user=broken"]),
        ("a password in the address", &["-s", "https://u:hunter2@x"]),
        ("server is no URL", &["-s", "ftp://x"]),
        ("namespace with a slash", &["-n", "a/b"]),
        ("namespace with a question mark", &["-n", "a?b"]),
        ("namespace up", &["-n", ".."]),
        ("missing file", &["--kubeconfig=/nonexistent/k"]),
    ];
    let mut errors = String::new();
    for (name, flags) in rows {
        let environment = environment(&folder, &[("KUBECONFIG", file.to_str().expect("a path"))]);
        let error = refused(Cluster::connect_in(&args(flags), &environment).await, name);
        errors += &format!("{name}: {}\n  hint: {}\n", error.message, error.hint.as_deref().unwrap_or("none"));
    }
    assert_snapshot!(errors);
}

#[tokio::test]
async fn kubeconfig_files_are_found_and_merged() {
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
async fn the_service_account_is_used_inside_a_pod() {
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
