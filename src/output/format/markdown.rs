//! `-o markdown`: a comment on a pull request.

use super::{Part, Render};
use crate::error::Result;

pub(super) const PART: Part = Part::Comment;

pub(super) fn render(answer: &impl Render, _header: bool) -> Result<String> {
    Ok(answer.comment())
}
