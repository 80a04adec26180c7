//! How an operation is computed on parts of its arrays.
//!
//! A plan says along which axes the operation is cut. It follows what is wanted of the result, or
//! what its operands are, and the cheapest one is taken: bringing operands into place, combining
//! partial sums, and bringing the result into place all cost bytes, and computing costs time that is
//! counted in bytes too. The plan that gathers all operands is always possible.

use super::local::{WindowPick, part_of, part_shape};
use super::plan::{Indexed, Plan};
use super::reshard::{self, part_bytes};
use super::{Emitter, Frame, Local, cost, number, window};
use crate::axes::{Axis, AxisKind, combination, is_reshape};
use crate::error::Error;
use crate::graph::Node;
use crate::sharding::{Cut, Sharding};
use tegula_ir::{
    ArrayShape, Binary, Dim, Dims, DraftId, ElementType, Literal, Module, Op, Scalar, Shape,
};

impl Emitter<'_> {
    fn dims_of(&self, value: usize) -> Dims {
        let array = self.graph.values[value].shape.as_array();
        array.map(|array| array.dims.clone()).unwrap_or_default()
    }

    fn array_of(&self, value: usize) -> ArrayShape {
        let array = self.graph.values[value].shape.as_array().cloned();
        array.unwrap_or_else(|| ArrayShape::new(ElementType::Pred, &[]))
    }

    /// Computes an operation; gives its results, each with the sharding that it shall have.
    pub(super) fn operation(&mut self, frame: &mut Frame, node: &Node) -> Result<(), Error> {
        if let Some(made) = self.made_of_nothing(frame, node)? {
            frame.values.insert(node.results[0], made);
            return Ok(());
        }
        let plan = self.plan(frame, node);
        self.explain(frame, node, &plan);
        let results = match &plan.indexed {
            Some(_) => self.indexed(frame, node, &plan)?,
            None => self.compute(frame, node, &plan)?,
        };
        let scope = self.scope_of(node);
        for (value, local) in node.results.iter().zip(results) {
            let target = self.found.sharding(*value).clone();
            let local = Local {
                sharding: local.sharding.of_rank(target.rank()),
                ..local
            };
            self.reason = format!("its result is wanted as {target}");
            let local = self.reshard(frame, &local, &target, &self.dims_of(*value), scope)?;
            frame.values.insert(*value, local);
        }
        Ok(())
    }

    /// Notes what is not simply the operation on parts.
    fn explain(&mut self, frame: &Frame, node: &Node, plan: &Plan) {
        let cut_operands = node
            .operands
            .iter()
            .filter_map(|value| frame.values.get(value));
        let any_cut = cut_operands
            .clone()
            .any(|local| !local.sharding.is_replicated());
        let result_cut = node
            .results
            .iter()
            .any(|value| !self.found.sharding(*value).is_replicated());
        let alone = plan.picks.is_empty() && plan.windows.is_empty() && plan.indexed.is_none();
        if alone && (any_cut || result_cut) {
            let what = if any_cut {
                "its operands are gathered and "
            } else {
                ""
            };
            self.note(format!("{what}every device computes all of it: it cannot be cut along any of these dimensions, or that costs more"));
        }
        if let Some((op, cut)) = plan.contracted() {
            self.note(format!(
                "each of {} devices has a partial result, combined by `{}`",
                cut.parts(),
                op.opcode().name()
            ));
        }
        for pick in &plan.windows {
            self.note(format!(
                "parts of dimension {} read beyond the borders of their operand's",
                pick.dim
            ));
        }
        if let Some(indexed) = &plan.indexed {
            self.note(indexed.text());
        }
    }

    /// Constants and iotas: each device makes its own part.
    fn made_of_nothing(&mut self, frame: &mut Frame, node: &Node) -> Result<Option<Local>, Error> {
        let &[value] = node.results.as_slice() else {
            return Ok(None);
        };
        let target = self.found.sharding(value).clone();
        let array = self.array_of(value);
        let part = part_of(&array, &target);
        let id = match &node.op {
            Op::Constant(literals) => {
                let [literal] = &literals[..] else {
                    return Ok(None);
                };
                let element = literal
                    .uniform_element()
                    .filter(|_| !target.is_replicated());
                let Some(element) = element else {
                    let id = self.push(frame, node.op.clone(), &[], Some(Shape::Array(array)))?;
                    let whole = Local {
                        id,
                        sharding: Sharding::replicated(target.rank(), target.devices()),
                    };
                    let scope = self.scope_of(node);
                    return self
                        .reshard(frame, &whole, &target, &self.dims_of(value), scope)
                        .map(Some);
                };
                let scalar = ArrayShape::new(literal.element_type(), &[]);
                let scalar_literal = Literal::from_bytes(&scalar, element);
                let scalar_literal =
                    scalar_literal.map_err(|_| self.bug("an element of a constant"))?;
                let op = Op::Constant([scalar_literal].into());
                let element = self.push(frame, op, &[], Some(Shape::Array(scalar)))?;
                self.filled(frame, element, &part.dims)?
            }
            Op::Iota(dim) => {
                let along = usize::try_from(*dim).unwrap_or(usize::MAX);
                match target.cut(along) {
                    None => self.push(frame, node.op.clone(), &[], Some(Shape::Array(part)))?,
                    Some(cut) => {
                        let size = array.dims.get(along).and_then(Dim::as_static).unwrap_or(0);
                        let starts: Vec<i64> = cut
                            .places()
                            .iter()
                            .map(|place| place * cut.part_size(size))
                            .collect();
                        let start = self.by_device(frame, &starts)?;
                        let index = Shape::Array(part.with_element_type(ElementType::S32));
                        let index = self.push(frame, node.op.clone(), &[], Some(index))?;
                        let start = self.filled(frame, start, &part.dims)?;
                        let index = self.binary(frame, Binary::Add, index, start)?;
                        match part.element_type {
                            ElementType::S32 => index,
                            _ => {
                                self.push(frame, Op::Convert, &[index], Some(Shape::Array(part)))?
                            }
                        }
                    }
                }
            }
            _ => return Ok(None),
        };
        Ok(Some(Local {
            id,
            sharding: target,
        }))
    }

    /// The cheapest plan.
    fn plan(&self, frame: &Frame, node: &Node) -> Plan {
        let current: Vec<Sharding> = node
            .operands
            .iter()
            .map(|value| self.current(frame, *value))
            .collect();
        let wanted = match node.results.first() {
            Some(result) => self.found.sharding(*result).clone(),
            None => Sharding::replicated(0, self.graph.devices),
        };
        let mut candidates: Vec<Vec<(Axis, Cut)>> = Vec::new();
        let by_result = self.picks_by_result(node, &wanted);
        let sums = self.picks_by_operands(node, &current, true);
        let all = self.picks_by_operands(node, &current, false);
        let joined = |first: &[(Axis, Cut)], then: &[(Axis, Cut)]| -> Vec<(Axis, Cut)> {
            first.iter().chain(then).cloned().collect()
        };
        candidates.push(joined(&by_result, &sums));
        candidates.push(joined(&by_result, &all));
        candidates.push(by_result.clone());
        candidates.push(joined(&sums, &by_result));
        candidates.push(joined(&all, &by_result));
        candidates.push(all);
        for number in 0..node.operands.len() {
            let one: Vec<Sharding> = current
                .iter()
                .enumerate()
                .map(|(own, sharding)| match own == number {
                    true => sharding.clone(),
                    false => Sharding::replicated(sharding.rank(), sharding.devices()),
                })
                .collect();
            if !one[number].is_replicated() {
                let own = self.picks_by_operands(node, &one, false);
                candidates.push(joined(&own, &by_result));
                candidates.push(own);
            }
        }
        let mut best: Option<Plan> = None;
        let mut consider = |plan: Option<Plan>| {
            if let Some(plan) = plan
                && best.as_ref().is_none_or(|best| plan.cost < best.cost)
            {
                best = Some(plan);
            }
        };
        for picks in candidates {
            let windows = self.window_picks(node, &wanted, &picks);
            if !windows.is_empty() {
                consider(self.priced(node, &picks, windows, None, &current, &wanted));
            }
            for indexed in Indexed::of(self, node, &current, &wanted) {
                consider(self.priced(node, &picks, Vec::new(), Some(indexed), &current, &wanted));
            }
            consider(self.priced(node, &picks, Vec::new(), None, &current, &wanted));
        }
        consider(self.priced(node, &[], Vec::new(), None, &current, &wanted));
        best.unwrap_or_else(|| Plan {
            picks: Vec::new(),
            windows: Vec::new(),
            indexed: None,
            operands: current
                .iter()
                .map(|own| Sharding::replicated(own.rank(), own.devices()))
                .collect(),
            result: Sharding::replicated(wanted.rank(), wanted.devices()),
            cost: 0,
        })
    }

    fn current(&self, frame: &Frame, value: usize) -> Sharding {
        match frame.values.get(&value) {
            Some(local) => local.sharding.clone(),
            None => Sharding::replicated(self.graph.values[value].rank(), self.graph.devices),
        }
    }

    fn picks_by_result(&self, node: &Node, wanted: &Sharding) -> Vec<(Axis, Cut)> {
        let mut picks = Vec::new();
        for dim in 0..wanted.rank() {
            let Some(cut) = wanted.cut(dim) else {
                continue;
            };
            let axes = self.axes.axes(node.instruction, cut.parts());
            let found = axes.iter().find(|axis| axis.result == Some(dim));
            picks.extend(found.map(|axis| (axis.clone(), cut.clone())));
        }
        picks
    }

    /// By the cuts of operands, those of large ones first.
    fn picks_by_operands(
        &self,
        node: &Node,
        current: &[Sharding],
        only_sums: bool,
    ) -> Vec<(Axis, Cut)> {
        let mut order: Vec<usize> = (0..current.len()).collect();
        order.sort_by_key(|number| {
            std::cmp::Reverse(self.graph.values[node.operands[*number]].bytes())
        });
        let mut picks: Vec<(Axis, Cut)> = Vec::new();
        for number in order {
            for dim in 0..current[number].rank() {
                let Some(cut) = current[number].cut(dim) else {
                    continue;
                };
                let axes = self.axes.axes(node.instruction, cut.parts());
                for axis in axes.iter() {
                    let own = axis.operands.get(number).copied().flatten() == Some(dim);
                    let fits = !only_sums || axis.kind != AxisKind::Parallel;
                    if own && fits && !picks.iter().any(|(known, _)| known == axis) {
                        picks.push((axis.clone(), cut.clone()));
                    }
                }
            }
        }
        picks
    }

    /// Dimensions of the result that are wanted cut, and of which parts read windows.
    fn window_picks(
        &self,
        node: &Node,
        wanted: &Sharding,
        picks: &[(Axis, Cut)],
    ) -> Vec<WindowPick> {
        let mut found = Vec::new();
        let Some(array) = node.shape.as_array() else {
            return found;
        };
        for dim in 0..wanted.rank() {
            let taken = picks.iter().any(|(axis, _)| axis.result == Some(dim));
            let Some(cut) = wanted.cut(dim).filter(|_| !taken) else {
                continue;
            };
            let size = array.dims.get(dim).and_then(Dim::as_static).unwrap_or(0);
            let part = cut.part_size(size);
            if part == 0 {
                continue;
            }
            let windows = windowed_operands(self.module, node, dim)
                .into_iter()
                .flatten()
                .map(|operand| {
                    let window =
                        self.axes
                            .window(node.instruction, operand, dim, part, cut.parts())?;
                    self.graph.values[node.operands[operand]].size(window.dim)?;
                    Some((operand, window))
                });
            let windows: Option<Vec<_>> = windows.collect();
            if let Some(windows) = windows.filter(|windows| !windows.is_empty()) {
                found.push(WindowPick {
                    dim,
                    cut: cut.clone(),
                    windows,
                });
            }
        }
        found
    }

    /// A plan with what it costs; [`None`] if it is none.
    fn priced(
        &self,
        node: &Node,
        candidates: &[(Axis, Cut)],
        windows: Vec<WindowPick>,
        indexed: Option<Indexed>,
        current: &[Sharding],
        wanted: &Sharding,
    ) -> Option<Plan> {
        let devices = self.graph.devices;
        let scope = self.scope(self.scope_of(node));
        let mut operands: Vec<Sharding> = current
            .iter()
            .map(|own| Sharding::replicated(own.rank(), devices))
            .collect();
        let mut result = Sharding::replicated(wanted.rank(), devices);
        let mut joint: Vec<Option<Cut>> = Vec::new();
        for pick in &windows {
            result = result.with(pick.dim, Some(pick.cut.clone()));
            joint.push(Some(pick.cut.clone()));
            for (operand, window) in &pick.windows {
                if current.get(*operand)?.cut(window.dim) == Some(&pick.cut) {
                    let own = operands.get_mut(*operand)?;
                    *own = own.with(window.dim, Some(pick.cut.clone()));
                }
            }
        }
        if let Some(indexed) = &indexed {
            joint.push(Some(indexed.cut.clone()));
            indexed.require(&mut operands, &mut result)?;
        }
        let mut draft = Draft {
            operands,
            result,
            joint,
        };
        let mut picks: Vec<(Axis, Cut)> = Vec::new();
        let mut combination = None;
        for (axis, cut) in candidates {
            if let AxisKind::Contracted(op) = axis.kind
                && (indexed.is_some() || combination.is_some_and(|own| own != op))
            {
                continue;
            }
            let Some(next) = draft.with(axis, cut, scope) else {
                continue;
            };
            draft = next;
            picks.push((axis.clone(), cut.clone()));
            if let AxisKind::Contracted(op) = axis.kind {
                combination = Some(op);
            }
        }
        let complete = Sharding::new(devices, draft.joint.clone()).is_complete(scope);
        let operands_complete = draft.operands.iter().all(|own| own.is_complete(scope));
        if !complete || !operands_complete || !draft.result.is_complete(scope) {
            return None;
        }
        let mut plan = Plan {
            picks,
            windows,
            indexed,
            operands: draft.operands,
            result: draft.result,
            cost: 0,
        };
        plan.cost = self.cost_of(node, &plan, current);
        Some(plan)
    }

    /// What a plan costs, in bytes over a link.
    fn cost_of(&self, node: &Node, plan: &Plan, current: &[Sharding]) -> i64 {
        let scope = self.scope(self.scope_of(node));
        let mut total = 0i64;
        let mut add = |bytes: i64| total = total.saturating_add(bytes);
        let mut local_bytes = 0i64;
        for (number, value) in node.operands.iter().enumerate() {
            let Some(array) = self.graph.values[*value].shape.as_array() else {
                continue;
            };
            add(reshard::cost_of(
                &current[number],
                &plan.operands[number],
                array,
                scope,
            ));
            local_bytes = local_bytes.saturating_add(part_bytes(&plan.operands[number], array));
        }
        for pick in &plan.windows {
            for (operand, window) in &pick.windows {
                let array = self.array_of(node.operands[*operand]);
                let sharding = &plan.operands[*operand];
                let size = window::known(&array.dims, window.dim).unwrap_or(0);
                add(window::cost_of(
                    window,
                    sharding.cut(window.dim),
                    size,
                    part_bytes(sharding, &array),
                ));
            }
        }
        for value in &node.results {
            let array = self.array_of(*value);
            let bytes = part_bytes(&plan.result, &array);
            local_bytes = local_bytes.saturating_add(bytes);
            let mut partial = plan.contracted().map(|(_, cut)| cut.parts());
            if let Some(indexed) = &plan.indexed
                && indexed.is_sum()
            {
                partial = Some(indexed.cut.parts());
            }
            let wanted = self.found.sharding(*value);
            let mut made = plan.result.of_rank(wanted.rank());
            if let Some(parts) = partial {
                match scattered_dim(plan, wanted, &array) {
                    Some((dim, cut)) => {
                        add(cost::LATENCY + cost::scatter(bytes, parts));
                        made = made.with(dim, Some(cut));
                    }
                    None => add(cost::LATENCY + cost::all_reduce(bytes, parts)),
                }
            }
            add(reshard::cost_of(&made, wanted, &array, scope));
        }
        add(local_bytes / cost::MEMORY_PER_LINK);
        if let Op::Dot { .. } | Op::Convolution { .. } = node.op {
            add(self.operations(node, plan) / cost::OPERATIONS_PER_LINK);
        }
        total
    }

    /// Multiplications and additions that one device does.
    fn operations(&self, node: &Node, plan: &Plan) -> i64 {
        let sizes = |value: usize, sharding: &Sharding| -> i64 {
            let array = self.array_of(value);
            part_bytes(sharding, &array) / (array.element_type.storage_bytes() as i64).max(1)
        };
        let result = sizes(node.results[0], &plan.result);
        let operands = node.operands.iter().take(2).zip(&plan.operands);
        let operands: Vec<i64> = operands
            .map(|(value, sharding)| sizes(*value, sharding))
            .collect();
        let [left, right] = operands[..] else {
            return 0;
        };
        // Of a product of matrices: rows, columns and terms are each in two of the three arrays.
        let product = left as f64 * right as f64 * result as f64;
        (2.0 * product.sqrt()).min(i64::MAX as f64) as i64
    }

    /// Carries a plan out.
    fn compute(
        &mut self,
        frame: &mut Frame,
        node: &Node,
        plan: &Plan,
    ) -> Result<Vec<Local>, Error> {
        let scope_id = self.scope_of(node);
        let mut operands = self.brought(frame, node, plan)?;
        let scope = self.scope(scope_id).clone();
        for (axis, cut) in &plan.picks {
            if let AxisKind::Contracted(op) = axis.kind {
                self.mask_padding(frame, node, axis, cut, op, &mut operands)?;
            }
        }
        for pick in &plan.windows {
            self.fetch_windows(frame, node, plan, pick, &mut operands, &scope)?;
        }
        let is_concatenation = matches!(node.op, Op::Concatenate(_));
        if let (true, [pick]) = (is_concatenation, plan.windows.as_slice()) {
            let id = self.concatenated(frame, node, pick, &operands)?;
            return Ok(vec![Local {
                id,
                sharding: plan.result.clone(),
            }]);
        }
        let contracted = plan.contracted();
        // What a sum begins with is added once, at the end.
        let mut begin = None;
        if let (Some((op, _)), Op::Reduce { .. }) = (&contracted, &node.op)
            && let Some(init) = operands.get_mut(1)
        {
            let ty = frame.array(*init).element_type;
            let identity = self.identity(frame, *op, ty)?;
            begin = Some(std::mem::replace(init, identity));
        }
        let mut op = self.localized(node, &plan.picks, &plan.windows)?;
        let mut shape = part_shape(&node.shape, &plan.result);
        if let (Op::Bitcast, Some(operand)) = (&node.op, operands.first_mut()) {
            if is_reshape(self.module, node.instruction) {
                op = Op::Reshape;
            } else {
                // Both arrays are whole, in the orders that the program states.
                let stated = self.module[self.module[node.instruction].operands[0]]
                    .shape
                    .clone();
                *operand = self.push(frame, Op::Copy, &[*operand], Some(stated))?;
                shape = node.shape.clone();
            }
        }
        let operands = self.as_stated(frame, node, operands)?;
        let id = self.push(frame, op, &operands, Some(shape))?;
        self.annotate(frame, node, id);
        let results = self.leaves_of(frame, id)?;
        // What is summed over devices has one result.
        if let (Some((op, cut)), [value], [id]) =
            (contracted, node.results.as_slice(), results.as_slice())
        {
            let local = self.combined(frame, *value, plan, (*id, op, &cut), &scope)?;
            let local = self.begun_with(frame, local, begin, op)?;
            return Ok(vec![local]);
        }
        let local = |id| Local {
            id,
            sharding: plan.result.clone(),
        };
        Ok(results.into_iter().map(local).collect())
    }

    /// The operands as the plan wants them.
    pub(super) fn brought(
        &mut self,
        frame: &mut Frame,
        node: &Node,
        plan: &Plan,
    ) -> Result<Vec<DraftId>, Error> {
        let scope = self.scope_of(node);
        let mut operands = Vec::new();
        for (number, value) in node.operands.iter().enumerate() {
            self.combine(frame, *value)?;
            let local = frame.values.get(value).cloned();
            let local = local.ok_or_else(|| self.bug("an operand that was not made"))?;
            if self.graph.values[*value].shape.as_array().is_none() {
                operands.push(local.id);
                continue;
            }
            let wanted = &plan.operands[number];
            self.reason = format!(
                "operand {number} is {}, and {wanted} is needed",
                local.sharding
            );
            let dims = self.dims_of(*value);
            operands.push(self.reshard(frame, &local, wanted, &dims, scope)?.id);
        }
        Ok(operands)
    }

    /// Operands that are tuples are put together again.
    pub(super) fn as_stated(
        &mut self,
        frame: &mut Frame,
        node: &Node,
        leaves: Vec<DraftId>,
    ) -> Result<Vec<DraftId>, Error> {
        let module = self.module;
        let source = &module[node.instruction];
        let mut rest = leaves.into_iter();
        let mut operands = Vec::new();
        for operand in &source.operands {
            let shape = module[*operand].shape.clone();
            operands.push(self.tuple_of(frame, &shape, &mut rest)?);
        }
        Ok(operands)
    }

    /// Elements behind the end of an uneven dimension are made such that they do not count.
    fn mask_padding(
        &mut self,
        frame: &mut Frame,
        node: &Node,
        axis: &Axis,
        cut: &Cut,
        op: Binary,
        operands: &mut [DraftId],
    ) -> Result<(), Error> {
        for (number, dim) in axis.operands.iter().enumerate() {
            let (Some(dim), Some(array)) = (dim, operands.get_mut(number)) else {
                continue;
            };
            let size = self.graph.values[node.operands[number]]
                .size(*dim)
                .unwrap_or(0);
            if cut.divides(size) {
                continue;
            }
            let starts: Vec<i64> = cut
                .places()
                .iter()
                .map(|place| place * cut.part_size(size))
                .collect();
            let start = self.by_device(frame, &starts)?;
            let ty = frame.array(*array).element_type;
            let fill = match node.op {
                Op::Reduce { .. } => self.identity(frame, op, ty)?,
                _ => self.zero(frame, ty)?,
            };
            *array = self.masked(frame, *array, *dim, start, 0..size, fill)?;
        }
        Ok(())
    }

    fn fetch_windows(
        &mut self,
        frame: &mut Frame,
        node: &Node,
        plan: &Plan,
        pick: &WindowPick,
        operands: &mut [DraftId],
        scope: &Cut,
    ) -> Result<(), Error> {
        for (operand, window) in &pick.windows {
            let value = node.operands[*operand];
            let size = self.graph.values[value].size(window.dim).unwrap_or(0);
            let fill = match node.op {
                Op::Pad(_) => operands.get(1).copied(),
                // What is before and behind the array does not count.
                Op::ReduceWindow { to_apply, .. } => {
                    let combination = combination(self.module, to_apply);
                    let combination =
                        combination.ok_or_else(|| self.bug("windows of another combination"))?;
                    let ty = frame.array(operands[*operand]).element_type;
                    Some(self.identity(frame, combination, ty)?)
                }
                Op::Convolution { .. } => {
                    let ty = frame.array(operands[*operand]).element_type;
                    Some(self.zero(frame, ty)?)
                }
                _ => None,
            };
            self.reason = format!(
                "elements {} before part {} of dimension {}",
                window.first, 0, window.dim
            );
            let sharding = &plan.operands[*operand];
            operands[*operand] = self.fetch(
                frame,
                operands[*operand],
                sharding,
                size,
                &pick.cut,
                window,
                fill,
                scope,
            )?;
        }
        Ok(())
    }

    /// Each element from the operand that it is of.
    fn concatenated(
        &mut self,
        frame: &mut Frame,
        node: &Node,
        pick: &WindowPick,
        operands: &[DraftId],
    ) -> Result<DraftId, Error> {
        let mut end = 0;
        let mut result: Option<DraftId> = None;
        let size = pick.windows.first().map_or(0, |(_, window)| window.size);
        let firsts: Vec<i64> = pick.cut.places().iter().map(|place| place * size).collect();
        for (operand, value) in operands.iter().zip(&node.operands) {
            let begin = end;
            let own = self.graph.values[*value].size(pick.dim).unwrap_or(0);
            end += own;
            if own == 0 {
                continue;
            }
            result = Some(match result {
                None => *operand,
                Some(before) => {
                    let dims = frame.array(*operand).dims;
                    let first = self.by_device(frame, &firsts)?;
                    let inside =
                        self.inside(frame, &dims, pick.dim, first, begin..i64::from(i32::MAX))?;
                    self.push(frame, Op::Select, &[inside, *operand, before], None)?
                }
            });
        }
        result.ok_or_else(|| self.bug("a concatenation of nothing in parts"))
    }

    /// Everyone's partial results, combined.
    fn combined(
        &mut self,
        frame: &mut Frame,
        value: usize,
        plan: &Plan,
        (id, op, cut): (DraftId, Binary, &Cut),
        scope: &Cut,
    ) -> Result<Local, Error> {
        let array = self.array_of(value);
        let wanted = self.found.sharding(value).clone();
        // Those who have different parts of what is summed, and the same part of the result.
        let rank = plan.result.rank();
        let with_sum = Sharding::new(
            self.graph.devices,
            plan.result
                .cuts()
                .iter()
                .cloned()
                .chain([Some(cut.clone())]),
        );
        let groups = self.part_groups(&with_sum, rank, None, scope)?;
        self.reason = "partial results".to_owned();
        if let Some((dim, cut)) = scattered_dim(plan, &wanted, &array) {
            let bytes = part_bytes(&plan.result, &array);
            self.exchanged("reduce-scatter", cost::scatter(bytes, cut.parts()));
            let sharding = plan.result.with(dim, Some(cut));
            let shape = Shape::Array(part_of(&array, &sharding));
            let op = Op::ReduceScatter {
                collective: self.collective(&groups),
                dimension: number(dim),
                to_apply: self.reducer(op, array.element_type)?,
            };
            let id = self.push(frame, op, &[id], Some(shape))?;
            return Ok(Local { id, sharding });
        }
        let id = self.all_reduce(frame, id, op, &groups)?;
        Ok(Local {
            id,
            sharding: plan.result.clone(),
        })
    }

    /// A sum, combined with what it begins with.
    fn begun_with(
        &mut self,
        frame: &mut Frame,
        local: Local,
        begin: Option<DraftId>,
        op: Binary,
    ) -> Result<Local, Error> {
        let Some(begin) = begin else {
            return Ok(local);
        };
        let dims = frame.array(local.id).dims;
        let begin = self.filled(frame, begin, &dims)?;
        let id = self.binary(frame, op, begin, local.id)?;
        Ok(Local { id, ..local })
    }

    /// What changes nothing that it is combined with.
    pub(super) fn identity(
        &mut self,
        frame: &mut Frame,
        op: Binary,
        ty: ElementType,
    ) -> Result<DraftId, Error> {
        let bits = |ones: bool| {
            let mut literal = Literal::zeros(&ArrayShape::new(ty, &[])).ok()?;
            if ones {
                literal
                    .bytes_mut()
                    .fill(if ty == ElementType::Pred { 1 } else { 0xff });
            }
            Some(literal)
        };
        let extreme = |highest: bool| {
            let value = match (ty.is_float(), ty.is_signed()) {
                (true, _) => Scalar::Float(if highest {
                    f64::INFINITY
                } else {
                    f64::NEG_INFINITY
                }),
                (false, true) => {
                    let shift = 64 - ty.bits();
                    Scalar::Int(if highest {
                        i64::MAX >> shift
                    } else {
                        i64::MIN >> shift
                    })
                }
                (false, false) if ty == ElementType::Pred => Scalar::Bool(highest),
                (false, false) => Scalar::Uint(if highest {
                    u64::MAX >> (64 - ty.bits())
                } else {
                    0
                }),
            };
            Literal::from_scalars(&ArrayShape::new(ty, &[]), [value]).ok()
        };
        let one = || match ty {
            ElementType::Pred => Some(Scalar::Bool(true)),
            ty if ty.is_float() => Some(Scalar::Float(1.0)),
            _ => Some(Scalar::Int(1).convert(ty)),
        };
        let literal = match op {
            Binary::Multiply => {
                one().and_then(|one| Literal::from_scalars(&ArrayShape::new(ty, &[]), [one]).ok())
            }
            Binary::And => bits(true),
            Binary::Maximum => extreme(false),
            Binary::Minimum => extreme(true),
            // Minus zero changes no float, zero changes minus zero.
            Binary::Add if ty.is_float() => {
                Literal::from_scalars(&ArrayShape::new(ty, &[]), [Scalar::Float(-0.0)]).ok()
            }
            _ => bits(false),
        };
        let literal = literal.ok_or_else(|| self.bug("an identity that the type does not have"))?;
        let shape = Shape::array(ty, &[]);
        self.push(frame, Op::Constant([literal].into()), &[], Some(shape))
    }

    /// Keeps what goes with an instruction, but for what was said to a partitioner.
    pub(super) fn annotate(&mut self, frame: &mut Frame, node: &Node, id: DraftId) {
        let source = &self.module[node.instruction];
        frame.draft.set_name(id, &source.name);
        let Some(annotations) = source.annotations.as_deref() else {
            return;
        };
        let mut kept = annotations.clone();
        kept.sharding = None;
        kept.control_predecessors.clear();
        kept.frontend_attributes
            .retain(|(name, _)| !name.starts_with("xla.sdy."));
        *frame.draft.annotations_mut(id) = kept;
    }
}

/// What a plan is made of.
struct Draft {
    operands: Vec<Sharding>,
    result: Sharding,
    /// All cuts of the plan: together they give each device its own share of the work.
    joint: Vec<Option<Cut>>,
}

impl Draft {
    /// The draft with one more axis, if it fits what is there.
    fn with(&self, axis: &Axis, cut: &Cut, scope: &Cut) -> Option<Self> {
        let mut operands = self.operands.clone();
        for (operand, dim) in operands.iter_mut().zip(&axis.operands) {
            if let Some(dim) = dim {
                if operand.cut(*dim).is_some() {
                    return None;
                }
                *operand = operand.with(*dim, Some(cut.clone()));
            }
        }
        let mut result = self.result.clone();
        if let Some(dim) = axis.result {
            if result.cut(dim).is_some() {
                return None;
            }
            result = result.with(dim, Some(cut.clone()));
        }
        let mut joint = self.joint.clone();
        joint.push(Some(cut.clone()));
        let complete = Sharding::new(cut.devices(), joint.clone()).is_complete(scope);
        complete.then_some(Self {
            operands,
            result,
            joint,
        })
    }
}

/// A dimension along which partial results are wanted cut, as they are over the devices that have
/// them.
fn scattered_dim(plan: &Plan, wanted: &Sharding, array: &ArrayShape) -> Option<(usize, Cut)> {
    let (_, cut) = plan.contracted()?;
    let mut dims = 0..wanted.rank();
    let dim = dims.find(|&dim| {
        let size = array.dims.get(dim).and_then(Dim::as_static);
        plan.result.cut(dim).is_none()
            && wanted.cut(dim) == Some(&cut)
            && size.is_some_and(|size| cut.divides(size))
    })?;
    Some((dim, cut))
}

/// The operands that parts of a dimension of the result read beyond borders.
fn windowed_operands(module: &Module, node: &Node, dim: usize) -> Option<Vec<usize>> {
    let own = number(dim);
    match &node.op {
        Op::Slice(_) => Some(vec![0]),
        Op::Reverse(dims) if dims.contains(&own) => Some(vec![0]),
        Op::Pad(dims) if dims.get(dim)?.interior == 0 => Some(vec![0]),
        Op::Concatenate(along) if *along == own => Some((0..node.operands.len()).collect()),
        Op::ReduceWindow { window, to_apply } if window.get(dim)?.base_dilation == 1 => {
            let known = node.operands.len() == 2 && combination(module, *to_apply).is_some();
            known.then(|| vec![0])
        }
        Op::Convolution { window, dims, .. } => {
            let place = dims.output_spatial.iter().position(|dim| *dim == own)?;
            (window.get(place)?.base_dilation == 1).then(|| vec![0])
        }
        _ => None,
    }
}
