//! Makes CPUs fetch instructions again from memory that was written.

/// Ensures that every thread of the process executes what was written to some memory.
///
/// On x86-64 the hardware ensures this. AArch64 has caches of instructions and of data that are not
/// coherent: data lines are written back and instruction lines invalidated, on all cores, as
/// described in the architecture's manual ("Synchronization and coherency issues between data and
/// instruction accesses"). Other threads discard instructions that they have already fetched when
/// the system interrupts them, which Linux does on request.
#[cfg(target_arch = "aarch64")]
pub(super) fn forget(memory: &[u8]) {
    use std::arch::asm;

    let types: u64;
    // SAFETY: systems let programs read this register, and reading it changes nothing.
    unsafe {
        asm!("mrs {}, ctr_el0", out(reg) types, options(nomem, nostack, preserves_flags));
    }
    // The smallest lines of data and of instructions, in words of four bytes.
    let lines = [types >> 16 & 15, types & 15].map(|log| 4usize << log);
    let range = memory.as_ptr_range();
    let (start, end) = (range.start.addr(), range.end.addr());
    for line in (start - start % lines[0]..end).step_by(lines[0]) {
        // SAFETY: the line belongs to the memory; writing it back changes no value.
        unsafe { asm!("dc cvau, {}", in(reg) line, options(nostack, preserves_flags)) };
    }
    // SAFETY: waits for the lines to be written.
    unsafe { asm!("dsb ish", options(nostack, preserves_flags)) };
    for line in (start - start % lines[1]..end).step_by(lines[1]) {
        // SAFETY: the line belongs to the memory; it is fetched again when it is executed.
        unsafe { asm!("ic ivau, {}", in(reg) line, options(nostack, preserves_flags)) };
    }
    // SAFETY: waits until no core has the old lines, and makes this core fetch again.
    unsafe { asm!("dsb ish", "isb", options(nostack, preserves_flags)) };
    fetch_anew_everywhere();
}

/// Makes the system interrupt the process's other threads.
#[cfg(all(target_arch = "aarch64", target_os = "linux"))]
fn fetch_anew_everywhere() {
    use std::sync::Once;
    // `linux/membarrier.h`: the command, and the registration that must precede it once.
    const SYNC_CORE: libc::c_int = 1 << 5;
    const REGISTER_SYNC_CORE: libc::c_int = 1 << 6;
    static REGISTERED: Once = Once::new();
    let barrier = |command: libc::c_int| {
        // SAFETY: the call has three numbers as arguments and accesses no memory of this process.
        // Linux before 4.16 rejects it, and has no alternative.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
    };
    REGISTERED.call_once(|| barrier(REGISTER_SYNC_CORE));
    barrier(SYNC_CORE);
}

/// Other systems have no such call.
#[cfg(all(target_arch = "aarch64", not(target_os = "linux")))]
fn fetch_anew_everywhere() {}

/// Ensures that memory is executed as it was written: nothing is necessary.
#[cfg(not(target_arch = "aarch64"))]
pub(super) fn forget(_: &[u8]) {}
