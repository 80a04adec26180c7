//! Access to an operation's attributes, with errors that name both.

use crate::Error;
use crate::mlir::{Attribute, Operation, Region};
use tegula_ir::{DimNumbers, Precision};

/// An operation that is being lowered.
pub(super) struct Access<'o> {
    pub(super) operation: &'o Operation,
}

impl<'o> Access<'o> {
    pub(super) fn new(operation: &'o Operation) -> Self {
        Self { operation }
    }

    /// The operation's name, with the name of its source location.
    fn title(&self) -> String {
        let mut title = format!("`{}`", self.operation.name);
        let location = &self.operation.location;
        let file = location.file();
        match (location.name(), file) {
            (Some(name), Some((file, line))) => title += &format!(" ({name}, {file}:{line})"),
            (Some(name), None) => title += &format!(" ({name})"),
            (None, Some((file, line))) => title += &format!(" ({file}:{line})"),
            (None, None) => {}
        }
        title
    }

    /// An error in the operation.
    pub(super) fn error(&self, message: impl AsRef<str>) -> Error {
        Error::input(format!("{}: {}", self.title(), message.as_ref()))
    }

    /// An error because the operation is not supported in this form.
    pub(super) fn unsupported(&self, message: impl AsRef<str>) -> Error {
        Error::unsupported(format!("{}: {}", self.title(), message.as_ref()))
    }

    /// Converts another module's error to one of this operation.
    pub(super) fn wrap(&self, error: Error) -> Error {
        match error.place.is_some() || error.message.starts_with('`') {
            true => error,
            false => Error {
                message: format!("{}: {}", self.title(), error.message),
                ..error
            },
        }
    }

    pub(super) fn attribute(&self, name: &str) -> Result<&'o Attribute, Error> {
        let found = self.operation.attribute(name);
        found.ok_or_else(|| self.error(format!("the attribute `{name}` is missing")))
    }

    fn wrong(&self, name: &str, expected: &str) -> Error {
        self.error(format!("expected {expected} as the attribute `{name}`"))
    }

    pub(super) fn integer(&self, name: &str) -> Result<i64, Error> {
        let value = self.attribute(name)?.as_integer();
        value.ok_or_else(|| self.wrong(name, "an integer"))
    }

    pub(super) fn integers(&self, name: &str) -> Result<Vec<i64>, Error> {
        let value = self.attribute(name)?.as_integers();
        value.ok_or_else(|| self.wrong(name, "a list of integers"))
    }

    /// A list of integers; if the attribute is missing, `count` times the default.
    pub(super) fn integers_or(
        &self,
        name: &str,
        default: i64,
        count: usize,
    ) -> Result<Vec<i64>, Error> {
        let values = match self.operation.attribute(name) {
            None => return Ok(vec![default; count]),
            Some(value) => value.as_integers(),
        };
        let values = values.filter(|values| values.len() == count);
        values.ok_or_else(|| self.wrong(name, &format!("{count} integers")))
    }

    pub(super) fn dims(&self, name: &str) -> Result<DimNumbers, Error> {
        Ok(self.integers(name)?.into_iter().collect())
    }

    /// Pairs of integers, such as paddings; zeros if the attribute is missing.
    pub(super) fn pairs_or_zero(&self, name: &str, count: usize) -> Result<Vec<(i64, i64)>, Error> {
        let values = self.integers_or(name, 0, 2 * count)?;
        Ok(values.chunks(2).map(|pair| (pair[0], pair[1])).collect())
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool, Error> {
        match self.operation.attribute(name) {
            None => Ok(false),
            Some(Attribute::Unit) => Ok(true),
            Some(value) => value
                .as_bool()
                .ok_or_else(|| self.wrong(name, "true or false")),
        }
    }

    pub(super) fn string(&self, name: &str) -> Result<&'o str, Error> {
        let value = self.attribute(name)?.as_str();
        value.ok_or_else(|| self.wrong(name, "a string"))
    }

    /// The case of an enumeration attribute, if it is present.
    pub(super) fn case(&self, name: &str) -> Result<Option<&'o str>, Error> {
        match self.operation.attribute(name) {
            None => Ok(None),
            Some(value) => match value.as_case().or_else(|| value.as_str()) {
                Some(case) => Ok(Some(case)),
                None => Err(self.wrong(name, "one of the cases of an enumeration")),
            },
        }
    }

    /// The integers in a field of a structured attribute; empty if the field is missing.
    pub(super) fn field(&self, name: &str, field: &str) -> Result<DimNumbers, Error> {
        let entries = self.attribute(name)?.as_entries();
        let entries = entries.ok_or_else(|| self.wrong(name, "dimension numbers"))?;
        let Some((_, value)) = entries.iter().find(|(key, _)| &**key == field) else {
            return Ok(DimNumbers::new());
        };
        let values = value.as_integers();
        let values = values.ok_or_else(|| self.wrong(name, &format!("integers in `{field}`")))?;
        Ok(values.into_iter().collect())
    }

    /// The single integer in a field of a structured attribute; 0 if the field is missing.
    pub(super) fn number(&self, name: &str, field: &str) -> Result<i64, Error> {
        Ok(self.field(name, field)?.first().copied().unwrap_or(0))
    }

    /// The precision of each operand.
    pub(super) fn precision(&self) -> Result<Vec<Precision>, Error> {
        let Some(value) = self.operation.attribute("precision_config") else {
            return Ok(Vec::new());
        };
        let cases = value.as_array().unwrap_or_default();
        let precision = |case: &Attribute| match case.as_case() {
            Some("DEFAULT") => Ok(Precision::Default),
            Some("HIGH") => Ok(Precision::High),
            Some("HIGHEST") => Ok(Precision::Highest),
            _ => Err(self.wrong("precision_config", "DEFAULT, HIGH or HIGHEST")),
        };
        let all: Result<Vec<Precision>, Error> = cases.iter().map(precision).collect();
        all
    }

    pub(super) fn region(&self, place: usize) -> Result<&'o Region, Error> {
        let region = self.operation.regions.get(place);
        region.ok_or_else(|| self.error(format!("region {place} is missing")))
    }
}
