//! Paged lists of one type, with metadata only or with content. After a 410 (expired) the list starts over once, unpaged.
//!
//! An answer that is no list of the type, or a list with a page missing, ends in a gap (docs/reference/kubectl-plugin.md
//! 6.6).

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::task::JoinSet;

use super::format::answer::{PageEnd, Pages, check_item, check_item_type, check_list, check_object, check_stored};
use super::format::metadata::{Interner, RawMetadata, trim, writers, writers_of_spec};
use super::format::protobuf::PartialList;
use crate::cluster::connection::{Cluster, Response};
use crate::cluster::http::failure::{Failure, FailureKind};
use gitops_core::kubernetes::gap::Gap;
use gitops_core::kubernetes::object::{ObjectId, ObjectMetadata, Resource, ResourceType};
use gitops_core::kubernetes::referrer::Referrer;
use gitops_core::ownership::schemes::{flux_helmrelease, flux_kustomization};

/// Protobuf, or JSON from servers without it (aggregated APIs).
const METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
                        application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const JSON: &str = "application/json";

/// Page size: large enough that most types need one request, small enough to bound memory.
const PAGE: usize = 1000;

/// Part that is kept of an object of a list.
pub(super) trait Item: Sized + Send + 'static {
    /// The Accept header of a request for it.
    const ACCEPT: &str;

    /// Appends the items of one page. Returns what the page says about the pages after it.
    fn read_page(
        page: &Response,
        kind: &ResourceType,
        query: Query<'_>,
        interner: &mut Interner,
        items: &mut Vec<Self>,
    ) -> Result<PageEnd, String>;
}

/// Restriction of a list.
#[derive(Clone, Copy, Debug, Default)]
pub struct Query<'a> {
    /// `None` lists all namespaces. Ignored for cluster-scoped types.
    pub namespace: Option<&'a str>,
    pub selector: Option<&'a str>,
}

/// Result of one list.
#[derive(Debug)]
pub struct Listing<T> {
    pub items: Vec<T>,
    /// The failure that ended the list early.
    pub gap: Option<Gap>,
}

/// One list of many.
#[derive(Clone)]
pub(super) struct ListRequest {
    pub(super) kind: ResourceType,
    pub(super) namespace: Option<Arc<str>>,
    /// Empty for all objects.
    pub(super) selector: Arc<str>,
}

impl Cluster {
    pub async fn list_metadata(&self, kind: &ResourceType, query: Query<'_>) -> Listing<ObjectMetadata> {
        list(self, kind, query).await
    }

    /// Returns all objects of these types with their content, sorted by identity, and a gap for each unreadable type.
    pub async fn list_full(&self, types: &[ResourceType], query: Query<'_>) -> (Vec<Resource>, Vec<Gap>) {
        let namespace = query.namespace.map(Arc::from);
        let selector: Arc<str> = Arc::from(query.selector.unwrap_or_default());
        let requests = types.iter().map(|kind| ListRequest {
            kind: kind.clone(),
            namespace: namespace.clone(),
            selector: selector.clone(),
        });
        let (mut objects, mut gaps) = list_all::<Resource>(self, requests).await;
        objects.sort_by(|a, b| a.object.id.cmp(&b.object.id));
        gaps.sort();
        (objects, gaps)
    }
}

/// Sends all these lists at the same time, each in a task of its own, so that they are decoded in parallel. Returns the
/// objects in any order, and a gap for each list that failed.
pub(super) async fn list_all<T: Item>(
    cluster: &Cluster,
    requests: impl Iterator<Item = ListRequest>,
) -> (Vec<T>, Vec<Gap>) {
    let lists: JoinSet<Listing<T>> = requests.map(|request| list_one(cluster.clone(), request)).collect();
    let mut items = vec![];
    let mut gaps = vec![];
    for listing in lists.join_all().await {
        items.extend(listing.items);
        gaps.extend(listing.gap);
    }
    (items, gaps)
}

async fn list_one<T: Item>(cluster: Cluster, request: ListRequest) -> Listing<T> {
    let selector = Some(&*request.selector).filter(|selector| !selector.is_empty());
    list(&cluster, &request.kind, Query { namespace: request.namespace.as_deref(), selector }).await
}

async fn list<T: Item>(cluster: &Cluster, kind: &ResourceType, query: Query<'_>) -> Listing<T> {
    let mut interner = Interner::default();
    let mut items = vec![];
    let mut page = Page::Token(String::new());
    let mut pages = Pages::default();
    loop {
        let gap = match cluster.get(&list_path(kind, query, &page), T::ACCEPT).await {
            Ok(response) => {
                let end = T::read_page(&response, kind, query, &mut interner, &mut items);
                match end.and_then(|end| pages.next(end, items.len())) {
                    Ok(None) => return Listing { items, gap: None },
                    Ok(Some(token)) => {
                        page = Page::Token(token);
                        continue;
                    }
                    Err(problem) => Failure::unreadable(problem).gap(kind.resource(), query.namespace),
                }
            }
            // The revision of the first page is gone; one list without pages is consistent again.
            Err(failure) if failure.kind == FailureKind::Expired && page != Page::All => {
                items.clear();
                pages = Pages::default();
                page = Page::All;
                continue;
            }
            Err(failure) => failure.gap(kind.resource(), query.namespace),
        };
        return Listing { items, gap: Some(gap) };
    }
}

/// The part of a list that one request asks for.
#[derive(PartialEq, Eq)]
enum Page {
    /// A page by its continue token; the empty token is the first page.
    Token(String),
    All,
}

fn list_path(kind: &ResourceType, query: Query<'_>, page: &Page) -> String {
    let mut parameters = vec![];
    if let Some(selector) = query.selector {
        parameters.push(format!("labelSelector={}", encode(selector)));
    }
    if let Page::Token(token) = page {
        parameters.push(format!("limit={PAGE}"));
        if !token.is_empty() {
            parameters.push(format!("continue={}", encode(token)));
        }
    }
    let path = collection_path(kind, query.namespace);
    if parameters.is_empty() { path } else { format!("{path}?{}", parameters.join("&")) }
}

/// Returns the URL path of the objects of a type, in one namespace or in all.
pub(crate) fn collection_path(kind: &ResourceType, namespace: Option<&str>) -> String {
    let root = if kind.group.is_empty() { "/api" } else { "/apis" };
    let place = namespace.filter(|_| kind.namespaced).map(|name| format!("/namespaces/{name}")).unwrap_or_default();
    format!("{root}/{}{place}/{}", kind.api_version(), kind.plural)
}

/// Percent-encodes a query value.
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'-' | b'.' | b'_' | b'~' => encoded.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

impl Item for ObjectMetadata {
    const ACCEPT: &str = METADATA;

    fn read_page(
        page: &Response,
        kind: &ResourceType,
        query: Query<'_>,
        interner: &mut Interner,
        items: &mut Vec<Self>,
    ) -> Result<PageEnd, String> {
        if page.content_type.starts_with("application/vnd.kubernetes.protobuf") {
            let list = PartialList::read(&page.body)?;
            items.reserve(list.len());
            for item in list.items() {
                let metadata = item?;
                check_item(&metadata, kind, query.namespace)?;
                items.push(trim(&metadata, kind, interner));
            }
            return Ok(list.end());
        }
        let list: List<Partial<'_>> = serde_json::from_slice(&page.body).map_err(|error| error.to_string())?;
        check_list(&list.kind, &list.api_version, kind, true)?;
        for item in &list.items {
            check_item_type(&item.kind, kind, true)?;
            check_item(&item.metadata, kind, query.namespace)?;
            items.push(trim(&item.metadata, kind, interner));
        }
        Ok(list.metadata)
    }
}

impl Item for Resource {
    const ACCEPT: &str = JSON;

    fn read_page(
        page: &Response,
        kind: &ResourceType,
        query: Query<'_>,
        interner: &mut Interner,
        items: &mut Vec<Self>,
    ) -> Result<PageEnd, String> {
        let list: List<&RawValue> = serde_json::from_slice(&page.body).map_err(|error| error.to_string())?;
        check_list(&list.kind, &list.api_version, kind, false)?;
        for item in list.items {
            let partial: Partial<'_> = serde_json::from_str(item.get()).map_err(|error| error.to_string())?;
            check_item_type(&partial.kind, kind, false)?;
            check_item(&partial.metadata, kind, query.namespace)?;
            items.push(with_content(item.get(), &partial, kind, interner)?);
        }
        Ok(list.metadata)
    }
}

/// An object of which only what it refers to is kept.
pub(super) struct LiveReferrer(pub(super) Option<Referrer>);

impl Item for LiveReferrer {
    const ACCEPT: &str = JSON;

    fn read_page(
        page: &Response,
        kind: &ResourceType,
        query: Query<'_>,
        interner: &mut Interner,
        items: &mut Vec<Self>,
    ) -> Result<PageEnd, String> {
        let mut whole: Vec<Resource> = vec![];
        let end = Resource::read_page(page, kind, query, interner, &mut whole)?;
        items.extend(whole.iter().map(|object| Self(Referrer::of_live(object))));
        Ok(end)
    }
}

/// Reads one object with its content from the answer to a GET or a PATCH. Fails if it is another object than `id`.
pub(crate) fn full_object(json: &str, kind: &ResourceType, id: &ObjectId) -> Result<Resource, String> {
    let partial: Partial<'_> = serde_json::from_str(json).map_err(|error| error.to_string())?;
    check_object(&partial.kind, &partial.api_version, &partial.metadata, kind, id, false)?;
    check_stored(&partial.metadata, id)?;
    with_content(json, &partial, kind, &mut Interner::default())
}

/// Checks the answer to a dry-run. Fails if it is another object than `id`.
pub(crate) fn check_dry_run(json: &str, kind: &ResourceType, id: &ObjectId) -> Result<(), String> {
    let partial: Partial<'_> = serde_json::from_str(json).map_err(|error| error.to_string())?;
    check_object(&partial.kind, &partial.api_version, &partial.metadata, kind, id, false)
}

/// Reads one object with its content from a watch of its type.
pub(crate) fn watched_object(json: &str, kind: &ResourceType) -> Result<Resource, String> {
    let partial: Partial<'_> = serde_json::from_str(json).map_err(|error| error.to_string())?;
    check_item(&partial.metadata, kind, None)?;
    with_content(json, &partial, kind, &mut Interner::default())
}

/// Reads the metadata of one object from the answer to a GET. Fails if it is another object than `id`.
pub(crate) fn object_metadata(json: &str, kind: &ResourceType, id: &ObjectId) -> Result<ObjectMetadata, String> {
    let partial: Partial<'_> = serde_json::from_str(json).map_err(|error| error.to_string())?;
    check_object(&partial.kind, &partial.api_version, &partial.metadata, kind, id, true)?;
    check_stored(&partial.metadata, id)?;
    Ok(trim(&partial.metadata, kind, &mut Interner::default()))
}

fn with_content(
    json: &str,
    partial: &Partial<'_>,
    kind: &ResourceType,
    interner: &mut Interner,
) -> Result<Resource, String> {
    let mut content: serde_json::Map<String, Value> = serde_json::from_str(json).map_err(|error| error.to_string())?;
    for key in ["apiVersion", "kind", "metadata"] {
        content.remove(key);
    }
    let mut object = trim(&partial.metadata, kind, interner);
    let is_applied_by_parents = object.id.is(flux_kustomization::GROUP, flux_kustomization::KIND)
        || object.id.is(flux_helmrelease::GROUP, flux_helmrelease::KIND);
    object.managed_fields = if is_applied_by_parents {
        writers_of_spec(&partial.metadata, interner)
    } else {
        writers(&partial.metadata, interner)
    };
    Ok(Resource { object, content: Value::Object(content) })
}

/// A list in JSON. All fields but those of the metadata must be there.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct List<T> {
    kind: String,
    api_version: String,
    metadata: PageEnd,
    items: Vec<T>,
}

/// An object in JSON. Items of built-in types have no kind.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Partial<'a> {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    api_version: String,
    #[serde(borrow)]
    metadata: RawMetadata<'a>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_paths() {
        let mut kind = ResourceType {
            group: "apps".into(),
            version: "v1".into(),
            kind: "Deployment".into(),
            plural: "deployments".into(),
            singular: "deployment".into(),
            short_names: vec![],
            namespaced: true,
        };
        assert_eq!(collection_path(&kind, Some("shop")), "/apis/apps/v1/namespaces/shop/deployments");
        let query = Query { namespace: None, selector: Some("a=b,!c") };
        let path = "/apis/apps/v1/deployments?labelSelector=a%3Db%2C%21c";
        assert_eq!(list_path(&kind, query, &Page::All), path);
        assert_eq!(list_path(&kind, query, &Page::Token(String::new())), format!("{path}&limit=1000"));
        assert_eq!(list_path(&kind, query, &Page::Token("a=".into())), format!("{path}&limit=1000&continue=a%3D"));
        assert_eq!(list_path(&kind, Query::default(), &Page::All), "/apis/apps/v1/deployments");
        kind.group = "".into();
        kind.namespaced = false;
        assert_eq!(collection_path(&kind, Some("shop")), "/api/v1/deployments");
    }
}
