//! Tests loops and conditionals in schedules: their arrays and states are in VMEM, the verifier
//! covers them, and the written program expresses them.

use tegula_ir::{PrintStyle, parse_module, print_module};
use tegula_layout::assign::{Assignment, Machine, assign};
use tegula_target::Chip;
use tegula_tpu_schedule::{
    Options, Reason, Schedule, Source, Step, VMEM, VerifierError, Views, schedule, to_module,
    verify,
};

/// Two nested loops around products; the second state is swapped with the third.
const NESTED: &str = "HloModule nested

inner_condition {
  s = (s32[], f32[256,512]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT lt = pred[] compare(i, n), direction=LT
}

inner_body {
  s = (s32[], f32[256,512]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  h = f32[256,512] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  t = f32[256,512] tanh(h)
  r = f32[256,512] reverse(t), dimensions={1}
  ROOT out = (s32[], f32[256,512]) tuple(j, r)
}

condition {
  s = (s32[], f32[256,512], f32[256,512], f32[256,512], f32[512,512]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(20)
  ROOT lt = pred[] compare(i, n), direction=LT
}

body {
  s = (s32[], f32[256,512], f32[256,512], f32[256,512], f32[512,512]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  h = f32[256,512] get-tuple-element(s), index=1
  a = f32[256,512] get-tuple-element(s), index=2
  b = f32[256,512] get-tuple-element(s), index=3
  w = f32[512,512] get-tuple-element(s), index=4
  one = s32[] constant(1)
  j = s32[] add(i, one)
  p = f32[256,512] dot(h, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  zero = s32[] constant(0)
  begin = (s32[], f32[256,512]) tuple(zero, p)
  inner = (s32[], f32[256,512]) while(begin), condition=inner_condition, body=inner_body
  g = f32[256,512] get-tuple-element(inner), index=1
  ROOT out = (s32[], f32[256,512], f32[256,512], f32[256,512], f32[512,512]) tuple(j, g, b, a, w)
}

ENTRY main {
  x = f32[256,512] parameter(0)
  w = f32[512,512] parameter(1)
  y = f32[256,512] parameter(2)
  zero = s32[] constant(0)
  e = f32[256,512] exponential(y)
  begin = (s32[], f32[256,512], f32[256,512], f32[256,512], f32[512,512]) tuple(zero, x, e, y, w)
  loop = (s32[], f32[256,512], f32[256,512], f32[256,512], f32[512,512]) while(begin), condition=condition, body=body
  h = f32[256,512] get-tuple-element(loop), index=1
  a = f32[256,512] get-tuple-element(loop), index=2
  b = f32[256,512] get-tuple-element(loop), index=3
  d = f32[256,512] subtract(a, b)
  m = f32[256,512] dot(d, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT out = (f32[256,512], f32[256,512]) tuple(h, m)
}
";

/// A conditional between two chains of products.
const CHOICE: &str = "HloModule choice

first {
  s = (f32[256,512], f32[512,512]) parameter(0)
  x = f32[256,512] get-tuple-element(s), index=0
  w = f32[512,512] get-tuple-element(s), index=1
  p = f32[256,512] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  q = f32[256,512] dot(p, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT out = (f32[256,512]) tuple(q)
}

second {
  s = (f32[256,512], f32[512,512]) parameter(0)
  x = f32[256,512] get-tuple-element(s), index=0
  w = f32[512,512] get-tuple-element(s), index=1
  p = f32[256,512] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  r = f32[256,512] reverse(p), dimensions={0}
  q = f32[256,512] dot(r, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT out = (f32[256,512]) tuple(q)
}

ENTRY main {
  p = pred[] parameter(0)
  x = f32[256,512] parameter(1)
  w = f32[512,512] parameter(2)
  y = f32[256,512] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = (f32[256,512], f32[512,512]) tuple(y, w)
  c = (f32[256,512]) conditional(p, s, s), true_computation=first, false_computation=second
  h = f32[256,512] get-tuple-element(c), index=0
  ROOT out = f32[256,512] dot(h, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
";

fn scheduled(text: &str, options: &Options) -> (tegula_ir::Module, Assignment, Schedule) {
    let chip = Chip::by_name("v5e").unwrap();
    let module = tegula_fusion::expand(&parse_module(text).unwrap())
        .unwrap()
        .into_owned();
    let assignment = assign(
        &module,
        &Machine::tpu(&chip).unwrap(),
        &|_| false,
        &mut tegula_ir::PassManager::new(),
    )
    .unwrap();
    let schedule = schedule(&module, &assignment, &chip, options);
    (module, assignment, schedule)
}

/// What a loop carries and what it reads from outside is in VMEM throughout, at one place; the
/// result is copied out after the loop. libtpu's compiler does the same.
#[test]
fn what_loops_carry_is_in_vmem() {
    let (module, assignment, schedule) = scheduled(NESTED, &Options::default());
    verify(&schedule, &assignment.program).unwrap();
    for control in &schedule.controls {
        for &place in &control.places {
            let buffer = &schedule.buffers[place];
            let is_array = assignment.program.values[buffer.value].shape.rank() > 0;
            assert_eq!(buffer.space() == VMEM, is_array, "{buffer:?}");
        }
        assert!([20.0, 3.0].contains(&control.trips), "{control:?}");
    }
    let written = to_module(&module, &assignment, &schedule, Views::Bitcasts).unwrap();
    tegula_ir::verify(&written).unwrap();
    let text = print_module(&written, PrintStyle::Short);
    let carried = "f32[256,512]{1,0:T(8,128)S(1)}, f32[256,512]{1,0:T(8,128)S(1)}, \
                   f32[256,512]{1,0:T(8,128)S(1)}, f32[512,512]{1,0:T(8,128)S(1)}) while(";
    assert!(text.contains(carried), "{text}");
    assert!(text.contains("copy-start"), "{text}");
    assert!(parse_module(&text).unwrap().same_as(&written));
}

/// The inner loop takes over the place of its first value, which a kernel writes; two states that
/// are swapped are copied.
#[test]
fn only_what_must_be_is_copied() {
    let (_, assignment, schedule) = scheduled(NESTED, &Options::default());
    let arrays = |step: &&Step| match step {
        Step::Pass { what, .. } => assignment.program.values[what.value].shape.rank() > 0,
        _ => false,
    };
    // The expected copies: to the outer loop `y`, which other kernels read; in that loop one state
    // to a temporary place, and each of the two to the other's; the inner loop's result; and in the
    // inner loop, the state that is read while its next value is written.
    let passes = schedule.steps.iter().filter(arrays).count();
    assert!(passes <= 8, "{passes} copies: {:#?}", schedule.steps);
    let same = |source: &Source| matches!(source, Source::Same(_));
    let same = schedule.buffers.iter().filter(|b| same(&b.source)).count();
    assert!(same >= 4);
}

/// Branches share memory: together they need no more than the larger one.
#[test]
fn branches_share_room() {
    let (_, assignment, schedule) = scheduled(CHOICE, &Options::default());
    verify(&schedule, &assignment.program).unwrap();
    let mut part = None;
    let mut offsets: [Vec<(i64, i64)>; 2] = [Vec::new(), Vec::new()];
    for step in &schedule.steps {
        match step {
            Step::Part { part: own, .. } => part = Some(*own),
            Step::Leave(_) => part = None,
            Step::Kernel { writes, .. } => {
                let Some(part) = part else { continue };
                for &id in writes {
                    let buffer = &schedule.buffers[id];
                    if let Some(offset) = buffer.offset {
                        offsets[part].push((offset, offset + buffer.bytes));
                    }
                }
            }
            _ => {}
        }
    }
    let [first, second] = &offsets;
    let meets = |a: &(i64, i64)| second.iter().any(|b| a.0 < b.1 && b.0 < a.1);
    assert!(first.iter().any(meets), "{offsets:?}");
}

/// Every schedule is valid, however little VMEM there is.
#[test]
fn loops_hold_with_any_amount_of_vmem() {
    for text in [NESTED, CHOICE] {
        let mut in_vmem = Vec::new();
        for kibibytes in (64..8192).step_by(192) {
            let options = Options {
                vmem_bytes: Some(kibibytes << 10),
                scoped_bytes: 64 << 10,
            };
            let (module, assignment, schedule) = scheduled(text, &options);
            verify(&schedule, &assignment.program)
                .unwrap_or_else(|error| panic!("{kibibytes}: {error}"));
            let written = to_module(&module, &assignment, &schedule, Views::Bitcasts).unwrap();
            tegula_ir::verify(&written).unwrap();
            let there = schedule.buffers.iter().filter(|b| b.offset.is_some());
            in_vmem.push(there.count());
        }
        assert!(
            in_vmem[0] == 0 && in_vmem.last() > in_vmem.get(8),
            "{in_vmem:?}"
        );
    }
}

/// What a condition reads stays in HBM, as in libtpu's compiler.
#[test]
fn what_a_condition_reads_stays_in_hbm() {
    let text = "HloModule until

condition {
  s = (f32[1000], f32[1000]) parameter(0)
  y = f32[1000] get-tuple-element(s), index=0
  first = f32[1] slice(y), slice={[0:1]}
  error = f32[] reshape(first)
  least = f32[] constant(0.1)
  ROOT gt = pred[] compare(error, least), direction=GT
}

body {
  s = (f32[1000], f32[1000]) parameter(0)
  y = f32[1000] get-tuple-element(s), index=0
  x = f32[1000] get-tuple-element(s), index=1
  ROOT out = (f32[1000], f32[1000]) tuple(x, y)
}

ENTRY main {
  x = f32[1000] parameter(0)
  z = f32[1000] negate(x)
  begin = (f32[1000], f32[1000]) tuple(x, z)
  loop = (f32[1000], f32[1000]) while(begin), condition=condition, body=body
  ROOT y = f32[1000] get-tuple-element(loop), index=1
}
";
    let (_, assignment, schedule) = scheduled(text, &Options::default());
    verify(&schedule, &assignment.program).unwrap();
    let [tested, other] = schedule.controls[0].places[..] else {
        panic!("two states");
    };
    let base = |id| &schedule.buffers[schedule.base(id)];
    assert_eq!(base(tested).reason, Reason::Tested);
    assert_eq!(base(other).space(), VMEM);
}

fn refused(good: &(Assignment, Schedule), change: &dyn Fn(&mut Schedule)) -> VerifierError {
    let mut schedule = good.1.clone();
    change(&mut schedule);
    verify(&schedule, &good.0.program).unwrap_err()
}

/// Schedules with broken loops are rejected.
#[test]
fn the_verifier_refuses_broken_loops() {
    let (_, assignment, schedule) = scheduled(NESTED, &Options::default());
    let at = |is: &dyn Fn(&Step) -> bool| schedule.steps.iter().position(is).unwrap();
    let last = |is: &dyn Fn(&Step) -> bool| schedule.steps.iter().rposition(is).unwrap();
    let body = last(&|step| {
        matches!(
            step,
            Step::Part {
                part: 1,
                control: 0
            }
        )
    });
    let leave = at(&|step| matches!(step, Step::Leave(0)));
    let program = &assignment.program;
    let is_array = |step: &Step| match step {
        Step::Pass { what, .. } => program.values[what.value].shape.rank() > 0,
        _ => false,
    };
    let pass = last(&is_array);
    assert!(body < pass && pass < leave, "an iteration ends by passing");
    let done = at(&|step| matches!(step, Step::CopyDone(_)));
    let good = (assignment.clone(), schedule.clone());

    // Without the copy, the next iteration would find the previous state.
    let lost = refused(&good, &|s| drop(s.steps.remove(pass)));
    assert!(matches!(lost, VerifierError::Passed { .. }), "{lost}");
    // Two states are swapped, but the second is saved after it was overwritten.
    let Step::Pass { what, .. } = &schedule.steps[pass] else {
        panic!("a copy")
    };
    let aside = at(&|step| matches!(step, Step::Pass { to, .. } if Some(*to) == what.by));
    let order = refused(&good, &|s| s.steps.swap(aside, pass - 1));
    assert!(
        matches!(
            order,
            VerifierError::Passed { .. } | VerifierError::Uninitialised { .. }
        ),
        "{order}"
    );
    // A copy started before the loop is waited for inside it, so the second iteration waits for
    // nothing.
    let first = at(&|step| matches!(step, Step::Part { part: 0, .. }));
    if done < first {
        let inside = refused(&good, &|s| {
            let step = s.steps.remove(done);
            s.steps.insert(body, step);
        });
        assert!(
            matches!(
                inside,
                VerifierError::Unbalanced(_)
                    | VerifierError::Racing { .. }
                    | VerifierError::Passed { .. }
            ),
            "{inside}"
        );
    }
    let parts = refused(&good, &|s| s.steps.swap(first, body));
    assert!(matches!(parts, VerifierError::Structure(_)), "{parts}");
    let open = refused(&good, &|s| drop(s.steps.remove(leave)));
    assert!(matches!(open, VerifierError::Structure(_)), "{open}");
    let other = refused(&good, &|s| {
        let own = s.controls[0].decides.value;
        let inner = s.controls[1].decides.value;
        assert_ne!(own, inner);
        s.controls[0].decides.value = inner;
    });
    assert!(matches!(other, VerifierError::Structure(_)), "{other}");
    let fewer = refused(&good, &|s| s.controls[0].places.truncate(1));
    assert!(matches!(fewer, VerifierError::Structure(_)), "{fewer}");
}

/// Moving a buffer is accepted if lifetimes are disjoint, and rejected if places overlap at the
/// same time, also across the boundary of a loop.
#[test]
fn no_place_is_shared_by_what_lives_together() {
    for text in [NESTED, CHOICE] {
        let (_, assignment, schedule) = scheduled(text, &Options::default());
        let lives = schedule.lifetimes();
        let own = schedule.buffers.iter().enumerate();
        let own: Vec<usize> = own
            .filter(|(_, b)| b.offset.is_some())
            .map(|o| o.0)
            .collect();
        let (mut refused, mut together) = (0, 0);
        for &a in &own {
            for &b in own.iter().filter(|&&b| b != a) {
                let mut moved = schedule.clone();
                moved.buffers[a].offset = moved.buffers[b].offset;
                let (start, end) = (moved.buffers[a].offset.unwrap(), moved.buffers[a].bytes);
                let meets = |&&other: &&usize| {
                    let buffer = &schedule.buffers[other];
                    let at = buffer.offset.unwrap();
                    other != a && at < start + end && start < at + buffer.bytes
                };
                let lives_with =
                    |other: &usize| lives[a].0 <= lives[*other].1 && lives[*other].0 <= lives[a].1;
                let shares = own.iter().filter(meets).any(lives_with);
                let answer = verify(&moved, &assignment.program);
                together += usize::from(shares);
                refused += usize::from(answer.is_err());
                let fits = start + end <= schedule.vmem_bytes;
                assert!(shares || answer.is_ok() || !fits, "{a} {b}: {answer:?}");
            }
        }
        println!("{refused} refused of {together} moves onto what lives at the same time");
        // Not every conflict is detected: a conditional's result buffer counts as live from before
        // the first branch, but until it is written, another buffer in its place does no harm.
        assert!(refused * 10 >= together * 8, "{refused} of {together}");
    }
}

/// A loop that uses four weights, which do not fit in VMEM together.
const WEIGHTS: &str = "HloModule weights

condition {
  s = (s32[], f32[512,512], f32[512,512], f32[512,512], f32[512,512], f32[512,512]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(20)
  ROOT lt = pred[] compare(i, n), direction=LT
}

body {
  s = (s32[], f32[512,512], f32[512,512], f32[512,512], f32[512,512], f32[512,512]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[512,512] get-tuple-element(s), index=1
  a = f32[512,512] get-tuple-element(s), index=2
  b = f32[512,512] get-tuple-element(s), index=3
  c = f32[512,512] get-tuple-element(s), index=4
  d = f32[512,512] get-tuple-element(s), index=5
  one = s32[] constant(1)
  j = s32[] add(i, one)
  p = f32[512,512] dot(x, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  q = f32[512,512] dot(p, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  r = f32[512,512] dot(q, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[512,512] dot(r, d), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT out = (s32[], f32[512,512], f32[512,512], f32[512,512], f32[512,512], f32[512,512]) tuple(j, t, a, b, c, d)
}

ENTRY main {
  x = f32[512,512] parameter(0)
  a = f32[512,512] parameter(1)
  b = f32[512,512] parameter(2)
  c = f32[512,512] parameter(3)
  d = f32[512,512] parameter(4)
  zero = s32[] constant(0)
  e = f32[512,512] exponential(x)
  begin = (s32[], f32[512,512], f32[512,512], f32[512,512], f32[512,512], f32[512,512]) tuple(zero, e, a, b, c, d)
  loop = (s32[], f32[512,512], f32[512,512], f32[512,512], f32[512,512], f32[512,512]) while(begin), condition=condition, body=body
  ROOT y = f32[512,512] get-tuple-element(loop), index=1
}
";

/// The numbers of copies that begin inside loops and conditionals.
fn begun_inside(schedule: &Schedule) -> Vec<usize> {
    let nest = tegula_tpu_schedule::Nest::of(schedule);
    let steps = schedule.steps.iter().enumerate();
    let starts = steps.filter_map(|(at, step)| match step {
        Step::CopyStart(copy) if !nest.is_outside(at) => Some(*copy),
        _ => None,
    });
    starts.collect()
}

/// Inputs that do not fit for a whole loop are fetched in each iteration while earlier kernels of
/// the body run, and the verifier covers this.
#[test]
fn weights_are_fetched_inside_loops() {
    let options = |mib: i64| Options {
        vmem_bytes: Some(mib << 20),
        scoped_bytes: 1 << 20,
    };
    let (_, _, roomy) = scheduled(WEIGHTS, &options(16));
    assert!(begun_inside(&roomy).is_empty());
    let (module, assignment, schedule) = scheduled(WEIGHTS, &options(6));
    verify(&schedule, &assignment.program).unwrap();
    let inside = begun_inside(&schedule);
    assert!(inside.len() >= 2, "{:#?}", schedule.steps);
    for &copy in &inside {
        let transfer = &schedule.transfers[copy];
        assert_eq!(schedule.buffers[transfer.from].source, Source::Given);
        assert_eq!(schedule.buffers[transfer.to].space(), VMEM);
    }
    let written = to_module(&module, &assignment, &schedule, Views::Bitcasts).unwrap();
    tegula_ir::verify(&written).unwrap();
    let text = print_module(&written, PrintStyle::Short);
    let (before, _) = text.split_once("ENTRY").unwrap();
    assert!(before.contains("-start("), "{text}");
    assert!(parse_module(&text).unwrap().same_as(&written));

    // A copy that is not waited for, or is used after its part, is detected.
    let start = |step: &Step| matches!(step, Step::CopyStart(copy) if *copy == inside[0]);
    let done = |step: &Step| matches!(step, Step::CopyDone(copy) if *copy == inside[0]);
    for wrong in [&start as &dyn Fn(&Step) -> bool, &done] {
        let mut broken = schedule.clone();
        broken.steps.retain(|step| !wrong(step));
        assert!(verify(&broken, &assignment.program).is_err());
    }
}
