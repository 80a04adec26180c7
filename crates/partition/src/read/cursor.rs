//! A cursor in the text of a sharding.

/// The rest of the text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'t> {
    rest: &'t str,
}

impl<'t> Cursor<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { rest: text }
    }

    /// Skips white space and comments and then `token`, if that comes next; says whether it did.
    pub(crate) fn eat(&mut self, token: &str) -> bool {
        let rest = start_of(self.rest);
        match rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// As [`eat`](Self::eat), for a token that must come next.
    pub(crate) fn expect(&mut self, token: &str) -> Option<()> {
        self.eat(token).then_some(())
    }

    /// Reads a number.
    pub(crate) fn number(&mut self) -> Option<i64> {
        let rest = start_of(self.rest);
        let end = rest.find(|c: char| !c.is_ascii_digit());
        let (number, rest) = rest.split_at(end.unwrap_or(rest.len()));
        let number = number.parse().ok()?;
        self.rest = rest;
        Some(number)
    }

    /// Reads a word of letters, digits, `_`, `.` and `-`.
    pub(crate) fn word(&mut self) -> Option<&'t str> {
        let rest = start_of(self.rest);
        let part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-');
        let end = rest.find(|c: char| !part(c)).unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }

    /// Reads a text in quotes.
    pub(crate) fn quoted(&mut self) -> Option<&'t str> {
        let rest = start_of(self.rest).strip_prefix('"')?;
        let (text, rest) = rest.split_once('"')?;
        self.rest = rest;
        Some(text)
    }

    /// Reads items, separated by commas, up to `close`.
    pub(crate) fn list<T>(
        &mut self,
        close: &str,
        mut item: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        let mut items = Vec::new();
        while !self.eat(close) {
            if !items.is_empty() {
                self.expect(",")?;
            }
            items.push(item(self)?);
        }
        Some(items)
    }

    /// Whether only white space is left.
    pub(crate) fn is_at_end(&self) -> bool {
        start_of(self.rest).trim().is_empty()
    }
}

/// The text after leading white space and comments (`/*index=5*/`).
fn start_of(mut text: &str) -> &str {
    loop {
        text = text.trim_start();
        match text
            .strip_prefix("/*")
            .and_then(|rest| rest.split_once("*/"))
        {
            Some((_, rest)) => text = rest,
            None => return text,
        }
    }
}
