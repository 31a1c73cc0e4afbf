//! Comparison of what two builds read, without building.

use std::collections::BTreeMap;

use super::{generator, references};
use crate::flux::kustomize_controller::Features;
use crate::flux::source::artifact::Artifact;
use crate::flux::spec::KustomizationSpec;

/// Returns true if a spec builds the same objects of two artifacts, because the build reads the same files. False if it
/// cannot be known what a build reads.
pub(crate) fn reads_same_files(old: &Artifact, new: &Artifact, spec: &KustomizationSpec, features: Features) -> bool {
    let [old, new] = [old, new].map(|artifact| inputs(artifact, spec, features));
    old.is_some() && old == new
}

/// Returns a digest of the files that a build reads, and those that are written for it.
fn inputs(
    artifact: &Artifact,
    spec: &KustomizationSpec,
    features: Features,
) -> Option<(String, BTreeMap<String, String>)> {
    let root = generator::generate(artifact, spec.value(), features.whole_images).ok()?;
    let inputs = references::check(artifact, &root).ok()?;
    Some((inputs.digest(artifact), inputs.written))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::flux::source::options::SourceOptions;

    #[test]
    fn a_build_reads_its_path_and_the_bases_that_it_names() {
        let spec = KustomizationSpec::new(&json!({"path": "apps"}));
        let pack = |base: &str, other: &str, own: &str| {
            let files = [
                ("apps/kustomization.yaml", "resources: [../base, own.yaml]\n"),
                ("apps/own.yaml", own),
                ("base/kustomization.yaml", "resources: [a.yaml]\n"),
                ("base/a.yaml", base),
                ("other/a.yaml", other),
            ];
            let tree = files.into_iter().map(|(path, text)| (path, text.to_owned())).collect();
            Artifact::pack(&tree, &SourceOptions::default())
        };
        let before = pack("a: 1\n", "a: 1\n", "a: 1\n");
        for (after, expected) in [
            (pack("a: 1\n", "a: 2\n", "a: 1\n"), true),
            (pack("a: 2\n", "a: 1\n", "a: 1\n"), false),
            (pack("a: 1\n", "a: 1\n", "a: 2\n"), false),
        ] {
            assert_eq!(reads_same_files(&before, &after, &spec, Features::default()), expected);
        }
        let without_path = KustomizationSpec::new(&json!({"path": "gone"}));
        assert!(!reads_same_files(&before, &before, &without_path, Features::default()));
    }
}
