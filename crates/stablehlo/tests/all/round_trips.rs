//! Printed modules read back as the same modules.

use super::{PROGRAMS, data};
use tegula_stablehlo::{Form, InputForm, print, read, text};

#[test]
fn printed_programs_read_back_in_both_forms() {
    for name in PROGRAMS {
        let module = read(data(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        for form in [Form::Pretty, Form::Generic] {
            let printed = print(&module, form);
            let again = read(printed.clone().into_bytes())
                .unwrap_or_else(|error| panic!("{name}: {error}\n{printed}"));
            assert_eq!(print(&again, form), printed, "{name}");
            // The generic form is complete, so it is used to compare modules.
            let (expected, actual) = (print(&module, Form::Generic), print(&again, Form::Generic));
            if form == Form::Generic {
                assert_eq!(actual, expected, "{name}");
            }
        }
    }
}

#[test]
fn every_version_of_vhlo_gives_the_same_program() {
    let printed = |name: &str| print(&read(data(name)).expect(name), Form::Pretty);
    let newest = printed("mixed_newest.mlirbc");
    assert_eq!(printed("mixed_1_0_0.mlirbc"), newest);
    assert_eq!(printed("mixed_1_9_0.mlirbc"), newest);
}

#[test]
fn forms_of_inputs_are_known_by_their_content() {
    let form = |name: &str| InputForm::of(&data(name));
    assert_eq!(form("mixed.mlir"), Some(InputForm::Text));
    assert_eq!(form("mixed_1_0_0.mlirbc"), Some(InputForm::Bytecode));
    assert_eq!(form("symbolic.jaxexport"), Some(InputForm::JaxExport));
    assert_eq!(InputForm::of(b"HloModule m\nENTRY e { }"), None);
    assert_eq!(InputForm::of(b""), None);
}

#[test]
fn attributes_and_types_read_back() {
    for written in [
        "dense<[[1, 2], [-3, 4]]> : tensor<2x2xi32>",
        "dense<true> : tensor<3xi1>",
        "dense<0x7FC00000> : tensor<f32>",
        "dense<[(1.0e+0, -2.5e+0), (0.0e+0, 1.0e+0)]> : tensor<2xcomplex<f32>>",
        "dense<> : tensor<0x4xf32>",
        "dense<[-8, 7]> : tensor<2xi4>",
        "dense<18446744073709551615> : tensor<ui64>",
        "array<i64: 1, 2>",
        "array<i1: true, false>",
        "array<i64>",
        "#stablehlo<precision HIGHEST>",
        "#stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>",
        "#stablehlo.bounds<?, 4>",
        "{a = 1 : i64, b = \"\\0A\\\"\", \"c d\" = [@f, @g::@h]}",
        "1.0e-3 : f64",
        "(tensor<?x3xf32>, !stablehlo.token) -> tuple<i32, index>",
        "#sdy.sharding<@mesh, [{\"x\"}, {}]>",
        "vector<4x[8]xbf16>",
    ] {
        let attribute = text::parse_attribute(written);
        let attribute = attribute.unwrap_or_else(|error| panic!("{written}: {error}"));
        assert_eq!(tegula_stablehlo::attribute_text(&attribute), written);
    }
}

#[test]
fn narrow_floats_are_rounded_to_the_nearest() {
    for (written, bits) in [
        ("1.0 : f16", "0x3C00 : f16"),
        ("65520.0 : f16", "0x7C00 : f16"),
        ("5.960464477539063e-08 : f16", "0x0001 : f16"),
        ("1.0 : bf16", "0x3F80 : bf16"),
        ("449.0 : f8E4M3FN", "0x7E : f8E4M3FN"),
        ("-0.0 : f8E4M3FNUZ", "0x00 : f8E4M3FNUZ"),
        ("3.0 : f4E2M1FN", "0x5 : f4E2M1FN"),
        ("7.0 : f4E2M1FN", "0x7 : f4E2M1FN"),
    ] {
        let read = |text: &str| text::parse_attribute(text).expect(text);
        assert_eq!(read(written), read(bits), "{written}");
    }
}
