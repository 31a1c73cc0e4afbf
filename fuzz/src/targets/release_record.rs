//! Records of Helm releases.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gitops_core::kubernetes::object::Resource;
use gitops_core::ownership::schemes::helm::record_of;
use gitops_core::testing::object;
use serde_json::{Value, json};

/// A record is reduced to identities, and nothing of its values is left. The input is the data of the Secret, its decoded
/// form, and the manifest in it.
pub(crate) fn check(data: &[u8]) {
    let manifest = json!({"manifest": String::from_utf8_lossy(data)}).to_string();
    let forms = [data.to_vec(), encoded(data), encoded(manifest.as_bytes())];
    for form in forms {
        let object = object("", "Secret", "shop", "sh.helm.release.v1.web.v1");
        let content = json!({"type": "helm.sh/release.v1", "data": {"release": String::from_utf8_lossy(&form)}});
        let record = record_of(Resource { object, content }).expect("a record of a release");
        let fields: Vec<&str> = record.content.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
        assert!(matches!(fields[..], [_]) || record.content == Value::Null, "{fields:?}");
        for id in record.content["listed"].as_array().into_iter().flatten() {
            let known = ["group", "kind", "namespace", "name", "cluster"];
            let keys = id.as_object().into_iter().flatten().map(|(key, _)| key.as_str());
            assert!(keys.into_iter().all(|key| known.contains(&key)), "{id}");
        }
    }
}

/// Encodes the content as a Secret has it.
fn encoded(data: &[u8]) -> Vec<u8> {
    STANDARD.encode(STANDARD.encode(data)).into_bytes()
}
