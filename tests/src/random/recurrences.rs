//! Random recurrences: loops of many small steps over a few numbers. Like real ones, they have
//! small products, loop-invariant sums, masks of large negative numbers, conditionals, updates of
//! an array that the step reads, and nested loops.

use super::{Body, Generator, Regime};
use std::fmt::Write;
use tegula_ir::ElementType;

impl Generator {
    /// A loop whose state is a counter, a few numbers, an array that is updated, and an invariant
    /// matrix.
    pub(super) fn recurrence(&mut self, body: &mut Body) {
        // Floats are only for the general regime, because sums of products are rounded.
        let is_float = self.regime == Regime::General && !self.random.once_in(3);
        let ty = if is_float {
            ElementType::F32
        } else {
            ElementType::S32
        };
        let known = self.any_where(body, |k| {
            k.ty == ty && k.dims.len() == 1 && (1..=12).contains(&k.dims[0])
        });
        let n = known.as_ref().map_or(3, |k| k.dims[0]);
        let long = self.random.between(20, 60);
        let row = format!("{ty}[{n}]");
        let matrix = format!("{ty}[{n},{n}]");
        let array = format!("{ty}[{long}]");
        let state = format!("(s32[], {row}, {array}, {matrix})");
        let trips = self.random.between(0, 50);
        let condition = self.name();
        let _ = writeln!(
            self.computations,
            "{condition} {{\n  s = {state} parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n  n = s32[] constant({trips})\n  ROOT c = pred[] compare(i, n), direction=LT\n}}\n"
        );
        let step = self.recurrence_step(is_float, [n, long], [&row, &matrix, &array, &state]);
        let at = [(); 8].map(|()| self.name());
        let [zero, start, x, square, m, flat, init, result] = &at;
        let text = &mut body.text;
        let _ = writeln!(text, "  {zero} = s32[] constant(0)");
        let half = if is_float { "0.5" } else { "3" };
        let _ = writeln!(text, "  {start} = {ty}[] constant({half})");
        let x = match &known {
            Some(known) => &known.name,
            None => {
                let _ = writeln!(text, "  {x} = {row} broadcast({start}), dimensions={{}}");
                x
            }
        };
        let _ = writeln!(text, "  {square} = s32[{n},{n}] iota(), iota_dimension=1");
        let _ = writeln!(text, "  {m} = {matrix} convert({square})");
        let _ = writeln!(
            text,
            "  {flat} = {array} broadcast({start}), dimensions={{}}"
        );
        let _ = writeln!(text, "  {init} = {state} tuple({zero}, {x}, {flat}, {m})");
        let _ = writeln!(
            text,
            "  {result} = {state} while({init}), condition={condition}, body={step}"
        );
        for (index, size) in [(1, n), (2, long)] {
            // Sometimes, a state that nothing reads.
            if !self.random.once_in(4) {
                let text = format!("get-tuple-element({result}), index={index}");
                self.define(body, ty, &[size], 64, &text);
            }
        }
    }

    /// Writes the loop's body, and returns its name.
    fn recurrence_step(
        &mut self,
        is_float: bool,
        [n, long]: [i64; 2],
        [row, matrix, array, state]: [&str; 4],
    ) -> String {
        let ty = if is_float {
            ElementType::F32
        } else {
            ElementType::S32
        };
        let add = self.combiner("add", ty);
        let mut text = format!(
            "  s = {state} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = {row} get-tuple-element(s), index=1
  y = {array} get-tuple-element(s), index=2
  m = {matrix} get-tuple-element(s), index=3
  one = s32[] constant(1)
  next = s32[] add(i, one)
"
        );
        let (small, none) = if is_float {
            ("0.0625", "0")
        } else {
            ("3", "0")
        };
        let _ = writeln!(
            text,
            "  small = {ty}[] constant({small})\n  none = {ty}[] constant({none})"
        );
        let _ = writeln!(text, "  smalls = {row} broadcast(small), dimensions={{}}");
        let _ = writeln!(text, "  x0 = {row} multiply(x, smalls)");
        let mut last = 0;
        for _ in 0..1 + self.random.below(4) {
            let part = match self.random.below(6) {
                0 => format!(
                    "  d{last} = {ty}[] dot(x, x), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  e{last} = {ty}[] multiply(d{last}, small)
  p{last} = {row} broadcast(e{last}), dimensions={{}}\n"
                ),
                1 => format!(
                    "  p{last} = {row} dot(m, x{last}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n"
                ),
                2 => {
                    let size = self.random.between(1, 90);
                    format!(
                        "  i{last} = s32[{size}] iota(), iota_dimension=0
  q{last} = s32[{size}] multiply(i{last}, i{last})
  c{last} = {ty}[{size}] convert(q{last})
  r{last} = {ty}[] reduce(c{last}, none), dimensions={{0}}, to_apply={add}
  t{last} = {ty}[] multiply(r{last}, small)
  p{last} = {row} broadcast(t{last}), dimensions={{}}\n"
                    )
                }
                3 => self.masked(is_float, last, row, n),
                4 => self.chosen(last, row),
                _ => self.repeated(last, row),
            };
            text += &part;
            let _ = writeln!(text, "  x{} = {row} add(x{last}, p{last})", last + 1);
            last += 1;
        }
        let new = if is_float {
            let _ = writeln!(
                text,
                "  low = f32[] constant(-4)\n  high = f32[] constant(4)"
            );
            let _ = writeln!(text, "  new = {row} clamp(low, x{last}, high)");
            "new".to_owned()
        } else {
            format!("x{last}")
        };
        // Updates the array with a slice of itself.
        let (from, to) = (self.random.between(0, long - 1), self.random.between(1, 7));
        let width = self.random.between(1, 3).min(long);
        let _ = writeln!(
            text,
            "  a = s32[] constant({from})
  k = s32[] constant({to})
  b = s32[] multiply(i, k)
  old = {ty}[{width}] dynamic-slice(y, a), dynamic_slice_sizes={{{width}}}
  y0 = {array} dynamic-update-slice(y, old, b)
  f = {ty}[1] slice({new}), slice={{[0:1]}}
  y1 = {array} dynamic-update-slice(y0, f, next)
  ROOT r = {state} tuple(next, {new}, y1, m)"
        );
        let step = self.name();
        let _ = writeln!(self.computations, "{step} {{\n{text}}}\n");
        step
    }

    /// For floats, exponentials of partly masked numbers, as in a softmax; for integers, a
    /// `select`.
    fn masked(&mut self, is_float: bool, last: i32, row: &str, n: i64) -> String {
        if !is_float {
            return format!(
                "  j{last} = s32[{n}] iota(), iota_dimension=0
  b{last} = s32[{n}] broadcast(i), dimensions={{}}
  w{last} = pred[{n}] compare(j{last}, b{last}), direction=LE
  p{last} = {row} select(w{last}, x, smalls)\n"
            );
        }
        let mask = *self.random.pick(&["-inf", "-1e9", "-3.4e38", "-95", "-88"]);
        format!(
            "  j{last} = s32[{n}] iota(), iota_dimension=0
  b{last} = s32[{n}] broadcast(i), dimensions={{}}
  w{last} = pred[{n}] compare(j{last}, b{last}), direction=LE
  l{last} = f32[] constant({mask})
  m{last} = {row} broadcast(l{last}), dimensions={{}}
  v{last} = {row} select(w{last}, x, m{last})
  o{last} = {row} exponential(v{last})
  p{last} = {row} multiply(o{last}, smalls)\n"
        )
    }

    /// A conditional on the loop counter.
    fn chosen(&mut self, last: i32, row: &str) -> String {
        let [first, second] = ["negate", "abs"].map(|op| {
            let name = self.name();
            let _ = writeln!(
                self.computations,
                "{name} {{\n  v = {row} parameter(0)\n  ROOT r = {row} {op}(v)\n}}\n"
            );
            name
        });
        let bound = self.random.between(0, 30);
        format!(
            "  n{last} = s32[] constant({bound})
  w{last} = pred[] compare(i, n{last}), direction=LT
  g{last} = {row} conditional(w{last}, x, x), true_computation={first}, false_computation={second}
  p{last} = {row} multiply(g{last}, smalls)\n"
        )
    }

    /// A nested loop of 0 to 12 iterations.
    fn repeated(&mut self, last: i32, row: &str) -> String {
        let (condition, step) = (self.name(), self.name());
        let trips = self.random.between(0, 12);
        let state = format!("(s32[], {row})");
        let _ = writeln!(
            self.computations,
            "{condition} {{\n  s = {state} parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n  n = s32[] constant({trips})\n  ROOT c = pred[] compare(i, n), direction=LT\n}}\n"
        );
        let _ = writeln!(
            self.computations,
            "{step} {{\n  s = {state} parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n  v = {row} get-tuple-element(s), index=1\n  one = s32[] constant(1)\n  j = s32[] add(i, one)\n  w = {row} negate(v)\n  ROOT r = {state} tuple(j, w)\n}}\n"
        );
        format!(
            "  z{last} = s32[] constant(0)
  u{last} = {state} tuple(z{last}, x0)
  h{last} = {state} while(u{last}), condition={condition}, body={step}
  p{last} = {row} get-tuple-element(h{last}), index=1\n"
        )
    }
}
