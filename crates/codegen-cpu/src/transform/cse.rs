//! Common-subexpression elimination, loads included.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use tegula_expr::Term;
use tegula_fusion::kernel::{Access, Block, IndexVar, ScalarId, ScalarOp, Statement};
use tegula_fusion::{Kernel, Rename};
use tegula_ir::ElementType;

/// The definition of a scalar without its name: the key of the hash table. Constants of different
/// types have the same bits.
#[derive(PartialEq, Eq, Hash)]
enum Definition {
    Compute(ElementType, ScalarOp, SmallVec<[ScalarId; 3]>),
    Load(usize, Vec<Term>),
}

/// Keeps the first of equal statements of a block and its enclosing blocks.
pub(crate) fn eliminate_common_subexpressions(kernel: &mut Kernel) {
    let mut body = std::mem::take(&mut kernel.body);
    let mut pass = Pass {
        kernel,
        known: vec![FxHashMap::default()],
        rename: Rename::default(),
    };
    pass.block(&mut body);
    let rename = pass.rename;
    for var in &mut kernel.vars {
        if let IndexVar::Runtime { value, .. } = var {
            *value = rename.scalar(*value);
        }
    }
    kernel.body = body;
}

struct Pass<'k> {
    kernel: &'k Kernel,
    /// The known definitions of each open block, outermost first.
    known: Vec<FxHashMap<Definition, ScalarId>>,
    rename: Rename,
}

impl Pass<'_> {
    fn block(&mut self, block: &mut Block) {
        let statements = std::mem::take(&mut block.statements);
        for statement in statements {
            let mut statement = self.rename.statement(&statement);
            match &mut statement {
                Statement::Loop { body, .. } => self.inside(body),
                Statement::If {
                    then, otherwise, ..
                } => {
                    self.inside(then);
                    self.inside(otherwise);
                }
                _ => {
                    if let Some((definition, result)) = self.definition(&statement) {
                        if let Some(&same) = self.find(&definition) {
                            self.rename.scalars.insert(result, same);
                            continue;
                        }
                        if let Some(known) = self.known.last_mut() {
                            known.insert(definition, result);
                        }
                    }
                }
            }
            block.statements.push(statement);
        }
        block.results = self.rename.scalars(&block.results);
    }

    fn inside(&mut self, block: &mut Block) {
        self.known.push(FxHashMap::default());
        self.block(block);
        self.known.pop();
    }

    fn find(&self, definition: &Definition) -> Option<&ScalarId> {
        self.known
            .iter()
            .rev()
            .find_map(|known| known.get(definition))
    }

    /// The scalar that a statement defines, with its definition, if that gives the same wherever
    /// the statement is.
    fn definition(&self, statement: &Statement) -> Option<(Definition, ScalarId)> {
        match statement {
            Statement::Compute {
                result,
                op,
                operands,
            } => {
                let ty = self.kernel.scalars[*result];
                let definition = Definition::Compute(ty, op.clone(), operands.clone());
                Some((definition, *result))
            }
            Statement::Load {
                result,
                param,
                index,
            } => {
                let read = self.kernel.params.get(*param)?.access == Access::Read;
                read.then(|| (Definition::Load(*param, index.clone()), *result))
            }
            _ => None,
        }
    }
}
