//! Checks that an answer is what was asked for: the list or the object of this type, whole. Proxies, login pages and broken
//! servers answer with status 200 too, and an empty list must never come from them.

use std::collections::HashSet;

use serde::Deserialize;

use super::metadata::RawMetadata;
use crate::cluster::http::limits::MAX_PAGES;
use gitops_core::kubernetes::object::{ObjectId, ResourceType};

/// `metadata` of a page of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PageEnd {
    pub(crate) resource_version: String,
    /// Token of the next page; empty on the last page.
    #[serde(rename = "continue")]
    pub(crate) continue_token: String,
    /// Number of items on the pages after this one, where the server counts them.
    pub(crate) remaining_item_count: Option<i64>,
}

/// The pages of one list that were read so far.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    tokens: HashSet<String>,
    /// Number of items that the list has, as its first page says.
    announced: Option<usize>,
}

impl Pages {
    /// Returns the token of the next page, or `None` after the last, when `read` items were read.
    ///
    /// Fails if the page has no resource version, if pages repeat or are missing, and if there are too many.
    pub(crate) fn next(&mut self, end: PageEnd, read: usize) -> Result<Option<String>, String> {
        if end.resource_version.is_empty() {
            return Err("the list has no resourceVersion".to_owned());
        }
        let remaining = end.remaining_item_count.and_then(|count| usize::try_from(count).ok()).unwrap_or_default();
        if self.tokens.is_empty() && remaining > 0 {
            self.announced = Some(read + remaining);
        }
        if end.continue_token.is_empty() {
            let announced = self.announced.unwrap_or_default().max(read + remaining);
            return match announced.checked_sub(read) {
                Some(missing) if missing > 0 => {
                    Err(format!("{missing} of {announced} objects are missing in the list"))
                }
                _ => Ok(None),
            };
        }
        if self.tokens.len() == MAX_PAGES {
            return Err(format!("the list has more than {MAX_PAGES} pages, the limit"));
        }
        if !self.tokens.insert(end.continue_token.clone()) {
            return Err("the list repeats a continue token".to_owned());
        }
        Ok(Some(end.continue_token))
    }
}

pub(crate) fn check_list(
    kind: &str,
    api_version: &str,
    asked: &ResourceType,
    metadata_only: bool,
) -> Result<(), String> {
    if metadata_only && is_partial_list(kind, api_version) {
        return Ok(());
    }
    // A CustomResourceDefinition can name its list differently.
    let is_own_name = kind == format!("{}List", asked.kind) || (asked.group.contains('.') && kind.ends_with("List"));
    if is_own_name && api_version == asked.api_version() && kind != "PartialObjectMetadataList" {
        return Ok(());
    }
    Err(format!("a {kind:?} of {api_version:?} is no list of {}", asked.resource()))
}

/// Returns true if a kind and an API version are those of a list of metadata.
pub(crate) fn is_partial_list(kind: &str, api_version: &str) -> bool {
    kind == "PartialObjectMetadataList" && api_version == "meta.k8s.io/v1"
}

/// Checks the kind of an item, which items of built-in types do not have.
pub(crate) fn check_item_type(kind: &str, asked: &ResourceType, metadata_only: bool) -> Result<(), String> {
    match kind {
        "" => Ok(()),
        "PartialObjectMetadata" if metadata_only => Ok(()),
        _ if kind == &*asked.kind => Ok(()),
        _ => Err(format!("the list of {} contains a {kind:?}", asked.resource())),
    }
}

/// Checks that an item has an identity, and is in the namespace that was asked for.
pub(crate) fn check_item(item: &RawMetadata<'_>, asked: &ResourceType, namespace: Option<&str>) -> Result<(), String> {
    let problem = if item.name.is_empty() {
        "has no name"
    } else if item.uid.is_empty() {
        "has no uid"
    } else if asked.namespaced == item.namespace.is_empty() {
        "has no namespace, or one that it cannot have"
    } else if asked.namespaced && namespace.is_some_and(|namespace| namespace != item.namespace) {
        "is in another namespace than the list"
    } else {
        return Ok(());
    };
    Err(format!("{:?} in the list of {} {problem}", item.name, asked.resource()))
}

/// Checks that a single object is the one that was asked for.
pub(crate) fn check_object(
    kind: &str,
    api_version: &str,
    object: &RawMetadata<'_>,
    asked: &ResourceType,
    id: &ObjectId,
    metadata_only: bool,
) -> Result<(), String> {
    let is_partial = metadata_only && kind == "PartialObjectMetadata" && api_version == "meta.k8s.io/v1";
    if !is_partial && (kind != &*asked.kind || api_version != asked.api_version()) {
        return Err(format!("a {kind:?} of {api_version:?} is no {}", asked.group_kind()));
    }
    if object.name != *id.name || object.namespace != *id.namespace {
        return Err(format!("it is {:?} in namespace {:?}, not {id}", object.name, object.namespace));
    }
    Ok(())
}

/// Checks that an object was stored: one that a dry-run would create has no resourceVersion.
pub(crate) fn check_stored(object: &RawMetadata<'_>, id: &ObjectId) -> Result<(), String> {
    if object.uid.is_empty() || object.resource_version.is_empty() {
        return Err(format!("{id} has no uid or no resourceVersion"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use gitops_core::testing::resource_type;

    use super::*;

    fn page(token: &str, remaining: Option<i64>) -> PageEnd {
        PageEnd { resource_version: "1".into(), continue_token: token.into(), remaining_item_count: remaining }
    }

    #[test]
    fn a_list_is_whole_only_if_every_page_came() {
        let none = || Pages::default();
        assert_eq!(none().next(page("", None), 3), Ok(None));
        assert_eq!(none().next(page("a", Some(2)), 3), Ok(Some("a".to_owned())));
        assert!(none().next(PageEnd::default(), 0).is_err(), "no resource version");
        assert!(none().next(page("", Some(2)), 3).is_err(), "the token was lost");
        let mut pages = none();
        pages.next(page("a", Some(2)), 3).unwrap();
        assert!(pages.next(page("a", Some(2)), 3).is_err(), "a repeated token");
        let mut pages = none();
        pages.next(page("a", Some(2)), 3).unwrap();
        assert!(pages.next(page("", None), 4).is_err(), "one item is missing");
        let mut pages = none();
        pages.next(page("a", Some(2)), 3).unwrap();
        assert_eq!(pages.next(page("", None), 5), Ok(None));
    }

    #[test]
    fn lists_of_another_type_are_refused() {
        let config_maps = resource_type("", "ConfigMap", "configmaps", true);
        let own = resource_type("example.com", "Widget", "widgets", true);
        for (name, kind, api_version, asked, metadata_only, is_accepted) in [
            ("metadata", "PartialObjectMetadataList", "meta.k8s.io/v1", &config_maps, true, true),
            (
                "metadata where content is asked",
                "PartialObjectMetadataList",
                "meta.k8s.io/v1",
                &config_maps,
                false,
                false,
            ),
            ("content where metadata is asked", "ConfigMapList", "v1", &config_maps, true, true),
            ("content", "ConfigMapList", "v1", &config_maps, false, true),
            ("another type", "SecretList", "v1", &config_maps, false, false),
            ("another version", "ConfigMapList", "v2", &config_maps, false, false),
            ("a status", "Status", "v1", &config_maps, true, false),
            ("nothing", "", "", &config_maps, true, false),
            ("a list with a name of its own", "WidgetCollectionList", "example.com/v1", &own, false, true),
        ] {
            assert_eq!(check_list(kind, api_version, asked, metadata_only).is_ok(), is_accepted, "{name}");
        }
    }

    #[test]
    fn items_have_an_identity_in_the_namespace_that_was_asked_for() {
        let kind = resource_type("", "ConfigMap", "configmaps", true);
        let cluster_scoped = resource_type("", "Node", "nodes", false);
        let item = |name: &'static str, namespace: &'static str, uid: &'static str| RawMetadata {
            name: name.into(),
            namespace: namespace.into(),
            uid: uid.into(),
            ..RawMetadata::default()
        };
        for (name, item, asked, namespace, is_accepted) in [
            ("whole", item("a", "n", "u"), &kind, None, true),
            ("in its namespace", item("a", "n", "u"), &kind, Some("n"), true),
            ("in another namespace", item("a", "m", "u"), &kind, Some("n"), false),
            ("without namespace", item("a", "", "u"), &kind, None, false),
            ("without name", item("", "n", "u"), &kind, None, false),
            ("without uid", item("a", "n", ""), &kind, None, false),
            ("cluster-scoped", item("a", "", "u"), &cluster_scoped, Some("n"), true),
            ("cluster-scoped with a namespace", item("a", "n", "u"), &cluster_scoped, None, false),
        ] {
            assert_eq!(check_item(&item, asked, namespace).is_ok(), is_accepted, "{name}");
        }
    }
}
