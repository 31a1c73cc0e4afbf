//! Versions of charts and the ranges that select one, as source-controller reads them.
//!
//! Source: Masterminds/semver v3 `constraints.go`; source-controller v1.9.3 `internal/helm/repository`.

use std::cmp::Ordering;

/// A version by Semantic Versioning, which may lack its last numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ChartVersion {
    numbers: [u64; 3],
    /// Identifiers of the pre-release; empty for a release.
    pre: Vec<String>,
}

/// A comparison with a version whose last numbers may be missing or `x`.
struct Comparator<'a> {
    operator: &'a str,
    version: ChartVersion,
    /// Number of the numbers that are written: 0 to 3.
    written: usize,
}

/// The version that a range selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selected {
    pub(crate) version: String,
    /// No version that is added later can be selected instead.
    pub(crate) is_exact: bool,
}

/// Returns the highest of some versions that a range permits, or the version that equals it.
///
/// Fails if none matches, or if the range cannot be read.
pub(crate) fn select<'a>(range: &str, versions: impl Iterator<Item = &'a str>) -> Result<Selected, String> {
    let versions: Vec<&str> = versions.collect();
    if versions.contains(&range) {
        return Ok(Selected { version: range.to_owned(), is_exact: true });
    }
    let alternatives = parse(range).ok_or_else(|| format!("the version {range:?} of its chart cannot be read"))?;
    let is_exact = are_exact(&alternatives);
    let mut matching: Vec<(ChartVersion, &str)> = versions
        .into_iter()
        .filter_map(|text| Some((ChartVersion::parse(text)?.0, text)))
        .filter(|(version, _)| alternatives.iter().any(|all| permits(all, version)))
        .collect();
    matching.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.cmp(b.1)));
    match matching.pop() {
        // Versions that differ in their build metadata only are ordered by time, which is not known here.
        Some((version, _)) if matching.last().is_some_and(|(other, _)| *other == version) => {
            Err(format!("several versions that equal {range} differ in their build metadata"))
        }
        Some((_, text)) => Ok(Selected { version: text.to_owned(), is_exact }),
        None => Err(format!("no version matches {range}")),
    }
}

/// Returns true if a range permits one version only. Fails if it cannot be read.
pub(crate) fn is_exact(range: &str) -> Result<bool, String> {
    parse(range).map(|all| are_exact(&all)).ok_or_else(|| format!("the version {range:?} of its chart cannot be read"))
}

fn are_exact(alternatives: &[Vec<Comparator<'_>>]) -> bool {
    matches!(alternatives, [one] if matches!(&one[..], [Comparator { operator: "" | "=", written: 3, .. }]))
}

/// Returns the alternatives of a range, each a list of comparisons that all must hold.
fn parse(range: &str) -> Option<Vec<Vec<Comparator<'_>>>> {
    range.split("||").map(comparators).collect()
}

fn comparators(text: &str) -> Option<Vec<Comparator<'_>>> {
    let words: Vec<&str> = text.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    if words.is_empty() {
        return Some(vec![Comparator::read("*")?]);
    }
    let mut found = vec![];
    let mut at = 0;
    while let Some(word) = words.get(at) {
        if let (Some(&"-"), Some(upper)) = (words.get(at + 1), words.get(at + 2)) {
            let (lower, upper) = (Comparator::read(word)?, Comparator::read(upper)?);
            if !lower.operator.is_empty() || !upper.operator.is_empty() {
                return None;
            }
            found.extend([Comparator { operator: ">=", ..lower }, Comparator { operator: "<=", ..upper }]);
            at += 3;
        } else if word.chars().all(|c| "=!<>~^".contains(c)) {
            let version = Comparator::read(words.get(at + 1)?)?;
            found.push(Comparator { operator: operator(word)?.0, ..version });
            at += 2;
        } else {
            found.push(Comparator::read(word)?);
            at += 1;
        }
    }
    Some(found)
}

/// Splits the operator off the start of a text.
fn operator(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c| !"=!<>~^".contains(c)).unwrap_or(text.len());
    let (operator, rest) = text.split_at(end);
    let known = ["", "=", "!=", ">", "<", ">=", "=>", "<=", "=<", "~", "~>", "^"];
    known.contains(&operator).then_some((operator, rest))
}

impl<'a> Comparator<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let (operator, rest) = operator(text)?;
        let (version, written) = ChartVersion::parse(rest)?;
        Some(Self { operator, version, written })
    }

    fn permits(&self, version: &ChartVersion) -> bool {
        let Self { operator, version: own, written } = self;
        let (written, order) = (*written, version.cmp(own));
        // Numbers that are not written are not compared.
        let same = version.numbers[..written] == own.numbers[..written];
        let order_written = version.numbers[..written].cmp(&own.numbers[..written]);
        let is_whole = written == 3;
        match *operator {
            "" | "=" if is_whole => order == Ordering::Equal,
            "!=" if is_whole => order != Ordering::Equal,
            "!=" => !same,
            ">" if is_whole => order == Ordering::Greater,
            ">" => order_written == Ordering::Greater,
            "<" => order == Ordering::Less,
            ">=" | "=>" => order != Ordering::Less,
            "<=" | "=<" if is_whole => order != Ordering::Greater,
            "<=" | "=<" => order_written != Ordering::Greater,
            "^" => {
                let leading = own.numbers[..written.max(1)].iter().take_while(|number| **number == 0).count();
                let fixed = (leading + 1).min(written.max(1));
                order != Ordering::Less && (written == 0 || version.numbers[..fixed] == own.numbers[..fixed])
            }
            // A tilde, or an equality with missing numbers.
            _ => {
                let fixed = written.min(2);
                let is_zero = is_whole && own.numbers == [0; 3];
                order != Ordering::Less && (is_zero || version.numbers[..fixed] == own.numbers[..fixed])
            }
        }
    }
}

/// Returns true if all comparisons hold. A pre-release needs a comparison with a pre-release.
fn permits(all: &[Comparator<'_>], version: &ChartVersion) -> bool {
    let names_pre = all.iter().any(|comparator| !comparator.version.pre.is_empty());
    (version.pre.is_empty() || names_pre) && all.iter().all(|comparator| comparator.permits(version))
}

/// Returns true if two texts are versions of which one is not the other, whatever their build metadata are.
pub(crate) fn differ(one: &str, other: &str) -> bool {
    let [one, other] = [one, other].map(|text| ChartVersion::parse(text).filter(|_| !text.contains(['x', 'X', '*'])));
    one.zip(other).is_some_and(|((one, _), (other, _))| one != other)
}

impl ChartVersion {
    /// Parses a version and returns the number of its numbers that are written.
    fn parse(text: &str) -> Option<(Self, usize)> {
        let number = text.strip_prefix('v').unwrap_or(text);
        let without_build = number.split_once('+').map_or(number, |(version, _)| version);
        let (numbers, pre) = without_build.split_once('-').unwrap_or((without_build, ""));
        let mut found = [0; 3];
        let mut written = 0;
        let mut is_open = false;
        for (at, number) in numbers.split('.').enumerate() {
            if matches!(number, "x" | "X" | "*") {
                is_open = true;
            } else if at > 2 || number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            } else if !is_open {
                found[at] = number.parse().ok()?;
                written = at + 1;
            }
        }
        let parts = pre.split('.').filter(|part| !part.is_empty()).map(str::to_owned);
        Some((Self { numbers: found, pre: parts.collect() }, written))
    }
}

impl PartialOrd for ChartVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ChartVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_numbers = self.numbers.cmp(&other.numbers);
        by_numbers.then_with(|| match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => {
                let differing = self.pre.iter().zip(&other.pre).map(|(a, b)| identifier_order(a, b));
                let first = differing.into_iter().find(|order| *order != Ordering::Equal);
                first.unwrap_or_else(|| self.pre.len().cmp(&other.pre.len()))
            }
        })
    }
}

/// Compares identifiers of pre-releases: numbers by value and below words.
fn identifier_order(a: &str, b: &str) -> Ordering {
    match (a.parse::<u64>(), b.parse::<u64>()) {
        (Ok(a), Ok(b)) => a.cmp(&b),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => a.cmp(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSIONS: [&str; 9] =
        ["0.2.3", "0.2.9", "0.3.0", "1.0.0", "1.2.0", "1.2.5", "1.3.0-rc.1", "2.0.0", "v2.1.0-beta.2"];

    fn selected(range: &str) -> String {
        match select(range, VERSIONS.into_iter()) {
            Ok(Selected { version, is_exact: true }) => format!("={version}"),
            Ok(Selected { version, .. }) => version,
            Err(why) => why,
        }
    }

    #[test]
    fn the_highest_version_of_a_range_is_selected() {
        let rows = [
            ("1.2.0", "=1.2.0"),
            ("v1.2.0", "=1.2.0"),
            ("=1.2.0", "=1.2.0"),
            ("*", "2.0.0"),
            ("", "2.0.0"),
            ("1", "1.2.5"),
            ("1.x", "1.2.5"),
            ("1.2.x", "1.2.5"),
            ("~1.2.0", "1.2.5"),
            ("~1", "1.2.5"),
            ("~1.2.0-0", "1.2.5"),
            ("^1.0.0", "1.2.5"),
            ("^1.0.0-0", "1.3.0-rc.1"),
            ("^0.2.3", "0.2.9"),
            ("^0", "0.3.0"),
            (">1.0.0 <1.2.5", "1.2.0"),
            (">= 1.0.0, < 2.0.0", "1.2.5"),
            (">1", "2.0.0"),
            (">1.1", "2.0.0"),
            ("<=1", "1.2.5"),
            ("<1.2", "1.0.0"),
            ("0.2 - 1.0.0", "1.0.0"),
            ("0.2.x || 1.0.0", "1.0.0"),
            ("!=2.0.0", "1.2.5"),
            (">=2.0.0-0", "v2.1.0-beta.2"),
            ("3.x", "no version matches 3.x"),
            ("latest", "the version \"latest\" of its chart cannot be read"),
            ("<<1", "the version \"<<1\" of its chart cannot be read"),
        ];
        for (range, expected) in rows {
            assert_eq!(selected(range), expected, "{range}");
        }
    }

    #[test]
    fn versions_differ_unless_only_their_metadata_do() {
        for (one, other, expected) in [
            ("1.2", "1.2.0", false),
            ("1.2", "1.2.1", true),
            ("v1.2.0+a", "1.2.0", false),
            ("1.2.0-rc.1", "1.2.0", true),
            ("latest", "1.2.0", false),
            ("1.x", "2.0.0", false),
        ] {
            assert_eq!(differ(one, other), expected, "{one} {other}");
        }
    }

    #[test]
    fn versions_that_differ_in_metadata_only_are_not_ordered() {
        assert!(select("1.x", ["1.0.0+a", "1.0.0+b"].into_iter()).is_err());
        assert_eq!(select("1.0.0+a", ["1.0.0+a", "1.0.0+b"].into_iter()).unwrap().version, "1.0.0+a");
    }
}
