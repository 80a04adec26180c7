//! Loops and conditionals whose arrays are in VMEM: they compute the evaluator's values without a
//! finding, and do not access HBM while they run.

use crate::common::agrees;
use tegula_ir::{ElementType, Literal, Module, parse_module};
use tegula_layout::assign::{Machine, assign};

use tegula_codegen_tpu::lower;
use tegula_sim_tpu::program::{Slice, Space, Statement, StatementKind, TpuProgram};
use tegula_target::Chip;

/// Values of small numbers for every parameter.
fn inputs(module: &Module) -> Vec<Literal> {
    let parameters = module.entry_computation().parameters.iter();
    let of = |(number, id): (usize, &tegula_ir::InstructionId)| {
        let shape = module[*id].shape.as_array().unwrap();
        let count = shape.element_count().unwrap();
        let small = |at: i64| (at * 7 + number as i64 * 3) % 5;
        let bytes: Vec<u8> = match shape.element_type {
            ElementType::F32 => (0..count)
                .flat_map(|at| (small(at) as f32 * 0.5).to_le_bytes())
                .collect(),
            ElementType::S32 => (0..count)
                .flat_map(|at| (small(at) as i32).to_le_bytes())
                .collect(),
            _ => vec![1; count as usize],
        };
        Literal::from_bytes(shape, &bytes).unwrap()
    };
    parameters.enumerate().map(of).collect()
}

/// Runs a program with the given VMEM, by default the chip's, and checks that its results are the
/// evaluator's. Returns the schedule.
fn check(text: &str, vmem_bytes: Option<i64>) -> tegula_tpu_schedule::Schedule {
    let chip = Chip::by_name("v5e").unwrap();
    let module = parse_module(text).unwrap();
    let assignment = assign(
        &module,
        &Machine::tpu(&chip).unwrap(),
        &|_| false,
        &mut tegula_ir::PassManager::new(),
    )
    .unwrap();
    let options = tegula_tpu_schedule::Options {
        vmem_bytes,
        ..tegula_tpu_schedule::Options::default()
    };
    let options = tegula_tpu_schedule::Options {
        scoped_bytes: vmem_bytes.map_or(options.scoped_bytes, |bytes| bytes / 4),
        ..options
    };
    let schedule = tegula_tpu_schedule::schedule(&module, &assignment, &chip, &options);
    tegula_tpu_schedule::verify(&schedule, &assignment.program).unwrap();
    let lowered = lower(&module, &assignment, &schedule, &chip).unwrap();
    agrees(&module, &lowered, &inputs(&module), &chip);
    schedule
}

/// A counting loop with states that are exchanged, one that becomes a constant, a nested loop that
/// takes over a state, and an array from outside the loop.
fn nested(trips: i64) -> String {
    format!(
        "HloModule nested

inner_condition {{
  s = (s32[], f32[128,256]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT lt = pred[] compare(i, n), direction=LT
}}

inner_body {{
  s = (s32[], f32[128,256]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  h = f32[128,256] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  r = f32[128,256] reverse(h), dimensions={{1}}
  ROOT out = (s32[], f32[128,256]) tuple(j, r)
}}

condition {{
  s = (s32[], f32[128,256], f32[128,256], f32[128,256], f32[128,256], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({trips})
  ROOT lt = pred[] compare(i, n), direction=LT
}}

body {{
  s = (s32[], f32[128,256], f32[128,256], f32[128,256], f32[128,256], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  h = f32[128,256] get-tuple-element(s), index=1
  a = f32[128,256] get-tuple-element(s), index=2
  b = f32[128,256] get-tuple-element(s), index=3
  w = f32[128,256] get-tuple-element(s), index=4
  one = s32[] constant(1)
  j = s32[] add(i, one)
  p = f32[128,256] add(h, w)
  zero = s32[] constant(0)
  begin = (s32[], f32[128,256]) tuple(zero, p)
  inner = (s32[], f32[128,256]) while(begin), condition=inner_condition, body=inner_body
  g = f32[128,256] get-tuple-element(inner), index=1
  c = f32[8] constant({{2, 2, 2, 2, 2, 2, 2, 2}})
  ROOT out = (s32[], f32[128,256], f32[128,256], f32[128,256], f32[128,256], f32[8]) tuple(j, g, b, a, w, c)
}}

ENTRY main {{
  x = f32[128,256] parameter(0)
  w = f32[128,256] parameter(1)
  y = f32[128,256] parameter(2)
  k = f32[8] parameter(3)
  zero = s32[] constant(0)
  e = f32[128,256] negate(y)
  begin = (s32[], f32[128,256], f32[128,256], f32[128,256], f32[128,256], f32[8]) tuple(zero, x, e, y, w, k)
  loop = (s32[], f32[128,256], f32[128,256], f32[128,256], f32[128,256], f32[8]) while(begin), condition=condition, body=body
  h = f32[128,256] get-tuple-element(loop), index=1
  a = f32[128,256] get-tuple-element(loop), index=2
  b = f32[128,256] get-tuple-element(loop), index=3
  c = f32[8] get-tuple-element(loop), index=5
  d = f32[128,256] subtract(a, b)
  ROOT out = (f32[128,256], f32[128,256], f32[8]) tuple(h, d, c)
}}
"
    )
}

#[test]
fn nested_loops_compute_the_same() {
    for trips in [0, 1, 2, 7] {
        check(&nested(trips), None);
        for kibibytes in [256, 512, 640, 1024] {
            check(&nested(trips), Some(kibibytes << 10));
        }
    }
}

/// Counts the copies of arrays from or to HBM outside and inside loops.
fn copies(program: &TpuProgram, statements: &[Statement], inside: bool, found: &mut [usize; 2]) {
    for statement in statements {
        match &statement.kind {
            StatementKind::Start {
                source,
                destination,
                ..
            } => {
                let is_hbm = |slice: &Slice| {
                    let buffer = &program.buffers[slice.buffer];
                    buffer.space == Space::Hbm && buffer.shape.element_count() > Some(8)
                };
                found[usize::from(inside)] += usize::from(is_hbm(source) || is_hbm(destination));
            }
            StatementKind::While {
                condition, body, ..
            } => {
                copies(program, condition, true, found);
                copies(program, body, true, found);
            }
            StatementKind::If {
                then, otherwise, ..
            } => {
                copies(program, then, inside, found);
                copies(program, otherwise, inside, found);
            }
            _ => {}
        }
    }
}

/// An iteration copies no array from or to HBM.
#[test]
fn iterations_leave_hbm_alone() {
    let chip = Chip::by_name("v5e").unwrap();
    let module = parse_module(&nested(7)).unwrap();
    let assignment = assign(
        &module,
        &Machine::tpu(&chip).unwrap(),
        &|_| false,
        &mut tegula_ir::PassManager::new(),
    )
    .unwrap();
    let options = tegula_tpu_schedule::Options::default();
    let schedule = tegula_tpu_schedule::schedule(&module, &assignment, &chip, &options);
    let program = lower(&module, &assignment, &schedule, &chip)
        .unwrap()
        .program;
    let mut found = [0; 2];
    copies(&program, &program.body, false, &mut found);
    // `x`, `y` twice and `w` are fetched; two results are written back.
    assert!(found[1] == 0 && (4..=8).contains(&found[0]), "{found:?}");
}

/// Each branch of a conditional, with a result that is passed through and one that is computed in
/// place, inside a loop whose trip count depends on data.
#[test]
fn choices_compute_the_same() {
    let text = "HloModule choice

first {
  x = f32[128,256] parameter(0)
  n = f32[128,256] negate(x)
  r = f32[128,256] reverse(n), dimensions={0}
  ROOT out = (f32[128,256], f32[128,256]) tuple(r, x)
}

second {
  x = f32[128,256] parameter(0)
  a = f32[128,256] add(x, x)
  ROOT out = (f32[128,256], f32[128,256]) tuple(a, a)
}

condition {
  s = (s32[], f32[128,256], f32[128,256]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT lt = pred[] compare(i, n), direction=LT
}

body {
  s = (s32[], f32[128,256], f32[128,256]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  h = f32[128,256] get-tuple-element(s), index=1
  one = s32[] constant(1)
  two = s32[] constant(2)
  j = s32[] add(i, one)
  m = s32[] remainder(i, two)
  c = (f32[128,256], f32[128,256]) conditional(m, h, h), branch_computations={first, second}
  g = f32[128,256] get-tuple-element(c), index=0
  k = f32[128,256] get-tuple-element(c), index=1
  ROOT out = (s32[], f32[128,256], f32[128,256]) tuple(j, g, k)
}

ENTRY main {
  x = f32[128,256] parameter(0)
  i = s32[] parameter(1)
  begin = (s32[], f32[128,256], f32[128,256]) tuple(i, x, x)
  loop = (s32[], f32[128,256], f32[128,256]) while(begin), condition=condition, body=body
  h = f32[128,256] get-tuple-element(loop), index=1
  k = f32[128,256] get-tuple-element(loop), index=2
  ROOT out = (f32[128,256], f32[128,256]) tuple(h, k)
}
";
    check(text, None);
    for kibibytes in [256, 512, 640, 1024] {
        check(text, Some(kibibytes << 10));
    }
}

/// A loop over four arrays that do not fit together fetches some of them in each iteration.
#[test]
fn inputs_fetched_inside_loops_are_right() {
    let state = format!("(s32[]{})", ", f32[128,128]".repeat(5));
    let text = format!(
        "HloModule weights

condition {{
  s = {state} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT lt = pred[] compare(i, n), direction=LT
}}

body {{
  s = {state} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[128,128] get-tuple-element(s), index=1
  a = f32[128,128] get-tuple-element(s), index=2
  b = f32[128,128] get-tuple-element(s), index=3
  c = f32[128,128] get-tuple-element(s), index=4
  d = f32[128,128] get-tuple-element(s), index=5
  one = s32[] constant(1)
  j = s32[] add(i, one)
  p = f32[128,128] reverse(x), dimensions={{0}}
  q = f32[128,128] subtract(p, a)
  r = f32[128,128] reverse(q), dimensions={{1}}
  t = f32[128,128] subtract(b, r)
  u = f32[128,128] reverse(t), dimensions={{0}}
  v = f32[128,128] subtract(u, c)
  w = f32[128,128] reverse(v), dimensions={{1}}
  y = f32[128,128] subtract(d, w)
  ROOT out = {state} tuple(j, y, a, b, c, d)
}}

ENTRY main {{
  x = f32[128,128] parameter(0)
  a = f32[128,128] parameter(1)
  b = f32[128,128] parameter(2)
  c = f32[128,128] parameter(3)
  d = f32[128,128] parameter(4)
  zero = s32[] constant(0)
  e = f32[128,128] negate(x)
  begin = {state} tuple(zero, e, a, b, c, d)
  loop = {state} while(begin), condition=condition, body=body
  ROOT y = f32[128,128] get-tuple-element(loop), index=1
}}
"
    );
    let mut fetched = 0;
    for kib in [256, 320, 384, 448, 512, 640, 1024] {
        let schedule = check(&text, Some(kib << 10));
        let nest = tegula_tpu_schedule::Nest::of(&schedule);
        let steps = schedule.steps.iter().enumerate();
        let starts =
            steps.filter(|(_, step)| matches!(step, tegula_tpu_schedule::Step::CopyStart(_)));
        fetched += starts.filter(|(at, _)| !nest.is_outside(*at)).count();
    }
    assert!(fetched > 0);
}
