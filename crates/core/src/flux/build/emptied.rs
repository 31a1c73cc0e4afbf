//! Kustomization files that listed something and list nothing any more. kustomize builds them without a word.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::kustomization_file::{FILE_NAMES, items, read_nested};
use super::{generator, references};
use crate::flux::kustomize_controller::Features;
use crate::flux::source::artifact::Artifact;
use crate::flux::spec::KustomizationSpec;

/// Fields that make a build have objects.
const CONTENT: [&str; 8] = [
    "resources",
    "bases",
    "components",
    "configMapGenerator",
    "secretGenerator",
    "generators",
    "helmCharts",
    "helmChartInflationGenerator",
];

/// Returns the kustomization files that both builds read and that lose their last entries, with the number of entries. That
/// of the path itself is left out, because the whole build is empty then.
pub(crate) fn emptied_files(
    old: (&Artifact, &KustomizationSpec),
    new: (&Artifact, &KustomizationSpec),
    features: Features,
) -> BTreeMap<String, usize> {
    let (old, new) = (entries(old.0, old.1, features), entries(new.0, new.1, features));
    let emptied = new.into_iter().filter(|(_, entries)| *entries == 0);
    emptied.filter_map(|(file, _)| old.get(&file).filter(|entries| **entries > 0).map(|old| (file, *old))).collect()
}

/// Returns the number of entries of each kustomization file that a build reads; none if it cannot be read.
fn entries(artifact: &Artifact, spec: &KustomizationSpec, features: Features) -> BTreeMap<String, usize> {
    let Ok(root) = generator::generate(artifact, spec.value(), features.whole_images) else { return BTreeMap::new() };
    let Ok(mut inputs) = references::check(artifact, &root) else { return BTreeMap::new() };
    inputs.written.remove(&root.file);
    let count = |text: &String| {
        let fields = read_nested(text.as_bytes()).map_or_else(|_| Map::new(), |file| file.fields);
        let fields = Value::Object(fields);
        CONTENT.iter().map(|field| items(&fields, field).len()).sum()
    };
    let is_kustomization = |file: &str| FILE_NAMES.contains(&file.rsplit('/').next().unwrap_or_default());
    inputs
        .written
        .iter()
        .filter(|(file, _)| is_kustomization(file))
        .map(|(file, text)| (file.clone(), count(text)))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::flux::source::options::SourceOptions;

    fn emptied(old: &[(&str, &str)], new: &[(&str, &str)]) -> Vec<(String, usize)> {
        let spec = KustomizationSpec::new(&json!({"path": "apps"}));
        let pack = |files: &[(&str, &str)]| {
            let root = [("apps/kustomization.yaml", "resources: [cart, shop]")];
            Artifact::pack(&root.iter().chain(files).copied().collect(), &SourceOptions::default())
        };
        let (old, new) = (pack(old), pack(new));
        emptied_files((&old, &spec), (&new, &spec), Features::default()).into_iter().collect()
    }

    #[test]
    fn only_a_file_that_is_still_built_is_emptied() {
        let shop = ("apps/shop/kustomization.yaml", "resources: [a.yaml]");
        let unused = ("apps/unused/kustomization.yaml", "resources: [a.yaml]");
        let cart =
            |text: &'static str| [("apps/cart/kustomization.yaml", text), shop, ("apps/shop/a.yaml", ""), unused];
        let full = cart("resources: [../shop, ../shop/a.yaml]\n");
        let file = "apps/cart/kustomization.yaml".to_owned();
        assert_eq!(emptied(&full, &cart("resources: []\n")), [(file.clone(), 2)]);
        assert_eq!(emptied(&full, &cart("namespace: cart\n")), [(file, 2)]);
        assert_eq!(emptied(&full, &cart("resources: [../shop]\n")), []);
        assert_eq!(emptied(&full, &cart("configMapGenerator: [{name: a}]\n")), []);
        assert_eq!(emptied(&cart("resources: []\n"), &cart("resources: []\n")), [], "it was empty before");
        let emptied_unused =
            [full[0], shop, ("apps/shop/a.yaml", ""), ("apps/unused/kustomization.yaml", "resources: []")];
        assert_eq!(emptied(&full, &emptied_unused), [], "nobody builds it");
    }
}
