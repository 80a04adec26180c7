pub(crate) mod fft;
pub(crate) mod gemm;
pub(crate) mod microkernels;
pub(crate) mod thread_pool;
