//! `cargo xtask picture`: records what `kubectl gitops plan` prints for the demo, and draws what it prints on a terminal as
//! `docs/plan.svg`.
//!
//! The picture has text and colours only: no font, no script and no address is loaded.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::{controlplane, demo, target_dir, tool, workspace_root};

/// The picture, in the repository.
pub const FILE: &str = "docs/plan.svg";

const COLUMNS: usize = 100;
/// Width of a character and height of a line, in pixels.
const CELL: (f32, usize) = (8.0, 19);
const MARGIN: usize = 16;
const BACKGROUND: &str = "#161b22";
const FOREGROUND: &str = "#e6edf3";

/// Colours of the codes 30 to 37, and of 90 to 97.
const COLOURS: [&str; 8] = ["#6e7681", "#ff7b72", "#7ee787", "#e3b341", "#79c0ff", "#d2a8ff", "#76e3ea", "#e6edf3"];

/// Writes [`demo::PREVIEW`] and docs/plan.svg.
pub fn run() -> Result<()> {
    let (program, kubectl) = (tool::build(false)?, controlplane::bin("kubectl"));
    let answer = demo::preview_answer(&program, &kubectl)?;
    fs::write(workspace_root().join(demo::PREVIEW), answer).context("cannot write the answer of the preview")?;
    fs::write(workspace_root().join(FILE), render(&program, &kubectl)?).context("cannot write the picture")
}

/// Returns the picture of the plan that `program` prints with this kubectl.
pub fn render(program: &Path, kubectl: &Path) -> Result<String> {
    let tree = target_dir().join(format!("picture-{}", std::process::id()));
    demo::checkout(&tree)?;
    let line = format!("stty cols {COLUMNS} rows 60; '{}' plan --snapshot {}", program.display(), demo::SNAPSHOT);
    // `script` of util-linux gives the program a terminal.
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).current_dir(&tree).stdin(Stdio::null());
    command.env("TERM", "xterm").env("PATH", demo::path_to(kubectl)?).env_remove("NO_COLOR");
    let output = command.output().context("cannot run script")?;
    let _ = fs::remove_dir_all(&tree);
    let printed = String::from_utf8(output.stdout)?.replace('\r', "");
    ensure!(output.status.code() == Some(6), "the plan ended with {}: {printed}", output.status);
    let prompt = format!("\u{1b}[1m$ kubectl gitops plan --snapshot {}\u{1b}[0m\n", demo::SNAPSHOT);
    Ok(draw(&(prompt + &demo::without_age(&printed))))
}

/// Draws the text of a terminal.
pub fn draw(printed: &str) -> String {
    let lines: Vec<&str> = printed.trim_end().lines().collect();
    let width = (COLUMNS as f32 * CELL.0) as usize + 2 * MARGIN;
    let height = lines.len() * CELL.1 + 2 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\" aria-label=\"The plan of a branch that renames a Kustomization\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{BACKGROUND}\"/>\n\
         <g font-family=\"ui-monospace, Menlo, Consolas, monospace\" font-size=\"13\" fill=\"{FOREGROUND}\" \
         xml:space=\"preserve\">\n"
    );
    let mut style = Style::default();
    for (number, line) in lines.iter().enumerate() {
        let y = MARGIN + (number + 1) * CELL.1 - 5;
        draw_line(&mut svg, &mut style, line, y);
    }
    svg + "</g>\n</svg>\n"
}

/// Colour and weight of text, as the codes before it set them.
#[derive(Clone, Copy, Default)]
struct Style {
    colour: Option<&'static str>,
    bold: bool,
    dim: bool,
}

impl Style {
    /// Applies one code of a sequence such as `ESC [1;31m`.
    fn apply(&mut self, code: usize) {
        match code {
            0 => *self = Self::default(),
            1 => self.bold = true,
            2 => self.dim = true,
            22 => (self.bold, self.dim) = (false, false),
            30..=37 => self.colour = Some(COLOURS[code - 30]),
            39 => self.colour = None,
            90..=97 => self.colour = Some(COLOURS[code - 90]),
            _ => {}
        }
    }

    fn attributes(self) -> String {
        let mut text = String::new();
        if let Some(colour) = self.colour {
            let _ = write!(text, " fill=\"{colour}\"");
        }
        if self.bold {
            text += " font-weight=\"bold\"";
        }
        if self.dim {
            text += " opacity=\"0.7\"";
        }
        text
    }
}

/// Draws a line: one element for each piece of text in one style, at its own column.
fn draw_line(svg: &mut String, style: &mut Style, line: &str, y: usize) {
    let mut column = 0;
    for (number, piece) in line.split("\u{1b}[").enumerate() {
        let mut text = piece;
        if number > 0
            && let Some((codes, rest)) = piece.split_once('m')
        {
            codes.split(';').for_each(|code| style.apply(code.parse().unwrap_or(0)));
            text = rest;
        }
        let length = text.chars().count();
        let skipped = text.chars().take_while(|character| *character == ' ').count();
        if skipped < length {
            let x = MARGIN as f32 + (column + skipped) as f32 * CELL.0;
            let width = (length - skipped) as f32 * CELL.0;
            let _ = writeln!(
                svg,
                "<text x=\"{x}\" y=\"{y}\" textLength=\"{width}\"{}>{}</text>",
                style.attributes(),
                escaped(text.trim_start_matches(' '))
            );
        }
        column += length;
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::draw;

    #[test]
    fn colours_last_until_they_are_reset_and_text_is_escaped() {
        let svg = draw("a \u{1b}[1;31mb<c\u{1b}[0m d\n");
        assert!(
            svg.contains(
                "<text x=\"32\" y=\"30\" textLength=\"24\" fill=\"#ff7b72\" font-weight=\"bold\">b&lt;c</text>"
            ),
            "{svg}"
        );
        assert!(svg.contains("<text x=\"64\" y=\"30\" textLength=\"8\">d</text>"), "{svg}");
    }
}
