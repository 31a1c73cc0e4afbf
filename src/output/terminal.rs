//! The only door to stdout and stderr: data on stdout, everything else on stderr, a closed pipe is no error.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::error::{Error, Result};

/// Where output goes. Tests put buffers in; the binary puts the process' streams in.
pub struct Terminal {
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    interactive: bool,
}

impl Terminal {
    /// The process' own streams.
    pub fn process() -> Self {
        let interactive = io::stdin().is_terminal() && io::stderr().is_terminal();
        Self { out: Box::new(io::BufWriter::new(io::stdout())), err: Box::new(io::stderr()), interactive }
    }

    /// Streams of the caller's; never interactive.
    pub fn new(out: Box<dyn Write + Send>, err: Box<dyn Write + Send>) -> Self {
        Self { out, err, interactive: false }
    }

    /// Writes data to stdout as it is and flushes it.
    ///
    /// # Errors
    /// [`Error::closed_pipe`] when the reader went away, an ordinary error when writing fails.
    pub fn data(&mut self, text: &str) -> Result<()> {
        self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Error::closed_pipe(),
            _ => Error::failed(format!("cannot write to standard output: {error}")),
        })
    }

    /// A line for the person who watches.
    pub fn status(&mut self, text: &str) {
        self.line("", text);
    }

    /// A warning.
    pub fn warning(&mut self, text: &str) {
        self.line("warning: ", text);
    }

    /// An error that does not end the run.
    pub fn error(&mut self, text: &str) {
        self.line("error: ", text);
    }

    /// What to do next.
    pub fn hint(&mut self, text: &str) {
        self.line("hint: ", text);
    }

    /// A closed stderr leaves nobody to tell, so failures to write there are not reported.
    fn line(&mut self, label: &str, text: &str) {
        let _ = writeln!(self.err, "{label}{text}");
        let _ = self.err.flush();
    }

    /// Whether a question can be asked: standard input and standard error are a terminal.
    pub fn can_ask(&self) -> bool {
        self.interactive
    }

    /// Asks a yes-or-no question on stderr; anything but yes is no.
    ///
    /// # Errors
    /// When the terminal goes away.
    pub fn confirm(&mut self, question: &str) -> Result<bool> {
        let answer = dialoguer::Confirm::new().with_prompt(question).default(false).show_default(true);
        answer.interact().map_err(|error| Error::cancelled(format!("no answer: {error}")))
    }

    /// Asks to type an exact text; anything else is no.
    ///
    /// # Errors
    /// When the terminal goes away.
    pub fn confirm_typed(&mut self, question: &str, expected: &str) -> Result<bool> {
        let _ = write!(self.err, "{question}: ");
        let _ = self.err.flush();
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line).map_err(|error| Error::cancelled(format!("no answer: {error}")))?;
        Ok(line.trim() == expected)
    }
}
