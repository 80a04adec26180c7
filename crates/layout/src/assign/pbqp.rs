//! A solver for the partitioned Boolean quadratic problem: it chooses one alternative for each of
//! several variables so that the sum of their own costs and of the costs of pairs is minimal
//! (Scholz and Eckstein, "Register allocation for irregular architectures", 2002).
//!
//! Variables with at most two neighbours are eliminated exactly, by folding their best choice into
//! the neighbours. So are variables that never gain by disagreeing with a neighbour. If only others
//! remain, one is decided by the best case of its neighbours. In that case, the solution is
//! improved variable by variable afterwards, and it is not known to be optimal.

use std::collections::{BTreeMap, BTreeSet};

/// A problem.
#[derive(Clone, Debug, Default)]
pub struct Problem {
    /// For each variable, the cost of each alternative.
    costs: Vec<Vec<f64>>,
    /// For each pair of variables, the costs of pairs of alternatives, with a row for each
    /// alternative of the first. The variable with the smaller number is first.
    pairs: BTreeMap<(usize, usize), Vec<f64>>,
}

/// A solution.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The alternative of each variable.
    pub choices: Vec<usize>,
    /// The sum of all costs.
    pub cost: f64,
    /// Whether it is known to be optimal.
    pub is_best: bool,
}

impl Problem {
    /// Adds a variable with the costs of its alternatives, of which there is at least one; returns
    /// its number.
    pub fn variable(&mut self, costs: Vec<f64>) -> usize {
        self.costs
            .push(if costs.is_empty() { vec![0.0] } else { costs });
        self.costs.len() - 1
    }

    /// Adds costs of pairs: `cost(i, j)` for alternative `i` of `a` and `j` of `b`. Does nothing
    /// for a pair of a variable with itself.
    pub fn pair(&mut self, a: usize, b: usize, cost: &mut dyn FnMut(usize, usize) -> f64) {
        if a == b || a >= self.costs.len() || b >= self.costs.len() {
            return;
        }
        let (first, second) = (a.min(b), a.max(b));
        let (rows, columns) = (self.costs[first].len(), self.costs[second].len());
        let matrix = self.pairs.entry((first, second));
        let matrix = matrix.or_insert_with(|| vec![0.0; rows * columns]);
        for row in 0..rows {
            for column in 0..columns {
                matrix[row * columns + column] += if a < b {
                    cost(row, column)
                } else {
                    cost(column, row)
                };
            }
        }
    }

    /// Adds to the cost of an alternative.
    pub fn add(&mut self, variable: usize, alternative: usize, cost: f64) {
        let costs = self.costs.get_mut(variable);
        if let Some(own) = costs.and_then(|costs| costs.get_mut(alternative)) {
            *own += cost;
        }
    }

    /// The cost of a solution.
    pub fn cost(&self, choices: &[usize]) -> f64 {
        let own = self
            .costs
            .iter()
            .zip(choices)
            .map(|(costs, &choice)| costs[choice]);
        let pairs = self
            .pairs
            .iter()
            .map(|(&(a, b), matrix)| matrix[choices[a] * self.costs[b].len() + choices[b]]);
        own.sum::<f64>() + pairs.sum::<f64>()
    }

    /// Solves the problem.
    pub fn solve(&self) -> Answer {
        let mut reduction = Reduction::new(self);
        let order = reduction.run();
        let mut choices = vec![0; self.costs.len()];
        for step in order.iter().rev() {
            let mut costs = step.costs.clone();
            for (neighbour, matrix) in &step.neighbours {
                let columns = self.costs[*neighbour].len();
                for (row, cost) in costs.iter_mut().enumerate() {
                    *cost += matrix[row * columns + choices[*neighbour]];
                }
            }
            choices[step.variable] = least(&costs);
        }
        if !reduction.exact {
            self.improve(&mut choices);
        }
        Answer {
            cost: self.cost(&choices),
            choices,
            is_best: reduction.exact,
        }
    }

    /// Changes single choices as long as that reduces the cost.
    fn improve(&self, choices: &mut [usize]) {
        let mut around = vec![Vec::new(); self.costs.len()];
        for &(a, b) in self.pairs.keys() {
            around[a].push(b);
            around[b].push(a);
        }
        // The cost decreases with each change; the bound guards against rounding.
        for _ in 0..16 {
            let mut changed = false;
            for variable in 0..self.costs.len() {
                let mut costs = self.costs[variable].clone();
                for &other in &around[variable] {
                    for (alternative, cost) in costs.iter_mut().enumerate() {
                        *cost += self.pair_cost(variable, alternative, other, choices[other]);
                    }
                }
                let best = least(&costs);
                if costs[best] < costs[choices[variable]] {
                    choices[variable] = best;
                    changed = true;
                }
            }
            if !changed {
                return;
            }
        }
    }

    fn pair_cost(&self, a: usize, i: usize, b: usize, j: usize) -> f64 {
        let ((a, i), (b, j)) = if a < b {
            ((a, i), (b, j))
        } else {
            ((b, j), (a, i))
        };
        let matrix = self.pairs.get(&(a, b));
        matrix.map_or(0.0, |matrix| matrix[i * self.costs[b].len() + j])
    }
}

/// The first alternative with the least cost.
fn least(costs: &[f64]) -> usize {
    let mut best = 0;
    for (alternative, &cost) in costs.iter().enumerate() {
        if cost < costs[best] {
            best = alternative;
        }
    }
    best
}

/// An eliminated variable, with what its choice depends on.
struct Step {
    variable: usize,
    costs: Vec<f64>,
    neighbours: Vec<(usize, Vec<f64>)>,
}

struct Reduction {
    costs: Vec<Vec<f64>>,
    /// For each variable and neighbour, the cost matrix, with a row for each of the variable's
    /// alternatives.
    around: Vec<BTreeMap<usize, Vec<f64>>>,
    gone: Vec<bool>,
    /// The variables to test in [`Reduction::follower`]: those whose costs or neighbours changed
    /// since the last test. All others are known to follow no neighbour.
    untested: BTreeSet<usize>,
    exact: bool,
}

impl Reduction {
    fn new(problem: &Problem) -> Self {
        let mut around = vec![BTreeMap::new(); problem.costs.len()];
        for (&(a, b), matrix) in &problem.pairs {
            let columns = problem.costs[b].len();
            around[b].insert(a, transposed(matrix, columns));
            around[a].insert(b, matrix.clone());
        }
        Self {
            gone: vec![false; problem.costs.len()],
            untested: (0..problem.costs.len()).collect(),
            costs: problem.costs.clone(),
            around,
            exact: true,
        }
    }

    fn run(&mut self) -> Vec<Step> {
        let mut steps = Vec::with_capacity(self.costs.len());
        let mut small: Vec<usize> = (0..self.costs.len()).rev().collect();
        loop {
            while let Some(variable) = small.pop() {
                if self.gone[variable] || self.around[variable].len() > 2 {
                    continue;
                }
                let neighbours: Vec<usize> = self.around[variable].keys().copied().collect();
                steps.push(self.take(variable));
                small.extend(neighbours);
            }
            if let Some((variable, other, follows)) = self.follower() {
                let neighbours: Vec<usize> = self.around[variable].keys().copied().collect();
                steps.push(self.follow(variable, other, &follows));
                small.extend(neighbours);
                continue;
            }
            // The one with most neighbours, because that simplifies most others.
            let left = (0..self.costs.len()).filter(|&v| !self.gone[v]);
            let Some(variable) = left.max_by_key(|&v| (self.around[v].len(), std::cmp::Reverse(v)))
            else {
                return steps;
            };
            self.exact = false;
            let neighbours: Vec<usize> = self.around[variable].keys().copied().collect();
            steps.push(self.decide(variable));
            small.extend(neighbours);
        }
    }

    /// Finds a variable whose choice is determined by a neighbour: for each alternative of the
    /// neighbour, one alternative of the variable is cheaper for the pair by more than all its
    /// other costs can change.
    fn follower(&mut self) -> Option<(usize, usize, Vec<usize>)> {
        while let Some(variable) = self.untested.pop_first() {
            if self.gone[variable] {
                continue;
            }
            let own = spread(self.costs[variable].iter());
            let rows = self.costs[variable].len();
            let spreads: Vec<f64> = self.around[variable]
                .values()
                .map(|matrix| column_spread(matrix, rows))
                .collect();
            let total: f64 = own + spreads.iter().sum::<f64>();
            for ((&other, matrix), without) in self.around[variable].iter().zip(&spreads) {
                let most = total - without;
                let columns = self.costs[other].len();
                let follows: Option<Vec<usize>> = (0..columns)
                    .map(|column| {
                        let pair = |row: usize| matrix[row * columns + column];
                        let best = (0..rows).min_by(|&a, &b| pair(a).total_cmp(&pair(b)))?;
                        let worse = (0..rows).filter(|&row| row != best);
                        let far = |row: usize| pair(row) - pair(best) >= most;
                        worse.into_iter().all(far).then_some(best)
                    })
                    .collect();
                if let Some(follows) = follows {
                    return Some((variable, other, follows));
                }
            }
        }
        None
    }

    /// Eliminates a variable that follows a neighbour.
    fn follow(&mut self, variable: usize, other: usize, follows: &[usize]) -> Step {
        let mut own = std::mem::take(&mut self.around[variable]);
        let costs = std::mem::take(&mut self.costs[variable]);
        let columns = follows.len();
        let pair = own.remove(&other).unwrap_or_default();
        for (column, &row) in follows.iter().enumerate() {
            self.costs[other][column] += costs[row] + pair[row * columns + column];
        }
        for (&third, matrix) in &own {
            let width = self.costs[third].len();
            let rows = follows.iter();
            let folded: Vec<f64> = rows
                .flat_map(|&row| matrix[row * width..(row + 1) * width].iter().copied())
                .collect();
            self.link(third, other, &transposed(&folded, width));
            self.link(other, third, &folded);
        }
        let mut bound = vec![f64::INFINITY; costs.len() * columns];
        for (column, &row) in follows.iter().enumerate() {
            bound[row * columns + column] = 0.0;
        }
        let all: Vec<(usize, Vec<f64>)> = own
            .into_keys()
            .chain([other])
            .map(|v| (v, Vec::new()))
            .collect();
        let mut step = self.finish(variable, vec![0.0; costs.len()], all);
        step.neighbours = vec![(other, bound)];
        step
    }

    /// Eliminates a variable with at most two neighbours.
    fn take(&mut self, variable: usize) -> Step {
        let own = std::mem::take(&mut self.around[variable]);
        let costs = std::mem::take(&mut self.costs[variable]);
        let neighbours: Vec<(usize, Vec<f64>)> = own.into_iter().collect();
        match neighbours.as_slice() {
            [(one, matrix)] => {
                let columns = self.costs[*one].len();
                for column in 0..columns {
                    let rows = costs.iter().enumerate();
                    let sums = rows.map(|(row, cost)| cost + matrix[row * columns + column]);
                    self.costs[*one][column] += sums.fold(f64::INFINITY, f64::min);
                }
            }
            [(one, first), (two, second)] => {
                let (rows, columns) = (self.costs[*one].len(), self.costs[*two].len());
                let mut matrix = vec![0.0; rows * columns];
                for row in 0..rows {
                    for column in 0..columns {
                        let sums = costs.iter().enumerate().map(|(own, cost)| {
                            cost + first[own * rows + row] + second[own * columns + column]
                        });
                        matrix[row * columns + column] = sums.fold(f64::INFINITY, f64::min);
                    }
                }
                self.link(*two, *one, &transposed(&matrix, columns));
                self.link(*one, *two, &matrix);
            }
            _ => {}
        }
        self.finish(variable, costs, neighbours)
    }

    /// Decides a variable by the best case, in which its neighbours adapt.
    fn decide(&mut self, variable: usize) -> Step {
        let own = std::mem::take(&mut self.around[variable]);
        let costs = std::mem::take(&mut self.costs[variable]);
        let neighbours: Vec<(usize, Vec<f64>)> = own.into_iter().collect();
        let mut hoped = costs.clone();
        for (other, matrix) in &neighbours {
            let theirs = &self.costs[*other];
            for (row, cost) in hoped.iter_mut().enumerate() {
                let pairs = theirs.iter().enumerate();
                let pairs = pairs.map(|(j, cost)| cost + matrix[row * theirs.len() + j]);
                *cost += pairs.fold(f64::INFINITY, f64::min);
            }
        }
        let choice = least(&hoped);
        for (other, matrix) in &neighbours {
            let columns = self.costs[*other].len();
            for (column, cost) in self.costs[*other].iter_mut().enumerate() {
                *cost += matrix[choice * columns + column];
            }
        }
        // The choice is fixed, whatever the neighbours do.
        let mut decided = vec![f64::INFINITY; costs.len()];
        decided[choice] = 0.0;
        let none = neighbours
            .iter()
            .map(|(other, _)| (*other, Vec::new()))
            .collect();
        let mut step = self.finish(variable, decided, none);
        step.neighbours.clear();
        step
    }

    fn link(&mut self, from: usize, to: usize, matrix: &[f64]) {
        let own = self.around[from].entry(to);
        let own = own.or_insert_with(|| vec![0.0; matrix.len()]);
        for (own, added) in own.iter_mut().zip(matrix) {
            *own += added;
        }
    }

    fn finish(
        &mut self,
        variable: usize,
        costs: Vec<f64>,
        neighbours: Vec<(usize, Vec<f64>)>,
    ) -> Step {
        self.gone[variable] = true;
        for (other, _) in &neighbours {
            self.around[*other].remove(&variable);
            self.untested.insert(*other);
        }
        Step {
            variable,
            costs,
            neighbours,
        }
    }
}

/// The difference between the largest and the smallest cost.
fn spread<'a>(costs: impl Iterator<Item = &'a f64> + Clone) -> f64 {
    let most = costs.clone().fold(f64::NEG_INFINITY, |a, &b| a.max(b));
    most - costs.fold(f64::INFINITY, |a, &b| a.min(b))
}

/// The largest spread of a column of a matrix with this many rows.
fn column_spread(matrix: &[f64], rows: usize) -> f64 {
    let columns = matrix.len() / rows.max(1);
    let column = |c: usize| spread((0..rows).map(move |r| &matrix[r * columns + c]));
    (0..columns).map(column).fold(0.0, f64::max)
}

fn transposed(matrix: &[f64], columns: usize) -> Vec<f64> {
    let rows = matrix.len() / columns.max(1);
    let places = (0..columns).flat_map(|c| (0..rows).map(move |r| r * columns + c));
    places.map(|place| matrix[place]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    fn random(seed: &mut u64, limit: u64) -> u64 {
        *seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) % limit
    }

    fn problem(seed: &mut u64) -> Problem {
        let mut problem = Problem::default();
        let count = 1 + random(seed, 7) as usize;
        for _ in 0..count {
            let alternatives = 1 + random(seed, 3);
            let costs = (0..alternatives).map(|_| random(seed, 20) as f64).collect();
            problem.variable(costs);
        }
        for _ in 0..random(seed, 2 * count as u64 + 1) {
            let (a, b) = (random(seed, count as u64), random(seed, count as u64));
            let mut cost = |_, _| random(seed, 20) as f64;
            problem.pair(a as usize, b as usize, &mut cost);
        }
        problem
    }

    /// The least cost of all solutions, by enumeration.
    fn brute_force(problem: &Problem) -> f64 {
        let mut choices = vec![0; problem.costs.len()];
        let mut best = f64::INFINITY;
        loop {
            best = best.min(problem.cost(&choices));
            let mut places = 0..choices.len();
            let Some(next) = places.find(|&v| choices[v] + 1 < problem.costs[v].len()) else {
                return best;
            };
            choices[next] += 1;
            choices[..next].fill(0);
        }
    }

    #[test]
    fn the_best_answer_is_found_where_it_is_said_to_be() {
        let mut seed = 7;
        let (mut exact, mut total, mut best) = (0, 0.0, 0.0);
        for _ in 0..3000 {
            let problem = problem(&mut seed);
            let answer = problem.solve();
            let least = brute_force(&problem);
            assert!((problem.cost(&answer.choices) - answer.cost).abs() < 1e-9);
            assert!(answer.cost >= least - 1e-9);
            if answer.is_best {
                exact += 1;
                assert!((answer.cost - least).abs() < 1e-9, "{problem:?}");
            }
            (total, best) = (total + answer.cost, best + least);
        }
        // Most small problems are solved exactly, the others nearly.
        assert!(exact > 2000, "{exact}");
        println!("{exact} of 3000 exact");
        assert!(total < 1.02 * best, "{total} {best}");
    }
}
