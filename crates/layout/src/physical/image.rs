//! Memory images: shows what is where in memory, by transforming an array as the tiled-layout
//! document describes under "Tiling como pad-reshape-transpose".
//!
//! It moves elements, dimension by dimension, and uses no formula. So it is the oracle of
//! [`PhysicalLayout`](super::PhysicalLayout), and pictures are drawn from it.

use super::{PhysicalError, PhysicalLayout};
use tegula_ir::{ArrayShape, TileDim};

/// The most positions of an image.
pub const MAX_IMAGE: i64 = 1 << 20;

/// The contents of an array's buffer, position by position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryImage {
    /// For each position, the row-major number of the element there; `None` for padding.
    pub places: Vec<Option<usize>>,
}

/// An array during the transformation; it is dense and row-major at each step.
struct Moving {
    dims: Vec<usize>,
    places: Vec<Option<usize>>,
}

impl MemoryImage {
    /// Computes the image of an array.
    ///
    /// # Errors
    /// As [`PhysicalLayout::new`]; also if there are more than [`MAX_IMAGE`] positions.
    pub fn new(shape: &ArrayShape) -> Result<Self, PhysicalError> {
        let padded = PhysicalLayout::new(shape)?.padded_elements();
        if padded > MAX_IMAGE {
            return Err(PhysicalError::ImageTooLarge(padded));
        }
        let dims: Vec<usize> = super::static_sizes(shape)?
            .iter()
            .map(|&size| size as usize)
            .collect();
        let elements = dims.iter().product();
        let mut array = Moving {
            places: (0..elements).map(Some).collect(),
            dims,
        };
        let Some(layout) = &shape.layout else {
            return Ok(Self {
                places: array.places,
            });
        };
        let order: Vec<usize> = layout
            .minor_to_major
            .iter()
            .rev()
            .map(|&dimension| dimension as usize)
            .collect();
        array.transpose(&order);
        for tile in &layout.tiles {
            array.tile(&tile.dims);
        }
        let alignment = layout.tail_padding.max(1) as usize;
        let length = array.places.len().next_multiple_of(alignment);
        array.places.resize(length, None);
        Ok(Self {
            places: array.places,
        })
    }

    /// The position of each element, by row-major number.
    pub fn positions(&self) -> Vec<usize> {
        let elements = self.places.iter().flatten().count();
        let mut positions = vec![0; elements];
        for (place, element) in self.places.iter().enumerate() {
            if let Some(element) = element {
                positions[*element] = place;
            }
        }
        positions
    }
}

impl Moving {
    /// Applies one tile level: combine, pad, reshape, transpose.
    fn tile(&mut self, tile: &[TileDim]) {
        let mut dims = self.dims.clone();
        while dims.len() < tile.len() {
            dims.insert(0, 1);
        }
        let untouched = dims.len() - tile.len();
        let (mut combined, mut sizes) = (dims[..untouched].to_vec(), Vec::new());
        let mut major = 1;
        for (dim, tile_dim) in dims[untouched..].iter().zip(tile) {
            match *tile_dim {
                TileDim::Combine => major *= dim,
                TileDim::Size(size) => {
                    combined.push(major * dim);
                    sizes.push(size as usize);
                    major = 1;
                }
            }
        }
        self.dims = combined;
        let mut padded = self.dims[..untouched].to_vec();
        let mut split = padded.clone();
        for (&dim, &size) in self.dims[untouched..].iter().zip(&sizes) {
            padded.push(dim.next_multiple_of(size));
            split.extend([dim.div_ceil(size), size]);
        }
        self.pad(&padded);
        // Reshaping a dense array moves nothing.
        self.dims = split;
        let numbers = (0..sizes.len()).map(|dim| untouched + 2 * dim);
        let within = numbers.clone().map(|number| number + 1);
        let order: Vec<usize> = (0..untouched).chain(numbers).chain(within).collect();
        self.transpose(&order);
    }

    /// Result dimension `i` is dimension `order[i]`.
    fn transpose(&mut self, order: &[usize]) {
        let dims: Vec<usize> = order.iter().map(|&dim| self.dims[dim]).collect();
        let mut places = Vec::with_capacity(self.places.len());
        for_each_index(&dims, &mut |index| {
            let mut source = vec![0; index.len()];
            for (&dim, &at) in order.iter().zip(index) {
                source[dim] = at;
            }
            places.push(self.places[row_major(&self.dims, &source)]);
        });
        (self.dims, self.places) = (dims, places);
    }

    /// Adds padding at the end of each dimension.
    fn pad(&mut self, dims: &[usize]) {
        let mut places = Vec::new();
        for_each_index(dims, &mut |index| {
            let inside = index.iter().zip(&self.dims).all(|(at, size)| at < size);
            places.push(if inside {
                self.places[row_major(&self.dims, index)]
            } else {
                None
            });
        });
        (self.dims, self.places) = (dims.to_vec(), places);
    }
}

fn row_major(dims: &[usize], index: &[usize]) -> usize {
    let pairs = index.iter().zip(dims);
    pairs.fold(0, |number, (at, size)| number * size + at)
}

/// Calls `visit` with every index, the last dimension varying fastest.
fn for_each_index(dims: &[usize], visit: &mut dyn FnMut(&[usize])) {
    if dims.contains(&0) {
        return;
    }
    let mut index = vec![0; dims.len()];
    loop {
        visit(&index);
        let next = (0..dims.len())
            .rev()
            .find(|&dim| index[dim] + 1 < dims[dim]);
        let Some(next) = next else { return };
        index[next] += 1;
        index[next + 1..].fill(0);
    }
}
