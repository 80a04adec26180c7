//! `RNN`, `GRU` and `LSTM`. The products with the inputs of all times are computed at once; a loop
//! over time then computes the products with the state.

use super::Lowering;
use super::elementwise::activate;
use super::integers::product_of;
use super::quantization::dynamically_quantized;
use crate::Error;
use crate::lower::{Call, Item, Lowerer, Result, Value};
use tegula_expr::Term;
use tegula_ir::{Direction, ElementType};

pub(super) fn find(op: &str) -> Option<Lowering> {
    matches!(op, "RNN" | "GRU" | "LSTM").then_some(recurrent as Lowering)
}

/// An activation function with its parameters.
#[derive(Clone)]
struct Activation {
    name: String,
    alpha: Option<f64>,
    beta: Option<f64>,
}

impl Activation {
    fn apply(&self, lower: &mut Lowerer<'_>, x: &Value) -> Result<Value> {
        activate(lower, &self.name, x, self.alpha, self.beta)
    }
}

/// The attributes of a recurrent node.
struct Cell {
    op: Kind,
    /// The activations of one direction: for the gates, the cell's input, and the cell's output.
    activations: Vec<Activation>,
    clip: Option<f64>,
    /// LSTM: whether the forget gate is one minus the input gate.
    coupled: bool,
    /// GRU: whether the reset gate is applied after the product.
    reset_after: bool,
    hidden: Term,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Rnn,
    Gru,
    Lstm,
}

impl Kind {
    fn gates(self) -> i64 {
        match self {
            Self::Rnn => 1,
            Self::Gru => 3,
            Self::Lstm => 4,
        }
    }

    fn activations(self) -> &'static [&'static str] {
        match self {
            Self::Rnn => &["Tanh"],
            Self::Gru => &["Sigmoid", "Tanh"],
            Self::Lstm => &["Sigmoid", "Tanh", "Tanh"],
        }
    }
}

/// The scale and the zero point of quantized weights: one number, or one for each row.
#[derive(Clone)]
struct Steps {
    scale: Value,
    zero: Value,
}

/// The product of `[..., inputs]` with weights `[outputs, inputs]`. For quantized weights, the
/// operand is quantized over its range.
fn weighted(
    lower: &mut Lowerer<'_>,
    x: &Value,
    weights: &Value,
    steps: Option<&Steps>,
) -> Result<Value> {
    let Some(steps) = steps else {
        let last = x.rank().saturating_sub(1);
        return lower.dot(x, weights, &[], &[(last, 1)]);
    };
    let [bytes, scale, zero] = dynamically_quantized(lower, x)?;
    let weights = lower.transpose(weights, &[1, 0])?;
    let sum = product_of(
        lower,
        &bytes,
        Some(zero),
        &weights,
        Some(steps.zero.clone()),
    )?;
    let sum = lower.convert(&sum, x.ty)?;
    let scale = lower.mul(&scale, &steps.scale)?;
    lower.mul(&sum, &scale)
}

/// The weights of one direction, and its initial state.
struct Weights {
    /// `[gates * hidden, inputs]`
    input: Value,
    /// `[gates * hidden, hidden]`
    state: Value,
    /// The scales and zero points of quantized weights: of the input's, and of the state's.
    steps: Option<[Steps; 2]>,
    /// `[2 * gates * hidden]`: the bias of the input's product, then of the state's.
    bias: Option<Value>,
    /// `[3 * hidden]`
    peepholes: Option<Value>,
    hidden: Value,
    cell: Option<Value>,
}

/// An LSTM whose weights are quantized, `[directions, inputs, outputs]`, with scales and zero
/// points.
pub(super) fn dynamic_lstm<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let mut inputs = call.inputs.clone();
    for at in [1, 2] {
        let weights = call.input(at)?;
        if weights.rank() != 3 {
            return Err(Error::input("expected three dimensions of X, W and R"));
        }
        inputs[at] = lower.transpose(&weights, &[0, 2, 1])?.into();
    }
    let steps = |scale: usize| -> Result<Steps> {
        Ok(Steps {
            scale: call.input(scale)?,
            zero: call.input(scale + 1)?,
        })
    };
    let steps = [steps(8)?, steps(10)?];
    let node = call.node.as_standard("LSTM");
    recurrent_with(lower, &call.of(&node, call.version, inputs), Some(&steps))
}

fn recurrent<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    recurrent_with(lower, call, None)
}

fn recurrent_with<'a>(
    lower: &mut Lowerer<'a>,
    call: &Call<'_, 'a>,
    steps: Option<&[Steps; 2]>,
) -> Result<Vec<Item>> {
    let op = match call.node.op {
        "RNN" => Kind::Rnn,
        "GRU" => Kind::Gru,
        _ => Kind::Lstm,
    };
    let (mut x, w, r) = (call.input(0)?, call.input(1)?, call.input(2)?);
    if x.rank() != 3 || w.rank() != 3 || r.rank() != 3 {
        return Err(Error::input("expected three dimensions of X, W and R"));
    }
    let by_batch = call.int("layout", 0) != 0;
    if by_batch {
        x = lower.transpose(&x, &[1, 0, 2])?;
    }
    let direction = call.text("direction", "forward");
    let directions = if direction == "bidirectional" { 2 } else { 1 };
    let hidden = r.dims[2].clone();
    let begin = |lower: &mut Lowerer<'a>, at: usize| -> Result<Value> {
        match call.optional(at) {
            Some(value) if by_batch => lower.transpose(&value, &[1, 0, 2]),
            Some(value) => Ok(value),
            None => {
                let dims = [
                    Term::constant(directions),
                    x.dims[1].clone(),
                    hidden.clone(),
                ];
                lower.splat(x.ty, 0.0, &dims)
            }
        }
    };
    let first_hidden = begin(lower, 5)?;
    let first_cell = match op {
        Kind::Lstm => Some(begin(lower, 6)?),
        _ => None,
    };
    let lengths = match call.optional(4) {
        Some(lengths) => Some(lower.convert(&lengths, ElementType::S64)?),
        None => None,
    };
    let mut whole = Vec::new();
    let mut last = Vec::new();
    let mut last_cell = Vec::new();
    for at in 0..directions {
        let cell = Cell {
            op,
            activations: activations(call, op, at as usize)?,
            clip: call.attribute("clip").and_then(|a| a.float).map(f64::from),
            coupled: call.int("input_forget", 0) != 0,
            reset_after: call.int("linear_before_reset", 0) != 0,
            hidden: hidden.clone(),
        };
        let part = |lower: &mut Lowerer<'a>, value: &Value| -> Result<Value> {
            let row = lower.slice(value, 0, &Term::constant(at), &Term::constant(at + 1), 1)?;
            lower.squeeze(&row, 0)
        };
        let optional = |lower: &mut Lowerer<'a>, value: Option<Value>| -> Result<Option<Value>> {
            value.map(|value| part(lower, &value)).transpose()
        };
        let peepholes = if op == Kind::Lstm {
            call.optional(7)
        } else {
            None
        };
        let own_steps = match steps {
            Some([of_input, of_state]) => {
                let mut own = |steps: &Steps| -> Result<Steps> {
                    Ok(Steps {
                        scale: part(lower, &steps.scale)?,
                        zero: part(lower, &steps.zero)?,
                    })
                };
                Some([own(of_input)?, own(of_state)?])
            }
            None => None,
        };
        let weights = Weights {
            input: part(lower, &w)?,
            state: part(lower, &r)?,
            steps: own_steps,
            bias: optional(lower, call.optional(3))?,
            peepholes: optional(lower, peepholes)?,
            hidden: part(lower, &first_hidden)?,
            cell: optional(lower, first_cell.clone())?,
        };
        let backwards = direction == "reverse" || at == 1;
        let input = match backwards {
            true => reversed(lower, &x, lengths.as_ref())?,
            false => x.clone(),
        };
        let [y, h, c] = one_direction(lower, &cell, &input, &weights, lengths.as_ref())?;
        let y = match backwards {
            true => reversed(lower, &y, lengths.as_ref())?,
            false => y,
        };
        whole.push(lower.unsqueeze(&y, 1)?);
        last.push(lower.unsqueeze(&h, 0)?);
        last_cell.push(lower.unsqueeze(&c, 0)?);
    }
    let mut y = lower.concat(&whole, 1)?;
    let mut results = vec![lower.concat(&last, 0)?];
    if op == Kind::Lstm {
        results.push(lower.concat(&last_cell, 0)?);
    }
    if by_batch {
        y = lower.transpose(&y, &[2, 0, 1, 3])?;
        for result in &mut results {
            *result = lower.transpose(result, &[1, 0, 2])?;
        }
    }
    let rest = results.into_iter().map(Item::from);
    Ok(std::iter::once(Item::from(y)).chain(rest).collect())
}

/// The activations of one direction; functions with parameters take them from the lists in order.
fn activations(call: &Call<'_, '_>, op: Kind, direction: usize) -> Result<Vec<Activation>> {
    let defaults = op.activations();
    let first = direction * defaults.len();
    let named = call.attribute("activations").map(|a| a.strings.clone());
    let floats = |name: &str, at: usize| {
        let list = call.attribute(name).map(|a| a.floats.as_slice());
        list.and_then(|list| list.get(at).copied()).map(f64::from)
    };
    let mut all = Vec::new();
    for (at, default) in defaults.iter().enumerate() {
        let name = match &named {
            Some(list) => match list.get(first + at) {
                Some(name) => String::from_utf8_lossy(name).into_owned(),
                None => {
                    return Err(Error::input(format!(
                        "expected {} activations for each direction",
                        defaults.len()
                    )));
                }
            },
            None => (*default).to_owned(),
        };
        all.push(Activation {
            name,
            alpha: floats("activation_alpha", first + at),
            beta: floats("activation_beta", first + at),
        });
    }
    Ok(all)
}

/// Reverses the order of time; in each batch row, only as many steps as it has.
fn reversed(lower: &mut Lowerer<'_>, x: &Value, lengths: Option<&Value>) -> Result<Value> {
    let Some(lengths) = lengths else {
        return lower.reverse(x, 0);
    };
    super::index::reversed_sequences(lower, x, lengths, 0, 1)
}

fn one_direction(
    lower: &mut Lowerer<'_>,
    cell: &Cell,
    x: &Value,
    weights: &Weights,
    lengths: Option<&Value>,
) -> Result<[Value; 3]> {
    let gates = cell.op.gates();
    let [of_input, of_state] = match &weights.steps {
        Some([of_input, of_state]) => [Some(of_input), Some(of_state)],
        None => [None, None],
    };
    let mut inputs = weighted(lower, x, &weights.input, of_input)?;
    let width = cell.hidden.mul(&Term::constant(gates));
    let mut state_bias = None;
    if let Some(bias) = &weights.bias {
        let zero = Term::constant(0);
        let of_input = lower.slice(bias, 0, &zero, &width, 1)?;
        let of_state = lower.slice(bias, 0, &width, &width.add(&width), 1)?;
        inputs = lower.add(&inputs, &of_input)?;
        match cell.op == Kind::Gru && cell.reset_after {
            true => state_bias = Some(of_state),
            false => inputs = lower.add(&inputs, &of_state)?,
        }
    }
    let time = x.dims[0].clone();
    let whole_dims = [time.clone(), x.dims[1].clone(), cell.hidden.clone()];
    let whole = lower.splat(x.ty, 0.0, &whole_dims)?;
    let mut read = vec![inputs, weights.state.clone()];
    let bias_at = push(&mut read, state_bias);
    let peepholes_at = push(&mut read, weights.peepholes.clone());
    let lengths_at = push(&mut read, lengths.cloned());
    let scale_at = push(&mut read, of_state.map(|steps| steps.scale.clone()));
    let zero_at = push(&mut read, of_state.map(|steps| steps.zero.clone()));
    let first_cell = weights.cell.clone().unwrap_or(weights.hidden.clone());
    let state = [weights.hidden.clone(), first_cell, whole];
    let done = lower.counted_loop(&time, &read, &state, |lower, step, read, state| {
        let input = lower.at_index(&read[0], 0, step)?;
        let given = Given {
            input: &input,
            weights: &read[1],
            steps: scale_at.zip(zero_at).map(|(scale, zero)| Steps {
                scale: read[scale].clone(),
                zero: read[zero].clone(),
            }),
            bias: bias_at.map(|at| &read[at]),
            peepholes: peepholes_at.map(|at| &read[at]),
        };
        let (mut h, mut c) = match cell.op {
            Kind::Rnn => (rnn(lower, cell, &given, &state[0])?, state[1].clone()),
            Kind::Gru => (gru(lower, cell, &given, &state[0])?, state[1].clone()),
            Kind::Lstm => lstm(lower, cell, &given, &state[0], &state[1])?,
        };
        let mut shown = h.clone();
        if let Some(at) = lengths_at {
            // After its last step, a row keeps its state and returns zeros.
            let runs = lower.compare(Direction::Gt, &read[at], step)?;
            let runs = lower.unsqueeze(&runs, 1)?;
            let zero = lower.like(&h, 0.0)?;
            shown = lower.select(&runs, &h, &zero)?;
            h = lower.select(&runs, &h, &state[0])?;
            c = lower.select(&runs, &c, &state[1])?;
        }
        let whole = lower.with_row(&state[2], 0, step, &shown)?;
        Ok(vec![h, c, whole])
    })?;
    match done.as_slice() {
        [h, c, whole] => Ok([whole.clone(), h.clone(), c.clone()]),
        _ => Err(Error::input("a loop of three values has three results")),
    }
}

fn push(list: &mut Vec<Value>, value: Option<Value>) -> Option<usize> {
    let value = value?;
    list.push(value);
    Some(list.len() - 1)
}

/// The inputs of one step.
struct Given<'v> {
    /// `[batch, gates * hidden]`: the product with the input, including the bias.
    input: &'v Value,
    weights: &'v Value,
    steps: Option<Steps>,
    bias: Option<&'v Value>,
    peepholes: Option<&'v Value>,
}

/// One of several parts of the last dimension, each of the hidden size.
fn part(lower: &mut Lowerer<'_>, cell: &Cell, x: &Value, at: i64) -> Result<Value> {
    let start = cell.hidden.mul(&Term::constant(at));
    let last = x.rank().saturating_sub(1);
    lower.slice(x, last, &start, &start.add(&cell.hidden), 1)
}

fn clipped(lower: &mut Lowerer<'_>, cell: &Cell, x: &Value) -> Result<Value> {
    let Some(bound) = cell.clip else {
        return Ok(x.clone());
    };
    let (low, high) = (lower.like(x, -bound)?, lower.like(x, bound)?);
    let x = lower.max(x, &low)?;
    lower.min(&x, &high)
}

fn rnn(lower: &mut Lowerer<'_>, cell: &Cell, given: &Given<'_>, h: &Value) -> Result<Value> {
    let product = lower.dot(h, given.weights, &[], &[(1, 1)])?;
    let sum = lower.add(given.input, &product)?;
    let sum = clipped(lower, cell, &sum)?;
    cell.activations[0].apply(lower, &sum)
}

/// The gates are in the order update, reset, hidden.
fn gru(lower: &mut Lowerer<'_>, cell: &Cell, given: &Given<'_>, h: &Value) -> Result<Value> {
    let [gate, output] = [&cell.activations[0], &cell.activations[1]];
    let two = cell.hidden.mul(&Term::constant(2));
    let all = cell.hidden.mul(&Term::constant(3));
    let zero = Term::constant(0);
    let (products, of_hidden) = match cell.reset_after {
        // One product serves all gates, because the reset gate is applied after it.
        true => {
            let mut products = lower.dot(h, given.weights, &[], &[(1, 1)])?;
            if let Some(bias) = given.bias {
                products = lower.add(&products, bias)?;
            }
            let of_hidden = part(lower, cell, &products, 2)?;
            (products, Some(of_hidden))
        }
        false => {
            let gates = lower.slice(given.weights, 0, &zero, &two, 1)?;
            (lower.dot(h, &gates, &[], &[(1, 1)])?, None)
        }
    };
    let mut gates = Vec::new();
    for at in 0..2 {
        let (a, b) = (
            part(lower, cell, given.input, at)?,
            part(lower, cell, &products, at)?,
        );
        let sum = lower.add(&a, &b)?;
        let sum = clipped(lower, cell, &sum)?;
        gates.push(gate.apply(lower, &sum)?);
    }
    let (update, reset) = (&gates[0], &gates[1]);
    let of_hidden = match of_hidden {
        Some(product) => lower.mul(reset, &product)?,
        None => {
            let weights = lower.slice(given.weights, 0, &two, &all, 1)?;
            let kept = lower.mul(reset, h)?;
            lower.dot(&kept, &weights, &[], &[(1, 1)])?
        }
    };
    let own = part(lower, cell, given.input, 2)?;
    let sum = lower.add(&own, &of_hidden)?;
    let sum = clipped(lower, cell, &sum)?;
    let new = output.apply(lower, &sum)?;
    let one = lower.like(update, 1.0)?;
    let rest = lower.sub(&one, update)?;
    let (new, old) = (lower.mul(&rest, &new)?, lower.mul(update, h)?);
    lower.add(&new, &old)
}

/// The gates are in the order input, output, forget, cell; the peepholes input, output, forget.
fn lstm(
    lower: &mut Lowerer<'_>,
    cell: &Cell,
    given: &Given<'_>,
    h: &Value,
    c: &Value,
) -> Result<(Value, Value)> {
    let [gate, input, output] = [
        &cell.activations[0],
        &cell.activations[1],
        &cell.activations[2],
    ];
    let products = weighted(lower, h, given.weights, given.steps.as_ref())?;
    let sums = lower.add(given.input, &products)?;
    let gated = |lower: &mut Lowerer<'_>, at: i64, seen: &Value| -> Result<Value> {
        let mut sum = part(lower, cell, &sums, at)?;
        if let Some(peepholes) = given.peepholes {
            let own = part(lower, cell, peepholes, at)?;
            let own = lower.mul(seen, &own)?;
            sum = lower.add(&sum, &own)?;
        }
        let sum = clipped(lower, cell, &sum)?;
        gate.apply(lower, &sum)
    };
    let i = gated(lower, 0, c)?;
    let f = match cell.coupled {
        true => {
            let one = lower.like(&i, 1.0)?;
            lower.sub(&one, &i)?
        }
        false => gated(lower, 2, c)?,
    };
    let sum = part(lower, cell, &sums, 3)?;
    let sum = clipped(lower, cell, &sum)?;
    let new = input.apply(lower, &sum)?;
    let (old, new) = (lower.mul(&f, c)?, lower.mul(&i, &new)?);
    let c = lower.add(&old, &new)?;
    let o = gated(lower, 1, &c)?;
    let shown = output.apply(lower, &c)?;
    Ok((lower.mul(&o, &shown)?, c))
}
