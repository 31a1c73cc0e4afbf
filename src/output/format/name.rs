//! `-o name`: one TYPE.GROUP/NAME per line.

use super::{Part, Render};
use crate::error::Result;

pub(super) const PART: Part = Part::Names;

pub(super) fn render(answer: &impl Render, _header: bool) -> Result<String> {
    Ok(answer.names())
}
