//! FieldTable of a kustomization file, with the types that kustomize v5.8.1 gives them.
//!
//! Source: docs/reference/kustomize-controller.md 3.8. A test compares the table with the types of kustomize.

/// Type of a field; another value is a build error.
#[derive(Debug)]
pub(crate) enum Shape {
    Any,
    Bool,
    Int,
    /// Text; the root file may have a number or a boolean in its place.
    Text,
    /// Text; also the root file must have text.
    ExactText,
    List(&'static Shape),
    /// A mapping with any keys.
    Map(&'static Shape),
    Struct(&'static FieldTable),
}

/// Names and types of fields.
pub(crate) type FieldTable = [(&'static str, Shape)];

use Shape::{Any, Bool, ExactText, Int, List, Map, Struct, Text};

const TEXTS: Shape = List(&Text);
const EXACT_TEXTS: Shape = List(&ExactText);
const TEXT_MAP: Shape = Map(&Text);

/// FieldTable of a kustomization file.
pub(crate) const KUSTOMIZATION: &FieldTable = &[
    ("apiVersion", ExactText),
    ("kind", ExactText),
    ("metadata", Struct(METADATA)),
    ("openapi", TEXT_MAP),
    ("namePrefix", Text),
    ("nameSuffix", Text),
    ("namespace", Text),
    ("commonLabels", TEXT_MAP),
    ("labels", List(&Struct(LABEL))),
    ("commonAnnotations", TEXT_MAP),
    ("patchesStrategicMerge", TEXTS),
    ("patchesJson6902", List(&Struct(PATCH))),
    ("patches", List(&Struct(PATCH))),
    ("images", List(&Struct(IMAGE))),
    ("imageTags", List(&Struct(IMAGE))),
    ("replacements", List(&Struct(REPLACEMENT))),
    ("replicas", List(&Struct(&[("name", Text), ("count", Int)]))),
    ("vars", List(&Struct(VAR))),
    ("sortOptions", Struct(SORT_OPTIONS)),
    ("resources", TEXTS),
    ("components", TEXTS),
    ("crds", TEXTS),
    ("bases", TEXTS),
    ("configMapGenerator", List(&Struct(CONFIG_MAP))),
    ("secretGenerator", List(&Struct(SECRET))),
    ("helmGlobals", Struct(&[("chartHome", Text), ("configHome", Text)])),
    ("helmCharts", List(&Struct(HELM_CHART))),
    ("helmChartInflationGenerator", List(&Struct(OLD_HELM_CHART))),
    ("generatorOptions", Struct(GENERATOR_OPTIONS)),
    ("configurations", TEXTS),
    ("generators", TEXTS),
    ("transformers", TEXTS),
    ("validators", TEXTS),
    ("buildMetadata", TEXTS),
];

const METADATA: &FieldTable = &[("name", Text), ("namespace", Text), ("labels", TEXT_MAP), ("annotations", TEXT_MAP)];

const LABEL: &FieldTable = &[
    ("pairs", TEXT_MAP),
    ("includeSelectors", Bool),
    ("includeTemplates", Bool),
    ("fields", List(&Struct(FIELD_SPEC))),
];

const FIELD_SPEC: &FieldTable =
    &[("group", ExactText), ("version", ExactText), ("kind", ExactText), ("path", Text), ("create", Bool)];

const SELECTOR: &FieldTable = &[
    ("group", ExactText),
    ("version", ExactText),
    ("kind", ExactText),
    ("name", ExactText),
    ("namespace", ExactText),
    ("annotationSelector", Text),
    ("labelSelector", Text),
];

const PATCH: &FieldTable = &[
    ("path", Text),
    ("patch", Text),
    ("target", Struct(SELECTOR)),
    ("options", Struct(&[("allowNameChange", Bool), ("allowKindChange", Bool)])),
];

const IMAGE: &FieldTable =
    &[("name", Text), ("newName", Text), ("tagSuffix", Text), ("newTag", Text), ("digest", Text)];

const REPLACEMENT: &FieldTable = &[
    ("path", Text),
    ("source", Struct(REPLACEMENT_SOURCE)),
    ("sourceValue", ExactText),
    ("targets", List(&Struct(REPLACEMENT_TARGET))),
];

const REPLACEMENT_SOURCE: &FieldTable = &[
    ("group", ExactText),
    ("version", ExactText),
    ("kind", ExactText),
    ("name", ExactText),
    ("namespace", ExactText),
    ("fieldPath", ExactText),
    ("options", Struct(FIELD_OPTIONS)),
];

const REPLACEMENT_TARGET: &FieldTable = &[
    ("select", Struct(EXACT_SELECTOR)),
    ("reject", List(&Struct(EXACT_SELECTOR))),
    ("fieldPaths", EXACT_TEXTS),
    ("options", Struct(FIELD_OPTIONS)),
];

const EXACT_SELECTOR: &FieldTable = &[
    ("group", ExactText),
    ("version", ExactText),
    ("kind", ExactText),
    ("name", ExactText),
    ("namespace", ExactText),
    ("annotationSelector", ExactText),
    ("labelSelector", ExactText),
];

const FIELD_OPTIONS: &FieldTable =
    &[("delimiter", ExactText), ("index", Int), ("encoding", ExactText), ("create", Bool)];

const VAR: &FieldTable =
    &[("name", Text), ("objref", Struct(VAR_TARGET)), ("fieldref", Struct(&[("fieldPath", Text)]))];

const VAR_TARGET: &FieldTable = &[
    ("apiVersion", Text),
    ("group", ExactText),
    ("version", ExactText),
    ("kind", ExactText),
    ("name", Text),
    ("namespace", Text),
];

const SORT_OPTIONS: &FieldTable =
    &[("order", Text), ("legacySortOptions", Struct(&[("orderFirst", TEXTS), ("orderLast", TEXTS)]))];

const GENERATOR_OPTIONS: &FieldTable =
    &[("labels", TEXT_MAP), ("annotations", TEXT_MAP), ("disableNameSuffixHash", Bool), ("immutable", Bool)];

const EXACT_GENERATOR_OPTIONS: Shape = Struct(&[
    ("labels", Map(&ExactText)),
    ("annotations", Map(&ExactText)),
    ("disableNameSuffixHash", Bool),
    ("immutable", Bool),
]);

const CONFIG_MAP: &FieldTable = &[
    ("namespace", ExactText),
    ("name", ExactText),
    ("behavior", ExactText),
    ("literals", EXACT_TEXTS),
    ("files", EXACT_TEXTS),
    ("envs", EXACT_TEXTS),
    ("env", ExactText),
    ("options", EXACT_GENERATOR_OPTIONS),
];

const SECRET: &FieldTable = &[
    ("namespace", ExactText),
    ("name", ExactText),
    ("behavior", ExactText),
    ("literals", EXACT_TEXTS),
    ("files", EXACT_TEXTS),
    ("envs", EXACT_TEXTS),
    ("env", ExactText),
    ("options", EXACT_GENERATOR_OPTIONS),
    ("type", Text),
];

const HELM_CHART: &FieldTable = &[
    ("name", Text),
    ("version", Text),
    ("repo", Text),
    ("releaseName", Text),
    ("namespace", Text),
    ("additionalValuesFiles", TEXTS),
    ("valuesFile", Text),
    ("valuesInline", Map(&Any)),
    ("valuesMerge", Text),
    ("includeCRDs", Bool),
    ("skipHooks", Bool),
    ("apiVersions", TEXTS),
    ("kubeVersion", Text),
    ("nameTemplate", Text),
    ("skipTests", Bool),
    ("debug", Bool),
    ("devel", Bool),
];

const OLD_HELM_CHART: &FieldTable = &[
    ("chartName", Text),
    ("chartVersion", Text),
    ("chartRepoUrl", Text),
    ("chartHome", Text),
    ("chartRepoName", Text),
    ("helmBin", Text),
    ("helmHome", Text),
    ("values", Text),
    ("valuesLocal", Map(&Any)),
    ("valuesMerge", Text),
    ("releaseName", Text),
    ("releaseNamespace", Text),
    ("extraArgs", TEXTS),
];
