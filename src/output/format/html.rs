//! `-o html`: a page for a browser, in one file.

use super::{Part, Render};
use crate::error::Result;

pub(super) const PART: Part = Part::Page;

pub(super) fn render(answer: &impl Render, _header: bool) -> Result<String> {
    Ok(answer.page())
}
