//! The software bill of materials of a program, in CycloneDX 1.5: the crates that are linked for one target.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::{items, text, tool};

/// Returns the document for `kubectl-gitops` on a target. Two calls return the same text.
pub fn document(target: &str, version: &str) -> Result<String> {
    let metadata = tool::metadata(&["--filter-platform", target])?;
    let packages: BTreeMap<&str, &Value> =
        items(&metadata, "/packages").map(|package| (id(package), package)).collect();
    let nodes: BTreeMap<&str, &Value> = items(&metadata, "/resolve/nodes").map(|node| (id(node), node)).collect();
    let root = packages.iter().find(|(_, package)| text(package, "/name") == "kubectl-gitops");
    let root = *root.context("cargo metadata has no kubectl-gitops")?.0;

    let mut linked: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut waiting = vec![root];
    while let Some(id) = waiting.pop() {
        if linked.contains_key(id) {
            continue;
        }
        let needs: BTreeSet<&str> = nodes.get(id).map(|node| linked_dependencies(node).collect()).unwrap_or_default();
        waiting.extend(&needs);
        linked.insert(id, needs);
    }
    let package = |id: &str| packages.get(id).copied().with_context(|| format!("cargo metadata has no package {id}"));
    let components = linked.keys().filter(|id| **id != root).map(|id| Ok(component(package(id)?)));
    let dependencies = linked.iter().map(|(id, needs)| {
        let needs = needs.iter().map(|id| Ok(purl(package(id)?))).collect::<Result<Vec<_>>>()?;
        Ok(json!({"ref": purl(package(id)?), "dependsOn": needs}))
    });
    let mut program = component(package(root)?);
    program["type"] = json!("application");
    let document = json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": program,
            "properties": [{"name": "release", "value": version}, {"name": "target", "value": target}],
        },
        "components": components.collect::<Result<Vec<_>>>()?,
        "dependencies": dependencies.collect::<Result<Vec<_>>>()?,
    });
    Ok(format!("{document:#}\n"))
}

fn id(value: &Value) -> &str {
    text(value, "/id")
}

/// Returns the dependencies that are part of the program. Those of build scripts and of tests are not.
fn linked_dependencies(node: &Value) -> impl Iterator<Item = &str> {
    let is_linked = |dependency: &&Value| items(dependency, "/dep_kinds").any(|kind| kind["kind"].is_null());
    items(node, "/deps").filter(is_linked).map(|dependency| text(dependency, "/pkg"))
}

fn component(package: &Value) -> Value {
    let mut component = json!({
        "type": "library",
        "bom-ref": purl(package),
        "name": package["name"],
        "version": package["version"],
        "purl": purl(package),
    });
    if let Some(license) = package["license"].as_str() {
        // Older crates separate alternatives by a slash, which is no SPDX expression.
        component["licenses"] = json!([{"expression": license.replace('/', " OR ")}]);
    } else if let Some(file) = package["license_file"].as_str() {
        component["licenses"] = json!([{"license": {"name": file}}]);
    }
    component
}

fn purl(package: &Value) -> String {
    format!("pkg:cargo/{}@{}", text(package, "/name"), text(package, "/version"))
}
