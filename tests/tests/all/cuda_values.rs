//! Values that are hard for a GPU's functions, on the simulated one: what is chosen from
//! rows with ties and NaNs, and angles of every size.

use tegula::{Options, Target, Tensor, compile};
use tegula_ir::{ArrayShape, ElementType, Literal};
use tegula_tests::gpu;
use tegula_tests::random::Random;
use tegula_tests::read;

fn run(target: Target, text: &str, inputs: &[Tensor]) -> Vec<Tensor> {
    let module = read(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    let options = Options {
        target,
        ..Options::default()
    };
    let program = compile(&module, &options).unwrap_or_else(|e| panic!("{text}: {e}"));
    let results = program.run(inputs.iter());
    results.unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// An array of these bits, which are cut to the type's size.
fn array(ty: ElementType, dims: &[i64], mut bits: impl FnMut() -> u64) -> Tensor {
    let shape = ArrayShape::new(ty, dims);
    let count = shape.element_count().expect("a size");
    let bytes: Vec<u8> = (0..count)
        .flat_map(|_| bits().to_le_bytes()[..ty.storage_bytes()].to_vec())
        .collect();
    Tensor::from(Literal::from_bytes(&shape, &bytes).expect("so many bytes"))
}

#[test]
fn what_is_chosen_from_rows_is_what_a_sort_puts_first() {
    let Some(gpu) = gpu::target() else {
        return;
    };
    let mut random = Random::new(1);
    // The type, the rows, how many are wanted, and bits that all elements share.
    let cases = [
        ("f32", 3, 300, 7, 0u64),
        // Few values, so ties beyond the wanted ones; NaNs of both signs, zeros, infinities.
        ("f32", 2, 700, 300, 0x007f_ffff),
        ("f32", 1, 1, 1, 0),
        ("f32", 2, 1030, 1024, 0x0000_ffff),
        ("bf16", 3, 513, 40, 0x003f),
        ("f16", 2, 600, 600, 0x00ff),
        ("f64", 2, 300, 33, 0x000f_ffff_ffff_ffff),
        ("s8", 3, 500, 77, 0),
        ("u8", 1, 999, 9, 0x0f),
        ("s16", 2, 400, 5, 0),
        ("s32", 2, 257, 256, 0x00ff_ffff),
        ("u64", 2, 300, 20, 0x0fff_ffff_ffff_ffff),
        ("s64", 2, 300, 20, 0),
    ];
    for (ty, rows, length, wanted, shared) in cases {
        for largest in [true, false] {
            let text = format!(
                "HloModule choice
ENTRY main {{ a = {ty}[{rows},{length}] parameter(0)
  ROOT t = ({ty}[{rows},{wanted}], s32[{rows},{wanted}]) topk(a), k={wanted}, largest={largest} }}"
            );
            let own = ElementType::from_name(ty).expect("a type");
            let input = [array(own, &[rows, length], || random.word() & !shared)];
            let expected = run(Target::Interp, &text, &input);
            let results = run(gpu, &text, &input);
            for (result, expected) in results.iter().zip(&expected) {
                assert_eq!(
                    result.literal().bytes(),
                    expected.literal().bytes(),
                    "{text}"
                );
            }
        }
    }
}

/// How many numbers lie between two of one sign, or both near zero.
fn apart(a: f64, b: f64) -> u64 {
    let order = |x: f64| {
        let bits = x.to_bits().cast_signed();
        bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
    };
    match a.is_nan() || b.is_nan() {
        true => u64::from(a.is_nan() != b.is_nan()) * u64::MAX,
        false => order(a).abs_diff(order(b)),
    }
}

fn doubles(buffer: &Tensor) -> Vec<f64> {
    let chunks = buffer.literal().bytes().as_chunks::<8>().0.iter();
    chunks.map(|bytes| f64::from_le_bytes(*bytes)).collect()
}

#[test]
fn angles_of_every_size_have_a_sine() {
    let Some(gpu) = gpu::target() else {
        return;
    };
    let mut random = Random::new(2);
    let quarter = std::f64::consts::FRAC_PI_2;
    // Zeros, NaNs and infinities, near multiples of a quarter turn, and the double that is
    // nearest to one of all (5.3e-19 of a turn).
    let mut special = vec![0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    special.extend([
        5e-324,
        -1e-300,
        6_381_956_970_095_103.0 * 2f64.powi(797),
        f64::MAX,
    ]);
    special.extend((0..24).flat_map(|power| {
        let near = quarter * 2f64.powi(power);
        [near, -near, near.next_up(), near.next_down(), near * 3.0]
    }));
    special.extend((29..33).map(|power| 2f64.powi(power)));
    let count = 2048;
    let text = format!(
        "HloModule angles
ENTRY main {{ a = f64[{count}] parameter(0) s = f64[{count}] sine(a) c = f64[{count}] cosine(a)
  t = f64[{count}] tan(a) ROOT r = (f64[{count}], f64[{count}], f64[{count}]) tuple(s, c, t) }}"
    );
    let mut next = special.into_iter();
    let input = [array(ElementType::F64, &[count], || {
        let word = random.word();
        let angle = match word % 3 {
            0 => f64::from_bits(word),
            1 => (word >> 12) as f64 / 2f64.powi(50),
            _ => (word >> 12) as f64 / 2f64.powi(24),
        };
        next.next().unwrap_or(angle).to_bits()
    })];
    let angles = doubles(&input[0]);
    let expected = run(Target::Interp, &text, &input);
    let results = run(gpu, &text, &input);
    for (number, most) in [(0, 1), (1, 1), (2, 3)] {
        let pairs = doubles(&results[number])
            .into_iter()
            .zip(doubles(&expected[number]));
        for (angle, (result, expected)) in angles.iter().zip(pairs) {
            let far = apart(result, expected);
            assert!(
                far <= most,
                "{number} of {angle:e}: {result:e}, not {expected:e}"
            );
        }
    }
}
