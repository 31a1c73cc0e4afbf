//! Paged lists of one type, with metadata only or with content. After a 410 (expired) the list starts over once, unpaged.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::metadata::{Interner, RawMetadata, trim};
use super::protobuf::PartialList;
use crate::cluster::http::limits;
use crate::cluster::{Cluster, FailureKind, Response};
use gitops_core::kubernetes::gap::{Gap, GapKind};
use gitops_core::kubernetes::object::{ObjectMetadata, Resource, ResourceType};

/// Protobuf, or JSON from servers without it (aggregated APIs).
const METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
                        application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const JSON: &str = "application/json";

/// Page size: large enough that most types need one request, small enough to bound memory.
const PAGE: usize = 1000;

/// Appends the items of one page. Returns the token of the next page, empty after the last.
type PageReader<'a, T> = dyn FnMut(&Response, &mut Vec<T>) -> Result<String, String> + Send + 'a;

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

impl Cluster {
    /// Lists the metadata of all objects of a type.
    pub async fn list_metadata(&self, kind: &ResourceType, query: Query<'_>) -> Listing<ObjectMetadata> {
        let mut interner = Interner::default();
        self.list(kind, query, METADATA, &mut |page, items| read_metadata(page, kind, &mut interner, items)).await
    }

    /// Lists all objects of a type with their content.
    pub async fn list_full(&self, kind: &ResourceType, query: Query<'_>) -> Listing<Resource> {
        let mut interner = Interner::default();
        self.list(kind, query, JSON, &mut |page, items| read_full(page, kind, &mut interner, items)).await
    }

    async fn list<T>(
        &self,
        kind: &ResourceType,
        query: Query<'_>,
        accept: &str,
        read_page: &mut PageReader<'_, T>,
    ) -> Listing<T> {
        let mut items = vec![];
        let mut page = Page::Token(String::new());
        let mut tokens = HashSet::new();
        loop {
            let gap = match self.get(&list_path(kind, query, &page), accept).await {
                Ok(response) => match read_page(&response, &mut items) {
                    Ok(token) if token.is_empty() => return Listing { items, gap: None },
                    Ok(token) => match check_progress(&mut tokens, &token, items.len()) {
                        Ok(()) => {
                            page = Page::Token(token);
                            continue;
                        }
                        Err(message) => unreadable(kind, message),
                    },
                    Err(message) => unreadable(kind, message),
                },
                // The revision of the first page is gone; one list without pages is consistent again.
                Err(failure) if failure.kind == FailureKind::Expired && page != Page::All => {
                    items.clear();
                    page = Page::All;
                    continue;
                }
                Err(failure) => failure.gap(kind.resource(), query.namespace),
            };
            return Listing { items, gap: Some(gap) };
        }
    }
}

fn unreadable(kind: &ResourceType, message: String) -> Gap {
    Gap { kind: GapKind::Failed, subject: kind.resource(), namespace: None, message }
}

/// Checks that a list with one more page can end. `tokens` are those of the pages so far.
fn check_progress(tokens: &mut HashSet<String>, token: &str, objects: usize) -> Result<(), String> {
    if objects > limits::MAX_OBJECTS {
        return Err(format!("the list has more than {} objects, the limit", limits::MAX_OBJECTS));
    }
    if tokens.len() >= limits::MAX_PAGES {
        return Err(format!("the list has more than {} pages, the limit", limits::MAX_PAGES));
    }
    match tokens.insert(token.to_owned()) {
        true => Ok(()),
        false => Err("the server names a page of the list as the next one that it sent before".to_owned()),
    }
}

/// The part of a list that one request asks for.
#[derive(PartialEq, Eq)]
enum Page {
    /// A page by its continue token; the empty token is the first page.
    Token(String),
    All,
}

/// Returns path and query string of a list request.
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
    let namespace = namespace.filter(|_| kind.namespaced).map(|name| format!("/namespaces/{name}")).unwrap_or_default();
    format!("{root}/{}{namespace}/{}", kind.api_version(), kind.plural)
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

/// Reads one object with its content from JSON.
pub(crate) fn full_object(json: &str, kind: &ResourceType, interner: &mut Interner) -> Result<Resource, String> {
    let partial: Partial<'_> = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let mut content: serde_json::Map<String, Value> = serde_json::from_str(json).map_err(|error| error.to_string())?;
    for key in ["apiVersion", "kind", "metadata"] {
        content.remove(key);
    }
    let mut object = trim(&partial.metadata, kind, interner);
    object.managed_fields = super::metadata::writers(&partial.metadata, interner);
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
    metadata: RawMetadata<'a>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_ends() {
        let mut tokens = HashSet::new();
        for number in 0..limits::MAX_PAGES {
            check_progress(&mut tokens, &number.to_string(), 0).unwrap();
        }
        assert!(check_progress(&mut tokens, "one more", 0).unwrap_err().contains("10000 pages"));
        let mut tokens = HashSet::from(["again".to_owned()]);
        assert!(check_progress(&mut tokens, "again", 0).unwrap_err().contains("sent before"));
        assert!(check_progress(&mut tokens, "next", limits::MAX_OBJECTS + 1).unwrap_err().contains("5000000 objects"));
    }

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
