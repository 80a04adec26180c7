//! Arrays in memory: a picture of any tiled shape, and the layouts chosen for a chip.

use crate::session::{chip, value_name};
use crate::{Problem, Session};
use serde::Serialize;
use tegula_draw::layout::{Limits, Picture, svg};
use tegula_ir::{PassManager, Shape, parse_shape};
use tegula_layout::assign::with_layout;
use tegula_layout::physical::PhysicalLayout;
use tegula_tpu_schedule::{HBM, VMEM};

/// How much of an array is drawn. Larger pictures would need too much scrolling.
const LIMITS: Limits = Limits {
    planes: 3,
    rows: 24,
    columns: 32,
    places: 1024,
};

/// The layout of an array in memory.
#[derive(Clone, Debug, Serialize)]
pub struct LayoutInfo {
    /// The shape with its layout.
    pub shape: String,
    /// The picture, as SVG.
    pub svg: String,
    /// Number of elements.
    pub elements: i64,
    /// Bytes of the elements.
    pub bytes: i64,
    /// Bytes of the buffer, padding included.
    pub padded_bytes: i64,
    /// Explains the padding, or states that there is none.
    pub why: String,
}

/// Draws a shape with its own layout. A shape without one gets the default layout of `chip_name`.
///
/// # Errors
/// The text is not an array shape with known sizes, or the layout does not fit the shape.
pub fn draw_layout(text: &str, chip_name: Option<&str>) -> Result<LayoutInfo, Problem> {
    let shape = parse_shape(text).map_err(|e| Problem::new(e.message()))?;
    let Shape::Array(mut array) = shape else {
        return Err(Problem::new(format!(
            "`{text}` is not an array shape; write one such as `f32[5,130]`"
        )));
    };
    let dims = array.static_dims();
    let dims = dims.ok_or_else(|| {
        Problem::new("all sizes of the shape must be numbers, as in `f32[5,130]`")
    })?;
    if let (Some(name), None) = (chip_name, &array.layout) {
        let layout = chip(name)?.default_layout(array.element_type.bits(), &dims);
        let layout = layout.map_err(|e| Problem::new(e.to_string()))?;
        array.layout = Some(Box::new(layout));
    }
    let failed = |e: tegula_layout::physical::PhysicalError| Problem::new(e.to_string());
    let layout = PhysicalLayout::new(&array).map_err(failed)?;
    let picture = Picture::new(&array, LIMITS).map_err(failed)?;
    Ok(LayoutInfo {
        shape: Shape::Array(array.clone()).to_string(),
        svg: svg(&picture),
        elements: layout.elements(),
        bytes: layout.bytes(),
        padded_bytes: layout.padded_bytes(),
        why: padding(&array, &layout),
    })
}

/// A sentence that explains the padding of an array.
fn padding(array: &tegula_ir::ArrayShape, layout: &PhysicalLayout) -> String {
    let lost = layout.padded_bytes() - layout.bytes();
    if lost == 0 {
        return "No padding: the tiles divide the array evenly.".to_owned();
    }
    let tiles = array.layout.as_ref().map(|layout| {
        let first = layout.tiles.first();
        let sizes = first.map(|tile| {
            let sizes = tile.dims.iter().map(|dim| match dim {
                tegula_ir::TileDim::Size(size) => Some(*size),
                tegula_ir::TileDim::Combine => None,
            });
            sizes.collect::<Vec<_>>()
        });
        (layout.minor_to_major.to_vec(), sizes.unwrap_or_default())
    });
    let (Some((order, tile)), Some(dims)) = (tiles, array.static_dims()) else {
        return format!("{lost} bytes of padding.");
    };
    // The tile covers the most minor dimensions; its last size is that of the most minor one.
    let mut parts = Vec::new();
    for (size, dim) in tile.iter().rev().zip(order.iter().map(|&d| d as usize)) {
        let (Some(size), Some(&own)) = (size, dims.get(dim)) else {
            continue;
        };
        if *size > 0 && own % size != 0 {
            let full = (own + size - 1) / size * size;
            parts.push(format!(
                "dimension {dim} has {own} elements and is rounded up to {full}, a multiple of the \
                 tile's {size}"
            ));
        }
    }
    match parts.is_empty() {
        true => format!("{lost} bytes of padding, at the end of the buffer."),
        false => format!("{lost} bytes of padding: {}.", parts.join("; ")),
    }
}

/// One layout that the assignment considered.
#[derive(Clone, Debug, Serialize)]
pub struct AlternativeInfo {
    /// The layout.
    pub layout: String,
    /// Seconds of memory traffic, padding included.
    pub traffic: f64,
    /// Seconds lost because operations do not get the layout that they prefer.
    pub denied: f64,
    /// Seconds of copies and transposes that this layout makes necessary.
    pub copies: f64,
    /// Whether the assignment chose it.
    pub chosen: bool,
}

/// An array of the program on a chip.
#[derive(Clone, Debug, Serialize)]
pub struct PlacedInfo {
    /// Its name.
    pub name: String,
    /// Its type with the chosen layout.
    pub shape: String,
    /// Bytes, padding included.
    pub bytes: i64,
    /// Bytes without padding.
    pub useful: i64,
    /// `HBM` or `VMEM`.
    pub space: String,
    /// Its offset in VMEM, in bytes.
    pub offset: Option<i64>,
    /// Why it is in this memory.
    pub place_reason: String,
    /// Why only one layout is possible, if that is so.
    pub fixed: Option<&'static str>,
    /// The layouts that operations prefer, as text.
    pub wishes: Vec<String>,
    /// The layouts that were considered, the cheapest first.
    pub alternatives: Vec<AlternativeInfo>,
}

/// The layouts and memory spaces chosen for a chip.
#[derive(Clone, Debug, Serialize)]
pub struct Assignment {
    /// The arrays.
    pub arrays: Vec<PlacedInfo>,
    /// The total cost in seconds.
    pub seconds: f64,
    /// Whether the assignment is proved to be the cheapest.
    pub is_best: bool,
    /// The size of VMEM in bytes.
    pub vmem_bytes: i64,
    /// The most bytes of VMEM in use at the same time.
    pub vmem_peak: i64,
}

impl Session {
    /// The layout and memory space of each array of the program on a chip, with the reasons.
    ///
    /// # Errors
    /// The program is a kernel, or has sizes known only at run time; the chip is unknown.
    pub fn assignment(&self, chip_name: &str) -> Result<Assignment, Problem> {
        let program = self.program()?;
        let chip = chip(chip_name)?;
        let laid =
            tegula::tpu::schedule_for(&program.module, &chip, &|_| true, &mut PassManager::new());
        let laid = laid.map_err(|e| Problem::of(&e, &self.text))?;
        let (assignment, schedule) = (&laid.assignment, &laid.schedule);
        let arrays = schedule.buffers.iter().map(|buffer| {
            let shape = &assignment.program.values[buffer.value].shape;
            let explanation = assignment.explanations.get(&buffer.value);
            let alternatives = explanation.map_or(&[][..], |e| &e.alternatives);
            PlacedInfo {
                name: value_name(&laid.module, &assignment.program, buffer.value),
                shape: with_layout(shape, &buffer.layout).to_string(),
                bytes: buffer.bytes,
                useful: shape.byte_size().unwrap_or(0),
                space: match buffer.space() {
                    VMEM => "VMEM".to_owned(),
                    HBM => "HBM".to_owned(),
                    other => format!("S({other})"),
                },
                offset: buffer.offset,
                place_reason: buffer.reason.to_string(),
                fixed: explanation.and_then(|e| e.fixed),
                wishes: explanation.map(|e| e.wishes.clone()).unwrap_or_default(),
                alternatives: alternatives
                    .iter()
                    .map(|alternative| AlternativeInfo {
                        layout: alternative.layout.to_string(),
                        traffic: alternative.traffic,
                        denied: alternative.wishes,
                        copies: alternative.links,
                        chosen: alternative.chosen,
                    })
                    .collect(),
            }
        });
        Ok(Assignment {
            arrays: arrays.collect(),
            seconds: assignment.cost,
            is_best: assignment.is_best,
            vmem_bytes: schedule.vmem_bytes,
            vmem_peak: schedule.vmem_peak,
        })
    }
}
