//! `-o table`: a table for people.

use super::{Look, Part, Render};
use crate::error::Result;

pub(super) const PART: Part = Part::Text;

pub(super) fn render(answer: &impl Render, look: Look) -> Result<String> {
    Ok(answer.text(false, look))
}
