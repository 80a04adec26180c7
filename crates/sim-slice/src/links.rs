//! The time of a collective on the links of a torus.
//!
//! A collective is pipelined: its time is that of the bytes on its busiest link, plus the latency
//! of its longest path. The bytes on each link depend on the form of the groups on the torus.
//!
//! - A *box* is a group that has all combinations of some positions along each axis. It uses all
//!   its axes at once. In a ring, a chip receives from both sides, at twice a link's bandwidth; in
//!   a line, the chip at the end has only one neighbour, so the factor is one. Groups that take
//!   every `s`-th position of an axis share its links with `s - 1` other groups. An all-gather or
//!   reduce-scatter brings `(n - 1) / n` of the whole array to each chip; an all-reduce is a
//!   reduce-scatter and an all-gather.
//! - An all-to-all is limited by the bisection of each axis: half of the bytes that a chip sends
//!   cross it, over two links in a ring and one in a line. All axes are used at the same time, and
//!   each message uses them one after the other.
//! - Other groups, and permutes, are routed: each message takes the shorter path along the first
//!   axis, then along the next, and the busiest link determines the time.
//!
//! All groups of a collective communicate at the same time.
//!
//! The formulas for rings are those of Chan et al., "Collective communication: theory, practice,
//! and experience", 2007; with two directions as in jax-ml/scaling-book, sharding.md.

use crate::Torus;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// The maximum number of pairs of an all-to-all that are routed individually; larger groups are
/// replaced by the box around them.
const MOST_ROUTED: usize = 1 << 18;

/// The links of a slice.
#[derive(Clone, Debug)]
pub struct Links {
    /// The torus of chips.
    pub torus: Torus,
    /// The number of devices on one chip, which share its links.
    pub devices_per_chip: usize,
    /// The bandwidth of a link in one direction, in bytes per second.
    pub bandwidth: f64,
    /// The latency of each link that a message passes, in seconds.
    pub hop_latency: f64,
    /// The bandwidth between two devices of one chip, in bytes per second.
    pub on_chip: f64,
}

/// The kind of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CollectiveKind {
    /// Each device gets the arrays of all devices.
    AllGather,
    /// Each device gets a part of the sum.
    ReduceScatter,
    /// Each device gets the sum.
    AllReduce,
    /// Each device sends a part of its array to each.
    AllToAll,
    /// All devices get the array of one.
    Broadcast,
    /// Each device sends its array to one other device.
    Permute,
}

impl CollectiveKind {
    /// The name in HLO.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllGather => "all-gather",
            Self::ReduceScatter => "reduce-scatter",
            Self::AllReduce => "all-reduce",
            Self::AllToAll => "all-to-all",
            Self::Broadcast => "collective-broadcast",
            Self::Permute => "collective-permute",
        }
    }
}

/// The time of a collective.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Transfer {
    /// The time if the collective has the links to itself, in seconds.
    pub seconds: f64,
    /// The part of the time that is latency, in seconds.
    pub latency: f64,
    /// The axes whose links it uses.
    pub axes: Vec<usize>,
    /// The maximum number of bytes that a device receives.
    pub received: f64,
}

/// The positions of a group along one axis.
#[derive(Clone, Copy, Debug)]
struct Extent {
    axis: usize,
    /// The number of positions.
    count: usize,
    /// The maximum number of groups that use the same link in one direction.
    sharing: f64,
    /// Whether the positions form a ring.
    ring: bool,
}

impl Extent {
    /// The maximum number of links that a message passes.
    fn hops(&self) -> f64 {
        let steps = match self.ring {
            true => self.count / 2,
            false => self.count - 1,
        };
        steps as f64 * self.sharing
    }
}

impl Links {
    /// The time of a collective. `bytes` is the size of a device's largest array: the result of an
    /// all-gather, or the operand of other collectives. Groups list devices.
    pub fn collective(&self, kind: CollectiveKind, bytes: f64, groups: &[Vec<usize>]) -> Transfer {
        let mut worst = Transfer::default();
        let mut seen: BTreeSet<Vec<(usize, usize, u64, bool)>> = BTreeSet::new();
        for group in groups.iter().filter(|group| group.len() > 1) {
            let transfer = match self.extents(group) {
                Some((extents, on_chip)) => {
                    // Groups of the same form take the same time.
                    let looks = extents.iter();
                    let looks = looks.map(|e| (e.axis, e.count, e.sharing.to_bits(), e.ring));
                    if !seen.insert(looks.chain([(usize::MAX, on_chip, 0, false)]).collect()) {
                        continue;
                    }
                    self.of_box(kind, bytes, group.len(), &extents, on_chip)
                }
                None => self.of_other(kind, bytes, group, groups),
            };
            if transfer.seconds > worst.seconds {
                worst = transfer;
            }
        }
        worst
    }

    /// The time of a permute with these pairs of devices; each sends an array of `bytes` bytes.
    pub fn permute(&self, bytes: f64, pairs: &[(usize, usize)]) -> Transfer {
        let mut routes = Routes::default();
        for &(from, to) in pairs.iter().filter(|(from, to)| from != to) {
            self.route(from, to, 1.0, &mut routes);
        }
        let received = if routes.is_used { bytes } else { 0.0 };
        self.routed(bytes, &routes, received)
    }

    /// The chip of a device, and the device's number on it.
    fn place(&self, device: usize) -> (usize, usize) {
        let per_chip = self.devices_per_chip.max(1);
        (device / per_chip, device % per_chip)
    }

    /// The extents of a group along each axis, and its number of devices on each chip; [`None`] if
    /// it is not a box.
    fn extents(&self, group: &[usize]) -> Option<(Vec<Extent>, usize)> {
        let axes = self.torus.axes.len();
        let mut places: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); axes + 1];
        let mut all: BTreeSet<usize> = BTreeSet::new();
        for &device in group {
            all.insert(device);
            let (chip, own) = self.place(device);
            for (places, at) in places.iter_mut().zip(self.torus.coordinates(chip)) {
                places.insert(at);
            }
            places.last_mut()?.insert(own);
        }
        let combinations: usize = places.iter().map(BTreeSet::len).product();
        if combinations != group.len() || all.len() != group.len() {
            return None;
        }
        let on_chip = places.pop()?.len();
        let mut extents = Vec::new();
        for (axis, places) in places.iter().enumerate() {
            if places.len() > 1 {
                extents.push(self.extent(axis, places)?);
            }
        }
        Some((extents, on_chip))
    }

    fn extent(&self, axis: usize, places: &BTreeSet<usize>) -> Option<Extent> {
        let whole = self.torus.axes.get(axis)?;
        let count = places.len();
        let (first, last) = (*places.first()?, *places.last()?);
        let gaps: BTreeSet<usize> = places
            .iter()
            .zip(places.iter().skip(1))
            .map(|(a, b)| b - a)
            .collect();
        let gap = gaps.last().copied().unwrap_or(1);
        let even = gaps.len() == 1;
        // The distance from the last position to the first, across the end.
        let ring = whole.wraps && even && first + whole.size - last == gap && count > 2;
        Some(Extent {
            axis,
            count,
            sharing: gap as f64,
            ring,
        })
    }

    /// The bytes per second that a chip receives along an axis.
    fn rate(&self, extent: &Extent) -> f64 {
        let sides = if extent.ring { 2.0 } else { 1.0 };
        sides * self.bandwidth / extent.sharing
    }

    fn of_box(
        &self,
        kind: CollectiveKind,
        bytes: f64,
        devices: usize,
        extents: &[Extent],
        on_chip: usize,
    ) -> Transfer {
        let n = devices as f64;
        let axes: Vec<usize> = extents.iter().map(|extent| extent.axis).collect();
        let hops: f64 = extents.iter().map(Extent::hops).sum();
        let latency = hops * self.hop_latency;
        // The devices of a chip share its links, even if they are in different groups.
        let others = (self.devices_per_chip.max(1) / on_chip.max(1)).max(1) as f64;
        let rate: f64 = extents.iter().map(|extent| self.rate(extent)).sum();
        let moved = bytes * (n - 1.0) / n;
        let chips = n / on_chip as f64;
        // The bytes that a chip receives from other chips, and those that its devices then
        // exchange.
        let of_others = bytes * (chips - 1.0) / chips;
        let of_own = (moved - of_others).max(0.0);
        let once = || {
            let links = if chips > 1.0 {
                of_others * others / rate
            } else {
                0.0
            };
            links + of_own / self.on_chip
        };
        let (seconds, latency, received) = match kind {
            CollectiveKind::AllGather
            | CollectiveKind::ReduceScatter
            | CollectiveKind::Broadcast
            | CollectiveKind::Permute => (once(), latency, moved),
            CollectiveKind::AllReduce => (2.0 * once(), 2.0 * latency, 2.0 * moved),
            CollectiveKind::AllToAll => {
                let all = bytes * on_chip as f64 * others;
                let middle = extents.iter().map(|extent| {
                    let n = extent.count as f64;
                    let crossing = match extent.ring {
                        true => (n * n / 4.0).floor() / (2.0 * n),
                        false => (n * n / 4.0).floor() / n,
                    };
                    all * crossing * extent.sharing / self.bandwidth
                });
                let links = middle.fold(0.0, f64::max);
                let own = bytes * (on_chip as f64 - 1.0) / on_chip as f64;
                (links.max(own / self.on_chip), latency, moved)
            }
        };
        Transfer {
            seconds: seconds + latency,
            latency,
            axes,
            received,
        }
    }

    /// A group that is not a box: a ring in the group's order, or all pairs, routed together with
    /// all other groups.
    fn of_other(
        &self,
        kind: CollectiveKind,
        bytes: f64,
        group: &[usize],
        groups: &[Vec<usize>],
    ) -> Transfer {
        let n = group.len() as f64;
        let moved = bytes * (n - 1.0) / n;
        let mut routes = Routes::default();
        if kind == CollectiveKind::AllToAll {
            let pairs: usize = groups.iter().map(|group| group.len() * group.len()).sum();
            if pairs <= MOST_ROUTED {
                for group in groups {
                    let share = 1.0 / group.len().max(1) as f64;
                    for &from in group {
                        for &to in group.iter().filter(|to| **to != from) {
                            self.route(from, to, share, &mut routes);
                        }
                    }
                }
                return self.routed(bytes, &routes, moved);
            }
            let whole: Vec<usize> = (0..self.torus.chips() * self.devices_per_chip).collect();
            if let Some((extents, on_chip)) = self.extents(&whole) {
                return self.of_box(kind, bytes, whole.len(), &extents, on_chip);
            }
        }
        for group in groups.iter().filter(|group| group.len() > 1) {
            let next = group.iter().skip(1).chain(group.first());
            for (&from, &to) in group.iter().zip(next) {
                self.route(from, to, 1.0, &mut routes);
                self.route(to, from, 1.0, &mut routes);
            }
        }
        // Half of the array goes around the ring in each direction.
        let hops = routes.longest * n / 2.0;
        let once = self.routed(moved / 2.0, &routes, moved);
        let passes = match kind {
            CollectiveKind::AllReduce => 2.0,
            _ => 1.0,
        };
        let latency = passes * hops * self.hop_latency;
        Transfer {
            seconds: passes * (once.seconds - once.latency) + latency,
            latency,
            received: passes * moved,
            axes: once.axes,
        }
    }

    /// Routes a message from one device to another, which has a `share` of the bytes.
    fn route(&self, from: usize, to: usize, share: f64, routes: &mut Routes) {
        routes.is_used = true;
        let ((from, own), (to, other)) = (self.place(from), self.place(to));
        if from == to && own != other {
            *routes.on_chip.entry(from).or_default() += share;
        }
        let mut at = self.torus.coordinates(from);
        let to = self.torus.coordinates(to);
        let mut hops = 0;
        for (axis, &target) in to.iter().enumerate() {
            let (Some(&here), Some(whole)) = (at.get(axis), self.torus.axes.get(axis)) else {
                continue;
            };
            let distance = self.torus.distance(axis, here, target);
            let up = distance > 0;
            for step in 0..distance.unsigned_abs() {
                let place = match up {
                    true => (here + step) % whole.size,
                    false => (here + whole.size - step) % whole.size,
                };
                let mut chip = at.clone();
                if let Some(slot) = chip.get_mut(axis) {
                    *slot = place;
                }
                *routes.links.entry((axis, up, chip)).or_default() += share;
            }
            hops += distance.unsigned_abs();
            if let Some(slot) = at.get_mut(axis) {
                *slot = target;
            }
        }
        routes.longest = routes.longest.max(hops as f64);
    }

    /// The time of the routed messages.
    fn routed(&self, bytes: f64, routes: &Routes, received: f64) -> Transfer {
        let busiest = routes.links.values().copied().fold(0.0, f64::max);
        let inside = routes.on_chip.values().copied().fold(0.0, f64::max);
        let latency = routes.longest * self.hop_latency;
        let links = bytes * busiest / self.bandwidth;
        let axes: BTreeSet<usize> = routes.links.keys().map(|(axis, ..)| *axis).collect();
        Transfer {
            seconds: links.max(bytes * inside / self.on_chip) + latency,
            latency,
            axes: axes.into_iter().collect(),
            received,
        }
    }
}

/// The messages on each link.
#[derive(Debug, Default)]
struct Routes {
    /// The number of arrays on each link, by axis, direction and sending chip.
    links: FxHashMap<(usize, bool, Vec<usize>), f64>,
    /// The number of arrays between the devices of each chip.
    on_chip: FxHashMap<usize, f64>,
    /// The maximum number of links that a message passes.
    longest: f64,
    is_used: bool,
}
