//! Content of single objects that controllers depend on, read by the paths of built-in types.

use serde_json::Value;

use super::fetch::{is_path_segment, object_path};
use super::list::{Query, collection_path};
use crate::cluster::{Cluster, Failure, FailureKind};
use gitops_core::flux::build::objects::data::{Data, DataRef, Lookup};
use gitops_core::flux::build::objects::query::{ObjectQuery, QueryAnswer};
use gitops_core::helm::records::{RecordsAnswer, RecordsQuery, ReleaseRecords};
use gitops_core::kubernetes::object::{ObjectId, ResourceType};

/// Returns a Deployment with its content.
pub(crate) async fn read_deployment(cluster: &Cluster, id: &ObjectId) -> Result<Value, Failure> {
    let path = format!("/apis/apps/v1/namespaces/{}/deployments/{}", id.namespace, id.name);
    let answer = cluster.get(&path, "application/json").await?;
    Ok(serde_json::from_slice(&answer.body).unwrap_or_default())
}

/// Returns the data of a ConfigMap or Secret, as a controller would read it.
pub(crate) async fn look_up(cluster: &Cluster, reference: &DataRef) -> Lookup {
    match read_data(cluster, reference).await {
        Ok(object) => Lookup::Found(Data::read(&object)),
        Err(failure) if failure.kind == FailureKind::NotFound => Lookup::Missing,
        Err(failure) => Lookup::Unreadable(failure.to_string()),
    }
}

/// Returns a ConfigMap or Secret.
pub(crate) async fn read_data(cluster: &Cluster, reference: &DataRef) -> Result<Value, Failure> {
    let DataRef { kind, namespace, name } = reference;
    let plural = match kind.as_str() {
        "ConfigMap" => "configmaps",
        "Secret" => "secrets",
        _ => return Err(Failure::of_request(format!("{kind} is not a kind that variables are read from"))),
    };
    if ![namespace, name].into_iter().all(|part| is_path_segment(part)) {
        return Err(Failure::of_request(format!("no {kind} can have the name {name:?}")));
    }
    let answer = cluster.get(&format!("/api/v1/namespaces/{namespace}/{plural}/{name}"), "application/json").await?;
    Ok(serde_json::from_slice(&answer.body).unwrap_or_default())
}

/// Returns what Helm's records of a release say, as Helm would read them: one request for all of them. Nothing of their data is
/// kept but what `ReleaseRecords` has.
pub(crate) async fn read_records(cluster: &Cluster, types: &[ResourceType], query: &RecordsQuery) -> RecordsAnswer {
    // Another name has no place in a selector, and Helm refuses it.
    let is_plain = query.name.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c));
    let secrets: Vec<ResourceType> = types.iter().filter(|kind| kind.is("", "Secret")).cloned().collect();
    if secrets.is_empty() || !is_plain || !is_path_segment(&query.namespace) {
        return RecordsAnswer::Unreadable(format!("Helm keeps no records of a release {:?}", query.name));
    }
    let selector = format!("name={},owner=helm", query.name);
    let request = Query { namespace: Some(&query.namespace), selector: Some(&selector) };
    let (found, gaps) = cluster.list_full(&secrets, request).await;
    if let Some(gap) = gaps.first() {
        return RecordsAnswer::Unreadable(gap.message.clone());
    }
    match ReleaseRecords::read(&found, query) {
        Ok(records) => RecordsAnswer::Found(records),
        Err(why) => RecordsAnswer::Unreadable(why),
    }
}

/// Number of objects of one kind that are read with their content. A list that is longer is not read.
const LISTED: usize = 500;

/// Returns an object with its content, or all objects of a kind, in the version that a query asks for. `types` are those that
/// the cluster serves.
pub(crate) async fn answer_query(cluster: &Cluster, types: &[ResourceType], query: &ObjectQuery) -> QueryAnswer {
    let (group, version) = query.group_and_version();
    let Some(served) = types.iter().find(|served| served.is(group, &query.kind)) else {
        return QueryAnswer::Unreadable(format!("the server does not serve {}", query.group_kind()));
    };
    let kind = ResourceType { version: version.into(), ..served.clone() };
    let is_list = query.name.is_empty();
    let names = [&query.namespace, &query.name];
    if !is_path_segment(version) || names.iter().any(|name| !name.is_empty() && !is_path_segment(name)) {
        return QueryAnswer::Unreadable("it has a name that no object can have".to_owned());
    }
    let id = ObjectId::new(group, &query.kind, &query.namespace, &query.name);
    let namespace = Some(&*query.namespace).filter(|namespace| !namespace.is_empty());
    let path =
        if is_list { format!("{}?limit={LISTED}", collection_path(&kind, namespace)) } else { object_path(&kind, &id) };
    match cluster.get(&path, "application/json").await {
        Ok(answer) => match serde_json::from_slice::<Value>(&answer.body) {
            Ok(found) if found.pointer("/metadata/continue").is_some_and(|next| *next != "") => {
                QueryAnswer::Unreadable(format!("there are more than {LISTED}"))
            }
            Ok(found) => QueryAnswer::Found(found),
            Err(error) => QueryAnswer::Unreadable(error.to_string()),
        },
        Err(failure) if failure.kind == FailureKind::NotFound && !is_list => QueryAnswer::Missing,
        Err(failure) => QueryAnswer::Unreadable(failure.to_string()),
    }
}
