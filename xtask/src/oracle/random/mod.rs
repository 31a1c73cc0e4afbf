//! Random repositories and edits. Equal seeds give equal scenarios.

mod changes;
mod conditions;
mod fleets;
mod layouts;

use std::collections::BTreeMap;

use super::idle::ON_REQUEST;
use super::scenarios::{Checkout, Scenario};

/// SplitMix64, a small generator of reproducible random numbers.
pub(super) struct Random(u64);

impl Random {
    /// Returns the numbers of one case of a seed.
    pub(super) fn of(seed: u64, case: u64) -> Self {
        Self(seed.wrapping_mul(1_000_003).wrapping_add(case))
    }

    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % limit.max(1) as u64) as usize
    }

    pub(super) fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// A repository while it is generated.
#[derive(Default)]
struct Repository {
    apps: Vec<Application>,
    /// Files beside those of the applications: what follows the path in the short notation of [`super::manifest`].
    files: BTreeMap<String, String>,
    /// Changes of what the layouts added.
    edits: Vec<Edit>,
}

/// A Kustomization of the repository.
#[derive(Clone)]
struct Application {
    name: String,
    parent: Option<usize>,
    directory: String,
    /// Path in the spec, if it is not the directory.
    path: Option<String>,
    options: Vec<String>,
    objects: Vec<String>,
    removed: bool,
}

/// A change of something that a layout added. An empty text is nothing: it is added or removed.
enum Edit {
    /// Replaces an option of the application of this number.
    Option(usize, String, String),
    /// Replaces an object of the application of this number.
    Object(usize, String, String),
    /// Replaces a file of the repository.
    File(String, String),
}

/// Returns case number `case` of a seed.
pub(super) fn scenario(seed: u64, case: u64) -> Scenario {
    let mut random = Random::of(seed, case);
    let mut repository = Repository::new(&mut random);
    layouts::add(&mut random, &mut repository);
    if random.one_in(10) {
        conditions::make_slow(&mut random, &mut repository);
    }
    let before = repository.lines();
    let between = if random.one_in(6) { failed_commit(&mut random, &mut repository) } else { vec![] };
    let published = repository.lines();
    let mut live = vec![];
    if random.one_in(6) {
        let app = 1 + random.below(repository.apps.len() - 1);
        live.push(format!(
            "patch kustomization {} -n @ --type=merge --field-manager=flux -p {{\"spec\":{{\"suspend\":true}}}}",
            repository.apps[app].name
        ));
    }
    if random.one_in(6) {
        live.push(
            "annotate configmap anchor -n @ --field-manager=someone kustomize.toolkit.fluxcd.io/prune=disabled".into(),
        );
    }
    for _ in 0..1 + random.below(3) {
        changes::change(&mut random, &mut repository);
    }
    let after = edit(&published, &repository.lines());
    let flags = if random.one_in(8) { vec!["--diff".to_owned()] } else { vec![] };
    // Half of the plans know what was published.
    let checkout = if random.one_in(2) { Checkout::None } else { random.pick(&[Checkout::Edited, Checkout::Branch]) };
    Scenario {
        name: format!("seed-{seed}-case-{case}"),
        before,
        between,
        live,
        after,
        checkout,
        flags,
        may_be_incomplete: true,
        is_on_request: true,
        ..Scenario::default()
    }
}

/// Makes the repository fail, half of the time only until the next commit, and returns the edit.
fn failed_commit(random: &mut Random, repository: &mut Repository) -> Vec<String> {
    let (before, at) = (repository.lines(), random.below(repository.apps.len()));
    let broken = random.pick(&conditions::REFUSED).replace("refused", "broken");
    repository.apps[at].objects.push(broken.clone());
    if random.one_in(2) {
        changes::change(random, repository);
    }
    let edit = edit(&before, &repository.lines());
    if random.one_in(2) {
        repository.apps[at].objects.retain(|object| *object != broken);
    }
    edit
}

/// Returns the lines that change one repository into another.
fn edit(before: &[String], new: &[String]) -> Vec<String> {
    let kept: Vec<&str> = new.iter().map(|line| path(line)).collect();
    let removed = before.iter().map(|line| path(line)).filter(|file| !kept.contains(file));
    let mut lines: Vec<String> = removed.map(|file| format!("-{file}")).collect();
    lines.extend(new.iter().filter(|line| !before.contains(line)).cloned());
    lines
}

/// Returns the path of a line in the short notation of [`super::manifest`].
fn path(line: &str) -> &str {
    line.split(':').next().unwrap_or_default()
}

impl Repository {
    /// Returns a repository with a root and one to three further Kustomizations.
    fn new(random: &mut Random) -> Self {
        let mut own = Self::default();
        own.apps.push(Application {
            name: "root".into(),
            parent: None,
            directory: "root".into(),
            path: None,
            options: vec![],
            objects: vec!["cm vars v=x".into(), "cm anchor".into()],
            removed: false,
        });
        for _ in 0..1 + random.below(3) {
            let (parent, number) = (random.below(own.apps.len()), own.apps.len());
            let (options, mut objects) = (options(random), objects(random, number));
            if options.iter().any(|option| option.starts_with("var:") || option == "from=vars") {
                objects.push(format!("cm v{number}-${{v}}"));
            }
            own.add(parent, options, objects);
        }
        own
    }

    /// Adds a Kustomization and returns its number.
    fn add(&mut self, parent: usize, options: Vec<String>, objects: Vec<String>) -> usize {
        let number = self.apps.len();
        self.apps.push(Application {
            name: format!("k{number}"),
            parent: Some(parent),
            directory: format!("d{number}"),
            path: None,
            options,
            objects,
            removed: false,
        });
        number
    }

    /// Returns true if an object has this text.
    fn has(&self, text: &str) -> bool {
        self.apps.iter().flat_map(|app| &app.objects).any(|object| object.contains(text))
    }

    /// Returns the number of a Kustomization below the root.
    fn pick(&self, random: &mut Random) -> usize {
        1 + random.below(self.apps.len() - 1)
    }

    /// Returns the repository as lines. Each directory has a file without manifests, so that it always exists.
    fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.files.iter().map(|(path, text)| format!("{path}:{text}")).collect();
        for app in &self.apps {
            lines.push(format!("{}/README.md:: {}", app.directory, app.directory));
            for object in &app.objects {
                let words: Vec<&str> = object.split(' ').take(2).collect();
                let name = words.join("-").replace(['@', ':', '$', '{', '}'], "");
                lines.push(format!("{}/{name}.yaml: {object}", app.directory));
            }
        }
        for (number, app) in self.apps.iter().enumerate().filter(|(_, app)| !app.removed) {
            if let Some(parent) = app.parent {
                let path = app.path.as_ref().unwrap_or(&app.directory);
                let text = format!("ks {} ./{path} {ON_REQUEST} {}", app.name, app.options.join(" "));
                lines.push(format!("{}/ks-{number}.yaml: {}", self.apps[parent].directory, text.trim_end()));
            }
        }
        lines
    }
}

fn options(random: &mut Random) -> Vec<String> {
    let mut options = vec![];
    match random.below(10) {
        0 => options.push("prune=false".into()),
        1 => options.push("deletionPolicy=Orphan".into()),
        2 => options.push("deletionPolicy=Delete".into()),
        3 => options.push("var:v=x".into()),
        4 => options.push("namePrefix=pre-".into()),
        5 => options.push("from=vars".into()),
        6 => options.push("force=true".into()),
        _ => {}
    }
    options
}

fn objects(random: &mut Random, app: usize) -> Vec<String> {
    let mut objects = vec![];
    for number in 0..1 + random.below(4) {
        let name = format!("o{app}{number}");
        objects.push(match random.below(8) {
            0 => format!("cm {name} prune=disabled"),
            1 => format!("ns @-{name} | cm in-{name} ns=@-{name}"),
            2 => format!("cr @-{name}"),
            3 => format!("sa {name}"),
            4 => format!("deploy {name}"),
            _ => format!("cm {name}"),
        });
    }
    objects
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::manifest;
    use super::*;

    #[test]
    fn every_case_is_a_repository_with_a_change() {
        let mut unchanged = 0;
        for case in 0..2_000 {
            let scenario = scenario(1, case);
            let mut files = manifest::Files::new();
            for lines in [&scenario.before, &scenario.between, &scenario.after] {
                manifest::edit(&mut files, lines, "s001x").unwrap_or_else(|error| panic!("{scenario}{error:#}"));
                let paths: BTreeSet<&str> = lines.iter().map(|line| path(line)).collect();
                assert_eq!(paths.len(), lines.len(), "a path is written twice\n{scenario}");
            }
            unchanged += usize::from(scenario.after.is_empty());
        }
        assert!(unchanged < 100, "{unchanged} of 2,000 change nothing");
    }
}
