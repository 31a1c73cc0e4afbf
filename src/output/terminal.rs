//! All access to stdout and stderr: data on stdout, everything else on stderr. A closed pipe is not an error.
//!
//! Every method escapes what it writes, except [`Terminal::raw`].

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};

use dialoguer::console::{Key, Term, measure_text_width};

use super::text::sanitize::{escape, one_line};
use super::text::table::Look;
use super::text::wrap::wrap;
use crate::error::{Error, Result};
use crate::name::{self, Subject};

/// Prefixes of messages that kubectl prints without `error: `.
const KUBECTL_PREFIXES: [&str; 4] =
    ["Error from server", "The connection to the server", "Unable to connect to the server", "You must be logged in"];

/// Text that was collected, to be printed later.
#[derive(Clone, Default)]
pub struct Messages(Arc<Mutex<Vec<u8>>>);

impl Messages {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// Returns the lines, which are escaped.
    pub fn lines(&self) -> Vec<String> {
        self.text().lines().map(str::to_owned).collect()
    }
}

/// Everything that a part of a run printed.
pub(crate) struct Collected {
    pub(crate) data: Messages,
    pub(crate) messages: Messages,
}

impl Write for Messages {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Output streams of the process, or buffers in tests.
pub struct Terminal {
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    interactive: bool,
    /// Words that run the program, for messages.
    called: String,
    /// Cluster or recording that this run reads: commands in hints get its flags.
    subject: Subject,
    /// Columns of the terminal that standard output is.
    columns: Option<usize>,
    /// True if standard output and standard error are a terminal.
    is_shared: bool,
    /// Columns of the terminal that standard error is: messages are broken between words there.
    message_columns: Option<usize>,
}

impl Terminal {
    /// Uses the streams of the process.
    pub fn process() -> Self {
        let interactive = io::stdin().is_terminal() && io::stderr().is_terminal();
        let called = name::called(std::env::args_os().next().as_deref());
        let columns = io::stdout().is_terminal().then(|| usize::from(Term::stdout().size().1));
        Self {
            out: Box::new(io::BufWriter::new(io::stdout())),
            err: Box::new(io::stderr()),
            interactive,
            called,
            subject: Subject::Cluster(String::new()),
            columns,
            is_shared: columns.is_some() && io::stderr().is_terminal(),
            message_columns: io::stderr().is_terminal().then(|| usize::from(Term::stderr().size().1)),
        }
    }

    /// Returns a terminal that asks nothing, and what is printed there.
    pub(crate) fn collecting(&self) -> (Self, Collected) {
        let collected = Collected { data: Messages::default(), messages: Messages::default() };
        let (out, err) = (Box::new(collected.data.clone()), Box::new(collected.messages.clone()));
        let (called, subject) = (self.called.clone(), Subject::Cluster(String::new()));
        let (columns, message_columns) = (None, None);
        let terminal =
            Self { out, err, interactive: false, called, subject, columns, is_shared: false, message_columns };
        (terminal, collected)
    }

    /// Writes rendered data to stdout unchanged and flushes it: what renders it has escaped it.
    /// A closed pipe is [`Error::closed_pipe`].
    pub fn raw(&mut self, text: &str) -> Result<()> {
        self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Error::closed_pipe(),
            _ => Error::failed(format!("cannot write to standard output: {error}")),
        })
    }

    /// Returns how tables are printed here: fitted to a terminal, and whole in a pipe or a file.
    pub fn look(&self, header: bool) -> Look {
        let has_colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let colour = self.columns.is_some() && has_colour;
        Look { header, width: self.columns, colour, subject: !self.is_shared }
    }

    /// Sets what this run reads, so that commands in hints get its flags.
    pub(crate) fn set_subject(&mut self, subject: Subject) {
        self.subject = subject;
    }

    /// Returns true if who reads the messages sees what is printed, too.
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Writes help to stdout.
    pub fn help(&mut self, text: &str) -> Result<()> {
        self.raw(&name::renamed(text, &self.called))
    }

    /// Returns the words that run the program, such as `kubectl gitops`.
    pub fn called(&self) -> &str {
        &self.called
    }

    /// Writes a line about progress or result.
    pub fn status(&mut self, text: &str) {
        self.line("", text);
    }

    pub fn warning(&mut self, text: &str) {
        self.line("warning: ", text);
    }

    /// Writes an error; does not end the run.
    pub fn error(&mut self, text: &str) {
        self.line("error: ", text);
    }

    /// Writes the next step for the user.
    pub fn hint(&mut self, text: &str) {
        let text = self.subject.complete(text);
        self.line("hint: ", &text);
    }

    /// Writes a text with its line breaks, such as a usage or a table.
    pub fn block(&mut self, text: &str) {
        self.write("", &escape(text));
    }

    /// Writes the error that ends the run, whole and with its line breaks, and its hint.
    pub fn failure(&mut self, error: &Error) {
        if !error.message.is_empty() {
            let is_kubectls = KUBECTL_PREFIXES.iter().any(|prefix| error.message.starts_with(prefix));
            self.message(if is_kubectls { "" } else { "error: " }, &escape(&error.message));
        }
        if let Some(hint) = &error.hint {
            self.message("hint: ", &escape(&self.subject.complete(hint)));
        }
    }

    fn line(&mut self, label: &str, text: &str) {
        self.message(label, &one_line(text));
    }

    /// Writes a message. On a terminal, each of its lines continues below its first word.
    fn message(&mut self, label: &str, text: &str) {
        let text = format!("{label}{}", name::renamed(text, &self.called));
        let lines: Vec<String> = text
            .split('\n')
            .enumerate()
            .map(|(number, line)| {
                let margin = line.len() - line.trim_start_matches(' ').len();
                let continued = if number == 0 && label.is_empty() { 2 } else { margin.max(label.len()) };
                wrap(line.trim_start_matches(' '), margin, continued, self.message_columns)
            })
            .collect();
        self.write("", &lines.join("\n"));
    }

    /// Ignores failures: with stderr closed they cannot be reported.
    fn write(&mut self, label: &str, text: &str) {
        let _ = writeln!(self.err, "{label}{}", name::renamed(text, &self.called));
        let _ = self.err.flush();
    }

    /// Returns true if standard input and standard error are a terminal.
    pub fn can_ask(&self) -> bool {
        self.interactive
    }

    /// Returns true if a person reads standard output too, so that a question about what it says is worth asking.
    pub fn is_watched(&self) -> bool {
        self.interactive && self.columns.is_some()
    }

    /// Returns the prompt of a question whose answer takes this width. The question becomes a line of its own if both do
    /// not fit on one, because a prompt that wraps would be drawn twice.
    fn prompt(&mut self, question: &str, short: &str, answer: usize) -> String {
        let question = one_line(question);
        if fits(measure_text_width(&question) + answer) {
            return question.into_owned();
        }
        self.status(&question);
        short.to_owned()
    }

    /// Asks a yes-or-no question on stderr; the default is no.
    ///
    /// Fails when the terminal is closed, and after Ctrl-C with what has not happened, such as `nothing was suspended`.
    pub fn confirm(&mut self, question: &str, undone: &str) -> Result<bool> {
        let prompt = self.prompt(question, "Confirm", " [y/N] ".len());
        let answer = read_answer(&Term::stderr(), &format!("{} [y/N] ", name::renamed(&prompt, &self.called)));
        given(answer, undone)
    }

    /// Asks the user to type a text. Returns true if the answer is `expected`; Ctrl-D and Escape are a no.
    ///
    /// Fails when the terminal is closed, and after Ctrl-C with what has not happened.
    pub fn confirm_by_typing(&mut self, question: &str, expected: &str, undone: &str) -> Result<bool> {
        let prompt = self.prompt(question, "Answer", ": ".len() + measure_text_width(expected));
        let answer = read_text(&Term::stderr(), &format!("{prompt}: "));
        Ok(given(answer, undone)?.trim() == expected)
    }
}

/// Returns true if a text of this width fits on one line of the terminal.
pub(super) fn fits(width: usize) -> bool {
    width < usize::from(Term::stderr().size().1)
}

/// Character that a terminal sends for Ctrl-D.
const END_OF_INPUT: char = '\u{4}';

/// Prints a prompt and reads a key as its answer; `None` after Ctrl-C.
fn read_answer(terminal: &Term, prompt: &str) -> io::Result<Option<bool>> {
    terminal.write_str(prompt)?;
    loop {
        let answer = match terminal.read_key_raw()? {
            Key::Char('y' | 'Y') => Some(true),
            Key::Char('n' | 'N' | END_OF_INPUT) | Key::Enter | Key::Escape => Some(false),
            Key::CtrlC => None,
            _ => continue,
        };
        terminal.write_line(match answer {
            Some(true) => "yes",
            Some(false) => "no",
            None => "",
        })?;
        return Ok(answer);
    }
}

/// Prints a prompt and reads a line as its answer, which is empty after Ctrl-D and Escape; `None` after Ctrl-C.
fn read_text(terminal: &Term, prompt: &str) -> io::Result<Option<String>> {
    terminal.write_str(prompt)?;
    let mut text = String::new();
    let answer = loop {
        match terminal.read_key_raw()? {
            Key::Enter => break Some(text),
            Key::Char(END_OF_INPUT) | Key::Escape => break Some(String::new()),
            Key::CtrlC => break None,
            Key::Backspace => {
                let width = text.pop().map_or(0, |last| measure_text_width(last.encode_utf8(&mut [0; 4])));
                terminal.clear_chars(width)?;
            }
            Key::Char(character) if !character.is_control() => {
                text.push(character);
                terminal.write_str(character.encode_utf8(&mut [0; 4]))?;
            }
            _ => {}
        }
    };
    terminal.write_line("")?;
    Ok(answer)
}

/// Returns an answer.
///
/// Fails if the terminal gave none, and after Ctrl-C.
fn given<T>(answer: io::Result<Option<T>>, undone: &str) -> Result<T> {
    let given = answer.map_err(|error| Error::cancelled(format!("no answer: {error}")))?;
    given.ok_or_else(|| Error::interrupted(format!("interrupted: {undone}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terminal(out: &Messages, err: &Messages, message_columns: Option<usize>) -> Terminal {
        Terminal {
            out: Box::new(out.clone()),
            err: Box::new(err.clone()),
            interactive: false,
            called: name::called(None),
            subject: Subject::Cluster(String::new()),
            columns: None,
            is_shared: false,
            message_columns,
        }
    }

    #[test]
    fn messages_are_broken_between_words_on_a_terminal() {
        let err = Messages::default();
        let mut terminal = terminal(&Messages::default(), &err, Some(24));
        terminal.status("19 managed, 2 leaked, 6 controlled");
        terminal.warning("3 types could not be read");
        terminal
            .failure(&Error::failed("1 alarm, see above").hint("review the whole plan\n      or move in two commits"));
        terminal.block("a usage is as wide as it is written");
        let expected = "19 managed, 2 leaked, 6\n  controlled\nwarning: 3 types could\n         not be read\n\
                        error: 1 alarm, see\n       above\nhint: review the whole\n      plan\n      or move in two\n      \
                        commits\na usage is as wide as it is written\n";
        assert_eq!(String::from_utf8(err.0.lock().unwrap().clone()).unwrap(), expected);
    }

    #[test]
    fn every_message_is_escaped() {
        let (out, err) = (Messages::default(), Messages::default());
        let mut terminal = terminal(&out, &err, None);
        let hostile = "a\u{1b}[31m\tb\nerror: forged";
        terminal.status(hostile);
        terminal.warning(hostile);
        terminal.error(hostile);
        terminal.hint(hostile);
        terminal.block(hostile);
        terminal.failure(&Error::failed(hostile).hint(hostile));
        terminal.failure(&Error::failed("Error from server (NotFound): x\u{1b}c"));
        terminal.raw("raw\n").unwrap();
        let line = "a^[[31m b…";
        let block = "a^[[31m\tb\nerror: forged";
        let expected = format!(
            "{line}\nwarning: {line}\nerror: {line}\nhint: {line}\n{block}\nerror: {block}\nhint: {block}\n\
             Error from server (NotFound): x^[c\n"
        );
        assert_eq!(String::from_utf8(err.0.lock().unwrap().clone()).unwrap(), expected);
        assert_eq!(*out.0.lock().unwrap(), b"raw\n");
    }
}
