//! Brute force over operations: for random small instances of every operation that
//! the reference evaluator runs, what each element of the result depends on is
//! found by changing operands' elements one at a time. An exact map names just
//! those pairs, a superset has them all; in both directions.

mod common;

use std::collections::BTreeSet;

use common::{Random, cases};
use tegula_expr::Var;
use tegula_indexing::{
    Exactness, IndexingMap, OperandIndexing, RuntimeSource, Session, fusion_input_to_output,
    fusion_output_to_input,
};
use tegula_interp::{Value, evaluate};
use tegula_ir::{ElementType, InstructionId, Literal, Module, Op, parse_module};

/// (operand index, result index).
type Relation = BTreeSet<(Vec<i64>, Vec<i64>)>;

/// Trials with other numbers for one instance.
const TRIALS: usize = 10;

/// One instance: operand shapes, result shape, opcode and attributes. Numbers in
/// `s32` operands are in `0..most`.
struct Instance {
    operands: Vec<String>,
    result: String,
    operation: String,
    most: i64,
}

fn instance(operands: &[&str], result: &str, operation: &str) -> Instance {
    Instance {
        operands: operands.iter().map(|s| (*s).to_owned()).collect(),
        result: result.to_owned(),
        operation: operation.to_owned(),
        most: 6,
    }
}

const COMPUTATIONS: &str = "add {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT s = f32[] add(x, y)\n}\n\
ge {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT s = pred[] compare(x, y), direction=GE\n}\n\
lt {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT s = pred[] compare(x, y), direction=LT\n}\n\
lt2 {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  p = f32[] parameter(2)\n  q = f32[] parameter(3)\n  ROOT s = pred[] compare(x, y), direction=LT\n}\n\
flip {\n  a = f32[2,3] parameter(0)\n  t = f32[3,2] transpose(a), dimensions={1,0}\n  ROOT r = f32[3,2] reverse(t), dimensions={0}\n}\n\
turn {\n  a = f32[2,3] parameter(0)\n  ROOT t = f32[3,2] reshape(a)\n}\n\
two {\n  a = f32[2,3] parameter(0)\n  b = f32[3,2] parameter(1)\n  t = f32[2,3] reshape(b)\n  s = f32[2,3] slice(a), slice={[0:2], [0:3]}\n  ROOT r = f32[2,3] add(s, t)\n}\n\
below {\n  s = (s32[], f32[2,3], f32[2]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n  n = s32[] constant(3)\n  ROOT r = pred[] compare(i, n), direction=LT\n}\n\
step {\n  s = (s32[], f32[2,3], f32[2]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n  a = f32[2,3] get-tuple-element(s), index=1\n  w = f32[2] get-tuple-element(s), index=2\n  one = s32[] constant(1)\n  j = s32[] add(i, one)\n  b = f32[2,3] broadcast(w), dimensions={0}\n  z = f32[2,3] reverse(a), dimensions={1}\n  c = f32[2,3] add(z, b)\n  ROOT r = (s32[], f32[2,3], f32[2]) tuple(j, c, w)\n}\n";

struct Case {
    module: Module,
    root: InstructionId,
    text: String,
    most: i64,
}

impl Case {
    fn new(instance: &Instance) -> Self {
        let names: Vec<String> = (0..instance.operands.len())
            .map(|n| format!("p{n}"))
            .collect();
        let parameters: String = instance
            .operands
            .iter()
            .enumerate()
            .map(|(n, shape)| format!("  p{n} = {shape} parameter({n})\n"))
            .collect();
        let operation = &instance.operation;
        let (opcode, attributes) = operation.split_once(' ').unwrap_or((operation, ""));
        let text = format!(
            "HloModule m\n{COMPUTATIONS}ENTRY e {{\n{parameters}  ROOT r = {} {opcode}({}){attributes}\n}}\n",
            instance.result,
            names.join(", ")
        );
        let module = parse_module(&text).unwrap_or_else(|error| panic!("{text}\n{error}"));
        let root = module.entry_computation().root;
        let text = format!(
            "{} {opcode} {:?} {attributes}",
            instance.result, instance.operands
        );
        Self {
            module,
            root,
            text,
            most: instance.most,
        }
    }

    fn arguments(&self, random: &mut Random) -> Vec<Value> {
        let parameters = &self.module.entry_computation().parameters;
        let shapes = parameters.iter().map(|id| self.module[*id].shape.clone());
        shapes.map(|shape| self.value(&shape, random)).collect()
    }

    fn value(&self, shape: &tegula_ir::Shape, random: &mut Random) -> Value {
        if let Some(elements) = shape.as_tuple() {
            return Value::Tuple(
                elements
                    .iter()
                    .map(|shape| self.value(shape, random))
                    .collect(),
            );
        }
        let shape = shape.as_array().expect("an array");
        let count = shape.element_count().expect("a size");
        let mut bytes = Vec::new();
        for _ in 0..count {
            match shape.element_type {
                ElementType::F32 => bytes.extend((random.range(1, 400) as f32).to_le_bytes()),
                ElementType::C64 => {
                    bytes.extend((random.range(1, 400) as f32).to_le_bytes());
                    bytes.extend((random.range(1, 400) as f32).to_le_bytes());
                }
                ElementType::Pred => bytes.push(u8::from(random.range(0, 1) == 1)),
                _ => bytes.extend((random.range(-1, self.most) as i32).to_le_bytes()),
            }
        }
        Value::Array(Literal::from_bytes(shape, &bytes).expect("a literal"))
    }

    fn run(&self, arguments: &[Value]) -> Vec<Literal> {
        let value = evaluate(&self.module, arguments)
            .unwrap_or_else(|error| panic!("{}: {error}", self.text));
        leaves(&value)
    }
}

fn leaves(value: &Value) -> Vec<Literal> {
    match value {
        Value::Array(literal) => vec![literal.clone()],
        Value::Tuple(elements) => elements.iter().flat_map(leaves).collect(),
        _ => Vec::new(),
    }
}

/// The value with array `leaf` replaced.
fn replaced(value: &Value, leaf: &mut usize, literal: &Literal) -> Value {
    match value {
        Value::Tuple(elements) => Value::Tuple(
            elements
                .iter()
                .map(|element| replaced(element, leaf, literal))
                .collect(),
        ),
        other => {
            let is_here = *leaf == 0;
            *leaf = leaf.wrapping_sub(1);
            if is_here {
                Value::Array(literal.clone())
            } else {
                other.clone()
            }
        }
    }
}

fn sizes(literal: &Literal) -> Vec<i64> {
    literal.shape().static_dims().expect("static").to_vec()
}

fn unflatten(flat: usize, sizes: &[i64]) -> Vec<i64> {
    let mut rest = flat as i64;
    let mut index = vec![0; sizes.len()];
    for (slot, size) in index.iter_mut().zip(sizes).rev() {
        *slot = rest % size;
        rest /= size;
    }
    index
}

/// Other values for an element, in bytes.
fn changes(literal: &Literal, element: usize, random: &mut Random) -> Vec<Vec<u8>> {
    let width = literal.element_type().storage_bytes();
    let old = &literal.bytes()[element * width..(element + 1) * width];
    let new: Vec<Vec<u8>> = match literal.element_type() {
        ElementType::F32 => [f32::NAN, 5000.0, -5000.0, random.range(1, 400) as f32 + 0.5]
            .iter()
            .map(|v| v.to_le_bytes().to_vec())
            .collect(),
        ElementType::C64 => [f32::NAN, 5000.0]
            .iter()
            .map(|v| [v.to_le_bytes(), v.to_le_bytes()].concat())
            .collect(),
        ElementType::Pred => vec![vec![1 - old[0]]],
        _ => (-1..6).map(|v: i32| v.to_le_bytes().to_vec()).collect(),
    };
    new.into_iter().filter(|new| new != old).collect()
}

/// Which elements of array `output` change with which of operand `operand`.
fn dependence(
    case: &Case,
    arguments: &[Value],
    base: &[Literal],
    (operand, leaf): (usize, usize),
    output: usize,
    random: &mut Random,
) -> Relation {
    let mut found = Relation::new();
    let own = leaves(&arguments[operand])[leaf].clone();
    let (own_sizes, width) = (sizes(&own), own.element_type().storage_bytes());
    for element in 0..own.bytes().len() / width {
        for change in changes(&own, element, random) {
            let mut changed = own.clone();
            changed.bytes_mut()[element * width..(element + 1) * width].copy_from_slice(&change);
            let mut arguments = arguments.to_vec();
            let mut at = leaf;
            arguments[operand] = replaced(&arguments[operand], &mut at, &changed);
            let after = &case.run(&arguments)[output];
            let before = &base[output];
            let out = before.element_type().storage_bytes();
            let pairs = before.bytes().chunks(out).zip(after.bytes().chunks(out));
            for (position, (a, b)) in pairs.enumerate() {
                if a != b {
                    let to = unflatten(position, &sizes(before));
                    found.insert((unflatten(element, &own_sizes), to));
                }
            }
        }
    }
    found
}

/// The pairs that a map names, with run-time variables bound to the arguments.
fn named(case: &Case, map: &IndexingMap, arguments: &[Value], forward: bool) -> Relation {
    let mut free = map.clone();
    let first = map.dims.len() + map.ranges.len();
    // Bound variables take one value below.
    free.runtime.clear();
    free.constraints.clear();
    free.results.clear();
    let mut found = Relation::new();
    for (point, _) in free.enumerate(2_000_000).expect("small") {
        let mut point = point;
        for runtime in &map.runtime {
            let value = bind(case, runtime, &point, arguments);
            point.push(value);
        }
        assert_eq!(point.len(), first + map.runtime.len());
        if let Some(results) = map.evaluate(&point).expect("a value") {
            let start = point[..map.dims.len()].to_vec();
            found.insert(if forward {
                (start, results)
            } else {
                (results, start)
            });
        }
    }
    found
}

fn bind(
    case: &Case,
    runtime: &tegula_indexing::RuntimeVariable,
    point: &[i64],
    arguments: &[Value],
) -> i64 {
    let Some(RuntimeSource::Element {
        instruction,
        index,
        clamped,
    }) = &runtime.source
    else {
        panic!("{}: a source", case.text)
    };
    let parameters = &case.module.entry_computation().parameters;
    let operand = parameters.iter().position(|id| id == instruction);
    let literal = leaves(&arguments[operand.expect("an operand")])[0].clone();
    let index: Vec<i64> = index
        .iter()
        .map(|term| {
            term.eval(&|var: Var| point.get(var.0 as usize).copied())
                .expect("an index")
        })
        .collect();
    let flat = index
        .iter()
        .zip(sizes(&literal))
        .fold(0, |flat, (i, n)| flat * n + i);
    let flat = usize::try_from(flat).expect("an index");
    let word: [u8; 4] = literal.bytes()[flat * 4..flat * 4 + 4]
        .try_into()
        .expect("four");
    let value = i64::from(i32::from_le_bytes(word));
    let bounds = runtime.variable.bounds;
    if *clamped {
        value.clamp(bounds.lower, bounds.upper)
    } else {
        value
    }
}

/// The union over an operand's maps, and whether all are exact.
fn union(
    case: &Case,
    found: &OperandIndexing,
    arguments: &[Value],
    forward: bool,
) -> (Relation, bool) {
    let maps = found
        .maps
        .as_ref()
        .unwrap_or_else(|unknown| panic!("{}: {}", case.text, unknown.cause));
    let mut relation = Relation::new();
    let mut exact = true;
    let mut session = Session::new();
    for map in maps {
        let own = named(case, map, arguments, forward);
        let simple = named(case, &session.simplify_map(map), arguments, forward);
        if !session.simplify_map(map).is_empty() {
            assert_eq!(own, simple, "{}: {map}", case.text);
        }
        relation.extend(own);
        exact &= map.exactness == Exactness::Exact;
    }
    (relation, exact)
}

/// Checks one instance; gives the operands whose maps are supersets.
fn check(instance: &Instance, random: &mut Random) -> BTreeSet<(&'static str, usize)> {
    let case = Case::new(instance);
    let mut supersets = BTreeSet::new();
    let opcode = case.module[case.root].op.opcode().name();
    let mut session = Session::new();
    let outputs = case.module[case.root].shape.leaf_count();
    // Indices stay, so that run-time variables mean one thing.
    let fixed = case.arguments(random);
    let trials: Vec<Vec<Value>> = (0..TRIALS)
        .map(|_| {
            let fresh = case.arguments(random);
            let keep = |(old, new): (&Value, Value)| match old {
                Value::Array(literal) if literal.element_type() == ElementType::S32 => old.clone(),
                _ => new,
            };
            fixed.iter().zip(fresh).map(keep).collect()
        })
        .collect();
    for output in 0..outputs {
        let backward = fusion_output_to_input(&case.module, case.root, output, &mut session);
        let forward = fusion_input_to_output(&case.module, case.root, output, &mut session);
        assert_eq!(backward.len(), forward.len());
        for (back, forth) in backward.iter().zip(&forward) {
            let place = (back.operand, back.leaf);
            let mut real = Relation::new();
            for arguments in &trials {
                let base = case.run(arguments);
                real.extend(dependence(&case, arguments, &base, place, output, random));
            }
            for (found, is_forward) in [(back, false), (forth, true)] {
                let (relation, exact) = union(&case, found, &fixed, is_forward);
                let missed: Vec<_> = real.difference(&relation).take(3).collect();
                let maps = found.maps.as_ref().expect("maps");
                let shown: Vec<String> = maps.iter().map(ToString::to_string).collect();
                assert!(
                    missed.is_empty(),
                    "{}: operand {place:?}, output {output}, forward {is_forward}: not named {missed:?}\n{shown:#?}",
                    case.text
                );
                // An index or a predicate is read even where it cannot matter.
                if exact && is_number(&trials[0], place) {
                    let more: Vec<_> = relation.difference(&real).take(3).collect();
                    assert!(
                        more.is_empty(),
                        "{}: operand {place:?}, output {output}, forward {is_forward}: nothing depends on {more:?}\n{shown:#?}",
                        case.text
                    );
                }
                if !exact {
                    supersets.insert((opcode, back.operand));
                }
            }
        }
    }
    supersets
}

fn is_number(arguments: &[Value], (operand, leaf): (usize, usize)) -> bool {
    let ty = leaves(&arguments[operand])[leaf].element_type();
    matches!(ty, ElementType::F32 | ElementType::C64)
}

fn shape(ty: &str, sizes: &[i64]) -> String {
    let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
    format!("{ty}[{}]", sizes.join(","))
}

fn list(numbers: &[i64]) -> String {
    let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    numbers.join(",")
}

fn random_sizes(random: &mut Random, rank: i64, most: i64) -> Vec<i64> {
    (0..rank).map(|_| random.range(1, most)).collect()
}

fn permutation(random: &mut Random, rank: usize) -> Vec<i64> {
    let mut order: Vec<i64> = (0..rank as i64).collect();
    for last in (1..rank).rev() {
        let other = usize::try_from(random.range(0, last as i64)).expect("a place");
        order.swap(last, other);
    }
    order
}

/// An instance of the operation of this number; `None` if it has no such shape.
fn movement(random: &mut Random, kind: i64) -> Instance {
    let rank = random.range(1, 3);
    let dims = random_sizes(random, rank, 4);
    let own = shape("f32", &dims);
    match kind {
        0 => instance(&[&own, &own], &own, "add"),
        1 => instance(&[&shape("pred", &dims), &own, &own], &own, "select"),
        2 => {
            let own = shape("f32", &[&[2], dims.as_slice()].concat());
            instance(&["f32[]", &own, "f32[]"], &own, "clamp")
        }
        3 => {
            let order = permutation(random, dims.len());
            let to: Vec<i64> = order.iter().map(|d| dims[*d as usize]).collect();
            let text = format!("transpose , dimensions={{{}}}", list(&order));
            instance(&[&own], &shape("f32", &to), &text)
        }
        4 => {
            let chosen: Vec<i64> = (0..rank).filter(|_| random.range(0, 1) == 1).collect();
            instance(
                &[&own],
                &own,
                &format!("reverse , dimensions={{{}}}", list(&chosen)),
            )
        }
        5 => {
            let (mut to, mut parts) = (Vec::new(), Vec::new());
            for size in &dims {
                let start = random.range(0, size - 1);
                let (limit, stride) = (random.range(start + 1, *size), random.range(1, 3));
                to.push((limit - start + stride - 1) / stride);
                parts.push(format!("[{start}:{limit}:{stride}]"));
            }
            let text = format!("slice , slice={{{}}}", parts.join(", "));
            instance(&[&own], &shape("f32", &to), &text)
        }
        6 => {
            let (mut to, mut parts) = (Vec::new(), Vec::new());
            for size in &dims {
                let interior = random.range(0, 2);
                let spread = size + (size - 1) * interior;
                let (low, high) = (random.range(-1, 2), random.range(-1, 2));
                to.push((spread + low + high).max(0));
                let low = if spread + low + high < 0 { 0 } else { low };
                let high = if low == 0 && spread + high < 0 {
                    0
                } else {
                    high
                };
                *to.last_mut().expect("one") = spread + low + high;
                parts.push(format!("{low}_{high}_{interior}"));
            }
            if to.iter().any(|size| *size < 0) {
                return instance(&[&own], &own, "copy");
            }
            let text = format!("pad , padding={}", parts.join("x"));
            instance(&[&own, "f32[]"], &shape("f32", &to), &text)
        }
        7 => {
            let dim = usize::try_from(random.range(0, rank - 1)).expect("a place");
            let mut shapes = Vec::new();
            let mut to = dims.clone();
            to[dim] = 0;
            for _ in 0..random.range(1, 3) {
                let mut part = dims.clone();
                part[dim] = random.range(1, 3);
                to[dim] += part[dim];
                shapes.push(shape("f32", &part));
            }
            let shapes: Vec<&str> = shapes.iter().map(String::as_str).collect();
            instance(
                &shapes,
                &shape("f32", &to),
                &format!("concatenate , dimensions={{{dim}}}"),
            )
        }
        8 => {
            let total: i64 = dims.iter().product();
            let mut to = Vec::new();
            let mut rest = total;
            while rest > 1 {
                let divisors: Vec<i64> = (2..=rest).filter(|d| rest % d == 0).collect();
                let pick = random.range(0, divisors.len() as i64 - 1);
                let size = divisors[usize::try_from(pick).expect("a place")];
                to.push(size);
                rest /= size;
                if random.range(0, 3) == 0 {
                    to.push(1);
                }
            }
            instance(&[&own], &shape("f32", &to), "reshape")
        }
        9 => {
            let more = random.range(0, 2);
            let (mut to, mut places) = (Vec::new(), Vec::new());
            let mut left = more;
            for (dim, size) in dims.iter().enumerate() {
                while left > 0 && random.range(0, 1) == 1 {
                    to.push(random.range(1, 3));
                    left -= 1;
                }
                places.push(to.len() as i64);
                to.push(*size);
                if dim + 1 == dims.len() {
                    (0..left).for_each(|_| to.push(2));
                }
            }
            let text = format!("broadcast , dimensions={{{}}}", list(&places));
            instance(&[&own], &shape("f32", &to), &text)
        }
        10 => {
            let order = permutation(random, dims.len());
            let from = format!("{own}{{{}}}", list(&order));
            let to: Vec<i64> = order.iter().rev().map(|d| dims[*d as usize]).collect();
            let minor: Vec<i64> = (0..rank).rev().collect();
            let to = format!("{}{{{}}}", shape("f32", &to), list(&minor));
            instance(&[&from], &to, "bitcast")
        }
        _ => instance(&[&own], &shape("s32", &dims), "bitcast-convert"),
    }
}

fn with_offsets(random: &mut Random, kind: i64) -> Instance {
    let rank = random.range(1, 2);
    let dims = random_sizes(random, rank, 5);
    let slice: Vec<i64> = dims.iter().map(|size| random.range(1, *size)).collect();
    let own = shape("f32", &dims);
    let part = shape("f32", &slice);
    let offsets = vec!["s32[]"; dims.len()];
    match kind {
        0 => {
            let operands = [vec![own.as_str()], offsets].concat();
            let text = format!("dynamic-slice , dynamic_slice_sizes={{{}}}", list(&slice));
            instance(&operands, &part, &text)
        }
        1 => {
            let operands = [vec![own.as_str(), part.as_str()], offsets].concat();
            instance(&operands, &own, "dynamic-update-slice")
        }
        2 | 3 => gather_or_scatter(random, kind == 3),
        _ => batched_gather_or_scatter(random, kind == 5),
    }
}

fn gather_or_scatter(random: &mut Random, scatter: bool) -> Instance {
    let dims = random_sizes(random, 2, 4);
    let count = random.range(1, 3);
    let collapsed = random.range(0, 1) == 1;
    let first = if collapsed {
        1
    } else {
        random.range(1, dims[0])
    };
    let second = random.range(1, dims[1]);
    let components = random.range(1, 2);
    let order = if components == 2 && random.range(0, 1) == 1 {
        "1,0"
    } else {
        "0,1"
    };
    let order = if components == 1 { "0" } else { order };
    let indices = shape("s32", &[count, components]);
    let (window, offset, removed) = if collapsed {
        (vec![count, second], "1", "0")
    } else {
        (vec![count, first, second], "1,2", "")
    };
    let (own, part) = (shape("f32", &dims), shape("f32", &window));
    if scatter {
        let text = format!(
            "scatter , update_window_dims={{{offset}}}, inserted_window_dims={{{removed}}}, scatter_dims_to_operand_dims={{{order}}}, index_vector_dim=1, to_apply=add"
        );
        return instance(&[&own, &indices, &part], &own, &text);
    }
    let text = format!(
        "gather , offset_dims={{{offset}}}, collapsed_slice_dims={{{removed}}}, start_index_map={{{order}}}, index_vector_dim=1, slice_sizes={{{first},{second}}}"
    );
    instance(&[&own, &indices], &part, &text)
}

fn batched_gather_or_scatter(random: &mut Random, scatter: bool) -> Instance {
    let (batch, rows, count) = (random.range(1, 3), random.range(1, 4), random.range(1, 3));
    let columns = random.range(1, 2);
    let own = shape("f32", &[batch, rows, columns]);
    let indices = shape("s32", &[batch, count, 1]);
    let part = shape("f32", &[batch, count, columns]);
    if scatter {
        return instance(
            &[&own, &indices, &part],
            &own,
            "scatter , update_window_dims={2}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, input_batching_dims={0}, scatter_indices_batching_dims={0}, index_vector_dim=2, to_apply=add",
        );
    }
    let text = format!(
        "gather , offset_dims={{2}}, collapsed_slice_dims={{1}}, start_index_map={{1}}, operand_batching_dims={{0}}, start_indices_batching_dims={{0}}, index_vector_dim=2, slice_sizes={{1,1,{columns}}}"
    );
    instance(&[&own, &indices], &part, &text)
}

/// A window along one dimension of `size`: its text parts, and the result's size.
struct Window {
    size: i64,
    stride: i64,
    low: i64,
    high: i64,
    base: i64,
    dilation: i64,
    reversal: i64,
}

impl Window {
    fn random(random: &mut Random, dilated: bool) -> Self {
        let dilate = |random: &mut Random| if dilated { random.range(1, 2) } else { 1 };
        Self {
            size: random.range(1, 3),
            stride: random.range(1, 2),
            low: random.range(0, 1),
            high: random.range(0, 2),
            base: dilate(random),
            dilation: dilate(random),
            reversal: 0,
        }
    }

    fn result(&self, size: i64) -> i64 {
        let whole = (size - 1) * self.base + 1 + self.low + self.high;
        let reach = (self.size - 1) * self.dilation + 1;
        if whole < reach {
            0
        } else {
            (whole - reach) / self.stride + 1
        }
    }
}

fn window_text(windows: &[Window], reversal: bool) -> String {
    let join = |f: &dyn Fn(&Window) -> String| -> String {
        windows.iter().map(f).collect::<Vec<_>>().join("x")
    };
    let mut text = format!(
        "window={{size={} stride={} pad={} lhs_dilate={} rhs_dilate={}",
        join(&|w| w.size.to_string()),
        join(&|w| w.stride.to_string()),
        join(&|w| format!("{}_{}", w.low, w.high)),
        join(&|w| w.base.to_string()),
        join(&|w| w.dilation.to_string()),
    );
    if reversal {
        text += &format!(" rhs_reversal={}", join(&|w| w.reversal.to_string()));
    }
    text + "}"
}

fn contraction(random: &mut Random, kind: i64) -> Instance {
    match kind {
        0 => {
            let [b, m, k, n] = [0; 4].map(|_| random.range(1, 3));
            instance(
                &[&shape("f32", &[b, m, k]), &shape("f32", &[k, b, n])],
                &shape("f32", &[b, m, n]),
                "dot , lhs_batch_dims={0}, rhs_batch_dims={1}, lhs_contracting_dims={2}, rhs_contracting_dims={0}",
            )
        }
        1 => {
            let dims = random_sizes(random, 3, 3);
            let reduced: Vec<i64> = (0..3).filter(|_| random.range(0, 1) == 1).collect();
            let kept: Vec<i64> = (0..3)
                .filter(|d| !reduced.contains(d))
                .map(|d| dims[d as usize])
                .collect();
            let text = format!("reduce , dimensions={{{}}}, to_apply=add", list(&reduced));
            instance(
                &[&shape("f32", &dims), "f32[]"],
                &shape("f32", &kept),
                &text,
            )
        }
        2 => {
            let dims = random_sizes(random, 2, 4);
            let windows = [Window::random(random, true), Window::random(random, true)];
            let to: Vec<i64> = windows
                .iter()
                .zip(&dims)
                .map(|(w, d)| w.result(*d))
                .collect();
            let text = format!(
                "reduce-window , {}, to_apply=add",
                window_text(&windows, false)
            );
            instance(&[&shape("f32", &dims), "f32[]"], &shape("f32", &to), &text)
        }
        _ => convolution(random),
    }
}

fn convolution(random: &mut Random) -> Instance {
    let mut window = Window::random(random, true);
    window.reversal = random.range(0, 1);
    let (features, batches) = match random.range(0, 2) {
        0 => (2, 1),
        1 => (1, 2),
        _ => (1, 1),
    };
    let space = random.range(2, 4);
    let per_group = random.range(1, 2);
    let (batch, channels) = (batches * random.range(1, 2), features * per_group);
    let outputs = features * batches * random.range(1, 2);
    let input = shape("f32", &[batch, space, channels]);
    let kernel = shape("f32", &[window.size, per_group, outputs]);
    let result = shape("f32", &[batch / batches, window.result(space), outputs]);
    let text = format!(
        "convolution , {}, dim_labels=b0f_0io->b0f, feature_group_count={features}, batch_group_count={batches}",
        window_text(&[window], true)
    );
    instance(&[&input, &kernel], &result, &text)
}

fn library(random: &mut Random, kind: i64) -> Instance {
    let [n, m] = [0; 2].map(|_| random.range(2, 3));
    match kind {
        0 => {
            let own = shape("f32", &[n, m]);
            let dim = random.range(0, 1);
            instance(
                &[&own],
                &own,
                &format!("sort , dimensions={{{dim}}}, to_apply=lt"),
            )
        }
        1 => {
            let own = shape("f32", &[n, m]);
            let both = format!("({own}, {own})");
            instance(&[&own, &own], &both, "sort , dimensions={1}, to_apply=lt2")
        }
        2 => {
            let both = format!("({}, {})", shape("f32", &[n, 2]), shape("s32", &[n, 2]));
            instance(&[&shape("f32", &[n, 4])], &both, "topk , k=2, largest=true")
        }
        3 => {
            let own = shape("c64", &[n, 4]);
            instance(&[&own], &own, "fft , fft_type=FFT, fft_length={4}")
        }
        4 => {
            let from = shape("f32", &[n, 4]);
            instance(
                &[&from],
                &shape("c64", &[n, 3]),
                "fft , fft_type=RFFT, fft_length={4}",
            )
        }
        5 => {
            let own = shape("f32", &[n, 3, 3]);
            instance(&[&own], &own, "cholesky , lower=true")
        }
        6 => {
            let (own, right) = (shape("f32", &[n, 3, 3]), shape("f32", &[n, 3, 2]));
            instance(
                &[&own, &right],
                &right,
                "triangular-solve , left_side=true, lower=true, unit_diagonal=false, transpose_a=NO_TRANSPOSE",
            )
        }
        7 => {
            let (own, each) = (shape("f32", &[n, 3, m]), shape("f32", &[m]));
            let all = format!("({own}, {each}, {each})");
            instance(
                &[&own, &each, &each],
                &all,
                "batch-norm-training , epsilon=0.5, feature_index=2",
            )
        }
        8 => {
            let (own, each) = (shape("f32", &[n, m]), shape("f32", &[n]));
            instance(
                &[&own, &each, &each, &each, &each],
                &own,
                "batch-norm-inference , epsilon=0.5, feature_index=0",
            )
        }
        9 => {
            let (own, each) = (shape("f32", &[n, m, 2]), shape("f32", &[m]));
            let all = format!("({own}, {each}, {each})");
            instance(
                &[&own, &each, &each, &each, &own],
                &all,
                "batch-norm-grad , epsilon=0.5, feature_index=1",
            )
        }
        10 => {
            let mut windows = [Window::random(random, false), Window::random(random, false)];
            let dims = [4, 3];
            windows
                .iter_mut()
                .for_each(|w| w.high = w.high.min(w.size - 1));
            windows
                .iter_mut()
                .for_each(|w| w.low = w.low.min(w.size - 1));
            let to: Vec<i64> = windows
                .iter()
                .zip(&dims)
                .map(|(w, d)| w.result(*d))
                .collect();
            let join = |f: &dyn Fn(&Window) -> String| -> String {
                windows.iter().map(f).collect::<Vec<_>>().join("x")
            };
            let text = format!(
                "select-and-scatter , window={{size={} stride={} pad={}}}, select=ge, scatter=add",
                join(&|w| w.size.to_string()),
                join(&|w| w.stride.to_string()),
                join(&|w| format!("{}_{}", w.low, w.high)),
            );
            let own = shape("f32", &dims);
            instance(&[&own, &shape("f32", &to), "f32[]"], &own, &text)
        }
        11 => {
            let own = shape("f32", &[n, m]);
            instance(&[&own, &own], &own, "map , dimensions={0,1}, to_apply=add")
        }
        _ => instance(
            &[&shape("f32", &[n, m])],
            "s32[]",
            "get-dimension-size , dimensions={1}",
        ),
    }
}

fn control(kind: i64) -> Instance {
    let state = "(s32[], f32[2,3], f32[2])";
    match kind {
        0 => instance(&["f32[2,3]", "f32[3,2]"], "f32[2,3]", "call , to_apply=two"),
        1 => instance(
            &["f32[2,3]", "f32[3,2]"],
            "f32[2,3]",
            "fusion , kind=kLoop, calls=two",
        ),
        2 => instance(
            &["pred[]", "f32[2,3]", "f32[2,3]"],
            "f32[3,2]",
            "conditional , true_computation=flip, false_computation=turn",
        ),
        3 => instance(&[state], state, "while , condition=below, body=step"),
        4 => instance(&[state], "f32[2,3]", "get-tuple-element , index=1"),
        _ => instance(&["f32[2,3]", "s32[2]"], "(f32[2,3], s32[2])", "tuple"),
    }
}

/// What has maps that name more than is read; the text of the crate's `ops` module
/// lists the same.
const SUPERSETS: &[(&str, usize)] = &[
    ("cholesky", 0),
    ("conditional", 1),
    ("conditional", 2),
    ("dynamic-update-slice", 0),
    ("pad", 1),
    ("select-and-scatter", 0),
    ("select-and-scatter", 1),
    ("sort", 1),
    ("triangular-solve", 0),
    ("triangular-solve", 1),
    ("while", 0),
];

#[test]
fn maps_name_what_results_depend_on() {
    let mut supersets = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut run = |instance: &Instance, random: &mut Random| {
        let case = Case::new(instance);
        if !matches!(case.module[case.root].op, Op::Parameter(_)) {
            seen.insert(case.module[case.root].op.opcode().name());
        }
        supersets.extend(check(instance, random));
    };
    for case in 0..cases(600).min(20_000) {
        let mut random = Random(case ^ 0x5eed);
        let drawn = match case % 4 {
            0 => movement(&mut random, (case as i64 / 4) % 12),
            1 => with_offsets(&mut random, (case as i64 / 4) % 6),
            2 => contraction(&mut random, (case as i64 / 4) % 4),
            _ => library(&mut random, (case as i64 / 4) % 13),
        };
        run(&drawn, &mut random);
    }
    for kind in 0..6 {
        run(&control(kind), &mut Random(kind as u64));
    }
    let expected: BTreeSet<_> = SUPERSETS.iter().copied().collect();
    assert_eq!(supersets, expected);
    assert!(seen.len() >= 37, "{seen:?}");
}
