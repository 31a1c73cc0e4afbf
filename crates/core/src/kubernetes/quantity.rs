//! Quantities of Kubernetes, such as `1500Mi` and `100m`.

/// Suffixes and their factors, the longer ones first.
const SUFFIXES: [(&str, f64); 15] = [
    ("Ki", 1024.0),
    ("Mi", 1_048_576.0),
    ("Gi", 1_073_741_824.0),
    ("Ti", 1_099_511_627_776.0),
    ("Pi", 1_125_899_906_842_624.0),
    ("Ei", 1_152_921_504_606_846_976.0),
    ("n", 1e-9),
    ("u", 1e-6),
    ("m", 1e-3),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("P", 1e15),
    ("E", 1e18),
];

/// Returns the number that a quantity stands for; `None` for another text.
///
/// Source: Kubernetes v1.36.3 `apimachinery/pkg/api/resource/quantity.go`.
pub(crate) fn quantity(text: &str) -> Option<f64> {
    let suffix = SUFFIXES.iter().find_map(|(suffix, factor)| Some((text.strip_suffix(suffix)?, factor)));
    let (number, factor) = suffix.unwrap_or((text, &1.0));
    let is_number = number.chars().all(|c| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e' | 'E'));
    number.parse::<f64>().ok().filter(|_| is_number).map(|number| number * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_is_a_number_with_a_suffix() {
        for (text, number) in [("2", 2.0), ("100m", 0.1), ("1.5Gi", 1_610_612_736.0), ("2G", 2e9), ("1e3", 1e3)] {
            assert_eq!(quantity(text), Some(number), "{text}");
        }
        for text in ["", "Gi", "1 Gi", "1gi", "inf", "NaN"] {
            assert_eq!(quantity(text), None, "{text}");
        }
    }
}
