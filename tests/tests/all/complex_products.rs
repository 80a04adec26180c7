//! Products of complex matrices that are large enough to be one real product: on every target
//! what the evaluator says.

use tegula_ir::Literal;
use tegula_tests::judge::assert_agrees;
use tegula_tests::random::Regime;
use tegula_tests::read;

/// A product of two parameters of these sizes, whose parts come in turns.
fn holds(lhs: &str, rhs: &str, product: &str) {
    let text = format!(
        "HloModule products ENTRY main {{
           a = c64[{lhs}] parameter(0) b = c64[{rhs}] parameter(1)
           ROOT ab = {product} }}"
    );
    let module = read(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let parameter = |sizes: &str, seed: usize| {
        let dims: Vec<i64> = sizes
            .split(',')
            .map(|d| d.parse().expect("a size"))
            .collect();
        let count = usize::try_from(dims.iter().product::<i64>()).expect("small");
        let number = |i: usize| ((i * 7 + i / 5 + seed) % 13) as f32 / 8.0 - 0.75;
        let numbers = (0..count).map(|i| [number(2 * i), number(2 * i + 1)]);
        let bytes: Vec<u8> = numbers.flatten().flat_map(f32::to_ne_bytes).collect();
        let shape = tegula_ir::ArrayShape::new(tegula_ir::ElementType::C64, &dims);
        Literal::from_bytes(&shape, &bytes).expect("as many bytes as it takes")
    };
    let inputs = [parameter(lhs, 1), parameter(rhs, 4)];
    assert_agrees(&module, &inputs, Regime::General);
}

#[test]
fn either_operand_may_be_the_smaller_one() {
    let dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}";
    for (rows, columns) in [(40, 24), (24, 40)] {
        holds(
            &format!("{rows},30"),
            &format!("30,{columns}"),
            &format!("c64[{rows},{columns}] dot(a, b), {dims}"),
        );
    }
}

#[test]
fn contracted_dimensions_may_be_anywhere() {
    holds(
        "30,40",
        "24,30",
        "c64[40,24] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={1}",
    );
    holds(
        "5,20,6,2",
        "6,2,24,5",
        "c64[20,2,2,24] dot(a, b), lhs_contracting_dims={2,0}, rhs_contracting_dims={0,3}",
    );
}

#[test]
fn of_batches() {
    for (lhs, rhs) in [("3,24,20", "20,3,32"), ("3,32,20", "20,3,24")] {
        let size = |s: &str, i: usize| s.split(',').nth(i).expect("a size").to_owned();
        let (rows, columns) = (size(lhs, 1), size(rhs, 2));
        holds(
            lhs,
            rhs,
            &format!(
                "c64[3,{rows},{columns}] dot(a, b), lhs_batch_dims={{0}}, rhs_batch_dims={{1}},
                   lhs_contracting_dims={{2}}, rhs_contracting_dims={{0}}"
            ),
        );
    }
}
