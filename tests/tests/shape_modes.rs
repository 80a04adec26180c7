//! The shapes of HLO operations in three modes: one description of the operands, and
//! analysis, evaluator and machine code give the same sizes. What the operations are
//! comes from the corpus and from a text with every opcode; sizes are changed at random
//! and where that makes an operation wrong, all must say so.

use std::path::Path;
use tegula_expr::{Provider, ShapeHelper};
use tegula_ir::{Dim, Error, Instruction, Module, Shape, ShapeOf, parse_module, shape_of};
use tegula_tests::random::Random;
use tegula_tests::shape_modes::{Actual, in_three_modes};

/// An instruction of a module as a computation of sizes.
struct Hlo<'a> {
    module: &'a Module,
    instruction: &'a Instruction,
    operands: Vec<Shape>,
}

impl ShapeHelper for Hlo<'_> {
    type Shapes<I: Clone> = ShapeOf<I>;
    type Error = Error;

    fn compute<P: Provider>(&self, p: &mut P) -> Result<ShapeOf<P::Index>, Error> {
        let operands: Vec<&Shape> = self.operands.iter().collect();
        let stated = Some(&self.instruction.shape);
        shape_of(p, self.module, &self.instruction.op, &operands, stated)
    }

    fn numbers<I: Clone>(shapes: ShapeOf<I>) -> Vec<I> {
        match shapes {
            ShapeOf::Array { dims, .. } => dims.to_vec(),
            ShapeOf::Tuple(elements) => elements.into_iter().flat_map(Self::numbers).collect(),
            // Taken over as it is: nothing is computed.
            ShapeOf::Same(_) => Vec::new(),
        }
    }
}

/// The operands with other sizes, and the same sizes as values.
fn changed(operands: &[&Shape], random: &mut Random) -> (Vec<Shape>, Vec<Actual>) {
    let mut shapes = Vec::new();
    let mut actual = Vec::new();
    let grow = random.between(0, 3);
    for &operand in operands {
        let mut shape = operand.clone();
        let mut sizes = Vec::new();
        if let Shape::Array(array) = &mut shape {
            for dim in &mut array.dims {
                let size = dim.as_static().unwrap_or(1);
                let size = match grow {
                    // All alike, so that what must be equal stays so.
                    0 => size,
                    1 => size * 2,
                    2 => size + 1,
                    _ => random.between(0, 9),
                };
                sizes.push(size);
                *dim = Dim::Static(size);
            }
        }
        shapes.push(shape);
        actual.push(Actual::array(&sizes));
    }
    (shapes, actual)
}

#[test]
fn every_operation_in_three_modes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = vec![root.join("../crates/ir/tests/data/operations.hlo")];
    let folder = std::fs::read_dir(root.join("data/hlo")).expect("a folder");
    paths.extend(folder.map(|entry| entry.expect("an entry").path()));
    paths.retain(|path| path.extension().is_some_and(|e| e == "hlo"));
    paths.sort();
    let mut random = Random::new(11);
    let mut seen = std::collections::BTreeMap::new();
    let mut numbers = 0;
    for path in paths {
        let module = parse_module(&std::fs::read_to_string(&path).expect("text")).expect("reads");
        for instruction in module.instructions.values() {
            let opcode = instruction.op.opcode();
            let times = seen.entry(opcode.to_string()).or_insert(0);
            // Each opcode in many forms; the commonest need no thousand.
            if *times > 30 {
                continue;
            }
            *times += 1;
            let operands: Vec<&Shape> = (instruction.operands.iter())
                .map(|&operand| &module[operand].shape)
                .collect();
            for attempt in 0..3 {
                let (shapes, actual) = match attempt {
                    0 => {
                        let mut same = Random::new(0);
                        let (_, actual) = changed(&operands, &mut same);
                        let own: Vec<Shape> = operands.iter().map(|&s| s.clone()).collect();
                        let sizes = own.iter().zip(actual).map(|(shape, _)| match shape {
                            Shape::Array(array) => {
                                Actual::array(&array.static_dims().unwrap_or_default())
                            }
                            _ => Actual::default(),
                        });
                        let sizes = sizes.collect();
                        (own, sizes)
                    }
                    _ => changed(&operands, &mut random),
                };
                let helper = Hlo {
                    module: &module,
                    instruction,
                    operands: shapes,
                };
                let found = in_three_modes(&helper, &actual).unwrap_or_else(|error| {
                    panic!("{}: {}: {error}", path.display(), instruction.name)
                });
                if let (0, Some(found)) = (attempt, &found) {
                    numbers += found.len();
                }
            }
        }
    }
    println!("{} opcodes, {numbers} sizes", seen.len());
    assert!(seen.len() > 60 && numbers > 500);
}
