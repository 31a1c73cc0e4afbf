//! Kustomization files.

use gitops_core::flux::build::generator::generate;
use gitops_core::flux::build::references;
use gitops_core::flux::source::artifact::Artifact;
use gitops_core::flux::source::options::SourceOptions;
use serde_json::json;

/// The input is a kustomization file, of the build and of a directory that it refers to. Generating it twice gives the same.
/// The file that was checked is written again, and no URL that kustomize fetches begins with an option.
pub(crate) fn check(data: &[u8]) {
    let files: [(&str, &[u8]); 3] =
        [("app/kustomization.yaml", data), ("app/a.yaml", b"kind: A\n"), ("base/kustomization.yaml", data)];
    let artifact = Artifact::pack(&files.into_iter().collect(), &SourceOptions::default());
    let spec = json!({"path": "app", "namePrefix": "x-", "images": [{"name": "a", "newTag": "b"}]});
    let Ok(generated) = generate(&artifact, &spec, false) else { return };
    assert_eq!(generate(&artifact, &spec, false).as_ref(), Ok(&generated));
    assert_eq!(generated.directory, "app");
    let Ok(inputs) = references::check(&artifact, &generated) else { return };
    assert!(inputs.remote.iter().all(|url| !url.starts_with('-')), "{:?}", inputs.remote);
    assert!(inputs.written.contains_key("app/kustomization.yaml"), "{:?}", inputs.written);
}
