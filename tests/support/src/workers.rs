//! Cases of a test on all processors.

use std::num::NonZero;
use std::ops::Range;
use std::thread;

/// Runs each case of a range. Returns what the workers have collected, one value for each processor.
pub fn on_all_processors<T: Default + Send>(cases: Range<u64>, run: impl Fn(&mut T, u64) + Sync) -> Vec<T> {
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        let started = (0..workers).map(|first| {
            let (cases, run) = (cases.clone().skip(first).step_by(workers), &run);
            scope.spawn(move || {
                let mut found = T::default();
                cases.for_each(|case| run(&mut found, case));
                found
            })
        });
        let started: Vec<_> = started.collect();
        started.into_iter().map(|worker| worker.join().expect("a case does not panic")).collect()
    })
}
