//! Candidates from the kubeconfig and the cluster. Whatever fails or takes too long has none: a shell must not wait, and a
//! message would destroy the line that is being typed.

use std::time::Duration;

use futures::future::join_all;
use gitops_core::flux::kinds::{FluxKind, KINDS};
use gitops_core::kubernetes::object::{ResourceType, plural};
use gitops_core::ownership::SYSTEMS;
use serde_json::Value;

use super::question::{Line, Question};
use crate::cluster::config::args::parse_duration;
use crate::cluster::config::environment::Environment;
use crate::cluster::config::kubeconfig;
use crate::cluster::{Cluster, Query};
use crate::commands::resource_args::is_named;
use crate::tools::git::Checkout;
use gitops_core::plan::grave::GraveKind;

/// Time for all requests, unless [`WAIT_VARIABLE`] has another. People notice a delay of 300 ms.
const WAIT: Duration = Duration::from_millis(250);
/// Environment variable with the time that completion waits for a cluster that is far away.
const WAIT_VARIABLE: &str = "KUBECTL_GITOPS_COMPLETION_WAIT";
/// Metadata of the objects in a list, or whole objects from servers that cannot reduce them.
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
/// Kinds of owners that a user names most: group and kind.
const OWNERS: [(&str, &str); 5] = [
    ("kustomize.toolkit.fluxcd.io", "Kustomization"),
    ("helm.toolkit.fluxcd.io", "HelmRelease"),
    ("fluxcd.controlplane.io", "ResourceSet"),
    ("fluxcd.controlplane.io", "FluxInstance"),
    ("argoproj.io", "Application"),
];

/// Returns the candidates that begin with `typed`, sorted.
pub(super) fn candidates(question: Question, line: &Line, typed: &str) -> Vec<String> {
    let mut found = match question {
        Question::Systems => SYSTEMS.iter().map(|system| (*system).to_owned()).collect(),
        Question::Contexts | Question::Clusters | Question::Users => entries(question, line),
        Question::ContextList => listed(typed, entries(Question::Contexts, line)),
        Question::GraveKinds => listed(typed, GraveKind::ALL.map(|kind| kind.name().to_owned()).into()),
        Question::Branches => branches(line),
        Question::Objects if line.words.is_empty() && !typed.contains('/') => flux_types(typed),
        _ => within_time(from_cluster(question, line, typed)),
    };
    found.retain(|candidate| candidate.starts_with(typed) && !candidate.chars().any(char::is_control));
    found.sort_unstable();
    found.dedup();
    found
}

/// Returns names in the kubeconfig.
fn entries(question: Question, line: &Line) -> Vec<String> {
    let Ok(names) = kubeconfig::names(&line.connection, &Environment::process()) else { return vec![] };
    match question {
        Question::Contexts => names.contexts,
        Question::Clusters => names.clusters,
        _ => names.users,
    }
}

/// Returns the part of a list before its last entry, with the comma.
fn listed_before(typed: &str) -> &str {
    typed.rfind(',').map_or("", |at| &typed[..=at])
}

/// Returns the local and remote branches of the checkout.
fn branches(line: &Line) -> Vec<String> {
    let checkout = Checkout::containing(&line.checkout).ok().flatten();
    checkout.and_then(|checkout| checkout.branches().ok()).unwrap_or_default()
}

/// Returns the names that are not listed yet, each after the ones before it.
fn listed(typed: &str, mut found: Vec<String>) -> Vec<String> {
    let before = listed_before(typed);
    found.retain(|name| !before.split(',').any(|listed| listed == name));
    found.iter().map(|name| format!("{before}{name}")).collect()
}

/// Returns the types of Flux. Several types have commas between them.
fn flux_types(typed: &str) -> Vec<String> {
    let before = listed_before(typed);
    let mut found: Vec<String> = KINDS.iter().map(|kind| format!("{before}{}", plural(kind.kind))).collect();
    if before.is_empty() {
        found.push("all".to_owned());
    }
    found
}

/// Runs requests until they are done or the time is over.
fn within_time(requests: impl Future<Output = Option<Vec<String>>>) -> Vec<String> {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return vec![] };
    let variable = std::env::var(WAIT_VARIABLE).ok();
    let wait = variable.and_then(|text| parse_duration(&text)).unwrap_or(WAIT);
    let found = runtime.block_on(async { tokio::time::timeout(wait, requests).await });
    // A lookup of a name may still run.
    runtime.shutdown_background();
    found.ok().flatten().unwrap_or_default()
}

async fn from_cluster(question: Question, line: &Line, typed: &str) -> Option<Vec<String>> {
    let environment = Environment { interactive: false, silent: true, ..Environment::process() };
    let cluster = Cluster::connect_in(&line.connection, &environment).await.ok()?;
    match question {
        Question::Namespaces => names(&cluster, "/api/v1/namespaces").await,
        Question::Objects => Some(flux_objects(&cluster, line, typed).await),
        Question::Owners => Some(owners(&cluster, typed).await),
        Question::Types => {
            let before = listed_before(typed);
            let types = cluster.discover().await.ok()?.types;
            Some(types.iter().map(|kind| format!("{before}{}", kind.plural)).collect())
        }
        _ => any_object(&cluster, typed).await,
    }
}

/// Returns the names of a list.
async fn names(cluster: &Cluster, path: &str) -> Option<Vec<String>> {
    let list = items(cluster, path).await?;
    Some(list.into_iter().map(|(_, name)| name).collect())
}

/// Returns namespace and name of each object of a list.
async fn items(cluster: &Cluster, path: &str) -> Option<Vec<(String, String)>> {
    let list = json(cluster, path, METADATA).await?;
    let items = list["items"].as_array()?.iter();
    Some(items.map(|item| (metadata(item, "namespace"), metadata(item, "name"))).collect())
}

fn metadata(item: &Value, field: &str) -> String {
    item["metadata"][field].as_str().unwrap_or_default().to_owned()
}

async fn json(cluster: &Cluster, path: &str, accept: &str) -> Option<Value> {
    let answer = cluster.get(path, accept).await.ok()?;
    serde_json::from_slice(&answer.body).ok()
}

/// Returns the path of a type in the version that the server prefers, in one namespace or in all.
async fn path(cluster: &Cluster, group: &str, kind: &str, namespace: Option<&str>) -> Option<String> {
    let answer = json(cluster, &format!("/apis/{group}"), "application/json").await?;
    let version = answer["preferredVersion"]["groupVersion"].as_str()?;
    let place = namespace.map(|namespace| format!("namespaces/{namespace}/")).unwrap_or_default();
    Some(format!("/apis/{version}/{place}{}", plural(kind)))
}

/// Returns the names of Flux objects of the types that come first, or as TYPE/NAME.
async fn flux_objects(cluster: &Cluster, line: &Line, typed: &str) -> Vec<String> {
    let (types, before) = match (typed.split_once('/'), line.words.split_first()) {
        (Some((word, _)), None) => (word, format!("{word}/")),
        (Some((word, _)), Some((first, _))) if first.contains('/') => (word, format!("{word}/")),
        (None, Some((types, _))) if !types.contains('/') => (types.as_str(), String::new()),
        _ => return vec![],
    };
    let kinds = types.split(',').filter_map(flux_kind).map(|kind| async move {
        let namespace = (!line.all_namespaces).then_some(cluster.namespace.as_str());
        names(cluster, &path(cluster, kind.group, kind.kind, namespace).await?).await
    });
    let found = join_all(kinds).await.into_iter().flatten().flatten().map(|name| format!("{before}{name}"));
    found.filter(|name| !line.words.contains(name)).collect()
}

/// Returns the kind of Flux that a word names without a cluster.
fn flux_kind(word: &str) -> Option<&'static FluxKind> {
    let lower = word.to_lowercase();
    let name = lower.split('.').next().unwrap_or_default();
    KINDS
        .iter()
        .find(|kind| kind.kind.to_lowercase() == name || plural(kind.kind) == name || kind.aliases.contains(&name))
}

/// Returns owners as KIND/NAME, or as NAMESPACE/KIND/NAME if the typed text begins a namespace.
async fn owners(cluster: &Cluster, typed: &str) -> Vec<String> {
    let namespace = cluster.namespace_given.then_some(cluster.namespace.as_str());
    let lists = OWNERS.map(|(group, kind)| async move {
        let list = path(cluster, group, kind, namespace).await?;
        Some((kind.to_lowercase(), items(cluster, &list).await?))
    });
    let found: Vec<(String, String)> = join_all(lists)
        .await
        .into_iter()
        .flatten()
        .flat_map(|(kind, objects)| {
            objects.into_iter().map(move |(namespace, name)| (namespace, format!("{kind}/{name}")))
        })
        .collect();
    if found.iter().any(|(_, owner)| owner.starts_with(typed)) {
        return found.into_iter().map(|(_, owner)| owner).collect();
    }
    found.into_iter().map(|(namespace, owner)| format!("{namespace}/{owner}")).collect()
}

/// Returns TYPE/NAME of any type; before the slash, types.
async fn any_object(cluster: &Cluster, typed: &str) -> Option<Vec<String>> {
    let types = cluster.discover().await.ok()?.types;
    let Some((word, _)) = typed.split_once('/') else {
        return Some(types.iter().map(|kind| format!("{}/", singular(kind))).collect());
    };
    let kind = types.iter().find(|kind| is_named(kind, word))?;
    let query = Query { namespace: Some(&cluster.namespace), selector: None };
    let objects = cluster.list_metadata(kind, query).await.items;
    Some(objects.iter().map(|object| format!("{word}/{}", object.id.name)).collect())
}

fn singular(kind: &ResourceType) -> String {
    if kind.singular.is_empty() { kind.kind.to_lowercase() } else { kind.singular.to_string() }
}
