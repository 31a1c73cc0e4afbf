//! Kustomization files.

use gitops_core::flux::build::generator::generate;
use gitops_core::flux::build::references::remote_references;
use gitops_core::flux::source::artifact::Artifact;
use gitops_core::flux::source::options::SourceOptions;
use serde_json::json;

/// The input is a kustomization file. Generating it twice gives the same, and every URL that kustomize would fetch begins
/// with no option.
pub(crate) fn check(data: &[u8]) {
    let files: [(&str, &[u8]); 3] = [
        ("app/kustomization.yaml", data),
        ("app/a.yaml", b"kind: A\n"),
        ("base/kustomization.yaml", b"resources: []\n"),
    ];
    let artifact = Artifact::pack(&files.into_iter().collect(), &SourceOptions::default());
    let spec = json!({"path": "app", "namePrefix": "x-", "images": [{"name": "a", "newTag": "b"}]});
    let Ok(generated) = generate(&artifact, &spec, false) else { return };
    assert_eq!(generate(&artifact, &spec, false).as_ref(), Ok(&generated));
    assert_eq!(generated.directory, "app");
    if let Ok(remote) = remote_references(&artifact, &generated) {
        assert!(remote.iter().all(|url| !url.starts_with('-')), "{remote:?}");
    }
}
