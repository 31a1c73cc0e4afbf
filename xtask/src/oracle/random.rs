//! Random repositories and random edits, the same for the same seed.

use std::fmt;

use super::scenarios::Scenario;

/// A small generator of numbers (SplitMix64): reproducible everywhere, and good enough to pick with.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % sides.max(1) as u64) as usize
    }

    fn one_in(&mut self, sides: usize) -> bool {
        self.roll(sides) == 0
    }
}

/// A Kustomization of the repository.
#[derive(Clone)]
struct Unit {
    name: String,
    parent: Option<usize>,
    directory: String,
    options: Vec<String>,
    objects: Vec<String>,
    gone: bool,
}

/// Case number `case` of a seed.
pub(super) fn scenario(seed: u64, case: u64) -> Scenario {
    let mut dice = Dice(seed.wrapping_mul(1_000_003).wrapping_add(case));
    let mut units = vec![Unit {
        name: "root".into(),
        parent: None,
        directory: "root".into(),
        options: vec![],
        objects: vec!["cm vars v=x".into(), "cm anchor".into()],
        gone: false,
    }];
    for number in 1..2 + dice.roll(3) {
        let parent = dice.roll(units.len());
        let unit = Unit {
            name: format!("k{number}"),
            parent: Some(parent),
            directory: format!("d{number}"),
            options: options(&mut dice),
            objects: objects(&mut dice, number),
            gone: false,
        };
        let substituted = unit.options.iter().any(|option| option.starts_with("var:") || option == "from=vars");
        let named = substituted.then(|| format!("cm v{number}-${{v}}"));
        units.push(Unit { objects: unit.objects.into_iter().chain(named).collect(), ..unit });
    }
    let flags: &[&str] = if dice.one_in(3) { &["--diff"] } else { &[] };
    let before = lines(&units);
    let mut live = vec![];
    if dice.one_in(6) {
        let unit = 1 + dice.roll(units.len() - 1);
        live.push(format!(
            "patch kustomization {} -n @ --type=merge --field-manager=flux -p {{\"spec\":{{\"suspend\":true}}}}",
            units[unit].name
        ));
    }
    if dice.one_in(6) {
        live.push(
            "annotate configmap anchor -n @ --field-manager=someone kustomize.toolkit.fluxcd.io/prune=disabled".into(),
        );
    }
    for _ in 0..1 + dice.roll(3) {
        mutate(&mut dice, &mut units, !flags.is_empty());
    }
    let new = lines(&units);
    let path = |line: &String| line.split(':').next().unwrap_or_default().to_owned();
    let kept: Vec<String> = new.iter().map(path).collect();
    let mut after: Vec<String> =
        before.iter().map(path).filter(|file| !kept.contains(file)).map(|file| format!("-{file}")).collect();
    after.extend(new.into_iter().filter(|line| !before.contains(line)));
    Scenario { name: format!("seed-{seed}-case-{case}"), before, live, after, flags, ..Scenario::default() }
}

fn options(dice: &mut Dice) -> Vec<String> {
    let mut options = vec![];
    match dice.roll(10) {
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

fn objects(dice: &mut Dice, unit: usize) -> Vec<String> {
    let mut objects = vec![];
    for number in 0..1 + dice.roll(4) {
        let name = format!("o{unit}{number}");
        objects.push(match dice.roll(8) {
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

fn mutate(dice: &mut Dice, units: &mut Vec<Unit>, asks: bool) {
    let at = dice.roll(units.len());
    match dice.roll(11) {
        // An object goes, comes, or moves.
        0 | 1 if units[at].objects.len() > 1 => drop(units[at].objects.pop()),
        2 => units[at].objects.push(format!("cm fresh{at}")),
        3 => {
            let to = dice.roll(units.len());
            if to != at && units[at].objects.len() > 1 {
                let moved = units[at].objects.pop();
                units[to].objects.extend(moved);
            }
        }
        // A Kustomization goes, with or without its directory.
        4 if at > 0 => units[at].gone = true,
        5 if at > 0 && units.iter().all(|unit| unit.parent != Some(at)) => {
            units[at].gone = true;
            units[at].objects.clear();
        }
        // It is renamed, its options change, or it is emptied.
        6 if at > 0 => units[at].name = format!("renamed{at}"),
        7 if at > 0 => units[at].options = options(dice),
        8 if at > 0 => units[at].objects = vec![],
        // The variables change, or what cannot be changed, where the server is asked about that.
        9 => edit(&mut units[0].objects, "cm vars v=x", |_| "cm vars v=y".to_owned()),
        10 if asks => edit(&mut units[at].objects, "deploy ", |object| format!("{object} selects=other")),
        _ => {
            let number = units.len();
            let objects = objects(dice, number);
            let parent = Some(at);
            units.push(Unit {
                name: format!("k{number}"),
                parent,
                directory: format!("d{number}"),
                options: vec![],
                objects,
                gone: false,
            });
        }
    }
}

/// Changes the first object that begins so.
fn edit(objects: &mut [String], beginning: &str, change: impl Fn(&str) -> String) {
    if let Some(object) = objects.iter_mut().find(|object| object.starts_with(beginning)) {
        *object = change(object);
    }
}

/// A repository as lines; a directory keeps a file without manifests, so that it always exists.
fn lines(units: &[Unit]) -> Vec<String> {
    let mut lines = vec![];
    for unit in units {
        lines.push(format!("{}/README.md:: {}", unit.directory, unit.directory));
        for object in &unit.objects {
            let name = object.split(' ').nth(1).unwrap_or_default().replace(['@', ':', '$', '{', '}'], "");
            lines.push(format!("{}/{name}.yaml: {object}", unit.directory));
        }
    }
    for unit in units.iter().filter(|unit| !unit.gone) {
        if let Some(parent) = unit.parent {
            let text = format!("ks {} ./{} {}", unit.name, unit.directory, unit.options.join(" "));
            lines.push(format!("{}/ks-{}.yaml: {}", units[parent].directory, unit.directory, text.trim_end()));
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
