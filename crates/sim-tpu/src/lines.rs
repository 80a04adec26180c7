//! Names of a simulated program's lines in reports.

/// The source of the names.
#[derive(Clone, Copy, Debug)]
pub enum Lines<'a> {
    /// The program is a kernel's text; a line is named by its text.
    Text(&'a str),
    /// The program was lowered; line `i`, from 1, is named by the instruction that it was lowered
    /// from.
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

    /// The name of a line inside a sentence.
    pub fn name(&self, line: u32) -> String {
        match self {
            Self::Instructions(_) if !self.get(line).is_empty() => self.get(line).to_owned(),
            _ => format!("line {line}"),
        }
    }
}
