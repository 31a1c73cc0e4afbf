//! Objects with their references, as manifests and live objects have them. A reference that may be absent (`optional`) is
//! none, and no value of a container's environment is kept.

use serde_json::Value;

use super::kinds::kind::{ADMISSION, CERT_MANAGER, Field, GATEWAY, POD_FIELDS, SOURCE};
use super::table;
use crate::kubernetes::object::{KeyValues, ObjectId, Resource, flag_at, group_of, text_at};
use crate::kubernetes::referrer::{Reference, Referrer, Usage};

/// Number of claims of one template of a StatefulSet that are looked at.
const MAX_REPLICAS: u64 = 1000;
/// Label of a HelmChart with the name of its HelmRelease. Source: helm-controller v1.6.3.
const OF_RELEASE: &str = "helm.toolkit.fluxcd.io/name";
/// Field of a Job with the seconds after which Kubernetes deletes it once it has finished.
const TIME_TO_LIVE: &str = "/spec/ttlSecondsAfterFinished";

impl Referrer {
    /// Reads the references of an object from its manifest, or from its content alone. `None` if nothing is known of its kind.
    pub(crate) fn of(id: &ObjectId, manifest: &Value) -> Option<Self> {
        let kind = table::find(&id.group, &id.kind)?;
        let place = kind.namespace.unwrap_or(&id.namespace);
        let mut references = targets(manifest, kind.fields, id, place);
        for (path, fields) in kind.parts {
            let mut parts = vec![];
            collect(manifest, path, &mut parts);
            references.extend(parts.into_iter().flat_map(|part| targets(part, fields, id, place)));
        }
        let mut pod_labels = KeyValues::default();
        if let Some(path) = kind.pods {
            if let Some(pod) = first(manifest, path) {
                references.extend(targets(pod.get("spec").unwrap_or(&Value::Null), POD_FIELDS, id, place));
                pod_labels = labels(pod.pointer("/metadata/labels"));
            }
            references.extend(claims_of_templates(id, manifest));
        }
        references.extend(indirect(id, manifest));
        references.extend(secrets_of_parameters(id, manifest));
        let annotated = named_by_annotations(id, manifest, kind.annotations);
        let is_certified = annotated.iter().any(|reference| &*reference.to.group == CERT_MANAGER);
        references.extend(annotated);
        references.retain(|reference| !reference.to.is_in_every_namespace());
        references.sort();
        references.dedup();
        let mut makes: Vec<ObjectId> =
            targets(manifest, kind.makes, id, place).into_iter().map(|made| made.to).collect();
        if is_certified {
            // cert-manager makes the Secrets that it reads.
            let read = references.iter().map(|reference| &reference.to);
            makes.extend(read.filter(|to| to.is("", "Secret")).cloned());
        }
        let makes_nothing = kind.makes.iter().any(|field| is_excepted(manifest, field));
        if let Some(namesake) = kind.makes_namesake.filter(|_| makes.is_empty() && !makes_nothing) {
            makes.push(in_cluster_of(id, ObjectId::new("", namesake, &id.namespace, &id.name)));
        }
        let selector = kind.selector.and_then(|path| selector_text(first(manifest, path)?));
        let kept_claims = kept_claims(id, manifest);
        Some(Self {
            object: id.clone(),
            references,
            makes,
            selector,
            pod_labels,
            is_scheduled: false,
            expires: id.is("batch", "Job") && manifest.pointer(TIME_TO_LIVE).is_some_and(Value::is_u64),
            kept_claims,
        })
    }

    /// Reads the references of a live object. What a controller makes of a template that is read anyway is left out, but for
    /// the claims of Pods: Kubernetes keeps a claim for the Pod that mounts it, whatever the template says by then.
    ///
    /// So is a HelmChart that helm-controller makes: it says what its HelmRelease says, and changes and goes with it.
    pub fn of_live(live: &Resource) -> Option<Self> {
        let id = &live.object.id;
        if id.is(SOURCE, "HelmChart") && live.object.labels.get(OF_RELEASE).is_some() {
            return None;
        }
        // A claim is returned even if it needs nothing: its manifest can say otherwise.
        let mut referrer = Self::of(id, &live.content).filter(|referrer| !referrer.is_empty() || is_fixed(id))?;
        referrer.kept_claims.clear();
        let mut controllers = live.object.owner_references.iter().filter(|reference| reference.controller);
        let has_template = controllers.any(|by| table::makes_pods(&by.group, &by.kind));
        if !id.is("", "Pod") {
            // A Job that is over makes no Pod any more. It is returned, because its manifest does not say so.
            if id.is("batch", "Job") && (live.is_true("Complete") || live.is_true("Failed")) {
                referrer.references.clear();
                referrer.pod_labels = KeyValues::default();
            }
            return (!has_template).then_some(referrer);
        }
        referrer.is_scheduled = live.text("/spec/nodeName").is_some_and(|node| !node.is_empty());
        let is_over = matches!(live.text("/status/phase"), Some("Succeeded" | "Failed"));
        if has_template || is_over {
            let is_scheduled = referrer.is_scheduled;
            referrer.references.retain(|reference| is_scheduled && reference.to.is("", "PersistentVolumeClaim"));
        }
        (!referrer.is_empty()).then_some(referrer)
    }

    /// Returns true if it refers to nothing, and makes and selects nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.references.is_empty() && self.makes.is_empty() && self.selector.is_none() && self.pod_labels.is_empty()
    }
}

/// Returns true if what an object refers to cannot be changed, so that the live one counts and not its manifest: the template of
/// a Job, and the spec of a claim but for its size and its VolumeAttributesClass.
pub(super) fn is_fixed(id: &ObjectId) -> bool {
    id.is("batch", "Job") || id.is("", "PersistentVolumeClaim")
}

fn in_cluster_of(from: &ObjectId, to: ObjectId) -> ObjectId {
    to.in_cluster(from.cluster.as_ref())
}

/// Returns the objects that these fields name: in this namespace, where a field names none.
fn targets(value: &Value, fields: &[Field], from: &ObjectId, namespace: &str) -> Vec<Reference> {
    let mut found = vec![];
    for field in fields.iter().filter(|field| !is_excepted(value, field)) {
        let mut values = vec![];
        collect(value, field.path, &mut values);
        found.extend(values.into_iter().filter_map(|value| reference(value, field, from, namespace)));
    }
    found
}

/// Returns true if a field of an object does not count because of another one.
fn is_excepted(object: &Value, field: &Field) -> bool {
    field.unless.iter().any(|(path, values)| match first(object, path) {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(value) => values.is_empty() || value.as_str().is_some_and(|text| values.contains(&text)),
    })
}

/// Collects the values at a path in which `*` stands for every item of a list.
fn collect<'v>(value: &'v Value, path: &str, found: &mut Vec<&'v Value>) {
    let (step, rest) = path.split_once('/').map_or((path, None), |(step, rest)| (step, Some(rest)));
    let next: Vec<&Value> = match step {
        "" => vec![value],
        "*" => value.as_array().into_iter().flatten().collect(),
        key => value.get(key).into_iter().collect(),
    };
    match rest {
        Some(rest) => next.into_iter().for_each(|value| collect(value, rest, found)),
        None => found.extend(next),
    }
}

fn first<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    let mut found = vec![];
    collect(value, path, &mut found);
    found.first().copied()
}

/// Returns the object that the value of a field names; `None` without a name, and if it may be absent.
fn reference(value: &Value, field: &Field, from: &ObjectId, own: &str) -> Option<Reference> {
    if value.get("optional").and_then(Value::as_bool).unwrap_or_default() {
        return None;
    }
    let name = value.as_str().or_else(|| text(value, "name")).or_else(|| text(value, "secretName"))?;
    // A store of external-secrets writes the kind as a type.
    let of_type = text(value, "type").filter(|kind| matches!(*kind, "ConfigMap" | "Secret"));
    let kind = text(value, "kind").or(of_type).unwrap_or(field.kind);
    let by_version = text(value, "apiVersion").map(group_of);
    let of_other_kind = if kind == field.kind { None } else { table::group_of_kind(kind) };
    // Gateway API writes the core group as an empty one.
    let named = by_version.or_else(|| text(value, "apiGroup")).or_else(|| text(value, "group"));
    let group = named.or(of_other_kind).unwrap_or(field.group);
    let namespace = if table::is_cluster_scoped(kind) { "" } else { text(value, "namespace").unwrap_or(own) };
    let to = in_cluster_of(from, ObjectId::new(group, kind, namespace, name));
    (!name.is_empty() && !kind.is_empty()).then_some(Reference { to, usage: field.usage })
}

/// Returns the text of a field; `None` if it is empty.
fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// Returns the Secrets that the parameters of a class of volumes or of snapshots name for its CSI driver. A name with a variable is
/// another one for each volume.
fn secrets_of_parameters(id: &ObjectId, manifest: &Value) -> Vec<Reference> {
    let parameters = manifest.get("parameters").and_then(Value::as_object);
    let secrets = parameters.into_iter().flatten().filter_map(|(key, name)| {
        let purpose = key.strip_prefix("csi.storage.k8s.io/")?.strip_suffix("-secret-name")?;
        let namespace = parameters?.get(&format!("csi.storage.k8s.io/{purpose}-secret-namespace"))?.as_str()?;
        let name = name.as_str().filter(|name| !name.contains('$') && !namespace.contains('$'))?;
        let to = in_cluster_of(id, ObjectId::new("", "Secret", namespace, name));
        Some(Reference { to, usage: Usage::Reads })
    });
    secrets.collect()
}

/// Returns the objects that the annotations of a manifest name. The content of a live object has no annotations.
fn named_by_annotations(id: &ObjectId, manifest: &Value, fields: &[Field]) -> Vec<Reference> {
    let annotations = manifest.pointer("/metadata/annotations");
    let named = fields.iter().filter_map(|field| {
        let name = annotations?.get(field.path).filter(|name| name.is_string())?;
        reference(name, field, id, &id.namespace)
    });
    named.collect()
}

/// Returns how the names of claims begin that live Pods go on mounting when their template no longer names them.
fn kept_claims(id: &ObjectId, manifest: &Value) -> Vec<Box<str>> {
    let is_stuck = match (&*id.group, &*id.kind) {
        ("batch", "Job" | "CronJob") | ("apps", "ReplicaSet") | ("", "ReplicationController") => true,
        ("apps", "Deployment") => flag_at(manifest, "/spec/paused"),
        ("apps", "DaemonSet" | "StatefulSet") => {
            let partition = manifest.pointer("/spec/updateStrategy/rollingUpdate/partition").and_then(Value::as_u64);
            text_at(manifest, "/spec/updateStrategy/type") == "OnDelete" || partition.is_some_and(|ordinal| ordinal > 0)
        }
        _ => false,
    };
    if is_stuck {
        return vec!["".into()];
    }
    // Without a number of replicas, Flux leaves the live one alone.
    if !id.is("apps", "StatefulSet") || manifest.pointer("/spec/replicas").is_some() {
        return vec![];
    }
    let names = template_names(manifest);
    names.into_iter().map(|name| format!("{name}-{}-", id.name).into_boxed_str()).collect()
}

/// Returns the names of the templates of claims of a StatefulSet.
fn template_names(manifest: &Value) -> Vec<&str> {
    let mut names = vec![];
    collect(manifest, "spec/volumeClaimTemplates/*/metadata/name", &mut names);
    names.into_iter().filter_map(Value::as_str).collect()
}

/// Returns the claims that a StatefulSet makes of its templates and mounts.
fn claims_of_templates(id: &ObjectId, manifest: &Value) -> Vec<Reference> {
    if !id.is("apps", "StatefulSet") {
        return vec![];
    }
    let [start, replicas] =
        ["/spec/ordinals/start", "/spec/replicas"].map(|pointer| manifest.pointer(pointer).and_then(Value::as_u64));
    let (start, replicas) = (start.unwrap_or_default(), replicas.unwrap_or(1).min(MAX_REPLICAS));
    let claims = template_names(manifest).into_iter().flat_map(|name| {
        (start..start.saturating_add(replicas)).map(move |ordinal| format!("{name}-{}-{ordinal}", id.name))
    });
    let ids = claims.map(|name| ObjectId::new("", "PersistentVolumeClaim", &id.namespace, &name));
    ids.map(|claim| Reference { to: in_cluster_of(id, claim), usage: Usage::Mounts }).collect()
}

/// Returns references that only another object completes: the kind of the parameters of an admission policy, as an object without a
/// name, and the parameters that a binding names, as one without a kind; and the sides of a grant of Gateway API, as objects without a
/// name or with one, of which those in its own namespace may be referred to by those in the others.
fn indirect(id: &ObjectId, manifest: &Value) -> Vec<Reference> {
    let mut found = vec![];
    if let Some(kind) = first(manifest, "spec/paramKind") {
        found.push(ObjectId::new(group_of(text_at(kind, "/apiVersion")), text_at(kind, "/kind"), "", ""));
    }
    if let Some(params) = first(manifest, "spec/paramRef") {
        let name = text_at(params, "/name");
        // Without a namespace they are those of the namespace of each request.
        if !name.is_empty() && text_at(params, "/parameterNotFoundAction") != "Allow" {
            found.push(ObjectId::new("", "", text_at(params, "/namespace"), name));
        }
    }
    if id.is(GATEWAY, "ReferenceGrant") {
        for path in ["spec/from/*", "spec/to/*"] {
            let mut sides = vec![];
            collect(manifest, path, &mut sides);
            found.extend(sides.into_iter().map(|side| {
                let namespace = if path.starts_with("spec/to") { &*id.namespace } else { text_at(side, "/namespace") };
                ObjectId::new(text_at(side, "/group"), text_at(side, "/kind"), namespace, text_at(side, "/name"))
            }));
        }
    } else if &*id.group != ADMISSION {
        return vec![];
    }
    found.into_iter().map(|to| Reference { to: in_cluster_of(id, to), usage: Usage::Uses }).collect()
}

fn labels(value: Option<&Value>) -> KeyValues {
    let pairs = value.and_then(Value::as_object).into_iter().flatten();
    pairs.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))).collect()
}

/// Returns a selector of Kubernetes as text; `None` if it selects nothing, or everything.
fn selector_text(selector: &Value) -> Option<String> {
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    let is_structured = expressions.is_some() || selector.get("matchLabels").is_some();
    let equal = if is_structured { selector.get("matchLabels") } else { Some(selector) };
    let mut terms: Vec<String> = labels(equal).iter().map(|(key, value)| format!("{key}={value}")).collect();
    for expression in expressions.into_iter().flatten() {
        let key = expression.get("key")?.as_str()?;
        let values: Vec<&str> = expression
            .get("values")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        terms.push(match expression.get("operator")?.as_str()? {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return None,
        });
    }
    (!terms.is_empty()).then(|| terms.join(","))
}
