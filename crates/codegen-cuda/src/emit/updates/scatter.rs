//! Scatters whose updates are spread over threads.
//!
//! Updates combined by a commutative operation on integers become atomic operations, with one
//! thread per update. For everything else, including sums of floats, the result depends on the
//! order of the updates of an element. These updates are sorted stably by the element that they
//! change, and one thread does all updates of an element. So the results equal those of sequential
//! updates to the bit.

use crate::access;
use crate::atomics::atomic_name;
use crate::body::Body;
use crate::error::Error;
use crate::function::{
    Function, KernelSequence, Slot, Work, head, linear, name_domain, over_symbols, points, symbols,
};
use crate::library::sort;
use crate::terms::is_short;
use tegula_expr::{Term, Var};
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Access, Block, IndexVar, Param, ScalarId, ScalarOp, Statement};
use tegula_ir::{ArrayShape, Binary, ElementType};

/// The number of threads of a block.
const THREADS: i64 = 256;
/// The fewest updates for which sorting them is worth its launches.
const MANY: i64 = 256;
/// The fewest updates for which it is worth spreading them with an atomic operation each.
const SOME: i64 = 32;

/// Sequential updates in one nest of loops.
struct Updates<'a> {
    kernel: &'a Kernel,
    /// The variables of the loops, outermost first.
    vars: Vec<Var>,
    /// The number of updates, as a term over the kernel's variables.
    count: Term,
    /// The body of one update.
    block: Block,
}

/// The functions, if the kernel is a scatter that gains by being spread.
pub(super) fn functions(
    name: &str,
    kernel: &Kernel,
    apart: bool,
) -> Result<Option<KernelSequence>, Error> {
    let Some(updates) = updates(kernel).filter(|_| apart) else {
        return Ok(None);
    };
    let values = access::typical_values(kernel);
    let representative = access::value(&updates.count, &values).unwrap_or(0);
    if representative >= SOME
        && let Some(atomic) = updates.atomic()
    {
        return updates.combined(name, &atomic).map(Some);
    }
    match updates.count.as_constant() {
        Some(count @ MANY..) if i32::try_from(count).is_ok() => updates.sorted(name, count),
        _ => Ok(None),
    }
}

/// The kernel as sequential updates, if it has that form.
fn updates(kernel: &Kernel) -> Option<Updates<'_>> {
    let mut vars = Vec::new();
    let mut block = Block::default();
    let mut level = &kernel.body;
    let mut count = Term::constant(1);
    loop {
        let (before, inner) = match &level.statements[..] {
            [
                before @ ..,
                Statement::Loop {
                    var, carried, body, ..
                },
            ] if carried.is_empty() => (before, Some((*var, body))),
            all => (all, None),
        };
        if before.iter().any(Statement::is_loop) {
            return None;
        }
        block.statements.extend(before.iter().cloned());
        let Some((var, body)) = inner else {
            break;
        };
        // What comes before a loop is repeated for each of its iterations.
        if before.iter().any(|s| !is_repeatable(kernel, s)) {
            return None;
        }
        let IndexVar::Loop(extent) = kernel.var(var)? else {
            return None;
        };
        if !super::depends_on_sizes_only(kernel, extent) {
            return None;
        }
        count = count.mul(extent);
        vars.push(var);
        level = body;
    }
    let nothing_in_loops = !block.any(Statement::is_loop);
    (!vars.is_empty() && nothing_in_loops && block.any(Statement::is_store)).then_some(Updates {
        kernel,
        vars,
        count,
        block,
    })
}

/// Whether a statement has no side effect and reads nothing that changes.
fn is_repeatable(kernel: &Kernel, statement: &Statement) -> bool {
    match statement {
        Statement::Compute { .. } | Statement::Bind { .. } => true,
        Statement::Load { param, .. } => super::is_read(kernel, *param),
        _ => false,
    }
}

/// The accesses to updated arrays, with their indices.
fn accesses<'a>(kernel: &Kernel, block: &'a Block) -> Vec<(usize, &'a [Term])> {
    let mut written = Vec::new();
    super::collect(kernel, block, &mut written);
    let all = written.into_iter();
    all.flat_map(|(param, indices)| indices.into_iter().map(move |index| (param, index)))
        .collect()
}

impl Updates<'_> {
    /// The update as an atomic operation, if it is one: the block without the load and the
    /// combination, and the operation.
    fn atomic(&self) -> Option<(Block, Binary)> {
        let mut block = self.block.clone();
        let mut found = None;
        self.take_combination(&mut block, &mut found)?;
        Some((block, found?))
    }

    /// Removes the load and the combination from the block; `None` if it has another form.
    fn take_combination(&self, block: &mut Block, found: &mut Option<Binary>) -> Option<()> {
        for statement in &mut block.statements {
            if let Statement::If {
                then, otherwise, ..
            } = statement
            {
                self.take_combination(then, found)?;
                self.take_combination(otherwise, found)?;
            }
        }
        let updated = |param: usize| !super::is_read(self.kernel, param);
        let mut places = block.statements.iter().enumerate();
        let load = places.find_map(|(at, statement)| match statement {
            Statement::Load {
                result,
                param,
                index,
            } if updated(*param) => Some((at, *result, *param, index.clone())),
            _ => None,
        });
        let stores = block.statements.iter().filter(|s| s.is_store()).count();
        let Some((at, old, param, index)) = load else {
            // A store of anything else must keep its order.
            return (stores == 0).then_some(());
        };
        let users = block.statements.iter().enumerate();
        let mut users = users.filter(|(_, s)| s.uses(&self.kernel.vars, old));
        let (combines, operation, new) = match (users.next()?, users.next()) {
            (
                (
                    place,
                    Statement::Compute {
                        result,
                        op: ScalarOp::Binary(op),
                        operands,
                    },
                ),
                None,
            ) => {
                let others: Vec<ScalarId> =
                    operands.iter().copied().filter(|&o| o != old).collect();
                let &[other] = &others[..] else {
                    return None;
                };
                ((place, *result), *op, other)
            }
            _ => return None,
        };
        let (place, sum) = combines;
        let is_the_store = |statement: &Statement| {
            matches!(statement, Statement::Store { param: p, index: i, value }
                if *p == param && *i == index && *value == sum)
        };
        let uses = block
            .statements
            .iter()
            .filter(|s| s.uses(&self.kernel.vars, sum))
            .count();
        let ty = self.kernel.params.get(param)?.element_type;
        let fits = found.is_none()
            && stores == 1
            && uses == 1
            && block.statements.iter().any(is_the_store)
            && atomic_name(operation, ty).is_some();
        if !fits {
            return None;
        }
        for statement in &mut block.statements {
            if let Statement::Store { value, .. } = statement {
                *value = new;
            }
        }
        block.statements.remove(place.max(at));
        block.statements.remove(place.min(at));
        *found = Some(operation);
        Some(())
    }

    /// Declares the loops' variables, computed from the number of an update.
    fn name_vars(&self, body: &mut Body<'_>, number: &str, wide: bool) -> Result<(), Error> {
        let ty = if wide {
            "unsigned long long"
        } else {
            "unsigned int"
        };
        let mut rest = number.to_owned();
        for (level, &var) in self.vars.iter().enumerate().rev() {
            let extent = body.term(body.extent(var)?);
            if level == 0 {
                body.declare_index(var, &rest);
                break;
            }
            body.declare_index(var, &format!("{rest} % ({ty})({extent})"));
            let next = format!("update{level}");
            body.line(&format!("const {ty} {next} = {rest} / ({ty})({extent});"));
            rest = next;
        }
        Ok(())
    }

    /// Writes the head of a function with one thread for each point of the domain and each update.
    /// Returns the number of threads, and whether thread numbers need 64 bits.
    fn threads(&self, body: &mut Body<'_>, updates: &Term) -> (Term, bool) {
        let count = points(self.kernel).mul(updates);
        let padded = count.add(&Term::constant(THREADS));
        let wide = !is_short(body.terms.range(&padded));
        let ty = if wide {
            "unsigned long long"
        } else {
            "unsigned int"
        };
        let bound = body.term(&count);
        let inside = body.term(&points(self.kernel));
        body.line(&format!(
            "const {ty} thread = ({ty})blockIdx.x * {THREADS}u + threadIdx.x;"
        ));
        body.line(&format!("if (thread >= ({ty})({bound})) return;"));
        body.line(&format!("const {ty} point = thread % ({ty})({inside});"));
        body.line(&format!("const {ty} place = thread / ({ty})({inside});"));
        (count, wide)
    }

    fn finished(
        &self,
        name: &str,
        reason: &str,
        body: Body<'_>,
        own: &[&str],
        count: &Term,
    ) -> Function {
        let statements = body.finish();
        let head = head(name, self.kernel, own, true, THREADS as u32);
        let blocks = count.ceil_div(&Term::constant(THREADS));
        Function {
            name: name.to_owned(),
            reason: reason.to_owned(),
            text: format!("{head} {{\n{statements}}}\n"),
            block: [THREADS as u32, 1, 1],
            grid: linear(over_symbols(self.kernel, &blocks)),
            symbols: symbols(self.kernel),
            guarded: false,
        }
    }

    /// One thread per update, which is an atomic operation.
    fn combined(&self, name: &str, (block, op): &(Block, Binary)) -> Result<KernelSequence, Error> {
        let mut body = Body::new(self.kernel);
        body.atomic = Some(*op);
        let (count, wide) = self.threads(&mut body, &self.count);
        name_domain(&mut body, "point", wide)?;
        self.name_vars(&mut body, "place", wide)?;
        body.block(block)?;
        let reason = "one thread per update, combined by atomic operations";
        let function = self.finished(name, reason, body, &[], &count);
        Ok(KernelSequence::one(function, self.kernel.params.len()))
    }

    /// One thread for all updates of an element, after a sort.
    fn sorted(&self, name: &str, count: i64) -> Result<Option<KernelSequence>, Error> {
        let Some((key, key_type)) = self.key() else {
            return Ok(None);
        };
        let shapes = [
            ArrayShape::new(key_type, &[count]),
            ArrayShape::new(ElementType::S32, &[count]),
        ];
        let pairs = [&shapes[0], &shapes[1]];
        let keys = self.keys(name, &key, key_type)?;
        let merged = sort::merge(&format!("{name}_merge"), &pairs)?;
        let apply = self.apply(&format!("{name}_apply"), key_type)?;
        let Some(merged) = merged else {
            return Ok(None);
        };
        let given = (0..self.kernel.params.len()).map(Slot::Given);
        let with = |own: [usize; 2]| given.clone().chain(own.map(Slot::Scratch)).collect();
        let bytes: Vec<Term> = pairs.iter().map(|shape| sort::bytes(shape)).collect();
        Ok(Some(KernelSequence {
            functions: vec![keys, merged, apply],
            scratch: [&bytes[..]; 3].concat(),
            steps: vec![
                Work::Launch {
                    function: 0,
                    arrays: with([0, 1]),
                },
                Work::Passes {
                    function: 1,
                    run: THREADS,
                    length: Term::constant(count),
                    from: [0, 1].map(Slot::Scratch).to_vec(),
                    to: [2, 3].map(Slot::Scratch).to_vec(),
                    between: [4, 5].map(Slot::Scratch).to_vec(),
                    bytes,
                },
                Work::Launch {
                    function: 2,
                    arrays: with([2, 3]),
                },
            ],
        }))
    }

    /// The element that an update changes, at the first position of the domain, and a type that can
    /// hold its number: updates have equal keys exactly if they change the same element. `None` if
    /// an update changes several elements.
    fn key(&self) -> Option<(Term, ElementType)> {
        let found = accesses(self.kernel, &self.block);
        let &(param, index) = found.first()?;
        let declared = self.kernel.params.get(param)?;
        // All updated arrays have the same dimensions.
        let same = found.iter().all(|(other, at)| {
            *at == index
                && self
                    .kernel
                    .params
                    .get(*other)
                    .is_some_and(|p| p.dims == declared.dims)
        });
        let first = declared.elements_before(index).substitute(&mut |var| {
            let domain = self.kernel.domain.contains(&var);
            domain.then(|| Term::constant(0))
        });
        let elements = declared.dims.iter();
        let elements = elements.fold(Term::constant(1), |all, dim| all.mul(dim));
        let short = elements
            .as_constant()
            .is_some_and(|n| n < i64::from(i32::MAX));
        same.then_some((
            first,
            if short {
                ElementType::S32
            } else {
                ElementType::S64
            },
        ))
    }

    /// A function that computes the keys of updates with their numbers, sorted within each block.
    fn keys(&self, name: &str, key: &Term, ty: ElementType) -> Result<Function, Error> {
        let mut kernel = self.kernel.clone();
        let slot = kernel.params.len();
        kernel.params.push(Param {
            access: Access::Write,
            element_type: ty,
            dims: vec![Term::constant(1)],
        });
        let mut block = self.block.clone();
        keys_instead(self.kernel, &mut kernel, &mut block, key, slot);
        // All positions of the domain have the same key.
        for &var in &self.kernel.domain {
            kernel.vars[var.0 as usize] = IndexVar::Loop(Term::constant(1));
        }
        let own = crate::types::storage(ty);
        let mut body = Body::new(&kernel);
        let count = body.term(&self.count);
        body.line(&format!("__shared__ {own} keys[{THREADS}];"));
        body.line(&format!(
            "const unsigned int first = blockIdx.x * {THREADS}u, number = first + threadIdx.x;"
        ));
        body.line(&format!("{own} p{slot}[1] = {{{}}};", none(ty)));
        body.open(&format!("if (number < (unsigned int)({count}))"));
        for &var in &self.kernel.domain {
            body.declare_index(var, "0");
        }
        self.name_vars(&mut body, "number", false)?;
        body.block(&block)?;
        body.close("");
        body.line(&format!("const {own} key = p{slot}[0];"));
        body.line("keys[threadIdx.x] = key;");
        body.line("__syncthreads();");
        body.line("unsigned int place = first;");
        body.open(&format!("for (unsigned int i = 0; i < {THREADS}u; ++i)"));
        body.line(&format!("const {own} other = keys[i];"));
        body.line("place += other < key || other == key && i < threadIdx.x;");
        body.close("");
        body.line(&format!("if (number >= (unsigned int)({count})) return;"));
        body.line("q0[place] = key;");
        body.line("q1[place] = (int)number;");
        let reason = "the element that each update goes to, sorted in runs of 256";
        Ok(self.finished(name, reason, body, &[own, "int"], &self.count))
    }

    fn apply(&self, name: &str, ty: ElementType) -> Result<Function, Error> {
        let own = crate::types::storage(ty);
        let mut body = Body::new(self.kernel);
        let (count, wide) = self.threads(&mut body, &self.count);
        name_domain(&mut body, "point", wide)?;
        let updates = body.term(&self.count);
        body.line(&format!("const {own} key = q0[place];"));
        body.line(&format!("if (key == {}) return;", none(ty)));
        body.line("if (place > 0 && q0[place - 1] == key) return;");
        let index = if wide {
            "unsigned long long"
        } else {
            "unsigned int"
        };
        body.open(&format!(
            "for ({index} at = place; at < ({index})({updates}) && q0[at] == key; ++at)"
        ));
        body.line("const unsigned int number = (unsigned int)q1[at];");
        self.name_vars(&mut body, "number", false)?;
        body.block(&self.block)?;
        body.close("");
        let reason = "one thread for all updates of an element, in their order";
        Ok(self.finished(name, reason, body, &[own, "int"], &count))
    }
}

/// The key of an update that is out of bounds: greater than any element's number.
fn none(ty: ElementType) -> &'static str {
    match ty {
        ElementType::S32 => "0x7fffffff",
        _ => "0x7fffffffffffffffll",
    }
}

/// The block with stores replaced by a store of the key to a parameter's only element.
fn keys_instead(old: &Kernel, new: &mut Kernel, block: &mut Block, key: &Term, slot: usize) {
    let mut kept = Vec::with_capacity(block.statements.len());
    for mut statement in std::mem::take(&mut block.statements) {
        match &mut statement {
            Statement::Load { result, param, .. } if !super::is_read(old, *param) => {
                // The results computed from it are not stored.
                kept.push(Statement::Compute {
                    result: *result,
                    op: ScalarOp::Constant(0),
                    operands: smallvec::SmallVec::new(),
                });
                continue;
            }
            Statement::Store { .. } => {
                let value = new.scalars.push(new.params[slot].element_type);
                kept.push(Statement::Compute {
                    result: value,
                    op: ScalarOp::Index(key.clone()),
                    operands: smallvec::SmallVec::new(),
                });
                kept.push(Statement::Store {
                    param: slot,
                    index: vec![Term::constant(0)],
                    value,
                });
                continue;
            }
            Statement::If {
                then, otherwise, ..
            } => {
                keys_instead(old, new, then, key, slot);
                keys_instead(old, new, otherwise, key, slot);
            }
            _ => {}
        }
        kept.push(statement);
    }
    block.statements = kept;
}
