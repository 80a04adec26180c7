//! What devices send each other for single operations: no whole operands where a few elements do.
//!
//! Each program is cut over 2, 4 and 8 devices, `N` in its text, and gives what the whole program
//! gives; its devices receive no more bytes than stated.

use super::results;
use tegula_interp::{Value, evaluate};
use tegula_ir::{ArrayShape, Literal, Module, Scalar};
use tegula_partition::partition;
use tegula_tests::random::Random;
use tegula_tests::shardings::same;

const DEVICES: [i64; 3] = [2, 4, 8];

/// Small numbers with many equal ones, and NaN among floats if that is wanted.
fn inputs(module: &Module, nans: bool) -> Vec<Literal> {
    let mut random = Random::new(7);
    let mut literal = |shape: &ArrayShape| {
        let elements = shape
            .representative()
            .element_count()
            .expect("a small array");
        let numbers = (0..elements).map(|_| {
            let number = random.between(-6, 6);
            match shape.element_type.is_float() {
                true if nans && random.once_in(5) => Scalar::Float(f64::NAN),
                true => Scalar::Float(number as f64 / 2.0),
                false => Scalar::Int(number).convert(shape.element_type),
            }
        });
        let numbers: Vec<Scalar> = numbers.collect();
        Literal::from_scalars(shape, numbers).expect("as many elements")
    };
    let parameters = module.entry_computation().parameters.iter();
    parameters
        .map(|id| literal(module[*id].shape.as_array().expect("an array")))
        .collect()
}

/// Cuts a program over devices and compares what they give; gives the bytes that each receives.
fn exchanged(text: &str, devices: i64, nans: bool) -> i64 {
    let text = text.replace("{N}", &devices.to_string());
    let module = tegula_tests::read(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let inputs = inputs(&module, nans);
    let arguments: Vec<Value> = inputs.iter().cloned().map(Value::Array).collect();
    let expected = evaluate(&module, &arguments).expect("it runs");
    let partitioned = partition(&module, &tegula_partition::Options::default());
    let partitioned = partitioned.unwrap_or_else(|error| panic!("{error}\n{text}"));
    let program = &partitioned.module;
    let found = results(&partitioned, &inputs, &module);
    let found = found.unwrap_or_else(|error| panic!("{error}\n{text}\n{program}"));
    for (found, expected) in found.iter().zip(expected.leaves()) {
        assert!(
            same(found, expected),
            "{text}\n{program}\nexpected {expected}\nfound {found}"
        );
    }
    partitioned.report.bytes()
}

/// No device receives more than `most` bytes, given the number of devices.
fn receives(text: &str, most: impl Fn(i64) -> i64) {
    for devices in DEVICES {
        for nans in [false, true] {
            let bytes = exchanged(text, devices, nans);
            let most = most(devices);
            assert!(
                bytes <= most,
                "{devices} devices receive {bytes} bytes, expected at most {most}\n{text}"
            );
        }
    }
}

/// `argsort`: the comparator reads the keys alone.
const SORT: &str = "HloModule argsort, num_partitions={N}
less { a = f32[] parameter(0)
    b = f32[] parameter(1)
    i = s32[] parameter(2)
    j = s32[] parameter(3)
    ROOT c = pred[] compare(a, b), direction=LT, type=TOTALORDER }
ENTRY main { x = f32[ROWS,7] parameter(0)CUT
    places = s32[ROWS,7] iota(), iota_dimension=1
    both = (f32[ROWS,7], s32[ROWS,7]) sort(x, places), dimensions={1}, is_stable=true, to_apply=less
    sorted = f32[ROWS,7] get-tuple-element(both), index=0
    order = s32[ROWS,7] get-tuple-element(both), index=1
    twice = s32[ROWS,7] add(order, order)THEN
    ROOT all = (f32[ROWS,7], s32[ROWS,7]) tuple(sorted, twice) }";

#[test]
fn lines_are_sorted_where_they_are() {
    let cut = ", sharding={devices=[{N},1]<=[{N}]}";
    for rows in ["16", "13"] {
        let of = |first: &str, last: &str| {
            let text = SORT.replace("ROWS", rows);
            text.replace("CUT", first).replace("THEN", last)
        };
        receives(&of(cut, ""), |_| 0);
        receives(&of("", cut), |_| 0);
    }
}

/// The gradient of max-pooling by 3 in steps of `STEP`, and what is cut.
const POOL: &str = "HloModule pool, num_partitions={N}
first { a = f32[] parameter(0)
    b = f32[] parameter(1)
    ROOT c = pred[] compare(a, b), direction=GE }
sum { a = f32[] parameter(0)
    b = f32[] parameter(1)
    ROOT c = f32[] add(a, b) }
ENTRY main { x = f32[8,16,16] parameter(0), sharding={devices=CUT<=[{N}]}
    given = f32[8,8,8] parameter(1), sharding={devices=CUT<=[{N}]}
    zero = f32[] constant(0)
    ROOT grad = f32[8,16,16] select-and-scatter(x, given, zero),
        window={size=1x2x3 stride=1x2x2 pad=0_0x0_0x1_0}, select=first, scatter=sum }";

#[test]
fn images_are_pooled_where_they_are() {
    receives(&POOL.replace("CUT", "[{N},1,1]"), |_| 0);
    // Windows of 2 in steps of 2 do not overlap.
    receives(&POOL.replace("CUT", "[1,{N},1]"), |_| 0);
    // Of windows that overlap, some rows come from neighbours.
    for (size, steps, sources) in [(3, 2, 7), (3, 1, 14), (4, 2, 7)] {
        let rows = 2 * (size - 1);
        let text = POOL.replace(
            "size=1x2x3 stride=1x2",
            &format!("size=1x{size}x3 stride=1x{steps}"),
        );
        let text = text
            .replace("8,8,8", &format!("8,{sources},8"))
            .replace("CUT", "[1,{N},1]");
        receives(&text, |_| 4 * 8 * (16 + 8) * rows);
    }
}

/// `jnp.argmax`: NaN first, then the largest, then the first.
const ARGMAX: &str = "HloModule argmax, num_partitions={N}
pick { a = f32[] parameter(0)
    i = s32[] parameter(1)
    b = f32[] parameter(2)
    j = s32[] parameter(3)
    n = pred[] compare(a, a), direction=NE
    g = pred[] compare(a, b), direction=GT
    p = pred[] or(n, g)
    e = pred[] compare(a, b), direction=EQ
    l = pred[] compare(i, j), direction=LT
    t = pred[] and(e, l)
    q = pred[] or(p, t)
    x = f32[] select(p, a, b)
    k = s32[] select(q, i, j)
    ROOT r = (f32[], s32[]) tuple(x, k) }
ENTRY main { x = f32[6,WORDS] parameter(0), sharding={devices=[1,{N}]<=[{N}]}
    places = s32[6,WORDS] iota(), iota_dimension=1
    least = f32[] constant(-inf)
    none = s32[] constant(0)
    both = (f32[6], s32[6]) reduce(x, places, least, none), dimensions={1}, to_apply=pick
    largest = f32[6] get-tuple-element(both), index=0
    place = s32[6] get-tuple-element(both), index=1
    ROOT all = (f32[6], s32[6]) tuple(largest, place) }";

#[test]
fn parts_pick_their_largest() {
    for words in ["400", "13", "9"] {
        // Two numbers of each row from every other device.
        let text = ARGMAX.replace("WORDS", words);
        receives(&text, |devices| 6 * 8 * (devices - 1));
        // NaN do not end what begins with one, and equal numbers count once.
        receives(&text.replace("constant(-inf)", "constant(1)"), |devices| {
            6 * 8 * (devices - 1)
        });
        receives(
            &text.replace("constant(-inf)", "constant(nan)"),
            |devices| 6 * 8 * (devices - 1),
        );
    }
}

/// An operation on `x`, of `ROWS` rows.
fn with_rows(rows: i64, operation: &str) -> String {
    format!(
        "HloModule rows, num_partitions={{N}}
        ENTRY main {{ x = f32[{rows},5] parameter(0), sharding={{devices=[{{N}},1]<=[{{N}}]}}
            y = f32[{rows},5] parameter(1), sharding={{devices=[{{N}},1]<=[{{N}}]}}
            zero = f32[] constant(0)
            ROOT made = {operation} }}"
    )
}

#[test]
fn slices_come_from_their_owners() {
    let whole = ", sharding={replicated}";
    for rows in [16, 13] {
        for row in [0, 3, rows - 1] {
            let end = row + 1;
            let slice = format!("f32[1,5] slice(x), slice={{[{row}:{end}],[0:5]}}");
            receives(&with_rows(rows, &slice), |_| 20);
            let narrow = format!("f32[1,2] slice(x), slice={{[{row}:{end}],[1:5:2]}}");
            receives(&with_rows(rows, &narrow), |_| 8);
        }
        // Some rows of several parts.
        let some = format!("f32[3,5] slice(x), slice={{[1:10:4],[0:5]}}{whole}");
        receives(&with_rows(rows, &some), |_| 60);
    }
}

#[test]
fn rows_change_places() {
    let cut = ", sharding={devices=[{N},1]<=[{N}]}";
    let row = 20;
    let part = |rows: i64, devices: i64| (rows + devices - 1) / devices;
    for rows in [16, 32, 13] {
        let reversed = format!("f32[{rows},5] reverse(x), dimensions={{0}}{cut}");
        // Of uneven parts each reads two others.
        receives(&with_rows(rows, &reversed), |devices| {
            2 * part(rows, devices).min((devices - 1) * part(rows, devices)) * row
        });
        let all = 2 * rows;
        let joined = format!("f32[{all},5] concatenate(x, y), dimensions={{0}}{cut}");
        receives(&with_rows(rows, &joined), |devices| {
            2 * (devices - 1).min(3) * part(rows, devices) * row
        });
    }
    for rows in [16, 32] {
        let half = rows / 2;
        let every = format!("f32[{half},5] slice(x), slice={{[1:{rows}:2],[0:5]}}{cut}");
        receives(&with_rows(rows, &every), |_| 0);
    }
}

#[test]
fn elements_are_spread_where_they_are() {
    let cut = ", sharding={devices=[{N},1]<=[{N}]}";
    for (low, high, halo) in [(0, 1, 0), (1, 0, 0), (-1, 2, 1), (3, -2, 1)] {
        let spread = format!("f32[32,5] pad(x, zero), padding={low}_{high}_1x0_0{cut}");
        receives(&with_rows(16, &spread), |_| halo * 20);
    }
}

/// Values that are combined by `OP` in bins, of which some are outside.
const BINS: &str = "HloModule bins, num_partitions={N}
combine { a = TYPE[] parameter(0)
    b = TYPE[] parameter(1)
    ROOT c = TYPE[] OP(a, b) }
ENTRY main { start = TYPE[7,3] parameter(0), sharding={replicated}
    bins = s32[ROWS,1] parameter(1), sharding={devices=[{N},1]<=[{N}]}
    values = TYPE[ROWS,3] parameter(2), sharding={devices=[{N},1]<=[{N}]}
    ROOT made = TYPE[7,3] scatter(start, bins, values), update_window_dims={1}, inserted_window_dims={0},
        scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=combineTHEN }";

#[test]
fn updates_stay_where_they_are() {
    let bins = 4 * 7 * 3;
    for rows in ["64", "61"] {
        for (element, op) in [
            ("f32", "add"),
            ("f32", "maximum"),
            ("s32", "minimum"),
            ("s32", "multiply"),
            ("u32", "or"),
        ] {
            let text = BINS.replace("ROWS", rows).replace("TYPE", element);
            let text = text.replace("OP", op);
            // Each device's bins are combined.
            receives(&text.replace("THEN", ", sharding={replicated}"), |_| {
                2 * bins
            });
            let cut = ", sharding={devices=[{N},1]<=[{N}]}";
            receives(&text.replace("THEN", cut), |_| 2 * bins);
        }
    }
}

#[test]
fn axes_change_places() {
    let text = "HloModule axes, num_partitions=8
    ENTRY main { x = f32[16,16] parameter(0), sharding={devices=[2,4]<=[8]}
        exchanged = f32[16,16] copy(x), sharding={devices=[4,2]<=[2,4]T(1,0)}
        columns = f32[16,16] copy(exchanged), sharding={devices=[1,8]<=[8]}
        ROOT rows = f32[16,16] copy(columns), sharding={devices=[8,1]<=[2,4]T(1,0)} }";
    let part = 4 * 16 * 16 / 8;
    // Half of a part, three quarters of one, and seven eighths change places; twice parts move.
    let most = part / 2 + part + part * 3 / 4 + part * 7 / 8 + part;
    let bytes = exchanged(text, 8, false);
    assert!(bytes <= most, "{bytes} bytes, expected at most {most}");
}

#[test]
fn statements_that_do_not_fit_are_told() {
    let refused = |text: &str| {
        let module = tegula_ir::parse_module(text).expect("a module");
        let options = tegula_partition::Options {
            devices: Some(4),
            ..tegula_partition::Options::default()
        };
        let refused = partition(&module, &options).map(|_| ());
        refused.expect_err("it does not fit").to_string()
    };
    let stated = |head: &str, sharding: &str| {
        format!("HloModule m{head}\nENTRY e {{ ROOT x = f32[8] parameter(0){sharding} }}")
    };
    assert_eq!(
        refused(&stated(
            ", num_partitions=4",
            ", sharding={maximal device=9}"
        )),
        "`x`: the sharding {maximal device=9} does not fit: expected a device from 0 to 3, found 9"
    );
    assert_eq!(
        refused(&stated(", num_partitions=-3", "")),
        "num_partitions=-3: expected a positive number of devices"
    );
}
