//! Coalescing: how many memory sectors one load of a warp touches.
//!
//! The lanes of a warp work on adjacent elements of the result in row-major order, each on `vector`
//! of them. The addresses of all lanes are computed, and the sectors that contain their bytes are
//! counted.

use tegula_ir::Layout;

use crate::map::{IndexingMap, Status};
use crate::ops::static_order;
use crate::points::Point;

/// The largest element size, in bytes.
const MAX_ELEMENT: i64 = 1 << 12;

/// A group of threads that load together, and the width of their loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warp {
    /// The number of threads.
    pub lanes: i64,
    /// The number of adjacent elements that each thread works on.
    pub vector: i64,
    /// The size of a sector in bytes: 32 on NVIDIA GPUs (CUDA C++ Best Practices Guide, "Coalesced
    /// Access to Global Memory").
    pub sector_bytes: i64,
}

impl Default for Warp {
    fn default() -> Self {
        Self {
            lanes: 32,
            vector: 1,
            sector_bytes: 32,
        }
    }
}

/// What one load of a warp touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalescing {
    /// The number of sectors.
    pub sectors: u64,
    /// The fewest sectors that could contain this many bytes.
    pub ideal: u64,
    /// The number of different bytes that are loaded.
    pub bytes: u64,
    /// The number of lanes that load anything.
    pub active: i64,
}

impl Coalescing {
    /// The fraction of the transferred sectors that was needed, from 0 to 1.
    pub fn efficiency(&self) -> f64 {
        if self.sectors == 0 {
            return 1.0;
        }
        self.ideal as f64 / self.sectors as f64
    }
}

/// The linear address, in elements, in an array with these sizes and a layout without tiles: a map
/// from an index to a number. `None` for a tiled layout, or if a number overflows.
pub fn row_major_address(sizes: &[i64], layout: Option<&Layout>) -> Option<IndexingMap> {
    let order = static_order(sizes.len(), layout)?;
    let mut map = IndexingMap::over(sizes);
    let mut address = tegula_expr::Term::constant(0);
    let mut stride = 1i64;
    for dim in order.iter().rev() {
        address = address.add(&map.dim(*dim).mul(&stride.into()));
        stride = stride.checked_mul((*sizes.get(*dim)?).max(1))?;
    }
    map.results.push(address);
    Some(map)
}

/// The sectors touched by one load of the warp whose first lane works on element `start`
/// (row-major) of the result. `access` maps the result's index to the operand's, and `address` maps
/// that to an element's number; elements have `element_bytes` bytes. Ranges are loops, so one load
/// has a single value of them: the first. The same holds for run-time variables. `None` if the maps
/// do not match or a number overflows.
///
/// ```
/// use tegula_indexing::{IndexingMap, Warp, coalescing, row_major_address};
///
/// let address = row_major_address(&[1024, 1024], None).expect("it fits");
/// let rows = IndexingMap::identity(&[1024, 1024]);
/// let columns: IndexingMap =
///     "(d0, d1) -> (d1, d0), domain: d0 in [0, 1023], d1 in [0, 1023]".parse()?;
/// let load = |map| coalescing(map, &address, 4, Warp::default(), 0).expect("a load");
/// assert_eq!(load(&rows).sectors, 4);
/// assert_eq!(load(&columns).sectors, 32);
/// # Ok::<(), tegula_expr::ParseError>(())
/// ```
pub fn coalescing(
    access: &IndexingMap,
    address: &IndexingMap,
    element_bytes: i64,
    warp: Warp,
    start: i64,
) -> Option<Coalescing> {
    let is_usable = access.status == Status::Ok
        && address.status == Status::Ok
        && address.results.len() == 1
        && address.variable_count() == access.results.len()
        && (1..=MAX_ELEMENT).contains(&element_bytes)
        && warp.sector_bytes > 0
        && (1..=1 << 16).contains(&warp.lanes)
        && (1..=1 << 10).contains(&warp.vector);
    if !is_usable {
        return None;
    }
    // Dimensions count from 0, even if the map is defined only on a part of the result.
    let sizes: Vec<i64> = access
        .dims
        .iter()
        .map(|dim| dim.bounds.upper.checked_add(1))
        .collect::<Option<_>>()?;
    let mut elements: Vec<i64> = Vec::new();
    let mut active = 0;
    for lane in 0..warp.lanes {
        let before = elements.len();
        for element in 0..warp.vector {
            let number = start.checked_add(lane * warp.vector + element)?;
            let Some(mut point) = unflatten(number, &sizes) else {
                continue;
            };
            let first_range = point.len();
            let others = access.variables().skip(first_range);
            point.extend(others.map(|variable| variable.bounds.lower));
            let Some(index) = access.evaluate(&point).ok()? else {
                continue;
            };
            if let Some(place) = address.evaluate(&index).ok()? {
                elements.push(*place.first()?);
            }
        }
        active += i64::from(elements.len() > before);
    }
    elements.sort_unstable();
    elements.dedup();
    let mut sectors: Vec<i64> = Vec::new();
    for element in &elements {
        let first = element.checked_mul(element_bytes)?;
        let last = first.checked_add(element_bytes - 1)?;
        sectors.extend(first.div_euclid(warp.sector_bytes)..=last.div_euclid(warp.sector_bytes));
    }
    sectors.sort_unstable();
    sectors.dedup();
    let bytes = u64::try_from(element_bytes).ok()? * elements.len() as u64;
    Some(Coalescing {
        sectors: sectors.len() as u64,
        ideal: bytes.div_ceil(u64::try_from(warp.sector_bytes).ok()?),
        bytes,
        active,
    })
}

/// The index of an element, given its row-major number; `None` beyond the last element.
fn unflatten(number: i64, sizes: &[i64]) -> Option<Point> {
    let mut rest = number;
    let mut index: Point = sizes.iter().map(|_| 0).collect();
    for (slot, size) in index.iter_mut().zip(sizes).rev() {
        if *size < 1 {
            return None;
        }
        *slot = rest.rem_euclid(*size);
        rest = rest.div_euclid(*size);
    }
    (rest == 0).then_some(index)
}
