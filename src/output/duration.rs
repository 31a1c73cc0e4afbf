//! Ages as kubectl prints them.

use chrono::{DateTime, TimeDelta, Utc};

/// How kubectl shortens an age (reference kubectl-and-krew 3.2): up to a bound in seconds, a main unit and perhaps the
/// next smaller one.
const STEPS: [(i64, Unit, Option<Unit>); 7] = [
    (2 * MINUTE, ('s', 1), None),
    (10 * MINUTE, ('m', MINUTE), Some(('s', 1))),
    (3 * HOUR, ('m', MINUTE), None),
    (8 * HOUR, ('h', HOUR), Some(('m', MINUTE))),
    (2 * DAY, ('h', HOUR), None),
    (8 * DAY, ('d', DAY), Some(('h', HOUR))),
    (2 * YEAR, ('d', DAY), None),
];
/// The letter of a unit and its seconds.
type Unit = (char, i64);
const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// `119s`, `5m30s`, `45m`, `3d4h`, `2y20d`; `<invalid>` when negative, with two seconds of grace for clocks that differ.
pub fn human(duration: TimeDelta) -> String {
    let seconds = duration.num_seconds();
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    let seconds = seconds.max(0);
    let step = STEPS.into_iter().find(|(bound, ..)| seconds < *bound);
    let years = (('y', YEAR), Some(('d', DAY)).filter(|_| seconds < 8 * YEAR));
    let ((letter, length), smaller) = step.map_or(years, |(_, main, smaller)| (main, smaller));
    let rest = smaller.map(|(letter, unit)| (seconds % length / unit, letter)).filter(|(count, _)| *count > 0);
    match rest {
        Some((count, small)) => format!("{}{letter}{count}{small}", seconds / length),
        None => format!("{}{letter}", seconds / length),
    }
}

/// How long ago something was; `<unknown>` when nobody knows.
pub fn age(then: Option<DateTime<Utc>>, now: DateTime<Utc>) -> String {
    then.map_or_else(|| "<unknown>".to_owned(), |then| human(now - then))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_read_as_in_kubectl() {
        for (seconds, expected) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (330, "5m30s"),
            (600, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (7 * HOUR + 5 * MINUTE, "7h5m"),
            (30 * HOUR, "30h"),
            (3 * DAY + 4 * HOUR, "3d4h"),
            (8 * DAY, "8d"),
            (45 * DAY, "45d"),
            (3 * YEAR + 20 * DAY, "3y20d"),
            (4 * YEAR, "4y"),
            (9 * YEAR + 100 * DAY, "9y"),
        ] {
            assert_eq!(human(TimeDelta::seconds(seconds)), expected, "{seconds} s");
        }
        assert_eq!(age(None, DateTime::UNIX_EPOCH), "<unknown>");
    }
}
