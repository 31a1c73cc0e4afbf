//! Tables in the format of kubectl: upper-case headers, three spaces between columns, no lines, as wide as the content.

use comfy_table::{ContentArrangement, presets};

use super::sanitize;

/// Spaces between two columns, as in kubectl.
const GAP: u16 = 3;

/// A table. Cells may have text written by others: it is escaped.
pub struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Returns an empty table with these column titles, in upper case. Titles have no spaces: `LAST-RECONCILED`.
    pub fn new<'a>(header: impl IntoIterator<Item = &'a str>) -> Self {
        Self { header: header.into_iter().map(str::to_uppercase).collect(), rows: vec![] }
    }

    /// Adds a row with one cell per column. Cells are escaped and cut at the first line break.
    pub fn row<S: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let cells: Vec<_> = cells.into_iter().map(|cell| sanitize::one_line(cell.as_ref()).into_owned()).collect();
        debug_assert_eq!(cells.len(), self.header.len(), "a cell for each column of {:?}", self.header);
        self.rows.push(cells);
    }

    /// Returns true if the table has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the titles and then the cells of every row, escaped.
    pub fn records(&self, header: bool) -> impl Iterator<Item = &[String]> {
        header.then_some(&*self.header).into_iter().chain(self.rows.iter().map(Vec::as_slice))
    }

    /// Returns the table as text that ends with a line break, with or without the header.
    pub fn render(&self, header: bool) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        if header {
            table.set_header(&self.header);
        }
        table.add_rows(&self.rows);
        for column in table.column_iter_mut() {
            column.set_padding((0, GAP));
        }
        let mut text = String::new();
        for line in table.lines() {
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(["name", "ready", "message"]);
        table.row(["apps", "True", "Applied revision\nof main"]);
        table.row(["infrastructure", "", "\u{1b}[2Jgone"]);
        table
    }

    #[test]
    fn looks_like_kubectl() {
        let expected = "NAME             READY   MESSAGE\n\
                        apps             True    Applied revision…\n\
                        infrastructure           ^[[2Jgone\n";
        assert_eq!(table().render(true), expected);
        let rows = "apps             True   Applied revision…\ninfrastructure          ^[[2Jgone\n";
        assert_eq!(table().render(false), rows, "without a header its titles take no width");
    }

    #[test]
    fn wide_characters_count_twice() {
        let mut table = Table::new(["a", "b"]);
        table.row(["世界", "x"]);
        table.row(["abcd", "y"]);
        assert_eq!(table.render(false), "世界   x\nabcd   y\n");
    }

    #[test]
    fn long_cells_are_not_wrapped() {
        let mut table = Table::new(["a", "b"]);
        table.row(["x".repeat(1500), "y".repeat(1500)]);
        assert_eq!(table.render(false).lines().count(), 1);
    }
}
