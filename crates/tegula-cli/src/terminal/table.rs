//! Tables without borders: aligned columns, each as wide as its widest cell.

use comfy_table::{CellAlignment, ContentArrangement, presets};

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    /// Left-aligned, for text.
    Left,
    /// Right-aligned, for numbers.
    Right,
}

/// A table under construction.
pub(crate) struct Table(comfy_table::Table);

impl Table {
    /// Makes an empty table with these columns and no head.
    pub(crate) fn new(columns: &[Column]) -> Self {
        let mut table = comfy_table::Table::new();
        table
            .load_preset(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Disabled);
        // The table library creates columns only with a row, so an empty row is added.
        table.add_row(columns.iter().map(|_| ""));
        for (column, alignment) in table.column_iter_mut().zip(columns) {
            column.set_padding((0, 2));
            column.set_cell_alignment(match alignment {
                Column::Left => CellAlignment::Left,
                Column::Right => CellAlignment::Right,
            });
        }
        Self(table)
    }

    /// Adds a row.
    pub(crate) fn row<T: std::fmt::Display>(&mut self, cells: impl IntoIterator<Item = T>) {
        let cells = cells.into_iter().map(|cell| cell.to_string());
        self.0.add_row(cells.collect::<Vec<_>>());
    }

    /// Returns the lines of the table, each indented by `indent` blanks and without trailing
    /// blanks.
    pub(crate) fn lines(&self, indent: usize) -> Vec<String> {
        let lines = self.0.lines().skip(1);
        let indented = lines.map(|line| format!("{:indent$}{}", "", line.trim_end()));
        indented.collect()
    }

    /// Prints the table.
    pub(crate) fn print(&self, indent: usize) {
        for line in self.lines(indent) {
            say!("{line}");
        }
    }
}
