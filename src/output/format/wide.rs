//! `-o wide`: a table with more columns.

use super::{Part, Render};
use crate::error::Result;

pub(super) const PART: Part = Part::Text;

pub(super) fn render(answer: &impl Render, header: bool) -> Result<String> {
    Ok(answer.text(true, header))
}
