//! Pictures that the command line and the explorer share.
//!
//! - [`layout`]: an array in a tiled layout: the position of each element in memory, and which
//!   positions are padding; as SVG or as text.
//! - [`tiles`]: the elements of each array that the tiles of a result read.
//! - [`slice_report`]: what a program does on a slice of TPUs, as a page with a picture over time.
//! - [`tpu_report`]: what a simulated TPU core did, as sections of HTML with pictures over time, or
//!   as a whole page.
//!
//! ```
//! use tegula_draw::layout::{Limits, Picture, text};
//! use tegula_ir::{ArrayShape, ElementType};
//!
//! // Three rows of four numbers, row after row.
//! let shape = ArrayShape::new(ElementType::F32, &[3, 4]);
//! let limits = Limits { planes: 1, rows: 8, columns: 8, places: 64 };
//! let picture = Picture::new(&shape, limits)?;
//! assert!(text(&picture).contains("8  9 10 11"), "{}", text(&picture));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This crate computes nothing about programs. The same data gives the same bytes.

pub mod layout;
pub mod slice_report;
pub mod tiles;
pub mod tpu_report;
