//! Lowers `sdy.manual_computation`, which is written for each device's own parts of the arrays.
//!
//! It is lowered as in XLA, so that a partitioner sees the same program whether it comes as
//! StableHLO or as HLO: a custom call that divides whole arrays into parts, a call of the
//! computation on parts, and a custom call that combines the parts of its results. The frontend
//! attributes of the custom calls contain the shardings and the mesh axes. If the axes have only
//! one device, the operations are inlined instead.

use super::{Frame, Local, Lowerer, access::Access, entry::quoted};
use crate::Error;
use crate::mlir::ValueId;
use std::sync::Arc;
use tegula_ir::{CustomCall, Op, Shape};

impl<'m> Lowerer<'m> {
    pub(super) fn manual_computation(
        &mut self,
        access: &Access<'m>,
        frame: &mut Frame,
    ) -> Result<(), Error> {
        let operands = self.operands(access, frame)?;
        let block = self.only_block(access, access.region(0)?)?;
        if self.is_of_one_device(access) {
            for (argument, local) in block.arguments.iter().zip(&operands) {
                frame.bind(*argument, *local);
            }
            let results = self.block(block, frame)?;
            return self.bind_all(access, frame, &results);
        }
        if block.arguments.len() != operands.len() {
            let (wanted, found) = (operands.len(), block.arguments.len());
            return Err(access.error(format!(
                "expected {wanted} arguments of region 0, found {found}"
            )));
        }
        let parts = self.shapes(access, &block.arguments)?;
        let parts = self.resharded(access, Boundary::Cut, (&operands, parts), frame)?;
        let op = Op::Call {
            to_apply: self.closed_region(access, 0, "xla.sdy.manual_computation_body")?,
            is_composite: false,
        };
        let call = self.push(frame, op, &parts, None)?;
        let inlineable = ("inlineable".into(), quoted("xla_late"));
        frame
            .annotations_mut(call)
            .frontend_attributes
            .push(inlineable);
        let parts = match access.operation.results.len() {
            1 => vec![call],
            _ => self.elements(frame, call)?,
        };
        let whole = self.shapes(access, &access.operation.results)?;
        let results = self.resharded(access, Boundary::Join, (&parts, whole), frame)?;
        self.bind_all(access, frame, &results)
    }

    /// Whether the manual axes have only one device in total.
    fn is_of_one_device(&self, access: &Access<'_>) -> bool {
        let Ok(axes) = access.attribute("manual_axes") else {
            return false;
        };
        let axes = crate::print::attribute_text(axes);
        let meshes = self.source.body().iter().filter_map(|operation| {
            let is_mesh = &*operation.name == "sdy.mesh";
            self.mesh(operation.attribute("mesh").filter(|_| is_mesh)?)
        });
        // An axis has the same size in all meshes that have an axis of this name.
        let mut sizes = meshes.flat_map(|mesh| mesh.axes);
        sizes.all(|(name, size)| size == 1 || !axes.contains(&format!("\"{name}\"")))
    }

    fn shapes(&self, access: &Access<'_>, values: &[ValueId]) -> Result<Vec<Shape>, Error> {
        let shapes = values
            .iter()
            .map(|value| super::types::shape(self.source.type_of(*value)));
        let shapes: Result<_, _> = shapes.collect();
        shapes.map_err(|why| access.unsupported(why))
    }

    /// Divides arrays into parts, or combines parts, with the new shapes.
    fn resharded(
        &mut self,
        access: &Access<'m>,
        boundary: Boundary,
        (arrays, mut shapes): (&[Local], Vec<Shape>),
        frame: &mut Frame,
    ) -> Result<Vec<Local>, Error> {
        if arrays.is_empty() {
            return Ok(Vec::new());
        }
        let (target, shardings) = match boundary {
            Boundary::Cut => ("xla.sdy.GlobalToLocalShape", "in_shardings"),
            Boundary::Join => ("xla.sdy.LocalToGlobalShape", "out_shardings"),
        };
        let op = Op::CustomCall(Box::new(CustomCall {
            target: target.into(),
            operand_layouts: None,
            has_side_effect: true,
            api_version: None,
            called: Vec::new(),
            aliasing: Vec::new(),
            extra: Vec::new(),
        }));
        let is_single = shapes.len() == 1;
        let shape = match is_single {
            true => shapes.remove(0),
            false => Shape::Tuple(shapes),
        };
        let call = self.push(frame, op, arrays, Some(shape))?;
        for name in [shardings, "manual_axes"] {
            let text = crate::print::attribute_text(access.attribute(name)?);
            let key: Arc<str> = format!("xla.sdy.{name}").into();
            let attribute = (key, quoted(&text));
            frame
                .annotations_mut(call)
                .frontend_attributes
                .push(attribute);
        }
        match is_single {
            true => Ok(vec![call]),
            false => self.elements(frame, call),
        }
    }
}

/// A boundary of a manual computation.
#[derive(Clone, Copy)]
enum Boundary {
    /// The entrance: whole arrays are divided into parts.
    Cut,
    /// The exit: parts are combined to whole arrays.
    Join,
}
