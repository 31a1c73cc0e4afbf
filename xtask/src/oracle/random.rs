//! Random repositories and edits. Equal seeds give equal scenarios.

use std::fmt;

use super::scenarios::Scenario;

/// SplitMix64, a small generator of reproducible random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % limit.max(1) as u64) as usize
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}

/// A Kustomization of the repository.
#[derive(Clone)]
struct Application {
    name: String,
    parent: Option<usize>,
    directory: String,
    options: Vec<String>,
    objects: Vec<String>,
    removed: bool,
}

/// Returns case number `case` of a seed.
pub(super) fn scenario(seed: u64, case: u64) -> Scenario {
    let mut random = Random(seed.wrapping_mul(1_000_003).wrapping_add(case));
    let mut apps = vec![Application {
        name: "root".into(),
        parent: None,
        directory: "root".into(),
        options: vec![],
        objects: vec!["cm vars v=x".into(), "cm anchor".into()],
        removed: false,
    }];
    for number in 1..2 + random.below(3) {
        let parent = random.below(apps.len());
        let app = Application {
            name: format!("k{number}"),
            parent: Some(parent),
            directory: format!("d{number}"),
            options: options(&mut random),
            objects: objects(&mut random, number),
            removed: false,
        };
        let substituted = app.options.iter().any(|option| option.starts_with("var:") || option == "from=vars");
        let named = substituted.then(|| format!("cm v{number}-${{v}}"));
        apps.push(Application { objects: app.objects.into_iter().chain(named).collect(), ..app });
    }
    let flags: &[&str] = if random.one_in(3) { &["--diff"] } else { &[] };
    let before = lines(&apps);
    let mut live = vec![];
    if random.one_in(6) {
        let app = 1 + random.below(apps.len() - 1);
        live.push(format!(
            "patch kustomization {} -n @ --type=merge --field-manager=flux -p {{\"spec\":{{\"suspend\":true}}}}",
            apps[app].name
        ));
    }
    if random.one_in(6) {
        live.push(
            "annotate configmap anchor -n @ --field-manager=someone kustomize.toolkit.fluxcd.io/prune=disabled".into(),
        );
    }
    for _ in 0..1 + random.below(3) {
        change(&mut random, &mut apps);
    }
    let new = lines(&apps);
    let kept: Vec<&str> = new.iter().map(|line| path(line)).collect();
    let removed = before.iter().map(|line| path(line)).filter(|file| !kept.contains(file));
    let mut after: Vec<String> = removed.map(|file| format!("-{file}")).collect();
    after.extend(new.into_iter().filter(|line| !before.contains(line)));
    Scenario { name: format!("seed-{seed}-case-{case}"), before, live, after, flags, ..Scenario::default() }
}

/// Returns the path of a line in the short notation of [`super::manifest`].
fn path(line: &str) -> &str {
    line.split(':').next().unwrap_or_default()
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

fn change(random: &mut Random, apps: &mut Vec<Application>) {
    let at = random.below(apps.len());
    match random.below(11) {
        // Remove, add or move an object.
        0 | 1 if apps[at].objects.len() > 1 => drop(apps[at].objects.pop()),
        2 => apps[at].objects.push(format!("cm fresh{at}")),
        3 => {
            let to = random.below(apps.len());
            if to != at && apps[at].objects.len() > 1 {
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
            let objects = objects(random, number);
            let parent = Some(at);
            apps.push(Application {
                name: format!("k{number}"),
                parent,
                directory: format!("d{number}"),
                options: vec![],
                objects,
                removed: false,
            });
        }
    }
}

/// Changes the first object that begins with `beginning`.
fn edit(objects: &mut [String], beginning: &str, change: impl Fn(&str) -> String) {
    if let Some(object) = objects.iter_mut().find(|object| object.starts_with(beginning)) {
        *object = change(object);
    }
}

/// Returns a repository as lines. Each directory has a file without manifests, so that it always exists.
fn lines(apps: &[Application]) -> Vec<String> {
    let mut lines = vec![];
    for app in apps {
        lines.push(format!("{}/README.md:: {}", app.directory, app.directory));
        for object in &app.objects {
            let name = object.split(' ').nth(1).unwrap_or_default().replace(['@', ':', '$', '{', '}'], "");
            lines.push(format!("{}/{name}.yaml: {object}", app.directory));
        }
    }
    for app in apps.iter().filter(|app| !app.removed) {
        if let Some(parent) = app.parent {
            let text = format!("ks {} ./{} {}", app.name, app.directory, app.options.join(" "));
            lines.push(format!("{}/ks-{}.yaml: {}", apps[parent].directory, app.directory, text.trim_end()));
        }
    }
    lines
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {}", self.name, self.flags.join(" "))?;
        for (title, lines) in [("before", &self.before), ("live", &self.live), ("after", &self.after)] {
            lines.iter().try_for_each(|line| writeln!(f, "  {title}: {line}"))?;
        }
        Ok(())
    }
}
