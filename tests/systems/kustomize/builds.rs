//! Builds of trees by the real kustomize and the real kubectl.

use std::path::Path;
use std::sync::Arc;

use gitops_core::flux::build::{self, Answers, BuildContext, Interrupt, Needs};
use gitops_core::flux::kustomize_controller::{Features, KustomizeVersions};
use gitops_core::flux::source::artifact::Artifact;
use gitops_core::flux::source::options::SourceOptions;
use gitops_core::flux::spec::{KustomizationSpec, NamespacedName};
use kubectl_gitops::tools::programs::kustomize::Kustomize;
use kubectl_gitops::tools::sandbox::Sandbox;
use serde_json::json;
use test_support::gitops::binary;

/// Trees whose order, names and generated parts differ.
const TREES: [&[(&str, &str)]; 3] = [
    &[
        ("z.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: z}\n"),
        (
            "a.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: z}\ndata: {x: '0123', y: \"yes\"}\n",
        ),
        ("b/kustomization.yaml", "resources: [c.yaml]\nnamePrefix: pre-\n"),
        ("b/c.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, namespace: z}\n"),
    ],
    &[
        (
            "kustomization.yaml",
            "Resources: [a.yaml]\nunknown: 1\ncommonLabels: {x: true}\nconfigMapGenerator: [{name: g, literals: [k=v]}]\n",
        ),
        ("a.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {ports: [{port: 80}]}\n"),
    ],
    &[("README.md", "nothing here")],
];

#[tokio::test]
async fn kubectl_and_kustomize_build_the_same_bytes_in_the_order_of_the_files() {
    let bin = xtask::controlplane::bin;
    for (number, files) in TREES.iter().enumerate() {
        let artifact = Arc::new(Artifact::pack(&files.iter().copied().collect(), &SourceOptions::default()));
        let kubectl = text(&bin("kubectl"), &artifact).await;
        let kustomize = text(&bin("kustomize"), &artifact).await;
        assert_eq!(kubectl, kustomize, "tree {number}");
        assert_eq!(kubectl.is_empty(), number == 2, "tree {number}");
    }
    let artifact = Arc::new(Artifact::pack(&TREES[0].iter().copied().collect(), &SourceOptions::default()));
    let text = text(&bin("kubectl"), &artifact).await;
    let kinds: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("kind: ")).collect();
    assert_eq!(kinds, ["ConfigMap", "Deployment", "Namespace"]);
}

async fn text(program: &Path, artifact: &Arc<Artifact>) -> String {
    let mut kustomize = Kustomize::new(Some(program)).without_cache();
    kustomize.program.sandbox = Sandbox::launched_by(binary());
    let versions = KustomizeVersions { program: kustomize.version().await.unwrap(), linked: Some("5.8") };
    assert_eq!(versions.difference(), None);
    let owner = NamespacedName { namespace: "n".to_owned(), name: "k".to_owned() };
    let (spec, mut answers) = (KustomizationSpec::new(&json!({"path": "./"})), Answers::default());
    loop {
        let mut needs = Needs::default();
        let mut context = BuildContext::new(Features::default(), &answers, &mut needs);
        match build::build_text(artifact, &owner, &spec, &mut context) {
            Err(Interrupt::Missing) => {}
            built => return built.unwrap(),
        }
        for (key, output) in kustomize.run_all(&versions, needs.runs.into_values(), 2, |_, _| {}).await.unwrap() {
            answers.record_run(key, output);
        }
    }
}

#[test]
fn the_recorded_answer_of_the_demo_is_what_the_preview_prints() {
    let answer = xtask::demo::preview_answer(&binary(), &xtask::controlplane::bin("kubectl")).unwrap();
    assert_eq!(answer, std::fs::read_to_string(xtask::demo::PREVIEW).unwrap());
}
