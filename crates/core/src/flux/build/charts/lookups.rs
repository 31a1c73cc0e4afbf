//! Objects that templates look up in the cluster.
//!
//! Source: Helm v4.2.2 `pkg/engine/lookup_func.go`. A template that is rendered here asks a named template instead, which
//! fails with the question until the answer is known.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::flux::build::objects::query::ObjectQuery;
use crate::text::pluralize;

/// Answers to the lookups of a chart. An object that does not exist is an empty map.
pub(crate) type Lookups = BTreeMap<ObjectQuery, Value>;

/// Name of the named template in place of `lookup`.
pub(super) const LOOKUP: &str = "kubectl-gitops.lookup";
/// Beginning of the message of this template, before the question in JSON.
const QUESTION: &str = "kubectl-gitops.lookup: ";
/// Number of lookups of a chart that are answered. Each takes another render.
pub(crate) const LOOKUPS: usize = 50;

/// Returns the question in the message of a failed render; `None` if it has none.
pub(super) fn question(message: &str) -> Option<ObjectQuery> {
    let (_, rest) = message.split_once(QUESTION)?;
    let words: Vec<String> = serde_json::Deserializer::from_str(rest).into_iter().next()?.ok()?;
    let [api_version, kind, namespace, name] = <[String; 4]>::try_from(words).ok()?;
    Some(ObjectQuery { api_version, kind, namespace, name })
}

/// Returns the reason why a chart with more lookups is not rendered.
pub(crate) fn too_many() -> String {
    format!("its chart needs more than {}", pluralize(LOOKUPS, "lookup"))
}

/// Returns the named template that answers lookups.
pub(super) fn template(lookups: &Lookups) -> String {
    let answers: serde_json::Map<String, Value> =
        lookups.iter().map(|(query, answer)| (query.words().join("\n"), answer.clone())).collect();
    // A text in JSON is one in Go.
    let answers = Value::String(Value::Object(answers).to_string());
    format!(
        "{{{{- define \"{LOOKUP}\" -}}}}{{{{- $answers := fromJson {answers} -}}}}{{{{- $key := join \"\\n\" . -}}}}\
         {{{{- if hasKey $answers $key -}}}}{{{{- index $answers $key | toJson -}}}}{{{{- else -}}}}\
         {{{{- fail (printf \"{QUESTION}%s\" (toJson .)) -}}}}{{{{- end -}}}}{{{{- end -}}}}\n"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn query() -> ObjectQuery {
        let [api_version, kind, namespace, name] = ["v1", "ConfigMap", "shop", "web"].map(str::to_owned);
        ObjectQuery { api_version, kind, namespace, name }
    }

    #[test]
    fn the_message_of_a_render_has_the_question() {
        let message = "execution error at (app/templates/a.yaml:1:3): kubectl-gitops.lookup: \
                       [\"v1\",\"ConfigMap\",\"shop\",\"web\"]\n\nUse --debug flag";
        assert_eq!(question(message), Some(query()));
        assert_eq!(question("kubectl-gitops.lookup: [\"v1\"]"), None);
        assert_eq!(question("execution error at (a:1:3): no"), None);
    }

    #[test]
    fn the_template_has_the_answers() {
        let text = template(&[(query(), json!({"data": {"a": "\"}}"}}))].into());
        assert!(
            text.contains(r#"fromJson "{\"v1\\nConfigMap\\nshop\\nweb\":{\"data\":{\"a\":\"\\\"}}\"}}}""#),
            "{text}"
        );
    }
}
