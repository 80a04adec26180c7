//! Vectorised loops: reductions, and stores to different elements in each iteration.

use super::{Combined, Reason, Run, Translator};
use crate::origin::Origin;
use crate::simd::half_precision;
use crate::simd::ir::{BinaryOp, Reduction, Type, identity};
use crate::vectorize::elementwise::{Lanes, combination, negative};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use tegula_expr::Term;
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Block, ScalarId, ScalarOp, Statement};
use tegula_ir::{Binary, ElementType};

/// The reductions of one scalar: one for each part of a number.
type Parts = SmallVec<[Reduction; 2]>;

/// Translates a loop of the kernel's body with its iterations as lanes.
pub(crate) fn loop_run<'k>(kernel: &'k Kernel, statement: &'k Statement) -> Result<Run, Reason> {
    let Statement::Loop {
        var, carried, body, ..
    } = statement
    else {
        return Err(Reason::new("not a loop"));
    };
    let mut translator = Translator::new(kernel, *var, &[], None);
    let mut stored = FxHashMap::default();
    if !find_stores(body, &mut stored) {
        return Err(Reason::new("a loop that writes an array twice"));
    }
    translator.stored = Some(stored);
    // Partial results are only available in sequential order.
    translator.carried = carried.iter().chain(&body.results).copied().collect();
    let mut combined = Vec::new();
    let mut values = Vec::new();
    for statement in &body.statements {
        let around = translator.builder.set_origin(Origin::of(statement));
        let combination = translator.combination(statement, carried, body)?;
        translator.builder.set_origin(around);
        if let Some((which, op, parts)) = combination {
            let origins = &mut translator.builder.body().origins;
            let origin = Origin::of(statement);
            origins.reductions.extend(parts.iter().map(|_| origin));
            combined.push(Combined { carried: which, op });
            values.extend(parts);
        } else if translator.same_for_all(statement) {
            translator.hoisted.push(statement.clone());
        } else {
            translator.statement(statement)?;
        }
    }
    if combined.len() != carried.len() {
        return Err(Reason::new(
            "a scalar that the loop carries is not a reduction",
        ));
    }
    translator.builder.body().reductions = values;
    Ok(translator.finish(combined))
}

/// Finds the store of a block to each parameter; false if it stores to one twice.
fn find_stores<'k>(block: &'k Block, out: &mut FxHashMap<usize, &'k [Term]>) -> bool {
    block.statements.iter().all(|statement| match statement {
        Statement::Store { param, index, .. } => out.insert(*param, index).is_none(),
        Statement::Loop { body, .. } => find_stores(body, out),
        Statement::If {
            then, otherwise, ..
        } => find_stores(then, out) && find_stores(otherwise, out),
        Statement::Compute { .. } | Statement::Bind { .. } | Statement::Load { .. } => true,
    })
}

impl Translator<'_> {
    /// Translates a statement that combines a value into a carried scalar; `None` if the statement
    /// does not.
    fn combination(
        &mut self,
        statement: &Statement,
        carried: &[ScalarId],
        body: &Block,
    ) -> Result<Option<(usize, Binary, Parts)>, Reason> {
        match statement {
            Statement::Compute {
                result,
                op: ScalarOp::Binary(op),
                operands,
            } => {
                let Some((which, other)) = combined_into(carried, body, *result, operands) else {
                    return Ok(None);
                };
                let value = self.lanes_of(other)?;
                let (op, value) = self.added(*op, operands[1] == other, value);
                let reduction = self.reduction(op, self.kernel.scalars[*result], &value)?;
                Ok(Some((which, op, reduction)))
            }
            Statement::If {
                condition,
                then,
                otherwise,
                results,
            } => self.masked_combination(condition, [then, otherwise], results, carried, body),
            _ => Ok(None),
        }
    }

    /// `if condition { c op x } else { c }`.
    fn masked_combination(
        &mut self,
        condition: &Term,
        [then, otherwise]: [&Block; 2],
        results: &[ScalarId],
        carried: &[ScalarId],
        body: &Block,
    ) -> Result<Option<(usize, Binary, Parts)>, Reason> {
        let ([result], [kept], [made]) = (results, &otherwise.results[..], &then.results[..])
        else {
            return Ok(None);
        };
        let which = carried.iter().position(|c| c == kept);
        let Some(which) = which.filter(|&w| body.results.get(w) == Some(result)) else {
            return Ok(None);
        };
        let Some((last, before)) = then.statements.split_last() else {
            return Ok(None);
        };
        let Statement::Compute {
            result: combined,
            op: ScalarOp::Binary(op),
            operands,
        } = last
        else {
            return Ok(None);
        };
        let inside = Block {
            statements: Vec::new(),
            results: body
                .results
                .iter()
                .map(|r| if r == result { *made } else { *r })
                .collect(),
        };
        let Some((_, other)) = combined_into(carried, &inside, *combined, operands) else {
            return Ok(None);
        };
        if !otherwise.statements.is_empty() {
            return Ok(None);
        }
        let condition = self.merge(condition);
        let yes = self.truth(&condition)?;
        let outer = self.mask.replace(yes);
        for statement in before {
            self.statement(statement)?;
        }
        self.mask = outer;
        let value = self.lanes_of(other)?;
        let (op, value) = self.added(*op, operands[1] == other, value);
        let mut parts = self.reduction(op, self.kernel.scalars[*result], &value)?;
        for part in &mut parts {
            let ty = self.builder.type_of(part.value);
            let neutral = self.builder.constant(ty, identity(part.op, ty));
            part.value = self.builder.select(yes, part.value, neutral);
        }
        Ok(Some((which, op, parts)))
    }

    /// Converts a subtraction from a carried scalar to an addition.
    fn added(&mut self, op: Binary, is_second: bool, value: Lanes) -> (Binary, Lanes) {
        if op != Binary::Subtract || !is_second {
            return (op, value);
        }
        let negatives = value.iter().map(|&v| negative(&mut self.builder, v));
        (Binary::Add, negatives.collect())
    }

    fn reduction(
        &mut self,
        op: Binary,
        element_type: ElementType,
        value: &Lanes,
    ) -> Result<Parts, Reason> {
        let exact = matches!(op, Binary::Maximum | Binary::Minimum);
        let not = || Reason::new(format!("{} of {element_type} in order", op.opcode()));
        if half_precision::is_supported(element_type) && !exact {
            return Err(not());
        }
        let op = match op {
            // A sum of complex numbers is two sums.
            Binary::Add if element_type.is_complex() => BinaryOp::Add,
            _ => combination(op, element_type).ok_or_else(not)?,
        };
        let b = &mut self.builder;
        let truths = value.iter().map(|&part| match b.type_of(part) {
            Type::Mask => b.truth(part),
            _ => part,
        });
        Ok(truths.map(|value| Reduction { op, value }).collect())
    }
}

/// The carried scalar that a combination updates, and the value that is combined with it.
fn combined_into(
    carried: &[ScalarId],
    body: &Block,
    result: ScalarId,
    operands: &[ScalarId],
) -> Option<(usize, ScalarId)> {
    let which = body.results.iter().position(|&r| r == result)?;
    let c = *carried.get(which)?;
    match operands {
        [a, b] if *a == c && !carried.contains(b) => Some((which, *b)),
        [a, b] if *b == c && !carried.contains(a) => Some((which, *a)),
        _ => None,
    }
}
