//! Work of streams and graphs: copies, fills, kernels, host functions.

use std::ffi::c_void;
use std::sync::Arc;

use tegula_sim_ptx::Module;

use crate::matrix_product::Product;

/// A function of the host.
pub(crate) type HostFunction = unsafe extern "C" fn(*mut c_void);

/// A unit of work. Host addresses are stored as numbers.
#[derive(Clone)]
pub(crate) enum Work {
    ToDevice {
        to: u64,
        from: usize,
        bytes: usize,
    },
    ToHost {
        to: usize,
        from: u64,
        bytes: usize,
    },
    Within {
        to: u64,
        from: u64,
        bytes: usize,
    },
    Fill {
        to: u64,
        pattern: Vec<u8>,
        count: usize,
    },
    Kernel(Kernel),
    Product(Box<Product>),
    Host {
        function: HostFunction,
        data: usize,
    },
}

/// A launch, with a copy of its parameters.
#[derive(Clone)]
pub(crate) struct Kernel {
    pub(crate) module: Arc<Module>,
    pub(crate) name: String,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) dynamic_shared: u32,
    pub(crate) params: Vec<u8>,
}
