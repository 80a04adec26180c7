//! What two instructions give alike is made once.

use tegula::plan;
use tegula_interp::Value;
use tegula_ir::Literal;
use tegula_ir::Module;
use tegula_tests::judge::{Reference, Verdict};
use tegula_tests::random::Regime;
use tegula_tests::read;

/// Lines of the program's plan with this operation.
fn count(module: &Module, operation: &str) -> usize {
    let text = plan(module).expect("it plans").plan.to_string();
    text.lines().filter(|line| line.contains(operation)).count()
}

/// A program of two 8x8 arrays, which must mean what the evaluator says.
fn program(body: &str) -> Module {
    let text = format!(
        "HloModule twice
         add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}
         sum {{ x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] add(x, y) }}
         most {{ x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] maximum(x, y) }}
         below {{ s = (s32[], f32[8,8], f32[8,8]) parameter(0) i = s32[] get-tuple-element(s), index=0
           n = s32[] constant(3) ROOT r = pred[] compare(i, n), direction=LT }}
         step {{ s = (s32[], f32[8,8], f32[8,8]) parameter(0) i = s32[] get-tuple-element(s), index=0
           v = f32[8,8] get-tuple-element(s), index=1 w = f32[8,8] get-tuple-element(s), index=2
           one = s32[] constant(1) next = s32[] add(i, one)
           d = f32[8,8] dot(v, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
           e = f32[8,8] dot(v, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
           t = f32[8,8] tanh(d) u = f32[8,8] add(t, e)
           ROOT r = (s32[], f32[8,8], f32[8,8]) tuple(next, u, w) }}
         ENTRY main {{ p = f32[8,8] parameter(0) q = f32[8,8] parameter(1) zero = f32[] constant(0)\n{body}\n }}"
    );
    let module = read(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let array = |seed: usize| {
        let values: Vec<f32> = (0..64).map(|i| ((i * seed) % 13) as f32 - 6.0).collect();
        Literal::from_f32s(&[8, 8], &values).expect("small")
    };
    let inputs = [array(5), array(7)];
    let reference = Reference::new(&module, &inputs, Regime::General).expect("a meaning");
    for target in [tegula::Target::Plan, tegula::Target::Cpu] {
        let verdict = reference.judge(&module, &inputs, target, 1);
        assert_eq!(verdict, Ok(Verdict::Agrees), "{text}");
    }
    let arguments: Vec<Value> = inputs.into_iter().map(Value::Array).collect();
    assert!(tegula_interp::evaluate(&module, &arguments).is_ok());
    module
}

#[test]
fn equal_products_are_one() {
    let dots = |second: &str| {
        count(
            &program(&format!(
                "a = f32[8,8] dot(p, q), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
                 b = f32[8,8] {second}
                 t = f32[8,8] tanh(a) ROOT r = f32[8,8] multiply(t, b)"
            )),
            "dot",
        )
    };
    let dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}";
    assert_eq!(dots(&format!("dot(p, q), {dims}")), 1);
    assert_eq!(dots(&format!("dot(q, p), {dims}")), 2);
    assert_eq!(
        dots("dot(p, q), lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
        2
    );
}

#[test]
fn what_they_are_made_from_may_be_made_twice_too() {
    let body = "n = f32[8,8] negate(p) a = f32[8,8] sine(n)
        m = f32[8,8] negate(p) b = f32[8,8] sine(m)
        c = f32[8,8] dot(a, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        d = f32[8,8] dot(b, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        ROOT r = f32[8,8] subtract(c, d)";
    assert_eq!(count(&program(body), "dot"), 1);
}

/// Computations are compared by what they say.
#[test]
fn equal_sums_are_one() {
    let kernels = |second: &str| {
        count(
            &program(&format!(
                "d = f32[8,8] dot(p, q), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
                 s = f32[8] reduce(d, zero), dimensions={{1}}, to_apply=add
                 t = f32[8] reduce(d, zero), dimensions={{1}}, to_apply={second}
                 ROOT r = (f32[8], f32[8]) tuple(s, t)"
            )),
            "load",
        )
    };
    assert!(kernels("sum") < kernels("most"));
}

/// A loop's body has its own values, and those around it.
#[test]
fn equal_products_inside_a_loop_are_one() {
    let body = "i = s32[] constant(0) s = (s32[], f32[8,8], f32[8,8]) tuple(i, p, q)
        w = (s32[], f32[8,8], f32[8,8]) while(s), condition=below, body=step
        ROOT r = f32[8,8] get-tuple-element(w), index=1";
    assert_eq!(count(&program(body), "dot"), 1);
}

/// Random numbers are drawn as often as the program says.
#[test]
fn what_is_not_a_function_stays() {
    let text = "HloModule draws ENTRY main { l = f32[] constant(0) h = f32[] constant(1)
        a = f32[4] rng(l, h), distribution=rng_uniform b = f32[4] rng(l, h), distribution=rng_uniform
        ROOT r = (f32[4], f32[4]) tuple(a, b) }";
    assert_eq!(count(&read(text).expect("it reads"), "rng"), 2);
}
