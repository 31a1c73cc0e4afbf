//! Ordinary commits, and commits that are disasters, in a generated repository.

use test_support::random::Random;

use super::layouts::{Layout, ROOT, Repository, mounted_claim, mounted_settings};
use super::tree::Tree;

/// Changes a repository; returns false if the kind of commit does not fit.
pub(super) type Commit = fn(&mut Repository, &mut Random) -> bool;

pub(super) const ORDINARY: [(&str, Commit); 7] = [
    ("image bump", image_bump),
    ("new application", new_application),
    ("removed application", removed_application),
    ("renamed file", renamed_file),
    ("one object removed", removed_object),
    ("changed value", changed_value),
    ("moved directory", moved_directory),
];

pub(super) const DISASTERS: [(&str, Commit); 6] = [
    ("mistyped path", mistyped_path),
    ("emptied kustomization.yaml", emptied_kustomization),
    ("lost `resources:` line", lost_resources),
    ("wrong branch", wrong_branch),
    ("mass rename", mass_rename),
    ("dropped parent", dropped_parent),
];

fn pick(repository: &Repository, random: &mut Random) -> usize {
    random.below(repository.applications.len())
}

/// Picks a manifest of an application.
fn manifest(repository: &Repository, at: usize, random: &mut Random) -> String {
    let mut names = repository.tree.files_of(&repository.applications[at].folder);
    names.retain(|name| name != "kustomization.yaml" && name != "ks.yaml");
    names.swap_remove(random.below(names.len()))
}

fn image_bump(repository: &mut Repository, random: &mut Random) -> bool {
    let own = repository.applications[pick(repository, random)].clone();
    let file = ["deployment.yaml", "statefulset.yaml"].map(|file| format!("{}/{file}", own.folder));
    let file = file.into_iter().find(|file| repository.tree.0.contains_key(file)).expect("a workload");
    let version = format!(":1.{}'", 1 + random.below(90));
    repository.tree.replace(&file, ":1.0'", &version);
    true
}

fn new_application(repository: &mut Repository, random: &mut Random) -> bool {
    repository.add_application(30 + random.below(60));
    true
}

fn removed_application(repository: &mut Repository, random: &mut Random) -> bool {
    let own = repository.applications[pick(repository, random)].clone();
    repository.tree.remove(&own.whole);
    repository.tree.remove_entry(&own.listed_in, &own.entry);
    let staging = "clusters/staging/apps/kustomization.yaml";
    if repository.tree.entries(staging).contains(&own.entry) {
        repository.tree.remove_entry(staging, &own.entry);
    }
    true
}

fn renamed_file(repository: &mut Repository, random: &mut Random) -> bool {
    let at = pick(repository, random);
    let (folder, file) = (repository.applications[at].folder.clone(), manifest(repository, at, random));
    let renamed = format!("the-{file}");
    repository.tree.rename(&format!("{folder}/{file}"), &format!("{folder}/{renamed}"));
    repository.tree.replace(&format!("{folder}/kustomization.yaml"), &format!("- {file}\n"), &format!("- {renamed}\n"));
    true
}

fn removed_object(repository: &mut Repository, random: &mut Random) -> bool {
    let at = pick(repository, random);
    let (folder, file) = (repository.applications[at].folder.clone(), manifest(repository, at, random));
    if file == "namespace.yaml" {
        return false;
    }
    // The file stays in one of four commits.
    if !random.one_in(4) {
        repository.tree.remove(&format!("{folder}/{file}"));
    }
    repository.tree.remove_entry(&format!("{folder}/kustomization.yaml"), &file);
    remove_reference(repository, at, &file);
    true
}

/// Removes what the workload of an application says of the object in one of its files.
fn remove_reference(repository: &mut Repository, at: usize, file: &str) {
    let own = &repository.applications[at];
    let workloads = ["deployment.yaml", "statefulset.yaml"].map(|file| format!("{}/{file}", own.folder));
    let Some(workload) = workloads.into_iter().find(|file| repository.tree.0.contains_key(file)) else { return };
    let name = own.whole.rsplit('/').next().expect("a folder").to_owned();
    match file {
        "configmap.yaml" => repository.tree.replace(&workload, &mounted_settings(&name), ""),
        "pvc.yaml" => repository.tree.replace(&workload, &mounted_claim(&name), ""),
        "serviceaccount.yaml" => {
            repository.tree.replace(&workload, &format!("      serviceAccountName: {name}\n"), "");
        }
        _ => {}
    }
}

fn changed_value(repository: &mut Repository, random: &mut Random) -> bool {
    let folder = repository.applications[pick(repository, random)].folder.clone();
    let value = format!("value: v{}", random.below(1000));
    repository.tree.replace(&format!("{folder}/configmap.yaml"), "value: one", &value);
    true
}

fn moved_directory(repository: &mut Repository, random: &mut Random) -> bool {
    let own = repository.applications[pick(repository, random)].clone();
    let Some((parent, name)) = own.whole.rsplit_once('/') else { return false };
    let moved = [format!("{parent}/{name}-service"), format!("{parent}/more/{name}")].into_iter().nth(random.below(2));
    let moved = moved.expect("one of two");
    let within = moved.strip_prefix(parent).and_then(|path| path.strip_prefix('/')).expect("below the same folder");
    repository.tree.rename(&own.whole, &moved);
    let entry = own.entry.replace(name, within);
    let lists: Vec<String> =
        repository.tree.0.keys().filter(|path| path.ends_with("kustomization.yaml")).cloned().collect();
    for list in lists.iter().filter(|list| !list.starts_with(&moved)) {
        if repository.tree.entries(list).contains(&own.entry) {
            repository.tree.replace(list, &format!("- {}\n", own.entry), &format!("- {entry}\n"));
        }
    }
    if repository.layout == Layout::PerApplication {
        repository.tree.replace(&format!("{moved}/ks.yaml"), &format!("./{}/", own.whole), &format!("./{moved}/"));
    }
    true
}

/// Files with Kustomizations of Flux.
fn owners(tree: &Tree) -> Vec<String> {
    let has_path = |text: &str| text.contains("kustomize.toolkit.fluxcd.io") && text.contains("\n  path: ");
    tree.0.iter().filter(|(_, text)| has_path(text)).map(|(path, _)| path.clone()).collect()
}

/// A letter is missing, or the path of something else is there.
fn mistyped_path(repository: &mut Repository, random: &mut Random) -> bool {
    let files = match random.below(3) {
        0 => owners(&repository.tree),
        _ => vec![format!("{ROOT}/apps.yaml")],
    };
    let file = &files[random.below(files.len())];
    let text = repository.tree.text(file);
    let path = text.lines().find_map(|line| line.strip_prefix("  path: ./")).expect("a path").to_owned();
    let mut folders: Vec<&str> =
        repository.tree.0.keys().filter_map(|path| path.rsplit_once('/')).map(|(folder, _)| folder).collect();
    folders.dedup();
    folders.retain(|folder| *folder != path && !folder.starts_with("components"));
    let other = match random.below(3) {
        0 => folders[random.below(folders.len())].to_owned(),
        _ => {
            let mut letters = path.clone();
            letters.remove(random.below(letters.len()));
            letters
        }
    };
    repository.tree.replace(file, &format!("  path: ./{path}\n"), &format!("  path: ./{other}\n"));
    true
}

/// Picks a kustomization file that lists at least three applications, or of an application with its own Kustomization.
fn pick_list(repository: &Repository, random: &mut Random) -> String {
    let is_own = repository.layout == Layout::PerApplication;
    let tree = &repository.tree;
    let is_list = |path: &&String| {
        let has_applications = repository.applications.iter().any(|own| own.listed_in == **path);
        path.ends_with("kustomization.yaml") && tree.entries(path).len() >= 3 && (is_own || has_applications)
    };
    let mut lists: Vec<String> = tree.0.keys().filter(is_list).cloned().collect();
    lists.swap_remove(random.below(lists.len()))
}

/// The file of the applications, or that of one application.
fn emptied_kustomization(repository: &mut Repository, random: &mut Random) -> bool {
    let list = match random.one_in(2) {
        true => pick_list(repository, random),
        false => format!("{}/kustomization.yaml", repository.applications[pick(repository, random)].folder),
    };
    let head: String = repository.tree.text(&list).lines().take(2).map(|line| format!("{line}\n")).collect();
    let text = match random.below(3) {
        0 => String::new(),
        1 => head,
        _ => format!("{head}resources: []\n"),
    };
    repository.tree.write(&list, text);
    true
}

/// The line `resources:` is lost, with its entries or without.
fn lost_resources(repository: &mut Repository, random: &mut Random) -> bool {
    let list = pick_list(repository, random);
    let with_entries = random.one_in(2);
    let kept = repository.tree.text(&list).lines();
    let kept = kept.filter(|line| *line != "resources:" && !(with_entries && line.starts_with("- ")));
    let text: String = kept.map(|line| format!("{line}\n")).collect();
    repository.tree.write(&list, text);
    true
}

/// A branch with the website of the project, an old branch with few applications, or the branch of another cluster.
fn wrong_branch(repository: &mut Repository, random: &mut Random) -> bool {
    match random.below(3) {
        0 => {
            repository.tree = Tree::default();
            repository.tree.write("index.html", "<html></html>\n");
        }
        1 => {
            let keep = 1 + random.below(3);
            for own in repository.applications.clone().into_iter().skip(keep) {
                repository.tree.remove(&own.whole);
                for list in [own.listed_in.as_str(), "clusters/staging/apps/kustomization.yaml"] {
                    if repository.tree.entries(list).contains(&own.entry) {
                        repository.tree.remove_entry(list, &own.entry);
                    }
                }
            }
        }
        _ => repository.tree.rename("clusters/prod", "clusters/other"),
    }
    true
}

/// A folder gets another name and no path follows, or every object gets another name.
fn mass_rename(repository: &mut Repository, random: &mut Random) -> bool {
    match random.below(3) {
        0 => {
            let folder = if repository.layout == Layout::Overlays { "clusters/prod/apps" } else { "apps" };
            repository.tree.rename(folder, "applications");
        }
        1 => {
            for text in repository.tree.0.values_mut().filter(|text| !text.contains("toolkit.fluxcd.io/v1")) {
                *text = text.replace("name: app-", "name: new-app-");
            }
        }
        _ => {
            for text in repository.tree.0.values_mut().filter(|text| !text.contains("toolkit.fluxcd.io/v1")) {
                *text = text.replace("  name: app-", "  name: shop-app-").replace("app-", "service-");
            }
        }
    }
    true
}

/// The Kustomization of the applications is dropped, with its folder or without.
fn dropped_parent(repository: &mut Repository, random: &mut Random) -> bool {
    repository.tree.remove(&format!("{ROOT}/apps.yaml"));
    if random.one_in(2) {
        repository.tree.remove("apps");
        repository.tree.remove("clusters/prod/apps");
    }
    true
}
