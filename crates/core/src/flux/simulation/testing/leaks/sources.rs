//! Ways through sources and what is made of them.

use serde_json::json;

use super::super::cluster::ks;
use super::change::{Way, source};

/// Returns the ways of sources and of what is made of them.
pub(super) fn ways() -> Vec<Way> {
    vec![
        ("url", |c, e| {
            c.change("GitRepository", "other", json!({"spec": {"url": format!("https://u:{e}@example.com/{e}")}}))
        }),
        ("branch", |c, e| c.change("GitRepository", "other", json!({"spec": {"ref": {"branch": e}}}))),
        ("ignore", |c, e| c.change("GitRepository", "other", json!({"spec": {"ignore": e}}))),
        ("include", |c, e| {
            c.change("GitRepository", "other", json!({"spec": {"include": [{"repository": {"name": e}}]}}));
        }),
        ("new source", |c, e| {
            c.add(source("OCIRepository", e, json!({"url": e, "ref": {"tag": e}})));
            c.add(ks("of-oci", "./", json!({"sourceRef": {"kind": "OCIRepository", "name": e}})));
        }),
        ("bucket", |c, e| {
            c.add(source(
                "Bucket",
                "bucket",
                json!({"bucketName": e, "endpoint": format!("{e}.example.com"), "prefix": e}),
            ));
            c.add(ks("of-bucket", "./", json!({"sourceRef": {"kind": "Bucket", "name": "bucket"}})));
        }),
        ("url of charts", |c, e| c.change("HelmRepository", "charts", json!({"spec": {"url": e}}))),
        ("generator source", |c, e| {
            let sources = json!([{"alias": "repo", "kind": "GitRepository", "name": e}]);
            c.change("ArtifactGenerator", "gen", json!({"spec": {"sources": sources}}));
        }),
        ("generated artifact", |c, e| {
            let artifacts = json!([{"name": e, "copy": [{"from": format!("@repo/{e}"), "to": "@artifact/"}]}]);
            c.change("ArtifactGenerator", "gen", json!({"spec": {"artifacts": artifacts}}));
            c.add(ks("of-artifact", "./", json!({"sourceRef": {"kind": "ExternalArtifact", "name": e}})));
        }),
        ("instance url", |c, e| c.change("FluxInstance", "flux", json!({"spec": {"sync": {"url": e, "ref": e}}}))),
        ("instance path", |c, e| c.change("FluxInstance", "flux", json!({"spec": {"sync": {"path": e}}}))),
        ("instance name", |c, e| c.change("FluxInstance", "flux", json!({"spec": {"sync": {"name": e}}}))),
        ("instance distribution", |c, e| c.change("FluxInstance", "flux", json!({"spec": {"distribution": {e: e}}}))),
        ("instance patches", |c, e| {
            let patches = json!([{"patch": e, "target": {"kind": e}}]);
            c.change("FluxInstance", "flux", json!({"spec": {"kustomize": {"patches": patches}}}));
        }),
    ]
}
