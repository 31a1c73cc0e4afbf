//! Sentences in which the text of others is marked: tables and messages print them as they are, and comments on pull
//! requests quote the marked parts as code.

use std::fmt;

/// A sentence: words of this program, and between them names and messages that others wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prose(Vec<ProsePart>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProsePart {
    /// Words of this program.
    Own(String),
    /// Text of the cluster, of a manifest, or of another program.
    Foreign(String),
}

impl<W: Into<String>> From<W> for Prose {
    /// Begins a sentence with words of this program.
    fn from(words: W) -> Self {
        Self(vec![ProsePart::Own(words.into())])
    }
}

impl Prose {
    /// Adds words of this program.
    #[must_use]
    pub(crate) fn own(mut self, words: impl Into<String>) -> Self {
        self.0.push(ProsePart::Own(words.into()));
        self
    }

    /// Adds a part of another sentence.
    #[must_use]
    pub(crate) fn part(mut self, part: ProsePart) -> Self {
        self.0.push(part);
        self
    }

    /// Adds text that others wrote; a sentence around it, whose words are not marked, counts as such text too.
    #[must_use]
    pub(crate) fn foreign(mut self, text: impl ToString) -> Self {
        self.0.push(ProsePart::Foreign(text.to_string()));
        self
    }

    /// Adds a text that others wrote, after a separator. Adds nothing if the text is empty.
    #[must_use]
    pub(crate) fn foreign_after(self, separator: &str, text: &str) -> Self {
        if text.is_empty() { self } else { self.own(separator).foreign(text) }
    }

    /// Parts of the sentence, in order.
    pub(crate) fn parts(&self) -> &[ProsePart] {
        &self.0
    }
}

impl fmt::Display for Prose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|part| match part {
            ProsePart::Own(text) | ProsePart::Foreign(text) => f.write_str(text),
        })
    }
}
