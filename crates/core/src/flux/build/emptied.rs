//! Kustomization files that listed something and list nothing any more. kustomize builds them without a word.

use std::collections::BTreeMap;

use serde_json::Value;

use super::kustomization_file::{is_kustomization_file, items, read_nested};
use super::{generator, references};
use crate::flux::kustomize_controller::Features;
use crate::flux::source::artifact::Artifact;
use crate::flux::spec::KustomizationSpec;

/// Fields that list resources.
const RESOURCES: [&str; 2] = ["resources", "bases"];
/// Further fields that make a build have objects.
const OTHERS: [&str; 6] =
    ["components", "configMapGenerator", "secretGenerator", "generators", "helmCharts", "helmChartInflationGenerator"];

/// Number of entries of a kustomization file.
#[derive(Clone, Copy, PartialEq, Eq)]
struct EntryCount {
    resources: usize,
    others: usize,
}

impl EntryCount {
    /// Counts the entries in the text of a kustomization file; none if it cannot be read.
    fn of(text: &str) -> Self {
        let fields = Value::Object(read_nested(text.as_bytes()).map(|file| file.fields).unwrap_or_default());
        let [resources, others] =
            [&RESOURCES[..], &OTHERS].map(|names| names.iter().map(|field| items(&fields, field).len()).sum());
        Self { resources, others }
    }

    /// Returns the number of entries that were lost if the file lists nothing any more, or no resource any more and
    /// nothing instead.
    fn lost_since(self, old: Self) -> Option<usize> {
        match self {
            Self { resources: 0, others: 0 } => Some(old.resources + old.others),
            Self { resources: 0, others } if others <= old.others => Some(old.resources),
            _ => None,
        }
    }
}

/// Returns the kustomization files that both builds read and that lose their last resources, with the number of entries
/// they lose. That of the path itself is left out if it lists nothing, because the whole build is empty then.
pub(crate) fn emptied_files(
    old: (&Artifact, &KustomizationSpec),
    new: (&Artifact, &KustomizationSpec),
    features: Features,
) -> BTreeMap<String, usize> {
    let (old, new) = (entries(old.0, old.1, features), entries(new.0, new.1, features));
    let lost = new.into_iter().filter_map(|(file, new)| Some((new.lost_since(*old.get(&file)?)?, file)));
    lost.filter(|(lost, _)| *lost > 0).map(|(lost, file)| (file, lost)).collect()
}

/// Returns the number of entries of each kustomization file that a build reads; none if it cannot be read.
fn entries(artifact: &Artifact, spec: &KustomizationSpec, features: Features) -> BTreeMap<String, EntryCount> {
    let Ok(root) = generator::generate(artifact, spec.value(), features.whole_images) else { return BTreeMap::new() };
    let Ok(inputs) = references::check(artifact, &root) else { return BTreeMap::new() };
    let written =
        inputs.written.iter().filter(|(file, _)| is_kustomization_file(file) && artifact.file(file).is_some());
    let counted = written.map(|(file, text)| (file.clone(), EntryCount::of(text)));
    counted.filter(|(file, count)| *file != root.file || count.resources + count.others > 0).collect()
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
        assert_eq!(emptied(&full, &cart("configMapGenerator: [{name: a}]\n")), [], "it lists something instead");
        assert_eq!(emptied(&cart("resources: []\n"), &cart("resources: []\n")), [], "it was empty before");
        let emptied_unused =
            [full[0], shop, ("apps/shop/a.yaml", ""), ("apps/unused/kustomization.yaml", "resources: []")];
        assert_eq!(emptied(&full, &emptied_unused), [], "nobody builds it");
    }

    #[test]
    fn a_file_that_keeps_only_its_components_is_emptied() {
        let parts = [
            ("apps/part/kustomization.yaml", "kind: Component\nresources: [a.yaml]"),
            ("apps/part/a.yaml", ""),
            ("apps/cart/a.yaml", ""),
            ("apps/cart/b.yaml", ""),
            ("apps/shop/kustomization.yaml", "resources: [../part/a.yaml]"),
        ];
        let cart = |text: &'static str| [&parts[..], &[("apps/cart/kustomization.yaml", text)]].concat();
        let full = cart("components: [../part]\nresources: [a.yaml, b.yaml]\n");
        assert_eq!(emptied(&full, &cart("components: [../part]\n")), [("apps/cart/kustomization.yaml".to_owned(), 2)]);
        let moved = cart("components: [../part, ../other]\n");
        let other = [
            &moved[..],
            &[("apps/other/kustomization.yaml", "kind: Component\nresources: [b.yaml]"), ("apps/other/b.yaml", "")],
        ]
        .concat();
        assert_eq!(emptied(&full, &other), [], "a component replaces them");
    }

    #[test]
    fn the_file_of_the_path_counts_if_it_still_lists_something() {
        let files = |root: &str, spec: &KustomizationSpec| {
            let part = ("apps/part/kustomization.yaml", "kind: Component\nresources: [a.yaml]");
            let files = [("apps/kustomization.yaml", root), part, ("apps/part/a.yaml", ""), ("apps/b.yaml", "")];
            let pack =
                |files: &[(&str, &str)]| Artifact::pack(&files.iter().copied().collect(), &SourceOptions::default());
            let full = [("apps/kustomization.yaml", "components: [part]\nresources: [b.yaml]")];
            let old = pack(&[&full[..], &files[1..]].concat());
            emptied_files((&old, spec), (&pack(&files), spec), Features::default()).len()
        };
        let spec = KustomizationSpec::new(&json!({"path": "apps"}));
        assert_eq!(files("components: [part]", &spec), 1);
        assert_eq!(files("namespace: a", &spec), 0, "the whole build is empty");
    }
}
