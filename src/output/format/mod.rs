//! Values of `-o`. A format is a line in the table below; those for CI systems and spreadsheets have files of their own.
//!
//! A format shows one part of an answer. An answer states the parts that it has, so a verb takes the formats that can show
//! one of them and rejects the others before it reads the cluster.

mod csv;
mod gitlab;
mod junit;
mod sarif;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde::Serialize;

use super::document;
use super::report::ReportedFinding;
pub use super::text::table::Look;
use super::text::table::Table;
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
    /// Admission policies that approve it.
    Policies,
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

    /// Returns what policies have to approve, by uid.
    fn approvals(&self) -> String {
        String::new()
    }

    /// Returns what a CI system shows, most severe first.
    fn findings(&self) -> Vec<ReportedFinding> {
        vec![]
    }
}

/// A format of `-o`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Owners, their objects and dependents, nested.
    Tree,
    Table,
    /// A table with more columns.
    Wide,
    /// One JSON document. Its schema is a contract.
    Json,
    /// The document of `json` as YAML.
    Yaml,
    /// One TYPE.GROUP/NAME per line.
    Name,
    /// A comment on a pull request.
    Markdown,
    /// A page for a browser, in one file.
    Html,
    Sarif,
    Gitlab,
    Junit,
    Csv,
    /// ValidatingAdmissionPolicies that approve what a plan deletes.
    Vap,
}

/// Every format with its value of `-o` and the part of an answer that it shows, in the order of the help.
const FORMATS: [(Format, &str, Part); 13] = [
    (Format::Tree, "tree", Part::Tree),
    (Format::Table, "table", Part::Text),
    (Format::Wide, "wide", Part::Text),
    (Format::Json, "json", Part::Document),
    (Format::Yaml, "yaml", Part::Document),
    (Format::Name, "name", Part::Names),
    (Format::Markdown, "markdown", Part::Comment),
    (Format::Html, "html", Part::Page),
    (Format::Sarif, "sarif", Part::Findings),
    (Format::Gitlab, "gitlab", Part::Findings),
    (Format::Junit, "junit", Part::Findings),
    (Format::Csv, "csv", Part::Rows),
    (Format::Vap, "vap", Part::Policies),
];

/// Another word for a value of `-o`, as people type it.
const SHORT: (&str, &str) = ("md", "markdown");

impl Format {
    /// Returns an answer in this format.
    pub fn render(self, answer: &impl Render, look: Look) -> Result<String> {
        Ok(match self {
            Self::Tree => answer.tree(),
            Self::Table => answer.text(false, look),
            // Whoever asks for more columns wants all of the text.
            Self::Wide => answer.text(true, Look::whole(look.header)),
            Self::Json => document::json(answer)?,
            Self::Yaml => document::yaml(answer)?,
            Self::Name => answer.names(),
            Self::Markdown => answer.comment(),
            Self::Html => answer.page(),
            Self::Sarif => document::json(&sarif::log(&answer.findings()))?,
            Self::Gitlab => document::json(&gitlab::report(&answer.findings()))?,
            Self::Junit => junit::report(&answer.findings()),
            Self::Csv => csv::records(answer.rows(), look.header),
            // The verb prints them with the policies, which name users of the cluster.
            Self::Vap => answer.approvals(),
        })
    }

    /// Returns true for the formats for people, to which messages are added.
    pub fn is_table(self) -> bool {
        matches!(self, Self::Table | Self::Wide)
    }

    /// Returns true for the formats that nest objects below their owners and controllers.
    pub fn is_nested(self) -> bool {
        matches!(self, Self::Tree | Self::Html)
    }
}

/// Returns the formats that can show one of these parts, by their values of `-o`.
pub fn of(parts: &'static [Part]) -> impl Iterator<Item = (&'static str, Format)> + Clone {
    FORMATS.into_iter().filter(|(.., part)| parts.contains(part)).map(|(format, name, _)| (name, format))
}

/// Returns the parser of `-o` for an answer with these parts. The other formats are rejected with a list of these.
pub fn parser(parts: &'static [Part]) -> impl TypedValueParser<Value = Format> {
    let values = of(parts).map(|(name, _)| {
        let value = PossibleValue::new(name);
        if name == SHORT.1 { value.alias(SHORT.0) } else { value }
    });
    PossibleValuesParser::new(values).map(move |typed| {
        let name = if typed == SHORT.0 { SHORT.1 } else { &typed };
        let (_, format) = of(parts).find(|(known, _)| *known == name).expect("the values of the parser are known");
        format
    })
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command};

    use super::{Format, Part, parser};

    #[test]
    fn markdown_has_a_short_name_where_it_can_be_shown() {
        let format = |parts: &'static [Part], word: &str| {
            let command = Command::new("x").arg(Arg::new("o").value_parser(parser(parts)));
            let matches = command.try_get_matches_from(["x", word]).ok()?;
            matches.get_one::<Format>("o").copied()
        };
        assert_eq!(format(&[Part::Comment], "md"), Some(Format::Markdown));
        assert_eq!(format(&[Part::Comment, Part::Text], "markdown"), Some(Format::Markdown));
        assert_eq!((format(&[Part::Text], "md"), format(&[Part::Comment], "mdx")), (None, None));
    }
}
