//! Layouts in which the API server's answer depends on what the same commit changes: definitions, policies, accounts, quotas,
//! ports, forced changes and stages.

use super::{Edit, Random, Repository};

/// Objects that the API server refuses, in a new namespace or not.
pub(super) const REFUSED: [&str; 6] = [
    "svc refused port=99999",
    "cm refused ns=none",
    "cm refused ns=@-nowhere",
    "cm refused json:data={\"v\":7}",
    "unserved refused",
    "ns @-staged | svc refused port=99999",
];

/// Marks that commonMetadata can set, and that objects can have.
const MARKS: [&str; 4] = ["prune", "reconcile", "ssa", "force"];

/// A definition whose schema changes with its resources.
pub(super) fn schema(random: &mut Random, repository: &mut Repository) {
    let number = repository.apps.len();
    let home = random.pick(&[0, number - 1]);
    if repository.has("crd ") {
        return;
    }
    let definition = "crd @.example.com values=a,b".to_owned();
    repository.apps[home].objects.push(definition.clone());
    let objects = vec![format!("widget s{number} size=a"), format!("widget t{number} size=b"), format!("cm o{number}")];
    let at = repository.add(random.below(number), vec![], objects.clone());
    let schema =
        random.pick(&["values=a,b,c", "values=a", "values=c", "values=a,b versions=v1,v2", "values=a,b versions=v2"]);
    repository.edits.extend([
        Edit::Object(home, definition.clone(), format!("crd @.example.com {schema}")),
        Edit::Object(home, definition, "crd @.example.com".into()),
        Edit::Object(at, objects[0].clone(), format!("widget s{at} size={}", random.pick(&["b", "c", "d"]))),
        Edit::Object(at, objects[1].clone(), format!("widget t{at} size=b version=v2")),
        Edit::Object(at, String::new(), format!("widget new{at} size={}", random.pick(&["a", "c"]))),
        Edit::Object(at, String::new(), format!("widget typo{at} typo=x")),
        Edit::Object(at, objects[1].clone(), String::new()),
        Edit::Object(at, objects[2].clone(), String::new()),
    ]);
}

/// A policy, its binding and a namespace that can be exempt from it.
pub(super) fn policy(random: &mut Random, repository: &mut Repository) {
    let (home, number) = (random.below(repository.apps.len()), repository.apps.len());
    let operation = random.pick(&["UPDATE", "CREATE", "DELETE"]);
    let denies = format!("policy @-p{number} op={operation} deny=held");
    let binding = format!("binding @-p{number} in=@-e{number} exempt=free");
    let (guarded, exempt) = (format!("ns @-e{number}"), format!("ns @-e{number} label:free=yes"));
    let [namespace, other] = if random.one_in(2) { [&guarded, &exempt] } else { [&exempt, &guarded] };
    repository.apps[home].objects.extend([denies.clone(), binding.clone(), namespace.clone()]);
    let inside = |text: &str| format!("{text} ns=@-e{number}");
    let objects = ["cm a", "cm b", "cm held"].map(inside).to_vec();
    let at = repository.add(0, vec![], objects.clone());
    repository.edits.extend([
        Edit::Object(home, namespace.clone(), other.clone()),
        Edit::Object(home, binding, String::new()),
        Edit::Object(home, denies.clone(), String::new()),
        Edit::Object(home, denies, format!("policy @-p{number} op={operation} deny=a")),
        Edit::Object(at, objects[0].clone(), inside("cm a v=held")),
        Edit::Object(at, String::new(), inside("cm new v=held")),
        Edit::Object(at, objects[1].clone(), String::new()),
        Edit::Object(at, objects[2].clone(), String::new()),
    ]);
}

/// A Kustomization with an account of its own, whose rights come and go.
pub(super) fn account(random: &mut Random, repository: &mut Repository) {
    let number = repository.apps.len();
    let name = format!("u{number}");
    let home = random.below(number);
    let all = "get,list,watch,create,patch,delete";
    let role = |verbs: &str| format!("role {name}-rights verbs={verbs}");
    let bind = format!("bind {name}-rights as={name}");
    let (rights, account) = (format!("{} | {bind}", role(all)), format!("sa {name}"));
    repository.apps[home].objects.extend([rights.clone(), account.clone()]);
    let uses = format!("serviceAccountName={name}");
    let at = repository.add(0, vec![uses.clone()], vec![format!("cm o{number}"), format!("cm p{number}")]);
    let verbs = random.pick(&["get,list,watch,create,patch", "get,list,watch,patch,delete", "get,list"]);
    repository.edits.extend([
        Edit::Object(home, rights.clone(), format!("{} | {bind}", role(verbs))),
        Edit::Object(home, rights.clone(), role(all)),
        Edit::Object(home, rights, String::new()),
        Edit::Object(home, account, String::new()),
        Edit::Option(at, uses.clone(), String::new()),
        Edit::Option(at, uses, "serviceAccountName=nobody".into()),
        Edit::Object(at, format!("cm p{at}"), String::new()),
        Edit::Object(at, format!("cm p{at}"), format!("cm later{at}")),
    ]);
}

/// Objects that are made anew, because of the Kustomization or of a mark.
pub(super) fn forced(random: &mut Random, repository: &mut Repository) {
    let (parent, number) = (random.below(repository.apps.len()), repository.apps.len());
    let force = "force=true".to_owned();
    let options = if random.one_in(2) { vec![force.clone()] } else { vec![] };
    let objects = vec![
        format!("deploy f{number} force=enabled"),
        format!("deploy g{number}"),
        format!("svc h{number}"),
        format!("cm o{number}"),
    ];
    let at = repository.add(parent, options, objects.clone());
    repository.edits.extend([
        Edit::Object(at, objects[0].clone(), format!("deploy f{at} selects=other force=enabled")),
        Edit::Object(at, objects[0].clone(), format!("deploy f{at} selects=other")),
        Edit::Object(at, objects[1].clone(), format!("deploy g{at} selects=other")),
        Edit::Object(at, objects[1].clone(), format!("deploy g{at} selects=other force=disabled")),
        Edit::Object(at, objects[2].clone(), format!("svc h{at} port=99999")),
        Edit::Object(at, objects[3].clone(), String::new()),
        Edit::Option(at, force.clone(), String::new()),
        Edit::Option(at, String::new(), force),
    ]);
}

/// A namespace with room for a few ConfigMaps.
pub(super) fn quota(random: &mut Random, repository: &mut Repository) {
    let (home, number) = (random.below(repository.apps.len()), repository.apps.len());
    let inside = |text: String| format!("{text} ns=@-q{number}");
    let quota = inside(format!("quota q{number} cm=3"));
    repository.apps[home].objects.extend([format!("ns @-q{number}"), quota.clone()]);
    let objects: Vec<String> = (0..2).map(|count| inside(format!("cm q{number}-{count}"))).collect();
    let at = repository.add(0, vec![], objects.clone());
    repository.edits.extend([
        Edit::Object(home, quota.clone(), inside(format!("quota q{number} cm={}", random.pick(&[1, 2, 4])))),
        Edit::Object(home, quota, String::new()),
        Edit::Object(at, String::new(), inside(format!("cm one{at}"))),
        Edit::Object(at, String::new(), inside(format!("cm two{at}"))),
        Edit::Object(at, objects[0].clone(), String::new()),
        Edit::Object(at, objects[1].clone(), inside(format!("cm moved{at}"))),
    ]);
}

/// Two Kustomizations with Services that have node ports.
pub(super) fn ports(random: &mut Random, repository: &mut Repository) {
    let number = repository.apps.len();
    if repository.has("nodeport=") {
        return;
    }
    let port = format!("svc n{number} nodeport=@1");
    let first = repository.add(random.below(number), vec![], vec![port.clone(), format!("cm o{number}")]);
    let options = if random.one_in(2) { vec![format!("dependsOn={}", repository.apps[first].name)] } else { vec![] };
    let second = repository.add(0, options, vec![format!("cm r{number}"), format!("cm s{number}")]);
    repository.edits.extend([
        Edit::Object(first, port.clone(), String::new()),
        Edit::Object(first, port, format!("svc n{number} nodeport=@2")),
        Edit::Object(second, String::new(), format!("svc m{number} nodeport=@1")),
        Edit::Object(second, String::new(), format!("svc l{number} nodeport=@2")),
        Edit::Object(second, format!("cm s{number}"), String::new()),
        Edit::Object(first, format!("cm o{number}"), String::new()),
    ]);
}

/// Objects of the first stages beside one that fails later.
pub(super) fn stages(random: &mut Random, repository: &mut Repository) {
    let at = repository.pick(random);
    let refused = random.pick(&REFUSED).to_owned();
    let object = repository.apps[at].objects.last().cloned().unwrap_or_default();
    repository.edits.extend([
        Edit::Object(at, String::new(), format!("ns @-new{at}")),
        Edit::Object(at, String::new(), format!("cr @-role{at}")),
        Edit::Object(at, String::new(), format!("class @-class{at}")),
        Edit::Object(at, String::new(), refused),
        Edit::Object(at, object, String::new()),
    ]);
}

/// Manifests that are no manifests, or not valid.
pub(super) fn invalid(random: &mut Random, repository: &mut Repository) {
    let at = repository.pick(random);
    let directory = repository.apps[at].directory.clone();
    let text = random.pick(&[
        ": apiVersion: v1;;kind: ConfigMap",
        ": apiVersion: v1;;kind: ConfigMap;;metadata: {name: Upper, namespace: @}",
        ": apiVersion: v1;;kind: ConfigMap;;metadata: {name: \"\", namespace: @}",
        ": apiVersion: v1;;kind: ConfigMap;;metadata:;;  name: a;; namespace: @",
        ": kind: ConfigMap;;metadata: {name: noversion, namespace: @}",
        ": - a;;- b",
        ": ",
    ]);
    let object = repository.apps[at].objects.last().cloned().unwrap_or_default();
    repository.edits.extend([
        Edit::File(format!("{directory}/invalid.yaml"), text.into()),
        Edit::Object(at, object, String::new()),
    ]);
}

/// A Kustomization whose commonMetadata sets a mark on all its objects, some of which have it.
pub(super) fn common_marks(random: &mut Random, repository: &mut Repository) {
    let (parent, number) = (random.below(repository.apps.len()), repository.apps.len());
    let mark = random.pick(&MARKS);
    let values: [&str; 2] = if mark == "ssa" { ["Ignore", "IfNotPresent"] } else { ["disabled", "enabled"] };
    let common = |value: &str| {
        format!("json:commonMetadata={{\"annotations\":{{\"kustomize.toolkit.fluxcd.io/{mark}\":\"{value}\"}}}}")
    };
    let (first, second) = (common(values[0]), common(values[1]));
    let has_first = random.one_in(2);
    let options = if has_first { vec![first.clone()] } else { vec![] };
    let objects = vec![
        format!("cm o{number} {mark}={}", values[0]),
        format!("cm p{number} {mark}={}", values[1]),
        format!("cm q{number}"),
        format!("deploy r{number}"),
    ];
    let at = repository.add(parent, options, objects.clone());
    let from = if has_first { first.clone() } else { String::new() };
    repository.edits.extend([
        Edit::Option(at, from.clone(), second),
        Edit::Option(at, from, if has_first { String::new() } else { first }),
        Edit::Object(at, objects[3].clone(), format!("deploy r{at} selects=other")),
    ]);
    repository.edits.extend(objects[..3].iter().map(|object| Edit::Object(at, object.clone(), String::new())));
}

/// Makes every Kustomization wait for the health of its objects, some of which never get healthy.
pub(super) fn make_slow(random: &mut Random, repository: &mut Repository) {
    for app in repository.apps.iter_mut().skip(1) {
        app.options.retain(|option| !option.starts_with("wait=") && !option.starts_with("json:timeout="));
        app.options.push("wait=true".into());
        app.options.push(format!("json:timeout=\"{}s\"", random.pick(&[3, 8, 15])));
        if random.one_in(4) {
            app.objects.push(format!("deploy never-{}", app.directory));
        }
    }
}
