//! Loads and stores: the addresses of the lanes' elements.

use super::lane_spans::{Varying, span};
use super::{Reason, Source, Translator, Use};
use crate::analysis::affine_access::{Ranges, linear_index, split};
use crate::simd::half_precision;
use crate::simd::ir::{Access, Condition, Input, SMALL, Storage, Type, V};
use crate::vectorize::elementwise::{Lanes, join_pair, split_pair};
use smallvec::SmallVec;
use tegula_expr::{Term, Var, canonicalize, range_of};
use tegula_fusion::kernel::{IndexVar, Param, ScalarId};
use tegula_ir::ElementType;

/// Strides of loads for which there is something better than a gather.
const STRIDES: [i64; 5] = [2, 3, 4, 8, 16];

impl Translator<'_> {
    /// Replaces the variables of the merged dimensions by 0.
    pub(crate) fn merge(&self, term: &Term) -> Term {
        if self.merged.is_empty() {
            return term.clone();
        }
        term.substitute(&mut |var| self.merged.contains(&var).then(|| Term::constant(0)))
    }

    /// The place of an element: an access, and the index if it is a gather.
    fn place(
        &mut self,
        param: usize,
        index: &[Term],
        part: usize,
    ) -> Result<(u32, Option<V>), Reason> {
        let (linear, storage, scale) = self.linear(param, index);
        let offset = part as u32 * storage.bytes;
        let linear_place = self.linear_place(&linear);
        let Some((rest, steps, stride)) = linear_place else {
            return self.gathered_place(param, &linear, storage, scale, offset);
        };
        let stride = stride.mul(&Term::constant(scale));
        let first = match self.mask {
            None if scale == 1 => self.first_of_block(param, &rest, &steps, &stride),
            _ => None,
        };
        // All accesses to a block have the same address, in the same form, by which they are found.
        let rest = match first {
            Some(first) => canonicalize(&rest.sub(&Term::constant(first)), &self.ranges),
            None => rest,
        };
        let access = self.access((param, offset), (rest, steps), storage, &stride, first);
        if matches!(stride.as_constant(), Some(0 | 1)) {
            return Ok((access, None));
        }
        // Lanes in the reverse order are one load and a shuffle.
        self.gathers += usize::from(stride.as_constant() != Some(-1));
        let lane = self.builder.lane();
        self.lanes_fit(&stride)?;
        let stride = self.splat_term(&stride);
        let mut index = self.builder.mul(lane, stride);
        if let Some(first @ 1..) = first {
            let first = self.builder.integer(Type::I32, first);
            index = self.builder.add(index, first);
        }
        Ok((access, Some(index)))
    }

    /// An element's offset in units of the array's storage, the form of a storage unit, and the
    /// number of units of an element.
    pub(super) fn linear(&self, param: usize, index: &[Term]) -> (Term, Storage, i64) {
        let element_type = self.kernel.params[param].element_type;
        // Storage units of one element.
        let scale = element_type.storage_bytes().div_ceil(8) as i64;
        let storage = Storage {
            bytes: element_type.storage_bytes() as u32 / scale as u32,
            signed: element_type.is_signed(),
        };
        let ranges = Ranges {
            vars: self.ranges.vars,
            lanes: None,
        };
        let linear = linear_index(self.kernel, param, index, &ranges);
        (self.merge(&linear), storage, scale)
    }

    /// Makes an access whose address loops move, with this stride between lanes.
    pub(super) fn access(
        &mut self,
        (param, offset): (usize, u32),
        (rest, steps): (Term, Vec<(usize, Term)>),
        storage: Storage,
        stride: &Term,
        first: Option<i64>,
    ) -> u32 {
        // A masked access to an unmapped page is correct, but slow (80 ns a vector, measured): if
        // no lane is active, the address of the array's beginning is used instead.
        let rest = self.taken.iter().fold(rest, |rest, taken| rest.mul(taken));
        let pointer = self.source(Source::Address(param, rest, offset), Input::Integer);
        let element = self.kernel.params[param].element_type.storage_bytes();
        let bytes = Term::constant(element as i64);
        let mut moves = Vec::with_capacity(steps.len());
        for (frame, step) in steps {
            let step = self.source(Source::Integer(step.mul(&bytes)), Input::Integer);
            moves.push((frame, step));
        }
        let access = Access {
            pointer,
            storage,
            splat: stride.as_constant() == Some(0),
        };
        self.moved_access(access, moves, first.is_some())
    }

    /// Makes an access that enclosing loops move; accesses to the blocks of one array are shared.
    fn moved_access(&mut self, access: Access, moves: Vec<(usize, u32)>, blocks: bool) -> u32 {
        let vars: Vec<(Var, u32)> = (moves.iter())
            .map(|&(frame, step)| (self.frames[frame].var, step))
            .collect();
        let key = (access.pointer, vars);
        if blocks && let Some(&known) = self.blocks.get(&key) {
            return known;
        }
        let number = self.builder.access(access);
        for (frame, step) in moves {
            self.frames[frame].steps.push((number, step));
        }
        if blocks {
            self.builder.body().blocks.push(number);
            self.blocks.insert(key, number);
        }
        number
    }

    /// For strided lanes, if the array consists of blocks of a stride's elements: the position of a
    /// lane's element in its block. Accesses to one block then share loads.
    fn first_of_block(
        &self,
        param: usize,
        rest: &Term,
        steps: &[(usize, Term)],
        stride: &Term,
    ) -> Option<i64> {
        let stride = stride.as_constant().filter(|s| STRIDES.contains(s))?;
        let divides = |term: &Term| term.as_constant().is_some_and(|n| n % stride == 0);
        let dims = &self.kernel.params[param].dims;
        let whole = dims.iter().any(divides) && dims.iter().all(|dim| dim.as_constant().is_some());
        if !whole || !steps.iter().all(|(_, step)| divides(step)) {
            return None;
        }
        let (terms, constant) = rest.as_linear()?;
        let of_blocks = terms.iter().all(|(_, factor)| factor % stride == 0);
        of_blocks.then(|| constant.rem_euclid(stride))
    }

    /// Splits a linear offset: the term with lane and loop variables 0 (it still contains the first
    /// lane), the step of each loop, and the stride between lanes.
    #[allow(clippy::type_complexity, reason = "three parts of one sum")]
    pub(super) fn linear_place(&self, linear: &Term) -> Option<(Term, Vec<(usize, Term)>, Term)> {
        let (stride, rest) = split(linear, self.lane)?;
        let (mut rest, mut steps) = (rest, Vec::new());
        for (i, frame) in self.frames.iter().enumerate() {
            let (step, without) = split(&rest, frame.var)?;
            rest = without;
            if step.as_constant() != Some(0) {
                steps.push((i, step));
            }
        }
        let uniform = |t: &Term| self.is_uniform(t);
        if !uniform(&rest) || !uniform(&stride) || !steps.iter().all(|(_, t)| uniform(t)) {
            return None;
        }
        let first = stride.mul(&Term::var(self.lane));
        Some((rest.add(&first), steps, stride))
    }

    /// The address for an index that varies between lanes. If sums and products in the index may
    /// overflow 32 bits, offsets are computed modulo 2^32, and a guard checks that the array is
    /// small enough for that to be exact.
    fn gathered_place(
        &mut self,
        param: usize,
        linear: &Term,
        storage: Storage,
        scale: i64,
        offset: u32,
    ) -> Result<(u32, Option<V>), Reason> {
        self.gathers += 1;
        let scale = Term::constant(scale);
        let is_guarded = !self.sums_fit(&linear.mul(&scale));
        if is_guarded {
            let dims = self.kernel.params[param].dims.iter();
            self.guard(&dims.fold(scale.clone(), |units, dim| units.mul(dim)))?;
        }
        let small = self.small_array(param).filter(|_| offset == 0);
        // Uniform terms become part of the address, unless offsets are computed modulo 2^32.
        let mut base = Term::constant(0);
        let mut varying = linear.clone();
        let is_split = small.is_none() && !is_guarded;
        if let Some((terms, constant)) = linear.as_linear().filter(|_| is_split) {
            varying = Term::constant(0);
            base = Term::constant(constant);
            for (atom, factor) in terms {
                let term = atom.mul(&Term::constant(factor));
                if self.is_uniform(&atom) {
                    base = base.add(&term);
                } else {
                    varying = varying.add(&term);
                }
            }
        }
        let varying = varying.mul(&scale);
        let pointer = self.source(Source::Address(param, base, offset), Input::Integer);
        let access = self.builder.access(Access {
            pointer,
            storage,
            splat: false,
        });
        let small = small.map(|elements| (access, elements));
        self.builder.body().small.extend(small);
        let lane = Varying {
            lane: self.lane,
            differs: &|var| self.vars.contains_key(&var),
        };
        let span = span(&varying, lane).map(|span| (access, span));
        self.builder.body().spans.extend(span);
        let index = match is_guarded {
            true => self.wrapping_term(&varying)?,
            false => self.term(&varying)?,
        };
        Ok((access, Some(index)))
    }

    /// Checks that the distance between any two lanes' elements fits 32 bits.
    fn lanes_fit(&mut self, stride: &Term) -> Result<(), Reason> {
        let known = self.fits(&stride.mul(&Term::var(self.lane)));
        if known.is_ok() || range_of(stride, &self.ranges).lower < 0 {
            return known;
        }
        let (kernel, lane) = (self.kernel, self.lane);
        let mut counted = self.merged.iter().copied().chain([lane]);
        let one = Term::constant(1);
        let Some(lanes) = counted.try_fold(one, |n, var| Some(n.mul(kernel.extent(var)?))) else {
            return known;
        };
        // The product of two terms that fit does not overflow when it is computed.
        self.guard(stride)?;
        self.guard(&lanes)?;
        self.guard(&stride.mul(&lanes))
    }

    /// Makes the run one for sizes at which a term over symbols fits 32 bits.
    fn guard(&mut self, term: &Term) -> Result<(), Reason> {
        let term = canonicalize(term, &self.ranges);
        if self.fits(&term).is_ok() {
            return Ok(());
        }
        let mut is_size = self.stored.is_none();
        term.for_each_var(&mut |var| {
            is_size &= matches!(self.kernel.var(var), Some(IndexVar::Symbol { .. }));
        });
        if !is_size {
            return Err(Reason::new("an index of more than 32 bits"));
        }
        if !self.guards.contains(&term) {
            self.guards.push(term);
        }
        Ok(())
    }

    fn small_array(&self, param: usize) -> Option<u32> {
        small_array(&self.kernel.params[param])
    }

    /// Checks that a term fits 32 bits.
    pub(crate) fn fits(&self, term: &Term) -> Result<(), Reason> {
        let range = range_of(term, &self.ranges);
        let limit = i64::from(i32::MAX);
        if range.lower < -limit || range.upper > limit {
            return Err(Reason::new("an index of more than 32 bits"));
        }
        Ok(())
    }

    pub(super) fn load(&mut self, param: usize, index: &[Term]) -> Result<Lanes, Reason> {
        let written = self.stored.as_ref().and_then(|s| s.get(&param));
        if written.is_some_and(|&written| written != index) {
            return Err(Reason::new("a loop that reads what it writes"));
        }
        // Between stores and loops, loads of the same element return the same value.
        let place = (self.kernel.params[param].access == Use::Read).then(|| {
            let linear = linear_index(self.kernel, param, index, &self.ranges);
            (param, linear, self.mask)
        });
        if let Some(place) = &place
            && let Some(known) = self.loaded.get(place)
        {
            return Ok(known.clone());
        }
        let lanes = self.load_anew(param, index)?;
        self.loaded
            .extend(place.map(|place| (place, lanes.clone())));
        Ok(lanes)
    }

    fn load_anew(&mut self, param: usize, index: &[Term]) -> Result<Lanes, Reason> {
        let element_type = self.kernel.params[param].element_type;
        let ty = self.lane_type(element_type)?;
        if element_type.is_complex()
            && let Some(lanes) = self.load_pair(param, index)?
        {
            return Ok(lanes);
        }
        let narrow = half_precision::is_supported(element_type);
        let stored = match ty {
            Type::Mask => Type::I32,
            _ if narrow => Type::I32,
            _ => ty,
        };
        let parts = if element_type.is_complex() { 2 } else { 1 };
        (0..parts)
            .map(|part| {
                let value = self.load_words(param, index, part, stored)?;
                let b = &mut self.builder;
                Ok(match ty {
                    Type::Mask => {
                        let zero = b.i32(0);
                        b.compare(Condition::NotEqual, value, zero)
                    }
                    _ if narrow => half_precision::decode(b, element_type, value),
                    _ => value,
                })
            })
            .collect()
    }

    /// Loads both parts of a complex number at once, if its elements are contiguous or a lane holds
    /// one.
    fn load_pair(&mut self, param: usize, index: &[Term]) -> Result<Option<Lanes>, Reason> {
        if let Some(access) = self.contiguous_pairs(param, index) {
            let (b, mask) = (&mut self.builder, self.mask);
            let halves = [false, true].map(|high| b.load_half(access, high, mask));
            return Ok(Some(SmallVec::from_slice(&halves)));
        }
        if self.kernel.params[param].element_type != ElementType::C64 {
            return Ok(None);
        }
        if let Some(access) = self.tile_access(param, index) {
            let halves = [false, true].map(|high| self.builder.load_half(access, high, None));
            return Ok(Some(SmallVec::from_slice(&halves)));
        }
        let (access, at) = self.place(param, index, 0)?;
        let (b, mask) = (&mut self.builder, self.mask);
        let pair = match at {
            Some(at) => b.gather(access, Type::I64, at, mask),
            None => b.load(access, Type::I64, mask),
        };
        Ok(Some(split_pair(b, pair)))
    }

    /// An access to contiguous complex numbers, by halves; `None` if lanes are not neighbours.
    fn contiguous_pairs(&mut self, param: usize, index: &[Term]) -> Option<u32> {
        let (linear, ..) = self.linear(param, index);
        let (rest, steps, stride) = self.linear_place(&linear)?;
        if stride.as_constant() != Some(1) {
            return None;
        }
        let storage = Storage {
            bytes: self.kernel.params[param].element_type.storage_bytes() as u32,
            signed: false,
        };
        Some(self.access((param, 0), (rest, steps), storage, &stride, None))
    }

    /// Loads each lane's storage unit: a whole element, or a part of one too large for a lane.
    fn load_words(
        &mut self,
        param: usize,
        index: &[Term],
        part: usize,
        ty: Type,
    ) -> Result<V, Reason> {
        if let Some(runs) = self.lane_runs(param, index)? {
            let b = &mut self.builder;
            let loaded = runs
                .iter()
                .map(|run| (run.mask, b.load(run.access, ty, Some(run.mask))));
            let loaded: SmallVec<[(V, V); 4]> = loaded.collect();
            let joined = loaded
                .into_iter()
                .reduce(|before, (mask, x)| (mask, b.select(mask, x, before.1)));
            if let Some((_, joined)) = joined {
                return Ok(joined);
            }
        }
        if let Some(access) = self.tile_access(param, index) {
            return Ok(self.builder.load(access, ty, None));
        }
        let (access, at) = self.place(param, index, part)?;
        let (b, mask) = (&mut self.builder, self.mask);
        Ok(match at {
            Some(at) => b.gather(access, ty, at, mask),
            None => b.load(access, ty, mask),
        })
    }

    pub(super) fn store(
        &mut self,
        param: usize,
        index: &[Term],
        value: ScalarId,
    ) -> Result<(), Reason> {
        let element_type = self.kernel.params[param].element_type;
        let lanes = self.lanes_of(value)?;
        self.loaded.clear();
        if self.stored.is_some() && !self.writes_apart(param, index) {
            return Err(Reason::new(
                "a loop whose iterations may write the same element",
            ));
        }
        if element_type.is_complex() && self.store_pair(param, index, [lanes[0], lanes[1]])? {
            return Ok(());
        }
        for (part, &value) in lanes.iter().enumerate() {
            if let Some(runs) = self.lane_runs(param, index)? {
                let stored = self.stored_form(element_type, value);
                for run in runs {
                    self.builder.store(run.access, stored, None, Some(run.mask));
                }
                continue;
            }
            let (access, at) = self.place(param, index, part)?;
            if at.is_none() && self.builder.body().accesses[access as usize].splat {
                return Err(Reason::new("all lanes write one element"));
            }
            let stored = self.stored_form(element_type, value);
            self.builder.store(access, stored, at, self.mask);
        }
        Ok(())
    }

    /// Converts a value to the form that is stored.
    fn stored_form(&mut self, element_type: ElementType, value: V) -> V {
        let b = &mut self.builder;
        match b.type_of(value) {
            Type::Mask => b.truth(value),
            _ if half_precision::is_supported(element_type) => {
                half_precision::encode(b, element_type, value)
            }
            _ => value,
        }
    }

    /// Stores both parts of a complex number at once, as [`Self::load_pair`] loads them: separate
    /// stores of every second element would be scatters.
    fn store_pair(&mut self, param: usize, index: &[Term], parts: [V; 2]) -> Result<bool, Reason> {
        if let Some(access) = self.contiguous_pairs(param, index) {
            self.builder.store_pair(access, parts, self.mask);
            return Ok(true);
        }
        if self.kernel.params[param].element_type != ElementType::C64 {
            return Ok(false);
        }
        let (access, at) = self.place(param, index, 0)?;
        let (b, mask) = (&mut self.builder, self.mask);
        if at.is_none() {
            return Err(Reason::new("all lanes write one element"));
        }
        let pair = join_pair(b, parts[0], parts[1]);
        b.store(access, pair, at, mask);
        Ok(true)
    }

    /// Whether the iterations of the vectorised loop store to different elements: the offset
    /// changes with the lane, and with no inner loop.
    fn writes_apart(&self, param: usize, index: &[Term]) -> bool {
        let linear = linear_index(self.kernel, param, index, &self.ranges);
        let stride = split(&linear, self.lane).map(|(stride, _)| stride);
        let moves = stride.is_some_and(|s| s.as_constant().is_some_and(|s| s != 0));
        moves && self.frames.iter().all(|f| !linear.mentions(f.var))
    }
}

/// The number of elements of an array, if it has only a few words and the kernel only reads it: a
/// register may hold all of it.
pub(crate) fn small_array(declared: &Param) -> Option<u32> {
    let mut dims = declared.dims.iter().map(Term::as_constant);
    let elements = dims.try_fold(1i64, |n, dim| n.checked_mul(dim?))?;
    let words = declared.element_type.storage_bytes() == 4;
    let is_small = declared.access == Use::Read && words && (1..=SMALL).contains(&elements);
    is_small.then_some(elements as u32)
}
