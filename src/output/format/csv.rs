//! `-o csv`: all columns as comma-separated values, quoted as in RFC 4180.

use crate::output::text::table::Table;

/// First characters with which a spreadsheet reads a cell as a formula.
const FORMULA: [char; 4] = ['=', '+', '-', '@'];

pub(super) fn records(table: Option<Table>, header: bool) -> String {
    let records = table.iter().flat_map(|table| table.records(header));
    records.map(|record| record.iter().map(|cell| field(cell)).collect::<Vec<_>>().join(",") + "\n").collect()
}

/// Returns a cell as a field. A cell that a spreadsheet would read as a formula is preceded by an apostrophe; one
/// character alone is no formula.
fn field(cell: &str) -> String {
    let cell = if cell.len() > 1 && cell.starts_with(FORMULA) { format!("'{cell}") } else { cell.to_owned() };
    if cell.contains([',', '"', '\r', '\n']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell }
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
