//! Tests of the checks, on small trees.

use serde_json::json;

use super::*;
use crate::flux::build::kustomization_file::generator;
use crate::flux::source::options::SourceOptions;

fn check_files(files: &[(&str, &str)]) -> Result<Inputs, ReferenceError> {
    let artifact = Artifact::pack(&files.iter().copied().collect(), &SourceOptions::default());
    let generated = generator::generate(&artifact, &json!({"path": "app"}), false).unwrap();
    check(&artifact, &generated)
}

fn check_file(text: &str) -> Result<Inputs, ReferenceError> {
    let base = ("base/kustomization.yaml", "resources: [x.yaml, ../deep/y.yaml]");
    check_files(&[("app/kustomization.yaml", text), base])
}

/// Returns the paths of a configuration of a plugin, as a kustomization file.
fn plugin(fields: &str) -> String {
    let head = "apiVersion: builtin\n  metadata: {name: x}\n";
    let lines: String = fields.lines().map(|line| format!("  {line}\n")).collect();
    format!("transformers:\n- |\n  {head}{lines}")
}

#[test]
fn references_may_not_leave_the_artifact() {
    let rows = [
        ("resources: [../../etc]".to_owned(), "../../etc"),
        ("bases: [../../etc]".to_owned(), "../../etc"),
        ("components: [../../etc]".to_owned(), "../../etc"),
        ("resources: [/etc/x.yaml]".to_owned(), "/etc/x.yaml"),
        ("crds: [../../x]".to_owned(), "../../x"),
        ("configurations: [../../x]".to_owned(), "../../x"),
        ("openapi: {path: ../../x}".to_owned(), "../../x"),
        ("replacements: [{path: ../../x}]".to_owned(), "../../x"),
        ("patches: [{path: ../../x}]".to_owned(), "../../x"),
        ("patchesJson6902: [{path: ../../x}]".to_owned(), "../../x"),
        ("patchesStrategicMerge: [../../x]".to_owned(), "../../x"),
        ("patchesStrategicMerge: ['a: /../../../x']".to_owned(), "a: /../../../x"),
        ("configMapGenerator: [{name: a, files: [k=../../x]}]".to_owned(), "../../x"),
        ("configMapGenerator: [{name: a, files: ['k=a://../../../x']}]".to_owned(), "a://../../../x"),
        ("secretGenerator: [{name: a, envs: [../../x]}]".to_owned(), "../../x"),
        ("secretGenerator: [{name: a, env: ../../x}]".to_owned(), "../../x"),
        ("generators: [../../x]".to_owned(), "../../x"),
        (plugin("kind: ConfigMapGenerator\nfiles: [k=../../x]"), "../../x"),
        (plugin("kind: SecretGenerator\nENVS: [../../x]"), "../../x"),
        (plugin("kind: PatchTransformer\npath: ../../x"), "../../x"),
        (plugin("kind: PatchJson6902Transformer\npath: ../../x"), "../../x"),
        (plugin("kind: PatchStrategicMergeTransformer\npaths: [../../x]"), "../../x"),
        (plugin("kind: ReplacementTransformer\nreplacements: [{path: ../../x}]"), "../../x"),
        (plugin("kind: ValueAddTransformer\ntargetFilePath: ../../x"), "../../x"),
    ];
    for (file, path) in rows {
        let expected = ReferenceError::Refused(format!("{path} is outside of the artifact"));
        assert_eq!(check_file(&file), Err(expected), "{file}");
        let nested = [("app/kustomization.yaml", "resources: [../base]"), ("base/kustomization.yaml", &file)];
        assert!(matches!(check_files(&nested), Err(ReferenceError::Refused(_))), "{file}: {:?}", check_files(&nested));
    }
}

#[test]
fn what_is_not_known_is_no_refusal() {
    let rows = [
        ("a revision", "resources: ['https://example.com/org/repo//base?ref=--output=x']"),
        ("a URL that is a path", "configMapGenerator: [{name: a, files: ['k=http://%zz/../../../../x']}]"),
        ("a repository that is a path", "resources: ['git@host:../../../../x.git/y']"),
        ("a repository of this machine", "components: ['file:///srv/repo']"),
        ("odd inline text", "generators: ['a: b']"),
        ("an octal number in a plugin", "transformers: ['{apiVersion: builtin, kind: X, metadata: {name: x}, a: 01}']"),
        ("a field twice", "resources: [../base]\nRESOURCES: [../base]"),
    ];
    for (name, file) in rows {
        let nested = [("app/kustomization.yaml", "resources: [../base]"), ("base/kustomization.yaml", file)];
        assert!(
            matches!(check_files(&nested), Err(ReferenceError::Unsafe(_) | ReferenceError::Unreadable(_))),
            "{name}: {:?}",
            check_files(&nested)
        );
    }
}

#[test]
fn a_plugin_that_is_not_built_in_is_refused() {
    let file = "transformers: ['{apiVersion: example.com/v1, kind: X, metadata: {name: x}}']";
    let expected = ReferenceError::Refused("plugin X of example.com/v1 is not built in".to_owned());
    assert_eq!(check_file(file), Err(expected));
}

#[test]
fn urls_are_collected_from_all_files() {
    let files = [
        ("app/kustomization.yaml", "resources: [../base, 'https://example.com/a.yaml']"),
        (
            "base/kustomization.yaml",
            "components: ['git@example.com:org/x.git']\npatches: [{path: 'HTTP://example.com/p'}]",
        ),
    ];
    let found = check_files(&files).unwrap().remote;
    assert_eq!(found, ["https://example.com/a.yaml", "git@example.com:org/x.git", "HTTP://example.com/p"]);
}

#[test]
fn the_second_document_and_the_first_of_two_keys_do_not_count() {
    let file = "resources: [../../a]\nresources: [../base]\n---\nresources: [../../b]\n";
    let inputs = check_file(file).unwrap();
    assert!(
        inputs.paths.contains("base") && !inputs.written["app/kustomization.yaml"].contains("../../"),
        "{inputs:?}"
    );
}

#[test]
fn kustomize_reads_what_was_checked() {
    let files = [
        ("app/kustomization.yaml", "resources: [../base]"),
        (
            "base/kustomization.yaml",
            "reSources: [x.yaml]\nGenerators: [g.yaml]\nnameSuffix: 1\n---\nresources: [../../y]",
        ),
        (
            "base/g.yaml",
            "apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: {name: x}\nfiles: [v=../v.txt] # x\n",
        ),
    ];
    let inputs = check_files(&files).unwrap();
    let written: Vec<_> = inputs.written.keys().map(String::as_str).collect();
    assert_eq!(written, ["app/kustomization.yaml", "base/g.yaml", "base/kustomization.yaml"]);
    assert_eq!(
        inputs.written["base/kustomization.yaml"],
        r#"{"generators":["g.yaml"],"nameSuffix":1,"reSources":["x.yaml"]}"#
    );
    assert!(inputs.paths.contains("v.txt"), "{inputs:?}");
}

#[test]
fn a_file_that_is_written_again_is_not_read_as_data() {
    let rows = [
        "configMapGenerator: [{name: a, files: [kustomization.yaml]}]",
        "resources: [../base]\nconfigMapGenerator: [{name: a, files: [../base/kustomization.yaml]}]",
    ];
    for file in rows {
        assert!(matches!(check_file(file), Err(ReferenceError::Unreadable(_))), "{file}: {:?}", check_file(file));
    }
}

#[test]
fn a_directory_of_plugins_lists_files_only() {
    let tree = |file: &'static str| {
        check_files(&[
            ("app/kustomization.yaml", "transformers: [plugins]"),
            ("app/plugins/kustomization.yaml", file),
            ("app/plugins/p.yaml", "{apiVersion: builtin, kind: PatchTransformer, metadata: {name: p}, path: x.yaml}"),
        ])
    };
    let inputs = tree("resources: [p.yaml]").unwrap();
    assert!(inputs.paths.contains("app/x.yaml"), "paths start from the file that lists the directory: {inputs:?}");
    assert!(matches!(tree("resources: [p.yaml]\nnamePrefix: x-"), Err(ReferenceError::Unreadable(_))));
}

#[test]
fn inputs_are_the_directory_and_its_references() {
    let rows: [(&str, &[&str]); 6] = [
        ("resources: [a.yaml]", &["app", "app/a.yaml"]),
        ("resources: [../base]", &["app", "base", "base/x.yaml", "deep/y.yaml"]),
        ("configMapGenerator: [{name: a, files: [k=../v/values.txt]}]", &["app", "v/values.txt"]),
        ("patches: [{path: ../p.yaml}]", &["app", "p.yaml"]),
        ("transformers: [../t.yaml]", &["app", "t.yaml"]),
        ("helmCharts: [{name: c, valuesFile: ../v.yaml}]", &["app"]),
    ];
    for (file, expected) in rows {
        let inputs = check_file(file).unwrap();
        assert_eq!(inputs.paths.iter().map(String::as_str).collect::<Vec<_>>(), expected, "{file}");
    }
}
