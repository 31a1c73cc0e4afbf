//! qbec's filters: components and namespaces by exact text, kinds without case and with English plurals.
//!
//! Source: reference qbec-and-flux-v1 A2.7. Kinds know neither short names nor groups.

use std::collections::BTreeSet;

use super::scope::QbecApp;
use crate::error::{Error, Result};
use crate::kubernetes::object::ObjectId;
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::schemes::qbec::component;
use crate::prune::collectors::manifest::LocalManifest;

/// Include these, or all but these; both at once is a usage error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    include: Vec<String>,
    exclude: Vec<String>,
}

impl Choice {
    /// A choice of `what` (`components`, `kinds`, `namespaces`).
    ///
    /// # Errors
    /// When both lists hold something.
    pub fn new(what: &str, include: &[String], exclude: &[String]) -> Result<Self> {
        if !include.is_empty() && !exclude.is_empty() {
            let message = format!("cannot include as well as exclude {what}");
            return Err(Error::invalid(message).hint("specify one or the other"));
        }
        Ok(Self { include: include.to_vec(), exclude: exclude.to_vec() })
    }

    /// Whether anything is chosen at all.
    pub fn is_set(&self) -> bool {
        !self.include.is_empty() || !self.exclude.is_empty()
    }

    /// Whatever is named.
    fn all(&self) -> impl Iterator<Item = &String> {
        self.include.iter().chain(&self.exclude)
    }

    /// Whether one of an item's names passes.
    fn admits(&self, names: &[&str]) -> bool {
        let holds = |list: &[String]| list.iter().any(|item| names.contains(&item.as_str()));
        if self.include.is_empty() { !holds(&self.exclude) } else { holds(&self.include) }
    }
}

/// The three filters of a qbec command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filters {
    components: Choice,
    kinds: Choice,
    namespaces: Choice,
    exclude_cluster_objects: bool,
}

impl Filters {
    /// The filters; cluster-scoped objects are left out by a namespace filter unless they are asked for.
    pub fn new(components: Choice, kinds: Choice, namespaces: Choice, include_cluster_objects: Option<bool>) -> Self {
        let lower = |list: Vec<String>| list.into_iter().map(|item| item.to_lowercase()).collect();
        let kinds = Choice { include: lower(kinds.include), exclude: lower(kinds.exclude) };
        let exclude_cluster_objects = !include_cluster_objects.unwrap_or(!namespaces.is_set());
        Self { components, kinds, namespaces, exclude_cluster_objects }
    }

    /// Whether a kind passes; qbec applies this to what it lists.
    pub fn kind(&self, kind: &str) -> bool {
        let kind = kind.to_lowercase();
        self.kinds.admits(&[&kind, &plural(&kind)])
    }

    /// Whether a live object passes all filters; without a component annotation its component is the empty text.
    pub fn object(&self, id: &ObjectId, component: &str) -> bool {
        let place = if id.namespace.is_empty() {
            !self.exclude_cluster_objects
        } else {
            self.namespaces.admits(&[&id.namespace])
        };
        self.kind(&id.kind) && self.components.admits(&[component]) && place
    }

    /// Refuses what matches nothing: for qbec that is an empty answer, which reads like "nothing to do".
    ///
    /// # Errors
    /// When a kind, component or namespace is named that neither the manifests nor the application's objects have.
    pub fn check(&self, app: &QbecApp, locals: &[LocalManifest], snapshot: &Snapshot) -> Result<()> {
        let members = || snapshot.objects.iter().filter(|object| app.marks(object));
        let kinds = snapshot.types.iter().map(|served| &served.kind).chain(locals.iter().map(|local| &local.id.kind));
        let kinds: BTreeSet<String> = kinds.map(|kind| kind.to_lowercase()).collect();
        let known = |wanted: &str| kinds.iter().any(|kind| wanted == kind || wanted == plural(kind));
        if let Some(unknown) = self.kinds.all().find(|wanted| !known(wanted)) {
            return Err(
                nothing("kind", unknown).hint("write kinds in full, such as ConfigMap; qbec knows no short names")
            );
        }
        let live = members().map(component);
        let components: BTreeSet<&str> =
            locals.iter().filter_map(|local| local.component.as_deref()).chain(live).collect();
        if let Some(unknown) = self.components.all().find(|wanted| !components.contains(wanted.as_str())) {
            return Err(nothing("component", unknown).hint(format!("components are {}", list(&components))));
        }
        let local = locals.iter().map(|local| &*local.id.namespace);
        let namespaces: BTreeSet<&str> = members().map(|object| &*object.id.namespace).chain(local).collect();
        if let Some(unknown) = self.namespaces.all().find(|wanted| !namespaces.contains(wanted.as_str())) {
            return Err(nothing("namespace", unknown).hint(format!("namespaces are {}", list(&namespaces))));
        }
        Ok(())
    }
}

fn nothing(what: &str, name: &str) -> Error {
    Error::invalid(format!("the filter on {what} {name:?} matches nothing"))
}

fn list(names: &BTreeSet<&str>) -> String {
    let names: Vec<_> = names.iter().copied().filter(|name| !name.is_empty()).collect();
    names.join(", ")
}

/// The English plural of a kind in lower case, as qbec forms it.
fn plural(kind: &str) -> String {
    let mut back = kind.chars().rev();
    let (Some(last), Some(before)) = (back.next(), back.next()) else {
        return kind.to_owned();
    };
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
    fn plurals_of_kinds() {
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

    fn choice(include: &[&str], exclude: &[&str]) -> Choice {
        let owned = |list: &[&str]| list.iter().map(|item| (*item).to_owned()).collect::<Vec<_>>();
        Choice::new("things", &owned(include), &owned(exclude)).unwrap()
    }

    #[test]
    fn kinds_pass_by_name_and_plural_but_not_by_short_name() {
        let kinds = |include: &[&str], exclude: &[&str]| {
            Filters::new(Choice::default(), choice(include, exclude), Choice::default(), None)
        };
        for (name, filters, passes) in [
            ("Q10: a plural in mixed case", kinds(&["ConfigMaps"], &[]), true),
            ("the kind itself", kinds(&["configmap"], &[]), true),
            ("Q10: a short name", kinds(&["cm"], &[]), false),
            ("another kind", kinds(&["Secret"], &[]), false),
            ("excluded by plural", kinds(&[], &["CONFIGMAPS"]), false),
            ("another is excluded", kinds(&[], &["secrets"]), true),
            ("no filter", kinds(&[], &[]), true),
        ] {
            assert_eq!(filters.kind("ConfigMap"), passes, "{name}");
        }
    }

    #[test]
    fn a_namespace_filter_leaves_cluster_scoped_objects_out_unless_asked() {
        let role = ObjectId::new("rbac.authorization.k8s.io", "ClusterRole", "", "reader");
        let namespaces = || choice(&["shop-dev"], &[]);
        let none = Choice::default;
        for (name, namespaces, asked, passes) in [
            ("Q11: with a namespace filter", namespaces(), None, false),
            ("Q11: and asked for", namespaces(), Some(true), true),
            ("without a filter", none(), None, true),
            ("without a filter, refused", none(), Some(false), false),
        ] {
            assert_eq!(Filters::new(none(), none(), namespaces, asked).object(&role, ""), passes, "{name}");
        }
    }

    #[test]
    fn including_and_excluding_at_once_is_a_usage_error() {
        let error = Choice::new("kinds", &["a".to_owned()], &["a".to_owned()]).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert_eq!(error.message, "cannot include as well as exclude kinds");
    }
}
