//! `-o markdown`: a comment on a pull request.

use super::{Look, Part, Render};
use crate::error::Result;

pub(super) const PART: Part = Part::Comment;

pub(super) fn render(answer: &impl Render, _look: Look) -> Result<String> {
    Ok(answer.comment())
}
