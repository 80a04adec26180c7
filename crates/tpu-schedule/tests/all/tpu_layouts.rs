//! Compares orders and tiles with those of libtpu's compiler on v5e.
//!
//! All entry parameters must agree. Results of two or more dimensions are matched by their
//! dimensions, ignoring those of size 1. If either side has several layouts for arrays of the same
//! dimensions, they are matched in order if there are equally many, otherwise they are excluded and
//! counted. Half of the programs, chosen by the parity of a hash of the name, were not looked at
//! when the costs were determined.

use crate::facts::{Made, Program};
use std::collections::BTreeMap;
use tegula_ir::{ArrayShape, Layout};
use tegula_layout::assign::{Assignment, Machine, assign, name_of};
use tegula_target::{Chip, TileRule};

fn v5e() -> Machine {
    Machine::tpu(&Chip::by_name("v5e").unwrap()).unwrap()
}

/// The dimensions larger than 1, and their order.
fn squeezed(shape: &ArrayShape, layout: &Layout) -> (Vec<i64>, Vec<u32>) {
    let dims = shape.static_dims().unwrap();
    let large: Vec<u32> = (0..dims.len() as u32)
        .filter(|&d| dims[d as usize] != 1)
        .collect();
    let order = layout.minor_to_major.iter();
    let order = order.filter_map(|d| large.iter().position(|l| l == d).map(|p| p as u32));
    (
        large.iter().map(|&d| dims[d as usize]).collect(),
        order.collect(),
    )
}

/// One array of ours: what makes it, its dimensions and order.
struct Own {
    name: String,
    order: Vec<u32>,
}

fn own(assignment: &Assignment, module: &tegula_ir::Module) -> BTreeMap<Vec<i64>, Vec<Own>> {
    let mut all: BTreeMap<Vec<i64>, Vec<Own>> = BTreeMap::new();
    let program = &assignment.program;
    for region in assignment
        .regions
        .iter()
        .filter(|region| region.of.is_none())
    {
        for kernel in region.kernels.iter().filter(|kernel| !kernel.is_view) {
            for &value in &program.nodes[kernel.root].results {
                let Some(layout) = assignment.layouts.get(&value) else {
                    continue;
                };
                let (dims, order) = squeezed(&program.values[value].shape, layout);
                if dims.len() > 1 {
                    let name = name_of(module, program, value).unwrap_or("?").to_owned();
                    all.entry(dims).or_default().push(Own { name, order });
                }
            }
        }
    }
    all
}

#[derive(Default)]
struct Score {
    equal: usize,
    differ: usize,
    ambiguous: usize,
    unmatched: usize,
}

impl Score {
    fn add(&mut self, other: &Self) {
        self.equal += other.equal;
        self.differ += other.differ;
        self.ambiguous += other.ambiguous;
        self.unmatched += other.unmatched;
    }

    fn share(&self) -> f64 {
        self.equal as f64 / (self.equal + self.differ).max(1) as f64
    }
}

fn compare(program: &Program, lines: &mut Vec<String>) -> Score {
    let machine = v5e();
    let expanded = tegula_fusion::expand(&program.module).unwrap();
    let assignment = match assign(
        &expanded,
        &machine,
        &|_| false,
        &mut tegula_ir::PassManager::new(),
    ) {
        Ok(assignment) => assignment,
        Err(error) => {
            lines.push(format!("{}: {error}", program.name));
            return Score::default();
        }
    };
    let ours = own(&assignment, &expanded);
    let mut theirs: BTreeMap<Vec<i64>, Vec<(&Made, Vec<u32>)>> = BTreeMap::new();
    for made in program.made.iter().filter(|made| made.is_result()) {
        let layout = made.shape.layout.as_deref().unwrap();
        let (dims, order) = squeezed(&made.shape, layout);
        if dims.len() > 1 {
            theirs.entry(dims).or_default().push((made, order));
        }
    }
    let mut score = Score::default();
    for (dims, theirs) in &theirs {
        let Some(ours) = ours.get(dims) else {
            score.unmatched += theirs.len();
            continue;
        };
        let one = |mut orders: Vec<&Vec<u32>>| {
            orders.sort();
            orders.dedup();
            orders.len() == 1
        };
        let plain = one(ours.iter().map(|own| &own.order).collect())
            && one(theirs.iter().map(|(_, order)| order).collect());
        if !plain && ours.len() != theirs.len() {
            score.ambiguous += theirs.len();
            continue;
        }
        for (number, (made, order)) in theirs.iter().enumerate() {
            let own = &ours[if plain { 0 } else { number }];
            let bits = made.shape.element_type.bits();
            let tile = TileRule::Compact.layout_in_order(bits, dims, &own.order);
            let real = made.shape.layout.as_deref().unwrap();
            let tiles = |layout: &Layout| layout.tiles.clone();
            // Dimensions of size 1 change the tile's height only if they are part of it.
            let same_tile =
                made.shape.rank() != dims.len() || tile.is_ok_and(|own| tiles(&own) == tiles(real));
            if *order == own.order && same_tile {
                score.equal += 1;
            } else {
                score.differ += 1;
                let costs = costs(&expanded, &own.name, (&own.order, order));
                let own = format!("{} {:?}", own.name, own.order);
                lines.push(format!(
                    "{}: {} {}; ours {own}: {costs}",
                    program.name, made.name, made.shape
                ));
            }
        }
    }
    score
}

/// The modelled cost of an array in our order and in theirs, all other orders being ours.
fn costs(module: &tegula_ir::Module, name: &str, (own, theirs): (&[u32], &[u32])) -> String {
    let assignment = assign(
        module,
        &v5e(),
        &|other| other == name,
        &mut tegula_ir::PassManager::new(),
    )
    .unwrap();
    let program = &assignment.program;
    let named = |value: &tegula_fusion::ValueId| name_of(module, program, *value) == Some(name);
    let Some(value) = assignment.explanations.keys().copied().find(named) else {
        return "no estimate".to_owned();
    };
    let cost = |order: &[u32]| {
        let alternatives = &assignment.explanations[&value].alternatives;
        let found = alternatives.iter().find(|alternative| {
            squeezed(&program.values[value].shape, &alternative.layout).1 == order
        });
        found.map_or("not tried".to_owned(), |a| {
            format!("{:.2} us", (a.traffic + a.wishes + a.links) * 1e6)
        })
    };
    format!("ours {}, theirs {}", cost(own), cost(theirs))
}

fn is_held_out(name: &str) -> bool {
    name.bytes().fold(0u32, |hash, byte| {
        hash.wrapping_mul(31).wrapping_add(byte.into())
    }) % 2
        == 1
}

#[test]
fn orders_and_tiles_agree_with_the_real_compiler() {
    let Some(programs) = crate::facts::programs() else {
        return;
    };
    let mut totals: BTreeMap<&str, Score> = BTreeMap::new();
    for program in &programs {
        let mut lines = Vec::new();
        let score = compare(program, &mut lines);
        let half = is_held_out(&program.name);
        let show = std::env::var("TEGULA_SHOW").is_ok_and(|show| show == "all" || !half);
        if show {
            lines.iter().for_each(|line| println!("  {line}"));
        }
        totals
            .entry(if half { "held out" } else { "looked at" })
            .or_default()
            .add(&score);
        totals
            .entry(if program.corpus { "corpus" } else { "programs" })
            .or_default()
            .add(&score);
        totals.entry("all").or_default().add(&score);
    }
    for (name, score) in &totals {
        println!(
            "{name}: {:.1} % of {} agree; {} ambiguous, {} have no counterpart",
            100.0 * score.share(),
            score.equal + score.differ,
            score.ambiguous,
            score.unmatched
        );
    }
    assert!(totals["all"].share() >= 0.9);
}

#[test]
fn entry_parameters_agree_with_the_real_compiler() {
    let Some(programs) = crate::facts::programs() else {
        return;
    };
    let chip = Chip::by_name("v5e").unwrap();
    let mut count = 0;
    for program in &programs {
        for made in program
            .made
            .iter()
            .filter(|made| made.opcode == "parameter")
        {
            let dims = made.shape.static_dims().unwrap();
            let own = chip
                .default_layout(made.shape.element_type.bits(), &dims)
                .unwrap();
            assert_eq!(Some(&own), made.shape.layout.as_deref(), "{}", program.name);
            count += 1;
        }
    }
    println!("{count} of {count} entry parameters agree");
    assert!(count > 500);
}
