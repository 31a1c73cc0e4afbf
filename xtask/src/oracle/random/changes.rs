//! Changes of random repositories: of what a layout added, or of any Kustomization and object.

use super::{Application, Edit, Random, Repository, objects, options};

pub(super) fn change(random: &mut Random, repository: &mut Repository) {
    if repository.edits.is_empty() || random.one_in(3) {
        return change_any(random, &mut repository.apps);
    }
    let at = random.below(repository.edits.len());
    match repository.edits.swap_remove(at) {
        Edit::Option(app, from, to) => replace(&mut repository.apps[app].options, &from, &to),
        Edit::Object(app, from, to) => replace(&mut repository.apps[app].objects, &from, &to),
        Edit::File(path, text) if text.is_empty() => drop(repository.files.remove(&path)),
        Edit::File(path, text) => drop(repository.files.insert(path, text)),
    }
}

/// Replaces a text of a list. An empty text is nothing, and a text that another change removed stays removed.
fn replace(list: &mut Vec<String>, from: &str, to: &str) {
    let before = list.len();
    list.retain(|text| text != from);
    if !to.is_empty() && (from.is_empty() || list.len() < before) {
        list.push(to.to_owned());
    }
}

fn change_any(random: &mut Random, apps: &mut Vec<Application>) {
    let at = random.below(apps.len());
    match random.below(11) {
        // Remove, add or move an object.
        0 | 1 if apps[at].objects.len() > 1 => drop(apps[at].objects.pop()),
        2 if !has_object(&apps[at], &format!("fresh{at}")) => apps[at].objects.push(format!("cm fresh{at}")),
        3 => {
            let to = random.below(apps.len());
            let moves = |object: &String| !has_object(&apps[to], object.split(' ').nth(1).unwrap_or_default());
            if to != at && apps[at].objects.len() > 1 && apps[at].objects.last().is_some_and(moves) {
                let moved = apps[at].objects.pop();
                apps[to].objects.extend(moved);
            }
        }
        // Remove a Kustomization, with or without its directory.
        4 if at > 0 => apps[at].removed = true,
        5 if at > 0 && apps.iter().all(|app| app.parent != Some(at)) => {
            apps[at].removed = true;
            apps[at].objects.clear();
        }
        // Rename it, change its options, or remove all its objects.
        6 if at > 0 => apps[at].name = format!("renamed{at}"),
        7 if at > 0 => apps[at].options = options(random),
        8 if at > 0 => apps[at].objects = vec![],
        // Change a variable, or an immutable field.
        9 => edit(&mut apps[0].objects, "cm vars v=x", |_| "cm vars v=y".to_owned()),
        10 => edit(&mut apps[at].objects, "deploy ", |object| format!("{object} selects=other")),
        _ => {
            let number = apps.len();
            apps.push(Application {
                name: format!("k{number}"),
                parent: Some(at),
                directory: format!("d{number}"),
                path: None,
                options: vec![],
                objects: objects(random, number),
                removed: false,
            });
        }
    }
}

/// Returns true if the application has an object of this name.
fn has_object(app: &Application, name: &str) -> bool {
    app.objects.iter().any(|object| object.split(' ').nth(1) == Some(name))
}

/// Changes the first object that begins with `beginning`.
fn edit(objects: &mut [String], beginning: &str, change: impl Fn(&str) -> String) {
    if let Some(object) = objects.iter_mut().find(|object| object.starts_with(beginning)) {
        *object = change(object);
    }
}
