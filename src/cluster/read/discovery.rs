//! Discovery of the types that the API server has: two requests of aggregated discovery, or one per group version on
//! older servers.
//!
//! Not kube's discovery: it hides stale groups, and finds no groups on servers before 1.26 (docs/reference/kubectl-plugin.md
//! 6.4).

use std::sync::Arc;

use futures::stream::{StreamExt, iter};
use serde::Deserialize;

use crate::cluster::{Cluster, Failure, Response};
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
        if let (Some(core), Some(groups)) = (parse_aggregated(&core), parse_aggregated(&groups))
            && !core.items.is_empty()
        {
            return Ok(from_aggregated(core.items.into_iter().chain(groups.items)));
        }
        self.discover_each(&core.body, &groups.body).await
    }

    /// Sends one request per group version; a failure is a gap.
    async fn discover_each(&self, core: &[u8], groups: &[u8]) -> Result<Discovered, Failure> {
        let core: Versions = serde_json::from_slice(core).unwrap_or_default();
        let groups: GroupList = serde_json::from_slice(groups).unwrap_or_default();
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
            let answer = self.get(&path, "application/json").await;
            (group, version, answer)
        });
        let answers: Vec<_> = iter(requests).buffered(16).collect().await;
        let mut found = Discovered::default();
        for (group, version, answer) in answers {
            let list = answer.map_err(|failure| failure.gap(format!("{group}/{version}"), None)).and_then(|response| {
                serde_json::from_slice::<ResourceList>(&response.body).map_err(|error| Gap {
                    kind: GapKind::Failed,
                    subject: format!("{group}/{version}"),
                    namespace: None,
                    message: format!("discovery cannot be read: {error}"),
                })
            });
            match list {
                Ok(list) => {
                    let listed = list.resources.into_iter().filter(|resource| !resource.name.contains('/'));
                    listed.for_each(|resource| add(&mut found, &group, &version, resource));
                }
                Err(gap) => found.gaps.push(gap),
            }
        }
        Ok(found)
    }
}

fn parse_aggregated(response: &Response) -> Option<AggregatedList> {
    if !response.content_type.contains("apidiscovery.k8s.io") {
        return None;
    }
    serde_json::from_slice(&response.body).ok()
}

fn from_aggregated(groups: impl Iterator<Item = AggregatedGroup>) -> Discovered {
    let mut found = Discovered::default();
    for group in groups {
        let name = group.metadata.name;
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
    found
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
    #[serde(default)]
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

#[derive(Default, Deserialize)]
#[serde(default)]
struct Versions {
    versions: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GroupList {
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
struct ResourceList {
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
