//! What a mistyped name may have meant, for hints.

/// The candidate that differs least from a word; `None` when every one differs by more than a third of the word, or in
/// every letter.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    let limit = (length / 3).max(1).min(length.saturating_sub(1));
    let ranked = candidates.into_iter().map(|candidate| (distance(word, candidate), candidate));
    ranked.filter(|(distance, _)| *distance <= limit).min().map(|(_, candidate)| candidate)
}

/// Number of single-character changes from one word to another (Levenshtein), letter case ignored.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, left) in from.to_lowercase().chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], line + 1);
        for (column, right) in to.iter().enumerate() {
            let changed = diagonal + usize::from(left != *right);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn nearest_candidate() {
        let known = ["production", "staging", "kustomizations", "q"];
        for (name, word, expected) in [
            ("one letter missing", "producton", Some("production")),
            ("letters swapped", "stagign", Some("staging")),
            ("letter case", "Staging", Some("staging")),
            ("nothing alike", "nope", None),
            ("empty", "", None),
            ("one letter", "p", None),
        ] {
            assert_eq!(nearest(word, known), expected, "{name}");
        }
    }
}
