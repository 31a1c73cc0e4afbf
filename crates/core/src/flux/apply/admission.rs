//! Rules of admission: which requests a policy or a webhook is asked about, and what a ValidatingAdmissionPolicy says.
//!
//! Source: Kubernetes v1.36.3 `apiserver/pkg/admission/plugin/policy/matching` and
//! `apiserver/pkg/admission/plugin/webhook/predicates`. A selector of objects counts as a match.

use cel::Value as CelValue;
use serde_json::{Value, json};

use crate::expression::{self, MAX_STEPS};
use crate::kubernetes::object::{GroupKind, KeyValues, ObjectId, ResourceType, group_of, list_at, text_at};
use crate::kubernetes::selector::label_selector::selects;

/// Group of webhooks and admission policies.
pub(crate) const ADMISSION: &str = "admissionregistration.k8s.io";
/// Version of its policies and webhooks.
pub(crate) const ADMISSION_V1: &str = "admissionregistration.k8s.io/v1";
pub(crate) const POLICY: &str = "ValidatingAdmissionPolicy";
pub(crate) const BINDING: &str = "ValidatingAdmissionPolicyBinding";
pub(crate) const MUTATING_POLICY: &str = "MutatingAdmissionPolicy";
pub(crate) const MUTATING_BINDING: &str = "MutatingAdmissionPolicyBinding";

/// A change of an object that the API server asks its rules about.
#[derive(Clone, Copy)]
pub(crate) struct AdmissionRequest<'r> {
    pub(crate) kind: &'r ResourceType,
    /// Version of the API that it is sent in.
    pub(crate) version: &'r str,
    pub(crate) id: &'r ObjectId,
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub(crate) operation: &'static str,
    /// Labels of the namespace; of no interest for an object without one.
    pub(crate) namespace: &'r KeyValues,
}

/// Objects that are the parameters of a policy by one of its bindings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParameterRef {
    pub(crate) api_version: String,
    kind: GroupKind,
    /// Empty if a selector selects them by their labels.
    pub(crate) name: String,
    /// Empty for the namespace of the object that the policy is asked about, and for cluster-scoped parameters.
    namespace: String,
    /// Selector of their labels; null without one.
    selector: Value,
}

impl ParameterRef {
    /// Returns the reference of a binding; `None` if the policy has no parameters.
    pub(crate) fn of(policy: &Value, binding: &Value) -> Option<Self> {
        let [api_version, kind] = ["/spec/paramKind/apiVersion", "/spec/paramKind/kind"].map(|at| text_at(policy, at));
        let [name, namespace] =
            ["/spec/paramRef/name", "/spec/paramRef/namespace"].map(|at| text_at(binding, at).to_owned());
        (!kind.is_empty() && binding.pointer("/spec/paramRef").is_some()).then(|| Self {
            api_version: api_version.to_owned(),
            kind: GroupKind::new(group_of(api_version), kind),
            name,
            namespace,
            selector: binding["spec"]["paramRef"]["selector"].clone(),
        })
    }

    /// Returns true if the reference selects an object with these labels.
    pub(crate) fn selects(&self, labels: &KeyValues) -> bool {
        selects(&self.selector, |key| labels.get(key))
    }

    /// Returns the one object that is the parameter for objects in a namespace; `None` if it is selected by its labels,
    /// or if its values are secret.
    pub(crate) fn object(&self, namespace: &str) -> Option<ObjectId> {
        let GroupKind { group, kind } = &self.kind;
        let namespace = if self.namespace.is_empty() { namespace } else { &self.namespace };
        let is_known = !self.name.is_empty() && &**kind != "Secret";
        is_known.then(|| ObjectId::new(group, kind, namespace, &self.name))
    }

    /// Returns true if an object can be a parameter for objects in a namespace, or in any one if that is `None`.
    pub(crate) fn may_be(&self, id: &ObjectId, namespace: Option<&str>) -> bool {
        let place = if self.namespace.is_empty() { namespace } else { Some(&*self.namespace) };
        id.cluster.is_none()
            && id.group_kind() == self.kind
            && (self.name.is_empty() || *id.name == *self.name)
            && (id.namespace.is_empty() || place.is_none_or(|place| *id.namespace == *place))
    }
}

/// A policy with its binding, or one webhook.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AdmissionRule {
    /// Constraints that must all match.
    constraints: Vec<Value>,
    /// Expressions that must all be true; `None` if they are not evaluated here.
    validations: Option<Vec<String>>,
    /// Conditions of a request, such as its user: the rule says nothing unless all are true.
    conditions: Vec<Value>,
    /// Object that the expressions call `params`.
    parameters: Option<Value>,
    /// A policy with mutations.
    is_mutating: bool,
    /// The API server calls what the rule denies invalid; `None` if that is not known.
    denies_as_invalid: Option<bool>,
    /// An expression can look at who sends a request.
    asks_for_user: bool,
    /// An expression looks at the namespace of the object.
    asks_for_namespace: bool,
}

/// An object as the expressions of a rule see it.
#[derive(Clone, Copy)]
pub(crate) struct Judged<'r> {
    /// Null for a deletion.
    pub(crate) object: &'r Value,
    /// Object in whose place it is.
    pub(crate) old: Option<&'r Value>,
    /// Name and labels of its namespace, if they are known.
    pub(crate) namespace: Option<&'r Value>,
    /// No field is missing that has a value on the server. Expressions that ask whether there is a field are evaluated
    /// only then.
    pub(crate) is_whole: bool,
}

/// Name of the namespace in expressions.
const NAMESPACE_OBJECT: &str = "namespaceObject";

impl AdmissionRule {
    /// Returns the rule of a policy and one of its bindings, with the object that is its parameter; `None` if it denies
    /// nothing. What a policy with mutations makes of an object is not evaluated here.
    pub(crate) fn of_policy(policy: &Value, binding: &Value, parameters: Option<&Value>) -> Option<Self> {
        let is_mutating = policy.pointer("/spec/mutations").is_some();
        let denies = is_mutating || list_at(binding, "/spec/validationActions").iter().any(|action| action == "Deny");
        let is_plain = !is_mutating
            && list_at(policy, "/spec/variables").is_empty()
            && (parameters.is_some() || policy.pointer("/spec/paramKind").is_none_or(Value::is_null));
        let validations = list_at(policy, "/spec/validations").iter();
        let expressions = validations.filter_map(|validation| validation["expression"].as_str().map(str::to_owned));
        denies.then(|| Self {
            constraints: vec![policy["spec"]["matchConstraints"].clone(), binding["spec"]["matchResources"].clone()],
            validations: is_plain.then(|| expressions.collect()),
            conditions: list_at(policy, "/spec/matchConditions").to_vec(),
            parameters: parameters.cloned(),
            is_mutating,
            denies_as_invalid: if is_mutating { None } else { denies_as_invalid(policy) },
            asks_for_user: mentions_user(policy),
            asks_for_namespace: policy.to_string().contains(NAMESPACE_OBJECT),
        })
    }

    /// Returns true if the rule changes objects.
    pub(crate) fn is_mutating(&self) -> bool {
        self.is_mutating
    }

    /// Returns true if the API server calls what the rule denies invalid, for which a controller deletes an object by
    /// force; `None` if that is not known.
    pub(crate) fn denies_as_invalid(&self) -> Option<bool> {
        self.denies_as_invalid
    }

    /// Returns true if another rule asks the same of the requests that it matches.
    pub(crate) fn says_the_same(&self, other: &Self) -> bool {
        self.validations == other.validations && self.conditions.len() == other.conditions.len()
    }

    /// Returns true if the rule is asked only about objects that a selector selects by their labels.
    pub(crate) fn selects_objects(&self) -> bool {
        self.object_selectors().next().is_some()
    }

    fn object_selectors(&self) -> impl Iterator<Item = &Value> {
        let selectors = self.constraints.iter().map(|constraint| &constraint["objectSelector"]);
        selectors.filter(|selector| selector.as_object().is_some_and(|selector| !selector.is_empty()))
    }

    /// Returns true if what decides whether the rule is asked about an object is the same in another rule.
    pub(crate) fn asks_as(&self, other: &Self) -> bool {
        self.conditions == other.conditions && self.object_selectors().eq(other.object_selectors())
    }

    /// Returns the rules of a configuration of webhooks by their names.
    pub(crate) fn of_webhooks(configuration: &Value) -> impl Iterator<Item = (String, Self)> {
        let webhooks = list_at(configuration, "/webhooks").iter();
        webhooks.map(|webhook| {
            let constraints = vec![webhook.clone()];
            let conditions = list_at(webhook, "/matchConditions").to_vec();
            let asks_for_user = mentions_user(&webhook["matchConditions"]);
            let rule = Self {
                constraints,
                validations: None,
                conditions,
                parameters: None,
                is_mutating: false,
                denies_as_invalid: None,
                asks_for_user,
                asks_for_namespace: webhook["matchConditions"].to_string().contains(NAMESPACE_OBJECT),
            };
            (text_at(webhook, "/name").to_owned(), rule)
        })
    }

    /// Returns true if the API server asks the rule about a request, as far as that is known.
    pub(crate) fn matches(&self, request: AdmissionRequest<'_>) -> bool {
        self.constraints.iter().all(|constraint| {
            let mut rules = ["/resourceRules", "/rules"].into_iter().filter_map(|list| constraint.pointer(list));
            let is_of_kind = match rules.next().and_then(Value::as_array) {
                Some(rules) => rules.iter().any(|rule| is_about(rule, constraint, request)),
                None => true,
            };
            let mut excluded = list_at(constraint, "/excludeResourceRules").iter();
            let is_excluded = excluded.any(|rule| is_about(rule, constraint, request));
            let is_free = request.id.namespace.is_empty();
            let is_selected = selects(&constraint["namespaceSelector"], |key| request.namespace.get(key));
            is_of_kind && !is_excluded && (is_free || is_selected)
        })
    }

    /// Returns false if a condition of the rule is known to be false for a request, so that the rule is not asked about
    /// it.
    pub(crate) fn may_ask_about(&self, request: &Value) -> bool {
        let mut expressions = self.conditions.iter().filter_map(|condition| condition["expression"].as_str());
        !expressions.any(|text| evaluate(text, &[("request", request)]) == Some(false))
    }

    /// Returns true if an expression of the rule can look at who sends a request. A webhook does not say whether it
    /// does.
    pub(crate) fn asks_for_user(&self) -> bool {
        self.asks_for_user
    }

    /// Returns true if an expression of the rule looks at the namespace of the object.
    pub(crate) fn asks_for_namespace(&self) -> bool {
        self.asks_for_namespace
    }

    /// Returns the Service that a webhook calls and without whose answer the API server refuses a request.
    pub(crate) fn awaited_service(&self) -> Option<ObjectId> {
        let webhook = self.constraints.first().filter(|webhook| webhook["failurePolicy"] != "Ignore")?;
        let service = webhook.pointer("/clientConfig/service")?;
        Some(ObjectId::new("", "Service", text_at(service, "/namespace"), text_at(service, "/name")))
    }

    /// Returns true if a policy allows an object, false if it denies it, and `None` if that is not known.
    pub(crate) fn allows(&self, judged: Judged<'_>) -> Option<bool> {
        let expressions: Vec<&str> = self.validations.as_ref()?.iter().map(String::as_str).collect();
        self.all(&expressions, judged)
    }

    /// Returns true if the conditions of the rule are true of an object, so that it is asked; `None` if that is not
    /// known.
    pub(crate) fn is_asked(&self, judged: Judged<'_>) -> Option<bool> {
        let expressions: Option<Vec<&str>> = self.conditions.iter().map(|it| it["expression"].as_str()).collect();
        self.all(&expressions?, judged)
    }

    /// Returns true if all expressions are true, false if one is false, and `None` if that is not known.
    fn all(&self, expressions: &[&str], judged: Judged<'_>) -> Option<bool> {
        let Judged { object, old, namespace, is_whole } = judged;
        let optional = [("oldObject", old), ("params", self.parameters.as_ref()), (NAMESPACE_OBJECT, namespace)];
        let known = optional.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let variables: Vec<(&str, &Value)> = [("object", object)].into_iter().chain(known).collect();
        let answerable = expressions
            .iter()
            .filter(|text| (is_whole || !(text.contains("has(") || text.contains('?'))) && asks_for_known_part(text));
        let results: Vec<bool> = answerable.filter_map(|text| evaluate(text, &variables)).collect();
        if results.contains(&false) {
            return Some(false);
        }
        (results.len() == expressions.len()).then_some(true)
    }
}

/// Returns true if a policy gives no other reason for a denial than that an object is invalid, or says that it is
/// immutable, which controllers take for the same; `None` if that depends on what it denies.
fn denies_as_invalid(policy: &Value) -> Option<bool> {
    let mut validations = list_at(policy, "/spec/validations").iter();
    let is_invalid = |validation: &Value| matches!(text_at(validation, "/reason"), "" | "Invalid");
    if validations.clone().all(is_invalid) {
        return Some(true);
    }
    let is_other = |validation: &Value| !is_invalid(validation) && !validation.to_string().contains("immutable");
    validations.all(is_other).then_some(false)
}

/// Returns true if an expression asks of the namespace for nothing but its name and labels.
fn asks_for_known_part(text: &str) -> bool {
    let mut parts = text.split(NAMESPACE_OBJECT).skip(1);
    parts.all(|part| [".metadata.labels", ".metadata.name"].iter().any(|known| part.starts_with(known)))
}

/// Returns a namespace as expressions see it, as far as it is known.
pub(crate) fn namespace_object(name: &str, labels: &KeyValues) -> Value {
    let labels: serde_json::Map<String, Value> =
        labels.iter().map(|(key, value)| (key.to_owned(), json!(value))).collect();
    json!({"metadata": {"name": name, "labels": labels}})
}

/// Returns true if an expression of a rule names the user of a request, or what that user may do.
fn mentions_user(rule: &Value) -> bool {
    let text = rule.to_string();
    ["userInfo", "authorizer"].iter().any(|word| text.contains(word))
}

/// Returns the result of an expression; `None` if it is not known.
fn evaluate(text: &str, variables: &[(&str, &Value)]) -> Option<bool> {
    let parsed = expression::parse(text).ok()?;
    let mut context = expression::context();
    for (name, value) in variables {
        context.add_variable(*name, *value).ok()?;
    }
    let mut left = MAX_STEPS;
    match expression::with_stack(|| parsed.evaluate(&context, &mut left)) {
        Ok(CelValue::Bool(result)) => Some(result),
        _ => None,
    }
}

/// Returns what is known of a live object that is deleted.
pub(crate) fn deleted_object(id: &ObjectId, labels: &KeyValues) -> Value {
    let labels: serde_json::Map<String, Value> =
        labels.iter().map(|(key, value)| (key.to_owned(), json!(value))).collect();
    json!({"metadata": {"name": &*id.name, "namespace": &*id.namespace, "labels": labels}})
}

/// Returns true if a rule of a constraint is about the kind, the scope, the name and the operation of a request. Unless
/// the constraint is exact, a rule about one version of a kind counts as one about all.
fn is_about(rule: &Value, constraint: &Value, request: AdmissionRequest<'_>) -> bool {
    let names = list_at(rule, "/resourceNames");
    let AdmissionRequest { kind, version, id, operation, .. } = request;
    let is_of_scope = match text_at(rule, "/scope") {
        "Namespaced" => kind.namespaced,
        "Cluster" => !kind.namespaced,
        _ => true,
    };
    let is_of_version = constraint["matchPolicy"] != "Exact" || has_any(rule, "/apiVersions", &["*", version]);
    let all_parts = format!("{}/*", kind.plural);
    is_of_scope
        && is_of_version
        && has_any(rule, "/operations", &["*", operation])
        && has_any(rule, "/apiGroups", &["*", &kind.group])
        && has_any(rule, "/resources", &["*", "*/*", &kind.plural, &all_parts])
        && (names.is_empty() || names.iter().any(|name| *name == *id.name))
}

fn has_any(rule: &Value, list: &str, words: &[&str]) -> bool {
    list_at(rule, list).iter().filter_map(Value::as_str).any(|word| words.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(object: &Value) -> Judged<'_> {
        Judged { object, old: None, namespace: None, is_whole: true }
    }
    use crate::testing::resource_type;

    fn policy(expression: &str) -> Value {
        json!({"spec": {"validations": [{"expression": expression}], "matchConstraints": {"resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["configmaps"]}]}}})
    }

    fn binding(selector: &Value) -> Value {
        json!({"spec": {"validationActions": ["Deny"], "matchResources": {"namespaceSelector": selector}}})
    }

    fn labels(pairs: &[(&str, &str)]) -> KeyValues {
        pairs.iter().copied().collect()
    }

    #[test]
    fn a_rule_matches_kind_operation_and_labels_of_the_namespace() {
        let selector = json!({"matchLabels": {"team": "a"}, "matchExpressions": [
            {"key": "trusted", "operator": "DoesNotExist"}, {"key": "tier", "operator": "NotIn", "values": ["low"]}]});
        let rule = AdmissionRule::of_policy(&policy("true"), &binding(&selector), None).unwrap();
        let kind = resource_type("", "ConfigMap", "configmaps", true);
        let id = ObjectId::new("", "ConfigMap", "shop", "a");
        let matches = |operation, pairs: &[(&str, &str)]| {
            rule.matches(AdmissionRequest { kind: &kind, version: "v1", id: &id, operation, namespace: &labels(pairs) })
        };
        assert!(matches("UPDATE", &[("team", "a")]));
        assert!(!matches("DELETE", &[("team", "a")]));
        assert!(!matches("UPDATE", &[("team", "b")]));
        assert!(!matches("UPDATE", &[("team", "a"), ("trusted", "yes")]));
        assert!(!matches("UPDATE", &[("team", "a"), ("tier", "low")]));
        let secrets = resource_type("", "Secret", "secrets", true);
        let request = AdmissionRequest {
            kind: &secrets,
            version: "v1",
            id: &id,
            operation: "UPDATE",
            namespace: &labels(&[("team", "a")]),
        };
        assert!(!rule.matches(request));
        let warns = json!({"spec": {"validationActions": ["Warn"]}});
        assert_eq!(AdmissionRule::of_policy(&policy("true"), &warns, None), None);
        let hooks = json!({"webhooks": [{"rules": [{"apiGroups": ["*"], "operations": ["*"], "resources": ["*"]}]}]});
        assert!(
            AdmissionRule::of_webhooks(&hooks)
                .all(|(_, hook)| hook.matches(request) && hook.allows(whole(&json!({}))).is_none())
        );
    }

    #[test]
    fn a_rule_names_kinds_with_all_their_parts_and_a_scope_and_a_version() {
        let (kind, id) =
            (resource_type("", "ConfigMap", "configmaps", true), ObjectId::new("", "ConfigMap", "shop", "a"));
        let matches = |resource: &str, more: Value, policy: &str| {
            let mut rule =
                json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": [resource]});
            crate::kubernetes::object::merge(&mut rule, &more);
            let spec = json!({"spec": {"matchConstraints": {"resourceRules": [rule], "matchPolicy": policy}}});
            let rule = AdmissionRule::of_policy(&spec, &binding(&Value::Null), None).unwrap();
            let namespace = &KeyValues::default();
            rule.matches(AdmissionRequest { kind: &kind, version: "v1", id: &id, operation: "UPDATE", namespace })
        };
        let none = || json!({});
        for resource in ["*", "*/*", "configmaps", "configmaps/*"] {
            assert!(matches(resource, none(), "Equivalent"), "{resource}");
        }
        for resource in ["configmaps/status", "*/status", "secrets/*", "config/*"] {
            assert!(!matches(resource, none(), "Equivalent"), "{resource}");
        }
        assert!(!matches("*", json!({"scope": "Cluster"}), "Equivalent"));
        assert!(
            matches("*", json!({"scope": "Namespaced"}), "Equivalent") && matches("*", json!({"scope": "*"}), "Exact")
        );
        let other = || json!({"apiVersions": ["v2"]});
        assert!(!matches("*", other(), "Exact") && matches("*", other(), "Equivalent"));
        assert!(matches("*", json!({"apiVersions": ["*"]}), "Exact"));
    }

    #[test]
    fn a_policy_denies_as_invalid_unless_it_gives_another_reason() {
        let reasons = |validations: Value| denies_as_invalid(&json!({"spec": {"validations": validations}}));
        assert_eq!(reasons(json!([{"expression": "x"}, {"reason": "Invalid"}])), Some(true));
        assert_eq!(reasons(json!([{"reason": "Forbidden"}])), Some(false));
        assert_eq!(reasons(json!([{"reason": "Forbidden"}, {}])), None);
        assert_eq!(reasons(json!([{"reason": "Forbidden", "message": "it is immutable"}])), None);
    }

    #[test]
    fn a_policy_allows_an_object_or_denies_it_or_that_is_not_known() {
        let allows = |expression: &str, is_whole| {
            let rule = AdmissionRule::of_policy(&policy(expression), &binding(&Value::Null), None).unwrap();
            rule.allows(Judged { is_whole, ..whole(&json!({"data": {"v": "1"}})) })
        };
        assert_eq!(allows("object.data.v != 'held'", false), Some(true));
        assert_eq!(allows("object.data.v == 'held'", false), Some(false));
        assert_eq!(allows("!has(object.spec)", true), Some(true));
        assert_eq!(allows("!has(object.spec)", false), None, "the server may have it");
        assert_eq!(allows("object.spec.replicas < 5", true), None);
        assert_eq!(allows("oldObject.data.v == object.data.v", true), None);
        let mut with_parameters = policy("true");
        with_parameters["spec"]["paramKind"] = json!({"kind": "ConfigMap"});
        let rule = AdmissionRule::of_policy(&with_parameters, &binding(&Value::Null), None).unwrap();
        assert_eq!(rule.allows(whole(&json!({}))), None);
    }

    #[test]
    fn parameters_are_one_object_or_those_that_a_selector_selects() {
        let policy = json!({"spec": {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}});
        let of = |reference: &Value| ParameterRef::of(&policy, &json!({"spec": {"paramRef": reference}})).unwrap();
        let map = |namespace: &str, name: &str| ObjectId::new("", "ConfigMap", namespace, name);
        let named = of(&json!({"name": "limits", "namespace": "rules"}));
        assert_eq!(named.object("shop"), Some(map("rules", "limits")));
        assert!(named.may_be(&map("rules", "limits"), Some("shop")) && !named.may_be(&map("shop", "limits"), None));
        let near = of(&json!({"name": "limits"}));
        assert_eq!(near.object("shop"), Some(map("shop", "limits")));
        assert!(!near.may_be(&map("rules", "limits"), Some("shop")) && near.may_be(&map("rules", "limits"), None));
        let selected = of(&json!({"selector": {}, "namespace": "rules"}));
        assert!(selected.object("shop").is_none() && selected.may_be(&map("rules", "any"), Some("shop")));
        assert!(!selected.may_be(&ObjectId::new("", "Secret", "rules", "any"), Some("shop")));
        assert_eq!(ParameterRef::of(&policy, &json!({"spec": {}})), None);
        assert_eq!(ParameterRef::of(&json!({}), &json!({"spec": {"paramRef": {"name": "limits"}}})), None);
    }

    #[test]
    fn a_parameter_decides_once_it_is_known() {
        let mut approving = policy("oldObject.metadata.uid in params.data");
        approving["spec"]["paramKind"] = json!({"apiVersion": "v1", "kind": "ConfigMap"});
        approving["spec"]["matchConditions"] =
            json!([{"name": "user", "expression": "request.userInfo.username == 'a'"}]);
        let (with, without) = (json!({"data": {"u": ""}}), json!({"data": {"v": ""}}));
        let rule = |parameters| AdmissionRule::of_policy(&approving, &binding(&Value::Null), parameters).unwrap();
        let old = json!({"metadata": {"uid": "u"}});
        let deletion = Judged { old: Some(&old), ..whole(&Value::Null) };
        let allows = |parameters| rule(parameters).allows(deletion);
        assert_eq!((allows(Some(&with)), allows(Some(&without)), allows(None)), (Some(true), Some(false), None));
        assert_eq!(rule(Some(&with)).is_asked(deletion), None, "nobody knows the user");
        assert!(rule(Some(&with)) != rule(Some(&without)));
    }

    #[test]
    fn expressions_see_the_name_and_the_labels_of_the_namespace() {
        let namespace = namespace_object("shop", &labels(&[("strict", "yes")]));
        let allows = |expression: &str| {
            let rule = AdmissionRule::of_policy(&policy(expression), &binding(&Value::Null), None).unwrap();
            assert!(rule.asks_for_namespace(), "{expression}");
            rule.allows(Judged { namespace: Some(&namespace), ..whole(&json!({})) })
        };
        assert_eq!(allows("!('strict' in namespaceObject.metadata.labels)"), Some(false));
        assert_eq!(allows("namespaceObject.metadata.name == 'shop'"), Some(true));
        assert_eq!(allows("!has(namespaceObject.metadata.annotations)"), None, "these are not known");
    }
}
