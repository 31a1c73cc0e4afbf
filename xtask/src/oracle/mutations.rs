//! Mutations: written scenarios with one line changed at random. Equal seeds give equal scenarios.

use super::manifest::{self, Files};
use super::random::Random;
use super::scenarios::{Checkout, Scenario};

/// Attempts to find a change after which the scenario still is in the notation.
const ATTEMPTS: usize = 50;
/// Options of any object.
const MARKS: [&str; 20] = [
    "prune=disabled",
    "prune=enabled",
    "reconcile=disabled",
    "ssa=Ignore",
    "ssa=IfNotPresent",
    "ssa=Merge",
    "force=enabled",
    "force=Disabled",
    "substitute=disabled",
    "label:kustomize.toolkit.fluxcd.io/prune=disabled",
    "label:kustomize.toolkit.fluxcd.io/force=enabled",
    "label:team=a",
    "label:team=a!",
    "note:config.kubernetes.io/local-config=true",
    "ns=none",
    "ns=@-none",
    "finalizer=example.com/hold",
    "json:immutable=true",
    "json:data={\"v\":7}",
    "json:unknown=1",
];
/// Options of a Kustomization.
const OPTIONS: [&str; 30] = [
    "prune=false",
    "force=true",
    "wait=true",
    "suspend=true",
    "suspend=false",
    "deletionPolicy=Orphan",
    "deletionPolicy=Delete",
    "deletionPolicy=WaitForTermination",
    "deletionPolicy=MirrorPrune",
    "targetNamespace=@",
    "targetNamespace=@-none",
    "namePrefix=z-",
    "nameSuffix=-z",
    "interval=never",
    "interval=1h",
    "serviceAccountName=nobody",
    "dependsOn=nobody",
    "from=vars",
    "var:v=z",
    "common=nobody",
    "components=../q",
    "mark-prune=disabled",
    "mark-force=enabled",
    "reconcile=disabled",
    "ssa=IfNotPresent",
    "ns=@-none",
    "json:timeout=\"5s\"",
    "json:commonMetadata={\"annotations\":{\"kustomize.toolkit.fluxcd.io/prune\":\"disabled\"}}",
    "json:commonMetadata={\"annotations\":{\"kustomize.toolkit.fluxcd.io/force\":\"enabled\"}}",
    "json:healthChecks=[{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":\"a\",\"namespace\":\"@\"}]",
];
/// Options that a line of each kind can have.
const OF_KINDS: [(&str, &[&str]); 8] = [
    ("cm", &["v=2", "v=held", "v=x"]),
    ("deploy", &["selects=other", "replicas=0", "label:a=b"]),
    ("svc", &["port=99999", "port=81", "nodeport=@1"]),
    ("crd", &["values=a", "values=a,b", "scope=Cluster", "versions=v1,v2", "versions=v2", "versions=-v1,v2"]),
    ("widget", &["size=a", "size=b", "typo=1", "version=v2"]),
    ("ns", &["label:team=a", "label:free=yes", "label:kustomize.toolkit.fluxcd.io/prune=disabled"]),
    ("role", &["verbs=get,list", "verbs=get,list,create,patch", "verbs=*"]),
    ("policy", &["op=UPDATE", "op=DELETE", "op=CREATE", "deny=a", "deny=held"]),
];
/// Kinds of namespaced objects.
const KINDS: [&str; 6] = ["cm", "secret", "sa", "deploy", "svc", "role"];

/// Returns mutation number `case` of a seed.
pub(super) fn scenario(seed: u64, case: u64, written: &[Scenario]) -> Scenario {
    let mut random = Random::of(seed, case);
    let original = &written[random.below(written.len())];
    let mut mutated = Scenario {
        name: format!("{}+{seed}.{case}", original.name),
        incomplete: false,
        may_be_incomplete: true,
        checkout: random.pick(&Checkout::ALL).0,
        expect: vec![],
        happens: vec![],
        needed: vec![],
        ..original.clone()
    };
    let own = mutated.clone();
    for _ in 0..ATTEMPTS {
        mutate(&mut random, &mut mutated);
        if mutated != own && is_in_notation(&mutated, &own) {
            return mutated;
        }
        mutated.clone_from(&own);
    }
    mutated
}

/// Returns true if a mutation of a scenario can be played: its text is in the notation, and kubectl applies no field that does not
/// exist.
fn is_in_notation(scenario: &Scenario, original: &Scenario) -> bool {
    let mut files = Files::new();
    let mut edits = [&scenario.before, &scenario.between, &scenario.after].into_iter();
    edits.all(|lines| manifest::edit(&mut files, lines, "s001x").is_ok())
        && scenario.cluster.iter().all(|object| {
            (!object.contains(" json:") || original.cluster.contains(object))
                && manifest::object(&object.replace('@', "s001x"), "s001x").is_ok()
        })
}

/// Changes, removes or doubles one line. A line of the edit is twice as likely as another one.
fn mutate(random: &mut Random, scenario: &mut Scenario) {
    let words = Words::of(scenario);
    let [cluster, before, live, after] =
        [&scenario.cluster, &scenario.before, &scenario.live, &scenario.after].map(Vec::len);
    let at = random.below(cluster + before + live + 2 * after);
    if at < cluster {
        return change_line(random, &words, &mut scenario.cluster, at, |random, words, line| {
            change_object(random, words, line)
        });
    }
    if at < cluster + before {
        return change_line(random, &words, &mut scenario.before, at - cluster, change_file);
    }
    if at < cluster + before + live {
        return change_line(random, &words, &mut scenario.live, at - cluster - before, change_words);
    }
    change_line(random, &words, &mut scenario.after, (at - cluster - before - live) / 2, change_file);
}

/// Changes one line, or removes it.
fn change_line(
    random: &mut Random,
    words: &Words,
    lines: &mut Vec<String>,
    at: usize,
    change: impl Fn(&mut Random, &Words, &str) -> String,
) {
    if random.one_in(8) {
        drop(lines.remove(at));
    } else {
        lines[at] = change(random, words, &lines[at]);
    }
}

/// Names and paths of a scenario, from which a change takes others.
struct Words {
    names: Vec<String>,
    folders: Vec<String>,
    files: Vec<String>,
}

impl Words {
    fn of(scenario: &Scenario) -> Self {
        let mut own = Self { names: vec!["other".into()], folders: vec!["nowhere".into()], files: vec![] };
        for line in scenario.before.iter().chain(&scenario.after) {
            let Some((path, objects)) = line.split_once(": ") else { continue };
            own.folders.extend(path.rsplit_once('/').map(|(folder, _)| folder.to_owned()));
            if !path.ends_with(':') {
                own.files.push(path.to_owned());
                own.names.extend(objects.split(" | ").filter_map(|object| object.split(' ').nth(1)).map(str::to_owned));
            }
        }
        own
    }
}

fn pick<'a>(random: &mut Random, of: &'a [String]) -> &'a str {
    of.get(random.below(of.len())).map_or("", String::as_str)
}

/// Changes a line of the repository.
fn change_file(random: &mut Random, words: &Words, line: &str) -> String {
    let Some((path, text)) = line.split_once(": ") else { return line.to_owned() };
    if let Some(path) = path.strip_suffix(':') {
        return format!("{path}:: {}", change_text(random, words, text));
    }
    let mut objects: Vec<String> = text.split(" | ").map(str::to_owned).collect();
    let at = random.below(objects.len());
    match random.below(14) {
        0 if objects.len() > 1 => drop(objects.remove(at)),
        1 => objects.push(objects[at].clone()),
        2 => objects.push(format!("{} {}", random.pick(&KINDS), pick(random, &words.names))),
        3 => return format!("{}: {text}", pick(random, &words.files)),
        4 => return format!("{path}:: apiVersion: v1;;kind: ConfigMap;;metadata:;;  name: a;; namespace: @"),
        5 => objects.push("ns @-early | svc bad ns=@-early port=99999".into()),
        _ => objects[at] = change_object(random, words, &objects[at]),
    }
    format!("{path}: {}", objects.join(" | "))
}

/// Removes or doubles a line of a text, indents it, or changes a word.
fn change_text(random: &mut Random, words: &Words, text: &str) -> String {
    let mut lines: Vec<String> = text.split(";;").map(str::to_owned).collect();
    let at = random.below(lines.len());
    match random.below(4) {
        0 if lines.len() > 1 => drop(lines.remove(at)),
        1 => lines.insert(at, lines[at].clone()),
        2 => lines[at].insert(0, ' '),
        _ => lines[at] = change_words(random, words, &lines[at]),
    }
    lines.join(";;")
}

/// Replaces a word by a name of the scenario, or removes it.
fn change_words(random: &mut Random, words: &Words, line: &str) -> String {
    let mut own: Vec<&str> = line.split(' ').collect();
    let at = random.below(own.len());
    if random.one_in(3) {
        own.remove(at);
    } else {
        own[at] = pick(random, &words.names);
    }
    own.join(" ")
}

/// Changes the kind, the name, the path or an option of an object.
fn change_object(random: &mut Random, words: &Words, object: &str) -> String {
    let mut own: Vec<String> = object.split(' ').map(str::to_owned).collect();
    let kind = own[0].clone();
    let (named, namespaced) = (1.min(own.len() - 1), KINDS.contains(&kind.as_str()));
    let option = (0..own.len()).rfind(|at| own[*at].contains('='));
    match random.below(10) {
        0 if namespaced => own[0] = random.pick(&KINDS).into(),
        1 => {
            let name = pick(random, &words.names);
            // An object of the cluster belongs to the scenario by its prefix.
            own[named] =
                if namespaced || kind == "ks" || name.contains('@') { name.into() } else { format!("@-{name}") };
        }
        2 | 3 if kind == "ks" && own.len() > 2 => own[2] = format!("./{}", pick(random, &words.folders)),
        4 | 5 if option.is_some() => drop(option.map(|at| own.remove(at))),
        6 if kind == "ks" => own.push(format!("dependsOn={}", pick(random, &words.names))),
        _ => {
            let own_options = OF_KINDS.iter().find(|(of, _)| *of == kind).map(|(_, options)| *options);
            let added = match own_options {
                Some(options) if random.one_in(2) => random.pick(options),
                _ if kind == "ks" => random.pick(&OPTIONS),
                _ => random.pick(&MARKS),
            };
            let key = added.split('=').next().unwrap_or_default();
            own.retain(|word| word.split('=').next() != Some(key) || !word.contains('='));
            own.push(added.into());
        }
    }
    own.join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::scenarios;
    use super::*;

    #[test]
    fn a_mutation_is_a_scenario_with_one_line_changed() {
        let written = scenarios::all().unwrap();
        for case in 0..2_000 {
            let mutated = scenario(1, case, &written);
            let name = mutated.name.split('+').next().unwrap();
            let original = written.iter().find(|scenario| scenario.name == name).unwrap();
            let lines = |of: &Scenario| [&of.cluster[..], &of.before, &of.live, &of.after].concat();
            let (old, new) = (lines(original), lines(&mutated));
            let changed = old.iter().filter(|line| !new.contains(line)).count();
            assert!(changed <= 1 && old != new, "{mutated}");
            assert_eq!(mutated, scenario(1, case, &written));
        }
    }
}
