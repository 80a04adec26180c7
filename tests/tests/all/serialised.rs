//! Executables as bytes: what is read back gives the same results to the bit, and damaged bytes are
//! refused.

use tegula::{Executable, Options, Target, Tensor, compile};
use tegula_tests::corpus::{load, names, small_corpus, whole_corpus};
use tegula_tests::random::{Random, Regime, random_program, state_layouts};
use tegula_tests::read;

/// Reads back what an executable is as bytes.
fn again(executable: &Executable, threads: usize) -> Executable {
    let bytes = executable.serialize().expect("it is for the CPU");
    // SAFETY: the bytes are what was given.
    let read = unsafe { Executable::deserialize(bytes.clone(), threads) };
    let read = read.expect("the bytes are whole");
    assert!(read.serialize().expect("as before") == bytes, "other bytes");
    read
}

fn run(executable: &Executable, inputs: &[Tensor]) -> Vec<Tensor> {
    let results = executable.run(inputs.iter());
    results.expect("it runs")
}

#[test]
fn random_programs_give_the_same() {
    for seed in 0..150 {
        for regime in [Regime::Dyadic, Regime::General] {
            let program = random_program(seed, regime);
            let mut module = read(&program.text).expect("a program");
            if seed % 3 == 0 {
                state_layouts(&mut module, seed);
            }
            let threads = [1, 3][seed as usize % 2];
            let options = Options {
                threads,
                ..Options::default()
            };
            let executable = compile(&module, &options).expect("compiled");
            let inputs: Vec<Tensor> = program.inputs.into_iter().map(Tensor::from).collect();
            let expected = run(&executable, &inputs);
            let found = run(&again(&executable, threads), &inputs);
            assert!(
                found == expected,
                "seed {seed}, {regime:?}\n{}",
                program.text
            );
        }
    }
}

/// The whole corpus is compiled and read back; what is small also runs.
#[test]
fn programs_of_the_corpus_give_the_same() {
    let folder = whole_corpus().unwrap_or_else(small_corpus);
    for name in names(&folder).expect("a folder") {
        let program = load(&folder, &name, "hlo").expect("a program");
        let executable = compile(&program.module, &Options::default()).expect("compiled");
        let read = again(&executable, 1);
        let bytes: usize = program.inputs.iter().map(|input| input.bytes().len()).sum();
        if bytes > 1 << 20 {
            continue;
        }
        let inputs: Vec<Tensor> = program.inputs.into_iter().map(Tensor::from).collect();
        assert!(run(&read, &inputs) == run(&executable, &inputs), "{name}");
    }
}

#[test]
fn open_sizes_stay_open() {
    let text = "HloModule m
        ENTRY e {
          x = f32[?,4] parameter(0)
          y = f32[?,4] parameter(1)
          w = f32[4,3] constant({ {1, 2, 3}, {4, 5, 6}, {7, 8, 9}, {10, 11, 12} })
          s = f32[?,4] add(x, y)
          ROOT d = f32[?,3] dot(s, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        }";
    let module = read(text).expect("a program");
    let executable = compile(&module, &Options::default()).expect("compiled");
    let read = again(&executable, 1);
    for batch in [0, 1, 5, 64] {
        let numbers: Vec<f32> = (0..batch * 4).map(|i| i as f32).collect();
        let array = || Tensor::from_slice::<f32>(&[batch, 4], &numbers).expect("an array");
        let inputs = [array(), array()];
        assert!(run(&read, &inputs) == run(&executable, &inputs), "{batch}");
    }
    let sizes = [2, 3].map(|batch| {
        Tensor::from_slice::<f32>(&[batch, 4], &vec![0.0; 4 * batch as usize]).expect("an array")
    });
    let mut errors = [&read, &executable].map(|executable| {
        let results = executable.run(sizes.iter());
        results.expect_err("the sizes differ").to_string()
    });
    errors.sort();
    assert_eq!(errors[0], errors[1]);
}

#[test]
fn damaged_bytes_are_refused() {
    let program = random_program(7, Regime::General);
    let module = read(&program.text).expect("a program");
    let executable = compile(&module, &Options::default()).expect("compiled");
    let bytes = executable.serialize().expect("it is for the CPU");
    let mut random = Random::new(1);
    for round in 0..1000 {
        let mut damaged = bytes.clone();
        let at = random.below(damaged.len());
        match round % 3 {
            0 => damaged[at] ^= 1 << random.below(8),
            1 => damaged.truncate(at),
            _ => damaged.insert(at, random.word() as u8),
        }
        // SAFETY: damaged bytes are never executed, which is what is tested.
        let read = unsafe { Executable::deserialize(damaged, 1) };
        assert!(read.is_err(), "round {round}, byte {at}");
    }
}

#[test]
fn what_cannot_be_serialised_is_said() {
    let module = read("HloModule m ENTRY e { p = f32[2] parameter(0) ROOT n = f32[2] negate(p) }");
    let module = module.expect("a program");
    let options = Options {
        target: Target::Interp,
        ..Options::default()
    };
    let executable = compile(&module, &options).expect("compiled");
    let error = executable.serialize().expect_err("no machine code");
    assert_eq!(
        error.to_string(),
        "only programs for the CPU can be serialised"
    );
    let mut executable = compile(&module, &Options::default()).expect("compiled");
    let value = Tensor::from_slice::<f32>(&[2], &[1.0, 2.0]).expect("an array");
    executable.freeze(0, value).expect("there is a parameter");
    let error = executable.serialize().expect_err("frozen").to_string();
    assert!(error.contains("parameter 0 is frozen"), "{error}");
}
