//! Random programs with open sizes: HLO text in which some dimensions of the inputs, and all
//! dimensions that depend on them, are `?`.
//!
//! With given sizes, the same text is a static program, which serves as the oracle. Elements are
//! small integers, in s32 and in f32, so every target gives the same bits.

mod structure;
mod windows;

use crate::random::Random;
use std::fmt::Write;
use tegula_ir::{ArrayShape, ElementType, Literal, Scalar};

/// A program with open sizes.
#[derive(Clone, Debug)]
pub struct SymbolicProgram {
    /// HLO text.
    pub text: String,
    parameters: Vec<Known>,
    opens: usize,
}

/// A size: known, or a formula over the open sizes. Equal sizes have the same formula text.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Size {
    Known(i64),
    /// An open size of the inputs.
    Open(usize),
    /// A formula over open sizes.
    Derived(String),
}

impl Size {
    fn text(&self) -> String {
        match self {
            Self::Known(size) => size.to_string(),
            _ => "?".to_owned(),
        }
    }

    fn formula(&self) -> String {
        match self {
            Self::Known(size) => size.to_string(),
            Self::Open(number) => format!("n{number}"),
            Self::Derived(formula) => formula.clone(),
        }
    }

    fn is_known(&self) -> bool {
        matches!(self, Self::Known(_))
    }
}

/// An array of the program.
#[derive(Clone, Debug)]
struct Known {
    name: String,
    ty: ElementType,
    dims: Vec<Size>,
}

impl Known {
    fn shape(&self) -> String {
        shape(self.ty, &self.dims)
    }

    fn open_dims(&self) -> usize {
        self.dims.iter().filter(|d| !d.is_known()).count()
    }
}

fn shape(ty: ElementType, dims: &[Size]) -> String {
    let dims: Vec<String> = dims.iter().map(Size::text).collect();
    format!("{ty}[{}]", dims.join(","))
}

/// A random program.
pub fn symbolic_program(seed: u64) -> SymbolicProgram {
    let mut generator = Generator {
        random: Random::new(seed),
        body: String::new(),
        called: String::new(),
        values: Vec::new(),
        names: 0,
    };
    let opens = generator.random.between(1, 2) as usize;
    let parameters = generator.parameters(opens);
    let operations = generator.random.between(3, 9);
    for _ in 0..operations {
        generator.operation();
    }
    let text = generator.finish();
    SymbolicProgram {
        text,
        parameters,
        opens,
    }
}

impl SymbolicProgram {
    /// A value for each open size.
    pub fn sizes(&self, random: &mut Random) -> Vec<i64> {
        (0..self.opens)
            .map(|_| *random.pick(&[0, 1, 2, 3, 5, 8, 17]))
            .collect()
    }

    /// The names of the inputs' open dimensions with their sizes.
    pub fn dims(&self, sizes: &[i64]) -> Vec<(String, i64)> {
        let mut dims = Vec::new();
        for (p, parameter) in self.parameters.iter().enumerate() {
            for (d, dim) in parameter.dims.iter().enumerate() {
                if let Size::Open(number) = dim {
                    dims.push((format!("p{p}_d{d}"), sizes[*number]));
                }
            }
        }
        dims
    }

    /// Inputs of these sizes.
    pub fn inputs(&self, sizes: &[i64], random: &mut Random) -> Vec<Literal> {
        let size = |dim: &Size| match dim {
            Size::Known(size) => *size,
            Size::Open(number) => sizes[*number],
            Size::Derived(_) => 0,
        };
        let array = |parameter: &Known| {
            let dims: Vec<i64> = parameter.dims.iter().map(size).collect();
            let shape = ArrayShape::new(parameter.ty, &dims);
            let mut literal = Literal::zeros(&shape).expect("small sizes");
            for i in 0..literal.len() {
                let number = random.between(-3, 3);
                let scalar = match parameter.ty {
                    ElementType::S32 => Scalar::Int(number),
                    _ => Scalar::Float(number as f64),
                };
                literal.set_scalar(i, scalar).expect("a number of the type");
            }
            literal
        };
        self.parameters.iter().map(array).collect()
    }
}

struct Generator {
    random: Random,
    body: String,
    /// Called computations.
    called: String,
    values: Vec<Known>,
    names: usize,
}

impl Generator {
    fn parameters(&mut self, opens: usize) -> Vec<Known> {
        let count = self.random.between(1, 3) as usize;
        for number in 0..count {
            let like = (!self.values.is_empty() && self.random.once_in(2))
                .then(|| self.values[0].dims.clone());
            let dims = like.unwrap_or_else(|| {
                let rank = self.random.between(1, 3) as usize;
                // The first input has all open sizes, so that every one of them is determined.
                let mut dims: Vec<Size> = (0..rank).map(|_| self.size(opens)).collect();
                if number == 0 {
                    dims.extend((0..opens).map(Size::Open));
                }
                dims.truncate(4);
                dims
            });
            let ty = *self.random.pick(&[ElementType::S32, ElementType::F32]);
            let known = Known {
                name: format!("p{number}"),
                ty,
                dims,
            };
            let mut shape = known.shape();
            if self.random.once_in(4) {
                shape = shape.replace('?', "<=17");
            }
            let _ = writeln!(self.body, "  p{number} = {shape} parameter({number})");
            self.values.push(known);
        }
        self.values.clone()
    }

    fn size(&mut self, opens: usize) -> Size {
        match self.random.below(3) {
            0 => Size::Open(self.random.below(opens)),
            _ => Size::Known(self.random.between(1, 4)),
        }
    }

    fn finish(mut self) -> String {
        let last = self.values.split_off(self.values.len().saturating_sub(3));
        let names: Vec<&str> = last.iter().map(|v| v.name.as_str()).collect();
        let shapes: Vec<String> = last.iter().map(Known::shape).collect();
        let (shapes, names) = (shapes.join(", "), names.join(", "));
        let _ = writeln!(self.body, "  ROOT results = ({shapes}) tuple({names})");
        let mut text = "HloModule symbolic\n\n".to_owned();
        for (ty, name) in [(ElementType::S32, "s32"), (ElementType::F32, "f32")] {
            for op in ["add", "maximum"] {
                let _ = writeln!(
                    text,
                    "{op}_{name} {{\n  a = {ty}[] parameter(0)\n  b = {ty}[] parameter(1)\n  ROOT c = {ty}[] {op}(a, b)\n}}\n"
                );
            }
            let _ = writeln!(
                text,
                "most_{name} {{\n  a = {ty}[] parameter(0)\n  b = {ty}[] parameter(1)\n  ROOT c = pred[] compare(a, b), direction=GE\n}}\n"
            );
            let _ = writeln!(
                text,
                "less_{name} {{\n  a = {ty}[] parameter(0)\n  b = {ty}[] parameter(1)\n  ROOT c = pred[] compare(a, b), direction=LT\n}}\n"
            );
        }
        let _ = write!(text, "{}ENTRY main {{\n{}}}\n", self.called, self.body);
        text
    }

    fn emit(&mut self, ty: ElementType, dims: &[Size], operation: &str) -> Known {
        self.names += 1;
        let known = Known {
            name: format!("v{}", self.names),
            ty,
            dims: dims.to_vec(),
        };
        let (name, shape) = (&known.name, known.shape());
        let _ = writeln!(self.body, "  {name} = {shape} {operation}");
        known
    }

    fn constant(&mut self, ty: ElementType, value: i64) -> String {
        self.emit(ty, &[], &format!("constant({value})")).name
    }

    /// Clamps a value to small numbers, so that products stay exact, and adds it to the known
    /// values.
    fn keep(&mut self, value: &Known) {
        let (low, high) = (self.constant(value.ty, -4), self.constant(value.ty, 4));
        let clamped = format!("clamp({low}, {}, {high})", value.name);
        let kept = self.emit(value.ty, &value.dims, &clamped);
        self.values.push(kept);
    }

    fn pick(&mut self) -> Known {
        self.random.pick(&self.values).clone()
    }

    /// A value of the same type and sizes as another, possibly that value itself.
    fn like(&mut self, value: &Known) -> Known {
        let same: Vec<Known> = (self.values.iter())
            .filter(|v| v.ty == value.ty && v.dims == value.dims)
            .cloned()
            .collect();
        self.random.pick(&same).clone()
    }

    fn operation(&mut self) {
        let value = self.pick();
        match self.random.below(31) {
            0 => self.binary(&value),
            1 => self.with_scalar(&value),
            2 => self.with_iota(&value),
            3 => self.normalise(&value),
            4 => self.reduce(&value),
            5 => self.transpose(&value),
            6 => self.reshape(&value),
            7 => self.concatenate(&value),
            8 => self.pad(&value),
            9 => self.reverse(&value),
            10 => self.window(&value),
            11 => self.dot(&value),
            12 => self.sort(&value),
            13 => self.repeat(&value),
            14 => self.choose(&value),
            15 => self.take_rows(&value),
            16 => self.put_rows(&value),
            17 => self.dimension_size(&value),
            18 => self.slice(&value),
            19 => self.wide_window(&value),
            20 => self.convolution(&value),
            21 => self.select_and_scatter(&value),
            22 => self.take_windows(&value),
            23 => self.dynamic_slice(&value),
            24 => self.outer(&value),
            25 => self.swap(&value),
            26 => self.call(&value),
            27 => self.sort_pairs(&value),
            28 => self.place_of_largest(&value),
            29 => self.merge(&value),
            _ => self.update(&value),
        }
    }

    fn binary(&mut self, value: &Known) {
        let other = self.like(value);
        let op = *self
            .random
            .pick(&["add", "multiply", "maximum", "subtract"]);
        let operation = format!("{op}({}, {})", value.name, other.name);
        let result = self.emit(value.ty, &value.dims, &operation);
        self.keep(&result);
    }

    fn combine(&mut self, value: &Known, other: &Known) {
        let operation = format!("subtract({}, {})", value.name, other.name);
        let result = self.emit(value.ty, &value.dims, &operation);
        self.keep(&result);
    }

    fn with_scalar(&mut self, value: &Known) {
        let number = self.random.between(-2, 2);
        let scalar = self.constant(value.ty, number);
        let operation = format!("broadcast({scalar}), dimensions={{}}");
        let other = self.emit(value.ty, &value.dims, &operation);
        self.combine(value, &other);
    }

    fn with_iota(&mut self, value: &Known) {
        if value.dims.is_empty() {
            return;
        }
        let along = self.random.below(value.dims.len());
        let operation = format!("iota(), iota_dimension={along}");
        let other = self.emit(value.ty, &value.dims, &operation);
        self.combine(value, &other);
    }

    /// Subtracts from the array its maxima along a dimension.
    fn normalise(&mut self, value: &Known) {
        if value.dims.is_empty() {
            return;
        }
        let along = self.random.below(value.dims.len());
        let reduced = self.reduced(value, &[along], "maximum");
        let kept: Vec<String> = (0..value.dims.len())
            .filter(|&d| d != along)
            .map(|d| d.to_string())
            .collect();
        let operation = format!(
            "broadcast({}), dimensions={{{}}}",
            reduced.name,
            kept.join(",")
        );
        let back = self.emit(value.ty, &value.dims, &operation);
        self.combine(value, &back);
    }

    fn reduced(&mut self, value: &Known, along: &[usize], op: &str) -> Known {
        let start = self.constant(value.ty, if op == "add" { 0 } else { -9 });
        let dims: Vec<Size> = (0..value.dims.len())
            .filter(|d| !along.contains(d))
            .map(|d| value.dims[d].clone())
            .collect();
        let numbers: Vec<String> = along.iter().map(ToString::to_string).collect();
        let operation = format!(
            "reduce({}, {start}), dimensions={{{}}}, to_apply={op}_{}",
            value.name,
            numbers.join(","),
            value.ty
        );
        self.emit(value.ty, &dims, &operation)
    }

    fn reduce(&mut self, value: &Known) {
        let along: Vec<usize> = (0..value.dims.len())
            .filter(|_| self.random.once_in(2))
            .collect();
        let op = *self.random.pick(&["add", "maximum"]);
        let result = self.reduced(value, &along, op);
        self.keep(&result);
    }

    fn transpose(&mut self, value: &Known) {
        let mut order: Vec<usize> = (0..value.dims.len()).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, self.random.below(i + 1));
        }
        let dims: Vec<Size> = order.iter().map(|&d| value.dims[d].clone()).collect();
        let order: Vec<String> = order.iter().map(ToString::to_string).collect();
        let operation = format!(
            "transpose({}), dimensions={{{}}}",
            value.name,
            order.join(",")
        );
        let result = self.emit(value.ty, &dims, &operation);
        self.values.push(result);
    }

    /// Merges two adjacent dimensions, or splits one of known size. A result with more than one
    /// open size would be ambiguous.
    fn reshape(&mut self, value: &Known) {
        let mut dims = value.dims.clone();
        let at = self.random.below(dims.len().max(1));
        match (dims.get(at).cloned(), dims.get(at + 1).cloned()) {
            (Some(a), Some(b)) if self.random.once_in(2) => {
                let merged = match (&a, &b) {
                    (Size::Known(a), Size::Known(b)) => Size::Known(a * b),
                    _ => Size::Derived(format!("({} * {})", a.formula(), b.formula())),
                };
                dims.splice(at..at + 2, [merged]);
            }
            (Some(Size::Known(size)), _) if size % 2 == 0 => {
                dims.splice(at..=at, [Size::Known(2), Size::Known(size / 2)]);
            }
            _ => dims.insert(at, Size::Known(1)),
        }
        if dims.iter().filter(|d| !d.is_known()).count() > 1 {
            return;
        }
        let operation = format!("reshape({})", value.name);
        let result = self.emit(value.ty, &dims, &operation);
        self.values.push(result);
    }

    fn concatenate(&mut self, value: &Known) {
        if value.dims.is_empty() {
            return;
        }
        let along = self.random.below(value.dims.len());
        let other = self.like(value);
        let mut dims = value.dims.clone();
        dims[along] = match &dims[along] {
            Size::Known(size) => Size::Known(2 * size),
            open => Size::Derived(format!("(2 * {})", open.formula())),
        };
        let operation = format!(
            "concatenate({}, {}), dimensions={{{along}}}",
            value.name, other.name
        );
        let result = self.emit(value.ty, &dims, &operation);
        self.values.push(result);
    }

    fn pad(&mut self, value: &Known) {
        let mut dims = Vec::new();
        let mut config = Vec::new();
        for dim in &value.dims {
            let (low, high) = (self.random.between(0, 2), self.random.between(0, 2));
            let interior = i64::from(self.random.once_in(4));
            config.push(format!("{low}_{high}_{interior}"));
            dims.push(match dim {
                Size::Known(size) => Size::Known(size + low + high + (size - 1).max(0) * interior),
                open if low + high + interior == 0 => open.clone(),
                open => Size::Derived(format!(
                    "pad({}, {low}, {high}, {interior})",
                    open.formula()
                )),
            });
        }
        let filler = self.constant(value.ty, 1);
        let operation = match config.is_empty() {
            true => return,
            false => format!(
                "pad({}, {filler}), padding={}",
                value.name,
                config.join("x")
            ),
        };
        let result = self.emit(value.ty, &dims, &operation);
        self.values.push(result);
    }

    fn reverse(&mut self, value: &Known) {
        let along: Vec<String> = (0..value.dims.len())
            .filter(|_| self.random.once_in(2))
            .map(|d| d.to_string())
            .collect();
        let operation = format!(
            "reverse({}), dimensions={{{}}}",
            value.name,
            along.join(",")
        );
        let result = self.emit(value.ty, &value.dims, &operation);
        self.values.push(result);
    }

    /// Sums of windows of three elements along a dimension.
    fn window(&mut self, value: &Known) {
        if value.dims.is_empty() {
            return;
        }
        let along = self.random.below(value.dims.len());
        let stride = self.random.between(1, 2);
        let one = |inside: &str, outside: &str| -> String {
            let list = (0..value.dims.len()).map(|d| if d == along { inside } else { outside });
            list.collect::<Vec<_>>().join("x")
        };
        let (size, pad) = (one("3", "1"), one("1_1", "0_0"));
        let step = one(&stride.to_string(), "1");
        let mut dims = value.dims.clone();
        dims[along] = match &dims[along] {
            Size::Known(size) => Size::Known((size - 1).div_euclid(stride) + 1),
            open if stride == 1 => open.clone(),
            open => Size::Derived(format!("window({}, {stride})", open.formula())),
        };
        let zero = self.constant(value.ty, 0);
        let operation = format!(
            "reduce-window({}, {zero}), window={{size={size} stride={step} pad={pad}}}, to_apply=add_{}",
            value.name, value.ty
        );
        let result = self.emit(value.ty, &dims, &operation);
        self.keep(&result);
    }

    /// A dot product of the array and one of the same shape, contracted along a dimension.
    fn dot(&mut self, value: &Known) {
        let rank = value.dims.len();
        if rank == 0 || rank > 3 {
            return;
        }
        let along = self.random.below(rank);
        let other = self.like(value);
        let batch: Vec<usize> = (0..rank)
            .filter(|&d| d != along && self.random.once_in(2))
            .collect();
        let free = (0..rank).filter(|d| *d != along && !batch.contains(d));
        let free: Vec<Size> = free.map(|d| value.dims[d].clone()).collect();
        let mut dims: Vec<Size> = batch.iter().map(|&d| value.dims[d].clone()).collect();
        dims.extend(free.clone());
        dims.extend(free);
        let batch: Vec<String> = batch.iter().map(ToString::to_string).collect();
        let batch = batch.join(",");
        let operation = format!(
            "dot({}, {}), lhs_batch_dims={{{batch}}}, lhs_contracting_dims={{{along}}}, rhs_batch_dims={{{batch}}}, rhs_contracting_dims={{{along}}}",
            value.name, other.name
        );
        let result = self.emit(value.ty, &dims, &operation);
        self.keep_product(&result);
    }

    /// Adds 0 to a product, because the sign of a zero that a dot product gives is not defined, but
    /// becomes positive by the addition.
    fn keep_product(&mut self, result: &Known) {
        let zero = self.constant(result.ty, 0);
        let operation = format!("broadcast({zero}), dimensions={{}}");
        let zeros = self.emit(result.ty, &result.dims, &operation);
        let operation = format!("add({}, {})", result.name, zeros.name);
        let result = self.emit(result.ty, &result.dims, &operation);
        self.keep(&result);
    }

    fn sort(&mut self, value: &Known) {
        if value.dims.is_empty() {
            return;
        }
        let along = self.random.below(value.dims.len());
        let operation = format!(
            "sort({}), dimensions={{{along}}}, is_stable=true, to_apply=less_{}",
            value.name, value.ty
        );
        let result = self.emit(value.ty, &value.dims, &operation);
        self.values.push(result);
    }

    /// A loop that changes the array three times.
    fn repeat(&mut self, value: &Known) {
        self.names += 1;
        let (number, array) = (self.names, value.shape());
        let ty = value.ty;
        let state = format!("(s32[], {array})");
        let _ = write!(
            self.called,
            "condition{number} {{\n  s = {state} parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n  n = s32[] constant(3)\n  ROOT more = pred[] compare(i, n), direction=LT\n}}\n\n"
        );
        let _ = write!(
            self.called,
            "body{number} {{\n  s = {state} parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n  one = s32[] constant(1)\n  next = s32[] add(i, one)\n  x = {array} get-tuple-element(s), index=1\n  c = {ty}[] constant(1)\n  cs = {array} broadcast(c), dimensions={{}}\n  y = {array} subtract(cs, x)\n  ROOT t = {state} tuple(next, y)\n}}\n\n"
        );
        let zero = self.constant(ElementType::S32, 0);
        let name = &value.name;
        let _ = writeln!(self.body, "  init{number} = {state} tuple({zero}, {name})");
        let _ = writeln!(
            self.body,
            "  loop{number} = {state} while(init{number}), condition=condition{number}, body=body{number}"
        );
        let operation = format!("get-tuple-element(loop{number}), index=1");
        let result = self.emit(ty, &value.dims, &operation);
        self.keep(&result);
    }

    /// A conditional on whether the sum of the array is positive.
    fn choose(&mut self, value: &Known) {
        self.names += 1;
        let (number, array, ty) = (self.names, value.shape(), value.ty);
        for (branch, op) in [("yes", "negate"), ("no", "abs")] {
            let _ = write!(
                self.called,
                "{branch}{number} {{\n  x = {array} parameter(0)\n  ROOT y = {array} {op}(x)\n}}\n\n"
            );
        }
        let all: Vec<usize> = (0..value.dims.len()).collect();
        let sum = self.reduced(value, &all, "add");
        let zero = self.constant(ty, 0);
        let operation = format!("compare({}, {zero}), direction=GT", sum.name);
        let positive = self.emit(ElementType::Pred, &[], &operation);
        let operation = format!(
            "conditional({}, {}, {}), true_computation=yes{number}, false_computation=no{number}",
            positive.name, value.name, value.name
        );
        let result = self.emit(ty, &value.dims, &operation);
        self.values.push(result);
    }

    /// A one-dimensional `s32` array, for use as indices.
    fn indices(&mut self) -> Option<Known> {
        let usable = |v: &&Known| v.ty == ElementType::S32 && v.dims.len() == 1;
        let found: Vec<Known> = self.values.iter().filter(usable).cloned().collect();
        (!found.is_empty()).then(|| self.random.pick(&found).clone())
    }

    fn table(&self, value: &Known) -> Option<i64> {
        match value.dims.as_slice() {
            [_, Size::Known(columns)] => Some(*columns),
            _ => None,
        }
    }

    fn take_rows(&mut self, value: &Known) {
        let (Some(columns), Some(indices)) = (self.table(value), self.indices()) else {
            return;
        };
        let dims = [indices.dims[0].clone(), Size::Known(columns)];
        let operation = format!(
            "gather({}, {}), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,{columns}}}",
            value.name, indices.name
        );
        let result = self.emit(value.ty, &dims, &operation);
        self.values.push(result);
    }

    fn put_rows(&mut self, value: &Known) {
        let (Some(columns), Some(indices)) = (self.table(value), self.indices()) else {
            return;
        };
        let one = self.constant(value.ty, 1);
        let dims = [indices.dims[0].clone(), Size::Known(columns)];
        let operation = format!("broadcast({one}), dimensions={{}}");
        let updates = self.emit(value.ty, &dims, &operation);
        let operation = format!(
            "scatter({}, {}, {}), update_window_dims={{1}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=add_{}",
            value.name, indices.name, updates.name, value.ty
        );
        let result = self.emit(value.ty, &value.dims, &operation);
        self.keep(&result);
    }

    fn dimension_size(&mut self, value: &Known) {
        if value.dims.is_empty() || value.ty != ElementType::S32 {
            return;
        }
        let along = self.random.below(value.dims.len());
        let operation = format!("get-dimension-size({}), dimensions={{{along}}}", value.name);
        let size = self.emit(ElementType::S32, &[], &operation);
        let operation = format!("broadcast({}), dimensions={{}}", size.name);
        let sizes = self.emit(ElementType::S32, &value.dims, &operation);
        self.combine(value, &sizes);
    }

    /// Writes the maxima along a known dimension as a slice into the array.
    fn update(&mut self, value: &Known) {
        let known: Vec<usize> = (0..value.dims.len())
            .filter(|&d| value.dims[d].is_known())
            .collect();
        if known.is_empty() || value.open_dims() > 1 {
            return;
        }
        let along = *self.random.pick(&known);
        let reduced = self.reduced(value, &[along], "maximum");
        let mut dims = value.dims.clone();
        dims[along] = Size::Known(1);
        let operation = format!("reshape({})", reduced.name);
        let slice = self.emit(value.ty, &dims, &operation);
        let mut starts = Vec::new();
        for _ in 0..value.dims.len() {
            let start = self.random.between(-1, 4);
            starts.push(self.constant(ElementType::S32, start));
        }
        let operation = format!(
            "dynamic-update-slice({}, {}, {})",
            value.name,
            slice.name,
            starts.join(", ")
        );
        let result = self.emit(value.ty, &value.dims, &operation);
        self.values.push(result);
    }
}
