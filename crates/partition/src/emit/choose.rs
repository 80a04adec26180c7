//! Chooses the plan by which an operation is partitioned.
//!
//! A plan lists the axes along which the operation is partitioned. Candidates follow the result's
//! wanted sharding, or the operands' current shardings, and the cheapest is taken. The cost adds
//! the bytes of resharding operands, of combining partial sums and of resharding the result, and
//! the time of computation, converted to bytes. The plan that gathers all operands is always
//! possible.

use super::combine::scattered_dim;
use super::local::WindowPick;
use super::plan::{Indexed, Plan};
use super::reshard::{self, part_bytes};
use super::{Emitter, Frame, cost, number, pooling, window};
use crate::axes::{Axis, AxisKind, Combination, Window, combination};
use crate::graph::Node;
use crate::sharding::{Cut, Sharding};
use tegula_ir::{Dim, Module, Op};

impl Emitter<'_> {
    /// The cheapest plan.
    pub(super) fn plan(&self, frame: &Frame, node: &Node) -> Plan {
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

    /// Plans that follow the operands' cuts, those of large operands first.
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

    /// Dimensions of the result whose wanted sharding is cut, and whose parts read windows of
    /// operands.
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
            if let Some(windows) = self.spaced_windows(node, dim, part, cut) {
                found.push(WindowPick {
                    dim,
                    cut: cut.clone(),
                    windows,
                });
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

    /// The windows that parts of a result's dimension read, for operations whose windows begin at
    /// the same offset in each part only if parts are multiples of the step.
    fn spaced_windows(
        &self,
        node: &Node,
        dim: usize,
        part: i64,
        cut: &Cut,
    ) -> Option<Vec<(usize, Window)>> {
        match &node.op {
            Op::SelectAndScatter {
                window, scatter, ..
            } => {
                combination(self.module, *scatter)?;
                pooling::windows(window.get(dim)?, dim, part, cut)
            }
            Op::Pad(dims) => {
                let own = dims.get(dim).filter(|own| own.interior > 0)?;
                let step = own.interior + 1;
                let window = Window {
                    dim,
                    first: -own.low.div_euclid(step),
                    step: part / step,
                    size: part / step,
                };
                (part % step == 0).then(|| vec![(0, window)])
            }
            _ => None,
        }
    }

    /// The draft as a plan with its cost; [`None`] if it is not valid.
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
                && (indexed.is_some()
                    || combination.is_some_and(|own| own != op || own == Combination::Selection))
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

    /// The cost of a plan, in bytes over one link.
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
            let contracted = plan.contracted();
            let mut partial = contracted.as_ref().map(|(_, cut)| cut.parts());
            if let Some(indexed) = &plan.indexed
                && indexed.is_sum()
            {
                match number(indexed.owners) {
                    0 => partial = Some(indexed.cut.parts()),
                    owners => add(bytes.saturating_add(owners * cost::LATENCY)),
                }
            }
            if let Some((Combination::Selection, cut)) = &contracted {
                let all = bytes.saturating_mul(cut.parts());
                add(cost::LATENCY + cost::all_gather(all, cut.parts()));
                partial = None;
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

    /// The number of multiplications and additions per device.
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
        // In a matrix product, rows, columns and contracted terms each occur in two of the three
        // arrays.
        let product = left as f64 * right as f64 * result as f64;
        (2.0 * product.sqrt()).min(i64::MAX as f64) as i64
    }
}

/// A plan under construction.
struct Draft {
    operands: Vec<Sharding>,
    result: Sharding,
    /// The product of all cuts in the plan, which gives each device its own share of the work.
    joint: Vec<Option<Cut>>,
}

impl Draft {
    /// The draft with one more axis, if that is compatible.
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

/// The operands of which parts of a result's dimension read elements beyond the borders of the
/// corresponding parts.
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
