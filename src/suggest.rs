//! Suggestions for mistyped names, for hints.

/// Returns the candidate closest to `word` by edit distance, in which two swapped letters are one edit, ignoring letter case.
///
/// Returns `None` if every candidate differs by more than a third of the word, or in every letter.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    let limit = (length / 3).max(1).min(length.saturating_sub(1));
    let wanted = word.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&wanted, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
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
