//! [`DeviceName`]: the device that a model runs on, and its translation into a device of Burn.

use crate::error::{LabError, Result};
use burn::tensor::Device;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// The device that a model runs on: the values of `--device`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceName {
    /// The processor, with the fused engine
    #[default]
    Cpu,
    /// A GPU through Vulkan, Metal or DirectX; needs a build with the feature `wgpu`
    Wgpu,
    /// An NVIDIA GPU through CUDA; needs a build with the feature `cuda`
    Cuda,
}

impl DeviceName {
    /// The device, ready to use and without autodiff. The error says what is missing if this build or this machine
    /// lacks it.
    pub fn open(self) -> Result<Device> {
        match self {
            Self::Cpu => Ok(cpu()),
            #[cfg(feature = "wgpu")]
            Self::Wgpu => wgpu(),
            #[cfg(feature = "cuda")]
            Self::Cuda => cuda(),
            #[cfg(not(all(feature = "wgpu", feature = "cuda")))]
            other => {
                let feature = other.name();
                Err(LabError::Config(format!(
                    "sab was built without {feature}; install it with `cargo install --path crates/sab --features \
                     {feature}`"
                )))
            }
        }
    }

    /// The name as users write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Wgpu => "wgpu",
            Self::Cuda => "cuda",
        }
    }
}

/// Burn's CPU backend, which the fused engine runs on.
pub(crate) fn cpu() -> Device {
    Device::flex()
}

/// The name that a GPU gives itself; none for the CPU.
#[cfg(any(feature = "wgpu", feature = "cuda"))]
pub(crate) fn adapter(device: &Device) -> Option<String> {
    device.clone().inner().identity().map(|identity| identity.name)
}

/// The name that a GPU gives itself; none for the CPU.
#[cfg(not(any(feature = "wgpu", feature = "cuda")))]
pub(crate) fn adapter(_: &Device) -> Option<String> {
    None
}

#[cfg(feature = "wgpu")]
fn wgpu() -> Result<Device> {
    use burn::tensor::DeviceKind;
    use burn::tensor::wgpu::WgpuInitError;
    use std::sync::OnceLock;

    // If Burn opens the device at the first tensor, it panics without an adapter; opened here, it returns an error. A
    // process can open it once.
    static OPENED: OnceLock<std::result::Result<Device, String>> = OnceLock::new();
    let opened = OPENED.get_or_init(|| match Device::wgpu_options().init() {
        Ok(device) => Ok(device),
        // It is already open.
        Err(WgpuInitError::Registration { .. }) => Ok(Device::wgpu(DeviceKind::DefaultDevice)),
        Err(why) => Err(why.to_string()),
    });
    opened.clone().map_err(|why| {
        LabError::Config(format!(
            "`--device wgpu` finds no GPU on this machine ({why}): install its driver for Vulkan, or use `--device cpu`"
        ))
    })
}

#[cfg(feature = "cuda")]
fn cuda() -> Result<Device> {
    use burn::tensor::DeviceType;

    // Burn panics at the first tensor if there is no driver or no GPU, so the list of devices is read first.
    let found = Device::enumerate(DeviceType::Cuda);
    found.into_iter().next().ok_or_else(|| {
        LabError::Config(
            "`--device cuda` finds no NVIDIA GPU or no driver for it on this machine: use `--device cpu`".into(),
        )
    })
}
