//! Layouts: the order of an array's dimensions in memory. Arrays here are dense and not tiled.

use crate::c_api::*;
use crate::error::Error;
use crate::pointers::slice;
use crate::strides;
use std::ptr;
use tegula_ir::{ArrayShape, ElementType};

/// The order of a dense array's dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dense {
    /// The dimensions, the most major first.
    order: Vec<usize>,
    /// The dimensions, the most minor first, as the C API has them.
    minor_to_major: Vec<i64>,
}

impl Dense {
    pub(crate) fn new(order: Vec<usize>) -> Self {
        let minor_to_major = order.iter().rev().map(|&dim| dim as i64).collect();
        Self {
            order,
            minor_to_major,
        }
    }

    pub(crate) fn row_major(rank: usize) -> Self {
        Self::new((0..rank).collect())
    }

    /// Reads a layout of the C API; null means row-major.
    ///
    /// # Errors
    /// Tiles, strides that no dense order has, and dimensions that are not the array's.
    ///
    /// # Safety
    /// The layout is valid, or null.
    pub(crate) unsafe fn read(
        layout: *const PJRT_Buffer_MemoryLayout,
        dims: &[i64],
        width: usize,
    ) -> Result<Self, Error> {
        // SAFETY: the caller promises that the layout is valid, or null; the type says which member
        // of the union is there.
        unsafe {
            let Some(layout) = layout.as_ref() else {
                return Ok(Self::row_major(dims.len()));
            };
            match layout.r#type {
                PJRT_Buffer_MemoryLayout_Type_Tiled => {
                    let tiled = &layout.value.tiled;
                    if tiled.num_tiles > 0 {
                        return Err(Error::invalid("arrays on a CPU cannot have tiled layouts"));
                    }
                    let order = slice(tiled.minor_to_major, tiled.minor_to_major_size);
                    Self::from_minor_to_major(order, dims.len())
                }
                PJRT_Buffer_MemoryLayout_Type_Strides => {
                    let strided = &layout.value.strides;
                    let strides = slice(strided.byte_strides, strided.num_byte_strides);
                    Self::from_strides(strides, dims, width)
                }
                other => Err(Error::invalid(format!(
                    "layout type {other} is not supported"
                ))),
            }
        }
    }

    fn from_minor_to_major(minor_to_major: &[i64], rank: usize) -> Result<Self, Error> {
        let order = minor_to_major.iter().rev().map(|&dim| usize::try_from(dim));
        let order: Option<Vec<usize>> = order.collect::<Result<_, _>>().ok();
        let order = order.filter(|order| {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            sorted.into_iter().eq(0..rank)
        });
        let message = || format!("{minor_to_major:?} is not a permutation of {rank} dimensions");
        order
            .map(Self::new)
            .ok_or_else(|| Error::invalid(message()))
    }

    /// The order of dimensions that has these strides.
    pub(crate) fn from_strides(given: &[i64], dims: &[i64], width: usize) -> Result<Self, Error> {
        let none = || {
            Error::invalid(format!(
                "strides {given:?} are not those of a dense array of dimensions {dims:?}"
            ))
        };
        if given.len() != dims.len() {
            return Err(none());
        }
        let mut order: Vec<usize> = (0..dims.len()).collect();
        order.sort_by_key(|&dim| std::cmp::Reverse(given[dim]));
        let dense = strides::dense(dims, &order, width);
        let fits = |dim: usize| dims[dim] == 1 || dense[dim] == given[dim];
        match dims.contains(&0) || (0..dims.len()).all(fits) {
            true => Ok(Self::new(order)),
            false => Err(none()),
        }
    }

    /// The dimensions, the most major first.
    pub(crate) fn order(&self) -> &[usize] {
        &self.order
    }

    pub(crate) fn minor_to_major(&self) -> &[i64] {
        &self.minor_to_major
    }

    /// The shape of the stored array: the dimensions in this order.
    pub(crate) fn stored_shape(&self, element_type: ElementType, dims: &[i64]) -> ArrayShape {
        let dims: Vec<i64> = self.order.iter().map(|&dim| dims[dim]).collect();
        ArrayShape::new(element_type, &dims)
    }

    /// The layout for the C API, with pointers into `self`.
    pub(crate) fn to_c(&self) -> PJRT_Buffer_MemoryLayout {
        let tiled = PJRT_Buffer_MemoryLayout_Tiled {
            struct_size: PJRT_Buffer_MemoryLayout_Tiled::SIZE,
            extension_start: ptr::null_mut(),
            minor_to_major: self.minor_to_major.as_ptr(),
            minor_to_major_size: self.minor_to_major.len(),
            tile_dims: ptr::null(),
            tile_dim_sizes: ptr::null(),
            num_tiles: 0,
        };
        PJRT_Buffer_MemoryLayout {
            struct_size: PJRT_Buffer_MemoryLayout::SIZE,
            extension_start: ptr::null_mut(),
            value: PJRT_Buffer_MemoryLayout_Value { tiled },
            r#type: PJRT_Buffer_MemoryLayout_Type_Tiled,
        }
    }
}
