//! `-o csv`: all columns as comma-separated values, quoted as in RFC 4180.

use super::{Look, Part, Render};
use crate::error::Result;

pub(super) const PART: Part = Part::Rows;

/// First characters with which a spreadsheet reads a cell as a formula.
const FORMULA: [char; 4] = ['=', '+', '-', '@'];

pub(super) fn render(answer: &impl Render, look: Look) -> Result<String> {
    let mut text = String::new();
    for record in answer.rows().iter().flat_map(|table| table.records(look.header)) {
        let fields: Vec<String> = record.iter().map(|cell| field(cell)).collect();
        text += &fields.join(",");
        text.push('\n');
    }
    Ok(text)
}

/// Returns a cell as a field. A cell that a spreadsheet would read as a formula is preceded by an apostrophe; one
/// character alone is no formula.
fn field(cell: &str) -> String {
    let cell = if cell.len() > 1 && cell.starts_with(FORMULA) { format!("'{cell}") } else { cell.to_owned() };
    match cell.contains([',', '"', '\r', '\n']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell,
    }
}

#[cfg(test)]
mod tests {
    use super::field;

    #[test]
    fn fields_are_quoted_and_no_formulas() {
        for (cell, expected) in [
            ("apps", "apps"),
            ("", ""),
            ("a,b", "\"a,b\""),
            ("say \"hi\"", "\"say \"\"hi\"\"\""),
            ("two\nlines", "\"two\nlines\""),
            ("=1+2", "'=1+2"),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("-", "-"),
            ("@sum(a,b)", "\"'@sum(a,b)\""),
            ("a=b", "a=b"),
        ] {
            assert_eq!(field(cell), expected, "{cell:?}");
        }
    }
}
