//! Random terms over small boxes, shared by the test files.
#![allow(dead_code, reason = "the tests of another crate take a part of it")]

use tegula_expr::{Arithmetic, Cmp, Extract, Interval, Provider, Term, Var};

/// Numbers near the limits where something can go wrong.
pub(crate) const VALUES: [i64; 12] = [
    i64::MIN,
    i64::MIN + 1,
    -(1 << 32),
    -7,
    -1,
    0,
    1,
    2,
    13,
    1 << 31,
    i64::MAX - 1,
    i64::MAX,
];

/// A small generator with a fixed sequence per seed (splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn range(&mut self, lower: i64, upper: i64) -> i64 {
        let span = u64::try_from(upper - lower + 1).unwrap_or(1);
        lower + i64::try_from(self.next() % span).unwrap_or(0)
    }
}

/// Up to three variables with up to seven values each.
pub(crate) fn random_box(random: &mut Random) -> Vec<Interval> {
    (0..random.range(1, 3))
        .map(|_| {
            let lower = if random.range(0, 2) == 0 {
                random.range(-9, 5)
            } else {
                0
            };
            Interval::new(lower, lower + random.range(0, 6))
        })
        .collect()
}

pub(crate) fn random_term(random: &mut Random, vars: usize, depth: u32) -> Term {
    let leaf = depth == 0 || random.range(0, 5) == 0;
    if leaf {
        return if random.range(0, 3) == 0 {
            Term::constant(random.range(-20, 20))
        } else {
            Term::var(Var(u32::try_from(random.next() % vars as u64).unwrap_or(0)))
        };
    }
    let a = random_term(random, vars, depth - 1);
    let constant = |random: &mut Random| {
        let c = if random.range(0, 5) == 0 {
            random.range(-13, -1)
        } else {
            random.range(1, 16)
        };
        Term::constant(c)
    };
    match random.range(0, 19) {
        0..=4 => a.add(&random_term(random, vars, depth - 1)),
        5 => a.sub(&random_term(random, vars, depth - 1)),
        6..=8 => a.mul(&constant(random)),
        9..=11 => a.floor_div(&constant(random)),
        12..=14 => a.modulo(&constant(random)),
        15 => a.ceil_div(&constant(random)),
        16 => Term::min(&a, &random_term(random, vars, depth - 1)),
        17 => Term::max(&a, &random_term(random, vars, depth - 1)),
        18 => {
            let ops = [Cmp::Eq, Cmp::Ne, Cmp::Lt, Cmp::Le];
            let op = ops[usize::try_from(random.range(0, 3)).unwrap_or(0)];
            let condition = Term::cmp(op, &a, &random_term(random, vars, depth - 1));
            Term::select(&condition, &a, &random_term(random, vars, depth - 1))
        }
        _ => {
            let b = random_term(random, vars, depth - 1);
            match random.range(0, 3) {
                0 => a.mul(&b),
                1 => a.floor_div(&b),
                2 => a.ceil_div(&b),
                _ => a.modulo(&b),
            }
        }
    }
}

/// Every point of the box.
pub(crate) fn points(ranges: &[Interval]) -> Vec<Vec<i64>> {
    let mut all = vec![Vec::new()];
    for range in ranges {
        all = all
            .into_iter()
            .flat_map(|point: Vec<i64>| {
                (range.lower..=range.upper).map(move |value| {
                    let mut point = point.clone();
                    point.push(value);
                    point
                })
            })
            .collect();
    }
    all
}

pub(crate) fn at(point: &[i64]) -> impl Fn(Var) -> Option<i64> + '_ {
    |var| point.get(var.0 as usize).copied()
}

/// The default number of random cases, or that of `TEGULA_SWEEP`.
pub(crate) fn cases(default: u64) -> u64 {
    std::env::var("TEGULA_SWEEP")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(default)
}

pub(crate) fn names(name: &str) -> Option<Var> {
    name.strip_prefix('d')?.parse().ok().map(Var)
}

pub(crate) fn spell(var: Var) -> String {
    format!("d{}", var.0)
}

/// A random computation of one to three results. Operand 0 has three extents, 1 and 2 have two
/// elements each. The same seed gives the same computation with every provider.
pub(crate) fn random_computation<P: Provider>(
    provider: &mut P,
    random: &mut Random,
) -> Vec<P::Index> {
    const OPERATIONS: [Arithmetic; 12] = [
        Arithmetic::Add,
        Arithmetic::Sub,
        Arithmetic::Mul,
        Arithmetic::FloorDiv,
        Arithmetic::CeilDiv,
        Arithmetic::Mod,
        Arithmetic::Min,
        Arithmetic::Max,
        Arithmetic::Cmp(Cmp::Eq),
        Arithmetic::Cmp(Cmp::Ne),
        Arithmetic::Cmp(Cmp::Lt),
        Arithmetic::Cmp(Cmp::Le),
    ];
    let mut numbers = provider.shape_as_dims(0, 3).to_vec();
    numbers.extend(provider.ints_from_operand_as_symbols(1, 2));
    numbers.extend(provider.ints_from_operand_as_symbols(2, 2));
    let constants = [0, 1, -1, 2, 100, i64::MAX, i64::MIN];
    numbers.extend(provider.ints_from_array_as_literals(&constants));
    let pick = |random: &mut Random, count: usize| (random.next() % count as u64) as usize;
    for _ in 0..random.range(1, 8) {
        let count = numbers.len();
        let [a, b, c] = [(); 3].map(|()| numbers[pick(random, count)].clone());
        let result = match random.range(0, 5) {
            0 => provider.select(&a, &b, &c),
            _ => provider.arithmetic(OPERATIONS[pick(random, 12)], &a, &b),
        };
        // Later operations use computed numbers more often.
        numbers.push(result.clone());
        numbers.push(result);
    }
    let results = random.range(1, 3) as usize;
    numbers.split_off(numbers.len() - 2 * results)
}
