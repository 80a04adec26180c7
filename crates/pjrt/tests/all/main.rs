//! Tests of the plug-in from a front end's view: a loaded library, and a table of functions.

mod api;
mod dispatch;
mod layout_rows;
mod layouts;
mod programs;
mod symbols;
mod values;

/// The rows of a struct: its size and the offsets of its fields.
macro_rules! rows {
    ($rows:ident, $name:ident: $($field:tt),* $(,)?) => {
        $rows.push((stringify!($name).to_owned(), size_of::<$name>()));
        $($crate::row!($rows, $name, $field);)*
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! row {
    ($rows:ident, $name:ident, r#type) => {
        $rows.push((
            format!("{}.type", stringify!($name)),
            std::mem::offset_of!($name, r#type),
        ));
    };
    ($rows:ident, $name:ident, $field:ident) => {
        let field = concat!(stringify!($name), ".", stringify!($field));
        $rows.push((field.to_owned(), std::mem::offset_of!($name, $field)));
    };
}

pub(crate) use rows;
