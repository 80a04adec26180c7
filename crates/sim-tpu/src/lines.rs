//! What lines of a simulated program are called in reports.

/// What a line of the program is called.
#[derive(Clone, Copy, Debug)]
pub enum Lines<'a> {
    /// The lines of a kernel's text.
    Text(&'a str),
    /// By line from 1, the instruction that was lowered.
    Instructions(&'a [String]),
}

impl Lines<'_> {
    /// The text of a line.
    pub fn get(&self, line: u32) -> &str {
        let at = (line as usize).checked_sub(1);
        let found = match (self, at) {
            (Self::Text(text), Some(at)) => text.lines().nth(at),
            (Self::Instructions(names), Some(at)) => names.get(at).map(String::as_str),
            (_, None) => None,
        };
        found.unwrap_or("").trim()
    }

    /// What a line is called in a sentence.
    pub fn name(&self, line: u32) -> String {
        match self {
            Self::Instructions(_) if !self.get(line).is_empty() => self.get(line).to_owned(),
            _ => format!("line {line}"),
        }
    }
}
