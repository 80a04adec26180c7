//! A test case for one operation over parameters: its module, arguments and evaluation.

use tegula_interp::{Value, evaluate};
use tegula_ir::{ElementType, InstructionId, Literal, Module, parse_module};

use crate::common::Random;

/// One instance: operand shapes, result shape, opcode and attributes. Elements of `s32` operands
/// are in `0..most`.
pub(crate) struct Instance {
    operands: Vec<String>,
    result: String,
    operation: String,
    most: i64,
}

pub(crate) fn instance(operands: &[&str], result: &str, operation: &str) -> Instance {
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

pub(crate) struct Case {
    pub(crate) module: Module,
    pub(crate) root: InstructionId,
    pub(crate) text: String,
    most: i64,
}

impl Case {
    pub(crate) fn new(instance: &Instance) -> Self {
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

    pub(crate) fn arguments(&self, random: &mut Random) -> Vec<Value> {
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

    pub(crate) fn run(&self, arguments: &[Value]) -> Vec<Literal> {
        let value = evaluate(&self.module, arguments)
            .unwrap_or_else(|error| panic!("{}: {error}", self.text));
        leaves(&value)
    }
}

pub(crate) fn leaves(value: &Value) -> Vec<Literal> {
    match value {
        Value::Array(literal) => vec![literal.clone()],
        Value::Tuple(elements) => elements.iter().flat_map(leaves).collect(),
        _ => Vec::new(),
    }
}

/// The value with array `leaf` replaced.
pub(crate) fn replaced(value: &Value, leaf: &mut usize, literal: &Literal) -> Value {
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

pub(crate) fn sizes(literal: &Literal) -> Vec<i64> {
    literal.shape().static_dims().expect("static").to_vec()
}

pub(crate) fn unflatten(flat: usize, sizes: &[i64]) -> Vec<i64> {
    let mut rest = flat as i64;
    let mut index = vec![0; sizes.len()];
    for (slot, size) in index.iter_mut().zip(sizes).rev() {
        *slot = rest % size;
        rest /= size;
    }
    index
}
