//! The software bill of materials of a program, in CycloneDX 1.5: the crates that are linked for one target.
//!
//! The graph is that of `cargo metadata`, which has the features of the whole workspace. `cargo tree` says which of its crates
//! the program alone has, and leaves out macros, which run in the compiler.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::{child, items, text, tool, workspace_root};

/// Number of crates that the paths in a program name at least, or they were removed from it.
const NAMED_CRATES: usize = 20;

/// Returns the document for `kubectl-gitops` on a target. Two calls return the same text.
pub fn document(target: &str, version: &str) -> Result<String> {
    let metadata = tool::metadata(&["--filter-platform", target])?;
    let packages: BTreeMap<&str, &Value> =
        items(&metadata, "/packages").map(|package| (id(package), package)).collect();
    let nodes: BTreeMap<&str, &Value> = items(&metadata, "/resolve/nodes").map(|node| (id(node), node)).collect();
    let root = packages.iter().find(|(_, package)| text(package, "/name") == "kubectl-gitops");
    let root = *root.context("cargo metadata has no kubectl-gitops")?.0;
    let of_program = crates_of_program(target)?;
    let is_linked = |id: &str| packages.get(id).is_some_and(|package| of_program.contains(&name_and_version(package)));

    let mut linked: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut waiting = vec![root];
    while let Some(id) = waiting.pop() {
        if linked.contains_key(id) {
            continue;
        }
        let needs = nodes.get(id).into_iter().flat_map(|node| normal_dependencies(node));
        let needs: BTreeSet<&str> = needs.filter(|id| is_linked(id)).collect();
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

/// Returns the crates of the program on a target, as `NAME@VERSION`.
fn crates_of_program(target: &str) -> Result<BTreeSet<String>> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([
        "tree",
        "--locked",
        "--package",
        "kubectl-gitops",
        "--edges",
        "normal,no-proc-macro",
        "--target",
        target,
    ]);
    cargo.args(["--prefix", "none", "--no-dedupe", "--format", "{p}"]).current_dir(workspace_root());
    let tree = String::from_utf8(child::output(&mut cargo)?).context("cargo tree prints no UTF-8")?;
    let crates = tree.lines().filter_map(|line| {
        let (name, rest) = line.split_once(" v")?;
        Some(format!("{name}@{}", rest.split(' ').next()?))
    });
    Ok(crates.collect())
}

/// Checks that a bill of materials lists every crate that the program names. A program has the paths of the source files that
/// can panic.
pub fn check(program: &[u8], document: &str) -> Result<()> {
    let document: Value = serde_json::from_str(document).context("the bill of materials is no JSON")?;
    let listed = |component: &Value| format!("{}-{}", text(component, "/name"), text(component, "/version"));
    let listed: BTreeSet<String> = items(&document, "/components").map(listed).collect();
    let named = named_crates(program);
    if named.len() < NAMED_CRATES {
        bail!("the program names {} crates, so it shows nothing", named.len());
    }
    let missing: Vec<&str> = named.difference(&listed).map(String::as_str).collect();
    if !missing.is_empty() {
        bail!("the bill of materials lacks crates of the program: {}", missing.join(", "));
    }
    Ok(())
}

/// Returns the crates in the paths of a program, as `NAME-VERSION`: the folder below `registry/src/INDEX`.
fn named_crates(program: &[u8]) -> BTreeSet<String> {
    let mark = b"registry/src/";
    let is_separator = |byte: &u8| matches!(byte, b'/' | b'\\');
    let starts = program.windows(mark.len()).enumerate();
    let starts =
        starts.filter(|(_, window)| window.iter().zip(mark).all(|(a, b)| a == b || is_separator(a) && *b == b'/'));
    let is_name = |byte: &&u8| byte.is_ascii_alphanumeric() || b"_.+-".contains(byte);
    // Tables for debuggers end a folder with a zero.
    let folder = |(at, _): (usize, &[u8])| {
        let folder = program[at + mark.len()..].splitn(3, is_separator).nth(1)?;
        let name: Vec<u8> = folder.iter().take_while(is_name).copied().collect();
        String::from_utf8(name).ok().filter(|name| !name.is_empty())
    };
    starts.filter_map(folder).collect()
}

fn name_and_version(package: &Value) -> String {
    format!("{}@{}", text(package, "/name"), text(package, "/version"))
}

/// Returns the dependencies that are no dependencies of build scripts or of tests.
fn normal_dependencies(node: &Value) -> impl Iterator<Item = &str> {
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
    format!("pkg:cargo/{}", name_and_version(package))
}
