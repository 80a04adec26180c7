//! Kernels of rows: that they are made, mean what the program means, and are one.

use tegula_fusion::Limits;
use tegula_fusion::kernel::{Access, Statement};
use tegula_ir::{ArrayShape, ElementType, Literal, Module};
use tegula_plan::Plan;
use tegula_plan::Step;
use tegula_tests::judge::Reference;
use tegula_tests::random::{Regime, random_program};

/// Whatever can be a kernel of rows is one.
const ALL: Limits = Limits {
    row_bytes: 64 << 10,
    min_columns: 2,
    shallow: 0,
    lanes: false,
    short: 0,
    spread_updates: false,
};

const COMBINERS: &str = "
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
";

const SOFTMAX: &str = "
  low = f32[] constant(-inf) zero = f32[] constant(0)
  m = f32[6,37] reduce(x, low), dimensions={2}, to_apply=max
  mb = f32[6,37,50] broadcast(m), dimensions={0,1}
  d = f32[6,37,50] subtract(x, mb) e = f32[6,37,50] exponential(d)
  s = f32[6,37] reduce(e, zero), dimensions={2}, to_apply=add
  sb = f32[6,37,50] broadcast(s), dimensions={0,1}
  q = f32[6,37,50] divide(e, sb)";

fn module(entry: &str) -> Module {
    let text = format!("HloModule rows\n{COMBINERS}\nENTRY main {{\n{entry}\n}}\n");
    tegula_tests::read(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn plan(module: &Module, limits: Limits) -> Plan {
    let options = tegula::PlanOptions {
        limits,
        ..tegula::PlanOptions::default()
    };
    tegula::plan_for(module, &options).expect("it plans").plan
}

fn kernels(plan: &Plan) -> usize {
    let is_kernel = |s: &&Step| matches!(s, Step::Kernel { .. });
    plan.steps.iter().filter(is_kernel).count()
}

fn locals(plan: &Plan) -> usize {
    let params = plan.kernels.values().flat_map(|k| &k.params);
    params.filter(|p| p.access == Access::Local).count()
}

/// Numbers between -2 and 2, no two rows alike.
fn numbers(dims: &[i64]) -> Literal {
    let shape = ArrayShape::new(ElementType::F32, dims);
    let count: i64 = dims.iter().product();
    let bytes: Vec<u8> = (0..count)
        .flat_map(|i| (((i * 2_654_435_761) >> 7 & 1023) as f32 / 256.0 - 2.0).to_ne_bytes())
        .collect();
    Literal::from_bytes(&shape, &bytes).expect("a literal")
}

/// Compares a program in kernels of rows with its meaning.
fn check(module: &Module, inputs: &[Literal]) -> Plan {
    let reference = Reference::new(module, inputs, Regime::General).expect("it has a meaning");
    let rows = plan(module, ALL);
    if let Err(error) = reference.judge_plan(&rows, inputs) {
        panic!("{error}\n{rows}");
    }
    rows
}

#[test]
fn a_softmax_is_one_kernel() {
    let module = module(&format!(
        "x = f32[6,37,50] parameter(0) {SOFTMAX}
        ROOT r = f32[6,37,50] copy(q)"
    ));
    let rows = check(&module, &[numbers(&[6, 37, 50])]);
    assert_eq!((kernels(&rows), locals(&rows)), (1, 1), "{rows}");
    assert!(rows.arena_bytes.as_constant() == Some(0), "{rows}");
    // The maximum; exponentials and their sum; the quotient.
    let kernel = rows.kernels.values().next().expect("a kernel");
    let loops = kernel.body.statements.iter().filter(|s| s.is_loop());
    assert_eq!(loops.count(), 3, "{rows}");
}

#[test]
fn what_else_is_read_goes_to_memory_too() {
    let module = module(&format!(
        "x = f32[6,37,50] parameter(0) {SOFTMAX}
        t = f32[50,37,6] transpose(e), dimensions={{2,1,0}}
        ROOT r = (f32[6,37,50], f32[50,37,6], f32[6,37], f32[6,37,50]) tuple(q, t, s, e)"
    ));
    let rows = check(&module, &[numbers(&[6, 37, 50])]);
    assert_eq!(kernels(&rows), 2, "{rows}");
}

#[test]
fn a_layer_norm_is_one_kernel_of_three_passes() {
    let module = module(
        "
        x = f32[40,96] parameter(0) g = f32[96] parameter(1)
        zero = f32[] constant(0) n0 = f32[] constant(96) n = f32[40] broadcast(n0), dimensions={}
        e0 = f32[] constant(1e-5) eb = f32[40] broadcast(e0), dimensions={}
        s = f32[40] reduce(x, zero), dimensions={1}, to_apply=add
        mean = f32[40] divide(s, n) mb = f32[40,96] broadcast(mean), dimensions={0}
        c = f32[40,96] subtract(x, mb) c2 = f32[40,96] multiply(c, c)
        v = f32[40] reduce(c2, zero), dimensions={1}, to_apply=add
        var = f32[40] divide(v, n) ve = f32[40] add(var, eb) rs = f32[40] rsqrt(ve)
        rb = f32[40,96] broadcast(rs), dimensions={0} gb = f32[40,96] broadcast(g), dimensions={1}
        y = f32[40,96] multiply(c, rb) ROOT z = f32[40,96] multiply(y, gb)",
    );
    let rows = check(&module, &[numbers(&[40, 96]), numbers(&[96])]);
    assert_eq!((kernels(&rows), locals(&rows)), (1, 0), "{rows}");
    let kernel = rows.kernels.values().next().expect("a kernel");
    let loops = kernel.body.statements.iter().filter(|s| s.is_loop());
    assert_eq!(loops.count(), 3, "{rows}");
}

#[test]
fn reductions_of_one_row_share_a_pass() {
    let module = module(
        "
        x = f32[33,80] parameter(0) zero = f32[] constant(0) low = f32[] constant(-inf)
        q = f32[33,80] multiply(x, x)
        s = f32[33] reduce(x, zero), dimensions={1}, to_apply=add
        t = f32[33] reduce(q, zero), dimensions={1}, to_apply=add
        m = f32[33] reduce(x, low), dimensions={1}, to_apply=max
        st = f32[33] divide(s, t)
        ROOT r = f32[33] add(st, m)",
    );
    let rows = check(&module, &[numbers(&[33, 80])]);
    let kernel = rows.kernels.values().next().expect("a kernel");
    assert_eq!(kernels(&rows), 1, "{rows}");
    let loads = |s: &Statement| match s {
        Statement::Loop { body, .. } => body.statements.iter().filter(|s| s.is_load()).count(),
        _ => 0,
    };
    let loads: Vec<usize> = kernel.body.statements.iter().map(loads).collect();
    assert_eq!(loads.iter().sum::<usize>(), 1, "{rows}");
}

/// What lies between two members but outside keeps them apart, as does an element of
/// another row.
#[test]
fn rows_that_need_others_stay_apart() {
    let module = module(
        "
        x = f32[24,24] parameter(0) zero = f32[] constant(0)
        s = f32[24] reduce(x, zero), dimensions={1}, to_apply=add
        b = f32[24] reverse(s), dimensions={0}
        bb = f32[24,24] broadcast(b), dimensions={0}
        y = f32[24,24] divide(x, bb)
        d = f32[24,24] dot(y, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        ds = f32[24,24] multiply(d, y)
        ROOT t = f32[24] reduce(ds, zero), dimensions={1}, to_apply=add",
    );
    let rows = check(&module, &[numbers(&[24, 24])]);
    assert!(kernels(&rows) > 1, "{rows}");
}

#[test]
fn short_rows_stay_apart() {
    let of = |columns: i64| {
        let softmax = SOFTMAX.replace("6,37,50", &format!("6,37,{columns}"));
        module(&format!(
            "x = f32[6,37,{columns}] parameter(0) {softmax}
            ROOT r = f32[6,37,{columns}] copy(q)"
        ))
    };
    let shortest = Limits::default().min_columns;
    assert_eq!(kernels(&plan(&of(shortest), Limits::default())), 1);
    assert!(kernels(&plan(&of(shortest - 1), Limits::default())) > 1);
    assert!(kernels(&plan(&of(50), Limits::NO_ROWS)) > 1);
}

#[test]
fn a_plan_with_rows_reads_back() {
    let module = module(&format!(
        "x = f32[6,37,50] parameter(0) {SOFTMAX}
        ROOT r = f32[6,37,50] copy(q)"
    ));
    let rows = plan(&module, ALL);
    let text = rows.to_string();
    let read = tegula_plan::parse_plan(&text).expect("it reads back");
    assert_eq!(read.to_string(), text);
}

/// What is computed of rows' sums by functions, and used by no row, has lanes of its own; a
/// logarithm that rows go on with stays.
#[test]
fn functions_of_what_rows_came_to_are_left_behind() {
    let sums = "x = f32[70,50] parameter(0) places = s32[70] parameter(1)
        low = f32[] constant(-inf) zero = f32[] constant(0)
        m = f32[70] reduce(x, low), dimensions={1}, to_apply=max
        mb = f32[70,50] broadcast(m), dimensions={0}
        d = f32[70,50] subtract(x, mb) e = f32[70,50] exponential(d)
        s = f32[70] reduce(e, zero), dimensions={1}, to_apply=add
        l = f32[70] log(s) lb = f32[70,50] broadcast(l), dimensions={0}
        q = f32[70,50] subtract(d, lb)";
    let chosen = "p = s32[70,1] reshape(places)
        g = f32[70] gather(q, p), offset_dims={}, collapsed_slice_dims={1}, \
        start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, \
        index_vector_dim=1, slice_sizes={1,1}
        t = f32[70] exponential(g)
        sb = f32[70,50] broadcast(s), dimensions={0} o = f32[70,50] divide(e, sb)
        ROOT r = (f32[70,50], f32[70]) tuple(o, t)";
    let on = "ROOT r = (f32[70,50], s32[70]) tuple(q, places)";
    let shape = ArrayShape::new(ElementType::S32, &[70]);
    let place = |i: i64| tegula_ir::Scalar::Int(i * 11 % 54 - 2).convert(ElementType::S32);
    let places = Literal::from_scalars(&shape, (0..70).map(place)).expect("small");
    for (end, limits, wanted) in [
        (chosen, Limits::default(), 2),
        (chosen, ALL, 1),
        (on, Limits::default(), 1),
    ] {
        let module = module(&format!("{sums} {end}"));
        let inputs = [numbers(&[70, 50]), places.clone()];
        let reference = Reference::new(&module, &inputs, Regime::General).expect("a meaning");
        let rows = plan(&module, limits);
        if let Err(error) = reference.judge_plan(&rows, &inputs) {
            panic!("{error}\n{rows}");
        }
        assert_eq!(kernels(&rows), wanted, "{rows}");
    }
}

/// Random programs, with kernels of rows wherever there can be one.
#[test]
fn random_programs_in_rows_mean_what_they_mean() {
    let count = std::env::var("TEGULA_SWEEP").ok();
    let count: u64 = count.and_then(|n| n.parse().ok()).unwrap_or(250);
    let (mut made, mut failures) = (0, Vec::new());
    for seed in 0..count {
        for regime in [Regime::Dyadic, Regime::General] {
            let program = random_program(seed, regime);
            let module = tegula_tests::read(&program.text).expect("it reads");
            let Ok(reference) = Reference::new(&module, &program.inputs, regime) else {
                continue;
            };
            let (rows, apart) = (plan(&module, ALL), plan(&module, Limits::NO_ROWS));
            if rows.kernels.len() == apart.kernels.len() && locals(&rows) == 0 {
                continue;
            }
            made += 1;
            if let Err(error) = reference.judge_plan(&rows, &program.inputs) {
                failures.push(format!("seed {seed}, {regime:?}: {error}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    println!("{made} programs have kernels of rows");
    assert!(made > 0 || count < 100);
}
