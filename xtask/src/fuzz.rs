//! `cargo xtask fuzz`: searches for input that breaks a property of a reader, for a bounded time.
//!
//! The program is built like `cargo fuzz build --sanitizer none` does, by flags that the stable compiler knows: the code
//! that is searched has no unsafe block, and runs faster without AddressSanitizer.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::{answer, child, say, target_dir, workspace_root};

/// Flags that make the compiler count the edges that an input reaches, and show its comparisons to libFuzzer.
const FLAGS: [&str; 6] = [
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// Seconds per target without `--seconds`.
const SECONDS: u64 = 20;
/// Seconds and MiB that one input may take. A longer time is a finding.
const INPUT_SECONDS: u64 = 10;
const MEMORY: u64 = 2048;

/// `cargo xtask fuzz [--seconds N] [TARGET…]`: builds the program, and runs the named targets, or all.
pub fn command(arguments: &[&str]) -> Result<()> {
    let (seconds, named) = match arguments {
        ["--seconds", number, named @ ..] => (number.parse().context("--seconds takes a number")?, named),
        named => (SECONDS, named),
    };
    let known = targets()?;
    if let Some(unknown) = named.iter().find(|name| !known.iter().any(|target| target == *name)) {
        bail!("no target is called {unknown}; known are {}", known.join(", "));
    }
    let program = build()?;
    let mut broken = vec![];
    for target in known.iter().filter(|target| named.is_empty() || named.contains(&target.as_str())) {
        if !run(&program, target, seconds)? {
            broken.push(target.as_str());
        }
    }
    if broken.is_empty() {
        return Ok(());
    }
    bail!(
        "{}: a property does not hold; copy the input to fuzz/corpus/TARGET, so that `cargo test -p fuzz` checks it",
        broken.join(", ")
    )
}

/// Returns the names of the targets: each has a corpus.
fn targets() -> Result<Vec<String>> {
    let mut names = vec![];
    for entry in fs::read_dir(corpus()).context("cannot read fuzz/corpus")? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

fn corpus() -> PathBuf {
    workspace_root().join("fuzz/corpus")
}

fn build() -> Result<PathBuf> {
    let host = host()?;
    let folder = target_dir().join("fuzz");
    say("building the fuzz program");
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["build", "--locked", "--package", "fuzz", "--features", "libfuzzer", "--profile", "fuzz"])
        // With a target, build scripts and macros are built without the flags.
        .args(["--target", &host, "--target-dir"])
        .arg(&folder)
        .env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\x1f"))
        .current_dir(workspace_root());
    child::run(&mut cargo).context("the fuzz program does not build; libFuzzer needs a C++ compiler")?;
    Ok(folder.join(host).join("fuzz/fuzz"))
}

/// Returns the platform of the compiler, such as `x86_64-unknown-linux-gnu`.
fn host() -> Result<String> {
    let text = String::from_utf8(child::output(Command::new("rustc").arg("-vV"))?).context("rustc prints no UTF-8")?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
    Ok(host.to_owned())
}

/// Runs one target, and returns true if it found nothing. New inputs are kept for the next run, outside of the repository.
fn run(program: &Path, target: &str, seconds: u64) -> Result<bool> {
    let folder = target_dir().join("fuzz");
    let (found, learned) = (folder.join("findings").join(target), folder.join("corpus").join(target));
    for folder in [&found, &learned] {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let output = Command::new(program)
        .args([&learned, &corpus().join(target)])
        .arg(format!("-artifact_prefix={}/", found.display()))
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-timeout={INPUT_SECONDS}"))
        .arg(format!("-rss_limit_mb={MEMORY}"))
        .args(["-max_len=4096", "-print_final_stats=1", "-verbosity=0"])
        .env("FUZZ_TARGET", target)
        .stdout(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        say(text.trim_end());
        answer(format!("{target}: a finding in {}", found.display()));
        return Ok(false);
    }
    let executed = text.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    answer(format!("{target}: {} inputs in {seconds} s, no finding", executed.unwrap_or("?").trim()));
    Ok(true)
}
