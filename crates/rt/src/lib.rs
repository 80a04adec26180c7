//! The routines that programs compiled to objects call, as an ELF object for each architecture: products,
//! convolutions, sorts, factorisations and Fourier transforms of `crates/linalg`, built without an allocator,
//! threads or unwinding.
//!
//! The build script compiles `routines/lib.rs`, which takes in the source files of `crates/linalg` that need
//! no more than `core`, with the compiler that builds everything else. Each function has a section of
//! its own, so that who writes a program's object can copy those that it uses. All that is undefined
//! in the object are the C library's `memcpy`, `memmove`, `memset` and `memcmp`, and functions of its
//! `libm` that functions of complex numbers call.
//!
//! Routines are called by name. `tegula_rt_prepare_VECTORS_TYPES` makes a product ready: of vectors
//! (`portable`, `avx2` and `avx512` of x86-64, `neon` of AArch64) and the types of the operands and the result; it takes
//! [`PREPARED_BYTES`] of memory and those of its tables. `tegula_rt_product` computes it, as often as one likes:
//! in a loop, what is decided of the sizes is decided once. `tegula_rt_scratch_VECTORS_TYPES` says how much
//! memory both take. Other [kinds](Kind) of products are `tegula_rt_KIND_VECTORS`. They are given a description
//! of the call in words of 64 bits: see [`call`].
//!
//! Words of routines on whole arrays, `tegula_rt_NAME(words, data, operands, results, scratch)`.
//!
//! | name | words | data |
//! |---|---|---|
//! | `sort` | elements of a row, their distance, rows, arrays, the key's type or -1, whether the largest is first, arrays that keys are computed from; then bytes of an element of each array, and which arrays keys are of | the program's functions: whether an element goes before another, and what computes keys |
//! | `top_k_VECTORS` | elements of a row, rows, how many are selected, whether the largest, their type | |
//! | `random_bits` | whether by Threefry, words of the state, bits of an element, whether it is signed, its bytes, dimensions; then their sizes | |
//! | `cholesky_VECTORS_TYPE` | rows, matrices, whether the lower factor | |
//! | `solve_VECTORS_TYPE` | rows, columns, pairs, bits: left side, lower, unit diagonal, transposed, conjugated | |
//! | `lu_VECTORS_TYPE` | rows, columns, matrices | |
//! | `tridiagonal_solve_TYPE` | rows, right sides, systems | |
//! | `fft_VECTORS_TYPE` | how many words and numbers the plan has, then its words | its numbers |
//!
//! `tegula_rt_convolution(words, functions, input, kernel, result, scratch)` computes a convolution of any sizes, and
//! `tegula_rt_scratch_convolution(words, functions)` says how much scratch memory that takes. The functions are those that make
//! products of the types ready and say how much memory they take, and those of both other kinds. The words are a product's
//! first ones; then how many dimensions arrays have, how many groups there are and whether these are parts of the batch, and which
//! dimensions are the input's batch and features, the kernel's input and output features, and the result's batch and features;
//! of each spatial dimension which it is in the input, the kernel and the result, and the window's stride, padding in front,
//! dilations of base and window and whether it is reversed; and the sizes of the three arrays. It gives 0, 1 if a window reaches outside of the input, or 2 if the convolution is not computed as products.

#[path = "../routines/prepared.rs"]
mod prepared;

pub use prepared::PREPARED_BYTES;

/// The object for x86-64, or nothing where this was built without Rust's core library for
/// `x86_64-unknown-linux-gnu`.
pub const X86_64: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/routines-x86_64.o"));

/// The same for AArch64, of `aarch64-unknown-linux-gnu`.
pub const AARCH64: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/routines-aarch64.o"));

/// How the names of tiles of matrix products begin, of which a program has only those that its products
/// call: in the place of others, functions refer to [`ABSENT`].
pub const TILE: &str = "tegula_rt_tile_";

/// What stands for a tile that is never called. It ends the process.
pub const ABSENT: &str = "tegula_rt_absent";

/// Words of a call's description, by what they are.
///
/// Behind these words are the axes of the batch, the rows, the columns and the depth: of each its size
/// and its strides in the left operand, the right one and the result, in elements. Behind those of
/// [planes](Kind::Planes) is where images are: the line and the column of the first window's first element, and an image's
/// lines and columns, or zeros where no window reaches outside.
pub mod call {
    /// How many axes the batch, the rows, the columns and the depth have.
    pub const COUNTS: usize = 0;
    /// Where the first elements are in the left operand, the right one and the result.
    pub const STARTS: usize = 4;
    /// 1 if the product is added to what the result holds.
    pub const ADDS: usize = 7;
    /// The operand that was packed before; 2 if none was.
    pub const FIXED: usize = 8;
    /// Ways of the first-level data cache; 0 if they are not known.
    pub const WAYS: usize = 9;
    /// Instructions beyond vectors: bit 0 says BF16, bit 1 VNNI, bit 2 dot products of 8-bit integers
    /// of one sign, bit 3 of both.
    pub const EXTENSIONS: usize = 10;
    /// The types of the operands and the result, for routines of any types: places in
    /// `ElementType::ALL`.
    pub const TYPES: usize = 11;
    /// How many words there are before the axes.
    pub const HEAD: usize = 14;
    /// Words of an axis.
    pub const AXIS: usize = 4;
}

/// What a routine computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A product.
    Product,
    /// A product of groups that are neighbours.
    Depthwise,
    /// A product of groups whose rows are neighbours.
    Planes,
}
