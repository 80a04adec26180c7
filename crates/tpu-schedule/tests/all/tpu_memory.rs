//! Compares memory spaces with those of libtpu's compiler on v5e, and tests that schedules are
//! verified.

use crate::facts::Program;
use std::collections::BTreeMap;
use tegula_layout::assign::{Machine, assign};
use tegula_target::Chip;
use tegula_tpu_schedule::{
    HBM, Options, Schedule, Source, Step, VMEM, VerifierError, schedule, verify,
};

fn scheduled(module: &tegula_ir::Module) -> Option<(tegula_layout::assign::Assignment, Schedule)> {
    let chip = Chip::by_name("v5e").unwrap();
    let module = tegula_fusion::expand(module).unwrap();
    let assignment = assign(
        &module,
        &Machine::tpu(&chip).unwrap(),
        &|_| false,
        &mut tegula_ir::PassManager::new(),
    )
    .ok()?;
    let schedule = schedule(&module, &assignment, &chip, &Options::default());
    Some((assignment, schedule))
}

/// How often each space was predicted for each actual space.
#[derive(Default)]
struct Confusion([[usize; 2]; 2]);

impl Confusion {
    fn recall(&self, space: usize) -> f64 {
        self.0[space][space] as f64 / (self.0[space][0] + self.0[space][1]).max(1) as f64
    }

    fn balanced(&self) -> f64 {
        (self.recall(0) + self.recall(1)) / 2.0
    }

    fn always(&self, space: usize) -> f64 {
        let right: usize = self.0[space].iter().sum();
        right as f64 / self.0.iter().flatten().sum::<usize>().max(1) as f64
    }
}

/// Spaces by the dimensions larger than 1, in the order of the results of kernels and copies.
type Spaces = BTreeMap<Vec<i64>, Vec<(String, usize)>>;

fn ours(program: &Program) -> Option<Spaces> {
    let (assignment, schedule) = scheduled(&program.module)?;
    let proved = verify(&schedule, &assignment.program);
    proved.unwrap_or_else(|error| panic!("{}: {error}", program.name));
    let mut all = Spaces::new();
    let mut depth = 0;
    for step in &schedule.steps {
        match step {
            Step::Part { part: 0, .. } => depth += 1,
            Step::Leave(_) => depth -= 1,
            _ => {}
        }
        // The tables list the instructions of the compiled programs themselves.
        let written: &[usize] = match step {
            _ if depth > 0 => continue,
            Step::Kernel { writes, .. } => writes,
            Step::Relayout { to, .. } => std::slice::from_ref(to),
            Step::Leave(control) => &schedule.controls[*control].places,
            _ => continue,
        };
        for &id in written {
            let buffer = &schedule.buffers[id];
            let shape = &assignment.program.values[buffer.value].shape;
            let dims = shape.static_dims().unwrap();
            let dims: Vec<i64> = dims.iter().copied().filter(|&d| d != 1).collect();
            if matches!(buffer.space(), HBM | VMEM) {
                let space = usize::from(buffer.space() == VMEM);
                all.entry(dims)
                    .or_default()
                    .push((format!("{:?}", buffer.reason), space));
            }
        }
    }
    Some(all)
}

fn theirs(program: &Program) -> Spaces {
    let mut all = Spaces::new();
    for made in program
        .made
        .iter()
        .filter(|made| made.is_result() || made.opcode == "copy")
    {
        let dims = made.shape.static_dims().unwrap();
        let dims: Vec<i64> = dims.iter().copied().filter(|&d| d != 1).collect();
        let space = made.shape.layout.as_deref().unwrap().memory_space;
        if matches!(space, HBM | VMEM) {
            let name = format!("{} {}", made.name, made.shape);
            all.entry(dims)
                .or_default()
                .push((name, usize::from(space == VMEM)));
        }
    }
    all
}

#[test]
fn spaces_agree_with_the_real_compiler() {
    let Some(programs) = crate::facts::programs() else {
        return;
    };
    let mut totals: BTreeMap<&str, Confusion> = BTreeMap::new();
    let (mut ambiguous, mut unmatched) = (0, 0);
    for program in &programs {
        let Some(ours) = ours(program) else {
            println!("  {}: no schedule", program.name);
            continue;
        };
        for (dims, theirs) in theirs(program) {
            let Some(ours) = ours.get(&dims) else {
                unmatched += theirs.len();
                continue;
            };
            let one = |spaces: &[(String, usize)]| spaces.iter().all(|s| s.1 == spaces[0].1);
            if !(one(ours) && one(&theirs)) && ours.len() != theirs.len() {
                ambiguous += theirs.len();
                continue;
            }
            for (number, (name, space)) in theirs.iter().enumerate() {
                let (reason, own) = &ours[number.min(ours.len() - 1)];
                if own != space && std::env::var("TEGULA_SHOW").is_ok() {
                    println!("  {}: {name}; ours S({own}): {reason}", program.name);
                }
                let part = if program.corpus { "corpus" } else { "programs" };
                for part in [part, "all"] {
                    totals.entry(part).or_default().0[*space][*own] += 1;
                }
            }
        }
    }
    for (name, confusion) in &totals {
        println!(
            "{name}: balanced accuracy {:.1} % (S(0) {:.1} %, S(1) {:.1} %; a constant answer: 50 %); \
             plain: always S(0) {:.1} %, always S(1) {:.1} %",
            100.0 * confusion.balanced(),
            100.0 * confusion.recall(0),
            100.0 * confusion.recall(1),
            100.0 * confusion.always(0),
            100.0 * confusion.always(1),
        );
    }
    println!("{ambiguous} ambiguous, {unmatched} without counterpart");
    assert!(totals["all"].balanced() >= 0.85);
}

fn chain(rows: i64) -> tegula_ir::Module {
    let text = format!(
        "HloModule chain\n\nENTRY main {{\n  x = bf16[{rows},1024] parameter(0)\n  \
         a = bf16[1024,1024] parameter(1)\n  b = bf16[1024,1024] parameter(2)\n  \
         y = bf16[{rows},1024] dot(x, a), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n  \
         ROOT z = bf16[{rows},1024] dot(y, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n}}\n"
    );
    tegula_ir::parse_module(&text).unwrap()
}

/// Whether the array between two products is in HBM.
fn spills(rows: i64) -> bool {
    let (assignment, schedule) = scheduled(&chain(rows)).unwrap();
    verify(&schedule, &assignment.program).unwrap();
    let between = schedule.steps.iter().find_map(|step| match step {
        Step::Kernel { writes, .. } => writes.first().copied(),
        _ => None,
    });
    schedule.buffers[between.unwrap()].space() == HBM
}

/// A chain of two products spills at the same size as in libtpu's compiler.
#[test]
fn spills_begin_at_the_real_compilers_size() {
    let Some(folder) = crate::facts::folder() else {
        return;
    };
    let text = std::fs::read_to_string(folder.join("vmem_sweep_v5e.json")).unwrap();
    let facts: serde_json::Value = serde_json::from_str(&text).unwrap();
    let (mut kept, mut spilled) = (0, i64::MAX);
    for point in facts.as_array().unwrap() {
        let rows = point["M"].as_i64().unwrap();
        let fusions = point["fusions"].as_object().unwrap();
        // If there is only one fusion, the products were merged.
        if fusions.len() < 2 {
            continue;
        }
        let real = fusions["fusion"] == "HBM";
        assert_eq!(spills(rows), real, "{rows} rows");
        if real {
            spilled = spilled.min(rows);
        } else {
            kept = kept.max(rows);
        }
    }
    let mut rows = kept;
    while !spills(rows) {
        rows += 256;
    }
    let size = |rows: i64| rows as f64 * 2048.0 / f64::from(1 << 20);
    println!(
        "ours spill from {:.1} MiB on; the real compiler keeps {} and spills {}",
        size(rows),
        size(kept),
        size(spilled)
    );
    assert!(rows > kept && rows <= spilled);
}

/// Broken schedules are rejected.
#[test]
fn the_verifier_refuses_broken_schedules() {
    let (assignment, good) = scheduled(&chain(4096)).unwrap();
    let program = &assignment.program;
    assert_eq!(verify(&good, program), Ok(()));
    assert!(!good.transfers.is_empty());
    let done = good
        .steps
        .iter()
        .position(|s| matches!(s, Step::CopyDone(_)))
        .unwrap();
    let in_vmem = good
        .buffers
        .iter()
        .position(|b| b.offset.is_some())
        .unwrap();
    let broken = |change: &dyn Fn(&mut Schedule)| {
        let mut schedule = good.clone();
        change(&mut schedule);
        verify(&schedule, program).unwrap_err()
    };
    let never = broken(&|s| {
        s.steps.remove(done);
    });
    assert!(matches!(
        never,
        VerifierError::Racing { .. } | VerifierError::Uninitialised { .. }
    ));
    let small = broken(&|s| s.vmem_bytes = 1 << 20);
    assert!(matches!(small, VerifierError::Capacity { .. }));
    let lost = broken(&|s| s.buffers[in_vmem].offset = None);
    assert_eq!(lost, VerifierError::Offset(in_vmem));
    let overlapping = broken(&|s| {
        for buffer in &mut s.buffers {
            buffer.offset = buffer.offset.map(|_| 0);
        }
    });
    assert!(matches!(
        overlapping,
        VerifierError::Overlap { .. } | VerifierError::Racing { .. }
    ));
    let unread = broken(&|s| s.buffers[0].source = Source::Kernel);
    assert!(matches!(unread, VerifierError::Uninitialised { .. }));
    let twice = broken(&|s| s.steps.insert(done, s.steps[done].clone()));
    assert_eq!(twice, VerifierError::NotUnderWay(done + 1));
}

/// With less VMEM, arrays are evicted or stay in HBM, and every schedule is still valid.
#[test]
fn schedules_hold_with_any_amount_of_vmem() {
    let chip = Chip::by_name("v5e").unwrap();
    let machine = Machine::tpu(&chip).unwrap();
    // `a` is read at once and at the end, with larger arrays in between.
    let product = "lhs_contracting_dims={1}, rhs_contracting_dims={0}";
    let mut text = "HloModule r\n\nENTRY main {\n  x = f32[512,1024] parameter(0)\n  v = f32[1024,256] parameter(1)\n  u = f32[256,1024] parameter(2)\n  w = f32[1024,1024] parameter(3)\n".to_owned();
    text += &format!(
        "  a = f32[512,256] dot(x, v), {product}\n  c0 = f32[512,1024] dot(a, u), {product}\n"
    );
    for layer in 0..4 {
        text += &format!(
            "  c{} = f32[512,1024] dot(c{layer}, w), {product}\n",
            layer + 1
        );
    }
    text += &format!(
        "  d = f32[512,256] dot(c4, v), {product}\n  ROOT y = f32[512,256] add(d, a)\n}}\n"
    );
    let module = tegula_ir::parse_module(&text).unwrap();
    let assignment = assign(
        &module,
        &machine,
        &|_| false,
        &mut tegula_ir::PassManager::new(),
    )
    .unwrap();
    let (mut evicted, mut resident) = (0, Vec::new());
    for mebibytes in 0..48 {
        let options = Options {
            vmem_bytes: Some(mebibytes << 19),
            scoped_bytes: 1 << 20,
        };
        let schedule = schedule(&module, &assignment, &chip, &options);
        if mebibytes >= 2 {
            verify(&schedule, &assignment.program)
                .unwrap_or_else(|error| panic!("{mebibytes}: {error}"));
        }
        let evictions = schedule
            .transfers
            .iter()
            .filter(|t| schedule.buffers[t.to].space() == HBM);
        evicted += evictions.count();
        resident.push(
            schedule
                .buffers
                .iter()
                .filter(|b| b.offset.is_some())
                .count(),
        );
        assert!(schedule.vmem_peak <= options.vmem_bytes.unwrap().max(options.scoped_bytes));
    }
    println!("{evicted} evictions; buffers in VMEM by its size: {resident:?}");
    assert!(resident[0] == 0 && resident[47] > resident[4]);
    assert!(evicted > 0);
}
