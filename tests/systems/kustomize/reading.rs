//! The reader of kustomization files beside that of Go, on generated texts: a value is the same, and what is called
//! invalid is refused by Go.

use gitops_core::flux::build::generator::{self, GenerateError};
use gitops_core::flux::build::references::{self, ReferenceError};
use gitops_core::flux::source::artifact::Artifact;
use gitops_core::flux::source::options::SourceOptions;
use serde_json::{Value, json};
use test_support::random::Random;

use super::judge::{self, Verdict};

/// Texts from which others are made.
const SEEDS: &[&str] = &[
    "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n- a.yaml\n- ../base\nnamePrefix: x-\n",
    "resources: [a.yaml, 'b.yaml', \"c\\u0041.yaml\"]\nresources: [d.yaml]\n",
    "---\nresources: [a.yaml]\n---\nresources: [b.yaml]\n",
    "# nothing\n---\nresources: [b.yaml]\n",
    "nameSuffix: -01\nnamespace: 0123\nnamePrefix: on\ncommonLabels: {a: yes, b: 1.50, c: 0x1F, d: 1_000, e: ~}\n",
    "nameSuffix: 1e3\nnamePrefix: .5\nnamespace: 2001-01-01\nlabels: [{pairs: {a: 1234567.0}, includeSelectors: true}]\n",
    "x: &a {k: v, l: [1, 2]}\ncommonLabels:\n  <<: *a\n  k: w\n",
    "x: &a [a.yaml]\nresources: *a\ny: {<<: [{a: 1}, {b: 2}], c: 3}\n",
    "patches:\n- path: p.yaml\n  target: {kind: Deployment, name: 5}\n- patch: |-\n    - op: add\n      path: /a\n      value: b\n",
    "patchesStrategicMerge:\n- |\n  apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: a}\n- p.yaml\n",
    "configMapGenerator:\n- name: a\n  files: [k=v.txt]\n  literals: [a=b, 'c=d']\n  options: {disableNameSuffixHash: true}\n",
    "secretGenerator: [{name: s, type: 5, envs: [e.env], options: {labels: {a: 1}}}]\n",
    "images: [{name: a, newTag: 1.10, digest: ~}, {name: b, newTag: !!str 5}]\nreplicas: [{name: r, count: 3}, {count: 1e1}]\n",
    "replacements:\n- source: {kind: ConfigMap, name: a, fieldPath: data.x}\n  targets: [{select: {name: b}, fieldPaths: [a.b]}]\n",
    "vars: [{name: V, objref: {kind: Service, name: s, apiVersion: v1}, fieldref: {fieldPath: a}}]\nsortOptions: {order: fifo}\n",
    "Resources: [a.yaml]\nNAMEPREFIX: a\nunknown: {a: [1, {b: c}]}\n",
    "? complex\n: value\n? [a]\n: b\n",
    "folded: >-\n  a\n   b\n\n  c\nliteral: |+\n  a\n\nplain: a\n  b\n c: d\n",
    "\u{feff}resources: [a]\r\nnamePrefix: 'it''s'\r\n",
    "{\"resources\": [\"a.yaml\"], \"namePrefix\": \"x\\ty\\u00e9\\ud83d\"}\n",
    "!!map {resources: !!seq [a, !x b], nameSuffix: !!binary aGk=}\n",
    "%YAML 1.1\n---\nresources: [a]\n...\nb: c\n",
    "a: [b, c: d, {e}, [f: g], ? h : i]\n'q': \"r\" #s\n",
    "key with spaces: - not a list\n-a: b\n:c: d\n- e\n",
    "openapi: {path: s.json, version: 1}\nhelmCharts: [{name: c, valuesInline: {a: .inf}}]\nbuildMetadata: [originAnnotations]\n",
];

/// Pieces that mutations insert.
const PIECES: &[&str] = &[
    "\n",
    "\n\n",
    "\r\n",
    "\r",
    " ",
    "  ",
    "\t",
    ":",
    ": ",
    "- ",
    "-",
    "? ",
    "?",
    ",",
    "[",
    "]",
    "{",
    "}",
    "&a ",
    "*a",
    "<<: *a",
    "!!str ",
    "!!int ",
    "!!binary ",
    "! ",
    "!x ",
    "|",
    "|-\n",
    "|2\n",
    ">+\n",
    "'",
    "\"",
    "#",
    " #c",
    "---\n",
    "\n---\n",
    "...\n",
    "%YAML 1.2\n",
    "yes",
    "~",
    "null",
    "0123",
    "-01",
    "0b1",
    "1_0",
    ".5",
    "1e3",
    "+1",
    "0x",
    "08",
    "1.",
    ".inf",
    "2001-01-01",
    "a://b",
    "x=y",
    "\\",
    "\\n",
    "\\x41",
    "\u{85}",
    "\u{2028}",
    "\u{feff}",
    "é",
    "😀",
    "@",
    "`",
    "%",
    "resources",
    "Resources:",
    "- a: b\n  c: d\n",
    "kind: 5\n",
    "''",
    "\"\"",
    "''''",
];

fn mutate(random: &mut Random) -> String {
    let mut text: Vec<char> = random.pick(SEEDS).chars().collect();
    for _ in 0..=random.below(3) {
        let at = random.below(text.len() + 1);
        match random.below(6) {
            0 => {
                let end = (at + 1 + random.below(6)).min(text.len());
                text.drain(at..end);
            }
            1 => {
                let end = (at + 1 + random.below(20)).min(text.len());
                let copy: Vec<char> = text[at..end].to_vec();
                let to = random.below(text.len() + 1);
                text.splice(to..to, copy);
            }
            2 => {
                let other: Vec<char> = random.pick(SEEDS).chars().collect();
                let from = random.below(other.len());
                let end = (from + 1 + random.below(30)).min(other.len());
                text.splice(at..at, other[from..end].to_vec());
            }
            _ => {
                text.splice(at..at, random.pick(PIECES).chars());
            }
        }
    }
    text.into_iter().collect()
}

/// Answer of a reader to a text.
#[derive(Debug, PartialEq)]
enum Reading {
    Value(Value),
    /// Go refuses the text too.
    Invalid(String),
    /// It is not known what Go reads.
    Unknown(String),
}

fn artifact(files: &[(&str, &str)]) -> Artifact {
    Artifact::pack(&files.iter().copied().collect(), &SourceOptions::default())
}

/// Reads a text as the root file.
fn root(text: &str) -> Reading {
    match generator::generate(&artifact(&[("app/kustomization.yaml", text)]), &json!({"path": "app"}), false) {
        Ok(generated) => {
            let mut content = generated.content;
            content.as_object_mut().unwrap().remove("sortOptions");
            Reading::Value(without_empty(content))
        }
        Err(GenerateError::Unreadable(_, error)) => Reading::Unknown(error),
        Err(error) => Reading::Invalid(error.to_string()),
    }
}

/// Reads a text as a nested file.
fn nested(text: &str) -> Reading {
    let files = [("app/kustomization.yaml", "resources: [../base]"), ("base/kustomization.yaml", text)];
    let artifact = artifact(&files);
    let generated = generator::generate(&artifact, &json!({"path": "app"}), false).unwrap();
    match references::check(&artifact, &generated) {
        Ok(inputs) => Reading::Value(serde_json::from_str(&inputs.written["base/kustomization.yaml"]).unwrap()),
        Err(ReferenceError::Refused(error)) if error.starts_with("base/kustomization.yaml: ") => {
            Reading::Invalid(error)
        }
        Err(error) => Reading::Unknown(error.to_string()),
    }
}

/// Drops what kustomize does not tell from a field that is not there.
fn without_empty(value: Value) -> Value {
    let is_empty = |value: &Value| {
        matches!(value, Value::Null | Value::Bool(false))
            || value.as_str() == Some("")
            || value.as_i64() == Some(0)
            || value.as_array().is_some_and(Vec::is_empty)
            || value.as_object().is_some_and(serde_json::Map::is_empty)
    };
    match value {
        Value::Array(items) => items.into_iter().map(without_empty).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(key, value)| (key, without_empty(value)));
            fields.filter(|(_, value)| !is_empty(value)).collect::<serde_json::Map<_, _>>().into()
        }
        value => value,
    }
}

/// Returns how a reading contradicts Go.
fn contradiction(ours: &Reading, gos: Option<Value>) -> Option<String> {
    match (ours, gos) {
        (Reading::Unknown(_), _) | (Reading::Invalid(_), None) => None,
        (Reading::Value(ours), Some(gos)) if same(ours, &gos) => None,
        (ours, gos) => {
            Some(format!("ours {ours:?}\nGo's {}", gos.map_or("an error".to_owned(), |gos| gos.to_string())))
        }
    }
}

/// Compares numbers by their value: JSON has many forms of one number. Go writes null in some lists as an empty entry.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Null, Value::Object(entry)) => entry.is_empty(),
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

fn root_of(verdict: &Verdict) -> Option<Value> {
    let mut root = verdict.root.clone()?;
    let fields = root.as_object_mut()?;
    // Ours has an order in every file.
    fields.remove("sortOptions");
    // What the controller adds after it reads the file.
    if fields.get("resources").is_none_or(|resources| resources == &json!([])) {
        fields.insert("buildMetadata".to_owned(), json!(["originAnnotations"]));
    }
    Some(without_empty(root))
}

fn with_defaults(reading: Option<Value>) -> Option<Value> {
    let mut root = reading?;
    let fields = root.as_object_mut()?;
    fields.entry("apiVersion").or_insert_with(|| "kustomize.config.k8s.io/v1beta1".into());
    fields.entry("kind").or_insert_with(|| "Kustomization".into());
    Some(root)
}

#[test]
fn generated_texts_are_read_as_go_reads_them() {
    let count = std::env::var("GITOPS_READING_TEXTS").map_or(3000, |count| count.parse().unwrap());
    let seed = std::env::var("GITOPS_READING_SEED").map_or(1, |seed| seed.parse().unwrap());
    let mut random = Random::new(seed);
    let mut texts: Vec<String> = SEEDS.iter().map(|text| (*text).to_owned()).collect();
    texts.extend((0..count).map(|_| mutate(&mut random)));
    let questions: Vec<Value> = texts.iter().map(|text| judge::text_question(text.as_bytes())).collect();
    let mut counts = [0; 3];
    let mut found = Vec::new();
    for (text, verdict) in texts.iter().zip(judge::ask(&questions)) {
        let (ours, theirs) = (root(text), with_defaults(root_of(&verdict)));
        counts[match ours {
            Reading::Value(_) => 0,
            Reading::Invalid(_) => 1,
            Reading::Unknown(_) => 2,
        }] += 1;
        found.extend(contradiction(&ours, theirs).map(|found| format!("root file {text:?}\n{found}")));
        let value = verdict.value;
        found.extend(contradiction(&nested(text), value).map(|found| format!("nested file {text:?}\n{found}")));
    }
    let [values, invalid, unknown] = counts;
    xtask::say(format!("{} texts: {values} values, {invalid} invalid, {unknown} unknown", texts.len()));
    assert!(found.is_empty(), "{} contradictions, such as\n{}", found.len(), found[..found.len().min(12)].join("\n\n"));
    assert!(counts[2] * 4 < texts.len(), "most texts are known: {counts:?}");
}

/// Returns a value at the place of every field of a type: `wrap` puts it into the fields around it.
fn values_of_fields(fields: &Value, wrap: &dyn Fn(Value) -> Value, found: &mut Vec<Value>) {
    let values = [json!("x"), json!(5), json!(1.5), json!(true), json!(null), json!(["x"]), json!({"name": "x"})];
    found.extend(values.map(wrap));
    match fields {
        Value::Array(item) => values_of_fields(&item[0], &|value| wrap(json!([value])), found),
        Value::Object(fields) => {
            for (name, fields) in fields {
                let name = if name == "*" { "any" } else { name };
                values_of_fields(fields, &|value| wrap(json!({name: value})), found);
            }
        }
        _ => {}
    }
}

#[test]
fn every_field_has_the_type_that_it_has_in_go() {
    let fields = judge::ask(&[json!({"fields": true})]).remove(0).fields.unwrap();
    let mut values = Vec::new();
    values_of_fields(&fields, &|value| value, &mut values);
    let texts: Vec<String> = values.iter().map(Value::to_string).collect();
    let questions: Vec<Value> = texts.iter().map(|text| judge::text_question(text.as_bytes())).collect();
    let mut found = Vec::new();
    for (text, verdict) in texts.iter().zip(judge::ask(&questions)) {
        let ours = root(text);
        assert!(!matches!(ours, Reading::Unknown(_)), "{text}: {ours:?}");
        found.extend(contradiction(&ours, with_defaults(root_of(&verdict))).map(|found| format!("{text}\n{found}")));
    }
    xtask::say(format!("{} values of fields", texts.len()));
    assert!(found.is_empty(), "{} contradictions, such as\n{}", found.len(), found[..found.len().min(12)].join("\n\n"));
}
