//! `-o tree`: owners, their objects and dependents, nested.

use super::{Look, Part, Render};
use crate::error::Result;

pub(super) const PART: Part = Part::Tree;

pub(super) fn render(answer: &impl Render, _look: Look) -> Result<String> {
    Ok(answer.tree())
}
