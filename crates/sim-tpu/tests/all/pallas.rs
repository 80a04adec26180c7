//! Runs and checks Pallas kernels as JAX lowers them (`tests/pallas/kernels.py`).

use std::path::Path;
use tegula_ir::{ArrayShape, ElementType, Literal, Scalar};
use tegula_mosaic::ir::Module;
use tegula_sim_tpu::pallas::{Arrays, to_program};
use tegula_sim_tpu::{Code, Finding, Options, Report, TpuProgram, simulate_cores};
use tegula_target::Chip;

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pallas")
}

fn read(name: &str) -> Result<Module, String> {
    let text = std::fs::read(folder().join(format!("{name}.mlir"))).unwrap();
    let kernels = tegula_mosaic::read(text).map_err(|error| error.to_string())?;
    Ok(kernels.unwrap().remove(0).module)
}

/// The line of `kernels.py` that contains a text.
fn line_of(text: &str) -> u32 {
    let source = std::fs::read_to_string(folder().join("kernels.py")).unwrap();
    let at = source.lines().position(|line| line.contains(text));
    at.unwrap() as u32 + 1
}

fn floats(element_type: ElementType, dims: &[i64], value: impl Fn(usize) -> f64) -> Literal {
    let count = dims.iter().product::<i64>() as usize;
    let shape = ArrayShape::new(element_type, dims);
    Literal::from_scalars(&shape, (0..count).map(|at| Scalar::Float(value(at)))).unwrap()
}

fn integers(element_type: ElementType, dims: &[i64], value: impl Fn(usize) -> i64) -> Literal {
    let count = dims.iter().product::<i64>() as usize;
    let shape = ArrayShape::new(element_type, dims);
    Literal::from_scalars(&shape, (0..count).map(|at| Scalar::Int(value(at)))).unwrap()
}

struct Ran {
    program: TpuProgram,
    reports: Vec<Report>,
}

impl Ran {
    /// The findings of the first core, with their lines in the source.
    fn findings(&self) -> Vec<(Code, u32, &Finding)> {
        let findings = self.reports[0].findings.iter();
        findings
            .map(|found| (found.code, self.program.source_line(found.line), found))
            .collect()
    }

    fn clean(&self) -> &[Literal] {
        assert!(
            self.reports[0].is_clean(),
            "{:#?}",
            self.reports[0].findings
        );
        &self.reports[0].results
    }
}

fn result(literal: &Literal, at: usize) -> f64 {
    match literal.scalar(at).unwrap() {
        Scalar::Float(value) => value,
        Scalar::Int(value) => value as f64,
        other => panic!("{other:?}"),
    }
}

/// Runs a kernel on as many cores as there are lists of inputs.
fn run_cores(name: &str, result_dims: &[i64], inputs: &[Vec<Literal>]) -> Ran {
    try_cores(name, result_dims, inputs).unwrap()
}

fn try_cores(name: &str, result_dims: &[i64], inputs: &[Vec<Literal>]) -> Result<Ran, String> {
    let module = read(name)?;
    let chip = Chip::by_name("v6e").unwrap();
    let dims = inputs[0]
        .iter()
        .map(|input| input.shape().static_dims().unwrap());
    let arrays = Arrays {
        inputs: Some(inputs[0].len()),
        input_dims: dims.map(|dims| dims.to_vec()).collect(),
        result_dims: vec![result_dims.to_vec()],
        ..Arrays::default()
    };
    let program = to_program(&module, &chip, &arrays).map_err(|error| error.to_string())?;
    let options = Options {
        functional: true,
        ..Options::default()
    };
    let reports = simulate_cores(&program, &chip, &options, inputs);
    let reports = reports.map_err(|error| error.to_string())?;
    Ok(Ran { program, reports })
}

fn run(name: &str, result_dims: &[i64], inputs: Vec<Literal>) -> Ran {
    run_cores(name, result_dims, &[inputs])
}

#[test]
fn infinities_and_nan_are_not_finite() {
    let given = [1.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    let x = floats(ElementType::F32, &[8, 128], |at| given[at % 4]);
    let ran = run("finite", &[8, 128], vec![x]);
    let made = &ran.clean()[0];
    let made: Vec<f64> = (0..4).map(|at| result(made, at)).collect();
    assert_eq!(made, [1.5, 0.0, 0.0, 0.0]);
}

#[test]
fn a_read_is_found_at_its_own_line() {
    // JAX also gives such a read the frames of the first read of an equal reference.
    let x = floats(ElementType::F32, &[8, 128], |at| at as f64);
    let ran = run("read_early", &[8, 128], vec![x]);
    let line = line_of("read before the copy is waited for");
    let findings = ran.findings();
    let early = findings
        .iter()
        .find(|found| found.0 == Code::ReadBeforeDone);
    assert_eq!(early.map(|found| found.1), Some(line), "{findings:#?}");
}

#[test]
fn dimensions_are_those_of_the_source() {
    let x = floats(ElementType::F32, &[16, 128], |at| at as f64);
    let scalars = integers(ElementType::S32, &[3], |at| at as i64);
    let ran = run("too_far", &[16, 128], vec![x, scalars]);
    let findings = ran.findings();
    let about = |name: &str| {
        let of = |found: &&(Code, u32, &Finding)| found.2.buffer.as_deref() == Some(name);
        let found = findings.iter().find(of);
        let (code, line, found) = found.unwrap_or_else(|| panic!("{findings:#?}"));
        (*code, *line, found.message.as_str())
    };
    let line = line_of("pl.ds(i * 8 + 8, 8)");
    // The block has two dimensions in the kernel; the dimension that numbers its buffers does not
    // count.
    let (code, at, message) = about("in0_block");
    assert_eq!((code, at), (Code::OutOfBounds, line));
    assert!(
        message.starts_with("elements 16..24 of dimension 0 of `in0_block`, which has 16"),
        "{message}"
    );
    // SMEM holds words without tiles, so there is no padding after an array.
    let (code, at, message) = about("in1_block");
    assert_eq!((code, at), (Code::OutOfBounds, line));
    assert!(
        message.starts_with("elements 3..4 of dimension 0 of `in1_block`, which has 3")
            && !message.contains("padding"),
        "{message}"
    );
    // The added dimension is also missing in messages about elements that were never written.
    let (code, _, message) = about("out0_block");
    assert_eq!(code, Code::Uninitialised);
    assert!(
        message.starts_with("`out0_block[8..16, 0..128]`"),
        "{message}"
    );
}

#[test]
fn a_sending_that_nobody_waits_for_is_called_that() {
    let x = || floats(ElementType::F32, &[8, 128], |at| at as f64);
    let device = |number: i64| integers(ElementType::S32, &[1], |_| number);
    let inputs = [vec![device(1), x()], vec![device(0), x()]];
    let ran = run_cores("send", &[8, 128], &inputs);
    let findings = ran.findings();
    let [(Code::NeverWaited, _, found)] = findings[..] else {
        panic!("{findings:#?}")
    };
    assert_eq!(
        found.message,
        "the copy of `in1` to another core is never waited for at its source: it may not have been read"
    );
}

#[test]
fn kernels_print_and_check_themselves() {
    let x = floats(ElementType::F32, &[16, 128], |at| at as f64 + 0.5);
    let ran = run("says", &[16, 128], vec![x]);
    let texts: Vec<&str> = ran.reports[0].printed.iter().map(|p| &*p.text).collect();
    assert_eq!(
        texts,
        [
            "step 0 of 2",
            "first 0.5",
            "row [0.5 1.5]",
            "step 1 of 2",
            "first 1024.5",
            "row [1024.5 1025.5]",
        ]
    );
    let findings = ran.findings();
    let [(Code::CheckFailed, line, found)] = findings[..] else {
        panic!("{findings:#?}")
    };
    assert_eq!(line, line_of("fails at the second step"));
    assert!(found.message.ends_with("too many steps") && found.count == 1);
    assert_eq!(result(&ran.reports[0].results[0], 5), 5.5);
    let json = ran.reports[0].to_json(&ran.program);
    assert_eq!(json["printed"][0]["text"], "step 0 of 2");
    assert_eq!(json["printed"][0]["file"], "kernels.py");
    assert_eq!(json["printed"][0]["line"], line_of("step {} of {}"));
}

#[test]
fn integers_are_extended_where_the_other_operand_is_a_float() {
    let x = floats(ElementType::BF16, &[16, 128], |at| (at % 5) as f64 / 2.0);
    let y = integers(ElementType::S8, &[128, 128], |at| at as i64 % 7 - 3);
    let ran = run("mixed_product", &[16, 128], vec![x, y]);
    let made = &ran.clean()[0];
    for (i, j) in [(0, 0), (3, 9), (15, 127)] {
        let terms = (0..128)
            .map(|k| ((i * 128 + k) % 5) as f64 / 2.0 * ((k * 128 + j) as i64 % 7 - 3) as f64);
        assert_eq!(result(made, i * 128 + j), terms.sum::<f64>());
    }
}

#[test]
fn a_product_of_integers_is_no_float() {
    let error = read("integer_product").unwrap_err();
    let line = line_of("preferred_element_type=F32");
    assert!(
        error.contains(&format!("kernels.py:{line}: `tpu.matmul`")),
        "{error}"
    );
    assert!(error.contains("a product of i8 and i8") && error.contains("its result is f32"));
}

#[test]
fn rounding_is_as_probable_as_the_element_is_near() {
    // A quarter of the way from 1 to 1 + 2^-7.
    let x = floats(ElementType::F32, &[16, 128], |at| {
        if at == 0 {
            f64::NEG_INFINITY
        } else {
            -1.0 - 0.25 / 128.0
        }
    });
    let bits = integers(ElementType::S32, &[16, 128], |at| {
        i64::from((at as u32 * (u32::MAX / 2048)) as i32)
    });
    let ran = run("rounds", &[16, 128], vec![x, bits]);
    let made = &ran.clean()[0];
    assert_eq!(result(made, 0), f64::NEG_INFINITY);
    let made: Vec<f64> = (1..2048).map(|at| result(made, at)).collect();
    let (low, high) = (-1.0, -1.0 - 1.0 / 128.0);
    assert!(made.iter().all(|value| *value == low || *value == high));
    let away = made.iter().filter(|value| **value == high).count();
    assert!((511..=513).contains(&away), "{away}");
}

/// Runs a kernel that copies `size` rows of the second half of its input through a buffer of 32
/// rows.
fn run_sized(start: i64, size: i64) -> Ran {
    let place = integers(ElementType::S32, &[2], |at| [start, size][at]);
    let x = floats(ElementType::F32, &[2, 64, 128], |at| at as f64);
    run("sized", &[64, 128], vec![place, x])
}

#[test]
fn sizes_of_copies_may_be_known_only_at_run_time() {
    let ran = run_sized(8, 24);
    let made = &ran.reports[0].results[0];
    for row in 8..32 {
        assert_eq!(result(made, row * 128 + 5), ((64 + row) * 128 + 5) as f64);
    }
    // Both copies moved 24 rows, and the waits for them counted as many bytes.
    assert_eq!(ran.reports[0].copied_bytes, 512 + 2 * 24 * 128 * 4);
    let findings = ran.findings();
    let [(Code::Uninitialised, _, found)] = findings[..] else {
        panic!("{findings:#?}")
    };
    assert!(
        found.message.starts_with("`out0[0..8, 0..128]`"),
        "{}",
        found.message
    );
}

#[test]
fn a_size_of_run_time_is_held_against_bounds() {
    let ran = run_sized(40, 32);
    let findings = ran.findings();
    let outside = findings.iter().find(|found| found.0 == Code::OutOfBounds);
    let outside = outside.unwrap_or_else(|| panic!("{findings:#?}"));
    assert_eq!(
        outside.1,
        line_of("pltpu.make_async_copy(x.at[1, pl.ds(start, size)]") + 1
    );
    assert!(
        outside
            .2
            .message
            .starts_with("elements 40..72 of dimension 1 of `in1`, which has 64"),
        "{}",
        outside.2.message
    );
    // The buffer has 32 rows.
    let ran = run_sized(0, 40);
    let findings = ran.findings();
    assert!(findings.iter().any(|found| {
        found.0 == Code::OutOfBounds
            && found
                .2
                .message
                .contains("elements 0..40 of dimension 0 of `scratch")
    }));
}

#[test]
fn a_copy_of_no_rows_does_nothing() {
    for size in [0, -8] {
        let ran = run_sized(8, size);
        let findings = ran.findings();
        let codes: Vec<Code> = findings.iter().map(|found| found.0).collect();
        let waits = [Code::NeverStarted, Code::NeverWaited, Code::ByteCount];
        assert_eq!(
            codes.contains(&Code::OutOfBounds),
            size < 0,
            "{findings:#?}"
        );
        assert!(
            size < 0 || !codes.iter().any(|code| waits.contains(code)),
            "{findings:#?}"
        );
    }
}

/// The kernel copies `tiles` tiles from the first on, and `rows` rows of pages of 16.
fn run_reshaped([first, tiles, start, rows]: [i64; 4]) -> Result<Ran, String> {
    let place = integers(ElementType::S32, &[4], |at| [first, tiles, start, rows][at]);
    let x = floats(ElementType::F32, &[64, 256], |at| at as f64);
    let pages = floats(ElementType::F32, &[4, 16, 2, 128], |at| at as f64);
    try_cores("reshaped", &[32, 2, 128], &[vec![place, x, pages]])
}

#[test]
fn copies_of_reshaped_memory_are_of_the_memory() {
    let ran = run_reshaped([2, 3, 36, 12]).unwrap();
    let made = &ran.reports[0].results[0];
    for row in 0..12 {
        for at in [0, 130] {
            assert_eq!(result(made, row * 256 + at), ((36 + row) * 256 + at) as f64);
        }
    }
    for row in 0..32 {
        let wanted = match row {
            8..32 => ((16 + row - 8) * 256 + 128 + 7) as f64,
            _ => 0.0,
        };
        assert_eq!(result(made, 16 * 256 + row * 128 + 7), wanted);
    }
    let findings = ran.findings();
    let [(Code::Uninitialised, _, found)] = findings[..] else {
        panic!("{findings:#?}")
    };
    assert!(
        found.message.starts_with("`out0[12..16"),
        "{}",
        found.message
    );
}

#[test]
fn a_copy_across_pages_is_refused() {
    let error = run_reshaped([2, 3, 40, 12]).err().unwrap();
    assert!(
        error.contains("`tpu.enqueue_dma`") && error.contains("crosses a row's end"),
        "{error}"
    );
}

fn run_regrouped(rows: i64) -> Ran {
    let place = integers(ElementType::S32, &[5], |at| [3, 2, 2, 1, rows][at]);
    let x = floats(ElementType::F32, &[64, 128], |at| at as f64);
    let pages = floats(ElementType::F32, &[4, 16, 2, 128], |at| at as f64);
    run("regrouped", &[64, 128], vec![place, x, pages])
}

#[test]
fn the_ends_of_a_copy_may_have_other_dimensions() {
    let ran = run_regrouped(16);
    let made = &ran.clean()[0];
    for row in 0..32 {
        let copied = if row < 16 { (24 + row) * 128 + 9 } else { 0 };
        let word = if row / 2 % 2 == 0 { 1 } else { 2 };
        assert_eq!(result(made, row * 128 + 9), (copied + word) as f64);
        let (first, second) = ((64 + row) * 128 + 9, (32 + row) * 128 + 9);
        assert_eq!(result(made, (32 + row) * 128 + 9), (first + second) as f64);
    }
}

#[test]
fn a_wait_for_the_bytes_of_two_pages_takes_both_copies() {
    // Of 4 rows of each page: the others were never written.
    let ran = run_regrouped(4);
    let findings = ran.findings();
    let codes: Vec<Code> = findings.iter().map(|found| found.0).collect();
    assert_eq!(codes, [Code::Uninitialised], "{findings:#?}");
    let made = &ran.reports[0].results[0];
    let (first, second) = ((64 + 7) * 128 + 9, (32 + 7) * 128 + 9);
    assert_eq!(result(made, (32 + 7) * 128 + 9), (first + second) as f64);
}

/// The kernel copies 12 rows one by one, and waits for `waited` rows.
fn run_gathered(waited: i64) -> Ran {
    let place = integers(ElementType::S32, &[13], |at| match at {
        12 => waited,
        at => (at as i64 * 5 + 3) % 32,
    });
    let table = floats(ElementType::F32, &[32, 64], |at| at as f64);
    run("gathered", &[12, 64], vec![place, table])
}

#[test]
fn a_wait_for_all_rows_takes_the_copies_of_single_rows() {
    let ran = run_gathered(12);
    let made = &ran.clean()[0];
    for row in 0..12 {
        let from = (row * 5 + 3) % 32;
        assert_eq!(
            result(made, row * 64 + 9),
            ((from * 64 + 9) * 2) as f64,
            "{row}"
        );
    }
    // The scalars, 12 rows of 128 lanes, and as many of the result.
    assert_eq!(ran.reports[0].copied_bytes, 512 + 2 * 12 * 512);
}

#[test]
fn a_wait_for_another_number_of_rows_is_found() {
    let wait = line_of("for all rows");
    let ran = run_gathered(11);
    let findings = ran.findings();
    let codes: Vec<(Code, u32)> = findings.iter().map(|found| (found.0, found.1)).collect();
    let read = line_of("read after all rows");
    let copy = line_of("buffer.at[i, :], sem).start()");
    assert_eq!(
        codes,
        [(Code::NeverWaited, copy), (Code::ReadBeforeDone, read)],
        "{findings:#?}"
    );
    // More rows than the buffer has: the wait accesses none of them, but never ends.
    let ran = run_gathered(13);
    let findings = ran.findings();
    let [(Code::ByteCount, line, found)] = findings[..] else {
        panic!("{findings:#?}")
    };
    assert_eq!(line, wait);
    assert!(
        found.message.contains("expects 6656 bytes") && found.message.contains("bring 6144"),
        "{}",
        found.message
    );
}

/// The kernel copies as many states of each of 4 sequences as `counts` says, and waits for all of
/// them and `more`.
fn run_states(counts: [i64; 4], more: i64) -> Ran {
    let counts = integers(ElementType::S32, &[5], |at| {
        counts.get(at).copied().unwrap_or(more)
    });
    let x = floats(ElementType::F32, &[4, 3, 1, 128], |at| at as f64);
    run("states", &[12, 128], vec![counts, x])
}

#[test]
fn a_wait_may_state_more_rows_than_its_memory_has() {
    let ran = run_states([3, 3, 3, 3], 0);
    let made = &ran.clean()[0];
    assert_eq!(result(made, 11 * 128 + 5), (11 * 128 + 5) as f64);
    // Only elements that no copy wrote are found.
    let ran = run_states([3, 0, 2, 1], 0);
    let findings = ran.findings();
    let codes: Vec<Code> = findings.iter().map(|found| found.0).collect();
    assert_eq!(codes, [Code::Uninitialised], "{findings:#?}");
}

#[test]
fn a_wait_for_too_few_or_too_many_states_is_found() {
    let ran = run_states([3, 3, 3, 3], -1);
    let findings = ran.findings();
    let codes: Vec<(Code, u32)> = findings.iter().map(|found| (found.0, found.1)).collect();
    let (wait, read) = (line_of("for all states"), line_of("read after all states"));
    assert!(
        codes.contains(&(Code::ByteCount, wait)) && codes.contains(&(Code::ReadBeforeDone, read)),
        "{findings:#?}"
    );
    let ran = run_states([3, 3, 3, 3], 1);
    let findings = ran.findings();
    let codes: Vec<(Code, u32)> = findings.iter().map(|found| (found.0, found.1)).collect();
    assert_eq!(codes, [(Code::ByteCount, wait)], "{findings:#?}");
}

#[test]
fn a_part_of_reshaped_memory_does_not_meet_the_rest() {
    let x = floats(ElementType::F32, &[64, 128], |at| at as f64);
    let ran = run("slots", &[64, 128], vec![x]);
    let made = &ran.clean()[0];
    for (row, wanted) in [(17, 17 * 2), (26, 20), (63, 62)] {
        let factor = if row == 17 { 2 } else { 1 };
        let at = wanted / factor * 128 + 3;
        assert_eq!(result(made, row * 128 + 3), (at * factor) as f64);
    }
}

#[test]
fn a_step_of_0_loads_the_same_row_again() {
    let x = floats(ElementType::F32, &[8, 128], |at| at as f64);
    let ran = run("again", &[8, 128], vec![x]);
    let made = &ran.clean()[0];
    for row in 0..8 {
        assert_eq!(result(made, row * 128 + 5), (3 * 128 + 5) as f64);
    }
}

#[test]
fn what_was_never_written_is_found_where_it_was_loaded() {
    // The result is loaded, too, after it, but no element of that is selected.
    let x = floats(ElementType::F32, &[8, 128], |at| at as f64);
    let ran = run("selected", &[8, 128], vec![x]);
    let findings = ran.findings();
    let [(Code::Uninitialised, line, _)] = findings[..] else {
        panic!("{findings:#?}")
    };
    assert_eq!(line, line_of("summed up from nothing"));
}

#[test]
fn blocks_follow_a_parallel_dimension_through_what_is_computed() {
    let x = || floats(ElementType::F32, &[32, 128], |at| at as f64);
    let ran = run("in_halves", &[32, 128], vec![x()]);
    let made = &ran.clean()[0];
    assert_eq!(result(made, 128), (17 * 128) as f64);
    let ran = run("in_one_half", &[32, 128], vec![x()]);
    let findings = ran.findings();
    let found = findings.iter().find(|found| found.0 == Code::TwoWrites);
    let (.., found) = found.unwrap_or_else(|| panic!("{findings:#?}"));
    assert!(
        found.message.contains("write the same block"),
        "{}",
        found.message
    );
}

/// Texts with a few changed bytes are parsed or rejected, and then run or rejected, without a
/// panic.
#[test]
fn mutated_kernels_do_not_panic() {
    let chip = Chip::by_name("v6e").unwrap();
    let mut random = crate::common::Random(11);
    let entries = std::fs::read_dir(folder()).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|end| end == "mlir"))
        .collect();
    paths.sort();
    let (mut read, mut run) = (0, 0);
    for path in paths {
        let text = std::fs::read(path).unwrap();
        // After the kernel there are only locations.
        let end = text.windows(5).position(|window| window == b"#loc1");
        let end = end.unwrap_or(text.len());
        for _ in 0..200 {
            let mut text = text.clone();
            for _ in 0..1 + random.below(3) {
                let (at, from) = (random.below(end), random.below(end));
                text[at] = match random.below(2) {
                    0 => b"0123456789x?-,"[random.below(14)],
                    _ => text[from],
                };
            }
            let Ok(Some(kernels)) = tegula_mosaic::read(text) else {
                continue;
            };
            read += 1;
            let program = to_program(&kernels[0].module, &chip, &Arrays::default());
            let Ok(program) = program else { continue };
            let options = Options {
                step_limit: 20_000,
                ..Options::default()
            };
            run += usize::from(simulate_cores(&program, &chip, &options, &[Vec::new()]).is_ok());
        }
    }
    assert!(read > 20 && run > 10, "{read} read, {run} run");
}
