//! Ages as kubectl prints them.

use chrono::{DateTime, TimeDelta, Utc};

/// Formats of an age in kubectl (docs/reference/kubectl-plugin.md 3.2): limit in seconds, main unit, and for some formats
/// the next smaller unit.
const FORMATS: [(i64, Unit, Option<Unit>); 7] = [
    (2 * MINUTE, ('s', 1), None),
    (10 * MINUTE, ('m', MINUTE), Some(('s', 1))),
    (3 * HOUR, ('m', MINUTE), None),
    (8 * HOUR, ('h', HOUR), Some(('m', MINUTE))),
    (2 * DAY, ('h', HOUR), None),
    (8 * DAY, ('d', DAY), Some(('h', HOUR))),
    (2 * YEAR, ('d', DAY), None),
];
/// Letter and length in seconds of a unit.
type Unit = (char, i64);
const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// Formats an age: `119s`, `5m30s`, `45m`, `3d4h`, `2y20d`. A duration below -1s is `<invalid>`; clocks may differ by less.
pub fn human(duration: TimeDelta) -> String {
    if duration.num_seconds() < -1 {
        return "<invalid>".to_owned();
    }
    let seconds = duration.num_seconds().max(0);
    let years = (i64::MAX, ('y', YEAR), Some(('d', DAY)).filter(|_| seconds < 8 * YEAR));
    let (_, (letter, length), smaller) = FORMATS.into_iter().find(|(limit, ..)| seconds < *limit).unwrap_or(years);
    let mut text = format!("{}{letter}", seconds / length);
    if let Some((letter, unit)) = smaller.filter(|(_, unit)| seconds % length / unit > 0) {
        text += &format!("{}{letter}", seconds % length / unit);
    }
    text
}

/// Formats the age of a time; `<unknown>` for `None`.
pub fn age(time: Option<DateTime<Utc>>, now: DateTime<Utc>) -> String {
    time.map_or_else(|| "<unknown>".to_owned(), |time| human(now - time))
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
