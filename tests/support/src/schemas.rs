//! The committed JSON Schemas in `docs/schemas`, against which every answer of the binary is checked.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::Value;

/// Prefix of the names of all schemas.
const PREFIX: &str = "kubectl-gitops/";

/// Validators by the name of the schema, as `kubectl-gitops/plan/v1`.
static VALIDATORS: LazyLock<BTreeMap<String, Validator>> = LazyLock::new(|| {
    let mut validators = BTreeMap::new();
    for entry in fs::read_dir(directory()).expect("docs/schemas") {
        let path = entry.expect("docs/schemas").path();
        let schema: Value = serde_json::from_slice(&fs::read(&path).expect("a schema")).expect("JSON");
        let validator =
            jsonschema::validator_for(&schema).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        // The schemas of inputs have another title.
        validators.insert(schema["title"].as_str().expect("a title").to_owned(), validator);
    }
    validators
});

/// Returns the folder of the committed schemas.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas")
}

/// Checks a document with a field `schema` of this project. Other values have no schema.
#[track_caller]
pub fn check(document: &Value) {
    let Some(name) = document["schema"].as_str().filter(|name| name.starts_with(PREFIX)) else { return };
    let validator = VALIDATORS.get(name).unwrap_or_else(|| panic!("{name} has no schema in docs/schemas"));
    let errors: Vec<String> =
        validator.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "not valid as {name}:\n{}\n{document:#}", errors.join("\n"));
}

/// Checks a value with a schema of its own.
#[track_caller]
pub fn check_with(schema: &Value, value: &Value) {
    let validator = jsonschema::validator_for(schema).unwrap_or_else(|error| panic!("{error}"));
    let errors: Vec<String> = validator.iter_errors(value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

/// Checks standard output, if it is a JSON or YAML document of this project.
#[track_caller]
pub fn check_output(stdout: &str) {
    let document = match stdout {
        json if json.starts_with('{') => serde_json::from_str(json).ok(),
        yaml if yaml.starts_with("schema: ") => gitops_core::yaml::document(yaml).ok(),
        _ => None,
    };
    document.iter().for_each(check);
}
