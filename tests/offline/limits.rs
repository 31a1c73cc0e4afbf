//! docs/limits.md and the constants of the code name the same limits, and each limit on answers and credentials acts.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::path::Path;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use kubectl_gitops::cluster::{Cluster, Failure};
use test_support::connection::{args, environment};
use test_support::fake_api::FakeApi;
use test_support::folder::Folder;

/// Rows of the tables, and the constants in `file` that have their values.
const ROWS: [(&str, &str, &[&str]); 39] = [
    ("one file", "src/tools/limits.rs", &["MAX_FILE"]),
    ("all files", "src/tools/limits.rs", &["MAX_TREE"]),
    ("number of files", "src/tools/limits.rs", &["MAX_TREE_FILES"]),
    ("nested directories", "src/tools/limits.rs", &["MAX_DEPTH"]),
    ("length of a name, of a path", "crates/core/src/flux/source/path.rs", &["MAX_NAME", "MAX_PATH"]),
    ("one git command", "src/tools/limits.rs", &["GIT_TIME"]),
    ("names that a git command prints", "src/tools/limits.rs", &["MAX_GIT_LISTING"]),
    ("claims of one template of a StatefulSet", "crates/core/src/kubernetes/references/reader.rs", &["MAX_REPLICAS"]),
    (
        "events of one object that may or may not happen",
        "crates/core/src/flux/simulation/schedule/explore.rs",
        &["MAX_BRANCHES"],
    ),
    (
        "explored states of one object, times its Kustomizations",
        "crates/core/src/flux/simulation/schedule/explore.rs",
        &["MAX_STEPS"],
    ),
    ("`--plan-timeout` of a plan of a working tree", "src/commands/prune/tree/args.rs", &[]),
    ("private memory of all children that run at the same time", "src/tools/limits.rs", &["MAX_CHILDREN_MEMORY"]),
    ("one dry-run of a preview", "src/commands/prune/rehearsal/mod.rs", &["REQUEST_LIMIT"]),
    ("repetitions of a preview with new answers", "crates/core/src/flux/simulation/rehearsal.rs", &["MAX_ROUNDS"]),
    ("recomputations of a plan", "crates/core/src/flux/simulation/mod.rs", &["MAX_ROUNDS"]),
    ("`expression-length`", "crates/core/src/expression.rs", &["MAX_LENGTH", "MAX_SIGNS", "MAX_OPERATORS"]),
    ("`expression-steps`", "crates/core/src/expression.rs", &["MAX_STEPS", "MAX_RULE_STEPS"]),
    (
        "objects in the `valuesFrom` of a release that change one after the other",
        "crates/core/src/flux/simulation/owners/helm/render/release_values.rs",
        &["MAX_CHANGING_VALUES"],
    ),
    (
        "combinations of permuted inputs that change one after the other",
        "crates/core/src/flux/simulation/owners/resource_set/providers.rs",
        &["MAX_MIXES"],
    ),
    ("lists of steps that `handover` tries", "crates/core/src/flux/handover/mod.rs", &["MAX_LISTS"]),
    ("one message to `mcp`", "src/commands/mcp/mod.rs", &["MAX_MESSAGE"]),
    ("one file of `-f`", "src/tools/limits.rs", &["MAX_FILE"]),
    ("all manifests of `-f`, and standard input", "src/tools/limits.rs", &["MAX_MANIFESTS"]),
    ("number of files of `-f`", "src/tools/limits.rs", &["MAX_MANIFEST_FILES"]),
    ("a snapshot after decompression", "src/tools/limits.rs", &["MAX_SNAPSHOT"]),
    ("expansion of a compressed snapshot above 16 MiB", "src/tools/limits.rs", &["MAX_EXPANSION"]),
    ("a plan file", "src/tools/limits.rs", &["MAX_PLAN"]),
    ("a journal that is continued", "src/tools/limits.rs", &["MAX_JOURNAL"]),
    ("a pipe without a writer", "src/tools/limits.rs", &["WRITER_TIME"]),
    ("a pipe without new data", "src/tools/limits.rs", &["PIPE_TIME"]),
    ("one answer after decompression", "src/cluster/http/limits.rs", &["MAX_ANSWER"]),
    ("pages of a list", "src/cluster/http/limits.rs", &["MAX_PAGES"]),
    ("the same continue token twice", "src/cluster/http/limits.rs", &[]),
    ("time without any data", "src/cluster/http/limits.rs", &["MAX_SILENCE"]),
    (
        "output of a credential plugin; a kubeconfig, certificate, key or token file",
        "src/cluster/http/limits.rs",
        &["MAX_CREDENTIALS"],
    ),
    ("time of a build", "src/tools/limits.rs", &["BUILD_TIME"]),
    ("time of rendering a chart", "src/tools/limits.rs", &["RENDER_TIME"]),
    ("time of printing the version", "src/tools/limits.rs", &["VERSION_TIME"]),
    ("time of one run of qbec", "src/tools/limits.rs", &["QBEC_TIME"]),
];

/// Constants that limit neither what is read nor what it costs: rules of Kubernetes, lengths of messages, values of flags.
const OTHERS: [(&str, &str); 16] = [
    ("crates/core/src/flux/build/charts/values.rs", "MAX_TARGET_PATH"),
    ("crates/core/src/flux/simulation/kustomization/blockers.rs", "MAX_LABEL_LENGTH"),
    ("crates/core/src/flux/simulation/owners/resource_set/providers.rs", "DEFAULT_LIMIT"),
    ("crates/core/src/flux/source/artifact.rs", "MAX_LINKS"),
    ("crates/core/src/flux/suspension/message.rs", "MAX_BYTES"),
    ("crates/core/src/kubernetes/selector/mod.rs", "MAX_LENGTH"),
    ("crates/core/src/kubernetes/selector/mod.rs", "MAX_PREFIX_LENGTH"),
    ("crates/core/src/ownership/read_scope/mod.rs", "MAX_LISTS"),
    ("src/cluster/config/connect.rs", "MAX_CONNECT_TIMEOUT"),
    ("src/cluster/write/schedule.rs", "MAX_AGE"),
    ("src/commands/prune/args.rs", "MAX_PARALLEL"),
    ("src/commands/prune/review.rs", "MAX_AGE"),
    ("src/output/markdown/mod.rs", "LIMIT"),
    ("src/output/text/sanitize.rs", "MAX_LINE_LENGTH"),
    ("src/tools/git/changes.rs", "MAX_POINTER"),
    ("src/tools/git/program.rs", "MAX_MESSAGE"),
];

/// Rows of the child's table that `Limits::of_build` has.
fn limits_of_the_child() -> BTreeMap<&'static str, String> {
    let limits = kubectl_gitops::tools::sandbox::Limits::of_build(std::time::Duration::from_secs(60));
    let (bytes, resources) = (kubectl_gitops::tools::limits::bytes, limits.resources);
    BTreeMap::from([
        ("standard output", bytes(limits.stdout)),
        ("standard error", bytes(limits.stderr)),
        ("private memory", bytes(resources.memory)),
        ("CPU time", format!("{} s", resources.cpu_seconds)),
        ("open files", resources.open_files.to_string()),
        ("size of a written file", bytes(resources.file_size)),
    ])
}

/// Returns the rows of the tables after a heading: name and value.
fn rows(page: &str, heading: &str) -> BTreeMap<String, String> {
    let page = std::fs::read_to_string(page).unwrap();
    let text = page.split_once(heading).unwrap().1;
    let text = if heading.starts_with("## ") { text.split("\n## ").next().unwrap() } else { text };
    let cells = text.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    let cells = cells.filter(|(name, _)| *name != "limit");
    cells.map(|(name, rest)| (name.to_owned(), rest.split('|').next().unwrap().trim().to_owned())).collect()
}

/// Returns the limits in the sources: file and name, and the value as it may be written in a table.
fn constants() -> BTreeMap<(String, String), [String; 2]> {
    let output = std::process::Command::new("git").args(["ls-files", "src/*.rs", "crates/core/src/*.rs"]).output();
    let files = String::from_utf8(output.unwrap().stdout).unwrap();
    let mut found = BTreeMap::new();
    for file in files.lines().filter(|file| Path::new(file).exists()) {
        let text = std::fs::read_to_string(file).unwrap();
        for (name, value) in text.lines().filter_map(constant) {
            let is_limit = name.starts_with("MAX_") || name.contains("LIMIT") || file.ends_with("/limits.rs");
            if is_limit && file != "crates/core/src/plan/limits.rs" {
                found.insert((file.to_owned(), name.to_owned()), value);
            }
        }
    }
    found
}

/// Parses `const NAME: TYPE = VALUE;` with a value such as `64 << 20`.
fn constant(line: &str) -> Option<(&str, [String; 2])> {
    let (before, rest) = line.trim_start().split_once("const ")?;
    let (name, rest) = rest.split_once(": ")?;
    let value = rest.split_once(" = ")?.1.strip_suffix(';')?.replace('_', "");
    let is_name = name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    if !is_name || !(before.is_empty() || before.starts_with("pub")) {
        return None;
    }
    let seconds = value.strip_prefix("Duration::fromsecs(").and_then(|value| value.strip_suffix(')'));
    let number = match value.split_once(" << ") {
        Some((count, shift)) => {
            count.parse::<u64>().ok().zip(shift.parse::<u32>().ok()).map(|(count, shift)| count << shift)
        }
        None => value.parse().ok(),
    };
    let texts = match (seconds, number) {
        (Some(seconds), _) => [format!("{seconds} s"), format!("{seconds} seconds")],
        (None, Some(number)) => [number.to_string(), kubectl_gitops::tools::limits::bytes(number)],
        (None, None) => [value.clone(), value],
    };
    Some((name, texts))
}

#[test]
fn every_limit_is_documented_and_every_documented_limit_exists() {
    let (constants, mut known) = (constants(), BTreeSet::new());
    let mut documented = rows("docs/limits.md", "# Limits");
    documented.extend(rows("docs/safety.md", "## Limits of the child"));
    for bound in gitops_core::bounds::ALL {
        let value = documented.remove(&format!("`{}`", bound.name));
        assert_eq!(value, Some(bound.to_string()), "{} in docs/limits.md", bound.name);
    }
    for (name, value) in limits_of_the_child() {
        let found = documented.remove(name).unwrap_or_default();
        assert!(found.starts_with(&value), "{name} in docs/safety.md is {found:?}, and {value:?} in the code");
    }
    for (row, file, names) in ROWS {
        let shown = documented.remove(row).unwrap_or_else(|| panic!("no row {row:?}"));
        for name in names {
            let key = (file.to_owned(), (*name).to_owned());
            let value = constants.get(&key).unwrap_or_else(|| panic!("{file} has no {name}"));
            let shows =
                |value: &String| shown.split(", ").any(|part| format!("{part} ").starts_with(&format!("{value} ")));
            assert!(value.iter().any(shows), "{row:?} is {shown:?}, and {name} is {value:?}");
            known.insert(key);
        }
    }
    known.extend(OTHERS.map(|(file, name)| (file.to_owned(), name.to_owned())));
    assert_eq!(documented.keys().collect::<Vec<_>>(), Vec::<&String>::new(), "rows without a constant");
    let unknown: Vec<_> = constants.keys().filter(|key| !known.contains(*key)).collect();
    assert!(unknown.is_empty(), "limits without a row: {unknown:?}");
    let gone: Vec<_> = known.iter().filter(|key| !constants.contains_key(*key)).collect();
    assert!(gone.is_empty(), "constants that do not exist: {gone:?}");
}

type AnswerBody = BoxBody<Bytes, Infallible>;

/// Sends a GET to a server that answers with this body, or not at all.
async fn get(body: Option<AnswerBody>) -> Failure {
    let body = std::sync::Mutex::new(body);
    let service = tower::service_fn(move |_: http::Request<kube::client::Body>| {
        let body = body.lock().unwrap().take();
        async move {
            match body {
                Some(body) => Ok::<_, Infallible>(http::Response::new(body)),
                None => std::future::pending().await,
            }
        }
    });
    let cluster = Cluster::with_client(kube::Client::new(service, "default"), "https://silent.invalid");
    cluster.get("/x", "application/json").await.unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn a_server_that_sends_nothing_is_given_up() {
    let started = tokio::time::Instant::now();
    let expected = "Unable to connect to the server: https://silent.invalid did not answer within 300s";
    assert_eq!(get(None).await.to_string(), expected);
    assert_eq!(started.elapsed().as_secs(), 300);
    // A part of the body, and silence afterwards.
    let body = Full::new(Bytes::from_static(b"{")).with_trailers(std::future::pending()).boxed();
    assert_eq!(get(Some(body)).await.to_string(), expected);
    assert_eq!(started.elapsed().as_secs(), 600);
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_not_read() {
    let body = Full::new(Bytes::from(vec![0; (512 << 20) + 1])).boxed();
    let message = get(Some(body)).await.to_string();
    assert!(message.ends_with("it has more than 512 MiB, the limit for one answer"), "{message}");
}

/// Connects with a kubeconfig, and returns the error.
async fn error(folder: &Folder, user: &str, flags: &[&str]) -> String {
    let config = FakeApi::start().kubeconfig_for(folder, user).display().to_string();
    let environment = environment(folder, &[("KUBECONFIG", &config), ("KUBERC", "off")]);
    let found = Cluster::connect_in(&args(flags), &environment).await;
    found.err().expect("an error").message.replace(&folder.path().display().to_string(), "FOLDER")
}

#[tokio::test]
async fn credentials_have_a_limit() {
    let folder = Folder::new("large-credentials");
    let large = folder.path().join("large");
    std::fs::File::create(&large).unwrap().set_len((16 << 20) + 1).unwrap();
    let large = large.display().to_string();
    let limit = "it has more than 16 MiB, the limit";
    let plugin = folder.script("plugin", "yes").display().to_string();
    let exec =
        format!("exec: {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: {plugin}}}");
    let message = error(&folder, &exec, &[]).await;
    assert_eq!(message, "getting credentials: exec plugin printed more than 16 MiB, the limit");
    for (user, flag) in [
        (format!("tokenFile: {large}"), None),
        (format!("client-certificate: {large}, client-key: {large}"), None),
        (String::new(), Some(format!("--certificate-authority={large}"))),
        (String::new(), Some(format!("--kubeconfig={large}"))),
    ] {
        let message = error(&folder, &user, &flag.iter().map(String::as_str).collect::<Vec<_>>()).await;
        assert!(message.ends_with(limit) && message.contains("FOLDER/large"), "{user} {flag:?}: {message}");
    }
    // A device never ends.
    let message = error(&folder, "", &["--certificate-authority=/dev/zero", "--server=https://x.invalid"]).await;
    assert!(message.ends_with(limit), "{message}");
}

#[tokio::test]
async fn a_kubeconfig_of_the_current_directory_is_not_used() {
    let current = Folder::outside_checkouts("current-kubeconfig");
    let marker = current.path().join("marker");
    current.script("plugin", &format!("touch {}", marker.display()));
    let exec = "exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: ./plugin}";
    let config = FakeApi::start().kubeconfig_for(&current, exec);
    std::fs::create_dir(current.path().join(".kube")).unwrap();
    std::fs::rename(config, current.path().join(".kube/config")).unwrap();
    for home in ["", "."] {
        let mut command = std::process::Command::new(test_support::gitops::binary());
        command.arg("get").current_dir(current.path()).env_remove("KUBECONFIG").env("HOME", home);
        let run = test_support::gitops::Run::from(command.output().unwrap());
        assert!(run.code == 1 && run.stderr.contains("no kubeconfig was found"), "{home:?}: {run}");
        assert!(!marker.exists(), "{home:?}");
    }
}
