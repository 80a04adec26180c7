//! Every statement and figure of the two documents on layouts, each under the
//! title of its section, and the published points and sizes.

use tegula_indexing::{IndexingMap, Simplifier};
use tegula_ir::{ArrayShape, Shape, parse_shape};
use tegula_layout::physical::{
    MemoryImage, PhysicalError, PhysicalLayout, largest_split, layout_map, physical_access,
};

fn array(text: &str) -> ArrayShape {
    match parse_shape(text) {
        Ok(Shape::Array(array)) => array,
        other => panic!("{text}: {other:?}"),
    }
}

fn layout(text: &str) -> PhysicalLayout {
    PhysicalLayout::new(&array(text)).unwrap()
}

fn at(text: &str, index: &[i64]) -> i64 {
    layout(text).linear_index(index).unwrap()
}

/// The row-major numbers in memory order, `.` for padding.
fn memory(text: &str) -> String {
    let image = MemoryImage::new(&array(text)).unwrap();
    let place = |place: &Option<usize>| place.map_or(".".to_owned(), |e| e.to_string());
    image.places.iter().map(place).collect::<Vec<_>>().join(" ")
}

/// "Layout com tiles", Figura 1: all of F32[3,5]{1,0:T(2,2)} in memory, with the
/// padding that completes tiles.
#[test]
fn figure_1() {
    assert_eq!(
        memory("f32[3,5]{1,0:T(2,2)}"),
        "0 1 5 6 2 3 7 8 4 . 9 . 10 11 . . 12 13 . . 14 . . ."
    );
    let layout = layout("f32[3,5]{1,0:T(2,2)}");
    assert_eq!(layout.linear_index(&[2, 3]), Ok(17));
    assert_eq!((layout.elements(), layout.padded_elements()), (15, 24));
    assert_eq!((layout.bytes(), layout.padded_bytes()), (60, 96));
    assert_eq!(layout.index_of(9), Ok(None));
    assert_eq!(layout.index_of(17), Ok(Some(vec![2, 3])));
}

/// "Fórmulas de índice linear": without a tile, from the most major dimension; with
/// one, the worked example's numbers of tiles (2,3) and places (2,2).
#[test]
fn linear_index_formulas() {
    let (e, d) = ([2, 3, 1], [4, 5, 6]);
    let untiled = e[0] * d[1] * d[2] + e[1] * d[2] + e[2];
    assert_eq!(at("f32[4,5,6]{2,1,0}", &e), untiled);
    assert_eq!(layout("f32[3,5]{1,0:T(2,2)}").physical_dims(), [2, 3, 2, 2]);
    assert_eq!((3 + 1) * 2 * 2 + 1, at("f32[3,5]{1,0:T(2,2)}", &[2, 3]));
    // (e, d, t) by the last line of the formula.
    for (i, j) in [(0, 0), (2, 4), (1, 3), (2, 0)] {
        let tiles = (i / 2) * 3 + j / 2;
        let inside = (i % 2) * 2 + j % 2;
        assert_eq!(at("f32[3,5]{1,0:T(2,2)}", &[i, j]), tiles * 4 + inside);
    }
    // A tile of fewer dimensions covers a suffix of the physical ones.
    let whole = layout("f32[4,3,5]{2,1,0:T(1,2,2)}");
    let suffix = layout("f32[4,3,5]{2,1,0:T(2,2)}");
    assert_eq!(suffix.physical_dims(), [4, 2, 3, 2, 2]);
    for index in [[0, 0, 0], [3, 2, 4], [1, 1, 3]] {
        assert_eq!(suffix.linear_index(&index), whole.linear_index(&index));
    }
    assert_eq!(
        at("f32[4,3,5]{0,1,2:T(2)}", &[3, 2, 4]),
        (4 * 3 + 2) * 4 + 3
    );
}

/// "Tiling como pad-reshape-transpose": the shapes of the three steps, and that the
/// steps and the formula agree everywhere.
#[test]
fn pad_reshape_transpose() {
    for text in [
        "f32[3,5]{1,0:T(2,2)}",
        "f32[3,5]{0,1:T(2,2)}",
        "s8[4,5,7]{0,2,1:T(3,4)}",
        "bf16[9,10]{1,0:T(4,4)(2,1)}",
    ] {
        let (layout, image) = (layout(text), MemoryImage::new(&array(text)).unwrap());
        assert_eq!(
            image.places.len() as i64,
            layout.padded_elements(),
            "{text}"
        );
        let dims = array(text).static_dims().unwrap();
        for (element, &place) in image.positions().iter().enumerate() {
            let mut rest = element as i64;
            let mut index = vec![0; dims.len()];
            for (at, size) in index.iter_mut().zip(&dims).rev() {
                (*at, rest) = (rest % size, rest / size);
            }
            assert_eq!(layout.linear_index(&index), Ok(place as i64), "{text}");
        }
    }
}

/// "Tiles repetidos", Figura 2: (2,4)(2,1) over 4x8, element by element.
#[test]
fn figure_2() {
    let expected = [
        [0, 2, 4, 6, 8, 10, 12, 14],
        [1, 3, 5, 7, 9, 11, 13, 15],
        [16, 18, 20, 22, 24, 26, 28, 30],
        [17, 19, 21, 23, 25, 27, 29, 31],
    ];
    for (row, numbers) in expected.iter().enumerate() {
        for (column, &number) in numbers.iter().enumerate() {
            let index = [row as i64, column as i64];
            assert_eq!(at("f32[4,8]{1,0:T(2,4)(2,1)}", &index), number, "{index:?}");
        }
    }
    // bf16 on a TPU: pairs of rows make 32-bit words.
    let bf16 = "bf16[16,256]{1,0:T(8,128)(2,1)}";
    assert_eq!(
        [at(bf16, &[0, 0]), at(bf16, &[1, 0]), at(bf16, &[0, 1])],
        [0, 1, 2]
    );
    assert_eq!([at(bf16, &[2, 0]), at(bf16, &[0, 128])], [256, 1024]);
}

/// "Tiles repetidos": a later tile may reach the numbers of tiles that an earlier
/// one made.
#[test]
fn later_tiles_reach_between_tiles() {
    // (2,2,2,2) after the first level; (2,1,1) exchanges whole tiles.
    let text = "f32[4,4]{1,0:T(2,2)(2,1,1)}";
    assert_eq!(memory(text), "0 2 1 3 4 6 5 7 8 10 9 11 12 14 13 15");
    assert_eq!(layout(text).physical_dims(), [2, 1, 2, 2, 2, 1, 1]);
}

/// "Combinando dimensões usando tiles": (*,*,2,*,3) over [2,7,8,11,10] is (2,3) over
/// [112,110].
#[test]
fn combined_dimensions() {
    let combined = layout("f32[2,7,8,11,10]{4,3,2,1,0:T(*,*,2,*,3)}");
    let flat = layout("f32[112,110]{1,0:T(2,3)}");
    assert_eq!(combined.physical_dims(), flat.physical_dims());
    for element in 0..combined.elements() {
        let mut rest = element;
        let mut index = [0; 5];
        for (at, size) in index.iter_mut().zip([2, 7, 8, 11, 10]).rev() {
            (*at, rest) = (rest % size, rest / size);
        }
        let folded = [element / 110, element % 110];
        assert_eq!(combined.linear_index(&index), flat.linear_index(&folded));
    }
    // The text keeps the marker.
    let text = "f32[2,7,8,11,10]{4,3,2,1,0:T(*,*,2,*,3)}";
    assert_eq!(array(text).to_string(), text);
    let refused = PhysicalLayout::new(&array("f32[4,4]{1,0:T(2,*)}"));
    assert_eq!(refused, Err(PhysicalError::CombinesNothing(0)));
}

/// "Structure of an XLA Op": the shapes of its examples are read and kept.
#[test]
fn structure_of_an_op() {
    for text in [
        "bf16[8,1,1280,16384]{3,2,0,1:T(8,128)(2,1)}",
        "bf16[32,32,4096]{2,1,0:T(8,128)(2,1)S(1)}",
        "bf16[32,32,8192]{2,1,0:T(8,128)(2,1)S(1)}",
    ] {
        assert_eq!(array(text).to_string(), text);
    }
    let first = layout("bf16[8,1,1280,16384]{3,2,0,1:T(8,128)(2,1)}");
    assert_eq!(first.bytes(), first.padded_bytes());
}

/// "Terminology, notation, and conventions": the true number of dimensions, sizes of
/// zero, and negative numbers of dimensions.
#[test]
fn terminology() {
    let shape = array("f32[5,1,7]");
    assert_eq!((shape.rank(), shape.true_rank()), (3, 2));
    assert_eq!(array("f32[]").true_rank(), 0);
    let size = |number| shape.dimension(number).and_then(tegula_ir::Dim::as_static);
    assert_eq!([size(0), size(1), size(2)], [Some(5), Some(1), Some(7)]);
    assert_eq!([size(-1), size(-2), size(-3)], [Some(7), Some(1), Some(5)]);
    assert_eq!([size(3), size(-4), size(i64::MIN)], [None; 3]);
    let empty = layout("f32[5,0,7]{2,1,0:T(8,128)}");
    assert_eq!((empty.elements(), empty.padded_bytes()), (0, 0));
    assert!(empty.linear_index(&[0, 0, 0]).is_err());
}

/// "Minor-to-major dimension ordering": the letters of the example.
#[test]
fn minor_to_major() {
    let letters = |text: &str| -> String {
        let image = MemoryImage::new(&array(text)).unwrap();
        let letter = |&e: &usize| char::from(b'a' + e as u8);
        image.places.iter().flatten().map(letter).collect()
    };
    assert_eq!(letters("u8[2,3]{0,1}"), "adbecf");
    assert_eq!(letters("u8[2,3]{1,0}"), "abcdef");
    // "Default minor-to-major ordering".
    assert_eq!(letters("u8[2,3]"), "abcdef");
    assert_eq!(at("f32[2,3,4]", &[1, 2, 3]), 23);
}

/// "Padding": padded at the end to a multiple, after tiling.
#[test]
fn tail_padding() {
    let padded = layout("f32[3,5]{1,0:T(2,2)L(16)}");
    assert_eq!(padded.padded_elements(), 32);
    assert_eq!(padded.linear_index(&[2, 3]), Ok(17));
    assert_eq!(padded.index_of(31), Ok(None));
    assert_eq!(layout("f32[7]{0:L(4)}").padded_elements(), 8);
    assert_eq!(layout("f32[8]{0:L(4)}").padded_elements(), 8);
}

/// "Indexing into arrays": `IndexUtil` converts by the order of dimensions alone.
#[test]
fn index_util() {
    let shape = array("f32[3,5]{0,1:T(2,2)}");
    let untiled = PhysicalLayout::untiled(&shape).unwrap();
    assert_eq!(untiled.linear_index(&[2, 3]), Ok(3 * 3 + 2));
    assert_eq!(untiled.index_of(11), Ok(Some(vec![2, 3])));
    assert!(untiled.linear_index(&[3, 0]).is_err());
    assert!(untiled.index_of(15).is_err());
}

/// "Memory Space Identifiers": S(0) is often omitted, the others are kept.
#[test]
fn memory_spaces() {
    assert_eq!(array("f32[8]{0:S(0)}").to_string(), "f32[8]{0}");
    for text in ["u32[]{:S(2)}", "f32[8]{0:T(128)S(5)}", "f32[8]{0:S(1)}"] {
        assert_eq!(array(text).to_string(), text);
    }
}

#[test]
fn published_positions() {
    assert_eq!(at("f32[8]{0:T(2,2)}", &[5]), 9);
    assert_eq!(at("bf16[2048]{0:T(1024)(128)(2,1)}", &[128]), 1);
    assert_eq!(at("bf16[2048]{0:T(1024)(128)(2,1)}", &[1]), 2);
    assert_eq!(at("bf16[2,8,128]{2,1,0:T(8,128)(2,1)}", &[0, 2, 0]), 256);
    assert_eq!(at("f32[3]{0:T(8,128)}", &[2]), 2);
    assert_eq!(at("f32[8,4]{1,0:T(2,2)}", &[3, 1]), 11);
    assert_eq!(at("u32[]{:T(128)}", &[]), 0);
}

#[test]
fn published_padded_sizes() {
    for (shape, bytes) in [
        ("s32[8388608,8,4]{2,1,0:T(8,128)}", 32i64 << 30),
        ("s32[2048,1,128,128,4]{4,3,2,0,1:T(8,128)}", 16 << 30),
        ("bf16[2048,1,2048,128]{0,1,3,2:T(4,128)(2,1)}", 4 << 30),
        ("bf16[128,4096,352]{2,1,0:T(16,128)(2,1)}", 384 << 20),
        ("bf16[8,2048,128]{2,1,0:T(16,128)(2,1)}", 4 << 20),
        ("f32[128,3]{1,0:T(8,128)}", 64 << 10),
        ("f32[128,6]{1,0:T(8,128)}", 64 << 10),
        ("f32[256,512,128,2]{3,2,1,0:T(8,128)}", 8 << 30),
        ("bf16[512,16,3072]{2,1,0:T(8,128)(2,1)}", 48 << 20),
        ("u8[327680,327680]{1,0:T(8,128)(4,1)}", 107_374_182_400),
        ("u32[]{:T(128)}", 512),
        ("s4[7]{0:T(1024)(128)(8,1)E(4)}", 512),
    ] {
        assert_eq!(layout(shape).padded_bytes(), bytes, "{shape}");
    }
}

#[test]
fn packed_elements() {
    let packed = layout("s4[3,5]{1,0:E(4)}");
    assert_eq!((packed.bytes(), packed.padded_bytes()), (8, 8));
    assert_eq!(packed.bit_offset(3), Some(12));
    let unpacked = layout("s4[3,5]{1,0}");
    assert_eq!(unpacked.padded_bytes(), 15);
    assert_eq!(layout("pred[10]{0}").padded_bytes(), 10);
    assert_eq!(layout("c128[10]{0}").padded_bytes(), 160);
    assert_eq!(layout("s1[9]{0:E(1)}").padded_bytes(), 2);
}

#[test]
fn splits_are_kept_and_the_largest_piece_is_known() {
    let text = "f32[150,200,100]{0,1,2:SC(0:30)(1:40,130)}";
    assert_eq!(array(text).to_string(), text);
    assert_eq!(largest_split(&array(text)), Ok(vec![150, 90, 70]));
}

#[test]
fn malformed_layouts_name_the_field() {
    let with = |change: &dyn Fn(&mut tegula_ir::Layout)| {
        let mut shape = array("f32[3,5]{1,0:T(2,2)}");
        change(shape.layout.as_mut().unwrap());
        PhysicalLayout::new(&shape).unwrap_err().to_string()
    };
    let size = |size| tegula_ir::Tile {
        dims: std::iter::once(tegula_ir::TileDim::Size(size)).collect(),
    };
    for (message, field) in [
        (with(&|l| l.minor_to_major[0] = 0), "minor_to_major"),
        (with(&|l| l.minor_to_major.truncate(1)), "minor_to_major"),
        (with(&|l| l.tiles[0] = size(0)), "tiles[0].dimensions[0]"),
        (with(&|l| l.tiles.push(size(-4))), "tiles[1].dimensions[0]"),
        (
            with(&|l| l.tiles = vec![size(2); 17]),
            "tiles has 17 levels",
        ),
        (with(&|l| l.tiles = vec![size(i64::MAX); 3]), "tiles:"),
        (with(&|l| l.tail_padding = -1), "tail_padding"),
        (with(&|l| l.tail_padding = i64::MAX), "element_size_in_bits"),
        (with(&|l| l.element_bits = -4), "element_size_in_bits"),
        (with(&|l| l.element_bits = i64::MAX), "element_size_in_bits"),
        (with(&|l| l.memory_space = -1), "memory_space"),
        (with(&|l| l.metadata_prefix = -1), "metadata_prefix"),
        (
            with(&|l| {
                l.splits.push(tegula_ir::SplitConfig {
                    dimension: 2,
                    indices: vec![1],
                });
            }),
            "split_configs[0]",
        ),
    ] {
        assert!(message.contains(field), "{field}: {message}");
    }
    let huge = PhysicalLayout::new(&array("f32[9223372036854775807,4]"));
    assert_eq!(huge, Err(PhysicalError::Overflow("dimensions")));
    let open = PhysicalLayout::new(&array("f32[?]"));
    assert_eq!(open, Err(PhysicalError::NotStatic(0)));
    for text in [
        "f32[3,5]{0,0}",
        "f32[3,5]{1,0:T(0,2)}",
        "f32[3,5]{1,0:L(-1)}",
        "f32[3,5]{1,0:E(-1)}",
        "f32[3,5]{1,0:T(99999999999999999999)}",
        "f32[3,5]{1,0:SC(1:9)}",
    ] {
        assert!(parse_shape(text).is_err(), "{text}");
    }
}

/// A kernel's access followed by the layout says the places of memory, simplified.
#[test]
fn a_layout_as_an_indexing_map() {
    let mut simplifier = Simplifier::new();
    let shape = array("f32[16,256]{1,0:T(8,128)}");
    let own = simplifier.simplify_map(&layout_map(&shape).unwrap());
    // One tile row is contiguous in its lanes.
    let lane: IndexingMap = "(d0, d1) -> (d0, d1 + 128), domain: d0 in [0, 7], d1 in [0, 127]"
        .parse()
        .unwrap();
    let places = physical_access(&mut simplifier, &lane, &shape).unwrap();
    assert_eq!(
        places.to_string(),
        "(d0, d1) -> (d0 * 128 + d1 + 1024), domain: d0 in [0, 7], d1 in [0, 127]"
    );
    for index in [[0, 0], [15, 255], [9, 130]] {
        let position = at("f32[16,256]{1,0:T(8,128)}", &index);
        assert_eq!(own.evaluate(&index), Ok(Some(vec![position])));
    }
}
