//! Programs as objects for AArch64, linked by a C compiler for it and run by QEMU.

use std::fmt::Write as _;
use std::io::{self, Error};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tegula::{IsaLevel, ObjectOptions, compile_object};
use tegula_ir::{ArrayShape, Literal, Module};

/// The C compiler, by Debian's name, and its folder of libraries.
const COMPILER: &str = "aarch64-linux-gnu-gcc";
const LIBRARIES: &str = "/usr/aarch64-linux-gnu";
/// QEMU's user-mode emulator.
const EMULATOR: &str = "qemu-aarch64";

/// The missing requirement for running AArch64 programs on this machine; [`None`] if everything is
/// installed.
pub fn missing() -> Option<String> {
    let runs = |name: &str| {
        let mut command = Command::new(name);
        let command = command.arg("--version").stdout(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let missing: Vec<&str> = [COMPILER, EMULATOR]
        .into_iter()
        .filter(|name| !runs(name))
        .collect();
    let library = Path::new(LIBRARIES).join("lib/libc.so.6");
    match (missing.is_empty(), library.exists()) {
        (true, true) => None,
        (true, false) => Some(format!("{} is missing", library.display())),
        (false, _) => Some(format!("{} is missing", missing.join(" and "))),
    }
}

/// How a program fails as an object for AArch64.
#[derive(Debug)]
pub enum Failure {
    /// It cannot be compiled to one.
    Compile(tegula::Error),
    /// It cannot be linked or run.
    Run(String),
    /// It returned a status other than 0.
    Status(i32),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Run(error.to_string())
    }
}

/// A program that was compiled to an object for AArch64 and linked. It has a folder of its own,
/// which is removed when this is dropped.
pub struct Emulated {
    folder: PathBuf,
}

impl Drop for Emulated {
    fn drop(&mut self) {
        // A folder that cannot be removed does no harm.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Emulated {
    /// Compiles and links a program.
    ///
    /// # Errors
    /// The program cannot be an object, or cannot be linked.
    pub fn new(module: &Module, cpu: IsaLevel, name: &str) -> Result<Self, Failure> {
        let object =
            compile_object(module, &ObjectOptions::new("m", cpu)).map_err(Failure::Compile)?;
        let folder = format!("tegula-aarch64-{}-{name}", std::process::id());
        let own = Self {
            folder: std::env::temp_dir().join(folder),
        };
        std::fs::create_dir_all(&own.folder)?;
        own.write("m.o", &object.bytes)?;
        own.write("m.h", object.header.as_bytes())?;
        own.write("main.c", MAIN.as_bytes())?;
        let mut command = Command::new(COMPILER);
        command.args([
            "-std=c11", "-O1", "-Wall", "-Werror", "-o", "main", "main.c", "m.o", "-lm",
        ]);
        own.output(&mut command)?;
        Ok(own)
    }

    /// Runs it, on a CPU of QEMU's that has every extension.
    ///
    /// # Errors
    /// It cannot be run, or returns a status other than 0.
    pub fn run(
        &self,
        sizes: &[i64],
        inputs: &[Literal],
        results: &[ArrayShape],
    ) -> Result<Vec<Literal>, Failure> {
        // The file has the numbers of sizes, parameters and results; the sizes; the number of bytes
        // of each array; the parameters.
        let too_large = || Failure::Run("a result is too large".to_owned());
        let bytes: Option<Vec<i64>> = results.iter().map(ArrayShape::byte_size).collect();
        let results_bytes = bytes.ok_or_else(too_large)?;
        let mut words = vec![
            sizes.len() as i64,
            inputs.len() as i64,
            results.len() as i64,
        ];
        words.extend(sizes);
        words.extend(inputs.iter().map(|input| input.bytes().len() as i64));
        words.extend(&results_bytes);
        let mut given: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        for input in inputs {
            given.extend(input.bytes());
        }
        self.write("given", &given)?;
        let mut command = Command::new(EMULATOR);
        command.args(["-cpu", "max", "-L", LIBRARIES, "./main"]);
        self.output(&mut command)?;
        let gives = std::fs::read(self.folder.join("gives"))?;
        let (status, mut rest) = gives
            .split_first_chunk()
            .ok_or_else(|| Failure::Run("there are no results".to_owned()))?;
        let status = i32::from_le_bytes(*status);
        if status != 0 {
            return Err(Failure::Status(status));
        }
        let mut outputs = Vec::new();
        for (shape, bytes) in results.iter().zip(results_bytes) {
            let short = || Failure::Run("a result is too short".to_owned());
            let (own, behind) = rest.split_at_checked(bytes as usize).ok_or_else(short)?;
            rest = behind;
            let literal = Literal::from_bytes(shape, own);
            outputs.push(literal.map_err(|error| Failure::Run(format!("{error:?}")))?);
        }
        Ok(outputs)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        std::fs::write(self.folder.join(name), bytes)
    }

    /// Runs a command in the folder.
    fn output(&self, command: &mut Command) -> Result<(), Failure> {
        let output = command.current_dir(&self.folder).output()?;
        if output.status.success() {
            return Ok(());
        }
        let mut said = format!("{command:?}: {}\n", output.status);
        // Writing to a string cannot fail.
        let _ = write!(said, "{}", String::from_utf8_lossy(&output.stderr));
        Err(Failure::Run(said))
    }
}

/// The C program that reads arrays from a file, calls the object's function, and writes the
/// results. The initial contents of the arena do not matter.
const MAIN: &str = r#"
#include "m.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t word(FILE *file) {
  int64_t word = 0;
  if (fread(&word, sizeof word, 1, file) != 1) exit(3);
  return word;
}

static void *array(int64_t bytes) {
  void *array = aligned_alloc(64, (bytes + 64) / 64 * 64);
  if (!array) exit(4);
  return array;
}

int main(void) {
  FILE *file = fopen("given", "rb");
  if (!file) return 2;
  int64_t counts[3], sizes[64], bytes[512];
  const void *parameters[256];
  void *results[256];
  for (int i = 0; i < 3; i++) counts[i] = word(file);
  if (counts[0] > 64 || counts[1] > 256 || counts[2] > 256) return 5;
  for (int i = 0; i < counts[0]; i++) sizes[i] = word(file);
  for (int i = 0; i < counts[1] + counts[2]; i++) bytes[i] = word(file);
  for (int i = 0; i < counts[1]; i++) {
    void *parameter = array(bytes[i]);
    if (bytes[i] && fread(parameter, bytes[i], 1, file) != 1) return 6;
    parameters[i] = parameter;
  }
  for (int i = 0; i < counts[2]; i++) results[i] = array(bytes[counts[1] + i]);
  int64_t room = m_arena_bytes(sizes);
  char *arena = aligned_alloc(M_ARENA_ALIGNMENT, room / M_ARENA_ALIGNMENT * M_ARENA_ALIGNMENT + M_ARENA_ALIGNMENT);
  if (!arena) return 7;
  memset(arena, 0xa5, room);
  int32_t status = m_call(sizes, parameters, results, arena);
  FILE *out = fopen("gives", "wb");
  if (!out || fwrite(&status, sizeof status, 1, out) != 1) return 8;
  for (int i = 0; i < counts[2]; i++) {
    int64_t size = bytes[counts[1] + i];
    if (size && fwrite(results[i], size, 1, out) != 1) return 9;
  }
  return fclose(out) != 0;
}
"#;
