//! The C header of an object.

use super::{Check, GivenSizes, OTHER_WEIGHTS, ObjectOptions};
use std::fmt::Write;
use tegula_ir::{ALIGNMENT, ArrayShape, Dim, ElementType, display_term};
use tegula_plan::Plan;

/// The header's text.
pub(super) fn write(
    plan: &Plan,
    options: &ObjectOptions,
    (open, checks): (&GivenSizes, &[Check]),
    (arena, custom): (Option<i64>, &[String]),
    weights: Option<usize>,
) -> String {
    let mut header = Header {
        plan,
        open,
        name: &options.name,
        arena,
        weights,
        text: String::new(),
    };
    let sizes = header.sizes();
    let arrays = header.arrays(&options.parameters);
    header.head(&arrays);
    header.plain_interface();
    header.custom_calls(custom);
    header.messages(checks, custom);
    header.typed_function(&sizes, &arrays);
    header.text
}

/// A parameter or a result.
struct Array {
    name: String,
    shape: ArrayShape,
    is_result: bool,
}

struct Header<'a> {
    plan: &'a Plan,
    open: &'a GivenSizes,
    name: &'a str,
    /// The bytes of the arena, if they depend on no size.
    arena: Option<i64>,
    /// The bytes of the file of constants, if there is one.
    weights: Option<usize>,
    text: String,
}

/// Keywords of C and C++, names that included headers declare, and the header's own argument names.
#[rustfmt::skip]
const TAKEN: &[&str] = &[
    "NULL", "alignas", "alignof", "and", "and_eq", "arena", "asm", "auto", "bitand", "bitor", "bool", "break", "case",
    "catch", "char", "char16_t", "char32_t", "char8_t", "class", "co_await", "co_return", "co_yield", "compl",
    "concept", "const", "const_cast", "consteval", "constexpr", "constinit", "continue", "decltype", "default",
    "delete", "do", "double", "dynamic_cast", "else", "enum", "errno", "explicit", "export", "extern", "false",
    "float", "for", "friend", "goto", "if", "inline", "int", "int16_t", "int32_t", "int64_t", "int8_t", "linux",
    "long", "main", "memcmp", "memcpy", "memmove", "memset", "mutable", "namespace", "new", "noexcept", "not",
    "not_eq", "nullptr", "operator", "or", "or_eq", "parameters", "private", "protected", "public", "register",
    "reinterpret_cast", "requires", "restrict", "results", "return", "short", "signed", "size_t", "sizeof", "sizes",
    "static", "static_assert", "static_cast", "struct", "switch", "template", "this", "thread_local", "throw", "true",
    "try", "typedef", "typeid", "typename", "typeof", "uint16_t", "uint32_t", "uint64_t", "uint8_t", "union", "unix",
    "unsigned", "using", "virtual", "void", "volatile", "wchar_t", "weights", "while", "xor", "xor_eq",
];

/// Whether a name has a meaning in C or C++ already.
pub(super) fn is_taken(name: &str) -> bool {
    TAKEN.contains(&name)
}

/// The suffixes of the macros' names.
const MACROS: [&str; 7] = [
    "PARAMETERS",
    "RESULTS",
    "SIZES",
    "ARENA_ALIGNMENT",
    "ARENA_BYTES",
    "WEIGHTS_BYTES",
    "WEIGHTS_ALIGNMENT",
];

/// The prefix of a program's macros: its name in capitals. A name that has capitals already is
/// unchanged, or in lower case if it has capitals only, so that two programs never have the same
/// macros.
fn macro_prefix(name: &str) -> String {
    let has = |is_it: fn(&char) -> bool| name.chars().any(|c| is_it(&c));
    match (has(char::is_ascii_uppercase), has(char::is_ascii_lowercase)) {
        (false, _) => name.to_ascii_uppercase(),
        (true, true) => name.to_owned(),
        (true, false) => name.to_ascii_lowercase(),
    }
}

/// A valid C name that is not used yet.
fn name_in_c(wanted: &str, used: &[String], otherwise: &str) -> String {
    let letters = wanted
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    let mut name: String = letters.collect();
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic());
    if !starts_well || is_taken(&name) {
        name = otherwise.to_owned();
    }
    // Another name may be the same.
    while used.contains(&name) {
        name.push('_');
    }
    name
}

/// The type of an array's elements.
fn c_type(ty: ElementType) -> &'static str {
    match ty {
        ElementType::F32 | ElementType::C64 => "float",
        ElementType::F64 | ElementType::C128 => "double",
        ElementType::S8 => "int8_t",
        ElementType::S16 => "int16_t",
        ElementType::S32 => "int32_t",
        ElementType::S64 => "int64_t",
        _ => match ty.storage_bytes() {
            1 => "uint8_t",
            2 => "uint16_t",
            4 => "uint32_t",
            _ => "uint64_t",
        },
    }
}

impl Header<'_> {
    fn line(&mut self, text: impl AsRef<str>) {
        self.text.push_str(text.as_ref());
        self.text.push('\n');
    }

    /// The names that the header declares and defines.
    fn own_names(&self) -> Vec<String> {
        let functions = ["", "_call", "_arena_bytes", "_message"];
        let functions = functions.map(|ending| format!("{}{ending}", self.name));
        let macros = MACROS.map(|ending| self.macro_name(ending));
        functions.into_iter().chain(macros).collect()
    }

    /// A macro's name.
    fn macro_name(&self, ending: &str) -> String {
        format!("{}_{ending}", macro_prefix(self.name))
    }

    /// The names of the open sizes in the header.
    fn sizes(&self) -> Vec<String> {
        let mut names = self.own_names();
        let own = names.len();
        for (number, &symbol) in self.open.symbols.iter().enumerate() {
            let symbol = &self.plan.symbols[symbol];
            names.push(name_in_c(&symbol.name, &names, &format!("size{number}")));
        }
        names.split_off(own)
    }

    fn arrays(&self, parameters: &[String]) -> Vec<Array> {
        let mut used = self.sizes();
        used.extend(self.own_names());
        let mut arrays = Vec::new();
        let given = self.plan.parameters.iter().map(|&value| (value, false));
        let gives = self.plan.results.iter().map(|&value| (value, true));
        for (number, (value, is_result)) in given.chain(gives).enumerate() {
            let name = match is_result {
                false => {
                    let wanted = parameters.get(number).map_or("", String::as_str);
                    name_in_c(wanted, &used, &format!("p{number}"))
                }
                true => {
                    let number = number - self.plan.parameters.len();
                    name_in_c(&format!("out{number}"), &used, &format!("result_{number}_"))
                }
            };
            used.push(name.clone());
            arrays.push(Array {
                name,
                shape: self.plan.values[value].shape.clone(),
                is_result,
            });
        }
        arrays
    }

    /// An array's type and sizes, for readers of the header.
    fn described(&self, shape: &ArrayShape) -> String {
        let dims = shape.dims.iter().map(|dim| match dim {
            Dim::Static(size) => size.to_string(),
            dim => display_term(&dim.term(), &self.plan.symbols),
        });
        let dims: Vec<String> = dims.collect();
        format!("{}[{}]", shape.element_type, dims.join(", "))
    }

    fn head(&mut self, arrays: &[Array]) {
        let guard = format!("TEGULA_{}_H", macro_prefix(self.name));
        let program = self.plan.name.replace("*/", "* /").replace('\n', " ");
        self.line(format!("/* {program}, compiled by Tegula."));
        self.line(" *");
        self.line(" * Arrays are dense, their last dimension the fastest:");
        for array in arrays {
            let what = match array.is_result {
                true => "result",
                false => "parameter",
            };
            let described = self.described(&array.shape);
            self.line(format!(" *   {what} {}: {described}", array.name));
        }
        self.line(
            " * bf16 and f16 are uint16_t, pred is uint8_t, complex numbers are pairs. Nothing is",
        );
        self.line(
            " * allocated or kept between calls; calls with arenas of their own may run at once.",
        );
        self.line(" */");
        self.line(format!("#ifndef {guard}\n#define {guard}\n"));
        self.line("#include <stddef.h>\n#include <stdint.h>\n");
        self.line("#ifdef __cplusplus\nextern \"C\" {\n#endif\n");
    }

    fn plain_interface(&mut self) {
        let name = self.name;
        let [
            parameters,
            results,
            sizes,
            arena_alignment,
            arena,
            weights,
            weights_alignment,
        ] = MACROS.map(|ending| self.macro_name(ending));
        let counts = [
            (parameters, self.plan.parameters.len()),
            (results, self.plan.results.len()),
            (sizes, self.open.symbols.len()),
        ];
        for (what, count) in counts {
            self.line(format!("#define {what} {count}"));
        }
        self.line("/* Of the arena. */");
        self.line(format!("#define {arena_alignment} {ALIGNMENT}"));
        if let Some(bytes) = self.arena {
            self.line(format!("#define {arena} {bytes}"));
        }
        if let Some(bytes) = self.weights {
            self.line(format!(
                "/* Of the file of constants, which you map or read. Its address is one more parameter,\n \
                 * behind the others; it is not written. */\n\
                 #define {weights} {bytes}\n\
                 #define {weights_alignment} {ALIGNMENT}"
            ));
        }
        let listed = self.sizes();
        let order = match listed.is_empty() {
            true => "NULL: no size is open".to_owned(),
            false => format!("in this order: {}", listed.join(", ")),
        };
        let order = match self.arena {
            None => format!("{order}. -1 if the sizes are too large"),
            Some(_) => order,
        };
        self.line(format!("\n/* The bytes of the arena. `sizes`: {order}. */"));
        self.line(format!("int64_t {name}_arena_bytes(const int64_t *sizes);"));
        self.line(
            "/* Runs the program. Returns 0, or a status that the message function explains. */",
        );
        self.line(format!(
            "int32_t {name}_call(const int64_t *sizes, const void *const *parameters,\n    \
             void *const *results, void *arena);"
        ));
    }

    /// Declares the functions that the user must supply when linking the object.
    fn custom_calls(&mut self, custom: &[String]) {
        if custom.is_empty() {
            return;
        }
        self.line(
            "\n/* Custom calls, which you define: operands and results are flattened, `sizes` are all\n \
             * dimensions of all operands, then of all results, `config` is the call's text. Other\n \
             * results than 0 end the run. */",
        );
        for target in custom {
            self.line(format!(
                "int32_t {target}(const void *const *operands, void *const *results,\n    \
                 const int64_t *sizes, const char *config);"
            ));
        }
    }

    fn messages(&mut self, checks: &[Check], custom: &[String]) {
        let name = self.name;
        self.line("\n/* The message of a status. */");
        self.line(format!(
            "static inline const char *{name}_message(int32_t status) {{"
        ));
        self.line("  switch (status) {");
        self.line("    case 0: return \"\";");
        if self.weights.is_some() {
            self.line(format!(
                "    case {OTHER_WEIGHTS}: return \"the weights are not this program's\";"
            ));
        }
        for (number, check) in checks.iter().enumerate() {
            let text = check.message.escape_default();
            self.line(format!("    case {}: return \"{text}\";", number + 1));
        }
        for (number, target) in custom.iter().enumerate() {
            let status = checks.len() + 1 + number;
            self.line(format!(
                "    case {status}: return \"the custom call {target} failed\";"
            ));
        }
        self.line("    default: return \"unknown status\";\n  }\n}");
    }

    fn typed_function(&mut self, sizes: &[String], arrays: &[Array]) {
        let name = self.name;
        self.line("\n/* The same, with types. */");
        let mut parameters: Vec<String> =
            sizes.iter().map(|size| format!("int64_t {size}")).collect();
        for array in arrays {
            let ty = c_type(array.shape.element_type);
            let constant = if array.is_result { "" } else { "const " };
            parameters.push(format!("{constant}{ty} *{}", array.name));
        }
        if self.weights.is_some() {
            parameters.push("const void *weights".to_owned());
        }
        parameters.push("void *arena".to_owned());
        let separator = ",\n    ";
        let listed = parameters.join(separator);
        self.line(format!("static inline int32_t {name}(\n    {listed}) {{"));
        let weights = self.weights.is_some();
        let list = |is_result: bool| {
            let names = arrays.iter().filter(|array| array.is_result == is_result);
            let names = names.map(|array| array.name.as_str());
            let names: Vec<&str> = match weights && !is_result {
                true => names.chain(["weights"]).collect(),
                false => names.collect(),
            };
            // C has no empty lists.
            if names.is_empty() {
                "NULL".to_owned()
            } else {
                names.join(", ")
            }
        };
        let given = list(false);
        let gives = list(true);
        let open = if sizes.is_empty() {
            "0".to_owned()
        } else {
            sizes.join(", ")
        };
        let mut body = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(body, "  const int64_t sizes[] = {{{open}}};");
        let _ = writeln!(body, "  const void *const parameters[] = {{{given}}};");
        let _ = writeln!(body, "  void *const results[] = {{{gives}}};");
        let _ = write!(
            body,
            "  return {name}_call(sizes, parameters, results, arena);\n}}\n"
        );
        self.line(body);
        self.line("#ifdef __cplusplus\n}\n#endif\n#endif");
    }
}
