//! Results that an answer or a reason interrupts.

/// A value that is not known yet, or not known at all for this reason.
pub(crate) enum Missing {
    Answer,
    Reason(String),
}

impl From<String> for Missing {
    fn from(why: String) -> Self {
        Self::Reason(why)
    }
}
