//! Lists of one type: metadata only for the sweep, whole objects for owners; in pages, and a 410 is survived once.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::metadata::{Interner, MetadataVisitor, trim};
use crate::cluster::http::protobuf::PartialList;
use crate::cluster::{Cluster, FailureKind, Response};
use gitops_core::kubernetes::gap::{Gap, GapKind};
use gitops_core::kubernetes::object::{ObjectMetadata, Resource, ResourceType};

/// Protobuf first, JSON where the server of a type can't.
const METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
                        application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const JSON: &str = "application/json";

/// Objects a page holds at most: large enough that most types need one request, small enough to bound memory.
const PAGE: usize = 1000;

/// Reads one response into the items and gives the token of the next page, empty after the last.
type PageReader<'a, T> = dyn FnMut(&Response, &mut Vec<T>) -> Result<String, String> + Send + 'a;

/// What to list of a type.
#[derive(Clone, Copy, Debug, Default)]
pub struct Query<'a> {
    /// Only this namespace; every namespace otherwise. Ignored for cluster-scoped types.
    pub namespace: Option<&'a str>,
    /// Label selector.
    pub selector: Option<&'a str>,
}

/// What one list gave.
#[derive(Debug)]
pub struct Listing<T> {
    /// What could be read.
    pub items: Vec<T>,
    /// Why it is not everything.
    pub gap: Option<Gap>,
}

impl Cluster {
    /// Metadata of every object of a type.
    pub async fn list_metadata(&self, kind: &ResourceType, query: Query<'_>) -> Listing<ObjectMetadata> {
        let mut interner = Interner::default();
        let mut page =
            |response: &Response, items: &mut Vec<ObjectMetadata>| read_metadata(response, kind, &mut interner, items);
        self.list(kind, query, METADATA, &mut page).await
    }

    /// Every object of a type with its content.
    pub async fn list_full(&self, kind: &ResourceType, query: Query<'_>) -> Listing<Resource> {
        let mut interner = Interner::default();
        let mut page = |response: &Response, items: &mut Vec<Resource>| read_full(response, kind, &mut interner, items);
        self.list(kind, query, JSON, &mut page).await
    }

    /// Follows the pages.
    async fn list<T>(
        &self,
        kind: &ResourceType,
        query: Query<'_>,
        accept: &str,
        page: &mut PageReader<'_, T>,
    ) -> Listing<T> {
        let path = list_path(kind, query);
        let mut items = vec![];
        let mut token = String::new();
        let mut whole = false;
        loop {
            let request = if whole { path.clone() } else { format!("{path}limit={PAGE}&continue={}", encode(&token)) };
            let gap = match self.get(request.trim_end_matches("&continue=").trim_end_matches(['&', '?']), accept).await
            {
                Ok(response) => match page(&response, &mut items) {
                    Ok(next) if next.is_empty() => return Listing { items, gap: None },
                    Ok(next) => {
                        token = next;
                        continue;
                    }
                    Err(message) => Gap { kind: GapKind::Failed, subject: kind.resource(), namespace: None, message },
                },
                // The revision of the first page is gone: one list without pages is consistent again.
                Err(failure) if failure.kind == FailureKind::Expired && !whole => {
                    items.clear();
                    whole = true;
                    continue;
                }
                Err(failure) => failure.gap(kind.resource(), query.namespace),
            };
            return Listing { items, gap: Some(gap) };
        }
    }
}

/// Path and the start of the query string of a list, ending in `?` or `&`.
fn list_path(kind: &ResourceType, query: Query<'_>) -> String {
    let mut path = collection_path(kind, query.namespace);
    path.push('?');
    if let Some(selector) = query.selector {
        path.push_str(&format!("labelSelector={}&", encode(selector)));
    }
    path
}

/// URL path of a type's objects.
pub(crate) fn collection_path(kind: &ResourceType, namespace: Option<&str>) -> String {
    let root = if kind.group.is_empty() { "/api" } else { "/apis" };
    let namespace = namespace.filter(|_| kind.namespaced).map(|name| format!("/namespaces/{name}")).unwrap_or_default();
    format!("{root}/{}{namespace}/{}", kind.api_version(), kind.plural)
}

/// Percent-encodes a query value.
fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

fn read_metadata(
    response: &Response,
    kind: &ResourceType,
    interner: &mut Interner,
    items: &mut Vec<ObjectMetadata>,
) -> Result<String, String> {
    if response.content_type.starts_with("application/vnd.kubernetes.protobuf") {
        let list = PartialList::read(&response.body)?;
        items.reserve(list.len());
        for metadata in list.items() {
            items.push(trim(&metadata?, kind, interner));
        }
        return Ok(list.continue_token.into_owned());
    }
    let list: List<'_, Partial<'_>> = serde_json::from_slice(&response.body).map_err(|error| error.to_string())?;
    items.extend(list.items.iter().map(|item| trim(&item.metadata, kind, interner)));
    Ok(list.metadata.continue_token)
}

fn read_full(
    response: &Response,
    kind: &ResourceType,
    interner: &mut Interner,
    items: &mut Vec<Resource>,
) -> Result<String, String> {
    let list: List<'_, &RawValue> = serde_json::from_slice(&response.body).map_err(|error| error.to_string())?;
    for item in list.items {
        items.push(full_object(item.get(), kind, interner)?);
    }
    Ok(list.metadata.continue_token)
}

/// One whole object from its JSON.
///
/// # Errors
/// What is wrong with the JSON.
pub(crate) fn full_object(json: &str, kind: &ResourceType, interner: &mut Interner) -> Result<Resource, String> {
    let partial: Partial<'_> = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let mut content: serde_json::Map<String, Value> = serde_json::from_str(json).map_err(|error| error.to_string())?;
    for key in ["apiVersion", "kind", "metadata"] {
        content.remove(key);
    }
    let mut object = trim(&partial.metadata, kind, interner);
    object.writers = super::metadata::writers(&partial.metadata, interner);
    Ok(Resource { object, content: Value::Object(content) })
}

#[derive(Deserialize)]
struct List<'a, T> {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(default = "Vec::new")]
    items: Vec<T>,
    #[serde(skip)]
    _borrowed: std::marker::PhantomData<&'a ()>,
}

#[derive(Default, Deserialize)]
struct ListMeta {
    #[serde(default, rename = "continue")]
    continue_token: String,
}

#[derive(Deserialize)]
struct Partial<'a> {
    #[serde(borrow)]
    metadata: MetadataVisitor<'a>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_api() {
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
        assert_eq!(
            list_path(&kind, Query { namespace: None, selector: Some("a=b,!c") }),
            "/apis/apps/v1/deployments?labelSelector=a%3Db%2C%21c&"
        );
        kind.group = "".into();
        kind.namespaced = false;
        assert_eq!(collection_path(&kind, Some("shop")), "/api/v1/deployments");
    }
}
