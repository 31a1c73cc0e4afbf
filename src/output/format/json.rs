//! `-o json`: one JSON document. Its schema is a contract.

use super::{Part, Render};
use crate::error::Result;
use crate::output::document;

pub(super) const PART: Part = Part::Document;

pub(super) fn render(answer: &impl Render, _header: bool) -> Result<String> {
    document::json(answer)
}
