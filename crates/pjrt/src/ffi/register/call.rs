//! Calls of registered functions: builds the frame with operands, results and attributes.

use super::host::{self, Invocation, States};
use crate::error::Error;
use crate::event::Event;
use crate::ffi::attributes::Attributes;
use crate::ffi_api::*;
use std::ffi::c_void;
use std::ptr;
use std::sync::Mutex;
use tegula_ir::{ArrayShape, CustomCall, ElementType, Literal};

/// The interface's number for an element type.
pub(crate) fn data_type(element_type: ElementType) -> XLA_FFI_DataType {
    match element_type {
        ElementType::Pred => XLA_FFI_DataType_PRED,
        ElementType::S1 => XLA_FFI_DataType_S1,
        ElementType::S2 => XLA_FFI_DataType_S2,
        ElementType::S4 => XLA_FFI_DataType_S4,
        ElementType::S8 => XLA_FFI_DataType_S8,
        ElementType::S16 => XLA_FFI_DataType_S16,
        ElementType::S32 => XLA_FFI_DataType_S32,
        ElementType::S64 => XLA_FFI_DataType_S64,
        ElementType::U1 => XLA_FFI_DataType_U1,
        ElementType::U2 => XLA_FFI_DataType_U2,
        ElementType::U4 => XLA_FFI_DataType_U4,
        ElementType::U8 => XLA_FFI_DataType_U8,
        ElementType::U16 => XLA_FFI_DataType_U16,
        ElementType::U32 => XLA_FFI_DataType_U32,
        ElementType::U64 => XLA_FFI_DataType_U64,
        ElementType::F16 => XLA_FFI_DataType_F16,
        ElementType::BF16 => XLA_FFI_DataType_BF16,
        ElementType::F32 => XLA_FFI_DataType_F32,
        ElementType::F64 => XLA_FFI_DataType_F64,
        ElementType::C64 => XLA_FFI_DataType_C64,
        ElementType::C128 => XLA_FFI_DataType_C128,
        ElementType::F8E5M2 => XLA_FFI_DataType_F8E5M2,
        ElementType::F8E3M4 => XLA_FFI_DataType_F8E3M4,
        ElementType::F8E4M3 => XLA_FFI_DataType_F8E4M3,
        ElementType::F8E4M3FN => XLA_FFI_DataType_F8E4M3FN,
        ElementType::F8E4M3B11FNUZ => XLA_FFI_DataType_F8E4M3B11FNUZ,
        ElementType::F8E5M2FNUZ => XLA_FFI_DataType_F8E5M2FNUZ,
        ElementType::F8E4M3FNUZ => XLA_FFI_DataType_F8E4M3FNUZ,
        ElementType::F4E2M1FN => XLA_FFI_DataType_F4E2M1FN,
        ElementType::F8E8M0FNU => XLA_FFI_DataType_F8E8M0FNU,
        ElementType::F6E2M3FN | ElementType::F6E3M2FN => XLA_FFI_DataType_INVALID,
    }
}

/// Arrays in the form that functions take.
pub(crate) struct Arrays {
    _dims: Vec<Vec<i64>>,
    pub(crate) buffers: Vec<XLA_FFI_Buffer>,
}

impl Arrays {
    fn new<'a>(arrays: impl Iterator<Item = (&'a ArrayShape, *mut u8)>) -> Self {
        let mut all_dims: Vec<Vec<i64>> = Vec::new();
        let mut buffers = Vec::new();
        for (shape, data) in arrays {
            let mut dims: Vec<i64> = shape
                .dims
                .iter()
                .filter_map(tegula_ir::Dim::as_static)
                .collect();
            buffers.push(XLA_FFI_Buffer {
                struct_size: size_of::<XLA_FFI_Buffer>(),
                extension_start: ptr::null_mut(),
                dtype: data_type(shape.element_type),
                data: data.cast(),
                rank: dims.len() as i64,
                dims: dims.as_mut_ptr(),
            });
            all_dims.push(dims);
        }
        Self {
            _dims: all_dims,
            buffers,
        }
    }

    /// The operands, which must not be written.
    fn operands(literals: &[Literal]) -> Self {
        let arrays = literals
            .iter()
            .map(|l| (l.shape(), l.bytes().as_ptr().cast_mut()));
        Self::new(arrays)
    }

    /// The results, which the function writes.
    fn results(literals: &mut [Literal]) -> Self {
        let shapes: Vec<(ArrayShape, *mut u8)> = literals
            .iter_mut()
            .map(|l| (l.shape().clone(), l.bytes_mut_ptr()))
            .collect();
        Self::new(shapes.iter().map(|(shape, data)| (shape, *data)))
    }

    fn pointers(&mut self) -> Vec<*mut c_void> {
        self.buffers
            .iter_mut()
            .map(|b| (&raw mut *b).cast())
            .collect()
    }
}

/// The memory that a call reads and writes.
#[derive(Default)]
pub(crate) struct Memory<'a> {
    operands: &'a [Literal],
    /// The memory of the results: zeros, or the contents of the operand that a result shares memory
    /// with.
    pub(crate) results: Vec<Literal>,
    /// Pairs of an operand and the result that shares its memory.
    in_place: Vec<(usize, usize)>,
}

impl<'a> Memory<'a> {
    /// The memory of a call [to run](CustomCall::to_run), with results of these shapes.
    ///
    /// # Errors
    /// A result would share memory with an operand of another shape, or there is not enough memory.
    pub(crate) fn of(
        call: &CustomCall,
        operands: &'a [Literal],
        shapes: &[ArrayShape],
    ) -> Result<Self, String> {
        let mut results: Vec<(&ArrayShape, Option<&Literal>)> =
            shapes.iter().map(|shape| (shape, None)).collect();
        let in_place: Vec<(usize, usize)> = call.in_place().collect();
        for &(operand, result) in &in_place {
            let places = operands.get(operand).zip(results.get_mut(result));
            let (operand, (shape, before)) =
                places.ok_or("it names an operand or a result that does not exist")?;
            if !operand.shape().same_ignoring_layout(shape) {
                return Err(format!(
                    "a result of shape {shape:#} cannot reuse the memory of an operand of shape \
                        {:#}",
                    operand.shape()
                ));
            }
            *before = Some(operand);
        }
        let results = results.into_iter().map(|(shape, before)| match before {
            Some(operand) => Ok(operand.clone()),
            None => Literal::zeros(shape).map_err(|error| error.to_string()),
        });
        Ok(Self {
            operands,
            results: results.collect::<Result<_, _>>()?,
            in_place,
        })
    }

    /// The operands and the results in the form that functions take.
    pub(crate) fn arrays(&mut self) -> [Arrays; 2] {
        let mut operands = Arrays::operands(self.operands);
        let results = Arrays::results(&mut self.results);
        for &(operand, result) in &self.in_place {
            operands.buffers[operand].data = results.buffers[result].data;
        }
        [operands, results]
    }
}

/// A function for one stage.
pub(crate) struct Stage {
    pub(crate) function: Entry<XLA_FFI_CallFrame>,
    pub(crate) number: XLA_FFI_ExecutionStage,
}

/// Calls a function with arrays (none during instantiation) and waits until it is done.
pub(crate) fn call(
    stage: &Stage,
    memory: &mut Memory<'_>,
    attributes: &Attributes,
    states: &Mutex<States>,
) -> Result<(), Error> {
    let invocation = Invocation::new(states);
    let [mut inputs, mut outputs] = memory.arrays();
    let (mut input_pointers, mut output_pointers) = (inputs.pointers(), outputs.pointers());
    let mut input_types = vec![XLA_FFI_ArgType_BUFFER; input_pointers.len()];
    let mut output_types = vec![XLA_FFI_RetType_BUFFER; output_pointers.len()];
    let mut frame = XLA_FFI_CallFrame {
        struct_size: <XLA_FFI_CallFrame as crate::c_api::CStruct>::SIZE,
        extension_start: ptr::null_mut(),
        api: host::api(),
        ctx: (&raw const invocation).cast_mut().cast(),
        stage: stage.number,
        args: XLA_FFI_Args {
            struct_size: size_of::<XLA_FFI_Args>(),
            extension_start: ptr::null_mut(),
            size: input_pointers.len() as i64,
            types: input_types.as_mut_ptr(),
            args: input_pointers.as_mut_ptr(),
        },
        rets: XLA_FFI_Rets {
            struct_size: size_of::<XLA_FFI_Rets>(),
            extension_start: ptr::null_mut(),
            size: output_pointers.len() as i64,
            types: output_types.as_mut_ptr(),
            rets: output_pointers.as_mut_ptr(),
        },
        attrs: attributes.to_c(),
        future: ptr::null_mut(),
    };
    // SAFETY: the function was registered as a handler; the frame and everything that it points to
    // live until the function is done, and errors and futures are from our table.
    unsafe {
        let error = (stage.function)(&raw mut frame);
        host::taken(error)?;
        Event::wait_raw(frame.future.cast())
    }
}

/// The version and traits of a function, which must be queried first.
pub(crate) fn metadata(function: Entry<XLA_FFI_CallFrame>) -> Result<(i32, i32), Error> {
    use crate::c_api::CStruct;
    let mut metadata = XLA_FFI_Metadata {
        struct_size: size_of::<XLA_FFI_Metadata>(),
        api_version: XLA_FFI_Api_Version {
            struct_size: XLA_FFI_Api_Version::SIZE,
            extension_start: ptr::null_mut(),
            major_version: -1,
            minor_version: -1,
        },
        traits: 0,
        state_type_id: XLA_FFI_TypeId { type_id: 0 },
    };
    let mut extension = XLA_FFI_Metadata_Extension {
        extension_base: XLA_FFI_InternalExtension {
            struct_size: size_of::<XLA_FFI_Metadata_Extension>(),
            r#type: XLA_FFI_Extension_Metadata,
            next: ptr::null_mut(),
        },
        metadata: &raw mut metadata,
    };
    let none = Attributes::default();
    let mut frame = XLA_FFI_CallFrame {
        struct_size: XLA_FFI_CallFrame::SIZE,
        extension_start: (&raw mut extension).cast(),
        api: host::api(),
        ctx: ptr::null_mut(),
        stage: XLA_FFI_ExecutionStage_EXECUTE,
        args: XLA_FFI_Args {
            struct_size: size_of::<XLA_FFI_Args>(),
            extension_start: ptr::null_mut(),
            size: 0,
            types: ptr::null_mut(),
            args: ptr::null_mut(),
        },
        rets: XLA_FFI_Rets {
            struct_size: size_of::<XLA_FFI_Rets>(),
            extension_start: ptr::null_mut(),
            size: 0,
            types: ptr::null_mut(),
            rets: ptr::null_mut(),
        },
        attrs: none.to_c(),
        future: ptr::null_mut(),
    };
    // SAFETY: handlers answer this query and do nothing else.
    unsafe { host::taken(function(&raw mut frame)) }?;
    let version = metadata.api_version;
    Ok((version.major_version, version.minor_version))
}
