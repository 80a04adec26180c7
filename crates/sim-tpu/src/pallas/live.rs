//! Liveness: the set of values that are used.

use rustc_hash::FxHashSet;
use tegula_mosaic::ir::{Block, Module, Value};

/// The values that an operation with an effect uses, directly or through others.
pub(super) fn of(module: &Module) -> FxHashSet<Value> {
    let mut live = FxHashSet::default();
    block(&module.kernel.function.body, &mut live);
    for function in &module.functions {
        block(&function.body, &mut live);
    }
    live
}

/// Operations are defined before they are used, so one backward pass finds all live values.
fn block(of: &Block, live: &mut FxHashSet<Value>) {
    for operation in of.operations.iter().rev() {
        let used = operation.results.iter().any(|result| live.contains(result));
        if operation.op.is_pure() && !used {
            continue;
        }
        for region in operation.regions.iter().rev() {
            block(region, live);
        }
        live.extend(operation.operands.iter().copied());
    }
}
