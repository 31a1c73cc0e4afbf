//! Quotas. The server counts one object after the other, so a dry-run of each alone says nothing about several, and
//! nothing about a quota that the change brings.
//!
//! Source: Kubernetes v1.36.3 `apiserver/pkg/admission/plugin/resourcequota` and `pkg/quota/v1/evaluator/core`.

use serde_json::Value;

use super::event::Event;
use super::world::{Fact, World};
use crate::flux::apply::AppliedObject;
use crate::flux::simulation::model::protection::is_never_applied;
use crate::kubernetes::deletion::order::apply_order;
use crate::kubernetes::object::{ObjectId, ResourceType, list_at, text_at};
use crate::kubernetes::quantity::quantity;

/// Resources of the containers of a Pod. A quota may name them with a prefix, or without one for requests.
const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Room that quotas leave for an object.
pub(super) enum Room<'w> {
    /// The object can be created after these events.
    Enough(Vec<&'w Event>),
    /// The objects that the same run creates before it use the quota up: the message of the server.
    Full(String),
    /// Name of a quota whose remaining room, or the order of the objects that use it, is not known.
    Unknown(String),
}

/// Objects that are created in a namespace with an object, and those that are deleted there.
struct Crowd<'w> {
    kind: &'w ResourceType,
    id: &'w ObjectId,
    /// New objects that the same run creates, in the order in which it applies them.
    own: Vec<(&'w ObjectId, &'w Value)>,
    /// Manifests of new objects of other owners, as far as they are known.
    others: Vec<Option<&'w Value>>,
    /// Live objects that certainly go.
    freed: Vec<&'w Event>,
    /// Number of live objects.
    live: usize,
}

/// Limits of one resource before and after the change.
struct Limit<'w> {
    name: String,
    /// What the objects that count must be like.
    scopes: Vec<Scope<'w>>,
    used: Option<f64>,
    before: Option<f64>,
    after: Option<f64>,
}

/// Returns what the quotas of its namespace leave for an object that the change creates; `None` if they are not known.
pub(super) fn room<'w>(world: &'w World<'_, '_>, object: &'w AppliedObject) -> Option<Room<'w>> {
    let id = &object.id;
    if id.cluster.is_some() || id.namespace.is_empty() || world.state.is_live(id) {
        return None;
    }
    let crowd = Crowd::of(world, object)?;
    let mut room = Room::Enough(vec![]);
    for fact in world.facts("v1", &["ResourceQuota"])?.iter().filter(|fact| fact.id.namespace == id.namespace) {
        let name = fact.id.name.to_string();
        for limit in limits(fact, &crowd) {
            match crowd.room(&limit) {
                Some(Room::Enough(freed)) => match &mut room {
                    Room::Enough(all) => all.extend(fact.events.iter().copied().chain(freed)),
                    Room::Full(_) | Room::Unknown(_) => {}
                },
                Some(Room::Full(_)) => {
                    let (kind, object) = (&crowd.kind.plural, object.built.shown_id());
                    return Some(Room::Full(format!(
                        "{kind} {:?} is forbidden: exceeded quota: {name}",
                        &*object.name
                    )));
                }
                Some(Room::Unknown(_)) => room = Room::Unknown(name.clone()),
                None => {}
            }
        }
    }
    Some(room)
}

impl<'w> Crowd<'w> {
    fn of(world: &'w World<'_, '_>, object: &'w AppliedObject) -> Option<Self> {
        let id = &object.id;
        let kind = world.state.input.snapshot.type_of(id)?;
        let is_counted = |other: &ObjectId| other.namespace == id.namespace && other.group_kind() == id.group_kind();
        let is_new = |other: &ObjectId| is_counted(other) && !world.state.is_live(other);
        let events = world.events.iter().filter(|event| is_counted(&event.id) && !event.is_of(&object.owner));
        let (deletions, applies): (Vec<&Event>, Vec<&Event>) = events.partition(|event| event.is_deleted);
        let others =
            applies.into_iter().filter(|event| is_new(&event.id)).map(|event| event.manifest().map(|it| &**it));
        // While one of them is refused, a run applies none.
        let last = world.state.last_pass(&object.owner)?;
        let desired = last.desired_objects().into_iter().flatten();
        let new = desired.filter(|(own, built)| is_new(own) && !is_never_applied(built, &last.spec));
        let mut own: Vec<(&ObjectId, &Value)> = new.map(|(own, built)| (own, &*built.manifest)).collect();
        own.sort_by(|(a, _), (b, _)| apply_order(a, b));
        let freed = deletions.into_iter().filter(|event| event.is_certain).collect();
        let live =
            world.state.input.snapshot.objects.iter().filter(|live| live.id.cluster.is_none() && is_counted(&live.id));
        Some(Self { kind, id, own, others: others.collect(), freed, live: live.count() })
    }

    /// Returns what a limit leaves for the object; `None` if the answer of the server counts, or all objects have room
    /// before and after the change.
    fn room(&self, limit: &Limit<'_>) -> Option<Room<'w>> {
        let is_same = limit.before == limit.after && self.freed.is_empty() && self.others.is_empty();
        let amount = |manifest: &Value| {
            if limit.counts(self.kind, manifest)? { amount(&limit.name, manifest) } else { Some(0.0) }
        };
        let own: Option<Vec<f64>> = self.own.iter().map(|(_, manifest)| amount(manifest)).collect();
        let others: Option<f64> = self.others.iter().map(|manifest| manifest.and_then(&amount)).sum();
        let Some(((own, others), used)) = own.zip(others).zip(limit.used) else {
            let is_alone = is_same && self.own.len() < 2;
            return (!is_alone).then(|| Room::Unknown(String::new()));
        };
        let [left, left_after] =
            [limit.before, limit.after].map(|limit| limit.map_or(f64::INFINITY, |limit| limit - used));
        let wanted = own.iter().sum::<f64>() + others;
        if wanted <= left.min(left_after) {
            return None;
        }
        if is_same {
            let at = self.own.iter().position(|(own, _)| *own == self.id)?;
            let is_full = own[..=at].iter().sum::<f64>() > left;
            return is_full.then(|| Room::Full(String::new()));
        }
        let freed =
            if is_count(&limit.name, self.kind) && limit.scopes.is_empty() { self.freed.len() as f64 } else { 0.0 };
        Some(if wanted <= left_after + freed { Room::Enough(self.freed.clone()) } else { Room::Unknown(String::new()) })
    }
}

/// Returns the limits of a quota that an object of a crowd uses.
fn limits<'w>(quota: &Fact<'w>, crowd: &Crowd<'_>) -> Vec<Limit<'w>> {
    let scopes = scopes(quota.after.or(quota.before));
    let hard = |content: Option<&Value>, list: &str, name: &str| {
        let value = content?.pointer(list)?.get(name)?;
        value.as_f64().or_else(|| quantity(value.as_str()?))
    };
    let mut found = vec![];
    for name in names(crowd) {
        let is_counted = is_count(&name, crowd.kind) && scopes.is_empty();
        let before = hard(quota.before, "/status/hard", &name);
        let after = if quota.events.is_empty() { before } else { hard(quota.after, "/spec/hard", &name) };
        let used = hard(quota.before, "/status/used", &name).or(is_counted.then_some(crowd.live as f64));
        if before.is_some() || after.is_some() {
            found.push(Limit { name, scopes: scopes.clone(), used, before, after });
        }
    }
    found
}

/// Part of what a quota says about the objects that count.
#[derive(Clone, Copy)]
struct Scope<'w> {
    name: &'w str,
    operator: &'w str,
    values: &'w [Value],
}

/// Returns what the objects that a quota counts must be like.
fn scopes(quota: Option<&Value>) -> Vec<Scope<'_>> {
    let list = |at| quota.into_iter().flat_map(move |quota| list_at(quota, at));
    let named = list("/spec/scopes").filter_map(Value::as_str);
    let named = named.map(|name| Scope { name, operator: "Exists", values: &[] });
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

impl Limit<'_> {
    /// Returns true if an object counts; `None` if that is not known.
    fn counts(&self, kind: &ResourceType, manifest: &Value) -> Option<bool> {
        let results: Vec<Option<bool>> = match (&*kind.group, &*kind.kind) {
            ("", "Pod") => self.scopes.iter().map(|scope| scope.has(manifest)).collect(),
            ("", "PersistentVolumeClaim") => self.scopes.iter().map(|_| None).collect(),
            // A quota with a scope counts nothing else.
            _ => self.scopes.iter().map(|_| Some(false)).collect(),
        };
        if results.contains(&Some(false)) {
            return Some(false);
        }
        (!results.contains(&None)).then_some(true)
    }
}

/// Returns the names of the resources that objects of a kind use.
fn names(crowd: &Crowd<'_>) -> Vec<String> {
    let ResourceType { group, plural, .. } = crowd.kind;
    let dotted = if group.is_empty() { String::new() } else { format!(".{group}") };
    let mut names = vec![format!("count/{plural}{dotted}"), plural.to_string()];
    match (&**group, &*crowd.kind.kind) {
        ("", "PersistentVolumeClaim") => {
            names.push("requests.storage".to_owned());
            let own = crowd.own.iter().find(|(id, _)| *id == crowd.id);
            let class =
                own.map(|(_, manifest)| text_at(manifest, "/spec/storageClassName")).filter(|it| !it.is_empty());
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
fn is_count(name: &str, kind: &ResourceType) -> bool {
    name.starts_with("count/") || name == &*kind.plural
}

/// Returns how much of a resource an object uses; `None` if that is not known here.
fn amount(name: &str, manifest: &Value) -> Option<f64> {
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
