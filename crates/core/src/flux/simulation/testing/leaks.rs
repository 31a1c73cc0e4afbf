//! Random repositories in which a value of a Secret reaches every field that a plan reads, to prove that no output shows it.
//!
//! The same change is planned twice: with the value of the Secret, and with a value of a ConfigMap in its place. The second
//! one must be shown, or the search for the first one proves nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::cluster::{Files, NS, TestCluster, artifact, cm, finished, ks};
use crate::flux::build;
use crate::flux::handover::{left_over, losses};
use crate::flux::simulation::questions::{Answers, FinishedPreview, Progress};
use crate::flux::simulation::{Declared, Preview, StateAfter};
use crate::kubernetes::object::{ObjectId, merge};
use crate::kubernetes::snapshot::Snapshot;
use crate::plan::contradictions::contradictions;
use crate::plan::finished::FinishedPlan;
use crate::testing::Dice;
use crate::text::hex;

/// Number of characters of a form of the value that no output may show.
const PREFIX: usize = 6;

/// Plan of a change, with the cluster.
pub struct Planned {
    pub plan: FinishedPlan,
    pub snapshot: Snapshot,
    /// Plan of a second step, which takes the change back.
    pub back: FinishedPlan,
    /// What the searches of `handover` and `--why-gone` read of both steps, as they write it.
    pub searches: String,
}

/// A change that is planned with a secret value, with another secret value, and with a public one in its place.
pub struct LeakCase {
    pub secret: String,
    pub private: Planned,
    /// The plan with another secret value: no output may differ. `None` if they differ by what is documented, or because the
    /// answers of the server depend on the length.
    pub twin: Option<Planned>,
    pub public_value: String,
    pub public: Planned,
    /// The cluster has the value already, and the change removes it.
    pub is_live: bool,
    /// Names of the ways on which the value reaches the plan.
    pub ways: Vec<&'static str>,
}

/// Answers of the API server of a case to dry-runs.
#[derive(Clone, Copy, PartialEq)]
enum Server {
    Accepts,
    /// It quotes some manifests in refusals.
    QuotesSome,
    /// It quotes each manifest that holds the value in a refusal.
    QuotesValues,
    /// It accepts everything, and the plan has the differences to the live objects.
    Compares,
    /// It refuses the change of each live object, and quotes it.
    QuotesLive,
}

/// Files of the change, before and after it.
struct Change {
    before: Vec<Value>,
    after: Vec<Value>,
    /// Files of a Kustomization in `child`.
    child: Vec<Value>,
    /// Templates of the chart of the release, before and after.
    templates: [Vec<Value>; 2],
}

/// A way on which a value reaches a plan: its name, and what it writes for an expression that stands for the value.
type Way = (&'static str, fn(&mut Change, &str));

impl LeakCase {
    /// Makes the case with a number. Cases with the same number are equal.
    pub fn new(number: u64) -> Self {
        let mut dice = Dice(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let count = ways().len();
        let first = number as usize % count;
        let mut chosen = vec![first];
        if dice.roll(2) > 0 {
            chosen.push(dice.roll(count));
        }
        let form = FORMS[dice.roll(FORMS.len())];
        let is_before = dice.one_in(3);
        let server = [Server::Accepts, Server::Accepts, Server::QuotesSome, Server::QuotesValues][dice.roll(4)];
        Self::of(&mut dice, &chosen, form, is_before, server)
    }

    /// Makes the case of a number, in which live objects hold the value, and answers of the API server quote them.
    pub fn of_live(number: u64) -> Self {
        let mut dice = Dice(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 1);
        let chosen = [number as usize % ways().len(), dice.roll(ways().len())];
        let chosen = &chosen[..1 + dice.roll(2)];
        let form = FORMS[dice.roll(FORMS.len())];
        let server = if dice.one_in(3) { Server::QuotesLive } else { Server::Compares };
        let is_before = !dice.one_in(4);
        Self::of(&mut dice, chosen, form, is_before, server)
    }

    /// Makes the cases with one way: the API server accepts everything, or says what it makes of each object, or it quotes what
    /// holds the value. In one of them the value must reach an output; that of the second case is a name that every field accepts.
    pub fn of_way(way: usize) -> [Self; 3] {
        [(Server::Accepts, &ENDINGS[..]), (Server::Compares, &[""]), (Server::QuotesValues, &ENDINGS)]
            .map(|(server, endings)| Self::with(&mut Dice(way as u64 + 1), &[way], "${VALUE}", false, server, endings))
    }

    /// Makes the cases in which the cluster has the value already on two ways, in a form: one for each behaviour of the API server.
    #[cfg(test)]
    pub(crate) fn of_deployed(ways: [usize; 2], form: usize) -> [Self; 4] {
        [Server::Accepts, Server::Compares, Server::QuotesSome, Server::QuotesValues]
            .map(|server| Self::of(&mut Dice(ways[0] as u64 + 1), &ways, FORMS[form], true, server))
    }

    fn of(dice: &mut Dice, chosen: &[usize], form: &str, is_before: bool, server: Server) -> Self {
        Self::with(dice, chosen, form, is_before, server, &ENDINGS)
    }

    /// Makes a case whose values may end with one of these texts.
    fn with(dice: &mut Dice, chosen: &[usize], form: &str, is_before: bool, server: Server, endings: &[&str]) -> Self {
        let all = ways();
        let letters = b"bcdfghjklmnpqrstvwxz";
        // A password can be no YAML, and formats escape its signs. Its beginning is searched for.
        let ending = endings[if dice.one_in(3) { dice.roll(endings.len()) } else { 0 }];
        let [secret, other, public_value] = [(); 3].map(|()| word(dice, letters) + ending);
        let planned = |variable: &str, secret: &str| {
            let mut change = Change::new();
            for way in chosen {
                (all[*way].1)(&mut change, &form.replace("VALUE", variable));
            }
            // The cluster has the value already, and the change removes it or changes something beside it.
            if is_before {
                std::mem::swap(&mut change.before, &mut change.after);
                change.templates.swap(0, 1);
            }
            planned(&change, secret, &public_value, server)
        };
        let (private, public) = (planned("PASSWORD", &secret), planned("OPEN", &secret));
        // The mask of a letter tells it (docs/safety.md, secrets of the cluster). A server that refuses manifests with the value
        // accepts those with a changed form, which a value without the letter does not have.
        let is_accepted_alike = matches!(server, Server::Accepts | Server::Compares | Server::QuotesLive)
            || (server == Server::QuotesValues && form != CHANGED);
        // A name that begins or ends with what the changed form writes is not valid.
        let is_cut = |value: &str| form == CHANGED && (value.starts_with('b') || value.ends_with('b'));
        let is_alike = is_accepted_alike && form != LETTER && is_cut(&secret) == is_cut(&other);
        let twin = is_alike.then(|| planned("PASSWORD", &other));
        let ways: Vec<&str> = chosen.iter().map(|way| all[*way].0).collect();
        let is_live = is_before || ways.iter().any(|way| way.starts_with("removed"));
        Self { secret, private, twin, public_value, public, is_live, ways }
    }

    /// Returns true if the way leads to an output: the plans with the public value in place of the secret one show it where
    /// the plans with the secret one do not.
    pub fn shows_the_public_value(&self) -> bool {
        let texts = [&self.public, &self.private].map(|planned| {
            let plans =
                [&planned.plan, &planned.back].map(|plan| serde_json::to_string_pretty(plan).unwrap_or_default());
            plans.join("\n") + &planned.searches
        });
        let fixed: BTreeSet<&str> = texts[1].lines().collect();
        let forms = forms(&self.public_value);
        let mut more = texts[0].lines().filter(|line| !fixed.contains(line));
        more.any(|line| forms.iter().any(|form| line.contains(form.as_str())))
    }

    /// Returns the number of ways.
    pub fn number_of_ways() -> usize {
        ways().len()
    }

    /// Returns the texts that no output may hold: forms of the secret value and their beginnings. What the names of live
    /// objects show already is left out.
    pub fn forbidden(&self) -> BTreeSet<String> {
        let ids = self.private.snapshot.ids();
        let shown: Vec<String> =
            ids.map(|id| format!("{} {} {} {}", id.group, id.kind, id.namespace, id.name)).collect();
        let mut forms = forms(&self.secret);
        forms.retain(|form| !shown.iter().any(|name| name.contains(form.as_str())));
        forms
    }
}

/// Ends of values in random cases.
const ENDINGS: [&str; 7] = ["", "\"&<'>|`", ": [", " #}}", "%2F+/=", "\\n{{ . }}", "\n- x: y"];

/// Expressions of envsubst for a variable.
const FORMS: [&str; 13] = [
    "${VALUE}",
    "${VALUE}",
    "x-${VALUE}",
    "${VALUE}-y",
    "${VALUE^^}",
    "${UNSET:-${VALUE}}",
    "${VALUE:0:8}",
    "${VALUE/zzz/y}",
    "a.${VALUE}.b",
    // Pieces that are too short to be searched for: the plan must not depend on them.
    "${VALUE:0:5}-x-${VALUE:5}",
    CHANGED,
    // The length and the first letter are parts of the value too.
    "n${#VALUE}",
    LETTER,
];

/// Expression that changes some values and leaves others as they are.
const CHANGED: &str = "${VALUE//b/-}";

/// Expression for the first letter of a variable.
const LETTER: &str = "${VALUE:0:1}";

/// Returns a word of letters that no other text has.
fn word(dice: &mut Dice, letters: &[u8]) -> String {
    let length = 12 + dice.roll(9);
    (0..length).map(|_| char::from(letters[dice.roll(letters.len())])).collect()
}

/// Returns the forms of a value, and the beginning of each.
pub fn forms(value: &str) -> BTreeSet<String> {
    let reversed: String = value.chars().rev().collect();
    let mut found = vec![value.to_owned(), value.to_uppercase(), reversed, hex(value.as_bytes())];
    found.push(hex(value.as_bytes()).to_uppercase());
    for engine in [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
        found.extend([engine.encode(value), engine.encode(value.to_uppercase())]);
    }
    let beginnings: Vec<String> = found
        .iter()
        .map(|form| {
            // A few hexadecimal digits occur in every digest.
            let is_hex = form.bytes().all(|byte| byte.is_ascii_hexdigit());
            form.chars().take(if is_hex { 2 * PREFIX } else { PREFIX }).collect()
        })
        .collect();
    found.extend(beginnings);
    found.into_iter().collect()
}

fn flux_object(api_version: &str, kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": NS}, "spec": spec})
}

fn release(name: &str, more: Value) -> Value {
    let chart = json!({"spec": {"chart": "./charts/app", "sourceRef": {"kind": "GitRepository", "name": "repo"}}});
    let mut spec = json!({"chart": chart, "interval": "1m"});
    merge(&mut spec, &more);
    flux_object("helm.toolkit.fluxcd.io/v2", "HelmRelease", name, spec)
}

fn set(name: &str, more: Value) -> Value {
    let mut spec = json!({"inputs": [{"n": "one"}], "resources": [cm("set-<< inputs.n >>")]});
    merge(&mut spec, &more);
    flux_object("fluxcd.controlplane.io/v1", "ResourceSet", name, spec)
}

fn source(kind: &str, name: &str, spec: Value) -> Value {
    flux_object("source.toolkit.fluxcd.io/v1", kind, name, spec)
}

impl Change {
    fn new() -> Self {
        let same = vec![
            cm("open-${OPEN}"),
            release("app", json!({"values": {"color": "blue"}})),
            set("set", json!({})),
            source("GitRepository", "repo", json!({"url": "https://example.com/repo"})),
            source("GitRepository", "other", json!({"url": "https://example.com/other"})),
            source("HelmRepository", "charts", json!({"url": "https://charts.example.com"})),
            ks("child", "./child", json!({})),
            ks("elsewhere", "./x", json!({"sourceRef": {"kind": "GitRepository", "name": "other"}})),
            flux_object(
                "source.extensions.fluxcd.io/v1beta1",
                "ArtifactGenerator",
                "gen",
                json!({"sources": [{"alias": "repo", "kind": "GitRepository", "name": "repo"}],
                    "artifacts": [{"name": "made", "copy": [{"from": "@repo/child", "to": "@artifact/"}]}]}),
            ),
            flux_object(
                "fluxcd.controlplane.io/v1",
                "FluxInstance",
                "flux",
                json!({"distribution": {"version": "2.x", "registry": "ghcr.io/fluxcd"}, "sync": {"kind": "GitRepository",
                    "url": "https://example.com/repo", "ref": "refs/heads/main", "path": "./root", "name": "other"}}),
            ),
        ];
        let mut after = same.clone();
        // Something that is not secret always changes: it must be shown.
        after.push(cm("new-${OPEN}"));
        let templates = vec![cm("web"), cm("extra")];
        Self { before: same, after, child: vec![cm("of-child")], templates: [templates.clone(), templates] }
    }

    /// Changes the fields of an object after the change.
    fn change(&mut self, kind: &str, name: &str, more: Value) {
        let mut found =
            self.after.iter_mut().filter(|object| object["kind"] == kind && object["metadata"]["name"] == name);
        // Another way may have removed it.
        if let Some(object) = found.next() {
            merge(object, &more);
        }
    }

    fn release(&mut self, spec: Value) {
        self.change("HelmRelease", "app", json!({ "spec": spec }));
    }

    fn set(&mut self, spec: Value) {
        self.change("ResourceSet", "set", json!({ "spec": spec }));
    }

    fn child(&mut self, spec: Value) {
        self.change("Kustomization", "child", json!({ "spec": spec }));
    }

    fn chart(&mut self, spec: Value) {
        self.release(json!({"chart": {"spec": spec}}));
    }

    fn template(&mut self, manifest: Value) {
        self.templates[1].push(manifest);
    }

    fn add(&mut self, object: Value) {
        self.after.push(object);
    }
}

/// Returns the ways of fields of HelmReleases.
fn release_ways() -> Vec<Way> {
    vec![
        ("valuesFrom.name", |c, e| c.release(json!({"valuesFrom": [{"kind": "ConfigMap", "name": e}]}))),
        ("valuesFrom.name of a Secret", |c, e| c.release(json!({"valuesFrom": [{"kind": "Secret", "name": e}]}))),
        ("valuesFrom.kind", |c, e| c.release(json!({"valuesFrom": [{"kind": e, "name": "open"}]}))),
        ("valuesKey", |c, e| {
            c.release(json!({"valuesFrom": [{"kind": "ConfigMap", "name": "open", "valuesKey": e}]}));
        }),
        ("targetPath", |c, e| {
            let entry =
                json!({"kind": "ConfigMap", "name": "open", "valuesKey": "OPEN", "targetPath": format!("{e}[0]")});
            c.release(json!({ "valuesFrom": [entry] }));
        }),
        ("key of spec", |c, e| c.release(json!({ e: {"a": 1} }))),
        ("chart", |c, e| c.chart(json!({"chart": format!("./charts/{e}")}))),
        ("chart that leaves the source", |c, e| c.chart(json!({"chart": format!("../../{e}")}))),
        ("valuesFiles", |c, e| c.chart(json!({"valuesFiles": [format!("{e}.yaml")]}))),
        ("chart version", |c, e| c.chart(json!({"version": e}))),
        ("chart of a repository", |c, e| {
            c.chart(json!({"chart": e, "version": "1", "sourceRef": {"kind": "HelmRepository", "name": "charts"}}));
        }),
        ("version of a repository", |c, e| {
            c.chart(json!({"chart": "app", "version": e, "sourceRef": {"kind": "HelmRepository", "name": "charts"}}));
        }),
        ("sourceRef.name", |c, e| c.chart(json!({"sourceRef": {"name": e}}))),
        ("sourceRef.namespace", |c, e| c.chart(json!({"sourceRef": {"namespace": e}}))),
        ("sourceRef.kind", |c, e| c.chart(json!({"sourceRef": {"kind": e}}))),
        ("chartRef", |c, e| c.release(json!({"chart": null, "chartRef": {"kind": "OCIRepository", "name": e}}))),
        ("chartRef.kind", |c, e| c.release(json!({"chart": null, "chartRef": {"kind": e, "name": "a"}}))),
        ("releaseName", |c, e| c.release(json!({"releaseName": e}))),
        ("targetNamespace", |c, e| c.release(json!({"targetNamespace": e}))),
        ("storageNamespace", |c, e| c.release(json!({"storageNamespace": e}))),
        ("release dependsOn", |c, e| c.release(json!({"dependsOn": [{"name": e}], "values": {"color": "red"}}))),
        ("release dependsOn and template", |c, e| {
            c.release(json!({"dependsOn": [{"name": "other", "namespace": e}], "chart": {"spec": {"reconcileStrategy": "Revision"}}}));
            c.templates[1].remove(1);
        }),
        ("release readyExpr", |c, e| {
            c.release(json!({"dependsOn": [{"name": "app2", "readyExpr": format!("dep.x == '{e}'")}]}));
        }),
        ("release kubeConfig", |c, e| c.release(json!({"kubeConfig": {"secretRef": {"name": e}}}))),
        ("release serviceAccountName", |c, e| {
            c.release(json!({"serviceAccountName": e, "values": {"off": ["extra.yaml"]}}))
        }),
        ("release annotation", |c, e| {
            c.change("HelmRelease", "app", json!({"metadata": {"annotations": {"reconcile.fluxcd.io/forceAt": e}}}));
        }),
        ("suspended release", |c, e| c.release(json!({"suspend": true, "values": {e: 1}}))),
        ("postRenderers", |c, e| {
            let patch = format!("[{{\"op\": \"remove\", \"path\": \"/metadata/{e}\"}}]");
            let patches = json!([{"patch": patch, "target": {"kind": "ConfigMap", "name": e}}]);
            c.release(json!({ "postRenderers": [{"kustomize": {"patches": patches}}] }));
        }),
        ("key of values", |c, e| c.release(json!({"values": {e: {"a": 1}}}))),
        ("values in a name", |c, e| {
            c.release(json!({"values": {"n": e}, "chart": {"spec": {"reconcileStrategy": "Revision"}}}));
            c.template(cm("d-{{ .Values.n }}"));
        }),
        ("values in a name twice", |c, e| {
            c.release(json!({"values": {"n": e}, "chart": {"spec": {"reconcileStrategy": "Revision"}}}));
            c.template(cm("d-{{ .Values.n }}"));
            c.template(cm("d-{{ .Values.n }}"));
            c.templates[1].remove(1);
        }),
        ("base64 of values twice", |c, e| {
            c.release(json!({"values": {"n": e}, "chart": {"spec": {"reconcileStrategy": "Revision"}}}));
            c.template(cm("{{ .Values.n | b64enc }}"));
            c.template(cm("{{ .Values.n | b64enc }}"));
            c.templates[1].remove(1);
        }),
        ("values in a kind", |c, e| {
            c.release(json!({"values": {"n": e}, "chart": {"spec": {"reconcileStrategy": "Revision"}}}));
            c.template(json!({"apiVersion": "{{ .Values.n }}/v1", "kind": "{{ .Values.n | upper }}", "metadata": {"name": "a"}}));
            c.templates[1].remove(1);
        }),
        ("values of a Secret in a name", |c, e| {
            let (kind, name) = if e.contains("OPEN") { ("ConfigMap", "open-values") } else { ("Secret", "values") };
            // The live release reads it, so that it is read here too.
            let spec = json!({"valuesFrom": [{"kind": kind, "name": name}], "chart": {"spec": {"reconcileStrategy": "Revision"}}});
            for object in c.before.iter_mut().filter(|object| object["kind"] == "HelmRelease") {
                merge(object, &json!({ "spec": spec }));
            }
            c.release(spec);
            c.template(cm("s-{{ .Values.n }}"));
            c.template(cm("{{ .Values.n | hex }}"));
        }),
        ("message of a chart", |c, e| {
            c.release(json!({"values": {"n": e}, "chart": {"spec": {"reconcileStrategy": "Revision"}}}));
            c.template(cm("fail {{ .Values.n }}"));
        }),
        ("laundry in values", |c, e| {
            let mut data = cm("laundry-values");
            data["data"] = json!({"values.yaml": format!("n: {e}")});
            c.add(data);
            let entry = json!({"kind": "ConfigMap", "name": "laundry-values"});
            c.release(json!({"valuesFrom": [entry], "chart": {"spec": {"reconcileStrategy": "Revision"}}}));
            c.template(cm("q-{{ .Values.n }}"));
            c.templates[1].remove(1);
        }),
        ("order of names", |c, e| {
            c.add(cm(&format!("{e}-1")));
            c.add(cm("h-1"));
            c.add(cm(&format!("h-{e}")));
            c.add(cm("t-1"));
        }),
        ("new release", |c, e| c.add(release(e, json!({"targetNamespace": e, "values": {"a": e}})))),
        ("removed release", |c, e| {
            c.after.retain(|object| object["kind"] != "HelmRelease");
            c.before.retain(|object| object["kind"] != "HelmRelease");
            c.before.push(release("app", json!({"kubeConfig": {"secretRef": {"name": e}}, "serviceAccountName": e})));
        }),
        ("commonMetadata", |c, e| c.release(json!({"commonMetadata": {"labels": {"a": e}, "annotations": {e: "b"}}}))),
        ("upgrade strategy", |c, e| c.release(json!({"upgrade": {"strategy": {"name": e}, "crds": e}}))),
        ("driftDetection", |c, e| c.release(json!({"driftDetection": {"ignore": [{"paths": [e]}]}}))),
    ]
}

/// Returns the ways of fields of ResourceSets and of the providers of their inputs.
fn set_ways() -> Vec<Way> {
    vec![
        ("input", |c, e| c.set(json!({"inputs": [{"n": e}]}))),
        ("base64 of an input", |c, e| {
            c.set(json!({"inputs": [{"n": e}], "resources": [cm("x-<< inputs.n | b64enc >>")]}));
        }),
        ("upper case of an input", |c, e| {
            let object = json!({"apiVersion": "a/v1", "kind": "<< inputs.n | upper >>", "metadata": {"name": "a", "namespace": NS}});
            c.set(json!({"inputs": [{"n": e}], "resources": [object]}));
        }),
        ("input in a namespace", |c, e| {
            let mut object = cm("a");
            object["metadata"]["namespace"] = "<< inputs.n | reverse >>".into();
            c.set(json!({"inputs": [{"n": e}], "resources": [object]}));
        }),
        ("input in hexadecimal", |c, e| {
            c.set(json!({"inputs": [{"n": e}], "resources": [cm("<< inputs.n | hex >>")]}))
        }),
        ("input in a new set", |c, e| {
            c.add(set("fresh", json!({"inputs": [{"n": e}], "resources": [cm("f-<< inputs.n >>")]})))
        }),
        ("input in a release", |c, e| {
            let values = json!([{"kind": "ConfigMap", "name": "<< inputs.n >>"}]);
            let app = release("from-set", json!({ "valuesFrom": values }));
            c.set(json!({"inputs": [{"n": e}], "resources": [app]}));
        }),
        ("input in a Kustomization", |c, e| {
            c.set(json!({"inputs": [{"n": e}], "resources": [ks("<< inputs.n >>", "./<< inputs.n >>", json!({}))]}));
        }),
        ("input in a path", |c, e| {
            c.set(json!({"inputs": [{"n": e}], "resources": [ks("from-set", "./<< inputs.n >>", json!({}))]}));
        }),
        ("input in variables", |c, e| {
            let variables = json!({"postBuild": {"substitute": {"V": "<< inputs.n >>"}}});
            c.set(json!({"inputs": [{"n": e}], "resources": [ks("from-set", "./child", variables)]}));
            c.child.push(cm("v-${V}"));
        }),
        ("input in data", |c, e| {
            let mut data = cm("laundry-set");
            data["data"] = json!({"V": "<< inputs.n >>"});
            c.set(json!({"inputs": [{"n": e}], "resources": [data]}));
            let from = json!([{"kind": "ConfigMap", "name": "laundry-set", "optional": true}]);
            c.child(json!({"postBuild": {"substituteFrom": from}}));
            c.child.push(cm("v-${V}"));
        }),
        ("input that no template knows", |c, e| c.set(json!({"resources": [cm(&format!("<< inputs.{e} >>"))]}))),
        ("name of a template", |c, e| c.set(json!({"resources": [cm(&format!("{e}-<< inputs.n >>"))]}))),
        ("template that is no YAML", |c, e| c.set(json!({"inputs": [{"n": format!("{e}\": [}}")}]}))),
        ("inputsFrom", |c, e| c.set(json!({"inputsFrom": [{"kind": "ResourceSetInputProvider", "name": e}]}))),
        ("inputsFrom selector", |c, e| c.set(json!({"inputsFrom": [{"selector": {"matchLabels": {e: e}}}]}))),
        ("set dependsOn", |c, e| {
            c.set(json!({"dependsOn": [{"kind": e, "name": e}], "inputs": [{"n": "two"}]}));
        }),
        ("set serviceAccountName", |c, e| c.set(json!({"serviceAccountName": e, "inputs": [{"n": "two"}]}))),
        ("message of a set", |c, e| {
            c.set(json!({"inputs": [{"n": e}], "resources": [cm("<< inputs.n >>-<< inputs.unset >>")]}));
        }),
        ("copyFrom", |c, e| {
            let mut object = cm("copy");
            object["metadata"]["annotations"]["fluxcd.controlplane.io/copyFrom"] = format!("{NS}/{e}").into();
            c.set(json!({"resources": [object]}));
        }),
        ("forced set", |c, e| {
            let force = json!({"metadata": {"annotations": {"fluxcd.controlplane.io/force": "enabled"}}});
            c.change("ResourceSet", "set", force);
            let mut object = cm("set-one");
            object["data"] = json!({"a": e});
            c.set(json!({"resources": [object]}));
        }),
        ("provider", |c, e| {
            let values = json!({"type": "Static", "defaultValues": {"n": e}});
            c.add(flux_object("fluxcd.controlplane.io/v1", "ResourceSetInputProvider", "inputs", values));
            c.set(json!({"inputsFrom": [{"kind": "ResourceSetInputProvider", "name": "inputs"}]}));
        }),
        ("key of a provider", |c, e| {
            let values = json!({"type": "Static", "defaultValues": {e: "a"}});
            c.add(flux_object("fluxcd.controlplane.io/v1", "ResourceSetInputProvider", "inputs", values));
            c.set(json!({"inputsFrom": [{"kind": "ResourceSetInputProvider", "name": "inputs"}]}));
        }),
        ("provider of a live set", |c, e| {
            let provider = |value: &str| {
                let values = json!({"type": "Static", "defaultValues": {"n": value}});
                flux_object("fluxcd.controlplane.io/v1", "ResourceSetInputProvider", "inputs", values)
            };
            let from = json!([{"kind": "ResourceSetInputProvider", "name": "inputs"}]);
            c.set(json!({ "inputsFrom": from }));
            for object in c.before.iter_mut().filter(|object| object["kind"] == "ResourceSet") {
                object["spec"]["inputsFrom"] = from.clone();
            }
            c.before.push(provider("two"));
            c.add(provider(e));
        }),
        ("provider with labels", |c, e| {
            let values = json!({"type": "Static", "defaultValues": {"n": e}});
            let mut provider = flux_object("fluxcd.controlplane.io/v1", "ResourceSetInputProvider", e, values);
            provider["metadata"]["labels"] = json!({"a": e});
            c.add(provider);
            c.set(json!({"inputsFrom": [{"selector": {"matchLabels": {"a": e}}}]}));
        }),
        ("set in steps", |c, e| c.set(json!({"resources": null, "steps": [{"name": e, "resources": [cm(e)]}]}))),
        ("removed set", |c, e| {
            c.after.retain(|object| object["kind"] != "ResourceSet");
            c.before.retain(|object| object["kind"] != "ResourceSet");
            c.before.push(set("set", json!({"serviceAccountName": e, "inputs": [{"n": e}]})));
        }),
    ]
}

/// Returns the ways of fields of Kustomizations.
fn kustomization_ways() -> Vec<Way> {
    vec![
        ("path", |c, e| c.child(json!({"path": format!("./{e}")}))),
        ("dependsOn", |c, e| c.child(json!({"dependsOn": [{"name": e, "namespace": e}]}))),
        ("readyExpr", |c, e| c.child(json!({"dependsOn": [{"name": "apps", "readyExpr": format!("dep.{e} == 1")}]}))),
        ("child targetNamespace", |c, e| c.child(json!({"targetNamespace": e}))),
        ("child sourceRef", |c, e| c.child(json!({"sourceRef": {"name": e}}))),
        ("source of another kind", |c, e| c.child(json!({"sourceRef": {"kind": e}}))),
        ("patches", |c, e| c.child(json!({"patches": [{"patch": e}]}))),
        ("components", |c, e| c.child(json!({"components": [format!("../{e}")]}))),
        ("images", |c, e| c.child(json!({"images": [{"name": e, "newTag": e}]}))),
        ("healthChecks", |c, e| c.child(json!({"healthChecks": [{"apiVersion": "v1", "kind": e, "name": e}]}))),
        ("healthCheckExprs", |c, e| {
            c.child(json!({"healthCheckExprs": [{"apiVersion": "v1", "kind": "A", "current": format!("{e} ==")}]}));
        }),
        ("kubeConfig", |c, e| c.child(json!({"kubeConfig": {"secretRef": {"name": e}}}))),
        ("decryption", |c, e| c.child(json!({"decryption": {"provider": "sops", "secretRef": {"name": e}}}))),
        ("serviceAccountName", |c, e| c.child(json!({"serviceAccountName": e}))),
        ("substitute", |c, e| {
            c.child(json!({"postBuild": {"substitute": {"V": e}}}));
            c.child.push(cm("v-${V}"));
        }),
        ("key of substitute", |c, e| c.child(json!({"postBuild": {"substitute": {format!("{e}-"): "a"}}}))),
        ("substituteFrom", |c, e| {
            c.child(json!({"postBuild": {"substituteFrom": [{"kind": "ConfigMap", "name": e}]}}))
        }),
        ("laundry", |c, e| {
            let mut data = cm("laundry");
            data["data"] = json!({"V": e});
            c.add(data);
            c.child(json!({"postBuild": {"substituteFrom": [{"kind": "ConfigMap", "name": "laundry"}]}}));
            c.child.push(cm("l-${V}"));
            c.child.push(cm("l-${V^^}"));
        }),
        ("namePrefix", |c, e| c.child(json!({"namePrefix": e, "nameSuffix": e}))),
        ("child commonMetadata", |c, e| c.child(json!({"commonMetadata": {"labels": {e: e}, "annotations": {e: e}}}))),
        ("deletionPolicy", |c, e| c.child(json!({"deletionPolicy": e, "interval": e, "timeout": e}))),
        ("fields of another type", |c, e| c.child(json!({"suspend": e, "prune": e, "force": e, "wait": e}))),
        ("kubeConfig of a ConfigMap", |c, e| c.child(json!({"kubeConfig": {"configMapRef": {"name": e}}}))),
        ("laundry in a Secret", |c, e| {
            let mut data =
                json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "laundry", "namespace": NS}});
            data["stringData"] = json!({"V": e});
            c.add(data);
            c.child(json!({"postBuild": {"substituteFrom": [{"kind": "Secret", "name": "laundry"}]}}));
            c.child.push(cm("m-${V}"));
        }),
        ("new Kustomization", |c, e| c.add(ks(e, "./child", json!({})))),
        ("new Kustomization with a path", |c, e| c.add(ks("fresh", &format!("./{e}"), json!({})))),
        ("other Kustomization that depends", |c, e| {
            c.add(ks(e, "./none", json!({})));
            c.add(ks("dependent", "./child", json!({"dependsOn": [{"name": "child"}]})));
            c.child(json!({"dependsOn": [{"name": e}]}));
        }),
        ("Kustomization elsewhere", |c, e| {
            c.change("Kustomization", "elsewhere", json!({"spec": {"path": e, "targetNamespace": e}}));
        }),
        ("removed Kustomization", |c, e| {
            c.after.retain(|object| object["metadata"]["name"] != "child");
            c.before.retain(|object| object["metadata"]["name"] != "child");
            c.before.push(ks("child", "./child", json!({"serviceAccountName": e, "deletionPolicy": "Orphan"})));
        }),
    ]
}

/// Returns the ways of plain objects.
fn object_ways() -> Vec<Way> {
    vec![
        ("name", |c, e| c.add(cm(e))),
        ("name with other parts", |c, e| c.add(cm(&format!("db-{e}-1")))),
        ("namespace", |c, e| {
            let mut object = cm("a");
            object["metadata"]["namespace"] = e.into();
            c.add(object);
        }),
        ("kind", |c, e| {
            c.add(json!({"apiVersion": "v1", "kind": format!("Kind{e}"), "metadata": {"name": "a", "namespace": NS}}))
        }),
        ("apiVersion", |c, e| {
            c.add(json!({"apiVersion": format!("{e}/v1"), "kind": "A", "metadata": {"name": "a", "namespace": NS}}));
        }),
        ("version", |c, e| {
            c.add(json!({"apiVersion": e, "kind": "ConfigMap", "metadata": {"name": "a", "namespace": NS}}))
        }),
        ("name that is refused", |c, e| c.add(cm(&format!("{e}_A")))),
        ("duplicate", |c, e| {
            c.add(cm(e));
            c.add(cm(e));
        }),
        ("annotation", |c, e| {
            let mut object = cm("annotated");
            object["metadata"]["annotations"] = json!({"kustomize.toolkit.fluxcd.io/prune": e, e: e});
            object["metadata"]["labels"] = json!({e: e});
            c.add(object);
        }),
        ("value that is no text", |c, e| {
            let mut object = cm(e);
            object["data"] = json!({"a": 1});
            c.add(object);
        }),
        ("ownerReferences", |c, e| {
            let mut object = cm(e);
            object["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": e, "name": e, "uid": e}]);
            c.add(object);
        }),
        ("new namespace", |c, e| {
            c.add(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": e}}));
            let mut object = cm("inside");
            object["metadata"]["namespace"] = e.into();
            c.add(object);
        }),
        ("definition", |c, e| {
            let spec = json!({"group": e, "scope": "Namespaced", "names": {"kind": e, "plural": e},
                "versions": [{"name": "v1", "served": true}]});
            c.add(json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": format!("a.{e}")}, "spec": spec}));
            c.add(json!({"apiVersion": format!("{e}/v1"), "kind": e, "metadata": {"name": e, "namespace": NS}}));
        }),
        ("finalizers", |c, e| {
            let mut object = cm("finalized");
            object["metadata"]["finalizers"] = json!([format!("example.com/{e}")]);
            c.add(object);
        }),
        ("labels of another owner", |c, e| {
            let mut object = cm("claimed");
            object["metadata"]["labels"] = json!({"kustomize.toolkit.fluxcd.io/name": e, "kustomize.toolkit.fluxcd.io/namespace": e,
                "helm.toolkit.fluxcd.io/name": e, "helm.toolkit.fluxcd.io/namespace": NS, "app.kubernetes.io/managed-by": e});
            object["metadata"]["annotations"] = json!({"meta.helm.sh/release-name": e, "meta.helm.sh/release-namespace": e,
                "argocd.argoproj.io/tracking-id": format!("{e}:/ConfigMap:{NS}/claimed"), "helm.sh/resource-policy": e});
            c.add(object);
        }),
        ("references", |c, e| {
            let volumes =
                json!([{"name": "v", "configMap": {"name": e}}, {"name": "w", "configMap": {"name": "of-child"}}]);
            let pod = json!({"volumes": volumes, "imagePullSecrets": [{"name": e}], "serviceAccountName": e,
                "containers": [{"name": e, "image": format!("registry.example.com/{e}:{e}"), "args": [e],
                    "envFrom": [{"secretRef": {"name": e}}]}]});
            c.add(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": e, "namespace": NS},
                "spec": {"template": {"metadata": {"labels": {"a": e}}, "spec": pod}}}));
            c.child.clear();
        }),
        ("external secret", |c, e| {
            let spec = json!({"secretStoreRef": {"name": e, "kind": "ClusterSecretStore"}, "target": {"name": e},
                "data": [{"secretKey": e, "remoteRef": {"key": e}}]});
            c.add(json!({"apiVersion": "external-secrets.io/v1", "kind": "ExternalSecret",
                "metadata": {"name": format!("ext-{e}"), "namespace": NS}, "spec": spec}));
        }),
        ("registry credentials", |c, e| {
            let text = json!({"auths": {e: {"username": e, "password": e}}}).to_string();
            c.add(json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
                "metadata": {"name": format!("pull-{e}"), "namespace": NS}, "stringData": {".dockerconfigjson": text}}));
        }),
        ("policy of admission", |c, e| {
            c.add(json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
                "metadata": {"name": format!("policy-{e}")},
                "spec": {"validations": [{"expression": format!("object.x != '{e}'"), "message": e}]}}));
        }),
        ("role", |c, e| {
            let version = "rbac.authorization.k8s.io/v1";
            c.add(json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": format!("{e}:a")}}));
        }),
        ("malformed", |c, e| c.add(cm(&format!("{e}-${{PASSWORD")))),
        ("data", |c, e| {
            let mut object = cm("open-${OPEN}");
            object["data"] = json!({"a": format!("http://u:{e}@db"), e: "b"});
            c.after.retain(|object| object["metadata"]["name"] != "open-${OPEN}");
            c.add(object);
        }),
    ]
}

/// Returns the ways of sources and of what is made of them.
fn source_ways() -> Vec<Way> {
    vec![
        ("url", |c, e| {
            c.change("GitRepository", "other", json!({"spec": {"url": format!("https://u:{e}@example.com/{e}")}}))
        }),
        ("branch", |c, e| c.change("GitRepository", "other", json!({"spec": {"ref": {"branch": e}}}))),
        ("ignore", |c, e| c.change("GitRepository", "other", json!({"spec": {"ignore": e}}))),
        ("include", |c, e| {
            c.change("GitRepository", "other", json!({"spec": {"include": [{"repository": {"name": e}}]}}));
        }),
        ("new source", |c, e| {
            c.add(source("OCIRepository", e, json!({"url": e, "ref": {"tag": e}})));
            c.add(ks("of-oci", "./", json!({"sourceRef": {"kind": "OCIRepository", "name": e}})));
        }),
        ("bucket", |c, e| {
            c.add(source(
                "Bucket",
                "bucket",
                json!({"bucketName": e, "endpoint": format!("{e}.example.com"), "prefix": e}),
            ));
            c.add(ks("of-bucket", "./", json!({"sourceRef": {"kind": "Bucket", "name": "bucket"}})));
        }),
        ("url of charts", |c, e| c.change("HelmRepository", "charts", json!({"spec": {"url": e}}))),
        ("generator source", |c, e| {
            let sources = json!([{"alias": "repo", "kind": "GitRepository", "name": e}]);
            c.change("ArtifactGenerator", "gen", json!({"spec": {"sources": sources}}));
        }),
        ("generated artifact", |c, e| {
            let artifacts = json!([{"name": e, "copy": [{"from": format!("@repo/{e}"), "to": "@artifact/"}]}]);
            c.change("ArtifactGenerator", "gen", json!({"spec": {"artifacts": artifacts}}));
            c.add(ks("of-artifact", "./", json!({"sourceRef": {"kind": "ExternalArtifact", "name": e}})));
        }),
        ("instance url", |c, e| c.change("FluxInstance", "flux", json!({"spec": {"sync": {"url": e, "ref": e}}}))),
        ("instance path", |c, e| c.change("FluxInstance", "flux", json!({"spec": {"sync": {"path": e}}}))),
        ("instance name", |c, e| c.change("FluxInstance", "flux", json!({"spec": {"sync": {"name": e}}}))),
        ("instance distribution", |c, e| c.change("FluxInstance", "flux", json!({"spec": {"distribution": {e: e}}}))),
        ("instance patches", |c, e| {
            let patches = json!([{"patch": e, "target": {"kind": e}}]);
            c.change("FluxInstance", "flux", json!({"spec": {"kustomize": {"patches": patches}}}));
        }),
    ]
}

/// Returns the ways of what changes answers of the API server, and of fields that only some controllers read.
fn rarer_ways() -> Vec<Way> {
    let ways: [Way; 34] = [
        ("ignore of a Kustomization", |c, e| {
            let target = json!({"kind": e, "name": e, "labelSelector": e});
            c.child(json!({"ignore": [{"paths": [format!("/data/{e}")], "target": target}]}));
        }),
        ("request of a child", |c, e| {
            c.change(
                "Kustomization",
                "child",
                json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": e}}}),
            );
        }),
        ("wait", |c, e| {
            c.child(json!({"wait": true, "healthChecks": [{"apiVersion": "v1", "kind": "ConfigMap", "name": e, "namespace": e}]}));
            c.add(ks("waiting", "./child", json!({"dependsOn": [{"name": "child"}]})));
        }),
        ("stateful set", |c, e| {
            let claim = json!({"metadata": {"name": e}, "spec": {"storageClassName": e}});
            let spec = json!({"serviceName": e, "replicas": 2, "volumeClaimTemplates": [claim]});
            c.add(json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": e, "namespace": NS}, "spec": spec}));
        }),
        ("claim", |c, e| {
            c.add(
                json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": e, "namespace": NS},
                "spec": {"volumeName": e, "storageClassName": e, "dataSource": {"kind": e, "name": e}}}),
            );
        }),
        ("volume", |c, e| {
            let claim = json!({"namespace": e, "name": e});
            c.add(json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": e},
                "spec": {"claimRef": claim, "persistentVolumeReclaimPolicy": e}}));
        }),
        ("quota", |c, e| {
            c.add(json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": e, "namespace": NS},
                "spec": {"hard": {"configmaps": "0", e: e}, "scopeSelector": {"matchExpressions": [{"scopeName": e}]}}}));
        }),
        ("limit range", |c, e| {
            c.add(json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": e, "namespace": NS},
                "spec": {"limits": [{"type": "Container", "max": {e: e}}]}}));
        }),
        ("priority", |c, e| {
            c.add(json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": e}, "value": 1}));
            c.add(
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("urgent-{e}"), "namespace": NS},
                "spec": {"priorityClassName": e, "runtimeClassName": e, "containers": []}}),
            );
        }),
        ("webhook", |c, e| {
            let service = json!({"namespace": NS, "name": e, "path": e});
            let rules =
                json!([{"apiGroups": [""], "apiVersions": ["*"], "resources": ["configmaps"], "operations": ["*"]}]);
            let webhook = json!({"name": format!("{e}.example.com"), "clientConfig": {"service": service}, "rules": rules,
                "failurePolicy": "Fail", "matchConditions": [{"name": e, "expression": format!("object.x == '{e}'")}]});
            c.add(json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": e}, "webhooks": [webhook]}));
        }),
        ("binding of a role", |c, e| {
            let version = "rbac.authorization.k8s.io";
            let subjects = json!([{"kind": "ServiceAccount", "name": e, "namespace": NS}]);
            let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"], "resourceNames": [e]}]);
            let metadata = json!({"name": e, "namespace": NS});
            c.add(json!({"apiVersion": format!("{version}/v1"), "kind": "Role", "metadata": metadata, "rules": rules}));
            c.add(json!({"apiVersion": format!("{version}/v1"), "kind": "RoleBinding", "metadata": metadata,
                "roleRef": {"apiGroup": version, "kind": "Role", "name": e}, "subjects": subjects}));
            c.child(json!({"serviceAccountName": e}));
            c.child.push(cm("by-account"));
        }),
        ("schema of a definition", |c, e| {
            c.add(definition(json!({"type": "object", "properties": {"size": {"type": "string", "enum": [e]},
                "other": {"type": "string", "pattern": format!("^{e}$")}}})));
            c.add(widget("small", json!({"size": "s", "other": "o"})));
        }),
        ("job", |c, e| {
            let metadata =
                json!({"name": e, "namespace": NS, "annotations": {"kustomize.toolkit.fluxcd.io/force": "enabled"}});
            c.add(json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"ttlSecondsAfterFinished": 5}}));
        }),
        ("service", |c, e| {
            c.add(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": e, "namespace": NS},
                "spec": {"ports": [{"name": e, "nodePort": 30000}], "selector": {"app": e}, "externalName": e}}));
        }),
        ("API service", |c, e| {
            c.add(json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": format!("v1.{e}")},
                "spec": {"group": e, "version": "v1", "service": {"name": e, "namespace": NS}}}));
        }),
        ("sparseCheckout", |c, e| c.change("GitRepository", "repo", json!({"spec": {"sparseCheckout": [e]}}))),
        ("sparseCheckout of a live source", |c, e| {
            for object in c.before.iter_mut().chain(&mut c.after).filter(|object| object["metadata"]["name"] == "repo")
            {
                merge(object, &json!({"spec": {"sparseCheckout": [e]}}));
            }
        }),
        ("ignore of the planned source", |c, e| c.change("GitRepository", "repo", json!({"spec": {"ignore": e}}))),
        ("url of the planned source", |c, e| c.change("GitRepository", "repo", json!({"spec": {"url": e}}))),
        ("ref of the planned source", |c, e| {
            c.change(
                "GitRepository",
                "repo",
                json!({"spec": {"ref": {"name": e, "commit": e, "semver": e}, "suspend": true}}),
            );
        }),
        ("include of the planned source", |c, e| {
            let include = json!([{"repository": {"name": e}, "fromPath": e, "toPath": e}]);
            c.change("GitRepository", "repo", json!({"spec": {"include": include, "secretRef": {"name": e}}}));
        }),
        ("second source of the repository", |c, e| {
            c.add(source("GitRepository", e, json!({"url": "https://example.com/repo", "sparseCheckout": [e]})));
            c.add(ks("of-second", "./child", json!({"sourceRef": {"kind": "GitRepository", "name": e}})));
        }),
        ("HelmChart", |c, e| {
            c.add(source(
                "HelmChart",
                e,
                json!({"chart": e, "version": e, "sourceRef": {"kind": "HelmRepository", "name": e}}),
            ));
        }),
        ("verification of a source", |c, e| {
            c.change(
                "GitRepository",
                "other",
                json!({"spec": {"verify": {"mode": e, "secretRef": {"name": e}}, "provider": e}}),
            );
        }),
        ("image automation", |c, e| {
            let git =
                json!({"checkout": {"ref": {"branch": e}}, "push": {"branch": e}, "commit": {"messageTemplate": e}});
            c.add(flux_object(
                "image.toolkit.fluxcd.io/v1",
                "ImageUpdateAutomation",
                e,
                json!({"git": git,
                "sourceRef": {"kind": "GitRepository", "name": "repo"}, "update": {"path": e, "strategy": "Setters"}}),
            ));
        }),
        ("generator exclude", |c, e| {
            let copy = json!([{"from": "@repo/**", "to": format!("@artifact/{e}"), "exclude": [format!("[{e}")], "strategy": e}]);
            c.change(
                "ArtifactGenerator",
                "gen",
                json!({"spec": {"artifacts": [{"name": "made", "revision": e, "copy": copy}]}}),
            );
        }),
        ("instance components", |c, e| {
            let more = json!({"components": [e], "cluster": {"type": e, "size": e}, "storage": {"class": e},
                "sharding": {"shards": [e]}, "commonMetadata": {"labels": {e: e}}, "sync": {"pullSecret": e, "provider": e}});
            c.change("FluxInstance", "flux", json!({ "spec": more }));
        }),
        ("strategy of inputs", |c, e| {
            c.set(json!({"inputStrategy": {"name": e}, "commonMetadata": {"labels": {e: e}}, "inputs": [{e: "a", "n": "one"}]}));
        }),
        ("readyExpr of a set", |c, e| {
            let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "namespace": NS, "readyExpr": format!("{e} ==")});
            c.set(json!({"dependsOn": [owner], "inputs": [{"n": "two"}]}));
        }),
        ("marks of a template", |c, e| {
            c.release(json!({"values": {"n": e}, "chart": {"spec": {"reconcileStrategy": "Revision"}}}));
            let mut kept = cm("marked");
            kept["metadata"]["annotations"] =
                json!({"helm.sh/resource-policy": "{{ .Values.n }}", "{{ .Values.n }}": "a"});
            kept["metadata"]["namespace"] = "{{ .Values.n }}".into();
            c.template(kept);
        }),
        ("uninstall of a release", |c, e| {
            c.release(json!({"uninstall": {"deletionPropagation": e}, "test": {"filters": [{"name": e}]}, "install": {"crds": e},
                "rollback": {"recreate": e}, "maxHistory": e, "waitStrategy": {"name": e}}));
        }),
        ("chart metadata", |c, e| {
            c.release(json!({"chart": {"metadata": {"labels": {e: e}, "annotations": {e: e}}}}));
            c.chart(json!({"verify": {"provider": e, "secretRef": {"name": e}}, "interval": e, "ignoreMissingValuesFiles": e}));
        }),
        ("values of an expression", |c, e| {
            let entry =
                json!({"kind": "ConfigMap", "name": "open", "valuesKey": "OPEN", "targetPath": "n", "literal": e});
            c.release(json!({"valuesFrom": [entry], "values": {"n": {"a": e}}, "chart": {"spec": {"reconcileStrategy": "Revision"}}}));
            c.template(cm("t-{{ .Values.n }}"));
        }),
        ("release of another target", |c, e| {
            let spec = json!({"releaseName": e, "targetNamespace": e, "storageNamespace": e, "install": {"createNamespace": true},
                "upgrade": {"remediation": {"strategy": e}}, "persistentClient": e});
            c.release(spec);
            c.templates[1].remove(1);
        }),
    ];
    ways.to_vec()
}

/// Returns a definition of Widgets whose `spec` has a schema.
fn definition(spec: Value) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": true, "schema": {"openAPIV3Schema": schema}}]}})
}

fn widget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name, "namespace": NS}, "spec": spec})
}

fn ways() -> Vec<Way> {
    [release_ways(), set_ways(), kustomization_ways(), object_ways(), source_ways(), rarer_ways()].concat()
}

/// Returns a path for the file of a template.
fn template_path(number: usize) -> &'static str {
    const PATHS: [&str; 6] = [
        "charts/app/templates/web.yaml",
        "charts/app/templates/extra.yaml",
        "charts/app/templates/c.yaml",
        "charts/app/templates/d.yaml",
        "charts/app/templates/e.yaml",
        "charts/app/templates/f.yaml",
    ];
    PATHS[number]
}

fn files(apps: &[Value], child: &[Value], templates: &[Value]) -> Files {
    let mut files: Files = vec![
        ("root/x.yaml", vec![cm("x")]),
        ("apps/a.yaml", apps.to_vec()),
        ("child/a.yaml", child.to_vec()),
        ("charts/app/Chart.yaml", vec![json!({"apiVersion": "v2", "name": "app", "version": "1"})]),
    ];
    files
        .extend(templates.iter().enumerate().map(|(number, template)| (template_path(number), vec![template.clone()])));
    files
}

/// Plans a change in a cluster with both variables.
fn planned(change: &Change, secret: &str, public_value: &str, server: Server) -> Planned {
    let before = files(&change.before, &[cm("of-child")], &change.templates[0]);
    let after = files(&change.after, &change.child, &change.templates[1]);
    let mut cluster = TestCluster::new(&before);
    cluster.has_operator = true;
    let types = [
        ("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", false),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", false),
        ("apps", "Deployment", "deployments", true),
        ("external-secrets.io", "ExternalSecret", "externalsecrets", true),
        ("source.toolkit.fluxcd.io", "Bucket", "buckets", true),
        ("apps", "StatefulSet", "statefulsets", true),
        ("", "PersistentVolumeClaim", "persistentvolumeclaims", true),
        ("", "PersistentVolume", "persistentvolumes", false),
        ("", "ResourceQuota", "resourcequotas", true),
        ("", "LimitRange", "limitranges", true),
        ("", "Pod", "pods", true),
        ("", "Service", "services", true),
        ("scheduling.k8s.io", "PriorityClass", "priorityclasses", false),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", false),
        (
            "admissionregistration.k8s.io",
            "ValidatingAdmissionPolicyBinding",
            "validatingadmissionpolicybindings",
            false,
        ),
        ("rbac.authorization.k8s.io", "Role", "roles", true),
        ("rbac.authorization.k8s.io", "RoleBinding", "rolebindings", true),
        ("batch", "Job", "jobs", true),
        ("networking.k8s.io", "Ingress", "ingresses", true),
        ("apiregistration.k8s.io", "APIService", "apiservices", false),
        ("image.toolkit.fluxcd.io", "ImageUpdateAutomation", "imageupdateautomations", true),
    ];
    let types =
        types.map(|(group, kind, plural, namespaced)| crate::testing::resource_type(group, kind, plural, namespaced));
    cluster.snapshot.types.extend(types);
    cluster.quotes_manifests = server == Server::QuotesSome;
    (cluster.compares, cluster.quotes_live) = (server == Server::Compares, server == Server::QuotesLive);
    if server == Server::QuotesValues {
        cluster.quoted_values = vec![secret.to_owned(), public_value.to_owned()];
    }
    let data = |kind: &str, name: &str, field: &str, data: Value| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": NS}, field: data});
    let values = |value: &str| json!({"values.yaml": format!("n: {value}")});
    cluster.add(&data("Secret", "vars", "stringData", json!({"PASSWORD": secret})), None);
    cluster.add(&data("Secret", "values", "stringData", values(secret)), None);
    cluster.add(&data("ConfigMap", "open-values", "data", values(public_value)), None);
    cluster.add(&data("ConfigMap", "open", "data", json!({"OPEN": public_value})), None);
    let from = json!([{"kind": "Secret", "name": "vars"}, {"kind": "ConfigMap", "name": "open"}]);
    cluster.apply(&ks("apps", "./apps", json!({"postBuild": {"substituteFrom": from}})), None, &artifact(&before));
    cluster.history = Some(before);
    deploy(&mut cluster, &change.templates[0]);
    // The uid of a live object says nothing of its name.
    let ids: Vec<ObjectId> = cluster.snapshot.objects.iter().map(|object| object.id.clone()).collect();
    let resources = cluster.snapshot.resources.iter_mut().map(|full| &mut full.object);
    for object in cluster.snapshot.objects.iter_mut().chain(resources) {
        let number = ids.iter().position(|id| *id == object.id).unwrap_or_default();
        object.uid = format!("uid-{number}").into();
    }
    cluster.snapshot.normalise();
    let (preview, declared, next) = played(&cluster, &after, build::Answers::default());
    let first = cluster.snapshot.clone();
    let plan = finished(preview.plan.clone(), &first, &preview.secrets);
    // The second step takes the change back, as the way back of a list of steps does. No API server has this state.
    let StateAfter { snapshot, open, data } = next;
    cluster.snapshot = snapshot;
    (cluster.quotes_manifests, cluster.quoted_values) = (false, vec![]);
    (cluster.compares, cluster.quotes_live) = (false, false);
    let mut answers = build::Answers::default();
    answers.swap_data(data.into_iter().map(|(reference, found)| (reference, Some(found))).collect());
    let before = cluster.history.replace(after).unwrap_or_default();
    let (mut second, declared_then, last) = played(&cluster, &before, answers);
    second.plan.add_gaps(open);
    let steps = [(&preview.plan, &preview.secrets), (&second.plan, &second.secrets)];
    let mut searches = format!("{declared}{declared_then}");
    for loss in losses(steps, &last.snapshot, &BTreeSet::new()) {
        writeln!(searches, "{} {:?} {}", loss.object, loss.owner, loss.reason).expect("a text takes everything");
    }
    for id in left_over(&first, &last.snapshot, steps.map(|(_, secrets)| secrets)) {
        writeln!(searches, "{id}").expect("a text takes everything");
    }
    let back = finished(second.plan, &cluster.snapshot, &second.secrets);
    Planned { plan, snapshot: first, back, searches }
}

/// Plans files in a cluster. Also returns what owners declare then, and the state after it.
fn played(cluster: &TestCluster, files: &Files, builds: build::Answers) -> (FinishedPreview, String, StateAfter) {
    let mut preview = Preview::new(cluster.input(files));
    let answers = Answers { builds, ..Answers::default() };
    let (finished, next) = cluster.finish_from(answers, |answers| match preview.step(answers) {
        Progress::Done(finished) => {
            let next = preview.after(&finished, answers, 1, "main@sha1:2");
            Progress::Done((*finished, next))
        }
        Progress::Needs(needs) => Progress::Needs(needs),
    });
    assert_eq!(contradictions(&finished.plan), [""; 0]);
    let Declared { objects, unknown, blocked } = preview.declared(&finished.plan, &BTreeMap::new(), |_| true);
    let objects = objects.iter().map(|(id, owners)| format!("{id} of {owners:?}\n"));
    let unknown = unknown.iter().map(|(owner, reason)| format!("{owner}: {reason}\n"));
    let blocked = blocked.iter().map(|owner| format!("{owner}\n"));
    (finished, objects.chain(unknown).chain(blocked).collect(), next)
}

/// Gives the release and the ResourceSet the state after they were applied.
fn deploy(cluster: &mut TestCluster, templates: &[Value]) {
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let names: Vec<String> = templates
        .iter()
        .filter_map(|template| template["metadata"]["name"].as_str().map(str::to_owned))
        .filter(|name| !name.contains("{{"))
        .collect();
    for name in &names {
        cluster.add(&cm(name), None);
    }
    cluster.add(&cm("set-one"), None);
    let entry = |name: &str| json!({"id": format!("{NS}_{name}__ConfigMap"), "v": "v1"});
    for full in &mut cluster.snapshot.resources {
        let release = json!({"name": "app", "namespace": NS, "version": 1, "chartName": "app", "chartVersion": "1",
            "status": "deployed"});
        match &*full.object.id.kind {
            "HelmRelease" => {
                let entries: Vec<Value> = names.iter().map(|name| entry(name)).collect();
                full.content["status"] = json!({"inventory": {"entries": entries}, "history": [release],
                    "conditions": ready, "observedGeneration": 1, "storageNamespace": NS});
            }
            "ResourceSet" => {
                full.content["status"] = json!({"inventory": {"entries": [entry("set-one")]}, "conditions": ready});
            }
            "FluxInstance" | "GitRepository" | "HelmRepository" => {
                full.content["status"] = json!({"conditions": ready})
            }
            "ArtifactGenerator" => {
                full.content["status"] = json!({"conditions": ready, "inventory": [{"name": "made", "namespace": NS}]});
            }
            _ => {}
        }
    }
    let labels = ["name", "namespace"].map(|part| format!("resourceset.fluxcd.controlplane.io/{part}"));
    let object = cluster.object("set-one");
    object.labels = labels.iter().map(String::as_str).zip(["set", NS]).collect();
}
