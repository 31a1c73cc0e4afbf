//! Discovery of the types that the API server has: two requests of aggregated discovery, or one per group version on
//! older servers.
//!
//! Not kube's discovery: it hides stale groups, and finds no groups on servers before 1.26 (docs/reference/kubectl-plugin.md
//! 6.4).

use std::sync::Arc;

use futures::stream::{StreamExt, iter};
use serde::Deserialize;

use crate::cluster::connection::{Cluster, Response};
use crate::cluster::http::failure::Failure;
use gitops_core::kubernetes::gap::{Gap, GapKind};
use gitops_core::kubernetes::object::{GroupKind, ResourceType};
use gitops_core::kubernetes::snapshot::OtherVersion;

const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                      application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

/// Short-lived types that no owner manages.
const IGNORED: [(&str, &str); 2] = [("", "events"), ("events.k8s.io", "events")];

/// The types that the API server has, and the groups that could not be discovered.
#[derive(Debug, Default)]
pub struct Discovered {
    /// Every type that can be listed and deleted, each in one version.
    pub types: Vec<ResourceType>,
    /// Further versions of kinds that can be listed and deleted.
    pub other_versions: Vec<OtherVersion>,
    /// One gap for each group version whose types are unknown.
    pub gaps: Vec<Gap>,
}

impl Cluster {
    /// Finds every type that can be listed and deleted: for each plural of a group the first version, in the server's
    /// order of preference, that serves it so.
    ///
    /// Fails when neither `/api` nor `/apis` can be read.
    pub async fn discover(&self) -> Result<Discovered, Failure> {
        let (core, groups) = futures::join!(self.get("/api", ACCEPT), self.get("/apis", ACCEPT));
        let (core, groups) = (core?, groups?);
        let found = match (parse_aggregated(&core), parse_aggregated(&groups)) {
            (Some(core), Some(groups)) => from_aggregated(core?.items.into_iter().chain(groups?.items))?,
            _ => self.discover_each(&core.body, &groups.body).await?,
        };
        // Every cluster has Namespaces, and API groups: nothing is no answer.
        if found.types.is_empty() && found.gaps.is_empty() {
            return Err(Failure::unreadable("discovery lists no type"));
        }
        Ok(found)
    }

    /// Sends one request per group version; a failure is a gap.
    async fn discover_each(&self, core: &[u8], groups: &[u8]) -> Result<Discovered, Failure> {
        let core: Versions = serde_json::from_slice(core).map_err(Failure::unreadable)?;
        let groups: GroupList = serde_json::from_slice(groups).map_err(Failure::unreadable)?;
        if core.kind != "APIVersions" || core.versions.is_empty() {
            return Err(Failure::unreadable("/api lists no API version"));
        }
        if groups.kind != "APIGroupList" || groups.groups.is_empty() {
            return Err(Failure::unreadable("/apis lists no API group"));
        }
        let paths =
            core.versions.into_iter().map(|version| (String::new(), version.clone(), format!("/api/{version}")));
        let of_groups = groups.groups.into_iter().flat_map(|group| {
            let name = group.name.clone();
            group
                .ordered()
                .into_iter()
                .map(move |version| (name.clone(), version.clone(), format!("/apis/{name}/{version}")))
        });
        let requests = paths.chain(of_groups).map(|(group, version, path)| async move {
            let answer =
                self.get(&path, "application/json").await.and_then(|response| resources(&response, &group, &version));
            (group, version, answer)
        });
        let answers: Vec<_> = iter(requests).buffered(16).collect().await;
        let mut found = Discovered::default();
        for (group, version, answer) in answers {
            match answer {
                Ok(list) => {
                    let listed = list.resources.into_iter().filter(|resource| !resource.name.contains('/'));
                    listed.for_each(|resource| add(&mut found, &group, &version, resource));
                }
                Err(failure) => found.gaps.push(failure.gap(format!("{group}/{version}"), None)),
            }
        }
        Ok(found)
    }
}

fn resources(response: &Response, group: &str, version: &str) -> Result<ResourceList, Failure> {
    let list: ResourceList = serde_json::from_slice(&response.body).map_err(Failure::unreadable)?;
    let expected = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    if list.kind != "APIResourceList" || list.group_version != expected {
        return Err(Failure::unreadable(format!("it is a {:?} of {:?}", list.kind, list.group_version)));
    }
    Ok(list)
}

/// Reads aggregated discovery, or returns `None` if the server answers in the older form.
fn parse_aggregated(response: &Response) -> Option<Result<AggregatedList, Failure>> {
    if !response.content_type.contains("apidiscovery.k8s.io") {
        return None;
    }
    Some(serde_json::from_slice(&response.body).map_err(Failure::unreadable).and_then(check_aggregated))
}

fn check_aggregated(list: AggregatedList) -> Result<AggregatedList, Failure> {
    if list.kind == "APIGroupDiscoveryList" && !list.items.is_empty() {
        return Ok(list);
    }
    Err(Failure::unreadable(format!("a {:?} with {} groups", list.kind, list.items.len())))
}

fn from_aggregated(groups: impl Iterator<Item = AggregatedGroup>) -> Result<Discovered, Failure> {
    let mut found = Discovered::default();
    for group in groups {
        let name = group.metadata.name;
        if group.versions.is_empty() {
            return Err(Failure::unreadable(format!("discovery lists no version of the API group {name:?}")));
        }
        for version in group.versions {
            if version.freshness == "Stale" {
                found.gaps.push(Gap {
                    kind: GapKind::StaleGroup,
                    subject: format!("{name}/{}", version.version),
                    namespace: None,
                    message: "the server of this API group does not answer".to_owned(),
                });
            }
            for resource in version.resources {
                let resource = ApiResource {
                    name: resource.resource,
                    singular_name: resource.singular_resource,
                    namespaced: resource.scope == "Namespaced",
                    kind: resource.response_kind.kind,
                    verbs: resource.verbs,
                    short_names: resource.short_names,
                };
                add(&mut found, &name, &version.version, resource);
            }
        }
    }
    Ok(found)
}

fn add(found: &mut Discovered, group: &str, version: &str, resource: ApiResource) {
    let usable = ["list", "delete"].iter().all(|verb| resource.verbs.iter().any(|has| has == verb));
    if !usable || IGNORED.contains(&(group, &resource.name)) {
        return;
    }
    if found.types.iter().rev().any(|known| &*known.group == group && *known.plural == resource.name) {
        found
            .other_versions
            .push(OtherVersion { what: GroupKind::new(group, &resource.kind), version: version.into() });
        return;
    }
    found.types.push(ResourceType {
        group: Arc::from(group),
        version: Arc::from(version),
        kind: Arc::from(resource.kind),
        plural: resource.name.into(),
        singular: resource.singular_name.into(),
        short_names: resource.short_names.into_iter().map(Into::into).collect(),
        namespaced: resource.namespaced,
    });
}

#[derive(Deserialize)]
struct AggregatedList {
    kind: String,
    items: Vec<AggregatedGroup>,
}

#[derive(Deserialize)]
struct AggregatedGroup {
    #[serde(default)]
    metadata: GroupName,
    #[serde(default)]
    versions: Vec<AggregatedVersion>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GroupName {
    name: String,
}

#[derive(Deserialize)]
struct AggregatedVersion {
    version: String,
    #[serde(default)]
    freshness: String,
    #[serde(default)]
    resources: Vec<AggregatedResource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AggregatedResource {
    resource: String,
    #[serde(default)]
    response_kind: ResponseKind,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    singular_resource: String,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    short_names: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponseKind {
    kind: String,
}

#[derive(Deserialize)]
struct Versions {
    kind: String,
    versions: Vec<String>,
}

#[derive(Deserialize)]
struct GroupList {
    kind: String,
    groups: Vec<ApiGroup>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ApiGroup {
    name: String,
    #[serde(default)]
    versions: Vec<GroupVersion>,
    preferred_version: Option<GroupVersion>,
}

impl ApiGroup {
    /// Returns the versions, the preferred one first.
    fn ordered(self) -> Vec<String> {
        let preferred = self.preferred_version.map(|preferred| preferred.version);
        let others = self.versions.into_iter().map(|version| version.version);
        let rest: Vec<String> = others.filter(|version| Some(version) != preferred.as_ref()).collect();
        preferred.into_iter().chain(rest).collect()
    }
}

#[derive(Deserialize)]
struct GroupVersion {
    version: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceList {
    kind: String,
    group_version: String,
    #[serde(default)]
    resources: Vec<ApiResource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ApiResource {
    name: String,
    #[serde(default)]
    singular_name: String,
    #[serde(default)]
    namespaced: bool,
    kind: String,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    short_names: Vec<String>,
}
