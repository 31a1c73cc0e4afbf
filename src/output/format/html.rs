//! `-o html`: a page for a browser, in one file.

use super::{Look, Part, Render};
use crate::error::Result;

pub(super) const PART: Part = Part::Page;

pub(super) fn render(answer: &impl Render, _look: Look) -> Result<String> {
    Ok(answer.page())
}
