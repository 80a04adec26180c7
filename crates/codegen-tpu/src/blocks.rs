//! Blocking (tiling) of a kernel: its operations on one block of the result and, if a product's
//! depth is divided too, on one block of the depth.

use super::follow::{Follows, follow};
use super::search::{Cut, Search};
use rustc_hash::{FxHashMap, FxHashSet};
use tegula_ir::{
    ArrayShape, ElementType, Instruction, InstructionId, Literal, Module, ModuleBuilder, Op, Shape,
    SliceDim,
};
use tegula_sim_tpu::speeds::Speeds;
use tegula_sim_tpu::work;

/// A kernel divided into blocks.
#[derive(Clone, Debug)]
pub(super) struct Blocks {
    /// The computation on one block.
    pub work: OnBlock,
    /// The number of blocks along each dimension of the result, then along a product's depth.
    pub counts: Vec<i64>,
    /// How each dimension is divided, for each parameter and then for the result.
    pub cuts: Vec<Vec<Cut>>,
    /// The number of buffers for each array that moves from block to block.
    pub copies: i64,
}

/// The computation on one block.
#[derive(Clone, Debug)]
pub(super) enum OnBlock {
    /// The kernel.
    Whole(Box<Module>),
    /// The partial sums of a product over blocks of its depth, then the operations after the
    /// product.
    Sums(Box<Sums>),
}

/// The partial sums of a product over blocks of its depth, and the operations after it.
#[derive(Clone, Debug)]
pub(super) struct Sums {
    /// The product on one block.
    pub partial: Module,
    /// The numbers of the parameters that the product reads.
    pub partial_reads: Vec<usize>,
    /// Computes the result from the sums and the parameters in `last_reads`.
    pub last: Module,
    /// The numbers of the parameters that it reads.
    pub last_reads: Vec<usize>,
    /// The shape of the sums.
    pub shape: ArrayShape,
}

/// The limits for blocks, and what determines their speed.
pub(super) struct Limits<'a> {
    /// Bytes of VMEM.
    pub bytes: i64,
    /// The chip.
    pub speeds: &'a Speeds,
}

impl Blocks {
    /// Divides a kernel into blocks so that the arrays for which `staged` holds (parameters, then
    /// the result) fit. If possible, those that move from block to block are double-buffered.
    ///
    /// # Errors
    /// The number of bytes that the smallest blocks need.
    pub(super) fn of(
        module: &Module,
        staged: &[bool],
        limits: &Limits<'_>,
        bytes: &dyn Fn(&ArrayShape) -> i64,
    ) -> Result<Self, i64> {
        let entry = module.entry_computation();
        let result = module[entry.root].shape.as_array().ok_or(i64::MAX)?;
        let mut extents: Vec<i64> = result.static_dims().ok_or(i64::MAX)?.to_vec();
        let rank = extents.len();
        let mut cut: Vec<usize> = (0..rank).collect();
        cut.retain(|&dim| follow(module, &[dim], None).is_some());
        // Dimensions may be incompatible with one another; later ones are dropped then.
        while follow(module, &cut, None).is_none() && cut.pop().is_some() {}
        let product = the_product(module);
        let product = product.filter(|&(dot, _)| follow(module, &cut, Some(dot)).is_some());
        if let Some((_, depth)) = product {
            extents.push(depth);
            cut.push(rank);
        }
        let product = product.map(|(dot, _)| dot);
        let result_cut = &cut[..cut.len() - usize::from(product.is_some())];
        let follows = follow(module, result_cut, product).ok_or(i64::MAX)?;
        let arrays = entry.parameters.iter().copied().chain([entry.root]);
        let arrays: Vec<InstructionId> = arrays.collect();
        let (cycles, _) = work::of(module, limits.speeds).bound();
        let mut ops = entry.instructions.iter().map(|&id| &module[id].op);
        let mut search = Search {
            module,
            arrays: &arrays,
            staged,
            follows: &follows,
            extents: &extents,
            copies: 2,
            sums: product,
            limit: limits.bytes,
            arithmetic: cycles / limits.speeds.clock,
            has_product: ops.any(is_product),
            speeds: limits.speeds,
            bytes,
        };
        // If two buffers per array do not fit, one may.
        let sizes = search.sizes(&cut).or_else(|_| {
            search.copies = 1;
            search.sizes(&cut)
        })?;
        let rewrite = Rewrite {
            module,
            follows: &follows,
            sizes: &sizes,
            extents: &extents,
        };
        let work = match product {
            Some(dot) if sizes[rank] < extents[rank] => rewrite.sums(dot),
            _ => rewrite.whole().map(|whole| OnBlock::Whole(Box::new(whole))),
        };
        Ok(Self {
            work: work.ok_or(i64::MAX)?,
            counts: search.counts(&sizes),
            cuts: arrays.iter().map(|id| search.cuts(*id, &sizes)).collect(),
            copies: search.copies,
        })
    }
}

/// Whether the matrix units compute an operation.
pub(super) fn is_product(op: &Op) -> bool {
    matches!(op, Op::Dot { .. } | Op::Convolution { .. })
}

/// The kernel's only product, if it sums over a single dimension, and the size of that.
fn the_product(module: &Module) -> Option<(InstructionId, i64)> {
    let entry = module.entry_computation();
    let is_dot = |id: &&InstructionId| matches!(module[**id].op, Op::Dot { .. });
    let mut products = entry.instructions.iter().filter(is_dot);
    let (&dot, None) = (products.next()?, products.next()) else {
        return None;
    };
    let Op::Dot { dims, .. } = &module[dot].op else {
        return None;
    };
    let (&[left], [_]) = (&dims.lhs_contracting[..], &dims.rhs_contracting[..]) else {
        return None;
    };
    let lhs = module[*module[dot].operands.first()?].shape.as_array()?;
    let size = lhs.static_dims()?;
    Some((dot, *size.get(usize::try_from(left).ok()?)?))
}

/// Rewrites a kernel's operations for the size of a block.
struct Rewrite<'a> {
    module: &'a Module,
    follows: &'a FxHashMap<InstructionId, Follows>,
    sizes: &'a [i64],
    extents: &'a [i64],
}

impl Rewrite<'_> {
    fn block(&self, id: InstructionId) -> Shape {
        let mut shape = self.module[id].shape.clone();
        if let (Shape::Array(array), Some(follows)) = (&mut shape, self.follows.get(&id)) {
            for (dim, follows) in array.dims.iter_mut().zip(follows) {
                if let Some(of) = follows
                    && self.sizes[*of] < self.extents[*of]
                {
                    *dim = self.sizes[*of].into();
                }
            }
        }
        shape
    }

    /// The whole kernel on a block.
    fn whole(&self) -> Option<Module> {
        let entry = self.module.entry_computation();
        let given = entry.parameters.iter();
        let given: Vec<_> = given.map(|&id| (id, self.block(id))).collect();
        self.part(&given, entry.root, None)
    }

    /// The product alone, and the operations after it.
    fn sums(&self, dot: InstructionId) -> Option<OnBlock> {
        let entry = self.module.entry_computation();
        let given = |of: &FxHashSet<InstructionId>| -> Vec<usize> {
            let parameters = entry.parameters.iter().enumerate();
            let used = parameters.filter(|(_, id)| of.contains(id));
            used.map(|(number, _)| number).collect()
        };
        let shapes = |numbers: &[usize]| -> Vec<(InstructionId, Shape)> {
            let ids = numbers.iter().map(|&number| entry.parameters[number]);
            ids.map(|id| (id, self.block(id))).collect()
        };
        let partial_reads = given(&self.cone(dot, &FxHashSet::default()));
        let last_reads = given(&self.cone(entry.root, &FxHashSet::from_iter([dot])));
        let product = self.module[dot].shape.as_array()?.element_type;
        let mut sums = self.block(dot).as_array()?.clone();
        if product.is_float() && product.bits() < 32 {
            sums.element_type = ElementType::F32;
            sums.layout = None;
        }
        let wide = (dot, Shape::Array(sums.clone()));
        let partial = self.part(&shapes(&partial_reads), dot, Some(&wide))?;
        let mut given = vec![wide];
        given.extend(shapes(&last_reads));
        let last = self.part(&given, entry.root, None)?;
        Some(OnBlock::Sums(Box::new(Sums {
            partial,
            partial_reads,
            last,
            last_reads,
            shape: sums,
        })))
    }

    /// Everything that a value is computed from, up to the values in `given`.
    fn cone(
        &self,
        root: InstructionId,
        given: &FxHashSet<InstructionId>,
    ) -> FxHashSet<InstructionId> {
        let mut found = FxHashSet::default();
        let mut work = vec![root];
        while let Some(id) = work.pop() {
            if !given.contains(&id) && found.insert(id) {
                work.extend(&self.module[id].operands);
            }
        }
        found
    }

    /// The operations between the given values and a root, which may get another shape.
    fn part(
        &self,
        given: &[(InstructionId, Shape)],
        root: InstructionId,
        shaped: Option<&(InstructionId, Shape)>,
    ) -> Option<Module> {
        let entry = self.module.entry_computation().clone();
        let mut builder = ModuleBuilder::extend(self.module.clone());
        let mut new = builder.computation("block");
        let mut made: FxHashMap<InstructionId, InstructionId> = FxHashMap::default();
        for (id, shape) in given {
            let Instruction { name, .. } = &self.module[*id];
            let mut value = new.named_parameter(name, shape.clone());
            let (own, held) = (self.block(*id), shape);
            if own.as_array()?.element_type != held.as_array()?.element_type {
                value = new
                    .push_named(Some("rounded"), Op::Convert, &[value], Some(own))
                    .ok()?;
            }
            made.insert(*id, value);
        }
        let given: FxHashSet<InstructionId> = given.iter().map(|(id, _)| *id).collect();
        let wanted = self.cone(root, &given);
        for &id in &entry.instructions {
            if !wanted.contains(&id) {
                continue;
            }
            let instruction = &self.module[id];
            let shape = match shaped {
                Some((of, shape)) if *of == id => shape.clone(),
                _ => self.block(id),
            };
            let op = op_on_block(self.module, instruction, &shape)?;
            let operands = instruction.operands.iter();
            let operands: Option<Vec<InstructionId>> =
                operands.map(|id| made.get(id).copied()).collect();
            let name = Some(&*instruction.name);
            made.insert(id, new.push_named(name, op, &operands?, Some(shape)).ok()?);
        }
        let entry = new.finish(*made.get(&root)?).ok()?;
        Some(builder.build_unverified(entry))
    }
}

/// An operation with attributes for the block's size of its result.
fn op_on_block(module: &Module, instruction: &Instruction, shape: &Shape) -> Option<Op> {
    let dims = shape.as_array()?.static_dims()?;
    let rank = |operand: usize| {
        let id = instruction.operands.get(operand)?;
        Some(module[*id].shape.as_array()?.rank())
    };
    let op = &instruction.op;
    Some(match op {
        Op::Slice(slices) => {
            let cut = |(slice, &size): (&SliceDim, &i64)| slice.shortened(size);
            Op::Slice(slices.iter().zip(&dims).map(cut).collect())
        }
        Op::Gather {
            dims: roles,
            slice_sizes,
            indices_are_sorted,
        } => {
            let mut slice_sizes = slice_sizes.clone();
            let ranks = [rank(0)?, rank(1)?, dims.len()];
            let operand = roles.roles(ranks)?.operand.into_iter();
            for (size, role) in slice_sizes.iter_mut().zip(operand) {
                if let Some(offset) = role.offset {
                    *size = *dims.get(offset)?;
                }
            }
            Op::Gather {
                dims: roles.clone(),
                slice_sizes,
                indices_are_sorted: *indices_are_sorted,
            }
        }
        Op::Constant(literals) => {
            let literal = literals.first()?;
            let whole = literal.shape().static_dims()?;
            if whole == dims {
                op.clone()
            } else {
                let one = literal.uniform_element()?;
                let count = usize::try_from(dims.iter().product::<i64>()).ok()?;
                let shape = ArrayShape::new(literal.element_type(), &dims);
                let literal = Literal::from_bytes(&shape, &one.repeat(count)).ok()?;
                Op::Constant([literal].into())
            }
        }
        _ => op.clone(),
    })
}
