//! Emulates AMX on CPUs that lack it, for tests only: each instruction raises an
//! illegal-instruction signal, whose handler decodes it and executes it according to Intel's
//! manual. It is slow.
//!
//! The decoder is independent of the assembler that made the instruction, so that tests cover the
//! machine code and not only its use.

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Register};
use std::cell::RefCell;
use std::sync::Once;

/// Whether tests can use AMX, on the CPU or emulated.
pub(crate) fn is_available() -> bool {
    static INSTALLED: Once = Once::new();
    let here = tegula_target::CpuFeatures::detect();
    let native = here.amx_bf16 && here.amx_int8;
    INSTALLED.call_once(|| {
        if !native {
            install();
        }
    });
    is_x86_feature_detected!("avx512f")
}

/// A thread's registers. They have the only supported configuration, 16 rows of 64 bytes, or none.
struct State {
    configured: bool,
    registers: [[[u8; 64]; 16]; 8],
}

thread_local! {
    static STATE: RefCell<State> = const {
        RefCell::new(State { configured: false, registers: [[[0; 64]; 16]; 8] })
    };
}

fn install() {
    // Initialises the decoder's tables, so that the signal handler does not have to.
    let _ = Decoder::new(64, &[0x90], DecoderOptions::NONE).decode();
    // SAFETY: the handler has the signature that `SA_SIGINFO` asks for.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_illegal as *const () as usize;
        // The handler runs on the thread's own stack: an alternate stack would be too small for the
        // registers.
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGILL, &raw const action, std::ptr::null_mut());
    }
}

/// Executes the instruction and continues after it; an instruction outside of AMX ends the process.
///
/// # Safety
/// The kernel calls it, in a thread whose instruction it is.
unsafe extern "C" fn on_illegal(
    _: libc::c_int,
    _: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the context is the interrupted thread's, whose next bytes are code.
    unsafe {
        let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        let at = registers[libc::REG_RIP as usize];
        let bytes = std::slice::from_raw_parts(at as *const u8, 15);
        let instruction = Decoder::new(64, bytes, DecoderOptions::NONE).decode();
        let value = |register| match register {
            // Segment bases are zero.
            Register::None | Register::DS | Register::ES | Register::CS | Register::SS => Some(0),
            _ => Some(registers[number(register)?] as u64),
        };
        let address = match instruction.op_count() {
            0 => Some(0),
            _ => instruction.virtual_address(
                u32::from(instruction.op0_register() != Register::None),
                0,
                |register, _, _| value(register),
            ),
        };
        let place = address.unwrap_or(0) as *mut u8;
        let done = STATE.with_borrow_mut(|state| state.run(&instruction, place, &value));
        if done.is_none() {
            libc::abort();
        }
        registers[libc::REG_RIP as usize] += instruction.len() as i64;
    }
}

/// The index of a general-purpose register in a signal's context.
fn number(register: Register) -> Option<usize> {
    let number = match register {
        Register::RAX => libc::REG_RAX,
        Register::RBX => libc::REG_RBX,
        Register::RCX => libc::REG_RCX,
        Register::RDX => libc::REG_RDX,
        Register::RSI => libc::REG_RSI,
        Register::RDI => libc::REG_RDI,
        Register::RBP => libc::REG_RBP,
        Register::RSP => libc::REG_RSP,
        Register::R8 => libc::REG_R8,
        Register::R9 => libc::REG_R9,
        Register::R10 => libc::REG_R10,
        Register::R11 => libc::REG_R11,
        Register::R12 => libc::REG_R12,
        Register::R13 => libc::REG_R13,
        Register::R14 => libc::REG_R14,
        Register::R15 => libc::REG_R15,
        _ => return None,
    };
    Some(number as usize)
}

impl State {
    /// Executes an instruction; `None` if it is not an AMX instruction, or needs a missing
    /// configuration.
    ///
    /// # Safety
    /// The memory at the address is as long as what the instruction reads or writes.
    unsafe fn run(
        &mut self,
        instruction: &Instruction,
        place: *mut u8,
        value: &dyn Fn(Register) -> Option<u64>,
    ) -> Option<()> {
        let tile = |operand: u32| {
            let register = instruction.op_register(operand);
            (register as usize).checked_sub(Register::TMM0 as usize)
        };
        // The base address is that of the first row; the index register holds the distance of rows.
        let row = |row: usize| -> Option<*mut u8> {
            let distance = value(instruction.memory_index())? as isize;
            let distance = distance * instruction.memory_index_scale() as isize;
            Some(place.wrapping_offset(row as isize * distance))
        };
        let code = instruction.code();
        match code {
            Code::VEX_Ldtilecfg_m512 => {
                let mut expected = [0; 64];
                expected[0] = 1;
                expected[48..56].fill(16);
                for register in 0..8 {
                    expected[16 + 2 * register] = 64;
                }
                // SAFETY: the caller promises that the memory at the address is as long as the
                // instruction reads.
                let given = unsafe { place.cast::<[u8; 64]>().read_unaligned() };
                self.registers = [[[0; 64]; 16]; 8];
                self.configured = given == expected;
                return self.configured.then_some(());
            }
            Code::VEX_Tilerelease => {
                self.configured = false;
                return Some(());
            }
            _ if !self.configured => return None,
            Code::VEX_Tilezero_tmm => self.registers[tile(0)?] = [[0; 64]; 16],
            Code::VEX_Tileloadd_tmm_sibmem => {
                for (i, to) in self.registers[tile(0)?].iter_mut().enumerate() {
                    // SAFETY: the caller promises that the memory at the address is as long as the
                    // instruction reads or writes.
                    *to = unsafe { row(i)?.cast::<[u8; 64]>().read_unaligned() };
                }
            }
            Code::VEX_Tilestored_sibmem_tmm => {
                for (i, from) in self.registers[tile(1)?].iter().enumerate() {
                    // SAFETY: the caller promises that the memory at the address is as long as the
                    // instruction reads or writes.
                    unsafe { row(i)?.cast::<[u8; 64]>().write_unaligned(*from) };
                }
            }
            Code::VEX_Tdpbf16ps_tmm_tmm_tmm
            | Code::VEX_Tdpbssd_tmm_tmm_tmm
            | Code::VEX_Tdpbusd_tmm_tmm_tmm => {
                let (left, right) = (self.registers[tile(1)?], self.registers[tile(2)?]);
                let sums = &mut self.registers[tile(0)?];
                for (sums, left) in sums.iter_mut().zip(&left) {
                    multiply(code, sums, left, &right);
                }
            }
            _ => return None,
        }
        Some(())
    }
}

/// Adds the product of a row of the left register and the right register to a row of sums.
fn multiply(code: Code, sums: &mut [u8; 64], left: &[u8; 64], right: &[[u8; 64]; 16]) {
    let unit = |row: &[u8; 64], i: usize| [0, 1, 2, 3].map(|b| row[4 * i + b]);
    for n in 0..16 {
        let before = unit(sums, n);
        let after = if code == Code::VEX_Tdpbf16ps_tmm_tmm_tmm {
            // Each half of a pair has its own sum; each product is fused with its addition.
            let mut halves = [0f32; 2];
            for (k, right) in right.iter().enumerate() {
                let (left, right) = (unit(left, k), unit(right, n));
                for (h, half) in halves.iter_mut().enumerate() {
                    let [a, b] = [left, right].map(|u| bf16([u[2 * h], u[2 * h + 1]]));
                    *half = flushed(a.mul_add(b, *half));
                }
            }
            let sum = flushed(f32::from_le_bytes(before)) + flushed(halves[0] + halves[1]);
            flushed(sum).to_le_bytes()
        } else {
            let number = |byte: u8| match code {
                Code::VEX_Tdpbssd_tmm_tmm_tmm => i32::from(byte as i8),
                _ => i32::from(byte),
            };
            let mut sum = i32::from_le_bytes(before);
            for (k, right) in right.iter().enumerate() {
                for (a, b) in unit(left, k).into_iter().zip(unit(right, n)) {
                    sum = sum.wrapping_add(number(a) * i32::from(b as i8));
                }
            }
            sum.to_le_bytes()
        };
        sums[4 * n..4 * n + 4].copy_from_slice(&after);
    }
}

fn bf16(bytes: [u8; 2]) -> f32 {
    flushed(half::bf16::from_le_bytes(bytes).to_f32())
}

/// Flushes subnormal operands and results to zero.
fn flushed(x: f32) -> f32 {
    match x.is_subnormal() {
        true => 0f32.copysign(x),
        false => x,
    }
}
