//! Conditions on open sizes, and how tiles are printed.

use tegula_indexing::tiles::{Tile, Tiling, TilingSpace};
use tegula_indexing::{IndexingMap, Simplifier};
use tegula_ir::parse_module;

fn parse(text: &str) -> IndexingMap {
    text.parse()
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// A tile with open sizes: itself, and when it is exact.
fn open(text: &str, sizes: &[i64]) -> [String; 2] {
    let space = TilingSpace::of_array(sizes);
    let tile = Tile::of(&Simplifier::new().simplify_map(&parse(text)), &space);
    let names = |var| space.name(var);
    [
        tile.display(&space).to_string(),
        tile.exact.display(&names).to_string(),
    ]
}

#[test]
fn of_reshapes() {
    let [tile, exact] = open(
        "(d0, d1) -> (d0 * 8 + d1), domain: d0 in [0, 3], d1 in [0, 7]",
        &[4, 8],
    );
    println!("{tile}\n{exact}");
    assert_eq!(exact, "t0 <= 1 or 8 <= t1");
    let [tile, exact] = open("(d0) -> (d0 / 8, d0 mod 8), domain: d0 in [0, 31]", &[32]);
    println!("{tile}\n{exact}");
    assert_eq!(exact, "8 mod t0 = 0 or t0 mod 8 = 0");
}

#[test]
fn of_a_convolution() {
    let module = parse_module(
        "HloModule m
         ENTRY e {
           x = f32[8,56,56,64] parameter(0)
           k = f32[3,3,64,128] parameter(1)
           ROOT c = f32[8,28,28,128] convolution(x, k), window={size=3x3 stride=2x2 pad=0_1x0_1}, dim_labels=b01f_01io->b01f
         }",
    )
    .expect("a module");
    let root = module.entry_computation().root;
    let tiling = Tiling::of(&module, root, 0, &mut Simplifier::new()).expect("maps");
    let space = tiling.space.with_minor_sizes(&[4, 14, 128]);
    for operand in tiling.operands(&space) {
        for tile in operand.tiles.expect("tiles") {
            println!("{}", tile.display(&space));
            assert!(tile.is_exact(), "{tile:#?}");
        }
    }
}
