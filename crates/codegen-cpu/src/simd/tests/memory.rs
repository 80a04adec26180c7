//! Tests of loads and stores with every lowering: narrow elements, masks, gathers, scatters,
//! columns.

use crate::simd::tests::*;

/// Narrow elements, masks, gathers, scatters, and a loop over columns.
#[test]
fn memory() {
    for (bytes, signed) in [(1, false), (1, true), (2, false), (2, true), (4, false)] {
        let mut b = Builder::new();
        let narrow = Storage { bytes, signed };
        let from = b.input(Input::Integer);
        let from = b.access(Access {
            pointer: from,
            storage: narrow,
            splat: false,
        });
        let to = b.input(Input::Integer);
        let to = b.access(Access {
            pointer: to,
            storage: narrow,
            splat: false,
        });
        let x = b.load(from, Type::I32, None);
        let one = b.i32(1);
        let y = b.add(x, one);
        // Odd numbers only.
        let odd = b.and(x, one);
        let odd = b.compare(Condition::Equal, odd, one);
        b.store(to, y, None, Some(odd));
        let body = b.finish();
        compare_memory(
            &format!("{bytes} bytes, signed: {signed}"),
            &body,
            bytes as usize,
        );
    }
}

#[test]
fn scattered_memory() {
    for ty in [Type::I32, Type::I64] {
        let mut b = Builder::new();
        let from = pointer(&mut b, bytes_of(ty));
        let to = pointer(&mut b, bytes_of(ty));
        let lane = b.lane();
        let one = b.i32(1);
        // Neighbours are exchanged; the last one of an odd number is masked.
        let other = b.xor(lane, one);
        let x = b.load(from, ty, None);
        let n = b.input(Input::Number(Type::I32));
        let n = b.splat(n, Type::I32);
        let inside = b.compare(Condition::Less, other, n);
        let y = b.gather(from, ty, other, Some(inside));
        let sum = b.sub(y, x);
        b.store(to, sum, Some(other), Some(inside));
        let body = b.finish();
        compare_memory(&format!("{ty:?}"), &body, bytes_of(ty) as usize);
    }
}

/// Scatters of narrow elements: no instruction set gathers them.
#[test]
fn scattered_narrow_memory() {
    for (bytes, signed) in [(1, false), (1, true), (2, false), (2, true)] {
        let mut b = Builder::new();
        let narrow = Storage { bytes, signed };
        let [from, to] = [(); 2].map(|()| {
            let pointer = b.input(Input::Integer);
            b.access(Access {
                pointer,
                storage: narrow,
                splat: false,
            })
        });
        let (lane, one) = (b.lane(), b.i32(1));
        let other = b.xor(lane, one);
        let n = b.input(Input::Number(Type::I32));
        let n = b.splat(n, Type::I32);
        let inside = b.compare(Condition::Less, other, n);
        let y = b.gather(from, Type::I32, other, Some(inside));
        let first = b.gather(from, Type::I32, lane, None);
        let sum = b.sub(y, first);
        b.store(to, sum, Some(other), Some(inside));
        let body = b.finish();
        let name = format!("{bytes} bytes, signed: {signed}, anywhere");
        compare_memory(&name, &body, bytes as usize);
    }
}

/// Rows that a loop of the body selects: indices that increase by one from lane to lane, from a
/// uniform start.
#[test]
fn rows_chosen_in_a_loop() {
    for bytes in [1u32, 2, 4, 8] {
        let ty = if bytes == 8 { Type::I64 } else { Type::I32 };
        let mut b = Builder::new();
        let mut storage = |bytes, splat| {
            let pointer = b.input(Input::Integer);
            b.access(Access {
                pointer,
                storage: Storage {
                    bytes,
                    signed: false,
                },
                splat,
            })
        };
        let (from, places) = (storage(bytes, false), storage(4, true));
        let to = storage(bytes_of(ty), false);
        let [trips, step] = [(); 2].map(|()| b.input(Input::Integer));
        let start = b.integer(ty, 0);
        let inside = b.open_loop(&[start]);
        let place = b.load(places, Type::I32, None);
        let (most, columns) = (b.i32(6), b.i32(80));
        let place = b.binary(BinaryOp::MinSigned, place, most);
        let row = b.mul(place, columns);
        let lane = b.lane();
        let index = b.add(row, lane);
        let x = b.gather(from, ty, index, None);
        let sum = b.add(inside[0], x);
        let result = b.close_loop(trips, &[start], &inside, &[sum], vec![(places, step)]);
        b.store(to, result[0], None, None);
        let body = b.finish();
        let of_bytes = bytes as usize;
        let table: Vec<u8> = (0..7 * 80 * of_bytes)
            .map(|i| (i * 7 + i / 80) as u8)
            .collect();
        let at = [3i32, 9, 0, 6, 6, 2, 5, 1, 1];
        for compiled in Compiled::all(&body) {
            for n in [1u64, 3, 4, 15, 16, 17, 64, 79, 80] {
                let mut out = vec![0u64; 80];
                let args = [
                    table.as_ptr() as u64,
                    at.as_ptr() as u64,
                    out.as_mut_ptr() as u64,
                    at.len() as u64,
                    4,
                ];
                // SAFETY: `n` elements are written, and `n` of a row of 80 are read.
                unsafe { compiled.run(&args, n) };
                let element = |row: i32, lane: usize| {
                    let first = (row.min(6) as usize * 80 + lane) * of_bytes;
                    let element = table[first..first + of_bytes].iter().rev();
                    element.fold(0u64, |sum, &byte| sum << 8 | u64::from(byte))
                };
                for lane in 0..n as usize {
                    let wanted = at
                        .iter()
                        .fold(0u64, |sum, &row| sum.wrapping_add(element(row, lane)));
                    let (wanted, got) = match ty {
                        Type::I64 => (wanted, out[lane]),
                        _ => (
                            u64::from(wanted as u32),
                            u64::from((out[lane / 2] >> (32 * (lane % 2))) as u32),
                        ),
                    };
                    assert_eq!(
                        got, wanted,
                        "{}: {bytes} bytes, lane {lane} of {n}",
                        compiled.name
                    );
                }
            }
        }
    }
}

/// Elements in the reverse order, all lanes and some, stored in that order again.
#[test]
fn backward_accesses() {
    let types = [
        (1, Type::I32),
        (2, Type::I32),
        (4, Type::F32),
        (8, Type::F64),
    ];
    for ((bytes, ty), masked) in types.into_iter().flat_map(|t| [(t, false), (t, true)]) {
        let mut b = Builder::new();
        let [from, to] = [(); 2].map(|()| pointer(&mut b, bytes));
        let (lane, back, three) = (b.lane(), b.i32(-1), b.i32(3));
        let some = b.and(lane, three);
        let some = b.compare(Condition::NotEqual, some, three);
        let index = b.mul(lane, back);
        let value = b.gather(from, ty, index, masked.then_some(some));
        b.store(to, value, Some(index), masked.then_some(some));
        let body = b.finish();
        let size = bytes as usize;
        let numbers: Vec<u8> = (0..1024 * size).map(|i| (i * 37 % 251) as u8).collect();
        for compiled in Compiled::all(&body) {
            for n in LENGTHS.into_iter().filter(|&n| n <= 1024) {
                let count = n as usize;
                let last = size * count.saturating_sub(1);
                let mut out = vec![0u8; size * count];
                let args = [
                    numbers[last..].as_ptr(),
                    out[last..].as_mut_ptr().cast_const(),
                ];
                // SAFETY: `n` elements are read, backwards, and as many are written.
                unsafe { compiled.run(&args.map(|p| p as u64), n) };
                let elements = numbers[..size * count].chunks(size).enumerate();
                let want = elements.flat_map(|(place, element)| {
                    match masked && (count - 1 - place) % 4 == 3 {
                        true => vec![0; size],
                        false => element.to_vec(),
                    }
                });
                let name = compiled.name;
                assert!(out.into_iter().eq(want), "{bytes} bytes, {name} at {n}");
            }
        }
    }
}

/// Vectors within one step of an index and across two, from every offset in a step.
#[test]
fn steps_of_an_index() {
    let mut b = Builder::new();
    let [from, to] = [(); 2].map(|()| pointer(&mut b, 4));
    let first = b.input(Input::Number(Type::I32));
    let (lane, first) = (b.lane(), b.splat(first, Type::I32));
    let place = b.add(lane, first);
    let step = b.shift(BinaryOp::ShiftRightSigned, place, 4);
    let value = b.gather(from, Type::I32, step, None);
    b.store(to, value, None, None);
    let body = b.finish();
    let numbers: Vec<i32> = (0..70).map(|i| 3 * i + 1).collect();
    for compiled in Compiled::all(&body) {
        for n in LENGTHS.into_iter().filter(|&n| n <= 1024) {
            for first in [0, 1, 15, 16, 40] {
                let mut out = vec![0i32; n as usize];
                let args = [numbers.as_ptr() as u64, out.as_mut_ptr() as u64, first];
                // SAFETY: `n` elements are written, and at most 67 are read.
                unsafe { compiled.run(&args, n) };
                let want = (0..n).map(|i| numbers[((i + first) / 16) as usize]);
                assert!(out.into_iter().eq(want), "{} at {n}", compiled.name);
            }
        }
    }
}

/// Gathers of elements that are close together in most vectors, starting at every offset. Each is
/// tested with its span stated in the body, and without.
#[test]
fn elements_that_are_close_together() {
    // `(lane + first) mod 64`, `floordiv 2` and `floordiv 64`.
    type Index = fn(&mut Builder, V) -> V;
    let cases: [(Span, Index); 3] = [
        (Span::Neighbours, |b, place| {
            let most = b.i32(63);
            b.and(place, most)
        }),
        (Span::Window, |b, place| {
            b.shift(BinaryOp::ShiftRightSigned, place, 1)
        }),
        (Span::Same, |b, place| {
            let (step, one) = (b.shift(BinaryOp::ShiftRightSigned, place, 6), b.i32(1));
            b.add(step, one)
        }),
    ];
    let types = [
        (1, Type::I32),
        (2, Type::I32),
        (4, Type::F32),
        (8, Type::F64),
    ];
    for ((span, index), (bytes, ty)) in cases.into_iter().flat_map(|c| types.map(|t| (c, t))) {
        let body = |stated: bool| {
            let mut b = Builder::new();
            let [from, to] = [(); 2].map(|()| pointer(&mut b, bytes));
            let first = b.input(Input::Number(Type::I32));
            let (lane, first) = (b.lane(), b.splat(first, Type::I32));
            let place = b.add(lane, first);
            let index = index(&mut b, place);
            let value = b.gather(from, ty, index, None);
            b.store(to, value, None, None);
            b.body().spans.extend(stated.then_some((from, span)));
            b.finish()
        };
        let size = bytes as usize;
        // Pages are crossed, too.
        let numbers: Vec<u8> = (0..size * 4096).map(|i| (i * 37 % 251) as u8).collect();
        let bodies = [body(true), body(false)];
        for n in LENGTHS.into_iter().filter(|&n| n <= 1024) {
            for first in [0, 1, 15, 16, 40, 5000] {
                let mut want = Vec::new();
                for compiled in bodies.iter().flat_map(Compiled::all) {
                    let mut out = vec![0u8; size * n as usize];
                    let args = [numbers.as_ptr() as u64, out.as_mut_ptr() as u64, first];
                    // SAFETY: `n` elements are written, and at most 3,013 are read.
                    unsafe { compiled.run(&args, n) };
                    if want.is_empty() {
                        want.clone_from(&out);
                    }
                    assert_eq!(
                        out, want,
                        "{span:?}, {bytes} bytes, {} at {n}",
                        compiled.name
                    );
                }
            }
        }
    }
}

/// Every second or fourth narrow element, from whole blocks and from others.
#[test]
fn narrow_elements_at_equal_distances() {
    for (bytes, stride) in [(1, 2), (1, 4), (2, 2), (2, 4), (1, 3)] {
        for (signed, whole) in [(false, false), (false, true), (true, true)] {
            let mut b = Builder::new();
            let pointer_of = b.input(Input::Integer);
            let from = b.access(Access {
                pointer: pointer_of,
                storage: Storage { bytes, signed },
                splat: false,
            });
            if whole {
                b.body().blocks.push(from);
            }
            let (lane, step) = (b.lane(), b.i32(stride));
            let scaled = b.mul(lane, step);
            let mut sum = b.i32(0);
            for first in 0..stride {
                let index = match first {
                    0 => scaled,
                    _ => {
                        let first = b.i32(first);
                        b.add(scaled, first)
                    }
                };
                let value = b.gather(from, Type::I32, index, None);
                let (factor, rest) = (b.i32(3), value);
                let scaled = b.mul(sum, factor);
                sum = b.add(scaled, rest);
            }
            let to = pointer(&mut b, 4);
            b.store(to, sum, None, None);
            let body = b.finish();
            let size = bytes as usize;
            for n in LENGTHS.into_iter().filter(|&n| n <= 1024) {
                let blocks = stride as usize * n as usize;
                let numbers: Vec<u8> = (0..size * blocks).map(|i| (i * 37 % 251) as u8).collect();
                let element = |i: usize| match (size, signed) {
                    (1, false) => i32::from(numbers[i]),
                    (1, true) => i32::from(numbers[i].cast_signed()),
                    (_, false) => {
                        i32::from(u16::from_le_bytes([numbers[2 * i], numbers[2 * i + 1]]))
                    }
                    (_, true) => {
                        i32::from(i16::from_le_bytes([numbers[2 * i], numbers[2 * i + 1]]))
                    }
                };
                let places: Vec<usize> = (0..blocks).collect();
                let want = places
                    .chunks(stride as usize)
                    .map(|block| block.iter().fold(0, |sum, &i| 3 * sum + element(i)));
                for compiled in Compiled::all(&body) {
                    let mut out = vec![0i32; n as usize];
                    let args = [numbers.as_ptr() as u64, out.as_mut_ptr() as u64];
                    // SAFETY: `n` blocks are read, and as many elements are written.
                    unsafe { compiled.run(&args, n) };
                    let name = compiled.name;
                    assert!(
                        out.iter().copied().eq(want.clone()),
                        "every {stride} of {bytes} bytes, {signed}, {whole} by {name} at {n}"
                    );
                }
            }
        }
    }
}

/// Narrow elements of several arrays that are stored in turn.
#[test]
fn narrow_elements_in_turn() {
    for (bytes, stride) in [1, 2].into_iter().flat_map(|b| [2, 4, 8].map(|s| (b, s))) {
        let mut b = Builder::new();
        let from: Vec<u32> = (0..stride).map(|_| pointer(&mut b, bytes)).collect();
        let to = pointer(&mut b, bytes);
        b.body().blocks.push(to);
        let (lane, step) = (b.lane(), b.i32(stride));
        let scaled = b.mul(lane, step);
        let values: Vec<V> = from.iter().map(|&x| b.load(x, Type::I32, None)).collect();
        for (first, value) in (0..).zip(values) {
            let index = match first {
                0 => scaled,
                _ => {
                    let first = b.i32(first);
                    b.add(scaled, first)
                }
            };
            b.store(to, value, Some(index), None);
        }
        let body = b.finish();
        let (size, stride) = (bytes as usize, stride as usize);
        for n in LENGTHS.into_iter().filter(|&n| n <= 1024) {
            let count = n as usize;
            let numbers: Vec<u8> = (0..size * stride * count)
                .map(|i| (i * 37 % 251) as u8)
                .collect();
            let element = |i: usize| {
                let (lane, array) = (i / stride, i % stride);
                &numbers[size * (array * count + lane)..][..size]
            };
            let want: Vec<u8> = (0..stride * count).flat_map(element).copied().collect();
            for compiled in Compiled::all(&body) {
                let mut out = vec![0x5au8; 2 * GUARD + numbers.len()];
                let arrays = (0..stride).map(|array| numbers[size * array * count..].as_ptr());
                let mut args: Vec<u64> = arrays.map(|p| p as u64).collect();
                args.push(out[GUARD..].as_mut_ptr() as u64);
                // SAFETY: the code reads `n` elements of each array, and writes `n` groups that
                // have one element of each array.
                unsafe { compiled.run(&args, n) };
                let written = GUARD..GUARD + numbers.len();
                let name = compiled.name;
                assert_eq!(
                    out[written.clone()],
                    want,
                    "{bytes} bytes, {stride} by {name} at {n}"
                );
                let beside = out[..written.start].iter().chain(&out[written.end..]);
                assert!(beside.copied().eq([0x5a; 2 * GUARD]), "{name} at {n}");
            }
        }
    }
}

/// One element for some of the lanes, and an element with an invalid address for none.
#[test]
fn one_element_under_a_mask() {
    for (bytes, ty) in [
        (1, Type::I32),
        (2, Type::I32),
        (4, Type::F32),
        (8, Type::I64),
    ] {
        let mut b = Builder::new();
        let pointers = [(); 3].map(|()| b.input(Input::Integer));
        let [from, to, nowhere] = pointers.map(|pointer| {
            b.access(Access {
                pointer,
                storage: storage(bytes),
                splat: pointer != pointers[1],
            })
        });
        let (lane, one, zero) = (b.lane(), b.i32(1), b.i32(0));
        let odd = b.and(lane, one);
        let odd = b.compare(Condition::Equal, odd, one);
        let never = b.compare(Condition::Less, lane, zero);
        let [x, y] = [(from, odd), (nowhere, never)].map(|(a, mask)| b.load(a, ty, Some(mask)));
        let sum = b.add(x, y);
        b.store(to, sum, None, None);
        let body = b.finish();
        compare_memory(&format!("one of {bytes} bytes"), &body, bytes as usize);
    }
}

/// Halves of pairs, in bodies with 32-bit lanes and with 64-bit ones.
#[test]
fn pairs_under_masks() {
    for wide in [false, true] {
        let mut b = Builder::new();
        let [from, to] = [(); 2].map(|()| pointer(&mut b, 8));
        let (lane, one, three) = (b.lane(), b.i32(1), b.i32(3));
        let odd = b.and(lane, one);
        let odd = b.compare(Condition::Equal, odd, one);
        let some = b.and(lane, three);
        let some = b.compare(Condition::NotEqual, some, three);
        let low = b.load_half(from, false, Some(odd));
        let mut high = b.load_half(from, true, None);
        if wide {
            let double = b.convert(Conversion::Float, high, Type::F64);
            let zero = b.f64(0.0);
            let negative = b.compare(Condition::Less, double, zero);
            high = b.select(negative, low, high);
        }
        b.store_pair(to, [high, low], Some(some));
        let body = b.finish();
        compare_memory(&format!("pairs, wide: {wide}"), &body, 8);
    }
}

/// Halves of pairs of 16 bytes, all lanes and some.
#[test]
fn long_pairs_under_masks() {
    for masked in [false, true] {
        let mut b = Builder::new();
        let [from, to] = [(); 2].map(|()| pointer(&mut b, 16));
        let (lane, one, three) = (b.lane(), b.i32(1), b.i32(3));
        let odd = b.and(lane, one);
        let odd = b.compare(Condition::Equal, odd, one);
        let some = b.and(lane, three);
        let some = b.compare(Condition::NotEqual, some, three);
        let low = b.load_half(from, false, masked.then_some(odd));
        let high = b.load_half(from, true, masked.then_some(odd));
        let sign = b.bits(high);
        let all = b.constant(Type::I64, u64::MAX);
        let flipped = b.xor(sign, all);
        let flipped = b.bits(flipped);
        b.store_pair(to, [flipped, low], masked.then_some(some));
        let body = b.finish();
        compare_memory(&format!("long pairs, masked: {masked}"), &body, 16);
    }
}

#[test]
fn sums_of_columns() {
    for ty in [Type::I32, Type::I64, Type::F32] {
        let mut b = Builder::new();
        let from = pointer(&mut b, bytes_of(ty));
        let to = pointer(&mut b, bytes_of(ty));
        let trips = b.input(Input::Integer);
        let step = b.input(Input::Integer);
        let zero = b.constant(ty, 0);
        let sum = b.open_loop(&[zero]);
        let x = b.load(from, ty, None);
        let next = b.add(sum[0], x);
        let last = b.close_loop(trips, &[zero], &sum, &[next], vec![(from, step)]);
        b.store(to, last[0], None, None);
        let body = b.finish();
        let size = bytes_of(ty) as usize;
        let all = Compiled::all(&body);
        for n in LENGTHS {
            for rows in [0u64, 1, 3, 17] {
                let input: Vec<u8> = match ty {
                    Type::F32 => (0..n * rows.max(1))
                        .flat_map(|i| ((i % 64) as f32).to_le_bytes())
                        .collect(),
                    _ => numbers(ty, 1, n * rows.max(1)),
                };
                let mut want = Vec::new();
                for compiled in &all {
                    let mut out = vec![0u8; size * n as usize];
                    let args = [
                        input.as_ptr() as u64,
                        out.as_mut_ptr() as u64,
                        rows,
                        size as u64 * n,
                    ];
                    // SAFETY: `rows` rows of `n` elements, and a row for the sums.
                    unsafe { compiled.run(&args, n) };
                    if want.is_empty() {
                        want.clone_from(&out);
                    }
                    assert_eq!(out, want, "{ty:?} by {} at {rows}x{n}", compiled.name);
                }
            }
        }
    }
}

/// A loop over rows of narrow elements: whole vectors of them, and the remaining lanes of each row.
#[test]
fn sums_of_narrow_columns() {
    for bytes in [1, 2] {
        let mut b = Builder::new();
        let [from, to] = [(); 2].map(|()| pointer(&mut b, bytes));
        let [trips, step] = [(); 2].map(|()| b.input(Input::Integer));
        let zero = b.i32(0);
        let sum = b.open_loop(&[zero]);
        let x = b.load(from, Type::I32, None);
        let next = b.add(sum[0], x);
        let last = b.close_loop(trips, &[zero], &sum, &[next], vec![(from, step)]);
        b.store(to, last[0], None, None);
        let body = b.finish();
        let (size, rows) = (bytes as usize, 5);
        for n in LENGTHS {
            let input = &numbers(Type::I64, 1, n * rows)[..size * (n * rows) as usize];
            let mut want = Vec::new();
            for compiled in Compiled::all(&body) {
                let mut out = vec![0x5au8; 2 * GUARD + size * n as usize];
                let place = out[GUARD..].as_mut_ptr() as u64;
                let args = [input.as_ptr() as u64, place, rows, size as u64 * n];
                // SAFETY: `rows` rows of `n` elements, and a row for the sums.
                unsafe { compiled.run(&args, n) };
                if want.is_empty() {
                    want.clone_from(&out);
                }
                assert_eq!(out, want, "{bytes} bytes by {} at {n}", compiled.name);
            }
        }
    }
}

/// Strided elements of blocks: loads of some, stores of all in another order.
#[test]
fn elements_at_equal_distances() {
    for (stride, loads) in [
        (2, vec![0, 1]),
        (2, vec![1]),
        (3, vec![0, 1, 2]),
        (3, vec![2]),
        (4, vec![0, 1, 2, 3]),
        (4, vec![1, 2]),
        (5, vec![4]),
        (8, vec![0, 1, 2, 3, 4, 5, 6, 7]),
        (8, vec![3]),
        (16, vec![0, 5, 15]),
    ] {
        for whole in [true, false] {
            let mut b = Builder::new();
            let [from, to] = [(); 2].map(|()| pointer(&mut b, 4));
            if whole {
                b.body().blocks.extend([from, to]);
            }
            let (lane, step) = (b.lane(), b.i32(stride));
            let scaled = b.mul(lane, step);
            let at = |b: &mut Builder, first: i32| match first {
                0 => scaled,
                _ => {
                    let first = b.i32(first);
                    b.add(scaled, first)
                }
            };
            let mut values = Vec::new();
            for &first in &loads {
                let index = at(&mut b, first);
                values.push(b.gather(from, Type::F32, index, None));
            }
            for first in 0..stride {
                let index = at(&mut b, first);
                let value = values[(first as usize + 1) % values.len()];
                b.store(to, value, Some(index), None);
            }
            let body = b.finish();
            for n in LENGTHS {
                let size = 4 * stride as usize * n as usize;
                let input = numbers(Type::I32, 3, stride as u64 * n);
                let mut want = Vec::new();
                for compiled in Compiled::all(&body) {
                    let mut out = vec![0x5au8; 2 * GUARD + size];
                    let args = [input.as_ptr() as u64, out[GUARD..].as_mut_ptr() as u64];
                    // SAFETY: both arrays have `n` blocks.
                    unsafe { compiled.run(&args, n) };
                    if want.is_empty() {
                        want.clone_from(&out);
                    }
                    let name = compiled.name;
                    assert_eq!(
                        out, want,
                        "every {stride}, {loads:?}, {whole} by {name} at {n}"
                    );
                }
            }
        }
    }
}

/// Compares bodies that copy from one array to another of elements of a size; a third input is the
/// number of lanes.
fn compare_memory(name: &str, body: &Body, size: usize) {
    for n in LENGTHS {
        let input = &numbers(Type::I64, 3, 2 * n)[..size * n as usize];
        let mut want = Vec::new();
        for compiled in Compiled::all(body) {
            let mut out = vec![0x5au8; 2 * GUARD + size * n as usize];
            let mut args = vec![input.as_ptr() as u64, out[GUARD..].as_mut_ptr() as u64, n];
            args.truncate(body.inputs.len());
            // SAFETY: both arrays have `n` elements.
            unsafe { compiled.run(&args, n) };
            if want.is_empty() {
                want.clone_from(&out);
            }
            assert_eq!(out, want, "{name} by {} at {n}", compiled.name);
        }
    }
}
