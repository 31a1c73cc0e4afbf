//! Rules of kustomize-controller for the answer of the API server to an apply: refusals, immutable fields, unknown fields.
//!
//! Source: docs/reference/kustomize-controller.md 4.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::AppliedObject;
use super::cause::{Cause, EXCEEDED_QUOTA, is_allocated, is_of_live_fields, is_of_schema};
use super::ignore_rules::{cannot_keep, ignored_in_answer, unreplaceable_path};
use super::manifest::remove_unknown_fields;
use super::normalize::is_read_with_go_types;
use super::update::{Update, compare};
use crate::flux::kustomize_controller::KustomizeController;
use crate::kubernetes::object::{ObjectId, ResourceType, list_at};
use crate::kubernetes::snapshot::Snapshot;

/// Number of times that an apply is sent again without the unknown fields that the API server names.
const UNKNOWN_FIELD_RETRIES: usize = 4;

/// Number of characters of a name that another one begins with, so that it stays a label.
const KEPT_OF_NAME: usize = 38;

/// Reason why an object of a namespace that does not exist yet cannot be validated.
const NEW_NAMESPACE: &str = "its namespace is new";

/// Part of the message about a user who may not impersonate another one.
const IMPERSONATION_DENIED: &str = " cannot impersonate resource ";

/// Announcement of a value in a message about an invalid object, and the length in bytes of one that is left out.
const INVALID_VALUE: &str = "Invalid value: ";
const LONG_VALUE: usize = 160;

/// Result of the server-side dry-run of one change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DryRunResult {
    /// The object does not change.
    Unchanged,
    /// The object is created.
    Created,
    /// The API server accepts the deletion, or the apply of another controller than kustomize-controller.
    Accepted,
    /// The object is changed.
    Updated(Update),
    /// The API server refuses the object; the message of the server.
    Refused(String),
    /// The API server failed, for example because an admission webhook did not answer. A later try may succeed.
    ServerFailed(String),
    /// The API server refuses the change of an immutable field, so the controller deletes and recreates the object.
    Recreated(String),
    /// As [`Self::Recreated`], but the server refuses the creation too: the object is deleted and not recreated.
    DeletedOnly(String),
    /// As [`Self::Recreated`], but this finalizer keeps the deleted object, and the controller waits for it without a limit.
    HeldByFinalizer(String),
    /// The API server cannot validate the object before the merge; the reason.
    NotValidated(String),
}

impl DryRunResult {
    /// Returns the result that is known without a request, or `None` if the API server must be asked.
    pub(crate) fn without_request(applied: &AppliedObject, snapshot: &Snapshot) -> Option<Self> {
        let AppliedObject { id, built, .. } = applied;
        if applied.is_skipped(snapshot.object(id)) {
            return Some(Self::Unchanged);
        }
        if let Some(undecrypted) = &built.undecrypted {
            return Some(Self::NotValidated(undecrypted.reason().to_owned()));
        }
        if built.hides_identity() {
            // Its name would be in the URL of the request, and so in logs.
            return Some(Self::NotValidated("its name holds a value of a Secret: not compared".to_owned()));
        }
        let Some(kind) = snapshot.type_of(id) else { return Some(Self::of_new_kind()) };
        if kind.namespaced == id.namespace.is_empty() {
            return Some(Self::NotValidated("its kind gets another scope".to_owned()));
        }
        // A definition of the same change begins to serve it; without one, the build fails.
        let cluster = snapshot.of_cluster(id.cluster.as_ref()).unwrap_or(snapshot);
        if cluster.serves(&id.group_kind(), &built.version) == Some(false) {
            return Some(Self::NotValidated("its version is new".to_owned()));
        }
        None
    }

    /// Returns the result for an object of a kind that is not served yet.
    pub fn of_new_kind() -> Self {
        Self::NotValidated("its kind is new".to_owned())
    }

    /// Returns the result for an object of a namespace that does not exist yet and whose policies are not known.
    pub fn of_new_namespace() -> Self {
        Self::NotValidated(NEW_NAMESPACE.to_owned())
    }

    /// Changes the message of the server.
    #[must_use]
    pub(super) fn map_message(self, map: impl FnOnce(&str) -> String) -> Self {
        match self {
            Self::Refused(message) => Self::Refused(map(&message)),
            Self::ServerFailed(message) => Self::ServerFailed(map(&message)),
            Self::Recreated(message) => Self::Recreated(map(&message)),
            Self::DeletedOnly(message) => Self::DeletedOnly(map(&message)),
            Self::Unchanged
            | Self::Created
            | Self::Accepted
            | Self::Updated(_)
            | Self::HeldByFinalizer(_)
            | Self::NotValidated(_) => self,
        }
    }

    /// Returns the result of an apply that the API server accepted with `merged` as the new object.
    pub fn of_accepted(
        applied: &AppliedObject,
        snapshot: &Snapshot,
        controller: &KustomizeController,
        live: Option<&Value>,
        merged: &Value,
    ) -> Self {
        let Some(live) = live else { return Self::Created };
        let update = compare(applied, snapshot.object(&applied.id), &controller.flags, live, merged);
        let paths = ignored_in_answer(applied, merged);
        let unreplaceable = unreplaceable_path(paths, applied, live, merged);
        match unreplaceable.filter(|_| controller.features.replaces_ignored) {
            Some(path) if update.is_some() => Self::Refused(cannot_keep(&path)),
            _ => update.map_or(Self::Unchanged, Self::Updated),
        }
    }
}

/// Returns true if the namespace of an object does not exist yet.
pub fn is_in_new_namespace(id: &ObjectId, snapshot: &Snapshot) -> bool {
    let cluster = snapshot.of_cluster(id.cluster.as_ref());
    let lists_namespaces =
        cluster.is_some_and(|cluster| cluster.objects.iter().any(|object| object.id.is("", "Namespace")));
    lists_namespaces && !id.namespace.is_empty() && snapshot.object(&id.namespace_object()).is_none()
}

/// Error that the API server returned for an apply.
#[derive(Clone, Copy, Debug)]
pub struct ApplyError<'a> {
    /// HTTP status code; `None` without an answer.
    pub code: Option<u16>,
    /// Message of the server.
    pub message: &'a str,
    /// The request had the rights of the controller, so a missing right is one that the controller lacks too.
    pub has_controllers_rights: bool,
}

impl ApplyError<'_> {
    /// Returns true if the controller gets the same answer. Missing rights of another user and missing answers say nothing
    /// about it.
    pub fn is_refusal(self) -> bool {
        match self.code {
            Some(403) if self.is_missing_right() && self.message.contains(IMPERSONATION_DENIED) => false,
            Some(403) => self.has_controllers_rights || !self.is_missing_right(),
            code => matches!(code, Some(400 | 404 | 409 | 422 | 500)),
        }
    }

    /// Returns true if the API server refused because of fields of the live object, and not of the manifest.
    pub fn is_of_live_fields(self) -> bool {
        is_of_live_fields(self.message)
    }

    /// Returns true if the API server refused because of the rights of the user who asked, in its own words.
    fn is_missing_right(self) -> bool {
        Cause::of(self.message) == Cause::Rights
    }

    /// Returns true if the controller takes this for the change of an immutable field: any conflict, any invalid
    /// object, and two phrases.
    pub fn is_immutable_field(self) -> bool {
        matches!(self.code, Some(409 | 422))
            || ["is immutable", "immutable field"].iter().any(|phrase| self.message.contains(phrase))
    }

    /// Returns the result of an apply that ended with this error, or `None` if the error is no refusal.
    pub fn result(self) -> Option<DryRunResult> {
        if !self.is_refusal() {
            return None;
        }
        let message = self.message.to_owned();
        // The API server answers 500 to a manifest that does not fit the schema, now and later, and while another Service has a port.
        let has_failed = self.code == Some(500) && !is_of_schema(self.message) && !is_allocated(self.message);
        Some(if has_failed { DryRunResult::ServerFailed(message) } else { DryRunResult::Refused(message) })
    }
}

/// Retries of an apply without the fields that the API server does not know. The controller drops these fields
/// silently from objects that it reads with Go types.
pub struct UnknownFieldRetries {
    left: usize,
}

impl UnknownFieldRetries {
    pub fn new(kind: &ResourceType) -> Self {
        Self { left: if is_read_with_go_types(&kind.group, &kind.kind) { UNKNOWN_FIELD_RETRIES } else { 0 } }
    }

    /// Removes the fields that the error names. Returns true if the manifest should be sent again.
    pub fn should_retry(&mut self, manifest: &mut Value, error: ApplyError<'_>) -> bool {
        let retry = self.left > 0 && remove_unknown_fields(manifest, error.message);
        self.left = self.left.saturating_sub(1);
        retry
    }
}

/// Returns a message of the server without the long values that it quotes as JSON, such as the whole template of a Job.
pub fn without_long_values(message: &str) -> String {
    let mut rest = message;
    let mut short = String::new();
    while let Some(at) = rest.find(INVALID_VALUE) {
        let (before, value) = rest.split_at(at + INVALID_VALUE.len());
        let mut values = serde_json::Deserializer::from_str(value).into_iter::<Value>();
        let is_read = matches!(values.next(), Some(Ok(Value::Object(_) | Value::Array(_))));
        let end = if is_read { values.byte_offset() } else { 0 };
        short += before;
        short += if end > LONG_VALUE { "{…}" } else { &value[..end] };
        rest = &value[end..];
    }
    short + rest
}

/// Renames a manifest to a name that no object has, so that a dry-run shows if the object can be created again after its
/// deletion. The name begins as the true one does, because rules can ask for that. What only one object can have, and `live`
/// has, is left out: its deletion frees it. Returns the new identity, or `None` for a kind that allows no other name.
pub fn rename_for_creation(id: &ObjectId, manifest: &mut Value, live: Option<&Value>) -> Option<ObjectId> {
    let digest = Sha256::digest(id.to_string());
    let unique = format!("dry-run-{}", crate::text::hex(&digest[..8]));
    let group = manifest.pointer("/spec/group").and_then(Value::as_str).map(str::to_owned);
    let name = match (&*id.group, &*id.kind) {
        ("networking.k8s.io", "IPAddress") => return None,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            let names = manifest.pointer_mut("/spec/names")?.as_object_mut()?;
            names.insert("plural".to_owned(), json!(unique));
            format!("{unique}.{}", group?)
        }
        ("apiregistration.k8s.io", "APIService") => {
            *manifest.pointer_mut("/spec/version")? = json!(unique);
            format!("{unique}.{}", group?)
        }
        _ => {
            let beginning: String = id.name.chars().take(KEPT_OF_NAME).collect();
            format!("{}-{unique}", beginning.trim_end_matches(|c: char| !c.is_ascii_alphanumeric()))
        }
    };
    if let Some(live) = live.filter(|_| id.is("", "Service")) {
        free_addresses(manifest, live);
    }
    // Only one PriorityClass is the default.
    let is_default = live.is_some_and(|live| live["globalDefault"] == true);
    if let Some(fields) = manifest.as_object_mut().filter(|_| is_default && &*id.kind == "PriorityClass") {
        fields.remove("globalDefault");
    }
    manifest["metadata"]["name"] = json!(name);
    Some(ObjectId { name: name.into(), ..id.clone() })
}

/// Returns true if the server refuses the creation of an object beside a live one only because a quota of numbers of objects
/// is used up, in which the live one counts.
pub fn is_freed_by_deletion(message: &str) -> bool {
    let quota = Some(message).filter(|message| Cause::of(message) == Cause::Quota);
    let Some((_, numbers)) = quota.and_then(|message| message.split_once(EXCEEDED_QUOTA)) else { return false };
    let lists = ["requested: ", "used: ", "limited: "].map(|list| quota_numbers(numbers, list));
    let [Some(requested), Some(used), Some(limited)] = lists else { return false };
    requested.iter().all(|(name, number)| {
        let is_count = name.starts_with("count/") || COUNTED.contains(name);
        is_count && *number == 1 && used.get(name).zip(limited.get(name)).is_some_and(|(used, limited)| used <= limited)
    })
}

/// Returns the numbers of one list in a message about a quota, such as `used: count/configmaps=2,pods=1`; `None` if one is no
/// plain number.
fn quota_numbers<'m>(message: &'m str, list: &str) -> Option<BTreeMap<&'m str, u64>> {
    let (_, rest) = message.split_once(list)?;
    let numbers = rest.split(", ").next()?.split(',').map(|number| {
        let (name, number) = number.split_once('=')?;
        Some((name, number.parse().ok()?))
    });
    numbers.collect()
}

/// Names of quotas that count objects, beside those of the form `count/RESOURCE` (Kubernetes v1.36.3 `pkg/quota/v1/evaluator`).
const COUNTED: [&str; 7] =
    ["configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas", "secrets", "services"];

/// Removes the ports and addresses of a Service that the live one holds.
fn free_addresses(manifest: &mut Value, live: &Value) {
    let Some(spec) = manifest.get_mut("spec").and_then(Value::as_object_mut) else { return };
    spec.retain(|key, value| {
        let is_held = live.get("spec").and_then(|spec| spec.get(key)) == Some(&*value);
        match key.as_str() {
            "clusterIP" => value == "None" || !is_held,
            "clusterIPs" | "healthCheckNodePort" => !is_held,
            _ => true,
        }
    });
    let node_ports: Vec<&Value> = list_at(live, "/spec/ports").iter().filter_map(|port| port.get("nodePort")).collect();
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
        port.retain(|key, value| key != "nodePort" || !node_ports.contains(&&*value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::resource_type;

    fn error(code: u16, message: &str) -> ApplyError<'_> {
        ApplyError { code: (code > 0).then_some(code), message, has_controllers_rights: false }
    }

    const HOOK: &str = "admission webhook \"h.e.com\" denied the request: ";

    #[test]
    fn errors_are_refusals_when_the_server_evaluated_the_object() {
        let denied =
            "configmaps \"a\" is forbidden: User \"bob\" cannot patch resource \"configmaps\" in API group \"\"";
        for (name, error, refusal, immutable) in [
            ("admission policy", error(403, "denied by policy"), true, false),
            ("missing right", error(403, denied), false, false),
            ("webhook that words a missing right", error(403, &format!("{HOOK}{denied}")), true, false),
            ("invalid", error(422, "spec.selector: Invalid value"), true, true),
            ("bad request", error(400, "unknown field"), true, false),
            ("bad request about an immutable field", error(400, "field is immutable"), true, true),
            ("conflict", error(409, "conflict"), true, true),
            ("missing namespace", error(404, "namespaces \"x\" not found"), true, false),
            ("webhook without an answer", error(500, "failed calling webhook"), true, false),
            ("webhook that names an immutable field", error(500, "immutable field changed"), true, true),
            ("not logged in", error(401, "Unauthorized"), false, false),
            ("too many requests", error(429, "slow down"), false, false),
            ("no answer", error(0, "Unable to connect"), false, false),
        ] {
            assert_eq!((error.is_refusal(), error.is_immutable_field()), (refusal, immutable), "{name}");
        }
        assert_eq!(error(422, "m").result(), Some(DryRunResult::Refused("m".to_owned())));
        assert_eq!(error(500, "m").result(), Some(DryRunResult::ServerFailed("m".to_owned())));
        assert_eq!(error(401, "m").result(), None);
        let typo = "failed to create typed patch object (shop/w; e.com/v1, Kind=Widget): .spec.x: field not declared in schema";
        assert_eq!(error(500, typo).result(), Some(DryRunResult::Refused(typo.to_owned())), "a typo is no failure");
        let live = "failed to prune fields: .spec.x: field not declared in schema";
        let imitated = format!("{HOOK}{typo}");
        assert_eq!(error(500, &imitated).result(), Some(DryRunResult::ServerFailed(imitated.clone())));
        assert!(error(500, live).is_of_live_fields() && !error(500, typo).is_of_live_fields());
    }

    #[test]
    fn long_values_are_left_out_of_a_message() {
        let long = format!("{{\"Spec\":{{\"Image\":\"}}: {}\"}}}}", "i".repeat(LONG_VALUE));
        for (message, expected) in [
            (
                format!("spec.template: Invalid value: {long}: field is immutable"),
                "spec.template: Invalid value: {…}: field is immutable",
            ),
            (
                "a: Invalid value: {\"b\":1}: no, c: Invalid value: null: no".to_owned(),
                "a: Invalid value: {\"b\":1}: no, c: Invalid value: null: no",
            ),
            ("a: Invalid value: {broken".to_owned(), "a: Invalid value: {broken"),
        ] {
            assert_eq!(without_long_values(&message), expected);
        }
    }

    #[test]
    fn unknown_fields_are_removed_a_few_times_and_only_from_kinds_with_go_types() {
        let unknown = error(500, ".spec.a: field not declared in schema");
        let manifest = json!({"spec": {"a": 1}});
        let retries = |group: &str, kind: &str| UnknownFieldRetries::new(&resource_type(group, kind, "any", true));
        let mut of_deployment = retries("apps", "Deployment");
        for _ in 0..UNKNOWN_FIELD_RETRIES {
            assert!(of_deployment.should_retry(&mut manifest.clone(), unknown));
        }
        assert!(!of_deployment.should_retry(&mut manifest.clone(), unknown));
        let no_field = &mut json!({});
        assert!(!retries("apps", "Deployment").should_retry(no_field, unknown), "the manifest has no such field");
        for (group, kind, is_retried) in [
            ("rbac.authorization.k8s.io", "RoleBinding", true),
            ("rbac.authorization.k8s.io", "Role", false),
            ("rbac.authorization.k8s.io", "ClusterRole", false),
            ("apiextensions.k8s.io", "CustomResourceDefinition", false),
            ("apiregistration.k8s.io", "APIService", false),
            ("gateway.networking.k8s.io", "Gateway", false),
            ("example.com", "Widget", false),
        ] {
            assert_eq!(retries(group, kind).should_retry(&mut manifest.clone(), unknown), is_retried, "{kind}");
        }
    }

    #[test]
    fn a_creation_is_tried_under_a_name_of_its_own() {
        let id = ObjectId::new("", "ConfigMap", "shop", "a");
        let mut manifest = json!({"metadata": {"name": "a"}});
        let other = rename_for_creation(&id, &mut manifest, None).unwrap();
        assert_eq!((manifest["metadata"]["name"].as_str(), &*other.namespace), (Some(&*other.name), "shop"));
        let secret = ObjectId::new("", "Secret", "shop", "a");
        assert!(other.name.starts_with("a-dry-run-"), "{other}");
        assert_ne!(Some(other), rename_for_creation(&secret, &mut manifest, None));
        let service = ObjectId::new("", "Service", "shop", "s".repeat(63).as_str());
        assert_eq!(rename_for_creation(&service, &mut manifest, None).unwrap().name.len(), 63);
    }

    #[test]
    fn a_creation_leaves_out_what_only_the_live_object_can_have() {
        let id = ObjectId::new("scheduling.k8s.io", "PriorityClass", "", "high");
        let class = |is_default| json!({"metadata": {"name": "high"}, "value": 1, "globalDefault": is_default});
        for (live, left) in [(class(true), Value::Null), (class(false), json!(true))] {
            let mut manifest = class(true);
            rename_for_creation(&id, &mut manifest, Some(&live)).unwrap();
            assert_eq!(manifest["globalDefault"], left, "{live}");
        }
    }

    #[test]
    fn a_quota_that_the_live_object_uses_is_freed_by_its_deletion() {
        let full = |numbers: &str| format!("configmaps \"i\" is forbidden: exceeded quota: q, {numbers}");
        for (numbers, expected) in [
            ("requested: count/configmaps=1, used: count/configmaps=2, limited: count/configmaps=2", true),
            (
                "requested: configmaps=1,count/configmaps=1, used: configmaps=2,count/configmaps=2, limited: configmaps=2,count/configmaps=3",
                true,
            ),
            ("requested: count/configmaps=1, used: count/configmaps=3, limited: count/configmaps=2", false),
            ("requested: requests.storage=3Gi, used: requests.storage=2Gi, limited: requests.storage=4Gi", false),
            ("requested: services.nodeports=1, used: services.nodeports=2, limited: services.nodeports=2", false),
        ] {
            assert_eq!(is_freed_by_deletion(&full(numbers)), expected, "{numbers}");
        }
        assert!(!is_freed_by_deletion("denied by policy"));
        let numbers = "requested: pods=1, used: pods=2, limited: pods=2";
        assert!(!is_freed_by_deletion(&format!("{HOOK}{}", full(numbers))), "the words of a webhook");
    }

    #[test]
    fn the_other_name_is_one_that_the_kind_allows() {
        let id = ObjectId::new("apiextensions.k8s.io", "CustomResourceDefinition", "", "widgets.e.com");
        let mut manifest =
            json!({"metadata": {"name": "widgets.e.com"}, "spec": {"group": "e.com", "names": {"plural": "widgets"}}});
        let other = rename_for_creation(&id, &mut manifest, None).unwrap();
        assert_eq!(*other.name, format!("{}.e.com", manifest["spec"]["names"]["plural"].as_str().unwrap()));
        let id = ObjectId::new("apiregistration.k8s.io", "APIService", "", "v1.e.com");
        let mut manifest = json!({"metadata": {"name": "v1.e.com"}, "spec": {"group": "e.com", "version": "v1"}});
        let other = rename_for_creation(&id, &mut manifest, None).unwrap();
        assert_eq!(*other.name, format!("{}.e.com", manifest["spec"]["version"].as_str().unwrap()));
        let id = ObjectId::new("networking.k8s.io", "IPAddress", "", "10.0.0.1");
        assert_eq!(rename_for_creation(&id, &mut json!({"metadata": {}}), None), None);
    }

    #[test]
    fn the_deletion_of_a_service_frees_its_ports_and_addresses() {
        let id = ObjectId::new("", "Service", "shop", "s");
        let live = json!({"spec": {"clusterIP": "10.0.0.1", "ports": [{"port": 80, "nodePort": 31000}]}});
        let spec = json!({"clusterIP": "10.0.0.1", "ports": [{"port": 80, "nodePort": 31000}, {"port": 81, "nodePort": 31001}]});
        let mut manifest = json!({"metadata": {"name": "s"}, "spec": spec});
        rename_for_creation(&id, &mut manifest, Some(&live));
        assert_eq!(manifest["spec"], json!({"ports": [{"port": 80}, {"port": 81, "nodePort": 31001}]}));
    }
}
