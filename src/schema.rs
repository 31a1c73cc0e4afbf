//! JSON Schemas of the documents that this program writes and reads. `cargo xtask schemas` writes them to `docs/schemas`.

use gitops_core::flux::handover::{self, Handover};
use gitops_core::flux::history::{self, WhyGone};
use gitops_core::flux::retire::{self, Retirement};
use gitops_core::kubernetes::snapshot::{self, Snapshot};
use gitops_core::ownership::report::{self, InventoryDocument};
use gitops_core::plan::fleet::{self, Fleet};
use gitops_core::plan::sequence::{self, Sequence};
use gitops_core::plan::{self, Plan};
use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::Value;

use crate::commands::prune::tree::steps::{self, StepsFile};
use crate::commands::{change, get};
use crate::tools::journal;

/// A schema, and the name of its file in `docs/schemas`.
pub struct DocumentSchema {
    pub file: String,
    pub schema: Value,
    /// True for what this program reads, false for what it writes.
    pub is_input: bool,
}

/// Returns a schema with its name, of a document that is written or, for `is_input`, read.
fn of(name: &str, settings: &SchemaSettings, schema: fn(SchemaGenerator) -> Schema, is_input: bool) -> DocumentSchema {
    let mut schema = schema(settings.clone().into_generator()).to_value();
    let title = if is_input { format!("{name}, as it is read") } else { name.to_owned() };
    name_schema(&mut schema, name, &title, is_input);
    let stem = name.trim_start_matches("kubectl-gitops/").replace('/', "-");
    let file = format!("{stem}{}.json", if is_input { ".input" } else { "" });
    DocumentSchema { file, schema, is_input }
}

pub fn all() -> Vec<DocumentSchema> {
    let written = SchemaSettings::draft2020_12().for_serialize();
    let read = SchemaSettings::draft2020_12().for_deserialize();
    let (plan, snapshot): (fn(_) -> _, fn(_) -> _) =
        (SchemaGenerator::into_root_schema_for::<Plan>, SchemaGenerator::into_root_schema_for::<Snapshot>);
    vec![
        of(plan::SCHEMA, &written, plan, false),
        of(plan::SCHEMA, &read, plan, true),
        of(fleet::SCHEMA, &written, SchemaGenerator::into_root_schema_for::<Fleet>, false),
        of(sequence::SCHEMA, &written, SchemaGenerator::into_root_schema_for::<Sequence>, false),
        of(handover::SCHEMA, &written, SchemaGenerator::into_root_schema_for::<Handover>, false),
        of(history::SCHEMA, &written, SchemaGenerator::into_root_schema_for::<WhyGone>, false),
        of(retire::SCHEMA, &written, SchemaGenerator::into_root_schema_for::<Retirement>, false),
        of(steps::SCHEMA, &read, SchemaGenerator::into_root_schema_for::<StepsFile>, true),
        of(snapshot::SCHEMA, &written, snapshot, false),
        of(snapshot::SCHEMA, &read, snapshot, true),
        of(report::SCHEMA, &written, SchemaGenerator::into_root_schema_for::<InventoryDocument>, false),
        of(get::SCHEMA, &written, get::schema, false),
        of(journal::SCHEMA, &written, change::schema, false),
    ]
}

/// Sets the title and the value of `schema`, and makes descriptions readable outside of the source.
fn name_schema(schema: &mut Value, name: &str, title: &str, is_input: bool) {
    schema["title"] = title.into();
    for_each_object(schema, &mut |object| {
        if let Some(Value::String(text)) = object.get_mut("description") {
            *text = text.replace("[`", "`").replace("`]", "`").replace("`None`", "null");
        }
        if let Some(Value::Object(fields)) = object.get_mut("properties") {
            // A document that holds others holds plans.
            let is_plan = fields.contains_key("changes") && !fields.contains_key("clusters");
            let document = if is_plan { plan::SCHEMA } else { name };
            if let Some(Value::Object(field)) = fields.get_mut("schema") {
                field.insert("const".to_owned(), document.into());
            }
        }
        // Later versions may write more fields.
        if !is_input && object.get("additionalProperties") == Some(&Value::Bool(false)) {
            object.remove("additionalProperties");
        }
    });
}

fn for_each_object(value: &mut Value, change: &mut impl FnMut(&mut serde_json::Map<String, Value>)) {
    match value {
        Value::Object(fields) => {
            change(fields);
            fields.values_mut().for_each(|value| for_each_object(value, change));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| for_each_object(item, change)),
        _ => {}
    }
}
