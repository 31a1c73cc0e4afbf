//! `-o yaml`: the document of `-o json` as YAML.

use super::{Look, Part, Render};
use crate::error::Result;
use crate::output::document;

pub(super) const PART: Part = Part::Document;

pub(super) fn render(answer: &impl Render, _look: Look) -> Result<String> {
    document::yaml(answer)
}
