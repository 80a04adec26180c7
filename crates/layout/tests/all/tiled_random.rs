//! Tests random shapes and layouts: the formula, its inverse, the pad-reshape-transpose description
//! and the indexing map agree for every element. `TEGULA_SWEEP` is the number of cases (shape,
//! layout, index).

use smallvec::SmallVec;
use tegula_indexing::Simplifier;
use tegula_ir::helpers::tiles_keep_order;
use tegula_ir::{ArrayShape, Dim, ElementType, Layout, Tile, TileDim};
use tegula_layout::physical::{MemoryImage, PhysicalLayout, Placement, is_bitcast, layout_map};

/// splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % limit
    }

    fn tile(&mut self, longest: u64) -> Tile {
        let mut dims: SmallVec<[TileDim; 4]> = SmallVec::new();
        for _ in 0..=self.below(longest) {
            dims.push(match self.below(6) {
                0 => TileDim::Combine,
                _ => TileDim::Size(1 + self.below(5) as i64),
            });
        }
        dims.push(TileDim::Size(1 + self.below(6) as i64));
        Tile { dims }
    }

    fn shape(&mut self) -> ArrayShape {
        let rank = self.below(6);
        let most = [200, 40, 12, 7, 5, 4][rank as usize];
        let size = |random: &mut Self| match random.below(40) {
            0 => 0,
            1..=4 => 1,
            _ => 1 + random.below(most) as i64,
        };
        let dims: Vec<i64> = (0..rank).map(|_| size(self)).collect();
        let types = ElementType::ALL;
        let element_type = types[self.below(types.len() as u64) as usize];
        let mut shape = ArrayShape::new(element_type, &dims);
        let mut layout = Layout::row_major(dims.len());
        for last in (1..layout.minor_to_major.len()).rev() {
            let other = self.below(last as u64 + 1) as usize;
            layout.minor_to_major.swap(last, other);
        }
        for _ in 0..self.below(4) {
            let tile = self.tile(rank + 1);
            layout.tiles.push(tile);
        }
        if self.below(3) == 0 {
            layout.tail_padding = self.below(40) as i64;
        }
        if element_type.bits() < 8 && self.below(2) == 0 {
            layout.element_bits = element_type.bits().into();
        }
        shape.layout = Some(Box::new(layout));
        shape
    }
}

/// The index of a row-major number.
fn unravel(mut element: i64, dims: &[i64]) -> Vec<i64> {
    let mut index = vec![0; dims.len()];
    for (at, size) in index.iter_mut().zip(dims).rev() {
        (*at, element) = (element % size, element / size);
    }
    index
}

fn check(shape: &ArrayShape, simplifier: &mut Simplifier, most: usize) -> usize {
    let layout = PhysicalLayout::new(shape).unwrap();
    let Ok(image) = MemoryImage::new(shape) else {
        return 0;
    };
    assert_eq!(
        image.places.len() as i64,
        layout.padded_elements(),
        "{shape}"
    );
    let map = layout_map(shape).unwrap();
    let simplified = simplifier.simplify_map(&map);
    let dims = shape.static_dims().unwrap();
    let positions = image.positions();
    for (element, &place) in positions.iter().enumerate().take(most) {
        let index = unravel(element as i64, &dims);
        let place = place as i64;
        assert_eq!(layout.linear_index(&index), Ok(place), "{shape} {index:?}");
        assert_eq!(layout.index_of(place), Ok(Some(index.clone())), "{shape}");
        for map in [&map, &simplified] {
            assert_eq!(map.evaluate(&index), Ok(Some(vec![place])), "{shape} {map}");
        }
    }
    for (place, element) in image.places.iter().enumerate().take(most) {
        if element.is_none() {
            assert_eq!(layout.index_of(place as i64), Ok(None), "{shape} {place}");
        }
    }
    let bits = layout.bit_offset(layout.padded_elements()).unwrap();
    assert_eq!(layout.padded_bytes(), (bits + 7) / 8, "{shape}");
    positions.len().min(most)
}

#[test]
fn four_descriptions_of_a_layout_agree() {
    let sweep = std::env::var("TEGULA_SWEEP").ok();
    let cases: usize = sweep.and_then(|n| n.parse().ok()).unwrap_or(30_000);
    let mut random = Random(0x711E_D1A7);
    let mut simplifier = Simplifier::new();
    let (mut tried, mut layouts) = (0, 0);
    while tried < cases {
        let shape = random.shape();
        // An array without elements is a case too.
        tried += check(&shape, &mut simplifier, 400).max(1);
        layouts += 1;
    }
    println!("{tried} cases of {layouts} layouts");
}

/// A reshape that is said to move nothing moves nothing, and tiled arrays for which a reshape moves
/// nothing are found.
#[test]
fn bitcasts_are_found_and_are_true() {
    let mut random = Random(0xB17_CA57);
    let (mut same, mut moved) = (0, 0);
    for _ in 0..60_000 {
        let factors: Vec<i64> = (0..4)
            .map(|_| [1, 2, 2, 3, 4, 8][random.below(6) as usize])
            .collect();
        let mut group = || {
            // The same elements under other dimensions.
            let mut dims = vec![1];
            for &factor in &factors {
                match random.below(2) {
                    0 => dims.push(factor),
                    _ => *dims.last_mut().unwrap() *= factor,
                }
            }
            let mut shape = ArrayShape::new(ElementType::F32, &dims);
            let mut layout = Layout::row_major(dims.len());
            for last in (1..dims.len()).rev() {
                layout
                    .minor_to_major
                    .swap(last, random.below(last as u64 + 1) as usize);
            }
            for level in [[2, 4], [2, 1]].iter().take(random.below(3) as usize) {
                let dims = level.iter().map(|&size| TileDim::Size(size)).collect();
                layout.tiles.push(Tile { dims });
            }
            shape.layout = Some(Box::new(layout));
            shape
        };
        let (from, to) = (group(), group());
        let images = [&from, &to].map(|shape| MemoryImage::new(shape).unwrap());
        assert!(Placement::new(&from).is_some());
        let equal = images[0] == images[1];
        assert_eq!(is_bitcast(&from, &to), equal, "{from} {to}");
        *(if equal { &mut same } else { &mut moved }) += 1;
    }
    assert!(same > 1000 && moved > 1000, "{same} {moved}");
}

/// The place of each element, in the order of the layout's dimensions without its tiles.
fn places(shape: &ArrayShape) -> Vec<i64> {
    let layout = PhysicalLayout::new(shape).unwrap();
    let dims = shape.static_dims().unwrap();
    let order = &shape.layout.as_deref().unwrap().minor_to_major;
    let physical: Vec<i64> = order.iter().rev().map(|&d| dims[d as usize]).collect();
    let elements = physical.iter().product();
    let place = |element| {
        let mut index = vec![0; dims.len()];
        for (at, &d) in unravel(element, &physical).iter().zip(order.iter().rev()) {
            index[d as usize] = *at;
        }
        layout.linear_index(&index).unwrap()
    };
    (0..elements).map(place).collect()
}

#[test]
fn tiles_that_keep_the_order_change_no_place() {
    let mut random = Random(0x0DE7);
    let (mut kept, mut known) = (0, 0);
    for _ in 0..20_000 {
        let mut from = random.shape();
        // Sizes that are multiples of tiles, or parts of a tile.
        for dim in &mut from.dims {
            *dim = Dim::Static([1, 2, 3, 4, 6, 8, 12][random.below(7) as usize]);
        }
        let mut to = from.clone();
        // A dimension becomes two, or two become one.
        let rank = from.rank() as u64;
        if rank < 2 {
            continue;
        }
        let at = random.below(rank - 1) as usize;
        let parts = to.dims[at].as_static().unwrap() * to.dims[at + 1].as_static().unwrap();
        let first = 1 + random.below(parts as u64) as i64;
        if parts % first != 0 {
            continue;
        }
        (to.dims[at], to.dims[at + 1]) = (Dim::Static(first), Dim::Static(parts / first));
        let keeps = tiles_keep_order(&from, &to);
        let equal = places(&from) == places(&to);
        assert!(!keeps || equal, "{from:#} {to:#}");
        kept += usize::from(keeps && from.dims != to.dims);
        known += usize::from(equal && from.dims != to.dims);
    }
    // The rule is incomplete, but it covers the common case.
    assert!(kept * 2 > known, "{kept} of {known}");
}
