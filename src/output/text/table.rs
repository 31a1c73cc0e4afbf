//! Tables in the format of kubectl: upper-case headers, three spaces between columns, no lines, as wide as the content.

use std::borrow::Cow;

use comfy_table::{ContentArrangement, presets};
use dialoguer::console::measure_text_width;

use super::sanitize;

/// Spaces between two columns, as in kubectl.
const GAP: u16 = 3;
/// Columns with sentences, which are cut on a terminal. All others have names, numbers and times, and stay whole.
const SENTENCES: [&str; 4] = ["MESSAGE", "NOTE", "REASON", "STATE"];
/// Width to which a sentence is cut at most.
const LEAST: usize = 14;

/// Header line and width of a printed table.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// With a line of titles.
    pub header: bool,
    /// Columns of the terminal to which sentences are cut; `None` to print all of them.
    pub width: Option<usize>,
    pub colour: bool,
    /// With the line that says what a plan is a plan of; without it if a message on the same terminal has said so.
    pub subject: bool,
}

impl Look {
    /// Returns the look of a pipe or a file: every cell as long as it is.
    pub fn whole(header: bool) -> Self {
        Self { header, width: None, colour: false, subject: true }
    }
}

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

    /// Returns the table as text that ends with a line break. If the rows are wider than the terminal, sentences are cut in
    /// the middle, so that a row takes as few lines as it can.
    pub fn render(&self, look: Look) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        if look.header {
            table.set_header(&self.header);
        }
        match look.width.filter(|width| *width > 0) {
            None => drop(table.add_rows(&self.rows)),
            Some(terminal) => {
                let widths = self.widths(look.header, terminal);
                for row in &self.rows {
                    table.add_row(row.iter().zip(&widths).map(|(cell, width)| cut(cell, *width)));
                }
            }
        }
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

    /// Returns the width of each column on a terminal with this number of columns.
    fn widths(&self, header: bool, terminal: usize) -> Vec<usize> {
        let mut widths = vec![0; self.header.len()];
        for record in self.records(header) {
            for (width, cell) in widths.iter_mut().zip(record) {
                *width = (*width).max(measure_text_width(cell));
            }
        }
        let least: Vec<usize> =
            widths.iter().zip(&self.header).map(|(width, title)| (*width).min(least(title))).collect();
        let limit = total_width(&least).div_ceil(terminal) * terminal;
        while total_width(&widths) > limit {
            let spare = widths.iter().zip(&least).map(|(width, least)| width - least).enumerate();
            let Some((longest, _)) = spare.max_by_key(|(_, spare)| *spare).filter(|(_, spare)| *spare > 0) else {
                break;
            };
            widths[longest] -= 1;
        }
        widths
    }
}

/// Columns of a table, each with the cell of a row. Those whose condition is not met are left out.
pub(crate) struct Columns<'a, R> {
    shown: Vec<Column<'a, R>>,
}

struct Column<'a, R> {
    title: &'static str,
    cell: Box<dyn Fn(&R) -> String + 'a>,
}

impl<'a, R> Columns<'a, R> {
    pub(crate) fn new() -> Self {
        Self { shown: vec![] }
    }

    /// Adds a column. Its title has no spaces: `LAST-RECONCILED`.
    #[must_use]
    pub(crate) fn with(self, title: &'static str, cell: impl Fn(&R) -> String + 'a) -> Self {
        self.with_if(true, title, cell)
    }

    /// Adds a column on a condition.
    #[must_use]
    pub(crate) fn with_if(mut self, is_shown: bool, title: &'static str, cell: impl Fn(&R) -> String + 'a) -> Self {
        self.shown.extend(is_shown.then(|| Column { title, cell: Box::new(cell) }));
        self
    }

    pub(crate) fn table<'r>(&self, rows: impl IntoIterator<Item = &'r R>) -> Table
    where
        R: 'r,
    {
        let mut table = Table::new(self.shown.iter().map(|column| column.title));
        for row in rows {
            table.row(self.shown.iter().map(|column| (column.cell)(row)));
        }
        table
    }
}

/// Returns the width of a row with these columns.
fn total_width(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + usize::from(GAP) * widths.len().saturating_sub(1)
}

/// Returns the width to which the cells of a column are cut at most.
fn least(title: &str) -> usize {
    if SENTENCES.contains(&title) { LEAST } else { usize::MAX }
}

fn width_of(character: char) -> usize {
    measure_text_width(character.encode_utf8(&mut [0; 4]))
}

/// Cuts a text in the middle if it is wider than this. Two thirds of what stays are its beginning.
fn cut(text: &str, width: usize) -> Cow<'_, str> {
    if measure_text_width(text) <= width {
        return text.into();
    }
    let end_width = width.saturating_sub(1) / 3;
    let (mut start, mut end) = (String::new(), vec![]);
    let (mut used, mut used_by_end) = (1, 0);
    for character in text.chars().rev().take_while(|character| {
        used_by_end += width_of(*character);
        used_by_end <= end_width
    }) {
        used += width_of(character);
        end.push(character);
    }
    for character in text.chars().take_while(|character| {
        used += width_of(*character);
        used <= width
    }) {
        start.push(character);
    }
    (start + "…" + &end.into_iter().rev().collect::<String>()).into()
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

    fn on_terminal(header: bool, columns: usize) -> Look {
        Look { width: Some(columns), ..Look::whole(header) }
    }

    #[test]
    fn looks_like_kubectl() {
        let expected = "NAME             READY   MESSAGE\n\
                        apps             True    Applied revision…\n\
                        infrastructure           ^[[2Jgone\n";
        assert_eq!(table().render(Look::whole(true)), expected);
        let rows = "apps             True   Applied revision…\ninfrastructure          ^[[2Jgone\n";
        assert_eq!(table().render(Look::whole(false)), rows, "without a header its titles take no width");
    }

    #[test]
    fn wide_characters_count_twice() {
        let mut table = Table::new(["a", "b"]);
        table.row(["世界", "x"]);
        table.row(["abcd", "y"]);
        assert_eq!(table.render(Look::whole(false)), "世界   x\nabcd   y\n");
    }

    #[test]
    fn long_cells_are_not_wrapped() {
        let mut table = Table::new(["a", "b"]);
        table.row(["x".repeat(1500), "y".repeat(1500)]);
        assert_eq!(table.render(Look::whole(false)).lines().count(), 1);
    }

    #[test]
    fn long_cells_are_cut_in_the_middle_on_a_terminal() {
        let mut table = Table::new(["action", "name", "reason"]);
        table.row([
            "delete",
            "banner-easter",
            "its path ./aps/checkout contains no manifests, and nothing else lists it",
        ]);
        table.row(["keep", "web", "protected"]);
        let text = table.render(on_terminal(true, 60));
        let expected = "ACTION   NAME            REASON\n\
                        delete   banner-easter   its path ./aps/checkout…se lists it\n\
                        keep     web             protected\n";
        assert_eq!(text, expected);
        assert!(text.lines().all(|line| measure_text_width(line) <= 60));
        assert_eq!(table.render(on_terminal(true, 200)), table.render(Look::whole(true)));
    }

    /// A row that is wider than the terminal in any case takes two lines, and uses both.
    #[test]
    fn names_are_not_cut_and_lines_are_used() {
        let mut table = Table::new(["owner", "message"]);
        table.row(["n".repeat(60), "m".repeat(200)]);
        let width = |columns| measure_text_width(table.render(on_terminal(false, columns)).trim_end());
        assert_eq!((width(80), width(50), width(300)), (80, 100, 263));
        assert!(table.render(on_terminal(false, 50)).starts_with(&"n".repeat(60)));
    }

    #[test]
    fn cut_texts_have_the_width_or_less() {
        for text in ["世界".repeat(30), "a".repeat(60), "é世".repeat(20)] {
            for width in 1..40 {
                let short = cut(&text, width);
                assert!(measure_text_width(&short) <= width && short.contains('…'), "{width}: {short}");
            }
        }
    }
}
