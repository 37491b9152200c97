//! Tensors in the memory of the engine's buffers. A buffer goes back to the pool when its last tensor is dropped.

use attentive_engine::Buffer;
use burn::backend::flex::FlexTensor;
use burn::tensor::{AllocationProperty, Bytes, DType, TensorData};
use burn_std::{AccessError, AccessPolicy, AllocationController};
use std::mem::MaybeUninit;

struct Pooled(Buffer);

impl AllocationController for Pooled {
    fn alloc_align(&self) -> usize {
        Buffer::ALIGNMENT
    }

    fn property(&self) -> AllocationProperty {
        AllocationProperty::Other
    }

    unsafe fn memory_mut(&mut self, _: AccessPolicy) -> Result<&mut [MaybeUninit<u8>], AccessError> {
        let floats = self.0.as_mut_slice();
        // SAFETY: the same memory as bytes; the caller guarantees to write nothing uninitialised, and any bytes are
        // valid floats.
        Ok(unsafe { std::slice::from_raw_parts_mut(floats.as_mut_ptr().cast(), size_of_val(floats)) })
    }

    fn memory(&self, _: AccessPolicy) -> Result<&[MaybeUninit<u8>], AccessError> {
        let floats = self.0.as_slice();
        // SAFETY: the same memory as bytes, for as long.
        Ok(unsafe { std::slice::from_raw_parts(floats.as_ptr().cast(), size_of_val(floats)) })
    }
}

/// A tensor of the first floats of a buffer.
pub(super) fn pooled(buffer: Buffer, shape: Vec<usize>) -> FlexTensor {
    let len = shape.iter().product::<usize>();
    assert!(len <= buffer.as_slice().len());
    // SAFETY: the buffer has at least this many bytes, and a buffer is fully initialised.
    let bytes = unsafe { Bytes::from_controller(Box::new(Pooled(buffer)), len * size_of::<f32>()) };
    FlexTensor::from_data(TensorData::from_bytes(bytes, shape, DType::F32))
}
