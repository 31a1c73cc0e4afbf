//! Results that an answer or a reason interrupts.

/// Reason why a value is not computed.
#[derive(Debug)]
pub(crate) enum Interrupt {
    /// An answer is missing. It is among the needs, and the computation is repeated with it.
    Answer,
    /// The value cannot be known, for this reason.
    Reason(String),
}

impl From<String> for Interrupt {
    fn from(why: String) -> Self {
        Self::Reason(why)
    }
}
