//! Shardy's encoding of its attributes: meshes and shardings.
//!
//! They are decoded to Shardy's text form, `#sdy.sharding<@mesh, [{"x"}]>`, which the reader of
//! text keeps as well. Codes: `shardy/dialect/sdy/ir/bytecode.td`.

use super::Table;
use crate::Error;
use crate::bytecode::cursor::Cursor;
use crate::mlir::Attribute;

/// The name of the dialect.
const SDY: &str = "sdy";

/// Decodes an attribute.
pub(super) fn attribute(table: &mut Table<'_>, bytes: &mut Cursor) -> Result<Attribute, Error> {
    let body = match bytes.varint()? {
        0 => {
            let names = table.attributes(bytes)?;
            let names: Vec<String> = names.iter().map(crate::print::attribute_text).collect();
            format!("manual_axes{{{}}}", names.join(", "))
        }
        1 => {
            let name = table.string(bytes)?;
            format!("mesh_axis<{}={}>", quoted(&name), bytes.signed()?)
        }
        2 => {
            let axes = parts("mesh_axis", table, bytes)?;
            let devices = bytes.signed_list()?;
            let devices = match devices.is_empty() {
                true => String::new(),
                false => format!(", device_ids=[{}]", numbers(&devices)),
            };
            format!("mesh<[{axes}]{devices}>")
        }
        3 => format!("sub_axis_info<({}){}>", bytes.signed()?, bytes.signed()?),
        4 => {
            let name = table.string(bytes)?;
            let part = match table.optional_attribute(bytes)? {
                Some(info) => format!(":{}", inside("sub_axis_info", &info, bytes)?),
                None => String::new(),
            };
            format!("axis_ref<{}{part}>", quoted(&name))
        }
        5 => dimension_sharding(table, bytes)?,
        code @ (6 | 15 | 17) => sharding(code, table, bytes)?,
        7 | 16 => {
            let shardings = angled("sharding", table, bytes)?;
            format!("sharding_per_value<[{shardings}]>")
        }
        8 => {
            let factors = bytes.signed_list()?;
            let factors: String = factors.into_iter().map(factor).collect();
            format!("dim_mapping<{factors}>")
        }
        9 => format!("tensor_mapping<[{}]>", parts("dim_mapping", table, bytes)?),
        10 => sharding_rule(table, bytes)?,
        11 => format!("axis_ref_list<{{{}}}>", parts("axis_ref", table, bytes)?),
        12 => {
            let lists = parts("axis_ref_list", table, bytes)?;
            format!("list_of_axis_ref_lists<[{lists}]>")
        }
        13 => {
            let axes = parts("axis_ref", table, bytes)?;
            let (from, to) = (bytes.signed()?, bytes.signed()?);
            format!("all_to_all_param<{{{axes}}}: {from}->{to}>")
        }
        14 => {
            let params = parts("all_to_all_param", table, bytes)?;
            format!("all_to_all_param_list<[{params}]>")
        }
        code => return Err(bytes.error(format!("unknown code {code} of a Shardy attribute"))),
    };
    Ok(Attribute::Opaque {
        dialect: SDY.into(),
        body: body.into(),
    })
}

/// Reads `{"x", "y", ?}p1`: the axes that a dimension is sharded along, whether others may be
/// added, and the priority.
fn dimension_sharding(table: &mut Table<'_>, bytes: &mut Cursor) -> Result<String, Error> {
    let mut axes = parts("axis_ref", table, bytes)?;
    let is_closed = bytes.byte()? != 0;
    if !is_closed {
        axes += match axes.is_empty() {
            true => "?",
            false => ", ?",
        };
    }
    let (priority, is_stated) = bytes.flagged()?;
    let priority = match is_stated {
        true => format!("p{priority}"),
        false => String::new(),
    };
    Ok(format!("dimension_sharding<{{{axes}}}{priority}>"))
}

/// Reads `<@mesh, [{"x"}, {}], replicated={"y"}, unreduced=max{"z"}>`.
fn sharding(code: u64, table: &mut Table<'_>, bytes: &mut Cursor) -> Result<String, Error> {
    let mesh = table.attribute(bytes)?;
    let mesh = match &mesh {
        Attribute::Opaque { body, .. } => body.to_string(),
        _ => crate::print::attribute_text(&mesh),
    };
    let dims = parts("dimension_sharding", table, bytes)?;
    let mut text = format!("sharding<{mesh}, [{dims}]");
    let replicated = parts("axis_ref", table, bytes)?;
    if !replicated.is_empty() {
        text += &format!(", replicated={{{replicated}}}");
    }
    if code != 6 {
        let unreduced = parts("axis_ref", table, bytes)?;
        let reduction = match code {
            17 => bytes.signed()?,
            _ => 0,
        };
        let reduction = match reduction {
            0 => "",
            1 => "max",
            2 => "min",
            number => {
                return Err(bytes.error(format!(
                    "unknown kind {number} of a reduction: expected 0, 1 or 2"
                )));
            }
        };
        if !unreduced.is_empty() {
            text += &format!(", unreduced={reduction}{{{unreduced}}}");
        }
    }
    Ok(text + ">")
}

/// Reads `<([i, k], [k, j])->([i, j]) {i=8, j=8, k=4} reduction={k}>`.
fn sharding_rule(table: &mut Table<'_>, bytes: &mut Cursor) -> Result<String, Error> {
    let sizes = bytes.signed_list()?;
    let operands = parts("tensor_mapping", table, bytes)?;
    let results = parts("tensor_mapping", table, bytes)?;
    let mut text = format!("op_sharding_rule<({operands})->({results})");
    if !sizes.is_empty() {
        let sizes = sizes.iter().enumerate();
        let sizes: Vec<String> = sizes
            .map(|(number, size)| format!("{}={size}", factor(number as i64)))
            .collect();
        text += &format!(" {{{}}}", sizes.join(", "));
    }
    for kind in [
        "reduction",
        "need_replication",
        "permutation",
        "blocked_propagation",
    ] {
        let factors = bytes.signed_list()?;
        let factors: Vec<String> = factors.into_iter().map(factor).collect();
        if !factors.is_empty() {
            text += &format!(" {kind}={{{}}}", factors.join(", "));
        }
    }
    if bytes.byte()? != 0 {
        text += ", custom";
    }
    Ok(text + ">")
}

/// Reads a list of attributes, and joins the text in `kind<...>` of each.
fn parts(kind: &str, table: &mut Table<'_>, bytes: &mut Cursor) -> Result<String, Error> {
    let attributes = table.attributes(bytes)?;
    let texts: Result<Vec<&str>, Error> =
        attributes.iter().map(|a| inside(kind, a, bytes)).collect();
    Ok(texts?.join(", "))
}

/// As [`parts`], but each text stays in angle brackets.
fn angled(kind: &str, table: &mut Table<'_>, bytes: &mut Cursor) -> Result<String, Error> {
    let attributes = table.attributes(bytes)?;
    let texts: Result<Vec<String>, Error> = attributes
        .iter()
        .map(|a| Ok(format!("<{}>", inside(kind, a, bytes)?)))
        .collect();
    Ok(texts?.join(", "))
}

fn inside<'a>(kind: &str, attribute: &'a Attribute, bytes: &Cursor) -> Result<&'a str, Error> {
    let body = match attribute {
        Attribute::Opaque { dialect, body } if &**dialect == SDY => body.strip_prefix(kind),
        _ => None,
    };
    let inner = body.and_then(|body| body.strip_prefix('<')?.strip_suffix('>'));
    inner.ok_or_else(|| bytes.error(format!("expected a Shardy attribute `{kind}`")))
}

/// The name of a factor: `i`, `j`, ... `z`, and then `z_1`, `z_2`, ....
fn factor(number: i64) -> String {
    match u8::try_from(number) {
        Ok(number @ 0..=17) => char::from(b'i' + number).to_string(),
        _ => format!("z_{}", number.saturating_sub(17)),
    }
}

fn numbers(values: &[i64]) -> String {
    let texts: Vec<String> = values.iter().map(i64::to_string).collect();
    texts.join(", ")
}

fn quoted(name: &str) -> String {
    crate::print::attribute_text(&Attribute::string(name))
}
