//! Resources that quotas limit, and how much of them objects use.
//!
//! Source: Kubernetes v1.36.3 `pkg/quota/v1/evaluator/core`.

use serde_json::Value;

use super::object::{ResourceType, list_at, text_at};
use super::quantity::quantity;

/// Resources of the containers of a Pod. A quota may name them with a prefix, or without one for requests.
const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Part of what a quota says about the objects that count.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'w> {
    name: &'w str,
    operator: &'w str,
    values: &'w [Value],
}

/// Returns what the objects that a quota counts must be like.
pub(crate) fn scopes(quota: Option<&Value>) -> Vec<Scope<'_>> {
    let list = |at| quota.into_iter().flat_map(move |quota| list_at(quota, at));
    let names = list("/spec/scopes").filter_map(Value::as_str);
    let named = names.map(|name| Scope { name, operator: "Exists", values: &[] });
    let selected = list("/spec/scopeSelector/matchExpressions").map(|selector| Scope {
        name: text_at(selector, "/scopeName"),
        operator: text_at(selector, "/operator"),
        values: list_at(selector, "/values"),
    });
    named.chain(selected).collect()
}

impl Scope<'_> {
    /// Returns true if a Pod is in the scope; `None` if that is not known.
    fn has(&self, pod: &Value) -> Option<bool> {
        let ends = pod.pointer("/spec/activeDeadlineSeconds").is_some_and(|seconds| !seconds.is_null());
        let class = text_at(pod, "/spec/priorityClassName");
        match self.name {
            "Terminating" => Some(ends),
            "NotTerminating" => Some(!ends),
            // The server gives the default class to others.
            "PriorityClass" if !class.is_empty() => match self.operator {
                "Exists" => Some(true),
                "DoesNotExist" => Some(false),
                "In" => Some(self.values.iter().any(|value| value == class)),
                "NotIn" => Some(!self.values.iter().any(|value| value == class)),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Returns true if a quota with these scopes counts an object; `None` if that is not known.
pub(crate) fn counts(scopes: &[Scope<'_>], kind: &ResourceType, manifest: &Value) -> Option<bool> {
    let results: Vec<Option<bool>> = match (&*kind.group, &*kind.kind) {
        ("", "Pod") => scopes.iter().map(|scope| scope.has(manifest)).collect(),
        ("", "PersistentVolumeClaim") => scopes.iter().map(|_| None).collect(),
        // A quota with a scope counts nothing else.
        _ => scopes.iter().map(|_| Some(false)).collect(),
    };
    if results.contains(&Some(false)) {
        return Some(false);
    }
    (!results.contains(&None)).then_some(true)
}

/// Returns the names of the resources that an object of a kind uses.
pub(crate) fn names(kind: &ResourceType, manifest: &Value) -> Vec<String> {
    let ResourceType { group, plural, .. } = kind;
    let dotted = if group.is_empty() { String::new() } else { format!(".{group}") };
    let mut names = vec![format!("count/{plural}{dotted}"), plural.to_string()];
    match (&**group, &*kind.kind) {
        ("", "PersistentVolumeClaim") => {
            names.push("requests.storage".to_owned());
            let class = Some(text_at(manifest, "/spec/storageClassName")).filter(|it| !it.is_empty());
            names.extend(class.map(|class| format!("{class}{OF_CLASS}")));
        }
        ("", "Pod") => {
            let prefixed = ["", "requests.", "limits."].map(|prefix| COMPUTE.map(|name| format!("{prefix}{name}")));
            names.extend(prefixed.into_iter().flatten());
        }
        ("", "Service") => names.extend(["services.nodeports", "services.loadbalancers"].map(str::to_owned)),
        _ => {}
    }
    names
}

/// End of the name of the storage that the claims of one class request, after the name of the class.
const OF_CLASS: &str = ".storageclass.storage.k8s.io/requests.storage";

/// Returns true if a resource is the number of objects of a kind.
pub(crate) fn is_count(name: &str, kind: &ResourceType) -> bool {
    name.starts_with("count/") || name == &*kind.plural
}

/// Returns how much of a resource an object uses; `None` if that is not known here.
pub(crate) fn amount(name: &str, manifest: &Value) -> Option<f64> {
    let requested = || quantity(text_at(manifest, "/spec/resources/requests/storage"));
    let kind = text_at(manifest, "/spec/type");
    let has_ports = matches!(kind, "NodePort" | "LoadBalancer");
    let asks_for_none = kind == "LoadBalancer"
        && manifest.pointer("/spec/allocateLoadBalancerNodePorts").is_some_and(|it| *it == false);
    let is_named = |port: &&Value| port["nodePort"].as_u64().is_some_and(|port| port != 0);
    match name {
        "requests.storage" => requested(),
        name if name.ends_with(OF_CLASS) => {
            let is_of_class = name.strip_suffix(OF_CLASS) == Some(text_at(manifest, "/spec/storageClassName"));
            if is_of_class { requested() } else { Some(0.0) }
        }
        "services.nodeports" if asks_for_none => {
            Some(list_at(manifest, "/spec/ports").iter().filter(is_named).count() as f64)
        }
        "services.nodeports" if has_ports => Some(list_at(manifest, "/spec/ports").len() as f64),
        "services.nodeports" => Some(0.0),
        "services.loadbalancers" => Some(f64::from(u8::from(kind == "LoadBalancer"))),
        name if COMPUTE.iter().any(|compute| name.ends_with(compute)) => None,
        _ => Some(1.0),
    }
}

/// Returns the number of a resource in a list of a quota.
pub(crate) fn number(quota: &Value, list: &str, name: &str) -> Option<f64> {
    let value = quota.pointer(list)?.get(name)?;
    value.as_f64().or_else(|| quantity(value.as_str()?))
}
