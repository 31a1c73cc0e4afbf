//! Resources of ResourceSets, as flux-operator generates them.
//!
//! Source: flux-operator v0.58.1 `cmd/cli/build_resourceset.go`, `internal/inputs`.

use std::collections::BTreeMap;
use std::iter;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::objects::{BuiltObject, MaskedObject, objects, yaml};
use crate::flux::kinds;
use crate::kubernetes::object::{ObjectId, flag_at, list_at};
use crate::ownership::schemes::flux_operator::{GROUP, SET};
use crate::private::{PLACEHOLDER, Private};
use crate::text::hex;

/// One run of `flux-operator build resourceset`.
#[derive(Clone, Debug)]
pub struct SetRun {
    /// Hash of the manifest; runs with equal keys have equal output.
    pub key: String,
    /// Manifest of the ResourceSet with all its inputs, as JSON.
    pub manifest: Private<String>,
    /// The manifest holds values of Secrets, so that no message may show a part of it.
    pub is_private: bool,
}

impl SetRun {
    /// Creates a run for a ResourceSet with this spec.
    pub(crate) fn new(id: &ObjectId, spec: &Value, is_private: bool) -> Self {
        let set = json!({
            "apiVersion": format!("{GROUP}/v1"),
            "kind": id.kind,
            "metadata": {"name": id.name, "namespace": id.namespace},
            "spec": spec,
        });
        let manifest = set.to_string();
        Self { key: hex(&Sha256::digest(&manifest)), manifest: Private::new(manifest), is_private }
    }
}

/// Reason why it is not known what is generated, for people.
pub(crate) const UNKNOWN_VALUE: &str = "what it generates depends on an input that is not known yet: the id of a new provider, or the revision of an artifact";

/// Number of permutations of the inputs of a ResourceSet. flux-operator refuses more.
const PERMUTATIONS: usize = 10_000;

/// Returns each combination of the inputs of a ResourceSet and of its providers, by their names.
///
/// Fails as flux-operator does: if there are too many, or if a name has no letter or digit.
///
/// Source: flux-operator v0.58.1 `internal/inputs/permuter.go`, `combine.go` and `keys.go`.
pub(crate) fn permuted(
    id: &ObjectId,
    spec: &Value,
    providers: &BTreeMap<ObjectId, Vec<Value>>,
) -> Result<Vec<Value>, String> {
    let own = list_at(spec, "/inputs").to_vec();
    let all = iter::once((id, &own)).chain(providers);
    let counts_empty = flag_at(spec, "/inputStrategy/includeEmptyProviders");
    let mut permutations = vec![(vec![], Map::new())];
    let mut has_provider = false;
    for (provider, inputs) in all.filter(|(_, inputs)| counts_empty || !inputs.is_empty()) {
        has_provider = true;
        let name = normalised(&provider.name);
        if name.is_empty() {
            return Err(format!("the name of {provider} gives no key for its inputs"));
        }
        if permutations.len() * inputs.len() > PERMUTATIONS {
            return Err(format!("its inputs have more than {PERMUTATIONS} permutations"));
        }
        let mut longer = vec![];
        for (parts, fields) in &permutations {
            for (number, input) in inputs.iter().enumerate() {
                let (mut parts, mut fields): (Vec<String>, Map<String, Value>) = (parts.clone(), fields.clone());
                parts.push(format!("{name}={number}"));
                fields.insert(name.clone(), with_provider(input, provider));
                longer.push((parts, fields));
            }
        }
        permutations = longer;
    }
    let with_id = permutations.into_iter().filter(|_| has_provider).map(|(parts, mut fields)| {
        fields.insert("id".to_owned(), input_id(&parts.join("/")).into());
        Value::Object(fields)
    });
    Ok(with_id.collect())
}

fn with_provider(input: &Value, provider: &ObjectId) -> Value {
    with_provider_in("provider", input, provider)
}

fn with_provider_in(field: &str, input: &Value, provider: &ObjectId) -> Value {
    let mut provided = input.clone();
    if let Some(fields) = provided.as_object_mut() {
        let (kind, name, namespace) = (&provider.kind, &provider.name, &provider.namespace);
        let about = json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind, "name": name, "namespace": namespace});
        fields.insert(field.to_owned(), about);
    }
    provided
}

/// Expression in a template for the provider of an input, and its field. The program says that the ResourceSet gives all of its
/// inputs, so templates are given another field to read.
const READS_PROVIDER: &str = "inputs.provider";
const PROVIDED_BY: &str = "providedBy10810817";

/// Returns the inputs of a provider, for a spec that reads the provider of its inputs.
pub(crate) fn provided_by(spec: &Value, inputs: Vec<Value>, provider: &ObjectId) -> Vec<Value> {
    if !reads_provider(spec) {
        return inputs;
    }
    inputs.iter().map(|input| with_provider_in(PROVIDED_BY, input, provider)).collect()
}

fn reads_provider(spec: &Value) -> bool {
    let text = spec.to_string();
    text.split(READS_PROVIDER).skip(1).any(|rest| !continues(rest))
}

/// Returns true if a text continues a name.
fn continues(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphanumeric() || c == '_')
}

/// Returns a spec whose templates find the provider of an input where [`provided_by`] has it.
pub(crate) fn reading_providers(id: &ObjectId, spec: &Value) -> Value {
    if !reads_provider(spec) {
        return spec.clone();
    }
    let text = spec.to_string();
    let mut parts = text.split(READS_PROVIDER);
    let mut replaced = parts.next().unwrap_or_default().to_owned();
    for rest in parts {
        let field = if continues(rest) { READS_PROVIDER.to_owned() } else { format!("inputs.{PROVIDED_BY}") };
        replaced.push_str(&field);
        replaced.push_str(rest);
    }
    let mut reading: Value = serde_json::from_str(&replaced).unwrap_or_else(|_| spec.clone());
    if let Some(own) = reading.get_mut("inputs").and_then(Value::as_array_mut) {
        own.iter_mut().for_each(|input| *input = with_provider_in(PROVIDED_BY, input, id));
    }
    reading
}

/// Returns a name as the key of inputs in templates: small letters and digits, in words that `_` separates.
fn normalised(name: &str) -> String {
    let lower = name.to_lowercase();
    let parts = lower.split(|c: char| c.is_ascii_punctuation() || c.is_whitespace());
    let words = parts.map(|word| word.chars().filter(char::is_ascii_alphanumeric).collect::<String>());
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("_")
}

/// Returns the id of an input: for a Static provider, that of its uid.
///
/// Source: flux-operator v0.58.1 `internal/inputs/id.go`.
pub(crate) fn input_id(text: &str) -> String {
    adler32(text.as_bytes()).to_string()
}

/// Returns the mark for a part of an input that is not known yet: the id of a new provider, or the revision of an artifact.
pub(crate) fn unknown_value(of: &ObjectId) -> Value {
    format!("{PLACEHOLDER}{of}").into()
}

/// Returns inputs with values that are made up in the place of those that are not known: twice, so that what depends on them
/// differs; once if all are known.
pub(crate) fn with_values(inputs: &Value) -> Vec<Value> {
    let [first, second] = [1, 2].map(|number| with_made_up_values(inputs, number));
    if first == second { vec![first] } else { vec![first, second] }
}

fn with_made_up_values(value: &Value, number: usize) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, inner)| (key.clone(), with_made_up_values(inner, number)))
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(items) => items.iter().map(|item| with_made_up_values(item, number)).collect(),
        Value::String(text) if text.starts_with(PLACEHOLDER) => input_id(&format!("{text} {number}")).into(),
        _ => value.clone(),
    }
}

/// Returns the objects of a run, with placeholders where another one differs from it, because its inputs are not all known.
///
/// Fails if more depends on them than content: the names of objects, or what an object of Flux deploys.
pub(crate) fn with_unknown_values(first: Vec<BuiltObject>, second: &[BuiltObject]) -> Result<Vec<BuiltObject>, String> {
    let is_alike = first.len() == second.len() && first.iter().zip(second).all(|(first, second)| first.id == second.id);
    let mut of_flux =
        first.iter().zip(second).filter(|(built, _)| kinds::find(&built.id.group, &built.id.kind).is_some());
    if !is_alike || of_flux.any(|(first, second)| first.manifest["spec"] != second.manifest["spec"]) {
        return Err(UNKNOWN_VALUE.to_owned());
    }
    let masked = first.into_iter().zip(second).map(|(mut built, second)| {
        if built.manifest != second.manifest {
            let manifest = common(&built.manifest, &second.manifest);
            built.masked = Some(Box::new(MaskedObject { id: built.id.clone(), manifest }));
        }
        built
    });
    Ok(masked.collect())
}

/// Returns a value with placeholders where another one differs from it.
fn common(first: &Value, second: &Value) -> Value {
    match (first, second) {
        _ if first == second => first.clone(),
        (Value::Object(first), Value::Object(second)) if first.keys().eq(second.keys()) => {
            first.iter().map(|(key, value)| (key.clone(), common(value, &second[key]))).collect::<Map<_, _>>().into()
        }
        (Value::Array(first), Value::Array(second)) if first.len() == second.len() => {
            first.iter().zip(second).map(|(first, second)| common(first, second)).collect()
        }
        _ => PLACEHOLDER.into(),
    }
}

fn adler32(bytes: &[u8]) -> u32 {
    const MODULUS: u32 = 65_521;
    let (low, high) = bytes.iter().fold((1, 0), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % MODULUS;
        (low, (high + low) % MODULUS)
    });
    (high << 16) | low
}

/// Reads the output of a run.
///
/// Fails with the parser's message if a document is no YAML.
pub(crate) fn generated_objects(text: &str) -> Result<Vec<BuiltObject>, String> {
    let documents = yaml::documents(text)?;
    Ok(documents.into_iter().flat_map(|document| objects(document.value, None)).collect())
}

/// Returns objects with the labels of `commonMetadata` that take the place of those of the ResourceSet: the controller sets its own
/// labels before them, and the program after them.
///
/// Source: flux-operator v0.58.1 `apply` in `internal/controller/resourceset_controller.go`.
pub(crate) fn with_common_labels(mut objects: Vec<BuiltObject>, spec: &Value) -> Vec<BuiltObject> {
    let labels = spec.pointer("/commonMetadata/labels").and_then(Value::as_object).into_iter().flatten();
    for (key, value) in labels.filter(|(key, _)| SET.contains(&key.as_str())) {
        for built in &mut objects {
            let mut manifest = Value::clone(&built.manifest);
            manifest["metadata"]["labels"][key] = value.clone();
            built.manifest = Arc::new(manifest);
        }
    }
    objects
}

/// Returns true if the output has a resource whose name is empty or no text, such as `y`. flux-operator refuses all then.
pub(crate) fn has_nameless(text: &str) -> bool {
    let documents = yaml::documents(text).unwrap_or_default();
    let mut resources = documents.iter().map(|document| &document.value).filter(|resource| resource.is_object());
    resources.any(|resource| resource.pointer("/metadata/name").and_then(Value::as_str).is_none_or(str::is_empty))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_combination_of_inputs_is_one_input() {
        let set = ObjectId::new(GROUP, "ResourceSet", "apps", "Tenants");
        let provider = |name: &str| ObjectId::new(GROUP, "ResourceSetInputProvider", "apps", name);
        let spec = json!({"inputs": [{"tenant": "a"}, {"tenant": "b"}], "inputStrategy": {"name": "Permute"}});
        let providers = [(provider("git-hub"), vec![json!({"branch": "x"})]), (provider("none"), vec![])];
        let inputs = permuted(&set, &spec, &providers.clone().into()).unwrap();
        let shown: Vec<[&Value; 3]> = inputs
            .iter()
            .map(|input| [&input["tenants"]["tenant"], &input["git_hub"]["branch"], &input["id"]])
            .collect();
        let ids = ["tenants=0/git_hub=0", "tenants=1/git_hub=0"].map(|parts| adler32(parts.as_bytes()).to_string());
        assert_eq!(json!(shown), json!([["a", "x", ids[0]], ["b", "x", ids[1]]]));
        assert_eq!(inputs[0]["git_hub"]["provider"]["name"], "git-hub");
        let mut strict = spec.clone();
        strict["inputStrategy"]["includeEmptyProviders"] = true.into();
        assert_eq!(permuted(&set, &strict, &providers.into()), Ok(vec![]));
        assert_eq!(permuted(&set, &json!({}), &BTreeMap::new()), Ok(vec![]));
        let many = vec![json!({}); 101];
        let too_many = [(provider("a"), many.clone()), (provider("b"), many)];
        assert!(permuted(&set, &json!({}), &too_many.into()).is_err());
        assert_eq!(adler32(b"Wikipedia"), 0x11E6_0398);
    }
}
