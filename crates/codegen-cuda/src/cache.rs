//! An on-disk cache of programs compiled by NVRTC, in the folder that `TEGULA_CACHE` names or in
//! the user's cache folder. If the cache cannot be used, programs are compiled each time; that is
//! not an error.

use crate::error::Error;
use crate::nvrtc::{Arch, Compiler, Form};
use tegula_compile_cache::{Cache, Environment, Key};

/// Compiles a source, or returns the cached result of an earlier compilation.
///
/// # Errors
/// As [`Compiler::compile`].
pub(crate) fn compile(
    compiler: &Compiler,
    source: &str,
    arch: Arch,
    form: Form,
) -> Result<Vec<u8>, Error> {
    let cache = Cache::from_environment().and_then(Environment::or_of_user);
    let cache = cache.unwrap_or_else(|error| {
        tracing::warn!(%error, "compiled programs are not kept");
        None
    });
    let Some(cache) = cache else {
        return compiler.compile(source, arch, form);
    };
    let (major, minor) = compiler.version();
    let options = Compiler::options(arch, form).join(" ");
    let by = format!("nvrtc {major}.{minor}");
    let key = Key::of([by.as_bytes(), options.as_bytes(), source.as_bytes()]);
    if let Some(found) = cache.get_hashed(&key).filter(|found| !found.is_empty()) {
        tracing::debug!("found in the cache");
        return Ok(found);
    }
    let compiled = compiler.compile(source, arch, form)?;
    cache.put_hashed(&key, &compiled);
    Ok(compiled)
}
