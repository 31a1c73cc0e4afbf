//! Layouts of repositories of which fleets consist. Each adds its changes to the repository.

use super::{Edit, Random, Repository, conditions, fleets};

/// Adds a layout to a repository.
type Layout = fn(&mut Random, &mut Repository);

const LAYOUTS: [Layout; 20] = [
    fleets::patched_children,
    fleets::one_for_each_application,
    fleets::shared_namespace,
    fleets::many_resources,
    target_namespace_and_component,
    dependency,
    variable_in_paths,
    unserved_kind,
    fails_already,
    waits,
    suspended_in_git,
    conditions::schema,
    conditions::policy,
    conditions::account,
    conditions::forced,
    conditions::quota,
    conditions::ports,
    conditions::stages,
    conditions::invalid,
    conditions::common_marks,
];

/// Adds none to three layouts to a repository.
pub(super) fn add(random: &mut Random, repository: &mut Repository) {
    let mut layouts = LAYOUTS.to_vec();
    for _ in 0..random.below(4) {
        let at = random.below(layouts.len());
        layouts.swap_remove(at)(random, repository);
    }
}

/// A Kustomization with a `targetNamespace` and a component by relative path.
fn target_namespace_and_component(random: &mut Random, repository: &mut Repository) {
    let at = repository.pick(random);
    let (first, second) = (format!("targetNamespace=@-t{at}"), format!("targetNamespace=@-u{at}"));
    repository.apps[0].objects.extend([format!("ns @-t{at}"), format!("ns @-u{at}")]);
    let component = format!("components=../c{at}");
    let app = &mut repository.apps[at];
    app.options.extend([first.clone(), component.clone()]);
    if random.one_in(3) {
        app.options.push("ignoreMissingComponents=true".into());
    }
    let file = format!("c{at}/kustomization.yaml");
    let head = ": apiVersion: kustomize.config.k8s.io/v1alpha1;;kind: Component";
    let lists = format!("{head};;resources:;;- extra.yaml");
    let prefixes = format!("{head};;namePrefix: from-;;resources:;;- extra.yaml");
    let labels = format!("{head};;labels:;;- pairs: {{team: a}};;resources:;;- extra.yaml");
    repository.files.insert(file.clone(), random.pick(&[&lists, &prefixes, &labels]).clone());
    let extra = format!("c{at}/extra.yaml");
    repository.files.insert(extra.clone(), format!(" cm extra{at}"));
    repository.edits.extend([
        Edit::Option(at, component, String::new()),
        Edit::Option(at, first.clone(), second),
        Edit::Option(at, first, String::new()),
        Edit::File(file.clone(), format!("{head};;namePrefix: later-;;resources:;;- extra.yaml")),
        Edit::File(file, String::new()),
        Edit::File(extra, format!(" cm other{at} | cm extra{at}")),
    ]);
}

/// A dependency, half of the time on a Kustomization of another namespace.
fn dependency(random: &mut Random, repository: &mut Repository) {
    let on = repository.pick(random);
    let parent = random.below(repository.apps.len());
    let number = repository.apps.len();
    let at = repository.add(parent, vec![], vec![format!("cm o{number}"), format!("cm p{number}")]);
    let name = repository.apps[on].name.clone();
    let mut depends = format!("dependsOn={name}");
    if random.one_in(2) {
        repository.apps[0].objects.push(format!("ns @-n{at}"));
        repository.apps[at].options.extend([format!("ns=@-n{at}"), "source=@".into()]);
        depends = format!("json:dependsOn=[{{\"name\":\"{name}\",\"namespace\":\"@\"}}]");
    }
    repository.apps[at].options.push(depends.clone());
    let last = repository.apps[at].objects[1].clone();
    repository.edits.extend([
        Edit::Option(at, depends.clone(), String::new()),
        Edit::Option(at, depends, "dependsOn=missing".into()),
        Edit::Object(at, last, String::new()),
        Edit::Object(at, String::new(), format!("cm new{at}")),
        Edit::File(format!("{}/broken.yaml", repository.apps[on].directory), ": broken: [".into()),
    ]);
}

/// A parent that substitutes the paths, and perhaps the names, of its children.
fn variable_in_paths(random: &mut Random, repository: &mut Repository) {
    let parent = repository.pick(random);
    let number = repository.apps.len();
    let at = repository.add(parent, vec![], vec![format!("cm o{number}"), format!("cm prod{number}")]);
    repository.apps[parent].options.push("var:ENV=prod".into());
    let app = &mut repository.apps[at];
    app.path = Some(format!("d{at}/${{ENV}}"));
    app.directory = format!("d{at}/prod");
    if random.one_in(3) {
        app.name = format!("k{at}-${{ENV}}");
    }
    repository.files.insert(format!("d{at}/test/o.yaml"), format!(" cm o{at} | cm test{at}"));
    let prod = "var:ENV=prod".to_owned();
    repository.edits.extend([
        Edit::Option(parent, prod.clone(), "var:ENV=test".into()),
        Edit::Option(parent, prod.clone(), "var:ENV=test".into()),
        Edit::Option(parent, prod.clone(), "var:ENV=missing".into()),
        Edit::Option(parent, prod, String::new()),
        Edit::Object(at, format!("cm prod{at}"), format!("cm later{at}")),
    ]);
}

/// An object of a kind that the cluster does not serve: from the start, or after the change.
fn unserved_kind(random: &mut Random, repository: &mut Repository) {
    let at = repository.pick(random);
    let object = "unserved u".to_owned();
    if random.one_in(2) {
        return repository.edits.push(Edit::Object(at, String::new(), object));
    }
    repository.apps[at].objects.push(object.clone());
    repository
        .edits
        .extend([Edit::Object(at, object, String::new()), Edit::Object(at, String::new(), format!("cm later{at}"))]);
}

/// A Kustomization that fails before the change.
fn fails_already(random: &mut Random, repository: &mut Repository) {
    let parent = random.below(repository.apps.len());
    let number = repository.apps.len();
    let at = repository.add(parent, vec![], vec![format!("cm o{number}"), format!("deploy p{number}")]);
    let broken = format!("d{at}/broken.yaml");
    let elsewhere = "cm elsewhere ns=@-none".to_owned();
    match random.below(4) {
        0 => {
            repository.files.insert(broken.clone(), ": broken: [".into());
            repository
                .edits
                .extend([Edit::File(broken.clone(), String::new()), Edit::File(broken, format!(" cm repaired{at}"))]);
        }
        1 => {
            repository.apps[at].objects.push(elsewhere.clone());
            repository.edits.extend([
                Edit::Object(at, elsewhere, String::new()),
                Edit::Object(0, String::new(), "ns @-none".into()),
            ]);
        }
        2 => {
            repository.apps[at].options.push("dependsOn=missing".into());
            repository.edits.push(Edit::Option(at, "dependsOn=missing".into(), String::new()));
        }
        _ => {
            repository.apps[at].options.push("from=absent".into());
            repository.edits.extend([
                Edit::Option(at, "from=absent".into(), String::new()),
                Edit::Object(0, String::new(), "cm absent v=x".into()),
            ]);
        }
    }
    let first = repository.apps[at].objects[0].clone();
    repository.edits.push(Edit::Object(at, first, format!("cm later{at}")));
}

/// A Kustomization that waits for the health of its objects, and another one that depends on it. A Deployment never
/// becomes healthy in a cluster without nodes.
fn waits(random: &mut Random, repository: &mut Repository) {
    let (parent, number) = (random.below(repository.apps.len()), repository.apps.len());
    let waits = "wait=true json:timeout=\"6s\" json:retryInterval=\"1h\"".to_owned();
    let at = repository.add(parent, vec![waits.clone()], vec![format!("cm o{number}"), format!("sa p{number}")]);
    if random.one_in(4) {
        repository.apps[at].objects.push(format!("deploy never{at}"));
    }
    let name = repository.apps[at].name.clone();
    let number = repository.apps.len();
    let objects = vec![format!("cm o{number}"), format!("cm p{number}")];
    let after = repository.add(0, vec![format!("dependsOn={name}")], objects);
    repository.edits.extend([
        Edit::Option(at, waits, String::new()),
        Edit::Object(at, String::new(), format!("deploy unhealthy{at}")),
        Edit::Object(at, String::new(), format!("cm healthy{at}")),
        Edit::Object(at, format!("sa p{at}"), String::new()),
        Edit::Object(after, format!("cm p{after}"), String::new()),
    ]);
}

/// A Kustomization with `suspend` in its manifest, or one that gets it.
fn suspended_in_git(random: &mut Random, repository: &mut Repository) {
    let at = repository.pick(random);
    let suspends = "suspend=true".to_owned();
    let last = repository.apps[at].objects.last().cloned().unwrap_or_default();
    repository.edits.push(Edit::Object(at, last, format!("cm later{at}")));
    repository.edits.push(match random.below(3) {
        0 => {
            repository.apps[at].options.push(suspends.clone());
            Edit::Option(at, suspends, String::new())
        }
        1 => {
            repository.apps[at].options.push(suspends.clone());
            Edit::Option(at, suspends, "suspend=false".into())
        }
        _ => Edit::Option(at, String::new(), suspends),
    });
}
