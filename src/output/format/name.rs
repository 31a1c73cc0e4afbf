//! `-o name`: one TYPE.GROUP/NAME per line.

use super::{Look, Part, Render};
use crate::error::Result;

pub(super) const PART: Part = Part::Names;

pub(super) fn render(answer: &impl Render, _look: Look) -> Result<String> {
    Ok(answer.names())
}
