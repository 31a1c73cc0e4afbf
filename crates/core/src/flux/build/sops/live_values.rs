//! Encrypted values that a live object tells.
//!
//! SOPS encrypts each value by itself, and the same text is the same value. Where an object has the text that was applied last,
//! its live form therefore has the value. Source: kustomize-controller v1.9.5 `DecryptResource` in
//! internal/decryptor/decryptor.go, which does not check the MAC of the file.

use std::sync::Arc;

use serde_json::Value;

use crate::flux::build::objects::undecrypted::{UNKNOWN, is_ciphertext};
use crate::flux::build::objects::{BuiltObject, MaskedObject};

/// Sets the values of an encrypted spec that the live one tells, and hides them. `last` is the spec that was applied last, if
/// it is known, and `live` what the controller applied of the live one. The other values stay encrypted.
pub(crate) fn take_live_values(object: &mut BuiltObject, last: Option<&Value>, live: &Value) {
    let mut shown = match object.masked.take() {
        Some(masked) => *masked,
        None => MaskedObject { id: object.id.clone(), manifest: Value::clone(&object.manifest) },
    };
    hide(&mut shown.manifest);
    object.masked = Some(Box::new(shown));
    if let Some(spec) = Arc::make_mut(&mut object.manifest).get_mut("spec") {
        *spec = decrypted(spec, last, Some(live));
    }
}

fn decrypted(text: &Value, last: Option<&Value>, live: Option<&Value>) -> Value {
    match text {
        Value::Object(fields) => {
            let values = fields.iter().map(|(key, text)| {
                let [last, live] = [last, live].map(|known| known?.get(key));
                (key.clone(), decrypted(text, last, live))
            });
            Value::Object(values.collect())
        }
        Value::Array(items) => {
            // Which item is which is known only if there are as many.
            let [last, live] = [last, live].map(|known| known?.as_array().filter(|known| known.len() == items.len()));
            let values = items.iter().enumerate().map(|(at, text)| {
                let [last, live] = [last, live].map(|known| known?.get(at));
                decrypted(text, last, live)
            });
            Value::Array(values.collect())
        }
        _ => live.filter(|_| is_ciphertext(Some(text)) && last == Some(text)).unwrap_or(text).clone(),
    }
}

/// Replaces everything that is encrypted by a placeholder.
fn hide(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(hide),
        Value::Array(items) => items.iter_mut().for_each(hide),
        _ if is_ciphertext(Some(value)) => *value = UNKNOWN.into(),
        _ => {}
    }
}
