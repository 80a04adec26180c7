//! Fourier transforms of an open number of lines: one line, few and many are planned as in a run.

use super::{drawn, folder, widest};
use tegula::{IsaLevel, Options, Tensor, compile};
use tegula_ir::ArrayShape;
use tegula_tests::judge::{MIDDLE, OLDEST};
use tegula_tests::object::LinkedObject;
use tegula_tests::read;

fn is_as_a_run(body: &str, sizes: &[&[i64]], cpu: IsaLevel) {
    let module = read(&format!("HloModule m ENTRY e {{ {body} }}")).expect(body);
    let options = Options {
        cpu,
        ..Options::default()
    };
    let executable = compile(&module, &options).expect("compiled");
    let folder = folder("fourier");
    let linked = LinkedObject::new(&module, cpu, &folder).expect(body);
    for sizes in sizes {
        let inputs = drawn(&module, sizes);
        let buffers: Vec<Tensor> = inputs.iter().cloned().map(Into::into).collect();
        let expected = executable
            .run(&buffers)
            .expect("it runs")
            .remove(0)
            .into_literal();
        let shapes: [ArrayShape; 1] = [expected.shape().clone()];
        let outputs = linked.run(sizes, &inputs, &shapes).expect("it runs");
        assert!(
            outputs[0].bytes() == expected.bytes(),
            "{cpu} {sizes:?}: {body}"
        );
    }
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn open_numbers_of_lines_give_the_bits_of_a_run() {
    let lines: &[&[i64]] = &[&[1], &[2], &[7], &[8], &[9], &[40], &[0]];
    let both: &[&[i64]] = &[&[1, 1], &[1, 3], &[3, 1], &[4, 5], &[0, 1]];
    for length in [256, 1000, 15, 2 * 17 * 19] {
        let half = length / 2 + 1;
        let cases = [
            (
                format!(
                    "x = f32[?,{length}] parameter(0) ROOT y = c64[?,{half}] fft(x), fft_type=RFFT, fft_length={{{length}}}"
                ),
                lines,
            ),
            (
                format!(
                    "x = c64[?,{half}] parameter(0) ROOT y = f32[?,{length}] fft(x), fft_type=IRFFT, fft_length={{{length}}}"
                ),
                lines,
            ),
            (
                format!(
                    "x = f64[?,{length}] parameter(0) ROOT y = c128[?,{half}] fft(x), fft_type=RFFT, fft_length={{{length}}}"
                ),
                lines,
            ),
            (
                format!(
                    "x = c64[?,{length}] parameter(0) ROOT y = c64[?,{length}] fft(x), fft_type=FFT, fft_length={{{length}}}"
                ),
                lines,
            ),
            (
                format!(
                    "x = f32[?,?,{length}] parameter(0) ROOT y = c64[?,?,{half}] fft(x), fft_type=RFFT, fft_length={{{length}}}"
                ),
                both,
            ),
            (
                format!(
                    "x = f32[?,4,{length}] parameter(0) ROOT y = c64[?,4,{half}] fft(x), fft_type=RFFT, fft_length={{{length}}}"
                ),
                lines,
            ),
            (
                format!(
                    "x = f32[?,4,{length}] parameter(0) ROOT y = c64[?,4,{half}] fft(x), fft_type=RFFT, fft_length={{4,{length}}}"
                ),
                lines,
            ),
        ];
        for (number, (body, sizes)) in cases.iter().enumerate() {
            let levels = [widest(), MIDDLE, OLDEST];
            is_as_a_run(body, sizes, levels[number % 3]);
        }
    }
}
