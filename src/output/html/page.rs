//! The parts of a page, and their HTML.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

use crate::output::gaps;
use crate::output::text::prose::{Prose, ProsePart};
use crate::output::text::sanitize::{escape, one_line};
use gitops_core::kubernetes::gap::{AnswerGap, GapGroup};
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::text::pluralize;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Deepest indentation of sections.
const DEEPEST: usize = 4;

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
#[derive(Default)]
pub(super) struct Section<'a> {
    pub(super) heading: String,
    pub(super) tag: Option<(Tone, String)>,
    /// Short text beside the heading.
    pub(super) summary: String,
    /// Number of owners above it, of which each blocks the next one.
    pub(super) depth: usize,
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
        Self { heading: heading.into(), ..Self::default() }
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

    fn html(&self) -> Markup {
        let (kind, namespace, name) = (one_line(&self.kind), one_line(&self.namespace), one_line(&self.name));
        let object = html! {
            (tag(&self.tag))
            span.object { (kind) " " strong { @if !namespace.is_empty() { (namespace) "/" } (name) } } " "
            span.why { (prose(&self.note)) }
        };
        html! {
            li data-tag=(one_line(&self.tag.1)) data-kind=(kind) data-namespace=(namespace) {
                @if self.children.is_empty() {
                    div.line.leaf { (object) }
                } @else {
                    details open { summary { (object) } (rows(&self.children)) }
                }
                @if let Some(diff) = self.diff {
                    details.diff {
                        summary { "Difference" }
                        pre tabindex="0" { @for line in diff.lines() { (diff_line(line)) "\n" } }
                    }
                }
            }
        }
    }
}

/// Returns a notice for each group of gaps, which names all of them.
pub(super) fn gap_notices(gaps: &[AnswerGap]) -> Vec<(Tone, Prose)> {
    let groups = GapGroup::of(gaps).into_iter();
    let notices = groups.map(|group| {
        let counts = group.first.affects_answer;
        let label = if counts { "Gap: " } else { "Not read, and of no effect on the answer: " };
        let sentence = gaps::sentence(&group, usize::MAX);
        let text = sentence.parts().iter().fold(Prose::from(label), |text, part| text.part(part.clone()));
        (if counts { Tone::Warn } else { Tone::Plain }, text)
    });
    notices.collect()
}

impl Page<'_> {
    /// Returns the page as HTML.
    pub(super) fn render(&self) -> String {
        let title = one_line(&self.title);
        let policy = format!(
            "default-src 'none'; style-src '{}'; script-src '{}'; img-src data:; base-uri 'none'; form-action 'none'",
            digest(STYLE),
            digest(SCRIPT)
        );
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content=(policy);
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="referrer" content="no-referrer";
                    link rel="icon" href="data:,";
                    title { (title) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    a.skip href="#objects" { "Skip to the objects" }
                    header {
                        h1 { (title) }
                        dl.facts { @for (name, value) in &self.facts { dt { (name) } dd { (one_line(value)) } } }
                    }
                    main {
                        @if !self.notices.is_empty() {
                            ul.notices aria-label="Messages" {
                                @for (tone, message) in &self.notices { li class=(tone.class()) { (prose(message)) } }
                            }
                        }
                        (self.filters())
                        div #objects { @for section in &self.sections { (section.html()) } }
                    }
                    script { (PreEscaped(SCRIPT)) }
                }
            }
        };
        page.into_string() + "\n"
    }

    /// Returns the filters. They are hidden until the script shows them.
    fn filters(&self) -> Markup {
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
        html! {
            form.filters role="search" aria-label="Filter the objects" hidden {
                input type="search" name="search" aria-label="Search" placeholder="Search (press /)" autocomplete="off";
                button type="button" aria-expanded="false" aria-controls="more" { "Filters" }
                div #more .more {
                    @for (name, all, values) in [("kind", "All kinds", kinds), ("namespace", "All namespaces", namespaces)] {
                        select name=(name) aria-label=(name) {
                            option value="" { (all) }
                            @for value in values { option { (one_line(value)) } }
                        }
                    }
                    @for (tag, number) in tags {
                        button type="button" aria-pressed="false" data-show=(one_line(tag)) {
                            (one_line(tag)) " " (number)
                        }
                    }
                    button type="button" data-fold="open" { "Expand all" }
                    button type="button" data-fold="close" { "Collapse all" }
                }
                output name="shown" aria-live="polite" {}
            }
        }
    }
}

impl Section<'_> {
    fn html(&self) -> Markup {
        html! {
            section.owner data-depth=[(self.depth > 0).then_some(self.depth.min(DEEPEST))] {
                details open {
                    summary {
                        @if let Some(found) = &self.tag { (tag(found)) }
                        h2 { (one_line(&self.heading)) } " " span.why { (one_line(&self.summary)) }
                    }
                    @for note in &self.notes { p.note { (prose(note)) } }
                    @if !self.lines.is_empty() { pre tabindex="0" { (escape(&self.lines)) } }
                    @if !self.rows.is_empty() { (rows(&self.rows)) }
                }
            }
        }
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

fn rows(rows: &[Row<'_>]) -> Markup {
    html! { ul.rows { @for row in rows { (row.html()) } } }
}

fn tag((tone, words): &(Tone, String)) -> Markup {
    html! { span class={ "tag " (tone.class()) } { (one_line(words)) } }
}

/// Returns a line of a unified diff; the heads of the files are no changes.
fn diff_line(line: &str) -> Markup {
    let is_head = line.starts_with("+++") || line.starts_with("---");
    html! {
        @match line.as_bytes().first() {
            Some(b'+') if !is_head => ins { (escape(line)) },
            Some(b'-') if !is_head => del { (escape(line)) },
            _ => (escape(line)),
        }
    }
}

/// Returns a sentence, in which the text of others is code.
fn prose(prose: &Prose) -> Markup {
    html! {
        @for part in prose.parts() {
            @match part {
                ProsePart::Own(words) => (one_line(words)),
                ProsePart::Foreign(text) => code { (one_line(text)) },
            }
        }
    }
}

/// Returns the digest of a script or style, as a content security policy states it.
fn digest(content: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(content)))
}

/// Returns a number of objects: `3 objects`.
pub(super) fn objects(number: usize) -> String {
    pluralize(number, "object")
}
