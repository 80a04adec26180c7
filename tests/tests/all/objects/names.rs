//! Names of programs, of parameters and of a header's macros.

use super::folder;
use std::process::Command;
use tegula::{ObjectOptions, compile_object};
use tegula_tests::judge::OLDEST;
use tegula_tests::read;

#[test]
fn names_that_c_does_not_take_are_errors() {
    let module = read("HloModule m ENTRY e { ROOT p = f32[2] parameter(0) }").expect("a program");
    for name in ["", "1a", "a-b", "a b", "\u{e9}"] {
        let error = compile_object(&module, &ObjectOptions::new(name, OLDEST));
        let error = error.expect_err("no name").to_string();
        assert!(error.contains("is not a C identifier"), "{error}");
    }
    for name in ["int", "class", "main", "memcpy"] {
        let error = compile_object(&module, &ObjectOptions::new(name, OLDEST));
        let error = error.expect_err("a word of C or C++").to_string();
        assert!(error.contains("is a reserved word"), "{error}");
    }
}

/// Programs whose names differ only in case are called by one C file, and a parameter may have a macro's name.
#[test]
fn names_that_differ_in_case_are_apart() {
    let folder = folder("case");
    std::fs::create_dir_all(&folder).expect("a folder");
    let names = ["model", "Model", "MODEL", "mODEL"];
    let mut arguments = Vec::new();
    let (mut includes, mut calls) = (String::new(), String::new());
    for (number, name) in names.iter().enumerate() {
        let (macros, count) = (["MODEL", "Model", "model", "mODEL"][number], number + 2);
        let text = format!(
            "HloModule m ENTRY e {{ {macros}_SIZES = f32[{count}] parameter(0)
             ROOT r = f32[{count}] negate({macros}_SIZES) }}"
        );
        let module = read(&text).expect("a program");
        let options = ObjectOptions::new(*name, OLDEST);
        let object = compile_object(&module, &options).expect("an object");
        std::fs::write(folder.join(format!("{number}.o")), &object.bytes).expect("written");
        std::fs::write(folder.join(format!("{number}.h")), &object.header).expect("written");
        includes += &format!("#include \"{number}.h\"\n");
        calls += &format!(
            "  {{ _Alignas(64) static char arena[{macros}_ARENA_BYTES + 1];
              float x[] = {{1, 2, 3, 4, 5}}, y[5] = {{0}};
              if ({name}(x, y, arena) || y[{count} - 1] != -{count} || {macros}_PARAMETERS != 1) return {number} + 1; }}\n"
        );
        arguments.push(format!("{number}.o"));
    }
    let program = format!("{includes}int main(void) {{\n{calls}  return 0;\n}}\n");
    std::fs::write(folder.join("main.c"), program).expect("written");
    let mut command = Command::new("cc");
    command.current_dir(&folder);
    command.args([
        "-std=c11", "-Wall", "-Werror", "-o", "main", "main.c", "-lm",
    ]);
    let output = command.args(arguments).output().expect("a C compiler");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let status = Command::new(folder.join("main")).status().expect("it runs");
    assert_eq!(status.code(), Some(0));
    let _ = std::fs::remove_dir_all(folder);
}
