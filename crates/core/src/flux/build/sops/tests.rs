use serde_json::{Value, json};

use super::*;
use crate::flux::source::artifact::SourceOptions;

const MAC: &str = "ENC[AES256_GCM,data:m,iv:i,tag:t,type:str]";

fn secret(name: &str, data: &[(&str, &str)]) -> Value {
    let data: Map<String, Value> =
        data.iter().map(|(key, value)| ((*key).to_owned(), STANDARD.encode(value).into())).collect();
    json!({"kind": "Secret", "metadata": {"name": name}, "type": "Opaque", "data": data})
}

#[test]
fn the_mac_of_every_format_is_found() {
    let rows = [
        format!("sops:\n    lastmodified: x\n    mac: {MAC}\n"),
        format!("\t\"sops\": {{\n\t\t\"mac\": \"{MAC}\",\n"),
        format!("A=ENC[AES256_GCM,data:a]\nsops_mac={MAC}\n"),
        format!("a = ENC[AES256_GCM,data:a]\n[sops]\nmac             = {MAC}\n"),
    ];
    for text in rows {
        assert_eq!(mac(&text), Some(MAC), "{text}");
    }
    assert_eq!(mac("password: ENC[AES256_GCM,data:a]"), None);
}

#[test]
fn only_what_the_controller_looks_at_is_decrypted_first() {
    let encrypted = |format: &str| match format {
        "env" => format!("sops_mac={MAC}"),
        "ini" => format!("[sops]\nmac = {MAC}"),
        "json" => format!("\"mac\": \"{MAC}\""),
        _ => format!("mac: {MAC}"),
    };
    let rows = [
        ("secretGenerator: [{name: a, envs: [f]}]", "env", true),
        ("secretGenerator: [{name: a, envs: [f]}]", "yaml", false),
        ("secretGenerator: [{name: a, files: [f]}]", "json", true),
        ("secretGenerator: [{name: a, files: [f]}]", "yaml", false),
        ("secretGenerator: [{name: a, files: [k.yaml=f]}]", "yaml", true),
        ("secretGenerator: [{name: a, files: [k.ini=f]}]", "ini", true),
        ("configMapGenerator: [{name: a, files: [f]}]", "json", false),
        ("patches: [{path: f}]", "json", true),
        ("patchesStrategicMerge: [f]", "json", false),
        ("resources: [nested]", "nested", true),
        ("components: [nested]", "nested", true),
        ("bases: [nested]", "nested", false),
    ];
    for (file, format, expected) in rows {
        let nested = "secretGenerator: [{name: a, files: [n.yaml]}]";
        let text = encrypted(if format == "nested" { "none" } else { format });
        let mut files = vec![("kustomization.yaml", file), ("nested/kustomization.yaml", nested)];
        files.push((if format == "nested" { "nested/n.yaml" } else { "f" }, &text));
        let artifact = Artifact::pack(&files.into_iter().collect(), &SourceOptions::default());
        let generated = generator::generate(&artifact, &json!({}), false).unwrap();
        assert_eq!(!decrypted_first(&artifact, &generated).is_empty(), expected, "{file} {format}");
    }
}

#[test]
fn a_name_is_hidden_only_by_a_hash_of_what_is_decrypted() {
    let macs = BTreeSet::from([MAC.to_owned()]);
    let name = |name: &str| secret(name, &[("a", "x"), ("sops_mac", MAC)]);
    assert!(matches!(veil(&name("env-bcdfghkmt2"), Some(&macs)), Some(Undecrypted::Name(_))));
    assert_eq!(veil(&name("env"), Some(&macs)), Some(Undecrypted::Content), "it has no hash");
    assert_eq!(veil(&name("env-production"), Some(&macs)), Some(Undecrypted::Content), "no hash is written like this");
    let none = BTreeSet::new();
    let after = secret("a-bcdfghkmt2", &[("f", &format!("a: 1\nsops:\n    mac: {MAC}\n"))]);
    assert_eq!(veil(&after, Some(&none)), Some(Undecrypted::Content), "it is decrypted after the build");
    assert_eq!(veil(&name("env-bcdfghkmt2"), Some(&none)), None, "variables are known as such by their file alone");
    assert_eq!(veil(&name("env-bcdfghkmt2"), None), None, "it is not decrypted at all");
}

#[test]
fn an_encrypted_identity_is_told_from_an_encrypted_content() {
    let cipher = "ENC[AES256_GCM,data:x,iv:i,tag:t,type:str]";
    let object =
        |name: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "sops": {"mac": MAC}});
    let none = BTreeSet::new();
    assert_eq!(veil(&object("a"), Some(&none)), Some(Undecrypted::Content));
    assert_eq!(veil(&object(cipher), Some(&none)), Some(Undecrypted::Identity));
    assert_eq!(in_clear(cipher), UNKNOWN);
}

#[test]
fn a_recipient_is_no_content_and_a_value_is() {
    let file = |value: &str, recipient: &str| {
        format!("a: {value}\nsops:\n    age:\n        - enc: {recipient}\n    mac: {MAC}\n")
    };
    let of = |value: &str, recipient: &str| content(&secret("a", &[("f.yaml", &file(value, recipient))]));
    assert_eq!(of("1", "x"), of("1", "y"));
    assert_ne!(of("1", "x"), of("2", "x"));
    let env = |key: &str| content(&secret("a", &[("A", "1"), ("sops_mac", MAC), (key, "x")]));
    assert_eq!(env("sops_age__list_0__map_enc"), env("sops_age__list_1__map_enc"));
    assert_ne!(env("sops_age__list_0__map_enc"), env("B"));
}
