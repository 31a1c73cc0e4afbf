//! No output shows a value of a Secret: random changes, in which the value reaches every field that a plan reads, are planned
//! and written in every format. A value that is not secret, in the same fields, must be shown.
//!
//! `cargo xtask leaks --cases N` tries more of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gitops_core::flux::simulation::testing::leaks::{LeakCase, Planned, forms};
use gitops_core::plan::file::PlanFile;
use gitops_core::plan::finished::FinishedPlan;
use kubectl_gitops::output::format::{Look, Render, of};
use serde_json::{Value, json};
use test_support::fake_api::Answer;
use test_support::folder::Folder;
use test_support::gitops::gitops_as;
use test_support::random::number;
use test_support::workers::on_all_processors;

use crate::prune::deletion::{CONFIG_MAPS, KUSTOMIZATIONS, cluster};

/// Number of random cases, unless `LEAK_CASES` has another one. They begin with the number in `LEAK_FIRST`. Each way has cases
/// of its own beside them.
const CASES: u64 = 8;

/// Way by which a live spec already holds the value: a recording has that spec.
const IN_LIVE_SPEC: &str = "sparseCheckout of a live source";

/// Ways on which no value reaches an output, so that nothing is hidden on them: the substitution fails before, or an owner is
/// deleted, which its name describes.
const SILENT: [&str; 2] = ["malformed", "removed Kustomization"];

/// Results of the cases.
#[derive(Default)]
struct Found {
    leaks: Vec<String>,
    /// Outputs that showed a value that is not secret, with the number of cases.
    shown: BTreeMap<&'static str, usize>,
    ways: BTreeSet<&'static str>,
    silent: BTreeMap<&'static str, bool>,
    forms: usize,
}

/// Returns every output of a plan by its name.
fn outputs(planned: &Planned) -> Vec<(&'static str, String)> {
    let formats = of(FinishedPlan::PARTS);
    let mut outputs: Vec<(&'static str, String)> = formats
        .map(|(name, format)| (name, format.render(&planned.plan, Look::whole(true)).expect("a plan has a text")))
        .collect();
    let file = PlanFile { plan: (*planned.plan).clone(), execution: None };
    outputs.push(("plan file", file.to_text().expect("a plan file has a text").0));
    outputs.push(("second step", serde_json::to_string_pretty(&planned.back).expect("a plan has a text")));
    outputs.push(("searches", planned.searches.clone()));
    outputs
}

/// Returns the recording of a cluster, as `snapshot` writes it.
fn recording(planned: &Planned) -> String {
    let mut snapshot = planned.snapshot.clone();
    snapshot.redact(false);
    serde_json::to_string(&snapshot).expect("a snapshot has a text")
}

fn try_case(name: &str, case: &LeakCase, found: &mut Found) {
    let forbidden = case.forbidden();
    found.forms = found.forms.max(forbidden.len());
    let mut private = outputs(&case.private);
    if !case.is_live && !case.ways.contains(&IN_LIVE_SPEC) {
        private.push(("snapshot", recording(&case.private)));
    }
    for (output, text) in private {
        if let Some(form) = forbidden.iter().find(|form| text.contains(form.as_str())) {
            let line = text.lines().find(|line| line.contains(form.as_str())).unwrap_or_default();
            let line: String = line.chars().take(300).collect();
            found.leaks.push(format!("{name} {:?} in {output}: {form}: {line}", case.ways));
        }
    }
    // A live name shows the value itself, and so decides where it stands.
    if let Some(twin) = case.twin.as_ref().filter(|_| !case.is_live) {
        let texts = [&case.private, twin].map(document);
        let mut lines = texts[0].lines().zip(texts[1].lines());
        if let Some((one, other)) = lines.find(|(one, other)| one != other) {
            found.leaks.push(format!("{name} {:?} depends on the value: {one} / {other}", case.ways));
        }
    }
    for (output, text) in outputs(&case.public) {
        *found.shown.entry(output).or_default() += usize::from(text.contains(&case.public_value));
    }
    // Of several ways, another one may lead to an output.
    if name == "way" {
        *found.silent.entry(case.ways[0]).or_insert(true) &= !case.shows_the_public_value();
    }
    found.ways.extend(&case.ways);
}

/// Returns what a plan says.
fn document(planned: &Planned) -> String {
    let [plan, back] =
        [&planned.plan, &planned.back].map(|plan| serde_json::to_string_pretty(plan).expect("a plan has a text"));
    [&*plan, &back, &planned.searches].join("\n")
}

#[test]
#[expect(clippy::print_stdout, reason = "the figures are the result")]
fn no_output_shows_a_value_of_a_secret_or_depends_on_it() {
    let (random, first) = (number("LEAK_CASES", CASES), number("LEAK_FIRST", 0));
    let ways = LeakCase::number_of_ways();
    let steps = ways as u64 + random;
    let cases = 3 * ways as u64 + 2 * random;
    let parts = on_all_processors(0..steps, |found: &mut Found, number| match number.checked_sub(ways as u64) {
        None => LeakCase::of_way(number as usize).iter().for_each(|case| try_case("way", case, found)),
        // The random cases are spread over all ways.
        Some(number) => {
            let number = first + number;
            try_case(&format!("case {number}"), &LeakCase::new(number * 13), found);
            try_case(&format!("live case {number}"), &LeakCase::of_live(number * 13), found);
        }
    });
    let mut all = Found::default();
    for part in parts {
        all.leaks.extend(part.leaks);
        all.ways.extend(part.ways);
        all.forms = all.forms.max(part.forms);
        part.shown.into_iter().for_each(|(name, count)| *all.shown.entry(name).or_default() += count);
        part.silent.into_iter().for_each(|(name, is_silent)| *all.silent.entry(name).or_insert(true) &= is_silent);
    }
    let silent: Vec<&str> = all.silent.iter().filter(|(_, is_silent)| **is_silent).map(|(name, _)| *name).collect();
    println!(
        "{cases} changes by {} ways, {} forms of the value; a value that is not secret was shown by {:?}; by no output on {} \
         ways: {silent:?}",
        all.ways.len(),
        all.forms,
        all.shown,
        silent.len()
    );
    let shown: Vec<String> = all.leaks.iter().take(60).cloned().collect();
    assert!(all.leaks.is_empty(), "{} leaks:\n{}", all.leaks.len(), shown.join("\n"));
    assert_eq!(silent, SILENT, "a way leads to no output, so that its cases prove nothing");
    // Names of deletions, approvals and findings are rarer.
    let rare = ["name", "vap", "sarif", "gitlab", "junit"];
    let missing = all.shown.iter().filter(|(name, count)| **count == 0 && !rare.contains(name));
    assert!(missing.count() == 0, "an output showed nothing: {:?}", all.shown);
}

const HELM: &str = "helm.toolkit.fluxcd.io/v2";
const KUSTOMIZE: &str = "kustomize.toolkit.fluxcd.io/v1";
const SOURCE: &str = "source.toolkit.fluxcd.io/v1";

/// Returns a live object of Flux.
fn live(api_version: &str, kind: &str, name: &str, spec: &Value, status: &Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "spec": spec, "status": status,
        "metadata": {"name": name, "namespace": "flux-system", "uid": name, "resourceVersion": "5", "generation": 1}})
}

#[test]
fn standard_error_shows_no_value_at_any_verbosity() {
    let (secret, open) = ("zqxkvbwtrphl", "open-value");
    let folder = Folder::outside_checkouts("leaks");
    let api = cluster();
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let variables = json!({"substituteFrom": [{"kind": "Secret", "name": "vars"}], "substitute": {"OPEN": open}});
    let spec = json!({"prune": true, "path": "./apps", "interval": "1m", "postBuild": variables,
        "sourceRef": {"kind": "GitRepository", "name": "repo"}});
    let status = json!({"observedGeneration": 1, "conditions": ready,
        "inventory": {"entries": [{"id": "flux-system_app_helm.toolkit.fluxcd.io_HelmRelease", "v": "v2"}]}});
    let chart = json!({"spec": {"chart": "./app", "sourceRef": {"kind": "HelmRepository", "name": "repo"}}});
    let release =
        live(HELM, "HelmRelease", "app", &json!({"interval": "1m", "chart": chart}), &json!({"conditions": ready}));
    api.on(&format!("PATCH /apis/{HELM}/namespaces/flux-system/helmreleases/app"), [Answer::json(release.clone())]);
    for (kind, plural, object) in [
        ("Kustomization", "kustomizations", live(KUSTOMIZE, "Kustomization", "apps", &spec, &status)),
        ("HelmRelease", "helmreleases", release),
        (
            "GitRepository",
            "gitrepositories",
            live(SOURCE, "GitRepository", "repo", &json!({"url": "https://example.invalid/fleet.git"}), &json!({})),
        ),
    ] {
        let version = object["apiVersion"].as_str().unwrap().to_owned();
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let path = format!("/apis/{version}");
        api.on(&format!("GET {path}/namespaces/flux-system/{plural}/{name}"), [Answer::json(object.clone())]);
        api.on(&format!("GET {path}/{plural}"), [Answer::list(&version, kind, vec![object])]);
    }
    let types = [(HELM, "HelmRelease", "helmreleases", true), (SOURCE, "GitRepository", "gitrepositories", true)];
    api.serve_types(&[&[CONFIG_MAPS, KUSTOMIZATIONS][..], &types].concat());
    let vars = json!({"apiVersion": "v1", "kind": "Secret", "data": {"PASSWORD": STANDARD.encode(secret)},
        "metadata": {"name": "vars", "namespace": "flux-system", "uid": "v", "resourceVersion": "1"}});
    api.on("GET /api/v1/namespaces/flux-system/secrets/vars", [Answer::json(vars)]);
    let release = "apiVersion: helm.toolkit.fluxcd.io/v2\\nkind: HelmRelease\\nmetadata:\\n  name: app\\n  namespace: flux-system\\nspec:\\n  \
        interval: 1m\\n  chart:\\n    spec:\\n      chart: ./${PASSWORD}\\n      sourceRef:\\n        kind: HelmRepository\\n        name: repo\\n  \
        valuesFrom:\\n  - kind: ConfigMap\\n    name: x-${PASSWORD}\\n";
    let map = |name: &str| {
        format!("---\\napiVersion: v1\\nkind: ConfigMap\\nmetadata:\\n  name: {name}\\n  namespace: flux-system\\n")
    };
    let output = format!("{release}{}{}", map("a-${PASSWORD}"), map("b-${OPEN}"));
    let version = r#"case "$1" in version) echo '{"kustomizeVersion": "v5.8.1"}'; exit;; esac"#;
    let program = folder.script("kubectl", &format!("{version}; printf '{output}'")).display().to_string();
    folder.write("tree/apps/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n");
    let source = format!("--source=GitRepository/flux-system/repo={}/tree", folder.path().display());
    let kubeconfig = api.kubeconfig(&folder);
    let forms = forms(secret);
    for format in ["table", "wide", "json", "yaml", "markdown", "html", "sarif", "junit", "gitlab", "name"] {
        let words = ["prune", "--plan", &source, "--kustomize", &program, "--max-percent=100", "-v", "9", "-o", format];
        let run = gitops_as(&kubeconfig, &words);
        for form in &forms {
            assert!(!run.stdout.contains(form) && !run.stderr.contains(form), "{format}: {form}: {run}");
        }
        assert!(run.stderr.contains("secrets/*: 200"), "{format}: the Secret is read, and -v 9 shows requests: {run}");
        if !["name", "sarif", "junit", "gitlab"].contains(&format) {
            assert!(run.stdout.contains(open), "{format}: {run}");
            assert!(run.stdout.contains("??????????"), "{format}: {run}");
        }
    }
}

#[test]
fn a_plan_that_is_shown_again_has_the_same_outputs() {
    let folder = Folder::outside_checkouts("shown-again");
    for way in (0..LeakCase::number_of_ways()).step_by(29) {
        let [planned, same] = [(); 2].map(|()| {
            let [.., case] = LeakCase::of_way(way);
            case.public
        });
        let document = serde_json::to_string(&planned.plan).unwrap();
        let plan = FinishedPlan::read(document.as_bytes()).unwrap();
        assert_eq!(outputs(&Planned { plan, ..same }), outputs(&planned));
        let file = folder.write("plan.json", &document).display().to_string();
        let run = gitops_as(Path::new("/nothing/is/here"), &["plan", "--show", &file, "-o", "markdown"]);
        let code = match (planned.plan.alarms(), planned.plan.is_complete()) {
            ([_, ..], _) => 6,
            (_, false) => 5,
            _ => 0,
        };
        assert_eq!((run.code, run.stdout), (code, planned.plan.comment()), "{}", run.stderr);
    }
    let file = folder.write("plan.json", "{}").display().to_string();
    for (words, code) in
        [(&["--show", &file][..], 1), (&["--show", &file, "."], 2), (&["--show", &file, "--offline"], 2)]
    {
        let run = gitops_as(Path::new("/nothing/is/here"), &[&["plan"], words].concat());
        assert_eq!(run.code, code, "{run}");
    }
}
