//! Comments on pull requests, rendered by two independent implementations of Markdown: nothing that others wrote becomes
//! markup, a link, a mention, an image, a command or a diagram, whatever it contains.

use std::collections::BTreeMap;

use chrono::DateTime;
use gitops_core::kubernetes::gap::{Gap, GapKind};
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::kubernetes::snapshot::ClusterIdentity;
use gitops_core::ownership::OwnerId;
use gitops_core::plan::alarm::{AlarmCode, Remedy};
use gitops_core::plan::{
    Action, Actor, Alarm, BlockedByFinalizers, Change, Contested, Diff, Outcome, OwnerOutcome, PinnedObject, Plan,
    Reason, ReasonCode,
};
use html5gum::{Token, Tokenizer};
use kubectl_gitops::output::markdown;
use test_support::random::Random;

/// A word in every text that others wrote.
const FOREIGN: &str = "zqforeign";

/// Markup of CommonMark, GFM, GitHub and GitLab, and characters that end a line or a construct.
#[rustfmt::skip]
const NASTY: [&str; 84] = [
    "`", "``", "```", "````````", "~~~", "\\", "\\`", "|", "\\|", "||", "\n", "\r\n", "\r", "\u{85}", "\u{2028}", "\t", " ", "  ",
    "\n\n", "\n/approve", "/close", "\n/label ~bug", "/assign @me", "\n\n/merge\n", "@team", "@org/team", "#123", "org/repo#1", "!45", "~bug",
    "$12", "%3", "&5", "GL-7", "JIRA-123", "0123456789abcdef0123456789abcdef01234567", "www.example.com", "https://example.com/?a=b",
    "mailto:x@example.com", "x@example.com", "<https://example.com>", "[a](https://example.com)", "![a](https://example.com/x.png)",
    "[a]: https://example.com", "[a]", "[^1]", "[^1]: note", "[[wiki]]", "- [ ] task", "* item", "1. item", "# heading", "===", "---", "> quote",
    "> [!WARNING]", "**bold**", "__bold__", "~~strike~~", "==mark==", "$x$", "$$x$$", "$`x`$", "```math\nx\n```", "```mermaid\nflowchart\n```",
    "```plantuml\nx\n```", "<script>", "</code>", "</details>", "<details>", "<img src=x onerror=y>", "<!--", "-->", "<input>", "<a href=x>",
    "&lt;", "&#64;", ":smile:", "{{x}}", "\u{202e}", "\u{200b}", "\"]", "end\n", "suggestion",
];

/// Elements of a comment. Everything else would come from the text of others.
const ALLOWED: [&str; 16] = [
    "p", "strong", "code", "pre", "details", "summary", "table", "thead", "tbody", "tr", "th", "td", "ul", "li", "br",
    "span",
];

/// Texts that consist of nasty pieces and of the word, from a seed.
struct Texts(Random);

impl Texts {
    fn text(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..=self.0.below(6) {
            let piece = self.0.pick(&NASTY);
            text += &piece.repeat(if self.0.one_in(12) { self.0.below(300) } else { 1 });
            text += if self.0.one_in(3) { "" } else { FOREIGN };
        }
        text
    }

    fn id(&mut self) -> ObjectId {
        ObjectId::new(&self.text(), &self.text(), &self.text(), &self.text())
    }

    fn owner(&mut self) -> OwnerId {
        OwnerId { system: self.text(), kind: self.text(), namespace: self.text(), name: self.text() }
    }

    /// Returns a plan with such a text in every field that is not a number or an enum.
    fn plan(&mut self) -> Plan {
        let mut plan = Plan::new(ClusterIdentity { uid: self.text(), server: self.text() });
        let actions = [Action::Delete, Action::Recreate, Action::Keep, Action::Create, Action::Update, Action::Unknown];
        for _ in 0..self.0.below(4) {
            let (owner, is_blocked) = (self.owner(), self.0.one_in(2));
            let outcome = if is_blocked { Outcome::Blocked } else { Outcome::Applies };
            plan.add_owners([OwnerOutcome::new(
                owner.clone(),
                outcome,
                Reason::new(ReasonCode::BuildFailed, self.text()),
            )]);
            for _ in 0..self.0.below(4) {
                let object = PinnedObject { id: self.id(), uid: self.text(), resource_version: self.text() };
                let reason = Reason::new(ReasonCode::Moved, self.text());
                let owner = (!self.0.one_in(4)).then(|| owner.clone());
                let mut change =
                    Change::new(actions[self.0.below(6)], object, owner, Actor::KustomizeController, reason);
                change.cause = self.0.one_in(3).then(|| self.id());
                if self.0.one_in(3) {
                    plan.add_diffs([Diff { object: change.object.id.clone(), text: self.text() }]);
                }
                if self.0.one_in(3) {
                    let object = change.object.id.clone();
                    let finalizers = vec![self.text(), self.text()];
                    let (controller, detail) =
                        (self.0.one_in(2).then(|| self.id()), self.0.one_in(2).then(|| self.text()));
                    plan.set_blocked_by_finalizers(vec![BlockedByFinalizers {
                        object,
                        finalizers,
                        controller,
                        detail,
                    }]);
                }
                plan.add_changes([change]);
            }
        }
        for _ in 0..self.0.below(3) {
            let namespace = self.0.one_in(2).then(|| self.text());
            plan.add_gaps([Gap { kind: GapKind::Failed, subject: self.text(), namespace, message: self.text() }]);
            plan.add_contested([Contested { object: self.id(), owners: vec![self.owner(), self.owner()] }]);
        }
        let alarms = (0..self.0.below(8)).map(|_| {
            let (owner, detail) = (Some(self.owner()), self.text());
            Alarm { code: AlarmCode::OwnerEmptied, owner, detail, remedy: Some(Remedy::CheckPaths) }
        });
        plan.set_alarms(alarms.collect());
        let recorded = self.0.one_in(3).then_some(DateTime::UNIX_EPOCH);
        plan.recorded_at(recorded)
    }
}

/// CommonMark by pulldown-cmark, without extensions.
fn common_mark(source: &str) -> String {
    let mut html = String::new();
    pulldown_cmark::html::push_html(&mut html, pulldown_cmark::Parser::new(source));
    html
}

/// Markdown by comrak with all extensions of GitHub and GitLab.
fn flavored(source: &str) -> String {
    let mut options = comrak::Options::default();
    let extension = &mut options.extension;
    extension.strikethrough = true;
    extension.table = true;
    extension.autolink = true;
    extension.tasklist = true;
    extension.footnotes = true;
    extension.inline_footnotes = true;
    extension.superscript = true;
    extension.description_lists = true;
    extension.multiline_block_quotes = true;
    extension.alerts = true;
    extension.math_dollars = true;
    extension.math_latex = true;
    extension.math_code = true;
    extension.wikilinks_title_after_pipe = true;
    extension.underline = true;
    extension.spoiler = true;
    extension.greentext = true;
    extension.highlight = true;
    extension.insert = true;
    extension.front_matter_delimiter = Some("---".to_owned());
    options.parse.relaxed_autolinks = true;
    options.render.r#unsafe = true;
    comrak::markdown_to_html(source, &options)
}

/// Fails if a text of others is anywhere but in code, or if there is an element or an attribute that a comment never has.
fn inspect(html: &str, source: &str, renderer: &str) {
    let mut open: Vec<String> = vec![];
    for Ok(token) in Tokenizer::new(html) {
        match token {
            Token::StartTag(tag) => {
                let name = String::from_utf8_lossy(&tag.name).into_owned();
                assert!(ALLOWED.contains(&name.as_str()), "{renderer}: <{name}>\n{source}\n{html}");
                for (attribute, value) in &tag.attributes {
                    let (key, value) = (String::from_utf8_lossy(attribute), String::from_utf8_lossy(value));
                    let known = key == "class" && matches!(&*value, "language-diff" | "language-mermaid");
                    assert!(known, "{renderer}: {key}={value}\n{source}\n{html}");
                }
                if !tag.self_closing && name != "br" {
                    open.push(name);
                }
            }
            Token::EndTag(tag) => {
                let name = String::from_utf8_lossy(&tag.name).into_owned();
                assert_eq!(open.pop().as_deref(), Some(&*name), "{renderer}: </{name}>\n{source}\n{html}");
            }
            Token::String(text) => {
                let text = String::from_utf8_lossy(&text).into_owned();
                let is_code = open.iter().any(|name| name == "code");
                assert!(is_code || !text.contains(FOREIGN), "{renderer}: {text:?}\n{source}\n{html}");
            }
            Token::Comment(_) | Token::Doctype(_) => panic!("{renderer}\n{source}\n{html}"),
            Token::Error(_) => {}
        }
    }
    assert!(open.is_empty(), "{renderer}: {open:?} stay open\n{source}\n{html}");
}

/// Fails if a line of the source begins with a command, or a text of others begins a line outside of a block.
fn inspect_lines(source: &str) {
    for line in source.split(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']) {
        assert!(!line.trim_start().starts_with('/'), "{line:?}\n{source}");
    }
    let invisible = ['\u{202e}', '\u{200b}', '\u{85}', '\r'];
    assert!(!source.contains(invisible), "{source}");
}

fn check(plan: &Plan) -> String {
    let source = markdown::render(plan);
    assert!(source.len() < markdown::LIMIT, "{} bytes", source.len());
    inspect_lines(&source);
    inspect(&common_mark(&source), &source, "CommonMark");
    inspect(&flavored(&source), &source, "GFM");
    source
}

#[test]
fn text_of_others_is_code_in_every_renderer() {
    let (mut foreign, mut pieces) = (0, BTreeMap::new());
    for seed in 0..500 {
        let source = check(&Texts(Random::new(seed)).plan());
        foreign += source.matches(FOREIGN).count();
        NASTY.iter().for_each(|piece| *pieces.entry(*piece).or_insert(0) += source.matches(piece).count());
    }
    assert!(foreign > 7_500, "only {foreign} words of others were rendered");
    let seen = pieces.values().filter(|count| **count > 2).count();
    assert!(seen > 60, "only {seen} of {} pieces were rendered", NASTY.len());
}

/// The inspection itself finds what it looks for.
#[test]
fn each_renderer_shows_markup_that_is_not_quoted() {
    for (renderer, render, markup) in [
        ("CommonMark", common_mark as fn(&str) -> String, "<https://example.com>"),
        ("CommonMark", common_mark, "![zqforeign](x.png)"),
        ("CommonMark", common_mark, "zqforeign"),
        ("CommonMark", common_mark, "<script>"),
        ("GFM", flavored, "www.example.com"),
        ("GFM", flavored, "x@example.com"),
        ("GFM", flavored, "- [ ] task"),
        ("GFM", flavored, "`a` | $x$"),
        ("GFM", flavored, "x[^1]\n\n[^1]: note"),
        ("GFM", flavored, "> [!WARNING]\n> x"),
        ("GFM", flavored, "<code> www.example.com</code>"),
    ] {
        let html = render(markup);
        let found = std::panic::catch_unwind(|| inspect(&html, markup, renderer));
        assert!(found.is_err(), "{renderer}: {markup}: {html}");
    }
}

/// The largest texts that a plan can have leave the alarms and the counts readable.
#[test]
fn a_comment_is_cut_with_a_line_that_says_so() {
    let mut texts = Texts(Random::new(7));
    let mut plan = Plan::new(ClusterIdentity::default());
    let long = "\u{1F4A3}".repeat(600);
    plan.set_alarms(
        (0..9)
            .map(|_| Alarm { code: AlarmCode::OwnerEmptied, owner: None, detail: long.clone(), remedy: None })
            .collect(),
    );
    for number in 0..500 {
        let id = ObjectId::new("", &format!("Kind{number}{long}"), "shop", &format!("{number}{long}"));
        let object = PinnedObject { id: id.clone(), uid: String::new(), resource_version: String::new() };
        let owner = OwnerId { name: format!("{number}{long}"), ..texts.owner() };
        let reason = Reason::new(ReasonCode::BuildFailed, long.clone());
        plan.add_owners([OwnerOutcome::new(owner.clone(), Outcome::Blocked, reason.clone())]);
        plan.add_changes([Change::new(Action::Delete, object, Some(owner), Actor::KustomizeController, reason)]);
        plan.add_contested([Contested { object: id, owners: vec![texts.owner()] }]);
        plan.add_gaps([Gap {
            kind: GapKind::Failed,
            subject: format!("{number}{long}"),
            namespace: Some(long.clone()),
            message: long.clone(),
        }]);
    }
    let source = check(&plan);
    assert!(source.starts_with("🛑 **Alarm:** `"), "{source}");
    assert!(
        source.contains("**500 to delete**; 500 owners blocked: `") && source.contains(" and 495 more"),
        "{source}"
    );
    let last = source.trim_end().lines().last().unwrap();
    assert!(last.contains(" rows of 500 left out here**: `-o json` has them all."), "{last}");
}
