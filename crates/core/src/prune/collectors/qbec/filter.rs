//! Filters of qbec: components and namespaces by exact name, kinds without case and with their English plural. Short
//! names and API groups are not known.
//!
//! Rules: docs/reference/qbec-and-flux-v1.md 2.7.

use std::collections::BTreeSet;

use super::scope::QbecApp;
use crate::error::{Error, Result};
use crate::kubernetes::object::ObjectId;
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::schemes::qbec::component;
use crate::prune::collectors::collector::manifest::LocalManifest;

/// Names to include, or names to exclude.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameFilter {
    include: Vec<String>,
    exclude: Vec<String>,
}

impl NameFilter {
    /// Creates a filter of `what` (`components`, `kinds`, `namespaces`). Fails if both lists hold names.
    pub fn new(what: &str, include: &[String], exclude: &[String]) -> Result<Self> {
        if !include.is_empty() && !exclude.is_empty() {
            let message = format!("cannot include as well as exclude {what}");
            return Err(Error::invalid(message).hint("specify one or the other"));
        }
        Ok(Self { include: include.to_vec(), exclude: exclude.to_vec() })
    }

    fn is_set(&self) -> bool {
        !self.include.is_empty() || !self.exclude.is_empty()
    }

    fn names(&self) -> impl Iterator<Item = &String> {
        self.include.iter().chain(&self.exclude)
    }

    /// Returns true if the filter admits an item that has these names.
    fn admits(&self, names: &[&str]) -> bool {
        if self.include.is_empty() {
            !self.exclude.iter().any(|name| names.contains(&&**name))
        } else {
            self.include.iter().any(|name| names.contains(&&**name))
        }
    }

    fn to_lowercase(&self) -> Self {
        Self { include: lowercase(&self.include), exclude: lowercase(&self.exclude) }
    }
}

fn lowercase(names: &[String]) -> Vec<String> {
    names.iter().map(|name| name.to_lowercase()).collect()
}

/// Filters of a qbec command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QbecFilters {
    components: NameFilter,
    kinds: NameFilter,
    namespaces: NameFilter,
    exclude_cluster_objects: bool,
}

impl QbecFilters {
    /// Combines the filters. By default a namespace filter excludes cluster-scoped objects.
    pub fn new(
        components: NameFilter,
        kinds: NameFilter,
        namespaces: NameFilter,
        include_cluster_objects: Option<bool>,
    ) -> Self {
        let exclude_cluster_objects = !include_cluster_objects.unwrap_or(!namespaces.is_set());
        Self { components, kinds: kinds.to_lowercase(), namespaces, exclude_cluster_objects }
    }

    fn admits_kind(&self, kind: &str) -> bool {
        let lowercase = kind.to_lowercase();
        self.kinds.admits(&[&lowercase, &plural(&lowercase)])
    }

    /// Returns true if all filters admit a live object. An object without component has the empty component.
    pub(super) fn admits_object(&self, id: &ObjectId, component: &str) -> bool {
        let admits_namespace = if id.namespace.is_empty() {
            !self.exclude_cluster_objects
        } else {
            self.namespaces.admits(&[&id.namespace])
        };
        admits_namespace && self.admits_kind(&id.kind) && self.components.admits(&[component])
    }

    /// Fails if a filter names a kind, component or namespace that neither the manifests nor the application's objects
    /// have. qbec would find nothing, and that would look like "nothing to do".
    pub(crate) fn check(&self, app: &QbecApp, locals: &[LocalManifest], snapshot: &Snapshot) -> Result<()> {
        let served = snapshot.types.iter().map(|served| &served.kind);
        let kinds: BTreeSet<String> = served
            .chain(locals.iter().map(|local| &local.id.kind))
            .map(|kind| kind.to_lowercase())
            .flat_map(|kind| [plural(&kind), kind])
            .collect();
        if let Some(unknown) = self.kinds.names().find(|name| !kinds.contains(*name)) {
            let hint = "write kinds in full, such as ConfigMap; qbec knows no short names";
            return Err(no_match("kind", unknown).hint(hint));
        }
        let members: Vec<_> = snapshot.objects.iter().filter(|object| app.selects(object)).collect();
        let components: BTreeSet<&str> = locals
            .iter()
            .filter_map(|local| local.component.as_deref())
            .chain(members.iter().map(|object| component(object)))
            .collect();
        check_names("component", &self.components, &components)?;
        let namespaces: BTreeSet<&str> = members
            .iter()
            .map(|object| &*object.id.namespace)
            .chain(locals.iter().map(|local| &*local.id.namespace))
            .collect();
        check_names("namespace", &self.namespaces, &namespaces)
    }
}

fn check_names(what: &str, filter: &NameFilter, known: &BTreeSet<&str>) -> Result<()> {
    let Some(unknown) = filter.names().find(|name| !known.contains(name.as_str())) else { return Ok(()) };
    let known: Vec<&str> = known.iter().copied().filter(|name| !name.is_empty()).collect();
    Err(no_match(what, unknown).hint(format!("{what}s are {}", known.join(", "))))
}

fn no_match(what: &str, name: &str) -> Error {
    Error::invalid(format!("the filter on {what} {name:?} matches nothing"))
}

/// Returns the English plural of a kind in lower case, as qbec forms it.
fn plural(kind: &str) -> String {
    let mut letters = kind.chars().rev();
    let (Some(last), Some(before)) = (letters.next(), letters.next()) else { return kind.to_owned() };
    let stem = &kind[..kind.len() - last.len_utf8()];
    match (before, last) {
        (_, 's' | 'x' | 'z') | ('c' | 's', 'h') => format!("{kind}es"),
        (before, 'y') if !"aeiou".contains(before) => format!("{stem}ies"),
        ('f', 'e') => format!("{}ves", &stem[..stem.len() - 1]),
        (_, 'f') => format!("{stem}ves"),
        _ => format!("{kind}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn plurals_are_formed_as_in_qbec() {
        let rows = [
            ("configmap", "configmaps"),
            ("ingress", "ingresses"),
            ("networkpolicy", "networkpolicies"),
            ("gateway", "gateways"),
            ("batch", "batches"),
            ("mesh", "meshes"),
            ("knife", "knives"),
            ("shelf", "shelves"),
            ("endpoints", "endpointses"),
            ("x", "x"),
        ];
        for (kind, expected) in rows {
            assert_eq!(plural(kind), expected);
        }
    }

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()
    }

    fn filter(include: &[&str], exclude: &[&str]) -> NameFilter {
        NameFilter::new("things", &owned(include), &owned(exclude)).unwrap()
    }

    fn kind_filters(include: &[&str], exclude: &[&str]) -> QbecFilters {
        QbecFilters::new(NameFilter::default(), filter(include, exclude), NameFilter::default(), None)
    }

    #[test]
    fn kinds_match_by_name_and_plural_but_not_by_short_name() {
        for (name, filters, passes) in [
            ("Q10: a plural in mixed case", kind_filters(&["ConfigMaps"], &[]), true),
            ("the kind itself", kind_filters(&["configmap"], &[]), true),
            ("Q10: a short name", kind_filters(&["cm"], &[]), false),
            ("another kind", kind_filters(&["Secret"], &[]), false),
            ("excluded by plural", kind_filters(&[], &["CONFIGMAPS"]), false),
            ("another is excluded", kind_filters(&[], &["secrets"]), true),
            ("no filter", kind_filters(&[], &[]), true),
        ] {
            assert_eq!(filters.admits_kind("ConfigMap"), passes, "{name}");
        }
    }

    #[test]
    fn a_namespace_filter_excludes_cluster_scoped_objects_by_default() {
        let role = ObjectId::new("rbac.authorization.k8s.io", "ClusterRole", "", "reader");
        let namespaces = || filter(&["shop-dev"], &[]);
        let none = NameFilter::default;
        for (name, namespaces, asked, passes) in [
            ("Q11: with a namespace filter", namespaces(), None, false),
            ("Q11: and asked for", namespaces(), Some(true), true),
            ("without a filter", none(), None, true),
            ("without a filter, refused", none(), Some(false), false),
        ] {
            assert_eq!(QbecFilters::new(none(), none(), namespaces, asked).admits_object(&role, ""), passes, "{name}");
        }
    }

    #[test]
    fn including_and_excluding_at_once_is_invalid() {
        let error = NameFilter::new("kinds", &["a".to_owned()], &["a".to_owned()]).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert_eq!(error.message, "cannot include as well as exclude kinds");
    }
}
