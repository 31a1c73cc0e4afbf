//! `cargo xtask TASK`: finds the task, runs it, and turns its error into an exit code.

use std::process::ExitCode;

use anyhow::Result;
use xtask::{bench, cluster, controlplane, demo, man, oracle, record, say, test};

const USAGE: &str = "\
usage: cargo xtask TASK

  controlplane [NAME…]                       build the programs a test cluster consists of (default: all)
  cluster up --dir D [--flux[=all|crds]]     start a cluster; it runs until `cluster down`
  cluster publish --dir D KIND/NS/NAME=PATH  make PATH the artifact of a source; prints its revision
  cluster down --dir D                       stop the cluster
  demo                                       show the reading verbs over the recorded cluster; needs no cluster
  test                                       everything that must pass
  bench --kustomizations N                   measure get, suspend and resume of many objects
  bench --tree                               measure the plan of a commit over 50 Kustomizations with 2000 objects
  bench [--objects N] [--pairs N] [--keep]   seed a cluster and measure how fast it is read; 13000 objects, 15 pairs
  man                                        write the man pages anew
  record                                     play the demo's story on a real cluster and record it anew
  oracle [--dir D] [NAME…]                   compare plans with the real controller, in every scenario or those named
  oracle [--dir D] --cases N [--seed S]      the same with random repositories and edits
  oracle … --races N                         play those with races N times more, to see whether both ends come";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match dispatch(&words) {
        Some(Ok(())) => ExitCode::SUCCESS,
        Some(Err(error)) => {
            say(format!("error: {error:#}"));
            ExitCode::FAILURE
        }
        None => {
            say(USAGE);
            ExitCode::from(2)
        }
    }
}

/// One line per task; `None` when the words are no task.
fn dispatch(words: &[&str]) -> Option<Result<()>> {
    match words {
        ["controlplane", names @ ..] => Some(controlplane::command(names)),
        ["oracle", rest @ ..] => Some(oracle::command(rest)),
        ["cluster", rest @ ..] => cluster::command::dispatch(rest),
        ["demo"] => Some(demo::run()),
        ["test"] => Some(test::run()),
        ["bench", rest @ ..] => bench::dispatch(rest),
        ["man"] => Some(man::run()),
        ["record"] => Some(record::run()),
        _ => None,
    }
}
