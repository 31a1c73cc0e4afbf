//! The parts of a page, and their HTML.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::output::prose::{Part, Prose};
use crate::output::sanitize::{escape, markup, one_line};
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::text::pluralize;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Importance of a tag or notice. The words say the same; the colour only helps to find them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Bad,
    Warn,
    Good,
    Info,
    Plain,
}

/// Content of a page, from its title to the objects.
#[derive(Default)]
pub(super) struct Page<'a> {
    pub(super) title: String,
    /// Names and values below the title.
    pub(super) facts: Vec<(&'static str, String)>,
    /// Messages to read first.
    pub(super) notices: Vec<(Tone, Prose)>,
    pub(super) sections: Vec<Section<'a>>,
}

/// Objects of an owner.
pub(super) struct Section<'a> {
    pub(super) heading: String,
    pub(super) tag: Option<(Tone, String)>,
    /// Short text beside the heading.
    pub(super) summary: String,
    pub(super) notes: Vec<Prose>,
    pub(super) rows: Vec<Row<'a>>,
    /// Lines for people that are shown as they are.
    pub(super) lines: String,
}

/// An object, and the objects below it.
pub(super) struct Row<'a> {
    pub(super) tag: (Tone, String),
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) note: Prose,
    /// Difference of an update, as `diff -u` prints it.
    pub(super) diff: Option<&'a str>,
    pub(super) children: Vec<Row<'a>>,
}

impl<'a> Section<'a> {
    pub(super) fn new(heading: impl Into<String>) -> Self {
        let heading = heading.into();
        Self { heading, tag: None, summary: String::new(), notes: vec![], rows: vec![], lines: String::new() }
    }
}

impl<'a> Row<'a> {
    pub(super) fn new(tag: (Tone, impl Into<String>), id: &ObjectId, note: Prose) -> Self {
        let (kind, namespace, mut name) = (id.kind.to_string(), id.namespace.to_string(), id.name.to_string());
        name += &id.cluster.as_ref().map(|cluster| format!(" in cluster {cluster}")).unwrap_or_default();
        Self { tag: (tag.0, tag.1.into()), kind, namespace, name, note, diff: None, children: vec![] }
    }

    /// Calls a function with this row and all rows below it.
    pub(super) fn visit<'r>(&'r self, see: &mut impl FnMut(&'r Row<'a>)) {
        see(self);
        self.children.iter().for_each(|child| child.visit(see));
    }

    fn render(&self, html: &mut String) {
        let (tag, kind, namespace) = (text(&self.tag.1), text(&self.kind), text(&self.namespace));
        add(html, format_args!("<li data-tag=\"{tag}\" data-kind=\"{kind}\" data-namespace=\"{namespace}\">"));
        let name = match self.namespace.is_empty() {
            true => text(&self.name),
            false => format!("{namespace}/{}", text(&self.name)),
        };
        let note = prose(&self.note);
        let object = format!(
            "{}<span class=\"object\">{kind} <strong>{name}</strong></span> <span class=\"why\">{note}</span>",
            tag_of(&self.tag)
        );
        if self.children.is_empty() {
            add(html, format_args!("<div class=\"line leaf\">{object}</div>"));
        } else {
            add(html, format_args!("<details open><summary>{object}</summary>"));
            rows(&self.children, html);
            html.push_str("</details>");
        }
        if let Some(diff) = self.diff {
            html.push_str("<details class=\"diff\"><summary>Difference</summary><pre tabindex=\"0\">");
            diff.lines().for_each(|line| diff_line(line, html));
            html.push_str("</pre></details>");
        }
        html.push_str("</li>\n");
    }
}

impl Page<'_> {
    /// Returns the page as HTML.
    pub(super) fn render(&self) -> String {
        let mut html = String::new();
        let title = text(&self.title);
        let (style, script) = (digest(STYLE), digest(SCRIPT));
        add(
            &mut html,
            format_args!(
                "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
                 <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src '{style}'; \
                 script-src '{script}'; img-src data:; base-uri 'none'; form-action 'none'\">\n\
                 <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
                 <meta name=\"referrer\" content=\"no-referrer\">\n<link rel=\"icon\" href=\"data:,\">\n\
                 <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
                 <a class=\"skip\" href=\"#objects\">Skip to the objects</a>\n<header>\n<h1>{title}</h1>\n<dl class=\"facts\">\n"
            ),
        );
        for (name, value) in &self.facts {
            add(&mut html, format_args!("<dt>{}</dt><dd>{}</dd>\n", text(name), text(value)));
        }
        html.push_str("</dl>\n</header>\n<main>\n");
        self.render_notices(&mut html);
        self.render_filters(&mut html);
        html.push_str("<div id=\"objects\">\n");
        self.sections.iter().for_each(|section| section.render(&mut html));
        add(&mut html, format_args!("</div>\n</main>\n<script>{SCRIPT}</script>\n</body>\n</html>\n"));
        html
    }

    fn render_notices(&self, html: &mut String) {
        if self.notices.is_empty() {
            return;
        }
        html.push_str("<ul class=\"notices\" aria-label=\"Messages\">\n");
        for (tone, message) in &self.notices {
            add(html, format_args!("<li class=\"{}\">{}</li>\n", tone.class(), prose(message)));
        }
        html.push_str("</ul>\n");
    }

    /// Adds the filters. They are hidden until the script shows them.
    fn render_filters(&self, html: &mut String) {
        let mut tags: BTreeMap<&str, usize> = BTreeMap::new();
        let (mut kinds, mut namespaces) = (BTreeSet::new(), BTreeSet::new());
        for row in self.sections.iter().flat_map(|section| &section.rows) {
            row.visit(&mut |row| {
                *tags.entry(&row.tag.1).or_default() += 1;
                kinds.insert(&*row.kind);
                namespaces.insert(&*row.namespace);
            });
        }
        namespaces.remove("");
        html.push_str(
            "<form class=\"filters\" role=\"search\" aria-label=\"Filter the objects\" hidden>\n\
             <input type=\"search\" name=\"search\" aria-label=\"Search\" placeholder=\"Search (press /)\" autocomplete=\"off\">\n",
        );
        select("kind", "All kinds", &kinds, html);
        select("namespace", "All namespaces", &namespaces, html);
        for (tag, number) in tags {
            let tag = text(tag);
            add(
                html,
                format_args!(
                    "<button type=\"button\" aria-pressed=\"true\" data-show=\"{tag}\">{tag} {number}</button>\n"
                ),
            );
        }
        html.push_str(
            "<button type=\"button\" data-fold=\"open\">Expand all</button>\n\
             <button type=\"button\" data-fold=\"close\">Collapse all</button>\n\
             <output name=\"shown\" aria-live=\"polite\"></output>\n</form>\n",
        );
    }
}

impl Section<'_> {
    fn render(&self, html: &mut String) {
        let tag = self.tag.as_ref().map(tag_of).unwrap_or_default();
        let (heading, summary) = (text(&self.heading), text(&self.summary));
        add(
            html,
            format_args!(
                "<section class=\"owner\"><details open><summary>{tag}<h2>{heading}</h2> <span class=\"why\">{summary}</span></summary>\n"
            ),
        );
        for note in &self.notes {
            add(html, format_args!("<p class=\"note\">{}</p>\n", prose(note)));
        }
        if !self.lines.is_empty() {
            add(html, format_args!("<pre tabindex=\"0\">{}</pre>\n", markup(&escape(&self.lines))));
        }
        if !self.rows.is_empty() {
            rows(&self.rows, html);
        }
        html.push_str("</details></section>\n");
    }
}

impl Tone {
    fn class(self) -> &'static str {
        match self {
            Self::Bad => "bad",
            Self::Warn => "warn",
            Self::Good => "good",
            Self::Info => "info",
            Self::Plain => "plain",
        }
    }
}

fn rows(rows: &[Row<'_>], html: &mut String) {
    html.push_str("<ul class=\"rows\">\n");
    rows.iter().for_each(|row| row.render(html));
    html.push_str("</ul>\n");
}

fn tag_of((tone, words): &(Tone, String)) -> String {
    format!("<span class=\"tag {}\">{}</span>", tone.class(), text(words))
}

fn select(name: &str, all: &str, values: &BTreeSet<&str>, html: &mut String) {
    add(html, format_args!("<select name=\"{name}\" aria-label=\"{name}\">\n<option value=\"\">{all}</option>\n"));
    for value in values {
        add(html, format_args!("<option>{}</option>\n", text(value)));
    }
    html.push_str("</select>\n");
}

/// Adds a line of a unified diff; the heads of the files are no changes.
fn diff_line(line: &str, html: &mut String) {
    let safe = markup(&escape(line));
    let element = match line.as_bytes() {
        [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => None,
        [b'+', ..] => Some("ins"),
        [b'-', ..] => Some("del"),
        _ => None,
    };
    match element {
        Some(element) => add(html, format_args!("<{element}>{safe}</{element}>\n")),
        None => add(html, format_args!("{safe}\n")),
    }
}

/// Returns a sentence, in which the text of others is code.
fn prose(prose: &Prose) -> String {
    let parts = prose.parts().iter().map(|part| match part {
        Part::Own(words) => text(words),
        Part::Foreign(foreign) => format!("<code>{}</code>", text(foreign)),
    });
    parts.collect()
}

/// Returns one line of text for an element or an attribute in quotes.
fn text(text: &str) -> String {
    markup(&one_line(text))
}

/// Returns the digest of a script or style, as a content security policy states it.
fn digest(content: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(content)))
}

fn add(html: &mut String, text: std::fmt::Arguments<'_>) {
    html.write_fmt(text).expect("a String takes any text");
}

/// Returns a number of objects: `3 objects`.
pub(super) fn objects(number: usize) -> String {
    pluralize(number, "object")
}
