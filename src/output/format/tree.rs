//! `-o tree`: owners, their objects and dependents, nested.

use super::{Part, Render};
use crate::error::Result;

pub(super) const PART: Part = Part::Tree;

pub(super) fn render(answer: &impl Render, _header: bool) -> Result<String> {
    Ok(answer.tree())
}
