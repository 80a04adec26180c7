//! DLPack import and export of tensors. DLPack is a set of C structures with which Python's array
//! libraries exchange arrays without copying them.
//!
//! The memory layout is that of `dlpack.h`, version 1.1 (<https://github.com/dmlc/dlpack>), in both
//! forms: the versioned one, and the older one without version and flags.

use crate::{ArrayShape, Error, ErrorKind, Literal, Tensor};
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use tegula_ir::ElementType;

/// The device whose memory holds an array. [`kind`](Self::kind) 1 is the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct DLDevice {
    /// `DLDeviceType`.
    pub kind: i32,
    /// The number of the device among those of its kind.
    pub id: i32,
}

/// The type of an array's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct DLDataType {
    /// `DLDataTypeCode`.
    pub code: u8,
    /// Bits of an element.
    pub bits: u8,
    /// The number of vector lanes of an element; 1 for a scalar.
    pub lanes: u16,
}

/// An array.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DLTensor {
    /// The address of the memory.
    pub data: *mut c_void,
    /// The device of the memory.
    pub device: DLDevice,
    /// The number of dimensions.
    pub ndim: i32,
    /// The type of the elements.
    pub dtype: DLDataType,
    /// The size of each dimension.
    pub shape: *mut i64,
    /// For each dimension, the distance in elements from one index to the next; null for a
    /// row-major array.
    pub strides: *mut i64,
    /// The number of bytes from `data` to the first element.
    pub byte_offset: u64,
}

/// An array with its owner, in the form without a version.
#[derive(Debug)]
#[repr(C)]
pub struct DLManagedTensor {
    /// The array.
    pub tensor: DLTensor,
    /// Data of the owner.
    pub context: *mut c_void,
    /// The receiver calls this once, when it no longer needs the array.
    pub deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

/// The version of the structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct DLPackVersion {
    /// Structures with different major versions are incompatible.
    pub major: u32,
    /// Larger minor versions add types and flags.
    pub minor: u32,
}

/// An array with its owner.
#[derive(Debug)]
#[repr(C)]
pub struct DLManagedTensorVersioned {
    /// The version.
    pub version: DLPackVersion,
    /// Data of the owner.
    pub context: *mut c_void,
    /// The receiver calls this once, when it no longer needs the array.
    pub deleter: Option<unsafe extern "C" fn(*mut Self)>,
    /// Bit 0: the array must not be written.
    pub flags: u64,
    /// The array.
    pub tensor: DLTensor,
}

/// The version of exported arrays. Imported arrays must have the same major version.
pub const VERSION: DLPackVersion = DLPackVersion { major: 1, minor: 1 };

/// `kDLCPU`, and `kDLCUDAHost`, which the CPU can read as well.
const CPU: i32 = 1;
const CUDA_HOST: i32 = 3;

/// The element types that Tegula and DLPack share: `DLDataTypeCode` and bits. Types narrower than a
/// byte are not included, because DLPack packs several elements into a byte.
const TYPES: [(ElementType, u8, u8); 23] = [
    (ElementType::Pred, 6, 8),
    (ElementType::S8, 0, 8),
    (ElementType::S16, 0, 16),
    (ElementType::S32, 0, 32),
    (ElementType::S64, 0, 64),
    (ElementType::U8, 1, 8),
    (ElementType::U16, 1, 16),
    (ElementType::U32, 1, 32),
    (ElementType::U64, 1, 64),
    (ElementType::F16, 2, 16),
    (ElementType::F32, 2, 32),
    (ElementType::F64, 2, 64),
    (ElementType::BF16, 4, 16),
    (ElementType::C64, 5, 64),
    (ElementType::C128, 5, 128),
    (ElementType::F8E3M4, 7, 8),
    (ElementType::F8E4M3, 8, 8),
    (ElementType::F8E4M3B11FNUZ, 9, 8),
    (ElementType::F8E4M3FN, 10, 8),
    (ElementType::F8E4M3FNUZ, 11, 8),
    (ElementType::F8E5M2, 12, 8),
    (ElementType::F8E5M2FNUZ, 13, 8),
    (ElementType::F8E8M0FNU, 14, 8),
];

/// The data that an exported array keeps alive.
struct Exported {
    _literal: Literal,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

/// The deleter of arrays from [`Tensor::into_dlpack`]: frees the array and its data.
unsafe extern "C" fn delete(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: the receiver calls this once, with the pointer that it received; `into_dlpack` made
    // both boxes.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Exported>()));
    }
}

/// As [`delete`], for the form without a version.
unsafe extern "C" fn delete_unversioned(managed: *mut DLManagedTensor) {
    // SAFETY: the receiver calls this once, with the pointer that it received;
    // `into_dlpack_unversioned` made both boxes.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Exported>()));
    }
}

/// An array that another library owns.
enum Imported {
    Versioned(NonNull<DLManagedTensorVersioned>),
    Unversioned(NonNull<DLManagedTensor>),
}

impl Imported {
    fn tensor(&self) -> &DLTensor {
        // SAFETY: the caller of `from_dlpack` promised an array that is valid until its deleter is
        // called, and only `drop` calls that.
        unsafe {
            match self {
                Self::Versioned(managed) => &managed.as_ref().tensor,
                Self::Unversioned(managed) => &managed.as_ref().tensor,
            }
        }
    }
}

impl Drop for Imported {
    fn drop(&mut self) {
        // SAFETY: only this value has the array, and nothing uses the array afterwards.
        unsafe {
            match self {
                Self::Versioned(managed) => {
                    if let Some(deleter) = managed.as_ref().deleter {
                        deleter(managed.as_ptr());
                    }
                }
                Self::Unversioned(managed) => {
                    if let Some(deleter) = managed.as_ref().deleter {
                        deleter(managed.as_ptr());
                    }
                }
            }
        }
    }
}

/// The bytes of an imported row-major array.
struct ImportedBytes {
    imported: Imported,
    len: usize,
}

// SAFETY: the array is only read, and DLPack allows any thread to call a deleter.
unsafe impl Send for ImportedBytes {}
// SAFETY: the array is only read.
unsafe impl Sync for ImportedBytes {}

impl AsRef<[u8]> for ImportedBytes {
    fn as_ref(&self) -> &[u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: `imported` has checked that the array is row-major and has `len` bytes; the
        // caller of `from_dlpack` promised that they can be read.
        unsafe { std::slice::from_raw_parts(first(self.imported.tensor()), self.len) }
    }
}

/// The address of the first element.
fn first(tensor: &DLTensor) -> *const u8 {
    let offset = usize::try_from(tensor.byte_offset).unwrap_or(0);
    tensor.data.cast::<u8>().wrapping_add(offset).cast_const()
}

impl Tensor {
    /// Exports the array by DLPack. The memory is the tensor's own. It is copied only if a clone of
    /// the tensor shares it, or if the array is not row-major. The receiver calls the deleter.
    ///
    /// ```
    /// use tegula::Tensor;
    ///
    /// let tensor = Tensor::from_slice(&[2, 2], &[1.0_f32, 2.0, 3.0, 4.0])?;
    /// let given = tensor.into_dlpack()?;
    /// // SAFETY: it is a valid array that nobody else has.
    /// let back = unsafe { Tensor::from_dlpack(given) }?;
    /// assert_eq!(back.as_slice::<f32>(), Some(&[1.0, 2.0, 3.0, 4.0][..]));
    /// # Ok::<(), tegula::Error>(())
    /// ```
    ///
    /// # Errors
    /// DLPack does not have the element type, or packs several elements of it into a byte.
    pub fn into_dlpack(self) -> Result<NonNull<DLManagedTensorVersioned>, Error> {
        let (tensor, exported) = export(self)?;
        let managed = DLManagedTensorVersioned {
            version: VERSION,
            context: Box::into_raw(exported).cast(),
            deleter: Some(delete),
            flags: 0,
            tensor,
        };
        Ok(NonNull::from(Box::leak(Box::new(managed))))
    }

    /// As [`Self::into_dlpack`], in the form without a version.
    ///
    /// # Errors
    /// As [`Self::into_dlpack`].
    pub fn into_dlpack_unversioned(self) -> Result<NonNull<DLManagedTensor>, Error> {
        let (tensor, exported) = export(self)?;
        let managed = DLManagedTensor {
            tensor,
            context: Box::into_raw(exported).cast(),
            deleter: Some(delete_unversioned),
        };
        Ok(NonNull::from(Box::leak(Box::new(managed))))
    }

    /// Imports an array by DLPack. A row-major array in the CPU's memory is not copied; its deleter
    /// is called when the last clone of the tensor is dropped.
    ///
    /// # Safety
    /// `managed` is a valid array that is passed to this call only, and nobody writes to its memory
    /// while the tensor or a clone of it exists.
    ///
    /// # Errors
    /// Another major version, memory that the CPU cannot read, an element type that Tegula does not
    /// have, invalid sizes. The deleter is called in these cases, too.
    pub unsafe fn from_dlpack(managed: NonNull<DLManagedTensorVersioned>) -> Result<Self, Error> {
        // SAFETY: the caller promises a valid array, which begins with its version.
        let version = unsafe { managed.as_ref() }.version;
        let imported = Imported::Versioned(managed);
        if version.major != VERSION.major {
            // In an array of another major version, only the position of the deleter is known.
            let message = format!(
                "expected an array of DLPack {}, got one of {}.{}",
                VERSION.major, version.major, version.minor
            );
            return Err(unsupported(message));
        }
        import(imported)
    }

    /// As [`Self::from_dlpack`], for the form without a version.
    ///
    /// # Safety
    /// As [`Self::from_dlpack`].
    ///
    /// # Errors
    /// As [`Self::from_dlpack`].
    pub unsafe fn from_dlpack_unversioned(
        managed: NonNull<DLManagedTensor>,
    ) -> Result<Self, Error> {
        import(Imported::Unversioned(managed))
    }
}

fn unsupported(message: String) -> Error {
    Error::new(ErrorKind::Unsupported, message)
}

fn export(tensor: Tensor) -> Result<(DLTensor, Box<Exported>), Error> {
    let mut literal = tensor.into_literal();
    let element_type = literal.element_type();
    let known = TYPES.iter().find(|known| known.0 == element_type);
    let &(_, code, bits) =
        known.ok_or_else(|| unsupported(format!("DLPack has no elements of {element_type}")))?;
    let shape = literal.shape().static_dims().unwrap_or_default().to_vec();
    let mut strides = vec![1; shape.len()];
    for dimension in (1..shape.len()).rev() {
        strides[dimension - 1] = strides[dimension] * shape[dimension].max(1);
    }
    // The receiver of the array may write to it.
    let data = match literal.len() {
        0 => ptr::null_mut(),
        _ => literal.bytes_mut().as_mut_ptr(),
    };
    let mut exported = Box::new(Exported {
        _literal: literal,
        shape,
        strides,
    });
    let tensor = DLTensor {
        data: data.cast(),
        device: DLDevice { kind: CPU, id: 0 },
        ndim: exported.shape.len() as i32,
        dtype: DLDataType {
            code,
            bits,
            lanes: 1,
        },
        shape: exported.shape.as_mut_ptr(),
        strides: exported.strides.as_mut_ptr(),
        byte_offset: 0,
    };
    Ok((tensor, exported))
}

fn import(imported: Imported) -> Result<Tensor, Error> {
    let tensor = *imported.tensor();
    if !matches!(tensor.device.kind, CPU | CUDA_HOST) {
        let kind = tensor.device.kind;
        let message = format!("the array is on a device of kind {kind}: copy it to the CPU first");
        return Err(unsupported(message));
    }
    let DLDataType { code, bits, lanes } = tensor.dtype;
    let known = TYPES
        .iter()
        .find(|known| (known.1, known.2) == (code, bits));
    let Some(&(element_type, ..)) = known.filter(|_| lanes == 1) else {
        let message = format!("elements of DLPack's type {code} with {bits} bits, {lanes} lanes");
        return Err(unsupported(message));
    };
    let rank = usize::try_from(tensor.ndim).unwrap_or(0);
    // SAFETY: the caller promised a valid array, which has `rank` sizes and, unless null, `rank`
    // strides.
    let (dims, strides) = unsafe { (list(tensor.shape, rank), list(tensor.strides, rank)) };
    let shape = ArrayShape::new(element_type, dims);
    let size = element_type.storage_bytes();
    let bytes = shape
        .byte_size()
        .and_then(|bytes| usize::try_from(bytes).ok());
    let bytes = bytes.ok_or_else(|| {
        Error::new(
            ErrorKind::Input,
            "the sizes of the array do not fit in memory",
        )
    })?;
    if bytes > 0 && first(&tensor).is_null() {
        return Err(Error::new(ErrorKind::Input, "the array has no memory"));
    }
    if strides.is_empty() || is_row_major(dims, strides) {
        let source = ImportedBytes {
            imported,
            len: bytes,
        };
        return Ok(Literal::from_shared(&shape, source)?.into());
    }
    let mut literal = Literal::zeros(&shape)?;
    // SAFETY: the caller promised that every element can be read; the literal has as many elements.
    unsafe { gather(literal.bytes_mut(), first(&tensor), (dims, strides), size) };
    Ok(literal.into())
}

/// # Safety
/// The address is null, or that of `count` numbers.
unsafe fn list<'a>(start: *const i64, count: usize) -> &'a [i64] {
    match start.is_null() || count == 0 {
        true => &[],
        // SAFETY: the caller promises `count` numbers at this address.
        false => unsafe { std::slice::from_raw_parts(start, count) },
    }
}

/// Whether an array with these strides is row-major. The strides of dimensions of size 1 do not
/// matter.
fn is_row_major(dims: &[i64], strides: &[i64]) -> bool {
    let mut wanted = 1;
    dims.contains(&0)
        || dims.iter().zip(strides).rev().all(|(&size, &stride)| {
            let fits = size == 1 || stride == wanted;
            wanted *= size;
            fits
        })
}

/// Copies an array with any strides to a row-major one.
///
/// # Safety
/// `to` has room for all elements, each of `size` bytes, and every element at the given strides
/// from `from` can be read.
unsafe fn gather(to: &mut [u8], from: *const u8, (dims, strides): (&[i64], &[i64]), size: usize) {
    let mut index = vec![0i64; dims.len()];
    for target in to.chunks_exact_mut(size) {
        let place: i64 = index
            .iter()
            .zip(strides)
            .map(|(i, stride)| i * stride)
            .sum();
        // SAFETY: the caller promises that every element can be read, and `to` has room for all.
        unsafe {
            let element = from.offset(place as isize * size as isize);
            ptr::copy_nonoverlapping(element, target.as_mut_ptr(), size);
        }
        for (i, &end) in index.iter_mut().zip(dims).rev() {
            *i += 1;
            if *i < end {
                break;
            }
            *i = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn every_type_goes_out_and_in() {
        for (element_type, ..) in TYPES {
            let shape = ArrayShape::new(element_type, &[2, 3]);
            let bytes: Vec<u8> = (0..6 * element_type.storage_bytes() as u8).collect();
            let bytes = match element_type {
                ElementType::Pred => vec![0, 1, 1, 0, 1, 0],
                _ => bytes,
            };
            let tensor = Tensor::from(Literal::from_bytes(&shape, &bytes).expect("an array"));
            let given = tensor.clone().into_dlpack().expect("DLPack has it");
            // SAFETY: the array is valid, and passed to this call only.
            let back = unsafe { Tensor::from_dlpack(given) }.expect("it was ours");
            assert_eq!(back, tensor);
            let given = tensor
                .clone()
                .into_dlpack_unversioned()
                .expect("DLPack has it");
            // SAFETY: the array is valid, and passed to this call only.
            let back = unsafe { Tensor::from_dlpack_unversioned(given) }.expect("it was ours");
            assert_eq!(back, tensor);
        }
        let packed = ArrayShape::new(ElementType::S4, &[2]);
        let packed = Tensor::from(Literal::zeros(&packed).expect("an array"));
        assert_eq!(
            packed.into_dlpack().expect_err("packed").kind,
            ErrorKind::Unsupported
        );
    }

    #[test]
    fn nothing_is_copied_that_lies_row_major() {
        let tensor = Tensor::from_slice(&[64], &[1.0_f32; 64]).expect("an array");
        let address = tensor.literal().bytes().as_ptr();
        let given = tensor.into_dlpack().expect("DLPack has it");
        // SAFETY: the array is valid, and passed to this call only.
        let back = unsafe { Tensor::from_dlpack(given) }.expect("it was ours");
        assert_eq!(back.literal().bytes().as_ptr(), address);
        let clone = back.clone();
        drop(back);
        assert_eq!(clone.as_slice::<f32>(), Some(&[1.0; 64][..]));
    }

    static DELETED: AtomicUsize = AtomicUsize::new(0);

    unsafe extern "C" fn count(managed: *mut DLManagedTensorVersioned) {
        DELETED.fetch_add(1, Ordering::Relaxed);
        // SAFETY: `foreign` made the box, and it is freed once.
        drop(unsafe { Box::from_raw(managed) });
    }

    /// An array `0, 1, ...` that another library owns.
    fn foreign(
        data: &mut [i32],
        dims: &mut [i64],
        strides: &mut [i64],
        change: impl FnOnce(&mut DLManagedTensorVersioned),
    ) -> Result<Tensor, Error> {
        let mut managed = Box::new(DLManagedTensorVersioned {
            version: VERSION,
            context: ptr::null_mut(),
            deleter: Some(count),
            flags: 1,
            tensor: DLTensor {
                data: data.as_mut_ptr().cast(),
                device: DLDevice { kind: CPU, id: 0 },
                ndim: dims.len() as i32,
                dtype: DLDataType {
                    code: 0,
                    bits: 32,
                    lanes: 1,
                },
                shape: dims.as_mut_ptr(),
                strides: strides.as_mut_ptr(),
                byte_offset: 4,
            },
        });
        change(&mut managed);
        // SAFETY: the array is valid as long as the slices, and passed to this call only.
        unsafe { Tensor::from_dlpack(NonNull::from(Box::leak(managed))) }
    }

    #[test]
    fn strides_are_followed_and_what_is_strange_is_refused() {
        let mut data: Vec<i32> = (0..13).collect();
        let (mut dims, mut strides) = ([3, 2], [1, 6]);
        let turned = foreign(&mut data, &mut dims, &mut strides, |_| {}).expect("any strides");
        assert_eq!(turned.as_slice::<i32>(), Some(&[1, 7, 2, 8, 3, 9][..]));
        let none =
            |managed: &mut DLManagedTensorVersioned| managed.tensor.strides = ptr::null_mut();
        let dense = foreign(&mut data, &mut dims, &mut strides, none).expect("dense");
        assert_eq!(dense.as_slice::<i32>(), Some(&[1, 2, 3, 4, 5, 6][..]));
        drop((turned, dense));
        assert_eq!(DELETED.swap(0, Ordering::Relaxed), 2);
        type Change = fn(&mut DLManagedTensorVersioned);
        let strange: [Change; 6] = [
            |managed| managed.version.major = 2,
            |managed| managed.tensor.device.kind = 2,
            |managed| managed.tensor.dtype.lanes = 4,
            |managed| managed.tensor.dtype.code = 99,
            |managed| {
                managed.tensor.data = ptr::null_mut();
                managed.tensor.byte_offset = 0;
            },
            |managed| {
                // SAFETY: the array has two sizes.
                unsafe { *managed.tensor.shape = i64::MAX }
            },
        ];
        for change in strange {
            let (mut dims, mut strides) = ([3, 2], [2, 1]);
            foreign(&mut data, &mut dims, &mut strides, change).expect_err("strange");
        }
        assert_eq!(DELETED.load(Ordering::Relaxed), strange.len());
        let mut empty = [0, 4];
        let empty = foreign(&mut data, &mut empty, &mut strides, |managed| {
            managed.tensor.data = ptr::null_mut();
        });
        assert_eq!(empty.expect("no elements").literal().len(), 0);
    }
}
