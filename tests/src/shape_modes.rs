//! Computes an operation's result sizes in three modes with three providers, which must agree.
//!
//! | mode | sizes | elements |
//! |---|---|---|
//! | static | known | known |
//! | dynamic | known at run time | known at run time |
//! | constant operands | known at run time | known |

use std::collections::HashMap;
use std::fmt::Debug;
use tegula_codegen_cpu::SizeCode;
use tegula_expr::index::{KnownInScope, Phase, Scope};
use tegula_expr::{EvalError, KnownOperand, Numbers, ShapeHelper, Symbols, Term, Values, Var};

/// An operand of a run.
#[derive(Clone, Debug, Default)]
pub struct Actual {
    /// Its sizes.
    pub dims: Vec<i64>,
    /// Its elements, if it holds integers.
    pub elements: Vec<i64>,
}

impl Actual {
    /// An array whose elements do not matter.
    pub fn array(dims: &[i64]) -> Self {
        Self {
            dims: dims.to_vec(),
            elements: Vec::new(),
        }
    }

    /// A list of integers.
    pub fn list(elements: &[i64]) -> Self {
        Self {
            dims: vec![elements.len() as i64],
            elements: elements.to_vec(),
        }
    }
}

const MODES: [(&str, bool, bool); 3] = [
    ("static", true, true),
    ("dynamic", false, false),
    ("constant operands", false, true),
];

/// Computes the sizes in all modes with all providers, and returns those on which they agree;
/// `None` if the operation is invalid for these operands, or a size cannot be computed.
///
/// # Errors
/// A message that says which two differ.
pub fn in_three_modes<H: ShapeHelper<Error: Debug>>(
    helper: &H,
    operands: &[Actual],
) -> Result<Option<Vec<i64>>, String> {
    let dims: Vec<Vec<i64>> = operands.iter().map(|o| o.dims.clone()).collect();
    let elements: Vec<Vec<i64>> = operands.iter().map(|o| o.elements.clone()).collect();
    let mut numbers = Numbers(Values {
        dims: &dims,
        elements: &elements,
    });
    // An operation that is invalid at these sizes may be valid at others, so the analysis is not
    // compared.
    let Ok(expected) = helper.compute(&mut numbers) else {
        return Ok(None);
    };
    let expected: Result<Vec<i64>, EvalError> = H::numbers(expected).into_iter().collect();
    for (mode, sizes_known, elements_known) in MODES {
        let known: Vec<KnownOperand> = (operands.iter())
            .map(|o| KnownOperand {
                dims: o
                    .dims
                    .iter()
                    .map(|&size| sizes_known.then_some(size))
                    .collect(),
                elements: elements_known.then(|| o.elements.clone()),
            })
            .collect();
        let about = |what: &str| format!("{mode}: {what}: {operands:?}");
        for phase in [Phase::Analysis, Phase::Lowering] {
            let analysed = analysed(helper, &known, operands, phase);
            match (analysed, &expected) {
                (Ok((found, literal)), Ok(expected)) => {
                    if found != Ok(expected.clone()) {
                        return Err(about(&format!("analysis {found:?}, not {expected:?}")));
                    }
                    if sizes_known && elements_known && !literal {
                        return Err(about("not everything is a literal"));
                    }
                }
                // A simplified term may have a value even if an intermediate step has none.
                (_, Err(_)) => {}
                (Err(error), Ok(_)) => return Err(about(&error)),
            }
        }
        let code: Result<SizeCode, Failed> = SizeCode::compile(&known, |provider| {
            let shapes = helper
                .compute(provider)
                .map_err(|e| Failed(format!("{e:?}")))?;
            Ok(H::numbers(shapes))
        });
        match (code, &expected) {
            (Ok(code), expected) => {
                let found = code.run(&dims, &elements);
                let agree = found == *expected || (found.is_err() && expected.is_err());
                if !agree {
                    return Err(about(&format!("machine code {found:?}, not {expected:?}")));
                }
            }
            (Err(_), Err(_)) => {}
            (Err(Failed(error)), Ok(_)) => return Err(about(&error)),
        }
    }
    Ok(expected.ok())
}

struct Failed(String);

impl From<tegula_codegen_cpu::Error> for Failed {
    fn from(error: tegula_codegen_cpu::Error) -> Self {
        Self(error.to_string())
    }
}

type Analysed = (Result<Vec<i64>, EvalError>, bool);

/// The values of the analysis's terms for these operands, and whether all terms are literals.
fn analysed<H: ShapeHelper<Error: Debug>>(
    helper: &H,
    known: &[KnownOperand],
    operands: &[Actual],
    phase: Phase,
) -> Result<Analysed, String> {
    let mut scope = Scope::new();
    let mut provider = Symbols(KnownInScope::new(&mut scope, known, phase));
    let shapes = helper
        .compute(&mut provider)
        .map_err(|e| format!("{e:?}"))?;
    if let Some(misuse) = provider.0.misuse() {
        return Err(misuse.to_string());
    }
    let terms: Vec<Term> = H::numbers(shapes);
    let mut values = HashMap::new();
    for (o, operand) in operands.iter().enumerate() {
        let dims = operand.dims.iter().enumerate();
        values.extend(dims.map(|(d, &size)| (format!("p{o}_d{d}"), size)));
        let elements = operand.elements.iter().enumerate();
        values.extend(elements.map(|(i, &element)| (format!("p{o}_{i}"), element)));
    }
    let value = |var: Var| values.get(&*scope.variable(var)?.name).copied();
    let mut all_literal = true;
    let mut found = Vec::new();
    for term in &terms {
        // `expr` is canonicalised by the scope, which must not change the value.
        let expr = scope.expr(term).map_err(|e| e.to_string())?;
        all_literal &= expr.is_literal();
        let (plain, canonical) = (term.eval(&value), expr.eval(&value));
        if plain.is_ok() && plain != canonical {
            return Err(format!("{plain:?} became {canonical:?}"));
        }
        found.push(canonical);
    }
    Ok((found.into_iter().collect(), all_literal))
}
