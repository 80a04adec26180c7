//! Tests that programs with random orders of dimensions compute the same to the bit as in row-major
//! order: on the Plan evaluator, against the reference evaluator.

use tegula_fusion::Limits;
use tegula_interp::Value;
use tegula_ir::{ArrayShape, ElementType, Literal, Module};
use tegula_layout::apply_layouts::{apply_layouts, drawn, inverse, permuted, row_major};
use tegula_layout::assign::{Machine, dense_orders};

/// The number of random orders for each program.
const DRAWS: u64 = 60;

fn read(text: &str) -> Module {
    let mut module = tegula_ir::parse_module(text).expect("it reads");
    tegula_ir::verify(&module).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    if !module.symbols.is_empty() {
        tegula_ir::infer_symbolic_dims(&mut module, &[]).expect("sizes");
    }
    module
}

/// Small whole numbers, so that sums do not depend on their order.
fn input(shape: &ArrayShape, seed: usize) -> Literal {
    let shape = shape.representative();
    let mut literal = Literal::zeros(&shape).expect("it is small");
    let count = literal.len();
    let numbers = (0..count).map(|i| ((i * 7 + i / 5 + seed * 3) % 11) as i32 - 4);
    let width = shape.element_type.storage_bytes();
    for (number, bytes) in numbers.zip(literal.bytes_mut().chunks_exact_mut(width)) {
        match shape.element_type {
            ElementType::F32 => bytes.copy_from_slice(&(number as f32).to_ne_bytes()),
            ElementType::S32 => bytes.copy_from_slice(&number.to_ne_bytes()),
            ElementType::Pred => bytes[0] = u8::from(number > 0),
            other => panic!("{other:?}"),
        }
    }
    literal
}

fn check(text: &str) {
    let module = read(text);
    let entry = module.entry_computation();
    let shapes = entry
        .parameters
        .iter()
        .map(|&p| module[p].shape.as_array().expect("an array"));
    let inputs: Vec<Literal> = shapes
        .enumerate()
        .map(|(i, shape)| input(shape, i))
        .collect();
    let arguments: Vec<Value> = inputs.iter().cloned().map(Value::Array).collect();
    let expected = tegula_interp::evaluate(&module, &arguments).expect("it evaluates");
    let expected: Vec<Literal> = expected.leaves().into_iter().cloned().collect();
    for draw in 0..DRAWS {
        let expanded = tegula_fusion::expand(&module).expect("it expands");
        let program = tegula_fusion::flatten(
            &expanded,
            tegula_fusion::ShortLoops::Kept,
            &mut tegula_ir::PassManager::new(),
        )
        .expect("it flattens");
        let orders = drawn(&program, draw);
        let parameters = program.parameters.iter().map(|value| {
            let rank = program.values[*value].shape.rank();
            orders
                .values
                .get(value)
                .cloned()
                .unwrap_or_else(|| row_major(rank))
        });
        let given = inputs.iter().zip(parameters);
        let given: Vec<Literal> = given
            .map(|(literal, order)| permuted(literal, &order).expect("an order"))
            .collect();
        let (module, program) =
            apply_layouts(expanded, program, &orders).expect("it is normalised");
        let fused = tegula_fusion::fuse(
            &module,
            program,
            Limits::default(),
            &mut tegula_ir::PassManager::new(),
        );
        let fused = fused.unwrap_or_else(|e| panic!("draw {draw}: {e}\n{text}"));
        let plan = tegula_plan::plan(&module, &fused, None, &mut tegula_ir::PassManager::new())
            .expect("it plans");
        tegula_plan::verify(&plan).unwrap_or_else(|e| panic!("draw {draw}: {e:?}\n{text}"));
        let results = tegula_plan_interp::evaluate(&plan, &given);
        let results = results.unwrap_or_else(|e| panic!("draw {draw}: {e}\n{text}"));
        assert_eq!(results.len(), expected.len());
        for ((result, expected), order) in results.iter().zip(&expected).zip(&orders.results) {
            let result = permuted(result, &inverse(order)).expect("an order");
            assert_eq!(result.shape(), expected.shape(), "draw {draw}\n{text}");
            assert!(
                result == *expected,
                "draw {draw}: {orders:?}\n{text}\n{plan}"
            );
        }
    }
}

const ADD: &str = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }
ge { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=GE }
best { v = f32[] parameter(0) i = s32[] parameter(1) w = f32[] parameter(2) j = s32[] parameter(3)
  c = pred[] compare(v, w), direction=GE
  x = f32[] select(c, v, w) y = s32[] select(c, i, j) ROOT t = (f32[], s32[]) tuple(x, y) }
lt { a = f32[] parameter(0) b = f32[] parameter(1) c = s32[] parameter(2) d = s32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=LT }
twice { a = f32[] parameter(0) ROOT r = f32[] add(a, a) }
";

/// A program of these entry lines, on `x` and `y`.
fn of(lines: &str) {
    check(&format!(
        "HloModule m\n{ADD}\nENTRY main {{\n x = f32[3,4,5] parameter(0)\n y = f32[4,6] parameter(1)\n \
         zero = f32[] constant(0)\n {lines}\n}}"
    ));
}

#[test]
fn elementwise_and_moves() {
    of("e = f32[3,4,5] exponential(x) b = f32[3,4,5] broadcast(zero), dimensions={}
        p = pred[3,4,5] compare(x, b), direction=GT s = f32[3,4,5] select(p, x, b)
        m = f32[3,4,5] map(s), dimensions={0,1,2}, to_apply=twice
        c = s32[3,4,5] convert(m) k = f32[3,4,5] bitcast-convert(c)
        l = f32[3,4,5] clamp(zero, x, s) ROOT t = (f32[3,4,5], s32[3,4,5], f32[3,4,5], f32[3,4,5]) tuple(e, c, k, l)");
    of(
        "b = f32[2,4,7,6] broadcast(y), dimensions={1,3} i = f32[2,4,7,6] iota(), iota_dimension=2
        s = f32[2,4,7,6] add(b, i) t = f32[7,6,2,4] transpose(s), dimensions={2,3,0,1}
        ROOT r = f32[7,6,2,4] reverse(t), dimensions={0,3}",
    );
    of("s = f32[2,2,2] slice(x), slice={[1:3],[0:4:2],[2:4]} p = f32[5,3,6] pad(s, zero), padding=1_2_0x-1_0_2x0_3_1
        q = f32[5,3,6] add(p, p) c = f32[5,6,6] concatenate(p, q), dimensions={1}
        ROOT t = (f32[5,6,6], f32[5,3,6]) tuple(c, p)");
    of(
        "r = f32[12,5] reshape(x) a = f32[12,5] add(r, r) q = f32[2,6,5,1] reshape(a)
        t = f32[5,1,6,2] transpose(q), dimensions={2,3,1,0} ROOT u = f32[30,2] reshape(t)",
    );
    of(
        "c = f32[2,3] constant({{1,2,3},{4,5,6}}) t = f32[3,2] transpose(c), dimensions={1,0}
        b = f32[3,2,4] broadcast(t), dimensions={0,1} ROOT a = f32[3,2,4] add(b, b)",
    );
}

#[test]
fn reductions_and_windows() {
    of("r = f32[4] reduce(x, zero), dimensions={0,2}, to_apply=add
        s = f32[3,5] reduce(x, zero), dimensions={1}, to_apply=max
        ROOT t = (f32[4], f32[3,5]) tuple(r, s)");
    of(
        "i = s32[3,4,5] iota(), iota_dimension=2 none = s32[] constant(-1)
        b = (f32[4], s32[4]) reduce(x, i, zero, none), dimensions={0,2}, to_apply=best
        v = f32[4] get-tuple-element(b), index=0 j = s32[4] get-tuple-element(b), index=1
        c = (f32[3,4], s32[3,4]) reduce(x, i, zero, none), dimensions={2}, to_apply=best
        k = s32[3,4] get-tuple-element(c), index=1
        ROOT t = (f32[4], s32[4], s32[3,4]) tuple(v, j, k)",
    );
    of("w = f32[3,3,3] reduce-window(x, zero), window={size=1x2x3 stride=1x1x1}, to_apply=max
        n = f32[3,4,5] reduce-window(x, zero), window={size=1x4x1 pad=0_0x3_0x0_0}, to_apply=add
        g = f32[3,4,5] select-and-scatter(x, w, zero), window={size=1x2x3 stride=1x1x1}, select=ge, scatter=add
        ROOT t = (f32[3,3,3], f32[3,4,5], f32[3,4,5]) tuple(w, n, g)");
    of("i = s32[3,4,5] iota(), iota_dimension=1
        s = (f32[3,4,5], s32[3,4,5]) sort(x, i), dimensions={1}, is_stable=true, to_apply=lt
        a = f32[3,4,5] get-tuple-element(s), index=0 b = s32[3,4,5] get-tuple-element(s), index=1
        ROOT t = (f32[3,4,5], s32[3,4,5]) tuple(a, b)");
}

#[test]
fn products() {
    of(
        "d = f32[3,5,6] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        ROOT t = f32[6,3,5] transpose(d), dimensions={2,0,1}",
    );
    of("a = f32[3,4,5] add(x, x) d = f32[4,3,3] dot(x, a), lhs_batch_dims={1}, rhs_batch_dims={1}, lhs_contracting_dims={2}, rhs_contracting_dims={2}
        n = f32[4,3,3] negate(d) ROOT e = f32[3,3] dot(n, d), lhs_contracting_dims={0,1}, rhs_contracting_dims={0,2}");
    of(
        "i = s32[4,3] iota(), iota_dimension=0 j = s32[3,4] transpose(i), dimensions={1,0}
        ROOT d = s32[4,4] dot(i, j), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    );
    check("HloModule m\nENTRY main { x = f32[2,3,6,7] parameter(0) k = f32[4,3,3,2] parameter(1)
        c = f32[2,4,4,6] convolution(x, k), window={size=3x2}, dim_labels=bf01_oi01->bf01
        d = f32[2,4,6,7] convolution(x, k), window={size=3x2 pad=1_1x0_1}, dim_labels=bf01_oi01->bf01
        ROOT t = (f32[2,4,4,6], f32[2,4,6,7]) tuple(c, d) }");
}

#[test]
fn slices_at_indices() {
    of("a = s32[] constant(1) b = s32[] constant(2) c = s32[] constant(9)
        d = f32[2,3,1] dynamic-slice(x, a, b, c), dynamic_slice_sizes={2,3,1}
        u = f32[3,4,5] dynamic-update-slice(x, d, c, a, b) ROOT t = (f32[2,3,1], f32[3,4,5]) tuple(d, u)");
    of("i = s32[2,3] constant({{0,1,2},{3,1,0}})
        g = f32[2,3,3,5] gather(x, i), offset_dims={2,3}, collapsed_slice_dims={1}, start_index_map={1}, index_vector_dim=2, slice_sizes={3,1,5}
        h = f32[2,3,2] gather(x, i), offset_dims={1,2}, collapsed_slice_dims={0}, start_index_map={2,0,1}, index_vector_dim=1, slice_sizes={1,3,2}
        ROOT t = (f32[2,3,3,5], f32[2,3,2]) tuple(g, h)");
    of("i = s32[4,2] constant({{0,1},{2,3},{1,1},{4,0}})
        g = f32[4,2,3] gather(x, i), offset_dims={2}, collapsed_slice_dims={2}, start_index_map={2}, operand_batching_dims={1}, start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={3,1,1}
        s = f32[3,4,5] scatter(x, i, g), update_window_dims={2}, inserted_window_dims={2}, scatter_dims_to_operand_dims={2}, input_batching_dims={1}, scatter_indices_batching_dims={0}, index_vector_dim=2, to_apply=add
        ROOT t = (f32[4,2,3], f32[3,4,5]) tuple(g, s)");
    of("i = s32[2,2] constant({{0,1},{2,3}}) u = f32[3,2,2] slice(x), slice={[0:3],[0:2],[0:2]}
        s = f32[3,4,5] scatter(x, i, u), update_window_dims={0,2}, inserted_window_dims={1}, scatter_dims_to_operand_dims={2,1}, index_vector_dim=1, to_apply=add
        ROOT n = f32[3,4,5] negate(s)");
}

#[test]
fn whole_arrays() {
    of("f = c64[3,4,3] fft(x), fft_type=RFFT, fft_length={5} r = f32[3,4,3] real(f) z = f32[3,4,3] multiply(r, r)
        k = (f32[3,4,2], s32[3,4,2]) topk(x), k=2, largest=true j = s32[3,4,2] get-tuple-element(k), index=1
        ROOT t = (s32[3,4,2], s32[3,4,2]) tuple(j, j)");
}

#[test]
fn loops_and_branches() {
    check(&format!("HloModule m\n{ADD}
        body {{ s = (s32[], f32[3,4], f32[4,3], f32[3,4]) parameter(0)
          i = s32[] get-tuple-element(s), index=0 a = f32[3,4] get-tuple-element(s), index=1
          b = f32[4,3] get-tuple-element(s), index=2 w = f32[3,4] get-tuple-element(s), index=3
          one = s32[] constant(1) n = s32[] add(i, one)
          t = f32[4,3] transpose(a), dimensions={{1,0}} c = f32[4,3] add(t, b) v = f32[4,3] transpose(w), dimensions={{1,0}}
          d = f32[4,3] subtract(c, v) e = f32[3,4] transpose(b), dimensions={{1,0}}
          ROOT r = (s32[], f32[3,4], f32[4,3], f32[3,4]) tuple(n, e, d, w) }}
        cond {{ s = (s32[], f32[3,4], f32[4,3], f32[3,4]) parameter(0) i = s32[] get-tuple-element(s), index=0
          a = f32[3,4] get-tuple-element(s), index=1 big = f32[] constant(1000) zero = f32[] constant(0)
          m = f32[] reduce(a, zero), dimensions={{0,1}}, to_apply=max fine = pred[] compare(m, big), direction=LT
          three = s32[] constant(3) less = pred[] compare(i, three), direction=LT ROOT g = pred[] and(less, fine) }}
        left {{ p = (f32[3,4], f32[4,3]) parameter(0) a = f32[3,4] get-tuple-element(p), index=0 b = f32[4,3] get-tuple-element(p), index=1
          t = f32[3,4] transpose(b), dimensions={{1,0}} ROOT r = f32[3,4] add(a, t) }}
        right {{ p = (f32[3,4], f32[4,3]) parameter(0) a = f32[3,4] get-tuple-element(p), index=0 ROOT r = f32[3,4] negate(a) }}
        ENTRY main {{ x = f32[3,4] parameter(0) y = f32[4,3] parameter(1) q = pred[] parameter(2)
          zero = s32[] constant(0) init = (s32[], f32[3,4], f32[4,3], f32[3,4]) tuple(zero, x, y, x)
          l = (s32[], f32[3,4], f32[4,3], f32[3,4]) while(init), condition=cond, body=body
          a = f32[3,4] get-tuple-element(l), index=1 b = f32[4,3] get-tuple-element(l), index=2
          args = (f32[3,4], f32[4,3]) tuple(a, y)
          c = f32[3,4] conditional(q, args, args), true_computation=left, false_computation=right
          ROOT t = (f32[3,4], f32[4,3], f32[3,4]) tuple(a, b, c) }}"));
}

#[test]
fn open_sizes_and_aliases() {
    check(&format!(
        "HloModule m\n{ADD}
        ENTRY main {{ x = f32[?,4] parameter(0) y = f32[4,?] parameter(1)
          t = f32[?,4] transpose(y), dimensions={{1,0}} s = f32[?,4] add(x, t)
          zero = f32[] constant(0) r = f32[?] reduce(s, zero), dimensions={{1}}, to_apply=add
          d = f32[?,?] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
          ROOT u = (f32[?,4], f32[?], f32[?,?]) tuple(s, r, d) }}"
    ));
    check("HloModule m, input_output_alias={ {0}: (0, {}), {1}: (1, {}) }
        ENTRY main { x = f32[3,4] parameter(0) y = f32[3,4] parameter(1)
          a = f32[3,4] add(x, y) b = f32[3,4] subtract(x, y) ROOT t = (f32[3,4], f32[3,4]) tuple(a, b) }");
}

#[test]
fn a_transposition_that_no_iteration_changes_is_made_before_the_loop() {
    let text = "HloModule m
        body { s = (s32[], f32[6,5], f32[5,6]) parameter(0) i = s32[] get-tuple-element(s), index=0
          a = f32[6,5] get-tuple-element(s), index=1 w = f32[5,6] get-tuple-element(s), index=2
          one = s32[] constant(1) n = s32[] add(i, one) t = f32[6,5] transpose(w), dimensions={1,0}
          m = f32[6,5] negate(t) c = f32[6,5] add(a, m)
          ROOT r = (s32[], f32[6,5], f32[5,6]) tuple(n, c, w) }
        cond { s = (s32[], f32[6,5], f32[5,6]) parameter(0) i = s32[] get-tuple-element(s), index=0
          three = s32[] constant(3) ROOT l = pred[] compare(i, three), direction=LT }
        ENTRY main { x = f32[6,5] parameter(0) y = f32[5,6] parameter(1) zero = s32[] constant(0)
          init = (s32[], f32[6,5], f32[5,6]) tuple(zero, x, y)
          l = (s32[], f32[6,5], f32[5,6]) while(init), condition=cond, body=body
          ROOT r = f32[6,5] get-tuple-element(l), index=1 }";
    check(text);
    let module = read(text);
    let program = tegula_fusion::flatten(
        &module,
        tegula_fusion::ShortLoops::Kept,
        &mut tegula_ir::PassManager::new(),
    )
    .expect("it flattens");
    let ordered = dense_orders(&module, program, &Machine::cpu(), false);
    let module = std::borrow::Cow::Borrowed(&module);
    let normalised = apply_layouts(module, ordered.program, &ordered.orders);
    let (module, program) = normalised.expect("it is normalised");
    let is_transposition = |id: &tegula_fusion::NodeId| {
        let origin = program.nodes[*id].origin;
        matches!(module[origin].op, tegula_ir::Op::Transpose(_))
    };
    assert_eq!(
        program
            .entry
            .nodes
            .iter()
            .filter(|id| is_transposition(id))
            .count(),
        1
    );
    assert_eq!(program.nodes.keys().filter(is_transposition).count(), 1);
}
