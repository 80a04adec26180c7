//! The shapes of HLO operations in three modes: one description of the operands, and
//! analysis, evaluator and machine code give the same sizes. What the operations are
//! comes from the corpus and from a text with every opcode; sizes are changed at random
//! and where that makes an operation wrong, all must say so.

use std::path::Path;
use tegula_expr::index::{Kind, KnownInScope, Phase, Scope};
use tegula_expr::{KnownOperand, Provider, ShapeHelper, Symbols, numbers};
use tegula_ir::helpers::kept_dimensions;
use tegula_ir::{
    ArrayShape, Dim, ElementType, Error, Instruction, Module, Shape, ShapeOf, WindowDim,
    parse_module, shape_of,
};
use tegula_tests::onnx_like::SameConvolution;
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

const SLIDES: &str = "HloModule slides
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY main {
  x = f32[8,9,3] parameter(0)
  k = f32[3,3,4] parameter(1)
  c = f32[8,6,4] convolution(x, k), window={size=3 stride=2 pad=2_2}, dim_labels=b0f_0io->b0f
  z = f32[] constant(0)
  ROOT r = f32[6] reduce(c, z), dimensions={0,2}, to_apply=add
}";

// ---- slide "III. ONNXOpShapeHelper" ---------------------------------------------------

/// An operation, its operands, a builder and a scope are what a shape is computed from;
/// operands other than the operation's own can be given; the scope's numbers are question
/// marks, dims or literals by phase and by what is known.
#[test]
fn slide_shape_helper_operation_operands_builder_and_scope() {
    let module = parse_module(SLIDES).expect("reads");
    let named = |name: &str| {
        let all = module.entry_computation().instructions.iter();
        let mut found = all.map(|&id| &module[id]).filter(|i| &*i.name == name);
        found.next().expect("an instruction")
    };
    let instruction = named("c");
    let own: Vec<Shape> = (instruction.operands.iter())
        .map(|&operand| module[operand].shape.clone())
        .collect();
    let helper = Hlo {
        module: &module,
        instruction,
        operands: own,
    };
    let known = |batch: Option<i64>| {
        let array = |dims: [Option<i64>; 3]| KnownOperand {
            dims: dims.to_vec(),
            elements: None,
        };
        let kernel = [Some(3), Some(3), Some(4)];
        vec![array([batch, Some(9), Some(3)]), array(kernel)]
    };
    for (phase, kind) in [
        (Phase::Analysis, Kind::QuestionMark),
        (Phase::Lowering, Kind::Dim),
    ] {
        for (batch, expected) in [(None, kind), (Some(8), Kind::Literal)] {
            let (mut scope, known) = (Scope::new(), known(batch));
            let mut builder = Symbols(KnownInScope::new(&mut scope, &known, phase));
            // computeShape, getOutputDims
            let shapes = helper.compute(&mut builder).expect("a shape");
            let dims = Hlo::numbers(shapes);
            let kinds = dims
                .iter()
                .map(|d| scope.expr(d).expect("of the scope").kind());
            let kinds: Vec<Kind> = kinds.collect();
            assert_eq!(kinds, [expected, Kind::Literal, Kind::Literal], "{phase:?}");
            assert_eq!(dims[1].as_constant(), Some(6));
        }
    }
    // With other operands than the operation's own.
    let given = Hlo {
        module: &module,
        instruction,
        operands: [[5, 20, 3], [3, 3, 7]]
            .map(|dims| Shape::Array(ArrayShape::new(ElementType::F32, &dims)))
            .to_vec(),
    };
    let operands = [Actual::array(&[5, 20, 3]), Actual::array(&[3, 3, 7])];
    assert_eq!(in_three_modes(&given, &operands), Ok(Some(vec![5, 11, 7])));
}

/// "Some operations define additional useful values": normalised pads and kernel sizes of
/// a convolution, the dimensions of a reduction.
#[test]
fn slide_shape_helper_additional_values() {
    let conv = SameConvolution {
        stride: 2,
        dilation: 1,
        lower: false,
    };
    let operands = [Actual::array(&[9]), Actual::array(&[4])];
    // Positions, pads before and after, the kernel's size.
    assert_eq!(in_three_modes(&conv, &operands), Ok(Some(vec![5, 1, 2, 4])));
    let window = WindowDim {
        size: 3,
        stride: 2,
        padding_low: 2,
        padding_high: 2,
        window_dilation: 1,
        base_dilation: 1,
        reversal: false,
    };
    let sizes = window.sizes(&mut numbers(), &Ok(9));
    assert_eq!(
        (sizes.padded, sizes.extent, sizes.positions),
        (Ok(13), Ok(3), Ok(6))
    );
    assert_eq!(kept_dimensions(&[0, 2], 4).as_slice(), [1, 3]);
}
