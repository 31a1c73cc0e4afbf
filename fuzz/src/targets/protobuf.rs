//! Lists of metadata in protobuf.

use gitops_core::kubernetes::object::ResourceType;
use k8s_pb::apimachinery::pkg::apis::meta::v1::{
    FieldsV1, ListMeta, ManagedFieldsEntry, ObjectMeta, OwnerReference, PartialObjectMetadata,
    PartialObjectMetadataList, Time,
};
use k8s_pb::apimachinery::pkg::runtime::{TypeMeta, Unknown};
use kubectl_gitops::cluster::{metadata_from_json, metadata_from_protobuf};
use prost::Message;
use serde_json::{Value, json};

/// First bytes of every protobuf body of the API server.
const MAGIC: &[u8] = b"k8s\0";

/// Bytes that are damaged are an error or a list, and no panic. A list that the library of Kubernetes' types wrote is read
/// to the same objects as the same list in JSON.
pub(crate) fn check(data: &[u8]) {
    let kind = kind();
    let _ = metadata_from_protobuf(data, &kind);
    let _ = metadata_from_protobuf(&[MAGIC, data].concat(), &kind);
    let list = Entropy(data).list();
    let mut bytes = encode(&list);
    let items = list.items.iter().filter_map(|item| item.metadata.as_ref());
    let from_json: Result<Vec<_>, _> =
        items.map(|item| metadata_from_json(&json_metadata(item).to_string(), &kind)).collect();
    assert!(from_json.is_ok(), "{from_json:?}");
    assert_eq!(metadata_from_protobuf(&bytes, &kind), from_json);
    // The end is lost, or one byte is another.
    if let [low, high, byte, ..] = data {
        let at = usize::from(u16::from_le_bytes([*low, *high])) % bytes.len();
        let _ = metadata_from_protobuf(&bytes[..at], &kind);
        bytes[at] = *byte;
        let _ = metadata_from_protobuf(&bytes, &kind);
    }
}

fn kind() -> ResourceType {
    ResourceType {
        group: "".into(),
        version: "v1".into(),
        kind: "ConfigMap".into(),
        plural: "configmaps".into(),
        singular: "configmap".into(),
        short_names: vec![],
        namespaced: true,
    }
}

fn encode(list: &PartialObjectMetadataList) -> Vec<u8> {
    let type_meta =
        TypeMeta { api_version: Some("meta.k8s.io/v1".to_owned()), kind: Some("PartialObjectMetadataList".to_owned()) };
    let envelope = Unknown { type_meta: Some(type_meta), raw: Some(list.encode_to_vec()), ..Unknown::default() };
    [MAGIC, &envelope.encode_to_vec()].concat()
}

/// Bytes that decide what is generated; after their end, everything is empty.
struct Entropy<'a>(&'a [u8]);

impl Entropy<'_> {
    fn below(&mut self, limit: u8) -> u8 {
        self.0.split_off_first().map_or(0, |byte| byte % limit)
    }

    fn number(&mut self) -> i64 {
        (0..self.below(9)).fold(0, |number, _| number << 8 | i64::from(self.below(255)))
    }

    /// Returns a word of labels that ownership knows, or other characters.
    fn text(&mut self) -> String {
        const WORDS: [&str; 10] = [
            "a",
            "web",
            "kustomize.toolkit.fluxcd.io/name",
            "kustomize.toolkit.fluxcd.io/namespace",
            "reconcile.fluxcd.io/suspended",
            "kubectl.kubernetes.io/last-applied-configuration",
            "Apply",
            "status",
            "\"\\\u{7f}",
            "größe\u{1f600}",
        ];
        match self.below(12) {
            at @ 0..10 => WORDS[usize::from(at)].to_owned(),
            _ => (0..self.below(200)).map(|_| char::from(self.below(128))).collect(),
        }
    }

    fn some<T>(&mut self, value: impl Fn(&mut Self) -> T) -> Option<T> {
        (self.below(4) > 0).then(|| value(self))
    }

    fn several<T>(&mut self, value: impl Fn(&mut Self) -> T) -> Vec<T> {
        (0..self.below(4)).map(|_| value(self)).collect()
    }

    fn time(&mut self) -> Time {
        Time { seconds: Some(self.number().rem_euclid(4_000_000_000)), nanos: Some(0) }
    }

    fn list(&mut self) -> PartialObjectMetadataList {
        let metadata = ListMeta {
            resource_version: Some("7".to_owned()),
            r#continue: self.some(Self::text),
            ..ListMeta::default()
        };
        let items = self.several(|entropy| PartialObjectMetadata { metadata: Some(entropy.metadata()) });
        PartialObjectMetadataList { metadata: Some(metadata), items }
    }

    fn metadata(&mut self) -> ObjectMeta {
        ObjectMeta {
            name: Some("a".to_owned() + &self.text()),
            namespace: Some("n".to_owned() + &self.text()),
            uid: Some("u".to_owned() + &self.text()),
            resource_version: Some("1".to_owned() + &self.text()),
            generate_name: self.some(Self::text),
            self_link: self.some(Self::text),
            generation: self.some(Self::number),
            creation_timestamp: Some(self.time()),
            deletion_timestamp: self.some(Self::time),
            deletion_grace_period_seconds: self.some(Self::number),
            labels: self.several(|entropy| (entropy.text(), entropy.text())).into_iter().collect(),
            annotations: self.several(|entropy| (entropy.text(), entropy.text())).into_iter().collect(),
            owner_references: self.several(Self::owner_reference),
            finalizers: self.several(Self::text),
            managed_fields: self.several(Self::managed_fields),
        }
    }

    fn owner_reference(&mut self) -> OwnerReference {
        OwnerReference {
            kind: self.some(Self::text),
            name: self.some(Self::text),
            uid: self.some(Self::text),
            api_version: self.some(Self::text),
            controller: self.some(|entropy| entropy.below(2) == 1),
            block_owner_deletion: self.some(|entropy| entropy.below(2) == 1),
        }
    }

    fn managed_fields(&mut self) -> ManagedFieldsEntry {
        let fields = |entropy: &mut Self| {
            let keys = entropy.several(|entropy| (format!("f:{}", entropy.text()), json!({})));
            let labels: serde_json::Map<String, Value> = keys.into_iter().collect();
            let fields = json!({"f:metadata": {"f:labels": labels}, "f:spec": {"f:suspend": {}}});
            FieldsV1 { raw: Some(fields.to_string().into_bytes()) }
        };
        ManagedFieldsEntry {
            manager: self.some(Self::text),
            operation: self.some(Self::text),
            api_version: self.some(Self::text),
            time: self.some(Self::time),
            fields_type: Some("FieldsV1".to_owned()),
            fields_v1: self.some(fields),
            subresource: self.some(Self::text),
        }
    }
}

/// Returns metadata as the API server writes it in JSON.
fn json_metadata(meta: &ObjectMeta) -> Value {
    let references = meta.owner_references.iter().map(|reference| {
        json!({
            "kind": text(&reference.kind), "name": text(&reference.name), "uid": text(&reference.uid),
            "apiVersion": text(&reference.api_version), "controller": reference.controller.unwrap_or_default(),
            "blockOwnerDeletion": reference.block_owner_deletion.unwrap_or_default(),
        })
    });
    let managed = meta.managed_fields.iter().map(|entry| {
        let fields = entry.fields_v1.as_ref().and_then(|fields| serde_json::from_slice::<Value>(fields.raw()).ok());
        json!({
            "manager": text(&entry.manager), "operation": text(&entry.operation), "subresource": text(&entry.subresource),
            "time": entry.time.as_ref().map(json_time), "fieldsV1": fields,
        })
    });
    json!({
        "name": meta.name, "namespace": meta.namespace, "uid": meta.uid, "resourceVersion": meta.resource_version,
        "generation": meta.generation.unwrap_or_default(),
        "creationTimestamp": meta.creation_timestamp.as_ref().map(json_time),
        "deletionTimestamp": meta.deletion_timestamp.as_ref().map(json_time),
        "labels": meta.labels, "annotations": meta.annotations, "finalizers": meta.finalizers,
        "ownerReferences": references.collect::<Vec<_>>(), "managedFields": managed.collect::<Vec<_>>(),
    })
}

fn text(text: &Option<String>) -> &str {
    text.as_deref().unwrap_or_default()
}

/// Returns a time as RFC 3339.
fn json_time(time: &Time) -> String {
    let seconds = time.seconds.unwrap_or_default();
    chrono::DateTime::from_timestamp(seconds, 0).expect("a time of this era").to_rfc3339()
}
