//! `-o wide`: a table with more columns.

use super::{Look, Part, Render};
use crate::error::Result;

pub(super) const PART: Part = Part::Text;

pub(super) fn render(answer: &impl Render, look: Look) -> Result<String> {
    // Whoever asks for more columns wants all of the text.
    Ok(answer.text(true, Look::whole(look.header)))
}
