#!/usr/bin/env bash
# Builds the explorer's WebAssembly into web/build: explorer_bg.wasm and its JavaScript.
# Needs the Rust target wasm32-unknown-unknown and wasm-bindgen-cli of the version in Cargo.lock.
set -euo pipefail
cd "$(dirname "$0")/.."
version="$(sed -n '/^name = "wasm-bindgen"$/{n;s/version = "\(.*\)"/\1/p}' Cargo.lock)"
if [ "$(wasm-bindgen --version 2> /dev/null)" != "wasm-bindgen $version" ]; then
  echo "the explorer needs wasm-bindgen $version: cargo install wasm-bindgen-cli --version $version" >&2
  exit 3
fi
target="$(scripts/target-folder)/wasm"
# Places of panics say nothing of the machine that built it. 8 MiB of stack: what main threads have.
RUSTFLAGS="--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo --remap-path-prefix=$PWD=tegula -C link-arg=-zstack-size=8388608" \
CARGO_TARGET_DIR="$target" cargo rustc --locked --profile wasm --target wasm32-unknown-unknown \
  --package tegula-explorer --lib --crate-type cdylib
wasm-bindgen --target web --no-typescript --out-dir web/build --out-name explorer \
  "$target/wasm32-unknown-unknown/wasm/tegula_explorer.wasm"
