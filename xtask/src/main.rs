//! `cargo xtask TASK`: runs a task and returns its exit code.

use std::process::ExitCode;

use anyhow::{Result, bail};
use xtask::{
    Usage, actions, bench, browser, cluster, controlplane, demo, dependencies, dist, fuzz, leaks, man, mutants, oracle,
    picture, record, say, schemas, shells, test,
};

const USAGE: &str = "\
usage: cargo xtask TASK

  check                                      the fast tier: format, lints, tests without a cluster; needs Rust and git
  test                                       the fast tier, then the full one: licences, and tests on real programs
  examples                                   test the alert rules and the Rego policy with promtool and opa; needs Go
  advisories                                 fetch the known vulnerabilities of crates, and check the dependencies
  dist [OS/ARCH…]                            build the archives of a release, and manifests with their sums (default: this machine)
  dist manifests                             write the manifests of a release with an archive of every platform
  dist sign KEY                              sign the archives with a key in PEM, and write their provenance
  dist templates                             write plugin.yaml and .krew.yaml again
  dist version                               print the version of the next release
  demo                                       run the reading commands on the recorded cluster; needs no cluster
  man                                        write the man pages again
  schemas                                    write the JSON Schemas in docs/schemas again
  controlplane [NAME…]                       build the programs of a test cluster (default: all)
  cluster up --dir D [--flux[=all|crds]]     start a cluster; it runs until `cluster down`
  cluster publish --dir D KIND/NS/NAME=PATH  make PATH the artifact of a source, and print the revision
  cluster down --dir D                       stop the cluster
  bench [--objects N] [--pairs N] [--keep]   fill a cluster and measure how fast it is read (default: 13000 objects, 15 pairs)
  bench --tree [--kustomizations N]          measure the plan of a commit: 50 Kustomizations with 2000 objects, or N of 20
  bench --kustomizations N                   measure get, suspend and resume of N Kustomizations
  bench --releases N                         measure the plan of a commit that changes 3 of N HelmReleases
  bench --prune N                            measure the deletion of N objects, one after another and eight at a time
  oracle [--dir D] [NAME…]                   compare plans with kustomize-controller, in all scenarios or in those named
  oracle [--dir D] --cases N [--seed S]      the same with random repositories and edits
  oracle … --mutations N [--seed S] [NAME…]  the same with written scenarios of which one line is changed
  oracle … --checkout edited|branch|none|each  the same with the edit in a work tree, on a branch, in no checkout, in each
  oracle --file PATH …                       the same with scenarios of a file, such as one that was printed
  oracle … --races N                         repeat scenarios with races N times, to see both results
  scoreboard [NAME…]                         compare flux, flate and plans with what the controller deletes, in written scenarios
  scoreboard --export DIR                    write the scenarios as files, for the tests of other programs
  browser                                    use the pages of `-o html` in Chromium; needs Node and Chromium
  mutants [--shard K/N] [FILE…]              look for rules of deletions that no test checks
  leaks [--cases N [--first M]]              search every output for a value of a Secret, in N random changes (default: 10000)
  fuzz [--seconds N] [TARGET…]               search for input that breaks a reader, in all targets or in those named
  actions [template|repository]              run action/ and ci/ by act and gitlab-ci-local; copy ci/plan.sh to ci/templates;
                                             or write a repository that has the action alone
  shells                                     complete in bash, zsh and fish, and lint the man pages; needs Debian
  picture                                    record the plan of the demo again, and draw it as docs/plan.svg
  record                                     run the story of the demo on a real cluster, and record it again";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match dispatch(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<Usage>() => {
            say(USAGE);
            ExitCode::from(2)
        }
        Err(error) => {
            say(format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Runs the task that `words` name. The error is [`Usage`] if there is no such task.
fn dispatch(words: &[&str]) -> Result<()> {
    match words {
        ["controlplane", names @ ..] => controlplane::command(names),
        ["oracle", rest @ ..] => oracle::command(rest),
        ["scoreboard", names @ ..] => oracle::scoreboard(names),
        ["cluster", rest @ ..] => cluster::command::dispatch(rest),
        ["advisories"] => dependencies::advisories(),
        ["fuzz", rest @ ..] => fuzz::command(rest),
        ["dist", rest @ ..] => dist::command(rest),
        ["demo"] => demo::run(),
        ["check"] => test::check(),
        ["test"] => test::run(),
        ["examples"] => test::examples(),
        ["bench", rest @ ..] => bench::dispatch(rest),
        ["browser"] => browser::run(),
        ["man"] => man::run(),
        ["schemas"] => schemas::run(),
        ["leaks", words @ ..] => leaks::command(words),
        ["mutants", files @ ..] => mutants::command(files),
        ["actions", words @ ..] => actions::command(words),
        ["shells"] => shells::run(),
        ["picture"] => picture::run(),
        ["record"] => record::run(),
        _ => bail!(Usage),
    }
}
