//! `-o table`: a table for people.

use super::{Part, Render};
use crate::error::Result;

pub(super) const PART: Part = Part::Text;

pub(super) fn render(answer: &impl Render, header: bool) -> Result<String> {
    Ok(answer.text(false, header))
}
