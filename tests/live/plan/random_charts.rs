//! Random changes of charts and values, compared by uid with what the real helm-controller does.
//!
//! `RANDOM_CHARTS` sets the number of releases, and `SEED` the first seed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::releases::objects;
use super::upgrades::publish_chart;
use test_support::cluster::LIMIT;
use test_support::flux::applied;
use test_support::folder::{commit, folder, init};
use test_support::random::{Random, number};
use test_support::tree_plan::{document, plan, reason};
use xtask::cluster::{Cluster, Flux, Options};
use xtask::controlplane::{bin, ensure};
use xtask::say;

/// Releases in one cluster.
const BATCH: usize = 25;

const KINDS: [&str; 10] = [
    "ConfigMap",
    "Frozen",
    "Secret",
    "Service",
    "ServiceAccount",
    "PersistentVolumeClaim",
    "Deployment",
    "StatefulSet",
    "Namespace",
    "Definition",
];

/// A file with one template.
#[derive(Clone)]
struct Template {
    kind: &'static str,
    name: String,
    /// Number in the content of the object.
    version: usize,
    /// The template is rendered if `values.on` has it.
    is_conditional: bool,
    /// Its name begins with `values.prefix`.
    is_prefixed: bool,
    is_kept: bool,
    /// Events of a hook; empty for an object of the release.
    hook: &'static str,
    /// It is in a subchart, which `values.sub.enabled` turns off.
    is_in_subchart: bool,
}

#[derive(Clone)]
struct Release {
    namespace: String,
    templates: Vec<Template>,
    chart_version: &'static str,
    /// Names of the conditional templates that are rendered.
    on: BTreeSet<String>,
    prefix: &'static str,
    subchart: bool,
    disables_hooks: bool,
}

impl Template {
    fn random(random: &mut Random, number: usize) -> Self {
        Self {
            kind: random.pick(&KINDS),
            name: format!("t{number}"),
            version: 1,
            is_conditional: random.one_in(3),
            is_prefixed: random.one_in(6),
            is_kept: random.one_in(8),
            hook: if random.one_in(8) { random.pick(&["post-install,post-upgrade", "pre-upgrade"]) } else { "" },
            is_in_subchart: random.one_in(4),
        }
    }

    /// Changes one property in the chart.
    fn change(&mut self, random: &mut Random) {
        match random.below(9) {
            0..=2 => self.version += 1,
            3 => self.name += "-new",
            4 => self.is_kept = !self.is_kept,
            5 => self.kind = random.pick(&KINDS),
            6 => self.is_conditional = !self.is_conditional,
            7 => self.is_in_subchart = !self.is_in_subchart,
            _ => self.hook = if self.hook.is_empty() { "post-upgrade" } else { "" },
        }
    }

    fn text(&self, namespace: &str) -> String {
        let Self { version, .. } = self;
        // Cluster-scoped objects have the namespace of the case in their names.
        let own = format!("{}{}", if self.is_prefixed { "{{ .Values.prefix }}" } else { "" }, self.name);
        let mut notes = vec![];
        if self.is_kept {
            notes.push("helm.sh/resource-policy: keep".to_owned());
        }
        if !self.hook.is_empty() {
            notes.push(format!("helm.sh/hook: '{}'", self.hook));
        }
        let metadata = |name: &str| format!("metadata: {{name: \"{name}\", annotations: {{{}}}}}", notes.join(", "));
        let here = metadata(&own);
        let labels = format!("{{app: {}, changes: v{}}}", self.name, version.div_ceil(2));
        let pod = format!(
            "selector: {{matchLabels: {labels}}}\n  template:\n    metadata: {{labels: {labels}}}\n    \
             spec: {{containers: [{{name: c, image: 'i:{version}'}}]}}"
        );
        let claim = format!("{{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: {version}Mi}}}}}}");
        let body = match self.kind {
            "ConfigMap" => format!("apiVersion: v1\nkind: ConfigMap\n{here}\ndata: {{v: '{version}'}}\n"),
            "Frozen" => format!("apiVersion: v1\nkind: ConfigMap\n{here}\nimmutable: true\ndata: {{v: '{version}'}}\n"),
            "Secret" => format!("apiVersion: v1\nkind: Secret\n{here}\nstringData: {{v: '{version}'}}\n"),
            "Service" => format!("apiVersion: v1\nkind: Service\n{here}\nspec: {{ports: [{{port: {version}}}]}}\n"),
            "ServiceAccount" => format!("apiVersion: v1\nkind: ServiceAccount\n{here}\n"),
            "PersistentVolumeClaim" => format!("apiVersion: v1\nkind: PersistentVolumeClaim\n{here}\nspec: {claim}\n"),
            "Deployment" => format!("apiVersion: apps/v1\nkind: Deployment\n{here}\nspec:\n  {pod}\n"),
            "StatefulSet" => format!(
                "apiVersion: apps/v1\nkind: StatefulSet\n{here}\nspec:\n  serviceName: s\n  {pod}\n  \
                 volumeClaimTemplates: [{{metadata: {{name: data}}, spec: {claim}}}]\n"
            ),
            "Namespace" => {
                let space = format!("{namespace}-{own}");
                let inside = format!("metadata: {{name: inside, namespace: \"{space}\"}}");
                let head = metadata(&space);
                format!("apiVersion: v1\nkind: Namespace\n{head}\n---\napiVersion: v1\nkind: ConfigMap\n{inside}\n")
            }
            _ => {
                let (group, plural) = (format!("{namespace}.example.com"), format!("{}s", self.name));
                let head = metadata(&format!("{plural}.{group}"));
                format!(
                    "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n{head}\nspec:\n  group: {group}\n  \
                     names: {{kind: {}, plural: {plural}}}\n  scope: Namespaced\n  versions:\n  - name: v1\n    served: true\n    \
                     storage: true\n    schema: {{openAPIV3Schema: {{type: object}}}}\n",
                    self.name.to_uppercase().replace('-', "")
                )
            }
        };
        match self.is_conditional {
            true => format!("{{{{ if has \"{}\" .Values.global.on }}}}\n{body}{{{{ end }}}}\n", self.name),
            false => body,
        }
    }
}

impl Release {
    fn random(seed: u64) -> (Self, Self) {
        let mut random = Random::new(seed);
        let templates: Vec<Template> = (0..3 + random.below(5)).map(|at| Template::random(&mut random, at)).collect();
        let on = templates.iter().filter(|_| !random.one_in(4)).map(|template| template.name.clone()).collect();
        let before = Self {
            namespace: format!("rc-{seed}"),
            templates,
            chart_version: "1.0.0",
            on,
            prefix: "a-",
            subchart: true,
            disables_hooks: random.one_in(6),
        };
        let mut after = before.clone();
        let (changes_chart, changes_values) = [(true, false), (false, true), (true, true)][random.below(3)];
        if changes_chart {
            after.chart_version = "2.0.0";
            for _ in 0..=random.below(3) {
                match random.below(4) {
                    0 => after.templates.push(Template::random(&mut random, 10 + after.templates.len())),
                    1 if after.templates.len() > 1 => {
                        let at = random.below(after.templates.len());
                        after.templates.remove(at);
                    }
                    _ => {
                        let at = random.below(after.templates.len());
                        after.templates[at].change(&mut random);
                    }
                }
            }
        }
        if changes_values {
            match random.below(4) {
                0 => after.prefix = "b-",
                1 => after.subchart = false,
                _ => after.on.retain(|_| random.one_in(2)),
            }
        }
        (before, after)
    }

    fn values(&self) -> String {
        let on: Vec<&str> = self.on.iter().map(String::as_str).collect();
        let (on, prefix) = (on.join(", "), self.prefix);
        format!("{{global: {{on: [{on}]}}, prefix: {prefix}, sub: {{enabled: {}, prefix: {prefix}}}}}", self.subchart)
    }

    fn write(&self, tree: &Path) {
        let _ = fs::remove_dir_all(tree.join("chart"));
        let sub = tree.join("chart/charts/sub");
        fs::create_dir_all(sub.join("templates")).unwrap();
        fs::create_dir_all(tree.join("chart/templates")).unwrap();
        fs::write(sub.join("Chart.yaml"), "apiVersion: v2\nname: sub\nversion: 1.0.0\n").unwrap();
        let about = format!(
            "apiVersion: v2\nname: app\ndependencies: [{{name: sub, version: 1.0.0, condition: sub.enabled}}]\nversion: {}\n",
            self.chart_version
        );
        fs::write(tree.join("chart/Chart.yaml"), about).unwrap();
        for (at, template) in self.templates.iter().enumerate() {
            let base = if template.is_in_subchart { &sub } else { &tree.join("chart") };
            fs::write(base.join(format!("templates/{at}.yaml")), template.text(&self.namespace)).unwrap();
        }
        let hooks = if self.disables_hooks { ", disableHooks: true" } else { "" };
        let release = format!(
            "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: app, namespace: {}}}\nspec:\n  interval: 1h\n  \
             timeout: 20s\n  chart: {{spec: {{chart: ./chart, interval: 1h, sourceRef: {{kind: GitRepository, name: src}}}}}}\n  \
             install: {{disableWait: true}}\n  upgrade: {{disableWait: true{hooks}}}\n  values: {}\n",
            self.namespace,
            self.values()
        );
        fs::write(tree.join("app.yaml"), release).unwrap();
        fs::write(tree.join("kustomization.yaml"), "resources: [app.yaml]\n").unwrap();
    }
}

/// Waits until helm-controller has tried this version of the chart at the newest generation. Returns the message of a
/// failure.
fn tried(cluster: &Cluster, namespace: &str, version: &str) -> Option<String> {
    let path = "jsonpath={.metadata.generation}|{.status.observedGeneration}|{.status.lastAttemptedGeneration}|\
                {.status.lastAttemptedRevision}|{.status.conditions[?(@.type==\"Ready\")].status}|\
                {.status.conditions[?(@.type==\"Ready\")].message}";
    let mut failure = None;
    let probe = || {
        let found = cluster.kubectl(&["get", "helmrelease", "app", "-n", namespace, "-o", path])?;
        let parts: Vec<&str> = found.splitn(6, '|').collect();
        failure = parts.last().filter(|_| parts[4] != "True").map(|message| (*message).to_owned());
        let is_newest = parts[0] == parts[1] && parts[0] == parts[2];
        Ok(is_newest && parts[3].starts_with(version) && ["True", "False"].contains(&parts[4]))
    };
    cluster.wait_for(&format!("the attempt of {version} in {namespace}"), LIMIT, probe).unwrap();
    failure
}

/// Plan for one release.
struct Planned {
    /// Reason why the effect is not known.
    unknown: Option<String>,
    /// Action by uid, and true if it is certain.
    rows: BTreeMap<String, (String, bool)>,
}

fn read_plan(document: &Value) -> Planned {
    let owners = document["owners"].as_array().unwrap();
    let rows = document["changes"].as_array().unwrap().iter().map(|row| {
        let text = |pointer: &str| row.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        (text("/object/uid"), (text("/action"), row["certainty"] == "certain"))
    });
    Planned {
        unknown: owners.iter().find(|row| row["outcome"] == "unknown").map(reason),
        rows: rows.filter(|(_, (action, _))| ["delete", "recreate"].contains(&&**action)).collect(),
    }
}

/// Figures over all releases.
#[derive(Default)]
struct Total {
    releases: usize,
    unknown: usize,
    refused: usize,
    rows: usize,
    races: usize,
    gone: usize,
}

fn play(seeds: impl Iterator<Item = u64>, total: &mut Total) -> Vec<String> {
    let cluster = &Cluster::up(Options { flux: Flux::All, ..Options::default() }).expect("the test cluster comes up");
    // The test gives HelmCharts their artifacts.
    cluster.stop("source-controller").unwrap();
    let cases: Vec<(Release, Release)> = seeds.map(Release::random).collect();
    let trees: Vec<PathBuf> = cases.iter().map(|(before, _)| folder(&format!("tree-{}", before.namespace))).collect();
    for ((before, _), tree) in cases.iter().zip(&trees) {
        before.write(tree);
        init(tree);
        test_support::flux::deploy(cluster, &before.namespace, tree);
        publish_chart(cluster, &before.namespace, tree);
    }
    // Helm refuses some charts, such as an object in a Namespace that a hook creates later.
    let installed: Vec<bool> =
        cases.iter().map(|(before, _)| tried(cluster, &before.namespace, before.chart_version).is_none()).collect();
    let kept = || installed.iter().copied();
    let trees: Vec<PathBuf> = trees.into_iter().zip(kept()).filter(|(_, kept)| *kept).map(|(tree, _)| tree).collect();
    let cases: Vec<_> = cases.into_iter().zip(kept()).filter(|(_, kept)| *kept).map(|(case, _)| case).collect();
    std::thread::sleep(Duration::from_secs(4));
    let live = objects(cluster);
    let helm = format!("--helm={}", bin("helm").display());
    let mut plans: BTreeMap<&str, Planned> = BTreeMap::new();
    for ((_, after), tree) in cases.iter().zip(&trees) {
        after.write(tree);
        let run = plan(cluster, &after.namespace, tree, &[&helm]);
        plans.insert(&after.namespace, read_plan(&document(&run)));
    }
    for ((before, after), tree) in cases.iter().zip(&trees) {
        let status = Command::new("git").arg("-C").arg(tree).args(["status", "--porcelain"]).output().unwrap();
        if status.stdout.is_empty() {
            continue;
        }
        commit(tree);
        let revision = cluster.publish(&format!("GitRepository/{}/src", after.namespace), tree).unwrap();
        applied(cluster, &after.namespace, "apps", &revision);
        if before.chart_version != after.chart_version {
            publish_chart(cluster, &after.namespace, tree);
        }
    }
    let mut failed = BTreeMap::new();
    for (_, after) in &cases {
        if let Some(message) = tried(cluster, &after.namespace, after.chart_version) {
            failed.insert(after.namespace.as_str(), message);
        }
    }
    std::thread::sleep(Duration::from_secs(10));
    let end = objects(cluster);
    let identities: BTreeSet<&String> = end.values().collect();
    let mut wrong = vec![];
    for (namespace, planned) in &plans {
        total.releases += 1;
        total.unknown += usize::from(planned.unknown.is_some());
        total.refused += usize::from(failed.contains_key(namespace));
        total.rows += planned.rows.len();
        total.races += planned.rows.values().filter(|(_, is_certain)| !is_certain).count();
        // Objects in the namespaces of a release are those of its own plan.
        let is_own = |what: &str| {
            what.contains(&format!("/{namespace}/"))
                || what.contains(&format!("{namespace}-"))
                || what.contains(&format!(".{namespace}.example.com"))
        };
        for (uid, what) in live.iter().filter(|(_, what)| is_own(what)) {
            let is_gone = !end.contains_key(uid);
            total.gone += usize::from(is_gone);
            let failure = failed.get(namespace).map_or_else(String::new, |message| format!(" ({message})"));
            let mut report = |text: String| wrong.push(format!("{namespace}: {what} {text}{failure}"));
            match planned.rows.get(uid) {
                None if is_gone && planned.unknown.is_none() => report("is gone and was not planned".to_owned()),
                Some((action, true)) if !is_gone => report(format!("is there although planned: {action}")),
                Some((action, true)) if action == "recreate" && !identities.contains(what) => {
                    report("was not created again".to_owned());
                }
                Some((action, true)) if action == "delete" && identities.contains(what) => {
                    report("was created again".to_owned());
                }
                _ => {}
            }
        }
    }
    wrong
}

#[test]
fn random_upgrades_delete_what_was_planned() {
    ensure(&["helm"]).unwrap();
    let (releases, first) = (number("RANDOM_CHARTS", 6), number("SEED", 1));
    let mut total = Total::default();
    let mut wrong = vec![];
    for batch in (first..first + releases).collect::<Vec<_>>().chunks(BATCH) {
        wrong.extend(play(batch.iter().map(|seed| *seed as u64), &mut total));
        let mut figures = String::new();
        let Total { releases, unknown, refused, rows, races, gone } = &total;
        write!(figures, "{releases} releases, {unknown} unknown, {refused} refused or failed; ").unwrap();
        write!(figures, "{rows} deletions planned, {races} of them races; {gone} objects gone; {} wrong", wrong.len())
            .unwrap();
        say(&figures);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
