//! The committed corpus, checked without libFuzzer.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fuzz::{LARGEST_INPUT, TARGETS, find};
use test_support::random::Random;

/// Processor time that one input may take in a build without optimisation on a slow machine: ten times what the slowest takes.
/// The number of steps ends an expression; without this number `cel/nested` would run for an hour.
const SLOWEST: Duration = Duration::from_secs(40);

/// Returns the processor time of this thread, which other work on the machine does not change; `None` where the kernel has no
/// file with it.
fn processor_time() -> Option<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(text.split(' ').next()?.parse().ok()?))
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn properties_hold_for_the_corpus() {
    for target in &TARGETS {
        let inputs = files(&corpus().join(target.name));
        assert!(!inputs.is_empty(), "{} has no corpus", target.name);
        for path in inputs {
            let data = fs::read(&path).unwrap();
            assert!(data.len() <= LARGEST_INPUT, "{} is larger than what is searched", path.display());
            let (begin, before) = (Instant::now(), processor_time());
            let outcome = std::panic::catch_unwind(|| (target.check)(&data));
            assert!(outcome.is_ok(), "{} breaks a property", path.display());
            let taken = before.zip(processor_time()).map_or(begin.elapsed(), |(before, after)| after - before);
            assert!(taken < SLOWEST, "{} took {taken:?}", path.display());
        }
    }
}

#[test]
fn every_corpus_has_a_target() {
    for folder in files(&corpus()) {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        assert!(find(&name).is_some(), "{name}");
    }
}

#[test]
fn random_objects_are_read_alike_in_protobuf_and_json() {
    let mut random = Random::new(4);
    let target = find("protobuf").unwrap();
    for _ in 0..10_000 {
        let data: Vec<u8> = (0..random.below(400)).map(|_| random.below(256) as u8).collect();
        (target.check)(&data);
    }
}
