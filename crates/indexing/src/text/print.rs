//! Prints a map on one line.

use std::fmt;

use tegula_expr::{Interval, Style, Var};

use crate::map::{IndexingMap, Status, Variable};

/// Displays a map in a style.
pub struct PrintedMap<'a> {
    map: &'a IndexingMap,
    style: Style,
}

impl IndexingMap {
    /// Displays the map in a style.
    pub fn display(&self, style: Style) -> PrintedMap<'_> {
        PrintedMap { map: self, style }
    }

    /// The name of a variable.
    pub fn name(&self, var: Var) -> String {
        let position = var.0 as usize;
        let (dims, ranges) = (self.dims.len(), self.ranges.len());
        let given = self
            .variables()
            .nth(position)
            .and_then(|variable| variable.name.as_deref());
        match given {
            Some(name) => name.to_owned(),
            None if position < dims => format!("d{position}"),
            None if position < dims + ranges => format!("s{}", position - dims),
            None => format!("rt{}", position - dims - ranges),
        }
    }

    fn write_names(
        &self,
        f: &mut fmt::Formatter<'_>,
        brackets: [&str; 2],
        first: usize,
        count: usize,
    ) -> fmt::Result {
        f.write_str(brackets[0])?;
        for position in first..first + count {
            let separator = if position == first { "" } else { ", " };
            let var = Var(u32::try_from(position).unwrap_or(u32::MAX));
            write!(f, "{separator}{}", self.name(var))?;
        }
        f.write_str(brackets[1])
    }
}

impl fmt::Display for IndexingMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.display(Style::Xla).fmt(f)
    }
}

fn bounds(interval: &Interval) -> String {
    format!("in [{}, {}]", interval.lower, interval.upper)
}

impl fmt::Display for PrintedMap<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let map = self.map;
        match map.status {
            Status::Undefined => return f.write_str("UNDEFINED"),
            Status::Empty => return f.write_str("KNOWN EMPTY"),
            Status::Ok => {}
        }
        let (dims, ranges) = (map.dims.len(), map.ranges.len());
        map.write_names(f, ["(", ")"], 0, dims)?;
        if ranges > 0 {
            map.write_names(f, ["[", "]"], dims, ranges)?;
        }
        if !map.runtime.is_empty() {
            map.write_names(f, ["{", "}"], dims + ranges, map.runtime.len())?;
        }
        f.write_str(" -> (")?;
        let name = |var: Var| map.name(var);
        for (position, result) in map.results.iter().enumerate() {
            f.write_str(if position == 0 { "" } else { ", " })?;
            write!(f, "{}", result.display(&name, self.style))?;
        }
        f.write_str(")")?;
        let mut items: Vec<String> = map
            .variables()
            .enumerate()
            .map(
                |(
                    position,
                    Variable {
                        bounds: interval, ..
                    },
                )| {
                    let var = Var(u32::try_from(position).unwrap_or(u32::MAX));
                    format!("{} {}", map.name(var), bounds(interval))
                },
            )
            .collect();
        let mut constraints: Vec<String> = map
            .constraints
            .iter()
            .map(|c| {
                format!(
                    "{} {}",
                    c.term.display(&name, self.style),
                    bounds(&c.interval)
                )
            })
            .collect();
        constraints.sort_unstable();
        items.extend(constraints);
        if items.is_empty() {
            return Ok(());
        }
        write!(f, ", domain: {}", items.join(", "))
    }
}
