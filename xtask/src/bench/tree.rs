//! `cargo xtask bench --tree`: measures the plan of a commit, compared with the kustomize runs that it needs.
//!
//! A repository of many applications, each with a Kustomization and a kustomization.yaml, is applied in a real cluster. One
//! parent applies all Kustomizations. In some applications, a commit removes one object and changes another. The baseline builds every
//! directory of the new tree, and the changed directories of the old tree.

use std::fs;
use std::path::Path;

use anyhow::Result;

use super::commit::{Commit, in_parallel, kustomization};
use super::measure::Contender;
use super::report;
use crate::cluster::{Flux, Options};
use crate::controlplane::bin;

/// Applications that the commit changes.
const CHANGED: usize = 5;

/// Size of the repository.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub applications: usize,
    /// Objects of one application, including its namespace.
    pub objects: usize,
    rounds: usize,
    /// Maximum median of the plan with a filled cache, in seconds.
    target: f64,
}

impl Size {
    /// 2,000 objects.
    pub(crate) const USUAL: Self = Self { applications: 50, objects: 40, rounds: 7, target: 0.5 };

    /// Returns the size of a fleet with this number of Kustomizations.
    pub(crate) fn fleet(applications: usize) -> Self {
        Self { applications, objects: 20, rounds: 3, target: 1.0 }
    }
}

/// Measures the plan with an empty and with a filled build cache.
pub(crate) fn run(size: Size) -> Result<()> {
    let Size { applications, objects, rounds, target } = size;
    let commit = Commit::new(Options { flux: Flux::Kustomize, ..Options::default() })?;
    write(&commit.old, size)?;
    commit.apply("./root", "kustomizations", applications + 1)?;
    (0..CHANGED).try_for_each(|number| change(&commit.new, number, size))?;
    let all = (0..applications).map(|number| commit.new.join(directory(number))).chain([commit.new.join("root")]);
    let before = (0..CHANGED).map(|number| commit.old.join(directory(number)));
    let kustomize = format!("{} kustomize --load-restrictor LoadRestrictionsNone", bin("kubectl").display());
    let builds: Vec<String> =
        all.chain(before).map(|directory| format!("exec {kustomize} {}", directory.display())).collect();
    let alone = Contender::new('k', "kustomize alone", in_parallel(&builds, &commit.new));
    let times = commit.measure(alone, &[], rounds)?;
    report::table(&format!("{applications} applications of {objects} objects, {CHANGED} changed"), &times);
    let [build, inventory, plan, cached] = ['k', 'i', 'p', 'w'].map(|letter| times.median(letter));
    report::at_most("(p - i) / k, plan beside its builds", 1.3, (plan - inventory) / build);
    report::at_most("w, with a filled cache, in s", target, cached);
    commit.report_peaks_and_requests(&times)
}

fn directory(number: usize) -> String {
    format!("apps/app-{number:03}")
}

fn write(tree: &Path, size: Size) -> Result<()> {
    let root: Vec<String> = (0..size.applications)
        .map(|number| kustomization(&format!("app-{number:03}"), &format!("./{}", directory(number))))
        .collect();
    fs::create_dir_all(tree.join("root"))?;
    fs::write(tree.join("root/applications.yaml"), root.join("---\n"))?;
    fs::write(tree.join("root/kustomization.yaml"), "resources: [applications.yaml]\n")?;
    (0..size.applications).try_for_each(|number| application(tree, number, size.objects))
}

/// Removes the last object of an application, and changes a value of the first ConfigMap.
fn change(tree: &Path, number: usize, size: Size) -> Result<()> {
    application(tree, number, size.objects - 1)?;
    let file = tree.join(directory(number)).join("objects.yaml");
    let text = fs::read_to_string(&file)?;
    fs::write(&file, text.replacen("number: \"1\"", "number: \"changed\"", 1))?;
    Ok(())
}

fn application(tree: &Path, number: usize, objects: usize) -> Result<()> {
    let (folder, name) = (tree.join(directory(number)), format!("app-{number:03}"));
    fs::create_dir_all(&folder)?;
    let namespace = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n");
    let objects = (1..objects).map(|object| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: config-{object:02}, namespace: {name}, labels: {{app: {name}}}}}\n\
             data: {{url: \"https://{name}.example.com\", number: \"{object}\"}}\n"
        )
    });
    let text: Vec<String> = std::iter::once(namespace).chain(objects).collect();
    fs::write(folder.join("objects.yaml"), text.join("---\n"))?;
    let overlay = format!("resources: [objects.yaml]\ncommonAnnotations: {{team: {name}}}\n");
    fs::write(folder.join("kustomization.yaml"), overlay)?;
    Ok(())
}
