//! The routines that programs compiled to objects call, as an ELF object for each architecture:
//! products, convolutions, sorts, factorisations and Fourier transforms of `crates/linalg`, built
//! without an allocator, threads or unwinding.
//!
//! The build script compiles `routines/lib.rs`, which includes the source files of `crates/linalg`
//! that need only `core`, with the compiler that builds everything else. Each function has its own
//! section, so that the writer of a program's object can copy only those that the program uses. The
//! object's only undefined symbols are the C library's `memcpy`, `memmove`, `memset` and `memcmp`,
//! and functions of its `libm` that functions of complex numbers call.
//!
//! Routines are called by name. `tegula_rt_prepare_VECTORS_TYPES` prepares a product for vectors
//! (`portable`, `avx2` and `avx512` of x86-64, `neon` of AArch64) and types of the operands and the
//! result. It takes [`PREPARED_BYTES`] of memory and those of the product's tables.
//! `tegula_rt_product` computes a prepared product, any number of times: in a loop, decisions that
//! depend only on sizes are made once. `tegula_rt_scratch_VECTORS_TYPES` returns the bytes of
//! memory that both need. Other [kinds](Kind) of products are `tegula_rt_KIND_VECTORS`. All are
//! given a description of the call in 64-bit words: see [`call`].
//!
//! The words of routines on whole arrays,
//! `tegula_rt_NAME(words, data, operands, results, scratch)`:
//!
//! | name | words | data |
//! |---|---|---|
//! | `sort` | elements of a row, their distance, rows, arrays, the key's type or -1, whether the largest goes first, number of arrays that keys are computed from; then bytes of an element of each array, and the numbers of the keys' arrays | the program's functions: the comparator, and the function that computes keys |
//! | `top_k_VECTORS` | elements of a row, rows, selected elements, whether the largest are selected, their type | |
//! | `random_bits` | whether by Threefry, words of the state, bits of an element, whether it is signed, its bytes, number of dimensions; then their sizes | |
//! | `cholesky_VECTORS_TYPE` | rows, matrices, whether the lower factor is wanted | |
//! | `solve_VECTORS_TYPE` | rows, columns, pairs, bits: left side, lower, unit diagonal, transposed, conjugated | |
//! | `lu_VECTORS_TYPE` | rows, columns, matrices | |
//! | `tridiagonal_solve_TYPE` | rows, right-hand sides, systems | |
//! | `fft_VECTORS_TYPE` | numbers of the plan's words and numbers, then its words | its numbers |
//!
//! `tegula_rt_convolution(words, functions, input, kernel, result, scratch)` computes a convolution
//! of any sizes. It returns 0 on success, 1 if a window reaches outside of the input, or 2 if the
//! convolution is not computed as products. `tegula_rt_scratch_convolution(words, functions)`
//! returns the bytes of scratch memory that it needs. The functions are those that prepare products
//! of the types and return their memory's size, and those of both other kinds.
//!
//! The words of a convolution are: the head of a product's words; the number of dimensions of the
//! arrays, the number of groups and whether groups divide the batch; the numbers of the input's
//! batch and feature dimensions, of the kernel's input and output feature dimensions, and of the
//! result's batch and feature dimensions; for each spatial dimension, its number in the input, the
//! kernel and the result, the window's stride, its padding in front, the dilations of base and
//! window, and whether it is reversed; and the sizes of the three arrays.

#[path = "../routines/prepared.rs"]
mod prepared;

use flate2::read::DeflateDecoder;
use std::io::{self, Read as _};
use std::sync::OnceLock;

pub use prepared::PREPARED_BYTES;

/// The routines' object for one architecture, compressed until it is used.
#[derive(Debug)]
pub struct Routines {
    deflated: &'static [u8],
    object: OnceLock<Vec<u8>>,
}

/// The object for x86-64.
pub static X86_64: Routines = Routines::new(include_bytes!(concat!(
    env!("OUT_DIR"),
    "/routines-x86_64.deflate"
)));

/// The object for AArch64.
pub static AARCH64: Routines = Routines::new(include_bytes!(concat!(
    env!("OUT_DIR"),
    "/routines-aarch64.deflate"
)));

impl Routines {
    const fn new(deflated: &'static [u8]) -> Self {
        Self {
            deflated,
            object: OnceLock::new(),
        }
    }

    /// The ELF object; empty if this was built without Rust's core library for the architecture.
    /// The first call takes 12 ms (30 November 2026, AMD EPYC, Zen 4).
    ///
    /// # Errors
    /// The program's own data is damaged.
    pub fn object(&self) -> io::Result<&[u8]> {
        if let Some(object) = self.object.get() {
            return Ok(object);
        }
        let mut object = Vec::new();
        if !self.deflated.is_empty() {
            DeflateDecoder::new(self.deflated).read_to_end(&mut object)?;
        }
        // Another thread may have been first, with the same bytes.
        Ok(self.object.get_or_init(|| object))
    }
}

/// The prefix of the names of matrix products' tiles. A program contains only the tiles that its
/// products call; functions refer to [`ABSENT`] in place of the others.
pub const TILE: &str = "tegula_rt_tile_";

/// The placeholder for a tile that is never called. It ends the process.
pub const ABSENT: &str = "tegula_rt_absent";

/// The positions of words in a call's description.
///
/// These words are followed by the axes of the batch, the rows, the columns and the depth: for each
/// its size and its strides in the left operand, the right operand and the result, in elements.
/// After the axes, [planes](Kind::Planes) have the images' bounds: the line and the column of the
/// first window's first element, and an image's numbers of lines and columns, or zeros if no window
/// reaches outside.
pub mod call {
    /// The numbers of axes of the batch, the rows, the columns and the depth.
    pub const COUNTS: usize = 0;
    /// The offsets of the first elements in the left operand, the right operand and the result.
    pub const STARTS: usize = 4;
    /// 1 if the product is added to the result's old value.
    pub const ADDS: usize = 7;
    /// The number of the prepacked operand; 2 if there is none.
    pub const FIXED: usize = 8;
    /// The associativity (number of ways) of the first-level data cache; 0 if unknown.
    pub const WAYS: usize = 9;
    /// Instructions beyond vectors: bit 0 is BF16, bit 1 VNNI, bit 2 dot products of 8-bit integers
    /// of equal signedness, bit 3 of mixed signedness.
    pub const EXTENSIONS: usize = 10;
    /// The types of the operands and the result, for routines of any types: indices in
    /// `ElementType::ALL`.
    pub const TYPES: usize = 11;
    /// The number of words before the axes.
    pub const HEAD: usize = 14;
    /// The number of words of an axis.
    pub const AXIS: usize = 4;
}

/// The kind of product that a routine computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A matrix product.
    Product,
    /// A product of adjacent groups.
    Depthwise,
    /// A product of groups with adjacent rows.
    Planes,
}
