//! Compares collectives with loads of links that are counted one message at a time, by independent
//! code.

use std::collections::HashMap;
use tegula_sim_slice::{CollectiveKind, Links, Torus};

const KINDS: [CollectiveKind; 5] = [
    CollectiveKind::AllGather,
    CollectiveKind::ReduceScatter,
    CollectiveKind::AllReduce,
    CollectiveKind::AllToAll,
    CollectiveKind::Broadcast,
];

/// Links of one byte per second and no latency.
fn links(topology: &str, wraps_at: usize) -> Links {
    Links {
        torus: Torus::parse(topology, wraps_at).expect("a topology"),
        devices_per_chip: 1,
        bandwidth: 1.0,
        hop_latency: 0.0,
        on_chip: 1e30,
    }
}

fn everyone(links: &Links) -> Vec<Vec<usize>> {
    vec![(0..links.torus.chips()).collect()]
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
}

/// The coordinates of all chips as `[a, b, ...]`, in row-major order.
fn chips(sizes: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for &size in sizes {
        all = all
            .into_iter()
            .flat_map(|chip| {
                (0..size).map(move |at| chip.iter().copied().chain([at]).collect::<Vec<_>>())
            })
            .collect();
    }
    all
}

/// Adds `share` of a message along one axis; if both paths are equally long, half of it takes each.
fn along(
    loads: &mut HashMap<(usize, bool, Vec<usize>), f64>,
    sizes: &[usize],
    ring: bool,
    from: &[usize],
    axis: usize,
    to: usize,
    share: f64,
) {
    let size = sizes[axis];
    let up = (to + size - from[axis]) % size;
    let down = size - up;
    let ways: Vec<(bool, usize, f64)> = match (ring, up) {
        (_, 0) => vec![],
        (false, _) if to > from[axis] => vec![(true, to - from[axis], share)],
        (false, _) => vec![(false, from[axis] - to, share)],
        (true, _) if up < down => vec![(true, up, share)],
        (true, _) if down < up => vec![(false, down, share)],
        (true, _) => vec![(true, up, share / 2.0), (false, down, share / 2.0)],
    };
    for (goes_up, hops, share) in ways {
        let mut at = from.to_vec();
        for _ in 0..hops {
            *loads.entry((axis, goes_up, at.clone())).or_default() += share;
            at[axis] = match goes_up {
                true => (at[axis] + 1) % size,
                false => (at[axis] + size - 1) % size,
            };
        }
    }
}

fn busiest(loads: &HashMap<(usize, bool, Vec<usize>), f64>) -> f64 {
    loads.values().copied().fold(0.0, f64::max)
}

#[test]
fn an_all_to_all_is_its_busiest_link() {
    for (text, wraps_at, sizes) in [
        ("2", 4, vec![2]),
        ("3", 3, vec![3]),
        ("4", 4, vec![4]),
        ("5", 5, vec![5]),
        ("8", 8, vec![8]),
        ("4", 16, vec![4]),
        ("7", 16, vec![7]),
        ("4x4", 4, vec![4, 4]),
        ("4x8", 4, vec![4, 8]),
        ("2x3", 16, vec![2, 3]),
        ("2x4x4", 4, vec![2, 4, 4]),
    ] {
        let links = links(text, wraps_at);
        let all = chips(&sizes);
        let bytes = 1000.0;
        let mut loads = HashMap::new();
        for from in &all {
            for to in &all {
                let mut at = from.clone();
                for (axis, &target) in to.iter().enumerate() {
                    let ring = links.torus.axes[axis].wraps;
                    let share = bytes / all.len() as f64;
                    along(&mut loads, &sizes, ring, &at, axis, target, share);
                    at[axis] = target;
                }
            }
        }
        let found = links.collective(CollectiveKind::AllToAll, bytes, &everyone(&links));
        let counted = busiest(&loads);
        assert!(
            close(found.seconds, counted),
            "{text}: {} {counted}",
            found.seconds
        );
    }
}

/// An all-gather in as many pieces as there are axes; each piece uses the axes in another order.
/// Along an axis, a piece goes from each chip to all others on it, together with everything that
/// the chip has received by then.
fn gathered(sizes: &[usize], rings: &[bool], bytes: f64) -> f64 {
    let axes = sizes.len();
    let all = chips(sizes);
    let mut loads = HashMap::new();
    for piece in 0..axes {
        let mut held = bytes / all.len() as f64 / axes as f64;
        for step in 0..axes {
            let axis = (piece + step) % axes;
            let size = sizes[axis];
            for chip in &all {
                // The numbers of links to all others, in either direction.
                let (up, down) = match rings[axis] {
                    true => ((size - 1) as f64 / 2.0, (size - 1) as f64 / 2.0),
                    false => ((size - 1 - chip[axis]) as f64, chip[axis] as f64),
                };
                for (goes_up, hops) in [(true, up), (false, down)] {
                    let mut left = hops;
                    let mut at = chip.clone();
                    while left > 0.0 {
                        // If both paths are equally long, half an array is on the last link.
                        *loads.entry((axis, goes_up, at.clone())).or_default() +=
                            held * left.min(1.0);
                        left -= 1.0;
                        at[axis] = match goes_up {
                            true => (at[axis] + 1) % size,
                            false => (at[axis] + size - 1) % size,
                        };
                    }
                }
            }
            held *= size as f64;
        }
    }
    busiest(&loads)
}

#[test]
fn gathers_and_reductions_are_their_busiest_link() {
    // If all axes have the same size, the pieces are alike; so they are with a single axis.
    for (text, wraps_at, sizes) in [
        ("2", 16, vec![2]),
        ("3", 3, vec![3]),
        ("4", 4, vec![4]),
        ("5", 5, vec![5]),
        ("16", 16, vec![16]),
        ("6", 16, vec![6]),
        ("3x3", 3, vec![3, 3]),
        ("4x4", 4, vec![4, 4]),
        ("4x4", 16, vec![4, 4]),
        ("4x4x4", 4, vec![4, 4, 4]),
        ("2x2x2", 4, vec![2, 2, 2]),
    ] {
        let links = links(text, wraps_at);
        let rings: Vec<bool> = links.torus.axes.iter().map(|axis| axis.wraps).collect();
        let bytes = 1000.0;
        let counted = gathered(&sizes, &rings, bytes);
        let of = |kind| links.collective(kind, bytes, &everyone(&links)).seconds;
        assert!(
            close(of(CollectiveKind::AllGather), counted),
            "{text}: {counted}"
        );
        assert!(close(of(CollectiveKind::ReduceScatter), counted), "{text}");
        assert!(
            close(of(CollectiveKind::AllReduce), 2.0 * counted),
            "{text}"
        );
    }
}

#[test]
fn no_gather_is_faster_than_the_links_into_a_chip() {
    for (text, wraps_at) in [
        ("4x8", 4),
        ("2x16", 16),
        ("4x4x8", 4),
        ("8x8x16", 4),
        ("3x5", 16),
    ] {
        let links = links(text, wraps_at);
        let chips = links.torus.chips() as f64;
        // The chip in the corner has the fewest links.
        let into: f64 = links
            .torus
            .axes
            .iter()
            .map(|axis| if axis.wraps { 2.0 } else { 1.0 })
            .sum();
        let found = links.collective(CollectiveKind::AllGather, 1.0, &everyone(&links));
        assert!(close(found.seconds, (chips - 1.0) / chips / into), "{text}");
    }
}

#[test]
fn by_hand() {
    // v5e, 16 x 16: 1 GiB is gathered along one ring, in both directions.
    let links = Links {
        torus: Torus::parse("16x16", 16).expect("a topology"),
        devices_per_chip: 1,
        bandwidth: 45e9,
        hop_latency: 1e-6,
        on_chip: 4e11,
    };
    let rows: Vec<Vec<usize>> = (0..16)
        .map(|row| (row * 16..row * 16 + 16).collect())
        .collect();
    let bytes = f64::from(1 << 30);
    let along_one = links.collective(CollectiveKind::AllGather, bytes, &rows);
    assert!(close(along_one.seconds, bytes * 15.0 / 16.0 / 90e9 + 8e-6));
    assert!(close(along_one.latency, 8e-6));
    assert_eq!(along_one.axes, [1]);
    assert!(close(along_one.received, bytes * 15.0 / 16.0));
    let columns: Vec<Vec<usize>> = (0..16)
        .map(|column| (0..16).map(|row| row * 16 + column).collect())
        .collect();
    let other = links.collective(CollectiveKind::AllGather, bytes, &columns);
    assert!(close(other.seconds, along_one.seconds));
    assert_eq!(other.axes, [0]);
    let whole = links.collective(CollectiveKind::AllReduce, bytes, &everyone(&links));
    assert!(close(
        whole.seconds,
        2.0 * (bytes * 255.0 / 256.0 / 180e9 + 16e-6)
    ));
    assert_eq!(whole.axes, [0, 1]);
    // Four adjacent chips are a line; every fourth chip is a ring that shares its links with three
    // others.
    let four: Vec<Vec<usize>> = (0..64).map(|n| (n * 4..n * 4 + 4).collect()).collect();
    let line = links.collective(CollectiveKind::AllGather, bytes, &four);
    assert!(close(line.seconds, bytes * 0.75 / 45e9 + 3e-6));
    let every: Vec<Vec<usize>> = (0..64)
        .map(|n| (0..4).map(|k| n / 4 * 16 + n % 4 + 4 * k).collect())
        .collect();
    let shared = links.collective(CollectiveKind::AllGather, bytes, &every);
    assert!(
        close(shared.seconds, bytes * 0.75 / 22.5e9 + 8e-6),
        "{}",
        shared.seconds
    );
    assert_eq!(
        links
            .collective(CollectiveKind::AllReduce, bytes, &[vec![3]])
            .seconds,
        0.0
    );
    assert_eq!(
        links
            .collective(CollectiveKind::AllReduce, bytes, &[])
            .seconds,
        0.0
    );
}

#[test]
fn permutes_are_routed() {
    let links = links("4x4", 4);
    let seconds = |pairs: &[(usize, usize)]| links.permute(100.0, pairs).seconds;
    let shift = |by: usize| -> Vec<(usize, usize)> {
        (0..16).map(|n| (n, n / 4 * 4 + (n % 4 + by) % 4)).collect()
    };
    assert!(close(seconds(&shift(1)), 100.0));
    assert!(close(seconds(&shift(3)), 100.0));
    // Each message takes two links, all in the same direction.
    assert!(close(seconds(&shift(2)), 200.0));
    assert_eq!(seconds(&[(5, 5)]), 0.0);
    assert_eq!(seconds(&[]), 0.0);
    // Both use the link from chip 1 to chip 2.
    assert!(close(seconds(&[(0, 2), (1, 2)]), 200.0));
    assert!(close(seconds(&[(0, 1), (2, 3)]), 100.0));
    let far = Links {
        hop_latency: 1.0,
        ..links.clone()
    };
    assert!(
        close(far.permute(0.0, &[(0, 10)]).seconds, 4.0),
        "two links along each axis"
    );
}

#[test]
fn groups_that_are_no_boxes_are_routed() {
    let links = links("4x4", 4);
    // A diagonal, and an irregular group.
    for group in [vec![0, 5, 10, 15], vec![0, 1, 2, 7], vec![0, 3, 1]] {
        for kind in KINDS {
            let found = links.collective(kind, 100.0, std::slice::from_ref(&group));
            let n = group.len() as f64;
            // Four links lead to a chip, each with one byte per second.
            let least = 100.0 * (n - 1.0) / n / 4.0;
            assert!(
                found.seconds >= least && found.seconds.is_finite(),
                "{kind:?} {group:?}"
            );
        }
    }
}

#[test]
fn two_devices_of_a_chip_share_its_links() {
    let one = links("4x4", 4);
    let two = Links {
        devices_per_chip: 2,
        ..one.clone()
    };
    // One group has the first devices of all chips, the other the second ones.
    let cores: Vec<Vec<usize>> = (0..2)
        .map(|core| (0..16).map(|chip| chip * 2 + core).collect())
        .collect();
    let alone = one
        .collective(CollectiveKind::AllGather, 64.0, &everyone(&one))
        .seconds;
    let shared = two
        .collective(CollectiveKind::AllGather, 64.0, &cores)
        .seconds;
    assert!(close(shared, 2.0 * alone), "{shared} {alone}");
    // No links are needed inside a chip.
    let pairs: Vec<Vec<usize>> = (0..16).map(|chip| vec![chip * 2, chip * 2 + 1]).collect();
    let inside = two.collective(CollectiveKind::AllReduce, 64.0, &pairs);
    assert!(inside.seconds < 1e-20 && inside.axes.is_empty());
}

#[test]
fn more_bandwidth_and_less_latency_are_never_slower() {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % below
    };
    for _ in 0..2000 {
        let sizes: Vec<String> = (0..1 + random(3))
            .map(|_| (1 + random(5)).to_string())
            .collect();
        let slow = Links {
            devices_per_chip: 1 + random(2) as usize,
            bandwidth: 1.0 + random(100) as f64,
            hop_latency: random(10) as f64,
            on_chip: 1.0 + random(100) as f64,
            ..links(&sizes.join("x"), 1 + random(4) as usize)
        };
        let fast = Links {
            bandwidth: slow.bandwidth * (1.0 + random(3) as f64),
            hop_latency: slow.hop_latency / (1.0 + random(3) as f64),
            on_chip: slow.on_chip * (1.0 + random(3) as f64),
            ..slow.clone()
        };
        let devices = slow.torus.chips() * slow.devices_per_chip;
        let mut order: Vec<usize> = (0..devices).collect();
        for at in (1..devices).rev() {
            order.swap(at, random(at as u64 + 1) as usize);
        }
        let size = 1 + random(devices as u64) as usize;
        let groups: Vec<Vec<usize>> = order.chunks(size).map(<[usize]>::to_vec).collect();
        let bytes = random(1000) as f64;
        for kind in KINDS {
            let [a, b] = [&slow, &fast].map(|links| links.collective(kind, bytes, &groups));
            assert!(
                b.seconds <= a.seconds * (1.0 + 1e-12),
                "{kind:?} {slow:?} {groups:?}"
            );
            assert!(a.seconds.is_finite() && a.seconds >= a.latency);
        }
        let pairs: Vec<(usize, usize)> = order.iter().copied().enumerate().collect();
        let [a, b] = [&slow, &fast].map(|links| links.permute(bytes, &pairs).seconds);
        assert!(b <= a * (1.0 + 1e-12), "{slow:?} {pairs:?}");
    }
}
