"""Writes src/c_api.rs, src/ffi_api.rs and the tables of their test from public C headers.

    python crates/pjrt/generate_bindings.py FOLDER FFI_HEADER

FOLDER holds pjrt_c_api.h and the headers of the extensions named below, as they lie in
xla/pjrt/c of the XLA repository; FFI_HEADER is xla/ffi/api/c_api.h, which jaxlib ships. Only declarations are taken: what they mean is the header's.
The table of sizes and offsets is what a C compiler says (`cc`), so that the test which holds
the Rust structs against it shares nothing with this reader.
"""

import pathlib
import re
import subprocess
import sys

HEADERS = ["pjrt_c_api.h"] + [
    f"pjrt_c_api_{name}_extension.h"
    for name in ("ffi", "layouts", "memory_descriptions", "custom_partitioner", "shardings")
]
SCALARS = {
    "size_t": "usize", "int": "c_int", "int64_t": "i64", "int32_t": "i32", "uint64_t": "u64",
    "uint32_t": "u32", "uintptr_t": "usize", "intptr_t": "isize", "bool": "bool", "float": "f32",
    "char": "c_char", "void": "c_void",
}
HERE = pathlib.Path(__file__).resolve().parent


def rust_type(text):
    text = re.sub(r"\bstruct\b", "", text)
    stars = text.count("*")
    consts = [bool(re.search(r"\bconst\b", part)) for part in text.split("*")]
    base = re.sub(r"\bconst\b|\*", "", text).strip()
    result = SCALARS.get(base, base)
    for level in range(stars):
        # What is const before star number `level` is what that pointer leads to.
        result = ("*const " if consts[level] else "*mut ") + result
    return result


def declaration(text):
    """The name and type of one declarator without its semicolon."""
    text = " ".join(text.split())
    function = re.match(r"(.*?)\(\*\s*(\w*)\)\s*\((.*)\)$", text)
    if function:
        result, name, arguments = function.groups()
        return name, function_type(result, arguments)
    match = re.match(r"(.*?)(\w+)$", text)
    return match.group(2), rust_type(match.group(1))


def function_type(result, arguments):
    types = []
    # Arguments that are functions themselves have one argument, so no commas.
    for argument in filter(None, (a.strip() for a in arguments.split(","))):
        if "(*" in argument:
            types.append(declaration(argument)[1])
            continue
        bare = argument if argument.endswith("*") else re.sub(r"\b\w+$", "", argument)
        types.append(rust_type(bare if bare.strip() else argument))
    result = rust_type(result.strip())
    tail = "" if result == "c_void" else f" -> {result}"
    return f'Option<unsafe extern "C" fn({", ".join(types)}){tail}>'


def clean(text):
    text = text.replace("\\\n", " ")
    text = re.sub(r"^\s*#.*$", "", text, flags=re.M)
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
    text = text.replace("PJRT_NO_DISCARD", "")
    text = re.sub(r"_(?:PJRT|XLA_FFI)_API_STRUCT_FIELD\(\s*(\w+)\s*\)", r"\1* \1", text)
    text = re.sub(r"(?:PJRT|XLA_FFI)_DEFINE_STRUCT_TRAITS\(\s*(\w+),\s*(\w+)\s*\);", r"@traits \1 \2;", text)
    return re.sub(r'extern "C" \{', "", text)


def emit_struct(out, name, body, functions):
    fields = []
    union = re.search(r"union\s*\{(.*?)\}\s*(\w*);", body, flags=re.S)
    if union:
        members = [declaration(d) for d in union.group(1).split(";") if d.strip()]
        out.append(f"#[repr(C)]\n#[derive(Clone, Copy)]\npub union {name}_Value {{")
        out.extend(f"    pub {rust_name(n)}: {t}," for n, t in members)
        out.append("}\n")
        body = body.replace(union.group(0), f"{name}_Value value;")
    for text in body.split(";"):
        if text.strip():
            field, kind = declaration(text)
            pointed = re.fullmatch(r"\*mut (\w+)", kind)
            if pointed and pointed.group(1) in functions:
                argument, fails = functions[pointed.group(1)]
                kind = f"Option<{'Entry' if fails else 'PlainEntry'}<{argument}>>"
            fields.append((field, kind))
    out.append(f"#[repr(C)]\n#[derive(Clone, Copy)]\npub struct {name} {{")
    out.extend(f"    pub {rust_name(n)}: {t}," for n, t in fields)
    out.append("}\n")
    return [n for n, _ in fields], bool(union)


def rust_name(name):
    return "r#type" if name == "type" else name


def read(headers, prefix):
    """The declarations of headers whose names begin with a prefix."""
    text = "\n".join(clean(header.read_text()) for header in headers)
    text = text.replace("typedef struct PJRT_FFI_Extension", "struct PJRT_FFI_Extension")
    functions = dict(re.findall(
        rf"typedef\s+{prefix}_Error\s*\*\s*(\w+)\(\s*(\w+)\s*\*\s*\w+\s*\);", text))
    plain = dict(re.findall(r"typedef\s+void\s+(\w+)\(\s*(\w+)\s*\*\s*args\s*\);", text))
    out, structs = [], {}
    for match in re.finditer(r"(?:typedef )?enum\s*(\w*)\s*\{(.*?)\}\s*(\w*)\s*;", text, flags=re.S):
        name = match.group(3) or match.group(1)
        if not name:
            continue
        out.append(f"pub type {name} = c_int;")
        value = -1
        for item in filter(None, (i.strip() for i in match.group(2).split(","))):
            label, _, given = (part.strip() for part in item.partition("="))
            value = int(given.rstrip("u"), 0) if given and "<<" not in given else (
                eval(given.replace("u", "")) if given else value + 1)
            out.append(f"pub const {label}: {name} = {value};")
        out.append("")
    for result, name, arguments in re.findall(
        r"typedef\s+([\w ]+\*?)\s*\(\*\s*(\w+)\)\s*\((.*?)\);", text, flags=re.S
    ):
        out.append(f"pub type {name} = {function_type(result, ' '.join(arguments.split()))};")
    out.append("")
    functions = {name: (argument, True) for name, argument in functions.items()}
    functions.update({name: (argument, False) for name, argument in plain.items()})
    pattern = r"(?:typedef )?struct\s+(\w+)\s*\{((?:[^{}]|\{[^{}]*\})*)\}\s*\w*\s*;"
    for match in re.finditer(pattern, text):
        fields, union = emit_struct(out, match.group(1), match.group(2), functions)
        structs[match.group(1)] = (fields, union)
    for name in dict.fromkeys(re.findall(r"typedef struct (\w+)\s+(?:\w+);", text)):
        if name not in structs:
            out.append(f"#[repr(C)]\npub struct {name} {{\n    _opaque: [u8; 0],\n}}\n")
    for name, last in re.findall(r"@traits (\w+) (\w+);", text):
        if name in structs:
            out.append(f"c_struct!({name}, {rust_name(last)});")
    minor = re.search(rf"#define {prefix}_API_MINOR (\d+)", headers[0].read_text()).group(1)
    return out, structs, minor


HEAD = '''//! The structs and functions of PJRT's C API, as its public header declares them.
//!
//! Written by `generate_bindings.py`; `tests/all/layout.txt` has the sizes and offsets that a C
//! compiler gives the same declarations.

#![allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    clippy::missing_safety_doc,
    reason = "names are the header's, which says what they mean"
)]

use std::ffi::{c_char, c_int, c_void};

pub const PJRT_API_MAJOR: c_int = 0;
pub const PJRT_API_MINOR: c_int = MINOR;

/// A function that gives null, or an error which the caller destroys.
pub type Entry<A> = unsafe extern "C" fn(*mut A) -> *mut PJRT_Error;
/// A function that cannot fail.
pub type PlainEntry<A> = unsafe extern "C" fn(*mut A);

/// A struct whose first field says how many bytes of it the caller knows.
///
/// # Safety
/// `Self` is valid when all its bytes are zero, and begins with a `usize`.
pub unsafe trait CStruct: Copy {
    /// Its name.
    const NAME: &'static str;
    /// Its bytes up to the end of the last field.
    const SIZE: usize;
}

pub(crate) const fn size_of_pointee<T>(_: *const T) -> usize {
    size_of::<T>()
}

macro_rules! c_struct {
    ($name:ident, $last:ident) => {
        // SAFETY: integers, floats, truth values, pointers and optional functions, of which
        // zero is a value.
        unsafe impl $crate::c_api::CStruct for $name {
            const NAME: &'static str = stringify!($name);
            const SIZE: usize = {
                let zero = std::mem::MaybeUninit::<Self>::zeroed();
                // SAFETY: nothing is read.
                let last = unsafe { &raw const (*zero.as_ptr()).$last };
                std::mem::offset_of!(Self, $last) + $crate::c_api::size_of_pointee(last)
            };
        }
    };
}

pub(crate) use c_struct;

'''


FFI_HEAD = '''//! The structs and functions of XLA's foreign function interface, as its public header declares
//! them. Written by `generate_bindings.py`.

#![allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    dead_code,
    reason = "names are the header's, which says what they mean"
)]

use crate::c_api::c_struct;
use std::ffi::{c_char, c_int, c_void};

pub const XLA_FFI_API_MAJOR: c_int = 0;
pub const XLA_FFI_API_MINOR: c_int = MINOR;

/// A function that gives null, or an error which the caller destroys.
pub type Entry<A> = unsafe extern "C" fn(*mut A) -> *mut XLA_FFI_Error;
/// A function that cannot fail.
pub type PlainEntry<A> = unsafe extern "C" fn(*mut A);
/// What a function that is called with a pointer is pointed to as.
pub type XLA_FFI_Task = c_void;
/// Bits of `XLA_FFI_Handler_TraitsBits`.
pub type XLA_FFI_Handler_Traits = u32;

'''


def layout(folder, ffi_header, structs):
    """What a C compiler says of sizes and offsets."""
    lines = []
    for name, (fields, union) in structs.items():
        lines.append(f'  printf("{name} %zu\\n", sizeof(struct {name}));')
        # A union without a name in C lies where its first member does.
        for field in fields:
            at = {"PJRT_NamedValue": "string_value", "PJRT_Buffer_MemoryLayout": "tiled"}.get(
                name, field) if union and field == "value" else field
            lines.append(
                f'  printf("{name}.{field} %zu\\n", offsetof(struct {name}, {at}));')
    includes = "".join(f'#include "xla/pjrt/c/{h}"\n' for h in HEADERS)
    includes += f'#include "{ffi_header.resolve()}"\n'
    program = ("#include <stddef.h>\n#include <stdbool.h>\n#include <stdio.h>\n" + includes
               + "int main(void) {\n" + "\n".join(lines) + "\n}\n")
    work = pathlib.Path(subprocess.run(["mktemp", "-d"], capture_output=True, text=True,
                                       check=True).stdout.strip())
    # The headers include each other by their place in the repository.
    place = work / "xla/pjrt/c"
    place.mkdir(parents=True)
    for header in folder.glob("*.h"):
        (place / header.name).write_text(header.read_text())
    (work / "layout.c").write_text(program)
    subprocess.run(["cc", "-w", "-I", work, "-o", work / "layout", work / "layout.c"], check=True)
    return subprocess.run([work / "layout"], capture_output=True, text=True, check=True).stdout


def write(target, head, out, minor):
    target.write_text(head.replace("MINOR;", f"{minor};") + "\n".join(out) + "\n")
    subprocess.run(["rustfmt", "--edition", "2024", target], check=True)


def main():
    folder, ffi_header = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    out, structs, minor = read([folder / name for name in HEADERS], "PJRT")
    write(HERE / "src/c_api.rs", HEAD, out, minor)
    out, ffi_structs, minor = read([ffi_header], "XLA_FFI")
    write(HERE / "src/ffi_api.rs", FFI_HEAD, out, minor)
    structs.update(ffi_structs)
    rows = [f"    rows!(rows, {name}: {', '.join(map(rust_name, fields))});"
            for name, (fields, _) in structs.items()]
    (HERE / "tests/all").mkdir(parents=True, exist_ok=True)
    (HERE / "tests/all/layout_rows.rs").write_text(
        "//! Every struct and field of the bindings. Written by `generate_bindings.py`.\n\n"
        "use super::rows;\nuse tegula_pjrt::c_api::*;\nuse tegula_pjrt::ffi_api::*;\n\n"
        "#[rustfmt::skip]\npub(crate) fn rows() -> Vec<(String, usize)> {\n"
        "    let mut rows = Vec::new();\n" + "\n".join(rows) + "\n    rows\n}\n")
    (HERE / "tests/all/layout.txt").write_text(layout(folder, ffi_header, structs))


main()
