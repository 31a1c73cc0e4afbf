//! Scenarios: a repository, an edit and the expected rows of the plan. The files in `xtask/scenarios` have those that are
//! written by hand.
//!
//! A line without indentation is the name of a scenario, and an indented line has `KEY: VALUE`. Keys that occur several times
//! have one line of the notation of [`super::manifest`] or one kubectl command each; rows are separated by a comma, flags by
//! a space. `#` begins a comment. A scenario is printed in the same language, so a random one can become a written one.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result, bail};

const FILES: [&str; 15] = [
    include_str!("../../scenarios/changes.txt"),
    include_str!("../../scenarios/rules.txt"),
    include_str!("../../scenarios/containers.txt"),
    include_str!("../../scenarios/controllers.txt"),
    include_str!("../../scenarios/dependencies.txt"),
    include_str!("../../scenarios/conditions.txt"),
    include_str!("../../scenarios/runs.txt"),
    include_str!("../../scenarios/changed-rules.txt"),
    include_str!("../../scenarios/builds.txt"),
    include_str!("../../scenarios/objects.txt"),
    include_str!("../../scenarios/updates.txt"),
    include_str!("../../scenarios/workloads.txt"),
    include_str!("../../scenarios/references.txt"),
    include_str!("../../scenarios/releases.txt"),
    include_str!("../../scenarios/health.txt"),
];

/// Place in which the plan finds the edit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checkout {
    /// In the work tree of the commit that is published.
    #[default]
    Edited,
    /// In a commit on a branch, after a history.
    Branch,
    /// In a plain directory, so that nothing is known of what was published.
    None,
}

impl Checkout {
    /// Each with its word in a scenario.
    pub(super) const ALL: [(Self, &str); 3] =
        [(Self::Edited, "edited"), (Self::Branch, "branch"), (Self::None, "none")];
}

impl FromStr for Checkout {
    type Err = anyhow::Error;

    fn from_str(word: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|(_, own)| *own == word);
        found.map(|(checkout, _)| checkout).with_context(|| format!("no checkout is {word:?}"))
    }
}

impl fmt::Display for Checkout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::ALL.iter().find(|(own, _)| own == self).map_or("", |(_, word)| word))
    }
}

/// A repository, an edit of it, and the expected rows of the plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scenario {
    /// Unique name for the command line.
    pub name: String,
    /// Objects to apply with kubectl before the repository is published.
    pub cluster: Vec<String>,
    /// Files of the repository. The Kustomization `root` builds `./root`.
    pub before: Vec<String>,
    /// Edit that is published after the repository, such as a commit that fails.
    pub between: Vec<String>,
    /// kubectl commands to run after the repository is published. `apply OBJECT` has the notation of `cluster`. After one that
    /// begins with `unseen`, no HelmRelease is asked to reconcile before the edit is published.
    pub live: Vec<String>,
    /// Edit to plan and then publish.
    pub after: Vec<String>,
    /// Place in which the plan finds the edit.
    pub checkout: Checkout,
    /// Additional flags of `prune --plan`.
    pub flags: Vec<String>,
    /// Flags of kustomize-controller. Scenarios with the same flags share a cluster.
    pub controller: Vec<String>,
    /// Further sources of the same repository, as `KIND/NAME`.
    pub sources: Vec<String>,
    /// The plan says that it is incomplete.
    pub incomplete: bool,
    /// The plan may say that it is incomplete, as in a random repository.
    pub may_be_incomplete: bool,
    /// Its Kustomizations reconcile on request, not at short intervals, so that more scenarios can run at the same time.
    pub is_on_request: bool,
    /// What the controller must have done to objects, as `ACTION KIND/NAME`, where the plan has no row.
    pub happens: Vec<String>,
    /// Rows that the plan must contain, as `ACTION KIND/NAME`.
    pub expect: Vec<String>,
    /// The deleted objects that something still needs, as `KIND/NAME`, or the word `nothing`. Without any, that is not checked.
    pub needed: Vec<String>,
}

/// Returns every written scenario.
///
/// # Errors
/// A file has a line that is not in the language.
pub fn all() -> Result<Vec<Scenario>> {
    Ok(FILES.into_iter().map(read).collect::<Result<Vec<_>>>()?.concat())
}

/// Reads scenarios in the notation of `xtask/scenarios`.
///
/// # Errors
/// A line is not in the language.
pub(super) fn read(text: &str) -> Result<Vec<Scenario>> {
    let mut scenarios: Vec<Scenario> = vec![];
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(line) = line.strip_prefix("  ") {
            let scenario = scenarios.last_mut().with_context(|| format!("{line:?} is before the first name"))?;
            scenario.add(line).with_context(|| format!("scenario {}", scenario.name))?;
        } else {
            scenarios.push(Scenario { name: line.to_owned(), ..Scenario::default() });
        }
    }
    Ok(scenarios)
}

impl Scenario {
    /// Returns true if helm-controller or flux-operator has a part in it.
    pub(super) fn has_releases(&self) -> bool {
        let lines = [&self.cluster, &self.before, &self.between, &self.after];
        let mut words = lines.into_iter().flatten().flat_map(|line| line.split([' ', ';']));
        words.any(|word| matches!(word, "hr" | "rset" | "ResourceSet" | "HelmRelease"))
    }

    /// Returns true if its checkout is the content of the one source, so that `plan DIR` needs no flag.
    pub(super) fn has_own_checkout(&self) -> bool {
        self.checkout != Checkout::None && self.flags.is_empty() && self.sources.is_empty()
    }

    /// Adds what an indented line says.
    fn add(&mut self, line: &str) -> Result<()> {
        if line == "incomplete" {
            self.incomplete = true;
            return Ok(());
        }
        let (key, value) = line.split_once(": ").with_context(|| format!("{line:?} has no key"))?;
        match key {
            "cluster" => self.cluster.push(value.to_owned()),
            "before" => self.before.push(value.to_owned()),
            "between" => self.between.push(value.to_owned()),
            "live" => self.live.push(value.to_owned()),
            "after" => self.after.push(value.to_owned()),
            "checkout" => self.checkout = value.parse()?,
            "flags" => self.flags = list(value, " "),
            "controller" => self.controller = list(value, " "),
            "sources" => self.sources = list(value, " "),
            "happens" => self.happens = list(value, ", "),
            "expect" => self.expect = list(value, ", "),
            "needed" => self.needed = list(value, ", "),
            _ => bail!("a scenario has no {key:?}"),
        }
        Ok(())
    }
}

fn list(value: &str, separator: &str) -> Vec<String> {
    value.split(separator).map(str::to_owned).collect()
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.name)?;
        write_list(f, "controller", &self.controller, " ")?;
        write_list(f, "sources", &self.sources, " ")?;
        let lines = [&self.cluster, &self.before, &self.between, &self.live, &self.after];
        for (key, lines) in ["cluster", "before", "between", "live", "after"].into_iter().zip(lines) {
            lines.iter().try_for_each(|line| writeln!(f, "  {key}: {line}"))?;
        }
        if self.checkout != Checkout::default() {
            writeln!(f, "  checkout: {}", self.checkout)?;
        }
        write_list(f, "flags", &self.flags, " ")?;
        if self.incomplete {
            writeln!(f, "  incomplete")?;
        }
        write_list(f, "happens", &self.happens, ", ")?;
        write_list(f, "expect", &self.expect, ", ")?;
        write_list(f, "needed", &self.needed, ", ")
    }
}

fn write_list(f: &mut fmt::Formatter<'_>, key: &str, items: &[String], separator: &str) -> fmt::Result {
    if items.is_empty() { Ok(()) } else { writeln!(f, "  {key}: {}", items.join(separator)) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::manifest::{self, Files};
    use super::*;

    #[test]
    fn written_scenarios_are_read_as_they_are_printed() {
        let printed: Vec<String> = FILES.iter().map(|text| read(text).unwrap()).map(print).collect();
        let written: Vec<String> = FILES.iter().map(|text| text.split_once("\n\n").unwrap().1.to_owned()).collect();
        assert_eq!(printed, written);
    }

    fn print(scenarios: Vec<Scenario>) -> String {
        scenarios.iter().map(Scenario::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn written_scenarios_have_names_of_their_own_and_edits_in_the_notation() {
        let all = all().unwrap();
        let names: BTreeSet<&str> = all.iter().map(|scenario| scenario.name.as_str()).collect();
        assert_eq!(names.len(), all.len());
        for scenario in &all {
            let mut files = Files::new();
            for lines in [&scenario.before, &scenario.between, &scenario.after] {
                manifest::edit(&mut files, lines, "s001x").unwrap_or_else(|error| panic!("{scenario}{error:#}"));
            }
        }
    }

    #[test]
    fn a_line_that_is_not_in_the_language_is_refused() {
        for text in ["  before: a: cm a", "a\n  nothing", "a\n  befor: a: cm a"] {
            assert!(read(text).is_err(), "{text:?}");
        }
    }
}
