//! Measures how long tiling the fusions of the corpus takes. Fusions are formed as by a compiler: a
//! product or convolution with the operations before and after it, up to the next ones.
//!
//! `TEGULA_CORPUS` names the folder; without it, the test is skipped.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use tegula_indexing::Simplifier;
use tegula_indexing::tiles::Tiling;
use tegula_ir::{
    Computation, ComputationId, Instruction, InstructionId, Module, Op, Span, parse_module,
};

/// The maximum time per fusion, on a machine with other load; on an idle one it takes 20 ms.
const BOUND: Duration = Duration::from_millis(200);

/// Whether a value is written to memory: fusions end there.
fn is_written(module: &Module, id: InstructionId) -> bool {
    let data = &module[id];
    let is_whole = matches!(
        data.op,
        Op::Parameter(_)
            | Op::While { .. }
            | Op::Conditional { .. }
            | Op::Call { .. }
            | Op::Sort { .. }
            | Op::Tuple
            | Op::GetTupleElement(_)
            | Op::CustomCall(_)
            | Op::Scatter { .. }
    );
    is_whole || data.shape.as_array().is_none()
}

/// Makes a computation of everything that the root needs. Values written to memory become
/// parameters, so no fusion contains two products.
fn fusion(module: &mut Module, root: InstructionId) -> ComputationId {
    let mut needed = Vec::new();
    let mut stack = vec![root];
    let mut inputs: Vec<InstructionId> = Vec::new();
    while let Some(id) = stack.pop() {
        let is_product = matches!(module[id].op, Op::Dot { .. } | Op::Convolution { .. });
        if id != root && (is_product || is_written(module, id)) {
            if !inputs.contains(&id) {
                inputs.push(id);
            }
            continue;
        }
        if !needed.contains(&id) {
            needed.push(id);
            stack.extend(&module[id].operands);
        }
    }
    let own = module[root].computation;
    let order = module.computations[own].instructions.clone();
    let computation = module.computations.push(Computation {
        name: Arc::from("fused"),
        instructions: Vec::new(),
        parameters: Vec::new(),
        root,
        execution_thread: None,
        span: Span::default(),
    });
    let mut made: FxHashMap<InstructionId, InstructionId> = FxHashMap::default();
    for (number, input) in inputs.iter().enumerate() {
        let data = Instruction {
            op: Op::Parameter(u32::try_from(number).expect("few")),
            operands: Default::default(),
            computation,
            ..module[*input].clone()
        };
        let id = module.instructions.push(data);
        module.computations[computation].instructions.push(id);
        module.computations[computation].parameters.push(id);
        made.insert(*input, id);
    }
    for id in order.into_iter().filter(|id| needed.contains(id)) {
        let mut data = module[id].clone();
        data.computation = computation;
        data.operands
            .iter_mut()
            .for_each(|operand| *operand = made[operand]);
        let new = module.instructions.push(data);
        module.computations[computation].instructions.push(new);
        made.insert(id, new);
    }
    module.computations[computation].root = made[&root];
    computation
}

/// Maps and tiles of one fusion, with given sizes and with open ones.
fn tiles(module: &Module, computation: ComputationId) -> (usize, usize) {
    let tiling = Tiling::of_computation(module, computation, 0, &mut Simplifier::new());
    let tiling = tiling.unwrap_or_else(|unknown| panic!("{}", unknown.cause));
    let (mut exact, mut all) = (0, 0);
    for space in [
        tiling.space.with_minor_sizes(&[8, 128]),
        tiling.space.clone(),
    ] {
        for operand in tiling.operands(&space) {
            for tile in operand.tiles.iter().flatten() {
                exact += usize::from(tile.is_exact());
                all += 1;
            }
        }
    }
    (exact, all)
}

#[test]
fn fusions_take_milliseconds() {
    let Some(folder) = std::env::var_os("TEGULA_CORPUS").map(PathBuf::from) else {
        println!("skipped: TEGULA_CORPUS is not set");
        return;
    };
    for name in ["gpt2_small_fwd", "resnet50_fwd_f32"] {
        let text = std::fs::read_to_string(folder.join(format!("{name}.hlo"))).expect("a program");
        let mut module = parse_module(&text).expect("HLO");
        let all: Vec<InstructionId> = (&module.instructions)
            .into_iter()
            .filter(|(id, _)| !is_written(&module, *id))
            .map(|(id, _)| id)
            .collect();
        // A value that a product reads or that nothing reads ends a fusion.
        let is_end = |id: InstructionId| {
            let own = module[id].computation;
            let users = module.computations[own].instructions.iter();
            let mut users = users.filter(|user| module[**user].operands.contains(&id));
            let ends = |user: &InstructionId| {
                matches!(module[*user].op, Op::Dot { .. } | Op::Convolution { .. })
                    || is_written(&module, *user)
            };
            let none = users.clone().next().is_none();
            none || users.any(ends)
                || matches!(module[id].op, Op::Dot { .. } | Op::Convolution { .. })
        };
        let roots: Vec<InstructionId> = all.into_iter().filter(|id| is_end(*id)).collect();
        let (mut most, mut total) = (Duration::ZERO, Duration::ZERO);
        let (mut exact, mut tiles_in_all) = (0, 0);
        let count = roots.len();
        for root in roots {
            let computation = fusion(&mut module, root);
            let start = Instant::now();
            let found = tiles(&module, computation);
            let own = start.elapsed();
            exact += found.0;
            tiles_in_all += found.1;
            total += own;
            most = most.max(own);
        }
        println!(
            "{name}: {count} fusions, at most {most:?}, {total:?} in all; {exact} of {tiles_in_all} tiles exact"
        );
        assert!(count > 20 && most < BOUND, "{most:?}");
    }
}
