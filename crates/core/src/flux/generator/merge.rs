//! The strategy `Merge`: the maps of YAML files are merged as Helm merges values.
//!
//! Source: source-watcher v2.2.2 `internal/builder/merge.go`; compared in `tests/systems/flux_texts`.

use std::collections::BTreeMap;

use super::Stop;
use crate::flux::build::go_yaml::{GoValue, ReadError, read, write};

/// Largest whole number that a float of 64 bits has exactly. Go reads every number as such a float.
const LARGEST_EXACT: i64 = 1 << 53;

/// Returns a file with the values of another one merged into it.
///
/// Fails if source-watcher cannot read one of both, or if it is not known what it writes.
pub fn merge(base: &[u8], overlay: &[u8]) -> Result<Vec<u8>, Stop> {
    let mut merged = load(base)?;
    merge_maps(&mut merged, load(overlay)?);
    let text = write(&GoValue::Map(merged)).map_err(stop)?;
    Ok(text.into_bytes())
}

fn stop(error: ReadError) -> Stop {
    match error {
        ReadError::Invalid(why) => Stop::Fails(format!("a file to merge cannot be read: {why}")),
        ReadError::Unsupported(why) => {
            Stop::Unknown(format!("a file to merge is not read as source-watcher does: {why}"))
        }
    }
}

/// Reads the documents of a file into one map.
fn load(text: &[u8]) -> Result<BTreeMap<String, GoValue>, Stop> {
    let mut loaded = BTreeMap::new();
    for document in documents(text)? {
        match as_json(read(document.as_bytes()).map_err(stop)?)? {
            GoValue::Map(map) => merge_maps(&mut loaded, map),
            GoValue::Null => {}
            _ => return Err(Stop::Fails("a file to merge is no map".to_owned())),
        }
    }
    Ok(loaded)
}

/// Returns the documents of a file, which lines that begin with `---` separate.
fn documents(text: &[u8]) -> Result<Vec<String>, Stop> {
    let text = std::str::from_utf8(text).map_err(|_| Stop::Unknown("a file to merge is not UTF-8".to_owned()))?;
    let (mut found, mut current) = (vec![], String::new());
    for line in text.split_inclusive('\n') {
        if let Some(rest) = line.strip_prefix("---") {
            let trailing = rest.trim();
            if !trailing.is_empty() && !trailing.starts_with('#') {
                return Err(Stop::Fails("a file to merge has text behind ---".to_owned()));
            }
            if !current.is_empty() {
                found.push(std::mem::take(&mut current));
                continue;
            }
        }
        current += line;
    }
    found.extend((!current.is_empty()).then_some(current));
    Ok(found)
}

/// Returns a value as it is after it was JSON, in which Go has floats only.
fn as_json(value: GoValue) -> Result<GoValue, Stop> {
    Ok(match value {
        GoValue::Float(number) if !number.is_finite() => {
            return Err(Stop::Fails("a file to merge has an infinite number".to_owned()));
        }
        GoValue::Int(_) | GoValue::Uint(_) | GoValue::Float(_) if !is_kept_exactly(&value) => {
            return Err(Stop::Unknown("a file to merge has a number that Go does not keep exactly".to_owned()));
        }
        GoValue::Float(number) if number.fract() == 0.0 => GoValue::Int(number as i64),
        GoValue::List(items) => GoValue::List(items.into_iter().map(as_json).collect::<Result<_, _>>()?),
        GoValue::Map(map) => {
            let entries = map.into_iter().map(|(key, value)| Ok((key, as_json(value)?)));
            GoValue::Map(entries.collect::<Result<_, Stop>>()?)
        }
        other => other,
    })
}

/// Returns true for a number that is the same after Go read it as a float and wrote it without a fraction.
fn is_kept_exactly(number: &GoValue) -> bool {
    match number {
        GoValue::Int(whole) => whole.unsigned_abs() <= LARGEST_EXACT.unsigned_abs(),
        GoValue::Float(float) if float.fract() == 0.0 => {
            float.abs() <= LARGEST_EXACT as f64 && (*float != 0.0 || float.is_sign_positive())
        }
        GoValue::Float(_) => true,
        _ => false,
    }
}

/// Merges maps; any other value replaces the one below it.
fn merge_maps(base: &mut BTreeMap<String, GoValue>, overlay: BTreeMap<String, GoValue>) {
    for (key, value) in overlay {
        match (base.get_mut(&key), value) {
            (Some(GoValue::Map(below)), GoValue::Map(above)) => merge_maps(below, above),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(base: &str, overlay: &str) -> Result<String, Stop> {
        merge(base.as_bytes(), overlay.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn maps_are_merged_and_everything_else_is_replaced() {
        let (base, overlay) = ("b: {x: 1, l: [1, 2]}\na: 1\n---\nc: text\n", "b: {l: [3], z: null}\nd: {}\n");
        assert_eq!(merged(base, overlay).unwrap(), "a: 1\nb:\n  l:\n  - 3\n  x: 1\n  z: null\nc: text\nd: {}\n");
    }

    #[test]
    fn a_file_that_is_no_map_fails() {
        for text in ["[1]", "text", "a: [", "--- a\n"] {
            assert!(matches!(merged("a: 1", text), Err(Stop::Fails(_))), "{text}");
        }
        assert_eq!(merged("", "# nothing\n---\n").unwrap(), "{}\n");
    }

    #[test]
    fn what_go_does_not_keep_exactly_is_not_known() {
        for text in ["a: 9007199254740993", "a: 1e300", "a: 18446744073709551615"] {
            assert!(matches!(merged("a: 1", text), Err(Stop::Unknown(_))), "{text}");
        }
    }
}
