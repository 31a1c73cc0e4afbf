//! Values of `-o`. A format is one file of this folder and one line in the list below.
//!
//! A format shows one part of an answer. An answer states the parts that it has, so a verb takes the formats that can show
//! one of them and rejects the others before it reads the cluster.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::Serialize;

use super::report::ReportedFinding;
pub use super::table::Look;
use super::table::Table;
use crate::error::Result;

/// Part of an answer that a format can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Tables and lines for people.
    Text,
    /// Records with the same columns, for programs.
    Rows,
    /// A document for programs.
    Document,
    Names,
    /// Owners, their objects and dependents, nested.
    Tree,
    /// A comment on a pull request.
    Comment,
    /// A page for a browser.
    Page,
    /// Findings for a CI system.
    Findings,
}

/// An answer of a verb. It is serialised as its document.
pub trait Render: Serialize {
    const PARTS: &'static [Part];

    /// Returns the text for people, with more columns if `wide` is true.
    fn text(&self, wide: bool, look: Look) -> String;

    /// Returns one line per object, each as TYPE.GROUP/NAME.
    fn names(&self) -> String;

    /// Returns the rows, with all columns.
    fn rows(&self) -> Option<Table> {
        None
    }

    fn tree(&self) -> String {
        String::new()
    }

    fn comment(&self) -> String {
        String::new()
    }

    fn page(&self) -> String {
        String::new()
    }

    /// Returns what a CI system shows, most severe first.
    fn findings(&self) -> Vec<ReportedFinding> {
        vec![]
    }
}

/// Declares the modules of the formats and the enum; the name of a format is the name of its module.
macro_rules! formats {
    ($($module:ident => $format:ident,)*) => {
        $(mod $module;)*

        /// A format of `-o`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Format {
            $($format,)*
        }

        impl Format {
            const ALL: &'static [Self] = &[$(Self::$format,)*];

            /// Returns the value of `-o`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$format => stringify!($module),)*
                }
            }

            fn part(self) -> Part {
                match self {
                    $(Self::$format => $module::PART,)*
                }
            }

            /// Returns an answer in this format.
            pub fn render(self, answer: &impl Render, look: Look) -> Result<String> {
                match self {
                    $(Self::$format => $module::render(answer, look),)*
                }
            }
        }
    };
}

formats! {
    tree => Tree,
    table => Table,
    wide => Wide,
    json => Json,
    yaml => Yaml,
    name => Name,
    markdown => Markdown,
    html => Html,
    sarif => Sarif,
    gitlab => Gitlab,
    junit => Junit,
    csv => Csv,
}

impl Format {
    /// Returns true for the formats for people, to which messages are added.
    pub fn is_table(self) -> bool {
        self.part() == Part::Text
    }

    /// Returns true for the formats that nest objects below their owners and controllers.
    pub fn is_nested(self) -> bool {
        matches!(self.part(), Part::Tree | Part::Page)
    }
}

/// Returns the formats that can show one of these parts.
pub fn of(parts: &'static [Part]) -> impl Iterator<Item = Format> {
    Format::ALL.iter().copied().filter(|format| parts.contains(&format.part()))
}

/// Returns the parser of `-o` for an answer with these parts. The other formats are rejected with a list of these.
pub fn parser(parts: &'static [Part]) -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(of(parts).map(Format::name)).map(|name| {
        let format = Format::ALL.iter().find(|format| format.name() == name);
        *format.expect("the values of the parser are names of formats")
    })
}
