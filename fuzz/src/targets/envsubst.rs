//! Variable substitution.

use gitops_core::bounds::SUBSTITUTION_SIZE;
use gitops_core::flux::build::envsubst::substitute;

/// The input is the value of `A` and of `B`, and a text. The result is bounded; a text without `$` stays; every `$` can be
/// escaped; strict mode only adds failures.
pub(crate) fn check(data: &[u8]) {
    let Some((first, rest)) = super::split(data) else { return };
    let Some((second, text)) = rest.split_once('\0') else { return };
    let lookup = |name: &str| match name {
        "A" => Some(first),
        "B" => Some(second),
        _ => None,
    };
    let [strict, lenient] = [true, false].map(|strict| substitute(text, lookup, strict));
    if let Ok(result) = &lenient {
        assert!(result.len() <= SUBSTITUTION_SIZE.limit);
    }
    if strict.is_ok() {
        assert_eq!(strict, lenient);
    }
    if !text.contains(['$', '\0']) {
        assert_eq!(lenient.as_deref(), Ok(text));
    }
    if !text.contains('\0') {
        assert_eq!(substitute(&text.replace('$', "$$"), lookup, true).as_deref(), Ok(text));
    }
}
