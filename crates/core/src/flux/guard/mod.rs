//! The guard: ValidatingAdmissionPolicies with which controllers delete what is grave only with an approval.
//!
//! An approval is the uid of an object in a ConfigMap, which a reviewed plan lists, or an annotation on the object with the
//! time at which it ends. A policy has parameters of one kind, so each scope has two policies, and both must allow a deletion:
//! one asks for an approval, with the ConfigMap as its parameter, the other one ends the annotation. CEL has no clock; each
//! API server renews a Lease every 10 seconds, and that is the parameter of the second one.
//!
//! Only the users that are listed are asked. The namespace controller and the garbage collector are none of them: what they
//! delete follows from a deletion that was allowed.

mod check;
#[cfg(test)]
mod tests;
mod users;

use std::collections::{BTreeMap, BTreeSet};

use serde::ser::{Serialize, SerializeStruct, Serializer};
use serde_json::{Value, json};

pub use check::{approval_findings, approved_with_ended_annotations, installation_findings};
pub use users::{DELETING_CONTROLLERS, DeletingController, deployments, has_owners, is_owner_kind, users};

use crate::flux::apply::admission::{ADMISSION, ADMISSION_V1, BINDING, POLICY};
use crate::flux::apply::cause::denial;
use crate::kubernetes::gap::Gap;
use crate::kubernetes::object::{GroupKind, ObjectId, ObjectMetadata, ResourceType};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::DELETION_APPROVED_UNTIL;
use crate::ownership::schemes::flux_kustomization::PRUNE;
use crate::plan::{Action, Actor, Plan};

/// Label that puts any object under the guard, with any value.
pub const MARK: &str = "kubectl-gitops/guard";
/// Annotation of the ConfigMap: digest of the plan that it approves.
const PLAN: &str = "kubectl-gitops/plan";
/// Name of the ConfigMap, and beginning of the names of all policies.
pub const NAME: &str = "kubectl-gitops-guard";
/// Namespace of the ConfigMap unless another one is named: it cannot be deleted.
pub const NAMESPACE: &str = "kube-system";
/// Label of the Leases of API servers. Source: Kubernetes v1.36.3 `pkg/controlplane/apiserver/server.go`.
const IDENTITY: (&str, &str) = ("apiserver.kubernetes.io/identity", "kube-apiserver");
/// Text of an annotation that is an approval. The API server refuses every deletion of an object for which `timestamp` fails.
const TIME: &str = "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z$";

/// Kinds that are guarded together.
#[derive(Debug)]
pub struct GuardedKinds {
    /// Name, as users type it.
    pub name: &'static str,
    /// They are guarded unless others are named.
    pub is_default: bool,
    /// Kinds with their plural names, and the version of a cluster that does not serve them.
    kinds: &'static [(&'static str, &'static str, &'static str, &'static str)],
}

/// All kinds that can be guarded.
pub const KINDS: [GuardedKinds; 5] = [
    GuardedKinds { name: "namespaces", is_default: true, kinds: &[("", "Namespace", "namespaces", "v1")] },
    GuardedKinds {
        name: "crds",
        is_default: true,
        kinds: &[("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", "v1")],
    },
    GuardedKinds {
        name: "volumes",
        is_default: true,
        kinds: &[
            ("", "PersistentVolumeClaim", "persistentvolumeclaims", "v1"),
            ("", "PersistentVolume", "persistentvolumes", "v1"),
        ],
    },
    // The finalizer of an owner deletes all its objects.
    GuardedKinds {
        name: "owners",
        is_default: true,
        kinds: &[
            ("kustomize.toolkit.fluxcd.io", "Kustomization", "kustomizations", "v1"),
            ("helm.toolkit.fluxcd.io", "HelmRelease", "helmreleases", "v2"),
            ("fluxcd.controlplane.io", "ResourceSet", "resourcesets", "v1"),
            ("fluxcd.controlplane.io", "FluxInstance", "fluxinstances", "v1"),
        ],
    },
    GuardedKinds { name: "statefulsets", is_default: false, kinds: &[("apps", "StatefulSet", "statefulsets", "v1")] },
];

/// A guard for one cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Guard {
    /// Names of the users that need an approval.
    pub users: BTreeSet<String>,
    /// Namespace of the ConfigMap.
    pub namespace: String,
    /// Rules for the kinds that are guarded.
    rules: Vec<Value>,
    /// Objects whose deletion is approved, by uid.
    pub approvals: BTreeMap<String, String>,
    /// Digest of the plan that approves them.
    pub digest: Option<String>,
}

/// Returns true if a cluster has the policies that the guard is made of; false on servers older than 1.30.
pub fn is_supported(snapshot: &Snapshot) -> bool {
    let policies = GroupKind::new(ADMISSION, POLICY);
    match snapshot.resource_type(&policies) {
        Some(kind) => &*kind.version == "v1" || snapshot.serves(&policies, "v1") == Some(true),
        None => false,
    }
}

/// Returns the gap that leaves open whether a cluster has these policies.
pub fn hiding_gap(snapshot: &Snapshot) -> Option<&Gap> {
    snapshot.gaps_hiding(&GroupKind::new(ADMISSION, POLICY)).next()
}

/// Returns true if the API servers of a cluster renew a Lease, so that an approval can end.
pub fn has_clock(snapshot: &Snapshot) -> bool {
    let mut leases = snapshot.objects.iter().filter(|object| object.id.is("coordination.k8s.io", "Lease"));
    leases.any(|lease| &*lease.id.namespace == NAMESPACE && lease.labels.get(IDENTITY.0) == Some(IDENTITY.1))
}

/// Returns what a plan deletes as a controller of Flux, by uid.
pub fn approvals(plan: &Plan) -> BTreeMap<String, String> {
    let controllers = [Actor::KustomizeController, Actor::HelmController, Actor::FluxOperator];
    let deleted = plan.changes().iter().filter(|change| matches!(change.action, Action::Delete | Action::Recreate));
    let own = deleted.filter(|change| controllers.contains(&change.by) && !change.object.uid.is_empty());
    // Other clusters have guards of their own.
    let here = own.filter(|change| change.object.id.cluster.is_none() && !change.object.id.is_private());
    here.map(|change| (change.object.uid.clone(), change.object.id.to_string())).collect()
}

/// Returns the first deletion of a plan file whose object has another uid in a cluster. The policy knows only uids, so that an approval
/// under the name of one object could be one of another.
pub fn misnamed<'p>(plan: &'p Plan, snapshot: &Snapshot) -> Option<&'p ObjectId> {
    let ids = plan.deletions().map(|change| &change.object).filter(|object| !object.uid.is_empty());
    let mut here = ids.filter(|object| object.id.cluster.is_none());
    let differs = here.find(|object| snapshot.object(&object.id).is_none_or(|live| *live.uid != *object.uid))?;
    Some(&differs.id)
}

/// Returns true if the guard of a cluster may refuse that a controller deletes an object. Only the API server knows for whom.
pub fn may_refuse(snapshot: &Snapshot, object: &ObjectMetadata) -> bool {
    let (group, kind) = (&*object.id.group, &*object.id.kind);
    let is_guarded = KINDS.iter().flat_map(|guarded| guarded.kinds).any(|known| (known.0, known.1) == (group, kind));
    let mut policies = snapshot.objects.iter().filter(|policy| policy.id.is(ADMISSION, POLICY));
    (is_guarded || object.labels.get(MARK).is_some()) && policies.any(|policy| policy.id.name.starts_with(NAME))
}

/// Returns true if a message of the API server is a refusal by the guard.
pub fn is_refusal(message: &str) -> bool {
    denial(message).is_some_and(|words| words.starts_with(&format!("ValidatingAdmissionPolicy '{NAME}")))
}

impl Guard {
    /// Returns the guard of kinds, by their names in [`KINDS`], in a cluster.
    pub fn new(kinds: &[String], users: BTreeSet<String>, namespace: &str, snapshot: &Snapshot) -> Self {
        let guarded = KINDS.iter().filter(|guarded| kinds.iter().any(|name| name == guarded.name));
        let rules = guarded.flat_map(|guarded| guarded.kinds).map(|(group, kind, plural, version)| {
            let served: Option<&ResourceType> = snapshot.resource_type(&GroupKind::new(group, kind));
            let version = served.map_or(*version, |kind| &kind.version);
            json!({"apiGroups": [group], "apiVersions": [version], "resources": [plural], "operations": ["DELETE"]})
        });
        Self { users, namespace: namespace.to_owned(), rules: rules.collect(), ..Self::default() }
    }

    /// Returns the manifests, in the order in which they are applied.
    pub fn manifests(&self) -> Vec<Value> {
        let any = json!([{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["DELETE"]}]);
        let marked = json!({"resourceRules": any, "objectSelector": {
            "matchExpressions": [{"key": MARK, "operator": "Exists"}]}});
        let mut scopes = vec![("marked", marked)];
        if !self.rules.is_empty() {
            scopes.insert(0, ("kinds", json!({"resourceRules": self.rules})));
        }
        let mut manifests = vec![self.config_map()];
        for (scope, constraints) in &scopes {
            manifests.push(self.policy(&format!("{NAME}-{scope}"), constraints, &approval()));
            manifests.push(self.policy(&format!("{NAME}-{scope}-expiry"), constraints, &expiry()));
        }
        for (scope, _) in &scopes {
            let by_name = json!({"name": NAME, "namespace": self.namespace, "parameterNotFoundAction": "Deny"});
            manifests.push(binding(&format!("{NAME}-{scope}"), &by_name));
            let leases = json!({"namespace": NAMESPACE, "selector": {"matchLabels": {IDENTITY.0: IDENTITY.1}},
                "parameterNotFoundAction": "Allow"});
            manifests.push(binding(&format!("{NAME}-{scope}-expiry"), &leases));
        }
        manifests
    }

    fn config_map(&self) -> Value {
        let mut metadata = metadata(NAME);
        metadata["namespace"] = json!(self.namespace);
        metadata["labels"] = json!({MARK: "true"});
        if let Some(digest) = &self.digest {
            metadata["annotations"][PLAN] = json!(digest);
        }
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": self.approvals})
    }

    fn policy(&self, name: &str, constraints: &Value, check: &Check) -> Value {
        let users: Vec<String> = self.users.iter().map(|user| json!(user).to_string()).collect();
        let is_listed = format!("request.userInfo.username in [\n  {}\n]", users.join(",\n  "));
        json!({
            "apiVersion": ADMISSION_V1,
            "kind": POLICY,
            "metadata": metadata(name),
            "spec": {
                "failurePolicy": "Fail",
                "paramKind": check.parameters,
                "matchConstraints": constraints,
                "matchConditions": [{"name": "controllers", "expression": is_listed}],
                "validations": [{
                    "expression": check.expression, "messageExpression": check.message, "reason": "Forbidden"}],
            },
        })
    }
}

impl Serialize for Guard {
    /// Writes the list of the manifests.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_struct("List", 3)?;
        list.serialize_field("apiVersion", "v1")?;
        list.serialize_field("kind", "List")?;
        list.serialize_field("items", &self.manifests())?;
        list.end()
    }
}

/// Condition of a policy for a deletion.
struct Check {
    parameters: Value,
    expression: String,
    message: String,
}

/// Expression that is true for an object with an annotation that is an approval.
fn is_annotated() -> String {
    format!(
        "has(oldObject.metadata.annotations) && '{DELETION_APPROVED_UNTIL}' in oldObject.metadata.annotations && \
         oldObject.metadata.annotations['{DELETION_APPROVED_UNTIL}'].matches('{TIME}')"
    )
}

/// Returns the check that there is an approval. What is being deleted already needs none.
fn approval() -> Check {
    Check {
        parameters: json!({"apiVersion": "v1", "kind": "ConfigMap"}),
        expression: format!(
            "has(oldObject.metadata.deletionTimestamp) ||\n\
             (has(params.data) && oldObject.metadata.uid in params.data) ||\n\
             ({})",
            is_annotated()
        ),
        message: "'a controller needs an approval to delete it: no plan approves uid ' + oldObject.metadata.uid"
            .to_owned(),
    }
}

/// Returns the check that the annotation has not ended. Of several API servers, the latest Lease decides.
fn expiry() -> Check {
    let until = format!("oldObject.metadata.annotations['{DELETION_APPROVED_UNTIL}']");
    Check {
        parameters: json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}),
        expression: format!(
            "has(oldObject.metadata.deletionTimestamp) ||\n!({}) ||\n\
             timestamp({until}) > timestamp(params.spec.renewTime)",
            is_annotated()
        ),
        message: format!("'a controller needs an approval to delete it: the one by annotation ended at ' + {until}"),
    }
}

fn binding(name: &str, parameters: &Value) -> Value {
    json!({
        "apiVersion": ADMISSION_V1,
        "kind": BINDING,
        "metadata": metadata(name),
        "spec": {"policyName": name, "paramRef": parameters, "validationActions": ["Deny", "Audit"]},
    })
}

/// Returns the metadata of a manifest. Policies cannot guard policies, so an annotation keeps kustomize-controller from pruning
/// them.
fn metadata(name: &str) -> Value {
    json!({"name": name, "annotations": {PRUNE: "disabled"}})
}
