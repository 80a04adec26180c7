//! Tables without lines: columns that are aligned, as wide as what is in them.

use comfy_table::{CellAlignment, ContentArrangement, presets};

/// How a column is aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    /// Text begins at the left.
    Left,
    /// Numbers end at the right.
    Right,
}

/// A table that is being filled.
pub(crate) struct Table(comfy_table::Table);

impl Table {
    /// A table with so many columns and no head.
    pub(crate) fn new(columns: &[Column]) -> Self {
        let mut table = comfy_table::Table::new();
        table
            .load_preset(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Disabled);
        // A column exists once there is a row.
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

    /// Adds a line.
    pub(crate) fn row<T: std::fmt::Display>(&mut self, cells: impl IntoIterator<Item = T>) {
        let cells = cells.into_iter().map(|cell| cell.to_string());
        self.0.add_row(cells.collect::<Vec<_>>());
    }

    /// The lines, each indented by so many blanks, with none at their ends.
    pub(crate) fn lines(&self, indent: usize) -> Vec<String> {
        let lines = self.0.lines().skip(1);
        let indented = lines.map(|line| format!("{:indent$}{}", "", line.trim_end()));
        indented.collect()
    }

    /// Prints it.
    pub(crate) fn print(&self, indent: usize) {
        for line in self.lines(indent) {
            say!("{line}");
        }
    }
}
