//! Tests the tiles of random fusions: chains of movements, sums and products over one or two
//! arrays. Their results depend on every element that they read, so replacing an element by NaN
//! shows which results read it.

use std::collections::{BTreeMap, BTreeSet};

use super::{At, Indices, check, indices, points, random_sizes, tiles_of};
use crate::common::{Random, cases};
use tegula_expr::Var;
use tegula_indexing::tiles::{Tile, Tiling};
use tegula_indexing::{IndexingMap, RuntimeSource, Simplifier};
use tegula_interp::{Value, evaluate};
use tegula_ir::{ElementType, InstructionId, Literal, Module, parse_module};

/// Elements of one value.
const MAX_ELEMENTS: i64 = 48;

/// A fusion under construction.
struct Drawn {
    body: String,
    values: Vec<(String, Vec<i64>)>,
}

fn shape(dims: &[i64]) -> String {
    format!("f32[{}]", list(dims))
}

fn list(numbers: &[i64]) -> String {
    let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    numbers.join(",")
}

impl Drawn {
    fn push(&mut self, dims: Vec<i64>, operation: &str, operands: &[&str], attributes: &str) {
        let name = format!("v{}", self.values.len());
        self.body += &format!(
            "  {name} = {} {operation}({}){attributes}\n",
            shape(&dims),
            operands.join(", ")
        );
        self.values.push((name, dims));
    }

    fn pick(&self, random: &mut Random) -> (String, Vec<i64>) {
        // Later values are chosen more often, so that chains get long.
        let last = self.values.len() as i64 - 1;
        let at = random.range(0, last).max(random.range(0, last));
        self.values[usize::try_from(at).expect("a place")].clone()
    }

    /// Adds one operation, unless it does not fit.
    fn grow(&mut self, random: &mut Random) {
        let (x, dims) = self.pick(random);
        let rank = dims.len() as i64;
        let count: i64 = dims.iter().product();
        match random.range(0, 11) {
            0 => {
                let like = self.values.iter().filter(|(_, other)| *other == dims);
                let like: Vec<String> = like.map(|(name, _)| name.clone()).collect();
                let at = random.range(0, like.len() as i64 - 1);
                let y = &like[usize::try_from(at).expect("a place")];
                self.push(dims, "add", &[&x, y], "");
            }
            1 if rank > 1 => {
                let order = random.permutation(dims.len());
                let to = order.iter().map(|d| dims[*d as usize]).collect();
                let text = format!(", dimensions={{{}}}", list(&order));
                self.push(to, "transpose", &[&x], &text);
            }
            2 if rank > 0 => {
                let dim = random.range(0, rank - 1);
                let text = format!(", dimensions={{{dim}}}");
                self.push(dims, "reverse", &[&x], &text);
            }
            3 if rank > 0 => {
                let (mut to, mut parts) = (Vec::new(), Vec::new());
                for size in &dims {
                    let start = random.range(0, (size - 1).min(2));
                    let (limit, stride) = (random.range(start + 1, *size), random.range(1, 2));
                    to.push((limit - start + stride - 1) / stride);
                    parts.push(format!("[{start}:{limit}:{stride}]"));
                }
                let text = format!(", slice={{{}}}", parts.join(", "));
                self.push(to, "slice", &[&x], &text);
            }
            4 if rank > 0 => {
                let (mut to, mut parts) = (Vec::new(), Vec::new());
                for size in &dims {
                    let interior = random.range(0, 3) / 3;
                    let (low, high) = (random.range(0, 2), random.range(0, 2));
                    to.push(size + (size - 1) * interior + low + high);
                    parts.push(format!("{low}_{high}_{interior}"));
                }
                if to.iter().product::<i64>() <= MAX_ELEMENTS {
                    let text = format!(", padding={}", parts.join("x"));
                    self.push(to, "pad", &[&x, "zero"], &text);
                }
            }
            5 | 6 => {
                let (mut to, mut rest) = (Vec::new(), count);
                while rest > 1 {
                    let divisors: Vec<i64> = (2..=rest).filter(|d| rest % d == 0).collect();
                    let at = random.range(0, divisors.len() as i64 - 1);
                    let size = divisors[usize::try_from(at).expect("a place")];
                    to.push(size);
                    rest /= size;
                }
                self.push(to, "reshape", &[&x], "");
            }
            7 if count <= MAX_ELEMENTS / 3 => {
                let at = random.range(0, rank);
                let mut to = dims.clone();
                to.insert(usize::try_from(at).expect("a place"), random.range(2, 3));
                let places: Vec<i64> = (0..=rank).filter(|d| *d != at).collect();
                let text = format!(", dimensions={{{}}}", list(&places));
                self.push(to, "broadcast", &[&x], &text);
            }
            8 if rank > 0 => {
                let dim = random.range(0, rank - 1);
                let at = usize::try_from(dim).expect("a place");
                let mut to = dims.clone();
                to.remove(at);
                let text = format!(", dimensions={{{dim}}}, to_apply=add");
                self.push(to, "reduce", &[&x, "zero"], &text);
            }
            9 if rank > 0 && count <= MAX_ELEMENTS / 2 => {
                let dim = random.range(0, rank - 1);
                let at = usize::try_from(dim).expect("a place");
                let mut to = dims.clone();
                to[at] *= 2;
                let text = format!(", dimensions={{{dim}}}");
                self.push(to, "concatenate", &[&x, &x], &text);
            }
            10 if rank == 2 => {
                let to = vec![dims[0], dims[0]];
                let text = ", lhs_contracting_dims={1}, rhs_contracting_dims={1}";
                if to.iter().product::<i64>() <= MAX_ELEMENTS {
                    self.push(to, "dot", &[&x, &x], text);
                }
            }
            11 if rank == 1 && dims[0] >= 2 => {
                let (stride, base) = (random.range(1, 2), random.range(1, 2));
                let dilation = random.range(1, 2);
                let spread = (dims[0] - 1) * base + 1 + 1;
                let reach = dilation + 1;
                let to = vec![(spread - reach) / stride + 1];
                let text = format!(
                    ", window={{size=2 stride={stride} pad=1_0 lhs_dilate={base} rhs_dilate={dilation}}}, to_apply=add"
                );
                self.push(to, "reduce-window", &[&x, "zero"], &text);
            }
            _ if rank > 0 => {
                let slice: Vec<i64> = dims.iter().map(|size| random.range(1, *size)).collect();
                let offsets = vec!["offset"; dims.len()];
                let operands = [&[x.as_str()], offsets.as_slice()].concat();
                let text = format!(", dynamic_slice_sizes={{{}}}", list(&slice));
                self.push(slice, "dynamic-slice", &operands, &text);
            }
            _ => {}
        }
    }
}

/// A module whose root is a fusion of one or two arrays and an offset.
pub(super) fn random_fusion(random: &mut Random) -> String {
    let mut drawn = Drawn {
        body: String::new(),
        values: Vec::new(),
    };
    let mut arrays = Vec::new();
    for _ in 0..random.range(1, 2) {
        let rank = random.range(1, 3);
        let dims: Vec<i64> = (0..rank).map(|_| random.range(1, 4)).collect();
        let name = format!("v{}", arrays.len());
        arrays.push(dims.clone());
        drawn.values.push((name, dims));
    }
    for _ in 0..random.range(2, 7) {
        drawn.grow(random);
    }
    let root = drawn.values.last().cloned().expect("a value");
    let parameters = |names: &str| -> String {
        let all = arrays.iter().enumerate();
        all.map(|(n, dims)| format!("  {names}{n} = {} parameter({n})\n", shape(dims)))
            .collect()
    };
    let count = arrays.len();
    let operands: Vec<String> = (0..count).map(|n| format!("p{n}")).collect();
    let body = drawn.body.replacen(
        &format!("  {} = ", root.0),
        &format!("  ROOT {} = ", root.0),
        1,
    );
    let body = match drawn.values.len() == count {
        true => format!("  ROOT root = {} copy({})\n", shape(&root.1), root.0),
        false => body,
    };
    format!(
        "HloModule m\nadd {{\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT s = f32[] add(x, y)\n}}\n\
         fused {{\n{}  offset = s32[] parameter({count})\n  zero = f32[] constant(0)\n{body}}}\n\
         ENTRY e {{\n{}  o = s32[] parameter({count})\n  ROOT r = {} fusion({}, o), kind=kLoop, calls=fused\n}}\n",
        parameters("v"),
        parameters("p"),
        shape(&root.1),
        operands.join(", ")
    )
}

/// Which elements of each array the elements of the result depend on.
fn real(module: &Module, offset: i32) -> Vec<BTreeSet<(Vec<i64>, Vec<i64>)>> {
    let entry = module.entry_computation();
    let shapes: Vec<_> = entry
        .parameters
        .iter()
        .map(|id| module[*id].shape.as_array().expect("an array").clone())
        .collect();
    let ones = |changed: Option<(usize, usize)>| -> Vec<Value> {
        let all = shapes.iter().enumerate();
        all.map(|(number, shape)| {
            let count = shape.element_count().expect("a size");
            let bytes: Vec<u8> = (0..count as usize)
                .flat_map(|k| match shape.element_type {
                    ElementType::F32 if changed == Some((number, k)) => f32::NAN.to_le_bytes(),
                    ElementType::F32 => 1.0f32.to_le_bytes(),
                    _ => offset.to_le_bytes(),
                })
                .collect();
            Value::Array(Literal::from_bytes(shape, &bytes).expect("a literal"))
        })
        .collect()
    };
    let mut found = Vec::new();
    for (number, shape) in shapes.iter().enumerate() {
        let mut pairs = BTreeSet::new();
        let dims = shape.static_dims().expect("static");
        let count = match shape.element_type {
            ElementType::F32 => shape.element_count().expect("a size"),
            _ => 0,
        };
        for element in 0..count as usize {
            let value = evaluate(module, &ones(Some((number, element)))).expect("a value");
            let value = value.as_array().expect("an array").clone();
            let to = value.shape().static_dims().expect("static");
            for (place, word) in value.bytes().as_chunks::<4>().0.iter().enumerate() {
                if f32::from_le_bytes(*word).is_nan() {
                    pairs.insert((unflatten(element, &dims), unflatten(place, &to)));
                }
            }
        }
        found.push(pairs);
    }
    found
}

fn unflatten(flat: usize, sizes: &[i64]) -> Vec<i64> {
    crate::every_operation::case::unflatten(flat, sizes)
}

/// The value of a run-time variable: all offsets are the same.
fn bind(map: &IndexingMap, number: usize, _: &[i64], offset: i32) -> i64 {
    let runtime = &map.runtime[number];
    let bounds = runtime.variable.bounds;
    match &runtime.source {
        Some(RuntimeSource::Element { .. }) => i64::from(offset).clamp(bounds.lower, bounds.upper),
        other => panic!("{other:?}"),
    }
}

fn check_fusion(text: &str, random: &mut Random, counts: &mut (u64, u64)) {
    let module = parse_module(text).unwrap_or_else(|error| panic!("{text}\n{error}"));
    let fusion: InstructionId = module.entry_computation().root;
    let offset = i32::try_from(random.range(-1, 3)).expect("small");
    let real = real(&module, offset);
    let tiling = Tiling::of(&module, fusion, 0, &mut Simplifier::new()).expect("an array");
    let open = tiling.operands(&tiling.space);
    for _ in 0..2 {
        let sizes = random_sizes(&tiling.space, random);
        let given: Vec<Option<i64>> = sizes.iter().copied().map(Some).collect();
        let space = tiling.space.with_sizes(&given);
        let parallel = space.parallel().count();
        // Only if there are few enough to check.
        let numbers = tiles_of(&space, &sizes);
        if numbers.len() > 300 {
            continue;
        }
        for (own, open) in tiling.operand_maps().iter().zip(&open) {
            let maps = own.maps.as_ref().expect("maps");
            let open = open.tiles.as_ref().expect("tiles");
            let mut named: BTreeMap<Vec<i64>, (Indices, bool)> = BTreeMap::new();
            for map in maps {
                let tile = Tile::of(map, &space);
                let own_open = Tile::of(map, &tiling.space);
                assert!(open.contains(&own_open));
                let all = points(map, &|map, number, point| bind(map, number, point, offset));
                for number in &numbers {
                    let runtime = (0..map.runtime.len()).map(|n| bind(map, n, &[], offset));
                    let at = At {
                        tile: number.clone(),
                        sizes: sizes.clone(),
                        runtime: runtime.collect(),
                    };
                    let inside = all.iter().filter(|(point, _)| at.has(point));
                    let read = inside.map(|(_, results)| results.clone()).collect();
                    let what = format!("{text}\n{map}");
                    let exact = check(&tile, &at, &read, &what);
                    check(&own_open, &at, &read, &format!("open: {what}"));
                    *counts = (counts.0 + u64::from(exact), counts.1 + 1);
                    let slot = named.entry(number[..parallel].to_vec());
                    let (named, is_exact) = slot.or_insert((Indices::new(), true));
                    named.extend(indices(&tile, &at));
                    *is_exact &= exact;
                }
            }
            for (number, (named, is_exact)) in named {
                let sizes = &sizes[..parallel];
                let is_inside = |result: &[i64]| {
                    let dims = number.iter().zip(sizes).zip(result);
                    dims.into_iter()
                        .all(|((number, size), at)| at / size == *number)
                };
                let own = real[own.operand].iter().filter(|(_, to)| is_inside(to));
                let read: Indices = own.map(|(from, _)| from.clone()).collect();
                let missed: Vec<_> = read.difference(&named).collect();
                assert!(missed.is_empty(), "{text}\nnot named {missed:?}");
                let is_array = !real.is_empty() && !maps.iter().any(|m| m.results.is_empty());
                if is_exact && is_array {
                    let more: Vec<_> = named.difference(&read).collect();
                    assert!(more.is_empty(), "{text}\nnot read {more:?}");
                }
            }
        }
    }
}

#[test]
fn tiles_have_what_fusions_read() {
    let mut counts = (0, 0);
    for case in 0..cases(250) {
        let mut random = Random(case ^ 0xf05);
        let text = random_fusion(&mut random);
        check_fusion(&text, &mut random, &mut counts);
    }
    println!("{} of {} tiles are exact", counts.0, counts.1);
    assert!(counts.0 * 2 > counts.1, "{counts:?}");
    let _ = Var(0);
}
