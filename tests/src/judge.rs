//! Compares a target's results on a program with those of the reference evaluator.

use crate::random::Regime;
use tegula::{Architecture, IsaLevel, Options, Target, Tensor, compile};
use tegula_codegen_cpu::StreamLimits;
use tegula_interp::{Envelope, Value, envelope};
use tegula_ir::{ArrayShape, ElementType, Literal, Module, Scalar};
use tegula_plan::{Plan, verify};
use tegula_plan_interp::evaluate;

/// The number of perturbed evaluator runs from which the envelope is computed: one, and three
/// pairs.
const RUNS: usize = 7;
/// The same for a program that is judged alone rather than among thousands. If a value is near the
/// midpoint between two numbers of a narrower type, it may be rounded to either, and a few runs may
/// show only one of them.
const MANY_RUNS: usize = 25;

/// The reference evaluator's results for a program.
pub struct Reference {
    results: Vec<Literal>,
    /// In the general regime: the bounds of correct results.
    envelope: Option<Envelope>,
}

/// The outcome of judging a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The results agree.
    Agrees,
    /// The program is too sensitive to rounding to be judged.
    NotJudged,
}

/// The instruction set that every machine of this architecture has.
pub const OLDEST: IsaLevel = Architecture::HERE.levels()[0];
/// The instruction set that most of its machines have.
pub const MIDDLE: IsaLevel = Architecture::HERE.levels()[1];

/// The Plan evaluator, and machine code for several instruction sets with one and with two threads.
const EVERYWHERE: [(Target, IsaLevel, usize); 6] = [
    (Target::Plan, IsaLevel::Native, 1),
    (Target::Cpu, IsaLevel::Native, 1),
    (Target::Cpu, IsaLevel::Native, 2),
    (Target::Cpu, MIDDLE, 1),
    (Target::Cpu, OLDEST, 1),
    (Target::Cpu, OLDEST, 2),
];

/// Asserts that the Plan evaluator, and machine code for new and old processors with one and with
/// two threads, give the reference evaluator's results.
///
/// # Panics
/// Results differ, or the program cannot be evaluated.
pub fn assert_agrees(module: &Module, inputs: &[Literal], regime: Regime) {
    let reference = Reference::new(module, inputs, regime).expect("it has a meaning");
    for (target, cpu, threads) in EVERYWHERE {
        let options = Options {
            target,
            cpu,
            threads,
            ..Options::default()
        };
        let verdict = reference.judge_with(module, inputs, &options);
        assert_eq!(verdict, Ok(Verdict::Agrees), "{options:?}\n{module}");
    }
}

/// As [`assert_agrees`], for the text of a program. The memory of its inputs is filled with varying
/// bytes below 61, so elements of other types than bytes have those bit patterns.
///
/// # Panics
/// As [`assert_agrees`]; also if the text is not a program with inputs of known sizes.
pub fn assert_text_agrees(text: &str) {
    let module = crate::read(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let bytes = |shape: &ArrayShape| {
        let is_pred = shape.element_type == ElementType::Pred;
        let byte = |i: usize| ((i * 37 + i / 64) % if is_pred { 2 } else { 61 }) as u8;
        let count = shape.byte_size().expect("known sizes") as usize;
        let bytes: Vec<u8> = (0..count).map(byte).collect();
        Literal::from_bytes(shape, &bytes).expect("so many bytes")
    };
    let inputs: Vec<Literal> = (module.entry_computation().parameters.iter())
        .filter_map(|&parameter| module[parameter].shape.as_array())
        .map(bytes)
        .collect();
    assert_agrees(&module, &inputs, Regime::General);
}

/// As [`assert_agrees`], with inputs that have few significant bits, so that sums of a few hundred
/// products are exact.
///
/// # Panics
/// As [`assert_agrees`].
pub fn assert_agrees_exactly(module: &Module) {
    let numbers = |shape: &ArrayShape| {
        let mut literal = Literal::zeros(shape).expect("small");
        for i in 0..literal.len() {
            let number = ((i as i64 * 2_654_435_761) >> 9) & 15;
            let scalar = Scalar::Float(number as f64 / 4.0 - 2.0);
            literal.set_scalar(i, scalar).expect("it is inside");
        }
        literal
    };
    let entry = module.entry_computation();
    let shapes = entry.parameters.iter();
    let shapes = shapes.filter_map(|&p| module[p].shape.as_array());
    let inputs: Vec<Literal> = shapes.map(numbers).collect();
    assert_agrees(module, &inputs, Regime::Dyadic);
}

impl Reference {
    /// Evaluates a program.
    ///
    /// # Errors
    /// What the evaluator says.
    pub fn new(module: &Module, inputs: &[Literal], regime: Regime) -> Result<Self, String> {
        Self::of_runs(RUNS, module, inputs, regime)
    }

    /// As [`Self::new`], with an envelope of more runs.
    ///
    /// # Errors
    /// What the evaluator says.
    pub fn of_many_runs(
        module: &Module,
        inputs: &[Literal],
        regime: Regime,
    ) -> Result<Self, String> {
        Self::of_runs(MANY_RUNS, module, inputs, regime)
    }

    fn of_runs(
        runs: usize,
        module: &Module,
        inputs: &[Literal],
        regime: Regime,
    ) -> Result<Self, String> {
        let arguments: Vec<Value> = inputs.iter().cloned().map(Value::Array).collect();
        let (result, envelope) = match regime {
            Regime::Dyadic => {
                let result = tegula_interp::evaluate(module, &arguments);
                (result.map_err(|e| e.to_string())?, None)
            }
            Regime::General => {
                let envelope = envelope(module, &arguments, runs).map_err(|e| e.to_string())?;
                (envelope.result.clone(), Some(envelope))
            }
        };
        let results = result.leaves().into_iter().cloned().collect();
        Ok(Self { results, envelope })
    }

    /// Compiles the program for a target, runs it and judges the results.
    ///
    /// # Errors
    /// The target's error, or the difference between the results.
    pub fn judge(
        &self,
        module: &Module,
        inputs: &[Literal],
        target: Target,
        threads: usize,
    ) -> Result<Verdict, String> {
        let options = Options {
            target,
            threads,
            ..Options::default()
        };
        self.judge_with(module, inputs, &options)
    }

    /// As [`Self::judge`], with all compilation options.
    ///
    /// # Errors
    /// As [`Self::judge`].
    pub fn judge_with(
        &self,
        module: &Module,
        inputs: &[Literal],
        options: &Options,
    ) -> Result<Verdict, String> {
        let executable = compile(module, options).map_err(|e| e.to_string())?;
        let buffers: Vec<Tensor> = inputs.iter().cloned().map(Tensor::from).collect();
        // A borrowed argument must be unchanged after the run, and a second run that takes
        // ownership of the arguments must give the same results.
        let kept = executable.run(buffers.iter()).map_err(|e| e.to_string())?;
        if buffers
            .iter()
            .zip(inputs)
            .any(|(b, input)| b.literal() != input)
        {
            return Err("an argument that was lent has changed".to_owned());
        }
        let outputs = executable.run(buffers).map_err(|e| e.to_string())?;
        if outputs != kept {
            return Err("results differ when arguments are given away".to_owned());
        }
        let outputs: Vec<&Literal> = outputs.iter().map(Tensor::literal).collect();
        self.judge_results(&outputs)
    }

    /// As [`Self::judge_with`], with some inputs frozen: first to other arrays, whose results are
    /// ignored, then to the inputs. Then two threads run it at once, and it runs once more; all
    /// three runs must give the same bits. In the dyadic regime, these must also be the bits
    /// without frozen inputs; in the general regime, freezing may change the order of sums.
    ///
    /// # Errors
    /// As [`Self::judge_with`].
    pub fn judge_frozen(
        &self,
        module: &Module,
        inputs: &[Literal],
        options: &Options,
        frozen: &[usize],
    ) -> Result<Verdict, String> {
        let mut executable = compile(module, options).map_err(|e| e.to_string())?;
        let buffers: Vec<Tensor> = inputs.iter().cloned().map(Tensor::from).collect();
        let run = |executable: &tegula::Executable, without: &[usize]| {
            let given = buffers.iter().enumerate();
            let given = given.filter(|(i, _)| !without.contains(i));
            let given = given.map(|(_, buffer)| buffer);
            executable.run(given).map_err(|e| e.to_string())
        };
        let unfrozen = run(&executable, &[])?;
        for &input in frozen {
            let other = Tensor::from(reversed(&inputs[input]));
            let other = executable.freeze(input, other);
            other.map_err(|e| e.to_string())?;
        }
        // The results or the error of this run do not matter.
        let _ = run(&executable, frozen);
        for &input in frozen {
            let own = executable.freeze(input, buffers[input].clone());
            own.map_err(|e| e.to_string())?;
        }
        let executable = &executable;
        let [here, there] = std::thread::scope(|scope| {
            let there = scope.spawn(|| run(executable, frozen));
            let here = run(executable, frozen);
            let there = there.join();
            [here, there.unwrap_or_else(|_| Err("a panic".to_owned()))]
        });
        let (first, again) = (here?, run(executable, frozen)?);
        if first != there? || first != again {
            return Err("runs differ with frozen inputs".to_owned());
        }
        if self.envelope.is_none() && first != unfrozen {
            return Err("results differ when inputs are frozen".to_owned());
        }
        let results: Vec<&Literal> = first.iter().map(Tensor::literal).collect();
        self.judge_results(&results)
    }

    /// Whether the Plan evaluator and machine code give the expected results for a plan. All runs
    /// of the machine code, also two at once, must give the same bits.
    ///
    /// # Errors
    /// The difference, or the reason why the plan cannot run.
    pub fn judge_plan(&self, plan: &Plan, inputs: &[Literal]) -> Result<Verdict, String> {
        verify(plan).map_err(|errors| errors.to_string())?;
        let evaluated = evaluate(plan, inputs).map_err(|e| format!("evaluated: {e}"))?;
        let evaluated: Vec<&Literal> = evaluated.iter().collect();
        let verdict = self.judge_results(&evaluated);
        let verdict = verdict.map_err(|e| format!("evaluated: {e}"))?;
        let native = IsaLevel::Native;
        // `StreamLimits::ALWAYS` uses non-temporal stores wherever possible.
        let on = [
            (native, 1, StreamLimits::MEASURED),
            (native, 2, StreamLimits::ALWAYS),
            (native, 16, StreamLimits::MEASURED),
            (MIDDLE, 1, StreamLimits::MEASURED),
            (MIDDLE, 1, StreamLimits::ALWAYS),
            (OLDEST, 3, StreamLimits::MEASURED),
        ];
        for (cpu, threads, streaming) in on {
            let options = tegula_codegen_cpu::Options {
                cpu,
                threads,
                streaming,
            };
            let failed = |error: String| format!("{options:?}: {error}");
            let executable = tegula_codegen_cpu::Executable::new(plan.clone(), &options);
            let executable = executable.map_err(|e| failed(e.to_string()))?;
            let run = || {
                let lent = inputs.iter().map(std::borrow::Cow::Borrowed).collect();
                executable.run(lent).map_err(|e| failed(e.to_string()))
            };
            let results = run()?;
            self.judge_results(&results.iter().collect::<Vec<_>>())
                .map_err(failed)?;
            // Two runs at once.
            let [here, there] = std::thread::scope(|scope| {
                let there = scope.spawn(run);
                let here = run();
                let there = there.join();
                [here, there.unwrap_or_else(|_| Err("a panic".to_owned()))]
            });
            if results != here? || results != there? {
                return Err(failed("another run differs".to_owned()));
            }
        }
        Ok(verdict)
    }

    /// Judges results that the caller has computed.
    ///
    /// # Errors
    /// Where they differ.
    pub fn judge_results(&self, outputs: &[&Literal]) -> Result<Verdict, String> {
        if outputs.len() != self.results.len() {
            return Err(format!(
                "{} results instead of {}",
                outputs.len(),
                self.results.len()
            ));
        }
        if self
            .envelope
            .as_ref()
            .is_some_and(|e| !e.unstable.is_empty())
        {
            return Ok(Verdict::NotJudged);
        }
        for (i, (output, expected)) in outputs.iter().zip(&self.results).enumerate() {
            self.compare(i, output, expected)
                .map_err(|e| format!("result {i}: {e}"))?;
        }
        Ok(Verdict::Agrees)
    }

    fn compare(&self, result: usize, ours: &Literal, expected: &Literal) -> Result<(), String> {
        if ours.shape() != expected.shape() {
            return Err(format!("is {}, not {}", ours.shape(), expected.shape()));
        }
        let (ours, expected) = (&parts(ours), &parts(expected));
        for i in 0..expected.len() {
            let (got, want) = (ours.scalar(i), expected.scalar(i));
            let (Some(got), Some(want)) = (got, want) else {
                continue;
            };
            let both_nan = got.to_f64().is_nan() && want.to_f64().is_nan();
            let same =
                got == want && got.to_f64().is_sign_negative() == want.to_f64().is_sign_negative();
            if same || both_nan || self.allowed(result, i, got.to_f64(), ours.element_type()) {
                continue;
            }
            return Err(format!("element {i} is {got}, not {want}"));
        }
        Ok(())
    }

    /// Whether the envelope allows this value.
    fn allowed(&self, result: usize, element: usize, got: f64, ty: ElementType) -> bool {
        let Some(envelope) = &self.envelope else {
            return false;
        };
        let Some(bounds) = envelope.bounds.get(result).and_then(|b| b.get(element)) else {
            return false;
        };
        if bounds.flipped {
            return true;
        }
        // A few runs rarely find the extreme values, so the bounds that they found are widened.
        let size = bounds.low.abs().max(bounds.high.abs());
        let slack = 4.0 * (bounds.high - bounds.low) + 4.0 * epsilon(ty) * size;
        got >= bounds.low - slack && got <= bounds.high + slack
    }
}

/// The array with its elements in reverse.
fn reversed(literal: &Literal) -> Literal {
    let size = literal.element_type().storage_bytes().max(1);
    let elements = literal.bytes().chunks(size).rev();
    let bytes: Vec<u8> = elements.flatten().copied().collect();
    Literal::from_bytes(literal.shape(), &bytes).unwrap_or_else(|_| literal.clone())
}

/// The array, or the real and imaginary parts of its elements as one.
fn parts(literal: &Literal) -> Literal {
    let Some(part) = literal.element_type().complex_part() else {
        return literal.clone();
    };
    let shape = ArrayShape::new(part, &[2 * literal.len() as i64]);
    Literal::from_bytes(&shape, literal.bytes()).expect("a complex number is two real ones")
}

/// The distance from 1 to the next number; 0 for types that do not round.
fn epsilon(ty: ElementType) -> f64 {
    match ty {
        ElementType::F64 => f64::EPSILON,
        ElementType::F32 => f64::from(f32::EPSILON),
        ElementType::F16 => 2f64.powi(-10),
        ElementType::BF16 => 2f64.powi(-7),
        ElementType::F8E4M3FN => 2f64.powi(-3),
        ElementType::F8E5M2 => 2f64.powi(-2),
        _ => 0.0,
    }
}
