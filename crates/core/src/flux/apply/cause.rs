//! Facts that an answer of the API server depends on besides the request: an answer is true of today's cluster, and a change of
//! that ends it.
//!
//! Source: the messages of Kubernetes v1.36.3: `apiserver/pkg/endpoints/handlers/responsewriters/errors.go` (rights),
//! `plugin/policy/validating/dispatcher.go` and `plugin/webhook/errors/statuserror.go` (admission),
//! `plugin/pkg/admission/resourcequota/controller.go`, `pkg/registry/core/service/portallocator`, and
//! `structured-merge-diff` (schemas).

use std::borrow::Cow;

use super::admission::ADMISSION;
use super::rights::RBAC;
use crate::kubernetes::allocations::Allocation;
use crate::kubernetes::object::ObjectId;

/// Replacement of a message of the server about an object with values of Secrets.
pub(crate) const HIDDEN_MESSAGE: &str = "the object holds values of Secrets, so the message of the server is not shown";

/// Words of the server before those about a webhook that does not answer.
const INTERNAL: &str = "Internal error occurred: ";

/// Words of the server before the name of a policy or a webhook that denies a request.
const POLICY: &str = "ValidatingAdmissionPolicy '";
const WEBHOOKS: [&str; 2] = ["admission webhook \"", "failed calling webhook \""];

/// Beginnings and ends of the server's words about a denial by an admission policy or a webhook, whose own words follow.
const DENIALS: [(&str, &str); 4] = [
    (POLICY, " denied request"),
    (WEBHOOKS[0], "\" denied the request"),
    (WEBHOOKS[0], "\" does not support dry run"),
    (WEBHOOKS[1], "\""),
];

/// Returns a message of the server about a Secret without what a policy or a webhook says in it: these see the whole object.
pub fn without_denial(message: &str) -> Cow<'_, str> {
    denial(message).map_or(Cow::Borrowed(message), |denial| Cow::Owned(cut(denial)))
}

/// Returns what is shown of a message of the server about an object with values of Secrets: who denies it, or nothing.
pub(super) fn without_values(message: &str) -> String {
    denial(message).map_or_else(|| HIDDEN_MESSAGE.to_owned(), cut)
}

/// Returns who denies a request, in the words of the server; `None` if neither a policy nor a webhook does. A message can quote
/// values of the object, which can hold the same words, so these count only where the server writes them.
pub(crate) fn denial(message: &str) -> Option<&str> {
    let words = words_of_admission(message);
    DENIALS.iter().find_map(|(beginning, end)| {
        let name = words.strip_prefix(beginning)?;
        Some(&words[..beginning.len() + name.find(end)? + end.len()])
    })
}

/// Returns a message from where a policy or a webhook is named, if it is about one.
fn words_of_admission(message: &str) -> &str {
    message.strip_prefix(INTERNAL).or_else(|| after_verdict(message, "forbidden")).unwrap_or(message)
}

/// Returns what follows `TYPE "NAME" is VERDICT: ` at the beginning of a message. The server quotes the name as Go does (`NewForbidden`
/// and `NewInvalid`), so that no name imitates this.
fn after_verdict<'m>(message: &'m str, verdict: &str) -> Option<&'m str> {
    let (resource, rest) = message.split_once(' ')?;
    let is_plain = resource.chars().all(|c| c.is_ascii_alphanumeric() || "-._/".contains(c));
    let rest = match rest.strip_prefix('"') {
        Some(quoted) => after_quoted(quoted)?.strip_prefix(' ')?,
        None => rest,
    };
    rest.strip_prefix("is ")?.strip_prefix(verdict)?.strip_prefix(": ").filter(|_| is_plain)
}

/// Returns what follows a text that Go quoted, of which the first quotation mark is read.
fn after_quoted(text: &str) -> Option<&str> {
    let mut is_escaped = false;
    let end = text.find(|c| {
        let is_end = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_end
    })?;
    Some(&text[end + 1..])
}

fn cut(denial: &str) -> String {
    format!("{denial}: {HIDDEN_MESSAGE}")
}

/// Beginning of the message about a manifest that does not fit the schema of its kind. The API server answers 500, but it
/// refuses the manifest for as long as it has this schema.
pub(super) const NO_TYPED_PATCH: &str = "failed to create typed patch object";
/// Part of a message about a field that the schema of a version lacks.
pub(super) const UNDECLARED_FIELD: &str = "field not declared in schema";

/// Part of the message about a role that gives rights that the user who applies it does not have.
const ESCALATION: &str = "is attempting to grant RBAC permissions not currently held";

/// Returns true if a message is about rights that a role or a binding gives and that the user who applies it does not
/// have, or about the role that a binding names and that does not exist.
pub(crate) fn is_of_granting(message: &str) -> bool {
    is_of_missing_role(message) || message.contains(ESCALATION)
}

/// Returns true if a message is about a binding of a role that does not exist, which only a user with the verb `bind`
/// may create (`GetRoleReferenceRules` in `pkg/registry/rbac/rolebinding/policybased/storage.go`). It names the binding
/// (observed).
fn is_of_missing_role(message: &str) -> bool {
    let resource = message.split(' ').next().unwrap_or_default();
    resource.ends_with("bindings.rbac.authorization.k8s.io") && message.ends_with("\" not found")
}

/// Beginning of what the server says after `is forbidden: ` about a quota.
pub(super) const EXCEEDED_QUOTA: &str = "exceeded quota: ";
/// Beginnings of what it says about a LimitRange.
const BOUNDS_OF_RANGES: [&str; 2] = ["maximum ", "minimum "];

/// Beginning of what the server says about a port for health checks that another Service has.
const HEALTH_CHECK_PORT: &str = "failed to allocate requested HealthCheck NodePort ";

/// Beginning of the message about a port or an address that another Service has by the time of the apply, and not in the dry-run.
const ALREADY_ALLOCATED: &str = "already allocated to ";

/// Returns the message about what another Service has by the time of the apply, and not in the dry-run.
pub(crate) fn already_allocated(what: Allocation, holder: &ObjectId) -> String {
    format!("{ALREADY_ALLOCATED}{holder}: {what}")
}

/// End of a message about a field that must not change, of servers that do not word it as Kubernetes does.
const IMMUTABLE: &str = "immutable";

/// Beginning of the name of a service account as a user.
const ACCOUNT: &str = "system:serviceaccount:";

/// Groups of the objects that admission webhooks take their rules from.
const POLICY_GROUPS: [&str; 4] = ["kyverno.io", "gatekeeper.sh", "kubewarden.io", "policy.sigstore.dev"];

/// Reason why the API server refuses a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The user lacks a right.
    Rights,
    /// A ValidatingAdmissionPolicy denies it.
    Policy,
    /// An admission webhook denies it, or does not answer.
    Webhook,
    /// A quota is used up, or a limit of the namespace is exceeded.
    Quota,
    /// Another object holds the port or the address.
    Allocation,
    /// A value is invalid, or does not fit the schema, or must not change.
    Value,
    /// The message is hidden, or is none of those.
    Unknown,
}

impl Cause {
    /// Reads the cause from the message of the server: from the words that it begins with, which the server alone writes. What
    /// follows can quote an object or be the words of a webhook, and so can imitate each other cause. The code and the reason of
    /// the answer say less: a webhook and a policy choose them.
    pub(crate) fn of(message: &str) -> Self {
        let words = words_of_admission(message);
        if words.starts_with(POLICY) {
            Self::Policy
        } else if WEBHOOKS.iter().any(|webhook| words.starts_with(webhook)) {
            Self::Webhook
        } else if let Some(why) = after_verdict(message, "forbidden") {
            Self::of_forbidden(why)
        } else if message.starts_with(ALREADY_ALLOCATED) || is_allocated(message) {
            Self::Allocation
        } else if after_verdict(message, "invalid").is_some() || is_of_schema(message) || message.ends_with(IMMUTABLE) {
            Self::Value
        } else if (message.starts_with(ACCOUNT) && message.contains(" may not ")) || is_of_missing_role(message) {
            Self::Rights
        } else {
            Self::Unknown
        }
    }

    /// Reads the cause from what the server says after `is forbidden: `.
    fn of_forbidden(why: &str) -> Self {
        let is_denied = why.starts_with("User \"") && why.contains(" cannot ") && why.contains(" resource \"");
        let is_limit = BOUNDS_OF_RANGES.iter().any(|limit| why.trim_start_matches('[').starts_with(limit))
            && why.contains(" usage per ");
        if is_denied || (why.starts_with("user \"") && why.contains(ESCALATION)) {
            Self::Rights
        } else if why.starts_with(EXCEEDED_QUOTA) || is_limit {
            Self::Quota
        } else {
            Self::Unknown
        }
    }

    /// Returns true if a change of the object `other` can change the answer to a request about `id` with this message.
    /// `definition` is the definition of its kind.
    pub(crate) fn depends_on(
        self,
        message: &str,
        id: &ObjectId,
        definition: Option<&ObjectId>,
        other: &Changed<'_>,
    ) -> bool {
        let Changed { id: changed, is_deleted } = *other;
        if changed.cluster != id.cluster {
            return false;
        }
        let is_of_namespace = *changed == id.namespace_object();
        let is_admission = &*changed.group == ADMISSION;
        let is_same = changed == id;
        let found = match self {
            Self::Rights => !is_deleted && is_right(changed, id),
            Self::Policy => {
                is_of_namespace || (is_admission && is_quoted(denial(message).unwrap_or(message), &changed.name))
            }
            Self::Webhook => is_of_namespace || is_admission || is_policy(changed),
            Self::Quota => is_limit(changed, id) || (changed.namespace == id.namespace && !is_same),
            Self::Allocation => changed.is("", "Service"),
            Self::Value => (is_same && !is_of_schema(message)) || definition == Some(changed),
            Self::Unknown => {
                is_same
                    || definition == Some(changed)
                    || is_of_namespace
                    || is_admission
                    || is_policy(changed)
                    || is_limit(changed, id)
                    || (!is_deleted && is_right(changed, id))
            }
        };
        // The message may name what it depends on, but messages about values quote these.
        let names_objects = matches!(self, Self::Webhook | Self::Quota | Self::Unknown);
        found || (names_objects && !is_same && names(message, changed))
    }
}

/// An object that a change creates, updates or deletes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Changed<'c> {
    pub(crate) id: &'c ObjectId,
    pub(crate) is_deleted: bool,
}

/// Returns true if a message is about a manifest that does not fit the schema of its kind.
pub(crate) fn is_of_schema(message: &str) -> bool {
    message.starts_with(NO_TYPED_PATCH)
        || (["failed to ", "."].iter().any(|words| message.starts_with(words)) && message.contains(UNDECLARED_FIELD))
}

/// Returns true if a message is about a port or an address of a Service that another one has. The server allocates them after it has
/// found everything else valid, so that it says nothing else. It answers 500 if the port is one for health checks.
pub(super) fn is_allocated(message: &str) -> bool {
    let is_of_service = message.starts_with("Service \"") && after_verdict(message, "invalid").is_some();
    let is_of_health_check = message.strip_prefix(INTERNAL).is_some_and(|why| why.starts_with(HEALTH_CHECK_PORT));
    (is_of_service || is_of_health_check) && message.ends_with("is already allocated")
}

/// Returns true if a message is about the fields of a live object, which the schema of the version of their managers lacks.
pub(crate) fn is_of_live_fields(message: &str) -> bool {
    is_of_schema(message) && !message.starts_with(NO_TYPED_PATCH)
}

/// Returns true if an object can give a right to change another one.
pub(crate) fn is_right(changed: &ObjectId, id: &ObjectId) -> bool {
    match (&*changed.group, &*changed.kind) {
        (RBAC, "Role" | "RoleBinding") => changed.namespace == id.namespace,
        (RBAC, _) | ("", "ServiceAccount") => true,
        _ => false,
    }
}

/// Returns true if an object limits what its namespace can hold.
fn is_limit(changed: &ObjectId, id: &ObjectId) -> bool {
    (changed.is("", "ResourceQuota") || changed.is("", "LimitRange")) && changed.namespace == id.namespace
}

/// Returns true if an admission webhook takes its rules from an object.
fn is_policy(changed: &ObjectId) -> bool {
    POLICY_GROUPS.iter().any(|group| changed.group.ends_with(group))
}

/// Returns true if a message names an object: in quotes, or after its kind as in `no PriorityClass with name high was found`. The
/// message about a claim that may not grow does not name its StorageClass.
fn names(message: &str, object: &ObjectId) -> bool {
    let ObjectId { kind, name, .. } = object;
    let mut phrases = [format!("{kind} with name {name} "), format!("{kind} {name} is already ")].into_iter();
    let is_class = object.is("storage.k8s.io", "StorageClass") && message.contains("must support resize");
    is_class || phrases.any(|phrase| message.contains(&phrase)) || is_quoted(message, name)
}

/// Returns true if a message has a name in quotes, or after the word that announces one. Keys and values of JSON are no
/// names.
fn is_quoted(message: &str, name: &str) -> bool {
    message.match_indices(name).any(|(at, _)| {
        let (before, after) = (&message[..at], &message[at + name.len()..]);
        let begins = before.ends_with(['"', '\'']) || before.ends_with("quota: ");
        let is_json = before.ends_with(":\"") || after.starts_with("\":");
        begins && !is_json && after.starts_with(['"', '\'', ','])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DENIED: &str = "configmaps \"a\" is forbidden: User \"system:serviceaccount:shop:s\" cannot delete resource \
        \"configmaps\" in API group \"\" in the namespace \"shop\"";
    const POLICY: &str =
        "configmaps \"b\" is forbidden: ValidatingAdmissionPolicy 'held' with binding 'bound' denied request: no";
    const SCHEMA: &str =
        "failed to create typed patch object (shop/w; e.com/v1, Kind=Widget): .spec.x: field not declared in schema";
    const PORT: &str =
        "Service \"new\" is invalid: spec.ports[0].nodePort: Invalid value: 31201: provided port is already allocated";
    const IMMUTABLE: &str = "Deployment.apps \"d\" is invalid: spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"e\"}}: field is immutable";
    const HOOK_WITH_JSON: &str = "admission webhook \"h\" denied the request: {\"a\":\"e\"} is held by \"host\"";
    const QUOTA: &str =
        "configmaps \"b\" is forbidden: exceeded quota: few, requested: count/configmaps=1, used: 1, limited: 1";

    #[test]
    fn causes_are_read_from_messages_of_the_server() {
        for (message, cause) in [
            (DENIED, Cause::Rights),
            (POLICY, Cause::Policy),
            ("admission webhook \"validate.kyverno.svc\" denied the request: no", Cause::Webhook),
            ("Internal error occurred: failed calling webhook \"h.e.com\": timeout", Cause::Webhook),
            (QUOTA, Cause::Quota),
            ("pods \"a\" is forbidden: maximum cpu usage per Container is 1, but limit is 2", Cause::Quota),
            (PORT, Cause::Allocation),
            (SCHEMA, Cause::Value),
            ("Deployment.apps \"d\" is invalid: spec.selector: Invalid value: {}: field is immutable", Cause::Value),
            ("namespaces \"x\" not found", Cause::Unknown),
            ("clusterrolebindings.rbac.authorization.k8s.io \"x\" not found", Cause::Rights),
            (HIDDEN_MESSAGE, Cause::Unknown),
        ] {
            assert_eq!(Cause::of(message), cause, "{message}");
        }
    }

    #[test]
    fn words_that_an_object_or_a_webhook_imitates_are_no_cause() {
        let invalid = |value: &str| {
            format!("ConfigMap \"a\" is invalid: metadata.labels: Invalid value: {value:?}: a label is alphanumeric")
        };
        let hook = |words: &str| format!("admission webhook \"h.e.com\" denied the request: {words}");
        let policy = |words: &str| {
            format!(
                "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: {words}"
            )
        };
        let named =
            |words: &str| format!("roles.rbac.authorization.k8s.io {words:?} is invalid: rules: Required value");
        let causes = [DENIED, POLICY, HOOK_WITH_JSON, QUOTA, PORT, IMMUTABLE, SCHEMA];
        for words in causes.iter().flat_map(|message| [*message, message.split_once(": ").map_or("", |(_, why)| why)]) {
            assert_eq!(Cause::of(&invalid(words)), Cause::Value, "{words}");
            assert_eq!(Cause::of(&named(words)), Cause::Value, "{words}");
            assert_eq!(Cause::of(&hook(words)), Cause::Webhook, "{words}");
            assert_eq!(Cause::of(&policy(words)), Cause::Policy, "{words}");
            assert_eq!(Cause::of(&format!("widgets.e.com {words:?} not found")), Cause::Unknown, "{words}");
            assert!(!is_of_schema(&hook(words)), "{words}");
        }
    }

    #[test]
    fn a_policy_that_quotes_the_name_of_another_one_does_not_depend_on_that() {
        let other = ObjectId::new(ADMISSION, "ValidatingAdmissionPolicy", "", "other");
        let changed = Changed { id: &other, is_deleted: true };
        let message = format!("{POLICY} to \"other\"");
        assert!(!Cause::Policy.depends_on(&message, &ObjectId::new("", "ConfigMap", "shop", "b"), None, &changed));
    }

    #[test]
    fn a_message_about_an_object_with_values_of_secrets_names_only_who_denies_it() {
        let webhook = "admission webhook \"validate.kyverno.svc\" denied the request: pw hunter2 is weak";
        let timeout = "Internal error occurred: failed calling webhook \"h.e.com\": hunter2";
        let quoted = |value: &str| {
            format!("ConfigMap \"a\" is invalid: metadata.labels: Invalid value: \"{value}\": a label is")
        };
        for (message, shown) in [
            (POLICY, Some("ValidatingAdmissionPolicy 'held' with binding 'bound' denied request")),
            (webhook, Some("admission webhook \"validate.kyverno.svc\" denied the request")),
            (timeout, Some("failed calling webhook \"h.e.com\"")),
            (SCHEMA, None),
            (QUOTA, None),
            // The object itself holds such words.
            (&quoted("ValidatingAdmissionPolicy 'hunter2' with binding 'b' denied request"), None),
            (&quoted("admission webhook \\\"hunter2\\\" denied the request"), None),
            (&quoted("failed calling webhook \\\"hunter2\\\""), None),
            ("ConfigMap \"x\\\" is forbidden: ValidatingAdmissionPolicy 'hunter2 denied request\" is invalid", None),
        ] {
            let cut = shown.map(|shown| format!("{shown}: {HIDDEN_MESSAGE}"));
            assert_eq!(without_denial(message), cut.as_deref().unwrap_or(message));
            let hidden = without_values(message);
            assert_eq!(hidden, cut.unwrap_or_else(|| HIDDEN_MESSAGE.to_owned()));
            assert_eq!(Cause::of(&hidden), if shown.is_some() { Cause::of(message) } else { Cause::Unknown });
        }
    }

    #[test]
    fn a_refusal_depends_on_what_its_cause_names() {
        let object = |group: &str, kind: &str, namespace: &str, name: &str| ObjectId::new(group, kind, namespace, name);
        let id = object("", "ConfigMap", "shop", "b");
        let rbac = "rbac.authorization.k8s.io";
        for (message, changed, is_deleted, expected) in [
            (DENIED, object(rbac, "Role", "shop", "s"), false, true),
            (DENIED, object(rbac, "Role", "other", "s"), false, false),
            (DENIED, object(rbac, "ClusterRoleBinding", "", "s"), false, true),
            (DENIED, object(rbac, "ClusterRoleBinding", "", "s"), true, false),
            (POLICY, object(ADMISSION, "ValidatingAdmissionPolicyBinding", "", "bound"), true, true),
            (POLICY, object(ADMISSION, "ValidatingAdmissionPolicyBinding", "", "bou"), true, false),
            (POLICY, object("", "Namespace", "", "shop"), false, true),
            (POLICY, object("", "ConfigMap", "shop", "x"), false, false),
            (QUOTA, object("", "ResourceQuota", "shop", "few"), false, true),
            (QUOTA, object("", "ConfigMap", "shop", "x"), true, true),
            (QUOTA, object("", "ConfigMap", "other", "x"), true, false),
            (IMMUTABLE, object("", "ConfigMap", "shop", "a"), false, false),
            (IMMUTABLE, object("", "ConfigMap", "shop", "e"), false, false),
            (HOOK_WITH_JSON, object("", "ConfigMap", "shop", "a"), false, false),
            (HOOK_WITH_JSON, object("", "ConfigMap", "shop", "host"), false, true),
            (PORT, object("", "Service", "other", "old"), true, true),
            (PORT, object("", "ConfigMap", "shop", "old"), true, false),
            (
                "pods \"d\" is forbidden: no PriorityClass with name high was found",
                object("scheduling.k8s.io", "PriorityClass", "", "high"),
                false,
                true,
            ),
        ] {
            let found = Cause::of(message).depends_on(message, &id, None, &Changed { id: &changed, is_deleted });
            assert_eq!(found, expected, "{message}: {changed}");
        }
        let definition = object("apiextensions.k8s.io", "CustomResourceDefinition", "", "widgets.e.com");
        let changed = Changed { id: &definition, is_deleted: false };
        let widget = object("e.com", "Widget", "shop", "w");
        assert!(Cause::Value.depends_on(SCHEMA, &widget, Some(&definition), &changed));
        let same = Changed { id: &widget, is_deleted: true };
        assert!(!Cause::Value.depends_on(SCHEMA, &widget, Some(&definition), &same));
        assert!(Cause::Value.depends_on(IMMUTABLE, &widget, Some(&definition), &same));
        assert!(!Cause::Value.depends_on(SCHEMA, &widget, None, &changed));
    }
}
